//! The Microscape page of document 003: 42 KB of HTML and 42 GIFs.
//!
//! Fifteen of the images have the lengths in the original's list, as recovered. The other 27 lengths were invented so
//! that every published count and sum holds; the manifest labels them so. The original pages are lost. This page is
//! built like the trade pages of 1997: tables, font elements, spacer images, prices and article numbers. Their amounts
//! were chosen so that zlib at its default level reaches the printed ratio: 0.27 of the length (42K become 11K), 0.35
//! with tags in mixed case.

use super::{Described, content};
use crate::files::Class;
use crate::gif;
use crate::parameters::{Choice, Provenance};
use crate::prose::Prose;
use core::str::FromStr;
use std::io::{self, Write};
use units::{Bytes, Seed};

/// Length of the page, printed as "42KB".
pub const PAGE: Bytes = Bytes::kib(42);
/// Frames of an animated image; not printed.
const FRAMES: u64 = 6;

/// Letter case of tags: document 003 found that it decides how well a page deflates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagCase {
    /// Lower case.
    Lower,
    /// A mix of upper and lower case letters.
    Mixed,
}

impl TagCase {
    /// Printed ratio of the page's length after and before zlib at its default level, to two digits.
    pub fn deflates_to(self) -> f64 {
        match self {
            TagCase::Lower => 0.27,
            TagCase::Mixed => 0.35,
        }
    }
}

impl FromStr for TagCase {
    type Err = String;

    fn from_str(text: &str) -> Result<TagCase, String> {
        match text {
            "lower" => Ok(TagCase::Lower),
            "mixed" => Ok(TagCase::Mixed),
            _ => Err(format!("`{text}` is not a tag case: choose lower or mixed")),
        }
    }
}

/// Source of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The list of the original's images.
    Recovered,
    /// Invented so that the published sums hold.
    Synthetic,
}

impl Origin {
    fn words(self) -> &'static str {
        match self {
            Origin::Recovered => "recovered",
            Origin::Synthetic => {
                "synthetic: invented to satisfy the published counts and sums; not a measurement"
            }
        }
    }
}

/// An image of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// File name.
    pub path: &'static str,
    /// Length in bytes.
    pub size: Bytes,
    /// Whether it is animated.
    pub animated: bool,
    /// Source of the length.
    pub origin: Origin,
}

const fn image(path: &'static str, size: u64, animated: bool, origin: Origin) -> Image {
    Image {
        path,
        size: Bytes(size),
        animated,
        origin,
    }
}

/// All 42 images, in the order of their references in the page.
pub const IMAGES: [Image; 42] = [
    image("about1.gif", 1403, false, Origin::Recovered),
    image("action.gif", 788, false, Origin::Recovered),
    image("enter.gif", 157, false, Origin::Recovered),
    image("prod.gif", 165, false, Origin::Recovered),
    image("search.gif", 151, false, Origin::Recovered),
    image("shop.gif", 128, false, Origin::Recovered),
    image("solutions.gif", 682, false, Origin::Recovered),
    image("support.gif", 156, false, Origin::Recovered),
    image("1ptrans.gif", 44, false, Origin::Recovered),
    image("spacer.gif", 70, false, Origin::Recovered),
    image("spacer1.gif", 40, false, Origin::Recovered),
    image("spacer2.gif", 69, false, Origin::Recovered),
    image("vrule.gif", 62, false, Origin::Recovered),
    image("nav_home.gif", 1664, false, Origin::Recovered),
    image("navigation_bar1.gif", 1698, false, Origin::Recovered),
    image("conv01.gif", 350, false, Origin::Synthetic),
    image("conv02.gif", 420, false, Origin::Synthetic),
    image("conv03.gif", 510, false, Origin::Synthetic),
    image("conv04.gif", 640, false, Origin::Synthetic),
    image("conv05.gif", 760, false, Origin::Synthetic),
    image("conv06.gif", 1300, false, Origin::Synthetic),
    image("conv07.gif", 1500, false, Origin::Synthetic),
    image("conv08.gif", 2400, false, Origin::Synthetic),
    image("part01.gif", 2450, false, Origin::Synthetic),
    image("part02.gif", 2500, false, Origin::Synthetic),
    image("part03.gif", 2591, false, Origin::Synthetic),
    image("keep01.gif", 480, false, Origin::Synthetic),
    image("keep02.gif", 920, false, Origin::Synthetic),
    image("keep03.gif", 1250, false, Origin::Synthetic),
    image("keep04.gif", 1750, false, Origin::Synthetic),
    image("keep05.gif", 2300, false, Origin::Synthetic),
    image("keep06.gif", 2800, false, Origin::Synthetic),
    image("keep07.gif", 3200, false, Origin::Synthetic),
    image("keep08.gif", 3500, false, Origin::Synthetic),
    image("keep09.gif", 3800, false, Origin::Synthetic),
    image("keep10.gif", 4200, false, Origin::Synthetic),
    image("keep11.gif", 4600, false, Origin::Synthetic),
    image("keep12.gif", 5100, false, Origin::Synthetic),
    image("keep13.gif", 5741, false, Origin::Synthetic),
    image("keep14.gif", 40960, false, Origin::Synthetic),
    image("anim01.gif", 13500, true, Origin::Synthetic),
    image("anim02.gif", 11488, true, Origin::Synthetic),
];

