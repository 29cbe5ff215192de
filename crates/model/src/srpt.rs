//! Shortest remaining processing time against processor sharing, M/G/1, for a given size distribution.
//!
//! ```text
//! E[T(x)] = lambda (E[X^2; X <= x] + x^2 P(X > x)) / (2 (1 - rho(x))^2) + int_0^x dt / (1 - rho(t))
//! rho(x)  = lambda E[X; X <= x]                                        (Schrage and Miller 1966)
//! ```
//!
//! Averaged over x, the second term becomes `int P(X > t) / (1 - rho(t)) dt`, so both integrals are one-dimensional.
//! For discrete sizes the sums are exact: equal sizes are served in order of arrival, and the square becomes `(1 -
//! rho(x-)) (1 - rho(x))`.

use crate::Seconds;
use crate::domain::{DomainError, positive};
use crate::explain::{Bound, Explained, Quantity, Region, significant};
use crate::integrate::integrate;
use crate::sizes::Sizes;
use serde::Serialize;

/// Relative tolerance of the numerical integrals.
pub const TOLERANCE: f64 = 1e-8;

/// Mean response under two disciplines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// `rho`.
    pub utilization: f64,
    /// Mean response, shortest remaining processing time first.
    pub srpt: Seconds,
    /// Mean response, processor sharing.
    pub ps: Seconds,
    /// `srpt / ps`, at most 1.
    pub ratio: f64,
    /// Estimated relative error of the integrals.
    pub error: f64,
}

/// Compares SRPT with processor sharing for `arrivals` per second and service times (s) from `service`.
pub fn compare(arrivals: f64, service: &Sizes) -> Result<Explained<Comparison>, DomainError> {
    let lambda = positive("arrival rate", arrivals, "above 0 per second")?;
    service.check()?;
    let mean = service.mean();
    let rho = lambda * mean;
    if rho >= 1.0 {
        return Err(DomainError::Saturated {
            station: "the server".to_owned(),
            utilization: rho,
        });
    }
    let (srpt, error) = match service {
        Sizes::Fixed(x) => (atoms(lambda, &[(*x, 1.0)]), 0.0),
        Sizes::Empirical(points) => (atoms(lambda, points), 0.0),
        _ => continuous(lambda, service),
    };
    let ps = mean / (1.0 - rho);
    let answer = Comparison {
        utilization: rho,
        srpt: Seconds(srpt),
        ps: Seconds(ps),
        ratio: srpt / ps,
        error: error / srpt,
    };
    let line = format!(
        "at utilization {} mean response is {} under SRPT, {} under processor sharing ({} of it)",
        significant(rho),
        answer.srpt,
        answer.ps,
        significant(answer.ratio)
    );
    let mut e = Explained::new(answer, line);
    let numbers = format!("{} x {}", significant(lambda), significant(mean));
    e.step(
        "rho",
        "utilization",
        "lambda E[X]",
        numbers,
        rho,
        "",
        "utilization law",
    );
    let numbers = format!("{} / (1 - {})", significant(mean), significant(rho));
    e.step(
        "T_PS",
        "mean response, processor sharing",
        "E[X] / (1 - rho)",
        numbers,
        ps,
        "s",
        "Kleinrock 1967",
    );
    e.step(
        "T_SRPT",
        "mean response, SRPT",
        "E[ lambda (E[X2; X<=x] + x2 P(X>x)) / (2 (1-rho(x))2) + int_0^x dt/(1-rho(t)) ]",
        format!("relative error {}", significant(answer.error)),
        srpt,
        "s",
        "Schrage and Miller 1966",
    );
    e.bounds.push(Bound {
        quantity: "SRPT response",
        low: mean,
        high: Some(ps),
        unit: "s",
        source: "service alone; SRPT minimizes the mean (Schrage 1968)",
    });
    e.assumptions.extend([
        "Poisson arrivals",
        "sizes are known on arrival",
        "preemption is free",
    ]);
    e.region.push(Region {
        quantity: Quantity::ServiceVariability,
        low: service.scv() / 1.25,
        high: service.scv() * 1.25,
        outside: "SRPT was computed for another distribution of sizes",
    });
    Ok(e)
}

