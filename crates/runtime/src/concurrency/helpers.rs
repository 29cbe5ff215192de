//! Threads for what may block, so that an event loop never does.
//!
//! A connection has at most one task under way, so the queue is bounded by the connections. Results
//! go to the inbox of the worker that asked, which is woken.

use crate::io::{ConnId, Waker};
use crate::session::{FileRange, Job};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What may block.
#[derive(Debug)]
pub(crate) enum Task<J> {
    /// A session's job.
    Job(J),
    /// Read a part of a file into memory.
    Warm(FileRange),
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Outcome<J: Job> {
    Done(J::Output),
    Warmed,
    /// The task panicked, or the disk failed with this errno.
    Failed(i32),
}

/// Where a worker finds its results.
pub(crate) struct Inbox<J: Job> {
    outcomes: Mutex<Vec<(ConnId, Outcome<J>)>>,
    waker: Box<dyn Waker>,
}

impl<J: Job> Inbox<J> {
    pub(crate) fn new(waker: Box<dyn Waker>) -> Inbox<J> {
        Inbox {
            outcomes: Mutex::default(),
            waker,
        }
    }

    /// Moves the results to the end of `into`.
    pub(crate) fn drain(&self, into: &mut Vec<(ConnId, Outcome<J>)>) {
        into.append(&mut lock(&self.outcomes));
    }

    fn deliver(&self, id: ConnId, outcome: Outcome<J>) {
        let mut outcomes = lock(&self.outcomes);
        outcomes.push((id, outcome));
        if outcomes.len() == 1 {
            self.waker.wake();
        }
    }
}

/// A task with its return address.
type Parcel<J> = (Arc<Inbox<J>>, ConnId, Task<J>);

/// The threads, shared by the workers of one service. They end when this is dropped.
pub(crate) struct Helpers<J: Job> {
    shared: Arc<Shared<J>>,
}

struct Shared<J: Job> {
    queue: Mutex<Queue<J>>,
    filled: Condvar,
    threads_max: usize,
}

struct Queue<J: Job> {
    parcels: VecDeque<Parcel<J>>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl<J: Job> Helpers<J> {
    pub(crate) fn new(threads_max: usize) -> Helpers<J> {
        let queue = Queue {
            parcels: VecDeque::new(),
            threads: 0,
            idle: 0,
            closed: false,
        };
        let shared = Shared {
            queue: Mutex::new(queue),
            filled: Condvar::new(),
            threads_max: threads_max.max(1),
        };
        Helpers {
            shared: Arc::new(shared),
        }
    }

    /// Queues a task; its outcome comes to `inbox`. Starts a thread if none is idle and the bound
    /// allows.
    pub(crate) fn submit(&self, inbox: &Arc<Inbox<J>>, id: ConnId, task: Task<J>) {
        let mut queue = lock(&self.shared.queue);
        queue.parcels.push_back((Arc::clone(inbox), id, task));
        if queue.idle == 0 && queue.threads < self.shared.threads_max {
            let shared = Arc::clone(&self.shared);
            let spawned = std::thread::Builder::new()
                .name("weir-helper".into())
                .spawn(move || shared.run());
            match spawned {
                Ok(_) => queue.threads += 1,
                Err(error) if queue.threads == 0 => {
                    // No thread will ever take it: better to block than to hang.
                    tracing::warn!("no helper thread can be started ({error}): working on the event loop");
                    let parcel = queue.parcels.pop_back();
                    drop(queue);
                    if let Some((inbox, id, task)) = parcel {
                        inbox.deliver(id, perform(task));
                    }
                    return;
                }
                Err(_) => {}
            }
        }
        drop(queue);
        self.shared.filled.notify_one();
    }
}

impl<J: Job> Drop for Helpers<J> {
    fn drop(&mut self) {
        lock(&self.shared.queue).closed = true;
        self.shared.filled.notify_all();
    }
}

impl<J: Job> Shared<J> {
    fn run(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some((inbox, id, task)) = queue.parcels.pop_front() {
                drop(queue);
                inbox.deliver(id, perform(task));
                queue = lock(&self.queue);
            } else if queue.closed {
                return;
            } else {
                queue.idle += 1;
                queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
        }
    }
}

fn perform<J: Job>(task: Task<J>) -> Outcome<J> {
    const EIO: i32 = 5;
    // The panic hook has reported it; the connection that asked is closed, the thread lives on.
    catch_unwind(AssertUnwindSafe(|| match task {
        Task::Job(job) => Outcome::Done(job.run()),
        Task::Warm(range) => match range.file.warm(range.offset, range.len) {
            Ok(()) => Outcome::Warmed,
            Err(crate::fs::ReadError::Io(errno)) => Outcome::Failed(errno),
            Err(crate::fs::ReadError::WouldBlock) => Outcome::Warmed,
        },
    }))
    .unwrap_or(Outcome::Failed(EIO))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
