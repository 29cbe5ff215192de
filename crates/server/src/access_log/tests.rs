//! Log lines as operators and their tools read them.

use super::*;
use http_semantics::field::Line as FieldLine;
use units::UnixTime;

fn clock() -> Clock {
    let mut clock = Clock::default();
    clock.set(UnixTime::from_secs(784_111_777));
    clock
}

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

fn request<'a>() -> Request<'a> {
    Request {
        peer: "192.0.2.7".parse().unwrap(),
        user: None,
        stream: None,
        started: at(100),
        line: RequestLine::Parsed {
            method: b"GET",
            target: b"/a?b",
            version: "HTTP/1.1",
        },
        host: Some(b"example.org"),
        referer: None,
        user_agent: Some(b"curl/8"),
        fields: None,
        is_secured: false,
        tls: None,
        cache: None,
        upstream: None,
        id: None,
        trace: None,
    }
}

fn logged(format: LogFormat, request: &Request<'_>, status: u16, body: u64, sent: Option<u64>) -> String {
    let mut journal = Journal::new(Some(format));
    let mut slot = Slot::NONE;
    journal.compose(&mut slot, &clock(), request, status, 100, body);
    journal.given(&mut slot, 100 + body);
    match sent {
        None => journal.sent(&mut slot, at(350)),
        Some(bytes) => {
            journal.progress(slot, bytes);
            journal.lost(&mut slot, Cut::File, at(350))
        }
    };
    assert_eq!(slot, Slot::NONE);
    String::from_utf8(journal.take(Vec::new())).unwrap()
}

