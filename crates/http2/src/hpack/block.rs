//! Blocks of static references and literals without indexing only: they need no state, so that prepared ones serve every
//! connection.
//!
//! A response from the cache is a copy of such bytes. A reference to a dynamic table would make them valid on one
//! connection and at one moment only, and a literal with indexing would change the table behind the back of the
//! connection's [`Encoder`](super::Encoder). These forms do neither, so both kinds of block mix on a connection.

use super::tables::STATIC;
use http_semantics::compression::prefix;

/// An integer with `bits` bits in its first byte (RFC 7541 section 5.1).
#[inline]
pub(super) fn integer(value: usize, bits: u32, first: u8, out: &mut Vec<u8>) {
    prefix::put_integer(value as u64, bits, first, out);
}

/// A string, Huffman coded if that is shorter (RFC 7541 section 5.2).
pub(super) fn string(text: &[u8], out: &mut Vec<u8>) {
    prefix::put_string(text, 7, 0, out);
}

/// The front of a literal (RFC 7541 section 6.2): the index of its name in `bits` bits, or its name. The value follows.
pub(super) fn literal(named: Option<usize>, name: &[u8], bits: u32, first: u8, out: &mut Vec<u8>) {
    match named {
        Some(index) => integer(index, bits, first, out),
        None => {
            out.push(first);
            string(name, out);
        }
    }
}

fn unindexed(name: &[u8], value: &[u8], first: u8, out: &mut Vec<u8>) {
    let named = STATIC.iter().position(|(known, _)| *known == name);
    literal(named.map(|at| at + 1), name, 4, first, out);
    string(value, out);
}

/// A field; its name is in lower case.
pub fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match STATIC.iter().position(|entry| *entry == (name, value)) {
        Some(at) => integer(at + 1, 7, 0x80, out),
        None => unindexed(name, value, 0, out),
    }
}

/// A field that intermediaries must never index (RFC 7541 section 7.1.3).
pub fn sensitive(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    unindexed(name, value, 0x10, out);
}

/// `:status`, 100 to 999.
pub fn status(code: u16, out: &mut Vec<u8>) {
    let digits = [code / 100, code / 10 % 10, code % 10].map(|digit| b'0' + digit as u8);
    field(b":status", &digits, out);
}
