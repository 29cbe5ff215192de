//! `--compare-qlog`: the packets of a capture beside those that one end of the connection logged. Between the two points, packets
//! are lost and delayed; a report says how many and how long.
//!
//! ```text
//!   qlog of an end ──▶ packets by number ─┐
//!                                         ├─▶ same connection (ODCID), number space and number ──▶ Comparison
//!   capture ──▶ packets by number ────────┘
//! ```
//! A delay is a difference of two clocks. What does not depend on their offset: by how much delays vary, and the sum of the
//! smallest delays of both directions, which is the round trip between the two points.

use super::counters::milliseconds;
use super::words;
use crate::failure::Failure;
use ::trace::{Event, Side};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::io::Read;
use std::path::Path;
use units::Duration;

/// Limit on the size of a log, in bytes.
const LOG_MAX: u64 = 256 << 20;

/// Limit on packets of the capture that are kept until its end; later ones are counted.
const PACKETS_MAX: u64 = 1 << 18;

/// The parts of a qlog file that are used (draft-ietf-quic-qlog-main-schema-02).
#[derive(Debug, Deserialize)]
struct File {
    traces: Vec<LoggedTrace>,
}

#[derive(Debug, Deserialize)]
struct LoggedTrace {
    vantage_point: VantagePoint,
    #[serde(default)]
    common_fields: CommonFields,
    events: Vec<LoggedEvent>,
}

#[derive(Debug, Deserialize)]
struct VantagePoint {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Debug, Default, Deserialize)]
struct CommonFields {
    #[serde(rename = "ODCID")]
    original_id: Option<String>,
    time_format: Option<String>,
    /// Milliseconds since 1970.
    reference_time: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct LoggedEvent {
    /// Milliseconds.
    time: f64,
    name: String,
    #[serde(default)]
    data: LoggedData,
}

#[derive(Debug, Default, Deserialize)]
struct LoggedData {
    header: Option<LoggedHeader>,
}

#[derive(Debug, Deserialize)]
struct LoggedHeader {
    packet_type: Option<String>,
    packet_number: Option<u64>,
}

/// The packets that share numbers (RFC 9000 section 12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    Initial,
    Handshake,
    Application,
}

impl Space {
    /// The space of a type as qlog names it; `None` for packets without a number.
    fn of(packet_type: &str) -> Option<Space> {
        match packet_type {
            "initial" => Some(Space::Initial),
            "handshake" => Some(Space::Handshake),
            "0RTT" | "1RTT" => Some(Space::Application),
            _ => None,
        }
    }
}

/// Times of packets in milliseconds. Of a number that was seen twice, the first counts.
type Packets = BTreeMap<(Space, u64), f64>;

/// The log of one connection.
#[derive(Debug)]
struct Trace {
    /// The end that logged.
    end: Side,
    /// Times since 1970.
    sent: Packets,
    /// Times since 1970.
    received: Packets,
}

/// The packets of one connection in the capture.
#[derive(Debug, Default)]
struct Captured {
    /// Destination Connection ID of the client's first packet, once it is known.
    original_id: Option<String>,
    /// Times since the first frame.
    client: Packets,
    /// Times since the first frame.
    server: Packets,
    /// Packets that were not decrypted.
    unnumbered: u64,
}

/// A log, and the packets of the capture so far.
#[derive(Debug)]
pub(crate) struct Compared {
    name: String,
    /// By the Destination Connection ID of the client's first packet.
    logged: HashMap<String, Trace>,
    captured: BTreeMap<u64, Captured>,
    kept: u64,
    dropped: u64,
}

/// One connection at both points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Comparison {
    /// Its number in the capture.
    connection: u64,
    /// The end that logged.
    end: Side,
    /// Packets of that end: logged, then captured.
    sent: Way,
    /// Packets for that end: captured, then logged.
    received: Way,
    /// Packets of the capture without a number.
    unnumbered: u64,
}

/// Packets of one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Way {
    /// At both points.
    matched: u64,
    /// At the first point only, with numbers below one that was at both.
    missing: u64,
    delays: Option<Delays>,
}

/// Times from the first point to the second, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Delays {
    min: f64,
    median: f64,
    max: f64,
}

