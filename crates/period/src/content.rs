//! The content study of document 003 on the Microscape site, with the encoders of today: deflate by the case of tags,
//! GIF to PNG, animated GIF to animated PNG (for MNG, which nothing reads any more), pictures of text to CSS.
//!
//! The original's pixels are lost. Lengths of the site's GIFs are the published ones, but their pixels are made up and
//! stored without LZW; so each is also written by a GIF encoder that compresses, and PNG is held against that.
//! Ratios of pictures therefore say how the formats do on such pixels, not whether the document measured well.

use crate::page::{deflated, microscape};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use load::site::microscape::{IMAGES, TagCase};
use std::io::Write;

/// What could not be read or written.
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

/// A page deflated.
#[derive(Clone, Copy, Debug)]
pub struct Deflate {
    /// How its tags are spelled.
    pub tags: TagCase,
    /// The level of zlib; 6 is the default, the document's.
    pub level: u32,
    /// Bytes before.
    pub plain: usize,
    /// Bytes after.
    pub deflated: usize,
    /// Published ratio, at the default level.
    pub published: Option<f64>,
}

impl Deflate {
    /// After over before.
    pub fn ratio(&self) -> f64 {
        self.deflated as f64 / self.plain as f64
    }
}

/// The page in both spellings at three levels.
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
                    .expect("a buffer takes everything")
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

/// A picture in several formats, in bytes.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its name.
    pub path: &'static str,
    /// As the site has it: its published length.
    pub served: usize,
    /// The same pixels as a GIF with LZW.
    pub gif: usize,
    /// The same pixels as a PNG, animated if the GIF is.
    pub png: usize,
    /// How many frames.
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
        palette: palette.ok_or_else(|| Fault("a picture has no palette".to_owned()))?,
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

/// Bits of an index into a palette of so many colors that PNG has.
fn depth(colors: usize) -> (png::BitDepth, usize) {
    match colors {
        0..=2 => (png::BitDepth::One, 1),
        3..=4 => (png::BitDepth::Two, 2),
        5..=16 => (png::BitDepth::Four, 4),
        _ => (png::BitDepth::Eight, 8),
    }
}

/// Rows of indices packed as PNG wants them.
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

/// A PNG with this filter, and with the gamma chunk of 16 bytes that the document counts.
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

/// The smaller of two: filters seldom help pictures with palettes.
fn as_png(pixels: &Pixels) -> Result<Vec<u8>, Fault> {
    let plain = as_png_filtered(pixels, png::Filter::NoFilter)?;
    let filtered = as_png_filtered(pixels, png::Filter::Adaptive)?;
    Ok(if filtered.len() < plain.len() {
        filtered
    } else {
        plain
    })
}

/// Every picture of the site in every format.
///
/// # Errors
/// A picture that an encoder or decoder refuses.
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

/// Pictures that are text on a plain ground, as text with a rule of a style sheet.
#[derive(Clone, Debug)]
pub struct Replaced {
    /// How many, each a request less.
    pub pictures: usize,
    /// Bytes of the pictures.
    pub served: usize,
    /// Bytes of markup and rules in their place.
    pub markup: usize,
    /// The same deflated with the page they are in: what the page grows by.
    pub deflated: usize,
    /// Published: bytes of the pictures, bytes in their place.
    pub published: [usize; 2],
}

/// The 23 pictures of the document's list that text can replace: all that are named in the page before those that
/// text can replace in part.
pub const REPLACED: usize = 23;

/// Replaces them: an element each where its picture was, a rule each with the picture's own width, ground and ink.
///
/// # Errors
/// A picture that the decoder refuses.
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

/// Where the element is that names a picture.
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

    /// Whatever an encoder made decodes to the pixels it was given.
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
        // About as many bytes as the document has; deflated far fewer.
        assert!((2_000..4_500).contains(&replaced.markup), "{replaced:?}");
        assert!(replaced.deflated < replaced.markup / 2, "{replaced:?}");
    }
}
