//! What workers share with each other and with whoever started them: how many connections are open, what each
//! counts, and that all is to end.
//!
//! Decides nothing: a worker writes, others read, and nobody waits for anybody.

use crate::herd::Seat;
use crate::machine::give_memory_back_aside;
use crate::memory::Ebb;
use measure::{Duration, Instant};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How often at most a failing accept is written to the log.
const LOG_EVERY: Duration = Duration::from_secs(1);
/// How long a wish for room holds, if nobody fulfills it: workers that block look once a second.
const WISH: Duration = Duration::from_millis(1_500);

/// What workers of one strategy share.
#[derive(Debug)]
pub(crate) struct Together {
    /// Connections open now. Written per connection, never per request.
    pub(crate) open: AtomicUsize,
    /// The same by the listener they came from.
    open_at: Vec<AtomicUsize>,
    /// Workers that died and were replaced.
    pub(crate) replaced: AtomicU64,
    /// Nanoseconds of the instant before which a failing accept is not written to the log again.
    complained_until: AtomicU64,
    /// When connections have gone whose memory is worth returning.
    ebb: Mutex<Ebb>,
    /// Nanoseconds of the instant until which a worker that found nobody idle wants another's to give way; 0: none does.
    room_wanted: AtomicU64,
    /// Wake workers that wait, to see that.
    alarms: Mutex<Alarms>,
    /// Where other processes see how many are open.
    seat: Option<Seat>,
}

/// What wakes workers.
#[derive(Default)]
struct Alarms(Vec<Box<dyn Fn() + Send + Sync>>);

impl fmt::Debug for Alarms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} alarms", self.0.len())
    }
}

impl Default for Together {
    fn default() -> Together {
        Together {
            open: AtomicUsize::new(0),
            open_at: Vec::new(),
            replaced: AtomicU64::new(0),
            complained_until: AtomicU64::new(0),
            ebb: Mutex::new(Ebb::of_connections()),
            room_wanted: AtomicU64::new(0),
            alarms: Mutex::default(),
            seat: None,
        }
    }
}

impl Together {
    /// For so many listeners, and for a process among others if it has a seat.
    pub(crate) fn at(listeners: usize, seat: Option<Seat>) -> Together {
        Together {
            open_at: (0..listeners).map(|_| AtomicUsize::new(0)).collect(),
            seat,
            ..Together::default()
        }
    }

    /// Connections open now that came from this listener.
    pub(crate) fn open_at(&self, listener: usize) -> usize {
        let one = self.open_at.get(listener);
        one.map_or(0, |open| open.load(Ordering::Relaxed))
    }

    pub(super) fn enter(&self, listener: u8) {
        if let Some(open) = self.open_at.get(usize::from(listener)) {
            open.fetch_add(1, Ordering::Relaxed);
        }
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        if let Some(seat) = &self.seat {
            seat.tell_open(before + 1);
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
        // Whoever comes while another looks need not.
        if let Ok(mut ebb) = self.ebb.try_lock()
            && ebb.is_low(before as u64 - 1)
        {
            give_memory_back_aside();
        }
    }

    /// Where this process stands among others; none if it is the only one.
    pub(crate) fn seat(&self) -> Option<&Seat> {
        self.seat.as_ref()
    }

    /// Has `alarm` called when another worker wants room.
    pub(crate) fn on_want(&self, alarm: impl Fn() + Send + Sync + 'static) {
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        alarms.0.push(Box::new(alarm));
    }

    /// Asks the other workers, of other processes too, to close a connection that is idle. Those that wait in an event loop
    /// of this process look at once, others within a second.
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

    /// Whether somebody wants room now.
    #[inline]
    pub(crate) fn is_room_wanted(&self, now: Instant) -> bool {
        let wanted = match &self.seat {
            None => self.room_wanted.load(Ordering::Relaxed),
            Some(seat) => seat.room_wanted(),
        };
        wanted > now.as_nanos()
    }

    /// Takes the wish back: a connection has given way.
    pub(crate) fn has_room(&self) {
        if self.room_wanted.load(Ordering::Relaxed) != 0 {
            self.room_wanted.store(0, Ordering::Relaxed);
        }
        if let Some(seat) = &self.seat {
            seat.want_room(0);
        }
    }

    /// Whether it is this caller's turn to complain: once in [`LOG_EVERY`] for all workers together.
    pub(crate) fn may_complain(&self, now: Instant) -> bool {
        let next = (now + LOG_EVERY).as_nanos();
        let due = |until: u64| (until <= now.as_nanos()).then_some(next);
        self.complained_until
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, due)
            .is_ok()
    }
}

/// What a worker tells about itself; written by it alone, read by anyone.
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
    /// Adds what a worker that has ended counted to a sum that others add to as well.
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

/// Adds to a counter that only this thread writes: no locked instruction.
#[inline]
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

/// How a worker is told to stop.
#[derive(Debug, Default)]
pub(crate) struct Control {
    draining: AtomicBool,
    /// Nothing is urgent: whoever is idle may still ask.
    gently: AtomicBool,
    /// Others have the listening sockets, and with them whoever waits in a backlog.
    followed: AtomicBool,
    /// Nanoseconds of the instant at which patience ends.
    until: AtomicU64,
}

impl Control {
    /// Asks for a drain that ends at `until` at the latest. Waking the worker is the caller's part.
    pub(crate) fn drain(&self, until: Instant) {
        self.until.store(until.as_nanos(), Ordering::Relaxed);
        self.gently.store(false, Ordering::Relaxed);
        self.followed.store(false, Ordering::Relaxed);
        self.draining.store(true, Ordering::Release);
    }

    /// Asks for an end without haste: whoever is connected may ask once more. A drain may follow. `followed` says that
    /// others have the listening sockets.
    pub(crate) fn retire(&self, followed: bool) {
        self.gently.store(true, Ordering::Relaxed);
        self.followed.store(followed, Ordering::Relaxed);
        self.until.store(u64::MAX, Ordering::Relaxed);
        self.draining.store(true, Ordering::Release);
    }

    /// Whether nothing is urgent.
    pub(super) fn is_gentle(&self) -> bool {
        self.gently.load(Ordering::Relaxed)
    }

    /// Whether others take whoever waits in a backlog.
    pub(super) fn is_followed(&self) -> bool {
        self.followed.load(Ordering::Relaxed)
    }

    /// When patience ends; may come closer while draining.
    pub(super) fn until(&self) -> Instant {
        Instant::from_nanos(self.until.load(Ordering::Relaxed))
    }

    /// Whether patience has ended by `now`.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.is_draining() && now >= self.until()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}
