//! Directory listings as HTML and JSON.
//!
//! The page works without scripts, on phones, and in light and dark mode. The JSON's keys are stable: `path`,
//! `truncated`, and `entries` with `name`, `href`, `type`, `size` (files only) and `modified`. Other code decides what
//! is listed.

use crate::path::encode;
use serde::Serialize;
use std::fmt::Write;
use units::{Bytes, UnixTime};

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

/// Directories first, then by name.
pub(crate) fn sort(items: &mut [Item]) {
    items.sort_by(|a, b| (a.size.is_some(), &a.name).cmp(&(b.size.is_some(), &b.name)));
}

/// The style of the page, which content security policies name by its hash.
pub(crate) const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8884;--dim:#777}\
@media(prefers-color-scheme:dark){:root{--dim:#999}}\
body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:0 auto;padding:1rem}\
h1{font-size:1.2rem;overflow-wrap:anywhere}\
table{border-collapse:collapse;width:100%}\
th{text-align:left;font-weight:600}\
th,td{padding:.35rem .5rem;border-bottom:1px solid var(--line);vertical-align:top}\
td:first-child{overflow-wrap:anywhere;width:100%}\
.n{text-align:right;white-space:nowrap;color:var(--dim)}\
.d{white-space:nowrap;color:var(--dim)}\
a{text-decoration:none}a:hover{text-decoration:underline}\
p{color:var(--dim)}\
@media(max-width:32rem){.d{display:none}}";

/// The listing as HTML. `path` is the decoded path of the directory, with its final slash.
pub(crate) fn html(path: &[u8], items: &[Item], truncated: bool) -> Vec<u8> {
    let mut page = String::with_capacity(1024 + items.len() * 160);
    let title = escaped(path);
    page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.push_str("<title>");
    page.push_str(&title);
    page.push_str("</title>\n<style>");
    page.push_str(STYLE);
    page.push_str("</style>\n</head>\n<body>\n<h1>");
    page.push_str(&title);
    page.push_str("</h1>\n<table>\n<thead><tr><th scope=\"col\">Name</th>");
    page.push_str("<th scope=\"col\" class=\"n\">Size</th><th scope=\"col\" class=\"d\">Modified (UTC)</th>");
    page.push_str("</tr></thead>\n<tbody>\n");
    if path != b"/" {
        page.push_str(
            "<tr><td><a href=\"../\">../</a></td><td class=\"n\"></td><td class=\"d\"></td></tr>\n",
        );
    }
    for item in items {
        row(&mut page, item);
    }
    page.push_str("</tbody>\n</table>\n");
    if truncated {
        push(
            &mut page,
            format_args!("<p>Only {} entries are shown; there are more.</p>\n", items.len()),
        );
    } else if items.is_empty() {
        page.push_str("<p>No entries.</p>\n");
    }
    page.push_str("</body>\n</html>\n");
    page.into_bytes()
}

fn row(page: &mut String, item: &Item) {
    let slash = if item.size.is_none() { "/" } else { "" };
    let size = item.size.map(|size| Bytes(size).to_string()).unwrap_or_default();
    let modified = timestamp(item.modified);
    push(
        page,
        format_args!(
            "<tr><td><a href=\"{}\">{}{slash}</a></td><td class=\"n\">{size}</td>\
             <td class=\"d\"><time datetime=\"{modified}\">{} {}</time></td></tr>\n",
            escaped(href(item).as_bytes()),
            escaped(&item.name),
            &modified[..10],
            &modified[11..16],
        ),
    );
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let _ = page.write_fmt(text);
}

#[derive(Serialize)]
struct JsonListing<'a> {
    path: std::borrow::Cow<'a, str>,
    truncated: bool,
    entries: Vec<JsonItem<'a>>,
}

#[derive(Serialize)]
struct JsonItem<'a> {
    name: std::borrow::Cow<'a, str>,
    href: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    modified: String,
}

/// The listing as JSON. Names that are not UTF-8 have replacement characters; `href` is exact.
pub(crate) fn json(path: &[u8], items: &[Item], truncated: bool) -> Vec<u8> {
    let listing = JsonListing {
        path: String::from_utf8_lossy(path),
        truncated,
        entries: items
            .iter()
            .map(|item| JsonItem {
                name: String::from_utf8_lossy(&item.name),
                href: href(item),
                r#type: if item.size.is_some() { "file" } else { "directory" },
                size: item.size,
                modified: timestamp(item.modified),
            })
            .collect(),
    };
    let mut text = serde_json::to_vec(&listing).expect("strings, numbers and lists always serialize");
    text.push(b'\n');
    text
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

/// Escapes text for HTML, between tags and in quoted attributes.
fn escaped(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters and direction marks would disguise a name.
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
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

    fn items() -> Vec<Item> {
        let mut items = vec![
            Item {
                name: b"b <i>.html".to_vec(),
                size: Some(1_536),
                modified: UnixTime::from_secs(784_111_777),
            },
            Item {
                name: b"a:\"x\xff".to_vec(),
                size: Some(0),
                modified: UnixTime::from_secs(0),
            },
            Item {
                name: b"zoo".to_vec(),
                size: None,
                modified: UnixTime::from_secs(1_709_210_096),
            },
        ];
        sort(&mut items);
        items
    }

    #[test]
    fn the_page_is_escaped_and_sorted() {
        insta::assert_snapshot!(String::from_utf8(html(b"/a&b/", &items(), true)).unwrap());
        let root = String::from_utf8(html(b"/", &[], false)).unwrap();
        assert!(root.contains("No entries.") && !root.contains("../"));
    }

    /// A name that looks like a character reference is escaped in the link, too.
    #[test]
    fn links_lead_to_names_with_an_ampersand() {
        for (name, size, link) in [
            (
                "a&copy.txt",
                Some(1),
                r#"<a href="./a&amp;copy.txt">a&amp;copy.txt</a>"#,
            ),
            (
                "a&lt;b.txt",
                Some(1),
                r#"<a href="./a&amp;lt;b.txt">a&amp;lt;b.txt</a>"#,
            ),
            ("x&amp;y", None, r#"<a href="./x&amp;amp;y/">x&amp;amp;y/</a>"#),
        ] {
            let item = Item {
                name: name.into(),
                size,
                modified: UnixTime::from_secs(0),
            };
            let page = String::from_utf8(html(b"/", std::slice::from_ref(&item), false)).unwrap();
            assert!(page.contains(link), "{page}");
            let text = String::from_utf8(json(b"/", &[item], false)).unwrap();
            assert!(text.contains(&format!("\"href\":\"./{name}")), "{text}");
        }
    }

    #[test]
    fn the_json_keeps_its_shape() {
        insta::assert_snapshot!(String::from_utf8(json(b"/a&b/", &items(), false)).unwrap());
    }

    #[test]
    fn names_cannot_disguise_themselves() {
        assert_eq!(
            escaped("evil\u{202e}gpj.exe\n".as_bytes()),
            "evil\u{fffd}gpj.exe\u{fffd}"
        );
    }
}
