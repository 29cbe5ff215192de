//! Two things document 003 found in its servers, run singly: what a close with requests in flight loses, and what Nagle's
//! algorithm costs a server that buffers. Judges nothing; the rules stand in the plan of the study.

use crate::page::Page;
use crate::server::{Ending, Kind};
use crate::visit::{Case, Figures, Network, Ready, Variation};
use client::plan::{Manner, Mode};
use measure::Seed;
use std::rc::Rc;

/// What became of the answers of a server that ends connections after five requests.
#[derive(Clone, Copy, Debug)]
pub struct Closing {
    /// How it ends them.
    pub ending: Ending,
    /// Answers written whole.
    pub written: u32,
    /// Answers that came whole.
    pub received: u32,
    /// Objects that are missing in the end, though requests were repeated.
    pub failed: u64,
}

/// A pipelining client meets a server that takes five requests a connection and closes fully, or half: what arrives.
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

/// Serial visits over the LAN to a server with its buffer, Nagle's algorithm on and off.
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
