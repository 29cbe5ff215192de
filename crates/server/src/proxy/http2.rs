//! HTTP/2 to an upstream, over a connection that carries one request at a time.
//!
//! ```text
//!   Forward ── request of HTTP/1.1 ──▶ Translator ── HEADERS, DATA ──▶ upstream
//!   Forward ◀── response of HTTP/1.1 ── Translator ◀── HEADERS, DATA ── upstream
//! ```
//! An exchange is the same for every upstream: heads that were parsed and written anew, in the framing of HTTP/1.1. The
//! translator reads that framing and writes frames, and the other way round. Decides how heads and trailers correspond
//! (RFC 9113 section 8). Bytes that the upstream's windows do not permit wait here; there are never more than one portion of
//! the exchange's, because the next one follows when they are gone.

use http_semantics::field::Fields;
use http1::framing::Framing;
use http1::server::Step;
use http1::slots::Slots;
use http1::{response, server};
use http2::client::{Connection, Event};
use http2::hpack::{self, block};
use http2::priority::Priority;
use http2::{Code, Limits};
use std::io::Write as _;
use std::sync::{Arc, LazyLock};
use units::Instant;

/// Limits on what upstreams send. Their heads may be as large as those of HTTP/1.1.
static LIMITS: LazyLock<Arc<Limits>> = LazyLock::new(|| {
    Arc::new(Limits {
        list_bytes_max: 64 << 10,
        block_bytes_max: 64 << 10,
        ..Limits::DEFAULT
    })
});

/// Limits on requests as the exchange writes them: those of the client were checked.
const OWN: http1::Limits = http1::Limits {
    head_bytes_max: 1 << 20,
    target_bytes_max: 1 << 20,
    trailer_bytes_max: 1 << 20,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Its head has not arrived.
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
}

/// HTTP/2 on one connection to an upstream.
#[derive(Debug)]
pub(crate) struct Translator {
    http: Connection,
    /// Frames that are not complete.
    input: Vec<u8>,
    /// Reads the request as the exchange writes it.
    request: server::Connection,
    /// Bytes of it that are not decoded.
    raw: Vec<u8>,
    stream: Option<u32>,
    is_to_head: bool,
    /// Content for the upstream.
    body: Vec<u8>,
    /// Field block of the trailer section; empty: there is none. It follows the content.
    trailers: Option<Vec<u8>>,
    answer: Answer,
    /// The upstream takes no more requests on this connection.
    leaves: bool,
    /// When it was last used.
    used: Instant,
}

impl Translator {
    /// Begins a connection: appends the preface to `out`.
    pub(crate) fn new(now: Instant, out: &mut Vec<u8>) -> Translator {
        Translator {
            http: Connection::new(Arc::clone(&LIMITS), now, out),
            input: Vec::new(),
            request: server::Connection::new(),
            raw: Vec::new(),
            stream: None,
            is_to_head: false,
            body: Vec::new(),
            trailers: None,
            answer: Answer::Awaited,
            leaves: false,
            used: now,
        }
    }

    /// Bytes of the request's content that wait for the upstream's windows. Trailers wait only behind content.
    pub(crate) fn blocked(&self) -> usize {
        self.body.len()
    }

    /// Whether the connection can serve another request.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_between = self.answer == Answer::Whole && self.input.is_empty() && self.body.is_empty();
        is_between && !self.leaves && self.http.has_room()
    }

    /// The exchange is over; another may follow.
    pub(crate) fn rest(&mut self) {
        self.is_to_head = false;
        self.request = server::Connection::new();
        self.raw = Vec::new();
        self.stream = None;
        self.answer = Answer::Awaited;
        self.http.trim(self.used);
    }

    /// Bytes of memory held.
    pub(crate) fn held(&self) -> usize {
        let trailers = self.trailers.as_ref().map_or(0, Vec::capacity);
        let buffers = self.input.capacity() + self.raw.capacity() + self.body.capacity();
        self.http.memory() + buffers + trailers
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
                    let stream = self
                        .http
                        .request(&lines, end, self.is_to_head, Priority::DEFAULT, out);
                    self.stream = Some(stream.map_err(|_| Over::Unprocessed)?);
                    if end {
                        break;
                    }
                }
                Ok(Step::Body { data, used: more }) => {
                    used += more;
                    self.body.extend_from_slice(data);
                    if let Some(stream) = self.stream {
                        // A stream that was reset takes nothing more, which its event says.
                        let _ = self.http.ready(stream, data.len() as u64);
                    }
                }
                Ok(Step::End { used: more, trailers }) => {
                    used += more;
                    let mut lines = Vec::new();
                    write_fields(&trailers, &mut lines);
                    if lines.is_empty()
                        && let Some(stream) = self.stream
                    {
                        let _ = self.http.finish(stream);
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
        self.pump(now, out);
        Ok(())
    }

    /// Sends what the windows permit.
    fn pump(&mut self, now: Instant, out: &mut Vec<u8>) {
        self.used = now;
        while let Some(piece) = self.http.next(ROOM, now, out) {
            out.extend(self.body.drain(..piece.bytes));
        }
        if self.body.is_empty()
            && let (Some(stream), Some(lines)) = (self.stream, self.trailers.take())
        {
            let _ = self.http.trailers(stream, &lines, out);
        }
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
            let its = |stream: u32| self.stream == Some(stream) && self.answer != Answer::Whole;
            match received.event {
                Event::Partial => break,
                Event::Response {
                    stream,
                    end,
                    status,
                    fields,
                } if its(stream) => {
                    self.answer = match write_head(status, fields, end, self.is_to_head, plain) {
                        // It has no meaning in HTTP/2 (RFC 9113 section 8.6).
                        Ok(_) if status == 101 => {
                            over = Err(Over::Given);
                            break;
                        }
                        Ok(_) if status < 200 => Answer::Awaited,
                        Ok(_) if end => Answer::Whole,
                        Ok(answer) => answer,
                        Err(_) => {
                            over = Err(Over::Given);
                            break;
                        }
                    };
                }
                Event::Body { stream, bytes } => {
                    if its(stream) {
                        match self.answer {
                            Answer::Chunked => {
                                // Writing to a vector cannot fail.
                                let _ = write!(plain, "{:x}\r\n", bytes.len());
                                plain.extend_from_slice(bytes);
                                plain.extend_from_slice(b"\r\n");
                            }
                            _ => plain.extend_from_slice(bytes),
                        }
                    }
                    let taken = bytes.len() as u32;
                    // The exchange reads only while the client has taken everything.
                    self.http.consumed(stream, taken, out);
                }
                Event::Trailers { stream, fields } if its(stream) => {
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
                Event::End { stream } if its(stream) => {
                    if self.answer == Answer::Chunked {
                        plain.extend_from_slice(b"0\r\n\r\n");
                    }
                    self.answer = Answer::Whole;
                }
                Event::Reset { stream, code } if its(stream) => {
                    self.leaves = true;
                    let is_unprocessed = code == Code::REFUSED_STREAM && self.answer == Answer::Awaited;
                    over = Err(if is_unprocessed {
                        Over::Unprocessed
                    } else {
                        Over::Given
                    });
                }
                Event::GoAway { .. } => self.leaves = true,
                Event::Closed(_) => {
                    self.leaves = true;
                    over = Err(Over::Given);
                }
                _ => {}
            }
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
