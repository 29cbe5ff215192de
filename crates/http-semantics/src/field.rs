//! Field lines as borrowed views; one pass finds the few names Weir acts on.
//!
//! The parser (an HTTP/1 tokenizer or a header decompressor) has already checked that names are tokens and
//! values hold no control bytes. This module decides which lines matter; it does not know what their values
//! mean.

/// A field line: the name as received, and the value without surrounding white space.
pub use httparse::Header as Line;

/// Maximum number of field lines in a head of a peer.
pub const MAX_FIELDS: usize = 100;

/// Maximum number of field lines in any head: a proxy adds lines to those of a peer. Lookup by name ignores later lines.
pub const MAX_LINES: usize = 254;

/// The field names the protocol, the server or the client acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(
    missing_docs,
    reason = "each is the field of that name in RFC 9110, 9111 or 9112"
)]
pub enum Name {
    Host,
    Connection,
    ContentLength,
    TransferEncoding,
    Expect,
    Range,
    IfMatch,
    IfNoneMatch,
    IfModifiedSince,
    IfUnmodifiedSince,
    IfRange,
    AcceptEncoding,
    Upgrade,
    UserAgent,
    Referer,
    ContentType,
    ContentEncoding,
    ContentRange,
    ETag,
    LastModified,
    Location,
    CacheControl,
    Date,
    Trailer,
}

/// Number of [`Name`]s.
const NAMES: usize = Name::Trailer as usize + 1;

impl Name {
    /// The known name of a field line, ignoring case.
    #[inline]
    fn of(name: &[u8]) -> Option<Name> {
        const fn known(text: &str, name: Name) -> (Key, Name) {
            (key(text.as_bytes()), name)
        }
        let candidates: &[(Key, Name)] = match name.len() {
            4 => {
                &const {
                    [
                        known("host", Name::Host),
                        known("etag", Name::ETag),
                        known("date", Name::Date),
                    ]
                }
            }
            5 => &const { [known("range", Name::Range)] },
            6 => &const { [known("expect", Name::Expect)] },
            7 => {
                &const {
                    [
                        known("referer", Name::Referer),
                        known("upgrade", Name::Upgrade),
                        known("trailer", Name::Trailer),
                    ]
                }
            }
            8 => {
                &const {
                    [
                        known("if-match", Name::IfMatch),
                        known("if-range", Name::IfRange),
                        known("location", Name::Location),
                    ]
                }
            }
            10 => {
                &const {
                    [
                        known("connection", Name::Connection),
                        known("user-agent", Name::UserAgent),
                    ]
                }
            }
            12 => &const { [known("content-type", Name::ContentType)] },
            13 => {
                &const {
                    [
                        known("if-none-match", Name::IfNoneMatch),
                        known("last-modified", Name::LastModified),
                        known("content-range", Name::ContentRange),
                        known("cache-control", Name::CacheControl),
                    ]
                }
            }
            14 => &const { [known("content-length", Name::ContentLength)] },
            15 => &const { [known("accept-encoding", Name::AcceptEncoding)] },
            16 => &const { [known("content-encoding", Name::ContentEncoding)] },
            17 => {
                &const {
                    [
                        known("transfer-encoding", Name::TransferEncoding),
                        known("if-modified-since", Name::IfModifiedSince),
                    ]
                }
            }
            19 => &const { [known("if-unmodified-since", Name::IfUnmodifiedSince)] },
            _ => return None,
        };
        // Most names differ from every candidate in the last word, so compare that first.
        let last = last_word(name);
        candidates
            .iter()
            .find(|(known, _)| known[1] == last && *known == key(name))
            .map(|&(_, known)| known)
    }
}

/// A name of 4 to 24 bytes, case-folded, as three overlapping words.
///
/// Setting bit 5 folds letters. No two different token bytes fold to the same letter or to `-`, and the names
/// above contain no other bytes. So among tokens of one length, equal keys mean equal names.
type Key = [u64; 3];

const FOLD: u64 = 0x2020_2020_2020_2020;

#[inline]
const fn key(name: &[u8]) -> Key {
    let first = match (name.first_chunk(), name.first_chunk()) {
        (Some(first), _) => u64::from_le_bytes(*first),
        (None, Some(first)) => u32::from_le_bytes(*first) as u64,
        (None, None) => 0,
    };
    let middle = match name.split_at_checked(8) {
        Some((_, rest)) if rest.len() > 8 => match rest.first_chunk() {
            Some(middle) => u64::from_le_bytes(*middle),
            None => 0,
        },
        _ => 0,
    };
    [first | FOLD, last_word(name), middle | FOLD]
}

#[inline]
const fn last_word(name: &[u8]) -> u64 {
    FOLD | match (name.last_chunk(), name.last_chunk()) {
        (Some(last), _) => u64::from_le_bytes(*last),
        (None, Some(last)) => u32::from_le_bytes(*last) as u64,
        (None, None) => 0,
    }
}

