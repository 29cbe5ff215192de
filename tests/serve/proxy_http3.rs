//! Requests of HTTP/3 clients that other servers answer: what they get is what clients of HTTP/1 get, many streams share a
//! few connections to upstreams, and a failure ends its stream alone.

use crate::serve::files::noise;
use crate::serve::http3::client::Client;
use crate::serve::http3::metric;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::proxy::{GONE, HELLO, Upstream, head, peak, request};
use crate::serve::proxy_h2_scripted::{Deed, Scripted};
use crate::serve::proxy_h2_upstream;
use crate::serve::proxy_http2::{crowd, line_with, observer};
use crate::serve::tls::{Pairs, Secure};
use http3::Code;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Connections to upstreams that one client's connection has at a time.
const PEERS: usize = 8;

fn site() -> Pairs {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs.tree.write("site/a.txt", "a file");
    pairs
}

/// A server that takes HTTP/3 and passes `/api` to this upstream.
fn launch(strategy: Strategy, pairs: &Pairs, url: &str, more: &[&str]) -> Server {
    let launch: Launch = pairs.launch(strategy, &["a"]);
    launch
        .args([
            &format!("--proxy=/api={url}"),
            "--http3",
            "--access-log=-",
            "--log-format=json",
        ])
        .args(more)
        .start()
}

/// The same with a table `[[proxy]]` for `/api/*`.
fn configured(strategy: Strategy, pairs: &Pairs, table: &str) -> Server {
    let text = format!("[[proxy]]\npath = \"/api/*\"\n{table}\n");
    let config = pairs.tree.write("weir.toml", text).display().to_string();
    let launch: Launch = pairs.launch(strategy, &["a"]);
    launch
        .args([
            "--http3",
            "--access-log=-",
            "--log-format=json",
            "--config",
            &config,
        ])
        .start()
}

fn connect(server: &Server, pairs: &Pairs) -> Client {
    Client::open(server.address, &pairs.client(), "a.test")
}

fn an_answer_is_that_of_http1(strategy: Strategy) {
    let pairs = site();
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
        let server = launch(strategy, &pairs, &upstream.url, &[]);
        let clear = Launch::new(strategy)
            .root(&pairs.tree.join("site"))
            .args([format!("--proxy=/api={}", upstream.url)])
            .start();
        let old = clear.connect().request(method, "/api/x?q", &[("Accept", "*/*")]);
        let mut client = connect(&server, &pairs);
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
        // Responses over TLS advertise HTTP/3.
        let fields = got.fields.iter().filter(|(name, _)| name != "alt-svc" && name != ":status");
        let fields: Vec<(String, String)> = fields.cloned().collect();
        assert_eq!(fields, of_old, "{why}");
        assert_eq!(client.get("/a.txt", &[]).text(), "a file");
    }
}

fn an_upstream_gets_the_head_anew(strategy: Strategy) {
    let pairs = site();
    let upstream = Upstream::answering(HELLO);
    let server = launch(strategy, &pairs, &upstream.url, &[]);
    let mut client = connect(&server, &pairs);
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
        "GET /api/a.txt?q HTTP/1.1\r\nHost: a.test\r\naccept: */*\r\ncookie: a=b; c=d\r\nVia: 3.0 weir\r\n\
         X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: https\r\n\
         Forwarded: for=127.0.0.1;proto=https;host=\"a.test\"\r\nX-Forwarded-Host: a.test\r\n\r\n"
    );
    // A body of known length keeps it; another one is sent in chunks.
    for fields in [
        &[(":method", "POST"), ("content-length", "3")][..],
        &[(":method", "POST")],
    ] {
        let stream = client.open_request("/api/p", fields, false);
        assert!(client.send_body(stream, b"abc"));
        client.end(stream, &[]);
        assert_eq!(client.end_of(stream).text(), "hello");
    }
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
        "HTTP/3.0",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
    assert!(!line.contains("aborted"), "{line}");
}

