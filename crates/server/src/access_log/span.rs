//! The spans of a request: one for this server, and one for the request to an upstream (OpenTelemetry semantic conventions for
//! HTTP spans, 1.38).
//!
//! A span is made with the log line of its response and finished with it, so it has the duration and the bytes of that line.
//! Queries are left out: they may hold secrets.

use super::{Call, Cut, Numbers, Request, RequestLine};
use crate::traced::Trace;
use core::fmt::Write as _;
use otlp::span::{Kind, Span};
use runtime::listen::UNIX_PEER;
use units::{Instant, UnixTime};

/// Methods that have a name in spans; others are `_OTHER`.
const METHODS: [&[u8]; 9] = [
    b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH",
];

/// The same moment on both clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    now: Instant,
    /// Nanoseconds of Unix time.
    unix: u64,
}

impl Moment {
    pub(super) fn new(now: Instant, wall: UnixTime) -> Moment {
        let secs = u64::try_from(wall.secs).unwrap_or(0);
        Moment {
            now,
            unix: secs
                .saturating_mul(1_000_000_000)
                .saturating_add(wall.nanos.into()),
        }
    }

    /// Unix time of a moment, in nanoseconds.
    fn of(self, at: Instant) -> u64 {
        let (at, now) = (at.as_nanos(), self.now.as_nanos());
        match at >= now {
            true => self.unix.saturating_add(at - now),
            false => self.unix.saturating_sub(now - at),
        }
    }
}

/// The span of a request whose response is being sent.
#[derive(Debug)]
pub(super) struct Pending {
    /// Index of the line of its response in its slot.
    line: usize,
    span: Span,
    /// Unix time in nanoseconds.
    start: u64,
    status: u16,
}

impl Pending {
    /// Begins the span of a request with this response. The span of the request to an upstream, if there was one, is over, and
    /// is appended to `batch`; the second value is the number of spans there.
    pub(super) fn begin(
        line: usize,
        trace: &Trace,
        request: &Request<'_>,
        status: u16,
        moment: Moment,
        batch: &mut Vec<u8>,
    ) -> (Pending, u32) {
        let (method, target, version) = match request.line {
            RequestLine::Parsed {
                method,
                target,
                version,
            } => (Some(method), Some(target), Some(version)),
            RequestLine::Raw(_) => (None, None, None),
        };
        let name = known(method);
        let start = moment.of(request.started);
        let method_name = name.unwrap_or("HTTP");
        let mut span = match trace.route() {
            Some(route) => {
                let named = format!("{method_name} {route}");
                let mut span = Span::begin(&trace.request(), Kind::Server, &named, start);
                span.text("http.route", route.as_bytes());
                span
            }
            None => Span::begin(&trace.request(), Kind::Server, method_name, start),
        };
        set_method(&mut span, name, method);
        span.text("url.scheme", if trace.is_secured { b"https" } else { b"http" });
        if let Some(target) = target {
            span.text("url.path", path(target));
        }
        span.number("http.response.status_code", status.into());
        if let Some((host, port)) = request.host.map(split).filter(|(host, _)| !host.is_empty()) {
            span.text("server.address", host);
            if let Some(port) = port {
                span.number("server.port", port.into());
            }
        }
        if request.peer != UNIX_PEER.ip() {
            span.text(
                "client.address",
                request.peer.to_canonical().to_string().as_bytes(),
            );
        }
        if let Some(version) = version.and_then(|version| version.strip_prefix("HTTP/")) {
            // HTTP/2 and HTTP/3 have no minor version.
            let short = match version {
                "2.0" => "2",
                "3.0" => "3",
                other => other,
            };
            span.text("network.protocol.version", short.as_bytes());
        }
        if let Some(agent) = request.user_agent {
            span.text("user_agent.original", agent);
        }
        if let Some(id) = request.id {
            span.text("weir.request.id", id.as_bytes());
        }
        let upstream = request
            .upstream
            .and_then(|upstream| Some((upstream, upstream.call?)));
        if let Some((upstream, call)) = upstream {
            let end = match call.failure {
                // The response was awaited so long.
                Some(_) if call.status == 0 => moment.of(call.began + upstream.took),
                _ => moment.unix,
            };
            let started = moment.of(call.began);
            let mut called = Span::begin(&trace.call(), Kind::Client, method_name, started);
            set_method(&mut called, name, method);
            describe(&mut called, &upstream.target.to_string(), call);
            called.end(end.max(started), batch);
        }
        let pending = Pending {
            line,
            span,
            start,
            status,
        };
        (pending, u32::from(upstream.is_some()))
    }

    /// The same behind so many other lines.
    pub(super) fn behind(self, lines: usize) -> Pending {
        Pending {
            line: lines + self.line,
            ..self
        }
    }

