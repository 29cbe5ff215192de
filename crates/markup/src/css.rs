//! The URLs in a style sheet: `@import`, every `url()` (CSS Syntax Level 3, sections 4.3.4 to 4.3.7) and the
//! strings of `image-set()` (CSS Images Level 4, section 2.3).
//!
//! Parses only the syntax that decides where a URL begins and ends: comments, strings, escapes, names,
//! parentheses. Does not know whether a rule applies, so it also finds images and fonts of rules that never
//! match; it skips only `@media` blocks that match no screen. `@namespace` names no file.

use crate::{Kind, media};

/// Calls `found` with each reference in the order of the sheet; none is empty.
pub fn scan(sheet: &[u8], mut found: impl FnMut(Kind, &[u8])) {
    let mut rest = Cursor(sheet);
    // The last at-rule, until its first value or its end.
    let mut at = At::None;
    let mut is_font = false;
    // Number of open parentheses, and that number inside the last `image-set(`.
    let (mut depth, mut set) = (0_u32, None);
    while let Some(byte) = rest.first() {
        match byte {
            b'/' if rest.0.starts_with(b"/*") => rest.skip_comment(),
            b'"' | b'\'' => {
                let kind = match at {
                    At::Import => Some(Kind::Style),
                    // Deeper strings are arguments of another function, such as `type()`.
                    _ if set == Some(depth) => Some(Kind::Image),
                    _ => None,
                };
                if let (Some(text), Some(kind)) = (rest.string(), kind) {
                    tell(&mut found, kind, &text);
                }
                at = At::None;
            }
            b'(' => {
                rest.advance(1);
                depth = depth.saturating_add(1);
            }
            b')' => {
                rest.advance(1);
                depth = depth.saturating_sub(1);
                set = set.filter(|set| *set <= depth);
            }
            b'@' => {
                rest.advance(1);
                let name = rest.name();
                if name.eq_ignore_ascii_case(b"media") && !rest.media() {
                    rest.skip_block();
                }
                is_font = name.eq_ignore_ascii_case(b"font-face");
                at = if name.eq_ignore_ascii_case(b"import") {
                    At::Import
                } else if name.eq_ignore_ascii_case(b"namespace") {
                    At::Namespace
                } else {
                    At::None
                };
            }
            _ if rest.is_at_name() => {
                let name = rest.name();
                let is_function = rest.first() == Some(b'(');
                if is_function && name.eq_ignore_ascii_case(b"url") {
                    rest.advance(1);
                    if let Some(text) = rest.url() {
                        match at {
                            At::Import => tell(&mut found, Kind::Style, &text),
                            At::Namespace => {}
                            At::None if is_font => tell(&mut found, Kind::Font, &text),
                            At::None => tell(&mut found, Kind::Image, &text),
                        }
                    }
                    at = At::None;
                } else if is_function && is_image_set(&name) {
                    set = Some(depth.saturating_add(1));
                }
            }
            b';' | b'{' | b'}' => {
                rest.advance(1);
                at = At::None;
                is_font &= byte != b'}';
                (depth, set) = (0, None);
            }
            _ => rest.advance(1),
        }
    }
}

fn is_image_set(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"image-set") || name.eq_ignore_ascii_case(b"-webkit-image-set")
}

fn tell(found: &mut impl FnMut(Kind, &[u8]), kind: Kind, text: &[u8]) {
    let text = text.trim_ascii();
    if !text.is_empty() {
        found(kind, text);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    None,
    Import,
    Namespace,
}

/// The rest of a sheet.
struct Cursor<'s>(&'s [u8]);

