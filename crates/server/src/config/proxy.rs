//! Paths whose requests are passed to other servers.
//!
//! Rules match a path in its normalized spelling, as redirects do, and are tried in order. Decides what the target of the passed
//! request is; `upstream` knows which addresses are valid, and `crate::proxy` passes the request.

use super::condition::Conditions;
use super::fastcgi::FastCgi;
use super::pattern::{self, PathPattern};
use super::proxy_cache::{self, ProxyCache};
use super::request_header::RequestHeader;
use super::upstream::{ProxyTls, UpstreamAddress};
use super::values;
use crate::path;
use crate::proxy_protocol::Version;
use balance::Policy;
use core::str::FromStr;
use serde::{Deserialize, Deserializer, de};
use std::path::PathBuf;
use units::{Bytes, Duration};

/// Most upstreams of a rule: a request tries each at most once.
const UPSTREAMS_MAX: usize = 64;

/// Largest weight of an upstream.
const WEIGHT_MAX: u32 = 100;

/// Most connections kept per upstream and event loop. A loop keeps no more in total.
const KEEPALIVE_MAX: u32 = 1_024;

/// Connections kept per upstream and event loop, unless the rule says otherwise.
const KEEPALIVE: u32 = 32;

/// Most times that a request is repeated.
const RETRIES_MAX: u32 = 10;

/// Longest connect timeout.
pub(crate) const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// Most of a request body that is collected: it is memory of the client's connection.
const BUFFER_MAX: Bytes = Bytes::mib(1);

/// Shortest time between two lookups of a host name: each asks a name server.
const RESOLVE_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Longest time between two lookups of a host name.
const RESOLVE_INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// Most requests at a time on one connection.
pub(crate) const STREAMS_MAX: u32 = 1_000;

