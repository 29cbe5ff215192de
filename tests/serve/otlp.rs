//! Traces: which spans a collector gets of which requests, what upstreams are told, and what a collector that is slow, full or
//! gone does to the server. The collector here records what it is sent; `otlp_collector` has a real one.

use crate::serve::frames;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::proxy::{GONE, HELLO, Upstream, head};
use crate::serve::tls::Pairs;
use crate::serve::tree::Tree;
use crate::serve::{on_every_strategy, on_strategy};
use flate2::read::GzDecoder;
use otlp::wire::{Fields, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// What a client says of the trace that its request belongs to.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

pub(crate) const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
pub(crate) const LATER: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
const MUCH_LATER: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n";
pub(crate) const NEVER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
/// It rejects one span, with the message `no`.
const PARTLY: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 8\r\n\r\n\x0a\x06\x08\x01\x12\x02no";

/// A request to the collector.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) head: String,
    pub(crate) content: Vec<u8>,
}

/// A span as the collector sees it.
#[derive(Clone, Debug, Default)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    state: String,
    name: String,
    /// 2: of a server, 3: of a client.
    kind: u64,
    start: u64,
    end: u64,
    flags: u32,
    is_error: bool,
    attributes: BTreeMap<String, String>,
    resource: BTreeMap<String, String>,
}

impl Span {
    #[track_caller]
    fn must(&self, key: &str) -> &str {
        self.attributes
            .get(key)
            .unwrap_or_else(|| panic!("no {key} in {self:?}"))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text is UTF-8")
}

/// The messages and texts in this field.
pub(crate) fn inner(message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    Fields(message).filter_map(move |field| match field {
        (field, Value::Bytes(inner)) if field == number => Some(inner),
        _ => None,
    })
}

/// The attributes in this field of a message, numbers as text.
pub(crate) fn attributes(message: &[u8], number: u32) -> BTreeMap<String, String> {
    let attribute = |pair: &[u8]| {
        let key = text(inner(pair, 1).next().expect("a key"));
        let value = inner(pair, 2).next().expect("a value");
        let value = match Fields(value).next() {
            Some((1, Value::Bytes(value))) => text(value),
            Some((3, Value::Number(value))) => value.to_string(),
            other => panic!("{key}: {other:?}"),
        };
        (key, value)
    };
    let all: Vec<_> = inner(message, number).map(attribute).collect();
    let map: BTreeMap<_, _> = all.iter().cloned().collect();
    assert_eq!(map.len(), all.len(), "each once: {all:?}");
    map
}

fn span(message: &[u8], resource: &BTreeMap<String, String>) -> Span {
    let mut span = Span {
        attributes: attributes(message, 9),
        resource: resource.clone(),
        ..Span::default()
    };
    for field in Fields(message) {
        match field {
            (1, Value::Bytes(id)) => span.trace = hex(id),
            (2, Value::Bytes(id)) => span.id = hex(id),
            (3, Value::Bytes(state)) => span.state = text(state),
            (4, Value::Bytes(id)) => span.parent = hex(id),
            (5, Value::Bytes(name)) => span.name = text(name),
            (6, Value::Number(kind)) => span.kind = kind,
            (7, Value::Fixed64(start)) => span.start = start,
            (8, Value::Fixed64(end)) => span.end = end,
            (15, Value::Bytes(status)) => span.is_error = status == [0x18, 2],
            (16, Value::Fixed32(flags)) => span.flags = flags,
            (9, _) => {}
            other => panic!("{other:?}"),
        }
    }
    span
}

impl Sent {
    /// Its spans, once all of the message was read.
    fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        let mut content = Vec::new();
        match self.head.contains("\r\nContent-Encoding: gzip\r\n") {
            true => drop(
                GzDecoder::new(&*self.content)
                    .read_to_end(&mut content)
                    .expect("gzip"),
            ),
            false => content.clone_from(&self.content),
        }
        for resource in inner(&content, 1) {
            let who = attributes(inner(resource, 1).next().expect("a resource"), 1);
            for scope in inner(resource, 2) {
                spans.extend(inner(scope, 2).map(|message| span(message, &who)));
            }
        }
        spans
    }
}

/// A collector that records what it is sent.
pub(crate) struct Collector {
    pub(crate) url: String,
    heard: Arc<Mutex<Vec<Sent>>>,
}

