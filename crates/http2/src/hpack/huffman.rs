//! The Huffman code of RFC 7541 section 5.2, decoded bit by bit over the canonical code.

use super::tables::CODES;

const EOS: u16 = 256;
const LENGTH_MAX: usize = 30;

/// The code is canonical: codes of one length are consecutive and ordered by symbol.
struct Canonical {
    /// First code of each length, and its index into `symbols`.
    first: [(u32, u16); LENGTH_MAX + 2],
    symbols: [u16; 257],
}

const CANONICAL: Canonical = {
    let mut table = Canonical {
        first: [(0, 0); LENGTH_MAX + 2],
        symbols: [0; 257],
    };
    let (mut length, mut count, mut code) = (1, 0, 0_u32);
    while length <= LENGTH_MAX + 1 {
        code <<= 1;
        table.first[length] = (code, count);
        let mut symbol = 0;
        while symbol < 257 {
            if CODES[symbol].1 as usize == length {
                assert!(CODES[symbol].0 == code, "the code is canonical");
                table.symbols[count as usize] = symbol as u16;
                count += 1;
                code += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    table
};

/// Appends the decoded text; `None` if the code contains EOS or its padding is not a short prefix of EOS.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Option<()> {
    static TABLE: Canonical = CANONICAL;
    let (mut code, mut length) = (0_u32, 0_usize);
    for &byte in coded {
        for shift in (0..8).rev() {
            code = code << 1 | u32::from(byte >> shift & 1);
            length += 1;
            if length > LENGTH_MAX {
                return None;
            }
            let (first, index) = TABLE.first[length];
            let count = TABLE.first[length + 1].1 - index;
            let offset = code.wrapping_sub(first);
            if offset < u32::from(count) {
                let symbol = TABLE.symbols[usize::from(index) + offset as usize];
                if symbol == EOS {
                    return None;
                }
                out.push(symbol as u8);
                (code, length) = (0, 0);
            }
        }
    }
    (length < 8 && code == (1 << length) - 1).then_some(())
}

/// Bytes of the text when coded.
pub(super) fn coded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&b| usize::from(CODES[usize::from(b)].1)).sum();
    bits.div_ceil(8)
}

/// Appends the coded text.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut held) = (0_u64, 0_u32);
    for &byte in text {
        let (code, length) = CODES[usize::from(byte)];
        bits = bits << length | u64::from(code);
        held += u32::from(length);
        while held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    if held > 0 {
        out.push((bits << (8 - held)) as u8 | (0xff >> held));
    }
}
