//! Every counter of a connection and of its two directions, defined once: column name, label and value. Tables and
//! CSV use the same list.

use super::security;
use ::trace::{Connection, Direction, DirectionTotals, End, ServerHello, Side, Vantage};
use tls::names;
use units::Duration;

/// A value with its unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A number of things.
    Count(u64),
    Bytes(u64),
    /// A mean number of bytes.
    Mean(f64),
    Time(Duration),
    Percent(f64),
    /// A number with a fraction.
    Ratio(f64),
    Word(String),
    Flag(bool),
    /// No value.
    Absent,
}

impl Value {
    fn optional<T>(value: Option<T>, of: impl FnOnce(T) -> Value) -> Value {
        value.map_or(Value::Absent, of)
    }

    /// The value with its unit, for tables.
    pub(super) fn text(&self) -> String {
        match self {
            Value::Count(n) => n.to_string(),
            Value::Bytes(n) => format!("{n} B"),
            Value::Mean(mean) => format!("{mean:.0} B"),
            Value::Time(time) => milliseconds(*time),
            Value::Percent(percent) => format!("{percent:.1} %"),
            Value::Ratio(ratio) => format!("{ratio:.1}"),
            Value::Word(word) => word.clone(),
            Value::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
            Value::Absent => "-".to_owned(),
        }
    }

    /// The bare number, for CSV: times in milliseconds, empty without a value.
    pub(super) fn plain(&self) -> String {
        match self {
            Value::Count(n) | Value::Bytes(n) => n.to_string(),
            Value::Mean(value) | Value::Percent(value) | Value::Ratio(value) => format!("{value:.3}"),
            Value::Time(time) => format!("{:.6}", time.as_secs_f64() * 1e3),
            Value::Word(word) => word.clone(),
            Value::Flag(flag) => u8::from(*flag).to_string(),
            Value::Absent => String::new(),
        }
    }
}

/// Milliseconds with the significant digits.
pub(super) fn milliseconds(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        _ if ms >= 1e5 => format!("{:.1} s", ms / 1e3),
        _ if ms >= 100.0 => format!("{ms:.0} ms"),
        _ if ms >= 10.0 => format!("{ms:.1} ms"),
        _ if ms > 0.0 => format!("{ms:.3} ms"),
        _ => "0 ms".to_owned(),
    }
}

/// A counter of one `T`.
pub(super) struct Counter<T> {
    /// Column name in snake case; times end in `_ms`.
    pub(super) column: &'static str,
    /// Label in tables; empty for counters that tables do not show.
    pub(super) words: &'static str,
    /// Reads the value.
    pub(super) of: fn(&T) -> Value,
}

macro_rules! counters {
    ($($column:literal, $words:literal, $of:expr;)*) => {
        &[$(Counter { column: $column, words: $words, of: $of }),*]
    };
}