impl Collector {
    /// Answers the request of each number, from 0 on, with what `decide` returns; with nothing: never.
    pub(crate) fn new(decide: impl Fn(usize) -> &'static [u8] + Send + 'static) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let heard: Arc<Mutex<Vec<Sent>>> = Arc::default();
        let log = Arc::clone(&heard);
        std::thread::spawn(move || {
            let mut silent = Vec::new();
            while let Ok((mut stream, _)) = listener.accept() {
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                let head = head(&mut stream);
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
                let mut content = vec![0; length.unwrap_or(0)];
                if stream.read_exact(&mut content).is_err() {
                    continue;
                }
                let number = {
                    let mut log = log.lock().expect("no test panics here");
                    log.push(Sent { head, content });
                    log.len() - 1
                };
                match decide(number) {
                    b"" => silent.push(stream),
                    answer => drop(stream.write_all(answer)),
                }
            }
        });
        Collector { url, heard }
    }

    fn taking() -> Collector {
        Collector::new(|_| TAKEN)
    }

    pub(crate) fn all(&self) -> Vec<Sent> {
        self.heard.lock().expect("no collector panics").clone()
    }

    fn spans(&self) -> Vec<Span> {
        self.all().iter().flat_map(Sent::spans).collect()
    }

    /// The spans of requests for this path, once there are so many.
    fn of(&self, path: &str, count: usize) -> Vec<Span> {
        eventually("spans", || {
            let mut spans = self.spans();
            let is_of = |span: &Span| {
                let url = span.attributes.get("url.full");
                span.attributes.get("url.path").is_some_and(|its| its == path)
                    || url.is_some_and(|url| url.ends_with(path))
            };
            spans.retain(is_of);
            assert!(spans.len() <= count, "{spans:?}");
            // Each worker hands its own over when it likes.
            spans.sort_by_key(|span| span.start);
            (spans.len() == count).then_some(spans)
        })
    }
}

/// A server of one folder that sends its spans at once.
fn launch(strategy: Strategy, tree: &Tree, collector: &str) -> Launch {
    Launch::new(strategy).root(tree.path()).args([
        "--otlp",
        collector,
        "--otlp-interval=100ms",
        "--access-log=-",
        "--log-format=json",
        "--live",
    ])
}

fn tree() -> Tree {
    Tree::with(&[("a.txt", "a file")])
}

/// The lines of the access log for this target, once there are so many.
fn logged(server: &Server, target: &str, count: usize) -> Vec<serde_json::Value> {
    eventually("lines of the access log", || {
        let log = server.stdout();
        let lines = log.lines().filter_map(|line| serde_json::from_str(line).ok());
        let lines: Vec<serde_json::Value> = lines
            .filter(|line: &serde_json::Value| line["target"] == target)
            .collect();
        (lines.len() == count).then_some(lines)
    })
}

/// Waits until the server log has all these texts.
fn says(server: &Server, parts: &[&str]) {
    eventually(&parts.join(", "), || {
        let log = server.stderr();
        parts.iter().all(|part| log.contains(part)).then_some(())
    });
}

