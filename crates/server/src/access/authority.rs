//! Asks another server whether a request is admitted, as `auth_request` of nginx and `forward_auth` of Caddy do.
//!
//! ```text
//!   head of the request ─▶ Question ─▶ a thread of `Desk` ─▶ GET at the server ─┬─ 2xx ──▶ admitted, with fields for the upstream
//!                                                                              ├─ other ▶ the answer for the client
//!                                                                              └─ none ─▶ 502, 503 or 504
//! ```
//! Decides what the server is told and what its answer means. `proxy` knows where it listens and has its connections.

use crate::checked::{Answered, Checked, Guarded, Unanswered, Vouched};
use crate::client_address::From;
use crate::config::{Access, AuthUrl, Proxy, RequestHeader};
use crate::own_fields::{HOP_BY_HOP, is_among};
use crate::proxy::head::{Follows, ends_here, write_request};
use crate::proxy::places::{Found, Names, Place};
use crate::request_id::RequestId;
use bytes::Bytes;
use http_semantics::field::{Fields, Line};
use http_semantics::method::Method;
use http_semantics::request::RequestHead;
use http_semantics::status::Status;
use http1::client::{Connection, Ended, Step};
use http1::framing::Framing;
use http1::response;
use http1::slots::Slots;
use runtime::background::Background;
use runtime::session::Upstream;
use runtime::{clock, complaints};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Duration, Instant};

/// Threads that ask, per process. They start with the first request.
const THREADS_MAX: usize = 64;

/// Requests that wait for such a thread, per process. Further requests get 503.
const WAITING_MAX: usize = 1_024;

/// Most bytes of the head of an answer.
const HEAD_MAX: u32 = 64 << 10;

/// Most bytes of the content of an answer that goes to the client.
const CONTENT_MAX: usize = 64 << 10;

/// Bytes of framing that may surround them.
const FRAMING_MAX: usize = 64 << 10;

/// Name that access logs take from an answer.
const USER: &str = "remote-user";

/// Fields of a request that say nothing about the client, or ask for something else than the whole answer.
const NOT_TOLD: [&str; 14] = [
    "content-type",
    "content-encoding",
    "content-language",
    "content-location",
    "content-range",
    "range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "x-forwarded-method",
    "x-forwarded-uri",
    "x-original-url",
];

/// A server that decides about requests.
#[derive(Debug)]
pub(super) struct Authority {
    /// No other server has it, not even of another configuration.
    number: u64,
    url: AuthUrl,
    place: Place,
    /// Fields of its answer for upstreams.
    copy: Vec<String>,
    timeout: Duration,
    host: RequestHeader,
}

/// Who sends a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    /// Address.
    pub(crate) peer: std::net::IpAddr,
    /// Whether the client used https.
    pub(crate) is_secured: bool,
    /// Id of the request, if requests have ids.
    pub(crate) id: Option<&'a RequestId>,
}

