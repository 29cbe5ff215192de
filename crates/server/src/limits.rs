//! The limits of a connection: sizes, counts and times.
//!
//! Every limit with a default suits a small virtual machine and is on by default. Each has a tested behavior at the
//! limit, named at its field. This file decides the numbers; it does not know how sessions enforce them.

use units::{Bytes, Duration, Instant};

/// Most connections accepted in a turn, however many an address may have.
const ACCEPTS_PER_TURN: u32 = 64;

/// Limits of a server. Counts are inclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request head, request line and field lines together. Above: 431 and close.
    pub head_size: Bytes,
    /// Field lines of a request head. Above: 431 and close.
    pub fields: usize,
    /// Bytes of a request target. Above: 414 and close.
    pub target_length: Bytes,
    /// Bytes of a request body (read and discarded). Above: 413 and close.
    pub body_size: Bytes,
    /// Average rate of a request body in bytes per second, applied after `body_timeout`. Below: 408 and close.
    pub body_rate: Bytes,
    /// Requests of a pipelining connection answered in one turn, before other connections are served. Further requests
    /// wait in the session, unparsed.
    pub pipeline_depth: u32,
    /// Requests of an HTTP/2 connection at a time, those whose jobs are still under way included. Above:
    /// REFUSED_STREAM.
    pub streams: u32,
    /// Requests per connection. The last response has `Connection: close`.
    pub requests_per_connection: u32,
    /// Open connections of the whole server. Above: the connection idle longest is closed for the new one; if none is
    /// idle, the new one is closed at accept.
    pub connections: u32,
    /// Open connections of one address (an IPv4 address or an IPv6 /64). Above: closed at accept. `None`: a share of
    /// `connections`, see [`Limits::per_address`].
    pub connections_per_address: Option<u32>,
    /// TLS handshakes under way, in a process. Above: a new connection has a second to complete its handshake, in place of
    /// `header_timeout`. `None`: half of `connections`.
    pub handshakes: Option<u32>,
    /// TLS handshakes under way of one address, in a process. Above: closed at accept. `None`: half of the connections
    /// that the address may have.
    pub handshakes_per_address: Option<u32>,
    /// Requests per second of one address, over all its connections; 0: no limit. Above: 429.
    pub request_rate: u32,
    /// Requests of one address at once, beyond its rate.
    pub request_burst: u32,
    /// Ranges per request. Above: the `Range` field is ignored and the whole file is sent.
    pub ranges: usize,
    /// Time from the first byte of a request to the end of its head; also from accept to the first byte. After that:
    /// 408 and close if a request has begun, otherwise a silent close.
    pub header_timeout: Duration,
    /// How long the kernel may have kept back a new connection that has sent nothing (`TCP_DEFER_ACCEPT`). This part of
    /// `header_timeout` has then passed at accept. Not a limit of its own.
    pub deferred: Duration,
    /// Time between a response and the first byte of the next request. After that: a silent close.
    pub idle_timeout: Duration,
    /// Time without a packet after which the transport of HTTP/3 drops a connection. Computed once, because it depends on each
    /// access rule and route. Not a limit of its own.
    pub silence: Duration,
    /// Like `idle_timeout`, after a response; the shorter one applies.
    pub early_close: Option<Duration>,
    /// Time for a request body, in addition to the time that `body_rate` grants. After that: 408 and close.
    pub body_timeout: Duration,
    /// Time in which the peer accepts no byte of a response that is offered to it. Accepted means acknowledged, where
    /// the system can tell; otherwise, accepted by the kernel. Time spent waiting for the line does not count, up to
    /// [`Limits::line_patience`]. After that: reset.
    pub write_timeout: Duration,
    /// Average rate in bytes per second at which a peer must acknowledge responses, applied after `write_timeout`; 0:
    /// no limit. Below: reset.
    pub send_rate: Bytes,
    /// Time to open, read or compress a file while a request waits for it. After that: 503. The work continues, and its
    /// result is cached if possible.
    pub disk_timeout: Duration,
    /// Requests waiting for a file, per process, including abandoned ones whose work has not ended. Above: 503 at once.
    pub disk_queue: u32,
    /// Time for the peer to close after the server has closed its half. After that: close.
    pub linger_timeout: Duration,
    /// Time for a draining connection to finish its responses. After that: abort.
    pub grace: Duration,
}

