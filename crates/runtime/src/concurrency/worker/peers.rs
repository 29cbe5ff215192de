//! The connections that sessions open themselves: their limits, their order, and how they end.
//!
//! ```text
//!   Dial ─▶ opening ── Ready: open ─▶ Connected ─▶ Read, Send, End ─▶ Close, a failure, or the end of the session
//!              └── refused, or the connect timeout: Lost
//! ```
//! `parked` has those that no session uses.
//!
//! A peer has a slot of the back end, as an accepted connection does, but none among the worker's connections. What is
//! done for a slot without a connection comes here, so that accepted connections pay nothing. The events of a peer are
//! told to the session that owns it, which is then polled.

use super::parked::Parked;
use super::{Next, Owed, Worker};
use crate::io::table::Table;
use crate::io::{Backend, Done, Id, Op, Out};
use crate::peer::{Ask, Dialing, Parcel, PeerEvent, PeerLoss, Upstream};
use crate::session::{Event, JobOf, Loss, Service, Ticket};
use std::collections::HashMap;
use std::sync::Arc;
use units::{Duration, Instant};

/// The peers of a worker's sessions.
pub(super) struct Peers {
    /// By slot of the back end.
    pub(super) table: Table<Peer>,
    /// Those of each session, by the slot of its connection.
    of: HashMap<u32, Vec<(Ticket, Id)>>,
    /// Those that no session uses.
    pub(super) parked: Parked,
    /// None for a service that does not dial.
    pub(super) bounds: Option<Dialing>,
}

/// A connection that a session opened.
pub(super) struct Peer {
    pub(super) to: Arc<Upstream>,
    pub(super) stage: Stage,
    /// Its realm and parcel, from the first parking on.
    pub(super) realm: u64,
    pub(super) parcel: Parcel,
    /// A receive is under way, or queued for the next turn.
    pub(super) is_reading: bool,
    /// Output is under way.
    pub(super) is_sending: bool,
}

/// Who uses a peer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// The session with this connection, once it is open; it has to be so by then.
    Opening { owner: Id, ticket: Ticket, by: Instant },
    /// The session with this connection.
    Open { owner: Id, ticket: Ticket },
    /// Nobody, until then.
    Parked { until: Instant },
}

impl Stage {
    /// The session's connection and its name for the peer.
    pub(super) const fn owner(self) -> Option<(Id, Ticket)> {
        match self {
            Stage::Opening { owner, ticket, .. } | Stage::Open { owner, ticket } => Some((owner, ticket)),
            Stage::Parked { .. } => None,
        }
    }
}

/// How a peer is parted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parting {
    /// In order, unless output is under way.
    Close,
    Reset,
}

impl Peers {
    pub(super) fn new(bounds: Option<Dialing>) -> Peers {
        Peers {
            table: Table::new(),
            of: HashMap::new(),
            parked: Parked::default(),
            bounds,
        }
    }

    /// Whether any session has a peer: one check for workers whose sessions dial nobody.
    #[inline]
    pub(super) fn are_any(&self) -> bool {
        self.table.len() > 0
    }

    /// The connection that this slot's events concern: that of the session if the slot is its peer's.
    #[inline]
    pub(super) fn owner(&mut self, id: Id) -> Id {
        match self.are_any() {
            false => id,
            true => {
                let owner = self.table.get_mut(id).and_then(|peer| peer.stage.owner());
                owner.map_or(id, |(owner, _)| owner)
            }
        }
    }

    /// Whether the session of this connection has peers.
    pub(super) fn has_any(&self, owner: Id) -> bool {
        self.of.contains_key(&owner.index)
    }

    fn find(&self, owner: Id, ticket: Ticket) -> Option<Id> {
        let peers = self.of.get(&owner.index)?;
        peers.iter().find(|(its, _)| *its == ticket).map(|(_, id)| *id)
    }

    /// The session with this connection uses the peer from now on.
    pub(super) fn give(&mut self, id: Id, owner: Id, ticket: Ticket) {
        self.of.entry(owner.index).or_default().push((ticket, id));
    }

    /// Its session no longer uses it.
    pub(super) fn take_from(&mut self, owner: Id, id: Id) {
        if let Some(peers) = self.of.get_mut(&owner.index) {
            peers.retain(|(_, its)| *its != id);
            if peers.is_empty() {
                self.of.remove(&owner.index);
            }
        }
    }

    /// Whether this session may have one more.
    pub(super) fn has_room(&self, owner: Id) -> bool {
        let most = self.bounds.map_or(0, |bounds| bounds.peers_max);
        self.of.get(&owner.index).map_or(0, Vec::len) < most
    }

