//! Upstreams that speak HTTP/2: heads, bodies and trailers both ways, so that gRPC passes; what is reused, and what a client
//! gets if the upstream gives a request up.
//!
//! The upstream in cleartext is hyper, which is independent of this project; with TLS, it is a Weir that agrees on HTTP/2.

use crate::serve::messages::REFUSED;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tls::Pairs;
use crate::serve::tree::Tree;
use crate::serve::{frames, on_strategy};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncWrite};

/// What an upstream got.
#[derive(Default)]
pub(crate) struct Heard {
    heads: Mutex<Vec<String>>,
    connections: AtomicUsize,
}

impl Heard {
    pub(crate) fn all(&self) -> Vec<String> {
        self.heads.lock().expect("no upstream panics").clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Bytes of a response that no kernel buffers.
const LARGE: usize = 32 << 20;

type Answer = Result<Response<UnsyncBoxBody<Bytes, hyper::Error>>, std::io::Error>;

/// Answers with the target; with the content, if there is any; as a gRPC server below `/api/rpc`.
async fn answer(request: Request<Incoming>, heard: Arc<Heard>) -> Answer {
    let fields = request.headers().iter();
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    let head = format!("{} {}\n{}", request.method(), request.uri(), fields.join("\n"));
    heard.heads.lock().expect("no upstream panics").push(head);
    let path = request.uri().path().to_owned();
    let has_te = request.headers().get("te").is_some_and(|te| te == "trailers");
    let (_, body) = request.into_parts();
    let full = |bytes: Bytes| Full::new(bytes).map_err(|never: Infallible| match never {});
    match path.as_str() {
        "/api/large" => {
            let answer = Response::builder().header("content-length", LARGE);
            return Ok(answer
                .body(full(Bytes::from(vec![b'x'; LARGE])).boxed_unsync())
                .expect("a response"));
        }
        "/api/fresh" | "/api/stale" => {
            let directives = match path.ends_with("fresh") {
                true => "max-age=6000",
                false => "max-age=0, stale-while-revalidate=6000",
            };
            let answer = Response::builder().header("cache-control", directives);
            return Ok(answer
                .body(full(Bytes::from(path)).boxed_unsync())
                .expect("a response"));
        }
        "/api/reset" => return Err(std::io::Error::other("as asked")),
        "/api/rpc/refuse" => {
            let answer = Response::builder()
                .header("content-type", "application/grpc")
                .header("grpc-status", "5");
            return Ok(answer
                .body(full(Bytes::new()).boxed_unsync())
                .expect("a response"));
        }
        // Each message goes back as it comes.
        "/api/rpc/echo" if has_te => {
            let mut end = HeaderMap::new();
            end.insert("grpc-status", HeaderValue::from_static("0"));
            let body = body.with_trailers(async move { Some(Ok(end)) });
            let answer = Response::builder().header("content-type", "application/grpc");
            return Ok(answer.body(body.boxed_unsync()).expect("a response"));
        }
        _ => {}
    }
    let collected = body.collect().await.map_err(std::io::Error::other)?;
    let trailers = collected.trailers().map_or(0, HeaderMap::len);
    let bytes = collected.to_bytes();
    let bytes = if bytes.is_empty() {
        Bytes::from(path)
    } else {
        bytes
    };
    let answer = Response::builder().header("x-trailers", trailers);
    Ok(answer.body(full(bytes).boxed_unsync()).expect("a response"))
}

/// An upstream of HTTP/2 in cleartext, and its address.
pub(crate) fn upstream() -> (String, Arc<Heard>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("h2c://{}", listener.local_addr().expect("its address"));
    listener.set_nonblocking(true).expect("a socket");
    let heard = served(|heard| async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        while let Ok((stream, _)) = listener.accept().await {
            serve(stream, &heard);
        }
    });
    (url, heard)
}

/// The same on a Unix socket.
pub(crate) fn upstream_on_socket(tree: &Tree) -> (String, Arc<Heard>) {
    let path = tree.join("app.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    listener.set_nonblocking(true).expect("a socket");
    let heard = served(|heard| async move {
        let listener = tokio::net::UnixListener::from_std(listener).expect("a listener");
        while let Ok((stream, _)) = listener.accept().await {
            serve(stream, &heard);
        }
    });
    (format!("h2c+unix:{}", path.display()), heard)
}

/// Accepts connections on a thread.
fn served<F: Future<Output = ()> + 'static>(
    accept: impl FnOnce(Arc<Heard>) -> F + Send + 'static,
) -> Arc<Heard> {
    let heard = Arc::new(Heard::default());
    let noted = Arc::clone(&heard);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(accept(noted));
    });
    heard
}

