//! Secrets of TLS connections as clients and servers log them (RFC 9850), and the seam to the ciphers that use them.
//!
//! The crate has no cipher: whoever gives it secrets gives it [`Suites`], too.

use crate::connection::Side;
use core::fmt;
use std::collections::HashMap;

/// Limit on connections whose secrets are kept; secrets of further ones are counted as refused.
const SESSIONS_MAX: usize = 1 << 18;
/// Limit on a line of a key log, in bytes; longer ones are skipped.
const LINE_MAX: usize = 1024;
/// Limit on the length of a secret in bytes: the output of SHA-512.
const SECRET_MAX: usize = 64;

/// Protection of one direction's records under one key.
pub trait Opener: fmt::Debug + Send {
    /// Opens record number `sequence` of the key in place: `fragment` loses what protects it. In TLS 1.3 the content type
    /// and padding stay at its end (RFC 8446, section 5.2). Returns whether it was authentic; if not, `fragment` is of no
    /// use.
    fn open(&self, sequence: u64, header: [u8; 5], fragment: &mut Vec<u8>) -> bool;

    /// Bytes by which a fragment is longer than its content, without padding.
    fn expansion(&self) -> usize;
}

/// Protection of one direction's QUIC packets under one key.
pub trait PacketOpener: fmt::Debug + Send {
    /// The mask of a packet's header protection (RFC 9001, section 5.4.1).
    fn mask(&self, sample: &[u8; 16]) -> [u8; 5];

    /// Opens packet `number` in place, given its header without protection: `payload` loses its tag. Returns whether the packet is
    /// authentic; if not, `payload` is of no use.
    fn open(&self, number: u64, header: &[u8], payload: &mut Vec<u8>) -> bool;
}

/// The cipher suites that can be opened. Suites are named by their number on the wire.
pub trait Suites: fmt::Debug + Send {
    /// Protection by a traffic secret of TLS 1.3 (RFC 8446, section 7.3); `None` if the suite is not known.
    fn tls13(&self, suite: u16, secret: &[u8]) -> Option<Box<dyn Opener>>;

    /// The secret after a key update (RFC 8446, section 7.2); `None` if the suite is not known.
    fn updated(&self, suite: u16, secret: &[u8]) -> Option<Vec<u8>>;

    /// Protection of the client's and the server's records by the master secret of TLS 1.2 and both random values
    /// (RFC 5246, section 6.3); `None` if the suite is not known.
    fn tls12(&self, suite: u16, master: &[u8], randoms: [&[u8; 32]; 2]) -> Option<[Box<dyn Opener>; 2]>;

    /// Protection of the client's and the server's Initial packets of QUIC, by the Destination Connection ID of the client's first
    /// one (RFC 9001, section 5.2); `None` if the version is not known.
    fn quic_initial(&self, version: u32, destination: &[u8]) -> Option<[Box<dyn PacketOpener>; 2]>;

    /// Protection by a traffic secret of QUIC (RFC 9001, section 5.1); `None` if the version or suite is not known.
    fn quic(&self, version: u32, suite: u16, secret: &[u8]) -> Option<Box<dyn PacketOpener>>;

    /// The secret after a key update of QUIC (RFC 9001, section 6.1); `None` if the version or suite is not known.
    fn quic_updated(&self, version: u32, suite: u16, secret: &[u8]) -> Option<Vec<u8>>;
}

/// Secrets of one connection.
#[derive(Default)]
pub(crate) struct Secrets {
    /// TLS 1.2 and older.
    pub(super) master: Option<Box<[u8]>>,
    /// TLS 1.3: what the client sends before the server's answer.
    pub(super) early: Option<Box<[u8]>>,
    handshake: [Option<Box<[u8]>>; 2],
    traffic: [Option<Box<[u8]>>; 2],
}

impl Secrets {
    pub(crate) fn early(&self) -> Option<&[u8]> {
        self.early.as_deref()
    }

    pub(crate) fn handshake(&self, side: Side) -> Option<&[u8]> {
        self.handshake[side as usize].as_deref()
    }

    pub(crate) fn traffic(&self, side: Side) -> Option<&[u8]> {
        self.traffic[side as usize].as_deref()
    }

    /// Whether they suffice for all records of a connection.
    pub(super) fn is_whole(&self) -> bool {
        let both = |secrets: &[Option<Box<[u8]>>; 2]| secrets.iter().all(Option::is_some);
        self.master.is_some() || (both(&self.handshake) && both(&self.traffic))
    }
}

/// The secrets known to an analysis.
#[derive(Default)]
pub(crate) struct Keyring {
    sessions: HashMap<[u8; 32], Secrets>,
    /// The beginning of a line whose end has not come.
    partial: Vec<u8>,
    /// Connections beyond the limit.
    refused: u64,
    suites: Option<Box<dyn Suites>>,
    /// Whether more secrets may come while packets are read.
    grows: bool,
}

impl fmt::Debug for Keyring {
    /// Shows no secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("sessions", &self.sessions.len())
            .field("suites", &self.suites)
            .finish_non_exhaustive()
    }
}

impl Keyring {
    pub(crate) fn set_suites(&mut self, suites: Box<dyn Suites>) {
        self.suites = Some(suites);
    }

    /// More secrets may come while packets are read.
    pub(crate) fn set_grows(&mut self) {
        self.grows = true;
    }

