//! HTTP/2 as a client sees it, over every strategy: many requests at once, stops, upgrades and switches without a lost
//! stream, floods. What frames mean is tested beside the protocol and the session.
//!
//! The client is that of `frames`, in cleartext or over rustls.

#[path = "../../crates/server/src/session/http2/tests/floods.rs"]
mod floods;

use crate::serve::control::ctl;
use crate::serve::files::noise;
use crate::serve::frames::{Client, Got, connect};
use crate::serve::process::{Launch, Server, Strategy, eventually, signal, within};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::tree::Tree;
use crate::serve::upgrade::{ENDING, Line, pid_of};
use http2::Code;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A server with TLS, and a client that agreed on HTTP/2.
fn secure(strategy: Strategy, files: &[(&str, &[u8])]) -> (Pairs, Server, Client<impl Read + Write + use<>>) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    for (name, content) in files {
        pairs.tree.write(&format!("site/{name}"), content);
    }
    let server = pairs.launch(strategy, &["a"]).start();
    let mut config = Arc::unwrap_or_clone(pairs.client());
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let secure = Secure::open(server.address, &Arc::new(config), "a.test");
    assert_eq!(secure.0.conn.alpn_protocol(), Some(&b"h2"[..]));
    (pairs, server, Client::new(secure.0))
}

/// Answers name HTTP/3, those of an upstream too.
#[test]
fn answers_over_tls_name_http3() {
    let tree = Tree::with(&[("b.txt", "b")]);
    let upstream = Launch::new(Strategy::LOOPS).root(tree.path()).start();
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs.tree.write("site/a.txt", b"a");
    let text = format!(
        "[[proxy]]\npath = \"/b.txt\"\nupstreams = [\"http://{}\"]\n",
        upstream.address
    );
    let config = pairs.tree.write("weir.toml", text).display().to_string();
    let mut tls = Arc::unwrap_or_clone(pairs.client());
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let tls = Arc::new(tls);
    for (http3, is_named) in [("--http3", true), ("--http3=false", false)] {
        let launch: Launch = pairs.launch(Strategy::LOOPS, &["a"]);
        let server = launch.args(["--config", &config, http3]).start();
        let secure = Secure::open(server.address, &tls, "a.test");
        assert_eq!(secure.0.conn.alpn_protocol(), Some(&b"h2"[..]));
        let mut client = Client::new(secure.0);
        let wanted = format!("h3=\":{}\"; ma=86400", server.address.port());
        for (path, status) in [("/a.txt", 200), ("/b.txt", 200), ("/missing", 404)] {
            let got = client.get(path, &[]);
            assert_eq!(got.status, status, "{path}");
            assert_eq!(
                got.field("alt-svc"),
                is_named.then_some(wanted.as_str()),
                "{path}"
            );
            let count = got.fields.iter().filter(|(name, _)| name == "alt-svc").count();
            assert_eq!(count, usize::from(is_named), "{path}");
        }
    }
}

