//! Sites told apart by name, paths that have moved, field lines for some paths.

use crate::serve::on_each_back_end;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tree::Tree;
use std::path::Path;

const CONFIG: &str = r#"
root = "default"
header = ["X-Site: default", "Cache-Control: no-cache"]

[[redirect]]
from = "/old/*"
to = "/new/*"

[[redirect]]
from = "/gone"
to = "https://elsewhere.test/here"
status = 302

[[header-rule]]
path = "/assets/*"
header = ["Cache-Control: max-age=31536000, immutable"]

[[header-rule]]
path = "*.html"
header = ["X-Page: yes"]

[[host]]
names = ["one.test", "*.one.test"]
root = "one"
header = ["X-Site: one"]
listing = true

[[host]]
names = ["app.one.test"]
root = "app"
spa-fallback = "/index.html"
redirect = []
[host.error-pages]
404 = "/404.html"

[[host]]
names = ["www.one.test"]
redirect = [{ from = "*", to = "http://one.test*", status = 308 }]
"#;

fn tree() -> Tree {
    Tree::with(&[
        ("default/index.html", "default"),
        ("default/assets/a.css", "a{}"),
        ("one/a.txt", "one"),
        ("app/index.html", "app"),
        ("app/404.html", "not in the app"),
        ("weir.toml", CONFIG),
    ])
}

fn launch(strategy: Strategy, config: &Path) -> Server {
    Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start()
}

/// Status, and content or location.
fn ask(server: &Server, host: &str, path: &str) -> (u16, String) {
    let mut connection = server.connect();
    connection.send(format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\n\r\n"
    ));
    let answer = connection.receive("GET");
    let shown = match answer.field("Location") {
        Some(location) => location.to_owned(),
        None => answer.text(),
    };
    (answer.status, shown)
}

fn a_host_has_a_site_of_its_own(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree.join("weir.toml"));
    for (host, path, status, shown) in [
        ("localhost", "/", 200, "default"),
        ("one.test", "/a.txt", 200, "one"),
        ("ONE.test:8080", "/a.txt", 200, "one"),
        ("b.one.test", "/a.txt", 200, "one"),
        ("app.one.test", "/somewhere/in/it", 200, "app"),
        ("app.one.test", "/no.css", 404, "not in the app"),
        ("www.one.test", "/a.txt?q=1", 308, "http://one.test/a.txt?q=1"),
        ("other.test", "/index.html", 200, "default"),
        ("localhost", "/old/x/y?z", 301, "/new/x/y?z"),
        ("localhost", "/gone", 302, "https://elsewhere.test/here"),
        ("one.test", "/old/x", 301, "/new/x"),
        ("app.one.test", "/old/x", 200, "app"),
    ] {
        // Twice, as what was met before is answered in another way.
        for _ in 0..3 {
            assert_eq!(
                ask(&server, host, path),
                (status, shown.to_owned()),
                "{host} {path}"
            );
        }
    }
    // The target names the host, too, and wins (RFC 9112 section 3.2.2).
    let mut connection = server.connect();
    connection.send("GET http://one.test/a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(connection.receive("GET").text(), "one");
}

fn field_lines_follow_the_rules(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree.join("weir.toml"));
    let mut connection = server.connect();
    let asset = connection.get("/assets/a.css");
    assert_eq!(asset.must("Cache-Control"), "max-age=31536000, immutable");
    assert_eq!((asset.must("X-Site"), asset.field("X-Page")), ("default", None));
    let page = connection.get("/");
    assert_eq!(
        (page.must("Cache-Control"), page.must("X-Page")),
        ("no-cache", "yes")
    );
    let coded = connection.request("GET", "/", &[("Accept-Encoding", "gzip")]);
    assert_eq!(coded.must("X-Page"), "yes");
}

