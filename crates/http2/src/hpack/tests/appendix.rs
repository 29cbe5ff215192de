//! RFC 7541 appendix C, all of it: integers, the four forms of a field, and three sequences of requests and responses with
//! the dynamic table after each.

use super::super::block::integer;
use super::*;

/// C.1: an integer, the bits of its prefix, its bytes.
#[test]
fn integers() {
    for (value, bits, expected) in [(10, 5, "0a"), (1_337, 5, "1f9a0a"), (42, 8, "2a")] {
        let mut out = Vec::new();
        integer(value, bits, 0, &mut out);
        assert_eq!(out, hex(expected), "{value}");
    }
}

fn lines<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Vec<String> {
    let show = |text: &'f [u8]| String::from_utf8_lossy(text);
    fields
        .map(|(name, value)| format!("{}: {}", show(name), show(value)))
        .collect()
}

/// Decodes one block; compares its fields, then the table newest first and its size.
fn check(decoder: &mut Decoder, block: &str, fields: &[&str], table: &[&str], size: usize) {
    let mut out = Fields::default();
    assert_eq!(
        decoder.decode(&hex(block), WIDE, &mut out),
        Ok(Decoded::Whole),
        "{block}"
    );
    assert_eq!(lines(out.iter()), fields, "{block}");
    let (entries, bytes) = decoder.table();
    assert_eq!(lines(entries), table, "{block}");
    assert_eq!(bytes, size, "{block}");
}

/// C.2: each form of a field, over an empty table.
#[test]
fn forms() {
    let forms: [(&str, &str, &[&str], usize); 4] = [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key: custom-header",
            &["custom-key: custom-header"],
            55,
        ),
        (
            "040c 2f73 616d 706c 652f 7061 7468",
            ":path: /sample/path",
            &[],
            0,
        ),
        (
            "1008 7061 7373 776f 7264 0673 6563 7265 74",
            "password: secret",
            &[],
            0,
        ),
        ("82", ":method: GET", &[], 0),
    ];
    for (block, field, table, size) in forms {
        check(&mut Decoder::new(4_096), block, &[field], table, size);
    }
}

const REQUESTS: [&[&str]; 3] = [
    &[
        ":method: GET",
        ":scheme: http",
        ":path: /",
        ":authority: www.example.com",
    ],
    &[
        ":method: GET",
        ":scheme: http",
        ":path: /",
        ":authority: www.example.com",
        "cache-control: no-cache",
    ],
    &[
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ],
];

const HOST: &str = ":authority: www.example.com";

const REQUEST_TABLES: [(&[&str], usize); 3] = [
    (&[HOST], 57),
    (&["cache-control: no-cache", HOST], 110),
    (
        &["custom-key: custom-value", "cache-control: no-cache", HOST],
        164,
    ),
];

const PLAIN_REQUESTS: [&str; 3] = [
    "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
    "8286 84be 5808 6e6f 2d63 6163 6865",
    "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
];

const CODED_REQUESTS: [&str; 3] = [
    "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
    "8286 84be 5886 a8eb 1064 9cbf",
    "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
];

/// C.3 and C.4.
#[test]
fn requests() {
    for blocks in [PLAIN_REQUESTS, CODED_REQUESTS] {
        let mut decoder = Decoder::new(4_096);
        for (at, block) in blocks.into_iter().enumerate() {
            let (table, size) = REQUEST_TABLES[at];
            check(&mut decoder, block, REQUESTS[at], table, size);
        }
    }
}

const COOKIE: &str = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
const DATE: &str = "date: Mon, 21 Oct 2013 20:13:21 GMT";
const LATER: &str = "date: Mon, 21 Oct 2013 20:13:22 GMT";
const PRIVATE: &str = "cache-control: private";
const LOCATION: &str = "location: https://www.example.com";

/// C.5 and C.6: over a table of 256 bytes, so that entries are evicted.
#[test]
fn responses() {
    let fields: [&[&str]; 3] = [
        &[":status: 302", PRIVATE, DATE, LOCATION],
        &[":status: 307", PRIVATE, DATE, LOCATION],
        &[
            ":status: 200",
            PRIVATE,
            LATER,
            LOCATION,
            "content-encoding: gzip",
            COOKIE,
        ],
    ];
    let tables: [(&[&str], usize); 3] = [
        (&[LOCATION, DATE, PRIVATE, ":status: 302"], 222),
        (&[":status: 307", LOCATION, DATE, PRIVATE], 222),
        (&[COOKIE, "content-encoding: gzip", LATER], 215),
    ];
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 \
         3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 \
         7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 \
         6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ];
    let coded = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
         1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 \
         e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::new(256);
        for (at, block) in blocks.into_iter().enumerate() {
            let (table, size) = tables[at];
            check(&mut decoder, block, fields[at], table, size);
        }
    }
}

/// The encoder chooses the bytes of C.4: it codes what gets shorter and indexes what the examples index.
#[test]
fn the_encoder_writes_the_requests() {
    let mut encoder = Encoder::new(4_096);
    for (fields, expected) in REQUESTS.into_iter().zip(CODED_REQUESTS) {
        let pairs: Vec<_> = fields
            .iter()
            .map(|field| {
                let at = 1 + field[1..].find(": ").unwrap();
                (&field[..at], &field[at + 2..])
            })
            .collect();
        assert_eq!(encoded(&mut encoder, &pairs), hex(expected));
    }
}
