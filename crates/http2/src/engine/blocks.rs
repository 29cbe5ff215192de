//! Field blocks: HEADERS with CONTINUATION, bounded; what a decoded block means for its stream.

use super::receive::Signal;
use super::stream::Stream;
use super::{Drain, ENDED, Engine, Role};
use crate::error::{Code, Fault};
use crate::flood::Kind;
use crate::frame::{Header, flag};
use crate::hpack::{Bounds, Decoded};
use http_semantics::message::{self, Expected};
use units::Instant;

impl Engine {
    pub(super) fn headers(
        &mut self,
        header: Header,
        fragment: &[u8],
        depends: Option<u32>,
        now: Instant,
        output: &mut Vec<u8>,
    ) -> Result<Option<Signal>, Fault> {
        let (id, end) = (header.stream, header.has(flag::END_STREAM));
        let own = self.role == Role::Client;
        if id.is_multiple_of(2) || (own && id >= self.next) {
            let text = "HEADERS on a stream the peer cannot open";
            return Err(Fault::Connection(Code::PROTOCOL_ERROR, text));
        }
        if fragment.is_empty() && !end {
            self.charge(Kind::Empty, now)?;
        }
        if header.has(flag::END_HEADERS) {
            self.block_end(id, end, depends == Some(id), fragment, output)
        } else {
            self.bound(fragment.len())?;
            self.block.clear();
            self.block.extend_from_slice(fragment);
            self.block_of = Some((id, end, 0));
            self.block_due = Some(now + self.limits.block_time);
            Ok(None)
        }
    }

    pub(super) fn continuation(
        &mut self,
        header: Header,
        fragment: &[u8],
        now: Instant,
        output: &mut Vec<u8>,
    ) -> Result<Option<Signal>, Fault> {
        let (id, end, frames) = self.block_of.expect("checked with the order of frames");
        if frames >= self.limits.continuations_max {
            let text = "too many CONTINUATION";
            return Err(Fault::Connection(Code::ENHANCE_YOUR_CALM, text));
        }
        if fragment.is_empty() {
            self.charge(Kind::Empty, now)?;
        }
        self.bound(self.block.len() + fragment.len())?;
        self.block.extend_from_slice(fragment);
        self.block_of = Some((id, end, frames + 1));
        if !header.has(flag::END_HEADERS) {
            return Ok(None);
        }
        (self.block_of, self.block_due) = (None, None);
        let mut block = core::mem::take(&mut self.block);
        let result = self.block_end(id, end, false, &block, output);
        block.clear();
        self.block = block;
        result
    }

    fn bound(&self, bytes: usize) -> Result<(), Fault> {
        if bytes > self.limits.block_bytes_max as usize {
            let text = "a field block is too long";
            return Err(Fault::Connection(Code::ENHANCE_YOUR_CALM, text));
        }
        Ok(())
    }

