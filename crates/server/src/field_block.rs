//! Field lines as a field block of HTTP/2 (HPACK, RFC 7541) or a section of HTTP/3 (QPACK, RFC 9204): references to the static
//! table and literals only, so that a block can be made once and sent over any connection.

use crate::field_list::FieldList;
use http2::hpack;
use http3::qpack;

/// How a protocol compresses fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Compression {
    /// HTTP/2.
    Hpack,
    /// HTTP/3.
    Qpack,
}

impl Compression {
    /// How many there are.
    pub(crate) const COUNT: usize = 2;

    /// The block of 200 with these lines and this length: what a cached file is answered with.
    pub(crate) fn prepared(self, fields: FieldList<'_>, len: u64) -> Box<[u8]> {
        let mut block = Vec::with_capacity(fields.text().len());
        self.status(200, &mut block);
        self.lines(fields, &mut block);
        self.length(len, &mut block);
        block.into()
    }

    /// Begins a block: with nothing, or with the prefix of a section (RFC 9204 section 4.5.1).
    pub(crate) fn begin(self, block: &mut Vec<u8>) {
        match self {
            Compression::Hpack => {}
            Compression::Qpack => qpack::block::begin(block),
        }
    }

    /// Begins a block with `:status`.
    pub(crate) fn status(self, status: u16, block: &mut Vec<u8>) {
        self.begin(block);
        match self {
            Compression::Hpack => hpack::block::status(status, block),
            Compression::Qpack => qpack::block::status(status, block),
        }
    }

    /// Appends `content-length`.
    pub(crate) fn length(self, len: u64, block: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        self.field(b"content-length", digits.format(len).as_bytes(), block);
    }

    /// Appends `date`. Not compressed, because it is new every second: a literal whose name is in the static table (RFC 7541
    /// section 6.2.2, RFC 9204 section 4.5.4).
    pub(crate) fn date(self, date: &[u8], block: &mut Vec<u8>) {
        match self {
            Compression::Hpack => block.extend_from_slice(&[0x0f, 0x12]),
            Compression::Qpack => block.push(0x56),
        }
        block.push(date.len() as u8);
        block.extend_from_slice(date);
    }

    /// Appends lines, with their names in lower case. Those that are about a connection of HTTP/1 are left out: they would
    /// make the answer malformed (RFC 9113 section 8.2.2, RFC 9114 section 4.2).
    pub(crate) fn lines(self, fields: FieldList<'_>, block: &mut Vec<u8>) {
        for (name, value) in fields.iter() {
            let name = name.to_ascii_lowercase();
            match &name[..] {
                b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {}
                b"set-cookie" => self.sensitive(&name, value, block),
                name => self.field(name, value, block),
            }
        }
    }

    /// Appends a field; its name is in lower case.
    pub(crate) fn field(self, name: &[u8], value: &[u8], block: &mut Vec<u8>) {
        match self {
            Compression::Hpack => hpack::block::field(name, value, block),
            Compression::Qpack => qpack::block::field(name, value, block),
        }
    }

    fn sensitive(self, name: &[u8], value: &[u8], block: &mut Vec<u8>) {
        match self {
            Compression::Hpack => hpack::block::sensitive(name, value, block),
            Compression::Qpack => qpack::block::sensitive(name, value, block),
        }
    }

    /// Bytes of the header of a HEADERS frame with a block of this size (RFC 9113 section 4.1, RFC 9114 section 7.1).
    pub(crate) fn frame_header(self, block: usize) -> usize {
        match self {
            Compression::Hpack => 9,
            Compression::Qpack => 1 + http3::varint::len(block as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_semantics::compression::{Bounds, Fields};

    const BOUNDS: Bounds = Bounds {
        fields: 10,
        bytes: 1_000,
    };

    #[test]
    fn a_block_says_what_the_lines_say() {
        let list = b"ETag: \"a\"\r\nConnection: close\r\nSet-Cookie: a=b\r\nX-Empty:\r\n";
        let want: [(&[u8], &[u8]); 6] = [
            (b":status", b"200"),
            (b"etag", b"\"a\""),
            (b"set-cookie", b"a=b"),
            (b"x-empty", b""),
            (b"content-length", b"12"),
            (b"date", b"Sun, 06 Nov 1994 08:49:37 GMT"),
        ];
        for compression in [Compression::Hpack, Compression::Qpack] {
            let mut block = compression.prepared(FieldList::of(list), 12).into_vec();
            compression.date(b"Sun, 06 Nov 1994 08:49:37 GMT", &mut block);
            let mut fields = Fields::default();
            match compression {
                Compression::Hpack => {
                    hpack::Decoder::new(0)
                        .decode(&block, BOUNDS, &mut fields)
                        .expect("a valid block");
                }
                Compression::Qpack => {
                    let decoder = qpack::Decoder::new(0);
                    let section = decoder.open(&block).expect("a valid prefix");
                    decoder
                        .decode(section, &block, BOUNDS, &mut fields)
                        .expect("a valid section");
                }
            }
            assert_eq!(fields.iter().collect::<Vec<_>>(), want, "{compression:?}");
        }
    }
}
