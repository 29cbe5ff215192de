//! Counters and distributions of one end's packets, for reports.
//!
//! Plain data that adds up; packets are classified elsewhere.

use crate::quantity;
use core::time::Duration;
use serde::Serialize;

/// Bytes on the wire, counted two ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Number of packets.
    pub packets: u64,
    /// TCP payload in bytes, retransmissions included.
    pub payload: u64,
    /// IP and TCP headers in bytes, options included; link headers are not.
    pub headers: u64,
}

impl Volume {
    /// Payload plus 40 bytes per packet, the convention of the 1997 studies.
    pub fn with_40(self) -> u64 {
        self.payload + 40 * self.packets
    }

    /// Header share under the 40-byte convention in percent, `100 * 40 * packets / (payload + 40 * packets)`;
    /// zero without packets.
    pub fn overhead_40(self) -> f64 {
        percent(40 * self.packets, self.with_40())
    }

    /// Share of the actual headers, in percent.
    pub fn overhead(self) -> f64 {
        percent(self.headers, self.payload + self.headers)
    }

    pub(crate) fn add(&mut self, other: Volume) {
        self.packets += other.packets;
        self.payload += other.payload;
        self.headers += other.headers;
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * part as f64 / whole as f64
    }
}

impl Serialize for Volume {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut s = serializer.serialize_struct("Volume", 7)?;
        s.serialize_field("packets", &self.packets)?;
        s.serialize_field("payload_bytes", &self.payload)?;
        s.serialize_field("header_bytes", &self.headers)?;
        s.serialize_field("bytes_with_40", &self.with_40())?;
        s.serialize_field("bytes_with_headers", &(self.payload + self.headers))?;
        s.serialize_field("overhead_40_percent", &self.overhead_40())?;
        s.serialize_field("overhead_percent", &self.overhead())?;
        s.end()
    }
}

/// Packets by type, as document 000 counts them. A packet may have two types (a FIN with data), so the sum can exceed
/// the number of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kinds {
    /// SYN flag set.
    pub syn: u64,
    /// FIN flag set.
    pub fin: u64,
    /// RST flag set.
    pub rst: u64,
    /// With payload.
    pub data: u64,
    /// ACK flag, no payload, and none of SYN, FIN, RST.
    pub ack: u64,
}

impl Kinds {
    pub(crate) fn add(&mut self, other: Kinds) {
        self.syn += other.syn;
        self.fin += other.fin;
        self.rst += other.rst;
        self.data += other.data;
        self.ack += other.ack;
    }
}

/// Count, mean, deviation and extremes of a series of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Number of samples.
    pub count: u64,
    /// Smallest; zero without samples.
    pub min: Duration,
    /// Largest.
    pub max: Duration,
    mean_ns: f64,
    square_ns: f64,
}

impl Spread {
    pub(crate) fn record(&mut self, sample: Duration) {
        self.min = if self.count == 0 {
            sample
        } else {
            self.min.min(sample)
        };
        self.max = self.max.max(sample);
        self.count += 1;
        // Welford's update, which avoids the cancellation of a sum of squares.
        let ns = sample.as_nanos() as f64;
        let delta = ns - self.mean_ns;
        self.mean_ns += delta / self.count as f64;
        self.square_ns += delta * (ns - self.mean_ns);
    }

    /// Merges another series (Chan, Golub and LeVeque 1979).
    pub(crate) fn merge(&mut self, other: &Spread) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let delta = other.mean_ns - self.mean_ns;
        self.mean_ns += delta * b / (a + b);
        self.square_ns += other.square_ns + delta * delta * a * b / (a + b);
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.mean_ns as u64)
    }

    /// Sample standard deviation; zero for fewer than two samples.
    pub fn deviation(&self) -> Duration {
        if self.count < 2 {
            return Duration::ZERO;
        }
        Duration::from_nanos((self.square_ns / (self.count - 1) as f64).max(0.0).sqrt() as u64)
    }
}

