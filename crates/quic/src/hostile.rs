//! A QUIC client that keeps only those rules it wants to keep: each transport parameter and each frame is the caller's.
//! Support for tests and fuzz targets; `weir` does not use it.
//!
//! ```text
//!   handshake by itself ──▶ connected ──▶ send(frames): one packet with these frames
//!                                         receive(datagram): what the server sent, acknowledged unless told otherwise
//! ```
//! It holds no socket and no clock. Lost packets are not found: [`Hostile::again`] repeats the last flight of the handshake.
//! The library's own client cannot be used for attacks, since it sends no frame that breaks a rule.

pub mod frames;
mod packets;

use frames::{ACK, CONNECTION_CLOSE, CRYPTO, Frame, STREAM};
use packets::{Keys, Level, Packet};
use rustls::pki_types::ServerName;
use rustls::quic::{ClientConnection, KeyChange, Suite, Version};
use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;

/// The connection ID to which the server sends.
pub const SOURCE: [u8; 8] = *b"\0hostile";

/// Bytes to which datagrams with Initial packets are padded (RFC 9000 section 14.1).
const INITIAL_BYTES: usize = 1_200;

/// Bytes of CRYPTO frames in a packet at most.
const CRYPTO_BYTES: usize = 1_000;

/// Runs of packet numbers that are remembered.
const RUNS_MAX: usize = 1_000;

/// The newest of them, which are acknowledged.
const ACKNOWLEDGED_RUNS: usize = 32;

/// Transport parameters (RFC 9000 section 18), in their order, right or not.
#[derive(Clone, Debug, Default)]
pub struct Parameters(pub Vec<u8>);

impl Parameters {
    /// Those without which a server must refuse the client: our connection ID.
    pub fn least() -> Parameters {
        Parameters::default().bytes(0x0f, &SOURCE)
    }

    /// Those of a client that lets the server send 1 MiB on each of 128 streams, 16 MiB in total.
    pub fn ample() -> Parameters {
        let windows = [
            (0x04, 16 << 20),
            (0x05, 1 << 20),
            (0x06, 1 << 20),
            (0x07, 1 << 20),
        ];
        let all = windows.into_iter().chain([(0x08, 128), (0x09, 128)]);
        all.fold(Parameters::least(), |to, (id, value)| to.integer(id, value))
    }

    /// Adds one whose value is an integer.
    #[must_use]
    pub fn integer(self, id: u64, value: u64) -> Parameters {
        let mut bytes = Vec::new();
        frames::varint(value, &mut bytes);
        self.bytes(id, &bytes)
    }

    /// Adds one with these bytes.
    #[must_use]
    pub fn bytes(mut self, id: u64, bytes: &[u8]) -> Parameters {
        frames::varint(id, &mut self.0);
        frames::varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
        self
    }
}

/// How the server ended the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The error code, of the transport or of the application.
    pub code: u64,
    /// Whether it is the application's.
    pub by_application: bool,
    /// In words.
    pub reason: String,
}

/// What one level of encryption has received and sent.
#[derive(Default)]
struct Space {
    keys: Option<Keys>,
    /// Number of the next packet.
    next: u64,
    /// Packets received: the first and last of each run without a gap, the newest at the end.
    received: Vec<(u64, u64)>,
    /// Whether one of them asks for an acknowledgment.
    owes: bool,
    /// Messages of the handshake that came, by offset, and how many bytes of them TLS has.
    crypto: BTreeMap<u64, Vec<u8>>,
    read: u64,
    /// Messages of the handshake to send, and the bytes of those before them.
    unsent: Vec<u8>,
    written: u64,
}

/// A client with one connection.
pub struct Hostile {
    tls: ClientConnection,
    suite: Suite,
    spaces: [Space; 3],
    /// The level at which TLS writes.
    level: Level,
    /// The ID to which we send.
    destination: Vec<u8>,
    /// Whether the server has chosen it.
    is_answered: bool,
    token: Vec<u8>,
    /// The whole ClientHello, which is sent again after Retry.
    hello: Vec<u8>,
    out: Vec<Vec<u8>>,
    flight: Vec<Vec<u8>>,
    /// Whether packets are acknowledged. At first they are.
    pub acknowledges: bool,
    /// Frames that came in packets of the last level, by type.
    pub counts: BTreeMap<u64, u64>,
    /// Bytes of streams that came, repeated ones included.
    pub stream_bytes: u64,
    /// Retry packets that came.
    pub retries: u32,
    /// The end, if the server has sent one.
    pub closed: Option<Closed>,
}

