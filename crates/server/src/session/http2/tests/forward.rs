//! Requests that upstreams answer: how many at a time, how much of a body is held, and what ends with what.

use super::peer::Peer;
use crate::config::{Config, Proxy, ProxyCache, When};
use ::http2::{Code, Limits};
use runtime::session::{Ask, Parcel, PeerEvent, PeerLoss, Ticket};
use units::Duration;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 2\r\n\r\nok";

/// Passes `/api/*` to two upstreams.
fn rule(config: &mut Config) {
    let upstreams = ["http://127.0.0.1:1", "http://127.0.0.1:2"];
    let upstreams = upstreams.map(|address| address.parse().unwrap());
    config
        .proxy
        .push(Proxy::new("/api/*".parse().unwrap(), upstreams.to_vec()));
}

fn asked(peer: &mut Peer) -> Vec<(Ticket, Ask)> {
    std::mem::take(&mut peer.rig.asked)
}

/// The tickets of the connections that were asked for.
fn dialed(peer: &mut Peer) -> Vec<Ticket> {
    let dials = asked(peer)
        .into_iter()
        .filter(|(_, ask)| matches!(ask, Ask::Dial(_) | Ask::Reuse(..)));
    dials.map(|(ticket, _)| ticket).collect()
}

fn tell(peer: &mut Peer, ticket: Ticket, event: PeerEvent<'_>) {
    peer.rig.upstream(ticket, event);
    peer.take();
}

/// What the upstream was sent, all of which it took.
fn sent(peer: &mut Peer) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let sends: Vec<_> = asked(peer)
            .into_iter()
            .filter_map(|(ticket, ask)| match ask {
                Ask::Send(bytes) => Some((ticket, bytes)),
                _ => None,
            })
            .collect();
        if sends.is_empty() {
            return all;
        }
        for (ticket, bytes) in sends {
            all.extend(bytes);
            tell(peer, ticket, PeerEvent::Sent);
        }
    }
}

/// A client with this request under way, connected to its upstream.
fn connected(method: &str, fields: &[(&str, &str)], end: bool) -> (Peer, u32, Ticket) {
    let mut peer = Peer::with(rule);
    let (stream, up) = peer.ask(method, "/api/x", fields, end);
    peer.send(&up);
    let [ticket] = dialed(&mut peer)[..] else {
        panic!("one connection is asked for")
    };
    tell(&mut peer, ticket, PeerEvent::Connected);
    (peer, stream, ticket)
}

#[test]
fn eight_connections_at_a_time_in_order() {
    let mut peer = Peer::with(rule);
    let streams: Vec<u32> = (0..11)
        .map(|number| {
            let (stream, up) = peer.ask("GET", &format!("/api/{number}"), &[], true);
            peer.send(&up);
            stream
        })
        .collect();
    let first = dialed(&mut peer);
    assert_eq!(first.len(), 8);
    // Files do not wait.
    assert_eq!(peer.get("GET", "/digits.bin", &[]).status(), 200);
    assert_eq!(dialed(&mut peer), []);
    tell(&mut peer, first[3], PeerEvent::Connected);
    assert!(sent(&mut peer).starts_with(b"GET /api/3 "));
    tell(&mut peer, first[3], PeerEvent::Bytes(OK));
    assert_eq!(peer.got[&streams[3]].body, b"ok");
    // Its connection is free before the next one is asked for.
    let asked = asked(&mut peer);
    assert!(
        matches!(asked[0], (ticket, Ask::Park(_)) if ticket == first[3]),
        "{asked:?}"
    );
    assert!(matches!(asked[1], (_, Ask::Reuse(..))), "{asked:?}");
    tell(&mut peer, asked[1].0, PeerEvent::Connected);
    assert!(sent(&mut peer).starts_with(b"GET /api/8 "));
    // One that is cancelled makes room as well, and one that waits costs nothing.
    peer.cancel(streams[9]);
    assert_eq!(self::asked(&mut peer), []);
    peer.cancel(streams[0]);
    let asked = self::asked(&mut peer);
    assert_eq!(asked[0], (first[0], Ask::Abort));
    tell(&mut peer, asked[1].0, PeerEvent::Connected);
    assert!(sent(&mut peer).starts_with(b"GET /api/10 "));
}

