//! Every deadline, in virtual time.

use super::rig::{End, Lines, Rig, answers, source};
use crate::adapt::{Knobs, Settings};
use crate::config::Config;
use crate::{Additions, Interprocess, Server};
use std::sync::Arc;
use units::{Duration, Seed, UnixTime};

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn a_connection_that_says_nothing_is_closed_silently() {
    let mut rig = Rig::new();
    rig.wait(secs(19));
    assert_eq!(rig.end, End::Open);
    rig.wait(secs(2));
    assert_eq!((rig.end, rig.out.len()), (End::Closed, 0));
}

/// The time for which the kernel kept a connection counts against the client.
#[test]
fn the_time_before_accept_counts_for_who_says_nothing() {
    let deferred = |span: Duration| Rig::with(|config| config.deferred = span);
    let mut rig = deferred(secs(1));
    rig.wait(Duration::from_millis(18_900));
    assert_eq!(rig.end, End::Open);
    rig.wait(Duration::from_millis(200));
    assert_eq!((rig.end, rig.out.len()), (End::Closed, 0));

    let mut rig = deferred(secs(1));
    rig.send(b"GET / HTTP/1.1\r\n");
    rig.wait(Duration::from_millis(19_900));
    assert_eq!(rig.end, End::Open, "a head has its whole time");
    rig.wait(Duration::from_millis(200));
    assert!(rig.text().starts_with("HTTP/1.1 408 "), "{}", rig.text());

    let mut rig = deferred(secs(30));
    rig.wait(Duration::from_millis(1));
    assert_eq!(rig.end, End::Closed, "its time was over when it came");
}

#[test]
fn a_byte_now_and_then_buys_no_time() {
    let mut rig = Rig::new();
    for byte in b"GET / HTTP/1.1\r\nHost: a\r\n".chunks(1) {
        rig.send(byte);
        rig.wait(secs(3));
    }
    assert!(rig.text().starts_with("HTTP/1.1 408 "), "{}", rig.text());
    assert!(rig.text().contains("Connection: close\r\n"));
    assert!(matches!(rig.end, End::HalfClosed | End::Closed));
    assert_eq!(rig.server.totals().timeouts, 1);
    rig.wait(secs(5));
    assert_eq!(rig.end, End::Closed, "it does not linger for ever");
}

#[test]
fn a_drain_does_not_wait_long_for_whom_nothing_is_owed() {
    let mut rig = Rig::new();
    rig.send(b"GET / HTTP/1.1\r\n");
    rig.drain();
    rig.wait(Duration::from_millis(900));
    assert_eq!(rig.end, End::Open, "the rest of a head may be on its way");
    rig.wait(Duration::from_millis(200));
    assert!(rig.text().starts_with("HTTP/1.1 408 "), "{}", rig.text());
    assert_eq!(rig.end, End::HalfClosed);
    rig.wait(Duration::from_millis(1_100));
    assert_eq!(rig.end, End::Closed, "no longer than needed to read the response");

    let mut rig = Rig::new();
    rig.send(b"BAD\r\n\r\n");
    assert_eq!(rig.end, End::HalfClosed);
    rig.drain();
    rig.wait(Duration::from_millis(1_100));
    assert_eq!(rig.end, End::Closed);
}

