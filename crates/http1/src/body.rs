//! Bodies of known framing, taken apart and put together (RFC 9112 sections 6 and 7).
//!
//! The decoder hands out slices of the caller's input and copies nothing. Every byte of framing is
//! checked, both bytes of each CRLF included: an unchecked one lets two readers disagree about where
//! the next chunk begins.
//!
//! ```text
//!                    ┌───────────── DataLf ◀── DataCr ◀──────┐
//!                    ▼                                       │ left = 0
//!  chunked ──▶ Size ──┬──▶ SizeLf ── size > 0 ──▶ Data(left) ┘
//!              │  ▲   │       │
//!              └──┘   │       └── size = 0 ──▶ Trailer ── empty line ──▶ end
//!             digit   └ ; ▶ Extension ─ CR ─▶ SizeLf
//! ```

use crate::error::{Fault, Misuse};
use crate::field::{Fields, MAX_FIELDS, Slots};
use crate::framing::Framing;
use crate::limits::Limits;
use crate::response;
use crate::scan::{Found, Scan, Section};

/// A body under way. 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoder {
    /// `left` bytes of a known length are still to come.
    Length {
        /// Bytes to come.
        left: u64,
    },
    /// Everything is data until the connection ends.
    UntilClose,
    /// Inside a chunked body.
    Chunked(Chunk),
}

/// Where in a chunked body the input stands. `spent` counts the bytes of chunk extensions so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// In the digits of a size.
    Size {
        /// Value so far.
        size: u64,
        /// Digits so far.
        digits: u8,
        /// Extension bytes of the whole body so far.
        spent: u32,
    },
    /// In an extension, which is skipped.
    Extension {
        /// Size of this chunk.
        size: u64,
        /// Extension bytes of the whole body so far.
        spent: u32,
    },
    /// Before the LF that ends a size line.
    SizeLf {
        /// Size of this chunk.
        size: u64,
        /// Extension bytes of the whole body so far.
        spent: u32,
    },
    /// In the data.
    Data {
        /// Bytes of this chunk still to come.
        left: u64,
        /// Extension bytes of the whole body so far.
        spent: u32,
    },
    /// Before the CR that ends a chunk.
    DataCr {
        /// Extension bytes of the whole body so far.
        spent: u32,
    },
    /// Before the LF that ends a chunk.
    DataLf {
        /// Extension bytes of the whole body so far.
        spent: u32,
    },
    /// In the trailer section.
    Trailer(TrailerScan),
}

/// How far a trailer section was searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrailerScan(Scan);

/// What the decoder made of its input.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'b, 's> {
    /// `used` bytes were framing; what follows them cannot be judged without more input.
    Partial {
        /// Bytes consumed.
        used: usize,
    },
    /// A slice of content; never empty.
    Data {
        /// The content.
        data: &'b [u8],
        /// Bytes consumed, the content included.
        used: usize,
    },
    /// The body is complete.
    End {
        /// Bytes consumed.
        used: usize,
        /// The trailer section; empty unless chunked.
        trailers: Fields<'b, 's>,
    },
}

impl Decoder {
    /// The decoder for a framing; `None` where there is no body.
    #[inline]
    pub fn new(framing: Framing) -> Option<Decoder> {
        match framing {
            Framing::Empty => None,
            Framing::Length(left) => Some(Decoder::Length { left }),
            Framing::Chunked => Some(Decoder::Chunked(Chunk::Size {
                size: 0,
                digits: 0,
                spent: 0,
            })),
            Framing::UntilClose => Some(Decoder::UntilClose),
        }
    }

    /// Takes the next piece off the front of `input`. Call again with what is left after `used`
    /// bytes until the answer is [`Piece::Partial`] or [`Piece::End`].
    ///
    /// # Errors
    /// The peer's fault; the decoder must not be used again.
    #[inline]
    pub fn decode<'b, 's>(
        &mut self,
        input: &'b [u8],
        slots: &'s mut Slots<'b>,
        limits: &Limits,
    ) -> Result<Piece<'b, 's>, Fault> {
        match self {
            Decoder::Length { left: 0 } => Ok(Piece::End {
                used: 0,
                trailers: Fields::EMPTY,
            }),
            _ if input.is_empty() => Ok(Piece::Partial { used: 0 }),
            Decoder::Length { left } => {
                let data = take(input, left);
                Ok(Piece::Data {
                    data,
                    used: data.len(),
                })
            }
            Decoder::UntilClose => Ok(Piece::Data {
                data: input,
                used: input.len(),
            }),
            Decoder::Chunked(chunk) => chunk.decode(input, slots, limits),
        }
    }

