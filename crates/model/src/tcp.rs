//! Time that TCP needs to transfer an object: set-up round trips, slow start over a link, loss.
//!
//! `setup` counts the round trips before a request can leave. `ramp` follows the windows over a link without loss.
//! `loss` is the expected latency of Cardwell, Savage and Anderson 2000, `steady` the long-run rate of Padhye et al.
//! 1998. None of them considers other users.

pub mod loss;
pub mod ramp;
pub mod setup;
pub mod steady;

use crate::Seconds;
use crate::domain::{DomainError, non_negative, positive, within};
use serde::Serialize;
use units::Bytes;

/// Retransmission timeout (`T0`) on a path with constant round-trip time; never below the round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Timeout {
    /// The whole timeout has a minimum: `max(minimum, SRTT)` (RFC 6298, rules 2.3 and 2.4; BSD).
    AtLeast(Seconds),
    /// The part beyond the smoothed round-trip time has a minimum: `SRTT + max(minimum, 4 RTTVAR)` (Linux,
    /// `TCP_RTO_MIN` and `__tcp_set_rto`).
    Beyond(Seconds),
}

impl Timeout {
    /// `T0` on a path of round trip `rtt`.
    pub fn after(self, rtt: Seconds) -> Seconds {
        match self {
            Timeout::AtLeast(least) => Seconds(least.0.max(rtt.0)),
            Timeout::Beyond(margin) => rtt + margin,
        }
    }

    /// The formula, in symbols.
    pub const fn formula(self) -> &'static str {
        match self {
            Timeout::AtLeast(_) => "max(RTO_min, R + s/C)",
            Timeout::Beyond(_) => "R + s/C + max(RTO_min, 4 RTTVAR)",
        }
    }

    /// The minimum, of the whole timeout or of the part beyond the round-trip time.
    pub const fn minimum(self) -> Seconds {
        match self {
            Timeout::AtLeast(least) | Timeout::Beyond(least) => least,
        }
    }

    /// Source of the formula.
    pub const fn source(self) -> &'static str {
        match self {
            Timeout::AtLeast(_) => "RFC 6298, rules 2.3 and 2.4, RTTVAR = 0",
            Timeout::Beyond(_) => "RFC 6298 as Linux has it: TCP_RTO_MIN, RTTVAR = 0",
        }
    }
}

/// The parameters that decide how fast a sender's window grows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sender {
    /// Payload of a full segment.
    pub mss: Bytes,
    /// Bytes of IP and TCP header on the wire with every segment.
    pub header: Bytes,
    /// `w`, the initial window in segments.
    pub initial_window: f64,
    /// Segments covered by one acknowledgment: 1, or 2 with delayed ACKs.
    pub segments_per_ack: f64,
    /// `b`, round trips per segment of window growth in congestion avoidance: the segments per ACK if ACKs are
    /// counted, 1 if bytes are counted (RFC 3465, section 2.1).
    pub rounds_per_increase: f64,
    /// `g`, growth of the window per round trip in slow start: `1 + 1/b`, or 2 when bytes are counted.
    pub growth: f64,
    /// `Wmax`, the window limit in segments (receive window, send buffer); `None` if unlimited.
    pub window_max: Option<f64>,
    /// Delay that the receiver's ACK timer adds if the first flight is a single segment.
    pub first_ack_delay: Seconds,
    /// Retransmission timeout of an established connection, before backoff.
    pub timeout: Timeout,
    /// Retransmission timeout of a SYN (`Ts`).
    pub syn_timeout: Seconds,
}

/// Bytes of the timestamp option and its padding (RFC 7323, appendix A).
const TIMESTAMPS: u64 = 12;

/// Least data per segment: Linux refuses an MSS option below 88 bytes (TCP_MIN_MSS), of which timestamps take 12.
const MSS_MIN: u64 = 76;

/// Largest data per segment: an IPv4 packet of 65,535 bytes minus headers of 40.
const MSS_MAX: u64 = 65_495;

impl Sender {
    /// The sender of document 004: one segment first, doubling, no window limit, no headers, every segment
    /// acknowledged.
    pub const fn document(mss: Bytes) -> Sender {
        Sender {
            mss,
            header: Bytes(0),
            initial_window: 1.0,
            segments_per_ack: 1.0,
            rounds_per_increase: 1.0,
            growth: 2.0,
            window_max: None,
            first_ack_delay: Seconds::ZERO,
            timeout: Timeout::AtLeast(Seconds(1.0)),
            syn_timeout: Seconds(3.0),
        }
    }

    /// A 4.4BSD-era sender: one segment, delayed ACKs (growth 1.5, first ACK 100 ms late on average), 16 KiB window.
    pub fn bsd(mss: Bytes) -> Sender {
        Sender {
            header: Bytes(40),
            segments_per_ack: 2.0,
            rounds_per_increase: 2.0,
            growth: 1.5,
            window_max: Some(16_384.0 / mss.0.max(1) as f64),
            first_ack_delay: Seconds(0.1),
            ..Sender::document(mss)
        }
    }

    /// A modern sender: ten segments first (RFC 6928), bytes counted although ACKs are delayed (RFC 3465, L = 2), so
    /// that slow start doubles and congestion avoidance adds a segment per round trip; timestamps in every header
    /// (RFC 7323), 1 s SYN timeout (RFC 6298), a retransmission timeout at least 200 ms above the round-trip time
    /// (Linux).
    ///
    /// `announced` is the value of the MSS option, 1460 on Ethernet. The options of a segment reduce its data (RFC
    /// 6691), so a full segment carries 12 bytes less and fits the MTU.
    pub const fn modern(announced: Bytes) -> Sender {
        Sender {
            header: Bytes(40 + TIMESTAMPS),
            initial_window: 10.0,
            segments_per_ack: 2.0,
            syn_timeout: Seconds(1.0),
            timeout: Timeout::Beyond(Seconds(0.2)),
            ..Sender::document(Bytes(announced.0.saturating_sub(TIMESTAMPS)))
        }
    }