/// The sum of a counter over all workers.
pub(crate) fn counted(server: &Server, name: &str) -> u64 {
    let metrics = server.connect().get("/.weir/metrics").text();
    let lines = metrics
        .lines()
        .filter(|line| line.starts_with(&format!("{name}{{")));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

fn each_request_has_a_span(strategy: Strategy) {
    let collector = Collector::taking();
    let tree = tree();
    let mut server = launch(strategy, &tree, &collector.url)
        .args(["--otlp-service-name=shop", "--otlp-header=X-Key: secret"])
        .start();
    let mut connection = server.connect();
    let traced = traceparent("01");
    let answer = connection.request(
        "GET",
        "/a.txt?token=1",
        &[
            ("traceparent", &traced),
            ("tracestate", "a=1"),
            ("tracestate", "b=2"),
            ("User-Agent", "curl/8"),
        ],
    );
    assert_eq!((answer.status, answer.field("traceparent")), (200, None));
    assert_eq!(connection.request("HEAD", "/missing", &[]).status, 404);
    assert_eq!(connection.request("BREW", "/a.txt", &[]).status, 501);
    let first = &collector.of("/a.txt", 2)[0];
    assert_eq!(
        (&*first.trace, &*first.parent, &*first.state, first.flags),
        (TRACE, PARENT, "a=1,b=2", 0x301)
    );
    assert_eq!((&*first.name, first.kind, first.is_error), ("GET", 2, false));
    for (key, value) in [
        ("http.request.method", "GET"),
        ("http.response.status_code", "200"),
        ("http.response.body.size", "6"),
        ("url.scheme", "http"),
        ("url.path", "/a.txt"),
        ("server.address", "weir.localhost"),
        ("client.address", "127.0.0.1"),
        ("network.protocol.version", "1.1"),
        ("user_agent.original", "curl/8"),
    ] {
        assert_eq!(first.must(key), value, "{key}");
    }
    assert!(!format!("{first:?}").contains("token"), "no query: {first:?}");
    let year = 31_557_600_000_000_000;
    assert!(
        first.start > 50 * year && first.start <= first.end && first.end - first.start < year,
        "{first:?}"
    );
    for (key, value) in [
        ("service.name", "shop"),
        ("telemetry.sdk.name", "weir"),
        ("telemetry.sdk.language", "rust"),
    ] {
        assert_eq!(first.resource[key], value, "{key}");
    }
    // The line of the request has the ids of its span.
    let line = &logged(&server, "/a.txt?token=1", 1)[0];
    assert_eq!(
        (&line["trace_id"], &line["span_id"]),
        (&TRACE.into(), &first.id.as_str().into())
    );
    let missing = &collector.of("/missing", 1)[0];
    assert_eq!(
        (&*missing.name, &*missing.parent, missing.is_error),
        ("HEAD", "", false)
    );
    assert!(missing.trace != TRACE && missing.flags == 0x101, "{missing:?}");
    let brewed = &collector.of("/a.txt", 2)[1];
    assert_eq!(
        (&*brewed.name, brewed.must("http.request.method")),
        ("HTTP", "_OTHER")
    );
    assert_eq!(brewed.must("http.request.method_original"), "BREW");
    assert!(
        brewed.is_error && brewed.must("error.type") == "501",
        "{brewed:?}"
    );
    let sent = &collector.all()[0];
    for part in [
        "POST /v1/traces HTTP/1.1\r\n",
        "\r\nContent-Type: application/x-protobuf\r\n",
        "\r\nX-Key: secret\r\n",
    ] {
        assert!(sent.head.contains(part), "{}", sent.head);
    }
    // Whoever sends no valid request has a span, too, and the last ones are sent before the end.
    let mut bad = server.connect();
    bad.send("nonsense\r\n\r\n");
    assert_eq!(bad.receive("GET").status, 400);
    assert_eq!(server.connect().get("/last").status, 404);
    assert_eq!(server.stop(), 0);
    assert_eq!(collector.of("/last", 1).len(), 1);
    let ids: BTreeSet<String> = collector.spans().iter().map(|span| span.id.clone()).collect();
    assert_eq!(ids.len(), 5, "each has its own");
}

fn an_upstream_belongs_to_the_trace(strategy: Strategy) {
    let (collector, upstream) = (Collector::taking(), Upstream::answering(HELLO));
    let tree = tree();
    let server = launch(strategy, &tree, &collector.url)
        .args([
            &format!("--proxy=/api={}", upstream.url),
            &format!("--proxy=/gone={GONE}"),
            "--http2=all",
        ])
        .start();
    let traced = traceparent("01");
    let fields = [("traceparent", &*traced), ("tracestate", "a=1")];
    assert_eq!(
        server.connect().request("GET", "/api/x?token=1", &fields).status,
        200
    );
    assert_eq!(
        frames::connect(&server).get("/api/x?token=1", &fields).status,
        200
    );
    let spans = collector.of("/api/x", 4);
    let (servers, clients): (Vec<&Span>, Vec<&Span>) = spans.iter().partition(|span| span.kind == 2);
    assert_eq!((servers.len(), clients.len()), (2, 2));
    let versions: BTreeSet<&str> = servers
        .iter()
        .map(|span| span.must("network.protocol.version"))
        .collect();
    assert_eq!(versions, BTreeSet::from(["1.1", "2"]));
    let got = upstream.all();
    assert_eq!(got.len(), 2);
    for client in &clients {
        let parent = servers
            .iter()
            .find(|server| server.id == client.parent)
            .expect("a parent");
        assert_eq!(
            (&*parent.trace, &*client.trace, &*parent.parent),
            (TRACE, TRACE, PARENT)
        );
        assert_eq!((&*client.state, client.flags, client.kind), ("a=1", 0x101, 3));
        assert_eq!(
            (&*parent.name, parent.must("http.route")),
            ("GET /api/*", "/api/*")
        );
        assert!(
            client.name == "GET" && !client.attributes.contains_key("http.route"),
            "{client:?}"
        );
        assert!(
            parent.start <= client.start && client.end <= parent.end,
            "{parent:?} {client:?}"
        );
        let address = upstream.url.strip_prefix("http://").expect("a URL");
        assert_eq!(client.must("url.full"), format!("http://{address}/api/x"));
        assert_eq!(client.must("server.address"), "127.0.0.1");
        assert!(address.ends_with(&format!(":{}", client.must("server.port"))));
        assert_eq!(client.must("http.response.status_code"), "200");
        assert!(!client.is_error);
        // The upstream continues the trace from the span of the request to it.
        let told = format!(
            "\r\ntraceparent: 00-{TRACE}-{}-01\r\ntracestate: a=1\r\n",
            client.id
        );
        let heard = got.iter().filter(|head| head.contains(&told));
        assert_eq!(heard.count(), 1, "{told} {got:?}");
    }
    for head in &got {
        assert_eq!(
            head.to_ascii_lowercase().matches("traceparent:").count(),
            1,
            "{head}"
        );
    }
    // One that cannot be reached.
    assert_eq!(server.connect().get("/gone/x").status, 502);
    assert_eq!(frames::connect(&server).get("/gone/y", &[]).status, 502);
    let spans = collector.of("/gone/y", 2);
    let routes = spans.iter().filter_map(|span| span.attributes.get("http.route"));
    assert_eq!(routes.collect::<Vec<_>>(), ["/gone/*"], "{spans:?}");
    let spans = collector.of("/gone/x", 2);
    let client = spans
        .iter()
        .find(|span| span.kind == 3)
        .expect("a span of the client");
    let server = spans
        .iter()
        .find(|span| span.kind == 2)
        .expect("a span of the server");
    assert!(client.is_error && server.is_error, "{spans:?}");
    assert_eq!(
        (&*server.name, server.must("http.route")),
        ("GET /gone/*", "/gone/*")
    );
    assert_eq!(
        (client.must("error.type"), server.must("error.type")),
        ("unreachable", "502")
    );
    assert!(
        !client.attributes.contains_key("http.response.status_code"),
        "{client:?}"
    );
    assert_eq!(client.parent, server.id);
}

fn an_upload_is_one_span(strategy: Strategy) {
    let collector = Collector::taking();
    let config = "root = 'site'\n[[uploads]]\npath = '/dav/'\nopen = true\n";
    let tree = Tree::with(&[("weir.toml", config), ("site/a.txt", "a file")]);
    let mut server = Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .args(["--otlp", &collector.url, "--otlp-interval=100ms"])
        .start();
    let mut connection = server.connect();
    let length = [("Content-Length", "0")];
    for (path, status) in [("/dav/new.txt", 201), ("/dav/missing/new.txt", 409)] {
        assert_eq!(connection.request("PUT", path, &length).status, status, "{path}");
        assert!(!collector.of(path, 1)[0].is_error, "{path}");
    }
    assert_eq!(server.stop(), 0);
    let kinds: Vec<u64> = collector.spans().iter().map(|span| span.kind).collect();
    assert_eq!(kinds, [2, 2], "no client asked another server");
    assert_eq!(collector.spans()[0].must("http.route"), "/dav/*");
}

fn a_sampler_keeps_a_share_and_follows_its_callers(strategy: Strategy) {
    let (collector, upstream) = (Collector::taking(), Upstream::answering(HELLO));
    let tree = tree();
    let mut server = launch(strategy, &tree, &collector.url)
        .args(["--otlp-sample=0", &format!("--proxy=/api={}", upstream.url)])
        .start();
    let mut connection = server.connect();
    let (kept, left) = (traceparent("01"), traceparent("00"));
    assert_eq!(connection.get("/api/none").status, 200);
    assert_eq!(
        connection
            .request("GET", "/api/left", &[("traceparent", &left)])
            .status,
        200
    );
    assert_eq!(
        connection
            .request("GET", "/api/kept", &[("traceparent", &kept)])
            .status,
        200
    );
    // Two lines are no parent.
    let twice = [("traceparent", &*kept), ("traceparent", &*kept)];
    assert_eq!(connection.request("GET", "/api/twice", &twice).status, 200);
    let got = eventually("requests at the upstream", || {
        Some(upstream.all()).filter(|all| all.len() == 4)
    });
    let told = |at: usize| {
        let (_, rest) = got[at].split_once("\r\ntraceparent: ").expect("a trace");
        rest.split("\r\n").next().expect("a value").to_owned()
    };
    assert!(
        told(0).ends_with("-00") && !told(0).contains(TRACE),
        "{}",
        told(0)
    );
    assert!(
        told(1).starts_with(&format!("00-{TRACE}-")) && told(1).ends_with("-00"),
        "{}",
        told(1)
    );
    assert!(
        told(2).starts_with(&format!("00-{TRACE}-")) && told(2).ends_with("-01"),
        "{}",
        told(2)
    );
    assert!(
        told(3).ends_with("-00") && !told(3).contains(TRACE),
        "{}",
        told(3)
    );
    // The log has the trace of each request.
    for (target, is_known) in [("/api/none", false), ("/api/left", true), ("/api/kept", true)] {
        let line = &logged(&server, target, 1)[0];
        assert_eq!(line["trace_id"] == TRACE, is_known, "{line}");
        assert_eq!(line["span_id"].as_str().map(str::len), Some(16), "{line}");
    }
    assert_eq!(server.stop(), 0);
    let paths: BTreeSet<String> = collector.spans().iter().map(|span| span.trace.clone()).collect();
    assert_eq!(paths, BTreeSet::from([TRACE.to_owned()]));
    assert_eq!(collector.spans().len(), 2);
}

fn the_standard_variables_are_read(strategy: Strategy) {
    let (collector, silent) = (Collector::taking(), Collector::taking());
    let tree = tree();
    let text = format!(
        "root = \"{}\"\n[otlp]\ninterval = \"100ms\"\nresource = [\"k=own\"]\n",
        tree.path().display()
    );
    let config = tree.write("weir.toml", text);
    let launch = || {
        Launch::new(strategy)
            .args(["--config".as_ref(), config.as_os_str()])
            .env(
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                &format!("{}/in?key=1", collector.url),
            )
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &silent.url)
            .env("OTEL_EXPORTER_OTLP_HEADERS", "X-Key=a%20secret")
            .env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
            .env("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
            .env(
                "OTEL_RESOURCE_ATTRIBUTES",
                "service.name=a,service.namespace=shop,k=other",
            )
            .env("OTEL_SERVICE_NAME", "front")
            .env("OTEL_TRACES_SAMPLER", "always_on")
    };
    let mut server = launch().start();
    says(
        &server,
        &[
            "because of the variable OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "ignored the variable OTEL_EXPORTER_OTLP_TIMEOUT: ",
        ],
    );
    // A parent that was not recorded does not matter.
    let unsampled = traceparent("00");
    let answer = server
        .connect()
        .request("GET", "/a.txt", &[("traceparent", &unsampled)]);
    assert_eq!(answer.status, 200);
    let span = &collector.of("/a.txt", 1)[0];
    assert_eq!((&*span.trace, span.flags), (TRACE, 0x301));
    for (key, value) in [
        ("service.name", "front"),
        ("service.namespace", "shop"),
        ("k", "own"),
    ] {
        assert_eq!(span.resource[key], value, "{key}");
    }
    let head = &collector.all()[0].head;
    for part in [
        "POST /in?key=1 HTTP/1.1\r\n",
        "\r\nContent-Encoding: gzip\r\n",
        "\r\nX-Key: a secret\r\n",
    ] {
        assert!(head.contains(part), "{head}");
    }
    // A reload reads them again.
    server.signal("HUP");
    says(&server, &["reloaded"]);
    eventually("a span after the reload", || {
        server.connect().get("/b.txt");
        let mut spans = collector.spans().into_iter();
        spans
            .any(|span| span.attributes["url.path"] == "/b.txt" && span.resource["service.name"] == "front")
            .then_some(())
    });
    assert!(silent.all().is_empty());
    // Flags come first.
    assert_eq!(server.stop(), 0);
    let before = collector.all().len();
    let server = launch()
        .args([
            "--otlp",
            &silent.url,
            "--otlp-compression=none",
            "--otlp-sample=0",
        ])
        .start();
    let sampled = traceparent("01");
    for (path, parent) in [("/left", &unsampled), ("/kept", &sampled)] {
        let answer = server.connect().request("GET", path, &[("traceparent", parent)]);
        assert_eq!(answer.status, 404);
    }
    silent.of("/kept", 1);
    assert_eq!(silent.spans().len(), 1);
    assert!(!silent.all()[0].head.contains("Content-Encoding"));
    assert_eq!(collector.all().len(), before);
    // The environment alone may turn traces off.
    let mut server = Launch::new(strategy)
        .root(tree.path())
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &silent.url)
        .env("OTEL_SDK_DISABLED", "true")
        .start();
    assert_eq!(server.connect().get("/a.txt").status, 200);
    // Spans would be sent before the end.
    assert_eq!(server.stop(), 0);
    assert!(!server.stderr().contains("OTEL_"), "{}", server.stderr());
    assert!(silent.of("/a.txt", 0).is_empty());
}

