//! One direction's bytes as HTTP/2 frames: incremental, for an observer that may miss bytes.
//!
//! Layout and size rules are those of the crate `http2`. Content of DATA is counted and never kept, so bytes that the
//! capture lacks do no harm there. Every other frame of interest is collected whole, up to [`PAYLOAD_MAX`].

use super::{Cause, Stamp};
use http2::frame::{Frame, HEADER, Header, Prelude, SIZE_MAX, flag, kind, parse, prelude};
use units::Instant;

/// Limit on the payload of a collected frame in bytes. A larger one is skipped; if it holds a part of a field block,
/// decoding stops.
const PAYLOAD_MAX: u32 = 64 << 10;
/// Capacity of the buffer that is kept between frames, in bytes.
const KEPT: usize = 1 << 10;

/// ```text
///   Front --DATA--> Content --all bytes--> Rest(padding) --> Front
///      |--frame of interest--> Payload --> Front
///      \--other frame--> Rest --> Front
/// ```
#[derive(Clone, Copy, Debug)]
enum State {
    /// In a frame header, or the padding length behind it.
    Front,
    Content {
        left: u32,
        padding: u8,
        data: Data,
    },
    Payload(Header),
    /// Skips `left` bytes, the last ones of `data` or of a frame of no interest.
    Rest {
        left: u32,
        data: Option<Data>,
    },
}

/// A DATA frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub(super) stream: u32,
    /// Bytes that count for flow control: the whole payload (RFC 9113, section 6.9.1).
    pub(super) length: u32,
    /// Whether it has END_STREAM.
    pub(super) ends: bool,
}

/// What a reader finds.
#[derive(Debug)]
pub(super) enum Item<'b> {
    /// Captured or missing bytes of a stream's content.
    Content { stream: u32, bytes: u32 },
    /// A DATA frame is complete.
    Data(Data),
    /// A whole frame of another type.
    Frame(Header, Frame<'b>),
}

/// Takes an item, and when the first byte of its frame came.
pub(super) type Take<'t> = dyn FnMut(Item<'_>, Stamp) -> Result<(), Cause> + 't;

/// A reader at the start of a frame.
#[derive(Debug)]
pub(super) struct Reader {
    state: State,
    buffer: Vec<u8>,
    /// Whether no frame has come: the first one must be SETTINGS (RFC 9113, section 3.4). A server that does not speak
    /// HTTP/2 answers the preface with something else.
    is_fresh: bool,
    /// When the first byte of the current frame came.
    begun: Stamp,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader {
            state: State::Front,
            buffer: Vec::new(),
            is_fresh: true,
            begun: (Instant::ZERO, 0),
        }
    }
}

impl Reader {
    /// Bytes of memory held.
    pub(super) fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    /// Reads in-order bytes that came at `came`. `take` gets each item and when the first byte of its frame came.
    ///
    /// # Errors
    /// A frame breaks the rules, or `take` failed. The reader is useless from then on.
    pub(super) fn bytes(&mut self, mut input: &[u8], came: Stamp, take: &mut Take<'_>) -> Result<(), Cause> {
        loop {
            let is_stuck = input.is_empty() && !self.is_whole();
            match &mut self.state {
                State::Content { left: 0, .. } | State::Rest { left: 0, .. } => self.advance(take)?,
                _ if is_stuck => return Ok(()),
                State::Front => self.front(&mut input, came)?,
                State::Content { left, data, .. } => {
                    let bytes = (*left).min(u32::try_from(input.len()).unwrap_or(u32::MAX));
                    *left -= bytes;
                    let stream = data.stream;
                    input = &input[bytes as usize..];
                    take(Item::Content { stream, bytes }, self.begun)?;
                }
                State::Rest { left, .. } => {
                    let bytes = (*left).min(u32::try_from(input.len()).unwrap_or(u32::MAX));
                    *left -= bytes;
                    input = &input[bytes as usize..];
                }
                State::Payload(header) => {
                    let header = *header;
                    let missing = header.length as usize - self.buffer.len();
                    let (part, rest) = input.split_at(missing.min(input.len()));
                    self.buffer.extend_from_slice(part);
                    input = rest;
                    if part.len() == missing {
                        self.payload(header, take)?;
                    }
                }
            }
        }
    }

