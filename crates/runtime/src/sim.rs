//! A server in memory, in virtual time: the same worker that drives sockets drives what a test types.
//!
//! Decides what a network would: when bytes arrive, in which pieces, how much the peer's window takes,
//! who closes first. Deterministic: one thread, no clock, no socket. Nothing here knows the protocol.
//!
//! ```
//! # use runtime::{Action, Event, NoJob, Service, Session, Tx, Unshared, sim::Sim};
//! # use units::{Duration, Instant};
//! # struct Echo; struct Typed(Vec<u8>); type Cx = Unshared<NoJob>;
//! # impl Session for Typed { type Cx = Cx;
//! #   fn handle(&mut self, _: &mut Cx, e: Event<'_, NoJob>, tx: &mut Tx, _: Instant) { if let Event::Bytes(b) = e { tx.head.extend_from_slice(b) } }
//! #   fn poll(&mut self, _: &mut Cx, _: &mut Tx, _: Instant) -> Action<NoJob> { Action::Read }
//! #   fn deadline(&self) -> Option<Instant> { None }
//! #   fn closed(&mut self, _: &mut Cx, _: Instant) {} }
//! # impl Service for Echo { type Session = Typed; fn context(&self, _: usize) -> Cx { Cx::default() }
//! #   fn accept(&self, _: &mut Cx, _: &runtime::Accepted, _: Instant) -> Option<Typed> { Some(Typed(Vec::new())) }
//! #   fn grace(&self) -> Duration { Duration::ZERO } }
//! let mut sim = Sim::new(Echo);
//! let client = sim.connect_local();
//! sim.send(client, b"hello");
//! assert_eq!(sim.take_received(client), b"hello");
//! sim.finish(client);
//! assert!(sim.is_closed(client));
//! ```

mod network;

use crate::concurrency::blocking_pool::Hands;
use crate::concurrency::shared_state::{Control, Counters, SharedState};
use crate::concurrency::worker::{Bounds, Worker};
use crate::peer::Upstream;
use crate::session::{Service, Session};
use crate::strategy::Manner;
use crossbeam_utils::CachePadded;
pub use network::Client;
use network::Network;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use units::{Duration, Instant, UnixTime};

/// Where and when jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    /// At once and to completion, as in a blocking strategy.
    AtOnce,
    /// `try_now` runs at once; other jobs wait for [`Sim::run_jobs`]. As in an event loop.
    AsLoop,
    /// All jobs wait for [`Sim::run_jobs`].
    Held,
}

/// A service, its clients and their network.
pub struct Sim<V: Service> {
    worker: Worker<V, Network>,
    control: Arc<Control>,
    jobs: Jobs,
}

impl<V: Service> Sim<V> {
    /// A simulation at virtual time zero, without clients, with jobs run [`Jobs::AtOnce`].
    pub fn new(service: V) -> Sim<V> {
        Sim::with_shared(Arc::new(service))
    }

    /// As [`Sim::new`], for a service that the test also inspects.
    pub fn with_shared(service: Arc<V>) -> Sim<V> {
        let control = Arc::new(Control::default());
        let bounds = Bounds {
            connections_max: 10_000,
            linger_bytes_max: 256 << 10,
            tick: Duration::from_millis(1),
            manner: Manner::default(),
        };
        let worker = Worker::new(
            0,
            service,
            Network::new(),
            Hands::Held {
                pieces: VecDeque::new(),
                try_first: true,
            },
            bounds,
            Arc::new(SharedState::default()),
            Arc::new(CachePadded::new(Counters::default())),
            Arc::clone(&control),
            1,
            Instant::ZERO,
        );
        Sim {
            worker,
            control,
            jobs: Jobs::AtOnce,
        }
    }

    /// Chooses how jobs run from now on.
    pub fn set_jobs(&mut self, jobs: Jobs) {
        self.jobs = jobs;
        if let Hands::Held { try_first, .. } = &mut self.worker.hands {
            *try_first = jobs != Jobs::Held;
        }
    }

    /// Sets the civil time at virtual time zero. Default: 2026-01-01T00:00:00Z.
    pub fn set_wall(&mut self, at_zero: UnixTime) {
        self.worker.backend.wall_at_zero = at_zero;
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.worker.backend.now
    }

    /// The context shared by the sessions.
    pub fn context(&mut self) -> &mut <V::Session as Session>::Cx {
        self.worker.context()
    }

    /// Number of connections open at the server.
    pub fn open(&self) -> usize {
        self.worker.open()
    }

    /// Connects a client from `peer`, which reads everything it is sent.
    pub fn connect(&mut self, peer: SocketAddr) -> Client {
        let client = self.worker.backend.connect(peer);
        self.settle();
        client
    }

    /// Connects a client from 127.0.0.1.
    pub fn connect_local(&mut self) -> Client {
        self.connect(SocketAddr::from(([127, 0, 0, 1], 40_000)))
    }

    /// The next connection that a session asked for and this has not returned before. It stays unanswered until
    /// [`Sim::answer`] or [`Sim::refuse`]; then the far end is played as that of a client.
    pub fn next_dial(&mut self) -> Option<(Client, Upstream)> {
        self.worker.backend.next_dial()
    }

    /// Opens a connection that a session asked for. Without effect if the session has given it up.
    pub fn answer(&mut self, peer: Client) {
        self.worker.backend.answer(peer, Ok(()));
        self.settle();
    }

