//! Shutdown, and what time alone brings about: heads that do not come, stalled streams, the second GOAWAY.

use super::{Drain, Engine, LAST, Role};
use crate::error::{Code, Fault};
use crate::flood::Kind;
use crate::frame::write;
use units::Instant;

impl Engine {
    /// Begins a graceful shutdown: requests under way are answered, and so are those the peer sent before it knew.
    pub(crate) fn shut_down(&mut self, now: Instant) {
        if self.drain != Drain::No || self.failed.is_some() {
            return;
        }
        match self.role {
            Role::Server => {
                write::go_away(LAST, &mut self.control.bytes);
                self.drain = Drain::Announced(now + self.limits.drain_time);
            }
            // A client names a push, and none is permitted: nothing changes later.
            Role::Client => self.drain_finally(),
        }
    }

    /// Ends the connection for new streams at once.
    pub(crate) fn leave(&mut self) {
        if !matches!(self.drain, Drain::Final(_)) && self.failed.is_none() {
            self.drain_finally();
        }
    }

    fn drain_finally(&mut self) {
        write::go_away(self.next, &mut self.control.bytes);
        self.drain = Drain::Final(self.next);
    }

    /// The next instant at which [`expire`](Engine::expire) has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let drain = match self.drain {
            Drain::Announced(due) => Some(due),
            Drain::No | Drain::Final(_) => None,
        };
        let streams = self.streams.iter().flat_map(|stream| {
            let stalled = stream.stalled.map(|since| since + self.limits.stall_time);
            [stream.due, stalled]
        });
        streams
            .chain([drain])
            .flatten()
            .min()
            .filter(|_| self.failed.is_none())
    }

    /// Acts on what is due at `now`. Each stream reset here gives a call to `lost`, also one whose head is not whole yet, which
    /// the caller does not know.
    pub(crate) fn expire(&mut self, now: Instant, mut lost: impl FnMut(u64, Code)) -> Result<(), Fault> {
        if let Some(fault) = self.failed {
            return Err(fault);
        }
        if matches!(self.drain, Drain::Announced(due) if due <= now) {
            self.drain_finally();
        }
        let code = Code::EXCESSIVE_LOAD;
        for at in (0..self.streams.len()).rev() {
            let stream = &mut self.streams[at];
            let stalled = stream
                .stalled
                .is_some_and(|since| since + self.limits.stall_time <= now);
            let is_overdue = stream.due.is_some_and(|due| due <= now);
            if stalled && !stream.is_full {
                // Our side was slow, not the peer.
                (stream.stalled, stream.crept) = (None, 0);
            }
            if !(is_overdue || stalled && stream.is_full) {
                continue;
            }
            lost(stream.id, code);
            self.abort(at, code, code);
            self.charge(Kind::Provoked, now)
                .inspect_err(|&fault| self.fail(fault))?;
        }
        Ok(())
    }
}