/// Position of the first line of each [`Name`], and which names are repeated.
#[derive(Clone, Copy, Debug)]
struct Index {
    at: [u8; NAMES],
    present: u32,
    repeated: u32,
}

const ABSENT: u8 = u8::MAX;

impl Index {
    const EMPTY: Index = Index {
        at: [ABSENT; NAMES],
        present: 0,
        repeated: 0,
    };

    #[inline]
    fn of(lines: &[Line<'_>]) -> Index {
        let mut index = Index::EMPTY;
        for (position, line) in lines.iter().take(MAX_LINES).enumerate() {
            if let Some(name) = Name::of(line.name.as_bytes()) {
                let bit = 1 << name as u8;
                if index.present & bit == 0 {
                    index.present |= bit;
                    // MAX_LINES is below ABSENT, so the position fits.
                    index.at[name as usize] = position as u8;
                } else {
                    index.repeated |= bit;
                }
            }
        }
        index
    }
}

/// The field lines of one head, in the order received.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'b, 's> {
    lines: &'s [Line<'b>],
    index: Index,
}

impl<'b, 's> Fields<'b, 's> {
    /// A head without field lines.
    pub const EMPTY: Fields<'static, 'static> = Fields {
        lines: &[],
        index: Index::EMPTY,
    };

    /// A view of these lines; the first [`MAX_LINES`] can be found by name.
    #[inline]
    pub fn new(lines: &'s [Line<'b>]) -> Fields<'b, 's> {
        Fields {
            lines,
            index: Index::of(lines),
        }
    }

    /// Number of lines.
    #[inline]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether the head has no field lines.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Iterates over all lines as (name as received, value without surrounding white space).
    pub fn iter(&self) -> impl Iterator<Item = (&'b str, &'b [u8])> + use<'b, 's> {
        self.lines.iter().map(|line| (line.name, line.value))
    }

    /// Whether the field is present.
    #[inline]
    pub fn has(&self, name: Name) -> bool {
        self.index.present & (1 << name as u8) != 0
    }

    /// Whether any of the fields is present.
    #[inline]
    pub fn has_any(&self, names: &[Name]) -> bool {
        let mask = names.iter().fold(0_u32, |mask, &name| mask | 1 << name as u8);
        self.index.present & mask != 0
    }

    /// Whether the field has more than one line.
    #[inline]
    pub fn is_repeated(&self, name: Name) -> bool {
        self.index.repeated & (1 << name as u8) != 0
    }

    /// Value of the field's first line.
    #[inline]
    pub fn get(&self, name: Name) -> Option<&'b [u8]> {
        self.lines
            .get(usize::from(self.index.at[name as usize]))
            .map(|line| line.value)
    }

    /// Value of a singleton field: `None` if it is absent or repeated.
    #[inline]
    pub fn single(&self, name: Name) -> Option<&'b [u8]> {
        if self.is_repeated(name) {
            None
        } else {
            self.get(name)
        }
    }

    /// Values of all lines of the field, in order.
    #[inline]
    pub fn values(&self, name: Name) -> Values<'b, 's> {
        let start = usize::from(self.index.at[name as usize]).min(self.lines.len());
        let rest = &self.lines[start..];
        Values {
            name,
            lines: if self.is_repeated(name) {
                rest
            } else {
                &rest[..rest.len().min(1)]
            },
        }
    }

    /// Value of the first line with this name, known or unknown, ignoring case.
    pub fn find(&self, name: &str) -> Option<&'b [u8]> {
        self.lines
            .iter()
            .find(|line| line.name.eq_ignore_ascii_case(name))
            .map(|line| line.value)
    }
}

/// Values of all lines of one field; see [`Fields::values`].
#[derive(Clone, Debug)]
pub struct Values<'b, 's> {
    name: Name,
    lines: &'s [Line<'b>],
}

impl<'b, 's> Values<'b, 's> {
    /// Values of an absent field.
    pub const NONE: Values<'static, 'static> = Values {
        name: Name::Host,
        lines: &[],
    };

    /// The members of a comma-separated list without quoted strings, over all lines, without
    /// surrounding white space and without empty members (RFC 9110 section 5.6.1).
    pub fn members(self) -> impl Iterator<Item = &'b [u8]> + use<'b, 's> {
        self.flat_map(members)
    }
}

impl<'b> Iterator for Values<'b, '_> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        while let Some((line, rest)) = self.lines.split_first() {
            self.lines = rest;
            if Name::of(line.name.as_bytes()) == Some(self.name) {
                return Some(line.value);
            }
        }
        None
    }
}

/// The members of one comma-separated value without quoted strings; empty members are left out
/// (RFC 9110 section 5.6.1.2).
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&b| b == b',')
        .map(trim)
        .filter(|member| !member.is_empty())
}