    /// Refuses a connection that a session asked for, with this errno. Without effect if the session has given it up.
    pub fn refuse(&mut self, peer: Client, errno: i32) {
        self.worker.backend.answer(peer, Err(errno));
        self.settle();
    }

    /// Number of pieces sent by the client ([`Sim::queue`]) that the session has not taken.
    pub fn unreceived(&self, client: Client) -> usize {
        self.worker.backend.unreceived(client)
    }

    /// Sends these bytes from the client; they arrive as one piece, and all consequences happen before the call
    /// returns. To split input, call it more than once.
    pub fn send(&mut self, client: Client, bytes: &[u8]) {
        self.queue(client, bytes);
        self.settle();
    }

    /// Queues these bytes at the client without delivering them. Everything queued arrives together with the next other
    /// call, piece by piece.
    pub fn queue(&mut self, client: Client, bytes: &[u8]) {
        for piece in bytes.chunks(crate::io::Buf::CAPACITY) {
            self.worker
                .backend
                .arrive(client, network::Piece::Bytes(piece.to_vec()));
        }
    }

    /// Closes the client's sending half; the client keeps reading.
    pub fn finish(&mut self, client: Client) {
        self.queue_finish(client);
        self.settle();
    }

    /// As [`Sim::finish`], with the delivery of [`Sim::queue`].
    pub fn queue_finish(&mut self, client: Client) {
        self.worker.backend.arrive(client, network::Piece::Eof);
    }

    /// Resets the connection from the client: both halves are gone at once.
    pub fn reset(&mut self, client: Client) {
        self.queue_reset(client);
        self.settle();
    }

    /// As [`Sim::reset`], with the delivery of [`Sim::queue`].
    pub fn queue_reset(&mut self, client: Client) {
        self.worker.backend.reset(client);
    }

    /// Lets the client take `bytes` more and then stop reading: the server's sends stall.
    pub fn stop_reading_after(&mut self, client: Client, bytes: usize) {
        self.worker.backend.set_room(client, bytes);
        self.settle();
    }

    /// The client acknowledges this many bytes sent earlier without making room for more, because a kernel accepts more
    /// only when a good part of its send buffer is free. Without this call, the simulated kernel reports no
    /// acknowledgments.
    pub fn acknowledge(&mut self, client: Client, bytes: u64) {
        self.worker.backend.acknowledge(client, bytes);
    }

    /// The client reads everything again.
    pub fn read_on(&mut self, client: Client) {
        self.worker.backend.set_room(client, usize::MAX);
        self.settle();
    }

    /// All bytes the client has received and not yet taken.
    pub fn received(&self, client: Client) -> &[u8] {
        self.worker.backend.received(client)
    }

    /// Takes all bytes the client has received and not yet taken.
    pub fn take_received(&mut self, client: Client) -> Vec<u8> {
        self.worker.backend.take_received(client)
    }

    /// Whether the server has closed its sending half or the connection.
    pub fn is_finished(&self, client: Client) -> bool {
        self.worker.backend.is_finished(client)
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&self, client: Client) -> bool {
        self.worker.backend.is_closed(client)
    }

    /// Whether the server closed with unread input or with output the client did not take. A kernel then sends a reset,
    /// which may destroy the last response.
    pub fn was_reset(&self, client: Client) -> bool {
        self.worker.backend.was_reset(client)
    }

    /// Number of jobs that wait to run.
    pub fn jobs_waiting(&self) -> usize {
        match &self.worker.hands {
            Hands::Held { pieces, .. } => pieces.len(),
            _ => 0,
        }
    }

    /// Runs all waiting jobs and those that follow from them; returns their number.
    pub fn run_jobs(&mut self) -> usize {
        let mut count = 0;
        while self.run_job() {
            count += 1;
        }
        count
    }

    /// Runs the job that has waited longest; returns whether there was one.
    pub fn run_job(&mut self) -> bool {
        let ran = self.run_one();
        self.settle();
        ran
    }

    fn run_one(&mut self) -> bool {
        let Hands::Held { pieces, .. } = &mut self.worker.hands else {
            return false;
        };
        let Some((id, work)) = pieces.pop_front() else {
            return false;
        };
        let finished = work.run(id);
        self.worker.finish(finished);
        true
    }

    /// Advances time; everything due meanwhile happens at its instant.
    pub fn advance(&mut self, by: Duration) {
        let target = self.now() + by;
        self.settle();
        while let Some(at) = self.worker.next_wake()
            && at <= target
        {
            self.worker.backend.now = self.now().max(at);
            self.settle();
        }
        self.worker.backend.now = target;
        self.settle();
    }

    /// Starts a drain with this grace period.
    pub fn drain(&mut self, grace: Duration) {
        self.control.drain(self.now() + grace);
        self.settle();
    }

    /// Whether the drain has ended.
    pub fn is_drained(&self) -> bool {
        self.worker.is_drained()
    }

    /// Runs everything that is due now.
    pub fn settle(&mut self) {
        loop {
            // The simulated back end never blocks and cannot fail.
            let _ = self.worker.turn(Some(Instant::ZERO));
            let more = self.worker.has_more() || self.worker.backend.has_news();
            if !more && (self.jobs != Jobs::AtOnce || !self.run_one()) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod pressed;
#[cfg(test)]
mod tests;
