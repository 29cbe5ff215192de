//! One connection's TLS as a pure state machine: what came from the network goes in, plaintext and what must be sent come out.
//!
//! ```text
//!   ciphertext ──▶ receive ──▶ plaintext for the protocol        send ◀── plaintext of the protocol
//!                     │                                            │
//!                     └──▶ handshake, alerts ──▶ to the network ◀──┘ records
//! ```
//! Decides how large records are (see [`Sizes`]) and what is kept between calls: the part of a record that has arrived.

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

use crate::records::{self, Records};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConfig, HandshakeKind, ProtocolVersion, ServerConfig, SupportedCipherSuite};
use std::fmt;
use std::sync::Arc;

/// What is wrong with a connection. It can only be closed.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The peer speaks something else: its first bytes are a request or a response of plain HTTP.
    PlainHttp,
    /// What the peer sent, or that the two have nothing in common; an alert for it stands in the output.
    Tls(rustls::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::PlainHttp => f.write_str("plain HTTP on a TLS port"),
            Fault::Tls(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}

/// What [`Engine::receive`] found besides plaintext.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The handshake was completed by these bytes.
    pub completed: bool,
    /// The peer will send no more (`close_notify`, RFC 8446 section 6.1).
    pub closed: bool,
}

/// What was agreed on in the handshake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreed {
    /// The version of the protocol.
    pub version: Option<ProtocolVersion>,
    /// The cipher suite.
    pub suite: Option<SupportedCipherSuite>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
}

/// Boxed, so that an idle connection does not keep the room of a handshake: rustls' state is a kilobyte.
enum Connection {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
    /// TLS 1.3 after the handshake, in either role.
    Sealed(Box<Sealed>),
    /// Between two of these. It stays so if the keys could not be taken over: the connection can only be closed.
    Changing,
}

/// A connection whose records no longer pass rustls, and what it is still asked about the handshake.
struct Sealed {
    records: Records,
    agreed: Agreed,
    protocol: Option<Box<[u8]>>,
    peer: Option<CertificateDer<'static>>,
}

/// The TLS of one connection.
pub struct Engine {
    connection: Connection,
    /// Ciphertext that is not a whole record yet, or not a whole handshake message.
    partial: Vec<u8>,
    sizes: Sizes,
    /// Nothing has come yet.
    is_fresh: bool,
    /// This end has sent `close_notify` through rustls, which would seal data of TLS 1.2 after it.
    is_closed: bool,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("partial", &self.partial.len())
            .finish_non_exhaustive()
    }
}

/// One step of either role. The states of the two are different types with the same variants.
macro_rules! step {
    ($connection:expr, $incoming:expr, $out:expr, $plain:expr) => {{
        let UnbufferedStatus {
            mut discard, state, ..
        } = $connection.process_tls_records($incoming);
        let step = match state {
            Err(error) => Step::Failed(error),
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                let mut step = Step::Again;
                while let Some(record) = traffic.next_record() {
                    match record {
                        Ok(record) => {
                            discard += record.discard;
                            $plain.extend_from_slice(record.payload);
                        }
                        Err(error) => {
                            step = Step::Failed(error);
                            break;
                        }
                    }
                }
                step
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                append($out, 0, |room| match data.encode(room) {
                    Ok(written) => Written::All(written),
                    Err(EncodeError::InsufficientSize(short)) => Written::Needs(short.required_size),
                    Err(EncodeError::AlreadyEncoded) => Written::All(0),
                });
                Step::Again
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                Step::Again
            }
            Ok(ConnectionState::PeerClosed) => Step::PeerClosed,
            // `ReadEarlyData` is never offered: no configuration of ours allows early data.
            Ok(_) => Step::Blocked,
        };
        (discard, step)
    }};
}

/// What followed from one step.
enum Step {
    /// There may be more.
    Again,
    /// The peer has closed its half.
    PeerClosed,
    /// It waits for more from either side.
    Blocked,
    /// It is over.
    Failed(rustls::Error),
}

/// How writing into a slice went.
enum Written {
    All(usize),
    /// It takes so many bytes.
    Needs(usize),
    /// It cannot be done.
    Failed,
}

/// Appends what `write` writes, with this much room to begin with. Whether it could.
fn append(out: &mut Vec<u8>, room: usize, mut write: impl FnMut(&mut [u8]) -> Written) -> bool {
    let from = out.len();
    let mut room = room;
    loop {
        out.resize(from + room, 0);
        match write(&mut out[from..]) {
            Written::All(written) => {
                out.truncate(from + written);
                return true;
            }
            Written::Needs(more) if more > room => room = more,
            Written::Needs(_) | Written::Failed => {
                out.truncate(from);
                return false;
            }
        }
    }
}

