//! One accepting thread, and one thread per connection.
//!
//! ```text
//!   acceptor: room for a thread? ─▶ poll the listeners ─▶ accept ─▶ a thread: serve until it is gone
//!       ▲                                                              │
//!       └──────────────────── room ◀────────────────────────────────── ┘
//! ```
//! A new thread starts with a context of its own and an empty view of the shared cache. That is the cost of this
//! strategy, and the reason why no connection waits for a lock held by another. The strategy's workers limit the number
//! of threads. At the limit, the connection that has been idle longest is closed for one that waits in the accept
//! queue; the thread of each idle connection watches that queue.

use super::serve::{Handle, Limits};
use super::{Concurrency, Strategy};
use crate::clock;
use crate::concurrency::blocking_pool::{BlockingPool, Hands};
use crate::concurrency::shared_state::{Control, Counters, SharedState};
use crate::concurrency::supervise::{Listeners, supervise};
use crate::concurrency::worker::{Arrival, Bounds, Worker};
use crate::io::accept;
use crate::io::accept_mutex::AcceptMutex;
use crate::io::blocking::{AcceptLeader, Blocking, Standby};
use crate::listen::Listener;
use crate::machine::is_out_of_resources;
use crate::roll::Roll;
use crate::session::{JobOf, Service};
use crossbeam_utils::CachePadded;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use units::Duration;

/// How long accepting pauses after threads, descriptors or memory ran out.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a connection that the service would reject waits for an idle one to close. Also the interval between
/// checks.
const FULL_PATIENCE: Duration = Duration::from_millis(2_500);
const FULL_PAUSE: Duration = Duration::from_millis(10);

/// The number of threads and its limit.
#[derive(Debug)]
struct Crowd {
    live: Mutex<usize>,
    left: Condvar,
    max: usize,
    /// Numbers on the roll that no thread uses.
    numbers: Mutex<Vec<usize>>,
    /// Which connections are idle.
    roll: Roll,
}

impl Crowd {
    fn lock(&self) -> MutexGuard<'_, usize> {
        // The number is consistent at every point where a thread can panic.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn numbers(&self) -> MutexGuard<'_, Vec<usize>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a place is free, at most this long.
    fn wait_a_moment(&self, span: Duration) {
        let live = self.lock();
        // Whatever ended the wait, the caller checks again.
        drop(self.left.wait_timeout(live, span));
    }

