//! A pair of UDP ends, and UDP in numbers: plain data, made by [`crate::udp`].

use crate::connection::End;
use crate::lookup::DnsTotals;
use crate::packet::Endpoint;
use crate::quantity;
use crate::volume::DatagramVolume;
use core::time::Duration;
use serde::Serialize;

/// Protocol inside UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Carried {
    /// DNS, judged by port 53.
    Dns,
    /// A protocol that Weir does not read.
    Other,
}

/// The datagrams between two ends that do not speak QUIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Datagrams {
    /// The end that sent first, or the one with the higher port if only the other port is below 1024.
    pub client: Endpoint,
    /// The other end.
    pub server: Endpoint,
    /// Protocol inside.
    pub carried: Carried,
    /// Time of the first datagram since the first frame of the capture.
    #[serde(rename = "start_s", serialize_with = "quantity::seconds")]
    pub start: Duration,
    /// Time from the first to the last datagram.
    #[serde(rename = "duration_s", serialize_with = "quantity::seconds")]
    pub duration: Duration,
    /// How the record ended.
    pub end: End,
    /// Frame numbers of the first and the last datagram.
    pub packets: (u64, u64),
    /// From the client.
    pub from_client: DatagramVolume,
    /// From the server.
    pub from_server: DatagramVolume,
}

/// UDP in numbers. Datagrams count when they are read, flows when they begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct UdpTotals {
    /// Pairs of ends.
    pub flows: u64,
    /// Pairs of ends that were reported early because there were too many.
    pub evicted: u64,
    /// Datagrams of DNS.
    pub dns_datagrams: u64,
    /// Datagrams of QUIC.
    pub quic_datagrams: u64,
    /// All datagrams from clients.
    pub from_clients: DatagramVolume,
    /// All datagrams from servers.
    pub from_servers: DatagramVolume,
    /// DNS lookups.
    pub dns: DnsTotals,
}
