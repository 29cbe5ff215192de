//! What an operator does while clients send requests through the proxy: a reload, a change of strategy, an upgrade and a stop
//! lose no request, and bodies under way in either direction arrive whole.
//!
//! `proxy_http3_upgrade` does the same for bodies over HTTP/3; `load`, `control` and `upgrade` do the same for files.

use crate::serve::control::ctl;
use crate::serve::files::noise;
use crate::serve::frames::{self, Client};
use crate::serve::load::{LARGE, Load};
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually, signal, within};
use crate::serve::proxy::head;
use crate::serve::proxy_http2::crowd;
use crate::serve::proxy_websocket::{AGREE, ASK};
use crate::serve::tree::Tree;
use crate::serve::upgrade::{ENDING, Line, pid_of};
use crate::serve::wire::{self, Connection, End, find};
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Bytes of a body that is under way, half of which come first.
pub(crate) const HELD: usize = 600_000;

/// Lets bodies that are under way go on.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().expect("no upstream panics") = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        let is_open = self.is_open.lock().expect("no upstream panics");
        let waited = self
            .opened
            .wait_timeout_while(is_open, ENDING, |is_open| !*is_open);
        drop(waited.expect("no upstream panics"));
    }
}

#[derive(Default)]
struct Shared {
    gate: Gate,
    /// Responses that were sent whole.
    answered: AtomicU64,
    /// Bytes that arrived of request bodies for `/held`.
    uploaded: AtomicU64,
}

/// An upstream whose responses name it in `X-Origin`. It has `/a.txt`, `/large.bin` and `/held`, whose second half waits for the
/// gate, repeats what is posted to `/echo` and `/held`, and switches to an echo at `/chat`.
pub(crate) struct Origin {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

impl Origin {
    pub(crate) fn new(name: &'static str) -> Origin {
        let shared = Arc::<Shared>::default();
        let of_upstream = Arc::clone(&shared);
        let (large, held) = (noise(LARGE), noise(HELD));
        let url = crowd(move |stream| {
            let mut reader = BufReader::new(&*stream);
            // A connection ends in order or, once its server is gone, with a reset.
            while let Some((request, body)) = receive(&mut reader, &of_upstream) {
                let content = match &*request {
                    "GET /chat" => {
                        let _ = (&*stream).write_all(AGREE);
                        // Until the proxy closes.
                        let _ = std::io::copy(&mut reader, &mut &*stream);
                        return;
                    }
                    "GET /a.txt" => b"a",
                    "GET /large.bin" => &large[..],
                    "GET /held" => &held,
                    "POST /echo" | "POST /held" => &body,
                    other => panic!("{other}"),
                };
                let (first, second) = match &*request {
                    "GET /held" => content.split_at(HELD / 2),
                    _ => (content, &b""[..]),
                };
                let length = content.len();
                let mut sent = write!(
                    &*stream,
                    "HTTP/1.1 200 OK\r\nX-Origin: {name}\r\nContent-Length: {length}\r\n\r\n"
                );
                sent = sent.and_then(|()| (&*stream).write_all(first));
                if !second.is_empty() {
                    of_upstream.gate.wait();
                    sent = sent.and_then(|()| (&*stream).write_all(second));
                }
                if sent.is_err() {
                    return;
                }
                of_upstream.answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        Origin { url, shared }
    }

    fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Bytes that arrived of request bodies for `/held`.
    pub(crate) fn uploaded(&self) -> u64 {
        self.shared.uploaded.load(Ordering::Relaxed)
    }

    /// Sends the second halves for `/held`.
    pub(crate) fn open_gate(&self) {
        self.shared.gate.open();
    }
}

/// The next request: method and path, and the body. `None` at the end of the connection, also within a request.
fn receive(reader: &mut impl Read, shared: &Shared) -> Option<(String, Vec<u8>)> {
    let head = head(reader);
    if !head.ends_with("\r\n\r\n") {
        return None;
    }
    let request = head.split(" HTTP/1.1\r\n").next()?.to_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse())
    });
    let mut left = length.map_or(0, |length| length.expect("a length"));
    let (mut body, mut part) = (Vec::new(), [0; 4_096]);
    while left > 0 {
        let most = left.min(part.len());
        let count = reader.read(&mut part[..most]).ok().filter(|&count| count > 0)?;
        body.extend_from_slice(&part[..count]);
        left -= count;
        if request == "POST /held" {
            shared.uploaded.fetch_add(count as u64, Ordering::Relaxed);
        }
    }
    Some((request, body))
}

/// A configuration that passes everything to one upstream at a time.
struct Config {
    tree: Tree,
    socket: PathBuf,
    /// Landlock allows the ports that were named at the start. These are of a rule without requests.
    others: String,
}

impl Config {
    /// The first of these upstreams has all requests.
    fn of(origins: &[&Origin]) -> Config {
        let tree = Tree::new();
        let urls: Vec<String> = origins
            .iter()
            .map(|origin| format!("\"{}\"", origin.url))
            .collect();
        let config = Config {
            socket: tree.join("control"),
            others: urls.join(", "),
            tree,
        };
        config.set(origins[0]);
        config
    }

