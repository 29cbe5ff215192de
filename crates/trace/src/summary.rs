//! The whole capture: totals over connections, series over time, distributions.
//!
//! Everything has a fixed size: a series that outgrows its bins doubles their width.

use crate::connection::{ConnectionId, End};
use crate::datagrams::UdpTotals;
use crate::direction::{Direction, Kinds, Retransmissions, Spread, Volume};
use crate::event::Connection;
use crate::finding::Finding;
use crate::quantity;
use crate::quic_facts::{Quic, QuicTotals};
use crate::tls::{Decryption, Tls};
use crate::transaction::{HttpCounts, Transaction};
use core::fmt::Write as _;
use core::time::Duration;
use serde::Serialize;
use std::collections::BTreeMap;
use units::Instant;

/// Limit on the bins of a time series; beyond it their width doubles.
const BINS_MAX: usize = 2048;
/// Larger congestion windows, in segments, share the last bin of the distribution.
const CWND_SEGMENTS_MAX: usize = 4096;

/// Frames by content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Frames {
    /// All frames.
    pub total: u64,
    /// Length of all frames on the wire, in bytes.
    pub wire_bytes: u64,
    /// TCP segments.
    pub tcp: u64,
    /// UDP datagrams that carry no tunnel.
    pub udp: u64,
    /// TCP segments and UDP datagrams that the filter rejected.
    pub turned_away: u64,
    /// IP with other protocols.
    pub other_ip: u64,
    /// Fragments of IP datagrams, except those that completed one: such a frame counts as the datagram.
    pub fragments: u64,
    /// Datagrams reassembled from fragments.
    pub joined: u64,
    /// Fragments of reassembled datagrams; the other datagrams were captured only in part.
    pub joined_fragments: u64,
    /// Neither IPv4 nor IPv6.
    pub not_ip: u64,
    /// Incomplete or contradictory headers.
    pub malformed: u64,
    /// Malformed frames that were captured only in part.
    pub cut_headers: u64,
    /// TCP segments and UDP datagrams whose headers were captured, but not all of their payload.
    pub cut_payload: u64,
    /// Frames of unsupported link types.
    pub unknown_link: u64,
    /// Latest unsupported link type.
    pub unknown_link_type: Option<u16>,
    /// Frames older than the frame before them.
    pub time_backwards: u64,
    /// Frames whose time neither neighbor confirms; they got the time of the frame before.
    pub time_wrong: u64,
}

/// Totals of one direction over all finished connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DirectionTotals {
    /// Packets and bytes.
    pub volume: Volume,
    /// Packets by type.
    pub kinds: Kinds,
    /// Payload bytes without retransmissions.
    pub unique_bytes: u64,
    /// Retransmissions by cause.
    pub retransmissions: Retransmissions,
    /// Reordered packets.
    pub out_of_order: u64,
    /// Out-of-order packets that were lost before the capture point and retransmitted.
    pub out_of_order_late: u64,
    /// Duplicate acknowledgments.
    pub duplicate_acks: u64,
    /// Packets with a zero window.
    pub zero_windows: u64,
    /// Round-trip times.
    pub rtt: Spread,
    /// Largest flight in bytes.
    pub flight_max: u64,
    /// Longest pause between two packets of one connection.
    #[serde(rename = "idle_max_ms", serialize_with = "quantity::ms")]
    pub idle_max: Duration,
}

impl DirectionTotals {
    fn add(&mut self, d: &Direction) {
        self.volume.add(d.volume);
        self.kinds.add(d.kinds);
        self.unique_bytes += d.unique_bytes;
        let (a, b) = (&mut self.retransmissions, d.retransmissions);
        a.packets += b.packets;
        a.bytes += b.bytes;
        a.fast += b.fast;
        a.timeout += b.timeout;
        a.probe += b.probe;
        a.needless += b.needless;
        a.window_probe += b.window_probe;
        a.control += b.control;
        self.out_of_order += d.out_of_order;
        self.out_of_order_late += d.out_of_order_late;
        self.duplicate_acks += d.duplicate_acks;
        self.zero_windows += d.zero_windows;
        self.rtt.merge(&d.rtt);
        self.flight_max = self.flight_max.max(d.flight.max);
        self.idle_max = self.idle_max.max(d.idle_max);
    }
}

