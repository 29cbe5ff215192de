//! Outcomes computed by hand, and invariants of every trace.

use super::*;
use proptest::prelude::*;
use units::Seed;
use units::Word as _;

const BYTES: Cost = Cost::Bytes { overhead: 0 };

fn trace(sizes: &[u64], requests: &[u32]) -> Trace {
    Trace {
        objects: sizes
            .iter()
            .map(|&size| Object {
                size,
                references: Vec::new(),
            })
            .collect(),
        requests: requests.to_vec(),
    }
}

fn room(capacity: u64, cost: Cost) -> Room {
    Room { capacity, cost }
}

#[test]
fn lru_by_hand() {
    // Room for two: 0 m, 1 m, 0 hit, 2 m (out: 1), 1 m (out: 0), 0 m (out: 2), 0 hit.
    let trace = trace(&[10, 10, 10], &[0, 1, 0, 2, 1, 0, 0]);
    let outcome = simulate(&trace, Policy::Lru, room(20, BYTES));
    assert_eq!((outcome.hits, outcome.misses, outcome.evictions), (2, 5, 3));
    assert_eq!((outcome.hit_bytes, outcome.miss_bytes), (20, 50));
    // With knowledge of the future: 0 m, 1 m, 0 hit, 2 not kept, 1 hit, 0 hit, 0 hit.
    assert_eq!(bound::min(&trace, 2), 4);
    assert_eq!(bound::infinite(&trace).hits, 4.0);
}

#[test]
fn min_on_the_sequence_of_the_textbooks() {
    // Twenty references, three places: nine faults (Silberschatz, Galvin, Gagne: Operating System Concepts).
    let pages = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1];
    let trace = trace(&[1; 8], &pages);
    let min = bound::min(&trace, 3);
    assert!(
        min >= 20 - 9,
        "the choice not to keep an object may be better, never worse: {min}"
    );
    let lru = simulate(&trace, Policy::Lru, room(3, Cost::One));
    assert_eq!(lru.misses, 12, "the textbook's figure");
    assert_eq!(bound::min(&trace, 0), 0);
    assert_eq!(bound::min(&trace, 8), 20 - 6);
}

#[test]
fn space_and_time_by_hand() {
    // Intervals: object 0 (size 4) two steps, object 1 (size 2) two steps, in four requests.
    let trace = trace(&[4, 2], &[0, 1, 0, 1]);
    let prepared = bound::SpaceTime::new(&trace, BYTES);
    // Capacity 4 in three steps: 12. The hit on 1 takes 4, the hit on 0 takes 8: both fit.
    assert_eq!(
        prepared.of(4),
        bound::Bound {
            hits: 2.0,
            hit_bytes: 6.0
        }
    );
    // Capacity 2: object 0 never fits.
    assert_eq!(
        prepared.of(2),
        bound::Bound {
            hits: 1.0,
            hit_bytes: 2.0
        }
    );
    // An overhead of 2: costs 6 and 4, intervals 12 and 8, capacity 6 gives 18: ten of twelve of the second.
    let prepared = bound::SpaceTime::new(&trace, Cost::Bytes { overhead: 2 });
    let bound = prepared.of(6);
    assert!((bound.hits - (1.0 + 10.0 / 12.0)).abs() < 1e-9);
    assert!((bound.hit_bytes - (4.0 + 2.0 * 6.0 / 8.0)).abs() < 1e-9);
}

#[test]
fn a_page_brings_its_parts() {
    // A page with two parts, then others, then the page again.
    let mut trace = trace(&[10, 5, 5, 10, 10], &[0, 1, 2, 3, 0, 1, 2]);
    trace.objects[0].references = vec![1, 2];
    let lru = simulate(&trace, Policy::Lru, room(40, BYTES));
    assert_eq!((lru.hits, lru.ahead), (3, 0));
    for policy in [Policy::Hinted, Policy::Structured] {
        let outcome = simulate(&trace, policy, room(40, BYTES));
        assert_eq!(
            (outcome.hits, outcome.misses, outcome.ahead),
            (5, 2, 2),
            "{policy}"
        );
        assert_eq!((outcome.ahead_bytes, outcome.loads()), (10, 4), "{policy}");
    }
}

#[test]
fn a_unit_leaves_whole() {
    let mut trace = trace(&[2, 2, 2, 10, 10, 10], &[0, 3, 4, 5, 1]);
    trace.objects[0].references = vec![1, 2];
    let outcome = simulate(&trace, Policy::Structured, room(30, BYTES));
    // The page and its parts leave for the third large object, which lacks six bytes. Then a large one leaves for the
    // part of the page that returns.
    assert_eq!((outcome.hits, outcome.evictions), (0, 4));
}