fn trailers_and_interim_responses_pass(strategy: Strategy) {
    let pairs = site();
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
    let server = launch(strategy, &pairs, &upstream.url, &[]);
    let mut client = connect(&server, &pairs);
    let fields = [
        (":method", "POST"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        ("expect", "100-continue"),
    ];
    let stream = client.open_request("/api/Call", &fields, false);
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

/// Messages of gRPC go both ways at once, and the call ends with trailers.
fn grpc_passes_to_an_upstream_of_http2(strategy: Strategy) {
    let pairs = site();
    let (url, heard) = proxy_h2_upstream::upstream();
    let server = launch(strategy, &pairs, &url, &[]);
    let mut client = connect(&server, &pairs);
    let fields = [
        (":method", "POST"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ];
    let stream = client.open_request("/api/rpc/echo", &fields, false);
    let mut sent = Vec::new();
    for message in 0_u8..20 {
        let message = vec![message; 3_000];
        assert!(client.send_body(stream, &message));
        sent.extend(message);
        // Each comes back before the next one is sent.
        assert!(client.run(|client| client.got[&stream].body.len() == sent.len()));
    }
    client.end(stream, &[]);
    let got = client.end_of(stream);
    assert!(got.status == 200 && got.body == sent);
    assert_eq!(got.trailers, [("grpc-status".to_owned(), "0".to_owned())]);
    let got = client.get("/api/rpc/refuse", &fields);
    assert_eq!((got.status, got.field("grpc-status")), (200, Some("5")));
    // Requests share the connection.
    let streams: Vec<u64> = (0..20)
        .map(|number| client.ask(&format!("/api/{number}")))
        .collect();
    for (number, stream) in streams.into_iter().enumerate() {
        assert_eq!(client.end_of(stream).text(), format!("/api/{number}"));
    }
    assert_eq!(heard.connections(), 1);
}

/// Whatever is still to be sent to the upstream when a response ends, its connection stays for the next request.
fn a_connection_to_an_upstream_of_http2_is_kept(strategy: Strategy) {
    let pairs = site();
    // One thread has all requests.
    let one = Strategy {
        workers: 1,
        ..strategy
    };
    let post = [(":method", "POST")];
    let upstream = Scripted::start(&[Deed::Echo]);
    let server = launch(one, &pairs, &upstream.url, &[]);
    let mut client = connect(&server, &pairs);
    for length in [0, 1, 100, 65_535, 65_536, 200_000].repeat(5) {
        // What the windows do not permit yet, and acknowledgments of windows, go out while the content comes back.
        let content = vec![b'u'; length];
        let stream = client.open_request("/api/up", &post, false);
        assert!(client.send_body(stream, &content));
        client.end(stream, &[]);
        let got = client.end_of(stream);
        // In place of content that is longer than a window, its length comes back.
        let expected = match length > 65_535 {
            true => length.to_string().into_bytes(),
            false => content,
        };
        assert!(
            got.status == 200 && got.body == expected,
            "{length}: {}",
            got.status
        );
        assert_eq!(got.field("via"), Some("2.0 weir"));
    }
    assert_eq!(upstream.connections(), 1);
    // Responses that end before their requests.
    let upstream = Scripted::start(&[Deed::AnswerHead]);
    let server = launch(one, &pairs, &upstream.url, &[]);
    let mut client = connect(&server, &pairs);
    for number in 0..20 {
        let stream = client.open_request("/api/up", &post, false);
        client.queue_body(stream, &vec![b'u'; number * 10_000]);
        let ended = client.run(|client| client.got[&stream].has_ended);
        assert!(ended, "{number}: {:?}", client.closed);
        assert_eq!(client.got[&stream].text(), "early", "{number}");
    }
    assert_eq!(upstream.connections(), 1);
}

fn thirty_streams_share_eight_connections(strategy: Strategy) {
    let pairs = site();
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
    let server = launch(strategy, &pairs, &url, &[]);
    let mut client = connect(&server, &pairs);
    let streams: Vec<u64> = (0..30)
        .map(|number| client.ask(&format!("/api/{number}")))
        .collect();
    assert!(client.run(|_| now.load(Ordering::SeqCst) == PEERS));
    // Files do not wait for upstreams.
    assert_eq!(client.get("/a.txt", &[]).text(), "a file");
    assert_eq!(most.load(Ordering::SeqCst), PEERS);
    *gate.0.lock().expect("no panics") = true;
    gate.1.notify_all();
    assert!(client.run(Client::is_done), "{:?}", client.closed);
    for (number, stream) in streams.iter().enumerate() {
        assert_eq!(client.got[stream].text(), format!("/api/{number}"));
    }
    assert!(most.load(Ordering::SeqCst) <= PEERS);
}

/// Bodies that wait for a connection to an upstream leave the windows of the others alone.
fn many_uploads_at_once_all_end(strategy: Strategy) {
    const LENGTH: usize = 300_000;
    let pairs = site();
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
    let server = launch(strategy, &pairs, &url, &[]);
    let mut client = connect(&server, &pairs);
    let length = LENGTH.to_string();
    let fields = [(":method", "POST"), ("content-length", &*length)];
    let streams: Vec<u64> = (0..40)
        .map(|_| client.open_request("/api/up", &fields, false))
        .collect();
    let body = vec![b'u'; LENGTH];
    for stream in &streams {
        client.queue_body(*stream, &body);
        client.end(*stream, &[]);
    }
    assert!(client.run(Client::is_done), "{:?}", client.closed);
    for stream in streams {
        assert_eq!(client.got[&stream].text(), length);
    }
}

fn bodies_take_flat_memory(strategy: Strategy) {
    const SIZE: u64 = 32 << 20;
    let pairs = site();
    let upstream = Upstream::new(|stream| {
        let got = head(stream);
        let taken = std::io::copy(&mut (&mut *stream).take(SIZE), &mut std::io::sink());
        let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes());
        let sent = std::io::copy(&mut std::io::repeat(b'd').take(SIZE), stream);
        format!("{got}{taken:?} {sent:?}")
    });
    let server = launch(strategy, &pairs, &upstream.url, &[]);
    let mut client = connect(&server, &pairs);
    client.get("/a.txt", &[]);
    let before = peak(&server);
    let length = SIZE.to_string();
    let fields = [(":method", "POST"), ("content-length", &*length)];
    let stream = client.open_request("/api/", &fields, false);
    let part = vec![b'u'; 1 << 20];
    for _ in 0..SIZE >> 20 {
        assert!(client.send_body(stream, &part), "{:?}", client.got[&stream].reset);
    }
    client.end(stream, &[]);
    let mut seen = 0;
    while !client.got[&stream].has_ended {
        // As long as something comes, time is no matter.
        let is_moving = client.run(|client| {
            let got = &client.got[&stream];
            got.has_ended || got.body.len() > seen
        });
        let got = &client.got[&stream];
        assert!(is_moving && got.reset.is_none(), "{:?}", client.closed);
        seen = got.body.len();
    }
    let got = &client.got[&stream];
    assert_eq!((got.status, got.body.len() as u64), (200, SIZE));
    assert!(upstream.first().ends_with(&format!("Ok({SIZE}) Ok({SIZE})")));
    let grown = peak(&server).saturating_sub(before);
    assert!(
        grown < 12 << 10,
        "{grown} KiB for two bodies of {} KiB",
        SIZE >> 10
    );
}

/// An upstream that takes nothing stops the client, and no other stream of it.
fn a_slow_upstream_stops_its_stream_alone(strategy: Strategy) {
    const SIZE: usize = 16 << 20;
    let pairs = site();
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let url = {
        let gate = Arc::clone(&gate);
        crowd(move |stream| {
            let _ = head(stream);
            let is_open = gate.0.lock().expect("no panics");
            drop(
                gate.1
                    .wait_while(is_open, |is_open| !*is_open)
                    .expect("no panics"),
            );
            let taken = std::io::copy(&mut (&mut *stream).take(SIZE as u64), &mut std::io::sink());
            let text = format!("{}", taken.unwrap_or_default());
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            );
        })
    };
    let server = launch(strategy, &pairs, &url, &["--live=all"]);
    let mut client = connect(&server, &pairs);
    client.get("/a.txt", &[]);
    let before = peak(&server);
    // What two windows let pass, one of them in the transport.
    let most = 2.0 * f64::from(64 << 10);
    // The connection that asks for the metrics may hold some itself for a moment.
    let idle = eventually("next to nothing counts", || {
        let held = metric(&server, &pairs, "weir_memory_held_bytes");
        (held < 0.1 * most).then_some(held)
    });
    let length = SIZE.to_string();
    let fields = [(":method", "POST"), ("content-length", &*length)];
    let stream = client.open_request("/api/up", &fields, false);
    client.queue_body(stream, &vec![b'u'; SIZE]);
    client.end(stream, &[]);
    for _ in 0..20 {
        assert_eq!(client.get("/a.txt", &[]).text(), "a file");
        let held = metric(&server, &pairs, "weir_memory_held_bytes") - idle;
        assert!(held < 1.5 * most, "{held}");
    }
    // What the kernel holds for a connection is no more than this.
    assert!(client.unsent(stream) > SIZE / 2, "{} wait", client.unsent(stream));
    let grown = peak(&server).saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} KiB");
    *gate.0.lock().expect("no panics") = true;
    gate.1.notify_all();
    assert_eq!(client.end_of(stream).text(), length);
    eventually("nothing counts", || {
        let held = metric(&server, &pairs, "weir_memory_held_bytes") - idle;
        (held < 0.25 * most).then_some(())
    });
}

