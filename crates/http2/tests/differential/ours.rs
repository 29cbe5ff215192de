//! Our end over a pipe, in either role.

use crate::pipe::{End, drive};
use crate::plan::{By, Exchange, HINT, Lines, Message, Seen};
use http2::connection::{Client, Connection, Server};
use http2::hpack::{Fields, block};
use http2::priority::Priority;
use http2::server::Event;
use http2::{Code, Limits, client, server};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::DuplexStream;
use units::{Instant, Rng};

const NOW: Instant = Instant::ZERO;

/// Clients whose dynamic table was emptied before their last request.
pub(crate) static EMPTIED: AtomicU32 = AtomicU32::new(0);

/// A message on its way out: its exchange and bytes of the body written.
struct Flow {
    exchange: usize,
    sent: usize,
    ended: bool,
}

/// Our end of a connection.
pub(crate) struct Ours<R> {
    connection: Connection<R>,
    role: By,
    plan: Arc<Vec<Exchange>>,
    flows: BTreeMap<u32, Flow>,
    exchange_of: BTreeMap<u32, usize>,
    /// Of each exchange, as far as it got.
    pub(crate) seen: Vec<Seen>,
    opened: usize,
    /// The peer's SETTINGS have arrived. Our client waits for them: where `h2` announces a small window, what was sent
    /// before stalls, as it forgets WINDOW_UPDATE for bytes consumed before our acknowledgment.
    greeted: bool,
    out: Vec<u8>,
}

fn pairs(lines: &Lines) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
}

fn blocked<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        block::field(name, value, &mut out);
    }
    out
}

fn regular(fields: &Fields) -> Lines {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("the plan is ASCII");
    let regular = fields.iter().filter(|(name, _)| !name.starts_with(b":"));
    regular.map(|(name, value)| (text(name), text(value))).collect()
}

/// The message this end sends, and the bytes of its body that it sends: half of them before its reset.
fn outgoing(exchange: &Exchange, role: By) -> (&Message, usize, bool) {
    let message = match role {
        By::Client => &exchange.request,
        By::Server => &exchange.response,
    };
    let reset = exchange.reset == Some(role);
    let bytes = if reset {
        message.body.len() / 2
    } else {
        message.body.len()
    };
    (message, bytes, reset)
}

/// What one call of `receive` did.
struct Step {
    used: usize,
    /// More input is needed.
    partial: bool,
    /// The stream of the event, and whether its message is complete.
    reached: Option<(u32, bool)>,
}

impl Ours<Client> {
    pub(crate) fn client(limits: Limits, plan: Arc<Vec<Exchange>>) -> Ours<Client> {
        let mut out = Vec::new();
        Ours::with(
            client::Connection::new(Arc::new(limits), NOW, &mut out),
            By::Client,
            plan,
            out,
        )
    }

    /// Opens the next request, if the server permits one.
    fn open(&mut self) {
        let Some(exchange) = self.plan.get(self.opened).filter(|_| self.greeted) else {
            return;
        };
        let (path, end) = (format!("/{}", self.opened), exchange.request.is_head_only());
        let pseudo = [
            (&b":method"[..], &b"POST"[..]),
            (b":scheme", b"http"),
            (b":authority", b"a"),
            (b":path", path.as_bytes()),
        ];
        let fields = pseudo.into_iter().chain(pairs(&exchange.request.fields));
        let (connection, out) = (&mut self.connection, &mut self.out);
        let opened = match self.opened % 2 {
            0 => connection.request(&blocked(fields), end, false, Priority::DEFAULT, out),
            _ => connection.request_with(&[], fields, end, false, Priority::DEFAULT, out),
        };
        if let Ok(stream) = opened {
            self.exchange_of.insert(stream, self.opened);
            self.began(stream, self.opened, end);
            self.opened += 1;
        }
    }

    fn is_done(&self) -> bool {
        self.opened == self.plan.len() && self.connection.streams() == 0 && self.out.is_empty()
    }

