//! What the counters of QUIC say of the receipts before them: to which receipt a hole belongs, and where flow control
//! held the server up, and what came back of a handshake. The protocol above is HTTP/1 where it makes no difference.

use super::*;
use crate::explain::{Cause, explain, sums};
use crate::timeline::Quic;

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// The causes of a fetch with a round trip of 20 ms whose response comes in pieces at these times; behind those of each
/// instant come the counters.
fn causes(pieces: &[(u64, u64, u64)]) -> Vec<(Cause, u64)> {
    let url = Url::parse("http://example.org/").expect("a URL");
    let mut fetch = Fetch::new(
        url,
        plan("serial"),
        Entries::new(),
        UnixTime::from_secs(1_000_000),
    );
    let mut port = Port::default();
    fetch.start(&mut port, ms(0));
    let mut tell = |happened: Happened<'_>, at| {
        fetch.handle(1, happened, &mut port, ms(at));
        port.take();
    };
    let quic = |holes, blocked| {
        Happened::Measured(Quic {
            rtt_min: Some(Duration::from_millis(20)),
            holes,
            blocked,
            ..Quic::default()
        })
    };
    tell(Happened::Connected, 20);
    tell(quic(0, 0), 20);
    let body = [b'x'; 1_000];
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
        1_000 * pieces.len()
    );
    tell(Happened::Bytes(head.as_bytes()), 40);
    for (number, &(at, holes, blocked)) in pieces.iter().enumerate() {
        tell(Happened::Bytes(&body), at);
        // Read once for all that has come at an instant.
        if pieces.get(number + 1).is_none_or(|next| next.0 > at) {
            tell(quic(holes, blocked), at);
        }
    }
    let timeline = fetch.into_outcome().timeline;
    assert_eq!(timeline.ended, ms(pieces.last().expect("one").0));
    let found = sums(&explain(&timeline)).into_iter();
    found
        .filter(|(_, took)| !took.is_zero())
        .map(|(cause, took)| (cause, took.as_millis() as u64))
        .collect()
}

#[test]
fn a_pause_before_a_filled_hole_is_loss_recovery() {
    // Three pieces become readable at once, 45 ms after the one before them.
    let pieces = |holes| [(40, 0, 0), (85, holes, 0), (85, holes, 0), (85, holes, 0)];
    let found = causes(&pieces(1));
    assert!(found.contains(&(Cause::LossRecovery, 45)), "{found:?}");
    let found = causes(&pieces(0));
    assert!(found.contains(&(Cause::ServerPause, 45)), "{found:?}");
}

#[test]
fn a_pause_after_a_blocked_server_is_flow_control() {
    // The server says that it is blocked, and goes on a round trip later.
    let pieces = |blocked| [(40, 0, 0), (41, 0, blocked), (61, 0, blocked)];
    let found = causes(&pieces(1));
    assert!(found.contains(&(Cause::FlowControl, 20)), "{found:?}");
    let found = causes(&pieces(0));
    assert!(
        found.iter().all(|(cause, _)| *cause != Cause::FlowControl),
        "{found:?}"
    );
}

#[test]
fn a_handshake_that_takes_too_long_says_what_came_back() {
    for (datagrams_in, said) in [
        (0, ": no datagram came back"),
        (3, "after 3 datagrams of the server"),
    ] {
        let url = Url::parse("https://example.org/").expect("a URL");
        let mut fetch = Fetch::new(url, plan("h3"), Entries::new(), UnixTime::from_secs(1_000_000));
        let mut port = Port::default();
        fetch.start(&mut port, ms(0));
        let late = ms(0) + Limits::DEFAULT.connect_timeout;
        fetch.handle(1, Happened::Woken(late), &mut port, late);
        assert!(port.take().0.contains(&Wish::Inspect(1)));
        let quic = Quic {
            datagrams_in,
            ..Quic::default()
        };
        fetch.handle(1, Happened::Measured(quic), &mut port, late);
        assert!(port.is_ended());
        let timeline = fetch.into_outcome().timeline;
        let Fate::Failed(why) = &timeline.objects[0].fate else {
            panic!("{:?}", timeline.objects)
        };
        assert!(why.contains(said) && why.ends_with("--mode h2"), "{why}");
    }
}