fn only_some_are_believed(strategy: Strategy) {
    let tree = tree();
    for (flags, is_believed) in [
        (&["--otlp-parent=all"][..], true),
        (&["--otlp-parent=trusted"], false),
        (&["--otlp-parent=trusted", "--trusted=127.0.0.0/8"], true),
        (&["--otlp-parent=none", "--trusted=127.0.0.0/8"], false),
    ] {
        let collector = Collector::taking();
        let server = launch(strategy, &tree, &collector.url).args(flags).start();
        let traced = traceparent("01");
        let answer = server
            .connect()
            .request("GET", "/a.txt", &[("traceparent", &traced)]);
        assert_eq!(answer.status, 200);
        let span = &collector.of("/a.txt", 1)[0];
        assert_eq!(
            (span.trace == TRACE, span.parent == PARENT),
            (is_believed, is_believed),
            "{flags:?}"
        );
    }
}

fn what_a_collector_does_not_take_is_sent_again_or_counted(strategy: Strategy) {
    let tree = tree();
    // It takes the third attempt.
    let collector = Collector::new(|number| if number < 2 { LATER } else { TAKEN });
    let server = launch(strategy, &tree, &collector.url).start();
    assert_eq!(server.connect().get("/a.txt").status, 200);
    let sent = eventually("three attempts", || {
        Some(collector.all()).filter(|all| all.len() >= 3)
    });
    assert_eq!(
        (&sent[0].content, &sent[1].content),
        (&sent[1].content, &sent[2].content)
    );
    eventually("the count", || {
        (counted(&server, "weir_spans_sent_total") > 0).then_some(())
    });
    says(
        &server,
        &["takes no spans: it answers with 503; ", "takes spans again"],
    );
    assert_eq!(counted(&server, "weir_spans_dropped_total"), 0);
    // It never takes some.
    let collector = Collector::new(|number| if number == 0 { NEVER } else { TAKEN });
    let server = launch(strategy, &tree, &collector.url).start();
    assert_eq!(server.connect().get("/a.txt").status, 200);
    // The look at the counter has a span, too.
    eventually("the first attempt", || collector.all().pop());
    eventually("the count", || {
        (counted(&server, "weir_spans_dropped_total") == 1).then_some(())
    });
    says(&server, &["it answers with 400; spans are lost"]);
    // It takes a part.
    let collector = Collector::new(|number| if number == 0 { PARTLY } else { TAKEN });
    let server = launch(strategy, &tree, &collector.url).start();
    assert_eq!(server.connect().get("/a.txt").status, 200);
    eventually("the first attempt", || collector.all().pop());
    eventually("the count", || {
        (counted(&server, "weir_spans_dropped_total") == 1).then_some(())
    });
    says(&server, &["rejected 1 of 1 spans: "]);
}

