//! Random numbers by purpose: one seed gives a separate generator for each quantity drawn.
//!
//! With a stream per purpose and user, adding files does not change what users do, and a machine can draw for its own
//! users only. Logarithms and powers come from `libm`, which computes them from additions and multiplications that IEEE
//! 754 defines to the bit; the platform's own functions may differ in the last bit.

use units::{Draw, Rng, Seed};

/// Purpose of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Sizes of base files.
    BaseSizes,
    /// Sizes of embedded files.
    EmbeddedSizes,
    /// Sizes of single files, which are objects of their own.
    SingleSizes,
    /// Files per base object.
    FilesPerObject,
    /// Order of the objects on the stack before the first request.
    StackOrder,
    /// Stack depths.
    StackDistances,
    /// Session lengths and OFF times of one user.
    User,
    /// Content of one file.
    Content,
    /// Choices by weight of one client.
    Client,
    /// Times of an arrival process.
    Arrivals,
    /// Resampling for confidence intervals.
    Bootstrap,
    /// Rows that a feed draws.
    Feed,
    /// Scenarios of starts.
    Scenario,
    /// Think times of starts.
    Think,
}

/// The generator for `purpose`, the `index`-th of its kind.
pub fn stream(seed: Seed, purpose: Purpose, index: u64) -> Rng {
    let purpose = mixed(purpose as u64 + 1);
    Seed(mixed(seed.0 ^ mixed(purpose.wrapping_add(index)))).rng()
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): every input bit reaches every output bit.
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A uniform number in `(0, 1)` with 53 random bits; never 0, so its logarithm exists.
pub fn uniform(rng: &mut Rng) -> f64 {
    ((rng.next_u64() >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
}

/// A standard normal number, by Box and Muller (1958).
pub fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * libm::log(uniform(rng))).sqrt();
    radius * libm::cos(2.0 * core::f64::consts::PI * uniform(rng))
}

/// A uniform integer in `0..n`; `n` must not be 0. The bias is below `n / 2^64`.
pub fn below(rng: &mut Rng, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_and_indices_give_different_streams() {
        let mut firsts: Vec<u64> = (0..1000)
            .flat_map(|index| {
                [Purpose::User, Purpose::Content, Purpose::BaseSizes]
                    .map(|purpose| stream(Seed(7), purpose, index).next_u64())
            })
            .collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), 3000);
    }

    /// Fixed bits: a machine whose arithmetic differs fails here.
    #[test]
    fn the_bits_are_the_same_everywhere() {
        let mut rng = stream(Seed(1), Purpose::User, 0);
        let bits: Vec<u64> = (0..2).map(|_| normal(&mut rng).to_bits()).collect();
        assert_eq!(bits, [0xbfee_06df_49d7_ecb2, 0xbfc5_547f_0fe0_0f1c], "{bits:#x?}");
    }
}
