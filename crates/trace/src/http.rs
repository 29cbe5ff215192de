//! HTTP/1.x as observed on the wire: start, end and first line of each message.
//!
//! An incremental tokenizer over in-order stream bytes. It reads first lines and the four fields that decide a body's
//! length, and counts all other bytes. It observes only; `http1` checks strictly. Bytes that the capture lacks are
//! announced as gaps. Inside a body of known length they do no harm; elsewhere the tokenizer is lost until a segment
//! starts with a message.

use crate::transaction::TARGET_MAX;
use memchr::memchr;
use serde::Serialize;

/// Limit on the bytes of a field line that are parsed; the rest of a longer line is skipped.
const LINE_MAX: usize = 1024;

/// Kind of messages that a tokenizer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Requests,
    Responses,
}

/// What the request means for the framing of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Head,
    Connect,
    Other,
}

/// Output of the tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// The header of a request is complete.
    Request {
        method: String,
        target: String,
        header_bytes: u64,
    },
    /// The header of a response is complete. Includes interim (1xx) responses.
    Response { status: u16, header_bytes: u64 },
    /// The message is complete.
    End { body_bytes: u64 },
    /// The stream is not HTTP/1.x, or no longer.
    NotHttp,
    /// Bytes are missing where they matter; open messages stay incomplete.
    Lost,
}

/// ```text
///  First --line--> Fields --empty line--> Length(n) ---n bytes---+
///    ^  \                            \--> Chunk* ---last chunk---+--> End, First
///    |   \--no HTTP--> Opaque         \-> UntilClose --close-----+
///    +--message at a segment's start-- Lost <--gap--
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    First,
    Fields,
    Length(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailer,
    UntilClose,
    Opaque,
    Lost,
}

/// One direction's tokenizer.
#[derive(Debug)]
pub(crate) struct Tokenizer {
    role: Role,
    state: State,
    /// A partial line.
    line: Vec<u8>,
    header_bytes: u64,
    body_bytes: u64,
    fields: Fields,
    first: FirstLine,
}

#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    length: Option<u64>,
    chunked: bool,
}

#[derive(Clone, Debug, Default)]
enum FirstLine {
    #[default]
    None,
    Request(String, String),
    Status(u16),
}

/// Guess about a stream from its first non-empty line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Guess {
    Request,
    Response,
    Neither,
}

/// Guesses from the first bytes of a segment.
pub(crate) fn guess(bytes: &[u8]) -> Guess {
    if bytes.starts_with(b"HTTP/1.") {
        return Guess::Response;
    }
    let line = &bytes[..memchr(b'\n', bytes).unwrap_or(bytes.len()).min(LINE_MAX)];
    let method = memchr(b' ', line).unwrap_or(line.len());
    if bytes.starts_with(http2::frame::PREFACE) || crate::tls::is_hello(bytes) {
        return Guess::Request;
    }
    // Methods in use have three (GET) to 16 letters. A part of HTTP/2's preface looks alike.
    let is_method = (3..=16).contains(&method)
        && line[..method]
            .iter()
            .all(|b| b.is_ascii_uppercase() || *b == b'-');
    let has_version = bytes.len() == line.len() || line.windows(7).any(|w| w == b"HTTP/1.");
    if is_method && has_version {
        Guess::Request
    } else {
        Guess::Neither
    }
}

impl Tokenizer {
    /// A tokenizer at the start of a stream, or with `midstream` anywhere inside.
    pub(crate) fn new(role: Role, midstream: bool) -> Tokenizer {
        Tokenizer {
            role,
            state: if midstream { State::Lost } else { State::First },
            line: Vec::new(),
            header_bytes: 0,
            body_bytes: 0,
            fields: Fields::default(),
            first: FirstLine::None,
        }
    }

    /// Whether no further byte will be parsed.
    #[inline]
    pub(crate) fn is_opaque(&self) -> bool {
        self.state == State::Opaque
    }

    /// Whether it waits for a segment that starts with a message.
    pub(crate) fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    /// Whether it is inside what looks like a message's head.
    pub(crate) fn is_in_head(&self) -> bool {
        match self.state {
            State::Fields => true,
            State::First => {
                let wanted = match self.role {
                    Role::Requests => Guess::Request,
                    Role::Responses => Guess::Response,
                };
                !self.line.is_empty() && guess(&self.line) == wanted
            }
            _ => false,
        }
    }