/// Counters of one direction.
pub(super) const DIRECTION: &[Counter<Direction>] = counters! {
    "packets", "packets", |d| Value::Count(d.volume.packets);
    "syn", "  SYN", |d| Value::Count(d.kinds.syn);
    "fin", "  FIN", |d| Value::Count(d.kinds.fin);
    "rst", "  RST", |d| Value::Count(d.kinds.rst);
    "data", "  DATA", |d| Value::Count(d.kinds.data);
    "ack", "  ACK alone", |d| Value::Count(d.kinds.ack);
    "with_ack", "  with ACK", |d| Value::Count(d.with_ack);
    "pushed", "  with PSH", |d| Value::Count(d.pushed);
    "payload_bytes", "payload", |d| Value::Bytes(d.volume.payload);
    "unique_bytes", "  unique", |d| Value::Bytes(d.unique_bytes);
    "stream_bytes", "  stream", |d| Value::Bytes(d.stream_bytes);
    "bytes_with_40", "with 40-byte headers", |d| Value::Bytes(d.volume.with_40());
    "overhead_40_percent", "  overhead", |d| Value::Percent(d.volume.overhead_40());
    "bytes_with_headers", "with true headers", |d| Value::Bytes(d.volume.payload + d.volume.headers);
    "overhead_percent", "  overhead", |d| Value::Percent(d.volume.overhead());
    "retransmitted", "retransmitted packets", |d| Value::Count(d.retransmissions.packets);
    "retransmitted_bytes", "  bytes", |d| Value::Bytes(d.retransmissions.bytes);
    "retransmitted_fast", "  fast", |d| Value::Count(d.retransmissions.fast);
    "retransmitted_timeout", "  by timeout", |d| Value::Count(d.retransmissions.timeout);
    "retransmitted_probe", "  as probe", |d| Value::Count(d.retransmissions.probe);
    "retransmitted_needless", "  needless", |d| Value::Count(d.retransmissions.needless);
    "retransmitted_window_probe", "  into a closed window", |d| Value::Count(d.retransmissions.window_probe);
    "retransmitted_control", "SYN or FIN again", |d| Value::Count(d.retransmissions.control);
    "out_of_order", "out of order", |d| Value::Count(d.out_of_order);
    "out_of_order_late", "  sent again", |d| Value::Count(d.out_of_order_late);
    "duplicate_acks", "duplicate ACKs", |d| Value::Count(d.duplicate_acks);
    "triple_duplicate_acks", "  third ones", |d| Value::Count(d.triple_duplicate_acks);
    "sacks", "with SACK", |d| Value::Count(d.sacks);
    "duplicate_sacks", "  duplicate", |d| Value::Count(d.duplicate_sacks);
    "keep_alives", "keep-alives", |d| Value::Count(d.keep_alives);
    "window_updates", "window updates", |d| Value::Count(d.window_updates);
    "zero_windows", "zero windows", |d| Value::Count(d.zero_windows);
    "mss", "MSS announced", |d| Value::optional(d.mss, |n| Value::Bytes(n.into()));
    "window_scale", "window scale", |d| Value::optional(d.window_scale, |n| Value::Count(n.into()));
    "sack_permitted", "SACK permitted", |d| Value::Flag(d.sack_permitted);
    "timestamps", "timestamps", |d| Value::Flag(d.timestamps);
    "segment_min", "smallest segment", |d| Value::Bytes(d.segment_min.into());
    "segment_max", "largest segment", |d| Value::Bytes(d.segment_max.into());
    "window_min", "window, least", |d| Value::optional(d.window_min, Value::Bytes);
    "window_mean", "  mean", |d| Value::Mean(d.window.mean);
    "window_max", "  largest", |d| Value::Bytes(d.window.max);
    "initial_window", "first flight", |d| Value::Bytes(d.initial_window);
    "initial_packets", "  packets", |d| Value::Count(d.initial_packets);
    "rtt_samples", "round trips", |d| Value::Count(d.rtt.count);
    "rtt_min_ms", "  least", |d| Value::Time(d.rtt.min);
    "rtt_mean_ms", "  mean", |d| Value::Time(d.rtt.mean());
    "rtt_max_ms", "  largest", |d| Value::Time(d.rtt.max);
    "rtt_deviation_ms", "  deviation", |d| Value::Time(d.rtt.deviation());
    "rtt_by_echo", "  by echo", |d| Value::Count(d.rtt_by_echo);
    "flight_mean", "flight, mean", |d| Value::Mean(d.flight.mean);
    "flight_max", "  largest", |d| Value::Bytes(d.flight.max);
    "cwnd_samples", "cwnd estimates", |d| Value::Count(d.cwnd.samples);
    "cwnd_mean", "  mean", |d| Value::Mean(d.cwnd.mean);
    "cwnd_max", "  largest", |d| Value::Bytes(d.cwnd.max);
    "idle_max_ms", "longest idle", |d| Value::Time(d.idle_max);
    "data_span_ms", "first to last data", |d| Value::Time(d.data_span);
    "window_limited_ms", "window limited", |d| Value::Time(d.window_limited);
    "zero_window_ms", "zero window", |d| Value::Time(d.zero_window);
    "application_limited_ms", "application limited", |d| Value::Time(d.application_limited);
};

