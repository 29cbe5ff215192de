//! Two exchanges at once, as streams of one connection have them: the second ends before the first.

use super::*;
use crate::access_log::Cut;
use crate::config::{Config, LogFormat};
use crate::context::Done;
use crate::entry::Content;
use crate::service::LogSink;
use crate::site::Source as Files;
use crate::{Cx, Server};
use http_semantics::field::{Fields, Line};
use http_semantics::request::Protocol;
use http_semantics::target::Target;
use runtime::session::Job as _;
use runtime::{Context as _, Service as _};
use std::sync::Mutex;
use units::{Duration, Seed, UnixTime};

static FILES: [(&str, &[u8]); 2] = [
    ("/first.txt", b"The first is asked first."),
    ("/second.txt", b"The second is answered first."),
];

#[derive(Debug, Default)]
struct Kept(Mutex<Vec<u8>>);

impl LogSink for Kept {
    fn write(&self, lines: Vec<u8>, _now: Instant) -> (Vec<u8>, u64) {
        self.0.lock().unwrap().extend(lines);
        (Vec::new(), 0)
    }
}

/// In cleartext, at a public address.
const WAY: Way = Way {
    is_secured: false,
    tls: None,
    is_admin: false,
};

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000) + Duration::from_millis(millis)
}

fn worker() -> (Cx, Arc<Kept>) {
    let config = Config {
        log_format: LogFormat::Json,
        ..Config::default()
    };
    let kept = Arc::new(Kept::default());
    let source = Files::Embedded {
        files: &FILES,
        modified: UnixTime::from_secs(784_111_777),
    };
    let server = Server::open(config, source, Some(kept.clone()), Seed(1)).unwrap();
    let mut cx = server.context(0);
    cx.turn(at(0), UnixTime::from_secs(1_000_000_000));
    (cx, kept)
}

