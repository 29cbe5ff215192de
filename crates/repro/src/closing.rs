//! Two findings of document 003 about its servers, each simulated alone: the responses lost by closing with
//! requests in flight, and the cost of Nagle's algorithm for a server that buffers.
//!
//! Judges nothing; the study's plan holds the rules.

use crate::page::Page;
use crate::server::{Ending, Kind};
use crate::visit::{Case, Figures, Network, Ready, Variation};
use client::plan::{Manner, Mode};
use std::rc::Rc;
use units::Seed;

/// The fate of the responses of a server that closes connections after five requests.
#[derive(Clone, Copy, Debug)]
pub struct Closing {
    /// How the server closes.
    pub ending: Ending,
    /// Responses written completely.
    pub written: u32,
    /// Responses received completely.
    pub received: u32,
    /// Objects missing at the end, despite repeated requests.
    pub failed: u64,
}

/// Fetches the page in pipelined mode from a server that takes five requests per connection and then closes as
/// `ending` says.
pub fn closing(page: &Rc<Page>, ending: Ending) -> Closing {
    let case = Case {
        network: Network::Wan,
        server: Kind::Apache,
        manner: Manner {
            mode: Mode::Pipelined,
            coding: None,
        },
        is_first: true,
        variation: Variation {
            requests_max: Some((5, ending)),
            ..Variation::NONE
        },
    };
    let visit = Ready::new(case, page).visit(Seed(1));
    let objects = &visit.outcome.timeline.objects;
    let received = objects
        .iter()
        .flat_map(|object| &object.tries)
        .map(|one| u32::from(one.last.is_some()))
        .sum();
    Closing {
        ending,
        written: visit.answered,
        received,
        failed: visit.failed(),
    }
}

/// Serial visits over the LAN to a buffering server, with Nagle's algorithm on and off; each the mean of `runs`
/// visits.
pub fn nagle(page: &Rc<Page>, runs: u64) -> [Figures; 2] {
    [false, true].map(|no_delay| {
        let case = Case {
            network: Network::Lan,
            server: Kind::Apache,
            manner: Manner {
                mode: Mode::Serial,
                coding: None,
            },
            is_first: true,
            variation: Variation {
                no_delay,
                ..Variation::NONE
            },
        };
        Ready::new(case, page).mean(runs)
    })
}