/// On a line with a declared rate, an answer of 100 kB has seven eighths of it beside a large one, on the same connection
/// and on another; with `shared`, both have half.
fn the_least_left_goes_first_on_a_line(strategy: Strategy) {
    let tree = Tree::new();
    tree.write("site/large.bin", noise(4_000_000));
    tree.write("site/small.bin", noise(100_000));
    let one = Strategy {
        workers: 1,
        ..strategy
    };
    let meanwhile = |server: &Server, is_same: bool| {
        let open = || Client::new(server.connect().stream().try_clone().expect("another handle"));
        let (mut client, mut other) = (open(), open());
        // Incremental: otherwise the smaller one goes first in any order.
        let turns = [("priority", "u=3, i")];
        let large = client.ask_as("/large.bin", &turns);
        assert!(client.run(|client| client.got[&large].body.len() > 20_000));
        let before = client.got[&large].body.len();
        let asked = if is_same { &mut client } else { &mut other };
        let small = asked.ask_as("/small.bin", &turns);
        assert!(asked.run(|asked| asked.got[&small].has_ended));
        assert_eq!(asked.got[&small].body.len(), 100_000);
        // What has come of the large one until now.
        let short = Some(Duration::from_millis(1));
        client.stream.set_read_timeout(short).expect("a timeout");
        assert!(!client.run(|_| false));
        client.got[&large].body.len() - before
    };
    for is_same in [true, false] {
        let server = clear(one, &tree, &["--line-rate", "2Mbit", "--compress=false"]);
        // What comes between the end of the one and the look at the other grows with what else this machine does.
        eventually("the line for the smaller answer", || {
            (meanwhile(&server, is_same) < 50_000).then_some(())
        });
        let server = clear(
            one,
            &tree,
            &[
                "--line-rate",
                "2Mbit",
                "--line-order",
                "shared",
                "--compress=false",
            ],
        );
        let shared = meanwhile(&server, is_same);
        assert!(shared > 70_000, "on the same connection: {is_same}; {shared}");
    }
}

/// A server that speaks HTTP/2 in cleartext.
fn clear(strategy: Strategy, tree: &Tree, more: &[&str]) -> Server {
    let root = tree.join("site");
    Launch::new(strategy)
        .root(&root)
        .args(["--http2", "all"])
        .args(more)
        .start()
}

fn an_idle_connection_that_gives_way_is_told(strategy: Strategy) {
    let tree = Tree::with(&[("site/a.txt", "a file")]);
    let server = clear(strategy, &tree, &["--max-connections=1"]);
    let mut first = connect(&server);
    assert_eq!(first.get("/a.txt", &[]).text(), "a file");
    // It waits until the first one has been idle for a while.
    assert_eq!(server.connect().get("/a.txt").text(), "a file");
    assert!(first.run(|client| client.left.is_some()));
    assert_eq!(first.left, Some(Code::NO_ERROR));
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}

fn many_requests_at_once_are_answered(strategy: Strategy) {
    let (small, page, large) = (noise(500), noise(16_384), noise(2_000_000));
    let files: [(&str, &[u8]); 3] = [("small", &small), ("page", &page), ("large", &large)];
    let (_pairs, _server, mut client) = secure(strategy, &files);
    let mut asked = Vec::new();
    for round in 0..20 {
        for (name, content) in files {
            if name != "large" || round == 0 {
                asked.push((client.ask(&format!("/{name}")), content));
            }
        }
    }
    assert!(client.run(Client::is_done));
    for (stream, content) in asked {
        assert!(client.is_200(stream, content), "stream {stream}");
    }
}

/// `--request-micros` is for streams, too.
fn each_request_takes_the_time_that_was_set(strategy: Strategy) {
    let tree = Tree::with(&[("site/a.txt", "a file")]);
    let server = clear(strategy, &tree, &["--request-micros", "200000"]);
    let mut client = connect(&server);
    let start = Instant::now();
    let asked = [client.ask("/a.txt"), client.ask("/a.txt")];
    assert!(client.run(Client::is_done), "{:?}", client.left);
    assert!(start.elapsed() >= Duration::from_millis(400));
    for stream in asked {
        assert!(client.is_200(stream, b"a file"), "stream {stream}");
    }
}

fn a_stop_loses_no_stream(strategy: Strategy) {
    let large = noise(3_000_000);
    let (_pairs, mut server, mut client) = secure(strategy, &[("large", &large)]);
    let first = client.ask("/large");
    assert!(client.run(|client| client.got[&first].status == 200));
    server.signal("TERM");
    // It may have been sent before the client knew.
    let second = client.ask("/");
    assert!(client.run(Client::is_done), "{:?}", client.left);
    assert!(client.is_200(first, &large) && client.is_200(second, b"hello"));
    client.run(|client| client.left.is_some());
    assert_eq!(client.left, Some(Code::NO_ERROR));
    drop(client);
    assert_eq!(server.wait(), 0);
}

