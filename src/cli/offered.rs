//! The valid words of flags, for shell completion. Decides nothing else: each type's `FromStr` accepts words and words
//! its own errors.

use clap::builder::{PossibleValue, TypedValueParser};
use core::error::Error;
use core::marker::PhantomData;
use core::str::FromStr;
use std::ffi::OsStr;

/// See `--concurrency`.
pub(crate) const CONCURRENCY: &[&str] = &[
    "loops",
    "loop",
    "process-loops",
    "pool",
    "thread-per-connection",
    "thread-per-request",
    "processes",
];
/// Strategies that `weir ctl` can switch to.
pub(crate) const THREADS: &[&str] = &[
    "loops",
    "loop",
    "pool",
    "thread-per-connection",
    "thread-per-request",
];
/// See `--io`.
pub(crate) const IO: &[&str] = &["auto", "epoll", "uring", "blocking"];
/// See `--preset`.
pub(crate) const PRESETS: &[&str] = &[
    "apache-1.3",
    "phttpd",
    "java-server",
    "zeus",
    "enterprise",
    "jaws-baseline",
    "jaws",
];
/// See `--cache-policy`.
pub(crate) const POLICIES: &[&str] = &["lru", "lfu", "s3-fifo", "hinted", "structured"];
/// See `--log-format`.
pub(crate) const LOG_FORMATS: &[&str] = &["common", "combined", "json"];
/// See `--adapt`.
pub(crate) const ADAPT: &[&str] = &["auto", "dry-run", "off"];
/// See `--live`.
pub(crate) const LIVE: &[&str] = &["nobody", "local", "all"];
/// See `--landlock`.
pub(crate) const LANDLOCK: &[&str] = &["auto", "root", "off"];
/// See `--tls`.
pub(crate) const TLS_SOURCES: &[&str] = &["auto", "internal"];
/// See `--acme-challenge`.
pub(crate) const ACME_CHALLENGES: &[&str] = &["auto", "http-01", "tls-alpn-01", "dns-01"];
/// See `weir ctl certificates revoke`.
pub(crate) const REASONS: &[&str] = &[
    "unspecified",
    "key-compromise",
    "affiliation-changed",
    "superseded",
    "cessation-of-operation",
];
/// See `--tls-client-auth`.
pub(crate) const CLIENT_AUTH: &[&str] = &["auto", "off", "optional", "required"];
/// See `--crypto`.
pub(crate) const CRYPTO: &[&str] = &["default", "modern", "classical", "nist"];
/// See `--http2`.
pub(crate) const HTTP2: &[&str] = &["off", "tls", "all"];
/// See `--seccomp`.
pub(crate) const SECCOMP: &[&str] = &["auto", "off"];
/// See `--line-order`.
pub(crate) const LINE_ORDERS: &[&str] = &["smallest", "shared"];
/// See `--lookup`.
pub(crate) const LOOKUP: &[&str] = &["cached", "each-request"];
/// See `--cold-reads`.
pub(crate) const COLD_READS: &[&str] = &["auto", "inline", "helper"];
/// See `--cache-lock`.
pub(crate) const CACHE_LOCK: &[&str] = &["none", "entry", "whole"];
/// See `weir load --method`.
pub(crate) const METHODS: &[&str] = &["GET", "HEAD"];

/// A clap value parser that uses `FromStr` and offers these words for completion.
#[derive(Debug)]
pub(crate) struct Offered<T>(&'static [&'static str], PhantomData<fn() -> T>);

/// Creates the parser for `T` with its words.
pub(crate) fn offered<T>(words: &'static [&'static str]) -> Offered<T> {
    Offered(words, PhantomData)
}

impl<T> Clone for Offered<T> {
    fn clone(&self) -> Offered<T> {
        offered(self.0)
    }
}

impl<T> TypedValueParser for Offered<T>
where
    T: FromStr<Err: Into<Box<dyn Error + Send + Sync>>> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        flag: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let read: fn(&str) -> Result<T, T::Err> = str::parse;
        read.parse_ref(command, flag, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().copied().map(PossibleValue::new)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::config::{
        Adapt, CacheLock, CachePolicy, ColdReads, Concurrency, Http2, IoKind, Landlock, LineOrder, LiveFor,
        LogFormat, LookupTime, Preset, Seccomp,
    };

    /// The valid words, taken from a type's error about an invalid one.
    fn named<T: FromStr<Err = String>>() -> Vec<String> {
        let why = "no-such-word".parse::<T>().err().unwrap_or_default();
        let mut words: Vec<String> = why.split('`').skip(3).step_by(2).map(str::to_owned).collect();
        words.sort_unstable();
        words
    }

    fn sorted(words: &[&str]) -> Vec<String> {
        let mut words: Vec<String> = words.iter().copied().map(str::to_owned).collect();
        words.sort_unstable();
        words
    }

    #[test]
    fn what_is_offered_is_what_is_taken() {
        assert_eq!(sorted(CONCURRENCY), named::<Concurrency>());
        assert_eq!(sorted(IO), named::<IoKind>());
        assert_eq!(sorted(PRESETS), named::<Preset>());
        assert_eq!(sorted(POLICIES), named::<CachePolicy>());
        assert_eq!(sorted(HTTP2), named::<Http2>());
        assert_eq!(sorted(LOG_FORMATS), named::<LogFormat>());
        assert_eq!(sorted(ADAPT), named::<Adapt>());
        assert_eq!(sorted(LIVE), named::<LiveFor>());
        assert_eq!(sorted(LANDLOCK), named::<Landlock>());
        assert_eq!(sorted(TLS_SOURCES), named::<server::config::TlsSource>());
        assert_eq!(sorted(ACME_CHALLENGES), named::<server::config::AcmeChallenge>());
        assert_eq!(sorted(REASONS), named::<acme::order::Reason>());
        assert_eq!(sorted(CLIENT_AUTH), named::<server::config::ClientAuth>());
        assert_eq!(sorted(CRYPTO), named::<server::config::Crypto>());
        assert_eq!(sorted(SECCOMP), named::<Seccomp>());
        assert_eq!(sorted(LINE_ORDERS), named::<LineOrder>());
        assert_eq!(sorted(LOOKUP), named::<LookupTime>());
        assert_eq!(sorted(COLD_READS), named::<ColdReads>());
        assert_eq!(sorted(CACHE_LOCK), named::<CacheLock>());
        assert_eq!(sorted(METHODS), named::<client::session::Verb>());
        assert_eq!(POLICIES.len(), server::cache::Policy::ALL.len());
        assert!(
            POLICIES
                .iter()
                .all(|name| name.parse::<server::cache::Policy>().is_ok())
        );
        let threads: Vec<&str> = CONCURRENCY
            .iter()
            .copied()
            .filter(|name| !name.starts_with("process"))
            .collect();
        assert_eq!(THREADS, threads);
    }
}
