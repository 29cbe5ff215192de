//! Drives endpoints over real sockets: a thread for each, which receives in batches and sends with segmentation.
//!
//! ```text
//!   wait for: datagrams │ room to send │ the endpoint's deadline │ the bell │ other hosts
//!     ├─ receive a batch ─▶ owner: mine ─▶ handle        another worker's ─▶ its mailbox, and ring its bell
//!     ├─ mailbox ─▶ handle
//!     ├─ jobs: tried here, else run by a helper thread, whose outputs ─▶ done
//!     ├─ the endpoint's connections to other hosts ─▶ peer
//!     └─ poll ─▶ send until the socket takes no more
//! ```
//! Decides which worker gets a datagram, and what is given up when a bound is reached: a datagram may be lost anywhere, so it
//! is counted and dropped. Knows no protocol.

use super::upstreams::Upstreams;
use super::{Datagram, Endpoint, Outbox, Owner};
use crate::bell::Bell;
use crate::clock;
use crate::concurrency::blocking_pool::{BlockingPool, Finished, Hand, Inbox, JobId, Work};
use crate::session::{Job, Ticket};
use crate::slot::Id;
use crate::sys::{Arrivals, prepare_datagrams, send_datagrams};
use core::fmt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use units::{Duration, Instant};

/// Batches received before output and other workers have their turn.
const BATCHES_MAX: u32 = 8;
/// Calls of `poll` before datagrams that arrived have their turn.
const POLLS_MAX: u32 = 16;

/// Bytes that a socket keeps for a worker that is busy: some 3,000 packets. What does not fit is lost, and its sender waits a
/// second or more before it sends again, if it was a connection's first.
pub const RECEIVE_BUFFER: usize = 4 << 20;

/// How long a worker goes on at its end for messages to its peers.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Jobs are told apart by their numbers alone.
const NOBODY: Id = Id {
    index: 0,
    generation: 0,
};

/// What bounds a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of output that wait for the socket. Beyond that the endpoint is not asked for more.
    pub out_bytes_max: usize,
    /// Datagrams that wait in a worker's mailbox. Further ones are dropped.
    pub mailbox_max: usize,
    /// Threads that run jobs, for all workers together. They start when needed and end when idle. The endpoints bound the
    /// number of jobs.
    pub helpers_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            out_bytes_max: 256 << 10,
            mailbox_max: 4_096,
            helpers_max: 8,
        }
    }
}

/// What all workers have counted since they started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams received.
    pub received: u64,
    /// Of these, handed to another worker.
    pub forwarded: u64,
    /// Of these, dropped because that worker's mailbox was full.
    pub dropped: u64,
    /// Payloads sent; with segmentation each may be several datagrams.
    pub sent: u64,
    /// Payloads that the system refused for good: too long for the path, or no route.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Counters {
    received: AtomicU64,
    forwarded: AtomicU64,
    dropped: AtomicU64,
    sent: AtomicU64,
    refused: AtomicU64,
}

/// Datagrams that other workers received.
#[derive(Debug)]
struct Mailbox {
    waiting: Mutex<VecDeque<Forwarded>>,
    bell: Arc<Bell>,
}

#[derive(Debug)]
struct Forwarded {
    bytes: Vec<u8>,
    from: SocketAddr,
    ecn: u8,
}

