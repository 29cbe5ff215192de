//! Active checks: a request of the server's own to each upstream of a route, again and again. One bad answer takes the
//! upstream out of use, one good answer brings it back.
//!
//! One thread for each route and process asks its upstreams one after the other, so a round of `n` silent upstreams takes
//! `n` timeouts.

use super::super::Target;
use super::super::places::{Found, Place};
use super::Shared;
use crate::config::{Check, Proxy};
use crate::proxy_protocol;
use runtime::clock;
use runtime::rounds::{self, Rounds};
use runtime::session::Upstream;
use std::fmt;
use std::io;
use std::sync::Arc;
use units::Instant;

/// Most bytes of a status line.
const LINE_MAX: usize = 256;

/// What is checked.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    check: Check,
    /// In front of the request.
    preface: Vec<u8>,
    places: Arc<[Place]>,
}

/// Why an upstream is not well.
#[derive(Debug)]
enum Bad {
    Unanswered(io::Error),
    Unresolved,
    Status(u16),
    NoHttp,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bad::Unanswered(error) => write!(f, "{error}"),
            Bad::Unresolved => f.write_str("its host name has no known address"),
            Bad::Status(status) => write!(f, "status {status}"),
            Bad::NoHttp => f.write_str("the answer is not HTTP"),
        }
    }
}

impl Plan {
    /// The checks of this rule, if it has any.
    pub(super) fn of(rule: &Proxy, places: &Arc<[Place]>) -> Option<Plan> {
        Some(Plan {
            check: rule.check.clone()?,
            // A check is this server's own.
            preface: proxy_protocol::announcement(rule.proxy_protocol, None),
            places: Arc::clone(places),
        })
    }

    /// Starts the thread.
    pub(super) fn start(&self, shared: &Arc<Shared>) -> Option<Rounds> {
        let plan = self.clone();
        let shared = Arc::clone(shared);
        let started = Rounds::start("weir-check", self.check.interval, move || plan.round(&shared));
        started
            .map_err(|error| {
                tracing::warn!("upstreams are not checked: no thread: {error}; raise the limit on threads")
            })
            .ok()
    }

    fn round(&self, shared: &Shared) {
        for (at, place) in self.places.iter().enumerate() {
            let Some((result, upstream, now)) = self.ask_any(place) else {
                continue;
            };
            let has_changed = shared.lock().checked(at, result.is_ok(), now);
            match result {
                Ok(()) if has_changed => {
                    tracing::info!("upstream {upstream}: the check succeeded; it gets requests again");
                }
                Err(why) if has_changed => tracing::warn!(
                    "upstream {upstream}: the check failed: {why}; it gets no requests until a check succeeds"
                ),
                Ok(()) | Err(_) => {}
            }
        }
    }

    /// Asks an upstream; one with a host name at each address until one answers. `None`: its name was not looked up yet.
    fn ask_any(&self, place: &Place) -> Option<(Result<(), Bad>, Target, Instant)> {
        let name = place.name().cloned();
        let target = |address| Target {
            name: name.clone(),
            address,
        };
        let now = clock::now();
        let (mut to, mut others) = match place.find(now) {
            Found::At(to, others) => (to, others),
            Found::Unknown => return None,
            Found::Nowhere => return Some((Err(Bad::Unresolved), target(None), now)),
        };
        loop {
            let (result, now) = self.ask(place, &to, name.as_deref());
            match others.pop() {
                Some(other) if matches!(result, Err(Bad::Unanswered(_))) => to = other,
                _ => return Some((result, target(Some(to)), now)),
            }
        }
    }

    fn ask(&self, place: &Place, upstream: &Upstream, name: Option<&str>) -> (Result<(), Bad>, Instant) {
        let Check {
            path,
            timeout,
            status,
            ..
        } = &self.check;
        let host = match upstream {
            _ if let Some(name) = name => name.rsplit("//").next().unwrap_or(name).to_owned(),
            Upstream::Tcp(address) => address.to_string(),
            Upstream::Unix(_) | Upstream::Local(_) => "localhost".to_owned(),
        };
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: weir-check\r\nConnection: close\r\n\r\n"
        );
        let line = rounds::line(LINE_MAX);
        let exchanged = place.exchange(upstream, &self.preface, request.as_bytes(), *timeout, line);
        let judge = |line: Vec<u8>| {
            let got = status_of(&line).ok_or(Bad::NoHttp)?;
            let is_good = match status {
                Some(status) => got == *status,
                None => (200..400).contains(&got),
            };
            if is_good { Ok(()) } else { Err(Bad::Status(got)) }
        };
        let answer = exchanged.answer.map_err(Bad::Unanswered);
        (answer.and_then(judge), exchanged.at)
    }
}

/// The status of a status line (RFC 9112 section 4).
fn status_of(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    match rest {
        [
            b'0'..=b'9',
            b' ',
            a @ b'1'..=b'5',
            b @ b'0'..=b'9',
            c @ b'0'..=b'9',
            rest @ ..,
        ] if rest.first().is_none_or(|&byte| byte == b' ') => {
            let digit = |byte: &u8| u16::from(byte - b'0');
            Some(100 * digit(a) + 10 * digit(b) + digit(c))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_has_a_status() {
        for (line, status) in [
            ("HTTP/1.1 200 OK", Some(200)),
            ("HTTP/1.0 503", Some(503)),
            ("HTTP/1.1 2000", None),
            ("HTTP/1.1 099 ", None),
            ("SSH-2.0-OpenSSH", None),
            ("", None),
        ] {
            assert_eq!(status_of(line.as_bytes()), status, "{line}");
        }
    }
}
