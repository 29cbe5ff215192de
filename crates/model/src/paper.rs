//! Document 004's Tables 1 to 5 entry by entry, as printed and as computed from its formulas.
//!
//! Decides which entries differ; every entry carries its verdict. The printed values are in
//! `testdata/model_table*.csv`; this file only computes them.

use crate::transaction::{Mode, Transaction, Transfer};
use crate::waiting::{Distributed, Group, InnerSum, Line, Mixed, savings_percent};
use crate::{DomainError, Seconds};
use serde::Serialize;
use units::{Bytes, Rate};

/// The document's "1M" file.
pub const ONE_M: Bytes = Bytes(1_048_576);

/// Section 3's testbed: 10 Mbit/s Ethernet, R = 0.5 ms, MSS 1460.
pub const fn testbed(size: Bytes) -> Transfer {
    Transfer {
        size,
        rate: Rate::mbit(10),
        rtt: Seconds(0.0005),
        mss: Bytes(1460),
    }
}

/// The wide-area links of Tables 4 and 5. RTT is 0.1 s: the printed 0.1 ms contradicts every entry.
pub const fn wan(rate: Rate, size: Bytes) -> Transfer {
    Transfer {
        size,
        rate,
        rtt: Seconds(0.1),
        mss: Bytes(512),
    }
}

/// T1, E1, T3 and ATM OC-3.
pub const LINKS: [(&str, Rate); 4] = [
    ("T1", Rate(1_544_000)),
    ("E1", Rate(2_048_000)),
    ("T3", Rate(44_736_000)),
    ("OC3", Rate(155_000_000)),
];

/// How a printed entry compares with the formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// A measurement that enters the formulas; nothing to compare.
    Measured,
    /// The computed value rounds to the printed digits.
    Match,
    /// Less than one unit of the last printed digit apart: truncated, or rounded the wrong way.
    LastDigit,
    /// The document's own formula does not give this number.
    Erratum,
}

/// One entry of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The row and column, in the words of the table.
    pub key: String,
    /// Unit of both values.
    pub unit: String,
    /// The value printed in the document.
    pub printed: f64,
    /// Decimals of the printed value.
    pub decimals: u32,
    /// The value of the formulas in [`Mode::Paper`]; `None` for measurements.
    pub computed: Option<f64>,
}

impl Entry {
    /// How the printed entry compares with the formula.
    pub fn verdict(&self) -> Verdict {
        let Some(computed) = self.computed else {
            return Verdict::Measured;
        };
        let scale = 10f64.powi(self.decimals as i32);
        // Halves round up, as people round them; the nudge undoes binary fractions just below a half.
        let rounded = (computed * scale + 0.5 + 1e-7).floor();
        let printed = (self.printed * scale).round();
        if rounded == printed {
            Verdict::Match
        } else if (computed * scale - printed).abs() < 1.0 {
            Verdict::LastDigit
        } else {
            Verdict::Erratum
        }
    }
}

/// The tables of document 004; Table 3 in both readings of Eqs. 5 and 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Table {
    /// Terms of the testbed.
    One,
    /// Waiting and turnaround, equal packet times.
    Two,
    /// Waiting and turnaround, different packet times.
    Three(InnerSum),
    /// Transaction times of wide-area links.
    Four,
    /// Distribution over lines.
    Five,
}

impl Table {
    fn csv(self) -> &'static str {
        match self {
            Table::One => include_str!("../testdata/model_table1.csv"),
            Table::Two => include_str!("../testdata/model_table2.csv"),
            Table::Three(_) => include_str!("../testdata/model_table3.csv"),
            Table::Four => include_str!("../testdata/model_table4.csv"),
            Table::Five => include_str!("../testdata/model_table5.csv"),
        }
    }

    /// Title of the table, from its file.
    pub fn source(self) -> &'static str {
        self.about("source")
    }

    /// Provenance of the printed numbers, from the table's file: whether the document was seen.
    pub fn provenance(self) -> &'static str {
        self.about("provenance")
    }

    fn about(self, key: &str) -> &'static str {
        let comments = self.csv().lines().map_while(|line| line.strip_prefix("# "));
        comments
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| *name == key)
            .map_or("", |(_, value)| value)
    }

    /// Every entry of the table, in the document's order.
    pub fn entries(self) -> Result<Vec<Entry>, DomainError> {
        // The first line that is not a comment names the columns; quoted commas occur only in notes, which come last.
        let rows = self.csv().lines().filter(|line| !line.starts_with('#')).skip(1);
        rows.map(|row| {
            let cells: Vec<&str> = row.split(',').collect();
            match self {
                Table::One => table_one(&cells),
                Table::Two => table_two(&cells),
                Table::Three(sum) => table_three(&cells, sum),
                Table::Four => table_four(&cells),
                Table::Five => table_five(&cells),
            }
        })
        .collect()
    }
}

