//! `weir record` and `weir serve --replay`: what a recording holds, which response a request gets from it, and recordings
//! that were interrupted, bounded or changed.

use crate::cli::{WEIR, text, weir};
use crate::fixture::Refusing;
use crate::schema;
use crate::serve::clients;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, Response};
use crate::serve::{on_each_back_end, on_every_strategy};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A server of fixed answers by target. A target without one is never answered.
struct Origin {
    address: SocketAddr,
    /// The heads of all requests.
    seen: Arc<Mutex<Vec<String>>>,
}

type Answers = dyn Fn(&str) -> Option<String> + Send + Sync;

impl Origin {
    fn new(answers: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answers, all): (Arc<Answers>, _) = (Arc::new(answers), Arc::clone(&seen));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answers, seen) = (Arc::clone(&answers), Arc::clone(&all));
                std::thread::spawn(move || talk(stream, &*answers, &seen));
            }
        });
        Origin { address, seen }
    }

    /// Its URL under this name.
    fn url(&self, name: &str, target: &str) -> String {
        format!("http://{name}:{}{target}", self.address.port())
    }

    fn seen(&self) -> String {
        self.seen.lock().expect("no thread panics").concat()
    }
}

/// Answers the requests of one connection. An answer without a length ends with the connection.
fn talk(stream: TcpStream, answers: &Answers, seen: &Mutex<Vec<String>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let target = head.split(' ').nth(1).expect("a target").to_owned();
        seen.lock().expect("no thread panics").push(head);
        let Some(answer) = answers(&target) else {
            // Until the client leaves.
            let _ = stream.read_line(&mut String::new());
            return;
        };
        let is_sent = stream.get_mut().write_all(answer.as_bytes()).is_ok();
        if !is_sent || !answer.contains("Content-Length") {
            return;
        }
    }
}

fn answer(status: &str, fields: &str, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!(
        "HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    ))
}

fn page(body: &str) -> Option<String> {
    answer("200 OK", "Content-Type: text/html\r\n", body)
}

/// Runs `weir record --json`: what it reports, with this exit code, and its errors.
fn record(url: &str, folder: &Path, more: &[&str], code: i32) -> (Value, String) {
    let folder = folder.to_str().expect("text");
    let output = weir(&[&["record", "--json", url, folder], more].concat());
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    (first_line(&output.stdout), errors)
}

/// The first line of JSON of an output: after it, a failure has a line of its own. `null` if there is none.
fn first_line(output: &[u8]) -> Value {
    let line = output.split(|&b| b == b'\n').next().unwrap_or_default();
    serde_json::from_slice(line).unwrap_or(Value::Null)
}

/// The files of exchanges in a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "exchange"))
        .collect()
}

/// Its first line.
fn head_of(file: &Path) -> Value {
    let content = std::fs::read(file).expect("a file");
    let line = content.split(|&b| b == b'\n').next().expect("a line");
    serde_json::from_slice(line).expect("JSON")
}

fn replay(strategy: Strategy, folder: &Path, more: &[&str]) -> Server {
    Launch::new(strategy)
        .args(["--replay".as_ref(), folder.as_os_str()])
        .args(more)
        .start()
}

/// The answer to a request for this host.
fn ask(connection: &mut Connection, method: &str, host: &str, target: &str) -> Response {
    connection.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    connection.receive(method)
}