/// Answers the requests of a connection.
fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, heard: &Arc<Heard>) {
    heard.connections.fetch_add(1, Ordering::SeqCst);
    let heard = Arc::clone(heard);
    tokio::spawn(async move {
        let service = hyper::service::service_fn(move |request| answer(request, Arc::clone(&heard)));
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service)
            .await;
    });
}

fn launch(strategy: Strategy, tree: &Tree, table: &str) -> Server {
    let text = format!(
        "root = \"{}\"\nhttp2 = \"all\"\n[[proxy]]\npath = \"/api/*\"\n{table}\n",
        tree.path().display()
    );
    let config = tree.write("weir.toml", text);
    Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start()
}

fn tree() -> Tree {
    Tree::with(&[("a.txt", "a file")])
}

fn requests_and_bodies_pass(strategy: Strategy) {
    let tree = tree();
    let (url, heard) = upstream();
    let one = Strategy {
        workers: 1,
        ..strategy
    };
    let server = launch(one, &tree, &format!("upstreams = [\"{url}\"]"));
    let mut connection = server.connect();
    for number in 0..5 {
        let target = format!("/api/{number}?q");
        let answer = connection.request("GET", &target, &[("Cookie", "a=b")]);
        assert_eq!((answer.status, answer.text()), (200, format!("/api/{number}")));
        assert_eq!(answer.must("Via"), "2.0 weir", "the version of the upstream");
    }
    assert_eq!(
        heard.connections(),
        1,
        "one connection, one request after another"
    );
    let first = &heard.all()[0];
    for line in [
        "GET http://weir.localhost/api/0?q",
        "cookie: a=b",
        "te: trailers",
        "via: 1.1 weir",
    ] {
        assert!(first.contains(line), "{line}: {first}");
    }
    assert!(
        !first.contains("connection:") && !first.contains("\nhost:"),
        "{first}"
    );
    // Content of many windows, of a known length and in chunks, from clients of both versions.
    let content = "0123456789abcdef".repeat(40_000);
    connection.send(format!(
        "POST /api/x HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{content}",
        content.len()
    ));
    assert!(connection.receive("POST").text() == content);
    connection.send(format!(
        "POST /api/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{content}\r\n0\r\nX-End: 1\r\n\r\n",
        content.len()
    ));
    let answer = connection.receive("POST");
    assert!(answer.text() == content);
    assert_eq!(answer.must("X-Trailers"), "1");
    let mut client = frames::connect(&server);
    let stream = client.open("/api/x", &[(":method", "POST")], false);
    assert!(client.send_body(stream, content.as_bytes()));
    client.end(stream, &[("x-end", "1"), ("x-more", "2")]);
    let got = client.end_of(stream);
    assert!(got.text() == content);
    assert_eq!(got.field("x-trailers"), Some("2"));
    assert_eq!(got.field("via"), Some("2.0 weir"));
    let got = connection.request("HEAD", "/api/x", &[]);
    assert_eq!(got.status, 200);
    assert_eq!(connection.get("/api/last").text(), "/api/last");
}

