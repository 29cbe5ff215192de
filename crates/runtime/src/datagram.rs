//! The contract between a driver and a protocol over datagrams (QUIC, for instance): an [`Endpoint`] takes datagrams in,
//! fills an [`Outbox`], and says when it wants to be asked again.
//!
//! ```text
//!   driver: receive a batch ──▶ owner(first bytes)? ──▶ handle(batch, out, now)
//!                                   │ another worker's or process's: handed over
//!           send what `out` holds ◀── poll(out, now) until it has nothing more
//! ```
//! Work that may block goes to other threads as jobs: `next_job` gives one out, `done` brings its output back. An endpoint
//! can have streams opened to other hosts ([`crate::peer`]): `next_ask` asks, `peer` tells what came of it.
//!
//! As a session, an endpoint holds no socket, thread, clock or source of chance. Unlike sessions there is one per worker and
//! socket: connections are the protocol's own matter. [`serve()`] drives it over real sockets, [`Sim`] in virtual time.

mod relay;
mod serve;
mod sim;
mod sockets;
mod steering;
mod upstreams;

use crate::memory::Budget;
use crate::peer::{Ask, Dialing, PeerEvent};
use crate::session::{Job, Ticket};
use core::fmt;
use std::sync::Arc;
use units::{Instant, UnixTime};

pub use crate::sys::{Address, Datagram};
pub use relay::{Others, Relay, Siblings};
pub use serve::{Counts, Driver, Handle, Limits, RELAYS_MAX, Stop, serve};
pub use sim::Sim;
pub use sockets::{RECEIVE_BUFFER, adopt, bind, knows_segments, receive_buffer};
pub use steering::{Form, leave_to_hash, steer};

/// One protocol over one UDP socket, as a pure state machine.
pub trait Endpoint: Send {
    /// Work that may block; [`NoJob`](crate::NoJob) for protocols without any.
    type Job: Job;

    /// Called at the start of each turn of the driver. `wall` is civil time.
    fn turn(&mut self, _now: Instant, _wall: UnixTime) {}

    /// The next job to run where it may block, under a number by which its output is told apart. Called after each `handle`,
    /// `poll` and `done` until there is none.
    fn next_job(&mut self) -> Option<(u64, Self::Job)> {
        None
    }

    /// A job has finished; `None` if it panicked. [`Endpoint::poll`] follows.
    fn done(&mut self, _job: u64, _output: Option<<Self::Job as Job>::Output>, _now: Instant) {}

    /// Limits of the connections that the endpoint has opened, and the memory budget that they share; `None` if it opens none.
    /// Asked once.
    fn dialing(&self) -> Option<(Dialing, Arc<Budget>)> {
        None
    }

    /// The next thing to do for a connection that the endpoint has opened. Called after each `poll` and `peer` until there is
    /// none.
    fn next_ask(&mut self) -> Option<Asked> {
        None
    }

    /// Closes connections that the endpoint keeps idle beside its peers. Returns whether there were any. The driver calls this if
    /// there is no descriptor for a peer. It must not block.
    fn close_idle(&self) -> bool {
        false
    }

