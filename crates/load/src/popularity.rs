//! Popularity of files: Zipf's law in whole references.
//!
//! Rank `r` gets about `C / r^s` references and at least one; `C` is chosen so that the counts add up. Knows ranks
//! only; [`crate::matching`] assigns ranks to files.

/// Reference counts by rank, largest first, with the sum `references`.
///
/// If `references` is less than `files`, every file gets one.
pub fn zipf(files: u32, references: u64, exponent: f64) -> Vec<u64> {
    let weights: Vec<f64> = (1..=files)
        .map(|rank| libm::pow(f64::from(rank), -exponent))
        .collect();
    let total = |scale: f64| -> u64 { weights.iter().map(|weight| count(scale * weight)).sum() };
    // The sum grows with the scale in steps: find the largest scale whose sum is not too large.
    let (mut low, mut high) = (0.0, 2.0 * references as f64);
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if total(middle) <= references {
            low = middle
        } else {
            high = middle
        }
    }
    let mut counts: Vec<u64> = weights.iter().map(|weight| count(low * weight)).collect();
    // The remainder of rounding goes to the first ranks, where one more changes least.
    let missing = references.saturating_sub(counts.iter().sum());
    for index in 0..missing as usize {
        let ranks = counts.len();
        counts[index % ranks] += 1;
    }
    counts
}

fn count(references: f64) -> u64 {
    (libm::round(references) as u64).max(1)
}

/// Largest difference between the cumulative shares of `counts` (largest first) and Zipf's law.
pub fn distance(counts: &[u64], exponent: f64) -> f64 {
    let mut counts = counts.to_vec();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let weights: Vec<f64> = (1..=counts.len())
        .map(|rank| libm::pow(rank as f64, -exponent))
        .collect();
    let (references, weight): (f64, f64) = (counts.iter().sum::<u64>() as f64, weights.iter().sum());
    let (mut got, mut want, mut largest) = (0.0, 0.0, 0.0f64);
    for (count, share) in counts.iter().zip(&weights) {
        got += *count as f64 / references;
        want += share / weight;
        largest = largest.max((got - want).abs());
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_sum_fall_and_leave_nobody_out() {
        for (files, references) in [
            (1, 1),
            (1, 50),
            (10, 10),
            (2000, 2000),
            (2000, 165_000),
            (5000, 1_000_003),
        ] {
            let counts = zipf(files, references, 1.0);
            assert_eq!(counts.len(), files as usize);
            assert_eq!(counts.iter().sum::<u64>(), references, "{files} {references}");
            assert!(counts.is_sorted_by(|a, b| a >= b) && *counts.last().unwrap() >= 1);
        }
    }

    #[test]
    fn the_law_is_zipfs() {
        let counts = zipf(2000, 165_000, 1.0);
        assert!(distance(&counts, 1.0) < 0.001, "{}", distance(&counts, 1.0));
        let ratio = counts[0] as f64 / counts[99] as f64;
        assert!((ratio / 100.0 - 1.0).abs() < 0.01, "{ratio}");
        assert!(distance(&vec![1; 2000], 1.0) > 0.3);
    }
}