    /// Ends the span with the line of its response, and appends it to `batch`.
    fn end(mut self, numbers: &Numbers, batch: &mut Vec<u8>) {
        self.span.number("http.response.body.size", numbers.body_bytes);
        let cut = numbers.cut;
        if let Some(cut) = cut {
            self.span.text("weir.response.aborted", cut.name());
        }
        if self.status >= 500 {
            self.span.text("error.type", self.status.to_string().as_bytes());
        } else if let Some(cut @ (Cut::File | Cut::Upstream)) = cut {
            self.span.text("error.type", cut.name());
        }
        // A client that goes away is no error of this server.
        if self.status >= 500 || matches!(cut, Some(Cut::File | Cut::Upstream)) {
            self.span.fail();
        }
        let duration = u64::try_from(numbers.duration.as_nanos()).unwrap_or(u64::MAX);
        self.span.end(self.start.saturating_add(duration), batch);
    }
}

/// Ends the span of the line at this index, if it has one, and appends it to `batch`. Returns the number of spans there.
#[cold]
pub(super) fn end(pending: &mut Vec<Pending>, line: usize, numbers: &Numbers, batch: &mut Vec<u8>) -> u32 {
    if pending.first().is_none_or(|first| first.line != line) {
        return 0;
    }
    pending.remove(0).end(numbers, batch);
    1
}

/// The name of a method, if it is a usual one.
fn known(method: Option<&[u8]>) -> Option<&'static str> {
    let method = method?;
    let known = METHODS.iter().find(|known| **known == method)?;
    str::from_utf8(known).ok()
}

fn set_method(span: &mut Span, name: Option<&str>, method: Option<&[u8]>) {
    span.text("http.request.method", name.unwrap_or("_OTHER").as_bytes());
    if let (None, Some(original)) = (name, method) {
        span.text("http.request.method_original", original);
    }
}

/// Adds what is known of a request to an upstream.
fn describe(span: &mut Span, place: &str, call: &Call) {
    // Addresses of upstreams are shown with their scheme, except those of plain HTTP.
    let place = place.split_once("://").map_or(place, |(_, place)| place);
    let socket = place.find("unix:/").map(|at| &place[at + "unix:".len()..]);
    match socket {
        Some(socket) => {
            span.text("server.address", socket.as_bytes());
            span.text("network.transport", b"unix");
        }
        None => {
            let (host, port) = split(place.as_bytes());
            span.text("server.address", host);
            if let Some(port) = port {
                span.number("server.port", port.into());
            }
            let scheme = if call.is_secured { "https" } else { "http" };
            let mut url = String::new();
            // Writing to a `String` cannot fail.
            let _ = write!(
                url,
                "{scheme}://{place}{}",
                String::from_utf8_lossy(path(&call.target))
            );
            span.text("url.full", url.as_bytes());
        }
    }
    if call.status > 0 {
        span.number("http.response.status_code", call.status.into());
    }
    match call.failure {
        Some(failure) => span.text("error.type", failure.as_bytes()),
        None if call.status >= 400 => span.text("error.type", call.status.to_string().as_bytes()),
        None => return,
    }
    span.fail();
}

/// The path of a target: without its query, and without scheme and host if it has them (RFC 9112 section 3.2.2).
fn path(target: &[u8]) -> &[u8] {
    let end = target.iter().position(|&b| b == b'?').unwrap_or(target.len());
    let target = &target[..end];
    let Some(at) = target
        .windows(3)
        .position(|three| three == b"://")
        .filter(|_| !target.starts_with(b"/"))
    else {
        return target;
    };
    let behind = &target[at + 3..];
    let slash = behind.iter().position(|&b| b == b'/');
    slash.map_or(b"/", |slash| &behind[slash..])
}

/// Host and port of an authority (RFC 3986 section 3.2.2).
fn split(authority: &[u8]) -> (&[u8], Option<u16>) {
    let behind = authority
        .iter()
        .rposition(|&b| b == b']')
        .map_or(0, |end| end + 1);
    let colon = authority[behind..].iter().position(|&b| b == b':');
    let Some(at) = colon.map(|at| behind + at) else {
        return (authority, None);
    };
    let port = str::from_utf8(&authority[at + 1..]).ok();
    (&authority[..at], port.and_then(|port| port.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_no_query_and_no_host() {
        for (target, expected) in [
            ("/a/b?c=d", "/a/b"),
            ("/a://b?c", "/a://b"),
            ("http://h/a?b", "/a"),
            ("http://h?b", "/"),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(path(target.as_bytes()), expected.as_bytes(), "{target}");
        }
    }

    #[test]
    fn an_authority_is_a_host_and_perhaps_a_port() {
        for (authority, host, port) in [
            ("a.test", "a.test", None),
            ("a.test:80", "a.test", Some(80)),
            ("a.test:", "a.test", None),
            ("a.test:99999", "a.test", None),
            ("[::1]", "[::1]", None),
            ("[::1]:8080", "[::1]", Some(8080)),
        ] {
            assert_eq!(
                split(authority.as_bytes()),
                (host.as_bytes(), port),
                "{authority}"
            );
        }
    }

    #[test]
    fn both_clocks_tell_the_same_moment() {
        let moment = Moment::new(
            Instant::from_nanos(5_000),
            UnixTime {
                secs: 1,
                nanos: 7_000,
            },
        );
        assert_eq!(moment.of(Instant::from_nanos(4_000)), 1_000_006_000);
        assert_eq!(moment.of(Instant::from_nanos(6_000)), 1_000_008_000);
    }
}
