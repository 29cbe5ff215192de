//! Against crate `h3`, in both roles: seeded exchanges over streams in memory. Fields, bodies, trailers and resets must arrive as
//! sent, whatever the pieces and the room of the streams.

mod ours;
mod plan;
mod theirs;
mod wire;

use http3::Limits;
use http3::connection::{Client, Server};
use ours::{Ours, Role};
use plan::{By, Seen, check, exchanges, one_of};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use theirs::{Log, Task, Tasks};
use units::Seed;
use wire::Quic;

const SEEDS: u64 = 25;

/// Runs both ends until ours is done and all tasks of theirs are, except for the first: the connection itself.
fn run<R: Role>(mut ours: Ours<R>, first: Task, tasks: &Tasks, label: &str) -> Vec<Seen> {
    let (mut running, mut context) = (vec![first], Context::from_waker(Waker::noop()));
    let mut idle = 0;
    loop {
        let moved = ours.turn().unwrap_or_else(|fault| panic!("{label}: {fault}"));
        running.retain_mut(|task| task.as_mut().poll(&mut context) == Poll::Pending);
        running.append(&mut tasks.lock().expect("no test thread panicked"));
        if ours.is_done() && running.len() <= 1 {
            return ours.seen;
        }
        // Both ends wait for each other.
        idle = if moved { 0 } else { idle + 1 };
        assert!(idle < 20, "{label}: nothing moves; {} tasks", running.len());
    }
}

/// Runs a pair for every seed and checks what both ends saw.
fn differential<R: Role>() {
    let (mut whole, mut all) = (0, 0);
    for seed in 0..SEEDS {
        let plan = Arc::new(exchanges(seed));
        let mut rng = Seed(seed ^ 0x5e77).rng();
        let quic = Quic::new(R::ROLE == By::Server, one_of(&mut rng, &[40, 1_000, 20_000]));
        let limits = Limits {
            table_bytes: one_of(&mut rng, &[0, 4_096]),
            blocked_max: 16,
            ..Limits::DEFAULT
        };
        let log: Log = Arc::new(Mutex::new(vec![Seen::default(); plan.len()]));
        let tasks = Tasks::default();
        let first: Task = match R::ROLE {
            By::Client => Box::pin(theirs::serve(
                quic.clone(),
                plan.clone(),
                log.clone(),
                tasks.clone(),
            )),
            By::Server => Box::pin(theirs::fetch(
                quic.clone(),
                plan.clone(),
                log.clone(),
                tasks.clone(),
            )),
        };
        let ours = Ours::<R>::new(quic.clone(), limits, plan.clone(), rng);
        let seen = run(ours, first, &tasks, &format!("seed {seed}"));
        let other = match R::ROLE {
            By::Client => By::Server,
            By::Server => By::Client,
        };
        let theirs = log.lock().expect("no test thread panicked");
        for (at, exchange) in plan.iter().enumerate() {
            let label = format!("seed {seed}, exchange {at}");
            let near = check(&seen[at], R::ROLE, exchange, &format!("{label}, ours"));
            let far = check(&theirs[at], other, exchange, &format!("{label}, theirs"));
            (whole, all) = (whole + u64::from(near && far), all + 1);
        }
        let closed = quic.wire().closed;
        assert!(
            closed.is_none_or(|code| code == http3::Code::NO_ERROR.0),
            "{closed:?}"
        );
    }
    assert!(
        whole > all / 2 && all - whole > 3 * SEEDS,
        "{whole} whole of {all}"
    );
}

#[test]
fn our_client_and_the_server_of_h3() {
    differential::<Client>();
}

#[test]
fn our_server_and_the_client_of_h3() {
    differential::<Server>();
}
