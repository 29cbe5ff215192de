//! The encoder with its dynamic table: for fields that repeat on a connection. [`block`](super::block) is the encoder
//! without state.

use super::block::{integer, literal, string};
use super::dynamic::{self, Found, INITIAL};
use http_semantics::compression::table::{OVERHEAD, Table};

/// A cookie below this many bytes can be guessed piece by piece, so it is never indexed (RFC 7541 section 7.1.3; the
/// number is nghttp2's).
const COOKIE_SHORT: usize = 20;

/// How a field enters a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// With incremental indexing (RFC 7541 section 6.2.1).
    Indexed,
    /// Without indexing (section 6.2.2): its value rarely repeats, and its entry would evict one that does.
    Plain,
    /// Never indexed, here or by an intermediary (section 6.2.3).
    Sensitive,
}

impl Form {
    fn of(name: &[u8], value: &[u8]) -> Form {
        match name {
            b"authorization" | b"proxy-authorization" | b"set-cookie" => Form::Sensitive,
            b"cookie" if value.len() < COOKIE_SHORT => Form::Sensitive,
            b":path" | b"age" | b"content-length" | b"content-range" | b"etag" | b"if-modified-since"
            | b"if-none-match" | b"if-range" | b"last-modified" | b"location" | b"range" => Form::Plain,
            _ => Form::Indexed,
        }
    }
}

/// An encoder of one direction of one connection. Its blocks must be sent in the order they were written.
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    /// Bytes our table may have, whatever the peer permits.
    own: usize,
    /// Capacity from the next block on.
    wanted: usize,
    /// The smallest capacity since the last block: the peer must see it too (RFC 7541 section 4.2).
    smallest: usize,
}

impl Encoder {
    /// An encoder whose table has at most `own` bytes, by the measure of RFC 7541 section 4.1, and at most the 4,096 that
    /// hold before the peer's SETTINGS.
    pub fn new(own: usize) -> Encoder {
        let wanted = own.min(INITIAL);
        Encoder {
            table: Table::new(INITIAL),
            own,
            wanted,
            smallest: wanted,
        }
    }

    /// Takes over the peer's SETTINGS_HEADER_TABLE_SIZE, in bytes. The next block begins with the table size updates
    /// that are due.
    pub fn set_peer_limit(&mut self, limit: usize) {
        self.wanted = limit.min(self.own);
        self.smallest = self.smallest.min(self.wanted);
    }

    /// Empties the table, to save memory on an idle connection. The next block tells the peer, in up to four bytes.
    pub fn clear(&mut self) {
        self.table.clear();
        self.smallest = 0;
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

    /// Begins a block: appends the table size updates that are due, up to two (RFC 7541 sections 4.2 and 6.3). Call it
    /// before every block of the connection, prepared ones included.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if self.smallest < self.wanted.min(self.table.capacity()) {
            self.resize(self.smallest, out);
        }
        if self.wanted != self.table.capacity() {
            self.resize(self.wanted, out);
        }
        self.smallest = self.wanted;
    }

    fn resize(&mut self, capacity: usize, out: &mut Vec<u8>) {
        integer(capacity, 5, 0x20, out);
        self.table.resize(capacity);
    }

    /// Appends a field; its name is in lower case. `authorization`, `proxy-authorization`, `set-cookie` and short cookies
    /// are never indexed, and neither are values that rarely repeat, such as `:path`.
    pub fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.literal_or_index(Form::of(name, value), name, value, out);
    }

    /// Appends a field that neither this table nor one of an intermediary may hold (RFC 7541 section 7.1.3).
    pub fn sensitive(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        self.literal_or_index(Form::Sensitive, name, value, out);
    }

    fn literal_or_index(&mut self, form: Form, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let found = dynamic::find(&self.table, name, value);
        if let (Some(Found::Field(index)), Form::Indexed | Form::Plain) = (found, form) {
            return integer(index, 7, 0x80, out);
        }
        let named = found.map(|(Found::Field(index) | Found::Name(index))| index);
        // A field that fills most of the table would evict all others.
        let size = name.len() + value.len() + OVERHEAD;
        match form {
            Form::Indexed if size <= self.table.capacity() / 4 * 3 => {
                self.table.insert(&[name, value].concat(), name.len());
                literal(named, name, 6, 0x40, out);
            }
            Form::Indexed | Form::Plain => literal(named, name, 4, 0, out),
            Form::Sensitive => literal(named, name, 4, 0x10, out),
        }
        string(value, out);
    }
}
