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
//! An upstream whose host name was not looked up yet is `Resolving` before `Wanted`. Either side is read only when the other has taken everything, so an exchange holds a head and one receive a way,
//! whatever the length of the bodies. Decides what is sent to whom and what has failed; the session knows the client's
//! connection, its deadlines and the log. `retry` decides which requests may be repeated, and how many are. How a head
//! goes to the client depends on its version of HTTP ([`ToClient`]); `http1` has that of HTTP/1.

mod stored;
mod switched;

pub(super) use stored::length;

use super::cache::{Cached, Step as Use, Waiter};
use super::channel::{Channel, Received};
use super::failed::Failed;
use super::head::{
    Follows, Outgoing, asks_for_websocket, binds_connection, write_content, write_last_chunk, write_request,
};
use super::places::{self, Place};
use super::retry;
use super::{Found, Route, Target, Tried, balance};
use crate::client_address::{From, UNKNOWN};
use crate::field_rules::RuledLines;
use crate::proxy_protocol;
use crate::request_limit::Seats;
use ::balance::Visit;
use bytes::Bytes;
use http_semantics::field::{Fields, Line};
use http_semantics::method::Method;
use http_semantics::request::RequestHead;
use http1::Misuse;
use http1::client::{Connection, Ended, Step};
use http1::framing::Framing;
use http1::head::Response as Head;
use http1::slots::Slots;
use http1::version::Version;
use runtime::session::{Ask, Parcel, Parking, PeerLoss, Ticket, Upstream};
use std::sync::Arc;
use tls::refusal;
use units::{Duration, Instant, Rng, UnixTime};

/// Most bytes of one output for an upstream. Drivers take 256 KiB by default.
const PORTION: usize = 64 * 1024;

/// Time after which an exchange looks again whether a host name was looked up.
const RECHECK: Duration = Duration::from_millis(50);

/// Limits on responses. Heads may be larger than those of requests: cookies and policies are long.
pub(super) const LIMITS: http1::Limits = http1::Limits {
    head_bytes_max: 64 << 10,
    ..http1::Limits::DEFAULT
};

/// The connection to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// No upstream was chosen: the client's connection has as many peers as it may.
    Queued,
    /// Its host name was not looked up yet.
    Resolving,
    /// The request waits for the response to that of another client, which is to be stored.
    Collapsed,
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

/// How the head of a response goes to the client, in the client's version of HTTP. Content follows as
/// [`Forward::down`] in the framing that [`ToClient::begin`] returns.
pub(crate) trait ToClient {
    /// Passes an interim response on, if the client takes any. Returns the bytes of its head.
    fn interim(&mut self, down: &mut Vec<u8>, head: &Head<'_, '_>) -> u32;

    /// Passes the head on with which both connections switch to another protocol. Returns its bytes.
    ///
    /// # Errors
    /// [`Misuse`] if the client cannot switch, or not to this protocol.
    fn switch(&mut self, down: &mut Vec<u8>, head: &Head<'_, '_>) -> Result<u32, Misuse>;

    /// Prepares the client's connection for this response. The client may still be sending its request.
    ///
    /// # Errors
    /// [`Misuse`] if the client cannot get this response.
    fn begin(&mut self, head: &Head<'_, '_>, has_whole_request: bool) -> Result<Outgoing, Misuse>;

    /// Passes the head of a response on that was begun. Returns its bytes.
    ///
    /// # Errors
    /// [`Misuse`] if the head cannot be written without changing its meaning.
    fn head(
        &mut self,
        down: &mut Vec<u8>,
        head: &Head<'_, '_>,
        is_to_head: bool,
        outgoing: Outgoing,
        ruled: &RuledLines,
    ) -> Result<u32, Misuse>;

    /// Takes the trailer section, unless the framing of the content has a place for it.
    fn trailers(&mut self, trailers: &Fields<'_, '_>);
}

/// An exchange with an upstream.
#[derive(Debug)]
pub(crate) struct Forward {
    route: Arc<Route>,
    /// Index of the upstream.
    at: usize,
    /// The request at it; `None` before the choice.
    visit: Option<Visit>,
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
    /// The connection may serve other requests after this one.
    keeps: bool,
    /// The whole request, while it may be repeated.
    again: Option<Vec<u8>>,
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

