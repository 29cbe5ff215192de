//! The client's end: the connections of a crew to one server, over one UDP socket.
//!
//! ```text
//!             datagrams                    connections, streams
//!   driver ◀────────────▶ Dialing ◀────────────────────────────▶ crew
//!                    one transport a line
//! ```
//! The crew is that of TCP and TLS ([`runtime::dial`]), with streams instead of one stream of bytes. It learns of the
//! handshake by [`Happened::Connected`] and [`Happened::Secured`] at once. What it writes before, or while the peer
//! permits no further stream, waits here. One unidirectional stream is opened for the protocol's own use, without being
//! asked: the first, as HTTP/3 needs it for control (RFC 9114 section 6.2.1).

use crate::handshake::{self, ClientTls, V1};
use crate::limits::{self, Limits};
use crate::recovery_log::RecoveryLog;
use crate::tape::Tape;
use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, ConnectionError, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Event, ReadError,
    StreamEvent, StreamId, TokenMemoryCache, TransportErrorCode, VarInt,
};
use runtime::NoJob;
use runtime::clock::{from_standard, to_standard};
use runtime::datagram::{Address, Datagram, Endpoint, Outbox, Owner};
use runtime::dial::datagrams::Carrier;
use runtime::dial::{Crew, Failing, Happened, Port, Quic, Security, Wish};
use runtime::streams::Input;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tls::refusal;
use units::{Duration, Instant};

/// Connections served by one call of `poll`, before datagrams that arrived have their turn.
const SERVED_MAX: usize = 64;

/// Datagrams in one payload at most: a client sends little.
const SEGMENTS_MAX: usize = 10;

/// Time between two stateless resets at least. A client owes its server hardly ever one.
const RESET_INTERVAL: Duration = Duration::from_millis(20);

/// Tokens kept that the server gave for later connections (NEW_TOKEN, RFC 9000 section 8.1.3), the newest. Each spares one
/// connection a Retry.
const TOKENS_MAX: usize = 2;

/// Bytes of payload that each datagram of a client's handshake has, and each path must take (RFC 9000 section 14.1).
const PAYLOAD_MIN: u32 = 1_200;

/// The first of the error codes that carry an alert of TLS (RFC 9001 section 4.8).
const CRYPTO_ERROR: u64 = 0x100;

/// Characters of the reason in a server's close that its user gets to read.
const REASON_MAX: usize = 200;

/// Names application error codes. See [`Target::naming`].
type Names = fn(u64) -> Option<String>;

