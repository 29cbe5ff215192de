//! FastCGI 1.0 without I/O, as a web server speaks it with an application in the role of a responder.
//!
//! ```text
//!   request ──▶ params: name-value pairs ─┐
//!   content ──────────────────────────────┴▶ encode: records ──▶ application
//!   response ◀── head: CGI/1.1 ◀── STDOUT ◀─ decode: records ◀── application
//! ```
//! Sources: the [FastCGI specification](https://fastcgi-archives.github.io/FastCGI_Specification.html) of Open Market (1996)
//! and RFC 3875 (CGI/1.1). A connection carries one request at a time: multiplexing is optional for applications, and
//! php-fpm rejects it. Which parameters a request has, and what becomes of its response, only the caller knows.

pub mod decode;
pub mod encode;
mod fault;
pub mod head;
pub mod params;

pub use decode::{Decoder, Event};
pub use fault::Fault;

/// The version in each record.
const VERSION: u8 = 1;

/// Bytes of the header of a record.
const HEADER: usize = 8;

/// The id of the request on a connection.
const REQUEST: u16 = 1;

/// Types of records (section 8 of the specification).
mod kind {
    pub(crate) const BEGIN_REQUEST: u8 = 1;
    pub(crate) const END_REQUEST: u8 = 3;
    pub(crate) const PARAMS: u8 = 4;
    pub(crate) const STDIN: u8 = 5;
    pub(crate) const STDOUT: u8 = 6;
    pub(crate) const STDERR: u8 = 7;
}

/// Decodes arbitrary bytes of an application in two ways and compares the results: at once, and in pieces whose length the
/// first byte gives. Then parses what came on STDOUT as a head.
///
/// # Panics
/// The results differ, or a result breaks a bound.
#[doc(hidden)]
pub fn exercise(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else {
        return;
    };
    let piece = usize::from(first).max(1);
    let whole = decode::all(&[data]);
    let pieces: Vec<&[u8]> = data.chunks(piece).collect();
    assert_eq!(whole, decode::all(&pieces), "pieces of {piece} bytes");
    for out in [&whole.stdout[..], data] {
        let Some(end) = head::end(out, 0) else { continue };
        if let Ok(parsed) = head::parse(&out[..end]) {
            assert!((200..=999).contains(&parsed.status));
            assert!(parsed.fields.len() <= head::FIELDS_MAX);
            let is_clean = |value: &[u8]| !value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0));
            assert!(
                parsed
                    .fields
                    .iter()
                    .all(|(name, value)| !name.is_empty() && is_clean(value))
            );
        }
    }
}
