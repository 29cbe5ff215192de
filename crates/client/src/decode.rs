//! Content codings undone while the content arrives (RFC 9110 section 8.4.1, RFC 8878, RFC 7932, RFC 9659).
//!
//! Decoding is the crates' work. `deflate` is the zlib format; servers that send the bare one are understood,
//! as browsers understand them. Refuses to hold more than it was allowed: what a short body grows to is bounded, in
//! bytes and by how often it is longer than what came. Every coding is undone a buffer at a time, and the first
//! buffer beyond a bound is the last: it is thrown away, and no more is decoded.

use brotli::DecompressorWriter;
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use http_semantics::coding::Coding;
use std::io::{self, Write};
use zstd::stream::raw::{self, DParameter, InBuffer, Operation, OutBuffer};

/// Bytes of the buffer in which brotli decodes.
const BROTLI_BUFFER: usize = 4096;
/// And the others.
const BUFFER: usize = 16 << 10;
/// Two to this power is the largest window of zstd that is decoded: RFC 9659 section 3.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// How far content may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Decoded bytes.
    pub bytes_max: u64,
    /// Decoded bytes for each coded one, beyond the first [`Growth::FREE`].
    pub ratio_max: u64,
}

impl Growth {
    /// Decoded bytes that no ratio is asked of: a short page of blanks is no bomb.
    pub const FREE: u64 = 1 << 20;

    /// What text never comes near: the ratio at which Apache stops inflating (`DeflateInflateRatioLimit`).
    pub const RATIO_MAX: u64 = 200;
}

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

impl Kind {
    /// Where what it decodes goes.
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

/// Output up to both bounds.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    /// How much may still come whatever is sent.
    left: u64,
    /// How much may still come for what was sent.
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

    /// So many coded bytes more have come.
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
            // Nothing that is smaller passes behind it.
            (self.left, self.credit) = (0, 0);
            return Err(io::Error::other(if is_allowed {
                format!("it grows to more than {} times of what was sent", self.ratio)
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
    /// For content that may grow so far.
    ///
    /// # Errors
    /// If the decoder cannot be made.
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
        match &mut self.kind {
            Kind::Gzip(decoder) => decoder
                .try_finish()
                .map_err(|_| io::Error::other("it ends too early, or its checksum is wrong"))?,
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

    /// How much may still come.
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

    /// Every coding, and `deflate` both ways.
    const CODINGS: [(Coding, bool); 5] = [
        (Coding::Gzip, false),
        (Coding::Deflate, false),
        (Coding::Deflate, true),
        (Coding::Brotli, false),
        (Coding::Zstd, false),
    ];

    /// For content of a megabyte at most.
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

    /// What came out before it was refused, why, and after how many bytes of the coded ones.
    fn refused(mut decoder: Decoder, sent: &[u8], size: usize) -> (u64, String, usize) {
        let mut out = 0;
        for (place, piece) in sent.chunks(size).enumerate() {
            match decoder.push(piece) {
                Ok(bytes) => out += bytes.len() as u64,
                Err(error) => {
                    // Nothing is left to come, and dropping it decodes no more.
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
                // By ratio: what is free, what was earned, and not a byte more.
                let (out, why, used) = refused(within(coding, u64::MAX, 200), &sent, size);
                assert!(why.contains("200 times"), "{coding:?} {bare} {size}: {why}");
                assert!(
                    out <= Growth::FREE + 200 * used as u64,
                    "{coding:?} {bare} {size}: {out}"
                );
                // By size, whatever the ratio.
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
            // A megabyte of blanks in a kilobyte.
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
            // So that the size is not known when the head of the frame is written.
            encoder.flush().expect("memory");
            let sent = encoder.finish().expect("memory");
            assert_eq!(decoder(Coding::Zstd).push(&sent).is_ok(), is_fine, "{log}");
        }
    }
}