#[test]
fn a_client_with_a_certificate_is_named() {
    let known = Request {
        user: Some(b"Alice A. \"x\"\x07"),
        ..request()
    };
    let line = logged(LogFormat::Common, &known, 200, 1, None);
    assert!(
        line.starts_with(r#"192.0.2.7 - Alice\x20A.\x20\"x\"\x07 [06/"#),
        "{line}"
    );
    let line = logged(LogFormat::Json, &known, 200, 1, None);
    assert!(line.contains(r#","user":"Alice A. \"x\"\u0007","#), "{line}");
}

#[test]
fn the_three_formats() {
    let r = request();
    assert_eq!(
        logged(LogFormat::Common, &r, 200, 1024, None),
        "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b HTTP/1.1\" 200 1024\n"
    );
    assert_eq!(
        logged(LogFormat::Combined, &r, 304, 0, None),
        "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b HTTP/1.1\" 304 - \"-\" \"curl/8\"\n"
    );
    assert_eq!(
        logged(LogFormat::Json, &r, 200, 1024, None),
        "{\"time\":\"1994-11-06T08:49:37Z\",\"peer\":\"192.0.2.7\",\"method\":\"GET\",\"target\":\"/a?b\",\
         \"version\":\"HTTP/1.1\",\"host\":\"example.org\",\"user_agent\":\"curl/8\",\"status\":200,\
         \"bytes\":1124,\"body_bytes\":1024,\"duration_us\":250}\n"
    );
}

/// A session that panics is ended, and that finishes its slot once more.
#[test]
fn a_line_that_panics_is_not_finished_twice() {
    let mut journal = Journal::new(Some(LogFormat::Common));
    let mut slot = Slot::NONE;
    journal.compose(&mut slot, &clock(), &request(), 200, 100, 0);
    journal.held[slot.0 as usize].text.clear();
    let sent = std::panic::AssertUnwindSafe(|| journal.sent(&mut slot, at(350)));
    assert!(std::panic::catch_unwind(sent).is_err(), "its text is missing");
    journal.lost(&mut slot, Cut::Peer, at(350));
    assert_eq!(slot, Slot::NONE);
}

#[test]
fn a_line_that_panics_leaves_nothing_in_its_slot() {
    let mut journal = Journal::new(Some(LogFormat::Common));
    let mut slot = Slot::NONE;
    journal.compose(&mut slot, &clock(), &request(), 200, 100, 0);
    let first = slot;
    let held = &mut journal.held[slot.0 as usize];
    held.text.truncate(20);
    held.marks.push((3, Variable::Time));
    let sent = std::panic::AssertUnwindSafe(|| journal.sent(&mut slot, at(350)));
    assert!(std::panic::catch_unwind(sent).is_err(), "its text is missing");
    journal.lost(&mut slot, Cut::Peer, at(350));
    journal.compose(&mut slot, &clock(), &request(), 200, 100, 1024);
    assert_eq!(slot, first, "the slot is used again");
    assert!(journal.held[slot.0 as usize].marks.is_empty());
    journal.given(&mut slot, 1124);
    journal.sent(&mut slot, at(350));
    let text = String::from_utf8(journal.take(Vec::new())).unwrap();
    assert_eq!(text, logged(LogFormat::Common, &request(), 200, 1024, None));
}

#[test]
fn an_answer_cut_short_is_logged_with_what_was_sent() {
    let r = request();
    assert!(logged(LogFormat::Common, &r, 200, 1024, Some(600)).ends_with(" 200 500\n"));
    assert!(logged(LogFormat::Common, &r, 200, 1024, Some(60)).ends_with(" 200 -\n"));
    assert!(
        logged(LogFormat::Json, &r, 200, 1024, Some(600))
            .ends_with("\"bytes\":600,\"body_bytes\":500,\"duration_us\":250,\"aborted\":\"file\"}\n")
    );
    assert!(!logged(LogFormat::Json, &r, 200, 1024, Some(1124)).contains("aborted"));
}

#[test]
fn pipelined_answers_are_cut_where_the_bytes_ended() {
    let mut journal = Journal::new(Some(LogFormat::Common));
    let mut slot = Slot::NONE;
    for _ in 0..3 {
        journal.compose(&mut slot, &clock(), &request(), 200, 100, 50);
    }
    journal.given(&mut slot, 450);
    journal.progress(slot, 150);
    journal.progress(slot, 120);
    let tally = journal.lost(&mut slot, Cut::Peer, at(200));
    assert_eq!((tally.bytes, tally.cut), (270, 2));
    let text = String::from_utf8(journal.take(Vec::new())).unwrap();
    let sizes: Vec<&str> = text.lines().map(|l| l.rsplit(' ').next().unwrap()).collect();
    assert_eq!(sizes, ["50", "20", "-"]);
}

#[test]
fn hostile_requests_stay_on_their_line() {
    let r = Request {
        line: RequestLine::Raw(b"GET /\" 200 1\n10.0.0.1 - - "),
        user_agent: Some(b"\"\r\n\x1b]0;x\x07"),
        upstream: None,
        host: Some(b"\xff\""),
        ..request()
    };
    for format in [LogFormat::Common, LogFormat::Combined, LogFormat::Json] {
        let text = logged(format, &r, 400, 0, None);
        assert_eq!(text.matches('\n').count(), 1);
        assert!(
            text.bytes().all(|b| b == b'\n' || (0x20..0x7f).contains(&b)),
            "{text:?}"
        );
    }
    let parsed: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json, &r, 400, 0, None)).unwrap();
    assert_eq!(parsed["status"], 400);
}

#[test]
fn lines_leave_after_a_second_or_when_many() {
    let mut journal = Journal::new(Some(LogFormat::Common));
    assert_eq!(
        (journal.wake(), journal.is_due(at(u64::MAX / 1_000))),
        (None, false)
    );
    let mut slot = Slot::NONE;
    journal.compose(&mut slot, &clock(), &request(), 200, 100, 50);
    assert_eq!(
        journal.wake(),
        None,
        "a line of a response being sent is not finished"
    );
    journal.sent(&mut slot, at(0));
    assert_eq!(journal.wake(), Some(at(1_000_000)));
    assert!(!journal.is_due(at(999_999)));
    assert!(journal.is_due(at(1_000_000)));
    for _ in 0..1_000 {
        journal.compose(&mut slot, &clock(), &request(), 200, 100, 50);
        journal.sent(&mut slot, at(0));
    }
    assert!(journal.is_due(at(1)));
    assert_eq!(
        journal.take(Vec::new()).iter().filter(|&&b| b == b'\n').count(),
        1_001
    );
    assert_eq!(journal.wake(), None);
}

#[test]
fn without_a_format_bytes_are_still_counted() {
    let mut journal = Journal::new(None);
    let mut slot = Slot::NONE;
    journal.compose(&mut slot, &clock(), &request(), 200, 100, 50);
    journal.given(&mut slot, 100);
    journal.part_sent(slot);
    journal.given(&mut slot, 50);
    journal.progress(slot, 20);
    assert_eq!(
        journal.lost(&mut slot, Cut::Peer, at(1)),
        Tally { bytes: 120, cut: 1 }
    );
    assert_eq!(
        journal.sent(&mut slot, at(1)),
        Tally::default(),
        "a free slot holds nothing"
    );
    assert!(journal.buffered().is_empty());
}

#[test]
fn slots_are_reused() {
    let mut journal = Journal::new(Some(LogFormat::Common));
    let (mut a, mut b) = (Slot::NONE, Slot::NONE);
    journal.compose(&mut a, &clock(), &request(), 200, 1, 1);
    journal.compose(&mut b, &clock(), &request(), 200, 1, 2);
    let first = a;
    journal.sent(&mut a, at(1));
    journal.compose(&mut a, &clock(), &request(), 200, 1, 3);
    assert_eq!(a, first);
    journal.sent(&mut b, at(1));
    journal.sent(&mut a, at(1));
    assert_eq!(journal.held.len(), 2);
}

#[test]
fn addresses_read_as_people_write_them() {
    for (ip, want) in [
        ("10.0.0.255", "10.0.0.255 "),
        ("9.99.100.199", "9.99.100.199 "),
        ("255.255.255.255", "255.255.255.255 "),
        ("2001:db8::1", "2001:db8::1 "),
        ("::ffff:192.0.2.1", "192.0.2.1 "),
    ] {
        let r = Request {
            peer: ip.parse().unwrap(),
            ..request()
        };
        assert!(logged(LogFormat::Common, &r, 200, 0, None).starts_with(want));
    }
}

fn by_template(template: &str, request: &Request<'_>, sent: Option<u64>) -> String {
    let mut journal = Journal::new(Some(LogFormat::Combined));
    journal.set_template(Some(template.parse().unwrap()));
    let mut clock = clock();
    clock.set(UnixTime {
        secs: 784_111_777,
        nanos: 42_900_000,
    });
    let mut slot = Slot::NONE;
    journal.compose(&mut slot, &clock, request, 200, 100, 1024);
    journal.given(&mut slot, 1124);
    match sent {
        None => journal.sent(&mut slot, at(12_350)),
        Some(bytes) => {
            journal.progress(slot, bytes);
            journal.lost(&mut slot, Cut::Peer, at(12_350))
        }
    };
    String::from_utf8(journal.take(Vec::new())).unwrap()
}

#[test]
fn of_many_responses_one_is_logged_and_every_error() {
    let mut journal = Journal::new(Some(LogFormat::Common));
    journal.set_sample(3);
    let mut slot = Slot::NONE;
    for status in [200, 200, 404, 304, 200, 500, 200, 200, 200] {
        journal.compose(&mut slot, &clock(), &request(), status, 100, 50);
    }
    journal.given(&mut slot, 9 * 150);
    // The last response is cut: the lines before it are of whole ones.
    journal.progress(slot, 8 * 150 + 110);
    let tally = journal.lost(&mut slot, Cut::Peer, at(200));
    assert_eq!((tally.bytes, tally.cut), (8 * 150 + 110, 1));
    let text = String::from_utf8(journal.take(Vec::new())).unwrap();
    let ends: Vec<&str> = text
        .lines()
        .map(|line| line.rsplit('"').next().unwrap())
        .collect();
    assert_eq!(ends, [" 404 50", " 304 50", " 500 50", " 200 50"]);
}

#[test]
fn a_template_makes_a_line() {
    let r = request();
    for (template, line) in [
        (
            "$time_ms [$time_clf] $epoch_ms",
            "1994-11-06T08:49:37.042Z [06/Nov/1994:08:49:37 +0000] 784111777042",
        ),
        (
            "$peer $user \"$request\" $status $body_bytes",
            "192.0.2.7 - \"GET /a?b HTTP/1.1\" 200 1024",
        ),
        (
            "$method $path $query $host $referer $user_agent",
            "GET /a b example.org - curl/8",
        ),
        ("$duration_ms/$duration_us${aborted}!", "12.250/12250-!"),
        ("$upstream $upstream_ms $stream $$", "- - - $"),
        (
            "{\"t\":\"$time\",\"ms\":$duration_ms,\"up\":$upstream_us,\"ref\":\"$referer\",\"cut\":\"$aborted\"}",
            "{\"t\":\"1994-11-06T08:49:37Z\",\"ms\":12.250,\"up\":null,\"ref\":\"\",\"cut\":\"\"}",
        ),
    ] {
        assert_eq!(by_template(template, &r, None), format!("{line}\n"));
    }
    assert_eq!(
        by_template("$bytes $body_bytes $aborted", &r, Some(600)),
        "600 500 peer\n"
    );
}

#[test]
fn a_template_shows_fields_and_how_the_request_came() {
    let line = |name: &'static str, value: &'static [u8]| FieldLine { name, value };
    let lines = [
        line("X-Forwarded-For", b"192.0.2.1"),
        line("cookie", b"a=1"),
        line("x-forwarded-for", b"\"192.0.2.2\x07"),
        line("Cookie", b"b=2"),
        line("X-Empty", b""),
    ];
    let fields = Fields::new(&lines);
    let r = Request {
        fields: Some(&fields),
        is_secured: true,
        tls: Some(TlsVersion::V13),
        cache: Some("uri-miss"),
        ..request()
    };
    let template =
        "$scheme $tls_version $cache_status $http_x_forwarded_for|$http_cookie|$http_x_empty$http_x_none";
    assert_eq!(
        by_template(template, &r, None),
        "https TLSv1.3 uri-miss 192.0.2.1, \\\"192.0.2.2\\x07|a=1; b=2|--\n"
    );
    let json = "{\"f\":\"$http_x_forwarded_for\",\"n\":\"$http_x_none\",\"c\":\"$cache_status\"}";
    let text = by_template(json, &r, None);
    let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed["f"], "192.0.2.1, \"192.0.2.2\u{7}");
    assert_eq!((&parsed["n"], &parsed["c"]), (&"".into(), &"uri-miss".into()));
    // In cleartext, without a cache, or where no request could be read.
    assert_eq!(by_template(template, &request(), None), "http - - -|-|--\n");
}