    /// Skips `n` bytes that the capture lacks.
    ///
    /// # Errors
    /// They are more than the rest of a DATA frame's content or of a skipped frame.
    pub(super) fn gap(&mut self, n: u64, take: &mut Take<'_>) -> Result<(), Cause> {
        match &mut self.state {
            State::Content { left, data, .. } if n <= u64::from(*left) => {
                *left -= n as u32;
                let (stream, bytes) = (data.stream, n as u32);
                take(Item::Content { stream, bytes }, self.begun)
            }
            State::Rest { left, .. } if n <= u64::from(*left) => {
                *left -= n as u32;
                Ok(())
            }
            _ => Err(Cause::Gap),
        }?;
        // The frame may be complete now.
        self.bytes(&[], self.begun, take)
    }

    /// Whether a frame without payload waits to be taken.
    fn is_whole(&self) -> bool {
        matches!(self.state, State::Payload(header) if header.length as usize == self.buffer.len())
    }

    /// Reads bytes of the frame header.
    fn front(&mut self, input: &mut &[u8], came: Stamp) -> Result<(), Cause> {
        if self.buffer.is_empty() {
            self.begun = came;
        }
        // A tenth byte is wanted only as the padding length of DATA.
        let wanted = if self.buffer.len() < HEADER {
            HEADER
        } else {
            HEADER + 1
        };
        let (part, rest) = input.split_at((wanted - self.buffer.len()).min(input.len()));
        self.buffer.extend_from_slice(part);
        *input = rest;
        if self.is_fresh && self.buffer.len() >= HEADER {
            self.is_fresh = false;
            if self.buffer[3] != kind::SETTINGS {
                return Err(Cause::Malformed);
            }
        }
        self.state = match prelude(&self.buffer, SIZE_MAX).map_err(|_| Cause::Malformed)? {
            Prelude::Partial => return Ok(()),
            Prelude::Data { header, layout, .. } => State::Content {
                left: layout.content,
                padding: layout.padding,
                data: Data {
                    stream: header.stream,
                    length: header.length,
                    ends: header.has(flag::END_STREAM),
                },
            },
            Prelude::Other(header) => {
                let has_block = matches!(
                    header.kind,
                    kind::HEADERS | kind::PUSH_PROMISE | kind::CONTINUATION
                );
                let is_wanted = has_block
                    || matches!(
                        header.kind,
                        kind::RST_STREAM
                            | kind::SETTINGS
                            | kind::GOAWAY
                            | kind::WINDOW_UPDATE
                            | kind::PRIORITY_UPDATE
                    );
                match header.length <= PAYLOAD_MAX {
                    true if is_wanted => State::Payload(header),
                    false if has_block => return Err(Cause::Memory),
                    _ => State::Rest {
                        left: header.length,
                        data: None,
                    },
                }
            }
        };
        self.buffer.clear();
        Ok(())
    }

    /// Leaves a state whose bytes have all been read.
    fn advance(&mut self, take: &mut Take<'_>) -> Result<(), Cause> {
        match self.state {
            State::Content { padding, data, .. } => {
                self.state = State::Rest {
                    left: u32::from(padding),
                    data: Some(data),
                };
                Ok(())
            }
            State::Rest { data, .. } => {
                self.state = State::Front;
                data.map_or(Ok(()), |data| take(Item::Data(data), self.begun))
            }
            State::Front | State::Payload(_) => Ok(()),
        }
    }

    fn payload(&mut self, header: Header, take: &mut Take<'_>) -> Result<(), Cause> {
        self.state = State::Front;
        let frame = parse(header, &self.buffer).map_err(|_| Cause::Malformed)?;
        take(Item::Frame(header, frame), self.begun)?;
        self.buffer.clear();
        self.buffer.shrink_to(KEPT);
        Ok(())
    }
}
