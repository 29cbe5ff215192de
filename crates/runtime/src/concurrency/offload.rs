//! Work that may block, done by a few threads beside the event loops.
//!
//! ```text
//!   worker ── job, or a file range to read in ──▶ queue ──▶ crew thread
//!     ▲                                                         │ run
//!     └────────────── wake ◀── inbox ◀── output ────────────────┘
//! ```
//! A connection hands over one piece of work and waits for it, as long as its session has patience: a job that outlives
//! that goes on, its output is dropped, and one that was not begun by then is dropped unrun. Whoever makes
//! jobs bounds their number. Threads are there from the start (for loops) or come when all are busy and go when
//! they have had nothing to do for a while (for workers that block). Refuses to know what a job does.

use crate::clock;
use crate::io::Id;
use crate::session::{FileRange, Job, Loss};
use measure::{Duration, Instant};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// How long a thread that came because all were busy stays without work.
const STAYS: Duration = Duration::from_secs(10);

/// Tells the jobs of a worker apart: by the time one ends, its connection may wait for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) u64);

/// Something to do that may block.
pub(crate) enum Work<J: Job> {
    /// A session's job.
    Job(Ticket, J),
    /// Reading a file's range into memory, so that it can then be sent without waiting.
    Warm(FileRange),
}

/// Work that is done.
pub(crate) enum Finished<O> {
    /// A job's output.
    Job(Id, Ticket, O),
    /// A range is in memory, or its file failed.
    Warm(Id, Result<(), Loss>),
    /// The job panicked: nothing can be said to the session but that its connection is lost.
    Panicked(Id, Ticket),
}

impl<J: Job> Work<J> {
    /// Does it, on whatever thread this is.
    pub(crate) fn run(self, id: Id) -> Finished<J::Output> {
        match self {
            Work::Job(ticket, job) => match catch_unwind(AssertUnwindSafe(|| job.run())) {
                Ok(output) => Finished::Job(id, ticket, output),
                Err(_) => Finished::Panicked(id, ticket),
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

/// Where a worker finds what was finished for it.
pub(crate) struct Inbox<O> {
    list: Mutex<Vec<Finished<O>>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl<O> Inbox<O> {
    /// `wake` makes the worker look; it is called once for any number of pieces it has not seen.
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

    /// Moves what is there to the end of `to`.
    pub(crate) fn take(&self, to: &mut Vec<Finished<O>>) {
        to.append(&mut lock(&self.list));
    }
}

struct Piece<J: Job> {
    id: Id,
    work: Work<J>,
    inbox: Arc<Inbox<J::Output>>,
    /// Nobody waits for it any longer than this.
    until: Option<Instant>,
}

struct Queue<J: Job> {
    pieces: VecDeque<Piece<J>>,
    closed: bool,
    threads: usize,
    /// Of these, with nothing to do.
    idle: usize,
}

struct Shared<J: Job> {
    queue: Mutex<Queue<J>>,
    more: Condvar,
    /// Threads at the most.
    most: usize,
    /// How long a thread stays without work; none: for ever.
    stays: Option<Duration>,
}

/// The threads. Dropped, they end after what they are at; nobody waits for that, because a job may hang
/// as long as the disk or network file system it reads from.
pub(crate) struct Crew<J: Job> {
    shared: Arc<Shared<J>>,
}

impl<J: Job> Crew<J> {
    /// Starts `size` threads.
    ///
    /// # Errors
    /// The system's, if it will not start a thread.
    pub(crate) fn start(size: usize) -> std::io::Result<Crew<J>> {
        let crew = Crew::of(size.max(1), None);
        for number in 0..size.max(1) {
            lock(&crew.shared.queue).threads += 1;
            crew.shared.spawn(number)?;
        }
        Ok(crew)
    }

    /// No threads yet; at most so many when they are wanted, which end when they are not.
    pub(crate) fn growing(most: usize) -> Crew<J> {
        Crew::of(most.max(1), Some(STAYS))
    }

    fn of(most: usize, stays: Option<Duration>) -> Crew<J> {
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
        Crew { shared }
    }

    /// Has a thread do this. `until` is how long somebody waits for it.
    ///
    /// # Errors
    /// The work, where there is no thread and the system starts none.
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

    /// A hand for one worker to give work through.
    pub(crate) fn hand(self: &Arc<Self>, inbox: Arc<Inbox<J::Output>>) -> Hand<J> {
        Hand {
            crew: Arc::clone(self),
            inbox,
        }
    }

    /// How many threads there are.
    #[cfg(test)]
    pub(crate) fn threads(&self) -> usize {
        lock(&self.shared.queue).threads
    }

    /// How many pieces of work wait for a thread.
    pub(crate) fn depth(&self) -> usize {
        lock(&self.shared.queue).pieces.len()
    }
}

impl<J: Job> Drop for Crew<J> {
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
    /// Starts a thread that is counted already.
    fn spawn(self: &Arc<Self>, number: usize) -> std::io::Result<()> {
        let shared = Arc::clone(self);
        let started = std::thread::Builder::new()
            .name(format!("weir-crew-{number}"))
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

    /// The next piece of work; none if the thread is to end.
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

/// A worker's access to the crew, which it keeps.
pub(crate) struct Hand<J: Job> {
    crew: Arc<Crew<J>>,
    inbox: Arc<Inbox<J::Output>>,
}

impl<J: Job> Hand<J> {
    pub(crate) fn give(&self, id: Id, work: Work<J>, until: Option<Instant>) {
        let given = self.crew.give(id, work, &self.inbox, until);
        debug_assert!(given.is_ok(), "its threads were there from the start");
    }

    pub(crate) fn take_finished(&self, to: &mut Vec<Finished<J::Output>>) {
        self.inbox.take(to);
    }
}

/// Whoever does a worker's blocking work.
pub(crate) enum Hands<J: Job> {
    /// The worker's own, which may block: where a job would have to wait, a thread of the crew does it and the worker waits
    /// for that, so that waiting can end before the job does.
    Own(Arc<Crew<J>>),
    /// The crew, which lives as long as some worker has a hand in it: the worker first tries what can be
    /// done without waiting.
    Crew(Hand<J>),
    /// Nobody until told to: the simulator.
    Held {
        pieces: VecDeque<(Id, Work<J>)>,
        try_first: bool,
    },
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks can panic, so a poisoned one is still whole.
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
