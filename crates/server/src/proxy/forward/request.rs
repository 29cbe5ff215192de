//! The request on its way to the upstream: content comes only as fast as the upstream takes it.

use super::upstream::PORTION;
use super::{Failed, Forward, Link};
use crate::proxy::head::{Replaced, write_content, write_last_chunk};
use http_semantics::field::Fields;

/// Bytes of a request that are kept to be sent again, its head included. Longer requests are sent once.
const KEPT_MAX: usize = 64 << 10;

impl Forward {
    /// Whether the client's body is collected before an upstream is chosen.
    pub(crate) fn is_collecting(&self) -> bool {
        let bound = self.route.rule.buffer.0;
        self.link == Link::Queued && !self.has_whole_request && self.received < bound
    }

    /// Whether the whole request has arrived.
    pub(crate) fn has_whole_request(&self) -> bool {
        self.has_whole_request
    }

    /// Whether the client's input is wanted.
    pub(crate) fn wants_input(&self) -> bool {
        let is_taken = self.link == Link::Open && self.unsent() == 0 && !self.is_sending_up;
        (is_taken && !self.has_whole_request) || self.is_collecting()
    }

    /// Whether content of the request is still of use.
    pub(crate) fn takes_content(&self) -> bool {
        let is_heard = !matches!(self.link, Link::Leaving(_) | Link::Gone);
        is_heard && !self.has_whole_request
    }

    /// Bytes for the upstream that were not given to the driver.
    pub(crate) fn unsent(&self) -> usize {
        self.up.len() + self.blocked()
    }

    /// Those of them that wait until the upstream permits them.
    pub(super) fn blocked(&self) -> usize {
        self.channel.as_ref().map_or(0, |channel| channel.blocked())
    }

    /// Whether the layers of the connection take more of the request.
    pub(super) fn takes_portion(&self) -> bool {
        let channel = self.channel.as_ref();
        channel.is_none_or(|channel| channel.blocked() == 0 && channel.pending() < PORTION)
    }

    /// Whether the layers of the connection have something for the upstream.
    pub(super) fn has_channel_output(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.pending() > 0)
    }

    /// Whether the upstream speaks HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.is_shared || self.channel.as_ref().is_some_and(|channel| channel.is_http2())
    }

    /// Takes content of the request.
    pub(crate) fn take_content(&mut self, data: &[u8]) {
        self.received += data.len() as u64;
        self.has_moved |= self.unsent() == 0;
        let start = self.up.len();
        write_content(&mut self.up, data, self.is_chunked);
        self.keep(start);
    }

    /// The request is complete.
    pub(crate) fn end_request(&mut self, trailers: &Fields<'_, '_>) {
        self.has_whole_request = true;
        self.has_moved |= self.unsent() == 0;
        if self.is_chunked {
            let start = self.up.len();
            let rules = &self.route.rule.request_header;
            let known = (self.trace.is_some(), self.may_claim_https);
            let replaced = Replaced::of(rules, &self.guarded, self.id.as_ref(), known);
            write_last_chunk(&mut self.up, trailers, |name| replaced.has(name));
            self.keep(start);
        }
    }

    /// Keeps what was added to the request from `start` on, in case it has to be sent again.
    fn keep(&mut self, start: usize) {
        if let Some(again) = &mut self.again {
            let added = &self.up[start..];
            match again.len() + added.len() <= KEPT_MAX {
                true => again.extend_from_slice(added),
                false => self.again = None,
            }
        }
    }

    /// Fails if the content exceeds the rule's bound together with this many bytes that were announced.
    pub(crate) fn bound_content(&mut self, announced: u64) {
        if self.received.saturating_add(announced) > self.route.rule.max_body_size.0 {
            self.fail(Failed::TooLarge);
        }
    }

    /// The upstream took its output.
    pub(crate) fn sent_up(&mut self) {
        self.is_sending_up = false;
        // The output of a connection of HTTP/2 may have been acknowledgments alone.
        let channel = self.channel.as_ref();
        self.has_moved |= channel.is_none_or(|channel| !channel.is_http2());
    }

    /// The client took output, for which the upstream had to wait.
    pub(crate) fn taken_down(&mut self) {
        self.has_moved = true;
    }
}
