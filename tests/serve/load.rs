//! What an operator does while clients ask without a pause: a reload and a stop lose no request, whatever the
//! strategy. (A change of strategy is looked at in `control`, an upgrade in `upgrade`, requests for upstreams in `proxy_load`.)
//!
//! Lost is a request that gets no whole answer. Of a server that stops, those sent before the stop are owed one; a
//! later one may find the connection closed without a byte of an answer, on which RFC 9112 section 9.3.1 has the client
//! ask again elsewhere, and every client does.

use crate::serve::files::noise;
use crate::serve::frames::Client;
use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, head};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of `large.bin`, and of what is posted.
pub(crate) const LARGE: usize = 300_000;

/// What the load asks for, below `site`.
pub(crate) fn tree() -> Tree {
    let tree = Tree::with(&[("site/a.txt", "a")]);
    tree.write("site/large.bin", noise(LARGE));
    tree
}

/// Threads that ask without a pause until they are told to stop, or the server stops. Every request must be answered.
pub(crate) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// The server is told to stop: who asks from now on is owed nothing, but may not get half an answer.
    stopping: AtomicBool,
    answered: AtomicU64,
    /// Closed in good order before a byte of the answer, and asked again.
    asked_again: AtomicU64,
}

/// What a client of the load wants.
#[derive(Clone, Copy)]
enum Want {
    Small,
    Large,
    ConnectionEach,
    /// A large body, which the response repeats.
    Echo,
    /// All of these over HTTP/2, several at a time on one connection.
    Streams,
}

impl Load {
    /// Two clients for each kind of request for a file.
    pub(crate) fn on(address: SocketAddr) -> Load {
        Load::of(&[Want::Small, Want::Large, Want::ConnectionEach], address)
    }

    /// The same for a proxy whose upstream has these files, and repeats what is posted to `/echo`. The proxy also speaks
    /// HTTP/2 in cleartext.
    pub(crate) fn through(address: SocketAddr) -> Load {
        let files = [Want::Small, Want::Large, Want::ConnectionEach];
        Load::of(&[&files[..], &[Want::Echo, Want::Streams]].concat(), address)
    }

    fn of(wants: &[Want], address: SocketAddr) -> Load {
        let shared = Arc::new(Shared::default());
        let threads = wants
            .iter()
            .cycle()
            .take(2 * wants.len())
            .map(|&want| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || match want {
                    Want::Streams => shared.stream_until_told(address),
                    _ => shared.ask_until_told(want, address),
                })
            })
            .collect();
        Load { shared, threads }
    }

    /// Waits for so many more answers.
    pub(crate) fn go_on(&self, answers: u64) {
        let answered = || self.shared.answered.load(Ordering::Relaxed);
        let from = answered();
        eventually("more answers", || {
            let failed = self.threads.iter().any(JoinHandle::is_finished);
            (failed || answered() >= from + answers).then_some(())
        });
    }

    /// Stops it: how many were answered.
    pub(crate) fn end(self) -> u64 {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.wait()
    }

    /// Lets it go on until the server that `stop` stops is gone.
    pub(crate) fn end_with(self, stop: impl FnOnce()) -> u64 {
        self.shared.stopping.store(true, Ordering::SeqCst);
        stop();
        self.wait()
    }

    fn wait(self) -> u64 {
        for thread in self.threads {
            thread.join().expect("no request is lost");
        }
        let answered = self.shared.answered.load(Ordering::Relaxed);
        let again = self.shared.asked_again.load(Ordering::Relaxed);
        println!("{answered} answered, {again} of them asked again on another connection");
        answered
    }
}

