//! What is wrong with a configuration, said so that it can be put right without the manual.

use super::{Behavior, Config, Tilde};
use core::fmt;
use serde::de::DeserializeOwned;

/// A configuration that cannot be used: where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file's name as given, if it came from one.
    pub file: Option<String>,
    /// The line in the file, from 1.
    pub line: Option<usize>,
    /// The offending key.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// The nearest thing that would be valid.
    pub nearest: Option<String>,
    /// Whether what is wrong is that the value the message begins with stands a second time.
    pub(super) is_again: bool,
}

impl ConfigError {
    /// A value that cannot be, found after reading.
    pub(super) fn invalid(key: &str, message: impl Into<String>) -> ConfigError {
        ConfigError {
            file: None,
            line: None,
            key: Some(key.to_owned()),
            message: message.into(),
            nearest: None,
            is_again: false,
        }
    }

    /// A value that stands where it stood before. `message` begins with it, quoted.
    pub(super) fn again(key: &str, message: String) -> ConfigError {
        ConfigError {
            is_again: true,
            ..ConfigError::invalid(key, message)
        }
    }

    /// What turned out wrong with the value of a key after its file was read: `text` of the file `name`.
    pub fn about(key: &str, message: impl Into<String>, text: &str, name: &str) -> ConfigError {
        ConfigError::invalid(key, message).locate(text, name)
    }

    /// The same about a key of a host, which is this one in the file, from 0; where the host has no such key, about the
    /// host.
    pub fn about_host(
        number: usize,
        key: &str,
        message: impl Into<String>,
        text: &str,
        name: &str,
    ) -> ConfigError {
        let message = message.into();
        let is_head = |line: &&str| {
            let code = line.split('#').next().unwrap_or_default();
            code.split_whitespace().collect::<String>() == "[[host]]"
        };
        let heads = text.lines().enumerate().filter(|(_, line)| is_head(line));
        let heads: Vec<usize> = heads.map(|(at, _)| at).collect();
        let line = heads.get(number).map(|&head| {
            let end = heads.get(number + 1).copied().unwrap_or(usize::MAX);
            let of_host = || text.lines().enumerate().take(end).skip(head + 1);
            let names = |line: &str| {
                let line = line.trim_start();
                let table = line.strip_prefix('[').map(str::trim_start);
                names_key(
                    table
                        .and_then(|table| table.strip_prefix("host."))
                        .unwrap_or(line),
                    key,
                )
            };
            let at_key = of_host().find(|(_, line)| names(line)).map(|(at, _)| at);
            let value = message.strip_prefix('`').and_then(|rest| rest.split_once('`'));
            let further_down = at_key.zip(value).and_then(|(from, (value, _))| {
                let mut lines = of_host().skip_while(|(at, _)| *at < from);
                lines.find(|(_, line)| quotes(line, value)).map(|(at, _)| at)
            });
            further_down.or(at_key).unwrap_or(head) + 1
        });
        ConfigError {
            file: Some(name.to_owned()),
            line,
            ..ConfigError::invalid(key, message)
        }
    }

    /// Adds the file, and the place of `self.key` in it.
    pub(super) fn locate(mut self, text: &str, name: &str) -> ConfigError {
        self.file = Some(name.to_owned());
        self.line = self.key.as_deref().and_then(|key| {
            let line = text.lines().position(|line| names_key(line, key))? + 1;
            // Of a table the message may name what stands further down in it, or in another of that name.
            let value = self
                .message
                .strip_prefix('`')
                .and_then(|rest| rest.split_once('`'));
            let further_down = value.and_then(|(value, _)| {
                let lines = text.lines().skip(line - 1).enumerate();
                let mut quoted = lines.flat_map(|(more, text)| {
                    let times = if self.is_again {
                        named(text, value)
                    } else {
                        usize::from(quotes(text, value))
                    };
                    core::iter::repeat_n(line + more, times)
                });
                quoted.nth(usize::from(self.is_again))
            });
            Some(further_down.unwrap_or(line))
        });
        self
    }

