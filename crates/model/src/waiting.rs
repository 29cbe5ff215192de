//! Many users of one link or of several: document 004, section 2.3, Eqs. 1 to 9.
//!
//! All users ask at the same time for files of `n` packets; packets are served round robin, with users in a fixed
//! order. A user waits whenever another user's packet is served. The caller supplies the time of a packet.

use crate::Seconds;
use crate::domain::{DomainError, positive};
use crate::explain::{Bound, Explained, Quantity, Region, counted, significant};
use serde::Serialize;

/// Users of one line who all ask at the same time: `m`, `n`, `t` of Eqs. 1 to 4.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// `m`, users.
    pub users: u64,
    /// `n`, packets each user fetches.
    pub packets: u64,
    /// `t`, time one packet takes.
    pub packet_time: Seconds,
}

impl Line {
    /// A line; errors name a parameter that is zero or negative.
    pub fn new(users: u64, packets: u64, packet_time: Seconds) -> Result<Line, DomainError> {
        positive("users", users as f64, "1 or more")?;
        positive("packets", packets as f64, "1 or more")?;
        positive("packet time", packet_time.0, "above 0 s")?;
        Ok(Line {
            users,
            packets,
            packet_time,
        })
    }

    fn reals(self) -> (f64, f64, f64) {
        (self.users as f64, self.packets as f64, self.packet_time.0)
    }

    /// Eq. 1: waiting time of all users together, in closed form `m (m-1) (n-1/2) t`.
    pub fn waiting_total(self) -> Seconds {
        self.waiting() * self.users as f64
    }

    /// Eq. 2: mean waiting time, in closed form `(m-1) (n-1/2) t`.
    pub fn waiting(self) -> Seconds {
        let (m, n, t) = self.reals();
        Seconds((m - 1.0) * (n - 0.5) * t)
    }

    /// Eq. 3: turnaround time of all users together.
    pub fn turnaround_total(self) -> Seconds {
        self.turnaround() * self.users as f64
    }

    /// Eq. 4: mean turnaround time, `(m (n-1) + (m+1)/2) t`.
    pub fn turnaround(self) -> Seconds {
        let (m, n, t) = self.reals();
        Seconds((m * (n - 1.0) + (m + 1.0) / 2.0) * t)
    }

    /// Bounds of a batch's mean turnaround under any order of service: users one after the other, each served
    /// completely, `(m+1)/2 n t`; everyone finishing last, `m n t`.
    pub fn turnaround_bounds(self) -> (Seconds, Seconds) {
        let (m, n, t) = self.reals();
        (Seconds((m + 1.0) / 2.0 * n * t), Seconds(m * n * t))
    }

    /// Eqs. 1 to 4 with the numbers in them.
    pub fn explain(self) -> Explained<Line> {
        let (m, n, t) = (self.users, self.packets, significant(self.packet_time.0));
        let (waiting, turnaround) = (self.waiting(), self.turnaround());
        let line = format!(
            "{} of {}: mean waiting {waiting}, mean turnaround {turnaround}",
            counted(m, "user"),
            counted(n, "packet")
        );
        let mut e = Explained::new(self, line);
        let numbers = format!("{m} x {} x ({n} - 1/2) x {t}", m - 1);
        e.step(
            "t_w,total",
            "waiting of all users",
            "sum_i (m-i) t + m (n-1)(m-1) t = m (m-1)(n-1/2) t",
            numbers,
            self.waiting_total().0,
            "s",
            "document 004, Eq. 1",
        );
        let numbers = format!("{} x ({n} - 1/2) x {t}", m - 1);
        let formula = "(m-1)(n-1/2) t";
        e.step(
            "t_w",
            "mean waiting",
            formula,
            numbers,
            waiting.0,
            "s",
            "document 004, Eq. 2",
        );
        let numbers = format!("{m} x ({m} x ({n} - 1) + ({m} + 1)/2) x {t}");
        let total = self.turnaround_total().0;
        let formula = "m t (m (n-1) + (m+1)/2)";
        e.step(
            "t_T,total",
            "turnaround of all users",
            formula,
            numbers,
            total,
            "s",
            "document 004, Eq. 3",
        );
        let numbers = format!("({m} x ({n} - 1) + ({m} + 1)/2) x {t}");
        let formula = "(m (n-1) + (m+1)/2) t";
        e.step(
            "t_T",
            "mean turnaround",
            formula,
            numbers,
            turnaround.0,
            "s",
            "document 004, Eq. 4",
        );
        let (low, high) = self.turnaround_bounds();
        e.bounds.push(Bound {
            quantity: "mean turnaround",
            low: low.0,
            high: Some(high.0),
            unit: "s",
            source: "any order of service: one after the other, (m+1)/2 n t; all finish last, m n t",
        });
        e.assumptions.extend(ASSUMPTIONS);
        e.region.push(same_size_region());
        e
    }
}

