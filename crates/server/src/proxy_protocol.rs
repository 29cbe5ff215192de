//! The PROXY protocol, versions 1 and 2 (HAProxy, `doc/proxy-protocol.txt`): a header in front of all other bytes of a
//! connection, in which a load balancer names its client.
//!
//! Decides what a header says and how one is written. Who may send one, and when it must be whole, is decided by those who
//! read it.

use core::fmt;
use runtime::listen::UNIX_PEER;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest header of version 1, with its line end (section 2.1).
const LINE_MAX: usize = 107;

/// Longest header. Version 2 allows 64 KiB; senders add a few fields about TLS, and none needs more than this.
pub const HEADER_MAX: usize = 4_096;

/// First bytes of version 1.
const TEXT: &[u8] = b"PROXY ";

/// First bytes of version 2 (section 2.2).
const BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes of version 2 before its addresses.
const BINARY_HEAD: usize = 16;

units::words! {
    /// A version of the protocol.
    pub enum Version {
        /// A line of text.
        V1 = "v1",
        /// Binary.
        V2 = "v2",
    }
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// The connection is passed on for this client.
    Client(SocketAddr),
    /// The sender speaks for itself, as health checks do, or its client has no IP address.
    Sender,
}

/// How far a header has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    Partial,
    /// It is whole.
    Header {
        /// What it says.
        announced: Announced,
        /// Its length in bytes.
        used: usize,
    },
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault(&'static str);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Reads a header from the start of `input`.
///
/// # Errors
/// [`Fault`] as soon as the bytes can no longer become a valid header.
pub fn parse(input: &[u8]) -> Result<Step, Fault> {
    let begins = |with: &[u8]| {
        let len = input.len().min(with.len());
        input[..len] == with[..len]
    };
    match () {
        () if begins(BINARY) => binary(input),
        () if begins(TEXT) => text(input),
        () => Err(Fault("it does not begin with a PROXY header")),
    }
}

fn text(input: &[u8]) -> Result<Step, Fault> {
    let line = &input[..input.len().min(LINE_MAX)];
    let Some(end) = line.iter().position(|&b| b == b'\n') else {
        return match input.len() < LINE_MAX {
            true => Ok(Step::Partial),
            false => Err(Fault("the line of the PROXY header is too long")),
        };
    };
    let malformed = Fault("the line of the PROXY header is malformed");
    let line = input[..end].strip_suffix(b"\r").ok_or(malformed)?;
    let line = core::str::from_utf8(line).map_err(|_| malformed)?;
    let mut words = line.split(' ').skip(1);
    let family = words.next();
    let announced = match family {
        // What follows is to be ignored (section 2.1).
        Some("UNKNOWN") => Announced::Sender,
        Some("TCP4" | "TCP6") => {
            let mut address = || -> Option<IpAddr> {
                let word = words.next()?;
                match family {
                    Some("TCP4") => word.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
                    _ => word.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
                }
            };
            let (source, destination) = (address(), address());
            let mut port = || {
                let word = words.next()?;
                let is_plain = word.bytes().all(|b| b.is_ascii_digit());
                let has_zero = word.len() > 1 && word.starts_with('0');
                word.parse::<u16>().ok().filter(|_| is_plain && !has_zero)
            };
            let (from, to) = (port(), port());
            match (source, destination, from, to, words.next()) {
                (Some(source), Some(_), Some(from), Some(_), None) => Announced::client(source, from),
                _ => return Err(malformed),
            }
        }
        _ => return Err(malformed),
    };
    Ok(Step::Header {
        announced,
        used: end + 1,
    })
}

fn binary(input: &[u8]) -> Result<Step, Fault> {
    let rest = input.get(BINARY.len()..).unwrap_or_default();
    let is_local = match rest.first() {
        None => return Ok(Step::Partial),
        Some(0x20) => true,
        Some(0x21) => false,
        Some(_) => return Err(Fault("the PROXY header has an unknown version or command")),
    };
    let family = match rest.get(1) {
        None => return Ok(Step::Partial),
        Some(&family) => family,
    };
    // Families 0 to 3 and transports 0 to 2 are known.
    if family >> 4 > 3 || family & 15 > 2 {
        return Err(Fault("the PROXY header has an unknown family of addresses"));
    }
    let &[high, low] = rest.get(2..4).unwrap_or_default() else {
        return Ok(Step::Partial);
    };
    let used = BINARY_HEAD + usize::from(u16::from_be_bytes([high, low]));
    if used > HEADER_MAX {
        return Err(Fault("the PROXY header is longer than 4 KiB"));
    }
    let needed = match (is_local, family) {
        (false, 0x11) => 12,
        (false, 0x21) => 36,
        _ => 0,
    };
    if used < BINARY_HEAD + needed {
        return Err(Fault("the PROXY header is too short for its addresses"));
    }
    let Some(addresses) = input.get(BINARY_HEAD..used) else {
        return Ok(Step::Partial);
    };
    let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
    let announced = match needed {
        12 => {
            let source: [u8; 4] = addresses[..4].try_into().unwrap_or_default();
            Announced::client(source.into(), port(8))
        }
        36 => {
            let source: [u8; 16] = addresses[..16].try_into().unwrap_or_default();
            Announced::client(source.into(), port(32))
        }
        _ => Announced::Sender,
    };
    Ok(Step::Header { announced, used })
}

impl Announced {
    /// This client. A header cannot name the client of a Unix socket.
    fn client(source: IpAddr, port: u16) -> Announced {
        let source = match source == UNIX_PEER.ip() {
            true => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            false => source,
        };
        Announced::Client(SocketAddr::new(source, port))
    }
}

/// The header with which a connection begins, as [`write()`] does; empty without a version.
pub(crate) fn announcement(version: Option<Version>, client: Option<IpAddr>) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(version) = version {
        write(
            version,
            client.filter(|client| *client != UNIX_PEER.ip()),
            &mut out,
        );
    }
    out
}

