//! Upstreams that do not answer, or not to the end: what the access log says about them, and how long Weir waits for a connection
//! and within a response.

use crate::serve::http3::client;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::{GONE, HELLO, Upstream, head, request};
use crate::serve::proxy_h2_strict::Recorder;
use crate::serve::proxy_http2::crowd;
use crate::serve::tls::Pairs;
use crate::serve::tree::Tree;
use crate::serve::wire::End;
use crate::serve::{frames, on_strategy};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

fn tree() -> Tree {
    Tree::with(&[("a.txt", "a file")])
}

fn launch(strategy: Strategy, tree: &Tree, table: &str) -> Server {
    let text = format!(
        "root = \"{}\"\nhttp2 = \"all\"\n[[proxy]]\npath = \"/api/*\"\n{table}\n",
        tree.path().display()
    );
    let config = tree.write("weir.toml", text);
    Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .args(["--access-log=-", "--log-format=json"])
        .start()
}

fn line_with(server: &Server, part: &str) -> String {
    eventually("the line in the log", || {
        let log = server.stdout();
        log.lines().find(|line| line.contains(part)).map(str::to_owned)
    })
}

/// Microseconds that a line gives for its upstream.
fn upstream_us(line: &str, url: &str) -> u64 {
    let address = url.strip_prefix("http://").expect("a URL");
    let start = format!("\"upstream\":\"{address}\",\"upstream_us\":");
    let (_, rest) = line.split_once(&start).unwrap_or_else(|| panic!("{line}"));
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).expect("a number")
}

fn the_log_names_the_upstream_that_failed(strategy: Strategy) {
    let tree = tree();
    let silent = Upstream::new(|stream| {
        let got = request(stream);
        // Until the proxy gives up.
        let _ = stream.read(&mut [0]);
        got
    });
    for (url, status, least) in [
        (GONE.to_owned(), 502, 0),
        (Upstream::answering(b"").url, 502, 0),
        (Upstream::answering(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").url, 502, 0),
        (silent.url.clone(), 504, 300_000),
    ] {
        // A busy machine may be slow with those that are not silent.
        let patience = if status == 504 { "300ms" } else { "60s" };
        let table = format!("upstreams = [\"{url}\"]\nfirst-byte-timeout = \"{patience}\"");
        let server = launch(strategy, &tree, &table);
        assert_eq!(server.connect().get("/api/old").status, status);
        assert_eq!(server.connect().get("/missing").status, 404);
        let mut client = frames::connect(&server);
        assert_eq!(client.get("/api/new", &[]).status, status);
        for path in ["/api/old", "/api/new"] {
            let line = line_with(&server, path);
            assert!(line.contains(&format!("\"status\":{status}")), "{line}");
            let took = upstream_us(&line, &url);
            assert!((least..60_000_000).contains(&took), "{line}");
        }
        let line = line_with(&server, "/missing");
        assert!(!line.contains("upstream"), "{line}");
    }
}

/// A listener that accepts nothing, with as many connections waiting as it takes: the kernel answers no further one.
fn full() -> Option<(String, socket2::Socket, Vec<TcpStream>)> {
    let listener =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    listener
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .expect("a free port");
    listener.listen(0).expect("it listens");
    let address = listener.local_addr().expect("its address").as_socket();
    let address = address.expect("an internet address");
    let mut waiting = Vec::new();
    while waiting.len() < 16 {
        match TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
            Ok(stream) => waiting.push(stream),
            Err(_) => return Some((format!("http://{address}"), listener, waiting)),
        }
    }
    eprintln!("skipped: this kernel accepts connections beyond the queue of a listener");
    None
}

fn a_connection_has_to_open_in_time(strategy: Strategy) {
    let Some((url, _listener, _waiting)) = full() else {
        return;
    };
    let tree = tree();
    let table = format!("upstreams = [\"{url}\"]\nconnect-timeout = \"300ms\"");
    let server = launch(strategy, &tree, &table);
    let mut connection = server.connect();
    for method in ["GET", "POST"] {
        let got = connection.request(method, "/api/old", &[("Content-Length", "0")]);
        assert_eq!(got.status, 504);
        assert!(got.text().contains("did not accept"), "{}", got.text());
    }
    let mut client = frames::connect(&server);
    assert_eq!(client.get("/api/new", &[]).status, 504);
    for path in ["/api/old", "/api/new"] {
        let took = upstream_us(&line_with(&server, path), &url);
        // The driver looks at its timers four times a second.
        assert!((300_000..60_000_000).contains(&took), "{took}");
    }
    eventually("the reason in the log", || {
        server.stderr().contains("within `connect-timeout`").then_some(())
    });
    // Another upstream stands in, for every method.
    let good = Upstream::answering(HELLO);
    let table = format!(
        "upstreams = [\"{url}\", \"{}\"]\nconnect-timeout = \"1s\"",
        good.url
    );
    let server = launch(strategy, &tree, &table);
    let mut connection = server.connect();
    for method in ["GET", "POST", "GET", "POST"] {
        let got = connection.request(method, "/api/", &[("Content-Length", "0")]);
        assert_eq!((got.status, got.text().as_str()), (200, "hello"), "{method}");
    }
}

/// Landlock allows the ports that were named at the start, and the log says what another one needs.
#[test]
fn a_port_that_a_reload_adds_needs_a_restart() {
    let tree = tree();
    let (first, second) = (Upstream::answering(HELLO), Upstream::answering(HELLO));
    let table = |upstream: &Upstream| format!("upstreams = [\"{}\"]", upstream.url);
    let server = launch(Strategy::LOOPS, &tree, &table(&first));
    assert_eq!(server.connect().get("/api/x").text(), "hello");
    if !server.stderr().contains("connects to ports") {
        return println!("skipped: this kernel has no Landlock for TCP connections");
    }
    let text = std::fs::read_to_string(tree.join("weir.toml")).expect("our own file");
    tree.write("weir.toml", text.replace(&table(&first), &table(&second)));
    server.signal("HUP");
    eventually("the new upstream", || {
        (server.connect().get("/api/x").status == 502).then_some(())
    });
    let address = second.url.strip_prefix("http://").expect("a URL");
    eventually("the reason in the log", || {
        let log = server.stderr();
        let mut lines = log.lines();
        lines
            .find(|line| line.contains(&format!("upstream {address}: cannot connect: Permission denied")))
            .filter(|line| line.contains("restart Weir if a reload added this port"))
            .map(drop)
    });
    assert!(second.all().is_empty());
    drop(server);
    let server = launch(Strategy::LOOPS, &tree, &table(&second));
    assert_eq!(server.connect().get("/api/x").text(), "hello");
}

/// Responses that begin, and go no further: all of the content is missing, or its end.
const BEGINNINGS: [&[u8]; 4] = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    // It would end with the connection.
    b"HTTP/1.1 200 OK\r\n\r\nhello",
];

