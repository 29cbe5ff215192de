//! Fixed answers (`[[respond]]`): over HTTP/1.1, HTTP/2 and HTTP/3, and their place among the other rules.

use crate::serve::frames;
use crate::serve::http3::client::Client;
use crate::serve::listeners::address;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy};
use crate::serve::proxy::{HELLO, Upstream};
use crate::serve::tls::Pairs;
use crate::serve::tree::Tree;
use std::process::Command;

const CONFIG: &str = r#"
root = "site"
http2 = "all"
header = ["X-File: yes"]

[error-pages]
404 = "/none.html"

[[respond]]
path = "/up"
text = "up"

[[respond]]
path = "/json/*"
status = 503
text = '{"late":true}'
type = "application/json"
except = "/json/a.txt"

[[respond]]
path = "/empty"
status = 204

[[respond]]
path = "/nothing"

[[respond]]
path = "/moved/*"
text = "not this"

[[respond]]
path = "/closed/*"
text = "not this"

[[respond]]
path = "/beta"
text = "beta"
if = "cookie beta"

[[respond]]
path = "/passed/up"
text = "not the upstream"

[[redirect]]
from = "/moved/*"
to = "/"

[[access]]
path = "/closed/*"
deny = "all"

[[header-rule]]
path = "/up"
header = ["Cache-Control: no-store"]

[[header-rule]]
header = ["X-Always: yes"]
always = true

[[host]]
names = ["b.test"]
root = "site"
respond = [{ text = "host b" }]
"#;

fn tree(upstream: &str) -> Tree {
    let proxy = format!("[[proxy]]\npath = '/passed/*'\nupstreams = ['{upstream}']\n");
    Tree::with(&[
        ("site/index.html", "home"),
        ("site/none.html", "no page"),
        ("site/up", "a file"),
        ("site/beta", "a file"),
        ("site/json/a.txt", "a file"),
        (
            "weir.toml",
            &CONFIG.replace("[[host]]", &format!("{proxy}\n[[host]]")),
        ),
    ])
}

fn launch(strategy: Strategy, tree: &Tree) -> Server {
    Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start()
}

fn a_text_answers_in_place_of_files_and_upstreams(strategy: Strategy) {
    let upstream = Upstream::answering(HELLO);
    let tree = tree(&upstream.url);
    let server = launch(strategy, &tree);
    for (method, path, cookie, status, text) in [
        ("GET", "/up", "", 200, "up"),
        ("GET", "/%75p?query", "", 200, "up"),
        ("HEAD", "/up", "", 200, ""),
        ("POST", "/up", "", 200, "up"),
        ("OPTIONS", "/up", "", 200, "up"),
        ("GET", "/upper", "", 404, "no page"),
        ("GET", "/json/x/y", "", 503, "{\"late\":true}"),
        ("GET", "/json/a.txt", "", 200, "a file"),
        ("GET", "/empty", "", 204, ""),
        ("GET", "/nothing", "", 200, ""),
        ("GET", "/moved/x", "", 301, "This page is at another address."),
        ("GET", "/closed/x", "", 403, "You do not have permission"),
        ("GET", "/beta", "", 200, "a file"),
        ("GET", "/beta", "beta=1", 200, "beta"),
        ("GET", "/passed/up", "", 200, "not the upstream"),
        ("POST", "/passed/up", "", 200, "not the upstream"),
    ] {
        let fields = [("cookie", cookie)];
        let fields = &fields[..usize::from(!cookie.is_empty())];
        let mut first = server.connect();
        let mut second = frames::connect(&server);
        // Several times, because known requests are answered in another way.
        for _ in 0..3 {
            let got = first.request(method, path, fields);
            assert_eq!(got.status, status, "{method} {path} {got:?}");
            let is_it = |sent: &str| sent == text || (text.contains(' ') && sent.contains(text));
            assert!(is_it(&got.text()), "{method} {path} {got:?}");
            let got = second.get(path, &[&[(":method", method)], fields].concat());
            assert_eq!(got.status, status, "{method} {path} {got:?}");
            assert!(is_it(&got.text()), "{method} {path} {got:?}");
        }
    }
    assert_eq!(upstream.all(), Vec::<String>::new(), "nothing is passed on");
    assert_eq!(
        server.connect().request("GET", "/passed/x", &[]).text(),
        "hello",
        "other paths are"
    );
}