fn a_page_of_two_origins_is_recorded_and_replayed(strategy: Strategy) {
    let other = Origin::new(|target| match target {
        // Without a length: the end of the connection is the end of the body.
        "/lib.js" => Some("HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\n\r\nlet a = 1;".to_owned()),
        "/real.gif" => answer("200 OK", "Content-Type: image/gif\r\n", &"g".repeat(100_000)),
        _ => answer("500 Internal Server Error", "", "unexpected"),
    });
    let (script, image) = (
        other.url("localhost", "/lib.js"),
        other.url("localhost", "/real.gif"),
    );
    let origin = Origin::new(move |target| match target {
        "/shop?id=1" => page(&format!(
            "<link rel=stylesheet href='/s.css?v=1'><img src=/moved.gif><img src=/none.gif><script src={script}></script>"
        )),
        "/s.css?v=1" => answer(
            "200 OK",
            "Content-Type: text/css\r\nX-Own: kept\r\nConnection: X-Hop\r\nX-Hop: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\
             Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            "a { }",
        ),
        "/moved.gif" => answer("302 Found", &format!("Location: {image}\r\n"), "over there"),
        "/none.gif" => answer("404 Not Found", "Content-Type: text/plain\r\n", "gone"),
        _ => answer("500 Internal Server Error", "", "unexpected"),
    });
    let tree = Tree::new();
    let folder = tree.join("rec");
    let (report, _) = record(&origin.url("127.0.0.1", "/shop?id=1"), &folder, &[], 0);
    assert_eq!(
        (&report["exchanges"], &report["added"]),
        (&6.into(), &6.into()),
        "{report}"
    );
    assert_eq!(report["origins"].as_array().map(Vec::len), Some(2), "{report}");
    let schema: Value =
        serde_json::from_str(include_str!("../../schemas/exchange.schema.json")).expect("JSON");
    let files = files(&folder);
    assert_eq!(files.len(), 6);
    for file in &files {
        schema::check(&schema, &head_of(file), &file.display().to_string());
    }
    let server = replay(strategy, &folder, &[]);
    assert_eq!(server.started["replay"], folder.to_str().expect("text"));
    let mut connection = server.connect();
    let own = "127.0.0.1:9";
    let shop = ask(&mut connection, "GET", own, "/shop?id=1");
    assert_eq!((shop.status, shop.must("Content-Type")), (200, "text/html"));
    let sheet = ask(&mut connection, "GET", own, "/s.css?v=1");
    assert_eq!((sheet.must("X-Own"), sheet.text().as_str()), ("kept", "a { }"));
    assert_eq!(sheet.must("Content-Length"), "5");
    assert_eq!((sheet.field("X-Hop"), sheet.field("Connection")), (None, None));
    assert_ne!(sheet.must("Date"), "Sun, 06 Nov 1994 08:49:37 GMT");
    let cookies = sheet.fields.iter().filter(|(name, _)| name == "Set-Cookie");
    assert_eq!(cookies.count(), 2, "{:?}", sheet.fields);
    // The query with the longest prefix in common answers.
    assert_eq!(ask(&mut connection, "GET", own, "/s.css?v=22").text(), "a { }");
    let moved = ask(&mut connection, "GET", own, "/moved.gif");
    assert_eq!((moved.status, moved.text().as_str()), (302, "over there"));
    assert_eq!(moved.must("Location"), other.url("localhost", "/real.gif"));
    let gone = ask(&mut connection, "GET", own, "/none.gif");
    assert_eq!((gone.status, gone.text().as_str()), (404, "gone"));
    let script = ask(&mut connection, "GET", "localhost", "/lib.js");
    assert_eq!(
        (script.text().as_str(), script.must("Content-Length")),
        ("let a = 1;", "10")
    );
    let head = ask(&mut connection, "HEAD", "LOCALHOST:1", "/real.gif");
    assert_eq!((head.must("Content-Length"), head.body.len()), ("100000", 0));
    let image = ask(&mut connection, "GET", "localhost", "/real.gif");
    assert!(image.body == "g".repeat(100_000).as_bytes());
    // What is not there: a path of another host, a host, a method.
    for (method, host, target, why) in [
        (
            "GET",
            "localhost",
            "/s.css?v=1",
            "none of the 2 exchanges of this host has this path",
        ),
        ("GET", "else.test", "/", "only the hosts 127.0.0.1, localhost"),
        ("POST", "localhost", "/lib.js", "recorded with the method GET"),
    ] {
        let missing = ask(&mut connection, method, host, target);
        assert_eq!(missing.status, 404, "{}", missing.text());
        assert!(missing.text().contains(why), "{}", missing.text());
        assert_eq!(missing.must("Content-Type"), "text/plain; charset=utf-8");
    }
}

on_each_back_end!(a_page_of_two_origins_is_recorded_and_replayed);

