//! Packet headers, as far as they can be read without keys: the invariants (RFC 8999), and the long headers of versions 1
//! (RFC 9000, section 17.2) and 2 (RFC 9369, section 3.2).

use super::varint;
use crate::quic_facts::{V1, V2};

/// Longest connection ID of versions 1 and 2, in bytes.
pub(crate) const ID_MAX: usize = 20;
/// Length of the tag at the end of a Retry packet, in bytes (RFC 9001, section 5.8).
const RETRY_TAG: usize = 16;

/// Type of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketKind {
    Initial,
    ZeroRtt,
    Handshake,
    OneRtt,
    Retry,
    VersionNegotiation,
    /// A long header of a version that is not read here.
    Foreign,
}

/// A packet with its readable header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    pub(crate) kind: PacketKind,
    /// Version of a long header; 0 for a short one.
    pub(crate) version: u32,
    pub(crate) destination: &'a [u8],
    /// Empty in a short header.
    pub(crate) source: &'a [u8],
    /// Bytes before the packet number; the whole packet if it has none.
    pub(crate) number_at: usize,
    /// The packet, header included.
    pub(crate) bytes: &'a [u8],
}

/// Shortest datagram with a client's Initial packet, in bytes (RFC 9000, section 14.1).
const FIRST_MIN: u32 = 1200;
/// Shortest connection ID that a client may make up for a server, in bytes (RFC 9000, section 7.2).
const FIRST_ID_MIN: usize = 8;

/// Whether a connection may begin with a datagram of `len` bytes: it has a long header of a version that is read here, or is as long
/// as a client's first datagram and has the invariants of another version.
pub(crate) fn is_first(datagram: &[u8], len: u32) -> bool {
    let Some((packet, _)) = next(datagram, 0) else {
        return false;
    };
    if datagram[0] & 0x40 == 0 {
        return false;
    }
    match packet.kind {
        // The packet number, a payload that is not empty, and the tag.
        PacketKind::Initial | PacketKind::ZeroRtt | PacketKind::Handshake => {
            packet.bytes.len() >= packet.number_at + 20
        }
        PacketKind::Foreign => {
            let ids = (FIRST_ID_MIN..=ID_MAX).contains(&packet.destination.len());
            len >= FIRST_MIN && ids && packet.source.len() <= ID_MAX
        }
        _ => false,
    }
}

/// The packet at the front of `datagram` and the bytes behind it, which are empty or another packet. `id_len` is the length of
/// connection IDs in short headers, in bytes. `None` if the bytes are no packet, or cut.
pub(crate) fn next(datagram: &[u8], id_len: usize) -> Option<(Packet<'_>, &[u8])> {
    let first = *datagram.first()?;
    // The fixed bit (0x40) is not asked for: an end may clear it once its peer permits so (RFC 9287).
    if first & 0x80 == 0 {
        // Padding behind the last packet is no packet.
        if datagram.iter().all(|byte| *byte == 0) {
            return None;
        }
        let destination = datagram.get(1..1 + id_len)?;
        let packet = Packet {
            kind: PacketKind::OneRtt,
            version: 0,
            destination,
            source: &[],
            number_at: 1 + id_len,
            bytes: datagram,
        };
        return Some((packet, &[]));
    }
    let version = u32::from_be_bytes(datagram.get(1..5)?.try_into().ok()?);
    let (destination, rest) = id(datagram.get(5..)?)?;
    let (source, rest) = id(rest)?;
    let behind_ids = datagram.len() - rest.len();
    let whole = |kind, number_at| Packet {
        kind,
        version,
        destination,
        source,
        number_at,
        bytes: datagram,
    };
    let kind = match version {
        0 => {
            let is_list = !rest.is_empty() && rest.len().is_multiple_of(4);
            return is_list.then_some((whole(PacketKind::VersionNegotiation, behind_ids), &[]));
        }
        V1 => (first >> 4) & 3,
        // The types of version 2 are those of version 1, plus one.
        V2 => ((first >> 4) & 3).wrapping_sub(1) & 3,
        _ => return Some((whole(PacketKind::Foreign, behind_ids), &[])),
    };
    if destination.len() > ID_MAX || source.len() > ID_MAX {
        return None;
    }
    let (kind, rest) = match kind {
        0 => {
            let (len, rest) = varint(rest)?;
            (PacketKind::Initial, rest.get(usize::try_from(len).ok()?..)?)
        }
        1 => (PacketKind::ZeroRtt, rest),
        2 => (PacketKind::Handshake, rest),
        _ => {
            let is_whole = rest.len() > RETRY_TAG;
            return is_whole.then_some((whole(PacketKind::Retry, datagram.len()), &[]));
        }
    };
    let (len, rest) = varint(rest)?;
    let number_at = datagram.len() - rest.len();
    let end = number_at.checked_add(usize::try_from(len).ok()?)?;
    let (bytes, rest) = datagram.split_at_checked(end)?;
    let packet = Packet {
        bytes,
        ..whole(kind, number_at)
    };
    Some((packet, rest))
}