impl Engine {
    /// The server's end. The configuration must let secrets out (`enable_secret_extraction`): records of TLS 1.3 are not
    /// rustls' work here.
    ///
    /// # Errors
    /// A configuration that cannot work.
    pub fn server(config: Arc<ServerConfig>) -> Result<Engine, Fault> {
        let connection = UnbufferedServerConnection::new(config).map_err(Fault::Tls)?;
        Ok(Engine::of(Connection::Server(Box::new(connection))))
    }

    /// The client's end, for a server of this name, of a configuration as for [`Engine::server`]. [`Engine::receive`]
    /// without bytes begins the handshake.
    ///
    /// # Errors
    /// A configuration that cannot work.
    pub fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Result<Engine, Fault> {
        let connection = UnbufferedClientConnection::new(config, name).map_err(Fault::Tls)?;
        Ok(Engine::of(Connection::Client(Box::new(connection))))
    }

    fn of(connection: Connection) -> Engine {
        Engine {
            connection,
            partial: Vec::new(),
            sizes: Sizes::default(),
            is_fresh: true,
            is_closed: false,
        }
    }

    /// Takes ciphertext in. Plaintext is appended to `plain`, what must be sent to `out`; `scratch` is memory to work in, of no
    /// content before or after. An end that has closed TLS 1.2, or has closed before the handshake
    /// was complete, reads nothing more.
    ///
    /// # Errors
    /// Why the connection is over. An alert may stand in `out`, and plaintext that came before in `plain`.
    pub fn receive(
        &mut self,
        cipher: &[u8],
        scratch: &mut Vec<u8>,
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Received, Fault> {
        if self.is_fresh && !cipher.is_empty() {
            self.is_fresh = false;
            let is_plain = match self.connection {
                Connection::Client(_) => cipher.starts_with(b"HTTP/"),
                _ => is_plain_http(cipher),
            };
            if is_plain {
                return Err(Fault::PlainHttp);
            }
        }
        if self.is_closed {
            // RFC 5246, section 7.2.1: a close ends both directions. Debug builds of rustls would panic over a fault.
            return Ok(Received::default());
        }
        let was_handshaking = self.is_handshaking();
        scratch.clear();
        scratch.append(&mut self.partial);
        scratch.extend_from_slice(cipher);
        let mut received = Received::default();
        let mut at = 0;
        let ended = loop {
            let (discard, step) = match &mut self.connection {
                Connection::Server(server) => step!(server, &mut scratch[at..], out, plain),
                Connection::Client(client) => step!(client, &mut scratch[at..], out, plain),
                Connection::Sealed(sealed) => {
                    let opened = sealed.records.receive(scratch, plain, out).map_err(Fault::Tls)?;
                    received.closed = opened.closed;
                    at = opened.used;
                    break Ok(());
                }
                Connection::Changing => break Err(rustls::Error::HandshakeNotComplete),
            };
            at += discard;
            match step {
                Step::Again => {}
                Step::PeerClosed => received.closed = true,
                Step::Blocked => break Ok(()),
                Step::Failed(error) => break Err(error),
            }
        };
        if let Err(error) = ended {
            self.write_alerts(&mut scratch[at..], out);
            return Err(Fault::Tls(error));
        }
        if at < scratch.len() {
            self.partial.extend_from_slice(&scratch[at..]);
        } else {
            // An idle connection holds no buffer.
            self.partial = Vec::new();
        }
        received.completed = was_handshaking && !self.is_handshaking();
        if !received.closed && self.partial.is_empty() {
            self.seal(out)?;
        }
        Ok(received)
    }

    /// Takes the records of a complete handshake from rustls, if they are of TLS 1.3. Appends to `out` what rustls still has
    /// to say.
    fn seal(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let is_ready = match &self.connection {
            Connection::Server(_) | Connection::Client(_) => {
                !self.is_handshaking() && self.agreed().version == Some(ProtocolVersion::TLSv1_3)
            }
            Connection::Sealed(_) | Connection::Changing => false,
        };
        if !is_ready {
            return Ok(());
        }
        // rustls keeps its answer to a key update until it has something else to send, and drops it otherwise. No room
        // makes it take the answer up and seal nothing.
        self.write(out, |traffic, _| {
            let _ = traffic.encrypt(&[0], &mut []);
            true
        })?;
        self.write(out, |_, _| true)?;
        let (agreed, protocol) = (self.agreed(), self.protocol().map(Box::from));
        let peer = self.peer_certificate().cloned();
        let records = match std::mem::replace(&mut self.connection, Connection::Changing) {
            Connection::Server(server) => server
                .dangerous_into_kernel_connection()
                .and_then(Records::server),
            Connection::Client(client) => client
                .dangerous_into_kernel_connection()
                .and_then(Records::client),
            Connection::Sealed(_) | Connection::Changing => return Ok(()),
        };
        self.connection = Connection::Sealed(Box::new(Sealed {
            records: records.map_err(Fault::Tls)?,
            agreed,
            protocol,
            peer,
        }));
        Ok(())
    }

    /// Appends the alert that waits after a failure. `rest` is the unread part of the buffer that failed: rustls keeps
    /// offsets into it and panics on a shorter one. It also panics, in debug builds, if it reads the faulty record
    /// again after its alert has gone, so nothing follows the alert.
    fn write_alerts(&mut self, rest: &mut [u8], out: &mut Vec<u8>) {
        let mut plain = Vec::new();
        let mut at = 0;
        loop {
            let from = out.len();
            let (discard, step) = match &mut self.connection {
                Connection::Server(server) => step!(server, &mut rest[at..], out, plain),
                Connection::Client(client) => step!(client, &mut rest[at..], out, plain),
                Connection::Sealed(_) | Connection::Changing => return,
            };
            at += discard;
            let is_alert = matches!(out.get(from), Some(&(ALERT | APPLICATION_DATA)));
            if is_alert || !matches!(step, Step::Again) {
                return;
            }
        }
    }

    /// Appends records with this plaintext to `out`.
    ///
    /// # Errors
    /// The handshake is not complete, this end has closed, or the keys of the connection are used up.
    pub fn send(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let mut rest = plain;
        while !rest.is_empty() {
            let (record, after) = rest.split_at(self.sizes.next().min(rest.len()));
            self.encrypt(record, out)?;
            self.sizes.sent(record.len());
            rest = after;
        }
        Ok(())
    }

    /// The connection was silent for a while: the next records are small again.
    pub fn rest(&mut self) {
        self.sizes = Sizes::default();
    }

    fn encrypt(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        if let Connection::Sealed(sealed) = &mut self.connection {
            return sealed.records.send(record, out).map_err(Fault::Tls);
        }
        if self.is_closed {
            return Err(Fault::Tls(records::closed()));
        }
        self.write(out, |traffic, out| {
            append(out, record.len() + OVERHEAD, |room| {
                written(traffic.encrypt(record, room))
            })
        })
    }

    /// Appends `close_notify`, once: nothing can be sent after it.
    ///
    /// # Errors
    /// The handshake is not complete, or the keys of the connection are used up.
    pub fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        if let Connection::Sealed(sealed) = &mut self.connection {
            return sealed.records.close(out).map_err(Fault::Tls);
        }
        if self.is_closed {
            return Ok(());
        }
        self.write(out, |traffic, out| {
            append(out, OVERHEAD, |room| written(traffic.close_notify(room)))
        })?;
        self.is_closed = true;
        Ok(())
    }

