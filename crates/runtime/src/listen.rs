//! Listening sockets, of TCP and in the file system, with the options every strategy needs.
//!
//! Accepted sockets inherit `TCP_NODELAY`, so it is set here once and not per connection.
//!
//! One address may have several sockets, each with a queue of its own (`SO_REUSEPORT`). Closing one of them loses the
//! connections queued on it and its unfinished handshakes. A process that is succeeded by another therefore hands over
//! all of them: [`Listener::sockets`] knows those that are open.

mod address;
mod owner;
mod sockets;
mod unix;

pub use address::{Address, UNIX_PEER};
pub use owner::{Owner, owner, owner_of_datagrams};
pub use sockets::{Origin, Sockets};
pub use unix::FileRights;
pub(crate) use unix::set_rights;

use crate::sys;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use units::Duration;

/// The options of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Listening {
    /// Connections the kernel may hold before they are accepted. The kernel caps this at `net.core.somaxconn`.
    pub backlog: u32,
    /// Wake the server only when the first bytes arrive (`TCP_DEFER_ACCEPT`): one wake-up fewer per new connection. A
    /// silent connection is accepted after [`Listening::DEFERRED`].
    pub defer_accept: bool,
    /// `[::]` accepts IPv4 connections, too. Otherwise, it is IPv6 only, so that `0.0.0.0` can use the same port.
    pub both_families: bool,
    /// Small segments leave at once (`TCP_NODELAY`), without Nagle's algorithm (RFC 896).
    pub no_delay: bool,
    /// Send buffer of each connection in bytes (`SO_SNDBUF`); `None`: the kernel decides.
    pub send_buffer: Option<usize>,
    /// Spread output over a round trip instead of sending bursts (`SO_MAX_PACING_RATE`). This includes the time after
    /// an idle period: Visweswaraiah and Heidemann found in 1997 that pacing there is better than slow start.
    pub paced: bool,
    /// Maximum unsent bytes per connection in the kernel (`TCP_NOTSENT_LOWAT`); `None`: up to the send buffer's size.
    pub unsent: Option<usize>,
    /// Who may connect to a Unix socket. The other options, except `backlog`, are those of TCP.
    pub file: FileRights,
}

impl Listening {
    /// How long the kernel holds back a silent connection if accepting is deferred. The kernel does not report when the
    /// connection was made, so the server has to assume that this time has passed. It is the shortest possible: it is
    /// counted in retransmissions of the SYN-ACK, the first of which comes after a second (tcp(7)).
    pub const DEFERRED: Duration = Duration::from_secs(1);

    /// Has the kernel take connections at this socket. One that listens already keeps its connections.
    fn listen(&self, fd: &OwnedFd) -> std::io::Result<()> {
        let backlog = i32::try_from(self.backlog).unwrap_or(i32::MAX);
        Ok(rustix::net::listen(fd, backlog)?)
    }
}

impl Default for Listening {
    fn default() -> Listening {
        Listening {
            backlog: 4096,
            defer_accept: true,
            both_families: false,
            no_delay: true,
            send_buffer: None,
            paced: false,
            unsent: None,
            file: FileRights::default(),
        }
    }
}

/// The port a socket is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    /// No other socket listens on it.
    Own,
    /// Another socket of this process listens on it.
    OfAnother,
}

/// A non-blocking listening socket.
///
/// Cheap to clone: clones share the socket, which closes with the last of them. Keeping one while a strategy drains
/// lets the next strategy take over without refusing a connection in between.
#[derive(Clone, Debug)]
pub struct Listener {
    fd: Arc<OwnedFd>,
    address: Address,
    how: Listening,
    sockets: Sockets,
}

impl Listener {
    /// Listens on `address`; for port 0, the system chooses a port. A Unix socket that nobody listens on is replaced.
    ///
    /// # Errors
    /// The system's: the address is in use, is not this machine's, or the port needs privileges. `AlreadyExists` for a path
    /// with something else than a socket.
    pub fn bind(address: Address, how: Listening) -> std::io::Result<Listener> {
        let Address::Unix(path) = &address else {
            return Listener::open(&address, how, Port::Own);
        };
        let fd = Arc::new(unix::open(path, how.file, how)?);
        let sockets = Sockets::new(Origin::Bound(address.clone()), &fd);
        Ok(Listener {
            fd,
            address,
            how,
            sockets,
        })
    }

