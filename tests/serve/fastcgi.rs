//! Requests that applications of FastCGI answer: which script a path has, what the application is told, and how it can fail. The
//! applications here are the tests' own and write their records byte by byte; one test asks php-fpm.

use crate::serve::frames;
use crate::serve::http3::client::Client;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually, signal};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::tree::Tree;
use crate::serve::wire::{End, head};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A request as an application gets it.
#[derive(Clone, Debug, Default)]
struct Call {
    /// Number of its connection, from 0.
    connection: usize,
    keeps: bool,
    params: BTreeMap<String, String>,
    content: Vec<u8>,
}

impl Call {
    fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("(none)", String::as_str)
    }

    /// What a test of paths looks at.
    fn script(&self) -> String {
        format!("{} {}", self.param("SCRIPT_NAME"), self.param("PATH_INFO"))
            .trim_end()
            .to_owned()
    }
}

/// What an application does with a request.
enum Deed {
    /// Writes this. The connection stays open if the server has asked for that.
    Write(Vec<u8>),
    /// Writes this and closes.
    Close(Vec<u8>),
    /// Writes nothing until the server closes.
    Silence,
}

/// An application.
struct App {
    url: String,
    heard: Arc<Mutex<Vec<Call>>>,
}

impl App {
    fn new(serve: impl Fn(&Call) -> Deed + Send + Sync + 'static) -> App {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("fastcgi://{}", listener.local_addr().expect("its address"));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&heard);
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept() else {
                    return;
                };
                let (serve, log) = (Arc::clone(&serve), Arc::clone(&log));
                std::thread::spawn(move || App::talk(stream, connection, &*serve, &log));
            }
        });
        App { url, heard }
    }

    /// Answers each request with a page that names its script.
    fn naming_scripts() -> App {
        App::new(|call| Deed::Write(page(&format!("script {}", call.script()))))
    }

    fn talk(mut stream: TcpStream, connection: usize, serve: &dyn Fn(&Call) -> Deed, log: &Mutex<Vec<Call>>) {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        while let Some(call) = receive(&mut stream, connection) {
            log.lock().expect("no application panics").push(call.clone());
            match serve(&call) {
                Deed::Write(bytes) => {
                    if stream.write_all(&bytes).is_err() || !call.keeps {
                        return;
                    }
                }
                Deed::Close(bytes) => {
                    let _ = stream.write_all(&bytes);
                    return;
                }
                Deed::Silence => {
                    let _ = stream.read(&mut [0]);
                    return;
                }
            }
        }
    }

    fn all(&self) -> Vec<Call> {
        self.heard.lock().expect("no application panics").clone()
    }

    fn last(&self) -> Call {
        self.all().pop().expect("a request")
    }
}

/// Reads one request, up to the end of its content.
fn receive(stream: &mut impl Read, connection: usize) -> Option<Call> {
    let mut call = Call {
        connection,
        ..Call::default()
    };
    let mut pairs = Vec::new();
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).ok()?;
        let [version, kind, 0, 1, high, low, padding, _] = header else {
            panic!("{header:?}");
        };
        assert_eq!(version, 1);
        let length = usize::from(u16::from_be_bytes([high, low]));
        let mut content = vec![0; length + usize::from(padding)];
        stream.read_exact(&mut content).ok()?;
        content.truncate(length);
        match kind {
            1 => {
                assert_eq!(content[..2], [0, 1], "the role of a responder");
                call.keeps = content[2] == 1;
            }
            4 if length == 0 => call.params = read_pairs(&pairs),
            4 => pairs.extend(content),
            5 if length == 0 => return Some(call),
            5 => call.content.extend(content),
            other => panic!("a record of type {other}"),
        }
    }
}

fn read_pairs(mut bytes: &[u8]) -> BTreeMap<String, String> {
    fn length(bytes: &mut &[u8]) -> usize {
        let (length, used) = match **bytes {
            [a, b, c, d, ..] if a > 127 => (u32::from_be_bytes([a & 127, b, c, d]) as usize, 4),
            [short, ..] => (usize::from(short), 1),
            [] => panic!("a length is missing"),
        };
        *bytes = &bytes[used..];
        length
    }
    let mut pairs = BTreeMap::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes), length(&mut bytes));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        pairs.insert(text(&bytes[..name]), text(&bytes[name..name + value]));
        bytes = &bytes[name + value..];
    }
    pairs
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len())
        .expect("a short record")
        .to_be_bytes();
    [&[1, kind, 0, 1, high, low, 3, 0], content, &[0xff; 3]].concat()
}

fn stdout(text: impl AsRef<[u8]>) -> Vec<u8> {
    record(6, text.as_ref())
}

fn stderr(text: impl AsRef<[u8]>) -> Vec<u8> {
    record(7, text.as_ref())
}

fn end(status: u8) -> Vec<u8> {
    record(3, &[0, 0, 0, 0, status, 0, 0, 0])
}

/// A whole response with this content.
fn page(content: &str) -> Vec<u8> {
    [
        stdout("Content-Type: text/plain\r\n\r\n"),
        stdout(content),
        stdout(""),
        end(0),
    ]
    .concat()
}

/// The source of each script, which no client may see.
const SOURCE: &str = "<?php secret();";

