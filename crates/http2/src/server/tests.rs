//! The server against frames written by hand: errors with their codes, floods, flow control, priorities, memory.

mod abuse;
mod errors;
mod lifecycle;
mod sending;

use super::*;
use crate::error::{Code, Fault};
use crate::frame::{
    self, Frame, HEADER, Header, PREFACE, Prelude, SIZE_MIN, Setting, WINDOW_MAX, flag, kind, write,
};
use crate::hpack::block;
use core::time::Duration;

/// A server with a peer that writes frames by hand.
struct Peer {
    server: Connection,
    now: Instant,
    /// Every event, shortened.
    events: Vec<String>,
    out: Vec<u8>,
}

fn get(path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let pseudo = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", path),
    ];
    for (name, value) in pseudo {
        block::field(name.as_bytes(), value.as_bytes(), &mut out);
    }
    out
}

fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        length: payload.len() as u32,
        kind,
        flags,
        stream,
    };
    [&header.bytes()[..], payload].concat()
}

fn headers(stream: u32, block: &[u8], end: bool) -> Vec<u8> {
    let mut out = Vec::new();
    write::headers(&mut out, stream, block, end, SIZE_MIN);
    out
}

impl Peer {
    fn with(limits: Limits) -> Peer {
        let mut out = Vec::new();
        let now = Instant::ZERO + Duration::from_secs(100);
        let server = Connection::new(Arc::new(limits), now, &mut out);
        let mut peer = Peer {
            server,
            now,
            events: Vec::new(),
            out,
        };
        peer.send(PREFACE);
        peer.send(&raw(kind::SETTINGS, 0, 0, &[]));
        peer.send(&raw(kind::SETTINGS, flag::ACK, 0, &[]));
        peer.out.clear();
        peer
    }

    fn new() -> Peer {
        Peer::with(Limits::DEFAULT)
    }

    fn send(&mut self, mut input: &[u8]) {
        loop {
            let received = self.server.receive(input, self.now, &mut self.out);
            input = &input[received.used..];
            self.events.push(match received.event {
                Event::Partial => return,
                Event::Request {
                    stream, end, control, ..
                } => {
                    let path = control.path.map(String::from_utf8_lossy).unwrap_or_default();
                    format!("request {stream} {path} {end}")
                }
                Event::Body { stream, bytes } => format!("body {stream} {}", bytes.len()),
                Event::Trailers { stream, fields } => format!("trailers {stream} {}", fields.len()),
                Event::Closed(Fault::Connection(code, _)) => {
                    self.events.push(format!("closed {code}"));
                    return;
                }
                other => format!("{other:?}"),
            });
        }
    }

    /// Frames written since the last call.
    fn frames(&mut self) -> Vec<(u8, u32, Vec<u8>)> {
        let (mut rest, mut found) = (&self.out[..], Vec::new());
        while !rest.is_empty() {
            let header = Header::read(rest.first_chunk().unwrap());
            let end = HEADER + header.length as usize;
            found.push((header.kind, header.stream, rest[HEADER..end].to_vec()));
            rest = &rest[end..];
        }
        self.out.clear();
        found
    }

    /// The connection error, or the code of the one stream that was reset.
    fn outcome(&mut self) -> String {
        let mut found = Vec::new();
        for (kind, stream, payload) in self.frames() {
            let code = |at: usize| Code(u32::from_be_bytes(payload[at..at + 4].try_into().unwrap()));
            match kind {
                kind::GOAWAY => found.push(format!("connection {}", code(4))),
                kind::RST_STREAM => found.push(format!("stream {stream} {}", code(0))),
                _ => {}
            }
        }
        found.join(", ")
    }
}