    /// Takes over sockets that already listen on one address: one opened by a service manager, or those of the previous
    /// process. There must be at least one. With [`Origin::Bound`], further ones may join them (see
    /// [`Listener::shards`]).
    ///
    /// # Errors
    /// `InvalidInput` for a descriptor that is not a listening stream socket, or the system's error when setting options.
    pub fn adopt(origin: Origin, fds: Vec<OwnedFd>, how: Listening) -> std::io::Result<Listener> {
        for fd in &fds {
            adopt_one(fd, how)?;
        }
        let mut fds = fds.into_iter().map(Arc::new);
        let Some(fd) = fds.next() else {
            return Err(std::io::Error::new(
                ErrorKind::InvalidInput,
                "no socket to take over",
            ));
        };
        let address = Address::of(&rustix::net::getsockname(&fd)?).ok_or(Errno::AFNOSUPPORT)?;
        let sockets = Sockets::new(origin, &fd);
        fds.for_each(|further| sockets.put(further));
        Ok(Listener {
            fd,
            address,
            how,
            sockets,
        })
    }

    /// Listens again on the sockets of an address, for a strategy that takes over from another: `queues` of them per
    /// listener, so that every socket has a worker that accepts. `None` if they are closed. `parts` are all parts of
    /// the address. There are several if an earlier strategy had fewer queues than there are sockets; the surplus comes
    /// last. Pass them together: one by one, each would be filled up with sockets of its own, more at every change.
    ///
    /// # Errors
    /// The system's, for a socket's address.
    pub fn again(parts: &[&Sockets], how: Listening, queues: usize) -> std::io::Result<Vec<Listener>> {
        let mut listeners = Vec::new();
        let Some(first) = parts.first() else {
            return Ok(listeners);
        };
        let mut origin = first.origin();
        let living: Vec<_> = parts.iter().flat_map(|sockets| sockets.living()).collect();
        for some in living.chunks(queues.max(1)) {
            let [fd, further @ ..] = some else { continue };
            let address = Address::of(&rustix::net::getsockname(fd)?).ok_or(Errno::AFNOSUPPORT)?;
            let sockets = Sockets::new(origin.clone(), fd);
            further.iter().for_each(|fd| sockets.put(Arc::clone(fd)));
            listeners.push(Listener {
                fd: Arc::clone(fd),
                address,
                how,
                sockets,
            });
            if let Origin::Bound(asked) = origin {
                origin = Origin::Surplus(asked);
            }
        }
        Ok(listeners)
    }

    /// Opens the sockets that [`Listener::shards`] of this count will need, while this process still has the right to. They get
    /// no connections before that: if the start fails, those would be lost to a process that serves beside this one.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn reserve(&self, count: usize) -> std::io::Result<()> {
        while self.sockets.may_grow() && self.sockets.waiting() + 1 < count {
            let further = Listener::bound(&self.address, self.how, Port::OfAnother)?;
            self.sockets.put(Arc::new(further));
        }
        Ok(())
    }

    /// `count` sockets on this address, the first of them this one, each with its own queue: the kernel distributes
    /// connections over them, and accepting workers share no lock (`SO_REUSEPORT`).
    ///
    /// Reserved sockets come first. A service manager's socket stays the only one, so that its queue survives this
    /// process; then all results are this one. The same holds after this process has given up the rights it bound the
    /// address with.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn shards(&self, count: usize) -> std::io::Result<Vec<Listener>> {
        let mut shards = vec![self.clone()];
        while shards.len() < count {
            shards.push(self.sibling()?);
        }
        Ok(shards)
    }

    fn sibling(&self) -> std::io::Result<Listener> {
        let of = |fd| Listener { fd, ..self.clone() };
        if let Some(waiting) = self.sockets.take() {
            // It may be reserved only. One that listens already goes on.
            self.how.listen(&waiting)?;
            return Ok(of(waiting));
        }
        if !self.sockets.may_grow() {
            return Ok(self.clone());
        }
        match Listener::open(&self.address, self.how, Port::OfAnother) {
            Ok(opened) => {
                self.sockets.joined(&opened.fd);
                Ok(of(opened.fd))
            }
            // The kernel lets only the user who opened the first socket open others beside it.
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::AddrInUse) => {
                tracing::warn!(
                    "no further socket may be opened on {} ({error}): workers share one",
                    self.address
                );
                Ok(self.clone())
            }
            Err(error) => Err(error),
        }
    }

    /// The sockets of this address, for handing them over to another process. Keeps none of them open, except those
    /// that wait for [`Listener::shards`].
    pub fn sockets(&self) -> Sockets {
        self.sockets.clone()
    }

    fn open(asked: &Address, how: Listening, port: Port) -> std::io::Result<Listener> {
        let fd = Listener::bound(asked, how, port)?;
        how.listen(&fd)?;
        let address = Address::of(&rustix::net::getsockname(&fd)?).ok_or(Errno::AFNOSUPPORT)?;
        let fd = Arc::new(fd);
        let sockets = Sockets::new(Origin::Bound(asked.clone()), &fd);
        Ok(Listener {
            fd,
            address,
            how,
            sockets,
        })
    }

    /// A socket at this address that does not listen yet.
    fn bound(asked: &Address, how: Listening, port: Port) -> std::io::Result<OwnedFd> {
        let address = asked.tcp().ok_or(Errno::AFNOSUPPORT)?;
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
        set_sending(&fd, how)?;
        if how.defer_accept {
            // An optimization: without it, the first receive merely finds nothing.
            let _ = sys::set_tcp_defer_accept(fd.as_fd(), Listening::DEFERRED);
        }
        match address.port() {
            0 => Listener::choose(&fd, address, how)?,
            _ => rustix::net::bind(&fd, &address)?,
        }
        // Only after the bind: a second server on the same port must be refused, not share it. From now on, shards may
        // join.
        sockopt::set_socket_reuseport(&fd, true)?;
        Ok(fd)
    }

    /// Binds a socket to a port that the system chooses. The port is bound by its number: the system would take back one that
    /// it chose as soon as the socket no longer listens ([`Sockets::refuse`]).
    fn choose(fd: &OwnedFd, address: SocketAddr, how: Listening) -> std::io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let chooser = rustix::net::socket_with(sockopt::socket_domain(fd)?, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&chooser, true)?;
        if address.is_ipv6() {
            sockopt::set_ipv6_v6only(&chooser, !how.both_families)?;
        }
        rustix::net::bind(&chooser, &address)?;
        // Both may have it, as neither listens.
        Ok(rustix::net::bind(fd, &rustix::net::getsockname(&chooser)?)?)
    }

    /// Its address, with the port chosen by the system.
    pub fn address(&self) -> Address {
        self.address.clone()
    }

    pub(crate) fn fd(&self) -> &Arc<OwnedFd> {
        &self.fd
    }
}

