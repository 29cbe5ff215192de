//! Sequence numbers of RFC 9293, section 3.4: 32 bits that wrap, and the 64-bit offsets they stand for.
//!
//! Everything behind the packet decoder works on unwrapped offsets, so a stream longer than 4 GiB
//! and one that starts just below the wrap need no special case.

use core::ops::{Add, Sub};

/// A TCP sequence or acknowledgment number as on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SeqNum(pub u32);

impl Add<u32> for SeqNum {
    type Output = SeqNum;
    #[inline]
    fn add(self, n: u32) -> SeqNum {
        SeqNum(self.0.wrapping_add(n))
    }
}

impl Sub for SeqNum {
    type Output = i32;
    /// Signed distance modulo 2^32: negative if `self` precedes `other`.
    #[inline]
    fn sub(self, other: SeqNum) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }
}

/// The unwrapped numbering of one direction of a connection.
///
/// The SYN (or, if it was not captured, the byte before the first one seen) has offset
/// [`Space::BASE`], so the first data byte is `BASE + 1`, which prints as relative number 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    origin: SeqNum,
}

impl Space {
    /// Offset of the SYN. Far from zero, so that segments older than the first one seen have offsets too.
    pub(crate) const BASE: u64 = 1 << 32;

    /// A numbering whose SYN carries `isn`.
    pub(crate) fn new(isn: SeqNum) -> Space {
        Space { origin: isn }
    }

    /// The offset of `seq` that lies nearest to the offset `near`.
    #[inline]
    pub(crate) fn offset(self, seq: SeqNum, near: u64) -> u64 {
        let near_seq = self.origin + (near.wrapping_sub(Self::BASE) as u32);
        near.saturating_add_signed(i64::from(seq - near_seq))
    }

    /// Relative number for display: 0 for the SYN, 1 for the first data byte.
    #[inline]
    pub(crate) fn relative(offset: u64) -> i64 {
        offset.wrapping_sub(Self::BASE) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_follow_the_circle() {
        assert_eq!(SeqNum(3) - SeqNum(u32::MAX), 4);
        assert_eq!(SeqNum(u32::MAX) - SeqNum(3), -4);
        assert_eq!(SeqNum(u32::MAX) + 2, SeqNum(1));
    }

    #[test]
    fn offsets_survive_many_wraps() {
        let isn = SeqNum(0xffff_fff0);
        let space = Space::new(isn);
        let mut near = Space::BASE;
        assert_eq!(space.offset(isn, near), Space::BASE);
        let mut expected = Space::BASE;
        for step in 0..100u32 {
            let jump = 200_000_000 + step;
            expected += u64::from(jump);
            let seq = isn + (expected.wrapping_sub(Space::BASE) as u32);
            near = space.offset(seq, near);
            assert_eq!(near, expected);
        }
        assert!(expected > Space::BASE + 4 * (1 << 32));
        // A retransmission from far back still has a lower offset.
        assert_eq!(
            space.offset(isn + ((expected - 1000 - Space::BASE) as u32), near),
            expected - 1000
        );
        assert_eq!(Space::relative(Space::BASE + 1), 1);
    }
}
