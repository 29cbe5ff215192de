//! Requests and their replies, without sessions and sockets.

use super::desk::Desk;
use super::reply::{Content, Reply};
use super::{Settings, Uploads};
use crate::config::Config;
use crate::local::reply_to;
use crate::site::{Lookup, Site, SiteConfig, Source, View};
use runtime::fs::WriteFolder;
use runtime::session::Job;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use units::{Instant, UnixTime};

struct Rig {
    dir: tempfile::TempDir,
    desk: Desk,
}

fn rig(more: &str) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let desk = desk(dir.path(), more);
    Rig { dir, desk }
}

fn desk(root: &Path, more: &str) -> Desk {
    let text = format!(
        "root = '{}'\n[[uploads]]\npath = '/d%20v/'\nopen = true\nsync = false\n{more}",
        root.display()
    );
    let config = Config::from_toml(&text, "weir.toml").unwrap();
    let settings = Settings::of(&config.uploads[0], &config).unwrap();
    let folder = WriteFolder::open(&settings.folder).unwrap();
    Desk::new(settings, folder, None)
}

/// The status of a request to store a file.
fn put(desk: &Desk, name: &str, content: &str) -> u16 {
    let length = content.len();
    let request =
        format!("PUT /d%20v/{name} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\n\r\n{content}");
    reply_to(&mut request.as_bytes(), |head, body| desk.answer(head, body))
        .expect("a reply")
        .0
        .status
}

impl Rig {
    fn ask(&self, line: &str, fields: &str, body: &str) -> Reply {
        let request = format!("{line} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n{body}");
        reply_to(&mut request.as_bytes(), |head, body| self.desk.answer(head, body))
            .expect("a reply")
            .0
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
        desk: Desk::new(settings, folder, None),
        ..rig
    };
    assert_eq!(
        (rig.put(".a", "x", ""), rig.put(".weir-upload-1-1", "x", "")),
        (201, 403)
    );
}

/// Events would come soon; without them, nothing else tells the site.
#[test]
fn roots_and_mounts_are_told_of_a_change_before_the_reply() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for folder in ["root", "store", "store/keep"] {
        fs::create_dir(at(folder)).unwrap();
    }
    let text = format!(
        "root = '{root}'\n[[uploads]]\npath = '/d%20v/'\nfolder = '{store}'\nopen = true\nsync = false\n\
         [[mount]]\npath = '/assets/'\nroot = '{store}'\n\
         [[mount]]\npath = '/keep/'\nroot = '{store}'\nstrip = false\n\
         [[host]]\nnames = ['a.test']\nroot = '{store}'\nmount = []\nuploads = []\n",
        root = at("root").display(),
        store = at("store").display()
    );
    let sites = Config::from_toml(&text, "weir.toml").unwrap().sites().unwrap();
    let open = |config: &Config| {
        let nothing = Source::Embedded {
            files: &[],
            modified: UnixTime::from_secs(0),
        };
        let config = SiteConfig {
            change_events: false,
            ..SiteConfig::of(config, nothing)
        };
        Arc::new(Site::open(config).unwrap())
    };
    let opened: Vec<Arc<Site>> = sites.iter().map(open).collect();
    let uploads = Uploads::of(sites.iter().zip(&opened), None).unwrap();
    let desk = &uploads.of_site(0)[0].desk;
    assert_eq!(
        (put(desk, "a", "first"), put(desk, "keep/b", "first")),
        (201, 201)
    );
    // Late enough that the files count as settled.
    let wall = UnixTime::from_secs(i64::from(u32::MAX));
    let mut views = opened.iter().map(|site| site.view(Instant::ZERO, wall));
    let (mut top, mut host) = (views.next().unwrap(), views.next().unwrap());
    let check = |view: &mut View, path: &str, name: &str| {
        let Lookup::Load(load) = view.lookup(path.as_bytes()) else {
            panic!("{path} is not known yet");
        };
        let loaded = load.run();
        view.finish(loaded);
        assert!(
            matches!(view.lookup(path.as_bytes()), Lookup::Hit(_)),
            "{path} is kept"
        );
        assert_eq!(put(desk, name, "second"), 204);
        assert!(
            matches!(view.lookup(path.as_bytes()), Lookup::Load(_)),
            "{path} is outdated"
        );
    };
    check(&mut top, "/assets/a", "a");
    check(&mut top, "/keep/b", "keep/b");
    check(&mut host, "/a", "a");
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
    let stale = format!("Destination: /d%20v/b\r\nIf-Match: {tag}\r\n");
    assert_eq!(rig.status("COPY /d%20v/a", &stale), 412);
    assert_eq!(rig.status("MOVE /d%20v/a", &stale), 412);
    let body = "<propertyupdate xmlns='DAV:'><set><prop><lastmodified>1</lastmodified></prop></set></propertyupdate>";
    let stale = format!("Content-Length: {}\r\nIf-Match: {tag}\r\n", body.len());
    assert_eq!(rig.ask("PROPPATCH /d%20v/a", &stale, body).status, 412);
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
    assert_eq!((options.status, field(&options, "DAV")), (200, Some("1, 2")));
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
    let long = " ".repeat(super::xml::BODY_MAX + 1);
    assert_eq!(find("/d%20v/", "0", &long).status, 413);
    assert_eq!(find("/d%20v/", "0", &long[1..]).status, 207);
}