/// Appends a header for this client; `None`: the sender speaks for itself. The client's port and the address that it
/// connected to are not told: both are zero.
pub fn write(version: Version, client: Option<IpAddr>, out: &mut Vec<u8>) {
    match (version, client.map(|client| client.to_canonical())) {
        (Version::V1, None) => out.extend_from_slice(b"PROXY UNKNOWN\r\n"),
        (Version::V1, Some(IpAddr::V4(client))) => {
            let _ = write!(out, "PROXY TCP4 {client} 0.0.0.0 0 0\r\n");
        }
        (Version::V1, Some(IpAddr::V6(client))) => {
            let _ = write!(out, "PROXY TCP6 {client} :: 0 0\r\n");
        }
        (Version::V2, client) => {
            out.extend_from_slice(BINARY);
            match client {
                None => out.extend_from_slice(&[0x20, 0, 0, 0]),
                Some(IpAddr::V4(client)) => {
                    out.extend_from_slice(&[0x21, 0x11, 0, 12]);
                    out.extend_from_slice(&client.octets());
                    out.extend_from_slice(&[0; 8]);
                }
                Some(IpAddr::V6(client)) => {
                    out.extend_from_slice(&[0x21, 0x21, 0, 36]);
                    out.extend_from_slice(&client.octets());
                    out.extend_from_slice(&[0; 20]);
                }
            }
        }
    }
}

