//! Character encodings of pages and style sheets, and their effect on URLs (WHATWG HTML section 13.2.3, CSS
//! Syntax Level 3 section 3.2, WHATWG Encoding, WHATWG URL).
//!
//! While a page's encoding is unknown, its ASCII bytes pass through unchanged, because all encodings except
//! UTF-16 share ASCII; so no reference is found late. Nothing is guessed: without a byte order mark, a
//! declaration or an enclosing page, text is windows-1252, as in Western browsers.

use encoding_rs::{DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};
use url::Url;

/// Bytes of a page searched for a declaration before its encoding is decided.
const PRESCAN: usize = 1_024;
/// Most bytes held back for that while they are ASCII.
const HELD_MAX: usize = 64 << 10;

/// The encoding named by a byte order mark.
fn marked(bytes: &[u8]) -> Option<&'static Encoding> {
    Encoding::for_bom(bytes).map(|(encoding, _)| encoding)
}

/// The encoding named by `Content-Type`.
pub(crate) fn declared(media: &str) -> Option<&'static Encoding> {
    let parameters = media.split(';').skip(1);
    let label = parameters
        .filter_map(|one| one.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?
        .1;
    Encoding::for_label(label.trim().trim_matches('"').as_bytes())
}

/// A whole style sheet as text, and its encoding: from the byte order mark, `Content-Type`, `@charset` or the
/// referring document.
pub(crate) fn sheet(
    bytes: &[u8],
    said: Option<&'static Encoding>,
    around: &'static Encoding,
) -> (String, &'static Encoding) {
    let at_charset = || {
        let label = bytes.strip_prefix(b"@charset \"")?;
        let end = label.iter().take(PRESCAN).position(|byte| *byte == b'"')?;
        label[end..].starts_with(b"\";").then_some(())?;
        // A declaration readable as ASCII cannot be in UTF-16.
        Encoding::for_label(&label[..end]).map(|encoding| if is_wide(encoding) { UTF_8 } else { encoding })
    };
    let encoding = said.or_else(at_charset).unwrap_or(around);
    let (text, encoding, _) = encoding.decode(bytes);
    (text.into_owned(), encoding)
}

fn is_wide(encoding: &'static Encoding) -> bool {
    encoding == UTF_16BE || encoding == UTF_16LE
}

/// Decodes a page that arrives in pieces to UTF-8.
pub(crate) struct Characters {
    state: State,
    /// The encoding used if nothing declares one.
    around: &'static Encoding,
    said: Option<&'static Encoding>,
}

enum State {
    /// Bytes received, and how many of them were passed on.
    Open {
        held: Vec<u8>,
        passed: usize,
        is_scanned: bool,
    },
    Decided(Box<encoding_rs::Decoder>, &'static Encoding),
}

impl core::fmt::Debug for Characters {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Characters")
            .field("encoding", &self.encoding().map(Encoding::name))
            .finish_non_exhaustive()
    }
}

impl Characters {
    /// A decoder for a new page. `said` is the encoding of `Content-Type`; `around` is used if nothing declares
    /// one.
    pub(crate) fn new(said: Option<&'static Encoding>, around: &'static Encoding) -> Characters {
        Characters {
            state: State::Open {
                held: Vec::new(),
                passed: 0,
                is_scanned: false,
            },
            around,
            said,
        }
    }