fn tree() -> Tree {
    Tree::with(&[
        ("site/index.php", SOURCE),
        ("site/a.php", SOURCE),
        ("site/a.php.bak", SOURCE),
        ("site/A2.PHP", SOURCE),
        ("site/style.css", "a style"),
        ("site/x.jpg", SOURCE),
        ("site/dir/index.php", SOURCE),
        ("site/pages/index.html", "a page"),
        ("site/empty/a.txt", "a text"),
        ("site/.hidden/a.php", SOURCE),
    ])
}

/// The configuration of a site with one rule, for all paths.
fn configuration(tree: &Tree, table: &str, top: &str) -> std::path::PathBuf {
    let root = tree.join("site");
    let text = format!(
        "root = \"{}\"\nhttp2 = \"all\"\n{top}\n[[proxy]]\npath = \"/*\"\n{table}\n",
        root.display()
    );
    tree.write("weir.toml", text)
}

fn launch(strategy: Strategy, tree: &Tree, table: &str, top: &str) -> Server {
    let config = configuration(tree, table, top);
    Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .args(["--access-log=-", "--log-format=json"])
        .start()
}

fn to(app: &App, more: &str) -> String {
    format!("upstreams = [\"{}\"]\n{more}", app.url)
}

fn each_path_has_its_script(strategy: Strategy) {
    let tree = tree();
    for (front, rows) in [
        (
            "[proxy.fastcgi]\nfront = \"/index.php\"",
            &[
                ("GET", "/", 200, "script /index.php"),
                ("GET", "/a.php", 200, "script /a.php"),
                ("GET", "/a.php/b/c?d", 200, "script /a.php /b/c"),
                ("GET", "/%61.php/b%20c", 200, "script /a.php /b c"),
                ("GET", "//dir/../a.php/", 200, "script /a.php /"),
                ("POST", "/a.php", 200, "script /a.php"),
                ("GET", "/style.css", 200, "a style"),
                ("GET", "/dir/", 200, "script /dir/index.php"),
                ("GET", "/dir", 301, ""),
                ("GET", "/pages/", 200, "a page"),
                ("GET", "/empty/", 200, "script /index.php"),
                ("GET", "/none", 200, "script /index.php"),
                ("GET", "/none/", 200, "script /index.php"),
                ("POST", "/none", 200, "script /index.php"),
                ("DELETE", "/none", 200, "script /index.php"),
                ("GET", "/none.php", 200, "script /index.php"),
                // The hole of `cgi.fix_pathinfo`: x.jpg exists.
                ("GET", "/x.jpg/y.php", 200, "script /index.php"),
                ("GET", "/a.php.bak", 200, "script /index.php"),
                ("GET", "/A2.PHP", 200, "script /index.php"),
            ][..],
        ),
        (
            "",
            &[
                ("GET", "/", 200, "script /index.php"),
                ("GET", "/a.php/b", 200, "script /a.php /b"),
                ("GET", "/none", 404, ""),
                ("GET", "/none/", 404, ""),
                ("GET", "/empty/", 404, ""),
                ("GET", "/none.php", 404, ""),
                ("POST", "/none.php", 404, ""),
                ("GET", "/x.jpg/y.php", 404, ""),
                ("GET", "/a.php.bak", 404, ""),
                ("GET", "/A2.PHP", 404, ""),
                ("GET", "/.hidden/a.php", 404, ""),
                ("GET", "/a%2ephp%00.jpg", 400, ""),
                ("GET", "/..%2fa.php", 404, ""),
                ("POST", "/style.css", 405, ""),
            ],
        ),
    ] {
        let app = App::naming_scripts();
        let server = launch(strategy, &tree, &to(&app, front), "");
        for (method, path, status, text) in rows {
            let got = server.connect().request(method, path, &[]);
            assert_eq!(got.status, *status, "{method} {path} {}", got.text());
            if *status == 200 {
                assert_eq!(got.text(), *text, "{method} {path}");
            }
            assert!(!got.text().contains("<?php"), "{method} {path} shows the source");
        }
        // A name that nobody has looked up is not in the cache of the kernel: a thread looks for it.
        let (status, text) = match front {
            "" => (404, None),
            _ => (200, Some("script /index.php")),
        };
        let before = app.all().len();
        let mut client = frames::connect(&server);
        for at in 0..20 {
            let got = client.get(&format!("/cold/{at}.php/b"), &[]);
            assert_eq!(got.status, status, "{at}");
            assert!(text.is_none_or(|text| got.text() == text), "{at}");
        }
        assert_eq!(app.all().len(), before + if text.is_some() { 20 } else { 0 });
        app.heard.lock().expect("no application panics").truncate(before);
        let expected = rows.iter().filter(|(.., text)| text.starts_with("script"));
        let calls = app.all();
        assert_eq!(
            calls.len(),
            expected.count(),
            "the application hears of nothing else"
        );
        for call in calls {
            let file = call.param("SCRIPT_FILENAME");
            assert!(Path::new(file).is_file(), "{file}");
            let name = call.param("SCRIPT_NAME");
            assert_eq!(file, format!("{}/site{name}", tree.path().display()));
        }
    }
}

