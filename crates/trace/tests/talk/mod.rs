//! Synthetic TCP conversations for tests: what each end sends and when, as real frames.

#![allow(dead_code, reason = "each test program uses its own part")]

use etherparse::PacketBuilder;
use trace::{
    Analyzer, Connection, Event, Finding, Frame, LinkType, Options, PcapngWriter, Summary, Transaction,
};
use units::Instant;

pub(crate) const CLIENT: [u8; 4] = [198, 18, 0, 1];
pub(crate) const SERVER: [u8; 4] = [198, 18, 0, 2];

/// A scripted frame: time and content.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) at_us: u64,
    pub(crate) data: Vec<u8>,
}

/// A segment with all settable fields. Sequence numbers are relative; the ISN is added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seg<'a> {
    pub(crate) from_client: bool,
    pub(crate) flags: &'a str,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) payload: &'a [u8],
    pub(crate) mss: Option<u16>,
    pub(crate) scale: Option<u8>,
    pub(crate) stamps: Option<(u32, u32)>,
    /// Up to two blocks of a selective acknowledgment, relative as `ack` is.
    pub(crate) sack: [Option<(u32, u32)>; 2],
}

impl Default for Seg<'_> {
    fn default() -> Self {
        Seg {
            from_client: true,
            flags: "A",
            seq: 1,
            ack: 1,
            window: 16_384,
            payload: b"",
            mss: None,
            scale: None,
            stamps: None,
            sack: [None; 2],
        }
    }
}

/// One connection being scripted; times in microseconds from an arbitrary start.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    pub(crate) frames: Vec<Sent>,
    pub(crate) client_isn: u32,
    pub(crate) server_isn: u32,
    pub(crate) client_port: u16,
    /// Next relative sequence number of client and server.
    pub(crate) next: [u32; 2],
}

impl Default for Talk {
    fn default() -> Self {
        Talk {
            frames: Vec::new(),
            client_isn: 676_352_000,
            server_isn: 1_807_168_000,
            client_port: 3199,
            next: [1, 1],
        }
    }
}

/// A response of `body` bytes with its header, and the header's length.
pub(crate) fn reply(body: usize) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {body}\r\n\r\n").into_bytes();
    bytes.resize(bytes.len() + body, b'x');
    bytes
}

pub(crate) const GET: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: example.org\r\n\r\n";

impl Talk {
    pub(crate) fn push(&mut self, at_us: u64, seg: Seg<'_>) -> &mut Self {
        let (from, to, port_from, port_to, isn, peer_isn) = if seg.from_client {
            (
                CLIENT,
                SERVER,
                self.client_port,
                8080,
                self.client_isn,
                self.server_isn,
            )
        } else {
            (
                SERVER,
                CLIENT,
                8080,
                self.client_port,
                self.server_isn,
                self.client_isn,
            )
        };
        let mut tcp = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4(from, to, 64)
            .tcp(port_from, port_to, isn.wrapping_add(seg.seq), seg.window);
        let mut options = Vec::new();
        for flag in seg.flags.chars() {
            tcp = match flag {
                'S' => tcp.syn(),
                'F' => tcp.fin(),
                'R' => tcp.rst(),
                'P' => tcp.psh(),
                'A' => tcp.ack(peer_isn.wrapping_add(seg.ack)),
                other => panic!("flag {other}"),
            };
        }
        use etherparse::TcpOptionElement as O;
        options.extend(seg.mss.map(O::MaximumSegmentSize));
        options.extend(seg.scale.map(O::WindowScale));
        options.extend(seg.stamps.map(|(value, echo)| O::Timestamp(value, echo)));
        let block = |(left, right): (u32, u32)| (peer_isn.wrapping_add(left), peer_isn.wrapping_add(right));
        if let Some(first) = seg.sack[0] {
            options.push(O::SelectiveAcknowledgement(
                block(first),
                [seg.sack[1].map(block), None, None],
            ));
        }
        let tcp = tcp.options(&options).expect("few options");
        let mut data = Vec::new();
        tcp.write(&mut data, seg.payload).expect("writing to memory");
        self.frames.push(Sent { at_us, data });
        self
    }

    /// SYN at `at`; SYN-ACK and ACK follow after the two parts of the round trip.
    pub(crate) fn handshake(&mut self, at: u64, to_server: u64, to_client: u64) -> &mut Self {
        self.handshake_with(at, to_server, to_client, 16_384)
    }

