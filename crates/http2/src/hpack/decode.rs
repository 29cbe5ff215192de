//! The decoder with its dynamic table (RFC 7541 sections 2 to 6).

use super::dynamic::{Dynamic, OVERHEAD};
use super::fields::Fields;
use super::huffman;

/// A compression error: the connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The block ends within a field.
    Truncated,
    /// An integer is too large.
    Integer,
    /// A string is not valid Huffman code.
    Huffman,
    /// An index is 0 or beyond the tables.
    Index,
    /// A table size update is misplaced, above the limit, or missing after the limit was lowered.
    SizeUpdate,
}

/// Bounds on a decoded list.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Number of fields.
    pub fields: usize,
    /// Bytes of names and values, and 32 for each field (RFC 9113 section 6.5.2).
    pub bytes: usize,
}

/// The extent of a decoded list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// All fields are in the output.
    Whole,
    /// The list exceeds the bounds; the output holds only its beginning.
    Oversized,
}

/// A decoder of one direction of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: Dynamic,
    limit: usize,
    must_shrink: bool,
}

type Rest<'b> = &'b [u8];

fn integer<'b>(rest: Rest<'b>, bits: u32) -> Result<(usize, Rest<'b>), Error> {
    let (&first, mut rest) = rest.split_first().ok_or(Error::Truncated)?;
    let most = (1_usize << bits) - 1;
    let mut value = usize::from(first) & most;
    if value < most {
        return Ok((value, rest));
    }
    for shift in [0, 7, 14, 21] {
        let (&byte, after) = rest.split_first().ok_or(Error::Truncated)?;
        rest = after;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((value, rest));
        }
    }
    Err(Error::Integer)
}

fn string<'b>(rest: Rest<'b>, out: &mut Vec<u8>) -> Result<Rest<'b>, Error> {
    let huffman = rest.first().ok_or(Error::Truncated)? & 0x80 != 0;
    let (length, rest) = integer(rest, 7)?;
    let (text, rest) = rest.split_at_checked(length).ok_or(Error::Truncated)?;
    if huffman {
        huffman::decode(text, out).ok_or(Error::Huffman)?;
    } else {
        out.extend_from_slice(text);
    }
    Ok(rest)
}

impl Decoder {
    /// A decoder whose table has at most `size` bytes.
    pub fn new(size: usize) -> Decoder {
        Decoder {
            table: Dynamic::new(size),
            limit: size,
            must_shrink: false,
        }
    }

    /// Sets SETTINGS_HEADER_TABLE_SIZE, once the peer has acknowledged it. Entries above the limit go at once: the next
    /// block must begin with the update that evicts them.
    pub fn set_table_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.must_shrink |= self.table.capacity() > limit;
        self.table.evict(limit);
    }

    /// The largest size in bytes that the peer may give the table.
    pub fn table_limit(&self) -> usize {
        self.limit
    }

    /// Bytes of memory the table holds.
    pub fn memory(&self) -> usize {
        self.table.memory()
    }

    /// The entries of the dynamic table, newest first, and their size.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn table(&self) -> (impl Iterator<Item = (&[u8], &[u8])>, usize) {
        self.table.entries()
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), Error> {
        self.table.get(index).ok_or(Error::Index)
    }

    /// Decodes a whole block; appends its fields to `out`. Work is bounded by the block's length and the table.
    ///
    /// # Errors
    /// A compression error.
    pub fn decode(&mut self, block: &[u8], bounds: Bounds, out: &mut Fields) -> Result<Decoded, Error> {
        let (mut rest, mut begun) = (block, false);
        let (mut bytes, mut oversized) = (0, false);
        let mut text = Vec::new();
        while let Some(&first) = rest.first() {
            if first & 0xe0 == 0x20 {
                let (size, after) = integer(rest, 5)?;
                if begun || size > self.limit {
                    return Err(Error::SizeUpdate);
                }
                (self.must_shrink, rest) = (false, after);
                self.table.resize(size);
                continue;
            }
            if self.must_shrink {
                return Err(Error::SizeUpdate);
            }
            begun = true;
            text.clear();
            if first & 0x80 != 0 {
                let (index, after) = integer(rest, 7)?;
                let entry = self.entry(index)?;
                bytes += entry.0.len() + entry.1.len() + OVERHEAD;
                oversized |= bytes > bounds.bytes || out.len() >= bounds.fields;
                if !oversized {
                    out.push(entry.0, entry.1);
                }
                rest = after;
                continue;
            }
            let indexed = first & 0x40 != 0;
            let (index, mut after) = integer(rest, if indexed { 6 } else { 4 })?;
            if index == 0 {
                after = string(after, &mut text)?;
            } else {
                text.extend_from_slice(self.entry(index)?.0);
            }
            let name = text.len();
            rest = string(after, &mut text)?;
            bytes += text.len() + OVERHEAD;
            oversized |= bytes > bounds.bytes || out.len() >= bounds.fields;
            if !oversized {
                out.push(&text[..name], &text[name..]);
            }
            if indexed {
                self.table.insert(&text, name);
            }
        }
        Ok(if oversized {
            Decoded::Oversized
        } else {
            Decoded::Whole
        })
    }
}
