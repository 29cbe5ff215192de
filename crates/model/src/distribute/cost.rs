//! Splits of users over lines with arbitrary cost functions: a dynamic program finds the least total cost.
//!
//! Implements two costs: users who ask at the same time and are served in windows, and thinking users. Knows nothing
//! of Eq. 4.

use super::than_one_line;
use crate::Seconds;
use crate::closed::{Network, Station};
use crate::dimension::{Basis, Parts, Question};
use crate::domain::{DomainError, within};
use crate::explain::{Bound, Explained, Quantity, Region, counted, significant};
use crate::waiting::{same_size_region, savings_percent};
use serde::Serialize;
use units::Rate;

/// The least split for arbitrary costs: `costs[k][m]` is the total cost of `m` users on line `k`.
///
/// Returns the users of each line and the least total; takes lines times users squared steps.
pub fn split_by_cost(users: usize, costs: &[Vec<f64>]) -> Result<(Vec<u64>, f64), DomainError> {
    few(users as u64)?;
    if costs.is_empty() || costs.iter().any(|cost| cost.len() <= users) {
        return Err(DomainError::TooFew {
            what: "costs of a line",
            got: costs.iter().map(Vec::len).min().unwrap_or(0),
            need: users + 1,
        });
    }
    let (best, choices) = least(users, costs);
    let mut left = users;
    let mut given = vec![0; costs.len()];
    for (line, choice) in choices.iter().enumerate().rev() {
        given[line] = choice[left] as u64;
        left -= choice[left];
    }
    Ok((given, best[users]))
}

/// The least total for every number of users up to `users`, and the users of each line after the following lines have
/// taken theirs.
fn least(users: usize, costs: &[Vec<f64>]) -> (Vec<f64>, Vec<Vec<usize>>) {
    let mut best = vec![f64::INFINITY; users + 1];
    best[0] = 0.0;
    let mut choices = Vec::with_capacity(costs.len());
    for cost in costs {
        let mut next = vec![f64::INFINITY; users + 1];
        let mut choice = vec![0; users + 1];
        for m in 0..=users {
            for k in 0..=m {
                let sum = best[m - k] + cost[k];
                if sum < next[m] {
                    (next[m], choice[m]) = (sum, k);
                }
            }
        }
        choices.push(choice);
        best = next;
    }
    (best, choices)
}

/// Mean turnaround for every number of users: entry m is for m + 1 users.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curves {
    /// With the optimal split.
    pub split: Vec<Seconds>,
    /// With all users on one line, for each line.
    pub alone: Vec<Vec<Seconds>>,
}

impl Curves {
    fn of(users: usize, costs: &[Vec<f64>]) -> Curves {
        let means = |totals: &[f64]| {
            let each = totals.iter().enumerate().take(users + 1).skip(1);
            each.map(|(m, total)| Seconds(total / m as f64)).collect()
        };
        Curves {
            split: means(&least(users, costs).0),
            alone: costs.iter().map(|cost| means(cost)).collect(),
        }
    }
}

/// As [`split_windows`] for every number of users up to those of `question`.
pub fn curves_windows(question: &Question, lines: &[WindowLine]) -> Result<Curves, DomainError> {
    let users = few(question.users)?;
    Ok(Curves::of(users, &window_costs(question, lines)?))
}

/// As [`split_steady`] for every number of users up to `users`.
pub fn curves_steady(users: u64, think: Seconds, lines: &[SteadyLine]) -> Result<Curves, DomainError> {
    let users = few(users)?;
    Ok(Curves::of(users, &steady_costs(users, think, lines)?))
}

/// Limit on the users of a table with lines times users squared steps.
fn few(users: u64) -> Result<usize, DomainError> {
    let allowed = "1 to 5,000; to 10,000,000 where packets are served in turn";
    within("users", users as f64, (1..=5_000).contains(&users), allowed).map(|users| users as usize)
}

