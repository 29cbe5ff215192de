//! TLS of a connection (RFC 9001), for `quinn-proto`: what its own adapter does, and two things that it does not.
//!
//! ```text
//!   CRYPTO frames ◀──▶ rustls ── complete ──▶ [server] secrets of the next keys, and what was agreed on
//! ```
//! It tells the cipher suite, and whether an earlier session was resumed. And a server drops rustls' state once the handshake
//! is complete and its tickets are written: that is several KiB, which an idle connection would keep for nothing. A client
//! keeps it, for the tickets that follow. Early data is off, so nothing here knows it.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use quinn_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session, UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::quic::{
    self, ClientConnection, Connection, KeyChange, Secrets, ServerConnection, Suite, Version,
};
use rustls::{AlertDescription, CipherSuite, CommonState, HandshakeKind};
use std::any::Any;
use std::sync::Arc;

/// The number of QUIC version 1, the only one here (RFC 9000 section 15).
pub(crate) const V1: u32 = 1;

/// The AES-128-GCM key and nonce of a Retry packet's integrity tag (RFC 9001 section 5.8).
const RETRY_KEY: [u8; 16] = [
    0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e,
];
const RETRY_NONCE: [u8; 12] = [
    0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb,
];

/// Bytes of that tag.
const TAG_BYTES: usize = 16;

/// Why TLS cannot be used for QUIC.
const UNFIT: &str = "QUIC needs TLS 1.3 with AES-128-GCM (RFC 9001 section 5.2)";

/// What a complete handshake agreed on. [`Session::handshake_data`] returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// The protocol above (ALPN).
    pub(crate) protocol: Option<Vec<u8>>,
    /// The cipher suite by its registered name.
    pub(crate) suite: &'static str,
    /// Whether an earlier session was resumed.
    pub(crate) resumed: bool,
    /// Whom the peer's certificate names, if the peer sent one.
    pub(crate) identity: Option<String>,
}

impl Agreed {
    fn of(tls: &CommonState) -> Agreed {
        let suite = tls.negotiated_cipher_suite();
        let chain = tls.peer_certificates();
        Agreed {
            protocol: tls.alpn_protocol().map(<[u8]>::to_vec),
            suite: suite
                .and_then(|suite| tls::names::known_suite(suite.suite()))
                .unwrap_or("unknown"),
            resumed: tls.handshake_kind() == Some(HandshakeKind::Resumed),
            identity: chain.and_then(|chain| tls::certificates::identity(chain.first()?)),
        }
    }
}

/// What the handshake of this connection agreed on; `None` before it is complete.
pub(crate) fn agreed(connection: &quinn_proto::Connection) -> Option<Agreed> {
    let data = connection.crypto_session().handshake_data()?;
    data.downcast::<Agreed>().ok().map(|agreed| *agreed)
}

/// TLS of servers.
pub(crate) struct ServerTls {
    tls: Arc<rustls::ServerConfig>,
    initial: Suite,
}

impl ServerTls {
    /// # Errors
    /// In words, if QUIC cannot use it.
    pub(crate) fn new(tls: rustls::ServerConfig) -> Result<ServerTls, String> {
        let initial = initial(tls.crypto_provider()).ok_or(UNFIT)?;
        let tls = Arc::new(tls);
        // The first connection must not be the one that finds out.
        ServerConnection::new(Arc::clone(&tls), Version::V1, Vec::new()).map_err(|_| UNFIT)?;
        Ok(ServerTls { tls, initial })
    }
}

impl crypto::ServerConfig for ServerTls {
    fn initial_keys(&self, version: u32, destination: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        match version {
            V1 => Ok(initial_keys(&self.initial, destination, Side::Server)),
            _ => Err(UnsupportedVersion),
        }
    }

    fn retry_tag(&self, _: u32, original: &ConnectionId, packet: &[u8]) -> [u8; TAG_BYTES] {
        retry_tag(original, packet)
    }

    fn start_session(self: Arc<Self>, _: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        let tls = ServerConnection::new(Arc::clone(&self.tls), Version::V1, encoded(parameters));
        let tls = tls.expect("`new` has tried it");
        Box::new(Handshake::of(tls.into(), self.initial))
    }
}

/// TLS of clients.
pub(crate) struct ClientTls {
    tls: Arc<rustls::ClientConfig>,
    initial: Suite,
}

impl ClientTls {
    /// # Errors
    /// In words, if QUIC cannot use it.
    pub(crate) fn new(tls: Arc<rustls::ClientConfig>) -> Result<ClientTls, String> {
        let initial = initial(tls.crypto_provider()).ok_or(UNFIT)?;
        Ok(ClientTls { tls, initial })
    }
}

impl crypto::ClientConfig for ClientTls {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        if version != V1 {
            return Err(ConnectError::UnsupportedVersion);
        }
        let fault = |_| ConnectError::InvalidServerName(name.to_owned());
        let host = ServerName::try_from(name.to_owned()).map_err(fault)?;
        let tls = ClientConnection::new(Arc::clone(&self.tls), Version::V1, host, encoded(parameters));
        let tls = tls.expect("the suite of `new` is one of TLS 1.3");
        Ok(Box::new(Handshake::of(tls.into(), self.initial)))
    }
}

/// A handshake, and what is left of it.
struct Handshake {
    state: State,
    initial: Suite,
}

enum State {
    /// With the secrets of the next keys, once there are any.
    Tls(Box<Connection>, Option<Secrets>),
    /// A server's, complete.
    Complete(Secrets, Agreed),
}

impl Handshake {
    fn of(tls: Connection, initial: Suite) -> Handshake {
        Handshake {
            state: State::Tls(Box::new(tls), None),
            initial,
        }
    }
}