    /// What the reader of the file found wrong.
    pub(super) fn from_toml(e: &toml::de::Error, text: &str, name: &str) -> ConfigError {
        let offset = e.span().map(|s| s.start.min(text.len()));
        let line = offset.map(|at| text[..at].matches('\n').count() + 1);
        let full = e.message();
        // "unknown field `x`, expected one of `a`, `b`": the first quoted word is the offender, the
        // others are what would have been accepted.
        let words: Vec<&str> = full.split('`').skip(1).step_by(2).collect();
        // The reader names the line a table begins in; the offender may stand further down.
        let further_down = |n: usize| {
            let word = *words.first().filter(|_| !full.starts_with("missing field"))?;
            let find = |is_it: &dyn Fn(&str) -> bool| text.lines().skip(n - 1).position(is_it);
            find(&|line| names_key(line, word) || quotes(line, word))
                .or_else(|| find(&|line| has_word(line, word)))
                .map(|more| n + more)
        };
        let line = line.map(|n| further_down(n).unwrap_or(n));
        let line_text = line.and_then(|n| text.lines().nth(n - 1)).unwrap_or("");
        let (message, nearest, key) = match words.split_first() {
            Some((word, valid)) if full.starts_with("unknown field") => match home(word, valid) {
                Some(home) => (format!("unknown key `{word}` here; {home}"), None, Some(*word)),
                None => (format!("unknown key `{word}`"), nearest(word, valid), Some(*word)),
            },
            Some((word, valid)) if full.starts_with("unknown variant") => (
                format!("unknown value `{word}`; valid are {}", list(valid)),
                nearest(word, valid),
                key_of(line_text),
            ),
            _ if full.starts_with("invalid type") || full.starts_with("wanted ") => {
                let (message, nearest) = other_type(full, line_text);
                (message, nearest, key_of(line_text))
            }
            _ => (in_words(full), None, key_of(line_text)),
        };
        ConfigError {
            file: Some(name.to_owned()),
            line,
            key: key.map(str::to_owned),
            message,
            nearest,
            is_again: false,
        }
    }
}

/// The reader's message without the names this program's source has for numbers.
fn in_words(message: &str) -> String {
    let number = match message.rsplit_once(", expected ") {
        Some((before, "u8" | "u16" | "u32" | "u64" | "usize")) => {
            Some((before, "a non-negative whole number that is not too large"))
        }
        Some((before, "f32" | "f64")) => Some((before, "a number")),
        _ => None,
    };
    match number {
        Some((before, what)) => format!("{before}, expected {what}"),
        None => message.to_owned(),
    }
}

/// What is said of a word that is none of the valid ones, from what serde says of it.
pub(super) fn unknown_word(refusal: &str) -> String {
    let words: Vec<&str> = refusal.split('`').skip(1).step_by(2).collect();
    let Some((word, valid)) = words.split_first().filter(|(_, valid)| !valid.is_empty()) else {
        return refusal.to_owned();
    };
    let nearest = nearest(word, valid).map(|nearest| format!("; did you mean `{nearest}`?"));
    format!("valid are {}{}", list(valid), nearest.unwrap_or_default())
}

/// What is said of a value whose type is not the key's, and the nearest that would be valid. The reader's own words are of
/// types; a key that takes one of a few words names these.
fn other_type(full: &str, line: &str) -> (String, Option<String>) {
    let unknown = || (in_words(full), None);
    let (Some(key), Some((_, value))) = (key_of(line), line.split_once('=')) else {
        return unknown();
    };
    let value = value.split('#').next().unwrap_or(value).trim();
    let reads = |value: &str| try_value::<Config>(key, value).or(try_value::<Behavior>(key, value));
    // A key that takes any text has no nearest one.
    let Some(Err(refusal)) = reads("no such value") else {
        return unknown();
    };
    // What people mean by a switch where there is none.
    let likely: &[&str] = match value {
        "true" => &["auto", "local", "on"],
        "false" => &["off", "nobody", "none"],
        _ => &[],
    };
    let nearest = likely.iter().find(|value| matches!(reads(value), Some(Ok(()))));
    let words: Vec<&str> = refusal.split('`').skip(3).step_by(2).collect();
    let message = match refusal.starts_with("unknown variant") {
        true => format!("unknown value `{value}`; valid are {}", list(&words)),
        false => in_words(full),
    };
    (message, nearest.map(|value| (*value).to_owned()))
}

