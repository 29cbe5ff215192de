//! Starts a strategy's threads, watches over them, and stops them.

use super::{Concurrency, Io, Strategy};
use crate::clock;
use crate::concurrency::offload::{Crew, Hands, Inbox};
use crate::concurrency::worker::{Bounds, Control, Counters, Together, Worker};
use crate::io::Backend;
use crate::io::blocking::{Blocking, Door};
use crate::io::epoll::{Epoll, Waker};
use crate::io::uring::{self, Uring};
use crate::listen::Listener;
use crate::machine;
use crate::session::{JobOf, Service};
use crossbeam_utils::CachePadded;
use measure::{Bytes, Duration};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// What bounds a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once, over all workers; further ones wait in the listen backlog. (Workers
    /// that accept in the same instant may exceed it by one each.)
    pub connections_max: usize,
    /// Threads for work that may block. At most one piece of work per connection waits for them.
    pub crew: usize,
    /// What a peer may still send after our half was closed, before it is cut off.
    pub linger_max: Bytes,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 16_384,
            crew: 4,
            linger_max: Bytes::kib(256),
        }
    }
}

/// What a worker has counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections accepted.
    pub accepted: u64,
    /// Of these, refused by the service.
    pub refused: u64,
    /// Connections open now.
    pub open: u64,
    /// Times accepting failed.
    pub accept_errors: u64,
    /// Jobs begun.
    pub jobs: u64,
    /// Jobs that had to leave the loop because they would have blocked it.
    pub offloaded: u64,
    /// Parts of files that were not in memory when they were to be sent.
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

/// A running strategy. Dropped, it goes on running; it ends by [`Handle::drain`] or [`Handle::stop`].
pub struct Handle {
    control: Arc<Control>,
    together: Arc<Together>,
    counters: Vec<Arc<CachePadded<Counters>>>,
    wakers: Vec<Box<dyn Fn() + Send + Sync>>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
    queue_depth: Box<dyn Fn() -> usize + Send + Sync>,
}

impl Handle {
    /// Takes no new connections, lets open ones finish what they owe for up to `grace`, then closes
    /// them. Connections that wait in the backlog are served first. Returns at once; the threads end
    /// when all is done.
    pub fn drain(&self, grace: Duration) {
        self.control.drain(clock::now() + grace);
        for wake in &self.wakers {
            wake();
        }
    }

    /// Closes everything now.
    pub fn stop(&self) {
        self.drain(Duration::ZERO);
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.together.open.load(Ordering::Relaxed)
    }

    /// What each worker counted.
    pub fn counts(&self) -> impl Iterator<Item = Counts> {
        self.counters.iter().map(|counters| Counts::of(counters))
    }

