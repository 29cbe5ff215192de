//! What 103 (Early Hints, RFC 8297) says of a page before the page is ready: the style sheets and scripts that it
//! embedded when it was last loaded, as a `Link` field line.
//!
//! ```text
//!  page loaded ──▶ scan (the thread that loads ahead) ──▶ note        request that waits for a job ──▶ of
//!  page gone, or not cached ──▶ forget
//! ```
//! A note outlives the page in the cache: a page that is cached is answered at once and needs no hint. The next load
//! corrects the note of a page that has changed, and forgets the note of one that was deleted. Until then a hint may name
//! a file that the page no longer embeds, which costs a browser one request.

use crate::path;
use crate::references::Embedded;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of pages; the one that was noted first is forgotten first.
const PAGES_MAX: usize = 1_024;

/// Maximum number of links of a page: browsers preload what comes first, and each takes bandwidth from the page.
const LINKS_MAX: usize = 16;

/// Maximum bytes of a field line.
const LINE_BYTES_MAX: usize = 2_048;

/// The notes of a site, by path.
#[derive(Debug, Default)]
pub(super) struct Hints {
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    lines: HashMap<Box<[u8]>, Arc<str>>,
    /// In the order in which they were noted.
    pages: VecDeque<Box<[u8]>>,
}

impl Notes {
    fn forget(&mut self, page: &[u8]) {
        if self.lines.remove(page).is_some() {
            self.pages.retain(|known| **known != *page);
        }
    }
}

impl Hints {
    /// Notes what a page embeds.
    pub(super) fn note(&self, page: &[u8], embedded: &[Embedded]) {
        let line = line(embedded);
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(line) = line else {
            notes.forget(page);
            return;
        };
        if let Some(known) = notes.lines.get_mut(page) {
            *known = line;
            return;
        }
        if notes.pages.len() >= PAGES_MAX
            && let Some(first) = notes.pages.pop_front()
        {
            notes.lines.remove(&first);
        }
        notes.pages.push_back(page.into());
        notes.lines.insert(page.into(), line);
    }

    /// Drops the note of a path that no longer leads to a page.
    pub(super) fn forget(&self, page: &[u8]) {
        self.notes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .forget(page);
    }

    /// The value of `Link` for this page, if one is known.
    pub(super) fn of(&self, page: &[u8]) -> Option<Arc<str>> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.lines.get(page).cloned()
    }
}

/// The value of a `Link` field (RFC 8288) that preloads these files; `None` if there are none.
fn line(embedded: &[Embedded]) -> Option<Arc<str>> {
    let mut line = String::new();
    let mut encoded = Vec::new();
    let links = embedded.iter().filter_map(|one| Some((one, one.purpose?)));
    for (one, purpose) in links.take(LINKS_MAX) {
        encoded.clear();
        path::encode(&one.path, &mut encoded);
        let target = String::from_utf8_lossy(&encoded);
        let link = format!("<{target}>; rel=preload; as={purpose}");
        if line.len() + link.len() + 2 > LINE_BYTES_MAX {
            break;
        }
        if !line.is_empty() {
            line.push_str(", ");
        }
        line.push_str(&link);
    }
    (!line.is_empty()).then(|| line.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedded(path: &str, purpose: Option<&'static str>) -> Embedded {
        Embedded {
            path: path.as_bytes().into(),
            purpose,
        }
    }

    #[test]
    fn a_page_is_noted_with_what_it_embedded_last() {
        let hints = Hints::default();
        let sheet = embedded("/a b>.css", Some("style"));
        hints.note(
            b"/",
            &[embedded("/a.png", None), sheet, embedded("/a.js", Some("script"))],
        );
        let line = "</a%20b%3E.css>; rel=preload; as=style, </a.js>; rel=preload; as=script";
        assert_eq!(hints.of(b"/").as_deref(), Some(line));
        hints.note(b"/", &[embedded("/b.js", Some("script"))]);
        assert_eq!(hints.of(b"/").as_deref(), Some("</b.js>; rel=preload; as=script"));
        hints.note(b"/", &[embedded("/a.png", None)]);
        assert_eq!(hints.of(b"/"), None);
    }

    #[test]
    fn bounds_hold() {
        let hints = Hints::default();
        let many: Vec<_> = (0..100)
            .map(|n| embedded(&format!("/{n}.js"), Some("script")))
            .collect();
        for page in 0..=PAGES_MAX {
            hints.note(format!("/{page}").as_bytes(), &many);
        }
        assert_eq!(hints.of(b"/0"), None, "the first is forgotten");
        let line = hints.of(b"/1").expect("a line");
        assert_eq!(line.matches("rel=preload").count(), LINKS_MAX);
        let long = format!("/{}.js", "x".repeat(500));
        let long: Vec<_> = (0..9)
            .map(|n| embedded(&format!("{long}{n}"), Some("script")))
            .collect();
        hints.note(b"/long", &long);
        let line = hints.of(b"/long").expect("a line");
        assert!(
            line.len() <= LINE_BYTES_MAX && line.contains("rel=preload"),
            "{}",
            line.len()
        );
        let notes = hints.notes.lock().expect("no panic");
        assert_eq!((notes.lines.len(), notes.pages.len()), (PAGES_MAX, PAGES_MAX));
    }
}