/// What all clients, or all servers, sent.
pub(super) const TOTALS: &[Counter<DirectionTotals>] = counters! {
    "packets", "packets", |d| Value::Count(d.volume.packets);
    "syn", "  SYN", |d| Value::Count(d.kinds.syn);
    "fin", "  FIN", |d| Value::Count(d.kinds.fin);
    "rst", "  RST", |d| Value::Count(d.kinds.rst);
    "data", "  DATA", |d| Value::Count(d.kinds.data);
    "ack", "  ACK alone", |d| Value::Count(d.kinds.ack);
    "payload_bytes", "payload", |d| Value::Bytes(d.volume.payload);
    "unique_bytes", "  unique", |d| Value::Bytes(d.unique_bytes);
    "bytes_with_40", "with 40-byte headers", |d| Value::Bytes(d.volume.with_40());
    "overhead_40_percent", "  overhead", |d| Value::Percent(d.volume.overhead_40());
    "bytes_with_headers", "with true headers", |d| Value::Bytes(d.volume.payload + d.volume.headers);
    "overhead_percent", "  overhead", |d| Value::Percent(d.volume.overhead());
    "retransmitted", "retransmitted packets", |d| Value::Count(d.retransmissions.packets);
    "retransmitted_bytes", "  bytes", |d| Value::Bytes(d.retransmissions.bytes);
    "retransmitted_fast", "  fast", |d| Value::Count(d.retransmissions.fast);
    "retransmitted_timeout", "  by timeout", |d| Value::Count(d.retransmissions.timeout);
    "retransmitted_probe", "  as probe", |d| Value::Count(d.retransmissions.probe);
    "retransmitted_needless", "  needless", |d| Value::Count(d.retransmissions.needless);
    "retransmitted_window_probe", "  into a closed window", |d| Value::Count(d.retransmissions.window_probe);
    "retransmitted_control", "SYN or FIN again", |d| Value::Count(d.retransmissions.control);
    "out_of_order", "out of order", |d| Value::Count(d.out_of_order);
    "out_of_order_late", "  sent again", |d| Value::Count(d.out_of_order_late);
    "duplicate_acks", "duplicate ACKs", |d| Value::Count(d.duplicate_acks);
    "zero_windows", "zero windows", |d| Value::Count(d.zero_windows);
    "rtt_samples", "round trips", |d| Value::Count(d.rtt.count);
    "rtt_min_ms", "  least", |d| Value::Time(d.rtt.min);
    "rtt_mean_ms", "  mean", |d| Value::Time(d.rtt.mean());
    "rtt_max_ms", "  largest", |d| Value::Time(d.rtt.max);
    "flight_max", "largest flight", |d| Value::Bytes(d.flight_max);
    "idle_max_ms", "longest idle", |d| Value::Time(d.idle_max);
};

