//! Every error code of RFC 9114 section 8.1 and RFC 9204 section 6 that a peer can provoke, with the input that provokes it,
//! whole and byte by byte. Each table has the valid neighbors of its errors too.

mod control;
mod messages;
mod qpack;
mod requests;
mod streams;

use http3::connection::{Connection, Event, Output};
use http3::frame::write;
use http3::priority::Priority;
use http3::qpack::block;
use http3::{Code, Fault, Limits, client, server};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Instant;

/// What the peer does. Its streams are opened by their first step.
#[derive(Clone, Debug)]
enum Step {
    /// Bytes of a stream.
    Send(u64, Vec<u8>),
    /// The last bytes of a stream.
    Fin(u64, Vec<u8>),
    /// RESET_STREAM.
    Reset(u64),
    /// STOP_SENDING.
    Stop(u64),
}

use Step::{Fin, Reset, Send, Stop};

/// The peer's control stream and its QPACK streams: the first identifiers of a client; for a server they are one higher.
const CONTROL: u64 = 2;
const ENCODER: u64 = 6;
const DECODER: u64 = 10;
const ANOTHER: u64 = 14;

/// A control stream with empty SETTINGS.
fn settings() -> Step {
    Send(CONTROL, vec![0, 4, 0])
}

/// A frame.
fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write::frame(kind, payload, &mut out);
    out
}

/// HEADERS with these fields, separated by spaces, each `name=value`.
fn headers(fields: &str) -> Vec<u8> {
    let mut section = Vec::new();
    block::begin(&mut section);
    for field in fields.split_whitespace() {
        let (name, value) = field.split_once('=').expect("a field is name=value");
        block::field(name.as_bytes(), value.as_bytes(), &mut section);
    }
    frame(1, &section)
}

const GET: &str = ":method=GET :scheme=https :authority=a :path=/";

fn get() -> Vec<u8> {
    headers(GET)
}

fn ok() -> Vec<u8> {
    headers(":status=200")
}

fn data(bytes: &[u8]) -> Vec<u8> {
    frame(0, bytes)
}

/// Which end is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ours {
    Server,
    Client,
}

/// The limits of the tests: a small dynamic table with one blocked stream.
fn limits() -> Limits {
    Limits {
        table_bytes: 128,
        blocked_max: 1,
        ..Limits::DEFAULT
    }
}

/// Checks each case against a server or client that has sent requests on the streams 0, 4 and 8. `""` stands for no error.
fn check(ours: Ours, cases: &[(&[Step], &str)]) {
    for (steps, expected) in cases {
        for size in [usize::MAX, 1] {
            let found = outcome(ours, limits(), steps, size);
            assert_eq!(&found, expected, "{ours:?}, pieces of {size}: {steps:?}");
        }
    }
}

/// Runs the steps; returns the connection error, otherwise the resets and stops that we send.
fn outcome(ours: Ours, limits: Limits, steps: &[Step], size: usize) -> String {
    let limits = Arc::new(limits);
    match ours {
        Ours::Server => run(server::Connection::new(limits), ours, steps, size),
        Ours::Client => {
            let mut client = client::Connection::new(limits);
            let mut section = Vec::new();
            block::begin(&mut section);
            for field in GET.split_whitespace() {
                let (name, value) = field.split_once('=').expect("a field is name=value");
                block::field(name.as_bytes(), value.as_bytes(), &mut section);
            }
            for stream in [0, 4, 8] {
                let result = client.request(stream, &section, true, false, Priority::DEFAULT);
                result.expect("nobody leaves");
            }
            run(client, ours, steps, size)
        }
    }
}

fn run<R>(mut connection: Connection<R>, ours: Ours, steps: &[Step], size: usize) -> String {
    let now = Instant::ZERO;
    let (mut held, mut found) = (BTreeMap::<u64, (Vec<u8>, bool)>::new(), Vec::new());
    drain(&mut connection, &mut found);
    found.clear();
    for step in steps {
        // The same table of identifiers for both roles.
        let id = match (step, ours) {
            (Send(id, _) | Fin(id, _) | Reset(id) | Stop(id), Ours::Client) if id & 2 != 0 => id + 1,
            (Send(id, _) | Fin(id, _) | Reset(id) | Stop(id), _) => *id,
        };
        let result = match step {
            Send(..) | Fin(..) | Reset(_) => {
                let is_own = ours == Ours::Client && id & 3 == 0;
                if !is_own && !held.contains_key(&id) {
                    held.insert(id, Default::default());
                    connection.open(id, now)
                } else {
                    Ok(())
                }
            }
            // Our own streams are one lower, or one higher.
            Stop(_) if id & 2 != 0 => connection.peer_stopped(id ^ 1, Code::NO_ERROR, now).map(|_| ()),
            Stop(_) => connection.peer_stopped(id, Code::NO_ERROR, now).map(|_| ()),
        };
        let result = result.and_then(|()| match step {
            Send(_, bytes) => feed(&mut connection, &mut held, id, bytes, false, size),
            Fin(_, bytes) => feed(&mut connection, &mut held, id, bytes, true, size),
            Reset(_) => connection.peer_reset(id, now).map(|_| ()),
            Stop(_) => Ok(()),
        });
        if let Err(Fault::Connection(code, _)) = result {
            let again = connection.receive(0, &[], false, now).event;
            assert!(matches!(again, Event::Closed(_)), "the connection stays closed");
            assert!(connection.poll().is_none(), "and writes nothing");
            return format!("connection {code}");
        }
        drain(&mut connection, &mut found);
    }
    found.join(", ")
}

/// Offers bytes of a stream in pieces, and again what waits once it is resumed.
fn feed<R>(
    connection: &mut Connection<R>,
    held: &mut BTreeMap<u64, (Vec<u8>, bool)>,
    id: u64,
    bytes: &[u8],
    fin: bool,
    size: usize,
) -> Result<(), Fault> {
    let mut pieces: Vec<&[u8]> = bytes.chunks(size.min(bytes.len().max(1))).collect();
    if pieces.is_empty() {
        pieces.push(&[]);
    }
    let count = pieces.len();
    for (at, piece) in pieces.into_iter().enumerate() {
        let stream = held.entry(id).or_default();
        stream.0.extend_from_slice(piece);
        stream.1 = fin && at + 1 == count;
        let mut waiting = vec![id];
        while let Some(id) = waiting.pop() {
            loop {
                let (bytes, fin) = held.entry(id).or_default();
                let received = connection.receive(id, bytes, *fin, Instant::ZERO);
                let used = received.used;
                match received.event {
                    Event::Partial => {
                        bytes.drain(..used);
                        break;
                    }
                    Event::Closed(fault) => return Err(fault),
                    Event::Resumed { stream } => waiting.push(stream),
                    _ => {}
                }
                bytes.drain(..used);
            }
        }
    }
    Ok(())
}

/// Takes the output and notes the ends of streams.
fn drain<R>(connection: &mut Connection<R>, found: &mut Vec<String>) {
    while let Some(output) = connection.poll() {
        let (stream, bytes) = match output {
            Output::Write(piece) => (piece.stream, piece.frames.len() as u64 + piece.body),
            Output::Reset { stream, code } => {
                found.push(format!("reset {stream} {code}"));
                continue;
            }
            Output::Stop { stream, code } => {
                found.push(format!("stop {stream} {code}"));
                continue;
            }
        };
        connection.sent(stream, bytes);
    }
}
