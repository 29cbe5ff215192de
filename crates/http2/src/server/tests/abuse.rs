//! Floods, stalls and resets: abuse is cut off, honest clients are not.

use super::*;

#[test]
fn a_window_that_drips_resets_its_stream_only() {
    let mut peer = Peer::new();
    peer.send(&raw(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]));
    for stream in [1, 3] {
        peer.send(&headers(stream, &get("/"), true));
        peer.server
            .respond(stream, &[0x88], false, &mut peer.out)
            .unwrap();
        peer.server.ready(stream, 10_000).unwrap();
    }
    peer.send(&raw(kind::WINDOW_UPDATE, 0, 3, &9_999_u32.to_be_bytes()));
    while peer.server.next(usize::MAX, peer.now, &mut peer.out).is_some() {}
    let due = peer.server.deadline().unwrap();
    while peer.now < due {
        peer.now = peer.now + Duration::from_secs(1);
        peer.send(&raw(kind::WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes()));
        assert_eq!(
            peer.server
                .next(usize::MAX, peer.now, &mut peer.out)
                .unwrap()
                .bytes,
            1
        );
        peer.server.next(usize::MAX, peer.now, &mut peer.out);
    }
    let mut lost = Vec::new();
    peer.out.clear();
    peer.server
        .expire(peer.now, &mut peer.out, |stream, _| lost.push(stream))
        .unwrap();
    assert_eq!(
        (lost, peer.outcome()),
        (vec![1], "stream 1 ENHANCE_YOUR_CALM".to_owned())
    );
    assert_eq!(peer.server.streams(), 1);
}

#[test]
fn floods_are_cut_off() {
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("ping", raw(kind::PING, 0, 0, &[0; 8])),
        ("settings", raw(kind::SETTINGS, 0, 0, &[])),
        ("priority", raw(kind::PRIORITY, 0, 9, &[0; 5])),
        ("priority update", raw(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 9])),
        (
            "window updates",
            raw(kind::WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
        ),
        ("unknown", raw(0x99, 0, 0, &[])),
        ("empty data", raw(kind::DATA, 0, 1, &[])),
        ("provoked", raw(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 0])),
    ];
    for (name, frame) in cases {
        let mut peer = Peer::new();
        peer.send(&headers(1, &get("/"), false));
        for _ in 0..2_000 {
            peer.send(&frame);
        }
        assert_eq!(peer.events.last().unwrap(), "closed ENHANCE_YOUR_CALM", "{name}");
        peer.out.clear();
        peer.send(&frame);
        assert!(peer.out.is_empty(), "{name}: nothing is answered after GOAWAY");
    }
}

#[test]
fn rapid_reset_is_cut_off_and_slow_resets_are_not() {
    let mut peer = Peer::new();
    let cancel = |stream| raw(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    for stream in (1..3_001).step_by(2) {
        peer.send(&headers(stream, &get("/"), true));
        peer.send(&cancel(stream));
    }
    assert_eq!(peer.events.last().unwrap(), "closed ENHANCE_YOUR_CALM");

    let mut peer = Peer::new();
    for n in 0..100_000 {
        peer.now = peer.now + Duration::from_millis(36);
        let stream = 2 * n + 1;
        peer.send(&headers(stream, &get("/"), true));
        peer.send(&cancel(stream));
        peer.events.clear();
        assert_eq!(peer.outcome(), "", "reset {n}");
    }
    assert_eq!(peer.server.streams(), 0);
}

#[test]
fn a_block_without_end_is_cut_off() {
    let mut peer = Peer::new();
    peer.send(&raw(kind::HEADERS, 0, 1, &get("/")));
    let due = peer.server.deadline().unwrap();
    for _ in 0..20 {
        peer.send(&raw(kind::CONTINUATION, 0, 1, b""));
    }
    assert_eq!(peer.events.last().unwrap(), "closed ENHANCE_YOUR_CALM");
    let mut peer = Peer::new();
    peer.send(&raw(kind::HEADERS, 0, 1, &get("/")));
    assert!(peer.server.expire(due, &mut peer.out, |_, _| {}).is_err());
}

#[test]
fn work_counts_until_its_job_ends() {
    let mut peer = Peer::with(Limits {
        streams_max: 2,
        ..Limits::DEFAULT
    });
    for stream in [1, 3] {
        peer.send(&headers(stream, &get("/"), true));
        peer.server.job_began(stream);
        peer.send(&raw(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    peer.send(&headers(5, &get("/"), true));
    assert_eq!(peer.outcome(), "stream 5 REFUSED_STREAM");
    peer.server.job_ended(1);
    peer.send(&headers(7, &get("/"), true));
    assert_eq!(peer.events.last().unwrap(), "request 7 / true");
    assert_eq!(
        peer.server.respond(3, &[0x88], true, &mut peer.out),
        Err(Misuse::Gone)
    );
}
