//! One event loop per worker thread; with one worker, the single loop.
//!
//! Workers share nothing on the way of a request. Listeners are given per worker: each its own
//! (`SO_REUSEPORT`) or all the same one.

use super::helpers::{Helpers, Inbox};
use super::worker::Worker;
use super::{Control, Counters, Limits, Phase};
use crate::io::Waker;
use crate::io::epoll::{Epoll, EpollWaker};
use crate::session::Service;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Running workers.
#[derive(Debug)]
pub struct Loops {
    control: Arc<Control>,
    workers: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    waker: EpollWaker,
    counters: Arc<Counters>,
    thread: JoinHandle<std::io::Result<()>>,
}

/// Starts one worker for each set of listeners.
///
/// # Errors
/// What the system says to threads and descriptors; workers already started are stopped.
pub fn start<V: Service>(
    service: &Arc<V>,
    listeners: Vec<Vec<Arc<OwnedFd>>>,
    limits: Limits,
) -> std::io::Result<Loops> {
    let mut loops = Loops {
        control: Arc::default(),
        workers: Vec::new(),
    };
    let helpers = Arc::new(Helpers::new(limits.helpers));
    for (number, listeners) in listeners.into_iter().enumerate() {
        match spawn(number, service, listeners, &helpers, &loops.control, limits) {
            Ok(running) => loops.workers.push(running),
            Err(error) => {
                loops.stop();
                let _ = loops.join();
                return Err(error);
            }
        }
    }
    Ok(loops)
}

fn spawn<V: Service>(
    number: usize,
    service: &Arc<V>,
    listeners: Vec<Arc<OwnedFd>>,
    helpers: &Arc<Helpers<crate::session::JobOf<V::Session>>>,
    control: &Arc<Control>,
    limits: Limits,
) -> std::io::Result<Running> {
    let backend = Epoll::new(listeners)?;
    let waker = backend.waker();
    let inbox = Arc::new(Inbox::new(Box::new(waker.clone())));
    let counters = Arc::<Counters>::default();
    let thread = std::thread::Builder::new()
        .name(format!("weir-{number}"))
        .spawn({
            let (service, helpers, control) = (Arc::clone(service), Arc::clone(helpers), Arc::clone(control));
            let counters = Arc::clone(&counters);
            move || {
                Worker::new(
                    number, service, backend, helpers, inbox, control, counters, limits,
                )
                .run()
            }
        })?;
    Ok(Running {
        waker,
        counters,
        thread,
    })
}

impl Loops {
    /// Takes no new connections; open ones finish what they owe. The workers end when all are closed.
    pub fn drain(&self) {
        self.advance(Phase::Draining);
    }

    /// Closes everything now.
    pub fn stop(&self) {
        self.advance(Phase::Stopping);
    }

    fn advance(&self, phase: Phase) {
        self.control.advance(phase);
        for worker in &self.workers {
            worker.waker.wake();
        }
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.control.open()
    }

    /// Whether all workers have ended.
    pub fn is_finished(&self) -> bool {
        self.workers.iter().all(|worker| worker.thread.is_finished())
    }

    /// What each worker counted.
    pub fn counters(&self) -> impl Iterator<Item = &Counters> {
        self.workers.iter().map(|worker| &*worker.counters)
    }

    /// Waits for the workers to end.
    ///
    /// # Errors
    /// The first failure of a worker: an event loop that could not wait any more, or a panic outside
    /// any connection.
    pub fn join(self) -> std::io::Result<()> {
        let mut result = Ok(());
        for worker in self.workers {
            let ended = worker
                .thread
                .join()
                .unwrap_or_else(|_| Err(std::io::Error::other("a worker thread panicked")));
            result = result.and(ended);
        }
        result
    }
}
