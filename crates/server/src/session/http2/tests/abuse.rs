//! Floods end their connection at a bounded cost, and honest clients are never cut off.

use super::floods::{Ends, FLOODS, Flood, ROUNDS, ask, left};
use super::peer::Peer;
use crate::session::rig::{End, Rig};
use ::http2::{Code, Limits};
use units::{Draw as _, Duration, Seed};

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

/// Bytes a flood may make the server hold.
const HELD_MAX: u64 = 192 << 10;

/// Requests of a connection at a time in these tests.
const STREAMS: u32 = 100;

/// Sends a flood in pieces of this many bytes. Returns the server, and the most jobs under way.
fn drown(flood: &Flood, piece: usize) -> (Rig, usize) {
    let name = flood.name;
    let mut rig = Rig::with(|config| config.max_streams = STREAMS);
    rig.agree_on_http2();
    rig.holds_jobs = true;
    let (mut taken, mut jobs) = (0, 0);
    for piece in flood.bytes().chunks(piece) {
        if rig.end != End::Open {
            break;
        }
        rig.send(piece);
        taken += piece.len();
        let held = rig.cx.hub.budget.held().0;
        assert!(held <= HELD_MAX, "{name}: {held} bytes held");
        jobs = jobs.max(rig.jobs.len());
    }
    let out = rig.out.len();
    assert!(out <= 2 * taken + 200, "{name}: {out} bytes in answer to {taken}");
    assert!(jobs <= STREAMS as usize, "{name}: {jobs} jobs");
    (rig, jobs)
}

#[test]
fn a_flood_ends_at_a_bounded_cost() {
    for flood in FLOODS {
        let name = flood.name;
        // As fast as it arrives, and so slowly that jobs begin between the frames.
        for piece in [16 << 10, 40] {
            let (mut rig, jobs) = drown(flood, piece);
            if flood.name.contains("jobs") && piece < 100 {
                assert_eq!(jobs, STREAMS as usize, "jobs count until they end");
            }
            match flood.ends {
                Ends::With(code) => {
                    assert_eq!(left(&rig.out), Some(code), "{name}");
                    assert_eq!(rig.server.totals().http2_failed, 1, "{name}");
                    rig.run_jobs();
                    rig.wait(Duration::from_secs(60));
                    assert_eq!(rig.end, End::Closed, "{name}");
                }
                Ends::Borne => {
                    assert_eq!(left(&rig.out), None, "{name}");
                    rig.holds_jobs = false;
                    rig.run_jobs();
                    let mut up = Vec::new();
                    ask(2 * ROUNDS + 101, "/digits.bin", &[], &mut up);
                    rig.send(&up);
                    assert!(rig.out.ends_with(b"0123456789"), "{name}");
                }
            }
        }
    }
}

/// Windows of `window` bytes on a hundred streams, each of which gets a byte more every second if it `drips`.
fn starve(window: u32, drips: bool) {
    let limits = Limits {
        stream_window: window,
        ..Limits::DEFAULT
    };
    let mut peer = Peer::limited(|_| {}, limits);
    peer.consumes = false;
    peer.get("GET", "/digits.bin", &[]);
    let (streams, ups): (Vec<_>, Vec<_>) = (0..STREAMS)
        .map(|_| peer.ask("GET", "/big.png", &[], true))
        .unzip();
    peer.send(&ups.concat());
    for _ in 0..32 {
        let held = peer.rig.cx.hub.budget.held().0;
        assert!(held <= HELD_MAX, "{held} bytes held");
        peer.rig.wait(Duration::from_secs(1));
        peer.take();
        let mut up = Vec::new();
        for stream in streams.iter().filter(|_| drips) {
            peer.http.consumed(*stream, 1, &mut up);
        }
        peer.rig.send(&up);
    }
    let reset = |stream: &u32| peer.got[stream].reset == Some(Code::ENHANCE_YOUR_CALM);
    assert!(streams.iter().all(reset));
    assert_eq!(peer.get("GET", "/empty.bin", &[]).status(), 200);
    assert_eq!(peer.rig.end, End::Open);
}

#[test]
fn closed_windows_on_a_hundred_streams_cost_the_streams() {
    starve(0, false);
    starve(1, false);
}

#[test]
fn a_byte_a_second_on_a_hundred_streams_costs_the_streams() {
    starve(1, true);
}
