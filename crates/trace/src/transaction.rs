//! A request with its answer, and HTTP on one connection in numbers: plain data, made by [`crate::exchange`].

use crate::connection::{ConnectionId, Side};
use crate::quantity;
use core::time::Duration;
use serde::Serialize;
use units::Instant;

/// Limit on the stored bytes of a request target; longer ones are cut.
pub const TARGET_MAX: usize = 256;

/// A request and its response as they passed the capture point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transaction {
    /// Connection that carried it.
    pub connection: ConnectionId,
    /// Position on the connection, from 0.
    pub index: u64,
    /// HTTP/2 stream; `None` over HTTP/1.x.
    pub stream: Option<u32>,
    /// Request method.
    pub method: String,
    /// Request target, truncated at 256 bytes; over HTTP/2 `:path`, for CONNECT `:authority`.
    pub target: String,
    /// Final status; `None` without a response.
    pub status: Option<u16>,
    /// Request line and fields in bytes. Over HTTP/2 (RFC 9113), HEADERS and CONTINUATION: compressed, with frame headers.
    pub request_header_bytes: u64,
    /// Request content as framed on the wire, without chunk sizes, frame headers and padding, in bytes.
    pub request_body_bytes: u64,
    /// Status line and fields in bytes; over HTTP/2 as for the request.
    pub response_header_bytes: u64,
    /// Response content without chunk sizes, frame headers and padding, in bytes.
    pub response_body_bytes: u64,
    /// Time of the request's first byte since the first frame of the capture.
    #[serde(rename = "start_s", serialize_with = "quantity::seconds")]
    pub start: Duration,
    /// Time from the request's first byte to its last.
    #[serde(rename = "request_ms", serialize_with = "quantity::ms")]
    pub request: Duration,
    /// Time from the request's last byte to the response's first.
    #[serde(rename = "wait_ms", serialize_with = "quantity::ms_option")]
    pub wait: Option<Duration>,
    /// Time from the response's first byte to its last. If the request ends after the response begins, which HTTP/2 permits,
    /// from the request's last byte, and `wait` is zero.
    #[serde(rename = "receive_ms", serialize_with = "quantity::ms_option")]
    pub receive: Option<Duration>,
    /// Other requests of the connection that were unanswered when this one was sent.
    pub ahead: u32,
    /// Packets of the connection in both directions, from the request's first to the response's last.
    pub packets: u64,
    /// Frame number of the request's first packet.
    pub first_packet: u64,
    /// Frame number of the response's last packet; without a response, of the request's last.
    pub last_packet: u64,
    /// Whether the response is complete.
    pub complete: bool,
    /// RST_STREAM that ended the stream (RFC 9113, section 6.4).
    pub reset: Option<Reset>,
    /// Priority that the client gave the request (RFC 9218), as the value of a `Priority` field with both parameters'
    /// meaning: `u=3` or `u=3, i`. `None` if it gave none.
    pub priority: Option<String>,
    /// Time in which an exhausted HTTP/2 window held back the request's or the response's content; `None` over HTTP/1.x.
    #[serde(rename = "flow_control_ms", serialize_with = "quantity::ms_option")]
    pub flow_control: Option<Duration>,
}

/// A stream's end by RST_STREAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reset {
    /// End that sent it.
    pub by: Side,
    /// Name of the error code (RFC 9113, section 7); unknown codes as `error code 0x…`.
    pub code: String,
}

/// HTTP counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HttpCounts {
    /// Requests seen.
    pub requests: u64,
    /// Complete final responses matched to a request.
    pub responses: u64,
    /// Responses without a request, because the capture began later or lost bytes.
    pub unmatched_responses: u64,
    /// HTTP/1.x requests sent before all earlier ones were answered.
    pub pipelined: u64,
    /// Requests without a complete response at the end.
    pub unanswered: u64,
    /// Requests that cannot be matched to responses, because the capture began later or lost bytes while requests were
    /// pending.
    pub unmatched_requests: u64,
    /// Heads of requests and responses truncated by a short snapshot length; these messages are not analyzed.
    pub cut_heads: u64,
}

/// A run of pipelined requests that each took a segment of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SingleRun {
    pub(crate) requests: u32,
    pub(crate) bytes: u64,
    pub(crate) first: (Instant, u64),
    pub(crate) last: (Instant, u64),
}
