//! Calls that are due at an instant, made by one thread: however many there are, none of them occupies a thread until it is
//! due. What is called, only the caller knows.
//!
//! The thread starts with the first alarm, so a process that sets none has no thread (one that only forks, for example).
//! Once the owner is gone, it makes the calls that are left, and ends.

use crate::clock;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use units::Instant;

/// A number of calls that are due later.
pub struct Alarms {
    name: &'static str,
    waiting_max: usize,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// ```text
///  NEW ── first alarm ──▶ RUNNING ── owner gone ──▶ CLOSED, until no alarm is left
/// ```
#[derive(Default)]
struct Queue {
    waiting: BinaryHeap<Alarm>,
    /// Number of alarms so far.
    count: u64,
    has_thread: bool,
    is_closed: bool,
}

struct Alarm {
    at: Instant,
    /// Of those due at the same instant, the first one set rings first.
    number: u64,
    ring: Box<dyn FnOnce() + Send>,
}

impl Alarms {
    /// Up to `waiting_max` calls may wait. `name` is that of the thread.
    pub fn new(name: &'static str, waiting_max: usize) -> Alarms {
        Alarms {
            name,
            waiting_max,
            shared: Arc::default(),
        }
    }

    /// Whether `at` has passed, by the clock that alarms follow.
    pub fn has_passed(at: Instant) -> bool {
        clock::now() >= at
    }

    /// Blocks this thread until `at`.
    pub fn sleep_until(at: Instant) {
        clock::pause(at.since(clock::now()));
    }

    /// Calls `ring` at `at`, or a moment later, on the thread of these alarms. It should take no time: other calls wait
    /// meanwhile. If it panics, only that call is lost.
    ///
    /// # Errors
    /// `ring`, if too many calls wait or the system has no thread.
    pub fn set<F: FnOnce() + Send + 'static>(&self, at: Instant, ring: F) -> Result<(), F> {
        let mut queue = self.shared.lock();
        if queue.waiting.len() >= self.waiting_max {
            return Err(ring);
        }
        if !queue.has_thread {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name(self.name.into());
            if let Err(error) = thread.spawn(move || shared.run()) {
                tracing::warn!("no thread for {}: {error}", self.name);
                return Err(ring);
            }
            queue.has_thread = true;
        }
        queue.count += 1;
        let number = queue.count;
        queue.waiting.push(Alarm {
            at,
            number,
            ring: Box::new(ring),
        });
        drop(queue);
        self.shared.changed.notify_one();
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut queue = self.lock();
        loop {
            let now = clock::now();
            let next = queue.waiting.peek().map(|first| first.at);
            queue = match next {
                None if queue.is_closed => return,
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(at) if at > now => {
                    let woken = self.changed.wait_timeout(queue, at.since(now));
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let due = queue.waiting.pop();
                    drop(queue);
                    if let Some(alarm) = due {
                        // The panic hook has reported the panic.
                        let _ = catch_unwind(AssertUnwindSafe(alarm.ring));
                    }
                    self.lock()
                }
            };
        }
    }
}

impl Drop for Alarms {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_one();
    }
}

impl fmt::Debug for Alarms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarms")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The greatest is the one that is due first, because the heap gives the greatest.
impl Ord for Alarm {
    fn cmp(&self, other: &Alarm) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Alarm) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Alarm) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Alarm {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use units::Duration;

    #[test]
    fn calls_are_made_when_they_are_due_and_the_first_first() {
        let alarms = Alarms::new("test", 10);
        let (ring, rung) = mpsc::channel();
        let began = clock::now();
        // All of them are set long before the first but one is due.
        for delay in [660, 620, 640, 0, 620] {
            let ring = ring.clone();
            let at = began + Duration::from_millis(delay);
            let set = alarms.set(at, move || {
                let is_due = Alarms::has_passed(at);
                ring.send((delay, is_due)).unwrap();
            });
            assert!(set.is_ok());
        }
        let all: Vec<(u64, bool)> = rung.iter().take(5).collect();
        assert!(all.iter().all(|(_, is_due)| *is_due), "{all:?}");
        // The one that was due at once may have rung before the others were set.
        let order: Vec<u64> = all
            .iter()
            .map(|(delay, _)| *delay)
            .filter(|delay| *delay > 0)
            .collect();
        assert_eq!(order, [620, 620, 640, 660]);
        assert!(clock::now().since(began) >= Duration::from_millis(660));
    }

    #[test]
    fn so_many_wait_and_no_more() {
        let alarms = Alarms::new("test", 2);
        let later = clock::now() + Duration::from_secs(3_600);
        let (ring, rung) = mpsc::channel();
        let set = |at, what| {
            let ring = ring.clone();
            alarms.set(at, move || ring.send(what).unwrap()).is_ok()
        };
        assert!(set(later, 1) && set(later, 2));
        assert!(!set(later, 3) && !set(Instant::ZERO, 4));
        assert!(rung.try_recv().is_err());
    }

    #[test]
    fn a_panic_costs_one_call_and_an_owner_that_leaves_none() {
        let alarms = Alarms::new("test", 3);
        let (ring, rung) = mpsc::channel();
        let now = clock::now();
        assert!(alarms.set(now, || panic!("on purpose")).is_ok());
        let due = now + Duration::from_millis(30);
        let kept = ring.clone();
        assert!(alarms.set(due, move || ring.send(7).unwrap()).is_ok());
        drop(alarms);
        assert_eq!(rung.recv(), Ok(7));
        drop(kept);
        // The thread has dropped all that it had to call.
        assert!(rung.recv().is_err());
    }
}
