//! An exchange whose response may come from a cache.
//!
//! ```text
//!   Queued ── look_up ─┬─ stored ──────────▶ Gone, and the reply is there ─▶ reply ─▶ Ended
//!                      ├─ under way ───────▶ Collapsed ── woken, or too late ─▶ Queued
//!                      └─ neither ─────────▶ Queued ─▶ as without a cache
//!   Open ── 304, or an error with a stand-in ─▶ Leaving, and the reply is there
//! ```
//! Content from a cache is never copied into `down`: it stays in the cache's own memory until the client's connection takes it.

use super::{Failed, Forward, Link, Outgoing, Parting, Response, Target, ToClient};
use crate::access_log;
use crate::config::When;
use crate::proxy::cache::{Repeat, Step as Use, Waiter};
use bytes::Bytes;
use http_semantics::field::Name;
use http1::framing::Framing;
use http1::head::Response as Head;
use http1::version::Version;
use std::sync::Arc;
use units::{Duration, Instant};

/// Length of content with this framing, if the head says it.
pub(in crate::proxy) fn length(framing: Framing) -> Option<u64> {
    match framing {
        Framing::Length(length) => Some(length),
        Framing::Empty => Some(0),
        Framing::Chunked | Framing::UntilClose => None,
    }
}

impl Forward {
    /// Looks for a stored response, once. The request goes nowhere before that.
    pub(crate) fn look_up(&mut self, now: Instant) {
        if self.link != Link::Queued || std::mem::replace(&mut self.is_looked_up, true) {
            return;
        }
        let Some(cached) = &mut self.cached else { return };
        match cached.look_up(now) {
            Use::Serve => self.link = Link::Gone,
            Use::Wait => self.link = Link::Collapsed,
            Use::Go => {}
        }
        if let Some(refresh) = cached.take_refresh() {
            let mut request = self.up.clone();
            request.truncate(request.len().saturating_sub(2));
            request.extend_from_slice(b"Connection: close\r\n\r\n");
            self.route.refresh(request, *Box::new(refresh), self.key, now);
        }
    }

    /// The wait for another client's request that the driver is to be told of, if any.
    pub(crate) fn waiter(&mut self) -> Option<Waiter> {
        match self.link {
            Link::Collapsed => self.cached.as_mut()?.waiter(),
            Link::Searching => self.scripted.as_mut()?.waiter(),
            _ => None,
        }
    }

    /// Whether the response to another client's request is still worth waiting for.
    pub(super) fn keeps_waiting(&self, now: Instant) -> bool {
        let most = self.route.rule.first_byte_timeout;
        let cached = self.cached.as_ref().filter(|_| self.link == Link::Collapsed);
        cached.is_some_and(|cached| cached.keeps_waiting(most, now))
    }

    /// The driver reports that a wait is over. Returns whether it is the one under way: the driver may report late the end of a wait
    /// that the request has left.
    pub(crate) fn wait_ended(&mut self, now: Instant) -> bool {
        let is_over = match self.link {
            Link::Collapsed => self.cached.as_ref().is_some_and(|cached| cached.is_woken()),
            Link::Searching => self.scripted.as_ref().is_some_and(|scripted| scripted.is_woken()),
            _ => false,
        };
        is_over && self.woken(now)
    }

    /// The wait is over, or takes too long: looks again. Returns whether the request waited.
    pub(crate) fn woken(&mut self, now: Instant) -> bool {
        if self.link == Link::Searching {
            self.link = Link::Queued;
            return true;
        }
        let has_waited = self.link == Link::Collapsed;
        if has_waited {
            self.link = Link::Queued;
            self.is_looked_up = false;
            self.look_up(now);
        }
        has_waited
    }

    /// Whether a response from the cache is to be written: [`Forward::received`] does that, with no bytes.
    pub(crate) fn has_reply(&self) -> bool {
        !self.has_begun()
            && self.failed.is_none()
            && self.cached.as_ref().is_some_and(|cached| cached.has_reply())
    }

    /// Whether there are bytes for the client.
    pub(crate) fn has_output(&self) -> bool {
        !self.down.is_empty() || !self.stored.is_empty()
    }

    /// Moves up to `most` bytes of content from the cache into `out`.
    pub(crate) fn take_stored(&mut self, most: usize, out: &mut Vec<u8>) {
        let some = self.stored.split_to(self.stored.len().min(most));
        out.extend_from_slice(&some);
    }

    /// The response from the cache as equal requests get it, once.
    pub(crate) fn take_repeat(&mut self) -> Option<Box<Repeat>> {
        self.repeat.take()
    }

