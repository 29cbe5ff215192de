//! A worker's part in the connections that its sessions open: carries out what they ask, and tells them what comes of it.
//!
//! What is done for a slot without a connection comes here, so that accepted connections pay nothing. The events of a peer
//! are told to the session that owns it, which is then polled. The peers themselves are in
//! [`peers`](super::super::peers).

use super::super::peers::{Ground, News, Outcome, Parting, Peers};
use super::{First, Next, Owed, Worker};
use crate::io::{Backend, Buf, Done, Id};
use crate::peer::{Ask, PeerEvent, PeerLoss};
use crate::session::{Event, Service};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What sessions are told of shared connections in one turn.
const NEWS_MAX: u32 = 4_096;

impl<V: Service, B: Backend> Worker<V, B> {
    /// The peers, and what they are driven with.
    fn peers(&mut self) -> (&mut Peers<Id>, Ground<'_, B>) {
        let is_draining = self.control.is_draining() || !self.backend.keeps_unused();
        let ground = Ground {
            backend: &mut self.backend,
            wheel: &mut self.wheel,
            spare: Some(&*self.service),
            writing: self.bounds.manner.writing,
            is_draining,
            now: self.now,
        };
        (&mut self.peers, ground)
    }

    /// Carries out what a session asks for one of its peers; the session is polled again.
    pub(super) fn ask(&mut self, owner: Id, rounds_left: &mut u32) -> Next {
        self.go_both_ways(owner);
        let asked = self.out.tx.asked.take();
        let asked = *asked.expect("only `Tx::ask` makes this action");
        if self.dispatcher.is_some() && matches!(asked.1, Ask::Dial(_) | Ask::Reuse(..) | Ask::Join(..)) {
            // This thread receives nothing: whoever has input gets a thread, and until then has nobody to wait for a peer.
            let loss = PeerLoss::Here(libc::EOPNOTSUPP);
            return self.tell(owner, Event::Peer(asked.0, PeerEvent::Lost(loss)));
        }
        let may_read = *rounds_left > 0;
        if may_read && asked.1 == Ask::Read {
            *rounds_left -= 1;
        }
        let (peers, mut ground) = self.peers();
        let outcome = peers.ask(&mut ground, owner, asked, may_read);
        if let Outcome::Told(_, _, News::Bytes(buf)) = &outcome {
            // A long receive counts as those that it replaces.
            let more = buf.len.div_ceil(Buf::CAPACITY).saturating_sub(1);
            *rounds_left = rounds_left.saturating_sub(more as u32);
        }
        match outcome {
            Outcome::Nothing => Next::Poll(owner),
            outcome => self.tell_of_peer(outcome).unwrap_or(Next::Poll(owner)),
        }
    }

    /// Tells a session what came of a call. `None`: nothing was to be told.
    fn tell_of_peer(&mut self, outcome: Outcome<Id>) -> Option<Next> {
        match outcome {
            Outcome::Nothing => None,
            Outcome::Later(id) => {
                self.again.push((id, Owed::Receive));
                None
            }
            Outcome::Told(owner, ticket, news) => {
                let next = self.tell(owner, Event::Peer(ticket, news.event()));
                if let News::Bytes(buf) = news {
                    self.backend.recycle(buf);
                }
                Some(next)
            }
        }
    }

    /// Processes what is done for a slot that has no connection; it may be that of a peer.
    pub(super) fn take_of_peer(&mut self, done: Done) -> Next {
        let (peers, mut ground) = self.peers();
        let outcome = peers.take(&mut ground, done);
        self.tell_of_peer(outcome).unwrap_or(Next::Park)
    }

    /// Continues to read from a peer whose session used up its share of the last turn.
    pub(super) fn go_on_with_peer(&mut self, id: Id) {
        if self.peers.has(id) {
            self.run(First::Done(Done::Input { id }));
        }
    }

    /// Gives up a peer that did not open in time, or that nobody used for too long.
    #[cold]
    pub(super) fn expire_peer(&mut self, index: u32) {
        let (peers, mut ground) = self.peers();
        if let Outcome::Told(owner, ticket, news) = peers.expire(&mut ground, index) {
            self.tell_aside(owner, Event::Peer(ticket, news.event()));
        }
    }

    /// Tells sessions what happened on connections that they share, at the end of a turn. What they answer may tell others.
    pub(super) fn tell_news(&mut self) {
        for _ in 0..NEWS_MAX {
            let (peers, mut ground) = self.peers();
            let next = catch_unwind(AssertUnwindSafe(|| peers.next(&mut ground)));
            match next.unwrap_or(Outcome::Nothing) {
                Outcome::Nothing => break,
                Outcome::Later(id) => self.again.push((id, Owed::Receive)),
                Outcome::Told(owner, ticket, news) => {
                    self.tell_aside(owner, Event::Peer(ticket, news.event()));
                }
            }
        }
    }

    /// The carrier of a shared connection panicked: its sessions lose it.
    #[cold]
    pub(super) fn bury_peer(&mut self, id: Id) {
        let (peers, mut ground) = self.peers();
        if peers.has(id) {
            peers.lose(&mut ground, id, libc::EIO);
        }
    }

    /// Ends all peers of a session that ends.
    #[cold]
    pub(super) fn part_with_peers(&mut self, owner: Id, is_lost: bool) {
        let parting = if is_lost { Parting::Reset } else { Parting::Close };
        let (peers, mut ground) = self.peers();
        peers.part_with_all(&mut ground, owner, parting);
    }

    /// Closes connections that no session uses, to free what they hold; returns whether there were any.
    #[cold]
    pub(super) fn close_parked(&mut self) -> bool {
        let (peers, mut ground) = self.peers();
        let were_parked = peers.close_parked(&mut ground);
        self.service.close_idle() || were_parked
    }
}
