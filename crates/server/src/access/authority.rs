//! Asks another server whether a request is admitted, as `auth_request` of nginx and `forward_auth` of Caddy do.
//!
//! ```text
//!   head of the request ─▶ Question ─▶ a thread of `Desk` ─▶ GET at the server ─┬─ 2xx ──▶ admitted, with fields for the upstream
//!                                                                              ├─ other ▶ the answer for the client
//!                                                                              └─ none ─▶ 502, 503 or 504
//! ```
//! Decides what the server is told, what its answer means, and whether its connection may carry the next question. `proxy`
//! knows where it listens and has its connections.

use super::decisions::{DecisionReport, Decisions};
use crate::checked::{Answered, Checked, Guarded, Unanswered, Vouched};
use crate::client_address::From;
use crate::config::{Access, AuthUrl, Proxy, RequestHeader};
use crate::own_fields::{HOP_BY_HOP, is_among};
use crate::proxy::direct::{Direct, Keeping, Pool};
use crate::proxy::head::{Follows, binds_connection, ends_here, write_request};
use crate::proxy::places::{Found, Names, Place};
use crate::request_id::RequestId;
use crate::traced::Trace;
use bytes::Bytes;
use http_semantics::field::{Fields, Line, MAX_FIELDS};
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

/// Time for the rest of an answer that admits a request, once the request goes on. A connection whose answer takes longer is
/// closed.
const REST_MAX: Duration = Duration::from_millis(200);

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
    place: Arc<Place>,
    pool: Arc<Pool>,
    decisions: Arc<Decisions>,
    /// Fields of its answer for upstreams.
    copy: Vec<String>,
    timeout: Duration,
    keeping: Keeping,
    host: RequestHeader,
}

/// Who sends a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    /// Address.
    pub(crate) peer: std::net::IpAddr,
    /// Whether the client used https.
    pub(crate) is_secured: bool,
    /// Whom its certificate names; `None`: it has shown none.
    pub(crate) certificate: Option<&'a str>,
    /// Id of the request, if requests have ids.
    pub(crate) id: Option<&'a RequestId>,
    /// Its part in its trace, if requests are traced.
    pub(crate) trace: Option<&'a Trace>,
}

