//! The connections of one worker: who is accepted, when each is served, and what is sent.
//!
//! ```text
//!   datagram ─▶ quinn-proto ─┬─ of a connection ─▶ listed ─▶ served at the next poll
//!                            ├─ a new peer ──────▶ accepted, Retry, or dropped
//!                            └─ neither ─────────▶ answer: version negotiation, stateless reset
//! ```

use crate::connection::{Connection, Served};
use crate::identifiers::{self, Identifiers};
use crate::limits::Limits;
use crate::resets::Resets;
use crate::witness::Witness;
use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, EndpointConfig, Incoming, ServerConfig,
    Transmit,
};
use runtime::clock::to_standard;
use runtime::datagram::{Address, Asked, Datagram, Outbox, Owner};
use runtime::memory::{Budget, Step};
use runtime::session::{Context, Dialing, Job, Line, Need, PeerEvent, Ticket};
use runtime::streams::{self, JobOf, Service, Session, Wanted};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tls::settings::Slot;
use tls::tickets::{Ratchet, Rotation};
use units::{Duration, Instant, UnixTime};

/// Connections served by one call of `poll`, before datagrams that arrived have their turn.
const SERVED_MAX: usize = 64;

/// Idle connections closed in one turn while memory is short.
const CLOSED_MAX: usize = 64;

/// What all endpoints of a server share: its TLS, its limits, and what they have counted.
#[derive(Debug)]
pub struct Shared {
    tls: Slot,
    tickets: Ratchet,
    protocols: Vec<Vec<u8>>,
    limits: Limits,
    endpoint: Arc<EndpointConfig>,
    /// What does not change with the certificates. Its key of Retry tokens is that of all workers, and outlives reloads.
    lasting: OnceLock<ServerConfig>,
    process: u16,
    open: AtomicU64,
}

impl Shared {
    /// For endpoints that use the TLS of `tls` as it is when a peer arrives, and offer these protocols (ALPN). They move the
    /// keys of `tickets`, with which that TLS seals, on with the time.
    pub fn new(tls: Slot, tickets: Ratchet, protocols: &[&[u8]], limits: Limits) -> Shared {
        // Draws the key of stateless resets, which all workers must share (RFC 9000 section 10.3.2).
        let mut endpoint = EndpointConfig::default();
        // `Resets` bounds them: the library's own bound is one for all receivers.
        endpoint.min_reset_interval(Duration::ZERO);
        Shared {
            tls,
            tickets,
            protocols: protocols.iter().map(|name| name.to_vec()).collect(),
            limits,
            endpoint: Arc::new(endpoint),
            lasting: OnceLock::new(),
            process: 0,
            open: AtomicU64::new(0),
        }
    }

    /// For endpoints of the process with this number, which tells it from others that share its sockets. 0 otherwise.
    #[must_use]
    pub fn of_process(self, process: u16) -> Shared {
        Shared { process, ..self }
    }

    /// The TLS of new peers, which can be replaced.
    pub fn tls(&self) -> &Slot {
        &self.tls
    }

    /// The number of the process.
    pub fn process(&self) -> u16 {
        self.process
    }

    /// Connections that are open now, those in their handshake included.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// The library's configuration for these certificates, whose use `witness` notes. Early data stays off: a request in it
    /// can be replayed.
    fn configured(&self, tls: &rustls::ServerConfig, witness: &Witness) -> Result<ServerConfig, String> {
        let mut tls = tls.clone();
        tls.cert_resolver = witness.of(tls.cert_resolver);
        tls.alpn_protocols.clone_from(&self.protocols);
        tls.max_early_data_size = 0;
        let crypto = QuicServerConfig::try_from(tls)
            .map_err(|_| "QUIC needs TLS 1.3 with AES-128-GCM (RFC 9001 section 5.2)".to_owned())?;
        let crypto: Arc<dyn quinn_proto::crypto::ServerConfig> = Arc::new(crypto);
        let lasting = self.lasting.get_or_init(|| {
            let mut config = ServerConfig::with_crypto(Arc::clone(&crypto));
            config.transport_config(Arc::new(self.limits.transport()));
            self.limits.bound_incoming(&mut config);
            config
        });
        let mut config = lasting.clone();
        config.crypto = crypto;
        Ok(config)
    }

    /// Whether endpoints can use the TLS that is in force.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn check(&self) -> Result<(), String> {
        self.configured(&self.tls.config(), &Witness::default()).map(drop)
    }
}