impl std::fmt::Debug for Hostile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hostile")
            .field("level", &self.level)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

impl Hostile {
    /// A client that begins its handshake: [`Hostile::take`] gives its first datagram. `destination` is the connection ID
    /// that it makes up for the server, which must be unpredictable only in the wild.
    ///
    /// # Errors
    /// In words, if TLS does not permit QUIC.
    pub fn new(
        tls: Arc<rustls::ClientConfig>,
        name: &str,
        parameters: &Parameters,
        destination: [u8; 8],
    ) -> Result<Hostile, String> {
        let suites = &tls.crypto_provider().cipher_suites;
        let suite = suites
            .iter()
            .filter(|suite| suite.suite() == rustls::CipherSuite::TLS13_AES_128_GCM_SHA256)
            .find_map(|suite| suite.tls13()?.quic_suite())
            .ok_or("QUIC needs AES-128-GCM")?;
        let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        let tls = ClientConnection::new(tls, Version::V1, name, parameters.0.clone())
            .map_err(|error| error.to_string())?;
        let mut client = Hostile {
            tls,
            suite,
            spaces: Default::default(),
            level: Level::Initial,
            destination: destination.to_vec(),
            is_answered: false,
            token: Vec::new(),
            hello: Vec::new(),
            out: Vec::new(),
            flight: Vec::new(),
            acknowledges: true,
            counts: BTreeMap::new(),
            stream_bytes: 0,
            retries: 0,
            closed: None,
        };
        client.derive();
        client.write();
        client.hello.clone_from(&client.spaces[0].unsent);
        client.flush();
        Ok(client)
    }

    /// Whether frames can be sent by [`Hostile::send`].
    pub fn is_connected(&self) -> bool {
        self.spaces[Level::Application as usize].keys.is_some()
    }

    /// Numbers of packets of the server that came under the keys of the last level: the first and last of each run, the newest
    /// at the end. The server leaves numbers out, to catch those who acknowledge what they have not received.
    pub fn received(&self) -> &[(u64, u64)] {
        &self.spaces[Level::Application as usize].received
    }

