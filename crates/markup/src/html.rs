//! The streaming parser that finds the references of a page. Reads bytes as they arrive and holds one tag of
//! limited size at a time.
//!
//! `html5gum` is the tokenizer (WHATWG HTML section 13.2.5); no tree is built. The content of `script`,
//! `style`, `noscript`, `textarea` and similar elements is text, as in a browser that runs scripts. The content
//! of a `template` is inert (WHATWG HTML section 4.12.3): a browser fetches nothing in it until a script clones
//! it. The exception is a declarative shadow root (`shadowrootmode`), which is displayed.
//!
//! Embedded are: images with all their sources, style sheets, scripts, icons, preloads, posters, default text
//! tracks, frames and embedded documents. Ignored, as Chromium was observed to do: scripts of other types,
//! `nomodule` scripts, disabled style sheets, style sheets of other types, preloads without a purpose, and
//! elements whose media type excludes screens, except linked style sheets. Not found: requests of scripts,
//! audio and video content, and the difference between HTML elements and SVG or MathML elements of the same name.
//!
//! The tokenizer pulls and a network pushes. [`Scan`] connects them: after every tag it saves position and
//! state, and resumes there when more bytes arrive. So only bytes after the last complete tag are read twice.

use crate::{FetchPriority, Kind, Loading, Position, Sink, Timing, media};
use core::cell::Cell;
use core::convert::Infallible;
use html5gum::{Emitter, Error, IoReader, Reader, State, Tokenizer, emitters::naive_next_state};
use std::io::Read;

/// Longer than any name of an element or attribute in use here.
const NAME_MAX: usize = 24;

/// Most bytes of one read.
const CHUNK: usize = 4 << 10;

/// Most bytes held of a style sheet inside a page, or of a page inside an attribute.
const STYLE_BYTES_MAX: usize = 256 << 10;

/// Memory limits of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most bytes held of one attribute.
    pub value_bytes_max: usize,
    /// Most bytes [`Scan`] holds after the last complete tag; beyond it, the rest of the page is ignored.
    pub pending_bytes_max: usize,
}

impl Bounds {
    /// Enough for pages found in practice.
    pub const DEFAULT: Bounds = Bounds {
        value_bytes_max: 16 << 10,
        pending_bytes_max: 1 << 20,
    };
}

/// Scans a page from a reader. After a read error, the references found so far stand.
pub fn read(mut page: impl Read, bounds: Bounds, sink: &mut impl Sink) {
    read_all(&mut page, bounds, sink);
}

/// Not generic, and neither is [`Collector`]: a program has one copy of the tokenizer for all readers and sinks, and a
/// second one if it uses [`Scan`]. Each is large.
fn read_all(page: &mut dyn Read, bounds: Bounds, sink: &mut dyn Sink) {
    let mut place = Place::default();
    let never = Cell::new(0);
    let collector = Collector::new(bounds, &mut place, sink, &never);
    // The tokenizer returns a token only when the sink is full.
    let _ = Tokenizer::new_with_emitter(IoReader::new(Chunks(page)), collector).next();
}

/// A scan of a page that arrives in pieces.
#[derive(Debug)]
pub struct Scan {
    bounds: Bounds,
    /// Bytes after the last complete tag.
    pending: Vec<u8>,
    /// Number of pending bytes already read without completing a tag.
    read: usize,
    place: Place,
    is_over: bool,
}

impl Scan {
    /// A scan at the start of a page.
    pub fn new(bounds: Bounds) -> Scan {
        Scan {
            bounds,
            pending: Vec::new(),
            read: 0,
            place: Place::default(),
            is_over: false,
        }
    }

    /// Adds a piece of the page and reports the references of the tags it completes.
    pub fn push(&mut self, piece: &[u8], sink: &mut impl Sink) {
        if self.is_over {
            return;
        }
        self.pending.extend_from_slice(piece);
        // Only `>` ends a tag. The growth condition keeps a long tag from being read again for every piece.
        let is_promising = piece.contains(&b'>') && self.pending.len() >= self.read + self.read / 8;
        if is_promising {
            self.go_on(sink);
        }
        if self.pending.len() > self.bounds.pending_bytes_max {
            self.is_over = true;
            self.pending = Vec::new();
        }
    }

