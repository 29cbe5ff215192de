//! What distinguishes one TCP stack from another, by name, each value with its source.
//!
//! The values live in `data/stacks.toml`, each tagged: from a document, from a public copy, recalled, fitted
//! or assumed. Nothing here decides anything; the endpoint's machines ask.

use measure::{Bytes, Duration};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;

const TABLE: &str = include_str!("../data/stacks.toml");

/// The names [`Stack::preset`] knows.
pub const PRESETS: &[&str] = &[
    "sunos-4.1.3",
    "solaris-2.5",
    "4.4bsd",
    "digital-unix-4.0",
    "linux-2.0",
    "windows-nt-4.0",
    "linux-6",
];

/// What makes a receiver acknowledge before its timer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum AckRule {
    /// The application's read lets the window move by two segments, or half the buffer.
    #[serde(rename = "on-read-2mss")]
    OnRead,
    /// Two segments' worth of bytes are unacknowledged.
    #[serde(rename = "bytes-2mss")]
    Bytes,
    /// Every second segment of any size.
    #[serde(rename = "segments-2")]
    Segments,
    /// Every segment of the first [`AckRule::QUICK`], until this end answers one within the time of a delayed ACK; then as
    /// [`AckRule::Bytes`].
    #[serde(rename = "bytes-2mss+quickack")]
    QuickThenBytes,
}

impl AckRule {
    /// Segments acknowledged at once when a connection starts (Linux: 16 at most).
    pub const QUICK: u32 = 16;
}

/// When a delayed ACK is sent at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckTimer {
    /// On the host's beat, whatever the connection.
    Heartbeat,
    /// A fixed time after the first unacknowledged segment.
    PerSegment,
}

/// When Nagle's algorithm takes a connection as idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NagleIdle {
    /// Asked once per output call (one write, or one ACK), for all segments that call sends.
    PerCall,
    /// Asked again before each segment.
    PerSegment,
    /// Only an unacknowledged small segment holds a small segment (draft-minshall-nagle).
    Minshall,
}

/// What becomes of the congestion window after an idle time longer than the RTO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum IdleRestart {
    /// It is kept.
    #[serde(rename = "none")]
    Keep,
    /// It is one segment.
    #[serde(rename = "to-1")]
    One,
    /// It is the initial window (RFC 5681, section 4.1).
    #[serde(rename = "to-initial")]
    Initial,
    /// It is halved for each RTO gone, down to the initial window (RFC 2861).
    #[serde(rename = "decay")]
    Decay,
    /// It is kept, and segments leave one by one at the rate of before until the first ACK is back
    /// (Heidemann 1997, section 2.4).
    #[serde(rename = "pace")]
    Pace,
}

/// What follows a retransmission timeout of data that was only late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpuriousTimeouts {
    /// Everything outstanding is sent again.
    GoBack,
    /// It is noticed, by time stamps (RFC 3522) or else by F-RTO (RFC 5682), and undone.
    Undo,
}