    /// The encoding, once decided.
    pub(crate) fn encoding(&self) -> Option<&'static Encoding> {
        match &self.state {
            State::Open { .. } => None,
            State::Decided(_, encoding) => Some(*encoding),
        }
    }

    /// Adds the next piece; returns the text that can be decoded so far.
    pub(crate) fn push(&mut self, piece: &[u8]) -> String {
        let State::Open {
            held,
            passed,
            is_scanned,
        } = &mut self.state
        else {
            return self.decode(piece, false);
        };
        held.extend_from_slice(piece);
        let plain = held[*passed..]
            .iter()
            .take_while(|byte| byte.is_ascii() && !matches!(byte, 0 | 0x1b))
            .count();
        let is_plain = *passed + plain == held.len();
        // Possibly the start of a byte order mark.
        let may_be_marked = matches!(held.first(), Some(0xef | 0xfe | 0xff)) && held.len() < 3;
        let is_enough = held.len() >= PRESCAN;
        let is_found = is_enough && !*is_scanned && prescan(held).is_some();
        *is_scanned |= is_enough;
        let is_said = self.said.is_some() || held.len() >= 3 && marked(held).is_some();
        if !may_be_marked && (is_said || is_found || (is_enough && !is_plain) || held.len() > HELD_MAX) {
            return self.decide(false);
        }
        let text = held[*passed..*passed + plain].to_vec();
        *passed += plain;
        String::from_utf8(text).unwrap_or_default()
    }

    /// Ends the page; returns the rest of its text.
    pub(crate) fn finish(&mut self) -> String {
        match self.state {
            State::Open { .. } => self.decide(true),
            State::Decided(..) => self.decode(&[], true),
        }
    }

    fn decide(&mut self, is_end: bool) -> String {
        let State::Open { held, passed, .. } = &mut self.state else {
            return String::new();
        };
        let (held, passed) = (std::mem::take(held), *passed);
        let encoding = marked(&held)
            .or(self.said)
            .or_else(|| prescan(&held))
            .unwrap_or(self.around);
        let decoder = match passed {
            0 => encoding.new_decoder_with_bom_removal(),
            _ => encoding.new_decoder_without_bom_handling(),
        };
        self.state = State::Decided(Box::new(decoder), encoding);
        self.decode(&held[passed..], is_end)
    }

    fn decode(&mut self, mut bytes: &[u8], is_end: bool) -> String {
        let State::Decided(decoder, _) = &mut self.state else {
            return String::new();
        };
        let mut text = String::new();
        loop {
            let room = decoder.max_utf8_buffer_length_without_replacement(bytes.len());
            text.reserve(room.unwrap_or(bytes.len()) + 3);
            let (result, read) = decoder.decode_to_string_without_replacement(bytes, &mut text, is_end);
            bytes = &bytes[read..];
            match result {
                DecoderResult::InputEmpty => return text,
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(..) => text.push(char::REPLACEMENT_CHARACTER),
            }
        }
    }
}

/// The encoding declared at the start of a page (WHATWG HTML section 13.2.3.2).
fn prescan(bytes: &[u8]) -> Option<&'static Encoding> {
    for (start, encoding) in [(b"<\0?\0x\0", UTF_16LE), (b"\0<\0?\0x", UTF_16BE)] {
        if bytes.starts_with(start) {
            return Some(encoding);
        }
    }
    if let Some(encoding) = of_xml(bytes) {
        return Some(encoding);
    }
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == b'<') {
        rest = &rest[at + 1..];
        if rest.starts_with(b"!--") {
            // `-->` may share its hyphens with the comment's start.
            let end = rest[1..].windows(3).position(|three| three == b"-->");
            rest = end.map_or(&[][..], |end| &rest[end + 4..]);
            continue;
        }
        let name = rest.strip_prefix(b"/").unwrap_or(rest);
        let is_tag = name.first().is_some_and(u8::is_ascii_alphabetic);
        if !is_tag {
            if matches!(rest.first(), Some(b'!' | b'/' | b'?')) {
                let end = rest.iter().position(|byte| *byte == b'>').unwrap_or(rest.len());
                rest = &rest[end..];
            }
            continue;
        }
        let is_meta = rest.len() > 4
            && rest[..4].eq_ignore_ascii_case(b"meta")
            && (rest[4].is_ascii_whitespace() || rest[4] == b'/');
        let end = rest
            .iter()
            .position(|byte| byte.is_ascii_whitespace() || *byte == b'>' || *byte == b'/' && is_meta)
            .unwrap_or(rest.len());
        rest = &rest[end..];
        let mut meta = Meta::default();
        while let Some((name, value)) = attribute(&mut rest) {
            meta.take(&name, value);
        }
        if is_meta && let Some(encoding) = meta.encoding() {
            return Some(encoding);
        }
    }
    None
}

/// The encoding declared by `<?xml … encoding="…"`.
fn of_xml(bytes: &[u8]) -> Option<&'static Encoding> {
    let rest = bytes.strip_prefix(b"<?xml")?;
    let rest = &rest[..rest.iter().position(|byte| *byte == b'>')?];
    let at = rest.windows(8).position(|window| window == b"encoding")?;
    let rest = rest[at + 8..]
        .trim_ascii_start()
        .strip_prefix(b"=")?
        .trim_ascii_start();
    let quote = *rest.first().filter(|byte| matches!(byte, b'"' | b'\''))?;
    let end = rest[1..].iter().position(|byte| *byte == quote)?;
    known(&rest[1..=end])
}

/// The encoding with this label, found in ASCII text.
fn known(label: &[u8]) -> Option<&'static Encoding> {
    let encoding = Encoding::for_label(label)?;
    Some(match encoding {
        _ if is_wide(encoding) => UTF_8,
        _ if encoding == X_USER_DEFINED => WINDOWS_1252,
        _ => encoding,
    })
}

/// The attributes of a `meta` element; the first of a name counts.
#[derive(Default)]
struct Meta {
    charset: Option<Vec<u8>>,
    is_type: Option<bool>,
    content: Option<Vec<u8>>,
}

