//! Writes request heads into a buffer (RFC 9112 section 3).
//!
//! Writes the request line and rejects targets, names and values that would corrupt the message.
//! [`crate::response::field`] writes field lines, which are alike in both directions.

use crate::error::Misuse;
use crate::scan::METHOD_BYTES_MAX;
use http_semantics::field::is_token_byte;
use http_semantics::target;

/// Appends `GET /path HTTP/1.1`, its line end and the `Host` line.
///
/// # Errors
/// [`Misuse::Unwritable`] if the method is not a token, the target is empty or contains a byte other than
/// visible ASCII, or the host is not `uri-host [":" port]`; nothing is written then.
pub fn line(out: &mut Vec<u8>, method: &str, target: &[u8], host: &[u8]) -> Result<(), Misuse> {
    let method_is_sound = (1..=METHOD_BYTES_MAX).contains(&method.len()) && method.bytes().all(is_token_byte);
    let target_is_sound = !target.is_empty() && target.iter().all(u8::is_ascii_graphic);
    if !method_is_sound || !target_is_sound || !target::is_authority(host) {
        return Err(Misuse::Unwritable);
    }
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(target);
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(host);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line() {
        let mut out = Vec::new();
        line(&mut out, "GET", b"/a?b", b"h:80").unwrap();
        assert_eq!(out, b"GET /a?b HTTP/1.1\r\nHost: h:80\r\n");
    }

    #[test]
    fn nothing_breaks_a_message_apart() {
        let mut out = Vec::new();
        let bad: [(&str, &[u8], &[u8]); 7] = [
            ("", b"/", b"h"),
            ("GE T", b"/", b"h"),
            ("GET", b"", b"h"),
            ("GET", b"/a b", b"h"),
            ("GET", b"/\r\n", b"h"),
            ("GET", b"/", b"h\r\nA: b"),
            ("GET", b"/", b"h/"),
        ];
        for (method, target, host) in bad {
            assert_eq!(line(&mut out, method, target, host), Err(Misuse::Unwritable));
        }
        assert!(out.is_empty());
    }
}
