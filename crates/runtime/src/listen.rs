//! Listening sockets: bound once, shared by all workers.
//!
//! Decides socket options and what a failure to bind is called. Workers share one socket per address
//! (woken one at a time by the kernel), so an address that is taken is an error, never a silent split
//! of its connections between two programs, which `SO_REUSEPORT` would allow.

mod owner;

pub use owner::{Owner, owner};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Connections that may wait to be accepted; the kernel lowers it to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// A socket that listens.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Where it really listens: a port asked for as 0 is known here.
    pub address: SocketAddr,
    /// The socket, non-blocking.
    pub socket: Arc<OwnedFd>,
}

/// An address that cannot be listened on.
#[derive(Debug)]
pub struct ListenError {
    /// The address asked for.
    pub address: SocketAddr,
    /// The system call that refused.
    pub call: &'static str,
    /// Its errno.
    pub cause: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot listen on {}: {}: {}",
            self.address, self.call, self.cause
        )
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// Listens on every address. `[::]` takes IPv4 too, unless `0.0.0.0` is in the list with the same port.
///
/// # Errors
/// The first address that is refused; nothing stays bound then.
pub fn bind(addresses: &[SocketAddr]) -> Result<Vec<Listener>, ListenError> {
    addresses
        .iter()
        .map(|&address| {
            let beside_v4 = |other: &SocketAddr| {
                other.is_ipv4() && other.ip().is_unspecified() && other.port() == address.port()
            };
            bind_one(address, !addresses.iter().any(beside_v4))
        })
        .collect()
}

fn bind_one(address: SocketAddr, dual: bool) -> Result<Listener, ListenError> {
    let failed = |call| move |cause| ListenError { address, call, cause };
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket =
        Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP)).map_err(failed("socket"))?;
    // A restart must not wait for connections of the last run to leave TIME_WAIT.
    socket.set_reuse_address(true).map_err(failed("SO_REUSEADDR"))?;
    if address.is_ipv6() {
        socket
            .set_only_v6(!(dual && address.ip().is_unspecified()))
            .map_err(failed("IPV6_V6ONLY"))?;
    }
    // Accepted sockets inherit it: a small answer must not wait for the acknowledgment of another.
    socket.set_tcp_nodelay(true).map_err(failed("TCP_NODELAY"))?;
    socket.bind(&address.into()).map_err(failed("bind"))?;
    socket.listen(BACKLOG).map_err(failed("listen"))?;
    let bound = socket.local_addr().map_err(failed("getsockname"))?;
    Ok(Listener {
        address: bound.as_socket().unwrap_or(address),
        socket: Arc::new(socket.into()),
    })
}

impl Listener {
    /// Whether accepting waits for a connection (for drivers that block) or says at once that there is
    /// none (for event loops).
    ///
    /// # Errors
    /// What `fcntl` says.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        SockRef::from(&*self.socket).set_nonblocking(nonblocking)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    fn any(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_free_port_is_known_and_answers() {
        let listeners = bind(&[any("127.0.0.1:0"), any("127.0.0.2:0")]).expect("free ports");
        for listener in &listeners {
            assert_ne!(listener.address.port(), 0);
            TcpStream::connect(listener.address).expect("a connection");
        }
    }

    #[test]
    fn a_taken_address_is_named() {
        let first = bind(&[any("127.0.0.1:0")]).expect("a free port");
        let error = bind(&[first[0].address]).expect_err("taken");
        assert_eq!(error.cause.kind(), io::ErrorKind::AddrInUse);
        assert!(
            error.to_string().contains(&first[0].address.to_string()),
            "{error}"
        );
    }

    #[test]
    fn every_address_takes_both_families_or_leaves_one() {
        let Ok(both) = bind(&[any("[::]:0")]) else {
            println!("skipped: no IPv6 on this machine");
            return;
        };
        let port = both[0].address.port();
        TcpStream::connect(("127.0.0.1", port)).expect("IPv4 through [::]");
        drop(both);
        let pair = [
            SocketAddr::new(any("0.0.0.0:0").ip(), port),
            SocketAddr::new(any("[::]:0").ip(), port),
        ];
        assert_eq!(
            bind(&pair)
                .map(|listeners| listeners.len())
                .map_err(|error| error.to_string()),
            Ok(2)
        );
    }
}