impl Serialize for Spread {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let ms = |d: Duration| d.as_nanos() as f64 / 1e6;
        let mut s = serializer.serialize_struct("Spread", 5)?;
        s.serialize_field("count", &self.count)?;
        s.serialize_field("min_ms", &ms(self.min))?;
        s.serialize_field("mean_ms", &ms(self.mean()))?;
        s.serialize_field("max_ms", &ms(self.max))?;
        s.serialize_field("deviation_ms", &ms(self.deviation()))?;
        s.end()
    }
}

/// A varying quantity in bytes: maximum and mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Level {
    /// Samples (or changes) behind the mean.
    pub samples: u64,
    /// Largest value in bytes.
    pub max: u64,
    /// Mean in bytes.
    pub mean: f64,
}

impl Level {
    pub(crate) fn record(&mut self, value: u64) {
        self.samples += 1;
        self.max = self.max.max(value);
        self.mean += (value as f64 - self.mean) / self.samples as f64;
    }
}

/// Retransmitted segments by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retransmissions {
    /// Data packets that repeat bytes already seen.
    pub packets: u64,
    /// Repeated bytes.
    pub bytes: u64,
    /// After three duplicate acknowledgments or SACK, and during the recovery that follows.
    pub fast: u64,
    /// After a timeout, and the retransmissions that follow it.
    pub timeout: u64,
    /// Retransmissions of the last segment before a timeout could expire: tail loss probe or a hasty timer.
    pub probe: u64,
    /// Retransmissions of bytes that the peer had already acknowledged, or reported as received twice (RFC 2883):
    /// reordered or late, not lost.
    pub needless: u64,
    /// Probes of a closed window.
    pub window_probe: u64,
    /// SYN or FIN retransmissions.
    pub control: u64,
}

