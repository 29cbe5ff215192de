//! One request and its response between a client of any version of HTTP and an upstream. The exchange speaks HTTP/1.1;
//! `channel` translates for upstreams of HTTP/2.
//!
//! ```text
//!   client ─content─▶ take_content ▶ up ────Ask::Send──▶ upstream     request: read again once the upstream took it
//!   client ◀──output── down ◀── received ◀────Ask::Read── upstream     response: read again once the client took it
//!
//!   Queued ─▶ Wanted ─▶ Dialing ─┬─▶ Open ─▶ Leaving ─▶ Gone
//!                ▲               └─ refused, another was not tried ┐
//!                └─────────────────────────────────────────────────┘
//!                ▲               Open, without a byte of the response ┐
//!                └─ the request may be repeated ──────────────────────┘
//! ```
//! An upstream whose host name was not looked up yet is `Resolving` before `Wanted`. Either side is read only when the other
//! has taken everything, so an exchange holds a head and one receive a way, whatever the length of the bodies. This file
//! has the state of an exchange and what the session asks of it. `upstream` has the connection, `request` and `response`
//! the two ways, `waits` the timeouts, and `again` what follows a failure. The session knows the client's connection, its
//! deadlines and the log. `retry` decides which requests may be repeated, and how many are. How a head goes to the client
//! depends on its version of HTTP ([`ToClient`]); `http1` has that of HTTP/1.

mod again;
mod request;
mod response;
mod stored;
mod switched;
mod upstream;
mod waits;

pub(super) use response::LIMITS;
pub(crate) use response::ToClient;
pub(super) use stored::length;

use super::balance::{self, Left, Stay};
use super::cache::{Cached, Repeat};
use super::channel::Channel;
use super::failed::Failed;
use super::head::{Follows, Outgoing, asks_for_websocket, binds_connection, write_request};
use super::places::Place;
use super::retry;
use super::scripts::Scripted;
use super::{End, Found, Route, Target, Tried};
use crate::checked::{Guarded, Vouched};
use crate::client_address::{From, UNKNOWN};
use crate::field_rules::RuledLines;
use crate::proxy_protocol;
use crate::request_id::RequestId;
use crate::request_limit::Seats;
use crate::traced::Trace;
use bytes::Bytes;
use http_semantics::method::Method;
use http_semantics::request::RequestHead;
use http1::Misuse;
use http1::client::Connection;
use http1::framing::Framing;
use runtime::session::{Ticket, Upstream};
use std::sync::Arc;
use units::{Duration, Instant, UnixTime};

/// The connection to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// No upstream was chosen: the client's connection has as many peers as it may.
    Queued,
    /// Its host name was not looked up yet.
    Resolving,
    /// The request waits for the response to that of another client, which is to be stored.
    Collapsed,
    /// A thread looks whether there is a script for it.
    Searching,
    /// It is to be dialed.
    Wanted,
    Dialing,
    /// It is open, and its TLS handshake is under way.
    Securing,
    Open,
    /// It is to be parted with in this way.
    Leaving(Parting),
    /// There is none any more.
    Gone,
}

/// How the connection to the upstream is parted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parting {
    /// It is kept for another request.
    Park,
    Close,
    /// It is reset: the upstream must not take what it got for complete.
    Abort,
}

/// How far the response got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Response {
    /// Its head has not arrived.
    Awaited,
    /// Its body is being passed on.
    Begun(Outgoing),
    /// Both connections carry another protocol from now on. What either side sends is passed on as it is, until one side ends.
    Switched,
    /// All of it was passed on.
    Ended,
}

/// An exchange with an upstream.
#[derive(Debug)]
pub(crate) struct Forward {
    route: Arc<Route>,
    /// Index of the upstream.
    at: usize,
    /// The request at it; `None` before the choice.
    stay: Option<Stay>,
    /// The address that is connected or tried; `None` before the choice, and if its host name has none.
    to: Option<Arc<Upstream>>,
    /// Other addresses of its host name, to be tried from the last one on if this one refuses.
    others: Vec<Arc<Upstream>>,
    /// Hash of its key for the balancer.
    key: u64,
    /// A bit for each upstream that was tried, this one included.
    tried: u64,
    /// The connection to the upstream before, if it is to be closed.
    leaving: Option<Ticket>,
    /// Ticket of the first connection; the next one has the next.
    base: u32,
    /// Connections before this one.
    attempts: u32,
    link: Link,
    /// The layers of the connection, if the upstream has any.
    channel: Option<Box<Channel>>,
    /// The script it is for, if the upstreams speak FastCGI.
    scripted: Option<Box<Scripted>>,
    /// The handshake is complete, which the session was not told yet.
    has_opened: bool,
    /// Why its TLS failed, in words.
    tls_fault: Option<Box<str>>,
    /// The connection may switch to WebSocket.
    switches: bool,
    /// The next connection is to be a new one.
    is_fresh: bool,
    /// Requests before this one used the connection.
    is_reused: bool,
    /// The request has a place on a connection that others use at the same time.
    is_shared: bool,
    /// Others wait for the connection that is being opened.
    is_awaited: bool,
    /// The request was repeated because its connection had ended.
    has_repeated: bool,
    /// The connection may serve other requests after this one.
    keeps: bool,
    /// The request so far, while it can be sent again.
    again: Option<Vec<u8>>,
    /// It may be sent again although the upstream may have processed it.
    is_repeatable: bool,
    /// How often it may be repeated at another upstream.
    retries: u32,
    is_to_head: bool,

