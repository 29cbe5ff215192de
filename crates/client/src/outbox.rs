//! The output buffer of a pipelining client (W3C NOTE-pipelining-970624, section on buffer tuning).
//!
//! ```text
//!            append, less than the bound in all: (re)arm
//!          ┌───────────────────────────────┐
//!   Empty ─┴────────▶ Holding(due) ◀───────┘
//!     ▲                   │ append beyond the bound, expiry, flush: write all
//!     └───────────────────┘
//! ```
//! Decides when requests are sent; does not look inside them.

use units::{Duration, Instant};

/// Requests waiting to be sent.
#[derive(Debug)]
pub struct Outbox {
    bytes_max: usize,
    wait: Duration,
    held: Vec<u8>,
    due: Option<Instant>,
}

impl Outbox {
    /// An empty buffer that sends at `bytes_max` bytes, or `wait` after the last request was added.
    pub fn new(bytes_max: usize, wait: Duration) -> Outbox {
        Outbox {
            bytes_max,
            wait,
            held: Vec::new(),
            due: None,
        }
    }

    /// Adds a request; returns the bytes to send now, if any.
    pub fn append(&mut self, request: &[u8], now: Instant) -> Option<Vec<u8>> {
        self.held.extend_from_slice(request);
        if self.held.len() >= self.bytes_max {
            return self.flush();
        }
        self.due = Some(now + self.wait);
        None
    }

    /// Returns the bytes to send if the timer has expired.
    pub fn expire(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.due.is_some_and(|due| due <= now) {
            self.flush()
        } else {
            None
        }
    }

    /// Takes all bytes held, to be sent at once.
    pub fn flush(&mut self) -> Option<Vec<u8>> {
        self.due = None;
        let held = std::mem::take(&mut self.held);
        (!held.is_empty()).then_some(held)
    }

    /// When the timer expires; `None` if the buffer is empty.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn the_machine_of_the_note() {
        let mut out = Outbox::new(1024, Duration::from_millis(50));
        assert_eq!(out.append(&[b'a'; 190], at(0)), None);
        assert_eq!(out.append(&[b'b'; 190], at(30)), None);
        // The second request restarts the timer.
        assert_eq!(out.expire(at(50)), None);
        assert_eq!(out.due(), Some(at(80)));
        assert_eq!(out.expire(at(80)).map(|bytes| bytes.len()), Some(380));
        assert_eq!((out.due(), out.flush()), (None, None));
        // The sixth request of 190 bytes exceeds 1,024: all six are sent together.
        for n in 0..5 {
            assert_eq!(out.append(&[b'c'; 190], at(100 + n)), None);
        }
        assert_eq!(
            out.append(&[b'c'; 190], at(106)).map(|bytes| bytes.len()),
            Some(1140)
        );
        assert_eq!(out.append(b"last", at(200)), None);
        assert_eq!(out.flush().as_deref(), Some(&b"last"[..]));
    }

    proptest! {
        /// Bytes come out complete, once and in order, and none are held beyond the limit or the timer.
        #[test]
        fn what_goes_in_comes_out(steps in proptest::collection::vec((0_u8..4, 1_usize..700), 0..60)) {
            let mut out = Outbox::new(1024, Duration::from_millis(50));
            let (mut put, mut got, mut now) = (Vec::new(), Vec::new(), 0_u64);
            for (number, (what, size)) in steps.into_iter().enumerate() {
                now += size as u64 / 10;
                got.extend(out.expire(at(now)).unwrap_or_default());
                match what {
                    0 => got.extend(out.flush().unwrap_or_default()),
                    _ => {
                        let piece = vec![number as u8; size];
                        put.extend_from_slice(&piece);
                        got.extend(out.append(&piece, at(now)).unwrap_or_default());
                    }
                }
                prop_assert!(put.len() - got.len() < 1024);
                prop_assert_eq!(out.due().is_some(), put.len() > got.len());
                prop_assert!(out.due().is_none_or(|due| due <= at(now + 50)));
            }
            got.extend(out.flush().unwrap_or_default());
            prop_assert_eq!(put, got);
        }
    }
}
