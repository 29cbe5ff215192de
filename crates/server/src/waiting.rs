//! How many jobs wait for the disk at once.
//!
//! A job holds a permit from the moment it turns out that it would have to wait until it ends, also where nobody waits for it
//! any longer: a disk that hangs takes all permits, and requests for what is not in memory are then refused at once.
//! Decides nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many wait.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    now: AtomicU32,
}

impl Waiting {
    /// Jobs that wait or are under way.
    pub(crate) fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }
}

/// One job among them, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Waiting>);

impl Permit {
    /// One more, unless there are `most` already.
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
