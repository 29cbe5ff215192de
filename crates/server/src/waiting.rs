//! Limits the number of jobs that wait for the disk.
//!
//! A job takes a permit as soon as it would have to wait, and holds it until it ends, even if its request has given up.
//! So a disk that hangs uses up all permits, and requests for files that are not in memory are then rejected at once.
//! Decides nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of waiting jobs.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    now: AtomicU32,
}

impl Waiting {
    /// Number of jobs that wait or are under way.
    pub(crate) fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }
}

/// The place of one job; released when dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Waiting>);

impl Permit {
    /// Takes a place, unless `most` are taken already.
    pub(crate) fn take(waiting: &Arc<Waiting>, most: u32) -> Option<Permit> {
        let below = |now: u32| (now < most).then_some(now + 1);
        waiting
            .now
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, below)
            .ok()?;
        Some(Permit(Arc::clone(waiting)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_there_may_be() {
        let waiting = Arc::new(Waiting::default());
        let two: Vec<_> = (0..3).map_while(|_| Permit::take(&waiting, 2)).collect();
        assert_eq!((two.len(), waiting.now()), (2, 2));
        drop(two);
        assert_eq!(waiting.now(), 0);
        assert!(Permit::take(&waiting, 1).is_some());
    }
}
