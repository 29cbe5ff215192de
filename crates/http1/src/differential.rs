//! Differential tests: this crate and hyper parse complete messages side by side.
//!
//! Both get the bytes and then the end of the stream. If both accept, messages and content must be equal. If
//! only one accepts, the difference must be listed here with its reason: request smuggling needs two parsers
//! that disagree. hyper runs in memory, driven by hand: no runtime, no clock.

use crate::client;
use crate::conformance::messages;
use crate::error::Fault;
use crate::limits::Limits;
use crate::server::{self, After};
use crate::slots::Slots;
use http_body_util::{BodyExt, Empty, Full};
use http_semantics::method::Method;
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Request, Response};
use proptest::prelude::*;
use std::cell::RefCell;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Faults that this crate reports and hyper accepts, with the reason.
const STRICTER: [(Fault, &str); 13] = [
    (
        Fault::BareLf,
        "hyper's tokeniser takes LF for CRLF (RFC 9112 section 2.2 allows it); proxies differ",
    ),
    (
        Fault::RequestLine,
        "hyper skips any number of empty lines; we take four",
    ),
    (Fault::MethodTooLong, "hyper takes methods of any length"),
    (
        Fault::HostMissing,
        "hyper leaves Host to its user; RFC 9112 section 3.2 asks for 400",
    ),
    (Fault::HostRepeated, "as above"),
    (Fault::HostInvalid, "as above"),
    (Fault::Target, "hyper takes targets of any form with any method"),
    (
        Fault::LengthAndCoding,
        "hyper lets Transfer-Encoding win, which RFC 9112 section 6.3 allows; we refuse",
    ),
    (
        Fault::CodingUnknown,
        "hyper hands content on with codings it has not undone",
    ),
    (
        Fault::TransferEncoding,
        "hyper only looks at the end of the field: `chunked, chunked` passes",
    ),
    (Fault::ChunkSize, "hyper takes white space behind a chunk size"),
    (Fault::ChunkExtension, "hyper skips chunk extensions of any form"),
    (
        Fault::Upgraded,
        "hyper hands the connection to its user, who may have asked for it",
    ),
];

/// Result of one parser: complete messages as (head, content), and why it stopped.
#[derive(Debug, PartialEq)]
struct Reading<F> {
    messages: Vec<(String, Vec<u8>)>,
    fault: Option<F>,
}

fn our_server(stream: &[u8]) -> Reading<Fault> {
    let mut connection = server::Connection::new();
    let mut messages: Vec<(String, Vec<u8>)> = Vec::new();
    let mut reading = None;
    let mut rest = stream;
    let fault = loop {
        let mut slots = Slots::new();
        match connection.receive(rest, &mut slots, &Limits::DEFAULT) {
            Ok(server::Step::Request { head, used }) => {
                rest = &rest[used..];
                reading = Some((
                    format!("{} {}", head.method_name, head.target_raw.escape_ascii()),
                    Vec::new(),
                ));
                connection.continued();
            }
            Ok(server::Step::Body { data, used }) => {
                rest = &rest[used..];
                reading
                    .as_mut()
                    .expect("a head came first")
                    .1
                    .extend_from_slice(data);
            }
            Ok(server::Step::End { used, .. }) => rest = &rest[used..],
            Ok(server::Step::Paused) => {
                messages.extend(reading.take());
                connection.begin_response(true).expect("a response is owed");
                if connection.end_response() == Ok(After::Close) {
                    break None;
                }
            }
            Ok(server::Step::Partial { .. }) => break connection.eof().err(),
            Ok(server::Step::Closed) => break None,
            Err(fault) => break Some(fault),
        }
    };
    Reading { messages, fault }
}

fn our_client(method: Method, stream: &[u8]) -> Reading<Fault> {
    let mut connection = client::Connection::new();
    connection
        .begin_request(method, true, &Limits::DEFAULT)
        .and_then(|()| connection.end_request())
        .expect("a new connection takes a request");
    let mut reading = (String::new(), Vec::new());
    let mut rest = stream;
    let fault = loop {
        let mut slots = Slots::new();
        match connection.receive(rest, &mut slots, &Limits::DEFAULT) {
            Ok(client::Step::Interim { used, .. }) => rest = &rest[used..],
            Ok(client::Step::Response { head, used }) => {
                rest = &rest[used..];
                reading.0 = head.status.to_string();
                if head.framing == crate::framing::Framing::Empty {
                    break None;
                }
            }
            Ok(client::Step::Body { data, used }) => {
                rest = &rest[used..];
                reading.1.extend_from_slice(data);
            }
            Ok(client::Step::End { .. }) => break None,
            Ok(client::Step::Partial { .. }) => {
                break match connection.eof() {
                    Ok(client::Ended::Body(_)) => None,
                    Ok(_) => Some(Fault::Truncated),
                    Err(fault) => Some(fault),
                };
            }
            Ok(client::Step::Closed) => break None,
            Err(fault) => break Some(fault),
        }
    };
    Reading {
        messages: if fault.is_none() {
            vec![reading]
        } else {
            Vec::new()
        },
        fault,
    }
}