fn a_listing_shows_no_directory_with_a_script(strategy: Strategy) {
    let tree = tree();
    let app = App::naming_scripts();
    let server = launch(
        strategy,
        &tree,
        &to(&app, ""),
        "listing = true\nindex = [\"index.php\", \"index.html\"]",
    );
    assert_eq!(server.connect().get("/dir/").text(), "script /dir/index.php");
    assert_eq!(server.connect().get("/pages/").text(), "a page");
    assert!(server.connect().get("/empty/").text().contains("a.txt"));
}

fn an_application_is_told_about_the_request(strategy: Strategy) {
    let tree = tree();
    let app = App::naming_scripts();
    let table = to(
        &app,
        "[proxy.request-header]\nset = [\"X-Env: prod\"]\n[proxy.fastcgi]\nroot = \"/var/www/\"\n[proxy.fastcgi.params]\nAPP_ENV = \"test\"",
    );
    let server = launch(strategy, &tree, &table, "");
    let fields = [
        ("Accept", "*/*"),
        ("Proxy", "http://evil.test"),
        ("X_Real_IP", "10.1.1.1"),
        ("X-Forwarded-For", "10.1.1.1"),
        ("X-Env", "forged"),
        ("Cookie", "a=b"),
        ("Authorization", "Basic eDp5"),
        ("Content-Type", "text/x"),
    ];
    assert_eq!(
        server
            .connect()
            .request("GET", "/a.php/b%20c?d=e%20f", &fields)
            .status,
        200
    );
    let call = app.last();
    assert!(!call.keeps, "each kept connection takes a process of php-fpm");
    let expected = [
        ("APP_ENV", "test"),
        ("CONTENT_TYPE", "text/x"),
        ("DOCUMENT_ROOT", "/var/www"),
        ("DOCUMENT_URI", "/a.php/b c"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("HTTP_ACCEPT", "*/*"),
        ("HTTP_AUTHORIZATION", "Basic eDp5"),
        ("HTTP_COOKIE", "a=b"),
        ("HTTP_HOST", "weir.localhost"),
        ("HTTP_X_ENV", "prod"),
        ("PATH_INFO", "/b c"),
        ("PATH_TRANSLATED", "/var/www/b c"),
        ("QUERY_STRING", "d=e%20f"),
        ("REDIRECT_STATUS", "200"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_SCHEME", "http"),
        ("REQUEST_URI", "/a.php/b%20c?d=e%20f"),
        ("SCRIPT_FILENAME", "/var/www/a.php"),
        ("SCRIPT_NAME", "/a.php"),
        ("SERVER_NAME", "weir.localhost"),
        ("SERVER_PORT", "80"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SERVER_SOFTWARE", "weir"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(call.params, BTreeMap::from(expected));
}

fn a_trusted_proxy_names_the_client(strategy: Strategy) {
    let tree = tree();
    let app = App::naming_scripts();
    let server = launch(strategy, &tree, &to(&app, ""), "trusted = [\"127.0.0.0/8\"]");
    let fields = [("X-Forwarded-For", "192.0.2.7"), ("X-Forwarded-Proto", "https")];
    assert_eq!(server.connect().request("GET", "/a.php", &fields).status, 200);
    let call = app.last();
    assert_eq!(call.param("REMOTE_ADDR"), "192.0.2.7");
    assert_eq!((call.param("HTTPS"), call.param("SERVER_PORT")), ("on", "443"));
}

fn a_rule_says_that_a_balancer_ends_tls(strategy: Strategy) {
    let tree = tree();
    let app = App::naming_scripts();
    // What the application hears of a request of this scheme, as a trusted proxy names it.
    for (fixed, named, heard) in [
        ("on", "http", ("on", "https", "443")),
        ("off", "https", ("(none)", "http", "80")),
    ] {
        let table = to(&app, &format!("[proxy.fastcgi.params]\nHTTPS = \"{fixed}\""));
        let server = launch(strategy, &tree, &table, "trusted = [\"127.0.0.0/8\"]");
        let fields = [("X-Forwarded-Proto", named)];
        assert_eq!(server.connect().request("GET", "/a.php", &fields).status, 200);
        let call = app.last();
        let got = ["HTTPS", "REQUEST_SCHEME", "SERVER_PORT"].map(|name| call.param(name));
        assert_eq!((got[0], got[1], got[2]), heard, "{fixed}");
    }
}

/// An application that answers with what it got.
fn echo() -> App {
    App::new(|call| {
        let mut out = stdout(format!(
            "Content-Type: x/y\r\nX-Length: {}\r\nX-Https: {}\r\nX-Protocol: {}\r\n\r\n",
            call.param("CONTENT_LENGTH"),
            call.param("HTTPS"),
            call.param("SERVER_PROTOCOL")
        ));
        for piece in call.content.chunks(50_000) {
            out.extend(stdout(piece));
        }
        out.extend(end(0));
        Deed::Write(out)
    })
}

fn content_goes_both_ways_in_each_version(strategy: Strategy) {
    let content: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    let length = content.len().to_string();
    let app = echo();
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs.tree.write("site/a.php", SOURCE);
    let table = format!("[[proxy]]\npath = \"/*\"\n{}", to(&app, ""));
    let config = pairs.tree.write("weir.toml", table).display().to_string();
    let server = pairs
        .launch(strategy, &["a"])
        .args(["--http3", "--config", &config])
        .start();

    let mut old = Secure::open(server.address, &pairs.client(), "a.test");
    let got = old.post("/a.php", "hello").expect("a response");
    assert!(
        got.contains("X-Protocol: HTTP/1.1\r\n") && got.contains("X-Https: on\r\n"),
        "{got}"
    );
    assert!(got.contains("X-Length: 5\r\n") && got.contains("hello"), "{got}");

    let mut client = Client::open(server.address, &pairs.client(), "a.test");
    for path in ["/none.php", "/cold/1.php/b", "/none"] {
        assert_eq!(client.get(path, &[]).status, 404, "{path}");
    }
    let stream = client.open_request(
        "/a.php",
        &[(":method", "POST"), ("content-length", &length)],
        false,
    );
    assert!(client.send_body(stream, &content));
    client.end(stream, &[]);
    let got = client.end_of(stream);
    assert_eq!(
        (got.status, got.field("x-length"), got.has_ended),
        (200, Some(&*length), true)
    );
    assert!(
        got.body == content
            && got
                .field("x-protocol")
                .is_some_and(|name| name.starts_with("HTTP/3"))
    );

    let tree = tree();
    let clear = launch(strategy, &tree, &to(&app, ""), "");
    let mut client = frames::connect(&clear);
    let stream = client.open(
        "/a.php",
        &[(":method", "POST"), ("content-length", &length)],
        false,
    );
    assert!(client.send_body(stream, &content));
    client.end(stream, &[]);
    let got = client.end_of(stream);
    assert_eq!(
        (got.status, got.field("x-length"), got.has_ended),
        (200, Some(&*length), true)
    );
    assert!(
        got.body == content
            && got
                .field("x-protocol")
                .is_some_and(|name| name.starts_with("HTTP/2"))
    );

    // Without a length, it is collected, because the application is told the length first.
    let mut connection = clear.connect();
    connection.send(head("POST", "/a.php", &[("Transfer-Encoding", "chunked")]));
    connection.send(format!("{:x}\r\n", content.len()));
    connection.send(&content);
    connection.send("\r\n0\r\n\r\n");
    let got = connection.receive("POST");
    assert_eq!(
        (got.status, got.must("X-Length"), got.body == content),
        (200, &*length, true)
    );
    let mut connection = clear.connect();
    connection.send(head("POST", "/a.php", &[("Transfer-Encoding", "chunked")]));
    let mebibyte = vec![b'x'; 1 << 20];
    connection.send("100001\r\n");
    connection.send(mebibyte);
    connection.send("x\r\n0\r\n\r\n");
    assert_eq!(connection.receive("POST").status, 411);
}

fn heads_become_those_of_http(strategy: Strategy) {
    let tree = tree();
    for (output, method, status, fields, text) in [
        (
            "Status: 404 Not Found\r\nX-A: b\r\n\r\nno",
            "GET",
            404,
            &[("X-A", "b")][..],
            "no",
        ),
        ("Location: /b\n\n", "GET", 302, &[("Location", "/b")], ""),
        (
            "Status: 301\nLocation: http://b.test/\n\n",
            "GET",
            301,
            &[("Location", "http://b.test/")],
            "",
        ),
        (
            "Content-Length: 2\r\n\r\nok",
            "GET",
            200,
            &[("Content-Length", "2")],
            "ok",
        ),
        (
            "Content-Length: 2\r\n\r\n",
            "HEAD",
            200,
            &[("Content-Length", "2")],
            "",
        ),
        (
            "Status: 304\nETag: \"a\"\n\n",
            "GET",
            304,
            &[("ETag", "\"a\"")],
            "",
        ),
        (
            "Set-Cookie: a=b\nConnection: close\nTransfer-Encoding: gzip\n\nx",
            "GET",
            200,
            &[("Set-Cookie", "a=b")],
            "x",
        ),
    ] {
        let app = App::new(move |_| Deed::Write([stdout(output), end(0)].concat()));
        let server = launch(strategy, &tree, &to(&app, ""), "");
        let mut connection = server.connect();
        // The client's connection goes on.
        for _ in 0..2 {
            let got = connection.request(method, "/a.php", &[]);
            assert_eq!((got.status, &*got.text()), (status, text), "{output}");
            for (name, value) in fields {
                assert_eq!(got.must(name), *value, "{output}");
            }
            assert!(!got.closes(), "{output}");
        }
    }
}

fn a_response_is_whole_wherever_it_is_cut(strategy: Strategy) {
    let tree = tree();
    let whole = [
        stderr("a warning"),
        stdout("Content-Type: a/b\r\nX-A: c\r\n\r\nhello"),
        stdout(" world"),
        end(0),
    ]
    .concat();
    let length = whole.len();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("fastcgi://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for cut in 0.. {
            let Ok((mut stream, _)) = listener.accept() else {
                return;
            };
            stream.set_nodelay(true).expect("an option");
            if receive(&mut stream, cut).is_none() {
                continue;
            }
            let (first, second) = whole.split_at(cut % (length + 1));
            let _ = stream.write_all(first);
            let _ = stream.write_all(second);
        }
    });
    let server = launch(strategy, &tree, &format!("upstreams = [\"{url}\"]"), "");
    let mut connection = server.connect();
    for cut in 0..=length {
        let got = connection.get("/a.php");
        assert_eq!(
            (got.status, &*got.text(), got.must("X-A")),
            (200, "hello world", "c"),
            "cut at {cut}"
        );
    }
}

fn failures_get_the_errors_of_http(strategy: Strategy) {
    let tree = tree();
    let head = "Content-Type: a/b\r\n\r\n";
    for (answer, status, said) in [
        (Vec::new(), 502, "closed the connection without a response"),
        (end(0), 502, "closed the connection without a response"),
        (b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), 502, "a record of version 72"),
        (record(6, b"no head\n\n"), 502, "a line that is no field"),
        ([stdout("X: y"), end(0)].concat(), 502, "without the blank line"),
        ([record(99, b"x"), end(0)].concat(), 502, "a record of type 99"),
        (vec![1, 6, 0, 2, 0, 0, 0, 0], 502, "request 2"),
        (
            stdout("X: ".to_owned() + &"y".repeat(65_500)).repeat(2),
            502,
            "more than 64 KiB",
        ),
        (end(2), 502, "refused the request"),
    ] {
        let app = App::new(move |_| Deed::Close(answer.clone()));
        let server = launch(strategy, &tree, &to(&app, "retries = 0"), "");
        // POST is sent once.
        let got = server
            .connect()
            .request("POST", "/a.php", &[("Content-Length", "0")]);
        assert_eq!(got.status, status, "{said}");
        assert_eq!(
            app.all().len(),
            if said.starts_with("refused") {
                app.all().len()
            } else {
                1
            },
            "{said}"
        );
        eventually(said, || server.stderr().contains(said).then_some(()));
    }
    // Once the head is passed on, the client sees that the rest is missing.
    for answer in [
        [stdout(head), stdout("part")].concat(),
        [stdout(head), stdout("part"), stdout("")].concat(),
        [stdout(head), stdout("part"), end(3)].concat(),
        [stdout("Content-Length: 9\r\n\r\n"), stdout("part"), end(0)].concat(),
        [stdout(head), stdout("part"), b"garbage".to_vec()].concat(),
    ] {
        let app = App::new(move |_| Deed::Close(answer.clone()));
        let server = launch(strategy, &tree, &to(&app, ""), "");
        let mut connection = server.connect();
        connection.send(crate::serve::wire::head("GET", "/a.php", &[]));
        let (bytes, end) = connection.rest();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!text.ends_with("0\r\n\r\n"), "{text}");
        assert!(
            end != End::Closed || text.starts_with("HTTP/1.1 502") || text.contains("Content-Length: 9"),
            "{text}"
        );
        let mut client = frames::connect(&server);
        let got = client.get("/a.php", &[]);
        assert!(got.reset.is_some() || got.status == 502, "{got:?}");
    }
}

