//! Error codes (RFC 9114 section 8.1, RFC 9204 section 6), and the two extents of an error: one stream, or the whole
//! connection.

use core::fmt;

/// An application error code of QUIC. Unknown codes are kept as received; RFC 9114 treats them like `H3_NO_ERROR`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u64);

macro_rules! codes {
    ($($name:ident = $code:literal $text:literal),* $(,)?) => {
        #[expect(missing_docs, reason = "each is the code of that name in RFC 9114 section 8.1 or RFC 9204 section 6")]
        impl Code {
            $(pub const $name: Code = Code($code);)*

            /// The name in the registry; `None` for an unknown code.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    NO_ERROR = 0x100 "H3_NO_ERROR",
    GENERAL_PROTOCOL_ERROR = 0x101 "H3_GENERAL_PROTOCOL_ERROR",
    INTERNAL_ERROR = 0x102 "H3_INTERNAL_ERROR",
    STREAM_CREATION_ERROR = 0x103 "H3_STREAM_CREATION_ERROR",
    CLOSED_CRITICAL_STREAM = 0x104 "H3_CLOSED_CRITICAL_STREAM",
    FRAME_UNEXPECTED = 0x105 "H3_FRAME_UNEXPECTED",
    FRAME_ERROR = 0x106 "H3_FRAME_ERROR",
    EXCESSIVE_LOAD = 0x107 "H3_EXCESSIVE_LOAD",
    ID_ERROR = 0x108 "H3_ID_ERROR",
    SETTINGS_ERROR = 0x109 "H3_SETTINGS_ERROR",
    MISSING_SETTINGS = 0x10a "H3_MISSING_SETTINGS",
    REQUEST_REJECTED = 0x10b "H3_REQUEST_REJECTED",
    REQUEST_CANCELLED = 0x10c "H3_REQUEST_CANCELLED",
    REQUEST_INCOMPLETE = 0x10d "H3_REQUEST_INCOMPLETE",
    MESSAGE_ERROR = 0x10e "H3_MESSAGE_ERROR",
    CONNECT_ERROR = 0x10f "H3_CONNECT_ERROR",
    VERSION_FALLBACK = 0x110 "H3_VERSION_FALLBACK",
    QPACK_DECOMPRESSION_FAILED = 0x200 "QPACK_DECOMPRESSION_FAILED",
    QPACK_ENCODER_STREAM_ERROR = 0x201 "QPACK_ENCODER_STREAM_ERROR",
    QPACK_DECODER_STREAM_ERROR = 0x202 "QPACK_DECODER_STREAM_ERROR",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
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

/// An error of the peer, by what it ends (RFC 9114 section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends with CONNECTION_CLOSE. The text names the violated rule.
    Connection(Code, &'static str),
    /// The stream ends with RESET_STREAM and STOP_SENDING; the connection continues.
    Stream(u64, Code, &'static str),
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
    /// The peer sent GOAWAY, or the connection is shutting down.
    Full,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Misuse::Gone => "the stream does not exist",
            Misuse::Order => "the call does not fit the state of the stream",
            Misuse::Full => "the connection accepts no further request",
        })
    }
}

impl std::error::Error for Misuse {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_the_registry() {
        assert_eq!(Code::VERSION_FALLBACK.to_string(), "H3_VERSION_FALLBACK");
        assert_eq!(
            Code::QPACK_DECODER_STREAM_ERROR.to_string(),
            "QPACK_DECODER_STREAM_ERROR"
        );
        assert_eq!(Code(0x21).to_string(), "error code 0x21");
    }
}
