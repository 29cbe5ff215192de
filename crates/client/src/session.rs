//! One connection to a server: turns requests into bytes and bytes into responses.
//!
//! Holds no socket and no clock. Between two calls it keeps only the bytes of an unfinished head, so an idle
//! session owns no memory beyond itself (56 bytes). Knows neither the meaning of responses nor the purpose of
//! requests. `http1` handles framing, persistence and pipelining (RFC 9112).

pub use http_semantics::field::{Fields, Line};
use http_semantics::field::{Name, is_token_byte};
use http_semantics::method::Method;
pub use http1::Fault;
pub use http1::client::Memory;
use http1::client::{Connection, Ended, Step};
use http1::framing::Framing;
use http1::head::Response;
use http1::slots::Slots;
use http1::{Limits, Misuse};
use std::borrow::Cow;

/// Most requests waiting for their responses.
pub const OUTSTANDING_MAX: usize = 64;

/// Most bytes of a method's name: twice the longest registered one.
const METHOD_MAX: usize = 34;

/// Most bytes kept of faulty input.
pub const UNREAD_MAX: usize = 64;

/// The HTTP version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: the connection ends after one request.
    Http10,
    /// HTTP/1.1: the connection persists.
    Http11,
}

/// The method of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verb {
    /// What the protocol knows of it.
    method: Method,
    /// The token, as sent.
    name: Cow<'static, str>,
}

impl Verb {
    /// GET: head and content.
    pub const GET: Verb = Verb::of(Method::Get, "GET");
    /// HEAD: the head GET would get.
    pub const HEAD: Verb = Verb::of(Method::Head, "HEAD");
    /// POST: the server processes the request's content.
    pub const POST: Verb = Verb::of(Method::Post, "POST");

    const fn of(method: Method, name: &'static str) -> Verb {
        Verb {
            method,
            name: Cow::Borrowed(name),
        }
    }

    /// The token.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the protocol knows of it.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Whether responses have no content.
    pub fn is_head(&self) -> bool {
        self.method == Method::Head
    }

    /// Whether requests only read, and a response to them is the selected representation: GET or HEAD.
    pub fn is_retrieval(&self) -> bool {
        matches!(self.method, Method::Get | Method::Head)
    }

    /// Whether a request may be sent again although the server may have processed it (RFC 9110 section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        matches!(
            self.method,
            Method::Get | Method::Head | Method::Put | Method::Delete | Method::Options | Method::Trace
        )
    }

    /// Whether the method gives content a meaning, so that a request without content says `Content-Length: 0` (RFC 9110
    /// section 8.6).
    pub fn expects_content(&self) -> bool {
        matches!(self.method, Method::Post | Method::Put | Method::Patch)
    }

    /// Whether a request with this method may have content; only TRACE forbids it (RFC 9110 section 9.3.8).
    pub fn permits_content(&self) -> bool {
        self.method != Method::Trace
    }
}

impl Default for Verb {
    fn default() -> Verb {
        Verb::GET
    }
}

impl core::fmt::Display for Verb {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.name)
    }
}

impl core::str::FromStr for Verb {
    type Err = String;

    fn from_str(text: &str) -> Result<Verb, String> {
        if text.is_empty() || text.len() > METHOD_MAX || !text.bytes().all(is_token_byte) {
            return Err(format!(
                "`{}` is not a method: write a token of at most {METHOD_MAX} letters, digits and hyphens, as in POST",
                text.escape_debug()
            ));
        }
        let method = Method::of(text);
        let upper = text.to_ascii_uppercase();
        if method == Method::Other && Method::of(&upper) != Method::Other {
            return Err(format!("methods are case-sensitive; write {upper}"));
        }
        if method == Method::Connect {
            return Err("CONNECT opens a tunnel, which this client does not use".to_owned());
        }
        Ok(Verb {
            method,
            name: Cow::Owned(text.to_owned()),
        })
    }
}

/// A request without its target: the same bytes for all requests to a server, built once.
#[derive(Clone, Debug)]
pub struct Ending {
    version: Version,
    verb: Verb,
    /// Bytes before the target.
    before: Vec<u8>,
    /// Bytes behind the target, the content included.
    bytes: Vec<u8>,
}