/// Longest time between two checks.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// A table `[[proxy]]`: requests for matching paths are passed to one of these upstreams.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Proxy {
    /// Paths that are passed on.
    pub path: PathPattern,
    /// Paths that this rule does not pass on although `path` matches them: one pattern or a list.
    #[serde(default, deserialize_with = "pattern::several")]
    pub except: Vec<PathPattern>,
    /// What requests must have for the rule to apply.
    #[serde(default, rename = "if")]
    pub conditions: Conditions,
    /// Which requests for these paths are passed on.
    #[serde(default)]
    pub when: When,
    /// Servers that share the requests.
    #[serde(deserialize_with = "upstreams")]
    pub upstreams: Vec<UpstreamAddress>,
    /// Which of them gets the next request.
    #[serde(default)]
    pub balance: Policy,
    /// A policy whose choices are counted and not followed.
    #[serde(default)]
    pub balance_dry_run: Option<Policy>,
    /// A file to which each choice of an upstream is appended; `None`: none is recorded.
    #[serde(default)]
    pub balance_record: Option<PathBuf>,
    /// What of a request `balance = "hash"` hashes.
    #[serde(default)]
    pub hash_key: HashKey,
    /// Shares of the upstreams, in their order; empty: equal ones.
    #[serde(default)]
    pub weights: Vec<u32>,
    /// Failures in a row after which an upstream is ejected; 0: never.
    #[serde(default = "max_failures")]
    pub max_failures: u32,
    /// Time for which an ejected upstream gets no request.
    #[serde(default = "ejection_time", deserialize_with = "values::duration")]
    pub ejection_time: Duration,
    /// Time in which an upstream that comes back gets more and more requests; zero: it gets its whole share at once.
    #[serde(default, deserialize_with = "values::duration_or_off")]
    pub slow_start: Duration,
    /// How upstreams are checked without requests of clients; `None`: not at all.
    #[serde(default)]
    pub check: Option<Check>,
    /// How responses are stored for other clients; `None`: not at all.
    #[serde(default, deserialize_with = "proxy_cache::switch")]
    pub cache: Option<ProxyCache>,
    /// How paths name scripts, for upstreams of FastCGI; `None`: in the usual way of PHP.
    #[serde(default)]
    pub fastcgi: Option<FastCgi>,
    /// TLS to upstreams with `https`; `None`: the system's roots vouch for them.
    #[serde(default)]
    pub tls: Option<ProxyTls>,
    /// Whether the upstream gets only the part of the path that the star stands for.
    #[serde(default)]
    pub strip: bool,
    /// The path that the upstream gets; its star stands for the match of the star in `path`. `None`: the path as received.
    #[serde(default)]
    pub rewrite: Option<Rewrite>,
    /// How the fields of a request change on their way to the upstream.
    #[serde(default)]
    pub request_header: RequestHeader,
    /// Bytes of a request body that are collected before an upstream gets the request; 0: none.
    #[serde(default, deserialize_with = "values::bytes")]
    pub buffer: Bytes,
    /// The version of the PROXY protocol in which each connection to an upstream begins. `None`: it begins with the request.
    #[serde(default)]
    pub proxy_protocol: Option<Version>,
    /// Time for a connection to an upstream to open.
    #[serde(default = "connect_timeout", deserialize_with = "values::duration")]
    pub connect_timeout: Duration,
    /// Time from the end of the request to the first byte of the response.
    #[serde(default = "first_byte_timeout", deserialize_with = "values::duration")]
    pub first_byte_timeout: Duration,
    /// Time from the choice of the first upstream to the end of the response; zero: no limit.
    #[serde(default, deserialize_with = "values::duration_or_off")]
    pub total_timeout: Duration,
    /// Time from one lookup of a host name to the next.
    #[serde(default = "resolve_interval", deserialize_with = "values::duration")]
    pub resolve_interval: Duration,
    /// Connections kept for later requests, per upstream and event loop; 0: none. `None`: 32, or none for upstreams of
    /// FastCGI.
    #[serde(default)]
    pub keepalive: Option<u32>,
    /// Time for which an unused connection is kept.
    #[serde(default = "keepalive_time", deserialize_with = "values::duration")]
    pub keepalive_time: Duration,
    /// Whether upstreams with `https` may choose HTTP/2.
    #[serde(default)]
    pub http2: bool,
    /// Requests at a time on an HTTP/2 connection to an upstream.
    #[serde(default = "streams")]
    pub streams: u32,
    /// How often a request is repeated at another upstream.
    #[serde(default = "retries")]
    pub retries: u32,
    /// Whether clients may switch to WebSocket.
    #[serde(default = "websocket")]
    pub websocket: bool,
    /// Time without a byte from or to an upstream.
    #[serde(default = "idle_timeout", deserialize_with = "values::duration")]
    pub idle_timeout: Duration,
    /// Bytes of a request body.
    #[serde(default = "body_size", deserialize_with = "values::bytes")]
    pub max_body_size: Bytes,
}

units::words! {
    /// Which requests for the paths of a rule are passed on.
    #[derive(Default)]
    pub enum When {
        /// All of them.
        #[default]
        Always = "always",
        /// Those for which the site has no file.
        Missing = "missing",
    }
}

fn max_failures() -> u32 {
    3
}

fn ejection_time() -> Duration {
    Duration::from_secs(10)
}

fn resolve_interval() -> Duration {
    Duration::from_secs(30)
}

fn keepalive_time() -> Duration {
    Duration::from_secs(30)
}

fn retries() -> u32 {
    1
}

fn streams() -> u32 {
    100
}

fn websocket() -> bool {
    true
}

fn connect_timeout() -> Duration {
    Duration::from_secs(5)
}

fn first_byte_timeout() -> Duration {
    Duration::from_secs(60)
}

fn idle_timeout() -> Duration {
    Duration::from_secs(60)
}

fn body_size() -> Bytes {
    Bytes::mib(1024)
}

impl Proxy {
    /// Whether this process carries its requests out itself: it is the route of uploads or of commands.
    pub(crate) fn is_local(&self) -> bool {
        self.upstreams.iter().any(UpstreamAddress::is_local)
    }

    /// Whether its upstreams speak FastCGI.
    pub(crate) fn is_of_fastcgi(&self) -> bool {
        self.upstreams.iter().any(UpstreamAddress::is_fastcgi)
    }

    /// How paths name scripts; `None`: the upstreams do not speak FastCGI.
    pub(crate) fn scripts(&self) -> Option<FastCgi> {
        self.is_of_fastcgi()
            .then(|| self.fastcgi.clone().unwrap_or_default())
    }

