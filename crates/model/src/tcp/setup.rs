//! Round trips before the first request byte can leave the client, by protocol.
//!
//! Round trips are counted from the specifications. Processor time is measured, for one kind of machine. Lost packets and
//! long certificate chains cost extra.

use crate::Seconds;
use serde::Serialize;

/// Kind of connection set-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Setup {
    /// The connection is already open.
    Open,
    /// Three-way handshake, no encryption (RFC 9293).
    #[default]
    Tcp,
    /// T/TCP: SYN, request and FIN in one segment (RFC 1644), the document's T-TCP.
    Ttcp,
    /// TCP Fast Open with a cookie from an earlier visit (RFC 7413): the request rides on the SYN.
    FastOpen,
    /// TCP, then a full TLS 1.2 handshake (RFC 5246).
    Tls12,
    /// TCP, then an abbreviated TLS 1.2 handshake.
    Tls12Resumed,
    /// TCP, then a TLS 1.3 handshake (RFC 8446, section 2).
    Tls13,
    /// TCP, then TLS 1.3 with a ticket and a new key exchange (RFC 8446, section 2.2).
    Tls13Resumed,
    /// TCP, then TLS 1.3 early data (RFC 8446, section 2.3).
    Tls13EarlyData,
    /// TCP Fast Open carrying the TLS 1.3 client hello.
    FastOpenTls13,
    /// TCP Fast Open carrying client hello and early data.
    FastOpenTls13EarlyData,
    /// QUIC, first visit (RFC 9000, section 7).
    Quic,
    /// QUIC with early data (RFC 9001, section 4.6).
    QuicEarlyData,
}

/// Processor time that the cryptography of a set-up takes each end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Processing {
    /// The client's.
    pub client: Seconds,
    /// The server's.
    pub server: Seconds,
}

impl Processing {
    /// Handshakes a second that keep one of the server's processors busy and leave it no time for anything else.
    pub fn server_rate_max(self) -> f64 {
        1.0 / self.server.0
    }
}

impl Setup {
    /// All kinds, in the order of the definition.
    pub const ALL: [Setup; 13] = [
        Setup::Open,
        Setup::Tcp,
        Setup::Ttcp,
        Setup::FastOpen,
        Setup::Tls12,
        Setup::Tls12Resumed,
        Setup::Tls13,
        Setup::Tls13Resumed,
        Setup::Tls13EarlyData,
        Setup::FastOpenTls13,
        Setup::FastOpenTls13EarlyData,
        Setup::Quic,
        Setup::QuicEarlyData,
    ];

    /// Whole round trips before the request leaves, without the request's own.
    pub const fn round_trips(self) -> u32 {
        match self {
            Setup::Open
            | Setup::Ttcp
            | Setup::FastOpen
            | Setup::FastOpenTls13EarlyData
            | Setup::QuicEarlyData => 0,
            Setup::Tcp | Setup::Tls13EarlyData | Setup::FastOpenTls13 | Setup::Quic => 1,
            Setup::Tls12Resumed | Setup::Tls13 | Setup::Tls13Resumed => 2,
            Setup::Tls12 => 3,
        }
    }

    /// Processor time that cryptography takes each end. `None` if it was not measured, or if there is none.
    ///
    /// Medians of seven runs of `cargo run --release -p tls --example handshakes -- 600` on an otherwise idle virtual machine
    /// (Intel Xeon, Linux 6.18), 2026-11-26: certificate of ECDSA P-256, X25519MLKEM768 in TLS 1.3, X25519 in TLS 1.2. The
    /// client checks a chain of one certificate.
    pub const fn processing(self) -> Option<Processing> {
        let (client, server) = match self {
            Setup::Tls12 => (204e-6, 82e-6),
            Setup::Tls12Resumed => (18e-6, 19e-6),
            Setup::Tls13 => (291e-6, 153e-6),
            Setup::Tls13Resumed => (176e-6, 164e-6),
            Setup::Open
            | Setup::Tcp
            | Setup::Ttcp
            | Setup::FastOpen
            | Setup::Tls13EarlyData
            | Setup::FastOpenTls13
            | Setup::FastOpenTls13EarlyData
            | Setup::Quic
            | Setup::QuicEarlyData => return None,
        };
        Some(Processing {
            client: Seconds(client),
            server: Seconds(server),
        })
    }

