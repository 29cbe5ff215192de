//! The record of a fetch: all events with their times. Plain data; decides nothing.

use core::fmt;
pub use runtime::dial::{Quic, Security, Tcp};
use units::Instant;

/// The record of a whole fetch.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Start of the fetch.
    pub began: Instant,
    /// When the last response was complete, or the fetch was given up.
    pub ended: Instant,
    /// The page first, then its embedded objects in the order found.
    pub objects: Vec<Object>,
    /// All connections, in the order opened.
    pub connections: Vec<Connection>,
    /// References not followed.
    pub skipped: Vec<(String, Skipped)>,
    /// Number of further references not followed and not listed.
    pub skipped_more: u64,
    /// Number of references left out because the page had the maximum number of objects. One that appears in
    /// several places may count several times.
    pub left_out: u64,
    /// How much the record knows of lost segments.
    pub sight: Sight,
    /// Packets in both directions, if a capture counted them; otherwise the kernel's counters are used.
    pub packets: Option<u64>,
}

/// How much a record knows of losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// Only what this end notices: segments that arrive out of order, and its own retransmissions. It cannot
    /// notice the loss of the last segment in flight.
    #[default]
    Here,
    /// Every retransmission of either end, from a capture.
    Whole,
}

/// Why a reference was not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// Another origin.
    Elsewhere,
    /// The page had the maximum number of objects.
    TooMany,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Skipped::Elsewhere => "of another origin",
            Skipped::TooMany => "more objects than allowed",
        })
    }
}

/// The role of an object in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The page itself.
    Page,
    /// A style sheet.
    Style,
    /// A script.
    Script,
    /// An image.
    Image,
    /// A page inside the page.
    Frame,
    /// A font.
    Font,
    /// Any other object.
    Other,
}

impl Role {
    /// Whether its content may contain references.
    pub fn names_more(self) -> bool {
        matches!(self, Role::Page | Role::Frame | Role::Style)
    }

    /// The name in results: one word.
    pub fn name(self) -> &'static str {
        match self {
            Role::Page => "page",
            Role::Style => "style",
            Role::Script => "script",
            Role::Image => "image",
            Role::Frame => "frame",
            Role::Font => "font",
            Role::Other => "other",
        }
    }
}

units::words! {
    /// Why a request for an object was made: what named it first.
    pub enum Initiator {
        /// The user: the page itself.
        User = "user",
        /// An element of a page, or a style sheet.
        Content = "content",
        /// A `Link` field of a response.
        LinkField = "link",
        /// A `Link` field of an interim response (103, RFC 8297).
        EarlyHints = "early-hints",
        /// A redirection.
        Redirect = "redirect",
    }
}

/// Source of an object's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Sent by the server.
    Network,
    /// From the cache, validated by the server.
    Validated,
    /// From the cache, without contacting the server.
    Cache,
}

impl Source {
    /// The name in results: one word.
    pub fn name(self) -> &'static str {
        match self {
            Source::Network => "network",
            Source::Validated => "validated",
            Source::Cache => "cache",
        }
    }
}

/// The outcome for an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not fetched yet.
    Pending,
    /// Complete, from this source.
    Done(Source),
    /// Redirected: the index of the next object.
    Moved(usize),
    /// Failed, with the reason.
    Failed(String),
}

/// One object of a page.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its URL.
    pub url: String,
    /// Its role in the page.
    pub role: Role,
    /// Index of the object that refers to it; `None` for the page.
    pub parent: Option<usize>,
    /// When the reference was found.
    pub found: Instant,
    /// What named it then.
    pub initiator: Initiator,
    /// When something else than Early Hints named it; `None` if nothing did.
    pub named: Option<Instant>,
    /// Whether anything but hints and preloads named it.
    pub is_used: bool,
    /// The requests for it, in order.
    pub tries: Vec<Try>,
    /// Its outcome so far.
    pub fate: Fate,
    /// The status of its last response.
    pub status: Option<u16>,
    /// The value of `Content-Type`.
    pub media: String,
    /// Bytes of content, after decoding if decoded.
    pub content_bytes: u64,
}