    fn set(&self, origin: &Origin) {
        let text = format!(
            "root = \"{}\"\nhttp2 = \"all\"\ncontrol = \"{}\"\ngrace = \"60s\"\nbody-timeout = \"5m\"\n\
             [[proxy]]\npath = \"/unused/*\"\nupstreams = [{}]\n\
             [[proxy]]\npath = \"*\"\nupstreams = [\"{}\"]\nretries = 0\nfirst-byte-timeout = \"5m\"\n\
             idle-timeout = \"5m\"\n",
            self.tree.path().display(),
            self.socket.display(),
            self.others,
            origin.url
        );
        self.tree.replace("weir.toml", text);
    }

    fn start(&self, strategy: Strategy) -> Server {
        let file = self.tree.join("weir.toml");
        Launch::new(strategy)
            .args(["--config".as_ref(), file.as_os_str()])
            .start()
    }

    /// Runs `weir ctl`, which has to succeed.
    fn ctl(&self, arguments: &[&str]) {
        let (code, said) = ctl(&self.socket, arguments);
        assert_eq!(code, 0, "{said}");
    }

    /// Makes another upstream the only one, by a reload, and waits until requests reach it.
    fn switch_to(&self, origin: &Origin, name: &str, address: SocketAddr) {
        self.set(origin);
        self.ctl(&["reload"]);
        eventually("the new upstream", || {
            let answer = Connection::open(address).get("/a.txt");
            assert_eq!((answer.status, answer.text().as_str()), (200, "a"));
            (answer.must("X-Origin") == name).then_some(())
        });
    }
}

/// Strategies that can follow each other in one process, and have a proxy.
fn others(strategy: Strategy) -> impl Iterator<Item = Strategy> {
    let all = [
        Strategy::ONE_LOOP,
        Strategy::LOOPS_URING,
        Strategy::LOOPS,
        Strategy::ONE_LOOP_URING,
    ];
    let is_other =
        move |other: &Strategy| (other.concurrency, other.io) != (strategy.concurrency, strategy.io);
    all.into_iter()
        .filter(is_other)
        .filter(|other| other.is_possible())
}

fn change(config: &Config, to: Strategy) {
    let workers = to.workers.to_string();
    config.ctl(&["strategy", to.concurrency, "--io", to.io, "--workers", &workers]);
}

fn a_reload_loses_no_request(strategy: Strategy) {
    let (first, second) = (Origin::new("first"), Origin::new("second"));
    let config = Config::of(&[&first, &second]);
    let mut server = config.start(strategy);
    let load = Load::through(server.address);
    load.go_on(50);
    for (origin, name) in [(&second, "second"), (&first, "first"), (&second, "second")] {
        config.switch_to(origin, name, server.address);
        load.go_on(50);
    }
    let answered = load.end();
    assert!(answered >= 200, "{answered}");
    assert!(first.answered() >= 100 && second.answered() >= 100);
    assert!(first.answered() + second.answered() >= answered);
    assert_eq!(server.stop(), 0, "{}", server.stderr());
}

fn an_upgrade_loses_no_request(strategy: Strategy) {
    let origin = Origin::new("first");
    let config = Config::of(&[&origin]);
    let mut line = Line::of(config.start(strategy));
    let load = Load::through(line.first.address);
    load.go_on(100);
    for _ in 0..2 {
        line.upgrade();
        load.go_on(100);
    }
    let answered = load.end();
    assert!((300..=origin.answered()).contains(&answered), "{answered}");
    line.stop();
}

fn a_stop_loses_no_request(strategy: Strategy) {
    let origin = Origin::new("first");
    let mut server = Config::of(&[&origin]).start(strategy);
    let load = Load::through(server.address);
    load.go_on(50);
    let answered = load.end_with(|| server.signal("TERM"));
    assert!((50..=origin.answered()).contains(&answered), "{answered}");
    assert_eq!(server.wait(), 0, "{}", server.stderr());
}

#[test]
fn a_change_of_strategy_loses_no_request() {
    let origin = Origin::new("first");
    let config = Config::of(&[&origin]);
    let mut server = config.start(Strategy::LOOPS);
    let load = Load::through(server.address);
    load.go_on(50);
    for to in others(Strategy::LOOPS).chain([Strategy::LOOPS]) {
        change(&config, to);
        load.go_on(100);
    }
    let answered = load.end();
    assert!((150..=origin.answered()).contains(&answered), "{answered}");
    assert_eq!(server.stop(), 0, "{}", server.stderr());
}

/// A download and an upload over HTTP/1.1, and both over HTTP/2: half of each has passed, and the rest waits. And a connection that
/// has switched to WebSocket.
struct UnderWay {
    down: Connection,
    up: Connection,
    chat: Connection,
    streams: Client<TcpStream>,
    down_stream: u32,
    up_stream: u32,
    held: Vec<u8>,
}

impl UnderWay {
    fn begin(server: &Server, origin: &Origin) -> UnderWay {
        let held = noise(HELD);
        let (half, length) = (HELD / 2, HELD.to_string());
        let (mut down, mut up) = (server.connect(), server.connect());
        down.send(wire::head("GET", "/held", &[("Connection", "close")]));
        up.send(wire::head(
            "POST",
            "/held",
            &[("Content-Length", &length), ("Connection", "close")],
        ));
        up.send(&held[..half]);
        let mut chat = server.connect();
        chat.send(ASK.replace("/api/chat", "/chat"));
        assert_eq!(chat.receive("GET").status, 101);
        chat.send("before");
        assert_eq!(chat.exactly(6), b"before");
        let mut streams = frames::connect(server);
        let down_stream = streams.ask("/held");
        let post = [(":method", "POST"), ("content-length", &*length)];
        let up_stream = streams.open("/held", &post, false);
        assert!(streams.send_body(up_stream, &held[..half]));
        assert!(streams.run(|client| client.got[&down_stream].body.len() == half));
        eventually("half of the content at the client", || {
            // What is peeked at stays for later.
            let mut part = vec![0; HELD];
            let length = down.stream().peek(&mut part).expect("a response");
            (length > 0).then_some(())
        });
        eventually("half of the uploads at the upstream", || {
            (origin.uploaded() == 2 * half as u64).then_some(())
        });
        UnderWay {
            down,
            up,
            chat,
            streams,
            down_stream,
            up_stream,
            held,
        }
    }

