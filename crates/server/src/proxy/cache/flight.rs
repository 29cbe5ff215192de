//! Requests under way for responses that others want, too (collapsed forwarding): one goes to the upstream, the others wait
//! and are woken when its response is stored, or when it is clear that it will not be.
//!
//! ```text
//!   enter ─┬─ first ──▶ Lead, until dropped ─────────────┐ wakes
//!          └─ others ─▶ Waiter ── a job of the driver ───┴──▶ look again
//!
//!   Held ── depart ─▶ Asked ── answered ─▶ Answered ── dropped ─▶ over
//! ```
//! Decides how long the others wait. The first request may be held up by its client, which opens many connections or takes its
//! response slowly, so only the upstream's own time is awaited for long.

use std::collections::HashMap;
use std::fmt;
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
    is_over: bool,
    progress: Progress,
    count: usize,
    wakes: Vec<Wake>,
}

impl Flight {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part of a request in a flight.
#[derive(Debug)]
pub(crate) enum Part {
    Lead(Lead),
    Waiter(Waiter),
    /// Too many wait: it goes alone.
    Alone,
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

/// A request that waits for another.
#[derive(Clone)]
pub(crate) struct Waiter(Arc<Flight>);

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
        let mut by_key = self.lock();
        if let Some(flight) = by_key.get(&key) {
            let mut waiting = flight.lock();
            if waiting.count >= WAITERS_MAX {
                return Part::Alone;
            }
            waiting.count += 1;
            return Part::Waiter(Waiter(Arc::clone(flight)));
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
    /// A request that waits for this one.
    pub(crate) fn waiter(&self) -> Waiter {
        self.flight.lock().count += 1;
        Waiter(Arc::clone(&self.flight))
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
        self.flights.lock().remove(&self.key);
        let wakes = {
            let mut waiting = self.flight.lock();
            waiting.is_over = true;
            std::mem::take(&mut waiting.wakes)
        };
        for wake in wakes {
            wake();
        }
    }
}

impl Waiter {
    /// Whether nothing is waited for any more.
    pub(crate) fn is_over(&self) -> bool {
        self.0.lock().is_over
    }

    /// How long the response is still worth waiting for, for a request that waits `since` then; `most`: for its head. Zero: no
    /// longer.
    pub(super) fn patience(&self, since: Instant, most: Duration, now: Instant) -> Duration {
        let waiting = self.0.lock();
        let until = match waiting.progress {
            _ if waiting.is_over => return Duration::ZERO,
            Progress::Held => since + HELD_MAX.min(most),
            Progress::Asked => since + most,
            Progress::Answered(head) => head + CONTENT_MAX.min(most),
        };
        until.since(now)
    }

    /// Whether the content has been awaited for too long by others.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        matches!(self.0.lock().progress, Progress::Answered(head) if now.since(head) >= CONTENT_MAX)
    }

    /// Calls `wake` once the response is there or will not come; at once, if that is so already.
    pub(crate) fn wake_with(self, wake: impl FnOnce() + Send + 'static) {
        let mut waiting = self.0.lock();
        if waiting.is_over {
            drop(waiting);
            return wake();
        }
        waiting.wakes.push(Box::new(wake));
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
        let mut late = None;
        for at in 0..WAITERS_MAX {
            let Part::Waiter(waiter) = flights.enter(b"a".to_vec()) else {
                panic!("waiter {at}")
            };
            assert!(!waiter.is_over());
            if at == 0 {
                late = Some(waiter);
                continue;
            }
            let woken = Arc::clone(&woken);
            waiter.wake_with(move || {
                woken.fetch_add(1, Ordering::Relaxed);
            });
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
        drop(lead);
        assert_eq!(woken.load(Ordering::Relaxed), WAITERS_MAX as u32 - 1);
        let late = late.unwrap();
        assert!(late.is_over());
        let counts = Arc::clone(&woken);
        late.wake_with(move || {
            counts.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(woken.load(Ordering::Relaxed), WAITERS_MAX as u32);
        assert!(matches!(flights.enter(b"a".to_vec()), Part::Lead(_)));
    }
}
