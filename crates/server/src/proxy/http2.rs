//! HTTP/2 to an upstream: what a request of HTTP/1.1 is on a stream, and what came over the stream is in HTTP/1.1.
//!
//! ```text
//!   Forward ── request of HTTP/1.1 ──▶ Passage ── HEADERS, DATA ──▶ upstream
//!   Forward ◀── response of HTTP/1.1 ── Passage ◀── HEADERS, DATA ── upstream
//! ```
//! An exchange is the same for every upstream: heads that were parsed and written anew, in the framing of HTTP/1.1. A
//! passage reads that framing and writes frames, and the other way round. Decides how heads and trailers correspond
//! (RFC 9113 section 8). Bytes that the upstream's windows do not permit wait here; there are never more than one portion of
//! the exchange's, because the next one follows when they are gone. A [`Translator`] is a connection with one passage at a
//! time; `shared` has those with several.

use crate::config::STREAMS_MAX;
use http_semantics::field::{Fields, MAX_LINES};
use http1::framing::Framing;
use http1::server::Step;
use http1::slots::Slots;
use http1::{response, server};
use http2::client::{Connection, Event};
use http2::hpack::{self, block};
use http2::priority::Priority;
use http2::{Code, Limits};
use std::io::Write as _;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use units::{Allowance, Instant};

/// Bytes that an upstream may send on one stream before the client has taken them.
const STREAM_WINDOW: u32 = 65_535;

/// Limits on what upstreams send. Their heads may be as large as those of HTTP/1.1. A connection carries the requests of
/// many clients, and an upstream of gRPC measures it with PING, so there may be more small frames than from a client.
static LIMITS: LazyLock<Arc<Limits>> = LazyLock::new(|| {
    let many = Allowance {
        burst: 100_000,
        per_second: 10_000,
    };
    Arc::new(Limits {
        list_bytes_max: 64 << 10,
        block_bytes_max: 64 << 10,
        stream_window: STREAM_WINDOW,
        // Streams that nobody reads never close it, although it is opened again only when half of it was used.
        connection_window: 2 * (STREAMS_MAX + 1) * STREAM_WINDOW,
        resets: many,
        pings: many,
        empty: many,
        small_updates: many,
        ..Limits::DEFAULT
    })
});

/// Requests take turns on their connection.
const IN_TURN: Priority = Priority {
    incremental: true,
    ..Priority::DEFAULT
};

/// Limits on requests as the exchange writes them: those of the client were checked, and the exchange adds lines.
pub(super) const OWN: http1::Limits = http1::Limits {
    head_bytes_max: u32::MAX,
    fields_max: MAX_LINES as u16,
    target_bytes_max: u32::MAX,
    trailer_bytes_max: u32::MAX,
    ..http1::Limits::DEFAULT
};

/// Most bytes of one DATA frame, its header included.
const ROOM: usize = 64 << 10;

/// The fields of a connection of HTTP/1.1, which HTTP/2 does not have (RFC 9113 section 8.2.2).
const OF_HTTP1: [&str; 6] = [
    "connection",
    "host",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

/// How far the response got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Answer {
    /// Its head has not arrived.
    #[default]
    Awaited,
    /// Its content comes in a framing of its length.
    Length,
    /// Its content comes in chunks.
    Chunked,
    /// It is complete.
    Whole,
}

/// The exchange ended before its response was whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The upstream did not process the request: it refused the stream, or its GOAWAY names an earlier one as the last
    /// (RFC 9113 section 8.7). Or the connection took no request.
    Unprocessed,
    /// It may have: it reset the stream, or left.
    Given,
    /// What it sent is no FastCGI.
    Malformed(fastcgi::Fault),
    /// An application of FastCGI has to know the length of the content first, and it is too much to be collected.
    NoLength,
}

/// One request and its response on a stream of an HTTP/2 connection.
#[derive(Debug, Default)]
pub(crate) struct Passage {
    /// Reads the request as the exchange writes it.
    request: server::Connection,
    /// Bytes of it that are not decoded.
    raw: Vec<u8>,
    stream: Option<u32>,
    is_to_head: bool,
    /// Content for the upstream.
    body: Vec<u8>,
    /// Field block of the trailer section; it follows the content. `None`: there is none.
    trailers: Option<Vec<u8>>,
    answer: Answer,
}

impl Passage {
    /// Its stream, once the head of the request was sent.
    pub(crate) fn stream(&self) -> Option<u32> {
        self.stream
    }

    /// Bytes of the request's content that wait for the upstream's windows. Trailers wait only behind content.
    pub(crate) fn blocked(&self) -> usize {
        self.body.len()
    }

