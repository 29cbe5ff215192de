//! Which packets a datagram of QUIC has, as far as anybody on the path can see: the invariants of RFC 8999, and the long headers
//! of versions 1 (RFC 9000, section 17.2) and 2 (RFC 9369, section 3.2).

/// The second version of QUIC (RFC 9369, section 3.1).
const V2: u32 = 0x6b33_43cf;

/// A kind of packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
    VersionNegotiation,
    /// With a short header: the application's data.
    Short,
}

/// Reads the bytes of a datagram.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    /// A length of variable size (RFC 9000, section 16).
    fn length(&mut self) -> Option<usize> {
        let first = self.byte()?;
        let rest = self.take((1 << (first >> 6)) - 1)?;
        let value = rest.iter().fold(u64::from(first & 0x3f), |value, &byte| {
            value << 8 | u64::from(byte)
        });
        usize::try_from(value).ok()
    }
}

/// The kinds of the packets in a datagram, in their order, and the version of its first. What is no packet, as padding behind
/// the last, is left out.
pub(super) fn kinds(datagram: &[u8]) -> (Vec<Kind>, Option<u32>) {
    let (mut found, mut spoken) = (Vec::new(), None);
    let mut reader = Reader(datagram);
    while let Some((kind, version)) = next(&mut reader) {
        found.push(kind);
        spoken = spoken.or(version);
    }
    (found, spoken)
}

/// The next packet, and its version if it has a long header.
fn next(reader: &mut Reader<'_>) -> Option<(Kind, Option<u32>)> {
    let first = reader.byte()?;
    if first & 0x80 == 0 {
        let is_packet = first & 0x40 != 0;
        reader.0 = &[];
        return is_packet.then_some((Kind::Short, None));
    }
    let version = u32::from_be_bytes(reader.take(4)?.try_into().ok()?);
    for _ in 0..2 {
        let length = reader.byte()?;
        reader.take(usize::from(length))?;
    }
    if version == 0 {
        reader.0 = &[];
        return Some((Kind::VersionNegotiation, Some(0)));
    }
    // Version 2 counts its types from another one.
    let number = (first >> 4 & 3).wrapping_sub(u8::from(version == V2)) & 3;
    let kind = [Kind::Initial, Kind::ZeroRtt, Kind::Handshake, Kind::Retry][usize::from(number)];
    match kind {
        Kind::Retry => reader.0 = &[],
        _ => {
            if kind == Kind::Initial {
                let token = reader.length()?;
                reader.take(token)?;
            }
            let length = reader.length()?;
            reader.take(length)?;
        }
    }
    Some((kind, Some(version)))
}

#[test]
fn packets_of_a_datagram_are_told_apart() {
    let long = |first: u8, version: u32, rest: &[u8]| {
        let mut bytes = vec![first];
        bytes.extend(version.to_be_bytes());
        bytes.extend([2, 7, 7, 1, 9]);
        bytes.extend(rest);
        bytes
    };
    // An Initial with a token of 3 bytes and 5 bytes, a Handshake packet of 64, a packet of 1-RTT.
    let mut joined = long(0xc0, 1, &[3, 0, 0, 0, 5, 0, 0, 0, 0, 0]);
    joined.extend(long(0xe0, 1, &[&[0x40, 64][..], &[0; 64]].concat()));
    joined.extend([0x40; 20]);
    let all = vec![Kind::Initial, Kind::Handshake, Kind::Short];
    assert_eq!(kinds(&joined), (all, Some(1)));
    assert_eq!(kinds(&long(0xd0, 1, &[2, 0, 0])), (vec![Kind::ZeroRtt], Some(1)));
    assert_eq!(kinds(&long(0xf0, 1, &[0; 16])), (vec![Kind::Retry], Some(1)));
    assert_eq!(
        kinds(&long(0xd0, V2, &[0, 2, 0, 0])),
        (vec![Kind::Initial], Some(V2))
    );
    assert_eq!(
        kinds(&long(0x80, 0, &[0, 0, 0, 1])),
        (vec![Kind::VersionNegotiation], Some(0))
    );
    // Padding behind a packet, and a packet that is cut.
    let padded = [long(0xd0, 1, &[2, 0, 0]), vec![0; 9]].concat();
    assert_eq!(kinds(&padded).0, [Kind::ZeroRtt]);
    assert_eq!(kinds(&long(0xd0, 1, &[9, 0])), (vec![], None));
}