pub(super) fn describe(number: u32) -> Described {
    match number.checked_sub(1) {
        None => Described {
            path: "index.html".to_owned(),
            media_type: "text/html",
            class: Class::Base,
            size: PAGE,
            provenance: Some("printed as 42KB; the exact length is unknown"),
        },
        Some(index) => {
            let image = IMAGES[index as usize];
            Described {
                path: image.path.to_owned(),
                media_type: "image/gif",
                class: Class::Embedded,
                size: image.size,
                provenance: Some(image.origin.words()),
            }
        }
    }
}

pub(super) fn choices(tags: TagCase) -> Vec<Choice> {
    let choice = |name: &str, value: String, provenance, reason: &str| Choice {
        name: name.to_owned(),
        value,
        provenance,
        reason: reason.to_owned(),
    };
    vec![
        choice(
            "page",
            PAGE.0.to_string(),
            Provenance::Printed,
            "document 003 says 42KB; 42 times 1,024",
        ),
        choice(
            "images",
            IMAGES.len().to_string(),
            Provenance::Printed,
            "40 static of 103,299 B and 2 animated of 24,988 B; 15 lengths recovered, 27 invented to meet the sums",
        ),
        choice(
            "tags",
            match tags {
                TagCase::Lower => "lower",
                TagCase::Mixed => "mixed",
            }
            .to_owned(),
            Provenance::Printed,
            "document 003: with zlib at its default level lower case deflates to .27 of the length, mixed case to .35",
        ),
        choice(
            "deflated",
            tags.deflates_to().to_string(),
            Provenance::Printed,
            "share of the page's length that zlib leaves at its default level; document 003, section \"Further \
             Compression Experiments\": .27, from 42K to 11K, \"more than a factor of three\"; .35 with tags in mixed \
             case. The original's text is lost; this text was composed to come to that",
        ),
        choice(
            "frames",
            FRAMES.to_string(),
            Provenance::ChosenHere,
            "frames of an animated picture; not printed",
        ),
    ]
}

pub(super) fn write(tags: TagCase, seed: Seed, number: u32, out: &mut impl Write) -> io::Result<()> {
    let mut rng = content(seed, number);
    let Some(index) = number.checked_sub(1) else {
        let markup = Markup {
            prose: Prose::new(rng),
            tags,
        };
        return out.write_all(&markup.page()?);
    };
    let image = IMAGES[index as usize];
    let frames = if image.animated { FRAMES } else { 1 };
    let too_small = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is too small", image.path),
        )
    };
    gif::Layout::new(image.size.0, frames)
        .ok_or_else(too_small)?
        .write(&mut rng, out)
}

/// The page, built in memory: its length is fixed.
struct Markup {
    prose: Prose,
    tags: TagCase,
}

