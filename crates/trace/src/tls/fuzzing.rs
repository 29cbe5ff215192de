//! What must hold for any bytes at all: memory stays bounded and cuts between packets change no fact.

use super::conversation::{Content, Conversation};
use super::keys::{Keyring, Opener, PacketOpener, Suites};
use crate::budget::Budget;
use crate::connection::Side;
use crate::times::Stamp;
use units::Instant;

const NOW: Stamp = (Instant::ZERO, 1);

/// Protects nothing: a record is authentic if its first byte is even.
#[derive(Debug)]
pub(crate) struct Null;

impl Opener for Null {
    fn open(&self, _sequence: u64, _header: [u8; 5], fragment: &mut Vec<u8>) -> bool {
        fragment.first().is_some_and(|byte| byte % 2 == 0)
    }

    fn expansion(&self) -> usize {
        0
    }
}

impl Suites for Null {
    fn tls13(&self, _suite: u16, _secret: &[u8]) -> Option<Box<dyn Opener>> {
        Some(Box::new(Null))
    }

    fn updated(&self, _suite: u16, secret: &[u8]) -> Option<Vec<u8>> {
        Some(secret.to_vec())
    }

    fn tls12(&self, _suite: u16, _master: &[u8], _randoms: [&[u8; 32]; 2]) -> Option<[Box<dyn Opener>; 2]> {
        Some([Box::new(Null), Box::new(Null)])
    }

    fn quic_initial(&self, _version: u32, _destination: &[u8]) -> Option<[Box<dyn PacketOpener>; 2]> {
        Some([Box::new(Null), Box::new(Null)])
    }

    fn quic(&self, _version: u32, _suite: u16, _secret: &[u8]) -> Option<Box<dyn PacketOpener>> {
        Some(Box::new(Null))
    }

    fn quic_updated(&self, _version: u32, _suite: u16, secret: &[u8]) -> Option<Vec<u8>> {
        Some(secret.to_vec())
    }
}

/// A packet is authentic if the last byte of its tag is even, so that some are not.
impl PacketOpener for Null {
    fn mask(&self, _sample: &[u8; 16]) -> [u8; 5] {
        [0; 5]
    }

    fn open(&self, _number: u64, _header: &[u8], payload: &mut Vec<u8>) -> bool {
        let Some(len) = payload.len().checked_sub(16) else {
            return false;
        };
        let is_authentic = payload.last().is_some_and(|byte| byte % 2 == 0);
        payload.truncate(len);
        is_authentic
    }
}

/// What was found of a conversation: application data of each direction, and its gaps and ends.
#[derive(Debug, Default, PartialEq)]
struct Read {
    plain: [Vec<u8>; 2],
    marks: Vec<String>,
}

impl Read {
    fn take(&mut self, contents: &mut Vec<(Side, Content)>) {
        for (side, content) in contents.drain(..) {
            match content {
                Content::Plain(bytes, _) => self.plain[side as usize].extend_from_slice(&bytes),
                other => self.marks.push(format!("{side:?} {other:?}")),
            }
        }
    }
}

/// Reads `data` as pieces of a TLS conversation: a control byte (bit 0: sender, bit 1: a gap, bit 2: a key log instead),
/// a length byte, the piece. For the fuzz target `tls_records`.
///
/// # Panics
/// If a reader that gets single bytes finds something else than one that gets whole pieces, or memory exceeds its budget.
pub fn fuzz_tls(mut data: &[u8]) {
    let mut keys = Keyring::default();
    keys.set_suites(Box::new(Null));
    if data.first().is_some_and(|byte| byte & 8 != 0) {
        keys.set_grows();
    }
    let (mut whole, mut single) = (Conversation::new(false), Conversation::new(false));
    let (mut a, mut b) = (Read::default(), Read::default());
    let (mut contents, mut is_complete) = (Vec::new(), true);
    let mut budget = Budget {
        segments: 0,
        bytes: 1 << 20,
        refused: 0,
    };
    while let [control, len, rest @ ..] = data {
        let side = if control & 1 == 0 {
            Side::Client
        } else {
            Side::Server
        };
        if control & 2 != 0 {
            whole.gap(side, NOW, u64::from(*len), &keys, &mut contents);
            a.take(&mut contents);
            is_complete = false;
            data = rest;
            continue;
        }
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        data = rest;
        if control & 4 != 0 {
            keys.add(piece);
            continue;
        }
        whole.bytes(side, (NOW, NOW), piece, &keys, &mut contents);
        whole.charge(side, NOW, &mut budget, &mut contents);
        a.take(&mut contents);
        for byte in piece {
            single.bytes(side, (NOW, NOW), &[*byte], &keys, &mut contents);
            b.take(&mut contents);
        }
    }
    whole.finish(&keys, &mut budget, &mut contents);
    a.take(&mut contents);
    single.finish(&keys, &mut budget, &mut contents);
    b.take(&mut contents);
    assert_eq!(budget.bytes, 1 << 20, "the budget has been returned");
    assert!(
        !is_complete || (whole.facts() == single.facts() && a == b),
        "{a:?} {b:?}"
    );
}
