//! The connections that sessions open themselves: their limits, their order, and how they end.
//!
//! ```text
//!   Dial ─▶ opening ── Ready: open ─▶ Connected ─▶ Read, Send, End ─▶ Close, a failure, or the end of the session
//!              └── refused, or the connect timeout: Lost
//! ```
//! `parked` has those that no session uses.
//!
//! A peer has a slot of the back end, as an accepted connection does. Whoever drives the sessions says which of them owns a
//! peer, carries what they ask here, and tells them what comes of it: a worker for its connections
//! (`worker::peers`), the driver of datagrams for those of its endpoint (`datagram::upstreams`).

mod parked;
mod shared;

use crate::io::table::Table;
use crate::io::{Backend, Buf, Done, Id, Op, Out};
use crate::manner::Writing;
use crate::peer::{Ask, Dialing, Parcel, PeerEvent, PeerLoss, Upstream};
use crate::session::{Loss, Service, Ticket};
use crate::timer::Wheel;
use foldhash::fast::RandomState;
use parked::Parked;
use shared::{Shared, Sharing};
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use units::{Duration, Instant};

/// The peers of all sessions of one event loop. `O` names a session.
#[derive(Debug)]
pub(crate) struct Peers<O> {
    /// By slot of the back end.
    table: Table<Peer<O>>,
    /// Those of each session.
    of: HashMap<O, Vec<(Ticket, Id)>, RandomState>,
    /// Those that no session uses.
    parked: Parked,
    /// Those that several sessions use.
    sharing: Sharing<O>,
    /// None for a service that does not dial.
    bounds: Option<Dialing>,
}

/// A connection that a session opened.
#[derive(Debug)]
struct Peer<O> {
    to: Arc<Upstream>,
    stage: Stage<O>,
    /// Its realm and parcel, from the first parking on.
    realm: u64,
    parcel: Parcel,
    /// Sessions wait for it: it is to be shared.
    is_awaited: bool,
    /// What it has if it is shared.
    shared: Option<Box<Shared<O>>>,
    /// A receive is under way, or queued for the next turn.
    is_reading: bool,
    /// Output is under way.
    is_sending: bool,
}

/// Who uses a peer.
#[derive(Clone, Copy, Debug)]
enum Stage<O> {
    /// The owner, once it is open; it has to be so by then.
    Opening { owner: O, ticket: Ticket, by: Instant },
    /// The owner.
    Open { owner: O, ticket: Ticket },
    /// Nobody, until then.
    Parked { until: Instant },
    /// Several sessions, or none for now.
    Shared,
}

impl<O: Copy> Stage<O> {
    /// The session and its name for the peer.
    const fn owner(&self) -> Option<(O, Ticket)> {
        match *self {
            Stage::Opening { owner, ticket, .. } | Stage::Open { owner, ticket } => Some((owner, ticket)),
            Stage::Parked { .. } | Stage::Shared => None,
        }
    }
}

/// How a peer is parted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parting {
    /// In order, unless output is under way.
    Close,
    Reset,
}

/// Whoever may have connections that nobody uses.
pub(crate) trait Spare {
    /// Closes them; returns whether there were any.
    fn close_spare(&self) -> bool;
}

impl<V: Service> Spare for V {
    fn close_spare(&self) -> bool {
        self.close_idle()
    }
}

impl fmt::Debug for dyn Spare + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spare").finish_non_exhaustive()
    }
}

/// What moves the bytes of peers and keeps their time, for one call.
#[derive(Debug)]
pub(crate) struct Ground<'g, B> {
    pub(crate) backend: &'g mut B,
    /// Its entries are slots of the back end.
    pub(crate) wheel: &'g mut Wheel,
    /// The service or the endpoint, if it may have connections of its own that nobody uses.
    pub(crate) spare: Option<&'g dyn Spare>,
    pub(crate) writing: Writing,
    /// The event loop is about to end, or is none: no connection stays open that no session uses.
    pub(crate) is_draining: bool,
    pub(crate) now: Instant,
}

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Outcome<O> {
    /// Nothing that a session is told.
    Nothing,
    /// The receive has to wait for the next turn, which calls [`Peers::go_on`].
    Later(Id),
    /// The session is told this of its peer with this ticket.
    Told(O, Ticket, News),
}

/// A [`PeerEvent`] that owns what it reports. The buffer of [`News::Bytes`] goes back to the back end.
#[derive(Debug)]
pub(crate) enum News {
    Connected,
    Reused(Parcel),
    Joined,
    Bytes(Buf),
    /// Bytes that a carrier has taken off the connection.
    Carried(Vec<u8>),
    Sent,
    Eof,
    Lost(PeerLoss),
}