fn a_silent_application_gets_504(strategy: Strategy) {
    let tree = tree();
    let app = App::new(|_| Deed::Silence);
    let server = launch(strategy, &tree, &to(&app, "first-byte-timeout = \"300ms\""), "");
    assert_eq!(server.connect().get("/a.php").status, 504);
    assert_eq!(frames::connect(&server).get("/a.php", &[]).status, 504);
}

fn another_application_takes_over(strategy: Strategy) {
    let tree = tree();
    for (deed, is_refusal) in [(end(2), true), (Vec::new(), false)] {
        let bad = App::new(move |_| Deed::Close(deed.clone()));
        let good = App::naming_scripts();
        let table = format!(
            "upstreams = [\"{}\", \"fastcgi://127.0.0.1:1\", \"{}\"]\nbalance = \"round-robin\"\nretries = 3",
            bad.url, good.url
        );
        let server = launch(strategy, &tree, &table, "");
        for _ in 0..6 {
            assert_eq!(server.connect().get("/a.php").text(), "script /a.php");
            if is_refusal {
                // It was not processed, so even POST goes elsewhere.
                let mut connection = server.connect();
                connection.send(head("POST", "/a.php", &[("Content-Length", "3")]));
                connection.send("abc");
                assert_eq!(connection.receive("POST").text(), "script /a.php");
                assert_eq!(good.last().content, b"abc");
            }
        }
        assert!(!bad.all().is_empty());
    }
}