    /// Does something that needs the keys, after whatever waits to be sent.
    fn write(
        &mut self,
        out: &mut Vec<u8>,
        mut act: impl FnMut(&mut dyn Traffic, &mut Vec<u8>) -> bool,
    ) -> Result<(), Fault> {
        macro_rules! drive {
            ($connection:expr) => {
                loop {
                    let UnbufferedStatus { discard, state, .. } =
                        $connection.process_tls_records(&mut self.partial);
                    let done = match state {
                        Err(error) => break Err(Fault::Tls(error)),
                        Ok(ConnectionState::WriteTraffic(mut traffic)) => Some(act(&mut traffic, out)),
                        Ok(ConnectionState::EncodeTlsData(mut data)) => {
                            append(out, 0, |room| match data.encode(room) {
                                Ok(written) => Written::All(written),
                                Err(EncodeError::InsufficientSize(short)) => {
                                    Written::Needs(short.required_size)
                                }
                                Err(EncodeError::AlreadyEncoded) => Written::All(0),
                            });
                            None
                        }
                        Ok(ConnectionState::TransmitTlsData(data)) => {
                            data.done();
                            None
                        }
                        Ok(ConnectionState::PeerClosed) => None,
                        Ok(_) => Some(false),
                    };
                    self.partial.drain(..discard);
                    match done {
                        None => {}
                        Some(true) => break Ok(()),
                        Some(false) => break Err(Fault::Tls(rustls::Error::HandshakeNotComplete)),
                    }
                }
            };
        }
        match &mut self.connection {
            Connection::Server(server) => drive!(server),
            Connection::Client(client) => drive!(client),
            Connection::Sealed(_) | Connection::Changing => {
                Err(Fault::Tls(rustls::Error::HandshakeNotComplete))
            }
        }
    }

