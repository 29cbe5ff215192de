//! Packet protection as an observer removes it (RFC 9001, section 5): the keys of both directions, and key updates.

use super::header::{self, Packet, PacketKind};
use crate::connection::Side;
use crate::tls::{Keyring, PacketOpener, ServerHello};

/// Length of the sample from which header protection is made, in bytes.
const SAMPLE: usize = 16;
/// Limit on the sets of Initial keys: one for each version and connection ID that a client tried.
const INITIAL_MAX: usize = 4;

/// Packet number spaces (RFC 9000, section 12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Initial = 0,
    Handshake = 1,
    Application = 2,
}

impl Space {
    /// The space of a packet that has a number.
    pub(super) fn of(kind: PacketKind) -> Option<Space> {
        match kind {
            PacketKind::Initial => Some(Space::Initial),
            PacketKind::Handshake => Some(Space::Handshake),
            PacketKind::ZeroRtt | PacketKind::OneRtt => Some(Space::Application),
            _ => None,
        }
    }
}

/// Why a packet cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// Its secret is not known, or not yet.
    NoKey,
    /// It is cut, or not authentic under the keys known.
    NotAuthentic,
}

/// An opened packet.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) number: u64,
    pub(super) payload: Vec<u8>,
}

/// Keys of the current 1-RTT phase and of its neighbors.
#[derive(Debug)]
struct Phases {
    /// Makes the header protection of all phases.
    header: Box<dyn PacketOpener>,
    secret: Vec<u8>,
    bit: bool,
    /// Key of the current phase; `None` in the first one, whose key is `header`.
    current: Option<Box<dyn PacketOpener>>,
    /// Key of the phase before: packets may come late.
    before: Option<Box<dyn PacketOpener>>,
}

/// Keys and packet numbers of one direction.
#[derive(Debug, Default)]
struct Half {
    early: Option<Box<dyn PacketOpener>>,
    handshake: Option<Box<dyn PacketOpener>>,
    phases: Option<Phases>,
    /// Packet number expected next in each space.
    expected: [u64; 3],
}

/// Keys of Initial packets, by version and connection ID.
#[derive(Debug)]
struct Initial {
    version: u32,
    destination: Vec<u8>,
    openers: [Box<dyn PacketOpener>; 2],
}

/// The keys of one connection.
#[derive(Debug, Default)]
pub(super) struct Protection {
    initial: Vec<Initial>,
    halves: [Half; 2],
    /// Key updates of both directions.
    pub(super) updates: u64,
}

impl Protection {
    /// Opens a packet of `side`. `destination` is the connection ID that makes the Initial keys, `hello` the server's choice of a
    /// suite, `random` the client's name in a key log.
    pub(super) fn open(
        &mut self,
        side: Side,
        packet: &Packet<'_>,
        destination: &[u8],
        session: Session<'_>,
        keys: &Keyring,
    ) -> Result<Opened, Closed> {
        let space = Space::of(packet.kind).ok_or(Closed::NoKey)?;
        let expected = self.halves[side as usize].expected[space as usize];
        let opened = match packet.kind {
            PacketKind::Initial => {
                let openers = self
                    .initial(packet.version, destination, keys)
                    .ok_or(Closed::NoKey)?;
                open(
                    &*openers[side as usize],
                    &*openers[side as usize],
                    packet,
                    expected,
                )?
            }
            _ => {
                self.derive(side, packet.kind, session, keys);
                let half = &mut self.halves[side as usize];
                match packet.kind {
                    PacketKind::OneRtt => {
                        let phases = half.phases.as_mut().ok_or(Closed::NoKey)?;
                        let updates = &mut self.updates;
                        phases.open(packet, expected, session, keys, updates)?
                    }
                    kind => {
                        let opener = match kind {
                            PacketKind::Handshake => &half.handshake,
                            _ => &half.early,
                        };
                        let opener = opener.as_deref().ok_or(Closed::NoKey)?;
                        open(opener, opener, packet, expected)?
                    }
                }
            }
        };
        let next = &mut self.halves[side as usize].expected[space as usize];
        *next = (*next).max(opened.number + 1);
        Ok(opened)
    }

    fn initial(
        &mut self,
        version: u32,
        destination: &[u8],
        keys: &Keyring,
    ) -> Option<&[Box<dyn PacketOpener>; 2]> {
        let known = self
            .initial
            .iter()
            .position(|known| known.version == version && known.destination == destination);
        let at = match known {
            Some(at) => at,
            None => {
                let openers = keys.suites()?.quic_initial(version, destination)?;
                if self.initial.len() >= INITIAL_MAX {
                    self.initial.remove(0);
                }
                self.initial.push(Initial {
                    version,
                    destination: destination.to_vec(),
                    openers,
                });
                self.initial.len() - 1
            }
        };
        self.initial.get(at).map(|known| &known.openers)
    }

