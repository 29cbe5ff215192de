//! RFC 9204 appendix B, all of it; errors of the decoder; blocks of our own.

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

fn lines<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Vec<String> {
    let show = |text: &'f [u8]| String::from_utf8_lossy(text);
    fields
        .map(|(name, value)| format!("{}: {}", show(name), show(value)))
        .collect()
}

/// Decodes a section; returns its fields and the acknowledgment.
fn decoded(decoder: &mut Decoder, stream: u64, block: &[u8]) -> Result<(Vec<String>, Vec<u8>), Error> {
    let section = decoder.open(block)?;
    assert!(section.required <= decoder.inserted(), "blocked");
    let (mut fields, mut out) = (Fields::default(), Vec::new());
    assert_eq!(decoder.decode(section, block, WIDE, &mut fields)?, Decoded::Whole);
    decoder.acknowledge(stream, section, &mut out);
    Ok((lines(fields.iter()), out))
}

fn check_table(decoder: &Decoder, entries: &[&str], size: usize) {
    let (found, bytes) = decoder.table();
    assert_eq!(
        (lines(found), bytes),
        (entries.iter().map(|&line| line.to_owned()).collect(), size)
    );
}

/// Appendix B.1 to B.5 on one connection, whose decoder permits a table of 220 bytes.
#[test]
fn appendix_b() {
    let mut decoder = Decoder::new(220);
    // B.1: a literal with a name of the static table.
    let block = hex("0000 510b 2f69 6e64 6578 2e68 746d 6c");
    let (fields, acknowledgment) = decoded(&mut decoder, 0, &block).unwrap();
    assert_eq!(fields, [":path: /index.html"]);
    assert_eq!(acknowledgment, [], "no entry was needed");

    // B.2: two insertions, and a section that refers to both behind the base. It came first: it is blocked.
    let block = hex("0381 10 11");
    assert_eq!(decoder.open(&block).unwrap().required, 2);
    assert_eq!(decoder.inserted(), 0);
    let instructions =
        hex("3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d c10c 2f73 616d 706c 652f 7061 7468");
    decoder.instructions(&instructions).unwrap();
    check_table(
        &decoder,
        &[":path: /sample/path", ":authority: www.example.com"],
        106,
    );
    let (fields, acknowledgment) = decoded(&mut decoder, 4, &block).unwrap();
    assert_eq!(fields, [":authority: www.example.com", ":path: /sample/path"]);
    assert_eq!(acknowledgment, hex("84"));
    let mut out = Vec::new();
    decoder.announce(&mut out);
    assert_eq!(out, [], "the acknowledgment said it");

    // B.3: a literal name.
    let instructions = hex("4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565");
    decoder.instructions(&instructions).unwrap();
    let custom = "custom-key: custom-value";
    check_table(
        &decoder,
        &[custom, ":path: /sample/path", ":authority: www.example.com"],
        160,
    );
    decoder.announce(&mut out);
    assert_eq!(out, hex("01"));

    // B.4: a duplicate; a section that refers to it; the cancellation of the stream.
    decoder.instructions(&hex("02")).unwrap();
    let all = [
        ":authority: www.example.com",
        custom,
        ":path: /sample/path",
        ":authority: www.example.com",
    ];
    check_table(&decoder, &all, 217);
    let block = hex("0500 80 c1 81");
    let (fields, _) = decoded(&mut decoder, 8, &block).unwrap();
    assert_eq!(fields, [":authority: www.example.com", ":path: /", custom]);
    out.clear();
    decoder.cancel(8, &mut out);
    assert_eq!(out, hex("48"));

    // B.5: an insertion with a name of the dynamic table evicts the oldest entry.
    let instructions = hex("810d 6375 7374 6f6d 2d76 616c 7565 32");
    decoder.instructions(&instructions).unwrap();
    let all = [
        "custom-key: custom-value2",
        ":authority: www.example.com",
        custom,
        ":path: /sample/path",
    ];
    check_table(&decoder, &all, 215);
    out.clear();
    decoder.announce(&mut out);
    assert_eq!(out, hex("01"), "one behind the four the acknowledgment covered");
}

#[test]
fn errors_of_sections() {
    for (block, expected) in [
        ("", Error::Truncated),
        ("00", Error::Truncated),
        ("0000 ff", Error::Truncated),
        ("0000 ff24", Error::Index),
        ("0000 80", Error::Index),
        ("0000 10", Error::Index),
        ("0000 40 00", Error::Index),
        ("0000 00 00", Error::Index),
        ("0000 51", Error::Truncated),
        ("0000 5105 61", Error::Truncated),
        ("0000 27ff ffff ffff ffff ffff ff 00", Error::Integer),
        // Padding with a zero bit.
        ("0000 5181 18", Error::Huffman),
        // A prefix beyond twice the six entries that fit, and a base below zero.
        ("0e00", Error::Prefix),
        ("0080", Error::Prefix),
        // A section that needs one insertion and refers to the second.
        ("0200 10", Error::Index),
    ] {
        let mut decoder = Decoder::new(220);
        decoder.instructions(&hex("3fbd01 c001 61 c001 62")).unwrap();
        assert_eq!(decoded(&mut decoder, 0, &hex(block)), Err(expected), "{block}");
    }
    let decoder = Decoder::new(0);
    assert_eq!(
        decoder.open(&hex("0100")),
        Err(Error::Prefix),
        "no table, no reference to it"
    );
}

