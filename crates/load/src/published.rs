//! Figures that documents 002 and 003 print about their sites, each beside the manifest's figure.
//!
//! Does not know how a site is generated: it uses the manifest and the compressed length of the page, which the caller
//! provides.

use crate::manifest::{FileEntry, Manifest};
use crate::site::microscape::TagCase;
use crate::webstone::List;
use serde::Serialize;

/// Files per requested object in document 000: connections of HTTP/1.0 over those of early close (Table 7), least and
/// most at 40, 280 and 520 users.
pub const REQUESTED_FILES_PER_OBJECT: (f64, f64) = (1.38, 1.58);

/// Bytes per GET in document 000: data bytes of HTTP/1.0 (Table 2) over its connections (Table 7), least and most at
/// 40, 280 and 520 users.
pub const REQUESTED_MEAN_BYTES: (f64, f64) = (10_461.0, 11_759.0);

/// A published figure beside the site's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name of the figure.
    pub name: String,
    /// As the document prints it.
    pub published: String,
    /// As computed from the generated site.
    pub made: String,
    /// Location in the document.
    pub source: &'static str,
    /// Whether both agree to the printed digits.
    pub holds: bool,
}

fn figure(
    name: impl Into<String>,
    published: impl Into<String>,
    made: String,
    holds: bool,
    source: &'static str,
) -> Figure {
    Figure {
        name: name.into(),
        published: published.into(),
        made,
        source,
        holds,
    }
}

/// Rows of a list: printed length, its value in bytes, weight, and printed weight.
fn rows(list: List) -> &'static [(&'static str, u64, u64, &'static str)] {
    match list {
        List::Table1 => &[
            ("500 bytes", 500, 35, "35 %"),
            ("5 Kbytes", 5 << 10, 50, "50 %"),
            ("50 Kbytes", 50 << 10, 14, "14 %"),
            ("5 Mbytes", 5 << 20, 1, "1 %"),
        ],
        List::Standard => &[
            ("500 B", 500, 350, "350 of 1000"),
            ("5125 B", 5125, 500, "500 of 1000"),
            ("51250 B", 51_250, 140, "140 of 1000"),
            ("512500 B", 512_500, 9, "9 of 1000"),
            ("5248000 B", 5_248_000, 1, "1 of 1000"),
        ],
    }
}

/// Compares a WebStone site with its list.
pub fn webstone(list: List, manifest: &Manifest) -> Vec<Figure> {
    let source = match list {
        List::Table1 => "document 002, Table 1",
        List::Standard => "WebStone 2.0, standard list (recovered)",
    };
    let rows = rows(list);
    let files = &manifest.files;
    let mut figures = vec![figure(
        "files",
        rows.len().to_string(),
        files.len().to_string(),
        files.len() == rows.len(),
        source,
    )];
    for (&(printed, bytes, weight, share), file) in rows.iter().zip(files) {
        figures.push(figure(
            format!("length and weight of {}", file.path),
            format!("{printed}, {share}"),
            format!("{} B, weight {}", file.bytes, file.references),
            (file.bytes, file.references) == (bytes, weight),
            source,
        ));
    }
    figures
}

