//! State that workers share with each other and with their starter: open connections, each worker's counters, and the
//! request to end.
//!
//! Decides nothing: a worker writes, others read, and nobody waits.

use crate::machine::give_memory_back_aside;
use crate::memory::Ebb;
use crate::process::prefork::Seat;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use units::{Duration, Instant};

/// Minimum interval between log lines about failing accepts.
const LOG_EVERY: Duration = Duration::from_secs(1);
/// How long a request for room holds if nobody fulfills it: workers that block check once a second.
const WISH: Duration = Duration::from_millis(1_500);

/// State shared by the workers of one strategy.
#[derive(Debug)]
pub(crate) struct SharedState {
    /// Open connections. Written per connection, never per request.
    pub(crate) open: AtomicUsize,
    /// Open connections by the listener they came from.
    open_at: Vec<AtomicUsize>,
    /// Workers that died and were replaced.
    pub(crate) replaced: AtomicU64,
    /// Nanoseconds of the instant before which no further failing accept is logged.
    complained_until: AtomicU64,
    /// Detects when enough connections have gone to return their memory to the system.
    ebb: Mutex<Ebb>,
    /// Nanoseconds of the instant until which a worker without idle connections asks another to close one; 0: none
    /// asks.
    room_wanted: AtomicU64,
    /// Nanoseconds of the instant at which a worker last took a connection in.
    last_entered: AtomicU64,
    /// They wake waiting workers to check that.
    alarms: Mutex<Alarms>,
    /// Where other processes see the number of open connections.
    seat: Option<Seat>,
}

/// Callbacks that wake workers.
#[derive(Default)]
struct Alarms(Vec<Box<dyn Fn() + Send + Sync>>);

impl fmt::Debug for Alarms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} alarms", self.0.len())
    }
}

impl Default for SharedState {
    fn default() -> SharedState {
        SharedState {
            open: AtomicUsize::new(0),
            open_at: Vec::new(),
            replaced: AtomicU64::new(0),
            complained_until: AtomicU64::new(0),
            ebb: Mutex::new(Ebb::of_connections()),
            room_wanted: AtomicU64::new(0),
            last_entered: AtomicU64::new(0),
            alarms: Mutex::default(),
            seat: None,
        }
    }
}

impl SharedState {
    /// For this many listeners; with a seat, for one process among others.
    pub(crate) fn at(listeners: usize, seat: Option<Seat>) -> SharedState {
        SharedState {
            open_at: (0..listeners).map(|_| AtomicUsize::new(0)).collect(),
            seat,
            ..SharedState::default()
        }
    }

    /// Open connections that came from this listener.
    pub(crate) fn open_at(&self, listener: usize) -> usize {
        let one = self.open_at.get(listener);
        one.map_or(0, |open| open.load(Ordering::Relaxed))
    }

    pub(super) fn enter(&self, listener: u8, now: Instant) {
        if let Some(open) = self.open_at.get(usize::from(listener)) {
            open.fetch_add(1, Ordering::Relaxed);
        }
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        match &self.seat {
            None => self.last_entered.store(now.as_nanos(), Ordering::Relaxed),
            Some(seat) => {
                seat.tell_open(before + 1);
                seat.entered(now.as_nanos());
            }
        }
        if let Ok(mut ebb) = self.ebb.try_lock() {
            ebb.rise(before as u64 + 1);
        }
    }

    pub(super) fn leave(&self, listener: u8) {
        if let Some(open) = self.open_at.get(usize::from(listener)) {
            open.fetch_sub(1, Ordering::Relaxed);
        }
        let before = self.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(seat) = &self.seat {
            seat.tell_open(before - 1);
        }
        // If another thread is checking, this one need not.
        if let Ok(mut ebb) = self.ebb.try_lock()
            && ebb.is_low(before as u64 - 1)
        {
            give_memory_back_aside();
        }
    }

    /// When a worker, of any process, last took a connection in.
    pub(crate) fn last_entered(&self) -> Instant {
        Instant::from_nanos(match &self.seat {
            None => self.last_entered.load(Ordering::Relaxed),
            Some(seat) => seat.last_entered(),
        })
    }

    /// This process's seat among others; `None` if it is the only one.
    pub(crate) fn seat(&self) -> Option<&Seat> {
        self.seat.as_ref()
    }

