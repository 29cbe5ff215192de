//! Conditions (RFC 9110 section 13), ranges (section 14) and content codings (section 12.5.3), as a
//! cache or a browser meets them.

use crate::serve::files::noise;
use crate::serve::on_each_back_end;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tree::Tree;
use crate::serve::wire::{Response, find};
use std::io::Write;
use std::process::{Command, Stdio};

const TEXT: &str = "0123456789abcdefghijklmnopqrstuvwxyz";

fn unchanged_is_304(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", TEXT)]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let first = connection.get("/a.txt");
    let (etag, modified) = (
        first.must("ETag").to_owned(),
        first.must("Last-Modified").to_owned(),
    );
    let listed = format!("\"other\", {etag}");
    let weak = format!("W/{etag}");
    for (name, value) in [
        ("If-None-Match", etag.as_str()),
        ("If-None-Match", "*"),
        ("If-None-Match", &listed),
        ("If-None-Match", &weak),
        ("If-Modified-Since", &modified),
        ("If-Modified-Since", "Sun, 01 Jan 2040 00:00:00 GMT"),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = connection.request(method, "/a.txt", &[(name, value)]);
            assert_eq!(answer.status, 304, "{method} {name}: {value}");
            assert!(answer.body.is_empty());
            assert_eq!(answer.must("ETag"), etag, "a 304 carries the validator");
            assert!(answer.field("Date").is_some());
        }
    }
    for (name, value) in [
        ("If-None-Match", "\"other\""),
        ("If-None-Match", "\"\""),
        ("If-Modified-Since", "Sat, 01 Jan 2000 00:00:00 GMT"),
        ("If-Modified-Since", "no date"),
    ] {
        let answer = connection.request("GET", "/a.txt", &[(name, value)]);
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, TEXT),
            "{name}: {value}"
        );
    }
    // If-None-Match decides alone where both stand.
    let both = [
        ("If-None-Match", "\"other\""),
        ("If-Modified-Since", modified.as_str()),
    ];
    assert_eq!(connection.request("GET", "/a.txt", &both).status, 200);
}

fn a_failed_precondition_is_412(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", TEXT)]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let first = connection.get("/a.txt");
    let (etag, modified) = (
        first.must("ETag").to_owned(),
        first.must("Last-Modified").to_owned(),
    );
    let weak = format!("W/{etag}");
    for (name, value, status) in [
        ("If-Match", etag.as_str(), 200),
        ("If-Match", "*", 200),
        ("If-Match", "\"other\"", 412),
        ("If-Match", &weak, 412),
        ("If-Unmodified-Since", &modified, 200),
        ("If-Unmodified-Since", "Sat, 01 Jan 2000 00:00:00 GMT", 412),
    ] {
        let answer = connection.request("GET", "/a.txt", &[(name, value)]);
        assert_eq!(answer.status, status, "{name}: {value}");
    }
}

fn a_part_is_206(strategy: Strategy) {
    // One small enough to be held in memory, one that is not.
    let tree = Tree::with(&[("a.txt", TEXT)]);
    let large = noise(3 << 20);
    tree.write("large.bin", &large);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    for (name, content) in [("/a.txt", TEXT.as_bytes()), ("/large.bin", &large)] {
        let size = content.len();
        for (range, from, to) in [
            ("bytes=0-0".to_owned(), 0, 0),
            ("bytes=5-9".to_owned(), 5, 9),
            ("bytes=30-".to_owned(), 30, size - 1),
            ("bytes=-5".to_owned(), size - 5, size - 1),
            (format!("bytes={}-", size - 1), size - 1, size - 1),
            (format!("bytes=0-{}", size * 2), 0, size - 1),
            (format!("bytes=-{}", size * 2), 0, size - 1),
        ] {
            let answer = connection.request("GET", name, &[("Range", &range)]);
            assert_eq!(answer.status, 206, "{name} {range}");
            assert_eq!(
                answer.must("Content-Range"),
                format!("bytes {from}-{to}/{size}"),
                "{range}"
            );
            assert!(answer.body == content[from..=to], "{name} {range}");
        }
        for range in [
            format!("bytes={size}-"),
            format!("bytes={}-{}", size + 5, size + 9),
            "bytes=-0".to_owned(),
        ] {
            let answer = connection.request("GET", name, &[("Range", &range)]);
            assert_eq!(answer.status, 416, "{range}");
            assert_eq!(answer.must("Content-Range"), format!("bytes */{size}"));
        }
        // What is no range, or not of bytes, is ignored (section 14.2); so is a range of a HEAD.
        for range in ["bytes=9-5", "bytes=a-b", "lines=1-2", "bytes=", "bytes 0-1"] {
            let answer = connection.request("GET", name, &[("Range", range)]);
            assert_eq!(answer.status, 200, "{range}");
        }
        let answer = connection.request("HEAD", name, &[("Range", "bytes=0-0")]);
        assert_eq!(
            (answer.status, answer.must("Content-Length")),
            (200, size.to_string().as_str())
        );
    }
}

