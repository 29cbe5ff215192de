//! Connections that take both ways at once.
//!
//! ```text
//!   Duplex ─▶ send what there is ──▶ goes on by itself ─┐
//!          ─▶ receive, unless one is under way ─────────┴─▶ parked until bytes come, all is sent or a job is done
//! ```
//! Decides in which order a turn sends and receives: output first, so that a peer that sends without a pause is answered.
//! A session that works both ways has several answers under way, so the kernel is told to hold few unsent bytes.

use super::{Next, Owed, State, Underway, Worker};
use crate::io::{Backend, Done, Id, Op};
use crate::session::Service;

impl<V: Service, B: Backend> Worker<V, B> {
    /// The session has several answers under way from now on, or a job beside them.
    #[inline]
    pub(super) fn go_both_ways(&mut self, id: Id) {
        if let Some(conn) = self.conns.get_mut(id)
            && !matches!(conn.state, State::Duplex(_))
        {
            conn.state = State::Duplex(conn.state.underway());
            self.backend.keep_shallow(id);
        }
    }

    /// Closes this end's half while the session goes on reading.
    pub(super) fn end_output(&mut self, id: Id) -> Next {
        self.go_both_ways(id);
        if let Some(conn) = self.conns.get_mut(id) {
            assert!(
                !conn.state.is_sending(),
                "a session ended while its output was under way"
            );
            conn.half_closed = true;
            let _ = self.backend.submit(Op::ShutdownWrite { id });
        }
        Next::Poll(id)
    }

    /// Sends what the session wrote, and receives meanwhile if it reads.
    pub(super) fn both_ways(&mut self, id: Id, read: bool, patient: bool, rounds_left: &mut u32) -> Next {
        self.go_both_ways(id);
        let Some(conn) = self.conns.get_mut(id) else {
            return Next::Park;
        };
        let before = conn.state.underway();
        let receive = read && !before.receives() && !conn.eof;
        if !self.out.tx.is_empty() {
            assert!(!before.sends(), "a session wrote while its output was under way");
            conn.state = State::Duplex(Underway::new(before.receives(), true));
            let mut out = self.take_output();
            out.is_patient = patient;
            match self.backend.submit(Op::Send { id, out }) {
                // The next poll receives.
                Some(done @ (Done::Sent { .. } | Done::Failed { .. })) => {
                    return self.take(done, rounds_left);
                }
                Some(done) => {
                    let _ = self.take(done, rounds_left);
                }
                None => {}
            }
            self.watch(id);
        } else if self.is_aside && !before.sends() {
            self.looks.remove(&id.index);
            self.is_aside = !self.looks.is_empty() || !self.held.is_empty();
        }
        if receive {
            return self.take_turn(id, Owed::Receive, rounds_left);
        }
        self.rearm(id);
        Next::Park
    }
}
