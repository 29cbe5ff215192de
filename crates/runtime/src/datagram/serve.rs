//! Drives endpoints over real sockets: a thread for each, which receives in batches and sends with segmentation.
//!
//! ```text
//!   wait for: datagrams │ room to send │ the endpoint's deadline │ the bell │ other hosts
//!     ├─ receive a batch ─▶ owner: mine ─▶ handle        another worker's ─▶ its mailbox, and ring its bell
//!     │                                                  another process's ─▶ the relay to it
//!     ├─ relays ─▶ owner: mine ─▶ handle                 another worker's ─▶ its mailbox
//!     │                                                  a sibling process's ─▶ its inbox
//!     ├─ mailbox ─▶ handle
//!     ├─ jobs: tried here, else run by a helper thread, whose outputs ─▶ done
//!     ├─ the endpoint's connections to other hosts ─▶ peer
//!     └─ poll ─▶ send until the socket takes no more
//! ```
//! Decides which worker gets a datagram, and what is given up when a bound is reached: a datagram may be lost anywhere, so it
//! is counted and dropped. Knows no protocol.

use super::relay::{Arrived, Others, Passed, Relay, Room, Siblings};
use super::upstreams::Upstreams;
use super::{Address, Datagram, Endpoint, Outbox, Owner};
use crate::bell::Bell;
use crate::clock;
use crate::concurrency::blocking_pool::{BlockingPool, Finished, Hand, Inbox, JobId, Work};
use crate::concurrency::supervise::{complain, replace};
use crate::session::{Job, Ticket};
use crate::slot::Id;
use crate::sys::{Arrivals, path_mtu, prepare_datagrams, probe_paths, send_datagrams};
use core::fmt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use units::{Duration, Instant};

/// Batches received before output and other workers have their turn.
const BATCHES_MAX: u32 = 8;
/// Calls of `poll` before datagrams that arrived have their turn.
const POLLS_MAX: u32 = 16;

/// Other programs that share a socket: those that drain after upgrades in place, and a successor that starts. Beyond, the
/// relay that was added first goes, and with it the connections of that program.
pub const RELAYS_MAX: usize = 8;

/// Datagrams read from one relay before others have their turn.
const RELAYED_MAX: u32 = 64;

/// Descriptors that a worker waits for: socket, bell, upstreams, inbox, relays.
const WATCHED_MAX: usize = 4 + RELAYS_MAX;

/// How long a worker goes on at its end for messages to its peers.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// No number of a process, of which there are 65,536.
const NO_PROGRAM: u32 = u32::MAX;

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

/// What a driver has counted of its workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams received.
    pub received: u64,
    /// Of these, handed to another worker.
    pub forwarded: u64,
    /// Of these and those taken, handed to another process.
    pub relayed: u64,
    /// Of these and those taken, dropped because too many waited for that worker or process, or it is gone, or because the
    /// program that is to have them starts.
    pub dropped: u64,
    /// Datagrams that other processes handed over.
    pub taken: u64,
    /// Payloads sent; with segmentation each may be several datagrams.
    pub sent: u64,
    /// Payloads that the system refused for good: too long for the path, or no route.
    pub refused: u64,
}

impl Counts {
    /// Each count of both, put together by `count`.
    fn with(&self, other: &Counts, count: fn(u64, u64) -> u64) -> Counts {
        Counts {
            received: count(self.received, other.received),
            forwarded: count(self.forwarded, other.forwarded),
            relayed: count(self.relayed, other.relayed),
            dropped: count(self.dropped, other.dropped),
            taken: count(self.taken, other.taken),
            sent: count(self.sent, other.sent),
            refused: count(self.refused, other.refused),
        }
    }
}

/// Those of one worker, which alone writes them.
#[derive(Debug, Default)]
struct Counters {
    received: AtomicU64,
    forwarded: AtomicU64,
    relayed: AtomicU64,
    dropped: AtomicU64,
    taken: AtomicU64,
    sent: AtomicU64,
    refused: AtomicU64,
}