/// Which server, and how.
#[derive(Clone)]
pub struct Target {
    config: ClientConfig,
    limits: Limits,
    /// Its address.
    address: SocketAddr,
    /// The name for which it needs a certificate.
    name: String,
    /// The application error code with which connections are closed that ended well.
    close_code: VarInt,
    names: Names,
    tape: Option<Tape>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("address", &self.address)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Target {
    /// The server at `address`, whose certificate must be for `name`, reached with this TLS, which names the protocol
    /// (ALPN). `close_code`: the application error code of a connection that ended well.
    ///
    /// # Errors
    /// In words, why QUIC cannot use this TLS.
    pub fn new(
        tls: Arc<rustls::ClientConfig>,
        limits: &Limits,
        address: SocketAddr,
        name: String,
        close_code: u32,
    ) -> Result<Target, String> {
        let crypto = ClientTls::new(tls).map_err(|why| format!("{why}; allow both"))?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config
            .transport_config(Arc::new(limits.transport()))
            .token_store(Arc::new(TokenMemoryCache::new(1, TOKENS_MAX)))
            .version(V1);
        Ok(Target {
            config,
            limits: *limits,
            address,
            name,
            close_code: VarInt::from_u32(close_code),
            names: |code| Some(format!("the application error {code:#x}")),
            tape: None,
        })
    }

    /// Has errors with which the server closes connections named by this function. It returns the name of an application error code
    /// and whose fault it was, and `None` for a code that is no error.
    #[must_use]
    pub fn naming(self, names: fn(u64) -> Option<String>) -> Target {
        Target { names, ..self }
    }

    /// Records what passes.
    #[must_use]
    pub fn taped(self, tape: Option<Tape>) -> Target {
        Target { tape, ..self }
    }
}

/// The connections of a crew, as [`runtime::datagram`] drives them.
pub struct Dialing<C> {
    crew: C,
    port: Port,
    target: Target,
    quic: quinn_proto::Endpoint,
    /// By the library's handle.
    connections: Vec<Option<Box<Connection>>>,
    /// Handles of lines that have a connection.
    lines: HashMap<u32, usize>,
    deadlines: BTreeSet<(Instant, usize)>,
    alarms: BTreeSet<(Instant, u32)>,
    set: HashMap<u32, Instant>,
    /// Connections to be served, in the order in which that became due.
    listed: VecDeque<usize>,
    /// Lines whose connection could not be begun, with the reason.
    refused: Vec<(u32, String)>,
    /// Counters that the crew wants, by line.
    measured: Vec<(u32, Quic)>,
    scratch: Vec<u8>,
    has_started: bool,
    /// Connections so far.
    begun: u32,
}

struct Connection {
    quic: quinn_proto::Connection,
    /// Which of the endpoint's it is.
    number: u32,
    /// `None` once the crew has closed it, or knows of its end.
    line: Option<u32>,
    /// The application error code with which the crew closes it.
    close_code: VarInt,
    is_connected: bool,
    deadline: Option<Instant>,
    is_listed: bool,
    /// What the crew has written that the transport has not taken, by stream.
    unsent: BTreeMap<u64, Unsent>,
    /// Streams of ours that are open, or were.
    opened: u64,
    /// Bytes of datagrams that had arrived when it was last served.
    arrived: u64,
    /// Times at which more became readable than had arrived.
    holes: u64,
    /// What its transport writes to; `None`: there is no tape.
    recovery: Option<RecoveryLog>,
}

/// The rest of our half of a stream.
#[derive(Default)]
struct Unsent {
    bytes: Bytes,
    end: bool,
}

impl<C> fmt::Debug for Dialing<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialing")
            .field("target", &self.target)
            .field("lines", &self.lines.len())
            .finish_non_exhaustive()
    }
}

fn stream_id(stream: u64) -> Option<StreamId> {
    VarInt::from_u64(stream).ok().map(StreamId::from)
}

impl<C: Crew> Dialing<C> {
    /// The connections of this crew.
    pub fn new(crew: C, target: Target) -> Dialing<C> {
        Dialing::of_seed(crew, target, None)
    }

    /// The same, in which the transport's decisions follow from the seed and not from chance. For virtual time only, as
    /// [`Endpoint::seeded`](crate::endpoint::Endpoint::seeded).
    pub fn seeded(crew: C, target: Target, seed: [u8; 32]) -> Dialing<C> {
        Dialing::of_seed(crew, target, Some(seed))
    }

    fn of_seed(crew: C, target: Target, seed: Option<[u8; 32]>) -> Dialing<C> {
        let config = Arc::new(limits::endpoint(RESET_INTERVAL));
        Dialing {
            crew,
            port: Port::default(),
            target,
            quic: quinn_proto::Endpoint::new(config, None, true, seed),
            connections: Vec::new(),
            lines: HashMap::new(),
            deadlines: BTreeSet::new(),
            alarms: BTreeSet::new(),
            set: HashMap::new(),
            listed: VecDeque::new(),
            refused: Vec::new(),
            measured: Vec::new(),
            scratch: Vec::new(),
            has_started: false,
            begun: 0,
        }
    }

    /// The crew.
    pub fn crew(&self) -> &C {
        &self.crew
    }

    fn list(&mut self, at: usize) {
        if let Some(Some(connection)) = self.connections.get_mut(at)
            && !std::mem::replace(&mut connection.is_listed, true)
        {
            self.listed.push_back(at);
        }
    }