/// Sets send options, which connections inherit from the socket they are accepted from. The kernel doubles the buffer
/// for its own overhead.
fn set_sending(fd: &OwnedFd, how: Listening) -> std::io::Result<()> {
    if let Some(bytes) = how.send_buffer {
        sockopt::set_socket_send_buffer_size(fd, bytes)?;
    }
    if how.paced {
        sys::pace(fd.as_fd())?;
    }
    if let Some(bytes) = how.unsent {
        sys::bound_unsent(fd.as_fd(), bytes)?;
    }
    Ok(())
}

/// Gives a socket opened by another program the options of our listeners.
fn adopt_one(fd: &OwnedFd, how: Listening) -> std::io::Result<()> {
    let family = sockopt::socket_domain(fd)?;
    let is_ours = sockopt::socket_type(fd)? == SocketType::STREAM
        && matches!(
            family,
            AddressFamily::INET | AddressFamily::INET6 | AddressFamily::UNIX
        )
        && sockopt::socket_acceptconn(fd)?;
    if !is_ours {
        return Err(std::io::Error::new(
            ErrorKind::InvalidInput,
            "it is not a listening stream socket",
        ));
    }
    rustix::io::ioctl_fionbio(fd, true)?;
    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)?;
    if family == AddressFamily::UNIX {
        return Ok(());
    }
    sockopt::set_tcp_nodelay(fd, how.no_delay)?;
    set_sending(fd, how)?;
    if how.defer_accept {
        // An optimization, as in `bind`.
        let _ = sys::set_tcp_defer_accept(fd.as_fd(), Listening::DEFERRED);
    }
    Ok(())
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
    fn accepted_sockets_inherit_how_they_send() {
        for (no_delay, paced) in [(true, false), (false, true)] {
            let how = Listening {
                no_delay,
                paced,
                defer_accept: false,
                ..Listening::default()
            };
            let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), how).unwrap();
            let _client = std::net::TcpStream::connect(listener.address()).unwrap();
            assert!(readable(&listener));
            let (accepted, _) = crate::io::accept(listener.fd()).unwrap().unwrap();
            assert_eq!(sockopt::tcp_nodelay(&accepted), Ok(no_delay));
            assert_eq!(sys::is_paced(accepted.as_fd()).unwrap(), paced);
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

    /// The documented behavior of [`Listening::DEFERRED`] is this kernel's, with tolerance for its timers and other
    /// load.
    #[test]
    fn who_says_nothing_is_kept_back_for_a_while() {
        let listener = bind("127.0.0.1:0").unwrap();
        let began = crate::clock::now();
        let _silent = std::net::TcpStream::connect(listener.address()).unwrap();
        while !readable(&listener) {}
        let kept = crate::clock::now().since(began);
        assert!(kept > Listening::DEFERRED / 2, "{kept:?}");
    }

    #[test]
    fn nobody_begins_to_connect_any_more() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = bind(address) else {
                println!("skipped: this machine has no IPv6");
                continue;
            };
            let mut before = std::net::TcpStream::connect(listener.address()).unwrap();
            listener.sockets().admit_no_more();
            let patience = std::time::Duration::from_millis(50);
            let error = std::net::TcpStream::connect_timeout(&listener.address().tcp().unwrap(), patience)
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            std::io::Write::write_all(&mut before, b"x").unwrap();
            assert!(
                readable(&listener),
                "who had connected speaks after that and is let in"
            );
            assert!(crate::io::accept(listener.fd()).unwrap().is_some());
        }
    }

    #[test]
    fn what_is_reserved_is_used_first_and_nothing_is_lost_sight_of() {
        let first = bind("127.0.0.1:0").unwrap();
        first.reserve(3).unwrap();
        assert_eq!(first.sockets().living().len(), 3);
        let shards = first.shards(4).unwrap();
        let sockets = first.sockets();
        assert_eq!(sockets.living().len(), 4, "three reserved, one opened");
        drop((first, shards));
        assert_eq!(
            sockets.living().len(),
            0,
            "whoever serves holds them, nobody else"
        );
    }

    #[test]
    fn what_is_reserved_gets_no_connections_until_it_is_used() {
        let first = bind("127.0.0.1:0").unwrap();
        first.reserve(4).unwrap();
        let connect = || {
            let client = std::net::TcpStream::connect(first.address()).unwrap();
            std::io::Write::write_all(&mut &client, b"x").unwrap();
            client
        };
        let clients: Vec<_> = (0..64).map(|_| connect()).collect();
        let accepted = std::iter::from_fn(|| rustix::net::accept(first.fd()).ok());
        assert_eq!(accepted.count(), clients.len());
        let shards = first.shards(4).unwrap();
        let _clients: Vec<_> = (0..64).map(|_| connect()).collect();
        assert_eq!(shards.iter().filter(|shard| readable(shard)).count(), 4);
    }

    #[test]
    fn sockets_are_taken_over_with_what_is_queued_on_them() {
        let first = bind("127.0.0.1:0").unwrap();
        let address = first.address();
        let shards = first.shards(2).unwrap();
        let copies: Vec<OwnedFd> = first
            .sockets()
            .living()
            .iter()
            .map(|fd| fd.try_clone().unwrap())
            .collect();
        let clients: Vec<_> = (0..64)
            .map(|_| std::net::TcpStream::connect(&address).unwrap())
            .collect();
        for client in &clients {
            std::io::Write::write_all(&mut &*client, b"x").unwrap();
        }
        drop((first, shards));
        let next = Listener::adopt(Origin::Bound(address.clone()), copies, Listening::default()).unwrap();
        assert_eq!(next.address(), address);
        let shards = next.shards(3).unwrap();
        let mut accepted = 0;
        for shard in &shards {
            while let Ok(_connection) = rustix::net::accept(shard.fd()) {
                accepted += 1;
            }
        }
        assert_eq!(accepted, clients.len());
        assert_eq!(next.sockets().living().len(), 3);
    }

    #[test]
    fn a_socket_of_a_service_manager_stays_the_only_one() {
        let theirs = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let kept = OwnedFd::from(theirs.try_clone().unwrap());
        let ours = Listener::adopt(Origin::Passed, vec![kept], Listening::default()).unwrap();
        ours.reserve(4).unwrap();
        let shards = ours.shards(4).unwrap();
        assert_eq!(shards.len(), 4);
        assert!(shards.iter().all(|shard| Arc::ptr_eq(shard.fd(), ours.fd())));
        assert_eq!(ours.sockets().living().len(), 1);
    }

    #[test]
    fn what_does_not_listen_is_refused() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let error = Listener::adopt(Origin::Passed, vec![one.into()], Listening::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn both_families_may_have_the_same_port() {
        if bind("[::]:0").is_err() {
            println!("skipped: this machine has no IPv6");
            return;
        }
        // Another program may have the port of IPv4 that is free for IPv6, but not every time.
        let is_shared = (0..20).any(|_| {
            let six = bind("[::]:0").unwrap();
            let four = bind(&format!("0.0.0.0:{}", six.address().port()));
            four.is_ok_and(|four| four.address().port() == six.address().port())
        });
        assert!(is_shared);
        let both = Listening {
            both_families: true,
            ..Listening::default()
        };
        let both = Listener::bind("[::]:0".parse().unwrap(), both).unwrap();
        std::net::TcpStream::connect(("127.0.0.1", both.address().port())).unwrap();
    }
}
