//! Descriptors at fixed numbers: those that were open before this program began, and those that a child finds open.

use rustix::io::fcntl_dupfd_cloexec;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Takes a descriptor left open across exec for this program. Each can be taken once.
pub(crate) fn take_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: asks about a number only; one that is not open is an error.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    if !taken.insert(number) {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "this descriptor was already taken",
        ));
    }
    // SAFETY: it is open, and by the protocol of sd_listen_fds(3) nobody in this process owns it; TAKEN
    // makes sure that it gets no second owner here.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Copies of descriptors that a child gets are above the numbers that it gets them at.
const COPIES_FROM: RawFd = 16;

/// Numbers that are taken in this process while the child is started.
#[derive(Debug)]
pub(crate) struct Reserved {
    _numbers: [OwnedFd; 2],
}

/// Gives the child `three` as descriptor 3 and `four` as descriptor 4. Keep the result until the child is started: otherwise
/// the standard library may use these numbers for the pipe over which a child reports that it cannot be started.
///
/// # Errors
/// The system's, if this process has too many files open.
pub(crate) fn pass_descriptors(
    command: &mut Command,
    three: impl AsFd,
    four: impl AsFd,
) -> io::Result<Reserved> {
    let copies = [
        fcntl_dupfd_cloexec(three.as_fd(), COPIES_FROM)?,
        fcntl_dupfd_cloexec(four.as_fd(), COPIES_FROM)?,
    ];
    let numbers = [
        fcntl_dupfd_cloexec(three.as_fd(), 3)?,
        fcntl_dupfd_cloexec(four.as_fd(), 3)?,
    ];
    let place = move || {
        for (copy, number) in copies.iter().zip(3..) {
            // SAFETY: a copy under another number, which the program that follows expects; it stays open across exec.
            if unsafe { libc::dup2(copy.as_raw_fd(), number) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: two system calls: nothing here allocates or takes a lock.
    unsafe { command.pre_exec(place) };
    Ok(Reserved { _numbers: numbers })
}
