//! Whether a process at the far end is ready for connections, from the kernel's tables of sockets.
//!
//! Decides what counts as ready, not how long to wait. proc(5) describes `/proc/net/tcp` and its neighbors: one line
//! per socket, with the local address and port in hexadecimal as the second field, the remote ones as the third, and
//! the state as the fourth.

use crate::FarReady;
use crate::netns::Netns;
use std::io;
use std::net::IpAddr;

/// `TCP_LISTEN` in `include/net/tcp_states.h`.
const LISTENS: &str = "0A";
/// `TCP_CLOSE`, the state of an unconnected UDP socket.
const UNCONNECTED: &str = "07";

/// Whether a socket in the namespace matches.
pub(super) fn is_ready(netns: &Netns, wanted: FarReady) -> io::Result<bool> {
    netns.call(move || {
        [
            ("tcp", LISTENS),
            ("tcp6", LISTENS),
            ("udp", UNCONNECTED),
            ("udp6", UNCONNECTED),
        ]
        .iter()
        .any(|(table, state)| {
            // Without IPv6, its tables do not exist.
            let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
            has(&text.unwrap_or_default(), state, wanted)
        })
    })
}

/// The UDP ports of all sockets in the namespace that the near command can reach.
pub(super) fn udp_ports(netns: &Netns) -> io::Result<Vec<u16>> {
    netns.call(|| {
        let tables = ["udp", "udp6"].map(|table| {
            // Without IPv6, its table does not exist.
            std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default()
        });
        tables.iter().flat_map(|table| ports(table)).collect()
    })
}

/// The ports of a table's sockets, but for those on loopback addresses.
fn ports(table: &str) -> impl Iterator<Item = u16> {
    let sockets = table.lines().skip(1);
    sockets.filter_map(|line| {
        let (address, port) = local(line.split_whitespace().nth(1)?)?;
        (!address.is_loopback()).then_some(port)
    })
}

/// Sockets on loopback addresses do not count: the near command cannot reach them.
fn has(table: &str, state: &str, wanted: FarReady) -> bool {
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().and_then(local);
        let is_in_state = fields.nth(1) == Some(state);
        local.is_some_and(|(address, port)| {
            is_in_state
                && !address.is_loopback()
                && match wanted {
                    FarReady::AtOnce | FarReady::Anybody => true,
                    FarReady::Port(wanted) => port == wanted,
                }
        })
    })
}

/// Parses an address as the kernel prints it: four-byte words in the machine's byte order, then the port as a number.
fn local(field: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = field.split_once(':')?;
    let word = |k: usize| {
        let word = u32::from_str_radix(address.get(8 * k..8 * k + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let address = match address.len() {
        8 => IpAddr::from(word(0)?),
        32 => {
            let mut all = [0; 16];
            for (k, four) in all.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(k)?);
            }
            IpAddr::from(all)
        }
        _ => return None,
    };
    Some((address, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with one socket at this address, in this state.
    fn table(address: IpAddr, port: u16, state: &str) -> String {
        let bytes = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let words = bytes.chunks_exact(4);
        let hex: String = words
            .map(|four| format!("{:08X}", u32::from_ne_bytes(four.try_into().expect("four"))))
            .collect();
        let zeros = "0".repeat(hex.len());
        format!(
            "  sl  local_address rem_address   st\n   0: {hex}:{port:04X} {zeros}:0000 {state} 00000000\n"
        )
    }

    #[test]
    fn who_listens_where_it_can_be_reached_counts() {
        for (address, state, wanted, counts) in [
            ("0.0.0.0", LISTENS, FarReady::Anybody, true),
            ("198.18.0.1", LISTENS, FarReady::Port(8_080), true),
            ("::", LISTENS, FarReady::Port(8_080), true),
            ("0.0.0.0", LISTENS, FarReady::Port(80), false),
            ("127.0.0.1", LISTENS, FarReady::Anybody, false),
            ("::1", LISTENS, FarReady::Port(8_080), false),
            // An established connection is not a listener.
            ("198.18.0.1", "01", FarReady::Anybody, false),
        ] {
            let text = table(address.parse().expect("an address"), 8_080, state);
            assert_eq!(
                has(&text, LISTENS, wanted),
                counts,
                "{address} {state} {wanted:?}"
            );
            let is_reached = !address.parse::<IpAddr>().expect("an address").is_loopback();
            let expected: &[u16] = if is_reached { &[8_080] } else { &[] };
            assert_eq!(ports(&text).collect::<Vec<_>>(), expected, "{address}");
            for cut in 0..text.len() {
                let _ = ports(&text[..cut]).count();
                // Half a table must not cause a panic.
                let _ = has(&text[..cut], LISTENS, wanted);
            }
        }
    }
}