/// The users of each line: `given`, if they add up to `users`, otherwise the optimal split.
fn chosen(users: usize, costs: &[Vec<f64>], given: Option<&[u64]>) -> Result<Vec<u64>, DomainError> {
    let Some(given) = given else {
        return Ok(split_by_cost(users, costs)?.0);
    };
    let sum = given.iter().fold(0u64, |sum, &line| sum.saturating_add(line));
    within(
        "users of the lines together",
        sum as f64,
        given.len() == costs.len() && sum == users as u64,
        "as many as there are users, given for every line",
    )?;
    Ok(given.to_vec())
}

/// A line for thinking users.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SteadyLine {
    /// Name in answers.
    pub name: String,
    /// Time that a page occupies the line.
    pub demand: Seconds,
    /// Remaining, unshared time of a page.
    pub latency: Seconds,
}

impl SteadyLine {
    fn network(&self, think: Seconds) -> Result<Network, DomainError> {
        let stations = vec![
            Station::queue(&self.name, self.demand),
            Station::delay("latency", self.latency),
        ];
        Network::new(stations, think)
    }
}

/// A split of users over lines with any cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostSplit {
    /// Users of each line, in the order of the lines.
    pub users: Vec<u64>,
    /// Mean response time of each line; zero for lines without users.
    pub responses: Vec<Seconds>,
    /// Mean response of a user.
    pub response: Seconds,
    /// The mean response time, under the name that other splits use.
    pub turnaround: Seconds,
}

/// The result of a split over lines whose `costs[k][m]` is the total time of `m` users on line `k`.
fn by_cost(names: &[&str], costs: &[Vec<f64>], given: Vec<u64>) -> Explained<CostSplit> {
    let m: u64 = given.iter().sum();
    let total: f64 = costs.iter().zip(&given).map(|(cost, &k)| cost[k as usize]).sum();
    let response = Seconds(total / m as f64);
    let each = |(cost, &k): (&Vec<f64>, &u64)| match k {
        0 => Seconds::ZERO,
        k => Seconds(cost[k as usize] / k as f64),
    };
    let responses = costs.iter().zip(&given).map(each).collect();
    let counts: Vec<String> = names
        .iter()
        .zip(&given)
        .map(|(name, k)| format!("{name} {k}"))
        .collect();
    let line = format!("{}: mean turnaround {response}", counts.join(", "));
    let answer = CostSplit {
        users: given,
        responses,
        response,
        turnaround: response,
    };
    Explained::new(answer, line)
}

/// A line for users who ask at the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowLine {
    /// Name in answers.
    pub name: String,
    /// Bandwidth of the line.
    pub rate: Rate,
    /// Its round-trip time.
    pub rtt: Seconds,
}

impl WindowLine {
    fn turnaround(&self, question: &Question, users: u64) -> Result<Parts, DomainError> {
        let own = Question {
            users,
            rtt: self.rtt,
            basis: Basis::Windows,
            loss: 0.0,
            ..*question
        };
        own.turnaround_at(self.rate)
    }
}

/// Total times of every number of users on each line.
fn window_costs(question: &Question, lines: &[WindowLine]) -> Result<Vec<Vec<f64>>, DomainError> {
    let total = |line: &WindowLine, users: u64| {
        let parts = line.turnaround(question, users)?;
        Ok(users as f64 * parts.total().0)
    };
    let cost = |line: &WindowLine| {
        let totals = (1..=question.users).map(|users| total(line, users));
        core::iter::once(Ok(0.0)).chain(totals).collect()
    };
    lines.iter().map(cost).collect()
}

