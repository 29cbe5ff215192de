//! `least-connections`: the upstream with the fewest requests under way for its weight.

use crate::upstream::Upstream;

/// The index in `open`, which is not empty, of the least cost. Among equals, the first from `first` on.
pub(crate) fn of(open: &[usize], first: usize, cost: impl Fn(usize) -> f64) -> usize {
    let end = open.iter().max().map_or(1, |last| last + 1).max(first + 1);
    let shifted = |at: usize| (at + end - first) % end;
    let order = |a: &usize, b: &usize| {
        cost(*a)
            .total_cmp(&cost(*b))
            .then_with(|| shifted(*a).cmp(&shifted(*b)))
    };
    open.iter().copied().min_by(order).unwrap_or(first)
}

/// Requests under way with one more, divided by the weight.
pub(crate) fn load(upstream: &Upstream, share: f64) -> f64 {
    (f64::from(upstream.under_way) + 1.0) / (f64::from(upstream.weight) * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_take_turns() {
        assert_eq!(of(&[0, 1, 2], 1, |_| 1.0), 1);
        assert_eq!(of(&[0, 2], 1, |_| 1.0), 2);
        assert_eq!(of(&[0, 1, 2], 1, |at| [0.5, 1.0, 1.0][at]), 0);
    }
}