/// Which files exist is known only after a job, so requests begin in another order than they came.
#[test]
fn requests_without_a_file_have_connections_of_their_own() {
    let mut peer = Peer::with(|config| {
        rule(config);
        config.proxy[0].when = When::Missing;
    });
    peer.rig.holds_jobs = true;
    for path in ["/api/a", "/api/b"] {
        let (_, up) = peer.ask("GET", path, &[], true);
        peer.send(&up);
    }
    peer.rig.run_jobs();
    peer.take();
    // One with a body waits for no job.
    let (_, up) = peer.ask("POST", "/api/c", &[], false);
    peer.send(&up);
    let mut tickets = dialed(&mut peer);
    tickets.sort_unstable();
    tickets.dedup();
    assert_eq!(tickets.len(), 3, "{tickets:?}");
}

/// A client may leave numbers of streams out (RFC 9113 section 5.1.1), whatever multiple of tickets they are apart.
#[test]
fn streams_far_apart_have_connections_of_their_own() {
    let mut peer = Peer::with(rule);
    let (_, up) = peer.ask("GET", "/api/a", &[], true);
    peer.send(&up);
    let (_, mut up) = peer.ask("GET", "/api/b", &[], true);
    // The number of the stream is behind length, type and flags.
    up[5..9].copy_from_slice(&1_048_577_u32.to_be_bytes());
    peer.rig.send(&up);
    let tickets = dialed(&mut peer);
    assert!(tickets.len() == 2 && tickets[0] != tickets[1], "{tickets:?}");
}

#[test]
fn a_request_waits_for_a_connection_as_long_as_for_a_response() {
    let mut peer = Peer::with(rule);
    let mut streams = Vec::new();
    for _ in 0..9 {
        let (stream, up) = peer.ask("GET", "/api/x", &[], true);
        peer.send(&up);
        streams.push(stream);
    }
    for ticket in dialed(&mut peer) {
        tell(&mut peer, ticket, PeerEvent::Connected);
        sent(&mut peer);
        // A response without an end.
        tell(&mut peer, ticket, PeerEvent::Bytes(b"HTTP/1.1 200 OK\r\n\r\n"));
    }
    for _ in 0..7 {
        peer.rig.wait(Duration::from_secs(10));
        for (ticket, ask) in asked(&mut peer) {
            if ask == Ask::Read {
                tell(&mut peer, ticket, PeerEvent::Bytes(b"x"));
            }
        }
        peer.take();
    }
    let got = &peer.got[&streams[8]];
    assert_eq!((got.status(), got.has_ended), (504, true));
    assert_eq!(peer.got[&streams[7]].status(), 200);
}

#[test]
fn a_request_waits_a_short_time_for_the_content_that_another_client_gets() {
    let mut peer = Peer::with(|config| {
        rule(config);
        config.proxy[0].cache = Some(ProxyCache::default());
    });
    peer.rig.holds_jobs = true;
    let (_, up) = peer.ask("GET", "/api/x", &[], true);
    peer.send(&up);
    let ticket = dialed(&mut peer)[0];
    tell(&mut peer, ticket, PeerEvent::Connected);
    sent(&mut peer);
    let (_, up) = peer.ask("GET", "/api/x", &[], true);
    peer.send(&up);
    peer.rig.wait(Duration::from_secs(30));
    assert_eq!(dialed(&mut peer), []);
    let head = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\n\r\nhello";
    tell(&mut peer, ticket, PeerEvent::Bytes(head));
    peer.rig.wait(Duration::from_secs(4));
    assert_eq!(dialed(&mut peer), []);
    peer.rig.wait(Duration::from_secs(3));
    assert_eq!(dialed(&mut peer).len(), 1, "it goes to the upstream itself");
}

