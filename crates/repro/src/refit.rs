//! The leave-one-out check of the fitted parameters of documents 001 and 003: each published figure, predicted with
//! parameters that were fitted to the others.
//!
//! Decides which parameters are refitted together, and says why some are not. Each group has a file, which decides to which
//! figures it is fitted, which values are tried, and what stays at its value meanwhile. [`crate::leave_one_out`] fits;
//! [`crate::visit`] and [`crate::heidemann`] simulate. No refitted value replaces an adopted one: agreement with these
//! figures has been seen.

mod figures;
mod grid;
mod modem;
mod page;
mod sizes;
mod target;
#[cfg(test)]
mod tests;
mod times;

pub use figures::{Agreement, Figure, Parameter, Quantity, Refit, Subject};

use crate::page::Page;
use grid::GRIDS;
use modem::modem;
use page::{connecting, reading};
use sizes::sizes;
use std::rc::Rc;
use times::times;

units::words! {
    /// Parameters that are refitted together, or one after the other from the same figures.
    pub enum Group {
        /// Document 001: two times of the client's host.
        Page = "page",
        /// Sizes of requests and response heads.
        Sizes = "sizes",
        /// Processor times of client and servers.
        Times = "times",
        /// Retransmission timeout of the servers.
        Timeouts = "timeouts",
        /// Rate of the WAN, and send buffer of the servers.
        Wan = "wan",
        /// Rate and delay of the modem line.
        Ppp = "ppp",
        /// Compression by the modem.
        Modem = "modem",
    }
}

impl Group {
    /// The entries of [`crate::ASSUMPTIONS`] whose values are refitted.
    pub fn assumptions(self) -> &'static [&'static str] {
        match self {
            Group::Page | Group::Modem => &[],
            Group::Sizes => &["request size", "response heads"],
            Group::Times => &[
                "server processor time",
                "client processor time",
                "persistent cache of the HTTP/1.1 client",
            ],
            Group::Timeouts => &["server retransmission timeout"],
            Group::Wan => &["WAN", "server send buffer"],
            Group::Ppp => &["PPP"],
        }
    }

    /// Refits the group's parameters; a figure of document 003 is the mean of `runs` visits to `page`.
    pub fn refits(self, page: &Rc<Page>, runs: u64) -> Vec<Refit> {
        match self {
            Group::Page => vec![connecting(), reading()],
            Group::Sizes => vec![sizes(page, runs)],
            Group::Times => vec![times(page, runs)],
            Group::Timeouts | Group::Wan | Group::Ppp => GRIDS
                .iter()
                .filter(|grid| grid.group == self)
                .map(|grid| grid.refit(page, runs))
                .collect(),
            Group::Modem => vec![modem(page, runs)],
        }
    }
}

/// Fitted parameters that have no leave-one-out check, and the reason. Names of [`crate::ASSUMPTIONS`] come first.
pub const NOT_COVERED: &[(&str, &str)] = &[
    (
        "client ACKs on LAN and WAN",
        "a rule, chosen among two or three; there is no value to refit",
    ),
    (
        "end of an HTTP/1.0 connection",
        "a rule, chosen among two; there is no value to refit",
    ),
    (
        "packets in the trace",
        "a rule, chosen among two; there is no value to refit",
    ),
    (
        "other rules of the stacks that stacks.toml marks as fitted",
        "slow start on a LAN, the first window and the timers of delayed acknowledgments were chosen among two or three \
         alternatives; there is no value to refit",
    ),
    (
        "retransmission timeout over PPP",
        "the document has no HTTP/1.0 over PPP, and every value above about 1 s gives the same figures",
    ),
    (
        "times of Figures 2 and 4 of document 001",
        "each is read from the trace with which the simulation is compared, so the agreement of these times is no evidence",
    ),
    (
        "delayed-ACK timer of document 000's hosts",
        "chosen among two values after a first test, by one figure (Table 6), which is no evidence for it",
    ),
    (
        "values of counterfactual arms that were looked for, documents 000 and 002",
        "the search ended when a claim held; the arms show that such values exist, and predict nothing",
    ),
];