/// A connection ID with its length in front.
fn id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(len))
}

/// The versions in a Version Negotiation packet, at most `max`.
pub(crate) fn versions(packet: &Packet<'_>, max: usize) -> Vec<u32> {
    let list = packet.bytes.get(packet.number_at..).unwrap_or_default();
    let (versions, _) = list.as_chunks::<4>();
    versions
        .iter()
        .take(max)
        .map(|bytes| u32::from_be_bytes(*bytes))
        .collect()
}

/// The packet number whose low `len` bytes are `low`, given the number expected next (RFC 9000, appendix A.3).
pub(crate) fn number(low: u64, len: usize, expected: u64) -> u64 {
    let window = 1u64 << (8 * len);
    let candidate = (expected & !(window - 1)) | low;
    if candidate + window / 2 <= expected && candidate + window < 1 << 62 {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long header of version 1: `first`, IDs of 2 and 1 bytes, then `rest`.
    fn long(first: u8, version: u32, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first];
        bytes.extend_from_slice(&version.to_be_bytes());
        bytes.extend_from_slice(&[2, 0xaa, 0xbb, 1, 0xcc]);
        bytes.extend_from_slice(rest);
        bytes
    }

    #[test]
    fn coalesced_packets_come_one_by_one() {
        let mut datagram = long(0xc0, V1, &[1, 9, 3, 7, 7, 7]);
        datagram.extend_from_slice(&long(0xe0, V1, &[2, 8, 8]));
        datagram.extend_from_slice(&[0x41, 0xaa, 5, 5]);
        let (first, rest) = next(&datagram, 1).expect("an Initial packet");
        assert_eq!((first.kind, first.number_at), (PacketKind::Initial, 13));
        assert_eq!(
            (first.destination, first.source),
            (&[0xaa, 0xbb][..], &[0xcc][..])
        );
        let (second, rest) = next(rest, 1).expect("a Handshake packet");
        assert_eq!(second.kind, PacketKind::Handshake);
        let (third, rest) = next(rest, 1).expect("a short header");
        assert_eq!((third.kind, third.destination), (PacketKind::OneRtt, &[0xaa][..]));
        assert!(rest.is_empty());
        // Cut anywhere, the long headers are no packets.
        for cut in 0..16 {
            assert_eq!(next(&datagram[..cut], 1), None, "{cut}");
        }
    }

    #[test]
    fn types_depend_on_the_version() {
        use PacketKind::{Foreign, Handshake, Initial, Retry, VersionNegotiation, ZeroRtt};
        let body = [0; 24];
        for (first, version, want) in [
            (0xc0, V1, Initial),
            (0xd0, V1, ZeroRtt),
            (0xe0, V1, Handshake),
            (0xf0, V1, Retry),
            (0xd0, V2, Initial),
            (0xe0, V2, ZeroRtt),
            (0xf0, V2, Handshake),
            (0xc0, V2, Retry),
            (0x80, 0, VersionNegotiation),
            (0xc0, 0x1a2a_3a4a, Foreign),
        ] {
            let datagram = long(first, version, &body);
            let kind = next(&datagram, 0).map(|(packet, _)| packet.kind);
            assert_eq!(kind, Some(want), "{first:x} {version:x}");
        }
        assert!(
            !is_first(&long(0x80, V1, &[0, 24]), 1200),
            "the first packet has the fixed bit"
        );
        let list = long(0x80, 0, &[0, 0, 0, 1, 0x6b, 0x33, 0x43, 0xcf]);
        let (packet, _) = next(&list, 0).expect("Version Negotiation");
        assert_eq!(versions(&packet, 16), [V1, V2]);
        assert_eq!(versions(&packet, 1), [V1]);
    }

    /// RFC 9000, appendix A.3, and the ends of its window.
    #[test]
    fn numbers_are_completed_from_their_low_bytes() {
        assert_eq!(number(0x9b32, 2, 0xa82f_30ea + 1), 0xa82f_9b32);
        for (low, len, expected, want) in [
            (0, 1, 0, 0),
            (255, 1, 0, 255),
            (0, 1, 255, 256),
            (255, 1, 257, 255),
            (0xff, 1, 0x1_0000, 0xffff),
        ] {
            assert_eq!(number(low, len, expected), want, "{low} {expected}");
        }
    }
}
