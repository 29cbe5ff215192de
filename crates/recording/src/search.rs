//! The recorded exchange that answers a request: an exact match of method, host, path and query, otherwise the best one
//! with the same path.
//!
//! As Mahimahi's `mm-webreplay`: of several exchanges with the path, the one whose query has the longest prefix in common
//! with that of the request. Of equals, the one with the scheme of the request, then the one with its port.

use crate::exchange::Exchange;
use std::collections::{BTreeMap, HashMap};

/// Most hosts that a message lists.
const HOSTS_SHOWN: usize = 5;

/// The exchanges of a folder.
#[derive(Debug)]
pub struct Recording {
    exchanges: Vec<Exchange>,
    /// Indexes of the exchanges with the same host and path.
    by_path: HashMap<Box<[u8]>, Vec<usize>>,
    /// Number of exchanges by host.
    hosts: BTreeMap<String, usize>,
}

/// A request, as far as it chooses an exchange.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Method.
    pub method: &'a str,
    /// Host, perhaps with a port: the authority of the request.
    pub authority: &'a [u8],
    /// Whether it came over TLS.
    pub is_secured: bool,
    /// Path; `None` for a target without one.
    pub path: Option<&'a [u8]>,
    /// Query.
    pub query: Option<&'a [u8]>,
}

/// How an exchange matches a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// Method, host, path and query are the same.
    Exact,
    /// All but the query, of which so many bytes are the same.
    Prefix(usize),
}

impl Recording {
    /// The recording with these exchanges. Of two with the same method and URL, the one recorded later stays.
    pub fn new(mut exchanges: Vec<Exchange>) -> Recording {
        // Later ones first: the first of equals stays, and the order does not depend on names of files.
        exchanges.sort_by(|one, other| {
            let key = |of: &Exchange| (of.url.to_string(), of.method.clone());
            key(one)
                .cmp(&key(other))
                .then(other.recorded.secs.cmp(&one.recorded.secs))
        });
        exchanges.dedup_by(|one, before| one.url == before.url && one.method == before.method);
        let mut by_path: HashMap<Box<[u8]>, Vec<usize>> = HashMap::new();
        let mut hosts = BTreeMap::new();
        for (at, exchange) in exchanges.iter().enumerate() {
            // As in the authority of a request, a final dot does not count.
            let host = exchange.url.host_str().unwrap_or_default();
            let host = host.strip_suffix('.').unwrap_or(host);
            let key = key(host.as_bytes(), exchange.url.path().as_bytes());
            by_path.entry(key).or_default().push(at);
            *hosts.entry(host.to_owned()).or_default() += 1;
        }
        Recording {
            exchanges,
            by_path,
            hosts,
        }
    }

    /// All exchanges, sorted by URL and method.
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// The index of the exchange that answers a request, and how it matches. The time grows with the number of exchanges
    /// that have the path.
    pub fn find(&self, wanted: &Wanted<'_>) -> Option<(usize, Match)> {
        // RFC 9110 section 9.3.2: the response to HEAD is that to GET, without its content.
        let method = match wanted.method {
            "HEAD" => "GET",
            method => method,
        };
        let (host, port) = split(wanted.authority);
        let with_path = self.by_path.get(&key(&host, wanted.path?))?;
        let scheme = if wanted.is_secured { "https" } else { "http" };
        let default_port = if wanted.is_secured { 443 } else { 80 };
        let mut best = None;
        for &at in with_path
            .iter()
            .filter(|at| self.exchanges[**at].method == method)
        {
            let url = &self.exchanges[at].url;
            let query = url.query().map(str::as_bytes);
            let is_exact = query == wanted.query;
            let common = common(query.unwrap_or_default(), wanted.query.unwrap_or_default());
            let is_of_port = url.port_or_known_default() == Some(port.unwrap_or(default_port));
            let rank = (is_exact, common, url.scheme() == scheme, is_of_port);
            if best.is_none_or(|(highest, _)| rank > highest) {
                best = Some((rank, at));
            }
        }
        best.map(|((is_exact, common, ..), at)| match is_exact {
            true => (at, Match::Exact),
            false => (at, Match::Prefix(common)),
        })
    }

