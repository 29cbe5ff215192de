//! Text with `{{name}}` in it, and the values that take the names' places.
//!
//! A name may have a filter: `{{name|url}}` escapes the value for a query or a form, `{{name|json}}` for a JSON string.
//! `{{{{` stands for `{{`. Names are resolved to slots when the template is read, so an unknown one is an error before a
//! run. Knows nothing of where values come from.

use core::fmt;

/// Most bytes of a template's result.
pub const RESULT_MAX: usize = 16 << 20;

/// What becomes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    /// It stays as it is.
    Raw,
    /// All bytes but unreserved characters (RFC 3986 section 2.3) become `%XX`.
    Url,
    /// Quotes, backslashes and control characters are escaped (RFC 8259 section 7).
    Json,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<[u8]>),
    Value(u16, Filter),
}

/// A template whose names are resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

/// The result would be longer than [`RESULT_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the text with its values is longer than {RESULT_MAX} bytes")
    }
}

impl Template {
    /// Reads a template. `slot` resolves a name.
    ///
    /// # Errors
    /// An unclosed or empty name, an unknown filter, or the error of `slot`.
    pub fn read(text: &[u8], mut slot: impl FnMut(&str) -> Result<u16, String>) -> Result<Template, String> {
        let (mut pieces, mut literal, mut rest) = (Vec::new(), Vec::new(), text);
        while let Some(at) = find(rest, b"{{") {
            literal.extend_from_slice(&rest[..at]);
            rest = &rest[at + 2..];
            if let Some(behind) = rest.strip_prefix(b"{{") {
                literal.extend_from_slice(b"{{");
                rest = behind;
                continue;
            }
            let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
            let end = find(rest, b"}}").ok_or_else(|| {
                format!(
                    "`{{{{{}` has no closing `}}}}`; write `{{{{{{{{` for two braces",
                    shown(rest)
                )
            })?;
            let inside =
                core::str::from_utf8(&rest[..end]).map_err(|_| format!("`{}` is no name", shown(rest)))?;
            let (name, filter) = match inside.split_once('|') {
                None => (inside, Filter::Raw),
                Some((name, filter)) => match filter.trim() {
                    "url" => (name, Filter::Url),
                    "json" => (name, Filter::Json),
                    other => return Err(format!("`{other}` is no filter: write url or json")),
                },
            };
            let name = name.trim();
            if name.is_empty() {
                return Err("`{{}}` has no name".to_owned());
            }
            if !literal.is_empty() {
                pieces.push(Piece::Text(core::mem::take(&mut literal).into()));
            }
            pieces.push(Piece::Value(slot(name)?, filter));
            rest = &rest[end + 2..];
        }
        literal.extend_from_slice(rest);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal.into()));
        }
        Ok(Template(pieces))
    }

    /// Whether it is the same for all values.
    pub fn is_constant(&self) -> bool {
        self.0.iter().all(|piece| matches!(piece, Piece::Text(_)))
    }

    /// Appends the text, with the value of each slot in its place.
    ///
    /// # Errors
    /// If `out` would be longer than [`RESULT_MAX`].
    pub fn write<'v>(&self, out: &mut Vec<u8>, value: impl Fn(u16) -> &'v [u8]) -> Result<(), TooLong> {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Value(slot, filter) => filter.write(value(*slot), out),
            }
            if out.len() > RESULT_MAX {
                return Err(TooLong);
            }
        }
        Ok(())
    }
}

impl Filter {
    fn write(self, value: &[u8], out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        let digits = |byte: u8| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        match self {
            Filter::Raw => out.extend_from_slice(value),
            Filter::Url => {
                for &byte in value {
                    if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                        out.push(byte);
                    } else {
                        out.push(b'%');
                        out.extend_from_slice(&digits(byte));
                    }
                }
            }
            Filter::Json => {
                for &byte in value {
                    match byte {
                        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                        b'\n' => out.extend_from_slice(b"\\n"),
                        0..0x20 => {
                            out.extend_from_slice(b"\\u00");
                            out.extend_from_slice(&digits(byte));
                        }
                        _ => out.push(byte),
                    }
                }
            }
        }
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: [&str; 2] = ["name", "users.id"];
    const VALUES: [&[u8]; 2] = [b"a b/\"\\\n\x01\xc3\xa9", b"7"];

    fn slot(name: &str) -> Result<u16, String> {
        let at = NAMES.iter().position(|known| *known == name);
        at.map(|at| at as u16)
            .ok_or_else(|| format!("`{name}` is not known"))
    }

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        let template = Template::read(text.as_bytes(), slot).expect(text);
        template
            .write(&mut out, |slot| VALUES[usize::from(slot)])
            .expect("short");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn values_take_the_places_of_names() {
        for (text, wanted) in [
            ("", ""),
            ("/items", "/items"),
            (
                "/items/{{users.id}}?a={{ name | url }}",
                "/items/7?a=a%20b%2F%22%5C%0A%01%C3%A9",
            ),
            ("{{users.id}}{{users.id}}", "77"),
            (
                "{\"a\":{\"b\":\"{{name|json}}\"}}",
                "{\"a\":{\"b\":\"a b/\\\"\\\\\\n\\u0001\u{e9}\"}}",
            ),
            ("{{{{users.id}} }}", "{{users.id}} }}"),
        ] {
            assert_eq!(written(text), wanted, "{text}");
        }
        assert!(Template::read(b"a{{{{b", slot).expect("text").is_constant());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("{{nobody}}", "`nobody` is not known"),
            (
                "a {{name",
                "`{{name` has no closing `}}`; write `{{{{` for two braces",
            ),
            ("{{}}", "has no name"),
            ("{{name|xml}}", "`xml` is no filter: write url or json"),
        ] {
            let error = Template::read(text.as_bytes(), slot).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
        let template = Template::read(b"{{name}}", slot).expect("a name");
        let (at, beyond) = (vec![b'x'; RESULT_MAX], vec![b'x'; RESULT_MAX + 1]);
        assert_eq!(template.write(&mut Vec::new(), |_| &at), Ok(()));
        assert_eq!(template.write(&mut Vec::new(), |_| &beyond), Err(TooLong));
    }

    proptest! {
        /// Text with its braces doubled is itself again, whatever stands in it.
        #[test]
        fn escaped_text_is_itself(text in "[{}a|\u{e9}]{0,20}") {
            // An odd brace before a pair would join it.
            prop_assume!(!text.contains("{{{"));
            prop_assert_eq!(written(&text.replace("{{", "{{{{")), text);
        }

        /// No input panics, and what is read writes no more than its text and values.
        #[test]
        fn any_bytes_are_read_or_refused(text in proptest::collection::vec(prop_oneof![Just(b'{'), Just(b'}'), any::<u8>()], 0..40)) {
            if let Ok(template) = Template::read(&text, |_| Ok(1)) {
                let mut out = Vec::new();
                prop_assert_eq!(template.write(&mut out, |_| b"7"), Ok(()));
                prop_assert!(out.len() <= text.len());
            }
        }
    }
}
