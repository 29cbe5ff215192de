//! Counts: identical lines for users who ask at the same time, servers for an open stream of requests.
//!
//! Both are the least number that meets a mean time, found by bisection, because more never make it longer.

use super::{Offer, check, total};
use crate::Seconds;
use crate::domain::{DomainError, positive, within};
use crate::explain::{Bound, Explained, counted, significant};
use crate::queue::{mm1, mmc};
use crate::waiting::{ASSUMPTIONS, Distributed, Line, same_size_region};
use serde::Serialize;

/// Users spread evenly over identical lines.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Even {
    /// Mean waiting of a user.
    pub waiting: Seconds,
    /// Mean turnaround of a user.
    pub turnaround: Seconds,
}

/// Mean waiting and turnaround (Eqs. 2 and 4, weighted by users) of `users` users, spread evenly over `lines` lines
/// like `offer`; errors name a parameter that is zero.
pub fn evenly(users: u64, packets: u64, offer: &Offer, lines: u64) -> Result<Even, DomainError> {
    check(users, packets, core::slice::from_ref(offer))?;
    positive("lines", lines as f64, "1 or more")?;
    let waited = |users: u64| {
        let line = Line {
            users,
            packets,
            packet_time: offer.packet_time,
        };
        // A line without users has no mean and adds nothing to the sum.
        if users == 0 { 0.0 } else { line.waiting_total().0 }
    };
    let (each, more) = (users / lines, users % lines);
    let mean =
        |one: f64, rest: f64| Seconds((more as f64 * one + (lines - more) as f64 * rest) / users as f64);
    Ok(Even {
        waiting: mean(waited(each + 1), waited(each)),
        turnaround: mean(total(offer, each + 1, packets), total(offer, each, packets)),
    })
}

/// The least number of lines like `offer` for a mean turnaround of at most `objective`, with `users` users spread
/// evenly.
pub fn least_lines(users: u64, packets: u64, offer: &Offer, objective: Seconds) -> Result<u64, DomainError> {
    positive("turnaround", objective.0, "above 0 s")?;
    let mean = |lines| evenly(users, packets, offer, lines).map(|even| even.turnaround);
    let floor = mean(users.max(1))?;
    if floor > objective {
        return Err(DomainError::Unattainable {
            objective_s: objective.0,
            floor_s: floor.0,
            because: "a line for each user: only a faster line or a smaller page helps".to_owned(),
        });
    }
    let (mut low, mut high) = (1, users);
    while low < high {
        let middle = low + (high - low) / 2;
        if mean(middle)? <= objective {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}

/// Number of identical lines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lines {
    /// The least number of lines.
    pub lines: u64,
    /// Mean turnaround of a user with that many.
    pub turnaround: Seconds,
    /// The lines, users spread evenly.
    pub distributed: Distributed,
}

/// The least number of lines like `offer` that brings the mean turnaround of `users` users to `objective`.
pub fn lines_for(
    users: u64,
    packets: u64,
    offer: &Offer,
    objective: Seconds,
) -> Result<Explained<Lines>, DomainError> {
    let low = least_lines(users, packets, offer, objective)?;
    let mean = |lines| evenly(users, packets, offer, lines).map(|even| even.turnaround);
    let (each, more) = (users / low, users % low);
    let spread: Vec<Line> = (0..low)
        .map(|i| Line {
            users: each + u64::from(i < more),
            packets,
            packet_time: offer.packet_time,
        })
        .collect();
    let turnaround = mean(low)?;
    let line = format!(
        "{} like {} for {}: mean turnaround {turnaround}",
        counted(low, "line"),
        offer.name,
        counted(users, "user")
    );
    let mut e = Explained::new(
        Lines {
            lines: low,
            turnaround,
            distributed: Distributed::new(&spread)?,
        },
        line,
    );
    let numbers = format!("{users} / {low}");
    e.step(
        "m/P",
        "users of a line",
        "m / P",
        numbers,
        users as f64 / low as f64,
        "users",
        "document 004, section 2.3.3",
    );
    let formula = "fixed + (m/P (n-1/2) + 1/2) t";
    e.step(
        "t_T",
        "mean turnaround",
        formula,
        "",
        turnaround.0,
        "s",
        "document 004, Eqs. 4 and 8",
    );
    if low > 1 {
        let before = mean(low - 1)?;
        e.step(
            "one less",
            "mean turnaround with one line less",
            formula,
            "",
            before.0,
            "s",
            "document 004, Eqs. 4 and 8",
        );
    }
    e.bounds.push(Bound {
        quantity: "mean turnaround",
        low: mean(users)?.0,
        high: Some(mean(1)?.0),
        unit: "s",
        source: "a line each; one line for all",
    });
    e.assumptions.extend(ASSUMPTIONS);
    e.region.push(same_size_region());
    Ok(e)
}

/// Servers for an open stream of requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pool {
    /// Least number of servers behind one queue (M/M/c).
    pub pooled: u32,
    /// Mean response with them.
    pub pooled_response: Seconds,
    /// Least number of servers with a queue each and requests split evenly (M/M/1).
    pub separate: u32,
    /// Mean response with them.
    pub separate_response: Seconds,
}

const SERVERS_MAX: u32 = 10_000_000;

