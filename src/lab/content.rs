//! `weir lab content`: document 003's study of content on the Microscape site, with today's encoders.

use crate::failure::Failure;
use crate::output::print;
use crate::voice::Voice;
use load::site::microscape::TagCase;
use repro::content::{Deflate, Picture, Replaced, pictures, replaced, tag_case};
use serde_json::json;
use std::fmt::Write;

const DOCUMENT: &str = "003";
/// Published bytes of the GIFs and of their replacements, still and animated.
const STILL: [usize; 2] = [103_299, 92_096];
const MOVING: [usize; 2] = [24_988, 16_329];
/// The reason why the image figures do not test the document's.
const CAVEAT: &str = "the original images are lost: the site's GIFs have the original lengths, generated pixels and no LZW compression, so the PNG is \
     compared with a compressed GIF of the same pixels; the ratios hold for such pixels only";

/// Runs the command.
///
/// # Errors
/// `System` if an encoder refuses a picture, or the report cannot be written.
pub(super) fn run(voice: &Voice) -> Result<(), Failure> {
    let refused = |fault: repro::content::Fault| Failure::System(format!("the content study: {fault}"));
    let deflate = tag_case();
    let pictures = pictures().map_err(refused)?;
    let replaced = replaced().map_err(refused)?;
    print(&if voice.json {
        lines(&deflate, &pictures, &replaced)
    } else {
        text(&deflate, &pictures, &replaced)
    })
}

/// Bytes of all still or all animated pictures: as served, as GIF, as PNG.
fn sums(pictures: &[Picture], moving: bool) -> [usize; 3] {
    let of = |size: fn(&Picture) -> usize| {
        let those = pictures.iter().filter(|one| (one.frames > 1) == moving);
        those.map(size).sum()
    };
    [of(|one| one.served), of(|one| one.gif), of(|one| one.png)]
}

fn word(tags: TagCase) -> &'static str {
    match tags {
        TagCase::Lower => "lower",
        TagCase::Mixed => "mixed",
    }
}

fn text(deflate: &[Deflate], pictures: &[Picture], replaced: &Replaced) -> String {
    let mut text = "Deflate, by the case of the page's tags\n".to_owned();
    for row in deflate {
        let _ = writeln!(
            text,
            "  {:<6} level {}  {:>6} -> {:>6} B  {:.3}{}",
            word(row.tags),
            row.level,
            row.plain,
            row.deflated,
            row.ratio(),
            row.published
                .map_or(String::new(), |ratio| format!("  (published {ratio:.2})"))
        );
    }
    text += "\nPictures, bytes        as served      GIF      PNG  PNG/GIF   published\n";
    for (name, moving, published) in [("still", false, STILL), ("moving (APNG, MNG)", true, MOVING)] {
        let [served, gif, png] = sums(pictures, moving);
        let _ = writeln!(
            text,
            "  {name:<20} {served:>9} {gif:>8} {png:>8} {:>8.3} {:>6} -> {} = {:.3}",
            png as f64 / gif as f64,
            published[0],
            published[1],
            published[1] as f64 / published[0] as f64
        );
    }
    let _ = writeln!(text, "  {CAVEAT}");
    let _ = writeln!(
        text,
        "\nImages of text, replaced by text and style rules\n  {} images, {} B -> {} B of markup and rules, {} B deflated with the page (published {} -> {}); {} requests fewer",
        replaced.pictures,
        replaced.served,
        replaced.markup,
        replaced.deflated,
        replaced.published[0],
        replaced.published[1],
        replaced.pictures
    );
    text
}

fn lines(deflate: &[Deflate], pictures: &[Picture], replaced: &Replaced) -> String {
    let mut values: Vec<serde_json::Value> = deflate
        .iter()
        .map(|row| {
            json!({
                "event": "content", "document": DOCUMENT, "what": "deflate", "tags": word(row.tags), "level": row.level,
                "plain": row.plain, "deflated": row.deflated, "ratio": row.ratio(), "published_ratio": row.published,
                "provenance": "seed text",
            })
        })
        .collect();
    for (what, moving, published) in [("still", false, STILL), ("moving", true, MOVING)] {
        let [served, gif, png] = sums(pictures, moving);
        values.push(json!({
            "event": "content", "document": DOCUMENT, "what": what, "served": served, "gif": gif, "png": png,
            "ratio": png as f64 / gif as f64, "published": { "gif": published[0], "png": published[1] },
            "published_ratio": published[1] as f64 / published[0] as f64, "provenance": "seed text", "caveat": CAVEAT,
        }));
    }
    values.extend(pictures.iter().map(|one| {
        json!({
            "event": "picture", "document": DOCUMENT, "path": one.path, "served": one.served, "gif": one.gif,
            "png": one.png, "frames": one.frames,
        })
    }));
    values.push(json!({
        "event": "content", "document": DOCUMENT, "what": "replaced", "pictures": replaced.pictures,
        "served": replaced.served, "markup": replaced.markup, "deflated": replaced.deflated,
        "published": { "pictures_bytes": replaced.published[0], "markup": replaced.published[1] },
        "requests_saved": replaced.pictures,
        "provenance": "recovered from another edition of the list that the document lost",
    }));
    values.iter().map(|value| format!("{value}\n")).collect()
}