/// One worker's connections, as [`runtime::datagram`] drives them.
pub struct Endpoint<V: Service> {
    shared: Arc<Shared>,
    service: Arc<V>,
    cx: <V::Session as Session>::Cx,
    budget: Arc<Budget>,
    quic: quinn_proto::Endpoint,
    /// The TLS in force, and what was made of it.
    tls: Option<(Arc<rustls::ServerConfig>, Arc<ServerConfig>)>,
    rotation: Rotation,
    witness: Witness,
    /// By the library's handle.
    connections: Vec<Option<Box<Connection<V::Session>>>>,
    open: usize,
    /// Connections whose handshake is not complete.
    handshakes: usize,
    generations: u32,
    deadlines: BTreeSet<(Instant, usize)>,
    /// Connections to be served, in the order in which that became due.
    listed: VecDeque<usize>,
    jobs: VecDeque<(u64, JobOf<V::Session>)>,
    /// Whose jobs are under way.
    waiting: HashMap<u64, (usize, u32, Ticket)>,
    jobs_so_far: u64,
    /// What connections ask for their peers, under the name that [`owner`] gives each.
    asked: VecDeque<Asked>,
    scratch: Vec<u8>,
    resets: Resets,
    draining: bool,
}

impl<V: Service> Endpoint<V> {
    /// The endpoint of the worker with this number.
    ///
    /// # Panics
    /// For a worker beyond [`identifiers::WORKERS_MAX`].
    pub fn new(shared: Arc<Shared>, service: Arc<V>, worker: usize) -> Endpoint<V> {
        Endpoint::of(shared, service, worker, None)
    }

    /// The same, in whose decisions no chance plays: those of the transport follow from the seed. Connection IDs and keys
    /// are still drawn, but all have one size. For virtual time only: peers could foresee what must not be foreseen.
    ///
    /// # Panics
    /// As [`Endpoint::new`].
    pub fn seeded(shared: Arc<Shared>, service: Arc<V>, worker: usize, seed: [u8; 32]) -> Endpoint<V> {
        Endpoint::of(shared, service, worker, Some(seed))
    }

    fn of(shared: Arc<Shared>, service: Arc<V>, worker: usize, seed: Option<[u8; 32]>) -> Endpoint<V> {
        let number = u8::try_from(worker).expect("the caller bounds the workers");
        let mut config = (*shared.endpoint).clone();
        let process = shared.process;
        config.cid_generator(move || Box::new(Identifiers::of(number, process)));
        let quic = quinn_proto::Endpoint::new(Arc::new(config), None, true, seed);
        let mut endpoint = Endpoint {
            cx: service.context(worker),
            budget: service.budget(),
            rotation: Rotation::new(shared.tickets.clone()),
            shared,
            service,
            quic,
            tls: None,
            witness: Witness::default(),
            connections: Vec::new(),
            open: 0,
            handshakes: 0,
            generations: 0,
            deadlines: BTreeSet::new(),
            listed: VecDeque::new(),
            jobs: VecDeque::new(),
            waiting: HashMap::new(),
            jobs_so_far: 0,
            asked: VecDeque::new(),
            scratch: Vec::new(),
            resets: Resets::default(),
            draining: false,
        };
        endpoint.take_tls();
        endpoint
    }

    /// Uses the TLS in force from the next peer on.
    fn take_tls(&mut self) {
        let tls = self.shared.tls.config();
        if self
            .tls
            .as_ref()
            .is_some_and(|(known, _)| Arc::ptr_eq(known, &tls))
        {
            return;
        }
        match self.shared.configured(&tls, &self.witness) {
            Ok(config) => {
                let config = Arc::new(config);
                self.quic.set_server_config(Some(Arc::clone(&config)));
                self.tls = Some((tls, config));
            }
            // The caller has checked it; a later one that does not work leaves the earlier in force.
            Err(why) => tracing::error!("HTTP/3 keeps its certificates: {why}"),
        }
    }

    fn list(&mut self, at: usize) {
        if let Some(Some(connection)) = self.connections.get_mut(at)
            && !std::mem::replace(&mut connection.is_listed, true)
        {
            self.listed.push_back(at);
        }
    }

    fn list_all(&mut self) {
        for at in 0..self.connections.len() {
            self.list(at);
        }
    }

    /// Tells every session.
    fn tell_all(&mut self, now: Instant, event: impl Fn() -> streams::Event<'static, JobOf<V::Session>>) {
        for connection in self.connections.iter_mut().flatten() {
            connection.tell(&mut self.cx, event(), now);
        }
        self.list_all();
    }

    /// Memory is nearly used up: connections that are owed nothing go, some at a time.
    #[cold]
    fn close_idle(&mut self, now: Instant) {
        let is_idle = |connection: &Option<Box<Connection<V::Session>>>| {
            connection
                .as_ref()
                .is_some_and(|one| one.is_connected && one.is_idle())
        };
        let idle = (0..self.connections.len()).filter(|&at| is_idle(&self.connections[at]));
        for at in idle.take(CLOSED_MAX).collect::<Vec<_>>() {
            if let Some(connection) = &mut self.connections[at] {
                connection.tell(&mut self.cx, streams::Event::GiveWay(Need::Memory), now);
            }
            self.list(at);
        }
    }

