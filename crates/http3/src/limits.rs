//! Limits on everything a peer can make grow or repeat (RFC 9114 section 10.5), with their defaults.
//!
//! Bytes in flight, the number of streams the peer may open and the rate of packets are limits of the QUIC transport.

use core::time::Duration;
pub use units::Allowance;

/// Limits on a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Request streams at a time, those whose jobs still run included. A stream above it is rejected: the limit of the
    /// transport counts a stream no longer once it was reset.
    pub streams_max: u32,
    /// Unidirectional streams of the peer at a time; further ones are stopped. RFC 9114 section 6.2 needs three.
    pub unidirectional_max: u8,
    /// Bytes of the dynamic table with which the peer may compress. 0: no dynamic table, no blocked streams.
    pub table_bytes: u32,
    /// Streams that may wait for entries of the dynamic table.
    pub blocked_max: u16,
    /// Bytes of a field section, as RFC 9114 section 4.2.2 counts them.
    pub list_bytes_max: u32,
    /// Fields of a field section, pseudo-fields and each crumb of a cookie included.
    pub fields_max: u16,
    /// Bytes of a compressed field section.
    pub block_bytes_max: u32,
    /// Bytes of compressed field sections that wait for their end or for the dynamic table, on all streams together.
    pub pending_bytes_max: u32,
    /// Bytes of the payload of a frame on the control stream, unknown ones aside, which are skipped.
    pub control_bytes_max: u16,
    /// Bytes that may wait to be sent on our QPACK decoder stream.
    pub backlog_bytes_max: u16,
    /// Time from the opening of a request stream to its whole head, and for which a section may wait for the dynamic table.
    pub head_time: Duration,
    /// Time in which a stream blocked by flow control must let 4 KiB pass.
    pub stall_time: Duration,
    /// Time between the two GOAWAY frames of a graceful shutdown.
    pub drain_time: Duration,
    /// Whether equally urgent bodies are sent by what they have left, the smallest first, incremental or not. One turn in
    /// eight then belongs to the stream that began first. Otherwise incremental ones take turns (RFC 9218 section 10).
    pub smallest_first: bool,
    /// RESET_STREAM and STOP_SENDING from the peer on request streams.
    pub resets: Allowance,
    /// Request streams we reset because of the peer's errors, refused streams included.
    pub provoked: Allowance,
    /// GOAWAY, MAX_PUSH_ID and unidirectional streams of unknown type.
    pub control: Allowance,
    /// PRIORITY_UPDATE.
    pub priorities: Allowance,
    /// DATA without content, and unknown frames.
    pub empty: Allowance,
}

const fn allow(burst: u32, per_second: u32) -> Allowance {
    Allowance { burst, per_second }
}

impl Limits {
    /// The default limits.
    pub const DEFAULT: Limits = Limits {
        streams_max: 128,
        unidirectional_max: 8,
        table_bytes: 0,
        blocked_max: 0,
        list_bytes_max: 32 << 10,
        fields_max: 104,
        block_bytes_max: 32 << 10,
        pending_bytes_max: 256 << 10,
        control_bytes_max: 1 << 10,
        backlog_bytes_max: 4 << 10,
        head_time: Duration::from_secs(10),
        stall_time: Duration::from_secs(60),
        drain_time: Duration::from_secs(1),
        smallest_first: false,
        resets: allow(1_000, 50),
        provoked: allow(300, 10),
        control: allow(20, 1),
        priorities: allow(1_000, 100),
        empty: allow(100, 10),
    };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}
