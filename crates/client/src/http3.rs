//! One HTTP/3 connection to a server: turns requests into bytes of streams and those of the server into responses (RFC
//! 9114).
//!
//! The counterpart of [`crate::streams`] over a transport that carries streams: flow control and the closing of streams
//! are the transport's. Knows neither the meaning of responses nor the purpose of requests.

use crate::session::Said;
use crate::streamed::{Came, Reset, STREAMS_MAX, head};
use ::http3::client::{Connection, Event, Output};
use ::http3::priority::Priority;
use ::http3::qpack::block;
use ::http3::{Code, Fault, Limits, Misuse};
use runtime::streams::Input;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use units::Instant;

/// What the transport has to do.
#[derive(Debug)]
pub enum Command<'a> {
    /// Send these bytes on a stream, the second slice behind the first, and its end if `true`.
    Write(u64, [&'a [u8]; 2], bool),
    /// Give up a stream with this application error code.
    Abandon(u64, u64),
    /// Close the connection with this application error code: the server has broken the rules.
    Blame(u64),
}

/// One connection.
#[derive(Debug)]
pub struct Http3 {
    http: Connection,
    /// Beginnings of frames, by stream, and the bytes read since the last event of the stream.
    kept: HashMap<u64, (Vec<u8>, usize)>,
    /// Streams of the server's.
    theirs: HashSet<u64>,
    /// The stream of the next request.
    next: u32,
    /// The server leaves, or its connection failed.
    is_ending: bool,
    /// The error of the server, until the transport knows it.
    fault: Option<Code>,
    /// Contents of requests, until the transport has them.
    contents: HashMap<u64, Arc<[u8]>>,
}

impl Default for Http3 {
    fn default() -> Http3 {
        Http3::new()
    }
}

impl Http3 {
    /// A new connection; SETTINGS are its first output.
    pub fn new() -> Http3 {
        let limits = Limits {
            // No dynamic table, which would need a stream of its own and could block others.
            table_bytes: 0,
            list_bytes_max: 256 << 10,
            block_bytes_max: 256 << 10,
            ..Limits::DEFAULT
        };
        Http3 {
            http: Connection::new(Arc::new(limits)),
            kept: HashMap::new(),
            theirs: HashSet::new(),
            next: 0,
            is_ending: false,
            fault: None,
            contents: HashMap::new(),
        }
    }

    /// Sends a request with content. The fields are those of [`Http3::ask`], with `content-length` among them.
    ///
    /// # Errors
    /// If the server leaves.
    pub fn ask_with<'f>(
        &mut self,
        fields: impl IntoIterator<Item = (&'f str, &'f str)>,
        is_head: bool,
        priority: Priority,
        content: Arc<[u8]>,
    ) -> Result<u32, Misuse> {
        let is_empty = content.is_empty();
        let stream = self.begin(fields, is_empty, is_head, priority)?;
        if !is_empty {
            let id = u64::from(stream);
            self.http.ready(id, content.len() as u64)?;
            self.http.finish(id)?;
            self.contents.insert(id, content);
        }
        Ok(stream)
    }

    /// Sends a request without content: its pseudo-fields first, names in lower case. Returns its stream.
    ///
    /// # Errors
    /// If the server leaves.
    pub fn ask<'f>(
        &mut self,
        fields: impl IntoIterator<Item = (&'f str, &'f str)>,
        is_head: bool,
        priority: Priority,
    ) -> Result<u32, Misuse> {
        self.begin(fields, true, is_head, priority)
    }

    /// Sends the head of a request, which has no content if `end`.
    fn begin<'f>(
        &mut self,
        fields: impl IntoIterator<Item = (&'f str, &'f str)>,
        end: bool,
        is_head: bool,
        priority: Priority,
    ) -> Result<u32, Misuse> {
        let fields = fields
            .into_iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let mut block = Vec::new();
        block::begin(&mut block);
        let stream = self.next;
        self.http
            .request_with(stream.into(), &block, fields, end, is_head, priority)?;
        // Request streams are the multiples of four (RFC 9000 section 2.1).
        self.next += 4;
        Ok(stream)
    }

    /// Whether another request may be sent.
    pub fn has_room(&self) -> bool {
        !self.is_ending && self.http.streams() < STREAMS_MAX && self.http.has_room()
    }

    /// Whether the connection takes further requests, now or later.
    pub fn is_persistent(&self) -> bool {
        !self.is_ending
    }

    /// Gives up a request: nothing more of it is reported.
    pub fn cancel(&mut self, stream: u32) {
        self.contents.remove(&stream.into());
        self.http.reset(stream.into(), Code::REQUEST_CANCELLED);
        self.kept.remove(&stream.into());
    }

    /// Passes what the transport has to do to `take`, in order.
    pub fn commands(&mut self, mut take: impl FnMut(Command<'_>)) {
        while let Some(output) = self.http.poll() {
            match output {
                Output::Write(piece) => {
                    let (stream, end) = (piece.stream, piece.end);
                    let bytes = piece.frames.len() as u64 + piece.body;
                    // A content is one piece: it was ready as a whole.
                    let content = match piece.body {
                        0 => None,
                        _ => self.contents.remove(&stream),
                    };
                    let content = content.as_deref().unwrap_or_default();
                    debug_assert_eq!(content.len() as u64, piece.body, "the content of the request");
                    take(Command::Write(stream, [piece.frames, content], end));
                    // The transport keeps what it cannot send yet.
                    self.http.sent(stream, bytes);
                }
                Output::Reset { stream, code } | Output::Stop { stream, code } => {
                    take(Command::Abandon(stream, code.0));
                }
            }
        }
        if let Some(code) = self.fault.take() {
            take(Command::Blame(code.0));
        }
    }

    /// The server has broken the rules, so the connection is to end. Returns its fault in words.
    fn failed(&mut self, fault: Fault) -> String {
        let (Fault::Connection(code, _) | Fault::Stream(_, code, _)) = fault;
        (self.is_ending, self.fault) = (true, Some(code));
        fault.to_string()
    }

    /// The server wants no more of a request. Passes the end of its response to `hear` if there is none by that.
    ///
    /// # Errors
    /// As [`Http3::listen`].
    pub fn stopped(
        &mut self,
        stream: u64,
        code: u64,
        now: Instant,
        mut hear: impl FnMut(Came<'_, '_, '_>),
    ) -> Result<(), String> {
        self.contents.remove(&stream);
        match self.http.peer_stopped(stream, Code(code), now) {
            Ok(true) => hear(Came::Reset(stream as u32, reset(Code(code)))),
            Ok(false) => {}
            Err(fault) => return Err(self.failed(fault)),
        }
        Ok(())
    }

    /// Parses bytes of a stream and passes what came to `hear`.
    ///
    /// # Errors
    /// The fault of the server; the connection is of no further use, but [`Http3::commands`] has the code with which it ends.
    pub fn listen(
        &mut self,
        id: u64,
        bytes: &[u8],
        follows: Input,
        now: Instant,
        mut hear: impl FnMut(Came<'_, '_, '_>),
    ) -> Result<(), String> {
        let is_theirs = id & 1 == 1;
        if is_theirs && self.theirs.insert(id) {
            self.http.open(id, now).map_err(|fault| self.failed(fault))?;
        }
        let (mut input, mut read) = self.kept.remove(&id).unwrap_or_default();
        input.extend_from_slice(bytes);
        let (mut at, end) = (0, follows == Input::End);
        loop {
            let received = self.http.receive(id, &input[at..], end, now);
            at += received.used;
            let used = std::mem::take(&mut read) + received.used;
            match received.event {
                Event::Partial => {
                    read = used;
                    break;
                }
                Event::Response {
                    stream,
                    end,
                    status,
                    fields,
                } => head(stream as u32, status, fields, end, used, &mut hear),
                Event::Body { stream, bytes } => {
                    hear(Came::Said(stream as u32, Said::Body(bytes, used)));
                }
                Event::End { stream } => hear(Came::Said(stream as u32, Said::End(used))),
                Event::Reset { stream, code } => {
                    hear(Came::Reset(stream as u32, reset(code)));
                }
                // The end follows.
                Event::Trailers { .. } => {}
                Event::GoAway { .. } => self.is_ending = true,
                Event::Closed(fault) => return Err(self.failed(fault)),
                Event::Request { .. } | Event::Oversized { .. } | Event::Resumed { .. } => {
                    debug_assert!(false, "a client gets no requests, and has no dynamic table");
                }
            }
        }
        if follows == Input::Open && (at < input.len() || read > 0) {
            input.drain(..at);
            self.kept.insert(id, (input, read));
        }
        if let Input::Reset(code) = follows {
            match self.http.peer_reset(id, now) {
                Ok(true) => hear(Came::Reset(id as u32, reset(Code(code)))),
                Ok(false) => {}
                Err(fault) => return Err(self.failed(fault)),
            }
        }
        Ok(())
    }
}

/// The name of the error with which a server has closed a connection (RFC 9114 section 8.1, RFC 9204 section 6), and whose fault it
/// was. `None` if it is no error: unknown codes count as H3_NO_ERROR (RFC 9114 section 8).
pub fn error_named(code: u64) -> Option<String> {
    let code = Code(code);
    let fault = match code {
        Code::NO_ERROR => return None,
        Code::INTERNAL_ERROR => "an error of its own",
        Code::EXCESSIVE_LOAD => "it finds that this client asks too much of it",
        // Each is of a single request.
        Code::REQUEST_REJECTED | Code::REQUEST_CANCELLED | Code::CONNECT_ERROR => {
            "this client broke no rule of HTTP/3"
        }
        Code::VERSION_FALLBACK => "it serves this over HTTP/1.1 only; choose another --mode",
        _ => "it says that this client broke the rules of HTTP/3",
    };
    code.name().map(|name| format!("{name} ({fault})"))
}

fn reset(code: Code) -> Reset {
    Reset {
        code: code.to_string(),
        is_refused: code == Code::REQUEST_REJECTED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_name_and_says_whose_fault_it_was() {
        for (code, said) in [
            (Code::INTERNAL_ERROR, "H3_INTERNAL_ERROR (an error of its own)"),
            (
                Code::REQUEST_REJECTED,
                "H3_REQUEST_REJECTED (this client broke no rule of HTTP/3)",
            ),
            (
                Code::QPACK_DECOMPRESSION_FAILED,
                "QPACK_DECOMPRESSION_FAILED (it says that this client broke the rules of HTTP/3)",
            ),
        ] {
            assert_eq!(error_named(code.0).as_deref(), Some(said));
        }
        // The last is reserved, so that nobody relies on knowing all codes (RFC 9114 section 8.1).
        for code in [Code::NO_ERROR, Code(0), Code(0x21)] {
            assert_eq!(error_named(code.0), None, "{code}");
        }
    }

    /// What a client that has asked on stream 0 does after these bytes on a stream: the streams it gives up, and the end of the
    /// connection, with their codes.
    fn judged(stream: u64, bytes: &[u8]) -> (Vec<(u64, Code)>, Option<Code>) {
        let mut http = Http3::new();
        let fields = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "h"),
            (":path", "/"),
        ];
        let asked = http.ask(fields, false, Priority::DEFAULT);
        assert_eq!(asked, Ok(0));
        http.commands(|_| {});
        let heard = http.listen(stream, bytes, Input::Open, Instant::ZERO, |_| {});
        let (mut abandoned, mut blamed) = (Vec::new(), None);
        http.commands(|command| match command {
            Command::Abandon(stream, code) => abandoned.push((stream, Code(code))),
            Command::Blame(code) => blamed = Some(Code(code)),
            Command::Write(..) => {}
        });
        let is_over = (heard.is_err(), !http.is_persistent());
        assert_eq!(is_over, (blamed.is_some(), blamed.is_some()), "{bytes:?}");
        http.commands(|command| assert!(!matches!(command, Command::Blame(_)), "said twice"));
        (abandoned, blamed)
    }

    #[test]
    fn a_server_learns_which_rule_it_has_broken() {
        for (stream, bytes, code) in [
            // A control stream that begins with GOAWAY, not with SETTINGS.
            (3, &[0, 7, 1, 0][..], Code::MISSING_SETTINGS),
            // A push stream, though no push is permitted.
            (3, &[1], Code::ID_ERROR),
            // A capacity of the dynamic table, though there is none.
            (3, &[2, 0x21], Code::QPACK_ENCODER_STREAM_ERROR),
            // DATA before HEADERS.
            (0, &[0, 1, 0], Code::FRAME_UNEXPECTED),
            // HEADERS whose section needs an entry of the dynamic table.
            (0, &[1, 2, 1, 0], Code::QPACK_DECOMPRESSION_FAILED),
        ] {
            assert_eq!(judged(stream, bytes), (Vec::new(), Some(code)), "{bytes:?}");
        }
        // A malformed response ends its stream alone (RFC 9114 section 4.1.2): one without a status.
        let malformed = (vec![(0, Code::MESSAGE_ERROR)], None);
        assert_eq!(judged(0, &[1, 2, 0, 0]), malformed);
    }

    #[test]
    fn content_follows_its_head_in_one_frame_and_ends_the_stream() {
        let content: Arc<[u8]> = (0..100_000_u32).map(|n| n as u8).collect();
        let mut http = Http3::new();
        let fields = [
            (":method", "PUT"),
            (":scheme", "https"),
            (":authority", "h"),
            (":path", "/"),
        ];
        let stream = http.ask_with(fields, false, Priority::DEFAULT, Arc::clone(&content));
        assert_eq!(stream, Ok(0));
        let empty = http.ask_with(fields, false, Priority::DEFAULT, Arc::from([]));
        assert_eq!(empty, Ok(4));
        let (mut sent, mut ended) = (HashMap::<u64, Vec<u8>>::new(), Vec::new());
        http.commands(|command| {
            if let Command::Write(stream, pieces, end) = command {
                sent.entry(stream).or_default().extend(pieces.concat());
                ended.extend(end.then_some(stream));
            }
        });
        // DATA is type 0; 100,000 needs four bytes (RFC 9000 section 16).
        let frame = [&[0x00, 0x80, 0x01, 0x86, 0xa0], &content[..]].concat();
        assert!(sent[&0].ends_with(&frame));
        assert!(sent[&4].len() < 100 && !sent[&4].is_empty());
        ended.sort_unstable();
        assert_eq!(ended, [0, 4]);
        assert!(http.contents.is_empty());
    }
}
