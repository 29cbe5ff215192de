//! At a service's limit: whom a connection that finds no place costs its own.

use runtime::sim::Sim;
use runtime::{Accepted, Action, Event, NoJob, Service, Session, Tx, Unshared};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use units::{Duration, Instant};

/// Two places. A connection keeps its own until it says `rest`.
#[derive(Default)]
struct TwoPlaces(Arc<AtomicUsize>);

struct Guest {
    idle_since: Option<Instant>,
    is_closing: bool,
    taken: Arc<AtomicUsize>,
}

impl Session for Guest {
    type Cx = Unshared<NoJob>;

    fn handle(&mut self, _: &mut Self::Cx, event: Event<'_, NoJob>, _: &mut Tx, now: Instant) {
        match event {
            Event::Bytes(_) => self.idle_since = Some(now),
            Event::GiveWay(_) | Event::Eof | Event::Lost(_) => self.is_closing = true,
            _ => {}
        }
    }

    fn poll(&mut self, _: &mut Self::Cx, _: &mut Tx, _: Instant) -> Action<NoJob> {
        match self.is_closing {
            true => Action::Close,
            false => Action::Read,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn idle_since(&self, _: &Self::Cx) -> Option<Instant> {
        self.idle_since
    }

    fn closed(&mut self, _: &mut Self::Cx, _: Instant) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Service for TwoPlaces {
    type Session = Guest;

    fn context(&self, _: usize) -> Unshared<NoJob> {
        Unshared::default()
    }

    fn accept(&self, _: &mut Unshared<NoJob>, _: &Accepted, _: Instant) -> Option<Guest> {
        if self.is_full() {
            return None;
        }
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(Guest {
            idle_since: None,
            is_closing: false,
            taken: Arc::clone(&self.0),
        })
    }

    fn is_full(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= 2
    }

    fn grace(&self) -> Duration {
        Duration::ZERO
    }
}

#[test]
fn who_becomes_idle_after_a_refusal_stays() {
    let mut sim = Sim::new(TwoPlaces::default());
    let (one, two) = (sim.connect_local(), sim.connect_local());
    let refused = sim.connect_local();
    sim.advance(Duration::from_millis(2_600));
    assert!(sim.is_closed(refused), "nobody was idle for as long as it waits");
    sim.send(one, b"rest");
    sim.advance(Duration::from_millis(100));
    assert!(
        !sim.is_closed(one) && !sim.is_closed(two),
        "nobody waits any more"
    );
}

#[test]
fn who_is_idle_gives_way_to_one_who_waits() {
    let mut sim = Sim::new(TwoPlaces::default());
    let (one, two) = (sim.connect_local(), sim.connect_local());
    let waits = sim.connect_local();
    sim.advance(Duration::from_millis(500));
    assert!(!sim.is_closed(waits));
    sim.send(one, b"rest");
    sim.advance(Duration::from_millis(200));
    assert!(sim.is_closed(one), "it was idle");
    assert!(!sim.is_closed(two) && !sim.is_closed(waits));
}
