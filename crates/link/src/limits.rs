//! All limits of the crate, with defaults for a small machine.
//!
//! Limits protect memory; the queue sizes of a link belong to its profile.

/// Capacity of the queues of one direction. Packets refused by these limits count as [`crate::Cause::Limit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Packets in propagation. The default covers 1 Gbit/s of full packets over 400 ms.
    pub in_flight_max: usize,
    /// Packets in a queue without a limit in its profile.
    pub queue_packets_max: usize,
    /// TCP flows whose ACKs can be held. Beyond it, a flow without a held ACK is removed; if there is none, the
    /// new flow's ACKs pass at once.
    pub flows_max: usize,
    /// Delivery opportunities in a trace file. The default covers a day at one per millisecond.
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
