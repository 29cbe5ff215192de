//! Datagrams that an end of a connection recorded, for the analysis of a capture: as frames; its counters and losses as events of
//! qlog.

use quic::tape::{Counters, Loss, PacketType};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const UDP_HEADER: usize = 8;
const UDP: u8 = 17;

/// The event for a change of the counters.
pub(crate) fn metrics(counters: &Counters) -> Value {
    let mut data = json!({"congestion_window": counters.window, "packets_lost": counters.lost});
    for (name, time) in [
        ("smoothed_rtt", counters.rtt),
        ("min_rtt", counters.rtt_min),
        ("latest_rtt", counters.rtt_latest),
    ] {
        if let Some(time) = time {
            data[name] = (time.as_secs_f64() * 1e3).into();
        }
    }
    if let Some(bytes) = counters.in_flight {
        data["bytes_in_flight"] = bytes.into();
    }
    json!({"name": "recovery:metrics_updated", "data": data})
}

/// The event for a packet that was declared lost.
pub(crate) fn lost(loss: &Loss) -> Value {
    let packet_type = match loss.packet_type {
        PacketType::Initial => "initial",
        PacketType::Handshake => "handshake",
        PacketType::ZeroRtt => "0RTT",
        PacketType::OneRtt => "1RTT",
    };
    let header = json!({"packet_type": packet_type, "packet_number": loss.number});
    // qvis reads the length, and fails without `raw`.
    let raw = loss
        .length
        .map_or_else(|| json!({}), |length| json!({"length": length}));
    let data = json!({"header": header, "raw": raw});
    json!({"name": "recovery:packet_lost", "data": data})
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

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Duration, Instant};

    #[test]
    fn counters_and_losses_have_the_names_of_qlog() {
        let mut counters = Counters {
            connection: 0,
            at: Instant::ZERO,
            rtt: None,
            rtt_min: None,
            rtt_latest: None,
            window: 12_000,
            in_flight: None,
            lost: 1,
        };
        let wanted = |data| json!({"name": "recovery:metrics_updated", "data": data});
        assert_eq!(
            metrics(&counters),
            wanted(json!({"congestion_window": 12_000, "packets_lost": 1})),
            "what is not known is left out"
        );
        counters.rtt = Some(Duration::from_millis(30));
        counters.rtt_min = Some(Duration::from_micros(20_500));
        counters.rtt_latest = Some(Duration::from_millis(40));
        counters.in_flight = Some(0);
        let data = json!({
            "congestion_window": 12_000,
            "packets_lost": 1,
            "smoothed_rtt": 30.0,
            "min_rtt": 20.5,
            "latest_rtt": 40.0,
            "bytes_in_flight": 0,
        });
        assert_eq!(metrics(&counters), wanted(data));
        let mut loss = Loss {
            connection: 0,
            at: Instant::ZERO,
            packet_type: PacketType::OneRtt,
            number: 7,
            length: Some(1_200),
        };
        let header = json!({"packet_type": "1RTT", "packet_number": 7});
        let data = json!({"header": header, "raw": {"length": 1_200}});
        assert_eq!(lost(&loss), json!({"name": "recovery:packet_lost", "data": data}));
        loss.length = None;
        assert_eq!(lost(&loss)["data"]["raw"], json!({}));
    }
}
