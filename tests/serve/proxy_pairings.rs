//! Malformed requests of HTTP/2 and HTTP/3 clients, for upstreams of HTTP/1.1 and HTTP/2: nothing of them reaches an upstream, and
//! one that turns out to be malformed after its head never ends there.
//!
//! The upstreams record each byte or field. `proxy_h2_strict` has the pairing of HTTP/2 with HTTP/2, and responses.

use crate::serve::frames;
use crate::serve::http3::client;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::proxy_h2_strict::{self, MALFORMED, Recorder, malformed_requests};
use crate::serve::tls::Pairs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

type Fields<'f> = &'f [(&'f str, &'f str)];

/// A client whose requests are streams.
trait Client {
    fn open_fields(&mut self, fields: Fields<'_>, end: bool) -> u64;
    fn send_body(&mut self, stream: u64, body: &[u8]);
    fn end(&mut self, stream: u64, trailers: Fields<'_>);
    /// Status and content of the response, once the stream is over; `None` if it was reset.
    fn outcome(&mut self, stream: u64) -> Option<(u16, String)>;
}

impl Client for frames::Client<TcpStream> {
    fn open_fields(&mut self, fields: Fields<'_>, end: bool) -> u64 {
        frames::Client::open_fields(self, fields, end).into()
    }

    fn send_body(&mut self, stream: u64, body: &[u8]) {
        let _ = frames::Client::send_body(self, stream as u32, body);
    }

    fn end(&mut self, stream: u64, trailers: Fields<'_>) {
        frames::Client::end(self, stream as u32, trailers);
    }

    fn outcome(&mut self, stream: u64) -> Option<(u16, String)> {
        let got = self.end_of(stream as u32);
        got.reset.is_none().then(|| (got.status, got.text()))
    }
}

impl Client for client::Client {
    fn open_fields(&mut self, fields: Fields<'_>, end: bool) -> u64 {
        client::Client::open_fields(self, fields, end)
    }

    fn send_body(&mut self, stream: u64, body: &[u8]) {
        let _ = client::Client::send_body(self, stream, body);
    }

    fn end(&mut self, stream: u64, trailers: Fields<'_>) {
        client::Client::end(self, stream, trailers);
    }

    fn outcome(&mut self, stream: u64) -> Option<(u16, String)> {
        let got = self.end_of(stream);
        got.reset.is_none().then(|| (got.status, got.text()))
    }
}

/// What is asked of an upstream of either version.
trait Witness {
    fn url(&self) -> &str;
    /// How many requests it got, if each is one for `/api/fine`.
    fn fine(&self) -> usize;
    /// Whether the content `abc` of the request for this path has arrived.
    fn has_content(&self, path: &str) -> bool;
    /// Whether that request was given up behind this content, without an end.
    fn was_given_up(&self, path: &str) -> bool;
}

impl Witness for Recorder {
    fn url(&self) -> &str {
        &self.url
    }

    fn fine(&self) -> usize {
        let all = self.all();
        assert!(all.iter().all(|heard| heard.path() == "/api/fine"), "{all:?}");
        all.len()
    }

    fn has_content(&self, path: &str) -> bool {
        self.of_path(path).pop().is_some_and(|heard| heard.body == b"abc")
    }

    fn was_given_up(&self, path: &str) -> bool {
        let heard = self.of_path(path).pop().expect("a request");
        let is_open = !heard.has_ended && heard.body == b"abc" && heard.trailers.is_empty();
        assert!(is_open, "{heard:?}");
        heard.was_reset
    }
}

/// What came over a connection, and whether it is over.
#[derive(Clone, Debug, Default)]
struct Taken {
    text: String,
    is_over: bool,
}

/// An upstream of HTTP/1.1 that keeps all bytes, and answers each GET.
struct Tape {
    url: String,
    taken: Arc<Mutex<Vec<Taken>>>,
}

impl Tape {
    fn new() -> Tape {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let taken = Arc::<Mutex<Vec<Taken>>>::default();
        let log = Arc::clone(&taken);
        std::thread::spawn(move || {
            for (at, mut stream) in listener.incoming().flatten().enumerate() {
                log.lock().expect("no upstream panics").push(Taken::default());
                let log = Arc::clone(&log);
                std::thread::spawn(move || {
                    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                    let (mut part, mut request) = ([0; 4_096], String::new());
                    // A reset is an end, too.
                    while let Ok(length @ 1..) = stream.read(&mut part) {
                        let text = String::from_utf8_lossy(&part[..length]);
                        request.push_str(&text);
                        log.lock().expect("no upstream panics")[at].text.push_str(&text);
                        if request.starts_with("GET ") && request.ends_with("\r\n\r\n") {
                            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                            request.clear();
                        }
                    }
                    log.lock().expect("no upstream panics")[at].is_over = true;
                });
            }
        });
        Tape { url, taken }
    }

    fn all(&self) -> Vec<Taken> {
        self.taken.lock().expect("no upstream panics").clone()
    }

    /// What followed the head of the request for this path, and whether its connection is over.
    fn content(&self, path: &str) -> Option<(String, bool)> {
        let head = format!("POST {path} HTTP/1.1\r\n");
        let taken = self
            .all()
            .into_iter()
            .find(|taken| taken.text.starts_with(&head))?;
        let (_, content) = taken.text.split_once("\r\n\r\n")?;
        Some((content.to_owned(), taken.is_over))
    }
}

impl Witness for Tape {
    fn url(&self) -> &str {
        &self.url
    }

    fn fine(&self) -> usize {
        let text: String = self.all().into_iter().map(|taken| taken.text).collect();
        let fine = text.matches("GET /api/fine HTTP/1.1\r\n").count();
        assert_eq!(text.matches(" HTTP/1.1\r\n").count(), fine, "{text}");
        assert!(!text.contains("POST"), "{text}");
        fine
    }

    fn has_content(&self, path: &str) -> bool {
        self.content(path)
            .is_some_and(|(content, _)| content.contains("abc"))
    }

    fn was_given_up(&self, path: &str) -> bool {
        let (content, is_over) = self.content(path).expect("a request");
        // With its length, or as a chunk, whose end the reset may have overtaken.
        assert!(["abc", "3\r\nabc"].contains(&content.trim_end()), "{content:?}");
        is_over
    }
}

const GET_FINE: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.test"),
    (":path", "/api/fine"),
];

/// Other requests of the connection are answered.
fn assert_fine(client: &mut dyn Client, why: &str) {
    let stream = client.open_fields(&GET_FINE, true);
    assert_eq!(client.outcome(stream), Some((200, "ok".to_owned())), "{why}");
}

/// No malformed head reaches this upstream.
fn check_heads(connect: &dyn Fn() -> Box<dyn Client>, upstream: &dyn Witness) {
    let cases = malformed_requests();
    for case in &cases {
        let why = format!("{case:?}");
        let mut client = connect();
        for has_body in [false, true] {
            let stream = client.open_fields(case, !has_body);
            if has_body {
                client.send_body(stream, b"POST /api/smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n");
                client.end(stream, &[]);
            }
            let outcome = client.outcome(stream);
            let is_refused = outcome
                .as_ref()
                .is_none_or(|(status, _)| [400, 405, 501].contains(status));
            assert!(is_refused, "{why}: {outcome:?}");
            assert_fine(&mut *client, &why);
        }
    }
    assert_eq!(upstream.fine(), 2 * cases.len());
}

/// No request that is malformed behind its head ends at this upstream.
fn check_ends(connect: &dyn Fn() -> Box<dyn Client>, upstream: &dyn Witness) {
    let mut number = 0;
    let mut check = |more: Fields<'_>, body: &[u8], trailers: Fields<'_>| {
        number += 1;
        let (path, why) = (format!("/api/{number}"), format!("{more:?} {trailers:?}"));
        let mut client = connect();
        let head = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "a.test"),
            (":path", &path),
        ];
        let stream = client.open_fields(&[&head[..], more].concat(), false);
        client.send_body(stream, b"abc");
        eventually("the content at the upstream", || {
            upstream.has_content(&path).then_some(())
        });
        match body {
            [] => client.end(stream, trailers),
            body => client.send_body(stream, body),
        }
        let outcome = client.outcome(stream);
        assert!(
            outcome.as_ref().is_none_or(|(status, _)| *status == 400),
            "{why}: {outcome:?}"
        );
        eventually("the end of the connection or the stream to the upstream", || {
            upstream.was_given_up(&path).then_some(())
        });
        assert_fine(&mut *client, &why);
    };
    check(&[("content-length", "9")], b"", &[]);
    check(&[("content-length", "9")], b"", &[("x", "y")]);
    check(&[("content-length", "5")], b"defghi", &[]);
    for trailer in MALFORMED
        .into_iter()
        .chain([(":path", "/api/other"), (":status", "200")])
    {
        check(&[], b"", &[("x", "y"), trailer]);
    }
}

