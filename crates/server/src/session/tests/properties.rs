//! Invariants for any bytes, split anywhere, with any events in between.

use super::rig::{End, Rig, answers, cuts};
use crate::session::exercise::{self, FRAGMENTS};
use proptest::prelude::*;
use units::Seed;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// No bytes make it panic, grow or answer twice.
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        exercise::run(&bytes);
    }

    /// Frames of HTTP/2 in any order, jobs that end late, and events in between.
    #[test]
    fn any_order_of_frames(script in proptest::collection::vec(any::<u8>(), 8..300)) {
        exercise::run_http2(&script);
    }

    /// Pieces of real requests in any order reach further than noise.
    #[test]
    fn any_order_of_fragments(picks in proptest::collection::vec(0..FRAGMENTS.len(), 0..40), noise in any::<u64>()) {
        let mut bytes = noise.to_le_bytes().to_vec();
        picks.iter().for_each(|&i| bytes.extend_from_slice(FRAGMENTS[i]));
        exercise::run(&bytes);
    }
}

/// Requests that leave a connection open; none has a random boundary in its response.
const REQUESTS: [&str; 12] = [
    "GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /big.png HTTP/1.1\r\nHost: a\r\n\r\n",
    "HEAD /big.png HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /dir?x HTTP/1.1\r\nHost: a\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "GET /digits.bin HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "GET /text.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n",
    "GET /big.png HTTP/1.1\r\nHost: a\r\nRange: bytes=9-20000\r\n\r\n",
    "GET /digits.bin HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n",
    "GET /digits.bin HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
];

#[test]
fn pipelining_equals_one_connection_per_request() {
    for seed in 0..40 {
        let mut rng = Seed(seed).rng();
        let picks: Vec<&str> = (0..1 + rng.next_u64() % 20)
            .map(|_| REQUESTS[rng.next_u64() as usize % REQUESTS.len()])
            .collect();
        let mut rig = Rig::new();
        let mut apart = Vec::new();
        for request in &picks {
            rig.send(request.as_bytes());
            apart.extend_from_slice(&rig.out);
            rig.reconnect();
        }
        let input = picks.concat();
        for pieces in cuts(input.as_bytes()) {
            rig.reconnect();
            pieces.iter().for_each(|piece| rig.send(piece));
            assert_eq!(rig.end, End::Open);
            assert!(
                rig.out == apart,
                "{}: {picks:?} in {} pieces",
                Seed(seed),
                pieces.len()
            );
        }
        let heads = |i: usize| picks[i].starts_with("HEAD");
        assert_eq!(answers(&apart, heads).len(), picks.len());
    }
}
