//! The client's end of a connection.

use crate::config::Config;
use crate::session::rig::Rig;
use ::http2::client::{Connection, Event};
use ::http2::hpack::block;
use ::http2::priority::Priority;
use ::http2::{Code, Limits};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What came over a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Got {
    /// Statuses, interim ones included.
    pub(super) statuses: Vec<u16>,
    /// Fields of the last head, in order, without pseudo-fields.
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) has_ended: bool,
    pub(super) reset: Option<Code>,
}

impl Got {
    pub(super) fn status(&self) -> u16 {
        *self.statuses.last().expect("a head")
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(known, _)| known == name);
        field.map(|(_, value)| &**value)
    }
}

/// A client, with the server that it talks to.
pub(super) struct Peer {
    pub(super) rig: Rig,
    pub(super) http: Connection,
    pub(super) got: BTreeMap<u32, Got>,
    /// Streams in the order in which they ended.
    pub(super) ended: Vec<u32>,
    /// Whether GOAWAY came.
    pub(super) is_left: bool,
    /// Bytes of the server's output that were taken.
    taken: usize,
    input: Vec<u8>,
    /// Whether windows are given back as content arrives.
    pub(super) consumes: bool,
}

impl Peer {
    pub(super) fn new() -> Peer {
        Peer::with(|_| {})
    }

    pub(super) fn with(configure: impl FnOnce(&mut Config)) -> Peer {
        Peer::limited(configure, Limits::DEFAULT)
    }

    /// A client with these limits of its own.
    pub(super) fn limited(configure: impl FnOnce(&mut Config), limits: Limits) -> Peer {
        let mut rig = Rig::with(configure);
        rig.agree_on_http2();
        Peer::of(rig, limits)
    }

    /// A client of the connection of this rig.
    pub(super) fn of(rig: Rig, limits: Limits) -> Peer {
        let mut up = Vec::new();
        let http = Connection::new(Arc::new(limits), rig.now, &mut up);
        let mut peer = Peer {
            rig,
            http,
            got: BTreeMap::new(),
            ended: Vec::new(),
            is_left: false,
            taken: 0,
            input: Vec::new(),
            consumes: true,
        };
        peer.send(&up);
        peer
    }

    /// Sends bytes, and takes what comes in return until nothing does.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.rig.send(bytes);
        self.take();
    }

    /// Takes what the server has sent.
    pub(super) fn take(&mut self) {
        while self.taken < self.rig.out.len() {
            self.input.extend_from_slice(&self.rig.out[self.taken..]);
            self.taken = self.rig.out.len();
            let up = self.read();
            self.rig.send(&up);
        }
    }

    fn read(&mut self) -> Vec<u8> {
        let (input, mut used, mut up) = (std::mem::take(&mut self.input), 0, Vec::new());
        loop {
            let received = self.http.receive(&input[used..], self.rig.now, &mut up);
            used += received.used;
            let mut consumed = None;
            match received.event {
                Event::Partial => break,
                Event::Response {
                    stream,
                    end,
                    status,
                    fields,
                } => {
                    let got = self.got.entry(stream).or_default();
                    got.statuses.push(status);
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    got.fields = fields
                        .iter()
                        .filter(|(name, _)| !name.starts_with(b":"))
                        .map(|(name, value)| (text(name), text(value)))
                        .collect();
                    got.has_ended |= end;
                    self.ended.extend(end.then_some(stream));
                }
                Event::Body { stream, bytes } => {
                    self.got.entry(stream).or_default().body.extend_from_slice(bytes);
                    consumed = Some((stream, bytes.len() as u32));
                }
                Event::End { stream } | Event::Trailers { stream, .. } => {
                    self.got.entry(stream).or_default().has_ended = true;
                    self.ended.push(stream);
                }
                Event::Reset { stream, code } => self.got.entry(stream).or_default().reset = Some(code),
                Event::GoAway { .. } => self.is_left = true,
                other => panic!("{other:?}"),
            }
            if let Some((stream, bytes)) = consumed.filter(|_| self.consumes) {
                self.http.consumed(stream, bytes, &mut up);
            }
        }
        self.input = input[used..].to_vec();
        up
    }

    /// Writes the head of a request. `fields` are in addition to those that every request has.
    pub(super) fn ask(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        end: bool,
    ) -> (u32, Vec<u8>) {
        let mut head = Vec::new();
        let always = [
            (":method", method),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", path),
        ];
        for (name, value) in always.iter().chain(fields) {
            block::field(name.as_bytes(), value.as_bytes(), &mut head);
        }
        let mut up = Vec::new();
        let is_head = method == "HEAD";
        let stream = self
            .http
            .request(&head, end, is_head, Priority::DEFAULT, &mut up)
            .unwrap();
        (stream, up)
    }

    /// Sends a request without a body, and returns what came over its stream.
    pub(super) fn get(&mut self, method: &str, path: &str, fields: &[(&str, &str)]) -> Got {
        let (stream, up) = self.ask(method, path, fields, true);
        self.send(&up);
        self.got.get(&stream).cloned().unwrap_or_default()
    }

    /// Sends `body` on a stream, with its end.
    pub(super) fn send_body(&mut self, stream: u32, body: &[u8]) {
        self.http.ready(stream, body.len() as u64).unwrap();
        self.http.finish(stream).unwrap();
        let mut rest = body;
        loop {
            let mut up = Vec::new();
            while let Some(piece) = self.http.next(20_000, self.rig.now, &mut up) {
                up.extend_from_slice(&rest[..piece.bytes]);
                rest = &rest[piece.bytes..];
            }
            if up.is_empty() {
                return;
            }
            self.send(&up);
        }
    }

    /// Cancels a stream.
    pub(super) fn cancel(&mut self, stream: u32) {
        self.cancel_all(&[stream]);
    }

    /// Cancels streams at once.
    pub(super) fn cancel_all(&mut self, streams: &[u32]) {
        let mut up = Vec::new();
        for stream in streams {
            self.http.reset(*stream, Code::CANCEL, &mut up);
        }
        self.send(&up);
    }

    /// Drops what came so far.
    pub(super) fn forget(&mut self) {
        self.take();
        self.got.clear();
        self.ended.clear();
        self.rig.out.clear();
        self.taken = 0;
    }
}