    /// How many pieces of blocking work wait for a thread.
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
    /// The first failure of a worker: a system that could not wait any more, or a panic outside any
    /// connection.
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
/// With several loops each has its own socket per address (`SO_REUSEPORT`): accepting takes no common
/// lock and a connection stays where the kernel's hash put it. A pool's threads share one socket.
///
/// # Errors
/// What the system says to threads, descriptors and further sockets; what was started is stopped.
pub fn serve<V: Service>(
    strategy: Strategy,
    listeners: &[Listener],
    service: &Arc<V>,
    limits: Limits,
) -> std::io::Result<Handle> {
    let mut handle = Handle {
        control: Arc::default(),
        together: Arc::default(),
        counters: Vec::new(),
        wakers: Vec::new(),
        threads: Vec::new(),
        queue_depth: Box::new(|| 0),
    };
    let started = match strategy.concurrency {
        Concurrency::Loops | Concurrency::Loop => {
            start_loops(&mut handle, strategy, listeners, service, limits)
        }
        Concurrency::Pool => start_pool(&mut handle, strategy, listeners, service, limits),
    };
    match started {
        Ok(()) => Ok(handle),
        Err(error) => {
            handle.stop();
            // The first error tells more than what follows from it.
            let _ = handle.join();
            Err(error)
        }
    }
}

fn start_loops<V: Service>(
    handle: &mut Handle,
    strategy: Strategy,
    listeners: &[Listener],
    service: &Arc<V>,
    limits: Limits,
) -> std::io::Result<()> {
    let crew = Arc::new(Crew::start(limits.crew)?);
    let depth = Arc::downgrade(&crew);
    handle.queue_depth = Box::new(move || depth.upgrade().map_or(0, |crew| crew.depth()));
    let count = strategy.workers();
    let shards: Vec<Vec<Listener>> = listeners
        .iter()
        .map(|l| l.shards(count))
        .collect::<Result<_, _>>()?;
    for number in 0..count {
        let own: Vec<Arc<OwnedFd>> = shards
            .iter()
            .map(|of_one| Arc::clone(of_one[number].fd()))
            .collect();
        let waker = Waker::new()?;
        let inbox = Inbox::new({
            let waker = waker.clone();
            move || waker.wake()
        });
        handle.wakers.push(Box::new({
            let waker = waker.clone();
            move || waker.wake()
        }));
        let crew = Arc::clone(&crew);
        let hands = move || Hands::Crew(crew.hand(inbox));
        let plan = Plan {
            name: format!("weir-loop-{number}"),
            number,
            strategy,
            limits,
        };
        if strategy.io == Io::Uring {
            let room = room(&handle.together, limits, count);
            let backend = Uring::new(own, &waker, uring::sizes(), room)?;
            spawn(handle, plan, service, listeners.len(), backend, hands)?;
        } else {
            let backend = Epoll::new(own, &waker)?;
            spawn(handle, plan, service, listeners.len(), backend, hands)?;
        }
    }
    Ok(())
}

/// How many connections each of `workers` may still open.
fn room(together: &Arc<Together>, limits: Limits, workers: usize) -> impl Fn() -> usize + Send + use<> {
    let together = Arc::clone(together);
    move || {
        limits
            .connections_max
            .saturating_sub(together.open.load(Ordering::Relaxed))
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
    let door = Door::new()?;
    let listeners: Vec<Arc<OwnedFd>> = listeners
        .iter()
        .map(|listener| Arc::clone(listener.fd()))
        .collect();
    let bell = Arc::clone(&door);
    handle.wakers.push(Box::new(move || bell.ring()));
    for number in 0..strategy.workers() {
        let backend = Blocking::new(Arc::clone(&door), listeners.clone());
        let plan = Plan {
            name: format!("weir-pool-{number}"),
            number,
            strategy,
            limits,
        };
        spawn(handle, plan, service, listeners.len(), backend, || Hands::Own)?;
    }
    Ok(())
}

/// What one thread is to be.
struct Plan {
    name: String,
    number: usize,
    strategy: Strategy,
    limits: Limits,
}

/// Grain of deadlines: a timeout may come this much late.
const TICK: Duration = Duration::from_millis(250);

fn spawn<V: Service, B: Backend + Send + 'static>(
    handle: &mut Handle,
    plan: Plan,
    service: &Arc<V>,
    listeners: usize,
    backend: B,
    hands: impl FnOnce() -> Hands<JobOf<V::Session>> + Send + 'static,
) -> std::io::Result<()> {
    let bounds = Bounds {
        connections_max: plan.limits.connections_max,
        linger_bytes_max: u32::try_from(plan.limits.linger_max.0).unwrap_or(u32::MAX),
        tick: TICK,
    };
    let counters = Arc::new(CachePadded::new(Counters::default()));
    let shared = (
        Arc::clone(&handle.together),
        Arc::clone(&counters),
        Arc::clone(&handle.control),
    );
    let service = Arc::clone(service);
    let thread = std::thread::Builder::new().name(plan.name).spawn(move || {
        if plan.strategy.pinned {
            // Refused only by an affinity that changed meanwhile; then it runs where it may.
            let _ = machine::pin_thread(plan.number);
        }
        let (together, counters, control) = shared;
        let now = clock::now();
        Worker::new(
            plan.number,
            service,
            backend,
            hands(),
            bounds,
            together,
            counters,
            control,
            listeners,
            now,
        )
        .run_until_drained()
    })?;
    handle.counters.push(counters);
    handle.threads.push(thread);
    Ok(())
}