fn a_queue_has_an_end_and_nobody_waits_for_it(strategy: Strategy) {
    let tree = tree();
    let collector = Collector::new(|_| MUCH_LATER);
    let mut server = launch(strategy, &tree, &collector.url)
        .args(["--otlp-queue=2", "--otlp-batch=1"])
        .start();
    for _ in 0..3 {
        assert_eq!(server.connect().get("/a.txt").status, 200);
    }
    // Each look at the counter is a request with a span, for which there is no room any more.
    eventually("the count", || {
        (counted(&server, "weir_spans_dropped_total") >= 2).then_some(())
    });
    assert_eq!(counted(&server, "weir_spans_sent_total"), 0);
    for sent in collector.all() {
        assert_eq!(sent.spans().len(), 1, "a batch has its size");
    }
    assert_eq!(server.stop(), 0);
    let log = server.stderr();
    assert!(log.contains("spans are lost"), "{log}");
}

fn a_collector_that_never_answers_delays_no_stop_for_long(strategy: Strategy) {
    let tree = tree();
    let collector = Collector::new(|_| b"");
    let mut server = launch(strategy, &tree, &collector.url)
        .args(["--otlp-timeout=200ms"])
        .start();
    assert_eq!(server.connect().get("/a.txt").status, 200);
    eventually("a request to the collector", || collector.all().pop());
    says(&server, &["no response within 200ms"]);
    assert_eq!(server.connect().get("/a.txt").status, 200);
    assert_eq!(server.stop(), 0);
    assert!(server.stderr().contains("spans are lost"), "{}", server.stderr());
}