    /// Carries out the commands of the crew.
    fn obey(&mut self, now: Instant) {
        loop {
            let (mut wishes, bytes) = self.port.take();
            if wishes.is_empty() {
                return self.port.reuse(wishes, bytes);
            }
            let mut rest = &bytes[..];
            for wish in wishes.drain(..) {
                match wish {
                    Wish::Connect(line) => self.connect(line, now),
                    Wish::Write(line, stream, len, end) => {
                        let (piece, left) = rest.split_at(len);
                        rest = left;
                        self.write(line, stream, piece, end);
                    }
                    Wish::Send(_, len) => {
                        debug_assert!(false, "QUIC carries bytes of streams only");
                        rest = &rest[len..];
                    }
                    Wish::Abandon(line, stream, code) => self.abandon(line, stream, code),
                    Wish::Blame(line, code) => self.blame(line, code),
                    Wish::Close(line) => self.close(line, now),
                    Wish::Leave(line) => {
                        self.measure(line);
                        self.close(line, now);
                    }
                    Wish::Wake(line, at) => {
                        if let Some(before) = self.set.insert(line, at) {
                            self.alarms.remove(&(before, line));
                        }
                        self.alarms.insert((at, line));
                    }
                    Wish::Inspect(line) => self.measure(line),
                    // All bytes are decrypted.
                    Wish::Skip(..) => {}
                }
            }
            self.port.reuse(wishes, bytes);
            for (line, counters) in std::mem::take(&mut self.measured) {
                self.crew
                    .handle(line, Happened::Measured(counters), &mut self.port, now);
            }
            for (line, why) in std::mem::take(&mut self.refused) {
                self.crew
                    .handle(line, Happened::Refused(&why), &mut self.port, now);
            }
        }
    }

    /// Reads the counters of a line for the crew.
    fn measure(&mut self, line: u32) {
        if let Some((_, connection)) = self.of(line) {
            let counters = connection.counters();
            self.measured.push((line, counters));
        }
    }

    fn connect(&mut self, line: u32, now: Instant) {
        self.close(line, now);
        let Target {
            config,
            limits,
            address,
            name,
            tape,
            ..
        } = &self.target;
        let mut config = config.clone();
        let recovery = tape.as_ref().map(|_| {
            let (recovery, stream) = RecoveryLog::begin(to_standard(now));
            let mut transport = limits.transport();
            transport.qlog_stream(stream);
            config.transport_config(Arc::new(transport));
            recovery
        });
        match self.quic.connect(to_standard(now), config, *address, name) {
            Ok((handle, quic)) => {
                if self.connections.len() <= handle.0 {
                    self.connections.resize_with(handle.0 + 1, || None);
                }
                let number = self.begun;
                self.begun = self.begun.wrapping_add(1);
                self.connections[handle.0] = Some(Box::new(Connection {
                    quic,
                    number,
                    line: Some(line),
                    close_code: self.target.close_code,
                    is_connected: false,
                    deadline: None,
                    is_listed: false,
                    unsent: BTreeMap::new(),
                    opened: 0,
                    arrived: 0,
                    holes: 0,
                    recovery,
                }));
                self.lines.insert(line, handle.0);
                self.list(handle.0);
            }
            Err(error) => self.refused.push((line, format!("QUIC: {error}"))),
        }
    }

    fn of(&mut self, line: u32) -> Option<(usize, &mut Connection)> {
        let at = *self.lines.get(&line)?;
        Some((at, self.connections.get_mut(at)?.as_mut()?))
    }

    fn write(&mut self, line: u32, stream: u64, piece: &[u8], end: bool) {
        let Some((at, connection)) = self.of(line) else {
            return;
        };
        let unsent = connection.unsent.entry(stream).or_default();
        unsent.bytes = match unsent.bytes.is_empty() {
            true => Bytes::copy_from_slice(piece),
            false => [&unsent.bytes, piece].concat().into(),
        };
        unsent.end |= end;
        self.list(at);
    }

    fn abandon(&mut self, line: u32, stream: u64, code: u64) {
        let Some((at, connection)) = self.of(line) else {
            return;
        };
        connection.unsent.remove(&stream);
        if let (Some(id), Ok(code)) = (stream_id(stream), VarInt::from_u64(code)) {
            // Halves that have ended meanwhile need neither.
            let _ = connection.quic.send_stream(id).reset(code);
            let _ = connection.quic.recv_stream(id).stop(code);
        }
        self.list(at);
    }

