//! Connections that sessions opened and that no session uses.
//!
//! ```text
//!   a session's ── Park ─▶ parked ─┬─ Reuse, and nothing has arrived ──▶ another session's
//!                                  └─ input, its end, its time, a bound, a lack of descriptors or memory ──▶ closed
//! ```
//! Decides which connection is reused and which is closed. The one parked last is reused first: the upstream is least
//! likely to be about to close it, and those that are not needed grow old. Those above an upstream's limit stay for a
//! moment: bursts follow each other, and each would open anew what was closed after the one before it. A receive is under way on each, so whatever
//! arrives is noticed; nothing that arrives while nobody waits for it may be taken for the answer to a later request.

use super::{Ground, Parting, Peers, Stage};
use crate::io::{Backend, Done, Id, Op};
use crate::peer::{Parcel, Parking, Upstream};
use crate::session::Ticket;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use units::Duration;

/// Time for which connections above the limit of their upstream stay parked.
const BURST: Duration = Duration::from_secs(1);

/// The parked connections of one event loop.
#[derive(Debug, Default)]
pub(super) struct Parked {
    /// Those to each upstream in each realm, the one parked last at the end.
    to: HashMap<(Arc<Upstream>, u64), Vec<Id>, RandomState>,
    count: usize,
}

impl Parked {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    fn insert(&mut self, to: &Arc<Upstream>, realm: u64, id: Id) {
        self.to.entry((Arc::clone(to), realm)).or_default().push(id);
        self.count += 1;
    }

    pub(super) fn remove(&mut self, to: &Arc<Upstream>, realm: u64, id: Id) {
        let key = (Arc::clone(to), realm);
        let Some(ids) = self.to.get_mut(&key) else { return };
        let before = ids.len();
        ids.retain(|its| *its != id);
        self.count -= before - ids.len();
        if ids.is_empty() {
            self.to.remove(&key);
        }
    }

    /// The one parked last.
    fn last(&self, to: &Arc<Upstream>, realm: u64) -> Option<Id> {
        self.to.get(&(Arc::clone(to), realm))?.last().copied()
    }

    /// If there are more than this: the one parked last of those that are too many. The others of them were so before.
    fn last_beyond(&self, to: &Arc<Upstream>, realm: u64, most: usize) -> Option<Id> {
        let ids = self.to.get(&(Arc::clone(to), realm))?;
        ids.len().checked_sub(most + 1).map(|at| ids[at])
    }
}

impl<O: Copy + Eq + Hash> Peers<O> {
    /// Parks an open peer of a session.
    pub(super) fn park<B: Backend>(&mut self, ground: &mut Ground<'_, B>, id: Id, parking: Parking) {
        let all = self.bounds.map_or(0, |bounds| bounds.parked_max);
        let Some(peer) = self.table.get_mut(id) else {
            return;
        };
        // An event loop that ends would close it in a moment.
        if parking.most == 0 || self.parked.count >= all || ground.is_draining {
            return self.part(ground, id, Parting::Close);
        }
        let until = ground.now + parking.time;
        let realm = parking.realm;
        (peer.realm, peer.parcel) = (realm, parking.parcel);
        let stage = std::mem::replace(&mut peer.stage, Stage::Parked { until });
        let to = Arc::clone(&peer.to);
        if let Some((owner, ticket)) = stage.owner() {
            self.take_from(owner, ticket);
        }
        self.parked.insert(&to, realm, id);
        ground.wheel.arm(id.index, until);
        if let Some(done) = ground.backend.submit(Op::Recv { id }) {
            self.stir_parked(ground, id, done);
        }
        let beyond = self.parked.last_beyond(&to, realm, parking.most);
        if let Some(id) = beyond
            && let Some(peer) = self.table.get_mut(id)
            && let Stage::Parked { until } = &mut peer.stage
        {
            *until = (*until).min(ground.now + BURST);
            ground.wheel.arm(id.index, *until);
        }
    }

    /// Gives a parked connection to this upstream to a session. Returns what was left with it; `None` if there is none.
    pub(super) fn unpark<B: Backend>(
        &mut self,
        ground: &mut Ground<'_, B>,
        owner: O,
        ticket: Ticket,
        to: &Arc<Upstream>,
        realm: u64,
    ) -> Option<Parcel> {
        while let Some(id) = self.parked.last(to, realm) {
            // What arrived in this turn may not have been reported yet.
            if !ground.backend.is_quiet(id) {
                self.part(ground, id, Parting::Close);
                continue;
            }
            let _ = ground.backend.submit(Op::Pause { id });
            ground.wheel.disarm(id.index);
            self.parked.remove(to, realm, id);
            self.give(id, owner, ticket);
            let peer = self.table.get_mut(id)?;
            peer.stage = Stage::Open { owner, ticket };
            return Some(std::mem::take(&mut peer.parcel));
        }
        None
    }

    /// Something was done for a parked connection: input, an end or a failure.
    #[cold]
    pub(super) fn stir_parked<B: Backend>(&mut self, ground: &mut Ground<'_, B>, id: Id, done: Done) {
        if let Done::Recv { buf, .. } = done {
            ground.backend.recycle(buf);
        } else if let Done::Input { .. } = done
            && let Some(done) = ground.backend.submit(Op::Recv { id })
        {
            return self.stir_parked(ground, id, done);
        } else if let Done::Input { .. } = done {
            // It was announced for nothing, and is awaited again.
            return;
        }
        self.part(ground, id, Parting::Close);
    }

    /// Closes all of them, to free what they hold; returns whether there were any.
    #[cold]
    pub(crate) fn close_parked<B: Backend>(&mut self, ground: &mut Ground<'_, B>) -> bool {
        let ids: Vec<Id> = self.parked.to.values().flatten().copied().collect();
        for id in &ids {
            self.part(ground, *id, Parting::Close);
        }
        let were_idle = self.close_idle(ground);
        were_idle || !ids.is_empty()
    }
}