    /// Ends the page and reports the references in the rest.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        if !self.is_over {
            self.go_on(sink);
            self.is_over = true;
            self.pending = Vec::new();
        }
    }

    fn go_on(&mut self, sink: &mut dyn Sink) {
        let at = Cell::new(0);
        let state = self.place.state.unwrap_or(State::Data);
        self.place.end = 0;
        let collector = Collector::new(self.bounds, &mut self.place, sink, &at);
        let reader = Counted {
            input: &self.pending,
            at: &at,
        };
        let mut tokenizer = Tokenizer::new_with_emitter(reader, collector);
        tokenizer.set_state(state);
        let _ = tokenizer.next();
        self.pending.drain(..self.place.end);
        self.read = self.pending.len();
    }
}

/// Position after the last complete tag, and the parser state there.
#[derive(Debug, Default)]
struct Place {
    end: usize,
    state: Option<State>,
    last_start_tag: Text,
    is_based: bool,
    /// Open `template` elements: the outermost inert one and all inside it.
    templates: u32,
    /// Open `svg` elements.
    svgs: u32,
    /// Whether the page is a frameset.
    is_frameset: bool,
    has_body: bool,
    /// Whether the open `style` element excludes screens.
    is_elsewhere: bool,
    position: Position,
}

/// A slice reader that counts the bytes read.
struct Counted<'a> {
    input: &'a [u8],
    at: &'a Cell<usize>,
}

impl Counted<'_> {
    fn rest(&self) -> &[u8] {
        &self.input[self.at.get()..]
    }
}

impl Reader for Counted<'_> {
    type Error = Infallible;

    fn read_byte(&mut self) -> Result<Option<u8>, Infallible> {
        let byte = self.rest().first().copied();
        self.at.set(self.at.get() + usize::from(byte.is_some()));
        Ok(byte)
    }

    fn try_read_string(&mut self, s: &[u8], case_sensitive: bool) -> Result<bool, Infallible> {
        let is_here = self.rest().get(..s.len()).is_some_and(|here| {
            if case_sensitive {
                here == s
            } else {
                here.eq_ignore_ascii_case(s)
            }
        });
        if is_here {
            self.at.set(self.at.get() + s.len());
        }
        Ok(is_here)
    }

    fn read_until<'b>(
        &'b mut self,
        needle: &[u8],
        _: &'b mut [u8; 4],
    ) -> Result<Option<&'b [u8]>, Infallible> {
        let rest = &self.input[self.at.get()..];
        let len = match rest.iter().position(|byte| needle.contains(byte)) {
            _ if rest.is_empty() => return Ok(None),
            Some(0) => 1,
            Some(before) => before,
            None => rest.len(),
        };
        self.at.set(self.at.get() + len);
        Ok(Some(&rest[..len]))
    }
}

/// Limits reads so that they fit the tokenizer's buffer.
struct Chunks<'r>(&'r mut dyn Read);

impl Read for Chunks<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let most = buf.len().min(CHUNK);
        self.0.read(&mut buf[..most])
    }
}

/// Bytes up to a limit.
#[derive(Debug, Default)]
struct Text {
    bytes: Vec<u8>,
    is_broken: bool,
}

impl Text {
    fn clear(&mut self) {
        self.bytes.clear();
        self.is_broken = false;
    }

    fn push(&mut self, more: &[u8], max: usize) {
        if self.bytes.len() + more.len() <= max {
            self.bytes.extend_from_slice(more);
        } else {
            self.is_broken = true;
        }
    }

    /// The bytes; empty if they exceeded the limit.
    fn get(&self) -> &[u8] {
        if self.is_broken { b"" } else { &self.bytes }
    }

    fn is(&self, name: &[u8]) -> bool {
        self.get().eq_ignore_ascii_case(name)
    }
}

/// The attributes of one tag that matter here.
#[derive(Debug, Default)]
struct Attributes {
    /// `src`, `data` or `background`.
    source: Text,
    poster: Text,
    srcset: Text,
    href: Text,
    rel: Text,
    kind: Text,
    /// The purpose of a preload (`as`).
    purpose: Text,
    style: Text,
    shadow: Text,
    media: Text,
    language: Text,
    document: Text,
    fetch_priority: Text,
    loading: Text,
    has_kind: bool,
    has_document: bool,
    is_disabled: bool,
    is_nomodule: bool,
    is_default: bool,
    is_async: bool,
    is_deferred: bool,
    /// `crossorigin` or `integrity`.
    has_own_mode: bool,
}

struct Collector<'p> {
    bounds: Bounds,
    place: &'p mut Place,
    sink: &'p mut dyn Sink,
    /// The answer of [`Sink::is_full`] after the last call that may change it: the tokenizer asks in every step.
    is_full: bool,
    at: &'p Cell<usize>,
    tag: Text,
    is_end: bool,
    attribute: Text,
    value: Text,
    attributes: Attributes,
    /// Content of a `style` element.
    sheet: Text,
}

