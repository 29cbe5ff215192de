//! Flow control in both directions, and the order of bodies.

use super::*;

#[test]
fn bodies_and_trailers_arrive_and_windows_are_returned() {
    let mut peer = Peer::new();
    peer.events.clear();
    peer.send(&headers(1, &get("/up"), false));
    let body = vec![7; 16_000];
    for _ in 0..4 {
        peer.send(&raw(
            kind::DATA,
            flag::PADDED,
            1,
            &[&[3], &body[..], &[0; 3]].concat(),
        ));
    }
    assert_eq!(peer.outcome(), "");
    peer.server.consumed(1, 64_000, &mut peer.out);
    let updates: Vec<_> = peer
        .frames()
        .into_iter()
        .map(|(kind, stream, _)| (kind, stream))
        .collect();
    assert_eq!(
        updates,
        [(kind::WINDOW_UPDATE, 1)],
        "the connection's window is larger"
    );
    let mut trailer = Vec::new();
    block::field(b"x-sum", b"1", &mut trailer);
    peer.send(&headers(1, &trailer, true));
    let expected = [
        "request 1 /up false",
        "body 1 16000",
        "body 1 16000",
        "body 1 16000",
        "body 1 16000",
        "trailers 1 1",
    ];
    assert_eq!(peer.events, expected);

    let mut peer = Peer::new();
    peer.send(&headers(1, &get("/up"), false));
    for _ in 0..5 {
        peer.send(&raw(kind::DATA, 0, 1, &body));
    }
    assert_eq!(peer.outcome(), "stream 1 FLOW_CONTROL_ERROR");
}

/// A client may fill the initial window before it has read our SETTINGS, but not after it has acknowledged them.
#[test]
fn a_small_window_holds_from_its_acknowledgment() {
    let limits = Limits {
        stream_window: 1_000,
        ..Limits::DEFAULT
    };
    let mut out = Vec::new();
    let now = Instant::ZERO;
    let server = Connection::new(Arc::new(limits), now, &mut out);
    let mut peer = Peer {
        server,
        now,
        events: Vec::new(),
        out,
    };
    peer.send(&[&PREFACE[..], &raw(kind::SETTINGS, 0, 0, &[])].concat());
    for stream in [1, 3] {
        peer.send(&headers(stream, &get("/up"), false));
        peer.send(&raw(kind::DATA, 0, stream, &[0; 10_000]));
    }
    assert_eq!(peer.outcome(), "");
    peer.send(&raw(kind::SETTINGS, flag::ACK, 0, &[]));
    peer.server.consumed(1, 10_000, &mut peer.out);
    let update = (kind::WINDOW_UPDATE, 1, 10_000_u32.to_be_bytes().to_vec());
    assert_eq!(peer.frames(), [update], "1,000 bytes are open again");
    peer.send(&raw(kind::DATA, 0, 1, &[0; 1_000]));
    assert_eq!(peer.outcome(), "");
    peer.send(&raw(kind::DATA, 0, 3, &[0]));
    assert_eq!(peer.outcome(), "stream 3 FLOW_CONTROL_ERROR");
}

#[test]
fn urgent_then_short_then_turns() {
    let mut peer = Peer::new();
    let answer = {
        let mut out = Vec::new();
        block::status(200, &mut out);
        out
    };
    let bodies = [
        (1, "u=5", 10),
        (3, "u=3", 3_000),
        (5, "u=3", 2_000),
        (7, "u=3, i", 2_000),
        (9, "u=3, i", 2_000),
        (11, "u=0", 500),
    ];
    for (stream, priority, length) in bodies {
        let mut block = get("/");
        block::field(b"priority", priority.as_bytes(), &mut block);
        peer.send(&headers(stream, &block, true));
        peer.server
            .respond(stream, &answer, false, &mut peer.out)
            .unwrap();
        peer.server.ready(stream, length).unwrap();
        peer.server.finish(stream).unwrap();
    }
    let mut order = Vec::new();
    while let Some(piece) = peer.server.next(1_009, peer.now, &mut peer.out) {
        order.push(piece.stream);
    }
    assert_eq!(order[0], 11);
    assert_eq!(order.last(), Some(&1));
    let place = |stream| order.iter().rposition(|&s| s == stream).unwrap();
    assert!(place(5) < place(3), "the shorter of two goes first: {order:?}");
    assert!(
        order[1..7].contains(&7) && order[1..7].contains(&9),
        "incremental ones take turns: {order:?}"
    );
    assert_eq!(peer.server.streams(), 0);
}

