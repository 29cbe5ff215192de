//! Problems between TCP and its applications: kind, evidence, cost and remedy.
//!
//! The first three are those of Heidemann, "Performance Interactions Between P-HTTP and TCP Implementations" (1997),
//! with predicates that match the paper's two published traces. Decides wording only; the conditions are in `flow`.

use crate::connection::{ConnectionId, Side};
use crate::quantity;
use crate::quic_facts::ErrorSpace;
use crate::tls::Unopened;
use core::time::Duration;
use serde::Serialize;

/// A problem at one place in the capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Connection with the problem.
    pub connection: ConnectionId,
    /// End that sent or held back the data concerned.
    pub sender: Side,
    /// Time since the first frame of the capture.
    #[serde(rename = "at_s", serialize_with = "quantity::seconds")]
    pub at: Duration,
    /// Time lost; each kind defines what counts.
    #[serde(rename = "cost_ms", serialize_with = "quantity::ms")]
    pub cost: Duration,
    /// Frames that show the problem, in the order of the kind's description.
    pub packets: Vec<u64>,
    /// Kind of problem with its figures.
    #[serde(flatten)]
    pub kind: Kind,
}

/// Timer that delayed an acknowledgment, by its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AckTimer {
    /// Up to 90 ms: Linux's minimum of 40 ms (and 50 ms in Solaris).
    Short,
    /// Up to 260 ms: the 200 ms heartbeat of BSD and Windows.
    Heartbeat,
    /// Longer, up to the 500 ms that RFC 1122 permits.
    Long,
}

impl AckTimer {
    pub(crate) fn of(delay: Duration) -> AckTimer {
        match delay.as_millis() {
            0..90 => AckTimer::Short,
            90..260 => AckTimer::Heartbeat,
            _ => AckTimer::Long,
        }
    }
}

/// Why one direction of an HTTP/2 connection cannot be decoded any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undecodable {
    /// The capture lacks bytes outside the content of DATA frames.
    Gap,
    /// A field block does not decompress (RFC 7541).
    Compression,
    /// A frame breaks the layout or order of RFC 9113.
    Malformed,
    /// A frame or field block is above 64 KiB, or [`crate::Limits::reassembly`] is used up.
    Memory,
}

