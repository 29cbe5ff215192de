//! The derivation of a dimensioning answer: every part of the turnaround with its formula, the bounds of the reading,
//! the assumptions. Computes no part itself.

use super::{Basis, Dimension, Parts, Question, thinking};
use crate::explain::{Bound, Explained, Quantity, Region, counted, significant};
use crate::tcp::loss;
use crate::transaction::Mode;
use crate::waiting::{ASSUMPTIONS, same_size_region};
use units::Rate;

impl Question {
    /// The answer at `rate` with the derivation of `parts`.
    pub(super) fn explain(&self, rate: Rate, parts: Parts) -> Explained<Dimension> {
        let total = parts.total();
        let utilization = match self.basis {
            Basis::Steady { think } => {
                (self.users as f64 * parts.wire.0 * self.carried_again() / (think + total).0).min(1.0)
            }
            Basis::Burst | Basis::Windows | Basis::Document(_) => 1.0,
        };
        let binds = parts.binds();
        let answer = Dimension {
            rate,
            turnaround: total,
            parts,
            binds,
            utilization,
        };
        let line = format!(
            "{rate} for {} of {}: mean turnaround {total}; {} {}",
            counted(self.users, "user"),
            self.page,
            binds.words(),
            binds.verb()
        );
        let mut e = Explained::new(answer, line);
        self.steps(rate, parts, &mut e);
        self.bracket(parts, &mut e);
        self.grant(&mut e);
        if utilization > 0.9 && matches!(self.basis, Basis::Steady { .. }) {
            e.warnings.push(format!(
                "the link is {} % busy: a few more users raise the turnaround steeply",
                significant(100.0 * utilization)
            ));
        }
        if let Some(caveat) = self.setup.caveat() {
            e.warnings.push(caveat.to_owned());
        }
        e
    }

    /// Every part with its formula and numbers.
    fn steps(&self, rate: Rate, parts: Parts, e: &mut Explained<Dimension>) {
        let m = self.users;
        let source = match self.basis {
            Basis::Document(_) => "document 004, Eq. 4",
            Basis::Burst => "document 004, Eqs. 2 and 4, packet time of the link alone",
            Basis::Windows => "document 004, Eqs. 2 and 4, a window in place of a packet",
            Basis::Steady { .. } => "exact mean value analysis, Reiser and Lavenberg 1980",
        };
        let rtt = significant(self.rtt.0);
        let numbers = format!("({} + 1) x {rtt}", self.setup.round_trips());
        e.step(
            "round trips",
            self.setup.name(),
            "(setup + 1) R",
            numbers,
            parts.round_trips.0,
            "s",
            self.setup.source(),
        );
        let numbers = format!(
            "w = {}, g = {}",
            significant(self.sender.initial_window),
            significant(self.sender.growth)
        );
        let window_source = if matches!(self.basis, Basis::Document(_)) {
            "document 004: R S"
        } else {
            "sum_i max(0, R + s/C - w g^i s/C)"
        };
        e.step(
            "window",
            "waiting for acknowledgements",
            window_source,
            numbers,
            parts.window.0,
            "s",
            "tcp::ramp",
        );
        let (bits, bytes) = match self.basis {
            Basis::Document(Mode::Paper) => ("8.192", self.page.0 as f64),
            Basis::Document(Mode::Exact) => ("8", self.page.0 as f64),
            Basis::Burst | Basis::Windows | Basis::Steady { .. } => ("8", self.sender.wire_bytes(self.page)),
        };
        let numbers = format!("{bits} x {bytes} / {}", rate.0);
        e.step(
            "wire",
            "own bytes, headers included",
            "bits of o / C",
            numbers,
            parts.wire.0,
            "s",
            "definition",
        );
        let (formula, numbers) = match self.basis {
            Basis::Steady { think } => (
                "R_MVA(N) - D - E".to_owned(),
                format!("N = {m}, Z = {}", significant(think.0)),
            ),
            Basis::Windows => (
                "sum_(i<k) max(m w_i t, w_i t + stall_i) + (m+1)/2 w_k t - wire - window".to_owned(),
                format!("m = {m}"),
            ),
            Basis::Burst | Basis::Document(_) => ("(m-1)(n-1/2) t".to_owned(), format!("m = {m}")),
        };
        let (formula, numbers) = match self.basis {
            _ if self.loss == 0.0 => (formula, numbers),
            // In a steady state, loss is part of the demand.
            Basis::Steady { .. } => (
                formula.replace('D', "D/(1-p)"),
                format!("{numbers}, p = {}", significant(self.loss)),
            ),
            Basis::Windows | Basis::Burst | Basis::Document(_) => (
                format!("({formula})/(1-p)"),
                format!("{numbers}, p = {}", significant(self.loss)),
            ),
        };
        e.step(
            "sharing",
            "other users' bytes",
            formula,
            numbers,
            parts.sharing.0,
            "s",
            source,
        );
        if self.loss > 0.0 {
            e.step(
                "losses",
                "what losses add to a transfer alone",
                "T(p) - T(0)",
                format!("p = {}", significant(self.loss)),
                parts.loss.0,
                "s",
                "Cardwell et al. 2000, see tcp::loss",
            );
        }
        e.step(
            "t_T",
            "mean turnaround",
            "sum of the parts",
            "",
            parts.total().0,
            "s",
            source,
        );
    }

