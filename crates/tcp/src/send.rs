//! The sending half: decides whether a segment may be sent now, and which.
//!
//! Applies Nagle's algorithm and sender-side silly-window avoidance in the order of BSD's output routine
//! (Heidemann 1997, section 2.3): send a full segment; or one that empties the buffer if the connection is idle
//! or Nagle's algorithm is off; or one of at least half the largest window ever offered. Positions count from
//! our SYN, which is 0, and never wrap.

use crate::copied::copied;
use std::collections::VecDeque;

/// The data to send and the progress of sending.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// The oldest unacknowledged position (SND.UNA).
    pub(crate) una: u64,
    /// The next position to send (SND.NXT).
    pub(crate) next: u64,
    /// The highest position ever sent.
    pub(crate) max: u64,
    /// The peer's window in bytes, counted from `una`.
    pub(crate) window: u64,
    /// The largest window the peer has offered, in bytes.
    pub(crate) window_max: u64,
    /// Bytes from position `max(una, 1)` on.
    buffer: VecDeque<u8>,
    pub(crate) capacity: u64,
    /// Whether the application has finished writing.
    pub(crate) fin_queued: bool,
    /// Whether the peer has acknowledged our FIN, whose position follows the last byte.
    pub(crate) fin_acked: bool,
    /// End of the last segment below the MSS, for Minshall's variant of Nagle's algorithm.
    pub(crate) small_end: u64,
}

/// Contents of the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) len: u64,
    pub(crate) fin: bool,
}

/// The conditions of one send decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) mss: u64,
    pub(crate) cwnd: u64,
    /// A segment below the MSS may be sent while data is outstanding.
    pub(crate) small_ok: bool,
    pub(crate) fin_with_data: bool,
    /// The persist or retransmission timer expired: send whatever the window allows, at least one byte.
    pub(crate) force: bool,
    /// Position from which the peer already has data.
    pub(crate) until: Option<u64>,
}

impl Sender {
    pub(crate) fn new(capacity: u64) -> Sender {
        Sender {
            una: 0,
            next: 0,
            max: 0,
            window: 0,
            window_max: 0,
            buffer: VecDeque::new(),
            capacity,
            fin_queued: false,
            fin_acked: false,
            small_end: 0,
        }
    }

    /// The position after the last byte written.
    pub(crate) fn end(&self) -> u64 {
        self.una.max(1) - u64::from(self.fin_acked) + self.buffer.len() as u64
    }

    pub(crate) fn room(&self) -> usize {
        (self.capacity as usize).saturating_sub(self.buffer.len())
    }

    pub(crate) fn write(&mut self, data: &[u8]) -> usize {
        let n = data.len().min(self.room());
        self.buffer.extend(&data[..n]);
        n
    }

    /// Copies `len` bytes from position `at`.
    pub(crate) fn data(&self, at: u64, len: u64) -> Vec<u8> {
        let start = (at - self.una.max(1)) as usize;
        copied(&self.buffer, start, start + len as usize)
    }

    pub(crate) fn flight(&self) -> u64 {
        self.next - self.una
    }

    pub(crate) fn is_outstanding(&self) -> bool {
        self.max > self.una
    }

    pub(crate) fn unsent(&self) -> u64 {
        self.end().saturating_sub(self.next.max(1))
    }

    /// Records that the peer has everything before `to`.
    pub(crate) fn acknowledge(&mut self, to: u64) {
        self.fin_acked = self.fin_queued && to > self.end();
        let from = self.una.max(1);
        let bytes = to.saturating_sub(from).min(self.buffer.len() as u64);
        self.buffer.drain(..bytes as usize);
        self.una = to;
        self.next = self.next.max(to);
    }

    /// The next segment to send, if any. Requires that the SYN has been sent.
    pub(crate) fn cut(&self, terms: Terms) -> Option<Cut> {
        let next = self.next.max(1);
        let end = self.end();
        if next > end || self.fin_acked {
            // Everything is sent, the FIN included.
            return None;
        }
        let unsent = end - next;
        let open = self.window.min(terms.cwnd).saturating_sub(next - self.una);
        let mut len = unsent.min(open).min(terms.mss);
        if let Some(until) = terms.until {
            len = len.min(until.saturating_sub(next));
        }
        if terms.force && len == 0 {
            len = unsent.min(1);
        }
        let empties = len == unsent;
        let fin = self.fin_queued && empties;
        if len == 0 {
            return (fin && (self.max <= end || next < self.max)).then_some(Cut { len, fin });
        }
        let cut = Cut {
            len,
            fin: fin && (terms.fin_with_data || self.max > end),
        };
        let sends = len == terms.mss
            || (empties && (terms.small_ok || self.fin_queued))
            || 2 * len >= self.window_max
            || next < self.max
            || terms.force;
        sends.then_some(cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection with `sent` bytes outstanding and `waiting` more written.
    fn sender(sent: u64, waiting: u64) -> Sender {
        let mut sender = Sender::new(1 << 20);
        sender.una = 1;
        sender.write(&vec![0; (sent + waiting) as usize]);
        sender.next = 1 + sent;
        sender.max = sender.next;
        sender.window = 16_384;
        sender.window_max = 16_384;
        sender
    }

    const TERMS: Terms = Terms {
        mss: 1_460,
        cwnd: 1 << 20,
        small_ok: false,
        fin_with_data: true,
        force: false,
        until: None,
    };

    fn check(sender: &Sender, terms: Terms, want: Option<(u64, bool)>) {
        assert_eq!(
            sender.cut(terms).map(|cut| (cut.len, cut.fin)),
            want,
            "{sender:?}"
        );
    }

    #[test]
    fn the_rules_of_heidemann_section_2_3() {
        check(&sender(2_920, 1_460), TERMS, Some((1_460, false)));
        check(&sender(2_920, 13), TERMS, None);
        check(
            &sender(2_920, 13),
            Terms {
                small_ok: true,
                ..TERMS
            },
            Some((13, false)),
        );
        // A segment cut short by the window is sent only if it is at least half the largest window.
        let cwnd = 2_920 + 1_234;
        check(
            &sender(2_920, 4_000),
            Terms {
                cwnd,
                small_ok: true,
                ..TERMS
            },
            None,
        );
        let mut narrow = sender(0, 4_000);
        narrow.window = 600;
        narrow.window_max = 1_200;
        check(&narrow, TERMS, Some((600, false)));
        // Closing sends the waiting data at once.
        let mut closing = sender(2_920, 13);
        closing.fin_queued = true;
        check(&closing, TERMS, Some((13, true)));
        let apart = Terms {
            fin_with_data: false,
            ..TERMS
        };
        check(&closing, apart, Some((13, false)));
        closing.next += 13;
        closing.max = closing.next;
        check(&closing, apart, Some((0, true)));
        closing.next += 1;
        closing.max = closing.next;
        check(&closing, TERMS, None);
    }

    #[test]
    fn a_shut_window_is_probed_with_one_byte() {
        let mut shut = sender(0, 100);
        shut.window = 0;
        check(&shut, TERMS, None);
        let force = Terms { force: true, ..TERMS };
        check(&shut, force, Some((1, false)));
    }
}
