//! Packets (RFC 9000 section 17) and their protection (RFC 9001 section 5), of version 1.

use super::frames::{take_bytes, take_varint, varint};
use rustls::quic::{DirectionalKeys, Secrets};

/// Bytes of each packet number that we write.
pub(super) const NUMBER_BYTES: usize = 4;

/// Bytes of the tag that authenticates a packet, with each cipher of QUIC.
pub(super) const TAG_BYTES: usize = 16;

/// Bytes of a connection ID of the server in short headers, which do not name them.
const SHORT_ID_BYTES: usize = super::SOURCE.len();

/// A level of encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Initial = 0,
    Handshake = 1,
    Application = 2,
}

/// A packet off a datagram.
#[derive(Debug)]
pub(super) enum Packet {
    Retry {
        source: Vec<u8>,
        token: Vec<u8>,
    },
    Protected {
        level: Level,
        source: Vec<u8>,
        bytes: Vec<u8>,
        /// Where the packet number is.
        number_at: usize,
    },
}

/// Keys of a level.
pub(super) struct Keys {
    local: DirectionalKeys,
    remote: DirectionalKeys,
    /// Of the last level: what makes the next keys, to which the server changes when it likes (RFC 9001 section 6).
    next: Option<Secrets>,
    /// How often it did, modulo 2: the key phase bit.
    phase: u8,
}

impl From<rustls::quic::Keys> for Keys {
    fn from(keys: rustls::quic::Keys) -> Keys {
        Keys {
            local: keys.local,
            remote: keys.remote,
            next: None,
            phase: 0,
        }
    }
}

/// The key phase bit of a short header.
const PHASE: u8 = 0x04;

impl Keys {
    pub(super) fn with_successors(keys: rustls::quic::Keys, next: Secrets) -> Keys {
        Keys {
            next: Some(next),
            ..keys.into()
        }
    }

    /// Appends length (of long headers), number and protected payload to the header.
    pub(super) fn seal(&self, level: Level, number: u64, packet: &mut Vec<u8>, payload: &[u8]) {
        if level != Level::Application {
            let length = NUMBER_BYTES + payload.len() + TAG_BYTES;
            // Always in two bytes, so that the padding is known before.
            packet.extend_from_slice(&(length as u16 | 0x4000).to_be_bytes());
        }
        if level == Level::Application {
            packet[0] |= self.phase;
        }
        let number_at = packet.len();
        packet.extend_from_slice(&(number as u32).to_be_bytes());
        let payload_at = packet.len();
        packet.extend_from_slice(payload);
        let (header, body) = packet.split_at_mut(payload_at);
        let tag = self
            .local
            .packet
            .encrypt_in_place(number, header, body)
            .expect("shorter than any bound of the cipher");
        packet.extend_from_slice(tag.as_ref());
        let (header, body) = packet.split_at_mut(number_at + NUMBER_BYTES);
        let (first, rest) = header.split_first_mut().expect("a header");
        let sample = &body[..self.local.header.sample_len()];
        self.local
            .header
            .encrypt_in_place(sample, first, &mut rest[number_at - 1..])
            .expect("a sample of the right length");
    }

    /// Number and payload of a packet; `None` if it is not of these keys.
    pub(super) fn open(
        &mut self,
        packet: &mut [u8],
        number_at: usize,
        newest: Option<u64>,
    ) -> Option<(u64, Vec<u8>)> {
        let (header, body) = packet.split_at_mut_checked(number_at + 4)?;
        let (first, rest) = header.split_first_mut()?;
        let sample = body.get(..self.remote.header.sample_len())?;
        let number = &mut rest[number_at - 1..];
        self.remote.header.decrypt_in_place(sample, first, number).ok()?;
        let length = usize::from(*first & 3) + 1;
        let read = number[..length]
            .iter()
            .fold(0, |read, &byte| read << 8 | u64::from(byte));
        let number = nearest(read, length, newest.map_or(0, |newest| newest + 1));
        let phase = *first & PHASE;
        let (header, body) = packet.split_at_mut(number_at + length);
        if phase == self.phase || self.next.is_none() {
            let payload = self.remote.packet.decrypt_in_place(number, header, body).ok()?;
            return Some((number, payload.to_vec()));
        }
        let mut secrets = self.next.clone()?;
        let keys = secrets.next_packet_keys();
        let payload = keys.remote.decrypt_in_place(number, header, body).ok()?.to_vec();
        // It shows that the server has changed its keys, and so do we.
        (self.local.packet, self.remote.packet) = (keys.local, keys.remote);
        (self.next, self.phase) = (Some(secrets), phase);
        Some((number, payload))
    }
}

/// The packet number that ends as `read` and is nearest to the expected one (RFC 9000 section A.3).
fn nearest(read: u64, bytes: usize, expected: u64) -> u64 {
    let window = 1_u64 << (8 * bytes);
    let candidate = (expected & !(window - 1)) | read;
    if candidate + window / 2 <= expected {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

/// The header of a packet up to where the length of a long one, or the number of a short one, follows.
pub(super) fn header(level: Level, destination: &[u8], source: &[u8], token: &[u8]) -> Vec<u8> {
    let numbered = (NUMBER_BYTES - 1) as u8;
    let mut packet = match level {
        Level::Initial => vec![0xc0 | numbered],
        Level::Handshake => vec![0xe0 | numbered],
        Level::Application => {
            let mut packet = vec![0x40 | numbered];
            packet.extend_from_slice(destination);
            return packet;
        }
    };
    packet.extend_from_slice(&1_u32.to_be_bytes());
    for id in [destination, source] {
        packet.push(id.len() as u8);
        packet.extend_from_slice(id);
    }
    if level == Level::Initial {
        varint(token.len() as u64, &mut packet);
        packet.extend_from_slice(token);
    }
    packet
}

/// Takes the first packet off a datagram of the server; `None` for what is none.
pub(super) fn split(datagram: &mut Vec<u8>) -> Option<Packet> {
    let all = datagram.as_slice();
    let first = *all.first()?;
    if first & 0x80 == 0 {
        return Some(Packet::Protected {
            level: Level::Application,
            source: Vec::new(),
            bytes: std::mem::take(datagram),
            number_at: 1 + SHORT_ID_BYTES,
        });
    }
    let mut rest = all.get(5..)?;
    let mut ids = [const { Vec::new() }; 2];
    for id in &mut ids {
        let (&length, after) = rest.split_first()?;
        let (bytes, after) = after.split_at_checked(usize::from(length))?;
        *id = bytes.to_vec();
        rest = after;
    }
    let [_, source] = ids;
    let level = match first >> 4 & 3 {
        0 => {
            take_bytes(&mut rest)?;
            Level::Initial
        }
        2 => Level::Handshake,
        3 => {
            // An integrity tag is at its end, which a hostile client need not check.
            let token = rest.get(..rest.len().checked_sub(TAG_BYTES)?)?.to_vec();
            datagram.clear();
            return Some(Packet::Retry { source, token });
        }
        _ => return None,
    };
    let length = usize::try_from(take_varint(&mut rest)?).ok()?;
    let number_at = all.len() - rest.len();
    let end = number_at.checked_add(length).filter(|&end| end <= all.len())?;
    let after = datagram.split_off(end);
    Some(Packet::Protected {
        level,
        source,
        bytes: std::mem::replace(datagram, after),
        number_at,
    })
}