impl Mailbox {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Forwarded>> {
        // A queue is whole whenever a thread panics.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was room.
    fn put(&self, datagram: Forwarded, most: usize) -> bool {
        let mut waiting = self.waiting();
        if waiting.len() >= most {
            return false;
        }
        let is_first = waiting.is_empty();
        waiting.push_back(datagram);
        drop(waiting);
        if is_first {
            self.bell.ring();
        }
        true
    }
}

/// What workers share.
#[derive(Debug)]
struct Shared {
    mailboxes: Vec<Mailbox>,
    counters: Counters,
    limits: Limits,
    draining: AtomicBool,
    /// Nanoseconds of the instant at which a drain ends.
    until: AtomicU64,
    /// Whether the kernel sends several datagrams at once; until it refuses.
    segments: AtomicBool,
}

/// Asks a [`Driver`] on another thread to stop.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Shared>);

impl Stop {
    /// Has the endpoint drained, and the driver stop half a second later at the latest. Returns at once.
    pub fn stop(&self) {
        self.0.drain(clock::now());
    }
}

impl Shared {
    fn new(workers: usize, limits: Limits) -> io::Result<Shared> {
        let mailbox = |_| {
            Ok(Mailbox {
                waiting: Mutex::default(),
                bell: Arc::new(Bell::new()?),
            })
        };
        Ok(Shared {
            mailboxes: (0..workers).map(mailbox).collect::<io::Result<_>>()?,
            counters: Counters::default(),
            limits,
            draining: AtomicBool::new(false),
            until: AtomicU64::new(0),
            segments: AtomicBool::new(true),
        })
    }

    fn drain(&self, until: Instant) {
        self.until.store(until.as_nanos(), Ordering::Relaxed);
        self.draining.store(true, Ordering::Release);
        for mailbox in &self.mailboxes {
            mailbox.bell.ring();
        }
    }
}

/// Drives one endpoint over a socket, on the thread that runs it.
pub struct Driver<E: Endpoint>(Worker<E>);

impl<E: Endpoint> fmt::Debug for Driver<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").finish_non_exhaustive()
    }
}

impl<E: Endpoint> Driver<E> {
    /// A driver of `endpoint` over `socket`.
    ///
    /// # Errors
    /// What the system says to the socket and a descriptor.
    pub fn new(socket: UdpSocket, endpoint: E, limits: Limits) -> io::Result<Driver<E>> {
        let shared = Arc::new(Shared::new(1, limits)?);
        let pool = Arc::new(BlockingPool::growing(limits.helpers_max));
        Worker::new(0, socket, endpoint, shared, &pool).map(Driver)
    }

    /// What stops it from another thread.
    pub fn stop(&self) -> Stop {
        Stop(Arc::clone(&self.0.shared))
    }

    /// Drives the endpoint until it [has ended](Endpoint::has_ended), or was asked to stop and is idle.
    ///
    /// # Errors
    /// What the system says to the socket.
    pub fn run(mut self) -> io::Result<E> {
        self.0.run()?;
        Ok(self.0.endpoint)
    }
}

/// Running workers. Dropped, they go on; they end by [`Handle::drain`] or [`Handle::stop`].
#[derive(Debug)]
pub struct Handle {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Handle {
    /// Tells endpoints to refuse new peers and gives them up to `grace` for what they owe. Returns at once.
    pub fn drain(&self, grace: Duration) {
        self.shared.drain(clock::now() + grace);
    }

    /// Ends all workers now.
    pub fn stop(&self) {
        self.drain(Duration::ZERO);
    }

    /// Whether all workers have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.shared.counters;
        Counts {
            received: read(&counters.received),
            forwarded: read(&counters.forwarded),
            dropped: read(&counters.dropped),
            sent: read(&counters.sent),
            refused: read(&counters.refused),
        }
    }

    /// Waits until all workers have ended.
    ///
    /// # Errors
    /// Why the first of them failed, if one did.
    pub fn join(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
            result = result.and(ended);
        }
        result
    }
}

/// Sockets for so many workers at one address: the kernel spreads peers over them by address and port
/// (`SO_REUSEPORT`, socket(7)). Port 0: one that the system chooses, the same for all.
///
/// # Errors
/// What the system says to the address.
pub fn bind(address: SocketAddr, workers: usize) -> io::Result<Vec<UdpSocket>> {
    let mut address = address;
    let mut sockets = Vec::new();
    for _ in 0..workers.max(1) {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if workers > 1 {
            socket.set_reuse_port(true)?;
        }
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // The system gives less if its limit is lower; the caller can ask.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
        socket.bind(&address.into())?;
        let socket = UdpSocket::from(socket);
        address = socket.local_addr()?;
        sockets.push(socket);
    }
    Ok(sockets)
}