    /// Whether the handshake is not complete.
    pub fn is_handshaking(&self) -> bool {
        match &self.connection {
            Connection::Server(server) => server.is_handshaking(),
            Connection::Client(client) => client.is_handshaking(),
            Connection::Sealed(_) => false,
            Connection::Changing => true,
        }
    }

    /// The protocol that was agreed on (ALPN, RFC 7301).
    pub fn protocol(&self) -> Option<&[u8]> {
        match &self.connection {
            Connection::Server(server) => server.alpn_protocol(),
            Connection::Client(client) => client.alpn_protocol(),
            Connection::Sealed(sealed) => sealed.protocol.as_deref(),
            Connection::Changing => None,
        }
    }

    /// The peer's own certificate, if it sent one. A server has verified it.
    pub fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        let chain = match &self.connection {
            Connection::Server(server) => server.peer_certificates(),
            Connection::Client(client) => client.peer_certificates(),
            Connection::Sealed(sealed) => return sealed.peer.as_ref(),
            Connection::Changing => None,
        };
        chain?.first()
    }

    /// What was agreed on, as far as the handshake has come.
    pub fn agreed(&self) -> Agreed {
        let of = |version, suite, kind: Option<HandshakeKind>| Agreed {
            version,
            suite,
            resumed: kind == Some(HandshakeKind::Resumed),
        };
        match &self.connection {
            Connection::Server(one) => of(
                one.protocol_version(),
                one.negotiated_cipher_suite(),
                one.handshake_kind(),
            ),
            Connection::Client(one) => of(
                one.protocol_version(),
                one.negotiated_cipher_suite(),
                one.handshake_kind(),
            ),
            Connection::Sealed(sealed) => sealed.agreed,
            Connection::Changing => of(None, None, None),
        }
    }

    /// Ciphertext received and not yet decrypted, in bytes: the start of a record.
    pub fn undecrypted(&self) -> usize {
        self.partial.len()
    }

    /// Bytes that it keeps between calls, besides itself and what rustls holds.
    pub fn held(&self) -> usize {
        self.partial.capacity()
    }
}

/// What a connection whose keys stand can do, in either role.
trait Traffic {
    fn encrypt(&mut self, record: &[u8], room: &mut [u8]) -> Result<usize, EncryptError>;
    fn close_notify(&mut self, room: &mut [u8]) -> Result<usize, EncryptError>;
}

impl<Data> Traffic for rustls::unbuffered::WriteTraffic<'_, Data> {
    fn encrypt(&mut self, record: &[u8], room: &mut [u8]) -> Result<usize, EncryptError> {
        rustls::unbuffered::WriteTraffic::encrypt(self, record, room)
    }

    fn close_notify(&mut self, room: &mut [u8]) -> Result<usize, EncryptError> {
        self.queue_close_notify(room)
    }
}

fn written(result: Result<usize, EncryptError>) -> Written {
    match result {
        Ok(written) => Written::All(written),
        Err(EncryptError::InsufficientSize(short)) => Written::Needs(short.required_size),
        Err(EncryptError::EncryptExhausted) => Written::Failed,
    }
}

/// Content type of a plaintext alert record (RFC 8446 section 5.1).
const ALERT: u8 = 21;
/// Content type of every encrypted record in TLS 1.3, alerts included.
const APPLICATION_DATA: u8 = 23;

/// More than a record adds to its plaintext: a header of 5 bytes, an explicit nonce of 8, a content type, a tag of 16.
const OVERHEAD: usize = 64;

/// How large records are: small at first, so that a client can use the first ones while the rest is on its way, and the largest
/// that TLS has (RFC 8446 section 5.1) once a stream lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    sent: usize,
}

