//! The streaming filter that sees what a page embeds. It reads bytes as they come, holds one tag of
//! bounded size at a time, and stops when it has seen enough.
//!
//! Tokenizing is `html5gum`'s work (WHATWG HTML section 13.2.5); no tree is built. What follows a
//! start tag `script`, `style`, `noscript`, `textarea` and the like is text, as it is for a browser
//! that runs scripts. Counted as embedded: images with all their sources, style sheets, scripts, icons,
//! preloads, posters, embedded documents that are no pages. Not seen: what a style sheet or a script
//! asks for.

use super::{Base, Limits};
use html5gum::{Emitter, Error, IoReader, State, Tokenizer, emitters::naive_next_state};
use std::io::Read;

/// No name of an element or attribute that matters is longer.
const NAME_MAX: usize = 24;

/// A value that lists several references may have this many times the bytes of one.
const LIST_MAX: usize = 8;

/// One read takes at most this much.
const CHUNK: usize = 4 << 10;

/// The paths a page embeds, each once, in the order in which it names them. A page that cannot be
/// read to its end gives what was found so far.
pub fn scan(page: impl Read, base: Base, limits: &Limits) -> Vec<Box<[u8]>> {
    let page = Chunks(page.take(limits.page_bytes_max));
    let mut found = Vec::new();
    let collector = Collector::new(base, *limits, &mut found);
    // A token comes when there is room for nothing more.
    let _ = Tokenizer::new_with_emitter(IoReader::new(page), collector).next();
    found
}

/// Reads that leave room in the tokenizer's buffer.
struct Chunks<R>(R);

impl<R: Read> Read for Chunks<R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let most = buf.len().min(CHUNK);
        self.0.read(&mut buf[..most])
    }
}

/// Bytes up to a bound.
#[derive(Debug, Default)]
struct Text {
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Text {
    fn clear(&mut self) {
        self.bytes.clear();
        self.is_whole = true;
    }

    fn push(&mut self, more: &[u8], max: usize) {
        if self.bytes.len() + more.len() <= max {
            self.bytes.extend_from_slice(more);
        } else {
            self.is_whole = false;
        }
    }

    /// All of it, or nothing.
    fn get(&self) -> &[u8] {
        if self.is_whole { &self.bytes } else { b"" }
    }

    fn is(&self, name: &[u8]) -> bool {
        self.get().eq_ignore_ascii_case(name)
    }
}

/// The attributes of one tag that can matter.
#[derive(Debug, Default)]
struct Attributes {
    /// `src`, `href` of an SVG image, `data`, `poster`, `background`.
    source: Text,
    poster: Text,
    srcset: Text,
    href: Text,
    rel: Text,
    kind: Text,
}

#[derive(Debug)]
struct Collector<'f> {
    limits: Limits,
    base: Base,
    is_based: bool,
    found: &'f mut Vec<Box<[u8]>>,
    tag: Text,
    is_end: bool,
    last_start_tag: Text,
    attribute: Text,
    value: Text,
    attributes: Attributes,
}