impl Shared {
    fn ask_until_told(&self, want: Want, address: SocketAddr) {
        let large = noise(LARGE);
        let mut kept: Option<Connection> = None;
        while !self.stop.load(Ordering::Relaxed) {
            let Some(mut connection) = kept.take().or_else(|| self.connect(address)) else {
                return;
            };
            let length = LARGE.to_string();
            let request = match want {
                Want::Small => head("GET", "/a.txt", &[]).into_bytes(),
                Want::Large => head("GET", "/large.bin", &[]).into_bytes(),
                Want::ConnectionEach => head("GET", "/a.txt", &[("Connection", "close")]).into_bytes(),
                Want::Echo | Want::Streams => {
                    let head = head("POST", "/echo", &[("Content-Length", &length)]);
                    [head.as_bytes(), &large].concat()
                }
            };
            let sent = connection.try_send(request);
            let is_owed = !self.stopping.load(Ordering::SeqCst);
            let Some(answer) = sent.then(|| connection.try_receive("GET")).flatten() else {
                assert!(
                    !is_owed,
                    "closed without an answer, to a request of before the stop"
                );
                self.asked_again.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            assert_eq!(answer.status, 200, "{:?}", answer.fields);
            match want {
                Want::Small | Want::ConnectionEach => assert_eq!(answer.text(), "a"),
                Want::Large | Want::Echo | Want::Streams => {
                    assert!(answer.body == large, "{} bytes", answer.body.len());
                }
            }
            self.answered.fetch_add(1, Ordering::Relaxed);
            if !answer.closes() {
                kept = Some(connection);
            }
        }
    }

    /// Asks over HTTP/2, and on another connection once the server has said that it leaves this one.
    fn stream_until_told(&self, address: SocketAddr) {
        let large = noise(LARGE);
        let length = LARGE.to_string();
        let mut kept: Option<Client<TcpStream>> = None;
        while !self.stop.load(Ordering::Relaxed) {
            let Some(mut client) = kept.take().or_else(|| self.dial(address).map(Client::new)) else {
                return;
            };
            let wanted = [
                ("/a.txt", &b"a"[..]),
                ("/large.bin", &large),
                ("/a.txt", b"a"),
                ("/echo", &large),
            ];
            let asked = wanted.map(|(path, content)| {
                let post = [(":method", "POST"), ("content-length", &length)];
                let has_body = path == "/echo";
                let fields = if has_body { &post[..] } else { &[] };
                let stream = client.open(path, fields, !has_body);
                // A server that leaves may take no more.
                if has_body && client.send_body(stream, content) {
                    client.end(stream, &[]);
                }
                (stream, content)
            });
            let is_owed = !self.stopping.load(Ordering::SeqCst);
            let is_open = client.run(|client| {
                let mut all = asked.iter();
                all.all(|&(stream, _)| client.is_over(stream) || client.is_refused(stream))
            });
            for (stream, content) in asked {
                let got = &client.got[&stream];
                if got.has_ended {
                    let length = got.body.len();
                    assert!(client.is_200(stream, content), "{} {length} bytes", got.status);
                    self.answered.fetch_add(1, Ordering::Relaxed);
                } else {
                    let is_lost = got.status != 0 || is_owed && !client.is_refused(stream);
                    assert!(
                        !is_lost,
                        "stream {stream}: {} {} bytes, {:?}; {:?}, last {:?}",
                        got.status,
                        got.body.len(),
                        got.reset,
                        client.left,
                        client.last
                    );
                    self.asked_again.fetch_add(1, Ordering::Relaxed);
                }
            }
            client.got.clear();
            if is_open && client.left.is_none() {
                kept = Some(client);
            }
        }
    }

    fn connect(&self, address: SocketAddr) -> Option<Connection> {
        self.dial(address).map(Connection::over)
    }

    /// None if the server is stopping and takes nobody any more.
    fn dial(&self, address: SocketAddr) -> Option<TcpStream> {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                Some(stream)
            }
            Err(_) if self.stopping.load(Ordering::SeqCst) => None,
            Err(error) => panic!("no connection to a server that was not told to stop: {error}"),
        }
    }
}