impl Counters {
    fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            received: read(&self.received),
            forwarded: read(&self.forwarded),
            relayed: read(&self.relayed),
            dropped: read(&self.dropped),
            taken: read(&self.taken),
            sent: read(&self.sent),
            refused: read(&self.refused),
        }
    }
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
    local: Option<IpAddr>,
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
    /// Of each worker.
    counters: Vec<Counters>,
    limits: Limits,
    draining: AtomicBool,
    /// Nanoseconds of the instant at which a drain ends.
    until: AtomicU64,
    /// Whether the kernel sends several datagrams at once; until it refuses.
    segments: AtomicBool,
    /// The program that receives from the sockets now, so that workers leave them alone: a process of it, or [`NO_PROGRAM`].
    left_to: AtomicU32,
    /// Whether a program starts that takes the place of one that has died. Its new peers are not refused.
    is_expecting: AtomicBool,
    /// The program that followed this one and has died, so that nobody reads from a relay to it: a process of it, or
    /// [`NO_PROGRAM`]. The program that is expected has the same number.
    died: AtomicU32,
    siblings: Vec<Relay>,
    inbox: Option<Arc<Relay>>,
    /// To other programs.
    relays: Mutex<Vec<Arc<Relay>>>,
    /// Changes with `relays`, so that workers look at those only then.
    relays_changed: AtomicU64,
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
    fn new(workers: usize, others: Others, limits: Limits) -> io::Result<Shared> {
        let mailbox = |_| {
            Ok(Mailbox {
                waiting: Mutex::default(),
                bell: Arc::new(Bell::new()?),
            })
        };
        let Others { programs, siblings } = others;
        let (inbox, siblings) = match siblings {
            Some(Siblings { inbox, ways }) => (Some(Arc::new(inbox)), ways),
            None => (None, Vec::new()),
        };
        let shared = Shared {
            mailboxes: (0..workers).map(mailbox).collect::<io::Result<_>>()?,
            counters: (0..workers).map(|_| Counters::default()).collect(),
            limits,
            draining: AtomicBool::new(false),
            until: AtomicU64::new(u64::MAX),
            segments: AtomicBool::new(true),
            left_to: AtomicU32::new(NO_PROGRAM),
            is_expecting: AtomicBool::new(false),
            died: AtomicU32::new(NO_PROGRAM),
            siblings,
            inbox,
            relays: Mutex::default(),
            relays_changed: AtomicU64::new(0),
        };
        programs.into_iter().for_each(|relay| shared.add(relay));
        Ok(shared)
    }

    fn relays(&self) -> MutexGuard<'_, Vec<Arc<Relay>>> {
        // A list is whole whenever a thread panics.
        self.relays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a relay, in place of one to the same program.
    fn add(&self, relay: Relay) {
        let mut relays = self.relays();
        relays.retain(|known| !known.is_of_program(relay.process()));
        if relays.len() >= RELAYS_MAX {
            relays.remove(0);
        }
        relays.push(Arc::new(relay));
        drop(relays);
        self.relays_changed.fetch_add(1, Ordering::Release);
        self.ring();
    }

    /// Whether another program receives from the sockets.
    fn has_left(&self) -> bool {
        self.left_to.load(Ordering::Acquire) != NO_PROGRAM
    }

    /// The program at the other end of this relay is gone. If it had the sockets, nobody else passes on what arrives there for
    /// the connections of this one.
    fn forget(&self, gone: &Arc<Relay>) {
        let mut relays = self.relays();
        let before = relays.len();
        relays.retain(|known| !Arc::ptr_eq(known, gone));
        // One that another worker has forgotten, or that another to the same program has replaced, says nothing of today.
        let is_news = relays.len() < before;
        drop(relays);
        let successor = self.left_to.load(Ordering::Acquire);
        if is_news && u16::try_from(successor).is_ok_and(|successor| gone.is_of_program(successor)) {
            self.left_to.store(NO_PROGRAM, Ordering::Release);
        }
        self.relays_changed.fetch_add(1, Ordering::Release);
        self.ring();
    }

    /// The program that had the sockets has them no more.
    fn lose(&self) {
        let successor = self.left_to.swap(NO_PROGRAM, Ordering::AcqRel);
        if successor != NO_PROGRAM {
            self.died.store(successor, Ordering::Release);
        }
    }

    /// Whether nobody reads from this relay, although its other end is held: for a program that is to come.
    fn is_idle(&self, relay: &Relay) -> bool {
        let died = self.died.load(Ordering::Acquire);
        let is_of_dead = u16::try_from(died).is_ok_and(|died| relay.is_of_program(died));
        is_of_dead && !self.is_expecting.load(Ordering::Acquire)
    }

    fn ring(&self) {
        for mailbox in &self.mailboxes {
            mailbox.bell.ring();
        }
    }

    /// A later call may bring the end nearer, and never puts it off.
    fn drain(&self, until: Instant) {
        self.until.fetch_min(until.as_nanos(), Ordering::Relaxed);
        self.draining.store(true, Ordering::Release);
        self.ring();
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
        let shared = Arc::new(Shared::new(1, Others::default(), limits)?);
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

    /// Has datagrams of another program passed on to it, and takes those that it passes on. One to the same program goes.
    pub fn relay(&self, relay: Relay) {
        self.shared.add(relay);
    }

    /// The ends of this process that lead to others, with their numbers, for a process that takes the sockets over. The
    /// one that was added first comes first.
    ///
    /// # Errors
    /// What the system says to descriptors.
    pub fn relays(&self) -> io::Result<Vec<(u16, OwnedFd)>> {
        let relays = self.shared.relays();
        let held = relays.iter().filter(|relay| relay.is_held());
        held.map(|relay| Ok((relay.process(), relay.channel()?)))
            .collect()
    }

    /// Drains, and leaves the sockets to the program of `successor`, which passes on what belongs here. If no relay leads to
    /// it, nobody would: all workers end now. If that program ends first, the workers receive from the sockets again.
    pub fn leave(&self, successor: u16, grace: Duration) {
        // Before the look at relays: one that is forgotten later takes the sockets back.
        self.shared.left_to.store(successor.into(), Ordering::Release);
        match self.is_followed(successor) {
            true => self.drain(grace),
            false => self.stop(),
        }
    }

    /// The program that the sockets were [left](Handle::leave) to has died: workers receive from them again, and refuse new
    /// peers. The same if one that was [expected](Handle::expect) has failed.
    pub fn take_back(&self) {
        self.shared.is_expecting.store(false, Ordering::Release);
        self.shared.lose();
        self.shared.ring();
    }

    /// Another program starts in place of the one that has died. Datagrams of its connections are passed on to it. Until it is
    /// [followed](Handle::follow), the first datagrams of peers are dropped: peers repeat them, and would not come back after a
    /// refusal. If the program fails, [`Handle::take_back`] must follow.
    pub fn expect(&self) {
        self.shared.is_expecting.store(true, Ordering::Release);
        self.shared.lose();
        self.shared.ring();
    }

    /// The program of `successor`, which was expected, serves: workers, which drain already, leave it the sockets as
    /// [`Handle::leave`] does.
    pub fn follow(&self, successor: u16) {
        self.shared.died.store(NO_PROGRAM, Ordering::Release);
        self.shared.left_to.store(successor.into(), Ordering::Release);
        self.shared.is_expecting.store(false, Ordering::Release);
        match self.is_followed(successor) {
            true => self.shared.ring(),
            false => self.stop(),
        }
    }

    /// Whether a relay leads to the program of this process.
    fn is_followed(&self, successor: u16) -> bool {
        let relays = self.shared.relays();
        let is_there = |relay: &Arc<Relay>| relay.is_of_program(successor) && relay.is_held();
        relays.iter().any(is_there)
    }

    /// For a process that has lost its parent and is about to drain. If the program of `successor` has the sockets, leaves them
    /// to that, which passes on what belongs here. If only an earlier program has them, ends all workers now: that program may
    /// give them to another, of the number of this one. Without effect if no other program runs.
    pub fn leave_to_others(&self, successor: u16) {
        // Before the look at relays: one that is forgotten later takes the sockets back.
        self.shared.left_to.store(successor.into(), Ordering::Release);
        if self.is_followed(successor) {
            return self.shared.ring();
        }
        let relays = self.shared.relays();
        let other = relays.iter().find(|relay| relay.is_held());
        let other = other.map(|relay| u32::from(relay.process()));
        drop(relays);
        // While workers end, they read from the sockets no more.
        let left_to = other.unwrap_or(NO_PROGRAM);
        self.shared.left_to.store(left_to, Ordering::Release);
        if other.is_some() {
            self.stop();
        }
    }

    /// Whether all workers have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// What all workers have counted since they started.
    pub fn counts(&self) -> Counts {
        let all = self.shared.counters.iter().map(Counters::read);
        all.fold(Counts::default(), |sum, one| sum.with(&one, u64::wrapping_add))
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

/// Starts a thread for each socket, with the endpoint that `make` makes for that worker's number. A worker that dies is replaced:
/// another endpoint gets its socket, and answers what is still sent to the lost connections. `others` are the processes that share
/// the sockets.
///
/// # Errors
/// What the system says to threads and descriptors.
pub fn serve<E: Endpoint>(
    sockets: Vec<UdpSocket>,
    others: Others,
    make: impl Fn(usize) -> E + Send + Sync + 'static,
    limits: Limits,
) -> io::Result<Handle> {
    let shared = Arc::new(Shared::new(sockets.len(), others, limits)?);
    let make = Arc::new(make);
    let pool = Arc::new(BlockingPool::growing(limits.helpers_max));
    let mut handle = Handle {
        shared,
        threads: Vec::new(),
    };
    for (number, socket) in sockets.into_iter().enumerate() {
        let (shared, make, pool) = (Arc::clone(&handle.shared), Arc::clone(&make), Arc::clone(&pool));
        let name = format!("weir-udp-{number}");
        let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
            let is_draining = || shared.draining.load(Ordering::Acquire);
            let died = |why: &io::Error, pause| complain(&name, why, pause);
            replace(is_draining, died, || {
                let socket = socket.try_clone()?;
                Worker::new(number, socket, make(number), Arc::clone(&shared), &pool)?.run()
            })
        });
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
    /// The relays as they were at `relays_seen`.
    relays: Vec<Arc<Relay>>,
    relays_seen: u64,
    /// Room for one relayed datagram, once there are any.
    room: Option<Room>,
    /// What the endpoint knows of the counters.
    told: Counts,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, Default)]
