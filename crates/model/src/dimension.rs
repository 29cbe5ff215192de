//! The least bandwidth that gives a number of users a wanted mean turnaround, and what the time is made of.
//!
//! Four readings of "users", from the document's upper bound to steady use; each is a function of the
//! rate, and the answer is the least whole bit per second that meets the objective (`search`), with how it came about
//! (`derivation`).
//!
//! Loss adds to every user's time what `tcp::loss` says a transfer alone on the line loses (Cardwell 2000), and others'
//! bytes take `1/(1-p)` of their time, as what is lost is sent again. The losses are the path's: what a queue too short
//! for all users drops is not in it.

mod derivation;
mod search;

use crate::Seconds;
use crate::closed::{Network, Station};
use crate::domain::{DomainError, non_negative, positive};
use crate::tcp::ramp::Path;
use crate::tcp::setup::Setup;
use crate::tcp::{Sender, loss};
use crate::transaction::{Mode, Transfer};
use crate::waiting::Line;
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

/// Users who think for whom mean value analysis is exact in reasonable time.
pub const STEADY_USERS_MAX: u64 = 1_000_000;

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
    /// In words, as the subject of "binds", or of "bind" where there are several.
    pub const fn words(self) -> &'static str {
        match self {
            Binds::Sharing => "sharing the link with the other users",
            Binds::Wire => "the page's own bytes",
            Binds::RoundTrips => "round trips of setup and request",
            Binds::Window => "waiting for the TCP window",
            Binds::Loss => "recovering from losses",
        }
    }

    /// The verb that goes with the words.
    pub(crate) const fn verb(self) -> &'static str {
        match self {
            Binds::Wire | Binds::RoundTrips => "bind",
            Binds::Sharing | Binds::Window | Binds::Loss => "binds",
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
                self.users <= STEADY_USERS_MAX,
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
            let t = one.over(self.setup)?;
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
}

/// A link that users share, a latency they do not, and their thoughts.
fn thinking(demand: Seconds, latency: Seconds, think: Seconds) -> Result<Network, DomainError> {
    let stations = vec![Station::queue("link", demand), Station::delay("latency", latency)];
    Network::new(stations, think)
}

#[cfg(test)]
mod tests;