fn several_parts_are_multipart(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", TEXT)]);
    let large = noise(3 << 20);
    tree.write("large.bin", &large);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let answer = connection.request("GET", "/a.txt", &[("Range", "bytes=0-2,10-12,-3")]);
    assert_eq!(answer.status, 206);
    assert!(answer.field("Content-Range").is_none(), "only in the parts");
    let parts = multipart(&answer);
    let wanted = [
        ("bytes 0-2/36", "012"),
        ("bytes 10-12/36", "abc"),
        ("bytes 33-35/36", "xyz"),
    ];
    assert_eq!(parts.len(), 3);
    for ((range, body), (wanted_range, wanted_body)) in parts.iter().zip(wanted) {
        assert_eq!(
            (range.as_str(), body.as_slice()),
            (wanted_range, wanted_body.as_bytes())
        );
    }
    let answer = connection.request("GET", "/large.bin", &[("Range", "bytes=0-99999,2000000-2100000")]);
    let parts = multipart(&answer);
    assert!(parts[0].1 == large[..100_000] && parts[1].1 == large[2_000_000..=2_100_000]);
    // One that can be satisfied among several that cannot.
    let answer = connection.request("GET", "/a.txt", &[("Range", "bytes=90-99,0-1")]);
    assert_eq!(answer.status, 206);
    assert_eq!(connection.get("/a.txt").text(), TEXT, "the connection is in step");
}

fn too_many_parts_are_the_whole(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", TEXT)]);
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--max-ranges", "3"])
        .start();
    let mut connection = server.connect();
    let many = format!(
        "bytes={}",
        (0..18)
            .map(|i| format!("{0}-{0}", i * 2))
            .collect::<Vec<_>>()
            .join(",")
    );
    let answer = connection.request("GET", "/a.txt", &[("Range", &many)]);
    assert_eq!((answer.status, answer.text().as_str()), (200, TEXT));
    let overlapping = "bytes=0-,0-,0-";
    let answer = connection.request("GET", "/a.txt", &[("Range", overlapping)]);
    assert!(
        answer.body.len() <= TEXT.len() + 1024,
        "no amplification: {}",
        answer.body.len()
    );
}

fn if_range_decides_between_part_and_whole(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", TEXT)]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let etag = connection.get("/a.txt").must("ETag").to_owned();
    let weak = format!("W/{etag}");
    for (value, status) in [
        (etag.as_str(), 206),
        ("\"other\"", 200),
        (&weak, 200),
        ("Sat, 01 Jan 2000 00:00:00 GMT", 200),
    ] {
        let answer = connection.request("GET", "/a.txt", &[("Range", "bytes=0-3"), ("If-Range", value)]);
        assert_eq!(answer.status, status, "{value}");
    }
}

fn siblings_are_served_in_place_of_a_file(strategy: Strategy) {
    let tree = Tree::with(&[
        ("page.html", "<p>identity, and longer than the others"),
        ("page.html.gz", "as gzip"),
        ("page.html.br", "as br"),
        ("page.html.zst", "as zstd"),
        ("only.css", "a{}"),
        ("only.css.gz", "gz"),
    ]);
    let server = Server::of(strategy, tree.path());
    let mut connection = server.connect();
    let mut etags = Vec::new();
    for (accept, coding, body) in [
        ("gzip", Some("gzip"), "as gzip"),
        ("br", Some("br"), "as br"),
        ("zstd", Some("zstd"), "as zstd"),
        ("identity", None, "<p>identity, and longer than the others"),
        ("gzip;q=0.5, br;q=0.9", Some("br"), "as br"),
        (
            "gzip;q=0, br;q=0, zstd;q=0",
            None,
            "<p>identity, and longer than the others",
        ),
        ("GZIP", Some("gzip"), "as gzip"),
    ] {
        let answer = connection.request("GET", "/page.html", &[("Accept-Encoding", accept)]);
        assert_eq!((answer.status, answer.text().as_str()), (200, body), "{accept}");
        assert_eq!(answer.field("Content-Encoding"), coding, "{accept}");
        assert!(
            answer
                .must("Vary")
                .to_ascii_lowercase()
                .contains("accept-encoding"),
            "{accept}"
        );
        assert!(answer.must("Content-Type").starts_with("text/html"), "{accept}");
        etags.push((coding, answer.must("ETag").to_owned()));
    }
    for (coding, etag) in &etags {
        for (other, other_etag) in &etags {
            assert_eq!(
                coding == other,
                etag == other_etag,
                "an entity tag is of one representation"
            );
        }
    }
    // Conditions and ranges are about the representation that is selected.
    let gzip = etags[0].1.clone();
    let fields = [("Accept-Encoding", "gzip"), ("If-None-Match", gzip.as_str())];
    assert_eq!(connection.request("GET", "/page.html", &fields).status, 304);
    let fields = [("Accept-Encoding", "br"), ("If-None-Match", gzip.as_str())];
    assert_eq!(connection.request("GET", "/page.html", &fields).status, 200);
    let answer = connection.request(
        "GET",
        "/page.html",
        &[("Accept-Encoding", "gzip"), ("Range", "bytes=3-6")],
    );
    assert_eq!((answer.status, answer.text().as_str()), (206, "gzip"));
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--precompressed=false", "--compress=false"])
        .start();
    let answer = server
        .connect()
        .request("GET", "/page.html", &[("Accept-Encoding", "gzip")]);
    assert_eq!(answer.field("Content-Encoding"), None);
}