#[test]
fn a_client_may_send_no_more_than_the_upstream_takes() {
    let (mut peer, stream, ticket) = connected("POST", &[], false);
    let mut head = Vec::new();
    for (_, ask) in asked(&mut peer) {
        if let Ask::Send(bytes) = ask {
            head.extend(bytes);
        }
    }
    assert!(head.starts_with(b"POST /api/x HTTP/1.1\r\n"));
    // The upstream has not taken the head: the window of the stream, and no more.
    peer.send_body(stream, &[b'u'; 300_000]);
    let window = Limits::DEFAULT.stream_window as usize;
    assert_eq!(asked(&mut peer), []);
    let held = peer.rig.server.hub.budget.held().0;
    assert!(held < 3 * window as u64, "{held}");
    tell(&mut peer, ticket, PeerEvent::Sent);
    let given = |peer: &mut Peer| -> usize {
        let asked = asked(peer).into_iter();
        asked
            .map(|(_, ask)| match ask {
                Ask::Send(bytes) => bytes.len(),
                _ => 0,
            })
            .sum()
    };
    // Given to the driver, which has not sent it: the window stays closed.
    let first = given(&mut peer);
    assert!((60_000..=window + 100).contains(&first), "{first}");
    peer.take();
    assert_eq!(given(&mut peer), 0);
    let may_send = |peer: &mut Peer| peer.http.next(20_000, peer.rig.now, &mut Vec::new()).is_some();
    assert!(!may_send(&mut peer), "the window is closed");
    // Now the client may go on.
    tell(&mut peer, ticket, PeerEvent::Sent);
    assert!(may_send(&mut peer), "the window is open again");
}

#[test]
fn an_upstream_is_read_no_further_than_the_client_takes() {
    let mut peer = Peer::limited(
        rule,
        Limits {
            stream_window: 65_535,
            ..Limits::DEFAULT
        },
    );
    peer.consumes = false;
    let (stream, up) = peer.ask("GET", "/api/x", &[], true);
    peer.send(&up);
    let ticket = dialed(&mut peer)[0];
    tell(&mut peer, ticket, PeerEvent::Connected);
    sent(&mut peer);
    tell(&mut peer, ticket, PeerEvent::Bytes(b"HTTP/1.1 200 OK\r\n\r\n"));
    let part = vec![b'd'; 16 << 10];
    let mut given = 0;
    while asked(&mut peer).iter().any(|(_, ask)| *ask == Ask::Read) {
        tell(&mut peer, ticket, PeerEvent::Bytes(&part));
        given += part.len();
        assert!(given < 1 << 20, "the upstream is read on");
    }
    assert_eq!(peer.got[&stream].body.len(), 65_535);
    // Two receives wait at most.
    assert!(given <= 65_535 + 3 * part.len(), "{given}");
    // The client takes them: the upstream is read again, and its end is told.
    let mut up = Vec::new();
    peer.http.consumed(stream, 65_535, &mut up);
    peer.consumes = true;
    peer.send(&up);
    assert!(asked(&mut peer).iter().any(|(_, ask)| *ask == Ask::Read));
    tell(&mut peer, ticket, PeerEvent::Eof);
    let got = &peer.got[&stream];
    assert_eq!((got.body.len(), got.has_ended), (given, true));
}

#[test]
fn another_upstream_stands_in() {
    for loss in [Some(PeerLoss::Opening(111)), None] {
        let mut peer = Peer::with(rule);
        let (stream, up) = peer.ask("GET", "/api/x", &[], true);
        peer.send(&up);
        let [(first, Ask::Reuse(ref one, _))] = asked(&mut peer)[..] else {
            panic!("one connection is asked for")
        };
        match loss {
            Some(loss) => tell(&mut peer, first, PeerEvent::Lost(loss)),
            None => peer.rig.wait(Duration::from_secs(6)),
        }
        let asked = asked(&mut peer);
        if loss.is_none() {
            assert_eq!(asked[0], (first, Ask::Close));
        }
        let (second, Ask::Reuse(other, _)) = &asked[asked.len() - 1] else {
            panic!("{asked:?}")
        };
        assert_ne!((first, one), (*second, other));
        tell(&mut peer, *second, PeerEvent::Connected);
        sent(&mut peer);
        tell(&mut peer, *second, PeerEvent::Bytes(OK));
        assert_eq!(peer.got[&stream].status(), 200);
    }
}