fn number(cell: &str) -> f64 {
    cell.parse()
        .expect("the tables in testdata hold numbers where their header says so; tested")
}

fn size_of(cell: &str) -> Bytes {
    if cell == "1M" {
        ONE_M
    } else {
        Bytes(number(cell) as u64)
    }
}

/// A column of Tables 1 and 4, in seconds where it is a time.
fn column(transaction: &Transaction, quantity: &str) -> f64 {
    match quantity {
        "K" => transaction.k,
        "L" => transaction.l,
        "Tf" => transaction.tf.0,
        "M" => transaction.m,
        "S" => f64::from(transaction.s),
        "W" => transaction.w.0,
        "Tmin" => transaction.tmin.0,
        "T" => transaction.t.0,
        "T_TTCP" => transaction.t_ttcp.0,
        other => unreachable!("the tables in testdata have no column {other}; tested"),
    }
}

fn table_one(cells: &[&str]) -> Result<Entry, DomainError> {
    let [size, quantity, unit, printed, ..] = *cells else {
        unreachable!("{BROKEN}")
    };
    let transaction = testbed(size_of(size)).transaction(Mode::Paper)?;
    let value = column(&transaction, quantity);
    Ok(Entry {
        key: format!("{size} B {quantity}"),
        unit: unit.to_owned(),
        printed: number(printed),
        decimals: if quantity == "S" { 0 } else { 2 },
        computed: Some(if unit == "ms" { value * 1e3 } else { value }),
    })
}

/// Mean transaction times the document measured: size, over TCP and over T/TCP, in ms (Table 2).
const MEASURED_MEAN_MS: [(u64, f64, f64); 3] =
    [(3000, 14.30, 14.25), (6000, 18.75, 18.25), (12_000, 35.63, 35.13)];

fn table_two(cells: &[&str]) -> Result<Entry, DomainError> {
    let [kind, size, _, users, protocol, quantity, unit, printed, ..] = *cells else {
        unreachable!("{BROKEN}")
    };
    let transaction = testbed(size_of(size)).transaction(Mode::Paper)?;
    let t_ttcp = protocol == "T-TCP";
    let total = match kind {
        "comp" if t_ttcp => transaction.t_ttcp,
        "comp" => transaction.t,
        _ => {
            let row = MEASURED_MEAN_MS
                .iter()
                .find(|row| row.0 == transaction.transfer.size.0);
            let &(_, tcp, ttcp) = row.expect("the measured sizes are those of Table 2; tested");
            Seconds::from_millis(if t_ttcp { ttcp } else { tcp })
        }
    };
    let t = total / transaction.n as f64;
    let line = |users: &str| Line::new(number(users) as u64, transaction.n, t);
    let value = match quantity {
        "T" => total,
        "t=T/n" => t,
        "t_w" => line(users)?.waiting(),
        _ => line(users)?.turnaround(),
    };
    let measured = kind == "exp" && quantity == "T";
    Ok(Entry {
        key: format!("{kind} {size} B m={users} {protocol} {quantity}"),
        unit: unit.to_owned(),
        printed: number(printed),
        decimals: if quantity.starts_with("t_") { 0 } else { 2 },
        computed: (!measured).then(|| value.as_millis()),
    })
}

fn table_three(cells: &[&str], sum: InnerSum) -> Result<Entry, DomainError> {
    let [
        kind,
        size,
        _,
        protocol,
        printed_times,
        quantity,
        unit,
        printed,
        ..,
    ] = *cells
    else {
        unreachable!("{BROKEN}")
    };
    let transaction = testbed(size_of(size)).transaction(Mode::Paper)?;
    let n = transaction.n as f64;
    // The computed half uses its unrounded transaction times, the measured half the printed ones.
    let times = match (kind, protocol) {
        ("comp", "TCP") => [transaction.t; 2],
        ("comp", _) => [transaction.t_ttcp; 2],
        _ => {
            let (five, ten) = printed_times
                .split_once('/')
                .expect("two times, for two groups; tested");
            [five, ten].map(|ms| Seconds::from_millis(number(ms)))
        }
    };
    let groups = [(5, times[0]), (10, times[1])].map(|(users, t)| Group {
        users,
        packet_time: t / n,
    });
    let mixed = Mixed::new(&groups, transaction.n)?;
    let value = if quantity == "t_w" {
        mixed.waiting(sum)
    } else {
        mixed.turnaround(sum)
    };
    Ok(Entry {
        key: format!("{kind} {size} B {protocol} {quantity}"),
        unit: unit.to_owned(),
        printed: number(printed),
        decimals: 0,
        computed: Some(value.as_millis()),
    })
}

