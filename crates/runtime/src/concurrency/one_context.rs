//! One context for all workers of a service, so that a connection can move between workers: a session finds its state
//! in the context on every thread.
//!
//! The cost is a lock, taken for each call and never while bytes move or a job runs. Everything else is forwarded.

use crate::lock_calls::spend_after;
use crate::memory::Budget;
use crate::session::{Accepted, Action, Context, Dialing, Event, JobOf, Line, Service, Session, Tx};
use crate::shaping::Withheld;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{Duration, Instant, UnixTime};

/// A service whose workers share one context.
pub(crate) struct OneContext<V: Service> {
    service: Arc<V>,
    cx: SharedContext<<V::Session as Session>::Cx>,
}

impl<V: Service> OneContext<V> {
    /// Creates the context.
    pub(crate) fn new(service: Arc<V>) -> Arc<OneContext<V>> {
        let one = One {
            cx: service.context(0),
            latest: Instant::ZERO,
            bounds: 0,
        };
        let cx = SharedContext {
            inner: Arc::new(Mutex::new(one)),
            bounds: 0,
        };
        Arc::new(OneContext { service, cx })
    }
}

struct One<C> {
    cx: C,
    /// The latest instant it was given.
    latest: Instant,
    /// How often the sessions' timeouts have changed.
    bounds: u64,
}

/// One worker's handle on the context.
pub(crate) struct SharedContext<C> {
    inner: Arc<Mutex<One<C>>>,
    /// The value of `One::bounds` this worker has told its sessions about.
    bounds: u64,
}

impl<C> SharedContext<C> {
    fn lock(&self) -> MutexGuard<'_, One<C>> {
        // A session that panicked is gone; the context is in the state it also has after a panic with a context per
        // thread.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Context> Context for SharedContext<C> {
    type Job = C::Job;

    fn turn(&mut self, now: Instant, wall: UnixTime) {
        let mut inner = self.lock();
        // Two threads may read the clock in one order and arrive here in the other.
        inner.latest = inner.latest.max(now);
        let now = inner.latest;
        inner.cx.turn(now, wall);
    }

    fn wake(&self) -> Option<Instant> {
        self.lock().cx.wake()
    }

    /// Each worker learns of a change, whichever of them noticed it first.
    fn has_new_bounds(&mut self) -> bool {
        let mut inner = self.lock();
        inner.bounds += u64::from(inner.cx.has_new_bounds());
        let bounds = inner.bounds;
        drop(inner);
        std::mem::replace(&mut self.bounds, bounds) != bounds
    }

    fn is_timed(&self) -> bool {
        self.lock().cx.is_timed()
    }

    fn wants_path(&self) -> bool {
        self.lock().cx.wants_path()
    }

    fn withheld(&mut self, what: Withheld) {
        self.lock().cx.withheld(what);
    }

    fn line_patience(&self) -> Duration {
        self.lock().cx.line_patience()
    }

    fn rest(&mut self, now: Instant, line: Line) {
        self.lock().cx.rest(now, line);
    }
}

/// A session with a shared context.
pub(crate) struct Shared<S>(S);

impl<S: Session> Session for Shared<S> {
    type Cx = SharedContext<S::Cx>;

    fn handle(&mut self, cx: &mut Self::Cx, event: Event<'_, JobOf<S>>, tx: &mut Tx, now: Instant) {
        spend_after(|| self.0.handle(&mut cx.lock().cx, event, tx, now));
    }

    fn poll(&mut self, cx: &mut Self::Cx, tx: &mut Tx, now: Instant) -> Action<JobOf<S>> {
        spend_after(|| self.0.poll(&mut cx.lock().cx, tx, now))
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    fn idle_since(&self, cx: &Self::Cx) -> Option<Instant> {
        self.0.idle_since(&cx.lock().cx)
    }

    fn closed(&mut self, cx: &mut Self::Cx, now: Instant) {
        self.0.closed(&mut cx.lock().cx, now);
    }
}

impl<V: Service> Service for OneContext<V> {
    type Session = Shared<V::Session>;

    fn context(&self, _worker: usize) -> SharedContext<<V::Session as Session>::Cx> {
        let inner = Arc::clone(&self.cx.inner);
        // It has no session yet; a session that moves here is told of changes on arrival.
        let bounds = self.cx.lock().bounds;
        SharedContext { inner, bounds }
    }

    fn accept(
        &self,
        cx: &mut SharedContext<<V::Session as Session>::Cx>,
        accepted: &Accepted,
        now: Instant,
    ) -> Option<Shared<V::Session>> {
        self.service.accept(&mut cx.lock().cx, accepted, now).map(Shared)
    }

    fn is_full(&self) -> bool {
        self.service.is_full()
    }

    fn close_idle(&self) -> bool {
        self.service.close_idle()
    }

    fn accepts_per_turn(&self, listener: u8) -> u32 {
        self.service.accepts_per_turn(listener)
    }

    fn budget(&self) -> Arc<Budget> {
        self.service.budget()
    }

    fn dialing(&self) -> Option<Dialing> {
        self.service.dialing()
    }

    fn grace(&self) -> Duration {
        self.service.grace()
    }
}
