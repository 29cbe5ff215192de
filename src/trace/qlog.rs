//! QUIC connections as qlog: one JSON file with a trace for each connection, as qvis and other viewers open it.
//!
//! Version 0.3 of the format: draft-ietf-quic-qlog-main-schema-02 and its QUIC events. The vantage point is the network, in the
//! direction of the client: `packet_sent` are the client's packets, `packet_received` the server's.

use super::source::create;
use crate::cli::trace::Flags;
use crate::failure::Failure;
use crate::voice::Voice;
use ::trace::{Event, Quic, QuicPacket, Side};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
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

/// Collects the packets of QUIC connections for a file.
#[derive(Debug)]
pub(super) struct Qlog {
    path: PathBuf,
    file: File,
    traces: BTreeMap<u64, Trace>,
    kept: u64,
    dropped: u64,
}

impl Qlog {
    /// Makes the file that `--qlog` names.
    ///
    /// # Errors
    /// `Usage` if the file cannot be written.
    pub(super) fn create(flags: &Flags) -> Result<Option<Qlog>, Failure> {
        let made = flags.qlog.as_ref().map(|path| {
            Ok(Qlog {
                path: path.clone(),
                file: create(path)?,
                traces: BTreeMap::new(),
                kept: 0,
                dropped: 0,
            })
        });
        made.transpose()
    }

    /// Takes a result.
    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::Packet(_) if self.kept >= PACKETS_MAX => self.dropped += 1,
            Event::Packet(packet) => {
                self.kept += 1;
                let trace = self.traces.entry(packet.connection.0).or_default();
                trace.events.push((packet.at, line(packet).to_string()));
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
    pub(super) fn write(mut self, start_ns: u64, voice: &Voice) -> Result<(), Failure> {
        let count = self.traces.len();
        self.put(start_ns)
            .map_err(|error| Failure::System(format!("cannot write `{}`: {error}", self.path.display())))?;
        if self.dropped > 0 {
            tracing::warn!(
                "{} packets beyond the limit of {PACKETS_MAX} are missing from `{}`; name one connection with --connection",
                self.dropped,
                self.path.display()
            );
        }
        if voice.reports() {
            tracing::info!("{}: {count} QUIC connections", self.path.display());
        }
        Ok(())
    }

    fn put(&mut self, start_ns: u64) -> std::io::Result<()> {
        let mut out = BufWriter::new(&mut self.file);
        // A viewer looks for version and format at the beginning of the file.
        out.write_all(b"{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON\",\"traces\":[")?;
        for (n, (id, trace)) in core::mem::take(&mut self.traces).into_iter().enumerate() {
            if n > 0 {
                out.write_all(b",")?;
            }
            out.write_all(b"\n")?;
            trace.put(id, start_ns, &mut out)?;
        }
        out.write_all(b"\n]}\n")?;
        out.flush()
    }
}

impl Trace {
    fn put(mut self, id: u64, start_ns: u64, out: &mut impl Write) -> std::io::Result<()> {
        // Packets that waited for their key were read later than they came.
        self.events.sort_by_key(|(at, _)| *at);
        let facts = self.facts.as_deref();
        let head = json!({
            "title": format!("connection {id}"),
            "vantage_point": {"name": "weir trace", "type": "network", "flow": "client"},
            "common_fields": {
                "ODCID": facts.map(|quic| quic.original_id.as_str()),
                "time_format": "relative",
                "reference_time": start_ns as f64 / 1e6,
                "protocol_type": ["QUIC", "HTTP3"],
            },
        });
        let head = head.to_string();
        // The object goes on with its events.
        out.write_all(&head.as_bytes()[..head.len() - 1])?;
        out.write_all(b",\"events\":[")?;
        let first = facts.map(|quic| started(quic).to_string());
        let events = self.events.into_iter().map(|(_, event)| event);
        for (n, event) in first.into_iter().chain(events).enumerate() {
            out.write_all(if n > 0 { b",\n" } else { b"\n" })?;
            out.write_all(event.as_bytes())?;
        }
        out.write_all(b"]}")
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn started(quic: &Quic) -> Value {
    let (from, to) = (quic.client.address(), quic.server.address());
    json!({
        "time": milliseconds(quic.start),
        "name": "connectivity:connection_started",
        "data": {
            "ip_version": if from.is_ipv4() { "v4" } else { "v6" },
            "src_ip": from.to_string(),
            "dst_ip": to.to_string(),
            "protocol": "QUIC",
            "src_port": quic.client.port,
            "dst_port": quic.server.port,
            "src_cid": quic.client_id,
            "dst_cid": quic.original_id,
        },
    })
}

/// A packet as an event. Packets that were not opened have neither number nor frames.
fn line(packet: &QuicPacket) -> Value {
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
    let name = match packet.sender {
        Side::Client => "transport:packet_sent",
        Side::Server => "transport:packet_received",
    };
    let mut data = json!({"header": header, "raw": {"length": packet.length}});
    if packet.number.is_some() {
        data["frames"] = json!(packet.frames);
    }
    json!({"time": milliseconds(packet.at), "name": name, "data": data})
}
