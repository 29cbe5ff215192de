//! Decodes and encodes bodies of known framing (RFC 9112 sections 6 and 7).
//!
//! The decoder returns slices of the caller's input and copies nothing. It checks every byte of framing, both
//! bytes of each CRLF included: with an unchecked byte, two parsers could disagree about where the next chunk
//! begins.
//!
//! ```text
//!   chunked ─▶ Size ──── CR ────▶ SizeLf ── LF, size = 0 ──▶ Trailer ── empty line ──▶ end
//!            ▲ │  ▲ digit│          ▲ │
//!            │ │  └──────┘       CR │ │ LF, size > 0
//!            │ ├── ; ──▶ Extension ─┘ ▼
//!            │ └ SP ─▶ Padding ─ ; ─▶ Extension
//!            │                        Data
//!            │                        │ left = 0
//!            │                        ▼
//!            └─ LF ── DataLf ◀─ CR ─ DataCr
//! ```

use crate::error::{Fault, Misuse};
use crate::framing::Framing;
use crate::limits::Limits;
use crate::response;
use crate::scan::{Found, Scan, Section};
use crate::slots::Slots;
use http_semantics::field::{Fields, Line, MAX_LINES, is_token_byte};

/// What slots hold before trailers are parsed.
static NO_LINES: [Line<'static>; MAX_LINES] = [httparse::EMPTY_HEADER; MAX_LINES];

/// Decoder state of a body; 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoder {
    /// A body of known length; `left` bytes remain.
    Length {
        /// Remaining bytes.
        left: u64,
    },
    /// The body continues until the connection ends.
    UntilClose,
    /// A chunked body.
    Chunked(Chunk),
}

/// Position in a chunked body. `spent` counts the bytes of chunk extensions so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// In the digits of a size.
    Size {
        /// Value so far.
        size: u64,
        /// Digits so far.
        digits: u8,
        /// Extension bytes of the whole body so far.
        spent: u32,
    },
    /// In the white space after a size; only an extension may follow.
    Padding {
        /// Size of this chunk.
        size: u64,
        /// Extension bytes of the whole body so far.
        spent: u32,
    },
    /// In the extensions, which are validated and skipped.
    Extension {
        /// Size of this chunk.
        size: u64,
        /// Extension bytes of the whole body so far.
        spent: u32,
        /// Position in the extensions.
        part: Part,
    },
    /// Before the LF that ends a size line.
    SizeLf {
        /// Size of this chunk.
        size: u64,
        /// Extension bytes of the whole body so far.
        spent: u32,
    },
    /// In the data; `left` is never zero.
    Data {
        /// Remaining bytes of this chunk.
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
    /// In the trailer section, scanned up to this point.
    Trailer(Scan),
}

/// Position in chunk extensions (RFC 9112 section 7.1.1).
///
/// ```text
///   ; ─▶ Start ─▶ Name ─ BWS ─▶ Named      " ─▶ Quoted ◀▶ Escaped
///          ▲       ▲ │ │          │          ▲     │ "
///          └─ BWS ─┘ │ └── = ──▶ Value ──────┘     ▼
///                    │             └──▶ Token    Closed
///   a CR may follow Name, Token and Closed; a semicolon also Named and Done (BWS after a value)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// After a semicolon.
    Start,
    /// In a name.
    Name,
    /// In white space after a name.
    Named,
    /// After an equals sign.
    Value,
    /// In a value that is a token.
    Token,
    /// In a quoted string.
    Quoted,
    /// After a backslash in a quoted string.
    Escaped,
    /// After the closing quote of a string.
    Closed,
    /// In white space after a value.
    Done,
}

impl Part {
    /// The state after this byte; `None` if the byte is invalid here.
    fn after(self, b: u8) -> Option<Part> {
        let is_space = b == b' ' || b == b'\t';
        let is_text = is_space || (b > b' ' && b != 0x7f);
        Some(match (self, b) {
            (Part::Start | Part::Value, _) if is_space => self,
            (Part::Start | Part::Name, _) if is_token_byte(b) => Part::Name,
            (Part::Name | Part::Named, _) if is_space => Part::Named,
            (Part::Name | Part::Named, b'=') => Part::Value,
            (Part::Value, b'"') => Part::Quoted,
            (Part::Value | Part::Token, _) if is_token_byte(b) => Part::Token,
            (Part::Quoted, b'"') => Part::Closed,
            (Part::Quoted, b'\\') => Part::Escaped,
            (Part::Quoted | Part::Escaped, _) if is_text => Part::Quoted,
            (Part::Token | Part::Closed | Part::Done, _) if is_space => Part::Done,
            (Part::Name | Part::Named | Part::Token | Part::Closed | Part::Done, b';') => Part::Start,
            _ => return None,
        })
    }

