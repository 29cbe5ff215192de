//! Fixed answers: a status and a text of the configuration, without a file.
//!
//! Rules match a path in its normalized spelling, as redirects do. Decides which requests a rule answers; does not compose the
//! answer.

use super::condition::{Conditions, Facts};
use super::pattern::{self, PathPattern};
use super::{Config, content_type};
use crate::path::spelling;
use bytes::Bytes;
use http_semantics::status::Status;
use serde::{Deserialize, Deserializer, de};

/// Maximum number of rules of a site: a request is compared with each of them.
const RULES_MAX: usize = 1_000;

/// Maximum length of a text in bytes.
const TEXT_MAX: usize = 64 << 10;

/// The media type of a text whose rule names none.
const MEDIA_TYPE: &str = "text/plain; charset=utf-8";

/// A table `[[respond]]`: answers requests for matching paths with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Respond {
    path: PathPattern,
    /// Paths that are not answered although `path` matches them.
    except: Vec<PathPattern>,
    /// What requests must have to be answered.
    conditions: Conditions,
    status: Status,
    /// Empty: the answer has no content.
    text: Bytes,
    media_type: Box<str>,
}

impl Respond {
    /// A rule for requests that match.
    ///
    /// # Errors
    /// A sentence that names the mistake and what to do.
    fn new(
        (path, except, conditions): (PathPattern, Vec<PathPattern>, Conditions),
        status: u16,
        text: String,
        media_type: Option<&str>,
    ) -> Result<Respond, String> {
        pattern::validate_exceptions(&except, (&path, "path"))?;
        let status = status_of(status)?;
        if text.len() > TEXT_MAX {
            return Err(format!(
                "`text` has {} bytes, and at most {TEXT_MAX} are possible; write it into a file of the site",
                text.len()
            ));
        }
        let is_bodiless = matches!(status, Status::NO_CONTENT | Status::RESET_CONTENT);
        if is_bodiless && !text.is_empty() {
            return Err(format!(
                "a response with status `{}` has no content; remove `text`, or write another status",
                status.as_u16()
            ));
        }
        if media_type.is_some() && text.is_empty() {
            return Err("`type` is the media type of a text; write `text`, or remove `type`".to_owned());
        }
        if let Some(value) = media_type {
            content_type::check(value)?;
        }
        Ok(Respond {
            path,
            except,
            conditions,
            status,
            text: text.into(),
            media_type: media_type.unwrap_or(MEDIA_TYPE).trim().into(),
        })
    }

    /// The pattern of the paths.
    pub(crate) fn path(&self) -> &PathPattern {
        &self.path
    }

    /// What requests must have to be answered.
    pub(crate) fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> Status {
        self.status
    }

    /// The content of the answer; may be empty.
    pub(crate) fn text(&self) -> &Bytes {
        &self.text
    }

    /// The media type of the text.
    pub(crate) fn media_type(&self) -> &str {
        &self.media_type
    }

    /// Whether requests for this path, spelled by [`spelling`], are answered if they meet the conditions.
    pub(crate) fn covers(&self, path: &[u8]) -> bool {
        self.path.matches(path) && !self.except.iter().any(|one| one.matches(path))
    }
}

impl Config {
    /// The rule of this site that answers a request with a fixed text, and its index.
    #[inline]
    pub(crate) fn fixed_answer(&self, facts: Facts<'_, '_, '_>) -> Option<(usize, &Respond)> {
        match self.respond.is_empty() {
            true => None,
            false => self.first_fixed_answer(facts),
        }
    }

    #[cold]
    fn first_fixed_answer(&self, facts: Facts<'_, '_, '_>) -> Option<(usize, &Respond)> {
        let path = facts.head.target.path().and_then(spelling)?;
        let mut rules = self.respond.iter().enumerate();
        rules.find(|(_, rule)| rule.covers(&path) && rule.conditions.hold(facts))
    }
}

/// The status of a fixed answer.
fn status_of(status: u16) -> Result<Status, String> {
    match status {
        206 | 401 | 405 | 407 | 416 | 426 => Err(format!(
            "`{status}` needs fields that a fixed answer does not have; write another status"
        )),
        300..=399 => Err(format!(
            "`{status}` is for redirects; write a table `[[redirect]]` instead"
        )),
        200..=299 | 400..=599 => Status::from_u16(status).map_err(|error| error.to_string()),
        _ => Err(format!(
            "`{status}` is not the status of a fixed answer; write one from 200 to 299 or from 400 to 599"
        )),
    }
}

/// Validates the rules of a site.
pub(super) fn validate(rules: &[Respond]) -> Result<(), String> {
    match rules.len() > RULES_MAX {
        true => Err(format!("more than {RULES_MAX} rules; combine some")),
        false => Ok(()),
    }
}

impl<'de> Deserialize<'de> for Respond {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Respond, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        struct Written {
            #[serde(default)]
            path: PathPattern,
            #[serde(default, deserialize_with = "pattern::several")]
            except: Vec<PathPattern>,
            #[serde(default, rename = "if")]
            conditions: Conditions,
            #[serde(default = "ok")]
            status: u16,
            #[serde(default)]
            text: String,
            #[serde(default, rename = "type")]
            media_type: Option<String>,
        }
        const fn ok() -> u16 {
            200
        }
        let written = Written::deserialize(d)?;
        Respond::new(
            (written.path, written.except, written.conditions),
            written.status,
            written.text,
            written.media_type.as_deref(),
        )
        .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Respond, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_rule_has_defaults() {
        let rule = read("text = 'ok'").unwrap();
        assert!(rule.covers(b"/") && rule.covers(b"/a/b"));
        assert_eq!((rule.status(), &rule.text()[..]), (Status::OK, &b"ok"[..]));
        assert_eq!(rule.media_type(), "text/plain; charset=utf-8");
        let rule = read("path = '/a/*'\nexcept = '/a/b'\nstatus = 204").unwrap();
        assert!(rule.covers(b"/a/") && !rule.covers(b"/a/b") && !rule.covers(b"/"));
        assert!(rule.text().is_empty());
        let rule = read("status = 503\ntext = '{}'\ntype = 'application/json'").unwrap();
        assert_eq!(
            (rule.status().as_u16(), rule.media_type()),
            (503, "application/json")
        );
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, advice) in [
            ("status = 301", "write a table `[[redirect]]`"),
            ("status = 304", "write a table `[[redirect]]`"),
            ("status = 100", "from 200 to 299"),
            ("status = 600", "from 200 to 299"),
            ("status = 206", "needs fields"),
            ("status = 401", "needs fields"),
            ("status = 204\ntext = 'a'", "has no content"),
            ("status = 205\ntext = 'a'", "has no content"),
            ("type = 'text/html'", "write `text`"),
            ("text = 'a'\ntype = 'html'", "is not a media type"),
            ("path = '/a'\nexcept = '/a'", "all of `path`"),
            ("body = 'a'", "unknown field `body`"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(advice), "{text}: {why}");
        }
    }

    #[test]
    fn texts_and_rules_are_bounded() {
        let text = |len: usize| read(&format!("text = '{}'", "a".repeat(len)));
        assert_eq!(text(TEXT_MAX).unwrap().text().len(), TEXT_MAX);
        let why = text(TEXT_MAX + 1).unwrap_err();
        assert!(
            why.contains("65537 bytes") && why.contains("a file of the site"),
            "{why}"
        );
        let rules = vec![read("text = 'a'").unwrap(); RULES_MAX + 1];
        assert_eq!(validate(&rules[1..]), Ok(()));
        assert!(validate(&rules).unwrap_err().contains("more than 1000 rules"));
    }
}
