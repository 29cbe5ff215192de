//! The order of requests for objects: temporal locality by stack distance.
//!
//! Objects lie on a stack with the most recently requested on top. The model draws a depth. Of the objects in a small
//! window around it, the one furthest behind is requested next and moves to the top. An object leaves after its last
//! reference, so each is requested exactly as often as its count says (step 5 of Surge).
//!
//! The published description leaves three things open; they are decided here.
//!
//! *Behind*: the references an object has left, minus those it would have left at an even pace through its stay.
//! Comparing the shares left instead would crowd popular objects into one part of the sequence.
//!
//! *Objects on the stack*: if all were on it from the beginning, objects deeper than the depths drawn would come up
//! only when the others are used up. A pass would begin with a few dozen of the most popular objects (which are small)
//! and end with most of the others, and no part of it would resemble the whole. Instead, each object has a *stay*, a
//! stretch of the pass proportional to its count, at a position drawn from the seed; the most popular objects stay for
//! the whole pass. The length of stays is chosen so that the stack is at any time about as high as the depths reach. A
//! stay that extends over the end of the pass continues at its beginning, as passes follow each other.
//!
//! *First order*: the stationary order of moving to the top. Each object's age is exponential, with the pace of its
//! stay as the rate.
//!
//! ```text
//!   coming ──its place in the pass is reached──▶ on the stack ──last reference──▶ gone
//! ```

use crate::chance::{Purpose, stream, uniform};
use crate::model::Model;
use units::{Rng, Seed};

/// Share of drawn depths that the stack must be high enough for.
const REACHED: f64 = 0.999;

/// Part of the pass in which an object is requested.
#[derive(Clone, Copy, Debug)]
struct Stay {
    object: u32,
    /// Position in the pass where it begins.
    from: f64,
    /// Position of the last reference at an even pace.
    until: f64,
    /// References of the stay, and those still left.
    references: u64,
    left: u64,
}

impl Stay {
    /// References left, minus those left at an even pace.
    fn behind(&self, now: f64) -> f64 {
        let ahead = ((self.until - now) / (self.until - self.from)).clamp(0.0, 1.0);
        self.left as f64 - ahead * self.references as f64
    }
}

/// One pass as an iterator over object numbers: every object as often as its count says.
#[derive(Debug)]
pub struct Sequence<'a> {
    model: &'a Model,
    window: u32,
    /// References given so far.
    position: u64,
    /// Stays that have not begun; the next one is last.
    coming: Vec<Stay>,
    /// The stack; its top is the last element.
    stack: Vec<Stay>,
    rng: Rng,
}

/// One pass over objects with these counts.
pub fn sequence<'a>(references: &'a [u64], model: &'a Model, window: u32, seed: Seed) -> Sequence<'a> {
    let (mut stack, mut coming) = (Vec::new(), Vec::new());
    let total = references.iter().sum::<u64>() as f64;
    let pace = pace(references, total, model.quantile(REACHED) + f64::from(window / 2));
    let mut ages = stream(seed, Purpose::StackOrder, 0);
    let mut places = stream(seed, Purpose::StackOrder, 1);
    for (object, &count) in (0..).zip(references) {
        let (age, place) = (-libm::log(uniform(&mut ages)), uniform(&mut places) * total);
        let length = (pace * count as f64).min(total);
        let stay = |from, until, references| Stay {
            object,
            from,
            until,
            references,
            left: references,
        };
        // The part beyond the end of the pass moves to its beginning.
        let over = place + length - total;
        let first = if length >= total {
            count
        } else {
            libm::round((count as f64 * over / length).max(0.0)) as u64
        };
        if first > 0 {
            let until = if length >= total { total } else { over };
            stack.push((age * until / first as f64, stay(0.0, until, first)));
        }
        if count > first {
            coming.push(stay(place, (place + length).min(total), count - first));
        }
    }
    // The top, requested most recently, comes last, as does the stay that begins first.
    stack.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.object.cmp(&b.1.object)));
    coming.sort_by(|a, b| b.from.total_cmp(&a.from).then(b.object.cmp(&a.object)));
    Sequence {
        model,
        window,
        position: 0,
        coming,
        stack: stack.into_iter().map(|(_, stay)| stay).collect(),
        rng: stream(seed, Purpose::StackDistances, 0),
    }
}

/// Positions of the pass per reference of a stay, so that about `height` objects stay at a time. Found by bisection;
/// the whole pass if there are no more than `height` objects.
fn pace(references: &[u64], total: f64, height: f64) -> f64 {
    let objects = references.iter().filter(|&&count| count > 0).count() as f64;
    if objects <= height {
        return total;
    }
    let staying = |pace: f64| {
        let lengths = references.iter().map(|&count| (pace * count as f64).min(total));
        lengths.sum::<f64>() / total
    };
    let (mut low, mut high) = (0.0, total);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if staying(middle) < height {
            low = middle
        } else {
            high = middle
        }
    }
    high
}

