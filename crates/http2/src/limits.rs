//! Limits on everything a peer can make grow or repeat, with the defaults of RFC 9113 section 10.5's concerns.

use core::time::Duration;
pub use units::Allowance;

/// Limits on a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Streams of the peer at a time, those whose jobs still run included.
    pub streams_max: u32,
    /// Bytes of a stream's receive window, up to 2^31-1.
    pub stream_window: u32,
    /// Bytes of the connection's receive window, 65,535 to 2^31-1.
    pub connection_window: u32,
    /// Bytes of the dynamic table with which the peer may compress. A smaller one saves up to that many bytes on each
    /// idle connection, but clients that ignore the setting fail below the default of RFC 7541, 4,096.
    pub table_bytes: u32,
    /// Time without streams after which a client is asked to empty its dynamic table. It should exceed the pauses within
    /// the load of a page.
    pub table_time: Duration,
    /// Bytes of the dynamic table with which we compress, if the peer permits as many.
    pub encoder_bytes: u32,
    /// Bytes of a header list, as RFC 9113 section 6.5.2 counts them.
    pub list_bytes_max: u32,
    /// Fields of a header list, pseudo-fields and each crumb of a cookie included.
    pub fields_max: u16,
    /// Bytes of a compressed field block.
    pub block_bytes_max: u32,
    /// CONTINUATION frames of one field block.
    pub continuations_max: u8,
    /// Time for the acknowledgment of SETTINGS.
    pub settings_time: Duration,
    /// Time for a whole field block.
    pub block_time: Duration,
    /// Time in which a stream blocked by flow control must let 4 KiB pass.
    pub stall_time: Duration,
    /// Time between the two GOAWAY frames of a graceful shutdown, if the peer does not answer the PING between them.
    pub drain_time: Duration,
    /// Whether equally urgent bodies are sent by what they have left, the smallest first, incremental or not. One frame in
    /// eight then belongs to the stream that began first. Otherwise incremental ones take turns (RFC 9218 section 10).
    pub smallest_first: bool,
    /// RST_STREAM from the peer.
    pub resets: Allowance,
    /// RST_STREAM the peer provokes (CVE-2025-8671, "MadeYouReset"), refused streams included.
    pub provoked: Allowance,
    /// SETTINGS.
    pub settings: Allowance,
    /// PING, with and without ACK.
    pub pings: Allowance,
    /// PRIORITY and PRIORITY_UPDATE.
    pub priorities: Allowance,
    /// DATA, HEADERS and CONTINUATION without content and without END_STREAM, and unknown frames.
    pub empty: Allowance,
    /// WINDOW_UPDATE by less than 1 KiB.
    pub small_updates: Allowance,
}

const fn allow(burst: u32, per_second: u32) -> Allowance {
    Allowance { burst, per_second }
}

impl Limits {
    /// The default limits.
    pub const DEFAULT: Limits = Limits {
        streams_max: 128,
        stream_window: 65_535,
        connection_window: 1 << 20,
        table_bytes: 4_096,
        table_time: Duration::from_secs(5),
        encoder_bytes: 4_096,
        list_bytes_max: 32 << 10,
        fields_max: 104,
        block_bytes_max: 32 << 10,
        continuations_max: 8,
        settings_time: Duration::from_secs(10),
        block_time: Duration::from_secs(10),
        stall_time: Duration::from_secs(60),
        drain_time: Duration::from_secs(1),
        smallest_first: false,
        resets: allow(1_000, 50),
        provoked: allow(300, 10),
        settings: allow(20, 1),
        pings: allow(100, 10),
        priorities: allow(1_000, 100),
        empty: allow(100, 10),
        small_updates: allow(1_000, 200),
    };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}