/// Bytes that a socket really keeps: less than [`RECEIVE_BUFFER`] if `net.core.rmem_max` is lower (socket(7)).
///
/// # Errors
/// What the system says.
pub fn receive_buffer(socket: &UdpSocket) -> io::Result<usize> {
    // The kernel doubles what was asked for, for its own bookkeeping.
    Ok(socket2::SockRef::from(socket).recv_buffer_size()? / 2)
}

/// Starts a thread for each socket, with the endpoint that `make` makes for that worker's number.
///
/// # Errors
/// What the system says to threads and descriptors.
pub fn serve<E: Endpoint>(
    sockets: Vec<UdpSocket>,
    make: impl Fn(usize) -> E + Send + Sync + 'static,
    limits: Limits,
) -> io::Result<Handle> {
    let shared = Arc::new(Shared::new(sockets.len(), limits)?);
    let make = Arc::new(make);
    let pool = Arc::new(BlockingPool::growing(limits.helpers_max));
    let mut handle = Handle {
        shared,
        threads: Vec::new(),
    };
    for (number, socket) in sockets.into_iter().enumerate() {
        let (shared, make, pool) = (Arc::clone(&handle.shared), Arc::clone(&make), Arc::clone(&pool));
        let thread = std::thread::Builder::new()
            .name(format!("weir-udp-{number}"))
            .spawn(move || Worker::new(number, socket, make(number), shared, &pool)?.run());
        match thread {
            Ok(thread) => handle.threads.push(thread),
            Err(error) => {
                handle.stop();
                return Err(error);
            }
        }
    }
    Ok(handle)
}