    fn remove(&mut self, id: Id) -> Option<Peer> {
        let peer = self.table.remove_at(id)?;
        match peer.stage.owner() {
            Some((owner, _)) => self.take_from(owner, id),
            None => self.parked.remove(&peer.to, peer.realm, id),
        }
        Some(peer)
    }
}

impl<V: Service, B: Backend> Worker<V, B> {
    /// Carries out what a session asks for one of its peers; the session is polled again.
    pub(super) fn ask(&mut self, owner: Id, rounds_left: &mut u32) -> Next<JobOf<V::Session>> {
        self.go_both_ways(owner);
        let asked = self.out.tx.asked.take();
        let (ticket, ask) = *asked.expect("only `Tx::ask` makes this action");
        let found = self.peers.find(owner, ticket);
        if let Ask::Dial(upstream) | Ask::Reuse(upstream, _) = &ask {
            assert!(found.is_none(), "a session dialed under a ticket that has a peer");
            if !self.peers.has_room(owner) {
                return self.tell(owner, Event::Peer(ticket, PeerEvent::Lost(PeerLoss::TooMany)));
            }
            if let Ask::Reuse(_, realm) = ask
                && let Some(parcel) = self.unpark(owner, ticket, upstream, realm)
            {
                return self.tell(owner, Event::Peer(ticket, PeerEvent::Reused(&parcel)));
            }
            return self.dial(owner, ticket, upstream);
        }
        let Some((id, peer)) = found.and_then(|id| Some((id, self.peers.table.get_mut(id)?))) else {
            return Next::Poll(owner);
        };
        let is_open = matches!(peer.stage, Stage::Open { .. });
        match ask {
            Ask::Dial(_) | Ask::Reuse(..) => Next::Poll(owner),
            Ask::Close => {
                self.part(id, Parting::Close);
                Next::Poll(owner)
            }
            Ask::Abort => {
                self.part(id, Parting::Reset);
                Next::Poll(owner)
            }
            _ if !is_open => panic!("a session used a peer before it was connected"),
            Ask::Read => {
                assert!(!peer.is_reading, "a session read twice from a peer");
                peer.is_reading = true;
                if *rounds_left == 0 {
                    self.again.push((id, Owed::Receive));
                    return Next::Poll(owner);
                }
                *rounds_left -= 1;
                self.go_on_with(owner, Op::Recv { id })
            }
            Ask::Send(bytes) => {
                assert!(
                    !peer.is_sending,
                    "a session wrote to a peer while its output was under way"
                );
                let most = self.peers.bounds.map_or(0, |bounds| bounds.buffered_max.0);
                if bytes.len() as u64 > most {
                    self.part(id, Parting::Reset);
                    return self.tell(owner, Event::Peer(ticket, PeerEvent::Lost(PeerLoss::TooMuch)));
                }
                peer.is_sending = true;
                let out = Out::of(bytes, self.bounds.manner.writing);
                self.go_on_with(owner, Op::Send { id, out })
            }
            Ask::Park(parking) => {
                assert!(
                    !peer.is_sending && !peer.is_reading,
                    "a session parked a peer with something under way"
                );
                self.park(id, parking);
                Next::Poll(owner)
            }
            Ask::End => {
                assert!(
                    !peer.is_sending,
                    "a session ended a peer while its output was under way"
                );
                let _ = self.backend.submit(Op::ShutdownWrite { id });
                Next::Poll(owner)
            }
        }
    }

    /// Submits an operation on a peer. The session goes on at once, or with what is already done.
    fn go_on_with(&mut self, owner: Id, op: Op) -> Next<JobOf<V::Session>> {
        match self.backend.submit(op) {
            None | Some(Done::Progress { .. }) => Next::Poll(owner),
            Some(done) => Next::Done(done),
        }
    }

    fn dial(&mut self, owner: Id, ticket: Ticket, upstream: &Arc<Upstream>) -> Next<JobOf<V::Session>> {
        let dialed = match self.backend.dial(upstream) {
            // Descriptors that nobody uses are to be had.
            Err(PeerLoss::Here(_)) if self.close_parked() => self.backend.dial(upstream),
            dialed => dialed,
        };
        let id = match dialed {
            Ok(id) => id,
            Err(loss) => return self.tell(owner, Event::Peer(ticket, PeerEvent::Lost(loss))),
        };
        let patience = self
            .peers
            .bounds
            .map_or(Duration::ZERO, |bounds| bounds.connect_time_max);
        let by = self.now + patience;
        let peer = Peer {
            to: Arc::clone(upstream),
            stage: Stage::Opening { owner, ticket, by },
            realm: 0,
            parcel: Parcel::default(),
            is_reading: false,
            is_sending: false,
        };
        self.peers.table.insert_at(id, peer);
        self.peers.give(id, owner, ticket);
        self.wheel.arm(id.index, by);
        self.opening(id).unwrap_or(Next::Poll(owner))
    }

