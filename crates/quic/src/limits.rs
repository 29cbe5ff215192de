//! A bound on everything that a peer can make grow, and a value for every other setting of the library. Its own defaults allow
//! an unlimited receive window and 100 MiB of datagrams of connections that nobody has accepted, and may change.
//!
//! The library itself bounds each connection: 5 connection IDs of the peer and 8 of ours (RFC 9000 section 5.1.1), and 64
//! ranges in an ACK frame, of which it remembers as many. 16 answers to PATH_CHALLENGE may wait, and 1,024 pieces of a
//! stream may be out of order.

use crate::handshake::V1;
use quinn_proto::congestion::CubicConfig;
use quinn_proto::{
    EndpointConfig, IdleTimeout, MtuDiscoveryConfig, NoneTokenLog, ServerConfig, TransportConfig,
    ValidationTokenConfig, VarInt,
};
use std::sync::Arc;
use std::time::Duration;

/// The payload of a datagram that every path of QUIC carries (RFC 9000 section 14), with which connections begin.
const PAYLOAD_BEGUN: u16 = 1_200;

/// The largest that is tried: IPv6 and UDP headers in a frame of Ethernet.
const PAYLOAD_TRIED: u16 = 1_452;

/// The largest that a peer may send: as before, with the smaller headers of IPv4.
const PAYLOAD_TAKEN: u16 = 1_472;

/// Requests of a connection after which all streams of [`Limits::streams_max`] are permitted. Early enough that a client which
/// sends many at once hears of it before it has used up those permitted at first.
pub(crate) const STREAMS_MANY: u32 = 64;

/// Limits of an endpoint and its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Request streams that a peer may have open at a time.
    pub streams_max: u32,
    /// The same, before it has made many requests (`initial_max_streams_bidi`, RFC 9000 section 18.2). The library keeps a
    /// table entry for each permitted stream, used or not.
    pub streams_begun: u32,
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
    /// Time without a packet after which a PING is sent (RFC 9000 section 10.1.2); `None`: never. For clients, which keep connections
    /// open while they await answers (RFC 9114 section 5.1).
    pub keep_alive: Option<Duration>,
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
            // The least that RFC 9114 section 6.1 recommends. With 128, the tables would have twice the size.
            streams_begun: 100,
            unidirectional_max: 8,
            stream_window: 64 << 10,
            connection_window: 256 << 10,
            unacknowledged_max: 4 << 20,
            crypto_bytes_max: 16 << 10,
            idle_time: Duration::from_secs(65),
            keep_alive: None,
            handshakes_calm: 256,
            handshakes_max: 1_024,
        }
    }
}

impl Limits {
    /// The library's configuration of a connection: these limits, CUBIC (RFC 9438), no datagram frames (RFC 9221), no spin bit,
    /// which would show round trips to others. Loss recovery is that of RFC 9002.
    pub(crate) fn transport(&self) -> TransportConfig {
        let mut transport = TransportConfig::default();
        let idle = IdleTimeout::try_from(self.idle_time).ok();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(self.streams_begun.min(self.streams_max)))
            .max_concurrent_uni_streams(VarInt::from_u32(self.unidirectional_max))
            .stream_receive_window(VarInt::from_u32(self.stream_window))
            .receive_window(VarInt::from_u32(self.connection_window))
            .send_window(self.unacknowledged_max)
            .crypto_buffer_size(self.crypto_bytes_max)
            .max_idle_timeout(idle)
            .keep_alive_interval(self.keep_alive)
            .datagram_receive_buffer_size(None)
            .datagram_send_buffer_size(0)
            .allow_spin(false)
            .congestion_controller_factory(Arc::new(CubicConfig::default()));
        // RFC 9002: sections 6.1.1, 6.1.2, 6.2.2 and 7.6.1.
        transport
            .packet_threshold(3)
            .time_threshold(9.0 / 8.0)
            .initial_rtt(Duration::from_millis(333))
            .persistent_congestion_threshold(3);
        // RFC 8899; and whole batches for the kernel to cut (UDP_SEGMENT).
        transport
            .initial_mtu(PAYLOAD_BEGUN)
            .min_mtu(PAYLOAD_BEGUN)
            .mtu_discovery_config(Some(discovery()))
            .pad_to_mtu(false)
            .enable_segmentation_offload(true);
        // Streams of one urgency take turns; peers acknowledge as RFC 9000 section 13.2 says.
        transport.send_fairness(true).ack_frequency_config(None);
        // Recorded connections get a stream of their own.
        transport.qlog_stream(None);
        transport
    }

    /// The window of a connection on which a stream that is not read stops no other.
    pub(crate) fn window_of_all_streams(&self) -> VarInt {
        let all = self.streams_max.saturating_mul(self.stream_window);
        VarInt::from_u32(all.max(self.connection_window))
    }

    /// Sets what is kept for peers that are not accepted yet: each is accepted or refused at once, so this is little. Clients
    /// may move to another address (RFC 9000 section 9). Tokens are for those that have Retry only, and short-lived.
    pub(crate) fn bound_incoming(&self, config: &mut ServerConfig) {
        let mut tokens = ValidationTokenConfig::default();
        tokens
            .sent(0)
            .lifetime(Duration::ZERO)
            .log(Arc::new(NoneTokenLog));
        config
            .max_incoming(16)
            .incoming_buffer_size(16 << 10)
            .incoming_buffer_size_total(256 << 10)
            .retry_token_lifetime(Duration::from_secs(15))
            .validation_token_config(tokens)
            .migration(true)
            .preferred_address_v4(None)
            .preferred_address_v6(None);
    }
}

