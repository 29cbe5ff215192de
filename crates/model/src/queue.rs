//! Open queues: M/M/1, M/M/c, M/G/1 first come first served, M/G/1 processor sharing, GI/G/c.
//!
//! Open queues: arrivals do not depend on the backlog. For a fixed number of users see `closed`.

use crate::Seconds;
use crate::domain::{DomainError, non_negative, positive, within};
use crate::explain::{Bound, Explained, Quantity, Region, counted, significant};
use serde::Serialize;

/// The steady state of an open queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Steady {
    /// `rho`, the busy fraction of each server.
    pub utilization: f64,
    /// Probability that an arrival finds no free server.
    pub wait_chance: f64,
    /// Mean waiting time before service; under processor sharing, response time minus service time.
    pub waiting: Seconds,
    /// Mean time in the system.
    pub response: Seconds,
    /// Mean number waiting.
    pub queue: f64,
    /// Mean number in the system.
    pub jobs: f64,
}

/// Limit on the servers of a queue.
pub const SERVERS_MAX: u32 = 10_000_000;

fn load(arrivals: f64, service: Seconds, servers: u32) -> Result<(f64, f64, f64), DomainError> {
    let lambda = positive("arrival rate", arrivals, "above 0 per second")?;
    let s = positive("service time", service.0, "above 0 s")?;
    within(
        "servers",
        f64::from(servers),
        (1..=SERVERS_MAX).contains(&servers),
        "1 to 10,000,000",
    )?;
    let rho = lambda * s / f64::from(servers);
    if rho >= 1.0 {
        return Err(DomainError::Saturated {
            station: format!("the queue of {}", counted(u64::from(servers), "server")),
            utilization: rho,
        });
    }
    Ok((lambda, s, rho))
}

/// The answer for `servers` servers, from the probability and the mean of waiting.
fn answer(
    name: &str,
    servers: u32,
    (lambda, s, rho): (f64, f64, f64),
    wait_chance: f64,
    waiting: f64,
) -> Explained<Steady> {
    let steady = Steady {
        utilization: rho,
        wait_chance,
        waiting: Seconds(waiting),
        response: Seconds(waiting + s),
        queue: lambda * waiting,
        jobs: lambda * (waiting + s),
    };
    let line = format!(
        "{name}: utilization {}, mean waiting {}, mean response {}",
        significant(rho),
        steady.waiting,
        steady.response
    );
    let mut e = Explained::new(steady, line);
    let one = format!("{} x {}", significant(lambda), significant(s));
    let numbers = if servers == 1 {
        one
    } else {
        format!("{one} / {servers}")
    };
    e.step(
        "rho",
        "utilization per server",
        "lambda s / c",
        numbers,
        rho,
        "",
        "utilization law",
    );
    e.bounds.push(Bound {
        quantity: "response",
        low: s,
        high: None,
        unit: "s",
        source: "asymptotic: service alone",
    });
    e
}

fn finish(e: &mut Explained<Steady>, lambda: f64) {
    let Steady { response, jobs, .. } = e.answer;
    e.step("R", "mean response", "W + s", "", response.0, "s", "definition");
    let numbers = format!("{} x {}", significant(lambda), significant(response.0));
    e.step(
        "N",
        "mean number in the system",
        "lambda R",
        numbers,
        jobs,
        "",
        "Little 1961",
    );
}

const POISSON: Region = Region {
    quantity: Quantity::InterarrivalVariability,
    low: 0.8,
    high: 1.25,
    outside: "arrivals are not Poisson; waiting changes about in proportion to (ca2 + cs2)/2",
};

const EXPONENTIAL: Region = Region {
    quantity: Quantity::ServiceVariability,
    low: 0.8,
    high: 1.25,
    outside: "service is not exponential; use M/G/1 with the measured variability",
};