/// Assumptions of section 2.3.
pub(crate) const ASSUMPTIONS: [&str; 3] = [
    "all users ask at the same moment for files of the same number of packets",
    "packets are served round robin",
    "the server takes no time",
];

/// Files of different sizes break Eqs. 1 to 9; a coefficient of variation of a third is still close.
pub(crate) fn same_size_region() -> Region {
    Region {
        quantity: Quantity::SizeVariability,
        low: 0.0,
        high: 0.1,
        outside: "Eqs. 1 to 9 give every user the same number of packets; use the processor-sharing model",
    }
}

/// Users who share one packet time: `m_i`, `t_i` of Eqs. 5 and 6.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Group {
    /// `m_i`, users of the group.
    pub users: u64,
    /// `t_i`, time one packet of the group takes.
    pub packet_time: Seconds,
}

/// Upper limit of the last inner sum of Eqs. 5 and 6.
///
/// Eq. 6 is printed with a minus sign inside the product `m_(j-1) t_(j-1)`; both variants read the
/// product, without which Eq. 6 does not become Eq. 4 for equal packet times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum InnerSum {
    /// Over `j = 1..m_i`, as printed: the mean over users served in order.
    #[default]
    Printed,
    /// Over `j = 1..i`, the index of the group, as Table 3 was computed: a slip.
    TableThree,
}

/// Groups with different packet times on one server: case 2 of section 2.3.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mixed {
    groups: Vec<Group>,
    packets: u64,
}

impl Mixed {
    /// The groups in serving order, and `n`; errors name an empty or meaningless parameter.
    pub fn new(groups: &[Group], packets: u64) -> Result<Mixed, DomainError> {
        if groups.is_empty() {
            return Err(DomainError::TooFew {
                what: "groups",
                got: 0,
                need: 1,
            });
        }
        for group in groups {
            Line::new(group.users, packets, group.packet_time)?;
        }
        Ok(Mixed {
            groups: groups.to_vec(),
            packets,
        })
    }

    /// Eq. 5: mean waiting time.
    pub fn waiting(&self, sum: InnerSum) -> Seconds {
        let rounds = self.packets as f64 - 1.0;
        let all = self.round_time();
        let mut total = 0.0;
        let mut before = 0.0;
        for (index, group) in self.groups.iter().enumerate() {
            let (m, t) = (group.users as f64, group.packet_time.0);
            // In every round but the last, a user waits for all packets except their own.
            total += rounds * m * (all - t);
            let last = match sum {
                InnerSum::Printed => m,
                InnerSum::TableThree => index as f64 + 1.0,
            };
            total += m * before + t * last * (last - 1.0) / 2.0;
            before += m * t;
        }
        Seconds(total / self.users())
    }

    /// Eq. 6: mean turnaround time.
    pub fn turnaround(&self, sum: InnerSum) -> Seconds {
        let rounds = self.packets as f64 - 1.0;
        let mut total = self.users() * rounds * self.round_time();
        let mut before = 0.0;
        for (index, group) in self.groups.iter().enumerate() {
            let (m, t) = (group.users as f64, group.packet_time.0);
            let last = match sum {
                InnerSum::Printed => m,
                InnerSum::TableThree => index as f64 + 1.0,
            };
            total += m * before + t * last * (last + 1.0) / 2.0;
            before += m * t;
        }
        Seconds(total / self.users())
    }

