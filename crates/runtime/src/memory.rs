//! The memory budget of a process: what connections hold, what the system counts as used, and which step to take.
//!
//! ```text
//!   workers: bytes held ──▶ held ── grew, or it is time ──▶ look: control group, resident memory ──▶ Pressure ──▶ step
//!      ▲                                                                                                        │
//!      └────────────────────── read less, answer less per turn, close the idle, refuse ◀────────────────────────┘
//! ```
//! The system's figures are authoritative, but reading them takes microseconds. The workers' count only adds to them
//! and tells when to read. Whichever worker finds a reading due takes it, so an idle server reads nothing. The budget
//! decides the step; workers and sessions know what a step means.

mod ebb;
mod pressure;
mod source;

pub(crate) use ebb::Ebb;
pub use pressure::Step;

use crate::sensors::cgroup::Used;
use pressure::Pressure;
use source::Source;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use units::{Bytes, Duration, Instant};

/// Interval of readings while memory is calm, and under pressure.
const LOOK_CALM: Duration = Duration::from_millis(250);
const LOOK_PRESSED: Duration = Duration::from_millis(50);
/// From this share of the budget on, in thousandths, readings are as frequent as under pressure.
const NEAR: u64 = 200;
/// A reading comes early once the held bytes have grown by the budget divided by this.
const GROWTH_SHARE: u64 = 64;

/// The memory limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// None.
    None,
    /// The limit of this process's control group, version 1 or 2, if it has one.
    #[default]
    Group,
    /// This limit for the process, in addition to its control group's.
    Told(Bytes),
}

/// The budget of one process, shared by its workers.
pub struct Budget {
    /// Bytes held by workers and sessions.
    held: AtomicI64,
    step: AtomicU8,
    /// Nanoseconds of the next reading.
    next_look: AtomicU64,
    /// Held bytes above which a reading is due at once.
    look_above: AtomicI64,
    /// The nearest limit and the use of it in bytes, at the last reading.
    limit: AtomicU64,
    used: AtomicU64,
    /// How often each step was entered since [`Budget::take_entered`]; the first is unused.
    entered: [AtomicU64; Step::COUNT],
    looking: Mutex<Looking>,
}

struct Looking {
    source: Source,
    pressure: Pressure,
    /// Detects when little memory is held any more, to return it to the system.
    ebb: Ebb,
}

impl Default for Budget {
    /// Without a limit.
    fn default() -> Budget {
        Budget::of(Source::none())
    }
}

impl Budget {
    /// A budget with this limit.
    pub fn new(bound: Bound) -> Budget {
        Budget::of(Source::of(bound))
    }

    fn of(source: Source) -> Budget {
        Budget {
            held: AtomicI64::new(0),
            step: AtomicU8::new(Step::Calm as u8),
            next_look: AtomicU64::new(0),
            look_above: AtomicI64::new(i64::MAX),
            limit: AtomicU64::new(source.limit().unwrap_or(0)),
            used: AtomicU64::new(0),
            entered: Default::default(),
            looking: Mutex::new(Looking {
                source,
                pressure: Pressure::default(),
                ebb: Ebb::of_bytes(),
            }),
        }
    }

    /// One whose use a test tells.
    #[cfg(test)]
    pub(crate) fn scripted(limit: Bytes, used: impl FnMut() -> u64 + Send + 'static) -> Budget {
        Budget::of(Source::scripted(limit.0, used))
    }

    /// Sets another limit.
    pub fn set(&self, bound: Bound) {
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        looking.source = Source::of(bound);
        looking.pressure = Pressure::default();
        self.step.store(Step::Calm as u8, Ordering::Relaxed);
        self.limit
            .store(looking.source.limit().unwrap_or(0), Ordering::Relaxed);
        self.look_above.store(i64::MAX, Ordering::Relaxed);
        self.used.store(0, Ordering::Relaxed);
        self.next_look.store(0, Ordering::Relaxed);
    }

    /// The step in force.
    #[inline]
    pub fn step(&self) -> Step {
        Step::of(self.step.load(Ordering::Relaxed))
    }

    /// The nearest limit in bytes; `None` without one.
    pub fn limit(&self) -> Option<Bytes> {
        let limit = self.limit.load(Ordering::Relaxed);
        (limit > 0).then_some(Bytes(limit))
    }

    /// Bytes used of [`Budget::limit`] at the last reading.
    pub fn used(&self) -> Bytes {
        Bytes(self.used.load(Ordering::Relaxed))
    }

    /// Bytes that connections hold beyond the needs of an idle one: waiting output, unprocessed input, requests that
    /// wait for a job.
    pub fn held(&self) -> Bytes {
        Bytes(self.held.load(Ordering::Relaxed).max(0).unsigned_abs())
    }

    /// How often each step was entered since the last call, in the order of [`Step::PRESSED`].
    pub fn take_entered(&self) -> [u64; Step::PRESSED.len()] {
        Step::PRESSED.map(|step| self.entered[step as usize].swap(0, Ordering::Relaxed))
    }

