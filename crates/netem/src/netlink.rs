//! Interfaces, addresses, neighbors and routes, set through rtnetlink in the calling thread's network namespace.
//!
//! rtnetlink(7), `linux/if_link.h`, `linux/rtnetlink.h`. Seven requests with fixed attributes; each waits for the
//! kernel's answer. Addresses and names come from the caller.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

const ERROR: u16 = 2;
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const NEW_NEIGHBOR: u16 = 28;

const REQUEST: u16 = 1;
const REQUEST_ACK: u16 = REQUEST | 4;
const CREATE: u16 = 0x400;
const EXCLUSIVE: u16 = 0x200;
const REPLACE: u16 = 0x100;

/// A hardware address.
pub(super) type Mac = [u8; 6];

/// TCP settings of a route's connections.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    /// Largest segment announced, and therefore sent by the peer, in bytes.
    pub(super) mss: Option<u32>,
    /// Initial congestion window, in segments.
    pub(super) initcwnd: Option<u32>,
    /// Congestion control of the connections (RTAX_CC_ALGO). Unlike with the sysctl, it may be one that the machine
    /// reserves for privileged users, because an administrator of the namespace sets the route.
    pub(super) congestion: Option<String>,
}

/// A request under construction.
struct Message(Vec<u8>);

impl Message {
    /// Header and the fixed part of the request.
    fn new(kind: u16, flags: u16, fixed: &[u8]) -> Message {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(REQUEST_ACK | flags).to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(fixed);
        Message(bytes)
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Message {
        self.0
            .extend_from_slice(&((value.len() + 4) as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn number(self, kind: u16, value: u32) -> Message {
        self.attribute(kind, &value.to_ne_bytes())
    }

    fn name(self, kind: u16, name: &str) -> Message {
        let mut bytes = name.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    /// An attribute that consists of attributes, or of a fixed part and attributes.
    fn nest(self, kind: u16, fixed: &[u8], inside: impl FnOnce(Message) -> Message) -> Message {
        let inner = inside(Message(fixed.to_vec()));
        self.attribute(kind, &inner.0)
    }
}

/// A connection to the kernel's tables for the network namespace of the thread that opened it.
pub(super) struct Netlink(OwnedFd);

impl Netlink {
    pub(super) fn open() -> io::Result<Netlink> {
        // rtnetlink is number 0 of the netlink families.
        let kind = SocketType::RAW;
        let socket = socket_with(AddressFamily::NETLINK, kind, SocketFlags::CLOEXEC, None)?;
        Ok(Netlink(socket))
    }

    fn call(&self, message: Message) -> io::Result<()> {
        let mut bytes = message.0;
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        send(&self.0, &bytes, SendFlags::empty())?;
        let mut answer = [0u8; 8192];
        let (n, _) = recv(&self.0, &mut answer, RecvFlags::empty())?;
        // nlmsghdr, then the negated errno.
        let code = answer[..n]
            .get(16..20)
            .map(|code| i32::from_ne_bytes([code[0], code[1], code[2], code[3]]));
        match code {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(-code)),
            None => Err(io::Error::from(io::ErrorKind::InvalidData)),
        }
    }

    /// Whether an interface forwards packets: its operational state (RFC 2863) is up.
    ///
    /// After both halves of a pair are switched on and until the kernel's link watch has run, the interface already has
    /// its flags and routes but drops every packet.
    pub(super) fn transmits(&self, interface: u32) -> io::Result<bool> {
        // Without counters (RTEXT_FILTER_SKIP_STATS), the answer fits.
        let mut bytes = Message::new(GET_LINK, 0, &link(interface, false)).number(29, 8).0;
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        bytes[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
        send(&self.0, &bytes, SendFlags::empty())?;
        let mut answer = [0u8; 32 << 10];
        let (n, _) = recv(&self.0, &mut answer, RecvFlags::empty())?;
        let answer = &answer[..n];
        match answer
            .get(4..6)
            .map(|kind| u16::from_ne_bytes([kind[0], kind[1]]))
        {
            Some(NEW_LINK) => Ok(operational_state(answer) == Some(UP)),
            Some(ERROR) if n >= 20 => {
                let code = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
                Err(io::Error::from_raw_os_error(-code))
            }
            _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
        }
    }

    /// An interface's index.
    pub(super) fn index(&self, name: &str) -> io::Result<u32> {
        Ok(rustix::net::netdevice::name_to_index(&self.0, name)?)
    }

    /// Creates a veth pair: `here` with a hardware address, `there` in another namespace.
    pub(super) fn add_pair(
        &self,
        here: (&str, Mac),
        there: (&str, BorrowedFd<'_>),
        mtu: u32,
    ) -> io::Result<()> {
        let message = Message::new(NEW_LINK, CREATE | EXCLUSIVE, &link(0, false))
            .name(3, here.0)
            .attribute(1, &here.1)
            .number(4, mtu)
            .nest(18, &[], |info| {
                info.name(1, "veth").nest(2, &[], |data| {
                    data.nest(1, &link(0, false), |peer| {
                        peer.name(3, there.0)
                            .number(4, mtu)
                            .number(28, there.1.as_raw_fd() as u32)
                    })
                })
            });
        self.call(message)
    }

    /// Brings an interface up.
    pub(super) fn up(&self, interface: u32) -> io::Result<()> {
        self.call(Message::new(NEW_LINK, 0, &link(interface, true)))
    }

    /// Sets an interface's MTU.
    pub(super) fn mtu(&self, interface: u32, mtu: u32) -> io::Result<()> {
        self.call(Message::new(NEW_LINK, 0, &link(interface, false)).number(4, mtu))
    }

    /// Gives an interface an address with a full-length prefix.
    pub(super) fn address(&self, interface: u32, address: Ipv4Addr) -> io::Result<()> {
        let mut fixed = vec![2, 32, 0, 0];
        fixed.extend_from_slice(&interface.to_ne_bytes());
        let message = Message::new(NEW_ADDRESS, CREATE | REPLACE, &fixed);
        self.call(
            message
                .attribute(1, &address.octets())
                .attribute(2, &address.octets()),
        )
    }

    /// Sets a permanent neighbor entry, so that no ARP request crosses the link.
    pub(super) fn neighbor(&self, interface: u32, address: Ipv4Addr, mac: Mac) -> io::Result<()> {
        const PERMANENT: u16 = 0x80;
        let mut fixed = vec![2, 0, 0, 0];
        fixed.extend_from_slice(&interface.to_ne_bytes());
        fixed.extend_from_slice(&PERMANENT.to_ne_bytes());
        fixed.extend_from_slice(&[0, 0]);
        let message = Message::new(NEW_NEIGHBOR, CREATE | REPLACE, &fixed);
        self.call(message.attribute(1, &address.octets()).attribute(2, &mac))
    }

    /// Adds a route to one host, or with `gateway` the default route.
    pub(super) fn route(
        &self,
        interface: u32,
        to: Option<Ipv4Addr>,
        gateway: Option<Ipv4Addr>,
        metrics: &Metrics,
    ) -> io::Result<()> {
        let scope = if gateway.is_some() { 0 } else { 253 };
        let bits = if to.is_some() { 32 } else { 0 };
        let mut message =
            Message::new(NEW_ROUTE, CREATE | REPLACE, &route(bits, scope, 1)).number(4, interface);
        if let Some(to) = to {
            message = message.attribute(1, &to.octets());
        }
        if let Some(gateway) = gateway {
            message = message.attribute(5, &gateway.octets());
        }
        let known = [(8, metrics.mss), (11, metrics.initcwnd)];
        if known.iter().any(|(_, value)| value.is_some()) || metrics.congestion.is_some() {
            message = message.nest(8, &[], |mut nest| {
                for (kind, value) in known {
                    if let Some(value) = value {
                        nest = nest.number(kind, value);
                    }
                }
                match &metrics.congestion {
                    Some(name) => nest.name(16, name),
                    None => nest,
                }
            });
        }
        self.call(message)
    }

    /// Makes every address without another route a local address of this host.
    pub(super) fn everybody_is_here(&self, loopback: u32) -> io::Result<()> {
        let message = Message::new(NEW_ROUTE, CREATE | REPLACE, &route(0, 254, 2));
        self.call(message.number(4, loopback))
    }
}

/// `IF_OPER_UP` of `linux/if.h`.
const UP: u8 = 6;

/// The attribute `IFLA_OPERSTATE` of a message about an interface.
fn operational_state(message: &[u8]) -> Option<u8> {
    const OPERATIONAL_STATE: u16 = 16;
    // nlmsghdr and ifinfomsg.
    let mut rest = message.get(32..)?;
    while let [a, b, c, d, ..] = *rest {
        let (length, kind) = (
            usize::from(u16::from_ne_bytes([a, b])),
            u16::from_ne_bytes([c, d]),
        );
        let value = rest.get(4..length)?;
        if kind == OPERATIONAL_STATE {
            return value.first().copied();
        }
        rest = rest.get(length.next_multiple_of(4)..)?;
    }
    None
}

/// `struct ifinfomsg`; `up` switches the interface on, otherwise its state is unchanged.
fn link(interface: u32, up: bool) -> Vec<u8> {
    let mut fixed = vec![0; 4];
    fixed.extend_from_slice(&interface.to_ne_bytes());
    fixed.extend_from_slice(&u32::from(up).to_ne_bytes());
    fixed.extend_from_slice(&u32::from(up).to_ne_bytes());
    fixed
}

/// `struct rtmsg`, for the main table.
fn route(bits: u8, scope: u8, kind: u8) -> Vec<u8> {
    const MAIN: u8 = 254;
    const STATIC: u8 = 4;
    vec![2, bits, 0, 0, MAIN, STATIC, scope, kind, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_nested_with_their_lengths() {
        let message = Message::new(NEW_LINK, 0, &link(7, true))
            .name(3, "ab")
            .nest(18, &[], |inner| inner.number(4, 9));
        let bytes = message.0;
        assert_eq!(bytes.len(), 16 + 16 + 8 + 12);
        assert_eq!(bytes[32..40], [7, 0, 3, 0, b'a', b'b', 0, 0]);
        assert_eq!(bytes[40..52], [12, 0, 18, 0, 8, 0, 4, 0, 9, 0, 0, 0]);
    }

    #[test]
    fn the_operational_state_is_found_among_other_attributes_and_never_beyond_the_end() {
        let message = Message::new(NEW_LINK, 0, &link(7, true))
            .name(3, "ab")
            .attribute(16, &[UP])
            .number(4, 9)
            .0;
        assert_eq!(operational_state(&message), Some(UP));
        for cut in 0..message.len() {
            let found = operational_state(&message[..cut]);
            assert!(found.is_none() || found == Some(UP), "{cut}");
        }
        let endless = [&message[..32], &[0, 0, 3, 0, 1]].concat();
        assert_eq!(operational_state(&endless), None);
    }
}
