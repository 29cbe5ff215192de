//! The parameters in which TCP stacks differ, by preset name, each with its source.
//!
//! The values are in `data/stacks.toml`, each tagged: from a document, from a public copy, recalled, fitted or
//! assumed. This file decides nothing; the endpoint's state machines read it.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use units::{Bytes, Duration};

const TABLE: &str = include_str!("../data/stacks.toml");

/// Names that [`Stack::preset`] accepts.
pub const PRESETS: &[&str] = &[
    "sunos-4.1.3",
    "solaris-2.5",
    "4.4bsd",
    "digital-unix-4.0",
    "linux-2.0",
    "windows-nt-4.0",
    "linux-6",
];

/// When a receiver acknowledges before its delayed-ACK timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum AckRule {
    /// When a read by the application lets the window move by two segments or half the buffer.
    #[serde(rename = "on-read-2mss")]
    OnRead,
    /// When two segments' worth of bytes are unacknowledged.
    #[serde(rename = "bytes-2mss")]
    Bytes,
    /// At every second segment, of any size.
    #[serde(rename = "segments-2")]
    Segments,
    /// At each of the first [`AckRule::QUICK`] segments, until this end answers one within the delayed-ACK
    /// time; then as [`AckRule::Bytes`].
    #[serde(rename = "bytes-2mss+quickack")]
    QuickThenBytes,
}

impl AckRule {
    /// Segments acknowledged at once when a connection starts (Linux: at most 16).
    pub const QUICK: u32 = 16;
}

/// How the delayed-ACK timer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckTimer {
    /// At the ticks of one timer for all connections of the host.
    Heartbeat,
    /// A fixed time after the first unacknowledged segment.
    PerSegment,
}

/// When Nagle's algorithm considers a connection idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NagleIdle {
    /// Checked once per output call (one write, or one received ACK), for all segments the call sends.
    PerCall,
    /// Checked again before each segment.
    PerSegment,
    /// A small segment waits only while an earlier small segment is unacknowledged (draft-minshall-nagle).
    Minshall,
}

/// The congestion window after an idle time longer than the RTO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum IdleRestart {
    /// Kept.
    #[serde(rename = "none")]
    Keep,
    /// Reduced to one segment.
    #[serde(rename = "to-1")]
    One,
    /// Reduced to the initial window (RFC 5681, section 4.1).
    #[serde(rename = "to-initial")]
    Initial,
    /// Halved for each RTO elapsed, down to the initial window (RFC 2861).
    #[serde(rename = "decay")]
    Decay,
    /// Kept, but segments are paced at the previous rate until the first ACK arrives (Heidemann 1997, section
    /// 2.4).
    #[serde(rename = "pace")]
    Pace,
}

/// The response to a retransmission timeout when the data was only delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpuriousTimeouts {
    /// All outstanding data is sent again.
    GoBack,
    /// The timeout is detected as spurious, by timestamps (RFC 3522) or without them by F-RTO (RFC 5682), and
    /// undone.
    Undo,
}

/// The parameters of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// The preset's name.
    pub name: String,
    /// Initial congestion window, in segments.
    pub initial_cwnd_segments: u32,
    /// Whether the ACK that completes the handshake opens the congestion window by one segment.
    pub handshake_ack_opens_cwnd: bool,
    /// Congestion window after idle time.
    pub idle_restart: IdleRestart,
    /// Rule for acknowledging before the timer expires.
    pub ack_rule: AckRule,
    /// Kind of delayed-ACK timer.
    pub ack_timer: AckTimer,
    /// Delayed-ACK time: the heartbeat's period, or the fixed time after a segment.
    pub delayed_ack: Duration,
    /// Whether Nagle's algorithm is on by default.
    pub nagle: bool,
    /// When Nagle's algorithm considers the connection idle.
    pub nagle_idle: NagleIdle,
    /// Minimum retransmission timeout.
    pub rto_min: Duration,
    /// Timeout before the first round trip is measured.
    pub rto_initial: Duration,
    /// Unit to which timeouts are rounded up.
    pub rto_granularity: Duration,
    /// A fixed timeout for data, independent of the measured round-trip time: a defect of the stack, or a fit.
    pub rto_fixed: Option<Duration>,
    /// Number of duplicate ACKs that triggers a fast retransmit.
    pub dupack_threshold: u32,
    /// Whether fast retransmit is followed by fast recovery (Reno) instead of slow start (Tahoe).
    pub fast_recovery: bool,
    /// Send buffer, in bytes.
    pub send_buffer: Bytes,
    /// Receive buffer, in bytes; offered whole, as far as the window field and its scale allow.
    pub recv_buffer: Bytes,
    /// Maximum segment size over Ethernet, in bytes.
    pub mss: u16,
    /// Maximum segment size to a host on another network without path MTU discovery, in bytes.
    pub mss_default: u16,
    /// Whether connections to hosts on the local network use slow start, too.
    pub slow_start_on_lan: bool,
    /// Whether the FIN is sent with the last data segment.
    pub fin_with_data: bool,
    /// Whether the timestamp option is offered (RFC 7323).
    pub timestamps: bool,
    /// Shift of the receive window, used if the peer also scales its window (RFC 7323).
    pub window_scale: Option<u8>,
    /// Whether selective acknowledgments are offered (RFC 2018) and used for loss recovery (RFC 6675).
    pub selective_acks: bool,
    /// Response to spurious retransmission timeouts.
    pub spurious_timeouts: SpuriousTimeouts,
}

