//! One context for all workers of a service, so that a connection can move from one to another: what a
//! session leaves with its context it finds again, on whatever thread.
//!
//! A lock is the price, taken for each call and never while bytes move or a job runs. Decides nothing
//! else; everything is passed on.

use crate::session::{Action, Context, Event, JobOf, Line, Service, Session, Tx};
use measure::{Duration, Instant, UnixTime};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A service whose workers share one context.
pub(crate) struct OneContext<V: Service> {
    service: Arc<V>,
    cx: SharedContext<<V::Session as Session>::Cx>,
}

impl<V: Service> OneContext<V> {
    /// Makes the context.
    pub(crate) fn new(service: Arc<V>) -> Arc<OneContext<V>> {
        let cx = SharedContext {
            inner: Arc::new(Mutex::new((service.context(0), Instant::ZERO))),
        };
        Arc::new(OneContext { service, cx })
    }
}

/// The context, as each worker has it: with the latest instant it was told.
pub(crate) struct SharedContext<C> {
    inner: Arc<Mutex<(C, Instant)>>,
}

impl<C> SharedContext<C> {
    fn lock(&self) -> MutexGuard<'_, (C, Instant)> {
        // A session that panicked is gone; its context is what it also is after a panic on one thread.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Context> Context for SharedContext<C> {
    type Job = C::Job;

    fn turn(&mut self, now: Instant, wall: UnixTime) {
        let mut inner = self.lock();
        // Two threads may read the clock in one order and come here in the other.
        inner.1 = inner.1.max(now);
        let now = inner.1;
        inner.0.turn(now, wall);
    }

    fn wake(&self) -> Option<Instant> {
        self.lock().0.wake()
    }

    fn is_timed(&self) -> bool {
        self.lock().0.is_timed()
    }

    fn wants_path(&self) -> bool {
        self.lock().0.wants_path()
    }

    fn rest(&mut self, now: Instant, line: Line) {
        self.lock().0.rest(now, line);
    }
}

/// A session with a shared context.
pub(crate) struct Shared<S>(S);

impl<S: Session> Session for Shared<S> {
    type Cx = SharedContext<S::Cx>;

    fn handle(&mut self, cx: &mut Self::Cx, event: Event<'_, JobOf<S>>, tx: &mut Tx, now: Instant) {
        self.0.handle(&mut cx.lock().0, event, tx, now);
    }

    fn poll(&mut self, cx: &mut Self::Cx, tx: &mut Tx, now: Instant) -> Action<JobOf<S>> {
        self.0.poll(&mut cx.lock().0, tx, now)
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }

    fn closed(&mut self, cx: &mut Self::Cx, now: Instant) {
        self.0.closed(&mut cx.lock().0, now);
    }
}

impl<V: Service> Service for OneContext<V> {
    type Session = Shared<V::Session>;

    fn context(&self, _worker: usize) -> SharedContext<<V::Session as Session>::Cx> {
        SharedContext {
            inner: Arc::clone(&self.cx.inner),
        }
    }

    fn accept(
        &self,
        cx: &mut SharedContext<<V::Session as Session>::Cx>,
        peer: SocketAddr,
        now: Instant,
    ) -> Option<Shared<V::Session>> {
        self.service.accept(&mut cx.lock().0, peer, now).map(Shared)
    }

    fn grace(&self) -> Duration {
        self.service.grace()
    }
}