/// M/M/1: one server, Poisson arrivals (per second), exponential service.
pub fn mm1(arrivals: f64, service: Seconds) -> Result<Explained<Steady>, DomainError> {
    let (lambda, s, rho) = load(arrivals, service, 1)?;
    let waiting = rho * s / (1.0 - rho);
    let mut e = answer("M/M/1", 1, (lambda, s, rho), rho, waiting);
    let numbers = format!(
        "{} x {} / (1 - {})",
        significant(rho),
        significant(s),
        significant(rho)
    );
    e.step(
        "W",
        "mean waiting",
        "rho s / (1 - rho)",
        numbers,
        waiting,
        "s",
        "Kleinrock 1975, Eq. 3.26",
    );
    finish(&mut e, lambda);
    e.assumptions.extend([
        "Poisson arrivals",
        "exponential service",
        "unlimited room to wait",
    ]);
    e.region.extend([POISSON, EXPONENTIAL]);
    Ok(e)
}

/// Erlang's loss formula by its recursion, stable for any number of servers: `B(c, a)`.
///
/// An error of a step shrinks by `j/a` in the next. So where there are more servers than work the recursion starts
/// twelve standard deviations below `a`, whence nothing of the start is left, and it ends where nothing is blocked:
/// both take steps in proportion to the square root of the work.
pub fn erlang_b(servers: u32, offered: f64) -> f64 {
    let below = (offered - 12.0 * offered.sqrt()).floor();
    let start = if below > 0.0 && f64::from(servers) >= offered {
        below as u32
    } else {
        0
    };
    let mut b = 1.0 - f64::from(start) / offered.max(f64::MIN_POSITIVE);
    for j in start + 1..=servers {
        b = offered * b / (f64::from(j) + offered * b);
        // The least number there is does not get smaller by a factor near one.
        if b < f64::MIN_POSITIVE {
            return 0.0;
        }
    }
    b
}

/// Erlang's waiting formula: the chance that an arrival finds all `servers` busy, for `offered < servers`.
pub fn erlang_c(servers: u32, offered: f64) -> f64 {
    let b = erlang_b(servers, offered);
    let rho = offered / f64::from(servers);
    b / (1.0 - rho * (1.0 - b))
}

/// M/M/c: `servers` servers and one queue.
pub fn mmc(arrivals: f64, service: Seconds, servers: u32) -> Result<Explained<Steady>, DomainError> {
    let (lambda, s, rho) = load(arrivals, service, servers)?;
    let c = f64::from(servers);
    let chance = erlang_c(servers, lambda * s);
    let waiting = chance * s / (c * (1.0 - rho));
    let mut e = answer(
        &format!("M/M/{servers}"),
        servers,
        (lambda, s, rho),
        chance,
        waiting,
    );
    let numbers = format!("C({servers}, {})", significant(lambda * s));
    e.step(
        "C",
        "chance of waiting",
        "B / (1 - rho (1 - B)), B by recursion",
        numbers,
        chance,
        "",
        "Erlang 1917",
    );
    let numbers = format!(
        "{} x {} / ({servers} x (1 - {}))",
        significant(chance),
        significant(s),
        significant(rho)
    );
    e.step(
        "W",
        "mean waiting",
        "C s / (c (1 - rho))",
        numbers,
        waiting,
        "s",
        "Kleinrock 1975, Eq. 3.40",
    );
    finish(&mut e, lambda);
    e.assumptions.extend([
        "Poisson arrivals",
        "exponential service",
        "one queue for all servers",
    ]);
    e.region.extend([POISSON, EXPONENTIAL]);
    Ok(e)
}

