//! What is known of a QUIC connection: plain data, made by [`crate::quic`]. Names of kinds and fields of frames are those of
//! qlog (draft-ietf-quic-qlog-quic-events), so that a frame serializes as qlog has it.

use crate::connection::{ConnectionId, End, Side};
use crate::direction::Spread;
use crate::packet::Endpoint;
use crate::quantity;
use crate::tls::{ClientHello, Decryption, ServerHello};
use crate::transaction::HttpCounts;
use crate::volume::DatagramVolume;
use core::time::Duration;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

/// Number of version 1 on the wire.
pub(crate) const V1: u32 = 1;
/// Number of version 2 on the wire (RFC 9369, section 3.1).
pub(crate) const V2: u32 = 0x6b33_43cf;

/// The report of one QUIC connection. Facts that the capture lacks are `None` or empty.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quic {
    /// Number of the connection, in one sequence with those over TCP.
    pub id: ConnectionId,
    /// The opening end.
    pub client: Endpoint,
    /// The other end.
    pub server: Endpoint,
    /// Time of the first datagram since the first frame of the capture.
    #[serde(rename = "start_s", serialize_with = "quantity::seconds")]
    pub start: Duration,
    /// Time from the first to the last datagram.
    #[serde(rename = "duration_s", serialize_with = "quantity::seconds")]
    pub duration: Duration,
    /// How the record ended.
    pub end: End,
    /// Frame numbers of the first and the last datagram.
    pub packets: (u64, u64),
    /// Version of the latest long header, as on the wire.
    pub version: u32,
    /// Version of the first long header: another one than `version` if the ends negotiated.
    pub offered_version: u32,
    /// Versions in the server's Version Negotiation packet, at most 16.
    pub supported_versions: Vec<u32>,
    /// Whether the server sent a Retry packet, which costs a round trip.
    pub retried: bool,
    /// Destination Connection ID of the client's first packet, in hexadecimal digits.
    pub original_id: String,
    /// Connection ID that the client chose first, in hexadecimal digits.
    pub client_id: String,
    /// Connection ID that the server chose first, in hexadecimal digits.
    pub server_id: String,
    /// The client's latest offer.
    pub client_hello: Option<ClientHello>,
    /// The server's choice.
    pub server_hello: Option<ServerHello>,
    /// Application protocol that the server chose. Known only if Handshake packets were opened.
    pub alpn: Option<String>,
    /// Time of the last Initial or Handshake packet since the first frame of the capture.
    #[serde(rename = "handshake_last_s", serialize_with = "quantity::seconds_option")]
    pub handshake_last: Option<Duration>,
    /// Time from the client's first packet to its Finished message, or to its first packet with a short header if Handshake
    /// packets were not opened.
    #[serde(rename = "handshake_ms", serialize_with = "quantity::ms_option")]
    pub handshake: Option<Duration>,
    /// Datagrams that held more than one packet.
    pub coalesced: u64,
    /// Key updates of both directions.
    pub key_updates: u64,
    /// Whether packets with a short header were opened.
    pub decryption: Decryption,
    /// The first CONNECTION_CLOSE.
    pub close: Option<Close>,
    /// The client's packets.
    pub from_client: QuicDirection,
    /// The server's packets.
    pub from_server: QuicDirection,
    /// Streams in the order of their first bytes, at most 1,024.
    pub streams: Vec<QuicStream>,
    /// Streams seen.
    pub streams_seen: u64,
    /// HTTP/3 counters; `None` if no request stream was read.
    pub http: Option<HttpCounts>,
}

impl Quic {
    /// A connection of which nothing is known but its ends and the frame that began it.
    pub(crate) fn new(id: ConnectionId, (client, server): (Endpoint, Endpoint), number: u64) -> Quic {
        Quic {
            id,
            client,
            server,
            start: Duration::ZERO,
            duration: Duration::ZERO,
            end: End::CaptureEnded,
            packets: (number, number),
            version: 0,
            offered_version: 0,
            supported_versions: Vec::new(),
            retried: false,
            original_id: String::new(),
            client_id: String::new(),
            server_id: String::new(),
            client_hello: None,
            server_hello: None,
            alpn: None,
            handshake_last: None,
            handshake: None,
            coalesced: 0,
            key_updates: 0,
            decryption: Decryption::NotTried,
            close: None,
            from_client: QuicDirection::default(),
            from_server: QuicDirection::default(),
            streams: Vec::new(),
            streams_seen: 0,
            http: None,
        }
    }
}

