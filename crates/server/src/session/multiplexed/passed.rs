//! A request on a stream that is passed to an upstream, from its head to the last byte of the response.
//!
//! ```text
//!   client ─ content ─▶ forward.up ── Ask::Send ─▶ upstream     the window is given back once the upstream took the bytes
//!   client ◀─ next ◀─ forward.down ◀── Ask::Read ─ upstream     read again while `down` is empty
//! ```
//! So a stream holds its receive window one way and two receives the other way, whatever the length of the bodies.

use crate::access_log::Slot;
use crate::context::{Cx, Work};
use crate::exchange::Exchange;
use crate::limits::Limits;
use crate::proxy::forward::Forward;
use crate::session::client::Client;
use crate::session::gateway;
use crate::session::multiplexed::ask;
use bytes::{Buf as _, Bytes};
use http_semantics::compression::Fields;
use http_semantics::message::Control;
use http_semantics::request::Protocol;
use runtime::session::{Ask, Ticket};
use units::Instant;

/// A request that is passed on.
#[derive(Debug)]
pub(in crate::session) struct Passed {
    pub(in crate::session) forward: Forward,
    /// The request.
    pub(in crate::session) fields: Fields,
    pub(super) protocol: Protocol,
    /// Generation of the configuration that chose the route.
    pub(super) generation: u64,
    /// Arrival of the head.
    pub(in crate::session) started: Instant,
    /// Since when the client can send its body: the upstream is connected.
    since: Instant,
    /// The client waits for 100 (Continue).
    pub(in crate::session) expects: bool,
    /// Content for the client. What follows it is in `forward.down`.
    next: Bytes,
    /// The field block of the trailer section, which is sent behind all content.
    pub(in crate::session) trailers: Option<Vec<u8>>,
    /// Bytes of the body whose window is not given back: those that this server has, and those that the driver has.
    kept: u32,
    given: u32,
    /// The check of the client's password, before which nothing is passed on; the driver gets the job at the next poll.
    pub(in crate::session) check: Option<Box<(Exchange, Option<Work>)>>,
    /// The body was being collected when it was last looked at.
    collects: bool,
    /// When the exchange is given up.
    until: Option<Instant>,
}

impl Passed {
    /// A request whose head arrived now. `expects`: the client waits for 100 (Continue). `generation`: that of the configuration
    /// that chose the route.
    pub(in crate::session) fn new(
        mut forward: Forward,
        fields: Fields,
        (protocol, generation): (Protocol, u64),
        expects: bool,
        now: Instant,
    ) -> Box<Passed> {
        let until = forward.patience(now).map(|patience| now + patience);
        let collects = forward.is_collecting();
        Box::new(Passed {
            forward,
            fields,
            protocol,
            generation,
            started: now,
            since: now,
            expects,
            next: Bytes::new(),
            trailers: None,
            kept: 0,
            given: 0,
            check: None,
            collects,
            until,
        })
    }

    /// When it is given up; `None` while the client has to take content, which has deadlines of its own.
    pub(in crate::session) fn deadline(&self) -> Option<Instant> {
        self.until
    }

    /// Bytes of memory held.
    pub(in crate::session) fn memory(&self) -> usize {
        let trailers = self.trailers.as_ref().map_or(0, Vec::capacity);
        size_of::<Passed>() + self.forward.held() + self.fields.capacity() + self.next.len() + trailers
    }

    /// Something moved: sets the deadline anew.
    pub(in crate::session) fn rewind(&mut self, limits: &Limits, now: Instant) {
        self.until = match self.forward.patience(now) {
            _ if self.ready() > 0 => None,
            Some(patience) => Some(now + patience),
            None => Some(limits.body_until(self.since, self.forward.received)),
        };
        let total = self.forward.until();
        self.until = self.until.into_iter().chain(total).min();
    }

    /// Whether the body is being collected, or was until now.
    pub(in crate::session) fn collected(&mut self) -> bool {
        std::mem::replace(&mut self.collects, self.forward.is_collecting())
    }

