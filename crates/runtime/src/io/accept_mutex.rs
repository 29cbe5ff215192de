//! A lock around accept, as in servers of document 002: Apache and Zeus had one between processes, Enterprise between
//! threads. Weir needs none; this measures its cost.
//!
//! Between threads, it is a mutex. Between processes, it is an advisory lock on the listening socket itself, as those
//! servers used on a file: the kernel releases it when its holder dies.

use super::socket;
use rustix::fs::{FlockOperation, fcntl_lock};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// Admits one worker at a time to accept.
#[derive(Clone, Debug)]
pub(crate) enum AcceptMutex {
    /// No lock.
    Open,
    /// A mutex shared by the threads.
    Threads(Arc<Mutex<()>>),
    /// An advisory lock shared by the processes that have the listener.
    Processes,
}

impl AcceptMutex {
    /// Accepts a waiting connection, as [`socket::accept`] does.
    pub(crate) fn accept(&self, listener: &OwnedFd) -> Result<Option<(OwnedFd, SocketAddr)>, i32> {
        match self {
            AcceptMutex::Open => socket::accept(listener),
            AcceptMutex::Threads(lock) => {
                let _through = lock.lock().unwrap_or_else(PoisonError::into_inner);
                socket::accept(listener)
            }
            AcceptMutex::Processes => {
                fcntl_lock(listener, FlockOperation::LockExclusive).map_err(|e| e.raw_os_error())?;
                let accepted = socket::accept(listener);
                // Fails only for an invalid descriptor.
                let _ = fcntl_lock(listener, FlockOperation::Unlock);
                accepted
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::{Listener, Listening};

    #[test]
    fn each_kind_lets_a_connection_through_once() {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), Listening::default()).unwrap();
        for accept_mutex in [
            AcceptMutex::Open,
            AcceptMutex::Threads(Arc::default()),
            AcceptMutex::Processes,
        ] {
            let client = std::net::TcpStream::connect(listener.address()).unwrap();
            std::io::Write::write_all(&mut &client, b"x").unwrap();
            let accepted = loop {
                // With deferred accept, the connection appears with its first byte.
                if let Some(accepted) = accept_mutex.accept(listener.fd()).unwrap() {
                    break accepted;
                }
            };
            assert_eq!(accepted.1, client.local_addr().unwrap());
            assert!(accept_mutex.accept(listener.fd()).unwrap().is_none());
        }
    }
}
