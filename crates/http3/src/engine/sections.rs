//! Field sections: blocked, decoded, and what they mean for their stream.

use super::receive::Signal;
use super::stream::Phase;
use super::{Engine, Role};
use crate::error::{Code, Fault};
use crate::qpack::{Bounds, Decoded, Error, Section};
use http_semantics::message::{self, Expected};
use units::Instant;

/// A section that cannot be decoded ends the connection: the peers no longer agree on the table.
fn broken(error: Error) -> Fault {
    Fault::Connection(
        Code::QPACK_DECOMPRESSION_FAILED,
        match error {
            Error::Index => "a field section refers to an entry that is not there",
            Error::Prefix => "the prefix of a field section is not valid",
            _ => "a field section cannot be decompressed",
        },
    )
}

impl Engine {
    /// A whole section has come; `last` says that the stream ends behind it.
    pub(super) fn block(
        &mut self,
        at: usize,
        block: &[u8],
        last: bool,
        now: Instant,
    ) -> Result<Option<Signal>, Fault> {
        let section = self.decoder.open(block).map_err(broken)?;
        if section.required <= self.decoder.inserted() {
            return self.section(at, section, block, last);
        }
        let waiting = self.streams.iter().filter(|stream| stream.waiting.is_some());
        if waiting.count() >= usize::from(self.limits.blocked_max) {
            let text = "too many streams are blocked by QPACK";
            return Err(Fault::Connection(Code::QPACK_DECOMPRESSION_FAILED, text));
        }
        let stream = &mut self.streams[at];
        (stream.waiting, stream.resumed) = (Some(section), false);
        stream.block = block.to_vec();
        let due = now + self.limits.head_time;
        stream.due = Some(stream.due.map_or(due, |before| before.min(due)));
        self.check_pending(at)?;
        Ok(None)
    }

    /// Decodes a section that no longer waits.
    pub(super) fn section(
        &mut self,
        at: usize,
        section: Section,
        block: &[u8],
        last: bool,
    ) -> Result<Option<Signal>, Fault> {
        let bounds = Bounds {
            fields: usize::from(self.limits.fields_max),
            bytes: self.limits.list_bytes_max as usize,
        };
        self.fields.clear();
        let decoded = self
            .decoder
            .decode(section, block, bounds, &mut self.fields)
            .map_err(broken)?;
        let id = self.streams[at].id;
        self.decoder
            .acknowledge(id, section, &mut self.acknowledgments.bytes);
        self.message(at, decoded == Decoded::Oversized, last)
    }

    /// A section above the limit of compressed bytes, which was skipped.
    pub(super) fn too_long(&mut self, at: usize, last: bool) -> Result<Option<Signal>, Fault> {
        self.message(at, true, last)
    }

    fn message(&mut self, at: usize, oversized: bool, last: bool) -> Result<Option<Signal>, Fault> {
        let signal = match (self.streams[at].phase, self.role) {
            (Phase::Head, Role::Server) => self.request(at, oversized, last)?,
            (Phase::Head, Role::Client) => self.response(at, oversized, last)?,
            (Phase::Body | Phase::Trailers, _) => self.trailers(at, oversized)?,
        };
        // Behind trailers, the end is an event of its own.
        if last && !matches!(signal, Signal::Trailers(_)) {
            self.streams[at].remote_end = true;
            self.close_if_done(at);
        }
        Ok(Some(signal))
    }

    fn request(&mut self, at: usize, oversized: bool, end: bool) -> Result<Signal, Fault> {
        let stream = &mut self.streams[at];
        let id = stream.id;
        if !oversized {
            let control = message::request(self.fields.iter());
            let control = control.map_err(|text| Fault::Stream(id, Code::MESSAGE_ERROR, text))?;
            stream.priority = control.priority;
            stream.connect = control.method == "CONNECT";
            stream.expected = Expected::of(control.length);
        }
        stream.count(0, end)?;
        (stream.phase, stream.due) = (Phase::Body, None);
        // PRIORITY_UPDATE overrides the field (RFC 9218 section 7).
        if let Some(early) = self.early.iter().position(|(early, _)| *early == id) {
            stream.priority = self.early.swap_remove(early).1;
        }
        Ok(match oversized {
            true => Signal::Oversized(id, end),
            false => Signal::Request(id, end),
        })
    }

    fn response(&mut self, at: usize, oversized: bool, end: bool) -> Result<Signal, Fault> {
        let stream = &mut self.streams[at];
        let id = stream.id;
        stream.due = None;
        if oversized {
            let text = "the field section of a response is too large";
            return Err(Fault::Stream(id, Code::EXCESSIVE_LOAD, text));
        }
        let head = message::response(self.fields.iter());
        let head = head.map_err(|text| Fault::Stream(id, Code::MESSAGE_ERROR, text))?;
        if head.code < 200 {
            if end {
                let text = "an interim response ends the stream";
                return Err(Fault::Stream(id, Code::MESSAGE_ERROR, text));
            }
            return Ok(Signal::Response(id, false, head.code));
        }
        stream.phase = Phase::Body;
        // Whatever the length says, these have no content (RFC 9110 section 6.4.1).
        let is_bodiless = stream.bodiless || matches!(head.code, 204 | 304);
        stream.expected = Expected::of(if is_bodiless { Some(0) } else { head.length });
        stream.count(0, end)?;
        Ok(Signal::Response(id, end, head.code))
    }

    fn trailers(&mut self, at: usize, oversized: bool) -> Result<Signal, Fault> {
        let stream = &mut self.streams[at];
        let id = stream.id;
        (stream.phase, stream.due) = (Phase::Trailers, None);
        if oversized {
            let text = "the trailer section is too large";
            return Err(Fault::Stream(id, Code::EXCESSIVE_LOAD, text));
        }
        message::trailers(self.fields.iter()).map_err(|text| Fault::Stream(id, Code::MESSAGE_ERROR, text))?;
        Ok(Signal::Trailers(id))
    }
}
