//! The binary encoding of protobuf (protobuf.dev, "Encoding"): as much of it as OTLP and Prometheus remote write need, in both
//! directions.

/// A value of variable length.
const VARINT: u8 = 0;
/// Eight bytes.
const FIXED64: u8 = 1;
/// Bytes with their length in front: text and messages.
const LENGTH: u8 = 2;
/// Four bytes.
const FIXED32: u8 = 5;

/// Appends seven bits a byte, the lowest ones first.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn tag(out: &mut Vec<u8>, field: u32, kind: u8) {
    varint(out, u64::from(field) << 3 | u64::from(kind));
}

/// Appends an unsigned number, or an enumeration.
pub(crate) fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, VARINT);
    varint(out, value);
}

/// Appends a signed number (`int64`), whose negative values take ten bytes.
pub fn signed(out: &mut Vec<u8>, field: u32, value: i64) {
    number(out, field, value.cast_unsigned());
}

/// Appends eight bytes.
pub(crate) fn fixed64(out: &mut Vec<u8>, field: u32, value: u64) {
    tag(out, field, FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a floating-point number (`double`).
pub fn double(out: &mut Vec<u8>, field: u32, value: f64) {
    fixed64(out, field, value.to_bits());
}

/// Appends four bytes.
pub(crate) fn fixed32(out: &mut Vec<u8>, field: u32, value: u32) {
    tag(out, field, FIXED32);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends bytes or text.
pub fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    tag(out, field, LENGTH);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends the message that `write` appends.
pub fn message(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    tag(out, field, LENGTH);
    let start = out.len();
    write(out);
    let mut length = Vec::with_capacity(5);
    varint(&mut length, (out.len() - start) as u64);
    out.splice(start..start, length);
}

/// A field of a message that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'b> {
    /// A number of variable length.
    Number(u64),
    /// Bytes, text or a message.
    Bytes(&'b [u8]),
    /// Four bytes.
    Fixed32(u32),
    /// Eight bytes.
    Fixed64(u64),
}

/// The fields of a message in order: number and value. Ends early where the bytes are no message.
#[derive(Clone, Debug)]
pub struct Fields<'b>(pub &'b [u8]);

impl<'b> Fields<'b> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for at in 0..10 {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f).checked_shl(7 * at)?;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = (u32, Value<'b>);

    fn next(&mut self) -> Option<(u32, Value<'b>)> {
        let tag = self.varint()?;
        let value = match (tag & 7) as u8 {
            VARINT => Value::Number(self.varint()?),
            LENGTH => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            FIXED64 => Value::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            FIXED32 => Value::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((u32::try_from(tag >> 3).ok()?, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_encoding_guide() {
        let mut out = Vec::new();
        number(&mut out, 1, 150);
        assert_eq!(out, [0x08, 0x96, 0x01]);
        out.clear();
        bytes(&mut out, 2, b"testing");
        assert_eq!(out, b"\x12\x07testing");
        out.clear();
        message(&mut out, 3, |out| number(out, 1, 150));
        assert_eq!(out, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        out.clear();
        signed(&mut out, 1, -2);
        assert_eq!(
            out,
            [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]
        );
        out.clear();
        fixed64(&mut out, 1, 1);
        fixed32(&mut out, 16, 1);
        assert_eq!(out, [0x09, 1, 0, 0, 0, 0, 0, 0, 0, 0x85, 0x01, 1, 0, 0, 0]);
    }

    #[test]
    fn a_sample_has_a_double_and_an_int64() {
        let mut out = Vec::new();
        double(&mut out, 1, 1.5);
        assert_eq!(out, [0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]);
        signed(&mut out, 2, 1_700_000_000_000);
        let fields: Vec<_> = Fields(&out).collect();
        assert_eq!(
            fields,
            [
                (1, Value::Fixed64(1.5_f64.to_bits())),
                (2, Value::Number(1_700_000_000_000))
            ]
        );
    }

    #[test]
    fn a_long_message_has_a_long_length() {
        let mut out = Vec::new();
        message(&mut out, 1, |out| bytes(out, 2, &[7; 300]));
        // The content is 300 bytes, with a tag and a length of two bytes.
        assert_eq!(out[..6], [0x0a, 0xaf, 0x02, 0x12, 0xac, 0x02]);
        let fields: Vec<_> = Fields(&out).collect();
        let [(1, Value::Bytes(inner))] = fields[..] else {
            panic!("{fields:?}");
        };
        assert_eq!(Fields(inner).collect::<Vec<_>>(), [(2, Value::Bytes(&[7; 300]))]);
    }

    proptest! {
        #[test]
        fn fields_are_read_as_they_were_written(fields in prop::collection::vec((1..1000_u32, any::<u64>(), any::<Vec<u8>>()), 0..8)) {
            let mut out = Vec::new();
            for (field, value, text) in &fields {
                number(&mut out, *field, *value);
                fixed64(&mut out, *field, *value);
                bytes(&mut out, *field, text);
            }
            let expected: Vec<_> = fields
                .iter()
                .flat_map(|(field, value, text)| {
                    [(*field, Value::Number(*value)), (*field, Value::Fixed64(*value)), (*field, Value::Bytes(text))]
                })
                .collect();
            prop_assert_eq!(Fields(&out).collect::<Vec<_>>(), expected);
        }

        #[test]
        fn no_bytes_are_read_for_ever(bytes in any::<Vec<u8>>()) {
            prop_assert!(Fields(&bytes).count() <= bytes.len());
        }
    }
}