/// A connect timeout is not put off by what the client sends meanwhile.
#[test]
fn a_body_does_not_extend_the_time_to_connect() {
    let mut peer = Peer::with(rule);
    let (stream, up) = peer.ask("POST", "/api/x", &[], false);
    peer.send(&up);
    for _ in 0..4 {
        peer.rig.wait(Duration::from_secs(2));
        peer.http.ready(stream, 1).unwrap();
        let mut up = Vec::new();
        peer.http.next(20, peer.rig.now, &mut up).unwrap();
        up.push(b'u');
        peer.send(&up);
    }
    // Two upstreams, five seconds each.
    peer.rig.wait(Duration::from_secs(3));
    peer.take();
    assert_eq!(peer.got[&stream].status(), 504);
}

#[test]
fn failures_by_how_far_the_response_was() {
    for (bytes, loss, status) in [
        (&b"HTTP/1.1 200"[..], PeerLoss::Open(104), Some(502)),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
            PeerLoss::Open(104),
            None,
        ),
    ] {
        let (mut peer, stream, ticket) = connected("GET", &[], true);
        sent(&mut peer);
        if !bytes.is_empty() {
            tell(&mut peer, ticket, PeerEvent::Bytes(bytes));
        }
        asked(&mut peer);
        tell(&mut peer, ticket, PeerEvent::Lost(loss));
        let got = &peer.got[&stream];
        match status {
            Some(status) => assert_eq!((got.status(), got.has_ended, got.reset), (status, true, None)),
            None => assert_eq!((got.has_ended, got.reset), (false, Some(Code::INTERNAL_ERROR))),
        }
        // The lost connection is asked for nothing.
        assert_eq!(asked(&mut peer), []);
        assert_eq!(peer.get("GET", "/digits.bin", &[]).status(), 200);
    }
}

#[test]
fn a_connection_that_fails_takes_its_upstreams_along() {
    let (mut peer, _, ticket) = connected("POST", &[], false);
    asked(&mut peer);
    // DATA on a stream that nobody opened.
    peer.rig.send(b"\0\0\x01\0\0\0\0\0\x63x");
    assert_eq!(asked(&mut peer), [(ticket, Ask::Abort)]);
}

#[test]
fn a_half_closed_client_gets_answers_to_whole_requests_only() {
    let mut peer = Peer::with(rule);
    let (whole, up) = peer.ask("GET", "/api/a", &[], true);
    peer.send(&up);
    let (part, up) = peer.ask("POST", "/api/b", &[], false);
    peer.send(&up);
    let tickets = dialed(&mut peer);
    for ticket in &tickets {
        tell(&mut peer, *ticket, PeerEvent::Connected);
    }
    sent(&mut peer);
    peer.rig.eof();
    assert!(asked(&mut peer).contains(&(tickets[1], Ask::Abort)));
    tell(&mut peer, tickets[0], PeerEvent::Bytes(OK));
    assert_eq!(peer.got[&whole].body, b"ok");
    assert_eq!(peer.got.get(&part), None);
}

/// Fields of a request are those of HTTP/2, so nothing in them can frame a second request.
#[test]
fn no_field_frames_another_request() {
    for fields in [
        &[("transfer-encoding", "chunked")][..],
        &[("connection", "close")],
        &[("content-length", "4"), ("content-length", "5")],
        &[("content-length", "+4")],
        &[("x", "a\r\nGET /smuggled HTTP/1.1")],
        &[(":path", "/api/y")],
    ] {
        let mut peer = Peer::with(rule);
        let (stream, up) = peer.ask("POST", "/api/x", fields, false);
        peer.send(&up);
        assert_eq!(peer.got[&stream].reset, Some(Code::PROTOCOL_ERROR), "{fields:?}");
        assert_eq!(asked(&mut peer), [], "{fields:?}");
    }
}

