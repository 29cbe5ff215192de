//! Connections that take both ways at once and have several jobs under way.
//!
//! ```text
//!   poll ─▶ Start(ticket, job): try, or give away ─▶ poll again, until
//!        ─▶ Duplex: send what there is; it goes on by itself ─┐
//!                   receive, unless one is under way ─────────┴─▶ parked: sent, bytes or a job's output is the next turn
//! ```
//! Decides in which order a turn sends and receives: output first, so that a peer that sends without a pause is answered.

use super::{Next, Owed, State, Ways, Worker};
use crate::concurrency::offload::{Finished, Hands, Inbox, Work};
use crate::concurrency::shared_state::count;
use crate::io::{Backend, Done, Id, Op};
use crate::session::{Context, Job, JobOf, Loss, Service, Ticket};
use std::time::Duration;

/// How often a thread that runs a job for its only connection checks whether the strategy is ending.
const DRAIN_TICK: Duration = Duration::from_millis(100);

impl<V: Service, B: Backend> Worker<V, B> {
    /// Starts one of a session's jobs; the session is polled next.
    pub(super) fn start(
        &mut self,
        id: Id,
        ticket: Ticket,
        job: JobOf<V::Session>,
    ) -> Next<JobOf<V::Session>> {
        let Some(conn) = self.conns.get_mut(id) else {
            return Next::Park;
        };
        conn.state = State::Duplex(conn.state.ways());
        count(&self.counters.jobs, 1);
        let job = match &self.hands {
            Hands::Held { try_first: false, .. } => job,
            Hands::Own(_) | Hands::Crew(_) | Hands::Held { .. } => match job.try_now() {
                Ok(output) => return Next::Output(id, ticket, output),
                Err(job) => job,
            },
        };
        let errand = self.errand(ticket);
        let work = Work::Job(errand, job);
        if matches!(self.hands, Hands::Own(_)) {
            return self.run_here(id, work);
        }
        *self.started.entry(id.index).or_default() += 1;
        count(&self.counters.offloaded, 1);
        let _ = self.offload(id, work);
        Next::Poll(id)
    }

    /// Waits on this thread for a job of its only connection.
    fn run_here(&mut self, id: Id, work: Work<JobOf<V::Session>>) -> Next<JobOf<V::Session>> {
        let Hands::Own(crew) = &self.hands else {
            return Next::Park;
        };
        let waiter = std::thread::current();
        let inbox = Inbox::new(move || waiter.unpark());
        let mut finished = Vec::new();
        if let Err(work) = crew.give(id, work, &inbox, None) {
            // The system refuses a thread.
            finished.push(work.run(id));
        }
        loop {
            inbox.take(&mut finished);
            self.now = self.backend.now();
            match finished.pop() {
                None => {}
                Some(Finished::Job(_, errand, output)) => {
                    self.cx.turn(self.now, self.backend.wall());
                    return Next::Output(id, errand.ticket, output);
                }
                Some(Finished::Warm(..) | Finished::Panicked(..)) => {
                    return self.lose(id, Loss::File(libc::EIO));
                }
            }
            if self.control.is_over(self.now) {
                return self.cut_off(id);
            }
            std::thread::park_timeout(DRAIN_TICK);
        }
    }

    /// Sends what the session wrote, and receives meanwhile if it reads.
    pub(super) fn both_ways(&mut self, id: Id, read: bool, rounds_left: &mut u32) -> Next<JobOf<V::Session>> {
        let Some(conn) = self.conns.get_mut(id) else {
            return Next::Park;
        };
        let before = conn.state.ways();
        conn.state = State::Duplex(before);
        let receive = read && !before.receives() && !conn.eof;
        if !self.out.tx.is_empty() {
            assert!(!before.sends(), "a session wrote while its output was under way");
            conn.state = State::Duplex(Ways::new(before.receives(), true));
            let out = self.take_output();
            match self.backend.submit(Op::Send { id, out }) {
                // The next poll receives.
                Some(done @ (Done::Sent { .. } | Done::Failed { .. })) => return Next::Done(done),
                Some(done) => drop(self.take(done, rounds_left)),
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