impl Authority {
    /// The server that a rule names. What `before` knows of its host name stays known.
    ///
    /// # Errors
    /// In words, why its TLS cannot be set up.
    pub(super) fn of(
        access: &Access,
        names: &mut Names,
        before: Option<&Names>,
    ) -> Result<Option<Arc<Authority>>, String> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let Some(url) = &access.auth else { return Ok(None) };
        let rule = Proxy {
            tls: access.auth_tls.clone(),
            ..Proxy::new(access.path.clone(), vec![url.upstream().clone()])
        };
        let place = names.places(&rule, before)?.pop();
        let place = place.ok_or_else(|| format!("`auth = \"{url}\"` has no address"))?;
        let shown = url.upstream().to_string();
        let host = match place.address().map(|address| &**address) {
            Some(Upstream::Unix(_)) => "localhost",
            _ => shown.rsplit("//").next().unwrap_or(&shown),
        };
        Ok(Some(Arc::new(Authority {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            url: url.clone(),
            place,
            copy: access.copy.clone(),
            timeout: access.auth_timeout,
            host: RequestHeader::for_host(host),
        })))
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// What is asked about a request. An unwritable head is an error.
    pub(super) fn question(
        self: &Arc<Authority>,
        head: &RequestHead<'_, '_>,
        sender: Sender<'_>,
    ) -> Result<Question, Unanswered> {
        let told: Vec<Line<'_>> = head
            .fields
            .iter()
            .filter(|(name, _)| !is_among(name, &NOT_TOLD))
            .map(|(name, value)| Line { name, value })
            .collect();
        let asked = RequestHead {
            method: Method::Get,
            method_name: "GET",
            fields: Fields::new(&told),
            ..*head
        };
        let from = From {
            peer: sender.peer,
            hops: Vec::new(),
            is_secured: sender.is_secured,
            guarded: Guarded::default(),
            id: sender.id.cloned(),
        };
        let mut request = Vec::with_capacity(1024);
        let mut uri = head.target.path().unwrap_or(b"*").to_vec();
        if let Some(query) = head.target.query() {
            uri.push(b'?');
            uri.extend_from_slice(query);
        }
        write_request(
            &mut request,
            &asked,
            Framing::Empty,
            self.url.target().as_bytes(),
            &from,
            Follows::Nothing,
            &self.host,
        )
        .and_then(|()| {
            // Behind the last line; the empty line follows anew.
            request.truncate(request.len() - 2);
            response::field(&mut request, "X-Forwarded-Method", head.method_name.as_bytes())?;
            response::field(&mut request, "X-Forwarded-Uri", &uri)?;
            response::end(&mut request);
            Ok(())
        })
        .map_err(|_| Unanswered::Failed)?;
        Ok(Question {
            authority: Arc::clone(self),
            request,
            path: head.target.path().unwrap_or(b"*").into(),
            id: from.id,
            asked: None,
        })
    }

    /// Asks, and blocks this thread for at most about the timeout.
    fn ask(&self, request: &[u8], path: &[u8], until: Instant) -> Result<Arc<Answered>, Unanswered> {
        let complain = |why: &dyn std::fmt::Display| {
            let url = &self.url;
            complaints::warn(path, || {
                format!("auth {url}: {why}; the request is not admitted until this server answers")
            });
        };
        let Found::At(mut to, mut others) = self.place.find_by(until) else {
            complain(&"its host name has no known address");
            return Err(Unanswered::Failed);
        };
        loop {
            let left = until.since(clock::now());
            if left.is_zero() {
                complain(&"it did not answer within `auth-timeout`");
                return Err(Unanswered::TimedOut);
            }
            let mut answered = None;
            let is_enough = |all: &mut Vec<u8>, is_over: bool| {
                answered = read(all, is_over, &self.copy).map_err(io::Error::other)?;
                Ok(answered.is_some())
            };
            let (result, now) = self.place.exchange(&to, &[], request, left, is_enough);
            let error = match (result, answered) {
                (Ok(_), Some(answered)) => return Ok(Arc::new(answered)),
                (Ok(_), None) => io::ErrorKind::UnexpectedEof.into(),
                (Err(error), _) => error,
            };
            self.place.failed(&to, now);
            if let Some(other) = others.pop() {
                to = other;
                continue;
            }
            let is_late = error.kind() == io::ErrorKind::TimedOut;
            complain(&match is_late {
                true => "it did not answer within `auth-timeout`".to_owned(),
                // The layers of a connection know of upstreams alone.
                false => format!("no valid answer from {to}: {error}").replace("[proxy.tls]", "`auth-tls`"),
            });
            return Err(if is_late {
                Unanswered::TimedOut
            } else {
                Unanswered::Failed
            });
        }
    }
}

/// Gets the answer to a question.
type Reply = Box<dyn FnOnce(Checked) + Send>;

/// What an authorization server is asked about one request.
pub(crate) struct Question {
    authority: Arc<Authority>,
    request: Vec<u8>,
    path: Box<[u8]>,
    /// Id of the request, if requests have ids.
    id: Option<RequestId>,
    /// Who gets the answer, and until when. Whoever waits gets one even if this is dropped.
    asked: Option<(Reply, Instant)>,
}

