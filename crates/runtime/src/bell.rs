//! Wakes a thread that waits in `poll(2)` or `epoll_wait(2)`: an `eventfd(2)`.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;

/// Rung from any thread; readable until it is silenced.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    /// # Errors
    /// What the system says to a new descriptor.
    pub(crate) fn new() -> io::Result<Bell> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn ring(&self) {
        // Refused only when it has been rung 2^64 times.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }
}