/// Connection counts (Table 6 of document 000).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Connections {
    /// TCP connections seen.
    pub seen: u64,
    /// With a complete handshake or data.
    pub established: u64,
    /// Closed by both ends.
    pub closed: u64,
    /// Reset.
    pub reset: u64,
    /// Open at the end of the capture.
    pub open: u64,
    /// Evicted because there were too many.
    pub evicted: u64,
    /// Dropped after silence.
    pub idle: u64,
    /// Largest number established at one time.
    pub established_max: u64,
    /// Mean number established over the capture.
    pub established_mean: f64,
    /// Mean established time of connections that ended.
    #[serde(rename = "mean_duration_s", serialize_with = "quantity::seconds")]
    pub mean_duration: Duration,
    /// Sum of established times.
    #[serde(rename = "connect_seconds", serialize_with = "quantity::seconds")]
    pub connect_time: Duration,
    /// Duration of handshakes that the capture has completely.
    pub handshake: Spread,
}

/// Mean and maximum in equal intervals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeSeries {
    /// Width of each interval.
    #[serde(rename = "interval_s", serialize_with = "quantity::seconds")]
    pub interval: Duration,
    /// Mean in each interval from the first frame on.
    pub mean: Vec<f64>,
    /// Maximum in each interval.
    pub max: Vec<f64>,
}

/// Distribution of estimated congestion windows in segments, one sample per round trip with data.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CwndDistribution {
    /// Number of samples.
    pub samples: u64,
    /// Mean in bytes.
    pub mean_bytes: f64,
    /// Largest in bytes.
    pub max_bytes: u64,
    /// Pairs of a number of segments and the share of samples up to it.
    pub cdf: Vec<(u32, f64)>,
}

/// TLS in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TlsTotals {
    /// Connections whose ClientHello was captured.
    pub connections: u64,
    /// With TLS 1.3 (RFC 8446).
    pub tls13: u64,
    /// With TLS 1.2 (RFC 5246).
    pub tls12: u64,
    /// Resumed sessions.
    pub resumed: u64,
    /// Handshakes with a HelloRetryRequest.
    pub retried: u64,
    /// Ended by an alert with an error.
    pub alerted: u64,
    /// Connections whose records were opened, at least in part.
    pub decrypted: u64,
    /// Connections for which there were secrets, but not theirs or for another cipher suite.
    pub undecrypted: u64,
    /// From the ClientHello to the client's first protected record.
    pub handshake: Spread,
}

impl TlsTotals {
    fn add(&mut self, tls: &Tls) {
        if tls.client.is_none() {
            return;
        }
        let version = tls.server.as_ref().map(|hello| hello.version);
        self.connections += 1;
        self.tls13 += u64::from(version == Some(0x0304));
        self.tls12 += u64::from(version == Some(0x0303));
        self.resumed += u64::from(tls.resumption.is_some());
        self.retried += u64::from(tls.retried);
        self.alerted += u64::from(tls.alerts.iter().any(|alert| alert.fatal));
        self.decrypted += u64::from(matches!(tls.decryption, Decryption::Done | Decryption::Stopped));
        self.undecrypted += u64::from(matches!(
            tls.decryption,
            Decryption::NoSecrets | Decryption::UnknownSuite
        ));
        if let Some(handshake) = tls.handshake {
            self.handshake.record(handshake);
        }
    }
}

/// Total cost of one kind of finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FindingTotals {
    /// Number of findings.
    pub count: u64,
    /// Sum of their costs; findings on parallel connections overlap.
    #[serde(rename = "cost_ms", serialize_with = "quantity::ms")]
    pub cost: Duration,
    /// The largest single cost.
    #[serde(rename = "cost_max_ms", serialize_with = "quantity::ms")]
    pub cost_max: Duration,
    /// What to change, and where.
    pub remedy: &'static str,
}

