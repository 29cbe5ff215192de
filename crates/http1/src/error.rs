//! Protocol faults of a peer, and the one table of their status codes and effects on the connection.
//!
//! A [`Fault`] is always the peer's. A [`Misuse`] is always the caller's: a call out of order, or an invalid
//! name or value. The server decides how an error page looks.

use core::fmt;
use http_semantics::status::Status;
use http_semantics::target::BadTarget;

/// A violation of the protocol by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// The first byte cannot begin an HTTP message.
    NotHttp,
    /// A TLS record on a connection that speaks plain HTTP.
    Tls,
    /// The HTTP/2 connection preface ("prior knowledge", RFC 9113 section 3.4).
    Http2,
    /// The request line is not `method SP target SP version CRLF` (RFC 9112 section 3).
    RequestLine,
    /// The method is longer than any registered one could be (RFC 9112 section 3).
    MethodTooLong,
    /// The version is neither `HTTP/1.0` nor `HTTP/1.x`.
    Version,
    /// The request target has no valid form for its method (RFC 9112 section 3.2), or a bad
    /// percent-escape, or a control byte.
    Target,
    /// The request target is longer than the limit.
    TargetTooLong,
    /// The head is larger than the limit.
    HeadTooLarge,
    /// The head or trailer section has more field lines than the limit.
    TooManyFields,
    /// A field name is not a token, or white space stands before its colon, or the line is folded
    /// (RFC 9112 sections 5.1 and 5.2).
    FieldName,
    /// A field value contains a control byte.
    FieldValue,
    /// A carriage return without its line feed.
    BareCr,
    /// A line feed without its carriage return.
    BareLf,
    /// An HTTP/1.1 request without `Host` (RFC 9112 section 3.2).
    HostMissing,
    /// More than one `Host` line.
    HostRepeated,
    /// `Host` is not `uri-host [":" port]`.
    HostInvalid,
    /// `Content-Length` is not a decimal number.
    ContentLength,
    /// `Content-Length` is a decimal number of 2^63 or more (RFC 9110 section 8.6 requires recipients to
    /// expect it).
    ContentLengthTooLarge,
    /// Two `Content-Length` values differ.
    ContentLengthDiffers,
    /// Both `Content-Length` and `Transfer-Encoding` (RFC 9112 section 6.3, item 3).
    LengthAndCoding,
    /// `Transfer-Encoding` in an HTTP/1.0 message (RFC 9112 section 6.1).
    CodingInOldVersion,
    /// `Transfer-Encoding` is malformed, or `chunked` is missing, repeated or not last.
    TransferEncoding,
    /// A transfer coding other than `chunked`.
    CodingUnknown,
    /// A chunk size is not 1 to 16 hexadecimal digits.
    ChunkSize,
    /// A chunk extension is malformed.
    ChunkExtension,
    /// Chunk extensions of one body are longer than the limit.
    ChunkExtensionTooLong,
    /// A chunk's data is not followed by CRLF.
    ChunkEnd,
    /// The trailer section is larger than the limit.
    TrailerTooLarge,
    /// `Expect` with anything but `100-continue` (RFC 9110 section 10.1.1).
    Expectation,
    /// The connection ended inside a message.
    Truncated,
    /// The status line is not `version SP 3DIGIT [SP reason] CRLF` (RFC 9112 section 4).
    StatusLine,
    /// Bytes came from a server that owed no response.
    Unsolicited,
    /// `101 Switching Protocols` without an `Upgrade` request.
    Upgraded,
    /// More interim (1xx) responses than the limit before a final one.
    TooManyInterim,
}

impl From<BadTarget> for Fault {
    fn from(BadTarget: BadTarget) -> Fault {
        Fault::Target
    }
}

/// One fault: the status of the response, whether the connection can carry another request after that
/// response, and a sentence that names the fault.
struct Row {
    fault: Fault,
    status: u16,
    survives: bool,
    text: &'static str,
}

const fn row(fault: Fault, status: u16, survives: bool, text: &'static str) -> Row {
    Row {
        fault,
        status,
        survives,
        text,
    }
}

