//! Room at the connection limit: closes idle connections for new ones.
//!
//! ```text
//!   limit reached ── somebody here is idle ──▶ that one is closed, the new one taken
//!        │ nobody is
//!        ▼
//!   others are asked; the new one waits in the backlog ── one of theirs closed ──▶ taken
//!                          └ nobody is idle: waits on (descriptors), is refused after PATIENCE (the service's bound)
//! ```
//! Decides which connection is closed, and when; how it ends is up to the session.

use super::Worker;
use crate::io::Backend;
use crate::session::{Event, Need, Service, Session};
use std::sync::atomic::Ordering;
use units::Duration;

/// How long a connection that the service would reject waits for one to be closed: workers that block check once a
/// second.
const PATIENCE: Duration = Duration::from_millis(2_500);
/// Shorter waits for others are not logged.
const PATIENCE_OF_LOG: Duration = Duration::from_millis(500);

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// Descriptors: no more are available.
    Driver,
    /// The service's own limit: it would reject more.
    Service,
}

impl Full {
    /// Its wording in the log.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Full::Driver => "no more are possible with this process's descriptors; raise `ulimit -n`",
            Full::Service => "the connection limit is reached; raise --max-connections",
        }
    }
}

impl<V: Service, B: Backend> Worker<V, B> {
    fn full(&self) -> Option<Full> {
        if self.shared_state.open.load(Ordering::Relaxed) >= self.bounds.connections_max {
            return Some(Full::Driver);
        }
        self.service.is_full().then_some(Full::Service)
    }

    /// Whether a connection may be accepted, after closing an idle one if necessary; otherwise, the limit that forbids
    /// it, or none if nobody waits at this listener.
    pub(super) fn make_room(&mut self, listener: usize) -> Result<(), Option<Full>> {
        let Some(full) = self.full() else {
            self.full_since = None;
            return Ok(());
        };
        if !self.backend.is_awaited(listener) {
            return Err(None);
        }
        if self.close_eldest(Need::Place) {
            self.shared_state.has_room();
            self.full_since = None;
            if self.shared_state.may_complain(self.now) {
                tracing::warn!(
                    open = self.shared_state.open.load(Ordering::Relaxed),
                    "idle connections are closed for new ones: {}",
                    full.words()
                );
            }
            return Ok(());
        }
        // Connections are taken in the order in which they came. If another worker took one in meanwhile, this one's
        // patience is for the next, which may just have come.
        let since = *self.full_since.get_or_insert(self.now);
        let since = since.max(self.shared_state.last_entered());
        self.full_since = Some(since);
        self.shared_state.want_room(self.now);
        match full {
            Full::Service if self.now.since(since) >= PATIENCE => Ok(()),
            _ => Err(Some(full)),
        }
    }

    /// Whether it has waited for room long enough to say so.
    pub(super) fn is_stuck(&self) -> bool {
        self.full_since
            .is_some_and(|since| self.now.since(since) >= PATIENCE_OF_LOG)
    }

    /// Closes a connection here if another worker needs its place.
    #[cold]
    pub(super) fn give_way(&mut self) {
        if self.close_eldest(Need::Place) {
            self.shared_state.has_room();
        }
    }

    /// Closes the connection that has been idle longest, among those sampled; returns whether there was one.
    pub(super) fn close_eldest(&mut self, need: Need) -> bool {
        let (conns, cx) = (&mut self.conns, &self.cx);
        let found = self.eldest.find_settled(conns.slots(), self.now, |index| {
            let id = conns.id_at(index)?;
            let conn = conns.get_mut(id)?;
            let waits = conn.state.awaits_input();
            let since = conn.session.idle_since(cx).filter(|_| waits)?;
            Some((id, since))
        });
        let Some(id) = found else { return false };
        self.tell_aside(id, Event::GiveWay(need));
        self.conns.get_mut(id).is_none()
    }

    /// Tells a back end with one connection since when it is idle, so that it can be closed while the thread waits.
    pub(super) fn stand_by(&mut self) {
        let id = (self.conns.len() > 0).then(|| self.conns.id_at(0)).flatten();
        let conn = id.and_then(|id| self.conns.get_mut(id));
        let conn = conn.filter(|conn| conn.state.awaits_input());
        let since = conn.and_then(|conn| conn.session.idle_since(&self.cx));
        self.backend.idle(since);
    }
}
