//! What is known of one upstream: its load, its health and its estimates. Decides nothing.

use crate::estimate::{Demand, Network, Rate, SharingClock};
use crate::ewma::Peak;
use crate::health::Health;

/// An upstream.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    /// Identity for hashing; stays when the order of the upstreams changes.
    pub(crate) id: u64,
    /// Its share of the load, at least 1.
    pub(crate) weight: u32,
    /// Requests that were sent there and have not ended.
    pub(crate) under_way: u32,
    pub(crate) health: Health,
    pub(crate) response: Peak,
    pub(crate) clock: SharingClock,
    pub(crate) demand: Demand,
    pub(crate) network: Network,
    pub(crate) rate: Rate,
}

impl Upstream {
    pub(crate) fn new(id: u64, weight: u32) -> Upstream {
        Upstream {
            id,
            weight,
            under_way: 0,
            health: Health::NEW,
            response: Peak::default(),
            clock: SharingClock::default(),
            demand: Demand::default(),
            network: Network::default(),
            rate: Rate::default(),
        }
    }
}
