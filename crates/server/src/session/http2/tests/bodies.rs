//! Requests with bodies.

use super::peer::Peer;
use ::http2::Code;
use ::http2::hpack::block;
use ::http2::priority::Priority;
use units::{Bytes, Duration};

#[test]
fn a_body_is_read_before_its_request_is_answered() {
    let mut peer = Peer::new();
    let (stream, up) = peer.ask("GET", "/digits.bin", &[], false);
    peer.send(&up);
    assert_eq!(peer.got.get(&stream), None);
    // Other requests do not wait for it.
    assert_eq!(peer.get("GET", "/small.png", &[]).status(), 200);
    peer.send_body(stream, &[7; 100_000]);
    assert_eq!(peer.got[&stream].status(), 200);
    assert_eq!(peer.got[&stream].body, b"0123456789");
}

#[test]
fn a_client_that_waits_is_told_to_go_on() {
    let mut peer = Peer::new();
    let (stream, up) = peer.ask("GET", "/digits.bin", &[("expect", "100-continue")], false);
    peer.send(&up);
    assert_eq!(peer.got[&stream].statuses, [100]);
    peer.send_body(stream, b"x");
    assert_eq!(peer.got[&stream].statuses, [100, 200]);
}

#[test]
fn what_will_be_rejected_need_not_be_sent() {
    for (method, fields, status) in [
        ("POST", &[("expect", "100-continue")][..], 405),
        ("GET", &[("expect", "the-unexpected")], 417),
        ("GET", &[("content-length", "2000000")], 413),
    ] {
        let mut peer = Peer::new();
        let (stream, up) = peer.ask(method, "/digits.bin", fields, false);
        peer.send(&up);
        let got = &peer.got[&stream];
        assert_eq!((got.status(), got.has_ended), (status, true), "{fields:?}");
        // The answer came first, so this loses nothing: the rest need not be sent.
        assert_eq!(got.reset, Some(Code::NO_ERROR));
        assert_eq!(peer.get("GET", "/digits.bin", &[]).status(), 200);
    }
}

#[test]
fn a_body_that_is_too_long_is_given_up() {
    let mut peer = Peer::with(|config| config.max_body_size = Bytes(1_000));
    let (stream, up) = peer.ask("GET", "/digits.bin", &[], false);
    peer.send(&up);
    peer.send_body(stream, &[7; 3_000]);
    assert_eq!(peer.got[&stream].status(), 413);
    assert_eq!(peer.get("GET", "/digits.bin", &[]).status(), 200);
}

#[test]
fn a_body_that_does_not_arrive_gets_408() {
    let mut peer = Peer::new();
    let (stream, up) = peer.ask("GET", "/digits.bin", &[], false);
    peer.send(&up);
    peer.rig.wait(Duration::from_secs(21));
    peer.take();
    assert_eq!(peer.got[&stream].status(), 408);
    assert_eq!(peer.rig.server.totals().timeouts, 1);
}

#[test]
fn a_body_that_differs_from_its_length_ends_the_stream() {
    let mut peer = Peer::new();
    let (stream, up) = peer.ask("GET", "/digits.bin", &[("content-length", "5")], false);
    peer.send(&up);
    peer.send_body(stream, b"1234567");
    assert_eq!(peer.got[&stream].reset, Some(Code::PROTOCOL_ERROR));
    assert_eq!(peer.get("GET", "/digits.bin", &[]).status(), 200);
}

/// CONNECT has neither scheme nor path (RFC 9113 section 8.5), and this is no proxy.
#[test]
fn connect_is_refused() {
    let mut peer = Peer::new();
    let mut head = Vec::new();
    block::field(b":method", b"CONNECT", &mut head);
    block::field(b":authority", b"a:443", &mut head);
    let mut up = Vec::new();
    let stream = peer
        .http
        .request(&head, false, false, Priority::DEFAULT, &mut up)
        .expect("room for a stream");
    peer.send(&up);
    let got = &peer.got[&stream];
    assert_eq!((got.status(), got.has_ended), (405, true));
    assert_eq!(peer.get("GET", "/digits.bin", &[]).status(), 200);
}