impl News {
    /// For the session.
    pub(crate) fn event(&self) -> PeerEvent<'_> {
        match self {
            News::Connected => PeerEvent::Connected,
            News::Reused(parcel) => PeerEvent::Reused(parcel),
            News::Joined => PeerEvent::Joined,
            News::Bytes(buf) => PeerEvent::Bytes(buf.filled()),
            News::Carried(bytes) => PeerEvent::Bytes(bytes),
            News::Sent => PeerEvent::Sent,
            News::Eof => PeerEvent::Eof,
            News::Lost(loss) => PeerEvent::Lost(*loss),
        }
    }
}

impl<O: Copy + Eq + Hash> Peers<O> {
    pub(crate) fn new(bounds: Option<Dialing>) -> Peers<O> {
        Peers {
            table: Table::new(),
            of: HashMap::default(),
            parked: Parked::default(),
            sharing: Sharing::default(),
            bounds,
        }
    }

    /// Whether there are any: one check for event loops whose sessions dial nobody.
    #[inline]
    pub(crate) fn are_any(&self) -> bool {
        self.table.len() > 0
    }

    /// The session that uses the peer with this slot.
    pub(crate) fn owner(&mut self, id: Id) -> Option<O> {
        let (owner, _) = self.table.get_mut(id)?.stage.owner()?;
        Some(owner)
    }

    /// Whether this session has any, or may wait for one.
    pub(crate) fn has_any(&self, owner: O) -> bool {
        self.of.contains_key(&owner) || self.sharing.has_waiting()
    }

    /// Whether this slot is that of a peer.
    pub(crate) fn has(&mut self, id: Id) -> bool {
        self.table.get_mut(id).is_some()
    }

    fn find(&self, owner: O, ticket: Ticket) -> Option<Id> {
        let peers = self.of.get(&owner)?;
        peers.iter().find(|(its, _)| *its == ticket).map(|(_, id)| *id)
    }

    /// This session uses the peer from now on.
    fn give(&mut self, id: Id, owner: O, ticket: Ticket) {
        self.of.entry(owner).or_default().push((ticket, id));
    }

    /// Its session no longer uses it.
    fn take_from(&mut self, owner: O, ticket: Ticket) {
        if let Some(peers) = self.of.get_mut(&owner) {
            peers.retain(|(its, _)| *its != ticket);
            if peers.is_empty() {
                self.of.remove(&owner);
            }
        }
    }

    /// Whether this session may have one more connection of its own.
    fn has_room(&mut self, owner: O) -> bool {
        let most = self.bounds.map_or(0, |bounds| bounds.peers_max);
        let table = &mut self.table;
        let mut is_own = |id: Id| table.get_mut(id).is_some_and(|peer| peer.shared.is_none());
        let ids = self.of.get(&owner).map_or(&[][..], Vec::as_slice);
        ids.iter().filter(|(_, id)| is_own(*id)).count() < most
    }

    fn remove(&mut self, id: Id) -> Option<Peer<O>> {
        let peer = self.table.remove_at(id)?;
        let key = (Arc::clone(&peer.to), peer.realm);
        match (peer.stage.owner(), &peer.shared) {
            (Some((owner, ticket)), _) => self.take_from(owner, ticket),
            (None, Some(shared)) => self.unshare(id, &key, shared),
            (None, None) => self.parked.remove(&peer.to, peer.realm, id),
        }
        if peer.is_awaited {
            self.disappoint(id, key);
        }
        Some(peer)
    }