    /// Why no exchange answers a request, as a sentence without its end.
    pub fn missing(&self, wanted: &Wanted<'_>) -> String {
        let (host, _) = split(wanted.authority);
        let shown = host.escape_ascii();
        let known = str::from_utf8(&host).ok().and_then(|host| self.hosts.get(host));
        let why = match (known, wanted.path) {
            (_, None) => "the request has no path".to_owned(),
            (Some(count), Some(path)) => {
                match self.by_path.get(&key(&host, path)).and_then(|at| at.first()) {
                    Some(&at) => format!(
                        "this path was recorded with the method {}",
                        self.exchanges[at].method
                    ),
                    None => format!("none of the {count} exchanges of this host has this path"),
                }
            }
            (None, Some(_)) => {
                let mut hosts: Vec<&str> = self.hosts.keys().map(String::as_str).collect();
                let more = hosts.len().saturating_sub(HOSTS_SHOWN);
                hosts.truncate(HOSTS_SHOWN);
                let more = match more {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                match hosts.is_empty() {
                    true => "the recording is empty".to_owned(),
                    false => format!("the recording has only the hosts {}{more}", hosts.join(", ")),
                }
            }
        };
        let scheme = if wanted.is_secured { "https" } else { "http" };
        let query = wanted.query.map(|query| format!("?{}", query.escape_ascii()));
        format!(
            "no recorded exchange for {} {scheme}://{shown}{}{}: {why}",
            wanted.method.escape_debug(),
            wanted.path.unwrap_or_default().escape_ascii(),
            query.unwrap_or_default()
        )
    }
}

fn key(host: &[u8], path: &[u8]) -> Box<[u8]> {
    // No host of a URL has a space.
    [host, path].join(&b' ').into()
}

/// Host, in lower case and without a final dot, and port of an authority.
fn split(authority: &[u8]) -> (Vec<u8>, Option<u16>) {
    let (host, port) = match authority.iter().rposition(|&b| b == b':' || b == b']') {
        Some(at) if authority[at] == b':' => (&authority[..at], Some(&authority[at + 1..])),
        _ => (authority, None),
    };
    let port = port.and_then(|port| str::from_utf8(port).ok()?.parse().ok());
    let host = host.strip_suffix(b".").unwrap_or(host);
    (host.to_ascii_lowercase(), port)
}

/// Number of bytes at the start that are the same.
fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use units::{Duration, UnixTime};
    use url::Url;

    fn exchange(method: &str, url: &str, recorded: i64) -> Exchange {
        Exchange {
            method: method.to_owned(),
            url: Url::parse(url).unwrap(),
            protocol: "http/1.1".to_owned(),
            recorded: UnixTime::from_secs(recorded),
            first_byte: Duration::ZERO,
            request_fields: Vec::new(),
            status: 200,
            fields: Vec::new(),
            body: Bytes::new(),
        }
    }

    fn recording() -> Recording {
        let urls = [
            "http://a.test/",
            "https://a.test/",
            "http://a.test/s?q=cats&page=1",
            "http://a.test/s?q=dogs",
            "http://b.test/",
            "http://127.0.0.1:81/",
            "http://127.0.0.1:82/",
            "http://[::1]:81/",
            "http://dot.test./",
        ];
        let mut all: Vec<_> = urls.iter().map(|url| exchange("GET", url, 1)).collect();
        all.push(exchange("POST", "http://a.test/form", 1));
        Recording::new(all)
    }

