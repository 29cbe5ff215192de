//! Every error of RFC 9113 a client can commit, with its code and extent.

use super::*;

#[test]
fn errors_have_the_codes_of_the_rfc() {
    let request = headers(1, &get("/"), true);
    let open = headers(1, &get("/"), false);
    let cat = |parts: &[&[u8]]| parts.concat();
    let update = |stream, n: u32| raw(kind::WINDOW_UPDATE, 0, stream, &n.to_be_bytes());
    let begun = raw(kind::HEADERS, 0, 1, &get("/"));
    let mut malformed = get("/");
    block::field(b"connection", b"close", &mut malformed);
    let mut length = get("/");
    block::field(b"content-length", b"3", &mut length);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (raw(kind::DATA, 0, 1, b"x"), "connection PROTOCOL_ERROR"),
        (raw(kind::RST_STREAM, 0, 1, &[0; 4]), "connection PROTOCOL_ERROR"),
        (update(1, 9), "connection PROTOCOL_ERROR"),
        (update(0, 0), "connection PROTOCOL_ERROR"),
        (update(0, WINDOW_MAX), "connection FLOW_CONTROL_ERROR"),
        (cat(&[&open, &update(1, 0)]), "stream 1 PROTOCOL_ERROR"),
        (
            cat(&[&open, &update(1, WINDOW_MAX)]),
            "stream 1 FLOW_CONTROL_ERROR",
        ),
        (headers(2, &get("/"), true), "connection PROTOCOL_ERROR"),
        (
            cat(&[&request, &raw(kind::DATA, 0, 1, b"x")]),
            "stream 1 STREAM_CLOSED",
        ),
        (
            cat(&[&request, &headers(1, &get("/"), true)]),
            "stream 1 STREAM_CLOSED",
        ),
        (cat(&[&open, &headers(1, &[], false)]), "stream 1 PROTOCOL_ERROR"),
        (
            cat(&[&open, &headers(1, &get("/"), true)]),
            "stream 1 PROTOCOL_ERROR",
        ),
        (headers(1, &malformed, true), "stream 1 PROTOCOL_ERROR"),
        (headers(1, &length, true), "stream 1 PROTOCOL_ERROR"),
        (
            cat(&[&headers(1, &length, false), &raw(kind::DATA, 0, 1, b"four")]),
            "stream 1 PROTOCOL_ERROR",
        ),
        (
            cat(&[&headers(1, &length, false), &raw(kind::DATA, 1, 1, b"12")]),
            "stream 1 PROTOCOL_ERROR",
        ),
        (
            headers(1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff], true),
            "connection COMPRESSION_ERROR",
        ),
        (raw(kind::CONTINUATION, 4, 1, &[]), "connection PROTOCOL_ERROR"),
        (
            cat(&[&begun, &raw(kind::PING, 0, 0, &[0; 8])]),
            "connection PROTOCOL_ERROR",
        ),
        (
            cat(&[&begun, &raw(kind::CONTINUATION, 4, 3, &[])]),
            "connection PROTOCOL_ERROR",
        ),
        (
            raw(kind::PUSH_PROMISE, 4, 1, &[0; 4]),
            "connection PROTOCOL_ERROR",
        ),
        (
            raw(kind::PRIORITY, 0, 3, &[0, 0, 0, 3, 9]),
            "connection PROTOCOL_ERROR",
        ),
        (raw(kind::PRIORITY, 0, 3, &[0; 4]), "connection FRAME_SIZE_ERROR"),
        (
            raw(kind::PRIORITY_UPDATE, 0, 0, &[0, 0, 0, 2]),
            "connection PROTOCOL_ERROR",
        ),
        (
            raw(kind::SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]),
            "connection FLOW_CONTROL_ERROR",
        ),
        (
            raw(kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2]),
            "connection PROTOCOL_ERROR",
        ),
        (
            cat(&[
                &open,
                &update(1, 0x7fff_0000),
                &raw(kind::SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]),
            ]),
            "connection FLOW_CONTROL_ERROR",
        ),
        (raw(kind::PING, 0, 0, &[0; 7]), "connection FRAME_SIZE_ERROR"),
        (
            cat(&[&open, &raw(kind::PRIORITY, 0, 1, &[0; 4])]),
            "stream 1 FRAME_SIZE_ERROR",
        ),
        (
            cat(&[&open, &raw(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 9])]),
            "stream 1 PROTOCOL_ERROR",
        ),
        (raw(0x55, 0, 9, &[0; 100]), ""),
        (raw(kind::PRIORITY, 0, 9, &[0; 5]), ""),
        (request, ""),
    ];
    for (at, (input, expected)) in cases.iter().enumerate() {
        for cut in [1, 7, input.len()] {
            let mut peer = Peer::new();
            let mut pending = Vec::new();
            for piece in input.chunks(cut) {
                pending.extend_from_slice(piece);
                let before = peer.events.len();
                let mut used = 0;
                loop {
                    let received = peer.server.receive(&pending[used..], peer.now, &mut peer.out);
                    used += received.used;
                    if matches!(received.event, Event::Partial | Event::Closed(_)) {
                        break;
                    }
                }
                assert_eq!(before, peer.events.len());
                pending.drain(..used);
            }
            assert_eq!(peer.outcome(), *expected, "case {at}, pieces of {cut}");
        }
    }
}

#[test]
fn a_wrong_beginning_is_refused() {
    for input in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x08\x06\0\0\0\0\x0012345678",
    ] {
        let mut out = Vec::new();
        let mut server = Connection::new(Arc::default(), Instant::ZERO, &mut out);
        let mut used = 0;
        let event = loop {
            let received = server.receive(&input[used..], Instant::ZERO, &mut out);
            used += received.used;
            match received.event {
                Event::Partial => panic!("the input is wrong"),
                Event::Closed(fault) => break fault,
                _ => {}
            }
        };
        assert!(
            matches!(event, Fault::Connection(Code::PROTOCOL_ERROR, _)),
            "{event}"
        );
    }
}

#[test]
fn late_frames_after_a_reset_are_ignored_and_after_the_end_are_not() {
    let mut peer = Peer::new();
    peer.send(&headers(1, &get("/"), false));
    peer.server.reset(1, Code::CANCEL, &mut peer.out);
    peer.out.clear();
    peer.send(&raw(kind::DATA, 0, 1, b"late"));
    assert_eq!(peer.outcome(), "");
    peer.send(&headers(5, &get("/"), false));
    peer.send(&raw(kind::RST_STREAM, 0, 5, &8_u32.to_be_bytes()));
    peer.send(&raw(kind::DATA, 0, 5, b"late"));
    assert_eq!(peer.outcome(), "stream 5 STREAM_CLOSED");
    peer.send(&headers(7, &get("/"), true));
    peer.server.respond(7, &[0x88], true, &mut peer.out).unwrap();
    peer.out.clear();
    peer.send(&raw(kind::DATA, 0, 7, b"x"));
    assert_eq!(peer.outcome(), "connection STREAM_CLOSED");
}
