//! The field that carries the ids of requests.

use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};
use std::sync::Arc;

/// The usual field.
const USUAL: &str = "X-Request-Id";

/// The field that carries the ids of requests; by default, requests have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestIdField(Option<Arc<str>>);

impl RequestIdField {
    /// Name of the field; `None`: requests have no ids.
    #[inline]
    pub fn name(&self) -> Option<&Arc<str>> {
        self.0.as_ref()
    }
}

impl FromStr for RequestIdField {
    type Err = String;

    fn from_str(text: &str) -> Result<RequestIdField, String> {
        match text {
            "off" | "false" => return Ok(RequestIdField(None)),
            "true" => return Ok(RequestIdField(Some(USUAL.into()))),
            _ => {}
        }
        let lower = text.to_ascii_lowercase();
        let is_token = lower.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let others = ["x-forwarded-", "x-real-ip", "x-accel-", "x-sendfile"];
        let is_own = lower.len() > 2
            && lower.starts_with("x-")
            && !others.iter().any(|other| lower.starts_with(other));
        if is_token && lower.len() <= 64 && (is_own || ["request-id", "correlation-id"].contains(&&*lower)) {
            return Ok(RequestIdField(Some(text.into())));
        }
        Err(format!(
            "`{}` is not a field for ids; write {USUAL}, another name that begins with X-, Request-Id, Correlation-Id, or off",
            text.escape_debug()
        ))
    }
}

impl fmt::Display for RequestIdField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_deref().unwrap_or("off"))
    }
}

impl<'de> Deserialize<'de> for RequestIdField {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<RequestIdField, D::Error> {
        struct Reader;
        impl de::Visitor<'_> for Reader {
            type Value = RequestIdField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "true, false or the name of a field, as in \"{USUAL}\"")
            }

            fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<RequestIdField, E> {
                Ok(RequestIdField(is_on.then(|| USUAL.into())))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RequestIdField, E> {
                text.parse().map_err(E::custom)
            }
        }
        d.deserialize_any(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_another_meaning_are_refused() {
        for (text, name) in [
            ("true", Some(USUAL)),
            ("off", None),
            ("x-correlation-ID", Some("x-correlation-ID")),
            ("Request-Id", Some("Request-Id")),
        ] {
            let field: RequestIdField = text.parse().unwrap();
            assert_eq!(field.name().map(|name| &**name), name, "{text}");
        }
        for text in [
            "",
            "X-",
            "Host",
            "X-Forwarded-For",
            "X-A B",
            "X-A:",
            "Content-Length",
            "X-Real-IP",
        ] {
            assert!(text.parse::<RequestIdField>().is_err(), "{text}");
        }
    }
}