/// Figures of one end's packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Direction {
    /// Packets and bytes.
    pub volume: Volume,
    /// Packets by type.
    pub kinds: Kinds,
    /// Packets with the PSH flag.
    pub pushed: u64,
    /// Packets with the ACK flag.
    pub with_ack: u64,
    /// Payload bytes not seen before.
    pub unique_bytes: u64,
    /// Sequence space from the first to the last data byte, in bytes. It exceeds `unique_bytes` if the capture missed
    /// some.
    pub stream_bytes: u64,
    /// Retransmissions by cause.
    pub retransmissions: Retransmissions,
    /// Data packets that arrived below the highest sequence number and were not seen before: reordered, or lost before
    /// the capture point and retransmitted.
    pub out_of_order: u64,
    /// Those of `out_of_order` that were lost before the capture point and retransmitted, as shown by their timestamps
    /// or by the receiver's request for them.
    pub out_of_order_late: u64,
    /// Duplicate acknowledgments sent by this end (RFC 5681's definition).
    pub duplicate_acks: u64,
    /// Third duplicate acknowledgments, which trigger a fast retransmit at the peer.
    pub triple_duplicate_acks: u64,
    /// Packets with SACK blocks.
    pub sacks: u64,
    /// Packets whose first SACK block reports a duplicate (RFC 2883).
    pub duplicate_sacks: u64,
    /// Keep-alive probes.
    pub keep_alives: u64,
    /// Packets that only change the window.
    pub window_updates: u64,
    /// Packets with a zero window, except RST packets.
    pub zero_windows: u64,
    /// Maximum segment size announced, in bytes.
    pub mss: Option<u16>,
    /// Window scale announced.
    pub window_scale: Option<u8>,
    /// Whether SACK permitted was announced.
    pub sack_permitted: bool,
    /// Whether timestamps are used.
    pub timestamps: bool,
    /// Smallest payload of a data packet in bytes, zero without data.
    pub segment_min: u32,
    /// Largest payload of a data packet in bytes.
    pub segment_max: u32,
    /// Smallest advertised window after the handshake, scaled, in bytes.
    pub window_min: Option<u64>,
    /// Advertised windows, scaled, in bytes.
    pub window: Level,
    /// Bytes sent before the first acknowledgment of data.
    pub initial_window: u64,
    /// Data packets sent before the first acknowledgment of data.
    pub initial_packets: u64,
    /// Round-trip times from this end's data to the peer's acknowledgment, measured at the capture point.
    pub rtt: Spread,
    /// Number of round-trip times of retransmitted segments that timestamps resolved; not in `rtt`.
    pub rtt_by_echo: u64,
    /// Bytes in flight as this end knew them; the mean is over the time in which there were any.
    pub flight: Level,
    /// Estimated congestion window: the largest flight in each round trip with data.
    pub cwnd: Level,
    /// Longest pause between two packets of this end.
    #[serde(rename = "idle_max_ms", serialize_with = "quantity::ms")]
    pub idle_max: Duration,
    /// Time from the first to the last data packet.
    #[serde(rename = "data_span_ms", serialize_with = "quantity::ms")]
    pub data_span: Duration,
    /// Time for which the peer's full window stopped the sender.
    #[serde(rename = "window_limited_ms", serialize_with = "quantity::ms")]
    pub window_limited: Duration,
    /// Time the peer's window was zero.
    #[serde(rename = "zero_window_ms", serialize_with = "quantity::ms")]
    pub zero_window: Duration,
    /// Pauses inside a message with nothing in flight.
    #[serde(rename = "application_limited_ms", serialize_with = "quantity::ms")]
    pub application_limited: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_follows_the_identity_of_document_003() {
        let v = Volume {
            packets: 510,
            payload: 216_289,
            headers: 510 * 52,
        };
        // Table 4, HTTP/1.0: 510.2 packets, 216,289 bytes, 8.6 percent.
        assert!((v.overhead_40() - 8.6).abs() < 0.05);
        assert_eq!(v.with_40(), 236_689);
        assert_eq!(Volume::default().overhead_40(), 0.0);
    }

    /// Claim bc-12: in every column of Tables 2 and 7 of document 000 (Barford and Crovella 1999), bytes on the wire
    /// are the payload and 40 bytes per packet, to half of the last printed digit of all three.
    #[test]
    fn forty_bytes_a_packet_are_what_the_documents_tables_count() {
        let text = include_str!("../testdata/barford_volumes.csv");
        let mut columns = 0;
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let millions = |at: usize| fields[at].parse::<f64>().expect(line);
            let volume = Volume {
                packets: (millions(3) * 1e6).round() as u64,
                payload: (millions(4) * 1e6).round() as u64,
                headers: 0,
            };
            let printed = 0.05e6 + 0.05e6 + 40.0 * 0.0005e6;
            let off = volume.with_40() as f64 - millions(5) * 1e6;
            assert!(off.abs() <= printed, "{line}: {off}");
            columns += 1;
        }
        assert_eq!(columns, 18);
    }

    #[test]
    fn spread_matches_the_textbook() {
        let mut s = Spread::default();
        for ms in [2u64, 4, 4, 4, 5, 5, 7, 9] {
            s.record(Duration::from_millis(ms));
        }
        assert_eq!(
            (s.count, s.min, s.max),
            (8, Duration::from_millis(2), Duration::from_millis(9))
        );
        assert_eq!(s.mean(), Duration::from_millis(5));
        assert!((s.deviation().as_secs_f64() - 0.002_138).abs() < 1e-6);
    }

    #[test]
    fn spreads_merge_as_if_they_had_been_one() {
        let samples: Vec<Duration> = (1..40u64)
            .map(|n| Duration::from_micros(n * n % 977 + n))
            .collect();
        let spread = |samples: &[Duration]| {
            let mut spread = Spread::default();
            samples.iter().for_each(|sample| spread.record(*sample));
            spread
        };
        let whole = spread(&samples);
        for cut in [0, 1, 7, 38, 39] {
            let mut merged = spread(&samples[..cut]);
            merged.merge(&spread(&samples[cut..]));
            assert_eq!(
                (merged.count, merged.min, merged.max),
                (whole.count, whole.min, whole.max)
            );
            assert!(
                merged.mean().abs_diff(whole.mean()) <= Duration::from_nanos(1),
                "{cut}"
            );
            assert!(
                merged.deviation().abs_diff(whole.deviation()) <= Duration::from_nanos(1),
                "{cut}"
            );
        }
    }
}