impl Ending {
    /// Builds GET requests to `host` with the given `User-Agent`.
    pub fn new(version: Version, host: &str, user_agent: &str) -> Ending {
        // HTTP/1.0 does not define Host, but servers with several names need it, and clients have long sent it.
        let fields = [("Host", host), ("User-Agent", user_agent)];
        Ending::with(version, Verb::GET, fields, None)
    }

    /// Builds requests with these field lines, in order, and this content. Names and values are sent as given; the
    /// caller must make sure that they are valid and include `Host`. `Content-Length` is added if there is content, or
    /// if the method expects some.
    pub fn with<'f>(
        version: Version,
        verb: Verb,
        fields: impl IntoIterator<Item = (&'f str, &'f str)>,
        content: Option<&[u8]>,
    ) -> Ending {
        let number = match version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        };
        let mut text = format!(" HTTP/{number}\r\n");
        for (name, value) in fields {
            for part in [name, ": ", value, "\r\n"] {
                text.push_str(part);
            }
        }
        if let Some(length) = content_length(&verb, content) {
            text.push_str(&format!("Content-Length: {length}\r\n"));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(content.unwrap_or_default());
        Ending {
            version,
            before: format!("{verb} ").into_bytes(),
            verb,
            bytes,
        }
    }

    /// The method of requests built with it.
    #[inline]
    pub fn verb(&self) -> &Verb {
        &self.verb
    }
}

/// The value of `Content-Length` of a request, if it has the field (RFC 9110 section 8.6).
pub fn content_length(verb: &Verb, content: Option<&[u8]>) -> Option<usize> {
    content.map(<[u8]>::len).or(verb.expects_content().then_some(0))
}

/// A part of a response.
#[derive(Clone, Copy, Debug)]
pub enum Heard<'a> {
    /// The head of a final response: its status, and its field lines unless the memory knew the head.
    Head(u16, Option<Lines<'a>>),
    /// A piece of content; never empty.
    Body(&'a [u8]),
    /// The end of the response.
    End,
}

/// The field lines of a response head.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'a>(Fields<'a, 'a>);

impl<'a> From<Fields<'a, 'a>> for Lines<'a> {
    fn from(fields: Fields<'a, 'a>) -> Lines<'a> {
        Lines(fields)
    }
}

impl<'a> Lines<'a> {
    /// The target of a redirection, from `Location`; not validated.
    pub fn location(self) -> Option<&'a [u8]> {
        self.0.get(Name::Location)
    }

    /// All field lines, in their order.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.0.iter()
    }

    /// The value of `Content-Length`, which a response to HEAD has without content (RFC 9110 section 8.6).
    pub fn content_length(self) -> Option<u64> {
        let text = self.0.single(Name::ContentLength)?;
        core::str::from_utf8(text).ok()?.parse().ok()
    }
}

/// The head of a final response, whatever version of HTTP carried it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'b, 's> {
    /// Status code.
    pub status: u16,
    /// Reason phrase; that of the status where the version has none.
    pub reason: &'b str,
    /// The field lines.
    pub fields: Fields<'b, 's>,
}