    /// Adds to the held bytes; subtracts if negative.
    #[inline]
    pub(crate) fn hold(&self, bytes: i64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts these bytes as held while the result lives.
    pub fn holding(self: &Arc<Budget>, bytes: usize) -> Holding {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.hold(bytes);
        Holding {
            budget: Arc::clone(self),
            bytes,
        }
    }

    /// Takes a reading if one is due. Called by every worker at every turn.
    #[inline]
    pub fn turn(&self, now: Instant) {
        if now.as_nanos() >= self.next_look.load(Ordering::Relaxed)
            || self.held.load(Ordering::Relaxed) > self.look_above.load(Ordering::Relaxed)
        {
            self.look(now);
        }
    }

    #[cold]
    fn look(&self, now: Instant) {
        // Another worker is taking the reading.
        let Ok(mut looking) = self.looking.try_lock() else {
            return;
        };
        let held = self.held.load(Ordering::Relaxed);
        if looking.ebb.is_low(held.max(0).unsigned_abs()) {
            crate::machine::give_memory_back_aside();
        }
        let Some(used) = looking.source.read() else {
            self.next_look
                .store((now + LOOK_CALM).as_nanos(), Ordering::Relaxed);
            return;
        };
        self.limit.store(used.limit, Ordering::Relaxed);
        self.used.store(used.bytes, Ordering::Relaxed);
        let before = looking.pressure.step();
        let step = looking.pressure.advance(used.thousandths(), now);
        if step != before {
            self.step.store(step as u8, Ordering::Relaxed);
            self.tell(before, step, used);
        }
        let often = step > Step::Calm || used.thousandths() >= NEAR;
        let span = if often { LOOK_PRESSED } else { LOOK_CALM };
        self.next_look.store((now + span).as_nanos(), Ordering::Relaxed);
        let growth = i64::try_from(used.limit / GROWTH_SHARE).unwrap_or(i64::MAX);
        self.look_above
            .store(held.saturating_add(growth), Ordering::Relaxed);
    }

    /// Logs and counts each step entered, in order.
    fn tell(&self, before: Step, now: Step, used: Used) {
        let share = used.thousandths() / 10;
        let (of, bytes) = (Bytes(used.limit), Bytes(used.bytes));
        if now < before {
            match now {
                Step::Calm => {
                    tracing::info!("memory: {bytes} of {of} used ({share} %): memory-saving steps lifted")
                }
                step => tracing::info!(
                    "memory: {bytes} of {of} used ({share} %): back to: {}",
                    step.effect()
                ),
            }
            return;
        }
        for step in Step::PRESSED {
            if before < step && step <= now {
                self.entered[step as usize].fetch_add(1, Ordering::Relaxed);
                tracing::warn!("memory: {bytes} of {of} used ({share} %): {}", step.effect());
            }
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("step", &self.step())
            .field("limit", &self.limit())
            .field("used", &self.used())
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}

/// Bytes counted as held until this is dropped.
#[derive(Debug)]
pub struct Holding {
    budget: Arc<Budget>,
    bytes: i64,
}

impl Holding {
    /// Changes the number of bytes counted.
    pub fn set(&mut self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.budget.hold(bytes - self.bytes);
        self.bytes = bytes;
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.budget.hold(-self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A budget of 64 MiB, and a setter of the MiB used.
    fn budget() -> (Budget, Arc<AtomicU64>) {
        let used = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&used);
        let budget = Budget::scripted(Bytes::mib(64), move || seen.load(Ordering::Relaxed) * MIB);
        (budget, used)
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn what_is_used_decides_the_step_and_each_step_on_the_way_is_counted() {
        let (budget, used) = budget();
        budget.turn(at(1));
        assert_eq!(
            (budget.step(), budget.limit()),
            (Step::Calm, Some(Bytes::mib(64)))
        );
        used.store(56, Ordering::Relaxed);
        budget.turn(at(2));
        assert_eq!(budget.step(), Step::Calm, "it is not time to look");
        budget.turn(at(300));
        assert_eq!((budget.step(), budget.used()), (Step::Idle, Bytes::mib(56)));
        assert_eq!(budget.take_entered(), [1, 1, 1, 0]);
        assert_eq!(budget.take_entered(), [0; 4]);
        used.store(62, Ordering::Relaxed);
        budget.turn(at(350));
        assert_eq!(
            (budget.step(), budget.take_entered()),
            (Step::Refusing, [0, 0, 0, 1])
        );
        used.store(1, Ordering::Relaxed);
        budget.turn(at(5_000));
        assert_eq!(budget.step(), Step::Calm);
    }

    #[test]
    fn a_look_comes_early_when_much_more_is_held() {
        let (budget, used) = budget();
        let budget = Arc::new(budget);
        budget.turn(at(1));
        used.store(63, Ordering::Relaxed);
        let mut holding = budget.holding(MIB as usize / 2);
        budget.turn(at(2));
        assert_eq!(budget.step(), Step::Calm);
        holding.set(2 * MIB as usize);
        assert_eq!(budget.held(), Bytes::mib(2));
        budget.turn(at(3));
        assert_eq!(budget.step(), Step::Refusing);
        drop(holding);
        assert_eq!(budget.held(), Bytes(0));
    }

    #[test]
    fn without_a_bound_nothing_is_looked_at_until_one_is_told() {
        let budget = Budget::default();
        budget.turn(at(1_000_000));
        assert_eq!(
            (budget.step(), budget.limit(), budget.used()),
            (Step::Calm, None, Bytes(0))
        );
        // This process uses more than that.
        budget.set(Bound::Told(Bytes::kib(64)));
        budget.turn(at(1_000_001));
        assert_eq!(
            (budget.step(), budget.limit()),
            (Step::Refusing, Some(Bytes::kib(64)))
        );
        budget.set(Bound::None);
        assert_eq!((budget.step(), budget.limit()), (Step::Calm, None));
    }
}