    fn blame(&mut self, line: u32, code: u64) {
        if let (Some((_, connection)), Ok(code)) = (self.of(line), VarInt::from_u64(code)) {
            connection.close_code = code;
        }
    }

    fn close(&mut self, line: u32, now: Instant) {
        if let Some((at, connection)) = self.of(line) {
            connection.line = None;
            let code = connection.close_code;
            connection.quic.close(to_standard(now), code, Bytes::new());
            self.list(at);
        }
        self.lines.remove(&line);
    }

    fn expire(&mut self, now: Instant) {
        while let Some(&(due, at)) = self.deadlines.first()
            && due <= now
        {
            self.deadlines.pop_first();
            if let Some(Some(connection)) = self.connections.get_mut(at) {
                connection.deadline = None;
                connection.quic.handle_timeout(to_standard(now));
                self.list(at);
            }
        }
        while let Some(&(due, line)) = self.alarms.first()
            && due <= now
        {
            self.alarms.pop_first();
            self.set.remove(&line);
            self.crew.handle(line, Happened::Woken(due), &mut self.port, now);
            self.obey(now);
        }
    }

    /// Ends the connections that are not established.
    fn fail_handshakes<'w>(&mut self, happened: impl Fn() -> Happened<'w>, now: Instant) {
        for at in 0..self.connections.len() {
            let Some(Some(connection)) = self.connections.get_mut(at) else {
                continue;
            };
            if connection.is_connected {
                continue;
            }
            if let Some(line) = connection.line.take() {
                connection
                    .quic
                    .close(to_standard(now), self.target.close_code, Bytes::new());
                self.lines.remove(&line);
                self.list(at);
                self.crew.handle(line, happened(), &mut self.port, now);
                self.obey(now);
            }
        }
    }

    /// Serves a connection that is listed.
    fn serve(&mut self, at: usize, out: &mut Outbox, now: Instant) {
        let Some(mut connection) = self.connections.get_mut(at).and_then(Option::take) else {
            return;
        };
        connection.is_listed = false;
        let had_line = connection.line;
        connection.take_events(&mut self.crew, &mut self.port, &self.target, now);
        if let (Some(line), None) = (had_line, connection.line) {
            // The crew knows of its end.
            self.lines.remove(&line);
        }
        self.connections[at] = Some(connection);
        self.obey(now);
        let Some(Some(connection)) = self.connections.get_mut(at) else {
            return;
        };
        // The crew may have listed it for what is done now.
        connection.flush();
        let mut is_sent = true;
        while is_sent && out.has_room() {
            is_sent = false;
            let (quic, scratch) = (&mut connection.quic, &mut self.scratch);
            let (tape, number) = (self.target.tape.as_ref(), connection.number);
            out.push(|buffer| {
                scratch.clear();
                let transmit = quic.poll_transmit(to_standard(now), SEGMENTS_MAX, scratch)?;
                is_sent = true;
                let payload = &scratch[..transmit.size];
                if let Some(tape) = tape {
                    tape.pass(number, true, payload, transmit.segment_size, now);
                }
                buffer.extend_from_slice(payload);
                Some(Address {
                    to: transmit.destination,
                    local: transmit.src_ip,
                    ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
                    segment: transmit.segment_size.and_then(|size| u16::try_from(size).ok()),
                })
            });
        }
        while let Some(event) = connection.quic.poll_endpoint_events() {
            if let Some(event) = self.quic.handle_event(ConnectionHandle(at), event) {
                connection.quic.handle_event(event);
            }
        }
        if let (Some(tape), Some(recovery)) = (&self.target.tape, &mut connection.recovery) {
            let known = (&connection.quic.stats(), connection.is_connected);
            tape.observe(connection.number, recovery, known, now);
        }
        let is_over = connection.quic.is_drained();
        let next = connection
            .quic
            .poll_timeout()
            .map(from_standard)
            .filter(|_| !is_over);
        if connection.deadline != next {
            if let Some(before) = std::mem::replace(&mut connection.deadline, next) {
                self.deadlines.remove(&(before, at));
            }
            if let Some(next) = next {
                self.deadlines.insert((next, at));
            }
        }
        if is_over {
            self.connections[at] = None;
        } else if is_sent {
            // There was no room for all of it.
            self.list(at);
        }
    }
}

