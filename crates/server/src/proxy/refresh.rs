//! Requests of the server's own that validate stored responses while clients get them stale (RFC 5861 section 3).
//!
//! One thread per route sends them one after the other, each on a connection of its own, so that no client waits for them and
//! none is lost when a client leaves. Without room in its queue, a response stays stale until the next request for it.

use super::Route;
use super::balance::Left;
use super::cache::Cached;
use super::places::Found;
use crate::proxy_protocol;
use http_semantics::method::Method;
use http_semantics::request::Protocol;
use http1::client::{Connection, Step};
use http1::slots::Slots;
use runtime::background::Background;
use runtime::rounds;
use std::sync::Weak;
use units::{Instant, Seed};

/// Requests that wait for the thread.
const WAITING_MAX: usize = 64;

/// Room for heads and framing beside the content.
const OVERHEAD: usize = 256 << 10;

/// The thread of a route.
pub(super) type Refresher = Background<Refresh>;

/// A request to send.
pub(super) struct Refresh {
    pub(super) route: Weak<Route>,
    /// The request as HTTP/1 sends it, with `Connection: close`.
    pub(super) request: Vec<u8>,
    pub(super) cached: Cached,
    pub(super) key: u64,
    pub(super) now: Instant,
}

/// Makes the thread, which starts with its first request.
pub(super) fn refresher() -> Refresher {
    Background::new("weir-refresh", WAITING_MAX, |refresh: Refresh, _| refresh.run())
}

impl Refresh {
    fn run(mut self) {
        let Some(route) = self.route.upgrade() else { return };
        let Some(cache) = &route.rule.cache else { return };
        let mut rng = Seed(self.now.as_nanos()).rng();
        let Some(stay) = route.balancer.enter((0, self.key), None, &mut rng, self.now) else {
            return;
        };
        let most = usize::try_from(cache.max_object_size.0)
            .unwrap_or(usize::MAX)
            .saturating_add(OVERHEAD);
        let place = &route.places[stay.at()];
        // A name that was not looked up yet has served no response that could be stale.
        let Found::At(mut to, mut others) = place.find(self.now) else {
            return route.balancer.leave(&stay, Left::default());
        };
        self.cached.depart();
        // No client waits for it.
        let announcement = proxy_protocol::announcement(route.rule.proxy_protocol, None);
        let exchanged = loop {
            let exchanged = place.exchange(
                &to,
                &announcement,
                &self.request,
                route.rule.first_byte_timeout,
                rounds::whole(most),
            );
            let other = match &exchanged.answer {
                Ok(_) => None,
                Err(_) => others.pop(),
            };
            let Some(other) = other else {
                break exchanged;
            };
            place.failed(&to, exchanged.at);
            to = other;
        };
        let now = exchanged.at;
        match exchanged.answer {
            Ok(answer) => self.take(&answer, exchanged.is_http2, now),
            Err(error) => {
                tracing::debug!("upstream {to}: a stored response stays stale: {error}");
                route.balancer.failed(stay.at(), stay.forgiven(), now);
                stay.failed(true, now);
            }
        }
        let left = Left {
            is_repeatable: true,
            ..Left::default()
        };
        route.balancer.leave(&stay, left);
    }

    /// Stores the response, which came in HTTP/2 or HTTP/1. One that is cut or malformed is not stored.
    fn take(&mut self, answer: &[u8], is_http2: bool, now: Instant) {
        let limits = super::forward::LIMITS;
        let mut connection = Connection::new();
        if connection.begin_request(Method::Get, false, &limits).is_err() || connection.end_request().is_err()
        {
            return;
        }
        let mut used = 0;
        loop {
            let mut slots = Slots::new();
            match connection.receive(&answer[used..], &mut slots, &limits) {
                Ok(Step::Interim { used: more, .. }) => used += more,
                Ok(Step::Response { head, used: more }) => {
                    used += more;
                    let length = super::forward::length(head.framing);
                    let received = match is_http2 {
                        true => Protocol::Http2,
                        false => head.version.protocol(),
                    };
                    if self
                        .cached
                        .answered(head.status, received, &head.fields, length, now)
                    {
                        return;
                    }
                    if head.framing == http1::framing::Framing::Empty {
                        return self.cached.complete();
                    }
                }
                Ok(Step::Body { data, used: more }) => {
                    used += more;
                    self.cached.take(data);
                }
                Ok(Step::End { .. }) => return self.cached.complete(),
                Ok(Step::Partial { .. }) => {
                    if let Ok(http1::client::Ended::Body(_)) = connection.eof() {
                        self.cached.complete();
                    }
                    return;
                }
                Ok(Step::Closed) | Err(_) => return,
            }
        }
    }
}
