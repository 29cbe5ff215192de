//! Starts, supervises and stops a strategy's threads.

use super::{Concurrency, Io, Strategy, per_connection, per_request};
use crate::clock;
use crate::concurrency::blocking_pool::{BlockingPool, Hands, Inbox};
use crate::concurrency::shared_state::{Control, Counters, SharedState};
use crate::concurrency::supervise::{Listeners, supervise};
use crate::concurrency::worker::{Bounds, Worker};
use crate::io::Backend;
use crate::io::accept_mutex::AcceptMutex;
use crate::io::blocking::{AcceptLeader, Blocking, Standby};
use crate::io::epoll::{Epoll, Waker};
use crate::io::uring::{self, Uring};
use crate::listen::Listener;
use crate::machine;
use crate::process::prefork::Member;
use crate::roll::Roll;
use crate::session::{JobOf, Service};
use crate::shaping::{Bucket, Egress};
use crossbeam_utils::CachePadded;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use units::{Bytes, Duration};

/// Limits of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once, over all workers. At the limit, the connection that has been idle longest is closed
    /// for the next; while none is idle, further ones wait in the accept queue. (Workers that accept at the same
    /// instant may exceed the limit by one each.)
    pub connections_max: usize,
    /// Threads for jobs that may block. At most one job per connection waits for them. For blocking strategies there
    /// may be as many as there are workers, started on demand.
    pub blocking_threads: usize,
    /// Bytes a peer may still send after the server closed its half, before the connection is cut off.
    pub linger_max: Bytes,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 16_384,
            blocking_threads: 4,
            linger_max: Bytes::kib(256),
        }
    }
}

/// Counters of a worker since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections accepted.
    pub accepted: u64,
    /// Of these, rejected by the service.
    pub refused: u64,
    /// Connections open now.
    pub open: u64,
    /// Times accepting failed.
    pub accept_errors: u64,
    /// Jobs started.
    pub jobs: u64,
    /// Jobs moved to a helper thread because they would have blocked the event loop.
    pub offloaded: u64,
    /// File parts that were not in memory when they were due to be sent.
    pub cold_reads: u64,
}

impl Counts {
    fn of(counters: &Counters) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            accepted: read(&counters.accepted),
            refused: read(&counters.refused),
            open: read(&counters.open),
            accept_errors: read(&counters.accept_errors),
            jobs: read(&counters.jobs),
            offloaded: read(&counters.offloaded),
            cold_reads: read(&counters.cold_reads),
        }
    }
}

/// A running strategy. It keeps running if dropped; [`Handle::drain`] or [`Handle::stop`] ends it.
pub struct Handle {
    pub(super) control: Arc<Control>,
    pub(super) shared_state: Arc<SharedState>,
    pub(super) counters: Vec<Arc<CachePadded<Counters>>>,
    pub(super) wakers: Vec<Box<dyn Fn() + Send + Sync>>,
    pub(super) threads: Vec<JoinHandle<std::io::Result<()>>>,
    /// Kept for replacement workers; dropped when draining.
    pub(super) listeners: Vec<Arc<Listeners>>,
    pub(super) queue_depth: Box<dyn Fn() -> usize + Send + Sync>,
}

impl Handle {
    /// Stops listening, gives open connections up to `grace` to finish the responses that are due, then closes them.
    /// Connections that wait in the accept queue are served first. Returns at once; the threads end when all is done.
    pub fn drain(&self, grace: Duration) {
        self.control.drain(clock::now() + grace);
        for listeners in &self.listeners {
            listeners.give_up();
        }
        for wake in &self.wakers {
            wake();
        }
    }

    /// Stops listening and ends open connections without haste: the next response of each is its last. For a strategy
    /// that another has replaced at the same sockets. Returns at once.
    pub fn retire(&self) {
        self.let_go(true);
    }

    /// As [`Handle::retire`], if no other strategy takes over the sockets: connections that wait in the accept queue
    /// are served first. A drain follows.
    pub fn ease(&self) {
        self.let_go(false);
    }

    fn let_go(&self, followed: bool) {
        self.control.retire(followed);
        for listeners in &self.listeners {
            listeners.give_up();
        }
        for wake in &self.wakers {
            wake();
        }
    }

