//! Every error that RFC 9113 names, in sections 3.4 to 8.5, as one table: what is sent, and which connection or stream error
//! answers it. Rows with an empty answer are what the RFC tells a receiver to ignore or accept.

mod frames;
mod messages;
mod responses;
mod states;

use http2::frame::{Frame, HEADER, Header, PREFACE, SIZE_MIN, WINDOW_MAX, flag, kind, parse, write};
use http2::hpack::block;
use http2::priority::Priority;
use http2::server::Event;
use http2::{Code, Limits, client, server};
use std::sync::Arc;
use units::Instant;

/// What happens, in order.
enum Step {
    /// The peer sends these bytes.
    Send(Vec<u8>),
    /// Our server answers the stream, with a body if false.
    Respond(u32, bool),
    /// Our side resets the stream.
    Reset(u32),
}

use Step::{Reset, Respond, Send};

/// One row: section of RFC 9113, what is wrong, steps, the errors sent.
struct Row(&'static str, &'static str, Vec<Step>, &'static str);

const PROTOCOL: &str = "connection PROTOCOL_ERROR";
const SIZE: &str = "connection FRAME_SIZE_ERROR";
const MALFORMED: &str = "stream 1 PROTOCOL_ERROR";
const NONE: &str = "";

/// A frame with a header written by hand.
fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        length: payload.len() as u32,
        kind,
        flags,
        stream,
    };
    [&header.bytes()[..], payload].concat()
}

fn send(frames: &[Vec<u8>]) -> Step {
    Send(frames.concat())
}

fn pairs(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        block::field(name.as_bytes(), value.as_bytes(), &mut out);
    }
    out
}

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a"),
    (":path", "/"),
];

fn get() -> Vec<u8> {
    pairs(&GET)
}

fn headers(stream: u32, block: &[u8], end: bool) -> Vec<u8> {
    let mut out = Vec::new();
    write::headers(&mut out, stream, block, end, SIZE_MIN);
    out
}

/// A request without a body.
fn request(stream: u32) -> Vec<u8> {
    headers(stream, &get(), true)
}

/// A request whose body is still to come.
fn open(stream: u32) -> Vec<u8> {
    headers(stream, &get(), false)
}

fn number(kind: u8, stream: u32, n: u32) -> Vec<u8> {
    raw(kind, 0, stream, &n.to_be_bytes())
}

fn update(stream: u32, n: u32) -> Vec<u8> {
    number(kind::WINDOW_UPDATE, stream, n)
}

fn setting(id: u8, value: u32) -> Vec<u8> {
    raw(
        kind::SETTINGS,
        0,
        0,
        &[&[0, id], &value.to_be_bytes()[..]].concat(),
    )
}

/// One of our ends.
enum End {
    Server(server::Connection),
    Client(client::Connection),
}

/// Runs the steps; returns the errors in the output: GOAWAY with an error, and RST_STREAM.
fn outcome(mut end: End, start: &[u8], steps: &[Step], cut: usize) -> String {
    let (now, mut out) = (Instant::ZERO, Vec::new());
    if let End::Client(client) = &mut end {
        for _ in 0..3 {
            client
                .request(&get(), true, false, Priority::DEFAULT, &mut out)
                .expect("the server has set no limit");
        }
    }
    receive(&mut end, start, usize::MAX, &mut out);
    out.clear();
    for step in steps {
        match (step, &mut end) {
            (Send(bytes), end) => receive(end, bytes, cut, &mut out),
            (Respond(id, last), End::Server(server)) => {
                server
                    .respond(*id, &[0x88], *last, &mut out)
                    .expect("the stream is open");
            }
            (Reset(id), End::Server(server)) => {
                server.reset(*id, Code::CANCEL, &mut out);
                out.clear();
            }
            (Respond(..) | Reset(_), End::Client(_)) => panic!("a step of a server"),
        }
    }
    let fault = match &mut end {
        End::Server(server) => matches!(server.receive(&[], now, &mut out).event, Event::Closed(_)),
        End::Client(client) => matches!(client.receive(&[], now, &mut out).event, Event::Closed(_)),
    };
    let found = errors(&out);
    assert_eq!(fault, found.starts_with("connection"), "{found}");
    found
}