impl Compared {
    /// Reads a log.
    ///
    /// # Errors
    /// `Usage` if it cannot be read, or is no log of a client or server.
    #[allow(clippy::disallowed_methods, reason = "a command reads the file it is given")]
    pub(crate) fn read(path: &Path) -> Result<Compared, Failure> {
        let unusable = |why: String| Failure::Usage(format!("--compare-qlog: `{}`: {why}", path.display()));
        let file =
            std::fs::File::open(path).map_err(|error| unusable(format!("{error}; name a readable file")))?;
        let mut text = String::new();
        file.take(LOG_MAX + 1)
            .read_to_string(&mut text)
            .map_err(|error| unusable(error.to_string()))?;
        if text.len() as u64 > LOG_MAX {
            return Err(unusable("it has more than 256 MiB; log fewer packets".to_owned()));
        }
        Compared::parse(&text, path.display().to_string()).map_err(unusable)
    }

    /// # Errors
    /// Why the text is no log of a client or server, and what to do.
    fn parse(text: &str, name: String) -> Result<Compared, String> {
        let file: File = serde_json::from_str(text).map_err(|error| {
            format!("this is not qlog 0.3 as JSON ({error}); name a file of `weir fetch --qlog` or `weir serve --qlog`")
        })?;
        let mut logged = HashMap::new();
        for trace in file.traces {
            let (id, trace) = Trace::of(trace)?;
            logged.insert(id, trace);
        }
        Ok(Compared {
            name,
            logged,
            captured: BTreeMap::new(),
            kept: 0,
            dropped: 0,
        })
    }

    /// Takes a result of the capture.
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::Packet(_) if self.kept >= PACKETS_MAX => self.dropped += 1,
            Event::Packet(packet) => {
                self.kept += 1;
                let captured = self.captured.entry(packet.connection.0).or_default();
                let Some(space) = Space::of(packet.packet_type) else {
                    return;
                };
                let Some(number) = packet.number else {
                    captured.unnumbered += 1;
                    return;
                };
                let packets = match packet.sender {
                    Side::Client => &mut captured.client,
                    Side::Server => &mut captured.server,
                };
                let time = packet.at.as_secs_f64() * 1e3;
                packets.entry((space, number)).or_insert(time);
            }
            Event::Quic(quic) => {
                let captured = self.captured.entry(quic.id.0).or_default();
                captured.original_id = Some(quic.original_id.clone());
            }
            _ => {}
        }
    }

    /// Compares. `start_ns` is the time of the capture's first frame. Logs a warning if there is nothing to compare, or not all.
    pub(crate) fn comparisons(&self, start_ns: u64) -> Vec<Comparison> {
        let all: Vec<Comparison> = self
            .captured
            .iter()
            .filter_map(|(connection, captured)| {
                let logged = self.logged.get(captured.original_id.as_deref()?)?;
                Some(logged.beside(*connection, captured, start_ns as f64 / 1e6))
            })
            .collect();
        if all.is_empty() {
            let mut ids: Vec<&str> = self.logged.keys().map(String::as_str).collect();
            ids.sort_unstable();
            tracing::warn!(
                "--compare-qlog: no connection of the capture is in `{}`, whose connections have the IDs {}; capture from \
                 their first packets on",
                self.name,
                ids.join(", ")
            );
        }
        if self.dropped > 0 {
            tracing::warn!(
                "--compare-qlog: {} packets beyond the limit are not compared; choose fewer with --host and --port",
                self.dropped
            );
        }
        all
    }

    /// The comparisons as text.
    pub(crate) fn text(&self, all: &[Comparison]) -> String {
        let mut out = String::new();
        if !all.is_empty() {
            let _ = writeln!(out, "\npackets of the capture and of `{}`", self.name);
        }
        for one in all {
            one.write(&mut out);
        }
        out
    }
}