fn continuous(lambda: f64, sizes: &Sizes) -> (f64, f64) {
    let (low, high) = sizes.support();
    // Smaller sizes contribute less than the tolerance, and the logarithm of zero is avoided.
    let start = low.max(1e-10 * sizes.mean());
    let free = |x: f64| 1.0 - lambda * sizes.moment_below(1, x);
    let above = |x: f64| 1.0 - sizes.moment_below(0, x);
    let waiting = |y: f64| {
        let x = y.exp();
        let work = lambda * (sizes.moment_below(2, x) + x * x * above(x));
        work / (2.0 * free(x).powi(2)) * sizes.density(x) * x
    };
    let residence = |y: f64| {
        let x = y.exp();
        above(x) / free(x) * x
    };
    let (a, b) = (start.ln(), high.ln());
    let waiting = integrate(waiting, a, b, TOLERANCE);
    let residence = integrate(residence, a, b, TOLERANCE);
    (
        start + waiting.value + residence.value,
        waiting.error + residence.error,
    )
}

fn atoms(lambda: f64, points: &[(f64, f64)]) -> f64 {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = points.iter().map(|point| point.1).sum();
    let (mut below, mut load, mut square) = (0.0, 0.0, 0.0);
    let (mut response, mut residence, mut last) = (0.0, 0.0, 0.0);
    for group in points.chunk_by(|a, b| a.0 == b.0) {
        let x = group[0].0;
        let share = group.iter().map(|point| point.1).sum::<f64>() / total;
        // Between two sizes the load below does not change.
        residence += (x - last) / (1.0 - load);
        last = x;
        let before = 1.0 - load;
        below += share;
        load += lambda * share * x;
        square += share * x * x;
        let work = lambda * (square + x * x * (1.0 - below).max(0.0));
        response += share * (work / (2.0 * before * (1.0 - load)) + residence);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::mg1;
    use crate::sizes::tests::examples;

    #[test]
    fn equal_sizes_are_first_come_first_served() {
        let got = compare(0.4, &Sizes::Fixed(2.0)).unwrap().answer.srpt.0;
        let want = mg1(0.4, Seconds(2.0), 0.0).unwrap().answer.response.0;
        assert!((got - want).abs() < 1e-12);
    }

    #[test]
    fn srpt_is_never_slower_than_sharing_nor_faster_than_service() {
        for sizes in examples() {
            for rho in [0.01, 0.3, 0.7, 0.95] {
                let e = compare(rho / sizes.mean(), &sizes).unwrap();
                assert!(
                    e.bounds[0].contains(e.answer.srpt.0),
                    "{sizes:?} {rho}: {:?}",
                    e.answer
                );
                assert!(e.answer.error < 1e-7, "{sizes:?} {:?}", e.answer);
            }
        }
    }

    #[test]
    fn many_atoms_approach_the_density() {
        let n = 4000;
        let cuts = (0..n).map(|i| 4.0 * (f64::from(i) + 0.5) / f64::from(n));
        let atoms = Sizes::observed(&cuts.collect::<Vec<_>>()).unwrap();
        let smooth = Sizes::Uniform { low: 0.0, high: 4.0 };
        for lambda in [0.1, 0.3, 0.45] {
            let a = compare(lambda, &atoms).unwrap().answer.srpt.0;
            let b = compare(lambda, &smooth).unwrap().answer.srpt.0;
            assert!((a / b - 1.0).abs() < 1e-3, "{lambda}: {a} {b}");
        }
    }

    #[test]
    fn heavy_tails_and_heavy_traffic_favor_srpt() {
        // Bansal 2005: for M/M/1 the gain grows like log(e/(1-rho)); here only its direction is tested.
        let exponential = Sizes::Exponential { mean: 1.0 };
        let gain = |rho: f64| compare(rho, &exponential).unwrap().answer.ratio;
        assert!(gain(0.5) > gain(0.9) && gain(0.9) > gain(0.99));
        assert!(compare(1.0, &exponential).is_err());
    }
}
