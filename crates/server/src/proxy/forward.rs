//! One request and its response between a client of HTTP/1 and an upstream.
//!
//! ```text
//!   client ──bytes──▶ take_input ──▶ up ────Ask::Send──▶ upstream     request: read again once the upstream took it
//!   client ◀──output── down ◀── received ◀────Ask::Read── upstream     response: read again once the client took it
//!
//!   Wanted ─▶ Dialing ─┬─▶ Open ─▶ Leaving ─▶ Gone
//!      ▲               └─ refused, another was not tried ┐
//!      └─────────────────────────────────────────────────┘
//! ```
//! Either side is read only when the other has taken everything, so an exchange holds a head and one receive a way, whatever
//! the length of the bodies. Decides what is sent to whom and what has failed; the session knows the client's
//! connection, its deadlines and the log.

use super::head::{Added, From, Outgoing, write_content, write_last_chunk, write_request, write_response};
use super::{Found, Route};
use http_semantics::field::Fields;
use http_semantics::method::Method;
use http1::client::{Connection, Ended, Step};
use http1::framing::Framing;
use http1::head::Request;
use http1::response::CONTINUE;
use http1::slots::Slots;
use http1::version::Version;
use http1::{Fault, Misuse, server};
use runtime::session::{Ask, PeerLoss, Ticket, Upstream};
use std::fmt;
use std::sync::Arc;
use units::{Duration, Instant, Rng};

/// Most bytes of one output for an upstream. Drivers take 256 KiB by default.
const PORTION: usize = 64 * 1024;

/// Limits on responses. Heads may be larger than those of requests: cookies and policies are long.
const LIMITS: http1::Limits = http1::Limits {
    head_bytes_max: 64 << 10,
    ..http1::Limits::DEFAULT
};

/// The connection to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// It is to be dialed.
    Wanted,
    Dialing,
    Open,
    /// It is to be closed; reset if the upstream must not take what it got for complete.
    Leaving {
        abort: bool,
    },
    /// There is none any more.
    Gone,
}

/// How far the response got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Response {
    /// Its head has not arrived.
    Awaited,
    /// Its body is being passed on.
    Begun(Outgoing),
    /// All of it was passed on.
    Ended,
}

/// Why an exchange failed, and whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The upstream could not be reached.
    Unreachable(PeerLoss),
    /// The upstream did not accept the connection in time.
    ConnectTimeout,
    /// This machine or the session has no room for another connection.
    NoRoom(PeerLoss),
    /// The upstream closed or lost the connection before its response.
    Unanswered,
    /// The upstream closed or lost the connection within its response.
    Truncated,
    /// The upstream's response is invalid.
    Invalid(Fault),
    /// The upstream's response cannot be written.
    Unwritable,
    /// The upstream did not respond in time.
    Timeout,
    /// The client's body is invalid.
    Request(Fault),
    /// The client's body is too large.
    TooLarge,
    /// The client's body did not arrive in time.
    RequestTimeout,
    /// The client closed before its request was complete.
    ClientGone,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Unreachable(loss) => write!(f, "{loss}; start the upstream or correct its address"),
            Failed::ConnectTimeout => {
                f.write_str("no connection within `connect-timeout`; check the upstream")
            }
            Failed::NoRoom(loss) => write!(f, "{loss}; raise the limit on open files"),
            Failed::Unanswered => f.write_str("closed the connection without a response; see its log"),
            Failed::Truncated => f.write_str("closed the connection within its response; see its log"),
            Failed::Invalid(fault) => write!(
                f,
                "sent an invalid response: {}; correct the upstream",
                fault.text()
            ),
            Failed::Unwritable => f.write_str("sent a field that cannot be passed on; correct the upstream"),
            Failed::Timeout => {
                f.write_str("did not respond in time; check the upstream, or raise its timeouts")
            }
            Failed::Request(fault) => write!(f, "the client's request is invalid: {}", fault.text()),
            Failed::TooLarge => f.write_str("the client's body exceeds `max-body-size`"),
            Failed::RequestTimeout => f.write_str("the client's body did not arrive in time"),
            Failed::ClientGone => f.write_str("the client closed before its request was complete"),
        }
    }
}

