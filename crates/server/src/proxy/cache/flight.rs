//! Requests under way for responses that others want, too (collapsed forwarding): one goes to the upstream, the others wait
//! and are woken when its response is stored, or when it is clear that it will not be.
//!
//! ```text
//!   enter ─┬─ first ──▶ Lead, until dropped ──────────────────────┐ wakes
//!          └─ others ─▶ WaitGuard ── Waiter, a job of the driver ─┴─▶ look again
//!                                    it takes too long ─▶ succeed ─▶ as after enter
//!
//!   Held ── depart ─▶ Asked ── answered ─▶ Answered ── dropped ─▶ over
//! ```
//! Decides how long the others wait. The first request may be held up by its client, which opens many connections or takes its
//! response slowly, so only the upstream's own time is awaited for long. Then one of the others leads a new flight in its place.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{Duration, Instant};

/// Most requests that wait for one response. Others go to the upstream.
pub(super) const WAITERS_MAX: usize = 1_024;

/// Longest wait for the content of a response after its head.
const CONTENT_MAX: Duration = Duration::from_secs(5);

/// Longest wait for a request that has not gone to the upstream.
const HELD_MAX: Duration = Duration::from_secs(5);

/// What wakes a waiter.
type Wake = Box<dyn FnOnce() + Send>;

/// The requests under way.
#[derive(Default)]
pub(crate) struct Flights {
    by_key: Mutex<HashMap<Vec<u8>, Arc<Flight>>>,
}

impl fmt::Debug for Flights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Flight(Mutex<Waiting>);

/// How far the first request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    /// It waits for a connection to the upstream.
    #[default]
    Held,
    /// The upstream has it, or gets it.
    Asked,
    /// The head of a response that is to be stored came at this time.
    Answered(Instant),
}

#[derive(Default)]
struct Waiting {
    progress: Progress,
    /// The number of the next wait.
    next: u64,
    /// The waits that are not over, by number, and what wakes each once its job has begun.
    wakes: HashMap<u64, Option<Wake>>,
}

impl Flight {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether others have awaited the content for too long.
    fn is_late(&self, now: Instant) -> bool {
        matches!(self.lock().progress, Progress::Answered(head) if now.since(head) >= CONTENT_MAX)
    }

    /// Another request waits.
    fn join(self: &Arc<Flight>) -> WaitGuard {
        let mut waiting = self.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.wakes.insert(number, None);
        WaitGuard(Waiter {
            flight: Arc::clone(self),
            number,
        })
    }
}

/// The part of a request in a flight.
#[derive(Debug)]
pub(crate) enum Part {
    Lead(Lead),
    Wait(WaitGuard),
    /// Too many wait: it goes alone.
    Alone,
}

impl Part {
    /// The lead, if the request has it.
    pub(super) fn lead(self) -> Option<Lead> {
        match self {
            Part::Lead(lead) => Some(lead),
            Part::Wait(_) | Part::Alone => None,
        }
    }
}

/// The request that others wait for. They are woken when this is dropped.
pub(crate) struct Lead {
    flights: Arc<Flights>,
    key: Vec<u8>,
    flight: Arc<Flight>,
}

impl fmt::Debug for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead").finish_non_exhaustive()
    }
}

/// The wait of a request for another, which is over when this is dropped. The driver's job then ends at once.
#[derive(Debug)]
pub(crate) struct WaitGuard(Waiter);

impl Deref for WaitGuard {
    type Target = Waiter;

    fn deref(&self) -> &Waiter {
        &self.0
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A wait, as the driver's job knows it.
#[derive(Clone)]
pub(crate) struct Waiter {
    flight: Arc<Flight>,
    number: u64,
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").finish_non_exhaustive()
    }
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<Flight>>> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes part in the flight of this key.
    pub(crate) fn enter(self: &Arc<Flights>, key: Vec<u8>) -> Part {
        self.enter_unless(key, |_| false)
    }

    /// As [`Flights::enter`], but leads a new flight in place of that of `slow`, and of one whose content is late.
    pub(super) fn succeed(self: &Arc<Flights>, key: Vec<u8>, slow: Option<&Waiter>, now: Instant) -> Part {
        self.enter_unless(key, |flight| {
            slow.is_some_and(|slow| Arc::ptr_eq(flight, &slow.flight)) || flight.is_late(now)
        })
    }

    fn enter_unless(self: &Arc<Flights>, key: Vec<u8>, is_left: impl FnOnce(&Arc<Flight>) -> bool) -> Part {
        let mut by_key = self.lock();
        if let Some(flight) = by_key.get(&key)
            && !is_left(flight)
        {
            let waiting = flight.lock().wakes.len();
            if waiting >= WAITERS_MAX {
                return Part::Alone;
            }
            return Part::Wait(flight.join());
        }
        let flight = Arc::new(Flight::default());
        by_key.insert(key.clone(), Arc::clone(&flight));
        Part::Lead(Lead {
            flights: Arc::clone(self),
            key,
            flight,
        })
    }
}

impl Lead {
    /// A request waits for this one.
    pub(crate) fn wait(&self) -> WaitGuard {
        self.flight.join()
    }