    /// Whether the connection may end here without cutting the body short.
    #[inline]
    pub fn may_end(&self) -> bool {
        matches!(self, Decoder::UntilClose | Decoder::Length { left: 0 })
    }
}

/// The front of `input`, at most `left` bytes, which are subtracted.
#[inline]
fn take<'b>(input: &'b [u8], left: &mut u64) -> &'b [u8] {
    let count = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
    *left -= count as u64;
    &input[..count]
}

impl Chunk {
    fn decode<'b, 's>(
        &mut self,
        input: &'b [u8],
        slots: &'s mut Slots<'b>,
        limits: &Limits,
    ) -> Result<Piece<'b, 's>, Fault> {
        let mut used = 0;
        loop {
            if let Chunk::Trailer(TrailerScan(scan)) = self {
                return trailer(scan, input, used, slots, limits);
            }
            if let Chunk::Data { left, .. } = self
                && *left > 0
            {
                let data = take(&input[used..], left);
                return Ok(if data.is_empty() {
                    Piece::Partial { used }
                } else {
                    Piece::Data {
                        data,
                        used: used + data.len(),
                    }
                });
            }
            if let Chunk::Extension { size, spent } = *self {
                let (next, skipped) = extension(&input[used..], size, spent, limits)?;
                *self = next;
                used += skipped;
            } else if let Some(&b) = input.get(used) {
                *self = self.byte(b)?;
                used += 1;
            }
            if used == input.len() && !matches!(self, Chunk::Trailer(_)) {
                return Ok(Piece::Partial { used });
            }
        }
    }

    /// One byte of framing outside extensions and trailers.
    fn byte(self, b: u8) -> Result<Chunk, Fault> {
        match (self, b) {
            (Chunk::Size { size, digits, spent }, _) => match (b as char).to_digit(16) {
                Some(_) if digits == 16 => Err(Fault::ChunkSize),
                Some(digit) => Ok(Chunk::Size {
                    size: size << 4 | u64::from(digit),
                    digits: digits + 1,
                    spent,
                }),
                None if digits == 0 => Err(Fault::ChunkSize),
                None if b == b'\r' => Ok(Chunk::SizeLf { size, spent }),
                None if b == b';' => Ok(Chunk::Extension { size, spent }),
                None => Err(Fault::ChunkSize),
            },
            (Chunk::SizeLf { size: 0, .. }, b'\n') => Ok(Chunk::Trailer(TrailerScan::default())),
            (Chunk::SizeLf { size, spent }, b'\n') => Ok(Chunk::Data { left: size, spent }),
            (Chunk::SizeLf { .. }, _) => Err(Fault::BareCr),
            (Chunk::Data { spent, .. } | Chunk::DataCr { spent }, b'\r') => Ok(Chunk::DataLf { spent }),
            (Chunk::DataLf { spent }, b'\n') => Ok(Chunk::Size {
                size: 0,
                digits: 0,
                spent,
            }),
            (Chunk::Data { .. } | Chunk::DataCr { .. } | Chunk::DataLf { .. }, _) => Err(Fault::ChunkEnd),
            // `decode` never sends these here: extensions and trailers are read by the slice.
            (Chunk::Extension { .. } | Chunk::Trailer(_), _) => Err(Fault::ChunkSize),
        }
    }
}

/// Skips an extension up to its CR; extensions have no meaning here (RFC 9112 section 7.1.1).
fn extension(input: &[u8], size: u64, spent: u32, limits: &Limits) -> Result<(Chunk, usize), Fault> {
    let end = input
        .iter()
        .position(|&b| (b < b' ' && b != b'\t') || b == 0x7f)
        .unwrap_or(input.len());
    let room = limits.extension_bytes_max.saturating_sub(spent) as usize;
    if end > room {
        return Err(Fault::ChunkExtensionTooLong);
    }
    // `end` is at most `room`, which came from a u32.
    let spent = spent + end as u32;
    match input.get(end) {
        None => Ok((Chunk::Extension { size, spent }, end)),
        Some(b'\r') => Ok((Chunk::SizeLf { size, spent }, end + 1)),
        Some(b'\n') => Err(Fault::BareLf),
        Some(_) => Err(Fault::ChunkExtension),
    }
}