/// The part of an object a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole object.
    Whole,
    /// This many bytes from its start.
    First(u64),
    /// Everything from this byte on.
    Rest(u64),
    /// Its head only.
    Head,
}

/// One request and its response.
#[derive(Clone, Debug)]
pub struct Try {
    /// Index in [`Timeline::connections`].
    pub connection: usize,
    /// The part it asks for.
    pub part: Part,
    /// The text of the request head.
    pub request: String,
    /// When the request was made.
    pub asked: Instant,
    /// When it was passed to the kernel; later than `asked` if the output buffer held it.
    pub sent: Option<Instant>,
    /// When the server first said what the object embeds, before its response (103, RFC 8297).
    pub hinted: Option<Instant>,
    /// When the first bytes of the response arrived.
    pub first: Option<Instant>,
    /// When the response was complete.
    pub last: Option<Instant>,
    /// The status of the response; 0 without one.
    pub status: u16,
    /// The reason phrase of the response.
    pub reason: String,
    /// The field lines of the response.
    pub fields: Vec<(String, String)>,
    /// Bytes of the response head.
    pub head_bytes: u64,
    /// Bytes of the body as transferred, framing included.
    pub body_bytes: u64,
    /// Whether the request had to be sent again.
    pub is_repeated: bool,
    /// Number of earlier requests on its connection.
    pub turn: u32,
    /// HTTP/2: its stream.
    pub stream: Option<u32>,
    /// HTTP/2: its priority, as it was sent; `None` for the default.
    pub priority: Option<&'static str>,
    /// HTTP/2: the receipts that brought parts of the response, in order.
    pub pieces: Vec<Piece>,
}

/// What one receipt brought of a response on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index in [`Connection::arrivals`].
    pub arrival: usize,
    /// Its bytes, framing included.
    pub bytes: u64,
    /// If the server had then used up the flow-control window: when this end granted more.
    pub dry: Option<Instant>,
}

/// One connection of a fetch.
#[derive(Clone, Debug)]
pub struct Connection {
    /// When it was requested.
    pub opened: Instant,
    /// When it was established.
    pub connected: Option<Instant>,
    /// The end of its TLS handshake and what was agreed on; `None` for cleartext.
    pub secured: Option<(Instant, Security)>,
    /// When it ended.
    pub closed: Option<Instant>,
    /// Whether the server closed it while responses were outstanding.
    pub is_cut: bool,
    /// Segments of the handshake that this end retransmitted; over QUIC, its packets that were lost, and its probes.
    pub shaken_again: u32,
    /// Every receipt of bytes.
    pub arrivals: Vec<Arrival>,
    /// The kernel's counters when last read: after both ends had closed, or when this end gave up.
    pub tcp: Option<Tcp>,
    /// The counters of QUIC when last read; `None` for other transports.
    pub quic: Option<Quic>,
    /// Bytes sent; `None` if it was never established.
    pub bytes_out: u64,
    /// The protocol it speaks, by its ALPN name or as `http/1.0`; empty while undecided.
    pub protocol: &'static str,
    /// Requests sent on it.
    pub requests: u32,
    /// Data bytes this end retransmitted; under [`Sight::Whole`] also those retransmitted by the peer.
    pub bytes_again: u64,
}

impl Connection {
    /// The minimum round-trip time that the transport knows.
    pub fn rtt_min(&self) -> Option<units::Duration> {
        let of_tcp = self.tcp.and_then(|tcp| tcp.rtt_min);
        of_tcp.or_else(|| self.quic?.rtt_min)
    }

    /// Duration of the handshake of QUIC in round trips; `None` for other transports.
    pub fn handshake_round_trips(&self) -> Option<f64> {
        let rtt = self.quic?.rtt_min.filter(|rtt| !rtt.is_zero())?;
        Some(self.handshake()?.as_secs_f64() / rtt.as_secs_f64())
    }

    /// When requests could leave: after the TLS handshake, or when a cleartext connection was established. `None` if it
    /// was never established.
    pub fn ready(&self) -> Option<Instant> {
        self.secured.map(|(at, _)| at).or(self.connected)
    }