/// A server of HTTP/3 with one thread, so that requests share connections to this upstream.
fn launch(strategy: Strategy, pairs: &Pairs, url: &str) -> Server {
    let text =
        format!("[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{url}\"]\nretries = 0\nmax-failures = 0\n");
    let config = pairs.tree.write("weir.toml", text).display().to_string();
    let one = Strategy {
        workers: 1,
        ..strategy
    };
    let launch: Launch = pairs.launch(one, &["a"]);
    launch.args(["--http3", "--config", &config]).start()
}

type Check = fn(&dyn Fn() -> Box<dyn Client>, &dyn Witness);

fn with_http3(strategy: Strategy, upstream: &dyn Witness, check: Check) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let server = launch(strategy, &pairs, upstream.url());
    let trust = pairs.client();
    check(
        &|| Box::new(client::Client::open(server.address, &trust, "a.test")),
        upstream,
    );
}

fn with_http2(strategy: Strategy, upstream: &dyn Witness, check: Check) {
    let tree = crate::serve::tree::Tree::new();
    let server = proxy_h2_strict::launch(strategy, &tree, upstream.url());
    check(&|| Box::new(frames::connect(&server)), upstream);
}

fn malformed_heads_of_http2_never_reach_http1(strategy: Strategy) {
    with_http2(strategy, &Tape::new(), check_heads);
}

fn malformed_ends_of_http2_never_end_at_http1(strategy: Strategy) {
    with_http2(strategy, &Tape::new(), check_ends);
}

fn malformed_heads_of_http3_never_reach_http1(strategy: Strategy) {
    with_http3(strategy, &Tape::new(), check_heads);
}

fn malformed_ends_of_http3_never_end_at_http1(strategy: Strategy) {
    with_http3(strategy, &Tape::new(), check_ends);
}

fn malformed_heads_of_http3_never_reach_http2(strategy: Strategy) {
    with_http3(strategy, &Recorder::fine(), check_heads);
}

fn malformed_ends_of_http3_never_end_at_http2(strategy: Strategy) {
    with_http3(strategy, &Recorder::fine(), check_ends);
}

on_strategy!(loops, LOOPS:
    malformed_heads_of_http2_never_reach_http1, malformed_ends_of_http2_never_end_at_http1,
    malformed_heads_of_http3_never_reach_http1, malformed_ends_of_http3_never_end_at_http1,
    malformed_heads_of_http3_never_reach_http2, malformed_ends_of_http3_never_end_at_http2);
