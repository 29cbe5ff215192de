//! Results that are complete: findings, transactions and connections. Plain data; the analyzer decides their order.

use crate::connection::{ConnectionId, End, Vantage};
use crate::datagrams::Datagrams;
use crate::direction::Direction;
use crate::finding::Finding;
use crate::lookup::Lookup;
use crate::packet::Endpoint;
use crate::quantity;
use crate::quic_facts::{Http3Frame, Quic, QuicPacket, QuicParameters};
use crate::tls::Tls;
use crate::transaction::{HttpCounts, Transaction};
use core::time::Duration;
use serde::Serialize;

/// A complete result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A problem.
    Finding(Finding),
    /// A request with its response.
    Transaction(Transaction),
    /// A connection whose record has ended.
    Connection(Box<Connection>),
    /// A DNS question, with its response or without.
    Lookup(Box<Lookup>),
    /// A pair of UDP ends whose record has ended.
    Datagrams(Box<Datagrams>),
    /// A QUIC connection whose record has ended.
    Quic(Box<Quic>),
    /// A packet of a QUIC connection, if [`crate::Options::packets`] asks for them. Those of HTTP/3 frames and parameters in it follow.
    Packet(Box<QuicPacket>),
    /// Transport parameters of a QUIC connection, likewise.
    Parameters(Box<QuicParameters>),
    /// A frame on a request stream of HTTP/3, likewise.
    Http3(Box<Http3Frame>),
}

/// The report of one connection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Connection {
    /// Number of the connection.
    pub id: ConnectionId,
    /// The opening end.
    pub client: Endpoint,
    /// The other end.
    pub server: Endpoint,
    /// Time of the first packet since the first frame of the capture.
    #[serde(rename = "start_s", serialize_with = "quantity::seconds")]
    pub start: Duration,
    /// Time from the first to the last packet.
    #[serde(rename = "duration_s", serialize_with = "quantity::seconds")]
    pub duration: Duration,
    /// Time from the first SYN to the acknowledgment of the SYN-ACK.
    #[serde(rename = "handshake_ms", serialize_with = "quantity::ms_option")]
    pub handshake: Option<Duration>,
    /// Time from the end of the handshake (or the first packet) to the second end's first FIN, or the reset.
    #[serde(rename = "established_s", serialize_with = "quantity::seconds_option")]
    pub established: Option<Duration>,
    /// How the record ended.
    pub end: End,
    /// Position of the capture.
    pub vantage: Vantage,
    /// Frame numbers of the first and the last packet.
    pub packets: (u64, u64),
    /// Figures of the client's packets.
    pub from_client: Direction,
    /// Figures of the server's packets.
    pub from_server: Direction,
    /// What is known of TLS; `None` if the connection does not begin with it.
    pub tls: Option<Tls>,
    /// HTTP counters; `None` if the connection does not carry HTTP, or not in a way that can be read.
    pub http: Option<HttpCounts>,
    /// Packets in both directions per request.
    pub packets_per_request: Option<f64>,
}
