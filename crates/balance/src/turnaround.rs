//! `turnaround`: the upstream whose requests' total turnaround time grows least with one more, which is document 004's
//! marginal cost. Its equation 4 gives the turnaround of users that share a line; giving each user to the line whose total
//! grows least is optimal (`model::distribute`).
//!
//! Here a line is an upstream, a user is a request under way, the fixed time is that of the network, and the time of a
//! packet is the service time: requests come one by one, not at once as in the document, so those that are there
//! have on average half of their service left if the sizes are exponential. That is the equation with one packet per user.

use model::Seconds;
use model::distribute::growth;

/// How much the total turnaround grows, in seconds.
pub(crate) fn cost(network: f64, service: f64, under_way: u32) -> f64 {
    growth(Seconds(network), Seconds(service), u64::from(under_way), 1).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_under_way_adds_a_service_time() {
        assert!((cost(0.002, 0.010, 0) - 0.012).abs() < 1e-12);
        assert!((cost(0.002, 0.010, 3) - 0.042).abs() < 1e-12);
    }
}
