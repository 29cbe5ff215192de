//! When bytes came, as packets of the capture.

use units::Instant;

/// Time and frame number of a packet.
pub(crate) type Stamp = (Instant, u64);

/// When bytes came, and when they could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// Packet with the first byte.
    pub(crate) begun: Stamp,
    /// The latest packet that brought any of the bytes.
    pub(crate) came: Stamp,
    /// Packet at which all of them were in order.
    pub(crate) here: Stamp,
}
