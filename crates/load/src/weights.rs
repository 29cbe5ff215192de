//! Choices by weight: which of several numbered objects is drawn next. What the numbers stand for, and when a choice is
//! made, is up to the caller.

use crate::chance::{Purpose, below, stream};
use std::sync::Arc;
use units::{Rng, Seed};

/// Weights of numbered objects, as running sums: a draw searches them by halves, however many objects there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights(Arc<[u64]>);

impl Weights {
    /// The weights of objects in order. `None` if they sum to 0, or to more than 64 bits hold.
    pub fn of(weights: impl IntoIterator<Item = u64>) -> Option<Weights> {
        let mut sum = 0_u64;
        let ends = weights.into_iter().map(|weight| {
            sum = sum.checked_add(weight)?;
            Some(sum)
        });
        let ends: Arc<[u64]> = ends.collect::<Option<_>>()?;
        (sum > 0).then_some(Weights(ends))
    }

    /// Choices of a client, without end. Each client has its own generator.
    pub fn choices(&self, seed: Seed, client: u32) -> Choices {
        Choices {
            ends: Arc::clone(&self.0),
            rng: stream(seed, Purpose::Client, u64::from(client)),
        }
    }
}

/// Endless choices of one client: numbers of objects.
#[derive(Debug)]
pub struct Choices {
    ends: Arc<[u64]>,
    rng: Rng,
}

impl Iterator for Choices {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let drawn = below(&mut self.rng, *self.ends.last()?);
        Some(self.ends.partition_point(|&end| end <= drawn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit;

    #[test]
    fn clients_choose_by_weight_and_differently() {
        let given = [5, 0, 30, 1, 64, 0];
        let weights = Weights::of(given).expect("weights");
        let sample: Vec<u64> = weights
            .choices(Seed(1), 0)
            .take(100_000)
            .map(|n| n as u64)
            .collect();
        assert!(sample.iter().all(|&n| given[n as usize] > 0));
        let cdf = |n: u64| given.iter().take(n as usize + 1).sum::<u64>() as f64 / 100.0;
        let fit = fit::chi_square(&sample, cdf);
        assert!(fit.p_value > 0.001, "{fit:?}");
        let first = |client| weights.choices(Seed(1), client).take(50).collect::<Vec<_>>();
        assert_eq!(first(0), first(0));
        assert_ne!(first(0), first(1));
    }

    #[test]
    fn weights_have_a_sum() {
        assert_eq!(Weights::of([]), None);
        assert_eq!(Weights::of([0, 0]), None);
        assert_eq!(Weights::of([u64::MAX, 1]), None);
        let whole = Weights::of([u64::MAX - 1, 1]).expect("the largest sum");
        assert_eq!(whole.choices(Seed(1), 0).next(), Some(0));
    }
}
