//! `turnaround`: the upstream whose requests' total turnaround time grows least with one more, which is document 004's
//! marginal cost. Its equation 4 gives the turnaround of users that share a line; giving each user to the line whose total
//! grows least is optimal (`model::distribute`).
//!
//! Here a line is an upstream, a user is a request that is there, the fixed time is that of the network, and the time of
//! a packet is the service time. Two differences to the document follow from requests that come one by one, not at once:
//!
//! - Those that are there have on average half of the document's service left, if sizes are exponential. That is the
//!   equation with one packet per user.
//! - Requests still to come wait for this one too, and delay others in turn: the growth of the queue counts
//!   1/(1 - utilization) times (Krishnan, "Joining the right queue: a state-dependent decision rule", IEEE Transactions
//!   on Automatic Control 35(1), 1990). Without the network, this factor is equal for all and changes nothing.
//!
//! That factor is for queues that get their requests at random, and here each request goes where the queue is short. In
//! simulations, the growth of a queue counted too little beside the network's time; [`NETWORK`] makes up for that.

use model::Seconds;
use model::distribute::growth;

/// Largest utilization that counts: an estimate near 1 or above it would leave nothing of the network.
const UTILIZATION_MAX: f64 = 0.95;

/// Part of the network's time that counts. Found by trial, not derived: of 1, 1/2, 1/3, 1/4 and 1/8, in simulations with
/// upstreams at two distances, for seven pairs of distance and load (docs/proxy.md).
const NETWORK: f64 = 1.0 / 3.0;

/// How often the growth of a queue counts, if upstreams are busy for this part of the time.
pub(crate) fn later(utilization: f64) -> f64 {
    1.0 / (1.0 - utilization.min(UTILIZATION_MAX))
}

/// An upstream as the policy sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Time in the network, in seconds.
    pub(crate) network: f64,
    /// Service time, in seconds.
    pub(crate) service: f64,
    /// Requests at the upstream.
    pub(crate) present: f64,
    /// How often the growth of the queue counts: see [`later`].
    pub(crate) later: f64,
}

/// How much the total turnaround grows, in seconds, with [`NETWORK`] of the network's time.
pub(crate) fn cost(line: &Line) -> f64 {
    let service = Seconds(line.service * line.later);
    growth(Seconds(line.network * NETWORK), service, line.present, 1).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_there_adds_a_service_time_and_a_busy_time_more() {
        let cost = |present, utilization| {
            cost(&Line {
                network: 0.006,
                service: 0.010,
                present,
                later: later(utilization),
            })
        };
        assert!((cost(0.0, 0.0) - 0.012).abs() < 1e-12);
        assert!((cost(3.0, 0.0) - 0.042).abs() < 1e-12);
        assert!((cost(3.0, 0.5) - 0.082).abs() < 1e-12);
        assert!(cost(3.0, 7.0).is_finite());
    }
}