impl Connection {
    /// Tells the crew what has happened.
    fn take_events<C: Crew>(&mut self, crew: &mut C, port: &mut Port, target: &Target, now: Instant) {
        let mut read = 0;
        while let Some(event) = self.quic.poll() {
            let Some(line) = self.line else { continue };
            match event {
                Event::Connected => {
                    self.is_connected = true;
                    // The protocol writes to it by its number, which is known.
                    let _ = self.quic.streams().open(Dir::Uni);
                    crew.handle(line, Happened::Connected, port, now);
                    crew.handle(line, Happened::Secured(self.agreed()), port, now);
                }
                Event::ConnectionLost { reason } => {
                    self.line = None;
                    let ending = Ending::of(&reason, self.is_connected, target);
                    let happened = match &ending {
                        Ending::Lost(failing) => Happened::Lost(*failing),
                        Ending::Closed(None) => Happened::Eof,
                        Ending::Closed(Some(error)) => Happened::Closed(error),
                        Ending::Refused(why) => Happened::Refused(why),
                    };
                    crew.handle(line, happened, port, now);
                }
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = self.quic.streams().accept(dir) {
                        read += self.read(id, line, crew, port, now);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => {
                    read += self.read(id, line, crew, port, now);
                }
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    self.unsent.remove(&id.into());
                    // The answer that RFC 9000 section 3.5 asks for, without which the stream stays open; a half that has ended
                    // needs none.
                    let _ = self.quic.send_stream(id).reset(error_code);
                    let happened = Happened::Stopped(id.into(), error_code.into_inner());
                    crew.handle(line, happened, port, now);
                }
                Event::Stream(
                    StreamEvent::Writable { .. }
                    | StreamEvent::Finished { .. }
                    | StreamEvent::Available { .. },
                )
                | Event::HandshakeDataReady
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
        let arrived = self.quic.stats().udp_rx.bytes;
        // Everything is read at once, so the rest had waited for what came now.
        self.holes += u64::from(read > arrived - self.arrived);
        self.arrived = arrived;
    }

    fn counters(&self) -> Quic {
        let stats = self.quic.stats();
        let (path, sent, received) = (stats.path, stats.frame_tx, stats.frame_rx);
        Quic {
            rtt: path.rtt,
            // Before the first sample, the library has its initial estimate there.
            rtt_min: self.is_connected.then_some(path.min_rtt),
            datagrams_in: stats.udp_rx.datagrams,
            datagrams_out: stats.udp_tx.datagrams,
            bytes_in: stats.udp_rx.bytes,
            bytes_out: stats.udp_tx.bytes,
            lost: path.lost_packets,
            // Probes of the path's MTU are PING frames, too.
            probes: sent.ping.saturating_sub(path.sent_plpmtud_probes),
            holes: self.holes,
            blocked: received.data_blocked + received.stream_data_blocked,
            challenges: received.path_challenge,
            mtu: path.current_mtu,
        }
    }

    fn agreed(&self) -> Security {
        let agreed = handshake::agreed(&self.quic);
        let protocol = agreed.as_ref().and_then(|agreed| agreed.protocol.as_deref());
        Security {
            version: "TLS 1.3",
            suite: agreed.as_ref().map_or("unknown", |agreed| agreed.suite),
            resumed: agreed.as_ref().is_some_and(|agreed| agreed.resumed),
            protocol: match protocol {
                Some(b"h3") => "h3",
                _ => "",
            },
        }
    }

    /// Passes what has arrived of a stream to the crew; returns how many bytes.
    fn read<C: Crew>(&mut self, id: StreamId, line: u32, crew: &mut C, port: &mut Port, now: Instant) -> u64 {
        let mut stream = self.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return 0;
        };
        let mut read = 0;
        let mut hear = |bytes: &[u8], input| {
            crew.handle(line, Happened::Stream(id.into(), bytes, input), port, now);
        };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    read += chunk.bytes.len() as u64;
                    hear(&chunk.bytes, Input::Open);
                }
                Ok(None) => break hear(&[], Input::End),
                Err(ReadError::Reset(code)) => break hear(&[], Input::Reset(code.into_inner())),
                Err(ReadError::Blocked) => break,
            }
        }
        // What it says about datagrams to send: they are asked for anyway.
        let _ = chunks.finalize();
        read
    }

    /// Gives the transport what waits.
    fn flush(&mut self) {
        if !self.is_connected {
            return;
        }
        let waiting = self.unsent.keys().copied().collect::<Vec<_>>();
        for stream in waiting {
            // The client's bidirectional streams are the multiples of four (RFC 9000 section 2.1).
            while stream % 4 == 0 && self.opened <= stream / 4 {
                if self.quic.streams().open(Dir::Bi).is_none() {
                    return;
                }
                self.opened += 1;
            }
            let (Some(id), Some(unsent)) = (stream_id(stream), self.unsent.get_mut(&stream)) else {
                continue;
            };
            let mut to = self.quic.send_stream(id);
            if !unsent.bytes.is_empty() && to.write_chunks(std::slice::from_mut(&mut unsent.bytes)).is_err() {
                // Blocked, or stopped, whose event follows.
                continue;
            }
            if unsent.bytes.is_empty() {
                if unsent.end {
                    // It fails if the peer has stopped the stream.
                    let _ = to.finish();
                }
                self.unsent.remove(&stream);
            }
        }
    }
}