#[test]
fn a_folder_with_too_many_entries_is_not_listed() {
    let most = super::properties::ENTRIES_MAX;
    let rig = rig("");
    let first = rig.dir.path().join("0");
    assert_eq!(rig.put("0", "", ""), 201);
    for number in 1..most {
        fs::hard_link(&first, rig.dir.path().join(number.to_string())).unwrap();
    }
    let listed = rig.ask("PROPFIND /d%20v/", "Depth: 1\r\n", "");
    assert_eq!(listed.status, 207);
    assert_eq!(text(&listed).matches("<D:response>").count(), most + 1);
    fs::hard_link(&first, rig.dir.path().join("more")).unwrap();
    let refused = rig.ask("PROPFIND /d%20v/", "Depth: 1\r\n", "");
    assert_eq!(refused.status, 507);
    assert!(text(&refused).contains(&most.to_string()), "{}", text(&refused));
    assert_eq!(rig.status("PROPFIND /d%20v/", "Depth: 0\r\n"), 207);
}

#[test]
fn a_listing_is_bounded_in_bytes() {
    let rig = rig("");
    let names = format!("<{}/>", "x".repeat(90)).repeat(450);
    let body = format!("<propfind xmlns='DAV:'><prop>{names}</prop></propfind>");
    let fields = format!("Depth: 1\r\nContent-Length: {}\r\n", body.len());
    let list = || rig.ask("PROPFIND /d%20v/", &fields, &body);
    assert_eq!(rig.put("0", "", ""), 201);
    let first = rig.dir.path().join("0");
    let own = text(&list()).len() / 2;
    let most = super::properties::ANSWER_MAX / own;
    for number in 1..most - 2 {
        fs::hard_link(&first, rig.dir.path().join(number.to_string())).unwrap();
    }
    assert_eq!(list().status, 207);
    for number in most - 2..most + 3 {
        fs::hard_link(&first, rig.dir.path().join(number.to_string())).unwrap();
    }
    let refused = list();
    assert_eq!(refused.status, 507);
    assert!(text(&refused).contains("fewer properties"), "{}", text(&refused));
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
    let refused = patch("<D:lastmodified>1</D:lastmodified><D:getetag>1</D:getetag>");
    assert!(
        refused.contains("424 Failed Dependency") && refused.contains("403 Forbidden"),
        "{refused}"
    );
    assert_eq!(shown(&rig), "Sun, 09 Sep 2001 01:46:40 GMT", "all or nothing");
}

impl Rig {
    /// The reply to a change of properties: elements to set, and elements to remove.
    fn patch(&self, path: &str, set: &str, remove: &str) -> String {
        let set = format!("<D:set><D:prop>{set}</D:prop></D:set>");
        let remove = format!("<D:remove><D:prop>{remove}</D:prop></D:remove>");
        let body =
            format!("<D:propertyupdate xmlns:D='DAV:' xmlns:o='urn:o'>{set}{remove}</D:propertyupdate>");
        let fields = format!("Content-Length: {}\r\n", body.len());
        let reply = self.ask(&format!("PROPPATCH /d%20v/{path}"), &fields, &body);
        assert_eq!(reply.status, 207, "{}", text(&reply));
        text(&reply).to_owned()
    }