impl Question {
    /// The server.
    pub(crate) fn url(&self) -> &AuthUrl {
        &self.authority.url
    }

    /// Number of that server.
    #[cfg(test)]
    pub(super) fn number(&self) -> u64 {
        self.authority.number
    }

    /// Time for which an answer is awaited.
    pub(super) fn patience(&self) -> Duration {
        self.authority.timeout
    }

    /// Asks, and blocks this thread.
    pub(super) fn run(self) -> Checked {
        self.answer(clock::now() + self.authority.timeout)
    }

    fn answer(&self, until: Instant) -> Checked {
        let result = complaints::about(self.id.as_ref().map(RequestId::value), || {
            self.authority.ask(&self.request, &self.path, until)
        });
        Checked::Asked(self.authority.number, result)
    }

    /// Asks on a thread of this desk, and calls `reply` with the answer.
    pub(super) fn ask(mut self, desk: &Desk, reply: Reply) {
        self.asked = Some((reply, clock::now() + self.authority.timeout));
        if let Err(refused) = desk.0.try_offer(self) {
            complaints::about(refused.id.as_ref().map(RequestId::value), || {
                complaints::warn(&refused.path, || {
                    format!(
                        "auth {}: more than {WAITING_MAX} requests wait for an answer; speed this server up",
                        refused.authority.url
                    )
                });
            });
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if let Some((reply, _)) = self.asked.take() {
            reply(Checked::Asked(self.authority.number, Err(Unanswered::TooMany)));
        }
    }
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question")
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

/// The threads that ask.
#[derive(Clone, Debug)]
pub(crate) struct Desk(Arc<Background<Question>>);

impl Desk {
    pub(super) fn new() -> Desk {
        let work = |mut question: Question, _| {
            if let Some((reply, until)) = question.asked.take() {
                reply(question.answer(until));
            }
        };
        Desk(Arc::new(
            Background::new("weir-auth", WAITING_MAX, work).with_threads(THREADS_MAX),
        ))
    }
}

/// Reads an answer as far as it arrived; `None`: it is not complete. `is_over`: nothing follows. The content of an answer that
/// admits the request is not awaited.
///
/// # Errors
/// Why it is invalid, in words.
fn read(all: &[u8], is_over: bool, copy: &[String]) -> Result<Option<Answered>, &'static str> {
    let limits = http1::Limits {
        head_bytes_max: HEAD_MAX,
        ..http1::Limits::DEFAULT
    };
    let broken = "its answer is not HTTP";
    if all.len() > HEAD_MAX as usize + CONTENT_MAX + FRAMING_MAX {
        return Err("its answer has more than 64 KiB");
    }
    let mut connection = Connection::new();
    let began = connection.begin_request(Method::Get, false, &limits);
    began
        .and_then(|()| connection.end_request())
        .map_err(|_| broken)?;
    let mut answered: Option<Answered> = None;
    let mut content = Vec::new();
    let mut used = 0;
    loop {
        let mut slots = Slots::new();
        match connection
            .receive(&all[used..], &mut slots, &limits)
            .map_err(|_| broken)?
        {
            Step::Interim { head, .. } if head.status == 101 => return Err("it switches protocols"),
            Step::Interim { used: more, .. } => used += more,
            Step::Response { head, used: more } => {
                used += more;
                let status = Status::from_u16(head.status).map_err(|_| broken)?;
                if head.status == 304 {
                    return Err("its answer has status 304 although it was asked without conditions");
                }
                let read = Answered {
                    status,
                    lines: lines(&head.fields),
                    content: Bytes::new(),
                    vouched: vouched(&head.fields, copy),
                };
                if read.admits() || head.framing == Framing::Empty {
                    return Ok(Some(read));
                }
                answered = Some(read);
            }
            Step::Body { data, used: more } => {
                used += more;
                content.extend_from_slice(data);
                if content.len() > CONTENT_MAX {
                    return Err("the content of its answer has more than 64 KiB");
                }
            }
            Step::End { .. } => break,
            Step::Partial { .. } | Step::Closed => match is_over.then(|| connection.eof()) {
                Some(Ok(Ended::Body(_))) => break,
                Some(_) => return Err("it closed the connection before its answer was complete"),
                None => return Ok(None),
            },
        }
    }
    Ok(answered.map(|answered| Answered {
        content: content.into(),
        ..answered
    }))
}

/// The lines for the client. The server writes `Date` itself.
fn lines(fields: &Fields<'_, '_>) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in fields.iter() {
        if !ends_here(name, fields) && !is_among(name, &HOP_BY_HOP) && !name.eq_ignore_ascii_case("date") {
            // A field that cannot be written changes nothing about the decision.
            let _ = response::field(&mut lines, name, value);
        }
    }
    lines
}

