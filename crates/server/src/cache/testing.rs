//! Helpers for tests of policies: draining one, and a trace whose popularity follows Zipf's law.

use super::Eviction;
use super::chain::Slot;
use rand_xoshiro::rand_core::Rng as _;
use units::Seed;

/// All victims in order.
pub(crate) fn drain(policy: &mut dyn Eviction) -> Vec<Slot> {
    std::iter::from_fn(|| policy.victim()).collect()
}

/// Ranks drawn with probability proportional to `1 / (rank + 1)^exponent`.
pub(crate) fn zipf(population: usize, exponent: f64, seed: Seed) -> impl Iterator<Item = usize> {
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=population)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    let mut rng = seed.rng();
    std::iter::repeat_with(move || {
        let uniform = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        cumulative
            .partition_point(|&c| c < uniform * sum)
            .min(population - 1)
    })
}