/// The strategy does not matter: processes read the file each for themselves.
fn a_reload_changes_all_but_the_collector(strategy: Strategy) {
    let (collector, other) = (Collector::taking(), Collector::taking());
    let tree = tree();
    let configure = |url: &str, more: &str| {
        let text = format!(
            "root = \"{}\"\naccess-log = \"-\"\nlog-format = \"json\"\n[otlp]\nendpoint = \"{url}\"\ninterval = \"100ms\"\n{more}\n",
            tree.path().display()
        );
        tree.write("weir.toml", text)
    };
    let config = configure(&collector.url, "service-name = \"one\"");
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    assert_eq!(server.connect().get("/a.txt").status, 200);
    assert_eq!(collector.of("/a.txt", 1)[0].resource["service.name"], "one");
    let reloads = |expected: &str, count: usize| {
        server.signal("HUP");
        eventually(expected, || {
            (server.stderr().matches(expected).count() == count).then_some(())
        });
    };
    let is_named = |name: &str| {
        eventually(name, || {
            server.connect().get("/b.txt");
            let mut spans = collector.spans().into_iter();
            spans
                .any(|span| span.resource["service.name"] == name)
                .then_some(())
        });
    };
    configure(&collector.url, "service-name = \"two\"");
    reloads("reloaded", 1);
    is_named("two");
    configure(&other.url, "service-name = \"three\"");
    reloads("reloaded; otlp will change at the next start only", 1);
    is_named("three");
    assert!(other.all().is_empty());
    // Without the table, requests have no spans any more.
    let text = format!(
        "root = \"{}\"\naccess-log = \"-\"\nlog-format = \"json\"\n",
        tree.path().display()
    );
    tree.write("weir.toml", text);
    reloads("reloaded", 3);
    eventually("a request without a trace", || {
        server.connect().get("/d.txt");
        let log = server.stdout();
        let mut lines = log.lines().filter(|line| line.contains("/d.txt"));
        lines.any(|line| !line.contains("trace_id")).then_some(())
    });
}

