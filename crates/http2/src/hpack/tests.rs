//! Vectors of RFC 7541 appendix C, errors, and round trips.

use super::*;
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

fn lines(fields: &Fields) -> Vec<String> {
    let show = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    fields
        .iter()
        .map(|(name, value)| format!("{}: {}", show(name), show(value)))
        .collect()
}

/// Appendices C.3 and C.4: the same three requests, plain and with Huffman code, over one table.
#[test]
fn requests_of_appendix_c() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let coded = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::new(4_096);
        let mut last = Vec::new();
        for block in blocks {
            let mut fields = Fields::default();
            assert_eq!(decoder.decode(&hex(block), WIDE, &mut fields), Ok(Decoded::Whole));
            last = lines(&fields);
        }
        let expected = [
            ":method: GET",
            ":scheme: https",
            ":path: /index.html",
            ":authority: www.example.com",
            "custom-key: custom-value",
        ];
        assert_eq!(last, expected);
    }
}

/// Appendix C.6: responses with Huffman code over a table of 256 bytes, with evictions.
#[test]
fn responses_of_appendix_c() {
    let blocks = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    let mut decoder = Decoder::new(256);
    let mut last = Vec::new();
    for block in blocks {
        let mut fields = Fields::default();
        assert_eq!(decoder.decode(&hex(block), WIDE, &mut fields), Ok(Decoded::Whole));
        last = lines(&fields);
    }
    let expected = [
        ":status: 200",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:22 GMT",
        "location: https://www.example.com",
        "content-encoding: gzip",
        "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    ];
    assert_eq!(last, expected);
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
}
