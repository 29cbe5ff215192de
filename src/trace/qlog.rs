//! QUIC connections as qlog: one JSON file with a trace for each connection, as qvis and other viewers open it.
//!
//! Version 0.3 of the format: draft-ietf-quic-qlog-main-schema-02, draft-ietf-quic-qlog-quic-events-01 and
//! draft-ietf-quic-qlog-h3-events-01. `packet_sent` are the packets of the vantage point: of the server in its own log, and
//! otherwise of the client, as the network is seen in the client's direction.
//!
//! Two fields are not in the drafts, which permit others (section 4.3): qvis draws frames by `frame_size` and `byte_length`.

use super::source::create;
use crate::failure::Failure;
use crate::voice::Voice;
use ::trace::{Event, Http3Frame, MessageStart, Quic, QuicPacket, QuicParameters, Side};
use http3::frame::kind;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use units::Duration;

/// Limit on packets that are kept until the end of the capture; later ones are counted.
const PACKETS_MAX: u64 = 1 << 18;

/// Limit on frames of HTTP/3, likewise.
const FRAMES_MAX: u64 = 1 << 18;

/// The packets of one connection.
#[derive(Debug, Default)]
struct Trace {
    /// Time and JSON of each event.
    events: Vec<(Duration, String)>,
    /// The report of the connection.
    facts: Option<Box<Quic>>,
}

/// Where packets were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vantage {
    /// On their way (`weir trace`).
    Network,
    /// At the client's end (`weir fetch`), whose address is not known.
    Client,
    /// At the server's end (`weir serve`).
    Server,
}

impl Vantage {
    /// Whose packets are `packet_sent`.
    fn side(self) -> Side {
        match self {
            Vantage::Network | Vantage::Client => Side::Client,
            Vantage::Server => Side::Server,
        }
    }
}

/// What a file begins with. A viewer looks for version and format there.
pub(crate) const HEAD: &str = "{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON\",\"traces\":[";

/// What follows the events of the last trace.
pub(crate) const TAIL: &str = "]}\n]}\n";

/// Collects the packets of QUIC connections for a file.
#[derive(Debug)]
pub(crate) struct Qlog {
    path: PathBuf,
    vantage: Vantage,
    /// What to do if packets are beyond the limit.
    advice: &'static str,
    file: File,
    traces: BTreeMap<u64, Trace>,
    /// Packets.
    kept: u64,
    /// Frames of HTTP/3.
    frames: u64,
    dropped: u64,
}

impl Qlog {
    /// Makes the file that `--qlog` names. `advice`: what to do if packets are beyond the limit.
    ///
    /// # Errors
    /// `Usage` if the file cannot be written.
    pub(crate) fn create(path: &Path, vantage: Vantage, advice: &'static str) -> Result<Qlog, Failure> {
        Ok(Qlog {
            path: path.to_owned(),
            vantage,
            advice,
            file: create(path)?,
            traces: BTreeMap::new(),
            kept: 0,
            frames: 0,
            dropped: 0,
        })
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.traces.len()
    }

    /// Datagrams that were not read are missing.
    pub(crate) fn lacks(&mut self, datagrams: u64) {
        self.dropped += datagrams;
    }

    /// Adds events to the connections whose client has this port, each with its time since the first frame.
    pub(crate) fn add(&mut self, client_port: u16, events: impl Iterator<Item = (Duration, Value)>) {
        let is_of = |trace: &&mut Trace| {
            let facts = trace.facts.as_ref();
            facts.is_some_and(|quic| quic.client.port == client_port)
        };
        if let Some(trace) = self.traces.values_mut().find(is_of) {
            let lines = events.map(|(at, mut event)| {
                event["time"] = milliseconds(at).into();
                (at, event.to_string())
            });
            trace.events.extend(lines);
        }
    }

