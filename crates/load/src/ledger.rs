//! Assigns events to the measured run or to the warm-up before it, which is excluded from the figures.
//!
//! ```text
//!   start ── warm-up ──▶ from ── measured ──▶ until ── grace period ──▶ end
//! ```
//! The *intended* time decides, not the actual one. A late response to a request due in the warm-up shows the warm-up's
//! queue; a request due later shows the server, even if it waited. Events without an intended time (an opened
//! connection, bytes) belong to the moment they happen. So do completions, as far as rates are concerned: throughput is
//! what the server completes in the measured time. Knows no clock and no users.

use crate::record::Record;
use units::{Duration, Instant};

/// The warm-up's and the measured record of a run, and the times between them.
#[derive(Debug)]
pub(crate) struct Ledger {
    began: Instant,
    from: Instant,
    until: Instant,
    warm: Record,
    measured: Record,
}

impl Ledger {
    /// For a run that has not begun, with all memory that successful requests need. `warms_up`: there will be a warm-up;
    /// `secured`: there are handshakes.
    pub(crate) fn prepared(warms_up: bool, secured: bool) -> Ledger {
        let mut ledger = Ledger::new();
        if warms_up {
            ledger.warm = Record::prepared(secured);
        }
        ledger.measured = Record::prepared(secured);
        ledger
    }

    /// For a run that has not begun.
    pub(crate) fn new() -> Ledger {
        Ledger {
            began: Instant::ZERO,
            from: Instant::ZERO,
            until: Instant::ZERO,
            warm: Record::default(),
            measured: Record::default(),
        }
    }

    /// Starts the run. Events intended before the end of `warmup` are left out; completions after `until` are left out
    /// of rates. Both count from now.
    pub(crate) fn begin(&mut self, now: Instant, warmup: Duration, until: Duration) {
        (self.began, self.from, self.until) = (now, now + warmup, now + until);
    }

    /// Ends the time that counts for rates: no object begins any more.
    pub(crate) fn close(&mut self, now: Instant) {
        self.until = self.until.min(now);
    }

    /// Start of the series by second.
    pub(crate) fn from(&self) -> Instant {
        self.from
    }

    /// When an event of `now` enters the series by second, and the start of the series. If the measured time ends within
    /// a second, that second contains only what happened in it before the end. Later events enter the next second or
    /// one after that.
    #[inline]
    pub(crate) fn series(&self, now: Instant) -> (Instant, Instant) {
        if self.is_in_time(now) {
            return (now, self.from);
        }
        let counted = self.counted();
        let seconds = counted.as_secs() + u64::from(counted.subsec_nanos() > 0);
        (now.max(self.from + Duration::from_secs(seconds)), self.from)
    }

    /// Whether a completion at `now` counts for rates.
    pub(crate) fn is_in_time(&self, now: Instant) -> bool {
        now < self.until
    }

    /// Time span that counts for rates, as far as known.
    pub(crate) fn counted(&self) -> Duration {
        self.until.since(self.from)
    }

    /// The record that owns an event intended at this time.
    pub(crate) fn of(&mut self, intended: Instant) -> &mut Record {
        if intended < self.from {
            &mut self.warm
        } else {
            &mut self.measured
        }
    }

    /// Counts a completed file in the series by second, and in rates if it completed within the measured time.
    #[inline]
    pub(crate) fn completed(&mut self, intended: Instant, bytes: u64, now: Instant) {
        let ((at, from), in_time) = (self.series(now), self.is_in_time(now));
        let record = self.of(now);
        record.complete(bytes, at, from);
        if now < from || !in_time {
            return;
        }
        record.files_in_time += 1;
        record.bytes_in_time += bytes;
        if intended < from {
            record.left_out.files_in_time += 1;
            record.left_out.bytes_in_time += bytes;
        }
    }

    /// Records the end of a request on its connection: received bytes, headers included, or `None` if it failed.
    /// Ignored after the time that counts.
    #[inline]
    pub(crate) fn transferred(
        &mut self,
        intended: Instant,
        took: Duration,
        bytes: Option<u64>,
        now: Instant,
    ) {
        if !self.is_in_time(now) {
            return;
        }
        let counts = &mut self.of(intended).in_time;
        counts.connects += 1;
        counts.response_time += took;
        match bytes {
            Some(bytes) => counts.bytes.0 += bytes,
            None => counts.errors += 1,
        }
    }

    /// Records the end of a request whose connection was never established.
    pub(crate) fn unconnected(&mut self, intended: Instant, now: Instant) {
        if self.is_in_time(now) {
            self.of(intended).in_time.errors += 1;
        }
    }

    /// Records the end of a connection that was opening or in its handshake since then. Does nothing for one that had
    /// both behind it.
    pub(crate) fn unopened(&mut self, opening: Option<Instant>, shaking: Option<Instant>) {
        if let Some(since) = opening {
            self.of(since).connects_failed += 1;
        } else if let Some(since) = shaking {
            self.of(since).handshakes_failed += 1;
        }
    }