#[test]
fn a_recording_over_tls_is_replayed_over_every_version_of_http() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["127.0.0.1"]);
    let image = vec![b'x'; 300_000];
    pairs
        .tree
        .write("site/index.html", "<img src=a.gif><img src=none.gif>");
    pairs.tree.write("site/a.gif", &image);
    let ca = pairs.tree.join("a.pem").to_str().expect("text").to_owned();
    let origin = pairs.launch(Strategy::LOOPS, &["a"]).start();
    let folder = pairs.tree.join("rec");
    let url = format!("https://{}/", origin.address);
    let (report, _) = record(&url, &folder, &["--ca", &ca, "--mode", "auto+br"], 0);
    assert_eq!(report["exchanges"], 3, "{report}");
    drop(origin);
    assert!(
        files(&folder)
            .iter()
            .all(|file| head_of(file)["protocol"] == "h2")
    );
    let key = pairs.tree.join("a.key").to_str().expect("text").to_owned();
    let pair = ["--http3", "--tls-cert", &ca, "--tls-key", &key];
    let server = replay(Strategy::LOOPS, &folder, &pair);
    let url = format!("https://{}/", server.address);
    for mode in [&["--mode", "serial"][..], &["--mode", "h2"], &["--h3-only"]] {
        let output = weir(&[&["fetch", "--json", &url, "--ca", &ca], mode].concat());
        // The image that was not there when the page was recorded is not there now.
        assert_eq!(
            output.status.code(),
            Some(1),
            "{mode:?}: {}",
            text(&output.stderr)
        );
        let line = first_line(&output.stdout);
        let objects = line["objects"].as_array().expect("objects");
        let statuses: Vec<&Value> = objects.iter().map(|object| &object["status"]).collect();
        assert_eq!(statuses, [200, 200, 404], "{mode:?}: {line}");
        assert_eq!(objects[1]["content_bytes"], image.len(), "{mode:?}");
    }
}

#[test]
fn a_second_recording_replaces_and_adds_and_a_reload_takes_it() {
    let content = Arc::new(Mutex::new("one"));
    let now = Arc::clone(&content);
    let origin = Origin::new(move |target| match target {
        "/" | "/more" => answer(
            "200 OK",
            "",
            &format!("{}{target}", now.lock().expect("no panic")),
        ),
        _ => answer("404 Not Found", "", ""),
    });
    let tree = Tree::new();
    let folder = tree.join("rec");
    let (report, _) = record(&origin.url("127.0.0.1", "/"), &folder, &[], 0);
    assert_eq!((&report["added"], &report["replaced"]), (&1.into(), &0.into()));
    // What an interrupted recording leaves.
    tree.write("rec/0123.exchange.1.part", "{\"format\"");
    let server = replay(Strategy::LOOPS, &folder, &[]);
    assert_eq!(ask(&mut server.connect(), "GET", "127.0.0.1", "/").text(), "one/");
    *content.lock().expect("no panic") = "two";
    let (report, _) = record(&origin.url("127.0.0.1", "/"), &folder, &[], 0);
    assert_eq!((&report["added"], &report["replaced"]), (&0.into(), &1.into()));
    let (report, _) = record(&origin.url("127.0.0.1", "/more"), &folder, &[], 0);
    assert_eq!((&report["added"], &report["replaced"]), (&1.into(), &0.into()));
    assert_eq!(files(&folder).len(), 2);
    server.signal("HUP");
    eventually("the new recording", || {
        let answer = ask(&mut server.connect(), "GET", "127.0.0.1", "/");
        (answer.text() == "two/").then_some(())
    });
    assert_eq!(
        ask(&mut server.connect(), "GET", "127.0.0.1", "/more").text(),
        "two/more"
    );
}

#[test]
fn a_reload_changes_from_files_to_a_recording() {
    let origin = Origin::new(|_| answer("200 OK", "", "recorded"));
    let tree = Tree::with(&[("site/a.txt", "file"), ("weir.toml", "root = 'site'\n")]);
    record(&origin.url("127.0.0.1", "/a.txt"), &tree.join("rec"), &[], 0);
    let server = Launch::new(Strategy::LOOPS)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    let get = || ask(&mut server.connect(), "GET", "127.0.0.1", "/a.txt").text();
    assert_eq!(get(), "file");
    // An invalid one changes nothing.
    tree.replace("weir.toml", "replay = 'site'\n");
    server.signal("HUP");
    eventually("the refusal", || {
        server
            .stderr()
            .contains("there is no recorded exchange")
            .then_some(())
    });
    assert_eq!(get(), "file");
    tree.replace("weir.toml", "replay = 'rec'\n");
    server.signal("HUP");
    eventually("the recording", || (get() == "recorded").then_some(()));
}

