//! Range requests: selects the parts of a representation to send and writes their framing (RFC 9110 section
//! 14).
//!
//! A malformed `Range` field is ignored, as section 14.2 allows: the whole representation is always a valid
//! response. Overlapping ranges are joined and their number is limited, so that a small request cannot ask
//! for more bytes than the representation has (CVE-2011-3192).

use crate::field::{decimal, trim};

/// A non-empty byte range of a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte, inclusive.
    pub last: u64,
}

impl ByteRange {
    /// Length in bytes; never zero.
    #[expect(clippy::len_without_is_empty, reason = "a range is never empty")]
    pub fn len(self) -> u64 {
        self.last - self.first + 1
    }
}

/// Parts of the representation a `Range` field selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Ignore the field: 200 with the whole representation.
    Whole,
    /// 206 with one range.
    One(ByteRange),
    /// 206 with `multipart/byteranges`: at least two ranges that neither overlap nor touch, in the requested
    /// order unless some were joined.
    Many(Vec<ByteRange>),
    /// 416: the field is well-formed, but selects nothing.
    Unsatisfiable,
}

/// Applies a `Range` value to a representation of `len` bytes.
pub fn select(value: &[u8], len: u64, ranges_max: u16) -> Selection {
    let Some(set) = byte_range_set(value) else {
        return Selection::Whole;
    };
    let mut ranges = Vec::new();
    let mut asked = 0;
    for spec in set
        .split(|&b| b == b',')
        .map(trim)
        .filter(|spec| !spec.is_empty())
    {
        asked += 1;
        if asked > usize::from(ranges_max) {
            return Selection::Whole;
        }
        match resolve(spec, len) {
            None => return Selection::Whole,
            Some(Resolved::Nothing) => {}
            // A suffix of an empty representation is all of it, and Content-Range cannot express an empty
            // range.
            Some(Resolved::Everything) => return Selection::Whole,
            Some(Resolved::Bytes(range)) => ranges.push(range),
        }
    }
    if asked == 0 {
        return Selection::Whole;
    }
    let ranges = join(ranges);
    match ranges[..] {
        [] => Selection::Unsatisfiable,
        [range] => Selection::One(range),
        _ => Selection::Many(ranges),
    }
}

/// The text after `bytes=`; `None` for another unit.
fn byte_range_set(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked(6)?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

enum Resolved {
    Bytes(ByteRange),
    Everything,
    Nothing,
}

/// Resolves one range-spec against a length; `None` if it is malformed.
fn resolve(spec: &[u8], len: u64) -> Option<Resolved> {
    let dash = memchr::memchr(b'-', spec)?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        let suffix = position(last)?;
        return Some(match suffix.min(len) {
            0 if suffix > 0 => Resolved::Everything,
            0 => Resolved::Nothing,
            suffix => Resolved::Bytes(ByteRange {
                first: len - suffix,
                last: len - 1,
            }),
        });
    }
    let first = position(first)?;
    let last = if last.is_empty() {
        u64::MAX
    } else {
        position(last)?
    };
    if last < first {
        return None;
    }
    Some(if first < len {
        Resolved::Bytes(ByteRange {
            first,
            last: last.min(len - 1),
        })
    } else {
        Resolved::Nothing
    })
}

/// Parses a decimal number; values too large for `u64` saturate.
fn position(digits: &[u8]) -> Option<u64> {
    let well_formed = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    well_formed.then(|| decimal(digits).unwrap_or(u64::MAX))
}

/// Joins ranges that overlap or touch; if any do, the result is in ascending order.
fn join(ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    let mut sorted = ranges.clone();
    sorted.sort_unstable();
    let mut joined: Vec<ByteRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match joined.last_mut() {
            // No overflow: `last` is below the length.
            Some(previous) if range.first <= previous.last + 1 => {
                previous.last = previous.last.max(range.last);
            }
            _ => joined.push(range),
        }
    }
    if joined.len() == ranges.len() {
        ranges
    } else {
        joined
    }
}

/// Appends the value of `Content-Range` for a part of a representation of `len` bytes.
pub fn content_range(range: ByteRange, len: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes ");
    number(range.first, out);
    out.push(b'-');
    number(range.last, out);
    out.push(b'/');
    number(len, out);
}

/// Appends the value of `Content-Range` for a 416 response.
pub fn unsatisfied_content_range(len: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes */");
    number(len, out);
}

fn number(n: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

/// Writes the framing of a `multipart/byteranges` body (section 14.6); the caller supplies the bytes of the
/// parts.
#[derive(Clone, Copy, Debug)]
pub struct Multipart<'a> {
    /// A random number that keeps the boundary from occurring in the content.
    pub boundary: u64,
    /// `Content-Type` of the representation; empty to omit it.
    pub media_type: &'a [u8],
    /// Length of the representation in bytes.
    pub len: u64,
}

