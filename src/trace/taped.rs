//! Datagrams that an end of a connection recorded, for the analysis of a capture: as frames, and its counters as events of qlog.

use quic::tape::Counters;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const UDP_HEADER: usize = 8;
const UDP: u8 = 17;

/// The event for a change of the counters.
pub(crate) fn metrics(counters: &Counters) -> Value {
    let mut data = json!({"congestion_window": counters.window, "packets_lost": counters.lost});
    for (name, time) in [("smoothed_rtt", counters.rtt), ("min_rtt", counters.rtt_min)] {
        if let Some(time) = time {
            data[name] = (time.as_secs_f64() * 1e3).into();
        }
    }
    json!({"name": "recovery:metrics_updated", "data": data})
}

/// A datagram with headers of IP and UDP, whose checksums are zero: nobody checks them.
pub(crate) fn framed(
    bytes: &[u8],
    is_of_client: bool,
    client: SocketAddr,
    server: SocketAddr,
    out: &mut Vec<u8>,
) {
    let (from, to) = match is_of_client {
        true => (client, server),
        false => (server, client),
    };
    let length = u16::try_from(UDP_HEADER + bytes.len()).unwrap_or(u16::MAX);
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let total = length.saturating_add(20);
            out.extend_from_slice(&[0x45, 0]);
            out.extend_from_slice(&total.to_be_bytes());
            out.extend_from_slice(&[0, 0, 0, 0, 64, UDP, 0, 0]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
        }
        (from, to) => {
            out.extend_from_slice(&[0x60, 0, 0, 0]);
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&[UDP, 64]);
            out.extend_from_slice(&wide(from).octets());
            out.extend_from_slice(&wide(to).octets());
        }
    }
    for field in [from.port(), to.port(), length, 0] {
        out.extend_from_slice(&field.to_be_bytes());
    }
    out.extend_from_slice(bytes);
}

/// The unspecified address of the other's family, with this port: for an end whose address is not known.
pub(crate) fn unknown(port: u16, other: SocketAddr) -> SocketAddr {
    match other {
        SocketAddr::V4(_) => SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
        SocketAddr::V6(_) => SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
    }
}

fn wide(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}