fn an_upgrade_loses_no_stream(strategy: Strategy) {
    let large = noise(3_000_000);
    let (_pairs, server, mut client) = secure(strategy, &[("large", &large)]);
    let stream = client.ask("/large");
    assert!(client.run(|client| client.got[&stream].status == 200));
    let mut line = Line::of(server);
    signal(line.newest, "USR2");
    line.newest = pid_of(&line.next_start());
    assert!(client.run(Client::is_done), "{:?}", client.left);
    assert!(client.is_200(stream, &large));
    assert!(client.run(|client| client.left.is_some()));
    drop(client);
    within(ENDING, "the old one ends", || line.first.has_ended());
}

/// How long a normal client may wait beside a flood, on a busy machine.
const BESIDE: Duration = Duration::from_secs(15);
/// Processor time that two thousand requests may cost.
const WORK: Duration = Duration::from_secs(1);

/// A connection of a hostile client, which gives up writing when the server does.
fn hostile(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address).expect("a connection");
    stream
        .set_read_timeout(Some(crate::serve::process::PATIENCE))
        .expect("a timeout");
    stream
        .set_write_timeout(Some(crate::serve::process::PATIENCE))
        .expect("a timeout");
    stream
}

/// Fails if a new client is not served in time.
fn is_served(server: &Server, beside: &str) {
    let begin = Instant::now();
    is_answered(server, beside);
    let took = begin.elapsed();
    assert!(took <= BESIDE, "{beside}: a normal client waited {took:?}");
}

/// Fails if a new client is not served.
fn is_answered(server: &Server, beside: &str) {
    let mut client = connect(server);
    let stream = client.ask("/");
    assert!(
        client.run(Client::is_done),
        "{beside}: a normal client is not served"
    );
    assert!(client.is_200(stream, b"hello"), "{beside}");
}

fn a_flood_ends_its_connection_alone(strategy: Strategy) {
    let tree = Tree::with(&[("site/index.html", "hello")]);
    let server = clear(strategy, &tree, &[]);
    for flood in floods::FLOODS {
        let name = flood.name;
        let mut stream = hostile(&server);
        let mut writer = stream.try_clone().expect("a descriptor");
        // It may be cut off while it writes.
        let bytes = flood.bytes();
        let writing = std::thread::spawn(move || writer.write_all(&bytes));
        is_served(&server, name);
        let mut said = Vec::new();
        let mut buffer = [0; 65_536];
        let is_over = |said: &[u8]| match flood.ends {
            floods::Ends::With(_) => floods::left(said).is_some(),
            floods::Ends::Borne => {
                let frames = floods::frames(said).into_iter();
                frames
                    .filter(|(kind, ..)| *kind == http2::frame::kind::HEADERS)
                    .count()
                    > 200
            }
        };
        while !is_over(&said) {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(count) => said.extend_from_slice(&buffer[..count]),
            }
        }
        let code = floods::left(&said);
        match flood.ends {
            floods::Ends::With(expected) => assert_eq!(code, Some(expected), "{name}: {} bytes", said.len()),
            floods::Ends::Borne => assert!(is_over(&said) && code.is_none(), "{name}: {code:?}"),
        }
        // It may be writing what nobody takes any more.
        let _ = stream.shutdown(std::net::Shutdown::Both);
        let _ = writing.join().expect("a thread that writes");
        is_served(&server, name);
    }
}

/// A client whose windows let `window` bytes of each answer pass, with a hundred requests under way.
fn starving(server: &Server, window: u32) -> TcpStream {
    let mut stream = hostile(server);
    let mut bytes = http2::frame::PREFACE.to_vec();
    http2::frame::write::settings(&mut bytes, &[http2::frame::Setting::InitialWindowSize(window)]);
    for number in 0..100 {
        floods::ask(2 * number + 1, "/large", &[], &mut bytes);
    }
    stream.write_all(&bytes).expect("requests");
    stream
}

