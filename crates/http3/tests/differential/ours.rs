//! The end of this crate, in either role: events noted, messages sent as the plan says, in pieces from a seed.

use crate::plan::{By, Exchange, Lines, Message, Seen, below};
use crate::wire::Quic;
use http3::connection::{Connection, Event, Output};
use http3::qpack::{Fields, block};
use http3::{Code, Fault, client, server};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{Instant, Rng};

const NOW: Instant = Instant::ZERO;

/// A body of ours.
struct Body {
    bytes: Vec<u8>,
    sent: usize,
}

/// What a role does.
pub(crate) trait Role: Sized {
    const ROLE: By;
    fn make(limits: http3::Limits) -> Connection<Self>;
    fn head(connection: &mut Connection<Self>, stream: u64, at: usize, exchange: &Exchange);
}

fn section(pseudo: &[(&str, &str)], fields: &Lines) -> Vec<u8> {
    let mut out = Vec::new();
    block::begin(&mut out);
    for (name, value) in pseudo {
        block::field(name.as_bytes(), value.as_bytes(), &mut out);
    }
    for (name, value) in fields {
        block::field(name.as_bytes(), value.as_bytes(), &mut out);
    }
    out
}

impl Role for http3::connection::Client {
    const ROLE: By = By::Client;

    fn make(limits: http3::Limits) -> client::Connection {
        client::Connection::new(Arc::new(limits))
    }

    fn head(connection: &mut client::Connection, stream: u64, at: usize, exchange: &Exchange) {
        let path = format!("/{at}");
        let pseudo = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "example.org"),
            (":path", &path),
        ];
        let block = section(&pseudo, &exchange.request.fields);
        let priority = http3::priority::Priority::DEFAULT;
        connection
            .request(stream, &block, false, false, priority)
            .expect("nobody leaves");
    }
}

impl Role for http3::connection::Server {
    const ROLE: By = By::Server;

    fn make(limits: http3::Limits) -> server::Connection {
        server::Connection::new(Arc::new(limits))
    }

    fn head(connection: &mut server::Connection, stream: u64, _: usize, exchange: &Exchange) {
        let status = exchange.status.to_string();
        let block = section(&[(":status", &status)], &exchange.response.fields);
        connection
            .respond(stream, &block, false)
            .expect("the request has just come");
    }
}

pub(crate) struct Ours<R> {
    connection: Connection<R>,
    plan: Arc<Vec<Exchange>>,
    pub(crate) seen: Vec<Seen>,
    quic: Quic,
    rng: Rng,
    opened: BTreeSet<u64>,
    /// Exchange of each stream.
    exchanges: BTreeMap<u64, usize>,
    bodies: BTreeMap<u64, Body>,
    finished: usize,
}