/// M/G/1, first come first served: `scv` is the squared coefficient of variation of service.
pub fn mg1(arrivals: f64, service: Seconds, scv: f64) -> Result<Explained<Steady>, DomainError> {
    let (lambda, s, rho) = load(arrivals, service, 1)?;
    non_negative("variability of service times", scv, "0 or more")?;
    let waiting = rho * s * (1.0 + scv) / (2.0 * (1.0 - rho));
    let mut e = answer("M/G/1", 1, (lambda, s, rho), rho, waiting);
    let numbers = format!(
        "{} x {} x (1 + {}) / (2 (1 - {}))",
        significant(rho),
        significant(s),
        significant(scv),
        significant(rho)
    );
    let formula = "rho s (1 + cs2) / (2 (1 - rho))";
    e.step(
        "W",
        "mean waiting",
        formula,
        numbers,
        waiting,
        "s",
        "Pollaczek 1930, Khinchin 1932",
    );
    finish(&mut e, lambda);
    e.assumptions
        .extend(["Poisson arrivals", "first come, first served"]);
    e.region.extend([
        POISSON,
        Region {
            quantity: Quantity::ServiceVariability,
            low: scv / 1.25,
            high: scv * 1.25,
            outside: "waiting was computed for another variability",
        },
    ]);
    Ok(e)
}

/// M/G/1 processor sharing: the mean depends only on the mean service time.
pub fn mg1_ps(arrivals: f64, service: Seconds) -> Result<Explained<Steady>, DomainError> {
    let (lambda, s, rho) = load(arrivals, service, 1)?;
    let response = s / (1.0 - rho);
    let mut e = answer("M/G/1-PS", 1, (lambda, s, rho), rho, response - s);
    let numbers = format!(
        "{} / (1 - {}) - {}",
        significant(s),
        significant(rho),
        significant(s)
    );
    e.step(
        "W",
        "mean delay by sharing",
        "s / (1 - rho) - s",
        numbers,
        response - s,
        "s",
        "Kleinrock 1967; Sakata et al. 1971",
    );
    finish(&mut e, lambda);
    e.assumptions
        .extend(["Poisson arrivals", "all jobs present share the server equally"]);
    e.region.extend([
        POISSON,
        Region {
            quantity: Quantity::ServiceVariability,
            low: 0.0,
            high: f64::INFINITY,
            outside: "the mean is insensitive to it",
        },
    ]);
    Ok(e)
}

