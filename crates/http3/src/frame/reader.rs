//! Cuts a stream into frames as bytes arrive. Holds at most the 16 bytes of a frame's type and length.

use crate::varint;

/// What the front of the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'b> {
    /// All input was taken; more is needed.
    Partial,
    /// A frame begins.
    Frame {
        /// Type; see [`kind`](super::kind).
        kind: u64,
        /// Bytes of its payload.
        length: u64,
    },
    /// A part of the frame's payload, never empty.
    Payload(&'b [u8]),
    /// The frame ends.
    End,
}

const HEADER: usize = 2 * varint::LONGEST;

#[derive(Clone, Copy, Debug)]
enum State {
    /// The bytes of a frame's type and length that have come.
    Header([u8; HEADER], u8),
    /// Bytes of the payload that will come.
    Payload(u64),
}

/// A reader of one stream.
#[derive(Clone, Copy, Debug)]
pub struct Reader(State);

impl Default for Reader {
    fn default() -> Reader {
        Reader(State::Header([0; HEADER], 0))
    }
}

impl Reader {
    /// The next item, and how many bytes of the input it takes.
    #[inline]
    pub fn next<'b>(&mut self, input: &'b [u8]) -> (usize, Item<'b>) {
        match &mut self.0 {
            State::Payload(0) => {
                *self = Reader::default();
                (0, Item::End)
            }
            State::Payload(_) if input.is_empty() => (0, Item::Partial),
            State::Payload(left) => {
                let bytes = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= bytes as u64;
                (bytes, Item::Payload(&input[..bytes]))
            }
            State::Header(held, count) => {
                let before = usize::from(*count);
                let bytes = input.len().min(HEADER - before);
                held[before..before + bytes].copy_from_slice(&input[..bytes]);
                let all = &held[..before + bytes];
                let header = varint::read(all)
                    .and_then(|(kind, rest)| varint::read(rest).map(|(length, rest)| (kind, length, rest)));
                let Some((kind, length, rest)) = header else {
                    // Two integers never exceed the array, so all input fitted.
                    *count += bytes as u8;
                    return (bytes, Item::Partial);
                };
                let used = all.len() - rest.len() - before;
                self.0 = State::Payload(length);
                (used, Item::Frame { kind, length })
            }
        }
    }

    /// Whether the stream may end here.
    pub const fn is_between(&self) -> bool {
        matches!(self.0, State::Header(_, 0))
    }

    /// Whether the whole payload has come.
    pub(crate) const fn is_complete(&self) -> bool {
        matches!(self.0, State::Payload(0))
    }
}
