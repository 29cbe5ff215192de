//! The interface of every part of a link, and the accounting of packets.
//!
//! Knows no packet contents and no clock: callers pass in the time.

use units::Instant;

/// A part of a link. Packets go in and come out later, or are dropped.
///
/// Time never runs backwards between calls. A late caller changes nothing: events happen at the instants they
/// were due, not when the caller asks.
pub trait Queue<P> {
    /// Takes a packet at `now`, or drops it. A queued packet may still be dropped later; see
    /// [`Queue::counters`].
    fn enqueue(&mut self, packet: P, now: Instant) -> Verdict;

    /// The next packet that has left by `now`.
    fn dequeue(&mut self, now: Instant) -> Option<P>;

    /// The earliest instant at which a packet may leave; `None` if the queue is empty. At that instant
    /// `dequeue` may still return `None`, if the packet was dropped or moved on inside; then ask again.
    fn next_departure(&self) -> Option<Instant>;

    /// Packets in, out and dropped so far.
    fn counters(&self) -> Counters;
}

/// The fate of a packet given to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Accepted.
    Queued,
    /// Dropped at once.
    Dropped(Cause),
}

/// The reason a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Random loss.
    Loss,
    /// The queue was full.
    Full,
    /// CoDel: waiting times stayed above the target for too long.
    Aged,
    /// Larger than the MTU.
    TooLarge,
    /// A held ACK replaced by a later one.
    Superseded,
    /// A limit of [`crate::Limits`] was reached.
    Limit,
}

/// Dropped packets by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Lost at random ([`Cause::Loss`]).
    pub loss: u64,
    /// The queue was full ([`Cause::Full`]).
    pub full: u64,
    /// Dropped by CoDel ([`Cause::Aged`]).
    pub aged: u64,
    /// Larger than the MTU ([`Cause::TooLarge`]).
    pub too_large: u64,
    /// Held ACKs replaced by later ones ([`Cause::Superseded`]).
    pub superseded: u64,
    /// Beyond a limit ([`Cause::Limit`]).
    pub limit: u64,
}

impl Drops {
    /// Packets dropped for any cause.
    pub fn total(&self) -> u64 {
        self.loss + self.full + self.aged + self.too_large + self.superseded + self.limit
    }

    pub(crate) fn count(&mut self, cause: Cause) {
        *match cause {
            Cause::Loss => &mut self.loss,
            Cause::Full => &mut self.full,
            Cause::Aged => &mut self.aged,
            Cause::TooLarge => &mut self.too_large,
            Cause::Superseded => &mut self.superseded,
            Cause::Limit => &mut self.limit,
        } += 1;
    }

    pub(crate) fn add(&mut self, other: &Drops) {
        self.loss += other.loss;
        self.full += other.full;
        self.aged += other.aged;
        self.too_large += other.too_large;
        self.superseded += other.superseded;
        self.limit += other.limit;
    }
}

/// Packet counts of a queue. Always `entered = left + dropped.total() + waiting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets handed in, including dropped ones.
    pub entered: u64,
    /// Packets handed out.
    pub left: u64,
    /// Packets dropped, by cause.
    pub dropped: Drops,
    /// Packets inside.
    pub waiting: u64,
}

impl Counters {
    pub(crate) fn refuse(&mut self, cause: Cause) -> Verdict {
        self.entered += 1;
        self.dropped.count(cause);
        Verdict::Dropped(cause)
    }

    pub(crate) fn admit(&mut self) -> Verdict {
        self.entered += 1;
        self.waiting += 1;
        Verdict::Queued
    }

    pub(crate) fn release(&mut self) {
        self.left += 1;
        self.waiting -= 1;
    }

    pub(crate) fn lose(&mut self, cause: Cause) {
        self.waiting -= 1;
        self.dropped.count(cause);
    }
}
