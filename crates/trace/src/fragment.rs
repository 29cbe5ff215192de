//! Fragments of IP datagrams, put together again (RFC 791, section 3.2; RFC 8200, section 4.5).
//!
//! A datagram is whole when every byte from its first to its last fragment was captured, in whatever order and however
//! often. Which bytes count where fragments overlap: the first that came. Memory has a bound, and so has the time for
//! which parts are kept; what is forgotten was counted as fragments and is nothing else. Decides nothing about what a
//! datagram carries.

use crate::packet::{DatagramId, Fragment};
use core::time::Duration;
use measure::Instant;
use std::collections::VecDeque;

/// Datagrams being put together at one time; the oldest makes room.
const DATAGRAMS_MAX: usize = 256;
/// Fragments of one datagram: a packet of 65,535 bytes over the smallest MTU that IPv4 allows has 1,366.
const FRAGMENTS_MAX: usize = 1_366;
/// Bytes held over all datagrams; the oldest makes room.
const BYTES_MAX: usize = 4 << 20;
/// For how long parts are kept, in capture time: Linux's `ipfrag_time`.
const PATIENCE: Duration = Duration::from_secs(30);
/// No datagram is longer, headers included.
const DATAGRAM_MAX: usize = 65_535;

/// Parts of one datagram.
#[derive(Debug)]
struct Datagram {
    id: DatagramId,
    began: Instant,
    /// The first fragment's headers; empty until it came.
    headers: Vec<u8>,
    /// Where each part begins, and the part; in order, none overlapping.
    parts: Vec<(usize, Vec<u8>)>,
    /// Length of what follows the headers, once the last fragment came.
    len: Option<usize>,
    /// Fragments that came.
    fragments: u64,
}

impl Datagram {
    fn held(&self) -> usize {
        self.headers.len() + self.parts.iter().map(|(_, bytes)| bytes.len()).sum::<usize>()
    }

    /// Keeps those bytes of a part that did not come before.
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

    /// The datagram as one packet, if every byte is here.
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
        // What is longer than the length field can say is no packet.
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

/// Makes the last IPv6 header before the fragment header name what follows that one.
fn unlink_fragment_header(packet: &mut [u8], headers: usize, protocol: u8) {
    let (mut at, mut header) = (6, 40);
    while header < headers {
        let length = usize::from(packet[header + 1]);
        at = header;
        header += match packet[at] {
            // Authentication counts in units of four bytes.
            51 => (length + 2) * 4,
            _ => (length + 1) * 8,
        };
    }
    packet[at] = protocol;
}

/// A datagram put together.
#[derive(Debug)]
pub(crate) struct Joined {
    /// The packet, from its IP header, as if it had never been in parts.
    pub(crate) packet: Vec<u8>,
    /// The fragments that came before the one that completed it.
    pub(crate) before: u64,
}

/// Datagrams being put together.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    /// In the order of their first parts.
    datagrams: VecDeque<Datagram>,
    bytes: usize,
}

impl Joiner {
    /// Takes a fragment; gives the packet that it completes.
    pub(crate) fn add(&mut self, fragment: &Fragment<'_>, now: Instant) -> Option<Joined> {
        while let Some(oldest) = self.datagrams.front()
            && now.since(oldest.began) > PATIENCE
        {
            self.forget(0);
        }
        let (start, len) = (fragment.offset as usize, fragment.len as usize);
        if fragment.bytes.len() < len || start + len + fragment.headers.len() > DATAGRAM_MAX {
            // Captured only in part, or longer than any datagram.
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
        // One byte in each eight, without end.
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
