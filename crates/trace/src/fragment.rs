//! Reassembly of fragmented IP datagrams (RFC 791, section 3.2; RFC 8200, section 4.5).
//!
//! A datagram is complete when every byte from its first to its last fragment was captured, in any order and any number
//! of times. If fragments overlap, the bytes that arrived first count. Memory is bounded, and so is the time for which
//! parts are kept; dropped parts were counted as fragments and have no other effect. Knows nothing of a datagram's
//! content.

use crate::packet::{DatagramId, Fragment};
use core::time::Duration;
use std::collections::VecDeque;
use units::Instant;

/// Limit on incomplete datagrams; the oldest is dropped for a new one.
const DATAGRAMS_MAX: usize = 256;
/// Limit on fragments of a datagram: a packet of 65,535 bytes over the smallest MTU that IPv4 allows has 1,366.
const FRAGMENTS_MAX: usize = 1_366;
/// Limit on bytes held over all datagrams; the oldest datagram is dropped.
const BYTES_MAX: usize = 4 << 20;
/// Time for which parts are kept, in capture time: Linux's `ipfrag_time`.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum length of a datagram, headers included.
const DATAGRAM_MAX: usize = 65_535;

/// The parts of one datagram so far.
#[derive(Debug)]
struct Datagram {
    id: DatagramId,
    began: Instant,
    /// Headers of the first fragment; empty until it arrives.
    headers: Vec<u8>,
    /// Offset and bytes of each part, sorted and without overlaps.
    parts: Vec<(usize, Vec<u8>)>,
    /// Length of the datagram's payload, known once the last fragment arrived.
    len: Option<usize>,
    /// Number of fragments received.
    fragments: u64,
}

impl Datagram {
    fn held(&self) -> usize {
        self.headers.len() + self.parts.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    }

    /// Keeps those bytes of a part that are new.
    fn add(&mut self, mut start: usize, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.parts.len() < FRAGMENTS_MAX {
            let next = self.parts.partition_point(|(at, _)| *at <= start);
            if let Some((at, before)) = next.checked_sub(1).map(|n| &self.parts[n]) {
                let known = (at + before.len()).saturating_sub(start).min(bytes.len());
                start += known;
                bytes = &bytes[known..];
            }
            let room = self.parts.get(next).map_or(bytes.len(), |(at, _)| at - start);
            let (fresh, rest) = bytes.split_at(room.min(bytes.len()));
            if !fresh.is_empty() {
                self.parts.insert(next, (start, fresh.to_vec()));
            }
            start += fresh.len();
            bytes = rest;
        }
    }

    /// The datagram as one packet, once it is complete.
    fn whole(&self) -> Option<Vec<u8>> {
        let len = self.len?;
        let mut end = 0;
        for (at, bytes) in &self.parts {
            if *at != end {
                return None;
            }
            end += bytes.len();
        }
        if end != len || self.headers.is_empty() {
            return None;
        }
        let mut packet = self.headers.clone();
        self.parts
            .iter()
            .for_each(|(_, bytes)| packet.extend_from_slice(bytes));
        // A length beyond the length field's range is invalid.
        let field = match packet[0] >> 4 {
            4 => u16::try_from(packet.len()).ok()?,
            _ => u16::try_from(packet.len() - 40).ok()?,
        };
        match packet[0] >> 4 {
            4 => {
                packet[2..4].copy_from_slice(&field.to_be_bytes());
                packet[6..8].copy_from_slice(&[0, 0]);
            }
            _ => {
                packet[4..6].copy_from_slice(&field.to_be_bytes());
                unlink_fragment_header(&mut packet, self.headers.len(), self.id.protocol);
            }
        }
        Some(packet)
    }
}

/// Replaces the next-header value that points to the fragment header with the one that follows it.
fn unlink_fragment_header(packet: &mut [u8], headers: usize, protocol: u8) {
    let (mut at, mut header) = (6, 40);
    while header < headers {
        let length = usize::from(packet[header + 1]);
        at = header;
        header += match packet[at] {
            // Authentication header: length in units of four bytes.
            51 => (length + 2) * 4,
            _ => (length + 1) * 8,
        };
    }
    packet[at] = protocol;
}

/// A reassembled datagram.
#[derive(Debug)]
pub(crate) struct Joined {
    /// The packet, from its IP header, as if it had never been fragmented.
    pub(crate) packet: Vec<u8>,
    /// Number of fragments before the one that completed it.
    pub(crate) before: u64,
}

/// All incomplete datagrams.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    /// In order of their first parts.
    datagrams: VecDeque<Datagram>,
    bytes: usize,
}