impl<'p> Collector<'p> {
    fn new(bounds: Bounds, place: &'p mut Place, sink: &'p mut dyn Sink, at: &'p Cell<usize>) -> Self {
        Collector {
            bounds,
            place,
            is_full: sink.is_full(),
            sink,
            at,
            tag: Text::default(),
            is_end: false,
            attribute: Text::default(),
            value: Text::default(),
            attributes: Attributes::default(),
            sheet: Text::default(),
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
            &mut all.purpose,
            &mut all.style,
            &mut all.shadow,
            &mut all.media,
            &mut all.language,
            &mut all.document,
            &mut all.fetch_priority,
            &mut all.loading,
        ] {
            text.clear();
        }
        for flag in [
            &mut all.has_kind,
            &mut all.has_document,
            &mut all.is_disabled,
            &mut all.is_nomodule,
            &mut all.is_default,
            &mut all.is_async,
            &mut all.is_deferred,
            &mut all.has_own_mode,
        ] {
            *flag = false;
        }
    }

    /// Stores the attribute just read; the first of a name counts.
    fn end_attribute(&mut self) {
        let all = &mut self.attributes;
        match self.attribute.get() {
            b"type" => all.has_kind = true,
            b"srcdoc" => all.has_document = true,
            b"disabled" => all.is_disabled = true,
            b"nomodule" => all.is_nomodule = true,
            b"default" => all.is_default = true,
            b"async" => all.is_async = true,
            b"defer" => all.is_deferred = true,
            b"crossorigin" | b"integrity" => all.has_own_mode = true,
            _ => {}
        }
        let place = match self.attribute.get() {
            b"src" | b"data" | b"background" => &mut all.source,
            b"poster" => &mut all.poster,
            b"srcset" | b"imagesrcset" => &mut all.srcset,
            b"href" | b"xlink:href" => &mut all.href,
            b"rel" => &mut all.rel,
            b"type" => &mut all.kind,
            b"as" => &mut all.purpose,
            b"style" => &mut all.style,
            b"shadowrootmode" => &mut all.shadow,
            b"media" => &mut all.media,
            b"language" => &mut all.language,
            b"srcdoc" => &mut all.document,
            b"fetchpriority" => &mut all.fetch_priority,
            b"loading" => &mut all.loading,
            _ => return,
        };
        if place.bytes.is_empty() {
            std::mem::swap(place, &mut self.value);
        }
    }

    /// Handles a complete start tag.
    fn end_start_tag(&mut self) {
        let all = std::mem::take(&mut self.attributes);
        if self.tag.is(b"template") {
            let is_shown = all.shadow.is(b"open") || all.shadow.is(b"closed");
            // A shadow root inside an inert template is inert, too. Outside of one it is not counted, and its
            // end tag closes nothing.
            if self.place.templates > 0 || !is_shown {
                self.place.templates = self.place.templates.saturating_add(1);
            }
        }
        match self.tag.get() {
            b"svg" => self.place.svgs = self.place.svgs.saturating_add(1),
            b"body" => self.place.has_body = true,
            b"frameset" => self.place.is_frameset |= !self.place.has_body,
            b"style" => self.place.is_elsewhere = !media::may_match(all.media.get()),
            _ => {}
        }
        if self.place.templates == 0 {
            if !is_one_of(&HEAD, self.tag.get()) {
                self.place.position = self.place.position.max(Position::Body);
            }
            self.embedded_by(&all);
        }
        self.attributes = all;
    }