/// What a response needs of the client's connection.
pub(crate) struct ForClient<'a> {
    pub(crate) http: &'a mut server::Connection,
    /// Whether another request may follow.
    pub(crate) persists: bool,
    pub(crate) date: &'a [u8],
    pub(crate) hsts: &'a [u8],
}

/// An exchange with an upstream.
#[derive(Debug)]
pub(crate) struct Forward {
    route: Arc<Route>,
    /// Index of the upstream.
    at: usize,
    /// A bit for each upstream that was tried, this one included.
    tried: u64,
    /// The connection to the upstream before, if it is to be closed.
    leaving: Option<Ticket>,
    /// Ticket of the first connection; the next upstream has the next.
    base: u32,
    link: Link,
    version: Version,
    is_to_head: bool,

    /// Input of the client that is not decoded.
    pub(crate) input: Vec<u8>,
    is_chunked: bool,
    has_whole_request: bool,
    /// Content of the request so far, in bytes.
    pub(crate) received: u64,
    /// Bytes for the upstream.
    up: Vec<u8>,
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

    pub(crate) began: Instant,
    /// Time from the dial to the head of the response.
    pub(crate) took: Option<Duration>,
    /// Status of the response; 0 before it.
    pub(crate) status: u16,
    /// Bytes of heads for the client.
    pub(crate) head_bytes: u32,
    /// Bytes of content for the client, with its framing.
    pub(crate) body_bytes: u64,
}

impl Forward {
    /// An exchange for this request. The tickets of its connections begin at `base`.
    ///
    /// # Errors
    /// [`Misuse::Unwritable`] if the request cannot be written for an upstream.
    pub(crate) fn new(
        found: Found,
        head: &Request<'_, '_>,
        from: From,
        base: u32,
        rng: &mut Rng,
        now: Instant,
    ) -> Result<Forward, Misuse> {
        let mut up = Vec::with_capacity(1024);
        write_request(&mut up, head, &found.target, from)?;
        let mut upstream = Connection::new();
        upstream.begin_request(head.method, false, &LIMITS)?;
        // No upstream was tried, so there is one.
        let at = found.route.balancer.enter(0, rng, now).ok_or(Misuse::Order)?;
        Ok(Forward {
            at,
            tried: 1 << at,
            leaving: None,
            route: found.route,
            base,
            link: Link::Wanted,
            version: head.version,
            is_to_head: head.method == Method::Head,
            input: Vec::new(),
            is_chunked: head.framing == Framing::Chunked,
            has_whole_request: head.framing == Framing::Empty,
            received: 0,
            up,
            is_sending_up: false,
            upstream,
            raw: Vec::new(),
            is_reading: false,
            response: Response::Awaited,
            down: Vec::new(),
            is_sending_down: false,
            failed: None,
            began: now,
            took: None,
            status: 0,
            head_bytes: 0,
            body_bytes: 0,
        })
    }

    /// The upstream that serves the request.
    pub(crate) fn address(&self) -> &Arc<Upstream> {
        self.route.upstream(self.at)
    }