struct Woken {
    /// Datagrams have arrived.
    has_input: bool,
    /// Relays have something to read.
    has_relayed: bool,
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
        // A socket of one address answers from that.
        prepare_datagrams(socket.as_fd(), socket.local_addr()?.ip().is_unspecified());
        probe_paths(socket.as_fd());
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
            relays: Vec::new(),
            relays_seen: 0,
            room: None,
            told: Counts::default(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut arrivals = Arrivals::new();
        let (mut has_more, mut was_told) = (false, false);
        loop {
            self.see_relays();
            let woken = self.wait(has_more)?;
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
            let is_relayed = woken.has_relayed && self.read_relays(now);
            // Sockets that were left during the wait: a draining endpoint would refuse the new peers of the successor.
            let mut unread = woken.has_input && !self.shared.has_left();
            for _ in 0..BATCHES_MAX {
                if !unread {
                    break;
                }
                unread = self.receive(&mut arrivals, was_told, now)?;
            }
            self.take_back(now);
            if let Some(upstreams) = &mut self.upstreams {
                upstreams.turn(&mut self.endpoint, now)?;
            }
            has_more = self.write(now)? || unread || is_relayed || (was_told && self.is_done());
            self.tell_counts();
            if self.endpoint.has_ended() && self.out.is_empty() {
                return Ok(());
            }
            if self.endpoint.is_timed() {
                self.endpoint.rest(clock::now());
            }
        }
    }