/// The packets of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct QuicDirection {
    /// Datagrams and bytes.
    pub volume: DatagramVolume,
    /// Initial packets.
    pub initial: u64,
    /// 0-RTT packets.
    pub zero_rtt: u64,
    /// Handshake packets.
    pub handshake: u64,
    /// Packets with a short header.
    pub one_rtt: u64,
    /// Packets that were opened.
    pub opened: u64,
    /// Packets that were not authentic under the keys known, or cut.
    pub not_authentic: u64,
    /// Stream bytes, each counted once.
    pub stream_bytes: u64,
    /// Stream bytes that were sent again.
    pub stream_bytes_again: u64,
    /// Packets lost behind the capture point: not acknowledged when their data was sent again.
    pub lost: u64,
    /// Packets that filled a hole left by a loss before the capture point.
    pub lost_before: u64,
    /// Packets whose data was sent again although they arrived, as a later acknowledgment shows.
    pub spurious: u64,
    /// Packets that came after one with a higher number.
    pub out_of_order: u64,
    /// ACK frames.
    pub acks: u64,
    /// Time from a packet to its acknowledgment, as seen at the capture point, with the peer's acknowledgment delay.
    pub rtt: Spread,
    /// Time between two changes of the spin bit (RFC 9000, section 17.4); empty if the bit shows no round trips.
    pub spin: Spread,
    /// Frames that say that flow control holds data back.
    pub blocked: u64,
    /// Time in which flow control held back the connection or a stream.
    #[serde(rename = "flow_control_ms", serialize_with = "quantity::ms")]
    pub flow_control: Duration,
}

/// Bytes and times of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuicStream {
    /// Identifier.
    pub id: u64,
    /// Time of its first bytes since the first frame of the capture.
    #[serde(rename = "start_s", serialize_with = "quantity::seconds")]
    pub start: Duration,
    /// Time from its first to its last bytes.
    #[serde(rename = "duration_ms", serialize_with = "quantity::ms")]
    pub duration: Duration,
    /// Bytes of the client and of the server, each counted once.
    pub bytes: [u64; 2],
    /// Bytes of the client and of the server that were sent again.
    pub again: [u64; 2],
    /// Whether the client and the server ended it, and all bytes were captured.
    pub complete: [bool; 2],
}

/// A CONNECTION_CLOSE frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Close {
    /// Sender.
    pub by: Side,
    /// Meaning of the code.
    pub space: ErrorSpace,
    /// Code as on the wire.
    pub code: u64,
    /// Reason phrase, truncated at 256 bytes.
    pub reason: String,
}

/// A packet of a connection, for a log of packets. Packets that were not opened have no number and no frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuicPacket {
    /// Connection that carried it.
    pub connection: ConnectionId,
    /// Sender.
    pub sender: Side,
    /// Time since the first frame of the capture.
    #[serde(rename = "at_s", serialize_with = "quantity::seconds")]
    pub at: Duration,
    /// Frame number in the capture.
    pub frame: u64,
    /// Type as qlog names it: `initial`, `0RTT`, `handshake`, `1RTT`, `retry`, `version_negotiation`, `unknown`.
    pub packet_type: &'static str,
    /// Version of a long header.
    pub version: Option<u32>,
    /// Destination Connection ID in hexadecimal digits.
    pub destination: String,
    /// Source Connection ID in hexadecimal digits; empty in a short header.
    pub source: String,
    /// Packet number.
    pub number: Option<u64>,
    /// Length of the packet in bytes.
    pub length: u64,
    /// Frames, if the packet was opened.
    pub frames: Vec<QuicFrame>,
    /// Length of each frame in bytes: its type, its fields and its data.
    pub frame_lengths: Vec<u64>,
}

