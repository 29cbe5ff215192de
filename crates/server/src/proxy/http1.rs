//! The client's side of an exchange if the client speaks HTTP/1: its body is decoded from its input, and the response is
//! written into the output for it.

use super::cache::Written;
use super::failed::Failed;
use super::forward::{Forward, ToClient};
use super::head::{Added, Outgoing, write_response, write_switch};
use crate::field_rules::RuledLines;
use http_semantics::field::Fields;
use http_semantics::request::Protocol;
use http1::head::Response;
use http1::response::CONTINUE;
use http1::server::{Connection, Step};
use http1::slots::Slots;
use http1::version::Version;
use http1::{Misuse, server};
use units::Instant;

/// What a response needs of the client's connection.
pub(crate) struct ForClient<'a> {
    pub(crate) http: &'a mut server::Connection,
    pub(crate) version: Version,
    /// Whether another request may follow.
    pub(crate) persists: bool,
    pub(crate) date: &'a [u8],
    pub(crate) hsts: &'a [u8],
    /// The line `Connection`, once the response has begun.
    pub(crate) connection: &'a [u8],
}

impl ToClient for ForClient<'_> {
    fn interim(&mut self, down: &mut Vec<u8>, head: &Response<'_, '_>, received: Protocol) -> u32 {
        if self.version != Version::Http11 {
            return 0;
        }
        let start = down.len();
        let added = Added {
            date: b"",
            hsts: b"",
            connection: b"",
            ruled: &RuledLines::NONE,
            received,
        };
        if write_response(down, head, false, Outgoing::Empty, added).is_err() {
            down.truncate(start);
        }
        (down.len() - start) as u32
    }

    fn switch(&mut self, down: &mut Vec<u8>, head: &Response<'_, '_>) -> Result<u32, Misuse> {
        let start = down.len();
        write_switch(down, head)?;
        Ok((down.len() - start) as u32)
    }

    fn begin(&mut self, head: &Response<'_, '_>, has_whole_request: bool) -> Result<Outgoing, Misuse> {
        let outgoing = Outgoing::of(head.framing, self.version);
        // A client that still sends its body could not be told from one that sends a request.
        let persists = self.persists && has_whole_request && outgoing != Outgoing::UntilClose;
        self.connection = self.http.begin_response(persists)?.line();
        Ok(outgoing)
    }

    fn head(
        &mut self,
        down: &mut Vec<u8>,
        head: &Response<'_, '_>,
        is_to_head: bool,
        outgoing: Outgoing,
        ruled: &RuledLines,
        received: Protocol,
    ) -> Result<u32, Misuse> {
        let start = down.len();
        let added = Added {
            date: self.date,
            hsts: self.hsts,
            connection: self.connection,
            ruled,
            received,
        };
        write_response(down, head, is_to_head, outgoing, added)?;
        Ok((down.len() - start) as u32)
    }

    fn repeatable<'a>(&'a self, down: &'a [u8]) -> Option<Written<'a>> {
        self.connection.is_empty().then_some(Written::Text(down))
    }

    fn trailers(&mut self, _: &Fields<'_, '_>, _: &RuledLines) {}
}

/// Takes the content of the request off the client's input.
pub(crate) fn take_input(
    forward: &mut Forward,
    input: &mut Vec<u8>,
    http: &mut Connection,
    limits: &http1::Limits,
) {
    if forward.is_switched() {
        forward.take_content(input);
        return input.clear();
    }
    let mut used = 0;
    while !forward.has_whole_request() && forward.failed().is_none() {
        let mut slots = Slots::new();
        match http.receive(&input[used..], &mut slots, limits) {
            Ok(Step::Body { data, used: more }) => {
                used += more;
                forward.take_content(data);
            }
            Ok(Step::End { used: more, trailers }) => {
                used += more;
                forward.end_request(&trailers);
            }
            Ok(Step::Partial { used: more }) => {
                used += more;
                break;
            }
            Ok(_) => break,
            Err(fault) => forward.fail(Failed::Request(fault)),
        }
    }
    forward.bound_content(http.announced());
    input.drain(..used);
}

/// The connection to the upstream is open. A client that waits for 100 gets it now: this server answers expectations
/// itself.
pub(crate) fn connected(forward: &mut Forward, http: &mut Connection, now: Instant) {
    let is_open = forward.opened(now) | forward.take_opened();
    if is_open && !forward.has_begun() {
        welcome(forward, http);
    }
}

/// Sends 100 to a client that waits for it.
pub(crate) fn welcome(forward: &mut Forward, http: &mut Connection) {
    if http.awaits_continue() {
        http.continued();
        forward.down.extend_from_slice(CONTINUE);
        forward.head_bytes += CONTINUE.len() as u32;
    }
}
