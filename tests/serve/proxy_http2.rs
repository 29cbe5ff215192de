//! Requests of HTTP/2 clients that other servers answer: what they get is what clients of HTTP/1 get, many streams share a
//! few connections to upstreams, and a failure ends its stream alone.

use crate::serve::frames::{Client, Got, connect};
use crate::serve::on_strategy;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::proxy::{GONE, HELLO, Upstream, head, peak, request};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::tree::Tree;
use http2::Code;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Connections to upstreams that one client's connection has at a time.
const PEERS: usize = 8;

fn tree() -> Tree {
    Tree::with(&[("a.txt", "a file")])
}

/// A server that takes HTTP/2 in cleartext and passes `/api` to this upstream.
fn launch(strategy: Strategy, tree: &Tree, url: &str, more: &[&str]) -> Server {
    Launch::new(strategy)
        .root(tree.path())
        .args([
            &format!("--proxy=/api={url}"),
            "--http2=all",
            "--access-log=-",
            "--log-format=json",
        ])
        .args(more)
        .start()
}

/// An upstream that serves each connection on a thread of its own.
pub(crate) fn crowd(serve: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(&mut stream));
        }
    });
    url
}

/// A line of the access log that contains this.
pub(crate) fn line_with(server: &Server, part: &str) -> String {
    eventually("the line in the log", || {
        let log = server.stdout();
        log.lines().find(|line| line.contains(part)).map(str::to_owned)
    })
}