    /// As [`Line::turnaround_bounds`]: users one after the other in order of packet time; everyone finishing last.
    pub fn turnaround_bounds(&self) -> (Seconds, Seconds) {
        let n = self.packets as f64;
        let mut groups = self.groups.clone();
        groups.sort_by(|a, b| a.packet_time.0.total_cmp(&b.packet_time.0));
        let (mut total, mut before) = (0.0, 0.0);
        for group in groups {
            let (m, work) = (group.users as f64, n * group.packet_time.0);
            total += m * before + work * m * (m + 1.0) / 2.0;
            before += m * work;
        }
        (Seconds(total / self.users()), Seconds(n * self.round_time()))
    }

    fn users(&self) -> f64 {
        self.groups.iter().map(|group| group.users as f64).sum()
    }

    /// Time one round of one packet per user takes.
    fn round_time(&self) -> f64 {
        self.groups
            .iter()
            .map(|group| group.users as f64 * group.packet_time.0)
            .sum()
    }

    /// Eqs. 5 and 6 with the numbers in them.
    pub fn explain(&self, sum: InnerSum) -> Explained<Mixed> {
        let (waiting, turnaround) = (self.waiting(sum), self.turnaround(sum));
        let users = self.users();
        let line = format!(
            "{} in {}: mean waiting {waiting}, mean turnaround {turnaround}",
            counted(users as u64, "user"),
            counted(self.groups.len() as u64, "group")
        );
        let mut e = Explained::new(self.clone(), line);
        let round = self
            .groups
            .iter()
            .map(|g| format!("{} x {}", g.users, significant(g.packet_time.0)));
        let round = round.collect::<Vec<_>>().join(" + ");
        e.step(
            "r",
            "one packet for every user",
            "sum_i m_i t_i",
            round,
            self.round_time(),
            "s",
            "document 004, Eq. 5",
        );
        let last = match sum {
            InnerSum::Printed => "m_i",
            InnerSum::TableThree => "i",
        };
        let formula = format!(
            "{{(n-1) sum_i m_i [r - t_i] + sum_i [m_i sum_(j<i) m_j t_j + t_i sum_(j=1..{last}) (j-1)]}} / m"
        );
        e.step(
            "t_w",
            "mean waiting",
            formula,
            format!("n = {}, m = {users}", self.packets),
            waiting.0,
            "s",
            "document 004, Eq. 5",
        );
        let formula = format!("{{m (n-1) r + sum_i [m_i sum_(j<i) m_j t_j + t_i sum_(j=1..{last}) j]}} / m");
        e.step(
            "t_T",
            "mean turnaround",
            formula,
            format!("n = {}, m = {users}", self.packets),
            turnaround.0,
            "s",
            "document 004, Eq. 6",
        );
        let (low, high) = self.turnaround_bounds();
        e.bounds.push(Bound {
            quantity: "mean turnaround",
            low: low.0,
            high: Some(high.0),
            unit: "s",
            source: "any order of service: one after the other, the fastest first (Smith 1956); all finish last",
        });
        e.assumptions.extend(ASSUMPTIONS);
        e.region.push(same_size_region());
        if sum == InnerSum::TableThree {
            e.warnings
                .push("the last inner sum follows Table 3, a slip of the document".to_owned());
        }
        e
    }
}

/// One server per line: case 3 of section 2.3.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distributed {
    /// The lines and their users.
    pub lines: Vec<Line>,
    /// Eq. 7: mean over the lines of their mean waiting times, whatever their numbers of users.
    pub waiting: Seconds,
    /// Eq. 8: mean over the lines of their mean turnaround times.
    pub turnaround: Seconds,
    /// Mean waiting of a user: lines weighted by their users. Equals Eq. 7 for equal numbers.
    pub waiting_per_user: Seconds,
    /// Mean turnaround of a user.
    pub turnaround_per_user: Seconds,
}

