//! One request and its answer, from its head to the last byte.

use super::content::Content;
use super::passed::Passed;
use crate::access_log::{Cut, Slot};
use crate::context::{Cx, Work};
use crate::exchange::Exchange;
use http_semantics::compression::Fields;
use units::Instant;

/// A request that is not answered whole yet. `Id` names its stream.
#[derive(Debug)]
pub(in crate::session) struct Stream<Id> {
    pub(in crate::session) id: Id,
    pub(in crate::session) state: State,
    /// A job is under way for it.
    pub(in crate::session) is_working: bool,
    /// Its body is still on the way, and is discarded.
    pub(in crate::session) is_uploading: bool,
    /// The log line of its answer.
    pub(in crate::session) slot: Slot,
}

/// How far a request is.
#[derive(Debug)]
pub(in crate::session) enum State {
    /// Its body is read and discarded before it is answered.
    Receiving(Box<Receiving>),
    /// A job looks for the answer.
    Waiting(Box<Waiting>),
    /// Content is being sent.
    Sending(Content),
    /// An upstream answers it.
    Forward(Box<Passed>),
    /// It was reset while its job was under way. The result of the job may still be good for others.
    Gone(Option<Exchange>),
}

/// A request whose body has not arrived whole.
#[derive(Debug)]
pub(in crate::session) struct Receiving {
    pub(in crate::session) fields: Fields,
    /// Arrival of the head.
    pub(in crate::session) since: Instant,
    /// Bytes of the body so far.
    pub(in crate::session) received: u64,
    /// When the rest must be there.
    pub(in crate::session) until: Instant,
}

/// A request that waits for a job.
#[derive(Debug)]
pub(in crate::session) struct Waiting {
    /// The request; `None`: what came was no request that could be answered otherwise than by an error.
    pub(in crate::session) fields: Option<Fields>,
    pub(in crate::session) exchange: Exchange,
    /// The driver gets it at the next poll.
    pub(in crate::session) job: Option<Work>,
    /// When it is answered without the job.
    pub(in crate::session) until: Instant,
}

impl<Id> Stream<Id> {
    pub(in crate::session) fn new(id: Id, state: State) -> Stream<Id> {
        Stream {
            id,
            state,
            is_working: false,
            is_uploading: false,
            slot: Slot::NONE,
        }
    }

    /// When it is given up.
    pub(in crate::session) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Receiving(receiving) => Some(receiving.until),
            State::Waiting(waiting) => Some(waiting.until),
            State::Sending(content) => content.deadline(),
            State::Forward(passed) => passed.deadline(),
            State::Gone(_) => None,
        }
    }

    /// Since when its body is awaited; `None` if it is not.
    pub(in crate::session) fn receiving_since(&self) -> Option<Instant> {
        match &self.state {
            State::Receiving(receiving) => Some(receiving.since),
            _ => None,
        }
    }

    /// Bytes of memory held, besides those of the cache.
    pub(in crate::session) fn memory(&self) -> usize {
        let more = match &self.state {
            State::Receiving(receiving) => size_of::<Receiving>() + receiving.fields.capacity(),
            State::Waiting(waiting) => {
                size_of::<Waiting>() + waiting.fields.as_ref().map_or(0, Fields::capacity)
            }
            State::Sending(content) => content.memory(),
            State::Forward(passed) => passed.memory(),
            State::Gone(_) => 0,
        };
        size_of::<Stream<Id>>() + more
    }

    /// Its answer will not be sent whole: finishes its log line. That of a response from an upstream is composed already.
    pub(in crate::session) fn lost(&mut self, cx: &mut Cx, cut: Cut, now: Instant) {
        let state = std::mem::replace(&mut self.state, State::Gone(None));
        let has_begun = match &state {
            State::Sending(_) => true,
            State::Forward(passed) => passed.forward.has_begun(),
            _ => false,
        };
        // Interim responses have bytes, but no line.
        let _ = cx.journal.lost(&mut self.slot, cut, now);
        if has_begun {
            cx.counters.aborted().add(1);
            cx.counters.truncated().add(u64::from(cut == Cut::File));
        }
        if let State::Waiting(waiting) = state {
            self.state = State::Gone(Some(waiting.exchange));
        }
    }
}