    /// Reports the references of an element with these attributes.
    fn embedded_by(&mut self, all: &Attributes) {
        let source = all.source.get();
        let lazy = match all.loading.is(b"lazy") {
            true => Timing::Lazy,
            false => Timing::Usual,
        };
        let as_in = |timing| Loading {
            timing,
            priority: FetchPriority::of(all.fetch_priority.get()),
            position: self.place.position,
            has_own_mode: all.has_own_mode,
        };
        // Other elements than images, scripts and links have no `fetchpriority`.
        let plain = Loading {
            position: self.place.position,
            ..Loading::default()
        };
        let is_screen = || media::may_match(all.media.get());
        match self.tag.get() {
            b"base" if !self.place.is_based && !all.href.get().is_empty() => {
                self.place.is_based = true;
                self.report(|sink| sink.base(all.href.get()));
            }
            b"img" => {
                let loading = as_in(lazy);
                self.add(Kind::Image, source, loading);
                self.add_list(all.srcset.get(), loading);
            }
            // A `source` of audio or video is not fetched to display the page.
            b"source" if is_screen() && is_shown(b"image/", all.kind.get()) => {
                self.add_list(all.srcset.get(), plain)
            }
            b"script" if is_script(all) => {
                let is_svg = self.place.svgs > 0 && source.is_empty();
                let is_module = all.kind.get().trim_ascii().eq_ignore_ascii_case(b"module");
                let reference = if is_svg { all.href.get() } else { source };
                let timing = match is_module {
                    true => Timing::Module,
                    false if all.is_async => Timing::Async,
                    false if all.is_deferred => Timing::Defer,
                    false => Timing::Usual,
                };
                let has_own_mode = is_module || all.has_own_mode;
                let loading = Loading {
                    has_own_mode,
                    ..as_in(timing)
                };
                self.add(Kind::Script, reference, loading);
            }
            b"object" | b"embed" => {
                if let Some(kind) = embedded(all.kind.get()) {
                    self.add(kind, source, plain);
                }
            }
            b"iframe" if all.has_document => self.add_document(all.document.get()),
            b"iframe" => {
                let loading = Loading {
                    timing: lazy,
                    ..plain
                };
                self.add(Kind::Frame, source, loading);
            }
            b"frame" if self.place.is_frameset => self.add(Kind::Frame, source, plain),
            b"input" if all.kind.is(b"image") => self.add(Kind::Image, source, plain),
            b"video" => self.add(Kind::Image, all.poster.get(), plain),
            b"track" if all.is_default => self.add(Kind::Other, source, plain),
            b"image" | b"use" | b"feimage" => {
                let reference = all.href.get();
                // A reference that begins with `#` points into the page.
                if !reference.starts_with(b"#") {
                    self.add(Kind::Image, reference, as_in(Timing::Usual));
                }
            }
            b"link" => {
                let link = Link {
                    rel: all.rel.get(),
                    purpose: all.purpose.get(),
                    media: all.media.get(),
                    kind: all.kind.get(),
                };
                if let Some(kind) = link
                    .fetched()
                    .filter(|_| !all.is_disabled || !link.is(b"stylesheet"))
                {
                    let loading = as_in(link.timing());
                    self.add(kind, all.href.get(), loading);
                    self.add_list(all.srcset.get(), loading);
                }
            }
            b"body" | b"table" | b"tr" | b"td" | b"th" => self.add(Kind::Image, source, plain),
            _ => {}
        }
        if !all.style.get().is_empty() && self.sink.wants_styles() && !self.is_full {
            self.report(|sink| sink.style_attribute(all.style.get()));
        }
    }

    fn report(&mut self, call: impl FnOnce(&mut dyn Sink)) {
        call(self.sink);
        self.is_full = self.sink.is_full();
    }

    fn add(&mut self, kind: Kind, reference: &[u8], loading: Loading) {
        if !reference.is_empty() && !self.is_full {
            self.report(|sink| sink.embed(kind, reference, loading));
            let is_shown = kind == Kind::Image && loading.timing != Timing::Preload;
            if is_shown && self.place.position == Position::Body {
                self.place.position = Position::AfterImage;
            }
        }
    }

    fn add_document(&mut self, page: &[u8]) {
        if self.sink.wants_documents() && !self.is_full {
            self.report(|sink| sink.document(page));
        }
    }

    /// Adds each URL of a `srcset` (WHATWG HTML section 4.8.4.2), of which a client fetches one.
    fn add_list(&mut self, mut list: &[u8], loading: Loading) {
        while !self.is_full {
            let start = list
                .iter()
                .position(|b| !b.is_ascii_whitespace() && *b != b',')
                .unwrap_or(list.len());
            list = &list[start..];
            let end = list
                .iter()
                .position(u8::is_ascii_whitespace)
                .unwrap_or(list.len());
            if end == 0 {
                return;
            }
            let (candidate, rest) = list.split_at(end);
            // A trailing comma means that no descriptor follows.
            let trimmed = candidate
                .iter()
                .rposition(|&b| b != b',')
                .map_or(0, |last| last + 1);
            self.add(Kind::Image, &candidate[..trimmed], loading);
            list = rest;
            if trimmed == candidate.len() {
                let comma = list.iter().position(|&b| b == b',').unwrap_or(list.len());
                list = &list[comma..];
            }
        }
    }
}

/// Elements that do not end the head of a page (WHATWG HTML sections 13.2.6.4.2 to 13.2.6.4.4). Text ends it, too; the
/// scan does not notice that.
const HEAD: [&[u8]; 13] = [
    b"html",
    b"head",
    b"base",
    b"basefont",
    b"bgsound",
    b"link",
    b"meta",
    b"title",
    b"noscript",
    b"noframes",
    b"style",
    b"script",
    b"template",
];