#[test]
fn lines_of_a_template_keep_their_values_apart() {
    let mut journal = Journal::new(Some(LogFormat::Json));
    journal.set_template(Some("<$bytes|$status|$body_bytes>".parse().unwrap()));
    let mut slot = Slot::NONE;
    let mut behind = Slot::NONE;
    journal.compose(&mut slot, &clock(), &request(), 200, 100, 50);
    journal.compose(&mut behind, &clock(), &request(), 404, 100, 5);
    // The format of the lines under way stays.
    journal.set_template(None);
    journal.compose(&mut behind, &clock(), &request(), 304, 100, 0);
    journal.join(&mut slot, behind);
    journal.given(&mut slot, 355);
    journal.sent(&mut slot, at(200));
    let text = String::from_utf8(journal.take(Vec::new())).unwrap();
    let (first, last) = text.split_once("{").unwrap();
    assert_eq!(first, "<150|200|50>\n<105|404|5>\n");
    assert!(last.contains("\"status\":304,\"bytes\":100,"), "{last}");
}

#[test]
fn hostile_requests_stay_on_their_line_of_a_template() {
    let r = Request {
        line: RequestLine::Raw(b"GET /\" 200 1\n10.0.0.1 - - "),
        user_agent: Some(b"\"\r\n\x1b]0;x\x07"),
        host: Some(b"\xff\""),
        ..request()
    };
    for template in [
        "$request $user_agent $host",
        "{\"r\":\"$request\",\"u\":\"$user_agent\",\"h\":\"$host\"}",
    ] {
        let text = by_template(template, &r, None);
        assert_eq!(text.matches('\n').count(), 1);
        assert!(
            text.bytes().all(|b| b == b'\n' || (0x20..0x7f).contains(&b)),
            "{text:?}"
        );
        if template.starts_with('{') {
            serde_json::from_str::<serde_json::Value>(&text).unwrap();
        }
    }
}