    upstream: Connection,
    /// Bytes of the upstream that are not decoded: a part of a head or of a chunk's frame.
    raw: Vec<u8>,
    is_reading: bool,
    response: Response,
    /// Bytes for the client.
    pub(crate) down: Vec<u8>,
    pub(crate) is_sending_down: bool,
    failed: Option<Failed>,
    /// Lines of rules for the response.
    pub(crate) ruled: RuledLines,
    /// What the request holds until it is answered.
    pub(crate) seats: Seats,

    pub(crate) began: Instant,
    /// When the exchange is given up whatever happens; `None`: never, or it has not begun.
    until: Option<Instant>,
    /// Time from the last dial to the head of the response.
    pub(crate) took: Option<Duration>,
    /// Status of the response; 0 before it.
    pub(crate) status: u16,
    /// Bytes of heads for the client.
    pub(crate) head_bytes: u32,
    /// Bytes of content for the client, with its framing.
    pub(crate) body_bytes: u64,

    /// The cache's part.
    cached: Option<Box<Cached>>,
    is_looked_up: bool,
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
        let keeps = rule.keepalive > 0
            && rule.proxy_protocol.is_none()
            && !binds_connection(&head.fields, "authorization");
        let switches = found.route.rule.websocket && asks_for_websocket(head, framing);
        let follows = match (switches, keeps) {
            (true, _) => Follows::WebSocket,
            (false, true) => Follows::Requests,
            (false, false) => Follows::Nothing,
        };
        let client = (from.peer != UNKNOWN).then_some(from.peer);
        let announcement = proxy_protocol::announcement(rule.proxy_protocol, client);
        let cached = match &found.route.cache {
            Some(cache) if !switches => {
                Cached::new(cache, head, framing != Framing::Empty, from.is_secured, wall, now).map(Box::new)
            }
            _ => None,
        };
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
        let is_to_head = head.method == Method::Head;
        let mut upstream = awaiting(is_to_head, keeps)?;
        if switches {
            upstream.await_switch();
        }
        let key = balance::of_request(&found.route.rule.hash_key, head, &found.target, from.peer);
        Ok(Forward {
            attempts: 0,
            switches,
            // A kept one may be of HTTP/2.
            is_fresh: switches && found.route.rule.http2,
            is_reused: false,
            keeps,
            again: retry::may_be_repeated(head.method, framing).then(|| up.clone()),
            retries: found.route.rule.retries,
            upstream,
            at: 0,
            visit: None,
            to: None,
            others: Vec::new(),
            key,
            tried: 0,
            leaving: None,
            route: found.route,
            base,
            link: Link::Queued,
            channel: None,
            has_opened: false,
            tls_fault: None,
            is_to_head,
            is_chunked: framing == Framing::Chunked,
            has_whole_request: framing == Framing::Empty,
            received: 0,
            up,
            announcement,
            is_sending_up: false,
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
            head_bytes: 0,
            body_bytes: 0,
            cached,
            is_looked_up: false,
            stored: Bytes::new(),
            stood_in_for: None,
        })
    }

    /// Chooses the upstream and dials it.
    pub(crate) fn start(&mut self, rng: &mut Rng, now: Instant) {
        if self.link != Link::Queued || self.is_collecting() {
            return;
        }
        // No upstream was tried, so there is one.
        let Some(visit) = self.route.balancer.enter(0, self.key, rng, now) else {
            return self.fail(Failed::NoTurn);
        };
        self.at = visit.at;
        self.visit = Some(visit);
        self.tried = 1 << visit.at;
        self.began = now;
        let total = self.route.rule.total_timeout;
        self.until = (!total.is_zero()).then(|| now + total);
        self.route.budget.earn();
        self.aim(rng, now);
    }

    /// Where the chosen upstream listens.
    fn place(&self) -> &Place {
        &self.route.places[self.at]
    }

    /// Finds the addresses of the chosen upstream. One that has none is passed over.
    fn aim(&mut self, rng: &mut Rng, now: Instant) {
        loop {
            match self.place().find(now) {
                places::Found::At(to, others) => {
                    (self.to, self.others) = (Some(to), others);
                    self.link = Link::Wanted;
                    // The time for a connection begins once it can be dialed.
                    self.began = now;
                    return;
                }
                places::Found::Unknown if now.since(self.began) < self.route.rule.connect_timeout => {
                    self.to = None;
                    self.link = Link::Resolving;
                    return;
                }
                places::Found::Unknown | places::Found::Nowhere => self.to = None,
            }
            self.blame(Failed::Unresolved, now);
            self.link = Link::Gone;
            if !self.enter_another(rng, now) {
                return self.fail(Failed::Unresolved);
            }
            self.began = now;
        }
    }

    /// Looks again for the addresses of the upstream, if they are awaited. Returns whether they were.
    pub(crate) fn find_again(&mut self, rng: &mut Rng, now: Instant) -> bool {
        let is_resolving = self.link == Link::Resolving;
        if is_resolving {
            self.aim(rng, now);
        }
        is_resolving
    }

    /// Whether the client's body is collected before an upstream is chosen.
    pub(crate) fn is_collecting(&self) -> bool {
        let bound = self.route.rule.buffer.0;
        self.link == Link::Queued && !self.has_whole_request && self.received < bound
    }

    /// When the exchange is given up whatever happens, if at all.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until.filter(|_| !self.is_switched())
    }

    /// Whether no upstream was chosen yet.
    pub(crate) fn is_queued(&self) -> bool {
        self.link == Link::Queued
    }

    /// Whether it has a connection to an upstream, or is about to.
    pub(crate) fn has_peer(&self) -> bool {
        !matches!(self.link, Link::Queued | Link::Collapsed | Link::Gone)
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
        size_of::<Forward>() + self.ruled.held() + channel + buffers + cached
    }

    /// Whether the whole request has arrived.
    pub(crate) fn has_whole_request(&self) -> bool {
        self.has_whole_request
    }

    /// Whether the head of the response was passed on.
    pub(crate) fn has_begun(&self) -> bool {
        self.response != Response::Awaited
    }

    /// Whether the response was passed on whole.
    pub(crate) fn has_ended(&self) -> bool {
        self.response == Response::Ended
    }

    /// Why the exchange failed.
    pub(crate) fn failed(&self) -> Option<Failed> {
        self.failed
    }

    /// Whether the exchange has ended, well or not, and nothing more is to be asked or sent.
    pub(crate) fn is_over(&self) -> bool {
        let is_done = match self.failed {
            Some(_) => true,
            None => self.has_ended() && !self.has_output() && !self.is_sending_down,
        };
        is_done && self.link == Link::Gone
    }

    /// Whether the client's input is wanted.
    pub(crate) fn wants_input(&self) -> bool {
        let is_taken = self.link == Link::Open && self.unsent() == 0 && !self.is_sending_up;
        (is_taken && !self.has_whole_request) || self.is_collecting()
    }

    /// What the driver is to do for the connection to the upstream.
    pub(crate) fn ask(&mut self, now: Instant) -> Option<(Ticket, Ask)> {
        if let Some(before) = self.leaving.take() {
            return Some((before, Ask::Close));
        }
        let has_all = self.has_whole_request && self.unsent() == 0 && !self.is_sending_up;
        if self.is_switched() && has_all && self.link == Link::Open {
            self.end_switched();
        }
        let ticket = self.ticket();
        let ask = match self.link {
            Link::Wanted => {
                self.link = Link::Dialing;
                let to = Arc::clone(self.to.as_ref()?);
                // The upstream may close a connection that has been idle just when a request arrives.
                if self.keeps && !self.is_fresh && self.again.is_some() {
                    Ask::Reuse(to, self.place().realm())
                } else {
                    Ask::Dial(to)
                }
            }
            Link::Open if !self.is_sending_up && !self.up.is_empty() && self.takes_portion() => {
                let later = self.up.split_off(self.up.len().min(PORTION));
                let portion = std::mem::replace(&mut self.up, later);
                let Some(channel) = &mut self.channel else {
                    self.is_sending_up = true;
                    return Some((ticket, Ask::Send(portion)));
                };
                if channel.send(&portion, now).is_err() {
                    self.fail(Failed::Unanswered);
                }
                // What the upstream permits is output of the channel.
                return self.ask(now);
            }
            // An alert, that no more is sent, or acknowledgments.
            Link::Leaving(Parting::Close | Parting::Park) if self.is_sending_up && self.channel.is_some() => {
                return None;
            }
            Link::Securing | Link::Open | Link::Leaving(Parting::Close | Parting::Park)
                if !self.is_sending_up
                    && self.channel.as_ref().is_some_and(|channel| channel.pending() > 0) =>
            {
                self.is_sending_up = true;
                Ask::Send(self.channel.as_mut()?.take())
            }
            Link::Leaving(parting) => {
                self.link = Link::Gone;
                self.asked_to(parting)
            }
            Link::Securing if !self.is_reading => {
                self.is_reading = true;
                Ask::Read
            }
            Link::Open if !self.is_reading && !self.has_output() && !self.is_sending_down => {
                self.is_reading = true;
                Ask::Read
            }
            Link::Queued
            | Link::Collapsed
            | Link::Resolving
            | Link::Dialing
            | Link::Securing
            | Link::Open
            | Link::Gone => {
                return None;
            }
        };
        Some((ticket, ask))
    }

    /// Gives the exchange up. What is to be asked for the connection to the upstream, if there is one.
    pub(crate) fn part(&mut self) -> Option<(Ticket, Ask)> {
        let link = std::mem::replace(&mut self.link, Link::Gone);
        if let Some(before) = self.leaving.take() {
            return Some((before, Ask::Close));
        }
        let ask = match link {
            Link::Queued | Link::Collapsed | Link::Resolving | Link::Wanted | Link::Gone => return None,
            Link::Leaving(Parting::Park) if self.is_sending_up || self.has_channel_output() => Ask::Close,
            Link::Leaving(parting) => self.asked_to(parting),
            Link::Dialing | Link::Securing | Link::Open => Ask::Abort,
        };
        Some((self.ticket(), ask))
    }

    fn asked_to(&mut self, parting: Parting) -> Ask {
        let channel = self.channel.take();
        let rule = &self.route.rule;
        match parting {
            Parting::Park => Ask::Park(Parking {
                most: rule.keepalive as usize,
                time: rule.keepalive_time,
                realm: self.place().realm(),
                parcel: channel.map_or_else(Parcel::default, |mut channel| {
                    channel.rest();
                    Parcel::of(channel)
                }),
            }),
            Parting::Close => Ask::Close,
            Parting::Abort => Ask::Abort,
        }
    }

    /// The exchange failed.
    pub(crate) fn fail(&mut self, why: Failed) {
        self.fail_or_stand_in(why);
        if self.link != Link::Gone {
            self.link = match self.link {
                Link::Queued | Link::Collapsed | Link::Resolving | Link::Wanted => Link::Gone,
                _ => Link::Leaving(Parting::Abort),
            };
        }
    }

    /// The upstream failed and sent no byte of a response: whether the request goes to another upstream because of that.
    /// The session then calls [`Forward::try_another`].
    fn is_retried(&mut self) -> bool {
        let may_try = self.has_another() || !self.others.is_empty();
        let is_retried = self.again.is_some() && self.retries > 0 && may_try && self.route.budget.spend();
        if is_retried {
            self.retries -= 1;
            // Another upstream is less likely to fail in the same way than another address of this one.
            if self.has_another() {
                self.others = Vec::new();
            }
        }
        is_retried
    }

    /// Repeats the request, if it was sent, on another connection.
    fn begin_anew(&mut self, now: Instant) {
        if let Some(again) = &self.again {
            self.up.clone_from(again);
        }
        self.is_sending_up = false;
        self.is_reading = false;
        self.is_reused = false;
        self.channel = None;
        self.attempts += 1;
        self.link = Link::Wanted;
        self.began = now;
    }

    /// Time is up: why the exchange fails follows from what it waits for. Returns the failure of an upstream in whose
    /// place another one can be tried.
    pub(crate) fn time_out(&mut self, now: Instant) -> Option<Failed> {
        if self.is_switched() {
            self.end_switched();
            return None;
        }
        if self.until.is_some_and(|until| until <= now) {
            self.fail(Failed::TotalTimeout);
            return None;
        }
        if self.link == Link::Open && !self.wants_input() && self.is_retried() {
            self.leaving = Some(self.ticket());
            self.link = Link::Gone;
            return Some(Failed::Timeout);
        }
        let why = match self.link {
            Link::Dialing | Link::Securing if self.has_another() || !self.others.is_empty() => {
                self.leaving = Some(self.ticket());
                self.link = Link::Gone;
                return Some(Failed::ConnectTimeout);
            }
            Link::Queued if self.is_collecting() => Failed::RequestTimeout,
            Link::Queued | Link::Collapsed => Failed::NoTurn,
            Link::Resolving => Failed::Unresolved,
            Link::Wanted | Link::Dialing | Link::Securing => Failed::ConnectTimeout,
            _ if self.wants_input() => Failed::RequestTimeout,
            _ => Failed::Timeout,
        };
        self.fail(why);
        None
    }

    /// How long the exchange may wait for what it waits for; `None`: for the client, to take output or to send its body.
    pub(crate) fn patience(&self, now: Instant) -> Option<Duration> {
        let rule = &self.route.rule;
        match self.link {
            Link::Queued if self.is_collecting() => None,
            Link::Queued | Link::Collapsed => Some(rule.first_byte_timeout),
            Link::Resolving => Some(RECHECK.min(rule.connect_timeout)),
            // Messages of a TLS handshake give it no more time.
            Link::Wanted | Link::Dialing | Link::Securing => {
                Some(rule.connect_timeout.saturating_sub(now.since(self.began)))
            }
            _ if self.is_switched() && !self.is_sending_down => Some(rule.idle_timeout),
            _ if self.is_sending_down => None,
            // Calls of gRPC may stay open for long, and either side sends when it has something to say.
            _ if self.wants_input() && !self.is_http2() => None,
            _ if self.has_whole_request && !self.is_sending_up && !self.has_begun() => {
                Some(rule.first_byte_timeout)
            }
            _ => Some(rule.idle_timeout),
        }
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
    fn blocked(&self) -> usize {
        self.channel.as_ref().map_or(0, |channel| channel.blocked())
    }

    /// Whether the layers of the connection take more of the request.
    fn takes_portion(&self) -> bool {
        let channel = self.channel.as_ref();
        channel.is_none_or(|channel| channel.blocked() == 0 && channel.pending() < PORTION)
    }

    /// Whether the layers of the connection have something for the upstream.
    fn has_channel_output(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.pending() > 0)
    }

    /// Whether the upstream speaks HTTP/2.
    fn is_http2(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.is_http2())
    }

    /// Takes content of the request.
    pub(crate) fn take_content(&mut self, data: &[u8]) {
        self.received += data.len() as u64;
        write_content(&mut self.up, data, self.is_chunked);
    }

    /// The request is complete.
    pub(crate) fn end_request(&mut self, trailers: &Fields<'_, '_>) {
        self.has_whole_request = true;
        if self.is_chunked {
            write_last_chunk(&mut self.up, trailers);
        }
    }

    /// Fails if the content exceeds the rule's bound together with this many bytes that were announced.
    pub(crate) fn bound_content(&mut self, announced: u64) {
        if self.received.saturating_add(announced) > self.route.rule.max_body_size.0 {
            self.fail(Failed::TooLarge);
        }
    }

    /// The connection to the upstream is open; behind its TLS handshake, if it has one. Returns whether it was awaited.
    pub(crate) fn opened(&mut self, now: Instant) -> bool {
        if self.link == Link::Dialing
            && self.channel.is_none()
            && let Some(layers) = self.place().layers()
        {
            match layers.open(&self.announcement, self.switches, now) {
                Ok(channel) => {
                    self.channel = Some(Box::new(channel));
                    self.link = Link::Securing;
                }
                Err(why) => {
                    self.tls_fault = Some(why.into());
                    self.fail(Failed::Insecure);
                }
            }
        }
        let is_secured =
            self.link == Link::Securing && self.channel.as_ref().is_some_and(|channel| channel.is_open());
        let is_awaited = self.link == Link::Dialing || is_secured;
        if is_awaited {
            self.link = Link::Open;
            if !is_secured && !self.announcement.is_empty() {
                self.up.splice(0..0, self.announcement.iter().copied());
            }
            // The time of a connection that was open says nothing about the path to the upstream.
            if let Some(visit) = self.visit.as_mut().filter(|_| !self.is_reused) {
                self.route.balancer.opened(visit, now);
            }
        }
        is_awaited
    }

    /// The head of the response arrived.
    fn answered(&mut self, now: Instant) {
        if let Some(visit) = &mut self.visit {
            self.route.balancer.answered(visit, now);
        }
    }

    /// The connection to the upstream is open, and other requests used it before. `parcel`: what they left with it.
    pub(crate) fn reused(&mut self, parcel: &Parcel) {
        self.is_reused = true;
        self.channel = parcel.take::<Box<Channel>>().map(|channel| *channel);
    }

    /// The upstream took its output.
    pub(crate) fn sent_up(&mut self) {
        self.is_sending_up = false;
    }

    /// Bytes came from the upstream. Returns its failure if another one is tried because of that. If the handshake of its TLS
    /// is complete now, [`Forward::opened`] says so.
    pub(crate) fn received(
        &mut self,
        bytes: &[u8],
        client: &mut impl ToClient,
        now: Instant,
    ) -> Option<Failed> {
        if self.has_reply() {
            self.reply(client, now);
            return None;
        }
        self.is_reading = false;
        let Some(mut channel) = self.channel.take() else {
            self.decoded(bytes, client, now);
            return None;
        };
        let received = match self.place().layers() {
            Some(layers) => layers.receive(&mut channel, bytes, now),
            None => Ok(Received::default()),
        };
        self.channel = Some(channel);
        let Received { plain, is_over } = match received {
            Ok(received) => received,
            Err(why) => {
                self.tls_fault = Some(why.into());
                return self.failed_securing();
            }
        };
        self.has_opened |= self.opened(now);
        if !plain.is_empty() {
            self.decoded(&plain, client, now);
        }
        // Nothing follows. The connection may stay open for long.
        match is_over && matches!(self.link, Link::Securing | Link::Open) {
            true => self.ended_by_upstream(now),
            false => None,
        }
    }

    /// Whether the handshake was completed since the last call.
    pub(crate) fn take_opened(&mut self) -> bool {
        std::mem::take(&mut self.has_opened)
    }

    /// The TLS of the connection failed. Before the end of its handshake, no byte of the request was sent, so any request may go
    /// elsewhere.
    fn failed_securing(&mut self) -> Option<Failed> {
        if self.link == Link::Securing && (self.has_another() || !self.others.is_empty()) {
            self.leaving = Some(self.ticket());
            self.link = Link::Gone;
            return Some(Failed::Insecure);
        }
        self.fail(Failed::Insecure);
        // The alert says why.
        if self.link == Link::Leaving(Parting::Abort) && !self.is_sending_up {
            self.link = Link::Leaving(Parting::Close);
        }
        None
    }

    /// Why the exchange failed, in words.
    pub(crate) fn explain(&self, why: Failed) -> String {
        match (why, &self.tls_fault) {
            (Failed::Insecure, Some(fault)) => fault.to_string(),
            _ => why.to_string(),
        }
    }

    /// Bytes came from the upstream, without TLS.
    fn decoded(&mut self, bytes: &[u8], client: &mut impl ToClient, now: Instant) {
        self.again = None;
        if self.is_switched() {
            return self.pass_down(bytes);
        }
        let mut raw = std::mem::take(&mut self.raw);
        raw.extend_from_slice(bytes);
        let mut used = 0;
        while self.failed.is_none() && self.response != Response::Ended {
            let mut slots = Slots::new();
            let start = self.down.len();
            match self.upstream.receive(&raw[used..], &mut slots, &LIMITS) {
                Ok(Step::Interim { head, used: more }) if head.status == 101 => {
                    let rest = &raw[used + more..];
                    used = raw.len();
                    self.switch(&head, rest, client, now);
                    break;
                }
                Ok(Step::Interim { head, used: more }) => {
                    used += more;
                    // This server answers expectations itself.
                    if head.status != 100 {
                        self.head_bytes += client.interim(&mut self.down, &head);
                    }
                }
                Ok(Step::Response { head, used: more }) => {
                    used += more;
                    self.answered(now);
                    self.keeps &= head.version == Version::Http11
                        && !binds_connection(&head.fields, "www-authenticate");
                    self.took = Some(now - self.began);
                    if let Some(cached) = &mut self.cached
                        && cached.answered(head.status, &head.fields, length(head.framing), now)
                    {
                        self.reply(client, now);
                        break;
                    }
                    let status = self.cached.as_ref().map(|cached| cached.status());
                    let mut lines: Vec<Line<'_>> = Vec::new();
                    let head = match &status {
                        Some(value) => {
                            lines.extend(head.fields.iter().map(|(name, value)| Line { name, value }));
                            lines.push(Line {
                                name: "Cache-Status",
                                value,
                            });
                            Head {
                                fields: Fields::new(&lines),
                                ..head
                            }
                        }
                        None => head,
                    };
                    let Ok(outgoing) = client.begin(&head, self.has_whole_request) else {
                        return self.fail(Failed::Unwritable);
                    };
                    self.status = head.status;
                    self.response = match outgoing {
                        Outgoing::Empty => Response::Ended,
                        outgoing => Response::Begun(outgoing),
                    };
                    if self.response == Response::Ended {
                        self.stored_whole();
                    }
                    match client.head(&mut self.down, &head, self.is_to_head, outgoing, &self.ruled) {
                        Ok(bytes) => self.head_bytes += bytes,
                        Err(_) => {
                            self.down.truncate(start);
                            self.fail(Failed::Unwritable);
                        }
                    }
                }
                Ok(Step::Body { data, used: more }) => {
                    used += more;
                    if let Some(cached) = &mut self.cached {
                        cached.take(data);
                    }
                    write_content(
                        &mut self.down,
                        data,
                        self.response == Response::Begun(Outgoing::Chunked),
                    );
                    self.body_bytes += (self.down.len() - start) as u64;
                }
                Ok(Step::End { used: more, trailers }) => {
                    used += more;
                    client.trailers(&trailers);
                    self.end(&trailers);
                }
                Ok(Step::Partial { used: more }) => {
                    used += more;
                    break;
                }
                Ok(Step::Closed) => break,
                Err(fault) => self.fail(Failed::Invalid(fault)),
            }
        }
        self.raw.extend_from_slice(&raw[used..]);
        self.leave_if_ended();
    }

    /// The response is complete.
    fn end(&mut self, trailers: &Fields<'_, '_>) {
        if self.response == Response::Begun(Outgoing::Chunked) {
            let start = self.down.len();
            write_last_chunk(&mut self.down, trailers);
            self.body_bytes += (self.down.len() - start) as u64;
        }
        self.response = Response::Ended;
        self.stored_whole();
    }

    fn leave_if_ended(&mut self) {
        if self.response == Response::Ended && self.link == Link::Open {
            let has_more = !std::mem::take(&mut self.raw).is_empty();
            // An upstream that has not got the whole request must not take it for complete. In HTTP/2, acknowledgments may
            // be under way behind a whole request.
            let is_sending = self.is_sending_up && !self.is_http2();
            let is_cut = !self.has_whole_request || is_sending || self.unsent() > 0;
            let is_at_rest = self.channel.as_ref().is_none_or(|channel| channel.is_at_rest());
            let is_kept = self.keeps && !has_more && is_at_rest && self.upstream.is_reusable();
            self.link = Link::Leaving(match is_kept {
                _ if is_cut => Parting::Abort,
                true => Parting::Park,
                false => Parting::Close,
            });
            if self.link == Link::Leaving(Parting::Close)
                && let Some(channel) = &mut self.channel
            {
                channel.close();
            }
        }
    }

    /// The upstream closed its half. Returns the failure of an upstream in whose place another one is tried.
    pub(crate) fn ended_by_upstream(&mut self, now: Instant) -> Option<Failed> {
        self.is_reading = false;
        if self.link == Link::Securing {
            self.tls_fault = Some(refusal::closed().into());
            return self.failed_securing();
        }
        if self.is_switched() {
            self.end_switched();
            return None;
        }
        if self.link == Link::Open && self.again.is_some() {
            let before = self.ticket();
            let is_retried = !self.repeat_if_stale(now) && self.is_retried();
            if is_retried {
                self.link = Link::Gone;
            }
            if self.link != Link::Open {
                self.leaving = Some(before);
                return is_retried.then_some(Failed::Unanswered);
            }
        }
        match self.upstream.eof() {
            // An attacker can end a connection, but not say so with the keys of the upstream (RFC 8446 section 6.1).
            Ok(Ended::Body(_)) if self.channel.as_ref().is_some_and(|channel| channel.is_doubtful()) => {
                self.fail(Failed::Truncated);
            }
            Ok(Ended::Body(_)) => {
                self.end(&Fields::EMPTY);
                self.leave_if_ended();
            }
            Ok(Ended::Idle) if self.has_ended() => {}
            Ok(Ended::Idle | Ended::Unanswered(_)) => self.fail(Failed::Unanswered),
            Err(_) => self.fail(Failed::Truncated),
        }
        None
    }

    /// Repeats the request on a new connection to the same upstream if this one was reused: the upstream closed it while it
    /// was idle, which is no failure.
    fn repeat_if_stale(&mut self, now: Instant) -> bool {
        let is_stale = self.is_reused && self.again.is_some();
        if is_stale {
            self.is_fresh = true;
            self.begin_anew(now);
        }
        is_stale
    }

    /// The connection to the upstream is gone. Returns the failure of an upstream in whose place the next one is tried.
    pub(crate) fn lost(&mut self, loss: PeerLoss, now: Instant) -> Option<Failed> {
        let before = std::mem::replace(&mut self.link, Link::Gone);
        self.channel = None;
        if self.is_switched() {
            self.end_switched();
        }
        if self.has_ended() || self.failed.is_some() || self.has_reply() {
            return None;
        }
        if before == Link::Securing && matches!(loss, PeerLoss::Open(_)) {
            self.tls_fault = Some(refusal::closed().into());
            let why = Failed::Insecure;
            if self.has_another() || !self.others.is_empty() {
                return Some(why);
            }
            self.fail_or_stand_in(why);
            return None;
        }
        if matches!(loss, PeerLoss::Open(_)) && self.repeat_if_stale(now) {
            return None;
        }
        let why = match loss {
            PeerLoss::Opening(_) => Failed::Unreachable(loss),
            PeerLoss::TimedOut => Failed::ConnectTimeout,
            PeerLoss::Open(_) if self.has_begun() || !self.raw.is_empty() => Failed::Truncated,
            PeerLoss::Open(_) => Failed::Unanswered,
            PeerLoss::Here(_) | PeerLoss::TooMany | PeerLoss::TooMuch => Failed::NoRoom(loss),
        };
        let may_try = matches!(why, Failed::Unreachable(_) | Failed::ConnectTimeout);
        if before == Link::Dialing && may_try && (self.has_another() || !self.others.is_empty()) {
            // Nothing was sent, so any request may go elsewhere.
            return Some(why);
        }
        if why == Failed::Unanswered && self.is_retried() {
            return Some(why);
        }
        self.fail_or_stand_in(why);
        None
    }

    /// Whether an upstream was not tried.
    fn has_another(&self) -> bool {
        (self.tried.count_ones() as usize) < self.route.balancer.len()
    }

    /// Goes on to another address of the upstream, or to another upstream.
    pub(crate) fn try_another(&mut self, rng: &mut Rng, now: Instant) {
        if let Some(to) = self.to.take() {
            self.place().failed(&to, now);
        }
        if let Some(to) = self.others.pop() {
            self.to = Some(to);
            return self.begin_anew(now);
        }
        if !self.enter_another(rng, now) {
            return self.fail(Failed::ConnectTimeout);
        }
        self.begin_anew(now);
        self.aim(rng, now);
    }

    /// Chooses another upstream. `false` if all were tried.
    fn enter_another(&mut self, rng: &mut Rng, now: Instant) -> bool {
        let balancer = &self.route.balancer;
        let Some(next) = balancer.enter(self.tried, self.key, rng, now) else {
            return false;
        };
        self.at = next.at;
        self.tried |= 1 << next.at;
        if let Some(before) = self.visit.replace(next) {
            balancer.leave(before);
        }
        true
    }

    /// Tells the balancer of this failure, if it is the upstream's and no other address of it is left to try. Returns whether
    /// the upstream gets no requests for a while because of it.
    pub(crate) fn blame(&self, why: Failed, now: Instant) -> bool {
        let is_at_address = matches!(
            why,
            Failed::Unreachable(_) | Failed::ConnectTimeout | Failed::Insecure
        );
        let goes_on = is_at_address && !self.others.is_empty();
        why.is_of_upstream() && !goes_on && self.route.balancer.failed(self.at, now)
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
        if let Some(visit) = self.visit {
            self.route.balancer.leave(visit);
        }
    }
}
