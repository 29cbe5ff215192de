//! Bytes that the transport keeps because they were not read: an estimate, for the memory budget.
//!
//! ```text
//!   kept ≈ bytes of datagrams − their overhead − bytes read       while a request is still arriving, else 0
//! ```
//! The library bounds these bytes by its windows and does not say how many there are. A request keeps some if its session
//! leaves it unread, as one does whose upstream is slow, or if a part before them is missing. Datagrams that arrive twice
//! count twice, so the windows bound the estimate, too.

/// Least bytes of a datagram besides content: header and tag (RFC 9000 section 17.3.1, RFC 9001 section 5.3), and the head
/// of a STREAM frame (RFC 9000 section 19.8). The estimate errs upwards, where the windows bound it: if it erred
/// downwards, small requests beside a slow one would wear its bytes down.
const OVERHEAD: u64 = 30;

/// The bytes of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unread {
    /// Bytes that arrived, less their overhead and what was read.
    bytes: u64,
    /// Requests that have not arrived whole, or were not read whole.
    arriving: u32,
}

impl Unread {
    /// A datagram has arrived.
    pub(crate) fn arrived(&mut self, length: usize) {
        self.bytes += (length as u64).saturating_sub(OVERHEAD);
    }

    /// A request has begun.
    pub(crate) fn begun(&mut self) {
        self.arriving += 1;
    }

    /// So much of a stream was read.
    pub(crate) fn read(&mut self, length: usize) {
        self.bytes = self.bytes.saturating_sub(length as u64);
    }

    /// A request was read to its end, or nothing more of it is kept.
    pub(crate) fn ended(&mut self) {
        self.arriving = self.arriving.saturating_sub(1);
    }

    /// The bytes kept, where each stream keeps no more than `window`.
    pub(crate) fn settle(&mut self, window: u32) -> usize {
        self.bytes = self.bytes.min(u64::from(self.arriving) * u64::from(window));
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u32 = 64 << 10;

    #[test]
    fn what_is_left_counts_until_it_is_read() {
        let mut unread = Unread::default();
        unread.arrived(1_200);
        assert_eq!(unread.settle(WINDOW), 0, "a handshake");
        unread.begun();
        for _ in 0..10 {
            unread.arrived(1_000 + OVERHEAD as usize);
        }
        assert_eq!(unread.settle(WINDOW), 10_000);
        unread.arrived(OVERHEAD as usize);
        assert_eq!(unread.settle(WINDOW), 10_000, "nothing of a stream");
        unread.read(4_000);
        assert_eq!(unread.settle(WINDOW), 6_000);
        unread.read(6_010);
        assert_eq!(unread.settle(WINDOW), 0);
        unread.arrived(1_200);
        unread.ended();
        assert_eq!(unread.settle(WINDOW), 0, "all is read");
        unread.ended();
        unread.begun();
        unread.arrived(500 + OVERHEAD as usize);
        assert_eq!(unread.settle(WINDOW), 500);
    }

    #[test]
    fn small_requests_do_not_wear_down_what_a_slow_one_keeps() {
        let mut unread = Unread::default();
        unread.begun();
        unread.arrived(10_000 + OVERHEAD as usize);
        for _ in 0..1_000 {
            unread.begun();
            // Header 12, tag 16 and frame head 4 around the 30 bytes of a HEADERS frame.
            unread.arrived(62);
            unread.read(30);
            unread.ended();
            assert!(unread.settle(WINDOW) >= 10_000);
        }
    }

    #[test]
    fn no_more_counts_than_the_windows_let_pass() {
        let mut unread = Unread::default();
        unread.begun();
        unread.begun();
        for _ in 0..1_000 {
            unread.arrived(1_200);
        }
        assert_eq!(unread.settle(WINDOW), 2 * WINDOW as usize);
        unread.ended();
        assert_eq!(unread.settle(WINDOW), WINDOW as usize);
    }
}
