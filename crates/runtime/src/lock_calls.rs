//! The system calls of locks that enter the kernel even if they are free, as document 002 traced them (Table 2:
//! `lwp_mutex_lock`, `lwp_mutex_unlock`). A lock of today enters it only to wait, or to wake who waits (futex(2)).
//! Exists to be measured.

use rustix::thread::futex;
use std::sync::atomic::AtomicU32;

/// Makes the calls of `locks` free locks: one to lock and one to unlock each. Nobody waits for them, so nobody is woken.
pub fn enter_for(locks: u32) {
    static FREE: AtomicU32 = AtomicU32::new(0);
    for _ in 0..locks.saturating_mul(2) {
        let woken = futex::wake(&FREE, futex::Flags::PRIVATE, 1);
        debug_assert_eq!(woken, Ok(0), "nobody waits for a lock that is free");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn free_locks_wait_for_nobody() {
        super::enter_for(0);
        super::enter_for(40);
    }
}
