//! Active checks: a request of the server's own to each upstream of a route, again and again. One bad answer takes the
//! upstream out of use, one good answer brings it back.
//!
//! One thread for each route and process asks its upstreams one after the other, so a round of `n` silent upstreams takes
//! `n` timeouts.

use super::Shared;
use crate::config::{Check, Proxy};
use crate::proxy_protocol;
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
    upstreams: Vec<Arc<Upstream>>,
}

/// Why an upstream is not well.
#[derive(Debug)]
enum Bad {
    Unanswered(io::Error),
    Status(u16),
    NoHttp,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bad::Unanswered(error) => write!(f, "{error}"),
            Bad::Status(status) => write!(f, "status {status}"),
            Bad::NoHttp => f.write_str("the answer is not HTTP"),
        }
    }
}

impl Plan {
    /// The checks of this rule, if it has any.
    pub(super) fn of(rule: &Proxy) -> Option<Plan> {
        Some(Plan {
            check: rule.check.clone()?,
            preface: preface(rule),
            upstreams: rule
                .upstreams
                .iter()
                .map(|upstream| Arc::clone(&upstream.0))
                .collect(),
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
        for (at, upstream) in self.upstreams.iter().enumerate() {
            let (result, now) = self.ask(upstream);
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

    fn ask(&self, upstream: &Upstream) -> (Result<(), Bad>, Instant) {
        let Check {
            path,
            timeout,
            status,
            ..
        } = &self.check;
        let host = match upstream {
            Upstream::Tcp(address) => address.to_string(),
            Upstream::Unix(_) => "localhost".to_owned(),
        };
        let mut request = self.preface.clone();
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: weir-check\r\nConnection: close\r\n\r\n"
        );
        request.extend_from_slice(head.as_bytes());
        let (answer, now) = rounds::ask(upstream, &request, LINE_MAX, *timeout);
        let judge = |line: Vec<u8>| {
            let got = status_of(&line).ok_or(Bad::NoHttp)?;
            let is_good = match status {
                Some(status) => got == *status,
                None => (200..400).contains(&got),
            };
            if is_good { Ok(()) } else { Err(Bad::Status(got)) }
        };
        (answer.map_err(Bad::Unanswered).and_then(judge), now)
    }
}

/// The header of the PROXY protocol, if the rule has one: a check is this server's own.
fn preface(rule: &Proxy) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(version) = rule.proxy_protocol {
        proxy_protocol::write(version, None, &mut out);
    }
    out
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
