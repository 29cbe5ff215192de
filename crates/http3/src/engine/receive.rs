//! From input to events: the order of frames on request streams (RFC 9114 section 4.1), and what the peer ends.

use super::stream::{Payload, Phase};
use super::{Action, Engine, Event, Role};
use crate::error::{Code, Fault};
use crate::flood::Kind;
use crate::frame::{Item, kind};
use http_semantics::message::{self, Control};
use units::Instant;

/// Bytes consumed from the front of the input, and what they meant.
#[derive(Debug)]
pub struct Received<'a> {
    /// Drop this many bytes and offer the rest again.
    pub used: usize,
    /// The event.
    pub event: Event<'a>,
}

/// An event without its borrowed parts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal {
    Request(u64, bool),
    Response(u64, bool, u16),
    Oversized(u64, bool),
    /// Stream, and how many bytes before the end of what was used are content.
    Body(u64, usize),
    Trailers(u64),
    End(u64),
    Reset(u64, Code),
    GoAway(u64),
    Resumed(u64),
}

/// What follows a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// More input is needed.
    Wait,
    /// Another step.
    Again,
    /// An event.
    Signal(Signal),
}

impl From<Option<Signal>> for Next {
    fn from(signal: Option<Signal>) -> Next {
        signal.map_or(Next::Again, Next::Signal)
    }
}

/// Bytes used, and what follows.
pub(super) type Step = Result<(usize, Next), Fault>;