    /// Takes a result.
    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::Packet(_) if self.kept >= PACKETS_MAX => self.dropped += 1,
            Event::Packet(packet) => {
                self.kept += 1;
                self.push(packet.connection.0, packet.at, &line(packet, self.vantage));
            }
            Event::Parameters(set) => {
                self.push(set.connection.0, set.at, &parameters(set, self.vantage));
            }
            Event::Http3(_) if self.frames >= FRAMES_MAX => self.dropped += 1,
            Event::Http3(frame) => {
                self.frames += 1;
                self.push(frame.connection.0, frame.at, &http(frame, self.vantage));
            }
            Event::Quic(quic) => {
                self.traces.entry(quic.id.0).or_default().facts = Some(quic.clone());
            }
            _ => {}
        }
    }

    fn push(&mut self, connection: u64, at: Duration, line: &Value) {
        let trace = self.traces.entry(connection).or_default();
        trace.events.push((at, line.to_string()));
    }

    /// Writes the file. `start_ns` is the time of the capture's first frame.
    ///
    /// # Errors
    /// `System` if the file cannot be written.
    pub(crate) fn write(mut self, start_ns: u64, voice: &Voice) -> Result<(), Failure> {
        let count = self.traces.len();
        self.put(start_ns)
            .map_err(|error| Failure::System(format!("cannot write `{}`: {error}", self.path.display())))?;
        if self.dropped > 0 {
            tracing::warn!(
                "{} packets or HTTP/3 frames beyond the limit are missing from `{}`; {}",
                self.dropped,
                self.path.display(),
                self.advice
            );
        }
        if voice.reports() {
            tracing::info!("{}: {count} QUIC connections", self.path.display());
        }
        Ok(())
    }

    fn put(&mut self, start_ns: u64) -> std::io::Result<()> {
        let mut out = BufWriter::new(&mut self.file);
        out.write_all(HEAD.as_bytes())?;
        for (n, (id, trace)) in core::mem::take(&mut self.traces).into_iter().enumerate() {
            if n > 0 {
                out.write_all(b",")?;
            }
            out.write_all(b"\n")?;
            trace.put(id, self.vantage, start_ns, &mut out)?;
        }
        out.write_all(b"\n]}\n")?;
        out.flush()
    }
}

impl Trace {
    fn put(mut self, id: u64, vantage: Vantage, start_ns: u64, out: &mut impl Write) -> std::io::Result<()> {
        // Packets that waited for their key were read later than they came.
        self.events.sort_by_key(|(at, _)| *at);
        let facts = self.facts.as_deref();
        let original_id = facts.map(|quic| quic.original_id.as_str());
        out.write_all(head(&format!("connection {id}"), vantage, original_id, start_ns).as_bytes())?;
        let first = facts.map(|quic| started(quic).to_string());
        let events = self.events.into_iter().map(|(_, event)| event);
        for (n, event) in first.into_iter().chain(events).enumerate() {
            out.write_all(if n > 0 { b",\n" } else { b"\n" })?;
            out.write_all(event.as_bytes())?;
        }
        out.write_all(b"]}")
    }
}

