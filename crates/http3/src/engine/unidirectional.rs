//! Unidirectional streams (RFC 9114 section 6.2): their types, the peer's control stream and its QPACK streams.

use super::receive::{Next, Signal, Step};
use super::{Action, EARLY_MAX, Engine, Piece, Role};
use crate::error::{Code, Fault};
use crate::flood::Kind;
use crate::frame::{self, Control, Item, Reader, Settings, kind, stream};
use crate::varint;
use http_semantics::priority::Priority;
use units::Instant;

/// A stream of ours for the connection: bytes not sent yet.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) id: u64,
    pub(super) bytes: Vec<u8>,
    /// The transport takes no more bytes.
    pub(super) is_full: bool,
}

impl Outbound {
    pub(super) const fn new(id: u64) -> Outbound {
        Outbound {
            id,
            bytes: Vec::new(),
            is_full: false,
        }
    }

    pub(super) fn may_send(&self) -> bool {
        !self.bytes.is_empty() && !self.is_full
    }

    pub(super) fn piece(&self) -> Piece<'_> {
        Piece {
            stream: self.id,
            frames: &self.bytes,
            body: 0,
            end: false,
        }
    }
}

/// A stream of the peer.
#[derive(Debug)]
pub(super) struct Inbound {
    id: u64,
    purpose: Purpose,
}

impl Inbound {
    /// Bytes of memory held beyond its own size.
    pub(super) fn memory(&self) -> usize {
        match &self.purpose {
            Purpose::Control(control) => size_of::<ControlStream>() + control.payload.capacity(),
            _ => 0,
        }
    }
}

#[derive(Debug)]
enum Purpose {
    /// The bytes of its type that have come.
    Unknown([u8; varint::LONGEST], u8),
    Control(Box<ControlStream>),
    Encoder,
    Decoder,
}

#[derive(Debug, Default)]
struct ControlStream {
    reader: Reader,
    /// Type of the frame under way, if its payload is of interest.
    kind: Option<u64>,
    payload: Vec<u8>,
    /// An unknown frame has come: honest peers send one to keep others tolerant.
    greased: bool,
}

/// Types of which the peer has opened its one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    control: bool,
    encoder: bool,
    decoder: bool,
}

fn unexpected<T>(text: &'static str) -> Result<T, Fault> {
    Err(Fault::Connection(Code::FRAME_UNEXPECTED, text))
}

fn bad_id<T>(text: &'static str) -> Result<T, Fault> {
    Err(Fault::Connection(Code::ID_ERROR, text))
}

const CLOSED: Fault = Fault::Connection(
    Code::CLOSED_CRITICAL_STREAM,
    "the peer closed its control stream or a QPACK stream",
);

impl Engine {
    pub(super) fn open_unidirectional(&mut self, id: u64, now: Instant) -> Result<(), Fault> {
        if self.unidirectional.len() >= usize::from(self.limits.unidirectional_max) {
            self.actions
                .push_back(Action::Stop(id, Code::STREAM_CREATION_ERROR));
            return self.charge(Kind::Control, now);
        }
        let purpose = Purpose::Unknown([0; varint::LONGEST], 0);
        self.unidirectional.push(Inbound { id, purpose });
        Ok(())
    }

