//! Decompresses a capture in gzip form while reading it. Recognizes gzip by its first two bytes, not by the file
//! name, so pipes may be compressed, too. Memory is one decompression window, whatever the file's size.

use flate2::read::MultiGzDecoder;
use std::io::{self, Chain, Cursor, Read};

/// Magic number of gzip (RFC 1952, section 2.3.1).
const MAGIC: [u8; 2] = [0x1f, 0x8b];

type Begun<R> = Chain<Cursor<Vec<u8>>, R>;

/// Input that may be compressed.
///
/// ```text
///   Fresh --two bytes, or the end--> Plain | Packed
/// ```
enum State<R> {
    /// The first bytes so far, and the rest of the input.
    Fresh(Vec<u8>, R),
    Plain(Begun<R>),
    Packed(Box<MultiGzDecoder<Begun<R>>>),
    /// Placeholder during a transition.
    Moving,
}

/// A reader that decompresses gzip input and passes other input through.
pub(super) struct Unpacked<R>(State<R>);

impl<R: Read> Unpacked<R> {
    pub(super) fn new(input: R) -> Unpacked<R> {
        Unpacked(State::Fresh(Vec::new(), input))
    }

    /// Whether the input is compressed.
    pub(super) fn is_packed(&self) -> bool {
        matches!(self.0, State::Packed(_))
    }

    /// Examines the first two bytes.
    fn begin(&mut self) -> io::Result<()> {
        while let State::Fresh(head, input) = &mut self.0 {
            let mut byte = [0];
            if head.len() < MAGIC.len() && input.read(&mut byte)? == 1 {
                head.push(byte[0]);
                continue;
            }
            if let State::Fresh(head, input) = std::mem::replace(&mut self.0, State::Moving) {
                let is_packed = head == MAGIC;
                let whole = Cursor::new(head).chain(input);
                self.0 = if is_packed {
                    State::Packed(Box::new(MultiGzDecoder::new(whole)))
                } else {
                    State::Plain(whole)
                };
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.begin()?;
        match &mut self.0 {
            State::Plain(input) => input.read(into),
            State::Packed(input) => input.read(into),
            State::Fresh(..) | State::Moving => Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    /// Returns one byte per read, as a slow pipe does.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = self.0.len().min(into.len()).min(1);
            self.0.read(&mut into[..n])
        }
    }

    #[test]
    fn packed_and_plain_input_read_the_same() {
        let data: Vec<u8> = (0..10_000u32).flat_map(u32::to_le_bytes).collect();
        // Joined gzip files have several members.
        let two = [packed(&data[..9_000]), packed(&data[9_000..])].concat();
        for (name, input, is_packed) in [
            ("plain", data.clone(), false),
            ("packed", packed(&data), true),
            ("two members", two, true),
        ] {
            let mut unpacked = Unpacked::new(Slow(&input));
            let mut out = Vec::new();
            unpacked.read_to_end(&mut out).expect(name);
            assert_eq!(out, data, "{name}");
            assert_eq!(unpacked.is_packed(), is_packed, "{name}");
        }
        for short in [&b""[..], b"\x1f"] {
            let mut out = Vec::new();
            Unpacked::new(short).read_to_end(&mut out).expect("no error");
            assert_eq!(out, short);
        }
        let whole = packed(&data);
        let mut out = Vec::new();
        let cut = &whole[..whole.len() - 20];
        let error = Unpacked::new(cut).read_to_end(&mut out).expect_err("cut short");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(!out.is_empty() && data.starts_with(&out));
    }
}
