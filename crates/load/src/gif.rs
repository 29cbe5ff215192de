//! Valid GIF images of any length from 35 bytes, still or animated.
//!
//! LZW runs without compression, as GIF89a allows: the dictionary is cleared before the code width would grow. So every
//! pixel takes the same number of bits, and the length follows from the number of pixels. A comment extension fills
//! lengths that no number of pixels gives. The image is generated row by row while it is written, whatever its size.

use crate::chance::below;
use std::io::{self, Write};
use units::{Draw, Rng};

/// Shortest file generated here: one pixel, two colors.
pub const LEAST: u64 = 35;
/// Files shorter than this have four colors, longer ones have 128; in bytes.
const FEW_COLORS_BELOW: u64 = 1200;
/// Files shorter than this have two colors.
const TWO_COLORS_BELOW: u64 = 60;
/// Maximum data bytes in a block of a GIF.
const BLOCK: u64 = 255;

/// Layout of an image: everything that decides its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    width: u64,
    height: u64,
    frames: u64,
    /// Bits of the color table index: 1, 2 or 7.
    colors: u32,
    /// Length of the comment extension in bytes; 0 for none.
    comment: u64,
}

/// Bytes other than frames and comment: signature, screen descriptor, color table, looping extension, trailer.
const fn fixed(colors: u32, looping: u64) -> u64 {
    6 + 7 + 3 * (1 << colors) + looping + 1
}

/// Minimum LZW code size for a color table: at least 2, as the format requires.
const fn code_size(colors: u32) -> u32 {
    if colors < 2 { 2 } else { colors }
}

/// Bytes of image data for `pixels` pixels, and their length in blocks with the terminator.
const fn data(pixels: u64, code_size: u32) -> (u64, u64) {
    // A clear code precedes every group; an end code follows the data.
    let group = (1 << code_size) - 2;
    let codes = pixels + pixels.div_ceil(group) + 1;
    let bytes = (codes * (code_size as u64 + 1)).div_ceil(8);
    (bytes, bytes + bytes.div_ceil(BLOCK) + 1)
}

impl Layout {
    /// An image of `frames` frames and exactly `size` bytes; `None` if `size` is too small. Still images take any
    /// length from [`LEAST`] on, animations all except a few of the shortest.
    pub fn new(size: u64, frames: u64) -> Option<Layout> {
        let frames = frames.max(1);
        let colors = match size / frames {
            0..TWO_COLORS_BELOW => 1,
            TWO_COLORS_BELOW..FEW_COLORS_BELOW => 2,
            _ => 7,
        };
        // Possible lengths of the comment extension: 0, 3 (empty comment), or 5 and more.
        let possible = |rest: u64| rest == 0 || rest == 3 || rest >= 5;
        let length = |pixels: u64| length(pixels, frames, colors);
        if length(1) > size {
            return None;
        }
        let mut most = 1;
        let mut step = size;
        while step > 0 {
            while length(most + step) <= size {
                most += step;
            }
            step /= 2;
        }
        // Prefer an aspect ratio of about 4 to 3, then narrower ones until a comment can fill the rest.
        let wide = (((most * 4 / 3) as f64).sqrt() as u64).clamp(1, most);
        for width in (1..=wide).rev() {
            for height in [most / width, (most / width).saturating_sub(1)] {
                if height == 0 || width > 65_535 || height > 65_535 {
                    continue;
                }
                let comment = size - length(width * height);
                if possible(comment) {
                    return Some(Layout {
                        width,
                        height,
                        frames,
                        colors,
                        comment,
                    });
                }
            }
        }
        None
    }

    /// Width and height in pixels.
    pub fn dimensions(&self) -> (u64, u64) {
        (self.width, self.height)
    }

