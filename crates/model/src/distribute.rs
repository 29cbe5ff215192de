//! Several lines, each with its own server: how many are needed, and how to split users among unequal ones.
//!
//! The cost of a line is the total turnaround of its users. Under Eq. 4 it is convex in their number, so
//! giving the next user to the line where the total grows least is optimal (Fox 1966); for any other cost a
//! dynamic program is.

use crate::Seconds;
use crate::closed::{Network, Station};
use crate::dimension::{Basis, Question};
use crate::domain::{DomainError, non_negative, positive, within};
use crate::explain::{Bound, Explained, Quantity, Region, significant};
use crate::queue::{mm1, mmc};
use crate::waiting::{ASSUMPTIONS, Distributed, Line, same_size_region, savings_percent};
use core::cmp::Reverse;
use measure::Rate;
use serde::Serialize;
use std::collections::BinaryHeap;

/// A line on offer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Offer {
    /// Its name in answers.
    pub name: String,
    /// `t`, time a packet takes: `T/n` for the document's bound, wire time for users whose round trips overlap.
    pub packet_time: Seconds,
    /// Time every user spends besides: zero for the document's bound, round trips and stalls otherwise.
    pub fixed: Seconds,
}

/// How users are split.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Split {
    /// Users of each line, in the order of the offers.
    pub users: Vec<u64>,
    /// Mean turnaround of a user.
    pub turnaround: Seconds,
    /// Mean waiting of a user.
    pub waiting: Seconds,
    /// Eq. 7 over the lines in use: their unweighted mean.
    pub waiting_per_line: Seconds,
    /// Eq. 8 over the lines in use: their unweighted mean.
    pub turnaround_per_line: Seconds,
    /// Eq. 9 for turnaround, against everyone on the best single line.
    pub savings_percent: f64,
}

/// Users a split is computed for at most.
pub const USERS_MAX: u64 = 10_000_000;

fn check(users: u64, packets: u64, offers: &[Offer]) -> Result<(), DomainError> {
    within(
        "users",
        users as f64,
        (1..=USERS_MAX).contains(&users),
        "1 to 10,000,000",
    )?;
    positive("packets", packets as f64, "1 or more")?;
    if offers.is_empty() {
        return Err(DomainError::TooFew {
            what: "lines",
            got: 0,
            need: 1,
        });
    }
    for offer in offers {
        positive("packet time", offer.packet_time.0, "above 0 s")?;
        non_negative("fixed time", offer.fixed.0, "0 s or more")?;
    }
    Ok(())
}

/// Total turnaround of `users` users of a line.
fn total(offer: &Offer, users: u64, packets: u64) -> f64 {
    let (m, n) = (users as f64, packets as f64);
    m * offer.fixed.0 + m * (m * (n - 0.5) + 0.5) * offer.packet_time.0
}

/// The split of `users`, each fetching `packets` packets, with the least mean turnaround.
pub fn split(users: u64, packets: u64, offers: &[Offer]) -> Result<Explained<Split>, DomainError> {
    check(users, packets, offers)?;
    let n = packets as f64;
    // The total grows by fixed + t ((2m+1)(n-1/2) + 1/2) with the (m+1)th user; positive floats order as bits.
    let growth = |offer: &Offer, m: u64| {
        let next = offer.fixed.0 + offer.packet_time.0 * ((2.0 * m as f64 + 1.0) * (n - 0.5) + 0.5);
        next.to_bits()
    };
    let mut given = vec![0u64; offers.len()];
    let mut next: BinaryHeap<Reverse<(u64, usize)>> = offers
        .iter()
        .enumerate()
        .map(|(i, offer)| Reverse((growth(offer, 0), i)))
        .collect();
    for _ in 0..users {
        if let Some(mut top) = next.peek_mut() {
            let Reverse((_, line)) = *top;
            given[line] += 1;
            *top = Reverse((growth(&offers[line], given[line]), line));
        }
    }
    Ok(explain(users, packets, offers, given))
}