    /// Closes all connections and listeners now.
    pub fn stop(&self) {
        self.drain(Duration::ZERO);
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.shared_state.open.load(Ordering::Relaxed)
    }

    /// Open connections accepted from this listener, given by its position in the list the strategy was started with.
    /// Listeners beyond the 255th are counted with the last of these.
    pub fn open_at(&self, listener: usize) -> usize {
        self.shared_state.open_at(listener)
    }

    /// Worker threads that died and were replaced.
    pub fn replaced(&self) -> u64 {
        self.shared_state.replaced.load(Ordering::Relaxed)
    }

    /// The counters of each worker.
    pub fn counts(&self) -> impl Iterator<Item = Counts> {
        self.counters.iter().map(|counters| Counts::of(counters))
    }

    /// Number of jobs that wait for a thread.
    pub fn crew_queue_depth(&self) -> usize {
        (self.queue_depth)()
    }

    /// Whether all threads have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the threads to end.
    ///
    /// # Errors
    /// The first failure of a worker that was not replaced because the strategy was ending.
    pub fn join(self) -> std::io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err(std::io::Error::other("a worker thread panicked")));
            result = result.and(ended);
        }
        result
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let workers = self.threads.len();
        f.debug_struct("Handle")
            .field("workers", &workers)
            .field("open", &self.open())
            .finish_non_exhaustive()
    }
}

/// Starts a strategy on these listeners, one per address.
///
/// With `loops`, each worker has its own socket per address (`SO_REUSEPORT`): workers share no accept lock, and a
/// connection stays with the worker chosen by the kernel's hash. All other strategies share one socket per address. For
/// a strategy of processes, this starts the part that runs in one process.
///
/// # Errors
/// The system's error if it refuses threads, descriptors or further sockets; everything already started is stopped.
pub fn serve<V: Service>(
    strategy: Strategy,
    listeners: &[Listener],
    service: &Arc<V>,
    limits: Limits,
) -> std::io::Result<Handle> {
    let shared_state = SharedState::at(listeners.len(), None);
    start(shared_state, strategy, listeners, service, limits)
}

/// As [`serve`], in a worker process whose load its founder and siblings can see.
///
/// # Errors
/// As [`serve`].
pub fn serve_as<V: Service>(
    member: &Member,
    strategy: Strategy,
    listeners: &[Listener],
    service: &Arc<V>,
    limits: Limits,
) -> std::io::Result<Handle> {
    let shared_state = SharedState::at(listeners.len(), Some(member.seat()));
    start(
        shared_state,
        strategy.of_one_process(),
        listeners,
        service,
        limits,
    )
}

fn start<V: Service>(
    shared_state: SharedState,
    strategy: Strategy,
    listeners: &[Listener],
    service: &Arc<V>,
    limits: Limits,
) -> std::io::Result<Handle> {
    let mut handle = Handle {
        control: Arc::default(),
        shared_state: Arc::new(shared_state),
        counters: Vec::new(),
        wakers: Vec::new(),
        threads: Vec::new(),
        listeners: Vec::new(),
        queue_depth: Box::new(|| 0),
    };
    let started = match strategy.concurrency {
        Concurrency::Loops | Concurrency::Loop | Concurrency::ProcessLoops => {
            start_loops(&mut handle, strategy, listeners, service, limits)
        }
        Concurrency::Pool | Concurrency::Processes => {
            start_pool(&mut handle, strategy, listeners, service, limits)
        }
        Concurrency::ThreadPerConnection => {
            per_connection::start(&mut handle, strategy, listeners, service, limits)
        }
        Concurrency::ThreadPerRequest => {
            per_request::start(&mut handle, strategy, listeners, service, limits)
        }
    };
    match started {
        Ok(()) => Ok(handle),
        Err(error) => {
            handle.stop();
            // The first error says more than those that follow from it.
            let _ = handle.join();
            Err(error)
        }
    }
}

