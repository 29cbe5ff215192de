//! What can go wrong between TCP and the applications on it, named, with evidence, cost and remedy.
//!
//! The first three are the problems of Heidemann, "Performance Interactions Between P-HTTP and TCP
//! Implementations" (1997), with the predicates that match its two published traces. This file decides
//! wording only; the conditions are in `flow`.

use crate::flow::{ConnectionId, Side};
use crate::quantity;
use core::time::Duration;
use serde::Serialize;

/// One problem at one place of the capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The connection.
    pub connection: ConnectionId,
    /// The end that sent (or held back) the data concerned.
    pub sender: Side,
    /// Time since the first frame of the capture.
    #[serde(rename = "at_s", serialize_with = "quantity::seconds")]
    pub at: Duration,
    /// Time lost. What is counted is said at each kind.
    #[serde(rename = "cost_ms", serialize_with = "quantity::ms")]
    pub cost: Duration,
    /// Numbers of the frames that show it, in the order of the kind's description.
    pub packets: Vec<u64>,
    /// What it is.
    #[serde(flatten)]
    pub kind: Kind,
}

/// The timer that an acknowledgment waited for, by its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AckTimer {
    /// Up to 90 ms: Linux's 40 ms minimum (and Solaris's 50 ms).
    Short,
    /// Up to 260 ms: the 200 ms heartbeat of BSD and Windows.
    Heartbeat,
    /// Longer: at the edge of the 500 ms that RFC 1122 permits.
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

/// The kinds of findings, with their measures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Kind {
    /// A reply begins with a short segment and one full one, both fill the initial window, and the
    /// receiver holds its acknowledgment because it got less than two full segments.
    /// Packets: D1, D2, the late acknowledgment, D3. Cost: from D2 to D3.
    ShortInitialSegment {
        /// Payload of D1 in bytes.
        first_len: u32,
        /// From D2 to its acknowledgment.
        #[serde(rename = "ack_delay_ms", serialize_with = "quantity::ms")]
        ack_delay: Duration,
    },
    /// The short end of a reply is held by Nagle's algorithm until the odd segment before it is acknowledged.
    /// Packets: the odd segment, the late acknowledgment, the final segment. Cost: from the first to the last.
    OddShortFinalSegment {
        /// Payload of the segment that the acknowledgment was held for, in bytes.
        odd_len: u32,
        /// Payload of the held segment in bytes.
        final_len: u32,
        /// From the odd segment to its acknowledgment.
        #[serde(rename = "ack_delay_ms", serialize_with = "quantity::ms")]
        ack_delay: Duration,
    },
    /// After an idle period the sender began again with a small window although it had used a larger one
    /// before and nothing was lost. Packets: last data before the pause, first after it, the one at
    /// which the old window was reached again. Cost: between the last two.
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
    /// A sender that had more to send stood still until a timer let the peer acknowledge.
    /// Packets: last data segment before, the late acknowledgment, the data released. Cost: the delay beyond the
    /// smallest round trip.
    DelayedAck {
        /// Which timer, judged by the delay.
        timer: AckTimer,
        /// Delay beyond the smallest round trip seen.
        #[serde(rename = "excess_ms", serialize_with = "quantity::ms")]
        excess: Duration,
    },
    /// An application wrote a message in pieces, and Nagle's algorithm held a short piece until
    /// the pieces before were acknowledged. Packets: the unacknowledged piece, the acknowledgment,
    /// the held piece. Cost: from first to last, without what the last waited in queues on its way.
    NagleBuffering {
        /// Payload of the held piece in bytes.
        held_len: u32,
        /// The timer that made it worse, if the acknowledgment was delayed as well.
        timer: Option<AckTimer>,
    },
    /// The sender stood still because the receiver's window was full. Packets: the first segment
    /// that filled it, the acknowledgment that ended the longest wait. Cost: all waits together.
    ReceiverWindowLimited {
        /// Number of waits.
        waits: u64,
        /// Largest window the receiver offered, in bytes.
        window_max: u64,
    },
    /// The receiver closed its window altogether. Packets: the closing and the opening one. Cost: between them.
    ZeroWindow {
        /// Probes the sender sent meanwhile.
        probes: u32,
    },
    /// In the middle of a message everything sent was acknowledged, the window was open, and nothing came:
    /// the application had nothing to send. Packets: both sides of the longest pause. Cost: all pauses together.
    ApplicationLimited {
        /// Number of pauses.
        pauses: u64,
    },
    /// In the middle of a message nothing came, although by the sender's own time stamps it had been sent: it waited in
    /// a queue, behind other connections' packets. Packets: both sides of the longest pause. Cost: what the pauses
    /// grew by on the way.
    QueuedInNetwork {
        /// Number of pauses.
        pauses: u64,
    },
    /// Data was lost and sent again because the receiver's acknowledgments told of it, without a timeout. Packets: the
    /// segment that came after the gap, or the first duplicate acknowledgment; the first repetition; what ended the
    /// repair. Cost: from the first to the last, in which nothing reached the receiving application.
    FastRecovery {
        /// Segments sent again.
        segments: u32,
        /// They were lost before the capture point, which saw only the repetitions.
        upstream: bool,
    },
    /// Data overtook data on the way, and the sender took that for loss: it sent again what the receiver, as that has
    /// said of every repetition (RFC 2883), had or got. Packets: the first duplicate acknowledgment; the first
    /// repetition; what ended the repair. Cost: from the first to the last; the sender is slower afterwards, too.
    Reordering {
        /// Segments sent again in vain.
        segments: u32,
    },
    /// Data was sent again because a timer expired. Packets: the segment lost (or, if it was lost before the
    /// capture point, the one that came after it), its repetition.
    /// Cost: from the last transmission of the segment to this one.
    RetransmissionTimeout {
        /// Transmissions of this segment so far, the first included.
        transmissions: u32,
        /// The peer had received the original: its later timestamp echo says so.
        spurious: bool,
    },
    /// A reset ended the connection while data was under way or requests were unanswered: the receiver's
    /// system throws away what its application has not read. Packets: the segment the reset answers
    /// (if any), the reset. Cost: age of the oldest loss.
    ResetDestroyedData {
        /// Who sent the reset.
        by: Side,
        /// Bytes of that end's own data not acknowledged.
        unacknowledged: u64,
        /// Bytes sent to that end and not acknowledged by it, or sent after it had closed.
        unread: u64,
        /// Requests without a complete answer.
        requests: u32,
        /// That end had already closed its sending side: it closed both directions with requests in flight.
        after_close: bool,
    },
    /// Requests that did not wait for each other's answers left one by one in short segments.
    /// Packets: first and last request segment. Cost: the share of the time from first to last that the
    /// needless segments account for.
    OneRequestPerSegment {
        /// Requests in the run.
        requests: u32,
        /// Segments that full ones would have saved.
        needless: u32,
    },
    /// The handshake took more than one attempt. Packets: first and last SYN (or SYN-ACK). Cost: between them.
    HandshakeRetransmission {
        /// Transmissions of the SYN or SYN-ACK.
        transmissions: u32,
    },
}

