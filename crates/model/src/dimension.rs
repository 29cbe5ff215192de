//! The least bandwidth that gives a number of users a wanted mean turnaround, and what the time is made of.
//!
//! Four readings of "users", from the document's upper bound to steady use; each is a function of the
//! rate, and the answer is the least whole bit per second that meets the objective.
//!
//! Loss adds to every user's time what `tcp::loss` says a transfer alone on the line loses (Cardwell 2000), and others'
//! bytes take `1/(1-p)` of their time, as what is lost is sent again. The losses are the path's: what a queue too short
//! for all users drops is not in it.

use crate::Seconds;
use crate::closed::{Network, Station};
use crate::domain::{DomainError, non_negative, positive};
use crate::explain::{Bound, Explained, Quantity, Region, counted, significant};
use crate::tcp::ramp::Path;
use crate::tcp::setup::Setup;
use crate::tcp::{Sender, loss};
use crate::transaction::{Mode, Transfer};
use crate::waiting::{ASSUMPTIONS, Line, same_size_region};
use measure::{Bytes, Rate};
use serde::Serialize;

/// What the users do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Basis {
    /// All ask at once and nothing overlaps, round trips included: Eq. 4 with `t = T/n`. The document's
    /// "theoretical upper bound"; no bandwidth brings it below `m` times the round trips.
    Document(Mode),
    /// All ask at once and share the link packet by packet; round trips and stalls of different users overlap.
    Burst,
    /// All ask at once, and a first-in first-out queue serves them a whole window each in turn, because that is
    /// what a sender hands over at a time. Waiting for acknowledgements hides behind the others' windows:
    ///
    /// ```text
    /// t_T = trips + sum_(i<k) max(m w_i t, w_i t + stall_i) + (m+1)/2 w_k t        k windows of w_i segments
    /// ```
    ///
    /// With one user this is the transfer alone; with windows of one packet and no round trip it is Eq. 4.
    Windows,
    /// Each asks, reads for the think time and asks again: closed mean value analysis.
    Steady {
        /// Mean time between an answer and the next request.
        think: Seconds,
    },
}

/// A question of dimensioning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Question {
    /// Users of the link.
    pub users: u64,
    /// Bytes each fetches.
    pub page: Bytes,
    /// Mean turnaround wanted.
    pub turnaround: Seconds,
    /// Round-trip time.
    pub rtt: Seconds,
    /// The sender; under [`Basis::Document`] only its MSS counts.
    pub sender: Sender,
    /// What precedes the request; under [`Basis::Document`] TCP or T/TCP.
    pub setup: Setup,
    /// What the users do.
    pub basis: Basis,
    /// Share of the packets that are lost, in each direction; below 0.5, and 0 under [`Basis::Document`], which knows none.
    pub loss: f64,
}

/// The part of the turnaround that is largest, so what to change first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Binds {
    /// Waiting for other users' bytes: more bandwidth, fewer users per link, smaller pages.
    Sharing,
    /// The user's own bytes: more bandwidth or smaller pages.
    Wire,
    /// Connection setup and request: fewer round trips or a nearer server.
    RoundTrips,
    /// Waiting for acknowledgements: a larger initial window or window cap, or a nearer server.
    Window,
    /// What is lost and sent again: a path that loses less, or fewer bytes.
    Loss,
}

impl Binds {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Binds::Sharing => "sharing the link with the other users",
            Binds::Wire => "the page's own bytes",
            Binds::RoundTrips => "round trips of setup and request",
            Binds::Window => "waiting for the TCP window",
            Binds::Loss => "recovering from losses",
        }
    }
}

/// Where the turnaround goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Parts {
    /// Setup and request.
    pub round_trips: Seconds,
    /// Stalls of slow start and of the window cap.
    pub window: Seconds,
    /// The user's own bytes on the wire.
    pub wire: Seconds,
    /// Other users' bytes.
    pub sharing: Seconds,
    /// Timeouts, set-up sent again, and the slower rate after a loss.
    pub loss: Seconds,
}