    /// Lets all of them go on, and expects them to arrive whole from the upstream at which they began.
    fn finish(mut self, origin: &Origin, name: &str) {
        origin.open_gate();
        let second = &self.held[HELD / 2..];
        self.up.send(second);
        assert!(
            self.streams.send_body(self.up_stream, second),
            "{:?}",
            self.streams.left
        );
        self.streams.end(self.up_stream, &[]);
        self.chat.send("after");
        assert_eq!(self.chat.exactly(5), b"after");
        self.chat.finish();
        self.chat.expect_close();
        for stream in [self.down_stream, self.up_stream] {
            let got = self.streams.end_of(stream);
            assert_eq!((got.status, got.field("x-origin")), (200, Some(name)));
            let length = got.body.len();
            assert!(self.streams.is_200(stream, &self.held), "{length} bytes");
        }
        for mut connection in [self.down, self.up] {
            let (got, end) = connection.rest();
            let head_length = find(&got, b"\r\n\r\n").expect("a head") + 4;
            let (head, body) = got.split_at(head_length);
            let head = String::from_utf8_lossy(head);
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            assert!(head.contains(&format!("\r\nX-Origin: {name}\r\n")), "{head}");
            assert!(
                body == self.held && end == End::Closed,
                "{} bytes, {end:?}",
                body.len()
            );
        }
    }
}

fn bodies_under_way_outlive_a_reload(strategy: Strategy) {
    let (first, second) = (Origin::new("first"), Origin::new("second"));
    let config = Config::of(&[&first, &second]);
    let mut server = config.start(strategy);
    let under_way = UnderWay::begin(&server, &first);
    config.switch_to(&second, "second", server.address);
    under_way.finish(&first, "first");
    assert_eq!(server.stop(), 0, "{}", server.stderr());
}

fn bodies_under_way_outlive_an_upgrade(strategy: Strategy) {
    let (first, second) = (Origin::new("first"), Origin::new("second"));
    let config = Config::of(&[&first, &second]);
    let mut line = Line::of(config.start(strategy));
    let under_way = UnderWay::begin(&line.first, &first);
    config.set(&second);
    signal(line.newest, "USR2");
    line.newest = pid_of(&line.next_start());
    eventually("the old one leaves", || {
        line.first.stderr().contains("stopping").then_some(())
    });
    // Until it has closed its sockets, the old one still takes some.
    eventually("the new one answers", || {
        let answer = line.first.connect().get("/a.txt");
        assert_eq!((answer.status, answer.text().as_str()), (200, "a"));
        (answer.must("X-Origin") == "second").then_some(())
    });
    assert!(
        line.first.has_ended().is_none(),
        "the old one waits for its clients"
    );
    under_way.finish(&first, "first");
    let status = within(ENDING, "the old one ends", || line.first.has_ended());
    assert_eq!(status.code(), Some(0), "{}", line.first.stderr());
    assert_eq!(line.first.connect().get("/a.txt").must("X-Origin"), "second");
    line.stop();
}

#[test]
fn bodies_under_way_outlive_a_change_of_strategy() {
    for from in [Strategy::LOOPS, Strategy::LOOPS_URING, Strategy::ONE_LOOP] {
        if !from.is_possible() {
            continue;
        }
        let origin = Origin::new("first");
        let config = Config::of(&[&origin]);
        let mut server = config.start(from);
        let under_way = UnderWay::begin(&server, &origin);
        for to in others(from) {
            change(&config, to);
            assert_eq!(server.connect().get("/a.txt").text(), "a");
        }
        under_way.finish(&origin, "first");
        assert_eq!(server.stop(), 0, "{}", server.stderr());
    }
}

macro_rules! where_sessions_dial {
    ($($name:ident),* $(,)?) => {
        on_strategy!(loops, LOOPS: $($name),*);
        on_strategy!(one_loop, ONE_LOOP: $($name),*);
        on_strategy!(process_loops, PROCESS_LOOPS: $($name),*);
        on_strategy!(loops_uring, LOOPS_URING: $($name),*);
    };
}

where_sessions_dial!(
    a_reload_loses_no_request,
    an_upgrade_loses_no_request,
    a_stop_loses_no_request,
    bodies_under_way_outlive_a_reload,
    bodies_under_way_outlive_an_upgrade,
);
