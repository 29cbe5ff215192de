//! The head of a request, as every version of HTTP carries it (RFC 9110 section 6).
//!
//! What a version adds (framing, persistence, expectations) stays with the crate of that version.

use crate::field::{Fields, Name, Values};
use crate::method::Method;
use crate::target::Target;

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A path without version, host and fields; its response is content without a status.
    Http09,
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1, or a later 1.x.
    Http11,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
}

impl Protocol {
    /// The name, as access logs show it.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Http09 => "HTTP/0.9",
            Protocol::Http10 => "HTTP/1.0",
            Protocol::Http11 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2.0",
            Protocol::Http3 => "HTTP/3.0",
        }
    }
}

/// The head of a request; borrows the caller's bytes.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'b, 's> {
    /// Method.
    pub method: Method,
    /// Method as received, including unknown methods.
    pub method_name: &'b str,
    /// Target; its form is valid for the method.
    pub target: Target<'b>,
    /// Target as received; the `:path` of HTTP/2 and HTTP/3.
    pub target_raw: &'b [u8],
    /// Protocol that carried it.
    pub protocol: Protocol,
    /// The field lines.
    pub fields: Fields<'b, 's>,
}

impl<'b, 's> RequestHead<'b, 's> {
    /// The authority of the request: from the target, otherwise from `Host`. May be empty.
    pub fn authority(&self) -> Option<&'b [u8]> {
        self.target.authority().or_else(|| self.fields.get(Name::Host))
    }

    /// `User-Agent`.
    pub fn user_agent(&self) -> Option<&'b [u8]> {
        self.fields.get(Name::UserAgent)
    }

    /// `Referer`.
    pub fn referer(&self) -> Option<&'b [u8]> {
        self.fields.get(Name::Referer)
    }

    /// `Range`, if there is exactly one.
    pub fn range(&self) -> Option<&'b [u8]> {
        self.fields.single(Name::Range)
    }

    /// All `Accept-Encoding` lines; `None` if the field is absent.
    #[inline]
    pub fn accept_encoding(&self) -> Option<Values<'b, 's>> {
        self.fields
            .has(Name::AcceptEncoding)
            .then(|| self.fields.values(Name::AcceptEncoding))
    }
}
