//! The content study of document 003 on the Microscape site, with today's encoders: deflate by tag case, GIF to
//! PNG, animated GIF to animated PNG (in place of MNG, which no software reads today), and images of text to
//! CSS.
//!
//! The original pixels are lost. The site's GIFs have the published lengths, but invented pixels stored without
//! LZW. Each is therefore also written by a compressing GIF encoder, against which PNG is compared. The ratios
//! show how the formats perform on these pixels; they do not verify the document's measurements.

use crate::page::{deflated, microscape};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use load::site::microscape::{IMAGES, TagCase};
use std::io::Write;

/// A file that cannot be decoded or encoded; holds the reason.
#[derive(Debug)]
pub struct Fault(String);

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Fault {}

fn fault(error: impl core::fmt::Display) -> Fault {
    Fault(error.to_string())
}

/// A page before and after deflate.
#[derive(Clone, Copy, Debug)]
pub struct Deflate {
    /// Case of the tags.
    pub tags: TagCase,
    /// zlib's level; 6 is the default and the document's.
    pub level: u32,
    /// Bytes before compression.
    pub plain: usize,
    /// Bytes after compression.
    pub deflated: usize,
    /// Published ratio, for the default level.
    pub published: Option<f64>,
}

impl Deflate {
    /// Compressed bytes divided by uncompressed bytes.
    pub fn ratio(&self) -> f64 {
        self.deflated as f64 / self.plain as f64
    }
}

/// The page with both tag cases at three levels.
pub fn tag_case() -> Vec<Deflate> {
    let mut rows = Vec::new();
    for (tags, published) in [(TagCase::Lower, 0.27), (TagCase::Mixed, 0.35)] {
        let page = microscape(tags)
            .remove("/")
            .map(|entity| entity.body)
            .unwrap_or_default();
        for level in [1, 6, 9] {
            let bytes = if level == 6 {
                deflated(&page)
            } else {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(level));
                encoder
                    .write_all(&page)
                    .and_then(|()| encoder.finish())
                    .expect("writing to memory cannot fail")
            };
            rows.push(Deflate {
                tags,
                level,
                plain: page.len(),
                deflated: bytes.len(),
                published: (level == 6).then_some(published),
            });
        }
    }
    rows
}

/// An image in several formats, sizes in bytes.
#[derive(Clone, Debug)]
pub struct Picture {
    /// File name.
    pub path: &'static str,
    /// The site's file, of published length.
    pub served: usize,
    /// The same pixels as GIF with LZW.
    pub gif: usize,
    /// The same pixels as PNG, animated if the GIF is.
    pub png: usize,
    /// Number of frames.
    pub frames: usize,
}

struct Pixels {
    width: u16,
    height: u16,
    palette: Vec<u8>,
    frames: Vec<gif::Frame<'static>>,
}

fn read(file: &[u8]) -> Result<Pixels, Fault> {
    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::Indexed);
    let mut decoder = options.read_info(file).map_err(fault)?;
    let mut frames = Vec::new();
    while let Some(frame) = decoder.read_next_frame().map_err(fault)? {
        frames.push(frame.clone());
    }
    let palette = decoder.global_palette().map(<[u8]>::to_vec);
    Ok(Pixels {
        width: decoder.width(),
        height: decoder.height(),
        palette: palette.ok_or_else(|| Fault("an image has no palette".to_owned()))?,
        frames,
    })
}

fn as_gif(pixels: &Pixels) -> Result<Vec<u8>, Fault> {
    let mut file = Vec::new();
    let mut encoder =
        gif::Encoder::new(&mut file, pixels.width, pixels.height, &pixels.palette).map_err(fault)?;
    if pixels.frames.len() > 1 {
        encoder.set_repeat(gif::Repeat::Infinite).map_err(fault)?;
    }
    for frame in &pixels.frames {
        encoder.write_frame(frame).map_err(fault)?;
    }
    drop(encoder);
    Ok(file)
}

/// Bits per palette index in PNG for this number of colors.
fn depth(colors: usize) -> (png::BitDepth, usize) {
    match colors {
        0..=2 => (png::BitDepth::One, 1),
        3..=4 => (png::BitDepth::Two, 2),
        5..=16 => (png::BitDepth::Four, 4),
        _ => (png::BitDepth::Eight, 8),
    }
}

