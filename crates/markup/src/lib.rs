//! What pages and style sheets embed, as they write it: references found while the text arrives.
//!
//! Decides what counts as embedded. Refuses to know what a reference is relative to, what is fetched, and
//! whether it exists: a [`Sink`] is told, once for each place where a reference stands.

pub mod css;
pub mod html;
pub mod media;

/// What is asked for, as far as the place says where it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A picture, or a list of several that a client chooses from.
    Image,
    /// A style sheet.
    Style,
    /// A script.
    Script,
    /// A page within the page.
    Frame,
    /// Anything else: fonts, manifests, embedded documents that are no pages.
    Other,
}

/// Somebody who wants to know.
pub trait Sink {
    /// A reference, with its character references or escapes decoded. Never empty.
    fn embed(&mut self, kind: Kind, reference: &[u8]);

    /// The first element `base` says this.
    fn base(&mut self, href: &[u8]);

    /// A style sheet that stands in the page: that of an element, or of one attribute.
    fn style(&mut self, _sheet: &[u8]) {}

    /// A style sheet that stands in an attribute.
    fn style_attribute(&mut self, sheet: &[u8]) {
        self.style(sheet);
    }

    /// A page that stands in an attribute of this one, `srcdoc`, with its character references decoded.
    fn document(&mut self, _page: &[u8]) {}

    /// Whether it is interested in pages that stand in the page.
    fn wants_documents(&self) -> bool {
        false
    }

    /// Whether it is interested in style sheets that stand in the page.
    fn wants_styles(&self) -> bool {
        false
    }

    /// Whether it has enough; nothing is looked at then.
    fn is_full(&self) -> bool {
        false
    }
}

/// Scans any bytes, whole and in pieces, as a page and as a style sheet, and checks what must hold; a fuzz
/// target and a property test.
///
/// # Panics
/// If it does not hold.
pub fn fuzz(data: &[u8]) {
    let (&[size], text) = data.split_first_chunk().unwrap_or((&[0], b""));
    let bounds = html::Bounds {
        value_bytes_max: 64,
        pending_bytes_max: 1 << 16,
    };
    let mut whole = Heard::default();
    html::read(text, bounds, &mut whole);
    let mut cut = Heard::default();
    let mut scan = html::Scan::new(bounds);
    for piece in text.chunks(1 + usize::from(size)) {
        scan.push(piece, &mut cut);
    }
    scan.finish(&mut cut);
    assert_eq!(whole.0, cut.0, "the same however it is cut");
    let mut found = Vec::new();
    css::scan(text, |_, reference| found.push(reference.to_vec()));
    media::may_match(text);
    assert!(found.iter().all(|reference| !reference.is_empty()));
    let total: usize = found.iter().map(Vec::len).sum();
    // An escape or a byte that is no UTF-8 becomes three bytes at most.
    assert!(total <= text.len() * 3, "nothing is made up");
}

/// Everything a scan says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard(Vec<(Option<Kind>, Vec<u8>)>);

impl Sink for Heard {
    fn embed(&mut self, kind: Kind, reference: &[u8]) {
        assert!(!reference.is_empty());
        self.0.push((Some(kind), reference.to_vec()));
    }

    fn base(&mut self, href: &[u8]) {
        self.0.push((None, href.to_vec()));
    }

    fn style(&mut self, sheet: &[u8]) {
        css::scan(sheet, |kind, reference| self.embed(kind, reference));
    }

    fn wants_styles(&self) -> bool {
        true
    }

    fn document(&mut self, page: &[u8]) {
        self.0.push((None, page.to_vec()));
    }

    fn wants_documents(&self) -> bool {
        true
    }
}
