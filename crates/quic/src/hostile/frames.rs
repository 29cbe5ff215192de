//! Frames (RFC 9000 section 19): written as the caller wants them, and as far read as the client needs.

/// Type of an acknowledgment without ECN counts.
pub const ACK: u64 = 0x02;
/// Type of a frame that ends one half of a stream at once.
pub const RESET_STREAM: u64 = 0x04;
/// Type of a frame that asks for the same of the other half.
pub const STOP_SENDING: u64 = 0x05;
/// Type of a frame with messages of the handshake.
pub const CRYPTO: u64 = 0x06;
/// The first type of frames with bytes of a stream.
pub const STREAM: u64 = 0x08;
/// Type of a frame with a question that shows that an address is reached.
pub const PATH_CHALLENGE: u64 = 0x1a;
/// Type of the answer.
pub const PATH_RESPONSE: u64 = 0x1b;
/// Type of a frame that ends the connection because of the transport.
pub const CONNECTION_CLOSE: u64 = 0x1c;

/// A frame that came.
#[derive(Debug)]
pub(super) struct Frame<'p> {
    pub(super) kind: u64,
    /// Of CRYPTO and STREAM: where the bytes belong. Of CONNECTION_CLOSE: the error code.
    pub(super) offset: u64,
    /// Of CRYPTO and STREAM: content. Of CONNECTION_CLOSE: the reason.
    pub(super) bytes: &'p [u8],
}

/// Appends an integer in as few bytes as it needs (RFC 9000 section 16). Only the lower 62 bits count.
pub fn varint(value: u64, to: &mut Vec<u8>) {
    let value = value & (u64::MAX >> 2);
    match value {
        0..0x40 => to.push(value as u8),
        0x40..0x4000 => to.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => to.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => to.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Takes an integer off the front.
pub(super) fn take_varint(from: &mut &[u8]) -> Option<u64> {
    let first = *from.first()?;
    let length = 1_usize << (first >> 6);
    let (bytes, rest) = from.split_at_checked(length)?;
    *from = rest;
    let value = bytes[1..].iter().fold(u64::from(first & 0x3f), |value, &byte| {
        value << 8 | u64::from(byte)
    });
    Some(value)
}

/// Appends a frame of this type that consists of integers.
pub fn integers(kind: u64, values: &[u64], to: &mut Vec<u8>) {
    varint(kind, to);
    values.iter().for_each(|&value| varint(value, to));
}

/// Appends an acknowledgment of `first + 1` packets up to `largest`.
pub fn ack(largest: u64, first: u64, to: &mut Vec<u8>) {
    ack_runs(&[(largest - first, largest)], to);
}

/// Appends an acknowledgment of these packets: the first and last of each run, the newest at the end, with a gap between two
/// (RFC 9000 section 19.3.1).
pub fn ack_runs(runs: &[(u64, u64)], to: &mut Vec<u8>) {
    let Some((&(first, last), older)) = runs.split_last() else {
        return;
    };
    integers(ACK, &[last, 0, older.len() as u64, last - first], to);
    let mut before = first;
    for &(first, last) in older.iter().rev() {
        // Packets left out and packets acknowledged, each less one.
        varint(before - last - 2, to);
        varint(last - first, to);
        before = first;
    }
}

/// Appends bytes of the handshake.
pub fn crypto(offset: u64, bytes: &[u8], to: &mut Vec<u8>) {
    integers(CRYPTO, &[offset, bytes.len() as u64], to);
    to.extend_from_slice(bytes);
}

/// Appends bytes of a stream; `end` says that no more follow.
pub fn stream(id: u64, offset: u64, bytes: &[u8], end: bool, to: &mut Vec<u8>) {
    // With offset and length.
    integers(
        STREAM | 0x06 | u64::from(end),
        &[id, offset, bytes.len() as u64],
        to,
    );
    to.extend_from_slice(bytes);
}

/// Appends a question to be answered with the same eight bytes.
pub fn path_challenge(number: u64, to: &mut Vec<u8>) {
    varint(PATH_CHALLENGE, to);
    to.extend_from_slice(&number.to_be_bytes());
}

/// The next frame; `None` at the end, and for what RFC 9000 does not know.
pub(super) fn next<'p>(rest: &mut &'p [u8]) -> Option<Frame<'p>> {
    let kind = take_varint(rest)?;
    let mut frame = Frame {
        kind,
        offset: 0,
        bytes: &[],
    };
    let skip = |rest: &mut &'p [u8], count: u64| {
        for _ in 0..count {
            take_varint(rest)?;
        }
        Some(())
    };
    match kind {
        0x00 | 0x01 | 0x1e => {}
        0x02 | 0x03 => {
            skip(rest, 2)?;
            let ranges = take_varint(rest)?;
            skip(rest, 1 + 2 * ranges + if kind == 0x03 { 3 } else { 0 })?;
        }
        RESET_STREAM => skip(rest, 3)?,
        STOP_SENDING | 0x11 | 0x15 => skip(rest, 2)?,
        0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => skip(rest, 1)?,
        CRYPTO => {
            frame.offset = take_varint(rest)?;
            frame.bytes = take_bytes(rest)?;
        }
        0x07 => drop(take_bytes(rest)?),
        kind if kind & !7 == STREAM => {
            take_varint(rest)?;
            if kind & 4 != 0 {
                frame.offset = take_varint(rest)?;
            }
            frame.bytes = match kind & 2 {
                0 => std::mem::take(rest),
                _ => take_bytes(rest)?,
            };
        }
        0x18 => {
            skip(rest, 2)?;
            let (length, after) = rest.split_first()?;
            *rest = after.get(usize::from(*length) + 16..)?;
        }
        PATH_CHALLENGE | PATH_RESPONSE => *rest = rest.get(8..)?,
        CONNECTION_CLOSE | 0x1d => {
            frame.offset = take_varint(rest)?;
            if kind == CONNECTION_CLOSE {
                skip(rest, 1)?;
            }
            frame.bytes = take_bytes(rest)?;
        }
        _ => return None,
    }
    Some(frame)
}