fn some_paths_are_sent_uncompressed(strategy: Strategy) {
    let long = "Weirs regulate flows. ".repeat(200);
    let tree = Tree::with(&[
        ("site/long.txt", long.as_str()),
        ("site/api/long.txt", long.as_str()),
        ("site/api/made.js", "let plain = 1;"),
        ("site/api/made.js.br", "sibling"),
    ]);
    let configure = |except: &str| {
        let text = format!("root = 'site'\nlisting = true\nadapt = 'off'\ncompress-except = {except}\n");
        tree.write("weir.toml", text)
    };
    let file = configure("['/api/*', '*.csv']");
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), file.as_os_str()])
        .start();
    // Whether there is a coding, and whether a cache has to expect one.
    let coded = |path: &str| {
        let fields = [("Accept-Encoding", "gzip, br")];
        let answer = server.connect().request("GET", path, &fields);
        assert_eq!(answer.status, 200, "{path}");
        let vary = answer.field("Vary").unwrap_or_default();
        (
            answer.field("Content-Encoding").is_some(),
            vary.contains("Accept-Encoding"),
        )
    };
    // Processes keep a file, and what is made of it, only once it has not changed for a moment.
    eventually("a file in a coding", || {
        (coded("/long.txt") == (true, true)).then_some(())
    });
    for path in ["/api/long.txt", "/api/made.js", "/api/"] {
        assert_eq!(coded(path), (false, false), "{path}");
    }
    configure("'/api/long.*'");
    server.signal("HUP");
    eventually("a sibling", || {
        (coded("/api/made.js") == (true, true)).then_some(())
    });
    assert_eq!(coded("/api/long.txt"), (false, false));
}

/// A listing of many names is a large text, which is the same twice: in HTML and in JSON.
fn listings_are_compressed(strategy: Strategy) {
    let tree = Tree::new();
    for number in 0..400 {
        tree.write(&format!("many/a-file-with-a-name-{number}.txt"), "x");
    }
    // A busy machine must not spare any.
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--listing", "--adapt", "off"])
        .start();
    let mut connection = server.connect();
    for accept in ["text/html", "application/json"] {
        let plain = connection.request("GET", "/many/", &[("Accept", accept)]);
        for coding in ["gzip", "br", "zstd"] {
            let fields = [("Accept", accept), ("Accept-Encoding", coding)];
            let coded = connection.request("GET", "/many/", &fields);
            assert_eq!(coded.field("Content-Encoding"), Some(coding), "{accept}");
            assert!(
                coded.body.len() < plain.body.len() / 5,
                "{accept}, {coding}: {} of {} bytes",
                coded.body.len(),
                plain.body.len()
            );
            assert!(coded.must("Content-Type").starts_with(accept));
            for answer in [&plain, &coded] {
                assert_eq!(answer.must("Vary"), "Accept, Accept-Encoding");
            }
            if coding == "gzip" {
                assert_eq!(gunzip(&coded.body), plain.text());
            }
            let etag = coded.must("ETag").to_owned();
            assert_ne!(etag, plain.must("ETag"));
            let fields = [fields[0], fields[1], ("If-None-Match", etag.as_str())];
            assert_eq!(connection.request("GET", "/many/", &fields).status, 304);
        }
        let refused = [("Accept", accept), ("Accept-Encoding", "identity;q=0, compress")];
        let answer = connection.request("GET", "/many/", &refused);
        assert_eq!(answer.status, 406);
        assert_eq!(answer.must("Vary"), "Accept-Encoding, Accept");
    }
    tree.write("many/one-more.txt", "x");
    eventually("the listing follows", || {
        let fields = [("Accept-Encoding", "gzip")];
        let coded = connection.request("GET", "/many/", &fields);
        gunzip(&coded.body).contains("one-more.txt").then_some(())
    });
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--listing", "--compress=false"])
        .start();
    let answer = server
        .connect()
        .request("GET", "/many/", &[("Accept-Encoding", "gzip")]);
    assert_eq!(
        (answer.field("Content-Encoding"), answer.must("Vary")),
        (None, "Accept")
    );
}

