//! What time alone brings about: missing acknowledgments, unfinished blocks, stalled streams, the second GOAWAY, idle tables.

use super::{Drain, Engine};
use crate::error::{Code, Fault};
use units::Instant;

impl Engine {
    /// The next instant at which [`expire`](Engine::expire) has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.failed.is_some() {
            return None;
        }
        let drain = match self.drain {
            Drain::Announced(due) => Some(due),
            Drain::No | Drain::Final(_) => None,
        };
        let stalls = self.streams.iter().filter_map(|stream| stream.blocked);
        let stalled = stalls.min().map(|since| since + self.limits.stall_time);
        [self.settings_due, self.block_due, drain, stalled, self.empty_due]
            .into_iter()
            .flatten()
            .min()
    }

    /// Acts on what is due at `now`. Streams reset here give a `Reset` each to `lost`.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        output: &mut Vec<u8>,
        mut lost: impl FnMut(u32, Code),
    ) -> Result<(), Fault> {
        if self.failed.is_some() {
            return Ok(());
        }
        let due = |instant: Option<Instant>| instant.is_some_and(|instant| instant <= now);
        let result = if due(self.settings_due) {
            Err(Fault::Connection(
                Code::SETTINGS_TIMEOUT,
                "SETTINGS were not acknowledged",
            ))
        } else if due(self.block_due) {
            Err(Fault::Connection(
                Code::ENHANCE_YOUR_CALM,
                "a field block took too long",
            ))
        } else {
            self.expire_stalls(now, output, &mut lost)
        };
        if let Drain::Announced(instant) = self.drain
            && instant <= now
        {
            self.drain_finally(output);
        }
        if due(self.empty_due) {
            self.empty_table(output);
        }
        result.inspect_err(|&fault| self.fail(fault, output))
    }

    fn expire_stalls(
        &mut self,
        now: Instant,
        output: &mut Vec<u8>,
        lost: &mut impl FnMut(u32, Code),
    ) -> Result<(), Fault> {
        for at in (0..self.streams.len()).rev() {
            let stream = &mut self.streams[at];
            if stream
                .blocked
                .is_none_or(|since| since + self.limits.stall_time > now)
            {
                continue;
            }
            if stream.is_blocked() {
                let id = stream.id;
                lost(id, Code::ENHANCE_YOUR_CALM);
                self.abort(id, Code::ENHANCE_YOUR_CALM, Some(now), output)?;
            } else if stream.is_waiting() && stream.ready > 0 && self.send_window <= 0 {
                let text = "the connection's window stayed closed";
                return Err(Fault::Connection(Code::ENHANCE_YOUR_CALM, text));
            } else {
                // Our side was slow, not the peer.
                (stream.blocked, stream.crept) = (None, 0);
            }
        }
        Ok(())
    }
}