impl<'f> Collector<'f> {
    fn new(base: Base, limits: Limits, found: &'f mut Vec<Box<[u8]>>) -> Collector<'f> {
        Collector {
            limits,
            base,
            is_based: false,
            found,
            tag: Text::default(),
            is_end: false,
            last_start_tag: Text::default(),
            attribute: Text::default(),
            value: Text::default(),
            attributes: Attributes::default(),
        }
    }

    fn begin_tag(&mut self, is_end: bool) {
        self.is_end = is_end;
        self.tag.clear();
        self.attribute.clear();
        self.value.clear();
        let all = &mut self.attributes;
        for text in [
            &mut all.source,
            &mut all.poster,
            &mut all.srcset,
            &mut all.href,
            &mut all.rel,
            &mut all.kind,
        ] {
            text.clear();
        }
    }

    /// Puts the attribute just read where its tag's end will find it; the first of a name counts.
    fn end_attribute(&mut self) {
        let all = &mut self.attributes;
        let place = match self.attribute.get() {
            b"src" | b"data" | b"background" => &mut all.source,
            b"poster" => &mut all.poster,
            b"srcset" | b"imagesrcset" => &mut all.srcset,
            b"href" | b"xlink:href" => &mut all.href,
            b"rel" => &mut all.rel,
            b"type" => &mut all.kind,
            _ => return,
        };
        if place.bytes.is_empty() {
            std::mem::swap(place, &mut self.value);
        }
    }

    fn end_tag(&mut self) {
        let all = std::mem::take(&mut self.attributes);
        match self.tag.get() {
            b"base" if !self.is_based && !all.href.get().is_empty() => {
                self.is_based = true;
                self.base.rebase(all.href.get());
            }
            b"img" | b"source" => {
                // What a `source` of sound or video names is not fetched to show the page.
                if self.tag.is(b"img") {
                    self.add(all.source.get());
                }
                self.add_list(all.srcset.get());
            }
            b"script" | b"embed" => self.add(all.source.get()),
            b"object" if !all.kind.get().starts_with(b"text/html") => self.add(all.source.get()),
            b"input" if all.kind.is(b"image") => self.add(all.source.get()),
            b"video" => self.add(all.poster.get()),
            b"image" => self.add(all.href.get()),
            b"link" if is_embedded(all.rel.get()) => {
                self.add(all.href.get());
                self.add_list(all.srcset.get());
            }
            b"body" | b"table" | b"tr" | b"td" | b"th" => self.add(all.source.get()),
            _ => {}
        }
        self.attributes = all;
    }

    fn add(&mut self, reference: &[u8]) {
        if self.is_full() {
            return;
        }
        if let Some(path) = self.base.resolve(reference, &self.limits)
            && !self.found.contains(&path)
        {
            self.found.push(path);
        }
    }

    /// The candidates of a `srcset` (WHATWG HTML section 4.8.4.2.1), without their descriptors.
    fn add_list(&mut self, mut list: &[u8]) {
        loop {
            let begin = list.iter().position(|b| !b.is_ascii_whitespace() && *b != b',');
            list = match begin {
                Some(begin) => &list[begin..],
                None => return,
            };
            let end = list
                .iter()
                .position(u8::is_ascii_whitespace)
                .unwrap_or(list.len());
            let (candidate, rest) = list.split_at(end);
            // A comma at its end says that no descriptor follows.
            let trimmed = candidate
                .iter()
                .rposition(|&b| b != b',')
                .map_or(0, |last| last + 1);
            self.add(&candidate[..trimmed]);
            list = rest;
            if trimmed == candidate.len() {
                let comma = list.iter().position(|&b| b == b',').unwrap_or(list.len());
                list = &list[comma..];
            }
        }
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.limits.references_max
    }
}

/// Whether what a link of this relation names is fetched to show the page.
fn is_embedded(rel: &[u8]) -> bool {
    rel.split(u8::is_ascii_whitespace).any(|relation| {
        [
            "stylesheet",
            "icon",
            "preload",
            "modulepreload",
            "apple-touch-icon",
            "manifest",
        ]
        .iter()
        .any(|known| relation.eq_ignore_ascii_case(known.as_bytes()))
    })
}

impl Emitter for Collector<'_> {
    type Token = ();

    fn pop_token(&mut self) -> Option<()> {
        self.is_full().then_some(())
    }

    fn set_last_start_tag(&mut self, name: Option<&[u8]>) {
        self.last_start_tag.clear();
        self.last_start_tag.push(name.unwrap_or_default(), NAME_MAX);
    }

    fn init_start_tag(&mut self) {
        self.begin_tag(false);
    }

    fn init_end_tag(&mut self) {
        self.begin_tag(true);
    }

    fn push_tag_name(&mut self, name: &[u8]) {
        self.tag.push(name, NAME_MAX);
    }

    fn init_attribute(&mut self) {
        self.end_attribute();
        self.attribute.clear();
        self.value.clear();
    }

    fn push_attribute_name(&mut self, name: &[u8]) {
        self.attribute.push(name, NAME_MAX);
    }

    fn push_attribute_value(&mut self, value: &[u8]) {
        self.value.push(value, self.limits.reference_bytes_max * LIST_MAX);
    }

