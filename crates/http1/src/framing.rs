//! Body length of a message: one function, in the order of RFC 9112 section 6.3.
//!
//! Both roles use it, so client and server cannot disagree. Ambiguous framing is a fault, because it enables
//! request smuggling.

use crate::error::Fault;
use crate::version::Version;
use http_semantics::field::{Fields, Name};
use http_semantics::method::Method;

/// How a body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    Empty,
    /// Exactly this many bytes; never zero.
    Length(u64),
    /// Chunks, then a trailer section.
    Chunked,
    /// Everything until the connection ends; responses only.
    UntilClose,
}

/// The message whose body is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A request.
    Request,
    /// A response with this status code, to a request with this method.
    Response {
        /// Method of the request.
        to: Method,
        /// Status code.
        status: u16,
    },
}

/// The length rule of a message.
///
/// # Errors
/// Any fault of `Content-Length`, `Transfer-Encoding` or their combination.
#[inline]
pub(crate) fn of(message: Message, version: Version, fields: &Fields<'_, '_>) -> Result<Framing, Fault> {
    // Most requests have neither field; a response always takes the full list.
    if message == Message::Request && !fields.has_any(&[Name::ContentLength, Name::TransferEncoding]) {
        return Ok(Framing::Empty);
    }
    in_order(message, version, fields)
}

fn in_order(message: Message, version: Version, fields: &Fields<'_, '_>) -> Result<Framing, Fault> {
    // Item 1: by method and status alone. Item 2 (a tunnel after CONNECT) never applies: this
    // crate's client sends no CONNECT.
    if let Message::Response { to, status } = message
        && (to == Method::Head || (100..200).contains(&status) || status == 204 || status == 304)
    {
        return Ok(Framing::Empty);
    }
    // Items 3 and 4: a transfer coding, which excludes a Content-Length.
    if fields.has(Name::TransferEncoding) {
        if fields.has(Name::ContentLength) {
            return Err(Fault::LengthAndCoding);
        }
        if version != Version::Http11 {
            return Err(Fault::CodingInOldVersion);
        }
        return transfer_coding(fields);
    }
    // Items 5 and 6: a length; all members must agree.
    if let Some(length) = content_length(fields)? {
        return Ok(if length == 0 {
            Framing::Empty
        } else {
            Framing::Length(length)
        });
    }
    // Items 7 and 8.
    Ok(match message {
        Message::Request => Framing::Empty,
        Message::Response { .. } => Framing::UntilClose,
    })
}

/// Accepts only `chunked`. A coding under `chunked` would have to be decoded before the content length is
/// known, and a response that does not end in `chunked` cannot be told from a truncated one, so both are
/// faults.
fn transfer_coding(fields: &Fields<'_, '_>) -> Result<Framing, Fault> {
    let mut codings = 0;
    let mut chunked = 0;
    let mut last_is_chunked = false;
    let mut unknown = false;
    for member in fields.values(Name::TransferEncoding).members() {
        codings += 1;
        last_is_chunked = member.eq_ignore_ascii_case(b"chunked");
        chunked += usize::from(last_is_chunked);
        unknown |= !last_is_chunked;
    }
    match () {
        () if codings == 0 || chunked > 1 || (chunked == 1 && !last_is_chunked) => {
            Err(Fault::TransferEncoding)
        }
        () if unknown => Err(Fault::CodingUnknown),
        () => Ok(Framing::Chunked),
    }
}

/// The length that all `Content-Length` lines agree on. RFC 9110 section 8.6 allows a list of equal values.
/// Equal lines are accepted, a list on one line is not: only an intermediary that joins lines would send it,
/// and such an intermediary can be misled.
pub(crate) fn content_length(fields: &Fields<'_, '_>) -> Result<Option<u64>, Fault> {
    let mut agreed = None;
    for value in fields.values(Name::ContentLength) {
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let length = http_semantics::field::decimal(value).ok_or(match is_number {
            true => Fault::ContentLengthTooLarge,
            false => Fault::ContentLength,
        })?;
        if agreed.is_some_and(|agreed| agreed != length) {
            return Err(Fault::ContentLengthDiffers);
        }
        agreed = Some(length);
    }
    Ok(agreed)
}

/// The persistence a `Connection` field asks for (RFC 9112 section 9.3, in its order).
#[inline]
pub(crate) fn persists(version: Version, fields: &Fields<'_, '_>) -> bool {
    match fields.single(Name::Connection) {
        // Fast path for nearly every client: no field, or this value alone.
        Some(b"keep-alive" | b"Keep-Alive") => version != Version::Http09,
        None if !fields.has(Name::Connection) => version == Version::Http11,
        _ => persists_by_list(version, fields),
    }
}

fn persists_by_list(version: Version, fields: &Fields<'_, '_>) -> bool {
    let mut keep_alive = false;
    for member in fields.values(Name::Connection).members() {
        if member.eq_ignore_ascii_case(b"close") {
            return false;
        }
        keep_alive |= member.eq_ignore_ascii_case(b"keep-alive");
    }
    version == Version::Http11 || (version == Version::Http10 && keep_alive)
}
