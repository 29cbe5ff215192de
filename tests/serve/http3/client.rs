//! A client of HTTP/3: the client's end of crate `http3` over `quinn-proto` on a blocking UDP socket.

use http3::client::{Connection, Event};
use http3::connection::Output;
use http3::priority::Priority;
use http3::qpack::block;
use http3::{Code, Fault, Limits};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, ReadError, StreamEvent,
    StreamId, TransportConfig, VarInt,
};
use runtime::clock;
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What came over a stream.
#[derive(Debug, Default)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    /// The statuses of interim responses, and their `Link` fields.
    pub(crate) interim: Vec<u16>,
    pub(crate) hints: Vec<String>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    pub(crate) has_ended: bool,
    pub(crate) reset: Option<Code>,
    /// The server wants no more of the request.
    pub(crate) stopped: Option<Code>,
}

impl Got {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(its, _)| its == name);
        field.map(|(_, value)| value.as_str())
    }
}

/// A client with one connection.
pub(crate) struct Client {
    pub(crate) socket: UdpSocket,
    server: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    quic: quinn_proto::Connection,
    http: Connection,
    held: BTreeMap<u64, Vec<u8>>,
    /// Content of requests that was not sent.
    bodies: BTreeMap<u64, Vec<u8>>,
    pub(crate) got: BTreeMap<u64, Got>,
    pub(crate) is_connected: bool,
    /// The first bytes of the server's connection ID in the last packet with a short header: worker, program, process.
    pub(crate) named: Option<[u8; 3]>,
    /// The server has sent GOAWAY.
    pub(crate) is_leaving: bool,
    /// Why the connection ended.
    pub(crate) closed: Option<String>,
    /// Whether answers are read.
    pub(crate) reads: bool,
}

/// QUIC for clients that trust whom `tls` trusts.
pub(crate) fn config(trust: &tls::rustls::ClientConfig) -> ClientConfig {
    let mut tls = trust.clone();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let crypto = QuicClientConfig::try_from(tls).expect("TLS 1.3");
    let mut config = ClientConfig::new(Arc::new(crypto));
    let mut transport = TransportConfig::default();
    // How long a connection may be idle is up to the server.
    transport
        .max_idle_timeout(None)
        .stream_receive_window(VarInt::from_u32(1 << 20))
        .receive_window(VarInt::from_u32(4 << 20));
    config.transport_config(Arc::new(transport));
    config
}

fn name(stream: u64) -> StreamId {
    VarInt::from_u64(stream).expect("a stream").into()
}

impl Client {
    /// Begins a connection.
    pub(crate) fn new(server: SocketAddr, trust: &tls::rustls::ClientConfig, host: &str) -> Client {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
        let (handle, quic) = endpoint
            .connect(Instant::now(), config(trust), server, host)
            .expect("a valid configuration");
        Client {
            socket,
            server,
            endpoint,
            handle,
            quic,
            http: Connection::new(Arc::new(Limits::DEFAULT)),
            held: BTreeMap::new(),
            bodies: BTreeMap::new(),
            got: BTreeMap::new(),
            is_connected: false,
            named: None,
            is_leaving: false,
            closed: None,
            reads: true,
        }
    }

    /// A connection whose handshake is complete.
    pub(crate) fn open(server: SocketAddr, trust: &tls::rustls::ClientConfig, host: &str) -> Client {
        let mut client = Client::new(server, trust, host);
        assert!(client.run(|client| client.is_connected), "{:?}", client.closed);
        client
    }

    /// Sends a GET.
    pub(crate) fn ask(&mut self, path: &str) -> u64 {
        self.ask_as("GET", path, &[])
    }

    /// Sends a request without a body.
    pub(crate) fn ask_as(&mut self, method: &str, path: &str, more: &[(&str, &str)]) -> u64 {
        self.try_ask(method, path, more).expect("room for a stream")
    }