fn an_answer_is_that_of_http1(strategy: Strategy) {
    let tree = tree();
    for (why, answer, method) in [
        ("a length", &b"HTTP/1.1 200 OK\r\nDate: d\r\nKeep-Alive: timeout=5\r\nContent-Length: 5\r\n\r\nhello"[..], "GET"),
        (
            "a body until the end",
            b"HTTP/1.0 200 OK\r\nDate: d\r\nContent-Type: text/css\r\n\r\nhello",
            "GET",
        ),
        (
            "chunks",
            b"HTTP/1.1 200 OK\r\nDate: d\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nTransfer-Encoding: chunked\r\n\r\n\
              5;x=y\r\nhello\r\n3\r\n, w\r\n0\r\n\r\n",
            "GET",
        ),
        (
            "fields for one connection",
            b"HTTP/1.1 404 No\r\nDate: d\r\nConnection: x-a\r\nX-A: 1\r\nX-B: 2\r\nContent-Length: 0\r\n\r\n",
            "GET",
        ),
        ("no content", b"HTTP/1.1 204 No Content\r\nDate: d\r\nX-A: \r\n\r\n", "GET"),
        ("not modified", b"HTTP/1.1 304 Not Modified\r\nDate: d\r\nETag: \"a\"\r\n\r\n", "GET"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 5\r\n\r\n", "HEAD"),
        ("POST", b"HTTP/1.1 201 Created\r\nDate: d\r\nLocation: /b\r\nContent-Length: 2\r\n\r\nok", "POST"),
        (
            "a second response behind the first",
            b"HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
            "GET",
        ),
    ] {
        let upstream = Upstream::answering(answer);
        let server = launch(strategy, &tree, &upstream.url, &[]);
        let old = server.connect().request(method, "/api/x?q", &[("Accept", "*/*")]);
        let mut client = connect(&server);
        let got = client.get("/api/x?q", &[(":method", method), ("accept", "*/*")]);
        assert_eq!(got.status, old.status, "{why}");
        assert_eq!(got.text(), old.text(), "{why}");
        // Framing and persistence belong to a version; the rest is the same, in the same order.
        let is_message = |name: &str| !["transfer-encoding", "connection"].contains(&name);
        let of_old: Vec<(String, String)> = old
            .fields
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
            .filter(|(name, _)| is_message(name))
            .collect();
        assert_eq!(got.fields, of_old, "{why}");
        assert_eq!(client.get("/a.txt", &[]).text(), "a file");
    }
}

fn an_upstream_gets_the_head_anew(strategy: Strategy) {
    let tree = tree();
    let upstream = Upstream::answering(HELLO);
    let server = launch(strategy, &tree, &upstream.url, &[]);
    let mut client = connect(&server);
    let fields = [
        ("cookie", "a=b"),
        ("te", "trailers"),
        ("cookie", "c=d"),
        ("x-forwarded-for", "10.1.1.1"),
        ("accept", "*/*"),
    ];
    assert_eq!(client.get("/api/a.txt?q", &fields).text(), "hello");
    assert_eq!(
        upstream.first(),
        "GET /api/a.txt?q HTTP/1.1\r\nHost: a.test\r\naccept: */*\r\ncookie: a=b; c=d\r\nVia: 2.0 weir\r\n\
         X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n\
         Forwarded: for=127.0.0.1;proto=http;host=\"a.test\"\r\nX-Forwarded-Host: a.test\r\n\r\n"
    );
    // A body of known length keeps it; another one is sent in chunks.
    let stream = client.open("/api/p", &[(":method", "POST"), ("content-length", "3")], false);
    assert!(client.send_body(stream, b"abc"));
    client.end(stream, &[]);
    assert_eq!(client.end_of(stream).text(), "hello");
    let stream = client.open("/api/p", &[(":method", "POST")], false);
    assert!(client.send_body(stream, b"abc"));
    client.end(stream, &[]);
    assert_eq!(client.end_of(stream).text(), "hello");
    let all = eventually("the bodies at the upstream", || {
        let all = upstream.all();
        (all.len() == 3).then_some(all)
    });
    assert!(
        all[1].contains("\r\nContent-Length: 3\r\n") && all[1].ends_with("\r\n\r\nabc"),
        "{}",
        all[1]
    );
    assert!(
        all[2].contains("\r\nTransfer-Encoding: chunked\r\n") && all[2].ends_with("3\r\nabc\r\n0\r\n\r\n"),
        "{}",
        all[2]
    );
    let line = line_with(&server, "/api/a.txt?q");
    let address = upstream.url.strip_prefix("http://").expect("a URL");
    for part in [
        &format!("\"upstream\":\"{address}\",\"upstream_us\":"),
        "\"status\":200",
        "\"body_bytes\":5,",
        "HTTP/2.0",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!line.contains("aborted"), "{line}");
}

fn trailers_and_interim_responses_pass(strategy: Strategy) {
    let tree = tree();
    let upstream = Upstream::new(|stream| {
        let head = head(stream);
        let _ = stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        let mut got = head.into_bytes();
        let mut byte = [0];
        while !got.ends_with(b"\r\nsum: 1\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
            got.push(byte[0]);
        }
        let _ = stream.write_all(
            b"HTTP/1.1 200 OK\r\nTrailer: Grpc-Status\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n\
              5\r\nhello\r\n0\r\nGrpc-Status: 0\r\nContent-Length: 9\r\n\r\n",
        );
        String::from_utf8_lossy(&got).into_owned()
    });
    let server = launch(strategy, &tree, &upstream.url, &[]);
    let mut client = connect(&server);
    let fields = [
        (":method", "POST"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("expect", "100-continue"),
    ];
    let stream = client.open("/api/Call", &fields, false);
    // The client is told to go on once the upstream is there.
    assert!(client.run(|client| client.got[&stream].interim.contains(&100)));
    assert!(client.send_body(stream, b"abc"));
    client.end(stream, &[("sum", "1"), ("content-length", "7")]);
    let got = client.end_of(stream);
    assert_eq!((got.status, got.text().as_str()), (200, "hello"));
    assert_eq!(got.interim, [100, 103]);
    assert_eq!(got.hints, ["</a>"]);
    assert_eq!(got.trailers, [("grpc-status".to_owned(), "0".to_owned())]);
    assert_eq!(got.field("trailer"), None);
    let first = upstream.first();
    assert!(first.ends_with("3\r\nabc\r\n0\r\nsum: 1\r\n\r\n"), "{first}");
    assert!(!first.contains("xpect"), "{first}");
    // A response whose end comes with its last content and trailers only.
    assert!(!line_with(&server, "/api/Call").contains("aborted"));
}

fn thirty_streams_share_eight_connections(strategy: Strategy) {
    let tree = tree();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let url = {
        let (now, most, gate) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&gate));
        crowd(move |stream| {
            let got = request(stream);
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let is_open = gate.0.lock().expect("no panics");
            drop(
                gate.1
                    .wait_while(is_open, |is_open| !*is_open)
                    .expect("no panics"),
            );
            now.fetch_sub(1, Ordering::SeqCst);
            let target = got.split(' ').nth(1).unwrap_or_default();
            let length = target.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{target}"
            );
        })
    };
    let server = launch(strategy, &tree, &url, &[]);
    let mut client = connect(&server);
    let streams: Vec<u32> = (0..30)
        .map(|number| client.ask(&format!("/api/{number}")))
        .collect();
    eventually("eight requests at the upstream", || {
        (now.load(Ordering::SeqCst) == PEERS).then_some(())
    });
    // Files do not wait for upstreams.
    assert_eq!(client.get("/a.txt", &[]).text(), "a file");
    assert_eq!(most.load(Ordering::SeqCst), PEERS);
    *gate.0.lock().expect("no panics") = true;
    gate.1.notify_all();
    assert!(client.run(Client::is_done), "{:?}", client.left);
    for (number, stream) in streams.iter().enumerate() {
        assert!(client.is_200(*stream, format!("/api/{number}").as_bytes()));
    }
    assert!(most.load(Ordering::SeqCst) <= PEERS);
}

