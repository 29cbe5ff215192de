//! Both roles of a connection: streams, flow control, settings and shutdown. `server` and `client` choose the role and
//! narrow the interface.

mod blocks;
mod control;
mod expiry;
mod receive;
mod send;
mod stream;

use crate::error::{Code, Fault};
use crate::flood::{Floods, Kind};
use crate::frame::{self, Setting, WINDOW_INITIAL, write};
use crate::hpack;
use crate::limits::Limits;
use http_semantics::message::Control;
use http_semantics::priority::Priority;
use http_semantics::schedule::Turns;
use std::sync::Arc;
use stream::{Stream, signed};
use units::Instant;

pub use receive::Received;
pub use send::Piece;

/// Closed streams remembered, to tell late frames from errors.
const REMEMBERED: usize = 16;

/// A remembered stream was ended by both sides, not reset.
const ENDED: u32 = 1 << 31;

/// PRIORITY_UPDATE remembered for streams that are not open yet.
const EARLY_MAX: usize = 16;

/// Bytes of memory each dynamic table may keep on an idle connection: a few fields, without their history.
const IDLE_TABLE: usize = 128;

/// Which end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Server,
    Client,
}

/// What happened. Borrowed parts are valid until the next call.
#[derive(Debug)]
pub enum Event<'a> {
    /// Nothing more without further input.
    Partial,
    /// A request (server).
    Request {
        /// Stream.
        stream: u32,
        /// Whether no body follows.
        end: bool,
        /// Control data.
        control: Control<'a>,
        /// All fields, pseudo-fields included.
        fields: &'a hpack::Fields,
    },
    /// An interim or final response (client).
    Response {
        /// Stream.
        stream: u32,
        /// Whether no body follows.
        end: bool,
        /// Status; below 200 another response follows.
        status: u16,
        /// All fields, pseudo-fields included.
        fields: &'a hpack::Fields,
    },
    /// A request whose header list exceeds the limits (server): answer 431.
    Oversized {
        /// Stream.
        stream: u32,
        /// Whether no body follows.
        end: bool,
    },
    /// Content; call `consumed` when its memory is free again.
    Body {
        /// Stream.
        stream: u32,
        /// Never empty.
        bytes: &'a [u8],
    },
    /// The trailer section; the peer's half of the stream is complete.
    Trailers {
        /// Stream.
        stream: u32,
        /// Fields.
        fields: &'a hpack::Fields,
    },
    /// The peer's half of the stream is complete. Does not follow `Trailers` or an event with `end`.
    End {
        /// Stream.
        stream: u32,
    },
    /// The stream was reset, by the peer or because of its error.
    Reset {
        /// Stream.
        stream: u32,
        /// Reason. A client may repeat a request after REFUSED_STREAM: it was not processed.
        code: Code,
    },
    /// The peer sent GOAWAY. For a client, `Reset` with REFUSED_STREAM follows for each stream above `last`.
    GoAway {
        /// The last stream that was or might be processed.
        last: u32,
        /// Reason.
        code: Code,
    },
    /// The connection failed. GOAWAY is in the output: send it and close.
    Closed(Fault),
}

/// What the peer announced.
#[derive(Clone, Copy, Debug)]
struct Peer {
    window: u32,
    frame_size: u32,
    streams_max: u32,
}

/// Graceful shutdown (RFC 9113 section 6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    No,
    /// The first GOAWAY was sent; the second follows at this instant or with the answer to PING.
    Announced(Instant),
    /// The last stream we process.
    Final(u32),
}

/// A DATA frame under way.
#[derive(Clone, Copy, Debug)]
struct Data {
    stream: u32,
    content: u32,
    padding: u32,
    end: bool,
    /// Its stream is closed: the content is skipped.
    skipped: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Engine {
    role: Role,
    limits: Arc<Limits>,
    /// Sorted by identifier.
    streams: Vec<Stream>,
    decoder: hpack::Decoder,
    encoder: hpack::Encoder,
    fields: hpack::Fields,
    /// Fragments of a block that CONTINUATION completes; its stream, end and number of frames.
    block: Vec<u8>,
    block_of: Option<(u32, bool, u8)>,
    block_due: Option<Instant>,
    data: Option<Data>,
    preface: u8,
    settings_seen: bool,
    settings_due: Option<Instant>,
    /// When the peer is asked to empty its dynamic table, unless a stream begins.
    empty_due: Option<Instant>,
    /// Acknowledgments awaited of the two SETTINGS that ask for it.
    empty_acks: u8,
    send_window: i32,
    receive_window: i32,
    credit: u32,
    peer: Peer,
    peer_leaves: Option<u32>,
    drain: Drain,
    /// The highest stream the peer opened.
    highest: u32,
    /// The next stream we open (client).
    next: u32,
    closed: [u32; REMEMBERED],
    closed_at: u8,
    /// The stream the peer reset last; 0 for none.
    cancelled: u32,
    early: Vec<(u32, Priority)>,
    floods: Floods,
    turns: Turns,
    failed: Option<Fault>,
}

impl Engine {
    pub(crate) fn new(role: Role, limits: Arc<Limits>, now: Instant, output: &mut Vec<u8>) -> Engine {
        let initial = limits.stream_window;
        let mut ours = vec![
            Setting::HeaderTableSize(limits.table_bytes),
            Setting::InitialWindowSize(initial),
            Setting::MaxHeaderListSize(limits.list_bytes_max),
            Setting::NoRfc7540Priorities(true),
        ];
        match role {
            Role::Server => ours.push(Setting::MaxConcurrentStreams(limits.streams_max)),
            Role::Client => {
                output.extend_from_slice(frame::PREFACE);
                ours.push(Setting::EnablePush(false));
            }
        }
        write::settings(output, &ours);
        let window = limits.connection_window.max(WINDOW_INITIAL);
        if window > WINDOW_INITIAL {
            write::window_update(output, 0, window - WINDOW_INITIAL);
        }
        Engine {
            role,
            settings_due: Some(now + limits.settings_time),
            // The peer may compress with the initial size until it has our SETTINGS.
            decoder: hpack::Decoder::new(4096),
            encoder: hpack::Encoder::new(limits.encoder_bytes as usize),
            fields: hpack::Fields::default(),
            limits,
            streams: Vec::new(),
            block: Vec::new(),
            block_of: None,
            block_due: None,
            data: None,
            preface: 0,
            settings_seen: false,
            empty_due: None,
            empty_acks: 0,
            send_window: signed(WINDOW_INITIAL),
            receive_window: signed(window),
            credit: 0,
            peer: Peer {
                window: WINDOW_INITIAL,
                frame_size: frame::SIZE_MIN,
                streams_max: u32::MAX,
            },
            peer_leaves: None,
            drain: Drain::No,
            highest: 0,
            next: 1,
            closed: [0; REMEMBERED],
            closed_at: 0,
            cancelled: 0,
            early: Vec::new(),
            floods: Floods::default(),
            turns: Turns::default(),
            failed: None,
        }
    }

