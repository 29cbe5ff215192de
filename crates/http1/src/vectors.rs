//! Test support: the format of the conformance vectors in `testdata/http/*.md`.
//!
//! A vector is a heading, a sentence that names its section, a fenced block with the message and one with the
//! expected events. The words after the fence name the parser. In a message, the file's own line ends mean
//! nothing; `\r`, `\n`, `\t`, `\0`, `\\` and `\xHH` are bytes, and `{a*300}` is a byte three hundred times.

/// Every message of a file, with the words after its fence.
///
/// # Panics
/// If a message has an escape this format does not know.
pub fn messages(text: &str) -> Vec<(String, Vec<u8>)> {
    let mut messages = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            if kind != "events" {
                messages.push((kind.to_owned(), bytes(&block)));
            }
        }
    }
    messages
}

/// The bytes a message block stands for.
pub(crate) fn bytes(block: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in block {
        let mut rest = line.as_bytes();
        while let Some((&b, after)) = rest.split_first() {
            rest = after;
            match (b, after) {
                (b'\\', [b'x', high, low, ..]) => {
                    let digit = |d: u8| {
                        (d as char)
                            .to_digit(16)
                            .expect("\\x takes two hexadecimal digits")
                    };
                    out.push((digit(*high) << 4 | digit(*low)) as u8);
                    rest = &after[3..];
                }
                (b'\\', [escape, ..]) => {
                    out.push(match escape {
                        b'r' => b'\r',
                        b'n' => b'\n',
                        b't' => b'\t',
                        b'0' => 0,
                        b'\\' => b'\\',
                        _ => panic!("unknown escape in {line}"),
                    });
                    rest = &after[1..];
                }
                (b'{', [repeated, b'*', ..]) => {
                    let close = memchr::memchr(b'}', after).expect("a repetition is closed");
                    let times = core::str::from_utf8(&after[2..close]).expect("digits");
                    out.extend(core::iter::repeat_n(*repeated, times.parse().expect("a count")));
                    rest = &after[close + 1..];
                }
                _ => out.push(b),
            }
        }
    }
    out
}
