//! Streaming decoders of content codings (RFC 9110 section 8.4.1, RFC 8878, RFC 7932, RFC 9659).
//!
//! The decompression itself is done by libraries. `deflate` is the zlib format; raw deflate streams are
//! accepted, as browsers do. Decoded content is limited in bytes and in its ratio to the coded bytes. Decoding
//! proceeds buffer by buffer: the first buffer that exceeds a limit is discarded, and decoding stops.

use brotli::DecompressorWriter;
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use http_semantics::coding::Coding;
use std::io::{self, Write};
use zstd::stream::raw::{self, DParameter, InBuffer, Operation, OutBuffer};

/// Buffer size of the brotli decoder, in bytes.
const BROTLI_BUFFER: usize = 4096;
/// Buffer size of the other decoders, in bytes.
const BUFFER: usize = 16 << 10;
/// Base-2 logarithm of the largest zstd window accepted (RFC 9659 section 3).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// Limits on the decoded content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Most decoded bytes.
    pub bytes_max: u64,
    /// Most decoded bytes per coded byte, beyond the first [`Growth::FREE`].
    pub ratio_max: u64,
}

impl Growth {
    /// Decoded bytes exempt from the ratio: a short page of spaces is not a decompression bomb.
    pub const FREE: u64 = 1 << 20;

    /// A ratio far above that of any text: Apache's limit for inflating (`DeflateInflateRatioLimit`).
    pub const RATIO_MAX: u64 = 200;
}

/// A streaming decoder for one content coding.
pub struct Decoder {
    kind: Kind,
    left: u64,
    /// Whether any content has arrived.
    is_begun: bool,
}

enum Kind {
    Identity(Bounded),
    Gzip(Box<MultiGzDecoder<Bounded>>),
    /// `deflate` before its first byte, which distinguishes zlib from raw deflate.
    Undecided(Bounded),
    Deflate(Box<Inflate>),
    Brotli(Box<DecompressorWriter<Bounded>>),
    Zstd(Box<Frames>),
    /// Decoding failed.
    Broken,
}

impl Kind {
    /// The output buffer; `None` after a failure.
    fn out(&mut self) -> Option<&mut Bounded> {
        match self {
            Kind::Identity(out) | Kind::Undecided(out) => Some(out),
            Kind::Gzip(decoder) => Some(decoder.get_mut()),
            Kind::Deflate(inflate) => Some(&mut inflate.out),
            Kind::Brotli(decoder) => Some(decoder.get_mut()),
            Kind::Zstd(frames) => Some(&mut frames.out),
            Kind::Broken => None,
        }
    }
}

/// An output buffer with both limits.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    /// Bytes left of the size limit.
    left: u64,
    /// Bytes left of the ratio limit.
    credit: u64,
    ratio: u64,
}

impl Bounded {
    fn new(growth: Growth) -> Bounded {
        Bounded {
            bytes: Vec::new(),
            left: growth.bytes_max,
            credit: Growth::FREE,
            ratio: growth.ratio_max,
        }
    }

    /// Raises the ratio limit for more coded bytes.
    fn earn(&mut self, coded: usize) {
        let more = (coded as u64).saturating_mul(self.ratio);
        self.credit = self.credit.saturating_add(more);
    }
}

