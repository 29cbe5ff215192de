//! One end: a `quinn_proto` connection that carries the streams of an `http3` connection.

use bytes::BytesMut;
use core::time::Duration;
use http3::connection::{Client, Connection, Event, Output, Server};
use http3::priority::Priority;
use http3::qpack::block;
use http3::{Code, Fault, Limits, Misuse};
use quinn_proto::{
    ClientConfig, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, ReadError, ServerConfig,
    StreamEvent, StreamId, TransportConfig, VarInt, WriteError,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Instant as Std;
use units::Instant;

/// The byte of a body of this stream.
pub(crate) fn pattern(stream: u64, offset: u64) -> u8 {
    (offset / 7 + stream) as u8
}

/// quinn's instants count from here; how much time passes is up to the test.
fn at(now: Instant) -> Std {
    static ORIGIN: OnceLock<Std> = OnceLock::new();
    #[expect(
        clippy::disallowed_methods,
        reason = "quinn-proto takes std's instants, and there is no other way to make one"
    )]
    let origin = *ORIGIN.get_or_init(Std::now);
    origin + now.since(Instant::ZERO)
}

/// What quinn's instant is on our clock.
fn back(instant: Std) -> Instant {
    Instant::ZERO + instant.duration_since(at(Instant::ZERO))
}

/// A request that a client sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Bytes of its own body.
    pub(crate) up: u64,
    /// Bytes of the response's body.
    pub(crate) down: u64,
    pub(crate) priority: Priority,
    /// Bytes of the response after which the client cancels.
    pub(crate) cancel_at: Option<u64>,
    /// The client never reads the response: the stream's window closes.
    pub(crate) unread: bool,
}

/// What one end has received on a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) request: Option<Request>,
    pub(crate) status: u16,
    pub(crate) bytes: u64,
    pub(crate) ended: Option<Instant>,
    pub(crate) reset: Option<Code>,
}

/// What a role does with events.
pub(crate) trait Role: Sized {
    fn make() -> Connection<Self>;
    /// Begins our message of a new request stream.
    fn begin(http: &mut Connection<Self>, stream: u64, request: Request) -> Result<(), Misuse>;
    /// Answers a request whose path says how long the response is.
    fn answer(http: &mut Connection<Self>, stream: u64, down: u64);
}

fn send_body<R>(http: &mut Connection<R>, stream: u64, bytes: u64) {
    http.length(stream, bytes);
    http.ready(stream, bytes).expect("its head was sent");
    http.finish(stream).expect("it is not finished");
}

impl Role for Client {
    fn make() -> Connection<Client> {
        http3::client::Connection::new(Arc::new(Limits::DEFAULT))
    }

    fn begin(http: &mut Connection<Client>, stream: u64, request: Request) -> Result<(), Misuse> {
        let mut section = Vec::new();
        block::begin(&mut section);
        let (path, priority) = (format!("/{}", request.down), request.priority.value());
        for (name, value) in [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "h3.test"),
            (":path", &path),
            ("priority", priority),
        ] {
            block::field(name.as_bytes(), value.as_bytes(), &mut section);
        }
        http.request(stream, &section, request.up == 0, false, request.priority)?;
        if request.up > 0 {
            send_body(http, stream, request.up);
        }
        Ok(())
    }

    fn answer(_: &mut Connection<Client>, _: u64, _: u64) {
        unreachable!("a client receives no request")
    }
}

impl Role for Server {
    fn make() -> Connection<Server> {
        http3::server::Connection::new(Arc::new(Limits::DEFAULT))
    }

    fn begin(_: &mut Connection<Server>, _: u64, _: Request) -> Result<(), Misuse> {
        unreachable!("a server sends no request")
    }

    fn answer(http: &mut Connection<Server>, stream: u64, down: u64) {
        let mut section = Vec::new();
        block::begin(&mut section);
        block::status(200, &mut section);
        block::field(b"content-length", down.to_string().as_bytes(), &mut section);
        http.respond(stream, &section, down == 0).expect("a new request");
        if down > 0 {
            send_body(http, stream, down);
        }
    }
}

/// Bytes of a stream that `http3` has not taken.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    fin: bool,
}

pub(crate) struct Host<R> {
    endpoint: Endpoint,
    quic: Option<(ConnectionHandle, quinn_proto::Connection)>,
    pub(crate) http: Connection<R>,
    held: BTreeMap<u64, Held>,
    /// Bytes of our bodies that the transport has taken.
    sent: BTreeMap<u64, u64>,
    /// Requests that wait for a stream.
    pub(crate) wanted: VecDeque<Request>,
    pub(crate) seen: BTreeMap<u64, Seen>,
    pub(crate) goaway: Option<u64>,
    /// Why the connection ended.
    pub(crate) closed: Option<String>,
    connected: bool,
}