/// A preset in the file. Keys that follow from others are parsed only so that a misspelled key is an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(
    dead_code,
    reason = "keys that follow from others are only compared with them in a test"
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

/// The keys of the file that are settings of a stack; the others follow from these, or are fits.
const SETTINGS: &[&str] = &[
    "initial_cwnd_segments",
    "handshake_ack_opens_cwnd",
    "idle_restart",
    "ack_rule",
    "delayed_ack_timer",
    "delayed_ack_ms",
    "nagle_default",
    "nagle_idle",
    "rto_min_ms",
    "rto_initial_ms",
    "rto_granularity_ms",
    "dupack_threshold",
    "fast_recovery",
    "send_buffer_bytes",
    "recv_buffer_bytes",
    "mss_ethernet_bytes",
    "mss_default_bytes",
    "slow_start_on_lan",
    "fin_with_data",
    "timestamps",
    "window_scale",
    "selective_acks",
    "spurious_timeouts",
];

/// The longest time of a timer, in milliseconds: an hour.
const TIMER_MAX_MS: u64 = 3_600_000;
/// The most segments of a window or of a count of duplicates.
const SEGMENTS_MAX: u64 = 65_535;
/// The data of the longest IPv4 packet without options, in bytes.
const MSS_MAX: u64 = 65_495;
/// The largest window that a header can offer (RFC 7323, section 2.3), in bytes.
const BUFFER_MAX: u64 = 1 << 30;

/// A number, `true` or `false`, or else a word.
fn value_of(text: &str) -> toml::Value {
    text.parse::<i64>()
        .map(toml::Value::Integer)
        .or_else(|_| text.parse::<bool>().map(toml::Value::Boolean))
        .unwrap_or_else(|_| toml::Value::String(text.to_owned()))
}

fn rows() -> &'static BTreeMap<String, Row> {
    static ROWS: OnceLock<BTreeMap<String, Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        let file: File = toml::from_str(TABLE).expect("compiled in and parsed by a test");
        file.preset
    })
}

impl Stack {
    /// The preset called `name`; `None` if it is not in [`PRESETS`].
    pub fn preset(name: &str) -> Option<Stack> {
        Some(Stack::of(name.to_owned(), rows().get(name)?))
    }

