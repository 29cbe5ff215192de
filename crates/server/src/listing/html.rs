//! Listings as HTML: a page that works without scripts, on phones, and in light and dark mode.

use super::query::{Query, Sort};
use super::{Item, Page, Readme, STYLE, href, timestamp};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use core::fmt::{Arguments, Write};
use sha2::{Digest as _, Sha256};
use units::Bytes;

/// Maximum number of folders above in the path that links lead to: each link is as long as its folder is far.
const LINKS_MAX: usize = 32;

/// The operator's own parts of the page. Empty parts are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Theme {
    /// Address of a style sheet that follows the built-in style, escaped as in a URL.
    pub stylesheet: String,
    /// HTML at the start of the page's body, not escaped.
    pub header: String,
    /// HTML at its end, not escaped.
    pub footer: String,
}

/// `Content-Security-Policy` of the page: no scripts, and styles and images of this site alone.
pub(crate) fn policy(theme: &Theme) -> String {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    let own = match theme.stylesheet.is_empty() {
        true => "",
        false => " 'self'",
    };
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'{own}; img-src 'self'; base-uri 'none'; form-action 'self'"
    )
}

/// The listing as HTML.
pub(crate) fn html(page: &Page<'_>, theme: &Theme, readme: Option<&Readme>) -> Vec<u8> {
    let mut out =
        String::with_capacity(4_096 + theme.header.len() + theme.footer.len() + page.items.len() * 192);
    out.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    out.push_str(&escaped(page.path));
    out.push_str("</title>\n<style>");
    out.push_str(STYLE);
    out.push_str("</style>\n");
    if !theme.stylesheet.is_empty() {
        let address = escaped(theme.stylesheet.as_bytes());
        push(
            &mut out,
            format_args!("<link rel=\"stylesheet\" href=\"{address}\">\n"),
        );
    }
    out.push_str("</head>\n<body>\n");
    out.push_str(&theme.header);
    out.push_str("<main>\n");
    crumbs(&mut out, page.path);
    form(&mut out, page.query);
    table(&mut out, page);
    counts(&mut out, page);
    pages(&mut out, page);
    if let Some(readme) = readme {
        readme.write(&mut out);
    }
    out.push_str("</main>\n");
    out.push_str(&theme.footer);
    out.push_str("</body>\n</html>\n");
    out.into_bytes()
}

/// The path as a heading, each folder in it a link.
fn crumbs(out: &mut String, path: &[u8]) {
    let names: Vec<&[u8]> = path
        .split(|&b| b == b'/')
        .filter(|name| !name.is_empty())
        .collect();
    out.push_str("<nav aria-label=\"Path\"><h1>");
    let Some((last, above)) = names.split_last() else {
        out.push_str("<span aria-current=\"page\">/</span></h1></nav>\n");
        return;
    };
    let skipped = above.len().saturating_sub(LINKS_MAX);
    if skipped == 0 {
        push(
            out,
            format_args!("<a href=\"{}\">/</a>", "../".repeat(names.len())),
        );
    } else {
        out.push_str("… /");
    }
    for (at, name) in above.iter().enumerate().skip(skipped) {
        let up = "../".repeat(above.len() - at);
        push(out, format_args!(" <a href=\"{up}\">{}</a> /", escaped(name)));
    }
    push(
        out,
        format_args!(
            " <span aria-current=\"page\">{}</span> /</h1></nav>\n",
            escaped(last)
        ),
    );
}

/// The search. It keeps the order, and begins at the first page.
fn form(out: &mut String, query: &Query) {
    push(
        out,
        format_args!(
            "<form role=\"search\"><input type=\"search\" name=\"q\" value=\"{}\" placeholder=\"Part of a name\" \
             aria-label=\"Part of a name in this folder\">",
            escaped(query.text.as_bytes())
        ),
    );
    let default = Query::default();
    let mut keep = |key: &str, value: &str| {
        push(
            out,
            format_args!("<input type=\"hidden\" name=\"{key}\" value=\"{value}\">"),
        );
    };
    if query.sort != default.sort {
        keep("sort", query.sort.word());
    }
    if query.is_descending {
        keep("order", query.order());
    }
    if query.limit != default.limit {
        keep("limit", &query.limit.to_string());
    }
    out.push_str("<button>Search</button></form>\n");
}

fn table(out: &mut String, page: &Page<'_>) {
    out.push_str("<table class=\"list\">\n<thead><tr>");
    column(out, page.query, Sort::Name, ("", "Name"));
    column(out, page.query, Sort::Size, (" class=\"n\"", "Size"));
    column(
        out,
        page.query,
        Sort::Time,
        (" class=\"d\"", "Modified<span class=\"t\"> (UTC)</span>"),
    );
    out.push_str("</tr></thead>\n<tbody>\n");
    if page.path != b"/" {
        out.push_str("<tr><td><a href=\"../\">../</a></td><td class=\"n\"></td><td class=\"d\"></td></tr>\n");
    }
    for item in &page.items {
        row(out, item);
    }
    out.push_str("</tbody>\n</table>\n");
}

