//! A client of HTTP/2: the client's end of crate `http2` on a blocking socket, which keeps all that came over each stream.

use http2::client::{Connection, Event};
use http2::hpack::{Fields, block};
use http2::priority::Priority;
use http2::{Code, Limits};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use units::Instant;

/// What came over a stream.
#[derive(Debug, Default)]
pub(crate) struct Got {
    pub(crate) status: u16,
    /// Interim statuses.
    pub(crate) interim: Vec<u16>,
    /// The `Link` fields of interim responses.
    pub(crate) hints: Vec<String>,
    /// Fields of the final head, in order.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) trailers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) has_ended: bool,
    pub(crate) reset: Option<Code>,
}

impl Got {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(known, _)| known == name);
        field.map(|(_, value)| &**value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A client. Time stands still for its protocol: sockets have timeouts.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    http: Connection,
    up: Vec<u8>,
    input: Vec<u8>,
    pub(crate) got: BTreeMap<u32, Got>,
    /// Why the server ended the connection.
    pub(crate) left: Option<Code>,
    /// The last stream that a server which leaves may answer.
    pub(crate) last: Option<u32>,
    /// Whether windows are given back as content arrives.
    pub(crate) consumes: bool,
}

/// A client in cleartext.
pub(crate) fn connect(server: &crate::serve::process::Server) -> Client<TcpStream> {
    let stream = TcpStream::connect(server.address).expect("a connection");
    stream
        .set_read_timeout(Some(crate::serve::process::PATIENCE))
        .expect("a timeout");
    Client::new(stream)
}

