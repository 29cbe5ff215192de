//! Which file answers which path, and how everything that is not a file is refused.

use crate::serve::on_each_back_end;
use crate::serve::process::{Launch, Server, Strategy};
use crate::serve::tree::Tree;
use std::path::Path;
use std::sync::OnceLock;

fn a_file_comes_with_what_caches_need(strategy: Strategy) {
    let tree = Tree::with(&[("hello.txt", "hello, weir\n")]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let answer = connection.get("/hello.txt");
    assert_eq!((answer.status, answer.version.as_str()), (200, "HTTP/1.1"));
    assert_eq!(answer.text(), "hello, weir\n");
    assert_eq!(answer.must("Content-Length"), "12");
    assert!(answer.must("Content-Type").starts_with("text/plain"));
    assert_eq!(answer.must("Accept-Ranges"), "bytes");
    assert!(answer.must("ETag").starts_with('"'), "a strong validator");
    assert!(answer.must("Last-Modified").ends_with(" GMT"));
    assert!(answer.must("Date").ends_with(" GMT"));
    assert!(!answer.closes());
    // The second answer comes from the cache and says the same.
    let again = connection.get("/hello.txt");
    assert_eq!(again.body, answer.body);
    assert_eq!(again.must("ETag"), answer.must("ETag"));
}

fn types_are_told_by_name(strategy: Strategy) {
    let tree = Tree::new();
    let cases = [
        ("a.html", "text/html"),
        ("a.css", "text/css"),
        ("a.js", "text/javascript"),
        ("a.json", "application/json"),
        ("a.svg", "image/svg+xml"),
        ("a.png", "image/png"),
        ("a.wasm", "application/wasm"),
        ("a.pdf", "application/pdf"),
        ("a.unheard-of", "application/octet-stream"),
        ("noextension", "application/octet-stream"),
    ];
    for (name, _) in cases {
        tree.write(name, "x");
    }
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    for (name, wanted) in cases {
        let answer = connection.get(&format!("/{name}"));
        assert_eq!(answer.status, 200, "{name}");
        let said = answer.must("Content-Type");
        assert!(
            said.split(';').next() == Some(wanted),
            "{name} is {said}, not {wanted}"
        );
    }
}

fn names_are_percent_decoded_once(strategy: Strategy) {
    let tree = Tree::with(&[
        ("a b.txt", "space"),
        ("\u{fc}.txt", "umlaut"),
        ("100%.txt", "percent"),
        ("%41.txt", "literal"),
        ("q?.txt", "question"),
    ]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    for (path, body) in [
        ("/a%20b.txt", "space"),
        ("/%C3%BC.txt", "umlaut"),
        ("/%c3%bc.txt", "umlaut"),
        ("/100%25.txt", "percent"),
        ("/%2541.txt", "literal"),
        ("/q%3F.txt", "question"),
        ("/%61%20b.txt?query=ignored", "space"),
    ] {
        let answer = connection.get(path);
        assert_eq!((answer.status, answer.text().as_str()), (200, body), "{path}");
    }
    assert_eq!(connection.get("/%41.txt").status, 404, "it names A.txt");
}

fn an_index_answers_for_its_directory(strategy: Strategy) {
    let tree = Tree::with(&[
        ("index.html", "<p>root"),
        ("docs/index.html", "<p>docs"),
        ("docs/start.htm", "<p>start"),
    ]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    assert_eq!(connection.get("/").text(), "<p>root");
    assert_eq!(connection.get("/docs/").text(), "<p>docs");
    let other = Launch::new(strategy)
        .root(tree.path())
        .args(["--index", "start.htm", "--index", "index.html"])
        .start();
    let mut connection = other.connect();
    assert_eq!(
        connection.get("/docs/").text(),
        "<p>start",
        "the first name that exists"
    );
    assert_eq!(connection.get("/").text(), "<p>root");
}

fn a_directory_is_redirected_to_its_slash(strategy: Strategy) {
    let tree = Tree::with(&[("docs/index.html", "<p>docs"), ("a b/index.html", "<p>space")]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let answer = connection.get("/docs");
    assert_eq!((answer.status, answer.must("Location")), (301, "/docs/"));
    let answer = connection.get("/docs?page=2&x=%20");
    assert_eq!(
        (answer.status, answer.must("Location")),
        (301, "/docs/?page=2&x=%20")
    );
    let answer = connection.get("/docs?q=\"<b>\"");
    assert_eq!(answer.must("Location"), "/docs/?q=%22%3Cb%3E%22", "never markup");
    let answer = connection.get("/a%20b");
    assert_eq!((answer.status, answer.must("Location")), (301, "/a%20b/"));
    // A location that opens with two slashes would name another host.
    for path in [
        "//docs",
        "//docs?x",
        "///docs",
        "/%2Fdocs",
        "//evil.test/%2e%2e/docs",
    ] {
        let answer = connection.get(path);
        if let Some(location) = answer.field("Location") {
            assert!(
                location.starts_with('/') && !location.starts_with("//"),
                "{path} -> {location}"
            );
        }
    }
}

fn what_is_not_there_is_404(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    for path in ["/b.txt", "/a.txt/", "/a.txt/b", "/no/such/folder/"] {
        let answer = connection.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(!answer.body.is_empty(), "a person sees something");
        assert!(!answer.closes(), "a missing file is no reason to close");
    }
    let answer = connection.request("HEAD", "/b.txt", &[]);
    assert_eq!(answer.status, 404);
    assert_eq!(connection.get("/a.txt").text(), "a");
}

fn a_directory_without_index_is_listed_only_when_asked(strategy: Strategy) {
    let tree = Tree::with(&[
        ("music/b side.ogg", "12345"),
        ("music/<script>.txt", "x"),
        ("music/.secret", "x"),
        ("music/inner/x", "x"),
    ]);
    let server = Server::of(strategy, tree.path());
    assert_eq!(server.connect().get("/music/").status, 403);
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--listing"])
        .start();
    let mut connection = server.connect();
    let answer = connection.get("/music/");
    let text = answer.text();
    assert_eq!(answer.status, 200);
    assert!(answer.must("Content-Type").starts_with("text/html"));
    assert!(
        text.contains("b%20side.ogg") && text.contains("b side.ogg"),
        "{text}"
    );
    assert!(text.contains("inner/"), "{text}");
    assert!(!text.contains("<script>"), "names are escaped: {text}");
    assert!(!text.contains(".secret"), "hidden names stay hidden");
    let answer = connection.request("GET", "/music/", &[("Accept", "application/json")]);
    assert!(answer.must("Content-Type").starts_with("application/json"));
    let value: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert!(value.to_string().contains("b side.ogg"), "{value}");
    assert!(
        answer.must("Vary").to_ascii_lowercase().contains("accept"),
        "caches must know"
    );
}

fn hidden_names_are_not_served(strategy: Strategy) {
    let tree = Tree::with(&[
        (".env", "secret"),
        (".git/config", "secret"),
        (".well-known/security.txt", "Contact: x"),
        ("a/.hidden/b.txt", "secret"),
    ]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    for path in ["/.env", "/%2eenv", "/.git/config", "/a/.hidden/b.txt"] {
        assert_eq!(connection.get(path).status, 404, "{path}");
    }
    assert_eq!(connection.get("/.well-known/security.txt").text(), "Contact: x");
    let server = Launch::new(strategy).root(tree.path()).args(["--hidden"]).start();
    assert_eq!(server.connect().get("/.env").text(), "secret");
}

fn methods_are_known_allowed_or_neither(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "content of a")]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let get = connection.get("/a.txt");
    let head = connection.request("HEAD", "/a.txt", &[]);
    assert_eq!(head.status, 200);
    for name in [
        "Content-Length",
        "Content-Type",
        "ETag",
        "Last-Modified",
        "Accept-Ranges",
    ] {
        assert_eq!(head.field(name), get.field(name), "{name}");
    }
    for target in ["/a.txt", "*"] {
        let options = connection.request("OPTIONS", target, &[]);
        assert_eq!(options.status, 204, "{target}");
        let allow = options.must("Allow");
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert!(allow.split(", ").any(|known| known == method), "{allow}");
        }
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let answer = server
            .connect()
            .request(method, "/a.txt", &[("Content-Length", "0")]);
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.must("Allow").contains("GET"), "{method}");
    }
    let mut connection = server.connect();
    assert_eq!(connection.request("BREW", "/a.txt", &[]).status, 501);
    assert_eq!(
        server.connect().request("get", "/a.txt", &[]).status,
        501,
        "methods have a case"
    );
}

fn error_pages_keep_the_status(strategy: Strategy) {
    let tree = Tree::with(&[
        ("a.txt", "a"),
        ("oops.html", "<p>lost?"),
        ("other.html", "<p>other"),
    ]);
    let server = Launch::new(strategy)
        .root(tree.path())
        .args([
            "--error-page",
            "404=/oops.html",
            "--error-page",
            "4xx=/other.html",
        ])
        .start();
    let mut connection = server.connect();
    let answer = connection.get("/missing");
    assert_eq!((answer.status, answer.text().as_str()), (404, "<p>lost?"));
    assert!(answer.must("Content-Type").starts_with("text/html"));
    assert!(
        answer.field("ETag").is_none(),
        "a validator would let a cache keep an error as a page"
    );
    assert_eq!(connection.request("HEAD", "/missing", &[]).status, 404);
    // Conditions and ranges are about the thing asked for, not about the page that says it is missing.
    let answer = connection.request(
        "GET",
        "/missing",
        &[("Range", "bytes=0-0"), ("If-None-Match", "*")],
    );
    assert_eq!((answer.status, answer.text().as_str()), (404, "<p>lost?"));
    assert_eq!(connection.get("/oops.html").status, 200);
    let answer = connection.request("POST", "/a.txt", &[("Content-Length", "0")]);
    assert_eq!((answer.status, answer.text().as_str()), (405, "<p>other"));
    assert!(answer.must("Allow").contains("GET"));
}

fn an_application_answers_for_its_routes(strategy: Strategy) {
    let tree = Tree::with(&[("index.html", "<p>app"), ("app.js", "run()")]);
    let server = Launch::new(strategy).root(tree.path()).args(["--spa"]).start();
    let mut connection = server.connect();
    let browser = [("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let answer = connection.request("GET", "/users/7", &browser);
    assert_eq!((answer.status, answer.text().as_str()), (200, "<p>app"));
    assert_eq!(connection.request("GET", "/app.js", &browser).text(), "run()");
    let answer = connection.request("GET", "/lost.png", &[("Accept", "image/avif,image/png")]);
    assert_eq!(answer.status, 404, "an image is not navigated to");
}

fn configured_fields_are_added(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = Launch::new(strategy)
        .root(tree.path())
        .args([
            "--header",
            "X-Frame-Options: DENY",
            "--header",
            "Cache-Control: max-age=60",
        ])
        .start();
    let mut connection = server.connect();
    let answer = connection.get("/a.txt");
    assert_eq!(answer.must("X-Frame-Options"), "DENY");
    assert_eq!(answer.must("Cache-Control"), "max-age=60");
    let etag = answer.must("ETag").to_owned();
    let answer = connection.request("GET", "/a.txt", &[("If-None-Match", &etag)]);
    assert_eq!((answer.status, answer.must("Cache-Control")), (304, "max-age=60"));
}

fn the_embedded_site_is_whole(strategy: Strategy) {
    let server = Launch::new(strategy).start();
    let mut connection = server.connect();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo");
    let mut folders = vec![demo.clone()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("demo/") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path
                .strip_prefix(&demo)
                .expect("below demo/")
                .display()
                .to_string();
            let answer = connection.get(&format!("/{name}"));
            assert_eq!(answer.status, 200, "/{name}");
            assert!(
                answer.body == std::fs::read(&path).expect("a file of demo/"),
                "/{name} differs"
            );
            seen += 1;
        }
    }
    assert!(seen > 10);
    assert_eq!(connection.get("/").body, connection.get("/index.html").body);
    let answer = connection.get("/no-such-page");
    assert_eq!(answer.status, 404);
    assert!(answer.text().contains("Page not found"), "its own error page");
}

fn a_large_file_arrives_as_it_is(strategy: Strategy) {
    let tree = Tree::new();
    let size = 100 << 20;
    let content = noise(size);
    tree.write("large.bin", &content);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let answer = connection.get("/large.bin");
    assert_eq!(answer.must("Content-Length"), size.to_string());
    assert!(answer.body == content, "100 MiB differ");
    let answer = connection.request("GET", "/large.bin", &[("Range", "bytes=70000001-99999999")]);
    assert_eq!(answer.status, 206);
    assert!(answer.body == content[70_000_001..=99_999_999], "a part differs");
    assert_eq!(connection.get("/large.bin").body.len(), size, "and once more");
}

/// Bytes in which every place is different from its neighborhood.
pub(crate) fn noise(size: usize) -> Vec<u8> {
    /// Those of the largest file: made once, because that takes a second.
    static ALL: OnceLock<Vec<u8>> = OnceLock::new();
    const LARGE: usize = 1 << 20;
    const LARGEST: usize = 100 << 20;
    if (LARGE..=LARGEST).contains(&size) {
        return ALL.get_or_init(|| generate(LARGEST))[..size].to_vec();
    }
    generate(size)
}

fn generate(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

on_each_back_end!(
    a_file_comes_with_what_caches_need,
    types_are_told_by_name,
    names_are_percent_decoded_once,
    an_index_answers_for_its_directory,
    a_directory_is_redirected_to_its_slash,
    what_is_not_there_is_404,
    a_directory_without_index_is_listed_only_when_asked,
    hidden_names_are_not_served,
    methods_are_known_allowed_or_neither,
    error_pages_keep_the_status,
    an_application_answers_for_its_routes,
    configured_fields_are_added,
    the_embedded_site_is_whole,
    a_large_file_arrives_as_it_is,
);