/// Summary of a capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Time of the first frame, in nanoseconds since 1970.
    pub start_ns: u64,
    /// Time from the first to the last frame.
    #[serde(rename = "duration_s", serialize_with = "quantity::seconds")]
    pub duration: Duration,
    /// Frames by content.
    pub frames: Frames,
    /// Both directions of all connections.
    pub volume: Volume,
    /// Packets by type, both directions.
    pub kinds: Kinds,
    /// From clients to servers.
    pub from_clients: DirectionTotals,
    /// From servers to clients.
    pub from_servers: DirectionTotals,
    /// Connections in numbers.
    pub connections: Connections,
    /// Established connections over time.
    pub established: TimeSeries,
    /// Estimated congestion windows in bytes over time, all senders.
    pub cwnd: TimeSeries,
    /// Distribution of estimated congestion windows.
    pub cwnd_distribution: CwndDistribution,
    /// TLS over all connections.
    pub tls: TlsTotals,
    /// HTTP counters over all connections.
    pub http: HttpCounts,
    /// Time from each request's last byte to its response's first.
    pub http_wait: Spread,
    /// Time from each request's first byte to its response's last.
    pub http_total: Spread,
    /// Packets of HTTP connections per request.
    pub packets_per_request: Option<f64>,
    /// UDP, with DNS.
    pub udp: UdpTotals,
    /// QUIC connections.
    pub quic: QuicTotals,
    /// Findings by title.
    pub findings: BTreeMap<&'static str, FindingTotals>,
    /// Segments not stored until their acknowledgment, because there were too many.
    pub untracked_segments: u64,
    /// Connections whose secrets were not kept, because there were too many.
    pub refused_secrets: u64,
}

impl CwndDistribution {
    /// The distribution as CSV: `segments,share`.
    pub fn csv(&self) -> String {
        let mut out = String::from("segments,share\n");
        for (segments, share) in &self.cdf {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{segments},{share:.6}");
        }
        out
    }
}

impl TimeSeries {
    /// The series as CSV: `t_s,mean,max`, one row for each interval.
    pub fn csv(&self) -> String {
        let mut out = String::from("t_s,mean,max\n");
        for (i, (mean, max)) in self.mean.iter().zip(&self.max).enumerate() {
            let t = self.interval.as_secs_f64() * i as f64;
            let _ = writeln!(out, "{t},{mean:.3},{max}");
        }
        out
    }
}

impl Summary {
    /// Packets by type and direction as CSV: `type,from_clients,from_servers`, for a bar chart.
    pub fn kinds_csv(&self) -> String {
        let (c, s) = (self.from_clients.kinds, self.from_servers.kinds);
        let rows = [
            ("SYN", c.syn, s.syn),
            ("FIN", c.fin, s.fin),
            ("RST", c.rst, s.rst),
            ("DATA", c.data, s.data),
            ("ACK", c.ack, s.ack),
        ];
        let mut out = String::from("type,from_clients,from_servers\n");
        for (name, clients, servers) in rows {
            let _ = writeln!(out, "{name},{clients},{servers}");
        }
        out
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    sum: f64,
    weight: f64,
    max: f64,
}

#[derive(Debug)]
struct Bins {
    width: Duration,
    bins: Vec<Bin>,
}

impl Bins {
    fn new() -> Bins {
        Bins {
            width: Duration::from_secs(1),
            bins: Vec::new(),
        }
    }

    fn add(&mut self, at: Duration, value: f64, weight: f64) {
        let mut index = (at.as_nanos() / self.width.as_nanos()) as usize;
        while index >= BINS_MAX {
            self.width *= 2;
            index /= 2;
            let merged = self.bins.chunks(2).map(|pair| {
                pair.iter().fold(Bin::default(), |a, b| Bin {
                    sum: a.sum + b.sum,
                    weight: a.weight + b.weight,
                    max: a.max.max(b.max),
                })
            });
            self.bins = merged.collect();
        }
        if self.bins.len() <= index {
            self.bins.resize(index + 1, Bin::default());
        }
        let bin = &mut self.bins[index];
        bin.sum += value * weight;
        bin.weight += weight;
        bin.max = bin.max.max(value);
    }

    /// Adds `value` for the time between two instants, bin by bin.
    fn spread(&mut self, from: Duration, to: Duration, value: f64) {
        // Grow first, so that the loop below covers at most BINS_MAX bins.
        self.add(to, value, 0.0);
        let mut at = from;
        while at < to {
            let next = self.width * ((at.as_nanos() / self.width.as_nanos()) as u32 + 1);
            let end = next.min(to);
            self.add(at, value, (end - at).as_secs_f64());
            at = end;
        }
    }