/// A reused connection that ends before its response is replaced, once. A new one that does so is a failure, after which the
/// other upstream is asked, once.
#[test]
fn a_request_is_repeated_as_often_as_it_may_be() {
    for end in [PeerEvent::Eof, PeerEvent::Lost(PeerLoss::Open(104))] {
        let mut peer = Peer::with(rule);
        let (stream, up) = peer.ask("GET", "/api/x", &[], true);
        peer.send(&up);
        let [(first, Ask::Reuse(ref one, _))] = asked(&mut peer)[..] else {
            panic!("one connection is asked for")
        };
        tell(&mut peer, first, PeerEvent::Reused(&Parcel::default()));
        let request = sent(&mut peer);
        assert!(request.starts_with(b"GET /api/x "));
        tell(&mut peer, first, end);
        let asks = asked(&mut peer);
        let (second, Ask::Dial(to)) = &asks[asks.len() - 1] else {
            panic!("{asks:?}")
        };
        assert_eq!((to, asks[0] == (first, Ask::Close)), (one, end == PeerEvent::Eof));
        let second = *second;
        // Late news of the first connection is not taken for that of the second.
        tell(&mut peer, first, PeerEvent::Sent);
        tell(&mut peer, second, PeerEvent::Connected);
        assert_eq!(sent(&mut peer), request);
        tell(&mut peer, second, end);
        let asks = asked(&mut peer);
        let (third, Ask::Dial(to)) = &asks[asks.len() - 1] else {
            panic!("{asks:?}")
        };
        assert_ne!(to, one);
        let third = *third;
        tell(&mut peer, third, PeerEvent::Connected);
        assert_eq!(sent(&mut peer), request);
        tell(&mut peer, third, end);
        assert_eq!(peer.got[&stream].status(), 502);
        let left = asked(&mut peer);
        assert!(left.iter().all(|(_, ask)| *ask == Ask::Abort), "{left:?}");
    }
}

#[test]
fn a_request_is_not_repeated_once_a_byte_came_or_if_it_may_change_something() {
    for (method, fields, byte, kept) in [
        ("GET", &[][..], &b"H"[..], true),
        ("POST", &[("content-length", "0")], b"", false),
        ("DELETE", &[], b"", true),
    ] {
        let mut peer = Peer::with(rule);
        let (stream, up) = peer.ask(method, "/api/x", fields, true);
        peer.send(&up);
        let asks = asked(&mut peer);
        let (ticket, reuses) = (asks[0].0, matches!(asks[0].1, Ask::Reuse(..)));
        assert_eq!(reuses, kept, "{method}: {asks:?}");
        let opened = if reuses {
            PeerEvent::Reused(&Parcel::default())
        } else {
            PeerEvent::Connected
        };
        tell(&mut peer, ticket, opened);
        sent(&mut peer);
        if !byte.is_empty() {
            tell(&mut peer, ticket, PeerEvent::Bytes(byte));
        }
        tell(&mut peer, ticket, PeerEvent::Lost(PeerLoss::Open(104)));
        let asks = asked(&mut peer);
        let is_repeated = asks.iter().any(|(_, ask)| matches!(ask, Ask::Dial(_)));
        assert_eq!(is_repeated, method == "DELETE", "{method}: {asks:?}");
        if !is_repeated {
            assert_eq!(peer.got[&stream].status(), 502);
        }
    }
}

/// A connection is kept only if nothing but another request can follow on it.
#[test]
fn only_a_connection_in_order_is_kept() {
    for (fields, answer, is_kept) in [
        (&[][..], OK, true),
        (
            &[],
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            true,
        ),
        (&[], b"HTTP/1.1 304 Not Modified\r\n\r\n", true),
        (
            &[],
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
            false,
        ),
        (&[], b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false),
        (
            &[],
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
            false,
        ),
        (
            &[],
            b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=x, NTLM\r\nContent-Length: 0\r\n\r\n",
            false,
        ),
        (&[("authorization", "negotiate YII")], OK, false),
        (&[("authorization", "Basic YTpi")], OK, true),
    ] {
        let (mut peer, stream, ticket) = connected("GET", fields, true);
        sent(&mut peer);
        tell(&mut peer, ticket, PeerEvent::Bytes(answer));
        assert!(peer.got[&stream].has_ended);
        let (its, ask) = &asked(&mut peer)[0];
        assert_eq!(*its, ticket);
        let text = String::from_utf8_lossy(answer);
        match is_kept {
            true => assert!(matches!(ask, Ask::Park(_)), "{text}: {ask:?}"),
            false => assert_eq!(*ask, Ask::Close, "{text}"),
        }
    }
}