/// GI/G/c, first come first served, by Allen and Cunneen's approximation: M/M/c waiting times `(ca2 + cs2)/2`.
pub fn gigc(
    arrivals: f64,
    arrival_scv: f64,
    service: Seconds,
    service_scv: f64,
    servers: u32,
) -> Result<Explained<Steady>, DomainError> {
    non_negative("variability of interarrival times", arrival_scv, "0 or more")?;
    non_negative("variability of service times", service_scv, "0 or more")?;
    let exact = mmc(arrivals, service, servers)?.answer;
    let factor = (arrival_scv + service_scv) / 2.0;
    let waiting = exact.waiting.0 * factor;
    let mut e = answer(
        &format!("GI/G/{servers}"),
        servers,
        (arrivals, service.0, exact.utilization),
        exact.wait_chance,
        waiting,
    );
    let numbers = format!(
        "{} x ({} + {})/2",
        significant(exact.waiting.0),
        significant(arrival_scv),
        significant(service_scv)
    );
    e.step(
        "W",
        "mean waiting",
        "W(M/M/c) (ca2 + cs2)/2",
        numbers,
        waiting,
        "s",
        "Allen 1990, section 5.3",
    );
    finish(&mut e, arrivals);
    e.warnings
        .push("GI/G/c waiting is an approximation, exact only for M/M/c and M/G/1".to_owned());
    for (quantity, scv) in [
        (Quantity::InterarrivalVariability, arrival_scv),
        (Quantity::ServiceVariability, service_scv),
    ] {
        let outside = "waiting was computed for another variability";
        e.region.push(Region {
            quantity,
            low: scv / 1.25,
            high: scv * 1.25,
            outside,
        });
    }
    Ok(e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_step_make_its_value() {
        let ten = mmc(800.0, Seconds(0.01), 10).unwrap().to_string();
        assert!(ten.contains("lambda s / c = 800 x 0.01 / 10 = 0.8"), "{ten}");
        let one = mm1(80.0, Seconds(0.01)).unwrap().to_string();
        assert!(one.contains("= 80 x 0.01 = 0.8"), "{one}");
        let error = mm1(200.0, Seconds(0.01)).unwrap_err().to_string();
        assert!(
            error.starts_with("the queue of 1 server is overloaded"),
            "{error}"
        );
    }

    #[test]
    fn erlang_tables() {
        // Blocking of 10 trunks at 5 erlang is 0.0184 in every traffic table; C(2, 1) = 1/3 in closed form.
        assert!((erlang_b(10, 5.0) - 0.018_385).abs() < 1e-6);
        assert!((erlang_c(2, 1.0) - 1.0 / 3.0).abs() < 1e-12);
        assert!((erlang_c(1, 0.7) - 0.7).abs() < 1e-12);
        assert!(erlang_b(100_000, 99_000.0).is_finite());
    }

    #[test]
    fn the_short_recursion_is_the_long_one() {
        let long = |servers: u32, a: f64| (1..=servers).fold(1.0, |b, c| a * b / (f64::from(c) + a * b));
        for a in [0.3, 5.0, 144.0, 150.0, 1_000.0, 99_000.0] {
            for share in [0.2, 0.9, 1.0, 1.001, 1.05, 1.3] {
                let servers = (a * share) as u32;
                let (want, got) = (long(servers, a), erlang_b(servers, a));
                let slack = 1e-11 * want + f64::MIN_POSITIVE;
                assert!((got - want).abs() <= slack, "{servers} {a}: {got:e} {want:e}");
            }
        }
        // Even the largest pool is computed quickly.
        assert!(erlang_b(SERVERS_MAX, 9.9e6) < 1e-10);
        assert_eq!(erlang_b(SERVERS_MAX, 8e6), 0.0);
    }

    #[test]
    fn special_cases_agree() {
        let s = Seconds(0.1);
        for rho in [0.1, 0.5, 0.9, 0.99] {
            let lambda = rho / s.0;
            let one = mm1(lambda, s).unwrap().answer;
            let same = |other: Steady| assert!((other.response.0 / one.response.0 - 1.0).abs() < 1e-12);
            same(mmc(lambda, s, 1).unwrap().answer);
            same(mg1(lambda, s, 1.0).unwrap().answer);
            same(mg1_ps(lambda, s).unwrap().answer);
            same(gigc(lambda, 1.0, s, 1.0, 1).unwrap().answer);
            assert!((one.jobs - rho / (1.0 - rho)).abs() < 1e-9);
            // Deterministic service waits half as long.
            let fixed = mg1(lambda, s, 0.0).unwrap().answer;
            assert!((fixed.waiting.0 * 2.0 / one.waiting.0 - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn overload_is_an_error_with_the_utilization() {
        let error = mmc(30.0, Seconds(0.1), 3).unwrap_err();
        assert!(matches!(error, DomainError::Saturated { utilization, .. } if utilization == 1.0));
        assert!(mm1(0.0, Seconds(1.0)).is_err());
        assert!(mmc(1.0, Seconds(0.1), 0).is_err());
        let error = mmc(80.0, Seconds(0.01), 4_000_000_000).unwrap_err().to_string();
        assert_eq!(error, "servers is 4000000000; allowed: 1 to 10,000,000");
        assert!(mg1(1.0, Seconds(0.1), -1.0).is_err());
    }

    #[test]
    fn measured_variability_outside_the_region_warns() {
        let measured = [(Quantity::ServiceVariability, 9.0)];
        assert_eq!(
            mm1(5.0, Seconds(0.1)).unwrap().against(&measured).warnings.len(),
            1
        );
        assert!(
            mg1_ps(5.0, Seconds(0.1))
                .unwrap()
                .against(&measured)
                .warnings
                .is_empty()
        );
        assert_eq!(
            mg1(5.0, Seconds(0.1), 9.0)
                .unwrap()
                .against(&measured)
                .warnings
                .len(),
            0
        );
    }
}