    /// Writes the image that the generator draws for this layout.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write(&self, rng: &mut Rng, out: &mut impl Write) -> io::Result<()> {
        let word = |value: u64| (value as u16).to_le_bytes();
        out.write_all(if self.frames > 1 || self.comment > 0 {
            b"GIF89a"
        } else {
            b"GIF87a"
        })?;
        out.write_all(&word(self.width))?;
        out.write_all(&word(self.height))?;
        // Global color table, 8 bits per primary color, background 0, square pixels.
        out.write_all(&[0xf0 | (self.colors - 1) as u8, 0, 0])?;
        self.palette(rng, out)?;
        if self.frames > 1 {
            out.write_all(b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00")?;
        }
        comment(self.comment, out)?;
        let waves = Waves::new(rng);
        for frame in 0..self.frames {
            if self.frames > 1 {
                // Frame delay of 12 hundredths of a second.
                out.write_all(b"\x21\xf9\x04\x04\x0c\x00\x00\x00")?;
            }
            out.write_all(&[0x2c, 0, 0, 0, 0])?;
            out.write_all(&word(self.width))?;
            out.write_all(&word(self.height))?;
            out.write_all(&[0, code_size(self.colors) as u8])?;
            self.pixels(rng, &waves, frame, out)?;
        }
        out.write_all(&[0x3b])
    }

    /// Writes a palette from dark to light, through one hue to another.
    fn palette(&self, rng: &mut Rng, out: &mut impl Write) -> io::Result<()> {
        const INKS: [[u64; 3]; 8] = [
            [18, 52, 86],
            [12, 84, 96],
            [70, 36, 92],
            [110, 40, 48],
            [30, 80, 44],
            [92, 62, 20],
            [28, 40, 110],
            [60, 60, 68],
        ];
        const PAPERS: [[u64; 3]; 6] = [
            [236, 244, 250],
            [250, 240, 222],
            [228, 246, 232],
            [248, 230, 236],
            [255, 214, 120],
            [170, 222, 236],
        ];
        let ink = INKS[below(rng, INKS.len() as u64) as usize];
        let paper = PAPERS[below(rng, PAPERS.len() as u64) as usize];
        let last = (1u64 << self.colors) - 1;
        for step in 0..=last {
            let color = [0, 1, 2].map(|i| ((ink[i] * (last - step) + paper[i] * step) / last) as u8);
            out.write_all(&color)?;
        }
        Ok(())
    }

    fn pixels(&self, rng: &mut Rng, waves: &Waves, frame: u64, out: &mut impl Write) -> io::Result<()> {
        let code_size = code_size(self.colors);
        let (clear, end) = (1u16 << code_size, (1u16 << code_size) + 1);
        let group = (1u64 << code_size) - 2;
        let shift = 8 - self.colors;
        let mut codes = Codes::new(code_size + 1, out);
        let (mut since, mut noise) = (0, 0u64);
        for y in 0..self.height {
            for x in 0..self.width {
                if since == 0 {
                    codes.put(clear)?;
                    since = group;
                }
                since -= 1;
                if x % 16 == 0 {
                    noise = rng.next_u64();
                }
                // A little noise keeps the image from compressing to nothing.
                let level = waves.at(x, y, frame) + (noise & 15);
                noise >>= 4;
                codes.put((level.min(255) >> shift) as u16)?;
            }
        }
        codes.put(end)?;
        codes.finish()
    }
}

/// Length of a file without comment.
fn length(pixels: u64, frames: u64, colors: u32) -> u64 {
    let (looping, control) = if frames > 1 { (19, 8) } else { (0, 0) };
    fixed(colors, looping) + frames * (control + 10 + 1 + data(pixels, code_size(colors)).1)
}

/// Length of the shortest image with `frames` frames.
pub fn least(frames: u64) -> u64 {
    length(1, frames.max(1), 1)
}

/// Writes a comment extension of `length` bytes: 0, 3, or 5 and more.
fn comment(length: u64, out: &mut impl Write) -> io::Result<()> {
    const TEXT: &[u8] = b"This comment makes the file as long as its model says. ";
    if length == 0 {
        return Ok(());
    }
    out.write_all(b"\x21\xfe")?;
    let mut left = length - 3;
    let mut text = TEXT.iter().copied().cycle();
    while left > 0 {
        // A block takes one byte more than it holds, so no rest of one byte may remain.
        let mut block = (left - 1).min(BLOCK);
        if left - 1 - block == 1 {
            block -= 1;
        }
        let mut bytes = vec![block as u8];
        bytes.extend(text.by_ref().take(block as usize));
        out.write_all(&bytes)?;
        left -= block + 1;
    }
    out.write_all(&[0])
}

/// Packs codes of one width into blocks.
struct Codes<'a, W> {
    width: u32,
    bits: u32,
    pending: u32,
    /// Length byte and data of the current block.
    block: Vec<u8>,
    out: &'a mut W,
}