    /// Something happened to the peer that `owner` has opened under this ticket. [`Endpoint::poll`] follows.
    fn peer(&mut self, _owner: u64, _ticket: Ticket, _event: PeerEvent<'_>, _now: Instant) {}

    /// What the driver has counted of this worker since the last call, at the end of a turn in which it counted something. For
    /// endpoints that publish it.
    fn counted(&mut self, _counts: &Counts) {}

    /// Takes in datagrams that arrived together, in the order of their arrival. Their bytes may be changed in place, to be
    /// decrypted for instance. Output may be appended to `out`.
    fn handle(&mut self, batch: &mut [Datagram<'_>], out: &mut Outbox, now: Instant);

    /// A datagram does not reach its peer, by errno: `ENETUNREACH` if the system has no route; `ECONNREFUSED` if an ICMP
    /// message says that no socket receives there. Only sockets that are connected to one peer get such messages. Anyone on
    /// the path can forge them, so they must not end what is established (RFC 9000 section 14.2.1).
    fn unreachable(&mut self, _errno: i32, _now: Instant) {}

    /// A datagram was too long for the path, which takes packets of at most `mtu` bytes, IP header included: the system
    /// knows it of the interface, or by an ICMP message. To be trusted as [`Endpoint::unreachable`].
    fn packet_too_big(&mut self, _mtu: u32, _now: Instant) {}

    /// Appends output that is due. Called after each `handle`, when [`Endpoint::deadline`] has come, and again as soon as
    /// the socket took what `out` held; true if there is more than `out` had room for.
    fn poll(&mut self, out: &mut Outbox, now: Instant) -> bool;

    /// Whether to call [`Endpoint::rest`] after each turn, which costs reading the clock.
    fn is_timed(&self) -> bool {
        false
    }

    /// The turn has ended; the driver rests or begins another. Called only if [`Endpoint::is_timed`].
    fn rest(&mut self, _now: Instant) {}

    /// When `poll` must be called even if nothing arrives. Asked after each `poll`.
    fn deadline(&self) -> Option<Instant>;

    /// Which worker a datagram belongs to, by its first bytes: a connection ID may name one. Called before `handle`.
    fn owner(&self, datagram: &[u8]) -> Owner;

    /// The server is shutting down: refuse new peers and finish what is owed.
    fn drain(&mut self, out: &mut Outbox, now: Instant);

    /// The driver is about to end: tell peers, if there is a message for that. It goes on for a moment, until the endpoint
    /// [is idle](Endpoint::is_idle).
    fn end(&mut self, _now: Instant) {}

    /// Whether nothing is owed to any peer, so that a draining driver may stop.
    fn is_idle(&self) -> bool;

    /// Whether the driver may stop although nobody asked it to: a client that has nothing more to do.
    fn has_ended(&self) -> bool {
        false
    }
}

/// What an endpoint asks for peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// This, for the peer that `owner` names by this ticket. Owners are numbers that the endpoint does not use twice; the
    /// limit on peers of one session is one on those of an owner.
    Of(u64, Ticket, Ask),
    /// This owner is gone: its peers are reset.
    Over(u64),
}

/// Which worker a datagram belongs to, and of which process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This one.
    Mine,
    /// The worker of this number (0-based). One that does not exist counts as `Anyone`.
    Worker(usize),
    /// A worker of another process that shares the socket, by the number of that process: never that of the endpoint's own.
    /// One to which no [`Relay`] leads counts as `Anyone`.
    Process(u16),
    /// Whoever received it: the first datagram of a peer, for instance.
    Anyone,
}

/// Output that waits for the socket: payloads one after the other in one buffer, bounded.
pub struct Outbox {
    bytes: Vec<u8>,
    queue: std::collections::VecDeque<(Address, core::ops::Range<usize>)>,
    bytes_max: usize,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox")
            .field("payloads", &self.queue.len())
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl Outbox {
    /// Bytes that one payload may have: what the length field of IP leaves (RFC 768, RFC 791).
    pub const PAYLOAD_MAX: usize = 65_507;

    /// An empty one that takes payloads while it holds fewer than `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Outbox {
        Outbox {
            bytes: Vec::new(),
            queue: std::collections::VecDeque::new(),
            bytes_max,
        }
    }

    /// Whether it takes another payload.
    pub fn has_room(&self) -> bool {
        self.bytes.len() < self.bytes_max
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Appends the payload that `write` appends to the buffer it is given, unless that returns none. False, without a call
    /// to `write`, if there is no room. A payload above [`Outbox::PAYLOAD_MAX`] or without bytes is dropped, as no socket
    /// would take the first and the second is no use to a protocol here.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Option<Address>) -> bool {
        if !self.has_room() {
            return false;
        }
        let from = self.bytes.len();
        let address = write(&mut self.bytes);
        let length = self.bytes.len().saturating_sub(from);
        match address {
            Some(address) if (1..=Outbox::PAYLOAD_MAX).contains(&length) => {
                self.queue.push_back((address, from..from + length));
            }
            _ => self.bytes.truncate(from),
        }
        true
    }

    /// The payload to be sent next.
    pub(crate) fn first(&self) -> Option<(Address, &[u8])> {
        let (address, range) = self.queue.front()?;
        Some((*address, self.bytes.get(range.clone())?))
    }

    /// The first is sent, or never will be.
    pub(crate) fn drop_first(&mut self) {
        self.queue.pop_front();
        if self.queue.is_empty() {
            self.bytes.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn to(port: u16) -> Address {
        Address::to(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    #[test]
    fn an_outbox_is_bounded_and_keeps_order() {
        let mut out = Outbox::new(10);
        let push = |out: &mut Outbox, bytes: &[u8], port| {
            out.push(|buffer| {
                buffer.extend_from_slice(bytes);
                Some(to(port))
            })
        };
        assert!(push(&mut out, b"first", 1) && push(&mut out, b"second", 2));
        assert!(!push(&mut out, b"third", 3), "eleven bytes wait");
        assert_eq!(out.first(), Some((to(1), &b"first"[..])));
        out.drop_first();
        assert_eq!(out.first(), Some((to(2), &b"second"[..])));
        assert!(!out.has_room(), "what was sent still takes room");
        out.drop_first();
        assert!(out.is_empty() && out.has_room());
        assert!(push(&mut out, b"", 4) && out.is_empty(), "nothing to send");
        assert!(out.push(|buffer| {
            buffer.extend_from_slice(b"given up");
            None
        }));
        assert!(out.is_empty() && out.has_room());
        assert!(push(&mut out, &[0; Outbox::PAYLOAD_MAX + 1], 5) && out.is_empty());
    }
}