fn connections_are_kept_if_that_is_configured(strategy: Strategy) {
    let tree = tree();
    let app = App::new(|call| Deed::Write(page(&call.connection.to_string())));
    let server = launch(strategy, &tree, &to(&app, "keepalive = 2"), "");
    let mut connection = server.connect();
    for _ in 0..5 {
        assert_eq!(connection.get("/a.php").text(), "0");
    }
    assert!(app.all().iter().all(|call| call.keeps));
    // The second request on a connection finds it closed: the application had enough of it.
    let app = App::new(|call| match call.param("QUERY_STRING") {
        "last" => Deed::Close(page(&call.connection.to_string())),
        _ => Deed::Write(page(&call.connection.to_string())),
    });
    let server = launch(strategy, &tree, &to(&app, "keepalive = 2"), "");
    let mut connection = server.connect();
    for at in 0..10 {
        let got = connection.get("/a.php?last");
        assert_eq!((got.status, got.text()), (200, at.to_string()));
    }
    // One that closes upon the next request has not answered it, so it is asked again.
    let seen = Arc::new(Mutex::new(std::collections::BTreeSet::new()));
    let app = App::new(
        move |call| match seen.lock().expect("no panic").insert(call.connection) {
            true => Deed::Write(page("first")),
            false => Deed::Close(Vec::new()),
        },
    );
    let server = launch(strategy, &tree, &to(&app, "keepalive = 2\nretries = 0"), "");
    let mut connection = server.connect();
    for _ in 0..4 {
        assert_eq!(connection.get("/a.php").text(), "first");
    }
}

