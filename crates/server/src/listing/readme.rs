//! The README that a listing shows: Markdown (CommonMark with tables) or plain text.
//!
//! Whoever may write into the folder wrote it, so nothing in it acts: HTML appears as text, links lead to web addresses and
//! files, and images come from this site. (A foreign image would tell its server who reads the page; a link to it stands in
//! its place.)

use super::Item;
use super::html::{escaped, escaped_text};
use core::fmt;
use pulldown_cmark::{Alignment, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd, html};

/// Names in any case, the preferred one first.
const NAMES: [&str; 4] = ["readme.md", "readme.markdown", "readme.txt", "readme"];

/// Number of the first names that are Markdown.
const MARKDOWN: usize = 2;

/// Maximum number of quotes and list items that begin in one line. Each following line is compared with all of them, so the
/// cost would be the square of the length. A README with more is shown as plain text.
const NESTING_MAX: usize = 64;

/// Maximum bytes of HTML from a README. Markdown can be shorter than its HTML by a large factor.
const HTML_BYTES_MAX: usize = 1 << 20;

/// A README as part of a page.
#[derive(Debug)]
pub(crate) struct Readme {
    name: Vec<u8>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    /// Safe HTML.
    Html(String),
    /// Why the content is not shown, as a sentence.
    Note(&'static str),
}

impl Readme {
    /// Maximum bytes of a README.
    pub(crate) const BYTES_MAX: u64 = 256 << 10;

    /// The name of the README among the entries of a directory.
    pub(crate) fn find(items: &[Item]) -> Option<&[u8]> {
        let files = items.iter().filter(|item| item.size.is_some());
        let ranked = files.filter_map(|item| Some((rank(&item.name)?, &item.name[..])));
        ranked.min().map(|(_, name)| name)
    }

    /// The README of this name and content.
    pub(crate) fn of(name: &[u8], content: &[u8]) -> Readme {
        let text = String::from_utf8_lossy(content);
        let text = text
            .trim_start_matches('\u{feff}')
            .replace("\r\n", "\n")
            .replace('\r', "\n");
        let is_markdown = rank(name).is_some_and(|rank| rank < MARKDOWN)
            && !text.lines().any(|line| nesting(line) > NESTING_MAX);
        let html = match is_markdown {
            true => markdown(&text),
            false => Some(format!("<pre class=\"text\">{}</pre>\n", escaped_text(&text))),
        };
        match html {
            Some(html) => Readme {
                name: name.to_vec(),
                body: Body::Html(html),
            },
            None => Readme::too_large(name),
        }
    }

    /// A README that is not shown because of its size.
    pub(crate) fn too_large(name: &[u8]) -> Readme {
        Readme {
            name: name.to_vec(),
            body: Body::Note("This file is too large to be shown here; open it in the list."),
        }
    }

    /// A README that cannot be read.
    pub(crate) fn unreadable(name: &[u8]) -> Readme {
        Readme {
            name: name.to_vec(),
            body: Body::Note("This file cannot be read."),
        }
    }

    /// Appends the part of the page.
    pub(super) fn write(&self, out: &mut String) {
        let name = escaped(&self.name);
        out.push_str("<article class=\"readme\">\n<h2>");
        out.push_str(&name);
        out.push_str("</h2>\n");
        match &self.body {
            Body::Html(html) => out.push_str(html),
            Body::Note(note) => {
                out.push_str("<p class=\"note\">");
                out.push_str(note);
                out.push_str("</p>\n");
            }
        }
        out.push_str("</article>\n");
    }
}

/// Place of a name among the names of READMEs.
fn rank(name: &[u8]) -> Option<usize> {
    NAMES
        .iter()
        .position(|one| name.eq_ignore_ascii_case(one.as_bytes()))
}

/// Number of quotes and list items that a line begins.
fn nesting(line: &str) -> usize {
    let bytes = line.as_bytes();
    let is_prefix = |b: &&u8| {
        matches!(
            b,
            b'>' | b'-' | b'+' | b'*' | b'.' | b')' | b' ' | b'\t' | b'0'..=b'9'
        )
    };
    let prefix = bytes.iter().take_while(is_prefix).enumerate();
    let begins = prefix.filter(|&(at, b)| match b {
        b'>' => true,
        b'-' | b'+' | b'*' | b'.' | b')' => matches!(bytes.get(at + 1), None | Some(b' ' | b'\t')),
        _ => false,
    });
    begins.count()
}

/// HTML that ends in an error where it becomes too long.
#[derive(Default)]
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > HTML_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Markdown as safe HTML. `None`: the HTML would be too long.
fn markdown(text: &str) -> Option<String> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut out = Bounded::default();
    html::write_html_fmt(&mut out, safe(Parser::new_ext(text, options))).ok()?;
    Some(out.0)
}