    /// Connections kept per upstream and event loop. With FastCGI, each takes a process of php-fpm for as long as it is open, so
    /// the default is none.
    pub(crate) fn keepalive(&self) -> u32 {
        let usual = if self.is_of_fastcgi() { 0 } else { KEEPALIVE };
        self.keepalive.unwrap_or(usual)
    }

    /// Whether files come before the upstreams.
    pub(crate) fn is_behind_files(&self) -> bool {
        self.when == When::Missing || self.is_of_fastcgi()
    }

    /// Checks that a rule for FastCGI has no setting that applications do not know.
    fn validate_fastcgi(&self) -> Result<(), String> {
        if !self.is_of_fastcgi() {
            return match &self.fastcgi {
                None => Ok(()),
                Some(_) => Err(
                    "`fastcgi` has no effect without an upstream of FastCGI; write one, as in fastcgi://127.0.0.1:9000, or \
                     remove the table"
                        .to_owned(),
                ),
            };
        }
        if !self.upstreams.iter().all(UpstreamAddress::is_fastcgi) {
            return Err(
                "upstreams of HTTP and of FastCGI cannot share a rule; write a rule for each".to_owned(),
            );
        }
        let settings = [
            ("cache", self.cache.is_some()),
            ("check", self.check.is_some()),
            ("http2", self.http2),
            ("proxy-protocol", self.proxy_protocol.is_some()),
            ("rewrite", self.rewrite.is_some()),
            ("strip", self.strip),
        ];
        if let Some((name, _)) = settings.iter().find(|(_, is_set)| *is_set) {
            return Err(format!(
                "`{name}` is not available for upstreams of FastCGI; remove it from the rule for `{}`",
                self.path
            ));
        }
        self.fastcgi.as_ref().map_or(Ok(()), FastCgi::validate)
    }

    /// A rule with the default settings.
    pub(crate) fn new(path: PathPattern, upstreams: Vec<UpstreamAddress>) -> Proxy {
        Proxy {
            path,
            except: Vec::new(),
            conditions: Conditions::default(),
            when: When::default(),
            upstreams,
            balance: Policy::default(),
            balance_dry_run: None,
            balance_record: None,
            hash_key: HashKey::default(),
            weights: Vec::new(),
            max_failures: max_failures(),
            ejection_time: ejection_time(),
            slow_start: Duration::ZERO,
            check: None,
            cache: None,
            fastcgi: None,
            tls: None,
            strip: false,
            rewrite: None,
            request_header: RequestHeader::default(),
            buffer: Bytes(0),
            proxy_protocol: None,
            connect_timeout: connect_timeout(),
            resolve_interval: resolve_interval(),
            keepalive: None,
            keepalive_time: keepalive_time(),
            http2: false,
            streams: streams(),
            retries: retries(),
            websocket: websocket(),
            first_byte_timeout: first_byte_timeout(),
            total_timeout: Duration::ZERO,
            idle_timeout: idle_timeout(),
            max_body_size: body_size(),
        }
    }

