//! Several lines, each with its own server: how to split users among unequal ones by Eq. 4.
//!
//! The cost of a line is the total turnaround time of its users. Under Eq. 4 it is convex in their number, so giving
//! the next user to the line with the least increase is optimal (Fox 1966). `cost` handles all other costs, `count`
//! the number of lines or servers.

mod cost;
mod count;

pub use cost::{
    CostSplit, Curves, SteadyLine, WindowLine, curves_steady, curves_windows, split_by_cost, split_steady,
    split_windows,
};
pub use count::{Even, Lines, Pool, evenly, least_lines, lines_for, pool_for};

use crate::Seconds;
use crate::domain::{DomainError, non_negative, positive, within};
use crate::explain::{Bound, Explained, counted, significant};
use crate::waiting::{ASSUMPTIONS, Line, same_size_region, savings_percent};
use core::cmp::Reverse;
use serde::Serialize;
use std::collections::BinaryHeap;

/// A line on offer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Offer {
    /// Name in answers.
    pub name: String,
    /// `t`, time a packet takes: `T/n` for the document's bound, wire time for users whose round trips overlap.
    pub packet_time: Seconds,
    /// Additional time of every user: zero for the document's bound, otherwise round trips and stalls.
    pub fixed: Seconds,
}

/// A split of users over lines.
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

/// Limit on the users of a split.
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

/// How much the total turnaround of a line grows with one more user: the line has `users` already (an estimate may be no
/// whole number), and each fetches `packets` packets. Document 004, Eq. 4, times users, as a difference:
/// `fixed + t ((2m+1)(n-1/2) + 1/2)`.
pub fn growth(fixed: Seconds, packet_time: Seconds, users: f64, packets: u64) -> Seconds {
    let (m, n) = (users, packets as f64);
    Seconds(fixed.0 + packet_time.0 * ((2.0 * m + 1.0) * (n - 0.5) + 0.5))
}

/// Savings in percent, in words: a given split may cost more than no split.
fn than_one_line(savings: f64) -> String {
    let (percent, word) = if savings < 0.0 {
        (-savings, "more")
    } else {
        (savings, "less")
    };
    format!("{} % {word} than the best single line", significant(percent))
}

/// The split of `users`, each fetching `packets` packets, with the least mean turnaround.
pub fn split(users: u64, packets: u64, offers: &[Offer]) -> Result<Explained<Split>, DomainError> {
    check(users, packets, offers)?;
    // Positive floats order as bits.
    let growth = |offer: &Offer, m: u64| {
        growth(offer.fixed, offer.packet_time, m as f64, packets)
            .0
            .to_bits()
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

/// The result of a given split, `users` by `users`: Eqs. 7 to 9.
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
    // An empty line was the asker's choice, and a split may be worse than no split.
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
        "{}: mean turnaround {turnaround}, {}",
        counts.join(", "),
        than_one_line(savings)
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
            counted(k, "user"),
            "fixed + (m (n-1/2) + 1/2) t",
            numbers,
            value,
            "s",
            "document 004, Eq. 4",
        );
    }
    let numbers = counted(users, "user");
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
        counted(users, "user"),
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
    fn growth_is_the_difference_of_two_totals() {
        for (m, n) in [(0, 1), (1, 1), (7, 12), (50, 3)] {
            let offer = Offer {
                fixed: Seconds(0.1),
                ..offer("a", 0.036)
            };
            let apart = total(&offer, m + 1, n) - total(&offer, m, n);
            let grown = growth(offer.fixed, offer.packet_time, m as f64, n).0;
            assert!(
                (grown - apart).abs() < 1e-9,
                "{m} users, {n} packets: {grown} {apart}"
            );
        }
    }

    #[test]
    fn a_split_that_is_worse_than_none_says_more() {
        let e = given(3, &[offer("fast", 0.001), offer("slow", 0.1)], &[1, 1]).unwrap();
        assert!(e.answer.savings_percent < 0.0);
        assert!(
            e.line.ends_with("% more than the best single line") && !e.line.contains('-'),
            "{}",
            e.line
        );
        assert!(e.to_string().contains("1 user ["), "{e}");
    }

    #[test]
    fn a_hopeless_line_stays_empty_and_is_named() {
        let e = split(3, 5, &[offer("fast", 0.001), offer("slow", 10.0)]).unwrap();
        assert_eq!(e.answer.users, [3, 0]);
        assert!(e.warnings[0].contains("slow"));
        assert!(e.answer.savings_percent.abs() < 1e-9);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(split(0, 1, &[offer("a", 1.0)]).is_err());
        assert!(split(1, 1, &[]).is_err());
        assert!(split(1, 1, &[offer("a", f64::NAN)]).is_err());
    }
}
