//! Field lines as a field block of HTTP/2 (RFC 7541): references to the static table and literals only, so that a block can
//! be made once and sent over any connection.

use crate::field_list::FieldList;
use http2::hpack::block;

/// Index of `date` in the static table, for a literal that is not indexed (RFC 7541 section 6.2.2).
const DATE: [u8; 2] = [0x0f, 0x12];

/// The block of 200 with these lines and this length: what a cached file is answered with.
pub(crate) fn prepared(fields: FieldList<'_>, len: u64) -> Box<[u8]> {
    let mut block = Vec::with_capacity(fields.text().len());
    status(200, &mut block);
    lines(fields, &mut block);
    length(len, &mut block);
    block.into()
}

/// Appends `:status`.
pub(crate) fn status(status: u16, block: &mut Vec<u8>) {
    block::status(status, block);
}

/// Appends `content-length`.
pub(crate) fn length(len: u64, block: &mut Vec<u8>) {
    let mut digits = itoa::Buffer::new();
    block::field(b"content-length", digits.format(len).as_bytes(), block);
}

/// Appends `date`. Not compressed, because it is new every second.
pub(crate) fn date(date: &[u8], block: &mut Vec<u8>) {
    block.extend_from_slice(&DATE);
    block.push(date.len() as u8);
    block.extend_from_slice(date);
}

/// Appends lines, with their names in lower case. Those that are about a connection of HTTP/1 are left out: they would
/// make the answer malformed (RFC 9113 section 8.2.2).
pub(crate) fn lines(fields: FieldList<'_>, block: &mut Vec<u8>) {
    for (name, value) in fields.iter() {
        let name = name.to_ascii_lowercase();
        match &name[..] {
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {}
            b"set-cookie" => block::sensitive(&name, value, block),
            name => block::field(name, value, block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http2::hpack::{Bounds, Decoder, Fields};

    #[test]
    fn a_block_says_what_the_lines_say() {
        let list = b"ETag: \"a\"\r\nConnection: close\r\nSet-Cookie: a=b\r\nX-Empty:\r\n";
        let mut block = prepared(FieldList::of(list), 12).into_vec();
        date(b"Sun, 06 Nov 1994 08:49:37 GMT", &mut block);
        let mut fields = Fields::default();
        let bounds = Bounds {
            fields: 10,
            bytes: 1_000,
        };
        Decoder::new(0)
            .decode(&block, bounds, &mut fields)
            .expect("a valid block");
        let want: [(&[u8], &[u8]); 6] = [
            (b":status", b"200"),
            (b"etag", b"\"a\""),
            (b"set-cookie", b"a=b"),
            (b"x-empty", b""),
            (b"content-length", b"12"),
            (b"date", b"Sun, 06 Nov 1994 08:49:37 GMT"),
        ];
        assert_eq!(fields.iter().collect::<Vec<_>>(), want);
    }
}
