//! What happened when: the record a fetch leaves. Plain data; decides nothing.

use core::fmt;
use measure::Instant;
pub use runtime::dial::Tcp;

/// A whole fetch.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// When it began.
    pub began: Instant,
    /// When the last answer was complete, or it was given up.
    pub ended: Instant,
    /// The page first, then what it embeds, in the order in which it was found.
    pub objects: Vec<Object>,
    /// In the order in which they were opened.
    pub connections: Vec<Connection>,
    /// References that were not followed.
    pub skipped: Vec<(String, Skipped)>,
    /// How many more were not even noted.
    pub skipped_more: u64,
    /// References that were left out because there were as many objects as allowed; one that stands in several places may
    /// count several times.
    pub left_out: u64,
    /// What is known of segments that were lost.
    pub sight: Sight,
}

/// How much of what went wrong on the way a record shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// What this end could notice: segments that came before an earlier one, and what it sent again itself. That the
    /// last segment under way was lost cannot be noticed here.
    #[default]
    Here,
    /// Every segment that either end sent again.
    Whole,
}

/// Why a reference was not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// It is of another origin.
    Elsewhere,
    /// There were as many objects as allowed.
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

/// What an object is to the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The page.
    Page,
    /// A style sheet.
    Style,
    /// A script.
    Script,
    /// A picture.
    Image,
    /// A page within the page.
    Frame,
    /// Anything else.
    Other,
}

impl Role {
    /// Whether its content may name objects.
    pub fn names_more(self) -> bool {
        matches!(self, Role::Page | Role::Frame | Role::Style)
    }

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Role::Page => "page",
            Role::Style => "style",
            Role::Script => "script",
            Role::Image => "image",
            Role::Frame => "frame",
            Role::Other => "other",
        }
    }
}

/// Where an object's content came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The server sent it.
    Network,
    /// The server said that what the cache has is still true.
    Validated,
    /// The cache, nobody was asked.
    Cache,
}

impl Source {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Source::Network => "network",
            Source::Validated => "validated",
            Source::Cache => "cache",
        }
    }
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing yet.
    Pending,
    /// It is here.
    Done(Source),
    /// It is elsewhere: the number of the object that follows.
    Moved(usize),
    /// It is not, and why.
    Failed(String),
}

/// One object.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its address.
    pub url: String,
    /// What it is to the page.
    pub role: Role,
    /// The object that named it.
    pub parent: Option<usize>,
    /// When its name was known.
    pub found: Instant,
    /// The requests sent for it, in order.
    pub tries: Vec<Try>,
    /// What became of it.
    pub fate: Fate,
    /// The status of its last answer.
    pub status: Option<u16>,
    /// What `Content-Type` said.
    pub media: String,
    /// Bytes of content, decoded where they were decoded.
    pub content_bytes: u64,
}

/// Which part of an object a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// So many bytes from its beginning.
    First(u64),
    /// From this byte on.
    Rest(u64),
    /// Its head only.
    Head,
}

/// One request and its answer.
#[derive(Clone, Debug)]
pub struct Try {
    /// Its connection, as a number of [`Timeline::connections`].
    pub connection: usize,
    /// What it asks for.
    pub part: Part,
    /// Its text.
    pub request: String,
    /// When it was made.
    pub asked: Instant,
    /// When it was handed to the kernel; later than `asked` if it was held in the output buffer.
    pub sent: Option<Instant>,
    /// When the first bytes of the answer came.
    pub first: Option<Instant>,
    /// When the answer was complete.
    pub last: Option<Instant>,
    /// The status of the answer; 0 without one.
    pub status: u16,
    /// The reason phrase of the answer.
    pub reason: String,
    /// The field lines of the answer.
    pub fields: Vec<(String, String)>,
    /// Bytes of the answer's head.
    pub head_bytes: u64,
    /// Bytes of its body as it was transferred, framing included.
    pub body_bytes: u64,
    /// Whether it had to be sent again.
    pub is_repeated: bool,
    /// How many requests were made before it on its connection.
    pub turn: u32,
}

/// One connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// When it was asked for.
    pub opened: Instant,
    /// When it stood.
    pub connected: Option<Instant>,
    /// When it ended.
    pub closed: Option<Instant>,
    /// Whether the server ended it while answers were owed.
    pub is_cut: bool,
    /// Segments of the handshake that were sent again.
    pub shaken_again: u32,
    /// Every receipt.
    pub arrivals: Vec<Arrival>,
    /// What the kernel counted, as it was when last asked: once both ends had closed, or when this one gave it up.
    pub tcp: Option<Tcp>,
    /// Bytes sent; none if it never stood.
    pub bytes_out: u64,
    /// Requests sent.
    pub requests: u32,
    /// Data bytes this end sent again; under [`Sight::Whole`] and those that came again.
    pub bytes_again: u64,
}

/// Bytes that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// How many.
    pub bytes: u64,
    /// Bytes that had come in order since the connection began, those that were not read yet among them.
    pub came: u64,
    /// Signs, since the connection began, that a segment to this end was missing: receipts before which segments came
    /// out of order, or that brought more than the segments since the last one; under [`Sight::Whole`] the segments
    /// that were sent again.
    pub holes: u32,
    /// Segments this end had sent again since the connection began.
    pub repeats: u32,
}

impl Arrival {
    /// A receipt after this one (or the first), before anything else is known of it.
    pub fn after(before: Option<&Arrival>, at: Instant, bytes: u64) -> Arrival {
        let (came, holes, repeats) = before.map_or((0, 0, 0), |one| (one.came, one.holes, one.repeats));
        Arrival {
            at,
            bytes,
            came: came + bytes,
            holes,
            repeats,
        }
    }
}

/// Sums over a fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Connections that stood.
    pub connections: u64,
    /// Requests sent, repeated ones included.
    pub requests: u64,
    /// Requests sent again.
    pub repeated: u64,
    /// Bytes of HTTP sent.
    pub bytes_out: u64,
    /// Bytes of HTTP received.
    pub bytes_in: u64,
    /// Bytes that TCP carried again, as far as they are known.
    pub bytes_again: u64,
    /// Segments in both directions; none if the kernel does not say.
    pub packets: Option<u64>,
    /// Connections whose closing is not, or not all, among the packets.
    pub unclosed: u64,
    /// Objects that are not here.
    pub failed: u64,
    /// Objects whose copy in the cache is still true, asked about or not.
    pub from_cache: u64,
}

impl Timeline {
    /// Whether the page itself is here, whatever else is missing.
    pub fn has_page(&self) -> bool {
        let mut pages = self.objects.iter().filter(|object| object.role == Role::Page);
        pages.any(|page| matches!(page.fate, Fate::Done(_)))
    }

    /// Sums.
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