    /// Looks how the opening of a connection goes; `None` if it is still under way.
    fn opening(&mut self, id: Id) -> Option<Next<JobOf<V::Session>>> {
        let outcome = self.backend.opened(id)?;
        let peer = self.peers.table.get_mut(id)?;
        let (owner, ticket) = peer.stage.owner()?;
        let event = match outcome {
            Ok(()) => {
                peer.stage = Stage::Open { owner, ticket };
                self.wheel.disarm(id.index);
                PeerEvent::Connected
            }
            Err(errno) => {
                self.part(id, Parting::Close);
                PeerEvent::Lost(PeerLoss::Opening(errno))
            }
        };
        Some(self.tell(owner, Event::Peer(ticket, event)))
    }

    /// Processes what is done for a slot that has no connection; it may be that of a peer.
    pub(super) fn take_of_peer(&mut self, done: Done) -> Next<JobOf<V::Session>> {
        let id = done.id();
        let Some((id, peer)) = id.and_then(|id| Some((id, self.peers.table.get_mut(id)?))) else {
            if let Done::Recv { buf, .. } = done {
                self.backend.recycle(buf);
            }
            return Next::Park;
        };
        let Some((owner, ticket)) = peer.stage.owner() else {
            self.stir_parked(id, done);
            return Next::Park;
        };
        let is_opening = matches!(peer.stage, Stage::Opening { .. });
        let mut submit = |op| self.backend.submit(op).map_or(Next::Park, Next::Done);
        match done {
            Done::Ready { .. } if is_opening => self.opening(id).unwrap_or(Next::Park),
            Done::Ready { .. } => submit(Op::Resume { id, warmed: Ok(()) }),
            Done::Input { .. } if peer.is_reading => submit(Op::Recv { id }),
            Done::Recv { buf, .. } => {
                peer.is_reading = false;
                let event = PeerEvent::Bytes(buf.filled());
                let next = self.tell(owner, Event::Peer(ticket, event));
                self.backend.recycle(buf);
                next
            }
            Done::Eof { .. } => {
                peer.is_reading = false;
                self.tell(owner, Event::Peer(ticket, PeerEvent::Eof))
            }
            Done::Sent { .. } => {
                peer.is_sending = false;
                self.tell(owner, Event::Peer(ticket, PeerEvent::Sent))
            }
            Done::Failed { loss, .. } => {
                let (Loss::Socket(errno) | Loss::File(errno)) = loss;
                let loss = match is_opening {
                    true => PeerLoss::Opening(errno),
                    false => PeerLoss::Open(errno),
                };
                self.part(id, Parting::Close);
                self.tell(owner, Event::Peer(ticket, PeerEvent::Lost(loss)))
            }
            _ => Next::Park,
        }
    }

    /// Continues to read from a peer whose session used up its share of the last turn.
    pub(super) fn go_on_with_peer(&mut self, id: Id) {
        if self.peers.table.get_mut(id).is_some() {
            self.run(Next::Done(Done::Input { id }));
        }
    }

    /// Gives up a peer that did not open in time, or that nobody used for too long.
    #[cold]
    pub(super) fn expire_peer(&mut self, index: u32) {
        let Some(id) = self.peers.table.id_at(index) else {
            return;
        };
        let peer = self.peers.table.get_mut(id).expect("its id was just made");
        match peer.stage {
            Stage::Opening { by: at, .. } | Stage::Parked { until: at } if at > self.now => {
                self.wheel.arm(index, at);
            }
            Stage::Opening { owner, ticket, .. } => {
                self.part(id, Parting::Close);
                let event = Event::Peer(ticket, PeerEvent::Lost(PeerLoss::TimedOut));
                self.tell_aside(owner, event);
            }
            Stage::Parked { .. } => self.part(id, Parting::Close),
            Stage::Open { .. } => {}
        }
    }

    pub(super) fn part(&mut self, id: Id, parting: Parting) {
        let Some(peer) = self.peers.remove(id) else {
            return;
        };
        self.wheel.disarm(id.index);
        let _ = self.backend.submit(match (parting, peer.is_sending) {
            (Parting::Close, false) => Op::Close { id },
            _ => Op::Abort { id },
        });
    }

    /// Ends all peers of a session that ends.
    #[cold]
    pub(super) fn part_with_peers(&mut self, owner: Id, is_lost: bool) {
        let parting = if is_lost { Parting::Reset } else { Parting::Close };
        for (_, id) in self.peers.of.remove(&owner.index).unwrap_or_default() {
            self.part(id, parting);
        }
    }
}
