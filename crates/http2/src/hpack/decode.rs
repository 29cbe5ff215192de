//! The decoder with its dynamic table (RFC 7541 sections 2 to 6).

use super::dynamic;
use http_semantics::compression::table::{OVERHEAD, Table};
use http_semantics::compression::{Bounds, Decoded, Fields, prefix};

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

impl From<prefix::Error> for Error {
    fn from(error: prefix::Error) -> Error {
        match error {
            prefix::Error::Truncated => Error::Truncated,
            prefix::Error::Integer => Error::Integer,
            prefix::Error::Huffman => Error::Huffman,
        }
    }
}

/// A decoder of one direction of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    limit: usize,
    must_shrink: bool,
}

fn integer(rest: &[u8], bits: u32) -> Result<(usize, &[u8]), Error> {
    let (value, rest) = prefix::integer(rest, bits, prefix::HPACK)?;
    Ok((value as usize, rest))
}

fn string<'b>(rest: &'b [u8], out: &mut Vec<u8>) -> Result<&'b [u8], Error> {
    Ok(prefix::string(rest, 7, prefix::HPACK, out)?)
}

impl Decoder {
    /// A decoder whose table has at most `size` bytes.
    pub fn new(size: usize) -> Decoder {
        Decoder {
            table: Table::new(size),
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
        (self.table.iter(), self.table.size())
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), Error> {
        dynamic::get(&self.table, index).ok_or(Error::Index)
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
