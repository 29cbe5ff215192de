//! Work in the background: done on one thread, in the order it was offered, and refused once too much of it waits. What
//! the work is, only the caller knows.
//!
//! The thread starts with the first item, so a process that never offers any has no thread (one that only forks, for
//! example). Once its owner is gone, it ends after the current item; nothing waits for that, because an item may hang
//! as long as the disk it reads from.

use crate::clock;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use units::UnixTime;

/// A thread for work items of one kind.
pub struct Background<T> {
    name: &'static str,
    waiting_max: usize,
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
    /// Whether an item is being processed.
    is_busy: bool,
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
            is_busy: false,
        });
        Background {
            name,
            waiting_max,
            shared: Arc::new(Shared {
                queue,
                more: Condvar::new(),
                work: Box::new(work),
            }),
        }
    }

    /// Offers an item. False if it is refused: too many wait, or the system has no thread.
    pub fn offer(&self, piece: T) -> bool {
        let mut queue = self.shared.lock();
        if queue.waiting.len() >= self.waiting_max {
            return false;
        }
        if queue.state == State::New {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name(self.name.into());
            if let Err(error) = thread.spawn(move || shared.run()) {
                tracing::warn!("no thread for {}: {error}", self.name);
                return false;
            }
            queue.state = State::Running;
        }
        queue.waiting.push_back(piece);
        drop(queue);
        self.shared.more.notify_one();
        true
    }

    /// Whether every item offered so far is done.
    pub fn is_idle(&self) -> bool {
        let queue = self.shared.lock();
        queue.waiting.is_empty() && !queue.is_busy
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
                queue.is_busy = !queue.waiting.is_empty();
                match queue.waiting.pop_front() {
                    Some(piece) => break piece,
                    None => queue = self.more.wait(queue).unwrap_or_else(PoisonError::into_inner),
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
        self.shared.more.notify_one();
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