impl Trace {
    /// The log of a connection, with its ID.
    ///
    /// # Errors
    /// What it lacks.
    fn of(logged: LoggedTrace) -> Result<(String, Trace), String> {
        let end = match &*logged.vantage_point.kind {
            "client" => Side::Client,
            "server" => Side::Server,
            other => {
                return Err(format!(
                    "its vantage point is `{}`; name the log of a client or a server",
                    other.escape_debug()
                ));
            }
        };
        let fields = logged.common_fields;
        let id = fields.original_id.ok_or(
            "it does not name the first connection ID (ODCID), so its connection cannot be found in a capture; name a log of Weir",
        )?;
        let start = match fields.time_format.as_deref() {
            Some("relative") => fields
                .reference_time
                .ok_or("it has relative times and no `reference_time`; name a log of Weir")?,
            Some("absolute") | None => 0.0,
            Some(other) => {
                return Err(format!(
                    "its times are `{}`; relative and absolute ones can be read",
                    other.escape_debug()
                ));
            }
        };
        let (mut sent, mut received) = (Packets::new(), Packets::new());
        for event in logged.events {
            let packets = match &*event.name {
                "transport:packet_sent" => &mut sent,
                "transport:packet_received" => &mut received,
                _ => continue,
            };
            let Some(header) = event.data.header else { continue };
            if let (Some(space), Some(number)) = (
                header.packet_type.as_deref().and_then(Space::of),
                header.packet_number,
            ) {
                packets.entry((space, number)).or_insert(start + event.time);
            }
        }
        Ok((id, Trace { end, sent, received }))
    }

    /// `start`: time of the capture's first frame, in milliseconds since 1970.
    fn beside(&self, connection: u64, captured: &Captured, start: f64) -> Comparison {
        let (own, others) = match self.end {
            Side::Client => (&captured.client, &captured.server),
            Side::Server => (&captured.server, &captured.client),
        };
        Comparison {
            connection,
            end: self.end,
            sent: Way::between(&self.sent, own, start),
            received: Way::between(others, &self.received, -start),
            unnumbered: captured.unnumbered,
        }
    }
}

impl Way {
    /// Packets that pass `first`, then `second`, whose times are less by `offset` milliseconds than those of the same clock at
    /// `first`.
    fn between(first: &Packets, second: &Packets, offset: f64) -> Way {
        let mut delays = Vec::new();
        let (mut missing, mut pending) = (0, (None, 0));
        for (&(space, number), at) in first {
            // A space begins: the rest of the one before was behind the end of the other record.
            if pending.0 != Some(space) {
                pending = (Some(space), 0);
            }
            match second.get(&(space, number)) {
                Some(then) => {
                    missing += pending.1;
                    pending.1 = 0;
                    delays.push(then + offset - at);
                }
                None => pending.1 += 1,
            }
        }
        Way {
            matched: delays.len() as u64,
            missing,
            delays: Delays::of(delays),
        }
    }

    fn json(&self) -> Value {
        let delay = |pick: fn(&Delays) -> f64| self.delays.as_ref().map(pick);
        json!({
            "matched": self.matched,
            "missing": self.missing,
            "delay_min_ms": delay(|all| all.min),
            "delay_median_ms": delay(|all| all.median),
            "delay_max_ms": delay(|all| all.max),
        })
    }

    fn write(&self, what: &str, out: &mut String) {
        let _ = write!(
            out,
            "    {what}: {} at both points, {} lost between them",
            words::counted(self.matched, "packet"),
            self.missing
        );
        if let Some(delays) = &self.delays {
            let _ = write!(
                out,
                "; delay by the two clocks {} ms at least, median {} more, at most {} more",
                signed(delays.min),
                span(delays.median - delays.min),
                span(delays.max - delays.min)
            );
        }
        out.push('\n');
    }
}

impl Delays {
    /// `None` of nothing.
    fn of(mut all: Vec<f64>) -> Option<Delays> {
        all.sort_by(f64::total_cmp);
        Some(Delays {
            min: *all.first()?,
            median: all[all.len() / 2],
            max: *all.last()?,
        })
    }
}

impl Comparison {
    /// The smallest round trip between the two points, in milliseconds. It does not depend on the offset of the clocks.
    fn round_trip(&self) -> Option<f64> {
        Some(self.sent.delays?.min + self.received.delays?.min)
    }