    /// Checks values that depend on each other.
    ///
    /// # Errors
    /// A sentence that names the mistake and a valid value.
    pub(super) fn validate(&self) -> Result<(), String> {
        if self.strip && !self.path.has_star() {
            return Err(format!(
                "`strip` keeps the part of the path that the star stands for, and `{}` has no star; write one, as in /api/*",
                self.path
            ));
        }
        if let Some(rewrite) = &self.rewrite {
            if self.strip {
                return Err(
                    "`strip` and `rewrite` both decide the path; `rewrite = \"/*\"` strips, too".to_owned(),
                );
            }
            if rewrite.after.is_some() && !self.path.has_star() {
                return Err(format!(
                    "the star of `rewrite` stands for that of `path`, and `{}` has none; write one, as in /api/*",
                    self.path
                ));
            }
        }
        if self.buffer > BUFFER_MAX {
            return Err(format!("`buffer` is too large; the maximum is {BUFFER_MAX}"));
        }
        self.request_header.validate()?;
        self.validate_fastcgi()?;
        pattern::validate_exceptions(&self.except, (&self.path, "path"))?;
        if !self.weights.is_empty() && self.weights.len() != self.upstreams.len() {
            return Err(format!(
                "`weights` has {} numbers for {} upstreams; write one for each",
                self.weights.len(),
                self.upstreams.len()
            ));
        }
        if self
            .weights
            .iter()
            .any(|weight| !(1..=WEIGHT_MAX).contains(weight))
        {
            return Err(format!("a weight is a number from 1 to {WEIGHT_MAX}"));
        }
        let measures = |policy| policy == Policy::Turnaround;
        if !self.weights.is_empty() && (measures(self.balance) || self.balance_dry_run.is_some_and(measures))
        {
            return Err("`weights` have no meaning with `turnaround`, which measures the speed of each upstream; remove them".to_owned());
        }
        if let Some(check) = &self.check {
            check.validate()?;
        }
        if let Some(cache) = &self.cache {
            cache.validate()?;
        }
        if let Some(tls) = &self.tls {
            tls.validate()?;
            if !self.upstreams.iter().any(UpstreamAddress::is_secured) {
                return Err(
                    "`tls` has no effect without an upstream with https; write one, or remove the table"
                        .to_owned(),
                );
            }
        }
        if self.connect_timeout > CONNECT_TIMEOUT_MAX {
            return Err("`connect-timeout` is too long; the maximum is 60s".to_owned());
        }
        if !(RESOLVE_INTERVAL_MIN..=RESOLVE_INTERVAL_MAX).contains(&self.resolve_interval) {
            return Err("`resolve-interval` is from 100ms to 1h".to_owned());
        }
        if self.keepalive() > KEEPALIVE_MAX {
            return Err(format!(
                "`keepalive` keeps too many connections; the maximum is {KEEPALIVE_MAX}"
            ));
        }
        if self.keepalive_time < Duration::from_secs(1) {
            return Err(
                "`keepalive-time` is too short; the minimum is 1s, and `keepalive = 0` keeps no connection"
                    .to_owned(),
            );
        }
        if !(1..=STREAMS_MAX).contains(&self.streams) {
            return Err(format!("`streams` must be from 1 to {STREAMS_MAX}"));
        }
        if self.retries > RETRIES_MAX {
            return Err(format!("`retries` is too large; the maximum is {RETRIES_MAX}"));
        }
        let least = Duration::from_millis(10);
        let spans = [self.connect_timeout, self.first_byte_timeout, self.idle_timeout];
        let is_short = |span: &Duration| *span < least;
        if spans.iter().any(is_short) || (!self.total_timeout.is_zero() && is_short(&self.total_timeout)) {
            return Err(
                "a timeout is too short; the minimum is 10ms, because slower upstreams are common".to_owned(),
            );
        }
        Ok(())
    }

    /// Whether the rule covers `path`, in normalized spelling: `path` of the rule matches it, and no exception does.
    pub(crate) fn covers(&self, path: &[u8]) -> bool {
        self.path.matches(path) && !self.except.iter().any(|one| one.matches(path))
    }

    /// Its paths and conditions, as reports show it.
    pub(crate) fn shown(&self) -> String {
        self.conditions.after(&self.path)
    }

    /// The target for an upstream if the rule covers `path`, in normalized spelling. `raw` is the path as received; it is
    /// passed on as it is, unless the rule strips a part of it.
    pub(crate) fn target(&self, path: &[u8], raw: &[u8], query: Option<&[u8]>) -> Option<Vec<u8>> {
        // Some upstreams take an escaped slash for a slash: the rule has to cover both readings.
        let covers = |other: Vec<u8>| self.covers(&other);
        if !self.covers(path) || !path::with_slashes(raw).is_none_or(covers) {
            return None;
        }
        let captured = self.path.captures(path)?;
        let mut target = Vec::with_capacity(raw.len() + query.map_or(0, |query| query.len() + 1));
        match &self.rewrite {
            None if self.strip => rewritten(b"/", captured, b"", &mut target),
            None => target.extend_from_slice(raw),
            Some(Rewrite { before, after: None }) => target.extend_from_slice(before.as_bytes()),
            Some(Rewrite {
                before,
                after: Some(after),
            }) => rewritten(before.as_bytes(), captured, after.as_bytes(), &mut target),
        }
        if let Some(query) = query {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        Some(target)
    }
}

/// Appends a path with `captured` in place of the star. Pieces may meet in a dot segment, as in `/api*` with `/api../x`: it
/// is resolved here, below the last slash of `before`, so that the upstream cannot resolve it to a path that no rule names.
/// A path whose pieces meet in two slashes has one.
fn rewritten(before: &[u8], captured: &[u8], after: &[u8], out: &mut Vec<u8>) {
    let captured = match before.ends_with(b"/") {
        true => captured.strip_prefix(b"/").unwrap_or(captured),
        false => captured,
    };
    let joined = [before, captured, after].concat();
    let end = before.iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
    let folder = &before[..end];
    // A normalized path is its own spelling.
    match path::spelling(&joined) {
        Some(spelled) if spelled.starts_with(folder) => out.extend_from_slice(&spelled),
        Some(spelled) => {
            out.extend_from_slice(folder);
            out.extend_from_slice(spelled.strip_prefix(b"/").unwrap_or(&spelled));
        }
        None => out.extend_from_slice(folder),
    }
}

/// A path for an upstream, with at most one star.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    before: String,
    /// The text after the star; `None` without a star.
    after: Option<String>,
}

