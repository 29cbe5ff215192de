//! When connections continue, when they end, and how.

use super::rig::{End, Rig, answers, ask, exchange, file};
use crate::config::{Config, Http2};
use runtime::Context as _;
use runtime::session::Loss;
use units::Duration;

#[test]
fn both_versions_have_their_rule() {
    for (request, end, line) in [
        ("GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n", End::Open, None),
        (
            "GET /digits.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            End::Closed,
            Some("close"),
        ),
        (
            "GET /digits.bin HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n",
            End::Closed,
            Some("close"),
        ),
        ("GET /digits.bin HTTP/1.0\r\n\r\n", End::Closed, Some("close")),
        (
            "GET /digits.bin HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            End::Open,
            Some("keep-alive"),
        ),
        (
            "GET /digits.bin HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
            End::Open,
            Some("keep-alive"),
        ),
        ("GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", End::Open, None),
        ("POST / HTTP/1.1\r\nHost: a\r\n\r\n", End::Open, None),
        ("GET / HTTP/1.1\r\n\r\n", End::HalfClosed, Some("close")),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nbad header: x\r\n\r\n",
            End::HalfClosed,
            Some("close"),
        ),
        (
            "GET / HTTP/3.0\r\nHost: a\r\n\r\n",
            End::HalfClosed,
            Some("close"),
        ),
    ] {
        let (text, got) = ask(request);
        assert_eq!(got, end, "{request}");
        let all = answers(text.as_bytes(), |_| false);
        assert_eq!((all.len(), all[0].field("connection")), (1, line), "{request}");
    }
}

#[test]
fn the_last_request_of_a_connection_is_told() {
    let configure = |c: &mut Config| c.max_requests_per_connection = 2;
    let input = "GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3);
    let (text, end) = exchange(configure, input.as_bytes());
    let all = answers(text.as_bytes(), |_| false);
    assert_eq!(all.len(), 2);
    assert_eq!(
        (all[0].field("connection"), all[1].field("connection")),
        (None, Some("close"))
    );
    assert_eq!(end, End::HalfClosed, "input may be in flight: no reset");
}

#[test]
fn what_is_owed_is_sent_though_the_peer_closed_its_half() {
    for count in [1, 3] {
        let mut rig = Rig::new();
        rig.stalled = true;
        let input = "GET /big.png HTTP/1.1\r\nHost: a\r\n\r\n".repeat(count);
        rig.send(input.as_bytes());
        assert_eq!(rig.end, End::Blocked);
        rig.eof();
        rig.unstall();
        assert_eq!(rig.end, End::Closed);
        let all = answers(&rig.out, |_| false);
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|a| a.body == file("/big.png")));
    }
    let mut rig = Rig::new();
    rig.eof();
    assert_eq!((rig.end, rig.out.len()), (End::Closed, 0), "there was no request");
}

#[test]
fn a_request_cut_short_by_the_peer_is_400() {
    for input in [
        "GET / HT",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab",
    ] {
        let mut rig = Rig::new();
        rig.send(input.as_bytes());
        rig.eof();
        assert!(rig.text().starts_with("HTTP/1.1 400 "), "{input}: {}", rig.text());
        assert_eq!(rig.end, End::Closed, "nothing more can come");
    }
}

/// The preface of HTTP/2 is under way, or TLS agrees on HTTP/2 later, when the server is told to end.
#[test]
fn http2_that_begins_after_the_end_was_announced_announces_it() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    // A type of frame, its flags and the stream follow the length.
    const GOAWAY: &[u8] = &[7, 0, 0, 0, 0, 0];
    let announces = |rig: &Rig| rig.out.windows(GOAWAY.len()).any(|part| part == GOAWAY);
    for (at, hastily) in [(4, false), (4, true), (0, false)] {
        let mut rig = Rig::with(|config| config.http2 = Http2::All);
        rig.send(&PREFACE[..at]);
        match hastily {
            true => rig.drain(),
            false => rig.retire(),
        }
        assert_eq!((rig.end, announces(&rig)), (End::Open, false));
        rig.send(&[&PREFACE[at..], SETTINGS].concat());
        assert_eq!((rig.end, announces(&rig)), (End::Open, true), "{at} {hastily}");
    }
    let mut rig = Rig::with(|config| config.http2 = Http2::All);
    rig.retire();
    rig.agree_on_http2();
    rig.send(&[PREFACE, SETTINGS].concat());
    assert_eq!((rig.end, announces(&rig)), (End::Open, true));
}

