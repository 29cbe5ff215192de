//! Gives connections with input to short-lived threads, one per request, and takes them back.
//!
//! ```text
//!   event thread ── connection with input ──▶ a new thread: receive, answer, until nothing is there
//!     ▲                    │ as many run as may: in line                │
//!     └──────── wake ◀── returns ◀── the connection, or that it is gone ┘
//! ```
//! The queue is bounded by the number of connections. Decides how many threads run at once and retries if the system
//! refuses a thread. What a thread does is not known here.

use super::worker::Parcel;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{Duration, Instant};

/// The wait after the system refused a thread.
const RETRY: Duration = Duration::from_millis(100);

/// A connection on its way to a thread; still present if no thread took it.
pub(crate) type Offer<S> = Arc<Mutex<Option<Parcel<S>>>>;

/// Where threads leave connections they are done with. It outlives an event thread that is replaced, so that the
/// replacement finds the connections under way.
pub(crate) struct Returns<S> {
    list: Mutex<Vec<Option<Parcel<S>>>>,
    /// Threads whose return was not taken yet. Written by the event thread only.
    running: AtomicUsize,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl<S> Returns<S> {
    /// `wake` makes the event thread check.
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Arc<Returns<S>> {
        Arc::new(Returns {
            list: Mutex::default(),
            running: AtomicUsize::new(0),
            wake: Box::new(wake),
        })
    }

    /// A thread ends; it returns the connection unless the connection is gone.
    pub(crate) fn put(&self, parcel: Option<Parcel<S>>) {
        let first = {
            let mut list = lock(&self.list);
            list.push(parcel);
            list.len() == 1
        };
        if first {
            (self.wake)();
        }
    }
}

/// The event thread's side: the queue, and the threads running.
pub(crate) struct Dispatcher<S> {
    start: Box<dyn FnMut(Offer<S>) -> std::io::Result<()> + Send>,
    returns: Arc<Returns<S>>,
    running_max: usize,
    line: VecDeque<Parcel<S>>,
    retry_at: Option<Instant>,
}

impl<S> Dispatcher<S> {
    /// At most `running_max` threads run at once. `start` starts one that takes the offered connection and always puts
    /// something into `returns` when it ends.
    pub(crate) fn new(
        running_max: usize,
        returns: Arc<Returns<S>>,
        start: impl FnMut(Offer<S>) -> std::io::Result<()> + Send + 'static,
    ) -> Dispatcher<S> {
        Dispatcher {
            start: Box::new(start),
            returns,
            running_max,
            line: VecDeque::new(),
            retry_at: None,
        }
    }

    /// Gives a connection to a thread as soon as one may start. An error is the system's, to be reported to the
    /// operator.
    pub(crate) fn give(&mut self, parcel: Parcel<S>, now: Instant) -> std::io::Result<()> {
        self.line.push_back(parcel);
        self.go_on(now)
    }

    /// Starts threads for queued connections, as far as the limit allows.
    pub(crate) fn go_on(&mut self, now: Instant) -> std::io::Result<()> {
        if self.retry_at.is_some_and(|at| now < at) {
            return Ok(());
        }
        self.retry_at = None;
        while self.running() < self.running_max
            && let Some(parcel) = self.line.pop_front()
        {
            let offer = Arc::new(Mutex::new(Some(parcel)));
            if let Err(error) = (self.start)(Arc::clone(&offer)) {
                self.line.extend(lock(&offer).take());
                self.line.rotate_right(1);
                self.retry_at = Some(now + RETRY);
                return Err(error);
            }
            self.returns.running.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Appends the returned connections to `to`.
    pub(crate) fn take_back(&mut self, to: &mut Vec<Parcel<S>>) {
        for returned in lock(&self.returns.list).drain(..) {
            self.returns.running.fetch_sub(1, Ordering::Relaxed);
            to.extend(returned);
        }
    }

    /// Takes the connections that are still queued.
    pub(crate) fn dissolve(&mut self) -> impl Iterator<Item = Parcel<S>> + use<S> {
        std::mem::take(&mut self.line).into_iter()
    }

    fn running(&self) -> usize {
        self.returns.running.load(Ordering::Relaxed)
    }

    /// Connections with threads or in the queue.
    pub(crate) fn outstanding(&self) -> usize {
        self.running() + self.line.len()
    }

    /// When to retry even if nothing happens.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.retry_at.filter(|_| !self.line.is_empty())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks can panic, so the data of a poisoned one is intact.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
