//! The system calls of locks that enter the kernel even if they are free, as document 002 traced them (Table 2:
//! `lwp_mutex_lock`, `lwp_mutex_unlock`). A lock of today enters it only to wait, or to wake who waits (futex(2)).
//! Another lock is held for longer than today's, a server takes time between two writes and for each connection, and
//! processor time for each request. Exists to be measured.

use crate::clock;
use rustix::thread::futex;
use std::cell::Cell;
use std::hint;
use std::sync::atomic::AtomicU32;
use units::Duration;

/// Makes the calls of `locks` free locks: one to lock and one to unlock each. Nobody waits for them, so nobody is woken.
pub fn enter_for(locks: u32) {
    static FREE: AtomicU32 = AtomicU32::new(0);
    for _ in 0..locks.saturating_mul(2) {
        let woken = futex::wake(&FREE, futex::Flags::PRIVATE, 1);
        debug_assert_eq!(woken, Ok(0), "nobody waits for a lock that is free");
    }
}

/// Keeps this thread busy for at least `time` by the clock, while its caller holds a lock, between two writes, or after it
/// accepts a connection: waiting asleep would free the processor.
pub fn hold_for(time: Duration) {
    if time.is_zero() {
        return;
    }
    let until = clock::now() + time;
    while clock::now() < until {
        hint::spin_loop();
    }
}

thread_local! {
    /// What is to be spent after a lock is released; `None` while this thread may spend at once.
    static UNSPENT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Spends at least `time` of the processor before a request is answered. While other threads have the processor, no time
/// is spent: by the clock, threads that take turns on one processor would all spend theirs at once.
pub fn spend_for(time: Duration) {
    if time.is_zero() {
        return;
    }
    match UNSPENT.get() {
        Some(unspent) => UNSPENT.set(Some(unspent.saturating_add(time))),
        None => spend_now(time),
    }
}

/// Runs `locked`, which takes a lock and releases it. What [`spend_for`] is asked for meanwhile is spent afterwards:
/// otherwise, threads that share the lock would have one processor between them.
pub(crate) fn spend_after<T>(locked: impl FnOnce() -> T) -> T {
    UNSPENT.set(Some(Duration::ZERO));
    let result = locked();
    // After a panic of `locked`, the next call begins anew.
    spend_now(UNSPENT.take().unwrap_or_default());
    result
}

fn spend_now(time: Duration) {
    if time.is_zero() {
        return;
    }
    let until = clock::thread_cpu() + time;
    loop {
        let left = until.saturating_sub(clock::thread_cpu());
        if left.is_zero() {
            return;
        }
        // A thread never has more of the processor than time passes.
        hold_for(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_as_long_as_it_should_be() {
        for time in [Duration::ZERO, Duration::from_micros(300)] {
            let start = clock::now();
            hold_for(time);
            assert!(clock::now().since(start) >= time, "{time:?}");
        }
    }

    /// Eight threads on the processors of this machine, which may be fewer: each has its own time, whoever waits.
    #[test]
    fn each_thread_spends_its_own_time_of_the_processor() {
        const EACH: Duration = Duration::from_millis(5);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let before = clock::thread_cpu();
                    spend_for(EACH);
                    assert!(clock::thread_cpu().saturating_sub(before) >= EACH);
                    spend_for(Duration::ZERO);
                });
            }
        });
    }

    /// What is asked for under a lock is spent when the lock is free.
    #[test]
    fn nothing_is_spent_under_a_lock() {
        const EACH: Duration = Duration::from_millis(5);
        let before = clock::thread_cpu();
        let under_lock = spend_after(|| {
            spend_for(EACH);
            spend_for(EACH);
            UNSPENT.get()
        });
        assert_eq!(under_lock, Some(EACH + EACH), "unspent, both of them");
        assert!(clock::thread_cpu().saturating_sub(before) >= EACH + EACH);
        assert_eq!(UNSPENT.get(), None);
    }

    #[test]
    fn free_locks_wait_for_nobody() {
        super::enter_for(0);
        super::enter_for(40);
    }
}
