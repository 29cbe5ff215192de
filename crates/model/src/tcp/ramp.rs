//! Windows over a link without loss: when the sender stalls for an acknowledgment, and for how long.
//!
//! Window `i` holds about `w g^i` segments, at most `Wmax`: every ACK opens it by a whole segment. After sending a
//! window, the sender waits for its first acknowledgment, unless the window fills the pipe:
//!
//! ```text
//! stall_i = max(0, R + s/C - W_i s/C)      latency = R + o/C + sum of the stalls before the last window
//! ```
//!
//! With `w = 1`, `g = 2` this is the textbook form `R + o/C + P (R + s/C) - (2^P - 1) s/C` (Kurose and Ross,
//! Computer Networking, static slow-start latency). Windows are real numbers: between whole segments the
//! form interpolates.

use super::Sender;
use crate::Seconds;
use crate::domain::{DomainError, non_negative, positive};
use serde::Serialize;
use units::{Bytes, Rate};

/// A path without loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Path {
    /// Rate of its slowest link; `None` if unlimited.
    pub rate: Option<Rate>,
    /// Round-trip time of a small packet.
    pub rtt: Seconds,
}

/// One object moved over a [`Path`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ramped {
    /// Number of segments.
    pub segments: f64,
    /// Number of windows.
    pub windows: u64,
    /// Number of windows followed by a stall.
    pub stalls: u64,
    /// Time on the wire, headers included.
    pub wire: Seconds,
    /// Time stalled, including the receiver's delayed first ACK.
    pub stalled: Seconds,
    /// The sender's window afterwards, in segments: where the next object on the connection starts.
    pub window: f64,
}

impl Ramped {
    /// Time from the first byte sent to the last byte sent.
    pub fn sending(&self) -> Seconds {
        self.wire + self.stalled
    }
}

impl Path {
    /// A path over one link.
    pub fn new(rate: Rate, rtt: Seconds) -> Result<Path, DomainError> {
        positive("rate", rate.bits_per_second(), "1 bit/s or more")?;
        non_negative("RTT", rtt.0, "0 s or more")?;
        Ok(Path {
            rate: Some(rate),
            rtt,
        })
    }

    /// Time on the wire for `bytes`, in seconds.
    pub(crate) fn wire(&self, bytes: f64) -> f64 {
        self.rate.map_or(0.0, |rate| bytes * 8.0 / rate.bits_per_second())
    }

    /// Sends `size` from a window of `window` segments.
    ///
    /// `sender` must pass [`Sender::check`]; the number of steps is logarithmic in the size.
    pub fn send(&self, sender: &Sender, size: Bytes, window: f64) -> Ramped {
        send_at(self.wire(1.0), self.rtt.0, sender, size, window)
    }
}

/// [`Path::send`] at a rate given as seconds per byte, which a fit varies smoothly.
pub(crate) fn send_at(seconds_per_byte: f64, rtt: f64, sender: &Sender, size: Bytes, window: f64) -> Ramped {
    let segments = sender.segments(size);
    let segment = (sender.mss.0 + sender.header.0) as f64 * seconds_per_byte;
    let cap = sender.cap();
    let mut w = window.min(cap);
    let mut left = segments;
    let (mut windows, mut stalls, mut stalled) = (0, 0, 0.0);
    if w < 2.0 && segments > 1.0 {
        stalled += sender.first_ack_delay.0;
    }
    while left > 0.0 {
        let stall = rtt + segment - w * segment;
        // Windows only grow, so no stall follows a window without one, and at the limit all further windows stall
        // alike.
        if stall <= 0.0 || w >= cap {
            let rounds = (left / w).ceil().max(1.0);
            windows += rounds as u64;
            if stall > 0.0 {
                stalls += rounds as u64 - 1;
                stalled += (rounds - 1.0) * stall;
            }
            break;
        }
        windows += 1;
        left -= w;
        if left > 0.0 {
            stalls += 1;
            stalled += stall;
        }
        w = sender.opened(w);
    }
    Ramped {
        segments,
        windows,
        stalls,
        wire: Seconds(sender.wire_bytes(size) * seconds_per_byte),
        stalled: Seconds(stalled),
        // Slow start opens the window by g - 1 segments for every segment acknowledged.
        window: (window + (sender.growth - 1.0) * segments).min(cap),
    }
}