/// Compares a Microscape site with the document: counts and sums of its images, and the length of its page in bytes
/// after zlib at the default level.
pub fn microscape(tags: TagCase, manifest: &Manifest, deflated: u64) -> Vec<Figure> {
    const SITE: &str = "document 003, \"Test Web Site\"";
    const PNG: &str = "document 003, \"Converting images from GIF to PNG and MNG\"";
    const DEFLATE: &str = "document 003, \"Further Compression Experiments\"";
    let moving = |file: &&FileEntry| file.path.starts_with("anim");
    let pictures: Vec<&FileEntry> = manifest
        .files
        .iter()
        .filter(|file| file.media_type == "image/gif")
        .collect();
    let sum = |files: &[&FileEntry]| files.iter().map(|file| file.bytes).sum::<u64>();
    let (animated, still): (Vec<&FileEntry>, Vec<&FileEntry>) = pictures.iter().copied().partition(moving);
    let within = |low: u64, high: u64| {
        still
            .iter()
            .filter(|file| (low..high).contains(&file.bytes))
            .count() as u64
    };
    let page = manifest.files.first().map_or(0, |page| page.bytes);
    let count = |name: &str, published: u64, made: u64, source| {
        figure(
            name,
            published.to_string(),
            made.to_string(),
            made == published,
            source,
        )
    };
    let share = deflated as f64 / page.max(1) as f64;
    let mut figures = vec![
        figure("page", "42KB", format!("{page} B"), page / 1024 == 42, SITE),
        figure(
            "share of the page that deflate leaves",
            format!("{}", tags.deflates_to()),
            format!("{share:.3} ({deflated} B)"),
            (share - tags.deflates_to()).abs() < 0.005,
            DEFLATE,
        ),
        count("pictures", 42, pictures.len() as u64, SITE),
        figure(
            "bytes of all pictures",
            "125KB",
            format!("{} B", sum(&pictures)),
            (sum(&pictures) + 512) / 1024 == 125,
            SITE,
        ),
        count("still pictures", 40, still.len() as u64, PNG),
        count("bytes of still pictures", 103_299, sum(&still), PNG),
        count("animated pictures", 2, animated.len() as u64, PNG),
        count("bytes of animated pictures", 24_988, sum(&animated), PNG),
        count("pictures below 1 KB", 19, within(0, 1024), SITE),
        count("pictures of 1 to 2 KB", 7, within(1024, 2048), SITE),
        count("pictures of 2 to 3 KB", 6, within(2048, 3072), SITE),
    ];
    let largest = still.iter().map(|file| file.bytes).max().unwrap_or(0);
    figures.push(figure(
        "largest picture",
        "40KB",
        format!("{largest} B"),
        (largest + 512) / 1024 == 40,
        SITE,
    ));
    let smallest = still.iter().map(|file| file.bytes).min().unwrap_or(0);
    figures.push(figure(
        "smallest picture",
        "70B in the text, 40 B in the list",
        format!("{smallest} B"),
        smallest == 40,
        "document 003, \"Test Web Site\"; list of its pictures, another edition (recovered)",
    ));
    if tags == TagCase::Lower {
        figures.push(figure(
            "deflated page",
            "11K",
            format!("{deflated} B"),
            (deflated + 512) / 1024 == 11,
            "document 003, \"Changing Web Content Representation\"",
        ));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Site;
    use units::Seed;

    #[test]
    fn what_is_made_is_what_is_printed_and_anything_else_is_not() {
        for list in List::ALL {
            let site = Site::Webstone {
                list,
                seed: Seed(1),
                depth: 0,
            };
            let mut manifest = site.manifest(vec![String::new(); site.files() as usize], "test");
            assert!(webstone(list, &manifest).iter().all(|figure| figure.holds));
            manifest.files[1].bytes += 1;
            let held = webstone(list, &manifest)
                .iter()
                .filter(|figure| !figure.holds)
                .count();
            assert_eq!(held, 1, "{list:?}");
        }
        for (tags, deflated) in [(TagCase::Lower, 11_600), (TagCase::Mixed, 15_000)] {
            let site = Site::Microscape { tags, seed: Seed(1) };
            let mut manifest = site.manifest(vec![String::new(); site.files() as usize], "test");
            let figures = microscape(tags, &manifest, deflated);
            assert!(figures.iter().all(|figure| figure.holds), "{figures:?}");
            // The page before it was composed to match the printed ratio.
            let other = microscape(tags, &manifest, 10_513);
            assert!(other.iter().any(|figure| !figure.holds));
            manifest.files.pop();
            assert!(
                microscape(tags, &manifest, deflated)
                    .iter()
                    .any(|figure| !figure.holds)
            );
        }
    }
}