    /// A line of `--json`.
    pub(crate) fn json(&self) -> String {
        let line = json!({
            "event": "comparison",
            "connection": self.connection,
            "logged_by": words::side(self.end),
            "sent": self.sent.json(),
            "received": self.received.json(),
            "round_trip_ms": self.round_trip(),
            "unnumbered": self.unnumbered,
        });
        format!("{line}\n")
    }

    fn write(&self, out: &mut String) {
        let end = words::side(self.end);
        let _ = write!(out, "  connection {}, logged by the {end}", self.connection);
        if let Some(round_trip) = self.round_trip() {
            let _ = write!(
                out,
                "; round trip between the two points {} ms at least",
                signed(round_trip)
            );
        }
        out.push('\n');
        self.sent.write(&format!("from the {end} to the capture"), out);
        self.received
            .write(&format!("from the capture to the {end}"), out);
        if self.unnumbered > 0 {
            let _ = writeln!(
                out,
                "    {} of the capture not compared: their numbers are encrypted; name the key log of an end with --keys",
                words::counted(self.unnumbered, "packet")
            );
        }
    }
}

/// Milliseconds, 0 or more, as other times of the report.
fn span(ms: f64) -> String {
    milliseconds(Duration::from_secs_f64(ms.max(0.0) / 1e3))
}

/// Milliseconds that may be negative: the two clocks differ. Less than the microseconds shown is 0, without a sign.
fn signed(ms: f64) -> String {
    format!("{:.3}", (ms * 1e3).round() / 1e3 + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_less_than_a_microsecond_has_no_sign() {
        assert_eq!(
            [-0.000_4, 0.000_4, -0.25].map(signed),
            ["0.000", "0.000", "-0.250"]
        );
    }

    fn packets(all: &[(Space, u64, f64)]) -> Packets {
        all.iter()
            .map(|(space, number, at)| ((*space, *number), *at))
            .collect()
    }

    #[test]
    fn packets_between_two_that_arrived_are_lost_and_the_last_ones_are_not_known() {
        use Space::{Application, Initial};
        let first = packets(&[
            (Initial, 0, 100.0),
            (Initial, 1, 101.0),
            (Application, 0, 110.0),
            (Application, 1, 111.0),
            (Application, 2, 112.0),
            (Application, 3, 113.0),
        ]);
        // A number that only the second point has came before the record of the first began.
        let second = packets(&[
            (Initial, 0, 15.0),
            (Application, 1, 27.0),
            (Application, 2, 30.0),
            (Application, 9, 40.0),
        ]);
        let way = Way::between(&first, &second, 100.0);
        assert_eq!((way.matched, way.missing), (3, 1));
        let delays = way.delays.expect("delays");
        assert_eq!((delays.min, delays.median, delays.max), (15.0, 16.0, 18.0));
        let none = Way::between(&first, &Packets::new(), 0.0);
        assert_eq!((none.matched, none.missing, none.delays), (0, 0, None));
    }

    #[test]
    fn a_file_that_is_no_log_of_an_end_says_why() {
        let file = |vantage: &str, fields: &str| {
            let text = format!(
                r#"{{"traces":[{{"vantage_point":{{"type":"{vantage}"}},"common_fields":{fields},"events":[]}}]}}"#
            );
            Compared::parse(&text, "x".to_owned()).map(|compared| compared.logged.len())
        };
        assert_eq!(
            file("client", r#"{"ODCID":"ab","time_format":"absolute"}"#),
            Ok(1)
        );
        assert_eq!(
            file(
                "server",
                r#"{"ODCID":"ab","time_format":"relative","reference_time":1}"#
            ),
            Ok(1)
        );
        for (vantage, fields, said) in [
            ("network", "{}", "name the log of a client or a server"),
            ("client", "{}", "(ODCID)"),
            (
                "client",
                r#"{"ODCID":"ab","time_format":"relative"}"#,
                "reference_time",
            ),
            ("client", r#"{"ODCID":"ab","time_format":"delta"}"#, "`delta`"),
        ] {
            let why = file(vantage, fields).expect_err(said);
            assert!(why.contains(said), "{why}");
        }
        let why = Compared::parse("{}", "x".to_owned()).expect_err("no traces");
        assert!(why.contains("not qlog 0.3"), "{why}");
    }
}