    /// Carries out what a session asks for one of its peers; the session is polled again. `may_read`: it has not used up
    /// its share of this turn.
    pub(crate) fn ask<B: Backend>(
        &mut self,
        ground: &mut Ground<'_, B>,
        owner: O,
        (ticket, ask): (Ticket, Ask),
        may_read: bool,
    ) -> Outcome<O> {
        let found = self.find(owner, ticket);
        if let Ask::Dial(upstream) | Ask::Reuse(upstream, _) | Ask::Join(upstream, _) = &ask {
            assert!(found.is_none(), "a session dialed under a ticket that has a peer");
            if let Ask::Join(_, realm) = ask {
                return self.join(ground, owner, ticket, (Arc::clone(upstream), realm));
            }
            if !self.has_room(owner) {
                return Outcome::Told(owner, ticket, News::Lost(PeerLoss::TooMany));
            }
            if let Ask::Reuse(_, realm) = ask
                && let Some(parcel) = self.unpark(ground, owner, ticket, upstream, realm)
            {
                return Outcome::Told(owner, ticket, News::Reused(parcel));
            }
            return self.dial(ground, owner, ticket, upstream);
        }
        let Some((id, peer)) = found.and_then(|id| Some((id, self.table.get_mut(id)?))) else {
            if matches!(ask, Ask::Close | Ask::Abort) {
                self.stop_waiting(owner, Some(ticket));
            }
            return Outcome::Nothing;
        };
        if peer.shared.is_some() {
            self.ask_for_place(ground, id, (owner, ticket), ask);
            return Outcome::Nothing;
        }
        let is_open = matches!(peer.stage, Stage::Open { .. });
        match ask {
            Ask::Dial(_) | Ask::Reuse(..) | Ask::Join(..) => Outcome::Nothing,
            Ask::Close => {
                self.part(ground, id, Parting::Close);
                Outcome::Nothing
            }
            Ask::Abort => {
                self.part(ground, id, Parting::Reset);
                Outcome::Nothing
            }
            _ if !is_open => panic!("a session used a peer before it was connected"),
            Ask::Read => {
                assert!(!peer.is_reading, "a session read twice from a peer");
                peer.is_reading = true;
                match may_read {
                    true => self.submit(ground, Op::Recv { id }),
                    false => Outcome::Later(id),
                }
            }
            Ask::Send(bytes) => {
                assert!(
                    !peer.is_sending,
                    "a session wrote to a peer while its output was under way"
                );
                let most = self.bounds.map_or(0, |bounds| bounds.buffered_max.0);
                if bytes.len() as u64 > most {
                    self.part(ground, id, Parting::Reset);
                    return Outcome::Told(owner, ticket, News::Lost(PeerLoss::TooMuch));
                }
                peer.is_sending = true;
                let out = Out::of(bytes, ground.writing);
                self.submit(ground, Op::Send { id, out })
            }
            Ask::Park(parking) => {
                assert!(
                    !peer.is_sending && !peer.is_reading,
                    "a session parked a peer with something under way"
                );
                if std::mem::take(&mut peer.is_awaited) {
                    let key = (Arc::clone(&peer.to), peer.realm);
                    self.disappoint(id, key);
                }
                self.park(ground, id, parking);
                Outcome::Nothing
            }
            Ask::Share(parking) => {
                assert!(
                    !peer.is_sending && !peer.is_reading,
                    "a session shared a peer with something under way"
                );
                self.share(ground, id, parking);
                Outcome::Nothing
            }
            Ask::Keep => {
                if std::mem::take(&mut peer.is_awaited) {
                    let key = (Arc::clone(&peer.to), peer.realm);
                    self.disappoint(id, key);
                }
                Outcome::Nothing
            }
            Ask::End => {
                assert!(
                    !peer.is_sending,
                    "a session ended a peer while its output was under way"
                );
                let _ = ground.backend.submit(Op::ShutdownWrite { id });
                Outcome::Nothing
            }
        }
    }

    /// Submits an operation on a peer, and takes what is done at once.
    fn submit<B: Backend>(&mut self, ground: &mut Ground<'_, B>, op: Op) -> Outcome<O> {
        match ground.backend.submit(op) {
            None => Outcome::Nothing,
            Some(done) => self.take(ground, done),
        }
    }

    fn dial<B: Backend>(
        &mut self,
        ground: &mut Ground<'_, B>,
        owner: O,
        ticket: Ticket,
        upstream: &Arc<Upstream>,
    ) -> Outcome<O> {
        let dialed = match ground.backend.dial(upstream) {
            // Descriptors that nobody uses are to be had.
            Err(PeerLoss::Here(_)) if self.close_parked(ground) => ground.backend.dial(upstream),
            Err(PeerLoss::Here(_)) if ground.spare.is_some_and(|spare| spare.close_spare()) => {
                ground.backend.dial(upstream)
            }
            dialed => dialed,
        };
        let id = match dialed {
            Ok(id) => id,
            Err(loss) => return Outcome::Told(owner, ticket, News::Lost(loss)),
        };
        let patience = self
            .bounds
            .map_or(Duration::ZERO, |bounds| bounds.connect_time_max);
        let by = ground.now + patience;
        let peer = Peer {
            to: Arc::clone(upstream),
            stage: Stage::Opening { owner, ticket, by },
            realm: 0,
            parcel: Parcel::default(),
            is_awaited: false,
            shared: None,
            is_reading: false,
            is_sending: false,
        };
        self.table.insert_at(id, peer);
        self.give(id, owner, ticket);
        ground.wheel.arm(id.index, by);
        self.opening(ground, id)
    }

