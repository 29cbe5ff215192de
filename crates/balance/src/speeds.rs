//! Service times of all upstreams together: how much of a difference between two is noise.
//!
//! An estimate from few or old responses is drawn to the mean of all upstreams, by the part of its variance that is
//! noise (Efron and Morris, "Data analysis using Stein's estimator and its generalizations", JASA 70, 1975). So an
//! upstream without responses counts as a mean one, and so does an upstream that nothing was heard of for long. Equal
//! upstreams count as equal, although their estimates differ.

use crate::estimate::Known;

/// Least variance of a logarithm within an upstream: equal service times have none, and dividing by it must be possible.
const WITHIN_MIN: f64 = 1e-6;

/// Responses that tell as much as one that is independent of the others: those of a busy upstream resemble each other.
const ALIKE: f64 = 4.0;

/// The service time of each upstream in seconds, in their order; 1 for all if nothing is known.
pub(crate) fn service_times(known: &[Option<Known>], times: &mut Vec<f64>) {
    times.clear();
    let heard = || known.iter().flatten();
    let count: f64 = heard().map(|one| one.count).sum();
    let upstreams = heard().count() as f64;
    if upstreams == 0.0 {
        times.resize(known.len(), 1.0);
        return;
    }
    // Variance of one logarithm: within the upstreams, pooled.
    let spread: f64 = heard().map(|one| one.spread).sum();
    let within = (spread / (count - upstreams).max(1.0)).max(WITHIN_MIN);
    let noise = |one: &Known| ALIKE * within / one.count;
    let between = between(heard(), noise);
    // Each upstream counts by how well it is known, and the better their differences are known, the more alike.
    let weight = |one: &Known| 1.0 / (between + noise(one));
    let weights: f64 = heard().map(weight).sum();
    let middle = heard().map(|one| weight(one) * one.log).sum::<f64>() / weights;
    // From logarithms back to seconds, so that the sum over all responses is right.
    let seconds: f64 = heard().map(|one| one.seconds).sum();
    let logs: f64 = heard().map(|one| one.count * libm::exp(one.log)).sum();
    let level = seconds / logs;
    times.extend(known.iter().map(|one| {
        let own = one.map_or(0.0, |one| between * weight(&one) * (one.log - middle));
        libm::exp(middle + own) * level
    }));
}

/// Variance of the logarithms between upstreams, without noise: the moment estimator of DerSimonian and Laird,
/// "Meta-analysis in clinical trials", 1986. Zero if the differences are no larger than the noise.
fn between<'k>(known: impl Iterator<Item = &'k Known> + Clone, noise: impl Fn(&Known) -> f64) -> f64 {
    let all = known.clone();
    let upstreams = all.clone().count() as f64;
    let sum: f64 = all.clone().map(|one| 1.0 / noise(one)).sum();
    let squares: f64 = all.clone().map(|one| 1.0 / (noise(one) * noise(one))).sum();
    let middle = all.map(|one| one.log / noise(one)).sum::<f64>() / sum;
    let apart: f64 = known
        .map(|one| (one.log - middle) * (one.log - middle) / noise(one))
        .sum();
    let divisor = sum - squares / sum;
    if divisor <= 0.0 {
        return 0.0;
    }
    ((apart - (upstreams - 1.0)) / divisor).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(count: f64, seconds: f64) -> Option<Known> {
        Some(Known {
            count,
            log: libm::log(seconds),
            spread: count,
            seconds: seconds * count,
        })
    }

    fn times(known: &[Option<Known>]) -> Vec<f64> {
        let mut times = Vec::new();
        service_times(known, &mut times);
        times
    }

    #[test]
    fn differences_within_the_noise_count_as_none() {
        let near = times(&[known(20.0, 0.010), known(20.0, 0.011)]);
        assert!((near[0] - near[1]).abs() < 1e-12, "{near:?}");
        let apart = times(&[known(1000.0, 0.010), known(1000.0, 0.040)]);
        assert!((apart[1] / apart[0] - 4.0).abs() < 0.05, "{apart:?}");
    }

    #[test]
    fn unknown_and_stale_ones_are_mean_ones() {
        assert_eq!(times(&[None, None]), [1.0, 1.0]);
        let got = times(&[
            known(1000.0, 0.010),
            known(1000.0, 0.040),
            None,
            known(0.001, 0.5),
        ]);
        assert!(got[0] < got[2] && got[2] < 0.5, "{got:?}");
        assert!(got[3] < 0.2, "{got:?}");
    }
}
