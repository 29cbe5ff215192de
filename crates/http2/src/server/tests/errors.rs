//! Late frames: which are errors, and which were under way. The table of errors is in `tests/errors`.

use super::*;

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