/// The same events without HTML, without addresses that act, and without inline styles, which the page's policy blocks.
/// Headings are one level lower, below that of the page.
fn safe<'t>(events: impl Iterator<Item = Event<'t>>) -> impl Iterator<Item = Event<'t>> {
    // For each open link or image, how it ends; `None`: only its text remains.
    let mut ends: Vec<Option<TagEnd>> = Vec::new();
    events.filter_map(move |event| {
        Some(match event {
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
            Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
            Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
            Event::Start(Tag::Heading { level, .. }) => Event::Start(Tag::Heading {
                level: lower(level),
                id: None,
                classes: Vec::new(),
                attrs: Vec::new(),
            }),
            Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(lower(level))),
            Event::Start(Tag::Table(columns)) => {
                Event::Start(Tag::Table(vec![Alignment::None; columns.len()]))
            }
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            }) => {
                let is_safe = link_type == LinkType::Email || place(&dest_url) != Place::Acting;
                ends.push(is_safe.then_some(TagEnd::Link));
                is_safe.then_some(Event::Start(Tag::Link {
                    link_type,
                    dest_url,
                    title,
                    id,
                }))?
            }
            Event::Start(Tag::Image {
                link_type,
                dest_url,
                title,
                id,
            }) => match place(&dest_url) {
                Place::Here => {
                    ends.push(Some(TagEnd::Image));
                    Event::Start(Tag::Image {
                        link_type,
                        dest_url,
                        title,
                        id,
                    })
                }
                // A link cannot be in a link.
                Place::Elsewhere if !ends.contains(&Some(TagEnd::Link)) => {
                    ends.push(Some(TagEnd::Link));
                    Event::Start(Tag::Link {
                        link_type: LinkType::Inline,
                        dest_url,
                        title,
                        id,
                    })
                }
                Place::Elsewhere | Place::Acting => {
                    ends.push(None);
                    return None;
                }
            },
            Event::End(TagEnd::Link | TagEnd::Image) => Event::End(ends.pop().flatten()?),
            event => event,
        })
    })
}

/// The next lower level of a heading.
fn lower(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H2,
        HeadingLevel::H2 => HeadingLevel::H3,
        HeadingLevel::H3 => HeadingLevel::H4,
        HeadingLevel::H4 => HeadingLevel::H5,
        HeadingLevel::H5 | HeadingLevel::H6 => HeadingLevel::H6,
    }
}

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// To this site.
    Here,
    /// To a web address or a mailbox.
    Elsewhere,
    /// To what a browser runs or hands to other programs (`javascript:`, `data:` and all other schemes).
    Acting,
}

