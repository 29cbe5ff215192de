//! Answers one request over and over from the proxy's cache, or from a file, in each version of HTTP, without socket or clock.
//! Meant for an instruction counter:
//!
//! ```text
//! cargo build --profile dist -p server --example stored
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/dist/examples/stored http2-stored 100000
//! ```
//!
//! The difference between two runs of different length is the cost of a request; `benches/instructions` computes it. The content
//! is 1 KiB. `looked-up` is `stored` without known requests (`fresh-head`): each is routed, and looked up in the cache.

use bytes::Bytes;
use http2::hpack;
use http3::{qpack, varint};
use runtime::session::{Job as _, PeerEvent, Secured, Ticket};
use runtime::streams::{Input, Transport, Wanted};
use runtime::{Accepted, Action, Context as _, Event, Session as _, Tx, streams};
use server::config::Config;
use server::site::Source;
use server::{Cx, Server, Session, Work};
use units::{Duration, Instant, Seed, UnixTime};

static PAGE: [u8; 1024] = [b'x'; 1024];
static FILES: [(&str, &[u8]); 1] = [("/1k.bin", &PAGE)];

const FIELDS: [(&str, &str); 6] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "127.0.0.1:8443"),
    (":path", "/1k.bin"),
    ("user-agent", "h2load nghttp2/1.52.0"),
    ("accept", "*/*"),
];
const HTTP1: &str = "GET /1k.bin HTTP/1.1\r\nHost: 127.0.0.1:8443\r\nUser-Agent: h2load nghttp2/1.52.0\r\nAccept: */*\r\n\r\n";
/// The connection preface of HTTP/2, SETTINGS and its acknowledgment, and a window of the connection for every response.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \0\0\0\x04\0\0\0\0\0\
    \0\0\0\x04\x01\0\0\0\0\
    \0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0";
/// Requests before the count: the upstream answers the first, and the third is known.
const WARM: u64 = 4;
const RULE: &str = "path = '/*'\nupstreams = ['http://127.0.0.1:1']\ncache = true\n";
const WALL: UnixTime = UnixTime::from_secs(1_000_000_000);

/// A worker, and what it wants of its driver.
struct Worker {
    server: Server,
    cx: Cx,
    now: Instant,
    turns: u64,
    asked: Vec<Ticket>,
    bytes: u64,
}

impl Worker {
    /// Time passes. As in an event loop with many ready connections, a turn has several events.
    fn pass(&mut self) {
        self.now = self.now + Duration::from_micros(7);
        self.turns += 1;
        if self.turns.is_multiple_of(64) {
            self.cx.turn(self.now, WALL);
        }
    }

    /// The response of the upstream.
    fn response() -> Vec<u8> {
        let head = "HTTP/1.1 200 OK\r\nDate: Sun, 09 Sep 2001 01:46:40 GMT\r\nContent-Type: application/octet-stream\r\n\
            Cache-Control: max-age=3600\r\nContent-Length: 1024\r\n\r\n";
        [head.as_bytes(), &PAGE].concat()
    }
}

/// A connection of one version of HTTP.
trait Connection {
    /// Sends the next request, and takes the whole response.
    fn ask(&mut self, worker: &mut Worker);

    /// Something happened to the connection to the upstream.
    fn upstream(&mut self, worker: &mut Worker, ticket: Ticket, event: PeerEvent<'_>);

    fn close(&mut self, worker: &mut Worker);
}

/// HTTP/1.1 or HTTP/2.
struct Bytestream {
    session: Session,
    tx: Tx,
    input: Vec<u8>,
    /// Stream of the next request, in HTTP/2.
    stream: Option<u32>,
}

impl Bytestream {
    fn open(worker: &mut Worker, is_http2: bool) -> Bytestream {
        let peer = Accepted::at_first("127.0.0.1:4711".parse().expect("an address"));
        let session = runtime::Service::accept(&worker.server, &mut worker.cx, &peer, worker.now);
        let mut connection = Bytestream {
            session: session.expect("no limit is reached"),
            tx: Tx::default(),
            input: HTTP1.into(),
            stream: is_http2.then_some(1),
        };
        if is_http2 {
            let mut block = Vec::new();
            for (name, value) in FIELDS {
                hpack::block::field(name.as_bytes(), value.as_bytes(), &mut block);
            }
            // HEADERS with END_HEADERS and END_STREAM (RFC 9113 section 6.2).
            connection.input = vec![0, 0, block.len() as u8, 1, 5, 0, 0, 0, 0];
            connection.input.append(&mut block);
            let secured = Secured {
                protocol: Some(b"h2"),
                ..Secured::default()
            };
            connection.event(worker, Event::Secured(secured));
            connection.event(worker, Event::Bytes(PREFACE));
        }
        connection
    }

