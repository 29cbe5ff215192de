//! Connections to upstreams that serve several requests: which requests share one, what ends one, and what a client gets if
//! an upstream closes one at the wrong moment.

use crate::serve::on_strategy;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::proxy::{Upstream, request};
use crate::serve::tree::Tree;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request at an upstream: the number of its connection, its own number on that, and its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) connection: usize,
    pub(crate) number: usize,
    pub(crate) text: String,
}

/// An upstream whose connections persist. It keeps what it gets.
pub(crate) struct Keeper {
    pub(crate) url: String,
    got: Arc<Mutex<Vec<Got>>>,
    opened: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Keeper {
    /// Each request is left to `serve`, which returns whether the connection persists.
    pub(crate) fn new(serve: impl Fn(&mut TcpStream, &Got) -> bool + Send + Sync + 'static) -> Keeper {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let keeper = Keeper {
            url: format!("http://{}", listener.local_addr().expect("its address")),
            got: Arc::default(),
            opened: Arc::default(),
            ended: Arc::default(),
        };
        let (got, opened, ended) = (
            Arc::clone(&keeper.got),
            Arc::clone(&keeper.opened),
            Arc::clone(&keeper.ended),
        );
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                let connection = opened.fetch_add(1, Ordering::SeqCst);
                let (got, serve, ended) = (Arc::clone(&got), Arc::clone(&serve), Arc::clone(&ended));
                std::thread::spawn(move || {
                    for number in 0.. {
                        let text = request(&mut stream);
                        if !text.ends_with('\n') && !text.contains("\r\n\r\n") {
                            break;
                        }
                        let one = Got {
                            connection,
                            number,
                            text,
                        };
                        got.lock().expect("no test panics here").push(one.clone());
                        if !serve(&mut stream, &one) {
                            break;
                        }
                    }
                    drop(stream);
                    ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        keeper
    }

    /// Answers each request with its target.
    fn echoing() -> Keeper {
        Keeper::new(|stream, got| {
            answer(stream, got);
            true
        })
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().expect("no upstream panics").clone()
    }

    pub(crate) fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }

    fn eventually_ended(&self, count: usize) {
        eventually("the end of a connection at the upstream", || {
            (self.ended() >= count).then_some(())
        });
    }
}

fn target(got: &Got) -> &str {
    got.text.split(' ').nth(1).unwrap_or_default()
}

fn answer(stream: &mut TcpStream, got: &Got) {
    let target = target(got);
    let length = target.len();
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{target}"
    );
}

fn tree() -> Tree {
    Tree::with(&[("a.txt", "a file")])
}

/// A server of one event loop, as each keeps connections of its own.
fn launch(strategy: Strategy, tree: &Tree, table: &str) -> Server {
    let text = format!(
        "root = \"{}\"\nhttp2 = \"all\"\n[[proxy]]\npath = \"/api/*\"\n{table}\n",
        tree.path().display()
    );
    let config = tree.write("weir.toml", text);
    let one = Strategy {
        workers: 1,
        ..strategy
    };
    Launch::new(one)
        .args(["--config".as_ref(), config.as_os_str()])
        .start()
}

fn upstreams(of: &[&str]) -> String {
    format!("upstreams = [\"{}\"]", of.join("\", \""))
}

/// A request is answered with its path.
fn expect_echo(server: &Server, method: &str, path: &str) {
    let got = server.connect().request(method, path, &[("Content-Length", "0")]);
    assert_eq!((got.status, got.text().as_str()), (200, path), "{method}");
}

fn requests_of_many_clients_share_a_connection(strategy: Strategy) {
    let tree = tree();
    let upstream = Keeper::echoing();
    let server = launch(strategy, &tree, &upstreams(&[&upstream.url]));
    let mut connection = server.connect();
    for number in 0..5 {
        let path = format!("/api/{number}");
        assert_eq!(connection.get(&path).text(), path);
        expect_echo(&server, "DELETE", &format!("/api/other/{number}"));
        assert_eq!(connection.get("/a.txt").text(), "a file");
    }
    let mut client = crate::serve::frames::connect(&server);
    for number in 0..5 {
        let path = format!("/api/h2/{number}");
        assert_eq!(client.get(&path, &[]).text(), path);
    }
    assert_eq!(upstream.opened(), 1);
    let got = upstream.got();
    assert_eq!(got.len(), 15);
    for one in &got {
        assert!(!one.text.contains("onnection:"), "{}", one.text);
    }
    assert_eq!(got[14].number, 14);
    // A request that must not be repeated has a connection of its own, which is kept afterwards.
    expect_echo(&server, "POST", "/api/post");
    assert_eq!(upstream.opened(), 2);
    for number in 0..3 {
        expect_echo(&server, "GET", &format!("/api/more/{number}"));
    }
    assert_eq!(upstream.opened(), 2);
    assert_eq!(upstream.ended(), 0);
}

