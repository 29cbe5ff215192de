//! Connections that several sessions use at a time.
//!
//! ```text
//!   Join ─┬─ one has room ──────────────────▶ Joined
//!         ├─ one is being opened for this ──▶ waits ── it is shared: Joined ── it is not, or is full: dials in turn
//!         └─ neither ───────────────────────▶ dials, and shares the connection once it is open (Share)
//!   places 1, 2, 3 ── asks ─▶ Carrier ─▶ one connection        the last place left: idle, as a parked connection
//! ```
//! Decides which connection a session joins, which requests wait for one to open, and when an idle one is closed. A carrier
//! (`crate::carrier`) knows the protocol. What it tells sessions waits in `news`, which the event loop takes at the end
//! of its turn: the call that caused it is another session's.

use super::{Ground, News, Outcome, Parting, Peers, Stage};
use crate::carrier::{Carrier, Place, Told};
use crate::io::{Backend, Done, Id, Op, Out};
use crate::peer::{Ask, Parking, PeerLoss, Upstream};
use crate::session::{Loss, Ticket};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use units::{Duration, Instant};

/// Receives of one connection before others have their turn.
const ROUNDS_MAX: u32 = 8;

/// Where a connection leads, and the realm of its settings.
pub(super) type Key = (Arc<Upstream>, u64);

/// The connections of an event loop that are shared, or are to be.
#[derive(Debug)]
pub(super) struct Sharing<O> {
    by_key: HashMap<Key, Group<O>>,
    /// What sessions are to be told.
    news: VecDeque<(O, Ticket, Id, News)>,
    /// Groups whose waiting sessions have to be looked at.
    unsettled: VecDeque<Key>,
    /// Connections that used up their share of this turn.
    later: VecDeque<Id>,
    /// Sessions that wait.
    waiting: usize,
    /// Bytes held by all carriers.
    held: usize,
}

impl<O> Sharing<O> {
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }
}

impl<O> Default for Sharing<O> {
    fn default() -> Sharing<O> {
        Sharing {
            by_key: HashMap::new(),
            news: VecDeque::new(),
            unsettled: VecDeque::new(),
            later: VecDeque::new(),
            waiting: 0,
            held: 0,
        }
    }
}

/// The connections to one upstream in one realm.
#[derive(Debug)]
struct Group<O> {
    shared: Vec<Id>,
    /// The one that is being opened, to be shared.
    opening: Option<Id>,
    waiting: VecDeque<(O, Ticket)>,
}

impl<O> Default for Group<O> {
    fn default() -> Group<O> {
        Group {
            shared: Vec::new(),
            opening: None,
            waiting: VecDeque::new(),
        }
    }
}

impl<O> Group<O> {
    fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.opening.is_none() && self.waiting.is_empty()
    }
}

/// What a connection has that is shared.
pub(super) struct Shared<O> {
    /// `None` while it is called, and after it has panicked.
    carrier: Option<Box<dyn Carrier>>,
    places: Vec<(Place, O, Ticket)>,
    next: u64,
    /// Idle connections of the group, and the time for which one is kept.
    most: usize,
    time: Duration,
    /// Until when it is kept without a session.
    pub(super) until: Option<Instant>,
    held: usize,
    has_ended: bool,
}

impl<O: fmt::Debug> fmt::Debug for Shared<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("places", &self.places)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

impl<O: Copy + Eq + Hash> Peers<O> {
    /// Bytes that shared connections hold.
    pub(crate) fn held(&self) -> usize {
        self.sharing.held
    }

    /// Whether [`Peers::next`] has something.
    pub(crate) fn has_news(&self) -> bool {
        !self.sharing.news.is_empty() || !self.sharing.unsettled.is_empty() || !self.sharing.later.is_empty()
    }

    /// The next thing that a session is told, although it did not ask just now.
    pub(crate) fn next<B: Backend>(&mut self, ground: &mut Ground<'_, B>) -> Outcome<O> {
        if let Some(id) = self.sharing.later.pop_front() {
            return Outcome::Later(id);
        }
        loop {
            if let Some((owner, ticket, id, news)) = self.sharing.news.pop_front() {
                // A session may have left in between.
                if matches!(news, News::Lost(_)) || self.find(owner, ticket) == Some(id) {
                    return Outcome::Told(owner, ticket, news);
                }
                continue;
            }
            let Some(key) = self.sharing.unsettled.pop_front() else {
                return Outcome::Nothing;
            };
            if let Outcome::Told(owner, ticket, news) = self.settle(ground, &key) {
                return Outcome::Told(owner, ticket, news);
            }
        }
    }