impl Write for Bounded {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let size = data.len() as u64;
        let is_allowed = size <= self.left;
        if !is_allowed || size > self.credit {
            // Later, smaller writes must fail, too.
            (self.left, self.credit) = (0, 0);
            return Err(io::Error::other(if is_allowed {
                format!("the decoded content exceeds {} times the bytes sent", self.ratio)
            } else {
                "the content is larger than allowed".to_owned()
            }));
        }
        self.left -= size;
        self.credit -= size;
        self.bytes.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Raw deflate or zlib. Own code, because the library's writer does not report the end of the stream.
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
                let more = io::Error::other("bytes follow the end of the compressed stream");
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
            // Without progress and without input, the decoder has no output left.
            if !self.is_whole && used == data.len() && filled < piece.len() {
                return Ok(used);
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// zstd frames (RFC 8878 section 3). Own code for the same reason as [`Inflate`].
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
    /// A decoder with limits on the decoded content.
    ///
    /// # Errors
    /// If the decoder cannot be allocated.
    pub fn new(coding: Coding, growth: Growth) -> io::Result<Decoder> {
        let out = Bounded::new(growth);
        let kind = match coding {
            Coding::Identity => Kind::Identity(out),
            Coding::Gzip => Kind::Gzip(Box::new(MultiGzDecoder::new(out))),
            Coding::Deflate => Kind::Undecided(out),
            Coding::Brotli => Kind::Brotli(Box::new(DecompressorWriter::new(out, BROTLI_BUFFER))),
            Coding::Zstd => {
                let mut engine = raw::Decoder::new()?;
                engine.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
                Kind::Zstd(Box::new(Frames {
                    engine,
                    out,
                    is_whole: false,
                }))
            }
        };
        Ok(Decoder {
            kind,
            left: growth.bytes_max,
            is_begun: false,
        })
    }

    /// Decodes the next piece and returns the output available so far.
    ///
    /// # Errors
    /// If the data is not valid in the coding, or exceeds a limit.
    pub fn push(&mut self, data: &[u8]) -> io::Result<Vec<u8>> {
        if data.is_empty() {
            return Ok(Vec::new());
        }
        self.is_begun = true;
        if let Kind::Undecided(out) = &mut self.kind {
            let out = std::mem::take(out);
            // RFC 1950: the low bits of zlib's first byte are 8; a raw stream never begins with them.
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

    /// Ends the content and returns the remaining output. Empty content is complete in every coding, because
    /// servers name a coding for empty responses, too.
    ///
    /// # Errors
    /// If the end of the compressed stream is missing or its checksum does not match.
    pub fn finish(&mut self) -> io::Result<Vec<u8>> {
        if !self.is_begun {
            return Ok(Vec::new());
        }
        let short = || {
            io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the compressed content ends too early",
            )
        };
        match &mut self.kind {
            Kind::Gzip(decoder) => decoder.try_finish().map_err(|_| {
                io::Error::other("the compressed content ends too early, or its checksum is wrong")
            })?,
            Kind::Brotli(decoder) => decoder.close().map_err(|_| short())?,
            Kind::Deflate(inflate) if !inflate.is_whole => return Err(short()),
            Kind::Zstd(frames) if !frames.is_whole => return Err(short()),
            Kind::Undecided(_) | Kind::Broken => {
                return Err(io::Error::other("the content could not be decoded"));
            }
            Kind::Identity(_) | Kind::Deflate(_) | Kind::Zstd(_) => {}
        }
        let bytes = self.kind.out().map(|out| std::mem::take(&mut out.bytes));
        let bytes = bytes.unwrap_or_default();
        self.left = self.left.saturating_sub(bytes.len() as u64);
        Ok(bytes)
    }

    /// Bytes left of the size limit.
    pub fn left(&self) -> u64 {
        self.left
    }

    fn write(&mut self, data: &[u8]) -> io::Result<Vec<u8>> {
        let broken = || io::Error::other("the content could not be decoded");
        self.kind.out().ok_or_else(broken)?.earn(data.len());
        let decoder: &mut dyn Write = match &mut self.kind {
            Kind::Identity(out) => out,
            Kind::Gzip(decoder) => decoder.as_mut(),
            Kind::Deflate(inflate) => inflate.as_mut(),
            Kind::Brotli(decoder) => decoder.as_mut(),
            Kind::Zstd(frames) => frames.as_mut(),
            Kind::Undecided(_) | Kind::Broken => return Err(broken()),
        };
        decoder.write_all(data)?;
        decoder.flush()?;
        Ok(self
            .kind
            .out()
            .map(|out| std::mem::take(&mut out.bytes))
            .unwrap_or_default())
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// The content coding named by `Content-Encoding`; `None` if it is unknown or there are several.
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

    /// Every coding, and both formats of `deflate`.
    const CODINGS: [(Coding, bool); 5] = [
        (Coding::Gzip, false),
        (Coding::Deflate, false),
        (Coding::Deflate, true),
        (Coding::Brotli, false),
        (Coding::Zstd, false),
    ];

    /// A decoder for at most a megabyte of content.
    fn decoder(coding: Coding) -> Decoder {
        within(coding, 1 << 20, Growth::RATIO_MAX)
    }

    fn within(coding: Coding, bytes_max: u64, ratio_max: u64) -> Decoder {
        let growth = Growth { bytes_max, ratio_max };
        Decoder::new(coding, growth).expect("a decoder")
    }

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
        for (coding, bare) in [(Coding::Identity, false)].into_iter().chain(CODINGS) {
            let sent = encoded(coding, bare, &text);
            for size in [1, 7, 1460, sent.len()] {
                let mut decoder = decoder(coding);
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
            let mut decoder = within(coding, 100, Growth::RATIO_MAX);
            assert!(
                sent.chunks(64).any(|piece| decoder.push(piece).is_err()),
                "{coding:?} grows no further than allowed"
            );
        }
    }

    #[test]
    fn what_is_cut_short_is_not_whole() {
        let text: Vec<u8> = (0..3_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
        for (coding, bare) in CODINGS {
            let sent = encoded(coding, bare, &text);
            let whole = |sent: &[u8]| {
                let mut decoder = decoder(coding);
                decoder.push(sent).and_then(|_| decoder.finish())
            };
            for length in [1, 5, 7, 9, sent.len() / 2, sent.len() - 5, sent.len() - 1] {
                assert!(
                    whole(&sent[..length]).is_err(),
                    "{coding:?} {bare} cut to {length}"
                );
            }
            assert!(whole(&sent).is_ok(), "{coding:?} {bare}");
            assert!(whole(b"").is_ok(), "{coding:?} {bare}: empty content is complete");
        }
    }

    #[test]
    fn a_wrong_checksum_is_noticed() {
        let text = b"the same text twice, the same text twice";
        for (coding, from_end) in [(Coding::Gzip, 8), (Coding::Gzip, 1), (Coding::Deflate, 1)] {
            let mut sent = encoded(coding, false, text);
            let place = sent.len() - from_end;
            sent[place] ^= 1;
            let mut decoder = decoder(coding);
            let all = decoder.push(&sent).and_then(|_| decoder.finish());
            assert!(all.is_err(), "{coding:?}, byte {from_end} from the end");
        }
        let mut decoder = decoder(Coding::Gzip);
        let short = decoder.push(b"notgzip").and_then(|_| decoder.finish());
        assert!(short.is_err(), "shorter than a header");
    }

    #[test]
    fn what_is_not_of_the_coding_fails_once_and_for_all() {
        for coding in [Coding::Gzip, Coding::Zstd, Coding::Deflate] {
            let mut decoder = decoder(coding);
            assert!(decoder.push(&[0xff; 64]).is_err(), "{coding:?}");
            assert!(decoder.push(b"more").is_err());
        }
    }

    /// Decodes until refused; returns the number of decoded bytes, the reason, and the number of coded bytes
    /// used.
    fn refused(mut decoder: Decoder, sent: &[u8], size: usize) -> (u64, String, usize) {
        let mut out = 0;
        for (place, piece) in sent.chunks(size).enumerate() {
            match decoder.push(piece) {
                Ok(bytes) => out += bytes.len() as u64,
                Err(error) => {
                    // Nothing is left to decode, and dropping the decoder decodes no more.
                    assert!(decoder.push(b"x").is_err() && decoder.finish().is_err());
                    return (out, error.to_string(), place * size);
                }
            }
        }
        panic!("never refused: {out} bytes of {}", sent.len())
    }

    #[test]
    fn a_bomb_is_refused_when_it_passes_the_bound() {
        let blanks = vec![b' '; 4 << 20];
        for (coding, bare) in CODINGS {
            let sent = encoded(coding, bare, &blanks);
            assert!(
                sent.len() < blanks.len() / 900,
                "{coding:?} {bare}: {}",
                sent.len()
            );
            for size in [1, 100, sent.len()] {
                // By ratio: the exempt bytes plus the ratio's share, and no byte more.
                let (out, why, used) = refused(within(coding, u64::MAX, 200), &sent, size);
                assert!(why.contains("200 times"), "{coding:?} {bare} {size}: {why}");
                assert!(
                    out <= Growth::FREE + 200 * used as u64,
                    "{coding:?} {bare} {size}: {out}"
                );
                // By size, regardless of the ratio.
                let (out, why, _) = refused(within(coding, 2 << 20, u64::MAX), &sent, size);
                assert!(
                    why.contains("larger than allowed"),
                    "{coding:?} {bare} {size}: {why}"
                );
                assert!(out <= 2 << 20, "{coding:?} {bare} {size}: {out}");
            }
        }
    }

    #[test]
    fn what_is_short_may_grow_whatever_the_ratio() {
        for (coding, bare) in CODINGS {
            // A megabyte of spaces in a kilobyte.
            let blanks = vec![b' '; Growth::FREE as usize];
            let sent = encoded(coding, bare, &blanks);
            let mut decoder = within(coding, u64::MAX, 1);
            let mut got = decoder.push(&sent).expect("it is free");
            got.extend(decoder.finish().expect("whole"));
            assert_eq!(got.len(), blanks.len(), "{coding:?} {bare}");
        }
    }

    #[test]
    fn a_window_that_a_client_need_not_have_is_refused() {
        for (log, is_fine) in [(ZSTD_WINDOW_LOG_MAX, true), (ZSTD_WINDOW_LOG_MAX + 1, false)] {
            let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).expect("memory");
            encoder.window_log(log).expect("a window");
            encoder.write_all(b"a short text").expect("memory");
            // Flushing keeps the size out of the frame header.
            encoder.flush().expect("memory");
            let sent = encoder.finish().expect("memory");
            assert_eq!(decoder(Coding::Zstd).push(&sent).is_ok(), is_fine, "{log}");
        }
    }
}