    /// Waits until another thread may start, or until `hurried`.
    fn wait_for_room(&self, hurried: impl Fn() -> bool) {
        let mut live = self.lock();
        while *live >= self.max && !hurried() {
            live = self.left.wait(live).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wait_for_nobody(&self) {
        let mut live = self.lock();
        while *live > 0 {
            live = self.left.wait(live).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A place in the crowd, held until dropped.
#[derive(Debug)]
struct Place {
    crowd: Arc<Crowd>,
    /// The number on the roll. `None` beyond the roll's size, which ending threads may still occupy.
    number: Option<usize>,
}

impl Place {
    fn take(crowd: &Arc<Crowd>) -> Place {
        *crowd.lock() += 1;
        Place {
            crowd: Arc::clone(crowd),
            number: crowd.numbers().pop(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.numbers().extend(self.number);
        *self.crowd.lock() -= 1;
        self.crowd.left.notify_all();
    }
}

/// State shared by all connection threads.
struct Common<V: Service> {
    service: Arc<V>,
    leader: Arc<AcceptLeader>,
    bounds: Bounds,
    shared_state: Arc<SharedState>,
    control: Arc<Control>,
    counters: Arc<CachePadded<Counters>>,
    /// The next context number.
    next: AtomicU64,
    /// Runs the jobs of connection threads.
    pool: Arc<BlockingPool<JobOf<V::Session>>>,
}

pub(super) fn start<V: Service>(
    handle: &mut Handle,
    strategy: Strategy,
    listeners: &[Listener],
    service: &Arc<V>,
    limits: Limits,
) -> std::io::Result<()> {
    debug_assert_eq!(strategy.concurrency(), Concurrency::ThreadPerConnection);
    let leader = AcceptLeader::new()?;
    let max = strategy.workers().min(limits.connections_max).max(1);
    let crowd = Arc::new(Crowd {
        live: Mutex::new(0),
        left: Condvar::new(),
        max,
        numbers: Mutex::new((0..max).rev().collect()),
        roll: Roll::of_threads(max),
    });
    handle.wakers.push(Box::new({
        let (leader, crowd) = (Arc::clone(&leader), Arc::clone(&crowd));
        move || {
            leader.ring();
            // Taken so that no waiter can miss the wake-up between its check and its wait.
            let _live = crowd.lock();
            crowd.left.notify_all();
        }
    }));
    let sockets = Listeners::keep(listeners.iter().map(|one| Arc::clone(one.fd())).collect());
    handle.listeners.push(Arc::clone(&sockets));
    let common = Arc::new(Common {
        service: Arc::clone(service),
        leader,
        bounds: strategy.bounds(limits),
        shared_state: Arc::clone(&handle.shared_state),
        control: Arc::clone(&handle.control),
        counters: Arc::default(),
        next: AtomicU64::new(0),
        pool: Arc::new(BlockingPool::growing(crowd.max.max(limits.blocking_threads))),
    });
    let depth = Arc::downgrade(&common.pool);
    handle.queue_depth = Box::new(move || depth.upgrade().map_or(0, |pool| pool.depth()));
    handle.counters.push(Arc::clone(&common.counters));
    let thread = std::thread::Builder::new()
        .name("weir-accept".to_owned())
        .spawn(move || {
            let (control, shared_state) = (Arc::clone(&common.control), Arc::clone(&common.shared_state));
            let mut sockets_now = sockets.get();
            let result = supervise("weir-accept", &control, &shared_state, || {
                accept_all(&common, &crowd, &sockets_now)
            });
            sockets_now.clear();
            crowd.wait_for_nobody();
            result
        })?;
    handle.threads.push(thread);
    Ok(())
}

/// Accepts until draining, then accepts the connections still in the accept queue.
fn accept_all<V: Service>(
    common: &Arc<Common<V>>,
    crowd: &Arc<Crowd>,
    sockets: &[Arc<OwnedFd>],
) -> std::io::Result<()> {
    let draining = || common.control.is_draining();
    let mut shut = vec![false; sockets.len()];
    let mut full_since = None;
    loop {
        let now = clock::now();
        if crowd.max == common.bounds.connections_max && *crowd.lock() >= crowd.max {
            common.complain(
                "no more are possible with this process's descriptors; raise `ulimit -n`",
                None,
            );
        }
        crowd.wait_for_room(|| draining() && common.control.is_over(clock::now()));
        let last = draining();
        if last && common.control.is_over(now) {
            return Ok(());
        }
        if !last {
            common.leader.wait_for(sockets)?;
        }
        if common.service.is_full() && !last {
            // Threads with idle connections also watch the listeners, and the connection idle longest is closed.
            common.shared_state.want_room(now);
            let since = *full_since.get_or_insert(now);
            if now.since(since) < FULL_PATIENCE {
                crowd.wait_a_moment(FULL_PAUSE);
                continue;
            }
        } else {
            full_since = None;
        }
        for (listener, (socket, shut)) in sockets.iter().zip(&mut shut).enumerate() {
            if *crowd.lock() >= crowd.max {
                break;
            }
            match accept(socket) {
                Ok(None) => *shut = last,
                Ok(Some((fd, peer))) => {
                    if full_since.is_some() {
                        // It is refused; if others wait, the next round asks for room again.
                        common.shared_state.has_room();
                    }
                    serve_apart(common, crowd, sockets, Arrival::New { fd, peer, listener });
                }
                Err(errno) => {
                    common.counters.accept_errors.fetch_add(1, Ordering::Relaxed);
                    if is_out_of_resources(errno) {
                        common.complain("the system is out of descriptors or memory", Some(errno));
                        // The connection stays in the accept queue, so a poll would return at once. No event tells when
                        // the system or another process has a descriptor to spare again.
                        std::thread::sleep(PAUSE);
                    }
                }
            }
        }
        if last && shut.iter().all(|shut| *shut) {
            return Ok(());
        }
    }
}

impl<V: Service> Common<V> {
    fn complain(&self, why: &str, errno: Option<i32>) {
        if self.shared_state.may_complain(clock::now()) {
            tracing::warn!(
                open = self.shared_state.open.load(Ordering::Relaxed),
                errno,
                "not accepting connections for now: {why}"
            );
        }
    }
}

/// Starts a thread for a connection, waiting until the system can start one.
fn serve_apart<V: Service>(
    common: &Arc<Common<V>>,
    crowd: &Arc<Crowd>,
    sockets: &[Arc<OwnedFd>],
    arrival: Arrival<V::Session>,
) {
    // A thread that fails to start drops its closure, so the connection is kept outside of it.
    let given = Arc::new(Mutex::new(Some(arrival)));
    loop {
        let sockets = sockets.to_vec();
        let (place, common, given) = (Place::take(crowd), Arc::clone(common), Arc::clone(&given));
        let control = Arc::clone(&common.control);
        let complainer = Arc::clone(&common);
        let started = std::thread::Builder::new()
            .name("weir-conn".to_owned())
            .spawn(move || {
                let taken = given.lock().unwrap_or_else(PoisonError::into_inner).take();
                let Some(arrival) = taken else { return };
                if catch_unwind(AssertUnwindSafe(|| common.serve(&place, sockets, arrival))).is_err()
                    && common.shared_state.may_complain(clock::now())
                {
                    tracing::error!("a connection's thread panicked: its connection is lost; others stay");
                }
            });
        match started {
            Ok(_) => return,
            Err(_) if control.is_draining() => return,
            Err(error) => {
                complainer.complain(&format!("cannot start a thread: {error}"), error.raw_os_error());
                // No event tells when the system can start a thread again: other programs' threads may have to end
                // first.
                std::thread::sleep(PAUSE);
            }
        }
    }
}

impl<V: Service> Common<V> {
    /// Serves a connection until it ends.
    fn serve(&self, place: &Place, sockets: Vec<Arc<OwnedFd>>, arrival: Arrival<V::Session>) {
        let own = Arc::new(CachePadded::new(Counters::default()));
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut backend = Blocking::new(Arc::clone(&self.leader), Vec::new(), AcceptMutex::Open);
        if let Some(own) = place.number {
            let (crowd, service) = (Arc::clone(&place.crowd), Arc::clone(&self.service));
            let is_full = move || *crowd.lock() >= crowd.max || service.is_full();
            backend = backend.standing_by(Standby::new(place.crowd.roll.of(own), sockets, is_full));
        }
        let mut worker = Worker::new(
            usize::try_from(number).unwrap_or_default(),
            Arc::clone(&self.service),
            backend,
            Hands::Own(Arc::clone(&self.pool)),
            self.bounds,
            Arc::clone(&self.shared_state),
            Arc::clone(&own),
            Arc::clone(&self.control),
            0,
            clock::now(),
        );
        worker.bring(arrival);
        let lived = worker.run_until_empty();
        drop(worker);
        own.add_to(&self.counters);
        if let Err(error) = lived
            && self.shared_state.may_complain(clock::now())
        {
            tracing::error!("a connection's thread ended early: {error}");
        }
    }
}