    /// Runs until every exchange has ended.
    pub(crate) async fn run(mut self, io: DuplexStream, rng: Rng) -> Vec<Seen> {
        drive(io, rng, &mut self).await;
        self.seen
    }
}

impl Ours<Server> {
    pub(crate) fn server(limits: Limits, plan: Arc<Vec<Exchange>>) -> Ours<Server> {
        let mut out = Vec::new();
        Ours::with(
            server::Connection::new(Arc::new(limits), NOW, &mut out),
            By::Server,
            plan,
            out,
        )
    }

    fn respond(&mut self, stream: u32) {
        let at = self.exchange_of[&stream];
        let exchange = &self.plan[at];
        let (connection, out) = (&mut self.connection, &mut self.out);
        for _ in 0..exchange.hints {
            let hint = [
                (&b":status"[..], &b"103"[..]),
                (HINT.0.as_bytes(), HINT.1.as_bytes()),
            ];
            let informed = connection.inform(stream, &blocked(hint.into_iter()), out);
            informed.expect("the request has just arrived");
        }
        let mut head = Vec::new();
        block::status(exchange.status, &mut head);
        let (fields, end) = (pairs(&exchange.response.fields), exchange.response.is_head_only());
        let responded = match at % 2 {
            0 => connection.respond(stream, &[head, blocked(fields)].concat(), end, out),
            _ => connection.respond_with(stream, &head, fields, end, out),
        };
        responded.expect("the request has just arrived");
        self.began(stream, at, end);
    }

    /// Answers each request at once or when it is complete; runs until the client closes.
    pub(crate) async fn run(mut self, io: DuplexStream, rng: Rng) -> Vec<Seen> {
        drive(io, rng, &mut self).await;
        self.seen
    }
}

impl End for Ours<Client> {
    fn fill(&mut self) -> bool {
        self.open();
        self.pull();
        self.is_done()
    }