fn what_an_application_complains_about_is_logged(strategy: Strategy) {
    let tree = tree();
    let app = App::new(|call| {
        let mut out = stderr("PHP Warning: one\nPHP Warning: two");
        if call.param("QUERY_STRING") == "flood" {
            out.extend(stderr([b'x'; 60_000]).repeat(200));
        }
        out.extend(page("fine"));
        Deed::Write(out)
    });
    let server = launch(strategy, &tree, &to(&app, ""), "request-id = \"X-Request-Id\"");
    assert_eq!(server.connect().get("/a.php").text(), "fine");
    let line = eventually("the line in the log", || {
        let log = server.stderr();
        log.lines()
            .find(|line| line.contains("PHP Warning"))
            .map(str::to_owned)
    });
    assert!(
        line.contains("/a.php") && line.contains("one\\\\nPHP Warning: two")
            || line.contains("one\\nPHP Warning: two"),
        "{line}"
    );
    let heard = app.last().params;
    let id = heard.get("HTTP_X_REQUEST_ID").expect("its id");
    assert!(line.contains(&**id), "{line} without {id}");
    assert_eq!(server.connect().get("/a.php?flood").text(), "fine");
    let log = eventually("the bounded line", || {
        Some(server.stderr()).filter(|log| log.contains("bytes more"))
    });
    assert!(log.len() < 50_000, "{} bytes of log", log.len());
}

fn an_early_answer_ends_the_upload(strategy: Strategy) {
    let tree = tree();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("fastcgi://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            // Of the parameters and the content, only the beginning is read.
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(&[stdout("Status: 413\r\n\r\n"), stdout("too much"), end(0)].concat());
            let _ = stream.set_read_timeout(Some(PATIENCE));
            while matches!(stream.read(&mut [0; 4096]), Ok(more) if more > 0) {}
        }
    });
    let server = launch(strategy, &tree, &format!("upstreams = [\"{url}\"]"), "");
    let mut connection = server.connect();
    connection.send(head("POST", "/a.php", &[("Content-Length", "1000000")]));
    connection.send([b'x'; 1_000]);
    let got = connection.receive("POST");
    assert_eq!((got.status, &*got.text()), (413, "too much"));
}

fn a_folder_of_uploads_can_be_left_out(strategy: Strategy) {
    let tree = tree();
    tree.write("site/uploads/evil.php", SOURCE);
    let app = App::naming_scripts();
    let table = to(
        &app,
        "except = [\"/uploads/*\"]\n[proxy.fastcgi]\nfront = \"/index.php\"",
    );
    let server = launch(strategy, &tree, &table, "");
    for path in [
        "/uploads/evil.php",
        "/uploads/evil.php/x",
        "/UPLOADS/../uploads/%65vil.php",
    ] {
        let got = server.connect().get(path);
        assert_eq!(got.status, 404, "{path}");
        assert!(!got.text().contains("<?php"), "{path}");
    }
    assert!(app.all().is_empty());
}

fn access_rules_cover_scripts(strategy: Strategy) {
    let tree = tree();
    let app = App::naming_scripts();
    let top = "[[access]]\npath = \"/a.php\"\nallow = [\"192.0.2.1\"]\n[[access]]\npath = \"/dir/index.php\"\nallow = [\"192.0.2.1\"]";
    let server = launch(strategy, &tree, &to(&app, ""), top);
    for path in ["/a.php", "/a.php/b", "/%61.php/b", "/dir/", "/dir/index.php"] {
        assert_eq!(server.connect().get(path).status, 403, "{path}");
        assert_eq!(frames::connect(&server).get(path, &[]).status, 403, "{path}");
    }
    assert!(app.all().is_empty());
    assert_eq!(server.connect().get("/").text(), "script /index.php");
    // The front controller takes the path behind its name for the path of the request.
    let top = "[[access]]\npath = \"/admin/*\"\ndeny = [\"all\"]";
    let front = to(&app, "[proxy.fastcgi]\nfront = \"/index.php\"");
    let server = launch(strategy, &tree, &front, top);
    let before = app.all().len();
    for path in [
        "/admin/x",
        "/index.php/admin",
        "/index.php/admin/x",
        "/index%2ephp/admin/x",
    ] {
        assert_eq!(server.connect().get(path).status, 403, "{path}");
    }
    assert_eq!(app.all().len(), before);
    assert_eq!(
        server.connect().get("/index.php/other").text(),
        "script /index.php /other"
    );
}

fn mounts_have_no_scripts(strategy: Strategy) {
    let tree = tree();
    for name in ["x.php", "index.php"] {
        tree.write(&format!("more/{name}"), SOURCE);
    }
    tree.write("more/a.txt", "a text");
    let app = App::naming_scripts();
    let top = format!(
        "[[mount]]\npath = \"/m/\"\nroot = \"{}\"",
        tree.join("more").display()
    );
    let without = launch(strategy, &tree, &to(&app, ""), &top);
    assert_eq!(without.connect().get("/m/a.txt").text(), "a text");
    for path in ["/m/x.php", "/m/x.php/a", "/m/", "/m/index.php", "/m/X.PHP"] {
        let got = without.connect().get(path);
        assert!(matches!(got.status, 403 | 404), "{path}: {}", got.status);
        assert!(!got.text().contains("<?php"), "{path}");
    }
    assert!(app.all().is_empty());
    let front = to(&app, "[proxy.fastcgi]\nfront = \"/index.php\"");
    let with = launch(strategy, &tree, &front, &top);
    assert_eq!(with.connect().get("/m/x.php").text(), "script /index.php");
    assert_eq!(with.connect().get("/m/a.txt").text(), "a text");
}