fn trailer<'b, 's>(
    scan: &mut Scan,
    input: &'b [u8],
    used: usize,
    slots: &'s mut Slots<'b>,
    limits: &Limits,
) -> Result<Piece<'b, 's>, Fault> {
    let section = &input[used..];
    match scan.advance(section, Section::Trailer, limits)? {
        Found::Partial | Found::Simple(_) => Ok(Piece::Partial { used }),
        Found::Complete(2) => Ok(Piece::End {
            used: used + 2,
            trailers: Fields::EMPTY,
        }),
        Found::Complete(end) => {
            let room = slots
                .headers
                .write_copy_of_slice(&[httparse::EMPTY_HEADER; MAX_FIELDS]);
            match httparse::parse_headers(&section[..end], room) {
                Ok(httparse::Status::Complete((_, lines))) => Ok(Piece::End {
                    used: used + end,
                    trailers: Fields::new(lines),
                }),
                Ok(httparse::Status::Partial) => Ok(Piece::Partial { used }),
                Err(error) => Err(crate::head::field_fault(error)),
            }
        }
    }
}

/// Writes a body of a given framing, and holds the caller to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoder {
    /// No body may be written.
    Empty,
    /// Exactly `left` more bytes.
    Length {
        /// Bytes to write.
        left: u64,
    },
    /// Each piece becomes a chunk.
    Chunked,
    /// Bytes as they come; the connection ends the body.
    UntilClose,
}

impl Encoder {
    /// The encoder for a framing.
    pub fn new(framing: Framing) -> Encoder {
        match framing {
            Framing::Empty => Encoder::Empty,
            Framing::Length(left) => Encoder::Length { left },
            Framing::Chunked => Encoder::Chunked,
            Framing::UntilClose => Encoder::UntilClose,
        }
    }

    /// Appends a piece of content to `out`. An empty piece writes nothing: as a chunk it would end
    /// the body.
    ///
    /// # Errors
    /// [`Misuse::Length`] if the body would get longer than announced; nothing is written then.
    pub fn encode(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Misuse> {
        if data.is_empty() {
            return Ok(());
        }
        match self {
            Encoder::Empty => return Err(Misuse::Length),
            Encoder::Length { left } => {
                *left = left.checked_sub(data.len() as u64).ok_or(Misuse::Length)?;
                out.extend_from_slice(data);
            }
            Encoder::Chunked => {
                chunk_head(data.len() as u64, out);
                out.extend_from_slice(data);
                out.extend_from_slice(b"\r\n");
            }
            Encoder::UntilClose => out.extend_from_slice(data),
        }
        Ok(())
    }

    /// Appends what ends the body: for chunks the last chunk and the trailer section.
    ///
    /// # Errors
    /// [`Misuse::Length`] if bytes are missing, or trailers were given to a body that is not
    /// chunked; [`Misuse::Unwritable`] for a trailer that would break the message apart.
    pub fn finish(self, trailers: &[(&str, &[u8])], out: &mut Vec<u8>) -> Result<(), Misuse> {
        match self {
            Encoder::Chunked => {
                let start = out.len();
                out.extend_from_slice(b"0\r\n");
                for (name, value) in trailers {
                    if let Err(misuse) = response::field(out, name, value) {
                        out.truncate(start);
                        return Err(misuse);
                    }
                }
                out.extend_from_slice(b"\r\n");
                Ok(())
            }
            Encoder::Empty | Encoder::Length { left: 0 } | Encoder::UntilClose if trailers.is_empty() => {
                Ok(())
            }
            _ => Err(Misuse::Length),
        }
    }
}

/// Appends the line before a chunk of `len` bytes; for bodies whose bytes do not pass through here.
pub fn chunk_head(len: u64, out: &mut Vec<u8>) {
    let digits = (u64::BITS - len.leading_zeros()).div_ceil(4).max(1);
    out.extend((0..digits).rev().map(|place| {
        let digit = (len >> (4 * place)) & 0xf;
        b"0123456789abcdef"[digit as usize]
    }));
    out.extend_from_slice(b"\r\n");
}
