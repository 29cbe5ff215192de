//! One connection of the file server, as a pure state machine: HTTP/1 or HTTP/2.
//!
//! ```text
//!   accept ─▶ Http1 ─┬─ TLS agreed on "h2" (ALPN) ────────────▶ Http2
//!                    ├─ the client begins as HTTP/2 does, ────▶ Http2
//!                    │  and cleartext may (prior knowledge)
//!                    └─ a request has a route to an upstream ─▶ Forwarding
//! ```
//! In HTTP/2, requests with such a route are streams as all others. `gateway` has what both do alike for them.
//!
//! Both take requests off the input, have an exchange ([`crate::exchange`]) choose the answer to each, and write it. This
//! file decides which of the two a connection speaks. Connections over QUIC speak HTTP/3 from the start ([`Http3`]).

mod client;
pub(crate) mod gateway;
mod guard;
mod http1;
mod http2;
mod http3;
mod multiplexed;

use crate::context::{Cx, Work};
use crate::rate_limit::Pace;
use client::Client;
pub(crate) use client::Layer;
use http1::Http1;
use http2::Http2;
pub(crate) use http3::Http3;
use runtime::{Action, Event, Tx};
use std::net::IpAddr;
use units::Instant;

/// An HTTP connection.
#[derive(Debug)]
pub enum Session {
    /// It speaks HTTP/1, or has not said anything yet.
    Http1(Http1),
    /// It speaks HTTP/1, and has passed a request to an upstream: it works both ways.
    Forwarding(Box<Http1>),
    /// It speaks HTTP/2.
    Http2(Box<Http2>),
}

impl Session {
    /// A connection from `peer` that must send bytes until `deadline`, at an admin address if it `is_admin`.
    pub(crate) fn new(
        (peer, is_admin): (IpAddr, bool),
        layer: Layer,
        deadline: Instant,
        pace: Option<Pace>,
    ) -> Session {
        let client = Client::new(peer, layer, pace).at_admin(is_admin);
        Session::Http1(Http1::new(client, deadline))
    }

    /// Handles any event.
    #[inline(never)]
    fn event(&mut self, cx: &mut Cx, event: Event<'_, Work>, tx: &mut Tx, now: Instant) {
        if self.is_leaving_http1() {
            self.leave_http1(cx, now);
        }
        match self {
            Session::Http1(http1) => http1.handle(cx, event, tx, now),
            Session::Forwarding(http1) => http1.handle_both_ways(cx, event, tx, now),
            Session::Http2(http2) => http2.handle(cx, event, now),
        }
    }

    /// The action of any session.
    #[inline(never)]
    fn action(&mut self, cx: &mut Cx, tx: &mut Tx, now: Instant) -> Action<Work> {
        if self.is_leaving_http1() {
            self.leave_http1(cx, now);
        }
        match self {
            Session::Http1(http1) => http1.poll(tx),
            Session::Forwarding(http1) => http1.poll_both_ways(cx, tx, now),
            Session::Http2(http2) => http2.poll(cx, tx, now),
        }
    }

    /// Whether the connection goes on as another kind of session. It does so with the next `poll` or event, so that no
    /// request in HTTP/1 has to look for it.
    #[inline]
    fn is_leaving_http1(&self) -> bool {
        matches!(self, Session::Http1(http1) if http1.is_leaving())
    }

    /// Works both ways from now on, or speaks HTTP/2.
    #[cold]
    fn leave_http1(&mut self, cx: &mut Cx, now: Instant) {
        let Session::Http1(http1) = self else { return };
        if !http1.is_other() {
            let http1 = std::mem::replace(http1, Http1::placeholder());
            *self = Session::Forwarding(Box::new(http1));
            return;
        }
        let end = http1.end_in_sight();
        let (client, input, deadline) = http1.leave();
        let mut http2 = Box::new(Http2::new(cx, client, deadline, now));
        http2.handle(cx, Event::Bytes(&input), now);
        // The worker tells each session once.
        if let Some(event) = end {
            http2.handle(cx, event, now);
        }
        *self = Session::Http2(http2);
    }
}

impl runtime::Session for Session {
    type Cx = Cx;

    #[inline]
    fn handle(&mut self, cx: &mut Cx, event: Event<'_, Work>, tx: &mut Tx, now: Instant) {
        // A request and its response in HTTP/1 go ahead of everything else, and pay for nothing of it.
        if let Session::Http1(http1) = self {
            match event {
                Event::Bytes(bytes) if http1.is_idle() => {
                    // Such an event owns nothing: forgetting it spares the search for what to free.
                    std::mem::forget(event);
                    return http1.serve(cx, bytes, now, tx, now);
                }
                Event::Sent if http1.has_answered() => {
                    std::mem::forget(event);
                    return http1.answer_sent(cx, now);
                }
                _ => {}
            }
        }
        self.event(cx, event, tx, now);
    }

    #[inline]
    fn poll(&mut self, cx: &mut Cx, tx: &mut Tx, now: Instant) -> Action<Work> {
        // As in `handle`.
        if let Session::Http1(http1) = self {
            if http1.is_idle() {
                return Action::Read;
            }
            if http1.has_answered() && !tx.is_empty() {
                return Action::Write;
            }
        }
        self.action(cx, tx, now)
    }

    #[inline]
    fn deadline(&self) -> Option<Instant> {
        match self {
            Session::Http1(http1) => http1.deadline(),
            Session::Forwarding(http1) => http1.deadline(),
            Session::Http2(http2) => http2.deadline(),
        }
    }

    fn idle_since(&self, cx: &Cx) -> Option<Instant> {
        match self {
            Session::Http1(http1) => http1.idle_since(cx),
            Session::Forwarding(http1) => http1.idle_since(cx),
            Session::Http2(http2) => http2.idle_since(cx),
        }
    }

    fn closed(&mut self, cx: &mut Cx, now: Instant) {
        let client = match self {
            Session::Http1(http1) => {
                http1.closed(cx, now);
                http1.client()
            }
            Session::Forwarding(http1) => {
                http1.closed(cx, now);
                http1.client()
            }
            Session::Http2(http2) => {
                http2.closed(cx, now);
                http2.client()
            }
        };
        cx.counters.closed().add(1);
        if let Layer::Agreeing { .. } = client.layer() {
            cx.hub.handshakes.leave(client.address());
        }
        cx.hub.leave(client.address(), client.is_admin());
    }
}

#[cfg(any(test, fuzzing))]
#[cfg_attr(test, allow(unreachable_pub, reason = "a fuzz target calls it"))]
pub mod exercise;
#[cfg(any(test, fuzzing))]
#[cfg_attr(
    all(fuzzing, not(test)),
    allow(dead_code, reason = "tests need all of it, the fuzz target a part")
)]
mod rig;
#[cfg(test)]
mod tests;
