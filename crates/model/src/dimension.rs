//! The least bandwidth that gives a number of users a mean turnaround time, and the parts of that time.
//!
//! Users can be read in four ways, from the document's upper bound to steady use. Each is a function of the rate. The
//! answer is the least whole bit per second that meets the objective (`search`), with its derivation (`derivation`).
//!
//! Loss adds to every user's time the loss of a lone transfer on the line (`tcp::loss`, Cardwell 2000); other users'
//! bytes take `1/(1-p)` of their time, because lost packets are retransmitted. The losses are the path's; drops by a
//! queue too short for all users are not included.

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
use serde::Serialize;
use units::{Bytes, Rate};

/// The reading of "users".
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Basis {
    /// All ask at the same time and nothing overlaps, not even round trips: Eq. 4 with `t = T/n`. The document's
    /// "theoretical upper bound"; no bandwidth brings it below `m` times the round trips.
    Document(Mode),
    /// All ask at the same time and share the link packet by packet; round trips and stalls of different users
    /// overlap.
    Burst,
    /// All ask at the same time, and a first-in first-out queue serves each a whole window in turn, because a sender
    /// hands over a window at a time. Waiting for acknowledgments hides behind the other users' windows:
    ///
    /// ```text
    /// t_T = trips + sum_(i<k) max(m w_i t, w_i t + stall_i) + (m+1)/2 w_k t        k windows of w_i segments
    /// ```
    ///
    /// With one user this is the transfer alone; with windows of one packet and no round trip it is Eq. 4.
    Windows,
    /// Each asks, thinks and asks again: closed mean value analysis.
    Steady {
        /// Mean time between a response and the next request.
        think: Seconds,
    },
}

/// Limit on thinking users: mean value analysis takes reasonable time up to it.
pub const STEADY_USERS_MAX: u64 = 1_000_000;

/// A question of dimensioning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Question {
    /// Number of users of the link.
    pub users: u64,
    /// Bytes that each user fetches.
    pub page: Bytes,
    /// Mean turnaround time to reach.
    pub turnaround: Seconds,
    /// Round-trip time.
    pub rtt: Seconds,
    /// The sender; under [`Basis::Document`] only its MSS counts.
    pub sender: Sender,
    /// Connection set-up; under [`Basis::Document`] TCP or T/TCP.
    pub setup: Setup,
    /// The reading of "users".
    pub basis: Basis,
    /// Packet loss in each direction; below 0.5, and 0 under [`Basis::Document`], which has no loss.
    pub loss: f64,
}

/// The largest part of the turnaround time, and so the first to improve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Binds {
    /// Waiting for other users' bytes: more bandwidth, fewer users per link, smaller pages.
    Sharing,
    /// The user's own bytes: more bandwidth or smaller pages.
    Wire,
    /// Connection setup and request: fewer round trips or a nearer server.
    RoundTrips,
    /// Waiting for acknowledgments: a larger initial window or window limit, or a nearer server.
    Window,
    /// Losses and retransmissions: a path with less loss, or fewer bytes.
    Loss,
}

impl Binds {
    /// In words, as the subject of "binds" or "bind".
    pub const fn words(self) -> &'static str {
        match self {
            Binds::Sharing => "sharing the link with the other users",
            Binds::Wire => "the page's own bytes",
            Binds::RoundTrips => "round trips of setup and request",
            Binds::Window => "waiting for the TCP window",
            Binds::Loss => "recovering from losses",
        }
    }

    /// The verb that agrees with the words.
    pub(crate) const fn verb(self) -> &'static str {
        match self {
            Binds::Wire | Binds::RoundTrips => "bind",
            Binds::Sharing | Binds::Window | Binds::Loss => "binds",
        }
    }
}

/// The parts of the turnaround time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Parts {
    /// Setup and request.
    pub round_trips: Seconds,
    /// Stalls of slow start and of the window limit.
    pub window: Seconds,
    /// The user's own bytes on the wire.
    pub wire: Seconds,
    /// Other users' bytes.
    pub sharing: Seconds,
    /// Timeouts, retransmitted set-up, and the slower rate after a loss.
    pub loss: Seconds,
}

impl Parts {
    /// Sum of the parts.
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
    /// Parts of the turnaround time.
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

    /// Parts of the mean turnaround at `rate`.
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
                // Both sums have the same parts in another order: for one user, the rounding error is zeroed.
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

    /// Mean number of transmissions of a byte until it arrives.
    fn carried_again(&self) -> f64 {
        1.0 / (1.0 - self.loss)
    }

    /// Mean time from the first byte sent to a user's last byte, when windows of all users are served in turn.
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
            // At the limit all further windows are alike, except the very first of the transfer.
            let rounds = if w >= cap && delay == 0.0 {
                (left / w).ceil() - 1.0
            } else {
                1.0
            };
            // The stall of `tcp::ramp`, which counts full segments: for one user both agree.
            let stall = (self.rtt.0 + full - w * full).max(0.0) + delay;
            time += rounds * (m * w * t).max(w * t + stall);
            delay = 0.0;
            left -= rounds * w;
            w = sender.opened(w);
        }
        time + (m + 1.0) / 2.0 * left * t
    }
}

/// A closed network of a shared link, an unshared latency and think times.
fn thinking(demand: Seconds, latency: Seconds, think: Seconds) -> Result<Network, DomainError> {
    let stations = vec![Station::queue("link", demand), Station::delay("latency", latency)];
    Network::new(stations, think)
}

#[cfg(test)]
mod tests;
