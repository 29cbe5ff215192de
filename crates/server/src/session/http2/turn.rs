//! One output of a connection: what the driver was given, whose bytes they are, and how much the peer has taken.

use crate::access_log::{Cut, Slot};
use crate::context::Cx;
use crate::limits::Limits;
use runtime::Path;
use units::{Duration, Instant};

/// Bytes of a turn at most. Only a peer that takes everything at once gets so many: what is given to the driver costs
/// memory, and cannot be overtaken by what is more urgent. glibc maps buffers of 128 KiB and more anew each time
/// (`M_MMAP_THRESHOLD`, mallopt(3)), and each page faults. With turns of 256 KiB, a MiB took 1.9 times as long.
const MOST: usize = 96 << 10;

/// Bytes of a turn at least: three packets.
const LEAST: usize = 4 << 10;

/// A turn that took longer, and of which the kernel at first accepted a part or nothing, had to wait for the peer.
const AT_ONCE: Duration = Duration::from_millis(2);

/// The output of a connection.
#[derive(Debug, Default)]
pub(super) struct Turn {
    /// Output that the driver has, if any.
    given: Option<Given>,
    /// Whose bytes are in the next output so far.
    next: Vec<Share>,
    /// Size of the next turn, or 0 if there was none yet.
    size: usize,
    /// The last turn was as large as it could be.
    is_full: bool,
}

#[derive(Debug)]
struct Given {
    began: Instant,
    /// When the peer must have taken more of it.
    until: Instant,
    bytes: u64,
    /// Bytes of it that the kernel has accepted.
    taken: u64,
    shares: Vec<Share>,
}

/// Bytes of one answer within an output.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// The log line of the answer.
    slot: Slot,
    /// Where in the output they end.
    end: u64,
    /// How many there are, without the headers of frames.
    bytes: u64,
    /// Whether the answer ends with them.
    is_last: bool,
}

impl Turn {
    /// Whether the driver has output that is not sent.
    pub(super) fn is_under_way(&self) -> bool {
        self.given.is_some()
    }

    /// Bytes that the next output may have.
    pub(super) fn room(&self, cx: &Cx) -> usize {
        match (cx.output_max < Limits::OUTPUT_PER_TURN, self.size) {
            // Memory is short.
            (true, _) => cx.output_max.max(LEAST),
            (false, 0) => Limits::OUTPUT_PER_TURN,
            (false, size) => size,
        }
    }

    /// Whether the next output waits until the last has left: its peer takes less than was given to it.
    pub(super) fn is_patient(&self) -> bool {
        (1..Limits::OUTPUT_PER_TURN).contains(&self.size)
    }

    /// Notes whether the output about to be given is as large as it may be.
    pub(super) fn filled(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Notes that the next output, now `len` bytes long, ends with `bytes` of the answer with this log line.
    pub(super) fn share(&mut self, cx: &mut Cx, slot: &mut Slot, len: usize, bytes: u64, is_last: bool) {
        if cx.journal.is_on() {
            cx.journal.given(slot, bytes);
        } else if !is_last {
            return;
        }
        self.next.push(Share {
            slot: *slot,
            end: len as u64,
            bytes,
            is_last,
        });
    }

    /// The driver has this output now. The peer must take some of it by `until`.
    pub(super) fn begin(&mut self, len: usize, now: Instant, until: Instant) {
        self.given = Some(Given {
            began: now,
            until,
            bytes: len as u64,
            taken: 0,
            shares: std::mem::take(&mut self.next),
        });
    }

    /// All of it was sent.
    pub(super) fn sent(&mut self, cx: &mut Cx, now: Instant) {
        let Some(given) = self.given.take() else {
            debug_assert!(false, "sent without output");
            return;
        };
        cx.counters.bytes_sent().add(given.bytes - given.taken);
        let was_parted = given.taken > 0 || self.is_patient();
        let had_to_wait = was_parted && now > given.began + AT_ONCE;
        self.size = match (had_to_wait, self.is_full) {
            (true, _) => LEAST,
            (false, true) => (self.room(cx) * 2).min(MOST),
            (false, false) => self.size,
        };
        let mut has_ended = false;
        for mut share in given.shares {
            cx.journal.progress(share.slot, share.bytes);
            if share.is_last {
                has_ended = true;
                let _ = cx.journal.sent(&mut share.slot, now);
            }
        }
        if has_ended && cx.state.config.behavior.log_each {
            cx.flush_each(now);
        }
    }

    /// The kernel has accepted `bytes` more.
    pub(super) fn progress(&mut self, cx: &Cx, bytes: u64, now: Instant) {
        if let Some(given) = &mut self.given {
            given.taken = (given.taken + bytes).min(given.bytes);
            given.until = now + cx.state.limits.write_timeout;
            cx.counters.bytes_sent().add(bytes);
        }
    }

    /// State of the path to the peer, for the log lines that end with this output.
    pub(super) fn path(&self, cx: &mut Cx, path: Path) {
        let given = self.given.iter().flat_map(|given| &given.shares);
        for share in given.filter(|share| share.is_last) {
            cx.journal.path(share.slot, path);
        }
    }

    /// Bytes of memory held.
    pub(super) fn memory(&self) -> usize {
        let given = self.given.as_ref().map_or(0, |given| given.shares.capacity());
        (given + self.next.capacity()) * size_of::<Share>()
    }

    /// When the peer must have taken more.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.given.as_ref().map(|given| given.until)
    }

    /// Gives the peer time until then.
    pub(super) fn extend(&mut self, until: Instant) {
        if let Some(given) = &mut self.given {
            given.until = until;
        }
    }

    /// The log line is about to be finished: its bytes count no more.
    pub(super) fn release(&mut self, slot: Slot) {
        if slot == Slot::NONE {
            return;
        }
        let given = self.given.iter_mut().flat_map(|given| &mut given.shares);
        for share in given.chain(&mut self.next).filter(|share| share.slot == slot) {
            (share.slot, share.is_last) = (Slot::NONE, false);
        }
    }

    /// The connection is lost: counts what was taken, and finishes the log lines that would have ended.
    pub(super) fn lost(&mut self, cx: &mut Cx, cut: Cut, now: Instant) {
        let given = self.given.take();
        let taken = given.as_ref().map_or(0, |given| given.taken);
        let under_way = given.into_iter().flat_map(|given| given.shares);
        for share in under_way {
            let missing = share.end.saturating_sub(taken);
            cx.journal
                .progress(share.slot, share.bytes.saturating_sub(missing));
            cut_off(cx, share, cut, now);
        }
        for share in std::mem::take(&mut self.next) {
            cut_off(cx, share, cut, now);
        }
    }
}

/// Finishes the log line of an answer whose end was not sent.
fn cut_off(cx: &mut Cx, mut share: Share, cut: Cut, now: Instant) {
    if share.is_last {
        cx.counters.aborted().add(1);
        let _ = cx.journal.lost(&mut share.slot, cut, now);
    }
}