    /// The index of a stream that is not closed.
    fn live(&self, id: u32) -> Option<usize> {
        let at = self.streams.binary_search_by_key(&id, |stream| stream.id).ok()?;
        (!self.streams[at].dead).then_some(at)
    }

    /// Whether the stream was never opened.
    fn is_idle(&self, id: u32) -> bool {
        match self.role {
            Role::Server => id.is_multiple_of(2) || id > self.highest,
            Role::Client => id.is_multiple_of(2) || id >= self.next,
        }
    }

    fn remember(&mut self, entry: u32) {
        self.closed[usize::from(self.closed_at)] = entry;
        self.closed_at = (self.closed_at + 1) % REMEMBERED as u8;
    }

    /// Closes the stream at `at` and remembers how: [`ENDED`], 0 for our reset, or not at all. It remains in the list while it has jobs.
    fn close(&mut self, at: usize, how: Option<u32>, output: &mut Vec<u8>) {
        let stream = &mut self.streams[at];
        let (id, held) = (stream.id, core::mem::take(&mut stream.held));
        if stream.jobs > 0 {
            stream.dead = true;
            (stream.ready, stream.blocked) = (0, None);
        } else {
            self.streams.remove(at);
        }
        if let Some(how) = how {
            self.remember(id | how);
        }
        self.return_credit(held, output);
    }

    fn close_if_done(&mut self, at: usize, output: &mut Vec<u8>) {
        if self.streams[at].local_end && self.streams[at].remote_end {
            self.close(at, Some(ENDED), output);
        }
    }

    /// Ends a stream from our side, because of the peer's error if `provoked`.
    fn abort(
        &mut self,
        id: u32,
        code: Code,
        provoked: Option<Instant>,
        output: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        write::reset(output, id, code);
        match self.live(id) {
            Some(at) => self.close(at, Some(0), output),
            None => self.remember(id),
        }
        match provoked {
            Some(now) => self.floods.charge(Kind::Provoked, &self.limits, now),
            None => Ok(()),
        }
    }

    /// Ends the connection: GOAWAY, then nothing is read or written.
    fn fail(&mut self, fault: Fault, output: &mut Vec<u8>) {
        if self.failed.is_none() {
            self.failed = Some(fault);
            if let Fault::Connection(code, text) = fault {
                write::go_away(output, self.highest, code, text);
            }
            self.data = None;
        }
    }

    /// A job on behalf of the stream began.
    pub(crate) fn job_began(&mut self, id: u32) {
        if let Some(at) = self.live(id) {
            self.streams[at].jobs += 1;
        }
    }

    /// A job ended; a closed stream without jobs no longer counts.
    pub(crate) fn job_ended(&mut self, id: u32) {
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
        let leaving = matches!(self.drain, Drain::Final(_)) || self.peer_leaves.is_some();
        leaving && self.streams.is_empty()
    }

    pub(crate) fn priority(&self, id: u32) -> Option<Priority> {
        self.live(id).map(|at| self.streams[at].priority)
    }

    /// Bytes held, used or not.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Engine>()
            + self.streams.capacity() * size_of::<Stream>()
            + self.block.capacity()
            + self.early.capacity() * size_of::<(u32, Priority)>()
            + self.fields.capacity()
            + self.decoder.memory()
            + self.encoder.memory()
    }

    /// Gives back memory that an idle connection does not need. The decoder's table must stay in step with the peer's, so
    /// it follows later.
    pub(crate) fn trim(&mut self, now: Instant) {
        if self.streams.is_empty() {
            self.streams = Vec::new();
        }
        if self.block_of.is_none() {
            self.block = Vec::new();
        }
        self.fields.clear();
        self.fields.shrink();
        self.early.shrink_to_fit();
        if self.encoder.memory() > IDLE_TABLE {
            self.encoder.clear();
        }
        self.empty_due = self.may_empty().then(|| now + self.limits.table_time);
    }

    /// Whether the peer's table is worth SETTINGS, and none of ours is unacknowledged that would be confused with them.
    fn may_empty(&self) -> bool {
        let is_calm = self.streams.is_empty() && self.drain == Drain::No && self.failed.is_none();
        is_calm && self.role == Role::Server && self.empty_acks == 0 && self.decoder.memory() > IDLE_TABLE
    }
}
