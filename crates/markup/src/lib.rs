//! Finds the references in pages and style sheets, as written, while the text arrives.
//!
//! Decides which references count as embedded. Does not resolve them, fetch them or check that the target
//! exists: it reports each to a [`Sink`], once per place.

pub mod css;
pub mod html;
pub mod media;

/// The kind of an embedded resource, as far as the reference shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An image, or one candidate of a list from which a client chooses.
    Image,
    /// A style sheet.
    Style,
    /// A script.
    Script,
    /// A page inside the page.
    Frame,
    /// A font.
    Font,
    /// Any other resource: manifests, text tracks, embedded documents that are not pages.
    Other,
}

/// How an element wants its resource loaded: what a browser derives the priority of the request from. The default is
/// that of an element without further attributes in the head of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loading {
    /// What may go on before the resource is there.
    pub timing: Timing,
    /// The element's `fetchpriority`.
    pub priority: FetchPriority,
    /// Where in the page the element is.
    pub position: Position,
    /// Whether a preload without further attributes does not serve the reference: a script that is a module, or an
    /// element with `crossorigin` or `integrity` (WHATWG HTML section 2.5.4, W3C Preload section 4).
    pub has_own_mode: bool,
}

/// What may go on before a resource is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// The usual for the kind: a script stops the parser, and a style sheet stops rendering.
    #[default]
    Usual,
    /// A script with `async`: everything.
    Async,
    /// A script with `defer`: parsing.
    Defer,
    /// A script of type `module`: parsing.
    Module,
    /// A preload: everything. It only announces what another element or style sheet uses.
    Preload,
    /// A style sheet that is alternate or for other media than screens: everything.
    OtherMedia,
    /// An image or frame with `loading=lazy`: everything.
    Lazy,
}

/// The attribute `fetchpriority` (WHATWG HTML section 2.5.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FetchPriority {
    /// No preference.
    #[default]
    Auto,
    /// More urgent than others of its kind.
    High,
    /// Less urgent than others of its kind.
    Low,
}

impl FetchPriority {
    /// The meaning of an attribute value; unknown values mean `auto`.
    pub fn of(value: &[u8]) -> FetchPriority {
        match value {
            _ if value.eq_ignore_ascii_case(b"high") => FetchPriority::High,
            _ if value.eq_ignore_ascii_case(b"low") => FetchPriority::Low,
            _ => FetchPriority::Auto,
        }
    }
}

/// The position of an element in its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Position {
    /// In the head.
    #[default]
    Head,
    /// In the body, before the first image.
    Body,
    /// In the body, after an image.
    AfterImage,
}

/// A receiver of references.
pub trait Sink {
    /// Receives a reference, with character references or escapes decoded. Never empty.
    fn embed(&mut self, kind: Kind, reference: &[u8], loading: Loading);

    /// Receives the `href` of the first `base` element that has one.
    fn base(&mut self, href: &[u8]);

    /// Receives a style sheet inside the page: that of a `style` element or, by default, of a `style`
    /// attribute.
    fn style(&mut self, _sheet: &[u8]) {}

    /// Receives the style sheet of a `style` attribute.
    fn style_attribute(&mut self, sheet: &[u8]) {
        self.style(sheet);
    }

    /// Receives a page inside an attribute (`srcdoc`), with character references decoded.
    fn document(&mut self, _page: &[u8]) {}

    /// Whether to call [`Sink::document`].
    fn wants_documents(&self) -> bool {
        false
    }

    /// Whether to call [`Sink::style`] and [`Sink::style_attribute`].
    fn wants_styles(&self) -> bool {
        false
    }

    /// Whether to stop: no further references are reported.
    fn is_full(&self) -> bool {
        false
    }
}

/// Scans any bytes as a page, whole and in pieces, and as a style sheet, and checks invariants; for a fuzz
/// target and a property test.
///
/// # Panics
/// If an invariant is violated.
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
    assert_eq!(whole.0, cut.0, "pieces change nothing");
    let mut found = Vec::new();
    css::scan(text, |_, reference| found.push(reference.to_vec()));
    media::may_match(text);
    assert!(found.iter().all(|reference| !reference.is_empty()));
    let total: usize = found.iter().map(Vec::len).sum();
    // An escape or an invalid UTF-8 byte becomes at most three bytes.
    assert!(total <= text.len() * 3, "references come from the text");
}

/// Everything a scan reports.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard(Vec<Told>);

/// A reference, or without the first part another text.
type Told = (Option<(Kind, Loading)>, Vec<u8>);

impl Sink for Heard {
    fn embed(&mut self, kind: Kind, reference: &[u8], loading: Loading) {
        assert!(!reference.is_empty());
        self.0.push((Some((kind, loading)), reference.to_vec()));
    }

    fn base(&mut self, href: &[u8]) {
        self.0.push((None, href.to_vec()));
    }

    fn style(&mut self, sheet: &[u8]) {
        css::scan(sheet, |kind, reference| {
            self.embed(kind, reference, Loading::default())
        });
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
