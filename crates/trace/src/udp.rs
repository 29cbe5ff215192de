//! The record of one pair of UDP ends: finds out which protocol they speak, and hands it their datagrams.

use crate::connection::{End, Side};
use crate::context::Context;
use crate::datagrams::{Carried, Datagrams};
use crate::dns::{self, Questions};
use crate::event::Event;
use crate::packet::{Datagram, Endpoint};
use crate::quic::{self, Conversation};
use crate::table::Tracked;
use crate::volume::DatagramVolume;
use units::Instant;

#[derive(Debug)]
enum Content {
    Dns(Questions),
    Quic(Box<Conversation>),
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
        if let Content::Quic(conversation) = &self.content
            && side == Side::Client
            && conversation.is_reopened_by(datagram.payload)
        {
            self.end(End::Reused, cx);
            self.volumes[0].add(datagram);
        }
        if matches!(self.content, Content::Other) && quic::is_first(datagram.payload, datagram.payload_len) {
            self.begin(cx);
        }
        match &mut self.content {
            Content::Dns(questions) => {
                cx.meter.udp.dns_datagrams += 1;
                questions.message((self.ends[0], self.ends[1]), side, datagram.payload, cx);
            }
            Content::Quic(conversation) => {
                cx.meter.udp.quic_datagrams += 1;
                conversation.datagram(side, datagram.payload, datagram.payload_len, cx);
            }
            Content::Other => {}
        }
    }

    /// QUIC begins. Datagrams before it, if any, count as its own.
    fn begin(&mut self, cx: &mut Context<'_>) {
        let before = self.volumes[0].datagrams + self.volumes[1].datagrams - 1;
        cx.meter.udp.quic_datagrams += before;
        let id = cx.meter.quic_seen();
        let ends = (self.ends[0], self.ends[1]);
        self.content = Content::Quic(Box::new(Conversation::new(id, ends, (cx.at, cx.number))));
    }

    /// Ends QUIC between the two ends; they may begin anew.
    fn end(&mut self, end: End, cx: &mut Context<'_>) {
        if let Content::Quic(conversation) = core::mem::replace(&mut self.content, Content::Other) {
            conversation.finish(end, self.volumes, cx);
            self.volumes = [DatagramVolume::default(); 2];
            self.started = (cx.at, cx.number);
        }
    }

    /// Ends the record and reports it.
    pub(crate) fn finish(mut self, end: End, cx: &mut Context<'_>) {
        let carried = match &mut self.content {
            Content::Dns(questions) => {
                questions.finish(cx);
                Carried::Dns
            }
            Content::Quic(_) => {
                self.end(end, cx);
                return;
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