/// The connection never survives a fault that leaves doubt about where the next message begins. Faults that
/// only a server can commit carry 502, the status a gateway would return to its client.
const TABLE: [Row; 35] = {
    use Fault::*;
    [
        row(NotHttp, 400, false, "the bytes received are not HTTP"),
        row(
            Tls,
            400,
            false,
            "a TLS handshake was sent to a port that speaks plain HTTP",
        ),
        row(
            Http2,
            505,
            false,
            "HTTP/2 with prior knowledge was sent to a port that speaks HTTP/1.1",
        ),
        row(RequestLine, 400, false, "the request line is malformed"),
        row(MethodTooLong, 501, false, "the method is too long"),
        row(Version, 505, false, "the HTTP version is not supported"),
        row(Target, 400, false, "the request target is malformed"),
        row(TargetTooLong, 414, false, "the request target is too long"),
        row(HeadTooLarge, 431, false, "the header section is too large"),
        row(TooManyFields, 431, false, "too many field lines"),
        row(
            FieldName,
            400,
            false,
            "a field name is malformed, or its line is folded",
        ),
        row(FieldValue, 400, false, "a field value contains a control byte"),
        row(BareCr, 400, false, "a carriage return has no line feed after it"),
        row(BareLf, 400, false, "a line feed has no carriage return before it"),
        row(HostMissing, 400, false, "the Host field is missing"),
        row(HostRepeated, 400, false, "the Host field is repeated"),
        row(HostInvalid, 400, false, "the Host field is malformed"),
        row(ContentLength, 400, false, "the Content-Length field is malformed"),
        row(
            ContentLengthTooLarge,
            413,
            false,
            "the Content-Length value is too large",
        ),
        row(
            ContentLengthDiffers,
            400,
            false,
            "two Content-Length values differ",
        ),
        row(
            LengthAndCoding,
            400,
            false,
            "Content-Length and Transfer-Encoding are both present",
        ),
        row(
            CodingInOldVersion,
            400,
            false,
            "Transfer-Encoding in an HTTP/1.0 message",
        ),
        row(
            TransferEncoding,
            400,
            false,
            "the Transfer-Encoding field is malformed or does not end in chunked",
        ),
        row(CodingUnknown, 501, false, "the transfer coding is not supported"),
        row(ChunkSize, 400, false, "a chunk size is malformed"),
        row(ChunkExtension, 400, false, "a chunk extension is malformed"),
        row(
            ChunkExtensionTooLong,
            400,
            false,
            "the chunk extensions are too long",
        ),
        row(ChunkEnd, 400, false, "a chunk's data is not followed by CRLF"),
        row(TrailerTooLarge, 431, false, "the trailer section is too large"),
        row(Expectation, 417, true, "the expectation is not supported"),
        row(Truncated, 400, false, "the connection ended inside a message"),
        row(StatusLine, 502, false, "the status line is malformed"),
        row(
            Unsolicited,
            502,
            false,
            "the server sent a response without a request",
        ),
        row(
            Upgraded,
            502,
            false,
            "the server switched protocols without being asked",
        ),
        row(
            TooManyInterim,
            502,
            false,
            "the server sent too many interim responses",
        ),
    ]
};

impl Fault {
    fn row(self) -> &'static Row {
        // The table is in declaration order; a test checks it.
        &TABLE[self as usize]
    }

    /// Status of the response to this fault.
    pub fn status(self) -> Status {
        Status::from_u16(self.row().status).expect("the table holds valid codes; a test reads them all")
    }

    /// Whether the connection may carry another request after the response to this fault.
    pub fn survives(self) -> bool {
        self.row().survives
    }

    /// A short sentence without a final period, for an error page or a log line.
    pub fn text(self) -> &'static str {
        self.row().text
    }

    /// Every fault, in the order of the table.
    pub fn all() -> impl Iterator<Item = Fault> {
        TABLE.iter().map(|row| row.fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Fault {}

/// A violation of this crate's rules by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misuse {
    /// The call does not fit the state of the exchange.
    Order,
    /// A body is longer or shorter than its head announced.
    Length,
    /// A name or value that would corrupt the message (CR, LF, NUL, or a name that is not a token).
    Unwritable,
    /// The limit on outstanding requests is reached.
    Full,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Misuse::Order => "the call does not fit the state of the exchange",
            Misuse::Length => "the body differs in length from what its head announced",
            Misuse::Unwritable => "a method, target, host, field name or field value is invalid",
            Misuse::Full => "too many requests are outstanding on this connection",
        })
    }
}

impl std::error::Error for Misuse {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_declaration_order_and_complete() {
        for (index, fault) in Fault::all().enumerate() {
            assert_eq!(fault as usize, index, "{fault:?}");
        }
        assert_eq!(Fault::TooManyInterim as usize + 1, TABLE.len());
    }

    #[test]
    fn every_fault_means() {
        let shown: String = Fault::all()
            .map(|f| {
                let end = if f.survives() { "survives" } else { "closes" };
                format!("{f:?}: {} {end}: {f}\n", f.status().as_u16())
            })
            .collect();
        insta::assert_snapshot!(shown);
    }
}