#[test]
fn draining_finishes_what_is_owed() {
    let mut rig = Rig::new();
    rig.drain();
    assert_eq!(rig.end, End::Closed, "idle");

    let mut rig = Rig::new();
    rig.send(b"GET /digits.bin HTTP/1.1\r\n");
    rig.drain();
    assert_eq!(rig.end, End::Open, "a request has begun");
    rig.send(b"Host: a\r\n\r\n");
    let all = answers(&rig.out, |_| false);
    assert_eq!((all[0].status, all[0].field("connection")), (200, Some("close")));
    assert_eq!(rig.end, End::HalfClosed);

    let mut rig = Rig::new();
    rig.stalled = true;
    rig.send(b"GET /big.png HTTP/1.1\r\nHost: a\r\n\r\n");
    rig.drain();
    assert_eq!(rig.end, End::Blocked);
    rig.unstall();
    assert_eq!(
        (rig.end, answers(&rig.out, |_| false)[0].body.len()),
        (End::Closed, 100_000)
    );
}

#[test]
fn a_lingering_connection_discards_and_ends_with_the_peer() {
    let mut rig = Rig::new();
    rig.send(b"BAD\r\n\r\n");
    let before = rig.out.len();
    assert_eq!(rig.end, End::HalfClosed);
    rig.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((rig.end, rig.out.len()), (End::HalfClosed, before));
    rig.eof();
    assert_eq!(rig.end, End::Closed);
}

#[test]
fn a_file_that_ends_early_ends_the_connection() {
    let mut rig = Rig::new();
    rig.stalled = true;
    rig.send(b"GET /big.png HTTP/1.1\r\nHost: a\r\n\r\n");
    rig.progress(5_000);
    rig.lose(Loss::File(0));
    assert_eq!(
        (rig.end, rig.out.len()),
        (End::Closed, 0),
        "no padding, no next request"
    );
    let totals = rig.server.totals();
    assert_eq!(
        (totals.truncated, totals.aborted, totals.bytes_sent),
        (1, 1, 5_000)
    );
    assert!(rig.log().contains("\"bytes\":5000,"));
    assert!(rig.lines.text().contains("\"aborted\":\"file\""));
}

#[test]
fn addresses_have_a_bound_and_get_it_back() {
    use runtime::{Service as _, Session as _};
    let mut rig = Rig::with(|c| c.max_connections_per_address = Some(2));
    let peer = super::rig::peer();
    let mut second = rig
        .server
        .accept(&mut rig.cx, &peer, rig.now)
        .expect("two are allowed");
    assert!(rig.server.accept(&mut rig.cx, &peer, rig.now).is_none());
    let other = runtime::Accepted::at_first("192.0.2.8:1".parse().unwrap());
    let mut third = rig
        .server
        .accept(&mut rig.cx, &other, rig.now)
        .expect("another address");
    assert_eq!(
        (rig.server.open_connections(), rig.server.open_addresses()),
        (3, 2)
    );
    second.closed(&mut rig.cx, rig.now);
    third.closed(&mut rig.cx, rig.now);
    let mut again = rig
        .server
        .accept(&mut rig.cx, &peer, rig.now)
        .expect("one was given back");
    again.closed(&mut rig.cx, rig.now);
    let totals = rig.server.totals();
    assert_eq!(
        (totals.accepted, totals.closed, totals.refused_address),
        (4, 3, 1)
    );
}

