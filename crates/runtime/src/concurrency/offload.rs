//! Work that may block, done by a few threads beside the event loops.
//!
//! ```text
//!   worker ── job, or a file range to read in ──▶ queue ──▶ crew thread
//!     ▲                                                         │ run
//!     └────────────── wake ◀── inbox ◀── output ────────────────┘
//! ```
//! The queue needs no bound of its own: a connection hands over one piece of work and then waits for
//! it, so there are never more pieces than connections, whose number is bounded; those that come when
//! all threads are busy wait their turn while the loop goes on. Refuses to know what a job does.

use crate::io::Id;
use crate::session::{FileRange, Job, Loss};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Something to do that may block.
pub(crate) enum Work<J: Job> {
    /// A session's job.
    Job(J),
    /// Reading a file's range into memory, so that it can then be sent without waiting.
    Warm(FileRange),
}

/// Work that is done.
pub(crate) enum Finished<O> {
    /// A job's output.
    Job(Id, O),
    /// A range is in memory, or its file failed.
    Warm(Id, Result<(), Loss>),
    /// The job panicked: nothing can be said to the session but that its connection is lost.
    Panicked(Id),
}

impl<J: Job> Work<J> {
    /// Does it, on whatever thread this is.
    pub(crate) fn run(self, id: Id) -> Finished<J::Output> {
        match self {
            Work::Job(job) => match catch_unwind(AssertUnwindSafe(|| job.run())) {
                Ok(output) => Finished::Job(id, output),
                Err(_) => Finished::Panicked(id),
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
}

struct Queue<J: Job> {
    pieces: VecDeque<Piece<J>>,
    closed: bool,
}

struct Shared<J: Job> {
    queue: Mutex<Queue<J>>,
    more: Condvar,
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
        let queue = Mutex::new(Queue {
            pieces: VecDeque::new(),
            closed: false,
        });
        let shared = Arc::new(Shared {
            queue,
            more: Condvar::new(),
        });
        let crew = Crew { shared };
        for number in 0..size.max(1) {
            let shared = Arc::clone(&crew.shared);
            std::thread::Builder::new()
                .name(format!("weir-crew-{number}"))
                .spawn(move || shared.work())?;
        }
        Ok(crew)
    }

    /// A hand for one worker to give work through.
    pub(crate) fn hand(self: &Arc<Self>, inbox: Arc<Inbox<J::Output>>) -> Hand<J> {
        Hand {
            crew: Arc::clone(self),
            inbox,
        }
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
    fn work(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let piece = loop {
                if queue.closed {
                    return;
                }
                match queue.pieces.pop_front() {
                    Some(piece) => break piece,
                    None => queue = self.more.wait(queue).unwrap_or_else(|e| e.into_inner()),
                }
            };
            drop(queue);
            let finished = piece.work.run(piece.id);
            piece.inbox.put(finished);
        }
    }
}

/// A worker's access to the crew, which it keeps.
pub(crate) struct Hand<J: Job> {
    crew: Arc<Crew<J>>,
    inbox: Arc<Inbox<J::Output>>,
}

impl<J: Job> Hand<J> {
    pub(crate) fn give(&self, id: Id, work: Work<J>) {
        let inbox = Arc::clone(&self.inbox);
        let shared = &self.crew.shared;
        lock(&shared.queue).pieces.push_back(Piece { id, work, inbox });
        shared.more.notify_one();
    }

    pub(crate) fn take_finished(&self, to: &mut Vec<Finished<J::Output>>) {
        self.inbox.take(to);
    }
}

/// Whoever does a worker's blocking work.
pub(crate) enum Hands<J: Job> {
    /// The worker itself: it may block (a thread per connection).
    Own,
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
