//! Files below a root that no path can leave.

/// An open file with the metadata it had when it was opened.
#[derive(Debug)]
pub struct File {
    _fd: std::os::fd::OwnedFd,
}