impl Meta {
    fn take(&mut self, name: &[u8], value: Vec<u8>) {
        match name {
            b"charset" => {
                self.charset.get_or_insert(value);
            }
            b"content" => {
                self.content.get_or_insert(value);
            }
            b"http-equiv" => {
                self.is_type.get_or_insert(value == b"content-type");
            }
            _ => {}
        }
    }

    fn encoding(&self) -> Option<&'static Encoding> {
        match &self.charset {
            Some(label) => known(label),
            None if self.is_type == Some(true) => {
                let content = self.content.as_deref()?;
                let at = content.windows(7).position(|window| window == b"charset")?;
                let rest = content[at + 7..]
                    .trim_ascii_start()
                    .strip_prefix(b"=")?
                    .trim_ascii_start();
                let label = match rest.first()? {
                    quote @ (b'"' | b'\'') => rest[1..].split(|byte| byte == quote).next()?,
                    _ => rest
                        .split(|byte| byte.is_ascii_whitespace() || *byte == b';')
                        .next()?,
                };
                known(label)
            }
            None => None,
        }
    }
}

/// The next attribute of a tag, in lower case; `None` at the end of the tag.
fn attribute(rest: &mut &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let skip = |rest: &mut &[u8], slash: bool| {
        let at = rest
            .iter()
            .position(|byte| !(byte.is_ascii_whitespace() || slash && *byte == b'/'));
        *rest = &rest[at.unwrap_or(rest.len())..];
    };
    skip(rest, true);
    if matches!(rest.first(), None | Some(b'>')) {
        return None;
    }
    let end = rest
        .iter()
        .skip(1)
        .position(|byte| byte.is_ascii_whitespace() || b"=/>".contains(byte))
        .map_or(rest.len(), |end| end + 1);
    let name = rest[..end].to_ascii_lowercase();
    *rest = &rest[end..];
    skip(rest, false);
    if rest.first() != Some(&b'=') {
        return Some((name, Vec::new()));
    }
    *rest = &rest[1..];
    skip(rest, false);
    let value = match rest.first() {
        Some(&quote @ (b'"' | b'\'')) => {
            let value = rest[1..].split(|byte| *byte == quote).next().unwrap_or_default();
            *rest = &rest[(value.len() + 2).min(rest.len())..];
            value
        }
        _ => {
            let end = rest
                .iter()
                .position(|byte| byte.is_ascii_whitespace() || *byte == b'>');
            let (value, after) = rest.split_at(end.unwrap_or(rest.len()));
            *rest = after;
            value
        }
    };
    Some((name, value.to_ascii_lowercase()))
}

/// Resolves a reference of a document in this encoding: its query is in that encoding, the rest in UTF-8
/// (WHATWG URL).
pub(crate) fn join(base: &Url, reference: &str, encoding: &'static Encoding) -> Option<Url> {
    let encoding = encoding.output_encoding();
    let place = reference.split('#').next().unwrap_or_default();
    let Some((before, query)) = place
        .split_once('?')
        .filter(|(_, query)| encoding != UTF_8 && !query.is_ascii())
    else {
        return base.join(reference).ok();
    };
    // With any other scheme, queries are always in UTF-8.
    let joined = base.join(reference).ok()?;
    if !matches!(joined.scheme(), "http" | "https") {
        return Some(joined);
    }
    base.join(&format!("{before}?{}", percent_encoded(query, encoding)))
        .ok()
}

/// A percent-encoded query in an encoding; characters missing there become numeric references, as in a form.
fn percent_encoded(query: &str, encoding: &'static Encoding) -> String {
    let mut out = String::with_capacity(query.len() * 3);
    let mut encoder = encoding.new_encoder();
    let mut rest = query;
    loop {
        let mut bytes = [0_u8; 256];
        let (result, read, written) = encoder.encode_from_utf8_without_replacement(rest, &mut bytes, true);
        rest = &rest[read..];
        for &byte in &bytes[..written] {
            match byte {
                // Left to the URL parser, which drops or encodes them itself.
                b'\t' | b'\n' | b'\r' => out.push(char::from(byte)),
                0..=0x20 | 0x7f.. | b'"' | b'#' | b'<' | b'>' | b'\'' => {
                    out.push_str(&format!("%{byte:02X}"))
                }
                _ => out.push(char::from(byte)),
            }
        }
        match result {
            encoding_rs::EncoderResult::InputEmpty => return out,
            encoding_rs::EncoderResult::OutputFull => {}
            encoding_rs::EncoderResult::Unmappable(letter) => {
                out.push_str(&format!("%26%23{}%3B", u32::from(letter)));
            }
        }
    }
}
