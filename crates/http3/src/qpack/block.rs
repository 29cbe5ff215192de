//! Sections of static references and literals only: they need no state, so that prepared ones serve every connection.

use super::tables::STATIC;
use http_semantics::compression::prefix::{put_integer, put_string};

/// Begins a section: a prefix that refers to no entry of the dynamic table (RFC 9204 section 4.5.1).
pub fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// A field; its name is in lower case.
pub fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match STATIC.iter().position(|entry| *entry == (name, value)) {
        Some(at) => put_integer(at as u64, 6, 0xc0, out),
        None => literal(name, value, 0, out),
    }
}

/// A field that intermediaries must never index (RFC 9204 section 7.1.3).
pub fn sensitive(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    literal(name, value, 1, out);
}

/// `:status`, 100 to 999.
pub fn status(code: u16, out: &mut Vec<u8>) {
    let digits = [code / 100, code / 10 % 10, code % 10].map(|digit| b'0' + digit as u8);
    field(b":status", &digits, out);
}

/// A literal, with the name of the static table if it is there (sections 4.5.4 and 4.5.6). `never` is the bit N.
fn literal(name: &[u8], value: &[u8], never: u8, out: &mut Vec<u8>) {
    match STATIC.iter().position(|(known, _)| *known == name) {
        Some(at) => put_integer(at as u64, 4, 0x50 | never << 5, out),
        None => put_string(name, 3, 0x20 | never << 4, out),
    }
    put_string(value, 7, 0, out);
}