fn grpc_passes(strategy: Strategy) {
    let tree = tree();
    let (url, heard) = upstream();
    let server = launch(strategy, &tree, &format!("upstreams = [\"{url}\"]"));
    let mut client = frames::connect(&server);
    let asks: &[(&str, &str)] = &[
        (":method", "POST"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-timeout", "20S"),
    ];
    // Several calls at a time, each with messages one after another: the next one goes out once the one before came back.
    let streams: Vec<u32> = (0..4)
        .map(|_| client.open("/api/rpc/echo", asks, false))
        .collect();
    for round in 1..=3 {
        for &stream in &streams {
            assert!(client.send_body(stream, b"\0\0\0\0\x05hello"));
            assert!(client.run(|client| client.got[&stream].body.len() == round * 10));
        }
    }
    for &stream in &streams {
        client.end(stream, &[]);
        let got = client.end_of(stream);
        assert_eq!(
            (got.status, got.field("content-type")),
            (200, Some("application/grpc"))
        );
        assert_eq!(got.trailers, [("grpc-status".to_owned(), "0".to_owned())]);
    }
    assert!(
        heard.all()[0].contains("grpc-timeout: 20S"),
        "{:?}",
        heard.all()[0]
    );
    // A response of a head only.
    let stream = client.open("/api/rpc/refuse", asks, false);
    assert!(client.send_body(stream, b"\0\0\0\0\0"));
    client.end(stream, &[]);
    assert_eq!(client.end_of(stream).field("grpc-status"), Some("5"));
}

fn a_reset_is_an_error_and_others_go_on(strategy: Strategy) {
    let tree = tree();
    let (url, _heard) = upstream();
    let server = launch(strategy, &tree, &format!("upstreams = [\"{url}\"]"));
    assert_eq!(server.connect().get("/api/reset").status, 502);
    let mut client = frames::connect(&server);
    let reset = client.ask("/api/reset");
    let whole = client.ask("/api/whole");
    assert_eq!(client.end_of(reset).status, 502);
    assert_eq!(client.end_of(whole).text(), "/api/whole");
    // A client that gives up takes no other request of the shared connection with it.
    let mut gone = frames::connect(&server);
    let stream = gone.open("/api/rpc/echo", &[(":method", "POST")], false);
    assert!(gone.send_body(stream, b"x"));
    drop(gone);
    assert_eq!(server.connect().get("/api/y").text(), "/api/y");
}

fn a_client_that_reads_nothing_does_not_stall_others(strategy: Strategy) {
    let tree = tree();
    let (url, heard) = upstream();
    let one = Strategy {
        workers: 1,
        ..strategy
    };
    let server = launch(one, &tree, &format!("upstreams = [\"{url}\"]"));
    let mut slow: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for connection in &mut slow {
        connection.send("GET /api/large HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    eventually("four requests at the upstream", || {
        let large = heard.all().into_iter().filter(|head| head.contains("/api/large"));
        (large.count() == 4).then_some(())
    });
    for number in 0..100 {
        let target = format!("/api/{number}");
        assert_eq!(server.connect().get(&target).text(), target);
    }
    let content = "0123456789abcdef".repeat(40_000);
    let mut connection = server.connect();
    connection.send(format!(
        "POST /api/x HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{content}",
        content.len()
    ));
    assert!(connection.receive("POST").text() == content);
    assert_eq!(heard.connections(), 1);
    // What waited arrives whole.
    let got = slow.pop().expect("four").receive("GET");
    assert!(got.body.len() == LARGE && got.body.iter().all(|byte| *byte == b'x'));
    // Those that leave give their streams back.
    drop(slow);
    assert_eq!(server.connect().get("/api/last").text(), "/api/last");
    assert_eq!(heard.connections(), 1);
}

fn nothing_ambiguous_is_passed_on(strategy: Strategy) {
    let tree = tree();
    let (url, heard) = upstream();
    let server = launch(strategy, &tree, &format!("upstreams = [\"{url}\"]"));
    for (why, request, status) in REFUSED {
        let mut connection = server.connect();
        connection.send(request.replace("/a.txt", "/api/a.txt"));
        connection.try_send("GET /api/smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
        let answer = connection.receive("GET");
        assert!(
            answer.status == *status || answer.status == 502,
            "{why}: {}",
            answer.status
        );
        assert!(answer.closes(), "{why}");
    }
    assert!(
        heard.all().iter().all(|head| !head.contains("smuggled")),
        "{:?}",
        heard.all()
    );
}

on_strategy!(loops, LOOPS:
    requests_and_bodies_pass, grpc_passes, a_reset_is_an_error_and_others_go_on, nothing_ambiguous_is_passed_on,
    a_client_that_reads_nothing_does_not_stall_others);
on_strategy!(loops_uring, LOOPS_URING:
    requests_and_bodies_pass, grpc_passes, a_client_that_reads_nothing_does_not_stall_others);
on_strategy!(process_loops, PROCESS_LOOPS: grpc_passes);

/// A Unix socket may speak HTTP/2, too: requests of a loop share a connection, and content, trailers, checks and `--proxy` work.
fn sockets_speak_http2(strategy: Strategy) {
    let tree = tree();
    let (url, heard) = upstream_on_socket(&tree);
    let one = Strategy {
        workers: 1,
        ..strategy
    };
    let server = launch(one, &tree, &format!("upstreams = [\"{url}\"]"));
    let mut connection = server.connect();
    for number in 0..5 {
        let target = format!("/api/{number}?q");
        let answer = connection.get(&target);
        assert_eq!((answer.status, answer.text()), (200, format!("/api/{number}")));
        assert_eq!(answer.must("Via"), "2.0 weir");
    }
    let content = "0123456789abcdef".repeat(40_000);
    connection.send(format!(
        "POST /api/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{content}\r\n0\r\nX-End: 1\r\n\r\n",
        content.len()
    ));
    let answer = connection.receive("POST");
    assert!(answer.text() == content);
    assert_eq!(answer.must("X-Trailers"), "1");
    assert_eq!(heard.connections(), 1);
    assert!(heard.all()[0].starts_with("GET http://weir.localhost/api/0?q"));
    let flag = format!("--proxy=/api={url}");
    let server = Launch::new(one).root(tree.path()).args([&flag]).start();
    assert_eq!(server.connect().get("/api/flag").text(), "/api/flag");
    assert_eq!(heard.connections(), 2);
    let table = format!("upstreams = [\"{url}\"]\n[proxy.check]\npath = \"/healthz\"\ninterval = \"20ms\"");
    let server = launch(one, &tree, &table);
    assert_eq!(server.connect().get("/api/x").status, 200);
    eventually("two good checks", || {
        let checks = heard.all().into_iter().filter(|head| head.contains("/healthz"));
        (checks.count() > 1).then_some(())
    });
    assert!(
        !server.stderr().contains("the check failed"),
        "{}",
        server.stderr()
    );
}

on_strategy!(sockets, LOOPS: sockets_speak_http2);
on_strategy!(sockets_uring, LOOPS_URING: sockets_speak_http2);

#[test]
fn checks_speak_http2_too() {
    let tree = tree();
    let (url, heard) = upstream();
    let table = format!("upstreams = [\"{url}\"]\n[proxy.check]\npath = \"/healthz\"\ninterval = \"20ms\"");
    let server = launch(Strategy::LOOPS, &tree, &table);
    assert_eq!(server.connect().get("/api/x").status, 200);
    eventually("two good checks", || {
        let checks = heard.all().into_iter().filter(|head| head.contains("/healthz"));
        (checks.count() > 1).then_some(())
    });
    assert_eq!(server.connect().get("/api/x").status, 200);
    assert!(
        !server.stderr().contains("the check failed"),
        "{}",
        server.stderr()
    );
}

#[test]
fn an_upstream_with_tls_chooses_the_version() {
    let mut pairs = Pairs::new();
    pairs.add("local", &["127.0.0.1"]);
    let behind = pairs
        .launch(Strategy::LOOPS, &["local"])
        .args(["--access-log=-"])
        .start();
    let tree = Tree::with(&[("a.txt", "a file")]);
    for (http2, version) in [(true, "HTTP/2.0"), (false, "HTTP/1.1")] {
        let table = format!(
            "strip = true\nhttp2 = {http2}\nupstreams = [\"https://{}\"]\n[proxy.tls]\nca = \"{}\"",
            behind.address,
            pairs.tree.join("local.pem").display()
        );
        let server = launch(Strategy::LOOPS, &tree, &table);
        let mut connection = server.connect();
        for _ in 0..3 {
            let answer = connection.get("/api/index.html");
            assert_eq!(answer.text(), "hello");
            let via = if http2 { "2.0 weir" } else { "1.1 weir" };
            assert_eq!(answer.must("Via"), via);
        }
        // Several at a time.
        let mut client = frames::connect(&server);
        let streams: Vec<u32> = (0..30).map(|_| client.ask("/api/index.html")).collect();
        for stream in streams {
            assert_eq!(client.end_of(stream).text(), "hello");
        }
        eventually("the version in the log of the upstream", || {
            behind.stdout().contains(version).then_some(())
        });
    }
}

/// A server and a client of gRPC in one process. The server's port goes out, the proxy's comes in.
const GRPC: &str = r#"
import sys
try:
    import grpc
except ImportError:
    sys.exit()
from concurrent import futures

def double(request, context):
    context.set_trailing_metadata((("x-end", "trailing"),))
    return request * 2
def refuse(request, context):
    context.abort(grpc.StatusCode.NOT_FOUND, "no such thing")
def count(request, context):
    for number in range(int(request)):
        yield b"%d" % number
def total(requests, context):
    return b"%d" % sum(len(one) for one in requests)
def echo(requests, context):
    for one in requests:
        yield one

server = grpc.server(futures.ThreadPoolExecutor(16))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.T", {
    "Double": grpc.unary_unary_rpc_method_handler(double),
    "Refuse": grpc.unary_unary_rpc_method_handler(refuse),
    "Count": grpc.unary_stream_rpc_method_handler(count),
    "Total": grpc.stream_unary_rpc_method_handler(total),
    "Echo": grpc.stream_stream_rpc_method_handler(echo),
}),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
with grpc.insecure_channel("127.0.0.1:" + sys.stdin.readline().strip()) as channel:
    answer, call = channel.unary_unary("/test.T/Double").with_call(b"abc", timeout=30)
    print(answer, call.code().name, dict(call.trailing_metadata())["x-end"])
    try:
        channel.unary_unary("/test.T/Refuse")(b"", timeout=30)
    except grpc.RpcError as error:
        print(error.code().name, error.details())
    numbers = list(channel.unary_stream("/test.T/Count")(b"5000", timeout=30))
    print(len(numbers), numbers[-1])
    print(channel.stream_unary("/test.T/Total")(iter([b"x" * 60000] * 50), timeout=30))
    import queue
    asked = queue.Queue()
    replies = channel.stream_stream("/test.T/Echo")(iter(asked.get, None), timeout=30)
    for number in range(100):
        asked.put(b"%d" % number)
        assert next(replies) == b"%d" % number
    asked.put(None)
    print(list(replies), replies.code().name)
    with futures.ThreadPoolExecutor(20) as pool:
        double = channel.unary_unary("/test.T/Double")
        print(sum(len(one) for one in pool.map(lambda _: double(b"abc", timeout=30), range(200))))
