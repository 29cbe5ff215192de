//! Records for an application. Content is padded to a multiple of eight bytes, as the specification recommends (section 3.3).

use crate::{HEADER, REQUEST, VERSION, kind};

/// Most content of a record that is written here: the largest multiple of eight bytes that a record can have.
pub const CONTENT_MAX: usize = 65_528;

/// `FCGI_RESPONDER` (section 6.2).
const RESPONDER: u16 = 1;

/// `FCGI_KEEP_CONN` (section 5.1).
const KEEP_CONN: u8 = 1;

/// Appends the record that begins a request. `keeps`: the application leaves the connection open after its response.
pub fn begin(out: &mut Vec<u8>, keeps: bool) {
    let [high, low] = RESPONDER.to_be_bytes();
    let flags = if keeps { KEEP_CONN } else { 0 };
    record(out, kind::BEGIN_REQUEST, &[high, low, flags, 0, 0, 0, 0, 0]);
}

/// Appends the parameters of the request, which are complete: `pairs` are those of [`params::pair`](crate::params::pair).
pub fn params(out: &mut Vec<u8>, pairs: &[u8]) {
    stream(out, kind::PARAMS, pairs);
    record(out, kind::PARAMS, b"");
}

/// Appends content of the request.
pub fn stdin(out: &mut Vec<u8>, content: &[u8]) {
    stream(out, kind::STDIN, content);
}

/// Appends the end of the content.
pub fn end_stdin(out: &mut Vec<u8>) {
    record(out, kind::STDIN, b"");
}

/// Appends records for a piece of a stream. An empty piece needs none: an empty record would end the stream.
fn stream(out: &mut Vec<u8>, kind: u8, piece: &[u8]) {
    for content in piece.chunks(CONTENT_MAX) {
        record(out, kind, content);
    }
}

/// Appends a record with at most [`CONTENT_MAX`] bytes of content.
fn record(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    let padding = content.len().wrapping_neg() % 8;
    let [id_high, id_low] = REQUEST.to_be_bytes();
    let [high, low] = u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes();
    let header: [u8; HEADER] = [VERSION, kind, id_high, id_low, high, low, padding as u8, 0];
    out.reserve(HEADER + content.len() + padding);
    out.extend_from_slice(&header);
    out.extend_from_slice(content);
    out.extend_from_slice(&[0; 8][..padding]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_begun_as_the_specification_says() {
        let mut out = Vec::new();
        begin(&mut out, false);
        assert_eq!(out, [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        out.clear();
        begin(&mut out, true);
        assert_eq!(out[8..11], [0, 1, 1]);
    }

    #[test]
    fn content_is_padded_and_an_empty_record_ends_it() {
        let mut out = Vec::new();
        stdin(&mut out, b"");
        assert_eq!(out, b"", "it would end the stream");
        stdin(&mut out, b"abc");
        assert_eq!(out, b"\x01\x05\x00\x01\x00\x03\x05\x00abc\0\0\0\0\0");
        out.clear();
        end_stdin(&mut out);
        assert_eq!(out, [1, 5, 0, 1, 0, 0, 0, 0]);
        out.clear();
        params(&mut out, b"12345678");
        assert_eq!(
            out,
            b"\x01\x04\x00\x01\x00\x08\x00\x0012345678\x01\x04\x00\x01\x00\x00\x00\x00"
        );
    }

    #[test]
    fn long_content_takes_several_records() {
        let content: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
        let mut out = Vec::new();
        stdin(&mut out, &content);
        let (mut rest, mut got, mut records) = (&out[..], Vec::new(), 0);
        while let [1, 5, 0, 1, high, low, padding, 0, behind @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            assert!(length <= CONTENT_MAX && (length + usize::from(*padding)).is_multiple_of(8));
            got.extend_from_slice(&behind[..length]);
            rest = &behind[length + usize::from(*padding)..];
            records += 1;
        }
        assert_eq!((rest, got == content, records), (&b""[..], true, 4));
    }
}