fn lines(fields: &Fields) -> Lines {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("the plan is ASCII");
    fields
        .iter()
        .filter(|(name, _)| !name.starts_with(b":"))
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

impl<R: Role> Ours<R> {
    pub(crate) fn new(quic: Quic, limits: http3::Limits, plan: Arc<Vec<Exchange>>, rng: Rng) -> Ours<R> {
        let mut ours = Ours {
            connection: R::make(limits),
            seen: vec![Seen::default(); plan.len()],
            plan,
            quic,
            rng,
            opened: BTreeSet::new(),
            exchanges: BTreeMap::new(),
            bodies: BTreeMap::new(),
            finished: 0,
        };
        if R::ROLE == By::Client {
            for at in 0..ours.plan.len() {
                let stream = 4 * at as u64;
                ours.exchanges.insert(stream, at);
                ours.quic.wire().bidirectional.push_back(stream);
                ours.send(stream);
            }
        }
        ours
    }

    /// Whether every exchange has ended, well or not.
    pub(crate) fn is_done(&self) -> bool {
        self.finished == self.plan.len() && self.connection.streams() == 0
    }

    /// Begins our message of a stream.
    fn send(&mut self, stream: u64) {
        let at = self.exchanges[&stream];
        let plan = self.plan.clone();
        let exchange = &plan[at];
        R::head(&mut self.connection, stream, at, exchange);
        let Message { body, trailers, .. } = exchange.message(R::ROLE);
        let is_reset = exchange.reset == Some(R::ROLE);
        let bytes = if is_reset { body.len() / 2 } else { body.len() };
        self.connection
            .ready(stream, bytes as u64)
            .expect("its head was sent");
        let body = Body {
            bytes: body[..bytes].to_vec(),
            sent: 0,
        };
        self.bodies.insert(stream, body);
        if is_reset {
            return;
        }
        let ended = match trailers.is_empty() {
            true => self.connection.finish(stream),
            false => self.connection.trailers(stream, &section(&[], trailers)),
        };
        ended.expect("it is not finished");
    }

    /// Moves what it can; whether anything moved.
    pub(crate) fn turn(&mut self) -> Result<bool, Fault> {
        let received = self.receive()?;
        Ok(self.write() || received)
    }

    fn receive(&mut self) -> Result<bool, Fault> {
        let ids: Vec<u64> = self.quic.wire().from.keys().copied().collect();
        let mut moved = false;
        for id in ids {
            let is_own = R::ROLE == By::Client && id & 3 == 0;
            if !is_own && self.opened.insert(id) {
                self.connection.open(id, NOW)?;
            }
            let (bytes, fin, reset, stop) = {
                let mut wire = self.quic.wire();
                let stop = wire.to.get_mut(&id).and_then(|lane| lane.stop.take());
                let lane = wire.from.get_mut(&id).expect("listed above");
                let most = 1 + below(&mut self.rng, 5_000) as usize;
                let whole = lane.bytes.len() <= most;
                let bytes: Vec<u8> = lane.bytes.drain(..most.min(lane.bytes.len())).collect();
                let fin = whole && lane.fin && !lane.done;
                lane.done |= fin;
                let reset = lane.reset.filter(|_| lane.bytes.is_empty() && !lane.done);
                lane.done |= reset.is_some();
                (bytes, fin, reset, stop)
            };
            moved |= !bytes.is_empty() || fin || reset.is_some() || stop.is_some();
            if let Some(code) = stop {
                self.connection.peer_stopped(id, Code(code), NOW)?;
            }
            if !bytes.is_empty() || fin {
                self.events(id, &bytes, fin)?;
            }
            if let Some(code) = reset {
                let open = self.connection.peer_reset(id, NOW)?;
                assert!(open, "the plan resets open streams");
                if let Some(&at) = self.exchanges.get(&id) {
                    self.seen[at].reset = Some(Code(code));
                    self.finished += 1;
                }
            }
        }
        Ok(moved)
    }

    fn events(&mut self, id: u64, bytes: &[u8], fin: bool) -> Result<(), Fault> {
        let mut rest = bytes;
        loop {
            let received = self.connection.receive(id, rest, fin, NOW);
            rest = &rest[received.used..];
            let mut ended = false;
            match received.event {
                Event::Partial => return Ok(()),
                Event::Closed(fault) => return Err(fault),
                Event::Request {
                    stream,
                    end,
                    control,
                    fields,
                } => {
                    let path = core::str::from_utf8(control.path.expect("no CONNECT")).expect("ASCII");
                    let at = path[1..].parse().expect("the path is a number");
                    self.exchanges.insert(stream, at);
                    self.seen[at].head = Some((0, lines(fields)));
                    ended = end;
                }
                Event::Response {
                    stream,
                    end,
                    status,
                    fields,
                } => {
                    self.seen[self.exchanges[&stream]].head = Some((status, lines(fields)));
                    ended = end;
                }
                Event::Body { stream, bytes } => {
                    self.seen[self.exchanges[&stream]].body.extend_from_slice(bytes);
                }
                Event::Trailers { stream, fields } => {
                    self.seen[self.exchanges[&stream]].trailers = lines(fields);
                }
                Event::End { .. } => ended = true,
                Event::GoAway { .. } => {}
                Event::Oversized { .. } | Event::Reset { .. } | Event::Resumed { .. } => {
                    panic!("nothing in the plan provokes this")
                }
            }
            if ended {
                let at = self.exchanges[&id];
                self.seen[at].complete = true;
                if R::ROLE == By::Client {
                    self.finished += 1;
                } else {
                    self.send(id);
                }
            }
        }
    }

    fn write(&mut self) -> bool {
        let mut moved = false;
        let blocked: Vec<u64> = self.quic.wire().to.keys().copied().collect();
        for id in blocked {
            self.connection.writable(id);
        }
        while let Some(output) = self.connection.poll() {
            let mut wire = self.quic.wire();
            moved = true;
            let piece = match output {
                Output::Write(piece) => piece,
                Output::Reset { stream, code } => {
                    wire.to.entry(stream).or_default().reset = Some(code.0);
                    continue;
                }
                Output::Stop { stream, code } => {
                    wire.from.entry(stream).or_default().stop = Some(code.0);
                    continue;
                }
            };
            let stream = piece.stream;
            if !wire.to.contains_key(&stream) && stream & 2 != 0 {
                wire.unidirectional.push_back(stream);
            }
            let room = wire.room;
            let lane = wire.to.entry(stream).or_default();
            let all = piece.frames.len() + piece.body as usize;
            let taken = room.saturating_sub(lane.bytes.len()).min(all);
            let frames = taken.min(piece.frames.len());
            lane.bytes.extend_from_slice(&piece.frames[..frames]);
            if let Some(body) = self.bodies.get_mut(&stream) {
                lane.bytes
                    .extend_from_slice(&body.bytes[body.sent..body.sent + taken - frames]);
                body.sent += taken - frames;
            }
            lane.fin |= piece.end && taken == all;
            let is_over = piece.end && taken == all;
            drop(wire);
            self.connection.sent(stream, taken as u64);
            if taken < all {
                self.connection.blocked(stream, NOW);
            }
            self.after(stream, is_over);
        }
        moved
    }

    /// Resets a stream when half of its body was sent; counts the responses of a server.
    fn after(&mut self, stream: u64, is_over: bool) {
        let Some(&at) = self.exchanges.get(&stream) else {
            return;
        };
        if is_over && R::ROLE == By::Server {
            self.finished += 1;
        }
        let body = &self.bodies[&stream];
        if self.plan[at].reset == Some(R::ROLE) && body.sent == body.bytes.len() {
            self.connection.reset(stream, R::ROLE.code());
            self.finished += 1;
        }
    }
}
