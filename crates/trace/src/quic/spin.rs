//! The latency spin bit (RFC 9000, section 17.4): in a direction whose ends use it, it changes once a round trip.

use crate::direction::Spread;
use core::time::Duration;
use units::Instant;

/// The bit in one direction.
#[derive(Debug, Default)]
pub(super) struct Spin {
    last: Option<bool>,
    /// Time of the last change.
    changed: Option<Instant>,
    changes: u64,
    spread: Spread,
}

impl Spin {
    /// Takes the bit of the next packet.
    pub(super) fn bit(&mut self, bit: bool, at: Instant) {
        if self.last.replace(bit).is_none_or(|last| last == bit) {
            return;
        }
        self.changes += 1;
        if let Some(before) = self.changed.replace(at) {
            self.spread.record(at.since(before));
        }
    }

    /// Times between changes over `packets`. Nothing if the bit changed less than three times, or with more than every other packet:
    /// ends that do not use it may set it at random.
    pub(super) fn round_trips(&self, packets: u64) -> Spread {
        if self.changes >= 3 && self.changes * 2 <= packets && self.spread.min > Duration::ZERO {
            self.spread
        } else {
            Spread::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trips(bits: &[u8]) -> Spread {
        let mut spin = Spin::default();
        for (n, bit) in bits.iter().enumerate() {
            spin.bit(*bit == 1, Instant::from_nanos(n as u64 * 10_000_000));
        }
        spin.round_trips(bits.len() as u64)
    }

    #[test]
    fn a_bit_that_spins_shows_round_trips() {
        let spread = round_trips(&[0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!((spread.count, spread.min), (2, Duration::from_millis(40)));
        assert_eq!(round_trips(&[0; 20]).count, 0);
        assert_eq!(round_trips(&[0, 1, 1, 0, 1, 0, 0, 1, 0, 1]).count, 0, "at random");
        assert_eq!(round_trips(&[0, 0, 0, 1, 1, 1, 0, 0, 0]).count, 0, "two changes");
    }
}
