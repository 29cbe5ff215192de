//! The indexes of HPACK: static and dynamic table in one space that counts from 1 (RFC 7541 section 2.3.3).

use super::tables::STATIC;
use http_semantics::compression::table::Table;

/// SETTINGS_HEADER_TABLE_SIZE before the first SETTINGS (RFC 9113 section 6.5.2).
pub(super) const INITIAL: usize = 4096;

/// Where both tables hold a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The index of name and value.
    Field(usize),
    /// The index of an entry with this name and another value.
    Name(usize),
}

/// The field at this index of both tables.
pub(super) fn get(table: &Table, index: usize) -> Option<(&[u8], &[u8])> {
    let at = index.checked_sub(1)?;
    match STATIC.get(at) {
        Some(&entry) => Some(entry),
        None => table.get(at - STATIC.len()),
    }
}

/// The lowest index with this name and value, otherwise with this name.
pub(super) fn find(table: &Table, name: &[u8], value: &[u8]) -> Option<Found> {
    let mut named = None;
    for (at, entry) in STATIC.iter().copied().chain(table.iter()).enumerate() {
        if entry == (name, value) {
            return Some(Found::Field(at + 1));
        }
        if named.is_none() && entry.0 == name {
            named = Some(Found::Name(at + 1));
        }
    }
    named
}