/// The sockets of each of `count` workers: its own, or shared ones.
fn sockets(listeners: &[Listener], count: usize, own: bool) -> std::io::Result<Vec<Vec<Arc<OwnedFd>>>> {
    let shards: Vec<Vec<Listener>> = listeners
        .iter()
        .map(|listener| match own {
            true => listener.shards(count),
            false => Ok(vec![listener.clone(); count]),
        })
        .collect::<Result<_, _>>()?;
    let of_worker = |number: usize| {
        shards
            .iter()
            .map(|of_one| Arc::clone(of_one[number].fd()))
            .collect()
    };
    Ok((0..count).map(of_worker).collect())
}

fn start_loops<V: Service>(
    handle: &mut Handle,
    strategy: Strategy,
    listeners: &[Listener],
    service: &Arc<V>,
    limits: Limits,
) -> std::io::Result<()> {
    let pool = Arc::new(BlockingPool::start(limits.blocking_threads)?);
    let depth = Arc::downgrade(&pool);
    handle.queue_depth = Box::new(move || depth.upgrade().map_or(0, |pool| pool.depth()));
    // A process's own sockets would die with it, along with the connections waiting there.
    let own = strategy.concurrency == Concurrency::Loops;
    let accept_mutex = strategy.accept_mutex();
    let shaped = strategy
        .manner
        .shaping
        .map(|shaping| (shaping, Arc::new(Bucket::new(shaping))));
    for (number, sockets) in sockets(listeners, strategy.workers(), own)?
        .into_iter()
        .enumerate()
    {
        let waker = Waker::new()?;
        handle.wakers.push(Box::new({
            let waker = waker.clone();
            move || waker.wake()
        }));
        handle.shared_state.on_want({
            let waker = waker.clone();
            move || waker.wake()
        });
        let hands = {
            let (pool, waker) = (Arc::clone(&pool), waker.clone());
            // A replacement worker needs a new inbox: results of jobs for its predecessor's connections are unwanted.
            move || {
                let waker = waker.clone();
                Hands::Pool(pool.hand(Inbox::new(move || waker.wake())))
            }
        };
        let egress = {
            let shaped = shaped.clone();
            move || {
                shaped
                    .clone()
                    .map(|(shaping, bucket)| Egress::new(shaping, bucket))
            }
        };
        let plan = Plan {
            name: format!("weir-loop-{number}"),
            number,
            strategy,
            limits,
        };
        if strategy.io == Io::Uring {
            let room = room(&handle.shared_state, limits, strategy.workers());
            let parts = move |sockets| {
                let backend = Uring::new(sockets, &waker, uring::sizes(), room.clone())?;
                Ok((backend.behind(egress()), hands()))
            };
            spawn(handle, plan, service, sockets, parts)?;
        } else {
            let accept_mutex = accept_mutex.clone();
            let parts = move |sockets| {
                let backend = Epoll::new(sockets, accept_mutex.clone(), &waker)?;
                Ok((backend.behind(egress()), hands()))
            };
            spawn(handle, plan, service, sockets, parts)?;
        }
    }
    Ok(())
}

/// How many more connections each of `workers` may open.
fn room(
    shared_state: &Arc<SharedState>,
    limits: Limits,
    workers: usize,
) -> impl Fn() -> usize + Clone + Send + use<> {
    let shared_state = Arc::clone(shared_state);
    move || {
        limits
            .connections_max
            .saturating_sub(shared_state.open.load(Ordering::Relaxed))
            / workers
    }
}

