//! Which sockets an address has, so that all of them can be handed to another process.
//!
//! Decides nothing about handing over. Sockets that serve are held by whoever accepts from them; here
//! they are only remembered, so that draining closes them.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Where the sockets of an address come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This program, or the one before it, bound the address that was asked for. Its port may be 0.
    Bound(SocketAddr),
    /// More of them than there are workers: no further ones join.
    Surplus(SocketAddr),
    /// A service manager opened it and keeps it when this process is gone.
    Passed,
}

/// The sockets of one address.
#[derive(Clone, Debug)]
pub struct Sockets {
    origin: Origin,
    all: Arc<Mutex<Vec<Socket>>>,
}

#[derive(Debug)]
enum Socket {
    /// Nobody accepts from it yet.
    Waiting(Arc<OwnedFd>),
    /// Lives as long as somebody accepts from it.
    Serving(Weak<OwnedFd>),
}

impl Sockets {
    pub(super) fn new(origin: Origin, first: &Arc<OwnedFd>) -> Sockets {
        Sockets {
            origin,
            all: Arc::new(Mutex::new(vec![Socket::Serving(Arc::downgrade(first))])),
        }
    }

    /// Where they come from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Where they listen, with the port the system chose; none if all are closed.
    pub fn address(&self) -> Option<SocketAddr> {
        let living = self.living();
        let name = rustix::net::getsockname(living.first()?).ok()?;
        SocketAddr::try_from(name).ok()
    }

    /// All that are open.
    pub fn living(&self) -> Vec<Arc<OwnedFd>> {
        self.all()
            .iter()
            .filter_map(|socket| match socket {
                Socket::Waiting(fd) => Some(Arc::clone(fd)),
                Socket::Serving(fd) => fd.upgrade(),
            })
            .collect()
    }

    /// Whether further sockets may be opened beside these.
    pub(super) fn may_grow(&self) -> bool {
        matches!(self.origin, Origin::Bound(_))
    }

    pub(super) fn waiting(&self) -> usize {
        let is_waiting = |socket: &&Socket| matches!(socket, Socket::Waiting(_));
        self.all().iter().filter(is_waiting).count()
    }

    pub(super) fn put(&self, fd: Arc<OwnedFd>) {
        self.all().push(Socket::Waiting(fd));
    }

    /// One that waits, which the caller holds from now on.
    pub(super) fn take(&self) -> Option<Arc<OwnedFd>> {
        self.all().iter_mut().find_map(|socket| {
            let Socket::Waiting(fd) = socket else { return None };
            let fd = Arc::clone(fd);
            *socket = Socket::Serving(Arc::downgrade(&fd));
            Some(fd)
        })
    }

    pub(super) fn joined(&self, fd: &Arc<OwnedFd>) {
        let mut all = self.all();
        all.retain(|socket| !matches!(socket, Socket::Serving(fd) if fd.strong_count() == 0));
        all.push(Socket::Serving(Arc::downgrade(fd)));
    }

    fn all(&self) -> MutexGuard<'_, Vec<Socket>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
