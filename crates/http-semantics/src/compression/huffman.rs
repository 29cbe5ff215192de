//! The Huffman code of RFC 7541 section 5.2: decoded four bits a step by a table made at compile time, encoded through a
//! 64-bit accumulator.

use super::code::CODES;

const EOS: usize = 256;

/// Inner nodes of the code's tree: one less than its 257 leaves.
const NODES: usize = 256;

/// One step of the decoder, from a node by four bits.
#[derive(Clone, Copy)]
struct Step {
    /// The node reached.
    node: u8,
    /// The byte completed on the way. No code is shorter than five bits, so there is at most one.
    symbol: Option<u8>,
    /// How the code may go on.
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The text may end: no more than seven bits have passed since the last symbol, and all are those of EOS.
    Complete,
    /// More bits must follow.
    Within,
    /// The code contains EOS.
    Invalid,
}

/// The children of each inner node: below `NODES` an inner node, otherwise `NODES` plus a symbol. Node 0 is the root,
/// which is no child: 0 marks a child that does not exist yet.
const TREE: [[u16; 2]; NODES] = {
    let mut tree = [[0; 2]; NODES];
    let (mut count, mut symbol) = (1, 0);
    while symbol < CODES.len() {
        let (code, length) = CODES[symbol];
        let (mut node, mut left) = (0, length);
        while left > 1 {
            left -= 1;
            let bit = (code >> left & 1) as usize;
            if tree[node][bit] == 0 {
                tree[node][bit] = count;
                count += 1;
            }
            node = tree[node][bit] as usize;
        }
        tree[node][(code & 1) as usize] = (NODES + symbol) as u16;
        symbol += 1;
    }
    assert!(count as usize == NODES, "the code is complete");
    tree
};

/// Whether the text may end at each node: those reached from the root by up to seven one bits.
const ENDS: [bool; NODES] = {
    let mut ends = [false; NODES];
    let (mut node, mut bits) = (0, 0);
    while bits < 8 {
        ends[node] = true;
        node = TREE[node][1] as usize;
        bits += 1;
    }
    ends
};

/// Every step: 16 KiB. With eight bits a step it would be 256 KiB, more than a level-1 cache.
static STEPS: [[Step; 16]; NODES] = {
    let unset = Step {
        node: 0,
        symbol: None,
        state: State::Invalid,
    };
    let mut steps = [[unset; 16]; NODES];
    let mut from = 0;
    while from < NODES {
        let mut bits = 0;
        while bits < 16 {
            steps[from][bits] = step(from, bits);
            bits += 1;
        }
        from += 1;
    }
    steps
};

const fn step(from: usize, bits: usize) -> Step {
    let (mut node, mut symbol, mut left) = (from, None, 4);
    while left > 0 {
        left -= 1;
        let child = TREE[node][bits >> left & 1] as usize;
        if child == NODES + EOS {
            return Step {
                node: 0,
                symbol: None,
                state: State::Invalid,
            };
        }
        if child >= NODES {
            (node, symbol) = (0, Some((child - NODES) as u8));
        } else {
            node = child;
        }
    }
    Step {
        node: node as u8,
        symbol,
        state: if ENDS[node] {
            State::Complete
        } else {
            State::Within
        },
    }
}

/// Appends the decoded text, or part of it on an error; `None` if the code contains EOS, or its padding is longer than
/// seven bits or not the most significant bits of EOS.
pub fn decode(coded: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (mut node, mut state) = (0, State::Complete);
    for &byte in coded {
        for bits in [byte >> 4, byte & 15] {
            let step = &STEPS[usize::from(node)][usize::from(bits)];
            out.extend(step.symbol);
            (node, state) = (step.node, step.state);
            if state == State::Invalid {
                return None;
            }
        }
    }
    (state == State::Complete).then_some(())
}

/// Bytes of the text when coded.
pub fn coded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&b| usize::from(CODES[usize::from(b)].1)).sum();
    bits.div_ceil(8)
}

/// Appends the coded text, padded with the most significant bits of EOS: ones.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    // The last `held` bits of `bits` are not written yet: below 32 before a code of up to 30 is added.
    let (mut bits, mut held) = (0_u64, 0_u32);
    for &byte in text {
        let (code, length) = CODES[usize::from(byte)];
        bits = bits << length | u64::from(code);
        held += u32::from(length);
        if held >= 32 {
            held -= 32;
            out.extend_from_slice(&((bits >> held) as u32).to_be_bytes());
        }
    }
    let padding = held.next_multiple_of(8) - held;
    bits = bits << padding | ((1 << padding) - 1);
    let bytes = ((held + padding) / 8) as usize;
    out.extend_from_slice(&bits.to_be_bytes()[8 - bytes..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(coded: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(coded, &mut out).map(|()| out)
    }

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, &mut out);
        assert_eq!(out.len(), coded_len(text));
        out
    }

    /// All pairs of bytes: every code, at every offset within a byte.
    #[test]
    fn every_pair_of_bytes_survives() {
        for first in 0..=255 {
            for second in 0..=255 {
                let text = [first, second, first];
                assert_eq!(decoded(&encoded(&text)).as_deref(), Some(&text[..]));
            }
        }
    }

    /// The same rules, bit by bit over the list of codes.
    fn by_bits(coded: &[u8]) -> Option<Vec<u8>> {
        let (mut out, mut code, mut length) = (Vec::new(), 0_u64, 0_u8);
        for bit in coded
            .iter()
            .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1))
        {
            (code, length) = (code << 1 | u64::from(bit), length + 1);
            let found = CODES
                .iter()
                .position(|&(c, l)| (u64::from(c), l) == (code, length));
            match found {
                Some(EOS) => return None,
                Some(symbol) => {
                    out.push(symbol as u8);
                    (code, length) = (0, 0);
                }
                None => {}
            }
        }
        (length < 8 && code == (1 << length) - 1).then_some(out)
    }

    /// Two bytes, alone and behind bytes that leave long codes open.
    #[test]
    fn codes_and_padding_are_judged_as_bit_by_bit() {
        let mut outcomes = [0_usize; 2];
        for lead in [&[][..], &[0xff], &[0xff, 0xfe], &[0xff, 0xff, 0xff], &[0xff; 4]] {
            for tail in (0..=u16::MAX).step_by(if lead.is_empty() { 5 } else { 31 }) {
                let coded = [lead, &tail.to_be_bytes()].concat();
                let expected = by_bits(&coded);
                outcomes[usize::from(expected.is_some())] += 1;
                assert_eq!(decoded(&coded), expected, "{coded:x?}");
            }
        }
        assert!(outcomes.iter().all(|&count| count > 1_000), "{outcomes:?}");
    }

    #[test]
    fn padding_and_eos() {
        assert_eq!(decoded(&[]), Some(Vec::new()));
        // '0' has the code 00000; three ones pad it.
        assert_eq!(decoded(&[0b0000_0111]).as_deref(), Some(&b"0"[..]));
        assert_eq!(decoded(&[0b0000_0110]), None, "padding with a zero bit");
        assert_eq!(decoded(&[0b0000_0111, 0xff]), None, "eleven bits of padding");
        assert_eq!(decoded(&[0xff]), None, "eight bits of padding");
        assert_eq!(decoded(&[0xff; 4]), None, "EOS");
    }
}