impl Sizes {
    /// Plaintext of a record that fills one segment of Ethernet with timestamps.
    pub const SMALL: usize = 1_400;
    /// Plaintext of the largest record.
    pub const LARGE: usize = 16_384;
    /// Bytes after which records are large: about a congestion window that has grown twice.
    pub const GROWN: usize = 32 << 10;

    fn next(self) -> usize {
        match self.sent < Sizes::GROWN {
            true => Sizes::SMALL,
            false => Sizes::LARGE,
        }
    }

    fn sent(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes);
    }
}

/// Whether these first bytes of a connection are a request of plain HTTP: a TLS record begins with 22, a method with a letter.
fn is_plain_http(first: &[u8]) -> bool {
    let method = first.iter().take_while(|b| b.is_ascii_uppercase()).count();
    method > 0 && matches!(first.get(method), None | Some(b' '))
}

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::fuzzing::client;
    use super::fuzzing::configurations_of;
    use super::*;
    use rustls::version::{TLS12, TLS13};
    use std::sync::Arc;

    /// Configurations for both versions.
    pub(crate) fn configurations() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
        configurations_of(&[&TLS13, &TLS12])
    }

    /// Two ends and what is on its way between them.
    struct Pipe {
        client: Engine,
        server: Engine,
        scratch: Vec<u8>,
    }

    impl Pipe {
        fn new(configs: &(Arc<ServerConfig>, Arc<ClientConfig>)) -> Pipe {
            Pipe {
                client: client(&configs.1),
                server: Engine::server(Arc::clone(&configs.0)).expect("a server"),
                scratch: Vec::new(),
            }
        }

        /// Carries bytes both ways in pieces of this length until nobody says anything; what each end read.
        fn carry(&mut self, mut to_server: Vec<u8>, mut to_client: Vec<u8>, piece: usize) -> [Vec<u8>; 2] {
            let (mut at_server, mut at_client) = (Vec::new(), Vec::new());
            while !to_server.is_empty() || !to_client.is_empty() {
                for bytes in std::mem::take(&mut to_server).chunks(piece) {
                    self.server
                        .receive(bytes, &mut self.scratch, &mut at_server, &mut to_client)
                        .expect("the server goes on");
                }
                for bytes in std::mem::take(&mut to_client).chunks(piece) {
                    self.client
                        .receive(bytes, &mut self.scratch, &mut at_client, &mut to_server)
                        .expect("the client goes on");
                }
            }
            [at_server, at_client]
        }

        fn shake_hands(&mut self, piece: usize) {
            let mut hello = Vec::new();
            self.client
                .receive(&[], &mut self.scratch, &mut Vec::new(), &mut hello)
                .expect("a hello");
            let read = self.carry(hello, Vec::new(), piece);
            assert_eq!(read, [Vec::<u8>::new(), Vec::new()]);
            assert!(!self.client.is_handshaking() && !self.server.is_handshaking());
        }
    }

    /// The record layers of a client and a server after their handshake.
    pub(crate) fn sealed() -> [Records; 2] {
        let mut pipe = Pipe::new(&configurations());
        pipe.shake_hands(65_536);
        [pipe.client, pipe.server].map(|engine| match engine.connection {
            Connection::Sealed(sealed) => sealed.records,
            _ => panic!("records of TLS 1.3 are ours"),
        })
    }

    #[test]
    fn a_handshake_and_both_directions_however_they_are_cut() {
        let configs = configurations();
        for piece in [1, 7, 100, 65_536] {
            let mut pipe = Pipe::new(&configs);
            pipe.shake_hands(piece);
            assert_eq!(pipe.server.protocol(), Some(&b"http/1.1"[..]));
            assert_eq!(pipe.server.agreed().version, Some(ProtocolVersion::TLSv1_3));
            let (question, answer) = (b"GET / HTTP/1.1\r\n\r\n", vec![b'x'; 100_000]);
            let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
            pipe.client.send(question, &mut to_server).expect("records");
            pipe.server.send(&answer, &mut to_client).expect("records");
            let [at_server, at_client] = pipe.carry(to_server, to_client, piece);
            assert_eq!(at_server, question);
            assert!(at_client == answer, "{piece}");
            assert_eq!(
                (pipe.client.held(), pipe.server.held()),
                (0, 0),
                "idle ends hold nothing"
            );
        }
    }

    /// rustls answers a key update with its next output; the records are taken from it before that.
    #[test]
    fn a_key_update_behind_the_handshake_is_answered() {
        let configs = configurations();
        let mut pipe = Pipe::new(&configs);
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let mut scratch = Vec::new();
        let mut step = |from: &mut Engine, input: &mut Vec<u8>, out: &mut Vec<u8>| {
            let mut plain = Vec::new();
            from.receive(&std::mem::take(input), &mut scratch, &mut plain, out)
                .expect("the handshake goes on");
            plain
        };
        step(&mut pipe.client, &mut Vec::new(), &mut to_server);
        step(&mut pipe.server, &mut to_server, &mut to_client);
        step(&mut pipe.client, &mut to_client, &mut to_server);
        let Connection::Sealed(sealed) = &mut pipe.client.connection else {
            panic!("records of TLS 1.3 are ours");
        };
        sealed.records.update(true, &mut to_server).expect("keys");
        step(&mut pipe.server, &mut to_server, &mut to_client);
        pipe.server.send(b"answer", &mut to_client).expect("records");
        assert_eq!(step(&mut pipe.client, &mut to_client, &mut to_server), b"answer");
        assert!(matches!(pipe.server.connection, Connection::Sealed(_)));
    }

    #[test]
    fn records_are_small_first_and_grow() {
        let configs = configurations();
        let mut pipe = Pipe::new(&configs);
        pipe.shake_hands(65_536);
        let mut out = Vec::new();
        pipe.server.send(&vec![0; 100_000], &mut out).expect("records");
        let mut lengths = Vec::new();
        let mut rest = &out[..];
        while let Some((head, after)) = rest.split_first_chunk::<5>() {
            let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
            lengths.push(length);
            rest = &after[length..];
        }
        assert!(
            lengths[0] < 1_460 - 5 && lengths.iter().any(|&length| length > 16_000),
            "{lengths:?}"
        );
        pipe.server.rest();
        out.clear();
        pipe.server.send(&vec![0; 5_000], &mut out).expect("records");
        assert!(out.len() > 5_000 + 3 * 20, "small again after a pause");
    }

    #[test]
    fn a_second_visit_resumes() {
        let configs = configurations();
        for visit in 0..3 {
            let mut pipe = Pipe::new(&configs);
            pipe.shake_hands(65_536);
            assert_eq!(pipe.server.agreed().resumed, visit > 0, "{visit}");
        }
    }

    #[test]
    fn a_close_is_told_from_a_truncation() {
        let configs = configurations();
        let mut pipe = Pipe::new(&configs);
        pipe.shake_hands(65_536);
        let mut out = Vec::new();
        pipe.client.send(b"last", &mut out).expect("records");
        pipe.client.close(&mut out).expect("a close");
        let (mut plain, mut answer) = (Vec::new(), Vec::new());
        let received = pipe
            .server
            .receive(&out, &mut pipe.scratch, &mut plain, &mut answer)
            .expect("a close is no fault");
        assert!(received.closed);
        assert_eq!(plain, b"last");
        pipe.server
            .send(b"answer", &mut answer)
            .expect("the other half is open");
    }

    #[test]
    fn plain_http_and_garbage_are_faults() {
        let (server, _) = configurations();
        let receive = |bytes: &[u8]| {
            let mut engine = Engine::server(Arc::clone(&server)).expect("a server");
            let mut out = Vec::new();
            let result = engine.receive(bytes, &mut Vec::new(), &mut Vec::new(), &mut out);
            (result, out)
        };
        for request in [&b"GET / HTTP/1.1\r\n"[..], b"OPTIONS *", b"G"] {
            assert_eq!(receive(request).0, Err(Fault::PlainHttp));
        }
        let (result, alert) = receive(&[0x16, 3, 1, 0, 4, 0xff, 0, 0, 0]);
        assert!(matches!(result, Err(Fault::Tls(_))), "{result:?}");
        assert_eq!(alert.first(), Some(&21), "an alert: {alert:?}");
        assert!(matches!(receive(&[0x80; 100]).0, Err(Fault::Tls(_))));
        assert!(receive(&[0x16, 3]).0.is_ok(), "more may come");
    }

    #[test]
    fn an_idle_connection_keeps_no_room_of_a_handshake() {
        assert!(size_of::<Engine>() <= 96, "{} bytes", size_of::<Engine>());
    }

    #[test]
    fn nothing_is_sent_before_the_handshake() {
        let (server, _) = configurations();
        let mut engine = Engine::server(server).expect("a server");
        let mut out = Vec::new();
        assert!(engine.send(b"early", &mut out).is_err());
        assert!(out.is_empty());
    }
}