/// Counters of a connection as a whole.
pub(super) const CONNECTION: &[Counter<Connection>] = counters! {
    "connection", "", |c| Value::Count(c.id.0);
    "client", "", |c| Value::Word(c.client.to_string());
    "server", "", |c| Value::Word(c.server.to_string());
    "first_packet", "", |c| Value::Count(c.packets.0);
    "last_packet", "", |c| Value::Count(c.packets.1);
    "start_ms", "", |c| Value::Time(c.start);
    "duration_ms", "", |c| Value::Time(c.duration);
    "handshake_ms", "", |c| Value::optional(c.handshake, Value::Time);
    "established_ms", "", |c| Value::optional(c.established, Value::Time);
    "end", "", |c| Value::Word(end(c.end).to_owned());
    "vantage", "", |c| Value::Word(vantage(c.vantage).to_owned());
    "tls_version", "", |c| Value::optional(hello(c), |h| Value::Word(names::version(h.version)));
    "cipher_suite", "", |c| Value::optional(hello(c), |h| Value::Word(names::suite(h.cipher_suite)));
    "key_exchange", "", |c| Value::optional(hello(c).and_then(|h| h.group), |g| Value::Word(names::group(g)));
    "server_name", "", |c| Value::optional(c.tls.as_ref().and_then(|t| t.client.as_ref()?.server_name.clone()), Value::Word);
    "alpn", "", |c| Value::optional(c.tls.as_ref().and_then(|t| t.alpn.clone()), Value::Word);
    "resumed", "", |c| Value::optional(hello(c), |_| Value::Flag(c.tls.as_ref().is_some_and(|t| t.resumption.is_some())));
    "tls_handshake_ms", "", |c| Value::optional(c.tls.as_ref().and_then(|t| t.handshake), Value::Time);
    "client_records", "", |c| Value::optional(c.tls.as_ref(), |t| Value::Count(t.records[0]));
    "server_records", "", |c| Value::optional(c.tls.as_ref(), |t| Value::Count(t.records[1]));
    "decryption", "", |c| Value::optional(c.tls.as_ref(), |t| Value::Word(security::decryption(t.decryption).to_owned()));
    "requests", "", |c| Value::optional(c.http, |h| Value::Count(h.requests));
    "answers", "", |c| Value::optional(c.http, |h| Value::Count(h.responses));
    "unmatched_requests", "", |c| Value::optional(c.http, |h| Value::Count(h.unmatched_requests));
    "unmatched_answers", "", |c| Value::optional(c.http, |h| Value::Count(h.unmatched_responses));
    "pipelined", "", |c| Value::optional(c.http, |h| Value::Count(h.pipelined));
    "unanswered", "", |c| Value::optional(c.http, |h| Value::Count(h.unanswered));
    "packets_per_request", "", |c| Value::optional(c.packets_per_request, Value::Ratio);
};

/// The server's choice of TLS.
fn hello(connection: &Connection) -> Option<&ServerHello> {
    connection.tls.as_ref()?.server.as_ref()
}

/// How a record ended, in words.
pub(super) fn end(end: End) -> &'static str {
    match end {
        End::Closed => "closed",
        End::Reset(Side::Client) => "reset by client",
        End::Reset(Side::Server) => "reset by server",
        End::CaptureEnded => "open",
        End::Idle => "silent",
        End::Evicted => "evicted",
        End::Reused => "reused",
    }
}

/// Where a capture was made, in words.
pub(super) fn vantage(vantage: Vantage) -> &'static str {
    match vantage {
        Vantage::Client => "client",
        Vantage::Server => "server",
        Vantage::Middle => "middle",
        Vantage::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn columns_are_told_apart_and_name_their_units() {
        let columns: Vec<&str> = DIRECTION.iter().map(|c| c.column).collect();
        assert_eq!(columns.iter().collect::<BTreeSet<_>>().len(), columns.len());
        let zero = Direction::default();
        for counter in DIRECTION {
            let is_time = matches!((counter.of)(&zero), Value::Time(_));
            assert_eq!(counter.column.ends_with("_ms"), is_time, "{}", counter.column);
            assert!(!counter.words.is_empty(), "{}", counter.column);
        }
    }

    #[test]
    fn every_total_has_its_column_in_a_direction() {
        for total in TOTALS {
            assert!(
                DIRECTION.iter().any(|counter| counter.column == total.column),
                "{}",
                total.column
            );
        }
    }

    #[test]
    fn times_have_three_digits() {
        for (us, want) in [
            (0, "0 ms"),
            (12, "0.012 ms"),
            (1_234, "1.234 ms"),
            (12_345, "12.3 ms"),
            (123_456, "123 ms"),
            (123_456_789, "123.5 s"),
        ] {
            assert_eq!(milliseconds(Duration::from_micros(us)), want);
        }
    }
}