    fn find(&self, path: &str, depth: &str, inner: &str) -> String {
        let body = format!("<D:propfind xmlns:D='DAV:' xmlns:o='urn:o'>{inner}</D:propfind>");
        let fields = format!("Depth: {depth}\r\nContent-Length: {}\r\n", body.len());
        let reply = self.ask(&format!("PROPFIND /d%20v/{path}"), &fields, &body);
        assert_eq!(reply.status, 207, "{}", text(&reply));
        roxmltree::Document::parse(text(&reply)).unwrap();
        text(&reply).to_owned()
    }

    /// Whether the file system of temporary files stores properties. If not, a test has nothing to look at.
    fn stores_properties(&self) -> bool {
        let is_stored = !self.patch("", "<o:probe/>", "").contains("403 Forbidden");
        if !is_stored {
            eprintln!("skipped: the file system of temporary files stores no extended attributes");
        }
        self.patch("", "", "<o:probe/>");
        is_stored
    }
}

#[test]
fn properties_of_clients_are_stored_with_the_file() {
    let rig = rig("");
    if !rig.stores_properties() {
        return;
    }
    rig.put("a", "x", "");
    rig.status("MKCOL /d%20v/sub", "");
    let set = rig.patch(
        "a",
        "<o:color>red &amp; <o:b i='1'/></o:color><plain/>",
        "<o:none/>",
    );
    assert_eq!(set.matches("200 OK").count(), 3, "{set}");
    let color = "<x:color xmlns:x=\"urn:o\">red &amp; <x:b xmlns:x=\"urn:o\" i=\"1\"></x:b></x:color>";
    let has_color = |path: &str| rig.find(path, "0", "<D:prop><o:color/></D:prop>").contains(color);
    assert!(has_color("a"));
    let some = rig.find(
        "a",
        "0",
        "<D:prop><D:getcontentlength/><plain/><o:none/></D:prop>",
    );
    let (found, missing) = some.split_once("200 OK").unwrap();
    assert!(
        found.contains("<plain></plain>") && found.contains(">1</D:getcontentlength>"),
        "{some}"
    );
    assert!(
        missing.contains("none") && missing.contains("404 Not Found"),
        "{some}"
    );
    let all = rig.find("", "1", "<D:allprop/>");
    assert_eq!(all.matches(color).count(), 1, "{all}");
    let names = rig.find("", "1", "<D:propname/>");
    assert!(
        names.contains("<x:color xmlns:x=\"urn:o\"/>") && !names.contains("red"),
        "{names}"
    );
    // No file is made for them.
    assert_eq!(rig.names(""), ["a", "sub"]);
    // They stay if the file is replaced, and go where it goes.
    assert_eq!(rig.put("a", "new", ""), 204);
    assert!(has_color("a"));
    assert_eq!(rig.status("COPY /d%20v/a", "Destination: /d%20v/sub/b\r\n"), 201);
    assert_eq!(
        rig.status("MOVE /d%20v/sub", "Destination: /d%20v/moved\r\n"),
        201
    );
    assert!(has_color("moved/b"));
    rig.patch("a", "<o:color>blue</o:color>", "<plain/>");
    assert!(!has_color("a") && has_color("moved/b"));
    assert!(!rig.find("a", "0", "<D:propname/>").contains("plain"));
    assert_eq!(rig.status("DELETE /d%20v/a", ""), 204);
    rig.put("a", "", "");
    assert!(!rig.find("a", "0", "<D:propname/>").contains("color"));
    // Folders have them, too.
    rig.patch("moved/", "<o:color>green</o:color>", "");
    assert_eq!(
        rig.find("", "1", "<D:prop><o:color/></D:prop>")
            .matches(">green<")
            .count(),
        1
    );
}

