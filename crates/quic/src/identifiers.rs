//! Connection IDs (RFC 9000 section 5.1): which worker and process a connection belongs to, and the rest by chance.
//!
//! ```text
//!   worker (1 byte) │ process (2 bytes, big-endian) │ chance (7 bytes)
//! ```
//! A datagram of a connection that has moved to another address reaches its worker by the first byte, whichever socket the
//! kernel chose. By the next two it reaches its process, if several share an address: worker processes, and both programs of
//! an upgrade in place. An observer learns these numbers, which tell nothing of who the client is; the 56 bits behind them
//! are unpredictable.

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid, RandomConnectionIdGenerator};
use runtime::datagram::Owner;
use std::time::Duration;

/// Bytes of our connection IDs.
pub const LENGTH: usize = 10;

/// Bytes of the worker's and the process's number.
const NUMBERS: usize = 3;

/// Most workers whose numbers fit.
pub const WORKERS_MAX: usize = 256;

/// Makes the IDs of one worker.
#[derive(Debug)]
pub(crate) struct Identifiers {
    numbers: [u8; NUMBERS],
    random: RandomConnectionIdGenerator,
}

impl Identifiers {
    /// For the worker with this number, of this process.
    pub(crate) fn of(worker: u8, process: u16) -> Identifiers {
        let [high, low] = process.to_be_bytes();
        Identifiers {
            numbers: [worker, high, low],
            random: RandomConnectionIdGenerator::new(LENGTH - NUMBERS),
        }
    }
}

impl ConnectionIdGenerator for Identifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; LENGTH];
        id[..NUMBERS].copy_from_slice(&self.numbers);
        id[NUMBERS..].copy_from_slice(&self.random.generate_cid());
        ConnectionId::new(&id)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        match id.starts_with(&self.numbers) {
            true => Ok(()),
            false => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The worker of `process` that a datagram belongs to, or the other process. A packet with a long header from a new peer has
/// an ID of the peer's choice (RFC 9000 section 7.2): whoever received it keeps it. So does a client's first flight after
/// Retry, whose ID we chose.
///
/// A later Initial packet has our ID, too, with a handshake packet behind it in the datagram. Its length and process tell it
/// from an ID of the peer's choice, wrongly for each process once in 65,536 times, where that has our length. A sibling that
/// gets a first packet in this way accepts it; a program that drains does not.
pub(crate) fn owner(datagram: &[u8], process: u16) -> Owner {
    let (is_first, id) = match datagram {
        // A short header: one bit says so, then comes the ID (RFC 9000 section 17.3).
        [first, id @ ..] if first & 0x80 == 0 => (false, id),
        // A handshake packet: version, length of the ID, the ID (section 17.2). Both types follow our own first answer.
        [first, 0, 0, 0, 1, length, id @ ..] if usize::from(*length) == LENGTH => match first & 0x30 {
            INITIAL => (true, id),
            HANDSHAKE => (false, id),
            _ => return Owner::Anyone,
        },
        _ => return Owner::Anyone,
    };
    match id {
        [_, high, low, ..] if u16::from_be_bytes([*high, *low]) != process => {
            Owner::Process(u16::from_be_bytes([*high, *low]))
        }
        [worker, _, _, ..] if !is_first => Owner::Worker(usize::from(*worker)),
        _ => Owner::Anyone,
    }
}

/// Types of packets with a long header, by their bits of the first byte (RFC 9000 section 17.2).
const INITIAL: u8 = 0x00;
const HANDSHAKE: u8 = 0x20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_to_its_worker() {
        let mut identifiers = Identifiers::of(3, 0x102);
        let id = identifiers.generate_cid();
        assert_eq!(id.len(), LENGTH);
        assert!(identifiers.validate(&id).is_ok());
        assert!(Identifiers::of(2, 0x102).validate(&id).is_err());
        assert!(Identifiers::of(3, 0x103).validate(&id).is_err());
        assert_ne!(identifiers.generate_cid(), id);
        let short = [&[0x41][..], &id].concat();
        let handshake = [&[0xe0, 0, 0, 0, 1, 10][..], &id].concat();
        let initial = [&[0xc0, 0, 0, 0, 1, 10][..], &id].concat();
        assert_eq!(owner(&short, 0x102), Owner::Worker(3));
        assert_eq!(owner(&handshake, 0x102), Owner::Worker(3));
        assert_eq!(owner(&initial, 0x102), Owner::Anyone);
        for datagram in [&short, &handshake, &initial] {
            assert_eq!(owner(datagram, 0x103), Owner::Process(0x102));
        }
        // Of another version, with an ID of another length, or too short for one.
        let mut later = handshake.clone();
        later[4] = 2;
        assert_eq!(owner(&later, 0x103), Owner::Anyone);
        let foreign = [&[0xc0, 0, 0, 0, 1, 8][..], &id].concat();
        assert_eq!(owner(&foreign, 0x103), Owner::Anyone);
        for datagram in [&[][..], &[0x40], &[0x40, 3, 1]] {
            assert_eq!(owner(datagram, 0x102), Owner::Anyone);
        }
    }
}
