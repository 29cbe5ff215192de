//! Listings as JSON, for programs. The keys are stable: `path`, `truncated`, and `entries` with `name`, `href`, `type`,
//! `size` (files only) and `modified`; `total`, `matching`, `page`, `pages`, `limit`, `sort`, `order` and `q`.

use super::{Page, href, timestamp};
use serde::Serialize;
use std::borrow::Cow;

#[derive(Serialize)]
struct Listing<'a> {
    path: Cow<'a, str>,
    truncated: bool,
    total: usize,
    matching: usize,
    page: usize,
    pages: usize,
    limit: usize,
    sort: &'static str,
    order: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    q: &'a str,
    entries: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: Cow<'a, str>,
    href: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    modified: String,
}

/// The listing as JSON. Names that are not UTF-8 have replacement characters; `href` is exact.
pub(crate) fn json(page: &Page<'_>) -> Vec<u8> {
    let entries = page.items.iter().map(|item| Entry {
        name: String::from_utf8_lossy(&item.name),
        href: href(item),
        r#type: if item.size.is_some() { "file" } else { "directory" },
        size: item.size,
        modified: timestamp(item.modified),
    });
    let listing = Listing {
        path: String::from_utf8_lossy(page.path),
        truncated: page.is_truncated,
        total: page.total,
        matching: page.matching,
        page: page.query.page,
        pages: page.pages(),
        limit: page.query.limit,
        sort: page.query.sort.word(),
        order: page.query.order(),
        q: &page.query.text,
        entries: entries.collect(),
    };
    let mut text = serde_json::to_vec(&listing).expect("strings, numbers and lists always serialize");
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use super::super::Query;
    use super::super::tests::{item, items};
    use super::*;

    fn text(raw: &str) -> String {
        let query = Query::parse(raw.as_bytes()).unwrap_or_default();
        String::from_utf8(json(&Page::of(b"/a&b/", &query, items(), false))).unwrap()
    }

    #[test]
    fn the_json_keeps_its_shape() {
        insta::assert_snapshot!(text(""));
        insta::assert_snapshot!("of_a_query", text("sort=time&order=desc&q=%22&limit=1"));
    }

    #[test]
    fn references_lead_to_names_with_an_ampersand() {
        for name in ["a&copy.txt", "a&lt;b.txt", "x&amp;y"] {
            let query = Query::default();
            let page = Page::of(b"/", &query, vec![item(name.as_bytes(), Some(1), 0)], false);
            let text = String::from_utf8(json(&page)).unwrap();
            assert!(text.contains(&format!("\"href\":\"./{name}")), "{text}");
        }
    }
}