#[test]
fn an_evicted_entry_is_gone() {
    let mut decoder = Decoder::new(64);
    decoder.instructions(&hex("3f21 c001 61 c001 62")).unwrap();
    check_table(&decoder, &[":authority: b"], 43);
    assert_eq!(decoded(&mut decoder, 0, &hex("0300 81")), Err(Error::Index));
    assert!(decoded(&mut decoder, 0, &hex("0300 80")).is_ok());
}

#[test]
fn errors_of_instructions() {
    for (limit, instructions, expected) in [
        (0, "21", Error::Capacity),
        (220, "3fbe01", Error::Capacity),
        // An insertion before a capacity, and a duplicate of nothing.
        (220, "c001 61", Error::Capacity),
        (220, "3fbd01 00", Error::Index),
        (220, "3fbd01 80 00", Error::Index),
        (220, "3fbd01 ff24 00", Error::Index),
        (220, "3fbd01 c081 18", Error::Huffman),
        (220, "3fff ffff ffff ffff ffff ff", Error::Integer),
    ] {
        let mut decoder = Decoder::new(limit);
        assert_eq!(
            decoder.instructions(&hex(instructions)),
            Err(expected),
            "{instructions}"
        );
    }
    assert_eq!(
        Decoder::new(0).instructions(&hex("20")),
        Ok(()),
        "a capacity of 0 is no error"
    );
}

#[test]
fn an_instruction_without_end_is_bounded() {
    let mut decoder = Decoder::new(100);
    decoder.instructions(&hex("3f45 c0 7fffff7f")).unwrap();
    let mut taken = 0;
    while decoder.instructions(b"a").is_ok() {
        taken += 1;
        assert!(decoder.memory() < 1_100, "{}", decoder.memory());
    }
    assert!((400..500).contains(&taken), "{taken}");
}

/// The Required Insert Count wraps at twice the entries that fit: all counts a section may need are told apart.
#[test]
fn the_required_insert_count_wraps() {
    let mut decoder = Decoder::new(100);
    decoder.instructions(&hex("3f45")).unwrap();
    for inserted in 1..50_u64 {
        decoder.instructions(&hex("c000")).unwrap();
        for required in inserted.saturating_sub(2).max(1)..=inserted + 3 {
            let encoded = (required % 6) as u8 + 1;
            assert_eq!(
                decoder.open(&[encoded, 0]).unwrap().required,
                required,
                "{inserted}"
            );
        }
    }
}

#[test]
fn bounds_cut_the_list() {
    let (mut block, mut whole) = (Vec::new(), Fields::default());
    block::begin(&mut block);
    for n in 0..10 {
        block::field(b"x-n", format!("{n}").as_bytes(), &mut block);
    }
    let decoder = Decoder::new(0);
    let section = decoder.open(&block).unwrap();
    for (fields, bytes, expected, len) in [
        (10, 360, Decoded::Whole, 10),
        (9, 360, Decoded::Oversized, 9),
        (10, 359, Decoded::Oversized, 9),
    ] {
        whole.clear();
        let bounds = Bounds { fields, bytes };
        assert_eq!(decoder.decode(section, &block, bounds, &mut whole), Ok(expected));
        assert_eq!(whole.len(), len);
    }
}

#[test]
fn forms_of_our_blocks() {
    let written = |write: fn(&[u8], &[u8], &mut Vec<u8>), name: &str, value: &str| {
        let mut out = Vec::new();
        write(name.as_bytes(), value.as_bytes(), &mut out);
        out
    };
    assert_eq!(written(block::field, ":method", "GET"), [0xc0 | 17]);
    assert_eq!(
        written(block::field, "x-frame-options", "sameorigin"),
        [0xff, 98 - 63]
    );
    assert_eq!(written(block::field, ":path", "~"), [0x51, 1, b'~']);
    assert_eq!(
        written(block::sensitive, ":method", "GET")[0],
        0x70 | 15,
        "never an index"
    );
    assert_eq!(written(block::sensitive, "~", "~"), [0x31, b'~', 1, b'~']);
    let mut out = Vec::new();
    block::status(200, &mut out);
    block::status(418, &mut out);
    assert_eq!(out[..2], [0xc0 | 25, 0x5f]);
}

#[test]
fn feedback_may_only_cancel() {
    for (bytes, is_valid) in [
        ("40 7e", true),
        ("7f00 7fffffffffffffff7f 41", true),
        ("7fffffffffffffffffff", false),
        ("80", false),
        ("00", false),
        ("01", false),
    ] {
        let mut whole = Feedback::default();
        assert_eq!(whole.instructions(&hex(bytes)).is_ok(), is_valid, "{bytes}");
        let mut cut = Feedback::default();
        let result = hex(bytes).iter().try_for_each(|&byte| cut.instructions(&[byte]));
        assert_eq!(result.is_ok(), is_valid, "{bytes}");
    }
}

proptest! {
    #[test]
    fn blocks_decode_to_their_fields(
        list in proptest::collection::vec(("[a-z-]{1,12}", proptest::collection::vec(any::<u8>(), 0..200)), 0..20)
    ) {
        let (mut coded, mut expected, mut fields) = (Vec::new(), Fields::default(), Fields::default());
        block::begin(&mut coded);
        for (at, (name, value)) in list.iter().enumerate() {
            expected.push(name.as_bytes(), value);
            match at % 2 {
                0 => block::field(name.as_bytes(), value, &mut coded),
                _ => block::sensitive(name.as_bytes(), value, &mut coded),
            }
        }
        let decoder = Decoder::new(0);
        let section = decoder.open(&coded).unwrap();
        prop_assert_eq!(decoder.decode(section, &coded, WIDE, &mut fields), Ok(Decoded::Whole));
        prop_assert!(fields.iter().eq(expected.iter()));
    }

    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        cuts::qpack(&data);
    }
}