/// Rows of indices, packed in PNG's format.
fn packed(indices: &[u8], width: usize, bits: usize) -> Vec<u8> {
    let each = 8 / bits;
    indices
        .chunks(width)
        .flat_map(|row| {
            row.chunks(each).map(move |few| {
                few.iter()
                    .enumerate()
                    .fold(0, |byte, (place, index)| byte | index << (8 - bits * (place + 1)))
            })
        })
        .collect()
}

/// A PNG with this filter, and with the 16-byte gamma chunk that the document counts.
fn as_png_filtered(pixels: &Pixels, filter: png::Filter) -> Result<Vec<u8>, Fault> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, u32::from(pixels.width), u32::from(pixels.height));
    let (depth, bits) = depth(pixels.palette.len() / 3);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(depth);
    encoder.set_palette(pixels.palette.clone());
    encoder.set_compression(png::Compression::High);
    encoder.set_filter(filter);
    encoder.set_source_gamma(png::ScaledFloat::from_scaled(45_455));
    let moves = pixels.frames.len() > 1;
    if moves {
        encoder
            .set_animated(pixels.frames.len() as u32, 0)
            .map_err(fault)?;
    }
    let mut writer = encoder.write_header().map_err(fault)?;
    for (number, frame) in pixels.frames.iter().enumerate() {
        if moves {
            writer.set_frame_delay(frame.delay, 100).map_err(fault)?;
        }
        if moves && number > 0 {
            let size = (u32::from(frame.width), u32::from(frame.height));
            writer.set_frame_dimension(size.0, size.1).map_err(fault)?;
            writer
                .set_frame_position(u32::from(frame.left), u32::from(frame.top))
                .map_err(fault)?;
        }
        let rows = packed(&frame.buffer, usize::from(frame.width), bits);
        writer.write_image_data(&rows).map_err(fault)?;
    }
    writer.finish().map_err(fault)?;
    Ok(file)
}

/// The smaller of two encodings: filters seldom help images with palettes.
fn as_png(pixels: &Pixels) -> Result<Vec<u8>, Fault> {
    let plain = as_png_filtered(pixels, png::Filter::NoFilter)?;
    let filtered = as_png_filtered(pixels, png::Filter::Adaptive)?;
    Ok(if filtered.len() < plain.len() {
        filtered
    } else {
        plain
    })
}

/// Every image of the site in every format.
///
/// # Errors
/// If an encoder or decoder refuses an image.
pub fn pictures() -> Result<Vec<Picture>, Fault> {
    let page = microscape(TagCase::Lower);
    let mut all = Vec::new();
    for image in &IMAGES {
        let Some(entity) = page.get(&format!("/{}", image.path)) else {
            return Err(Fault(format!("the site has no `{}`", image.path)));
        };
        let pixels = read(&entity.body)?;
        all.push(Picture {
            path: image.path,
            served: entity.body.len(),
            gif: as_gif(&pixels)?.len(),
            png: as_png(&pixels)?.len(),
            frames: pixels.frames.len(),
        });
    }
    Ok(all)
}

/// Images of text on a plain background, replaced by text and style rules.
#[derive(Clone, Debug)]
pub struct Replaced {
    /// Number of images, each saving a request.
    pub pictures: usize,
    /// Bytes of the images.
    pub served: usize,
    /// Bytes of the markup and rules that replace them.
    pub markup: usize,
    /// Growth of the deflated page by that markup.
    pub deflated: usize,
    /// Published: bytes of the images, bytes of their replacement.
    pub published: [usize; 2],
}

/// The 23 images in the document's list that text can replace: those the page names before the ones that text
/// can replace in part.
pub const REPLACED: usize = 23;