#[test]
fn properties_are_changed_together_or_not_at_all() {
    let rig = rig("");
    if !rig.stores_properties() {
        return;
    }
    rig.put("a", "x", "");
    let shown = || rig.find("a", "0", "<D:prop><o:a/><D:getlastmodified/></D:prop>");
    assert!(
        rig.patch("a", "<o:a>1</o:a><D:lastmodified>1000000000</D:lastmodified>", "")
            .matches("200 OK")
            .count()
            == 2
    );
    let before = shown();
    assert!(
        before.contains(">1</x:a>") && before.contains("Sun, 09 Sep 2001 01:46:40 GMT"),
        "{before}"
    );
    let long = format!("<o:b>{}</o:b>", "x".repeat(super::dead::DEAD_MAX));
    let halves = format!(
        "<o:b>{0}</o:b><o:c>{0}</o:c>",
        "x".repeat(super::dead::DEAD_MAX / 2)
    );
    for (set, statuses) in [
        ("<D:getetag>1</D:getetag>", [1, 0, 2]),
        (long.as_str(), [0, 1, 2]),
        (halves.as_str(), [0, 3, 1]),
    ] {
        let reply = rig.patch(
            "a",
            &format!("<D:lastmodified>5</D:lastmodified><o:a>2</o:a>{set}"),
            "",
        );
        let count = |status: &str| reply.matches(status).count();
        let found = [
            count("403 Forbidden"),
            count("507 Insufficient Storage"),
            count("424 Failed Dependency"),
        ];
        assert_eq!((found, count("200 OK")), (statuses, 0), "{reply}");
        assert_eq!(shown(), before);
    }
    // The time of a folder is not set.
    assert!(
        rig.patch("", "<D:lastmodified>5</D:lastmodified><o:a>2</o:a>", "")
            .contains("403 Forbidden")
    );
    assert!(!rig.find("", "0", "<D:propname/>").contains("urn:o"));
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

/// A rule asks for the quota of its own folder, in which the files of folders below it count.
#[test]
fn a_folder_within_another_has_a_quota_of_its_own() {
    let outer = rig("quota = '10'");
    let below = outer.dir.path().join("sub");
    fs::create_dir(&below).unwrap();
    let inner = desk(&below, "quota = '4'");
    assert_eq!((put(&inner, "a", "12345"), put(&inner, "a", "1234")), (507, 201));
    // The inner quota is full, and not asked for here.
    assert_eq!(outer.put("sub/b", "12345", ""), 201);
    // 9 bytes are used, with those of the inner rule.
    assert_eq!((outer.put("c", "12", ""), outer.put("c", "1", "")), (507, 201));
    // The outer quota is full, and not asked for here.
    let wider = desk(&below, "quota = '100'");
    assert_eq!(put(&wider, "d", "123"), 201);
    assert_eq!(outer.put("e", "1", ""), 507);
    assert_eq!(outer.names("sub"), ["a", "b", "d"]);
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
    let before = rig.desk.counts();
    let full = rig.desk.refused(&std::io::Error::from_raw_os_error(28));
    assert!(text(&full).contains("the disk is full"), "{}", text(&full));
    assert_eq!(
        rig.desk.counts(),
        before,
        "a full disk is counted with its reply, as 507"
    );
    rig.desk.refused(&std::io::Error::from_raw_os_error(5));
    assert_eq!(rig.desk.counts().failed, before.failed + 1);
}

const LOCKINFO: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype>\
                        <D:owner>ann</D:owner></D:lockinfo>";

const ANN: &str = "Authorization: Basic YW5uOnNlY3JldA==\r\n";
const BOB: &str = "Authorization: Basic Ym9iOnNlY3JldA==\r\n";

impl Rig {
    fn ask_for_lock(&self, path: &str, fields: &str) -> Reply {
        let fields = format!("Content-Length: {}\r\n{fields}", LOCKINFO.len());
        self.ask(&format!("LOCK /d%20v/{path}"), &fields, LOCKINFO)
    }

    /// The token of a new lock.
    fn lock(&self, path: &str, fields: &str) -> String {
        let reply = self.ask_for_lock(path, fields);
        assert!(matches!(reply.status, 200 | 201), "{path}: {}", text(&reply));
        let token = field(&reply, "Lock-Token").unwrap();
        assert!(text(&reply).contains(&token[1..token.len() - 1]));
        token.to_owned()
    }

    fn unlock(&self, path: &str, token: &str, fields: &str) -> u16 {
        let fields = format!("Lock-Token: {token}\r\n{fields}");
        self.status(&format!("UNLOCK /d%20v/{path}"), &fields)
    }
}

#[test]
fn a_lock_keeps_changes_out_until_it_ends() {
    let rig = rig("");
    rig.put("a", "one", "");
    rig.put("other", "", "");
    let token = rig.lock("a", "Depth: 0\r\nTimeout: Second-60\r\n");
    let to = |path: &str| format!("Destination: /d%20v/{path}\r\n");
    let patch = "<propertyupdate xmlns='DAV:'><set><prop><lastmodified>1</lastmodified></prop></set></propertyupdate>";
    let length = format!("Content-Length: {}\r\n", patch.len());
    for (line, fields, body) in [
        ("PUT /d%20v/a", "Content-Length: 3\r\n", "two"),
        ("DELETE /d%20v/a", "", ""),
        ("MOVE /d%20v/a", &to("b"), ""),
        ("MOVE /d%20v/other", &to("a"), ""),
        ("COPY /d%20v/other", &to("a"), ""),
        ("PROPPATCH /d%20v/a", &length, patch),
    ] {
        let reply = rig.ask(line, fields, body);
        assert_eq!(reply.status, 423, "{line} {fields}");
        assert!(
            text(&reply).contains("<D:lock-token-submitted><D:href>/d%20v/a</D:href>"),
            "{line}: {}",
            text(&reply)
        );
    }
    let second = rig.ask_for_lock("a", "");
    assert_eq!(second.status, 423);
    assert!(text(&second).contains("<D:no-conflicting-lock><D:href>/d%20v/a</D:href>"));
    // It may be read and copied.
    assert_eq!(rig.status("GET /d%20v/a", ""), 200);
    assert_eq!(rig.status("COPY /d%20v/a", &to("copy")), 201);
    assert_eq!(rig.put("copy", "free", ""), 204);
    let found = rig.ask("PROPFIND /d%20v/", "Depth: 1\r\n", "");
    assert_eq!(text(&found).matches("<D:activelock>").count(), 1);
    assert!(text(&found).contains("<D:owner>ann</D:owner>") && text(&found).contains("<D:depth>0</D:depth>"));
    let own = format!("If: ({token})\r\n");
    assert_eq!(rig.put("a", "two", &own), 204);
    assert_eq!(content(&rig.dir.path().join("a")), "two");
    // A token elsewhere is submitted, too, but a condition about an unlocked file does not hold.
    assert_eq!(
        rig.put("a", "two", &format!("If: </d%20v/copy> ({token})\r\n")),
        412
    );
    assert_eq!(rig.put("a", "two", &format!("If: </d%20v/a> ({token})\r\n")), 204);
    assert_eq!(rig.put("a", "two", "If: (Not <DAV:no-lock>)\r\n"), 423);
    assert_eq!(rig.put("a", "two", "If: (<urn:uuid:1>\r\n"), 400);
    let refreshed = rig.ask("LOCK /d%20v/a", &format!("{own}Timeout: Second-9\r\n"), "");
    assert_eq!((refreshed.status, field(&refreshed, "Lock-Token")), (200, None));
    let left = text(&refreshed).split("Second-").nth(1).unwrap();
    assert!(left.starts_with('9') && left[1..].starts_with('<'), "{left}");
    assert_eq!(
        rig.status("LOCK /d%20v/a", ""),
        412,
        "nothing to refresh is named"
    );
    assert_eq!(rig.unlock("other", &token, ""), 409);
    assert_eq!(rig.unlock("a", "<urn:uuid:1>", ""), 409);
    assert_eq!(rig.unlock("a", "urn:uuid:1", ""), 400);
    assert_eq!(rig.unlock("a", &token, ""), 204);
    assert_eq!(rig.put("a", "three", &own), 412);
    assert_eq!(rig.put("a", "three", ""), 204);
}

/// A request whose body comes after something has happened.
struct Slow<'s> {
    head: &'s [u8],
    happens: Option<Box<dyn FnOnce() + 's>>,
    body: &'s [u8],
}

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.head.is_empty() {
            return self.head.read(into);
        }
        if let Some(happens) = self.happens.take() {
            happens();
        }
        self.body.read(into)
    }
}

