//! Wakes a thread that waits in `poll(2)` or `epoll_wait(2)`: an `eventfd(2)`.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;

/// Rung from any thread; readable until it is silenced.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// A bell that nobody has rung.
    ///
    /// # Errors
    /// Those of `eventfd(2)`: no descriptor or memory is left.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes the descriptor readable until [`Bell::silence`].
    pub fn ring(&self) {
        // Refused only when it has been rung 2^64 times.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Makes the descriptor unreadable until the bell rings again.
    pub fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0u8; 8]);
    }

    /// The descriptor to wait for.
    pub fn fd(&self) -> &OwnedFd {
        &self.0
    }
}