    fn counters(&self) -> &Counters {
        &self.shared.counters[self.number]
    }

    /// Tells the endpoint what was counted since the last time.
    fn tell_counts(&mut self) {
        let counts = self.counters().read();
        if counts != self.told {
            self.endpoint.counted(&counts.with(&self.told, u64::wrapping_sub));
            self.told = counts;
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

    /// Looks at the relays again if they have changed.
    fn see_relays(&mut self) {
        let changed = self.shared.relays_changed.load(Ordering::Acquire);
        if changed != self.relays_seen {
            self.relays_seen = changed;
            self.relays.clone_from(&self.shared.relays());
        }
    }

    /// Takes datagrams that other processes received; whether there may be more.
    #[cold]
    fn read_relays(&mut self, now: Instant) -> bool {
        let mut room = self.room.take().unwrap_or_else(Room::new);
        let mut may_be_more = false;
        for at in 0..self.relays.len() {
            let relay = Arc::clone(&self.relays[at]);
            may_be_more |= self.read_relay(&relay, &mut room, now);
        }
        if let Some(inbox) = self.shared.inbox.clone() {
            may_be_more |= self.read_relay(&inbox, &mut room, now);
        }
        self.room = Some(room);
        may_be_more
    }

    fn read_relay(&mut self, relay: &Arc<Relay>, room: &mut Room, now: Instant) -> bool {
        for _ in 0..RELAYED_MAX {
            match relay.read(room) {
                Arrived::Datagram(bytes, from, ecn) => {
                    // The connection knows its own address; what is not of one is answered from any.
                    let datagram = Datagram {
                        bytes,
                        from,
                        local: None,
                        ecn,
                    };
                    self.take(datagram, now);
                }
                Arrived::Odd => count(&self.counters().dropped, 1),
                Arrived::Nothing => return false,
                Arrived::Gone => {
                    self.shared.forget(relay);
                    return false;
                }
            }
        }
        true
    }

    /// Takes a datagram that another process received. One of a sibling is passed on: another program does not tell them
    /// apart. If that sibling has ended, the endpoint answers. One of a third program is dropped, so that none goes in circles.
    fn take(&mut self, datagram: Datagram<'_>, now: Instant) {
        count(&self.counters().taken, 1);
        match self.endpoint.owner(datagram.bytes) {
            Owner::Worker(other) if self.is_another(other) => self.forward(other, &datagram),
            Owner::Process(process) => match self.sibling(process) {
                Some(sibling) if self.hand_over(sibling, &datagram) => {}
                Some(_) => self.endpoint.handle(&mut [datagram], &mut self.out, now),
                None => count(&self.counters().dropped, 1),
            },
            Owner::Mine | Owner::Anyone | Owner::Worker(_) => {
                self.endpoint.handle(&mut [datagram], &mut self.out, now);
            }
        }
    }

    /// Whether there is another worker with this number.
    fn is_another(&self, worker: usize) -> bool {
        worker != self.number && worker < self.shared.mailboxes.len()
    }

    /// Puts a datagram into the mailbox of another worker.
    fn forward(&self, worker: usize, datagram: &Datagram<'_>) {
        let forwarded = Forwarded {
            bytes: datagram.bytes.to_vec(),
            from: datagram.from,
            local: datagram.local,
            ecn: datagram.ecn,
        };
        if !self.shared.mailboxes[worker].put(forwarded, self.shared.limits.mailbox_max) {
            count(&self.counters().dropped, 1);
        }
    }

    /// The way to the inbox of another process of this program.
    fn sibling(&self, process: u16) -> Option<&Relay> {
        let mut ways = self.shared.siblings.iter();
        ways.find(|way| way.process() == process)
    }

    /// Passes a datagram on to another process; false if no relay leads there, or its process is gone.
    #[cold]
    fn pass(&self, process: u16, datagram: &Datagram<'_>) -> bool {
        if let Some(sibling) = self.sibling(process) {
            return self.hand_over(sibling, datagram);
        }
        let Some(relay) = self.relays.iter().find(|relay| relay.leads_to(process)) else {
            return false;
        };
        if self.shared.is_idle(relay) {
            return false;
        }
        let is_there = self.hand_over(relay, datagram);
        if !is_there {
            self.shared.forget(relay);
        }
        is_there
    }

    /// False if nobody holds the other end.
    fn hand_over(&self, relay: &Relay, datagram: &Datagram<'_>) -> bool {
        match relay.pass(datagram.bytes, datagram.from, datagram.ecn) {
            Passed::Sent => count(&self.counters().relayed, 1),
            Passed::Full => count(&self.counters().dropped, 1),
            Passed::Gone => return false,
        }
        true
    }

    /// Waits for something to do.
    fn wait(&self, has_more: bool) -> io::Result<Woken> {
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
        let mut wanted = match self.shared.has_left() {
            true => PollFlags::empty(),
            false => PollFlags::IN,
        };
        wanted.set(PollFlags::OUT, !self.out.is_empty());
        let bell = self.shared.mailboxes[self.number].bell.fd().as_fd();
        // Relays come first of the others, so that their places are known. What is beyond them is not looked at.
        let relays = self.relays.iter().chain(&self.shared.inbox);
        let relays = relays.map(|relay| relay.fd());
        let mut others = relays.chain(self.upstreams.as_ref().map(Upstreams::fd));
        let mut fds: [PollFd<'_>; WATCHED_MAX] = std::array::from_fn(|at| match at {
            0 => PollFd::new(&self.socket, wanted),
            1 => PollFd::from_borrowed_fd(bell, PollFlags::IN),
            _ => PollFd::from_borrowed_fd(others.next().unwrap_or(bell), PollFlags::IN),
        });
        let relays = 2..2 + self.relays.len() + usize::from(self.shared.inbox.is_some());
        let watched = relays.end + usize::from(self.upstreams.is_some());
        match poll(&mut fds[..watched], timeout.as_ref()) {
            Ok(_) => Ok(Woken {
                has_input: fds[0].revents().intersects(PollFlags::IN | PollFlags::ERR),
                has_relayed: fds[relays].iter().any(|fd| !fd.revents().is_empty()),
            }),
            Err(rustix::io::Errno::INTR) => Ok(Woken::default()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether more may have arrived. If the endpoint drains and another program is to have or has the sockets, new peers are
    /// left to that.
    fn receive(&mut self, arrivals: &mut Arrivals, is_draining: bool, now: Instant) -> io::Result<bool> {
        let may_be_more = arrivals.receive(self.socket.as_fd())?;
        if let Some(errno) = arrivals.network_error() {
            self.report(errno, now);
        }
        let counters = self.counters();
        let is_expected = self.shared.is_expecting.load(Ordering::Acquire) || self.shared.has_left();
        let mut batch: Vec<Datagram<'_>> = Vec::new();
        // An empty datagram is no packet of QUIC.
        for datagram in arrivals.datagrams().filter(|one| !one.bytes.is_empty()) {
            count(&counters.received, 1);
            match self.endpoint.owner(datagram.bytes) {
                Owner::Worker(other) if self.is_another(other) => {
                    count(&counters.forwarded, 1);
                    self.forward(other, &datagram);
                }
                Owner::Process(process) if self.pass(process, &datagram) => {}
                Owner::Anyone if is_draining && is_expected => count(&counters.dropped, 1),
                Owner::Mine | Owner::Anyone | Owner::Worker(_) | Owner::Process(_) => batch.push(datagram),
            }
        }
        if !batch.is_empty() {
            self.endpoint.handle(&mut batch, &mut self.out, now);
        }
        Ok(may_be_more)
    }

    /// Tells the endpoint why datagrams do not reach its peer.
    #[cold]
    fn report(&mut self, errno: i32, now: Instant) {
        match errno {
            libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EACCES => {
                self.endpoint.unreachable(errno, now);
            }
            // The call fails for sockets of many peers.
            libc::EMSGSIZE => {
                if let Ok(mtu) = path_mtu(self.socket.as_fd()) {
                    self.endpoint.packet_too_big(mtu, now);
                }
            }
            _ => {}
        }
    }

    fn read_mail(&mut self, now: Instant) {
        let mut mail = std::mem::take(&mut *self.shared.mailboxes[self.number].waiting());
        let mut batch: Vec<Datagram<'_>> = mail
            .iter_mut()
            .map(|one| Datagram {
                bytes: &mut one.bytes,
                from: one.from,
                local: one.local,
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
            let fd = self.socket.as_fd();
            let sent = match offered {
                true => send_datagrams(fd, address, bytes),
                false => send_one_by_one(fd, address, bytes),
            };
            let mut sent = sent.map_err(|error| error.raw_os_error().unwrap_or(0));
            if let Err(refusal @ (libc::EIO | libc::EINVAL)) = sent
                && offered
                && address.segment.is_some()
            {
                // A local address that is gone has the same error, and has it without segments, too.
                sent = send_one_by_one(fd, address, bytes).map_err(|error| error.raw_os_error().unwrap_or(0));
                if sent.is_ok() {
                    tracing::info!("{}", of_refused_segments(&io::Error::from_raw_os_error(refusal)));
                    self.shared.segments.store(false, Ordering::Relaxed);
                }
            }
            let counters = self.counters();
            match sent {
                Ok(()) => count(&counters.sent, 1),
                Err(libc::EAGAIN) => return Ok(false),
                Err(libc::EINTR) => continue,
                // Of this receiver alone; a protocol over datagrams outlives the loss of one.
                Err(errno) => {
                    count(&counters.refused, 1);
                    self.report(errno, now);
                }
            }
            self.out.drop_first();
        }
        Ok(true)
    }
}

/// What to say of the error with which the system has refused to cut a payload. Linux leaves the checksums of the pieces to the
/// network device, and says `EIO` if it computes none.
fn of_refused_segments(error: &io::Error) -> String {
    format!(
        "datagrams are sent one by one: the system does not segment them (UDP_SEGMENT): {error}; if the network device can \
         compute checksums, switch that on (`ethtool -K DEVICE tx on`) and restart"
    )
}

/// Sends the datagrams of a payload each by itself.
fn send_one_by_one(fd: BorrowedFd<'_>, address: Address, bytes: &[u8]) -> io::Result<()> {
    let length = address.segment.map_or(bytes.len(), usize::from).max(1);
    let single = Address {
        segment: None,
        ..address
    };
    bytes
        .chunks(length)
        .try_for_each(|bytes| send_datagrams(fd, single, bytes))
}

#[cfg(test)]
mod tests;