/// The spans that a journal has, each as its trace ID, its length in nanoseconds and the bytes of its attributes.
fn spans(journal: &mut Journal) -> Vec<(u64, u64, Vec<u8>)> {
    use otlp::wire::{Fields, Value};
    let Some((spans, count)) = journal.take_spans() else {
        return Vec::new();
    };
    let spans: Vec<_> = Fields(&spans)
        .map(|field| {
            let (2, Value::Bytes(span)) = field else {
                panic!("{field:?}")
            };
            let (mut trace, mut start, mut end, mut attributes) = (0, 0, 0, Vec::new());
            for field in Fields(span) {
                match field {
                    (1, Value::Bytes(id)) => trace = u64::from_be_bytes(id[8..].try_into().unwrap()),
                    (7, Value::Fixed64(time)) => start = time,
                    (8, Value::Fixed64(time)) => end = time,
                    (9, Value::Bytes(attribute)) => attributes.extend_from_slice(attribute),
                    _ => {}
                }
            }
            (trace, end - start, attributes)
        })
        .collect();
    assert_eq!(spans.len(), count as usize);
    spans
}

#[test]
fn a_recorded_request_has_a_span_with_or_without_a_log() {
    let traces = [1, 2, 3].map(|bits| Trace::begun(bits, bits != 2));
    for format in [None, Some(LogFormat::Json)] {
        let mut journal = Journal::new(format);
        journal.set_spans(true);
        journal.set_time(at(300), UnixTime::from_secs(784_111_777));
        assert!(journal.is_on());
        // The third response comes from another slot, as those of HTTP/2 do.
        let (mut slot, mut behind) = (Slot::NONE, Slot::NONE);
        for (number, trace) in traces.iter().enumerate() {
            let r = Request {
                trace: Some(trace),
                ..request()
            };
            let slot = if number < 2 { &mut slot } else { &mut behind };
            journal.compose(slot, &clock(), &r, 200, 100, 50);
            journal.given(slot, 150);
        }
        journal.join(&mut slot, behind);
        journal.progress(slot, 150 + 150 + 110);
        assert!(spans(&mut journal).is_empty(), "not before the end");
        let tally = journal.lost(&mut slot, Cut::Upstream, at(350));
        assert_eq!((tally.bytes, tally.cut), (410, 1));
        assert!(journal.wake().is_some());
        let got = spans(&mut journal);
        assert_eq!(
            got.iter().map(|span| (span.0, span.1)).collect::<Vec<_>>(),
            [(1, 250_000), (3, 250_000)]
        );
        let has = |at: usize, part: &str| got[at].2.windows(part.len()).any(|some| some == part.as_bytes());
        assert!(has(0, "https") && has(0, "/a") && !has(0, "?b") && !has(0, "error.type"));
        assert!(has(1, "error.type") && has(1, "weir.response.aborted"));
        let lines = String::from_utf8(journal.take(Vec::new())).unwrap();
        let is_logged = format.is_some();
        assert_eq!(lines.lines().count(), if is_logged { 3 } else { 0 });
        let ids = format!(",\"trace_id\":\"{:032x}\",\"span_id\":\"{:016x}\",", 2, 2);
        assert_eq!(
            lines.contains(&ids),
            is_logged,
            "also of a trace that is not recorded: {lines}"
        );
        assert_eq!(journal.wake(), None);
    }
}

