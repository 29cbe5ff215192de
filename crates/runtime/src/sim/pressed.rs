//! Memory within one turn: thousands of connections that answer at once keep to the step that the first of them cause.

use super::Sim;
use crate::memory::{Budget, Step};
use crate::session::{Accepted, Action, Event, NoJob, Service, Session, Tx, Unshared};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Bytes, Duration, Instant};

/// Bytes of an answer, and of one under pressure.
const LONG: usize = 64 << 10;
const SHORT: usize = 64;

/// Answers what comes, at length unless memory is short.
struct Verbose {
    budget: Arc<Budget>,
    said: Arc<AtomicU64>,
    /// How often it was asked to close what it keeps idle.
    spared: Arc<AtomicU64>,
}

struct Speech {
    budget: Arc<Budget>,
    said: Arc<AtomicU64>,
}

impl Session for Speech {
    type Cx = Unshared<NoJob>;

    fn handle(&mut self, _: &mut Self::Cx, event: Event<'_, NoJob>, tx: &mut Tx, _: Instant) {
        if let Event::Bytes(_) = event {
            let is_calm = self.budget.step() == Step::Calm;
            let bytes = if is_calm { LONG } else { SHORT };
            tx.head.resize(tx.head.len() + bytes, b'.');
            self.said.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    fn poll(&mut self, _: &mut Self::Cx, _: &mut Tx, _: Instant) -> Action<NoJob> {
        Action::Read
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn closed(&mut self, _: &mut Self::Cx, _: Instant) {}
}

impl Service for Verbose {
    type Session = Speech;

    fn context(&self, _: usize) -> Unshared<NoJob> {
        Unshared::default()
    }

    fn accept(&self, _: &mut Unshared<NoJob>, _: &Accepted, _: Instant) -> Option<Speech> {
        Some(Speech {
            budget: Arc::clone(&self.budget),
            said: Arc::clone(&self.said),
        })
    }

    fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.budget)
    }

    fn close_idle(&self) -> bool {
        self.spared.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn grace(&self) -> Duration {
        Duration::ZERO
    }
}

#[test]
fn a_step_holds_within_the_turn_that_makes_it_due() {
    let said = Arc::new(AtomicU64::new(0));
    let used = Arc::clone(&said);
    let limit = Bytes::mib(8);
    let budget = Budget::scripted(limit, move || used.load(Ordering::Relaxed));
    let budget = Arc::new(budget);
    let mut sim = Sim::new(Verbose {
        budget: Arc::clone(&budget),
        said: Arc::clone(&said),
        spared: Arc::default(),
    });
    let clients: Vec<_> = (0..1_000).map(|_| sim.connect_local()).collect();
    for &client in &clients {
        sim.stop_reading_after(client, 0);
    }
    // In one turn.
    for client in clients {
        sim.queue(client, b"speak");
    }
    sim.settle();
    assert_eq!(budget.step(), Step::Reading);
    let said = said.load(Ordering::Relaxed);
    assert!(said < limit.0 / 2, "{said} bytes are held in place of 64 MiB");
}

#[test]
fn a_service_closes_what_it_keeps_idle_when_memory_is_short() {
    let (used, spared) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let limit = Bytes::mib(8);
    let reading = Arc::clone(&used);
    let budget = Budget::scripted(limit, move || reading.load(Ordering::Relaxed));
    let budget = Arc::new(budget);
    let mut sim = Sim::new(Verbose {
        budget: Arc::clone(&budget),
        said: Arc::default(),
        spared: Arc::clone(&spared),
    });
    let client = sim.connect_local();
    sim.send(client, b"speak");
    assert_eq!((budget.step(), spared.load(Ordering::Relaxed)), (Step::Calm, 0));
    used.store(limit.0, Ordering::Relaxed);
    sim.advance(Duration::from_secs(1));
    sim.send(client, b"speak");
    assert!(budget.step() >= Step::Idle);
    assert!(spared.load(Ordering::Relaxed) > 0);
}