#[test]
fn handshakes_have_bounds_of_their_own() {
    use runtime::{Accepted, Event, Service as _, Session as _, Tx};
    const HURRIED: Duration = Duration::from_secs(1);
    let mut rig = Rig::with(|c| {
        c.max_handshakes = Some(1);
        c.max_handshakes_per_address = Some(2);
    });
    let accept = |rig: &mut Rig, address: &str| {
        let accepted = Accepted {
            is_to_agree: true,
            ..Accepted::at_first(format!("{address}:1").parse().unwrap())
        };
        rig.server.accept(&mut rig.cx, &accepted, rig.now)
    };
    let time = |rig: &Rig, session: &crate::session::Session| {
        session
            .deadline()
            .map(|until| until.since(rig.now))
            .unwrap_or_default()
    };
    let mut first = accept(&mut rig, "192.0.2.8").expect("one");
    assert!(time(&rig, &first) > HURRIED, "there is time");
    let mut second = accept(&mut rig, "192.0.2.8").expect("two are allowed");
    assert_eq!(time(&rig, &second), HURRIED, "above the bound of all");
    assert!(
        accept(&mut rig, "192.0.2.8").is_none(),
        "above that of the address"
    );
    // Both give way soon if places run short, because their address has more than a quarter of all.
    let crowding = Some(rig.now + crate::limits::Limits::CROWD_PATIENCE);
    assert_eq!(
        [first.idle_since(&rig.cx), second.idle_since(&rig.cx)],
        [crowding; 2]
    );
    let mut other = accept(&mut rig, "192.0.2.9").expect("another address");
    assert_eq!(time(&rig, &other), HURRIED);
    // Who has agreed has the time of everyone for a request, and leaves the place to another.
    let agreed = Event::Secured(runtime::session::Secured::default());
    second.handle(&mut rig.cx, agreed, &mut Tx::default(), rig.now);
    assert!(time(&rig, &second) > HURRIED);
    let mut third = accept(&mut rig, "192.0.2.8").expect("a place is free");
    assert!(accept(&mut rig, "192.0.2.8").is_none());
    for session in [&mut first, &mut second, &mut third, &mut other] {
        session.closed(&mut rig.cx, rig.now);
    }
    assert_eq!(
        (
            rig.server.open_connections(),
            rig.server.totals().refused_handshakes
        ),
        (1, 2)
    );
    let mut again = accept(&mut rig, "192.0.2.8").expect("all places are free");
    assert!(time(&rig, &again) > HURRIED);
    // A reload changes both.
    let config = Config {
        max_handshakes: Some(0),
        max_handshakes_per_address: Some(1),
        ..rig.server.config()
    };
    rig.server.reload(config, None).unwrap();
    rig.cx.turn(rig.now, units::UnixTime::from_secs(0));
    assert!(accept(&mut rig, "192.0.2.8").is_none());
    let mut hurried = accept(&mut rig, "192.0.2.9").expect("another address");
    assert_eq!(time(&rig, &hurried), HURRIED);
    again.closed(&mut rig.cx, rig.now);
    hurried.closed(&mut rig.cx, rig.now);
}

#[test]
fn a_reload_changes_what_follows() {
    let mut rig = Rig::new();
    let request = b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n";
    rig.send(request);
    let mut config = rig.server.config();
    config.error_pages.insert("404", "/errors/404.html").unwrap();
    let log: std::sync::Arc<dyn crate::LogSink> = rig.lines.clone();
    rig.server.reload(config.clone(), Some(log)).unwrap();
    rig.send(request);
    rig.turn();
    rig.send(request);
    let all = answers(&rig.out, |_| false);
    let ours = file("/errors/404.html");
    assert_eq!(
        all.iter().map(|a| a.body == ours).collect::<Vec<_>>(),
        [false, false, true]
    );

    config.root = Some("/nowhere/at/all".into());
    assert!(rig.server.reload(config, None).is_err());
    rig.turn();
    rig.send(request);
    assert_eq!(
        answers(&rig.out, |_| false)[3].body,
        ours,
        "the old one stays in force"
    );
}
