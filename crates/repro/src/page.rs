//! The Microscape page on a server of 1997: each object with its validators, the page also deflated.
//!
//! The content comes from `load`, because the original is lost. Deflate uses today's encoder at its default
//! level, where the document used zlib 1.04: content coding `deflate`, the zlib format of RFC 1950.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use load::site::Site;
use load::site::microscape::TagCase;
use std::collections::BTreeMap;
use std::io::Write;
use units::Seed;

/// URL of the page.
pub const URL: &str = "http://www26.w3.org/";

/// An object of the site.
#[derive(Clone, Debug)]
pub struct Entity {
    /// Media type.
    pub media: &'static str,
    /// Content.
    pub body: Vec<u8>,
    /// Deflated content, if the server has it.
    pub deflated: Option<Vec<u8>>,
    /// Entity tag, with quotes.
    pub tag: String,
}

/// Objects by path.
pub type Page = BTreeMap<String, Entity>;

/// The page and its images.
pub fn microscape(tags: TagCase) -> Page {
    let site = Site::Microscape { tags, seed: Seed(1) };
    let contents = site.contents();
    (0..site.files())
        .map(|number| {
            let described = site.describe(number);
            let mut body = Vec::new();
            contents
                .write(number, &mut body)
                .expect("writing to memory cannot fail, and a test writes all sizes");
            if number == 0 {
                body = spread(&body);
            }
            let path = match number {
                0 => "/".to_owned(),
                _ => format!("/{}", described.path),
            };
            let entity = Entity {
                media: described.media_type,
                deflated: (number == 0).then(|| deflated(&body)),
                tag: format!("\"{number:03x}-{:05x}-33b1c0\"", body.len()),
                body,
            };
            (path, entity)
        })
        .collect()
}

/// Spreads the references over the page: the small images, which the site has in a bar at the top, go before
/// every second block, one each. According to the document, the first segment names too few images to fill the
/// client's buffer; with the bar at the top it would name enough.
fn spread(page: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(page);
    let is_bar = |line: &str| line.starts_with("<a href=\"/") && line.contains("<img src=");
    let mut bar = text.split_inclusive('\n').filter(|line| is_bar(line));
    let mut out = String::with_capacity(text.len());
    let mut blocks = 0;
    for line in text.split_inclusive('\n').filter(|line| !is_bar(line)) {
        if line.starts_with("<table width=\"100%\"") {
            blocks += 1;
            if blocks % 2 == 1 {
                out += bar.next().unwrap_or_default();
            }
        }
        out += line;
    }
    bar.for_each(|line| out += line);
    out.into_bytes()
}

/// Compresses in the zlib format at the default level.
pub fn deflated(body: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder
        .write_all(body)
        .and_then(|()| encoder.finish())
        .expect("writing to memory cannot fail")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_of_the_document() {
        let page = microscape(TagCase::Lower);
        assert_eq!(page.len(), 43);
        assert_eq!(page["/"].body.len(), 43_008);
        // References are evenly spread, except in the closing lines.
        let text = String::from_utf8_lossy(&page["/"].body).into_owned();
        let places: Vec<usize> = text.match_indices("<img").map(|(at, _)| at).collect();
        assert_eq!(places.len(), 42);
        for (number, at) in places.iter().enumerate() {
            assert!(at.abs_diff(number * 43_008 / 42) < 3_000, "{number}: {at}");
        }
        let pictures: usize = page.values().map(|one| one.body.len()).sum::<usize>() - 43_008;
        assert_eq!(pictures, 103_299 + 24_988);
        let deflated = page["/"].deflated.as_ref().map_or(0, Vec::len);
        // 42 KB compress to 11 KB.
        assert!((10_500..12_800).contains(&deflated), "{deflated}");
    }
}
