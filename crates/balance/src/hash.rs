//! `hash`: the upstream that the key of the request hashes to.
//!
//! Rendezvous hashing: every upstream has a score for the key, and the highest wins. If an upstream leaves, only its keys
//! move, and they spread over all others. Thaler and Ravishankar, "Using name-based mappings to increase hit rates",
//! IEEE/ACM Transactions on Networking 6(1), 1998; weights by the logarithm: Schindelhauer and Schomaker, "Weighted
//! distributed hash tables", SPAA 2005.
//!
//! An upstream takes at most [`BOUND`] times its share of the requests under way; then the next score wins. Mirrokni,
//! Thorup and Zadimoghaddam, "Consistent hashing with bounded loads", SODA 2018. The bound is theirs, the hashing is not:
//! with at most 64 upstreams, a ring would save nothing.

use crate::upstream::Upstream;

/// Most load of an upstream, as a multiple of its share: 1 + epsilon of the paper.
const BOUND: f64 = 1.25;

/// The upstream for this key. `open` is not empty; `share` is the part of its load that an upstream takes during its slow
/// start.
pub(crate) fn of(upstreams: &[Upstream], open: &[usize], key: u64, share: impl Fn(usize) -> f64) -> usize {
    let weight = |at: usize| f64::from(upstreams[at].weight);
    let capacity_all: f64 = open.iter().map(|&at| weight(at) * share(at)).sum();
    let under_way: f64 = open.iter().map(|&at| f64::from(upstreams[at].under_way)).sum();
    let has_room = |at: usize| {
        let part = weight(at) * share(at) / capacity_all;
        f64::from(upstreams[at].under_way) < (BOUND * (under_way + 1.0) * part).ceil()
    };
    // The keys that an upstream in its slow start takes are always the same ones.
    let takes = |at: usize| fraction(mix(key ^ mix(!upstreams[at].id))) < share(at);
    let score = |at: usize| -weight(at) / libm::log(fraction(mix(key ^ mix(upstreams[at].id))));
    let best = |among: &dyn Fn(usize) -> bool| {
        let candidates = open.iter().copied().filter(|&at| among(at));
        candidates.max_by(|&a, &b| score(a).total_cmp(&score(b)))
    };
    let bounded = best(&|at| takes(at) && has_room(at));
    bounded.or_else(|| best(&has_room)).unwrap_or(open[0])
}

/// The hash of a key or of an upstream's name: FNV-1a (Fowler, Noll and Vo), finished by [`mix`]. It is the same in every
/// process and version, so that keys stay where they are.
pub fn of_bytes(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// A permutation whose output bits all depend on all input bits: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A number between 0 and 1, both excluded.
fn fraction(x: u64) -> f64 {
    ((x >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn upstreams(weights: &[u32]) -> Vec<Upstream> {
        let ids = 1_u64..;
        ids.zip(weights)
            .map(|(id, &weight)| Upstream::new(id, weight))
            .collect()
    }

    fn owner(upstreams: &[Upstream], open: &[usize], key: u64) -> usize {
        of(upstreams, open, key, |_| 1.0)
    }

    proptest! {
        #[test]
        fn only_the_keys_of_an_upstream_that_leaves_move(count in 2_usize..64, gone in 0_usize..64, key: u64) {
            let upstreams = upstreams(&vec![1; count]);
            let all: Vec<usize> = (0..count).collect();
            let before = owner(&upstreams, &all, key);
            let left: Vec<usize> = all.into_iter().filter(|&at| at != gone % count).collect();
            if before != gone % count {
                prop_assert_eq!(owner(&upstreams, &left, key), before);
            }
        }

        #[test]
        fn no_upstream_takes_more_than_its_bound(count in 2_usize..20, requests in 1_u32..300, key: u64) {
            // All requests have the same key, and none ends.
            let mut upstreams = upstreams(&vec![1; count]);
            let all: Vec<usize> = (0..count).collect();
            for _ in 0..requests {
                let at = owner(&upstreams, &all, key);
                upstreams[at].under_way += 1;
            }
            let most = upstreams.iter().map(|upstream| upstream.under_way).max().unwrap();
            prop_assert!(f64::from(most) <= (BOUND * f64::from(requests) / count as f64).ceil());
        }
    }

    #[test]
    fn keys_spread_by_weight() {
        let upstreams = upstreams(&[1, 1, 2]);
        let mut counts = [0; 3];
        for key in 0..40_000 {
            counts[owner(&upstreams, &[0, 1, 2], key)] += 1;
        }
        for (count, expected) in counts.into_iter().zip([10_000.0, 10_000.0, 20_000.0]) {
            assert!((f64::from(count) / expected - 1.0).abs() < 0.03, "{counts:?}");
        }
    }

    #[test]
    fn the_keys_of_a_slow_start_are_a_part_of_its_own() {
        let upstreams = upstreams(&[1, 1]);
        let slow = |key| of(&upstreams, &[0, 1], key, |at| [0.2, 1.0][at]);
        let own = (0..10_000).filter(|&key| owner(&upstreams, &[0, 1], key) == 0);
        let (own, kept): (Vec<u64>, Vec<u64>) =
            (own.clone().collect(), own.filter(|&key| slow(key) == 0).collect());
        let part = kept.len() as f64 / own.len() as f64;
        assert!((part - 0.2).abs() < 0.02, "{part}");
        assert!((0..10_000).all(|key| slow(key) == 1 || own.contains(&key)));
    }
}