    fn event(&mut self, worker: &mut Worker, event: Event<'_, Work>) {
        let (cx, tx, now) = (&mut worker.cx, &mut self.tx, worker.now);
        self.session.handle(cx, event, tx, now);
        loop {
            let done = match self.session.poll(cx, tx, now) {
                Action::Start(ticket, job) => Event::Done(ticket, job.run()),
                Action::Wait(job) => Event::Done(Ticket::ONLY, job.run()),
                Action::Peer => {
                    let asked = tx.asked.take().expect("what it asks for");
                    worker.asked.push(asked.0);
                    continue;
                }
                Action::Write | Action::Duplex { .. } if !tx.is_empty() => {
                    worker.bytes += tx.head.len() as u64;
                    tx.clear();
                    Event::Sent
                }
                Action::Read | Action::Duplex { .. } => return,
                action => panic!("the session wants {action:?}"),
            };
            self.session.handle(cx, done, tx, now);
        }
    }
}

impl Connection for Bytestream {
    fn ask(&mut self, worker: &mut Worker) {
        if let Some(stream) = &mut self.stream {
            self.input[5..9].copy_from_slice(&stream.to_be_bytes());
            *stream += 2;
        }
        let input = std::mem::take(&mut self.input);
        self.event(worker, Event::Bytes(&input));
        self.input = input;
    }

    fn upstream(&mut self, worker: &mut Worker, ticket: Ticket, event: PeerEvent<'_>) {
        self.event(worker, Event::Peer(ticket, event));
    }

    fn close(&mut self, worker: &mut Worker) {
        self.session.closed(&mut worker.cx, worker.now);
    }
}

/// HTTP/3.
struct Streams<S> {
    session: S,
    wire: Wire,
    stream: u64,
}

/// A transport whose peer takes everything at once.
struct Wire {
    request: Vec<u8>,
    is_unread: bool,
    bytes: u64,
}

impl Transport for Wire {
    fn read(&mut self, _: u64, take: &mut dyn FnMut(&[u8])) -> Input {
        if !std::mem::take(&mut self.is_unread) {
            return Input::Gone;
        }
        take(&self.request);
        Input::End
    }

    fn write(&mut self, _: u64, bytes: &[u8]) -> Option<usize> {
        self.bytes += bytes.len() as u64;
        Some(bytes.len())
    }

    fn write_shared(&mut self, stream: u64, bytes: &mut Bytes) -> Option<usize> {
        let taken = self.write(stream, bytes);
        bytes.clear();
        taken
    }

    fn finish(&mut self, _: u64) {}

    fn reset(&mut self, stream: u64, code: u64) {
        panic!("stream {stream} is reset with {code}");
    }

    fn was_reset(&mut self, _: u64) -> Option<u64> {
        None
    }

    fn stop(&mut self, stream: u64, code: u64) {
        panic!("stream {stream} is stopped with {code}");
    }

    fn open(&mut self) -> Option<u64> {
        Some(3)
    }

    fn close(&mut self, code: u64, reason: &str) {
        panic!("closed with {code}: {reason}");
    }