    /// Gives a session a place on a connection, or lets it wait for one or open one.
    pub(super) fn join<B: Backend>(
        &mut self,
        ground: &mut Ground<'_, B>,
        owner: O,
        ticket: Ticket,
        key: Key,
    ) -> Outcome<O> {
        if let Some(id) = self.with_room(ground, &key) {
            self.enter(ground, id, owner, ticket);
            return Outcome::Told(owner, ticket, News::Joined);
        }
        let group = self.sharing.by_key.entry(key.clone()).or_default();
        if group.opening.is_some() {
            group.waiting.push_back((owner, ticket));
            self.sharing.waiting += 1;
            return Outcome::Nothing;
        }
        self.open_for(ground, owner, ticket, &key)
    }

    /// Opens a connection that is to be shared.
    fn open_for<B: Backend>(
        &mut self,
        ground: &mut Ground<'_, B>,
        owner: O,
        ticket: Ticket,
        key: &Key,
    ) -> Outcome<O> {
        if !self.has_room(owner) {
            self.sharing.unsettled.push_back(key.clone());
            return Outcome::Told(owner, ticket, News::Lost(PeerLoss::TooMany));
        }
        let outcome = self.dial(ground, owner, ticket, &key.0);
        let id = self.find(owner, ticket);
        let peer = id.and_then(|id| self.table.get_mut(id));
        match (id, peer) {
            (Some(id), Some(peer)) => {
                (peer.realm, peer.is_awaited) = (key.1, true);
                self.sharing.by_key.entry(key.clone()).or_default().opening = Some(id);
            }
            // It failed at once.
            _ => self.sharing.unsettled.push_back(key.clone()),
        }
        outcome
    }

    /// A connection that was to be shared was not: it failed, or its session keeps it.
    pub(super) fn disappoint(&mut self, id: Id, key: Key) {
        if let Some(group) = self.sharing.by_key.get_mut(&key)
            && group.opening == Some(id)
        {
            group.opening = None;
            self.sharing.unsettled.push_back(key);
        }
    }

    /// Serves the sessions of a group that wait, as far as it can be.
    fn settle<B: Backend>(&mut self, ground: &mut Ground<'_, B>, key: &Key) -> Outcome<O> {
        loop {
            let Some(group) = self.sharing.by_key.get_mut(key) else {
                return Outcome::Nothing;
            };
            if group.is_empty() {
                self.sharing.by_key.remove(key);
                return Outcome::Nothing;
            }
            let Some(&(owner, ticket)) = group.waiting.front() else {
                return Outcome::Nothing;
            };
            let is_opening = group.opening.is_some();
            let room = self.with_room(ground, key);
            if room.is_none() && is_opening {
                return Outcome::Nothing;
            }
            if let Some(group) = self.sharing.by_key.get_mut(key) {
                group.waiting.pop_front();
                self.sharing.waiting -= 1;
            }
            match room {
                Some(id) => {
                    self.enter(ground, id, owner, ticket);
                    self.sharing.news.push_back((owner, ticket, id, News::Joined));
                }
                None => {
                    if let Outcome::Told(owner, ticket, news) = self.open_for(ground, owner, ticket, key) {
                        return Outcome::Told(owner, ticket, news);
                    }
                }
            }
        }
    }

    /// The first connection of a group with room: later ones become idle. One whose upstream has closed it in this turn, which is
    /// not reported yet, gets no more requests: it would be unknown whether they were processed.
    fn with_room<B: Backend>(&mut self, ground: &mut Ground<'_, B>, key: &Key) -> Option<Id> {
        let group = self.sharing.by_key.get(key)?;
        let table = &mut self.table;
        let has_room = |id: &Id| {
            let shared = table.get_mut(*id).and_then(|peer| peer.shared.as_ref());
            let carrier = shared.and_then(|shared| shared.carrier.as_ref());
            carrier.is_some_and(|carrier| carrier.has_room()) && !ground.backend.has_hung_up(*id)
        };
        group.shared.iter().copied().find(has_room)
    }

    fn enter<B: Backend>(&mut self, ground: &mut Ground<'_, B>, id: Id, owner: O, ticket: Ticket) {
        self.give(id, owner, ticket);
        let Some(shared) = self.table.get_mut(id).and_then(|peer| peer.shared.as_mut()) else {
            return;
        };
        if shared.until.take().is_some() {
            ground.wheel.disarm(id.index);
        }
        let place = Place(shared.next);
        shared.next += 1;
        shared.places.push((place, owner, ticket));
        if let Some(carrier) = &mut shared.carrier {
            carrier.join(place);
        }
    }