fn a_text_has_the_lines_of_rules(strategy: Strategy) {
    let upstream = Upstream::answering(HELLO);
    let tree = tree(&upstream.url);
    let server = launch(strategy, &tree);
    let ask =
        |method: &str, path: &str, fields: &[(&str, &str)]| server.connect().request(method, path, fields);
    for method in ["GET", "HEAD"] {
        let up = ask(
            method,
            "/up",
            &[("Range", "bytes=0-0"), ("Accept-Encoding", "gzip")],
        );
        for (name, value) in [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", "2"),
            ("Cache-Control", "no-store"),
            ("X-File", "yes"),
            ("X-Always", "yes"),
            ("X-Content-Type-Options", "nosniff"),
        ] {
            assert_eq!(up.must(name), value, "{method} {name}");
        }
        assert_eq!((up.status, up.field("ETag")), (200, None));
    }
    // An error has the lines of errors.
    let late = ask("GET", "/json/x", &[]);
    assert_eq!(late.must("Content-Type"), "application/json");
    assert_eq!((late.must("X-Always"), late.field("X-File")), ("yes", None));
    let empty = ask("GET", "/empty", &[]);
    assert_eq!(
        (empty.field("Content-Type"), empty.field("Content-Length")),
        (None, None)
    );
    let nothing = ask("GET", "/nothing", &[]);
    assert_eq!(
        (nothing.field("Content-Type"), nothing.must("Content-Length")),
        (None, "0")
    );
    assert_eq!(ask("GET", "/beta", &[]).must("Vary"), "Cookie");
    let mut connection = server.connect();
    connection.send("GET /anything HTTP/1.1\r\nHost: b.test\r\n\r\n");
    assert_eq!(connection.receive("GET").text(), "host b");
}

#[test]
fn a_text_is_sent_over_http3() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let config = pairs.tree.write(
        "weir.toml",
        "root = 'site'\nhttp3 = true\n\
         [[listener]]\naddress = '127.0.0.2:0'\ntls = { cert = 'a.pem', key = 'a.key' }\n\
         [[respond]]\npath = '/up'\ntext = 'up'\nstatus = 202\n",
    );
    let server = Launch::new(Strategy::ONE_LOOP)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let mut client = Client::open(address(&server, 1), &pairs.client(), "a.test");
    for _ in 0..3 {
        let got = client.get("/up", &[]);
        assert_eq!((got.status, &*got.text()), (202, "up"), "{got:?}");
        assert_eq!(got.field("content-length"), Some("2"), "{got:?}");
    }
}

#[test]
fn the_rule_is_explained_and_mistakes_are_named() {
    let tree = tree("http://127.0.0.1:1");
    let explain = |request: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--config"])
            .arg(tree.join("weir.toml"))
            .args(["--explain", request])
            .output()
            .expect("the program runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = explain("GET /passed/up");
    for line in ["rule 8 for `/passed/up`: 200", "200, from respond rule 8"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("proxy"), "{text}");
    let text = explain("GET /beta");
    assert!(
        text.contains("respond rule 7 for `/beta` does not apply: `cookie beta` does not hold"),
        "{text}"
    );
    let config = tree.write(
        "wrong.toml",
        "root = 'site'\n[[respond]]\npath = '/a'\nstatus = 301\n",
    );
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--check", "--config"])
        .arg(config)
        .output()
        .expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("write a table `[[redirect]]` instead"), "{error}");
}

on_strategy!(
    loops, LOOPS: a_text_answers_in_place_of_files_and_upstreams, a_text_has_the_lines_of_rules
);
on_strategy!(
    loops_uring, LOOPS_URING: a_text_answers_in_place_of_files_and_upstreams, a_text_has_the_lines_of_rules
);