impl Joiner {
    /// Adds a fragment; returns the packet that it completes.
    pub(crate) fn add(&mut self, fragment: &Fragment<'_>, now: Instant) -> Option<Joined> {
        while let Some(oldest) = self.datagrams.front()
            && now.since(oldest.began) > PATIENCE
        {
            self.forget(0);
        }
        let (start, len) = (fragment.offset as usize, fragment.len as usize);
        if fragment.bytes.len() < len || start + len + fragment.headers.len() > DATAGRAM_MAX {
            // Captured only in part, or longer than any datagram may be.
            return None;
        }
        let place = match self.datagrams.iter().position(|one| one.id == fragment.datagram) {
            Some(place) => place,
            None => {
                if self.datagrams.len() >= DATAGRAMS_MAX {
                    self.forget(0);
                }
                self.datagrams.push_back(Datagram {
                    id: fragment.datagram,
                    began: now,
                    headers: Vec::new(),
                    parts: Vec::new(),
                    len: None,
                    fragments: 0,
                });
                self.datagrams.len() - 1
            }
        };
        let datagram = &mut self.datagrams[place];
        let before = datagram.held();
        if start == 0 && datagram.headers.is_empty() {
            datagram.headers = fragment.headers.to_vec();
        }
        if !fragment.has_more {
            datagram.len = Some(start + len);
        }
        datagram.add(start, fragment.bytes);
        datagram.fragments += 1;
        self.bytes += datagram.held() - before;
        if let Some(packet) = datagram.whole() {
            let before = datagram.fragments - 1;
            self.forget(place);
            return Some(Joined { packet, before });
        }
        while self.bytes > BYTES_MAX {
            self.forget(0);
        }
        None
    }

    fn forget(&mut self, place: usize) {
        if let Some(datagram) = self.datagrams.remove(place) {
            self.bytes -= datagram.held();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: [u8; 20] = [
        0x45, 0, 0, 0, 0, 7, 0, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2,
    ];

    fn fragment(id: u32, offset: u32, bytes: &[u8], has_more: bool) -> Fragment<'_> {
        Fragment {
            datagram: DatagramId {
                from: 1,
                to: 2,
                protocol: 6,
                id,
            },
            headers: &HEADERS,
            offset,
            len: bytes.len() as u32,
            has_more,
            bytes,
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn parts_in_any_order_and_twice_make_the_datagram() {
        let data: Vec<u8> = (0..=255).collect();
        let parts = [(0, 64, true), (64, 128, true), (48, 96, true), (128, 256, false)];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1], [1, 1, 3, 0]] {
            let mut joiner = Joiner::default();
            let mut found = None;
            for n in order {
                let (from, to, has_more) = parts[n];
                let part = fragment(1, from as u32, &data[from..to], has_more);
                found = found.or(joiner.add(&part, at(1)));
            }
            let packet = found.unwrap_or_else(|| panic!("{order:?}")).packet;
            assert_eq!(packet[20..], data, "{order:?}");
            assert_eq!(packet[2..4], [1, 20]);
        }
        let mut joiner = Joiner::default();
        assert!(joiner.add(&fragment(1, 0, &data[..64], true), at(1)).is_none());
        assert!(
            joiner
                .add(&fragment(1, 128, &data[128..], false), at(1))
                .is_none()
        );
        assert!(
            joiner
                .add(&fragment(2, 64, &data[64..128], true), at(1))
                .is_none()
        );
    }

    #[test]
    fn bytes_datagrams_and_time_have_bounds() {
        let data = vec![0; 40_000];
        let mut joiner = Joiner::default();
        for id in 0..2_000 {
            assert!(joiner.add(&fragment(id, 0, &data, true), at(1)).is_none());
            assert!(joiner.bytes <= BYTES_MAX && joiner.datagrams.len() <= DATAGRAMS_MAX);
        }
        assert!(joiner.datagrams.len() > 50);
        for id in 0..2_000 {
            assert!(joiner.add(&fragment(id, 0, &data[..8], true), at(2)).is_none());
        }
        assert_eq!(joiner.datagrams.len(), DATAGRAMS_MAX);
        assert!(
            joiner
                .add(&fragment(9_999, 8, &data[..8], false), at(40))
                .is_none()
        );
        assert_eq!((joiner.datagrams.len(), joiner.bytes), (1, 8));
        // One byte of every eight, without end.
        for n in 0..8_000 {
            let _ = joiner.add(&fragment(9_999, n * 8, &data[..1], true), at(41));
        }
        assert!(
            joiner
                .datagrams
                .iter()
                .all(|one| one.parts.len() <= FRAGMENTS_MAX)
        );
        let too_long = fragment(3, 65_528, &data[..64], false);
        assert!(joiner.add(&too_long, at(41)).is_none());
    }
}