/// Replaces each image by an element, and adds a rule with the image's width, background and text color.
///
/// # Errors
/// If the decoder refuses an image.
pub fn replaced() -> Result<Replaced, Fault> {
    let page = microscape(TagCase::Lower);
    let html = page
        .get("/")
        .map(|entity| entity.body.clone())
        .unwrap_or_default();
    let mut text = String::from_utf8_lossy(&html).into_owned();
    let (mut served, mut markup, mut rules) = (0, 0, String::new());
    for (number, image) in IMAGES.iter().take(REPLACED).enumerate() {
        let Some(entity) = page.get(&format!("/{}", image.path)) else {
            continue;
        };
        served += entity.body.len();
        let pixels = read(&entity.body)?;
        let color = |place: usize| {
            let from = (3 * place).min(pixels.palette.len().saturating_sub(3));
            let part = |k: usize| pixels.palette.get(from + k).copied().unwrap_or(0);
            format!("#{:02x}{:02x}{:02x}", part(0), part(1), part(2))
        };
        let name = image.path.trim_end_matches(".gif");
        let rule = format!(
            "#n{number}{{width:{}px;color:{};background:{};font:bold 12px sans-serif}}\n",
            pixels.width,
            color(0),
            color(pixels.palette.len() / 3)
        );
        let element = format!("<span id=\"n{number}\">{name}</span>");
        markup += rule.len() + element.len();
        rules += &rule;
        if let Some(tag) = element_of(&text, image.path) {
            text.replace_range(tag, &element);
        }
    }
    let style = format!("<style>\n{rules}</style>\n");
    markup += style.len() - rules.len();
    let head = text.find("</head>").unwrap_or(0);
    text.insert_str(head, &style);
    Ok(Replaced {
        pictures: REPLACED,
        served,
        markup,
        deflated: deflated(text.as_bytes())
            .len()
            .saturating_sub(deflated(&html).len()),
        published: [15_157, 3_208],
    })
}

/// The byte range of the element that refers to an image.
fn element_of(html: &str, path: &str) -> Option<core::ops::Range<usize>> {
    let named = html.find(&format!("src=\"{path}\""))?;
    let from = html[..named].rfind('<')?;
    let to = named + html[named..].find('>')? + 1;
    Some(from..to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_case_deflates_better_as_the_document_says() {
        let rows = tag_case();
        for row in &rows {
            println!("{row:?} {:.3}", row.ratio());
            assert_eq!(row.plain, 43_008);
            if let Some(published) = row.published {
                assert!(
                    (row.ratio() - published).abs() < 0.03,
                    "{row:?}: {:.3}",
                    row.ratio()
                );
            }
        }
        assert!(rows[0].ratio() > rows[1].ratio() && rows[1].ratio() >= rows[2].ratio());
    }

    /// Each encoder's output decodes to the original pixels.
    #[test]
    fn pixels_survive_every_format() {
        let page = microscape(TagCase::Lower);
        for path in ["/spacer1.gif", "/about1.gif", "/anim02.gif"] {
            let pixels = read(&page[path].body).expect("a picture");
            let again = read(&as_gif(&pixels).expect("a GIF")).expect("a picture");
            assert_eq!(again.frames.len(), pixels.frames.len(), "{path}");
            for (one, other) in again.frames.iter().zip(&pixels.frames) {
                assert!(one.buffer == other.buffer, "{path}");
            }
            let file = as_png(&pixels).expect("a PNG");
            let mut decoder = png::Decoder::new(std::io::Cursor::new(&file));
            decoder.set_transformations(png::Transformations::IDENTITY);
            let mut reader = decoder.read_info().expect("a PNG");
            let bits = depth(pixels.palette.len() / 3).1;
            for frame in &pixels.frames {
                let mut rows = vec![0; reader.output_buffer_size().expect("a size")];
                let info = reader.next_frame(&mut rows).expect("a frame");
                rows.truncate(info.buffer_size());
                let want = packed(&frame.buffer, usize::from(frame.width), bits);
                assert!(rows == want, "{path}");
            }
            assert!(file.windows(4).any(|four| four == b"gAMA"));
        }
    }

    #[test]
    fn sums_of_the_site_and_of_what_replaces_it() {
        let all = pictures().expect("pictures");
        let sum = |moves: bool, of: fn(&Picture) -> usize| -> usize {
            all.iter().filter(|one| (one.frames > 1) == moves).map(of).sum()
        };
        println!(
            "still: {} served, {} GIF, {} PNG; moving: {} {} {}",
            sum(false, |one| one.served),
            sum(false, |one| one.gif),
            sum(false, |one| one.png),
            sum(true, |one| one.served),
            sum(true, |one| one.gif),
            sum(true, |one| one.png)
        );
        assert_eq!(
            (sum(false, |one| one.served), sum(true, |one| one.served)),
            (103_299, 24_988)
        );
        let replaced = replaced().expect("pictures");
        println!("{replaced:?}");
        assert_eq!(replaced.served, replaced.published[0]);
        // About as many bytes as in the document; far fewer when deflated.
        assert!((2_000..4_500).contains(&replaced.markup), "{replaced:?}");
        assert!(replaced.deflated < replaced.markup / 2, "{replaced:?}");
    }
}
