//! What other servers do and Weir does not, each as a switch of its own, so that its cost can be measured.
//!
//! None of these makes Weir faster; every default is off. The sources are document 001 (heads sent apart,
//! Nagle's algorithm, small writes), document 002 (the rest: its whitebox analysis of five servers and the
//! optimizations of JAWS) and document 000 (early close). Presets combine them ([`super::Preset`]).

use super::values::{self, text_values};
use super::{Config, ConfigError};
use measure::{Bytes, Duration};
use serde::{Deserialize, Serialize};

/// The switches; the table `[behavior]` of the file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Behavior {
    /// When files are looked for.
    pub lookup: LookupTime,
    /// Who reads files that are not in memory yet.
    pub cold_reads: ColdReads,
    /// A file of this name is tried to be opened in each directory from the root down to the requested file,
    /// as Apache does for `.htaccess`. What is in it is not read.
    pub ancestor_file: Option<FileName>,
    /// Files are read and written for each answer: nothing of them is held in memory, `sendfile` is not used.
    pub copies: bool,
    /// What is locked while an answer is looked up and laid out.
    pub cache_lock: CacheLock,
    /// The head of an answer is composed for each request.
    pub fresh_head: bool,
    /// The clocks are read and the date is formatted for each arrival of requests.
    pub fresh_date: bool,
    /// The head leaves by a call, and as a segment, of its own.
    pub split_head: bool,
    /// Nagle's algorithm (RFC 896) is left on.
    pub nagle: bool,
    /// Bytes of one write at the most; 0 is as many as the kernel takes.
    #[serde(deserialize_with = "values::bytes")]
    pub write_size: Bytes,
    /// Each line of the access log is written by itself.
    pub log_each: bool,
    /// A lock around accept that all workers share.
    pub accept_lock: bool,
    /// A connection that was answered and asks for nothing more for this long is closed; 0 (`off`) is never.
    #[serde(deserialize_with = "values::duration_or_off")]
    pub early_close: Duration,
}

impl Default for Behavior {
    fn default() -> Behavior {
        Behavior {
            lookup: LookupTime::default(),
            cold_reads: ColdReads::default(),
            ancestor_file: None,
            copies: false,
            cache_lock: CacheLock::default(),
            fresh_head: false,
            fresh_date: false,
            split_head: false,
            nagle: false,
            write_size: Bytes(0),
            log_each: false,
            accept_lock: false,
            early_close: Duration::ZERO,
        }
    }
}

/// When files are looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LookupTime {
    /// Once, and again when they change.
    #[default]
    Cached,
    /// For each request: opened, looked at, read, closed.
    EachRequest,
}

/// Who reads files that are not in memory yet. A worker that blocks anyway always does it itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColdReads {
    /// The worker itself if nothing has to be waited for, which it asks the kernel; else a helper.
    #[default]
    Asked,
    /// The worker itself, and its other connections wait.
    Inline,
    /// A helper, even if nothing has to be waited for.
    Aside,
}

/// What is locked while an answer is looked up and laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheLock {
    /// Nothing: each worker has a map of its own.
    #[default]
    None,
    /// The entry, as in JAWS after its cache was reworked.
    Entry,
    /// The whole cache of a site, as in JAWS before.
    Whole,
}

text_values!(LookupTime, ColdReads, CacheLock);

/// A file name without directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName(String);

impl FileName {
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl core::str::FromStr for FileName {
    type Err = String;

    fn from_str(text: &str) -> Result<FileName, String> {
        let fits = !text.is_empty() && text.len() <= 255 && text != "." && text != "..";
        match fits && !text.bytes().any(|b| b == b'/' || b == 0) {
            true => Ok(FileName(text.to_owned())),
            false => Err(format!(
                "`{text}` is not a file name; write one without `/`, as in .htaccess"
            )),
        }
    }
}

impl<'de> Deserialize<'de> for FileName {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<FileName, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Behavior {
    /// Whether an answer may be given again from memory without being looked at: only where nothing of what
    /// was left out would have had to be done.
    pub(crate) fn allows_recall(&self) -> bool {
        self.lookup == LookupTime::Cached && self.cache_lock == CacheLock::None && !self.fresh_head
    }

    /// Whether a behavior's name stands for something that only has a meaning together with another.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.ancestor_file.is_some() && self.lookup == LookupTime::Cached {
            return Err(ConfigError::invalid(
                "ancestor-file",
                "the file is tried only when files are looked up for each request; set \
                 `lookup = \"each-request\"` (`--lookup each-request`), too",
            ));
        }
        if self.cache_lock != CacheLock::None && self.lookup == LookupTime::EachRequest {
            return Err(ConfigError::invalid(
                "cache-lock",
                "there is no cache to lock with `lookup = \"each-request\"`; remove one of the two",
            ));
        }
        Ok(())
    }
}

impl Config {
    /// The switches that are on, as a file would have them; for the start-up line. Of a preset also what it leaves out
    /// that this server does of itself.
    pub fn switched_on(&self) -> Vec<String> {
        let b = &self.behavior;
        let mut on = Vec::new();
        if b.lookup != LookupTime::default() {
            on.push(format!("lookup {}", b.lookup));
        }
        if b.cold_reads != ColdReads::default() {
            on.push(format!("cold-reads {}", b.cold_reads));
        }
        if let Some(name) = &b.ancestor_file {
            on.push(format!("ancestor-file {}", name.0));
        }
        if b.cache_lock != CacheLock::default() {
            on.push(format!("cache-lock {}", b.cache_lock));
        }
        for (name, is_on) in [
            ("copies", b.copies),
            ("fresh-head", b.fresh_head),
            ("fresh-date", b.fresh_date),
            ("split-head", b.split_head),
            ("nagle", b.nagle),
            ("log-each", b.log_each),
            ("accept-lock", b.accept_lock),
        ] {
            if is_on {
                on.push(name.to_owned());
            }
        }
        if b.write_size.0 > 0 {
            on.push(format!("write-size {}", b.write_size));
        }
        if !b.early_close.is_zero() {
            on.push(format!("early-close {}", super::show_duration(b.early_close)));
        }
        for (name, is_off) in [
            ("compress false", !self.compress),
            ("precompressed false", !self.precompressed),
        ] {
            if is_off && self.preset.is_some() {
                on.push(name.to_owned());
            }
        }
        on
    }
}