impl Multipart<'_> {
    /// Appends the `Content-Type` value of the response itself.
    pub fn content_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        self.boundary(out);
    }

    /// Appends the boundary and header section of a part.
    pub fn part(&self, range: ByteRange, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        self.boundary(out);
        if !self.media_type.is_empty() {
            out.extend_from_slice(b"\r\nContent-Type: ");
            out.extend_from_slice(self.media_type);
        }
        out.extend_from_slice(b"\r\nContent-Range: ");
        content_range(range, self.len, out);
        out.extend_from_slice(b"\r\n\r\n");
    }

    /// Appends the closing boundary.
    pub fn end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n--");
        self.boundary(out);
        out.extend_from_slice(b"--\r\n");
    }

    /// Length in bytes of the whole body: all parts, their framing and the closing boundary.
    pub fn content_length(&self, ranges: &[ByteRange]) -> u64 {
        let mut framing = Vec::new();
        for &range in ranges {
            self.part(range, &mut framing);
        }
        self.end(&mut framing);
        framing.len() as u64 + ranges.iter().map(|range| range.len()).sum::<u64>()
    }

    fn boundary(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"weir-");
        out.extend((0..16).rev().map(|place| {
            let digit = (self.boundary >> (4 * place)) & 0xf;
            b"0123456789abcdef"[digit as usize]
        }));
    }
}

/// Takes two bytes for the length and the rest as the field value, then checks the selection.
///
/// # Panics
/// If a selected range is not part of the representation, two ranges touch, more bytes are selected than
/// exist, or a multipart body differs from its announced length.
#[cfg(any(test, fuzzing))]
pub fn fuzz(data: &[u8]) {
    let [a, b, value @ ..] = data else {
        return;
    };
    let len = u64::from(u16::from_be_bytes([*a, *b]));
    let ranges_max = 32;
    let check = |ranges: &[ByteRange]| {
        let mut sorted = ranges.to_vec();
        sorted.sort_unstable();
        assert!(
            ranges
                .iter()
                .all(|range| range.first <= range.last && range.last < len)
        );
        assert!(
            sorted.windows(2).all(|pair| pair[0].last + 1 < pair[1].first),
            "{ranges:?}"
        );
        assert!(ranges.len() <= usize::from(ranges_max));
    };
    match select(value, len, ranges_max) {
        Selection::Whole | Selection::Unsatisfiable => {}
        Selection::One(range) => check(&[range]),
        Selection::Many(ranges) => {
            assert!(ranges.len() > 1);
            check(&ranges);
            let multipart = Multipart {
                boundary: len.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                media_type: b"text/plain",
                len,
            };
            let mut body = Vec::new();
            for &range in &ranges {
                multipart.part(range, &mut body);
                body.extend((0..range.len()).map(|_| b'x'));
            }
            multipart.end(&mut body);
            assert_eq!(body.len() as u64, multipart.content_length(&ranges));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_multipart_body() {
        let multipart = Multipart {
            boundary: 0xabc,
            media_type: b"text/html",
            len: 1_000,
        };
        let mut shown = Vec::new();
        multipart.content_type(&mut shown);
        shown.extend_from_slice(b"\r\n");
        multipart.part(ByteRange { first: 0, last: 1 }, &mut shown);
        shown.extend_from_slice(b"ab");
        multipart.part(
            ByteRange {
                first: 990,
                last: 990,
            },
            &mut shown,
        );
        shown.extend_from_slice(b"c");
        multipart.end(&mut shown);
        unsatisfied_content_range(1_000, &mut shown);
        insta::assert_snapshot!(String::from_utf8_lossy(&shown).replace('\r', "\\r"));
    }

    /// Reference implementation: a set of offsets.
    fn by_offsets(specs: &[(u16, u16)], len: u16) -> Vec<bool> {
        let mut selected = vec![false; usize::from(len)];
        for &(first, extra) in specs {
            for offset in usize::from(first)..=usize::from(first) + usize::from(extra) {
                if let Some(bit) = selected.get_mut(offset) {
                    *bit = true;
                }
            }
        }
        selected
    }

    proptest! {
        #![proptest_config(crate::seeded::cases(1_000))]
        #[test]
        fn selects_what_was_asked_for(
            specs in proptest::collection::vec((0..120_u16, 0..20_u16), 1..8),
            len in 0..100_u16,
        ) {
            let value = specs
                .iter()
                .map(|(first, extra)| format!("{first}-{}", first + extra))
                .collect::<Vec<_>>()
                .join(", ");
            let value = format!("bytes={value}");
            let ranges = match select(value.as_bytes(), len.into(), 32) {
                Selection::Whole => panic!("{value} is well-formed"),
                Selection::Unsatisfiable => Vec::new(),
                Selection::One(range) => vec![range],
                Selection::Many(ranges) => ranges,
            };
            let mut selected = vec![false; usize::from(len)];
            for range in &ranges {
                selected[range.first as usize..=range.last as usize].fill(true);
            }
            prop_assert_eq!(selected, by_offsets(&specs, len));
        }

        #[test]
        fn any_value_selects_soundly(
            len in any::<u16>(),
            value in "(bytes=)?([0-9]{0,6}-[0-9]{0,6}[, ]{0,2}){0,6}|.{0,40}",
        ) {
            fuzz(&[&len.to_be_bytes()[..], value.as_bytes()].concat());
        }
    }
}