    fn series(&self) -> TimeSeries {
        let mean = |b: &Bin| if b.weight > 0.0 { b.sum / b.weight } else { b.max };
        TimeSeries {
            interval: self.width,
            mean: self.bins.iter().map(mean).collect(),
            max: self.bins.iter().map(|b| b.max).collect(),
        }
    }
}

/// Accumulates totals while the capture is read.
#[derive(Debug)]
pub(crate) struct Meter {
    start: Instant,
    last: Instant,
    /// Time of the previous frame.
    before: Instant,
    pub(crate) frames: Frames,
    from_clients: DirectionTotals,
    from_servers: DirectionTotals,
    connections: Connections,
    established_now: u64,
    established_since: Instant,
    established_area: f64,
    established: Bins,
    cwnd: Bins,
    cwnd_segments: Vec<u64>,
    cwnd_count: u64,
    cwnd_mean: f64,
    cwnd_max: u64,
    ended: u64,
    tls: TlsTotals,
    http: HttpCounts,
    http_packets: u64,
    http_wait: Spread,
    http_total: Spread,
    pub(crate) udp: UdpTotals,
    quic: QuicTotals,
    quic_seen: u64,
    findings: BTreeMap<&'static str, FindingTotals>,
}

impl Meter {
    pub(crate) fn new() -> Meter {
        Meter {
            start: Instant::ZERO,
            last: Instant::ZERO,
            before: Instant::ZERO,
            frames: Frames::default(),
            from_clients: DirectionTotals::default(),
            from_servers: DirectionTotals::default(),
            connections: Connections::default(),
            established_now: 0,
            established_since: Instant::ZERO,
            established_area: 0.0,
            established: Bins::new(),
            cwnd: Bins::new(),
            cwnd_segments: Vec::new(),
            cwnd_count: 0,
            cwnd_mean: 0.0,
            cwnd_max: 0,
            ended: 0,
            tls: TlsTotals::default(),
            http: HttpCounts::default(),
            http_packets: 0,
            http_wait: Spread::default(),
            http_total: Spread::default(),
            udp: UdpTotals::default(),
            quic: QuicTotals::default(),
            quic_seen: 0,
            findings: BTreeMap::new(),
        }
    }

    /// Counts a frame; returns the time of the first one.
    #[inline]
    pub(crate) fn frame(&mut self, at: Instant, wire_len: u32) -> Instant {
        if self.frames.total == 0 {
            self.start = at;
            self.last = at;
            self.before = at;
            self.established_since = at;
        }
        self.frames.total += 1;
        self.frames.wire_bytes += u64::from(wire_len);
        self.frames.time_backwards += u64::from(at < self.before);
        self.before = at;
        self.last = self.last.max(at);
        self.start
    }

    /// The number of a new TCP connection.
    pub(crate) fn seen(&mut self) -> ConnectionId {
        self.connections.seen += 1;
        ConnectionId(self.connections.seen + self.quic_seen)
    }

    /// The number of a new QUIC connection.
    pub(crate) fn quic_seen(&mut self) -> ConnectionId {
        self.quic_seen += 1;
        ConnectionId(self.connections.seen + self.quic_seen)
    }

    /// Adds a QUIC connection that ended.
    pub(crate) fn quic(&mut self, quic: &Quic) {
        self.quic.add(quic);
        if let Some(http) = quic.http {
            self.http_packets += quic.from_client.volume.datagrams + quic.from_server.volume.datagrams;
            self.add_http(http);
        }
    }

    fn add_http(&mut self, http: HttpCounts) {
        self.http.requests += http.requests;
        self.http.responses += http.responses;
        self.http.unmatched_responses += http.unmatched_responses;
        self.http.pipelined += http.pipelined;
        self.http.unanswered += http.unanswered;
        self.http.unmatched_requests += http.unmatched_requests;
        self.http.cut_heads += http.cut_heads;
    }

    fn established_until(&mut self, at: Instant) {
        let at = at.max(self.established_since);
        let (from, to) = (self.established_since.since(self.start), at.since(self.start));
        let now = self.established_now as f64;
        self.established.spread(from, to, now);
        self.established_area += now * (to - from).as_secs_f64();
        self.established_since = at;
    }

    pub(crate) fn opened(&mut self, at: Instant) {
        self.established_until(at);
        self.established_now += 1;
        let now = self.established_now;
        self.connections.established += 1;
        self.connections.established_max = self.connections.established_max.max(now);
        self.established
            .add(self.established_since.since(self.start), now as f64, 0.0);
    }

    pub(crate) fn closed(&mut self, at: Instant, duration: Duration) {
        self.established_until(at);
        self.established_now = self.established_now.saturating_sub(1);
        self.ended += 1;
        self.connections.connect_time += duration;
    }

