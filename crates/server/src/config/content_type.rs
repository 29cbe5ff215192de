//! `Content-Type` by extension: the table `[types]`.
//!
//! ```toml
//! [types]
//! html = "text/html; charset=iso-8859-1"
//! ts = "text/typescript"
//! ```
//! The key `""` is for names without an extension, such as `README`. A value is sent as written, with type and subtype in lower case. A value without `charset` sends no charset. This
//! file decides which extensions and values are valid; the module `media_type` knows the types of all other extensions.

use core::fmt;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;

/// `Content-Type` values by extension (lower case, without the dot; empty for names without one).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentTypes(BTreeMap<Box<str>, Box<str>>);

impl ContentTypes {
    /// Sets the type of an extension, in any case; the empty one is that of names without an extension.
    ///
    /// # Errors
    /// A sentence that names the extension or the value and shows a valid one.
    pub fn insert(&mut self, extension: &str, value: &str) -> Result<(), String> {
        let is_extension = |b: u8| b.is_ascii_graphic() && !b"./\\".contains(&b);
        if !extension.bytes().all(is_extension) {
            return Err(format!(
                "`{}` is not an extension; write the part of a name after its last dot, as in html, or \"\" for names without one",
                extension.escape_debug()
            ));
        }
        check(value)?;
        let value = value.trim();
        let (essence, parameters) = value.split_at(value.find(';').unwrap_or(value.len()));
        let value = essence.to_ascii_lowercase() + parameters;
        self.0.insert(extension.to_ascii_lowercase().into(), value.into());
        Ok(())
    }

    /// The configured type for an extension, in any case.
    pub(crate) fn get(&self, extension: &str) -> Option<&str> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&*extension.to_ascii_lowercase()).map(|value| &**value)
    }
}

/// Whether this is a media type with optional parameters (RFC 9110 section 8.3.1).
pub(super) fn check(value: &str) -> Result<(), String> {
    let is_token = |text: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        !text.is_empty() && text.bytes().all(allowed)
    };
    let is_quoted = |text: &str| {
        let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let plain = |b: u8| (0x20..0x7f).contains(&b) && b != b'"' && b != b'\\' && b != b';';
        inner.is_some_and(|inner| inner.bytes().all(plain))
    };
    let is_parameter = |text: &str| {
        let pair = text.trim().split_once('=');
        pair.is_some_and(|(name, value)| is_token(name) && (is_token(value) || is_quoted(value)))
    };
    // The space around parts is sent, too, and must not end the line.
    let is_line = value
        .trim()
        .bytes()
        .all(|b| b == b'\t' || (0x20..0x7f).contains(&b));
    let mut parts = value.trim().split(';');
    let essence = parts.next().unwrap_or_default().trim_end();
    let is_type = essence
        .split_once('/')
        .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    if is_line && is_type && parts.all(is_parameter) {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a media type; write TYPE/SUBTYPE and parameters, as in text/html; charset=iso-8859-1",
        value.escape_debug()
    ))
}

/// A value validated by the reader, so that an error names its line.
struct Value(String);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Value, D::Error> {
        let value = String::deserialize(d)?;
        check(&value).map_err(de::Error::custom)?;
        Ok(Value(value))
    }
}

impl<'de> Deserialize<'de> for ContentTypes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ContentTypes, D::Error> {
        struct Table;
        impl<'de> Visitor<'de> for Table {
            type Value = ContentTypes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of EXTENSION = \"TYPE/SUBTYPE\"")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ContentTypes, A::Error> {
                let mut types = ContentTypes::default();
                while let Some((extension, value)) = map.next_entry::<String, Value>()? {
                    if types.get(&extension).is_some() {
                        let why = format!(
                            "`{extension}` is listed twice (letter case does not matter); list it once"
                        );
                        return Err(de::Error::custom(why));
                    }
                    types.insert(&extension, &value.0).map_err(de::Error::custom)?;
                }
                Ok(types)
            }
        }
        d.deserialize_map(Table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_media_type_and_a_key_an_extension() {
        let mut types = ContentTypes::default();
        for (extension, value) in [
            ("html", "text/html; charset=iso-8859-1"),
            ("HTM", " text/html;charset=\"Windows-1252\" "),
            ("x-1", "application/vnd.example+json;profile=a;q=1"),
            ("7z", "application/x-7z-compressed"),
        ] {
            types.insert(extension, value).expect(value);
            assert_eq!(types.get(&extension.to_ascii_uppercase()), Some(value.trim()));
        }
        assert_eq!((types.get("css"), types.get("")), (None, None));
        types
            .insert("", "text/plain")
            .expect("names without an extension");
        assert_eq!(types.get(""), Some("text/plain"));
        types
            .insert("txt", "Text/Plain; charset=UTF-8")
            .expect("case makes no difference");
        assert_eq!(types.get("txt"), Some("text/plain; charset=UTF-8"));
        for (extension, value, part) in [
            (".html", "text/html", "after its last dot"),
            ("tar.gz", "text/html", "after its last dot"),
            ("a/b", "text/html", "not an extension"),
            ("html", "", "not a media type"),
            ("html", "html", "not a media type"),
            ("html", "text/", "not a media type"),
            ("html", "text/html; charset", "not a media type"),
            ("html", "text/html\r\nX: y", "not a media type"),
            ("html", "text/html; charset=\"a\r\n\"", "not a media type"),
            ("html", "text/html;\r\n a=b", "not a media type"),
            ("html", "text/html\n; a=b", "not a media type"),
            ("html", "text/html, text/plain", "not a media type"),
        ] {
            let why = types.insert(extension, value).expect_err(value);
            assert!(why.contains(part), "{why}");
        }
    }
}
