//! What a QUIC transport reports about a connection, as drivers and protocols see it: the counterpart of the kernel's
//! counters of TCP. Which library counts is not known here.

use units::Duration;

/// The transport's counters of a connection since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quic {
    /// Smoothed round-trip time (RFC 9002 section 5.3), of packets that this end sent.
    pub rtt: Duration,
    /// The minimum round-trip time, if there is a sample.
    pub rtt_min: Option<Duration>,
    /// Datagrams received.
    pub datagrams_in: u64,
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// Payload of received datagrams in bytes, headers and frames of QUIC included.
    pub bytes_in: u64,
    /// Payload of sent datagrams in bytes.
    pub bytes_out: u64,
    /// Packets of this end that it has declared lost (RFC 9002 section 6.1), probes of the path's MTU not included.
    pub lost: u64,
    /// PING frames sent: probes after a timeout without anything to send (RFC 9002 section 6.2.4).
    pub probes: u64,
    /// How often data of a stream had waited behind a packet that was missing: more of it became readable than had arrived.
    pub holes: u64,
    /// Frames in which the peer says that flow control keeps it from sending (DATA_BLOCKED, STREAM_DATA_BLOCKED; RFC 9000
    /// sections 19.12 and 19.13).
    pub blocked: u64,
    /// PATH_CHALLENGE frames of the peer (RFC 9000 section 8.2): this end has a new address. One change of it can bring many:
    /// `quinn-proto` repeats the frame in each packet to an address that is not validated yet.
    pub challenges: u64,
    /// Bytes of the largest payload that the path is known to carry.
    pub mtu: u16,
}
