//! Ids of traces and spans, and which traces are sampled by their id.

use core::fmt;

/// Id of a trace: the requests and calls that one request led to. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// Id of a span within its trace. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

impl TraceId {
    /// An id of random bits. Zero, which is no id, becomes one.
    pub fn of(high: u64, low: u64) -> TraceId {
        let bits = (u128::from(high) << 64 | u128::from(low)).max(1);
        TraceId(bits.to_be_bytes())
    }

    pub(crate) fn read(hex: &[u8]) -> Option<TraceId> {
        read(hex).map(TraceId).filter(|id| id.0 != [0; 16])
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Whether a sampler that keeps this share of all traces keeps this one. Every server decides alike, because the decision
    /// depends on the last 56 bits only (W3C Trace Context, level 2, "random trace ID flag").
    pub fn is_within(&self, share: f64) -> bool {
        const BITS: i32 = 56;
        let [.., a, b, c, d, e, f, g] = self.0;
        let random = u64::from_be_bytes([0, a, b, c, d, e, f, g]);
        // At most 2^56, and without a fraction: a float holds fewer digits than an id has.
        random < (share * 2_f64.powi(BITS)) as u64
    }
}

impl SpanId {
    /// An id of random bits. Zero, which is no id, becomes one.
    pub fn of(bits: u64) -> SpanId {
        SpanId(bits.max(1).to_be_bytes())
    }

    pub(crate) fn read(hex: &[u8]) -> Option<SpanId> {
        read(hex).map(SpanId).filter(|id| id.0 != [0; 8])
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// Reads lowercase hexadecimal digits.
pub(crate) fn read<const N: usize>(hex: &[u8]) -> Option<[u8; N]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if hex.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shown_as_they_are_read() {
        let id = TraceId::of(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        assert_eq!(id.to_string(), "0123456789abcdeffedcba9876543210");
        assert_eq!(TraceId::read(id.to_string().as_bytes()), Some(id));
        let id = SpanId::of(0xab);
        assert_eq!(id.to_string(), "00000000000000ab");
        assert_eq!(SpanId::read(id.to_string().as_bytes()), Some(id));
        assert_eq!(TraceId::of(0, 0).to_string(), format!("{:032}", 1));
        assert_eq!(SpanId::of(0).to_string(), format!("{:016}", 1));
        for text in [
            "",
            "00000000000000AB",
            "00000000000000a",
            "0000000000000000",
            "000000000000000g",
        ] {
            assert_eq!(SpanId::read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_share_of_traces_is_kept_by_the_last_bits() {
        let with = |low: u64| TraceId::of(u64::MAX, low);
        let half = 1 << 55;
        for (id, share, is_kept) in [
            (with(0), 0.0, false),
            (with(0), 0.000_001, true),
            (with(half - 1), 0.5, true),
            (with(half), 0.5, false),
            // The first byte of the low half is not looked at.
            (with(0xff << 56), 0.000_001, true),
            (with(u64::MAX), 0.999, false),
            (with(u64::MAX), 1.0, true),
        ] {
            assert_eq!(id.is_within(share), is_kept, "{id} {share}");
        }
    }
}