impl Distributed {
    /// The means over `lines`; an error if there are none.
    pub fn new(lines: &[Line]) -> Result<Distributed, DomainError> {
        if lines.is_empty() {
            return Err(DomainError::TooFew {
                what: "lines",
                got: 0,
                need: 1,
            });
        }
        let count = lines.len() as f64;
        let users: f64 = lines.iter().map(|line| line.users as f64).sum();
        Ok(Distributed {
            lines: lines.to_vec(),
            waiting: lines.iter().map(|line| line.waiting()).sum::<Seconds>() / count,
            turnaround: lines.iter().map(|line| line.turnaround()).sum::<Seconds>() / count,
            waiting_per_user: lines.iter().map(|line| line.waiting_total()).sum::<Seconds>() / users,
            turnaround_per_user: lines.iter().map(|line| line.turnaround_total()).sum::<Seconds>() / users,
        })
    }
}

/// Eq. 9: percent saved by going from `before` to `after`; `before` must be above zero.
pub fn savings_percent(before: Seconds, after: Seconds) -> Result<f64, DomainError> {
    let before = positive("time before", before.0, "above 0 s")?;
    Ok(100.0 * (before - after.0) / before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meaningless_lines_are_refused() {
        assert!(Line::new(0, 1, Seconds(1.0)).is_err());
        assert!(Line::new(1, 0, Seconds(1.0)).is_err());
        assert!(Line::new(1, 1, Seconds(f64::NAN)).is_err());
        assert!(Mixed::new(&[], 1).is_err());
        assert!(Distributed::new(&[]).is_err());
        assert!(savings_percent(Seconds::ZERO, Seconds(1.0)).is_err());
    }

    #[test]
    fn the_minus_sign_printed_in_eq_6_does_not_reduce_to_eq_4() {
        // Two groups of 5 and 10 with the same t, n = 3: Eq. 4 with m = 15.
        let t = 1.0;
        let eq4 = Line::new(15, 3, Seconds(t)).unwrap().turnaround().0;
        let groups = [
            Group {
                users: 5,
                packet_time: Seconds(t),
            },
            Group {
                users: 10,
                packet_time: Seconds(t),
            },
        ];
        let product = Mixed::new(&groups, 3).unwrap().turnaround(InnerSum::Printed).0;
        assert!((product - eq4).abs() < 1e-12);
        // m_0 and t_0 are zero, so the printed minus leaves only 10 (5 - t) in place of 10 (5 t).
        let minus = (15.0 * 2.0 * 15.0 * t + 10.0 * (5.0 - t) + 15.0 + 55.0) / 15.0;
        assert!((minus - eq4).abs() > 0.5);
    }

    #[test]
    fn round_robin_lies_between_the_bounds_of_any_order() {
        for (users, packets) in [(1, 1), (1, 9), (50, 12), (7, 1)] {
            let e = Line::new(users, packets, Seconds(0.036)).unwrap().explain();
            assert!(e.bounds[0].contains(e.answer.turnaround().0), "{users} {packets}");
        }
        for times in [[1.0, 1.0], [1.0, 2.0], [2.0, 1.0], [0.1, 5.0]] {
            let groups = [(5, times[0]), (10, times[1])].map(|(users, t)| Group {
                users,
                packet_time: Seconds(t),
            });
            let e = Mixed::new(&groups, 3).unwrap().explain(InnerSum::Printed);
            assert!(
                e.bounds[0].contains(e.answer.turnaround(InnerSum::Printed).0),
                "{times:?}"
            );
        }
    }

    #[test]
    fn derivations_carry_equation_numbers() {
        let text = Line::new(50, 12, Seconds(0.036)).unwrap().explain().to_string();
        assert!(
            text.contains("t_w = (m-1)(n-1/2) t = 49 x (12 - 1/2) x 0.036 = 20.29 s"),
            "{text}"
        );
        assert!(text.contains("document 004, Eq. 4"), "{text}");
    }
}
