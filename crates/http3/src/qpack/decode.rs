//! The decoder: instructions of the peer's encoder stream change its dynamic table (RFC 9204 section 4.3), and sections
//! refer to the table as it was when they were encoded (section 4.5).

use super::tables::STATIC;
use http_semantics::compression::prefix::{self, QPACK};
use http_semantics::compression::table::{OVERHEAD, Table};
use http_semantics::compression::{Bounds, Decoded, Fields};

/// Why a section or an instruction is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The section ends within a field.
    Truncated,
    /// An integer is too large, or an instruction too long for the table.
    Integer,
    /// A string is not valid Huffman code.
    Huffman,
    /// An index is beyond the static table, or names an entry that is evicted or not yet there.
    Index,
    /// The Required Insert Count or the Base is one the encoder cannot have had.
    Prefix,
    /// A capacity above the limit, or an entry above the capacity.
    Capacity,
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

/// The prefix of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Insertions the section needs: it is blocked until so many have come.
    pub required: u64,
    base: u64,
    /// Bytes of the prefix.
    used: usize,
}

/// A decoder of one direction of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    limit: usize,
    /// Insertions so far.
    inserted: u64,
    /// Insertions of which the encoder knows that we have them (Known Received Count).
    known: u64,
    /// The front of an instruction whose end has not come.
    partial: Vec<u8>,
}

/// An instruction of the encoder.
enum Instruction {
    Capacity(usize),
    Insert { name: usize },
    Duplicate(u64),
}

impl Decoder {
    /// A decoder that permits a table of `limit` bytes. Until the encoder says otherwise, the table has 0.
    pub const fn new(limit: usize) -> Decoder {
        Decoder {
            table: Table::new(0),
            limit,
            inserted: 0,
            known: 0,
            partial: Vec::new(),
        }
    }

    /// Whether the encoder may use the dynamic table at all.
    pub const fn is_dynamic(&self) -> bool {
        self.limit > 0
    }