    /// The same; `None` if the server allows no further stream now.
    pub(crate) fn try_ask(&mut self, method: &str, path: &str, more: &[(&str, &str)]) -> Option<u64> {
        let more = [&[(":method", method)], more].concat();
        self.try_open(path, &more, true)
    }

    /// Sends the head of a request, which `end` makes whole. A pseudo-field in `more` takes the place of its default.
    pub(crate) fn open_request(&mut self, path: &str, more: &[(&str, &str)], end: bool) -> u64 {
        self.try_open(path, more, end).expect("room for a stream")
    }

    fn try_open(&mut self, path: &str, more: &[(&str, &str)], end: bool) -> Option<u64> {
        let pseudo = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a.test"),
            (":path", path),
        ];
        let given = |name: &str| more.iter().find(|(its, _)| *its == name);
        let pseudo = pseudo.map(|field| *given(field.0).unwrap_or(&field));
        let others = more.iter().filter(|(name, _)| !name.starts_with(':'));
        let fields: Vec<(&str, &str)> = pseudo.iter().chain(others).copied().collect();
        self.try_fields(&fields, end)
    }

    /// Sends a head of these fields alone, as they are. `end`: no body follows.
    pub(crate) fn open_fields(&mut self, fields: &[(&str, &str)], end: bool) -> u64 {
        self.try_fields(fields, end).expect("room for a stream")
    }

    fn try_fields(&mut self, fields: &[(&str, &str)], end: bool) -> Option<u64> {
        let mut head = Vec::new();
        block::begin(&mut head);
        for (name, value) in fields {
            block::field(name.as_bytes(), value.as_bytes(), &mut head);
        }
        let stream = u64::from(self.quic.streams().open(Dir::Bi)?);
        let is_to_head = fields.contains(&(":method", "HEAD"));
        self.http
            .request(stream, &head, end, is_to_head, Priority::DEFAULT)
            .expect("the server does not leave");
        self.got.insert(stream, Got::default());
        self.flush();
        Some(stream)
    }

    /// Sends a request without a body, and takes the whole answer.
    pub(crate) fn get(&mut self, path: &str, more: &[(&str, &str)]) -> &Got {
        let stream = self.open_request(path, more, true);
        self.end_of(stream)
    }

    /// The answer on this stream, once it is over.
    pub(crate) fn end_of(&mut self, stream: u64) -> &Got {
        let is_over = self.run(|client| {
            let got = &client.got[&stream];
            got.has_ended || got.reset.is_some()
        });
        assert!(is_over, "{:?}: {:?}", self.closed, self.got[&stream]);
        &self.got[&stream]
    }

    /// Gives content of a request to the connection, which sends it as the windows permit.
    pub(crate) fn queue_body(&mut self, stream: u64, body: &[u8]) {
        self.bodies.entry(stream).or_default().extend_from_slice(body);
        // The stream may have been reset.
        let _ = self.http.ready(stream, body.len() as u64);
        self.flush();
    }

    /// Sends content of a request. False if the stream is over before all is sent, or after a long time.
    pub(crate) fn send_body(&mut self, stream: u64, body: &[u8]) -> bool {
        self.queue_body(stream, body);
        self.run(|client| client.unsent(stream) == 0 || client.is_over(stream)) && self.unsent(stream) == 0
    }

    /// Content of a request that was not sent, in bytes.
    pub(crate) fn unsent(&self, stream: u64) -> usize {
        self.bodies.get(&stream).map_or(0, Vec::len)
    }

    fn is_over(&self, stream: u64) -> bool {
        let got = &self.got[&stream];
        got.reset.is_some() || got.stopped.is_some()
    }

    /// Ends a request.
    pub(crate) fn end(&mut self, stream: u64, trailers: &[(&str, &str)]) {
        let mut section = Vec::new();
        block::begin(&mut section);
        for (name, value) in trailers {
            block::field(name.as_bytes(), value.as_bytes(), &mut section);
        }
        // The stream may have been reset.
        let _ = match trailers {
            [] => self.http.finish(stream),
            _ => self.http.trailers(stream, &section),
        };
        self.flush();
    }

    /// Tells the server that an answer is this urgent from now on (PRIORITY_UPDATE).
    pub(crate) fn prioritize(&mut self, stream: u64, urgency: u8) {
        let priority = Priority {
            urgency,
            ..Priority::DEFAULT
        };
        self.http.prioritize(stream, priority);
        self.flush();
    }

    /// Gives a request up.
    pub(crate) fn cancel(&mut self, stream: u64) {
        self.http.reset(stream, Code::REQUEST_CANCELLED);
        self.flush();
    }

    /// Reads answers again.
    pub(crate) fn read_on(&mut self) {
        self.reads = true;
        let streams: Vec<u64> = self.got.keys().copied().collect();
        for stream in streams {
            if let Err(fault) = self.read(stream) {
                self.closed.get_or_insert(fault.to_string());
            }
        }
        self.flush();
    }

    /// Ends the connection without waiting for anything.
    pub(crate) fn leave(&mut self) {
        self.quic
            .close(Instant::now(), VarInt::from_u32(0x100), Default::default());
        self.flush();
    }

    /// Takes what comes until `until` says so. False if the connection ends before, or after a long time.
    pub(crate) fn run(&mut self, until: impl Fn(&Client) -> bool) -> bool {
        let end = Instant::now() + crate::serve::process::PATIENCE;
        self.flush();
        while !until(self) {
            if self.closed.is_some() || Instant::now() > end {
                return false;
            }
            self.receive(Duration::from_millis(20));
            self.flush();
        }
        true
    }

    /// Whether all requests are answered whole.
    pub(crate) fn is_done(&self) -> bool {
        self.got.values().all(|got| got.has_ended)
    }

    fn receive(&mut self, patience: Duration) {
        self.socket.set_read_timeout(Some(patience)).expect("a timeout");
        let mut buffer = [0; 65_536];
        let mut answer = Vec::new();
        while let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
            let event = self.endpoint.handle(
                Instant::now(),
                from,
                None,
                None,
                buffer[..length].into(),
                &mut answer,
            );
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.quic.handle_event(event);
            }
            self.socket.set_nonblocking(true).expect("a socket");
        }
        self.socket.set_nonblocking(false).expect("a socket");
    }

    /// Does everything that can be done now.
    fn flush(&mut self) {
        let now = Instant::now();
        if self.quic.poll_timeout().is_some_and(|due| due <= now) {
            self.quic.handle_timeout(now);
        }
        if let Err(fault) = self.take().and_then(|()| self.give()) {
            self.closed.get_or_insert(fault.to_string());
            return;
        }
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
        let mut buffer = Vec::new();
        while let Some(transmit) = self.quic.poll_transmit(Instant::now(), 1, &mut buffer) {
            if let [first, worker, program, process, ..] = buffer[..transmit.size]
                && first & 0x80 == 0
            {
                self.named = Some([worker, program, process]);
            }
            // A datagram may be lost anywhere.
            let _ = self.socket.send_to(&buffer[..transmit.size], self.server);
            buffer.clear();
        }
    }

    fn take(&mut self) -> Result<(), Fault> {
        while let Some(event) = self.quic.poll() {
            match event {
                quinn_proto::Event::Connected => {
                    self.is_connected = true;
                    assert!(self.quic.streams().open(Dir::Uni).is_some(), "a control stream");
                }
                quinn_proto::Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = self.quic.streams().accept(dir) {
                        self.http.open(id.into(), clock::now())?;
                        self.read(id.into())?;
                    }
                }
                quinn_proto::Event::Stream(StreamEvent::Readable { id }) => self.read(id.into())?,
                quinn_proto::Event::Stream(StreamEvent::Writable { id }) => self.http.writable(id.into()),
                quinn_proto::Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    let (id, code) = (u64::from(id), Code(error_code.into_inner()));
                    self.got.entry(id).or_default().stopped = Some(code);
                    self.http.peer_stopped(id, code, clock::now())?;
                }
                quinn_proto::Event::ConnectionLost { reason } => {
                    self.closed.get_or_insert(reason.to_string());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read(&mut self, id: u64) -> Result<(), Fault> {
        if !self.reads && id.is_multiple_of(4) {
            return Ok(());
        }
        let mut bytes = self.held.remove(&id).unwrap_or_default();
        let (mut fin, mut reset) = (false, None);
        let mut stream = self.quic.recv_stream(name(id));
        if let Ok(mut chunks) = stream.read(true) {
            loop {
                match chunks.next(usize::MAX) {
                    Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
                    Ok(None) => fin = true,
                    Err(ReadError::Reset(code)) => reset = Some(Code(code.into_inner())),
                    Err(ReadError::Blocked) => {}
                }
                if fin || reset.is_some() || chunks.next(0).is_err() {
                    break;
                }
            }
            let _ = chunks.finalize();
        }
        let mut used = 0;
        loop {
            let received = self.http.receive(id, &bytes[used..], fin, clock::now());
            used += received.used;
            match received.event {
                Event::Partial => break,
                Event::Response {
                    stream,
                    end,
                    status,
                    fields,
                } => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let fields = fields.iter().map(|(name, value)| (text(name), text(value)));
                    let got = self.got.entry(stream).or_default();
                    if status < 200 {
                        got.interim.push(status);
                        let links = fields.filter(|(name, _)| name == "link");
                        got.hints.extend(links.map(|(_, value)| value));
                    } else {
                        got.fields = fields.collect();
                        (got.status, got.has_ended) = (status, end);
                    }
                }
                Event::Body { stream, bytes } => {
                    self.got.entry(stream).or_default().body.extend_from_slice(bytes);
                }
                Event::Trailers { stream, fields } => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let fields = fields.iter().map(|(name, value)| (text(name), text(value)));
                    self.got.entry(stream).or_default().trailers = fields.collect();
                }
                Event::End { stream } => self.got.entry(stream).or_default().has_ended = true,
                Event::Reset { stream, code } => self.got.entry(stream).or_default().reset = Some(code),
                Event::GoAway { .. } => self.is_leaving = true,
                Event::Closed(fault) => return Err(fault),
                other => panic!("{other:?}"),
            }
        }
        bytes.drain(..used);
        self.held.insert(id, bytes);
        if let Some(code) = reset
            && self.http.peer_reset(id, clock::now())?
        {
            self.got.entry(id).or_default().reset = Some(code);
        }
        Ok(())
    }

    fn give(&mut self) -> Result<(), Fault> {
        if !self.is_connected {
            return Ok(());
        }
        while let Some(output) = self.http.poll() {
            match output {
                Output::Write(piece) => {
                    let (stream, frames, end) = (piece.stream, piece.frames.len(), piece.end);
                    let all = frames + piece.body as usize;
                    let taken = self.quic.send_stream(name(stream)).write(piece.frames);
                    let mut taken = taken.unwrap_or(0);
                    if taken == frames
                        && let Some(body) = self.bodies.get_mut(&stream)
                    {
                        let some = self.quic.send_stream(name(stream)).write(&body[..all - frames]);
                        let some = some.unwrap_or(0);
                        body.drain(..some);
                        taken += some;
                    }
                    if end && taken == all {
                        let _ = self.quic.send_stream(name(stream)).finish();
                    }
                    self.http.sent(stream, taken as u64);
                    if taken < all {
                        self.http.blocked(stream, clock::now());
                    }
                }
                Output::Reset { stream, code } => {
                    let code = VarInt::from_u64(code.0).expect("a code");
                    let _ = self.quic.send_stream(name(stream)).reset(code);
                }
                Output::Stop { stream, code } => {
                    let code = VarInt::from_u64(code.0).expect("a code");
                    let _ = self.quic.recv_stream(name(stream)).stop(code);
                }
            }
        }
        Ok(())
    }
}
