//! Both roles of a connection: streams, settings, priorities and shutdown. `server` and `client` choose the role and narrow
//! the interface.

mod expiry;
mod receive;
mod sections;
mod send;
mod stream;
mod unidirectional;

use crate::error::{Code, Fault};
use crate::flood::{Floods, Kind};
use crate::frame::{Settings, write};
use crate::limits::Limits;
use crate::qpack;
use crate::varint;
use http_semantics::message::Control;
use http_semantics::priority::Priority;
use http_semantics::schedule::Turns;
use std::collections::VecDeque;
use std::sync::Arc;
use stream::Stream;
use unidirectional::{Inbound, Outbound, Received as Unidirectional};
use units::Instant;

pub use receive::Received;
pub use send::{Output, Piece};

/// PRIORITY_UPDATE remembered for streams that are not open yet.
const EARLY_MAX: usize = 16;

/// The last request stream there can be.
const LAST: u64 = varint::MAX - 3;

/// Which end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

/// What happened. Borrowed parts are valid until the next call.
#[derive(Debug)]
pub enum Event<'a> {
    /// Nothing more without further input. Input that was not used belongs to a stream that waits for `Resumed`.
    Partial,
    /// A request (server).
    Request {
        /// Stream.
        stream: u64,
        /// Whether no body follows. If not, `End` comes later.
        end: bool,
        /// Control data.
        control: Control<'a>,
        /// All fields, pseudo-fields included.
        fields: &'a qpack::Fields,
    },
    /// An interim or final response (client).
    Response {
        /// Stream.
        stream: u64,
        /// Whether no body follows. If not, `End` comes later.
        end: bool,
        /// Status; below 200 another response follows.
        status: u16,
        /// All fields, pseudo-fields included.
        fields: &'a qpack::Fields,
    },
    /// A request whose field section exceeds the limits (server): answer 431.
    Oversized {
        /// Stream.
        stream: u64,
        /// Whether no body follows. If not, `End` comes later.
        end: bool,
    },
    /// Content.
    Body {
        /// Stream.
        stream: u64,
        /// Never empty.
        bytes: &'a [u8],
    },
    /// The trailer section; `End` follows.
    Trailers {
        /// Stream.
        stream: u64,
        /// Fields.
        fields: &'a qpack::Fields,
    },
    /// The peer's half of the stream is complete. Does not follow an event with `end`.
    End {
        /// Stream.
        stream: u64,
    },
    /// The stream has failed because of an error of the peer, or was refused by its GOAWAY.
    Reset {
        /// Stream.
        stream: u64,
        /// Reason. A client may repeat a request after H3_REQUEST_REJECTED: it was not processed.
        code: Code,
    },
    /// The peer sent GOAWAY. For a client, `Reset` with H3_REQUEST_REJECTED follows for each stream that is refused.
    GoAway {
        /// The first stream (from a server) or push (from a client) that will not be processed.
        first: u64,
    },
    /// A stream whose field section waited for the dynamic table can continue: offer its input again.
    Resumed {
        /// Stream.
        stream: u64,
    },
    /// The connection failed: close it with the code and the text of the fault.
    Closed(Fault),
}

/// Graceful shutdown (RFC 9114 section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    No,
    /// The first GOAWAY was sent; the second follows at this instant.
    Announced(Instant),
    /// The first stream we do not process.
    Final(u64),
}

