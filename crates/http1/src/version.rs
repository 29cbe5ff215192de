//! Protocol versions (RFC 9110 section 2.5, RFC 9112 section 2.3) of a received message.
//!
//! A minor version above 1 is processed as 1.1, the highest this crate implements.

use http_semantics::request::Protocol;

/// The version of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// A request line with only method and target; its response has no head and ends with the connection.
    Http09,
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1, or a later 1.x.
    Http11,
}

impl Version {
    /// The name as it stands in a message.
    pub const fn name(self) -> &'static str {
        self.protocol().name()
    }

    /// The version among all protocols.
    pub const fn protocol(self) -> Protocol {
        match self {
            Version::Http09 => Protocol::Http09,
            Version::Http10 => Protocol::Http10,
            Version::Http11 => Protocol::Http11,
        }
    }
}