    pub(super) fn unidirectional(&mut self, id: u64, input: &[u8], fin: bool, now: Instant) -> Step {
        let Some(at) = self.unidirectional.iter().position(|stream| stream.id == id) else {
            return Ok((input.len(), Next::Wait));
        };
        match &mut self.unidirectional[at].purpose {
            Purpose::Unknown(held, count) => {
                let before = usize::from(*count);
                let bytes = input.len().min(varint::LONGEST - before);
                held[before..before + bytes].copy_from_slice(&input[..bytes]);
                let all = &held[..before + bytes];
                let Some((kind, rest)) = varint::read(all) else {
                    *count += bytes as u8;
                    if fin {
                        // Closed before it had a type: no error (section 6.2).
                        self.unidirectional.swap_remove(at);
                    }
                    return Ok((bytes, Next::Wait));
                };
                let used = all.len() - rest.len() - before;
                self.identify(at, kind, now)?;
                Ok((used, Next::Again))
            }
            Purpose::Control(_) => self.control_stream(at, input, fin, now),
            Purpose::Encoder if input.is_empty() && fin => Err(CLOSED),
            Purpose::Decoder if input.is_empty() && fin => Err(CLOSED),
            Purpose::Encoder if !input.is_empty() => {
                let executed = self.decoder.instructions(input);
                executed.map_err(|_| {
                    let text = "an instruction of the QPACK encoder stream is not valid";
                    Fault::Connection(Code::QPACK_ENCODER_STREAM_ERROR, text)
                })?;
                Ok((input.len(), Next::Again))
            }
            Purpose::Decoder if !input.is_empty() => {
                let code = Code::QPACK_DECODER_STREAM_ERROR;
                let executed = self.feedback.instructions(input);
                executed.map_err(|text| Fault::Connection(code, text))?;
                Ok((input.len(), Next::Again))
            }
            Purpose::Encoder | Purpose::Decoder => Ok((0, Next::Wait)),
        }
    }

    /// The type of a stream is known.
    fn identify(&mut self, at: usize, kind: u64, now: Instant) -> Result<(), Fault> {
        let creation = |text| Err(Fault::Connection(Code::STREAM_CREATION_ERROR, text));
        let (slot, purpose) = match kind {
            stream::CONTROL => (&mut self.received.control, Purpose::Control(Box::default())),
            stream::QPACK_ENCODER => (&mut self.received.encoder, Purpose::Encoder),
            stream::QPACK_DECODER => (&mut self.received.decoder, Purpose::Decoder),
            stream::PUSH if self.role == Role::Server => return creation("a client opened a push stream"),
            stream::PUSH => return bad_id("a push stream, though no push is permitted"),
            _ => {
                let id = self.unidirectional.swap_remove(at).id;
                self.actions
                    .push_back(Action::Stop(id, Code::STREAM_CREATION_ERROR));
                return self.charge(Kind::Control, now);
            }
        };
        if core::mem::replace(slot, true) {
            return creation("a second control stream, or a second QPACK stream of one type");
        }
        self.unidirectional[at].purpose = purpose;
        Ok(())
    }

    pub(super) fn unidirectional_reset(&mut self, id: u64) -> Result<(), Fault> {
        let Some(at) = self.unidirectional.iter().position(|stream| stream.id == id) else {
            return Ok(());
        };
        match self.unidirectional[at].purpose {
            Purpose::Unknown(..) => {
                self.unidirectional.swap_remove(at);
                Ok(())
            }
            _ => Err(CLOSED),
        }
    }

    fn control_stream(&mut self, at: usize, input: &[u8], fin: bool, now: Instant) -> Step {
        let Purpose::Control(control) = &mut self.unidirectional[at].purpose else {
            unreachable!("the caller has seen that it is the control stream");
        };
        let (used, item) = control.reader.next(input);
        match item {
            Item::Partial if fin => return Err(CLOSED),
            Item::Partial => return Ok((used, Next::Wait)),
            Item::Frame { kind, length } => {
                let is_greasing = !control.greased;
                let kind = self.control_frame(kind, length, is_greasing, now)?;
                let Purpose::Control(control) = &mut self.unidirectional[at].purpose else {
                    unreachable!("as above");
                };
                control.greased |= kind.is_none();
                control.kind = kind;
            }
            Item::Payload(bytes) if control.kind.is_some() => control.payload.extend_from_slice(bytes),
            Item::Payload(_) => {}
            Item::End => {
                let payload = core::mem::take(&mut control.payload);
                if let Some(kind) = control.kind.take() {
                    return Ok((used, self.control_payload(kind, &payload, now)?.into()));
                }
            }
        }
        Ok((used, Next::Again))
    }

