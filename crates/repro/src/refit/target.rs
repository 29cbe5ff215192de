//! The published figures to which parameters are fitted, and the prepared visits that simulate them.

use super::Quantity;
use crate::page::Page;
use crate::tables::{MANNERS, Published, published};
use crate::visit::Ready;
use std::rc::Rc;

/// A published figure before its simulation.
pub(super) struct Target {
    pub(super) name: String,
    pub(super) quantity: Quantity,
    pub(super) published: f64,
}

impl Target {
    pub(super) fn of(row: &Published, quantity: Quantity) -> Target {
        let case = &row.case;
        let manner = MANNERS.iter().find(|(_, manner)| *manner == case.manner);
        Target {
            name: format!(
                "Table {}: {} over {}, {}, {}",
                row.table,
                case.server.name(),
                case.network.name().to_uppercase(),
                manner.map_or("", |(name, _)| name),
                if case.is_first {
                    "first visit"
                } else {
                    "revalidation"
                }
            ),
            quantity,
            published: quantity.published(row),
        }
    }
}

/// A published row and its prepared visit.
pub(super) struct Prepared {
    pub(super) row: Published,
    pub(super) ready: Ready,
}

pub(super) fn prepared(page: &Rc<Page>, wanted: impl Fn(&Published) -> bool) -> Vec<Prepared> {
    published()
        .into_iter()
        .filter(wanted)
        .map(|row| Prepared {
            row,
            ready: Ready::new(row.case, page),
        })
        .collect()
}