fn responses_that_end_the_connection_are_not_followed(strategy: Strategy) {
    const ANSWERS: [&[u8]; 4] = [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        b"HTTP/1.1 200 OK\r\nWWW-Authenticate: Negotiate\r\nContent-Length: 2\r\n\r\nok",
    ];
    let tree = tree();
    let upstream = Keeper::new(|stream, got| {
        let _ = stream.write_all(ANSWERS[got.connection % ANSWERS.len()]);
        true
    });
    let server = launch(strategy, &tree, &upstreams(&[&upstream.url]));
    let mut connection = server.connect();
    for count in 1..=ANSWERS.len() {
        assert_eq!(connection.get("/api/").text(), "ok");
        upstream.eventually_ended(count);
    }
    assert_eq!(upstream.opened(), ANSWERS.len());
    let upstream = Keeper::echoing();
    let table = format!("keepalive = 0\n{}", upstreams(&[&upstream.url]));
    let server = launch(strategy, &tree, &table);
    for number in 1..4 {
        expect_echo(&server, "GET", "/api/x");
        upstream.eventually_ended(number);
        assert_eq!(upstream.opened(), number);
    }
    for got in upstream.got() {
        assert!(got.text.contains("\r\nConnection: close\r\n"), "{}", got.text);
    }
}

/// What an idle connection brings answers nobody's request.
fn an_idle_connection_that_receives_anything_is_closed(strategy: Strategy) {
    for stir in [
        &b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 4\r\n\r\nevil"[..],
        b"",
    ] {
        let tree = tree();
        let (go, wait): (Sender<()>, Receiver<()>) = channel();
        let wait = Mutex::new(wait);
        let upstream = Keeper::new(move |stream, got| {
            answer(stream, got);
            if got.connection > 0 {
                return true;
            }
            // The client has its response.
            wait.lock().expect("no panic").recv().expect("the test goes on");
            let _ = stream.write_all(stir);
            if stir.is_empty() {
                let _ = stream.shutdown(std::net::Shutdown::Write);
            }
            // Until the proxy has closed it.
            let _ = stream.read_to_end(&mut Vec::new());
            false
        });
        let server = launch(strategy, &tree, &upstreams(&[&upstream.url]));
        expect_echo(&server, "GET", "/api/first");
        assert_eq!(upstream.ended(), 0);
        go.send(()).expect("the upstream waits");
        upstream.eventually_ended(1);
        for number in 0..4 {
            expect_echo(&server, "GET", &format!("/api/{number}"));
        }
        assert_eq!(upstream.opened(), 2);
    }
}

/// The upstream closes a connection just when a request arrives: the client notices nothing, and no request that may change
/// something is sent twice.
fn a_race_with_the_upstreams_keep_alive_is_not_an_error(strategy: Strategy) {
    for resets in [false, true] {
        let tree = tree();
        let upstream = Keeper::new(move |stream, got| {
            if got.number == 0 {
                answer(stream, got);
                return true;
            }
            if resets {
                // As a close with input unread does.
                let _ = socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO));
            }
            false
        });
        let table = format!("max-failures = 1\n{}", upstreams(&[&upstream.url]));
        let server = launch(strategy, &tree, &table);
        let mut connection = server.connect();
        for number in 0..10 {
            let path = format!("/api/{number}");
            let got = connection.get(&path);
            assert_eq!((got.status, got.text()), (200, path), "{number}");
            expect_echo(&server, "POST", &format!("/api/post/{number}"));
        }
        let mut client = crate::serve::frames::connect(&server);
        for number in 0..10 {
            let path = format!("/api/h2/{number}");
            let got = client.get(&path, &[]);
            assert_eq!((got.status, got.text()), (200, path), "{number}");
        }
        let got = upstream.got();
        let of = |path: &str| got.iter().filter(|one| target(one) == path).count();
        assert!((0..10).all(|number| of(&format!("/api/post/{number}")) == 1));
        // Nearly every other request met a connection that had served one.
        let repeated = (0..10)
            .filter(|number| of(&format!("/api/{number}")) == 2)
            .count();
        assert!(repeated >= 9, "{repeated}");
        assert!(!server.stderr().contains("upstream "), "{}", server.stderr());
    }
}