impl Parts {
    /// All of it.
    pub fn total(&self) -> Seconds {
        self.round_trips + self.window + self.wire + self.sharing + self.loss
    }

    fn binds(&self) -> Binds {
        let parts = [
            (self.sharing, Binds::Sharing),
            (self.wire, Binds::Wire),
            (self.round_trips, Binds::RoundTrips),
            (self.window, Binds::Window),
            (self.loss, Binds::Loss),
        ];
        let largest = parts.into_iter().max_by(|a, b| a.0.0.total_cmp(&b.0.0));
        largest.map_or(Binds::Sharing, |(_, binds)| binds)
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dimension {
    /// The least rate.
    pub rate: Rate,
    /// Mean turnaround at that rate.
    pub turnaround: Seconds,
    /// Where it goes.
    pub parts: Parts,
    /// Its largest part.
    pub binds: Binds,
    /// Busy fraction of the link while users are active.
    pub utilization: f64,
}

/// Rates beyond a petabit per second answer nothing.
const RATE_MAX: u64 = 1_000_000_000_000_000;

impl Question {
    /// Names the first parameter that lies outside its domain.
    pub fn check(&self) -> Result<(), DomainError> {
        self.sender.check()?;
        positive("users", self.users as f64, "1 or more")?;
        positive("page", self.page.0 as f64, "1 B or more")?;
        positive("turnaround", self.turnaround.0, "above 0 s")?;
        positive("RTT", self.rtt.0, "above 0 s")?;
        loss::check(self.loss)?;
        if let Basis::Document(_) = self.basis {
            let allowed = "0 for the document's reading, which knows none";
            crate::domain::within("loss", self.loss, self.loss == 0.0, allowed)?;
        }
        if let Basis::Steady { think } = self.basis {
            non_negative("think time", think.0, "0 s or more")?;
            crate::domain::within(
                "users",
                self.users as f64,
                self.users <= 1_000_000,
                "1 to 1,000,000",
            )?;
        }
        Ok(())
    }

    /// Mean turnaround at `rate`, part by part.
    pub fn turnaround_at(&self, rate: Rate) -> Result<Parts, DomainError> {
        self.check()?;
        let path = Path::new(rate, self.rtt)?;
        let trips = self.rtt * f64::from(self.setup.round_trips() + 1);
        let m = self.users;
        if let Basis::Document(mode) = self.basis {
            let transfer = Transfer {
                size: self.page,
                rate,
                rtt: self.rtt,
                mss: self.sender.mss,
            };
            let one = transfer.transaction(mode)?;
            let t = if self.setup.round_trips() == 0 {
                one.t_ttcp
            } else {
                one.t
            };
            let line = Line::new(m, one.n, t / one.n as f64)?;
            let window = self.rtt * f64::from(one.s);
            return Ok(Parts {
                round_trips: t - one.tf - window,
                window,
                wire: one.tf,
                sharing: line.turnaround() - t,
                loss: Seconds::ZERO,
            });
        }
        let sent = path.send(&self.sender, self.page, self.sender.initial_window);
        let loss = loss::added(&path, &self.sender, self.setup, self.page, self.loss)?;
        let again = self.carried_again();
        let sharing = match self.basis {
            Basis::Steady { think } => {
                let latency = trips + sent.stalled + loss;
                let network = thinking(sent.wire * again, latency, think)?;
                network.exact(m)?.response - latency - sent.wire * again
            }
            Basis::Windows => {
                let alone = (sent.wire + sent.stalled).0;
                let sharing = self.in_turn(&path) - alone;
                // Both sums are of the same parts in another order: what one user's rounding leaves is nothing.
                let sharing = if sharing.abs() < 1e-12 * alone {
                    0.0
                } else {
                    sharing
                };
                Seconds(sharing) * again
            }
            Basis::Burst | Basis::Document(_) => {
                let packets = sent.segments.max(1.0) as u64;
                Line::new(m, packets, sent.wire / packets as f64)?.waiting() * again
            }
        };
        Ok(Parts {
            round_trips: trips,
            window: sent.stalled,
            wire: sent.wire,
            sharing,
            loss,
        })
    }

    /// How often a byte is carried on average, where each is sent until it comes.
    fn carried_again(&self) -> f64 {
        1.0 / (1.0 - self.loss)
    }

    /// From the first byte sent to a user's last on average, when windows of all users are served in turn.
    fn in_turn(&self, path: &Path) -> f64 {
        let (m, sender) = (self.users as f64, &self.sender);
        let mut left = sender.segments(self.page);
        let t = path.wire(sender.wire_bytes(self.page)) / left;
        let full = path.wire((sender.mss.0 + sender.header.0) as f64);
        let cap = sender.cap();
        let mut w = sender.initial_window.min(cap);
        let mut time = 0.0;
        let mut delay = if w < 2.0 { sender.first_ack_delay.0 } else { 0.0 };
        while left > w {
            // At the cap every further window is like the last, but the first of all is not.
            let rounds = if w >= cap && delay == 0.0 {
                (left / w).ceil() - 1.0
            } else {
                1.0
            };
            // The stall of `tcp::ramp`, which counts full segments: with one user both agree.
            let stall = (self.rtt.0 + full - w * full).max(0.0) + delay;
            time += rounds * (m * w * t).max(w * t + stall);
            delay = 0.0;
            left -= rounds * w;
            w = sender.opened(w);
        }
        time + (m + 1.0) / 2.0 * left * t
    }

    fn meets(&self, rate: u64) -> Result<bool, DomainError> {
        Ok(self.turnaround_at(Rate(rate))?.total() <= self.turnaround)
    }

    /// The least rate in `low..=high` that meets the objective, where turnaround falls with the rate.
    fn least(&self, mut low: u64, mut high: u64) -> Result<Option<u64>, DomainError> {
        if !self.meets(high)? {
            return Ok(None);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.meets(middle)? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(Some(low))
    }

    /// The least rate for [`Basis::Document`], whose slow-start rounds grow in steps with the rate: the
    /// turnaround falls only between the steps, so each stretch is searched. Where none
    /// meets the objective, the rate that comes closest.
    fn least_by_steps(&self, mode: Mode) -> Result<Result<u64, u64>, DomainError> {
        let rounds = |rate: u64| -> Result<u32, DomainError> {
            let transfer = Transfer {
                size: self.page,
                rate: Rate(rate),
                rtt: self.rtt,
                mss: self.sender.mss,
            };
            Ok(transfer.transaction(mode)?.s)
        };
        let (mut start, mut closest) = (1, (f64::INFINITY, RATE_MAX));
        loop {
            let here = rounds(start)?;
            // The last rate with as many rounds.
            let (mut last, mut beyond) = (start, RATE_MAX + 1);
            while beyond - last > 1 {
                let middle = last + (beyond - last) / 2;
                if rounds(middle)? == here {
                    last = middle
                } else {
                    beyond = middle
                }
            }
            if let Some(found) = self.least(start, last)? {
                return Ok(Ok(found));
            }
            let total = self.turnaround_at(Rate(last))?.total().0;
            if total < closest.0 {
                closest = (total, last);
            }
            if beyond > RATE_MAX {
                return Ok(Err(closest.1));
            }
            start = beyond;
        }
    }

    /// The answer; [`DomainError::Unattainable`] tells what remains at any bandwidth.
    pub fn answer(&self) -> Result<Explained<Dimension>, DomainError> {
        self.check()?;
        let found = match self.basis {
            Basis::Document(mode) => self.least_by_steps(mode)?,
            Basis::Burst | Basis::Windows | Basis::Steady { .. } => self.least(1, RATE_MAX)?.ok_or(RATE_MAX),
        };
        let rate = match found {
            Ok(rate) => rate,
            Err(closest) => return Err(self.unattainable(Rate(closest))?),
        };
        let parts = self.turnaround_at(Rate(rate))?;
        Ok(self.explain(Rate(rate), parts))
    }

    fn unattainable(&self, closest: Rate) -> Result<DomainError, DomainError> {
        let floor = self.turnaround_at(closest)?;
        Ok(DomainError::Unattainable {
            objective_s: self.turnaround.0,
            floor_s: floor.total().0,
            because: match self.basis {
                Basis::Document(_) => {
                    "round trips of all users in turn, which bandwidth cannot shorten".to_owned()
                }
                Basis::Burst | Basis::Windows | Basis::Steady { .. } => {
                    if floor.round_trips + floor.window + floor.loss >= floor.wire + floor.sharing {
                        let losses = if self.loss > 0.0 {
                            format!(", {} of losses", floor.loss)
                        } else {
                            String::new()
                        };
                        format!(
                            "{} of round trips{losses} and {} of window growth, which bandwidth cannot shorten",
                            floor.round_trips, floor.window
                        )
                    } else {
                        format!(
                            "{} of bytes, the users' own and the others', at {closest}, the highest rate that is tried",
                            floor.wire + floor.sharing
                        )
                    }
                }
            },
        })
    }

    fn explain(&self, rate: Rate, parts: Parts) -> Explained<Dimension> {
        let (m, total) = (self.users, parts.total());
        let utilization = match self.basis {
            Basis::Steady { think } => {
                (m as f64 * parts.wire.0 * self.carried_again() / (think + total).0).min(1.0)
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
            "{rate} for {} of {}: mean turnaround {total}; {} binds",
            counted(m, "user"),
            self.page,
            binds.words()
        );
        let mut e = Explained::new(answer, line);
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
            // There it is in the demand.
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
            total.0,
            "s",
            source,
        );
        let wire = parts.wire.0;
        match self.basis {
            Basis::Steady { think } => {
                let latency = parts.round_trips + parts.window + parts.loss;
                let demand = parts.wire * self.carried_again();
                if let Ok(network) = thinking(demand, latency, think) {
                    let bounds = network.brackets(m).to_bounds().into_iter();
                    // One's own bytes that are sent again are among the losses, not on the link.
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
                high: Some(total.0),
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
                high: Some(total.0),
                unit: "s",
                source: "one transaction alone; the document's upper bound",
            }),
        }
        if self.loss == 0.0 {
            e.assumptions.push("no loss; the link is the only bottleneck");
            e.region.push(Region {
                quantity: Quantity::Loss,
                low: 0.0,
                high: 0.001,
                outside: "losses add latency that bandwidth does not remove: say --loss",
            });
        } else {
            e.assumptions.extend([
                "the link is the only bottleneck, and the path loses as much whatever its load",
                "Reno; losses are independent between rounds, and within a round everything after the first is lost",
                "a user recovers as if alone: sharing makes neither round trips longer nor windows smaller",
            ]);
            e.region.extend(loss::region(self.loss));
            e.warnings.extend(loss::caveat(self.loss));
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
}

/// A link that users share, a latency they do not, and their thoughts.
fn thinking(demand: Seconds, latency: Seconds, think: Seconds) -> Result<Network, DomainError> {
    let stations = vec![Station::queue("link", demand), Station::delay("latency", latency)];
    Network::new(stations, think)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(basis: Basis) -> Question {
        Question {
            users: 200,
            page: Bytes(125_000),
            turnaround: Seconds(2.0),
            rtt: Seconds(0.09),
            sender: Sender::modern(Bytes(1460)),
            setup: Setup::Tcp,
            basis,
            loss: 0.0,
        }
    }

    const BASES: [Basis; 4] = [
        Basis::Burst,
        Basis::Windows,
        Basis::Steady { think: Seconds(10.0) },
        Basis::Steady { think: Seconds::ZERO },
    ];

    #[test]
    fn the_least_rate_meets_the_objective_and_one_bit_less_does_not() {
        for (basis, loss) in BASES.into_iter().flat_map(|basis| [(basis, 0.0), (basis, 0.01)]) {
            let q = Question {
                loss,
                turnaround: Seconds(3.0),
                ..question(basis)
            };
            let e = q.answer().unwrap();
            assert!(e.answer.turnaround <= q.turnaround);
            assert!(!q.meets(e.answer.rate.0 - 1).unwrap(), "{basis:?}");
            for bound in &e.bounds {
                assert!(bound.contains(e.answer.turnaround.0), "{basis:?} {bound}");
            }
        }
    }

    #[test]
    fn windows_in_turn_with_one_user_are_the_transfer_alone() {
        for sender in [
            Sender::modern(Bytes(1460)),
            Sender::bsd(Bytes(1460)),
            Sender::bsd(Bytes(512)).with_initial_window(3.0),
        ] {
            for rate in [Rate(28_800), Rate::mbit(1), Rate::mbit(100)] {
                for page in [100, 3000, 12_000, 125_000, 5_000_000] {
                    let q = Question {
                        users: 1,
                        page: Bytes(page),
                        sender,
                        ..question(Basis::Windows)
                    };
                    let parts = q.turnaround_at(rate).unwrap();
                    let total = parts.total().0;
                    assert!(
                        parts.sharing.0.abs() < 1e-9 * total,
                        "{sender:?} {rate} {page}: {parts:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn windows_of_one_packet_without_round_trips_are_equation_4() {
        let sender = Sender {
            header: Bytes(0),
            ..Sender::document(Bytes(1000)).with_window_max(Bytes(1000))
        };
        let q = Question {
            page: Bytes(12_000),
            rtt: Seconds(1e-9),
            sender,
            ..question(Basis::Windows)
        };
        let parts = q.turnaround_at(Rate::mbit(1)).unwrap();
        let want = Line::new(200, 12, Seconds(0.008)).unwrap().turnaround().0;
        assert!((parts.total().0 / want - 1.0).abs() < 1e-6, "{parts:?} {want}");
    }

    #[test]
    fn windows_in_turn_lie_between_one_after_the_other_and_packets_in_turn() {
        for users in [2, 10, 200] {
            for page in [3000, 40_000, 1_000_000] {
                for rate in [Rate::mbit(1), Rate::mbit(50), Rate::mbit(5000)] {
                    let at = |basis| {
                        let q = Question {
                            users,
                            page: Bytes(page),
                            ..question(basis)
                        };
                        q.turnaround_at(rate).unwrap().total().0
                    };
                    let (windows, packets) = (at(Basis::Windows), at(Basis::Burst));
                    assert!(windows <= packets * (1.0 + 1e-12), "{users} {page} {rate}");
                    assert!(at(Basis::Windows) > 0.18, "{users} {page} {rate}");
                }
            }
        }
    }

    #[test]
    fn thinking_users_need_less_than_a_burst() {
        let rate = |basis| question(basis).answer().unwrap().answer.rate;
        assert!(rate(Basis::Steady { think: Seconds(10.0) }) < rate(Basis::Burst));
        assert!(rate(Basis::Steady { think: Seconds(60.0) }) < rate(Basis::Steady { think: Seconds(10.0) }));
    }

    #[test]
    fn the_documents_upper_bound_cannot_drop_below_the_round_trips_of_all() {
        let q = question(Basis::Document(Mode::Exact));
        let error = q.answer().unwrap_err();
        assert!(
            matches!(error, DomainError::Unattainable { floor_s, .. } if floor_s > 2.0),
            "{error}"
        );
        let patient = Question {
            turnaround: Seconds(150.0),
            ..q
        };
        let e = patient.answer().unwrap();
        assert!(e.answer.turnaround.0 <= 150.0);
    }

    #[test]
    fn table_5_dimensioned_backwards() {
        // 25 users of 6,000 B on a T1 turn around in 10.37 s with t rounded; unrounded slightly less.
        let q = Question {
            users: 25,
            page: Bytes(6000),
            turnaround: Seconds(10.368),
            rtt: Seconds(0.1),
            sender: Sender::document(Bytes(512)),
            setup: Setup::Tcp,
            basis: Basis::Document(Mode::Paper),
            loss: 0.0,
        };
        let rate = q.answer().unwrap().answer.rate.0;
        assert!((1_500_000..=1_544_000).contains(&rate), "{rate}");
    }

    #[test]
    fn what_binds_is_named() {
        let answer = |q: Question| q.answer().unwrap().answer.binds;
        assert_eq!(answer(question(Basis::Burst)), Binds::Sharing);
        let alone = Question {
            users: 1,
            turnaround: Seconds(0.4),
            ..question(Basis::Burst)
        };
        assert_eq!(
            answer(Question {
                page: Bytes(10_000),
                turnaround: Seconds(0.185),
                ..alone
            }),
            Binds::RoundTrips
        );
        assert_eq!(
            answer(Question {
                turnaround: Seconds(10.0),
                ..alone
            }),
            Binds::Wire
        );
        let small = alone.sender.with_window_max(Bytes(4 * 1460));
        assert_eq!(
            answer(Question {
                sender: small,
                turnaround: Seconds(2.3),
                ..alone
            }),
            Binds::Window
        );
        // One user shares with nobody, to the last bit.
        let one = question(Basis::Windows);
        let one = Question { users: 1, ..one };
        assert_eq!(one.turnaround_at(Rate::mbit(10)).unwrap().sharing, Seconds::ZERO);
        assert!(one.answer().unwrap().line.contains("for 1 user of"));
        // Beyond any rate for its bytes, not for its round trips: the reason says so.
        let vast = Question {
            users: 1_000_000_000,
            page: Bytes(1_000_000_000),
            turnaround: Seconds(1.0),
            ..question(Basis::Windows)
        };
        let error = vast.answer().unwrap_err().to_string();
        assert!(
            error.contains("of bytes") && error.contains("highest rate"),
            "{error}"
        );
        let hopeless = Question {
            turnaround: Seconds(0.1),
            ..alone
        };
        assert!(matches!(hopeless.answer(), Err(DomainError::Unattainable { .. })));
    }

    #[test]
    fn one_user_with_loss_is_the_transfer_with_loss() {
        for basis in BASES {
            for (rate, rtt) in [
                (Rate(28_800), 0.15),
                (Rate::mbit(2), 0.09),
                (Rate::mbit(1000), 0.001),
            ] {
                for (page, loss) in [
                    (1_000, 0.02),
                    (125_000, 0.001),
                    (125_000, 0.05),
                    (5_000_000, 0.01),
                ] {
                    let q = Question {
                        users: 1,
                        page: Bytes(page),
                        rtt: Seconds(rtt),
                        setup: Setup::Tls13,
                        loss,
                        ..question(basis)
                    };
                    let path = Path::new(rate, q.rtt).unwrap();
                    let of = |p| {
                        loss::latency(&path, &q.sender, q.setup, q.page, p)
                            .unwrap()
                            .answer
                            .total
                            .0
                    };
                    let parts = q.turnaround_at(rate).unwrap();
                    // In turn, the first packet of a page is waited for by nobody: Eq. 2 of one user is nothing.
                    let total = parts.total().0;
                    assert!(
                        (total / of(loss) - 1.0).abs() < 1e-9,
                        "{basis:?} {rate} {page}: {parts:?}"
                    );
                    assert!(
                        (parts.loss.0 - (of(loss) - of(0.0))).abs() < 1e-9 * total,
                        "{parts:?}"
                    );
                }
            }
        }
    }

    /// The search halves, which is right only where the turnaround falls with the rate: held against every rate of a
    /// fine ladder.
    #[test]
    fn with_loss_the_least_rate_is_what_brute_force_finds() {
        let ladder: Vec<u64> = (0..=210)
            .map(|step| 10f64.powf(3.0 + f64::from(step) / 21.0) as u64)
            .collect();
        let senders = [
            Sender::bsd(Bytes(1460)),
            Sender::modern(Bytes(1460)).with_window_max(Bytes(16 * 1460)),
        ];
        for (place, basis) in BASES.into_iter().enumerate() {
            for (users, page, loss) in [
                (1, 20_000, 0.02),
                (10, 125_000, 0.001),
                (200, 125_000, 0.05),
                (40, 3_000, 0.2),
            ] {
                for sender in senders {
                    let q = Question {
                        users,
                        page: Bytes(page),
                        sender,
                        loss,
                        ..question(basis)
                    };
                    let times: Vec<f64> = ladder
                        .iter()
                        .map(|&rate| q.turnaround_at(Rate(rate)).unwrap().total().0)
                        .collect();
                    for (step, pair) in times.windows(2).enumerate() {
                        assert!(
                            pair[1] <= pair[0] * (1.0 + 1e-9),
                            "{place} {q:?} at {}: {pair:?}",
                            ladder[step]
                        );
                    }
                    let clean = Question { loss: 0.0, ..q };
                    let last = times[times.len() - 1];
                    for factor in [1.01, 1.5, 4.0] {
                        let q = Question {
                            turnaround: Seconds(last * factor),
                            ..q
                        };
                        let Some(met) = times.iter().position(|&time| time <= q.turnaround.0) else {
                            panic!("the last rate meets it: {q:?}")
                        };
                        let found = q.answer().unwrap().answer.rate.0;
                        assert!(found <= ladder[met], "{q:?}: {found} and {}", ladder[met]);
                        assert!(
                            met == 0 || found > ladder[met - 1],
                            "{q:?}: {found} and {}",
                            ladder[met - 1]
                        );
                        assert!(!q.meets(found - 1).unwrap_or(false), "{q:?}: {found}");
                        let without = Question {
                            turnaround: q.turnaround,
                            ..clean
                        };
                        assert!(without.answer().unwrap().answer.rate.0 <= found, "{q:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn loss_can_bind_and_says_where_it_holds() {
        let q = Question {
            users: 1,
            page: Bytes(1_000_000),
            loss: 0.03,
            ..question(Basis::Windows)
        };
        let floor = q.turnaround_at(Rate::mbit(10_000)).unwrap().total();
        let q = Question {
            turnaround: floor * 1.1,
            ..q
        };
        let e = q.answer().unwrap();
        assert_eq!(e.answer.binds, Binds::Loss, "{e}");
        let loss = e
            .region
            .iter()
            .find(|region| region.quantity == Quantity::Loss)
            .unwrap();
        assert!(loss.low < 0.03 && 0.03 < loss.high, "{e}");
        assert!(e.warnings.is_empty(), "{e}");
        let hopeless = Question {
            turnaround: Seconds(1.0),
            ..q
        };
        let error = hopeless.answer().unwrap_err().to_string();
        assert!(error.contains("of losses"), "{error}");
        let wild = Question {
            loss: 0.2,
            turnaround: Seconds(1e6),
            ..q
        };
        assert!(wild.answer().unwrap().warnings.iter().any(|w| w.contains("PFTK")));
        for (loss, basis) in [
            (0.5, Basis::Windows),
            (-0.1, Basis::Burst),
            (0.01, Basis::Document(Mode::Exact)),
        ] {
            let error = Question { loss, basis, ..q }.answer().unwrap_err().to_string();
            assert!(error.starts_with("loss is"), "{error}");
        }
    }
}