    /// The upstream may be connected now. Returns whether it is, and the client may be told to send its body.
    pub(in crate::session) fn connected(&mut self, now: Instant) -> bool {
        let is_open = self.forward.opened(now) | self.forward.take_opened();
        if is_open {
            self.since = now;
        }
        is_open && !self.forward.has_begun()
    }

    /// What the driver is to do for the connection to the upstream.
    pub(in crate::session) fn ask(&mut self, now: Instant) -> Option<(Ticket, Ask)> {
        let asked = self.forward.ask(now)?;
        if let Ask::Send(_) = asked.1 {
            let later = u32::try_from(self.forward.unsent()).unwrap_or(u32::MAX);
            let later = later.min(self.kept);
            // What a connection that is given up did not take is given again.
            self.given += self.kept - later;
            self.kept = later;
        }
        Some(asked)
    }

    /// Takes content of the request. Returns whether its window is given back later, and not at once: content of no use, and
    /// content that is collected, must not keep the client from sending more.
    pub(in crate::session) fn keep(&mut self, bytes: &[u8]) -> bool {
        let is_of_use = self.forward.takes_content() && self.forward.failed().is_none();
        if is_of_use {
            self.forward.take_content(bytes);
        }
        let waits = is_of_use && !self.forward.is_collecting();
        if waits {
            self.kept += bytes.len() as u32;
        }
        waits
    }

    /// The upstream took what it was given. Returns the bytes of the window to give back.
    pub(in crate::session) fn sent_up(&mut self) -> u32 {
        self.forward.sent_up();
        std::mem::take(&mut self.given)
    }

    /// Bytes of the window that were not given back, if the rest of the body is of no use.
    pub(in crate::session) fn release(&mut self) -> u32 {
        std::mem::take(&mut self.kept) + std::mem::take(&mut self.given)
    }

    /// Bytes of content that the client can be sent.
    pub(in crate::session) fn ready(&self) -> usize {
        self.next.len() + self.forward.down.len() + self.forward.stored.len()
    }

    /// Makes what came from the upstream the next content, if the client has taken all before it. The upstream is then
    /// read again.
    pub(in crate::session) fn feed(&mut self) {
        if self.next.is_empty() && !self.forward.down.is_empty() {
            self.next = Bytes::from(std::mem::take(&mut self.forward.down));
        } else if self.next.is_empty() {
            self.next = std::mem::take(&mut self.forward.stored);
        }
    }

    /// Whether content of the request is held whose window is not given back.
    pub(in crate::session) fn holds_content(&self) -> bool {
        self.kept > 0 || self.given > 0
    }

    /// The next content, as far as it is in one piece; never empty while some is ready.
    pub(in crate::session) fn front(&self) -> &Bytes {
        &self.next
    }

    /// Drops that many bytes of [`Passed::front`], which were sent.
    pub(in crate::session) fn drop_front(&mut self, bytes: usize) {
        self.next.advance(bytes);
        self.feed();
        self.forward.taken_down();
    }

    /// Appends `bytes` of the content, which are ready.
    pub(in crate::session) fn take(&mut self, mut bytes: usize, out: &mut Vec<u8>) {
        while bytes > 0 {
            let some = bytes.min(self.next.len());
            if some == 0 {
                debug_assert!(false, "more is taken than is ready");
                break;
            }
            out.extend_from_slice(&self.next[..some]);
            self.drop_front(some);
            bytes -= some;
        }
    }

    /// Composes the log line of the response, whole or in part.
    pub(in crate::session) fn log(&self, cx: &mut Cx, client: &Client, stream: u64, slot: &mut Slot) {
        if !cx.journal.is_on() {
            return;
        }
        let Some(control) = Control::of(&self.fields) else {
            debug_assert!(false, "a kept request is invalid");
            return;
        };
        ask::with_head(&control, &self.fields, self.protocol, |head| {
            if let Ok(head) = head {
                gateway::log(
                    cx,
                    slot,
                    (client, Some(stream)),
                    head,
                    self.started,
                    &self.forward,
                );
            }
        });
    }
}