fn idle_connections_have_bounds(strategy: Strategy) {
    let tree = tree();
    let (go, wait): (Sender<()>, Receiver<()>) = channel();
    let wait = Mutex::new(wait);
    let upstream = Keeper::new(move |stream, got| {
        if got.number == 0 {
            wait.lock().expect("no panic").recv().expect("the test goes on");
        }
        answer(stream, got);
        true
    });
    let table = format!(
        "keepalive = 2\nkeepalive-time = \"1s\"\n{}",
        upstreams(&[&upstream.url])
    );
    let server = launch(strategy, &tree, &table);
    let mut clients: Vec<_> = (0..5).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /api/x HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    eventually("five requests at the upstream", || {
        (upstream.got().len() == 5).then_some(())
    });
    (0..5).for_each(|_| go.send(()).expect("the upstream waits"));
    for client in &mut clients {
        assert_eq!(client.receive("GET").text(), "/api/x");
    }
    // More than two are closed soon, and those in time.
    upstream.eventually_ended(3);
    upstream.eventually_ended(5);
    assert_eq!(upstream.opened(), 5);
    go.send(()).expect("the upstream waits");
    expect_echo(&server, "GET", "/api/x");
    assert_eq!(upstream.opened(), 6);
}

/// An upstream that dies is no reason for an error while another one lives, for requests that may be repeated.
fn another_upstream_answers_what_one_did_not(strategy: Strategy) {
    let tree = tree();
    let good = Keeper::echoing();
    let silent = Keeper::new(|stream, _| {
        let _ = stream.read(&mut [0]);
        false
    });
    for (bad, timeout) in [
        (Upstream::answering(b"").url, "60s"),
        // Longer than the other one takes on a busy machine.
        (silent.url.clone(), "1s"),
    ] {
        let table = format!(
            "balance = \"round-robin\"\nmax-failures = 0\nfirst-byte-timeout = \"{timeout}\"\n{}",
            upstreams(&[&bad, &good.url])
        );
        let server = launch(strategy, &tree, &table);
        let mut connection = server.connect();
        for number in 0..6 {
            let path = format!("/api/{number}");
            assert_eq!(connection.get(&path).text(), path);
        }
        let mut client = crate::serve::frames::connect(&server);
        for number in 0..6 {
            let path = format!("/api/{number}");
            assert_eq!(client.get(&path, &[]).text(), path);
        }
        assert!(server.stderr().contains("upstream "), "the failures are logged");
        let failed = |connection: &mut crate::serve::wire::Connection| {
            let statuses = (0..4).map(|_| {
                connection
                    .request("POST", "/api/", &[("Content-Length", "0")])
                    .status
            });
            statuses.filter(|status| *status != 200).count()
        };
        assert_eq!(failed(&mut connection), 2, "a POST is sent once");
        let server = launch(strategy, &tree, &format!("retries = 0\n{table}"));
        let mut connection = server.connect();
        let statuses: Vec<u16> = (0..4).map(|_| connection.get("/api/").status).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 2);
    }
}

/// An outage is not made worse by repeating every request.
fn retries_have_a_budget(strategy: Strategy) {
    let tree = tree();
    let (bad, worse) = (Upstream::answering(b""), Upstream::answering(b""));
    let table = format!("max-failures = 0\n{}", upstreams(&[&bad.url, &worse.url]));
    let server = launch(strategy, &tree, &table);
    let mut connection = server.connect();
    for _ in 0..100 {
        assert_eq!(connection.get("/api/").status, 502);
    }
    let sent = bad.all().len() + worse.all().len();
    // Ten that were saved, and a tenth.
    assert!((115..=120).contains(&sent), "{sent}");
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
    requests_of_many_clients_share_a_connection,
    responses_that_end_the_connection_are_not_followed,
    an_idle_connection_that_receives_anything_is_closed,
    a_race_with_the_upstreams_keep_alive_is_not_an_error,
    idle_connections_have_bounds,
    another_upstream_answers_what_one_did_not,
    retries_have_a_budget,
);
