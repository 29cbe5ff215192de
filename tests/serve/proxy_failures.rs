//! Upstreams that do not answer: what the access log says about them, and how long Weir waits for a connection.

use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::{GONE, HELLO, Upstream, request};
use crate::serve::tree::Tree;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

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
        let table = format!("upstreams = [\"{url}\"]\nfirst-byte-timeout = \"300ms\"");
        let server = launch(strategy, &tree, &table);
        assert_eq!(server.connect().get("/api/old").status, status);
        assert_eq!(server.connect().get("/missing").status, 404);
        let mut client = crate::serve::frames::connect(&server);
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
    let mut client = crate::serve::frames::connect(&server);
    assert_eq!(client.get("/api/new", &[]).status, 504);
    for path in ["/api/old", "/api/new"] {
        let took = upstream_us(&line_with(&server, path), &url);
        // The driver looks at its timers four times a second.
        assert!((300_000..5_000_000).contains(&took), "{took}");
    }
    eventually("the reason in the log", || {
        server.stderr().contains("within `connect-timeout`").then_some(())
    });
    // Another upstream stands in, for every method.
    let good = Upstream::answering(HELLO);
    let table = format!(
        "upstreams = [\"{url}\", \"{}\"]\nconnect-timeout = \"300ms\"",
        good.url
    );
    let server = launch(strategy, &tree, &table);
    let mut connection = server.connect();
    for method in ["GET", "POST", "GET", "POST"] {
        let got = connection.request(method, "/api/", &[("Content-Length", "0")]);
        assert_eq!((got.status, got.text().as_str()), (200, "hello"), "{method}");
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
);