impl Cursor<'_> {
    fn first(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn advance(&mut self, bytes: usize) {
        self.0 = &self.0[bytes.min(self.0.len())..];
    }

    fn skip_comment(&mut self) {
        let end = self.0[2..].windows(2).position(|pair| pair == b"*/");
        self.advance(end.map_or(self.0.len(), |end| end + 4));
    }

    /// Skips the prelude of `@media` up to its block; returns whether it may match a screen.
    fn media(&mut self) -> bool {
        let end = self.0.iter().position(|byte| b"{};".contains(byte));
        let (prelude, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        // A comment in the prelude could hide anything, so assume a match.
        prelude.contains(&b'/') || media::may_match(prelude)
    }

    /// Skips a block with its braces.
    fn skip_block(&mut self) {
        let mut depth = 0_u32;
        while let Some(byte) = self.first() {
            match byte {
                b'/' if self.0.starts_with(b"/*") => self.skip_comment(),
                b'"' | b'\'' => {
                    self.string();
                }
                b'{' => {
                    self.advance(1);
                    depth = depth.saturating_add(1);
                }
                b'}' => {
                    self.advance(1);
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return;
                    }
                }
                b';' if depth == 0 => return,
                _ if self.is_at_name() => {
                    let name = self.name();
                    if self.first() == Some(b'(') && name.eq_ignore_ascii_case(b"url") {
                        self.advance(1);
                        self.url();
                    }
                }
                _ => self.advance(1),
            }
        }
    }

    fn skip_space(&mut self) {
        while self.first().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.advance(1);
        }
    }

    fn is_escape(&self) -> bool {
        matches!(self.0, [b'\\', next, ..] if !matches!(next, b'\n' | b'\r' | 0x0c))
    }

    fn is_at_name(&self) -> bool {
        self.is_escape()
            || self
                .first()
                .is_some_and(|byte| byte.is_ascii_alphanumeric() || byte >= 0x80 || b"-_".contains(&byte))
    }

    fn name(&mut self) -> Vec<u8> {
        let mut name = Vec::new();
        while self.is_at_name() {
            self.take(&mut name);
        }
        name
    }

    /// Appends the next byte, or the character of an escape.
    fn take(&mut self, out: &mut Vec<u8>) {
        if !self.is_escape() {
            out.extend(self.first());
            self.advance(1);
            return;
        }
        self.advance(1);
        let digits = self
            .0
            .iter()
            .take(6)
            .take_while(|b| b.is_ascii_hexdigit())
            .count();
        if digits == 0 {
            out.extend(self.first());
            self.advance(1);
            return;
        }
        let code = self.0[..digits].iter().fold(0, |code, digit| {
            // `take_while` accepted only hexadecimal digits.
            code * 16 + char::from(*digit).to_digit(16).unwrap_or(0)
        });
        self.advance(digits);
        if self.0.starts_with(b"\r\n") {
            self.advance(2);
        } else if self.first().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.advance(1);
        }
        let character = char::from_u32(code)
            .filter(|_| code != 0)
            .unwrap_or(char::REPLACEMENT_CHARACTER);
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// Reads a string from its quote on; `None` if a line end interrupts it.
    fn string(&mut self) -> Option<Vec<u8>> {
        let quote = self.first()?;
        self.advance(1);
        let mut text = Vec::new();
        while let Some(byte) = self.first() {
            match byte {
                _ if byte == quote => {
                    self.advance(1);
                    return Some(text);
                }
                b'\n' | b'\r' | 0x0c => return None,
                b'\\' if !self.is_escape() => {
                    // A backslash before a line end continues the string; at the end of the sheet it ends it.
                    self.advance(if self.0.starts_with(b"\\\r\n") { 3 } else { 2 });
                }
                _ => self.take(&mut text),
            }
        }
        Some(text)
    }

    /// Reads the rest of `url(` up to its closing parenthesis; `None` if it is not a valid URL.
    fn url(&mut self) -> Option<Vec<u8>> {
        self.skip_space();
        if matches!(self.first(), Some(b'"' | b'\'')) {
            let text = self.string();
            // Skips URL modifiers.
            while self.first().is_some_and(|byte| !b")};".contains(&byte)) {
                self.advance(1);
            }
            if self.first() == Some(b')') {
                self.advance(1);
            }
            return text;
        }
        let mut text = Vec::new();
        let mut is_sound = true;
        loop {
            match self.first() {
                None => break,
                Some(b')') => {
                    self.advance(1);
                    break;
                }
                Some(byte) if byte.is_ascii_whitespace() => {
                    self.skip_space();
                    is_sound &= matches!(self.first(), None | Some(b')'));
                }
                Some(b'"' | b'\'' | b'(' | 0..=8 | 0x0b | 0x0e..=0x1f | 0x7f) => {
                    is_sound = false;
                    self.advance(1);
                }
                Some(b'\\') if !self.is_escape() => {
                    is_sound = false;
                    self.advance(1);
                }
                Some(_) => self.take(&mut text),
            }
        }
        is_sound.then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sheet: &str, want: &[(Kind, &str)]) {
        let mut got = Vec::new();
        scan(sheet.as_bytes(), |kind, text| {
            got.push((kind, String::from_utf8_lossy(text).into_owned()));
        });
        let want: Vec<(Kind, String)> = want
            .iter()
            .map(|(kind, text)| (*kind, (*text).to_owned()))
            .collect();
        assert_eq!(got, want, "{sheet}");
    }

    #[test]
    fn urls_in_every_spelling() {
        check("a{background:url(a.png)}", &[(Kind::Image, "a.png")]);
        check("a{b:URL( 'a b.png' )}", &[(Kind::Image, "a b.png")]);
        check("a{b:url(  a.png\n)}", &[(Kind::Image, "a.png")]);
        check(r"a{b:url(a\)b.png)}", &[(Kind::Image, "a)b.png")]);
        check(r"a{b:\75 rl(a.png)}", &[(Kind::Image, "a.png")]);
        check(r#"a{b:url("\41 .png")}"#, &[(Kind::Image, "A.png")]);
        check(
            "@font-face{src:url(a.woff2) format('woff2'),url(a.woff)}",
            &[(Kind::Font, "a.woff2"), (Kind::Font, "a.woff")],
        );
        check(
            "@Font-Face{a:b;src:url(a.woff)}a{b:url(c.png)}@font-face{}@page{a:url(d.png)}",
            &[
                (Kind::Font, "a.woff"),
                (Kind::Image, "c.png"),
                (Kind::Image, "d.png"),
            ],
        );
        check(
            "a{b:url(\"a.png\" mod)}c{d:url(e)}",
            &[(Kind::Image, "a.png"), (Kind::Image, "e")],
        );
    }

    #[test]
    fn sets_of_images_are_strings_too() {
        check(
            "a{b:image-set('a.png' 1x,\"b.png\" type('image/png') 2x, url(c.png) 3x);content:'no.png'}",
            &[
                (Kind::Image, "a.png"),
                (Kind::Image, "b.png"),
                (Kind::Image, "c.png"),
            ],
        );
        check(
            "a{b:-WEBKIT-IMAGE-SET(\"a.png\" 1x)}c{content:\"no\"}",
            &[(Kind::Image, "a.png")],
        );
        check("a{b:image-set(c.png 1x)}d{e:f('no.png')}", &[]);
    }

    #[test]
    fn what_no_screen_matches_is_left_out() {
        check(
            "@media print{a{b:url(no.png)}@media screen{c{d:url(no.png)}}e{content:'}'}}f{g:url(a.png)}",
            &[(Kind::Image, "a.png")],
        );
        check(
            "@media screen and (width<9px){a{b:url(a.png)}}@media print;c{d:url(b.png)}",
            &[(Kind::Image, "a.png"), (Kind::Image, "b.png")],
        );
        check("@media print{a{b:url(})}c{d:url(no.png)}}", &[]);
        // Browsers fetch it although it does not apply.
        check("@import 'a.css' print;", &[(Kind::Style, "a.css")]);
    }

    #[test]
    fn imports_are_style_sheets() {
        check("@import 'a.css';", &[(Kind::Style, "a.css")]);
        check("@IMPORT url(b.css) screen;", &[(Kind::Style, "b.css")]);
        check("@import/**/\"c.css\"layer(x);a{b:'d'}", &[(Kind::Style, "c.css")]);
        check("@namespace url(http://www.w3.org/1999/xhtml);", &[]);
    }

    #[test]
    fn what_is_no_reference_is_left_out() {
        check("/* url(a.png) */ a{content:'url(b.png)'}", &[]);
        check("a{b:url()}c{d:url( )}", &[]);
        check("a{b:url(a b.png)}", &[]);
        check("a{b:url(a\"b.png)}", &[]);
        check("a{b:curl(a.png) url-prefix(x)}", &[]);
        check("a{b:'broken\n} c{d:url(e.png)}", &[(Kind::Image, "e.png")]);
        check("/* never closed url(a)", &[]);
        check("a{b:url(end", &[(Kind::Image, "end")]);
    }
}