/// Writes an exchange by hand: a GET of this URL whose response took so long.
fn write_exchange(tree: &Tree, name: &str, url: &str, seconds: f64, body: &str) {
    let head = serde_json::json!({
        "format": "weir-exchange", "version": 1, "method": "GET", "url": url, "protocol": "http/1.1", "recorded": 1,
        "first_byte_seconds": seconds, "request_fields": [], "status": 200, "fields": [["Content-Type", "text/html"]], "body_bytes": body.len(),
    });
    tree.write(&format!("rec/{name}.exchange"), format!("{head}\n{body}"));
}

/// A recording with a page of one host and a script of another, which has a page, too.
fn two_hosts(tree: &Tree) -> PathBuf {
    for (name, url, body) in [
        (
            "page",
            "https://a.test/",
            "<script src=https://cdn.test/lib.js></script>",
        ),
        ("script", "https://cdn.test/lib.js", "let a = 1;"),
        ("other", "https://cdn.test/", "another page"),
    ] {
        write_exchange(tree, name, url, 0.0, body);
    }
    tree.join("rec")
}

/// Each host has a connection of its own, as in a browser, and its name decides.
#[test]
fn a_recording_of_two_hosts_is_replayed_at_one_address() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test", "cdn.test"]);
    let folder = two_hosts(&pairs.tree);
    let [cert, key] = ["a.pem", "a.key"].map(|name| pairs.tree.join(name));
    let server = Launch::new(Strategy::LOOPS)
        .args(["--replay".as_ref(), folder.as_os_str()])
        .args(["--tls-cert".as_ref(), cert.as_os_str()])
        .args(["--tls-key".as_ref(), key.as_os_str()])
        .start();
    let config = pairs.client();
    let mut hosts = ["a.test", "cdn.test"].map(|name| (name, Secure::open(server.address, &config, name)));
    let mut get = |host: usize, target: &str| {
        let (name, secure) = &mut hosts[host];
        let answer = secure.exchange(&format!("GET {target} HTTP/1.1\r\nHost: {name}\r\n\r\n"));
        answer.expect("an open connection")
    };
    for (host, target, status, body) in [
        (0, "/", "200 ", "<script src=https://cdn.test/lib.js></script>"),
        (1, "/lib.js", "200 ", "let a = 1;"),
        (1, "/", "200 ", "another page"),
        (0, "/lib.js", "404 ", ""),
    ] {
        let answer = get(host, target);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.ends_with(body),
            "{host} {target}: {answer}"
        );
    }
}

/// As docs/record.md tells users: the client maps all names to the replay, which has a certificate for this machine only.
#[test]
fn a_client_that_maps_names_gets_all_hosts_of_a_recording() {
    let tree = Tree::new();
    let (folder, state) = (two_hosts(&tree), tree.join("state"));
    let server = Launch::new(Strategy::LOOPS)
        .args(["--replay".as_ref(), folder.as_os_str()])
        .args(["--tls-state".as_ref(), state.as_os_str()])
        .args(["--tls", "internal", "--http3=false"])
        .start();
    let map = format!("::{}", server.address);
    let get = |url: &str| {
        let quiet = ["--silent", "--show-error", "--insecure", "--max-time", "20"];
        clients::run("curl", &[&quiet[..], &["--connect-to", &map, url]].concat())
    };
    let Some(page) = get("https://a.test/") else {
        return;
    };
    assert_eq!(page, "<script src=https://cdn.test/lib.js></script>");
    assert_eq!(get("https://cdn.test/lib.js").expect("curl"), "let a = 1;");
    assert_eq!(get("https://cdn.test/").expect("curl"), "another page");
}

/// How long the slow exchange took.
const SLOW: Duration = Duration::from_millis(600);

/// The same where waits side by side are told from waits one after the other, also on a busy machine.
const SLOWER: Duration = Duration::from_secs(4);

/// A recording with a slow exchange and one that took no time, of each of two hosts.
fn slow_and_fast() -> Tree {
    slow_and_fast_by(SLOW)
}

fn slow_and_fast_by(slow: Duration) -> Tree {
    let tree = Tree::new();
    let slow = slow.as_secs_f64();
    write_exchange(&tree, "a", "http://a.test/slow", slow, "slow of a");
    write_exchange(&tree, "b", "http://a.test/fast", 0.0, "fast of a");
    write_exchange(&tree, "c", "http://b.test/slow", 0.0, "fast of b");
    write_exchange(&tree, "d", "http://b.test/fast", slow, "slow of b");
    tree
}