/// The transport parameters that an end declared in the handshake, for a log of packets. The names are those of qlog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuicParameters {
    /// Connection that they are for.
    pub connection: ConnectionId,
    /// The end that declared them.
    pub sender: Side,
    /// Time since the first frame of the capture.
    #[serde(rename = "at_s", serialize_with = "quantity::seconds")]
    pub at: Duration,
    /// Their values.
    #[serde(flatten)]
    pub values: TransportParameters,
}

/// Transport parameters (RFC 9000, section 18.2) that are numbers, as on the wire. One that the end left out is `None`, or zero
/// if that means the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TransportParameters {
    /// Time without a packet after which the connection ends, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_idle_timeout: Option<u64>,
    /// Largest datagram that the end takes, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_udp_payload_size: Option<u64>,
    /// Power of two that scales the delay in ACK frames of the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_delay_exponent: Option<u64>,
    /// Longest delay of its acknowledgments, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ack_delay: Option<u64>,
    /// Connection IDs that the end keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_connection_id_limit: Option<u64>,
    /// Bytes that the peer may send on all streams together.
    pub initial_max_data: u64,
    /// Bytes on a bidirectional stream that this end opens.
    pub initial_max_stream_data_bidi_local: u64,
    /// Bytes on a bidirectional stream that the peer opens.
    pub initial_max_stream_data_bidi_remote: u64,
    /// Bytes on a unidirectional stream.
    pub initial_max_stream_data_uni: u64,
    /// Bidirectional streams that the peer may open.
    pub initial_max_streams_bidi: u64,
    /// Unidirectional streams that the peer may open.
    pub initial_max_streams_uni: u64,
}

/// A frame of HTTP/3 on a request stream (RFC 9114, section 7.2), for a log of packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Http3Frame {
    /// Connection that carried it.
    pub connection: ConnectionId,
    /// Sender.
    pub sender: Side,
    /// Time since the first frame of the capture: for HEADERS, when it could be decoded, and for others, when its length was known.
    #[serde(rename = "at_s", serialize_with = "quantity::seconds")]
    pub at: Duration,
    /// Its stream.
    pub stream: u64,
    /// Type as on the wire.
    pub kind: u64,
    /// Bytes of its payload.
    pub length: u64,
    /// Of HEADERS: the method of a request, or the status of a response. Other fields may hold secrets and are left out. `None` if
    /// the field section has neither, or could not be decoded.
    pub start: Option<MessageStart>,
}

/// What a message begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageStart {
    /// Of a request, truncated at 32 bytes.
    Method(String),
    /// Of a response.
    Status(u16),
}

/// A frame without the data it carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "frame_type", rename_all = "snake_case")]
#[allow(
    missing_docs,
    reason = "the fields have the names and meanings of RFC 9000, section 19"
)]
pub enum QuicFrame {
    /// Bytes of padding in a row.
    Padding {
        #[serde(rename = "payload_length")]
        length: u64,
    },
    Ping,
    /// Ranges of packet numbers, both ends included, the largest first. The delay is as on the wire: the peer's
    /// `ack_delay_exponent` scales it.
    Ack {
        #[serde(skip)]
        delay: u64,
        #[serde(serialize_with = "ranges")]
        acked_ranges: Vec<(u64, u64)>,
    },
    ResetStream {
        stream_id: u64,
        error_code: u64,
        final_size: u64,
    },
    StopSending {
        stream_id: u64,
        error_code: u64,
    },
    Crypto {
        offset: u64,
        length: u64,
    },
    NewToken {
        #[serde(rename = "token", serialize_with = "token")]
        length: u64,
    },
    Stream {
        stream_id: u64,
        offset: u64,
        length: u64,
        #[serde(skip_serializing_if = "core::ops::Not::not")]
        fin: bool,
    },
    MaxData {
        maximum: u64,
    },
    MaxStreamData {
        stream_id: u64,
        maximum: u64,
    },
    MaxStreams {
        stream_type: StreamType,
        maximum: u64,
    },
    DataBlocked {
        limit: u64,
    },
    StreamDataBlocked {
        stream_id: u64,
        limit: u64,
    },
    StreamsBlocked {
        stream_type: StreamType,
        limit: u64,
    },
    NewConnectionId {
        sequence_number: u64,
        retire_prior_to: u64,
        connection_id: String,
    },
    RetireConnectionId {
        sequence_number: u64,
    },
    PathChallenge,
    PathResponse,
    ConnectionClose {
        error_space: ErrorSpace,
        error_code: u64,
        reason: String,
    },
    HandshakeDone,
    /// The peer is to acknowledge at once (draft-ietf-quic-ack-frequency, section 5).
    ImmediateAck,
    /// How often the peer is to acknowledge (draft-ietf-quic-ack-frequency, section 4). The delay is in microseconds.
    AckFrequency {
        sequence_number: u64,
        ack_eliciting_threshold: u64,
        request_max_ack_delay: u64,
        reordering_threshold: u64,
    },
    Datagram {
        length: u64,
    },
}

