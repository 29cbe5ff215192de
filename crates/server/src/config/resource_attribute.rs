//! An attribute of the resource that all spans of a server share (OpenTelemetry semantic conventions, "Resource"), as in
//! `deployment.environment.name=production`.
//!
//! Decides which attributes may be configured. What Weir says of itself is not decided here.

use core::fmt;
use core::str::FromStr;
use otlp::span::TEXT_MAX;
use serde::{Deserialize, Deserializer, de};

/// Longest name, in bytes.
const NAME_MAX: usize = 255;

/// A name with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceAttribute {
    name: String,
    value: String,
}

impl ResourceAttribute {
    /// The attribute of this name with this value.
    ///
    /// # Errors
    /// What is wrong with the name or the length of the value. The text does not have the value.
    pub fn new(name: &str, value: &str) -> Result<ResourceAttribute, String> {
        let is_plain = |b: u8| (0x21..0x7f).contains(&b) && !b"=,".contains(&b);
        let shown = name.escape_debug();
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_plain) {
            return Err(format!(
                "`{shown}` is not the name of an attribute; write 1 to {NAME_MAX} visible characters of ASCII without = and ,"
            ));
        }
        if name == "service.name" {
            return Err(format!("`{shown}` has a key of its own; set `service-name`"));
        }
        if name.starts_with("telemetry.sdk.") {
            return Err(format!(
                "`{shown}` names the program that makes the spans; remove it"
            ));
        }
        if value.is_empty() || value.len() > TEXT_MAX {
            return Err(format!("the value of `{shown}` must have 1 to {TEXT_MAX} bytes"));
        }
        Ok(ResourceAttribute {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl FromStr for ResourceAttribute {
    type Err = String;

    fn from_str(text: &str) -> Result<ResourceAttribute, String> {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            format!(
                "`{}` is not an attribute; write NAME=VALUE, as in deployment.environment.name=production",
                text.escape_debug()
            )
        })?;
        ResourceAttribute::new(name.trim(), value.trim())
    }
}

impl fmt::Display for ResourceAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl<'de> Deserialize<'de> for ResourceAttribute {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ResourceAttribute, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_has_a_name_and_a_value() {
        for (text, name, value) in [
            ("a=b", "a", "b"),
            (" a.b = c d ", "a.b", "c d"),
            ("host.name=é=1", "host.name", "é=1"),
        ] {
            let attribute: ResourceAttribute = text.parse().unwrap();
            assert_eq!((attribute.name(), attribute.value()), (name, value), "{text}");
            assert_eq!(attribute.to_string().parse(), Ok(attribute));
        }
        for (text, part) in [
            ("a", "write NAME=VALUE"),
            ("=b", "not the name"),
            ("a b=c", "not the name"),
            ("a,b=c", "not the name"),
            ("é=c", "not the name"),
            ("a=", "1 to 1024 bytes"),
            ("service.name=shop", "set `service-name`"),
            ("telemetry.sdk.name=x", "remove it"),
        ] {
            let why = text.parse::<ResourceAttribute>().unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn names_and_values_have_a_longest() {
        let made = |name, value| ResourceAttribute::new(&"n".repeat(name), &"v".repeat(value));
        assert!(made(NAME_MAX, TEXT_MAX).is_ok());
        assert!(made(NAME_MAX + 1, 1).is_err() && made(1, TEXT_MAX + 1).is_err());
    }
}
