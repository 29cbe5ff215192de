//! The datagrams between two UDP ends: how many, how long, and the protocol they carry.

use crate::connection::{End, Side};
use crate::context::Context;
use crate::dns::{self, DnsTotals, Questions};
use crate::event::Event;
use crate::packet::{Datagram, Endpoint};
use crate::quantity;
use crate::table::Tracked;
use core::time::Duration;
use serde::Serialize;
use units::Instant;

/// Length of a UDP header in bytes.
const HEADER: u64 = 8;

/// Datagrams and bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DatagramVolume {
    /// Number of datagrams.
    pub datagrams: u64,
    /// Payload in bytes.
    #[serde(rename = "payload_bytes")]
    pub payload: u64,
    /// IP and UDP headers in bytes.
    #[serde(rename = "header_bytes")]
    pub headers: u64,
}

impl DatagramVolume {
    fn add(&mut self, datagram: &Datagram<'_>) {
        self.datagrams += 1;
        self.payload += u64::from(datagram.payload_len);
        self.headers += u64::from(datagram.ip_header) + HEADER;
    }
}

/// Protocol inside UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Carried {
    /// DNS, judged by port 53.
    Dns,
    /// A protocol that Weir does not read.
    Other,
}

/// The datagrams between two ends.
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
    /// All datagrams from clients.
    pub from_clients: DatagramVolume,
    /// All datagrams from servers.
    pub from_servers: DatagramVolume,
    /// DNS lookups.
    pub dns: DnsTotals,
}

#[derive(Debug)]
enum Content {
    Dns(Questions),
    Other,
}

/// The record of one pair of ends.
#[derive(Debug)]
pub(crate) struct UdpFlow {
    ends: [Endpoint; 2],
    started: (Instant, u64),
    last: (Instant, u64),
    volumes: [DatagramVolume; 2],
    content: Content,
}

impl Tracked for UdpFlow {
    fn ends(&self) -> (Endpoint, Endpoint) {
        (self.ends[0], self.ends[1])
    }

    fn last_at(&self) -> Instant {
        self.last.0
    }

    fn is_over(&self) -> bool {
        false
    }
}

impl UdpFlow {
    /// A record that begins with this datagram.
    pub(crate) fn new(datagram: &Datagram<'_>, at: Instant, number: u64) -> UdpFlow {
        const RESERVED: u16 = 1024;
        let (from, to) = (datagram.from, datagram.to);
        let ends = if from.port < RESERVED && to.port >= RESERVED {
            [to, from]
        } else {
            [from, to]
        };
        UdpFlow {
            ends,
            started: (at, number),
            last: (at, number),
            volumes: [DatagramVolume::default(); 2],
            content: if ends[1].port == dns::PORT {
                Content::Dns(Questions::default())
            } else {
                Content::Other
            },
        }
    }

    /// Takes the next datagram.
    pub(crate) fn datagram(&mut self, datagram: &Datagram<'_>, cx: &mut Context<'_>) {
        let side = if datagram.from == self.ends[0] {
            Side::Client
        } else {
            Side::Server
        };
        self.last = (cx.at.max(self.last.0), cx.number);
        self.volumes[side as usize].add(datagram);
        let totals = &mut cx.meter.udp;
        match side {
            Side::Client => totals.from_clients.add(datagram),
            Side::Server => totals.from_servers.add(datagram),
        }
        match &mut self.content {
            Content::Dns(questions) => {
                totals.dns_datagrams += 1;
                questions.message((self.ends[0], self.ends[1]), side, datagram.payload, cx);
            }
            Content::Other => {}
        }
    }

    /// Ends the record and reports it.
    pub(crate) fn finish(mut self, end: End, cx: &mut Context<'_>) {
        let carried = match &mut self.content {
            Content::Dns(questions) => {
                questions.finish(cx);
                Carried::Dns
            }
            Content::Other => Carried::Other,
        };
        cx.events.push_back(Event::Datagrams(Box::new(Datagrams {
            client: self.ends[0],
            server: self.ends[1],
            carried,
            start: self.started.0.since(cx.start),
            duration: self.last.0.since(self.started.0),
            end,
            packets: (self.started.1, self.last.1),
            from_client: self.volumes[0],
            from_server: self.volumes[1],
        })));
    }
}