fn responses_wait_as_long_as_the_recorded_ones_took(strategy: Strategy) {
    let tree = slow_and_fast();
    let server = replay(strategy, &tree.join("rec"), &["--replay-delays"]);
    let (mut slow, mut fast) = (server.connect(), server.connect());
    for (host, slow_path, fast_path) in [("a.test", "/slow", "/fast"), ("b.test:81", "/fast", "/slow")] {
        let began = Instant::now();
        slow.send(format!("GET {slow_path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        for method in ["GET", "HEAD"] {
            assert_eq!(ask(&mut fast, method, host, fast_path).status, 200);
        }
        let missing = ask(&mut fast, "GET", host, "/missing");
        assert_eq!(missing.status, 404, "{}", missing.text());
        assert_eq!(slow.receive("GET").text(), format!("slow of {}", &host[..1]));
        let took = began.elapsed();
        assert!(took >= SLOW, "{host}: {took:?}");
        let began = Instant::now();
        assert_eq!(ask(&mut slow, "HEAD", host, slow_path).status, 200);
        assert!(began.elapsed() >= SLOW, "{host}");
    }
}

mod delays {
    use super::*;
    on_every_strategy!(responses_wait_as_long_as_the_recorded_ones_took);
}

/// Twenty times what a few helper threads could do one after another.
#[test]
fn responses_that_wait_occupy_no_threads() {
    const CLIENTS: u32 = 160;
    let tree = slow_and_fast_by(SLOWER);
    let flags = ["--replay-delays", "--max-connections-per-address", "1000"];
    let server = replay(Strategy::LOOPS, &tree.join("rec"), &flags);
    let began = Instant::now();
    let mut clients: Vec<Connection> = (0..CLIENTS).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.receive("GET").text(), "slow of a");
    }
    let took = began.elapsed();
    assert!(took >= SLOWER && took < SLOWER * CLIENTS / 16, "{took:?}");
}

#[test]
fn streams_wait_each_for_its_own_time() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["127.0.0.1"]);
    let (cert, key) = (pairs.tree.join("a.pem"), pairs.tree.join("a.key"));
    let tree = Tree::new();
    let image = "x".repeat(70_000);
    let at = |path: &str| format!("https://127.0.0.1{path}");
    let images: String = (0..12).map(|number| format!("<img src=/{number}.gif>")).collect();
    write_exchange(&tree, "page", &at("/"), 0.0, &images);
    for number in 0..12 {
        let name = format!("{number}");
        write_exchange(
            &tree,
            &name,
            &at(&format!("/{number}.gif")),
            SLOWER.as_secs_f64(),
            &image,
        );
    }
    let (cert, key) = (cert.to_str().expect("text"), key.to_str().expect("text"));
    let flags = ["--replay-delays", "--http3", "--tls-cert", cert, "--tls-key", key];
    let server = replay(Strategy::LOOPS, &tree.join("rec"), &flags);
    let url = format!("https://{}/", server.address);
    for mode in [&["--mode", "h2"][..], &["--h3-only"]] {
        let began = Instant::now();
        let output = weir(&[&["fetch", "--json", &url, "--ca", cert], mode].concat());
        let took = began.elapsed();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{mode:?}: {}",
            text(&output.stderr)
        );
        let line = first_line(&output.stdout);
        assert_eq!(line["objects"].as_array().map(Vec::len), Some(13), "{line}");
        // All wait at the same time.
        assert!(took >= SLOWER && took < SLOWER * 12, "{mode:?}: {took:?}");
    }
}