/// The split with the least mean turnaround for the users of `question`, who ask at the same time and whose windows
/// are served in turn ([`Basis::Windows`]); or, if `given` holds users for every line, the result of that split. Up
/// to 5,000 users; the question's rate, round trip, objective and loss are ignored.
pub fn split_windows(
    question: &Question,
    lines: &[WindowLine],
    given: Option<&[u64]>,
) -> Result<Explained<CostSplit>, DomainError> {
    let all = question.users;
    let users = few(all)?;
    let at = |line: &WindowLine, users: u64| line.turnaround(question, users);
    let costs = window_costs(question, lines)?;
    let chosen = chosen(users, &costs, given)?;
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let mut e = by_cost(&names, &costs, chosen);
    for (place, line) in lines.iter().enumerate() {
        let users = e.answer.users[place];
        if users == 0 {
            if given.is_none() {
                e.warnings
                    .push(format!("{} is too slow to help: it gets no users", line.name));
            }
            continue;
        }
        let parts = at(line, users)?;
        let numbers = format!(
            "{} + {} + {} + {}",
            significant(parts.round_trips.0),
            significant(parts.window.0),
            significant(parts.wire.0),
            significant(parts.sharing.0)
        );
        e.step(
            format!("t_T({})", line.name),
            counted(users, "user"),
            "round trips + window + wire + sharing",
            numbers,
            parts.total().0,
            "s",
            "document 004, Eq. 4, a window in place of a packet",
        );
    }
    let (response, source) = (e.answer.response.0, "document 004, Eq. 8, weighted by users");
    e.step(
        "mean t_T",
        "a user's mean turnaround",
        "sum_k m_k t_T,k / m",
        counted(all, "user"),
        response,
        "s",
        source,
    );
    let alone = costs
        .iter()
        .map(|cost| cost[all as usize] / all as f64)
        .fold(f64::INFINITY, f64::min);
    let savings = savings_percent(Seconds(alone), e.answer.response)?;
    let numbers = format!(
        "100 x ({} - {}) / {}",
        significant(alone),
        significant(response),
        significant(alone)
    );
    e.step(
        "savings",
        "against the best single line",
        "100 (a - b)/a",
        numbers,
        savings,
        "%",
        "document 004, Eq. 9",
    );
    e.line = format!("{}, {}", e.line, than_one_line(savings));
    let fastest = lines.iter().map(|line| Ok(at(line, 1)?.total().0));
    let low = fastest.collect::<Result<Vec<f64>, DomainError>>()?;
    e.bounds.push(Bound {
        quantity: "mean turnaround",
        low: low.into_iter().fold(f64::INFINITY, f64::min),
        // A given split may be worse than no split.
        high: given.is_none().then_some(alone),
        unit: "s",
        source: "one user alone on the best line; everyone on the best line",
    });
    e.assumptions.extend([
        "all users ask at the same moment for pages of the same size",
        "a first-in first-out queue at each line that holds all windows; no loss",
    ]);
    e.region.push(same_size_region());
    Ok(e)
}

/// Total times of every number of users on each line.
fn steady_costs(users: usize, think: Seconds, lines: &[SteadyLine]) -> Result<Vec<Vec<f64>>, DomainError> {
    let cost = |line: &SteadyLine| {
        let points = line.network(think)?.sweep(users as u64)?;
        let totals = points.iter().map(|(n, _, response)| *n as f64 * response.0);
        Ok(core::iter::once(0.0).chain(totals).collect())
    };
    lines.iter().map(cost).collect()
}