/// What a split that is given, `users` by `users`, makes of it: Eqs. 7 to 9.
pub fn given(packets: u64, offers: &[Offer], users: &[u64]) -> Result<Explained<Split>, DomainError> {
    let all = users.iter().fold(0u64, |sum, &users| sum.saturating_add(users));
    check(all, packets, offers)?;
    within(
        "lines with users given",
        users.len() as f64,
        users.len() == offers.len(),
        "as many as lines",
    )?;
    let mut e = explain(all, packets, offers, users.to_vec());
    // That nobody goes there was the asker's choice, and a split may be worse than no split.
    e.warnings.clear();
    e.bounds.iter_mut().for_each(|bound| bound.high = None);
    Ok(e)
}

fn explain(users: u64, packets: u64, offers: &[Offer], given: Vec<u64>) -> Explained<Split> {
    let m = users as f64;
    let turnaround = Seconds(
        offers
            .iter()
            .zip(&given)
            .map(|(o, &k)| total(o, k, packets))
            .sum::<f64>()
            / m,
    );
    let used: Vec<(&Offer, Line)> = offers
        .iter()
        .zip(&given)
        .filter(|(_, users)| **users > 0)
        .map(|(offer, &users)| {
            (
                offer,
                Line {
                    users,
                    packets,
                    packet_time: offer.packet_time,
                },
            )
        })
        .collect();
    let waiting = Seconds(used.iter().map(|(_, line)| line.waiting_total().0).sum::<f64>() / m);
    let per_line = used
        .iter()
        .map(|(offer, line)| offer.fixed + line.turnaround())
        .sum::<Seconds>()
        / used.len() as f64;
    let waiting_per_line = used.iter().map(|(_, line)| line.waiting()).sum::<Seconds>() / used.len() as f64;
    let alone = offers
        .iter()
        .map(|offer| total(offer, users, packets) / m)
        .fold(f64::INFINITY, f64::min);
    let savings = savings_percent(Seconds(alone), turnaround).unwrap_or(0.0);
    let counts: Vec<String> = offers
        .iter()
        .zip(&given)
        .map(|(o, k)| format!("{} {k}", o.name))
        .collect();
    let line = format!(
        "{}: mean turnaround {turnaround}, {} % less than the best single line",
        counts.join(", "),
        significant(savings)
    );
    let answer = Split {
        users: given,
        turnaround,
        waiting,
        waiting_per_line,
        turnaround_per_line: per_line,
        savings_percent: savings,
    };
    let mut e = Explained::new(answer, line);
    for (offer, line) in &used {
        let Line {
            users: k,
            packet_time: t,
            ..
        } = *line;
        let numbers = format!(
            "{} + ({k} x ({packets} - 1/2) + 1/2) x {}",
            significant(offer.fixed.0),
            significant(t.0)
        );
        let value = (offer.fixed + line.turnaround()).0;
        e.step(
            format!("t_T({})", offer.name),
            format!("{k} users"),
            "fixed + (m (n-1/2) + 1/2) t",
            numbers,
            value,
            "s",
            "document 004, Eq. 4",
        );
    }
    let numbers = format!("{users} users");
    e.step(
        "mean t_T",
        "a user's mean turnaround",
        "sum_k m_k t_T,k / m",
        numbers,
        turnaround.0,
        "s",
        "document 004, Eq. 8, weighted by users",
    );
    e.step(
        "mean t_w",
        "a user's mean waiting",
        "sum_k m_k t_w,k / m",
        format!("{users} users"),
        waiting.0,
        "s",
        "document 004, Eq. 7, weighted by users",
    );
    e.step(
        "Eq. 7",
        "mean waiting over the lines in use",
        "sum_k t_w,k / P",
        format!("P = {}", used.len()),
        waiting_per_line.0,
        "s",
        "document 004, Eq. 7",
    );
    e.step(
        "Eq. 8",
        "mean turnaround over the lines in use",
        "sum_k t_T,k / P",
        format!("P = {}", used.len()),
        per_line.0,
        "s",
        "document 004, Eq. 8",
    );
    let numbers = format!(
        "100 x ({} - {}) / {}",
        significant(alone),
        significant(turnaround.0),
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
    let low = offers
        .iter()
        .map(|o| o.fixed.0 + (packets as f64) * o.packet_time.0)
        .fold(f64::INFINITY, f64::min);
    e.bounds.push(Bound {
        quantity: "mean turnaround",
        low,
        high: Some(alone),
        unit: "s",
        source: "one user alone on the best line; everyone on the best line",
    });
    e.assumptions.extend(ASSUMPTIONS);
    e.region.push(same_size_region());
    for (offer, _) in offers
        .iter()
        .zip(&e.answer.users)
        .filter(|(_, users)| **users == 0)
    {
        e.warnings
            .push(format!("{} is too slow to help: it gets no users", offer.name));
    }
    e
}

/// The least split for arbitrary costs: `costs[k][m]` is the total cost of `m` users on line `k`.
///
/// Answers the users of each line and the least total; a table of lines times users squared steps.
pub fn split_by_cost(users: usize, costs: &[Vec<f64>]) -> Result<(Vec<u64>, f64), DomainError> {
    within("users", users as f64, (1..=5_000).contains(&users), "1 to 5,000")?;
    if costs.is_empty() || costs.iter().any(|cost| cost.len() <= users) {
        return Err(DomainError::TooFew {
            what: "costs of a line",
            got: costs.iter().map(Vec::len).min().unwrap_or(0),
            need: users + 1,
        });
    }
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
    let mut left = users;
    let mut given = vec![0; costs.len()];
    for (line, choice) in choices.iter().enumerate().rev() {
        given[line] = choice[left] as u64;
        left -= choice[left];
    }
    Ok((given, best[users]))
}

/// A line for users who think.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SteadyLine {
    /// Its name in answers.
    pub name: String,
    /// Time a page takes on its wire.
    pub demand: Seconds,
    /// Time a page takes besides, which is not shared.
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

/// How users are split over lines of any cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostSplit {
    /// Users of each line, in the order of the lines.
    pub users: Vec<u64>,
    /// Mean response of each line; zero where nobody is.
    pub responses: Vec<Seconds>,
    /// Mean response of a user.
    pub response: Seconds,
}