#[test]
fn conditions_and_locks_are_asked_for_again_after_the_body() {
    let rig = rig("");
    let slowly = |fields: &str, happens: &dyn Fn()| {
        let head = format!("PUT /d%20v/a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n{fields}\r\n");
        let mut slow = Slow {
            head: head.as_bytes(),
            happens: Some(Box::new(happens)),
            body: b"slow",
        };
        reply_to(&mut slow, |head, body| rig.desk.answer(head, body))
            .expect("a reply")
            .0
            .status
    };
    let show = || content(&rig.dir.path().join("a"));
    rig.put("a", "1", "");
    let tag = field(&rig.ask("GET /d%20v/a", "", ""), "ETag")
        .unwrap()
        .to_owned();
    let condition = format!("If: ([{tag}])\r\n");
    let meanwhile = || assert_eq!(rig.put("a", "22", ""), 204);
    assert_eq!((slowly(&condition, &meanwhile), show()), (412, "22".to_owned()));
    let token = rig.lock("a", "");
    let condition = format!("If: ({token})\r\n");
    assert_eq!((slowly(&condition, &|| ()), show()), (204, "slow".to_owned()));
    assert_eq!(rig.put("a", "333", &condition), 204);
    let meanwhile = || assert_eq!(rig.unlock("a", &token, ""), 204);
    assert_eq!((slowly(&condition, &meanwhile), show()), (412, "333".to_owned()));
    let meanwhile = || assert_eq!(rig.ask_for_lock("a", "").status, 200);
    assert_eq!((slowly("", &meanwhile), show()), (423, "333".to_owned()));
    assert_eq!(rig.names(""), ["a"]);
}