/// Raises the payload of a path as far as it carries, again after ten minutes, and one minute after it has shrunk.
fn discovery() -> MtuDiscoveryConfig {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery
        .upper_bound(PAYLOAD_TRIED)
        .interval(Duration::from_secs(600))
        .black_hole_cooldown(Duration::from_secs(60))
        .minimum_change(20);
    discovery
}

/// The library's configuration of an endpoint in either role, with at most one stateless reset in `reset_interval`. Draws the
/// key of these resets. Version 1 only: the library also has drafts of it, which no client uses any more.
pub(crate) fn endpoint(reset_interval: Duration) -> EndpointConfig {
    let mut endpoint = EndpointConfig::default();
    endpoint
        .supported_versions(vec![V1])
        .grease_quic_bit(true)
        .min_reset_interval(reset_interval)
        .rng_seed(None)
        .max_udp_payload_size(PAYLOAD_TAKEN)
        .expect("more than 1,200 bytes (RFC 9000 section 18.2)");
    endpoint
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::{ClientTls, ServerTls};
    use quinn_proto::ClientConfig;
    use quinn_proto::congestion::Cubic;
    use runtime::clock::to_standard;
    use std::fmt::Debug;
    use std::net::SocketAddr;
    use units::Instant;

    /// The fields of a structure of the library.
    fn fields(of: &impl Debug) -> Vec<String> {
        let text = format!("{of:#?}");
        let named = text.lines().filter_map(|line| {
            let (name, _) = line.strip_prefix("    ")?.split_once(':')?;
            (!name.starts_with(' ')).then(|| name.to_owned())
        });
        named.collect()
    }

    /// The configuration of a server that has no certificate.
    fn accepting() -> ServerConfig {
        let none = rustls::server::ResolvesServerCertUsingSni::new();
        let tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(none));
        let mut config = ServerConfig::with_crypto(Arc::new(ServerTls::new(tls).expect("TLS 1.3")));
        Limits::default().bound_incoming(&mut config);
        config
    }

    /// A release of the library with a further setting fails here: give it a value above, and its reason in docs/http.md.
    #[test]
    fn every_setting_of_the_library_has_a_value_of_ours() {
        assert_eq!(
            fields(&Limits::default().transport()),
            [
                "max_concurrent_bidi_streams",
                "max_concurrent_uni_streams",
                "max_idle_timeout",
                "stream_receive_window",
                "receive_window",
                "send_window",
                "send_fairness",
                "packet_threshold",
                "time_threshold",
                "initial_rtt",
                "initial_mtu",
                "min_mtu",
                "mtu_discovery_config",
                "pad_to_mtu",
                "ack_frequency_config",
                "persistent_congestion_threshold",
                "keep_alive_interval",
                "crypto_buffer_size",
                "allow_spin",
                "datagram_receive_buffer_size",
                "datagram_send_buffer_size",
                "enable_segmentation_offload",
                "qlog_stream",
            ]
        );
        // Beside these, which it prints: the time source, the keys of tokens, and what checks their use.
        let server = accepting();
        assert_eq!(
            fields(&server),
            [
                "transport",
                "retry_token_lifetime",
                "validation_token",
                "migration",
                "preferred_address_v4",
                "preferred_address_v6",
                "max_incoming",
                "incoming_buffer_size",
                "incoming_buffer_size_total",
            ]
        );
        assert_eq!(fields(&server.validation_token), ["lifetime", "sent"]);
        assert_eq!(
            fields(&discovery()),
            ["interval", "upper_bound", "minimum_change", "black_hole_cooldown"]
        );
        assert_eq!(
            fields(&endpoint(Duration::ZERO)),
            [
                "max_udp_payload_size",
                "supported_versions",
                "grease_quic_bit",
                "rng_seed"
            ]
        );
    }

    /// Most values are the library's defaults of today, so the values do not show that a line is gone.
    #[test]
    fn every_setting_of_the_library_is_set_here() {
        let halves = include_str!("limits.rs").split_once("#[cfg(test)]");
        let (source, _) = halves.expect("these tests");
        // The library does not print them, or prints them under another name.
        let more = [
            "congestion_controller_factory",
            "log",
            "min_reset_interval",
            "validation_token_config",
        ];
        // The first is set by the endpoint, the second is the last of `more`.
        let others = ["transport", "validation_token"];
        let server = accepting();
        let printed = [
            fields(&Limits::default().transport()),
            fields(&server),
            fields(&server.validation_token),
            fields(&discovery()),
            fields(&endpoint(Duration::ZERO)),
        ]
        .concat();
        let names = printed.iter().map(String::as_str).chain(more);
        for name in names.filter(|name| !others.contains(name)) {
            assert!(source.contains(&format!(".{name}(")), "{name} is not set");
        }
    }

    #[test]
    fn settings_that_bound_nothing_have_their_values() {
        let text = format!("{:?}", Limits::default().transport());
        for value in [
            "max_idle_timeout: Some(65000),",
            "send_fairness: true,",
            "packet_threshold: 3,",
            "time_threshold: 1.125,",
            "initial_rtt: 333ms,",
            "initial_mtu: 1200,",
            "min_mtu: 1200,",
            "interval: 600s, upper_bound: 1452, minimum_change: 20, black_hole_cooldown: 60s",
            "pad_to_mtu: false,",
            "ack_frequency_config: None,",
            "persistent_congestion_threshold: 3,",
            "keep_alive_interval: None,",
            "crypto_buffer_size: 16384,",
            "allow_spin: false,",
            "datagram_send_buffer_size: 0,",
            "enable_segmentation_offload: true,",
            "qlog_stream: false,",
        ] {
            assert!(text.contains(value), "{value} {text}");
        }
        let text = format!("{:?}", endpoint(Duration::ZERO));
        assert!(text.contains("grease_quic_bit: true, rng_seed: None,"), "{text}");
    }

    /// The library does not print the controller of its settings, but a connection has it.
    #[test]
    fn congestion_control_is_cubic() {
        let tls = rustls::ClientConfig::builder().with_root_certificates(rustls::RootCertStore::empty());
        let tls = ClientTls::new(Arc::new(tls.with_no_client_auth())).expect("TLS 1.3");
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(Limits::default().transport()));
        let settings = Arc::new(endpoint(Duration::ZERO));
        let mut quic = quinn_proto::Endpoint::new(settings, None, false, None);
        let server = SocketAddr::from(([192, 0, 2, 1], 443));
        let begun = quic.connect(to_standard(Instant::ZERO), config, server, "a.test");
        let (_, connection) = begun.expect("a valid configuration");
        let controller = connection.congestion_state().clone_box().into_any();
        assert!(controller.is::<Cubic>());
    }

    #[test]
    fn what_a_peer_may_do_is_bounded() {
        let limits = Limits {
            streams_max: 10,
            ..Limits::default()
        };
        let text = format!("{:?}", limits.transport());
        for bound in [
            "max_concurrent_bidi_streams: 10,",
            "max_concurrent_uni_streams: 8,",
            "stream_receive_window: 65536,",
            "receive_window: 262144,",
            "send_window: 4194304,",
            "datagram_receive_buffer_size: None,",
        ] {
            assert!(text.contains(bound), "{bound} {text}");
        }
        let text = format!("{:?}", Limits::default().transport());
        assert!(text.contains("max_concurrent_bidi_streams: 100,"), "{text}");
        assert!(format!("{:?}", endpoint(Duration::ZERO)).contains("supported_versions: [1]"));
        let text = format!("{:?}", endpoint(Duration::ZERO));
        assert!(text.contains("max_udp_payload_size: 1472,"), "{text}");
        let text = format!("{:?}", accepting());
        for bound in [
            "retry_token_lifetime: 15s,",
            "validation_token: ServerValidationTokenConfig { lifetime: 0ns, sent: 0,",
            "migration: true, preferred_address_v4: None, preferred_address_v6: None,",
            "max_incoming: 16, incoming_buffer_size: 16384, incoming_buffer_size_total: 262144,",
        ] {
            assert!(text.contains(bound), "{bound} {text}");
        }
    }
}