/// Types of classic scripts (WHATWG MIME Sniffing section 4.6).
const SCRIPTS: [&[u8]; 16] = [
    b"application/ecmascript",
    b"application/javascript",
    b"application/x-ecmascript",
    b"application/x-javascript",
    b"text/ecmascript",
    b"text/javascript",
    b"text/javascript1.0",
    b"text/javascript1.1",
    b"text/javascript1.2",
    b"text/javascript1.3",
    b"text/javascript1.4",
    b"text/javascript1.5",
    b"text/jscript",
    b"text/livescript",
    b"text/x-ecmascript",
    b"text/x-javascript",
];

fn is_one_of(all: &[&[u8]], name: &[u8]) -> bool {
    all.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// Whether a browser that supports modules runs the script (WHATWG HTML section 4.12.1.1).
fn is_script(all: &Attributes) -> bool {
    let kind = all.kind.get().trim_ascii();
    if kind.eq_ignore_ascii_case(b"module") {
        return true;
    }
    let is_classic = match (all.has_kind, all.language.get()) {
        (true, _) => all.kind.get().is_empty() || is_one_of(&SCRIPTS, kind),
        (false, b"") => true,
        (false, language) => is_one_of(&SCRIPTS, &[b"text/", language].concat()),
    };
    is_classic && !all.is_nomodule
}

/// Image types that browsers display.
const PICTURES: [&[u8]; 10] = [
    b"image/apng",
    b"image/avif",
    b"image/bmp",
    b"image/gif",
    b"image/jpeg",
    b"image/png",
    b"image/svg+xml",
    b"image/webp",
    b"image/x-icon",
    b"image/vnd.microsoft.icon",
];
const FONTS: [&[u8]; 8] = [
    b"font/woff2",
    b"font/woff",
    b"font/ttf",
    b"font/otf",
    b"font/collection",
    b"font/sfnt",
    b"application/font-woff",
    b"application/x-font-ttf",
];

fn essence(kind: &[u8]) -> &[u8] {
    kind.split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii()
}

/// Whether browsers display an image or font of this type; without a type they must fetch it to know.
fn is_shown(family: &[u8], kind: &[u8]) -> bool {
    match essence(kind) {
        b"" => true,
        kind if family == b"image/" => is_one_of(&PICTURES, kind),
        kind => is_one_of(&FONTS, kind),
    }
}

/// The kind of an `object` or `embed` of this type; `None` if browsers do not display it.
fn embedded(kind: &[u8]) -> Option<Kind> {
    let kind = essence(kind);
    if is_one_of(&[b"text/html", b"application/xhtml+xml"], kind) {
        return Some(Kind::Frame);
    }
    let is_known = is_shown(b"image/", kind)
        || is_one_of(
            &[b"text/plain", b"text/xml", b"application/xml", b"application/pdf"],
            kind,
        );
    is_known.then_some(Kind::Other)
}

/// A link from a `link` element or a `Link` field: the attributes that decide whether it is fetched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Link<'l> {
    /// Relation types (`rel`), separated by spaces.
    pub rel: &'l [u8],
    /// Purpose of a preload (`as`).
    pub purpose: &'l [u8],
    /// Media query list.
    pub media: &'l [u8],
    /// Media type of the target.
    pub kind: &'l [u8],
}

impl Link<'_> {
    fn is(&self, relation: &[u8]) -> bool {
        let mut all = self.rel.split(u8::is_ascii_whitespace);
        all.any(|one| one.eq_ignore_ascii_case(relation))
    }

    /// The kind of the target if a browser fetches it to display the page, for a `link` element.
    pub fn fetched(&self) -> Option<Kind> {
        if self.is(b"stylesheet") {
            // Chromium fetches alternate sheets and those for other media, too, after everything else.
            return matches_type(b"text/css", self.kind).then_some(Kind::Style);
        }
        if self.is(b"icon") {
            return Some(Kind::Image);
        }
        if self.is(b"manifest") {
            return Some(Kind::Other);
        }
        self.preloaded()
    }

    /// What may go on before the target is there.
    pub fn timing(&self) -> Timing {
        match self.is(b"stylesheet") {
            true if self.is(b"alternate") || !media::may_match(self.media) => Timing::OtherMedia,
            false if self.is(b"preload") || self.is(b"modulepreload") => Timing::Preload,
            _ => Timing::Usual,
        }
    }

    /// The kind of the target if a browser preloads it, for a `link` element or a `Link` field.
    pub fn preloaded(&self) -> Option<Kind> {
        if !media::may_match(self.media) {
            return None;
        }
        if self.is(b"modulepreload") {
            return Some(Kind::Script);
        }
        if !self.is(b"preload") {
            return None;
        }
        let purpose = self.purpose.to_ascii_lowercase();
        match purpose.as_slice() {
            b"style" => matches_type(b"text/css", self.kind).then_some(Kind::Style),
            b"script" => {
                let kind = essence(self.kind);
                (kind.is_empty() || is_one_of(&SCRIPTS, kind)).then_some(Kind::Script)
            }
            b"image" => is_shown(b"image/", self.kind).then_some(Kind::Image),
            b"font" => is_shown(b"font/", self.kind).then_some(Kind::Font),
            b"fetch" | b"track" => Some(Kind::Other),
            _ => None,
        }
    }
}

