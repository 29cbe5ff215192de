//! Runs crews whose connections are carried by datagrams (QUIC): each in an endpoint of its own, on a thread of its own.
//!
//! ```text
//!   socket ◀── datagram driver ──▶ Carrier (endpoint) ──▶ crew
//! ```

use super::{Crew, Running, Stopper, Usage};
use crate::clock;
use crate::datagram::{self, Endpoint, Limits};
use std::io;
use std::net::{SocketAddr, UdpSocket};

pub use crate::datagram::Stop;

/// An endpoint that carries the connections of a crew. It starts the crew with its first turn, asks it to stop when it
/// [drains](Endpoint::drain), and [has ended](Endpoint::has_ended) when the crew has, and its peers know.
pub trait Carrier: Endpoint + 'static {
    /// Whose connections it carries.
    type Crew: Crew;

    /// The crew, at the end.
    fn into_crew(self) -> Self::Crew;
}

/// Starts carriers of connections to one peer.
///
/// # Errors
/// The system's, if it refuses sockets, descriptors or threads.
pub fn start<E: Carrier>(carriers: Vec<E>, peer: SocketAddr) -> io::Result<Running<E::Crew>> {
    let any = match peer {
        SocketAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0_u16; 8], 0)),
    };
    let mut running = Running {
        threads: Vec::new(),
        stopper: Stopper {
            asked: Default::default(),
            wakers: Vec::new(),
            datagrams: Vec::new(),
        },
        calls: Vec::new(),
    };
    for (number, carrier) in carriers.into_iter().enumerate() {
        let socket = bind(any)?;
        // Connected, the socket learns when nobody receives at the peer. Without a route, the first datagram fails.
        let _ = socket.connect(peer);
        let driver = datagram::Driver::new(socket, carrier, Limits::default())?;
        running.stopper.datagrams.push(driver.stop());
        let thread = std::thread::Builder::new().name(format!("load-udp-{number}"));
        running.threads.push(thread.spawn(move || {
            let (began, cpu) = (clock::now(), clock::thread_cpu());
            let carrier = driver.run()?;
            let usage = Usage {
                wall: clock::now() - began,
                cpu: clock::thread_cpu().saturating_sub(cpu),
            };
            Ok((carrier.into_crew(), usage))
        })?);
    }
    Ok(running)
}

/// A socket at any port, with room for what the windows of a connection allow: the kernel drops the rest, and the peer takes
/// that for congestion. The system gives less if its limit is lower.
fn bind(any: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(any)?;
    let _ = socket2::SockRef::from(&socket).set_recv_buffer_size(datagram::RECEIVE_BUFFER);
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_have_the_receive_buffer_of_a_server() {
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let ours = bind(any).expect("a port");
        let servers = datagram::bind(any, 1, false).expect("a port");
        let room = |socket| datagram::receive_buffer(socket).expect("a size");
        assert_eq!(room(&ours), room(&servers[0]));
        let plain = UdpSocket::bind(any).expect("a port");
        assert!(room(&ours) >= room(&plain));
    }
}