/// What a table says of this text as the value of a key; none if it has no such key.
fn try_value<T: DeserializeOwned>(key: &str, value: &str) -> Option<Result<(), String>> {
    keys_of::<T>().iter().any(|known| known == key).then(|| {
        let read = toml::from_str::<T>(&format!("{key} = \"{value}\""));
        read.map(drop).map_err(|wrong| wrong.message().to_owned())
    })
}

/// Where a key stands that stands elsewhere than where `valid` do.
fn home(word: &str, valid: &[&str]) -> Option<String> {
    let stands = |keys: Vec<String>, word: &str| {
        let is_here = keys.iter().all(|key| valid.contains(&&**key));
        !is_here && keys.iter().any(|key| key == word)
    };
    if stands(keys_of::<Behavior>(), word) {
        return Some("it belongs in the table `[behavior]`".to_owned());
    }
    if stands(keys_of::<Config>(), word) {
        return Some("it belongs at the top level, above all tables".to_owned());
    }
    let short = word.strip_prefix("tilde-").unwrap_or(word);
    stands(keys_of::<Tilde>(), short).then(|| match short == word {
        true => "it belongs in the table `[tilde]`".to_owned(),
        false => format!("write it as `{short}` in the table `[tilde]`"),
    })
}

/// The keys of a table: what its reader says it expects in place of one that it does not have.
fn keys_of<T: DeserializeOwned>() -> Vec<String> {
    let wrong = toml::from_str::<T>("no-such-key = 1").err();
    let text = wrong.map(|wrong| wrong.message().to_owned()).unwrap_or_default();
    text.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

/// Whether a line begins with this key, or is the head of a table of that name.
fn names_key(line: &str, key: &str) -> bool {
    let line = line.trim_start().trim_start_matches(['[', '"']);
    let rest = line.strip_prefix(key).unwrap_or("x");
    rest.trim_start_matches('"')
        .trim_start()
        .starts_with(['=', ']', '.'])
}

/// Whether a line has this as a whole string.
fn quotes(line: &str, value: &str) -> bool {
    let mut ends = line
        .match_indices(value)
        .map(|(at, _)| (&line[..at], &line[at + value.len()..]));
    ends.any(|(before, after)| {
        ['"', '\'']
            .iter()
            .any(|&quote| before.ends_with(quote) && after.starts_with(quote))
    })
}

/// How often a line has this host's name as a whole string, in whatever spelling.
fn named(line: &str, name: &str) -> usize {
    let strings = line.split(['"', '\'']).skip(1).step_by(2);
    strings
        .filter(|string| string.trim_end_matches('.').eq_ignore_ascii_case(name))
        .count()
}

/// Whether a line has this, and not as a part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "-_".contains(c);
    let mut ends = line
        .match_indices(word)
        .map(|(at, _)| (&line[..at], &line[at + word.len()..]));
    ends.any(|(before, after)| !before.ends_with(is_part) && !after.starts_with(is_part))
}

fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=')?;
    Some(key.trim().trim_matches(['"', '\''])).filter(|k| !k.is_empty())
}

fn list(words: &[&str]) -> String {
    words
        .iter()
        .map(|w| format!("`{w}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The most similar of `valid`, if it is similar at all.
pub(super) fn nearest(word: &str, valid: &[&str]) -> Option<String> {
    let (score, best) = valid
        .iter()
        .map(|v| (strsim::jaro_winkler(word, v), v))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    (score > 0.7).then(|| (*best).to_owned())
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{file}:")?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
            }
            f.write_str(" ")?;
        }
        if let Some(key) = &self.key
            && !self.message.contains(&format!("`{key}`"))
        {
            write!(f, "`{key}`: ")?;
        }
        f.write_str(&self.message)?;
        if let Some(nearest) = &self.nearest {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
