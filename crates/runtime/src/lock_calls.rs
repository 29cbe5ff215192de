//! The system calls of locks that enter the kernel even if they are free, as document 002 traced them (Table 2:
//! `lwp_mutex_lock`, `lwp_mutex_unlock`). A lock of today enters it only to wait, or to wake who waits (futex(2)).
//! Another lock is held for longer than today's, and a server takes time between two writes, for each connection and for
//! each request. Exists to be measured.

use crate::clock;
use rustix::thread::futex;
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

/// Keeps this thread busy for at least `time`, while its caller holds a lock, between two writes, after it accepts a
/// connection, or before it answers a request: waiting asleep would free the processor.
pub fn hold_for(time: Duration) {
    if time.is_zero() {
        return;
    }
    let until = clock::now() + time;
    while clock::now() < until {
        hint::spin_loop();
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

    #[test]
    fn free_locks_wait_for_nobody() {
        super::enter_for(0);
        super::enter_for(40);
    }
}