    /// A datagram of this length has arrived for a connection.
    fn event(&mut self, at: ConnectionHandle, event: ConnectionEvent, length: usize) {
        if let Some(Some(connection)) = self.connections.get_mut(at.0) {
            connection.unread.arrived(length);
            connection.quic.handle_event(event);
            connection.is_signed |= self.witness.take();
            self.list(at.0);
        }
    }

    /// A peer that is new.
    fn meet(&mut self, incoming: Incoming, out: &mut Outbox, now: Instant) {
        let limits = &self.shared.limits;
        let is_calm = self.handshakes < limits.handshakes_calm;
        // One that comes again after Retry has begun its handshake here: whoever accepts new peers cannot read its token.
        if self.draining && incoming.may_retry() {
            let transmit = self.quic.refuse(incoming, &mut self.scratch);
            return self.answer(transmit, out);
        }
        if !incoming.remote_address_validated() && !is_calm {
            match self.quic.retry(incoming, &mut self.scratch) {
                Ok(transmit) => {
                    self.service.retried(&mut self.cx);
                    self.answer(transmit, out);
                }
                Err(error) => self.quic.ignore(error.into_incoming()),
            }
            return;
        }
        let peer = incoming.remote_address();
        if self.handshakes >= limits.handshakes_max {
            self.service.crowded(&mut self.cx);
            return self.quic.ignore(incoming);
        }
        let Some(mut session) = self.service.accept(&mut self.cx, peer, now) else {
            return self.quic.ignore(incoming);
        };
        let accepted = self
            .quic
            .accept(incoming, to_standard(now), &mut self.scratch, None);
        let is_signed = self.witness.take();
        match accepted {
            Ok((handle, mut quic)) => {
                if self.service.leaves_input() {
                    quic.set_receive_window(self.shared.limits.window_of_all_streams());
                }
                self.generations = self.generations.wrapping_add(1);
                let mut connection = Connection::new(quic, session, self.generations, self.budget.holding(0));
                connection.is_signed = is_signed;
                if self.draining {
                    connection.tell(&mut self.cx, streams::Event::Drain, now);
                }
                if self.connections.len() <= handle.0 {
                    self.connections.resize_with(handle.0 + 1, || None);
                }
                self.connections[handle.0] = Some(Box::new(connection));
                self.open += 1;
                self.handshakes += 1;
                self.shared.open.fetch_add(1, Ordering::Relaxed);
                self.list(handle.0);
            }
            Err(error) => {
                tracing::debug!("QUIC: {}", error.cause);
                session.closed(&mut self.cx, now);
                if let Some(transmit) = error.response {
                    self.answer(transmit, out);
                }
            }
        }
    }

    /// Sends what the library wrote to `scratch`, for a peer without a connection. It is lost if there is no room.
    fn answer(&mut self, transmit: Transmit, out: &mut Outbox) {
        let bytes = self.scratch.get(..transmit.size).unwrap_or_default();
        out.push(|buffer| {
            buffer.extend_from_slice(bytes);
            Some(Address {
                to: transmit.destination,
                local: transmit.src_ip,
                ecn: 0,
                segment: None,
            })
        });
    }

    /// Serves a connection that is listed.
    fn serve(&mut self, at: usize, out: &mut Outbox, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(at) else {
            return;
        };
        connection.is_listed = false;
        let was_connected = connection.is_connected;
        let generation = connection.generation;
        let (jobs, waiting, so_far) = (&mut self.jobs, &mut self.waiting, &mut self.jobs_so_far);
        let asked = &mut self.asked;
        let want = |wanted| match wanted {
            Wanted::Job(ticket, job) => {
                *so_far += 1;
                waiting.insert(*so_far, (at, generation, ticket));
                jobs.push_back((*so_far, job));
            }
            Wanted::Peer(ticket, ask) => asked.push_back(Asked::Of(owner(at, generation), ticket, ask)),
        };
        let served = connection.serve(&mut self.cx, out, &mut self.scratch, want, now);
        while let Some(event) = connection.quic.poll_endpoint_events() {
            if let Some(event) = self.quic.handle_event(ConnectionHandle(at), event) {
                connection.quic.handle_event(event);
            }
        }
        connection.settle(self.shared.limits.stream_window);
        self.handshakes -= usize::from(!was_connected && connection.is_connected);
        let is_over = connection.is_over();
        let next = connection.next_deadline().filter(|_| !is_over);
        if connection.deadline != next {
            if let Some(before) = std::mem::replace(&mut connection.deadline, next) {
                self.deadlines.remove(&(before, at));
            }
            if let Some(next) = next {
                self.deadlines.insert((next, at));
            }
        }
        if is_over {
            connection.end(&mut self.cx, now);
        }
        if connection.has_ended() && std::mem::take(&mut connection.has_asked) {
            self.asked.push_back(Asked::Over(owner(at, generation)));
        }
        if is_over {
            self.handshakes -= usize::from(!connection.is_connected);
            self.open -= 1;
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
            self.connections[at] = None;
        } else if let Served::More = served {
            self.list(at);
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some(&(due, at)) = self.deadlines.first()
            && due <= now
        {
            self.deadlines.pop_first();
            if let Some(Some(connection)) = self.connections.get_mut(at) {
                connection.deadline = None;
                connection.expire(&mut self.cx, now);
                self.list(at);
            }
        }
    }
}

/// What the connection at this place is called as the owner of its peers.
fn owner(at: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | at as u64
}

impl<V: Service> runtime::datagram::Endpoint for Endpoint<V> {
    type Job = JobOf<V::Session>;