/// Reads until a hundred answers have begun.
fn have_begun(stream: &mut TcpStream) {
    let mut begun = 0;
    while begun < 100 {
        let mut head = [0; 9];
        stream.read_exact(&mut head).expect("a frame");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload).expect("a payload");
        begun += u32::from(head[3] == http2::frame::kind::HEADERS);
    }
}

#[test]
fn closed_windows_and_idle_connections_by_the_thousand_delay_nobody() {
    let tree = Tree::with(&[("site/index.html", "hello")]);
    tree.write("site/large", noise(1_000_000));
    let server = clear(Strategy::LOOPS, &tree, &[]);
    let mut hungry: Vec<TcpStream> = (0..20).map(|number| starving(&server, number % 2)).collect();
    // Two thousand requests are work. How long that takes is up to what else this machine does, so the second is one of
    // the server's processor time.
    let before = server.cpu();
    is_answered(&server, "two thousand requests");
    let took = server.cpu() - before;
    assert!(took <= WORK, "two thousand requests: {took:?} of processor time");
    // Their closed windows cost nothing.
    hungry.iter_mut().for_each(have_begun);
    is_served(&server, "closed windows");
    let mut idle: Vec<Client<TcpStream>> = (0..1_000).map(|_| connect(&server)).collect();
    for client in &mut idle {
        client.ask("/");
    }
    is_served(&server, "idle connections");
    for client in &mut idle {
        assert!(client.run(Client::is_done));
    }
    is_served(&server, "idle connections");
    drop((hungry, idle));
}

fn streams_beyond_the_limit_are_refused(strategy: Strategy) {
    let tree = Tree::with(&[("site/index.html", "hello")]);
    tree.write("site/large", noise(1_000_000));
    let server = clear(strategy, &tree, &["--max-streams", "3"]);
    let mut client = connect(&server);
    // The client knows no limit yet.
    let streams: Vec<u32> = (0..5).map(|_| client.ask("/large")).collect();
    let is_over = |client: &Client<TcpStream>| {
        let over = |got: &Got| got.has_ended || got.reset.is_some();
        client.got.values().all(over)
    };
    assert!(client.run(is_over));
    let refused = |stream: &&u32| client.got[stream].reset == Some(Code::REFUSED_STREAM);
    assert!(streams.iter().filter(refused).count() <= 2);
    assert!(client.got[&streams[0]].body.len() == 1_000_000);
}

#[test]
fn a_strategy_changes_without_a_lost_stream() {
    let tree = Tree::with(&[("site/index.html", "hello")]);
    let large = noise(3_000_000);
    tree.write("site/large", &large);
    let socket = tree.join("ctl.sock");
    let control = socket.display().to_string();
    let server = clear(Strategy::LOOPS, &tree, &["--control", &control]);
    let mut client = connect(&server);
    let stream = client.ask("/large");
    assert!(client.run(|client| client.got[&stream].status == 200));
    let (code, said) = ctl(&socket, &["strategy", "pool"]);
    assert_eq!(code, 0, "{said}");
    assert!(client.run(Client::is_done), "{:?}", client.left);
    assert!(client.is_200(stream, &large));
    // The connection is told to go, and a new one is served by the new strategy.
    assert!(client.run(|client| client.left.is_some()));
    let mut next = connect(&server);
    let stream = next.ask("/");
    assert!(next.run(Client::is_done));
    assert!(next.is_200(stream, b"hello"));
}

#[test]
fn cleartext_is_http_1_unless_it_is_said() {
    let tree = Tree::with(&[("site/index.html", "hello")]);
    let server = Server::of(Strategy::LOOPS, &tree.join("site"));
    let mut stream = TcpStream::connect(server.address).expect("a connection");
    stream.write_all(http2::frame::PREFACE).expect("a preface");
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    assert!(said.starts_with("HTTP/1.1 505 "), "{said}");
}