    /// Whether the line may end here.
    fn may_end(self) -> bool {
        matches!(self, Part::Name | Part::Token | Part::Closed)
    }
}

/// Result of one decoding step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece<'b, 's> {
    /// `used` bytes were framing; the rest cannot be decoded without more input.
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
    /// The decoder for a framing; `None` without a body.
    #[inline]
    pub(crate) fn new(framing: Framing) -> Option<Decoder> {
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

    /// Decodes the next piece from the front of `input`. Call again with the input after `used` bytes until
    /// the result is [`Piece::Partial`] or [`Piece::End`].
    ///
    /// # Errors
    /// The peer's fault; do not use the decoder again.
    #[inline]
    pub(crate) fn decode<'b, 's>(
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

    /// Announced content still to come, in bytes: of the whole body, or of the current chunk once its size
    /// line is complete.
    #[inline]
    pub(crate) fn announced(&self) -> u64 {
        match *self {
            Decoder::Length { left } | Decoder::Chunked(Chunk::Data { left, .. }) => left,
            Decoder::Chunked(_) | Decoder::UntilClose => 0,
        }
    }

    /// Content that comes next without framing in between, in bytes: the rest of a body of known length.
    #[inline]
    pub(crate) fn ahead(&self) -> u64 {
        match *self {
            Decoder::Length { left } => left,
            Decoder::Chunked(_) | Decoder::UntilClose => 0,
        }
    }

    /// Counts this many of those bytes as received. Returns false and changes nothing if fewer are ahead.
    #[inline]
    pub(crate) fn pass(&mut self, bytes: u64) -> bool {
        match self {
            Decoder::Length { left } if *left >= bytes => {
                *left -= bytes;
                true
            }
            _ => false,
        }
    }

    /// Whether the body is complete if the connection ends here.
    #[inline]
    pub(crate) fn may_end(&self) -> bool {
        matches!(self, Decoder::UntilClose | Decoder::Length { left: 0 })
    }
}

/// Splits at most `left` bytes off the front of `input` and subtracts them from `left`.
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
            if let Chunk::Trailer(scan) = self {
                return trailer(scan, input, used, slots, limits);
            }
            if let Chunk::Data { mut left, spent } = *self {
                let data = take(&input[used..], &mut left);
                if data.is_empty() {
                    return Ok(Piece::Partial { used });
                }
                *self = match left {
                    0 => Chunk::DataCr { spent },
                    _ => Chunk::Data { left, spent },
                };
                used += data.len();
                return Ok(Piece::Data { data, used });
            }
            if let Chunk::Extension { size, spent, part } = *self {
                let (next, skipped) = extension(&input[used..], size, spent, part, limits)?;
                *self = next;
                used += skipped;
            } else if let Some(&b) = input.get(used) {
                *self = self.byte(b, limits)?;
                used += 1;
            }
            if used == input.len() && !matches!(self, Chunk::Trailer(_)) {
                return Ok(Piece::Partial { used });
            }
        }
    }

    /// One byte of framing outside extensions and trailers.
    fn byte(self, b: u8, limits: &Limits) -> Result<Chunk, Fault> {
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
                None if b == b';' => Ok(Chunk::Extension {
                    size,
                    spent,
                    part: Part::Start,
                }),
                None if b == b' ' || b == b'\t' => Ok(Chunk::Padding { size, spent }),
                None => Err(Fault::ChunkSize),
            },
            (Chunk::Padding { size, spent }, b';') => Ok(Chunk::Extension {
                size,
                spent,
                part: Part::Start,
            }),
            (Chunk::Padding { spent, .. }, b' ' | b'\t') if spent >= limits.extension_bytes_max => {
                Err(Fault::ChunkExtensionTooLong)
            }
            (Chunk::Padding { size, spent }, b' ' | b'\t') => Ok(Chunk::Padding {
                size,
                spent: spent + 1,
            }),
            (Chunk::Padding { .. }, _) => Err(Fault::ChunkSize),
            (Chunk::SizeLf { size: 0, .. }, b'\n') => Ok(Chunk::Trailer(Scan::FRESH)),
            (Chunk::SizeLf { size, spent }, b'\n') => Ok(Chunk::Data { left: size, spent }),
            (Chunk::SizeLf { .. }, _) => Err(Fault::BareCr),
            (Chunk::DataCr { spent }, b'\r') => Ok(Chunk::DataLf { spent }),
            (Chunk::DataLf { spent }, b'\n') => Ok(Chunk::Size {
                size: 0,
                digits: 0,
                spent,
            }),
            (Chunk::DataCr { .. } | Chunk::DataLf { .. }, _) => Err(Fault::ChunkEnd),
            // `decode` handles these by the slice and never sends them here.
            (Chunk::Data { .. } | Chunk::Extension { .. } | Chunk::Trailer(_), _) => Err(Fault::ChunkSize),
        }
    }
}