/// A part of a response with all field lines, and the number of bytes it took of the stream.
#[derive(Debug)]
pub enum Said<'a, 'b, 's> {
    /// The head of a final response.
    Head(&'a Head<'b, 's>, usize),
    /// A piece of content; never empty.
    Body(&'b [u8], usize),
    /// The end of the response.
    End(usize),
}

/// A part of the stream.
#[derive(Debug)]
enum Piece<'a, 'b, 's> {
    /// A head found in the memory, with its status.
    Known(u16),
    Head(&'a Response<'b, 's>, usize),
    Body(&'b [u8], usize),
    End(usize),
}

/// Requests left without a response when the server closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// None.
    Nothing,
    /// The number of unanswered requests.
    Unanswered(u8),
}

/// One connection: the protocol state and the bytes of an unfinished head.
#[derive(Debug, Default)]
pub struct Session {
    http: Connection,
    /// The start of a head; after a fault, the start of the faulty bytes.
    kept: Vec<u8>,
}

impl Session {
    /// A session for a new connection.
    pub fn new() -> Session {
        Session::default()
    }

    /// Appends a request to `out`.
    ///
    /// # Errors
    /// If no request may be sent now: [`OUTSTANDING_MAX`] are outstanding, or the connection's last request was
    /// already sent.
    pub fn request(&mut self, out: &mut Vec<u8>, target: &str, ending: &Ending) -> Result<(), Misuse> {
        let persist = ending.version == Version::Http11;
        self.http
            .begin_request(ending.verb.method, persist, &Limits::DEFAULT)?;
        out.extend_from_slice(&ending.before);
        out.extend_from_slice(target.as_bytes());
        out.extend_from_slice(&ending.bytes);
        self.http.end_request()
    }

    /// Records a request without content whose head the caller writes; `persist` tells whether it keeps the
    /// connection open.
    ///
    /// # Errors
    /// If no request may be sent now: [`OUTSTANDING_MAX`] are outstanding, or the connection's last request was
    /// already sent.
    pub fn ask(&mut self, method: Method, persist: bool) -> Result<(), Misuse> {
        self.http.begin_request(method, persist, &Limits::DEFAULT)?;
        self.http.end_request()
    }

    /// Parses received bytes and passes their parts to `hear`. Heads in `memory` are not parsed again; sessions
    /// may share a memory.
    ///
    /// # Errors
    /// The fault of the server; the connection is of no further use. [`Session::unread`] returns the faulty
    /// bytes. Bytes after the last requested response are [`Fault::Unsolicited`], even if that response ends
    /// the connection.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        memory: &mut Memory,
        mut hear: impl FnMut(Heard<'_>),
    ) -> Result<(), Fault> {
        self.walk(bytes, Some(memory), |piece| match piece {
            Piece::Known(status) => hear(Heard::Head(status, None)),
            Piece::Head(head, _) => hear(Heard::Head(head.status, Some(Lines(head.fields)))),
            Piece::Body(data, _) => hear(Heard::Body(data)),
            Piece::End(_) => hear(Heard::End),
        })
    }

    /// The number of following bytes that are certain to be content. A caller without use for them may discard
    /// them and report their number to [`Session::pass`].
    #[inline]
    pub fn content_ahead(&self) -> u64 {
        self.http.content_ahead()
    }

    /// Records that `bytes` bytes of content were discarded; returns whether they completed the response.
    ///
    /// # Errors
    /// If fewer bytes of content are ahead.
    pub fn pass(&mut self, bytes: u64) -> Result<bool, Misuse> {
        self.http.pass(bytes)?;
        if self.http.content_ahead() > 0 {
            return Ok(false);
        }
        let mut slots = Slots::new();
        let end = self.http.receive(&[], &mut slots, &Limits::DEFAULT);
        Ok(matches!(end, Ok(Step::End { .. })))
    }

    /// Like [`Session::receive`], with all field lines of heads.
    ///
    /// # Errors
    /// The fault of the server; the connection is of no further use.
    pub fn listen(&mut self, bytes: &[u8], mut hear: impl FnMut(Said<'_, '_, '_>)) -> Result<(), Fault> {
        self.walk(bytes, None, |piece| match piece {
            Piece::Head(response, used) => {
                let head = Head {
                    status: response.status,
                    reason: response.reason,
                    fields: response.fields,
                };
                hear(Said::Head(&head, used));
            }
            Piece::Body(data, used) => hear(Said::Body(data, used)),
            Piece::End(used) => hear(Said::End(used)),
            Piece::Known(_) => debug_assert!(false, "only a memory knows heads"),
        })
    }

    fn walk(
        &mut self,
        bytes: &[u8],
        mut memory: Option<&mut Memory>,
        mut hear: impl FnMut(Piece<'_, '_, '_>),
    ) -> Result<(), Fault> {
        let joined;
        let mut input = bytes;
        if !self.kept.is_empty() {
            self.kept.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.kept);
            input = &joined;
        }
        loop {
            if let Some(memory) = &memory
                && let Some((status, used)) = self.http.recall(input, memory)
            {
                hear(Piece::Known(status));
                input = &input[used..];
            }
            let mut slots = Slots::new();
            let step = match self.http.receive(input, &mut slots, &Limits::DEFAULT) {
                Ok(step) => step,
                Err(fault) => return Err(self.at_fault(fault, input)),
            };
            let used = match step {
                Step::Partial { used } => {
                    self.kept = input[used..].to_vec();
                    return Ok(());
                }
                Step::Closed if memory.is_some() && !input.is_empty() && self.http.outstanding() == 0 => {
                    return Err(self.at_fault(Fault::Unsolicited, input));
                }
                Step::Closed => return Ok(()),
                Step::Interim { used, .. } => used,
                Step::Response { head, used } => {
                    if let Some(memory) = &mut memory {
                        memory.keep(&input[..used], &head);
                    }
                    hear(Piece::Head(&head, used));
                    if head.framing == Framing::Empty {
                        hear(Piece::End(0));
                    }
                    used
                }
                Step::Body { data, used } => {
                    hear(Piece::Body(data, used));
                    used
                }
                Step::End { used, .. } => {
                    hear(Piece::End(used));
                    used
                }
            };
            input = &input[used..];
        }
    }

    #[cold]
    fn at_fault(&mut self, fault: Fault, input: &[u8]) -> Fault {
        self.kept = input[..input.len().min(UNREAD_MAX)].to_vec();
        fault
    }

    /// After a fault, the start of the faulty bytes, up to [`UNREAD_MAX`].
    pub fn unread(&self) -> &[u8] {
        &self.kept
    }

    /// Records that the server closed its sending half; calls `hear` if that completes a response.
    ///
    /// # Errors
    /// If that cuts a response short.
    pub fn eof(&mut self, mut hear: impl FnMut(Heard<'_>)) -> Result<Left, Fault> {
        let left = match self.http.eof()? {
            Ended::Idle => 0,
            Ended::Unanswered(left) => left,
            Ended::Body(left) => {
                hear(Heard::End);
                left
            }
        };
        Ok(if left == 0 {
            Left::Nothing
        } else {
            Left::Unanswered(left)
        })
    }

    /// Number of requests whose responses have not begun.
    pub fn outstanding(&self) -> usize {
        usize::from(self.http.outstanding())
    }

    /// Whether the head of a final response has begun and not ended. The first digit of the status tells it from an
    /// interim response, so before that digit the answer is no.
    pub fn is_within_final_head(&self) -> bool {
        let digit = self.kept.trim_ascii_start().get(b"HTTP/1.1 ".len());
        digit.is_some_and(|digit| *digit != b'1')
    }

    /// Whether another request may follow on this connection.
    pub fn is_persistent(&self) -> bool {
        self.http.is_persistent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(version: Version) -> Ending {
        Ending::new(version, "example.org", "weir")
    }

    fn heard(session: &mut Session, bytes: &[u8]) -> Result<Vec<String>, Fault> {
        let mut all = Vec::new();
        session.receive(bytes, &mut Memory::default(), |heard| all.push(shown(heard)))?;
        Ok(all)
    }

    fn shown(heard: Heard<'_>) -> String {
        match heard {
            Heard::Head(status, _) => status.to_string(),
            Heard::Body(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Heard::End => ".".to_owned(),
        }
    }

    #[test]
    fn pipelined_replies_come_in_order_however_they_are_cut() {
        let stream = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 304 Not Modified\r\n\r\n\
            HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        for size in 1..stream.len() {
            let (mut session, mut out) = (Session::new(), Vec::new());
            for target in ["/a", "/b", "/c"] {
                session
                    .request(&mut out, target, &ending(Version::Http11))
                    .expect("room");
            }
            assert!(
                out.starts_with(b"GET /a HTTP/1.1\r\nHost: example.org\r\nUser-Agent: weir\r\n\r\nGET /b ")
            );
            let mut all = String::new();
            for piece in stream.chunks(size) {
                all.extend(heard(&mut session, piece).expect("sound"));
            }
            assert_eq!(all, "200hi.304.200abc.", "pieces of {size}");
            assert!(session.is_persistent() && session.outstanding() == 0 && session.kept.is_empty());
        }
    }

    #[test]
    fn a_reply_until_the_end_ends_with_it() {
        let (mut session, mut out) = (Session::new(), Vec::new());
        session
            .request(&mut out, "/", &ending(Version::Http10))
            .expect("room");
        assert!(session.request(&mut out, "/", &ending(Version::Http10)).is_err());
        assert_eq!(
            heard(&mut session, b"HTTP/1.0 200 OK\r\n\r\nall").expect("sound"),
            ["200", "all"]
        );
        let mut ends = 0;
        assert_eq!(session.eof(|_| ends += 1), Ok(Left::Nothing));
        assert_eq!(ends, 1);
    }

    #[test]
    fn an_early_end_is_told_from_a_late_one() {
        let asked = || {
            let (mut session, mut out) = (Session::new(), Vec::new());
            session
                .request(&mut out, "/", &ending(Version::Http11))
                .expect("room");
            session
                .request(&mut out, "/", &ending(Version::Http11))
                .expect("room");
            session
        };
        assert_eq!(asked().eof(|_| ()), Ok(Left::Unanswered(2)));
        let mut session = asked();
        heard(&mut session, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").expect("sound");
        assert!(session.eof(|_| ()).is_err());
        assert!(heard(&mut asked(), b"SSH-2.0\r\n\r\n").is_err());
    }

    /// A memory changes neither the parts nor the faults of a stream, however it is cut.
    #[test]
    fn a_memory_changes_nothing_that_is_heard() {
        let replies = [
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyou",
            "HTTP/1.1 304 Not Modified\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\nConnection: close\r\n\r\n!",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhey",
        ];
        let heard = |replies: [&str; 3], size: usize, mut memory: Option<&mut Memory>| {
            let (mut session, mut out, mut all) = (Session::new(), Vec::new(), Vec::new());
            for _ in 0..3 {
                session
                    .request(&mut out, "/", &ending(Version::Http11))
                    .expect("room");
            }
            let mut fault = None;
            for piece in replies.concat().as_bytes().chunks(size) {
                let said = match &mut memory {
                    Some(memory) => session.receive(piece, memory, |heard| all.push(shown(heard))),
                    None => session.listen(piece, |said| match said {
                        Said::Head(head, _) => all.push(head.status.to_string()),
                        Said::Body(data, _) => all.push(shown(Heard::Body(data))),
                        Said::End(_) => all.push(shown(Heard::End)),
                    }),
                };
                fault = fault.or(said.err());
            }
            let state = (
                session.outstanding(),
                session.is_persistent(),
                session.is_within_final_head(),
            );
            (all, fault, state)
        };
        let mut memory = Memory::default();
        for first in replies {
            for second in replies {
                for third in replies {
                    let stream = [first, second, third];
                    for size in [1, 7, 40, 1000] {
                        let alone = heard(stream, size, None);
                        let after_others = heard(stream, size, Some(&mut memory));
                        assert_eq!(after_others, alone, "{stream:?} in pieces of {size}");
                        assert_eq!(heard(stream, size, Some(&mut memory)), alone, "again");
                    }
                }
            }
        }
    }

    /// A response to HEAD has the head of GET and no content: a memory of the response to GET must not promise
    /// any.
    #[test]
    fn a_memory_is_not_asked_what_answers_head() {
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        let mut memory = Memory::default();
        let (mut session, mut all) = (Session::new(), Vec::new());
        session.ask(Method::Get, true).expect("room");
        session.ask(Method::Head, true).expect("room");
        session.ask(Method::Get, true).expect("room");
        for piece in [&reply[..], b"hi", reply, reply, b"ho"] {
            let heard = session.receive(piece, &mut memory, |heard| all.push(shown(heard)));
            heard.expect("sound");
        }
        assert_eq!(all.concat(), "200hi.200.200ho.");
    }

    #[test]
    fn content_that_nobody_looks_at_is_passed_over() {
        let (mut session, mut out) = (Session::new(), Vec::new());
        for _ in 0..2 {
            session
                .request(&mut out, "/", &ending(Version::Http11))
                .expect("room");
        }
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst";
        assert_eq!(heard(&mut session, reply).expect("sound"), ["200", "first"]);
        assert_eq!(session.content_ahead(), 4);
        assert_eq!(session.pass(3), Ok(false));
        assert_eq!(session.pass(1), Ok(true));
        assert!(session.pass(1).is_err());
        let reply = b"HTTP/1.1 304 Not Modified\r\n\r\n";
        assert_eq!(heard(&mut session, reply).expect("sound"), ["304", "."]);
    }

    #[test]
    fn a_session_is_small() {
        assert!(size_of::<Session>() <= 56);
    }

    /// Bytes after the last requested response are a fault, whether or not the connection persists.
    #[test]
    fn bytes_that_nobody_asked_for_are_a_fault_and_are_shown() {
        for (version, close) in [
            (Version::Http10, ""),
            (Version::Http11, ""),
            (Version::Http11, "Connection: close\r\n"),
        ] {
            let (mut session, mut out) = (Session::new(), Vec::new());
            session.request(&mut out, "/", &ending(version)).expect("room");
            let reply = format!("HTTP/1.1 200 OK\r\n{close}Content-Length: 2\r\n\r\nokEXTRA");
            let mut all = String::new();
            let fault = session.receive(reply.as_bytes(), &mut Memory::default(), |heard| {
                all += &shown(heard);
            });
            assert_eq!(
                (fault, all.as_str()),
                (Err(Fault::Unsolicited), "200ok."),
                "{version:?}"
            );
            assert_eq!(session.unread(), b"EXTRA");
        }
        let (mut session, mut out) = (Session::new(), Vec::new());
        session
            .request(&mut out, "/", &ending(Version::Http11))
            .expect("room");
        assert!(heard(&mut session, &[b'x'; 1000]).is_err());
        assert_eq!(session.unread(), [b'x'; UNREAD_MAX]);
    }

    #[test]
    fn a_request_has_the_verb_and_the_fields_it_was_given() {
        let fields = [("Host", "a.example"), ("Accept", "*/*")];
        let ending = Ending::with(Version::Http11, Verb::HEAD, fields, None);
        let (mut session, mut out) = (Session::new(), Vec::new());
        session.request(&mut out, "/a", &ending).expect("room");
        assert_eq!(
            String::from_utf8_lossy(&out),
            "HEAD /a HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n\r\n"
        );
        // It states a length, but no content follows.
        let reply = b"HTTP/1.1 301 Moved\r\nContent-Length: 2\r\nLocation: /b\r\n\r\n";
        let mut said = Vec::new();
        let sound = session.receive(reply, &mut Memory::default(), |heard| {
            said.push(match heard {
                Heard::Head(301, Some(lines)) => {
                    (lines.location().map(<[u8]>::to_vec), lines.content_length())
                }
                _ => (None, None),
            });
        });
        assert_eq!(sound, Ok(()));
        assert_eq!(said, [(Some(b"/b".to_vec()), Some(2)), (None, None)]);
        assert!(session.is_persistent());
    }

    #[test]
    fn methods_are_tokens_with_the_properties_of_rfc_9110() {
        for (name, is_retrieval, is_idempotent, expects_content) in [
            ("GET", true, true, false),
            ("HEAD", true, true, false),
            ("PUT", false, true, true),
            ("DELETE", false, true, false),
            ("POST", false, false, true),
            ("PATCH", false, false, true),
            ("REPORT", false, false, false),
        ] {
            let verb: Verb = name.parse().expect(name);
            assert_eq!((verb.name(), verb.is_retrieval()), (name, is_retrieval));
            assert_eq!(
                (verb.is_idempotent(), verb.expects_content()),
                (is_idempotent, expects_content),
                "{name}"
            );
        }
        assert_eq!("HEAD".parse(), Ok(Verb::HEAD));
        let longest = "M".repeat(METHOD_MAX);
        assert!(longest.parse::<Verb>().is_ok() && format!("{longest}M").parse::<Verb>().is_err());
        for name in ["", "head", "CONNECT", "A B", "G\u{e9}T"] {
            assert!(name.parse::<Verb>().is_err(), "{name}");
        }
    }

    #[test]
    fn content_follows_the_head_with_its_length() {
        let sent = |verb: Verb, content: Option<&[u8]>| {
            let ending = Ending::with(Version::Http11, verb, [("Host", "h")], content);
            let mut out = Vec::new();
            Session::new().request(&mut out, "/a", &ending).expect("room");
            String::from_utf8(out).expect("text")
        };
        let head = "/a HTTP/1.1\r\nHost: h\r\n";
        assert_eq!(
            sent(Verb::POST, Some(b"abc")),
            format!("POST {head}Content-Length: 3\r\n\r\nabc")
        );
        assert_eq!(
            sent(Verb::POST, None),
            format!("POST {head}Content-Length: 0\r\n\r\n")
        );
        assert_eq!(
            sent(Verb::GET, Some(b"")),
            format!("GET {head}Content-Length: 0\r\n\r\n")
        );
        assert_eq!(sent(Verb::GET, None), format!("GET {head}\r\n"));
    }
}
