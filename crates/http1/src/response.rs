//! Writes response heads into a buffer (RFC 9112 section 4).
//!
//! Writes status lines and field lines, and rejects names and values that would corrupt the message. The
//! server decides which fields a response has.

use crate::error::Misuse;
use http_semantics::field::is_token_byte;
use http_semantics::status::{Status, reason};

/// Appends `HTTP/1.1 200 OK` and its line end. The version is always the server's own, not the request's (RFC
/// 9110 section 2.5).
pub fn status_line(out: &mut Vec<u8>, status: Status) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends a field line.
///
/// # Errors
/// [`Misuse::Unwritable`] if the name is not a token or the value contains CR, LF or NUL; nothing is written
/// then.
pub fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) -> Result<(), Misuse> {
    let name_is_token = !name.is_empty() && name.bytes().all(is_token_byte);
    if !name_is_token || memchr::memchr3(b'\r', b'\n', 0, value).is_some() {
        return Err(Misuse::Unwritable);
    }
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Appends `Content-Length`.
pub fn content_length(out: &mut Vec<u8>, len: u64) {
    out.extend_from_slice(b"Content-Length: ");
    out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends the empty line that ends a head.
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// The interim response that tells the client to send the request's body (RFC 9110 section 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head() {
        let mut out = Vec::new();
        status_line(&mut out, Status::OK);
        field(&mut out, "Content-Type", b"text/html").unwrap();
        content_length(&mut out, 1_024);
        end(&mut out);
        assert_eq!(
            out,
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1024\r\n\r\n"
        );
    }

    #[test]
    fn a_status_nobody_registered_has_no_phrase() {
        let mut out = Vec::new();
        status_line(&mut out, Status::from_u16(299).unwrap());
        assert_eq!(out, b"HTTP/1.1 299 \r\n");
    }

    #[test]
    fn nothing_breaks_a_message_apart() {
        let mut out = Vec::new();
        for (name, value) in [
            ("", "v"),
            ("a b", "v"),
            ("a:", "v"),
            ("a", "v\r\nb: c"),
            ("a", "\n"),
            ("a", "\0"),
        ] {
            assert_eq!(
                field(&mut out, name, value.as_bytes()),
                Err(Misuse::Unwritable),
                "{name:?}: {value:?}"
            );
        }
        assert!(out.is_empty());
    }
}