    /// The failure that a stored response stands in for, once.
    pub(crate) fn take_stood_in_for(&mut self) -> Option<Failed> {
        self.stood_in_for.take()
    }

    /// What the cache of the rule did, in a word of `Cache-Status`, if there is one.
    pub(crate) fn cache_word(&self) -> Option<&'static str> {
        match &self.cached {
            Some(cached) => cached.word(),
            None => self.cache_outcome,
        }
    }

    /// Ends the part of the cache. Others wait no longer for a response that will not come.
    fn leave_cache(&mut self) {
        if let Some(cached) = self.cached.take() {
            self.cache_outcome = cached.word();
        }
    }

    /// What the access log says of the upstream; nothing, if the cache answered without one.
    pub(crate) fn logged<'a>(
        &self,
        target: &'a Target,
        call: Option<&'a access_log::Call>,
    ) -> Option<access_log::Upstream<'a>> {
        (self.tried != 0).then(|| access_log::Upstream {
            target: target.place(),
            took: self.took.unwrap_or(Duration::ZERO),
            call,
        })
    }

    /// The request to the upstream, if its trace is recorded and there was one.
    pub(crate) fn call(&self) -> Option<access_log::Call> {
        let is_upstream = self.tried != 0 && !self.route.rule.is_local();
        let target = self.called.as_ref().filter(|_| is_upstream)?;
        Some(access_log::Call {
            began: self.began,
            is_secured: self.route.rule.upstreams[self.at].is_secured(),
            target: Arc::clone(target),
            status: self.upstream_status,
            failure: self.failed.map(Failed::word),
        })
    }

    /// The exchange failed, unless a stored response stands in.
    pub(super) fn fail_or_stand_in(&mut self, why: Failed) {
        if self.failed.is_some() || self.has_reply() {
            return;
        }
        let is_of_upstream = why.is_of_upstream() || matches!(why, Failed::NoRoom(_));
        if is_of_upstream
            && !self.has_begun()
            && let Some(cached) = &mut self.cached
            && cached.failed(self.began)
        {
            self.stood_in_for = Some(why);
            return;
        }
        self.failed = Some(why);
        self.leave_cache();
    }

    /// The upstream's response is complete.
    pub(super) fn stored_whole(&mut self) {
        if let Some(cached) = &mut self.cached {
            cached.complete();
        }
    }

    /// Writes the response from the cache. What the upstream sends is of no more use.
    pub(super) fn reply(&mut self, client: &mut impl ToClient, now: Instant) {
        let Some(mut reply) = self.cached.as_mut().and_then(|cached| cached.take_reply()) else {
            return;
        };
        let (settled, start) = (reply.settled.take(), self.down.len());
        self.again = None;
        self.took = self.took.or((self.tried != 0).then(|| now - self.began));
        let has_content = !matches!(reply.status, 204 | 304) && !self.is_to_head;
        let received = reply.received;
        let mut has_date = false;
        let written = reply.with_fields(|fields| {
            has_date = fields.has(Name::Date);
            let head = Head {
                status: reply.status,
                reason: "",
                version: Version::Http11,
                framing: match has_content {
                    true => Framing::Length(reply.body.len() as u64),
                    false => Framing::Empty,
                },
                persistent: true,
                fields: *fields,
            };
            let outgoing = client.begin(&head, self.has_whole_request)?;
            let (down, ruled) = (&mut self.down, &self.ruled);
            let bytes = client.head(down, &head, self.is_to_head, outgoing, ruled, received)?;
            Ok::<_, http1::Misuse>((outgoing, bytes))
        });
        let Ok((outgoing, bytes)) = written else {
            self.leave_cache();
            self.failed = Some(Failed::Unwritable);
            return;
        };
        self.status = reply.status;
        self.head_bytes += bytes;
        self.response = Response::Ended;
        let is_plain = has_date
            && outgoing == Outgoing::Length
            && self.tried == 0
            // Otherwise, a file may come before the next request gets here.
            && self.route.rule.when == When::Always;
        self.repeat = settled
            .filter(|_| is_plain)
            .zip(client.repeatable(&self.down[start..]))
            .and_then(|(settled, written)| settled.repeat(written))
            .map(Box::new);
        if outgoing != Outgoing::Empty {
            self.body_bytes = reply.body.len() as u64;
            self.stored = reply.body;
        } else {
            self.stored = Bytes::new();
        }
        if self.link == Link::Dialing {
            self.link = Link::Leaving(Parting::Abort);
        }
    }
}