#[test]
fn a_lock_of_a_folder_protects_its_names_or_all_below() {
    let rig = rig("");
    rig.status("MKCOL /d%20v/dir", "");
    rig.put("dir/a", "", "");
    let token = rig.lock("dir/", "Depth: 0\r\n");
    let own = format!("If: </d%20v/dir> ({token})\r\n");
    let to = "Destination: /d%20v/dir/b\r\n";
    rig.put("c", "", "");
    assert_eq!(rig.put("dir/a", "x", ""), 204);
    for (line, fields) in [
        ("PUT /d%20v/dir/new", "Content-Length: 0\r\n"),
        ("MKCOL /d%20v/dir/sub", ""),
        ("DELETE /d%20v/dir/a", ""),
        ("COPY /d%20v/c", to),
        ("MOVE /d%20v/c", to),
    ] {
        assert_eq!(rig.status(line, fields), 423, "{line}");
        let status = rig.status(line, &format!("{fields}{own}"));
        assert!(matches!(status, 201 | 204), "{line}: {status}");
    }
    assert_eq!(rig.ask_for_lock("dir/one-more", "").status, 423);
    assert_eq!(rig.unlock("dir", &token, ""), 204);
    let token = rig.lock("dir", "Depth: infinity\r\n");
    let own = format!("If: ({token})\r\n");
    assert_eq!(
        (rig.put("dir/b", "x", ""), rig.put("dir/b", "x", &own)),
        (423, 204)
    );
    assert_eq!(
        rig.ask("LOCK /d%20v/dir/b", &own, "").status,
        200,
        "refreshed by a path below"
    );
    assert_eq!(rig.unlock("dir/b", &token, ""), 204);
    assert_eq!(rig.put("dir/b", "x", ""), 204);
    // What is locked below excludes a lock of all.
    let below = rig.lock("dir/b", "");
    let whole = rig.ask_for_lock("dir", "");
    assert_eq!(whole.status, 207);
    for part in [
        "<D:href>/d%20v/dir/b</D:href><D:status>HTTP/1.1 423 Locked",
        "<D:href>/d%20v/dir/</D:href><D:status>HTTP/1.1 424 Failed",
    ] {
        assert!(text(&whole).contains(part), "{}", text(&whole));
    }
    assert_eq!(rig.status("DELETE /d%20v/dir", ""), 423);
    // Locks end with their files, and stay with their paths.
    let own = format!("If: </d%20v/dir/b> ({below})\r\n");
    let moved = format!("Destination: /d%20v/moved\r\n{own}");
    assert_eq!(rig.status("MOVE /d%20v/dir", &moved), 201);
    assert_eq!(rig.put("moved/b", "y", ""), 204);
    rig.status("MKCOL /d%20v/dir", "");
    assert_eq!(rig.put("dir/b", "z", ""), 201);
}