/// The parameters of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// The preset's name.
    pub name: String,
    /// Initial congestion window, in segments.
    pub initial_cwnd_segments: u32,
    /// The ACK that completes the handshake opens the window by a segment.
    pub handshake_ack_opens_cwnd: bool,
    /// See [`IdleRestart`].
    pub idle_restart: IdleRestart,
    /// See [`AckRule`].
    pub ack_rule: AckRule,
    /// See [`AckTimer`].
    pub ack_timer: AckTimer,
    /// Period of the beat, or the fixed time.
    pub delayed_ack: Duration,
    /// Whether Nagle's algorithm is on unless switched off.
    pub nagle: bool,
    /// See [`NagleIdle`].
    pub nagle_idle: NagleIdle,
    /// Least retransmission timeout.
    pub rto_min: Duration,
    /// Timeout before the first round trip is measured.
    pub rto_initial: Duration,
    /// Timeouts are rounded up to this.
    pub rto_granularity: Duration,
    /// A timeout of data that does not follow the measured round trip: a defect of the stack, or a fit.
    pub rto_fixed: Option<Duration>,
    /// Duplicate ACKs that make a retransmission.
    pub dupack_threshold: u32,
    /// Whether fast retransmit is followed by fast recovery (Reno) instead of slow start (Tahoe).
    pub fast_recovery: bool,
    /// Send buffer.
    pub send_buffer: Bytes,
    /// Receive buffer; offered whole, as far as the window field and its scale reach.
    pub recv_buffer: Bytes,
    /// Largest segment over Ethernet.
    pub mss: u16,
    /// Largest segment to a host on another network, before path MTU discovery.
    pub mss_default: u16,
    /// Whether hosts of the same network start slowly, too.
    pub slow_start_on_lan: bool,
    /// The FIN rides on the last data segment.
    pub fin_with_data: bool,
    /// Time stamps are offered (RFC 7323).
    pub timestamps: bool,
    /// The shift by which the window is scaled, if the peer scales its window, too (RFC 7323).
    pub window_scale: Option<u8>,
    /// Selective acknowledgments are offered (RFC 2018) and steer the recovery from loss (RFC 6675).
    pub selective_acks: bool,
    /// See [`SpuriousTimeouts`].
    pub spurious_timeouts: SpuriousTimeouts,
}

/// A row of the file. Keys that follow from others are read, so that a typing error cannot hide, and unused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(
    dead_code,
    reason = "keys that follow from others are only compared with them, in a test"
)]
struct Row {
    initial_cwnd_segments: u32,
    handshake_ack_opens_cwnd: bool,
    first_reply_cwnd_segments: u32,
    restart_cwnd_segments: u32,
    idle_restart: IdleRestart,
    ack_rule: AckRule,
    delayed_ack_timer: AckTimer,
    delayed_ack_ms: u64,
    nagle_default: bool,
    nagle_idle: NagleIdle,
    sws: String,
    rto_min_ms: u64,
    rto_initial_ms: u64,
    rto_granularity_ms: u64,
    rto_lan_effective_ms: Option<u64>,
    rto_wan_effective_ms: Option<u64>,
    rto_ppp_effective_ms: Option<u64>,
    dupack_threshold: u32,
    fast_recovery: bool,
    send_buffer_bytes: u64,
    send_buffer_effective_bytes: Option<u64>,
    recv_buffer_bytes: u64,
    mss_ethernet_bytes: u16,
    mss_default_bytes: u16,
    slow_start_on_lan: bool,
    fin_with_data: bool,
    fin_ack: String,
    request_with_handshake_ack: bool,
    timestamps: bool,
    window_scale: Option<u8>,
    #[serde(default)]
    selective_acks: bool,
    spurious_timeouts: SpuriousTimeouts,
    source: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct File {
    preset: BTreeMap<String, Row>,
}

fn rows() -> &'static BTreeMap<String, Row> {
    static ROWS: OnceLock<BTreeMap<String, Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let file: File = toml::from_str(TABLE).expect("part of the program, and a test reads it");
        file.preset
    })
}

impl Stack {
    /// The named stack, or `None`.
    pub fn preset(name: &str) -> Option<Stack> {
        let row = rows().get(name)?;
        Some(Stack {
            name: name.to_owned(),
            initial_cwnd_segments: row.initial_cwnd_segments,
            handshake_ack_opens_cwnd: row.handshake_ack_opens_cwnd,
            idle_restart: row.idle_restart,
            ack_rule: row.ack_rule,
            ack_timer: row.delayed_ack_timer,
            delayed_ack: Duration::from_millis(row.delayed_ack_ms),
            nagle: row.nagle_default,
            nagle_idle: row.nagle_idle,
            rto_min: Duration::from_millis(row.rto_min_ms),
            rto_initial: Duration::from_millis(row.rto_initial_ms),
            rto_granularity: Duration::from_millis(row.rto_granularity_ms),
            rto_fixed: None,
            dupack_threshold: row.dupack_threshold,
            fast_recovery: row.fast_recovery,
            send_buffer: Bytes(row.send_buffer_bytes),
            recv_buffer: Bytes(row.recv_buffer_bytes),
            mss: row.mss_ethernet_bytes,
            mss_default: row.mss_default_bytes,
            slow_start_on_lan: row.slow_start_on_lan,
            fin_with_data: row.fin_with_data,
            timestamps: row.timestamps,
            window_scale: row.window_scale,
            selective_acks: row.selective_acks,
            spurious_timeouts: row.spurious_timeouts,
        })
    }

