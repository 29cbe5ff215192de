//! The sockets of an address, so that all of them can be handed to another process.
//!
//! Decides nothing about the handover. Sockets in service belong to the workers that accept from them; here are only
//! weak references, so that draining closes the sockets. The exception are sockets that a process keeps for another
//! attempt after it has handed them over ([`Sockets::keep`]):
//!
//! ```text
//!   KEPT, another process accepts ── it is gone: refuse ──▶ BOUND, nobody is connected
//!                   ▲                                          │
//!                   └──────── another is to accept: listen ────┘ or fails, if a third process listens there by now
//! ```

use super::{Address, Listening};
use crate::sys;
use rustix::io::Errno;
use rustix::net::{Shutdown, sockopt};
use std::io;
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

    /// The sockets that listen, kept open by this value until it is dropped, also if their workers close them.
    #[must_use]
    pub fn keep(&self) -> Sockets {
        let mut living = self.living();
        living.retain(|fd| sockopt::socket_acceptconn(fd).unwrap_or(false));
        Sockets {
            origin: self.origin.clone(),
            all: Arc::new(Mutex::new(living.into_iter().map(Socket::Waiting).collect())),
        }
    }

    /// For sockets from [`Sockets::keep`] that no process accepts from any more: clients are refused instead of kept waiting,
    /// and a program that is started anew gets the address. The sockets stay bound, because a process without rights could
    /// not bind them again. Clients of Unix sockets wait: these cannot listen a second time. Sockets of a service manager
    /// are not changed, because it has them, too.
    pub fn refuse(&self) {
        if let Origin::Bound(Address::Tcp(_)) | Origin::Surplus(Address::Tcp(_)) = &self.origin {
            for fd in self.living() {
                // Fails for one that does not listen.
                let _ = rustix::net::shutdown(&fd, Shutdown::Read);
            }
        }
    }

    /// Has the kernel take connections again at sockets that [`Sockets::refuse`] has refused them at. Without effect on others.
    ///
    /// # Errors
    /// `AddrInUse` if another program listens there by now; `AddrNotAvailable` if the system has taken the port back.
    pub fn listen(&self) -> io::Result<()> {
        let mut refusing = self.living();
        refusing.retain(|fd| !sockopt::socket_acceptconn(fd).unwrap_or(true));
        let how = Listening::default();
        for fd in &refusing {
            let before = rustix::net::getsockname(fd)?;
            // With this option, the kernel would let it share the port with another program of the same user.
            sockopt::set_socket_reuseport(fd, false)?;
            let alone = how.listen(fd);
            let _ = rustix::net::shutdown(fd, Shutdown::Read);
            sockopt::set_socket_reuseport(fd, true)?;
            alone?;
            if rustix::net::getsockname(fd)? != before {
                return Err(Errno::ADDRNOTAVAIL.into());
            }
        }
        refusing.iter().try_for_each(|fd| how.listen(fd))
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

#[cfg(test)]
mod tests {
    use super::super::Listener;
    use super::*;
    use std::io::ErrorKind;
    use std::net::TcpStream;

    fn bind(address: &str) -> Listener {
        Listener::bind(address.parse().unwrap(), Listening::default()).unwrap()
    }

    #[test]
    fn kept_sockets_refuse_and_listen_again() {
        let first = bind("127.0.0.1:0");
        let shards = first.shards(2).unwrap();
        let address = first.address().tcp().unwrap();
        let kept = first.sockets().keep();
        drop((first, shards));
        assert_eq!(kept.living().len(), 2, "they stay open");
        let waiting = TcpStream::connect(address).expect("they listen");
        kept.refuse();
        drop(waiting);
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        // A program that is started anew has the address, and does not share it.
        let anew = bind(&address.to_string());
        let shards = anew.shards(2).unwrap();
        for _ in 0..2 {
            assert_eq!(kept.listen().unwrap_err().kind(), ErrorKind::AddrInUse);
            assert!(
                kept.living()
                    .iter()
                    .all(|fd| !sockopt::socket_acceptconn(fd).unwrap())
            );
        }
        drop((anew, shards));
        kept.listen().unwrap();
        assert_eq!(kept.address(), Some(address.into()));
        for fd in kept.living() {
            assert!(sockopt::socket_acceptconn(&fd).unwrap());
            assert!(sockopt::socket_reuseport(&fd).unwrap());
        }
        TcpStream::connect(address).expect("they listen again");
        drop(kept);
        TcpStream::connect(address).expect_err("they are closed");
    }

    #[test]
    fn unix_sockets_and_those_of_a_service_manager_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let unix = bind(&format!("unix:{}", path.display()));
        let kept = unix.sockets().keep();
        drop(unix);
        std::os::unix::net::UnixStream::connect(&path).expect("it listens");
        kept.refuse();
        std::os::unix::net::UnixStream::connect(&path).expect("it listens");
        kept.listen().expect("nothing to do");
        drop(kept);
        std::os::unix::net::UnixStream::connect(&path).expect_err("it is closed");
        let passed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = passed.local_addr().unwrap();
        let listener = Listener::adopt(Origin::Passed, vec![passed.into()], Listening::default()).unwrap();
        listener.sockets().keep().refuse();
        TcpStream::connect(address).expect("it listens");
    }
}