    fn room(&self) -> usize {
        16 << 10
    }
}

/// Opens a connection of HTTP/3.
fn open_streams(worker: &mut Worker) -> Box<dyn Connection> {
    let peer = "127.0.0.1:4711".parse().expect("an address");
    let session = streams::Service::accept(&worker.server, &mut worker.cx, peer, worker.now);
    let mut block = Vec::new();
    qpack::block::begin(&mut block);
    for (name, value) in FIELDS {
        qpack::block::field(name.as_bytes(), value.as_bytes(), &mut block);
    }
    // A HEADERS frame (RFC 9114 section 7.2.2).
    let mut request = vec![1];
    varint::put(block.len() as u64, &mut request);
    request.append(&mut block);
    let mut connection = Streams {
        session: session.expect("no limit is reached"),
        wire: Wire {
            request,
            is_unread: false,
            bytes: 0,
        },
        stream: 0,
    };
    connection.event(worker, streams::Event::Connected(Secured::default()));
    Box::new(connection)
}

impl<S: streams::Session<Cx = Cx>> Streams<S> {
    fn event(&mut self, worker: &mut Worker, event: streams::Event<'_, Work>) {
        let (cx, wire, now) = (&mut worker.cx, &mut self.wire, worker.now);
        self.session.handle(cx, event, wire, now);
        while let Some(wanted) = self.session.poll(cx, wire, now) {
            match wanted {
                Wanted::Peer(ticket, _) => worker.asked.push(ticket),
                Wanted::Job(ticket, job) => {
                    let done = streams::Event::Done(ticket, job.run());
                    self.session.handle(cx, done, wire, now);
                }
            }
        }
        worker.bytes += std::mem::take(&mut self.wire.bytes);
    }
}

impl<S: streams::Session<Cx = Cx>> Connection for Streams<S> {
    fn ask(&mut self, worker: &mut Worker) {
        let stream = self.stream;
        self.stream += 4;
        self.wire.is_unread = true;
        self.event(worker, streams::Event::Opened(stream));
        self.event(worker, streams::Event::Readable(stream));
        self.event(worker, streams::Event::Finished(stream));
    }

    fn upstream(&mut self, worker: &mut Worker, ticket: Ticket, event: PeerEvent<'_>) {
        self.event(worker, streams::Event::Peer(ticket, event));
    }

    fn close(&mut self, worker: &mut Worker) {
        self.session.closed(&mut worker.cx, worker.now);
    }
}

/// Sends so many requests.
fn ask(worker: &mut Worker, connection: &mut dyn Connection, count: u64) {
    for _ in 0..count {
        worker.pass();
        connection.ask(worker);
        if let Some(&ticket) = worker.asked.first() {
            worker.asked.clear();
            connection.upstream(worker, ticket, PeerEvent::Connected);
            connection.upstream(worker, ticket, PeerEvent::Sent);
            connection.upstream(worker, ticket, PeerEvent::Bytes(&Worker::response()));
            worker.asked.clear();
        }
    }
}

fn main() {
    const USAGE: &str = "usage: stored http1-static|http1-stored|http1-looked-up|http2-static|http2-stored|http2-looked-up|\
        http3-static|http3-stored|http3-looked-up [COUNT]";
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_default();
    let count: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let Some((version @ ("http1" | "http2" | "http3"), way @ ("static" | "stored" | "looked-up"))) =
        kind.split_once('-')
    else {
        return println!("{USAGE}");
    };
    let mut config = Config::default();
    if way != "static" {
        config.proxy.push(toml::from_str(RULE).expect("a rule"));
    }
    config.behavior.fresh_head = way == "looked-up";
    let source = Source::Embedded {
        files: &FILES,
        modified: UnixTime::from_secs(784_111_777),
    };
    let server = match Server::open(config, source, None, Seed(1)) {
        Ok(server) => server,
        Err(error) => return eprintln!("{error}"),
    };
    let now = Instant::from_nanos(1_000_000_000);
    let mut cx = runtime::Service::context(&server, 0);
    cx.turn(now, WALL);
    let mut worker = Worker {
        server,
        cx,
        now,
        turns: 0,
        asked: Vec::new(),
        bytes: 0,
    };
    // A connection whose first requests are the ones to count: others have been passed on.
    for count in [WARM, count] {
        let mut connection = match version {
            "http3" => open_streams(&mut worker),
            _ => Box::new(Bytestream::open(&mut worker, version == "http2")),
        };
        ask(&mut worker, &mut *connection, count);
        connection.close(&mut worker);
    }
    println!("{count} requests, {} bytes", worker.bytes);
}
