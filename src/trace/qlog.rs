//! QUIC connections as qlog: one JSON file with a trace for each connection, as qvis and other viewers open it.
//!
//! Version 0.3 of the format: draft-ietf-quic-qlog-main-schema-02 and its QUIC events. `packet_sent` are the packets of the
//! vantage point: of the server in its own log, and otherwise of the client, as the network is seen in the client's direction.

use super::source::create;
use crate::failure::Failure;
use crate::voice::Voice;
use ::trace::{Event, Quic, QuicPacket, Side};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use units::Duration;

/// Limit on packets that are kept until the end of the capture; later ones are counted.
const PACKETS_MAX: u64 = 1 << 18;

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
    kept: u64,
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
                let trace = self.traces.entry(packet.connection.0).or_default();
                let line = line(packet, self.vantage);
                trace.events.push((packet.at, line.to_string()));
            }
            Event::Quic(quic) => {
                self.traces.entry(quic.id.0).or_default().facts = Some(quic.clone());
            }
            _ => {}
        }
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
                "{} packets beyond the limit are missing from `{}`; {}",
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
    if packet.number.is_some() {
        data["frames"] = json!(packet.frames);
    }
    json!({"time": milliseconds(packet.at), "name": name, "data": data})
}