    /// Whether the response is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.answer == Answer::Whole
    }

    /// Bytes of memory held behind it.
    pub(crate) fn held(&self) -> usize {
        let trailers = self.trailers.as_ref().map_or(0, Vec::capacity);
        self.raw.capacity() + self.body.capacity() + trailers
    }

    /// Takes bytes of the request, in the framing of HTTP/1.1. Its head is appended to `out`; content waits for
    /// [`Passage::fill`].
    ///
    /// # Errors
    /// The connection takes no request.
    pub(crate) fn send(
        &mut self,
        bytes: &[u8],
        is_secured: bool,
        http: &mut Connection,
        out: &mut Vec<u8>,
    ) -> Result<(), Over> {
        let mut raw = std::mem::take(&mut self.raw);
        raw.extend_from_slice(bytes);
        let mut used = 0;
        loop {
            let mut slots = Slots::new();
            match self.request.receive(&raw[used..], &mut slots, &OWN) {
                Ok(Step::Request { head, used: more }) => {
                    used += more;
                    let end = head.framing == Framing::Empty;
                    self.is_to_head = head.method_name == "HEAD";
                    let mut lines = Vec::new();
                    let scheme: &[u8] = if is_secured { b"https" } else { b"http" };
                    for (name, value) in [
                        (":method", head.method_name.as_bytes()),
                        (":scheme", scheme),
                        (":authority", head.authority().unwrap_or_default()),
                        (":path", head.target_raw),
                    ] {
                        block::field(name.as_bytes(), value, &mut lines);
                    }
                    write_fields(&head.fields, &mut lines);
                    // The exchange passes trailers on, and servers of gRPC insist on this.
                    block::field(b"te", b"trailers", &mut lines);
                    let stream = http.request(&lines, end, self.is_to_head, IN_TURN, out);
                    self.stream = Some(stream.map_err(|_| Over::Unprocessed)?);
                    if end {
                        break;
                    }
                }
                Ok(Step::Body { data, used: more }) => {
                    used += more;
                    // A stream that was reset takes nothing more, which its event says.
                    if self
                        .stream
                        .is_some_and(|stream| http.ready(stream, data.len() as u64).is_ok())
                    {
                        self.body.extend_from_slice(data);
                    }
                }
                Ok(Step::End { used: more, trailers }) => {
                    used += more;
                    let mut lines = Vec::new();
                    write_fields(&trailers, &mut lines);
                    if lines.is_empty()
                        && let Some(stream) = self.stream
                    {
                        let _ = http.finish(stream);
                    } else {
                        self.trailers = Some(lines);
                    }
                    break;
                }
                Ok(Step::Partial { used: more }) => {
                    used += more;
                    break;
                }
                Ok(Step::Paused | Step::Closed) => break,
                // The exchange writes no such bytes.
                Err(_) => return Err(Over::Given),
            }
        }
        self.raw.extend_from_slice(&raw[used..]);
        Ok(())
    }

    /// Appends this much of the content: the header of its frame was written.
    pub(crate) fn fill(&mut self, bytes: usize, out: &mut Vec<u8>) {
        out.extend(self.body.drain(..bytes));
    }

    /// Sends the trailer section, if it is due.
    pub(crate) fn finish(&mut self, http: &mut Connection, out: &mut Vec<u8>) {
        if self.body.is_empty()
            && let (Some(stream), Some(lines)) = (self.stream, self.trailers.take())
        {
            let _ = http.trailers(stream, &lines, out);
        }
    }

    /// The stream that an event concerns.
    pub(crate) fn stream_of(event: &Event<'_>) -> Option<u32> {
        match event {
            Event::Response { stream, .. }
            | Event::Body { stream, .. }
            | Event::Trailers { stream, .. }
            | Event::End { stream }
            | Event::Reset { stream, .. } => Some(*stream),
            _ => None,
        }
    }

    /// Takes what came over the stream. The response is appended to `plain` in the framing of HTTP/1.1.
    ///
    /// # Errors
    /// Why there is no more of the response. What was appended to `plain` came before.
    pub(crate) fn take(&mut self, event: &Event<'_>, plain: &mut Vec<u8>) -> Result<(), Over> {
        if self.is_whole() || Passage::stream_of(event) != self.stream {
            return Ok(());
        }
        match event {
            Event::Response {
                end, status, fields, ..
            } => {
                self.answer = match write_head(*status, fields, *end, self.is_to_head, plain) {
                    // It has no meaning in HTTP/2 (RFC 9113 section 8.6).
                    Ok(_) if *status == 101 => return Err(Over::Given),
                    Ok(_) if *status < 200 => Answer::Awaited,
                    Ok(_) if *end => Answer::Whole,
                    Ok(answer) => answer,
                    Err(_) => return Err(Over::Given),
                };
            }
            Event::Body { bytes, .. } => match self.answer {
                Answer::Chunked => {
                    // Writing to a vector cannot fail.
                    let _ = write!(plain, "{:x}\r\n", bytes.len());
                    plain.extend_from_slice(bytes);
                    plain.extend_from_slice(b"\r\n");
                }
                _ => plain.extend_from_slice(bytes),
            },
            Event::Trailers { fields, .. } => {
                if self.answer == Answer::Chunked {
                    plain.extend_from_slice(b"0\r\n");
                    for (name, value) in fields.iter().filter(|(name, _)| !name.starts_with(b":")) {
                        let Ok(name) = std::str::from_utf8(name) else {
                            continue;
                        };
                        let start = plain.len();
                        if response::field(plain, name, value).is_err() {
                            plain.truncate(start);
                        }
                    }
                    plain.extend_from_slice(b"\r\n");
                }
                self.answer = Answer::Whole;
            }
            Event::End { .. } => {
                if self.answer == Answer::Chunked {
                    plain.extend_from_slice(b"0\r\n\r\n");
                }
                self.answer = Answer::Whole;
            }
            Event::Reset { code, .. } => {
                let is_unprocessed = *code == Code::REFUSED_STREAM && self.answer == Answer::Awaited;
                return Err(if is_unprocessed {
                    Over::Unprocessed
                } else {
                    Over::Given
                });
            }
            _ => {}
        }
        Ok(())
    }
}