#[test]
fn delays_are_switched_by_a_reload_and_need_a_recording() {
    let tree = slow_and_fast();
    let file =
        |delays: bool| tree.replace("weir.toml", format!("replay = 'rec'\nreplay-delays = {delays}\n"));
    file(true);
    let server = Launch::new(Strategy::LOOPS)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    // One that waits keeps its delay, also when the recording is read again.
    let mut waiting = server.connect();
    let began = Instant::now();
    waiting.send("GET /slow HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(ask(&mut server.connect(), "GET", "a.test", "/fast").status, 200);
    file(false);
    server.signal("HUP");
    eventually("the reload", || {
        server.stderr().contains("reloaded").then_some(())
    });
    assert_eq!(waiting.receive("GET").text(), "slow of a");
    assert!(began.elapsed() >= SLOW);
    eventually("an answer at once", || {
        let began = Instant::now();
        assert_eq!(ask(&mut waiting, "GET", "a.test", "/slow").text(), "slow of a");
        (began.elapsed() < SLOW).then_some(())
    });
    let folder = tree.join("rec");
    let folder = folder.to_str().expect("text");
    let explained = weir(&[
        "serve",
        "--replay",
        folder,
        "--replay-delays",
        "--explain",
        "GET http://a.test/slow",
    ]);
    let explained = text(&explained.stdout);
    assert!(explained.contains("after 600ms"), "{explained}");
    let (code, errors) = Launch::new(Strategy::LOOPS).args(["--replay-delays"]).fail();
    assert!(code == 2 && errors.contains("set `replay`"), "{errors}");
}

#[test]
fn an_interrupted_recording_leaves_a_folder_that_is_valid() {
    let silent = Origin::new(|_| None);
    let image = silent.url("localhost", "/never.gif");
    let origin = Origin::new(move |_| page(&format!("<img src={image}>")));
    let tree = Tree::new();
    let folder = tree.join("rec");
    let mut recorder = Command::new(WEIR)
        .args(["record", &origin.url("127.0.0.1", "/")])
        .arg(&folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    eventually("the request for the image", || {
        silent.seen().contains("/never.gif").then_some(())
    });
    recorder.kill().expect("it waits for the image");
    recorder.wait().expect("it ends");
    assert_eq!(files(&folder).len(), 1);
    let server = replay(Strategy::LOOPS, &folder, &[]);
    let page = ask(&mut server.connect(), "GET", "127.0.0.1", "/");
    assert!(page.text().contains("/never.gif"), "{}", page.text());
}

#[test]
fn a_recording_ends_at_its_bounds_and_says_so() {
    let silent = Origin::new(|_| None);
    let never = silent.url("localhost", "/never.gif");
    let origin = Origin::new(move |target| match target {
        "/" => page("<img src=1.gif><img src=2.gif><img src=3.gif>"),
        "/waits" => page(&format!("<img src={never}>")),
        _ => answer("200 OK", "Content-Type: image/gif\r\n", &"x".repeat(5_000)),
    });
    let tree = Tree::new();
    let url = origin.url("127.0.0.1", "/");
    let at = |name: &str| tree.join(name);
    // The response that passes the bound of bytes may arrive whole with the bytes that pass it.
    for (folder, flag, bound, code, exchanges) in [
        ("a", "--exchanges-max", "4", 0, 4..=4),
        ("b", "--exchanges-max", "3", 1, 3..=3),
        ("c", "--bytes-max", "100KiB", 0, 4..=4),
        ("d", "--bytes-max", "8KiB", 1, 2..=3),
    ] {
        let (report, errors) = record(&url, &at(folder), &[flag, bound], code);
        let recorded = report["exchanges"].as_u64().expect("a number");
        assert!(exchanges.contains(&recorded), "{flag} {bound}: {report}");
        assert_eq!(files(&at(folder)).len() as u64, recorded);
        assert_eq!(errors.contains(flag), code != 0, "{errors}");
    }
    let url = origin.url("127.0.0.1", "/waits");
    let (report, errors) = record(&url, &at("e"), &["--timeout", "5s"], 1);
    assert_eq!(report["exchanges"], 1, "{report}");
    assert!(
        errors.contains("never.gif") && errors.contains("not complete within"),
        "{errors}"
    );
    // The memory that holds a replayed recording is that of the cache.
    let check = |size: &str| {
        let folder = at("a");
        let folder = folder.to_str().expect("text");
        weir(&["serve", "--replay", folder, "--cache-size", size, "--check"])
    };
    let output = check("15100");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = check("15KiB");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = check("15000");
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    assert!(errors.contains("raise `cache-size`"), "{errors}");
}

#[test]
fn secrets_are_for_the_origin_of_the_page_and_not_in_the_recording() {
    let other = Origin::new(|_| answer("200 OK", "", "x"));
    let image = other.url("localhost", "/a.gif");
    let origin = Origin::new(move |_| page(&format!("<img src={image}>")));
    let tree = Tree::new();
    let folder = tree.join("rec");
    let flags = [
        "--user",
        "me:secret",
        "--cookie",
        "key=hidden",
        "-H",
        "X-Token: hushed",
    ];
    let (report, _) = record(&origin.url("127.0.0.1", "/"), &folder, &flags, 0);
    assert_eq!(report["exchanges"], 2, "{report}");
    for word in ["Authorization: Basic", "key=hidden", "X-Token: hushed"] {
        assert!(origin.seen().contains(word), "{}", origin.seen());
        assert!(!other.seen().contains(word), "{}", other.seen());
    }
    for file in files(&folder) {
        let stored = head_of(&file)["request_fields"].to_string();
        assert!(
            !stored.contains("Authorization") && !stored.contains("Cookie"),
            "{stored}"
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let origin = Origin::new(|_| page("hello"));
    let tree = Tree::with(&[
        ("site/index.html", "a"),
        ("torn/a.exchange", "{\"format\":\"weir-exchange\""),
    ]);
    let folder = tree.join("rec");
    record(&origin.url("127.0.0.1", "/"), &folder, &[], 0);
    let path = |name: &str| tree.join(name).to_str().expect("text").to_owned();
    let (rec, site, torn, none) = (path("rec"), path("site"), path("torn"), path("none"));
    std::fs::create_dir(tree.join("empty")).expect("a folder");
    let empty = path("empty");
    for (flags, why) in [
        (&["--replay", &rec, &site][..], "cannot be combined with `root`"),
        (
            &["--replay", &rec, "--listing"],
            "cannot be combined with `listing`",
        ),
        (
            &["--replay", &rec, "--spa"],
            "cannot be combined with `spa-fallback`",
        ),
        (
            &["--replay", &rec, "--header", "A: b"],
            "cannot be combined with `header`",
        ),
        (
            &["--replay", &rec, "--proxy", "/a=http://127.0.0.1:1"],
            "cannot be combined with `proxy`",
        ),
        (&["--replay", &none], "cannot read the recording"),
        (&["--replay", &empty], "weir record"),
        (&["--replay", &torn], "a.exchange` is not a recorded exchange"),
    ] {
        let (code, errors) = Launch::new(Strategy::LOOPS).args(flags).fail();
        assert_eq!(code, 2, "{errors}");
        assert!(errors.contains(why), "{flags:?}: {errors}");
    }
    let url = origin.url("127.0.0.1", "/");
    for (url, flags, why) in [
        (&*url, &["--mode", "pipelined"][..], "auto, serial or h2"),
        (&url, &["-H", "Host: a.test"], "by the host of their URLs"),
        ("ftp://a.test/", &[], "not supported"),
    ] {
        let (_, errors) = record(url, &folder, flags, 2);
        assert!(errors.contains(why), "{errors}");
    }
    // Nothing listens there.
    let closed = Refusing::new();
    let url = format!("http://{}/", closed.address());
    let (report, errors) = record(&url, &folder, &[], 1);
    assert_eq!(report["exchanges"], 0, "{report}");
    assert!(errors.contains("was not recorded: no connection"), "{errors}");
}

#[test]
fn an_explanation_names_the_recorded_exchange() {
    let origin = Origin::new(|_| answer("200 OK", "X-Own: kept\r\n", "found"));
    let tree = Tree::new();
    let folder = tree.join("rec");
    record(&origin.url("127.0.0.1", "/s?q=cats"), &folder, &[], 0);
    let explain = |request: &str| {
        let folder = folder.to_str().expect("text");
        let output = weir(&["serve", "--replay", folder, "--explain", request]);
        (output.status.code(), text(&output.stdout))
    };
    let url = origin.url("127.0.0.1", "/s?q=cats");
    let (code, told) = explain("GET http://127.0.0.1/s?q=cats");
    assert_eq!(code, Some(0), "{told}");
    for words in [
        &url,
        "an exact match",
        "X-Own: kept",
        "200, from the recording",
        "(1 exchanges)",
    ] {
        assert!(told.contains(words), "{told}");
    }
    let (code, told) = explain("GET http://127.0.0.1/s?q=cows");
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("3 bytes at the start of the query"), "{told}");
    let (code, told) = explain("GET http://a.test/");
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("no recorded exchange for GET http://a.test/"),
        "{told}"
    );
}
