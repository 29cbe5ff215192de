//! Access logs: parses each line into a record of one request. Three formats, recognized line by line: the Common Log
//! Format (NCSA httpd), the Combined format (Apache httpd's `mod_log_config`), both also with the virtual host in
//! front (`vhost_combined`), and the JSON that `weir serve` writes.
//!
//! Clients control parts of a line, so a field ends only where its format says. This crate opens no file, knows no
//! clock, and does not judge requests or responses.

mod json;
mod ncsa;
mod reader;
mod time;
mod vhost;

pub use reader::{Limits, Reader};
pub use vhost::{OneHost, SeveralHosts};

use std::borrow::Cow;
use std::fmt;
use units::{Duration, UnixTime};

/// One request in a log; text fields borrow from the line where possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time of the request, in the precision of the format.
    pub at: UnixTime,
    /// The client's address or name, as written in the line.
    pub client: Cow<'a, [u8]>,
    /// The `Host` field, if the format has it.
    pub host: Option<Cow<'a, [u8]>>,
    /// The virtual host that answered, possibly with its port, if the line begins with it.
    pub vhost: Option<Cow<'a, [u8]>>,
    /// The request line; `None` if the server could not parse it.
    pub request: Option<Request<'a>>,
    /// The response status.
    pub status: u16,
    /// Bytes of content sent, without the head; `None` if the line does not say.
    pub body_bytes: Option<u64>,
    /// Time from the first byte of the request to the last byte of the response, if the format has it.
    pub duration: Option<Duration>,
    /// `Referer`, if there was one.
    pub referer: Option<Cow<'a, [u8]>>,
    /// `User-Agent`, if there was one.
    pub user_agent: Option<Cow<'a, [u8]>>,
    /// Whether the log says that the response did not reach the client completely.
    pub is_cut: bool,
    /// The line, if it is JSON: it may have other fields of the request.
    pub json: Option<&'a [u8]>,
}

impl Record<'_> {
    /// Value of a request field, if the line has it and it is not empty. A JSON line has the field `Accept-Language` as
    /// `accept_language`; other formats have `Host`, `Referer` and `User-Agent` at most.
    pub fn field(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let value = match &self.json {
            _ if is("host") => Cow::Borrowed(self.host.as_deref()?),
            _ if is("referer") => Cow::Borrowed(self.referer.as_deref()?),
            _ if is("user-agent") => Cow::Borrowed(self.user_agent.as_deref()?),
            Some(line) => Cow::Owned(json::member(line, name)?),
            None => return None,
        };
        (!value.is_empty()).then_some(value)
    }
}

/// A parsed request line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The method, such as `GET`.
    pub method: Cow<'a, [u8]>,
    /// The target as sent: with its query, percent-encoded.
    pub target: Cow<'a, [u8]>,
    /// The version, such as `HTTP/1.1`; empty for HTTP/0.9.
    pub version: Cow<'a, [u8]>,
}

/// Why a line cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The expected element.
    pub expected: &'static str,
    /// Its offset in the line, in bytes from 0.
    pub at: usize,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: expected {}", self.at + 1, self.expected)
    }
}

impl std::error::Error for Fault {}

/// Parses one line without its line end.
///
/// # Errors
/// Names the expected element and its offset.
pub fn parse(line: &[u8]) -> Result<Record<'_>, Fault> {
    match line.first() {
        Some(b'{') => json::parse(line),
        _ => ncsa::parse(line),
    }
}

/// Parses any bytes, whole and line by line, and checks invariants; for a fuzz target and a property test.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz(data: &[u8]) {
    let limits = Limits {
        line_bytes_max: 200,
        ..Limits::DEFAULT
    };
    let mut lines = data.split(|&b| b == b'\n').peekable();
    let mut reader = Reader::new(data, limits);
    let mut number = 0;
    while let Some(read) = reader.read() {
        let read = read.expect("reading from memory cannot fail");
        let line = lines.next().expect("the reader returned a line");
        number += 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() < limits.line_bytes_max {
            assert_eq!(read, parse(line));
        } else {
            assert!(read.is_err() || line.len() <= limits.line_bytes_max);
        }
        match read {
            Ok(record) => {
                assert!(record.at.nanos < 1_000_000_000);
                let targets = record.request.iter().map(|request| request.target.len());
                assert!(targets.sum::<usize>() <= line.len() && record.client.len() <= line.len());
            }
            Err(fault) => assert!(fault.at <= line.len()),
        }
        assert_eq!(reader.number(), number);
    }
    // Only the empty rest after the last line end is left.
    assert!(lines.next().is_none_or(<[u8]>::is_empty) && lines.next().is_none());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_lines_do(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("192.0.2.7 - - "), Just("a:80 "), Just("[06/Nov/1994:08:49:37 +0000] "), Just("\"GET /a HTTP/1.1\" "),
                    Just("200 "), Just("12"), Just("-"), Just(" \"-\""), Just("\""), Just("\\"), Just("\\x4"),
                    Just("\n"), Just("\r"), Just("{\"time\":"), Just("\"1994-11-06T08:49:37Z\","), Just("}"),
                    Just("\"peer\":\"a\",\"status\":200"), Just("["), Just("99999999999999999999"), Just("\u{e9}")
                ],
                0..40,
            ),
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            fuzz(pieces.concat().as_bytes());
            fuzz(&bytes);
        }
    }
}