    /// Whether it is between messages.
    pub(crate) fn is_between(&self) -> bool {
        self.state == State::First && self.line.is_empty()
    }

    /// Reads in-order bytes from a segment's start. `asked` gives the request of the next response.
    pub(crate) fn bytes(&mut self, mut input: &[u8], mut asked: impl FnMut() -> Asked, out: &mut Vec<Token>) {
        if self.state == State::Lost {
            let wanted = match self.role {
                Role::Requests => Guess::Request,
                Role::Responses => Guess::Response,
            };
            if guess(input) != wanted {
                return;
            }
            self.restart();
        }
        while !input.is_empty() {
            match self.state {
                State::Opaque | State::Lost => return,
                State::UntilClose => {
                    self.body_bytes += input.len() as u64;
                    return;
                }
                State::Length(left) | State::ChunkData(left) => {
                    let n = left.min(input.len() as u64);
                    self.body_bytes += n;
                    input = &input[n as usize..];
                    self.consumed(left - n, out);
                }
                _ => {
                    let Some(end) = memchr(b'\n', input) else {
                        self.keep(input, out);
                        return;
                    };
                    let (line, rest) = input.split_at(end + 1);
                    input = rest;
                    if self.line.is_empty() {
                        self.line(line, line.len(), &mut asked, out);
                    } else {
                        let mut whole = core::mem::take(&mut self.line);
                        let room = LINE_MAX.saturating_sub(whole.len()).min(line.len());
                        whole.extend_from_slice(&line[..room]);
                        self.line(&whole, line.len(), &mut asked, out);
                    }
                }
            }
        }
    }

    /// Skips `n` bytes that were not captured.
    pub(crate) fn gap(&mut self, n: u64, out: &mut Vec<Token>) {
        match self.state {
            State::UntilClose => self.body_bytes += n,
            State::Opaque | State::Lost => {}
            State::Length(left) | State::ChunkData(left) if n <= left => {
                self.body_bytes += n;
                self.consumed(left - n, out);
            }
            _ => self.lose(out),
        }
    }

    /// The position in the stream is unknown from here on.
    pub(crate) fn lose(&mut self, out: &mut Vec<Token>) {
        if !matches!(self.state, State::Opaque | State::Lost) {
            self.state = State::Lost;
            self.line = Vec::new();
            out.push(Token::Lost);
        }
    }

    /// Ends the stream: the sender closed its side.
    pub(crate) fn close(&mut self, out: &mut Vec<Token>) {
        if self.state == State::UntilClose {
            self.end(out);
        }
        self.state = State::Opaque;
    }

    fn restart(&mut self) {
        self.state = State::First;
        self.line.clear();
        self.header_bytes = 0;
        self.body_bytes = 0;
    }

    fn consumed(&mut self, left: u64, out: &mut Vec<Token>) {
        match (self.state, left) {
            (State::Length(_), 0) => self.end(out),
            (State::Length(_), left) => self.state = State::Length(left),
            (_, 0) => self.state = State::ChunkEnd,
            (_, left) => self.state = State::ChunkData(left),
        }
    }

    fn end(&mut self, out: &mut Vec<Token>) {
        out.push(Token::End {
            body_bytes: self.body_bytes,
        });
        self.restart();
    }

    /// Keeps the start of a line that continues in the next segment.
    fn keep(&mut self, part: &[u8], out: &mut Vec<Token>) {
        if matches!(self.state, State::First | State::Fields | State::Trailer) {
            self.header_bytes += part.len() as u64;
        }
        let room = LINE_MAX.saturating_sub(self.line.len()).min(part.len());
        self.line.extend_from_slice(&part[..room]);
        if self.state == State::First && self.header_bytes < 16 && self.hopeless() {
            self.opaque(out);
        }
    }

    /// Whether the stored start of the first line cannot become an HTTP message.
    fn hopeless(&self) -> bool {
        match self.role {
            Role::Responses => {
                let n = self.line.len().min(7);
                self.line[..n] != b"HTTP/1."[..n]
            }
            Role::Requests => self
                .line
                .iter()
                .take_while(|b| **b != b' ')
                .any(|b| !b.is_ascii_graphic() && !matches!(b, b'\r' | b'\n')),
        }
    }

