//! What a service manager (systemd) and this process tell each other: sockets passed at start, the state
//! of the service, signs of life. The protocols are those of `sd_listen_fds(3)` and `sd_notify(3)`.
//!
//! Decides nothing: whoever is not run by such a manager says everything into the void.

use crate::sys;
use sd_notify::NotifyState;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Something the service manager should know.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// It serves, or does again after a reload.
    Ready,
    /// It reads its configuration again. The time, which the protocol wants, is added.
    Reloading,
    /// It drains.
    Stopping,
    /// Another process is the service from now on.
    MainPid(u32),
    /// One line for a person.
    Status(&'a str),
    /// It is alive.
    Alive,
}

/// Tells the service manager, if there is one. That it cannot be told is no reason to stop serving.
pub fn tell(news: &[News<'_>]) {
    let mut state = Vec::with_capacity(news.len() + 1);
    for one in news {
        if let News::Reloading = one {
            state.extend(NotifyState::monotonic_usec_now());
        }
        state.push(match *one {
            News::Ready => NotifyState::Ready,
            News::Reloading => NotifyState::Reloading,
            News::Stopping => NotifyState::Stopping,
            News::MainPid(pid) => NotifyState::MainPid(pid),
            News::Status(line) => NotifyState::Status(line),
            News::Alive => NotifyState::Watchdog,
        });
    }
    if let Err(error) = sd_notify::notify(&state) {
        tracing::warn!("cannot notify the service manager: {error}; the socket in NOTIFY_SOCKET is gone");
    }
}

/// Whether the service manager listens at an abstract UNIX socket, which has no file.
pub fn is_at_abstract_socket() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some_and(|name| name.as_encoded_bytes().starts_with(b"@"))
}

/// How often the service manager wants a sign of life at the least, if it wants any.
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|interval| !interval.is_zero())
}

/// The sockets that the service manager passed to this process, with their names. They are this
/// process's alone from then on; a second call would find none of them.
///
/// # Errors
/// `LISTEN_FDS` and its companions contradict themselves or what is open.
pub fn passed_sockets() -> io::Result<Vec<(String, OwnedFd)>> {
    sd_notify::listen_fds_with_names()?
        .map(|(number, name)| Ok((name, sys::take_descriptor(number)?)))
        .collect()
}