/// Where a browser would go: it removes tabs and line ends from an address, and control characters and spaces at its start
/// (WHATWG URL, basic URL parser). It takes a backslash for a slash.
fn place(address: &str) -> Place {
    let address: String = address
        .chars()
        .filter(|c| !matches!(c, '\t' | '\n' | '\r'))
        .skip_while(|&c| c <= ' ')
        .map(|c| if c == '\\' { '/' } else { c })
        .collect();
    if address.starts_with("//") {
        return Place::Elsewhere;
    }
    let scheme = match address.find([':', '/', '?', '#']) {
        Some(end) if address[end..].starts_with(':') => &address[..end],
        _ => return Place::Here,
    };
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" | "mailto" => Place::Elsewhere,
        _ => Place::Acting,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::item;
    use super::*;

    fn shown(name: &str, content: &[u8]) -> String {
        let mut out = String::new();
        Readme::of(name.as_bytes(), content).write(&mut out);
        out
    }

    #[test]
    fn markdown_becomes_html() {
        let text = "\u{feff}# Title\n\nA *word*, `code <b>`, ~~old~~ [here](a%20b.txt \"t\") and <https://a.test/?x&y>.\n\n\
                    | a | b |\n|:-:|--:|\n| 1 | 2 |\n\n- [x] done\n\n```sh\nls <dir>\n```\n\n![ours](img/a.png)\n";
        insta::assert_snapshot!(shown("README.md", text.as_bytes()));
    }

    #[test]
    fn nothing_in_a_readme_acts() {
        let text = "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\na <b onclick=\"x()\">b</b> c\n\n\
            [a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](\u{1}javascript:alert(1)) [d](java&#9;script:alert(1))\n\
            [e](data:text/html,x) [f](vbscript:x) [g](&#106;avascript:alert(1)) [h](<java\\\nscript:x>)\n\n\
            ![i](https://b.test/pixel.png) ![j](//b.test/p.png) ![k](\\\\\\\\b.test/p.png) ![l](data:image/png;base64,x)\n\n\
            [![m](https://b.test/badge.svg)](https://b.test/) <javascript:alert(1)> <x@y.test>\n\n\
            [n](\"onmouseover=\"alert(1)) [o](a 'x\" onclick=\"y')\n\n# h {onclick=x()}\n\n```\"><script>\n</code></pre><script>\n```\n";
        let html = shown("README.md", text.as_bytes());
        for bad in [
            "<script",
            "<img",
            "<b ",
            "href=\"javascript",
            "href=\"data",
            "href=\"vbscript",
        ] {
            assert!(!html.to_lowercase().contains(bad), "{bad}: {html}");
        }
        for tag in html.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
            for attribute in [" style=\"", " onclick=\"", " onmouseover=\"", " onerror="] {
                assert!(!tag.contains(attribute), "<{tag}>: {html}");
            }
        }
        for good in [
            "&lt;script&gt;alert(1)&lt;/script&gt;",
            "<a href=\"https://b.test/pixel.png\">i</a>",
            "<a href=\"//b.test/p.png\">j</a>",
            "<a href=\"https://b.test/\">m</a>",
            "<a href=\"mailto:x@y.test\">x@y.test</a>",
        ] {
            assert!(html.contains(good), "{good}: {html}");
        }
        let opened = html.matches("<a ").count();
        assert_eq!(html.matches("</a>").count(), opened, "{html}");
    }

    #[test]
    fn addresses_are_read_as_browsers_read_them() {
        for (address, want) in [
            ("a/b.txt", Place::Here),
            ("", Place::Here),
            ("#part", Place::Here),
            ("?q=a:b", Place::Here),
            ("./a:b", Place::Here),
            ("/a", Place::Here),
            ("//b.test", Place::Elsewhere),
            ("\\\\b.test", Place::Elsewhere),
            ("/\t/b.test", Place::Elsewhere),
            (" https://b.test", Place::Elsewhere),
            ("HTTP:x", Place::Elsewhere),
            ("mailto:a@b.test", Place::Elsewhere),
            ("a:b", Place::Acting),
            (" javascript:x", Place::Acting),
            ("java\nscript:x", Place::Acting),
            ("\u{0}\u{1f}javascript:x", Place::Acting),
            ("file:///etc/passwd", Place::Acting),
        ] {
            assert_eq!(place(address), want, "{address:?}");
        }
    }

    #[test]
    fn plain_text_keeps_its_lines() {
        let html = shown("README.txt", b"a <b>\n\t# c\r\n\x1b[1m");
        assert!(
            html.contains("<pre class=\"text\">a &lt;b&gt;\n\t# c\n\u{fffd}[1m</pre>"),
            "{html}"
        );
    }

    #[test]
    fn html_has_a_largest_size() {
        // Few characters become an element each.
        let many = "*\n\n".repeat(HTML_BYTES_MAX / 9);
        assert!(shown("README.md", many.as_bytes()).contains("too large"));
        assert!(!shown("README.md", &many.as_bytes()[..1_000]).contains("too large"));
        let text = "a".repeat(HTML_BYTES_MAX - "<p></p>\n".len());
        assert!(!shown("README.md", text.as_bytes()).contains("too large"));
        assert!(shown("README.md", (text + "a").as_bytes()).contains("too large"));
    }

    #[test]
    fn what_is_nested_too_deeply_is_text() {
        for (marker, element) in [(">", "<blockquote>"), ("- ", "<ul>"), ("1) ", "<ol>")] {
            let at_most = marker.repeat(NESTING_MAX) + "a\n\nb";
            let html = shown("README.md", at_most.as_bytes());
            assert_eq!(html.matches(element).count(), NESTING_MAX, "{html}");
            for ending in ["\n", "\r\n", "\r"] {
                let deeper = format!("first{ending}{ending}{marker}{at_most}");
                let html = shown("README.md", deeper.as_bytes());
                assert!(html.contains("<pre class=\"text\">first\n\n"), "{html}");
            }
        }
        // A line across the page is not nested.
        let ruler = "-".repeat(1_000);
        assert!(shown("README.md", ruler.as_bytes()).contains("<hr />"));
    }

    #[test]
    fn the_best_name_is_chosen() {
        let items = |names: &[&str]| {
            names
                .iter()
                .map(|name| item(name.as_bytes(), Some(1), 0))
                .collect::<Vec<_>>()
        };
        for (names, want) in [
            (&["README", "a", "readme.TXT"][..], Some("readme.TXT")),
            (&["README.txt", "ReadMe.md", "README.markdown"], Some("ReadMe.md")),
            (&["README.html", "README.md.bak", "xREADME.md"], None),
        ] {
            let items = items(names);
            assert_eq!(Readme::find(&items), want.map(str::as_bytes), "{names:?}");
        }
        assert_eq!(Readme::find(&[item(b"README.md", None, 0)]), None, "a directory");
    }
}