/// Kinds of findings with their figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// A response begins with a short and a full segment, which fill the initial window. The receiver delays its
    /// acknowledgment because it got less than two full segments. Packets: D1, D2, the late acknowledgment, D3. Cost:
    /// from D2 to D3.
    ShortInitialSegment {
        /// Payload of D1 in bytes.
        first_len: u32,
        /// Time from D2 to its acknowledgment.
        #[serde(rename = "ack_delay_ms", serialize_with = "quantity::ms")]
        ack_delay: Duration,
    },
    /// Nagle's algorithm holds the short last segment of a response until the odd segment before it is acknowledged.
    /// Packets: the odd segment, the late acknowledgment, the final segment. Cost: from the first to the last.
    OddShortFinalSegment {
        /// Payload of the segment whose acknowledgment was awaited, in bytes.
        odd_len: u32,
        /// Payload of the held segment in bytes.
        final_len: u32,
        /// Time from the odd segment to its acknowledgment.
        #[serde(rename = "ack_delay_ms", serialize_with = "quantity::ms")]
        ack_delay: Duration,
    },
    /// After an idle period without loss, the sender restarted with a smaller window than it had used before. Packets:
    /// last data before the pause, first after it, the one at which the old window was reached. Cost: between the last
    /// two.
    SlowStartRestart {
        /// Length of the pause.
        #[serde(rename = "idle_ms", serialize_with = "quantity::ms")]
        idle: Duration,
        /// Largest flight before the pause in bytes.
        flight_before: u64,
        /// First flight after it in bytes.
        flight_after: u64,
        /// Round trips until the old flight was reached or the data ended.
        rounds: u32,
    },
    /// A sender with more data to send waited until a timer released the peer's acknowledgment. Packets: last data
    /// segment before, the late acknowledgment, the data released. Cost: the delay beyond the smallest round-trip time.
    DelayedAck {
        /// Kind of timer, judged by the delay.
        timer: AckTimer,
        /// Delay beyond the smallest round-trip time seen.
        #[serde(rename = "excess_ms", serialize_with = "quantity::ms")]
        excess: Duration,
    },
    /// An application wrote a message in pieces, and Nagle's algorithm held a short piece until the earlier ones were
    /// acknowledged. Packets: the unacknowledged piece, the acknowledgment, the held piece. Cost: from first to last,
    /// without the queueing delay of the last.
    NagleBuffering {
        /// Payload of the held piece in bytes.
        held_len: u32,
        /// Timer that made it worse, if the acknowledgment was delayed as well.
        timer: Option<AckTimer>,
    },
    /// The sender waited because the receiver's window was full. Packets: the first segment that filled it, the
    /// acknowledgment that ended the longest wait. Cost: all waits together.
    ReceiverWindowLimited {
        /// Number of waits.
        waits: u64,
        /// Largest window the receiver advertised, in bytes.
        window_max: u64,
    },
    /// The receiver closed its window completely. Packets: the closing and the opening one. Cost: between them.
    ZeroWindow {
        /// Window probes sent meanwhile.
        probes: u32,
    },
    /// In the middle of a message, all sent data was acknowledged and the window was open, but no data came: the
    /// application had none to send. Packets: both sides of the longest pause. Cost: all pauses together.
    ApplicationLimited {
        /// Number of pauses.
        pauses: u64,
    },
    /// In the middle of a message, data was late although the sender's timestamps show that it had been sent: it waited
    /// in a queue behind other connections' packets. Packets: both sides of the longest pause. Cost: the growth of the
    /// pauses on the way.
    QueuedInNetwork {
        /// Number of pauses.
        pauses: u64,
    },
    /// Data was lost and retransmitted without a timeout, because the receiver's acknowledgments reported the loss.
    /// Packets: the segment after the gap, or the first duplicate acknowledgment; the first retransmission; the packet
    /// that ended the repair. Cost: from the first to the last; meanwhile nothing reached the receiving application.
    FastRecovery {
        /// Number of retransmitted segments.
        segments: u32,
        /// Whether they were lost before the capture point, which saw only the retransmissions.
        upstream: bool,
    },
    /// Data was reordered on the way and the sender took that for loss. The receiver reported every retransmission as a
    /// duplicate (RFC 2883). Packets: the first duplicate acknowledgment; the first retransmission; the packet that
    /// ended the repair. Cost: from the first to the last; the sender is slower afterwards, too.
    Reordering {
        /// Number of needless retransmissions.
        segments: u32,
    },
    /// Data was retransmitted because a timer expired. Packets: the lost segment (if it was lost before the capture
    /// point, the one after it), and its retransmission. Cost: from the segment's previous transmission to this one.
    RetransmissionTimeout {
        /// Transmissions of this segment so far, including the first.
        transmissions: u32,
        /// Whether the peer had received the original, as its later timestamp echo shows.
        spurious: bool,
    },
    /// A reset ended the connection while data was in flight or requests were unanswered: the receiver's system
    /// discards data that its application has not read. Packets: the segment that the reset answers (if any), the
    /// reset. Cost: age of the oldest loss.
    ResetDestroyedData {
        /// End that sent the reset.
        by: Side,
        /// Bytes of that end's own data not acknowledged.
        unacknowledged: u64,
        /// Bytes sent to that end and not acknowledged by it, or sent after it had closed.
        unread: u64,
        /// Requests without a complete response.
        requests: u32,
        /// Whether that end had already closed its sending side: it closed both directions with requests in flight.
        after_close: bool,
    },
    /// Pipelined requests left one by one in short segments. Packets: first and last request segment. Cost: the
    /// needless segments' share of the time from first to last.
    OneRequestPerSegment {
        /// Requests in the run.
        requests: u32,
        /// Segments saved if the requests filled segments.
        needless: u32,
    },
    /// The handshake took more than one attempt. Packets: first and last SYN (or SYN-ACK). Cost: between them.
    HandshakeRetransmission {
        /// Transmissions of the SYN or SYN-ACK.
        transmissions: u32,
    },
    /// Bytes of HTTP/2 streams waited at the receiver for a lost segment of other streams. Packets: the first that waited,
    /// the retransmission. Cost: between them; the finding about the loss counts this time, too.
    HeadOfLineBlocking {
        /// Streams with bytes in the lost segment.
        lost: Vec<u32>,
        /// Other streams with bytes behind it.
        waiting: Vec<u32>,
    },
    /// The content of an HTTP/2 stream waited because the window of the stream or of the connection was exhausted
    /// (RFC 9113, section 5.2). Packets: both ends of the longest wait. Cost: all waits of the stream together.
    StreamFlowControl {
        /// Stream identifier.
        stream: u32,
        /// Number of waits.
        waits: u64,
    },
    /// GOAWAY with an error, or with streams that were not processed (RFC 9113, section 6.8). Packets: its own. Cost: zero.
    GoAway {
        /// Name of the error code.
        code: String,
        /// The last stream that was or might be processed.
        last_stream: u32,
        /// Open streams above it.
        refused: u32,
    },
    /// The server asked for another ClientHello, because the client had sent no key share for a group that the server accepts
    /// (RFC 8446, section 4.1.4). Packets: the first ClientHello, the request, the second ClientHello. Cost: from the first to
    /// the last.
    HelloRetry,
    /// An alert ended the connection with an error (RFC 8446, section 6). Packets: its own. Cost: zero.
    TlsAlert {
        /// Number of the alert.
        description: u8,
    },
    /// The records of one direction cannot be opened from here on. Packets: the one at which it ended. Cost: zero; the
    /// capture or the secrets are at fault, not the connection.
    TlsDecryptionStopped {
        /// Reason.
        cause: Unopened,
    },
    /// The analysis of HTTP/2 in one direction ended before the connection did. Packets: the one at which it ended. Cost:
    /// zero; the capture is at fault, not the connection.
    Http2DecodingStopped {
        /// Reason.
        cause: Undecodable,
    },
    /// The server does not speak the client's version of QUIC (RFC 9000, section 6). Packets: the client's first, the server's. Cost:
    /// between them.
    VersionNegotiation {
        /// The version that the client offered, as on the wire.
        offered: u32,
    },
    /// The server had the client prove its address before the handshake (RFC 9000, section 8.1). Packets: the client's first, the
    /// server's Retry, the client's next. Cost: from the first to the last.
    QuicRetry,
    /// Packets of QUIC were lost and their data sent again, as acknowledgments reported. Packets: the first lost one (if it was lost
    /// before the capture point, the one behind it), the first that sent its data again. Cost: from the first loss to the last
    /// repair; only the streams concerned waited.
    QuicLossRecovery {
        /// Number of lost packets.
        packets_lost: u32,
        /// Whether they were lost before the capture point, which saw only the retransmissions.
        upstream: bool,
    },
    /// Data of QUIC was sent again before any acknowledgment reported its loss: a timer expired (RFC 9002, section 6.2). Packets and
    /// cost as for [`Kind::QuicLossRecovery`].
    QuicProbeTimeout {
        /// Number of packets whose data was sent again.
        packets_resent: u32,
    },
    /// Data waited because a limit of QUIC's flow control was reached (RFC 9000, section 4). Packets: both ends of the longest wait.
    /// Cost: all waits together.
    QuicFlowControl {
        /// Stream identifier; `None` for the limit of the whole connection.
        stream: Option<u64>,
        /// Number of waits.
        waits: u64,
    },
    /// A CONNECTION_CLOSE with an error (RFC 9000, section 19.19). Packets: its own. Cost: zero.
    QuicError {
        /// Meaning of the code.
        space: ErrorSpace,
        /// The code as on the wire.
        code: u64,
    },
}

