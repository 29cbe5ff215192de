//! Tests whether two samples differ, using only their ranks: the Mann-Whitney U test (1947), exact for small
//! samples, with the effect size of Vargha and Delaney (2000).
//!
//! Does not know what was measured.

/// Most values in both samples together for the exact test; larger samples use the normal approximation.
const EXACT_MAX: usize = 40;

/// The probability of superiority of `b` over `a`, and the two-sided p-value.
pub fn ranks(a: &[f64], b: &[f64]) -> (f64, f64) {
    let ranks = Ranks::of(a, b);
    (ranks.superiority, ranks.either)
}

/// Effect size and p-values of a comparison of two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranks {
    /// Probability that a value of the second sample is above one of the first, with ties counted half.
    pub superiority: f64,
    /// Two-sided p-value: the probability, without a difference, of ranks that differ this much in either
    /// direction.
    pub either: f64,
    /// One-sided p-value: the probability, without a difference, that the second sample ranks this high or
    /// higher.
    pub higher: f64,
    /// One-sided p-value: the probability, without a difference, that the second sample ranks this low or
    /// lower.
    pub lower: f64,
}

impl Ranks {
    /// Compares two samples. If one is empty, superiority is 0.5 and all p-values are 1.
    pub fn of(a: &[f64], b: &[f64]) -> Ranks {
        if a.is_empty() || b.is_empty() {
            return Ranks {
                superiority: 0.5,
                either: 1.0,
                higher: 1.0,
                lower: 1.0,
            };
        }
        let (m, n) = (a.len() as f64, b.len() as f64);
        let order = Order::of(a, b);
        let superiority = order.above(b.len()) / (m * n);
        if order.ranks.len() <= EXACT_MAX {
            return order.exact(superiority, b.len());
        }
        let tail = |z: f64| 0.5 * libm::erfc(z / core::f64::consts::SQRT_2);
        let (above, deviation) = order.beyond(a.len(), b.len());
        Ranks {
            superiority,
            either: (2.0 * tail((above.abs() - 0.5).max(0.0) / deviation)).min(1.0),
            higher: tail((above - 0.5) / deviation),
            lower: tail((-above - 0.5) / deviation),
        }
    }
}

/// Two samples sorted together.
struct Order {
    /// Twice the rank of each value, so that the mean rank of a tie is an integer.
    ranks: Vec<usize>,
    /// The sum of `ranks` over the second sample.
    sum: usize,
    /// The sum of `t^3 - t` over ties of `t` values.
    ties: f64,
}

impl Order {
    fn of(a: &[f64], b: &[f64]) -> Order {
        let mut all: Vec<(f64, bool)> = a
            .iter()
            .map(|&x| (x, false))
            .chain(b.iter().map(|&x| (x, true)))
            .collect();
        all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
        let mut order = Order {
            ranks: Vec::new(),
            sum: 0,
            ties: 0.0,
        };
        for tie in all.chunk_by(|x, y| x.0 == y.0) {
            let count = tie.len();
            let rank = 2 * order.ranks.len() + count + 1;
            order.sum += rank * tie.iter().filter(|(_, of_b)| *of_b).count();
            order.ranks.extend(core::iter::repeat_n(rank, count));
            order.ties += (count as f64).powi(3) - count as f64;
        }
        order
    }

    /// The number of pairs in which the value of the second sample, of size `n`, is greater; ties count half
    /// (the U statistic).
    fn above(&self, n: usize) -> f64 {
        let n = n as f64;
        self.sum as f64 / 2.0 - n * (n + 1.0) / 2.0
    }

    /// For samples of sizes `m` and `n`: the distance of [`Order::above`] from its mean, and its standard
    /// deviation without a difference. The deviation is above zero even if all values are equal.
    fn beyond(&self, m: usize, n: usize) -> (f64, f64) {
        let (m, n) = (m as f64, n as f64);
        let all = m + n;
        let variance = m * n / 12.0 * (all + 1.0 - self.ties / (all * (all - 1.0)));
        let deviation = variance.max(0.0).sqrt().max(f64::MIN_POSITIVE);
        (self.above(n as usize) - m * n / 2.0, deviation)
    }