    /// The session with this open peer shares it, and has the first place.
    pub(super) fn share<B: Backend>(&mut self, ground: &mut Ground<'_, B>, id: Id, parking: Parking) {
        let carrier = parking.parcel.take::<Box<dyn Carrier>>();
        let Some(peer) = self.table.get_mut(id) else {
            return;
        };
        let Some((owner, ticket)) = peer.stage.owner() else {
            return;
        };
        peer.stage = Stage::Shared;
        peer.realm = parking.realm;
        let was_awaited = std::mem::take(&mut peer.is_awaited);
        peer.shared = Some(Box::new(Shared {
            carrier: carrier.map(|carrier| *carrier),
            places: Vec::new(),
            next: 0,
            most: parking.most,
            time: parking.time,
            until: None,
            held: 0,
            has_ended: false,
        }));
        let key = (Arc::clone(&peer.to), parking.realm);
        self.take_from(owner, ticket);
        self.enter(ground, id, owner, ticket);
        let group = self.sharing.by_key.entry(key.clone()).or_default();
        group.shared.push(id);
        if was_awaited && group.opening == Some(id) {
            group.opening = None;
        }
        self.sharing.unsettled.push_back(key);
        self.pump(ground, id);
    }

    /// A session asks something for its place.
    pub(super) fn ask_for_place<B: Backend>(
        &mut self,
        ground: &mut Ground<'_, B>,
        id: Id,
        (owner, ticket): (O, Ticket),
        ask: Ask,
    ) {
        let now = ground.now;
        let Some(shared) = self.table.get_mut(id).and_then(|peer| peer.shared.as_mut()) else {
            return;
        };
        let its = |(_, its, name): &&(Place, O, Ticket)| *its == owner && *name == ticket;
        let Some(&(place, ..)) = shared.places.iter().find(its) else {
            return;
        };
        match ask {
            Ask::Send(bytes) => self.with(id, |carrier| carrier.send(place, &bytes, now)),
            Ask::Read => self.with(id, |carrier| carrier.read(place, now)),
            Ask::Close | Ask::Abort | Ask::Park(_) => return self.vacate(ground, id, (owner, ticket)),
            // Its end is that of the request, which the carrier knows.
            Ask::End | Ask::Keep | Ask::Share(_) | Ask::Dial(_) | Ask::Reuse(..) | Ask::Join(..) => {}
        }
        self.pump(ground, id);
    }

    /// Calls the carrier. One that panics is lost with its connection.
    fn with(&mut self, id: Id, call: impl FnOnce(&mut dyn Carrier)) {
        let taken = self
            .table
            .get_mut(id)
            .and_then(|peer| peer.shared.as_mut())
            .and_then(|shared| shared.carrier.take());
        if let Some(mut carrier) = taken {
            call(&mut *carrier);
            if let Some(shared) = self.table.get_mut(id).and_then(|peer| peer.shared.as_mut()) {
                shared.carrier = Some(carrier);
            }
        }
    }

    /// A session gives its place up.
    pub(super) fn vacate<B: Backend>(
        &mut self,
        ground: &mut Ground<'_, B>,
        id: Id,
        (owner, ticket): (O, Ticket),
    ) {
        let now = ground.now;
        let Some(place) = self.forget_place(id, owner, ticket) else {
            return;
        };
        self.with(id, |carrier| carrier.leave(place, now));
        self.pump(ground, id);
        self.rest(ground, id);
        let peer = self.table.get_mut(id);
        if let Some(key) = peer.map(|peer| (Arc::clone(&peer.to), peer.realm))
            && self.sharing.waiting > 0
        {
            self.sharing.unsettled.push_back(key);
        }
    }

    fn forget_place(&mut self, id: Id, owner: O, ticket: Ticket) -> Option<Place> {
        self.take_from(owner, ticket);
        let shared = self.table.get_mut(id)?.shared.as_mut()?;
        let its = |(_, its, name): &(Place, O, Ticket)| *its == owner && *name == ticket;
        let at = shared.places.iter().position(its)?;
        Some(shared.places.swap_remove(at).0)
    }