/// Bodies that wait for a connection to an upstream leave the windows of the others alone.
fn many_uploads_at_once_all_end(strategy: Strategy) {
    const LENGTH: usize = 300_000;
    let tree = tree();
    let url = crowd(|stream| {
        let _ = head(stream);
        let taken = std::io::copy(&mut (&mut *stream).take(LENGTH as u64), &mut std::io::sink());
        let text = format!("{}", taken.unwrap_or_default());
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
    });
    let server = launch(strategy, &tree, &url, &[]);
    let mut client = connect(&server);
    let length = LENGTH.to_string();
    let fields = [(":method", "POST"), ("content-length", &*length)];
    let streams: Vec<u32> = (0..40).map(|_| client.open("/api/up", &fields, false)).collect();
    assert!(client.send_on_all(&streams, b'u', LENGTH), "{:?}", client.left);
    assert!(client.run(Client::is_done), "{:?}", client.left);
    for stream in streams {
        assert!(
            client.is_200(stream, length.as_bytes()),
            "{:?}",
            client.got[&stream]
        );
    }
}

fn bodies_take_flat_memory(strategy: Strategy) {
    const SIZE: u64 = 64 << 20;
    let tree = tree();
    let upstream = Upstream::new(|stream| {
        let got = head(stream);
        let taken = std::io::copy(&mut (&mut *stream).take(SIZE), &mut std::io::sink());
        let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes());
        let sent = std::io::copy(&mut std::io::repeat(b'd').take(SIZE), stream);
        format!("{got}{taken:?} {sent:?}")
    });
    let server = launch(strategy, &tree, &upstream.url, &[]);
    let mut client = connect(&server);
    client.get("/a.txt", &[]);
    let before = peak(&server);
    let length = SIZE.to_string();
    let stream = client.open(
        "/api/",
        &[(":method", "POST"), ("content-length", &length)],
        false,
    );
    let part = vec![b'u'; 1 << 20];
    for _ in 0..SIZE >> 20 {
        assert!(client.send_body(stream, &part), "{:?}", client.got[&stream].reset);
    }
    client.end(stream, &[]);
    let got = client.end_of(stream);
    assert_eq!((got.status, got.body.len() as u64, got.reset), (200, SIZE, None));
    assert!(upstream.first().ends_with(&format!("Ok({SIZE}) Ok({SIZE})")));
    let grown = peak(&server).saturating_sub(before);
    assert!(
        grown < 8 << 10,
        "{grown} KiB for two bodies of {} KiB",
        SIZE >> 10
    );
}

