//! The connections of one worker: who is accepted, when each is served, and what is sent.
//!
//! ```text
//!   datagram ─▶ quinn-proto ─┬─ of a connection ─▶ listed ─▶ served at the next poll
//!                            ├─ a new peer ──────▶ accepted, Retry, or dropped
//!                            └─ neither ─────────▶ answer: version negotiation, stateless reset
//! ```
//! At the connection limit of the service, a new peer gets Retry first: anyone can send a first packet in another's name. One that
//! has proved its address is accepted in place of the connection that has been idle longest here. Other workers keep theirs.

use crate::civil_time::CivilTime;
use crate::connection::{Connection, Served};
use crate::handshake::ServerTls;
use crate::identifiers::{self, Identifiers};
use crate::limits::{self, Limits};
use crate::recovery_log::RecoveryLog;
use crate::resets::Resets;
use crate::tape::{Begun, Recorder, Reel, Secrets};
use bytes::BytesMut;
use quinn_proto::{
    ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, EndpointConfig, Incoming, ServerConfig,
    Transmit, TransportConfig,
};
use runtime::Eldest;
use runtime::clock::{self, to_standard};
use runtime::datagram::{Address, Asked, Counts, Datagram, Outbox, Owner};
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
    civil: Arc<CivilTime>,
    process: u16,
    open: AtomicU64,
    recorder: Option<Arc<dyn Recorder>>,
}

impl Shared {
    /// For endpoints that use the TLS of `tls` as it is when a peer arrives, and offer these protocols (ALPN). They move the
    /// keys of `tickets`, with which that TLS seals, on with the time.
    pub fn new(tls: Slot, tickets: Ratchet, protocols: &[&[u8]], limits: Limits) -> Shared {
        // Its key of stateless resets is that of all workers (RFC 9000 section 10.3.2). `Resets` bounds how many are sent: the
        // library's own bound is one for all receivers.
        let endpoint = limits::endpoint(Duration::ZERO);
        Shared {
            tls,
            tickets,
            protocols: protocols.iter().map(|name| name.to_vec()).collect(),
            limits,
            endpoint: Arc::new(endpoint),
            lasting: OnceLock::new(),
            civil: Arc::default(),
            process: 0,
            open: AtomicU64::new(0),
            recorder: None,
        }
    }