    /// The exact test: counts all choices of `n` ranks.
    fn exact(&self, superiority: f64, n: usize) -> Ranks {
        let most: usize = self.ranks.iter().sum();
        // ways[k][s]: number of choices of k ranks with sum s.
        let mut ways = vec![vec![0.0f64; most + 1]; n + 1];
        ways[0][0] = 1.0;
        let mut reach = 0;
        for &rank in &self.ranks {
            reach += rank;
            for k in (1..=n).rev() {
                for s in (rank..=reach).rev() {
                    ways[k][s] += ways[k - 1][s - rank];
                }
            }
        }
        let ways = &ways[n];
        let all: f64 = ways.iter().sum();
        let middle = most as f64 * n as f64 / self.ranks.len() as f64;
        let far = (self.sum as f64 - middle).abs() - 1e-9;
        let share = |ways: f64| (ways / all).min(1.0);
        let as_far = ways.iter().enumerate();
        let as_far = as_far.filter(|(sum, _)| (*sum as f64 - middle).abs() >= far);
        Ranks {
            superiority,
            either: share(as_far.map(|(_, ways)| ways).sum()),
            higher: share(ways[self.sum..].iter().sum()),
            lower: share(ways[..=self.sum].iter().sum()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked by hand: of 20 choices of 3 from 6, two sums are as far from the mean as 1+2+3.
    #[test]
    fn ranks_are_tested_exactly() {
        let (superiority, p) = ranks(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert_eq!(superiority, 1.0);
        assert!((p - 0.1).abs() < 1e-12, "{p}");
        assert_eq!(ranks(&[1.0, 1.0], &[1.0, 1.0]), (0.5, 1.0));
        assert_eq!(ranks(&[], &[1.0]).1, 1.0);
        // The approximation for large samples agrees with the exact test where both apply.
        let (a, b): (Vec<f64>, Vec<f64>) = (
            (0..20).map(f64::from).collect(),
            (0..20).map(|x| f64::from(x) + 4.5).collect(),
        );
        let (_, few) = ranks(&a, &b);
        let more: Vec<f64> = b.iter().copied().chain([14.6]).collect();
        let (_, many) = ranks(&a, &more);
        assert!((few - many).abs() < 0.03, "{few} {many}");
    }

    /// One of 20 choices is as high; 19 are as low or lower. Without ties the two-sided p-value is twice the
    /// smaller one.
    #[test]
    fn one_side_is_tested_alone() {
        let (low, high) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let ranks = Ranks::of(&low, &high);
        assert!(near(ranks.higher, 0.05) && near(ranks.lower, 1.0), "{ranks:?}");
        let ranks = Ranks::of(&high, &low);
        assert!(near(ranks.higher, 1.0) && near(ranks.lower, 0.05), "{ranks:?}");
        for same in [&[1.0; 3][..], &[1.0; 30], &[]] {
            let ranks = Ranks::of(same, same);
            assert_eq!((ranks.superiority, ranks.either), (0.5, 1.0));
            assert!(ranks.higher >= 0.5 && ranks.lower >= 0.5, "{ranks:?}");
        }
        // Small samples are tested exactly, large ones by approximation.
        for count in [8, 30] {
            let a: Vec<f64> = (0..count).map(f64::from).collect();
            let b: Vec<f64> = a.iter().map(|x| x + 2.5).collect();
            let ranks = Ranks::of(&a, &b);
            assert!(near(2.0 * ranks.higher, ranks.either), "{ranks:?}");
            assert!((ranks.higher + ranks.lower - 1.0).abs() < 0.05, "{ranks:?}");
        }
    }
}