    /// Ticket of the connection to it.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.base + self.tried.count_ones() - 1)
    }

    /// Bytes of memory that the exchange holds.
    pub(crate) fn held(&self) -> usize {
        let buffers = [&self.input, &self.up, &self.raw, &self.down];
        size_of::<Forward>() + buffers.iter().map(|buffer| buffer.capacity()).sum::<usize>()
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
            None => self.has_ended() && self.down.is_empty() && !self.is_sending_down,
        };
        is_done && self.link == Link::Gone
    }

    /// Whether the client's input is wanted.
    pub(crate) fn wants_input(&self) -> bool {
        self.link == Link::Open && !self.has_whole_request && self.up.is_empty() && !self.is_sending_up
    }

    /// What the driver is to do for the connection to the upstream.
    pub(crate) fn ask(&mut self) -> Option<(Ticket, Ask)> {
        if let Some(before) = self.leaving.take() {
            return Some((before, Ask::Close));
        }
        let ticket = self.ticket();
        let ask = match self.link {
            Link::Wanted => {
                self.link = Link::Dialing;
                Ask::Dial(Arc::clone(self.address()))
            }
            Link::Leaving { abort } => {
                self.link = Link::Gone;
                if abort { Ask::Abort } else { Ask::Close }
            }
            Link::Open if !self.is_sending_up && !self.up.is_empty() => {
                self.is_sending_up = true;
                let later = self.up.split_off(self.up.len().min(PORTION));
                Ask::Send(std::mem::replace(&mut self.up, later))
            }
            Link::Open if !self.is_reading && self.down.is_empty() && !self.is_sending_down => {
                self.is_reading = true;
                Ask::Read
            }
            Link::Dialing | Link::Open | Link::Gone => return None,
        };
        Some((ticket, ask))
    }

    /// The exchange failed.
    pub(crate) fn fail(&mut self, why: Failed) {
        self.failed.get_or_insert(why);
        if self.link != Link::Gone {
            self.link = match self.link {
                Link::Wanted => Link::Gone,
                _ => Link::Leaving { abort: true },
            };
        }
    }

    /// Time is up: why the exchange fails follows from what it waits for. Returns the failure of an upstream in whose
    /// place another one can be tried.
    pub(crate) fn time_out(&mut self) -> Option<Failed> {
        let why = match self.link {
            Link::Dialing if self.has_another() => {
                self.leaving = Some(self.ticket());
                self.link = Link::Gone;
                return Some(Failed::ConnectTimeout);
            }
            Link::Wanted | Link::Dialing => Failed::ConnectTimeout,
            _ if self.wants_input() => Failed::RequestTimeout,
            _ => Failed::Timeout,
        };
        self.fail(why);
        None
    }

    /// How long the exchange may wait for what it waits for; `None`: for the client, to take output or to send its body.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let rule = &self.route.rule;
        match self.link {
            Link::Wanted | Link::Dialing => Some(rule.connect_timeout),
            _ if self.is_sending_down || self.wants_input() => None,
            _ if self.has_whole_request && !self.is_sending_up && !self.has_begun() => {
                Some(rule.first_byte_timeout)
            }
            _ => Some(rule.idle_timeout),
        }
    }

    /// Takes the content of the request off the client's input.
    pub(crate) fn take_input(&mut self, http: &mut server::Connection, limits: &http1::Limits) {
        let input = std::mem::take(&mut self.input);
        let mut used = 0;
        while !self.has_whole_request && self.failed.is_none() {
            let mut slots = Slots::new();
            match http.receive(&input[used..], &mut slots, limits) {
                Ok(server::Step::Body { data, used: more }) => {
                    used += more;
                    self.received += data.len() as u64;
                    write_content(&mut self.up, data, self.is_chunked);
                }
                Ok(server::Step::End { used: more, trailers }) => {
                    used += more;
                    self.has_whole_request = true;
                    if self.is_chunked {
                        write_last_chunk(&mut self.up, &trailers);
                    }
                }
                Ok(server::Step::Partial { used: more }) => {
                    used += more;
                    break;
                }
                Ok(_) => break,
                Err(fault) => self.fail(Failed::Request(fault)),
            }
        }
        if self.received.saturating_add(http.announced()) > self.route.rule.max_body_size.0 {
            self.fail(Failed::TooLarge);
        }
        self.input.extend_from_slice(&input[used..]);
    }

    /// The connection to the upstream is open. A client that waits for 100 gets it now: this server answers
    /// expectations itself.
    pub(crate) fn connected(&mut self, http: &mut server::Connection) {
        if self.link != Link::Dialing {
            return;
        }
        self.link = Link::Open;
        if http.awaits_continue() {
            http.continued();
            self.down.extend_from_slice(CONTINUE);
            self.head_bytes += CONTINUE.len() as u32;
        }
    }

    /// The upstream took its output.
    pub(crate) fn sent_up(&mut self) {
        self.is_sending_up = false;
    }

    /// Bytes came from the upstream.
    pub(crate) fn received(&mut self, bytes: &[u8], client: &mut ForClient<'_>, now: Instant) {
        self.is_reading = false;
        let mut raw = std::mem::take(&mut self.raw);
        raw.extend_from_slice(bytes);
        let mut used = 0;
        while self.failed.is_none() && self.response != Response::Ended {
            let mut slots = Slots::new();
            let start = self.down.len();
            match self.upstream.receive(&raw[used..], &mut slots, &LIMITS) {
                Ok(Step::Interim { head, used: more }) => {
                    used += more;
                    if head.status != 100 && self.version == Version::Http11 {
                        let added = Added {
                            date: b"",
                            hsts: b"",
                            connection: b"",
                        };
                        let written = write_response(&mut self.down, &head, false, Outgoing::Empty, added);
                        if written.is_err() {
                            self.down.truncate(start);
                        }
                        self.head_bytes += (self.down.len() - start) as u32;
                    }
                }
                Ok(Step::Response { head, used: more }) => {
                    used += more;
                    let outgoing = Outgoing::of(head.framing, self.version);
                    // A client that still sends its body could not be told from one that sends a request.
                    let persists =
                        client.persists && self.has_whole_request && outgoing != Outgoing::UntilClose;
                    let Ok(persistence) = client.http.begin_response(persists) else {
                        return self.fail(Failed::Unwritable);
                    };
                    let added = Added {
                        date: client.date,
                        hsts: client.hsts,
                        connection: persistence.line(),
                    };
                    self.route.balancer.succeeded(self.at);
                    self.took = Some(now - self.began);
                    self.status = head.status;
                    self.response = match outgoing {
                        Outgoing::Empty => Response::Ended,
                        outgoing => Response::Begun(outgoing),
                    };
                    if write_response(&mut self.down, &head, self.is_to_head, outgoing, added).is_err() {
                        self.down.truncate(start);
                        self.fail(Failed::Unwritable);
                    }
                    self.head_bytes += (self.down.len() - start) as u32;
                }
                Ok(Step::Body { data, used: more }) => {
                    used += more;
                    write_content(
                        &mut self.down,
                        data,
                        self.response == Response::Begun(Outgoing::Chunked),
                    );
                    self.body_bytes += (self.down.len() - start) as u64;
                }
                Ok(Step::End { used: more, trailers }) => {
                    used += more;
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
    }

    fn leave_if_ended(&mut self) {
        if self.response == Response::Ended && self.link == Link::Open {
            self.raw = Vec::new();
            // An upstream that has not got the whole request must not take it for complete.
            let abort = !self.has_whole_request || self.is_sending_up || !self.up.is_empty();
            self.link = Link::Leaving { abort };
        }
    }

    /// The upstream closed its half.
    pub(crate) fn ended_by_upstream(&mut self) {
        self.is_reading = false;
        match self.upstream.eof() {
            Ok(Ended::Body(_)) => {
                self.end(&Fields::EMPTY);
                self.leave_if_ended();
            }
            Ok(Ended::Idle) if self.has_ended() => {}
            Ok(Ended::Idle | Ended::Unanswered(_)) => self.fail(Failed::Unanswered),
            Err(_) => self.fail(Failed::Truncated),
        }
    }

    /// The connection to the upstream is gone. Returns the failure of an upstream in whose place the next one is tried.
    pub(crate) fn lost(&mut self, loss: PeerLoss) -> Option<Failed> {
        let before = std::mem::replace(&mut self.link, Link::Gone);
        if self.has_ended() || self.failed.is_some() {
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
        if before == Link::Dialing && may_try && self.has_another() {
            // Nothing was sent, so any request may go elsewhere.
            return Some(why);
        }
        self.failed = Some(why);
        None
    }

    /// Whether an upstream was not tried.
    fn has_another(&self) -> bool {
        (self.tried.count_ones() as usize) < self.route.balancer.len()
    }

    /// Goes on to another upstream.
    pub(crate) fn try_another(&mut self, rng: &mut Rng, now: Instant) {
        let balancer = &self.route.balancer;
        let Some(next) = balancer.enter(self.tried, rng, now) else {
            return self.fail(Failed::ConnectTimeout);
        };
        balancer.leave(self.at);
        self.at = next;
        self.tried |= 1 << next;
        self.link = Link::Wanted;
        self.began = now;
    }

    /// Tells the balancer of this failure, if it is the upstream's. Returns whether the upstream gets no requests for a
    /// while because of it.
    pub(crate) fn blame(&self, why: Failed, now: Instant) -> bool {
        let is_upstreams = match why {
            Failed::Unreachable(_)
            | Failed::ConnectTimeout
            | Failed::Unanswered
            | Failed::Truncated
            | Failed::Invalid(_)
            | Failed::Unwritable
            | Failed::Timeout => true,
            Failed::NoRoom(_)
            | Failed::Request(_)
            | Failed::TooLarge
            | Failed::RequestTimeout
            | Failed::ClientGone => false,
        };
        is_upstreams && self.route.balancer.failed(self.at, now)
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.route.balancer.leave(self.at);
    }
}
