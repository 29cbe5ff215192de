//! Requests and their replies, without sessions and sockets.

use super::Settings;
use super::conversation::reply_to;
use super::desk::Desk;
use super::reply::{Content, Reply};
use crate::config::Config;
use runtime::fs::WriteFolder;
use std::fs;
use std::path::Path;

struct Rig {
    dir: tempfile::TempDir,
    desk: Desk,
}

fn rig(more: &str) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "root = '{}'\n[[uploads]]\npath = '/d%20v/'\nopen = true\nsync = false\n{more}",
        dir.path().display()
    );
    let config = Config::from_toml(&text, "weir.toml").unwrap();
    let settings = Settings::of(&config.uploads[0], &config).unwrap();
    let folder = WriteFolder::open(&settings.folder).unwrap();
    Rig {
        dir,
        desk: Desk::new(settings, folder),
    }
}

impl Rig {
    fn ask(&self, line: &str, fields: &str, body: &str) -> Reply {
        let request = format!("{line} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n{body}");
        reply_to(&self.desk, &mut request.as_bytes()).expect("a reply").0
    }

    fn status(&self, line: &str, fields: &str) -> u16 {
        self.ask(line, fields, "").status
    }

    fn put(&self, name: &str, content: &str, fields: &str) -> u16 {
        let fields = format!("Content-Length: {}\r\n{fields}", content.len());
        self.ask(&format!("PUT /d%20v/{name}"), &fields, content).status
    }

    fn names(&self, below: &str) -> Vec<String> {
        let found = fs::read_dir(self.dir.path().join(below)).unwrap();
        let mut names: Vec<String> = found
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[allow(clippy::disallowed_methods, reason = "a test looks at what is in files")]
fn content(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn text(reply: &Reply) -> &str {
    match &reply.content {
        Content::Text(_, text) => text,
        Content::Nothing | Content::File(..) => "",
    }
}

fn field<'r>(reply: &'r Reply, name: &str) -> Option<&'r str> {
    let found = reply.fields.iter().find(|(its, _)| *its == name);
    found.map(|(_, value)| value.as_str())
}

#[test]
fn paths_name_files_of_the_folder_only() {
    let rig = rig("");
    fs::create_dir(rig.dir.path().join("sub")).unwrap();
    for (path, status) in [
        ("/d%20v/a", 201),
        ("/%64%20v/sub/../b", 201),
        ("/d%20v/sub/c", 201),
        ("/d%20v/.well-known", 201),
        ("/d%20v/../a", 403),
        ("/d%20v/../../etc/passwd", 403),
        ("/d%20v/%2e%2e/x", 403),
        ("/other/a", 403),
        ("/d%20v", 403),
        ("/d%20v/a%2fb", 404),
        ("/d%20v/a%00", 400),
        ("/d%20v/%zz", 400),
        ("/d%20v/.hidden", 403),
        ("/d%20v/sub/.well-known", 403),
        ("/d%20v/.weir-upload-1-1", 403),
        ("/d%20v/", 405),
        ("/d%20v/sub/", 405),
        ("/d%20v/sub", 405),
        ("/d%20v/missing/a", 409),
        ("/d%20v/a/b", 409),
    ] {
        let got = rig.status(&format!("PUT {path}"), "Content-Length: 0\r\n");
        assert_eq!(got, status, "{path}");
    }
    assert_eq!(rig.names(""), [".well-known", "a", "b", "sub"]);
    assert_eq!(rig.names("sub"), ["c"]);
    let long = "x".repeat(256);
    assert_eq!(rig.put(&long, "", ""), 404);
}

#[test]
fn hidden_names_are_files_if_the_site_serves_them() {
    let rig = rig("");
    assert_eq!(rig.put(".a", "x", ""), 403);
    let text = format!("root = '{}'\nhidden = true\n", rig.dir.path().display());
    let config = format!("{text}[[uploads]]\npath = '/d%20v/'\nopen = true");
    let config = Config::from_toml(&config, "weir.toml").unwrap();
    let settings = Settings::of(&config.uploads[0], &config).unwrap();
    let folder = WriteFolder::open(&settings.folder).unwrap();
    let rig = Rig {
        desk: Desk::new(settings, folder),
        ..rig
    };
    assert_eq!(
        (rig.put(".a", "x", ""), rig.put(".weir-upload-1-1", "x", "")),
        (201, 403)
    );
}

#[test]
fn preconditions_hold_before_a_change() {
    let rig = rig("");
    assert_eq!(rig.put("a", "one", "If-Match: *\r\n"), 412);
    assert_eq!(rig.put("a", "one", "If-None-Match: *\r\n"), 201);
    assert_eq!(rig.put("a", "two", "If-None-Match: *\r\n"), 412);
    let stored = rig.ask("PUT /d%20v/a", "Content-Length: 3\r\nIf-Match: *\r\n", "two");
    let tag = field(&stored, "ETag").unwrap().to_owned();
    assert_eq!(stored.status, 204);
    let shown = rig.ask("GET /d%20v/a", "", "");
    assert_eq!((shown.status, field(&shown, "ETag")), (200, Some(&*tag)));
    assert_eq!(
        rig.status("GET /d%20v/a", &format!("If-None-Match: {tag}\r\n")),
        304
    );
    assert_eq!(rig.put("a", "three", &format!("If-Match: {tag}\r\n")), 204);
    assert_eq!(rig.put("a", "four", &format!("If-Match: {tag}\r\n")), 412);
    assert_eq!(
        rig.status("DELETE /d%20v/a", &format!("If-Match: {tag}\r\n")),
        412
    );
    assert_eq!(rig.status("DELETE /d%20v/a", "If: (<urn:uuid:1>)\r\n"), 412);
    assert_eq!(rig.put("a", "x", "Content-Range: bytes 0-0/3\r\n"), 400);
    assert_eq!(content(&rig.dir.path().join("a")), "three");
    assert_eq!(rig.status("DELETE /d%20v/a", "If-Match: *\r\n"), 204);
    assert_eq!(rig.status("DELETE /d%20v/a", ""), 404);
}

#[test]
fn parts_of_a_file_are_shown() {
    let rig = rig("");
    rig.put("a.txt", "0123456789", "");
    let part = rig.ask("GET /d%20v/a.txt", "Range: bytes=2-4\r\n", "");
    assert_eq!(
        (part.status, field(&part, "Content-Range")),
        (206, Some("bytes 2-4/10"))
    );
    let Content::File(file, length, kind) = part.content else {
        panic!("no file");
    };
    let mut got = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(file, length), &mut got).unwrap();
    assert_eq!(
        (got.as_str(), kind.as_str()),
        ("234", "text/plain; charset=utf-8")
    );
    assert_eq!(rig.status("GET /d%20v/a.txt", "Range: bytes=10-\r\n"), 416);
    assert_eq!(rig.status("GET /d%20v/", ""), 405);
}