#[test]
fn what_is_too_large_passes_by() {
    let trace = trace(&[50, 5], &[0, 1, 0, 1]);
    let outcome = simulate(&trace, Policy::S3Fifo, room(20, BYTES));
    assert_eq!((outcome.hits, outcome.misses, outcome.evictions), (1, 3, 0));
}

#[test]
fn scans_show_where_policies_differ() {
    let seed = Seed(0x5eed_0003);
    let mut requests: Vec<u32> = Vec::new();
    let mut popular = crate::cache::testing::zipf(500, 1.0, seed);
    for round in 0..20 {
        requests.extend(popular.by_ref().take(1_000).map(|rank| rank as u32));
        requests.extend(500 + round * 300..500 + (round + 1) * 300);
    }
    let trace = trace(&[100; 6_500], &requests);
    let hits = |policy| simulate(&trace, policy, room(10_000, BYTES)).hits;
    let (lru, s3) = (hits(Policy::Lru), hits(Policy::S3Fifo));
    assert!(s3 > lru, "lru {lru}, s3-fifo {s3}, {seed}");
    assert!(bound::min(&trace, 100) > s3);
}

proptest! {
    /// No policy exceeds the bounds. Policies with references may have more hits, but never fewer loads.
    #[test]
    fn bounds_are_bounds(
        sizes in proptest::collection::vec(0..40_u64, 12),
        requests in proptest::collection::vec(0..12_u32, 0..200),
        capacity in 0..120_u64,
        overhead in 0..3_u64,
        embeds in proptest::collection::vec((0..12_usize, proptest::collection::vec(0..12_u32, 0..5)), 0..4),
        policy in proptest::sample::select(Policy::ALL),
        unit in any::<bool>(),
    ) {
        let mut trace = trace(&sizes, &requests);
        for (page, parts) in embeds {
            trace.objects[page].references = parts;
        }
        let (cost, capacity) = match unit {
            true => (Cost::One, capacity / 10),
            false => (Cost::Bytes { overhead }, capacity),
        };
        let room = room(capacity, cost);
        let outcome = simulate(&trace, policy, room);
        prop_assert_eq!(outcome.hits + outcome.misses, requests.len() as u64);
        prop_assert_eq!(outcome.hit_bytes + outcome.miss_bytes, trace.requested_bytes());
        let prepared = bound::SpaceTime::new(&trace, cost);
        let bound = bound::of(&trace, &prepared, room);
        let infinite = bound::infinite(&trace);
        prop_assert!(bound.hits <= infinite.hits + 1e-6 && bound.hit_bytes <= infinite.hit_bytes + 1e-6);
        // A hit on an object loaded ahead could have been a load on demand.
        let on_demand = outcome.hits.saturating_sub(outcome.ahead) as f64;
        prop_assert!(on_demand <= bound.hits + 1e-6, "{} hits, {} ahead, {:?}", outcome.hits, outcome.ahead, bound);
        let loads = requests.len() as f64 - bound.hits;
        prop_assert!(outcome.loads() as f64 >= loads - 1e-6);
        if !policy.anticipates() {
            prop_assert!(outcome.hit_bytes as f64 <= bound.hit_bytes + 1e-6);
        }
        if unit {
            let all = prepared.of(room.capacity);
            prop_assert!(bound.hits <= all.hits + 1e-6, "MIN is the stronger bound");
        }
    }

    /// MIN, compared with an exhaustive search.
    #[test]
    fn min_is_the_best_there_is(
        requests in proptest::collection::vec(0..5_u32, 0..12),
        capacity in 0..4_u64,
    ) {
        /// The most hits from here on with this set held.
        fn best(requests: &[u32], held: u32, capacity: u64) -> u64 {
            let Some((&now, rest)) = requests.split_first() else { return 0 };
            let hit = u64::from(held >> now & 1);
            let with = held | 1 << now;
            // Every subset of the objects that could be held.
            let mut most = 0;
            let mut subset = with;
            loop {
                if u64::from(subset.count_ones()) <= capacity {
                    most = most.max(best(rest, subset, capacity));
                }
                if subset == 0 { break }
                subset = (subset - 1) & with;
            }
            hit + most
        }
        let trace = trace(&[1; 5], &requests);
        prop_assert_eq!(bound::min(&trace, capacity), best(&requests, 0, capacity));
    }
}
