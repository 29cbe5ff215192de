//! Seeds: random numbers are an argument, and a [`Seed`] creates the only random generator of the project.
//!
//! The generator is xoshiro256++, whose stream is the same on every machine. A failing test prints its seed.

use core::fmt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

/// The methods of an [`Rng`]; import this trait to draw numbers.
pub use rand_xoshiro::rand_core::Rng as Draw;

/// The project's random generator: portable and seedable, unsuitable for secrets.
pub type Rng = Xoshiro256PlusPlus;

/// The seed of a random stream; prints as a hexadecimal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// A generator whose stream depends only on this seed.
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

    #[test]
    fn the_stream_is_the_same_everywhere() {
        let mut rng = Seed(1).rng();
        let first = rng.next_u64();
        assert_eq!(first, Seed(1).rng().next_u64());
        assert_ne!(first, Seed(2).rng().next_u64());
    }
}