#[test]
fn a_call_that_failed_lasts_until_its_failure() {
    let trace = Trace::begun(1, true);
    let mut journal = Journal::new(None);
    journal.set_spans(true);
    journal.set_time(at(900), UnixTime::from_secs(784_111_777));
    let call = |status, failure| Call {
        began: at(200),
        is_secured: true,
        target: b"/x?secret".as_slice().into(),
        status,
        failure,
    };
    for (call, target, length, parts) in [
        (
            call(0, Some("timeout")),
            "https://a.test:443",
            300_000,
            ["https://a.test:443/x", "timeout"],
        ),
        (
            call(404, None),
            "10.0.0.1:80",
            700_000,
            ["https://10.0.0.1:80/x", "404"],
        ),
        (
            call(200, Some("truncated")),
            "h2c+unix:/run/a.sock",
            700_000,
            ["/run/a.sock", "truncated"],
        ),
    ] {
        let upstream = Upstream {
            target: &target,
            took: Duration::from_micros(300),
            call: Some(&call),
        };
        let r = Request {
            trace: Some(&trace),
            upstream: Some(&upstream),
            ..request()
        };
        let mut slot = Slot::NONE;
        journal.compose(&mut slot, &clock(), &r, 502, 100, 50);
        journal.given(&mut slot, 150);
        journal.sent(&mut slot, at(950));
        let got = spans(&mut journal);
        assert_eq!(
            got.iter().map(|span| span.1).collect::<Vec<_>>(),
            [length, 850_000],
            "{target}"
        );
        let attributes = String::from_utf8_lossy(&got[0].2).into_owned();
        for part in parts {
            assert!(attributes.contains(part), "{part}: {attributes}");
        }
        assert!(!attributes.contains("secret"), "{attributes}");
    }
}