/// The collector's TLS ends at another server of ours.
fn a_collector_may_be_reached_over_tls(strategy: Strategy) {
    let collector = Collector::taking();
    let mut pairs = Pairs::new();
    pairs.add("c", &["localhost"]);
    let terminator = pairs
        .launch(Strategy::LOOPS, &["c"])
        .args([&format!("--proxy=/base={}", collector.url)])
        .start();
    let url = format!("https://localhost:{}/base", terminator.address.port());
    let tree = tree();
    let ca = pairs.tree.join("c.pem");
    let server = launch(strategy, &tree, &url)
        .args(["--otlp-ca".as_ref(), ca.as_os_str()])
        .start();
    assert_eq!(server.connect().get("/a.txt").status, 200);
    assert_eq!(
        collector.of("/a.txt", 1)[0].must("http.response.status_code"),
        "200"
    );
    assert!(
        collector.all()[0]
            .head
            .starts_with("POST /base/v1/traces HTTP/1.1\r\n")
    );
    // Roots that do not vouch for it are an error that names it.
    pairs.add("other", &["localhost"]);
    let wrong = pairs.tree.join("other.pem");
    let server = launch(strategy, &tree, &url)
        .args(["--otlp-ca".as_ref(), wrong.as_os_str()])
        .start();
    assert_eq!(server.connect().get("/b.txt").status, 404);
    says(&server, &["takes no spans: ", "check --otlp-ca:", "`[otlp]`"]);
    assert!(!server.stderr().contains("--insecure"));
    assert_eq!(
        collector
            .spans()
            .iter()
            .filter(|span| span.must("url.path") == "/b.txt")
            .count(),
        0
    );
}