/// Ends one half of a stream.
#[derive(Clone, Copy, Debug)]
enum Action {
    Reset(u64, Code),
    Stop(u64, Code),
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Engine {
    role: Role,
    limits: Arc<Limits>,
    /// Sorted by identifier.
    streams: Vec<Stream>,
    unidirectional: Vec<Inbound>,
    /// Types of unidirectional streams that the peer has opened.
    received: Unidirectional,
    control: Outbound,
    acknowledgments: Outbound,
    decoder: qpack::Decoder,
    feedback: qpack::Feedback,
    fields: qpack::Fields,
    actions: VecDeque<Action>,
    peer: Option<Settings>,
    peer_leaves: Option<u64>,
    peer_push_max: Option<u64>,
    drain: Drain,
    /// The identifier behind the highest stream the peer has opened.
    next: u64,
    early: Vec<(u64, Priority)>,
    floods: Floods,
    turns: Turns,
    failed: Option<Fault>,
}

impl Engine {
    pub(crate) fn new(role: Role, limits: Arc<Limits>) -> Engine {
        // A server's first unidirectional stream has the identifier 3, a client's 2.
        let mut control = Outbound::new(if role == Role::Server { 3 } else { 2 });
        control.bytes.push(crate::frame::stream::CONTROL as u8);
        let ours = Settings {
            table_capacity: limits.table_bytes.into(),
            section_size: limits.list_bytes_max.into(),
            blocked_streams: limits.blocked_max.into(),
        };
        write::settings(ours, &mut control.bytes);
        let mut acknowledgments = Outbound::new(control.id + 4);
        if limits.table_bytes > 0 {
            acknowledgments
                .bytes
                .push(crate::frame::stream::QPACK_DECODER as u8);
        }
        Engine {
            role,
            decoder: qpack::Decoder::new(limits.table_bytes as usize),
            limits,
            streams: Vec::new(),
            unidirectional: Vec::new(),
            received: Unidirectional::default(),
            control,
            acknowledgments,
            feedback: qpack::Feedback::default(),
            fields: qpack::Fields::default(),
            actions: VecDeque::new(),
            peer: None,
            peer_leaves: None,
            peer_push_max: None,
            drain: Drain::No,
            next: 0,
            early: Vec::new(),
            floods: Floods::default(),
            turns: Turns::default(),
            failed: None,
        }
    }

    /// The index of a stream that is not closed.
    fn live(&self, id: u64) -> Option<usize> {
        let at = self.streams.binary_search_by_key(&id, |stream| stream.id).ok()?;
        (!self.streams[at].dead).then_some(at)
    }

    fn charge(&mut self, kind: Kind, now: Instant) -> Result<(), Fault> {
        self.floods.charge(kind, &self.limits, now)
    }

    /// The peer has opened a stream.
    pub(crate) fn open(&mut self, id: u64, now: Instant) -> Result<(), Fault> {
        if let Some(fault) = self.failed {
            return Err(fault);
        }
        let opened = match (id & 2 == 0, self.role) {
            (false, _) => self.open_unidirectional(id, now),
            (true, Role::Server) => self.open_request(id, now),
            (true, Role::Client) => {
                let text = "a server opened a bidirectional stream";
                Err(Fault::Connection(Code::STREAM_CREATION_ERROR, text))
            }
        };
        opened.inspect_err(|&fault| self.fail(fault))
    }

    fn open_request(&mut self, id: u64, now: Instant) -> Result<(), Fault> {
        self.next = self.next.max(id.saturating_add(4));
        let late = matches!(self.drain, Drain::Final(first) if id >= first);
        if late || self.streams.len() >= self.limits.streams_max as usize {
            self.actions.push_back(Action::Reset(id, Code::REQUEST_REJECTED));
            self.actions.push_back(Action::Stop(id, Code::REQUEST_REJECTED));
            // A client that has our GOAWAY not yet is no flood.
            return if late {
                Ok(())
            } else {
                self.charge(Kind::Provoked, now)
            };
        }
        let mut stream = Stream::new(id);
        (stream.due, stream.turn) = (Some(now + self.limits.head_time), self.turns.now());
        self.insert(stream);
        Ok(())
    }

    fn insert(&mut self, stream: Stream) {
        let place = self.streams.binary_search_by_key(&stream.id, |stream| stream.id);
        if let Err(at) = place {
            self.streams.insert(at, stream);
        }
    }

    /// Forgets the stream at `at`, or keeps it while it has jobs.
    fn close(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        if stream.jobs == 0 {
            self.streams.remove(at);
            return;
        }
        let mut rest = Stream::new(stream.id);
        (rest.jobs, rest.dead) = (stream.jobs, true);
        *stream = rest;
    }

    fn close_if_done(&mut self, at: usize) {
        if self.streams[at].local_end && self.streams[at].remote_end {
            self.close(at);
        }
    }