fn conditions_decide_about_scripts(strategy: Strategy) {
    let tree = tree();
    let app = App::naming_scripts();
    let top = "[[access]]\npath = \"/a.php\"\nif = \"header X-Bad\"\ndeny = [\"all\"]\n[[access]]\nallow = [\"all\"]";
    let server = launch(strategy, &tree, &to(&app, "if = \"cookie beta\""), top);
    let ask = |path: &str, fields: &[(&str, &str)]| {
        let got = server.connect().request("GET", path, fields);
        assert!(!got.text().contains("<?php"), "{path} {fields:?}");
        got
    };
    for path in ["/a.php", "/a.php/b"] {
        let got = ask(path, &[("Cookie", "beta=1")]);
        assert!(got.text().starts_with("script /a.php"), "{path}");
        assert_eq!(
            ask(path, &[("Cookie", "beta=1"), ("X-Bad", "1")]).status,
            403,
            "{path}"
        );
        // No rule passes it on, and nobody gets the source.
        assert_eq!(ask(path, &[]).status, 404, "{path}");
    }
}

fn explain_names_the_script(_: Strategy) {
    let tree = tree();
    let table =
        "upstreams = [\"fastcgi+unix:/run/php/php-fpm.sock\"]\n[proxy.fastcgi]\nfront = \"/index.php\"";
    // A script that answers for some paths has a rule of its own.
    let first = "[[proxy]]\npath = \"/remote/*\"\nupstreams = [\"fastcgi://127.0.0.1:9000\"]\n[proxy.fastcgi]\n\
                 front = \"/a.php\"";
    let config = configuration(&tree, table, first);
    for (path, said) in [
        (
            "/a.php/b",
            "fastcgi+unix:/run/php/php-fpm.sock; script `/a.php` with PATH_INFO `/b`, or `/index.php` without it",
        ),
        ("/none", "script `/index.php`, if there is no file"),
        ("/remote/x", "script `/a.php`, if there is no file"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--explain", &format!("GET {path}"), "--config"])
            .arg(&config)
            .output()
            .expect("the binary");
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said), "{text}");
    }
}

fn mistakes_are_explained(_: Strategy) {
    let tree = tree();
    let fastcgi = "upstreams = [\"fastcgi://127.0.0.1:9000\"]\n";
    for (table, said) in [
        (format!("{fastcgi}cache = true"), "`cache` is not available"),
        (format!("{fastcgi}strip = true"), "`strip` is not available"),
        (
            format!("{fastcgi}[proxy.check]\npath = \"/ping\""),
            "`check` is not available",
        ),
        (
            "upstreams = [\"fastcgi://127.0.0.1:9000\", \"http://127.0.0.1:80\"]".to_owned(),
            "cannot share a rule",
        ),
        (
            "upstreams = [\"http://127.0.0.1:80\"]\n[proxy.fastcgi]\nfront = \"/index.php\"".to_owned(),
            "no effect without an upstream of FastCGI",
        ),
        (
            format!("{fastcgi}[proxy.fastcgi]\nfront = \"index.php\""),
            "as in /index.php",
        ),
        (
            format!("{fastcgi}[[try-files]]\npath = \"/remote/*\"\nfiles = [\"/a.php\"]"),
            "`/a.php`, which is a script",
        ),
    ] {
        let config = configuration(&tree, &table, "");
        let (status, text) = Launch::bare()
            .args(["--check".as_ref(), "--config".as_ref(), config.as_os_str()])
            .fail();
        assert!(status != 0 && text.contains(said), "{status} {text}");
    }
    let config = tree.write("weir.toml", format!("[[proxy]]\npath = \"/*\"\n{fastcgi}"));
    let (status, text) = Launch::bare()
        .args(["--config".as_ref(), config.as_os_str()])
        .fail();
    assert!(
        status != 0 && text.contains("runs scripts below `root`"),
        "{status} {text}"
    );
}

/// php-fpm at a Unix socket, for as long as this lives.
struct Php(Child);

impl Drop for Php {
    fn drop(&mut self) {
        // It ends its workers, which would outlive it if it were killed.
        signal(self.0.id(), "TERM");
        let _ = self.0.wait();
    }
}