impl Limits {
    /// Output of a turn in bytes after which no further pipelined request is answered until the peer has accepted it.
    /// Large enough to fill a send buffer with small responses, and small enough that a connection that does not read
    /// costs little.
    pub const OUTPUT_PER_TURN: usize = 32 * 1024;

    /// Bodies up to this length are copied behind their header block; longer ones are referenced. Up to this length, a
    /// copy is faster than gathering two pieces.
    pub const COPIED_BODY: u64 = 8 * 1024;

    /// How long a draining server waits for the rest of a request head, and for a peer to close. Heads of honest
    /// clients arrive in one piece, and a shutdown must not be delayed.
    pub const HURRY: Duration = Duration::from_secs(1);

    /// Time for the rest of a request to arrive once other connections need its place: several round trips of a slow
    /// path.
    pub const PATIENCE: Duration = Duration::from_secs(1);

    /// As [`Limits::PATIENCE`], for a client that holds more than a quarter of all open connections.
    pub const CROWD_PATIENCE: Duration = Duration::from_millis(100);

    /// Default of the per-address limit: a quarter of all connections, so that filling the server takes several
    /// addresses. At least 16, so that browsers behind a shared address are served even if there is room for few.
    pub fn share_of_address(connections: u32) -> u32 {
        (connections / 4).max(16)
    }

    /// Open connections of one address.
    pub fn per_address(&self) -> u32 {
        self.connections_per_address
            .unwrap_or_else(|| Limits::share_of_address(self.connections))
    }

    /// Connections accepted in a turn: at most half of what an address may have. The server learns of closes between turns only, and a
    /// client that opens one connection after the other may have closed all that were accepted in two turns.
    pub fn accepts_per_turn(&self) -> u32 {
        (self.per_address() / 2).clamp(1, ACCEPTS_PER_TURN)
    }

    /// TLS handshakes under way above which time is short.
    pub fn handshakes(&self) -> u32 {
        self.handshakes.unwrap_or(self.connections / 2)
    }

    /// TLS handshakes under way of one address.
    pub fn handshakes_of_address(&self) -> u32 {
        let half = (self.per_address() / 2).max(1);
        self.handshakes_per_address.unwrap_or(half)
    }

    /// When the body of a request must have arrived: it began at `since`, and `received` bytes of it are there.
    pub fn body_until(&self, since: Instant, received: u64) -> Instant {
        let granted = match self.body_rate.0 {
            0 => Duration::ZERO,
            rate => Duration::from_millis(received.saturating_mul(1_000) / rate),
        };
        since + self.body_timeout + granted
    }

    /// How long a response may wait for the line at a stretch before the wait counts toward `write_timeout`: twenty
    /// times `write_timeout`. Every response is sent eventually. But when demand exceeds the line, waits grow with each
    /// response, and the loss of a peer goes unnoticed while nothing is sent to it. The default is ten minutes; a
    /// client's own timeout has expired by then.
    pub fn line_patience(&self) -> Duration {
        self.write_timeout.saturating_mul(20)
    }
}

impl Default for Limits {
    /// Sizes are those of common servers. The idle timeout is 65 seconds, because an idle connection costs some hundred
    /// bytes here, and load balancers that keep connections for 60 seconds must never find one closed under a request.
    fn default() -> Limits {
        Limits {
            head_size: Bytes::kib(16),
            fields: 100,
            target_length: Bytes::kib(8),
            body_size: Bytes::mib(1),
            body_rate: Bytes(500),
            pipeline_depth: 128,
            streams: 128,
            requests_per_connection: u32::MAX,
            connections: 65_536,
            connections_per_address: None,
            handshakes: None,
            handshakes_per_address: None,
            request_rate: 0,
            request_burst: 100,
            ranges: 16,
            header_timeout: Duration::from_secs(20),
            deferred: Duration::ZERO,
            idle_timeout: Duration::from_secs(65),
            silence: Duration::from_secs(65),
            early_close: None,
            body_timeout: Duration::from_secs(20),
            write_timeout: Duration::from_secs(30),
            send_rate: Bytes(0),
            disk_timeout: Duration::from_secs(20),
            disk_queue: 1024,
            linger_timeout: Duration::from_secs(5),
            grace: Duration::from_secs(10),
        }
    }
}