fn link(name: &str) -> Rate {
    let found = LINKS.iter().find(|(link, _)| *link == name);
    found.expect("the tables name only links of LINKS; tested").1
}

fn table_four(cells: &[&str]) -> Result<Entry, DomainError> {
    let [name, _, size, quantity, unit, printed, ..] = *cells else {
        unreachable!("{BROKEN}")
    };
    let transaction = wan(link(name), size_of(size)).transaction(Mode::Paper)?;
    let printed = number(printed);
    Ok(Entry {
        key: format!("{name} {size} {quantity}"),
        unit: unit.to_owned(),
        printed,
        // The document drops the decimals of four-digit packet counts.
        decimals: if quantity == "S" || printed >= 1000.0 {
            0
        } else {
            2
        },
        computed: Some(column(&transaction, quantity)),
    })
}

/// A line of Table 5: `users` fetch 6,000 B in n = 12 packets of t = T/n rounded to 1 ms.
pub fn table_five_line(name: &str, users: u64) -> Result<Line, DomainError> {
    let transaction = wan(link(name), Bytes(6000)).transaction(Mode::Paper)?;
    let t = (transaction.t.as_millis() / transaction.n as f64).round();
    Line::new(users, transaction.n, Seconds::from_millis(t))
}

fn table_five(cells: &[&str]) -> Result<Entry, DomainError> {
    let [group, name, users, quantity, unit, printed, ..] = *cells else {
        unreachable!("{BROKEN}")
    };
    let users = number(users) as u64;
    let value = match quantity {
        "a mean waiting" => table_five_line(name, users)?.waiting(),
        "a' mean turnaround" => table_five_line(name, users)?.turnaround(),
        _ => {
            let names: Vec<&str> = name.split('+').collect();
            // Two lines share the users equally, three lines 3:3:4.
            let split: &[u64] = if names.len() == 2 {
                &[25, 25]
            } else {
                &[15, 15, 20]
            };
            let lines = names
                .iter()
                .zip(split)
                .map(|(name, &users)| table_five_line(name, users));
            let all = Distributed::new(&lines.collect::<Result<Vec<_>, _>>()?)?;
            let mean = if quantity.starts_with("b'") {
                all.turnaround
            } else {
                all.waiting
            };
            if quantity.contains("sum") {
                mean * names.len() as f64
            } else {
                mean
            }
        }
    };
    Ok(Entry {
        key: format!("{group} {name} {users} {quantity}"),
        unit: unit.to_owned(),
        printed: number(printed),
        decimals: 2,
        computed: Some(value.0),
    })
}

/// The six groups of lines of Table 5 and Figure 3.
pub const GROUPS: [&[&str]; 6] = [
    &["T1", "T1"],
    &["T1", "E1"],
    &["E1", "E1"],
    &["T1", "T3"],
    &["E1", "T3"],
    &["T1", "E1", "T3"],
];

/// One point of Figure 3.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Saving {
    /// The lines, joined by `+`.
    pub group: String,
    /// All users.
    pub users: u64,
    /// Percent of waiting saved, Eq. 9.
    pub waiting_percent: f64,
    /// Percent of turnaround saved.
    pub turnaround_percent: f64,
}

/// Figure 3 for files of `size`: savings against 10 to 100 users for the six groups.
///
/// The document does not say which single line a mixed group is compared with. Here it is the mean over the group's
/// lines of the values for all users on that line alone. Packet times are not rounded.
pub fn figure_three(size: Bytes) -> Result<Vec<Saving>, DomainError> {
    let mut savings = Vec::new();
    for group in GROUPS {
        for users in (10..=100).step_by(10) {
            // Halves, or 3:3:4.
            let split = if group.len() == 2 {
                vec![users / 2; 2]
            } else {
                vec![users * 3 / 10, users * 3 / 10, users * 4 / 10]
            };
            let line = |name: &str, users: u64| -> Result<Line, DomainError> {
                let transaction = wan(link(name), size).transaction(Mode::Paper)?;
                Line::new(users, transaction.n, transaction.t / transaction.n as f64)
            };
            let together = group
                .iter()
                .map(|name| line(name, users))
                .collect::<Result<Vec<_>, _>>()?;
            let apart = group
                .iter()
                .zip(split)
                .map(|(name, users)| line(name, users))
                .collect::<Result<Vec<_>, _>>()?;
            let (before, after) = (Distributed::new(&together)?, Distributed::new(&apart)?);
            savings.push(Saving {
                group: group.join("+"),
                users,
                waiting_percent: savings_percent(before.waiting, after.waiting)?,
                turnaround_percent: savings_percent(before.turnaround, after.turnaround)?,
            });
        }
    }
    Ok(savings)
}

const BROKEN: &str = "the tables in testdata have the columns of their header; tested";

#[cfg(test)]
mod tests;
