//! Lists the files that a page embeds, each path once, resolved against the page's base and limited in number.
//!
//! `markup` finds the references. References in style sheets and scripts are not seen.

use super::{Base, Embedded, Limits};
use markup::html::{self, Bounds};
use markup::{Kind, Loading, Sink};
use std::io::Read;

/// A value with several references may have this many times the bytes of one.
const LIST_MAX: usize = 8;

/// The files that a page embeds, each once, in the order of the page. If a page cannot be read to its end, the result
/// covers the part that was read.
pub fn scan(page: impl Read, base: Base, limits: &Limits) -> Vec<Embedded> {
    let mut paths = Paths {
        base,
        limits: *limits,
        found: Vec::new(),
    };
    let bounds = Bounds {
        value_bytes_max: limits.reference_bytes_max * LIST_MAX,
        ..Bounds::DEFAULT
    };
    html::read(page.take(limits.page_bytes_max), bounds, &mut paths);
    paths.found
}

struct Paths {
    base: Base,
    limits: Limits,
    found: Vec<Embedded>,
}

impl Paths {
    fn add(&mut self, kind: Kind, reference: &[u8], purpose: Option<&'static str>) {
        // A frame is a page with its own references.
        if kind != Kind::Frame
            && let Some(path) = self.base.resolve(reference, &self.limits)
            && !self.found.iter().any(|known| known.path == path)
        {
            self.found.push(Embedded { path, purpose });
        }
    }
}

impl Sink for Paths {
    fn embed(&mut self, kind: Kind, reference: &[u8], loading: Loading) {
        let purpose = match kind {
            // With a query, a resource of that name is another one.
            _ if loading.has_own_mode || reference.contains(&b'?') => None,
            Kind::Style => Some("style"),
            Kind::Script => Some("script"),
            Kind::Image | Kind::Frame | Kind::Font | Kind::Other => None,
        };
        self.add(kind, reference, purpose);
    }

    fn base(&mut self, href: &[u8]) {
        self.base.rebase(href);
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.limits.references_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(page: impl Read, limits: &Limits) -> Vec<String> {
        scan(page, Base::of_page(b"/x/page.html", false), limits)
            .iter()
            .map(|one| String::from_utf8_lossy(&one.path).into_owned())
            .collect()
    }

    /// Returns the data one byte at a time.
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
    fn what_a_preload_serves_is_known_as_such() {
        let page = b"<link rel=stylesheet href=a.css><script src=a.js></script><img src=a.png>\
            <script type=module src=b.js></script><script crossorigin src=c.js></script>\
            <link rel=stylesheet integrity=sha256-x href=b.css><script src=d.js?v=1></script>";
        let found = scan(&page[..], Base::of_page(b"/", false), &Limits::DEFAULT);
        let purposes: Vec<_> = found.iter().map(|one| (&one.path[..], one.purpose)).collect();
        assert_eq!(
            purposes,
            [
                (&b"/a.css"[..], Some("style")),
                (b"/a.js", Some("script")),
                (b"/a.png", None),
                (b"/b.js", None),
                (b"/c.js", None),
                (b"/b.css", None),
                (b"/d.js", None),
            ]
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
        // Endless constructs are read up to the limit, and no longer held than short ones.
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
        /// The result does not depend on how a page is split, and no bytes make the scan fail or leave the site.
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