/// How a connection has ended, for the crew.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    /// By no fault of the peer's protocol.
    Lost(Failing),
    /// The server closed it, with an error or without.
    Closed(Option<String>),
    /// It could not be established, or one end broke the rules of QUIC or TLS.
    Refused(String),
}

impl Ending {
    fn of(reason: &ConnectionError, is_connected: bool, target: &Target) -> Ending {
        if let Some(failing) = failing(reason, is_connected) {
            return Ending::Lost(failing);
        }
        match reason {
            ConnectionError::ApplicationClosed(close) if is_connected => {
                let code = close.error_code;
                let error = (target.names)(code.into_inner()).filter(|_| code != target.close_code);
                Ending::Closed(error.map(|error| closed_with(&error, &close.reason)))
            }
            // Alerts come this way, too, if the server refuses what the client sent with its last flight.
            ConnectionError::ConnectionClosed(close) if is_connected && alert(close.error_code).is_none() => {
                let error = named(close.error_code);
                Ending::Closed(error.map(|error| closed_with(&error, &close.reason)))
            }
            _ => Ending::Refused(said(reason, &target.name)),
        }
    }
}

/// The alert of TLS that an error code of the transport carries.
fn alert(code: TransportErrorCode) -> Option<u8> {
    let alert = u64::from(code).checked_sub(CRYPTO_ERROR)?;
    u8::try_from(alert).ok()
}

/// The name of an error of the transport with which a server closes a connection, and whose fault it was; `None` for no error.
fn named(code: TransportErrorCode) -> Option<String> {
    let fault = match code {
        TransportErrorCode::NO_ERROR => return None,
        TransportErrorCode::INTERNAL_ERROR => "an error of its own",
        // The second stands for any error of an application, which a server does not name within the handshake (RFC 9000 section
        // 10.2.3).
        TransportErrorCode::CONNECTION_REFUSED
        | TransportErrorCode::APPLICATION_ERROR
        | TransportErrorCode::AEAD_LIMIT_REACHED
        | TransportErrorCode::NO_VIABLE_PATH => "this client broke no rule of QUIC",
        _ => "it says that this client broke the rules of QUIC",
    };
    Some(format!("{code:?} ({fault})"))
}