/// The header of a column: a link to the listing in its order.
fn column(out: &mut String, query: &Query, sort: Sort, (class, title): (&str, &str)) {
    let (state, arrow) = match (query.sort == sort, query.is_descending) {
        (false, _) => ("", ""),
        (true, false) => (" aria-sort=\"ascending\"", " ↑"),
        (true, true) => (" aria-sort=\"descending\"", " ↓"),
    };
    let link = escaped(query.sorted_by(sort).link().as_bytes());
    push(
        out,
        format_args!("<th scope=\"col\"{class}{state}><a href=\"{link}\">{title}</a>{arrow}</th>"),
    );
}

fn row(out: &mut String, item: &Item) {
    let slash = if item.size.is_none() { "/" } else { "" };
    let size = item.size.map(|size| Bytes(size).to_string()).unwrap_or_default();
    let modified = timestamp(item.modified);
    push(
        out,
        format_args!(
            "<tr><td><a href=\"{}\">{}{slash}</a></td><td class=\"n\">{size}</td>\
             <td class=\"d\"><time datetime=\"{modified}\">{}<span class=\"t\"> {}</span></time></td></tr>\n",
            escaped(href(item).as_bytes()),
            escaped(&item.name),
            &modified[..10],
            &modified[11..16],
        ),
    );
}

/// How many entries there are, and which of them the page shows.
fn counts(out: &mut String, page: &Page<'_>) {
    out.push_str("<p class=\"note\">");
    let Page {
        before,
        matching,
        total,
        ..
    } = *page;
    if !page.query.text.is_empty() {
        let text = escaped(page.query.text.as_bytes());
        let all = escaped(
            Query {
                text: String::new(),
                ..page.query.at(1)
            }
            .link()
            .as_bytes(),
        );
        push(
            out,
            format_args!(
                "{matching} of {} have “{text}” in their names. <a href=\"{all}\">Show all</a>. ",
                entries(total)
            ),
        );
    } else if total == 0 {
        out.push_str("No entries. ");
    } else {
        push(out, format_args!("{}. ", entries(total)));
    }
    match page.items.len() {
        shown if shown == matching => {}
        // The links below say that there is no such page.
        0 => {}
        shown => push(
            out,
            format_args!("This page shows {} to {}. ", before + 1, before + shown),
        ),
    }
    if page.is_truncated {
        out.push_str("The folder has more entries than this server reads for a listing.");
    }
    out.push_str("</p>\n");
}

fn entries(number: usize) -> String {
    match number {
        1 => "1 entry".to_owned(),
        number => format!("{number} entries"),
    }
}

/// Links to the other pages, if there are several.
fn pages(out: &mut String, page: &Page<'_>) {
    let (at, pages) = (page.query.page, page.pages());
    if pages == 1 && at == 1 {
        return;
    }
    let link = |out: &mut String, to: usize, attribute: &str, title: &str| {
        let link = escaped(page.query.at(to).link().as_bytes());
        push(out, format_args!("<a href=\"{link}\"{attribute}>{title}</a>\n"));
    };
    out.push_str("<nav class=\"pages\" aria-label=\"Pages\">\n");
    if at > 1 {
        link(out, 1, "", "First");
        link(out, (at - 1).min(pages), " rel=\"prev\"", "Previous");
    }
    match at <= pages {
        true => push(out, format_args!("<span>Page {at} of {pages}</span>\n")),
        false => push(
            out,
            format_args!("<span>There is no page {at}; the last one is {pages}.</span>\n"),
        ),
    }
    if at < pages {
        link(out, at + 1, " rel=\"next\"", "Next");
        link(out, pages, "", "Last");
    }
    out.push_str("</nav>\n");
}

fn push(out: &mut String, text: Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let _ = out.write_fmt(text);
}

/// Escapes a name for HTML, between tags and in quoted attributes.
pub(super) fn escaped(name: &[u8]) -> String {
    escaped_except(&String::from_utf8_lossy(name), |_| false)
}

/// Escapes a text of several lines.
pub(super) fn escaped_text(text: &str) -> String {
    escaped_except(text, |c| matches!(c, '\n' | '\t'))
}

