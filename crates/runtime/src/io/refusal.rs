//! Whether this machine lets a process use io_uring, and if not, why: containers and careful
//! administrators forbid it, old kernels lack it. Decides what counts as a refusal (to which another I/O
//! strategy is the answer) and what as a failure; tries, and keeps nothing.

use super::uring::SIZES;
use crate::sys::Ring;
use std::fmt;

/// Why io_uring is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The kernel was built without it, or a seccomp filter says so (`ENOSYS`).
    Absent,
    /// A seccomp filter, a security module or `kernel.io_uring_disabled` forbids it (`EPERM`, `EACCES`).
    Forbidden,
    /// The kernel is older than Linux 6.1 and lacks a part that is used here (`EINVAL`).
    TooOld,
    /// The memory this process may lock does not suffice (`ENOMEM`).
    Memory,
}

impl Refusal {
    /// What an errno of setting a ring up means; `None` for one that is no refusal (no descriptors left).
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

/// Sets a ring up as a worker would, enters it once, and takes it down again: a filter may allow one of
/// its three calls and forbid another.
///
/// # Errors
/// Why that was refused. Other failures are not reported here: they will be when workers start.
pub fn try_uring() -> Result<(), Refusal> {
    let refusal = |error: std::io::Error| error.raw_os_error().and_then(Refusal::of);
    // On a thread of its own: when a ring is gone the kernel interrupts the thread that entered it, and a
    // call of the caller's that waits with a timeout would fail with EINTR.
    let tried = std::thread::spawn(|| {
        let mut ring = Ring::new(SIZES)?;
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
