//! Every bound of the crate, with defaults that suit a small machine.

/// How much the queues of one direction may hold. What is refused is counted as [`crate::Cause::Limit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Packets in flight inside a delay line: 1 Gbit/s of full packets over 400 ms.
    pub in_flight_max: usize,
    /// Packets in a queue for which the profile names no bound.
    pub queue_packets_max: usize,
    /// TCP flows whose ACKs are held; beyond, one that nothing is held of is forgotten, or the new one passes unheld.
    pub flows_max: usize,
    /// Delivery opportunities in a trace file: a day at one a millisecond.
    pub opportunities_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            in_flight_max: 32_768,
            queue_packets_max: 1_000,
            flows_max: 4_096,
            opportunities_max: 86_400_000,
        }
    }
}