    /// The request goes to the upstream.
    pub(super) fn depart(&self) {
        let mut waiting = self.flight.lock();
        if waiting.progress == Progress::Held {
            waiting.progress = Progress::Asked;
        }
    }

    /// The head of a response that is to be stored came.
    pub(super) fn answered(&self, now: Instant) {
        self.flight.lock().progress = Progress::Answered(now);
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        {
            let mut by_key = self.flights.lock();
            let flight = by_key.get(&self.key);
            // Another may have taken its place.
            if flight.is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
                by_key.remove(&self.key);
            }
        }
        let wakes = std::mem::take(&mut self.flight.lock().wakes);
        for wake in wakes.into_values().flatten() {
            wake();
        }
    }
}

impl Waiter {
    /// Whether nothing is waited for any more: the flight is over, or the request has left it.
    pub(crate) fn is_over(&self) -> bool {
        !self.flight.lock().wakes.contains_key(&self.number)
    }

    /// The request waits no longer.
    pub(crate) fn leave(&self) {
        let wake = self.flight.lock().wakes.remove(&self.number);
        if let Some(Some(wake)) = wake {
            wake();
        }
    }

    /// Whether the request that is waited for may be held up by its client, and not by the upstream.
    pub(super) fn is_held_up(&self) -> bool {
        let waiting = self.flight.lock();
        waiting.wakes.contains_key(&self.number) && waiting.progress != Progress::Asked
    }

    /// How long the response is still worth waiting for, for a request that waits `since` then; `most`: for its head. Zero: no
    /// longer.
    pub(super) fn patience(&self, since: Instant, most: Duration, now: Instant) -> Duration {
        let waiting = self.flight.lock();
        let until = match waiting.progress {
            _ if !waiting.wakes.contains_key(&self.number) => return Duration::ZERO,
            Progress::Held => since + HELD_MAX.min(most),
            Progress::Asked => since + most,
            Progress::Answered(head) => head + CONTENT_MAX.min(most),
        };
        until.since(now)
    }

    /// Calls `wake` once the wait is over: the response is there, will not come, or is awaited no longer. At once, if that is so
    /// already.
    pub(crate) fn wake_with(self, wake: impl FnOnce() + Send + 'static) {
        let mut waiting = self.flight.lock();
        if let Some(known) = waiting.wakes.get_mut(&self.number) {
            *known = Some(Box::new(wake));
            return;
        }
        drop(waiting);
        wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn all_who_wait_are_woken_once_the_first_is_done() {
        let flights = Arc::new(Flights::default());
        let Part::Lead(lead) = flights.enter(b"a".to_vec()) else {
            panic!("nobody is before it")
        };
        let woken = Arc::new(AtomicU32::new(0));
        let count = |woken: Arc<AtomicU32>| {
            move || {
                woken.fetch_add(1, Ordering::Relaxed);
            }
        };
        let mut waits = Vec::new();
        for at in 0..WAITERS_MAX {
            let Part::Wait(wait) = flights.enter(b"a".to_vec()) else {
                panic!("waiter {at}")
            };
            assert!(!wait.is_over());
            if at > 0 {
                Waiter::clone(&wait).wake_with(count(Arc::clone(&woken)));
            }
            waits.push(wait);
        }
        assert!(
            matches!(flights.enter(b"a".to_vec()), Part::Alone),
            "there is a bound"
        );
        assert!(
            matches!(flights.enter(b"b".to_vec()), Part::Lead(_)),
            "another target"
        );
        assert_eq!(woken.load(Ordering::Relaxed), 0);
        drop(waits.pop());
        assert_eq!(
            woken.load(Ordering::Relaxed),
            1,
            "the job of one that leaves ends"
        );
        assert!(
            matches!(flights.enter(b"a".to_vec()), Part::Wait(_)),
            "its place is free"
        );
        drop(lead);
        assert_eq!(woken.load(Ordering::Relaxed), WAITERS_MAX as u32 - 1);
        assert!(waits.iter().all(|wait| wait.is_over()));
        // The job of the first begins now.
        Waiter::clone(&waits[0]).wake_with(count(Arc::clone(&woken)));
        assert_eq!(woken.load(Ordering::Relaxed), WAITERS_MAX as u32);
        assert!(matches!(flights.enter(b"a".to_vec()), Part::Lead(_)));
    }
}