impl Php {
    /// Starts it with a pool below this tree. `None`: it is not installed.
    fn start(tree: &Tree) -> Option<(Php, String)> {
        let folders = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];
        let files = folders
            .iter()
            .filter_map(|folder| std::fs::read_dir(folder).ok())
            .flatten()
            .flatten();
        let mut files = files.map(|file| file.path());
        let binary = files.find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("php-fpm") && path.is_file()
        })?;
        let socket = tree.join("php.sock");
        let text = format!(
            "[global]\nerror_log = {0}/php.log\ndaemonize = no\n[www]\nlisten = {1}\nlisten.mode = 0666\nuser = nobody\ngroup = nogroup\n\
             pm = static\npm.max_children = 2\ncatch_workers_output = yes\nphp_admin_value[cgi.fix_pathinfo] = 1\n\
             php_admin_flag[log_errors] = on\nsecurity.limit_extensions =\n",
            tree.path().display(),
            socket.display()
        );
        let config = tree.write("php-fpm.conf", text);
        let mut child = Command::new(binary)
            .args(["--nodaemonize", "--fpm-config"])
            .arg(config)
            .args(if is_root() {
                &["--allow-to-run-as-root"][..]
            } else {
                &[]
            })
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        eventually("php-fpm", || {
            let status = child.try_wait().expect("our child");
            assert!(status.is_none(), "php-fpm has ended: {status:?}");
            UnixStream::connect(&socket).ok()
        });
        Some((Php(child), format!("fastcgi+unix:{}", socket.display())))
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

fn php_fpm_answers(strategy: Strategy) {
    let tree = tree();
    let Some((_php, url)) = Php::start(&tree) else {
        eprintln!("skipped: php-fpm is not installed");
        return;
    };
    tree.write(
        "site/index.php",
        "<?php header('X-Via: front'); echo $_SERVER['REQUEST_URI'], ' ', $_SERVER['SCRIPT_NAME'];",
    );
    tree.write(
        "site/info.php",
        "<?php echo $_SERVER['PATH_INFO'], '|', $_GET['q'] ?? '', '|', $_SERVER['REMOTE_ADDR'];",
    );
    tree.write(
        "site/post.php",
        "<?php http_response_code(201); echo strlen(file_get_contents('php://input'));",
    );
    tree.write("site/move.php", "<?php header('Location: /info.php');");
    tree.write("site/warn.php", "<?php error_log('a complaint'); echo 'fine';");
    tree.write(
        "site/long.php",
        "<?php for ($i = 0; $i < 1000; $i++) echo str_repeat('x', 1000);",
    );
    tree.write("site/x.jpg", "<?php echo 'the hole';");
    // The workers run as another user.
    open_to_all(tree.path());
    for keepalive in [0, 1] {
        let table = format!(
            "upstreams = [\"{url}\"]\nkeepalive = {keepalive}\n[proxy.fastcgi]\nfront = \"/index.php\""
        );
        let server = launch(strategy, &tree, &table, "");
        let mut connection = server.connect();
        let got = connection.get("/blog/1?p=2");
        assert_eq!(
            (got.status, &*got.text(), got.must("X-Via")),
            (200, "/blog/1?p=2 /index.php", "front")
        );
        assert_eq!(connection.get("/info.php/a/b?q=c").text(), "/a/b|c|127.0.0.1");
        assert_eq!(connection.get("/style.css").text(), "a style");
        assert_eq!(
            connection.get("/x.jpg/y.php").text(),
            "/x.jpg/y.php /index.php",
            "the hole is closed"
        );
        let got = connection.get("/move.php");
        assert_eq!((got.status, got.must("Location")), (302, "/info.php"));
        assert_eq!(connection.get("/long.php").body.len(), 1_000_000);
        assert_eq!(connection.request("HEAD", "/long.php", &[]).status, 200);
        let length = 200_000;
        connection.send(head(
            "POST",
            "/post.php",
            &[("Content-Length", &length.to_string())],
        ));
        connection.send(vec![b'x'; length]);
        let got = connection.receive("POST");
        assert_eq!((got.status, got.text()), (201, length.to_string()));
        assert_eq!(
            frames::connect(&server).get("/info.php/h2", &[]).text(),
            "/h2||127.0.0.1"
        );
        assert_eq!(connection.get("/warn.php").text(), "fine");
        eventually("the complaint", || {
            server.stderr().contains("a complaint").then_some(())
        });
    }
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("our own file");
    };
    open(folder, 0o755);
    for entry in std::fs::read_dir(folder).expect("our own folder").flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => open_to_all(&path),
            Ok(kind) if kind.is_file() => open(&path, 0o644),
            _ => {}
        }
    }
}

on_strategy!(loops, LOOPS:
    each_path_has_its_script,
    a_listing_shows_no_directory_with_a_script,
    an_application_is_told_about_the_request,
    a_trusted_proxy_names_the_client,
    a_rule_says_that_a_balancer_ends_tls,
    content_goes_both_ways_in_each_version,
    heads_become_those_of_http,
    a_response_is_whole_wherever_it_is_cut,
    failures_get_the_errors_of_http,
    a_silent_application_gets_504,
    another_application_takes_over,
    connections_are_kept_if_that_is_configured,
    what_an_application_complains_about_is_logged,
    an_early_answer_ends_the_upload,
    access_rules_cover_scripts,
    mounts_have_no_scripts,
    conditions_decide_about_scripts,
    a_folder_of_uploads_can_be_left_out,
    explain_names_the_script,
    mistakes_are_explained,
    php_fpm_answers
);
on_strategy!(loops_uring, LOOPS_URING: each_path_has_its_script, content_goes_both_ways_in_each_version, connections_are_kept_if_that_is_configured);
on_strategy!(process_loops, PROCESS_LOOPS: each_path_has_its_script, failures_get_the_errors_of_http);
