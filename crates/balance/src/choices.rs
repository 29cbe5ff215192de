//! `two-choices`: of two random upstreams, the one with the lower cost. Mitzenmacher, "The power of two choices in
//! randomized load balancing", IEEE Transactions on Parallel and Distributed Systems 12(10), 2001.

use units::{Draw as _, Rng};

/// One of `open`, which is not empty: the cheaper of two different random ones.
pub(crate) fn of(open: &[usize], rng: &mut Rng, cost: impl Fn(usize) -> f64) -> usize {
    let count = open.len();
    if count < 2 {
        return open[0];
    }
    let one = draw(rng, count);
    let other = (one + 1 + draw(rng, count - 1)) % count;
    if cost(open[one]) <= cost(open[other]) {
        open[one]
    } else {
        open[other]
    }
}

/// A number below `count`.
pub(crate) fn draw(rng: &mut Rng, count: usize) -> usize {
    (rng.next_u64() % count as u64) as usize
}

/// A number from 0 up to but not including 1.
pub(crate) fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}
