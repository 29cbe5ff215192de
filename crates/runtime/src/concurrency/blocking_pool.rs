//! Jobs that may block, run by a few threads (the pool) beside the event loops.
//!
//! ```text
//!   worker ── job, or a file range to read in ──▶ queue ──▶ pool thread
//!     ▲                                                         │ run
//!     └────────────── wake ◀── inbox ◀── output ────────────────┘
//! ```
//! A connection hands over one job and waits for it until its session's deadline. A job that takes longer runs on, and
//! its output is dropped; one that has not started by then is dropped without running. The callers bound the number of
//! jobs. The threads exist from the start (for event loops), or start when all are busy and end after some time without
//! work (for workers that block). What a job does is not known here.

use crate::clock;
use crate::io::Id;
use crate::session::{FileRange, Job, Later, Loss, Ticket};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use units::{Duration, Instant};

/// How long a thread that started on demand stays without work.
const STAYS: Duration = Duration::from_secs(10);

/// Identifies a job of a worker: by the time it ends, its connection may wait for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobId {
    /// No other job of the worker has it.
    pub(crate) number: u64,
    /// The session's name for it.
    pub(crate) ticket: Ticket,
}

/// Work that may block.
pub(crate) enum Work<J: Job> {
    /// A session's job.
    Job(JobId, J),
    /// Read a file's range into memory, so that it can then be sent without blocking.
    Warm(FileRange),
}

/// Completed work.
pub(crate) enum Finished<O> {
    /// A job's output.
    Job(Id, JobId, O),
    /// The range is in memory, or its file failed.
    Warm(Id, Result<(), Loss>),
    /// The job panicked: the session can only be told that its connection is lost.
    Panicked(Id, JobId),
}

impl<J: Job> Work<J> {
    /// Whether its session waits for it and nothing else, until its deadline.
    pub(crate) const fn is_awaited_alone(&self) -> bool {
        match self {
            Work::Job(job_id, _) => job_id.ticket.0 == Ticket::ONLY.0,
            Work::Warm(_) => true,
        }
    }

    /// Runs the work on the calling thread.
    pub(crate) fn run(self, id: Id) -> Finished<J::Output> {
        match self {
            Work::Job(job_id, job) => match catch_unwind(AssertUnwindSafe(|| job.run())) {
                Ok(output) => Finished::Job(id, job_id, output),
                Err(_) => Finished::Panicked(id, job_id),
            },
            Work::Warm(range) => Finished::Warm(
                id,
                range.file.warm(range.offset, range.len).map_err(|e| {
                    range.lost(match e {
                        crate::fs::ReadError::Io(errno) => Loss::File(errno),
                        crate::fs::ReadError::WouldBlock => Loss::File(libc::EIO),
                    })
                }),
            ),
        }
    }
}

/// Completed work of one worker.
pub(crate) struct Inbox<O> {
    list: Mutex<Vec<Finished<O>>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl<O> Inbox<O> {
    /// `wake` makes the worker check; it is called once for any number of unseen items.
    pub(crate) fn new(wake: impl Fn() + Send + Sync + 'static) -> Arc<Inbox<O>> {
        Arc::new(Inbox {
            list: Mutex::new(Vec::new()),
            wake: Box::new(wake),
        })
    }

    fn put(&self, finished: Finished<O>) {
        let first = {
            let mut list = lock(&self.list);
            list.push(finished);
            list.len() == 1
        };
        if first {
            (self.wake)();
        }
    }

    /// Appends the items to `to`.
    pub(crate) fn take(&self, to: &mut Vec<Finished<O>>) {
        to.append(&mut lock(&self.list));
    }
}

struct Piece<J: Job> {
    id: Id,
    work: Work<J>,
    inbox: Arc<Inbox<J::Output>>,
    /// The end of the wait for its result.
    until: Option<Instant>,
}

struct Queue<J: Job> {
    pieces: VecDeque<Piece<J>>,
    closed: bool,
    threads: usize,
    /// Of these, without work.
    idle: usize,
}

struct Shared<J: Job> {
    queue: Mutex<Queue<J>>,
    more: Condvar,
    /// Maximum number of threads.
    most: usize,
    /// How long a thread stays without work; `None`: forever.
    stays: Option<Duration>,
}

/// The threads. When dropped, they end after their current job. The drop does not wait for that, because a job may hang
/// as long as the disk or network file system it reads from.
pub(crate) struct BlockingPool<J: Job> {
    shared: Arc<Shared<J>>,
}

impl<J: Job> BlockingPool<J> {
    /// Starts `size` threads.
    ///
    /// # Errors
    /// The system's, if it refuses a thread.
    pub(crate) fn start(size: usize) -> std::io::Result<BlockingPool<J>> {
        let pool = BlockingPool::of(size.max(1), None);
        for number in 0..size.max(1) {
            lock(&pool.shared.queue).threads += 1;
            pool.shared.spawn(number)?;
        }
        Ok(pool)
    }

    /// Starts with no threads and adds up to `most` on demand, which end when idle.
    pub(crate) fn growing(most: usize) -> BlockingPool<J> {
        BlockingPool::of(most.max(1), Some(STAYS))
    }

    fn of(most: usize, stays: Option<Duration>) -> BlockingPool<J> {
        let queue = Mutex::new(Queue {
            pieces: VecDeque::new(),
            closed: false,
            threads: 0,
            idle: 0,
        });
        let shared = Arc::new(Shared {
            queue,
            more: Condvar::new(),
            most,
            stays,
        });
        BlockingPool { shared }
    }