impl FromStr for Rewrite {
    type Err = String;

    fn from_str(text: &str) -> Result<Rewrite, String> {
        let is_plain = |b: u8| (0x21..0x7f).contains(&b) && !b"?#\\\"<>^`{|}".contains(&b);
        let sample = text.replace('*', "x");
        let is_path = text.starts_with('/') && text.bytes().all(is_plain) && text.matches('*').count() <= 1;
        if !is_path || path::spelling(sample.as_bytes()).as_deref() != Some(sample.as_bytes()) {
            return Err(format!(
                "`{}` is not a path for an upstream; write one with at most one `*` and without a query, as in /v2/*",
                text.escape_debug()
            ));
        }
        let (before, after) = match text.split_once('*') {
            Some((before, after)) => (before, Some(after.to_owned())),
            None => (text, None),
        };
        Ok(Rewrite {
            before: before.to_owned(),
            after,
        })
    }
}

impl<'de> Deserialize<'de> for Rewrite {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Rewrite, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// What of a request decides its upstream: `address`, `path`, or `header:NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HashKey {
    /// The address of the client.
    #[default]
    Address,
    /// The path for the upstream, without the query.
    Path,
    /// A field of the request; requests without it go by the address of the client.
    Header(String),
}

impl FromStr for HashKey {
    type Err = String;

    fn from_str(text: &str) -> Result<HashKey, String> {
        let is_token = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
        };
        match (text, text.strip_prefix("header:")) {
            ("address", _) => Ok(HashKey::Address),
            ("path", _) => Ok(HashKey::Path),
            (_, Some(name)) if is_token(name) => Ok(HashKey::Header(name.to_owned())),
            _ => Err(format!(
                "`{}` is no key of a request; write address, path, or header: and a name, as in header:X-User",
                text.escape_debug()
            )),
        }
    }
}

impl<'de> Deserialize<'de> for HashKey {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<HashKey, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

/// A table `[proxy.check]`: each upstream is asked for this path again and again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Check {
    /// Path, and query if there is one.
    pub path: String,
    /// Time from the end of a round of checks to the next one.
    #[serde(default = "check_interval", deserialize_with = "values::duration")]
    pub interval: Duration,
    /// Time for a check, its connection included.
    #[serde(default = "check_timeout", deserialize_with = "values::duration")]
    pub timeout: Duration,
    /// Status of a good answer; `None`: any from 200 to 399.
    #[serde(default)]
    pub status: Option<u16>,
}

fn check_interval() -> Duration {
    Duration::from_secs(5)
}

fn check_timeout() -> Duration {
    Duration::from_secs(2)
}

