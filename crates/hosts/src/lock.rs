//! A lock with a first-in, first-out queue: who holds it and who waits. What holding costs, callers decide.

use std::collections::VecDeque;

/// A lock of the server's threads.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    owner: Option<usize>,
    waiting: VecDeque<usize>,
}

impl Lock {
    /// Takes the lock for `worker`; if it is held, queues the worker and returns false.
    pub(crate) fn take(&mut self, worker: usize) -> bool {
        if self.owner.is_some() {
            self.waiting.push_back(worker);
            return false;
        }
        self.owner = Some(worker);
        true
    }

    /// Passes the lock on; returns its new owner, which no longer waits.
    pub(crate) fn release(&mut self) -> Option<usize> {
        self.owner = self.waiting.pop_front();
        self.owner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_come_in_order_of_arrival() {
        let mut lock = Lock::default();
        assert!(lock.take(3));
        assert!(!lock.take(1));
        assert!(!lock.take(2));
        assert_eq!(lock.release(), Some(1));
        assert_eq!(lock.release(), Some(2));
        assert_eq!(lock.release(), None);
        assert!(lock.take(3));
    }
}