    /// Gives work to a thread. `until` is when the wait for its result ends.
    ///
    /// # Errors
    /// The work, if there is no thread and the system refuses one.
    pub(crate) fn give(
        &self,
        id: Id,
        work: Work<J>,
        inbox: &Arc<Inbox<J::Output>>,
        until: Option<Instant>,
    ) -> Result<(), Work<J>> {
        let shared = &self.shared;
        let piece = Piece {
            id,
            work,
            inbox: Arc::clone(inbox),
            until,
        };
        let (is_short, number) = {
            let mut queue = lock(&shared.queue);
            queue.pieces.push_back(piece);
            let is_short = queue.idle < queue.pieces.len() && queue.threads < shared.most;
            queue.threads += usize::from(is_short);
            (is_short, queue.threads)
        };
        shared.more.notify_one();
        if is_short && shared.spawn(number - 1).is_err() {
            let mut queue = lock(&shared.queue);
            let own = |piece: &Piece<J>| piece.id == id && Arc::ptr_eq(&piece.inbox, inbox);
            if queue.threads == 0
                && let Some(at) = queue.pieces.iter().position(own)
                && let Some(piece) = queue.pieces.remove(at)
            {
                return Err(piece.work);
            }
        }
        Ok(())
    }

    /// A handle through which one worker gives work.
    pub(crate) fn hand(self: &Arc<Self>, inbox: Arc<Inbox<J::Output>>) -> Hand<J> {
        Hand {
            pool: Arc::clone(self),
            inbox,
        }
    }

    /// Number of threads.
    #[cfg(test)]
    pub(crate) fn threads(&self) -> usize {
        lock(&self.shared.queue).threads
    }

    /// Number of waiting jobs.
    pub(crate) fn depth(&self) -> usize {
        lock(&self.shared.queue).pieces.len()
    }
}

impl<J: Job> Drop for BlockingPool<J> {
    fn drop(&mut self) {
        {
            let mut queue = lock(&self.shared.queue);
            queue.closed = true;
            queue.pieces.clear();
        }
        self.shared.more.notify_all();
    }
}

impl<J: Job> Shared<J> {
    /// Starts a thread that is already counted.
    fn spawn(self: &Arc<Self>, number: usize) -> std::io::Result<()> {
        let shared = Arc::clone(self);
        let started = std::thread::Builder::new()
            .name(format!("weir-blocking-{number}"))
            .spawn(move || shared.work());
        if started.is_err() {
            lock(&self.queue).threads -= 1;
        }
        started.map(drop)
    }

    fn work(&self) {
        while let Some(piece) = self.next() {
            // Its session has given up, or will within a tick.
            let is_late = piece.until.is_some_and(|until| until <= clock::now());
            if !(is_late && matches!(piece.work, Work::Job(..))) {
                let finished = piece.work.run(piece.id);
                piece.inbox.put(finished);
            }
        }
    }

    /// The next work item; `None` if the thread is to end.
    fn next(&self) -> Option<Piece<J>> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                queue.threads -= 1;
                return None;
            }
            if let Some(piece) = queue.pieces.pop_front() {
                return Some(piece);
            }
            queue.idle += 1;
            let is_over;
            (queue, is_over) = match self.stays {
                None => {
                    let woken = self.more.wait(queue);
                    (woken.unwrap_or_else(|e| e.into_inner()), false)
                }
                Some(stays) => {
                    let woken = self.more.wait_timeout(queue, stays);
                    let (queue, timeout) = woken.unwrap_or_else(|e| e.into_inner());
                    (queue, timeout.timed_out())
                }
            };
            queue.idle -= 1;
            if is_over && queue.pieces.is_empty() {
                queue.threads -= 1;
                return None;
            }
        }
    }
}

/// A worker's handle on the pool; it keeps the pool alive.
pub(crate) struct Hand<J: Job> {
    pool: Arc<BlockingPool<J>>,
    inbox: Arc<Inbox<J::Output>>,
}

impl<J: Job> Hand<J> {
    pub(crate) fn give(&self, id: Id, work: Work<J>, until: Option<Instant>) {
        let Err(work) = self.defer(id, work) else { return };
        let given = self.pool.give(id, work, &self.inbox, until);
        debug_assert!(given.is_ok(), "its threads were there from the start");
    }

    /// Has work that only waits for something else report its result by itself.
    ///
    /// # Errors
    /// The work, if it is not of this kind.
    fn defer(&self, id: Id, work: Work<J>) -> Result<(), Work<J>> {
        let Work::Job(job_id, job) = work else {
            return Err(work);
        };
        let inbox = Arc::clone(&self.inbox);
        let later = Later::new(move |output| inbox.put(Finished::Job(id, job_id, output)));
        job.defer(later).map_err(|job| Work::Job(job_id, job))
    }

    /// Gives work whose result is awaited without end; false if no thread can be had for it.
    pub(crate) fn try_give(&self, id: Id, work: Work<J>) -> bool {
        let given = self.defer(id, work);
        given
            .or_else(|work| self.pool.give(id, work, &self.inbox, None))
            .is_ok()
    }

    pub(crate) fn take_finished(&self, to: &mut Vec<Finished<J::Output>>) {
        self.inbox.take(to);
    }
}

/// Who runs a worker's blocking work.
pub(crate) enum Hands<J: Job> {
    /// The worker itself, which may block. A job that would block runs on a pool thread while the worker waits, so that
    /// the wait can end before the job does.
    Own(Arc<BlockingPool<J>>),
    /// The pool, which lives as long as some worker has a handle on it. The worker first tries what can be done without
    /// blocking.
    Pool(Hand<J>),
    /// Nobody until told to: the simulator.
    Held {
        pieces: VecDeque<(Id, Work<J>)>,
        try_first: bool,
    },
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks can panic, so the data of a poisoned one is intact.
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