    /// Keeps a connection without sessions for a while, or closes it.
    fn rest<B: Backend>(&mut self, ground: &mut Ground<'_, B>, id: Id) {
        let idle = self.idle_count();
        let all = self.bounds.map_or(0, |bounds| bounds.parked_max);
        let Some(peer) = self.table.get_mut(id) else {
            return;
        };
        let Some(shared) = peer.shared.as_mut().filter(|shared| shared.places.is_empty()) else {
            return;
        };
        let is_over = shared.has_ended || shared.carrier.as_ref().is_none_or(|carrier| carrier.is_over());
        if is_over || shared.most == 0 || ground.is_draining || idle + self.parked.count() >= all {
            return self.part(ground, id, Parting::Close);
        }
        let (until, most) = (ground.now + shared.time, shared.most);
        shared.until = Some(until);
        let key = (Arc::clone(&peer.to), peer.realm);
        ground.wheel.arm(id.index, until);
        let ids = self.sharing.by_key.get(&key).map(|group| group.shared.clone());
        let ids = ids.unwrap_or_default();
        let idle: Vec<(Instant, Id)> = ids
            .into_iter()
            .filter_map(|id| Some((self.table.get_mut(id)?.shared.as_ref()?.until?, id)))
            .collect();
        if idle.len() > most
            && let Some((_, first)) = idle.into_iter().min_by_key(|(until, _)| *until)
        {
            self.part(ground, first, Parting::Close);
        }
    }

    fn idle(&mut self) -> Vec<Id> {
        let ids: Vec<Id> = self
            .sharing
            .by_key
            .values()
            .flat_map(|group| group.shared.iter().copied())
            .collect();
        let mut is_idle = |id: &Id| {
            let shared = self.table.get_mut(*id).and_then(|peer| peer.shared.as_ref());
            shared.is_some_and(|shared| shared.until.is_some())
        };
        ids.into_iter().filter(|id| is_idle(id)).collect()
    }

    fn idle_count(&mut self) -> usize {
        self.idle().len()
    }

    /// Closes the connections without sessions. Returns whether there were any.
    pub(super) fn close_idle<B: Backend>(&mut self, ground: &mut Ground<'_, B>) -> bool {
        let idle = self.idle();
        for id in &idle {
            self.part(ground, *id, Parting::Close);
        }
        !idle.is_empty()
    }

    /// Something was done for a connection that is shared.
    pub(super) fn stir_shared<B: Backend>(&mut self, ground: &mut Ground<'_, B>, id: Id, done: Done) {
        let mut done = Some(done);
        while let Some(some) = done.take() {
            done = self.take_shared(ground, id, some);
        }
        self.pump(ground, id);
        self.rest_if_over(ground, id);
    }

    /// Takes one thing that was done. Returns what was done because of that.
    fn take_shared<B: Backend>(&mut self, ground: &mut Ground<'_, B>, id: Id, done: Done) -> Option<Done> {
        let now = ground.now;
        let Some(peer) = self.table.get_mut(id) else {
            if let Done::Recv { buf, .. } = done {
                ground.backend.recycle(buf);
            }
            return None;
        };
        match done {
            Done::Recv { buf, .. } => {
                peer.is_reading = false;
                self.with(id, |carrier| carrier.receive(buf.filled(), now));
                ground.backend.recycle(buf);
                None
            }
            Done::Input { .. } if peer.is_reading => ground.backend.submit(Op::Recv { id }),
            Done::Ready { .. } => ground.backend.submit(Op::Resume { id, warmed: Ok(()) }),
            Done::Sent { .. } => {
                peer.is_sending = false;
                None
            }
            Done::Eof { .. } => {
                peer.is_reading = false;
                if let Some(shared) = &mut peer.shared {
                    shared.has_ended = true;
                }
                self.with(id, |carrier| carrier.end());
                None
            }
            Done::Failed { loss, .. } => {
                let (Loss::Socket(errno) | Loss::File(errno)) = loss;
                self.tell_told(id);
                self.lose(ground, id, errno);
                None
            }
            _ => None,
        }
    }

    /// The connection is gone, and so are all places.
    pub(crate) fn lose<B: Backend>(&mut self, ground: &mut Ground<'_, B>, id: Id, errno: i32) {
        let shared = self.table.get_mut(id).and_then(|peer| peer.shared.as_mut());
        let mut lost = Vec::new();
        if let Some(shared) = shared {
            for (place, owner, ticket) in std::mem::take(&mut shared.places) {
                let carrier = shared.carrier.as_ref();
                let is_unsent = carrier.is_some_and(|carrier| carrier.is_unsent(place));
                let loss = match is_unsent {
                    true => PeerLoss::Unprocessed,
                    false => PeerLoss::Open(errno),
                };
                lost.push((owner, ticket, loss));
            }
        }
        for (owner, ticket, loss) in lost {
            self.take_from(owner, ticket);
            self.sharing.news.push_back((owner, ticket, id, News::Lost(loss)));
        }
        self.part(ground, id, Parting::Close);
    }

