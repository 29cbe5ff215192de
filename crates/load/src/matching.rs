//! Assigns reference counts to files so that the sizes of *requests* follow their own model.
//!
//! From the largest file down, each takes the unused count that brings the share of requests for files of at least its
//! size closest to the model, so the tail fits best. This is step 3 of Surge; the greedy form is recalled, not read.
//! The body takes the remaining counts. Knows sizes and counts only.

use crate::files::File;
use crate::model::Model;
use std::collections::BTreeMap;

/// One of `counts` for each file, in the files' order.
pub fn greedy(files: &[File], counts: &[u64], request: &Model) -> Vec<u64> {
    let total = counts.iter().sum::<u64>() as f64;
    let mut unused: BTreeMap<u64, u32> = BTreeMap::new();
    for &count in counts {
        *unused.entry(count).or_default() += 1;
    }
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by_key(|&file| (core::cmp::Reverse(files[file].size), file));
    let mut matched = vec![0; files.len()];
    let mut given = 0.0;
    for &file in &order {
        let at_least = 1.0 - request.cdf(files[file].size.0 as f64 - 0.5);
        let want = (at_least * total - given).max(0.0);
        let Some(count) = nearest(&unused, want) else {
            break;
        };
        matched[file] = count;
        given += count as f64;
        if let Some(left) = unused.get_mut(&count) {
            *left -= 1;
            if *left == 0 {
                unused.remove(&count);
            }
        }
    }
    matched
}

/// The key closest to `want`; the smaller one on a tie.
fn nearest(unused: &BTreeMap<u64, u32>, want: f64) -> Option<u64> {
    let pivot = want as u64;
    let below = unused.range(..=pivot).next_back().map(|(&count, _)| count);
    let above = unused.range(pivot + 1..).next().map(|(&count, _)| count);
    match (below, above) {
        (Some(below), Some(above)) if above as f64 - want < want - below as f64 => Some(above),
        (Some(below), _) => Some(below),
        (None, above) => above,
    }
}

/// Largest difference between the distribution of request sizes and the model: over all sizes, and over sizes of at
/// least `tail`.
pub fn distance(requests: impl IntoIterator<Item = (u64, u64)>, request: &Model, tail: u64) -> (f64, f64) {
    let mut requests: Vec<(u64, u64)> = requests.into_iter().filter(|&(_, count)| count > 0).collect();
    requests.sort_unstable();
    let total = requests.iter().map(|&(_, count)| count).sum::<u64>() as f64;
    let (mut seen, mut all, mut far) = (0.0, 0.0f64, 0.0f64);
    for run in requests.chunk_by(|a, b| a.0 == b.0) {
        let size = run[0].0;
        let before = (request.cdf(size as f64 - 0.5) - seen / total).abs();
        seen += run.iter().map(|&(_, count)| count).sum::<u64>() as f64;
        let after = (request.cdf(size as f64 + 0.5) - seen / total).abs();
        all = all.max(before).max(after);
        if size >= tail {
            far = far.max(before).max(after);
        }
    }
    (all, far)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Class;
    use crate::popularity::zipf;
    use units::{Bytes, Seed};

    fn files(count: usize, seed: Seed) -> Vec<File> {
        let model: Model = "lognormal(8.5,1.8)@1..1e7".parse().unwrap();
        crate::files::sizes(&model, Class::Single, seed)
            .take(count)
            .map(|size| File {
                class: Class::Single,
                size,
            })
            .collect()
    }

    #[test]
    fn every_count_is_given_once_and_the_tail_fits() {
        let request: Model = "0.9719*lognormal(7.881,1.339)@..34102 + 0.0281*pareto(34102,1.177)@..1e7"
            .parse()
            .unwrap();
        for seed in (0..5).map(Seed) {
            let files = files(2000, seed);
            let counts = zipf(2000, 165_000, 1.0);
            let matched = greedy(&files, &counts, &request);
            let mut sorted = matched.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            assert_eq!(sorted, counts, "{seed}");
            let pairs = files
                .iter()
                .zip(&matched)
                .map(|(file, &count)| (file.size.0, count));
            let (all, tail) = distance(pairs, &request, 34_102);
            assert!(all < 0.08 && tail < 0.005, "{seed}: {all} {tail}");
        }
    }

    #[test]
    fn equal_sizes_and_few_files_are_no_trouble() {
        let request: Model = "lognormal(7,1)".parse().unwrap();
        let same = vec![
            File {
                class: Class::Single,
                size: Bytes(100)
            };
            5
        ];
        assert_eq!(greedy(&same, &[9, 3, 1, 1, 1], &request).iter().sum::<u64>(), 15);
        assert_eq!(greedy(&same[..1], &[4], &request), [4]);
        assert!(greedy(&[], &[], &request).is_empty());
    }
}