#[test]
fn empty_lines_are_no_request_that_could_be_late() {
    let mut rig = Rig::new();
    rig.send(b"GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    let len = rig.out.len();
    rig.send(b"\r\n\r\n\r");
    rig.wait(secs(19));
    assert_eq!(rig.end, End::Open);
    rig.wait(secs(2));
    assert_eq!(
        (rig.end, rig.out.len()),
        (End::Closed, len),
        "closed without a word"
    );
}

#[test]
fn the_header_time_begins_anew_with_each_request() {
    let mut rig = Rig::new();
    for _ in 0..5 {
        rig.send(b"GET /digits.bin HTTP/1.1\r\n");
        rig.wait(secs(15));
        rig.send(b"Host: a\r\n\r\n");
        rig.wait(secs(15));
    }
    assert_eq!((answers(&rig.out, |_| false).len(), rig.end), (5, End::Open));
}

#[test]
fn an_idle_connection_is_closed_silently() {
    let mut rig = Rig::new();
    rig.send(b"GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    let len = rig.out.len();
    rig.wait(secs(64));
    assert_eq!(rig.end, End::Open);
    rig.wait(secs(2));
    assert_eq!((rig.end, rig.out.len()), (End::Closed, len));
}

#[test]
fn a_body_must_keep_its_rate() {
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    let mut slow = Rig::new();
    slow.send(head);
    for _ in 0..50 {
        slow.send(&[0; 100]);
        slow.wait(secs(1));
    }
    assert!(slow.text().starts_with("HTTP/1.1 408 "), "{}", slow.text());

    let mut steady = Rig::new();
    steady.send(head);
    for _ in 0..100 {
        steady.send(&[0; 1_000]);
        steady.wait(secs(1));
    }
    assert!(steady.text().starts_with("HTTP/1.1 405 "), "{}", steady.text());
    assert_eq!(steady.end, End::Open);
}

#[test]
fn a_peer_that_takes_nothing_is_dropped_and_one_that_is_slow_is_not() {
    let mut rig = Rig::new();
    rig.stalled = true;
    rig.send(b"GET /big.png HTTP/1.1\r\nHost: a\r\n\r\n");
    for _ in 0..10 {
        rig.wait(secs(25));
        rig.progress(10);
    }
    assert_eq!(rig.end, End::Blocked, "slow is not dead");
    rig.wait(secs(31));
    assert_eq!(rig.end, End::Closed);
    let totals = rig.server.totals();
    assert_eq!((totals.aborted, totals.bytes_sent, totals.timeouts), (1, 100, 1));
    assert!(rig.log().contains("\"aborted\":\"timeout\""));
}

#[test]
fn an_answer_carries_the_second_it_was_made_in() {
    let mut rig = Rig::new();
    for _ in 0..3 {
        rig.send(b"GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        rig.wait(secs(1));
    }
    let dates: Vec<String> = answers(&rig.out, |_| false)
        .iter()
        .map(|a| a.field("date").unwrap()[17..25].to_owned())
        .collect();
    assert_eq!(dates, ["01:46:40", "01:46:41", "01:46:42"]);
}

/// A rig with a shortened idle timeout.
fn adapted(config: Config) -> Rig {
    let interprocess = Interprocess {
        knobs: Knobs::new().unwrap(),
        ..Interprocess::default()
    };
    let server = Server::open_with(
        Additions::default(),
        interprocess,
        config,
        source(),
        None,
        Seed(1),
    )
    .unwrap();
    Rig::of(server, Arc::new(Lines::default()))
}

fn keep_alive(rig: &Rig, keep_alive: Option<Duration>) {
    let settings = Settings {
        keep_alive,
        ..Settings::default()
    };
    rig.server.adapt(settings, &[], UnixTime::from_secs(0));
}

#[test]
fn a_shorter_time_holds_for_those_who_are_idle_already() {
    let mut rig = adapted(Config::default());
    rig.send(b"GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    rig.wait(secs(10));
    keep_alive(&rig, Some(secs(2)));
    rig.wait(secs(1));
    assert_eq!(rig.end, End::Open, "told at the end of that second");
    rig.wait(secs(3));
    assert_eq!(rig.end, End::Closed);
}

#[test]
fn a_shorter_time_is_for_those_who_were_answered_and_goes_again() {
    let mut rig = adapted(Config::default());
    keep_alive(&rig, Some(secs(2)));
    rig.turn();
    rig.wait(secs(15));
    assert_eq!(
        rig.end,
        End::Open,
        "no request yet: the timeout for a head applies"
    );
    rig.send(b"GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    keep_alive(&rig, None);
    rig.turn();
    rig.send(b"GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    rig.wait(secs(60));
    assert_eq!(rig.end, End::Open, "as configured");
    rig.wait(secs(6));
    assert_eq!(rig.end, End::Closed);
}

#[test]
fn a_configured_early_close_is_never_made_longer() {
    let mut config = Config::default();
    config.behavior.early_close = secs(1);
    let mut rig = adapted(config);
    keep_alive(&rig, Some(secs(30)));
    rig.turn();
    rig.send(b"GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    rig.wait(secs(2));
    assert_eq!(rig.end, End::Closed);
}