/// What HTTP/2 connections to an upstream have done, over all event loops.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Requests at a time that the upstream permitted last. A new connection carries no more before the upstream says.
    permitted: AtomicU32,
    streams: AtomicU64,
    reused: AtomicU64,
    goaway: AtomicU64,
    refused: AtomicU64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            permitted: AtomicU32::new(u32::MAX),
            streams: AtomicU64::default(),
            reused: AtomicU64::default(),
            goaway: AtomicU64::default(),
            refused: AtomicU64::default(),
        }
    }
}

impl Tally {
    /// Requests at a time that the upstream permitted on another connection.
    pub(crate) fn permitted(&self) -> u32 {
        self.permitted.load(Ordering::Relaxed)
    }

    /// The upstream permits so many requests at a time.
    pub(crate) fn permits(&self, streams: u32) {
        if self.permitted() != streams {
            self.permitted.store(streams, Ordering::Relaxed);
        }
    }

    /// A request was sent.
    pub(crate) fn stream(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// A request found an open connection.
    pub(crate) fn reused(&self) {
        self.reused.fetch_add(1, Ordering::Relaxed);
    }

    /// The upstream announced that a connection takes no more requests.
    pub(crate) fn goaway(&self) {
        self.goaway.fetch_add(1, Ordering::Relaxed);
    }

    /// A request was not processed.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests sent, those on a connection that was open, GOAWAY frames, and requests not processed.
    pub(crate) fn counts(&self) -> [u64; 4] {
        [&self.streams, &self.reused, &self.goaway, &self.refused].map(|count| count.load(Ordering::Relaxed))
    }
}

/// HTTP/2 on a connection that carries one request at a time.
#[derive(Debug)]
pub(crate) struct Translator {
    http: Connection,
    /// Frames that are not complete.
    input: Vec<u8>,
    passage: Passage,
    /// The upstream takes no more requests on this connection.
    leaves: bool,
    /// When it was last used.
    used: Instant,
    tally: Arc<Tally>,
}

impl Translator {
    /// Begins a connection: appends the preface to `out`.
    pub(crate) fn new(tally: &Arc<Tally>, now: Instant, out: &mut Vec<u8>) -> Translator {
        Translator {
            http: Connection::new(Arc::clone(&LIMITS), now, out),
            input: Vec::new(),
            passage: Passage::default(),
            leaves: false,
            used: now,
            tally: Arc::clone(tally),
        }
    }

    /// For a connection that is shared: the protocol, and frames that are not complete. No request was sent on it.
    pub(crate) fn into_parts(self) -> (Connection, Vec<u8>, Arc<Tally>) {
        (self.http, self.input, self.tally)
    }

    /// Bytes of the request's content that wait for the upstream's windows. Trailers wait only behind content.
    pub(crate) fn blocked(&self) -> usize {
        self.passage.blocked()
    }

