//! FastCGI to an upstream: what a request of HTTP/1.1 is in records, and what came in records is in HTTP/1.1.
//!
//! ```text
//!   Forward ── request of HTTP/1.1 ──▶ Translator ── PARAMS, STDIN ─────────────────▶ upstream
//!   Forward ◀── response of HTTP/1.1 ── Translator ◀── STDOUT, STDERR, END_REQUEST ── upstream
//! ```
//! An exchange is the same for every upstream, as for HTTP/2. Field lines become parameters here; `scripts` has all others.
//! Decides how heads correspond (RFC 3875 sections 4 and 6), and when a response is whole: with the end of the request, not of
//! its output, so that a response that was cut is never taken for complete.

use super::http2::{OWN, Over};
use super::scripts::Call;
use crate::own_fields::{HOP_BY_HOP, is_among};
use fastcgi::decode::End;
use fastcgi::{Decoder, Event, Fault, encode, head, params};
use http_semantics::field::Fields;
use http1::framing::Framing;
use http1::server::Step;
use http1::slots::Slots;
use http1::{response, server};
use std::io::Write as _;
use std::sync::Arc;

/// Most content of a request without a length, which is collected: applications are told the length first.
pub(crate) const UNKNOWN_LENGTH_MAX: usize = 1 << 20;

/// Error messages of one request that reach the log, in bytes. More are counted.
const ERRORS_MAX: usize = 4 << 10;

/// How far the response got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Answer {
    /// Its head has not arrived.
    #[default]
    Awaited,
    /// It has no content. Its head waits for the end of the request, so that the connection is free with it.
    Empty,
    /// Its content comes in a framing of its length.
    Length,
    /// Its content comes in chunks.
    Chunked,
    /// It is complete.
    Whole,
}

/// FastCGI on a connection.
#[derive(Debug, Default)]
pub(crate) struct Translator {
    call: Option<Arc<Call>>,
    /// Reads the request as the exchange writes it.
    request: server::Connection,
    /// Bytes of it that are not decoded.
    raw: Vec<u8>,
    is_to_head: bool,
    /// The parameters and the content of a request without a length.
    collected: Option<(Vec<u8>, Vec<u8>)>,
    decoder: Decoder,
    answer: Answer,
    /// Output that is not yet a whole head; later the head of a response without content.
    head: Vec<u8>,
    errors: Vec<u8>,
    /// Bytes of error messages beyond the bound.
    unlogged: u64,
}

impl Translator {
    /// The next request has these parameters.
    pub(crate) fn begin(&mut self, call: &Arc<Call>) {
        self.rest();
        self.call = Some(Arc::clone(call));
    }

    /// The exchange is over; another may follow.
    pub(crate) fn rest(&mut self) {
        *self = Translator::default();
    }

