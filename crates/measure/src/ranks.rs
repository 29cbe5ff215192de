//! Whether two samples differ, from their ranks alone: the test of Mann and Whitney (1947), exact for few values, with
//! the effect size of Vargha and Delaney (2000). Knows nothing of what was measured.

/// Values on both sides up to which every arrangement is counted.
const EXACT_MAX: usize = 40;

/// The chance that one of `b` is above one of `a`, and how likely such ranks are without a difference.
pub fn ranks(a: &[f64], b: &[f64]) -> (f64, f64) {
    let (m, n) = (a.len(), b.len());
    if m == 0 || n == 0 {
        return (0.5, 1.0);
    }
    let mut all: Vec<(f64, bool)> = a
        .iter()
        .map(|&x| (x, false))
        .chain(b.iter().map(|&x| (x, true)))
        .collect();
    all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    // Twice the rank, so that the middle of a tie is a whole number.
    let (mut doubled, mut ties, mut before) = (Vec::new(), 0.0, 0);
    for tie in all.chunk_by(|x, y| x.0 == y.0) {
        let count = tie.len();
        doubled.extend(tie.iter().map(|&(_, of_b)| (2 * before + count + 1, of_b)));
        before += count;
        ties += (count as f64).powi(3) - count as f64;
    }
    let sum: usize = doubled
        .iter()
        .filter(|(_, of_b)| *of_b)
        .map(|(rank, _)| rank)
        .sum();
    let (m, n) = (m as f64, n as f64);
    let u = sum as f64 / 2.0 - n * (n + 1.0) / 2.0;
    let p_value = if all.len() <= EXACT_MAX {
        let ranks: Vec<usize> = doubled.iter().map(|&(rank, _)| rank).collect();
        exact(&ranks, b.len(), sum)
    } else {
        let all = m + n;
        let variance = m * n / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
        if variance <= 0.0 {
            1.0
        } else {
            let z = ((u - m * n / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
            libm::erfc(z / core::f64::consts::SQRT_2)
        }
    };
    (u / (m * n), p_value)
}

/// The share of all choices of `n` ranks whose sum is as far from the middle as `sum`.
fn exact(ranks: &[usize], n: usize, sum: usize) -> f64 {
    let most: usize = ranks.iter().sum();
    // ways[k][s]: choices of k ranks with sum s.
    let mut ways = vec![vec![0.0f64; most + 1]; n + 1];
    ways[0][0] = 1.0;
    for &rank in ranks {
        for k in (1..=n).rev() {
            for s in (rank..=most).rev() {
                ways[k][s] += ways[k - 1][s - rank];
            }
        }
    }
    let all: f64 = ways[n].iter().sum();
    let middle = most as f64 * n as f64 / ranks.len() as f64;
    let far = (sum as f64 - middle).abs();
    let as_far = ways[n].iter().enumerate();
    let as_far: f64 = as_far
        .filter(|(s, _)| (*s as f64 - middle).abs() >= far - 1e-9)
        .map(|(_, ways)| ways)
        .sum();
    (as_far / all).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked by hand: of 20 choices of 3 from 6, two sums are as far apart as 1+2+3.
    #[test]
    fn ranks_are_tested_exactly() {
        let (superiority, p) = ranks(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert_eq!(superiority, 1.0);
        assert!((p - 0.1).abs() < 1e-12, "{p}");
        assert_eq!(ranks(&[1.0, 1.0], &[1.0, 1.0]), (0.5, 1.0));
        assert_eq!(ranks(&[], &[1.0]).1, 1.0);
        // The approximation for many agrees with the count for few where they meet.
        let (a, b): (Vec<f64>, Vec<f64>) = (
            (0..20).map(f64::from).collect(),
            (0..20).map(|x| f64::from(x) + 4.5).collect(),
        );
        let (_, few) = ranks(&a, &b);
        let more: Vec<f64> = b.iter().copied().chain([14.6]).collect();
        let (_, many) = ranks(&a, &more);
        assert!((few - many).abs() < 0.03, "{few} {many}");
    }
}
