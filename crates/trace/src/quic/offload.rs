//! Datagrams that the sender's kernel cuts after the capture point (UDP_SEGMENT): the capture shows them as one. All are equally
//! long but the last. Only trying tells how long; a packet that opens is proof.

/// Lengths of datagrams that senders choose, in bytes (RFC 9000, section 14.1; Ethernet without the headers of IPv4 and UDP).
const LENGTHS: core::ops::RangeInclusive<usize> = 1200..=1472;
/// Limit on searches that find nothing, per direction.
const FAILURES_MAX: u32 = 4;

/// What is known of one direction.
#[derive(Debug, Default)]
pub(super) struct Offload {
    length: Option<usize>,
    failures: u32,
}

impl Offload {
    /// Lengths to try for a datagram of `len` bytes, the likeliest first.
    pub(super) fn lengths(&self, len: usize) -> Vec<usize> {
        if len <= *LENGTHS.start() || self.failures >= FAILURES_MAX {
            return Vec::new();
        }
        let known = self.length.into_iter();
        let others = LENGTHS.rev().filter(|length| Some(*length) != self.length);
        known.chain(others).filter(|length| *length < len).collect()
    }

    /// A datagram had this length.
    pub(super) fn found(&mut self, length: usize) {
        self.length = Some(length);
    }

    /// No length fits.
    pub(super) fn failed(&mut self) {
        self.failures += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_length_is_tried_first_and_searches_end() {
        let mut offload = Offload::default();
        assert_eq!(offload.lengths(1200), []);
        assert_eq!(offload.lengths(1203), [1202, 1201, 1200]);
        offload.found(1252);
        assert_eq!(offload.lengths(5000)[..2], [1252, 1472]);
        for _ in 0..FAILURES_MAX {
            offload.failed();
        }
        assert_eq!(offload.lengths(5000), []);
    }
}