/// Offers `bytes` in pieces of `cut`.
fn receive(end: &mut End, bytes: &[u8], cut: usize, out: &mut Vec<u8>) {
    let mut pending = Vec::new();
    for piece in bytes.chunks(cut.min(bytes.len().max(1))) {
        pending.extend_from_slice(piece);
        let mut used = 0;
        loop {
            let received = match end {
                End::Server(server) => server.receive(&pending[used..], Instant::ZERO, out),
                End::Client(client) => client.receive(&pending[used..], Instant::ZERO, out),
            };
            used += received.used;
            if matches!(received.event, Event::Partial | Event::Closed(_)) {
                break;
            }
        }
        pending.drain(..used);
    }
}

fn errors(mut out: &[u8]) -> String {
    let mut found = Vec::new();
    while let Some(bytes) = out.first_chunk::<HEADER>() {
        let header = Header::read(bytes);
        let (frame, rest) = out[HEADER..].split_at(header.length as usize);
        out = rest;
        if header.kind == kind::DATA {
            continue;
        }
        match parse(header, frame).expect("our frames are valid") {
            Frame::GoAway { code, .. } => found.push(format!("connection {code}")),
            Frame::Reset(code) => found.push(format!("stream {} {code}", header.stream)),
            _ => {}
        }
    }
    found.join(", ")
}

#[test]
fn a_server_answers_errors_as_the_rfc_says() {
    let rows: Vec<Row> = [frames::rows(), states::rows(), messages::rows()]
        .into_iter()
        .flatten()
        .collect();
    let acknowledged = raw(kind::SETTINGS, flag::ACK, 0, &[]);
    let start = [&PREFACE[..], &raw(kind::SETTINGS, 0, 0, &[]), &acknowledged].concat();
    check(&rows, &start, || server_with(Limits::DEFAULT.table_bytes));
    // Section 4.3.1: once the client has acknowledged a lower limit, it must begin a block with the new size.
    let update = [&[0x20][..], &get()].concat();
    for (block, expected) in [(get(), "connection COMPRESSION_ERROR"), (update, NONE)] {
        let steps = [Send(headers(1, &block, true))];
        assert_eq!(outcome(server_with(64), &start, &steps, 5), expected);
    }
}

fn server_with(table_bytes: u32) -> End {
    let limits = Limits {
        streams_max: 3,
        table_bytes,
        ..Limits::DEFAULT
    };
    End::Server(server::Connection::new(
        Arc::new(limits),
        Instant::ZERO,
        &mut Vec::new(),
    ))
}

/// The client has three requests under way: streams 1, 3 and 5.
#[test]
fn a_client_answers_errors_as_the_rfc_says() {
    let start = raw(kind::SETTINGS, 0, 0, &[]);
    check(&responses::rows(), &start, || {
        End::Client(client::Connection::new(
            Arc::default(),
            Instant::ZERO,
            &mut Vec::new(),
        ))
    });
}

/// Every wrong beginning is a connection error of either role (section 3.4).
#[test]
fn a_connection_begins_with_preface_and_settings() {
    let ping = raw(kind::PING, 0, 0, &[0; 8]);
    let acknowledgment = raw(kind::SETTINGS, flag::ACK, 0, &[]);
    for first in [&ping, &acknowledgment] {
        let server = server::Connection::new(Arc::default(), Instant::ZERO, &mut Vec::new());
        let bytes = [&PREFACE[..], first].concat();
        assert_eq!(outcome(End::Server(server), &[], &[Send(bytes)], 5), PROTOCOL);
        let client = client::Connection::new(Arc::default(), Instant::ZERO, &mut Vec::new());
        assert_eq!(
            outcome(End::Client(client), &[], &[Send(first.clone())], 5),
            PROTOCOL
        );
    }
    for at in 0..PREFACE.len() {
        let mut preface = PREFACE.to_vec();
        preface[at] ^= 1;
        let server = server::Connection::new(Arc::default(), Instant::ZERO, &mut Vec::new());
        assert_eq!(outcome(End::Server(server), &[], &[Send(preface)], 5), PROTOCOL);
    }
}

/// Runs every row with its bytes whole and in pieces; names every row that fails.
fn check(rows: &[Row], start: &[u8], end: impl Fn() -> End) {
    let mut wrong = Vec::new();
    for Row(section, text, steps, expected) in rows {
        for cut in [1, 7, usize::MAX] {
            let found = outcome(end(), start, steps, cut);
            if found != *expected {
                wrong.push(format!(
                    "{section} {text}, pieces of {cut}: {found:?}, not {expected:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