    /// For endpoints whose connections get logs of their packets, as far as this recorder begins them.
    #[must_use]
    pub fn recorded_by(self, recorder: Option<Arc<dyn Recorder>>) -> Shared {
        Shared { recorder, ..self }
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

    /// The library's configuration for these certificates, of connections that are dropped after this time without a packet. Early
    /// data stays off: a request in it can be replayed.
    fn configured(&self, tls: &rustls::ServerConfig, idle_time: Duration) -> Result<ServerConfig, String> {
        let mut config = self.configured_with(tls.clone())?;
        if idle_time != self.limits.idle_time {
            config.transport_config(Arc::new(self.transport(idle_time)));
        }
        Ok(config)
    }

    /// The library's configuration of a connection that is dropped after this time without a packet.
    fn transport(&self, idle_time: Duration) -> TransportConfig {
        let limits = Limits {
            idle_time,
            ..self.limits
        };
        limits.transport()
    }

    /// See [`Shared::configured`].
    fn configured_with(&self, mut tls: rustls::ServerConfig) -> Result<ServerConfig, String> {
        tls.alpn_protocols.clone_from(&self.protocols);
        tls.max_early_data_size = 0;
        let crypto: Arc<dyn quinn_proto::crypto::ServerConfig> = Arc::new(ServerTls::new(tls)?);
        let lasting = self.lasting.get_or_init(|| {
            let mut config = ServerConfig::with_crypto(Arc::clone(&crypto));
            config.transport_config(Arc::new(self.limits.transport()));
            self.limits.bound_incoming(&mut config);
            config.time_source(Arc::clone(&self.civil) as _);
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
        self.configured(&self.tls.config(), self.limits.idle_time)
            .map(drop)
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
    /// Time without a packet after which new connections are dropped.
    idle_time: Duration,
    rotation: Rotation,
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
    /// Finds the connection to close at the connection limit, by its place and generation.
    eldest: Eldest<(usize, u32)>,
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
            idle_time: shared.limits.idle_time,
            shared,
            service,
            quic,
            tls: None,
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
            eldest: Eldest::default(),
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
        self.configure(tls);
    }

    /// Uses the idle timeout of the service for new peers, which may have changed with a reload.
    fn take_idle_time(&mut self) {
        let silence_max = self.service.silence_max(&self.cx);
        let idle_time = silence_max.unwrap_or(self.shared.limits.idle_time);
        if idle_time == self.idle_time {
            return;
        }
        self.idle_time = idle_time;
        let tls = self.tls.as_ref().map(|(tls, _)| Arc::clone(tls));
        if let Some(tls) = tls {
            self.configure(tls);
        }
    }

    /// Uses this TLS for new peers.
    fn configure(&mut self, tls: Arc<rustls::ServerConfig>) {
        match self.shared.configured(&tls, self.idle_time) {
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

    /// Memory is nearly used up: connections that are owed nothing go, some at a time, and those that the service keeps.
    #[cold]
    fn save_memory(&mut self, now: Instant) {
        self.service.close_idle();
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

    /// Closes the connection that has been idle longest, among those sampled, for a new one.
    #[cold]
    fn make_room(&mut self, out: &mut Outbox, now: Instant) {
        let slots = u32::try_from(self.connections.len()).unwrap_or(u32::MAX);
        let (connections, cx) = (&self.connections, &self.cx);
        let found = self.eldest.find_settled(slots, now, |slot| {
            let at = slot as usize;
            let connection = connections.get(at)?.as_deref()?;
            let since = connection.idle_since(cx)?;
            Some(((at, connection.generation), since))
        });
        let Some((at, _)) = found else { return };
        if let Some(Some(connection)) = self.connections.get_mut(at) {
            connection.tell(&mut self.cx, streams::Event::GiveWay(Need::Place), now);
        }
        // Its last words leave first. With the close, its session ends, and the service has a place.
        self.serve(at, out, now);
        if let Some(Some(connection)) = self.connections.get_mut(at) {
            connection.expire(&mut self.cx, now);
        }
        self.serve(at, out, now);
        // The library appends its answer to a new peer.
        self.scratch.clear();
    }

    /// A datagram has arrived for a connection.
    fn event(&mut self, at: ConnectionHandle, event: ConnectionEvent, datagram: &[u8], now: Instant) {
        if let Some(Some(connection)) = self.connections.get_mut(at.0) {
            connection.unread.arrived(datagram.len());
            connection.received(datagram, now);
            connection.quic.handle_event(event);
            self.list(at.0);
        }
    }

    /// The recording of a peer that is about to be accepted, and the configuration whose secrets and losses it gets. `None`: it has
    /// no log.
    #[cold]
    fn begin_log(
        &self,
        recorder: &dyn Recorder,
        incoming: &Incoming,
        now: Instant,
    ) -> Option<(Reel, Arc<ServerConfig>)> {
        let (tls, _) = self.tls.as_ref()?;
        let secrets = Arc::new(Secrets::before(Arc::clone(&tls.key_log)));
        let begun = Begun {
            original_id: incoming.orig_dst_cid().to_vec(),
            peer: incoming.remote_address(),
            local: incoming.local_ip(),
            at: now,
            secrets: Arc::clone(&secrets),
        };
        let log = recorder.begin(&begun)?;
        let mut tls = (**tls).clone();
        tls.key_log = secrets;
        // The same TLS works already without a log.
        let mut config = self.shared.configured_with(tls).ok()?;
        let (recovery, stream) = RecoveryLog::begin(to_standard(now));
        let mut transport = self.shared.transport(self.idle_time);
        transport.qlog_stream(stream);
        config.transport_config(Arc::new(transport));
        Some((Reel::new(log, recovery), Arc::new(config)))
    }

    /// A peer that is new, with its datagram.
    fn meet(&mut self, incoming: Incoming, datagram: &[u8], out: &mut Outbox, now: Instant) {
        let limits = &self.shared.limits;
        let is_calm = self.handshakes < limits.handshakes_calm;
        // One that comes again after Retry has begun its handshake here: whoever accepts new peers cannot read its token.
        if self.draining && incoming.may_retry() {
            let transmit = self.quic.refuse(incoming, &mut self.scratch);
            return self.answer(transmit, out);
        }
        let peer = incoming.remote_address();
        let is_full = self.service.is_full(&self.cx, peer);
        if !incoming.remote_address_validated() && (is_full || !is_calm) {
            match self.quic.retry(incoming, &mut self.scratch) {
                Ok(transmit) => {
                    self.service.retried(&mut self.cx);
                    self.answer(transmit, out);
                }
                Err(error) => self.quic.ignore(error.into_incoming()),
            }
            return;
        }
        if self.handshakes >= limits.handshakes_max {
            self.service.crowded(&mut self.cx);
            return self.quic.ignore(incoming);
        }
        if is_full {
            self.make_room(out, now);
        }
        let Some(mut session) = self.service.accept(&mut self.cx, peer, now) else {
            return self.quic.ignore(incoming);
        };
        self.take_idle_time();
        let recorder = self.shared.recorder.as_deref();
        let (reel, config) = recorder
            .and_then(|recorder| self.begin_log(recorder, &incoming, now))
            .unzip();
        // That in force now: the library would use the one in force when the datagram arrived.
        let config = config.or_else(|| self.tls.as_ref().map(|(_, config)| Arc::clone(config)));
        let accepted = self
            .quic
            .accept(incoming, to_standard(now), &mut self.scratch, config);
        match accepted {
            Ok((handle, mut quic)) => {
                if self.service.leaves_input() {
                    quic.set_receive_window(self.shared.limits.window_of_all_streams());
                }
                self.generations = self.generations.wrapping_add(1);
                let streams_max = self.shared.limits.streams_max;
                let held = self.budget.holding(0);
                let mut connection = Connection::new(quic, session, self.generations, streams_max, held);
                connection.reel = reel.map(Box::new);
                connection.received(datagram, now);
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
                local: transmit.src_ip,
                ..Address::to(transmit.destination)
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
        connection.count(now);
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

/// An endpoint is dropped with connections only if its worker has died, or at the very end.
impl<V: Service> Drop for Endpoint<V> {
    fn drop(&mut self) {
        let now = clock::now();
        for connection in self.connections.iter_mut().flatten() {
            connection.forget(&mut self.cx, now);
        }
        self.shared.open.fetch_sub(self.open as u64, Ordering::Relaxed);
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

    fn close_idle(&self) -> bool {
        self.service.close_idle()
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

    fn counted(&mut self, counts: &Counts) {
        self.service.counted(&mut self.cx, counts);
    }

    fn turn(&mut self, now: Instant, wall: UnixTime) {
        self.budget.turn(now);
        self.rotation.turn(wall);
        self.shared.civil.turn(wall);
        self.cx.turn(now, wall);
        if self.budget.step() >= Step::Idle {
            self.save_memory(now);
        }
        if self.cx.has_new_bounds() {
            self.tell_all(now, || streams::Event::Reconsider);
        }
    }

    fn handle(&mut self, batch: &mut [Datagram<'_>], out: &mut Outbox, now: Instant) {
        self.take_tls();
        for datagram in batch {
            self.scratch.clear();
            let event = self.quic.handle(
                to_standard(now),
                datagram.from,
                datagram.local,
                EcnCodepoint::from_bits(datagram.ecn),
                BytesMut::from(&*datagram.bytes),
                &mut self.scratch,
            );
            match event {
                Some(DatagramEvent::ConnectionEvent(at, event)) => self.event(at, event, datagram.bytes, now),
                Some(DatagramEvent::NewConnection(incoming)) => self.meet(incoming, datagram.bytes, out, now),
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
