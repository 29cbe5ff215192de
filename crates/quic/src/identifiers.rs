//! Connection IDs (RFC 9000 section 5.1): which worker a connection belongs to, and the rest by chance.
//!
//! Our IDs have [`LENGTH`] bytes, the first of which is the worker's number. A datagram of a connection that has moved to
//! another address reaches its worker by that, whichever socket the kernel chose. An observer learns the number, which
//! tells nothing of who the client is; the 56 bits behind it are unpredictable.

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid, RandomConnectionIdGenerator};
use runtime::datagram::Owner;
use std::time::Duration;

/// Bytes of our connection IDs.
pub const LENGTH: usize = 8;

/// Most workers whose numbers fit.
pub const WORKERS_MAX: usize = 256;

/// Makes the IDs of one worker.
#[derive(Debug)]
pub(crate) struct Identifiers {
    worker: u8,
    random: RandomConnectionIdGenerator,
}

impl Identifiers {
    /// For the worker with this number.
    pub(crate) fn of(worker: u8) -> Identifiers {
        Identifiers {
            worker,
            random: RandomConnectionIdGenerator::new(LENGTH - 1),
        }
    }
}

impl ConnectionIdGenerator for Identifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; LENGTH];
        id[0] = self.worker;
        id[1..].copy_from_slice(&self.random.generate_cid());
        ConnectionId::new(&id)
    }

    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        match id.first() {
            Some(&worker) if worker == self.worker => Ok(()),
            _ => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The worker that a datagram belongs to. A packet with a long header from a new peer has an ID of the peer's choice
/// (RFC 9000 section 7.2): whoever received it keeps it. So does a client's first flight after Retry, whose ID we chose.
pub(crate) fn owner(datagram: &[u8]) -> Owner {
    match datagram {
        // A short header: one bit says so, then comes the ID (RFC 9000 section 17.3).
        [first, worker, ..] if first & 0x80 == 0 => Owner::Worker(usize::from(*worker)),
        // A handshake packet: version, length of the ID, the ID (section 17.2). Both types follow our own first answer.
        [first, _, _, _, _, length, worker, ..]
            if usize::from(*length) == LENGTH && first & 0x30 == 0x20 && is_version_1(datagram) =>
        {
            Owner::Worker(usize::from(*worker))
        }
        _ => Owner::Anyone,
    }
}

fn is_version_1(datagram: &[u8]) -> bool {
    datagram.get(1..5) == Some(&[0, 0, 0, 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_to_its_worker() {
        let mut identifiers = Identifiers::of(3);
        let id = identifiers.generate_cid();
        assert_eq!(id.len(), LENGTH);
        assert!(identifiers.validate(&id).is_ok());
        assert!(Identifiers::of(2).validate(&id).is_err());
        assert_ne!(identifiers.generate_cid(), id);
        let short = [&[0x41][..], &id].concat();
        assert_eq!(owner(&short), Owner::Worker(3));
        let handshake = [&[0xe0, 0, 0, 0, 1, 8][..], &id].concat();
        assert_eq!(owner(&handshake), Owner::Worker(3));
        let initial = [&[0xc0, 0, 0, 0, 1, 8][..], &id].concat();
        assert_eq!(owner(&initial), Owner::Anyone);
        assert_eq!(owner(&[]), Owner::Anyone);
        assert_eq!(owner(&[0x40]), Owner::Anyone);
    }
}