fn texts(fields: &Fields) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let regular = fields.iter().filter(|(name, _)| !name.starts_with(b":"));
    regular.map(|(name, value)| (text(name), text(value))).collect()
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn new(stream: S) -> Client<S> {
        let mut up = Vec::new();
        let limits = Limits {
            stream_window: 1 << 20,
            connection_window: 1 << 24,
            ..Limits::DEFAULT
        };
        Client {
            stream,
            http: Connection::new(Arc::new(limits), Instant::ZERO, &mut up),
            up,
            input: Vec::new(),
            got: BTreeMap::new(),
            left: None,
            last: None,
            consumes: true,
        }
    }

    /// Sends a request.
    pub(crate) fn ask(&mut self, path: &str) -> u32 {
        self.ask_as(path, &[])
    }

    /// The same with these fields, and perhaps another `:method` or `:authority`.
    pub(crate) fn ask_as(&mut self, path: &str, more: &[(&str, &str)]) -> u32 {
        self.open(path, more, true)
    }

    /// Sends the head of a request. `end`: no body follows.
    pub(crate) fn open(&mut self, path: &str, more: &[(&str, &str)], end: bool) -> u32 {
        let given = |name: &'static str, otherwise| {
            let found = more.iter().find(|(known, _)| *known == name);
            (name, found.map_or(otherwise, |(_, value)| *value))
        };
        let pseudo = [
            given(":method", "GET"),
            (":scheme", "https"),
            given(":authority", "a.test"),
            (":path", path),
        ];
        let more = more.iter().filter(|(name, _)| !name.starts_with(':'));
        let fields: Vec<(&str, &str)> = pseudo.iter().chain(more).copied().collect();
        self.open_fields(&fields, end)
    }

    /// Sends a head of these fields alone, as they are. `end`: no body follows.
    pub(crate) fn open_fields(&mut self, fields: &[(&str, &str)], end: bool) -> u32 {
        let mut head = Vec::new();
        for (name, value) in fields {
            block::field(name.as_bytes(), value.as_bytes(), &mut head);
        }
        let is_to_head = fields.contains(&(":method", "HEAD"));
        let request = self
            .http
            .request(&head, end, is_to_head, Priority::DEFAULT, &mut self.up);
        let stream = request.expect("room for a stream");
        self.got.insert(stream, Got::default());
        self.flush();
        stream
    }

    /// Sends a request, and takes what comes until its stream has ended.
    pub(crate) fn get(&mut self, path: &str, more: &[(&str, &str)]) -> &Got {
        let stream = self.ask_as(path, more);
        self.end_of(stream)
    }

    /// What came over a stream until its end or its reset.
    pub(crate) fn end_of(&mut self, stream: u32) -> &Got {
        let is_over = self.run(|client| client.is_over(stream));
        assert!(is_over, "{:?}", self.left);
        &self.got[&stream]
    }

    /// Whether a stream has ended or was reset.
    pub(crate) fn is_over(&self, stream: u32) -> bool {
        self.got[&stream].has_ended || self.got[&stream].reset.is_some()
    }

    /// Whether a server that leaves has said that it did not process this request (RFC 9113 sections 6.8 and 8.7).
    pub(crate) fn is_refused(&self, stream: u32) -> bool {
        let is_reset = self.got[&stream].reset == Some(Code::REFUSED_STREAM);
        self.last.is_some_and(|last| stream > last || is_reset)
    }

    /// Sends content, as the windows permit. Returns false if the server ended the stream before it took all.
    pub(crate) fn send_body(&mut self, stream: u32, body: &[u8]) -> bool {
        if self.http.ready(stream, body.len() as u64).is_err() {
            return false;
        }
        let mut rest = body;
        loop {
            while let Some(piece) = self.http.next(16_393, Instant::ZERO, &mut self.up) {
                self.up.extend_from_slice(&rest[..piece.bytes]);
                rest = &rest[piece.bytes..];
            }
            self.flush();
            if rest.is_empty() {
                return true;
            }
            if self.is_over(stream) || !self.run_once() {
                return false;
            }
        }
    }

    /// Sends as much of this byte on each of these streams, with its end. Their frames take turns.
    pub(crate) fn send_on_all(&mut self, streams: &[u32], byte: u8, length: usize) -> bool {
        let turns = Priority {
            incremental: true,
            ..Priority::DEFAULT
        };
        for &stream in streams {
            self.http.prioritize(stream, turns, &mut self.up);
            self.http.ready(stream, length as u64).expect("an open stream");
            self.http.finish(stream).expect("an open stream");
        }
        let mut left = streams.len() * length;
        while left > 0 {
            while let Some(piece) = self.http.next(4_096, Instant::ZERO, &mut self.up) {
                self.up.extend(std::iter::repeat_n(byte, piece.bytes));
                left -= piece.bytes;
            }
            self.flush();
            if left > 0 && !self.run_once() {
                return false;
            }
        }
        true
    }

    /// Ends a request, with these trailer fields if there are any.
    pub(crate) fn end(&mut self, stream: u32, trailers: &[(&str, &str)]) {
        if trailers.is_empty() {
            let _ = self.http.finish(stream);
            let _ = self.http.next(16_393, Instant::ZERO, &mut self.up);
        } else {
            let mut section = Vec::new();
            for (name, value) in trailers {
                block::field(name.as_bytes(), value.as_bytes(), &mut section);
            }
            let _ = self.http.trailers(stream, &section, &mut self.up);
        }
        self.flush();
    }

    /// Cancels a stream.
    pub(crate) fn cancel(&mut self, stream: u32) {
        self.http.reset(stream, Code::CANCEL, &mut self.up);
        self.flush();
    }

    /// Gives back the window of what came over a stream.
    pub(crate) fn consume(&mut self, stream: u32, bytes: u32) {
        self.http.consumed(stream, bytes, &mut self.up);
        self.flush();
    }

    fn flush(&mut self) {
        // The server may be gone; what it said before counts.
        let _ = self.stream.write_all(&self.up);
        self.up.clear();
    }

    /// Takes what comes until `until` says so. Returns false if the connection ends before.
    pub(crate) fn run(&mut self, until: impl Fn(&Client<S>) -> bool) -> bool {
        while !until(self) {
            if !self.run_once() {
                return false;
            }
        }
        true
    }

    /// Waits for bytes, and answers them: SETTINGS among the first have an acknowledgment in time. False at the end.
    pub(crate) fn run_once(&mut self) -> bool {
        let mut buffer = [0; 65_536];
        match self.stream.read(&mut buffer) {
            Ok(0) | Err(_) => return false,
            Ok(count) => self.input.extend_from_slice(&buffer[..count]),
        }
        self.take();
        self.flush();
        true
    }

    fn take(&mut self) {
        let mut used = 0;
        loop {
            let received = self
                .http
                .receive(&self.input[used..], Instant::ZERO, &mut self.up);
            used += received.used;
            let (stream, bytes) = match received.event {
                Event::Partial => break,
                Event::Response {
                    stream,
                    end,
                    status,
                    fields,
                } => {
                    let got = self.got.entry(stream).or_default();
                    let links = fields
                        .iter()
                        .filter(|(name, _)| status == 103 && *name == b"link");
                    got.hints
                        .extend(links.map(|(_, value)| String::from_utf8_lossy(value).into_owned()));
                    got.interim.extend((status < 200).then_some(status));
                    got.fields = texts(fields);
                    (got.status, got.has_ended) = (status, end);
                    continue;
                }
                Event::Body { stream, bytes } => {
                    self.got.entry(stream).or_default().body.extend_from_slice(bytes);
                    (stream, bytes.len() as u32)
                }
                Event::Trailers { stream, fields } => {
                    let got = self.got.entry(stream).or_default();
                    got.trailers = texts(fields);
                    got.has_ended = true;
                    continue;
                }
                Event::End { stream } => {
                    self.got.entry(stream).or_default().has_ended = true;
                    continue;
                }
                Event::Reset { stream, code } => {
                    self.got.entry(stream).or_default().reset = Some(code);
                    continue;
                }
                Event::GoAway { code, last } => {
                    (self.left, self.last) = (Some(code), Some(last));
                    continue;
                }
                other => panic!("{other:?}"),
            };
            if self.consumes {
                self.http.consumed(stream, bytes, &mut self.up);
            }
        }
        self.input.drain(..used);
    }

    /// Whether all requests are answered whole.
    pub(crate) fn is_done(&self) -> bool {
        self.got.values().all(|got| got.has_ended)
    }

    pub(crate) fn is_200(&self, stream: u32, body: &[u8]) -> bool {
        let got = &self.got[&stream];
        got.status == 200 && got.body == body && got.reset.is_none()
    }
}
