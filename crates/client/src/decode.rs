//! Content codings undone while the content arrives (RFC 9110 section 8.4.1, RFC 8878, RFC 7932).
//!
//! Decoding is the crates' work. `deflate` is the zlib format; servers that send the bare one are understood,
//! as browsers understand them. Refuses to hold more than it was allowed: what a short body grows to is bounded.

use brotli::DecompressorWriter;
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use http1::coding::Coding;
use std::io::{self, Write};
use zstd::stream::raw::{self, InBuffer, Operation, OutBuffer};

/// Bytes of the buffer in which brotli decodes.
const BROTLI_BUFFER: usize = 4096;
/// And the others.
const BUFFER: usize = 16 << 10;

/// Undoes one coding.
pub struct Decoder {
    kind: Kind,
    left: u64,
    /// Whether there was any content.
    is_begun: bool,
}

enum Kind {
    Identity(Bounded),
    Gzip(Box<MultiGzDecoder<Bounded>>),
    /// The first byte says which of two formats it is.
    Undecided(Bounded),
    Deflate(Box<Inflate>),
    Brotli(Box<DecompressorWriter<Bounded>>),
    Zstd(Box<Frames>),
    /// It has failed.
    Broken,
}

/// Output up to a bound.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    left: u64,
}

impl Write for Bounded {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.left = (self.left)
            .checked_sub(data.len() as u64)
            .ok_or_else(|| io::Error::other("the content is larger than allowed"))?;
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The deflate format, in zlib's or none. By hand, because the crate's writer does not say whether the end has come.
struct Inflate {
    engine: Decompress,
    out: Bounded,
    is_whole: bool,
}

impl Inflate {
    fn new(is_zlib: bool, out: Bounded) -> Box<Inflate> {
        Box::new(Inflate {
            engine: Decompress::new(is_zlib),
            out,
            is_whole: false,
        })
    }
}

impl Write for Inflate {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut piece = [0; BUFFER];
        let mut used = 0;
        loop {
            if self.is_whole {
                let more = io::Error::other("more follows its end");
                return if used == data.len() { Ok(used) } else { Err(more) };
            }
            let (input, output) = (self.engine.total_in(), self.engine.total_out());
            let status = self
                .engine
                .decompress(&data[used..], &mut piece, FlushDecompress::None)?;
            used += (self.engine.total_in() - input) as usize;
            let filled = (self.engine.total_out() - output) as usize;
            self.out.write_all(&piece[..filled])?;
            self.is_whole = status == Status::StreamEnd;
            // What it could still write without more input it has written.
            if !self.is_whole && used == data.len() && filled < piece.len() {
                return Ok(used);
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Frames of zstd (RFC 8878 section 3). By hand for the same reason.
struct Frames {
    engine: raw::Decoder<'static>,
    out: Bounded,
    /// Whether the last frame is complete.
    is_whole: bool,
}

impl Write for Frames {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut piece = [0; BUFFER];
        let mut input = InBuffer::around(data);
        loop {
            let mut output = OutBuffer::around(&mut piece[..]);
            self.is_whole = self.engine.run(&mut input, &mut output)? == 0;
            let filled = output.pos();
            self.out.write_all(&piece[..filled])?;
            if input.pos() == data.len() && (self.is_whole || filled < piece.len()) {
                return Ok(data.len());
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Decoder {
    /// For content that may grow to `most` bytes.
    ///
    /// # Errors
    /// If the decoder cannot be made.
    pub fn new(coding: Coding, most: u64) -> io::Result<Decoder> {
        let out = Bounded {
            bytes: Vec::new(),
            left: most,
        };
        let kind = match coding {
            Coding::Identity => Kind::Identity(out),
            Coding::Gzip => Kind::Gzip(Box::new(MultiGzDecoder::new(out))),
            Coding::Deflate => Kind::Undecided(out),
            Coding::Brotli => Kind::Brotli(Box::new(DecompressorWriter::new(out, BROTLI_BUFFER))),
            Coding::Zstd => Kind::Zstd(Box::new(Frames {
                engine: raw::Decoder::new()?,
                out,
                is_whole: false,
            })),
        };
        Ok(Decoder {
            kind,
            left: most,
            is_begun: false,
        })
    }

    /// Takes the next piece and returns what it decodes to, as far as that is known.
    ///
    /// # Errors
    /// If it is not of the coding, or grows beyond the bound.
    pub fn push(&mut self, data: &[u8]) -> io::Result<Vec<u8>> {
        if data.is_empty() {
            return Ok(Vec::new());
        }
        self.is_begun = true;
        if let Kind::Undecided(out) = &mut self.kind {
            let out = std::mem::take(out);
            // RFC 1950: the method is 8, and no bare stream begins so.
            self.kind = Kind::Deflate(Inflate::new(data[0] & 0x0f == 8, out));
        }
        match self.write(data) {
            Ok(bytes) => {
                self.left = self.left.saturating_sub(bytes.len() as u64);
                Ok(bytes)
            }
            Err(error) => {
                self.kind = Kind::Broken;
                Err(error)
            }
        }
    }

    /// There is no more. Returns what was left to decode. No content at all is whole in every coding, as servers that
    /// say a coding of an empty answer mean it.
    ///
    /// # Errors
    /// If the coding's own end has not come, or its checksum says something else than what came.
    pub fn finish(&mut self) -> io::Result<Vec<u8>> {
        if !self.is_begun {
            return Ok(Vec::new());
        }
        let short = || io::Error::new(io::ErrorKind::UnexpectedEof, "it ends too early");
        let out = match &mut self.kind {
            Kind::Identity(out) => out,
            Kind::Gzip(decoder) => {
                decoder
                    .try_finish()
                    .map_err(|_| io::Error::other("it ends too early, or its checksum is wrong"))?;
                decoder.get_mut()
            }
            Kind::Deflate(inflate) if inflate.is_whole => &mut inflate.out,
            Kind::Brotli(decoder) => {
                decoder.close().map_err(|_| short())?;
                decoder.get_mut()
            }
            Kind::Zstd(frames) if frames.is_whole => &mut frames.out,
            Kind::Deflate(_) | Kind::Zstd(_) => return Err(short()),
            Kind::Undecided(_) | Kind::Broken => {
                return Err(io::Error::other("the content could not be decoded"));
            }
        };
        let bytes = std::mem::take(&mut out.bytes);
        self.left = self.left.saturating_sub(bytes.len() as u64);
        Ok(bytes)
    }

    /// How much may still come.
    pub fn left(&self) -> u64 {
        self.left
    }

    fn write(&mut self, data: &[u8]) -> io::Result<Vec<u8>> {
        fn through<W: Write>(
            decoder: &mut W,
            data: &[u8],
            out: impl FnOnce(&mut W) -> &mut Bounded,
        ) -> io::Result<Vec<u8>> {
            decoder.write_all(data)?;
            decoder.flush()?;
            Ok(std::mem::take(&mut out(decoder).bytes))
        }
        match &mut self.kind {
            Kind::Identity(out) => through(out, data, |out| out),
            Kind::Gzip(decoder) => through(decoder.as_mut(), data, |decoder| decoder.get_mut()),
            Kind::Deflate(inflate) => through(inflate.as_mut(), data, |inflate| &mut inflate.out),
            Kind::Brotli(decoder) => through(decoder.as_mut(), data, |decoder| decoder.get_mut()),
            Kind::Zstd(frames) => through(frames.as_mut(), data, |frames| &mut frames.out),
            Kind::Undecided(_) | Kind::Broken => Err(io::Error::other("the content could not be decoded")),
        }
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// The coding a `Content-Encoding` names; none if it is unknown or several.
pub fn coding_of(value: Option<&[u8]>) -> Option<Coding> {
    match value.map(<[u8]>::trim_ascii) {
        None | Some(b"") => Some(Coding::Identity),
        Some(b"x-gzip") => Some(Coding::Gzip),
        Some(name) => Coding::of(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    fn encoded(coding: Coding, bare: bool, text: &[u8]) -> Vec<u8> {
        let best = Compression::best();
        match coding {
            Coding::Identity => text.to_vec(),
            Coding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), best);
                encoder.write_all(text).expect("memory");
                encoder.finish().expect("memory")
            }
            Coding::Deflate if bare => {
                let mut encoder = DeflateEncoder::new(Vec::new(), best);
                encoder.write_all(text).expect("memory");
                encoder.finish().expect("memory")
            }
            Coding::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), best);
                encoder.write_all(text).expect("memory");
                encoder.finish().expect("memory")
            }
            Coding::Brotli => {
                let mut out = Vec::new();
                let mut writer = brotli::CompressorWriter::new(&mut out, 4096, 5, 22);
                writer.write_all(text).expect("memory");
                drop(writer);
                out
            }
            Coding::Zstd => zstd::stream::encode_all(text, 3).expect("memory"),
        }
    }

    #[test]
    fn every_coding_in_pieces_of_any_size() {
        let text: Vec<u8> = (0..20_000_u32)
            .flat_map(|n| (n / 7).to_string().into_bytes())
            .collect();
        for (coding, bare) in [
            (Coding::Identity, false),
            (Coding::Gzip, false),
            (Coding::Deflate, false),
            (Coding::Deflate, true),
            (Coding::Brotli, false),
            (Coding::Zstd, false),
        ] {
            let sent = encoded(coding, bare, &text);
            for size in [1, 7, 1460, sent.len()] {
                let mut decoder = Decoder::new(coding, 1 << 20).expect("a decoder");
                let mut got = Vec::new();
                for piece in sent.chunks(size) {
                    got.extend(decoder.push(piece).expect("sound"));
                }
                got.extend(decoder.finish().expect("whole"));
                assert!(
                    got == text,
                    "{coding:?} {bare} in pieces of {size}: {}",
                    got.len()
                );
            }
            let mut decoder = Decoder::new(coding, 100).expect("a decoder");
            assert!(
                sent.chunks(64).any(|piece| decoder.push(piece).is_err()),
                "{coding:?} grows no further than allowed"
            );
        }
    }

    #[test]
    fn what_is_cut_short_is_not_whole() {
        let text: Vec<u8> = (0..3_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
        for (coding, bare) in [
            (Coding::Gzip, false),
            (Coding::Deflate, false),
            (Coding::Deflate, true),
            (Coding::Brotli, false),
            (Coding::Zstd, false),
        ] {
            let sent = encoded(coding, bare, &text);
            let whole = |sent: &[u8]| {
                let mut decoder = Decoder::new(coding, 1 << 20).expect("a decoder");
                decoder.push(sent).and_then(|_| decoder.finish())
            };
            for length in [1, 5, 7, 9, sent.len() / 2, sent.len() - 5, sent.len() - 1] {
                assert!(
                    whole(&sent[..length]).is_err(),
                    "{coding:?} {bare} cut to {length}"
                );
            }
            assert!(whole(&sent).is_ok(), "{coding:?} {bare}");
            assert!(whole(b"").is_ok(), "{coding:?} {bare}: nothing is whole");
        }
    }

    #[test]
    fn a_wrong_checksum_is_noticed() {
        let text = b"the same text twice, the same text twice";
        for (coding, from_end) in [(Coding::Gzip, 8), (Coding::Gzip, 1), (Coding::Deflate, 1)] {
            let mut sent = encoded(coding, false, text);
            let place = sent.len() - from_end;
            sent[place] ^= 1;
            let mut decoder = Decoder::new(coding, 1 << 20).expect("a decoder");
            let all = decoder.push(&sent).and_then(|_| decoder.finish());
            assert!(all.is_err(), "{coding:?}, byte {from_end} from the end");
        }
        let mut decoder = Decoder::new(Coding::Gzip, 1 << 20).expect("a decoder");
        let short = decoder.push(b"notgzip").and_then(|_| decoder.finish());
        assert!(short.is_err(), "shorter than a header");
    }

    #[test]
    fn what_is_not_of_the_coding_fails_once_and_for_all() {
        for coding in [Coding::Gzip, Coding::Zstd, Coding::Deflate] {
            let mut decoder = Decoder::new(coding, 1 << 20).expect("a decoder");
            assert!(decoder.push(&[0xff; 64]).is_err(), "{coding:?}");
            assert!(decoder.push(b"more").is_err());
        }
    }
}
