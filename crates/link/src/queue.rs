//! The seam: what every part of a link answers, and how packets are accounted for.

use measure::Instant;

/// A part of a link. Packets go in, and come out later, or never.
///
/// Time never runs backwards between calls. A driver that comes late changes nothing: parts work with the
/// instants at which things were due, not with those at which they were asked.
pub trait Queue<P> {
    /// Takes a packet at `now`, or drops it. A packet may still be dropped later: [`Queue::counters`] says.
    fn enqueue(&mut self, packet: P, now: Instant) -> Verdict;

    /// The next packet that has left by `now`.
    fn dequeue(&mut self, now: Instant) -> Option<P>;

    /// The instant before which nothing leaves; `None` while nothing is inside. At that instant `dequeue` gives
    /// a packet, or (it was dropped, or only moved on inside) nothing; then ask again.
    fn next_departure(&self) -> Option<Instant>;

    /// What has gone in, come out and been dropped.
    fn counters(&self) -> Counters;
}

/// What became of a packet handed to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is inside.
    Queued,
    /// It is gone.
    Dropped(Cause),
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// By chance: the loss model.
    Loss,
    /// The queue was full.
    Full,
    /// CoDel: packets had waited too long for too long.
    Aged,
    /// Larger than the MTU.
    TooLarge,
    /// A held ACK made needless by a later one.
    Superseded,
    /// A bound of [`crate::Limits`].
    Limit,
}

/// Dropped packets by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// [`Cause::Loss`].
    pub loss: u64,
    /// [`Cause::Full`].
    pub full: u64,
    /// [`Cause::Aged`].
    pub aged: u64,
    /// [`Cause::TooLarge`].
    pub too_large: u64,
    /// [`Cause::Superseded`].
    pub superseded: u64,
    /// [`Cause::Limit`].
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

/// Where packets are. Always `entered = left + dropped.total() + waiting`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets handed in, dropped ones too.
    pub entered: u64,
    /// Packets handed out.
    pub left: u64,
    /// Packets dropped.
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
