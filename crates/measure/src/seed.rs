//! Chance as an argument: a [`Seed`] makes the only random generator of the project.
//!
//! The generator is xoshiro256++, whose stream is the same on every machine; a failing test prints
//! the seed that made it fail.

use core::fmt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// What an [`Rng`] can be asked for; bring it into scope to draw numbers.
pub use rand_xoshiro::rand_core::Rng as Draw;

/// The project's random generator: portable, seedable, not for secrets.
pub type Rng = Xoshiro256PlusPlus;

/// The origin of a random stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seed(pub u64);

impl Seed {
    /// A generator whose stream depends on this seed alone.
    pub fn rng(self) -> Rng {
        Rng::seed_from_u64(self.0)
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {:#018x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::Rng as _;

    #[test]
    fn the_stream_is_the_same_everywhere() {
        let mut rng = Seed(1).rng();
        let first = rng.next_u64();
        assert_eq!(first, Seed(1).rng().next_u64());
        assert_ne!(first, Seed(2).rng().next_u64());
    }
}