    /// Ends both halves of a stream that have not ended: ours with `code`, the peer's with `stop`.
    fn abort(&mut self, at: usize, code: Code, stop: Code) {
        let stream = &self.streams[at];
        let id = stream.id;
        if !stream.local_end {
            self.actions.push_back(Action::Reset(id, code));
        }
        if !stream.remote_end {
            self.actions.push_back(Action::Stop(id, stop));
            self.decoder.cancel(id, &mut self.acknowledgments.bytes);
        }
        self.close(at);
    }

    /// Resets both halves of a stream.
    pub(crate) fn reset(&mut self, id: u64, code: Code) {
        if let Some(at) = self.live(id).filter(|_| self.failed.is_none()) {
            self.abort(at, code, code);
        }
    }

    /// Stops the peer's half of a stream.
    pub(crate) fn stop(&mut self, id: u64, code: Code) {
        let Some(at) = self.live(id).filter(|_| self.failed.is_none()) else {
            return;
        };
        let stream = &mut self.streams[at];
        if !stream.remote_end {
            stream.remote_end = true;
            (stream.block, stream.waiting, stream.due) = (Vec::new(), None, None);
            self.actions.push_back(Action::Stop(id, code));
            self.decoder.cancel(id, &mut self.acknowledgments.bytes);
            self.close_if_done(at);
        }
    }

    /// Ends the connection: nothing is read or written any more.
    fn fail(&mut self, fault: Fault) {
        if self.failed.is_none() {
            self.failed = Some(fault);
            self.streams = Vec::new();
            self.unidirectional = Vec::new();
            self.actions = VecDeque::new();
        }
    }

    /// A job on behalf of the stream began.
    pub(crate) fn job_began(&mut self, id: u64) {
        if let Some(at) = self.live(id) {
            self.streams[at].jobs += 1;
        }
    }

    /// A job ended; a closed stream without jobs no longer counts.
    pub(crate) fn job_ended(&mut self, id: u64) {
        if let Ok(at) = self.streams.binary_search_by_key(&id, |stream| stream.id) {
            let stream = &mut self.streams[at];
            stream.jobs = stream.jobs.saturating_sub(1);
            if stream.dead && stream.jobs == 0 {
                self.streams.remove(at);
            }
        }
    }

    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }

    pub(crate) fn is_drained(&self) -> bool {
        // GOAWAY of a client names a push: it says nothing of its requests (RFC 9114 section 5.2).
        let is_left = self.role == Role::Client && self.peer_leaves.is_some();
        let leaving = is_left || matches!(self.drain, Drain::Final(_));
        leaving && self.streams.is_empty()
    }

    pub(crate) fn priority(&self, id: u64) -> Option<Priority> {
        self.live(id).map(|at| self.streams[at].priority)
    }

    pub(crate) fn peer(&self) -> Option<Settings> {
        self.peer
    }

    /// Bytes held, used or not.
    pub(crate) fn memory(&self) -> usize {
        let streams: usize = self.streams.iter().map(Stream::memory).sum();
        let inbound: usize = self.unidirectional.iter().map(Inbound::memory).sum();
        size_of::<Engine>()
            + streams
            + self.streams.capacity() * size_of::<Stream>()
            + inbound
            + self.unidirectional.capacity() * size_of::<Inbound>()
            + self.control.bytes.capacity()
            + self.acknowledgments.bytes.capacity()
            + self.actions.capacity() * size_of::<Action>()
            + self.early.capacity() * size_of::<(u64, Priority)>()
            + self.fields.capacity()
            + self.decoder.memory()
    }

    /// Gives back memory that an idle connection does not need.
    pub(crate) fn trim(&mut self) {
        if self.streams.is_empty() {
            self.streams = Vec::new();
        }
        self.fields.clear();
        self.fields.shrink();
        self.early.shrink_to_fit();
        self.actions.shrink_to_fit();
        self.control.bytes.shrink_to_fit();
        self.acknowledgments.bytes.shrink_to_fit();
        self.unidirectional.shrink_to_fit();
    }
}