impl<'a, W: Write> Codes<'a, W> {
    fn new(width: u32, out: &'a mut W) -> Codes<'a, W> {
        Codes {
            width,
            bits: 0,
            pending: 0,
            block: vec![0],
            out,
        }
    }

    fn put(&mut self, code: u16) -> io::Result<()> {
        self.pending |= u32::from(code) << self.bits;
        self.bits += self.width;
        while self.bits >= 8 {
            self.byte()?;
        }
        Ok(())
    }

    fn byte(&mut self) -> io::Result<()> {
        self.block.push(self.pending as u8);
        self.pending >>= 8;
        self.bits = self.bits.saturating_sub(8);
        if self.block.len() as u64 > BLOCK {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.len() > 1 {
            self.block[0] = (self.block.len() - 1) as u8;
            self.out.write_all(&self.block)?;
            self.block.truncate(1);
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        if self.bits > 0 {
            self.byte()?;
        }
        self.flush()?;
        self.out.write_all(&[0])
    }
}

/// Three triangle waves over the plane, in integers.
struct Waves {
    waves: [(i64, i64, i64, i64); 3],
}

impl Waves {
    fn new(rng: &mut Rng) -> Waves {
        let mut wave = || {
            let period = 40 + below(rng, 160) as i64;
            let slope = |rng: &mut Rng| below(rng, 9) as i64 - 4;
            let (a, b) = (slope(rng), slope(rng));
            (
                a,
                if a == 0 && b == 0 { 3 } else { b },
                below(rng, 1000) as i64,
                period * 2,
            )
        };
        Waves {
            waves: [wave(), wave(), wave()],
        }
    }

    /// Value from 0 to 240.
    fn at(&self, x: u64, y: u64, frame: u64) -> u64 {
        let height: i64 = self
            .waves
            .iter()
            .map(|&(a, b, phase, period)| {
                let at = (a * x as i64 + b * y as i64 + phase + frame as i64 * 12).rem_euclid(period * 2);
                (at - period).abs() * 80 / period
            })
            .sum();
        height.clamp(0, 240) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Seed;

    fn picture(size: u64, frames: u64) -> Vec<u8> {
        let layout = Layout::new(size, frames).unwrap_or_else(|| panic!("{size} bytes, {frames} frames"));
        let mut bytes = Vec::new();
        layout.write(&mut Seed(size).rng(), &mut bytes).unwrap();
        bytes
    }

    fn check(size: u64, frames: u64) {
        let bytes = picture(size, frames);
        assert_eq!(bytes.len() as u64, size, "{frames} frames");
        let mut options = gif::DecodeOptions::new();
        options.check_frame_consistency(true);
        options.check_lzw_end_code(true);
        let mut decoder = options
            .read_info(&bytes[..])
            .unwrap_or_else(|e| panic!("{size}: {e}"));
        let (width, height) = (decoder.width(), decoder.height());
        let mut seen = 0;
        while let Some(frame) = decoder
            .read_next_frame()
            .unwrap_or_else(|e| panic!("{size}: {e}"))
        {
            assert_eq!((frame.width, frame.height), (width, height));
            assert_eq!(frame.buffer.len(), usize::from(width) * usize::from(height));
            seen += 1;
        }
        assert_eq!(seen, frames, "{size}");
    }

    #[test]
    fn every_length_is_met_and_decodes() {
        for size in LEAST..3000 {
            check(size, 1);
        }
        for size in [5119, 10_000, 40_960, 65_537, 1_000_000, 2_345_678] {
            check(size, 1);
        }
        assert_eq!(Layout::new(LEAST - 1, 1), None);
    }

    #[test]
    fn animations_decode() {
        for frames in [2, 5, 12] {
            for size in (least(frames) + 200..least(frames) + 600).chain([11_488, 13_500]) {
                check(size, frames);
            }
            assert_eq!(Layout::new(least(frames) - 1, frames), None);
        }
    }

    /// Larger images stay near 4 to 3 and spend little on comments.
    #[test]
    fn pictures_are_pictures() {
        for size in [1000, 4000, 40_000, 400_000] {
            let layout = Layout::new(size, 1).unwrap();
            let (width, height) = layout.dimensions();
            let ratio = width as f64 / height as f64;
            assert!((1.0..1.8).contains(&ratio), "{layout:?}");
            assert!(layout.comment < size / 10, "{layout:?}");
        }
    }
}