    is_chunked: bool,
    has_whole_request: bool,
    /// Content of the request so far, in bytes.
    pub(crate) received: u64,
    /// Bytes for the upstream.
    up: Vec<u8>,
    /// The header of the PROXY protocol, with which each connection begins, before its TLS; empty without one.
    announcement: Vec<u8>,
    is_sending_up: bool,
    /// Since when the upstream has the whole request; `None` before that.
    asked: Option<Instant>,
    /// A byte of the response arrived.
    has_heard: bool,
    /// Since the last [`Forward::patience`], the request or the response went on, or the upstream's time began.
    has_moved: bool,
    /// When the exchange went on last.
    moved: Instant,
    /// Value of [`Forward::unsent`] at the last [`Forward::patience`].
    unsent_before: usize,

    upstream: Connection,
    /// Bytes of the upstream that are not decoded: a part of a head or of a chunk's frame.
    raw: Vec<u8>,
    is_reading: bool,
    response: Response,
    /// Bytes for the client.
    pub(crate) down: Vec<u8>,
    pub(crate) is_sending_down: bool,
    failed: Option<Failed>,
    /// What access rules mean for the fields of the request.
    guarded: Guarded,
    /// Whether other fields of the request may say that the client used https.
    may_claim_https: bool,
    /// What other servers say of the request.
    vouched: Option<Arc<Vouched>>,
    /// Length of the head of the request.
    head_len: usize,
    /// Lines of rules for the response.
    pub(crate) ruled: RuledLines,
    /// What the request holds until it is answered.
    pub(crate) seats: Seats,
    /// Id of the request, if requests have ids.
    pub(crate) id: Option<RequestId>,
    /// Its part in its trace, if requests are traced.
    pub(crate) trace: Option<Arc<Trace>>,
    /// The target for the upstream, if the trace is recorded.
    called: Option<Arc<[u8]>>,

    pub(crate) began: Instant,
    /// When the exchange is given up whatever happens; `None`: never, or it has not begun.
    until: Option<Instant>,
    /// Time from the last dial to the head of the response.
    pub(crate) took: Option<Duration>,
    /// Status of the response; 0 before it.
    pub(crate) status: u16,
    /// Status of the upstream's response; 0 before it, or without one.
    upstream_status: u16,
    /// Bytes of heads for the client.
    pub(crate) head_bytes: u32,
    /// Bytes of content for the client, with its framing.
    pub(crate) body_bytes: u64,

    /// The cache's part.
    cached: Option<Box<Cached>>,
    /// What the cache did, in a word of `Cache-Status`, once its part is over before the response.
    cache_outcome: Option<&'static str>,
    is_looked_up: bool,
    /// The response from the cache as equal requests get it.
    repeat: Option<Box<Repeat>>,
    /// Content from the cache that follows `down`.
    pub(crate) stored: Bytes,
    /// The failure of an upstream in whose place a stored response was served.
    stood_in_for: Option<Failed>,
}

