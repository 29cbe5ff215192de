//! Work in the background: begun in the order it was offered, on one thread or a few, and refused once too much of it waits.
//! What the work is, only the caller knows.
//!
//! A thread starts with the first item, so a process that never offers any has no thread (one that only forks, for
//! example); further threads start when all are busy. Once its owner is gone, a thread ends after the current item; nothing
//! waits for that, because an item may hang as long as the disk it reads from.

use crate::clock;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use units::UnixTime;

/// Threads for work items of one kind.
pub struct Background<T> {
    name: &'static str,
    waiting_max: usize,
    threads_max: usize,
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    more: Condvar,
    work: Box<dyn Fn(T, UnixTime) + Send + Sync>,
}

struct Queue<T> {
    state: State,
    waiting: VecDeque<T>,
    threads: usize,
    /// Of these, without an item.
    idle: usize,
}

/// ```text
///  NEW ── first piece ──▶ RUNNING ── owner gone ──▶ CLOSED
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Running,
    Closed,
}

impl<T: Send + 'static> Background<T> {
    /// Runs `work` on each item; up to `waiting_max` items may wait. `work` also gets the time at which it starts. If
    /// it panics, only that item is lost.
    pub fn new(
        name: &'static str,
        waiting_max: usize,
        work: impl Fn(T, UnixTime) + Send + Sync + 'static,
    ) -> Background<T> {
        let queue = Mutex::new(Queue {
            state: State::New,
            waiting: VecDeque::new(),
            threads: 0,
            idle: 0,
        });
        Background {
            name,
            waiting_max,
            threads_max: 1,
            shared: Arc::new(Shared {
                queue,
                more: Condvar::new(),
                work: Box::new(work),
            }),
        }
    }

    /// With up to this many threads.
    pub fn with_threads(mut self, threads_max: usize) -> Background<T> {
        self.threads_max = threads_max.max(1);
        self
    }

    /// Offers an item. False if it is refused: too many wait, or the system has no thread.
    pub fn offer(&self, piece: T) -> bool {
        self.try_offer(piece).is_ok()
    }

    /// As [`Background::offer`].
    ///
    /// # Errors
    /// The item that is refused.
    pub fn try_offer(&self, piece: T) -> Result<(), T> {
        let mut queue = self.shared.lock();
        if queue.waiting.len() >= self.waiting_max {
            return Err(piece);
        }
        if queue.idle <= queue.waiting.len() && queue.threads < self.threads_max {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name(self.name.into());
            match thread.spawn(move || shared.run()) {
                Ok(_) => queue.threads += 1,
                Err(error) => {
                    tracing::warn!("no thread for {}: {error}", self.name);
                    if queue.threads == 0 {
                        return Err(piece);
                    }
                }
            }
            queue.state = State::Running;
        }
        queue.waiting.push_back(piece);
        drop(queue);
        self.shared.more.notify_one();
        Ok(())
    }

    /// Whether every item offered so far is done.
    pub fn is_idle(&self) -> bool {
        let queue = self.shared.lock();
        queue.waiting.is_empty() && queue.idle == queue.threads
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let mut queue = self.lock();
            let piece = loop {
                if queue.state == State::Closed {
                    return;
                }
                match queue.waiting.pop_front() {
                    Some(piece) => break piece,
                    None => {
                        queue.idle += 1;
                        queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
                        queue.idle -= 1;
                    }
                }
            };
            drop(queue);
            // The panic hook has reported the panic.
            let _ = catch_unwind(AssertUnwindSafe(|| (self.work)(piece, clock::wall())));
        }
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        let dropped = {
            let mut queue = self.shared.lock();
            queue.state = State::Closed;
            std::mem::take(&mut queue.waiting)
        };
        self.shared.more.notify_all();
        drop(dropped);
    }
}

impl<T> fmt::Debug for Background<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{self, Receiver, Sender};

    /// Work that waits for a word before each item and reports the item.
    fn aside(waiting_max: usize) -> (Background<u32>, Sender<()>, Receiver<u32>) {
        let (go, gone) = mpsc::channel();
        let (did, done) = mpsc::channel();
        let gone = Mutex::new(gone);
        let aside = Background::new("test", waiting_max, move |piece: u32, _| {
            let word = gone.lock().unwrap_or_else(PoisonError::into_inner).recv();
            assert!(word.is_ok() && piece != 7, "seven is not to be done");
            did.send(piece).unwrap();
        });
        (aside, go, done)
    }

    #[test]
    fn pieces_are_done_in_order_on_another_thread() {
        let (aside, go, done) = aside(10);
        for piece in 0..5 {
            assert!(aside.offer(piece));
            go.send(()).unwrap();
        }
        let did: Vec<u32> = done.iter().take(5).collect();
        assert_eq!(did, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let (aside, go, done) = aside(2);
        // The thread takes at most one of them out of the queue, and waits.
        let taken = (0..4).filter(|&piece| aside.offer(piece)).count();
        assert!((2..=3).contains(&taken), "{taken}");
        for _ in 0..taken {
            go.send(()).unwrap();
        }
        assert_eq!(done.iter().take(taken).count(), taken);
        assert!(aside.offer(9), "there is room again");
        go.send(()).unwrap();
        assert_eq!(done.recv(), Ok(9));
    }

    #[test]
    fn several_pieces_are_done_at_once() {
        let barrier = Arc::new(std::sync::Barrier::new(3));
        let (did, done) = mpsc::channel();
        let work = {
            let barrier = Arc::clone(&barrier);
            move |piece: u32, _| {
                barrier.wait();
                did.send(piece).unwrap();
            }
        };
        let aside = Background::new("test", 10, work).with_threads(3);
        // Each thread waits for all others, twice.
        for piece in 0..6 {
            assert_eq!(aside.try_offer(piece), Ok(()));
        }
        let mut did: Vec<u32> = done.iter().take(6).collect();
        did.sort_unstable();
        assert_eq!(did, [0, 1, 2, 3, 4, 5]);
        assert_eq!(aside.shared.lock().threads, 3);
    }

    #[test]
    fn a_panic_costs_one_piece() {
        let (aside, go, done) = aside(10);
        for piece in [6, 7, 8] {
            assert!(aside.offer(piece));
            go.send(()).unwrap();
        }
        assert_eq!(done.iter().take(2).collect::<Vec<_>>(), [6, 8]);
    }

    #[test]
    fn the_thread_ends_with_its_owner() {
        let (aside, go, done) = aside(10);
        assert!(aside.offer(1) && aside.offer(2));
        drop(aside);
        drop(go);
        // Its end drops the work, and with it the sender of this channel.
        assert_eq!(done.iter().count(), 0);
    }
}
