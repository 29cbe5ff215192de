//! Transfers and TCP parameters from the lines of `weir trace --json`.
//!
//! Decides which transactions are transfers over an otherwise idle path: the first of a connection, complete, from
//! its SYN to its last byte. Other lines are ignored; a line that is not JSON, or lacks a field of its kind, is an
//! error that names it.

use crate::failure::Failure;
use ::model::Seconds;
use ::model::fit::{Estimate, TransferSample};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use units::Bytes;

/// The supported version of `weir trace --json`.
const FORMAT: u64 = 1;

#[derive(Deserialize)]
struct Transaction {
    connection: u64,
    index: u64,
    complete: bool,
    start_s: f64,
    request_ms: f64,
    wait_ms: Option<f64>,
    receive_ms: Option<f64>,
    response_header_bytes: u64,
    response_body_bytes: u64,
}

#[derive(Deserialize)]
struct Connection {
    id: u64,
    start_s: f64,
    handshake_ms: Option<f64>,
    from_server: Half,
}

#[derive(Deserialize)]
struct Half {
    initial_window: u64,
    segment_max: u64,
    kinds: Kinds,
    retransmissions: Retransmissions,
}

#[derive(Deserialize)]
struct Kinds {
    data: u64,
}

#[derive(Deserialize)]
struct Retransmissions {
    packets: u64,
}

/// The data of a capture about a path.
#[derive(Debug, Default)]
pub(super) struct Capture {
    /// Transfers that began with their connection.
    pub(super) transfers: Vec<TransferSample>,
    /// Handshakes in seconds: one round trip each, where the capture saw both sides.
    pub(super) handshakes: Vec<f64>,
    /// Largest payload of a segment from a server.
    pub(super) segment: u64,
    /// Largest amount a server sent before the first acknowledgment; short replies are smaller.
    pub(super) first_flight: u64,
    /// Number of data segments from servers; `retransmitted` of them were retransmissions.
    pub(super) data: u64,
    pub(super) retransmitted: u64,
}

impl Capture {
    /// Parses the lines of one capture.
    ///
    /// # Errors
    /// `Usage`, with file and line.
    pub(super) fn read(text: &str, file: &str) -> Result<Capture, Failure> {
        let mut capture = Capture::default();
        // A connection's line follows those of its transactions.
        let mut firsts: BTreeMap<u64, Transaction> = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let fault = |why: String| Failure::Usage(format!("{file}:{}: {why}", number + 1));
            let value: Value =
                serde_json::from_str(line).map_err(|error| fault(format!("not JSON: {error}")))?;
            match value["event"].as_str() {
                Some("trace") if value["format"] != FORMAT => {
                    return Err(fault(format!(
                        "lines of form {}; this program reads {FORMAT}",
                        value["format"]
                    )));
                }
                Some("transaction") => {
                    let transaction: Transaction = parsed(value).map_err(fault)?;
                    if transaction.index == 0 && transaction.complete {
                        firsts.insert(transaction.connection, transaction);
                    }
                }
                Some("connection") => {
                    let connection: Connection = parsed(value).map_err(fault)?;
                    let first = firsts.remove(&connection.id);
                    capture.take(&connection, first.as_ref());
                }
                Some(_) => {}
                None => {
                    return Err(fault(
                        "not a line of `weir trace --json`: it has no event".to_owned(),
                    ));
                }
            }
        }
        Ok(capture)
    }

    /// Adds another capture of the same path.
    pub(super) fn add(&mut self, other: Capture) {
        self.transfers.extend(other.transfers);
        self.handshakes.extend(other.handshakes);
        self.segment = self.segment.max(other.segment);
        self.first_flight = self.first_flight.max(other.first_flight);
        self.data += other.data;
        self.retransmitted += other.retransmitted;
    }

    fn take(&mut self, connection: &Connection, first: Option<&Transaction>) {
        let server = &connection.from_server;
        self.segment = self.segment.max(server.segment_max);
        self.first_flight = self.first_flight.max(server.initial_window);
        self.data += server.kinds.data;
        self.retransmitted += server.retransmissions.packets;
        // Without a handshake, the capture began in the middle of the connection.
        let Some(handshake) = connection.handshake_ms else {
            return;
        };
        self.handshakes.push(handshake / 1e3);
        if let Some(first) = first
            && let (Some(wait), Some(receive)) = (first.wait_ms, first.receive_ms)
        {
            let after = (first.request_ms + wait + receive) / 1e3;
            self.transfers.push(TransferSample {
                size: Bytes(first.response_header_bytes + first.response_body_bytes),
                latency: Seconds(first.start_s - connection.start_s + after),
            });
        }
    }

    /// Share of retransmitted data segments, with Wilson's interval (1927).
    pub(super) fn loss(&self) -> Option<Estimate> {
        let n = self.data as f64;
        (self.data > 0).then(|| {
            const Z: f64 = 1.96;
            let share = self.retransmitted as f64 / n;
            let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
            let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt() / (1.0 + Z * Z / n);
            Estimate {
                value: share,
                low: (middle - half).max(0.0),
                high: (middle + half).min(1.0),
            }
        })
    }
}

fn parsed<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}
