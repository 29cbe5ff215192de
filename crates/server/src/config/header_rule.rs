//! Field lines for responses to certain paths.

use super::condition::Conditions;
use super::pattern::PathPattern;
use super::values::{FieldLine, is_computed};
use crate::field_list::FieldListBuf;
use crate::own_fields::is_ending_here;
use serde::{Deserialize, Deserializer, de};

/// Adds field lines to responses for matching paths, besides those for all responses, and removes others.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct HeaderRule {
    /// Matches the path of the request, or of the file that answers it (an index).
    #[serde(default)]
    pub path: PathPattern,
    /// What requests must have for the rule to apply.
    #[serde(default, rename = "if")]
    pub conditions: Conditions,
    /// Field lines, each as `Name: value`. They replace lines of the same name from earlier rules and from the top
    /// level.
    #[serde(default)]
    pub header: Vec<FieldLine>,
    /// Names of fields that responses do not have, unless this rule or a later one adds them.
    #[serde(default, deserialize_with = "names")]
    pub remove: Vec<String>,
    /// Whether the lines are for responses of every kind: errors, redirects and those of upstreams, too.
    #[serde(default)]
    pub always: bool,
}

/// Names of fields that a rule may remove.
fn names<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(d)?;
    for name in &names {
        // A star is a character of names, but none has one: whoever writes it means a pattern.
        let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(de::Error::custom(format!(
                "`{}` is not a field name; write it in full and without a value, as in remove = [\"X-Powered-By\"]",
                name.escape_debug()
            )));
        }
        if is_computed(&name.to_ascii_lowercase()) || is_ending_here(name) {
            return Err(de::Error::custom(format!(
                "`{name}` belongs to the message or its content and cannot be removed; leave it out of `remove`"
            )));
        }
    }
    Ok(names)
}

impl HeaderRule {
    /// Puts the lines of the rule in place of those of the same names, and removes the fields that it names.
    pub(crate) fn put(&self, lines: &mut FieldListBuf) {
        let added = self.header.iter().map(FieldLine::name);
        for name in added.chain(self.removed()) {
            lines.remove(name);
        }
        for line in &self.header {
            lines.add(line.name(), line.value().as_bytes());
        }
    }

    /// Names of fields that the rule removes.
    pub(crate) fn removed(&self) -> impl Iterator<Item = &str> {
        self.remove.iter().map(String::as_str)
    }

    /// What the rule does, in words.
    pub(crate) fn in_words(&self) -> String {
        let added = self.header.iter().map(ToString::to_string);
        let removed = self.removed().map(|name| format!("without {name}"));
        added.chain(removed).collect::<Vec<_>>().join("; ")
    }
}

/// Validates the rules of a site.
pub(super) fn validate(rules: &[HeaderRule]) -> Result<(), String> {
    match rules
        .iter()
        .find(|rule| rule.header.is_empty() && rule.remove.is_empty())
    {
        Some(rule) => Err(format!(
            "the rule for `{}` changes nothing; write `header` or `remove`",
            rule.path
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<HeaderRule, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_rule_adds_and_removes() {
        let rule = read("header = ['X-A: 1', 'X-A: 2']\nremove = ['x-b', 'X-C']").unwrap();
        let mut lines = FieldListBuf::default();
        for name in ["X-B", "x-a", "X-D"] {
            lines.add(name, b"0");
        }
        rule.put(&mut lines);
        assert_eq!(lines.list().text(), b"X-D: 0\r\nX-A: 1\r\nX-A: 2\r\n");
        assert_eq!(rule.in_words(), "X-A: 1; X-A: 2; without x-b; without X-C");
        let rule = read("remove = ['Server']").unwrap();
        assert_eq!(validate(&[rule]), Ok(()));
        let why = validate(&[read("path = '/a'").unwrap()]).unwrap_err();
        assert!(
            why.contains("`/a`") && why.contains("`header` or `remove`"),
            "{why}"
        );
    }

    #[test]
    fn fields_of_the_message_cannot_be_removed() {
        for name in [
            "Content-Length",
            "transfer-encoding",
            "Connection",
            "Keep-Alive",
            "Date",
            "Content-Type",
            "ETag",
            "Vary",
            "Via",
            "Upgrade",
        ] {
            let why = read(&format!("remove = ['{name}']")).unwrap_err();
            assert!(why.contains(name) && why.contains("cannot be removed"), "{why}");
        }
        for name in ["", "A: b", "a b", "X-*"] {
            let why = read(&format!("remove = ['{name}']")).unwrap_err();
            assert!(why.contains("not a field name"), "{why}");
        }
    }
}
