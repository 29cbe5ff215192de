//! An exchange whose connections switch to another protocol, as WebSocket does (RFC 9110 section 7.8).
//!
//! ```text
//!   Awaited ── 101 ──▶ Switched ── either side ended, or both are silent ──▶ Ended
//! ```
//! Bytes take the ways of content, so either side is read only when the other has taken everything. The client's bytes are
//! a request without an end, until the client closes its half.

use super::{Failed, Forward, Link, Parting, Response, ToClient};
use http1::Fault;
use http1::head::Response as Head;
use units::Instant;

impl Forward {
    /// Whether both connections carry another protocol than HTTP.
    pub(crate) fn is_switched(&self) -> bool {
        self.response == Response::Switched
    }

    /// The upstream agreed to another protocol. `rest` follows the head of its response.
    pub(super) fn switch(
        &mut self,
        head: &Head<'_, '_>,
        rest: &[u8],
        client: &mut impl ToClient,
        now: Instant,
    ) {
        let start = self.down.len();
        let Ok(bytes) = client.switch(&mut self.down, head) else {
            self.down.truncate(start);
            return self.fail(Failed::Invalid(Fault::Upgraded));
        };
        self.answered(now);
        self.took = Some(now - self.began);
        self.status = head.status;
        self.upstream_status = head.status;
        self.head_bytes += bytes;
        self.response = Response::Switched;
        // From now on, its end is that of the client's half.
        self.has_whole_request = false;
        self.pass_down(rest);
    }

    pub(super) fn pass_down(&mut self, bytes: &[u8]) {
        self.down.extend_from_slice(bytes);
        self.body_bytes += bytes.len() as u64;
    }

    /// One side ended, or both were silent for too long. The client still gets what is held for it.
    pub(super) fn end_switched(&mut self) {
        self.response = Response::Ended;
        if self.link == Link::Open {
            self.link = match &mut self.channel {
                // Its records cannot be cut.
                Some(_) if self.is_sending_up => Link::Leaving(Parting::Abort),
                Some(line) => {
                    line.close();
                    Link::Leaving(Parting::Close)
                }
                None => Link::Leaving(Parting::Close),
            };
        }
    }

    /// The client closed its half.
    pub(crate) fn ended_by_client(&mut self) {
        if self.is_switched() {
            self.has_whole_request = true;
        } else if !self.has_whole_request {
            self.fail(Failed::ClientGone);
        }
    }
}
