//! How connections end, and that no answer is lost by it.

use super::peer::Peer;
use crate::session::rig::{End, Rig};
use ::http2::Limits;
use runtime::session::Loss;
use units::Duration;

#[test]
fn an_idle_connection_is_told_before_it_is_closed() {
    let mut peer = Peer::new();
    assert_eq!(peer.get("GET", "/digits.bin", &[]).status(), 200);
    peer.rig.wait(Duration::from_secs(64));
    peer.take();
    assert!(!peer.is_left);
    peer.rig.wait(Duration::from_secs(2));
    peer.take();
    assert!(peer.is_left);
    assert_eq!(peer.rig.end, End::HalfClosed);
    peer.rig.wait(Duration::from_secs(6));
    assert_eq!(peer.rig.end, End::Closed);
    assert_eq!(peer.rig.server.totals().timeouts, 1);
}

#[test]
fn a_client_that_says_nothing_is_closed() {
    let mut rig = Rig::new();
    rig.agree_on_http2();
    rig.wait(Duration::from_secs(30));
    assert_eq!(rig.end, End::Closed);
}

#[test]
fn a_shutdown_waits_for_the_answers_under_way() {
    let mut peer = Peer::new();
    peer.rig.stalled = true;
    let (stream, up) = peer.ask("GET", "/big.png", &[], true);
    peer.send(&up);
    peer.rig.drain();
    // A request that was sent before the client knew is answered, too.
    let (late, up) = peer.ask("GET", "/digits.bin", &[], true);
    peer.send(&up);
    peer.rig.unstall();
    peer.take();
    assert!(peer.is_left);
    assert_eq!(peer.got[&stream].body.len(), 100_000);
    assert_eq!(peer.got[&late].body, b"0123456789");
    assert_eq!(peer.rig.end, End::HalfClosed);
    peer.rig.eof();
    assert_eq!(peer.rig.end, End::Closed);
    assert_eq!(peer.rig.server.totals().aborted, 0);
}

#[test]
fn the_last_request_of_a_connection_is_told() {
    let mut peer = Peer::with(|config| config.max_requests_per_connection = 2);
    assert_eq!(peer.get("GET", "/digits.bin", &[]).status(), 200);
    assert!(!peer.is_left);
    assert_eq!(peer.get("GET", "/digits.bin", &[]).status(), 200);
    assert!(peer.is_left);
    assert_eq!(peer.rig.end, End::HalfClosed);
}

#[test]
fn an_idle_connection_gives_way_and_a_busy_one_does_not() {
    let mut peer = Peer::new();
    peer.get("GET", "/digits.bin", &[]);
    let idle = |peer: &Peer| runtime::Session::idle_since(&peer.rig.session, &peer.rig.cx);
    assert_eq!(idle(&peer), Some(peer.rig.now));
    peer.rig.stalled = true;
    let (_, up) = peer.ask("GET", "/big.png", &[], true);
    peer.send(&up);
    assert_eq!(idle(&peer), None);
    peer.rig.unstall();
    peer.take();
    peer.rig.give_way();
    peer.take();
    assert!(peer.is_left);
    assert_eq!(peer.rig.end, End::Closed);
}

#[test]
fn input_that_is_not_http_2_ends_the_connection() {
    let mut rig = Rig::new();
    rig.agree_on_http2();
    rig.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(rig.end, End::HalfClosed);
    assert_eq!(rig.server.totals().http2_failed, 1);
    // More of it is discarded.
    rig.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    rig.wait(Duration::from_secs(6));
    assert_eq!(rig.end, End::Closed);
}

#[test]
fn a_client_that_has_closed_its_half_gets_its_answers() {
    let mut peer = Peer::new();
    peer.rig.stalled = true;
    let (stream, up) = peer.ask("GET", "/big.png", &[], true);
    peer.send(&up);
    peer.rig.eof();
    peer.rig.unstall();
    let mut out = std::mem::take(&mut peer.rig.out);
    // Its window is not refilled, so the rest cannot be sent; what was allowed is there.
    assert!(out.len() > 65_535, "{}", out.len());
    out.clear();
    let _ = stream;
    peer.rig.wait(Duration::from_secs(31));
    assert_eq!(peer.rig.end, End::Closed);
}

#[test]
fn a_lost_connection_counts_its_answers() {
    let mut peer = Peer::new();
    peer.rig.stalled = true;
    let (_, one) = peer.ask("GET", "/big.png", &[], true);
    let (_, two) = peer.ask("GET", "/digits.bin", &[], true);
    peer.send(&[one, two].concat());
    peer.rig.progress(500);
    peer.rig.lose(Loss::Socket(104));
    assert_eq!(peer.rig.end, End::Closed);
    let totals = peer.rig.server.totals();
    assert_eq!(totals.aborted, 2);
    let log = peer.rig.log();
    assert_eq!(
        log.lines()
            .filter(|line| line.contains("\"aborted\":\"peer\""))
            .count(),
        2,
        "{log}"
    );
}

#[test]
fn a_peer_that_does_not_read_is_given_up() {
    let mut peer = Peer::new();
    peer.rig.stalled = true;
    let (_, up) = peer.ask("GET", "/big.png", &[], true);
    peer.send(&up);
    peer.rig.wait(Duration::from_secs(31));
    assert_eq!(peer.rig.end, End::Closed);
    let totals = peer.rig.server.totals();
    assert_eq!((totals.timeouts, totals.aborted), (1, 1));
}

#[test]
fn a_stream_whose_window_stays_closed_is_given_up_and_others_are_not() {
    let limits = Limits {
        stream_window: 1_000,
        ..Limits::DEFAULT
    };
    let mut peer = Peer::limited(|_| {}, limits);
    peer.consumes = false;
    let (stream, up) = peer.ask("GET", "/big.png", &[], true);
    peer.send(&up);
    assert_eq!(peer.got[&stream].body.len(), 1_000);
    peer.rig.wait(Duration::from_secs(31));
    peer.take();
    assert!(peer.got[&stream].reset.is_some());
    assert_eq!(peer.get("GET", "/digits.bin", &[]).body, b"0123456789");
    let log = peer.rig.log();
    assert!(log.contains("\"aborted\":\"timeout\""), "{log}");
}
