//! The least bandwidth that gives a number of users a wanted mean turnaround, and what the time is made of.
//!
//! Four readings of "users", from the document's upper bound to steady use; each is a function of the
//! rate, and the answer is the least whole bit per second that meets the objective.

use crate::Seconds;
use crate::closed::{Network, Station};
use crate::domain::{DomainError, non_negative, positive};
use crate::explain::{Bound, Explained, Quantity, Region, counted, significant};
use crate::tcp::Sender;
use crate::tcp::ramp::Path;
use crate::tcp::setup::Setup;
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
}

impl Binds {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Binds::Sharing => "sharing the link with the other users",
            Binds::Wire => "the page's own bytes",
            Binds::RoundTrips => "round trips of setup and request",
            Binds::Window => "waiting for the TCP window",
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
}

impl Parts {
    /// All of it.
    pub fn total(&self) -> Seconds {
        self.round_trips + self.window + self.wire + self.sharing
    }

    fn binds(&self) -> Binds {
        let parts = [
            (self.sharing, Binds::Sharing),
            (self.wire, Binds::Wire),
            (self.round_trips, Binds::RoundTrips),
            (self.window, Binds::Window),
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
            });
        }
        let sent = path.send(&self.sender, self.page, self.sender.initial_window);
        let sharing = match self.basis {
            Basis::Steady { think } => {
                let stations = vec![
                    Station::queue("link", sent.wire),
                    Station::delay("latency", trips + sent.stalled),
                ];
                let network = Network::new(stations, think)?;
                network.exact(m)?.response - trips - sent.stalled - sent.wire
            }
            Basis::Windows => {
                let alone = (sent.wire + sent.stalled).0;
                let sharing = self.in_turn(&path) - alone;
                // Both sums are of the same parts in another order: what one user's rounding leaves is nothing.
                Seconds(if sharing.abs() < 1e-12 * alone {
                    0.0
                } else {
                    sharing
                })
            }
            Basis::Burst | Basis::Document(_) => {
                let packets = sent.segments.max(1.0) as u64;
                Line::new(m, packets, sent.wire / packets as f64)?.waiting()
            }
        };
        Ok(Parts {
            round_trips: trips,
            window: sent.stalled,
            wire: sent.wire,
            sharing,
        })
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
                    if floor.round_trips + floor.window >= floor.wire + floor.sharing {
                        format!(
                            "{} of round trips and {} of window growth, which bandwidth cannot shorten",
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
            Basis::Steady { think } => (m as f64 * parts.wire.0 / (think + total).0).min(1.0),
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
        e.step(
            "sharing",
            "other users' bytes",
            formula,
            numbers,
            parts.sharing.0,
            "s",
            source,
        );
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
                let latency = parts.round_trips + parts.window;
                let stations = vec![
                    Station::queue("link", parts.wire),
                    Station::delay("latency", latency),
                ];
                if let Ok(network) = Network::new(stations, think) {
                    e.bounds.extend(
                        network
                            .brackets(m)
                            .to_bounds()
                            .into_iter()
                            .filter(|b| b.quantity == "response"),
                    );
                }
            }
            Basis::Burst => e.bounds.push(Bound {
                quantity: "mean turnaround",
                // Either everything overlaps with the link being busy, or nothing does.
                low: (parts.round_trips + parts.window)
                    .0
                    .max(parts.round_trips.0 + parts.sharing.0)
                    + wire,
                high: Some(total.0),
                unit: "s",
                source: "stalls hidden behind other users' packets, or not at all",
            }),
            Basis::Windows => e.bounds.push(Bound {
                quantity: "mean turnaround",
                low: parts.round_trips.0 + (parts.window.0 + wire).max((m as f64 + 1.0) / 2.0 * wire),
                high: Some(parts.round_trips.0 + parts.window.0 + m as f64 * wire),
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
        e.assumptions.push("no loss; the link is the only bottleneck");
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
        e.region.push(Region {
            quantity: Quantity::Loss,
            low: 0.0,
            high: 0.001,
            outside: "losses add latency that bandwidth does not remove",
        });
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
        }
    }

    #[test]
    fn the_least_rate_meets_the_objective_and_one_bit_less_does_not() {
        for basis in [
            Basis::Burst,
            Basis::Windows,
            Basis::Steady { think: Seconds(10.0) },
            Basis::Steady { think: Seconds::ZERO },
        ] {
            let q = question(basis);
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
}
