//! What an application did that the specifications forbid.

use core::fmt;

/// A fault of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A record has another version than 1; the version.
    Version(u8),
    /// A record belongs to a request that is not under way; its id.
    Request(u16),
    /// A record has a type that only web servers send, or none of the specification; the type.
    Kind(u8),
    /// More management records than an application has a reason to send.
    Management,
    /// Output follows the end of its stream.
    AfterEnd,
    /// `FCGI_END_REQUEST` has less content than the specification gives it; its length in bytes.
    ShortEnd(u16),
    /// The head of the response exceeds the bound of [`head::HEAD_MAX`](crate::head::HEAD_MAX) bytes.
    LongHead,
    /// The output ends before the head of the response does.
    NoHead,
    /// The head of the response has no field.
    EmptyHead,
    /// The head of the response has more than [`head::FIELDS_MAX`](crate::head::FIELDS_MAX) fields.
    ManyFields,
    /// A line of the head is no field.
    Field,
    /// `Status` is no status of a final response, or there are two.
    Status,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Version(version) => write!(
                f,
                "a record of version {version} instead of 1 (is this a server of HTTP?)"
            ),
            Fault::Request(id) => write!(f, "a record for request {id}, which is not under way"),
            Fault::Kind(kind) => write!(f, "a record of type {kind}, which applications do not send"),
            Fault::Management => f.write_str("too many management records"),
            Fault::AfterEnd => f.write_str("output after the end of its stream"),
            Fault::ShortEnd(length) => {
                write!(f, "FCGI_END_REQUEST with {length} bytes instead of 8")
            }
            Fault::LongHead => f.write_str("a response head of more than 64 KiB"),
            Fault::NoHead => f.write_str("output without the blank line that ends the response head"),
            Fault::EmptyHead => f.write_str("a response head without a field"),
            Fault::ManyFields => f.write_str("a response head with more than 256 fields"),
            Fault::Field => f.write_str("a response head with a line that is no field"),
            Fault::Status => f.write_str("a response head with an invalid `Status`"),
        }
    }
}

impl core::error::Error for Fault {}