    /// Bounds of the turnaround for any order of service.
    fn bracket(&self, parts: Parts, e: &mut Explained<Dimension>) {
        let m = self.users;
        let wire = parts.wire.0;
        match self.basis {
            Basis::Steady { think } => {
                let latency = parts.round_trips + parts.window + parts.loss;
                let demand = parts.wire * self.carried_again();
                if let Ok(network) = thinking(demand, latency, think) {
                    let bounds = network.brackets(m).to_bounds().into_iter();
                    // Retransmissions of a user's own bytes count as losses, not as link time.
                    let own = (demand - parts.wire).0;
                    e.bounds
                        .extend(bounds.filter(|b| b.quantity == "response").map(|b| Bound {
                            low: b.low - own,
                            high: b.high.map(|high| high - own),
                            ..b
                        }));
                }
            }
            Basis::Burst => e.bounds.push(Bound {
                quantity: "mean turnaround",
                // Either everything overlaps with the link being busy, or nothing does.
                low: parts.round_trips.0 + (parts.window + parts.loss).0.max(parts.sharing.0) + wire,
                high: Some(parts.total().0),
                unit: "s",
                source: "stalls hidden behind other users' packets, or not at all",
            }),
            Basis::Windows => e.bounds.push(Bound {
                quantity: "mean turnaround",
                low: parts.round_trips.0
                    + ((parts.window + parts.loss).0 + wire).max((m as f64 + 1.0) / 2.0 * wire),
                high: Some(
                    parts.round_trips.0
                        + (parts.window + parts.loss).0
                        + wire
                        + (m as f64 - 1.0) * wire * self.carried_again(),
                ),
                unit: "s",
                source: "any order of service: one after the other, (m+1)/2 n t; all finish last, m n t",
            }),
            Basis::Document(_) => e.bounds.push(Bound {
                quantity: "mean turnaround",
                low: parts.round_trips.0 + parts.window.0 + wire,
                high: Some(parts.total().0),
                unit: "s",
                source: "one transaction alone; the document's upper bound",
            }),
        }
    }

    /// The assumptions and their regions.
    fn grant(&self, e: &mut Explained<Dimension>) {
        loss::grant(
            e,
            self.loss,
            "losses add latency that bandwidth does not remove: say --loss",
        );
        if self.loss == 0.0 {
            e.assumptions.push("the link is the only bottleneck");
        } else {
            e.assumptions.extend([
                "the link is the only bottleneck, and the path loses as much whatever its load",
                "a user recovers as if alone: sharing makes neither round trips longer nor windows smaller",
            ]);
        }
        match self.basis {
            Basis::Steady { .. } => {
                e.assumptions.push("transfers share the link equally");
                let outside = "means do not depend on it";
                e.region.push(Region {
                    quantity: Quantity::SizeVariability,
                    low: 0.0,
                    high: f64::INFINITY,
                    outside,
                });
            }
            Basis::Windows => {
                e.assumptions.extend([
                    "all users ask at the same moment for pages of the same size",
                    "a first-in first-out queue that holds all windows",
                ]);
                e.region.push(same_size_region());
            }
            Basis::Burst | Basis::Document(_) => {
                e.assumptions.extend(ASSUMPTIONS);
                e.region.push(same_size_region());
            }
        }
    }
}