impl Forward {
    /// An exchange for this request, whose body has this framing. The tickets of its connections begin at `base`. It
    /// waits until [`Forward::start`].
    ///
    /// # Errors
    /// [`Misuse::Unwritable`] if the request cannot be written for an upstream.
    pub(crate) fn new(
        found: Found,
        head: &RequestHead<'_, '_>,
        framing: Framing,
        from: &From,
        base: u32,
        (wall, now): (UnixTime, Instant),
    ) -> Result<Forward, Misuse> {
        let mut up = Vec::with_capacity(1024);
        // Some servers take all requests of a connection for those of the user who logged in on it.
        let rule = &found.route.rule;
        // A connection that begins with the address of a client is that client's.
        let keeps = rule.keepalive() > 0
            && rule.proxy_protocol.is_none()
            && !binds_connection(&head.fields, "authorization");
        let is_fastcgi = found.script.is_some();
        let switches = rule.websocket && !is_fastcgi && asks_for_websocket(head, framing);
        let follows = match (switches, keeps) {
            _ if is_fastcgi => Follows::Records,
            (true, _) => Follows::WebSocket,
            (false, true) => Follows::Requests,
            (false, false) => Follows::Nothing,
        };
        let client = (from.peer != UNKNOWN).then_some(from.peer);
        let announcement = proxy_protocol::announcement(rule.proxy_protocol, client);
        let cache = found.route.cache_for(switches, from.guarded.is_personal).ok();
        let cached = cache
            .and_then(|cache| Cached::new(cache, head, framing != Framing::Empty, from.is_secured, wall, now))
            .map(Box::new);
        Cached::with_conditions(cached.as_deref(), head, |head| {
            write_request(
                &mut up,
                head,
                framing,
                &found.target,
                from,
                follows,
                &rule.request_header,
            )
        })?;
        let head_len = up.len();
        let is_to_head = head.method == Method::Head;
        let mut upstream = awaiting(is_to_head, keeps)?;
        if switches {
            upstream.await_switch();
        }
        let is_repeatable = retry::may_be_repeated(head.method, framing);
        // An upstream of HTTP/2 or FastCGI says if it has not processed a request, whatever its method.
        let is_kept = is_repeatable || is_fastcgi || found.route.places.iter().any(Place::may_speak_http2);
        let key = balance::of_request(&found.route.rule.hash_key, head, &found.target, from.peer);
        let vouched = found.vouched;
        let scripted = match (&found.route.scripts, found.script) {
            (Some(scripts), Some(asked)) => Some(Box::new(Scripted::new(
                scripts,
                asked,
                head,
                from,
                keeps,
                &found.target,
            ))),
            _ => None,
        };
        let mut forward = Forward {
            guarded: from.guarded.clone(),
            may_claim_https: from.may_claim_https,
            vouched: None,
            id: from.id.clone(),
            called: from
                .trace
                .as_ref()
                .filter(|trace| trace.is_sampled())
                .map(|_| found.target.as_slice().into()),
            trace: from
                .trace
                .as_ref()
                .map(|trace| trace.routed(&found.route.rule.path)),
            head_len,
            attempts: 0,
            switches,
            // A kept one may be of HTTP/2.
            is_fresh: switches && found.route.rule.http2,
            is_reused: false,
            is_shared: false,
            is_awaited: false,
            has_repeated: false,
            keeps,
            again: is_kept.then(|| up.clone()),
            is_repeatable,
            retries: found.route.rule.retries,
            upstream,
            at: 0,
            stay: None,
            to: None,
            others: Vec::new(),
            key,
            tried: 0,
            leaving: None,
            route: found.route,
            base,
            link: Link::Queued,
            channel: None,
            scripted,
            has_opened: false,
            tls_fault: None,
            is_to_head,
            is_chunked: framing == Framing::Chunked,
            has_whole_request: framing == Framing::Empty,
            received: 0,
            up,
            announcement,
            is_sending_up: false,
            asked: None,
            has_heard: false,
            has_moved: false,
            moved: now,
            unsent_before: 0,
            raw: Vec::new(),
            is_reading: false,
            response: Response::Awaited,
            down: Vec::new(),
            is_sending_down: false,
            failed: None,
            ruled: RuledLines::NONE,
            seats: Seats::default(),
            began: now,
            until: None,
            took: None,
            status: 0,
            upstream_status: 0,
            head_bytes: 0,
            body_bytes: 0,
            cached,
            cache_outcome: None,
            is_looked_up: false,
            repeat: None,
            stored: Bytes::new(),
            stood_in_for: None,
        };
        forward.vouch(vouched);
        Ok(forward)
    }

    /// Adds what other servers say of the request, before any of it is sent.
    pub(crate) fn vouch(&mut self, vouched: Option<Arc<Vouched>>) {
        let Some(vouched) = vouched else { return };
        // Before the empty line that ends the head.
        let at = self.head_len - 2;
        for request in [Some(&mut self.up), self.again.as_mut()].into_iter().flatten() {
            request.splice(at..at, vouched.lines.iter().copied());
        }
        self.head_len += vouched.lines.len();
        self.vouched = Some(vouched);
    }

    /// The user whom another server names.
    pub(crate) fn user(&self) -> Option<&[u8]> {
        self.vouched.as_ref()?.user.as_deref()
    }