impl Markup {
    fn page(mut self) -> io::Result<Vec<u8>> {
        let mut html = self.tagged(
            "<!doctype html>\n<html>\n<head>\n<title>Microscape</title>\n</head>\n\
             <body bgcolor=\"#ffffff\" text=\"#000000\" link=\"#003399\" vlink=\"#663366\">\n<center>\n\
             <table width=\"600\" cellpadding=\"4\" cellspacing=\"0\" border=\"0\">\n<tr valign=\"top\">\n",
        );
        // A bar of small images, then blocks of text around the others.
        let (bar, column) = IMAGES.split_at(14);
        html += &self.tagged("<td width=\"130\" bgcolor=\"#dfe8ee\">\n");
        for image in bar {
            html += &self.tagged(&format!(
                "<a href=\"/{0}/\"><img src=\"{1}\" border=\"0\" alt=\"{0}\"></a><br>\n",
                image.path.trim_end_matches(".gif"),
                image.path
            ));
        }
        html += &self.tagged("</td>\n<td width=\"460\">\n");
        let end = self.tagged("</td>\n</tr>\n</table>\n</center>\n</body>\n</html>\n");
        let pictures = column.len();
        for (index, image) in column.iter().enumerate() {
            html += &self.tagged(&format!(
                "<table width=\"100%\" cellpadding=\"2\" cellspacing=\"0\" border=\"0\">\n<tr valign=\"top\">\n\
                 <td><img src=\"{}\" border=\"0\" align=\"left\" hspace=\"6\" vspace=\"4\" alt=\"\">\n",
                image.path
            ));
            let tail = self.tagged("</td>\n</tr>\n</table>\n");
            // An even share of the rest, so that the last block ends the page exactly.
            let left = PAGE.0 as usize - html.len() - end.len();
            let text = left / (pictures - index) - tail.len();
            let whole = if index + 1 == pictures {
                left - tail.len()
            } else {
                text
            };
            html += &self.block(whole)?;
            html += &tail;
        }
        html += &end;
        Ok(html.into_bytes())
    }

    /// A headline and items of exactly `length` bytes.
    fn block(&mut self, length: usize) -> io::Result<String> {
        let mut block = String::new();
        loop {
            let item = self.item();
            let close = self.tagged("</font><br>\n");
            let left = length - block.len();
            let least = item.len() + close.len() + 20;
            if left < 2 * (least + 120) {
                let mut text = Vec::new();
                if left >= least {
                    block += &item;
                    self.prose
                        .text((left - item.len() - close.len()) as u64, b' ', &mut text)?;
                    block += &String::from_utf8_lossy(&text);
                    block += &close;
                } else {
                    self.prose.text(left as u64, b' ', &mut text)?;
                    block += &String::from_utf8_lossy(&text);
                }
                return Ok(block);
            }
            let mut text = b" ".to_vec();
            let words = 70 + self.prose.below(100);
            self.prose.text(words, b' ', &mut text)?;
            block += &item;
            block += &String::from_utf8_lossy(&text);
            block += &close;
        }
    }

    /// Start of an item: a link and the article's price.
    fn item(&mut self) -> String {
        let (first, second) = (self.prose.word(), self.prose.word());
        let name = [self.prose.word(), self.prose.word()].join("-");
        let page = 1_000_000 + self.prose.below(1_000_000);
        let (dollars, cents) = (1 + self.prose.below(999), self.prose.below(100));
        let article = 10_000 + self.prose.below(10_000);
        self.tagged(&format!(
            "<font face=\"arial,helvetica\" size=\"2\"><a href=\"/products/{name}/{page}.htm\"><b>{first} {second}</b></a> \
             <font size=\"1\">${dollars}.{cents:02} <i>{article}</i></font>"
        ))
    }

    /// Markup with tag and attribute names in the chosen case; quoted values stay.
    fn tagged(&mut self, markup: &str) -> String {
        if self.tags == TagCase::Lower {
            return markup.to_owned();
        }
        let (mut inside, mut quoted) = (false, false);
        markup
            .chars()
            .map(|c| {
                match c {
                    '<' => inside = true,
                    '>' => inside = false,
                    '"' => quoted = !quoted,
                    _ => {}
                }
                if inside && !quoted && c.is_ascii_lowercase() && self.prose.below(2) == 0 {
                    c.to_ascii_uppercase()
                } else {
                    c
                }
            })
            .collect()
    }
}
