//! Requests with content and with other methods than GET: what a server gets, what is repeated, and early answers.

use crate::fixture::serving;
use crate::workload::{conforms, lines, printed, refused, weir};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use tempfile::TempDir;

/// A request with its content.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) content: Vec<u8>,
}

/// What a server does with a connection.
type Conversation = fn(&mut BufReader<TcpStream>, &Sender<Request>);

/// A server that holds this conversation on each connection; and the requests it had.
fn conversing(conversation: Conversation) -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let (told, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let told = told.clone();
            std::thread::spawn(move || conversation(&mut BufReader::new(stream), &told));
        }
    });
    (url, requests)
}

/// The next request on a connection; none at its end.
fn heard(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        stream.read_line(&mut head).ok().filter(|read| *read > 0)?;
    }
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length: ")?
            .parse()
            .ok()
    });
    let mut content = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut content).ok()?;
    Some(Request { head, content })
}

/// A server that answers every request with 201.
pub(crate) fn creating() -> (String, Receiver<Request>) {
    conversing(|stream, told| {
        while let Some(request) = heard(stream) {
            let _ = told.send(request);
            let answer = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok";
            if stream.get_mut().write_all(answer).is_err() {
                return;
            }
        }
    })
}

/// The result of a run of one client that ended with this code.
fn load(url: &str, more: &[&str], code: i32) -> Value {
    let few = [
        "load",
        url,
        "--clients",
        "1",
        "--threads",
        "1",
        "--duration",
        "1s",
        "--json",
        "--lag-max",
        "60s",
    ];
    let output = weir(&[&few[..], more].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{more:?}: {errors} {said}");
    let result = lines(&said).remove(0);
    conforms("load-result.schema.json", std::slice::from_ref(&result));
    result
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn content_is_sent_with_its_length() {
    let dir = TempDir::new().expect("a folder");
    let file = dir.path().join("body");
    let long: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    fs::write(&file, &long).expect("written");
    let at_file = format!("@{}", file.display());
    for (flags, line, content) in [
        (&["--body", "a=b"][..], "POST / HTTP/1.1", &b"a=b"[..]),
        (&["--body", "", "--method", "PATCH"], "PATCH / HTTP/1.1", b""),
        (&["--method", "POST"], "POST / HTTP/1.1", b""),
        (&["--method", "PUT", "--body", &at_file], "PUT / HTTP/1.1", &long),
        (
            &["--method", "PUT", "--body", &at_file, "--mode", "http10"],
            "PUT / HTTP/1.0",
            &long,
        ),
        (&["--method", "REPORT", "--body", "x"], "REPORT / HTTP/1.1", b"x"),
    ] {
        let (url, requests) = creating();
        let result = load(&url, flags, 0);
        let request = requests.recv().expect("a request");
        assert_eq!(request.head.lines().next(), Some(line));
        assert!(
            request
                .head
                .contains(&format!("\r\nContent-Length: {}\r\n", content.len())),
            "{}",
            request.head
        );
        assert!(
            !request.head.to_ascii_lowercase().contains("expect"),
            "{}",
            request.head
        );
        assert!(request.content == content, "{flags:?}");
        assert!(requests.try_iter().all(|request| request.content == content));
        assert_eq!(result["method"], line.split(' ').next().expect("a method"));
        let said = flags.contains(&"--body").then_some(content.len());
        assert_eq!(result.get("body_bytes"), said.map(|bytes| json!(bytes)).as_ref());
        assert_eq!(result["accept_status"], "200-299");
        assert!(number(&result["files"]) > 0, "{result}");
        assert_eq!(number(&result["files_failed"]), 0, "{result}");
    }
    // A method without content does not speak of it.
    let (url, requests) = creating();
    load(&url, &["--method", "DELETE"], 0);
    let head = requests.recv().expect("a request").head;
    assert!(!head.contains("Content-Length"), "{head}");
}

/// Over HTTP/2, content of several windows arrives whole: a proxy passes it on to a server that says what it got.
#[test]
fn content_is_sent_over_http2() {
    let dir = TempDir::new().expect("a folder");
    let file = dir.path().join("body");
    let long: Vec<u8> = (0..1_500_000_u32).map(|n| (n % 249) as u8).collect();
    fs::write(&file, &long).expect("written");
    let at_file = format!("@{}", file.display());
    let (upstream, requests) = creating();
    let proxy = format!("--proxy=/={}", upstream.trim_end_matches('/'));
    let server = serving(TempDir::new().expect("a folder"), &[&proxy]);
    let result = load(&server.url, &["--http2", "--body", &at_file], 0);
    assert!(
        number(&result["files"]) > 0 && number(&result["files_failed"]) == 0,
        "{result}"
    );
    let first = requests.recv().expect("a request");
    assert!(first.head.starts_with("POST / HTTP/1.1"), "{}", first.head);
    assert!(first.content == long && requests.try_iter().all(|request| request.content == long));
    let result = load(&server.url, &["--http2", "--method", "POST"], 0);
    assert!(number(&result["files"]) > 0, "{result}");
}

/// A server that answers before it has read the content, and reads no more of it: the answer counts, and the run goes on.
#[test]
fn an_early_answer_counts() {
    let dir = TempDir::new().expect("a folder");
    let file = dir.path().join("body");
    fs::write(&file, vec![b'x'; 8 << 20]).expect("written");
    let at_file = format!("@{}", file.display());
    let (url, requests) = conversing(|stream, told| {
        let mut line = String::new();
        if stream.read_line(&mut line).is_ok_and(|read| read > 0) {
            let _ = told.send(Request {
                head: line,
                content: Vec::new(),
            });
            let answer = b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
            let _ = stream.get_mut().write_all(answer);
            // The client closes; nothing is read until then.
            let _ = stream.get_mut().shutdown(std::net::Shutdown::Write);
            let mut rest = [0; 1 << 16];
            while matches!(stream.read(&mut rest), Ok(1..)) {}
        }
    });
    let flags = ["--body", &at_file, "--accept-status", "413"];
    let long = [
        "load",
        &url,
        "--clients",
        "1",
        "--threads",
        "1",
        "--duration",
        "2s",
        "--json",
        "--lag-max",
        "60s",
    ];
    let (result, _) = crate::workload::result(&[&long[..], &flags].concat(), 0);
    let asked = 1 + requests.try_iter().count() as u64;
    let files = number(&result["files"]);
    assert!(files > 0 && files <= asked, "{result}");
    assert_eq!(result["errors"], json!({}), "{result}");
    assert_eq!(number(&result["statuses"]["413"]), files);
}

/// A request that may have had an effect is not repeated; one that can be repeated is.
#[test]
fn only_idempotent_requests_are_repeated() {
    let closing = || {
        conversing(|stream, told| {
            if let Some(request) = heard(stream) {
                let _ = told.send(request);
            }
        })
    };
    let (url, requests) = closing();
    let result = load(&url, &["--body", "x"], 3);
    let asked = requests.try_iter().count() as u64;
    let unanswered = number(&result["errors"]["unanswered"]);
    assert_eq!(
        (number(&result["resent"]), unanswered),
        (0, number(&result["files_failed"])),
        "{result}"
    );
    assert!(
        unanswered > 0 && unanswered <= asked && asked <= unanswered + 1,
        "{asked}: {result}"
    );
    let (url, _requests) = closing();
    let result = load(&url, &["--body", "x", "--method", "PUT"], 3);
    assert!(number(&result["resent"]) > 0, "{result}");
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let url = "http://localhost:1/";
    let dir = TempDir::new().expect("a folder");
    let file = dir.path().join("body");
    let sparse = fs::File::create(&file).expect("a file");
    sparse.set_len((64 << 20) + 1).expect("sparse");
    let long = format!("@{}", file.display());
    for (flags, fragment) in [
        (
            &["--method", "post"][..],
            "methods are case-sensitive; write POST",
        ),
        (&["--method", "CONNECT"], "opens a tunnel"),
        (&["--method", "A B"], "is not a method"),
        (
            &["--method", "TRACE", "--body", "x"],
            "must not have content; omit --body",
        ),
        (&["--body", "@/nowhere/at/all"], "cannot read `/nowhere/at/all`"),
        (&["--body", &long], "is longer than 64 MiB"),
        (
            &["--body", "x", "--mode", "pipelined"],
            "RFC 9112 section 9.3.2 advises against for POST",
        ),
    ] {
        let error = refused(&[&["load", url], flags].concat(), 2);
        assert!(error.contains(fragment), "{flags:?}: {error}");
    }
    let planned = printed(&[
        "load",
        "plan",
        url,
        "--rate",
        "50",
        "--duration",
        "100ms",
        "--body",
        "abc",
    ]);
    let planned = lines(&planned);
    conforms("load-plan.schema.json", &planned);
    assert!(
        !planned.is_empty()
            && planned
                .iter()
                .all(|line| line["method"] == "POST" && line["body_bytes"] == 3)
    );
}