    /// Whether no upstream was chosen yet.
    pub(crate) fn is_queued(&self) -> bool {
        self.link == Link::Queued
    }

    /// Whether it has a connection to an upstream, or is about to.
    pub(crate) fn has_peer(&self) -> bool {
        !matches!(
            self.link,
            Link::Queued | Link::Collapsed | Link::Searching | Link::Gone
        )
    }

    /// Whether it has a connection to an upstream for itself, or may be about to.
    pub(crate) fn has_own_peer(&self) -> bool {
        self.has_peer() && !self.is_shared
    }

    /// Whether an upstream is connected.
    pub(crate) fn is_open(&self) -> bool {
        self.link == Link::Open
    }

    /// The upstream that serves the request, for logs; the first one before the choice.
    pub(crate) fn target(&self) -> Target {
        let place = self.place();
        let address = place.address().or(self.to.as_ref());
        Target {
            name: place.name().cloned(),
            address: address.cloned(),
        }
    }

    /// The upstream of an exchange that failed; none if the request waited for one.
    pub(crate) fn tried(&self, now: Instant) -> Option<Tried> {
        (self.tried != 0).then(|| Tried {
            target: self.target(),
            took: now - self.began,
            call: self.call(),
            cache: self.cache_word(),
        })
    }

    /// Ticket of the connection to it.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.base + self.attempts)
    }

    /// Bytes of memory that the exchange holds.
    pub(crate) fn held(&self) -> usize {
        let buffers = [&self.up, &self.raw, &self.down].into_iter().chain(&self.again);
        let cached = self.cached.as_ref().map_or(0, |cached| cached.held());
        let channel = self.channel.as_ref().map_or(0, |channel| channel.held());
        let buffers = buffers.map(Vec::capacity).sum::<usize>();
        let scripted = self.scripted.as_ref().map_or(0, |scripted| scripted.held());
        size_of::<Forward>() + scripted + self.ruled.held() + channel + buffers + cached
    }

    /// Why the exchange failed.
    pub(crate) fn failed(&self) -> Option<Failed> {
        self.failed
    }

    /// Whether the exchange has ended, well or not, and nothing more is to be asked or sent.
    pub(crate) fn is_over(&self) -> bool {
        let is_done = match self.failed {
            // A page follows, and a session writes nothing while output is under way, an interim response for instance.
            Some(why) => !self.is_sending_down || self.has_begun() || why == Failed::ClientGone,
            None => self.has_ended() && !self.has_output() && !self.is_sending_down,
        };
        is_done && self.link == Link::Gone
    }

    /// The exchange failed.
    pub(crate) fn fail(&mut self, why: Failed) {
        self.fail_or_stand_in(why);
        if self.link != Link::Gone {
            self.link = match self.link {
                Link::Queued | Link::Collapsed | Link::Searching | Link::Resolving | Link::Wanted => {
                    Link::Gone
                }
                _ => Link::Leaving(Parting::Abort),
            };
        }
    }

    /// Why the exchange failed, in words.
    pub(crate) fn explain(&self, why: Failed) -> String {
        match (why, &self.tls_fault) {
            (Failed::Insecure, Some(fault)) => fault.to_string(),
            (Failed::TooLarge, _) if self.route.end() == End::Uploads => format!(
                "the file exceeds `largest` ({}) of the rule in `[[uploads]]`; raise it to allow such files",
                self.route.rule.max_body_size
            ),
            _ => why.to_string(),
        }
    }

    /// Who is asked, for logs: the upstream, or the part of this process.
    pub(crate) fn shown(&self) -> String {
        match self.route.end() {
            End::Upstreams => format!("upstream {}", self.target()),
            End::Uploads => format!("uploads to `{}`", self.route.rule.path),
            End::Control => "a command".to_owned(),
        }
    }

    /// The route of the request.
    pub(crate) fn route(&self) -> &Route {
        &self.route
    }
}

/// A connection that awaits the response to one request.
fn awaiting(is_to_head: bool, keeps: bool) -> Result<Connection, Misuse> {
    let mut upstream = Connection::new();
    let method = if is_to_head { Method::Head } else { Method::Get };
    upstream.begin_request(method, keeps, &LIMITS)?;
    // How much of the request was sent is known here: the connection is not reused before all was.
    upstream.end_request()?;
    Ok(upstream)
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.log_errors(true);
        if let Some(stay) = &self.stay {
            let left = Left {
                bytes: self.body_bytes,
                status: self.status,
                is_repeatable: self.is_repeatable,
            };
            self.route.balancer.leave(stay, left);
        }
    }
}