impl Sequence<'_> {
    /// The stay that begins now. Its first request comes at once, from below all others on the stack.
    fn coming(&mut self, now: f64) -> Option<Stay> {
        let empty = self.stack.is_empty();
        let mut stay = self.coming.pop_if(|stay| stay.from <= now || empty)?;
        // An earlier stay of the object, from the beginning of the pass, may still be on the stack.
        if let Some(at) = self.stack.iter().position(|other| other.object == stay.object) {
            let before = self.stack.remove(at);
            stay.references += before.left;
            stay.left = stay.references;
        }
        Some(stay)
    }

    /// The stay furthest behind, near the depth drawn.
    fn lying(&mut self, now: f64) -> Option<Stay> {
        let height = self.stack.len();
        if height == 0 {
            return None;
        }
        // Depth 1 is the top.
        let depth = (libm::round(self.model.draw(&mut self.rng)).max(1.0) as usize).min(height);
        let reach = self.window as usize / 2;
        let (from, to) = (depth.saturating_sub(reach).max(1), (depth + reach).min(height));
        let behind = |depth: usize| self.stack[height - depth].behind(now);
        let mut best = (depth, behind(depth));
        for candidate in from..=to {
            // On a tie, the one closest to the depth drawn.
            let how = behind(candidate);
            let closer = candidate.abs_diff(depth) < best.0.abs_diff(depth);
            if how > best.1 || (how == best.1 && closer) {
                best = (candidate, how);
            }
        }
        Some(self.stack.remove(height - best.0))
    }
}

impl Iterator for Sequence<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let now = self.position as f64;
        let mut stay = match self.coming(now) {
            Some(stay) => stay,
            None => self.lying(now)?,
        };
        self.position += 1;
        stay.left -= 1;
        if stay.left > 0 {
            self.stack.push(stay);
        }
        Some(stay.object)
    }
}

/// Depths at which a sequence finds its objects; 1 is the top. A first request counts the objects requested before it,
/// as the original's validator does.
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
        for (text, seed, window) in [
            ("lognormal(1.5,0.8)", 1, 1),
            ("lognormal(1.5,0.8)", 2, 5),
            ("lognormal(1.5,0.8)", 3, 101),
            ("constant(1)", 4, 1),
            ("constant(7)", 5, 3),
            ("pareto(1,0.5)", 6, 3),
        ] {
            let model: Model = text.parse().unwrap();
            let mut references = zipf(500, 20_000, 1.0);
            references.push(0);
            let mut got = vec![0; references.len()];
            for object in sequence(&references, &model, window, Seed(seed)) {
                got[object as usize] += 1;
            }
            assert_eq!(got, references, "{text}, seed {seed}");
        }
        let model: Model = "lognormal(1.5,0.8)".parse().unwrap();
        assert_eq!(sequence(&[], &model, 5, Seed(1)).next(), None);
        assert_eq!(sequence(&[0, 0], &model, 5, Seed(1)).next(), None);
        assert_eq!(sequence(&[3], &model, 5, Seed(1)).collect::<Vec<_>>(), [0, 0, 0]);
    }

    /// Every tenth of a pass introduces about as many new objects (the first also has those that stay all the time),
    /// and the most popular object has its share in each.
    #[test]
    fn every_part_is_like_the_whole() {
        let model: Model = "lognormal(1.5,0.8)".parse().unwrap();
        let references = zipf(1240, 94_000, 1.0);
        let popular = references[0] as f64 / references.iter().sum::<u64>() as f64;
        for seed in 1..=3 {
            let pass: Vec<u32> = sequence(&references, &model, 3, Seed(seed)).collect();
            let mut seen = vec![false; references.len()];
            for (number, tenth) in pass.chunks(pass.len().div_ceil(10)).enumerate() {
                let mut new = 0;
                for &object in tenth {
                    new += u32::from(!core::mem::replace(&mut seen[object as usize], true));
                }
                let most = if number == 0 { 225 } else { 175 };
                assert!(
                    (75..=most).contains(&new),
                    "seed {seed}, tenth {number}: {new} new objects"
                );
                let asked = tenth.iter().filter(|&&object| object == 0).count();
                let share = asked as f64 / tenth.len() as f64 / popular;
                assert!(
                    (0.8..1.2).contains(&share),
                    "seed {seed}, tenth {number}: {share}"
                );
            }
        }
    }

    #[test]
    fn distances_count_from_the_top() {
        assert_eq!(distances([7, 7, 8, 7, 9, 8]), [1, 1, 2, 2, 3, 3]);
    }
}
