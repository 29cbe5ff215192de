//! Whether this machine lets a process use io_uring, and if not, why: containers and administrators may forbid it, and
//! old kernels lack it. Decides which errors are a refusal (solved by another I/O back end) and which are failures.
//! Keeps no state.

use super::Out;
use super::uring::SIZES;
use crate::sys::Ring;
use std::fmt;

/// Why io_uring is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The kernel was built without it, or a seccomp filter pretends so (`ENOSYS`).
    Absent,
    /// A seccomp filter, a security module or `kernel.io_uring_disabled` forbids it (`EPERM`, `EACCES`).
    Forbidden,
    /// The kernel is older than Linux 6.1 and lacks a feature used here (`EINVAL`).
    TooOld,
    /// The process may not lock enough memory (`ENOMEM`).
    Memory,
}

impl Refusal {
    /// The refusal behind an errno of creating a ring; `None` if it is not a refusal (for example, no descriptors
    /// left).
    pub const fn of(errno: i32) -> Option<Refusal> {
        match errno {
            libc::ENOSYS => Some(Refusal::Absent),
            libc::EPERM | libc::EACCES => Some(Refusal::Forbidden),
            libc::EINVAL => Some(Refusal::TooOld),
            libc::ENOMEM => Some(Refusal::Memory),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Absent => "this kernel has no io_uring, or a seccomp filter hides it (ENOSYS)",
            Refusal::Forbidden => {
                "a seccomp filter or kernel.io_uring_disabled forbids io_uring (EPERM or EACCES)"
            }
            Refusal::TooOld => "the io_uring of this kernel is too old: Linux 6.1 is needed (EINVAL)",
            Refusal::Memory => "no memory for io_uring (ENOMEM); raise `ulimit -l`",
        })
    }
}

impl std::error::Error for Refusal {}

/// Creates a ring as a worker would, enters it once, and drops it: a filter may allow one of its three calls and forbid
/// another.
///
/// # Errors
/// The refusal. Other failures are not reported here, but when workers start.
pub fn try_uring() -> Result<(), Refusal> {
    let refusal = |error: std::io::Error| error.raw_os_error().and_then(Refusal::of);
    // In a thread of its own: when a ring is dropped, the kernel interrupts the thread that entered it. A caller's
    // later call with a timeout would fail with EINTR.
    let tried = std::thread::spawn(|| {
        let mut ring = Ring::<Out>::new(SIZES)?;
        ring.enable()?;
        ring.enter(false)
    });
    match tried.join().map(|tried| tried.map_err(refusal)) {
        Ok(Err(Some(refusal))) => Err(refusal),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_done_without_is_told_from_what_cannot() {
        for (errno, refusal, word) in [
            (libc::ENOSYS, Refusal::Absent, "ENOSYS"),
            (libc::EPERM, Refusal::Forbidden, "EPERM"),
            (libc::EACCES, Refusal::Forbidden, "EACCES"),
            (libc::EINVAL, Refusal::TooOld, "EINVAL"),
            (libc::ENOMEM, Refusal::Memory, "ENOMEM"),
        ] {
            assert_eq!(Refusal::of(errno), Some(refusal));
            assert!(refusal.to_string().contains(word), "{refusal}");
        }
        assert_eq!(Refusal::of(libc::EMFILE), None);
    }
}
