//! What `weir load` says of replies that are no plain good files, and what its requests may say: statuses, redirects, bytes
//! that are no HTTP, replies cut short, `--header`, `--method`.

use crate::fixture::served;
use crate::workload::{conforms, lines, refused, weir};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use tempfile::TempDir;

/// What a server does with a request, given its head: what it sends, and whether it closes then.
pub(super) type Answer = fn(&str) -> (String, bool);

/// A server that answers so; and the heads of the requests it had.
pub(super) fn answering(answer: Answer) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let (told, heads) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let told = told.clone();
            std::thread::spawn(move || serve(stream, answer, &told));
        }
    });
    (url, heads)
}

fn serve(mut stream: TcpStream, answer: Answer, told: &Sender<String>) {
    let (mut said, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = stream.read(&mut piece) {
        said.extend_from_slice(&piece[..n]);
        while let Some(at) = said.windows(4).position(|four| four == b"\r\n\r\n") {
            let head: Vec<u8> = said.drain(..at + 4).collect();
            let head = String::from_utf8_lossy(&head).into_owned();
            let (reply, closes) = answer(&head);
            // Nobody may be interested in what was asked.
            let _ = told.send(head);
            if stream.write_all(reply.as_bytes()).is_err() {
                return;
            }
            if closes {
                let _ = stream.shutdown(std::net::Shutdown::Write);
                // Reads what is left, so that closing does not reset what was sent.
                while matches!(stream.read(&mut piece), Ok(1..)) {}
                return;
            }
        }
    }
}

/// A whole reply.
pub(super) fn reply(line: &str, fields: &str, content: &str) -> String {
    let length = content.len();
    format!("HTTP/1.1 {line}\r\n{fields}Content-Length: {length}\r\n\r\n{content}")
}

/// The result of a run of one client that ended with this code, and why it failed.
fn load(url: &str, more: &[&str], code: i32) -> (Value, String) {
    let few = [
        "load",
        url,
        "--clients",
        "1",
        "--threads",
        "1",
        "--duration",
        "200ms",
    ];
    crate::workload::result(&[&few[..], &["--json", "--lag-max", "60s"], more].concat(), code)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn sum(counts: &Value) -> u64 {
    counts.as_object().expect("counts").values().map(number).sum()
}

#[test]
fn answers_are_counted_by_status() {
    let (url, _) = answering(|head| match head.split(' ').nth(1) {
        Some("/missing") => (reply("404 Not Found", "", "no"), false),
        Some("/busy") => (reply("503 Service Unavailable", "", "later"), false),
        Some("/empty") => ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), false),
        _ => (reply("200 OK", "", "yes"), false),
    });
    let dir = TempDir::new().expect("a folder");
    let path = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (urls, csv) = (path("urls"), path("r.csv"));
    fs::write(&urls, "/missing\n/good\n/busy\n/empty\n").expect("written");
    let (result, why) = load(&url, &["--urls", &urls, "--csv", &csv], 3);
    let statuses = &result["statuses"];
    let of = |status: &str| number(&statuses[status]);
    let kinds: Vec<&String> = statuses.as_object().expect("counts").keys().collect();
    assert_eq!(kinds, ["200", "204", "404", "503"]);
    assert_eq!(
        sum(statuses),
        number(&result["files"]) + number(&result["files_failed"])
    );
    assert_eq!(
        (of("200"), &result["record"]["statuses"]),
        (number(&result["files"]), statuses)
    );
    assert_eq!(
        result["errors"],
        json!({"status": of("204") + of("404") + of("503")})
    );
    assert_eq!(
        result["objects"], result["files"],
        "an object of a bad file is not complete"
    );
    for fragment in [
        "files failed",
        "responses were",
        &format!("404 ({})", of("404")),
        "204 (",
    ] {
        assert!(why.contains(fragment), "{fragment}: {why}");
    }
    let table = fs::read_to_string(&csv).expect("a table");
    let column = |name: &str| -> u64 {
        let at = table
            .lines()
            .next()
            .and_then(|head| head.split(',').position(|cell| cell == name));
        let cells = table
            .lines()
            .skip(1)
            .map(|row| row.split(',').nth(at.expect(name)));
        cells
            .map(|cell| cell.expect(name).parse::<u64>().expect("a number"))
            .sum()
    };
    // The table ends with the measured time; the last reply to the only client may come after it.
    let [redirects, missing, busy] = ["replies_3xx", "replies_4xx", "replies_5xx"].map(column);
    assert_eq!(redirects, 0);
    let all = (of("404"), of("503"));
    assert!(
        missing <= all.0 && busy <= all.1 && missing + busy + 1 >= all.0 + all.1,
        "{missing}, {busy} of {all:?}"
    );
    // Who measures such answers on purpose says so.
    let accepted = ["--urls", &urls, "--accept-status", "2xx,404,503"];
    let (result, _) = load(&url, &accepted, 0);
    assert_eq!(
        (number(&result["files_failed"]), &result["accept_status"]),
        (0, &json!("200-299,404,503"))
    );
    let words = weir(
        &[
            &[
                "load",
                &url,
                "--clients",
                "1",
                "--duration",
                "200ms",
                "--lag-max",
                "60s",
            ],
            &accepted[..],
        ]
        .concat(),
    );
    let words = String::from_utf8_lossy(&words.stdout);
    assert!(
        words.contains("\n  responses: ") && words.contains(" with 404, "),
        "{words}"
    );
    let error = refused(&["load", &url, "--accept-status", "200-100"], 2);
    assert!(error.contains("200-399"), "{error}");
}