/// The other end of hyper's connection: delivers a stream, then its end, and drops the output.
struct Script {
    stream: Vec<u8>,
    given: usize,
    /// Delivers nothing before hyper has written: a client sends its request first.
    waits_for_request: bool,
}

impl Script {
    fn new(stream: &[u8], waits_for_request: bool) -> Script {
        Script {
            stream: stream.to_vec(),
            given: 0,
            waits_for_request,
        }
    }
}

impl Read for Script {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.waits_for_request {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let count = buffer.remaining().min(self.stream.len() - self.given);
        buffer.put_slice(&self.stream[self.given..self.given + count]);
        self.given += count;
        Poll::Ready(Ok(()))
    }
}

impl Write for Script {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.waits_for_request = false;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Polls before the test reports that hyper hangs. hyper needs a few per message.
const TURNS_MAX: usize = 10_000;

fn hyper_server(stream: &[u8]) -> Reading<String> {
    let messages = Rc::new(RefCell::new(Vec::new()));
    let service = hyper::service::service_fn(|request: Request<Incoming>| {
        let messages = Rc::clone(&messages);
        async move {
            let (head, body) = request.into_parts();
            let content = body.collect().await?.to_bytes().to_vec();
            messages.borrow_mut().push((
                format!(
                    "{} {}",
                    head.method,
                    head.uri.to_string().as_bytes().escape_ascii()
                ),
                content,
            ));
            Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from_static(b"ok"))))
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .half_close(true)
        .serve_connection(Script::new(stream, false), service);
    let mut connection = pin!(connection);
    let mut cx = Context::from_waker(Waker::noop());
    let outcome = (0..TURNS_MAX)
        .find_map(|_| match connection.as_mut().poll(&mut cx) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        })
        .unwrap_or_else(|| panic!("hyper hangs on {}", stream.escape_ascii()));
    let messages = messages.borrow().clone();
    Reading {
        messages,
        fault: outcome.err().map(|error| format!("{error:?}")),
    }
}

fn hyper_client(method: Method, stream: &[u8]) -> Reading<String> {
    let mut cx = Context::from_waker(Waker::noop());
    let mut handshake = pin!(hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(
        Script::new(stream, true)
    ));
    let Poll::Ready(Ok((mut sender, connection))) = handshake.as_mut().poll(&mut cx) else {
        panic!("a handshake takes no time");
    };
    let request = Request::builder()
        .method(method.name().expect("a known method"))
        .uri("/")
        .header("Host", "h")
        .body(Empty::new())
        .expect("a sound request");
    let mut exchange = pin!(async {
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16().to_string();
        let content = response.into_body().collect().await?.to_bytes().to_vec();
        Ok::<_, hyper::Error>((status, content))
    });
    let mut connection = pin!(connection);
    let mut connection_is_done = false;
    for _ in 0..TURNS_MAX {
        if !connection_is_done {
            connection_is_done = connection.as_mut().poll(&mut cx).is_ready();
        }
        if let Poll::Ready(outcome) = exchange.as_mut().poll(&mut cx) {
            return match outcome {
                Ok(message) => Reading {
                    messages: vec![message],
                    fault: None,
                },
                Err(error) => Reading {
                    messages: Vec::new(),
                    fault: Some(format!("{error:?}")),
                },
            };
        }
    }
    panic!("hyper hangs on {}", stream.escape_ascii());
}

/// Whether the list covers a stream that hyper accepts and this crate rejects.
fn is_stricter(fault: Fault) -> bool {
    STRICTER.iter().any(|&(listed, _)| listed == fault)
}