impl Engine {
    pub(crate) fn receive<'a>(
        &'a mut self,
        id: u64,
        input: &'a [u8],
        fin: bool,
        now: Instant,
    ) -> Received<'a> {
        let mut used = 0;
        let signal = loop {
            if let Some(fault) = self.failed {
                return Received {
                    used: input.len(),
                    event: Event::Closed(fault),
                };
            }
            match self.step(id, &input[used..], fin, now) {
                Ok((bytes, next)) => {
                    used += bytes;
                    match next {
                        Next::Wait => {
                            return Received {
                                used,
                                event: Event::Partial,
                            };
                        }
                        Next::Again => {}
                        Next::Signal(signal) => break signal,
                    }
                }
                Err(fault) => self.fail(fault),
            }
        };
        let event = self.event(signal, &input[..used]);
        Received { used, event }
    }

    fn event<'a>(&'a self, signal: Signal, used: &'a [u8]) -> Event<'a> {
        let fields = &self.fields;
        match signal {
            Signal::Request(stream, end) => Event::Request {
                stream,
                end,
                control: self.control_data(),
                fields,
            },
            Signal::Response(stream, end, status) => Event::Response {
                stream,
                end,
                status,
                fields,
            },
            Signal::Oversized(stream, end) => Event::Oversized { stream, end },
            Signal::Body(stream, length) => Event::Body {
                stream,
                bytes: &used[used.len() - length..],
            },
            Signal::Trailers(stream) => Event::Trailers { stream, fields },
            Signal::End(stream) => Event::End { stream },
            Signal::Reset(stream, code) => Event::Reset { stream, code },
            Signal::GoAway(first) => Event::GoAway { first },
            Signal::Resumed(stream) => Event::Resumed { stream },
        }
    }

    fn control_data(&self) -> Control<'_> {
        message::request(self.fields.iter()).expect("the section was checked when it was decoded")
    }

    /// Takes one step; stream errors become RESET_STREAM and STOP_SENDING here.
    fn step(&mut self, id: u64, input: &[u8], fin: bool, now: Instant) -> Step {
        if let Some(signal) = self.refused().or_else(|| self.resumed()) {
            return Ok((0, Next::Signal(signal)));
        }
        let result = if id & 2 != 0 {
            self.unidirectional(id, input, fin, now)
        } else {
            match self.live(id) {
                Some(at) => self.request_stream(at, input, fin, now),
                // Closed already: what follows has no meaning.
                None => Ok((input.len(), Next::Wait)),
            }
        };
        if self.acknowledgments.bytes.len() > usize::from(self.limits.backlog_bytes_max) {
            let text = "the peer does not read our QPACK decoder stream";
            return Err(Fault::Connection(Code::EXCESSIVE_LOAD, text));
        }
        let (id, code) = match result {
            Err(Fault::Stream(id, code, _)) => (id, code),
            result => return result,
        };
        let Some(at) = self.live(id) else {
            return Ok((input.len(), Next::Wait));
        };
        let is_known = self.role == Role::Client || self.streams[at].phase != Phase::Head;
        self.abort(at, code, code);
        self.charge(Kind::Provoked, now)?;
        Ok((
            input.len(),
            match is_known {
                true => Next::Signal(Signal::Reset(id, code)),
                false => Next::Wait,
            },
        ))
    }

    /// The next of our requests that the peer's GOAWAY refused.
    fn refused(&mut self) -> Option<Signal> {
        let first = self.peer_leaves.filter(|_| self.role == Role::Client)?;
        let from = self.streams.partition_point(|stream| stream.id < first);
        let at = from + self.streams[from..].iter().position(|stream| !stream.dead)?;
        let id = self.streams[at].id;
        self.abort(at, Code::REQUEST_CANCELLED, Code::REQUEST_CANCELLED);
        Some(Signal::Reset(id, Code::REQUEST_REJECTED))
    }

    /// The next stream whose section no longer waits.
    fn resumed(&mut self) -> Option<Signal> {
        let inserted = self.decoder.inserted();
        let mut streams = self.streams.iter_mut();
        let stream = streams.find(|stream| {
            let section = stream.waiting.filter(|_| !stream.resumed);
            section.is_some_and(|section| section.required <= inserted)
        })?;
        stream.resumed = true;
        Some(Signal::Resumed(stream.id))
    }

    fn request_stream(&mut self, at: usize, input: &[u8], fin: bool, now: Instant) -> Step {
        let stream = &mut self.streams[at];
        if stream.remote_end {
            return Ok((input.len(), Next::Wait));
        }
        if let Some(section) = stream.waiting {
            if section.required > self.decoder.inserted() {
                return Ok((0, Next::Wait));
            }
            stream.waiting = None;
            let block = core::mem::take(&mut stream.block);
            let signal = self.section(at, section, &block, fin && input.is_empty())?;
            return Ok((0, signal.into()));
        }
        let (used, item) = stream.reader.next(input);
        let last = fin && used == input.len();
        match item {
            Item::Partial if fin => Ok((used, self.finish_remote(at)?)),
            Item::Partial => Ok((used, Next::Wait)),
            Item::Frame { kind, length } => {
                self.streams[at].payload = self.frame(at, kind, length, now)?;
                Ok((used, Next::Again))
            }
            Item::Payload(bytes) => match stream.payload {
                Payload::Skipped | Payload::TooLong => Ok((used, Next::Again)),
                Payload::Data => Ok((used, Next::Signal(Signal::Body(stream.id, used)))),
                Payload::Block if stream.block.is_empty() && stream.reader.is_complete() => {
                    stream.payload = Payload::Skipped;
                    Ok((used, self.block(at, bytes, last, now)?.into()))
                }
                Payload::Block => {
                    stream.block.extend_from_slice(bytes);
                    self.check_pending(at)?;
                    Ok((used, Next::Again))
                }
            },
            Item::End => match stream.payload {
                Payload::Skipped | Payload::Data => Ok((used, Next::Again)),
                Payload::TooLong => Ok((used, self.too_long(at, last)?.into())),
                Payload::Block => {
                    stream.payload = Payload::Skipped;
                    let block = core::mem::take(&mut stream.block);
                    Ok((used, self.block(at, &block, last, now)?.into()))
                }
            },
        }
    }

    /// What the payload of a frame that begins is.
    fn frame(&mut self, at: usize, kind: u64, length: u64, now: Instant) -> Result<Payload, Fault> {
        let unexpected = |text| Err(Fault::Connection(Code::FRAME_UNEXPECTED, text));
        let stream = &mut self.streams[at];
        match kind {
            kind::DATA => match stream.phase {
                Phase::Head => unexpected("DATA before HEADERS"),
                Phase::Trailers => unexpected("DATA behind the trailer section"),
                Phase::Body => {
                    stream.count(length, false)?;
                    if length == 0 {
                        self.charge(Kind::Empty, now)?;
                    }
                    Ok(Payload::Data)
                }
            },
            kind::HEADERS => {
                match stream.phase {
                    Phase::Trailers => return unexpected("HEADERS behind the trailer section"),
                    Phase::Body if stream.connect => return unexpected("HEADERS on a stream of CONNECT"),
                    _ => {}
                }
                if length <= u64::from(self.limits.block_bytes_max) {
                    return Ok(Payload::Block);
                }
                if self.decoder.is_dynamic() {
                    // Its references to the table would stay unacknowledged.
                    let text = "a field section is too long";
                    return Err(Fault::Connection(Code::EXCESSIVE_LOAD, text));
                }
                Ok(Payload::TooLong)
            }
            kind::PUSH_PROMISE if self.role == Role::Client => {
                let text = "PUSH_PROMISE, though no push is permitted";
                Err(Fault::Connection(Code::ID_ERROR, text))
            }
            kind::PUSH_PROMISE => unexpected("PUSH_PROMISE from a client"),
            kind::CANCEL_PUSH
            | kind::SETTINGS
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE
            | kind::PRIORITY_UPDATE_PUSH => {
                unexpected("a frame of the control stream is on a request stream")
            }
            kind if kind::is_of_http2(kind) => unexpected("a frame that only HTTP/2 has"),
            _ => {
                if core::mem::replace(&mut stream.greased, true) {
                    self.charge(Kind::Empty, now)?;
                }
                Ok(Payload::Skipped)
            }
        }
    }

    /// Bounds what all streams hold of field sections.
    pub(super) fn check_pending(&self, at: usize) -> Result<(), Fault> {
        let pending: usize = self.streams.iter().map(|stream| stream.block.len()).sum();
        if pending > self.limits.pending_bytes_max as usize {
            let text = "too many bytes of unfinished field sections";
            return Err(Fault::Stream(self.streams[at].id, Code::EXCESSIVE_LOAD, text));
        }
        Ok(())
    }

    /// The peer's half ends.
    fn finish_remote(&mut self, at: usize) -> Result<Next, Fault> {
        let stream = &mut self.streams[at];
        let id = stream.id;
        if !stream.reader.is_between() {
            let text = "a stream ends within a frame";
            return Err(Fault::Connection(Code::FRAME_ERROR, text));
        }
        if stream.phase == Phase::Head {
            return Err(match self.role {
                Role::Server => {
                    Fault::Stream(id, Code::REQUEST_INCOMPLETE, "a stream ends without a request")
                }
                Role::Client => {
                    Fault::Stream(id, Code::MESSAGE_ERROR, "a stream ends without a final response")
                }
            });
        }
        stream.count(0, true)?;
        stream.remote_end = true;
        self.close_if_done(at);
        Ok(Next::Signal(Signal::End(id)))
    }

    /// The peer has reset its half of a stream. Whether the stream was open: it is no longer.
    pub(crate) fn peer_reset(&mut self, id: u64, now: Instant) -> Result<bool, Fault> {
        if let Some(fault) = self.failed {
            return Err(fault);
        }
        let ended = match id & 2 {
            0 => self.request_reset(id, now),
            _ => self.unidirectional_reset(id).map(|()| false),
        };
        ended.inspect_err(|&fault| self.fail(fault))
    }

    fn request_reset(&mut self, id: u64, now: Instant) -> Result<bool, Fault> {
        self.charge(Kind::Reset, now)?;
        // The answer to our STOP_SENDING is no news.
        let Some(at) = self.live(id).filter(|&at| !self.streams[at].remote_end) else {
            return Ok(false);
        };
        self.streams[at].remote_end = true;
        self.decoder.cancel(id, &mut self.acknowledgments.bytes);
        self.abort(at, Code::REQUEST_CANCELLED, Code::REQUEST_CANCELLED);
        Ok(true)
    }

    /// The peer wants no more bytes on our half of a stream. Whether the stream was open and no longer is; a client goes on
    /// receiving the response (RFC 9114 section 4.1).
    pub(crate) fn peer_stopped(&mut self, id: u64, code: Code, now: Instant) -> Result<bool, Fault> {
        if let Some(fault) = self.failed {
            return Err(fault);
        }
        let ended = if id == self.control.id || id == self.acknowledgments.id {
            let text = "the peer stopped our control stream or QPACK decoder stream";
            Err(Fault::Connection(Code::CLOSED_CRITICAL_STREAM, text))
        } else {
            self.request_stopped(id, code, now)
        };
        ended.inspect_err(|&fault| self.fail(fault))
    }

    fn request_stopped(&mut self, id: u64, code: Code, now: Instant) -> Result<bool, Fault> {
        // Of a cancellation, RESET_STREAM counts; a stream that it has ended is no longer open here.
        let Some(at) = self.live(id).filter(|&at| !self.streams[at].local_end) else {
            return Ok(false);
        };
        self.charge(Kind::Reset, now)?;
        if self.role == Role::Server {
            self.abort(at, code, Code::REQUEST_CANCELLED);
            return Ok(true);
        }
        let stream = &mut self.streams[at];
        (stream.frames, stream.heads, stream.tail) = (Vec::new(), 0, Vec::new());
        (stream.body, stream.ready, stream.finished, stream.local_end) = (0, 0, false, true);
        (stream.stalled, stream.crept) = (None, 0);
        self.actions.push_back(Action::Reset(id, code));
        self.close_if_done(at);
        Ok(false)
    }
}