#[test]
fn a_template_shows_the_trace() {
    let (collector, tree) = (Collector::taking(), tree());
    let server = Launch::new(Strategy::LOOPS)
        .root(tree.path())
        .args(["--otlp", &collector.url, "--access-log=-"])
        .args(["--log-template", "$target $trace_id/$span_id"])
        .start();
    let traced = traceparent("00");
    let answer = server
        .connect()
        .request("GET", "/a.txt", &[("traceparent", &traced)]);
    assert_eq!(answer.status, 200);
    eventually("the line", || {
        let log = server.stdout();
        let line = log
            .lines()
            .find_map(|line| line.strip_prefix(&format!("/a.txt {TRACE}/")));
        line.map(|span| assert!(span.len() == 16 && span != PARENT, "{span}"))
    });
}

#[test]
fn without_the_key_fields_pass_as_they_are() {
    let (upstream, tree) = (Upstream::answering(HELLO), tree());
    let server = Launch::new(Strategy::LOOPS)
        .root(tree.path())
        .args([
            &format!("--proxy=/api={}", upstream.url),
            "--access-log=-",
            "--log-format=json",
        ])
        .start();
    let traced = traceparent("01");
    let answer = server
        .connect()
        .request("GET", "/api/x", &[("traceparent", &traced)]);
    assert_eq!(answer.status, 200);
    assert!(upstream.first().contains(&format!("traceparent: {traced}\r\n")));
    assert!(logged(&server, "/api/x", 1)[0].get("trace_id").is_none());
}

#[test]
fn mistakes_are_pointed_out() {
    for (flags, fragment) in [
        (&["--otlp=127.0.0.1:4318"][..], "is not the URL of a collector"),
        (&["--otlp-sample=0.5"], "set `endpoint` (`--otlp`)"),
        (
            &["--otlp=http://127.0.0.1:1", "--otlp-sample=2"],
            "a number from 0 to 1",
        ),
        (
            &["--otlp=http://127.0.0.1:1", "--otlp-header=Host: x"],
            "`Host` is set by Weir",
        ),
        (
            &["--otlp=https://localhost:1", "--otlp-ca=/nonexistent/ca.pem"],
            "name a readable PEM file",
        ),
        (
            &["--log-template=$trace_id", "--access-log=-"],
            "`$trace_id` and `$span_id` need a collector",
        ),
    ] {
        let (code, err) = Launch::new(Strategy::LOOPS).args(flags).fail();
        assert_eq!(code, 2, "{flags:?}: {err}");
        assert!(err.contains(fragment), "{flags:?}: {err}");
    }
}

on_every_strategy!(each_request_has_a_span);
mod with_upstreams {
    use super::*;
    on_strategy!(loops, LOOPS: an_upstream_belongs_to_the_trace, an_upload_is_one_span, a_sampler_keeps_a_share_and_follows_its_callers);
    on_strategy!(loops_uring, LOOPS_URING: an_upstream_belongs_to_the_trace);
    on_strategy!(process_loops, PROCESS_LOOPS: an_upstream_belongs_to_the_trace);
}
mod of_the_collector {
    use super::*;
    on_strategy!(
        one_loop, ONE_LOOP:
        only_some_are_believed,
        the_standard_variables_are_read,
        what_a_collector_does_not_take_is_sent_again_or_counted,
        a_queue_has_an_end_and_nobody_waits_for_it,
        a_collector_that_never_answers_delays_no_stop_for_long,
        a_reload_changes_all_but_the_collector,
        a_collector_may_be_reached_over_tls
    );
    on_strategy!(
        process_loops, PROCESS_LOOPS:
        the_standard_variables_are_read,
        a_collector_that_never_answers_delays_no_stop_for_long,
        a_reload_changes_all_but_the_collector,
        a_collector_may_be_reached_over_tls
    );
}