/// Rounds of slow start for `segments` without a rate limit, as a real number: `log_g(d (g-1)/w + 1)`, and with the
/// window limit reached `log_g(Wmax/w) + 1 + (d - (g Wmax - w)/(g-1))/Wmax` (Cardwell, Savage, Anderson 2000, Eq.
/// 15).
pub fn slow_start_rounds(sender: &Sender, segments: f64) -> f64 {
    let (w, g, cap) = (sender.initial_window, sender.growth, sender.cap());
    let reached = segments * (g - 1.0) / g + w / g;
    if reached > cap {
        let before = (g * cap - w) / (g - 1.0);
        (cap / w).ln() / g.ln() + 1.0 + (segments - before) / cap
    } else {
        (segments * (g - 1.0) / w + 1.0).ln() / g.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kurose and Ross: P stalls, P = min(Q, k - 1), k windows cover the object.
    fn textbook(o: f64, s: f64, c: f64, r: f64) -> f64 {
        let k = (o / s + 1.0).log2().ceil();
        let q = ((1.0 + r / (s / c)).log2()).floor() + 1.0;
        let p = q.min(k - 1.0);
        r + o / c + p * (r + s / c) - (p.exp2() - 1.0) * s / c
    }

    #[test]
    fn doubling_from_one_segment_is_the_textbook_form() {
        let sender = Sender::document(Bytes(536));
        for (rate, rtt) in [
            (28_000, 1.0),
            (100_000, 1.0),
            (1_000_000, 0.1),
            (10_000_000, 1.0),
            (56_000, 0.001),
        ] {
            for segments in [1u64, 2, 3, 7, 8, 10, 100, 1000] {
                let path = Path::new(Rate(rate), Seconds(rtt)).unwrap();
                let sent = path.send(&sender, Bytes(536 * segments), 1.0);
                let got = rtt + sent.sending().0;
                let want = textbook(536.0 * 8.0 * segments as f64, 536.0 * 8.0, rate as f64, rtt);
                assert!(
                    (got - want).abs() < 1e-9 * want,
                    "{rate} {rtt} {segments}: {got} {want}"
                );
            }
        }
    }

    #[test]
    fn a_capped_window_limits_the_rate_to_cap_per_round_trip() {
        let sender = Sender::modern(Bytes(1012)).with_window_max(Bytes(10_000));
        let sender = Sender {
            header: Bytes(0),
            ..sender
        };
        let path = Path {
            rate: None,
            rtt: Seconds(0.1),
        };
        let sent = path.send(&sender, Bytes(1_000_000), 10.0);
        assert_eq!((sent.windows, sent.stalls), (100, 99));
        assert!((sent.stalled.0 - 9.9).abs() < 1e-9);
        assert_eq!(sent.window, 10.0);
    }

    #[test]
    fn one_segment_first_waits_for_the_delayed_ack() {
        let path = Path::new(Rate::mbit(10), Seconds(0.0005)).unwrap();
        let sender = Sender::bsd(Bytes(1460));
        assert_eq!(path.send(&sender, Bytes(1460), 1.0).stalled, Seconds::ZERO);
        assert!(path.send(&sender, Bytes(3000), 1.0).stalled.0 >= 0.1);
        assert!(path.send(&sender, Bytes(3000), 2.0).stalled.0 < 0.01);
    }

    #[test]
    fn whole_windows_take_whole_rounds() {
        let sender = Sender::document(Bytes(1));
        for rounds in 1..20u32 {
            let segments = f64::from((1u32 << rounds) - 1);
            assert!((slow_start_rounds(&sender, segments) - f64::from(rounds)).abs() < 1e-9);
            let path = Path {
                rate: None,
                rtt: Seconds(1.0),
            };
            assert_eq!(
                path.send(&sender, Bytes(segments as u64), 1.0).windows,
                u64::from(rounds)
            );
        }
        // Cap 8: windows 1, 2, 4, 8, then 8 a round.
        let capped = sender.with_window_max(Bytes(8));
        assert!((slow_start_rounds(&capped, 15.0 + 80.0) - 14.0).abs() < 1e-9);
    }
}
