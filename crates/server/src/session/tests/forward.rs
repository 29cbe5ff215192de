//! A request of HTTP/1 that an upstream answers: deadlines that follow from what both sides do.

use super::rig::{End, Rig, peer};
use crate::config::{Config, Proxy, ProxyCache};
use runtime::session::{Ask, PeerEvent, PeerLoss, Ticket};
use runtime::{Service as _, Session as _};
use units::{Bytes, Duration};

fn rule(config: &mut Config) {
    let upstream = "http://127.0.0.1:1".parse().unwrap();
    config
        .proxy
        .push(Proxy::new("/api/*".parse().unwrap(), vec![upstream]));
}

/// The connection that was asked for.
fn dialed(rig: &mut Rig) -> Option<Ticket> {
    let asked = std::mem::take(&mut rig.asked);
    let mut dials = asked
        .into_iter()
        .filter(|(_, ask)| matches!(ask, Ask::Dial(_) | Ask::Reuse(..)));
    dials.next().map(|(ticket, _)| ticket)
}

/// An upstream of HTTP/2 whose connections serve one request each.
fn rule_of_http2(config: &mut Config) {
    let upstream = "h2c://127.0.0.1:1".parse().unwrap();
    let mut rule = Proxy::new("/api/*".parse().unwrap(), vec![upstream]);
    rule.keepalive = Some(0);
    config.proxy.push(rule);
}

/// Frames of HTTP/2.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingping";
/// WINDOW_UPDATE of the connection and of stream 1, by 4 KiB each.
const WINDOW_UPDATES: &[u8] = b"\0\0\x04\x08\0\0\0\0\0\0\0\x10\0\0\0\x04\x08\0\0\0\0\x01\0\0\x10\0";

const POST: &[u8] = b"POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n";

#[test]
fn only_output_that_is_taken_extends_the_write_timeout() {
    let mut rig = Rig::with(rule);
    rig.send(POST);
    let ticket = dialed(&mut rig).expect("a connection is asked for");
    rig.upstream(ticket, PeerEvent::Connected);
    rig.upstream(ticket, PeerEvent::Sent);
    rig.stalled = true;
    rig.upstream(
        ticket,
        PeerEvent::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"),
    );
    // Both sides go on, but the client takes nothing.
    for _ in 0..2 {
        rig.wait(Duration::from_secs(14));
        assert_eq!(rig.end, End::Open);
        rig.send(b"a");
        rig.upstream(ticket, PeerEvent::Sent);
    }
    rig.wait(Duration::from_secs(1));
    assert_eq!(rig.end, End::Open);
    rig.wait(Duration::from_secs(2));
    assert_eq!(rig.end, End::Closed, "30 s after the output began to wait");
    // A client that takes some of it has its time again.
    let mut rig = Rig::with(rule);
    rig.send(POST);
    let ticket = dialed(&mut rig).expect("a connection is asked for");
    rig.upstream(ticket, PeerEvent::Connected);
    rig.upstream(ticket, PeerEvent::Sent);
    rig.stalled = true;
    rig.upstream(
        ticket,
        PeerEvent::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"),
    );
    rig.wait(Duration::from_secs(28));
    rig.progress(1);
    rig.wait(Duration::from_secs(28));
    assert_eq!(rig.end, End::Open);
    rig.wait(Duration::from_secs(3));
    assert_eq!(rig.end, End::Closed);
}

#[test]
fn a_body_within_the_bound_is_collected() {
    let with = |buffer: u64| {
        Rig::with(|config| {
            rule(config);
            config.proxy[0].buffer = Bytes(buffer);
        })
    };
    // At the bound, the rest streams.
    for (buffer, sent) in [(9, 9), (5, 5), (1, 1)] {
        let mut rig = with(buffer);
        rig.send(POST);
        for byte in 0..sent {
            assert_eq!(dialed(&mut rig), None, "{buffer} bytes: {byte}");
            rig.send(b"a");
        }
        assert!(dialed(&mut rig).is_some(), "{buffer} bytes");
    }
    // The time is that of any body, and the upstream is not to blame.
    let mut rig = with(9);
    rig.send(POST);
    rig.wait(Duration::from_secs(21));
    assert!(rig.text().starts_with("HTTP/1.1 408 "), "{}", rig.text());
    assert_eq!(dialed(&mut rig), None);
}

#[test]
fn the_total_timeout_counts_from_the_choice() {
    let mut rig = Rig::with(|config| {
        rule(config);
        config.proxy[0].total_timeout = Duration::from_secs(100);
    });
    rig.send(b"GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n");
    let ticket = dialed(&mut rig).expect("a connection is asked for");
    rig.upstream(ticket, PeerEvent::Connected);
    rig.upstream(ticket, PeerEvent::Sent);
    // Interim responses are within every other timeout.
    for _ in 0..3 {
        rig.wait(Duration::from_secs(30));
        rig.upstream(ticket, PeerEvent::Bytes(b"HTTP/1.1 103 Early Hints\r\n\r\n"));
        assert!(!rig.text().contains("504"));
    }
    rig.wait(Duration::from_secs(11));
    assert!(rig.text().contains("HTTP/1.1 504 "), "{}", rig.text());
}

