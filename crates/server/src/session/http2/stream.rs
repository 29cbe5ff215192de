//! One request and its answer, from its head to the last byte.

use super::content::Content;
use crate::access_log::{Cut, Slot};
use crate::context::{Cx, Work};
use crate::exchange::Exchange;
use ::http2::hpack::Fields;
use units::Instant;

/// A request that is not answered whole yet.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) state: State,
    /// A job is under way for it.
    pub(super) is_working: bool,
    /// Its body is still on the way, and is discarded.
    pub(super) is_uploading: bool,
    /// The log line of its answer.
    pub(super) slot: Slot,
}

/// How far a request is.
#[derive(Debug)]
pub(super) enum State {
    /// Its body is read and discarded before it is answered.
    Receiving(Box<Receiving>),
    /// A job looks for the answer.
    Waiting(Box<Waiting>),
    /// Content is being sent.
    Sending(Content),
    /// It was reset while its job was under way. The result of the job may still be good for others.
    Gone(Option<Exchange>),
}

/// A request whose body has not arrived whole.
#[derive(Debug)]
pub(super) struct Receiving {
    pub(super) fields: Fields,
    /// Arrival of the head.
    pub(super) since: Instant,
    /// Bytes of the body so far.
    pub(super) received: u64,
    /// When the rest must be there.
    pub(super) until: Instant,
}

/// A request that waits for a job.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The request; `None`: what came was no request that could be answered otherwise than by an error.
    pub(super) fields: Option<Fields>,
    pub(super) exchange: Exchange,
    /// The driver gets it at the next poll.
    pub(super) job: Option<Work>,
    /// When it is answered without the job.
    pub(super) until: Instant,
}

impl Stream {
    pub(super) fn new(id: u32, state: State) -> Stream {
        Stream {
            id,
            state,
            is_working: false,
            is_uploading: false,
            slot: Slot::NONE,
        }
    }

    /// When it is given up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Receiving(receiving) => Some(receiving.until),
            State::Waiting(waiting) => Some(waiting.until),
            State::Sending(content) => content.deadline(),
            State::Gone(_) => None,
        }
    }

    /// Since when its body is awaited; `None` if it is not.
    pub(super) fn receiving_since(&self) -> Option<Instant> {
        match &self.state {
            State::Receiving(receiving) => Some(receiving.since),
            _ => None,
        }
    }

    /// Bytes of memory held, besides those of the cache.
    pub(super) fn memory(&self) -> usize {
        let more = match &self.state {
            State::Receiving(receiving) => size_of::<Receiving>() + receiving.fields.capacity(),
            State::Waiting(waiting) => {
                size_of::<Waiting>() + waiting.fields.as_ref().map_or(0, Fields::capacity)
            }
            State::Sending(content) => content.memory(),
            State::Gone(_) => 0,
        };
        size_of::<Stream>() + more
    }

    /// Its answer will not be sent whole: finishes its log line.
    pub(super) fn lost(&mut self, cx: &mut Cx, cut: Cut, now: Instant) {
        let state = std::mem::replace(&mut self.state, State::Gone(None));
        if let State::Sending(_) = state {
            cx.journal.lost(&mut self.slot, cut, now);
            cx.counters.aborted().add(1);
            cx.counters.truncated().add(u64::from(cut == Cut::File));
        }
        if let State::Waiting(waiting) = state {
            self.state = State::Gone(Some(waiting.exchange));
        }
    }
}
