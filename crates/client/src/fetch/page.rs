//! Content with references: pages as they arrive, style sheets when complete, `Link` field lines at once.
//!
//! Combines the references found by [`markup`] with encoding and base URL. Does not decide which of them to
//! fetch.

use crate::encoding::{self, Characters, join};
use crate::timeline::{Initiator, Role};
use encoding_rs::{Encoding, UTF_8};
use markup::html::{Bounds, Link, Scan};
use markup::{FetchPriority, Kind, Loading, Sink, css};
use url::Url;

/// Deepest nesting of pages in attributes.
const NESTED_MAX: u32 = 8;
/// Most references waiting for the encoding: they contain non-ASCII characters, found before any non-ASCII
/// byte.
const WAITING_MAX: usize = 1_000;

/// A referenced URL and what its reference says of it.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) url: Url,
    pub(super) role: Role,
    pub(super) loading: Loading,
    pub(super) initiator: Initiator,
    /// Redirections that led to it.
    pub(super) redirects: u32,
}

impl Named {
    fn by_content(url: Url, kind: Kind, loading: Loading) -> Named {
        Named {
            url,
            role: role_of(kind),
            loading,
            initiator: Initiator::Content,
            redirects: 0,
        }
    }
}

/// Content that may contain references.
#[derive(Debug)]
pub(super) enum Text {
    None,
    Page(Box<Page>),
    Sheet(Box<Sheet>),
}

/// A page in progress.
#[derive(Debug)]
pub(super) struct Page {
    characters: Characters,
    scan: Scan,
    base: Base,
}

/// A style sheet in progress.
#[derive(Debug)]
pub(super) struct Sheet {
    bytes: Vec<u8>,
    said: Option<&'static Encoding>,
    around: &'static Encoding,
}

/// The base of references.
#[derive(Debug)]
struct Base {
    url: Url,
    /// The encoding of queries; `None` while undecided.
    encoding: Option<&'static Encoding>,
    found: Vec<Named>,
    waiting: Vec<(Kind, Loading, String, Url)>,
    depth: u32,
}

fn role_of(kind: Kind) -> Role {
    match kind {
        Kind::Image => Role::Image,
        Kind::Style => Role::Style,
        Kind::Script => Role::Script,
        Kind::Frame => Role::Frame,
        Kind::Font => Role::Font,
        Kind::Other => Role::Other,
    }
}

impl Base {
    fn of(url: &Url, encoding: Option<&'static Encoding>) -> Base {
        Base {
            url: url.clone(),
            encoding,
            found: Vec::new(),
            waiting: Vec::new(),
            depth: 0,
        }
    }

    fn sheet(&mut self, sheet: &[u8]) {
        css::scan(sheet, |kind, reference| {
            self.embed(kind, reference, Loading::default())
        });
    }

    fn decided(&mut self, encoding: Option<&'static Encoding>) {
        if self.encoding.is_none() && encoding.is_some() {
            self.encoding = encoding;
            for (kind, loading, reference, url) in std::mem::take(&mut self.waiting) {
                let named = join(&url, &reference, encoding.unwrap_or(UTF_8));
                self.found
                    .extend(named.map(|url| Named::by_content(url, kind, loading)));
            }
        }
    }
}

impl Sink for Base {
    fn embed(&mut self, kind: Kind, reference: &[u8], loading: Loading) {
        let reference = String::from_utf8_lossy(reference);
        match self.encoding {
            None if !reference.is_ascii() && self.waiting.len() < WAITING_MAX => {
                self.waiting
                    .push((kind, loading, reference.into_owned(), self.url.clone()));
            }
            encoding => {
                let named = join(&self.url, &reference, encoding.unwrap_or(UTF_8));
                self.found
                    .extend(named.map(|url| Named::by_content(url, kind, loading)));
            }
        }
    }

    fn base(&mut self, href: &[u8]) {
        let encoding = self.encoding.unwrap_or(UTF_8);
        if let Some(url) = join(&self.url, &String::from_utf8_lossy(href), encoding) {
            self.url = url;
        }
    }

    fn style(&mut self, sheet: &[u8]) {
        self.sheet(sheet);
    }

    /// UTF-8 regardless of the page's encoding, as in Chromium.
    fn style_attribute(&mut self, sheet: &[u8]) {
        let encoding = self.encoding.replace(UTF_8);
        self.sheet(sheet);
        self.encoding = encoding;
    }

    fn wants_styles(&self) -> bool {
        true
    }

    /// A page in an attribute has this page's base URL and is always in UTF-8.
    fn document(&mut self, page: &[u8]) {
        if self.depth >= NESTED_MAX {
            return;
        }
        let mut inner = Base {
            depth: self.depth + 1,
            ..Base::of(&self.url, Some(UTF_8))
        };
        let mut scan = Scan::new(Bounds::DEFAULT);
        scan.push(page, &mut inner);
        scan.finish(&mut inner);
        self.found.append(&mut inner.found);
    }