    /// Whether the connection can serve another request.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_between = self.passage.is_whole() && self.input.is_empty() && self.passage.blocked() == 0;
        is_between && self.takes_requests()
    }

    /// Whether the response to the last request is complete.
    pub(crate) fn has_whole_response(&self) -> bool {
        self.passage.is_whole()
    }

    /// Whether the upstream takes another request on this connection.
    pub(crate) fn takes_requests(&self) -> bool {
        !self.leaves && self.http.has_room()
    }

    /// The exchange is over; another may follow.
    pub(crate) fn rest(&mut self) {
        self.passage = Passage::default();
        self.http.trim(self.used);
    }

    /// Bytes of memory held.
    pub(crate) fn held(&self) -> usize {
        self.http.memory() + self.input.capacity() + self.passage.held()
    }

    /// Takes bytes of the request, in the framing of HTTP/1.1. Frames are appended to `out`.
    ///
    /// # Errors
    /// The connection takes no request.
    pub(crate) fn send(
        &mut self,
        bytes: &[u8],
        is_secured: bool,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<(), Over> {
        let is_new = self.passage.stream().is_none();
        let sent = self.passage.send(bytes, is_secured, &mut self.http, out);
        if is_new && self.passage.stream().is_some() {
            self.tally.stream();
        }
        if sent == Err(Over::Unprocessed) {
            self.tally.refused();
        }
        sent?;
        self.pump(now, out);
        Ok(())
    }

    /// Sends what the windows permit.
    fn pump(&mut self, now: Instant, out: &mut Vec<u8>) {
        self.used = now;
        while let Some(piece) = self.http.next(ROOM, now, out) {
            self.passage.fill(piece.bytes, out);
        }
        self.passage.finish(&mut self.http, out);
    }

    /// Takes bytes of the upstream. The response is appended to `plain` in the framing of HTTP/1.1, frames for the upstream to
    /// `out`.
    ///
    /// # Errors
    /// Why there is no more of the response. What was appended to `plain` came before.
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        now: Instant,
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), Over> {
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let mut used = 0;
        let mut over = Ok(());
        while over.is_ok() {
            let received = self.http.receive(&input[used..], now, out);
            used += received.used;
            over = self.passage.take(&received.event, plain);
            match received.event {
                Event::Partial => break,
                Event::Body { stream, bytes } => {
                    let taken = bytes.len() as u32;
                    // The exchange reads only while the client has taken everything.
                    self.http.consumed(stream, taken, out);
                }
                Event::GoAway { .. } => {
                    self.tally.goaway();
                    self.leaves = true;
                }
                Event::Closed(_) => over = Err(Over::Given),
                _ => {}
            }
        }
        self.leaves |= over.is_err();
        if over == Err(Over::Unprocessed) {
            self.tally.refused();
        }
        self.input.extend_from_slice(&input[used..]);
        self.pump(now, out);
        over
    }
}

/// Appends the fields that both versions have.
fn write_fields(fields: &Fields<'_, '_>, lines: &mut Vec<u8>) {
    for (name, value) in fields.iter() {
        let name = name.to_ascii_lowercase();
        if OF_HTTP1.contains(&name.as_str()) {
            continue;
        }
        match name.as_str() {
            "authorization" | "cookie" => block::sensitive(name.as_bytes(), value, lines),
            _ => block::field(name.as_bytes(), value, lines),
        }
    }
}

/// Appends the head of a response. Returns how its content follows.
fn write_head(
    status: u16,
    fields: &hpack::Fields,
    end: bool,
    is_to_head: bool,
    plain: &mut Vec<u8>,
) -> Result<Answer, http1::Misuse> {
    plain.extend_from_slice(format!("HTTP/1.1 {status} \r\n").as_bytes());
    let mut has_length = false;
    for (name, value) in fields.iter().filter(|(name, _)| !name.starts_with(b":")) {
        let name = std::str::from_utf8(name).map_err(|_| http1::Misuse::Unwritable)?;
        if OF_HTTP1.contains(&name) {
            return Err(http1::Misuse::Unwritable);
        }
        has_length |= name == "content-length";
        response::field(plain, name, value)?;
    }
    let has_content = status >= 200 && !matches!(status, 204 | 304) && !is_to_head;
    let answer = match (has_length, end) {
        (false, false) if has_content => {
            plain.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            Answer::Chunked
        }
        (false, true) if has_content => {
            plain.extend_from_slice(b"Content-Length: 0\r\n");
            Answer::Length
        }
        _ => Answer::Length,
    };
    response::end(plain);
    Ok(answer)
}

#[cfg(test)]
mod tests;