    fn rest_if_over<B: Backend>(&mut self, ground: &mut Ground<'_, B>, id: Id) {
        let shared = self.table.get_mut(id).and_then(|peer| peer.shared.as_ref());
        let is_over = shared.is_some_and(|shared| {
            let is_over = shared.carrier.as_ref().is_none_or(|carrier| carrier.is_over());
            shared.places.is_empty() && (is_over || shared.has_ended)
        });
        if is_over {
            self.part(ground, id, Parting::Close);
        }
    }

    /// Moves what the carrier tells into the news.
    fn tell_told(&mut self, id: Id) {
        let mut told = Vec::new();
        self.with(id, |carrier| told.extend(std::iter::from_fn(|| carrier.next())));
        for (place, told) in told {
            let Some(shared) = self.table.get_mut(id).and_then(|peer| peer.shared.as_mut()) else {
                return;
            };
            let Some(at) = shared.places.iter().position(|(its, ..)| *its == place) else {
                continue;
            };
            let (_, owner, ticket) = shared.places[at];
            let news = match told {
                Told::Bytes(bytes) => News::Carried(bytes),
                Told::Sent => News::Sent,
                Told::Eof => News::Eof,
                Told::Lost(loss) => {
                    shared.places.swap_remove(at);
                    self.take_from(owner, ticket);
                    News::Lost(loss)
                }
            };
            self.sharing.news.push_back((owner, ticket, id, news));
        }
    }

    /// Sends what the carrier has for the upstream, receives, and takes what it tells.
    fn pump<B: Backend>(&mut self, ground: &mut Ground<'_, B>, id: Id) {
        let now = ground.now;
        let mut rounds_left = ROUNDS_MAX;
        loop {
            let mut output = Vec::new();
            let is_sending = self.table.get_mut(id).is_some_and(|peer| peer.is_sending);
            if !is_sending {
                self.with(id, |carrier| output = carrier.output(now));
            }
            self.tell_told(id);
            let Some(peer) = self.table.get_mut(id) else {
                return;
            };
            let Some(shared) = &peer.shared else { return };
            if shared.carrier.is_none() {
                return self.lose(ground, id, libc::EIO);
            }
            let op = if !output.is_empty() {
                peer.is_sending = true;
                let out = Out::of(output, ground.writing);
                Op::Send { id, out }
            } else if !peer.is_reading && !shared.has_ended {
                peer.is_reading = true;
                if rounds_left == 0 {
                    self.sharing.later.push_back(id);
                    break;
                }
                rounds_left -= 1;
                Op::Recv { id }
            } else {
                break;
            };
            let mut done = ground.backend.submit(op);
            while let Some(some) = done.take() {
                done = self.take_shared(ground, id, some);
            }
        }
        self.count_held(id);
    }

    fn count_held(&mut self, id: Id) {
        let shared = self.table.get_mut(id).and_then(|peer| peer.shared.as_mut());
        if let Some(shared) = shared {
            let held = shared.carrier.as_ref().map_or(0, |carrier| carrier.held());
            self.sharing.held = self.sharing.held + held - shared.held;
            shared.held = held;
        }
    }

    /// A connection that was shared is removed.
    pub(super) fn unshare(&mut self, id: Id, key: &Key, shared: &Shared<O>) {
        self.sharing.held -= shared.held;
        if let Some(group) = self.sharing.by_key.get_mut(key) {
            group.shared.retain(|its| *its != id);
            self.sharing.unsettled.push_back(key.clone());
        }
    }

    /// A session no longer waits. Returns whether it did.
    pub(super) fn stop_waiting(&mut self, owner: O, ticket: Option<Ticket>) {
        if self.sharing.waiting == 0 {
            return;
        }
        let mut left = 0;
        for group in self.sharing.by_key.values_mut() {
            group
                .waiting
                .retain(|(its, name)| *its != owner || ticket.is_some_and(|ticket| *name != ticket));
            left += group.waiting.len();
        }
        self.sharing.waiting = left;
    }
}