    /// What answers `METHOD URL`, sent to that host.
    fn found(recording: &Recording, method: &str, url: &str) -> Option<(String, Match)> {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (authority, path) = rest.split_at(rest.find('/').unwrap());
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query.as_bytes())),
            None => (path, None),
        };
        let wanted = Wanted {
            method,
            authority: authority.as_bytes(),
            is_secured: scheme == "https",
            path: Some(path.as_bytes()),
            query,
        };
        let found = recording.find(&wanted);
        if found.is_none() {
            assert!(
                recording
                    .missing(&wanted)
                    .starts_with("no recorded exchange for ")
            );
        }
        found.map(|(at, how)| (recording.exchanges()[at].url.to_string(), how))
    }

    #[test]
    fn an_exact_match_comes_first_and_the_longest_common_prefix_second() {
        let recording = recording();
        for (method, url, wanted) in [
            ("GET", "http://a.test/", Some(("http://a.test/", Match::Exact))),
            (
                "HEAD",
                "http://A.test.:80/",
                Some(("http://a.test/", Match::Exact)),
            ),
            ("GET", "https://a.test/", Some(("https://a.test/", Match::Exact))),
            ("GET", "https://b.test/", Some(("http://b.test/", Match::Exact))),
            (
                "GET",
                "http://a.test:8080/",
                Some(("http://a.test/", Match::Exact)),
            ),
            (
                "GET",
                "http://127.0.0.1:82/",
                Some(("http://127.0.0.1:82/", Match::Exact)),
            ),
            (
                "GET",
                "http://127.0.0.1:83/",
                Some(("http://127.0.0.1:81/", Match::Exact)),
            ),
            ("GET", "http://[::1]:9/", Some(("http://[::1]:81/", Match::Exact))),
            (
                "GET",
                "http://dot.test/",
                Some(("http://dot.test./", Match::Exact)),
            ),
            (
                "GET",
                "http://dot.test./",
                Some(("http://dot.test./", Match::Exact)),
            ),
            (
                "GET",
                "http://a.test/s?q=dogs",
                Some(("http://a.test/s?q=dogs", Match::Exact)),
            ),
            (
                "GET",
                "http://a.test/s?q=dodo",
                Some(("http://a.test/s?q=dogs", Match::Prefix(4))),
            ),
            (
                "GET",
                "http://a.test/s?q=cats&page=2",
                Some(("http://a.test/s?q=cats&page=1", Match::Prefix(12))),
            ),
            // Of equals, the first by URL.
            (
                "GET",
                "http://a.test/s",
                Some(("http://a.test/s?q=cats&page=1", Match::Prefix(0))),
            ),
            (
                "GET",
                "https://a.test/?x",
                Some(("https://a.test/", Match::Prefix(0))),
            ),
            (
                "POST",
                "http://a.test/form",
                Some(("http://a.test/form", Match::Exact)),
            ),
            ("GET", "http://a.test/form", None),
            ("GET", "http://a.test/none", None),
            ("GET", "http://c.test/", None),
        ] {
            let wanted = wanted.map(|(url, how)| (url.to_owned(), how));
            assert_eq!(found(&recording, method, url), wanted, "{method} {url}");
        }
    }

    #[test]
    fn a_message_says_what_was_not_found() {
        let recording = recording();
        let wanted = Wanted {
            method: "GET",
            authority: b"c.test",
            is_secured: true,
            path: Some(b"/x\n"),
            query: Some(b"y"),
        };
        assert_eq!(
            recording.missing(&wanted),
            "no recorded exchange for GET https://c.test/x\\n?y: the recording has only the hosts 127.0.0.1, [::1], \
             a.test, b.test, dot.test"
        );
        let of_host = recording.missing(&Wanted {
            authority: b"B.test:80",
            ..wanted
        });
        assert!(
            of_host.ends_with("none of the 1 exchanges of this host has this path"),
            "{of_host}"
        );
        let of_method = recording.missing(&Wanted {
            authority: b"a.test",
            path: Some(b"/form"),
            ..wanted
        });
        assert!(
            of_method.ends_with("was recorded with the method POST"),
            "{of_method}"
        );
        let many = (0..7).map(|n| exchange("GET", &format!("http://h{n}.test/"), 1));
        let listed = Recording::new(many.collect()).missing(&wanted);
        assert!(listed.ends_with("h4.test and 2 more"), "{listed}");
        let empty = Recording::new(Vec::new()).missing(&wanted);
        assert!(empty.ends_with("the recording is empty"), "{empty}");
    }

    #[test]
    fn the_later_of_two_recordings_stays() {
        let both = [
            exchange("GET", "http://a.test/", 2),
            exchange("GET", "http://a.test/", 3),
            exchange("GET", "http://a.test/", 1),
        ];
        let recording = Recording::new(both.into());
        let kept: Vec<i64> = recording
            .exchanges()
            .iter()
            .map(|one| one.recorded.secs)
            .collect();
        assert_eq!(kept, [3]);
    }
}
