//! Long-run rate of a TCP sender with packet loss: Padhye, Firoiu, Towsley and Kurose 1998 ("PFTK"), and the
//! square-root law of Mathis et al. 1997, which it refines.
//!
//! Reno: the window grows by a segment per `b` round trips, loss rate `p` per packet, the rest of a lossy round is
//! lost, too.

use super::Sender;
use crate::Seconds;
use crate::domain::{DomainError, positive, within};
use serde::Serialize;

/// Long-run rates, in segments per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Steady {
    /// `W(p)`, the mean window at a loss in segments, without the window limit.
    pub window: f64,
    /// Probability that a loss ends in a timeout.
    pub timeout_chance: f64,
    /// Segments sent per second, retransmissions included.
    pub send_rate: f64,
    /// Segments that arrive per second.
    pub throughput: f64,
    /// PFTK's one-line approximation of the send rate.
    pub approximate: f64,
    /// Mathis et al.: `sqrt(3/(2bp))/R`, without timeouts or window limit.
    pub square_root: f64,
}

/// `Q(p, w)`: probability that a loss in a window of `w` segments is detected by timeout (PFTK, Eq. 24).
pub(crate) fn timeout_chance(p: f64, w: f64) -> f64 {
    let q = 1.0 - p;
    // `1 - q^n` loses all digits for small p if computed directly.
    let lost = |n: f64| -f64::exp_m1(n * f64::ln_1p(-p));
    let some = lost(w);
    if w <= 3.0 || some <= 0.0 {
        return 1.0;
    }
    ((1.0 + q.powi(3) * lost(w - 3.0)) * lost(3.0) / some).min(1.0)
}

/// `G(p)`: duration of the backed-off timeouts of a loss, in units of the first (PFTK, Eq. 28).
pub(crate) fn backoff(p: f64) -> f64 {
    1.0 + p * (1.0 + p * (2.0 + p * (4.0 + p * (8.0 + p * (16.0 + p * 32.0)))))
}

/// `W(p)`: expected window at a loss without the window limit (PFTK, Eq. 13).
pub(crate) fn window_at_loss(p: f64, b: f64) -> f64 {
    let a = (2.0 + b) / (3.0 * b);
    a + (8.0 * (1.0 - p) / (3.0 * b * p) + a * a).sqrt()
}

/// The long-run rates at loss rate `p`, `0 < p < 1`.
pub fn steady(sender: &Sender, rtt: Seconds, p: f64) -> Result<Steady, DomainError> {
    sender.check()?;
    let r = positive("RTT", rtt.0, "above 0 s")?;
    within("loss", p, p > 0.0 && p < 1.0, "above 0, below 1 per packet")?;
    let (b, t0) = (sender.rounds_per_increase, sender.timeout.after(rtt).0);
    let window = window_at_loss(p, b);
    let cap = sender.cap();
    let reached = window.min(cap);
    let q = timeout_chance(p, reached);
    let odds = (1.0 - p) / p;
    let pause = q * backoff(p) * t0 / (1.0 - p);
    let cycle = if window < cap {
        r * (b / 2.0 * window + 1.0) + pause
    } else {
        r * (b / 8.0 * cap + odds / cap + 2.0) + pause
    };
    let root = r * (2.0 * b * p / 3.0).sqrt();
    let timeouts = t0 * (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
    Ok(Steady {
        window,
        timeout_chance: q,
        send_rate: (odds + reached + q / (1.0 - p)) / cycle,
        throughput: (odds + reached / 2.0 + q) / cycle,
        approximate: (cap / r).min(1.0 / (root + timeouts)),
        square_root: (1.5 / (b * p)).sqrt() / r,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Timeout;
    use units::Bytes;

    fn reno() -> Sender {
        Sender {
            timeout: Timeout::AtLeast(Seconds(0.5)),
            ..Sender::bsd(Bytes(1460))
        }
    }

    #[test]
    fn small_loss_follows_the_square_root_law() {
        let sender = Sender {
            window_max: None,
            ..reno()
        };
        let s = steady(&sender, Seconds(0.1), 1e-7).unwrap();
        assert!((s.send_rate / s.square_root - 1.0).abs() < 0.01, "{s:?}");
        assert!((s.approximate / s.square_root - 1.0).abs() < 0.01);
    }

    #[test]
    fn who_counts_bytes_grows_by_a_segment_a_round_trip_whatever_an_ack_covers() {
        let rate = |sender: Sender| steady(&sender, Seconds(0.09), 0.01).unwrap().throughput;
        let modern = Sender::modern(Bytes(1460));
        assert_eq!(modern.segments_per_ack, 2.0);
        // Counting ACKs of two segments made a bulk transfer take 1.4 times as long.
        assert!(rate(modern) > 1.3 * rate(modern.with_delayed_acks(2.0)));
        assert_eq!(rate(modern), rate(modern.with_delayed_acks(1.0)));
    }

    #[test]
    fn the_cap_rules_when_loss_vanishes() {
        let sender = Sender {
            window_max: Some(20.0),
            ..reno()
        };
        let s = steady(&sender, Seconds(0.1), 1e-8).unwrap();
        assert!((s.throughput - 200.0).abs() < 0.5, "{s:?}");
    }

    #[test]
    fn the_rate_is_continuous_where_the_cap_starts_to_bind() {
        let p = 0.01;
        let w = window_at_loss(p, 2.0);
        let rate = |cap: f64| {
            let sender = Sender {
                window_max: Some(cap),
                ..reno()
            };
            steady(&sender, Seconds(0.1), p).unwrap().throughput
        };
        assert!((rate(w * (1.0 - 1e-9)) / rate(w * (1.0 + 1e-9)) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn rates_fall_with_loss_and_never_leave_the_domain() {
        let mut last = f64::INFINITY;
        for p in [1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.1, 0.3, 0.6, 0.9] {
            let s = steady(&reno(), Seconds(0.1), p).unwrap();
            assert!(
                s.throughput > 0.0 && s.throughput < last && s.throughput <= s.send_rate,
                "{p} {s:?}"
            );
            assert!((0.0..=1.0).contains(&s.timeout_chance));
            last = s.throughput;
        }
        for p in [0.0, 1.0, -1.0, f64::NAN] {
            assert!(steady(&reno(), Seconds(0.1), p).is_err());
        }
    }
}