    fn wants_documents(&self) -> bool {
        true
    }
}

impl Text {
    /// The parser for an object with this role and `Content-Type`; `around` is the encoding of the referring
    /// object.
    pub(super) fn of(role: Role, media: &str, url: &Url, around: &'static Encoding) -> Text {
        let kind = media.split(';').next().unwrap_or_default().trim();
        let said = encoding::declared(media);
        let is_page = matches!(role, Role::Page | Role::Frame);
        if is_page && matches!(kind, "text/html" | "application/xhtml+xml" | "") {
            Text::Page(Box::new(Page {
                characters: Characters::new(said, around),
                scan: Scan::new(Bounds::DEFAULT),
                base: Base::of(url, None),
            }))
        } else if role == Role::Style || kind == "text/css" {
            Text::Sheet(Box::new(Sheet {
                bytes: Vec::new(),
                said,
                around,
            }))
        } else {
            Text::None
        }
    }

    /// Adds the next piece; returns its references.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<Named> {
        match self {
            Text::None => Vec::new(),
            Text::Page(page) => {
                let text = page.characters.push(piece);
                page.base.decided(page.characters.encoding());
                page.scan.push(text.as_bytes(), &mut page.base);
                std::mem::take(&mut page.base.found)
            }
            Text::Sheet(sheet) => {
                sheet.bytes.extend_from_slice(piece);
                Vec::new()
            }
        }
    }

    /// The encoding, as far as decided.
    pub(super) fn encoding(&self) -> Option<&'static Encoding> {
        match self {
            Text::None => None,
            Text::Page(page) => page.characters.encoding(),
            Text::Sheet(sheet) => Some(encoding::sheet(&[], sheet.said, sheet.around).1),
        }
    }

    /// Ends the content; returns the remaining references and the encoding.
    pub(super) fn finish(self, url: &Url) -> (Vec<Named>, Option<&'static Encoding>) {
        match self {
            Text::None => (Vec::new(), None),
            Text::Page(page) => {
                let Page {
                    mut characters,
                    mut scan,
                    mut base,
                } = *page;
                let text = characters.finish();
                base.decided(characters.encoding());
                scan.push(text.as_bytes(), &mut base);
                scan.finish(&mut base);
                (base.found, characters.encoding())
            }
            Text::Sheet(sheet) => {
                let (text, encoding) = encoding::sheet(&sheet.bytes, sheet.said, sheet.around);
                let mut base = Base::of(url, Some(encoding));
                base.sheet(text.as_bytes());
                (base.found, Some(encoding))
            }
        }
    }
}

/// References in `Link` field lines of a page that a browser fetches: only preloads (RFC 8288; WHATWG HTML
/// section 4.6.7). `initiator` is the response that has the lines.
pub(super) fn linked(fields: &[(String, String)], url: &Url, initiator: Initiator) -> Vec<Named> {
    let lines = fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("link"));
    lines
        .flat_map(|(_, value)| links(value))
        .filter_map(|(target, parameters)| {
            let of = |name: &str| {
                let found = parameters
                    .iter()
                    .find(|(known, _)| known.eq_ignore_ascii_case(name));
                found.map_or(&b""[..], |(_, value)| value.as_bytes())
            };
            let link = Link {
                rel: of("rel"),
                purpose: of("as"),
                media: of("media"),
                kind: of("type"),
            };
            let loading = Loading {
                timing: link.timing(),
                priority: FetchPriority::of(of("fetchpriority")),
                ..Loading::default()
            };
            let named = Named::by_content(url.join(target).ok()?, link.preloaded()?, loading);
            Some(Named { initiator, ..named })
        })
        .collect()
}

type Parameters = Vec<(String, String)>;

/// Targets and parameters of a list of links.
fn links(mut rest: &str) -> Vec<(&str, Parameters)> {
    let mut all = Vec::new();
    while let Some((_, after)) = rest.split_once('<') {
        let Some((target, after)) = after.split_once('>') else {
            break;
        };
        let (mut is_quoted, mut is_escaped) = (false, false);
        let end = after.find(|letter| {
            match letter {
                _ if is_escaped => is_escaped = false,
                '\\' if is_quoted => is_escaped = true,
                '"' => is_quoted = !is_quoted,
                ',' => return !is_quoted,
                _ => {}
            }
            false
        });
        let (parameters, after) = after.split_at(end.unwrap_or(after.len()));
        rest = after;
        let parameters = parameters.split(';').filter_map(|one| {
            let (name, value) = one.split_once('=').unwrap_or((one, ""));
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
        });
        all.push((target.trim(), parameters.collect()));
    }
    all
}
