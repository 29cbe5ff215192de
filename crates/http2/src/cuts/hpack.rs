//! Properties of field compression for arbitrary input: encoder and decoder stay in step, and a block cut anywhere holds
//! the beginning of its fields or is an error.

use crate::hpack::{Bounds, Decoded, Decoder, Encoder, Error, Fields};

const WIDE: Bounds = Bounds {
    fields: 10_000,
    bytes: 1 << 22,
};

/// Decodes `data` as one block, whole and cut after each byte; encodes what it holds and decodes that again.
///
/// # Panics
/// If a cut block has other fields or another error than the whole one.
pub fn decode(data: &[u8]) {
    let block = |data: &[u8]| {
        let mut fields = Fields::default();
        (Decoder::new(4_096).decode(data, WIDE, &mut fields), fields)
    };
    let (result, whole) = block(data);
    for cut in 0..data.len() {
        let (part, fields) = block(&data[..cut]);
        assert!(
            whole.iter().zip(fields.iter()).all(|(a, b)| a == b),
            "cut at {cut}"
        );
        assert!(fields.len() <= whole.len(), "cut at {cut}");
        let expected = matches!(part, Ok(_) | Err(Error::Truncated)) || part == result;
        assert!(expected, "cut at {cut}: {part:?}, whole: {result:?}");
    }
    let (mut encoder, mut again) = (Encoder::new(4_096), Vec::new());
    encoder.begin(&mut again);
    for (name, value) in whole.iter() {
        encoder.field(name, value, &mut again);
    }
    let (result, fields) = block(&again);
    assert_eq!(result, Ok(Decoded::Whole));
    assert!(fields.iter().eq(whole.iter()), "what was encoded is decoded");
}

/// Reads `data` as a conversation: the limit of the encoder, then fields, ends of blocks, limits of the decoder, and
/// clearing of the encoder's table.
///
/// # Panics
/// If the decoder reads other fields, fails, or has another table than the encoder after a block.
pub fn encode(data: &[u8]) {
    let mut data = data.iter().copied();
    let own = 16 * usize::from(data.next().unwrap_or(0));
    let (mut encoder, mut decoder) = (Encoder::new(own), Decoder::new(4_096));
    let (mut limit, mut sent) = (4_096, Fields::default());
    while let Some(operation) = data.next() {
        let argument = data.next().unwrap_or(0);
        match operation {
            0..32 => {
                limit = 32 * usize::from(argument);
                encoder.set_peer_limit(limit);
                decoder.set_table_limit(limit);
            }
            32..40 => encoder.clear(),
            40..96 => {
                compare(&mut encoder, &mut decoder, &sent);
                assert!(encoder.table().1 <= own.min(limit));
                sent.clear();
            }
            _ => {
                let name = NAMES[usize::from(operation) % NAMES.len()];
                // Few values, so that fields repeat; some long, some in Huffman code, some that have none that is shorter.
                let value = [argument & 7; 70];
                let length = usize::from(argument >> 3) * 2;
                let letters = value.map(|byte| byte + b'a');
                sent.push(
                    name,
                    if argument & 8 == 0 {
                        &letters[..length]
                    } else {
                        &value[..length]
                    },
                );
            }
        }
    }
    compare(&mut encoder, &mut decoder, &sent);
}

const NAMES: [&[u8]; 9] = [
    b":method",
    b":path",
    b"accept",
    b"authorization",
    b"cookie",
    b"date",
    b"etag",
    b"x-own",
    b"x-a-much-longer-name-of-a-field",
];

fn compare(encoder: &mut Encoder, decoder: &mut Decoder, sent: &Fields) {
    let (mut block, mut received) = (Vec::new(), Fields::default());
    encoder.begin(&mut block);
    for (at, (name, value)) in sent.iter().enumerate() {
        match at % 5 {
            4 => encoder.sensitive(name, value, &mut block),
            _ => encoder.field(name, value, &mut block),
        }
    }
    let result = decoder.decode(&block, WIDE, &mut received);
    assert_eq!(result, Ok(Decoded::Whole));
    assert!(received.iter().eq(sent.iter()), "the fields arrive");
    let ((ours, size), (theirs, their_size)) = (encoder.table(), decoder.table());
    assert!(ours.eq(theirs) && size == their_size, "the tables are equal");
}