fn start_pool<V: Service>(
    handle: &mut Handle,
    strategy: Strategy,
    listeners: &[Listener],
    service: &Arc<V>,
    limits: Limits,
) -> std::io::Result<()> {
    let accept_mutex = strategy.accept_mutex();
    let leader = AcceptLeader::new()?;
    // One job thread per worker, so that no worker waits for another's job.
    let pool = Arc::new(BlockingPool::growing(
        strategy.workers().max(limits.blocking_threads),
    ));
    let depth = Arc::downgrade(&pool);
    handle.queue_depth = Box::new(move || depth.upgrade().map_or(0, |pool| pool.depth()));
    let bell = Arc::clone(&leader);
    handle.wakers.push(Box::new(move || bell.ring()));
    let roll = match handle.shared_state.seat() {
        Some(seat) => seat.roll(),
        None => Roll::of_threads(strategy.workers()),
    };
    for (number, sockets) in sockets(listeners, strategy.workers(), false)?
        .into_iter()
        .enumerate()
    {
        let (leader, accept_mutex, pool) = (Arc::clone(&leader), accept_mutex.clone(), Arc::clone(&pool));
        let roll = match handle.shared_state.seat() {
            // A worker process has one thread, and the process's number on the roll.
            Some(_) => roll.clone(),
            None => roll.of(number),
        };
        let room = (Arc::clone(service), Arc::clone(&handle.shared_state));
        let parts = move |sockets: Vec<Arc<OwnedFd>>| {
            let (leader, accept_mutex) = (Arc::clone(&leader), accept_mutex.clone());
            let standby = Standby::new(roll.clone(), sockets.clone(), {
                let (roll, (service, shared_state)) = (roll.clone(), room.clone());
                let open = move || shared_state.open.load(Ordering::Relaxed);
                move || roll.is_full() || service.is_full() || open() >= limits.connections_max
            });
            let backend = match strategy.concurrency {
                Concurrency::Processes => Blocking::among_processes(leader, sockets, accept_mutex)?,
                _ => Blocking::new(leader, sockets, accept_mutex),
            };
            Ok((backend.standing_by(standby), Hands::Own(Arc::clone(&pool))))
        };
        let plan = Plan {
            name: format!("weir-pool-{number}"),
            number,
            strategy,
            limits,
        };
        spawn(handle, plan, service, sockets, parts)?;
    }
    Ok(())
}

/// What one worker thread is made of.
struct Plan {
    name: String,
    number: usize,
    strategy: Strategy,
    limits: Limits,
}

/// Granularity of deadlines: a timeout may fire this much late.
const TICK: Duration = Duration::from_millis(250);

impl Strategy {
    /// The bounds of one worker within these limits.
    pub(super) fn bounds(self, limits: Limits) -> Bounds {
        Bounds {
            connections_max: limits.connections_max,
            linger_bytes_max: u32::try_from(limits.linger_max.0).unwrap_or(u32::MAX),
            tick: TICK,
            manner: self.manner,
        }
    }

    /// The lock, if any, that its workers accept through.
    fn accept_mutex(self) -> AcceptMutex {
        match self.manner.accept_lock {
            false => AcceptMutex::Open,
            true if self.concurrency.is_of_processes() => AcceptMutex::Processes,
            true => AcceptMutex::Threads(Arc::default()),
        }
    }
}

/// Starts a worker's thread. `parts` creates the worker's parts: now, so that a refusal by the system is reported at
/// once, and again for each replacement.
fn spawn<V: Service, B: Backend + Send + 'static>(
    handle: &mut Handle,
    plan: Plan,
    service: &Arc<V>,
    sockets: Vec<Arc<OwnedFd>>,
    mut parts: impl FnMut(Vec<Arc<OwnedFd>>) -> std::io::Result<(B, Hands<JobOf<V::Session>>)> + Send + 'static,
) -> std::io::Result<()> {
    let bounds = plan.strategy.bounds(plan.limits);
    let counters = Arc::new(CachePadded::new(Counters::default()));
    let shared = (
        Arc::clone(&handle.shared_state),
        Arc::clone(&counters),
        Arc::clone(&handle.control),
    );
    let service = Arc::clone(service);
    let listeners = sockets.len();
    let kept = Listeners::keep(sockets.clone());
    handle.listeners.push(Arc::clone(&kept));
    let mut first = Some(parts(sockets)?);
    let name = plan.name.clone();
    let thread = std::thread::Builder::new().name(plan.name).spawn(move || {
        if plan.strategy.pinned {
            // Fails only if the affinity changed meanwhile; the thread then runs on any allowed processor.
            let _ = machine::pin_thread(plan.number);
        }
        let (shared_state, counters, control) = shared;
        supervise(&name, &control, &shared_state, || {
            let (backend, hands) = match first.take() {
                Some(made) => made,
                None => parts(kept.get())?,
            };
            Worker::new(
                plan.number,
                Arc::clone(&service),
                backend,
                hands,
                bounds,
                Arc::clone(&shared_state),
                Arc::clone(&counters),
                Arc::clone(&control),
                listeners,
                clock::now(),
            )
            .run_until_drained()
        })
    })?;
    handle.counters.push(counters);
    handle.threads.push(thread);
    Ok(())
}
