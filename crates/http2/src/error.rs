//! Error codes (RFC 9113 section 7), and the two extents of an error: one stream, or the whole connection.

use core::fmt;

/// An error code as RST_STREAM and GOAWAY carry it. Unknown codes are kept as received.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u32);

#[expect(missing_docs, reason = "each is the code of that name in RFC 9113 section 7")]
impl Code {
    pub const NO_ERROR: Code = Code(0);
    pub const PROTOCOL_ERROR: Code = Code(1);
    pub const INTERNAL_ERROR: Code = Code(2);
    pub const FLOW_CONTROL_ERROR: Code = Code(3);
    pub const SETTINGS_TIMEOUT: Code = Code(4);
    pub const STREAM_CLOSED: Code = Code(5);
    pub const FRAME_SIZE_ERROR: Code = Code(6);
    pub const REFUSED_STREAM: Code = Code(7);
    pub const CANCEL: Code = Code(8);
    pub const COMPRESSION_ERROR: Code = Code(9);
    pub const CONNECT_ERROR: Code = Code(10);
    pub const ENHANCE_YOUR_CALM: Code = Code(11);
    pub const INADEQUATE_SECURITY: Code = Code(12);
    pub const HTTP_1_1_REQUIRED: Code = Code(13);
}

const NAMES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {:#x}", self.0),
        }
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An error of the peer, by what it ends (RFC 9113 section 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends with GOAWAY. The text names the violated rule.
    Connection(Code, &'static str),
    /// The stream ends with RST_STREAM; the connection continues.
    Stream(u32, Code, &'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Connection(code, text) => write!(f, "{text} ({code})"),
            Fault::Stream(id, code, text) => write!(f, "stream {id}: {text} ({code})"),
        }
    }
}

impl std::error::Error for Fault {}

/// A call that does not fit the state of the connection or stream: always the caller's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// The stream does not exist (any more), for example because the peer has reset it.
    Gone,
    /// The call is out of order: a second response, or bytes after the end.
    Order,
    /// The peer's limit on concurrent streams is reached, or it sent GOAWAY, or stream identifiers are used up.
    Full,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Misuse::Gone => "the stream does not exist",
            Misuse::Order => "the call does not fit the state of the stream",
            Misuse::Full => "the connection accepts no further stream now",
        })
    }
}

impl std::error::Error for Misuse {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_the_rfc() {
        assert_eq!(Code::HTTP_1_1_REQUIRED.to_string(), "HTTP_1_1_REQUIRED");
        assert_eq!(Code::ENHANCE_YOUR_CALM.to_string(), "ENHANCE_YOUR_CALM");
        assert_eq!(Code(77).to_string(), "error code 0x4d");
    }
}