/// What a split makes of lines whose `costs[k][m]` is the total time of `m` users on line `k`.
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
    };
    Explained::new(answer, line)
}

/// A line for users who ask at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowLine {
    /// Its name in answers.
    pub name: String,
    /// Its rate.
    pub rate: Rate,
    /// Its round-trip time.
    pub rtt: Seconds,
}

/// The split of the users of `question`, who ask at once and whose windows are served in turn
/// ([`Basis::Windows`]), with the least mean turnaround; or, if `given` holds users for every line, what that
/// split makes of it. Up to 5,000 users; the question's own rate, round trip and objective do not count.
pub fn split_windows(
    question: &Question,
    lines: &[WindowLine],
    given: Option<&[u64]>,
) -> Result<Explained<CostSplit>, DomainError> {
    let all = question.users;
    within("users", all as f64, (1..=5_000).contains(&all), "1 to 5,000")?;
    let at = |line: &WindowLine, users: u64| {
        let own = Question {
            users,
            rtt: line.rtt,
            basis: Basis::Windows,
            ..*question
        };
        own.turnaround_at(line.rate)
    };
    let mut costs = Vec::with_capacity(lines.len());
    for line in lines {
        let mut cost = vec![0.0];
        for users in 1..=all {
            cost.push(users as f64 * at(line, users)?.total().0);
        }
        costs.push(cost);
    }
    let chosen = match given {
        Some(users) => {
            within(
                "users of the lines together",
                users.iter().sum::<u64>() as f64,
                users.len() == lines.len() && users.iter().sum::<u64>() == all,
                "as many as there are users, given for every line",
            )?;
            users.to_vec()
        }
        None => split_by_cost(all as usize, &costs)?.0,
    };
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
            format!("{users} users"),
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
        format!("{all} users"),
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
    e.line = format!(
        "{}, {} % less than the best single line",
        e.line,
        significant(savings)
    );
    let fastest = lines.iter().map(|line| Ok(at(line, 1)?.total().0));
    let low = fastest.collect::<Result<Vec<f64>, DomainError>>()?;
    e.bounds.push(Bound {
        quantity: "mean turnaround",
        low: low.into_iter().fold(f64::INFINITY, f64::min),
        // A split that is given may be worse than no split.
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

/// The split of thinking users over lines with the least mean response.
pub fn split_steady(
    users: usize,
    think: Seconds,
    lines: &[SteadyLine],
) -> Result<Explained<CostSplit>, DomainError> {
    within("users", users as f64, (1..=5_000).contains(&users), "1 to 5,000")?;
    let mut costs = Vec::with_capacity(lines.len());
    for line in lines {
        let points = line.network(think)?.sweep(users as u64)?;
        let totals = points.iter().map(|(n, _, response)| *n as f64 * response.0);
        costs.push(core::iter::once(0.0).chain(totals).collect::<Vec<f64>>());
    }
    let (given, _) = split_by_cost(users, &costs)?;
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let mut e = by_cost(&names, &costs, given);
    let (m, response) = (users as f64, e.answer.response);
    let alone = costs
        .iter()
        .map(|cost| cost[users] / m)
        .fold(f64::INFINITY, f64::min);
    let (mut low, mut high) = (0.0, 0.0);
    for (place, line) in lines.iter().enumerate() {
        let (k, value) = (e.answer.users[place], e.answer.responses[place]);
        if k == 0 {
            e.warnings
                .push(format!("{} is too slow to help: it gets no users", line.name));
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
            format!("{k} users"),
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
        format!("{users} users"),
        response.0,
        "s",
        "least of all splits, by dynamic programming",
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
        high: Some(alone),
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

/// How many equal lines are needed.
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
    check(users, packets, core::slice::from_ref(offer))?;
    positive("turnaround", objective.0, "above 0 s")?;
    let mean = |lines: u64| {
        let (each, more) = (users / lines, users % lines);
        let sum = more as f64 * total(offer, each + 1, packets)
            + (lines - more) as f64 * total(offer, each, packets);
        Seconds(sum / users as f64)
    };
    let floor = mean(users);
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
        if mean(middle) <= objective {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let (each, more) = (users / low, users % low);
    let spread: Vec<Line> = (0..low)
        .map(|i| Line {
            users: each + u64::from(i < more),
            packets,
            packet_time: offer.packet_time,
        })
        .collect();
    let turnaround = mean(low);
    let line = format!(
        "{low} lines like {} for {users} users: mean turnaround {turnaround}",
        offer.name
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
        let before = mean(low - 1);
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
        low: floor.0,
        high: Some(mean(1).0),
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
    /// Least servers behind one queue, M/M/c.
    pub pooled: u32,
    /// Mean response with them.
    pub pooled_response: Seconds,
    /// Least servers with a queue each and requests split evenly, M/M/1.
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
        "{pooled} servers behind one queue ({pooled_response}), {separate} with a queue each ({separate_response})"
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
    use super::*;

    fn offer(name: &str, t: f64) -> Offer {
        Offer {
            name: name.to_owned(),
            packet_time: Seconds(t),
            fixed: Seconds::ZERO,
        }
    }

    #[test]
    fn equal_lines_share_evenly_and_save_half_of_the_waiting() {
        let e = split(50, 12, &[offer("a", 0.036), offer("b", 0.036)]).unwrap();
        assert_eq!(e.answer.users, [25, 25]);
        assert!((e.answer.waiting.0 - 9.936).abs() < 1e-9);
        assert!((e.answer.turnaround_per_line.0 - 10.368).abs() < 1e-9);
        assert!(e.bounds[0].contains(e.answer.turnaround.0));
    }

    #[test]
    fn a_hopeless_line_stays_empty_and_is_named() {
        let e = split(3, 5, &[offer("fast", 0.001), offer("slow", 10.0)]).unwrap();
        assert_eq!(e.answer.users, [3, 0]);
        assert!(e.warnings[0].contains("slow"));
        assert!(e.answer.savings_percent.abs() < 1e-9);
    }

    #[test]
    fn lines_for_finds_the_step() {
        let e = lines_for(100, 12, &offer("T1", 0.036), Seconds(5.0)).unwrap();
        let with = |lines: u64| {
            let each = vec![offer("x", 0.036); lines as usize];
            split(100, 12, &each).unwrap().answer.turnaround.0
        };
        assert!(with(e.answer.lines) <= 5.0 && with(e.answer.lines - 1) > 5.0);
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
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(split(0, 1, &[offer("a", 1.0)]).is_err());
        assert!(split(1, 1, &[]).is_err());
        assert!(split(1, 1, &[offer("a", f64::NAN)]).is_err());
        assert!(split_by_cost(3, &[vec![0.0, 1.0]]).is_err());
    }
}