/// Where the smallest goes first, incremental streams do not take turns, and the one that began first is not starved.
#[test]
fn the_smallest_goes_first_if_that_is_the_order() {
    let order = |smallest_first: bool| {
        let mut peer = Peer::with(Limits {
            smallest_first,
            ..Limits::DEFAULT
        });
        for (stream, length) in [(1, 40_000), (3, 9_000), (5, 3_000)] {
            let mut block = get("/");
            block::field(b"priority", b"u=3, i", &mut block);
            peer.send(&headers(stream, &block, true));
            peer.server
                .respond(stream, &[0x88], false, &mut peer.out)
                .unwrap();
            peer.server.length(stream, length);
            // Only a part of it can be sent at first: the order goes by all of it.
            peer.server.ready(stream, 1_000).unwrap();
        }
        let mut left = [40_000_u64, 9_000, 3_000];
        let mut order = Vec::new();
        while let Some(piece) = peer.server.next(1_009, peer.now, &mut peer.out) {
            let at = (piece.stream / 2) as usize;
            left[at] -= piece.bytes as u64;
            assert_eq!(piece.left, left[at]);
            order.push(piece.stream);
            if left[at] > 0 {
                peer.server.ready(piece.stream, left[at].min(1_000)).unwrap();
            } else if !piece.last {
                peer.server.finish(piece.stream).unwrap();
            }
        }
        order
    };
    let place = |order: &[u32], stream| order.iter().rposition(|&s| s == stream).unwrap();
    let ordered = order(true);
    assert!(place(&ordered, 5) < 5, "{ordered:?}");
    assert!(place(&ordered, 3) < 16, "{ordered:?}");
    let first = &ordered[..place(&ordered, 3)];
    let share = first.iter().filter(|&&stream| stream == 1).count();
    assert_eq!(share, first.len() / 8, "one frame in eight: {ordered:?}");
    let turns = order(false);
    assert!(place(&turns, 3) > 20, "the counterfactual: {turns:?}");
}

#[test]
fn windows_bound_what_is_sent() {
    let mut peer = Peer::new();
    peer.send(&headers(1, &get("/"), true));
    peer.server.respond(1, &[0x88], false, &mut peer.out).unwrap();
    peer.server.ready(1, 200_000).unwrap();
    peer.server.finish(1).unwrap();
    let mut sent = 0;
    while let Some(piece) = peer.server.next(usize::MAX, peer.now, &mut peer.out) {
        assert!(piece.bytes <= SIZE_MIN as usize && !piece.last);
        sent += piece.bytes;
    }
    assert_eq!(sent, 65_535);
    let due = peer.server.deadline().expect("blocked streams have a deadline");
    assert_eq!(due, peer.now + Limits::DEFAULT.stall_time);
    peer.out.clear();
    peer.send(&raw(kind::WINDOW_UPDATE, 0, 1, &100_000_u32.to_be_bytes()));
    assert_eq!(
        peer.server.next(usize::MAX, peer.now, &mut peer.out),
        None,
        "the connection's window is used up"
    );
    let result = peer.server.expire(due, &mut peer.out, |_, _| {});
    assert!(
        matches!(result, Err(Fault::Connection(Code::ENHANCE_YOUR_CALM, _))),
        "{result:?}"
    );
}

#[test]
fn a_lowered_table_is_acknowledged_in_the_next_block() {
    let mut peer = Peer::new();
    let mut lower = Vec::new();
    write::settings(&mut lower, &[Setting::HeaderTableSize(0)]);
    peer.send(&lower);
    for (stream, block) in [(1, &b"\x20\x88"[..]), (3, b"\x88")] {
        peer.send(&headers(stream, &get("/"), true));
        peer.out.clear();
        peer.server.respond(stream, &[0x88], true, &mut peer.out).unwrap();
        let Ok(Prelude::Other(header)) = frame::prelude(&peer.out, SIZE_MIN) else {
            panic!("HEADERS");
        };
        let expected = Frame::Headers {
            fragment: block,
            depends: None,
        };
        assert_eq!(frame::parse(header, &peer.out[HEADER..]), Ok(expected));
    }
}
