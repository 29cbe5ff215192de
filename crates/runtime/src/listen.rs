//! Listening sockets, with the options every strategy wants.
//!
//! Accepted sockets inherit `TCP_NODELAY`, so it is set once here and not per connection.

use crate::sys;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// How to listen.
#[derive(Clone, Copy, Debug)]
pub struct Listening {
    /// Connections the kernel may hold before they are accepted; it caps this at
    /// `net.core.somaxconn`.
    pub backlog: u32,
    /// Several sockets on one address, each with its own queue (`SO_REUSEPORT`): the kernel spreads
    /// connections over them without a shared lock.
    pub shared_port: bool,
    /// Wake the server only when the first bytes are here (`TCP_DEFER_ACCEPT`): one wake-up less for
    /// each new connection.
    pub defer_accept: bool,
}

impl Default for Listening {
    fn default() -> Listening {
        Listening {
            backlog: 4096,
            shared_port: false,
            defer_accept: true,
        }
    }
}

/// A socket that listens, not blocking.
#[derive(Clone, Debug)]
pub struct Listener {
    fd: Arc<OwnedFd>,
    address: SocketAddr,
}

impl Listener {
    /// Listens on `address`; with port 0 the system chooses one.
    ///
    /// # Errors
    /// What the system says: the address is in use, is not this machine's, or the port needs privilege.
    pub fn bind(address: SocketAddr, how: Listening) -> std::io::Result<Listener> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        // A restart must not wait for the last connections' TIME_WAIT.
        sockopt::set_socket_reuseaddr(&fd, true)?;
        if how.shared_port {
            sockopt::set_socket_reuseport(&fd, true)?;
        }
        if address.is_ipv6() {
            // `[::]` means IPv6; whoever wants both lists both, and none takes the other's port.
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        sockopt::set_tcp_nodelay(&fd, true)?;
        if how.defer_accept {
            // An optimization: where it is refused, the first receive merely finds nothing.
            let _ = sys::set_tcp_defer_accept(fd.as_fd(), 1);
        }
        rustix::net::bind(&fd, &address)?;
        rustix::net::listen(&fd, i32::try_from(how.backlog).unwrap_or(i32::MAX))?;
        let address = SocketAddr::try_from(rustix::net::getsockname(&fd)?).map_err(|_| Errno::AFNOSUPPORT)?;
        Ok(Listener {
            fd: Arc::new(fd),
            address,
        })
    }

    /// Where it listens, with the port the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(address: &str, shared_port: bool) -> std::io::Result<Listener> {
        Listener::bind(
            address.parse().unwrap(),
            Listening {
                shared_port,
                ..Listening::default()
            },
        )
    }

    #[test]
    fn a_port_is_chosen_and_told_and_can_be_shared_or_not() {
        let first = bind("127.0.0.1:0", true).unwrap();
        assert_ne!(first.address().port(), 0);
        let address = first.address().to_string();
        assert_eq!(bind(&address, true).unwrap().address(), first.address());
        let error = bind(&address, false).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    }

    #[test]
    fn both_families_may_have_the_same_port() {
        let Ok(six) = bind("[::]:0", false) else {
            println!("skipped: this machine has no IPv6");
            return;
        };
        let four = format!("0.0.0.0:{}", six.address().port());
        assert_eq!(bind(&four, false).unwrap().address().port(), six.address().port());
    }
}