impl Kind {
    /// Title of two or three words.
    pub fn title(&self) -> &'static str {
        match self {
            Kind::ShortInitialSegment { .. } => "short initial segment",
            Kind::OddShortFinalSegment { .. } => "odd/short final segment",
            Kind::SlowStartRestart { .. } => "slow-start restart",
            Kind::DelayedAck { .. } => "delayed acknowledgment",
            Kind::NagleBuffering { .. } => "Nagle with application buffering",
            Kind::ReceiverWindowLimited { .. } => "receiver-window limited",
            Kind::ZeroWindow { .. } => "zero window",
            Kind::ApplicationLimited { .. } => "application limited",
            Kind::QueuedInNetwork { .. } => "queued in the network",
            Kind::FastRecovery { .. } => "fast recovery",
            Kind::Reordering { .. } => "reordering taken for loss",
            Kind::RetransmissionTimeout { .. } => "retransmission timeout",
            Kind::ResetDestroyedData { .. } => "reset destroyed data",
            Kind::OneRequestPerSegment { .. } => "one request per segment",
            Kind::HandshakeRetransmission { .. } => "handshake retransmission",
            Kind::HeadOfLineBlocking { .. } => "head-of-line blocking",
            Kind::StreamFlowControl { .. } => "stream flow control",
            Kind::GoAway { .. } => "GOAWAY",
            Kind::HelloRetry => "HelloRetryRequest",
            Kind::TlsAlert { .. } => "TLS alert",
            Kind::TlsDecryptionStopped { .. } => "TLS decryption stopped",
            Kind::Http2DecodingStopped { .. } => "HTTP/2 decoding stopped",
            Kind::VersionNegotiation { .. } => "QUIC Version Negotiation",
            Kind::QuicRetry => "QUIC Retry",
            Kind::QuicLossRecovery { .. } => "QUIC loss recovery",
            Kind::QuicProbeTimeout { .. } => "QUIC probe timeout",
            Kind::QuicFlowControl { .. } => "QUIC flow control",
            Kind::QuicError { .. } => "QUIC connection error",
        }
    }

    /// What to change, and where.
    pub fn remedy(&self) -> &'static str {
        match self {
            Kind::ShortInitialSegment { .. } => {
                "Send the header together with the first body bytes: one write, writev, or TCP_CORK/MSG_MORE around \
                 both. An initial window of three or more segments hides it."
            }
            Kind::OddShortFinalSegment { .. } => {
                "Set TCP_NODELAY on the sender, or write the whole response at once, so that its short last segment does \
                 not wait for an acknowledgment."
            }
            Kind::SlowStartRestart { .. } => {
                "Keep the congestion window over the pause (Linux: net.ipv4.tcp_slow_start_after_idle=0), pace the \
                 first flight, or fetch all files before the connection becomes idle."
            }
            Kind::DelayedAck { .. } => {
                "Send two full segments, give the sender a larger initial window, or use TCP_QUICKACK or a shorter \
                 delayed-ACK timer on the receiver."
            }
            Kind::NagleBuffering { .. } => {
                "Write the message at once, or set TCP_NODELAY, buffer in the application and flush at the end of the \
                 message."
            }
            Kind::ReceiverWindowLimited { .. } => {
                "Raise the receiver's buffer (SO_RCVBUF, tcp_rmem) above bandwidth times round-trip time, and check \
                 that window scaling was negotiated."
            }
            Kind::ZeroWindow { .. } => {
                "The receiving application does not read: find the cause, or give it a larger buffer."
            }
            Kind::ApplicationLimited { .. } => {
                "Check the sending application, not the network: disk, computation, or writes that wait for each \
                 other."
            }
            Kind::QueuedInNetwork { .. } => {
                "Other packets fill the queue of a slow line: use fewer parallel connections, smaller buffers, or fair \
                 or active queue management (fq_codel)."
            }
            Kind::FastRecovery { .. } => {
                "Find the loss (queue, radio, policer); later data waited at the receiver for the retransmission. With \
                 parallel connections or HTTP/3, one loss does not delay all responses."
            }
            Kind::Reordering { .. } => {
                "Find the cause of reordering (parallel links or queues, per-packet balancing, radio); a sender with RACK-TLP \
                 or a larger reordering threshold (Linux: net.ipv4.tcp_reordering) waits for late segments."
            }
            Kind::RetransmissionTimeout { .. } => {
                "Find the loss (queue, radio, policer). With few segments in flight no fast retransmit is possible: \
                 larger flights, tail loss probe or SACK help."
            }
            Kind::ResetDestroyedData { .. } => {
                "Close in two steps: shut down the sending side, read until the peer closes or a few seconds pass, \
                 only then close the socket."
            }
            Kind::OneRequestPerSegment { .. } => {
                "Buffer pipelined requests and flush once (at 1024 bytes, before waiting, or after a short timer)."
            }
            Kind::HandshakeRetransmission { .. } => {
                "The SYN or SYN-ACK was lost or refused: check the listen backlog, firewalls and loss; reuse \
                 connections so that it happens less often."
            }
            Kind::HeadOfLineBlocking { .. } => {
                "Find the loss (queue, radio, policer). TCP delivers in order, so all streams of a connection wait for a \
                 lost segment; HTTP/3 holds back only the streams concerned."
            }
            Kind::StreamFlowControl { .. } => {
                "Raise the receiver's SETTINGS_INITIAL_WINDOW_SIZE and connection window above bandwidth times round-trip \
                 time, or send WINDOW_UPDATE earlier."
            }
            Kind::GoAway { .. } => {
                "Look up the error code in the sender's log. Requests on streams that were not processed may be repeated \
                 on another connection."
            }
            Kind::HelloRetry => {
                "Let the server accept a group for which clients send a key share (X25519, X25519MLKEM768), or have the \
                 client send one for a group that the server prefers."
            }
            Kind::TlsAlert { .. } => {
                "Look up the alert in the log of both ends: certificate, name, version or cipher suites did not suit its \
                 sender."
            }
            Kind::TlsDecryptionStopped { .. } => {
                "Capture whole packets from the start of the connection (tcpdump -s 0, a larger -B), and log the secrets of \
                 the same connections. What follows is missing from lists and counts."
            }
            Kind::Http2DecodingStopped { .. } => {
                "Capture whole packets from the start of the connection (tcpdump -s 0, a larger -B). Later streams of this \
                 direction are missing from lists and counts."
            }
            Kind::VersionNegotiation { .. } => {
                "Let the client offer a version first that the server speaks, or update the server."
            }
            Kind::QuicRetry => {
                "Let the server send Retry only under load, and accept the tokens that it gave in NEW_TOKEN frames: a client that \
                 comes back then saves the round trip."
            }
            Kind::QuicLossRecovery { .. } => {
                "Find the loss (queue, radio, policer); a policer for UDP, or a receive buffer that is too small \
                 (net.core.rmem_max) drops packets of QUIC alone."
            }
            Kind::QuicProbeTimeout { .. } => {
                "Find the loss (queue, radio, policer). At the end of a response or of the handshake nothing follows that could \
                 report it: a smaller max_ack_delay or packets that follow help."
            }
            Kind::QuicFlowControl { .. } => {
                "Raise the receiver's limits (initial_max_data, initial_max_stream_data) above bandwidth times round-trip time, or \
                 send MAX_DATA and MAX_STREAM_DATA earlier."
            }
            Kind::QuicError { .. } => {
                "Look up the code in the log of both ends. Codes of the transport from 0x100 to 0x1ff are TLS alerts."
            }
        }
    }
}