/// A client that gives no window back holds what its windows let pass, however much the upstream has.
fn a_slow_client_holds_no_more_than_its_window(strategy: Strategy) {
    const SIZE: u64 = 32 << 20;
    let tree = tree();
    let sent = Arc::new(AtomicU64::new(0));
    let url = {
        let sent = Arc::clone(&sent);
        crowd(move |stream| {
            let _ = head(stream);
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes());
            let part = vec![b'd'; 64 << 10];
            while stream.write_all(&part).is_ok() {
                if sent.fetch_add(part.len() as u64, Ordering::SeqCst) > 2 * SIZE {
                    break;
                }
            }
        })
    };
    let server = launch(strategy, &tree, &url, &[]);
    let mut client = connect(&server);
    client.get("/a.txt", &[]);
    let before = peak(&server);
    client.consumes = false;
    let stream = client.ask("/api/large");
    // All that the window of the stream lets pass.
    assert!(client.run(|client| client.got[&stream].body.len() == 1 << 20));
    // The others of this connection go on.
    for _ in 0..20 {
        assert_eq!(client.get("/a.txt", &[]).text(), "a file");
    }
    let grown = peak(&server).saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB");
    assert_eq!(client.got[&stream].body.len(), 1 << 20);
    assert!(sent.load(Ordering::SeqCst) < SIZE, "the upstream could send all");
    client.consumes = true;
    client.consume(stream, 1 << 20);
    let got = client.end_of(stream);
    assert_eq!((got.body.len() as u64, got.reset), (SIZE, None));
}

