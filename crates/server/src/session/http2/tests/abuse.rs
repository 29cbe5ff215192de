//! Floods end their connection at a bounded cost, and honest clients are never cut off.

use super::peer::Peer;
use ::http2::Limits;
use measure::{Draw as _, Duration, Seed};

/// Streams a browser opens for a page at most.
const PAGE_MAX: u64 = 100;

/// A client whose windows let only the beginning of an answer pass, so that its requests stay under way.
fn slow_reader() -> Peer {
    let limits = Limits {
        stream_window: 1_000,
        ..Limits::DEFAULT
    };
    let mut peer = Peer::limited(|_| {}, limits);
    peer.consumes = false;
    peer
}

/// Opens a page whose answers stay under way: content that the windows hold back, or jobs that have not ended.
fn open(peer: &mut Peer, requests: u64, first: u32) -> Vec<u32> {
    peer.rig.holds_jobs = first.is_multiple_of(3);
    let (streams, ups): (Vec<_>, Vec<_>) = (0..requests)
        .map(|number| {
            let path = match peer.rig.holds_jobs {
                true => format!("/{}", first as u64 + number),
                false => ["/big.png", "/page.png"][number as usize % 2].to_owned(),
            };
            peer.ask("GET", &path, &[], true)
        })
        .unzip();
    peer.send(&ups.concat());
    streams
}

#[test]
fn a_client_that_navigates_away_for_an_hour_is_not_cut_off() {
    const RESETS: u64 = 100_000;
    let seed = Seed(1);
    println!("seed {seed:?}");
    let (mut rng, mut peer) = (seed.rng(), slow_reader());
    let begin = peer.rig.now;
    let mut resets = 0;
    while resets < RESETS {
        // A few pages in quick succession, each left before it has loaded. Then one is read.
        for _ in 0..1 + rng.next_u64() % 8 {
            let requests = (PAGE_MAX / 4 + rng.next_u64() % (PAGE_MAX * 3 / 4)).min(RESETS - resets);
            let streams = open(&mut peer, requests, resets as u32);
            peer.rig.wait(Duration::from_millis(50 + rng.next_u64() % 400));
            peer.take();
            assert!(streams.iter().all(|stream| {
                let got = peer.got.get(stream);
                got.is_none_or(|got| !got.has_ended && got.reset.is_none())
            }));
            peer.cancel_all(&streams);
            resets += requests;
            peer.rig.run_jobs();
            peer.forget();
        }
        peer.rig.holds_jobs = false;
        assert_eq!(peer.get("GET", "/digits.bin", &[]).body, b"0123456789");
        // As many resets in the hour as have to be.
        let due = begin + Duration::from_millis(resets * 3_600_000 / RESETS);
        peer.rig.wait(Duration::from_nanos(
            due.as_nanos().saturating_sub(peer.rig.now.as_nanos()),
        ));
        peer.take();
        assert!(!peer.is_left, "after {resets} resets");
    }
    let hour = Duration::from_nanos(peer.rig.now.as_nanos() - begin.as_nanos());
    assert!(hour <= Duration::from_secs(3_610), "{hour:?}");
    let totals = peer.rig.server.totals();
    assert_eq!((totals.http2_resets, totals.http2_failed), (RESETS, 0));
}