/// A sentence about the error of a close. The server's own words may be anything.
fn closed_with(error: &str, reason: &[u8]) -> String {
    let reason: String = String::from_utf8_lossy(reason).chars().take(REASON_MAX).collect();
    let quoted = match reason.is_empty() {
        true => String::new(),
        false => format!(": {reason:?}"),
    };
    format!("the server closed the connection with {error}{quoted}")
}

/// Ends that are no fault of the peer's protocol.
fn failing(reason: &ConnectionError, is_connected: bool) -> Option<Failing> {
    let errno = match reason {
        ConnectionError::TimedOut => libc::ETIMEDOUT,
        ConnectionError::Reset => libc::ECONNRESET,
        _ => return None,
    };
    Some(match is_connected {
        true => Failing::Open(errno),
        false => Failing::Opening(errno),
    })
}

/// The end of a connection, for its user.
fn said(reason: &ConnectionError, name: &str) -> String {
    match reason {
        ConnectionError::TransportError(error) => match alert(error.code) {
            Some(alert) => refusal::of_alert(alert, Some(&error.reason), name),
            None => format!("QUIC failed: {error}"),
        },
        ConnectionError::ConnectionClosed(close) => match alert(close.error_code) {
            Some(alert) => refusal::of_alert(alert, None, name),
            None => format!("the server ended the connection: {close}"),
        },
        ConnectionError::ApplicationClosed(close) => format!("the server closed the connection: {close}"),
        ConnectionError::VersionMismatch => {
            "no connection: the server speaks other versions of QUIC, and Weir only version 1 \
             (RFC 9000); choose another --mode"
                .to_owned()
        }
        other => format!("QUIC failed: {other}"),
    }
}

impl<C: Crew> Endpoint for Dialing<C> {
    type Job = NoJob;

    fn turn(&mut self, now: Instant, _: units::UnixTime) {
        if !std::mem::replace(&mut self.has_started, true) {
            self.crew.start(&mut self.port, now);
            self.obey(now);
        }
    }

    fn handle(&mut self, batch: &mut [Datagram<'_>], out: &mut Outbox, now: Instant) {
        for datagram in batch {
            self.scratch.clear();
            let event = self.quic.handle(
                to_standard(now),
                datagram.from,
                None,
                EcnCodepoint::from_bits(datagram.ecn),
                BytesMut::from(&*datagram.bytes),
                &mut self.scratch,
            );
            match event {
                Some(DatagramEvent::ConnectionEvent(ConnectionHandle(at), event)) => {
                    if let Some(Some(connection)) = self.connections.get_mut(at) {
                        if let Some(tape) = &self.target.tape {
                            tape.pass(connection.number, false, datagram.bytes, None, now);
                        }
                        connection.quic.handle_event(event);
                        self.list(at);
                    }
                }
                Some(DatagramEvent::Response(transmit)) => {
                    let bytes = self.scratch.get(..transmit.size).unwrap_or_default();
                    out.push(|buffer| {
                        buffer.extend_from_slice(bytes);
                        Some(Address {
                            local: transmit.src_ip,
                            ..Address::to(transmit.destination)
                        })
                    });
                }
                // Nobody can open connections to a client.
                Some(DatagramEvent::NewConnection(incoming)) => self.quic.ignore(incoming),
                None => {}
            }
        }
    }

    /// Only handshakes fail by it.
    fn unreachable(&mut self, errno: i32, now: Instant) {
        self.fail_handshakes(|| Happened::Lost(Failing::Opening(errno)), now);
    }

    /// Only handshakes fail by it: all their packets have the size that QUIC needs. Later, longer ones probe the path's MTU.
    fn packet_too_big(&mut self, mtu: u32, now: Instant) {
        let address = self.target.address;
        let is_v4 = address.ip().to_canonical().is_ipv4();
        let needed = PAYLOAD_MIN + if is_v4 { 28 } else { 48 };
        if mtu < needed {
            let why = format!(
                "no connection: the MTU of the path to {address} is {mtu} bytes, and QUIC needs {needed} (RFC 9000 section 14); \
                 raise it, or choose another --mode"
            );
            self.fail_handshakes(|| Happened::Refused(&why), now);
        }
    }

    fn poll(&mut self, out: &mut Outbox, now: Instant) -> bool {
        self.expire(now);
        let most = self.listed.len().min(SERVED_MAX);
        for _ in 0..most {
            if !out.has_room() {
                return true;
            }
            if let Some(at) = self.listed.pop_front() {
                self.serve(at, out, now);
            }
        }
        !self.listed.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        if !self.listed.is_empty() || !self.has_started {
            return Some(Instant::ZERO);
        }
        let deadline = self.deadlines.first().map(|(due, _)| *due);
        let alarm = self.alarms.first().map(|(due, _)| *due);
        [deadline, alarm].into_iter().flatten().min()
    }

    fn owner(&self, _: &[u8]) -> Owner {
        Owner::Mine
    }

    fn drain(&mut self, _: &mut Outbox, now: Instant) {
        self.crew.stop(&mut self.port, now);
        self.obey(now);
    }

    fn is_idle(&self) -> bool {
        self.has_ended()
    }

    /// The messages that close connections have left, too: they are sent when a closed connection is served.
    fn has_ended(&self) -> bool {
        self.port.is_ended() && self.listed.is_empty()
    }
}

impl<C: Crew> Carrier for Dialing<C> {
    type Crew = C;