#[test]
fn files_and_folders_are_made_copied_moved_and_removed() {
    let rig = rig("");
    let to = |path: &str| format!("Destination: http://a.test/d%20v/{path}\r\n");
    let steps = [
        ("MKCOL /d%20v/one", String::new(), 201),
        ("MKCOL /d%20v/one/", String::new(), 405),
        ("MKCOL /d%20v/none/two", String::new(), 409),
        ("PUT /d%20v/one/a", "Content-Length: 0\r\n".to_owned(), 201),
        ("COPY /d%20v/one", to("two"), 201),
        ("COPY /d%20v/one", to("two") + "Overwrite: F\r\n", 412),
        ("COPY /d%20v/one", to("two/"), 204),
        ("COPY /d%20v/one", to("flat") + "Depth: 0\r\n", 201),
        ("COPY /d%20v/one", to("x") + "Depth: 1\r\n", 400),
        ("COPY /d%20v/one", to("none/x"), 409),
        ("COPY /d%20v/none", to("x"), 404),
        ("COPY /d%20v/one", to("one"), 403),
        ("COPY /d%20v/one", to("one/in"), 403),
        ("MOVE /d%20v/one/a", to("one"), 403),
        ("COPY /d%20v/one", String::new(), 400),
        (
            "COPY /d%20v/one",
            "Destination: http://b.test/d%20v/x\r\n".to_owned(),
            502,
        ),
        (
            "COPY /d%20v/one",
            "Destination: https://A.test:443/d%20v/x\r\n".to_owned(),
            201,
        ),
        ("COPY /d%20v/one", "Destination: /other/x\r\n".to_owned(), 403),
        ("COPY /d%20v/one", "Destination: /d%20v/x?y\r\n".to_owned(), 400),
        ("MOVE /d%20v/one/a", to("b"), 201),
        ("MOVE /d%20v/b", to("two/a") + "Overwrite: F\r\n", 412),
        ("MOVE /d%20v/b", to("two/a"), 204),
        ("MOVE /d%20v/two", to("flat"), 204),
        ("MOVE /d%20v/flat", to("x") + "Depth: 0\r\n", 400),
        ("DELETE /d%20v/flat", "Depth: 0\r\n".to_owned(), 400),
        ("DELETE /d%20v/flat/a/", String::new(), 404),
        ("DELETE /d%20v/flat", String::new(), 204),
        ("DELETE /d%20v/", String::new(), 403),
        ("LOCK /d%20v/x", String::new(), 405),
        ("POST /d%20v/x", "Content-Length: 0\r\n".to_owned(), 405),
    ];
    for (line, fields, status) in steps {
        let reply = rig.ask(line, &fields, "");
        assert_eq!(reply.status, status, "{line} {fields}: {}", text(&reply));
    }
    assert_eq!(rig.names(""), ["one", "x"]);
    assert_eq!((rig.names("one"), rig.names("x")), (vec![], vec!["a".to_owned()]));
    let made = rig.ask("MKCOL /d%20v/y", "Content-Length: 1\r\n", "x");
    assert_eq!(made.status, 415);
    let options = rig.ask("OPTIONS /d%20v/", "", "");
    assert_eq!((options.status, field(&options, "DAV")), (200, Some("1")));
}

