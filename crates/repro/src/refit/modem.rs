//! Compression by the modem: one parameter, and one figure, which leaves none to predict it from.

use super::target::Target;
use super::{Quantity, Refit, Subject};
use crate::page::Page;
use crate::server::Kind;
use crate::tables::{MANNERS, MODEM_GAIN, MODEM_SECONDS, RECOVERED};
use crate::visit::{Case, Network, Ready, Variation};
use std::rc::Rc;

/// The modem's compression, fitted to the time of the page alone.
pub(super) fn modem(page: &Rc<Page>, runs: u64) -> Refit {
    let case = Case {
        network: Network::Ppp,
        server: Kind::Apache,
        manner: MANNERS[2].1,
        is_first: true,
        variation: Variation {
            page_alone: true,
            ..Variation::NONE
        },
    };
    let ready = Ready::new(case, page);
    let tried = [1.0, 1.1, 1.15, MODEM_GAIN, 1.25, 1.3, 1.4].map(|gain| {
        let mean = ready.mean_over(runs, |hosts| {
            hosts.client.line_gain = gain;
            hosts.server.line_gain = gain;
        });
        (vec![gain], vec![mean.seconds])
    });
    Refit::by_search(
        Subject {
            document: "003",
            what: "compression by the modem",
            method: "search",
            provenance: RECOVERED,
        },
        vec![("compression factor".to_owned(), MODEM_GAIN)],
        vec![Target {
            name: "modem table: Apache, the plain page alone".to_owned(),
            quantity: Quantity::Seconds,
            published: MODEM_SECONDS,
        }],
        tried.into(),
    )
}
