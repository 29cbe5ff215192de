//! Against crate `h2`, in both roles: seeded exchanges over a pipe in memory. Fields, bodies, trailers, interim responses and
//! resets must arrive as sent, whatever the windows, frames, tables and pieces.

mod ours;
mod pipe;
mod plan;
mod theirs;

use core::time::Duration;
use http2::Limits;
use http2::limits::Allowance;
use ours::Ours;
use plan::{By, Seen, check, exchanges, one_of};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use theirs::{Log, Settings};
use units::Seed;

const SEEDS: u64 = 25;

/// Windows, tables and streams on our side, and on that of `h2`.
fn settings(seed: u64) -> (Limits, Settings) {
    let mut rng = Seed(seed ^ 0x5e77).rng();
    let windows = [1_000, 16_384, 65_535, 200_000];
    let tables = [0, 100, 4_096, 65_536];
    let ours = Limits {
        stream_window: one_of(&mut rng, &windows),
        connection_window: one_of(&mut rng, &[65_535, 1 << 20]),
        table_bytes: one_of(&mut rng, &tables),
        encoder_bytes: one_of(&mut rng, &tables),
        streams_max: one_of(&mut rng, &[2, 5, 100]),
        table_time: Duration::ZERO,
        // A window of 1,000 bytes needs many, and here no time passes in which the allowance grows.
        small_updates: Allowance {
            burst: 100_000,
            per_second: 1,
        },
        ..Limits::DEFAULT
    };
    let theirs = Settings {
        window: one_of(&mut rng, &windows),
        frame: one_of(&mut rng, &[16_384, 20_000, 1 << 20]),
        table: one_of(&mut rng, &tables),
    };
    (ours, theirs)
}

/// Runs both ends on one thread; a minute is many times what they need.
fn run<T>(ends: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let limited = async { tokio::time::timeout(Duration::from_secs(60), ends).await };
    runtime
        .expect("it needs no resources")
        .block_on(limited)
        .expect("both ends finish")
}

/// Runs `pair` for every seed and checks what both ends saw.
fn differential(pair: impl Fn(u64, Log) -> (Vec<Seen>, By)) {
    let (mut whole, mut reset) = (0, 0);
    for seed in 0..SEEDS {
        let plan = exchanges(seed);
        let log: Log = Arc::new(Mutex::new(vec![Seen::default(); plan.len()]));
        let (seen, role) = pair(seed, log.clone());
        let other = match role {
            By::Client => By::Server,
            By::Server => By::Client,
        };
        let theirs = log.lock().expect("no thread panicked");
        for (at, exchange) in plan.iter().enumerate() {
            let label = format!("seed {seed}, exchange {at}");
            check(&seen[at], role, exchange, &label);
            check(&theirs[at], other, exchange, &label);
            whole += u64::from(seen[at].complete && theirs[at].complete);
            reset += u64::from(seen[at].reset.is_some() || theirs[at].reset.is_some());
        }
    }
    assert!(
        whole > 10 * SEEDS && reset > 3 * SEEDS,
        "{whole} whole, {reset} reset"
    );
}

/// A pipe in memory; a narrow one makes both ends wait often.
fn pipe(seed: u64) -> (tokio::io::DuplexStream, tokio::io::DuplexStream) {
    tokio::io::duplex(one_of(&mut Seed(seed).rng(), &[64, 1_000, 100_000]))
}

#[test]
fn our_client_and_the_server_of_h2() {
    differential(|seed, log| {
        let plan = Arc::new(exchanges(seed));
        let (limits, settings) = settings(seed);
        let (near, far) = pipe(seed);
        let ours = Ours::client(limits, plan.clone()).run(near, Seed(seed).rng());
        let seen = run(async {
            let theirs = tokio::spawn(theirs::serve(far, settings, plan, log));
            let seen = ours.await;
            theirs.await.expect("it did not panic");
            seen
        });
        (seen, By::Client)
    });
}

#[test]
fn our_server_and_the_client_of_h2() {
    differential(|seed, log| {
        let plan = Arc::new(exchanges(seed));
        let (limits, settings) = settings(seed);
        let (near, far) = pipe(seed);
        let ours = Ours::server(limits, plan.clone()).run(near, Seed(seed).rng());
        let seen = run(async {
            let theirs = tokio::spawn(theirs::fetch(far, settings, plan, log));
            let seen = ours.await;
            theirs.await.expect("it did not panic");
            seen
        });
        (seen, By::Server)
    });
    let emptied = ours::EMPTIED.load(Ordering::Relaxed);
    assert!(emptied >= 5, "{emptied} tables of the client emptied under way");
}
