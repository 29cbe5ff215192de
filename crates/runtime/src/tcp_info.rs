//! What the kernel's TCP reports about a connection (`TCP_INFO`, tcp(7)), as drivers and protocols see it. Which call
//! reads it is not known here.

use units::Duration;

/// The kernel's counters of a connection since it began (`TCP_INFO`, tcp(7)). They do not include anything after its
/// descriptor is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Smoothed round-trip time (RFC 6298), of the handshake and of data sent by this end.
    pub rtt: Duration,
    /// The minimum round-trip time, if there is a sample.
    pub rtt_min: Option<Duration>,
    /// How long this end delays an ACK without data.
    pub delayed_ack: Duration,
    /// Payload of received segments in bytes, as the kernel estimates it.
    pub mss: u32,
    /// Data bytes of the largest segment the path carries, as both ends announced it; zero if unknown.
    pub path_mss: u32,
    /// Segments received, ACKs included.
    pub segments_in: u32,
    /// Segments sent, ACKs included.
    pub segments_out: u32,
    /// Segments received with data, duplicates included.
    pub data_segments_in: u32,
    /// Data bytes received in order.
    pub bytes_in: u64,
    /// Data bytes sent and acknowledged; the SYN counts as one.
    pub bytes_out: u64,
    /// Segments retransmitted by this end.
    pub retransmitted: u32,
    /// Data bytes retransmitted (Linux 5.4; zero on older kernels).
    pub bytes_retransmitted: u64,
    /// Segments received out of order (Linux 5.4; zero on older kernels).
    pub out_of_order: u32,
    /// Whether both ends had closed by then, so that the closing segments are counted, too. The exception is what an
    /// end in TIME-WAIT retransmits in case its last ACK was lost (RFC 9293 section 3.3.2).
    pub is_over: bool,
}

/// State of the path to a peer, as the kernel reports it (`struct tcp_info`, tcp(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Smoothed round-trip time (RFC 6298).
    pub rtt: Duration,
    /// Congestion window in segments (RFC 5681).
    pub cwnd: u32,
    /// Segments retransmitted since the connection began.
    pub retransmitted: u32,
}