    fn dialing(&self) -> Option<(Dialing, Arc<Budget>)> {
        let bounds = self.service.dialing()?;
        Some((bounds, Arc::clone(&self.budget)))
    }

    fn next_ask(&mut self) -> Option<Asked> {
        self.asked.pop_front()
    }

    fn peer(&mut self, owner: u64, ticket: Ticket, event: PeerEvent<'_>, now: Instant) {
        let (at, generation) = ((owner & u64::from(u32::MAX)) as usize, (owner >> 32) as u32);
        if let Some(Some(connection)) = self.connections.get_mut(at)
            && connection.generation == generation
        {
            connection.tell(&mut self.cx, streams::Event::Peer(ticket, event), now);
            self.list(at);
        }
    }

    fn turn(&mut self, now: Instant, wall: UnixTime) {
        self.budget.turn(now);
        self.rotation.turn(wall);
        self.cx.turn(now, wall);
        if self.budget.step() >= Step::Idle {
            self.close_idle(now);
        }
        if self.cx.has_new_bounds() {
            self.tell_all(now, || streams::Event::Reconsider);
        }
    }

    fn handle(&mut self, batch: &mut [Datagram<'_>], out: &mut Outbox, now: Instant) {
        self.take_tls();
        for datagram in batch {
            self.scratch.clear();
            let length = datagram.bytes.len();
            let event = self.quic.handle(
                to_standard(now),
                datagram.from,
                datagram.local,
                EcnCodepoint::from_bits(datagram.ecn),
                BytesMut::from(&*datagram.bytes),
                &mut self.scratch,
            );
            match event {
                Some(DatagramEvent::ConnectionEvent(at, event)) => self.event(at, event, length),
                Some(DatagramEvent::NewConnection(incoming)) => self.meet(incoming, out, now),
                Some(DatagramEvent::Response(transmit)) => {
                    // Of the answers without a connection, only this one has a short header.
                    let is_reset = self.scratch.first().is_some_and(|first| first & 0x80 == 0);
                    if !is_reset || self.resets.permits(transmit.destination.ip(), now) {
                        self.answer(transmit, out);
                    }
                }
                None => {}
            }
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

    fn is_timed(&self) -> bool {
        self.cx.is_timed()
    }

    fn rest(&mut self, now: Instant) {
        // How long datagrams waited in the socket is not known.
        self.cx.rest(now, Line::Taken);
    }

    fn next_job(&mut self) -> Option<(u64, Self::Job)> {
        self.jobs.pop_front()
    }

    fn done(&mut self, job: u64, output: Option<<Self::Job as Job>::Output>, now: Instant) {
        let Some((at, generation, ticket)) = self.waiting.remove(&job) else {
            return;
        };
        let Some(Some(connection)) = self.connections.get_mut(at) else {
            return;
        };
        if connection.generation != generation {
            return;
        }
        match output {
            Some(output) => connection.tell(&mut self.cx, streams::Event::Done(ticket, output), now),
            // The session cannot be told what it waits for.
            None => {
                tracing::error!("a job panicked: its HTTP/3 connection is closed; others stay open");
                connection.close(&mut self.cx, now);
            }
        }
        self.list(at);
    }

    fn deadline(&self) -> Option<Instant> {
        if !self.listed.is_empty() {
            return Some(Instant::ZERO);
        }
        let first = self.deadlines.first().map(|(due, _)| *due);
        [first, self.cx.wake()].into_iter().flatten().min()
    }

    fn owner(&self, datagram: &[u8]) -> Owner {
        identifiers::owner(datagram, self.shared.process)
    }

    fn drain(&mut self, _: &mut Outbox, now: Instant) {
        self.draining = true;
        self.tell_all(now, || streams::Event::Drain);
    }

    fn end(&mut self, now: Instant) {
        self.tell_all(now, || streams::Event::Cut);
    }

    fn is_idle(&self) -> bool {
        self.connections
            .iter()
            .flatten()
            .all(|connection| connection.is_idle())
    }
}
