//! Whether two samples differ, from their ranks alone: the test of Mann and Whitney (1947), exact for few values, with
//! the effect size of Vargha and Delaney (2000). Knows nothing of what was measured.

/// Values on both sides up to which every arrangement is counted.
const EXACT_MAX: usize = 40;

/// The chance that one of `b` is above one of `a`, and how likely such ranks are without a difference: the two-sided test.
pub fn ranks(a: &[f64], b: &[f64]) -> (f64, f64) {
    let (m, n) = (a.len() as f64, b.len() as f64);
    if a.is_empty() || b.is_empty() {
        return (0.5, 1.0);
    }
    let order = Order::of(a, b);
    let p_value = if order.ranks.len() <= EXACT_MAX {
        let middle = order.middle(b.len());
        let far = (order.sum as f64 - middle).abs();
        order.share(b.len(), |sum| (sum as f64 - middle).abs() >= far - 1e-9)
    } else {
        order.beyond(a.len(), b.len()).map_or(1.0, |(above, deviation)| {
            let z = (above.abs() - 0.5).max(0.0) / deviation;
            libm::erfc(z / core::f64::consts::SQRT_2)
        })
    };
    (order.above(b.len()) / (m * n), p_value)
}

/// How likely it is without a difference that `b` has ranks as high as these or higher: the one-sided test.
pub fn above(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let order = Order::of(a, b);
    if order.ranks.len() <= EXACT_MAX {
        return order.share(b.len(), |sum| sum >= order.sum);
    }
    order.beyond(a.len(), b.len()).map_or(1.0, |(above, deviation)| {
        let z = (above - 0.5) / deviation;
        0.5 * libm::erfc(z / core::f64::consts::SQRT_2)
    })
}

/// Two samples in one order.
struct Order {
    /// Twice the rank of each value, so that the middle of a tie is a whole number.
    ranks: Vec<usize>,
    /// Of these, the sum of those of the second sample.
    sum: usize,
    /// Over ties of `t` values, the sum of `t^3 - t`.
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

    /// Pairs in which the value of the second sample, of `n`, is the greater one; ties are half a pair.
    fn above(&self, n: usize) -> f64 {
        let n = n as f64;
        self.sum as f64 / 2.0 - n * (n + 1.0) / 2.0
    }

    /// The mean sum of `n` ranks.
    fn middle(&self, n: usize) -> f64 {
        let all: usize = self.ranks.iter().sum();
        all as f64 * n as f64 / self.ranks.len() as f64
    }

    /// For samples of `m` and `n`, how far [`Order::above`] is above its mean, and its standard deviation without a
    /// difference; none if all values are one.
    fn beyond(&self, m: usize, n: usize) -> Option<(f64, f64)> {
        let (m, n) = (m as f64, n as f64);
        let all = m + n;
        let variance = m * n / 12.0 * (all + 1.0 - self.ties / (all * (all - 1.0)));
        (variance > 0.0).then(|| (self.above(n as usize) - m * n / 2.0, variance.sqrt()))
    }

    /// The share of all choices of `n` ranks whose sum is like that.
    fn share(&self, n: usize, is_like_that: impl Fn(usize) -> bool) -> f64 {
        let most: usize = self.ranks.iter().sum();
        // ways[k][s]: choices of k ranks with sum s.
        let mut ways = vec![vec![0.0f64; most + 1]; n + 1];
        ways[0][0] = 1.0;
        for &rank in &self.ranks {
            for k in (1..=n).rev() {
                for s in (rank..=most).rev() {
                    ways[k][s] += ways[k - 1][s - rank];
                }
            }
        }
        let all: f64 = ways[n].iter().sum();
        let such = ways[n].iter().enumerate();
        let such: f64 = such
            .filter(|(sum, _)| is_like_that(*sum))
            .map(|(_, ways)| ways)
            .sum();
        (such / all).min(1.0)
    }
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

    /// One of 20 choices is as high, 19 are as low or lower; without ties the two-sided test is twice the smaller.
    #[test]
    fn one_side_is_tested_alone() {
        let (low, high) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
        assert!((above(&low, &high) - 0.05).abs() < 1e-12);
        assert!((above(&high, &low) - 1.0).abs() < 1e-12);
        assert_eq!((above(&[1.0; 3], &[1.0; 3]), above(&[], &[1.0])), (1.0, 1.0));
        let (a, b): (Vec<f64>, Vec<f64>) = (
            (0..30).map(f64::from).collect(),
            (0..30).map(|x| f64::from(x) + 5.5).collect(),
        );
        let (_, both) = ranks(&a, &b);
        assert!((2.0 * above(&a, &b) - both).abs() < 1e-12, "{both}");
        assert!((above(&a, &b) + above(&b, &a) - 1.0).abs() < 0.01);
    }
}