    fn emit_current_tag(&mut self) -> Option<State> {
        self.end_attribute();
        if self.is_end {
            return None;
        }
        self.end_tag();
        self.last_start_tag.clear();
        self.last_start_tag.push(self.tag.get(), NAME_MAX);
        naive_next_state(self.tag.get())
    }

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.is_end && !self.tag.get().is_empty() && self.tag.get() == self.last_start_tag.get()
    }

    fn should_emit_errors(&mut self) -> bool {
        false
    }

    fn emit_eof(&mut self) {}
    fn emit_error(&mut self, _: Error) {}
    fn emit_string(&mut self, _: &[u8]) {}
    fn emit_current_comment(&mut self) {}
    fn emit_current_doctype(&mut self) {}
    fn init_comment(&mut self) {}
    fn init_doctype(&mut self) {}
    fn push_comment(&mut self, _: &[u8]) {}
    fn push_doctype_name(&mut self, _: &[u8]) {}
    fn push_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn push_doctype_system_identifier(&mut self, _: &[u8]) {}
    fn set_doctype_public_identifier(&mut self, _: &[u8]) {}
    fn set_doctype_system_identifier(&mut self, _: &[u8]) {}
    fn set_force_quirks(&mut self) {}
    fn set_self_closing(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(page: impl Read, limits: &Limits) -> Vec<String> {
        scan(page, Base::of_page(b"/x/page.html", false), limits)
            .iter()
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect()
    }

    /// The same, cut everywhere.
    struct Dribble<'a>(&'a [u8]);

    impl Read for Dribble<'_> {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            let n = 1.min(buf.len());
            self.0.read(&mut buf[..n])
        }
    }

    #[track_caller]
    fn check(page: &str, want: &[&str]) {
        assert_eq!(found(page.as_bytes(), &Limits::DEFAULT), want, "{page}");
        assert_eq!(found(Dribble(page.as_bytes()), &Limits::DEFAULT), want, "{page}");
    }

    #[test]
    fn what_a_browser_fetches_is_found() {
        check("<img src=a.png>", &["/x/a.png"]);
        check("<IMG ALT='x > y' SRC = \"/a.png\" src=b.png/>", &["/a.png"]);
        check(
            "<img src=a.png srcset='b.png 1x, c.png 2x,d.png,  e.png' >",
            &["/x/a.png", "/x/b.png", "/x/c.png", "/x/d.png", "/x/e.png"],
        );
        check(
            "<link rel=stylesheet href=s.css><link href=/f.ico rel='Shortcut ICON'>\
             <link rel=preload as=font href=f.woff2><link rel=canonical href=c.html>\
             <link rel='next' href=n.html>",
            &["/x/s.css", "/f.ico", "/x/f.woff2"],
        );
        check(
            "<script src=a.js></script><script>document.write('<img src=no.png>')</script><img src=b.png>",
            &["/x/a.js", "/x/b.png"],
        );
        check(
            "<picture><source srcset='a.avif, b.avif 2x' type=image/avif><img src=c.jpg></picture>",
            &["/x/a.avif", "/x/b.avif", "/x/c.jpg"],
        );
        check(
            "<video poster=p.jpg src=v.mp4><source src=v.webm></video><input type=IMAGE src=i.png>\
             <input type=text src=no.png><object data=o.svg></object><embed src=e.svg>\
             <svg><image xlink:href=g.png /></svg><body background=bg.gif><td background='cell.gif'>",
            &[
                "/x/p.jpg",
                "/x/i.png",
                "/x/o.svg",
                "/x/e.svg",
                "/x/g.png",
                "/x/bg.gif",
                "/x/cell.gif",
            ],
        );
    }

    #[test]
    fn what_it_does_not_fetch_is_not() {
        check(
            "<!-- <img src=a.png> --><a href=b.html><iframe src=c.html></iframe>",
            &[],
        );
        check(
            "<noscript><img src=a.png></noscript><textarea><img src=b.png></textarea>",
            &[],
        );
        check(
            "<img src='https://cdn.example/a.png'><img src=\"data:image/gif;base64,R0\"><img src>",
            &[],
        );
        check("<img data-src=lazy.png><img src=a.png", &[]);
        check("</img src=a.png>", &[]);
    }

    #[test]
    fn entities_bases_and_repetitions() {
        check(
            "<img src='a&amp;b.png'><img src=c.png><img src=./c.png>",
            &["/x/a&b.png", "/x/c.png"],
        );
        check(
            "<base href=/assets/><base href=/no/><img src=a.png><img src=/b.png>",
            &["/assets/a.png", "/b.png"],
        );
        check("<base href=https://cdn.example/><img src=a.png>", &[]);
    }

    #[test]
    fn bounds_hold() {
        let limits = Limits {
            references_max: 3,
            reference_bytes_max: 20,
            page_bytes_max: 200,
        };
        let many: String = (0..9).map(|n| format!("<img src={n}>")).collect();
        assert_eq!(found(many.as_bytes(), &limits), ["/x/0", "/x/1", "/x/2"]);
        let long = format!("<img src={}><img src=a>", "b".repeat(30));
        assert_eq!(found(long.as_bytes(), &limits), ["/x/a"]);
        let late = format!("{}<img src=a>", "-".repeat(200));
        assert_eq!(found(late.as_bytes(), &limits), [""; 0]);
        // What never ends is looked at up to the bound, and held no longer than a short one.
        for start in [
            "<",
            "<img ",
            "<img src='",
            "<img srcset='",
            "<!--",
            "<script>",
            "&",
        ] {
            let endless = start.as_bytes().chain(std::io::repeat(b'a'));
            assert_eq!(found(endless, &Limits::DEFAULT), [""; 0], "{start}");
        }
    }

    #[test]
    fn a_page_that_breaks_off_gives_what_was_found() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("the disk"))
            }
        }
        let page = b"<img src=a.png><img src=b.png".chain(Broken);
        assert_eq!(found(page, &Limits::DEFAULT), ["/x/a.png"]);
    }

    proptest! {
        /// However a page is cut, it says the same; and no bytes make the scan fail or leave the site.
        #[test]
        fn cuts_change_nothing(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("<img src="), Just("<link rel=icon href='"), Just("'"), Just(">"), Just("<script>"),
                    Just("</script>"), Just("<!--"), Just("-->"), Just("a.png"), Just("../b"), Just(" srcset=\""),
                    Just("x 1x, y"), Just("\""), Just("&amp;"), Just("<base href=/q/>"), Just("\r\n"), Just("<"),
                    Just("\u{e9}"), Just("<![CDATA["), Just("</"), Just("<style>")
                ],
                0..40,
            ),
            options in any::<u8>(),
            size in any::<u8>(),
        ) {
            super::super::fuzz(&[&[options, size], pieces.concat().as_bytes()].concat());
        }

        #[test]
        fn any_bytes_do(page in proptest::collection::vec(any::<u8>(), 0..400)) {
            super::super::fuzz(&page);
        }
    }
}