    fn opaque(&mut self, out: &mut Vec<Token>) {
        self.state = State::Opaque;
        self.line = Vec::new();
        out.push(Token::NotHttp);
    }

    /// Processes one line; `added` of its bytes are new to the counters.
    fn line(&mut self, line: &[u8], added: usize, asked: &mut impl FnMut() -> Asked, out: &mut Vec<Token>) {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        match self.state {
            State::First => {
                self.header_bytes += added as u64;
                if text.is_empty() {
                    // RFC 9112, section 2.2: empty lines before a message are ignored.
                    return;
                }
                match self.first_line(text) {
                    Some(first) => {
                        self.first = first;
                        self.fields = Fields::default();
                        self.state = State::Fields;
                    }
                    None => self.opaque(out),
                }
            }
            State::Fields => {
                self.header_bytes += added as u64;
                if text.is_empty() {
                    self.header_end(asked, out);
                } else {
                    self.field(text);
                }
            }
            State::ChunkSize => {
                let digits = text.iter().take_while(|b| b.is_ascii_hexdigit()).count();
                let size = core::str::from_utf8(&text[..digits])
                    .ok()
                    .and_then(|digits| u64::from_str_radix(digits, 16).ok());
                match size {
                    Some(0) => self.state = State::Trailer,
                    Some(n) => self.state = State::ChunkData(n),
                    None => self.opaque(out),
                }
            }
            State::ChunkEnd => self.state = State::ChunkSize,
            State::Trailer if text.is_empty() => self.end(out),
            _ => {}
        }
    }

    fn first_line(&self, text: &[u8]) -> Option<FirstLine> {
        match self.role {
            Role::Responses => {
                let rest = text.strip_prefix(b"HTTP/1.")?;
                let status = core::str::from_utf8(rest.get(2..5)?).ok()?.parse().ok()?;
                Some(FirstLine::Status(status))
            }
            Role::Requests => {
                let method_end = memchr(b' ', text)?;
                let (method, rest) = (&text[..method_end], &text[method_end + 1..]);
                let is_token = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'!' | b'.');
                if method.is_empty() || method.len() > 32 || !method.iter().all(is_token) {
                    return None;
                }
                let target_end = memchr(b' ', rest).unwrap_or(rest.len());
                // A line truncated at LINE_MAX has lost its version; every other one must have it.
                if text.len() < LINE_MAX - 2 && !rest[target_end..].starts_with(b" HTTP/1.") {
                    return None;
                }
                let target = &rest[..target_end.min(TARGET_MAX)];
                Some(FirstLine::Request(
                    String::from_utf8_lossy(method).into_owned(),
                    String::from_utf8_lossy(target).into_owned(),
                ))
            }
        }
    }

    fn field(&mut self, text: &[u8]) {
        let Some(colon) = memchr(b':', text) else {
            return;
        };
        let (name, value) = (&text[..colon], text[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            self.fields.length = core::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let tail = value.len().saturating_sub(7);
            self.fields.chunked = value[tail..].eq_ignore_ascii_case(b"chunked");
        }
    }

    /// Decides the framing of the body by RFC 9112, section 6.3, as far as an observer needs it.
    fn header_end(&mut self, asked: &mut impl FnMut() -> Asked, out: &mut Vec<Token>) {
        let header_bytes = self.header_bytes;
        let (length, chunked) = (self.fields.length, self.fields.chunked);
        let body = match core::mem::take(&mut self.first) {
            FirstLine::Request(method, target) => {
                out.push(Token::Request {
                    method,
                    target,
                    header_bytes,
                });
                if chunked {
                    State::ChunkSize
                } else {
                    State::Length(length.unwrap_or(0))
                }
            }
            FirstLine::Status(status) => {
                out.push(Token::Response { status, header_bytes });
                match (status, asked()) {
                    (101, _) | (200..300, Asked::Connect) => State::Opaque,
                    (100..200 | 204 | 304, _) | (_, Asked::Head) => State::Length(0),
                    _ if chunked => State::ChunkSize,
                    _ => length.map_or(State::UntilClose, State::Length),
                }
            }
            FirstLine::None => State::Opaque,
        };
        self.state = body;
        self.body_bytes = 0;
        match body {
            State::Length(0) => self.end(out),
            State::Opaque => out.push(Token::NotHttp),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
