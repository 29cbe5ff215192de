//! Blocks of static references and literals only: they need no state, so that prepared ones serve every connection.

use super::huffman;
use super::tables::STATIC;

/// An integer with `bits` bits in its first byte (RFC 7541 section 5.1).
fn integer(value: usize, bits: u32, first: u8, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if value < most {
        out.push(first | value as u8);
        return;
    }
    out.push(first | most as u8);
    let mut rest = value - most;
    while rest >= 128 {
        out.push(rest as u8 | 128);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn string(text: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::coded_len(text);
    if coded < text.len() {
        integer(coded, 7, 0x80, out);
        huffman::encode(text, out);
    } else {
        integer(text.len(), 7, 0, out);
        out.extend_from_slice(text);
    }
}

fn literal(name: &[u8], value: &[u8], first: u8, out: &mut Vec<u8>) {
    match STATIC.iter().position(|(known, _)| *known == name) {
        Some(at) => integer(at + 1, 4, first, out),
        None => {
            out.push(first);
            string(name, out);
        }
    }
    string(value, out);
}

/// A field; its name is in lower case.
pub fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match STATIC.iter().position(|entry| *entry == (name, value)) {
        Some(at) => integer(at + 1, 7, 0x80, out),
        None => literal(name, value, 0, out),
    }
}

/// A field that intermediaries must never index (RFC 7541 section 7.1.3).
pub fn sensitive(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    literal(name, value, 0x10, out);
}

/// `:status`, 100 to 999.
pub fn status(code: u16, out: &mut Vec<u8>) {
    let digits = [code / 100, code / 10 % 10, code % 10].map(|digit| b'0' + digit as u8);
    field(b":status", &digits, out);
}