#[test]
fn properties_are_told_in_xml() {
    let rig = rig("quota = '100'");
    rig.put("a&b.txt", "12345", "X-OC-Mtime: 1000000000.5\r\n");
    rig.status("MKCOL /d%20v/sub", "");
    fs::create_dir(rig.dir.path().join(".git")).unwrap();
    let find = |path: &str, depth: &str, body: &str| {
        let fields = format!("Depth: {depth}\r\nContent-Length: {}\r\n", body.len());
        rig.ask(&format!("PROPFIND {path}"), &fields, body)
    };
    let all = find("/d%20v/", "1", "");
    assert_eq!(all.status, 207);
    let document = roxmltree::Document::parse(text(&all)).unwrap();
    let of = |name: &str| {
        let found = document
            .descendants()
            .filter(|node| node.has_tag_name(("DAV:", name)));
        found
            .map(|node| node.text().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("href"), ["/d%20v/", "/d%20v/a&b.txt", "/d%20v/sub/"]);
    assert_eq!(of("displayname"), ["", "a&b.txt", "sub"]);
    assert_eq!(of("getcontentlength"), ["5"]);
    assert_eq!(of("getlastmodified")[1], "Sun, 09 Sep 2001 01:46:40 GMT");
    assert_eq!(of("collection").len(), 2);
    assert!(of("quota-used-bytes").is_empty());
    let body = "<p:propfind xmlns:p='DAV:'><p:prop><p:quota-used-bytes/><p:quota-available-bytes/><x xmlns='urn:y'/></p:prop>\
                </p:propfind>";
    let quota = find("/d%20v/", "0", body);
    let document = roxmltree::Document::parse(text(&quota)).unwrap();
    let states = document
        .descendants()
        .filter(|node| node.has_tag_name(("DAV:", "propstat")));
    let states: Vec<String> = states
        .map(|state| {
            let texts = state.descendants().filter(|node| node.is_text());
            texts.filter_map(|node| node.text()).collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(states[0].split(' ').next(), Some("5"), "{states:?}");
    assert!(
        states[0].contains("95 ") && states[0].ends_with("200 OK"),
        "{states:?}"
    );
    assert_eq!(states[1], "HTTP/1.1 404 Not Found");
    let names = find(
        "/d%20v/sub/",
        "0",
        "<propfind xmlns='DAV:'><propname/></propfind>",
    );
    assert!(text(&names).contains("<D:resourcetype/>") && !text(&names).contains("getcontentlength"));
    for (path, depth, body, status) in [
        ("/d%20v/", "infinity", "", 403),
        ("/d%20v/a&b.txt", "infinity", "", 207),
        ("/d%20v/", "2", "", 400),
        ("/d%20v/", "1", "<x", 400),
        ("/d%20v/none", "0", "", 404),
        ("/d%20v/a&b.txt/", "0", "", 404),
        ("/d%20v/a&b.txt/x", "0", "", 404),
    ] {
        assert_eq!(find(path, depth, body).status, status, "{path} {depth} {body}");
    }
    assert!(text(&find("/d%20v/", "infinity", "")).contains("propfind-finite-depth"));
    let long = " ".repeat(super::properties::BODY_MAX + 1);
    assert_eq!(find("/d%20v/", "0", &long).status, 413);
    assert_eq!(find("/d%20v/", "0", &long[1..]).status, 207);
}

#[test]
fn the_modification_time_can_be_set() {
    let rig = rig("");
    assert_eq!(rig.put("a", "x", "X-OC-Mtime: soon\r\n"), 400);
    rig.put("a", "x", "");
    let patch = |inner: &str| {
        let body = format!(
            "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop>{inner}</D:prop></D:set></D:propertyupdate>"
        );
        let fields = format!("Content-Length: {}\r\n", body.len());
        let reply = rig.ask("PROPPATCH /d%20v/a", &fields, &body);
        assert_eq!(reply.status, 207);
        text(&reply).to_owned()
    };
    let shown = |rig: &Rig| {
        field(&rig.ask("GET /d%20v/a", "", ""), "Last-Modified")
            .unwrap()
            .to_owned()
    };
    assert!(patch("<D:lastmodified>1000000000</D:lastmodified>").contains("200 OK"));
    assert_eq!(shown(&rig), "Sun, 09 Sep 2001 01:46:40 GMT");
    let refused = patch("<D:lastmodified>1</D:lastmodified><x xmlns='urn:y'>1</x>");
    assert!(
        refused.contains("424 Failed Dependency") && refused.contains("403 Forbidden"),
        "{refused}"
    );
    assert_eq!(shown(&rig), "Sun, 09 Sep 2001 01:46:40 GMT", "all or nothing");
}

#[test]
fn the_quota_is_reached_and_never_exceeded() {
    let rig = rig("quota = '10'\nlargest = '8'");
    assert_eq!((rig.put("a", "12345678", ""), rig.put("b", "12", "")), (201, 201));
    assert_eq!((rig.put("c", "1", ""), rig.put("c", "", "")), (507, 201));
    // Refused before a body: there is none to read.
    assert_eq!(rig.status("PUT /d%20v/c", "Content-Length: 7\r\n"), 507);
    let chunked = |name: &str, body: &str| {
        rig.ask(
            &format!("PUT /d%20v/{name}"),
            "Transfer-Encoding: chunked\r\n",
            body,
        )
        .status
    };
    assert_eq!(chunked("c", "1\r\nx\r\n0\r\n\r\n"), 507);
    assert_eq!(rig.status("COPY /d%20v/b", "Destination: /d%20v/d\r\n"), 507);
    assert_eq!(rig.names(""), ["a", "b", "c"]);
    // In place of another file there is as much room as that had.
    assert_eq!(chunked("a", "4\r\n1234\r\n4\r\n5678\r\n0\r\n\r\n"), 204);
    assert_eq!(chunked("a", "4\r\n1234\r\n5\r\n56789\r\n0\r\n\r\n"), 507);
    assert_eq!(rig.status("DELETE /d%20v/b", ""), 204);
    assert_eq!(chunked("a", "4\r\n1234\r\n5\r\n56789\r\n0\r\n\r\n"), 413);
    assert_eq!(chunked("c", "2\r\n12\r\n0\r\n\r\n"), 204);
    assert_eq!(rig.status("DELETE /d%20v/a", ""), 204);
    assert_eq!(rig.status("COPY /d%20v/c", "Destination: /d%20v/d\r\n"), 201);
    // Files that others remove make room at once.
    fs::remove_file(rig.dir.path().join("c")).unwrap();
    assert_eq!(rig.put("e", "12345678", ""), 201);
    assert_eq!(rig.desk.counts().full, 5);
}

#[test]
fn a_body_that_ends_early_leaves_nothing() {
    let rig = rig("");
    rig.put("a", "old", "");
    for (fields, body) in [
        ("Content-Length: 9\r\n", "new"),
        ("Transfer-Encoding: chunked\r\n", "3\r\nnew\r\n"),
        ("Transfer-Encoding: chunked\r\n", "3\r\nnew\r\nx\r\n"),
    ] {
        assert_eq!(rig.ask("PUT /d%20v/a", fields, body).status, 400, "{fields}");
        assert_eq!(rig.names(""), ["a"]);
        assert_eq!(content(&rig.dir.path().join("a")), "old");
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let rig = rig("quota = 4");
    assert_eq!(rig.put("a", "1234", ""), 201);
    let to = "Destination: http://a.test/elsewhere\r\n";
    let long = format!("PUT /d%20v/{}", "x".repeat(256));
    for (line, fields, status, part) in [
        ("DELETE /d%20v/", "", 403, "the folder of the rule itself"),
        (
            "MOVE /d%20v/a",
            to,
            403,
            "`Destination: http://a.test/elsewhere`: This path is outside",
        ),
        (
            "PUT /d%20v/b",
            "Content-Length: 1\r\n",
            507,
            "the quota of the folder is full",
        ),
        (&*long, "Content-Length: 0\r\n", 404, "at most 255 bytes"),
    ] {
        let reply = rig.ask(line, fields, "");
        assert_eq!(reply.status, status, "{line}");
        assert!(text(&reply).contains(part), "{line}: {}", text(&reply));
    }
    let full = Reply::refused(&std::io::Error::from_raw_os_error(28));
    assert!(text(&full).contains("the disk is full"), "{}", text(&full));
}