/// Certificate and key of `h3.test`. Ed25519: its signatures have one length, so that runs repeat.
type Identity = (
    rustls::pki_types::CertificateDer<'static>,
    rustls::pki_types::PrivateKeyDer<'static>,
);

pub(crate) fn identity() -> Identity {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
    let parameters = rcgen::CertificateParams::new(vec!["h3.test".to_owned()]).expect("a name");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der());
    (certificate.der().clone(), key.into())
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(16_u32.into())
        .max_concurrent_uni_streams(8_u32.into())
        .stream_receive_window(60_000_u32.into())
        .receive_window(200_000_u32.into())
        // Without it, quinn ends a connection that waits for nothing but a window.
        .keep_alive_interval(Some(Duration::from_secs(10)))
        .mtu_discovery_config(None);
    Arc::new(transport)
}

fn endpoint(server: Option<Arc<ServerConfig>>, seed: u8) -> Endpoint {
    Endpoint::new(
        Arc::new(EndpointConfig::default()),
        server,
        false,
        Some([seed; 32]),
    )
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn remote(is_server: bool) -> SocketAddr {
    let port = if is_server { 443 } else { 5_000 };
    SocketAddr::from(([192, 0, 2, 1 + u8::from(is_server)], port))
}

impl Host<Server> {
    pub(crate) fn server((certificate, key): &Identity) -> Host<Server> {
        let tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.clone_key());
        let mut tls = tls.expect("the key fits the certificate");
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let crypto = quinn_proto::crypto::rustls::QuicServerConfig::try_from(tls).expect("TLS 1.3");
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(transport());
        Host::new(endpoint(Some(Arc::new(config)), 1))
    }
}

impl Host<Client> {
    pub(crate) fn client((certificate, _): &Identity, wanted: &[Request]) -> Host<Client> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate.clone()).expect("a certificate");
        let mut tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has TLS 1.3")
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let crypto = quinn_proto::crypto::rustls::QuicClientConfig::try_from(tls).expect("TLS 1.3");
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(transport());
        let mut host = Host::new(endpoint(None, 2));
        let connected = host
            .endpoint
            .connect(at(Instant::ZERO), config, remote(true), "h3.test");
        host.quic = Some(connected.expect("a valid configuration"));
        host.wanted = wanted.iter().copied().collect();
        host
    }
}

impl<R: Role> Host<R> {
    fn new(endpoint: Endpoint) -> Host<R> {
        Host {
            endpoint,
            quic: None,
            http: R::make(),
            held: BTreeMap::new(),
            sent: BTreeMap::new(),
            wanted: VecDeque::new(),
            seen: BTreeMap::new(),
            goaway: None,
            closed: None,
            connected: false,
        }
    }

    /// Takes a datagram; returns one that answers it without a connection.
    pub(crate) fn datagram(&mut self, datagram: &[u8], from_server: bool, now: Instant) -> Option<Vec<u8>> {
        let mut answer = Vec::new();
        let event = self.endpoint.handle(
            at(now),
            remote(from_server),
            None,
            None,
            BytesMut::from(datagram),
            &mut answer,
        );
        match event? {
            DatagramEvent::ConnectionEvent(_, event) => {
                if let Some((_, quic)) = &mut self.quic {
                    quic.handle_event(event);
                }
                None
            }
            DatagramEvent::NewConnection(incoming) => {
                let accepted = self.endpoint.accept(incoming, at(now), &mut answer, None);
                self.quic = Some(accepted.unwrap_or_else(|error| panic!("{:?}", error.cause)));
                None
            }
            DatagramEvent::Response(transmit) => Some(answer[..transmit.size].to_vec()),
        }
    }

    pub(crate) fn deadline(&mut self) -> Option<Instant> {
        let quic = self.quic.as_mut().and_then(|(_, quic)| quic.poll_timeout());
        [quic.map(back), self.http.deadline()].into_iter().flatten().min()
    }