impl Session for Handshake {
    fn initial_keys(&self, destination: &ConnectionId, side: Side) -> Keys {
        initial_keys(&self.initial, destination, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        match &self.state {
            State::Tls(tls, _) if tls.is_handshaking() => None,
            State::Tls(tls, _) => Some(Box::new(Agreed::of(tls))),
            State::Complete(_, agreed) => Some(Box::new(agreed.clone())),
        }
    }

    /// [`Agreed`] has it.
    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        match &self.state {
            State::Tls(tls, _) => tls.is_handshaking(),
            State::Complete(..) => false,
        }
    }

    /// Never `true`, so the library reports no `HandshakeDataReady`, which nobody waits for.
    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        let State::Tls(tls, _) = &mut self.state else {
            // After its Finished, a client has nothing to say to a server that asks for no certificate then (RFC 8446
            // section 4.6), and key updates are not TLS's here (RFC 9001 section 6).
            return Err(fault(
                AlertDescription::UnexpectedMessage,
                "a message after the handshake".to_owned(),
            ));
        };
        let Err(error) = tls.read_hs(bytes) else {
            return Ok(false);
        };
        Err(match tls.alert() {
            Some(alert) => fault(alert, error.to_string()),
            None => TransportError {
                code: TransportErrorCode::PROTOCOL_VIOLATION,
                frame: None,
                reason: format!("TLS: {error}"),
            },
        })
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let State::Tls(tls, _) = &self.state else {
            // The library has asked for them.
            return Ok(None);
        };
        let side = match **tls {
            Connection::Client(_) => Side::Client,
            Connection::Server(_) => Side::Server,
        };
        let Some(mut bytes) = tls.quic_transport_parameters() else {
            return Ok(None);
        };
        Ok(Some(TransportParameters::read(side, &mut bytes)?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let State::Tls(tls, next) = &mut self.state else {
            return None;
        };
        let before = out.len();
        match tls.write_hs(out) {
            Some(KeyChange::Handshake { keys }) => return Some(boxed(keys)),
            Some(KeyChange::OneRtt { keys, next: secrets }) => {
                *next = Some(secrets);
                return Some(boxed(keys));
            }
            None => {}
        }
        // A client awaits tickets.
        let is_over = matches!(**tls, Connection::Server(_)) && !tls.is_handshaking() && out.len() == before;
        if let Some(secrets) = next.take_if(|_| is_over) {
            self.state = State::Complete(secrets, Agreed::of(tls));
        }
        None
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let secrets = match &mut self.state {
            State::Tls(_, next) => next.as_mut()?,
            State::Complete(secrets, _) => secrets,
        };
        let keys = secrets.next_packet_keys();
        Some(KeyPair {
            local: Box::new(keys.local),
            remote: Box::new(keys.remote),
        })
    }

    fn is_valid_retry(&self, original: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some((token, tag)) = payload.split_last_chunk::<TAG_BYTES>() else {
            return false;
        };
        retry_tag(original, &[header, token].concat()) == *tag
    }

    /// Nobody exports keys of HTTP/3.
    fn export_keying_material(
        &self,
        _: &mut [u8],
        _: &[u8],
        _: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

fn fault(alert: AlertDescription, reason: String) -> TransportError {
    TransportError {
        code: TransportErrorCode::crypto(alert.into()),
        frame: None,
        reason,
    }
}

/// The suite of Initial packets (RFC 9001 section 5.2), if the provider has it.
fn initial(provider: &CryptoProvider) -> Option<Suite> {
    let suites = provider.cipher_suites.iter();
    let mut tls13 = suites.filter_map(|suite| suite.tls13());
    tls13
        .find(|suite| suite.common.suite == CipherSuite::TLS13_AES_128_GCM_SHA256)?
        .quic_suite()
}

fn initial_keys(suite: &Suite, destination: &ConnectionId, side: Side) -> Keys {
    boxed(suite.keys(destination, side.into(), Version::V1))
}

fn boxed(keys: quic::Keys) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(keys.local.header),
            remote: Box::new(keys.remote.header),
        },
        packet: KeyPair {
            local: Box::new(keys.local.packet),
            remote: Box::new(keys.remote.packet),
        },
    }
}

fn encoded(parameters: &TransportParameters) -> Vec<u8> {
    let mut bytes = Vec::new();
    parameters.write(&mut bytes);
    bytes
}

/// The integrity tag of a Retry packet, of which `packet` is the rest, for a client that sent its first packet to `original`
/// (RFC 9001 section 5.8).
fn retry_tag(original: &[u8], packet: &[u8]) -> [u8; TAG_BYTES] {
    let length = u8::try_from(original.len()).expect("at most 20 bytes (RFC 9000 section 17.2)");
    let pseudo = [&[length][..], original, packet].concat();
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &RETRY_KEY).expect("a key of its length"));
    let nonce = Nonce::assume_unique_for_key(RETRY_NONCE);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(pseudo), &mut []);
    let tag = tag.expect("nothing to encrypt");
    tag.as_ref().try_into().expect("a tag of AES-GCM")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9001, appendix A.4.
    #[test]
    fn the_retry_packet_of_rfc_9001_is_valid() {
        let original = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
        let packet = [
            0xff, 0x00, 0x00, 0x00, 0x01, 0x00, 0x08, 0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5, 0x74,
            0x6f, 0x6b, 0x65, 0x6e,
        ];
        let tag = [
            0x04, 0xa2, 0x65, 0xba, 0x2e, 0xff, 0x4d, 0x82, 0x90, 0x58, 0xfb, 0x3f, 0x0f, 0x24, 0x96, 0xba,
        ];
        assert_eq!(retry_tag(&original, &packet), tag);
        assert_ne!(retry_tag(&original[1..], &packet), tag);
    }
}