    pub(crate) fn suites(&self) -> Option<&dyn Suites> {
        self.suites.as_deref()
    }

    pub(crate) fn grows(&self) -> bool {
        self.grows
    }

    /// Whether there is any secret.
    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Connections whose secrets were refused because there were too many.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// The secrets of the connection whose ClientHello has this random value.
    pub(crate) fn find(&self, random: &[u8; 32]) -> Option<&Secrets> {
        self.sessions.get(random)
    }

    /// Adds the next bytes of a key log. Lines that are comments or that no version knows are ignored (RFC 9850,
    /// section 2).
    pub(crate) fn add(&mut self, mut text: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', text) {
            let (line, rest) = text.split_at(end);
            text = &rest[1..];
            if self.partial.is_empty() {
                self.line(line);
            } else {
                let mut whole = core::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.line(&whole);
            }
        }
        if self.partial.len() + text.len() <= LINE_MAX {
            self.partial.extend_from_slice(text);
        }
    }

    /// Adds a whole key log that stands beside others.
    pub(crate) fn add_block(&mut self, text: &[u8]) {
        let outer = core::mem::take(&mut self.partial);
        self.add(text);
        self.finish();
        self.partial = outer;
    }

    /// Ends the key log: its last line may lack a line end.
    pub(crate) fn finish(&mut self) {
        let last = core::mem::take(&mut self.partial);
        self.line(&last);
    }

    fn line(&mut self, line: &[u8]) {
        let Ok(line) = core::str::from_utf8(line) else {
            return;
        };
        let mut words = line.split_ascii_whitespace();
        let (Some(label), Some(random), Some(secret), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return;
        };
        if !is_label(label) {
            return;
        }
        let random = hex(random).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let secret = hex(secret).filter(|secret| (1..=SECRET_MAX).contains(&secret.len()));
        let (Some(random), Some(secret)) = (random, secret) else {
            return;
        };
        if self.sessions.len() >= SESSIONS_MAX && !self.sessions.contains_key(&random) {
            self.refused += 1;
            return;
        }
        let secrets = self.sessions.entry(random).or_default();
        let place = match label {
            "CLIENT_RANDOM" => &mut secrets.master,
            "CLIENT_EARLY_TRAFFIC_SECRET" => &mut secrets.early,
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => &mut secrets.handshake[0],
            "SERVER_HANDSHAKE_TRAFFIC_SECRET" => &mut secrets.handshake[1],
            "CLIENT_TRAFFIC_SECRET_0" => &mut secrets.traffic[0],
            _ => &mut secrets.traffic[1],
        };
        *place = Some(secret.into_boxed_slice());
    }
}

/// Whether the secret opens records.
fn is_label(label: &str) -> bool {
    matches!(
        label,
        "CLIENT_RANDOM"
            | "CLIENT_EARLY_TRAFFIC_SECRET"
            | "CLIENT_HANDSHAKE_TRAFFIC_SECRET"
            | "SERVER_HANDSHAKE_TRAFFIC_SECRET"
            | "CLIENT_TRAFFIC_SECRET_0"
            | "SERVER_TRAFFIC_SECRET_0"
    )
}

/// The bytes of a hexadecimal text with an even number of digits.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn random() -> [u8; 32] {
        core::array::from_fn(|n| n as u8)
    }

    #[test]
    fn lines_may_be_cut_anywhere() {
        let text = format!(
            "# a comment\r\nCLIENT_TRAFFIC_SECRET_0 {RANDOM} 0a0B\nEXPORTER_SECRET {RANDOM} 00\nnonsense\n\
             SERVER_TRAFFIC_SECRET_0 {RANDOM} 0c0d\r\nCLIENT_RANDOM {RANDOM} 0e"
        );
        for cut in 0..=text.len() {
            let mut keyring = Keyring::default();
            keyring.add(&text.as_bytes()[..cut]);
            keyring.add(&text.as_bytes()[cut..]);
            keyring.finish();
            let secrets = keyring.find(&random()).expect("secrets");
            assert_eq!(secrets.traffic(Side::Client), Some(&[10, 11][..]), "{cut}");
            assert_eq!(secrets.traffic(Side::Server), Some(&[12, 13][..]), "{cut}");
            assert_eq!(secrets.master.as_deref(), Some(&[14][..]), "{cut}");
            assert_eq!(keyring.sessions.len(), 1);
        }
    }

    #[test]
    fn what_is_no_secret_is_ignored() {
        let mut keyring = Keyring::default();
        let long = "00".repeat(SECRET_MAX + 1);
        for secret in ["", "0", "0g", &long] {
            keyring.add(format!("CLIENT_RANDOM {RANDOM} {secret}\n").as_bytes());
        }
        keyring.add(b"CLIENT_RANDOM 00 00\n");
        keyring.add(&[b'x'; 4 * LINE_MAX]);
        assert!(keyring.is_empty());
        assert!(keyring.partial.len() <= LINE_MAX);
    }

    #[test]
    fn secrets_are_never_shown() {
        let mut keyring = Keyring::default();
        keyring.add(format!("CLIENT_RANDOM {RANDOM} abcdef\n").as_bytes());
        let shown = format!("{keyring:?}");
        assert!(
            shown.contains("sessions: 1") && !shown.contains("171") && !shown.contains("ab"),
            "{shown}"
        );
    }
}