#[test]
fn a_lock_of_a_new_path_makes_an_empty_file() {
    let rig = rig("");
    let reply = rig.ask_for_lock("new", "");
    assert_eq!((reply.status, rig.names("")), (201, vec!["new".to_owned()]));
    assert_eq!(content(&rig.dir.path().join("new")), "");
    assert_eq!(rig.put("new", "x", ""), 423);
    for (path, status) in [("none/new", 409), ("folder/", 409), (".hidden", 403)] {
        assert_eq!(rig.ask_for_lock(path, "").status, status, "{path}");
    }
    assert_eq!(rig.ask_for_lock("deep", "Depth: 1\r\n").status, 400);
    assert_eq!(rig.ask_for_lock("other", "If-Match: *\r\n").status, 412);
    assert_eq!(rig.names(""), ["new"]);
    // A lock that was denied a file is none.
    rig.status("MKCOL /d%20v/none", "");
    assert_eq!(rig.put("none/new", "x", ""), 201);
}

#[test]
fn a_token_is_of_no_use_to_other_users() {
    let rig = rig("");
    let token = rig.lock("a", ANN);
    let own = format!("If: ({token})\r\n");
    assert_eq!(rig.put("a", "x", &format!("{own}{BOB}")), 423);
    assert_eq!(rig.put("a", "x", &own), 423);
    assert_eq!(rig.status("LOCK /d%20v/a", &format!("{own}{BOB}")), 412);
    assert_eq!(rig.unlock("a", &token, BOB), 403);
    assert_eq!(rig.put("a", "x", &format!("{own}{ANN}")), 204);
    assert_eq!(rig.unlock("a", &token, ANN), 204);
}

#[test]
fn locks_survive_a_reload_and_are_bounded() {
    let rig = rig("locks-per-user = 1000");
    let token = rig.lock("a", "");
    let folder = WriteFolder::open(rig.dir.path()).unwrap();
    let mut settings = rig.desk.settings.clone();
    settings.hidden = true;
    let desk = Desk::new(settings, folder, Some(&rig.desk));
    let rig = Rig { desk, ..rig };
    assert_eq!(rig.put("a", "x", ""), 423);
    assert_eq!(rig.put("a", "x", &format!("If: ({token})\r\n")), 204);
    for number in 1..super::locks::LOCKS_MAX {
        rig.lock(&number.to_string(), "Depth: 0\r\n");
    }
    let refused = rig.ask_for_lock("more", "");
    assert_eq!(refused.status, 507);
    assert!(text(&refused).contains("1000 locks"), "{}", text(&refused));
    assert_eq!(rig.status("GET /d%20v/more", ""), 404);
    assert_eq!(rig.unlock("1", &rig.token_of("1"), ""), 204);
    assert_eq!(rig.ask_for_lock("more", "").status, 201);
}

#[test]
fn one_user_does_not_use_up_all_locks() {
    let rig = rig("locks-per-user = 3");
    for number in 0..3 {
        rig.lock(&number.to_string(), ANN);
    }
    let refused = rig.ask_for_lock("more", ANN);
    assert_eq!(refused.status, 507);
    assert!(text(&refused).contains("`locks-per-user`"), "{}", text(&refused));
    assert_eq!(rig.status("GET /d%20v/more", ""), 404, "no empty file is left");
    assert_eq!(rig.ask_for_lock("more", BOB).status, 201);
    assert_eq!(rig.unlock("1", &rig.token_of("1"), ANN), 204);
    assert_eq!(rig.ask_for_lock("other", ANN).status, 201);
}

impl Rig {
    /// The token of the only lock of a file, as everyone learns it.
    fn token_of(&self, path: &str) -> String {
        let body = "<propfind xmlns='DAV:'><prop><lockdiscovery/></prop></propfind>";
        let fields = format!("Depth: 0\r\nContent-Length: {}\r\n", body.len());
        let found = self.ask(&format!("PROPFIND /d%20v/{path}"), &fields, body);
        let (_, rest) = text(&found).split_once("<D:locktoken><D:href>").unwrap();
        format!("<{}>", rest.split_once('<').unwrap().0)
    }
}
