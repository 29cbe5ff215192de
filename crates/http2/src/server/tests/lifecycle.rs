//! SETTINGS, shutdown, limits on lists and memory.

use super::*;

#[test]
fn unacknowledged_settings_time_out() {
    let mut out = Vec::new();
    let mut server = Connection::new(Arc::default(), Instant::ZERO, &mut out);
    let due = server.deadline().unwrap();
    let result = server.expire(due, &mut out, |_, _| {});
    assert!(
        matches!(result, Err(Fault::Connection(Code::SETTINGS_TIMEOUT, _))),
        "{result:?}"
    );
    assert_eq!(server.deadline(), None);
}

#[test]
fn large_lists_become_events_and_the_table_stays_in_step() {
    let mut peer = Peer::new();
    let mut crumbs = get("/");
    // One entry of the dynamic table, referred to a thousand times.
    crumbs.extend_from_slice(b"\x60\x03a=b");
    crumbs.extend_from_slice(&[0xbe; 1_000]);
    peer.events.clear();
    peer.send(&headers(1, &crumbs, true));
    assert_eq!(peer.events, ["Oversized { stream: 1, end: true }"]);
    let mut next = get("/again");
    next.push(0xbe);
    peer.send(&headers(3, &next, true));
    assert_eq!(peer.events[1], "request 3 /again true");
}

#[test]
fn a_drain_takes_two_steps() {
    let mut peer = Peer::new();
    peer.send(&headers(1, &get("/"), true));
    peer.server.shut_down(peer.now, &mut peer.out);
    let frames = peer.frames();
    assert_eq!(frames[0].2[..4], WINDOW_MAX.to_be_bytes());
    peer.send(&headers(3, &get("/late"), true));
    assert_eq!(peer.events.last().unwrap(), "request 3 /late true");
    peer.send(&raw(kind::PING, flag::ACK, 0, &frames[1].2));
    assert_eq!(peer.frames()[0].2[..4], 3_u32.to_be_bytes());
    let events = peer.events.len();
    peer.send(&headers(5, &get("/too-late"), true));
    assert_eq!((peer.events.len(), peer.outcome().as_str()), (events, ""));
    for stream in [1, 3] {
        assert!(!peer.server.is_drained());
        peer.server.respond(stream, &[0x88], true, &mut peer.out).unwrap();
    }
    assert!(peer.server.is_drained());
}

#[test]
fn an_idle_connection_costs_at_most_1_kib() {
    let mut peer = Peer::with(Limits {
        table_bytes: 256,
        ..Limits::DEFAULT
    });
    for stream in (1..=99).step_by(2) {
        let mut request = vec![0x3f, 0xe1, 1];
        request.extend(get("/"));
        request.extend_from_slice(b"\x40\x04name\x14a value of some size");
        peer.send(&headers(stream, &request, true));
    }
    assert!(peer.server.memory() > 1_024, "fifty streams cost something");
    for stream in (1..=99).step_by(2) {
        peer.server.respond(stream, &[0x88], true, &mut peer.out).unwrap();
    }
    peer.server.trim();
    assert!(peer.server.memory() <= 1_024, "{}", peer.server.memory());
}

#[test]
fn an_idle_connection_keeps_no_large_table() {
    let mut peer = Peer::new();
    for n in 0..50_u32 {
        let (stream, date) = (2 * n + 1, format!("a date of the second {n}"));
        peer.send(&headers(stream, &get("/"), true));
        let fields = [(&b"date"[..], date.as_bytes())];
        peer.server
            .respond_with(stream, &[0x88], fields, true, &mut peer.out)
            .unwrap();
    }
    let before = peer.server.memory();
    peer.server.trim();
    assert!(peer.server.memory() + 2_000 < before, "{before}");
    peer.out.clear();
    peer.send(&headers(101, &get("/"), true));
    peer.server.respond(101, &[0x88], true, &mut peer.out).unwrap();
    let frames = peer.frames();
    assert_eq!(
        frames[0].2, b"\x20\x3f\xe1\x1f\x88",
        "the client empties its table too"
    );
}