struct Worker<E: Endpoint> {
    number: usize,
    socket: UdpSocket,
    endpoint: E,
    out: Outbox,
    shared: Arc<Shared>,
    /// When it ends after the endpoint was told so.
    ends: Option<Instant>,
    hand: Hand<E::Job>,
    finished: Vec<Finished<<E::Job as Job>::Output>>,
    /// Connections that the endpoint has opened, if it does.
    upstreams: Option<Upstreams>,
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl<E: Endpoint> Worker<E> {
    fn new(
        number: usize,
        socket: UdpSocket,
        endpoint: E,
        shared: Arc<Shared>,
        pool: &Arc<BlockingPool<E::Job>>,
    ) -> io::Result<Worker<E>> {
        socket.set_nonblocking(true)?;
        prepare_datagrams(socket.as_fd());
        let bell = Arc::clone(&shared.mailboxes[number].bell);
        let dialing = endpoint.dialing();
        let upstreams = dialing.map(|dialing| Upstreams::new(dialing, clock::now()));
        Ok(Worker {
            upstreams: upstreams.transpose()?,
            number,
            socket,
            endpoint,
            out: Outbox::new(shared.limits.out_bytes_max),
            shared,
            ends: None,
            hand: pool.hand(Inbox::new(move || bell.ring())),
            finished: Vec::new(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut arrivals = Arrivals::new();
        let (mut has_more, mut was_told) = (false, false);
        loop {
            let has_input = self.wait(has_more)?;
            let now = clock::now();
            self.shared.mailboxes[self.number].bell.silence();
            self.endpoint.turn(now, clock::wall());
            if self.shared.draining.load(Ordering::Acquire) {
                if !was_told {
                    was_told = true;
                    self.endpoint.drain(&mut self.out, now);
                    if let Some(upstreams) = &mut self.upstreams {
                        upstreams.drain(now);
                    }
                }
                if self.is_done() {
                    return Ok(());
                }
                match self.ends {
                    Some(ends) if now >= ends => return Ok(()),
                    Some(_) => {}
                    None if now.as_nanos() >= self.shared.until.load(Ordering::Relaxed) => {
                        self.ends = Some(now + LAST_WORDS);
                        self.endpoint.end(now);
                    }
                    None => {}
                }
            }
            self.read_mail(now);
            let mut unread = has_input;
            for _ in 0..BATCHES_MAX {
                if !unread {
                    break;
                }
                unread = self.receive(&mut arrivals, now)?;
            }
            self.take_back(now);
            if let Some(upstreams) = &mut self.upstreams {
                upstreams.turn(&mut self.endpoint, now)?;
            }
            has_more = self.write(now)? || unread || (was_told && self.is_done());
            if self.endpoint.has_ended() && self.out.is_empty() {
                return Ok(());
            }
            if self.endpoint.is_timed() {
                self.endpoint.rest(clock::now());
            }
        }
    }

    /// Whether nothing is owed to any peer.
    fn is_done(&self) -> bool {
        self.endpoint.is_idle() && self.out.is_empty()
    }

    /// Tells the endpoint which jobs have finished.
    fn take_back(&mut self, now: Instant) {
        self.hand.take_finished(&mut self.finished);
        for finished in self.finished.drain(..) {
            match finished {
                Finished::Job(_, id, output) => self.endpoint.done(id.number, Some(output), now),
                Finished::Panicked(_, id) => self.endpoint.done(id.number, None, now),
                Finished::Warm(..) => debug_assert!(false, "no file is sent here"),
            }
        }
    }

    /// Runs what needs not block, and gives the rest to the helpers. Whether a job has finished.
    fn start_jobs(&mut self, now: Instant) -> bool {
        let mut has_finished = false;
        while let Some((number, job)) = self.endpoint.next_job() {
            let output = match catch_unwind(AssertUnwindSafe(|| job.try_now())) {
                Ok(Ok(output)) => Some(output),
                Ok(Err(job)) => {
                    let ticket = Ticket(0);
                    if self
                        .hand
                        .try_give(NOBODY, Work::Job(JobId { number, ticket }, job))
                    {
                        continue;
                    }
                    None
                }
                Err(_) => None,
            };
            self.endpoint.done(number, output, now);
            has_finished = true;
        }
        has_finished
    }

    /// Carries out what the endpoint asks for its connections; whether it was told anything.
    fn carry_out(&mut self, now: Instant) -> bool {
        let upstreams = self.upstreams.as_mut();
        upstreams.is_some_and(|upstreams| upstreams.carry_out(&mut self.endpoint, now))
    }

    /// Waits for something to do; whether datagrams have arrived.
    fn wait(&self, has_more: bool) -> io::Result<bool> {
        let now = clock::now();
        let drained = match self.shared.draining.load(Ordering::Acquire) {
            true if self.ends.is_some() => self.ends,
            true => Some(Instant::from_nanos(self.shared.until.load(Ordering::Relaxed))),
            false => None,
        };
        // One that is due and has no room would be asked again and again.
        let due = self.endpoint.deadline().filter(|_| self.out.has_room());
        let of_upstreams = self.upstreams.as_ref().and_then(Upstreams::next);
        let next = [due, drained, of_upstreams].into_iter().flatten().min();
        let span = match has_more {
            true => Some(Duration::ZERO),
            false => next.map(|at| at.since(now)),
        };
        let timeout = span.map(|span| Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(span.subsec_nanos()),
        });
        let wanted = match self.out.is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        };
        let bell = &self.shared.mailboxes[self.number].bell;
        let bell_fd = bell.fd().as_fd();
        // Without upstreams, the last place is not looked at.
        let upstreams = self.upstreams.as_ref().map_or(bell_fd, Upstreams::fd);
        let mut fds = [
            PollFd::new(&self.socket, wanted),
            PollFd::from_borrowed_fd(bell_fd, PollFlags::IN),
            PollFd::from_borrowed_fd(upstreams, PollFlags::IN),
        ];
        let watched = 2 + usize::from(self.upstreams.is_some());
        match poll(&mut fds[..watched], timeout.as_ref()) {
            Ok(_) => Ok(fds[0].revents().intersects(PollFlags::IN | PollFlags::ERR)),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether more may have arrived.
    fn receive(&mut self, arrivals: &mut Arrivals, now: Instant) -> io::Result<bool> {
        let may_be_more = arrivals.receive(self.socket.as_fd())?;
        if arrivals.is_refused() {
            self.endpoint.refused(now);
        }
        let counters = &self.shared.counters;
        let mut batch: Vec<Datagram<'_>> = Vec::new();
        for (bytes, from, ecn) in arrivals.datagrams() {
            count(&counters.received, 1);
            match self.endpoint.owner(bytes) {
                Owner::Worker(other) if other != self.number && other < self.shared.mailboxes.len() => {
                    count(&counters.forwarded, 1);
                    let bytes = bytes.to_vec();
                    let datagram = Forwarded { bytes, from, ecn };
                    if !self.shared.mailboxes[other].put(datagram, self.shared.limits.mailbox_max) {
                        count(&counters.dropped, 1);
                    }
                }
                Owner::Mine | Owner::Anyone | Owner::Worker(_) => batch.push(Datagram { bytes, from, ecn }),
            }
        }
        if !batch.is_empty() {
            self.endpoint.handle(&mut batch, &mut self.out, now);
        }
        Ok(may_be_more)
    }

    fn read_mail(&mut self, now: Instant) {
        let mut mail = std::mem::take(&mut *self.shared.mailboxes[self.number].waiting());
        let mut batch: Vec<Datagram<'_>> = mail
            .iter_mut()
            .map(|one| Datagram {
                bytes: &mut one.bytes,
                from: one.from,
                ecn: one.ecn,
            })
            .collect();
        if !batch.is_empty() {
            self.endpoint.handle(&mut batch, &mut self.out, now);
        }
    }

    /// Has the endpoint write, and sends; whether it has more than was asked of it.
    fn write(&mut self, now: Instant) -> io::Result<bool> {
        for _ in 0..POLLS_MAX {
            let has_more =
                self.endpoint.poll(&mut self.out, now) | self.start_jobs(now) | self.carry_out(now);
            let is_blocked = !self.send(now)?;
            if !has_more || is_blocked {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends what waits; false if the socket takes no more now.
    fn send(&mut self, now: Instant) -> io::Result<bool> {
        while let Some((address, bytes)) = self.out.first() {
            let offered = self.shared.segments.load(Ordering::Relaxed);
            let sent = match address.segment {
                Some(segment) if !offered => {
                    bytes.chunks(usize::from(segment).max(1)).try_for_each(|bytes| {
                        send_datagrams(self.socket.as_fd(), address.to, bytes, None, address.ecn)
                    })
                }
                segment => send_datagrams(self.socket.as_fd(), address.to, bytes, segment, address.ecn),
            };
            let counters = &self.shared.counters;
            match sent.map_err(|error| error.raw_os_error().unwrap_or(0)) {
                Ok(()) => count(&counters.sent, 1),
                Err(libc::EAGAIN) => return Ok(false),
                Err(libc::EINTR) => continue,
                Err(libc::EIO | libc::EINVAL) if offered && address.segment.is_some() => {
                    tracing::info!(
                        "datagrams are sent one by one: the system does not segment them (UDP_SEGMENT)"
                    );
                    self.shared.segments.store(false, Ordering::Relaxed);
                    continue;
                }
                // Of this receiver alone; a protocol over datagrams outlives the loss of one.
                Err(errno) => {
                    count(&counters.refused, 1);
                    if errno == libc::ECONNREFUSED {
                        self.endpoint.refused(now);
                    }
                }
            }
            self.out.drop_first();
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Address;
    use super::*;
    use std::collections::HashSet;

    /// Answers each datagram with its own number before it; a datagram that begins with a digit belongs to the worker of that
    /// number. `late` answers only a while later.
    struct Named {
        number: usize,
        late: Option<Duration>,
        due: Vec<(Instant, SocketAddr, Vec<u8>)>,
    }

    impl Endpoint for Named {
        type Job = crate::NoJob;

        fn handle(&mut self, batch: &mut [Datagram<'_>], _: &mut Outbox, now: Instant) {
            for datagram in batch {
                let mut answer = self.number.to_string().into_bytes();
                answer.extend_from_slice(datagram.bytes);
                let at = now + self.late.unwrap_or(Duration::ZERO);
                self.due.push((at, datagram.from, answer));
            }
        }

        fn poll(&mut self, out: &mut Outbox, now: Instant) -> bool {
            while let Some(at) = self.due.iter().position(|(at, ..)| *at <= now) {
                if !out.has_room() {
                    return true;
                }
                let (_, to, answer) = self.due.swap_remove(at);
                out.push(|buffer| {
                    buffer.extend_from_slice(&answer);
                    Some(Address {
                        to,
                        ecn: 0,
                        segment: None,
                    })
                });
            }
            false
        }

        fn deadline(&self) -> Option<Instant> {
            self.due.iter().map(|(at, ..)| *at).min()
        }

        fn owner(&self, datagram: &[u8]) -> Owner {
            match datagram.first() {
                Some(digit @ b'0'..=b'9') => Owner::Worker(usize::from(digit - b'0')),
                _ => Owner::Anyone,
            }
        }

        fn drain(&mut self, _: &mut Outbox, _: Instant) {}

        fn is_idle(&self) -> bool {
            self.due.is_empty()
        }
    }

    fn start(workers: usize, late: Option<Duration>) -> (SocketAddr, Handle) {
        let sockets = bind(SocketAddr::from(([127, 0, 0, 1], 0)), workers).expect("sockets");
        let address = sockets[0].local_addr().expect("an address");
        let make = move |number| Named {
            number,
            late,
            due: Vec::new(),
        };
        (address, serve(sockets, make, Limits::default()).expect("threads"))
    }

    fn client() -> UdpSocket {
        let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
        client
            .set_read_timeout(Some(std::time::Duration::from_secs(10)))
            .expect("a timeout");
        client
    }

    fn ask(client: &UdpSocket, server: SocketAddr, text: &str) -> String {
        client.send_to(text.as_bytes(), server).expect("a send");
        let mut buffer = [0; 64];
        let (length, from) = client.recv_from(&mut buffer).expect("an answer");
        assert_eq!(from, server);
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn each_datagram_reaches_its_owner_whoever_received_it() {
        let (address, handle) = start(3, None);
        for round in 0..20 {
            let client = client();
            for owner in 0..3 {
                let text = format!("{owner} round {round}");
                assert_eq!(ask(&client, address, &text), format!("{owner}{text}"));
            }
            // One that no worker owns is answered by whoever got it.
            assert!(ask(&client, address, "9 nobody").ends_with("9 nobody"));
        }
        // The client may have the last answer before its worker has counted it.
        while handle.counts().sent < 80 {
            std::thread::yield_now();
        }
        let counts = handle.counts();
        assert_eq!((counts.received, counts.sent, counts.dropped), (80, 80, 0));
        assert!(counts.forwarded > 0, "{counts:?}");
        handle.stop();
        handle.join().expect("workers that end well");
    }

    #[test]
    fn peers_are_spread_over_workers() {
        let (address, handle) = start(2, None);
        let answered: HashSet<char> = (0..64)
            .filter_map(|_| ask(&client(), address, "x").chars().next())
            .collect();
        assert_eq!(answered.len(), 2);
        handle.stop();
        handle.join().expect("workers that end well");
    }

    #[test]
    fn a_drain_waits_for_what_is_owed_and_no_longer_than_its_grace() {
        let (address, handle) = start(1, Some(Duration::from_millis(300)));
        let client = client();
        client.send_to(b"late", address).expect("a send");
        while handle.counts().received == 0 {
            std::thread::yield_now();
        }
        handle.drain(Duration::from_secs(10));
        handle.join().expect("workers that end well");
        let mut buffer = [0; 64];
        let (length, _) = client.recv_from(&mut buffer).expect("the answer that was owed");
        assert_eq!(&buffer[..length], b"0late");

        let (address, handle) = start(1, Some(Duration::from_secs(3_600)));
        client.send_to(b"never", address).expect("a send");
        while handle.counts().received == 0 {
            std::thread::yield_now();
        }
        handle.drain(Duration::from_millis(50));
        handle.join().expect("workers that end well");
    }
}
