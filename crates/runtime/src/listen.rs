//! Listening sockets, with the options every strategy wants.
//!
//! Accepted sockets inherit `TCP_NODELAY`, so it is set once here and not per connection.

mod owner;

pub use owner::{Owner, owner};

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
    /// Wake the server only when the first bytes are here (`TCP_DEFER_ACCEPT`): one wake-up less for
    /// each new connection.
    pub defer_accept: bool,
    /// `[::]` takes IPv4 connections too. Otherwise it means IPv6 only, so that `0.0.0.0` can have the
    /// same port.
    pub both_families: bool,
    /// Small segments leave at once (`TCP_NODELAY`), in place of Nagle's algorithm (RFC 896).
    pub no_delay: bool,
}

impl Default for Listening {
    fn default() -> Listening {
        Listening {
            backlog: 4096,
            defer_accept: true,
            both_families: false,
            no_delay: true,
        }
    }
}

/// Whose port a socket is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    /// One that nobody listens on.
    Own,
    /// One that another socket of this process listens on.
    OfAnother,
}

/// A socket that listens, not blocking.
///
/// Cheap to clone: clones are the same socket, which is closed with the last of them. Keeping one while
/// a strategy drains lets the next one take over without a connection being refused in between.
#[derive(Clone, Debug)]
pub struct Listener {
    fd: Arc<OwnedFd>,
    address: SocketAddr,
    how: Listening,
}

impl Listener {
    /// Listens on `address`; with port 0 the system chooses one.
    ///
    /// # Errors
    /// What the system says: the address is in use, is not this machine's, or the port needs privilege.
    pub fn bind(address: SocketAddr, how: Listening) -> std::io::Result<Listener> {
        Listener::open(address, how, Port::Own)
    }

    /// `count` sockets on this address, the first of them this one, each with its own queue: the kernel
    /// spreads connections over them, and workers that accept share no lock (`SO_REUSEPORT`).
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn shards(&self, count: usize) -> std::io::Result<Vec<Listener>> {
        let mut shards = vec![self.clone()];
        while shards.len() < count {
            shards.push(Listener::open(self.address, self.how, Port::OfAnother)?);
        }
        Ok(shards)
    }

    fn open(address: SocketAddr, how: Listening, port: Port) -> std::io::Result<Listener> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        // A restart must not wait for the last connections' TIME_WAIT.
        sockopt::set_socket_reuseaddr(&fd, true)?;
        if port == Port::OfAnother {
            sockopt::set_socket_reuseport(&fd, true)?;
        }
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&fd, !how.both_families)?;
        }
        sockopt::set_tcp_nodelay(&fd, how.no_delay)?;
        if how.defer_accept {
            // An optimization: where it is refused, the first receive merely finds nothing.
            let _ = sys::set_tcp_defer_accept(fd.as_fd(), 1);
        }
        rustix::net::bind(&fd, &address)?;
        // Only after the bind: a second server on the same port must be refused, not share it. From now
        // on shards may join.
        sockopt::set_socket_reuseport(&fd, true)?;
        rustix::net::listen(&fd, i32::try_from(how.backlog).unwrap_or(i32::MAX))?;
        let address = SocketAddr::try_from(rustix::net::getsockname(&fd)?).map_err(|_| Errno::AFNOSUPPORT)?;
        Ok(Listener {
            fd: Arc::new(fd),
            address,
            how,
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

    fn bind(address: &str) -> std::io::Result<Listener> {
        Listener::bind(address.parse().unwrap(), Listening::default())
    }

    #[test]
    fn shards_share_a_port_that_nobody_else_gets() {
        let first = bind("127.0.0.1:0").unwrap();
        assert_ne!(first.address().port(), 0);
        let shards = first.shards(3).unwrap();
        assert_eq!(shards.len(), 3);
        assert!(shards.iter().all(|shard| shard.address() == first.address()));
        // Each has a queue of its own: every connection is in exactly one.
        let clients: Vec<_> = (0..64)
            .map(|_| std::net::TcpStream::connect(first.address()).unwrap())
            .collect();
        for client in &clients {
            std::io::Write::write_all(&mut &*client, b"x").unwrap();
        }
        let used = shards.iter().filter(|shard| readable(shard)).count();
        assert_eq!(used, 3);
        let error = bind(&first.address().to_string()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    }

    #[test]
    fn accepted_sockets_inherit_whether_small_segments_wait() {
        for no_delay in [true, false] {
            let how = Listening {
                no_delay,
                defer_accept: false,
                ..Listening::default()
            };
            let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), how).unwrap();
            let _client = std::net::TcpStream::connect(listener.address()).unwrap();
            assert!(readable(&listener));
            let (accepted, _) = crate::io::accept(listener.fd()).unwrap().unwrap();
            assert_eq!(sockopt::tcp_nodelay(&accepted), Ok(no_delay));
        }
    }

    fn readable(listener: &Listener) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let second = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        poll(&mut [PollFd::new(listener.fd(), PollFlags::IN)], Some(&second)) == Ok(1)
    }

    #[test]
    fn both_families_may_have_the_same_port() {
        let Ok(six) = bind("[::]:0") else {
            println!("skipped: this machine has no IPv6");
            return;
        };
        let four = format!("0.0.0.0:{}", six.address().port());
        assert_eq!(bind(&four).unwrap().address().port(), six.address().port());
        let both = Listening {
            both_families: true,
            ..Listening::default()
        };
        let both = Listener::bind("[::]:0".parse().unwrap(), both).unwrap();
        std::net::TcpStream::connect(("127.0.0.1", both.address().port())).unwrap();
    }
}