impl Authority {
    /// The server that a rule names, whose idle connections are in this pool. What `before` knows of its host name stays
    /// known, and the counts of `older`, the same server of the same rule before a reload, go on.
    ///
    /// # Errors
    /// In words, why its TLS cannot be set up.
    pub(super) fn of(
        access: &Access,
        names: &mut Names,
        before: Option<&Names>,
        pool: &Arc<Pool>,
        older: Option<&Authority>,
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
            place: Arc::new(place),
            pool: Arc::clone(pool),
            decisions: older.map_or_else(Arc::default, |older| Arc::clone(&older.decisions)),
            copy: access.copy.clone(),
            timeout: access.auth_timeout,
            keeping: Keeping {
                most: access.auth_keepalive as usize,
                time: access.auth_keepalive_time,
            },
            host: RequestHeader::for_host(host),
        })))
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether this server is at the same URL.
    pub(super) fn is_at(&self, url: &AuthUrl) -> bool {
        self.url == *url
    }

    /// What it has answered so far, as the server of the rule for this path.
    pub(super) fn report(&self, site: usize, access: &Access) -> DecisionReport {
        let server = self.url.upstream().to_string();
        self.decisions.report(site.to_string(), access.shown(), server)
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
            may_claim_https: false,
            is_secured: sender.is_secured,
            guarded: Guarded::default(),
            id: sender.id.cloned(),
            trace: sender.trace.map(|trace| Arc::new(trace.without_call())),
        };
        // The credentials of one client must not speak for another one.
        let is_alone = binds_connection(&head.fields, "authorization");
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
            if is_alone {
                Follows::Nothing
            } else {
                Follows::Requests
            },
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
            is_alone,
            path: head.target.path().unwrap_or(b"*").into(),
            id: from.id,
            asked: None,
        })
    }

    /// Asks, and blocks this thread for at most about the timeout.
    fn ask(&self, question: &Question, until: Instant) -> Result<(Arc<Answered>, Option<Rest>), Unanswered> {
        let complain = |why: &dyn std::fmt::Display| {
            let url = &self.url;
            complaints::warn(&question.path, || {
                format!("auth {url}: {why}; the request is not admitted until this server answers")
            });
        };
        let Found::At(mut to, mut others) = self.place.find_by(until) else {
            complain(&"its host name has no known address");
            return Err(Unanswered::Failed);
        };
        loop {
            if until.since(clock::now()).is_zero() {
                complain(&"it did not answer within `auth-timeout`");
                return Err(Unanswered::TimedOut);
            }
            let error = match self.ask_at(&to, question, until) {
                Ok((answered, rest)) => return Ok((Arc::new(answered), rest)),
                Err(error) => error,
            };
            self.place.failed(&to, clock::now());
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

    /// Asks at this address, on a connection that was kept or on a new one.
    ///
    /// # Errors
    /// The connection fails, the answer is invalid, or the time is over.
    fn ask_at(
        &self,
        to: &Arc<Upstream>,
        question: &Question,
        until: Instant,
    ) -> io::Result<(Answered, Option<Rest>)> {
        let kept = match question.is_alone {
            true => None,
            false => self.pool.take(&self.place, to, clock::now()),
        };
        if let Some(mut direct) = kept {
            match self.talk(&mut direct, question, until) {
                Ok(read) => return Ok(read.with(direct, question)),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    // The path to the server may be broken for all of them.
                    self.pool.close(&self.place);
                    return Err(error);
                }
                // The server may have closed it just now. GET may be repeated.
                Err(_) if direct.is_silent() => {}
                Err(error) => return Err(error),
            }
        }
        let (pool, open) = (&self.pool, &self.decisions.open);
        let mut direct = pool.open(&self.place, to, self.keeping, open, until)?;
        self.decisions.opened();
        let read = self.talk(&mut direct, question, until)?;
        Ok(read.with(direct, question))
    }

    fn talk(&self, direct: &mut Direct, question: &Question, until: Instant) -> io::Result<Read> {
        let mut answer = None;
        direct.exchange(&question.request, until, |all, is_over| {
            answer = read(all, is_over, &self.copy).map_err(io::Error::other)?;
            Ok(answer.is_some())
        })?;
        answer.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Keeps a connection for the next question, once the rest of its answer has arrived.
    fn keep(&self, rest: Rest) {
        let Rest { mut direct, is_whole } = rest;
        let mut may_follow = is_whole;
        if !is_whole {
            let until = clock::now() + REST_MAX;
            // If it fails, the connection is closed, and nobody waits for it.
            let _ = direct.exchange(&[], until, |all, is_over| {
                let read = read(all, is_over, &[]).map_err(io::Error::other)?;
                let read = read.ok_or_else(|| io::Error::other("an answer that was there"))?;
                may_follow = read.is_whole && read.may_follow;
                Ok(read.is_whole || !read.may_follow)
            });
        }
        if may_follow {
            self.pool.put(direct, clock::now());
        }
    }
}

/// A connection that may carry another question.
struct Rest {
    direct: Direct,
    /// Whether its answer has arrived completely.
    is_whole: bool,
}

/// Gets the answer to a question.
type Reply = Box<dyn FnOnce(Checked) + Send>;

/// What an authorization server is asked about one request.
pub(crate) struct Question {
    authority: Arc<Authority>,
    request: Vec<u8>,
    /// Whether the request needs a connection of its own.
    is_alone: bool,
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
        let (checked, rest) = self.answer(clock::now() + self.authority.timeout);
        if let Some(rest) = rest {
            self.authority.keep(rest);
        }
        checked
    }

    /// The answer, and its connection if that may carry another question once the rest of the answer has arrived.
    fn answer(&self, until: Instant) -> (Checked, Option<Rest>) {
        let authority = &self.authority;
        let asked = complaints::about(self.id.as_ref().map(RequestId::value), || {
            authority.ask(self, until)
        });
        let (result, mut rest) = match asked {
            Ok((answered, rest)) => (Ok(answered), rest),
            Err(why) => (Err(why), None),
        };
        // The client's next request finds the connection. Without its answer, nobody waits for the rest of this one.
        if let Some(whole) = rest.take_if(|rest| rest.is_whole) {
            authority.keep(whole);
        }
        // The time before the end of the timeout, or after it.
        let now = clock::now();
        let took = (authority.timeout + now.since(until)).saturating_sub(until.since(now));
        authority.decisions.add(&result, took);
        (Checked::Asked(authority.number, result), rest)
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
            self.authority.decisions.refused();
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
                let (checked, rest) = question.answer(until);
                reply(checked);
                if let Some(rest) = rest {
                    question.authority.keep(rest);
                }
            }
        };
        Desk(Arc::new(
            Background::new("weir-auth", WAITING_MAX, work).with_threads(THREADS_MAX),
        ))
    }
}

/// An answer, as far as it was read.
struct Read {
    answered: Answered,
    /// Whether it is complete.
    is_whole: bool,
    /// Whether another request may follow on its connection once it is complete.
    may_follow: bool,
}

impl Read {
    /// With its connection, if that may carry another question.
    fn with(self, direct: Direct, question: &Question) -> (Answered, Option<Rest>) {
        let is_whole = self.is_whole;
        let may_follow = self.may_follow && !question.is_alone;
        (self.answered, may_follow.then_some(Rest { direct, is_whole }))
    }
}

