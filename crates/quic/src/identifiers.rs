//! Connection IDs (RFC 9000 section 5.1): which worker and process a connection belongs to, and the rest by chance.
//!
//! ```text
//!   worker (1 byte) │ process (2 bytes, big-endian) │ chance (7 bytes)
//! ```
//! A datagram of a connection that has moved to another address reaches its worker by the first byte: the kernel reads it
//! ([`forms`]), or whoever receives the datagram passes it on. By the next two it reaches its process, if several share an address: worker processes, and both programs of
//! an upgrade in place. An observer learns these numbers, which tell nothing of who the client is; the 56 bits behind them
//! are unpredictable.

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid, RandomConnectionIdGenerator};
use runtime::datagram::{Form, Owner};
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

    /// Whether a packet of no connection here is answered with a stateless reset: if its ID is of this program, whose
    /// workers and processes share the key of resets. One that names another process is here because that has ended.
    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        let [_, program, _] = self.numbers;
        match id.get(1) == Some(&program) {
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

/// The datagrams that `owner` gives to a worker, for the kernel ([`runtime::datagram::steer`]): the worker's number, and the
/// low byte of the process's, which counts the processes of one program. The program's number plays no part: a successor that
/// has the sockets of its predecessor in the same order steers the connections of both, and passes on those of the other.
///
/// An Initial packet with an ID of ours is not among them: one of the peer's choice may look like it.
pub fn forms() -> Vec<Form> {
    let at = |id: u8, marks| Form {
        marks,
        worker: id,
        process: id + 2,
    };
    let version = [(1, 0xff, 0), (2, 0xff, 0), (3, 0xff, 0), (4, 0xff, 1)];
    let handshake = [(0, 0xb0, 0x80 | HANDSHAKE), (5, 0xff, LENGTH as u8)];
    vec![
        at(1, vec![(0, 0x80, 0)]),
        at(6, handshake.into_iter().chain(version).collect()),
    ]
}

/// Types of packets with a long header, by their bits of the first byte (RFC 9000 section 17.2).
const INITIAL: u8 = 0x00;
const HANDSHAKE: u8 = 0x20;

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::datagram::{bind, steer};
    use std::net::UdpSocket;
    use units::{Draw, Rng, Seed};

    #[test]
    fn an_id_leads_to_its_worker() {
        let mut identifiers = Identifiers::of(3, 0x102);
        let id = identifiers.generate_cid();
        assert_eq!(id.len(), LENGTH);
        assert!(identifiers.validate(&id).is_ok());
        assert!(Identifiers::of(2, 0x102).validate(&id).is_ok());
        assert!(Identifiers::of(3, 0x103).validate(&id).is_ok());
        assert!(Identifiers::of(3, 0x202).validate(&id).is_err());
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

    /// Which of the sockets gets a datagram.
    fn receiver(client: &UdpSocket, sockets: &[UdpSocket], datagram: &[u8]) -> usize {
        let to = sockets[0].local_addr().expect("an address");
        client.send_to(datagram, to).expect("it is sent");
        let until = runtime::clock::now() + units::Duration::from_secs(20);
        let mut buffer = [0; 64];
        while runtime::clock::now() < until {
            for (at, socket) in sockets.iter().enumerate() {
                if let Ok(length) = socket.recv(&mut buffer) {
                    assert_eq!(&buffer[..length], datagram);
                    return at;
                }
            }
            std::thread::yield_now();
        }
        panic!("nobody got {datagram:02x?}");
    }

    /// A packet whose ID is of these numbers: mostly one of ours, and otherwise with something that tells it from those.
    fn packet(rng: &mut Rng, worker: u8, process: u16) -> Vec<u8> {
        let [high, low] = process.to_be_bytes();
        let mut byte = || rng.next_u32().to_le_bytes()[0];
        let (kind, first, cut) = (byte(), byte(), byte());
        let mut packet = match kind % 8 {
            // A short header, with whatever bits are protected.
            0..=2 => vec![first & 0x7f],
            // The four types of long headers, two of them more often.
            3 => vec![first | 0x80, 0, 0, 0, 1, LENGTH as u8],
            4 | 5 => vec![first & 0x0f | 0xe0, 0, 0, 0, 1, LENGTH as u8],
            6 => vec![first | 0x80, 0, 0, 0, first % 3, LENGTH as u8],
            _ => vec![first | 0x80, 0, 0, 0, 1, first % 21],
        };
        packet.extend([worker, high, low]);
        packet.extend((NUMBERS..LENGTH).map(|_| byte()));
        packet.extend([byte(), byte()]);
        if cut < 32 {
            packet.truncate(1 + usize::from(cut) % 12);
        }
        packet
    }

    #[test]
    fn the_kernel_and_the_decoder_agree_on_the_worker() {
        const SOCKETS: usize = 4;
        let place = "127.0.0.1:0".parse().expect("an address");
        let sockets = bind(place, SOCKETS, false).expect("a port");
        for socket in &sockets {
            socket.set_nonblocking(true).expect("an option");
        }
        let mut rng = Seed(0x51d).rng();
        for processes in [1, 2, 3] {
            steer(&sockets[0], &forms(), processes).expect("a program");
            let (mut steered, mut hashed) = (0, 0);
            for _ in 0..64 {
                let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
                // A packet of Version Negotiation, which no server gets: nobody's.
                let by_hash = receiver(&client, &sockets, &[0x80, 0, 0, 0, 0, 0, 0]);
                for _ in 0..32 {
                    let [worker, member, program, _] = rng.next_u32().to_le_bytes();
                    let first = u16::from_be_bytes([program, 0]);
                    let members = || (0_u16..).take(processes).map(|member| first + member);
                    let member = first + u16::from(member) % processes as u16;
                    let packet = packet(&mut rng, worker % 6, member);
                    let named = members().enumerate().find_map(|(at, member)| {
                        let Owner::Worker(worker) = owner(&packet, member) else {
                            return None;
                        };
                        Some(at + worker * processes)
                    });
                    let wanted = match named {
                        Some(named) if named < SOCKETS => {
                            steered += 1;
                            named
                        }
                        _ => {
                            hashed += 1;
                            by_hash
                        }
                    };
                    let got = receiver(&client, &sockets, &packet);
                    assert_eq!(got, wanted, "{processes} {member:#06x} {packet:02x?}");
                }
            }
            assert!(steered > 200 && hashed > 200, "{processes}: {steered} {hashed}");
        }
    }
}