/// Skips extensions up to the CR that ends their line. They have no meaning here (RFC 9112 section 7.1.1),
/// but malformed ones are rejected: a parser that reads them differently would see other chunks.
fn extension(
    input: &[u8],
    size: u64,
    spent: u32,
    mut part: Part,
    limits: &Limits,
) -> Result<(Chunk, usize), Fault> {
    let room = limits.extension_bytes_max.saturating_sub(spent) as usize;
    for (at, &b) in input.iter().enumerate() {
        // `at` is at most `room`, which was a u32.
        let spent = spent + at as u32;
        match b {
            b'\r' if part.may_end() => return Ok((Chunk::SizeLf { size, spent }, at + 1)),
            b'\r' => return Err(Fault::ChunkExtension),
            b'\n' => return Err(Fault::BareLf),
            _ if at == room => return Err(Fault::ChunkExtensionTooLong),
            _ => part = part.after(b).ok_or(Fault::ChunkExtension)?,
        }
    }
    let spent = spent + input.len() as u32;
    Ok((Chunk::Extension { size, spent, part }, input.len()))
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
            let most = usize::from(limits.fields_max).min(MAX_LINES);
            let room = slots.headers[..most].write_copy_of_slice(&NO_LINES[..most]);
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

/// Writes a body of a given framing and enforces its announced length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoder {
    /// No body may be written.
    Empty,
    /// A body of known length; `left` bytes remain.
    Length {
        /// Bytes to write.
        left: u64,
    },
    /// Each piece becomes one chunk.
    Chunked,
    /// Pieces are written unchanged; the end of the connection ends the body.
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

    /// Appends a piece of content to `out`. An empty piece writes nothing, because an empty chunk would end
    /// the body.
    ///
    /// # Errors
    /// [`Misuse::Length`] if the body would exceed its announced length; nothing is written then.
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

    /// Appends the end of the body: for a chunked body the last chunk and the trailer section.
    ///
    /// # Errors
    /// [`Misuse::Length`] if bytes are missing, or if the body has trailers but is not chunked;
    /// [`Misuse::Unwritable`] for a trailer with an invalid name or value.
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

/// Appends the line before a chunk of `len` bytes, for callers that send the data themselves.
pub fn chunk_head(len: u64, out: &mut Vec<u8>) {
    let digits = (u64::BITS - len.leading_zeros()).div_ceil(4).max(1);
    out.extend((0..digits).rev().map(|place| {
        let digit = (len >> (4 * place)) & 0xf;
        b"0123456789abcdef"[digit as usize]
    }));
    out.extend_from_slice(b"\r\n");
}

/// Decodes a chunked body with every way of splitting the input, encodes the result in chunks of another size
/// and decodes that.
///
/// # Panics
/// If splitting changes the result, or the content differs after the round trip.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    use crate::transcript::{Manner, Server};
    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let Some((&size, body)) = data.split_first() else {
        return;
    };
    let stream = [HEAD, body].concat();
    crate::cut::everywhere(&stream, crate::cut::seed_of(data), |pieces, ends| {
        let mut server = Server::new(Manner::default(), crate::cut::limits_of(size));
        pieces.iter().for_each(|piece| server.bytes(piece));
        if ends {
            server.eof();
        }
        server.events
    });

    let mut written = HEAD.to_vec();
    let mut encoder = Encoder::new(Framing::Chunked);
    for piece in body.chunks(usize::from(size) + 1) {
        encoder
            .encode(piece, &mut written)
            .expect("a chunk of any size can be written");
    }
    encoder
        .finish(&[("Size", b"known")], &mut written)
        .expect("a sound trailer can be written");
    let mut server = Server::new(Manner::default(), Limits::DEFAULT);
    server.bytes(&written);
    let mut expected = vec!["request POST / HTTP/1.1 for h chunked".to_owned()];
    if !body.is_empty() {
        expected.push(format!("body {}", crate::cut::show(body)));
    }
    expected.extend(["end", "trailer Size: \"known\"", "response"].map(str::to_owned));
    assert_eq!(server.events, expected);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_decoder_is_small() {
        assert!(size_of::<Decoder>() <= 16, "{}", size_of::<Decoder>());
    }

    #[test]
    fn a_known_length_is_kept_to() {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(Framing::Length(3));
        assert_eq!(encoder.encode(b"ab", &mut out), Ok(()));
        assert_eq!(encoder.encode(b"cd", &mut out), Err(Misuse::Length));
        assert_eq!(encoder.finish(&[], &mut out), Err(Misuse::Length));
        assert_eq!(encoder.encode(b"c", &mut out), Ok(()));
        assert_eq!(encoder.finish(&[("A", b"b")], &mut out), Err(Misuse::Length));
        assert_eq!(encoder.finish(&[], &mut out), Ok(()));
        assert_eq!(out, b"abc");
        assert_eq!(
            Encoder::new(Framing::Empty).encode(b"a", &mut out),
            Err(Misuse::Length)
        );
    }

    #[test]
    fn a_trailer_that_would_break_the_message_apart_is_not_written() {
        let mut out = b"before".to_vec();
        let outcome = Encoder::new(Framing::Chunked).finish(&[("A", b"b"), ("C", b"d\r\nE: f")], &mut out);
        assert_eq!(outcome, Err(Misuse::Unwritable));
        assert_eq!(out, b"before");
    }

    #[test]
    fn chunk_heads() {
        for (len, head) in [
            (1, "1\r\n"),
            (10, "a\r\n"),
            (16, "10\r\n"),
            (u64::MAX, "ffffffffffffffff\r\n"),
        ] {
            let mut out = Vec::new();
            chunk_head(len, &mut out);
            assert_eq!(out, head.as_bytes());
        }
    }

    #[test]
    fn every_byte_in_every_chunk_state() {
        let spent = 0;
        let states = [
            Chunk::Size {
                size: 0,
                digits: 0,
                spent,
            },
            Chunk::Size {
                size: 1,
                digits: 1,
                spent,
            },
            Chunk::Size {
                size: 1,
                digits: 16,
                spent,
            },
            Chunk::Padding { size: 1, spent },
            Chunk::Padding {
                size: 1,
                spent: Limits::DEFAULT.extension_bytes_max,
            },
            Chunk::SizeLf { size: 0, spent },
            Chunk::SizeLf { size: 1, spent },
            Chunk::DataCr { spent },
            Chunk::DataLf { spent },
        ];
        let mut shown = String::new();
        for state in states {
            shown += &format!("{state:?}\n");
            for b in [b'0', b'a', b'F', b'g', b';', b' ', b'\t', b'+', b'\r', b'\n', 0] {
                shown += &match state.byte(b, &Limits::DEFAULT) {
                    Ok(after) => format!("  {:<5} {after:?}\n", b.escape_ascii().to_string()),
                    Err(fault) => format!("  {:<5} fault {fault:?}\n", b.escape_ascii().to_string()),
                };
            }
        }
        insta::assert_snapshot!(shown);
    }

    proptest! {
        #![proptest_config(crate::cut::cases(400))]
        #[test]
        fn chunks_survive_cutting_and_rewriting(data in crate::cut::chunk_like()) {
            fuzz(&data);
        }
    }
}