/// Reads an answer as far as it arrived; `None`: it is not complete. `is_over`: nothing follows. The content of an answer that
/// admits the request is not awaited.
///
/// # Errors
/// Why it is invalid, in words.
fn read(all: &[u8], is_over: bool, copy: &[String]) -> Result<Option<Read>, &'static str> {
    let limits = http1::Limits {
        head_bytes_max: HEAD_MAX,
        // The layer of HTTP/2 adds the line of the framing.
        fields_max: MAX_FIELDS as u16 + 1,
        ..http1::Limits::DEFAULT
    };
    let broken = "its answer is not HTTP";
    if all.len() > HEAD_MAX as usize + CONTENT_MAX + FRAMING_MAX {
        return Err("its answer has more than 64 KiB");
    }
    let mut connection = Connection::new();
    let began = connection.begin_request(Method::Get, true, &limits);
    began
        .and_then(|()| connection.end_request())
        .map_err(|_| broken)?;
    // The answer, and whether its connection is bound to the credentials of one client.
    let mut head: Option<(Answered, bool)> = None;
    let mut content = Vec::new();
    let mut used = 0;
    let mut is_whole = false;
    while !is_whole {
        let mut slots = Slots::new();
        let is_admitted = matches!(&head, Some((answered, _)) if answered.admits());
        match connection.receive(&all[used..], &mut slots, &limits) {
            // The decision stands; nothing follows on this connection.
            Err(_) if is_admitted => break,
            Err(_) => return Err(broken),
            Ok(Step::Interim { head, .. }) if head.status == 101 => return Err("it switches protocols"),
            Ok(Step::Interim { used: more, .. }) => used += more,
            Ok(Step::Response {
                head: received,
                used: more,
            }) => {
                used += more;
                let status = Status::from_u16(received.status).map_err(|_| broken)?;
                if received.status == 304 {
                    return Err("its answer has status 304 although it was asked without conditions");
                }
                let answered = Answered {
                    status,
                    lines: lines(&received.fields),
                    content: Bytes::new(),
                    vouched: vouched(&received.fields, copy),
                };
                is_whole = received.framing == Framing::Empty;
                head = Some((answered, binds_connection(&received.fields, "www-authenticate")));
            }
            Ok(Step::Body { data, used: more }) => {
                used += more;
                if !is_admitted {
                    content.extend_from_slice(data);
                }
                if content.len() > CONTENT_MAX {
                    return Err("the content of its answer has more than 64 KiB");
                }
            }
            Ok(Step::End { used: more, .. }) => {
                used += more;
                is_whole = true;
            }
            Ok(Step::Partial { .. } | Step::Closed) => match is_over.then(|| connection.eof()) {
                Some(Ok(Ended::Body(_))) => is_whole = true,
                Some(_) | None if is_admitted => break,
                Some(_) => return Err("it closed the connection before its answer was complete"),
                None => return Ok(None),
            },
        }
    }
    let may_follow = match is_whole {
        true => connection.is_reusable() && used == all.len(),
        false => connection.is_persistent(),
    };
    Ok(head.map(|(answered, is_bound)| Read {
        answered: Answered {
            content: content.into(),
            ..answered
        },
        is_whole,
        may_follow: may_follow && !is_over && !is_bound,
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
        let read = read(text.as_bytes(), true, &[COPY.to_owned()])?;
        Ok(read.map(|read| read.answered))
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
        let read = read(text.as_bytes(), false, &[]).unwrap().unwrap();
        assert!(read.answered.admits() && read.answered.content.is_empty());
    }

    #[test]
    fn a_question_may_follow_a_complete_answer() {
        // Whether the answer is complete, and whether a question may follow once it is.
        for (text, expected) in [
            ("HTTP/1.1 204 No Content\r\n\r\n", (true, true)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", (true, true)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", (false, true)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", (false, true)),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                (true, true),
            ),
            ("HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", (true, true)),
            // Bytes behind it, its own words, its version, no length, and a scheme that authenticates connections.
            ("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1", (true, false)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokok", (true, false)),
            (
                "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
                (true, false),
            ),
            ("HTTP/1.0 204 No Content\r\n\r\n", (true, false)),
            ("HTTP/1.1 200 OK\r\n\r\nok", (false, false)),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n",
                (false, false),
            ),
            (
                "HTTP/1.1 401 No\r\nWWW-Authenticate: Basic, NTLM\r\nContent-Length: 0\r\n\r\n",
                (true, false),
            ),
        ] {
            let got = read(text.as_bytes(), false, &[]).unwrap().unwrap();
            assert_eq!((got.is_whole, got.may_follow), expected, "{text}");
            // None may follow the end of the connection.
            let got = read(text.as_bytes(), true, &[]).unwrap().unwrap();
            assert!(!got.may_follow, "{text}");
        }
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
    fn an_answer_of_http2_may_have_as_many_field_lines_as_one_of_http1() {
        let with = |count: usize| {
            let lines: Vec<String> = (0..count).map(|at| format!("x-{at}: y\r\n")).collect();
            let head = format!("HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n", lines.concat());
            read_all(&head)
        };
        assert!(with(MAX_FIELDS).unwrap().unwrap().admits());
        assert_eq!(with(MAX_FIELDS + 1).unwrap_err(), "its answer is not HTTP");
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