fn matches_type(wanted: &[u8], kind: &[u8]) -> bool {
    let kind = essence(kind);
    kind.is_empty() || kind.eq_ignore_ascii_case(wanted)
}

impl Emitter for Collector<'_> {
    type Token = ();

    fn pop_token(&mut self) -> Option<()> {
        self.is_full.then_some(())
    }

    fn set_last_start_tag(&mut self, name: Option<&[u8]>) {
        self.place.last_start_tag.clear();
        self.place.last_start_tag.push(name.unwrap_or_default(), NAME_MAX);
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
        let max = match self.attribute.get() {
            b"srcdoc" if self.sink.wants_documents() => STYLE_BYTES_MAX,
            _ => self.bounds.value_bytes_max,
        };
        self.value.push(value, max);
    }

    fn emit_current_tag(&mut self) -> Option<State> {
        self.end_attribute();
        let state = if self.is_end {
            let is_heard = self.place.templates == 0 && !self.place.is_elsewhere && !self.is_full;
            if self.tag.is(b"style") && !self.sheet.get().is_empty() && is_heard {
                self.sink.style(self.sheet.get());
                self.is_full = self.sink.is_full();
            } else if self.tag.is(b"head") {
                self.place.position = self.place.position.max(Position::Body);
            } else if self.tag.is(b"svg") {
                self.place.svgs = self.place.svgs.saturating_sub(1);
            } else if self.tag.is(b"template") {
                self.place.templates = self.place.templates.saturating_sub(1);
            }
            None
        } else {
            self.end_start_tag();
            self.place.last_start_tag.clear();
            self.place.last_start_tag.push(self.tag.get(), NAME_MAX);
            match self.tag.get() {
                // The tokenizer crate misspells this name in its list, without the last letter.
                b"noframes" => Some(State::RawText),
                name => naive_next_state(name),
            }
        };
        self.sheet.clear();
        self.place.end = self.at.get();
        self.place.state = state;
        state
    }

    fn emit_string(&mut self, text: &[u8]) {
        if self.place.last_start_tag.is(b"style") && self.sink.wants_styles() {
            self.sheet.push(text, STYLE_BYTES_MAX);
        }
    }

    fn current_is_appropriate_end_tag_token(&mut self) -> bool {
        self.is_end && !self.tag.get().is_empty() && self.tag.get() == self.place.last_start_tag.get()
    }

    fn should_emit_errors(&mut self) -> bool {
        false
    }

    fn emit_eof(&mut self) {}
    fn emit_error(&mut self, _: Error) {}
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
    use crate::Heard;
    use proptest::prelude::*;

    #[track_caller]
    fn check(page: &str, want: &[(Kind, &str)]) {
        for size in 1..=page.len().max(1) {
            let (mut heard, mut scan) = (Heard::default(), Scan::new(Bounds::DEFAULT));
            for piece in page.as_bytes().chunks(size) {
                scan.push(piece, &mut heard);
            }
            scan.finish(&mut heard);
            let got: Vec<(Kind, String)> = heard
                .0
                .into_iter()
                .filter_map(|(what, text)| Some((what?.0, String::from_utf8_lossy(&text).into_owned())))
                .collect();
            let want: Vec<(Kind, String)> = want
                .iter()
                .map(|(kind, text)| (*kind, (*text).to_owned()))
                .collect();
            assert_eq!(got, want, "{page} in pieces of {size}");
        }
    }

    #[test]
    fn kinds_are_told_apart_however_the_page_is_cut() {
        check(
            "<link rel=stylesheet href=s.css><script src='a.js'>if (a > b) '<img src=no.png>'</script>\
             <IMG SRC=\"a&amp;b.png\" srcset='c.png 2x'><link rel=preload as=font href=f.woff2>\
             <link rel=preload as=style href=t.css><link rel=icon href=/f.ico>",
            &[
                (Kind::Style, "s.css"),
                (Kind::Script, "a.js"),
                (Kind::Image, "a&b.png"),
                (Kind::Image, "c.png"),
                (Kind::Font, "f.woff2"),
                (Kind::Style, "t.css"),
                (Kind::Image, "/f.ico"),
            ],
        );
    }

    #[test]
    fn what_a_browser_passes_over_is_passed_over() {
        check(
            "<script nomodule src=no.js></script><script type=module nomodule src=a.js></script>\
             <script type=application/json src=no.js></script><script type=importmap src=no.js></script>\
             <script type='text/javascript; charset=utf-8' src=no.js></script><script language=vbscript src=no.js></script>\
             <script type='' language=vbscript src=b.js></script><script type=' TEXT/JavaScript ' src=c.js></script>\
             <script language=JavaScript1.2 src=d.js></script>",
            &[
                (Kind::Script, "a.js"),
                (Kind::Script, "b.js"),
                (Kind::Script, "c.js"),
                (Kind::Script, "d.js"),
            ],
        );
        check(
            "<link rel=stylesheet disabled href=no.css><link rel=stylesheet type=text/less href=no.css>\
             <link rel=stylesheet media=print type='text/css; x' href=a.css><link rel=preload href=no.bin>\
             <link rel=preload as=script media=print href=no.js><link rel=preload as=font type=font/no href=no.woff>\
             <link rel=preload as=document href=no.html><link rel=preload as=track href=b.vtt>\
             <link rel=apple-touch-icon href=no.png><style media=print>a{b:url(no.png)}</style>\
             <style media='screen, print'>a{b:url(c.png)}</style>",
            &[
                (Kind::Style, "a.css"),
                (Kind::Other, "b.vtt"),
                (Kind::Image, "c.png"),
            ],
        );
        check(
            "<picture><source media=print srcset=no.png><source type=image/no srcset=no.png>\
             <source media='(width>1px)' srcset=a.png></picture><video><track src=no.vtt><track default src=b.vtt></video>\
             <object type=application/no data=no.bin></object><embed type=application/no src=no.bin>",
            &[(Kind::Image, "a.png"), (Kind::Other, "b.vtt")],
        );
    }

    #[test]
    fn the_page_says_how_urgent_each_reference_is() {
        let page = "<link rel=stylesheet href=a media=print fetchpriority=HIGH><link rel='alternate stylesheet' href=b>\
            <script src=c></script><script async defer src=d></script><link rel=preload as=font href=e fetchpriority=low>\
            <p><script defer src=f></script><img src=g loading=Lazy fetchpriority=no><script type=module async src=h></script>\
            <link rel=stylesheet href=i><iframe loading=lazy fetchpriority=high src=j></iframe>";
        let mut heard = Heard::default();
        read(page.as_bytes(), Bounds::DEFAULT, &mut heard);
        use {FetchPriority as Of, Position as At, Timing as When};
        let got = heard
            .0
            .iter()
            .filter_map(|(what, text)| Some((&text[..], what.as_ref()?.1)));
        let got = got.map(|(text, one)| (text, one.timing, one.priority, one.position));
        let want: [(&[u8], When, Of, At); 10] = [
            (b"a", When::OtherMedia, Of::High, At::Head),
            (b"b", When::OtherMedia, Of::Auto, At::Head),
            (b"c", When::Usual, Of::Auto, At::Head),
            (b"d", When::Async, Of::Auto, At::Head),
            (b"e", When::Preload, Of::Low, At::Head),
            (b"f", When::Defer, Of::Auto, At::Body),
            (b"g", When::Lazy, Of::Auto, At::Body),
            (b"h", When::Module, Of::Auto, At::AfterImage),
            (b"i", When::Usual, Of::Auto, At::AfterImage),
            (b"j", When::Lazy, Of::Auto, At::AfterImage),
        ];
        assert_eq!(got.collect::<Vec<_>>(), want);
    }

    #[test]
    fn pages_within_the_page_are_told_apart() {
        check(
            "<iframe src=a.html>&lt;img src=no.png></iframe><iframe srcdoc='&lt;img src=b.png>' src=no.html></iframe>\
             <object type=text/html data=c.html></object><object data=d.bin></object><frame src=no.html>",
            &[
                (Kind::Frame, "a.html"),
                (Kind::Frame, "c.html"),
                (Kind::Other, "d.bin"),
            ],
        );
        check(
            "<frameset cols='1,*'><frame src=a.html><frame src=b.html></frameset>",
            &[(Kind::Frame, "a.html"), (Kind::Frame, "b.html")],
        );
        check(
            "<body><frameset><frame src=no.html></frameset><svg><script href=a.js></script><use href='#x'/><use href=b.svg#x />\
             </svg><script href=no.js></script>",
            &[(Kind::Script, "a.js"), (Kind::Image, "b.svg#x")],
        );
        let mut heard = Heard::default();
        read(
            &b"<iframe srcdoc=\"<p title='&amp;quot;'>x\">"[..],
            Bounds::DEFAULT,
            &mut heard,
        );
        assert_eq!(heard.0, [(None, b"<p title='&quot;'>x".to_vec())]);
    }

    #[test]
    fn style_sheets_in_the_page_are_heard_whole() {
        check(
            "<style>b { background: url(a.png) } /* </p> */</style><p style=\"background:url('b.png')\">\
             <style>@import 'c.css';</style>\r\n<title><img src=no.png></title><!-- <img src=no2.png> -->",
            &[
                (Kind::Image, "a.png"),
                (Kind::Image, "b.png"),
                (Kind::Style, "c.css"),
            ],
        );
    }

    #[test]
    fn templates_are_inert_and_shadow_roots_are_not() {
        check(
            "<img src=a.png><template><img src=no.png><base href=/no/><link rel=stylesheet href=no.css>\
             <script src=no.js></script><style>b { background: url(no.png) }</style><p style='background: url(no.png)'>\
             <TEMPLATE shadowrootmode=open><img src=no.png></TEMPLATE><img src=no.png></template><img src=b.png>",
            &[(Kind::Image, "a.png"), (Kind::Image, "b.png")],
        );
        check(
            "<p><template shadowrootmode=OPEN><img src=a.png><template><img src=no.png></template><img src=b.png>\
             </template><template shadowrootmode=ajar><img src=no.png></template></template><img src=c.png>",
            &[
                (Kind::Image, "a.png"),
                (Kind::Image, "b.png"),
                (Kind::Image, "c.png"),
            ],
        );
        // Templates as text, in a comment or without end.
        check(
            "<title><template></title><!-- <template> --><img src=a.png><template/><img src=no.png>",
            &[(Kind::Image, "a.png")],
        );
    }

    #[test]
    fn what_is_shown_only_without_scripts_or_frames_is_not_fetched() {
        for name in ["noscript", "noframes", "noembed", "iframe", "xmp", "textarea"] {
            check(
                &format!(
                    "<{name}><img src=no.png><p style='background: url(no.png)'></{name}><img src=a.png>"
                ),
                &[(Kind::Image, "a.png")],
            );
        }
    }

    #[test]
    fn a_reference_is_known_when_its_tag_is_whole() {
        let (mut heard, mut scan) = (Heard::default(), Scan::new(Bounds::DEFAULT));
        scan.push(b"<p>text <img src=a.png", &mut heard);
        assert!(heard.0.is_empty());
        scan.push(b"><img", &mut heard);
        assert_eq!(heard.0.len(), 1);
        assert_eq!(scan.pending, b"<img");
    }

    #[test]
    fn what_never_ends_is_given_up() {
        let (mut heard, mut scan) = (
            Heard::default(),
            Scan::new(Bounds {
                pending_bytes_max: 100,
                ..Bounds::DEFAULT
            }),
        );
        for _ in 0..200 {
            scan.push(b"<!-- > ", &mut heard);
            assert!(scan.pending.len() <= 100);
        }
        scan.push(b"--><img src=late.png>", &mut heard);
        scan.finish(&mut heard);
        assert!(heard.0.is_empty());
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("<img src="), Just("<link rel=icon href='"), Just("'"), Just(">"), Just("<script>"),
                    Just("</script>"), Just("<!--"), Just("-->"), Just("a.png"), Just("../b"), Just(" srcset=\""),
                    Just("x 1x, y"), Just("\""), Just("&amp;"), Just("<base href=/q/>"), Just("\r\n"), Just("<"),
                    Just("\u{e9}"), Just("<![CDATA["), Just("</"), Just("<style>"), Just("</style>"), Just("url("),
                    Just(")"), Just("<title>"), Just("</title>"), Just("\r"), Just("@import '"), Just("<template>"),
                    Just("</template>"), Just("<template shadowrootmode=open>"), Just("<noscript>"), Just("</noscript>")
                ],
                0..40,
            ),
            size in any::<u8>(),
        ) {
            crate::fuzz(&[&[size % 24], pieces.concat().as_bytes()].concat());
        }

        #[test]
        fn any_bytes_do(page in proptest::collection::vec(any::<u8>(), 0..400)) {
            crate::fuzz(&page);
        }
    }
}
