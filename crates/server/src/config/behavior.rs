//! Behaviors of historical servers that Weir lacks, each as a separate switch, so that its cost can be measured.
//!
//! None of these makes Weir faster; every default is off. The sources are document 001 (header blocks sent separately,
//! Nagle's algorithm, small writes, time for writes and connections), document 002 (the rest: its whitebox analysis of
//! five servers and the optimizations of JAWS), document 003 (time for requests) and document 000 (early close). Presets
//! combine them ([`super::Preset`]).

use super::values;
use super::{Config, ConfigError};
use serde::Deserialize;
use units::{Bytes, Duration};

/// Most locks that enter the kernel for each response; document 002 counted 40 of PHTTPD.
pub const LOCK_CALLS_MAX: u32 = 10_000;

/// Most microseconds for which a response holds the lock of the cache further.
pub const LOCK_MICROS_MAX: u32 = 1_000_000;

/// Most microseconds that pass between two writes of a response.
pub const WRITE_MICROS_MAX: u32 = 1_000_000;

/// Most microseconds for which a worker is busy after it accepts a connection.
pub const CONNECTION_MICROS_MAX: u32 = 1_000_000;

/// Most microseconds for which a worker is busy for each request.
pub const REQUEST_MICROS_MAX: u32 = 1_000_000;

/// The behaviors; table `[behavior]` of the configuration file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Behavior {
    /// When files are looked up.
    pub lookup: LookupTime,
    /// Which thread reads files that are not in memory yet.
    pub cold_reads: ColdReads,
    /// Name of a file that Weir tries to open in each directory from the root down to the requested file, as Apache
    /// does for `.htaccess`. Its content is not read.
    pub ancestor_file: Option<FileName>,
    /// Files are read and written for each response: no copy is kept in memory, and `sendfile` is not used.
    pub copies: bool,
    /// The lock that is held while a response is looked up and composed.
    pub cache_lock: CacheLock,
    /// For how many microseconds more a response holds that lock, busy; at most [`LOCK_MICROS_MAX`].
    pub lock_micros: u32,
    /// The header block is formatted for each response instead of copied.
    pub fresh_head: bool,
    /// The clocks are read and the date is formatted for each arrival of requests.
    pub fresh_date: bool,
    /// The header block is sent by a call, and in a segment, of its own.
    pub split_head: bool,
    /// Nagle's algorithm (RFC 896) stays on.
    pub nagle: bool,
    /// Largest size of one write in bytes; 0: as much as the kernel accepts.
    #[serde(deserialize_with = "values::bytes")]
    pub write_size: Bytes,
    /// For how many microseconds the worker is busy between two writes of a response; at most [`WRITE_MICROS_MAX`].
    pub write_micros: u32,
    /// For how many microseconds the worker is busy after it accepts a connection, before the first read; at most
    /// [`CONNECTION_MICROS_MAX`]. QUIC connections are exempt.
    pub connection_micros: u32,
    /// How many microseconds of processor time the worker spends on each complete request, before it answers; at most
    /// [`REQUEST_MICROS_MAX`].
    pub request_micros: u32,
    /// Each line of the access log is written alone, at once.
    pub log_each: bool,
    /// All workers share a lock around accept.
    pub accept_lock: bool,
    /// Number of free locks, each of which enters the kernel to lock and to unlock, that a response takes;
    /// at most [`LOCK_CALLS_MAX`].
    pub lock_calls: u32,
    /// A connection is closed if it requests nothing more for this long after a response; 0 (`off`): never.
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
            lock_micros: 0,
            fresh_head: false,
            fresh_date: false,
            split_head: false,
            nagle: false,
            write_size: Bytes(0),
            write_micros: 0,
            connection_micros: 0,
            request_micros: 0,
            log_each: false,
            accept_lock: false,
            lock_calls: 0,
            early_close: Duration::ZERO,
        }
    }
}

units::words! {
    /// When files are looked up.
    #[derive(Default)]
    pub enum LookupTime {
        /// On first use, and again when they change.
        #[default]
        Cached = "cached",
        /// For each request: the file is opened, examined, read and closed.
        EachRequest = "each-request",
    }
}

units::words! {
    /// Which thread reads files that are not in memory yet. A blocking worker always reads them itself.
    #[derive(Default)]
    pub enum ColdReads {
        /// The worker, if the kernel says that the read would not block; otherwise a helper thread.
        #[default]
        Auto = "auto",
        /// The worker; its other connections wait.
        Inline = "inline",
        /// A helper thread, even if the read would not block.
        Helper = "helper",
    }
}

units::words! {
    /// The lock that is held while a response is looked up and composed.
    #[derive(Default)]
    pub enum CacheLock {
        /// None: each worker has its own map.
        #[default]
        None = "none",
        /// A lock per entry, as in JAWS after its cache was reworked.
        Entry = "entry",
        /// One lock for the whole cache of a site, as in JAWS before.
        Whole = "whole",
    }
}

/// A file name without directories, of 1 to 255 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName(String);

impl FileName {
    /// The name as bytes.
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
    /// Whether a response may be repeated from memory without processing its request, which is possible only if that
    /// skips none of the configured behaviors.
    pub(crate) fn allows_head_cache(&self) -> bool {
        self.lookup == LookupTime::Cached
            && self.cache_lock == CacheLock::None
            && !self.fresh_head
            && self.lock_calls == 0
            && self.request_micros == 0
    }

    /// Rejects behaviors that have an effect only together with another one.
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
        if self.lock_micros > 0 && self.cache_lock == CacheLock::None {
            return Err(ConfigError::invalid(
                "lock-micros",
                "no lock is held without `cache-lock`; set `cache-lock` to \"whole\" or \"entry\" (`--cache-lock`), too",
            ));
        }
        for (key, micros, most) in [
            ("lock-micros", self.lock_micros, LOCK_MICROS_MAX),
            ("write-micros", self.write_micros, WRITE_MICROS_MAX),
            ("connection-micros", self.connection_micros, CONNECTION_MICROS_MAX),
            ("request-micros", self.request_micros, REQUEST_MICROS_MAX),
        ] {
            if micros > most {
                return Err(ConfigError::invalid(
                    key,
                    format!("{micros} µs are too long; at most {most} are taken"),
                ));
            }
        }
        if self.lock_calls > LOCK_CALLS_MAX {
            return Err(ConfigError::invalid(
                "lock-calls",
                format!(
                    "{} locks are too many; at most {LOCK_CALLS_MAX} are taken",
                    self.lock_calls
                ),
            ));
        }
        Ok(())
    }
}

impl Config {
    /// The active behaviors as key and value, for the report at start. With a preset, this includes Weir's own features
    /// that the preset turns off.
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
        if b.lock_micros > 0 {
            on.push(format!("lock-micros {}", b.lock_micros));
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
        if b.lock_calls > 0 {
            on.push(format!("lock-calls {}", b.lock_calls));
        }
        if b.write_size.0 > 0 {
            on.push(format!("write-size {}", b.write_size));
        }
        if b.write_micros > 0 {
            on.push(format!("write-micros {}", b.write_micros));
        }
        if b.connection_micros > 0 {
            on.push(format!("connection-micros {}", b.connection_micros));
        }
        if b.request_micros > 0 {
            on.push(format!("request-micros {}", b.request_micros));
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