/// Checks the parser with any bytes: it reads no more than it is given, needs each byte of a header, and finds the same
/// header whatever follows.
///
/// # Panics
/// If an invariant does not hold.
#[cfg(any(test, fuzzing))]
pub fn exercise(input: &[u8]) {
    let whole = parse(input);
    if let Ok(Step::Header { used, .. }) = whole {
        assert!(used <= input.len() && used <= HEADER_MAX);
        assert_eq!(parse(&input[..used]), whole);
    }
    for end in 0..input.len().min(HEADER_MAX) {
        match (parse(&input[..end]), whole) {
            (Ok(Step::Partial), _) => {}
            (Ok(Step::Header { used, .. }), _) => {
                assert!(used <= end);
                assert_eq!(parse(&input[..end]), whole);
            }
            (Err(fault), whole) => assert_eq!(whole, Err(fault), "more bytes do not mend a header"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> Announced {
        Announced::Client(text.parse().unwrap())
    }

    fn v2(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
        let length = u16::try_from(addresses.len()).unwrap().to_be_bytes();
        [BINARY, &[command, family], &length, addresses].concat()
    }

    #[test]
    fn headers_are_read_whole_and_cut_at_every_byte() {
        let four = [&[192, 0, 2, 7, 10, 0, 0, 1][..], &[0x12, 0x67, 0, 80]].concat();
        let six = [
            &[0x20, 1, 0xd, 0xb8][..],
            &[0; 11],
            &[7],
            &[0; 16],
            &[0x12, 0x67, 0, 80],
        ]
        .concat();
        let with_fields = [&four[..], &[3, 0, 4, 1, 2, 3, 4]].concat();
        for (header, announced) in [
            (
                b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\r\n".to_vec(),
                client("192.0.2.7:4711"),
            ),
            (
                b"PROXY TCP6 2001:db8::7 ::1 4711 80\r\n".to_vec(),
                client("[2001:db8::7]:4711"),
            ),
            (
                b"PROXY TCP4 192.0.2.7 0.0.0.0 0 0\r\n".to_vec(),
                client("192.0.2.7:0"),
            ),
            (b"PROXY TCP6 :: ::1 1 80\r\n".to_vec(), client("0.0.0.0:1")),
            (b"PROXY UNKNOWN\r\n".to_vec(), Announced::Sender),
            (b"PROXY UNKNOWN ::1 ::2 x\r\n".to_vec(), Announced::Sender),
            (v2(0x21, 0x11, &four), client("192.0.2.7:4711")),
            (v2(0x21, 0x11, &with_fields), client("192.0.2.7:4711")),
            (v2(0x21, 0x21, &six), client("[2001:db8::7]:4711")),
            (v2(0x20, 0x00, &[]), Announced::Sender),
            (v2(0x20, 0x11, &[1]), Announced::Sender),
            (v2(0x21, 0x00, &[]), Announced::Sender),
            (v2(0x21, 0x12, &four), Announced::Sender),
            (v2(0x21, 0x31, &[0; 216]), Announced::Sender),
            (v2(0x20, 0, &vec![0; HEADER_MAX - BINARY_HEAD]), Announced::Sender),
        ] {
            let used = header.len();
            let whole = Ok(Step::Header { announced, used });
            assert_eq!(parse(&header), whole, "{}", header.escape_ascii());
            let more = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
            assert_eq!(parse(&more), whole);
            for end in 0..used {
                assert_eq!(parse(&header[..end]), Ok(Step::Partial), "{end} bytes");
            }
            exercise(&more);
        }
    }

    #[test]
    fn mistakes_are_found_as_soon_as_they_arrive() {
        let long = [&b"PROXY UNKNOWN "[..], &[b'x'; 100]].concat();
        for header in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"PROXI",
            b"\r\n\r\n\0\r\nQUIX",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 4711\r\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 80 \r\n",
            b"PROXY TCP4  192.0.2.7 10.0.0.1 4711 80\r\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 04711 80\r\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 +711 80\r\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 65536 80\r\n",
            b"PROXY TCP4 192.0.2.07 10.0.0.1 1 80\r\n",
            b"PROXY TCP4 ::1 ::1 1 80\r\n",
            b"PROXY TCP6 192.0.2.7 10.0.0.1 1 80\r\n",
            b"PROXY UDP4 192.0.2.7 10.0.0.1 1 80\r\n",
            b"PROXY \r\n",
            &long,
            &v2(0x11, 0x11, &[0; 12]),
            &v2(0x22, 0x11, &[0; 12]),
            &v2(0x21, 0x41, &[0; 12]),
            &v2(0x21, 0x13, &[0; 12]),
            &v2(0x21, 0x11, &[0; 11]),
            &v2(0x21, 0x21, &[0; 35]),
            &v2(0x20, 0, &vec![0; HEADER_MAX - BINARY_HEAD + 1]),
        ] {
            assert!(parse(header).is_err(), "{}", header.escape_ascii());
            exercise(header);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for version in [Version::V1, Version::V2] {
            for (address, announced) in [
                (Some("192.0.2.7"), client("192.0.2.7:0")),
                (Some("::ffff:192.0.2.7"), client("192.0.2.7:0")),
                (Some("2001:db8::7"), client("[2001:db8::7]:0")),
                (None, Announced::Sender),
            ] {
                let mut out = Vec::new();
                write(version, address.map(|address| address.parse().unwrap()), &mut out);
                let used = out.len();
                assert_eq!(parse(&out), Ok(Step::Header { announced, used }));
            }
        }
    }
}