/// The least number of servers for `arrivals` per second with service `service` and mean response `objective`.
pub fn pool_for(arrivals: f64, service: Seconds, objective: Seconds) -> Result<Explained<Pool>, DomainError> {
    let lambda = positive("arrival rate", arrivals, "above 0 per second")?;
    let s = positive("service time", service.0, "above 0 s")?;
    let r = positive("response", objective.0, "above 0 s")?;
    if r <= s {
        return Err(DomainError::Unattainable {
            objective_s: r,
            floor_s: s,
            because: "service alone takes as long: only faster servers help".to_owned(),
        });
    }
    let offered = lambda * s;
    within(
        "offered load",
        offered,
        offered < f64::from(SERVERS_MAX) / 2.0,
        "below 5,000,000 servers' work",
    )?;
    // M/M/1 with lambda/c: s / (1 - a/c) <= r, so c >= a r / (r - s).
    let need = |c: u32, separate: bool| {
        let answer = if separate {
            mm1(lambda / f64::from(c), service)
        } else {
            mmc(lambda, service, c)
        };
        answer.map(|e| e.answer.response)
    };
    let least = |separate: bool| -> Result<(u32, Seconds), DomainError> {
        let mut high = (offered.floor() as u32).saturating_add(1);
        while need(high, separate)?.0 > r {
            high = high.saturating_mul(2).min(SERVERS_MAX);
            if high == SERVERS_MAX {
                return Err(DomainError::Outside {
                    parameter: "servers",
                    value: f64::from(high),
                    allowed: "below 10,000,000",
                });
            }
        }
        let mut low = (offered.floor() as u32).saturating_add(1);
        while low < high {
            let middle = low + (high - low) / 2;
            if need(middle, separate)?.0 <= r {
                high = middle
            } else {
                low = middle + 1
            }
        }
        Ok((low, need(low, separate)?))
    };
    let (pooled, pooled_response) = least(false)?;
    let (separate, separate_response) = least(true)?;
    let line = format!(
        "{} behind one queue ({pooled_response}), {separate} with a queue each ({separate_response})",
        counted(u64::from(pooled), "server")
    );
    let mut e = Explained::new(
        Pool {
            pooled,
            pooled_response,
            separate,
            separate_response,
        },
        line,
    );
    let numbers = format!("{} x {}", significant(lambda), significant(s));
    e.step(
        "a",
        "offered load",
        "lambda s",
        numbers,
        offered,
        "servers",
        "utilization law",
    );
    e.step(
        "R_c",
        "response, one queue",
        "s + C(c, a) s / (c (1 - rho))",
        format!("c = {pooled}"),
        pooled_response.0,
        "s",
        "Erlang 1917",
    );
    let numbers = format!("{} / (1 - {} / {separate})", significant(s), significant(offered));
    e.step(
        "R_1",
        "response, a queue each",
        "s / (1 - a/c)",
        numbers,
        separate_response.0,
        "s",
        "Kleinrock 1975",
    );
    e.bounds.push(Bound {
        quantity: "servers",
        low: offered,
        high: Some(f64::from(separate)),
        unit: "servers",
        source: "utilization below 1; pooling never needs more",
    });
    e.assumptions.extend(["Poisson arrivals", "exponential service"]);
    e.region.extend(mm1(0.5, Seconds(1.0))?.region);
    Ok(e)
}

#[cfg(test)]
mod tests {
    use super::super::split;
    use super::*;

    fn offer(name: &str, t: f64) -> Offer {
        Offer {
            name: name.to_owned(),
            packet_time: Seconds(t),
            fixed: Seconds::ZERO,
        }
    }

    #[test]
    fn lines_for_finds_the_step() {
        let e = lines_for(100, 12, &offer("T1", 0.036), Seconds(5.0)).unwrap();
        let with = |lines: u64| {
            let each = vec![offer("x", 0.036); lines as usize];
            split(100, 12, &each).unwrap().answer.turnaround.0
        };
        assert!(with(e.answer.lines) <= 5.0 && with(e.answer.lines - 1) > 5.0);
        // An even spread over identical lines is optimal for every number of users.
        for lines in 1..=e.answer.lines + 5 {
            let even = evenly(100, 12, &offer("T1", 0.036), lines).unwrap();
            assert!((even.turnaround.0 / with(lines) - 1.0).abs() < 1e-12, "{lines}");
            let each = vec![offer("x", 0.036); lines as usize];
            let waiting = split(100, 12, &each).unwrap().answer.waiting;
            assert!((even.waiting.0 / waiting.0 - 1.0).abs() < 1e-12, "{lines}");
        }
        assert!(evenly(100, 12, &offer("T1", 0.036), 0).is_err());
        assert_eq!(
            evenly(3, 12, &offer("T1", 0.036), 3).unwrap().waiting,
            Seconds::ZERO
        );
        assert!(matches!(
            lines_for(10, 12, &offer("T1", 0.036), Seconds(0.1)),
            Err(DomainError::Unattainable { .. })
        ));
    }

    #[test]
    fn pooling_needs_no_more_servers_than_splitting() {
        for (lambda, s, r) in [
            (100.0, 0.05, 0.06),
            (10.0, 0.05, 0.2),
            (1000.0, 0.01, 0.0101),
            (0.1, 1.0, 5.0),
        ] {
            let a = pool_for(lambda, Seconds(s), Seconds(r)).unwrap().answer;
            assert!(a.pooled <= a.separate && a.pooled_response.0 <= r && a.separate_response.0 <= r);
            if f64::from(a.pooled - 1) > lambda * s {
                assert!(mmc(lambda, Seconds(s), a.pooled - 1).unwrap().answer.response.0 > r);
            }
        }
        assert!(pool_for(1.0, Seconds(1.0), Seconds(1.0)).is_err());
        let one = pool_for(1.0, Seconds(0.001), Seconds(1.0)).unwrap().line;
        assert!(one.starts_with("1 server behind"), "{one}");
    }
}
