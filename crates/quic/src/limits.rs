//! A bound on everything that a peer can make grow. The library's own defaults allow an unlimited receive window and
//! 100 MiB of datagrams of connections that nobody has accepted.

use quinn_proto::congestion::CubicConfig;
use quinn_proto::{IdleTimeout, ServerConfig, TransportConfig, VarInt};
use std::sync::Arc;
use std::time::Duration;

/// Limits of an endpoint and its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Request streams that a peer may have open at a time (`initial_max_streams_bidi`, RFC 9000 section 18.2).
    pub streams_max: u32,
    /// Unidirectional streams that a peer may have open at a time. HTTP/3 needs three; peers may open
    /// reserved ones, which mean nothing (RFC 9114 section 6.2.3).
    pub unidirectional_max: u32,
    /// Bytes that a peer may send on a stream before they are read.
    pub stream_window: u32,
    /// The same for all streams of a connection together, unless sessions leave input unread
    /// ([`leaves_input`](runtime::streams::Service::leaves_input)): that of a stream then counts for each stream.
    pub connection_window: u32,
    /// Bytes of a connection that are sent and not acknowledged, or wait to be sent. They refer to cached content where
    /// they can.
    pub unacknowledged_max: u64,
    /// Bytes of handshake messages out of order (RFC 9000 section 7.5).
    pub crypto_bytes_max: usize,
    /// Time without a packet after which a connection is dropped in silence (RFC 9000 section 10.1).
    pub idle_time: Duration,
    /// Connections of a worker whose handshake is not complete: above, new peers get Retry (RFC 9000 section 8.1.2) and
    /// have to prove their address. Nothing is kept for a Retry. 0: always.
    pub handshakes_calm: usize,
    /// The same: above, new peers get no answer at all.
    pub handshakes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams_max: 128,
            unidirectional_max: 8,
            stream_window: 64 << 10,
            connection_window: 256 << 10,
            unacknowledged_max: 4 << 20,
            crypto_bytes_max: 16 << 10,
            idle_time: Duration::from_secs(65),
            handshakes_calm: 256,
            handshakes_max: 1_024,
        }
    }
}

impl Limits {
    /// The library's configuration of a connection: these limits, CUBIC (RFC 9438), no datagram frames (RFC 9221).
    pub(crate) fn transport(&self) -> TransportConfig {
        let mut transport = TransportConfig::default();
        let idle = IdleTimeout::try_from(self.idle_time).ok();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(self.streams_max))
            .max_concurrent_uni_streams(VarInt::from_u32(self.unidirectional_max))
            .stream_receive_window(VarInt::from_u32(self.stream_window))
            .receive_window(VarInt::from_u32(self.connection_window))
            .send_window(self.unacknowledged_max)
            .crypto_buffer_size(self.crypto_bytes_max)
            .max_idle_timeout(idle)
            .datagram_receive_buffer_size(None)
            .datagram_send_buffer_size(0)
            .allow_spin(false)
            .congestion_controller_factory(Arc::new(CubicConfig::default()));
        transport
    }

    /// The window of a connection on which a stream that is not read stops no other.
    pub(crate) fn window_of_all_streams(&self) -> VarInt {
        let all = self.streams_max.saturating_mul(self.stream_window);
        VarInt::from_u32(all.max(self.connection_window))
    }

    /// Sets what is kept for peers that are not accepted yet. Each is accepted or refused at once, so this is little.
    pub(crate) fn bound_incoming(&self, config: &mut ServerConfig) {
        config
            .max_incoming(16)
            .incoming_buffer_size(16 << 10)
            .incoming_buffer_size_total(256 << 10);
    }
}