    /// Registers an `alarm` to call when another worker needs room.
    pub(crate) fn on_want(&self, alarm: impl Fn() + Send + Sync + 'static) {
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        alarms.0.push(Box::new(alarm));
    }

    /// Asks the other workers, of other processes too, to close an idle connection. Event loops of this process check
    /// at once, others within a second.
    pub(crate) fn want_room(&self, now: Instant) {
        let until = (now + WISH).as_nanos();
        let before = self.room_wanted.swap(until, Ordering::Relaxed);
        if let Some(seat) = &self.seat {
            seat.want_room(until);
        }
        if before <= now.as_nanos() {
            let alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
            alarms.0.iter().for_each(|alarm| alarm());
        }
    }

    /// Whether a worker needs room now.
    #[inline]
    pub(crate) fn is_room_wanted(&self, now: Instant) -> bool {
        let wanted = match &self.seat {
            None => self.room_wanted.load(Ordering::Relaxed),
            Some(seat) => seat.room_wanted(),
        };
        wanted > now.as_nanos()
    }

    /// Withdraws the request: a connection was closed.
    pub(crate) fn has_room(&self) {
        if self.room_wanted.load(Ordering::Relaxed) != 0 {
            self.room_wanted.store(0, Ordering::Relaxed);
        }
        if let Some(seat) = &self.seat {
            seat.want_room(0);
        }
    }

    /// Whether this caller may log a complaint: once per [`LOG_EVERY`] for all workers together.
    pub(crate) fn may_complain(&self, now: Instant) -> bool {
        let next = (now + LOG_EVERY).as_nanos();
        let due = |until: u64| (until <= now.as_nanos()).then_some(next);
        self.complained_until
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, due)
            .is_ok()
    }
}

/// A worker's counters; written by it alone, readable by all.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) open: AtomicU64,
    pub(crate) accept_errors: AtomicU64,
    pub(crate) jobs: AtomicU64,
    pub(crate) offloaded: AtomicU64,
    pub(crate) cold_reads: AtomicU64,
}

impl Counters {
    /// Adds the counters of an ended worker to a sum that others add to as well.
    pub(crate) fn add_to(&self, sum: &Counters) {
        for (own, sum) in [
            (&self.accepted, &sum.accepted),
            (&self.refused, &sum.refused),
            (&self.accept_errors, &sum.accept_errors),
            (&self.jobs, &sum.jobs),
            (&self.offloaded, &sum.offloaded),
            (&self.cold_reads, &sum.cold_reads),
        ] {
            sum.fetch_add(own.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// Adds to a counter that only this thread writes, without a locked instruction.
#[inline]
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

/// Tells a worker to stop.
#[derive(Debug, Default)]
pub(crate) struct Control {
    draining: AtomicBool,
    /// Without haste: an idle connection may still send one more request.
    gently: AtomicBool,
    /// Another strategy has the listening sockets, with the connections in their accept queues.
    followed: AtomicBool,
    /// Nanoseconds of the instant at which the grace period ends.
    until: AtomicU64,
}

impl Control {
    /// Requests a drain that ends at `until` at the latest. The caller wakes the worker.
    pub(crate) fn drain(&self, until: Instant) {
        self.until.store(until.as_nanos(), Ordering::Relaxed);
        self.gently.store(false, Ordering::Relaxed);
        self.followed.store(false, Ordering::Relaxed);
        self.draining.store(true, Ordering::Release);
    }

    /// Requests an end without haste: each connection may send one more request. A drain may follow. `followed` says
    /// that another strategy has the listening sockets.
    pub(crate) fn retire(&self, followed: bool) {
        self.gently.store(true, Ordering::Relaxed);
        self.followed.store(followed, Ordering::Relaxed);
        self.until.store(u64::MAX, Ordering::Relaxed);
        self.draining.store(true, Ordering::Release);
    }

    /// Whether the end is without haste.
    pub(super) fn is_gentle(&self) -> bool {
        self.gently.load(Ordering::Relaxed)
    }

    /// Whether another strategy takes the connections in the accept queues.
    pub(super) fn is_followed(&self) -> bool {
        self.followed.load(Ordering::Relaxed)
    }

    /// The end of the grace period; may move closer while draining.
    pub(super) fn until(&self) -> Instant {
        Instant::from_nanos(self.until.load(Ordering::Relaxed))
    }

    /// Whether the grace period has ended by `now`.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.is_draining() && now >= self.until()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}