    /// Whether the frame that begins may be there; its type, if its payload is of interest. An unknown frame that
    /// `is_greasing`, the first of its stream, costs nothing.
    fn control_frame(
        &mut self,
        kind: u64,
        length: u64,
        is_greasing: bool,
        now: Instant,
    ) -> Result<Option<u64>, Fault> {
        let is_client = self.role == Role::Client;
        match (kind, self.peer) {
            (kind::SETTINGS, None) => {}
            (_, None) => {
                let text = "the first frame of the control stream is not SETTINGS";
                return Err(Fault::Connection(Code::MISSING_SETTINGS, text));
            }
            (kind::SETTINGS, Some(_)) => return unexpected("SETTINGS come a second time"),
            (kind::DATA | kind::HEADERS | kind::PUSH_PROMISE, _) => {
                return unexpected("a frame of a request is on the control stream");
            }
            (kind::MAX_PUSH_ID, _) if is_client => return unexpected("MAX_PUSH_ID from a server"),
            (kind::PRIORITY_UPDATE | kind::PRIORITY_UPDATE_PUSH, _) if is_client => {
                return unexpected("PRIORITY_UPDATE from a server");
            }
            (
                kind::GOAWAY
                | kind::MAX_PUSH_ID
                | kind::CANCEL_PUSH
                | kind::PRIORITY_UPDATE
                | kind::PRIORITY_UPDATE_PUSH,
                _,
            ) => {}
            (kind, _) if kind::is_of_http2(kind) => return unexpected("a frame that only HTTP/2 has"),
            _ => {
                if !is_greasing {
                    self.charge(Kind::Empty, now)?;
                }
                return Ok(None);
            }
        }
        if length > u64::from(self.limits.control_bytes_max) {
            let text = "a frame of the control stream is too long";
            return Err(Fault::Connection(Code::EXCESSIVE_LOAD, text));
        }
        Ok(Some(kind))
    }

    fn control_payload(&mut self, kind: u64, payload: &[u8], now: Instant) -> Result<Option<Signal>, Fault> {
        let Some(frame) = frame::control(kind, payload)? else {
            return Ok(None);
        };
        match frame {
            Control::Settings(payload) => self.peer = Some(Settings::parse(payload)?),
            Control::GoAway(first) => {
                self.charge(Kind::Control, now)?;
                if self.role == Role::Client && !first.is_multiple_of(4) {
                    return bad_id("GOAWAY names a stream that carries no request");
                }
                if self.peer_leaves.is_some_and(|before| first > before) {
                    return bad_id("a second GOAWAY names a higher stream");
                }
                self.peer_leaves = Some(first);
                return Ok(Some(Signal::GoAway(first)));
            }
            Control::MaxPushId(most) => {
                self.charge(Kind::Control, now)?;
                if self.peer_push_max.is_some_and(|before| most < before) {
                    return bad_id("a second MAX_PUSH_ID is lower");
                }
                self.peer_push_max = Some(most);
            }
            // We neither promise nor permit a push.
            Control::CancelPush(_) => return bad_id("CANCEL_PUSH names a push that was not promised"),
            Control::PriorityUpdatePush(_) => {
                return bad_id("PRIORITY_UPDATE names a push that was not promised");
            }
            Control::PriorityUpdate { stream, value } => self.priority_update(stream, value, now)?,
        }
        Ok(None)
    }

    fn priority_update(&mut self, id: u64, value: &[u8], now: Instant) -> Result<(), Fault> {
        self.charge(Kind::Priority, now)?;
        if !id.is_multiple_of(4) {
            return bad_id("PRIORITY_UPDATE names a stream that carries no request");
        }
        let priority = Priority::DEFAULT.updated(value);
        let has_head = self
            .live(id)
            .filter(|&at| self.streams[at].phase != super::stream::Phase::Head);
        if let Some(at) = has_head {
            self.streams[at].priority = priority;
        } else if id >= self.next || self.live(id).is_some() {
            // Its request will come: streams overtake each other.
            self.early.retain(|(early, _)| *early != id);
            if self.early.len() == EARLY_MAX {
                self.early.remove(0);
            }
            self.early.push((id, priority));
        }
        Ok(())
    }
}