/// A client may be slow to take 100 (Continue), and its upstream may fail meanwhile.
#[test]
fn a_page_waits_for_the_interim_response_before_it() {
    let mut rig = Rig::with(rule);
    rig.stalled = true;
    rig.send(b"POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
    let ticket = dialed(&mut rig).expect("a connection is asked for");
    rig.upstream(ticket, PeerEvent::Connected);
    rig.upstream(ticket, PeerEvent::Lost(PeerLoss::Open(104)));
    assert_eq!(rig.text(), "");
    rig.unstall();
    let text = rig.text();
    assert!(
        text.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 502 "),
        "{text}"
    );
    // A client that takes nothing gets no page, and its time is that of any output.
    let mut rig = Rig::with(rule);
    rig.stalled = true;
    rig.send(b"POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
    let ticket = dialed(&mut rig).expect("a connection is asked for");
    rig.upstream(ticket, PeerEvent::Connected);
    rig.upstream(ticket, PeerEvent::Lost(PeerLoss::Open(104)));
    rig.wait(Duration::from_secs(29));
    assert_eq!(rig.end, End::Open);
    rig.wait(Duration::from_secs(2));
    assert_eq!((rig.end, rig.text().as_str()), (End::Closed, ""));
}

/// The client is gone before it could be told.
#[test]
fn a_failure_counts_although_nobody_takes_its_page() {
    let mut rig = Rig::with(|config| {
        let upstreams = ["http://127.0.0.1:1", "http://127.0.0.1:2"];
        let upstreams = upstreams.map(|address| address.parse().unwrap());
        let mut rule = Proxy::new("/api/*".parse().unwrap(), upstreams.to_vec());
        rule.max_failures = 1;
        config.proxy.push(rule);
    });
    let ejected = |rig: &Rig| {
        let reports = rig.cx.state.proxies.report();
        let states = reports[0].upstreams.iter();
        states.filter(|(_, state)| state.health == "ejected").count()
    };
    rig.stalled = true;
    rig.send(b"POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
    let ticket = dialed(&mut rig).expect("a connection is asked for");
    rig.upstream(ticket, PeerEvent::Connected);
    rig.upstream(ticket, PeerEvent::Lost(PeerLoss::Open(104)));
    rig.hang_up();
    assert_eq!((ejected(&rig), rig.text().as_str()), (1, ""));
}

/// A connection of HTTP/2 says more than responses.
#[test]
fn only_the_response_ends_the_time_to_its_first_byte() {
    let mut rig = Rig::with(rule_of_http2);
    rig.send(b"GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n");
    let ticket = dialed(&mut rig).expect("a connection is asked for");
    rig.upstream(ticket, PeerEvent::Connected);
    rig.upstream(ticket, PeerEvent::Sent);
    for frame in [SETTINGS, PING, PING] {
        rig.wait(Duration::from_secs(19));
        rig.upstream(ticket, PeerEvent::Bytes(frame));
        // Their acknowledgments.
        rig.upstream(ticket, PeerEvent::Sent);
    }
    assert_eq!(rig.text(), "");
    rig.wait(Duration::from_secs(4));
    assert!(rig.text().starts_with("HTTP/1.1 504 "), "{}", rig.text());
}

#[test]
fn only_progress_of_the_exchange_extends_the_idle_timeout() {
    // What the upstream sends in each round, and the seconds of a round.
    for (frame, secs) in [(PING, 19), (WINDOW_UPDATES, 59)] {
        let mut rig = Rig::with(rule_of_http2);
        rig.send(b"POST /api/x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
        let ticket = dialed(&mut rig).expect("a connection is asked for");
        rig.upstream(ticket, PeerEvent::Connected);
        // Its socket takes everything.
        let take = |rig: &mut Rig| {
            while std::mem::take(&mut rig.asked)
                .iter()
                .any(|(_, ask)| matches!(ask, Ask::Send(_)))
            {
                rig.upstream(ticket, PeerEvent::Sent);
            }
        };
        take(&mut rig);
        rig.upstream(ticket, PeerEvent::Bytes(SETTINGS));
        take(&mut rig);
        // More than the windows permit.
        rig.send(&[b'a'; 100_000]);
        take(&mut rig);
        for _ in 0..3 {
            rig.wait(Duration::from_secs(secs));
            rig.upstream(ticket, PeerEvent::Bytes(frame));
            take(&mut rig);
        }
        assert_eq!(rig.text(), "", "every {secs} s");
        let rest = if frame == PING { 4 } else { 59 };
        rig.wait(Duration::from_secs(rest));
        let is_over = rig.text().starts_with("HTTP/1.1 504 ");
        assert_eq!(is_over, frame == PING, "{}", rig.text());
        rig.wait(Duration::from_secs(2));
        assert!(rig.text().starts_with("HTTP/1.1 504 "), "{}", rig.text());
    }
}

/// Before a slow page, an upstream may send 103 (Early Hints).
#[test]
fn an_interim_response_shortens_no_timeout() {
    let mut rig = Rig::with(|config| {
        rule(config);
        config.proxy[0].first_byte_timeout = Duration::from_secs(100);
        config.proxy[0].idle_timeout = Duration::from_secs(10);
    });
    rig.send(b"GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n");
    let ticket = dialed(&mut rig).expect("a connection is asked for");
    rig.upstream(ticket, PeerEvent::Connected);
    rig.upstream(ticket, PeerEvent::Sent);
    for secs in [1, 95] {
        rig.wait(Duration::from_secs(secs));
        rig.upstream(ticket, PeerEvent::Bytes(b"HTTP/1.1 103 Early Hints\r\n\r\n"));
    }
    // Ten seconds after the last one.
    rig.wait(Duration::from_secs(9));
    assert!(!rig.text().contains(" 504 "), "{}", rig.text());
    rig.wait(Duration::from_secs(2));
    assert!(rig.text().contains("HTTP/1.1 504 "), "{}", rig.text());
}

/// A recipient may merge trailers into the head.
#[test]
fn trailers_replace_no_field_of_the_head() {
    let mut rig = Rig::with(|config| {
        rule(config);
        config.proxy[0].request_header = toml::from_str("set = ['X-Env: prod']").unwrap();
        config.request_id = "true".parse().unwrap();
        config.request_id_answer = true;
    });
    let trailers = "0\r\nX-Request-Id: forged\r\nX-Env: dev\r\nX-Sum: 1\r\n\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";
    rig.send(format!("POST /api/x HTTP/1.1\r\nHost: a\r\n{chunked}{trailers}").as_bytes());
    let ticket = dialed(&mut rig).expect("a connection is asked for");
    rig.upstream(ticket, PeerEvent::Connected);
    let mut asked = std::mem::take(&mut rig.asked).into_iter();
    let sent = asked.find_map(|(_, ask)| match ask {
        Ask::Send(bytes) => Some(String::from_utf8(bytes).unwrap()),
        _ => None,
    });
    let sent = sent.expect("the request");
    assert!(sent.ends_with("1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n"), "{sent}");
    rig.upstream(ticket, PeerEvent::Sent);
    rig.upstream(
        ticket,
        PeerEvent::Bytes(format!("HTTP/1.1 200 OK\r\n{chunked}{trailers}").as_bytes()),
    );
    // Rules for requests say nothing about responses.
    let text = rig.text();
    assert!(
        text.ends_with("1\r\nx\r\n0\r\nX-Env: dev\r\nX-Sum: 1\r\n\r\n"),
        "{text}"
    );
}

/// The driver tells of a wait that the request has left, while the next request of the connection waits for another response.
#[test]
fn a_late_wake_up_ends_no_other_wait() {
    let mut rig = Rig::with(|config| {
        rule(config);
        config.proxy[0].cache = Some(ProxyCache::default());
    });
    rig.holds_jobs = true;
    let ask = |rig: &mut Rig, path: &str| {
        rig.send(format!("GET /api/{path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        dialed(rig)
    };
    let begin = |rig: &mut Rig, ticket: Option<Ticket>, content: &[u8]| {
        let ticket = ticket.expect("a connection is asked for");
        let head = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\n\r\n";
        rig.upstream(ticket, PeerEvent::Connected);
        rig.upstream(ticket, PeerEvent::Sent);
        rig.upstream(ticket, PeerEvent::Bytes(&[&head[..], content].concat()));
        rig.asked.clear();
    };
    // On connections of their own, others ask first, and their responses are slow.
    let other = |rig: &mut Rig, path: &str| {
        let session = rig.server.accept(&mut rig.cx, &peer(), rig.now).unwrap();
        let own = std::mem::replace(&mut rig.session, session);
        let ticket = ask(rig, path);
        begin(rig, ticket, b"hello");
        std::mem::replace(&mut rig.session, own)
    };
    let mut first = other(&mut rig, "x");
    assert_eq!(ask(&mut rig, "x"), None);
    rig.wait(Duration::from_secs(6));
    let ticket = dialed(&mut rig);
    begin(&mut rig, ticket, b"hello you");
    assert!(rig.text().ends_with("hello you"), "{}", rig.text());
    let mut second = other(&mut rig, "y");
    assert_eq!(ask(&mut rig, "y"), None);
    // The job of the first wait ends before that of the second.
    let awaited = rig.jobs.split_off(1);
    rig.run_jobs();
    assert_eq!(dialed(&mut rig), None, "it still waits");
    rig.jobs = awaited;
    rig.run_jobs();
    assert!(dialed(&mut rig).is_some());
    for other in [&mut first, &mut second] {
        other.closed(&mut rig.cx, rig.now);
    }
}
