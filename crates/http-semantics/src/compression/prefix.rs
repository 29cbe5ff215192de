//! Integers with a prefix and strings (RFC 7541 section 5, RFC 9204 section 4.1).

use super::huffman;

/// Why an integer or a string cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// More bytes must follow.
    Truncated,
    /// An integer has too many bytes.
    Integer,
    /// A string is not valid Huffman code.
    Huffman,
}

/// Bytes after the prefix that an integer of HPACK may have: lengths and indexes of 28 bits.
pub const HPACK: u32 = 4;

/// Bytes after the prefix that an integer of QPACK may have: stream identifiers of 62 bits.
pub const QPACK: u32 = 9;

/// Reads an integer with `bits` bits in its first byte and at most `more` further bytes, at most 9. Returns the rest.
///
/// # Errors
/// [`Error::Truncated`] or [`Error::Integer`].
#[inline]
pub fn integer(rest: &[u8], bits: u32, more: u32) -> Result<(u64, &[u8]), Error> {
    let (&first, mut rest) = rest.split_first().ok_or(Error::Truncated)?;
    let most = (1_u64 << bits) - 1;
    let mut value = u64::from(first) & most;
    if value < most {
        return Ok((value, rest));
    }
    for at in 0..more {
        let (&byte, after) = rest.split_first().ok_or(Error::Truncated)?;
        rest = after;
        value += u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((value, rest));
        }
    }
    Err(Error::Integer)
}

/// Reads a string whose length has `bits` bits in the first byte, behind a bit that says whether it is in Huffman code.
/// Appends the text to `out` and returns the rest.
///
/// # Errors
/// Any [`Error`]; `out` may hold a part of the text.
pub fn string<'b>(rest: &'b [u8], bits: u32, more: u32, out: &mut Vec<u8>) -> Result<&'b [u8], Error> {
    let huffman = rest.first().ok_or(Error::Truncated)? & 1 << bits != 0;
    let (length, rest) = integer(rest, bits, more)?;
    let length = usize::try_from(length).map_err(|_| Error::Truncated)?;
    let (text, rest) = rest.split_at_checked(length).ok_or(Error::Truncated)?;
    if huffman {
        huffman::decode(text, out).ok_or(Error::Huffman)?;
    } else {
        out.extend_from_slice(text);
    }
    Ok(rest)
}

/// Appends an integer with `bits` bits in its first byte, whose other bits are those of `first`.
#[inline]
pub fn put_integer(value: u64, bits: u32, first: u8, out: &mut Vec<u8>) {
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

/// Appends a string, Huffman coded if that is shorter. Its length has `bits` bits in the first byte, behind the bit for
/// Huffman code; the bits above are those of `first`.
pub fn put_string(text: &[u8], bits: u32, first: u8, out: &mut Vec<u8>) {
    let coded = huffman::coded_len(text);
    if coded < text.len() {
        put_integer(coded as u64, bits, first | 1 << bits, out);
        huffman::encode(text, out);
    } else {
        put_integer(text.len() as u64, bits, first, out);
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_longest_integers() {
        let stream = (1_u64 << 62) - 1;
        let mut out = Vec::new();
        put_integer(stream, 6, 0x40, &mut out);
        assert_eq!(out.len(), 10);
        assert_eq!(integer(&out, 6, QPACK), Ok((stream, &[][..])));
        assert_eq!(integer(&out, 6, HPACK), Err(Error::Integer));
        assert_eq!(integer(&[0xff; 11], 7, QPACK), Err(Error::Integer));
        assert_eq!(
            integer(&[0x1f, 0x80, 0], 5, HPACK),
            Ok((31, &[][..])),
            "zeros behind it"
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_a_cut_is_noticed(
            value in 0_u64..1 << 62, bits in 3_u32..8, text in proptest::collection::vec(any::<u8>(), 0..150)
        ) {
            let mut out = Vec::new();
            put_integer(value, bits, 0, &mut out);
            prop_assert_eq!(integer(&out, bits, QPACK), Ok((value, &[][..])));
            prop_assert_eq!(integer(&out[..out.len() - 1], bits, QPACK), Err(Error::Truncated));
            out.clear();
            put_string(&text, bits, 0, &mut out);
            let mut read = Vec::new();
            prop_assert_eq!(string(&out, bits, HPACK, &mut read), Ok(&[][..]));
            prop_assert_eq!(&read, &text);
            prop_assert_eq!(string(&out[..out.len() - 1], bits, HPACK, &mut Vec::new()), Err(Error::Truncated));
        }
    }
}
