//! Sections and encoder streams that ls-qpack wrote (`testdata/record-qpack`), with dynamic tables of several sizes, some of them
//! before the entries they need.

use http3::qpack::{Bounds, Decoded, Decoder, Fields, Section};

const BOUNDS: Bounds = Bounds {
    fields: 100,
    bytes: 1 << 16,
};

fn hex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// A list of fields.
type List = Vec<(String, String)>;

/// A section that waits: its stream, prefix and bytes, and the list it holds.
type Waiting = (u64, Section, Vec<u8>, usize);

fn check(decoder: &mut Decoder, stream: u64, section: Section, block: &[u8], expected: &List) {
    let mut fields = Fields::default();
    assert_eq!(
        decoder.decode(section, block, BOUNDS, &mut fields),
        Ok(Decoded::Whole)
    );
    let expected = expected
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    assert!(fields.iter().eq(expected), "stream {stream}: {fields:?}");
    decoder.acknowledge(stream, section, &mut Vec::new());
}

#[test]
fn sections_of_another_encoder() {
    let mut lists: Vec<List> = Vec::new();
    let mut decoder = Decoder::new(0);
    let (mut waiting, mut blocked_max): (Vec<Waiting>, usize) = (Vec::new(), 0);
    let (mut sections, mut dynamic, mut blocked) = (0, 0, 0);
    for line in include_str!("../testdata/qpack.txt").lines() {
        if let Some((name, value)) = line.split_once('\t') {
            let list = lists.last_mut().expect("a list has begun");
            list.push((name.to_owned(), value.to_owned()));
            continue;
        }
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["list", _] => lists.push(List::new()),
            ["table", capacity, streams] => {
                assert!(
                    waiting.is_empty(),
                    "every section of the last connection was decoded"
                );
                decoder = Decoder::new(capacity.parse().expect("a number"));
                blocked_max = streams.parse().expect("a number");
            }
            ["encoder", bytes] => {
                decoder.instructions(&hex(bytes)).expect("ls-qpack is right");
                for (stream, section, block, list) in core::mem::take(&mut waiting) {
                    match section.required <= decoder.inserted() {
                        true => check(&mut decoder, stream, section, &block, &lists[list]),
                        false => waiting.push((stream, section, block, list)),
                    }
                }
            }
            ["section", stream, list, bytes] => {
                let (stream, block) = (stream.parse().expect("a number"), hex(bytes));
                let list: usize = list.parse().expect("a number");
                let section = decoder.open(&block).expect("ls-qpack is right");
                sections += 1;
                dynamic += usize::from(section.required > 0);
                if section.required > decoder.inserted() {
                    blocked += 1;
                    waiting.push((stream, section, block, list));
                    assert!(waiting.len() <= blocked_max);
                } else {
                    check(&mut decoder, stream, section, &block, &lists[list]);
                }
            }
            _ => panic!("a line of an unknown kind: {line}"),
        }
    }
    assert!(waiting.is_empty());
    assert!(
        sections == 4 * lists.len() && dynamic > sections / 3 && blocked >= 5,
        "{sections} sections, {dynamic} with the dynamic table, {blocked} blocked"
    );
}
