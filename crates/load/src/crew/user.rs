//! The state of a user: what its connection waits for, and the object in progress, on one connection or on several.

use super::NEVER;
use crate::request_source::{Part, RequestSource};
use crate::scenario::Visitor;
use client::session::Session;
use twox_hash::xxhash3_128::Hasher;
use units::{Duration, Instant};

/// Running digest of the response body in progress.
#[derive(Default)]
pub(super) struct Digest(pub(super) Hasher);

impl core::fmt::Debug for Digest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Digest")
    }
}

/// An object in progress on one connection.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) parts: Vec<Part>,
    /// Parts requested: those complete plus those pending on this connection.
    pub(super) asked: usize,
    /// Completed parts.
    pub(super) got: usize,
    /// Intended start time of the object.
    pub(super) intended: Instant,
    /// Intended start time of the current part.
    pub(super) part_intended: Instant,
    /// Start of the current part's service time.
    pub(super) mark: Instant,
    /// Start of the wait for the current part's first byte.
    pub(super) sent: Instant,
    /// Arrival of the current response's head.
    pub(super) first: Option<Instant>,
    /// Start of the connection attempt; `None` once established.
    pub(super) opening: Option<Instant>,
    /// Start of the TLS handshake; `None` once it is complete, and for cleartext.
    pub(super) shaking: Option<Instant>,
    /// Time of the last progress, from which the timeout counts.
    pub(super) progress: Instant,
    pub(super) status: u16,
    pub(super) bytes: u64,
    /// Bytes received for the current part, headers included. If responses arrive in one read, the first part gets all
    /// of it.
    pub(super) received: u64,
    /// Content length stated by the response's head, for responses without content.
    pub(super) said: Option<u64>,
    /// Whether any part failed.
    pub(super) spoiled: bool,
    pub(super) digest: Option<Box<Digest>>,
    /// Connections lost since the last completed part.
    pub(super) tries: u8,
    /// Whether the session ends with this object.
    pub(super) last: bool,
    /// Whether the first part is requested alone: it is the page that references the others.
    pub(super) alone: bool,
}

/// An object in progress on several connections.
#[derive(Debug)]
pub(super) struct Group {
    /// Embedded files, dealt out when the page is complete.
    pub(super) rest: Vec<Part>,
    /// All files of the object.
    pub(super) files: Box<[u32]>,
    /// Connections still fetching their share.
    pub(super) left: u32,
    /// Whether all parts so far succeeded.
    pub(super) whole: bool,
    pub(super) intended: Instant,
    /// OFF time after the object.
    pub(super) off: Duration,
    /// Whether the session ends with this object.
    pub(super) last: bool,
}

#[derive(Debug)]
pub(super) enum Phase {
    /// The timer starts the user and its first object.
    Coming,
    /// The timer begins the next object; with `leave`, on a new connection.
    Waiting {
        leave: bool,
    },
    Fetching(Box<Fetch>),
    /// The timer continues the object.
    Pausing(Box<Fetch>),
    /// Idle in an open loop's pool, or waiting for the next object of its user.
    Free,
    /// Finished.
    Done,
}

#[derive(Debug)]
pub(super) struct User {
    pub(super) phase: Phase,
    pub(super) session: Option<Session>,
    /// When the connection was established.
    pub(super) stands: Option<Instant>,
    pub(super) source: Option<RequestSource>,
    /// The object in progress, on the first of several connections.
    pub(super) group: Option<Box<Group>>,
    /// When the timer fires.
    pub(super) alarm: Instant,
    /// Values and cookies of a user of a script.
    pub(super) visitor: Option<Box<Visitor>>,
}

impl User {
    /// A connection without a user's script.
    pub(super) fn free() -> User {
        User {
            phase: Phase::Free,
            session: None,
            stands: None,
            source: None,
            group: None,
            alarm: NEVER,
            visitor: None,
        }
    }
}

impl Fetch {
    pub(super) fn new(intended: Instant, now: Instant) -> Fetch {
        Fetch {
            parts: Vec::new(),
            asked: 0,
            got: 0,
            intended,
            part_intended: intended,
            mark: now,
            sent: now,
            first: None,
            opening: None,
            shaking: None,
            progress: now,
            status: 0,
            bytes: 0,
            received: 0,
            said: None,
            spoiled: false,
            digest: None,
            tries: 0,
            last: false,
            alone: true,
        }
    }

    /// Moves on to the next part and restarts its times.
    pub(super) fn done(&mut self, now: Instant) {
        self.got += 1;
        self.first = None;
        self.received = 0;
        self.mark = now;
        self.sent = now;
        self.part_intended = now;
    }
}