    fn take(&mut self, input: &[u8]) -> usize {
        let mut used = 0;
        loop {
            let step = self.step(&input[used..]);
            used += step.used;
            if step.partial {
                self.greeted |= used > 0;
                return used;
            }
        }
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

impl End for Ours<Server> {
    fn fill(&mut self) -> bool {
        self.pull();
        if self.connection.streams() == 0 {
            // It is idle for no time, which is long enough here: a large table of the client is emptied at once.
            self.connection.trim(NOW);
            let before = self.out.len();
            let expired = self.connection.expire(NOW, &mut self.out, |_, _| {});
            expired.expect("nothing else is due");
            if self.out.len() > before && self.exchange_of.len() < self.plan.len() {
                EMPTIED.fetch_add(1, Ordering::Relaxed);
            }
        }
        false
    }

    fn take(&mut self, input: &[u8]) -> usize {
        let mut used = 0;
        loop {
            let step = self.step(&input[used..]);
            used += step.used;
            if let Some((stream, complete)) = step.reached {
                let exchange = &self.plan[self.exchange_of[&stream]];
                let waits = !self.flows.contains_key(&stream) && self.connection.priority(stream).is_some();
                if waits && (exchange.early || complete) {
                    self.respond(stream);
                }
            }
            if step.partial {
                return used;
            }
        }
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

impl<R> Ours<R> {
    fn with(connection: Connection<R>, role: By, plan: Arc<Vec<Exchange>>, out: Vec<u8>) -> Ours<R> {
        Ours {
            connection,
            role,
            seen: vec![Seen::default(); plan.len()],
            plan,
            flows: BTreeMap::new(),
            exchange_of: BTreeMap::new(),
            opened: 0,
            greeted: false,
            out,
        }
    }

    /// The head was sent: the body is ready, or half of it if we reset.
    fn began(&mut self, stream: u32, exchange: usize, ended: bool) {
        let flow = Flow {
            exchange,
            sent: 0,
            ended,
        };
        self.flows.insert(stream, flow);
        if ended {
            return;
        }
        let (message, bytes, reset) = outgoing(&self.plan[exchange], self.role);
        let ready = self.connection.ready(stream, bytes as u64);
        ready.expect("its head was sent");
        if message.trailers.is_empty() && !reset {
            self.connection.finish(stream).expect("it is not finished");
        }
        self.settle(stream);
    }

    /// Behind the last byte of a body: trailers or a reset.
    fn settle(&mut self, stream: u32) {
        let flow = self.flows.get_mut(&stream).expect("its message has begun");
        let (message, bytes, reset) = outgoing(&self.plan[flow.exchange], self.role);
        if flow.ended || flow.sent < bytes {
            return;
        }
        if reset {
            self.connection.reset(stream, self.role.code(), &mut self.out);
            flow.ended = true;
        } else if !message.trailers.is_empty() {
            let block = blocked(pairs(&message.trailers));
            let sent = self.connection.trailers(stream, &block, &mut self.out);
            sent.expect("all bytes were sent");
            flow.ended = true;
        }
    }

    /// Writes bodies while there is little output.
    fn pull(&mut self) {
        while self.out.len() < 40_000 {
            let Some(piece) = self.connection.next(20_000, NOW, &mut self.out) else {
                return;
            };
            let flow = self.flows.get_mut(&piece.stream).expect("it has a body");
            let (message, ..) = outgoing(&self.plan[flow.exchange], self.role);
            self.out
                .extend_from_slice(&message.body[flow.sent..flow.sent + piece.bytes]);
            flow.sent += piece.bytes;
            flow.ended = piece.last;
            self.settle(piece.stream);
        }
    }

    /// Takes one event.
    fn step(&mut self, input: &[u8]) -> Step {
        let received = self.connection.receive(input, NOW, &mut self.out);
        let mut consumed = 0;
        let mut partial = false;
        let reached = match received.event {
            Event::Partial => {
                partial = true;
                None
            }
            // `h2` says farewell when its last handle is dropped.
            Event::GoAway {
                code: Code::NO_ERROR, ..
            } => None,
            Event::Request {
                stream,
                end,
                control,
                fields,
            } => {
                let path = core::str::from_utf8(&control.path.expect("not CONNECT")[1..]).expect("digits");
                let at = path.parse().expect("the index of the exchange");
                self.exchange_of.insert(stream, at);
                self.seen[at].head = Some((0, regular(fields)));
                self.seen[at].complete = end;
                Some((stream, end))
            }
            Event::Response {
                stream,
                end,
                status,
                fields,
            } => {
                let seen = &mut self.seen[self.exchange_of[&stream]];
                if status == 103 {
                    assert_eq!(regular(fields), [(HINT.0.to_owned(), HINT.1.to_owned())]);
                    seen.hints += 1;
                } else {
                    seen.head = Some((status, regular(fields)));
                }
                seen.complete = end;
                Some((stream, end))
            }
            Event::Body { stream, bytes } => {
                self.seen[self.exchange_of[&stream]].body.extend_from_slice(bytes);
                consumed = bytes.len() as u32;
                Some((stream, false))
            }
            Event::Trailers { stream, fields } => {
                let seen = &mut self.seen[self.exchange_of[&stream]];
                (seen.trailers, seen.complete) = (regular(fields), true);
                Some((stream, true))
            }
            Event::End { stream } => {
                self.seen[self.exchange_of[&stream]].complete = true;
                Some((stream, true))
            }
            Event::Reset { stream, code } => {
                let seen = &mut self.seen[self.exchange_of[&stream]];
                // A reset behind a whole message ends only our half.
                seen.reset = Some(code).filter(|_| !seen.complete);
                Some((stream, false))
            }
            other => panic!("{other:?}"),
        };
        let used = received.used;
        if let (Some((stream, _)), 1..) = (reached, consumed) {
            self.connection.consumed(stream, consumed, &mut self.out);
        }
        Step {
            used,
            partial,
            reached,
        }
    }
}
