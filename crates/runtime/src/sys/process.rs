//! Forking, and blocked signals that are taken synchronously.

use rustix::process::Pid;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use units::Duration;

/// Forks this process: `None` in the copy, its PID in the original.
///
/// # Errors
/// The system's, and `Unsupported` if this process has more than one thread: the copy has only the calling thread, and
/// locks held by others would stay locked in it forever.
pub fn fork() -> io::Result<Option<Pid>> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        let why = "a process with several threads cannot be copied";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    // SAFETY: there is one thread, as was just seen, and it is here: nobody else can start one or hold a
    // lock, so that the copy is a whole process in which everything may be called.
    let number = unsafe { libc::fork() };
    match number {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(Pid::from_raw(number)),
    }
}

pub(super) fn set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: a signal set is plain memory, for which all zeros is a value; sigemptyset and sigaddset write
    // only to it and refuse numbers that are no signals.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

/// Blocks these signals for this thread and those it starts.
pub fn block(signals: &[i32]) -> io::Result<()> {
    change(libc::SIG_BLOCK, signals)
}

/// Unblocks these signals; pending ones act now.
pub fn unblock(signals: &[i32]) -> io::Result<()> {
    change(libc::SIG_UNBLOCK, signals)
}

fn change(how: i32, signals: &[i32]) -> io::Result<()> {
    let set = set(signals);
    // SAFETY: the set is a live value; nothing is asked back.
    match unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Takes one of these blocked signals, after at most this long.
pub fn next_signal(signals: &[i32], at_most: Option<Duration>) -> io::Result<Option<i32>> {
    let set = set(signals);
    let timeout = at_most.map(|span| libc::timespec {
        tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: libc::c_long::from(span.subsec_nanos()),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: set and timeout are live values, or the timeout null, which means without end.
    let number = unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), timeout) };
    if number > 0 {
        return Ok(Some(number));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(None),
        _ => Err(error),
    }
}

/// A descriptor that is readable while one of these blocked signals is pending. [`next_signal`] still takes them.
pub(crate) fn signal_descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = set(signals);
    // SAFETY: the set is a live value that is only read; -1 asks for a new descriptor.
    match unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the kernel has just made it, and nobody else has it.
        number => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
    }
}