    /// Where a preset's value comes from, by the file's key; the tag in front says how well it is known.
    pub fn source(name: &str, key: &str) -> Option<&'static str> {
        rows().get(name)?.source.get(key).map(String::as_str)
    }

    /// The fitted timeout of a preset on a kind of network (`lan`, `wan`, `ppp`), where there is one.
    pub fn rto_effective(name: &str, network: &str) -> Option<Duration> {
        let row = rows().get(name)?;
        match network {
            "lan" => row.rto_lan_effective_ms,
            "wan" => row.rto_wan_effective_ms,
            "ppp" => row.rto_ppp_effective_ms,
            _ => None,
        }
        .map(Duration::from_millis)
    }

    /// The fitted send buffer of a preset, where it differs from the documented one.
    pub fn send_buffer_effective(name: &str) -> Option<Bytes> {
        rows().get(name)?.send_buffer_effective_bytes.map(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_loads_and_every_value_has_a_source() {
        let table: toml::Table = TABLE.parse().unwrap();
        let presets = table["preset"].as_table().unwrap();
        assert_eq!(presets.len(), PRESETS.len());
        for name in PRESETS {
            let stack = Stack::preset(name).expect(name);
            assert!(stack.mss > 0 && !stack.delayed_ack.is_zero());
            for key in presets[*name]
                .as_table()
                .unwrap()
                .keys()
                .filter(|key| *key != "source")
            {
                let source =
                    Stack::source(name, key).unwrap_or_else(|| panic!("{name}: {key} has no source"));
                assert!(source.starts_with('['), "{name}.{key}: {source}");
            }
        }
        assert_eq!(Stack::preset("cp/m"), None);
    }

    /// Keys that say the outcome of others agree with what the endpoint will do, and keys with one value in all
    /// presets have the value the endpoint is built for.
    #[test]
    fn keys_that_follow_from_others_agree() {
        for (name, row) in rows() {
            let first = row.initial_cwnd_segments + u32::from(row.handshake_ack_opens_cwnd);
            assert_eq!(row.first_reply_cwnd_segments, first, "{name}");
            let restart = match row.idle_restart {
                IdleRestart::One => 1,
                IdleRestart::Initial | IdleRestart::Decay => row.initial_cwnd_segments,
                _ => row.restart_cwnd_segments,
            };
            assert_eq!(row.restart_cwnd_segments, restart, "{name}");
            assert_eq!(
                (row.sws.as_str(), row.fin_ack.as_str()),
                ("bsd", "immediate"),
                "{name}"
            );
            assert!(!row.request_with_handshake_ack, "{name}");
        }
    }

    #[test]
    fn fitted_values_are_kept_apart() {
        assert_eq!(
            Stack::rto_effective("solaris-2.5", "lan"),
            Some(Duration::from_millis(70))
        );
        assert_eq!(Stack::rto_effective("4.4bsd", "lan"), None);
        assert_eq!(Stack::send_buffer_effective("solaris-2.5"), Some(Bytes(16_384)));
        assert!(
            Stack::source("solaris-2.5", "rto_lan_effective_ms")
                .unwrap()
                .starts_with("[F]")
        );
    }
}