/// The fields for the upstream.
fn vouched(fields: &Fields<'_, '_>, copy: &[String]) -> Vouched {
    let mut vouched = Vouched::default();
    for name in copy {
        let its = fields
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name));
        for (_, value) in its {
            let _ = response::field(&mut vouched.lines, name, value);
            if name.eq_ignore_ascii_case(USER) && !value.is_empty() {
                vouched.user = Some(value.into());
            }
        }
    }
    vouched
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: &str = "Remote-User";

    fn read_all(text: &str) -> Result<Option<Answered>, &'static str> {
        read(text.as_bytes(), true, &[COPY.to_owned()])
    }

    #[test]
    fn an_answer_that_admits_has_fields_for_the_upstream() {
        let text = "HTTP/1.1 204 No Content\r\nremote-user: ann\r\nRemote-Groups: a\r\nRemote-User: \r\n\r\n";
        let answered = read_all(text).unwrap().unwrap();
        assert!(answered.admits());
        assert_eq!(answered.vouched.lines, b"Remote-User: ann\r\nRemote-User: \r\n");
        assert_eq!(answered.vouched.user.as_deref(), Some(&b"ann"[..]));
        // Its content does not matter.
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n";
        let answered = read(text.as_bytes(), false, &[]).unwrap().unwrap();
        assert!(answered.admits() && answered.content.is_empty());
    }

    #[test]
    fn any_other_answer_is_for_the_client() {
        for (text, content) in [
            (
                "HTTP/1.1 401 No\r\nWWW-Authenticate: A\r\nContent-Length: 2\r\n\r\nno",
                "no",
            ),
            (
                "HTTP/1.1 401 No\r\nWWW-Authenticate: A\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
                "no",
            ),
            (
                "HTTP/1.0 401 No\r\nWWW-Authenticate: A\r\nDate: d\r\nConnection: x-a\r\nX-A: 1\r\n\r\nno",
                "no",
            ),
            (
                "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 401 No\r\nWWW-Authenticate: A\r\nContent-Length: 0\r\n\r\n",
                "",
            ),
        ] {
            let answered = read_all(text).unwrap().unwrap();
            assert!(!answered.admits());
            assert_eq!(answered.content, content.as_bytes());
            assert_eq!(answered.lines, b"WWW-Authenticate: A\r\n", "{text}");
        }
    }

    #[test]
    fn what_is_no_whole_answer_admits_nothing() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 401 No\r\nContent-Length: 5\r\n\r\nno",
            "HTTP/1.1 101 Switch\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n\r\n",
        ] {
            assert!(read_all(text).is_err(), "{text}");
        }
        assert!(matches!(read(b"HTTP/1.1 200 OK\r\n", false, &[]), Ok(None)));
        let large = |length: usize| {
            let head = format!("HTTP/1.1 403 No\r\nContent-Length: {length}\r\n\r\n");
            read_all(&(head + &"x".repeat(length)))
        };
        assert_eq!(large(CONTENT_MAX).unwrap().unwrap().content.len(), CONTENT_MAX);
        assert!(large(CONTENT_MAX + 1).unwrap_err().contains("64 KiB"));
    }
}