/// A request of HTTP/2, which never was text.
fn request<'b, 's>(path: &'b str, lines: &'s [Line<'b>]) -> RequestHead<'b, 's> {
    RequestHead {
        method: Method::Get,
        method_name: "GET",
        target: Target::parse(path.as_bytes(), Method::Get).unwrap(),
        target_raw: path.as_bytes(),
        protocol: Protocol::Http2,
        fields: Fields::new(lines),
    }
}

fn wait(step: Step<'_>) -> Work {
    match step {
        Step::Wait(work, _) => work,
        other => panic!("{other:?}"),
    }
}

/// An answer as a session would send it: status, field lines, content.
#[derive(Debug)]
struct Sent {
    status: u16,
    lines: Vec<(String, String)>,
    content: Vec<u8>,
}

impl Sent {
    fn field(&self, name: &str) -> Option<&str> {
        let line = self.lines.iter().find(|(known, _)| known == name);
        line.map(|(_, value)| &**value)
    }
}

/// Takes the answer of an exchange, and composes its log line as for a header block of 50 bytes.
fn send(exchange: &mut Exchange, cx: &mut Cx, head: &RequestHead<'_, '_>, done: Done) -> Sent {
    let Done::Loaded(loaded) = done else {
        panic!("{done:?}");
    };
    let entry = exchange.found(cx, loaded);
    let (scope, desk) = cx.split();
    let asked = Asked::Request(head);
    let answer = match exchange.resume(scope, asked, &entry) {
        Step::Answer(answer) => answer,
        other => panic!("{other:?}"),
    };
    let list = match answer.head {
        Head::Prepared(representation) => representation.all_fields(),
        Head::Composed(lines) => lines,
    };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let lines = list.iter().chain(answer.more.iter());
    let lines = lines.map(|(name, value)| (text(name), text(value))).collect();
    let content = match &answer.source {
        Source::Entry(Content::Memory(bytes), offset) => {
            bytes[*offset as usize..(*offset + answer.len) as usize].to_vec()
        }
        Source::Page(page) => {
            let mut out = Vec::new();
            page.write(&mut out);
            out
        }
        other => panic!("{other:?}"),
    };
    let status = answer.status.as_u16();
    exchange.answered(
        (desk.journal, desk.clock),
        (asked, None, None),
        status,
        50,
        answer.len,
    );
    drop(answer);
    cx.journal.given(&mut exchange.slot, 50 + content.len() as u64);
    Sent {
        status,
        lines,
        content,
    }
}

fn log(mut cx: Cx, kept: &Kept) -> Vec<serde_json::Value> {
    cx.turn(at(5_000), UnixTime::from_secs(1_000_000_005));
    drop(cx);
    let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn two_exchanges_share_a_context_and_end_in_any_order() {
    let (mut cx, kept) = worker();
    let agent = [Line {
        name: "user-agent",
        value: b"first",
    }];
    let range = [
        Line {
            name: "range",
            value: b"bytes=4-9",
        },
        Line {
            name: "user-agent",
            value: b"second",
        },
    ];
    let (one, two) = (request("/first.txt", &agent), request("/second.txt?q", &range));
    let peer = "192.0.2.7".parse().unwrap();
    let mut first = Exchange::new(peer, WAY, at(0));
    let first_job = wait(first.begin(cx.split().0, &one));
    let mut second = Exchange::new(peer, WAY, at(10));
    let second_job = wait(second.begin(cx.split().0, &two));

    let sent_second = send(&mut second, &mut cx, &two, second_job.run());
    let tally = cx.journal.sent(&mut second.slot, at(30));
    assert_eq!((tally.bytes, tally.cut), (56, 0));
    let sent_first = send(&mut first, &mut cx, &one, first_job.run());
    let tally = cx.journal.sent(&mut first.slot, at(70));
    assert_eq!((tally.bytes, tally.cut), (75, 0));

    assert_eq!((sent_first.status, &sent_first.content[..]), (200, FILES[0].1));
    assert_eq!(
        (sent_second.status, &sent_second.content[..]),
        (206, &b"second"[..])
    );
    assert_eq!(sent_second.field("Content-Range"), Some("bytes 4-9/29"));
    assert_eq!(sent_first.field("Content-Range"), None);
    for sent in [&sent_first, &sent_second] {
        assert_eq!(sent.field("Content-Type"), Some("text/plain; charset=utf-8"));
        assert_eq!(sent.field("Accept-Ranges"), Some("bytes"));
        assert!(sent.field("ETag").is_some_and(|tag| tag.starts_with('"')));
    }
    assert_ne!(sent_first.field("ETag"), sent_second.field("ETag"));

    let lines = log(cx, &kept);
    assert_eq!(lines.len(), 2);
    for (line, target, agent, status, body, duration) in [
        (&lines[0], "/second.txt?q", "second", 206, 6, 20_000),
        (&lines[1], "/first.txt", "first", 200, 25, 70_000),
    ] {
        assert_eq!(line["target"], target);
        assert_eq!(line["version"], "HTTP/2.0");
        assert_eq!(line["user_agent"], agent);
        assert_eq!(
            (&line["status"], &line["body_bytes"]),
            (&status.into(), &body.into())
        );
        assert_eq!(line["duration_us"], duration);
        assert!(line.get("aborted").is_none());
    }
}

#[test]
fn an_exchange_that_is_cut_short_leaves_the_other_alone() {
    let (mut cx, kept) = worker();
    let (one, two) = (request("/first.txt", &[]), request("/nothing", &[]));
    let peer = "2001:db8::1".parse().unwrap();
    let mut first = Exchange::new(peer, WAY, at(0));
    let mut second = Exchange::new(peer, WAY, at(0));
    let first_job = wait(first.begin(cx.split().0, &one));
    let second_job = wait(second.begin(cx.split().0, &two));
    send(&mut first, &mut cx, &one, first_job.run());
    let sent = send(&mut second, &mut cx, &two, second_job.run());
    assert_eq!(sent.status, 404);
    assert!(String::from_utf8(sent.content).unwrap().contains("404 Not Found"));
    cx.journal.progress(first.slot, 57);
    let tally = cx.journal.lost(&mut first.slot, Cut::Peer, at(20));
    assert_eq!((tally.bytes, tally.cut), (57, 1));
    let tally = cx.journal.sent(&mut second.slot, at(40));
    assert_eq!(tally.cut, 0);
    let lines = log(cx, &kept);
    assert_eq!(
        (&lines[0]["target"], &lines[0]["aborted"]),
        (&"/first.txt".into(), &"peer".into())
    );
    assert_eq!(lines[0]["body_bytes"], 7);
    assert_eq!(
        (&lines[1]["target"], &lines[1]["status"]),
        (&"/nothing".into(), &404.into())
    );
    assert!(lines[1].get("aborted").is_none());
}

#[test]
fn an_exchange_whose_job_is_late_gets_an_error() {
    let (mut cx, _kept) = worker();
    let head = request("/first.txt", &[]);
    let mut exchange = Exchange::new("192.0.2.7".parse().unwrap(), WAY, at(0));
    let _job = wait(exchange.begin(cx.split().0, &head));
    let entry = exchange.late(&cx);
    match exchange.resume(cx.split().0, Asked::Request(&head), &entry) {
        Step::Answer(answer) => assert_eq!(answer.status.as_u16(), 503),
        other => panic!("{other:?}"),
    }
}