fn a_reload_loses_no_request(strategy: Strategy) {
    let tree = tree();
    let config = tree.write("weir.toml", "root = 'site'\nheader = ['X-Version: 0']\n");
    let mut server = Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let load = Load::on(server.address);
    load.go_on(50);
    for version in ["1", "2", "3"] {
        tree.write(
            "weir.toml",
            format!("root = 'site'\nheader = ['X-Version: {version}']\n"),
        );
        server.signal("HUP");
        eventually("the new configuration", || {
            (server.connect().get("/a.txt").must("X-Version") == version).then_some(())
        });
        load.go_on(50);
    }
    assert!(load.end() >= 200);
    assert_eq!(server.stop(), 0, "{}", server.stderr());
}

fn a_stop_loses_no_request(strategy: Strategy) {
    let tree = tree();
    let mut server = Server::of(strategy, &tree.join("site"));
    let load = Load::on(server.address);
    load.go_on(50);
    let answered = load.end_with(|| server.signal("TERM"));
    assert!(answered >= 50, "{answered}");
    assert_eq!(server.wait(), 0, "{}", server.stderr());
}

/// Whoever asks without a pause learns of a stop from an answer, not from a connection that is closed under the next request.
fn who_asks_all_the_time_is_told_of_a_stop(strategy: Strategy) {
    /// A fifth of what the server waits for a further question.
    const PROMPT: Duration = Duration::from_millis(50);
    let tree = tree();
    let mut server = Server::of(strategy, &tree.join("site"));
    let answered = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let (mut connection, answered) = (server.connect(), Arc::clone(&answered));
            std::thread::spawn(move || {
                let mut last = Instant::now();
                loop {
                    let is_sent = connection.try_send(head("GET", "/a.txt", &[]));
                    match is_sent.then(|| connection.try_receive("GET")).flatten() {
                        Some(answer) if answer.closes() => return,
                        Some(answer) => assert_eq!(answer.text(), "a"),
                        None if last.elapsed() > PROMPT => {
                            println!(
                                "skipped: this machine let {:?} pass between two questions",
                                last.elapsed()
                            );
                            return;
                        }
                        None => panic!("closed without a word {:?} after an answer", last.elapsed()),
                    }
                    last = Instant::now();
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    eventually("answers", || {
        (answered.load(Ordering::Relaxed) >= 30).then_some(())
    });
    server.signal("TERM");
    for client in clients {
        client.join().expect("a client that is told");
    }
    assert_eq!(server.wait(), 0, "{}", server.stderr());
}

/// Workers that hold one connection at a time, and more connections than workers.
#[test]
fn who_waits_when_it_stops_is_answered() {
    for strategy in [
        Strategy::POOL,
        Strategy::PROCESSES,
        Strategy::PER_CONNECTION,
        Strategy::PER_REQUEST,
    ] {
        let strategy = Strategy {
            workers: 1,
            ..strategy
        };
        println!("{strategy:?}");
        let tree = tree();
        tree.write("site/huge.bin", noise(24 << 20));
        let mut server = Server::of(strategy, &tree.join("site"));
        let mut busy = server.connect();
        busy.send(head("GET", "/huge.bin", &[]));
        assert_eq!(busy.exactly(8), b"HTTP/1.1", "the answer has begun");
        let mut waiting: Vec<_> = (0..3)
            .map(|_| {
                let mut connection = server.connect();
                connection.send(head("GET", "/a.txt", &[]));
                connection
            })
            .collect();
        server.signal("TERM");
        eventually("it stops", || server.stderr().contains("stopping").then_some(()));
        let (rest, _) = busy.rest();
        assert!(rest.len() > 24 << 20);
        for connection in &mut waiting {
            assert_eq!(connection.receive("GET").text(), "a");
        }
        assert_eq!(server.wait(), 0, "{}", server.stderr());
    }
}

on_every_strategy!(
    a_reload_loses_no_request,
    a_stop_loses_no_request,
    who_asks_all_the_time_is_told_of_a_stop,
);