    /// This sender with another initial window, in segments.
    #[must_use]
    pub const fn with_initial_window(self, segments: f64) -> Sender {
        Sender {
            initial_window: segments,
            ..self
        }
    }

    /// This sender with ACKs that cover `b` segments and are counted: growth `1 + 1/b`, and `b` round trips per
    /// segment in congestion avoidance.
    #[must_use]
    pub fn with_delayed_acks(self, b: f64) -> Sender {
        Sender {
            segments_per_ack: b,
            rounds_per_increase: b,
            growth: 1.0 + 1.0 / b,
            ..self
        }
    }

    /// This sender with a window limit in bytes.
    #[must_use]
    pub fn with_window_max(self, cap: Bytes) -> Sender {
        Sender {
            window_max: Some(cap.0 as f64 / self.mss.0.max(1) as f64),
            ..self
        }
    }

    /// The window limit in segments; infinite without one.
    pub(crate) fn cap(&self) -> f64 {
        self.window_max.unwrap_or(f64::INFINITY)
    }

    /// The window after one of `w` segments has been acknowledged: every ACK, even the last, smaller one, opens it by
    /// a whole segment's worth. Doubling stays doubling; with delayed ACKs 1 becomes 2, 3, 5, 8.
    pub(crate) fn opened(&self, w: f64) -> f64 {
        // Factors such as 1 + 1/3 are not exact.
        (w + (w * (self.growth - 1.0) - 1e-9).ceil()).min(self.cap())
    }

    /// Number of segments of `size` bytes.
    pub(crate) fn segments(&self, size: Bytes) -> f64 {
        size.0.div_ceil(self.mss.0.max(1)) as f64
    }

    /// Bytes on the wire for `size`, headers included.
    pub(crate) fn wire_bytes(&self, size: Bytes) -> f64 {
        size.0 as f64 + self.segments(size) * self.header.0 as f64
    }

    /// Names the first parameter that lies outside its domain.
    pub fn check(&self) -> Result<(), DomainError> {
        let mss = self.mss.0;
        within(
            "MSS",
            mss as f64,
            (MSS_MIN..=MSS_MAX).contains(&mss),
            "76 to 65,495 B of data in a segment",
        )?;
        within(
            "initial window",
            self.initial_window,
            self.initial_window >= 1.0,
            "1 segment or more",
        )?;
        within(
            "segments per ACK",
            self.segments_per_ack,
            self.segments_per_ack >= 1.0,
            "1 or more",
        )?;
        within(
            "round trips of an increase",
            self.rounds_per_increase,
            self.rounds_per_increase >= 1.0,
            "1 or more",
        )?;
        let growth = self.growth;
        within(
            "window growth",
            growth,
            growth > 1.0 && growth <= 2.0,
            "above 1, at most 2 per round trip",
        )?;
        if let Some(cap) = self.window_max {
            let bytes = (cap * mss as f64).round();
            within("window", bytes, cap >= 1.0, "one segment or more, in bytes")?;
        }
        non_negative("first ACK delay", self.first_ack_delay.0, "0 s or more")?;
        positive(
            "least retransmission timeout",
            self.timeout.minimum().0,
            "above 0 s",
        )?;
        positive("SYN timeout", self.syn_timeout.0, "above 0 s")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_of_today_fits_the_mtu() {
        let modern = Sender::modern(Bytes(1460));
        assert_eq!((modern.mss.0, modern.mss.0 + modern.header.0), (1448, 1500));
        // 125 KB are 87 segments and not 86.
        assert_eq!(modern.segments(Bytes(125_000)), 87.0);
    }

    #[test]
    fn a_timeout_is_never_shorter_than_the_round_trip() {
        for rtt in [0.001, 0.2, 1.0, 30.0].map(Seconds) {
            for sender in [
                Sender::document(Bytes(512)),
                Sender::bsd(Bytes(1460)),
                Sender::modern(Bytes(1460)),
            ] {
                assert!(sender.timeout.after(rtt) >= rtt, "{sender:?} {rtt}");
            }
            // Linux: 200 ms beyond the round trip; RFC 6298: a second in all.
            assert_eq!(Sender::modern(Bytes(1460)).timeout.after(rtt), rtt + Seconds(0.2));
            assert_eq!(Sender::bsd(Bytes(1460)).timeout.after(rtt).0, rtt.0.max(1.0));
        }
    }

    #[test]
    fn presets_are_valid_and_bad_senders_named() {
        for sender in [
            Sender::document(Bytes(512)),
            Sender::bsd(Bytes(1460)),
            Sender::modern(Bytes(1448)),
        ] {
            sender.check().unwrap();
        }
        let base = Sender::modern(Bytes(1460));
        for (broken, name) in [
            (
                Sender {
                    mss: Bytes(75),
                    ..base
                },
                "MSS is 75;",
            ),
            (base.with_initial_window(0.5), "initial window"),
            (Sender { growth: 1.0, ..base }, "window growth"),
            (base.with_window_max(Bytes(10)), "window is 10;"),
            (base.with_delayed_acks(0.5), "segments per ACK"),
        ] {
            let error = broken.check().unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
