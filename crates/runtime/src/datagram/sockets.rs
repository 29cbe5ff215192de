//! UDP sockets of a server: opened for several workers at one address, or taken over from another program.

use crate::sys;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

/// Bytes that a socket keeps for a worker that is busy: some 3,000 packets. What does not fit is lost, and its sender waits a
/// second or more before it sends again, if it was a connection's first.
pub const RECEIVE_BUFFER: usize = 4 << 20;

/// Sockets for so many workers at one address: the kernel spreads peers over them by address and port
/// (`SO_REUSEPORT`, socket(7)). Port 0: one that the system chooses, the same for all. With `both_families`, `[::]` receives
/// over IPv4, too.
///
/// # Errors
/// What the system says to the address. A port that another program has is refused, even if that program would share it.
pub fn bind(address: SocketAddr, workers: usize, both_families: bool) -> io::Result<Vec<UdpSocket>> {
    let mut address = address;
    let mut sockets = Vec::new();
    for number in 0..workers.max(1) {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if number > 0 {
            socket.set_reuse_port(true)?;
        }
        if address.is_ipv6() {
            socket.set_only_v6(!both_families)?;
        }
        // The system gives less if its limit is lower; the caller can ask.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
        socket.bind(&address.into())?;
        if workers > 1 {
            // Of the first only after the bind: it must not share the port with another program. From now on, the others
            // may join it.
            socket.set_reuse_port(true)?;
        }
        let socket = UdpSocket::from(socket);
        address = socket.local_addr()?;
        sockets.push(socket);
    }
    Ok(sockets)
}

/// The address of a UDP socket that another program has bound and passed to this one; `None` if it is no such socket. Gives
/// it the options of our own.
pub fn adopt(socket: &OwnedFd) -> Option<SocketAddr> {
    let socket = socket2::SockRef::from(socket);
    let is_udp = socket.r#type().ok()? == Type::DGRAM && socket.protocol().ok()? == Some(Protocol::UDP);
    if !is_udp || socket.peer_addr().is_ok() {
        return None;
    }
    socket.set_cloexec(true).ok()?;
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.local_addr().ok()?.as_socket()
}

/// Bytes that a socket really keeps: less than [`RECEIVE_BUFFER`] if `net.core.rmem_max` is lower (socket(7)).
///
/// # Errors
/// What the system says.
pub fn receive_buffer(socket: &UdpSocket) -> io::Result<usize> {
    // The kernel doubles what was asked for, for its own bookkeeping.
    Ok(socket2::SockRef::from(socket).recv_buffer_size()? / 2)
}

/// Whether the kernel can cut one payload into several datagrams (`UDP_SEGMENT`, udp(7)). If not, each is a system call.
pub fn knows_segments(socket: &UdpSocket) -> bool {
    sys::knows_segments(socket.as_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither a program that has the port alone nor one that would share it loses datagrams to us, nor we to it.
    #[test]
    fn a_port_is_not_shared_with_another_program() {
        let place = SocketAddr::from(([127, 0, 0, 1], 0));
        for shares in [false, true] {
            let other = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)).expect("a socket");
            other.set_reuse_port(shares).expect("an option");
            other.bind(&place.into()).expect("a port");
            let taken = UdpSocket::from(other);
            let address = taken.local_addr().expect("an address");
            for workers in [1, 2] {
                let error = bind(address, workers, false).expect_err("it is taken");
                assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{shares} {workers}");
            }
            drop(taken);
            assert_eq!(bind(address, 2, false).expect("it is free").len(), 2);
        }
        let ours = bind(place, 2, false).expect("a port");
        let address = ours[0].local_addr().expect("an address");
        assert!(bind(address, 2, false).is_err(), "another of our own");
    }
}