    /// Decodes a whole block, always, as the decoder's table must stay in step; then decides what it is.
    fn block_end(
        &mut self,
        id: u32,
        end: bool,
        circular: bool,
        block: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<Option<Signal>, Fault> {
        let bounds = Bounds {
            fields: usize::from(self.limits.fields_max),
            bytes: self.limits.list_bytes_max as usize,
        };
        self.fields.clear();
        let decoded = self.decoder.decode(block, bounds, &mut self.fields);
        let oversized = match decoded {
            Ok(decoded) => matches!(decoded, Decoded::Oversized),
            Err(_) => {
                let text = "a field block cannot be decompressed";
                return Err(Fault::Connection(Code::COMPRESSION_ERROR, text));
            }
        };
        let signal = match (self.live(id), self.role) {
            (Some(at), Role::Client) if !self.streams[at].head_received => {
                self.response(at, end, oversized)?
            }
            (Some(at), _) => self.trailers(at, end, oversized)?,
            (None, Role::Server) if id > self.highest => self.request(id, end, oversized)?,
            (None, _) => {
                if self.role == Role::Server && self.is_skipped(id) {
                    let text = "a request on a lower stream than an earlier one";
                    return Err(Fault::Connection(Code::PROTOCOL_ERROR, text));
                }
                self.late(id)?;
                None
            }
        };
        if circular {
            return Err(Fault::Stream(
                id,
                Code::PROTOCOL_ERROR,
                "a stream depends on itself",
            ));
        }
        if let Some(at) = self.live(id).filter(|_| end) {
            self.close_if_done(at, output);
        }
        Ok(signal)
    }

    /// Whether the block just decoded is a request on a stream below the highest that is not known to have existed
    /// (RFC 9113 section 5.1.1). Trailers may be late ones, of a stream whose end is forgotten.
    fn is_skipped(&self, id: u32) -> bool {
        let known = self.closed.contains(&id) || self.closed.contains(&(id | ENDED)) || self.cancelled == id;
        !known && self.fields.iter().any(|(name, _)| name.starts_with(b":"))
    }

    fn request(&mut self, id: u32, end: bool, oversized: bool) -> Result<Option<Signal>, Fault> {
        if let Drain::Final(_) = self.drain {
            // Opened after our GOAWAY: the client repeats it elsewhere (section 6.8).
            return Ok(None);
        }
        self.highest = id;
        if self.streams.len() >= self.limits.streams_max as usize {
            return Err(Fault::Stream(id, Code::REFUSED_STREAM, "too many streams"));
        }
        let mut stream = Stream::new(id, self.peer.window, self.new_window());
        let checked = match oversized {
            true => Ok(None),
            false => message::request(self.fields.iter()).map(Some),
        };
        let control = checked.map_err(|text| Fault::Stream(id, Code::PROTOCOL_ERROR, text))?;
        if let Some(control) = control {
            stream.priority = control.priority;
            stream.connect = control.method == "CONNECT";
            stream.expected = Expected::of(control.length);
        }
        stream.count(0, end)?;
        // PRIORITY_UPDATE overrides the field (RFC 9218 section 7).
        if let Some(at) = self.early.iter().position(|(early, _)| *early == id) {
            stream.priority = self.early.swap_remove(at).1;
        }
        self.early.retain(|(early, _)| *early > id);
        (stream.head_received, stream.remote_end) = (true, end);
        stream.turn = self.turns.now();
        self.streams.push(stream);
        self.empty_due = None;
        Ok(Some(match oversized {
            true => Signal::Oversized(id, end),
            false => Signal::Request(id, end),
        }))
    }

    fn response(&mut self, at: usize, end: bool, oversized: bool) -> Result<Option<Signal>, Fault> {
        let stream = &mut self.streams[at];
        let bad = |code, text| Err(Fault::Stream(stream.id, code, text));
        if oversized {
            return bad(Code::ENHANCE_YOUR_CALM, "the header list is too large");
        }
        let status = match message::response(self.fields.iter()) {
            Ok(status) => status,
            Err(text) => return bad(Code::PROTOCOL_ERROR, text),
        };
        if status.code < 200 {
            if end {
                return bad(Code::PROTOCOL_ERROR, "an interim response ends the stream");
            }
            return Ok(Some(Signal::Response(stream.id, false, status.code)));
        }
        stream.head_received = true;
        // Whatever the length says, these have no content (RFC 9110 section 6.4.1).
        let is_bodiless = stream.bodiless || matches!(status.code, 204 | 304);
        stream.expected = Expected::of(if is_bodiless { Some(0) } else { status.length });
        stream.count(0, end)?;
        stream.remote_end = end;
        Ok(Some(Signal::Response(stream.id, end, status.code)))
    }

    fn trailers(&mut self, at: usize, end: bool, oversized: bool) -> Result<Option<Signal>, Fault> {
        let stream = &mut self.streams[at];
        let bad = |code, text| Err(Fault::Stream(stream.id, code, text));
        if stream.remote_end {
            return bad(Code::STREAM_CLOSED, "HEADERS behind END_STREAM");
        }
        if stream.connect {
            return bad(Code::PROTOCOL_ERROR, "HEADERS on a stream of CONNECT");
        }
        if !end {
            return bad(Code::PROTOCOL_ERROR, "a second HEADERS does not end the stream");
        }
        if oversized {
            return bad(Code::ENHANCE_YOUR_CALM, "the trailer section is too large");
        }
        if let Err(text) = message::trailers(self.fields.iter()) {
            return bad(Code::PROTOCOL_ERROR, text);
        }
        stream.count(0, true)?;
        stream.remote_end = true;
        Ok(Some(Signal::Trailers(stream.id)))
    }
}
