//! What must hold between two ends whatever happens to the bytes on their way: nothing is read that was not sent, and memory
//! stays bounded.

use super::{Connection, Engine};
use crate::certificates::{Certificates, Pair, Unknown};
use crate::records::KEY_UPDATES_MAX;
use crate::tickets::{Ratchet, Secret};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::sync::{Arc, LazyLock};

/// Limit on the ciphertext that an end keeps between calls, in bytes: a handshake message of the longest that rustls takes, or
/// a record, and what came with it.
const HELD_MAX: usize = 256 << 10;

/// Events of a script that are done: a script costs at most so much.
const EVENTS_MAX: usize = 200;

/// Bytes on their way to an end beyond which none are repeated: every repetition may double them.
const COMING_MAX: usize = 256 << 10;

/// A server's configuration and that of a client which trusts it and knows these versions.
pub(crate) fn configurations_of(
    versions: &[&'static SupportedProtocolVersion],
) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).expect("a certificate");
    let provider = Arc::new(default_provider());
    let key = made.signing_key.serialize_pem();
    let pair = Pair::from_pem(made.cert.pem().as_bytes(), key.as_bytes(), &provider).expect("a pair");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Certificates::new(&[pair], Unknown::FirstPair)));
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    server.enable_secret_extraction = true;
    let secret = Secret::new(1_800_000_000).expect("chance");
    server.ticketer = Arc::new(Ratchet::new(secret).expect("a key"));
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    client.enable_secret_extraction = true;
    (Arc::new(server), Arc::new(client))
}

pub(crate) fn client(config: &Arc<ClientConfig>) -> Engine {
    let name = ServerName::try_from("a.test").expect("a name");
    Engine::client(Arc::clone(config), name).expect("a client")
}

/// The configurations of all runs, with TLS 1.3 and with TLS 1.2: later runs resume sessions of earlier ones.
static CONFIGURATIONS: LazyLock<[(Arc<ServerConfig>, Arc<ClientConfig>); 2]> =
    LazyLock::new(|| [&TLS13, &TLS12].map(|version| configurations_of(&[version])));

/// One end, what it has sent and read, and what is on its way to it.
struct End {
    engine: Engine,
    sent: Vec<u8>,
    read: Vec<u8>,
    coming: Vec<u8>,
    /// It has sent `close_notify`.
    has_closed: bool,
    /// It has read one.
    saw_close: bool,
    /// It met an error and can only be closed.
    is_over: bool,
}

impl End {
    fn new(engine: Engine) -> End {
        End {
            engine,
            sent: Vec::new(),
            read: Vec::new(),
            coming: Vec::new(),
            has_closed: false,
            saw_close: false,
            is_over: false,
        }
    }

    /// Reads `piece`; what it says goes to `out`.
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let received = self.engine.receive(piece, &mut Vec::new(), &mut self.read, out);
        self.is_over = received.is_err();
        self.saw_close |= received.is_ok_and(|received| received.closed);
        assert!(self.engine.held() <= HELD_MAX, "{} held", self.engine.held());
    }
}

/// What happens to a connection, by `script`: a byte for the version, then two for each event, one for what happens and to
/// which end, one for how much. Both ends are Weir's, with keys of their own chance.
///
/// # Panics
/// - An end has read what the other did not send.
/// - Every byte came as it was sent, but an end has an error or lacks something.
/// - An end holds more than [`HELD_MAX`].
pub fn fuzz(script: &[u8]) {
    let Some((&version, events)) = script.split_first() else {
        return;
    };
    let (server, config) = &CONFIGURATIONS[usize::from(version & 1)];
    let mut ends = [
        End::new(client(config)),
        End::new(Engine::server(Arc::clone(server)).expect("a server")),
    ];
    let (mut is_tampered, mut updates) = (false, 0_u8);
    let [first, second] = &mut ends;
    first.take(&[], &mut second.coming);
    for event in events.chunks_exact(2).take(EVENTS_MAX) {
        let [kind, much] = [event[0], event[1]];
        let [a, b] = &mut ends;
        let (this, other) = if kind & 1 == 0 { (a, b) } else { (b, a) };
        let place = usize::from(much) * this.coming.len() / 256;
        match kind >> 1 & 7 {
            0 | 1 => deliver(this, other, place + 1),
            2 => deliver(this, other, usize::MAX),
            3 if !this.is_over => {
                let plain: Vec<u8> = (0..usize::from(much) * 64).map(|n| n as u8).collect();
                if this.engine.send(&plain, &mut other.coming).is_ok() {
                    this.sent.extend(plain);
                }
            }
            4 if !this.is_over => this.has_closed |= this.engine.close(&mut other.coming).is_ok(),
            5 if let Connection::Sealed(sealed) = &mut this.engine.connection
                && !this.has_closed =>
            {
                updates = updates.saturating_add(1);
                sealed
                    .records
                    .update(much & 1 == 0, &mut other.coming)
                    .expect("keys");
            }
            6 if let Some(byte) = this.coming.get_mut(place) => {
                *byte ^= 1 << (kind >> 4 & 7);
                is_tampered = true;
            }
            7 if !this.coming.is_empty() => {
                // Lost, or once more.
                if kind & 16 == 0 {
                    this.coming.drain(..=place);
                } else if this.coming.len() < COMING_MAX {
                    let again = this.coming[..=place].to_vec();
                    this.coming.extend(again);
                }
                is_tampered = true;
            }
            _ => {}
        }
    }
    for _ in 0..10 {
        let [a, b] = &mut ends;
        deliver(a, b, usize::MAX);
        deliver(b, a, usize::MAX);
    }
    let [a, b] = &ends;
    for (reader, writer) in [(a, b), (b, a)] {
        assert!(
            writer.sent.starts_with(&reader.read),
            "something was read that was not sent"
        );
        if !is_tampered && updates <= KEY_UPDATES_MAX && !reader.has_closed {
            assert!(!reader.is_over && reader.read.len() == writer.sent.len());
            assert_eq!(reader.saw_close, writer.has_closed);
        }
    }
}

/// Carries the next bytes to `this`, at most `len`.
fn deliver(this: &mut End, other: &mut End, len: usize) {
    if this.is_over {
        this.coming.clear();
        return;
    }
    let rest = this.coming.split_off(len.min(this.coming.len()));
    let piece = std::mem::replace(&mut this.coming, rest);
    if !piece.is_empty() {
        this.take(&piece, &mut other.coming);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 300,
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(0x1994_1106),
            ..ProptestConfig::default()
        })]
        #[test]
        fn nothing_is_read_that_was_not_sent(script in proptest::collection::vec(any::<u8>(), 0..150)) {
            // Both hands are shaken first, most of the time.
            let quiet = [4, 0, 5, 0, 4, 0, 5, 0];
            let (version, events) = script.split_first().unwrap_or((&0, &[]));
            let shaken = if version & 6 == 0 { &quiet[..0] } else { &quiet[..] };
            super::fuzz(&[&[*version], shaken, events].concat());
        }
    }
}