    /// Whether the connection can serve another request.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.answer == Answer::Whole && self.decoder.is_at_rest()
    }

    /// Bytes of memory held.
    pub(crate) fn held(&self) -> usize {
        let collected = self.collected.as_ref();
        let collected = collected.map_or(0, |(pairs, body)| pairs.capacity() + body.capacity());
        let buffers = [&self.raw, &self.head, &self.errors].map(Vec::capacity);
        size_of::<Translator>() + collected + buffers.iter().sum::<usize>()
    }

    /// Error messages of the application since the last call, in one text; `None`: there are none. While the request is under way,
    /// `is_over` is false, and messages are collected up to their bound.
    pub(crate) fn take_errors(&mut self, is_over: bool) -> Option<String> {
        if self.errors.is_empty() || !(is_over || self.answer == Answer::Whole) {
            return None;
        }
        let text = self.errors.trim_ascii().escape_ascii().to_string();
        self.errors = Vec::new();
        Some(match std::mem::take(&mut self.unlogged) {
            0 => text,
            more => format!("{text} ... ({more} bytes more)"),
        })
    }

    /// Takes bytes of the request, in the framing of HTTP/1.1. Records are appended to `out`.
    ///
    /// # Errors
    /// The request has no length and is too large to be collected.
    pub(crate) fn send(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Over> {
        let mut raw = std::mem::take(&mut self.raw);
        raw.extend_from_slice(bytes);
        let mut used = 0;
        loop {
            let mut slots = Slots::new();
            match self.request.receive(&raw[used..], &mut slots, &OWN) {
                Ok(Step::Request { head, used: more }) => {
                    used += more;
                    let Some(call) = &self.call else {
                        return Err(Over::Given);
                    };
                    self.is_to_head = head.method_name == "HEAD";
                    let mut pairs = call.pairs.clone();
                    let target = head.target_raw;
                    let query = target.iter().position(|&b| b == b'?');
                    let query = query.map_or(&b""[..], |at| &target[at + 1..]);
                    params::pair(&mut pairs, b"REQUEST_METHOD", head.method_name.as_bytes());
                    params::pair(&mut pairs, b"REQUEST_URI", target);
                    params::pair(&mut pairs, b"QUERY_STRING", query);
                    fields(&head.fields, &mut pairs);
                    encode::begin(out, call.keeps);
                    match head.framing {
                        Framing::Chunked | Framing::UntilClose => self.collected = Some((pairs, Vec::new())),
                        Framing::Length(_) => encode::params(out, &pairs),
                        Framing::Empty => {
                            encode::params(out, &pairs);
                            encode::end_stdin(out);
                            break;
                        }
                    }
                }
                Ok(Step::Body { data, used: more }) => {
                    used += more;
                    match &mut self.collected {
                        None => encode::stdin(out, data),
                        Some((_, body)) if body.len() + data.len() > UNKNOWN_LENGTH_MAX => {
                            return Err(Over::NoLength);
                        }
                        Some((_, body)) => body.extend_from_slice(data),
                    }
                }
                Ok(Step::End { used: more, .. }) => {
                    used += more;
                    if let Some((mut pairs, body)) = self.collected.take() {
                        let length = body.len().to_string();
                        params::pair(&mut pairs, b"CONTENT_LENGTH", length.as_bytes());
                        encode::params(out, &pairs);
                        encode::stdin(out, &body);
                    }
                    encode::end_stdin(out);
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

    /// Takes bytes of the upstream. The response is appended to `plain` in the framing of HTTP/1.1.
    ///
    /// # Errors
    /// Why there is no more of the response. What was appended to `plain` came before.
    pub(crate) fn receive(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), Over> {
        let mut used = 0;
        while used < bytes.len() {
            let (more, event) = self.decoder.receive(&bytes[used..]).map_err(Over::Malformed)?;
            used += more;
            match event {
                Some(Event::Output(output)) => self.output(output, plain)?,
                Some(Event::Error(message)) => {
                    let room = ERRORS_MAX - self.errors.len();
                    let (kept, more) = message.split_at(message.len().min(room));
                    self.errors.extend_from_slice(kept);
                    self.unlogged += more.len() as u64;
                }
                Some(Event::End(end)) => self.end(end, plain)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Output of the application: the head, then content.
    fn output(&mut self, output: &[u8], plain: &mut Vec<u8>) -> Result<(), Over> {
        if self.answer != Answer::Awaited {
            self.content(output, plain);
            return Ok(());
        }
        let known = self.head.len();
        self.head.extend_from_slice(output);
        let Some(end) = head::end(&self.head, known).filter(|end| *end <= head::HEAD_MAX) else {
            return match self.head.len() > head::HEAD_MAX {
                true => Err(Over::Malformed(Fault::LongHead)),
                false => Ok(()),
            };
        };
        let all = std::mem::take(&mut self.head);
        let parsed = head::parse(&all[..end]).map_err(Over::Malformed)?;
        let mut written = Vec::with_capacity(end + 64);
        self.answer = write_head(&parsed, self.is_to_head, &mut written)?;
        match self.answer {
            Answer::Empty => self.head = written,
            _ => plain.append(&mut written),
        }
        self.content(&all[end..], plain);
        Ok(())
    }

    fn content(&self, content: &[u8], plain: &mut Vec<u8>) {
        match self.answer {
            _ if content.is_empty() => {}
            Answer::Chunked => {
                // Writing to a vector cannot fail.
                let _ = write!(plain, "{:x}\r\n", content.len());
                plain.extend_from_slice(content);
                plain.extend_from_slice(b"\r\n");
            }
            Answer::Length => plain.extend_from_slice(content),
            // A response to HEAD, or with a status that permits no content, has none (RFC 3875 section 6.4).
            Answer::Awaited | Answer::Empty | Answer::Whole => {}
        }
    }

    /// The application has ended the request.
    fn end(&mut self, end: End, plain: &mut Vec<u8>) -> Result<(), Over> {
        match (end, self.answer) {
            (End::Refused, Answer::Awaited) if self.head.is_empty() => return Err(Over::Unprocessed),
            (End::Refused | End::Unknown(_), _) => return Err(Over::Given),
            (End::Complete, Answer::Awaited) if self.head.is_empty() => return Err(Over::Given),
            (End::Complete, Answer::Awaited) => return Err(Over::Malformed(Fault::NoHead)),
            (End::Complete, Answer::Empty) => plain.append(&mut self.head),
            (End::Complete, Answer::Chunked) => plain.extend_from_slice(b"0\r\n\r\n"),
            (End::Complete, Answer::Length | Answer::Whole) => {}
        }
        let has_length = self.answer == Answer::Length;
        self.answer = Answer::Whole;
        // If content is missing, nothing brings it. If none is, the exchange has ended and does not hear this.
        if has_length { Err(Over::Given) } else { Ok(()) }
    }
}

/// Appends the parameters of field lines. Lines of one name are one parameter (RFC 3875 section 4.1.18).
fn fields(fields: &Fields<'_, '_>, pairs: &mut Vec<u8>) {
    let mut variables: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, value) in fields.iter() {
        if name.eq_ignore_ascii_case("content-type") {
            params::pair(pairs, b"CONTENT_TYPE", value);
            continue;
        }
        if name.eq_ignore_ascii_case("content-length") {
            params::pair(pairs, b"CONTENT_LENGTH", value);
            continue;
        }
        // What the connection between this server and the application has, the records say.
        if is_among(name, &HOP_BY_HOP) {
            continue;
        }
        let Some(variable) = params::variable(name) else {
            continue;
        };
        match variables.iter_mut().find(|(known, _)| *known == variable) {
            Some((_, all)) => {
                all.extend_from_slice(if variable == "HTTP_COOKIE" { b"; " } else { b", " });
                all.extend_from_slice(value);
            }
            None => variables.push((variable, value.to_vec())),
        }
    }
    for (name, value) in variables {
        params::pair(pairs, name.as_bytes(), &value);
    }
}

/// Appends the head of a response. Returns how its content follows.
fn write_head(head: &head::Head<'_>, is_to_head: bool, plain: &mut Vec<u8>) -> Result<Answer, Over> {
    let field = |plain: &mut Vec<u8>, name: &str, value: &[u8]| {
        response::field(plain, name, value).map_err(|_| Over::Malformed(Fault::Field))
    };
    plain.extend_from_slice(format!("HTTP/1.1 {} \r\n", head.status).as_bytes());
    let has_content = !matches!(head.status, 204 | 304) && !is_to_head;
    let mut has_length = false;
    for (name, value) in &head.fields {
        if name.eq_ignore_ascii_case("content-length") {
            // It has no meaning with 204 (RFC 9110 section 8.6).
            if head.status != 204 {
                has_length = true;
                field(plain, name, value)?;
            }
        } else if !is_among(name, &HOP_BY_HOP) {
            field(plain, name, value)?;
        }
    }
    let answer = match (has_content, has_length) {
        (false, _) => Answer::Empty,
        (true, true) => Answer::Length,
        (true, false) => {
            plain.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            Answer::Chunked
        }
    };
    response::end(plain);
    Ok(answer)
}

#[cfg(test)]
mod tests;