    /// The preset called `name` with other values of some keys of the file; the name of the result lists them.
    ///
    /// # Errors
    /// No such preset, a key that is not a setting of its own, or a value that the key does not take.
    pub fn altered(name: &str, changes: &[(&str, &str)]) -> Result<Stack, String> {
        let known: toml::Table = TABLE.parse().expect("compiled in and parsed by a test");
        let Some(toml::Value::Table(mut row)) = known["preset"].get(name).cloned() else {
            return Err(units::words::unknown(name, PRESETS));
        };
        let mut called = name.to_owned();
        for (k, (key, value)) in changes.iter().enumerate() {
            if changes[..k].iter().any(|(other, _)| other == key) {
                return Err(format!("{key}={value}: `{key}` is set twice for the same host"));
            }
            if !SETTINGS.contains(key) {
                return Err(match units::words::nearest(key, SETTINGS) {
                    Some(nearest) => {
                        format!("`{key}` is not a setting of a stack; did you mean `{nearest}`?")
                    }
                    None => format!(
                        "`{key}` is not a setting of a stack; the settings are {}",
                        SETTINGS.join(", ")
                    ),
                });
            }
            // Only the scale of the window may be missing, and it is a number.
            if matches!(row.get(*key), None | Some(toml::Value::Integer(_))) && !value_of(value).is_integer()
            {
                return Err(
                    match !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
                        true => format!("{key}={value}: the number is too large"),
                        false => format!("{key}={value}: write a whole number"),
                    },
                );
            }
            row.insert((*key).to_owned(), value_of(value));
            called.push_str(&format!(" {key}={value}"));
            Row::deserialize(toml::Value::Table(row.clone()))
                .map_err(|error| format!("{key}={value}: {}", error.message()))?;
        }
        let row = Row::deserialize(toml::Value::Table(row)).map_err(|error| error.message().to_owned())?;
        let stack = Stack::of(called, &row);
        stack.check().map(|()| stack)
    }

    /// Refuses values with which an endpoint could not send, or that no host has.
    fn check(&self) -> Result<(), String> {
        let mss = u64::from(self.mss);
        for (key, value, least, most) in [
            (
                "initial_cwnd_segments",
                u64::from(self.initial_cwnd_segments),
                1,
                SEGMENTS_MAX,
            ),
            ("rto_min_ms", self.rto_min.as_millis() as u64, 1, TIMER_MAX_MS),
            (
                "rto_initial_ms",
                self.rto_initial.as_millis() as u64,
                1,
                TIMER_MAX_MS,
            ),
            (
                "rto_granularity_ms",
                self.rto_granularity.as_millis() as u64,
                1,
                TIMER_MAX_MS,
            ),
            (
                "delayed_ack_ms",
                self.delayed_ack.as_millis() as u64,
                1,
                TIMER_MAX_MS,
            ),
            (
                "dupack_threshold",
                u64::from(self.dupack_threshold),
                1,
                SEGMENTS_MAX,
            ),
            ("mss_ethernet_bytes", mss, 1, MSS_MAX),
            ("mss_default_bytes", u64::from(self.mss_default), 1, MSS_MAX),
            // A smaller buffer would not hold one segment.
            ("send_buffer_bytes", self.send_buffer.0, mss, BUFFER_MAX),
            ("recv_buffer_bytes", self.recv_buffer.0, mss, BUFFER_MAX),
        ] {
            if value < least {
                let why = match key.ends_with("buffer_bytes") {
                    true => " (mss_ethernet_bytes, one segment)",
                    false => "",
                };
                return Err(format!("{key}={value}: at least {least} is needed{why}"));
            }
            if value > most {
                return Err(format!("{key}={value}: at most {most}"));
            }
        }
        if self.window_scale.is_some_and(|shift| shift > 14) {
            return Err("window_scale: at most 14 (RFC 7323, section 2.3)".to_owned());
        }
        Ok(())
    }

    fn of(name: String, row: &Row) -> Stack {
        Stack {
            name,
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
        }
    }

    /// The source of a preset's value, by key of the file; the tag in front tells how well it is known.
    pub fn source(name: &str, key: &str) -> Option<&'static str> {
        rows().get(name)?.source.get(key).map(String::as_str)
    }

    /// The fitted timeout of a preset for a kind of network (`lan`, `wan`, `ppp`), if there is one.
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

    /// The fitted send buffer of a preset, if it differs from the documented one.
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

    #[test]
    fn a_preset_takes_other_values() {
        let preset = Stack::preset("solaris-2.5").expect("a preset");
        let changes = [
            ("rto_min_ms", "1000"),
            ("idle_restart", "to-1"),
            ("fast_recovery", "false"),
        ];
        let altered = Stack::altered("solaris-2.5", &changes).expect("known keys");
        let wanted = Stack {
            name: "solaris-2.5 rto_min_ms=1000 idle_restart=to-1 fast_recovery=false".to_owned(),
            rto_min: Duration::from_secs(1),
            idle_restart: IdleRestart::One,
            fast_recovery: false,
            ..preset.clone()
        };
        assert_eq!(altered, wanted);
        assert_eq!(Stack::altered("solaris-2.5", &[]), Ok(preset));
        for (key, value, said) in [
            ("rto_mim_ms", "1000", "rto_min_ms"),
            ("sws", "none", "sws"),
            ("rto_min_ms", "-1", "rto_min_ms=-1"),
            ("rto_min_ms", "0", "at least 1"),
            ("rto_min_ms", "abc", "rto_min_ms=abc: write a whole number"),
            ("rto_min_ms", "true", "whole number"),
            ("rto_initial_ms", "99999999999999999999", "too large"),
            ("rto_initial_ms", "3600001", "at most 3600000"),
            ("window_scale", "wide", "whole number"),
            ("mss_ethernet_bytes", "65496", "at most 65495"),
            ("send_buffer_bytes", "1459", "at least 1460"),
            ("recv_buffer_bytes", "1073741825", "at most 1073741824"),
            ("rto_granularity_ms", "0", "at least 1"),
            ("idle_restart", "sometimes", "idle_restart=sometimes"),
            ("window_scale", "15", "at most 14"),
        ] {
            let error = Stack::altered("4.4bsd", &[(key, value)]).expect_err(key);
            assert!(error.contains(said), "{error}");
        }
        assert!(Stack::altered("4.4bsd", &[("send_buffer_bytes", "1460")]).is_ok());
        let twice = Stack::altered("4.4bsd", &[("rto_min_ms", "1"), ("rto_min_ms", "2")]);
        assert!(twice.is_err_and(|error| error.contains("twice")));
        assert!(Stack::altered("cp/m", &[]).is_err());
        // Each setting of the file can be written.
        let table: toml::Table = TABLE.parse().unwrap();
        for name in PRESETS {
            for key in SETTINGS {
                let Some(value) = table["preset"][name].get(key) else {
                    assert!(["window_scale", "selective_acks"].contains(key), "{name}: {key}");
                    continue;
                };
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                assert!(Stack::altered(name, &[(key, &text)]).is_ok(), "{name}: {key}");
            }
        }
    }

    /// Keys that follow from others agree with the endpoint's behavior, and keys with one value in all presets
    /// have the value the endpoint implements.
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
