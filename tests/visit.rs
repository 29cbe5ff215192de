//! The black box of `weir visit` with a browser of the tests: a script that has its messages ready and keeps the commands it gets.
//! A real Chromium, behind a link, is in `link::browser`.

#![allow(
    clippy::disallowed_methods,
    reason = "a black-box test is the outside world: it writes scripts and reads files"
)]

use crate::cli::{text, weir};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Output;
use tempfile::TempDir;

/// A folder with a program in it that is taken for a browser.
struct Fake {
    folder: TempDir,
}

impl Fake {
    /// `script` is for `sh`; `messages` is the file with the messages, each ending in NUL.
    fn new(messages: &[Value], script: &str) -> Fake {
        let folder = TempDir::new().expect("a folder");
        let lines: String = messages.iter().map(|message| format!("{message}\0")).collect();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("messages"), lines).expect("is ours");
        let script = format!(
            "#!/bin/sh\ncd '{}'\nprintf '%s\\n' \"$@\" > arguments\n{script}\n",
            folder.path().display()
        );
        std::fs::write(path("browser"), script).expect("is ours");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path("browser"), mode).expect("is ours");
        Fake { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect(name)
    }

    /// Visits a page with it.
    fn visit(&self, more: &[&str]) -> Output {
        let browser = self.path("browser").display().to_string();
        let har = self.path("visit.har").display().to_string();
        let visit = ["visit", "http://h/page", "--browser", &browser, "--har", &har];
        weir(&[&visit[..], more].concat())
    }

    fn fails(&self, more: &[&str], code: i32, says: &[&str]) {
        let output = self.visit(more);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        for one in says {
            assert!(said.contains(one), "{one}: {said}");
        }
    }
}

/// Sends everything and reads commands until the pipe is closed.
const ANSWERS: &str = "cat messages >&4; cat <&3 > commands";

fn reply(id: u64, result: &Value) -> Value {
    json!({ "id": id, "result": result })
}

fn event(method: &str, params: &Value) -> Value {
    json!({ "method": method, "params": params, "sessionId": "S" })
}

/// Replies to all commands until the page is opened.
fn opened() -> Vec<Value> {
    let mut messages = vec![
        reply(1, &json!({ "product": "Fake/1.0" })),
        reply(2, &json!({ "targetId": "T" })),
        reply(3, &json!({ "sessionId": "S" })),
    ];
    messages.extend((4..=8).map(|id| reply(id, &json!({}))));
    messages
}

/// The page and an image that stays outstanding, until the load event.
fn loaded(status: u16, is_image_done: bool) -> Vec<Value> {
    let timing = json!({ "requestTime": 10.0, "dnsStart": -1, "dnsEnd": -1, "connectStart": 0, "connectEnd": 20, "sslStart": -1,
        "sslEnd": -1, "sendStart": 21, "sendEnd": 21, "receiveHeadersStart": 60, "receiveHeadersEnd": 61 });
    let mut messages = opened();
    for (id, path) in [("1", "page"), ("2", "image.png")] {
        messages.push(event("Network.requestWillBeSent", &json!({ "requestId": id, "timestamp": 10.0, "wallTime": 1e9,
            "type": "Document", "request": { "url": format!("http://h/{path}"), "method": "GET", "headers": {} } })));
        if id == "2" && !is_image_done {
            continue;
        }
        messages.push(event("Network.responseReceived", &json!({ "requestId": id, "timestamp": 10.07, "response": {
            "status": status, "statusText": "So", "protocol": "http/1.1", "remoteIPAddress": "192.0.2.1", "connectionId": 7,
            "timing": timing, "encodedDataLength": 100 } })));
        let finished = json!({ "requestId": id, "timestamp": 10.08, "encodedDataLength": 150 });
        messages.push(event("Network.loadingFinished", &finished));
    }
    messages.push(event("Page.domContentEventFired", &json!({ "timestamp": 10.08 })));
    messages.push(event("Page.loadEventFired", &json!({ "timestamp": 10.09 })));
    messages
}