    /// The name used on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Setup::Open => "open",
            Setup::Tcp => "tcp",
            Setup::Ttcp => "t-tcp",
            Setup::FastOpen => "tfo",
            Setup::Tls12 => "tls1.2",
            Setup::Tls12Resumed => "tls1.2-resumed",
            Setup::Tls13 => "tls1.3",
            Setup::Tls13Resumed => "tls1.3-resumed",
            Setup::Tls13EarlyData => "tls1.3-0rtt",
            Setup::FastOpenTls13 => "tfo+tls1.3",
            Setup::FastOpenTls13EarlyData => "tfo+tls1.3-0rtt",
            Setup::Quic => "quic",
            Setup::QuicEarlyData => "quic-0rtt",
        }
    }

    /// The set-up with this name.
    pub fn from_name(name: &str) -> Option<Setup> {
        Setup::ALL.into_iter().find(|setup| setup.name() == name)
    }

    /// Source of the count.
    pub const fn source(self) -> &'static str {
        match self {
            Setup::Open => "persistent connection, RFC 9112, section 9.3",
            Setup::Tcp => "RFC 9293, section 3.5",
            Setup::Ttcp => "RFC 1644",
            Setup::FastOpen => "RFC 7413",
            Setup::Tls12 | Setup::Tls12Resumed => "RFC 5246, section 7.3",
            Setup::Tls13 => "RFC 8446, section 2",
            Setup::Tls13Resumed => "RFC 8446, section 2.2",
            Setup::Tls13EarlyData => "RFC 8446, section 2.3",
            Setup::FastOpenTls13 | Setup::FastOpenTls13EarlyData => "RFC 7413 and RFC 8446",
            Setup::Quic => "RFC 9000, section 7",
            Setup::QuicEarlyData => "RFC 9001, section 4.6",
        }
    }

    /// Precondition or risk of a shortcut; `None` for other set-ups.
    pub const fn caveat(self) -> Option<&'static str> {
        match self {
            Setup::FastOpen | Setup::FastOpenTls13 => Some(
                "Fast Open needs a cookie from an earlier visit and middleboxes that let data on a SYN pass",
            ),
            Setup::Tls13EarlyData | Setup::QuicEarlyData => Some(
                "early data can be replayed: only for requests that are safe to repeat, after an earlier visit",
            ),
            Setup::FastOpenTls13EarlyData => {
                Some("needs a cookie and a ticket from an earlier visit; early data can be replayed")
            }
            Setup::Ttcp => Some("T/TCP was withdrawn (RFC 6247); TCP Fast Open is its successor"),
            Setup::Open
            | Setup::Tcp
            | Setup::Tls12
            | Setup::Tls12Resumed
            | Setup::Tls13
            | Setup::Tls13Resumed
            | Setup::Quic => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_again() {
        for setup in Setup::ALL {
            assert_eq!(Setup::from_name(setup.name()), Some(setup));
        }
        assert_eq!(Setup::from_name("udp"), None);
    }

    #[test]
    fn encryption_costs_what_the_rfcs_say_over_plain_tcp() {
        let over_tcp = |setup: Setup| setup.round_trips() as i32 - Setup::Tcp.round_trips() as i32;
        for (setup, extra) in [
            (Setup::Ttcp, -1),
            (Setup::FastOpen, -1),
            (Setup::Tls12, 2),
            (Setup::Tls12Resumed, 1),
            (Setup::Tls13, 1),
            (Setup::Tls13Resumed, 1),
            (Setup::Tls13EarlyData, 0),
            (Setup::FastOpenTls13, 0),
            (Setup::FastOpenTls13EarlyData, -1),
            (Setup::Quic, 0),
            (Setup::QuicEarlyData, -1),
        ] {
            assert_eq!(over_tcp(setup), extra, "{}", setup.name());
        }
    }

    #[test]
    fn processor_time_is_known_where_it_was_measured() {
        let known = Setup::ALL
            .into_iter()
            .filter(|setup| setup.processing().is_some());
        let known: Vec<&str> = known.map(Setup::name).collect();
        assert_eq!(known, ["tls1.2", "tls1.2-resumed", "tls1.3", "tls1.3-resumed"]);
        let full = Setup::Tls13.processing().expect("measured");
        assert!((full.server_rate_max() * full.server.0 - 1.0).abs() < 1e-12);
        // Without a new key exchange, a resumed session of TLS 1.2 costs next to nothing.
        let of = |setup: Setup| setup.processing().expect("measured").server.0;
        assert!(
            of(Setup::Tls12Resumed) < of(Setup::Tls12) && of(Setup::Tls12Resumed) < of(Setup::Tls13Resumed)
        );
    }
}
