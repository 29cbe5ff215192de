//! Descriptors that were open before this program began.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
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