#[test]
fn a_visit_leaves_an_archive_and_a_page_and_nothing_else() {
    let fake = Fake::new(&loaded(200, true), ANSWERS);
    let page = fake.path("visit.html").display().to_string();
    let output = fake.visit(&["--report", &page, "--browser-arg=--lang=de", "--insecure"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let archive: Value = serde_json::from_str(&fake.read("visit.har")).expect("JSON");
    let log = &archive["log"];
    assert_eq!(
        (&log["browser"]["name"], &log["browser"]["version"]),
        (&json!("Fake"), &json!("1.0"))
    );
    assert_eq!(
        log["pages"][0]["pageTimings"],
        json!({ "onContentLoad": 80.0, "onLoad": 90.0 })
    );
    assert_eq!(log["entries"][1]["request"]["url"], json!("http://h/image.png"));
    assert_eq!(log["entries"][1]["connection"], json!("7"));
    let told = text(&output.stdout);
    assert!(
        told.contains("2, without a capture") && told.contains("loaded after 90.0 ms"),
        "{told}"
    );
    let html = fake.read("visit.html");
    for part in ["Visit of http://h/page", "no capture", "/image.png"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    let commands = fake.read("commands");
    for command in ["\"url\":\"http://h/page\"", "Browser.close"] {
        assert!(commands.contains(command), "{command}: {commands}");
    }
    let arguments = fake.read("arguments");
    for argument in [
        "--headless\n",
        "--remote-debugging-pipe\n",
        "--lang=de\n",
        "--ignore-certificate-errors\n",
    ] {
        assert!(arguments.contains(argument), "{argument}: {arguments}");
    }
    let profile = arguments
        .lines()
        .find_map(|line| line.strip_prefix("--user-data-dir="));
    assert!(
        !PathBuf::from(profile.expect("a profile")).exists(),
        "{arguments}"
    );
}

#[test]
fn the_secrets_are_for_the_user_alone() {
    let script = format!(
        "umask 022
        for one in \"$@\"; do
            case \"$one\" in --ssl-key-log-file=*)
                log=\"${{one#*=}}\"; echo secret > \"$log\"; stat -c %a keys.log \"$(dirname \"$log\")\" > modes;;
            esac
        done
        {ANSWERS}"
    );
    let fake = Fake::new(&loaded(200, true), &script);
    let keys = fake.path("keys.log");
    let visit = || {
        fake.fails(&["--keys", &keys.display().to_string()], 0, &[]);
        let mode = keys.metadata().expect("a file").permissions().mode();
        assert_eq!(
            (fake.read("keys.log").as_str(), mode & 0o777),
            ("secret\n", 0o600)
        );
    };
    visit();
    // While the visit was made: the file that was wanted, and the folder with that of the browser.
    assert_eq!(fake.read("modes"), "600\n700\n");
    // Others could read the file that was there.
    std::fs::write(&keys, "earlier").expect("is ours");
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o644)).expect("is ours");
    visit();
}

#[test]
fn json_is_lines_of_objects_and_their_visit() {
    let fake = Fake::new(&loaded(200, true), ANSWERS);
    let output = fake.visit(&["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(events, ["object", "object", "visit"]);
    assert_eq!(
        (&lines[0]["connect_ms"], &lines[0]["server_ms"]),
        (&json!(20.0), &Value::Null)
    );
}

#[test]
fn a_browser_that_is_missing_ends_or_says_nothing_is_named() {
    let fake = Fake::new(&[], "");
    let missing = weir(&["visit", "http://h/", "--browser", "/nowhere/chrome"]);
    let said = text(&missing.stderr);
    assert_eq!(missing.status.code(), Some(2), "{said}");
    assert!(
        said.contains("`/nowhere/chrome`") && said.contains("--browser"),
        "{said}"
    );
    std::fs::set_permissions(fake.path("browser"), std::fs::Permissions::from_mode(0o600)).expect("is ours");
    fake.fails(&[], 2, &["cannot start the browser", "Permission denied"]);
    let fake = Fake::new(&[], "echo 'no display' >&2; exit 5");
    fake.fails(
        &[],
        1,
        &[
            "ended before the page was loaded (exit status: 5)",
            "it said: no display",
            "--headless",
        ],
    );
    let fake = Fake::new(&[], "cat <&3 > commands");
    fake.fails(&["--timeout", "300ms"], 1, &["made no visit", "does not answer"]);
    assert!(fake.read("commands").contains("Browser.getVersion"));
    let fake = Fake::new(&[], "printf 'HTTP/1.1 200 OK\\0' >&4; cat <&3 > commands");
    fake.fails(&[], 1, &["does not speak the DevTools protocol"]);
    let refused = json!({ "id": 1, "error": { "code": -1, "message": "not here" } });
    let fake = Fake::new(&[refused], ANSWERS);
    fake.fails(&[], 1, &["refused Browser.getVersion: not here"]);
}

#[test]
fn a_visit_that_fails_leaves_no_empty_file_behind() {
    let fake = Fake::new(&[], "exit 5");
    let name = |name: &str| fake.path(name).display().to_string();
    let (keys, there) = (name("keys.log"), name("there.html"));
    std::fs::write(&there, "").expect("is ours");
    for (keys, code) in [(keys.as_str(), 1), ("/nowhere/keys.log", 2)] {
        fake.fails(&["--keys", keys, "--report", &there], code, &[]);
        for made in ["visit.har", "keys.log"] {
            assert!(!fake.path(made).exists(), "{made}");
        }
        assert!(fake.path("there.html").exists(), "it is the user's");
    }
}

#[test]
fn a_page_that_fails_is_told_with_what_to_do() {
    let mut messages = opened();
    messages.pop();
    messages.push(reply(8, &json!({ "errorText": "net::ERR_NAME_NOT_RESOLVED" })));
    let fake = Fake::new(&messages, ANSWERS);
    fake.fails(
        &[],
        1,
        &[
            "`http://h/page` could not be loaded: net::ERR_NAME_NOT_RESOLVED",
            "check that its server answers",
        ],
    );
    let fake = Fake::new(&loaded(404, true), ANSWERS);
    fake.fails(&[], 1, &["the server answered 404 So", "check the path"]);
}

#[test]
fn a_page_that_is_never_loaded_ends_with_the_time_and_leaves_its_requests() {
    let mut messages = loaded(200, false);
    messages.pop();
    let fake = Fake::new(&messages, ANSWERS);
    fake.fails(
        &["--timeout", "300ms"],
        1,
        &["not loaded within 300ms (outstanding requests: 1)", "--timeout"],
    );
    let archive: Value = serde_json::from_str(&fake.read("visit.har")).expect("JSON");
    assert_eq!(
        archive["log"]["entries"][1]["response"]["_error"],
        json!("unfinished")
    );
    // Loaded, but busy: no failure, and a message.
    let fake = Fake::new(&loaded(200, false), ANSWERS);
    fake.fails(
        &["--settle", "100ms"],
        0,
        &[
            "requests outstanding 100ms after the page was loaded: 1",
            "--settle",
        ],
    );
}

#[test]
fn a_message_that_cannot_be_read_is_told_and_ends_no_visit() {
    let mut messages = loaded(200, true);
    let last = messages.pop();
    messages.push(event(
        "Network.dataReceived",
        &json!({ "requestId": "HALF OF A PAIR" }),
    ));
    messages.extend(last);
    let fake = Fake::new(&messages, ANSWERS);
    // Strings of this program have no half of a surrogate pair; those of a page have.
    let sent = fake.read("messages").replace("HALF OF A PAIR", "\\ud800");
    std::fs::write(fake.path("messages"), sent).expect("is ours");
    let page = fake.path("visit.html").display().to_string();
    fake.fails(
        &["--report", &page],
        0,
        &["1 messages of the browser were too long or could not be read"],
    );
    let html = fake.read("visit.html");
    assert!(html.contains("requests may be missing here: 1."), "{html}");
}

#[test]
fn a_browser_that_does_not_end_is_killed_with_its_own() {
    // Neither it nor what it started reads the pipe.
    let fake = Fake::new(
        &loaded(200, true),
        "cat messages >&4; sleep 1000 & echo $! > child; wait",
    );
    fake.fails(&[], 0, &["was killed"]);
    let child = fake.read("child");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.trim()));
    // A zombie waits for whoever adopts it.
    let is_gone = stat.map_or(true, |stat| stat.contains(") Z "));
    assert!(is_gone, "{child}");
}

#[test]
fn what_cannot_be_asked_for_is_refused_before_the_browser_starts() {
    for (arguments, says) in [
        (&["visit", "ftp://h/"][..], "the scheme `ftp`"),
        (
            &["visit", "http://h/", "--report", "/nowhere/visit.html"],
            "`/nowhere/visit.html`",
        ),
        (&["visit", "http://h/", "--pcap", "x"], "--link"),
        (&["visit", "http://h/", "--link", "rate=fast"], "the link"),
    ] {
        let output = weir(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}
