//! Parts of content (RFC 9110 section 14, RFC 9111 section 3.3): which bytes a stored 206 has, and which of them answer a
//! request for a range.

use http_semantics::field::{Fields, Name, decimal};

/// Bytes of a representation: from `first` to `last`, both included, of `length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// First byte.
    pub first: u64,
    /// Last byte.
    pub last: u64,
    /// Length of the whole.
    pub length: u64,
}

impl Part {
    /// Number of bytes.
    pub const fn len(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Always false: a part has at least one byte.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The bytes of this part that a range asks for, as a part of the whole; `None` if some are missing, or if the field asks
    /// for several ranges.
    pub fn covers(&self, range: &[u8]) -> Option<Part> {
        let spec = range
            .get(..6)?
            .eq_ignore_ascii_case(b"bytes=")
            .then(|| &range[6..])?;
        let dash = spec.iter().position(|&b| b == b'-')?;
        let (first, last) = (
            http_semantics::field::trim(&spec[..dash]),
            http_semantics::field::trim(&spec[dash + 1..]),
        );
        let (first, last) = match (first, last) {
            (b"", suffix) => (
                self.length.checked_sub(decimal(suffix)?.min(self.length))?,
                self.length - 1,
            ),
            (first, b"") => (decimal(first)?, self.length - 1),
            (first, last) => (decimal(first)?, decimal(last)?.min(self.length - 1)),
        };
        let is_within = self.first <= first && first <= last && last <= self.last;
        is_within.then_some(Part {
            first,
            last,
            length: self.length,
        })
    }
}

/// The bytes that a 206 has: those of `Content-Range`, if it is valid and names the whole length.
pub fn range_of(fields: &Fields<'_, '_>) -> Option<Part> {
    let value = fields.single(Name::ContentRange)?;
    let rest = value
        .get(..6)?
        .eq_ignore_ascii_case(b"bytes ")
        .then(|| &value[6..])?;
    let slash = rest.iter().position(|&b| b == b'/')?;
    let dash = rest[..slash].iter().position(|&b| b == b'-')?;
    let part = Part {
        first: decimal(&rest[..dash])?,
        last: decimal(&rest[dash + 1..slash])?,
        length: decimal(&rest[slash + 1..])?,
    };
    (part.first <= part.last && part.last < part.length).then_some(part)
}
