//! One event thread that waits for all connections, and one thread per request.
//!
//! ```text
//!   event thread: accept, wait ── input ──▶ a thread: receive, answer, until no input is there
//!       ▲                                      │
//!       └──────────── the connection ◀─────────┘
//! ```
//! One thread answers all requests that arrived together. The threads share one context under a lock, because a
//! connection is served by a different thread each time. In PHTTPD, that took three quarters of the time (document 002,
//! figure 8). The strategy's workers limit the number of threads; further requests wait in a queue.

use super::Strategy;
use super::serve::{Handle, Limits};
use crate::clock;
use crate::concurrency::blocking_pool::{BlockingPool, Hands, Inbox};
use crate::concurrency::dispatcher::{Dispatcher, Offer, Returns};
use crate::concurrency::one_context::OneContext;
use crate::concurrency::shared_state::{Control, Counters, SharedState};
use crate::concurrency::supervise::{Listeners, supervise};
use crate::concurrency::worker::{Arrival, Bounds, Parcel, Worker};
use crate::io::accept_mutex::AcceptMutex;
use crate::io::blocking::{AcceptLeader, Blocking};
use crate::io::epoll::{Epoll, Waker};
use crate::listen::Listener;
use crate::session::{JobOf, Service};
use crossbeam_utils::CachePadded;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

/// State shared by all request threads.
struct Common<V: Service> {
    service: Arc<V>,
    leader: Arc<AcceptLeader>,
    bounds: Bounds,
    shared_state: Arc<SharedState>,
    control: Arc<Control>,
    counters: Arc<CachePadded<Counters>>,
    /// Runs the jobs of request threads.
    pool: Arc<BlockingPool<JobOf<V::Session>>>,
}

pub(super) fn start<V: Service>(
    handle: &mut Handle,
    strategy: Strategy,
    listeners: &[Listener],
    service: &Arc<V>,
    limits: Limits,
) -> std::io::Result<()> {
    let (waker, leader) = (Waker::new()?, AcceptLeader::new()?);
    handle.wakers.push(Box::new({
        let (waker, leader) = (waker.clone(), Arc::clone(&leader));
        move || {
            waker.wake();
            leader.ring();
        }
    }));
    let pool = Arc::new(BlockingPool::start(1)?);
    let common = Arc::new(Common {
        service: OneContext::new(Arc::clone(service)),
        leader,
        bounds: strategy.bounds(limits),
        shared_state: Arc::clone(&handle.shared_state),
        control: Arc::clone(&handle.control),
        counters: Arc::default(),
        pool: Arc::new(BlockingPool::growing(
            strategy.workers().max(limits.blocking_threads),
        )),
    });
    let depth = Arc::downgrade(&common.pool);
    handle.queue_depth = Box::new(move || depth.upgrade().map_or(0, |pool| pool.depth()));
    handle.counters.push(Arc::clone(&common.counters));
    let own = Arc::new(CachePadded::new(Counters::default()));
    handle.counters.push(Arc::clone(&own));
    let sockets = Listeners::keep(listeners.iter().map(|one| Arc::clone(one.fd())).collect());
    handle.listeners.push(Arc::clone(&sockets));
    let count = listeners.len();
    let mut first = Some(Epoll::new(sockets.get(), AcceptMutex::Open, &waker)?);
    let wake = |waker: &Waker| {
        let waker = waker.clone();
        move || waker.wake()
    };
    let returns = Returns::new(wake(&waker));
    let life = move || {
        let backend = match first.take() {
            Some(made) => made,
            None => Epoll::new(sockets.get(), AcceptMutex::Open, &waker)?,
        };
        // A replacement worker needs a new inbox: results of jobs for its predecessor's connections are unwanted.
        let inbox = Inbox::new(wake(&waker));
        let mut worker = Worker::new(
            0,
            Arc::clone(&common.service),
            backend.telling_only(),
            Hands::Pool(pool.hand(inbox)),
            common.bounds,
            Arc::clone(&common.shared_state),
            Arc::clone(&own),
            Arc::clone(&common.control),
            count,
            clock::now(),
        );
        worker.hand_over_to(Dispatcher::new(strategy.workers(), Arc::clone(&returns), {
            let (common, returns) = (Arc::clone(&common), Arc::clone(&returns));
            move |offer| start_thread(&common, &returns, offer)
        }));
        // Makes the new worker look at connections that were returned to its predecessor.
        waker.wake();
        worker.run_until_drained()
    };
    let (control, shared_state) = (Arc::clone(&handle.control), Arc::clone(&handle.shared_state));
    let thread = std::thread::Builder::new()
        .name("weir-events".to_owned())
        .spawn(move || supervise("weir-events", &control, &shared_state, life))?;
    handle.threads.push(thread);
    Ok(())
}

/// Starts a thread that takes offered requests and returns their connections, or reports that it has gone.
fn start_thread<V: Service>(
    common: &Arc<Common<V>>,
    returns: &Arc<Returns<V::Session>>,
    offer: Offer<V::Session>,
) -> std::io::Result<()> {
    let (common, returns) = (Arc::clone(common), Arc::clone(returns));
    let thread = std::thread::Builder::new().name("weir-request".to_owned());
    let started = thread.spawn(move || {
        let taken = offer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(parcel) = taken else { return };
        let returned = catch_unwind(AssertUnwindSafe(|| common.serve(parcel)));
        if returned.is_err() && common.shared_state.may_complain(clock::now()) {
            tracing::error!("a request's thread panicked: its connection is lost; others stay");
        }
        returns.put(returned.ok().flatten());
    });
    started.map(drop)
}

impl<V: Service> Common<V> {
    /// Serves the connection's requests and returns it when no more input is there.
    fn serve(&self, parcel: Parcel<V::Session>) -> Option<Parcel<V::Session>> {
        let own = Arc::new(CachePadded::new(Counters::default()));
        let mut worker = Worker::new(
            0,
            Arc::clone(&self.service),
            Blocking::new(Arc::clone(&self.leader), Vec::new(), AcceptMutex::Open),
            Hands::Own(Arc::clone(&self.pool)),
            self.bounds,
            Arc::clone(&self.shared_state),
            Arc::clone(&own),
            Arc::clone(&self.control),
            0,
            clock::now(),
        );
        worker.bring(Arrival::Parcel(parcel));
        let lived = worker.run_until_idle();
        drop(worker);
        own.add_to(&self.counters);
        lived.unwrap_or_else(|error| {
            if self.shared_state.may_complain(clock::now()) {
                tracing::error!("a request's thread ended early: {error}");
            }
            None
        })
    }
}
