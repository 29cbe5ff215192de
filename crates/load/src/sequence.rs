//! In which order objects are asked for: temporal locality by distances in a stack.
//!
//! Objects lie on a stack, the last one asked for on top. A depth is drawn; of the objects in a small
//! window around it, the one furthest behind is asked for next and moves to the top; one that has given
//! all its references leaves. Each object is asked for exactly as often as its count says (step 5 of Surge).
//!
//! Two things are not printed and chosen here. *Behind* is the number of references an object has left
//! over what an even pace through the sequence would have left it; comparing left shares instead makes
//! popular objects crowd into one part of the sequence. The *first order* is the one that moving to the
//! top reaches by itself: each object's age is exponential, with its references as the rate.

use crate::chance::{Purpose, stream, uniform};
use crate::model::Model;
use measure::{Rng, Seed};

/// One pass: every object as often as its count says, as an iterator over object numbers.
#[derive(Debug)]
pub struct Sequence<'a> {
    model: &'a Model,
    window: u32,
    references: &'a [u64],
    left: Vec<u64>,
    /// References of the pass, and those still to give.
    total: u64,
    remaining: u64,
    /// The top of the stack is the last element.
    stack: Vec<u32>,
    rng: Rng,
}

/// The sequence of one pass over objects with these counts.
pub fn sequence<'a>(references: &'a [u64], model: &'a Model, window: u32, seed: Seed) -> Sequence<'a> {
    let mut stack: Vec<u32> = (0..references.len() as u32)
        .filter(|&object| references[object as usize] > 0)
        .collect();
    let mut rng = stream(seed, Purpose::StackOrder, 0);
    let ages: Vec<f64> = references
        .iter()
        .map(|&count| -libm::log(uniform(&mut rng)) / count.max(1) as f64)
        .collect();
    // The top, asked for most recently, comes last.
    stack.sort_by(|&a, &b| ages[b as usize].total_cmp(&ages[a as usize]).then(a.cmp(&b)));
    Sequence {
        model,
        window,
        references,
        left: references.to_vec(),
        total: references.iter().sum(),
        remaining: references.iter().sum(),
        stack,
        rng: stream(seed, Purpose::StackDistances, 0),
    }
}

impl Iterator for Sequence<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let height = self.stack.len();
        if height == 0 {
            return None;
        }
        // Depth 1 is the top.
        let depth = (libm::round(self.model.draw(&mut self.rng)).max(1.0) as usize).min(height);
        let reach = self.window as usize / 2;
        let (from, to) = (depth.saturating_sub(reach).max(1), (depth + reach).min(height));
        let remaining = self.remaining as f64 / self.total as f64;
        let behind = |depth: usize| {
            let object = self.stack[height - depth] as usize;
            self.left[object] as f64 - remaining * self.references[object] as f64
        };
        let mut best = depth;
        for candidate in from..=to {
            // Of equals the one closest to the depth drawn.
            let better = behind(candidate) > behind(best)
                || (behind(candidate) == behind(best) && candidate.abs_diff(depth) < best.abs_diff(depth));
            if better {
                best = candidate;
            }
        }
        let object = self.stack.remove(height - best);
        self.left[object as usize] -= 1;
        self.remaining -= 1;
        if self.left[object as usize] > 0 {
            self.stack.push(object);
        }
        Some(object)
    }
}

/// The depths at which a sequence finds its objects: 1 is the top. A first request counts the objects
/// that were asked for before it, as the original's validator does.
pub fn distances(sequence: impl IntoIterator<Item = u32>) -> Vec<u64> {
    let mut stack: Vec<u32> = Vec::new();
    sequence
        .into_iter()
        .map(|object| {
            let height = stack.len();
            match stack.iter().rposition(|&other| other == object) {
                Some(at) => {
                    stack.remove(at);
                    stack.push(object);
                    (height - at) as u64
                }
                None => {
                    stack.push(object);
                    height as u64 + 1
                }
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::popularity::zipf;

    #[test]
    fn every_object_gets_its_exact_count() {
        let model: Model = "lognormal(1.5,0.8)".parse().unwrap();
        for (seed, window) in [(1, 1), (2, 5), (3, 101)] {
            let mut references = zipf(500, 20_000, 1.0);
            references.push(0);
            let mut got = vec![0; references.len()];
            for object in sequence(&references, &model, window, Seed(seed)) {
                got[object as usize] += 1;
            }
            assert_eq!(got, references, "seed {seed}");
        }
        assert_eq!(sequence(&[], &model, 5, Seed(1)).next(), None);
        assert_eq!(sequence(&[0, 0], &model, 5, Seed(1)).next(), None);
        assert_eq!(sequence(&[3], &model, 5, Seed(1)).collect::<Vec<_>>(), [0, 0, 0]);
    }

    #[test]
    fn distances_count_from_the_top() {
        assert_eq!(distances([7, 7, 8, 7, 9, 8]), [1, 1, 2, 2, 3, 3]);
    }
}