/// What a trace begins with, up to its events. `start_ns` is the time to which theirs are relative, since the epoch.
pub(crate) fn head(title: &str, vantage: Vantage, original_id: Option<&str>, start_ns: u64) -> String {
    let head = json!({
        "title": title,
        "vantage_point": match vantage {
            Vantage::Network => json!({"name": "weir trace", "type": "network", "flow": "client"}),
            Vantage::Client => json!({"name": "weir fetch", "type": "client"}),
            Vantage::Server => json!({"name": "weir serve", "type": "server"}),
        },
        "common_fields": {
            "ODCID": original_id,
            "time_format": "relative",
            "reference_time": start_ns as f64 / 1e6,
            "protocol_type": ["QUIC", "HTTP3"],
        },
    });
    let mut head = head.to_string();
    // The object goes on with its events.
    head.pop();
    head.push_str(",\"events\":[");
    head
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn started(quic: &Quic) -> Value {
    let (from, to) = (quic.client.address(), quic.server.address());
    let mut data = json!({
        "ip_version": if to.is_ipv4() { "v4" } else { "v6" },
        "dst_ip": to.to_string(),
        "protocol": "QUIC",
        "dst_port": quic.server.port,
        "src_cid": quic.client_id,
        "dst_cid": quic.original_id,
    });
    // A socket that is bound to no address does not know which one it sends from.
    if !from.is_unspecified() {
        data["src_ip"] = from.to_string().into();
        data["src_port"] = quic.client.port.into();
    }
    json!({"time": milliseconds(quic.start), "name": "connectivity:connection_started", "data": data})
}

/// A packet as an event. Packets that were not opened have neither number nor frames.
pub(crate) fn line(packet: &QuicPacket, vantage: Vantage) -> Value {
    let mut header = json!({
        "packet_type": packet.packet_type,
        "dcid": packet.destination,
    });
    if let Some(number) = packet.number {
        header["packet_number"] = number.into();
    }
    if let Some(version) = packet.version {
        header["version"] = format!("{version:08x}").into();
        header["scid"] = packet.source.as_str().into();
    }
    let name = match packet.sender == vantage.side() {
        true => "transport:packet_sent",
        false => "transport:packet_received",
    };
    let mut data = json!({"header": header, "raw": {"length": packet.length}});
    if !packet.frames.is_empty() {
        let frames = packet.frames.iter().zip(&packet.frame_lengths);
        let frames = frames.map(|(frame, length)| {
            let mut frame = json!(frame);
            frame["frame_size"] = (*length).into();
            frame
        });
        data["frames"] = frames.collect();
    }
    json!({"time": milliseconds(packet.at), "name": name, "data": data})
}

/// Transport parameters as an event.
pub(crate) fn parameters(parameters: &QuicParameters, vantage: Vantage) -> Value {
    let mut data = json!(parameters.values);
    data["owner"] = match parameters.sender == vantage.side() {
        true => "local".into(),
        false => "remote".into(),
    };
    json!({"time": milliseconds(parameters.at), "name": "transport:parameters_set", "data": data})
}

/// A frame of HTTP/3 as an event.
pub(crate) fn http(frame: &Http3Frame, vantage: Vantage) -> Value {
    let name = match frame.sender == vantage.side() {
        true => "http:frame_created",
        false => "http:frame_parsed",
    };
    let shown = match frame.kind {
        kind::DATA => json!({"frame_type": "data"}),
        kind::HEADERS => {
            let field = frame.start.as_ref().map(|start| match start {
                MessageStart::Method(method) => json!({"name": ":method", "value": method}),
                MessageStart::Status(status) => json!({"name": ":status", "value": status.to_string()}),
            });
            json!({"frame_type": "headers", "headers": field.as_slice()})
        }
        other => json!({"frame_type": "unknown", "raw_frame_type": other}),
    };
    let data = json!({
        "stream_id": frame.stream,
        "length": frame.length,
        "byte_length": frame.length,
        "frame": shown,
    });
    json!({"time": milliseconds(frame.at), "name": name, "data": data})
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::trace::{ConnectionId, QuicFrame, TransportParameters};

    const ID: ConnectionId = ConnectionId(3);
    const AT: Duration = Duration::from_micros(1_500);

    fn packet(sender: Side, frames: Vec<(QuicFrame, u64)>) -> QuicPacket {
        let (frames, frame_lengths): (Vec<_>, _) = frames.into_iter().unzip();
        QuicPacket {
            connection: ID,
            sender,
            at: AT,
            frame: 9,
            packet_type: "1RTT",
            version: None,
            destination: "abcd".to_owned(),
            source: String::new(),
            number: (!frames.is_empty()).then_some(7),
            length: 60,
            frames,
            frame_lengths,
        }
    }

    /// The frames have the fields of the draft, and each its size.
    #[test]
    fn packets_are_written_with_the_sizes_of_their_frames() {
        let stream = |stream_id, fin| QuicFrame::Stream {
            stream_id,
            offset: 5,
            length: 10,
            fin,
        };
        let ack = QuicFrame::Ack {
            delay: 1,
            acked_ranges: vec![(9, 9), (1, 4)],
        };
        let frames = vec![
            (ack, 7),
            (stream(0, false), 13),
            (stream(4, true), 13),
            (QuicFrame::NewToken { length: 3 }, 5),
            (QuicFrame::Padding { length: 2 }, 2),
        ];
        let wanted = json!({
            "time": 1.5,
            "name": "transport:packet_sent",
            "data": {
                "header": {"packet_type": "1RTT", "packet_number": 7, "dcid": "abcd"},
                "raw": {"length": 60},
                "frames": [
                    {"frame_type": "ack", "acked_ranges": [[9], [1, 4]], "frame_size": 7},
                    {"frame_type": "stream", "stream_id": 0, "offset": 5, "length": 10, "frame_size": 13},
                    {"frame_type": "stream", "stream_id": 4, "offset": 5, "length": 10, "fin": true, "frame_size": 13},
                    {"frame_type": "new_token", "token": {"length": 3}, "frame_size": 5},
                    {"frame_type": "padding", "payload_length": 2, "frame_size": 2},
                ],
            },
        });
        let packet = packet(Side::Client, frames);
        assert_eq!(line(&packet, Vantage::Client), wanted);
        assert_eq!(line(&packet, Vantage::Network), wanted);
        assert_eq!(
            line(&packet, Vantage::Server)["name"],
            "transport:packet_received"
        );
    }

    /// qvis takes a list of no frames for a packet that it can draw, and fails.
    #[test]
    fn a_packet_that_was_not_opened_has_no_frames() {
        let wanted = json!({
            "header": {"packet_type": "1RTT", "dcid": "abcd"},
            "raw": {"length": 60},
        });
        let line = line(&packet(Side::Server, Vec::new()), Vantage::Client);
        assert_eq!(
            (&line["name"], &line["data"]),
            (&"transport:packet_received".into(), &wanted)
        );
    }

    #[test]
    fn transport_parameters_have_their_owner() {
        let set = QuicParameters {
            connection: ID,
            sender: Side::Server,
            at: AT,
            values: TransportParameters {
                max_idle_timeout: Some(30_000),
                initial_max_data: 1_000,
                initial_max_stream_data_bidi_remote: 100,
                ..TransportParameters::default()
            },
        };
        let wanted = |owner| {
            json!({
                "time": 1.5,
                "name": "transport:parameters_set",
                "data": {
                    "owner": owner,
                    "max_idle_timeout": 30_000,
                    "initial_max_data": 1_000,
                    "initial_max_stream_data_bidi_local": 0,
                    "initial_max_stream_data_bidi_remote": 100,
                    "initial_max_stream_data_uni": 0,
                    "initial_max_streams_bidi": 0,
                    "initial_max_streams_uni": 0,
                },
            })
        };
        assert_eq!(parameters(&set, Vantage::Server), wanted("local"));
        assert_eq!(parameters(&set, Vantage::Client), wanted("remote"));
        assert_eq!(parameters(&set, Vantage::Network), wanted("remote"));
    }

    #[test]
    fn frames_of_http3_have_no_fields_but_method_and_status() {
        let frame = |sender, kind, start| Http3Frame {
            connection: ID,
            sender,
            at: AT,
            stream: 4,
            kind,
            length: 20,
            start,
        };
        let method = Some(MessageStart::Method("GET".to_owned()));
        let headers = |fields: Value| json!({"frame_type": "headers", "headers": fields});
        for (frame, name, shown) in [
            (
                frame(Side::Client, kind::HEADERS, method),
                "http:frame_created",
                headers(json!([{"name": ":method", "value": "GET"}])),
            ),
            (
                frame(Side::Server, kind::HEADERS, Some(MessageStart::Status(200))),
                "http:frame_parsed",
                headers(json!([{"name": ":status", "value": "200"}])),
            ),
            // Trailers, for instance.
            (
                frame(Side::Server, kind::HEADERS, None),
                "http:frame_parsed",
                headers(json!([])),
            ),
            (
                frame(Side::Server, kind::DATA, None),
                "http:frame_parsed",
                json!({"frame_type": "data"}),
            ),
            (
                frame(Side::Client, 0x21, None),
                "http:frame_created",
                json!({"frame_type": "unknown", "raw_frame_type": 0x21}),
            ),
        ] {
            let data = json!({"stream_id": 4, "length": 20, "byte_length": 20, "frame": shown});
            let wanted = json!({"time": 1.5, "name": name, "data": data});
            assert_eq!(http(&frame, Vantage::Client), wanted);
        }
    }
}