    fn into_crew(self) -> C {
        self.crew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_transport_have_names_and_no_control_characters() {
        assert_eq!(named(TransportErrorCode::NO_ERROR), None);
        let error = named(TransportErrorCode::APPLICATION_ERROR).expect("an error");
        assert_eq!(
            closed_with(&error, b"it's full"),
            "the server closed the connection with APPLICATION_ERROR (this client broke no rule of QUIC): \"it's full\""
        );
        let error = named(TransportErrorCode::FLOW_CONTROL_ERROR).expect("an error");
        assert_eq!(
            closed_with(&error, b"too \x1b[1mmuch"),
            "the server closed the connection with FLOW_CONTROL_ERROR (it says that this client broke the rules of QUIC): \
             \"too \\u{1b}[1mmuch\""
        );
        let long = closed_with(&error, &[b'a'; 2 * REASON_MAX]);
        assert_eq!(long.matches("aa").count(), REASON_MAX / 2);
        // A refused certificate, for instance, which is a matter of the handshake.
        assert_eq!(alert(TransportErrorCode::crypto(116)), Some(116));
        assert_eq!(alert(TransportErrorCode::FLOW_CONTROL_ERROR), None);
    }

    /// Opens two connections, and blames the peer of the first. It connects that line again when its alarm fires.
    struct Accuser;

    impl Crew for Accuser {
        fn start(&mut self, port: &mut Port, _: Instant) {
            port.connect(1);
            port.connect(2);
            port.blame(1, 0x10a);
            port.wake(1, Instant::ZERO);
        }

        fn handle(&mut self, line: u32, _: Happened<'_>, port: &mut Port, _: Instant) {
            port.connect(line);
        }

        fn stop(&mut self, _: &mut Port, _: Instant) {}
    }

    #[test]
    fn a_connection_whose_peer_is_to_blame_closes_with_that_code_and_no_other() {
        let nobody = rustls::RootCertStore::empty();
        let tls = rustls::ClientConfig::builder().with_root_certificates(nobody);
        let tls = Arc::new(tls.with_no_client_auth());
        let server = SocketAddr::from(([192, 0, 2, 1], 443));
        let target = Target::new(tls, &Limits::default(), server, "a.test".to_owned(), 0x100);
        let mut dialing = Dialing::new(Accuser, target.expect("TLS 1.3"));
        dialing.turn(Instant::ZERO, units::UnixTime::from_secs(0));
        let codes = |dialing: &Dialing<Accuser>| {
            let open = dialing.connections.iter().flatten();
            let open = open.filter(|connection| connection.line.is_some());
            let codes = open.map(|connection| connection.close_code.into_inner());
            codes.collect::<Vec<u64>>()
        };
        assert_eq!(codes(&dialing), [0x10a, 0x100]);
        dialing.expire(Instant::ZERO);
        assert_eq!(codes(&dialing), [0x100, 0x100]);
    }
}