    /// Datagrams to send.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        take(&mut self.out)
    }

    /// Repeats the last flight of the handshake, which may have been lost.
    pub fn again(&mut self) {
        self.out.extend(self.flight.iter().cloned());
    }

    /// Sends a packet with these frames. Nothing is sent before the handshake is complete.
    pub fn send(&mut self, frames: &[u8]) {
        if let Some(packet) = self.seal(Level::Application, frames.to_vec()) {
            self.out.push(packet);
        }
    }

    /// Takes a datagram of the server. What cannot be decrypted is dropped.
    pub fn receive(&mut self, datagram: &[u8]) {
        let mut rest = datagram.to_vec();
        while !rest.is_empty() {
            let Some(packet) = packets::split(&mut rest) else {
                return;
            };
            match packet {
                Packet::Retry { source, token } => self.retry(source, token),
                Packet::Protected {
                    level,
                    source,
                    bytes,
                    number_at,
                } => {
                    self.open(level, source, bytes, number_at);
                }
            }
            // What follows in the datagram may need the keys that this packet brought.
            self.write();
        }
        self.flush();
    }

    fn derive(&mut self) {
        let keys = self
            .suite
            .keys(&self.destination, rustls::Side::Client, Version::V1);
        self.spaces[0].keys = Some(keys.into());
    }

    /// The server wants the first flight again, with a token.
    fn retry(&mut self, source: Vec<u8>, token: Vec<u8>) {
        if self.is_answered || !self.token.is_empty() {
            return;
        }
        self.retries += 1;
        (self.destination, self.token) = (source, token);
        self.derive();
        self.spaces[0].written = 0;
        self.spaces[0].unsent.clone_from(&self.hello);
    }

    fn open(&mut self, level: Level, source: Vec<u8>, mut bytes: Vec<u8>, number_at: usize) {
        let space = &mut self.spaces[level as usize];
        let newest = space.received.last().map(|(_, last)| *last);
        let Some(keys) = &mut space.keys else { return };
        let Some((number, payload)) = keys.open(&mut bytes, number_at, newest) else {
            return;
        };
        match space.received.last_mut() {
            Some((_, last)) if number == *last + 1 => *last = number,
            // One that was overtaken: it counts as lost.
            Some((_, last)) if number <= *last => {}
            _ => space.received.push((number, number)),
        }
        let forgotten = space.received.len().saturating_sub(RUNS_MAX);
        space.received.drain(..forgotten);
        if level == Level::Initial && !self.is_answered {
            self.is_answered = true;
            self.destination = source;
        }
        let mut rest = &payload[..];
        while let Some(frame) = frames::next(&mut rest) {
            self.frame(level, &frame);
        }
    }

    fn frame(&mut self, level: Level, frame: &Frame<'_>) {
        let space = &mut self.spaces[level as usize];
        if !matches!(frame.kind, 0 | ACK | CONNECTION_CLOSE) && frame.kind != ACK + 1 {
            space.owes = true;
        }
        if level == Level::Application {
            *self.counts.entry(frame.kind).or_default() += 1;
        }
        match frame.kind {
            CRYPTO => {
                space.crypto.insert(frame.offset, frame.bytes.to_vec());
                while let Some(bytes) = next_of(&mut space.crypto, &mut space.read) {
                    // A message that TLS refuses ends the handshake, which the caller sees by waiting in vain.
                    if self.tls.read_hs(&bytes).is_err() {
                        return;
                    }
                }
            }
            kind if kind & !7 == STREAM => self.stream_bytes += frame.bytes.len() as u64,
            CONNECTION_CLOSE | 0x1d => {
                self.closed.get_or_insert(Closed {
                    code: frame.offset,
                    by_application: frame.kind != CONNECTION_CLOSE,
                    reason: String::from_utf8_lossy(frame.bytes).into_owned(),
                });
            }
            _ => {}
        }
    }

    /// Takes from TLS what it wants to say, and keys.
    fn write(&mut self) {
        loop {
            let mut bytes = Vec::new();
            let change = self.tls.write_hs(&mut bytes);
            let is_empty = bytes.is_empty();
            self.spaces[self.level as usize].unsent.append(&mut bytes);
            let (level, keys) = match change {
                Some(KeyChange::Handshake { keys }) => (Level::Handshake, keys.into()),
                Some(KeyChange::OneRtt { keys, next }) => {
                    (Level::Application, Keys::with_successors(keys, next))
                }
                None if is_empty => return,
                None => continue,
            };
            self.level = level;
            self.spaces[level as usize].keys = Some(keys);
        }
    }

    /// Makes packets of what waits to be sent.
    fn flush(&mut self) {
        let mut flight = Vec::new();
        for level in [Level::Initial, Level::Handshake, Level::Application] {
            loop {
                let space = &mut self.spaces[level as usize];
                let mut payload = Vec::new();
                if take(&mut space.owes) && self.acknowledges {
                    let newest = space.received.len().saturating_sub(ACKNOWLEDGED_RUNS);
                    frames::ack_runs(&space.received[newest..], &mut payload);
                }
                let most = space.unsent.len().min(CRYPTO_BYTES);
                if most > 0 {
                    let piece: Vec<u8> = space.unsent.drain(..most).collect();
                    frames::crypto(space.written, &piece, &mut payload);
                    space.written += most as u64;
                }
                if payload.is_empty() {
                    break;
                }
                let Some(packet) = self.seal(level, payload) else {
                    break;
                };
                if level != Level::Application {
                    flight.push(packet.clone());
                }
                self.out.push(packet);
            }
        }
        if !flight.is_empty() {
            self.flight = flight;
        }
    }

    fn seal(&mut self, level: Level, mut payload: Vec<u8>) -> Option<Vec<u8>> {
        let space = &mut self.spaces[level as usize];
        let keys = space.keys.as_ref()?;
        let mut packet = packets::header(level, &self.destination, &SOURCE, &self.token);
        if level == Level::Initial {
            // Length, number and tag follow.
            let rest = 2 + packets::NUMBER_BYTES + packets::TAG_BYTES;
            payload.resize(
                payload
                    .len()
                    .max(INITIAL_BYTES.saturating_sub(packet.len() + rest)),
                0,
            );
        }
        let number = space.next;
        space.next += 1;
        keys.seal(level, number, &mut packet, &payload);
        Some(packet)
    }
}

/// The next messages in their order.
fn next_of(pieces: &mut BTreeMap<u64, Vec<u8>>, read: &mut u64) -> Option<Vec<u8>> {
    let (offset, mut bytes) = pieces.pop_first()?;
    if offset > *read {
        pieces.insert(offset, bytes);
        return None;
    }
    let known = usize::try_from(*read - offset).ok()?.min(bytes.len());
    bytes.drain(..known);
    *read += bytes.len() as u64;
    Some(bytes)
}