server.stop(None)
"#;

#[test]
fn calls_of_grpcio_pass() {
    let python = Command::new("python3")
        .args(["-c", GRPC])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        return println!("skipped: no python3 with grpcio");
    };
    let mut printed = BufReader::new(python.stdout.take().expect("it is piped"));
    let mut port = String::new();
    printed.read_line(&mut port).expect("a line");
    if port.is_empty() {
        python.wait().expect("it ends");
        return println!("skipped: no python3 with grpcio");
    }
    let tree = tree();
    let text = format!(
        "root = \"{}\"\nhttp2 = \"all\"\n[[proxy]]\npath = \"/test.T/*\"\nupstreams = [\"h2c://127.0.0.1:{}\"]\n",
        tree.path().display(),
        port.trim()
    );
    let config = tree.write("weir.toml", text);
    let server = Launch::new(Strategy::LOOPS)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let mut input = python.stdin.take().expect("it is piped");
    writeln!(input, "{}", server.address.port()).expect("it reads");
    let mut rest = String::new();
    printed.read_to_string(&mut rest).expect("text");
    assert!(python.wait().expect("it ends").success(), "{rest}");
    let expected = "b'abcabc' OK trailing\nNOT_FOUND no such thing\n5000 b'4999'\nb'3000000'\n[] OK\n1200\n";
    assert_eq!(rest, expected);
}