    /// Duration of the TLS handshake; over QUIC, of the handshake of both, which is one.
    pub fn handshake(&self) -> Option<units::Duration> {
        let from = match self.protocol {
            "h3" => self.opened,
            _ => self.connected?,
        };
        Some(self.secured?.0 - from)
    }
}

/// One receipt of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time of the receipt.
    pub at: Instant,
    /// Number of bytes.
    pub bytes: u64,
    /// Bytes received in order since the start of the connection, including unread ones.
    pub came: u64,
    /// Signs since the start of the connection that a segment to this end was missing: receipts preceded by
    /// segments out of order, or that brought more than the segments since the last one. Under
    /// [`Sight::Whole`], the number of retransmitted segments.
    pub holes: u32,
    /// Segments this end had retransmitted since the start of the connection.
    pub repeats: u32,
    /// If the server had then used up the flow-control window of the connection, or of a stream: when this end granted
    /// more. With HTTP/2, this end knows; over QUIC, the server said so.
    pub dry: Option<Instant>,
}

impl Arrival {
    /// A receipt after `before` (`None` for the first), with no further knowledge about it.
    pub fn after(before: Option<&Arrival>, at: Instant, bytes: u64) -> Arrival {
        let (came, holes, repeats) = before.map_or((0, 0, 0), |one| (one.came, one.holes, one.repeats));
        Arrival {
            at,
            bytes,
            came: came + bytes,
            holes,
            repeats,
            dry: None,
        }
    }
}

/// Totals of a fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Connections established.
    pub connections: u64,
    /// Requests sent, including repeated ones.
    pub requests: u64,
    /// Requests sent again.
    pub repeated: u64,
    /// HTTP bytes sent.
    pub bytes_out: u64,
    /// HTTP bytes received.
    pub bytes_in: u64,
    /// Bytes retransmitted by TCP, as far as known.
    pub bytes_again: u64,
    /// Segments or datagrams in both directions; `None` if neither a capture nor the kernel reports them.
    pub packets: Option<u64>,
    /// Connections whose closing is missing from the packets, in whole or in part.
    pub unclosed: u64,
    /// Objects that failed.
    pub failed: u64,
    /// Objects served from the cache, validated or not.
    pub from_cache: u64,
}

impl Timeline {
    /// Whether the page itself is complete, regardless of other objects.
    pub fn has_page(&self) -> bool {
        let mut pages = self.objects.iter().filter(|object| object.role == Role::Page);
        pages.any(|page| matches!(page.fate, Fate::Done(_)))
    }

    /// Whether any connection spoke TLS.
    pub fn is_secured(&self) -> bool {
        self.connections.iter().any(|one| one.secured.is_some())
    }

    /// The totals of this record.
    pub fn sums(&self) -> Sums {
        let stood = self.connections.iter().filter(|one| one.connected.is_some());
        let mut sums = Sums {
            connections: stood.count() as u64,
            packets: Some(0),
            ..Sums::default()
        };
        for connection in &self.connections {
            sums.requests += u64::from(connection.requests);
            sums.unclosed += u64::from(connection.tcp.is_some_and(|tcp| !tcp.is_over));
            sums.bytes_out += connection.bytes_out;
            sums.bytes_again += connection.bytes_again;
            sums.bytes_in += connection
                .arrivals
                .iter()
                .map(|arrival| arrival.bytes)
                .sum::<u64>();
            sums.packets = sums
                .packets
                .zip(connection.tcp)
                .map(|(packets, tcp)| packets + u64::from(tcp.segments_in) + u64::from(tcp.segments_out));
        }
        sums.packets = self.packets.or(sums.packets);
        for object in &self.objects {
            sums.repeated += object.tries.iter().filter(|one| one.is_repeated).count() as u64;
            sums.failed += u64::from(matches!(object.fate, Fate::Failed(_)));
            sums.from_cache += u64::from(matches!(
                object.fate,
                Fate::Done(Source::Cache | Source::Validated)
            ));
        }
        sums
    }
}