#[test]
fn a_redirect_is_no_good_file_and_says_where_it_leads() {
    let (url, _) = answering(|_| {
        (
            reply(
                "301 Moved Permanently",
                "Location: http://h.example/there/\r\n",
                "",
            ),
            false,
        )
    });
    let (result, why) = load(&url, &[], 3);
    let all = number(&result["statuses"]["301"]);
    assert_eq!(
        (number(&result["files"]), number(&result["files_failed"])),
        (0, all)
    );
    let sentence = format!(
        "all {all} responses were 301 to http://h.example/there/; redirects are not followed: use that URL"
    );
    assert!(why.contains(&sentence), "{why}");
    assert_eq!(result["record"]["refused"]["301"]["count"], all);
    let (result, _) = load(&url, &["--accept-status", "200-399"], 0);
    assert_eq!(number(&result["files"]), number(&result["statuses"]["301"]));
    // What was asked for is a good answer: 304 to a condition, 206 to a range.
    let (url, _) = answering(|head| match head.contains("If-None-Match: \"x\"\r\n") {
        true => ("HTTP/1.1 304 Not Modified\r\n\r\n".to_owned(), false),
        false => (
            reply("206 Partial Content", "Content-Range: bytes 0-1/9\r\n", "ab"),
            false,
        ),
    });
    load(&url, &["-H", "If-None-Match: \"x\""], 0);
    load(&url, &["--header", "Range: bytes=0-1"], 0);
    load(&url, &[], 3);
}

#[test]
fn bytes_behind_a_reply_make_a_run_invalid() {
    let (url, _) = answering(|_| {
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokEX\x01RA".to_owned(),
            false,
        )
    });
    for mode in ["serial", "http10", "pipelined", "early-close"] {
        let (result, why) = load(&url, &["--mode", mode], 3);
        let breaches = number(&result["errors"]["protocol"]);
        assert!(breaches > 0, "{mode}: {result}");
        assert_eq!(result["record"]["breach"]["seen"], "EX\\x01RA", "{mode}");
        let sentence = format!("{breaches} times, data that is not HTTP arrived");
        assert!(
            why.contains(&sentence) && why.contains("`EX\\\\x01RA`"),
            "{mode}: {why}"
        );
    }
    // Allowed to fail, it is still counted and shown.
    let (result, _) = load(&url, &["--failures-max", "1"], 0);
    assert!(number(&result["errors"]["protocol"]) > 0);
    let (url, _) = answering(|_| ("SSH-2.0-x\r\n".to_owned(), false));
    let (_, why) = load(&url, &[], 3);
    assert!(why.contains("not HTTP: `SSH-2.0-x\\\\r\\\\n`"), "{why}");
}