    /// Makes the key for packets of this kind, if there is none and its secret is known.
    fn derive(&mut self, side: Side, kind: PacketKind, session: Session<'_>, keys: &Keyring) {
        let half = &mut self.halves[side as usize];
        let is_known = match kind {
            PacketKind::Handshake => half.handshake.is_some(),
            PacketKind::OneRtt => half.phases.is_some(),
            _ => half.early.is_some(),
        };
        let (Some(suites), Some(random)) = (keys.suites(), session.random) else {
            return;
        };
        if is_known {
            return;
        }
        let Some(secrets) = keys.find(random) else {
            return;
        };
        let make = |suite: u16, secret: &[u8]| suites.quic(session.version, suite, secret);
        if kind == PacketKind::ZeroRtt {
            // The suite is that of the session before. Its key fits one suite, but header protection alone cannot tell which:
            // the first that has a secret of this length is taken.
            let secret = secrets.early().filter(|_| side == Side::Client);
            half.early =
                secret.and_then(|secret| [0x1301, 0x1302].iter().find_map(|suite| make(*suite, secret)));
            return;
        }
        let Some(suite) = session.server.map(|hello| hello.cipher_suite) else {
            return;
        };
        if kind == PacketKind::Handshake {
            half.handshake = secrets.handshake(side).and_then(|secret| make(suite, secret));
        } else if let Some(secret) = secrets.traffic(side) {
            half.phases = make(suite, secret).map(|header| Phases {
                header,
                secret: secret.to_vec(),
                bit: false,
                current: None,
                before: None,
            });
        }
    }
}

/// What keys depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session<'a> {
    pub(super) version: u32,
    pub(super) random: Option<&'a [u8; 32]>,
    pub(super) server: Option<&'a ServerHello>,
}

impl Phases {
    fn open(
        &mut self,
        packet: &Packet<'_>,
        expected: u64,
        session: Session<'_>,
        keys: &Keyring,
        updates: &mut u64,
    ) -> Result<Opened, Closed> {
        let header = &*self.header;
        let bare = unmask(header, packet).ok_or(Closed::NotAuthentic)?;
        // The phase is the bit 0x04 of a short header (RFC 9000, section 17.3.1).
        if (bare.header[0] & 0x04 != 0) == self.bit {
            return bare.open(self.current.as_deref().unwrap_or(header), packet, expected);
        }
        // After the first update, the phase before is the one whose key also makes the header protection.
        let before = self
            .before
            .as_deref()
            .or(self.current.is_some().then_some(header));
        if let Some(before) = before
            && let Ok(opened) = bare.open(before, packet, expected)
            && opened.number < expected
        {
            return Ok(opened);
        }
        let suite = session.server.map(|hello| hello.cipher_suite);
        let next = suite.zip(keys.suites()).and_then(|(suite, suites)| {
            let secret = suites.quic_updated(session.version, suite, &self.secret)?;
            let opener = suites.quic(session.version, suite, &secret)?;
            Some((secret, opener))
        });
        let (secret, opener) = next.ok_or(Closed::NoKey)?;
        let opened = bare.open(&*opener, packet, expected)?;
        *updates += 1;
        self.bit = !self.bit;
        self.secret = secret;
        self.before = self.current.replace(opener);
        Ok(opened)
    }
}

/// A packet without header protection.
struct Bare {
    header: Vec<u8>,
    /// The low bytes of the packet number, and how many they are.
    low: u64,
    len: usize,
}

impl Bare {
    fn open(&self, opener: &dyn PacketOpener, packet: &Packet<'_>, expected: u64) -> Result<Opened, Closed> {
        let number = header::number(self.low, self.len, expected);
        let mut payload = packet.bytes[self.header.len()..].to_vec();
        match opener.open(number, &self.header, &mut payload) {
            true => Ok(Opened { number, payload }),
            false => Err(Closed::NotAuthentic),
        }
    }
}

/// Removes header protection (RFC 9001, section 5.4); `None` if the packet is too short for a sample.
fn unmask(opener: &dyn PacketOpener, packet: &Packet<'_>) -> Option<Bare> {
    let at = packet.number_at;
    let sample = packet.bytes.get(at + 4..at + 4 + SAMPLE)?;
    let mask = opener.mask(sample.try_into().ok()?);
    let is_long = packet.bytes[0] & 0x80 != 0;
    let first = packet.bytes[0] ^ (mask[0] & if is_long { 0x0f } else { 0x1f });
    let len = usize::from(first & 3) + 1;
    let mut header = packet.bytes[..at + len].to_vec();
    header[0] = first;
    let mut low = 0;
    for (byte, mask) in header[at..].iter_mut().zip(&mask[1..]) {
        *byte ^= mask;
        low = low << 8 | u64::from(*byte);
    }
    Some(Bare { header, low, len })
}

fn open(
    header: &dyn PacketOpener,
    body: &dyn PacketOpener,
    packet: &Packet<'_>,
    expected: u64,
) -> Result<Opened, Closed> {
    let bare = unmask(header, packet).ok_or(Closed::NotAuthentic)?;
    bare.open(body, packet, expected)
}
