//! A client that trusts nothing: it frames responses by RFC 9112 section 6.3, complains about every
//! byte that should not be there, and knows nothing of the server's own parser.

use crate::serve::process::PATIENCE;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) version: String,
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The value of a field that occurs at most once.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self
            .fields
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let first = values.next();
        assert!(
            values.next().is_none(),
            "{name} stands twice in {:?}",
            self.fields
        );
        first.map(|(_, value)| value.as_str())
    }

    /// The value of a field that must be there.
    pub(crate) fn must(&self, name: &str) -> &str {
        self.field(name)
            .unwrap_or_else(|| panic!("no {name} in {} {:?}", self.status, self.fields))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the server said that it will close.
    pub(crate) fn closes(&self) -> bool {
        self.field("Connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// A connection.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Received and not yet taken.
    pending: Vec<u8>,
}

/// How a connection went on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server closed in good order.
    Closed,
    /// The server aborted it.
    Reset,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Connection {
        let stream = TcpStream::connect(address).expect("a connection to the server");
        Connection::over(stream)
    }

    pub(crate) fn over(stream: TcpStream) -> Connection {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("a socket option");
        Connection {
            stream,
            pending: Vec::new(),
        }
    }

    /// Over a Unix socket.
    pub(crate) fn over_unix(stream: UnixStream) -> Connection {
        Connection {
            // Only calls that every stream socket has are used.
            stream: TcpStream::from(OwnedFd::from(stream)),
            pending: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .write_all(bytes.as_ref())
            .expect("the server takes bytes");
    }

    /// Sends, and does not mind if the server has closed already.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("an open connection");
    }

    /// Waits at most this long for bytes from now on.
    pub(crate) fn patience(&mut self, span: Duration) {
        self.stream.set_read_timeout(Some(span)).expect("a timeout");
    }

    /// A GET of this path on a connection that stays.
    pub(crate) fn get(&mut self, path: &str) -> Response {
        self.request("GET", path, &[])
    }

    /// A request with these fields beside Host, and its answer.
    pub(crate) fn request(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) -> Response {
        self.send(head(method, path, fields));
        self.receive(method)
    }

    /// The next response. `method` is of the request it answers: it decides whether a body follows.
    pub(crate) fn receive(&mut self, method: &str) -> Response {
        self.try_receive(method)
            .unwrap_or_else(|| panic!("the server closed instead of answering {method}"))
    }

    /// The next response; none if the server closed or reset before its first byte.
    pub(crate) fn try_receive(&mut self, method: &str) -> Option<Response> {
        let end = loop {
            if let Some(at) = find(&self.pending, b"\r\n\r\n") {
                break at;
            }
            if !self.fill() {
                assert!(
                    self.pending.is_empty(),
                    "closed within a head: {:?}",
                    String::from_utf8_lossy(&self.pending)
                );
                return None;
            }
        };
        let head = String::from_utf8(self.pending.drain(..end + 4).collect()).expect("an ASCII head");
        let mut lines = head[..end].split("\r\n");
        let status_line = lines.next().expect("a first line");
        let (version, rest) = status_line.split_once(' ').expect("a status line");
        assert!(version == "HTTP/1.1" || version == "HTTP/1.0", "{status_line}");
        let status: u16 = rest
            .get(..3)
            .and_then(|code| code.parse().ok())
            .expect("a status code");
        let fields: Vec<(String, String)> = lines
            .map(|line| {
                let (name, value) = line
                    .split_once(": ")
                    .unwrap_or_else(|| panic!("field line {line:?}"));
                assert!(
                    !name.is_empty() && !name.contains(char::is_whitespace),
                    "{line:?}"
                );
                (name.to_owned(), value.to_owned())
            })
            .collect();
        let mut response = Response {
            version: version.to_owned(),
            status,
            fields,
            body: Vec::new(),
        };
        if status / 100 == 1 {
            return Some(response);
        }
        response.body = self.body(method, &response);
        Some(response)
    }

    /// The body that the head announces.
    fn body(&mut self, method: &str, response: &Response) -> Vec<u8> {
        if method == "HEAD" || response.status == 204 || response.status == 304 {
            return Vec::new();
        }
        if response.field("Transfer-Encoding").is_some() {
            assert!(
                response.field("Content-Length").is_none(),
                "two framings: {:?}",
                response.fields
            );
            return self.chunks();
        }
        if let Some(length) = response.field("Content-Length") {
            let length: usize = length.parse().expect("a length");
            return self.exactly(length);
        }
        while self.fill() {}
        std::mem::take(&mut self.pending)
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let size = usize::from_str_radix(&line, 16).expect("a chunk size");
            if size == 0 {
                assert_eq!(self.line(), "", "no trailers are expected");
                return body;
            }
            body.extend(self.exactly(size));
            assert_eq!(self.exactly(2), b"\r\n");
        }
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(at) = find(&self.pending, b"\r\n") {
                let line = String::from_utf8(self.pending.drain(..at).collect()).expect("ASCII");
                self.pending.drain(..2);
                return line;
            }
            assert!(self.fill(), "closed within a chunk");
        }
    }

    /// The next `count` bytes.
    pub(crate) fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.pending.len() < count {
            assert!(
                self.fill(),
                "closed after {} of {count} bytes",
                self.pending.len()
            );
        }
        let rest = self.pending.split_off(count);
        std::mem::replace(&mut self.pending, rest)
    }

    /// Everything until the server closes, and how it closed.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, End) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return (std::mem::take(&mut self.pending), End::Closed),
                Ok(count) => self.pending.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return (std::mem::take(&mut self.pending), End::Reset);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("the server neither sends nor closes: {error}"),
            }
        }
    }

    /// Waits for the server to close without another byte.
    pub(crate) fn expect_close(&mut self) {
        let (rest, end) = self.rest();
        assert!(
            rest.is_empty(),
            "unexpected bytes: {:?}",
            String::from_utf8_lossy(&rest)
        );
        assert_eq!(end, End::Closed);
    }

    /// Whether a byte has come (or the end) within the patience set with `patience`.
    pub(crate) fn is_silent(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.peek(&mut byte) {
            Ok(_) => false,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Receives more; false at the end of the stream.
    fn fill(&mut self) -> bool {
        let mut buffer = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(count) => {
                    self.pending.extend_from_slice(&buffer[..count]);
                    return count > 0;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return false,
                Err(error) => panic!(
                    "no answer: {error}; so far {:?}",
                    String::from_utf8_lossy(&self.pending[..self.pending.len().min(500)])
                ),
            }
        }
    }
}

/// A request head.
pub(crate) fn head(method: &str, path: &str, fields: &[(&str, &str)]) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: weir.localhost\r\n");
    for (name, value) in fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text
}

/// Where `needle` first stands in `hay`.
pub(crate) fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|window| window == needle)
}