    /// Records the time until `now` in which a failed or incomplete request kept its client from sending the next,
    /// including the pause before the retry. Only the part after the warm-up and before the end counts.
    pub(crate) fn held(&mut self, intended: Instant, now: Instant) {
        if now > self.from {
            let from = intended.max(self.from);
            self.measured.held.add(now.min(self.until).since(from));
        }
    }

    /// Records an object still pending at the end of the grace period, by the intended time of the part it waits for.
    pub(crate) fn abandon(&mut self, requests: u64, intended: Instant, now: Instant) {
        let from = intended.max(self.from);
        self.of(now).abandon(requests, now.since(from));
        self.held(intended, now);
    }

    /// Completed files and content bytes so far, including the warm-up.
    pub(crate) fn seen(&self) -> (u64, u64) {
        let (warm, measured) = (&self.warm, &self.measured);
        (warm.files + measured.files, warm.bytes + measured.bytes)
    }

    /// Records the start of a user.
    pub(crate) fn came(&mut self, now: Instant) {
        self.measured.users_begun += 1;
        self.measured.last_begun = self.measured.last_begun.max(now.since(self.began));
    }

    /// Records the end of a connection established at `since`, clipped to the time that counts.
    pub(crate) fn parted(&mut self, since: Instant, now: Instant) {
        if now <= self.from {
            return;
        }
        // The average number of open connections covers the time that counts.
        self.measured.standing += now.min(self.until).since(since.max(self.from));
        // A connection opened in the warm-up was open when the measurement began.
        self.measured.established += u64::from(since < self.from);
    }

    /// The measured record, with the number of events left out.
    pub(crate) fn into_record(self) -> Record {
        let Ledger {
            warm, mut measured, ..
        } = self;
        measured.left_out.objects_begun += warm.objects_begun;
        measured.left_out.objects += warm.objects;
        measured.left_out.files += warm.files;
        measured.left_out.files_failed += warm.files_failed;
        measured.left_out.bytes += warm.bytes;
        measured.left_out.errors += warm.errors();
        measured.settle();
        measured
    }

    /// The measured record so far.
    #[cfg(test)]
    pub(crate) fn measured(&self) -> &Record {
        &self.measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Trouble;

    #[test]
    fn what_was_meant_to_be_in_the_warm_up_is_left_out_and_counted() {
        let at = |ms| Instant::from_nanos(7_000_000_000) + Duration::from_millis(ms);
        let mut ledger = Ledger::new();
        ledger.begin(at(0), Duration::from_millis(100), Duration::from_millis(300));
        for (intended, bytes) in [(0, 1), (99, 10), (100, 100), (299, 1000)] {
            let record = ledger.of(at(intended));
            record.files += 1;
            record.bytes += bytes;
            record.trouble(Trouble::Lost, at(350), at(100));
        }
        ledger.came(at(0));
        ledger.came(at(120));
        // Closed in the warm-up; open across its end; opened after it.
        for (since, until) in [(10, 90), (40, 130), (150, 400)] {
            ledger.of(at(since)).established += 1;
            ledger.parted(at(since), at(until));
        }
        assert!(ledger.is_in_time(at(299)) && !ledger.is_in_time(at(300)));
        ledger.close(at(250));
        assert!(!ledger.is_in_time(at(260)));
        let record = ledger.into_record();
        assert_eq!((record.files, record.bytes, record.errors()), (2, 1100, 2));
        let left_out = record.left_out;
        assert_eq!((left_out.files, left_out.bytes, left_out.errors), (2, 11, 2));
        assert_eq!(
            (record.users_begun, record.last_begun),
            (2, Duration::from_millis(120))
        );
        assert_eq!(
            (record.established, record.standing),
            (2, Duration::from_millis(30 + 150))
        );
    }

    /// Rates are of what completes in the measured time, whenever it was due.
    #[test]
    fn rates_count_what_completes_in_the_measured_time() {
        let at = |ms| Instant::from_nanos(7_000_000_000) + Duration::from_millis(ms);
        let mut ledger = Ledger::new();
        ledger.begin(at(0), Duration::from_millis(100), Duration::from_millis(600));
        for (intended, now) in [(0, 99), (0, 100), (99, 599), (100, 200), (50, 600), (200, 1200)] {
            ledger.completed(at(intended), 10, at(now));
        }
        let record = ledger.into_record();
        assert_eq!((record.files_in_time, record.bytes_in_time), (3, 30));
        let left_out = record.left_out;
        assert_eq!((left_out.files_in_time, left_out.bytes_in_time), (2, 20));
        // The first second is half of one, and contains only what completed in that half.
        let files: Vec<u64> = record.seconds.iter().map(|second| second.files).collect();
        assert_eq!(files, [3, 2]);
    }
}