/// An upstream whose response to a request for `N`, the end of the path, is the beginning of that number.
fn beginnings() -> String {
    crowd(|stream| {
        let got = head(stream);
        let path = got.split(' ').nth(1).unwrap_or_default();
        let number = path.rsplit('/').next().and_then(|number| number.parse().ok());
        let answer = BEGINNINGS[number.unwrap_or(0_usize)];
        let _ = stream.write_all(answer);
        // Until the proxy gives up.
        let _ = stream.read(&mut [0]);
    })
}

/// The log names the upstream as the one that ended this exchange.
fn assert_upstream_aborted(server: &Server, url: &str, path: &str) {
    let line = line_with(server, path);
    assert!(
        line.contains("\"status\":200") && line.contains("\"aborted\":\"upstream\""),
        "{line}"
    );
    let (_, address) = url.split_once("://").expect("a URL");
    eventually("the cause in the log", || {
        server
            .stderr()
            .contains(&format!("upstream {address}: "))
            .then_some(())
    });
}

/// `idle-timeout` also ends a response under way. Nothing makes what has arrived look whole.
fn a_response_that_falls_silent_is_reset(strategy: Strategy) {
    const IDLE: Duration = Duration::from_millis(300);
    let tree = tree();
    let of_http2 = Recorder::silent();
    for (url, numbers) in [(beginnings(), 0..BEGINNINGS.len()), (of_http2.url.clone(), 1..2)] {
        let table = format!("upstreams = [\"{url}\"]\nidle-timeout = \"300ms\"\nmax-failures = 0");
        let server = launch(strategy, &tree, &table);
        for number in numbers {
            for version in ["1.1", "1.0"] {
                let path = format!("/api/{version}/{number}");
                let (mut connection, began) = (server.connect(), Instant::now());
                connection.send(format!("GET {path} HTTP/{version}\r\nHost: x\r\n\r\n"));
                let (got, end) = connection.rest();
                let got = String::from_utf8_lossy(&got);
                assert_eq!(end, End::Reset, "{path}: {got}");
                assert!(began.elapsed() >= IDLE, "{path}: {:?}", began.elapsed());
                assert!(got.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {got}");
                assert_eq!(got.contains("hello"), number > 0, "{path}: {got}");
                assert!(!got.ends_with("0\r\n\r\n"), "{path}: {got}");
                assert_upstream_aborted(&server, &url, &path);
            }
            let path = format!("/api/2/{number}");
            let mut client = frames::connect(&server);
            let got = client.get(&path, &[]);
            assert!(!got.has_ended && got.reset.is_some(), "{path}: {got:?}");
            let content = if number > 0 { "hello" } else { "" };
            assert_eq!((got.status, &*got.text()), (200, content), "{path}");
            assert_upstream_aborted(&server, &url, &path);
            // The failure is the upstream's, so the connection goes on.
            assert_eq!(client.get("/a.txt", &[]).text(), "a file");
        }
    }
}

/// The same for a client of HTTP/3.
fn a_response_that_falls_silent_is_reset_over_http3(strategy: Strategy) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let url = beginnings();
    let text = format!(
        "[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{url}\"]\nidle-timeout = \"300ms\"\nmax-failures = 0\n"
    );
    let config = pairs.tree.write("weir.toml", text);
    let server = pairs
        .launch(strategy, &["a"])
        .args(["--http3", "--access-log=-", "--log-format=json"])
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let mut client = client::Client::open(server.address, &pairs.client(), "a.test");
    for number in 0..BEGINNINGS.len() {
        let path = format!("/api/3/{number}");
        let got = client.get(&path, &[]);
        assert!(!got.has_ended && got.reset.is_some(), "{path}: {got:?}");
        let content = if number > 0 { "hello" } else { "" };
        assert_eq!((got.status, &*got.text()), (200, content), "{path}");
        assert_upstream_aborted(&server, &url, &path);
        assert_eq!(client.get("/", &[]).text(), "hello");
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
    the_log_names_the_upstream_that_failed,
    a_connection_has_to_open_in_time,
    a_response_that_falls_silent_is_reset,
    a_response_that_falls_silent_is_reset_over_http3,
);