/// A client that reads nothing holds what its windows let pass, however much the upstream has.
fn a_slow_client_holds_no_more_than_its_window(strategy: Strategy) {
    const SIZE: u64 = 32 << 20;
    let pairs = site();
    let sent = Arc::new(AtomicU64::new(0));
    let url = {
        let sent = Arc::clone(&sent);
        crowd(move |stream| {
            let _ = head(stream);
            let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes());
            let mut left = SIZE;
            let part = vec![b'd'; 64 << 10];
            while left > 0 && stream.write_all(&part).is_ok() {
                left -= part.len() as u64;
                sent.fetch_add(part.len() as u64, Ordering::SeqCst);
            }
        })
    };
    let server = launch(strategy, &pairs, &url, &[]);
    let mut client = connect(&server, &pairs);
    let mut other = connect(&server, &pairs);
    client.get("/a.txt", &[]);
    let before = peak(&server);
    client.reads = false;
    let stream = client.ask("/api/large");
    // What the window of its stream lets pass has gone.
    assert!(client.run(|_| sent.load(Ordering::SeqCst) > 1 << 20));
    for _ in 0..20 {
        assert_eq!(other.get("/a.txt", &[]).text(), "a file");
        client.run(|_| true);
    }
    let grown = peak(&server).saturating_sub(before);
    assert!(grown < 12 << 10, "{grown} KiB");
    assert!(sent.load(Ordering::SeqCst) < SIZE, "the upstream could send all");
    client.read_on();
    assert!(client.run(|client| client.got[&stream].body.len() > 2 << 20));
    let got = client.end_of(stream);
    assert_eq!((got.body.len() as u64, got.reset), (SIZE, None));
}