/// Takes bytes off the front that their length precedes.
pub(super) fn take_bytes<'p>(from: &mut &'p [u8]) -> Option<&'p [u8]> {
    let length = usize::try_from(take_varint(from)?).ok()?;
    let (bytes, rest) = from.split_at_checked(length)?;
    *from = rest;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_written() {
        // The examples of RFC 9000 section A.1, and the bounds.
        let cases = [
            (151_288_809_941_952_652, 8),
            (494_878_333, 4),
            (15_293, 2),
            (37, 1),
            (63, 1),
            (64, 2),
            (16_383, 2),
            (16_384, 4),
            ((1 << 30) - 1, 4),
            (1 << 30, 8),
        ];
        for (value, length) in cases {
            let mut bytes = Vec::new();
            varint(value, &mut bytes);
            assert_eq!(bytes.len(), length, "{value}");
            assert_eq!(take_varint(&mut &bytes[..]), Some(value));
            assert_eq!(take_varint(&mut &bytes[..length - 1]), None, "{value}");
        }
    }

    #[test]
    fn frames_follow_each_other() {
        let mut bytes = Vec::new();
        ack_runs(&[(0, 2), (5, 5), (8, 9)], &mut bytes);
        assert_eq!(bytes, [0x02, 9, 0, 2, 1, 1, 0, 1, 2], "gaps of two and of two");
        stream(4, 100, b"abc", true, &mut bytes);
        path_challenge(7, &mut bytes);
        crypto(5, b"de", &mut bytes);
        integers(RESET_STREAM, &[4, 0x10c, 3], &mut bytes);
        bytes.extend_from_slice(&[0x1c, 0x0a, 0x02, 2, b'n', b'o']);
        let mut rest = &bytes[..];
        let mut got = Vec::new();
        while let Some(frame) = next(&mut rest) {
            got.push((frame.kind, frame.offset, frame.bytes.to_vec()));
        }
        let plain = |kind| (kind, 0, Vec::new());
        assert_eq!(
            got,
            [
                plain(ACK),
                (STREAM | 7, 100, b"abc".to_vec()),
                plain(PATH_CHALLENGE),
                (CRYPTO, 5, b"de".to_vec()),
                plain(RESET_STREAM),
                (CONNECTION_CLOSE, 0x0a, b"no".to_vec()),
            ]
        );
    }
}