    /// Looks how the opening of a connection goes.
    fn opening<B: Backend>(&mut self, ground: &mut Ground<'_, B>, id: Id) -> Outcome<O> {
        let Some(outcome) = ground.backend.opened(id) else {
            return Outcome::Nothing;
        };
        let Some((peer, (owner, ticket))) = self
            .table
            .get_mut(id)
            .and_then(|peer| Some((peer.stage.owner()?, peer)))
            .map(|(its, peer)| (peer, its))
        else {
            return Outcome::Nothing;
        };
        let news = match outcome {
            Ok(()) => {
                peer.stage = Stage::Open { owner, ticket };
                ground.wheel.disarm(id.index);
                News::Connected
            }
            Err(errno) => {
                self.part(ground, id, Parting::Close);
                News::Lost(PeerLoss::Opening(errno))
            }
        };
        Outcome::Told(owner, ticket, news)
    }

    /// Processes what is done for a slot; it may be that of a peer.
    pub(crate) fn take<B: Backend>(&mut self, ground: &mut Ground<'_, B>, done: Done) -> Outcome<O> {
        let id = done.id();
        let Some((id, peer)) = id.and_then(|id| Some((id, self.table.get_mut(id)?))) else {
            if let Done::Recv { buf, .. } = done {
                ground.backend.recycle(buf);
            }
            return Outcome::Nothing;
        };
        let Some((owner, ticket)) = peer.stage.owner() else {
            match peer.shared.is_some() {
                true => self.stir_shared(ground, id, done),
                false => self.stir_parked(ground, id, done),
            }
            return Outcome::Nothing;
        };
        let is_opening = matches!(peer.stage, Stage::Opening { .. });
        let news = match done {
            Done::Ready { .. } if is_opening => return self.opening(ground, id),
            Done::Ready { .. } => return self.submit(ground, Op::Resume { id, warmed: Ok(()) }),
            Done::Input { .. } if peer.is_reading => return self.submit(ground, Op::Recv { id }),
            Done::Recv { buf, .. } => {
                peer.is_reading = false;
                News::Bytes(buf)
            }
            Done::Eof { .. } => {
                peer.is_reading = false;
                News::Eof
            }
            Done::Sent { .. } => {
                peer.is_sending = false;
                News::Sent
            }
            Done::Failed { loss, .. } => {
                let (Loss::Socket(errno) | Loss::File(errno)) = loss;
                self.part(ground, id, Parting::Close);
                News::Lost(match is_opening {
                    true => PeerLoss::Opening(errno),
                    false => PeerLoss::Open(errno),
                })
            }
            _ => return Outcome::Nothing,
        };
        Outcome::Told(owner, ticket, news)
    }

    /// Continues to read from a peer whose session used up its share of the last turn.
    pub(crate) fn go_on<B: Backend>(&mut self, ground: &mut Ground<'_, B>, id: Id) -> Outcome<O> {
        self.take(ground, Done::Input { id })
    }

    /// The wheel asks for this slot. Gives up a peer that did not open in time, or that nobody used for too long.
    #[cold]
    pub(crate) fn expire<B: Backend>(&mut self, ground: &mut Ground<'_, B>, index: u32) -> Outcome<O> {
        let Some(id) = self.table.id_at(index) else {
            return Outcome::Nothing;
        };
        let Some(peer) = self.table.get_mut(id) else {
            return Outcome::Nothing;
        };
        match peer.stage {
            Stage::Opening { by: at, .. } | Stage::Parked { until: at } if at > ground.now => {
                ground.wheel.arm(index, at);
            }
            Stage::Opening { owner, ticket, .. } => {
                self.part(ground, id, Parting::Close);
                return Outcome::Told(owner, ticket, News::Lost(PeerLoss::TimedOut));
            }
            Stage::Parked { .. } => self.part(ground, id, Parting::Close),
            Stage::Shared => match peer.shared.as_ref().and_then(|shared| shared.until) {
                Some(until) if until > ground.now => ground.wheel.arm(index, until),
                Some(_) => self.part(ground, id, Parting::Close),
                None => {}
            },
            Stage::Open { .. } => {}
        }
        Outcome::Nothing
    }

    fn part<B: Backend>(&mut self, ground: &mut Ground<'_, B>, id: Id, parting: Parting) {
        let Some(peer) = self.remove(id) else {
            return;
        };
        ground.wheel.disarm(id.index);
        let _ = ground.backend.submit(match (parting, peer.is_sending) {
            (Parting::Close, false) => Op::Close { id },
            _ => Op::Abort { id },
        });
    }

    /// Ends all peers of a session that ends.
    #[cold]
    pub(crate) fn part_with_all<B: Backend>(
        &mut self,
        ground: &mut Ground<'_, B>,
        owner: O,
        parting: Parting,
    ) {
        self.stop_waiting(owner, None);
        for (ticket, id) in self.of.remove(&owner).unwrap_or_default() {
            match self.table.get_mut(id).is_some_and(|peer| peer.shared.is_some()) {
                true => self.vacate(ground, id, (owner, ticket)),
                false => self.part(ground, id, parting),
            }
        }
    }
}
