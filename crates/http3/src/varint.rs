//! Variable-length integers (RFC 9000 section 16): the two high bits of the first byte say how many bytes follow.

/// The largest value: 2^62-1.
pub const MAX: u64 = (1 << 62) - 1;

/// Bytes of the longest integer.
pub const LONGEST: usize = 8;

/// Bytes of the integer whose first byte is this: 1, 2, 4 or 8.
#[inline]
pub const fn length_of(first: u8) -> usize {
    1 << (first >> 6)
}

/// The integer at the front of `input`, and the rest. `None` if bytes are missing.
#[inline]
pub fn read(input: &[u8]) -> Option<(u64, &[u8])> {
    let length = length_of(*input.first()?);
    let (bytes, rest) = input.split_at_checked(length)?;
    let value = bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
    // The length bits are above the value's: two of 8, 16, 32 or 64.
    Some((value & (MAX >> (64 - 8 * length)), rest))
}

/// Appends an integer in its shortest form.
///
/// # Panics
/// If the value exceeds [`MAX`].
#[inline]
pub fn put(value: u64, out: &mut Vec<u8>) {
    assert!(value <= MAX, "a variable-length integer has 62 bits");
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 3 << 62).to_be_bytes()),
    }
}

/// Bytes of an integer in its shortest form.
#[inline]
pub const fn len(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn examples_of_the_rfc() {
        for (bytes, value) in [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            assert_eq!(read(bytes), Some((value, &[][..])));
            assert_eq!(read(&bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn the_ends_of_each_length() {
        for (value, bytes) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 4),
            ((1 << 30) - 1, 4),
            (1 << 30, 8),
            (MAX, 8),
        ] {
            let mut out = Vec::new();
            put(value, &mut out);
            assert_eq!((out.len(), len(value)), (bytes, bytes), "{value}");
            assert_eq!(read(&out), Some((value, &[][..])));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in 0..=MAX, tail in any::<u8>()) {
            let mut out = Vec::new();
            put(value, &mut out);
            prop_assert_eq!(out.len(), length_of(out[0]));
            out.push(tail);
            prop_assert_eq!(read(&out), Some((value, &[tail][..])));
        }
    }
}
