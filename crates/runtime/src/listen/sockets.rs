//! The sockets of an address, so that all of them can be handed to another process.
//!
//! Decides nothing about the handover. Sockets in service belong to the workers that accept from them; here are only
//! weak references, so that draining closes the sockets.

use super::Address;
use crate::sys;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Origin of the sockets of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This program, or its predecessor, bound the requested address. Its port may be 0.
    Bound(Address),
    /// There are more of them than workers: no further ones join.
    Surplus(Address),
    /// A service manager opened it and keeps it when this process ends.
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
    /// No worker accepts from it yet.
    Waiting(Arc<OwnedFd>),
    /// Open while a worker accepts from it.
    Serving(Weak<OwnedFd>),
}

impl Sockets {
    pub(super) fn new(origin: Origin, first: &Arc<OwnedFd>) -> Sockets {
        Sockets {
            origin,
            all: Arc::new(Mutex::new(vec![Socket::Serving(Arc::downgrade(first))])),
        }
    }

    /// Their origin.
    pub fn origin(&self) -> Origin {
        self.origin.clone()
    }

    /// Their address, with the port chosen by the system; `None` if all are closed.
    pub fn address(&self) -> Option<Address> {
        let living = self.living();
        Address::of(&rustix::net::getsockname(living.first()?).ok()?)
    }

    /// All open sockets.
    pub fn living(&self) -> Vec<Arc<OwnedFd>> {
        self.all()
            .iter()
            .filter_map(|socket| match socket {
                Socket::Waiting(fd) => Some(Arc::clone(fd)),
                Socket::Serving(fd) => fd.upgrade(),
            })
            .collect()
    }

    /// Makes the kernel accept no further handshakes on these sockets; connections already begun must still be
    /// accepted. Sockets of a service manager outlive this process and are not changed: their queue belongs to the next
    /// process. Other processes that share the sockets get no connections either.
    pub fn admit_no_more(&self) {
        // A Unix socket has no handshakes.
        if let Origin::Bound(Address::Tcp(_)) | Origin::Surplus(Address::Tcp(_)) = &self.origin {
            for fd in self.living() {
                // If this is refused, the last clients to connect may find no server.
                let _ = sys::drop_syns(fd.as_fd());
            }
        }
    }

    /// Whether further sockets may be opened beside these.
    pub(super) fn may_grow(&self) -> bool {
        // A path has one socket.
        matches!(self.origin, Origin::Bound(Address::Tcp(_)))
    }

    pub(super) fn waiting(&self) -> usize {
        let is_waiting = |socket: &&Socket| matches!(socket, Socket::Waiting(_));
        self.all().iter().filter(is_waiting).count()
    }

    pub(super) fn put(&self, fd: Arc<OwnedFd>) {
        self.all().push(Socket::Waiting(fd));
    }

    /// Takes a waiting socket; the caller owns it from now on.
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