impl Kind {
    /// A title of two or three words.
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
                "Set TCP_NODELAY on the sender, or write the whole reply at once, so that its short end does not wait \
                 for an acknowledgment."
            }
            Kind::SlowStartRestart { .. } => {
                "Keep the congestion window over the pause (Linux: net.ipv4.tcp_slow_start_after_idle=0), pace the \
                 first flight, or fetch everything before the connection idles."
            }
            Kind::DelayedAck { .. } => {
                "Give the receiver two full segments or the sender a larger initial window; on the receiver \
                 TCP_QUICKACK or a shorter delayed-ACK timer."
            }
            Kind::NagleBuffering { .. } => {
                "Write the message at once, or set TCP_NODELAY and buffer in the application with a flush at the \
                 message's end."
            }
            Kind::ReceiverWindowLimited { .. } => {
                "Raise the receiver's buffer (SO_RCVBUF, tcp_rmem) above bandwidth times round trip, and check that \
                 window scaling was negotiated."
            }
            Kind::ZeroWindow { .. } => {
                "The receiving application does not read: find what it waits for, or give it a larger buffer."
            }
            Kind::ApplicationLimited { .. } => {
                "Look at the sending application, not at the network: disk, computation, or writes that wait for \
                 each other."
            }
            Kind::QueuedInNetwork { .. } => {
                "Other packets fill the queue of a slow line before these: fewer parallel connections, smaller \
                 buffers, or a queue that is fair or managed (fq_codel)."
            }
            Kind::FastRecovery { .. } => {
                "Find the loss (queue, radio, policer); what was sent after it waited at the receiver for its \
                 repetition. Parallel connections or HTTP/3 keep one loss from holding up everything."
            }
            Kind::Reordering { .. } => {
                "Find what reorders (parallel links or queues, per-packet balancing, radio); a sender with RACK-TLP or a \
                 larger reordering threshold (Linux: net.ipv4.tcp_reordering) waits for what is only late."
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
                "The SYN or its answer was lost or refused: look at the listen backlog, firewalls and loss; reuse \
                 connections to pay it less often."
            }
        }
    }
}