fn an_upstream_that_fails_before_its_response(strategy: Strategy) {
    let pairs = site();
    for (url, detail) in [
        (GONE.to_owned(), "cannot be reached"),
        (Upstream::answering(b"").url, "without a response"),
        (
            Upstream::answering(b"HTTP/1.1 200 OK\r\nContent-Le").url,
            "invalid response",
        ),
        (
            Upstream::answering(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n").url,
            "invalid response",
        ),
    ] {
        let server = launch(strategy, &pairs, &url, &[]);
        let mut client = connect(&server, &pairs);
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
    let pairs = site();
    // It closes with a part of the body unread, which resets the connection.
    let closing = crowd(|stream| drop(head(stream)));
    for url in [GONE.to_owned(), closing] {
        let server = launch(strategy, &pairs, &url, &[]);
        let mut client = connect(&server, &pairs);
        let stream = client.open_request("/api/y", &[(":method", "POST")], false);
        client.queue_body(stream, &[b'u'; 10_000]);
        assert!(client.run(|client| {
            let got = &client.got[&stream];
            got.has_ended && got.stopped.is_some()
        }));
        let got = &client.got[&stream];
        assert_eq!((got.status, got.stopped), (502, Some(Code::NO_ERROR)), "{url}");
        assert_eq!(client.get("/a.txt", &[]).text(), "a file");
    }
}

fn a_silent_upstream_gets_504(strategy: Strategy) {
    let pairs = site();
    let url = crowd(|stream| {
        let _ = request(stream);
        // Until the proxy gives up.
        let _ = stream.read(&mut [0]);
    });
    let table = format!("upstreams = [\"{url}\"]\nfirst-byte-timeout = \"300ms\"");
    let server = configured(strategy, &pairs, &table);
    let mut client = connect(&server, &pairs);
    // Those that get no connection in that time share the fate of those that did.
    let streams: Vec<u64> = (0..12).map(|_| client.ask("/api/x")).collect();
    assert!(client.run(Client::is_done), "{:?}", client.closed);
    for stream in streams {
        assert_eq!(client.got[&stream].status, 504);
    }
    assert_eq!(client.get("/a.txt", &[]).text(), "a file");
}

fn an_upstream_that_fails_within_its_response(strategy: Strategy) {
    let pairs = site();
    for answer in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n",
    ] {
        let upstream = Upstream::answering(answer);
        let server = launch(strategy, &pairs, &upstream.url, &[]);
        let mut client = connect(&server, &pairs);
        let got = client.get("/api/", &[]);
        // Nothing says that the response is whole.
        assert_eq!((got.reset, got.has_ended), (Some(Code::INTERNAL_ERROR), false));
        assert_eq!(client.get("/a.txt", &[]).text(), "a file");
        let line = line_with(&server, "/api/");
        assert!(line.contains("\"aborted\":\"upstream\""), "{line}");
    }
}

fn an_early_answer_ends_its_stream(strategy: Strategy) {
    let pairs = site();
    let upstream = Upstream::new(|stream| {
        let got = head(stream);
        let _ = stream.write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nno!");
        // Until the proxy has taken the answer.
        let _ = stream.read_to_end(&mut Vec::new());
        got
    });
    let server = launch(strategy, &pairs, &upstream.url, &[]);
    let mut client = connect(&server, &pairs);
    let fields = [(":method", "POST"), ("content-length", "100000")];
    let stream = client.open_request("/api/", &fields, false);
    client.queue_body(stream, b"abc");
    assert!(client.run(|client| {
        let got = &client.got[&stream];
        got.has_ended && got.stopped.is_some()
    }));
    let got = &client.got[&stream];
    assert_eq!((got.status, got.text().as_str()), (413, "no!"));
    assert_eq!((got.stopped, got.reset), (Some(Code::NO_ERROR), None));
    assert_eq!(client.get("/a.txt", &[]).text(), "a file");
}

fn a_request_that_does_not_end_is_not_complete(strategy: Strategy) {
    type Break = fn(&mut Client, u64);
    type Case = (&'static str, &'static [(&'static str, &'static str)], Break);
    let pairs = site();
    let cases: [Case; 4] = [
        ("a reset", &[], |client, stream| client.cancel(stream)),
        ("a connection that ends", &[], |client, _| client.leave()),
        (
            "a body shorter than its length",
            &[("content-length", "9")],
            |client, stream| client.end(stream, &[]),
        ),
        (
            "a body longer than its length",
            &[("content-length", "5")],
            |client, stream| client.queue_body(stream, b"defghi"),
        ),
    ];
    for (why, fields, end) in cases {
        let upstream = observer();
        let server = launch(strategy, &pairs, &upstream.url, &[]);
        let mut client = connect(&server, &pairs);
        let fields = [&[(":method", "POST"), ("expect", "100-continue")], fields].concat();
        let stream = client.open_request("/api/", &fields, false);
        assert!(client.run(|client| !client.got[&stream].interim.is_empty()));
        assert!(client.send_body(stream, b"abc"));
        end(&mut client, stream);
        client.run(|_| !upstream.all().is_empty());
        let got = upstream.first();
        assert!(got.ends_with("RESET"), "{why}: {got}");
        assert!(
            !got.contains("0\r\n\r\n") && !got.contains("abcdef"),
            "{why}: {got}"
        );
    }
}

fn a_client_that_cancels_ends_the_download(strategy: Strategy) {
    let pairs = site();
    let upstream = Upstream::new(|stream| {
        let got = head(stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        let part = vec![b'd'; 64 << 10];
        while stream.write_all(&part).is_ok() {}
        got
    });
    let server = launch(strategy, &pairs, &upstream.url, &[]);
    let mut client = connect(&server, &pairs);
    let stream = client.ask("/api/endless");
    assert!(client.run(|client| client.got[&stream].body.len() > 1 << 20));
    client.cancel(stream);
    // The upstream notices: its connection is gone.
    assert!(client.run(|_| !upstream.all().is_empty()));
    assert_eq!(client.get("/a.txt", &[]).text(), "a file");
    let line = line_with(&server, "/api/endless");
    assert!(line.contains("\"aborted\":\"peer\""), "{line}");
}

/// A client that cancels while its upload waits for the upstream.
fn a_client_that_cancels_ends_the_upload(strategy: Strategy) {
    let pairs = site();
    let (ended, end) = std::sync::mpsc::channel();
    let ended = Mutex::new(ended);
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Mutex::new(released);
    let url = crowd(move |stream| {
        let _ = head(stream);
        let _ = released.lock().expect("no panics").recv_timeout(PATIENCE);
        let rest = std::io::copy(stream, &mut std::io::sink());
        let _ = ended.lock().expect("no panics").send(rest.is_err());
    });
    let server = launch(strategy, &pairs, &url, &[]);
    let mut client = connect(&server, &pairs);
    let stream = client.open_request("/api/up", &[(":method", "POST")], false);
    client.queue_body(stream, &vec![b'u'; 16 << 20]);
    // Until the way to the upstream is full.
    let mut before = usize::MAX;
    while client.unsent(stream) < before {
        before = client.unsent(stream);
        for _ in 0..5 {
            assert_eq!(client.get("/a.txt", &[]).text(), "a file");
        }
    }
    client.cancel(stream);
    for _ in 0..5 {
        assert_eq!(client.get("/a.txt", &[]).text(), "a file");
    }
    release.send(()).expect("the upstream waits");
    assert!(
        end.recv_timeout(PATIENCE).expect("an end"),
        "the upstream was reset"
    );
}

fn bodies_have_a_limit(strategy: Strategy) {
    let pairs = site();
    let upstream = Upstream::answering(HELLO);
    let table = format!("upstreams = [\"{}\"]\nmax-body-size = 4", upstream.url);
    let server = configured(strategy, &pairs, &table);
    let mut client = connect(&server, &pairs);
    for (fields, body, status) in [
        (&[("content-length", "4")][..], "abcd", 200),
        (&[("content-length", "5")], "", 413),
        (&[], "abcd", 200),
        (&[], "abcde", 413),
    ] {
        let fields = [&[(":method", "POST")], fields].concat();
        let stream = client.open_request("/api/", &fields, false);
        // One that is refused by its length sends no body.
        if !body.is_empty() {
            client.queue_body(stream, body.as_bytes());
            client.end(stream, &[]);
        }
        assert_eq!(client.end_of(stream).status, status, "{fields:?} {body}");
    }
}

/// Methods that ask for a tunnel or another protocol get what they get over HTTP/2.
fn tunnels_are_refused(strategy: Strategy) {
    let pairs = site();
    let upstream = Upstream::answering(HELLO);
    let table = format!("websocket = true\nupstreams = [\"{}\"]", upstream.url);
    let server = configured(strategy, &pairs, &table);
    let mut client = connect(&server, &pairs);
    let got = client.get("/api/x", &[(":method", "TRACE")]);
    assert_eq!(got.status, 405, "{}", got.text());
    // Extended CONNECT (RFC 9220) was not offered, so it is malformed (RFC 9114 section 4.4).
    let fields = [(":method", "CONNECT"), (":protocol", "websocket")];
    let got = client.get("/api/x", &fields);
    assert!(got.reset.is_some(), "{}", got.status);
    // Fields that belong to a connection of HTTP/1 are malformed, too (RFC 9114 section 4.2).
    let fields = [("upgrade", "websocket"), ("connection", "upgrade")];
    let got = client.get("/api/x", &fields);
    assert_eq!(got.reset, Some(Code::MESSAGE_ERROR), "{}", got.status);
    assert_eq!(client.get("/a.txt", &[]).text(), "a file");
    assert!(upstream.all().is_empty(), "{:?}", upstream.all());
}

/// What a client of HTTP/3 had stored is served to those of other versions, and the other way round.
fn the_cache_is_shared_with_other_versions(strategy: Strategy) {
    let pairs = site();
    let count = AtomicU64::new(0);
    let upstream = Upstream::telling(move |stream, tell| {
        tell(request(stream));
        let number = count.fetch_add(1, Ordering::Relaxed) + 1;
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nConnection: close\r\nCache-Control: max-age=600\r\nContent-Length: 8\r\n\r\nanswer {number}"
        );
    });
    let table = format!("cache = true\nupstreams = [\"{}\"]", upstream.url);
    let server = configured(strategy, &pairs, &table);
    let status = |got: &crate::serve::http3::client::Got| got.field("cache-status").map(str::to_owned);
    let mut client = connect(&server, &pairs);
    let got = client.get("/api/x", &[]);
    assert_eq!(got.text(), "answer 1");
    assert_eq!(status(got).as_deref(), Some("weir; fwd=uri-miss; stored"));
    for mut client in [client, connect(&server, &pairs), connect(&server, &pairs)] {
        let got = client.get("/api/x", &[]);
        assert_eq!(got.text(), "answer 1");
        assert!(status(got).is_some_and(|text| text.starts_with("weir; hit")));
        let got = client.get("/api/x", &[(":method", "HEAD")]);
        assert_eq!(
            (got.field("content-length"), got.text().as_str()),
            (Some("8"), "")
        );
    }
    let mut secure = Secure::open(server.address, &pairs.client(), "a.test");
    let text = secure.try_ask("/api/x").expect("a response");
    assert!(text.ends_with("answer 1"), "{text}");
    let text = secure.try_ask("/api/y").expect("a response");
    assert!(text.ends_with("answer 2"), "{text}");
    assert_eq!(connect(&server, &pairs).get("/api/y", &[]).text(), "answer 2");
    assert_eq!(upstream.all().len(), 2);
}

/// Files come first where a rule says so, and paths that it leaves out are the site's.
fn rules_hold(strategy: Strategy) {
    let pairs = site();
    pairs.tree.write("site/api/a.txt", "a file of the site");
    let upstream = Upstream::answering(HELLO);
    let url = &upstream.url;
    let server = configured(
        strategy,
        &pairs,
        &format!("when = \"missing\"\nupstreams = [\"{url}\"]"),
    );
    let mut client = connect(&server, &pairs);
    assert_eq!(client.get("/api/a.txt", &[]).text(), "a file of the site");
    assert_eq!(client.get("/api/b.txt", &[]).text(), "hello");
    let server = configured(
        strategy,
        &pairs,
        &format!("except = [\"/api/a*\"]\nupstreams = [\"{url}\"]"),
    );
    let mut client = connect(&server, &pairs);
    assert_eq!(client.get("/api/a.txt", &[]).text(), "a file of the site");
    assert_eq!(client.get("/api/b.txt", &[]).text(), "hello");
    assert_eq!(upstream.all().len(), 2);
}

/// Another upstream answers if the first one cannot be reached, and requests are spread over those that can.
fn requests_are_retried_and_balanced(strategy: Strategy) {
    let pairs = site();
    let (one, other) = (Upstream::answering(HELLO), Upstream::answering(HELLO));
    let table = format!("upstreams = [\"{GONE}\", \"{}\", \"{}\"]", one.url, other.url);
    let server = configured(strategy, &pairs, &table);
    let mut client = connect(&server, &pairs);
    for _ in 0..20 {
        let got = client.get("/api/", &[]);
        assert_eq!((got.status, got.text().as_str()), (200, "hello"));
    }
    let (one, other) = (one.all().len(), other.all().len());
    assert_eq!(one + other, 20);
    assert!(one > 2 && other > 2, "{one} and {other}");
}

/// Both versions over TLS; over HTTP/1.1, requests of one client after the other use the same connection.
fn upstreams_with_tls_answer(strategy: Strategy) {
    let mut behind = Pairs::new();
    behind.add("local", &["127.0.0.1"]);
    let large = noise(300_000);
    behind.tree.write("site/large.bin", &large);
    let upstream = behind
        .launch(Strategy::LOOPS, &["local"])
        .args(["--access-log=-", "--live=all"])
        .start();
    let pairs = site();
    for http2 in [true, false] {
        let table = format!(
            "strip = true\nhttp2 = {http2}\nupstreams = [\"https://{}\"]\n[proxy.tls]\nca = \"{}\"",
            upstream.address,
            behind.tree.join("local.pem").display()
        );
        let server = configured(strategy, &pairs, &table);
        let mut client = connect(&server, &pairs);
        let before = handshakes(&upstream, &behind);
        for _ in 0..5 {
            assert_eq!(client.get("/api/index.html", &[]).text(), "hello");
            assert!(client.get("/api/large.bin", &[]).body == large);
        }
        // One for all, and that of the client that asks. HTTP/2 may have frames to send when a response ends, and its
        // connection is then closed.
        if !http2 {
            assert_eq!(handshakes(&upstream, &behind) - before, 2.0);
        }
    }
}

/// TLS handshakes that a server has completed.
fn handshakes(server: &Server, pairs: &Pairs) -> f64 {
    let mut secure = Secure::open(server.address, &pairs.client(), "127.0.0.1");
    let text = secure.try_ask("/.weir/metrics").expect("an answer");
    let lines = text
        .lines()
        .filter(|line| line.starts_with("weir_tls_handshakes_total"));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

fn a_reload_changes_the_upstream(strategy: Strategy) {
    let pairs = site();
    let (one, other) = (
        Upstream::answering(HELLO),
        Upstream::answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother"),
    );
    // Landlock allows the ports that were named at the start.
    let rest = |url: &str| format!("upstreams = [\"{url}\"]\n[[proxy]]\npath = \"/x/*\"\n");
    let one_first = format!("{}upstreams = [\"{}\"]", rest(&one.url), other.url);
    let server = configured(strategy, &pairs, &one_first);
    let mut client = connect(&server, &pairs);
    assert_eq!(client.get("/api/", &[]).text(), "hello");
    let other_first = format!("{}upstreams = [\"{}\"]\n", rest(&other.url), one.url);
    let text = format!("[[proxy]]\npath = \"/api/*\"\n{other_first}");
    pairs.tree.write("weir.toml", text);
    server.signal("HUP");
    // On the same connection.
    eventually("the other upstream", || {
        (client.get("/api/", &[]).text() == "other").then_some(())
    });
}

fn a_stop_waits_for_the_upstream(strategy: Strategy) {
    let pairs = site();
    let (arrived, arrival) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel();
    let upstream = Upstream::new(move |stream| {
        let got = request(stream);
        arrived.send(()).expect("the test waits");
        released.recv().expect("the test releases");
        let _ = stream.write_all(HELLO);
        got
    });
    let mut server = launch(strategy, &pairs, &upstream.url, &[]);
    let mut client = connect(&server, &pairs);
    let stream = client.ask("/api/");
    arrival.recv_timeout(PATIENCE).expect("a request");
    server.signal("TERM");
    assert!(client.run(|client| client.is_leaving), "{:?}", client.closed);
    release.send(()).expect("the upstream waits");
    assert_eq!(client.end_of(stream).text(), "hello");
    assert!(!client.run(|_| false), "the connection ends");
    assert_eq!(server.wait(), 0);
}

macro_rules! where_sessions_dial {
    ($($name:ident),* $(,)?) => {
        on_strategy!(loops, LOOPS: $($name),*);
        on_strategy!(loops_uring, LOOPS_URING: $($name),*);
    };
}

where_sessions_dial!(
    an_answer_is_that_of_http1,
    an_upstream_gets_the_head_anew,
    trailers_and_interim_responses_pass,
    grpc_passes_to_an_upstream_of_http2,
    a_connection_to_an_upstream_of_http2_is_kept,
    thirty_streams_share_eight_connections,
    many_uploads_at_once_all_end,
    bodies_take_flat_memory,
    a_slow_upstream_stops_its_stream_alone,
    a_slow_client_holds_no_more_than_its_window,
    an_upstream_that_fails_before_its_response,
    a_failure_does_not_wait_for_the_body,
    a_silent_upstream_gets_504,
    an_upstream_that_fails_within_its_response,
    an_early_answer_ends_its_stream,
    a_request_that_does_not_end_is_not_complete,
    a_client_that_cancels_ends_the_download,
    a_client_that_cancels_ends_the_upload,
    bodies_have_a_limit,
    tunnels_are_refused,
    the_cache_is_shared_with_other_versions,
    rules_hold,
    requests_are_retried_and_balanced,
    upstreams_with_tls_answer,
    a_reload_changes_the_upstream,
    a_stop_waits_for_the_upstream,
);