/// A trial whose slowest objects were never complete meets nothing, however quick the others were: they may be the slowest of all.
#[test]
fn a_search_is_not_content_with_the_quick_ones_alone() {
    let (url, _) = answering(|head| match head.split(' ').nth(1) {
        // As long as the program lives.
        Some("/never") => loop {
            std::thread::park();
        },
        _ => (reply("200 OK", "", "hi"), false),
    });
    let dir = TempDir::new().expect("a folder");
    let path = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let urls = path("urls");
    fs::write(&urls, "/quick\n/never\n").expect("written");
    // One client: there is no smaller number to go on with.
    let output = weir(&[
        "--json",
        "load",
        &url,
        "--urls",
        &urls,
        "--clients",
        "1",
        "--threads",
        "1",
        "--duration",
        "300ms",
        "--grace",
        "100ms",
        "--lag-max",
        "60s",
        "--slo",
        "max<1h",
    ]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let said = lines(&said);
    let (trial, found) = (&said[0], &said[1]);
    conforms("load-search.schema.json", std::slice::from_ref(found));
    // What was measured keeps the objective, in a run that can be trusted.
    assert!(trial["response_ms"].as_f64() < Some(3.6e6), "{trial}");
    assert_eq!(
        [&trial["valid"], &trial["met"], &trial["overloaded"]],
        [&json!(true), &json!(false), &json!(true)],
        "{trial}"
    );
    let why = found["said"].as_str().expect("a sentence");
    assert!(
        why.starts_with("no tested number of clients meets max < 3600 s: with 1 client, not every request is answered: 1 of 2 objects"),
        "{why}"
    );
    assert_eq!((said.len(), &found["stop"]), (3, &json!("missed")));
}

#[test]
fn counts_of_replies_cut_short_agree() {
    let (url, _) = answering(|_| {
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf".to_owned(),
            true,
        )
    });
    for mode in ["serial", "http10", "pipelined"] {
        let (result, why) = load(&url, &["--mode", mode], 3);
        let cut = number(&result["errors"]["truncated"]);
        assert!(
            cut > 0 && why.contains(&format!("{cut} responses were truncated")),
            "{mode}: {why}"
        );
        // The last may be under way when patience ends, as may its connection.
        for name in ["files_failed", "closed_by_server", "connections"] {
            let count = number(&result[name]);
            assert!(
                (cut..=cut + 1).contains(&count),
                "{mode}: {name} {count}, {cut} cut short"
            );
        }
        assert_eq!(
            (number(&result["resent"]), sum(&result["statuses"])),
            (0, 0),
            "{mode}"
        );
    }
}

#[test]
fn requests_say_what_they_were_told_to() {
    let (url, heads) = answering(|head| match head.split(' ').next() {
        Some("HEAD") => (
            "HTTP/1.1 200 OK\r\nContent-Length: 5000000000\r\n\r\n".to_owned(),
            false,
        ),
        _ => (reply("200 OK", "", "hi"), false),
    });
    let more = [
        "-H",
        "Host: www.example.org",
        "--header",
        "X-A:  b",
        "-H",
        "user-agent: me",
        "--method",
        "HEAD",
    ];
    let (result, _) = load(&url, &more, 0);
    assert_eq!(
        heads.recv().expect("a request"),
        "HEAD / HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: me\r\nX-A: b\r\n\r\n"
    );
    assert_eq!(result["method"], "HEAD");
    assert_eq!(
        result["headers"],
        json!(["Host: www.example.org", "X-A: b", "user-agent: me"])
    );
    assert!(number(&result["files"]) > 1);
    assert_eq!(
        (number(&result["content_bytes"]), &result["accept_status"]),
        (0, &json!("200"))
    );
    let (plain, _) = load(&url, &[], 0);
    assert_ne!(plain["plan"], result["plan"], "something else is asked for");
    for (line, fragment) in [
        ("Content-Length: 3", "the content decides it"),
        ("connection: close", "protocol mode"),
        ("Transfer-Encoding: chunked", "with its length"),
        ("X: a\nY: b", "control character"),
        ("nonsense", "Name: value"),
    ] {
        let error = refused(&["load", &url, "-H", line], 2);
        assert!(error.contains(fragment), "{line}: {error}");
    }
    let error = refused(&["load", &url, "-H", "Host: a", "-H", "Host: b"], 2);
    assert!(error.contains("`Host` is given twice"), "{error}");
}

/// The lengths that answers to HEAD say are held against the manifest, and the plan tells what is asked.
#[test]
fn heads_of_a_site_are_asked_for() {
    let site = served(&["webstone"]);
    let run = ["--site", site.path(), "--method", "HEAD"];
    let (result, _) = load(&site.url, &run, 0);
    assert!(number(&result["files"]) > 1);
    assert_eq!(number(&result["content_bytes"]), 0);
    let manifest = site.dir.path().join("manifest.json");
    let mut told: Value = serde_json::from_slice(&fs::read(&manifest).expect("a manifest")).expect("JSON");
    for file in told["files"].as_array_mut().expect("files") {
        file["bytes"] = json!(number(&file["bytes"]) + 1);
    }
    fs::write(&manifest, told.to_string()).expect("written");
    let (result, why) = load(&site.url, &run, 3);
    assert!(
        why.contains("differ in length from the manifest; the first was `/file")
            && why.contains(" bytes instead of "),
        "{why} {result}"
    );
    let error = refused(&[&["load", &site.url, "--verify"], &run[..]].concat(), 2);
    assert!(error.contains("a response to HEAD has none"), "{error}");
    let plan = [
        "load",
        "plan",
        "--duration",
        "100ms",
        "--clients",
        "1",
        "-H",
        "A: b",
    ];
    let planned = lines(&crate::workload::printed(&[&plan[..], &run[..]].concat()));
    conforms("load-plan.schema.json", &planned);
    assert!(
        planned
            .iter()
            .all(|line| line["method"] == "HEAD" && line["headers"] == json!(["A: b"]))
    );
}