/// Escapes text for HTML. Control characters stay only if `keeps` says so.
fn escaped_except(text: &str, keeps: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if keeps(c) => out.push(c),
            // Control characters and direction marks would disguise a name.
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::{item, items};
    use super::*;

    fn shown(path: &[u8], raw: &str, items: Vec<Item>, is_truncated: bool) -> String {
        let query = Query::parse(raw.as_bytes()).unwrap_or_default();
        let page = Page::of(path, &query, items, is_truncated);
        String::from_utf8(html(&page, &Theme::default(), None)).unwrap()
    }

    #[test]
    fn the_page_is_escaped_and_sorted() {
        let page = shown(b"/a&b/", "", items(), true);
        insta::assert_snapshot!(page.replace(STYLE, "…"));
        let root = shown(b"/", "", Vec::new(), false);
        assert!(root.contains("No entries.") && !root.contains("../"), "{root}");
    }

    #[test]
    fn a_view_keeps_its_query_in_all_links() {
        let many = (0..5).map(|n| item(format!("a{n}").as_bytes(), Some(n), 0));
        let page = shown(
            b"/d/",
            "q=A&sort=size&order=desc&limit=2&page=2",
            many.collect(),
            false,
        );
        insta::assert_snapshot!(page.replace(STYLE, "…"));
    }

    #[test]
    fn a_page_past_the_last_one_names_the_last_one() {
        let many: Vec<Item> = (0..5).map(|n| item(&[b'a' + n], Some(1), 0)).collect();
        for (raw, items, said, previous) in [
            ("limit=2&page=3", &many[..], "Page 3 of 3", "?limit=2&amp;page=2"),
            (
                "limit=2&page=99",
                &many[..],
                "There is no page 99; the last one is 3.",
                "?limit=2&amp;page=3",
            ),
            ("page=2", &[], "There is no page 2; the last one is 1.", "./"),
            (
                "q=z&page=2",
                &many[..],
                "There is no page 2; the last one is 1.",
                "?q=z",
            ),
        ] {
            let page = shown(b"/d/", raw, items.to_vec(), false);
            assert_eq!(page.matches("<span>").count(), 1, "{raw}: {page}");
            for part in [
                format!("<span>{said}</span>"),
                format!("<a href=\"{previous}\" rel=\"prev\">"),
            ] {
                assert!(page.contains(&part), "{raw}: {part}: {page}");
            }
        }
    }

    /// Names, paths and search texts that end each context that they are written in.
    #[test]
    fn hostile_text_stays_text() {
        let hostile = [
            "\"><script>alert(1)</script>",
            "'onmouseover='alert(1)",
            "</title></style><img src=x onerror=alert(1)>",
            "javascript:alert(1)",
            "&lt;script&gt;",
            "a\u{202e}gpj.exe\n",
            "{{constructor}}${x}",
        ];
        for text in hostile {
            let encoded: String = text.bytes().map(|b| format!("%{b:02x}")).collect();
            let path = format!("/{}/", text.replace('/', ":"));
            for items in [Vec::new(), vec![item(text.as_bytes(), Some(1), 0)]] {
                let page = shown(path.as_bytes(), &format!("q={encoded}"), items, false);
                let page = page.replace(STYLE, "");
                for bad in ["<script", "<img", "href=\"javascript", "\u{202e}", "'onmouse"] {
                    assert!(!page.contains(bad), "{bad}: {page}");
                }
                for ours in ["</title>", "</style>", "<form", "<table"] {
                    assert_eq!(page.matches(ours).count(), 1, "{ours}: {page}");
                }
            }
        }
    }

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
            let page = shown(b"/", "", vec![item(name.as_bytes(), size, 0)], false);
            assert!(page.contains(link), "{page}");
        }
    }

    #[test]
    fn a_deep_path_has_a_bounded_heading() {
        let path = "/a".repeat(2_000) + "/";
        let page = shown(path.as_bytes(), "", Vec::new(), false);
        let heading = &page[page.find("<h1>").unwrap()..page.find("</h1>").unwrap()];
        assert_eq!(heading.matches("<a ").count(), LINKS_MAX);
        assert!(heading.starts_with("<h1>… / <a href=\"../../"), "{heading}");
        let path = "/a".repeat(LINKS_MAX + 1) + "/";
        let page = shown(path.as_bytes(), "", Vec::new(), false);
        let heading = &page[page.find("<h1>").unwrap()..page.find("</h1>").unwrap()];
        assert_eq!(heading.matches("<a ").count(), LINKS_MAX + 1, "and the root");
    }

    #[test]
    fn a_theme_surrounds_the_page_and_its_style_is_admitted() {
        let theme = Theme {
            stylesheet: "/a&b.css".to_owned(),
            header: "<p class=top>Ours</p>\n".to_owned(),
            footer: "<p class=end>©</p>\n".to_owned(),
        };
        let query = Query::default();
        let page = html(&Page::of(b"/", &query, Vec::new(), false), &theme, None);
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains(
            "<link rel=\"stylesheet\" href=\"/a&amp;b.css\">\n</head>\n<body>\n<p class=top>Ours</p>\n<main>"
        ));
        assert!(page.ends_with("</main>\n<p class=end>©</p>\n</body>\n</html>\n"));
        assert!(policy(&theme).contains("' 'self'; img-src"));
        assert!(
            policy(&Theme::default()).contains("'; img-src")
                && !policy(&Theme::default()).contains("'self'; img")
        );
    }
}
