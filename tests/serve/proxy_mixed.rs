//! Files and an application that share paths: paths that a rule leaves out, and rules for requests without a file. Clients
//! of HTTP/1 and HTTP/2 get the same answers, and `--explain` names their source.

use crate::serve::frames;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy};
use crate::serve::proxy::{Upstream, head};
use crate::serve::tree::Tree;
use std::io::Write as _;
use std::process::Command;

/// An application that answers each request with its own head.
fn application() -> Upstream {
    Upstream::new(|stream| {
        let got = head(stream);
        let line = got.lines().next().unwrap_or_default();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nX-App: 1\r\nContent-Length: {}\r\n\r\n{line}",
            line.len()
        );
        let _ = stream.write_all(answer.as_bytes());
        got
    })
}

fn tree(url: &str) -> Tree {
    let config = format!(
        r#"
root = "site"
spa-fallback = "/index.html"
http2 = "all"

[[proxy]]
path = "/app/*"
except = ["/app/assets/*", "*.css"]
upstreams = ["{url}"]

[[redirect]]
from = "/tried/old"
to = "/tried/new"

[[proxy]]
path = "/tried/*"
when = "missing"
upstreams = ["{url}"]

[[access]]
path = "/tried/secret/*"
deny = "all"

[[host]]
names = ["pretty.test"]
spa-fallback = false
try-files = [{{ path = "*", files = ["$path", "$path.html"] }}]
proxy = [{{ path = "*", when = "missing", upstreams = ["{url}"] }}]
"#
    );
    Tree::with(&[
        ("weir.toml", &*config),
        ("site/index.html", "home"),
        ("site/app/assets/a.js", "script"),
        ("site/app/a.css", "style"),
        ("site/app/a.txt", "hidden by the rule"),
        ("site/tried/a.txt", "a file"),
        ("site/tried/docs/index.html", "docs"),
        ("site/tried/bare/a.txt", "no index beside it"),
        ("site/about.html", "about"),
    ])
}

fn launch(strategy: Strategy, tree: &Tree) -> Server {
    Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start()
}

/// Method, host and path, status, and what the answer begins with.
const ANSWERS: &[(&str, &str, &str, u16, &str)] = &[
    ("GET", "a.test", "/app/x?q", 200, "GET /app/x?q HTTP"),
    ("GET", "a.test", "/app/a.txt", 200, "GET /app/a.txt HTTP"),
    ("GET", "a.test", "/app/assets/a.js", 200, "script"),
    ("GET", "a.test", "/app/x/../assets/%61.js", 200, "script"),
    ("GET", "a.test", "/app/a.css", 200, "style"),
    ("GET", "a.test", "/app/none.css", 404, ""),
    ("GET", "a.test", "/some/view", 200, "home"),
    ("GET", "a.test", "/tried/a.txt", 200, "a file"),
    ("GET", "a.test", "/tried/%61.txt", 200, "a file"),
    ("GET", "a.test", "/tried/docs/", 200, "docs"),
    ("GET", "a.test", "/tried/docs", 301, ""),
    ("GET", "a.test", "/tried/bare/", 200, "GET /tried/bare/ HTTP"),
    ("GET", "a.test", "/tried/view?q", 200, "GET /tried/view?q HTTP"),
    (
        "DELETE",
        "a.test",
        "/tried/a.txt",
        200,
        "DELETE /tried/a.txt HTTP",
    ),
    (
        "OPTIONS",
        "a.test",
        "/tried/a.txt",
        200,
        "OPTIONS /tried/a.txt HTTP",
    ),
    ("TRACE", "a.test", "/tried/view", 405, ""),
    ("GET", "a.test", "/tried/old", 301, ""),
    ("DELETE", "a.test", "/tried/old", 301, ""),
    ("GET", "a.test", "/tried/secret/x", 403, ""),
    ("DELETE", "a.test", "/tried/secret/x", 403, ""),
    ("GET", "pretty.test", "/about", 200, "about"),
    ("GET", "pretty.test", "/other", 200, "GET /other HTTP"),
    ("GET", "pretty.test", "/", 200, "home"),
];

fn each_path_has_its_source(strategy: Strategy) {
    let upstream = application();
    let tree = tree(&upstream.url);
    let server = launch(strategy, &tree);
    // Twice: the second answer comes from the cache, and nothing that was not found is remembered as passed on.
    for _ in 0..2 {
        let mut connection = server.connect();
        let mut client = frames::connect(&server);
        for &(method, host, path, status, begins) in ANSWERS {
            let asked = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\n\r\n");
            connection.send(asked);
            let old = connection.receive(method);
            assert_eq!(old.status, status, "{method} {host}{path}: {}", old.text());
            assert!(old.text().starts_with(begins), "{path}: {}", old.text());
            let fields = [(":method", method), (":authority", host), ("accept", "text/html")];
            let new = client.get(path, &fields);
            assert_eq!(
                (new.status, new.text()),
                (status, old.text()),
                "{method} {host}{path}"
            );
            assert_eq!(new.field("x-app"), old.field("X-App"), "{path}");
        }
    }
}

fn a_request_with_a_body_is_not_answered_by_a_file(strategy: Strategy) {
    let upstream = Upstream::answering(crate::serve::proxy::HELLO);
    let tree = tree(&upstream.url);
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    connection.send("GET /tried/a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(connection.receive("GET").text(), "hello");
    let got = upstream.first();
    assert!(got.ends_with("\r\n\r\nabc"), "{got}");
    // Pipelined requests keep their order, whoever answers them.
    connection.send(
        "GET /tried/view HTTP/1.1\r\nHost: a\r\n\r\nGET /tried/a.txt HTTP/1.1\r\nHost: a\r\n\r\n\
         GET /tried/other HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    let texts = [(); 3].map(|()| connection.receive("GET").text());
    assert_eq!(texts, ["hello", "a file", "hello"]);
}

macro_rules! where_sessions_dial {
    ($($name:ident),* $(,)?) => {
        on_strategy!(loops, LOOPS: $($name),*);
        on_strategy!(process_loops, PROCESS_LOOPS: $($name),*);
        on_strategy!(loops_uring, LOOPS_URING: $($name),*);
    };
}

where_sessions_dial!(
    each_path_has_its_source,
    a_request_with_a_body_is_not_answered_by_a_file,
);

#[test]
fn an_explanation_names_the_source() {
    let tree = tree("http://127.0.0.1:1");
    for &(method, host, path, status, begins) in ANSWERS {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--config"])
            .arg(tree.join("weir.toml"))
            .args(["--explain", &format!("{method} http://{host}{path}")])
            .output()
            .expect("the program runs");
        let told = String::from_utf8_lossy(&output.stdout);
        let expected = match begins.ends_with("HTTP") {
            true => "answer         from proxy, rule ".to_owned(),
            false => format!("answer         {status}, from "),
        };
        assert!(told.contains(&expected), "{told}");
    }
}
