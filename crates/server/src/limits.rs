//! Every bound a connection meets, in one place: sizes, counts and times.
//!
//! Each bound has a default that suits a small virtual machine, is on by default, and has a tested
//! behavior when it is reached (named at its field). This file decides the numbers; it does not know
//! how a session enforces them.

use measure::{Bytes, Duration};

/// Bounds of one server. Counts are "at most"; reaching one is a tested path, never growth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request head, request line and field lines together. Beyond: 431 and close.
    pub head_size: Bytes,
    /// Field lines of a request head. Beyond: 431 and close.
    pub fields: usize,
    /// Bytes of a request target. Beyond: 414 and close.
    pub target_length: Bytes,
    /// Bytes of a request body (read and discarded). Beyond: 413 and close.
    pub body_size: Bytes,
    /// Bytes per second a request body must keep up on average, after `body_timeout` has passed.
    /// Slower: 408 and close.
    pub body_rate: Bytes,
    /// Requests answered in one turn of a pipelining connection before others get theirs. The rest
    /// waits in the session, unparsed.
    pub pipeline_depth: u32,
    /// Requests on one connection. The last one is answered with `Connection: close`.
    pub requests_per_connection: u32,
    /// Open connections of the whole server. Beyond: the connection that has been idle longest is closed for the new one; if
    /// none is idle, the new one is closed at accept.
    pub connections: u32,
    /// Open connections of one address (an IPv4 address or an IPv6 /64). Beyond: closed at accept. None: a share of
    /// `connections`, see [`Limits::per_address`].
    pub connections_per_address: Option<u32>,
    /// Requests of one address in a second, over all its connections; 0 is no bound. Beyond: 429.
    pub request_rate: u32,
    /// Requests of one address at once, beyond its rate.
    pub request_burst: u32,
    /// Ranges of one request. Beyond: the `Range` field is ignored and the whole is sent.
    pub ranges: usize,
    /// From the first byte of a request to the end of its head; also from accept to the first byte.
    /// Beyond: 408 and close once a request has begun, else a silent close.
    pub header_timeout: Duration,
    /// How long the system may have kept a connection to itself that has said nothing yet when it is accepted: that much
    /// of `header_timeout` is gone for it. No bound of its own.
    pub deferred: Duration,
    /// Between an answer and the first byte of the next request. Beyond: a silent close.
    pub idle_timeout: Duration,
    /// As `idle_timeout`, once there was an answer, if that is shorter.
    pub early_close: Option<Duration>,
    /// For a request body, on top of the time `body_rate` grants. Beyond: 408 and close.
    pub body_timeout: Duration,
    /// Without a single byte of an answer being taken by the peer, while it was offered some: taken is what it has
    /// acknowledged, where the system can tell, else what the system has taken for it. Time in which the answer waits
    /// for the line does not count, up to [`Limits::line_patience`]. Beyond: abort, with a reset.
    pub write_timeout: Duration,
    /// Bytes per second a peer must acknowledge of answers that wait for it, on average, after `write_timeout` has passed; 0 is
    /// no bound. Slower: abort.
    pub send_rate: Bytes,
    /// For a file to be opened, read or compressed while a request waits for it. Beyond: 503; the work goes on, and what
    /// it finds is kept if it can be.
    pub disk_timeout: Duration,
    /// Requests that wait for a file at once, in each process, those included that are no longer waited for but have not ended.
    /// Beyond: 503 at once.
    pub disk_queue: u32,
    /// For the peer to close after the server has closed its half. Beyond: close.
    pub linger_timeout: Duration,
    /// For a draining connection to finish what it owes. Beyond: abort.
    pub grace: Duration,
}

impl Limits {
    /// Output of one turn after which no further pipelined request is answered before the peer has
    /// taken what stands there: large enough to fill a send buffer's worth of small answers, small
    /// enough that a connection that does not read costs little.
    pub const OUTPUT_PER_TURN: usize = 32 * 1024;

    /// Bodies up to this length are copied behind their head; longer ones are referenced. Copying
    /// wins up to here against gathering two pieces.
    pub const COPIED_BODY: u64 = 8 * 1024;

    /// How long a draining server waits for the rest of a request head and for a peer to close: a head
    /// comes in one piece from anyone who is not slow on purpose, and a shutdown must not be held up.
    pub const HURRY: Duration = Duration::from_secs(1);

    /// How long the rest of a request may take to arrive once other connections need its place: several round trips of a slow
    /// path.
    pub const PATIENCE: Duration = Duration::from_secs(1);

    /// The same for a client that holds more than a quarter of all open connections.
    pub const CROWD_PATIENCE: Duration = Duration::from_millis(100);

    /// What one address may hold of so many connections if nobody has said it: a quarter, so that it takes several to hold all of
    /// them; but 16 at least, so that the browsers behind one address are served by a server with room for few.
    pub fn share_of_address(connections: u32) -> u32 {
        (connections / 4).max(16)
    }

    /// Open connections of one address.
    pub fn per_address(&self) -> u32 {
        self.connections_per_address
            .unwrap_or_else(|| Limits::share_of_address(self.connections))
    }

    /// How long an answer may wait for the line at a stretch before that counts as if its peer took nothing: twenty times
    /// `write_timeout`. Every answer is sent in the end, but where the line is asked for more than it carries that is
    /// later for each that comes, and nobody hears that a peer has gone to whom nothing is sent. Ten minutes by default:
    /// a client with a timeout of its own has used it by then.
    pub fn line_patience(&self) -> Duration {
        self.write_timeout.saturating_mul(20)
    }
}

impl Default for Limits {
    /// Sizes as the common servers have them. Idle connections may stay for 65 seconds, because an
    /// idle one costs some hundred bytes here and load balancers that keep connections for 60
    /// seconds must never find one closed under a request.
    fn default() -> Limits {
        Limits {
            head_size: Bytes::kib(16),
            fields: 100,
            target_length: Bytes::kib(8),
            body_size: Bytes::mib(1),
            body_rate: Bytes(500),
            pipeline_depth: 128,
            requests_per_connection: u32::MAX,
            connections: 65_536,
            connections_per_address: None,
            request_rate: 0,
            request_burst: 100,
            ranges: 16,
            header_timeout: Duration::from_secs(20),
            deferred: Duration::ZERO,
            idle_timeout: Duration::from_secs(65),
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