    pub(crate) fn handshake_with(
        &mut self,
        at: u64,
        to_server: u64,
        to_client: u64,
        window: u16,
    ) -> &mut Self {
        let syn = Seg {
            seq: 0,
            window,
            mss: Some(1460),
            ..Seg::default()
        };
        self.push(at, Seg { flags: "S", ..syn });
        let syn_ack = Seg {
            flags: "SA",
            from_client: false,
            ..syn
        };
        self.push(at + to_server, syn_ack);
        self.push(
            at + to_server + to_client,
            Seg {
                window,
                ..Seg::default()
            },
        )
    }

    /// Data from one end, acknowledging all data the other end sent so far.
    pub(crate) fn data(&mut self, at: u64, from_client: bool, payload: &[u8]) -> &mut Self {
        self.segment(at, from_client, "PA", payload)
    }

    pub(crate) fn segment(&mut self, at: u64, from_client: bool, flags: &str, payload: &[u8]) -> &mut Self {
        let (own, peer) = if from_client { (0, 1) } else { (1, 0) };
        let (seq, ack) = (self.next[own], self.next[peer]);
        self.next[own] += payload.len() as u32 + u32::from(flags.contains('F'));
        self.push(
            at,
            Seg {
                from_client,
                flags,
                seq,
                ack,
                payload,
                ..Seg::default()
            },
        )
    }

    /// A pure acknowledgment up to `ack`.
    pub(crate) fn ack(&mut self, at: u64, from_client: bool, ack: u32) -> &mut Self {
        let seq = self.next[usize::from(!from_client)];
        self.push(
            at,
            Seg {
                from_client,
                seq,
                ack,
                ..Seg::default()
            },
        )
    }

    /// A pure acknowledgment of everything.
    pub(crate) fn ack_all(&mut self, at: u64, from_client: bool) -> &mut Self {
        let ack = self.next[usize::from(from_client)];
        self.ack(at, from_client, ack)
    }

    /// As a pcapng file.
    pub(crate) fn pcapng(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = PcapngWriter::begin(&mut out, "weir test");
        let interface = writer.interface(&mut out, LinkType::ETHERNET, 0, "talk");
        for (i, sent) in self.frames.iter().enumerate() {
            writer.frame(&mut out, interface, &sent.frame(i as u64 + 1));
        }
        out
    }

    pub(crate) fn analyze(&self) -> Outcome {
        analyze(&self.pcapng(), Options::default())
    }
}

impl Sent {
    pub(crate) fn frame(&self, number: u64) -> Frame<'_> {
        Frame {
            number,
            at: Instant::from_nanos(1_700_000_000_000_000_000 + self.at_us * 1000),
            link: LinkType::ETHERNET,
            wire_len: self.data.len() as u32,
            data: &self.data,
        }
    }
}

/// The complete result of an analysis.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) findings: Vec<Finding>,
    pub(crate) transactions: Vec<Transaction>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) summary: Summary,
    pub(crate) error: Option<trace::ReadError>,
}

impl Outcome {
    pub(crate) fn titles(&self) -> Vec<&'static str> {
        self.findings.iter().map(|f| f.kind.title()).collect()
    }
}

pub(crate) fn analyze(file: &[u8], options: Options) -> Outcome {
    analyze_chunks(file, usize::MAX, options)
}

pub(crate) fn analyze_chunks(file: &[u8], chunk: usize, options: Options) -> Outcome {
    let mut analyzer = Analyzer::new(options);
    let mut outcome = None;
    for part in file.chunks(chunk.min(file.len().max(1))) {
        if let Err(error) = analyzer.feed(part) {
            outcome = Some(error);
            break;
        }
    }
    let error = analyzer.finish().err().or(outcome);
    collect(&mut analyzer, error)
}

fn collect(analyzer: &mut Analyzer, error: Option<trace::ReadError>) -> Outcome {
    let mut outcome = Outcome {
        findings: Vec::new(),
        transactions: Vec::new(),
        connections: Vec::new(),
        summary: analyzer.summary(),
        error,
    };
    while let Some(event) = analyzer.next_event() {
        match event {
            Event::Finding(finding) => outcome.findings.push(finding),
            Event::Transaction(transaction) => outcome.transactions.push(transaction),
            Event::Connection(connection) => outcome.connections.push(*connection),
            Event::Lookup(_)
            | Event::Datagrams(_)
            | Event::Quic(_)
            | Event::Packet(_)
            | Event::Parameters(_)
            | Event::Http3(_) => {}
        }
    }
    outcome
}