fn text_is_compressed_on_first_use(strategy: Strategy) {
    let tree = Tree::new();
    let text = "The height over the crest tells how much is flowing. ".repeat(400);
    tree.write("long.txt", &text);
    tree.write("picture.png", &text);
    // A busy machine must not spare any.
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--adapt", "off"])
        .start();
    let mut connection = server.connect();
    if strategy.grows() {
        // These look at files instead of being told of changes, so one that was just written must settle
        // before anything made of it is kept.
        eventually("the file has settled", || {
            let answer = connection.request("GET", "/long.txt", &[("Accept-Encoding", "gzip")]);
            answer.field("Content-Encoding").map(drop)
        });
    }
    for coding in ["gzip", "br", "zstd"] {
        let first = connection.request("GET", "/long.txt", &[("Accept-Encoding", coding)]);
        assert_eq!(first.field("Content-Encoding"), Some(coding));
        assert!(
            first.body.len() < text.len() / 4,
            "{coding}: {} bytes",
            first.body.len()
        );
        assert!(
            first
                .must("Vary")
                .to_ascii_lowercase()
                .contains("accept-encoding")
        );
        let again = connection.request("GET", "/long.txt", &[("Accept-Encoding", coding)]);
        assert_eq!(
            (again.body == first.body, again.must("ETag")),
            (true, first.must("ETag"))
        );
        if coding == "gzip" {
            assert_eq!(gunzip(&first.body), text);
        }
    }
    assert_eq!(connection.get("/long.txt").text(), text);
    let answer = connection.request("GET", "/picture.png", &[("Accept-Encoding", "gzip, br, zstd")]);
    assert_eq!(
        answer.field("Content-Encoding"),
        None,
        "pictures are compressed already"
    );
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--compress=false"])
        .start();
    let answer = server
        .connect()
        .request("GET", "/long.txt", &[("Accept-Encoding", "gzip")]);
    assert_eq!(answer.field("Content-Encoding"), None);
}

/// Content-Range and body of each part of a multipart/byteranges response.
fn multipart(answer: &Response) -> Vec<(String, Vec<u8>)> {
    let kind = answer.must("Content-Type");
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap_or_else(|| panic!("{kind}"));
    let boundary = format!("--{}", boundary.trim_matches('"'));
    let mut rest = answer.body.as_slice();
    let mut parts = Vec::new();
    let first = find(rest, boundary.as_bytes()).expect("a boundary");
    assert!(first == 0 || first == 2, "nothing before the first boundary");
    rest = &rest[first..];
    loop {
        rest = rest.strip_prefix(boundary.as_bytes()).expect("a boundary");
        if rest.starts_with(b"--") {
            assert!(
                rest == b"--\r\n" || rest == b"--",
                "nothing after the last boundary"
            );
            return parts;
        }
        rest = rest.strip_prefix(b"\r\n").expect("the end of the boundary line");
        let end = find(rest, b"\r\n\r\n").expect("the end of a part's head");
        let head = String::from_utf8(rest[..end].to_vec()).expect("ASCII");
        let range = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Range: "))
            .unwrap_or_else(|| panic!("no Content-Range in {head}"))
            .to_owned();
        assert!(head.contains("Content-Type: "), "{head}");
        rest = &rest[end + 4..];
        let (from, to) = range["bytes ".len()..]
            .split('/')
            .next()
            .and_then(|span| span.split_once('-'))
            .expect("a range");
        let length = to.parse::<usize>().expect("a number") - from.parse::<usize>().expect("a number") + 1;
        parts.push((range, rest[..length].to_vec()));
        rest = rest[length..]
            .strip_prefix(b"\r\n")
            .expect("a line break after a part");
    }
}

/// What gzip(1) makes of these bytes.
fn gunzip(bytes: &[u8]) -> String {
    let mut child = Command::new("gzip")
        .args(["-d", "-c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gzip(1)");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(bytes)
        .expect("gzip reads");
    let output = child.wait_with_output().expect("gzip ends");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

on_each_back_end!(
    unchanged_is_304,
    a_failed_precondition_is_412,
    a_part_is_206,
    several_parts_are_multipart,
    too_many_parts_are_the_whole,
    if_range_decides_between_part_and_whole,
    siblings_are_served_in_place_of_a_file,
    some_paths_are_sent_uncompressed,
    text_is_compressed_on_first_use,
    listings_are_compressed,
);
