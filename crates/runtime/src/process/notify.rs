//! Communication with a service manager (systemd): sockets passed at start, the state of the service, watchdog
//! messages. The protocols are those of `sd_listen_fds(3)` and `sd_notify(3)`.
//!
//! Decides nothing: without a service manager, messages have no effect.

use crate::sys;
use sd_notify::NotifyState;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A message to the service manager.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// The service is up, or up again after a reload.
    Ready,
    /// It reloads its configuration. The timestamp that the protocol requires is added.
    Reloading,
    /// It drains.
    Stopping,
    /// Another process is the service from now on.
    MainPid(u32),
    /// A status line for people.
    Status(&'a str),
    /// The watchdog message.
    Alive,
}

/// Notifies the service manager, if there is one. A failure does not stop the service.
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

/// The maximum interval between watchdog messages, if the service manager expects any.
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|interval| !interval.is_zero())
}

/// The sockets passed by the service manager, with their names. Afterwards they belong to this process alone; a second
/// call finds none.
///
/// # Errors
/// If `LISTEN_FDS` and its companions contradict each other or the open descriptors.
pub fn passed_sockets() -> io::Result<Vec<(String, OwnedFd)>> {
    sd_notify::listen_fds_with_names()?
        .map(|(number, name)| Ok((name, sys::take_descriptor(number)?)))
        .collect()
}
