//! Errors of the decoder; encoder and decoder against each other. Appendix C is in `appendix`.

mod appendix;

use super::*;
use crate::cuts;
use proptest::prelude::*;

const WIDE: Bounds = Bounds {
    fields: 1_000,
    bytes: 1 << 20,
};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn errors() {
    for (block, expected) in [
        ("80", Error::Index),
        ("be", Error::Index),
        ("7fff ff", Error::Truncated),
        ("ffff ffff ff7f", Error::Integer),
        ("00", Error::Truncated),
        ("0001", Error::Truncated),
        ("3fe2 1f", Error::SizeUpdate),
        ("8220", Error::SizeUpdate),
        // Padding with a zero bit, a whole byte of padding, and EOS.
        ("0081 18 00", Error::Huffman),
        ("0082 1fff 00", Error::Huffman),
        ("0084 ffff ffff 00", Error::Huffman),
    ] {
        let result = Decoder::new(4_096).decode(&hex(block), WIDE, &mut Fields::default());
        assert_eq!(result, Err(expected), "{block}");
    }
    let mut decoder = Decoder::new(4_096);
    decoder.set_table_limit(100);
    let result = decoder.decode(&[0x82], WIDE, &mut Fields::default());
    assert_eq!(result, Err(Error::SizeUpdate), "an update is required");
    let result = decoder.decode(&hex("3f45 82"), WIDE, &mut Fields::default());
    assert_eq!(result, Ok(Decoded::Whole));
}

fn encoded(encoder: &mut Encoder, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    encoder.begin(&mut out);
    for (name, value) in fields {
        encoder.field(name.as_bytes(), value.as_bytes(), &mut out);
    }
    out
}

#[test]
fn a_repeated_field_costs_a_byte() {
    let mut encoder = Encoder::new(4_096);
    let date = [
        ("date", "Mon, 23 Nov 2026 12:00:00 GMT"),
        ("content-type", "text/html"),
    ];
    assert!(encoded(&mut encoder, &date).len() > 20);
    assert_eq!(encoded(&mut encoder, &date), [0x80 | 63, 0x80 | 62]);
}

#[test]
fn secrets_are_never_indexed_and_changing_values_are_not_indexed() {
    let long = "a".repeat(20);
    for (name, value, first) in [
        ("authorization", "Basic eA==", 0x1f),
        ("proxy-authorization", "Basic eA==", 0x1f),
        ("set-cookie", "a=b", 0x1f),
        ("cookie", "a=b", 0x1f),
        ("cookie", &long, 0x40 | 32),
        (":path", "/a", 0x04),
        ("etag", "\"1\"", 0x0f),
        ("content-length", "7", 0x0f),
        ("user-agent", "weir", 0x40 | 58),
        ("x-own", "1", 0x40),
    ] {
        let mut encoder = Encoder::new(4_096);
        let block = encoded(&mut encoder, &[(name, value)]);
        assert_eq!(block[0], first, "{name}: {value}");
        assert_eq!(
            encoder.memory() > 0,
            first & 0x40 != 0,
            "{name}: {value} is in the table"
        );
    }
    let mut encoder = Encoder::new(4_096);
    let mut out = Vec::new();
    encoder.sensitive(b"x-key", b"secret", &mut out);
    encoder.sensitive(b":method", b"GET", &mut out);
    assert_eq!((out[0], encoder.memory()), (0x10, 0));
    assert_eq!(
        out[out.len() - 5],
        0x10 | 2,
        "not even an index of the static table"
    );
}

#[test]
fn size_updates_announce_the_smallest_and_the_final_size() {
    let block = |encoder: &mut Encoder| encoded(encoder, &[]);
    let mut encoder = Encoder::new(4_096);
    assert_eq!(block(&mut encoder), [], "the initial size needs no update");
    encoder.set_peer_limit(65_536);
    assert_eq!(block(&mut encoder), [], "ours is the lower limit");
    for limit in [512, 100, 2_000] {
        encoder.set_peer_limit(limit);
    }
    assert_eq!(block(&mut encoder), hex("3f45 3fb10f"), "100, then 2,000");
    assert_eq!(block(&mut encoder), []);
    encoder.set_peer_limit(0);
    assert_eq!(block(&mut encoder), [0x20]);
    encoder.set_peer_limit(0);
    assert_eq!(block(&mut encoder), []);
    encoder.set_peer_limit(4_096);
    assert_eq!(block(&mut encoder), hex("3fe11f"));
    encoder.clear();
    assert_eq!(block(&mut encoder), hex("20 3fe11f"));

    let mut encoder = Encoder::new(64);
    assert_eq!(block(&mut encoder), hex("3f21"), "ours is below the initial one");
    encoder.set_peer_limit(100);
    assert_eq!(block(&mut encoder), [], "still ours");
}

/// Three quarters of the table for one field would leave nothing for the others.
#[test]
fn memory_is_bounded_and_large_fields_stay_out() {
    let mut encoder = Encoder::new(1_000);
    for n in 0..1_000 {
        encoded(&mut encoder, &[("x-n", &n.to_string())]);
    }
    assert!(encoder.memory() < 3_000, "{}", encoder.memory());
    let before = encoder.memory();
    let large = "a".repeat(800);
    assert_eq!(encoded(&mut encoder, &[("x-large", &large)])[0], 0);
    assert_eq!(encoder.memory(), before);
    encoder.clear();
    assert_eq!(encoder.memory(), 0);
}

proptest! {
    #[test]
    fn blocks_decode_to_their_fields(
        list in proptest::collection::vec(("[a-z-]{1,12}", proptest::collection::vec(any::<u8>(), 0..200)), 0..20)
    ) {
        let mut coded = Vec::new();
        let mut expected = Fields::default();
        for (at, (name, value)) in list.iter().enumerate() {
            expected.push(name.as_bytes(), value);
            match at % 2 {
                0 => block::field(name.as_bytes(), value, &mut coded),
                _ => block::sensitive(name.as_bytes(), value, &mut coded),
            }
        }
        let mut fields = Fields::default();
        prop_assert_eq!(Decoder::new(0).decode(&coded, WIDE, &mut fields), Ok(Decoded::Whole));
        prop_assert!(fields.iter().eq(expected.iter()));
    }

    /// Encoder and decoder stay in step through blocks, size changes and clearing; a block cut anywhere holds a beginning.
    #[test]
    fn both_directions(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        cuts::hpack(&data);
    }
}