/// The split of thinking users over lines with the least mean response time; or, if `given` holds users for every
/// line, the result of that split.
pub fn split_steady(
    users: usize,
    think: Seconds,
    lines: &[SteadyLine],
    given: Option<&[u64]>,
) -> Result<Explained<CostSplit>, DomainError> {
    few(users as u64)?;
    let costs = steady_costs(users, think, lines)?;
    let chosen = chosen(users, &costs, given)?;
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let mut e = by_cost(&names, &costs, chosen);
    let (m, response) = (users as f64, e.answer.response);
    let alone = costs
        .iter()
        .map(|cost| cost[users] / m)
        .fold(f64::INFINITY, f64::min);
    let (mut low, mut high) = (0.0, 0.0);
    for (place, line) in lines.iter().enumerate() {
        let (k, value) = (e.answer.users[place], e.answer.responses[place]);
        if k == 0 {
            if given.is_none() {
                e.warnings
                    .push(format!("{} is too slow to help: it gets no users", line.name));
            }
            continue;
        }
        let b = line.network(think)?.brackets(k);
        let (least, most) = b.response_balanced.unwrap_or(b.response_asymptotic);
        low += k as f64 * least.0 / m;
        high += k as f64 * most.0 / m;
        let numbers = format!(
            "D = {}, E = {}, Z = {}",
            significant(line.demand.0),
            significant(line.latency.0),
            significant(think.0)
        );
        e.step(
            format!("R({})", line.name),
            counted(k, "user"),
            "R_MVA(N; D, E, Z)",
            numbers,
            value.0,
            "s",
            "exact mean value analysis, Reiser and Lavenberg 1980",
        );
    }
    e.step(
        "mean R",
        "a user's mean response",
        "sum_k m_k R_k / m",
        counted(users as u64, "user"),
        response.0,
        "s",
        if given.is_none() {
            "least of all splits, by dynamic programming"
        } else {
            "of the split that is given"
        },
    );
    e.bounds.push(Bound {
        quantity: "mean response",
        low,
        high: Some(high),
        unit: "s",
        source: "balanced job bounds of each line, weighted by users; Zahorjan et al. 1982",
    });
    e.bounds.push(Bound {
        quantity: "mean response",
        low: lines
            .iter()
            .map(|line| (line.demand + line.latency).0)
            .fold(f64::INFINITY, f64::min),
        // A given split may be worse than no split.
        high: given.is_none().then_some(alone),
        unit: "s",
        source: "one user alone on the best line; everyone on the best line",
    });
    e.assumptions
        .push("transfers of a line share it equally; no loss");
    e.region.push(Region {
        quantity: Quantity::SizeVariability,
        low: 0.0,
        high: f64::INFINITY,
        outside: "means do not depend on it",
    });
    Ok(e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_fewer_users_than_there_are_is_refused() {
        assert!(split_by_cost(3, &[vec![0.0, 1.0]]).is_err());
    }

    #[test]
    fn curves_are_the_splits_of_every_number_of_users() {
        let line = |rate, rtt| WindowLine {
            name: format!("{rate}"),
            rate: Rate(rate),
            rtt: Seconds(rtt),
        };
        let lines = [line(1_544_000, 0.1), line(2_048_000, 0.05), line(300_000, 0.01)];
        let question = |users| Question {
            users,
            page: units::Bytes(12_000),
            turnaround: Seconds(1.0),
            rtt: Seconds(0.1),
            sender: crate::tcp::Sender::modern(units::Bytes(1460)),
            setup: crate::tcp::setup::Setup::Tcp,
            basis: Basis::Windows,
            loss: 0.0,
        };
        let thinking: Vec<SteadyLine> = [(0.1, 0.2), (0.05, 0.3)]
            .iter()
            .map(|&(demand, latency)| SteadyLine {
                name: String::new(),
                demand: Seconds(demand),
                latency: Seconds(latency),
            })
            .collect();
        let windows = curves_windows(&question(20), &lines).unwrap();
        let steady = curves_steady(20, Seconds(1.0), &thinking).unwrap();
        assert_eq!(
            (windows.split.len(), windows.alone.len(), windows.alone[2].len()),
            (20, 3, 20)
        );
        for users in [1_u64, 2, 7, 20] {
            let at = users as usize - 1;
            let near = |a: Seconds, b: Seconds| assert!((a.0 / b.0 - 1.0).abs() < 1e-12, "{users}: {a} {b}");
            near(
                windows.split[at],
                split_windows(&question(users), &lines, None)
                    .unwrap()
                    .answer
                    .response,
            );
            near(
                windows.alone[1][at],
                split_windows(&question(users), &lines[1..2], None)
                    .unwrap()
                    .answer
                    .response,
            );
            let of = |lines| {
                split_steady(users as usize, Seconds(1.0), lines, None)
                    .unwrap()
                    .answer
                    .response
            };
            near(steady.split[at], of(&thinking));
            near(steady.alone[0][at], of(&thinking[..1]));
        }
        assert!(curves_windows(&question(5_001), &lines).is_err());
    }
}