impl Check {
    fn validate(&self) -> Result<(), String> {
        let is_plain = |b: u8| b.is_ascii_graphic() && b != b'#';
        if !self.path.starts_with('/') || !self.path.bytes().all(is_plain) {
            return Err(format!(
                "`check` has the path `{}`; write one that begins with a slash, without spaces, as in /healthz",
                self.path.escape_debug()
            ));
        }
        let valid = Duration::from_millis(10)..=CHECK_INTERVAL_MAX;
        if !valid.contains(&self.interval) {
            return Err("`interval` of a check is from 10ms to 1h".to_owned());
        }
        if self.timeout < Duration::from_millis(10) || self.timeout > CONNECT_TIMEOUT_MAX {
            return Err("`timeout` of a check is from 10ms to 60s".to_owned());
        }
        if self.status.is_some_and(|status| !(100..=599).contains(&status)) {
            return Err("`status` of a check is from 100 to 599".to_owned());
        }
        Ok(())
    }
}

/// The short form of the flag: `/api=http://127.0.0.1:8080` covers `/api` and the paths below it.
impl FromStr for ProxyFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<ProxyFlag, String> {
        let Some((path, upstream)) = text.split_once('=') else {
            return Err(format!(
                "`{}` is not PATH=URL; write a path and an upstream, as in /api=http://127.0.0.1:8080",
                text.escape_debug()
            ));
        };
        let upstream: UpstreamAddress = upstream.parse()?;
        let mut rules = Vec::new();
        let patterns = match path.strip_suffix('/') {
            _ if path.contains('*') => vec![path.to_owned()],
            Some(above) => vec![format!("{above}/*")],
            None => vec![path.to_owned(), format!("{path}/*")],
        };
        for pattern in patterns {
            rules.push(Proxy::new(pattern.parse()?, vec![upstream.clone()]));
        }
        Ok(ProxyFlag(rules))
    }
}

/// The rules of one flag `--proxy PATH=URL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyFlag(pub Vec<Proxy>);

