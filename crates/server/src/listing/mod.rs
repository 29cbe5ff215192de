//! Directory listings as HTML and JSON: a page of the entries, in an order, perhaps of those alone whose names contain a text.
//!
//! ```text
//!   entries ─▶ Query (which, in which order) ─▶ Page ─┬▶ html (with a Theme, and the README)
//!                                                     └▶ json
//! ```
//!
//! Names, search texts and READMEs are hostile: everything is escaped, and the pages have a [`policy`] without scripts.
//! Other code decides what a directory lists, and reads the README.

mod html;
mod json;
mod query;
mod readme;
mod style;

pub use html::Theme;
pub(crate) use html::{html, policy};
pub(crate) use json::json;
pub(crate) use query::Query;
pub(crate) use readme::Readme;
pub(crate) use style::STYLE;

use crate::path::encode;
use units::UnixTime;

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// File name as in the file system.
    pub(crate) name: Vec<u8>,
    /// Length of a file in bytes; `None` for a directory.
    pub(crate) size: Option<u64>,
    /// Modification time.
    pub(crate) modified: UnixTime,
}

/// The part of a directory that one response shows.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    /// Decoded path of the directory, with its final slash.
    path: &'a [u8],
    query: &'a Query,
    /// Entries on this page.
    items: Vec<Item>,
    /// Number of entries before them.
    before: usize,
    /// Number of entries on all pages: those whose names contain the text of the query.
    matching: usize,
    /// Number of entries that were read.
    total: usize,
    /// Whether the directory has more entries than were read.
    is_truncated: bool,
}

impl<'a> Page<'a> {
    /// The page of these entries that a query selects. A page past the last one is empty.
    pub(crate) fn of(path: &'a [u8], query: &'a Query, mut items: Vec<Item>, is_truncated: bool) -> Page<'a> {
        let total = items.len();
        if !query.text.is_empty() {
            let text = query.text.to_lowercase();
            // Bytes that are not UTF-8 match the replacement character.
            items.retain(|item| {
                let name = String::from_utf8_lossy(&item.name).to_lowercase();
                name.contains(&text)
            });
        }
        items.sort_unstable_by(|a, b| query.compare(a, b));
        let matching = items.len();
        let before = (query.page - 1).saturating_mul(query.limit).min(matching);
        items.drain(..before);
        items.truncate(query.limit);
        Page {
            path,
            query,
            items,
            before,
            matching,
            total,
            is_truncated,
        }
    }

    /// Number of pages, at least 1.
    fn pages(&self) -> usize {
        self.matching.div_ceil(self.query.limit).max(1)
    }
}

/// A relative reference to the item. Without the leading `./`, a colon in the name would end a scheme.
fn href(item: &Item) -> String {
    let mut href = b"./".to_vec();
    encode(&item.name, &mut href);
    if item.size.is_none() {
        href.push(b'/');
    }
    String::from_utf8_lossy(&href).into_owned()
}

/// RFC 3339, in whole seconds of UTC, taken from the HTTP date of the same second.
fn timestamp(time: UnixTime) -> String {
    let date = http_semantics::date::format(time);
    let text = String::from_utf8_lossy(&date);
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = MONTHS.find(&text[8..11]).map_or(0, |at| at / 3 + 1);
    format!("{}-{month:02}-{}T{}Z", &text[12..16], &text[5..7], &text[17..25])
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn item(name: &[u8], size: Option<u64>, secs: i64) -> Item {
        Item {
            name: name.to_vec(),
            size,
            modified: UnixTime::from_secs(secs),
        }
    }

    /// Three entries, with names that are not what they seem.
    pub(super) fn items() -> Vec<Item> {
        vec![
            item(b"b <i>.html", Some(1_536), 784_111_777),
            item(b"a:\"x\xff", Some(0), 0),
            item(b"zoo", None, 1_709_210_096),
        ]
    }

    fn shown(raw: &str, items: Vec<Item>) -> String {
        let query = Query::parse(raw.as_bytes()).unwrap_or_default();
        let page = Page::of(b"/", &query, items, false);
        let names = page.items.iter().map(|item| String::from_utf8_lossy(&item.name));
        let names: Vec<_> = names.collect();
        format!("{} ({}/{})", names.join(" "), page.matching, page.total)
    }

    #[test]
    fn folders_come_first_in_every_order() {
        let items = vec![
            item(b"b", Some(5), 30),
            item(b"y", None, 40),
            item(b"a", Some(5), 20),
            item(b"x", None, 50),
            item(b"C", Some(9), 10),
        ];
        for (raw, names) in [
            ("", "x y C a b"),
            ("order=desc", "y x b a C"),
            ("sort=size", "x y a b C"),
            ("sort=size&order=desc", "x y C a b"),
            ("sort=time", "y x C a b"),
            ("sort=time&order=desc", "x y b a C"),
        ] {
            assert_eq!(shown(raw, items.clone()), format!("{names} (5/5)"), "{raw}");
        }
    }

    #[test]
    fn pages_are_parts_of_the_same_order() {
        let items: Vec<_> = [&b"e"[..], b"c", b"a", b"d", b"b"]
            .iter()
            .map(|name| item(name, Some(1), 0))
            .collect();
        for (raw, names) in [
            ("limit=2", "a b"),
            ("limit=2&page=2", "c d"),
            ("limit=2&page=3", "e"),
            ("limit=2&page=4", ""),
            ("limit=2&page=18446744073709551615", ""),
            ("limit=2&page=2&order=desc", "c b"),
        ] {
            assert_eq!(shown(raw, items.clone()), format!("{names} (5/5)"), "{raw}");
        }
    }

    #[test]
    fn a_page_has_a_largest_size() {
        let many: Vec<_> = (0..7_000)
            .map(|n| item(format!("{n:05}").as_bytes(), Some(1), 0))
            .collect();
        for (raw, len, pages) in [
            ("", 1_000, 7),
            ("limit=5000", 5_000, 2),
            ("limit=1000000", 5_000, 2),
            ("limit=5000&page=2", 2_000, 2),
        ] {
            let query = Query::parse(raw.as_bytes()).unwrap_or_default();
            let page = Page::of(b"/", &query, many.clone(), false);
            assert_eq!((page.items.len(), page.pages()), (len, pages), "{raw}");
        }
    }

    #[test]
    fn searches_find_parts_of_names_in_any_case() {
        let items = vec![
            item("Übung.TXT".as_bytes(), Some(1), 0),
            item(b"other.txt", Some(1), 0),
            item(b"texts", None, 0),
            item(b"\xff.png", Some(1), 0),
        ];
        for (raw, found) in [
            ("q=txt", "other.txt Übung.TXT (2/4)"),
            ("q=%C3%BCB", "Übung.TXT (1/4)"),
            ("q=T", "texts other.txt Übung.TXT (3/4)"),
            ("q=%ff", "\u{fffd}.png (1/4)"),
            ("q=none", " (0/4)"),
            ("q=.*", " (0/4)"),
        ] {
            assert_eq!(shown(raw, items.clone()), found, "{raw}");
        }
    }
}