/// A range of one packet has one number.
fn ranges<S: Serializer>(ranges: &[(u64, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut seq = serializer.serialize_seq(Some(ranges.len()))?;
    for (low, high) in ranges {
        match low == high {
            true => seq.serialize_element(&[low])?,
            false => seq.serialize_element(&[low, high])?,
        }
    }
    seq.end()
}

/// A token of which only the length is kept.
fn token<S: Serializer>(length: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Token {
        length: u64,
    }
    Token { length: *length }.serialize(serializer)
}

/// Direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamType {
    /// Both ends send.
    Bidirectional,
    /// Only the end that opened the stream sends.
    Unidirectional,
}

/// Meaning of an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorSpace {
    /// RFC 9000, section 20.1.
    Transport,
    /// The application protocol's.
    Application,
}

/// QUIC in numbers, over the connections that have been reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct QuicTotals {
    /// Connections.
    pub connections: u64,
    /// With version 1 (RFC 9000).
    pub version1: u64,
    /// With version 2 (RFC 9369).
    pub version2: u64,
    /// Handshakes with a Retry packet.
    pub retried: u64,
    /// Handshakes with a Version Negotiation packet.
    pub negotiated: u64,
    /// Connections whose packets with short headers were opened.
    pub decrypted: u64,
    /// Connections for which there were secrets, but not theirs or for another cipher suite.
    pub undecrypted: u64,
    /// From the client's first packet to the end of the handshake.
    pub handshake: Spread,
    /// The clients' packets.
    pub from_clients: QuicSums,
    /// The servers' packets.
    pub from_servers: QuicSums,
}

/// Sums of one direction over all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct QuicSums {
    /// Datagrams and bytes.
    pub volume: DatagramVolume,
    /// Packets that were opened.
    pub opened: u64,
    /// Stream bytes, each counted once.
    pub stream_bytes: u64,
    /// Stream bytes that were sent again.
    pub stream_bytes_again: u64,
    /// Lost packets, before and behind the capture point.
    pub lost: u64,
    /// Round trips by acknowledgments.
    pub rtt: Spread,
    /// Round trips by the spin bit.
    pub spin: Spread,
}

impl QuicSums {
    fn add(&mut self, direction: &QuicDirection) {
        self.volume.merge(direction.volume);
        self.opened += direction.opened;
        self.stream_bytes += direction.stream_bytes;
        self.stream_bytes_again += direction.stream_bytes_again;
        self.lost += direction.lost + direction.lost_before;
        self.rtt.merge(&direction.rtt);
        self.spin.merge(&direction.spin);
    }
}

impl QuicTotals {
    pub(crate) fn add(&mut self, quic: &Quic) {
        self.connections += 1;
        self.version1 += u64::from(quic.version == V1);
        self.version2 += u64::from(quic.version == V2);
        self.retried += u64::from(quic.retried);
        self.negotiated += u64::from(!quic.supported_versions.is_empty());
        self.decrypted += u64::from(quic.decryption == Decryption::Done);
        self.undecrypted += u64::from(matches!(
            quic.decryption,
            Decryption::NoSecrets | Decryption::UnknownSuite
        ));
        if let Some(handshake) = quic.handshake {
            self.handshake.record(handshake);
        }
        self.from_clients.add(&quic.from_client);
        self.from_servers.add(&quic.from_server);
    }
}