fn upstreams<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<UpstreamAddress>, D::Error> {
    let texts = Vec::<String>::deserialize(d)?;
    if texts.is_empty() || texts.len() > UPSTREAMS_MAX {
        return Err(de::Error::custom(format!(
            "a proxy has 1 to {UPSTREAMS_MAX} upstreams, as in upstreams = [\"http://127.0.0.1:8080\"]"
        )));
    }
    let parsed = texts.iter().map(|text| text.parse());
    parsed.collect::<Result<_, String>>().map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(path: &str, strip: bool) -> Proxy {
        Proxy {
            strip,
            ..Proxy::new(path.parse().unwrap(), vec!["http://127.0.0.1:1".parse().unwrap()])
        }
    }

    #[test]
    fn a_flag_covers_the_path_and_what_is_below() {
        for (flag, patterns) in [
            ("/api=http://127.0.0.1:1", &["/api", "/api/*"][..]),
            ("/api/=http://127.0.0.1:1", &["/api/*"]),
            ("/=http://127.0.0.1:1", &["/*"]),
            ("*.php=unix:/run/php.sock", &["*.php"]),
        ] {
            let rules = flag.parse::<ProxyFlag>().unwrap().0;
            let got: Vec<String> = rules.iter().map(|rule| rule.path.to_string()).collect();
            assert_eq!(got, patterns, "{flag}");
        }
        assert!("/api".parse::<ProxyFlag>().is_err());
        assert!("api=http://127.0.0.1:1".parse::<ProxyFlag>().is_err());
    }

    #[test]
    fn an_escaped_slash_leads_out_of_no_rule() {
        let target = |rule: &Proxy, raw: &str| {
            let path = path::spelling(raw.as_bytes()).unwrap();
            rule.target(&path, raw.as_bytes(), None)
        };
        let mut all = rule("*", false);
        all.except = vec!["/internal/*".parse().unwrap()];
        assert_eq!(target(&all, "/x/..%2Finternal/keys"), None);
        let public = rule("/public/*", false);
        for raw in ["/public/..%2Fsecret", "/public/..%5csecret"] {
            assert_eq!(target(&public, raw), None, "{raw}");
        }
        assert!(target(&public, "/public/a%2Fb").is_some());
    }

    #[test]
    fn rules_for_fastcgi_have_no_settings_of_http() {
        let read = |upstreams: &str, more: &str| {
            let text = format!("path = \"/*\"\nupstreams = [{upstreams}]\n{more}");
            let rule: Proxy = toml::from_str(&text).map_err(|error| error.to_string())?;
            rule.validate().map(|()| rule)
        };
        let (php, http) = ("\"fastcgi://127.0.0.1:9000\"", "\"http://127.0.0.1:1\"");
        let rule = read(php, "").unwrap();
        assert_eq!((rule.keepalive(), rule.scripts()), (0, Some(FastCgi::default())));
        assert!(rule.is_behind_files());
        let rule = read(http, "").unwrap();
        assert_eq!((rule.keepalive(), rule.scripts()), (KEEPALIVE, None));
        assert!(!rule.is_behind_files() && read(http, "when = \"missing\"").unwrap().is_behind_files());
        assert_eq!(read(php, "keepalive = 3").unwrap().keepalive(), 3);
        for (more, name) in [
            ("http2 = true", "http2"),
            ("strip = true", "strip"),
            ("rewrite = \"/a/*\"", "rewrite"),
            ("proxy-protocol = \"v2\"", "proxy-protocol"),
            ("cache = true", "cache"),
            ("[check]\npath = \"/\"", "check"),
        ] {
            let why = read(php, more).unwrap_err();
            assert!(why.contains(&format!("`{name}` is not available")), "{why}");
        }
        let why = read(&format!("{php}, {http}"), "").unwrap_err();
        assert!(why.contains("a rule for each"), "{why}");
        let why = read(http, "[fastcgi]").unwrap_err();
        assert!(why.contains("no effect"), "{why}");
        let why = read(php, "[fastcgi]\nindex = \"a\"").unwrap_err();
        assert!(why.contains("`index` of `fastcgi`"), "{why}");
    }

    #[test]
    fn tables_are_read_and_mistakes_named() {
        let read = |more: &str| {
            let text = format!(
                "path = \"/a/*\"\nupstreams = [\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"]\n{more}"
            );
            let rule: Proxy = toml::from_str(&text).map_err(|error| error.to_string())?;
            rule.validate().map(|()| rule)
        };
        let rule = read("balance = \"hash\"\nhash-key = \"header:X-User\"\nslow-start = \"30s\"\nbalance-dry-run = \"turnaround\"\n[check]\npath = \"/healthz?x\"\nstatus = 204\n").unwrap();
        assert_eq!(rule.hash_key, HashKey::Header("X-User".to_owned()));
        assert_eq!(
            (rule.balance, rule.balance_dry_run),
            (Policy::Hash, Some(Policy::Turnaround))
        );
        let check = rule.check.unwrap();
        assert_eq!(
            (check.interval, check.timeout, check.status),
            (check_interval(), check_timeout(), Some(204))
        );
        assert_eq!(read("").unwrap().balance, Policy::TwoChoices);
        for (more, said) in [
            ("balance = \"fair\"", "`fair`"),
            ("when = \"never\"", "`missing`"),
            ("strip = true\nrewrite = \"/*\"", "`strip` and `rewrite`"),
            ("rewrite = \"/v2/../*\"", "as in /v2/*"),
            ("rewrite = \"/v2/*?q\"", "as in /v2/*"),
            ("rewrite = \"/a*b*\"", "as in /v2/*"),
            ("rewrite = \"v2\"", "as in /v2/*"),
            ("total-timeout = \"1ms\"", "10ms"),
            ("buffer = \"2MiB\"", "the maximum is"),
            ("proxy-protocol = \"v3\"", "`v1` or `v2`"),
            ("[request-header]\nset = [\"Connection: close\"]", "`Connection`"),
            ("except = 1", "[\"/assets/*\""),
            ("except = \"assets\"", "as in /old/*"),
            ("except = [\"/x\", \"/a/*\"]", "`/a/*`"),
            ("hash-key = \"cookie\"", "header:X-User"),
            ("hash-key = \"header:a b\"", "header:X-User"),
            ("balance = \"turnaround\"\nweights = [1, 2]", "`weights`"),
            ("balance-dry-run = \"turnaround\"\nweights = [1, 2]", "`weights`"),
            ("[check]\npath = \"healthz\"", "/healthz"),
            ("[check]\npath = \"/a b\"", "/healthz"),
            ("[check]\npath = \"/\"\ninterval = \"1ms\"", "`interval`"),
            ("[check]\npath = \"/\"\ntimeout = \"61s\"", "`timeout`"),
            ("[check]\npath = \"/\"\nstatus = 99", "`status`"),
            ("[tls]\nca = \"a.pem\"", "https"),
            ("resolve-interval = \"10ms\"", "`resolve-interval`"),
        ] {
            let why = read(more).unwrap_err();
            assert!(why.contains(said), "{more}: {why}");
        }
        use super::super::pattern::EXCEPTIONS_MAX;
        let except = |count: usize| {
            let paths: Vec<String> = (0..count).map(|at| format!("\"/a/{at}\"")).collect();
            read(&format!("except = [{}]", paths.join(", ")))
        };
        assert_eq!(except(EXCEPTIONS_MAX).unwrap().except.len(), 1000);
        let why = except(EXCEPTIONS_MAX + 1).unwrap_err();
        assert!(why.contains("more than 1000 patterns"), "{why}");
    }

    #[test]
    fn the_target_is_as_received_or_stripped() {
        let target = |rule: &Proxy, path: &str, raw: &str, query: Option<&str>| {
            rule.target(path.as_bytes(), raw.as_bytes(), query.map(str::as_bytes))
                .map(|target| String::from_utf8(target).unwrap())
        };
        let whole = rule("/api/*", false);
        assert_eq!(
            target(&whole, "/api/a", "/api/%61", Some("q=1")).as_deref(),
            Some("/api/%61?q=1")
        );
        assert_eq!(target(&whole, "/other", "/other", None), None);
        let excepting = Proxy {
            except: vec!["/api/assets/*".parse().unwrap(), "*.css".parse().unwrap()],
            ..rule("/api/*", false)
        };
        for (path, is_passed) in [
            ("/api/x", true),
            ("/api/assets", true),
            ("/api/assets/x", false),
            ("/api/x.css", false),
        ] {
            assert_eq!(
                target(&excepting, path, path, None).is_some(),
                is_passed,
                "{path}"
            );
        }
        let stripped = rule("/api/*", true);
        assert_eq!(
            target(&stripped, "/api/a", "/api/%61", Some("")).as_deref(),
            Some("/a?")
        );
        assert_eq!(target(&stripped, "/api/", "/api/", None).as_deref(), Some("/"));
        let deeper = rule("/api*", true);
        for (path, stripped) in [
            ("/api/a", "/a"),
            ("/api", "/"),
            // Not `/../x`, which upstreams resolve.
            ("/api../x", "/x"),
            ("/api.", "/"),
            ("/api..", "/"),
            ("/api./a%2Fb", "/a%2Fb"),
        ] {
            assert_eq!(
                target(&deeper, path, path, None).as_deref(),
                Some(stripped),
                "{path}"
            );
        }
    }

    #[test]
    fn a_path_is_rewritten() {
        for (pattern, rewrite, path, expected) in [
            ("/api/*", "/v2/*", "/api/a/b", "/v2/a/b?q"),
            ("/api/*", "/*", "/api/", "/?q"),
            ("/api*", "/v2/*", "/api/a", "/v2/a?q"),
            ("/api*", "/v2*", "/api/a", "/v2/a?q"),
            ("/api*", "/v2/*", "/api../a", "/v2/a?q"),
            ("/api*", "/v2/*", "/api..", "/v2/?q"),
            ("/api/*z", "/v2/*./q", "/api/.z", "/v2/q?q"),
            ("/old/*.php", "/new/*.html", "/old/x.php", "/new/x.html?q"),
            ("/a/*", "/fixed", "/a/b", "/fixed?q"),
            ("/a", "/fixed", "/a", "/fixed?q"),
            ("*", "/all*", "/a%20b", "/all/a%20b?q"),
        ] {
            let rule = Proxy {
                rewrite: Some(rewrite.parse().unwrap()),
                ..rule(pattern, false)
            };
            rule.validate().unwrap();
            let got = rule.target(path.as_bytes(), b"/raw", Some(b"q"));
            assert_eq!(
                String::from_utf8(got.unwrap()).unwrap(),
                expected,
                "{pattern} {rewrite} {path}"
            );
        }
        let none = Proxy {
            rewrite: Some("/v2/*".parse().unwrap()),
            ..rule("/a", false)
        };
        assert!(none.validate().unwrap_err().contains("`/a` has none"));
    }
}