/// Whether hyper rejects a stream that this crate accepts deliberately.
fn is_more_lenient(stream: &[u8], ours: &Reading<Fault>) -> bool {
    // HTTP/1.2 and later, which RFC 9110 section 2.5 tells recipients to process as HTTP/1.1.
    let later = ours.messages.len() == 1
        && memchr::memchr(b'\n', stream).is_some_and(|end| {
            !stream[..end].ends_with(b"HTTP/1.1\r") && !stream[..end].ends_with(b"HTTP/1.0\r")
        });
    // hyper's `Uri` rejects an empty port, and bytes that clients send although RFC 3986 does not allow them.
    let target = ours.messages.last().is_some_and(|(what, _)| {
        what.bytes()
            .any(|b| matches!(b, b'\\' | b'^' | b'`' | b'|' | b'"' | b'<' | b'>' | b'{' | b'}'))
    });
    // Empty list members at the end, which recipients must ignore (RFC 9110 section 5.6.1.2); hyper checks
    // only the end of the last line.
    let empty_coding = stream.split(|&b| b == b'\n').any(|line| {
        let line = line.trim_ascii().to_ascii_lowercase();
        line.starts_with(b"transfer-encoding:") && (line.ends_with(b",") || line.ends_with(b":"))
    });
    later || target || empty_coding
}

fn compare(
    what: &str,
    stream: &[u8],
    ours: &Reading<Fault>,
    theirs: &Reading<String>,
) -> Result<(), TestCaseError> {
    let common = ours.messages.len().min(theirs.messages.len());
    let normal = |(what, content): &(String, Vec<u8>)| (what.to_lowercase(), content.clone());
    for (ours, theirs) in ours.messages.iter().zip(&theirs.messages) {
        // hyper rewrites an absolute target: scheme in lower case, `/` for an empty path.
        if !ours.0.contains("://") {
            prop_assert_eq!(
                normal(ours),
                normal(theirs),
                "{} of {}",
                what,
                stream.escape_ascii()
            );
        }
    }
    let allowed = if ours.messages.len() > common {
        is_more_lenient(stream, ours)
    } else if theirs.messages.len() > common || (ours.fault.is_some() && theirs.fault.is_none()) {
        ours.fault.is_some_and(is_stricter)
    } else {
        ours.fault.is_some() || theirs.fault.is_none() || is_more_lenient(stream, ours)
    };
    prop_assert!(
        allowed,
        "{} of {}\nours: {:?}\nhyper: {:?}",
        what,
        stream.escape_ascii(),
        ours,
        theirs
    );
    Ok(())
}

fn compare_server(stream: &[u8]) -> Result<(), TestCaseError> {
    compare("the requests", stream, &our_server(stream), &hyper_server(stream))
}

fn compare_client(method: Method, stream: &[u8]) -> Result<(), TestCaseError> {
    compare(
        "the response",
        stream,
        &our_client(method, stream),
        &hyper_client(method, stream),
    )
}

#[test]
fn the_vectors() {
    let mut failures = Vec::new();
    let mut met = Vec::new();
    for (kind, stream) in messages() {
        let (ours, theirs) = match kind.split(' ').next() {
            Some("server") => (our_server(&stream), hyper_server(&stream)),
            Some("client") => {
                let method = if kind.contains("HEAD") {
                    Method::Head
                } else {
                    Method::Get
                };
                (our_client(method, &stream), hyper_client(method, &stream))
            }
            _ => continue,
        };
        met.extend(ours.fault.filter(|_| theirs.fault.is_none()));
        if let Err(failure) = compare(&kind, &stream, &ours, &theirs) {
            failures.push(failure.to_string());
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let unmet: Vec<Fault> = STRICTER
        .iter()
        .map(|&(fault, _)| fault)
        .filter(|fault| !met.contains(fault))
        .collect();
    assert!(unmet.is_empty(), "listed, but no vector shows it: {unmet:?}");
}

proptest! {
    #![proptest_config(crate::cut::cases(2_000))]
    #[test]
    fn request_streams(data in crate::cut::http_like()) {
        compare_server(&data[2..])?;
    }

    #[test]
    fn responses(data in crate::cut::http_like()) {
        let method = if data[0] & 1 == 0 { Method::Get } else { Method::Head };
        compare_client(method, &[b"HTTP/1.1 200 OK\r\n", &data[2..]].concat())?;
    }

    #[test]
    fn chunked_requests(data in crate::cut::chunk_like()) {
        let head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        compare_server(&[&head[..], &data[2..]].concat())?;
    }
}
