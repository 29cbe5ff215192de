//! From input to events: the preface, frames in any pieces, DATA and its flow control.

use super::stream::signed;
use super::{Data, Drain, Engine, Event, Role};
use crate::error::{Code, Fault};
use crate::flood::Kind;
use crate::frame::{self, Frame, HEADER, Header, PREFACE, Prelude, SIZE_MIN, flag, kind};
use http_semantics::message::{self, Control};
use units::Instant;

/// Bytes consumed from the front of the input, and what they meant.
#[derive(Debug)]
pub struct Received<'a> {
    /// Drop this many bytes; offer the rest again, extended if the event is `Partial`.
    pub used: usize,
    /// The event.
    pub event: Event<'a>,
}

/// An event without its borrowed parts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal {
    Request(u32, bool),
    Response(u32, bool, u16),
    Oversized(u32, bool),
    /// Stream, and where in the input the content lies.
    Body(u32, usize, usize),
    Trailers(u32),
    End(u32),
    Reset(u32, Code),
    GoAway(u32, Code),
}

/// One step: bytes used and the event, or `None` if more input is needed.
type Step = Option<(usize, Option<Signal>)>;

impl Engine {
    pub(crate) fn receive<'a>(
        &'a mut self,
        input: &'a [u8],
        now: Instant,
        output: &mut Vec<u8>,
    ) -> Received<'a> {
        let mut used = 0;
        let signal = loop {
            if let Some(fault) = self.failed {
                let event = Event::Closed(fault);
                return Received {
                    used: input.len(),
                    event,
                };
            }
            match self.step(&input[used..], used, now, output) {
                Ok(None) => {
                    return Received {
                        used,
                        event: Event::Partial,
                    };
                }
                Ok(Some((bytes, signal))) => {
                    used += bytes;
                    if let Some(signal) = signal {
                        break signal;
                    }
                }
                Err(fault) => self.fail(fault, output),
            }
        };
        Received {
            used,
            event: self.event(signal, input),
        }
    }

    fn event<'a>(&'a self, signal: Signal, input: &'a [u8]) -> Event<'a> {
        let fields = &self.fields;
        match signal {
            Signal::Request(stream, end) => {
                let control = self.control();
                Event::Request {
                    stream,
                    end,
                    control,
                    fields,
                }
            }
            Signal::Response(stream, end, status) => Event::Response {
                stream,
                end,
                status,
                fields,
            },
            Signal::Oversized(stream, end) => Event::Oversized { stream, end },
            Signal::Body(stream, from, to) => Event::Body {
                stream,
                bytes: &input[from..to],
            },
            Signal::Trailers(stream) => Event::Trailers { stream, fields },
            Signal::End(stream) => Event::End { stream },
            Signal::Reset(stream, code) => Event::Reset { stream, code },
            Signal::GoAway(last, code) => Event::GoAway { last, code },
        }
    }

    fn control(&self) -> Control<'_> {
        message::request(self.fields.iter()).expect("the block was checked when it was decoded")
    }

    /// Takes one step; stream errors become RST_STREAM here.
    fn step(&mut self, input: &[u8], at: usize, now: Instant, output: &mut Vec<u8>) -> Result<Step, Fault> {
        if let Some(refused) = self.refused(output) {
            return Ok(Some((0, Some(refused))));
        }
        if self.data.is_some() {
            return Ok(self.data_piece(input, at, output));
        }
        if self.role == Role::Server && usize::from(self.preface) < PREFACE.len() {
            return self.preface(input);
        }
        let (header, layout, used) = match frame::prelude(input, SIZE_MIN)? {
            Prelude::Partial => return Ok(None),
            Prelude::Data { header, layout, used } => (header, Some(layout), used),
            Prelude::Other(header) => {
                // Unknown frames are skipped like padding; all others are interpreted as a whole.
                let unknown = header.kind > kind::CONTINUATION && header.kind != kind::PRIORITY_UPDATE;
                if !unknown && input.len() < HEADER + header.length as usize {
                    self.check_order(header)?;
                    return Ok(None);
                }
                (header, None, HEADER)
            }
        };
        self.check_order(header)?;
        let (used, result) = match layout {
            Some(layout) => (used, self.data(header, layout, now)),
            None if header.kind > kind::CONTINUATION && header.kind != kind::PRIORITY_UPDATE => {
                self.charge(Kind::Empty, now)?;
                self.data = Some(Data {
                    stream: 0,
                    content: header.length,
                    padding: 0,
                    end: false,
                    skipped: true,
                });
                (used, Ok(None))
            }
            None => {
                let end = HEADER + header.length as usize;
                (end, self.frame(header, &input[HEADER..end], now, output))
            }
        };
        match result {
            Ok(signal) => Ok(Some((used, signal))),
            // RST_STREAM must not be sent on an idle stream (section 6.4).
            Err(Fault::Stream(id, code, text)) if self.is_idle(id) => Err(Fault::Connection(code, text)),
            Err(Fault::Stream(id, code, _)) => {
                let known = self
                    .live(id)
                    .is_some_and(|at| self.role == Role::Client || self.streams[at].head_received);
                self.abort(id, code, Some(now), output)?;
                Ok(Some((used, known.then_some(Signal::Reset(id, code)))))
            }
            Err(fault) => Err(fault),
        }
    }

    /// The next of our requests that the peer's GOAWAY refused.
    fn refused(&mut self, output: &mut Vec<u8>) -> Option<Signal> {
        let last = self.peer_leaves.filter(|_| self.role == Role::Client)?;
        let at = self.streams.partition_point(|stream| stream.id <= last);
        let id = self.streams[at..].iter().find(|stream| !stream.dead)?.id;
        let at = self.live(id)?;
        self.close(at, Some(0), output);
        Some(Signal::Reset(id, Code::REFUSED_STREAM))
    }

    fn preface(&mut self, input: &[u8]) -> Result<Step, Fault> {
        let expected = &PREFACE[usize::from(self.preface)..];
        let bytes = expected.len().min(input.len());
        if input[..bytes] != expected[..bytes] {
            let text = "the connection preface is not that of HTTP/2";
            return Err(Fault::Connection(Code::PROTOCOL_ERROR, text));
        }
        self.preface += bytes as u8;
        Ok((bytes == expected.len())
            .then_some((bytes, None))
            .or_else(|| (bytes > 0).then_some((bytes, None))))
    }

    /// SETTINGS come first, and nothing comes between the frames of a field block.
    fn check_order(&self, header: Header) -> Result<(), Fault> {
        let protocol = |text| Err(Fault::Connection(Code::PROTOCOL_ERROR, text));
        if !self.settings_seen && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return protocol("the first frame is not SETTINGS");
        }
        match self.block_of {
            Some((id, ..)) if header.kind != kind::CONTINUATION || header.stream != id => {
                protocol("a frame interrupts a field block")
            }
            None if header.kind == kind::CONTINUATION => protocol("CONTINUATION without a field block"),
            _ => Ok(()),
        }
    }

    fn frame(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Instant,
        output: &mut Vec<u8>,
    ) -> Result<Option<Signal>, Fault> {
        let id = header.stream;
        match frame::parse(header, payload)? {
            Frame::Headers { fragment, depends } => self.headers(header, fragment, depends, now, output),
            Frame::Continuation(fragment) => self.continuation(header, fragment, now, output),
            Frame::Priority { depends } => {
                self.charge(Kind::Priority, now)?;
                if depends == id {
                    return Err(Fault::Stream(
                        id,
                        Code::PROTOCOL_ERROR,
                        "a stream depends on itself",
                    ));
                }
                Ok(None)
            }
            Frame::Reset(code) => {
                let open = self.reset_by_peer(id, now, output)?;
                Ok(open.then_some(Signal::Reset(id, code)))
            }
            Frame::Settings(settings) => {
                self.settings_seen = true;
                self.settings(settings, now, output).map(|()| None)
            }
            Frame::SettingsAck => {
                self.charge(Kind::Settings, now)?;
                self.settings_ack();
                Ok(None)
            }
            Frame::PushPromise { .. } => {
                let text = "PUSH_PROMISE, though push is disabled";
                Err(Fault::Connection(Code::PROTOCOL_ERROR, text))
            }
            Frame::Ping(payload) => self.ping(payload, now, output).map(|()| None),
            Frame::PingAck(payload) => self.ping_ack(payload, now, output).map(|()| None),
            Frame::GoAway { last, code, .. } => {
                // A second GOAWAY may only lower the number (section 6.8).
                self.charge(Kind::Settings, now)?;
                self.peer_leaves = Some(self.peer_leaves.map_or(last, |before| before.min(last)));
                Ok(Some(Signal::GoAway(last, code)))
            }
            Frame::WindowUpdate(increment) => self.window_update(id, increment, now).map(|()| None),
            Frame::PriorityUpdate { stream, value } => {
                self.priority_update(stream, value, now).map(|()| None)
            }
            Frame::Unknown => Ok(None),
        }
    }

    /// Begins a DATA frame: all of it counts against both windows at once (section 6.9.1).
    fn data(&mut self, header: Header, layout: frame::Padded, now: Instant) -> Result<Option<Signal>, Fault> {
        let id = header.stream;
        if self.is_idle(id) {
            return Err(Fault::Connection(Code::PROTOCOL_ERROR, "DATA on an idle stream"));
        }
        let end = header.has(flag::END_STREAM);
        if layout.content == 0 && !end {
            self.charge(Kind::Empty, now)?;
        }
        let whole = signed(header.length);
        if whole > self.receive_window {
            let text = "DATA exceeds the connection's window";
            return Err(Fault::Connection(Code::FLOW_CONTROL_ERROR, text));
        }
        self.receive_window -= whole;
        let overhead = header.length - layout.content;
        self.data = Some(Data {
            stream: id,
            content: layout.content,
            padding: u32::from(layout.padding),
            end,
            skipped: true,
        });
        // The padding and its length are consumed at once.
        self.credit += overhead;
        let Some(at) = self.live(id) else {
            if matches!(self.drain, Drain::Final(last) if id > last) {
                return Ok(None);
            }
            return self.late(id).map(|()| None);
        };
        let stream = &mut self.streams[at];
        if stream.remote_end {
            return Err(Fault::Stream(id, Code::STREAM_CLOSED, "DATA behind END_STREAM"));
        }
        if !stream.head_received {
            return Err(Fault::Stream(id, Code::PROTOCOL_ERROR, "DATA before HEADERS"));
        }
        if whole > stream.receive_window {
            return Err(Fault::Stream(
                id,
                Code::FLOW_CONTROL_ERROR,
                "DATA exceeds the stream's window",
            ));
        }
        stream.receive_window -= whole;
        stream.credit += overhead;
        stream.count(layout.content, end)?;
        stream.held += layout.content;
        self.data.as_mut().expect("set above").skipped = false;
        Ok(None)
    }

    /// Continues a DATA frame, or an unknown one.
    fn data_piece(&mut self, input: &[u8], at: usize, output: &mut Vec<u8>) -> Step {
        let data = self.data.as_mut()?;
        let Data {
            stream: id, skipped, ..
        } = *data;
        if data.content > 0 {
            if input.is_empty() {
                return None;
            }
            let bytes = input.len().min(data.content as usize);
            data.content -= bytes as u32;
            // The stream may have been reset since the frame began: its bytes were returned then.
            if !skipped && self.live(id).is_some() {
                return Some((bytes, Some(Signal::Body(id, at, at + bytes))));
            }
            if skipped && id != 0 {
                self.return_credit(bytes as u32, output);
            }
            return Some((bytes, None));
        }
        if data.padding > 0 {
            if input.is_empty() {
                return None;
            }
            let bytes = input.len().min(data.padding as usize);
            data.padding -= bytes as u32;
            return Some((bytes, None));
        }
        let end = data.end && !skipped;
        self.data = None;
        self.return_credit(0, output);
        let Some(at) = self.live(id).filter(|_| end) else {
            return Some((0, None));
        };
        self.streams[at].remote_end = true;
        self.close_if_done(at, output);
        Some((0, Some(Signal::End(id))))
    }
}