/// The value without leading and trailing optional white space (SP, HTAB).
pub fn trim(value: &[u8]) -> &[u8] {
    let is_space = |b: &u8| *b == b' ' || *b == b'\t';
    let start = value.iter().position(|b| !is_space(b)).unwrap_or(value.len());
    let end = value
        .iter()
        .rposition(|b| !is_space(b))
        .map_or(start, |last| last + 1);
    &value[start..end]
}

/// Whether a byte is valid in a token (RFC 9110 section 5.6.2).
pub const fn is_token_byte(b: u8) -> bool {
    matches!(
        b,
        b'!' | b'#'
            | b'$'
            | b'%'
            | b'&'
            | b'\''
            | b'*'
            | b'+'
            | b'-'
            | b'.'
            | b'^'
            | b'_'
            | b'`'
            | b'|'
            | b'~'
    ) || b.is_ascii_alphanumeric()
}

/// Parses a decimal number such as `Content-Length` (RFC 9110 section 8.6): digits only, below 2^63 so that
/// sums with offsets never overflow. `None` for any other text.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits
        .iter()
        .try_fold(0_u64, |n, &b| {
            let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
            n.checked_mul(10)?.checked_add(digit)
        })
        .filter(|&n| n < 1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [(&str, Name); NAMES] = [
        ("Host", Name::Host),
        ("Connection", Name::Connection),
        ("Content-Length", Name::ContentLength),
        ("Transfer-Encoding", Name::TransferEncoding),
        ("Expect", Name::Expect),
        ("Range", Name::Range),
        ("If-Match", Name::IfMatch),
        ("If-None-Match", Name::IfNoneMatch),
        ("If-Modified-Since", Name::IfModifiedSince),
        ("If-Unmodified-Since", Name::IfUnmodifiedSince),
        ("If-Range", Name::IfRange),
        ("Accept-Encoding", Name::AcceptEncoding),
        ("Upgrade", Name::Upgrade),
        ("User-Agent", Name::UserAgent),
        ("Referer", Name::Referer),
        ("Content-Type", Name::ContentType),
        ("Content-Encoding", Name::ContentEncoding),
        ("Content-Range", Name::ContentRange),
        ("ETag", Name::ETag),
        ("Last-Modified", Name::LastModified),
        ("Location", Name::Location),
        ("Cache-Control", Name::CacheControl),
        ("Date", Name::Date),
        ("Trailer", Name::Trailer),
    ];

    #[test]
    fn names_are_known_in_any_case_and_only_whole() {
        for (text, name) in ALL {
            for spelled in [text.to_owned(), text.to_lowercase(), text.to_uppercase()] {
                assert_eq!(Name::of(spelled.as_bytes()), Some(name), "{spelled}");
            }
            assert_eq!(Name::of(format!("{text}s").as_bytes()), None);
            assert_eq!(Name::of(&text.as_bytes()[1..]), None, "{text}");
        }
    }

    #[test]
    fn one_other_token_byte_makes_another_name() {
        for (text, name) in ALL {
            for position in 0..text.len() {
                for b in (0..=u8::MAX).filter(|&b| is_token_byte(b)) {
                    let mut other = text.as_bytes().to_vec();
                    other[position] = b;
                    let same = other.eq_ignore_ascii_case(text.as_bytes());
                    let known = Name::of(&other) == Some(name);
                    assert_eq!(known, same, "{}", other.escape_ascii());
                }
            }
        }
    }

    #[test]
    fn lists_and_repeated_lines() {
        let line = |name, value: &'static str| Line {
            name,
            value: value.as_bytes(),
        };
        let lines = [
            line("If-None-Match", "a, b"),
            line("Other", "x"),
            line("if-none-match", " ,c,, "),
            line("Range", "r"),
        ];
        let fields = Fields::new(&lines);
        let values: Vec<_> = fields.values(Name::IfNoneMatch).members().collect();
        assert_eq!(values, [&b"a"[..], b"b", b"c"]);
        assert!(fields.is_repeated(Name::IfNoneMatch) && !fields.is_repeated(Name::Range));
        assert_eq!(fields.get(Name::IfNoneMatch), Some(&b"a, b"[..]));
        assert_eq!(fields.single(Name::IfNoneMatch), None);
        assert_eq!(fields.single(Name::Range), Some(&b"r"[..]));
        assert_eq!(fields.values(Name::Host).count(), 0);
        assert_eq!(fields.find("OTHER"), Some(&b"x"[..]));
        assert!(fields.has_any(&[Name::Host, Name::Range]) && !fields.has_any(&[Name::Host]));
        assert_eq!((fields.len(), fields.is_empty()), (4, false));
    }

    #[test]
    fn white_space_is_trimmed_at_both_ends_only() {
        for (text, trimmed) in [("", ""), (" \t", ""), ("a", "a"), (" a b\t", "a b")] {
            assert_eq!(trim(text.as_bytes()), trimmed.as_bytes());
        }
    }
}