    /// Does everything that can be done now; returns the datagrams to send.
    pub(crate) fn turn(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let Some((_, quic)) = &mut self.quic else {
            return out;
        };
        if quic.poll_timeout().is_some_and(|due| due <= at(now)) {
            quic.handle_timeout(at(now));
        }
        let mut lost = Vec::new();
        let mut result = self.http.expire(now, |stream, code| lost.push((stream, code)));
        for (stream, code) in lost {
            self.seen.entry(stream).or_default().reset = Some(code);
        }
        loop {
            result = result
                .and_then(|()| self.events(now))
                .and_then(|()| self.write(now));
            let (handle, quic) = self.quic.as_mut().expect("checked above");
            if let Err(Fault::Connection(code, text) | Fault::Stream(_, code, text)) = result {
                if self.closed.is_none() {
                    self.closed = Some(format!("{text} ({code})"));
                    quic.close(at(now), varint(code.0), text.as_bytes().to_vec().into());
                }
                result = Ok(());
            }
            while let Some(event) = quic.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    quic.handle_event(event);
                }
            }
            let before = out.len();
            let mut buffer = Vec::new();
            while let Some(transmit) = quic.poll_transmit(at(now), 1, &mut buffer) {
                out.push(buffer[..transmit.size].to_vec());
                buffer.clear();
            }
            if out.len() == before {
                return out;
            }
        }
    }

    fn events(&mut self, now: Instant) -> Result<(), Fault> {
        loop {
            let (_, quic) = self.quic.as_mut().expect("the caller has one");
            let Some(event) = quic.poll() else {
                return Ok(());
            };
            match event {
                quinn_proto::Event::Connected => {
                    self.connected = true;
                    let control = quic.streams().open(Dir::Uni);
                    assert!(control.is_some(), "RFC 9114 section 6.2 asks for three");
                    self.request();
                }
                quinn_proto::Event::Stream(StreamEvent::Opened { dir }) => {
                    let mut opened = Vec::new();
                    while let Some(id) = quic.streams().accept(dir) {
                        opened.push(u64::from(id));
                    }
                    for id in opened {
                        self.http.open(id, now)?;
                        self.read(id, now)?;
                    }
                }
                quinn_proto::Event::Stream(StreamEvent::Readable { id }) => self.read(id.into(), now)?,
                quinn_proto::Event::Stream(StreamEvent::Writable { id }) => self.http.writable(id.into()),
                quinn_proto::Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    let (id, code) = (u64::from(id), Code(error_code.into_inner()));
                    if self.http.peer_stopped(id, code, now)? {
                        self.seen.entry(id).or_default().reset = Some(code);
                    }
                }
                quinn_proto::Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => self.request(),
                quinn_proto::Event::ConnectionLost { reason } => {
                    self.closed.get_or_insert(reason.to_string());
                }
                _ => {}
            }
        }
    }

    /// Sends requests as far as there are streams.
    pub(crate) fn request(&mut self) {
        let (_, quic) = self.quic.as_mut().expect("it is connected");
        while self.connected && self.goaway.is_none() && !self.wanted.is_empty() {
            let Some(id) = quic.streams().open(Dir::Bi) else {
                return;
            };
            let request = self.wanted.pop_front().expect("checked above");
            R::begin(&mut self.http, id.into(), request).expect("nobody leaves");
            self.seen.entry(id.into()).or_default().request = Some(request);
        }
    }

    /// Reads what the transport has of a stream.
    fn read(&mut self, id: u64, now: Instant) -> Result<(), Fault> {
        let (_, quic) = self.quic.as_mut().expect("the caller has one");
        let held = self.held.entry(id).or_default();
        let (mut stream, mut reset) = (quic.recv_stream(stream_id(id)), None);
        let request = self.seen.get(&id).and_then(|seen| seen.request);
        if request.is_some_and(|request| request.unread) {
            if let Ok(Some(code)) = stream.received_reset()
                && self.http.peer_reset(id, now)?
            {
                self.seen.entry(id).or_default().reset = Some(Code(code.into_inner()));
            }
            return Ok(());
        }
        let Ok(mut chunks) = stream.read(true) else {
            return Ok(());
        };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => held.bytes.extend_from_slice(&chunk.bytes),
                Ok(None) => {
                    held.fin = true;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(code)) => {
                    reset = Some(code);
                    break;
                }
            }
        }
        // What it says about datagrams to send: `turn` asks for them anyway.
        let _ = chunks.finalize();
        self.feed(id, now)?;
        if let Some(code) = reset
            && self.http.peer_reset(id, now)?
        {
            self.seen.entry(id).or_default().reset = Some(Code(code.into_inner()));
        }
        Ok(())
    }

    /// Offers what is held of a stream.
    fn feed(&mut self, id: u64, now: Instant) -> Result<(), Fault> {
        let held = self.held.entry(id).or_default();
        let (bytes, fin) = (core::mem::take(&mut held.bytes), held.fin);
        let mut rest = &bytes[..];
        loop {
            let received = self.http.receive(id, rest, fin, now);
            rest = &rest[received.used..];
            let (mut request, mut ended, mut cancel) = (None, None, None);
            match received.event {
                Event::Partial => break,
                Event::Closed(fault) => return Err(fault),
                Event::Request {
                    stream, end, control, ..
                } => {
                    let path = core::str::from_utf8(control.path.expect("no CONNECT")).expect("ASCII");
                    let down = path[1..].parse().expect("the path is a number");
                    request = Some((stream, down));
                    self.seen.entry(stream).or_default();
                    ended = end.then_some(stream);
                }
                Event::Response {
                    stream, status, end, ..
                } => {
                    self.seen.entry(stream).or_default().status = status;
                    ended = end.then_some(stream);
                }
                Event::Body { stream, bytes } => {
                    let seen = self.seen.entry(stream).or_default();
                    for (&byte, offset) in bytes.iter().zip(seen.bytes..) {
                        assert_eq!(byte, pattern(stream, offset), "stream {stream} at {offset}");
                    }
                    seen.bytes += bytes.len() as u64;
                    let most = seen.request.and_then(|request| request.cancel_at);
                    cancel = most.filter(|&most| seen.bytes >= most).map(|_| stream);
                }
                Event::End { stream } => ended = Some(stream),
                Event::Reset { stream, code } => self.seen.entry(stream).or_default().reset = Some(code),
                Event::GoAway { first } => self.goaway = Some(first),
                Event::Trailers { .. } | Event::Oversized { .. } | Event::Resumed { .. } => {
                    panic!("neither end sends this")
                }
            }
            if let Some(stream) = ended {
                self.seen.entry(stream).or_default().ended = Some(now);
            }
            if let Some((stream, down)) = request {
                R::answer(&mut self.http, stream, down);
            }
            if let Some(stream) = cancel {
                self.http.reset(stream, Code::REQUEST_CANCELLED);
            }
        }
        let rest = rest.to_vec();
        self.held.entry(id).or_default().bytes = rest;
        Ok(())
    }

    /// Writes what the transport takes.
    fn write(&mut self, now: Instant) -> Result<(), Fault> {
        if !self.connected || self.closed.is_some() {
            return Ok(());
        }
        let (_, quic) = self.quic.as_mut().expect("it is connected");
        while let Some(output) = self.http.poll() {
            let piece = match output {
                Output::Write(piece) => piece,
                // A stream that has ended meanwhile needs neither.
                Output::Reset { stream, code } => {
                    let _ = quic.send_stream(stream_id(stream)).reset(varint(code.0));
                    continue;
                }
                Output::Stop { stream, code } => {
                    let _ = quic.recv_stream(stream_id(stream)).stop(varint(code.0));
                    continue;
                }
            };
            let (id, all) = (piece.stream, piece.frames.len() as u64 + piece.body);
            let mut stream = quic.send_stream(stream_id(id));
            let offset = self.sent.entry(id).or_default();
            let mut taken = 0;
            let is_full = loop {
                let frames = &piece.frames[(taken as usize).min(piece.frames.len())..];
                let body: Vec<u8>;
                let bytes = if frames.is_empty() {
                    // A turn is 4 KiB, so that the order of RFC 9218 shows.
                    let most = (all - taken).min(4_096);
                    body = (*offset..*offset + most).map(|at| pattern(id, at)).collect();
                    &body[..]
                } else {
                    frames
                };
                if bytes.is_empty() {
                    break false;
                }
                match stream.write(bytes) {
                    Ok(count) => {
                        if frames.is_empty() {
                            *offset += count as u64;
                        }
                        taken += count as u64;
                    }
                    Err(WriteError::Blocked | WriteError::Stopped(_)) => break true,
                    Err(WriteError::ClosedStream) => panic!("stream {id} is closed"),
                }
                if taken >= piece.frames.len() as u64 + 4_096 {
                    break false;
                }
            };
            if piece.end && taken == all {
                // Stopped meanwhile: its event comes.
                let _ = stream.finish();
            }
            self.http.sent(id, taken);
            if is_full {
                self.http.blocked(id, now);
            }
        }
        Ok(())
    }
}

fn stream_id(id: u64) -> StreamId {
    StreamId::from(varint(id))
}

fn varint(value: u64) -> VarInt {
    VarInt::from_u64(value).expect("at most 2^62-1")
}
