//! Files that are tried for a path (`[[try-files]]`), and slashes at its end.

use crate::serve::frames;
use crate::serve::on_each_back_end;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tree::Tree;

const CONFIG: &str = r#"
root = "site"

[[try-files]]
path = "/kept/*"
files = ["$path", "$path.html", "$path/index.html"]

[[try-files]]
path = "/removed*"
files = ["$path", "$path.html", "$path/index.html"]
trailing-slash = "remove"

[[try-files]]
path = "/added/*"
files = ["$path", "$path.html"]
trailing-slash = "add"

[[try-files]]
path = "/first/*"
files = ["$path.html", "$path", "/last.html"]

[[try-files]]
path = "/old/*"
files = ["/kept/*", "/kept/*.html"]

[[access]]
path = "/kept/secret.html"
deny = "all"

[[host]]
names = ["plain.test"]
try-files = []
"#;

fn tree() -> Tree {
    let page = "<p>".to_owned() + &"long ".repeat(1_000);
    Tree::with(&[
        ("weir.toml", CONFIG),
        ("site/last.html", "last"),
        ("site/kept/about.html", "about"),
        ("site/kept/long.html", &page),
        ("site/kept/file.txt", "file"),
        ("site/kept/docs/index.html", "docs"),
        ("site/kept/secret.html", "secret"),
        ("site/removed/about.html", "about"),
        ("site/removed/docs/index.html", "docs"),
        ("site/removed/empty/a.txt", "a"),
        ("site/added/about.html", "about"),
        ("site/added/file.txt", "file"),
        ("site/first/both", "plain"),
        ("site/first/both.html", "page"),
    ])
}

fn launch(strategy: Strategy, tree: &Tree) -> Server {
    Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .args(["--http2=all"])
        .start()
}

fn files_are_tried_in_their_order(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    let mut client = frames::connect(&server);
    for _ in 0..3 {
        for (path, status, shown) in [
            ("/kept/about", 200, "about"),
            ("/kept/%61bout?q", 200, "about"),
            ("/kept/about.html", 200, "about"),
            ("/kept/about/", 404, ""),
            ("/kept/file.txt", 200, "file"),
            ("/kept/docs", 301, "/kept/docs/"),
            ("/kept/docs/", 200, "docs"),
            ("/kept/none", 404, ""),
            ("/kept/secret", 403, ""),
            ("/removed/about", 200, "about"),
            ("/removed/about/?q=1", 301, "/removed/about?q=1"),
            ("/removed//about//", 301, "/removed/about"),
            ("/removed/docs", 200, "docs"),
            ("/removed/docs/", 301, "/removed/docs"),
            ("/removed/empty", 404, ""),
            ("/removed/empty/", 301, "/removed/empty"),
            ("/added/about", 301, "/added/about/"),
            ("/added/about/", 200, "about"),
            ("/added/file.txt", 200, "file"),
            ("/added/none", 404, ""),
            ("/first/both", 200, "page"),
            ("/first/none", 200, "last"),
            ("/old/file.txt", 200, "file"),
            ("/old/about?q", 200, "about"),
            ("/old/none", 404, ""),
            ("/old/secret", 403, ""),
            ("/%6Fld/./secret", 403, ""),
            ("/last", 404, ""),
        ] {
            let answer = connection.get(path);
            assert_eq!(answer.status, status, "{path}");
            match status {
                200 => assert_eq!(answer.text(), shown, "{path}"),
                301 => assert_eq!(answer.must("Location"), shown, "{path}"),
                _ => {}
            }
            assert_eq!(client.get(path, &[]).status, status, "HTTP/2: {path}");
        }
    }
    connection.send("GET /kept/about HTTP/1.1\r\nHost: plain.test\r\n\r\n");
    assert_eq!(connection.receive("GET").status, 404);
    let head = connection.request("HEAD", "/kept/about", &[]);
    assert_eq!((head.status, head.must("Content-Length")), (200, "5"));
    let ranged = connection.request("GET", "/kept/about", &[("Range", "bytes=1-2")]);
    assert_eq!((ranged.status, ranged.text().as_str()), (206, "bo"));
    assert_eq!(connection.request("POST", "/kept/about", &[]).status, 405);
}

fn a_tried_file_is_compressed_and_changes(strategy: Strategy) {
    let tree = tree();
    let server = launch(strategy, &tree);
    let mut connection = server.connect();
    for _ in 0..3 {
        let answer = connection.request("GET", "/kept/long", &[("Accept-Encoding", "gzip")]);
        assert_eq!((answer.status, answer.must("Content-Encoding")), (200, "gzip"));
        let tag = answer.must("ETag").to_owned();
        let fields = [("Accept-Encoding", "gzip"), ("If-None-Match", &*tag)];
        assert_eq!(connection.request("GET", "/kept/long", &fields).status, 304);
    }
    tree.replace("site/kept/long.html", "short");
    eventually("the new file", || {
        (connection.get("/kept/long").text() == "short").then_some(())
    });
    // A file with the path itself comes before the one that was tried.
    tree.write("site/kept/long", "itself");
    eventually("the file before it", || {
        (connection.get("/kept/long").text() == "itself").then_some(())
    });
}

on_each_back_end!(
    files_are_tried_in_their_order,
    a_tried_file_is_compressed_and_changes
);
