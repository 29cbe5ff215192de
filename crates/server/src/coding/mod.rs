//! Compression on first use: which codings, for which content, at which level.
//!
//! Decides whether a result is worth keeping. The compression itself is done by other crates.

use http_semantics::coding::Coding;
use std::io::{self, Write};
use units::Bytes;

/// Which content is compressed, and at which level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressConfig {
    /// Smaller content is sent uncompressed.
    pub size_min: Bytes,
    /// Larger content is sent uncompressed.
    pub size_max: Bytes,
    /// Brotli quality, 0 to 11. `None`: not used.
    pub brotli: Option<u8>,
    /// Zstandard level, 1 to 19. `None`: not used.
    pub zstd: Option<u8>,
    /// Deflate level for gzip, 1 to 9. `None`: not used.
    pub gzip: Option<u8>,
    /// Deflate level for deflate, 1 to 9. `None`: not used.
    pub deflate: Option<u8>,
    /// Maximum number of compressions at once in the process. Other responses are sent uncompressed meanwhile.
    pub concurrent_max: usize,
    /// Media types to compress besides the built-in ones, as `type/subtype` or `type/*`.
    pub also: Vec<String>,
}

impl Default for CompressConfig {
    /// A few milliseconds for a typical page, once.
    fn default() -> CompressConfig {
        CompressConfig {
            size_min: Bytes(256),
            size_max: Bytes::mib(1),
            brotli: Some(5),
            zstd: Some(9),
            gzip: Some(6),
            deflate: Some(6),
            concurrent_max: 2,
            also: Vec::new(),
        }
    }
}

impl CompressConfig {
    /// The level for this coding; `None` if it is not used.
    pub fn level(&self, coding: Coding) -> Option<u8> {
        match coding {
            Coding::Identity => None,
            Coding::Deflate => self.deflate,
            Coding::Gzip => self.gzip,
            Coding::Zstd => self.zstd,
            Coding::Brotli => self.brotli,
        }
    }

    /// The codings to compress content of this size with.
    pub(crate) fn codings(&self, size: u64) -> Vec<Coding> {
        if size < self.size_min.0 || size > self.size_max.0 {
            return Vec::new();
        }
        [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Deflate]
            .into_iter()
            .filter(|&coding| self.level(coding).is_some())
            .collect()
    }
}

/// Compresses `data`. `None` if that saves less than a sixteenth, because decoding costs the client time, and the field
/// lines cost bytes.
///
/// # Errors
/// The compressor's error, which for data in memory means a lack of memory.
pub(crate) fn compress(coding: Coding, level: u8, data: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let coded = match coding {
        Coding::Identity => return Ok(None),
        Coding::Deflate => {
            let level = flate2::Compression::new(u32::from(level.min(9)));
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(data)?;
            encoder.finish()?
        }
        Coding::Gzip => {
            let level = flate2::Compression::new(u32::from(level.min(9)));
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(data)?;
            encoder.finish()?
        }
        Coding::Zstd => zstd::bulk::compress(data, i32::from(level.min(19)))?,
        Coding::Brotli => brotli_of(data, level)?,
    };
    let worth = coded.len() + data.len() / 16 + 32 <= data.len();
    Ok(worth.then_some(coded))
}

fn brotli_of(data: &[u8], level: u8) -> io::Result<Vec<u8>> {
    let window = usize::BITS - data.len().leading_zeros();
    let params = brotli::enc::BrotliEncoderParams {
        quality: i32::from(level.min(11)),
        // No larger than the data: the window takes memory on both sides.
        lgwin: window.clamp(16, 22) as i32,
        size_hint: data.len(),
        ..Default::default()
    };
    let mut coded = Vec::new();
    brotli::BrotliCompress(&mut &data[..], &mut coded, &params)?;
    Ok(coded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::Rng as _;
    use std::io::Read;
    use units::Seed;

    fn decode(coding: Coding, coded: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            Coding::Identity => out.extend(coded),
            Coding::Deflate => drop(
                flate2::read::ZlibDecoder::new(coded)
                    .read_to_end(&mut out)
                    .unwrap(),
            ),
            Coding::Gzip => drop(flate2::read::GzDecoder::new(coded).read_to_end(&mut out).unwrap()),
            Coding::Zstd => out = zstd::decode_all(coded).unwrap(),
            Coding::Brotli => brotli::BrotliDecompress(&mut &coded[..], &mut out).unwrap(),
        }
        out
    }

    #[test]
    fn every_coding_at_every_level_comes_back_whole() {
        let text = "All work and no play makes a dull page. ".repeat(40).into_bytes();
        for coding in [Coding::Deflate, Coding::Gzip, Coding::Zstd, Coding::Brotli] {
            for level in 0..=19 {
                let coded = compress(coding, level, &text).unwrap();
                // Level 0 of deflate does not compress.
                let Some(coded) = coded else {
                    assert!(level == 0, "{coding:?} {level}");
                    continue;
                };
                assert_eq!(decode(coding, &coded), text, "{coding:?} {level}");
                assert_eq!(
                    compress(coding, level, &text).unwrap().as_deref(),
                    Some(&coded[..]),
                    "repeatable"
                );
            }
        }
    }

    #[test]
    fn noise_is_not_kept() {
        let mut noise = vec![0; 4096];
        Seed(7).rng().fill_bytes(&mut noise);
        for coding in [
            Coding::Deflate,
            Coding::Gzip,
            Coding::Zstd,
            Coding::Brotli,
            Coding::Identity,
        ] {
            assert_eq!(compress(coding, 5, &noise).unwrap(), None, "{coding:?}");
        }
    }

    #[test]
    fn sizes_and_levels_choose() {
        let config = CompressConfig {
            zstd: None,
            ..CompressConfig::default()
        };
        assert_eq!(
            config.codings(1_000),
            [Coding::Brotli, Coding::Gzip, Coding::Deflate]
        );
        assert!(config.codings(255).is_empty() && config.codings((1 << 20) + 1).is_empty());
    }
}
