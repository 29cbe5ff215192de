//! Errors of a configuration: where the mistake is, and which value would be valid.

use super::{Behavior, Config, Tilde};
use core::fmt;
use serde::de::DeserializeOwned;
use units::words::nearest;

/// An invalid configuration, with the position of the mistake and the nearest valid key or value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Name of the file as given, if the configuration came from one.
    pub file: Option<String>,
    /// Line in the file, counted from 1.
    pub line: Option<usize>,
    /// The key at fault.
    pub key: Option<String>,
    /// The mistake, and how to correct it.
    pub message: String,
    /// The nearest valid key or value, if one is similar.
    pub nearest: Option<String>,
    /// Whether the mistake is a repeated value. `message` then begins with that value, and `line` is that of its second
    /// occurrence.
    pub(super) is_again: bool,
}

impl ConfigError {
    /// An invalid value found by `Config::validate`, without a position yet.
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

    /// A value that occurs twice. `message` begins with it, in backticks.
    pub(super) fn again(key: &str, message: String) -> ConfigError {
        ConfigError {
            is_again: true,
            ..ConfigError::invalid(key, message)
        }
    }

    /// A mistake in the value of `key` that shows only after its file was read. `text` is the content of the file
    /// `name`.
    pub fn about(key: &str, message: impl Into<String>, text: &str, name: &str) -> ConfigError {
        ConfigError::invalid(key, message).locate(text, name)
    }

    /// Like [`ConfigError::about`], for a key of the host at index `number`. Without such a key, the error names the
    /// line of the host.
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
                let table = line
                    .strip_prefix('[')
                    .map(|table| table.trim_start_matches('[').trim_start());
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

    /// Adds the file, and the line of `self.key` in it.
    pub(super) fn locate(mut self, text: &str, name: &str) -> ConfigError {
        self.file = Some(name.to_owned());
        self.line = self.key.as_deref().and_then(|key| {
            let line = text.lines().position(|line| names_key(line, key))? + 1;
            // A message about a table may quote a value further down in it, or in another table of that name.
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

    /// Translates an error of the TOML reader.
    pub(super) fn from_toml(e: &toml::de::Error, text: &str, name: &str) -> ConfigError {
        let offset = e.span().map(|s| s.start.min(text.len()));
        let line = offset.map(|at| text[..at].matches('\n').count() + 1);
        let full = e.message();
        // "unknown field `x`, expected one of `a`, `b`": the first quoted word is the mistake, the others are the valid
        // ones.
        let words: Vec<&str> = full.split('`').skip(1).step_by(2).collect();
        // The TOML reader gives the line in which a table begins; the mistake may be further down.
        let further_down = |n: usize| {
            let word = *words.first().filter(|_| !full.starts_with("missing field"))?;
            let find = |is_it: &dyn Fn(&str) -> bool| text.lines().skip(n - 1).position(is_it);
            find(&|line| names_key(line, word) || quotes(line, word))
                .or_else(|| find(&|line| has_word(line, word)))
                .map(|more| n + more)
        };
        let line = line.map(|n| further_down(n).unwrap_or(n));
        let alike = |word: &str, valid: &[&str]| nearest(word, valid).map(str::to_owned);
        let line_text = line.and_then(|n| text.lines().nth(n - 1)).unwrap_or("");
        let (message, nearest, key) = match words.split_first() {
            Some((word, valid)) if full.starts_with("unknown field") => match home(word, valid) {
                Some(home) => (format!("unknown key `{word}` here; {home}"), None, Some(*word)),
                None => (format!("unknown key `{word}`"), alike(word, valid), Some(*word)),
            },
            Some((word, valid)) if full.starts_with("unknown variant") => (
                format!("unknown value `{word}`; valid are {}", list(valid)),
                alike(word, valid),
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

/// The TOML reader's message with plain words in place of the names of Rust's number types.
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

/// Message and nearest valid value for a value of the wrong type. The TOML reader speaks of types; for a key that takes
/// one of a few words, the message lists these.
fn other_type(full: &str, line: &str) -> (String, Option<String>) {
    let unknown = || (in_words(full), None);
    let (Some(key), Some((_, value))) = (key_of(line), line.split_once('=')) else {
        return unknown();
    };
    let value = value.split('#').next().unwrap_or(value).trim();
    let reads = |value: &str| try_value::<Config>(key, value).or(try_value::<Behavior>(key, value));
    // A key that takes any text has no nearest value.
    let Some(Err(refusal)) = reads("no such value") else {
        return unknown();
    };
    // Words that users probably mean by `true` or `false`, for keys that are no switches.
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

/// Reads `value` as the value of `key` in the table `T`. `None` if `T` has no such key.
fn try_value<T: DeserializeOwned>(key: &str, value: &str) -> Option<Result<(), String>> {
    keys_of::<T>().iter().any(|known| known == key).then(|| {
        let read = toml::from_str::<T>(&format!("{key} = \"{value}\""));
        read.map(drop).map_err(|wrong| wrong.message().to_owned())
    })
}

/// Names the table that a misplaced key belongs in. `valid` are the keys of the table in which it was found.
fn home(word: &str, valid: &[&str]) -> Option<String> {
    // The plural here is more likely than a key of another table.
    if valid.contains(&&*format!("{word}s")) {
        return None;
    }
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

/// The keys of a table, taken from serde's message about an unknown key.
fn keys_of<T: DeserializeOwned>() -> Vec<String> {
    let wrong = toml::from_str::<T>("no-such-key = 1").err();
    let text = wrong.map(|wrong| wrong.message().to_owned()).unwrap_or_default();
    text.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

/// Whether a line begins with this key or is the header of a table of that name.
fn names_key(line: &str, key: &str) -> bool {
    let line = line.trim_start().trim_start_matches(['[', '"']);
    let rest = line.strip_prefix(key).unwrap_or("x");
    rest.trim_start_matches('"')
        .trim_start()
        .starts_with(['=', ']', '.'])
}

/// Whether a line contains `value` as a whole quoted string.
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

/// How often a line contains this host name as a whole string, in any spelling.
fn named(line: &str, name: &str) -> usize {
    let strings = line.split(['"', '\'']).skip(1).step_by(2);
    strings
        .filter(|string| string.trim_end_matches('.').eq_ignore_ascii_case(name))
        .count()
}

/// Whether a line contains this word, and not as a part of a longer one.
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
