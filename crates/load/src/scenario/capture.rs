//! A value that a scenario takes from a response: from a field, between two texts, or by JSON pointer.
//!
//! Bounded: of a response's content, [`CONTENT_MAX`] bytes are kept and searched, and a value has at most [`VALUE_MAX`].

/// Bytes of content that are kept to be searched.
pub const CONTENT_MAX: usize = 1 << 20;
/// Most bytes of a value.
pub const VALUE_MAX: usize = 64 << 10;

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The first field of this name.
    Field(String),
    /// The first text between these two. An empty end is the end of the content.
    Between(Box<[u8]>, Box<[u8]>),
    /// A member of a JSON document (RFC 6901): strings without their quotes, all others as they are written in JSON.
    Pointer(String),
}

impl Source {
    /// Whether it needs the content of a response.
    pub fn is_in_content(&self) -> bool {
        !matches!(self, Source::Field(_))
    }

    /// The value in this content. `None` if it is not there, or too long.
    pub fn find(&self, content: &[u8]) -> Option<Vec<u8>> {
        let value = match self {
            Source::Field(_) => return None,
            Source::Between(start, end) => {
                let from = position(content, start)? + start.len();
                let rest = &content[from..];
                match end.is_empty() {
                    true => rest.to_vec(),
                    false => rest[..position(rest, end)?].to_vec(),
                }
            }
            Source::Pointer(pointer) => {
                let document: serde_json::Value = serde_json::from_slice(content).ok()?;
                match document.pointer(pointer)? {
                    serde_json::Value::String(text) => text.clone().into_bytes(),
                    other => other.to_string().into_bytes(),
                }
            }
        };
        (value.len() <= VALUE_MAX).then_some(value)
    }
}

fn position(text: &[u8], what: &[u8]) -> Option<usize> {
    match what {
        [] => Some(0),
        _ => text.windows(what.len()).position(|window| window == what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(start: &str, end: &str) -> Source {
        Source::Between(start.as_bytes().into(), end.as_bytes().into())
    }

    #[test]
    fn values_are_found() {
        let pointer = |text: &str| Source::Pointer(text.to_owned());
        let page = "<input name=t value=\"x1\"><input value=\"x2\">";
        let json = r#"{"data":{"id":7,"names":["a\n","b"],"null":null,"a/b":true}}"#;
        for (source, content, wanted) in [
            (between("value=\"", "\""), page, Some("x1")),
            (between("name=t value=\"", "\">"), page, Some("x1")),
            (between("", "<"), "ab<c", Some("ab")),
            (between("x2\"", ""), page, Some(">")),
            (between("value='", "'"), page, None),
            (between("x1", "x1"), page, None),
            (pointer("/data/id"), json, Some("7")),
            (pointer("/data/names/0"), json, Some("a\n")),
            (pointer("/data/names"), json, Some("[\"a\\n\",\"b\"]")),
            (pointer("/data/null"), json, Some("null")),
            (pointer("/data/a~1b"), json, Some("true")),
            (pointer("/data/none"), json, None),
            (pointer(""), "{", None),
        ] {
            let found = source.find(content.as_bytes());
            assert_eq!(found.as_deref(), wanted.map(str::as_bytes), "{source:?}");
        }
        assert!(!Source::Field("ETag".to_owned()).is_in_content());
    }

    #[test]
    fn a_value_is_bounded() {
        let content = |bytes: usize| format!("<{}>", "v".repeat(bytes));
        let found = between("<", ">").find(content(VALUE_MAX).as_bytes());
        assert_eq!(found.map(|value| value.len()), Some(VALUE_MAX));
        assert_eq!(between("<", ">").find(content(VALUE_MAX + 1).as_bytes()), None);
    }
}
