//! Escapes client bytes in log lines: no client can end a field or a line, or send a control sequence to a terminal.
//!
//! The common format uses Apache's escapes (`\"`, `\\`, `\n`, `\x1b`). It also escapes bytes above ASCII, so that its
//! lines are always ASCII. JSON keeps valid UTF-8 and writes any other byte as the text `\xff`.

/// Number of bytes that are checked together.
const BLOCK: usize = 16;

/// Whether no byte needs escaping in a quoted ASCII field.
fn is_plain(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    // Padded with spaces, which need no escaping.
    let mut last = [b' '; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    blocks.iter().all(is_plain_block) && is_plain_block(&last)
}

/// Whether no byte of a block needs escaping. With a fixed length and without an early exit, this compiles to a few vector
/// instructions; a loop over a slice took 15 instructions per byte.
#[inline]
fn is_plain_block(block: &[u8; BLOCK]) -> bool {
    let escaped = block.iter().fold(0_u8, |escaped, &b| {
        escaped | u8::from(!(0x20..0x7f).contains(&b)) | u8::from(b == b'"') | u8::from(b == b'\\')
    });
    escaped == 0
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `bytes`, escaped for a quoted field of the common or combined format.
#[inline]
pub(super) fn push_clf(out: &mut Vec<u8>, bytes: &[u8]) {
    if is_plain(bytes) {
        out.extend_from_slice(bytes);
    } else {
        push_clf_escaped(out, bytes);
    }
}

#[cold]
fn push_clf_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for &b in bytes {
        match b {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x20..0x7f => out.push(b),
            _ => push_hex(out, b"\\x", b),
        }
    }
}

/// Appends `bytes`, escaped for a JSON string.
#[inline]
pub(super) fn push_json(out: &mut Vec<u8>, bytes: &[u8]) {
    if is_plain(bytes) {
        out.extend_from_slice(bytes);
    } else {
        push_json_escaped(out, bytes);
    }
}

#[cold]
fn push_json_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend_from_slice(&[b'\\', c as u8]),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\0'..' ' | '\x7f'..='\u{9f}' => push_hex(out, b"\\u00", c as u8),
                // Line and paragraph separators and direction overrides could make a line look like a different one on
                // a screen.
                '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    out.extend_from_slice(b"\\u");
                    let code = c as u32;
                    push_hex(out, b"", (code >> 8) as u8);
                    push_hex(out, b"", code as u8);
                }
                _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for &b in chunk.invalid() {
            push_hex(out, b"\\\\x", b);
        }
    }
}

fn push_hex(out: &mut Vec<u8>, prefix: &[u8], b: u8) {
    out.extend_from_slice(prefix);
    out.extend_from_slice(&[HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_clf_field() {
        for (bytes, want) in [
            (&b"/plain?x=1"[..], &b"/plain?x=1"[..]),
            (b"a\"b\\c", b"a\\\"b\\\\c"),
            (b"x\r\ny\t\x1b[31m", b"x\\r\\ny\\t\\x1b[31m"),
            ("é".as_bytes(), b"\\xc3\\xa9"),
            (b"\x00\x7f\xff", b"\\x00\\x7f\\xff"),
        ] {
            let mut out = Vec::new();
            push_clf(&mut out, bytes);
            assert_eq!(out, want);
        }
    }

    #[test]
    fn the_check_in_blocks_changes_no_byte() {
        let around = |len: usize| [len - 1, len, len + 1];
        for len in [around(1), around(BLOCK), around(2 * BLOCK)].concat() {
            for at in 0..len {
                for byte in 0..=u8::MAX {
                    let mut bytes = vec![b'a'; len];
                    bytes[at] = byte;
                    let (mut clf, mut json) = (Vec::new(), Vec::new());
                    push_clf(&mut clf, &bytes);
                    push_json(&mut json, &bytes);
                    let (mut byte_by_byte, mut char_by_char) = (Vec::new(), Vec::new());
                    push_clf_escaped(&mut byte_by_byte, &bytes);
                    push_json_escaped(&mut char_by_char, &bytes);
                    assert_eq!(clf, byte_by_byte, "{byte:#x} at {at} of {len}");
                    assert_eq!(json, char_by_char, "{byte:#x} at {at} of {len}");
                }
            }
        }
    }

    #[test]
    fn any_bytes_make_a_json_string_on_one_line() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in [
            &all[..],
            "é\u{2028}\u{202e}\"\\\n\u{1f600}\u{85}".as_bytes(),
            b"\xff\xfe",
            b"\xe2\x28\xa1",
        ] {
            let mut out = b"\"".to_vec();
            push_json(&mut out, bytes);
            out.push(b'"');
            let text = String::from_utf8(out).expect("JSON is UTF-8");
            assert!(text.chars().all(|c| !c.is_control()), "{text}");
            serde_json::from_str::<String>(&text).expect("a JSON string");
        }
    }
}
