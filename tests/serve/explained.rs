//! `weir serve --explain`: which rules apply to a request, and that its answer is the one that a server sends.

use crate::serve::access::USERS;
use crate::serve::process::{Launch, Strategy};
use crate::serve::tree::Tree;
use std::process::Command;

const CONFIG: &str = r#"
root = "site"
spa-fallback = "/index.html"

[[access]]
path = "/admin/*"
htpasswd = "users"

[[access]]
path = "/far/*"
allow = "192.0.2.0/24"

[[redirect]]
from = "/old/*"
to = "/new/*"

[[header-rule]]
path = "*.css"
header = ["Cache-Control: max-age=60"]

[[host]]
names = ["one.test"]
root = "one"
spa-fallback = false
"#;

fn tree() -> Tree {
    Tree::with(&[
        ("weir.toml", CONFIG),
        ("users", USERS),
        ("site/index.html", "<p>home"),
        ("site/a.css", "a{}"),
        ("site/far/a.txt", "far"),
        ("one/dir/a.txt", "one"),
    ])
}

/// Exit code, output and errors.
fn explain(tree: &Tree, request: &str, more: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--config"])
        .arg(tree.join("weir.toml"))
        .args(["--explain", request])
        .args(more)
        .output()
        .expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("no signal");
    (code, text(output.stdout), text(output.stderr))
}

#[test]
fn an_explanation_is_what_a_server_answers() {
    let tree = tree();
    let server = Launch::new(Strategy::LOOPS)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    for (method, host, path, words) in [
        ("GET", "localhost", "/", "the file `/index.html`"),
        ("HEAD", "localhost", "/a.css", "rule 1 for `*.css`"),
        ("GET", "localhost", "/x/../%61.css", "rules compare `/a.css`"),
        ("GET", "localhost", "/old/x?y", "redirect rule 1"),
        ("GET", "localhost", "/admin/x", "a password is needed"),
        ("GET", "localhost", "/far/a.txt", "127.0.0.1 is not admitted"),
        ("GET", "localhost", "/some/view", "spa-fallback"),
        ("GET", "localhost", "/none.js", "no file"),
        ("POST", "localhost", "/", "no file"),
        ("GET", "one.test", "/dir", "the directory"),
        ("GET", "one.test", "/some/view", "no file"),
    ] {
        let mut connection = server.connect();
        connection.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\n\r\n"
        ));
        let status = connection.receive(method).status;
        let (code, out, err) = explain(&tree, &format!("{method} http://{host}{path}"), &[]);
        assert!(out.contains(&format!("answer         {status}, from ")), "{out}");
        assert!(out.contains(words), "{out}");
        assert_eq!(code, i32::from(status >= 400), "{out}{err}");
        assert_eq!(err.contains("is an error"), status >= 400, "{err}");
    }
}

#[test]
fn an_address_and_json_can_be_asked_for() {
    let tree = tree();
    let (code, out, _) = explain(&tree, "GET /far/a.txt from 192.0.2.7", &["--json"]);
    let told: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &told["status"]), (0, &serde_json::json!(200)), "{told}");
    assert_eq!(told["source"], "the file `/far/a.txt`");
    assert_eq!(told["steps"][1]["subject"], "access");
    let (code, _, err) = explain(&tree, "GET far", &[]);
    assert_eq!(code, 2);
    assert!(err.contains("as in \"GET /old/page\""), "{err}");
}