fn a_reload_changes_hosts(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree.join("weir.toml"));
    assert_eq!(ask(&server, "one.test", "/a.txt").1, "one");
    tree.write("two/a.txt", "two");
    tree.write("weir.toml", CONFIG.replace("root = \"one\"", "root = \"two\""));
    server.signal("HUP");
    eventually("the host's new root", || {
        (ask(&server, "one.test", "/a.txt").1 == "two").then_some(())
    });
    assert_eq!(ask(&server, "localhost", "/").1, "default");
    tree.write(
        "weir.toml",
        CONFIG.replace("root = \"one\"", "root = \"nowhere\""),
    );
    server.signal("HUP");
    eventually("the complaint", || {
        server.stderr().contains("nowhere").then_some(())
    });
    assert_eq!(ask(&server, "one.test", "/a.txt").1, "two", "the old one is kept");
}

/// A host that says nothing has the types of the top level; one that does has its own alone.
fn types_are_configured_by_extension_and_host_and_change_at_a_reload(strategy: Strategy) {
    let latin = b"<p>caf\xe9</p>";
    let tree = Tree::with(&[
        ("site/module.ts", "export {}"),
        ("site/b.rpm", "rpm"),
        ("site/README", "read"),
    ]);
    std::fs::write(tree.join("site/a.html"), latin).expect("our own file");
    let config = "root = 'site'\n[types]\nhtml = 'text/html; charset=iso-8859-1'\nTS = 'text/typescript'\n'' = 'text/plain'\n\
                  [[host]]\nnames = ['same.test']\n\
                  [[host]]\nnames = ['own.test']\n[host.types]\nhtml = 'text/html'\n";
    let server = launch(strategy, &tree.write("weir.toml", config));
    let of = |host: &str, path: &str| {
        let mut connection = server.connect();
        connection.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let answer = connection.receive("GET");
        assert_eq!(answer.status, 200, "{host} {path}");
        answer.must("Content-Type").to_owned()
    };
    for (host, path, value) in [
        ("localhost", "/a.html", "text/html; charset=iso-8859-1"),
        ("localhost", "/module.ts", "text/typescript"),
        ("localhost", "/README", "text/plain"),
        ("own.test", "/README", "application/octet-stream"),
        ("localhost", "/b.rpm", "application/x-redhat-package-manager"),
        ("same.test", "/a.html", "text/html; charset=iso-8859-1"),
        ("own.test", "/a.html", "text/html"),
        ("own.test", "/module.ts", "video/mp2t"),
    ] {
        assert_eq!(of(host, path), value, "{host} {path}");
    }
    assert_eq!(server.connect().get("/a.html").body, latin);
    tree.replace("weir.toml", config.replace("iso-8859-1", "windows-1252"));
    server.signal("HUP");
    eventually("the new type", || {
        (of("localhost", "/a.html") == "text/html; charset=windows-1252").then_some(())
    });
    assert_eq!(of("own.test", "/a.html"), "text/html");
}

/// As many as there may be. They have no roots, as watchers of so many would leave other tests no inotify instances.
#[test]
fn many_hosts_are_told_apart() {
    let host = |n| {
        format!(
            "[[host]]\nnames = ['h{n}.test', '*.h{n}.test']\nredirect = [{{ from = '/x', to = 'https://to{n}.test/' }}]\n"
        )
    };
    let text: String = (0..1_000).map(host).collect();
    let tree = Tree::with(&[("weir.toml", &text)]);
    let server = launch(Strategy::LOOPS, &tree.join("weir.toml"));
    for round in 0..2 {
        for n in [0, 1, 500, 999] {
            let there = (301, format!("https://to{n}.test/"));
            assert_eq!(ask(&server, &format!("h{n}.test"), "/x"), there, "{round}");
            assert_eq!(ask(&server, &format!("www.h{n}.test"), "/x"), there, "{round}");
        }
        assert_eq!(ask(&server, "h1000.test", "/x").0, 404, "{round}");
        server.signal("HUP");
        eventually("a reload", || server.stderr().contains("reloaded").then_some(()));
    }
}

on_each_back_end!(
    types_are_configured_by_extension_and_host_and_change_at_a_reload,
    a_host_has_a_site_of_its_own,
    field_lines_follow_the_rules,
    a_reload_changes_hosts,
);