const PAGE: &str = "<link rel=stylesheet href=/a.css><script src=a.js></script><img src=a.png><script type=module \
                    src=m.js></script>";

fn a_page_that_is_not_ready_is_announced_with_what_it_embeds(strategy: Strategy) {
    let version = |n: usize| format!("{PAGE}<p>{n}{}", "all work and no play ".repeat(500));
    let tree = Tree::with(&[("site/index.html", &version(0)[..])]);
    let server = clear(strategy, &tree, &["--early-hints"]);
    let mut client = connect(&server);
    let mut visit = |fields: &[(&str, &str)]| {
        let stream = client.ask_as("/", fields);
        assert!(client.run(Client::is_done), "{:?}", client.left);
        let got = &client.got[&stream];
        let body = String::from_utf8_lossy(&got.body).into_owned();
        (got.status, got.hints.clone(), body)
    };
    assert_eq!(visit(&[]).1, [""; 0], "nothing is known before the first visit");
    // The page is scanned aside, so it is known a moment later; each change makes a visitor wait for a job again.
    let mut count = 0;
    let known = eventually("a hint", || {
        count += 1;
        tree.write("site/index.html", version(count));
        let (_, hints, _) = visit(&[("sec-fetch-mode", "navigate")]);
        (!hints.is_empty()).then_some(hints)
    });
    let line = "</a.css>; rel=preload; as=style, </a.js>; rel=preload; as=script";
    assert_eq!(known, [line]);
    for fields in [
        &[("sec-fetch-mode", "cors")][..],
        &[("range", "bytes=0-9"), ("if-range", "\"other\"")],
        &[("if-none-match", "\"other\"")],
        &[("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")],
        &[(":method", "HEAD")],
    ] {
        count += 1;
        tree.write("site/index.html", version(count));
        // With the new content, the visitor has waited for the job.
        eventually("the new page", || {
            let (_, hints, body) = visit(fields);
            assert_eq!(hints, [""; 0], "{fields:?}");
            let is_head = fields.contains(&(":method", "HEAD"));
            (is_head || body == version(count)).then_some(())
        });
    }
    // Over HTTP/1.1 the first response is the final one.
    count += 1;
    tree.write("site/index.html", version(count));
    eventually("the new page", || {
        let response = server.connect().get("/");
        assert_eq!(response.status, 200);
        (response.text() == version(count)).then_some(())
    });
    // A path that no longer leads to a page has no hints, once a visitor was told so.
    eventually("a hint", || {
        count += 1;
        tree.write("site/index.html", version(count));
        (!visit(&[]).1.is_empty()).then_some(())
    });
    std::fs::remove_file(tree.path().join("site/index.html")).expect("it is there");
    eventually("the page is gone", || (visit(&[]).0 == 403).then_some(()));
    assert_eq!(visit(&[]).1, [""; 0], "it is not announced again");
}

mod everywhere {
    use super::*;
    crate::serve::on_every_strategy!(
        many_requests_at_once_are_answered,
        a_stop_loses_no_stream,
        an_upgrade_loses_no_stream,
    );
}

mod on_each_back_end {
    use super::*;
    crate::serve::on_each_back_end!(
        a_flood_ends_its_connection_alone,
        an_idle_connection_that_gives_way_is_told,
        each_request_takes_the_time_that_was_set,
        streams_beyond_the_limit_are_refused,
        a_page_that_is_not_ready_is_announced_with_what_it_embeds,
    );
}

mod on_a_line {
    use super::*;
    crate::serve::on_strategy!(loops, LOOPS: the_least_left_goes_first_on_a_line);
    crate::serve::on_strategy!(loops_uring, LOOPS_URING: the_least_left_goes_first_on_a_line);
}