    /// Insertions so far.
    pub const fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.table.memory() + self.partial.capacity()
    }

    /// The entries of the dynamic table, newest first, and their size.
    #[cfg(test)]
    pub(crate) fn table(&self) -> (impl Iterator<Item = (&[u8], &[u8])>, usize) {
        (self.table.iter(), self.table.size())
    }

    /// Takes all of `input` from the encoder stream, which may end within an instruction.
    ///
    /// # Errors
    /// An instruction that is not valid: QPACK_ENCODER_STREAM_ERROR.
    pub fn instructions(&mut self, input: &[u8]) -> Result<(), Error> {
        if self.partial.is_empty() {
            let left = self.execute(input)?;
            self.partial.extend_from_slice(left);
        } else {
            let mut held = core::mem::take(&mut self.partial);
            held.extend_from_slice(input);
            let left = self.execute(&held)?.len();
            held.drain(..held.len() - left);
            self.partial = held;
        }
        // Huffman code has at most 30 bits a byte, so that no insertion of an entry that fits is longer.
        if self.partial.len() > 4 * self.limit + 64 {
            return Err(Error::Integer);
        }
        if self.partial.is_empty() {
            self.partial = Vec::new();
        }
        Ok(())
    }

    /// Executes whole instructions and returns the rest.
    fn execute<'b>(&mut self, input: &'b [u8]) -> Result<&'b [u8], Error> {
        let (mut rest, mut text) = (input, Vec::new());
        while !rest.is_empty() {
            text.clear();
            let (instruction, after) = match self.instruction(rest, &mut text) {
                Ok(found) => found,
                Err(Error::Truncated) => break,
                Err(error) => return Err(error),
            };
            match instruction {
                Instruction::Capacity(capacity) if capacity > self.limit => return Err(Error::Capacity),
                Instruction::Capacity(capacity) => self.table.resize(capacity),
                Instruction::Insert { name } => self.insert(&text, name)?,
                Instruction::Duplicate(index) => {
                    let (name, value) = self.relative(index)?;
                    text.extend_from_slice(name);
                    text.extend_from_slice(value);
                    let name = name.len();
                    self.insert(&text, name)?;
                }
            }
            rest = after;
        }
        Ok(rest)
    }

    /// Reads one instruction; name and value of an insertion are in `text`.
    fn instruction<'b>(&self, rest: &'b [u8], text: &mut Vec<u8>) -> Result<(Instruction, &'b [u8]), Error> {
        let first = rest[0];
        if first & 0xe0 == 0x20 {
            let (capacity, rest) = prefix::integer(rest, 5, QPACK)?;
            let capacity = usize::try_from(capacity).map_err(|_| Error::Capacity)?;
            return Ok((Instruction::Capacity(capacity), rest));
        }
        if first & 0xe0 == 0 {
            let (index, rest) = prefix::integer(rest, 5, QPACK)?;
            return Ok((Instruction::Duplicate(index), rest));
        }
        let rest = if first & 0x80 == 0 {
            prefix::string(rest, 5, QPACK, text)?
        } else {
            let (index, rest) = prefix::integer(rest, 6, QPACK)?;
            let (name, _) = match first & 0x40 {
                0 => self.relative(index)?,
                _ => fixed(index)?,
            };
            text.extend_from_slice(name);
            rest
        };
        let name = text.len();
        let rest = prefix::string(rest, 7, QPACK, text)?;
        Ok((Instruction::Insert { name }, rest))
    }

    fn insert(&mut self, text: &[u8], name: usize) -> Result<(), Error> {
        if text.len() + OVERHEAD > self.table.capacity() {
            return Err(Error::Capacity);
        }
        self.table.insert(text, name);
        self.inserted += 1;
        Ok(())
    }

    /// The entry of an instruction's index: 0 is the newest (section 3.2.5).
    fn relative(&self, index: u64) -> Result<(&[u8], &[u8]), Error> {
        let at = usize::try_from(index).map_err(|_| Error::Index)?;
        self.table.get(at).ok_or(Error::Index)
    }

    /// The entry of an absolute index, which must be below `required`.
    fn absolute(&self, index: u64, required: u64) -> Result<(&[u8], &[u8]), Error> {
        if index >= required {
            return Err(Error::Index);
        }
        let age = self.inserted.checked_sub(index + 1).ok_or(Error::Index)?;
        self.relative(age)
    }

    /// Reads the prefix of a section (section 4.5.1). If [`Section::required`] exceeds [`Decoder::inserted`], the section
    /// is blocked.
    ///
    /// # Errors
    /// The prefix is one that no encoder could have written: QPACK_DECOMPRESSION_FAILED.
    pub fn open(&self, block: &[u8]) -> Result<Section, Error> {
        let (encoded, rest) = prefix::integer(block, 8, QPACK)?;
        let sign = rest.first().ok_or(Error::Truncated)? & 0x80 != 0;
        let (delta, rest) = prefix::integer(rest, 7, QPACK)?;
        let required = self.required(encoded)?;
        let base = match sign {
            false => required.checked_add(delta),
            true => required.checked_sub(delta).and_then(|base| base.checked_sub(1)),
        };
        Ok(Section {
            required,
            base: base.ok_or(Error::Prefix)?,
            used: block.len() - rest.len(),
        })
    }

    /// The Required Insert Count, which is sent modulo twice the most entries the table can have (section 4.5.1.1).
    fn required(&self, encoded: u64) -> Result<u64, Error> {
        if encoded == 0 {
            return Ok(0);
        }
        let entries = (self.limit / OVERHEAD) as u64;
        let range = 2 * entries;
        if encoded > range {
            return Err(Error::Prefix);
        }
        let most = self.inserted + entries;
        let required = most / range * range + encoded - 1;
        let required = match required > most {
            true => required.checked_sub(range).ok_or(Error::Prefix)?,
            false => required,
        };
        match required {
            0 => Err(Error::Prefix),
            required => Ok(required),
        }
    }

    /// Decodes the section of `block`, whose prefix [`Decoder::open`] has read; appends its fields to `out`. Work is
    /// bounded by the length of the block and the table.
    ///
    /// # Errors
    /// QPACK_DECOMPRESSION_FAILED.
    pub fn decode(
        &self,
        section: Section,
        block: &[u8],
        bounds: Bounds,
        out: &mut Fields,
    ) -> Result<Decoded, Error> {
        let mut rest = &block[section.used..];
        let (mut bytes, mut oversized, mut text) = (0, false, Vec::new());
        while !rest.is_empty() {
            text.clear();
            let (entry, after) = self.line(section, rest, &mut text)?;
            let (name, value) = match entry {
                Line::Entry(name, value) => (name, value),
                Line::Literal(name) => text.split_at(name),
            };
            bytes += name.len() + value.len() + OVERHEAD;
            oversized |= bytes > bounds.bytes || out.len() >= bounds.fields;
            if !oversized {
                out.push(name, value);
            }
            rest = after;
        }
        Ok(match oversized {
            true => Decoded::Oversized,
            false => Decoded::Whole,
        })
    }

    /// One field line (sections 4.5.2 to 4.5.6).
    fn line<'a>(
        &'a self,
        section: Section,
        rest: &'a [u8],
        text: &mut Vec<u8>,
    ) -> Result<(Line<'a>, &'a [u8]), Error> {
        let first = rest[0];
        let before = |index: u64| {
            let at = section.base.checked_sub(index).and_then(|at| at.checked_sub(1));
            self.absolute(at.ok_or(Error::Index)?, section.required)
        };
        let behind = |index: u64| {
            let at = section.base.checked_add(index).ok_or(Error::Index)?;
            self.absolute(at, section.required)
        };
        let (named, is_whole, rest) = match first {
            0x80.. => {
                let (index, rest) = prefix::integer(rest, 6, QPACK)?;
                let entry = if first & 0x40 == 0 {
                    before(index)?
                } else {
                    fixed(index)?
                };
                (Some(entry), true, rest)
            }
            0x40.. => {
                let (index, rest) = prefix::integer(rest, 4, QPACK)?;
                let entry = if first & 0x10 == 0 {
                    before(index)?
                } else {
                    fixed(index)?
                };
                (Some(entry), false, rest)
            }
            0x20.. => (None, false, prefix::string(rest, 3, QPACK, text)?),
            0x10.. => {
                let (index, rest) = prefix::integer(rest, 4, QPACK)?;
                (Some(behind(index)?), true, rest)
            }
            _ => {
                let (index, rest) = prefix::integer(rest, 3, QPACK)?;
                (Some(behind(index)?), false, rest)
            }
        };
        if let (Some((name, value)), true) = (named, is_whole) {
            return Ok((Line::Entry(name, value), rest));
        }
        if let Some((name, _)) = named {
            text.extend_from_slice(name);
        }
        let name = text.len();
        let rest = prefix::string(rest, 7, QPACK, text)?;
        Ok((Line::Literal(name), rest))
    }

    /// Notes that a section of `stream` was decoded; writes its acknowledgment, if it needed the table (section 4.4.1).
    pub fn acknowledge(&mut self, stream: u64, section: Section, out: &mut Vec<u8>) {
        if section.required > 0 {
            prefix::put_integer(stream, 7, 0x80, out);
            self.known = self.known.max(section.required);
        }
    }

    /// Writes that no more sections of `stream` will be decoded (section 4.4.2).
    pub fn cancel(&self, stream: u64, out: &mut Vec<u8>) {
        if self.is_dynamic() {
            prefix::put_integer(stream, 6, 0x40, out);
        }
    }

    /// Writes how many insertions have come of which the encoder does not know (section 4.4.3).
    pub fn announce(&mut self, out: &mut Vec<u8>) {
        if self.inserted > self.known {
            prefix::put_integer(self.inserted - self.known, 6, 0, out);
            self.known = self.inserted;
        }
    }
}

/// A field line: an entry of a table, or a literal with the length of its name.
enum Line<'a> {
    Entry(&'a [u8], &'a [u8]),
    Literal(usize),
}

/// An entry of the static table.
fn fixed(index: u64) -> Result<(&'static [u8], &'static [u8]), Error> {
    let at = usize::try_from(index).map_err(|_| Error::Index)?;
    STATIC.get(at).copied().ok_or(Error::Index)
}
