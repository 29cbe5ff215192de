//! Content codings undone while the content arrives (RFC 9110 section 8.4.1, RFC 8878, RFC 7932).
//!
//! Decoding is the crates' work. `deflate` is the zlib format; servers that send the bare one are understood,
//! as browsers understand them. Refuses to hold more than it was allowed: what a short body grows to is bounded.

use brotli::DecompressorWriter;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http1::coding::Coding;
use std::io::{self, Write};

/// Bytes of the buffer in which brotli decodes.
const BROTLI_BUFFER: usize = 4096;

/// Undoes one coding.
pub struct Decoder {
    kind: Kind,
    left: u64,
}

enum Kind {
    Identity(Bounded),
    Gzip(Box<MultiGzDecoder<Bounded>>),
    /// The first byte says which of two formats it is.
    Undecided(Bounded),
    Zlib(Box<ZlibDecoder<Bounded>>),
    Bare(Box<DeflateDecoder<Bounded>>),
    Brotli(Box<DecompressorWriter<Bounded>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Bounded>>),
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
            Coding::Zstd => Kind::Zstd(Box::new(zstd::stream::write::Decoder::new(out)?)),
        };
        Ok(Decoder { kind, left: most })
    }

    /// Takes the next piece and returns what it decodes to, as far as that is known.
    ///
    /// # Errors
    /// If it is not of the coding, or grows beyond the bound.
    pub fn push(&mut self, data: &[u8]) -> io::Result<Vec<u8>> {
        if data.is_empty() {
            return Ok(Vec::new());
        }
        if let Kind::Undecided(out) = &mut self.kind {
            let out = std::mem::take(out);
            // RFC 1950: the method is 8, and no bare stream begins so.
            self.kind = if data[0] & 0x0f == 8 {
                Kind::Zlib(Box::new(ZlibDecoder::new(out)))
            } else {
                Kind::Bare(Box::new(DeflateDecoder::new(out)))
            };
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
            Kind::Zlib(decoder) => through(decoder.as_mut(), data, |decoder| decoder.get_mut()),
            Kind::Bare(decoder) => through(decoder.as_mut(), data, |decoder| decoder.get_mut()),
            Kind::Brotli(decoder) => through(decoder.as_mut(), data, |decoder| decoder.get_mut()),
            Kind::Zstd(decoder) => through(decoder.as_mut(), data, |decoder| decoder.get_mut()),
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
    fn what_is_not_of_the_coding_fails_once_and_for_all() {
        for coding in [Coding::Gzip, Coding::Zstd, Coding::Deflate] {
            let mut decoder = Decoder::new(coding, 1 << 20).expect("a decoder");
            assert!(decoder.push(&[0xff; 64]).is_err(), "{coding:?}");
            assert!(decoder.push(b"more").is_err());
        }
    }
}