    pub(crate) fn cwnd(&mut self, at: Instant, bytes: u64, mss: u32) {
        self.cwnd.add(at.since(self.start), bytes as f64, 1.0);
        let segments = bytes
            .div_ceil(u64::from(mss.max(1)))
            .min(CWND_SEGMENTS_MAX as u64) as usize;
        if self.cwnd_segments.len() <= segments {
            self.cwnd_segments.resize(segments + 1, 0);
        }
        self.cwnd_segments[segments] += 1;
        self.cwnd_count += 1;
        self.cwnd_mean += (bytes as f64 - self.cwnd_mean) / self.cwnd_count as f64;
        self.cwnd_max = self.cwnd_max.max(bytes);
    }

    pub(crate) fn finding(&mut self, finding: &Finding) {
        let totals = self.findings.entry(finding.kind.title()).or_default();
        totals.count += 1;
        totals.cost += finding.cost;
        totals.cost_max = totals.cost_max.max(finding.cost);
        totals.remedy = finding.kind.remedy();
    }

    pub(crate) fn transaction(&mut self, t: &Transaction) {
        if let (true, Some(wait), Some(receive)) = (t.complete, t.wait, t.receive) {
            self.http_wait.record(wait);
            self.http_total.record(t.request + wait + receive);
        }
    }

    pub(crate) fn finished(&mut self, connection: &Connection) {
        self.from_clients.add(&connection.from_client);
        self.from_servers.add(&connection.from_server);
        let c = &mut self.connections;
        match connection.end {
            End::Closed => c.closed += 1,
            End::Reset(_) => c.reset += 1,
            End::CaptureEnded | End::Reused => c.open += 1,
            End::Evicted => c.evicted += 1,
            End::Idle => c.idle += 1,
        }
        if let Some(handshake) = connection.handshake {
            c.handshake.record(handshake);
        }
        if let Some(tls) = &connection.tls {
            self.tls.add(tls);
        }
        if let Some(http) = connection.http {
            self.add_http(http);
            self.http_packets +=
                connection.from_client.volume.packets + connection.from_server.volume.packets;
        }
    }

    pub(crate) fn summary(&self, untracked_segments: u64, refused_secrets: u64) -> Summary {
        let duration = self.last.since(self.start);
        let mut connections = self.connections;
        let tail = self.last.since(self.established_since).as_secs_f64() * self.established_now as f64;
        if duration > Duration::ZERO {
            connections.established_mean = (self.established_area + tail) / duration.as_secs_f64();
        }
        if self.ended > 0 {
            connections.mean_duration = connections.connect_time.div_f64(self.ended as f64);
        }
        let (mut volume, mut kinds) = (self.from_clients.volume, self.from_clients.kinds);
        volume.add(self.from_servers.volume);
        kinds.add(self.from_servers.kinds);
        let mut below = 0;
        let cdf = self
            .cwnd_segments
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .map(|(segments, n)| {
                below += n;
                (segments as u32, below as f64 / self.cwnd_count as f64)
            });
        Summary {
            start_ns: self.start.as_nanos(),
            duration,
            frames: self.frames,
            volume,
            kinds,
            from_clients: self.from_clients,
            from_servers: self.from_servers,
            connections,
            established: self.established.series(),
            cwnd: self.cwnd.series(),
            cwnd_distribution: CwndDistribution {
                samples: self.cwnd_count,
                mean_bytes: self.cwnd_mean,
                max_bytes: self.cwnd_max,
                cdf: cdf.collect(),
            },
            tls: self.tls,
            http: self.http,
            http_wait: self.http_wait,
            http_total: self.http_total,
            udp: self.udp,
            quic: self.quic,
            packets_per_request: (self.http.requests > 0)
                .then(|| self.http_packets as f64 / self.http.requests as f64),
            findings: self.findings.clone(),
            untracked_segments,
            refused_secrets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_its_size_and_its_mean() {
        let mut bins = Bins::new();
        bins.spread(Duration::ZERO, Duration::from_secs(10_000), 3.0);
        bins.spread(Duration::from_secs(10_000), Duration::from_secs(20_000), 5.0);
        let series = bins.series();
        assert!(series.mean.len() <= BINS_MAX);
        assert_eq!(series.interval, Duration::from_secs(16));
        assert!((series.mean[0] - 3.0).abs() < 1e-9 && (series.mean[1200] - 5.0).abs() < 1e-9);
        let total: f64 = bins.bins.iter().map(|b| b.sum).sum();
        assert!((total - 80_000.0).abs() < 1e-6);
    }
}
