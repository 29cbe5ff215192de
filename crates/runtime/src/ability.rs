//! What this machine allows this process to do, tried rather than guessed: each function does the thing once and undoes
//! it.
//!
//! Reports the system's answer; the caller decides what it means.

use crate::sys;
use std::io;

/// Whether a process may enter a user namespace of its own and create a network namespace there. Tried in a fork of
/// this process, which must have one thread.
///
/// # Errors
/// The system's.
pub fn user_and_network_namespace() -> io::Result<()> {
    let Some(pid) = sys::fork()? else {
        let tried = sys::unshare(true, true);
        let errno = tried.map_or_else(|error| error.raw_os_error().unwrap_or(255), |()| 0);
        std::process::exit(errno);
    };
    loop {
        let flags = rustix::process::WaitOptions::empty();
        match rustix::process::waitpid(Some(pid), flags) {
            Err(rustix::io::Errno::INTR) | Ok(None) => {}
            Err(error) => return Err(error.into()),
            Ok(Some((_, status))) => {
                return match status.exit_status() {
                    Some(0) => Ok(()),
                    Some(errno) => Err(io::Error::from_raw_os_error(errno)),
                    None => Err(io::Error::other("the trial process was killed")),
                };
            }
        }
    }
}

/// Whether packets of the loopback interface may be captured.
///
/// # Errors
/// The system's.
pub fn capture() -> io::Result<()> {
    sys::packet_socket(1, false).map(drop)
}

/// Whether this process may open TUN devices.
///
/// # Errors
/// The system's, for `/dev/net/tun`.
pub fn tun_device() -> io::Result<()> {
    let file = "/dev/net/tun";
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(file)
        .map(drop)
}

/// Landlock's ABI version.
///
/// # Errors
/// `ENOSYS` or `EOPNOTSUPP` without Landlock.
pub fn landlock() -> io::Result<u32> {
    sys::landlock_version()
}

/// Limit of open descriptors, now and after raising it as far as allowed; `None`: unlimited.
pub fn descriptors() -> (Option<u64>, Option<u64>) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    (limit.current, limit.maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trial_ends_and_says_something() {
        // Which of them succeed depends on the machine; that errors carry an errno does not.
        for tried in [capture(), tun_device(), landlock().map(drop)] {
            if let Err(error) = tried {
                assert!(error.raw_os_error().is_some(), "{error}");
            }
        }
        // A test has several threads, so it cannot fork.
        assert!(user_and_network_namespace().is_err());
        assert!(descriptors().0.is_none_or(|now| now > 0));
    }
}