fn an_upstream_that_fails_before_its_response(strategy: Strategy) {
    let tree = tree();
    for (url, detail) in [
        (GONE.to_owned(), "cannot be reached"),
        (Upstream::answering(b"").url, "without a response"),
        (
            Upstream::answering(b"HTTP/1.1 200 OK\r\nContent-Le").url,
            "invalid response",
        ),
        (
            Upstream::answering(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").url,
            "invalid response",
        ),
        (
            Upstream::answering(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n").url,
            "invalid response",
        ),
    ] {
        let server = launch(strategy, &tree, &url, &[]);
        let mut client = connect(&server);
        let got = client.get("/api/x", &[(":method", "POST")]);
        assert_eq!((got.status, got.reset), (502, None), "{url}");
        assert!(got.text().contains(detail), "{url}: {}", got.text());
        assert_eq!(client.get("/a.txt", &[]).text(), "a file");
        let address = url.strip_prefix("http://").expect("a URL");
        let expected = format!("upstream {address}: ");
        eventually("the upstream in the log", || {
            server.stderr().contains(&expected).then_some(())
        });
    }
}

/// The rest of a body is given up with its stream.
fn a_failure_does_not_wait_for_the_body(strategy: Strategy) {
    let tree = tree();
    // It closes with a part of the body unread, which resets the connection.
    let closing = crowd(|stream| drop(head(stream)));
    for url in [GONE.to_owned(), closing] {
        let server = launch(strategy, &tree, &url, &[]);
        let mut client = connect(&server);
        let stream = client.open("/api/y", &[(":method", "POST")], false);
        client.send_body(stream, &[b'u'; 10_000]);
        assert!(client.run(|client| client.got[&stream].reset.is_some()));
        let got = &client.got[&stream];
        assert_eq!((got.status, got.has_ended), (502, true), "{url}");
        assert_eq!(got.reset, Some(Code::NO_ERROR));
        assert_eq!(client.get("/a.txt", &[]).text(), "a file");
    }
}

fn a_silent_upstream_gets_504(strategy: Strategy) {
    let tree = tree();
    let url = crowd(|stream| {
        let _ = request(stream);
        // Until the proxy gives up.
        let _ = stream.read(&mut [0]);
    });
    let text = format!(
        "root = \"{}\"\nhttp2 = \"all\"\n[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{url}\"]\nfirst-byte-timeout = \"300ms\"\n",
        tree.path().display()
    );
    let config = tree.write("weir.toml", text);
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let mut client = connect(&server);
    // Those that get no connection in that time share the fate of those that did.
    let streams: Vec<u32> = (0..12).map(|_| client.ask("/api/x")).collect();
    assert!(client.run(Client::is_done), "{:?}", client.left);
    for stream in streams {
        assert_eq!(client.got[&stream].status, 504);
    }
    assert_eq!(client.get("/a.txt", &[]).text(), "a file");
}

fn an_upstream_that_fails_within_its_response(strategy: Strategy) {
    let tree = tree();
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n",
    ] {
        let upstream = Upstream::answering(answer);
        let server = launch(strategy, &tree, &upstream.url, &[]);
        let mut client = connect(&server);
        let got = client.get("/api/", &[]);
        // Nothing says that the response is whole.
        assert_eq!((got.reset, got.has_ended), (Some(Code::INTERNAL_ERROR), false));
        assert_eq!(client.get("/a.txt", &[]).text(), "a file");
        let line = line_with(&server, "/api/");
        assert!(line.contains("\"aborted\":\"upstream\""), "{line}");
    }
}

fn an_early_answer_ends_its_stream(strategy: Strategy) {
    let tree = tree();
    let upstream = Upstream::new(|stream| {
        let got = head(stream);
        let _ = stream.write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno!");
        // Until the proxy has taken the answer.
        let _ = stream.read_to_end(&mut Vec::new());
        got
    });
    let server = launch(strategy, &tree, &upstream.url, &[]);
    let mut client = connect(&server);
    let stream = client.open(
        "/api/",
        &[(":method", "POST"), ("content-length", "100000")],
        false,
    );
    client.send_body(stream, b"abc");
    assert!(client.run(|client| client.got[&stream].reset.is_some()));
    let got = &client.got[&stream];
    assert_eq!((got.status, got.text().as_str()), (413, "no!"));
    assert_eq!((got.has_ended, got.reset), (true, Some(Code::NO_ERROR)));
    assert_eq!(client.get("/a.txt", &[]).text(), "a file");
}

/// An upstream that tells whether its connection was reset.
pub(crate) fn observer() -> Upstream {
    Upstream::new(|stream| {
        let got = head(stream);
        let mut rest = Vec::new();
        let end = stream.read_to_end(&mut rest);
        format!(
            "{got}{}{}",
            String::from_utf8_lossy(&rest),
            if end.is_err() { "RESET" } else { "END" }
        )
    })
}

fn a_request_that_does_not_end_is_not_complete(strategy: Strategy) {
    type Break = fn(&mut Client<TcpStream>, u32);
    type Case = (&'static str, &'static [(&'static str, &'static str)], Break);
    let tree = tree();
    let cases: [Case; 4] = [
        ("a reset", &[], |client, stream| client.cancel(stream)),
        ("a connection that ends", &[], |client, _| {
            client
                .stream
                .shutdown(std::net::Shutdown::Both)
                .expect("an open socket");
        }),
        (
            "a body shorter than its length",
            &[("content-length", "9")],
            |client, stream| {
                client.end(stream, &[]);
            },
        ),
        (
            "a body longer than its length",
            &[("content-length", "5")],
            |client, stream| {
                client.send_body(stream, b"defghi");
            },
        ),
    ];
    for (why, fields, end) in cases {
        let upstream = observer();
        let server = launch(strategy, &tree, &upstream.url, &[]);
        let mut client = connect(&server);
        let fields = [&[(":method", "POST"), ("expect", "100-continue")], fields].concat();
        let stream = client.open("/api/", &fields, false);
        assert!(client.run(|client| !client.got[&stream].interim.is_empty()));
        client.send_body(stream, b"abc");
        end(&mut client, stream);
        let got = upstream.first();
        assert!(got.ends_with("RESET"), "{why}: {got}");
        assert!(
            !got.contains("0\r\n\r\n") && !got.contains("abcdef"),
            "{why}: {got}"
        );
    }
}

fn a_client_that_cancels_ends_the_download(strategy: Strategy) {
    let tree = tree();
    let upstream = Upstream::new(|stream| {
        let got = head(stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        let part = vec![b'd'; 64 << 10];
        while stream.write_all(&part).is_ok() {}
        got
    });
    let server = launch(strategy, &tree, &upstream.url, &[]);
    let mut client = connect(&server);
    let stream = client.ask("/api/endless");
    assert!(client.run(|client| client.got[&stream].body.len() > 1 << 20));
    client.cancel(stream);
    // The upstream notices: its connection is gone.
    upstream.first();
    assert_eq!(client.get("/a.txt", &[]).text(), "a file");
    let line = line_with(&server, "/api/endless");
    assert!(line.contains("\"aborted\":\"peer\""), "{line}");
}

fn bodies_have_a_limit(strategy: Strategy) {
    let tree = tree();
    let upstream = Upstream::answering(HELLO);
    let text = format!(
        "root = \"{}\"\nhttp2 = \"all\"\n[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{}\"]\nmax-body-size = 4\n",
        tree.path().display(),
        upstream.url
    );
    let config = tree.write("weir.toml", text);
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let mut client = connect(&server);
    for (fields, body, status) in [
        (&[("content-length", "4")][..], "abcd", 200),
        (&[("content-length", "5")], "", 413),
        (&[], "abcd", 200),
        (&[], "abcde", 413),
    ] {
        let fields = [&[(":method", "POST")], fields].concat();
        let stream = client.open("/api/", &fields, false);
        // One that is refused by its length sends no body.
        if !body.is_empty() {
            client.send_body(stream, body.as_bytes());
            client.end(stream, &[]);
        }
        let is_over = client.run(|client| client.got[&stream].has_ended);
        assert!(is_over, "{fields:?} {body}: {:?}", client.got[&stream]);
        assert_eq!(client.got[&stream].status, status, "{fields:?} {body}");
    }
}

fn an_upstream_that_keeps_failing_is_ejected(strategy: Strategy) {
    let tree = tree();
    let (bad, good) = (Upstream::answering(b""), Upstream::answering(HELLO));
    let text = format!(
        "root = \"{}\"\nhttp2 = \"all\"\n[[proxy]]\npath = \"/api/*\"\nretries = 0\nejection-time = \"1h\"\nupstreams = [\"{}\", \"{}\"]\n",
        tree.path().display(),
        bad.url,
        good.url
    );
    let config = tree.write("weir.toml", text);
    let one = Strategy {
        workers: 1,
        ..strategy
    };
    let server = Launch::new(one)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let mut client = connect(&server);
    let statuses: Vec<u16> = (0..20).map(|_| client.get("/api/", &[]).status).collect();
    let failures = statuses.iter().filter(|status| **status == 502).count();
    assert_eq!(failures, 3, "{statuses:?}");
    assert!(
        server.stderr().contains("gets no requests"),
        "{}",
        server.stderr()
    );
}

fn a_stop_waits_for_the_upstream(strategy: Strategy) {
    let tree = tree();
    let (arrived, arrival) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel();
    let upstream = Upstream::new(move |stream| {
        let got = request(stream);
        arrived.send(()).expect("the test waits");
        released.recv().expect("the test releases");
        let _ = stream.write_all(HELLO);
        got
    });
    let mut server = launch(strategy, &tree, &upstream.url, &[]);
    let mut client = connect(&server);
    let stream = client.ask("/api/");
    arrival.recv_timeout(PATIENCE).expect("a request");
    server.signal("TERM");
    eventually("the stop", || server.stderr().contains("stopping").then_some(()));
    release.send(()).expect("the upstream waits");
    assert_eq!(client.end_of(stream).text(), "hello");
    drop(client);
    assert_eq!(server.wait(), 0);
}

/// A rule takes HTTP/2 from nobody: clients agree on it over TLS, and both kinds of paths are served.
fn a_site_with_a_rule_offers_http2(strategy: Strategy) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let upstream = Upstream::answering(HELLO);
    let rule = format!("--proxy=/api={}", upstream.url);
    let server = pairs.launch(strategy, &["a"]).args([rule]).start();
    let mut config = Arc::unwrap_or_clone(pairs.client());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let secure = Secure::open(server.address, &Arc::new(config), "a.test");
    assert_eq!(secure.0.conn.alpn_protocol(), Some(&b"h2"[..]));
    let mut client = Client::new(secure.0);
    let text = |got: &Got| (got.status, got.text());
    assert_eq!(text(client.get("/api/x", &[])), (200, "hello".to_owned()));
    assert_eq!(text(client.get("/", &[])), (200, "hello".to_owned()));
    assert!(upstream.first().contains("\r\nX-Forwarded-Proto: https\r\n"));
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
    an_answer_is_that_of_http1,
    an_upstream_gets_the_head_anew,
    trailers_and_interim_responses_pass,
    thirty_streams_share_eight_connections,
    many_uploads_at_once_all_end,
    bodies_take_flat_memory,
    a_slow_client_holds_no_more_than_its_window,
    an_upstream_that_fails_before_its_response,
    a_failure_does_not_wait_for_the_body,
    a_silent_upstream_gets_504,
    an_upstream_that_fails_within_its_response,
    an_early_answer_ends_its_stream,
    a_request_that_does_not_end_is_not_complete,
    a_client_that_cancels_ends_the_download,
    bodies_have_a_limit,
    an_upstream_that_keeps_failing_is_ejected,
    a_stop_waits_for_the_upstream,
    a_site_with_a_rule_offers_http2,
);
