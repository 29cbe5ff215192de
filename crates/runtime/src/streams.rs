//! The contract between a transport that carries many streams on each connection (QUIC, RFC 9000) and the protocol over
//! it (HTTP/3, for instance): the counterpart of [`crate::session`] for protocols whose bytes come in streams.
//!
//! ```text
//!   transport: accept ─▶ Session     Opened, Readable, Writable, Stopped … ─▶ handle
//!                                    after each event ─────────────────────▶ poll ─▶ jobs and asks, if any
//!   Transport: read, write, finish, reset, stop, open, close ◀── both
//! ```
//! A session owns no socket, thread or clock. It gets the transport with each call and reads and writes streams through it.
//!
//! A session can open connections itself, by the contract of [`crate::peer`]: [`Wanted::Peer`] asks, [`Event::Peer`] tells
//! what came of it. An ask is carried out after the `poll` that returned it, so a session does not ask for the same peer
//! again before the event of the first ask, except to close it. Peers end with their session: what was under way is reset.

use crate::datagram::Counts;
use crate::memory::Budget;
use crate::peer::{Ask, Dialing, PeerEvent};
use crate::session::{Context, Job, Need, Secured, Ticket};
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::Arc;
use units::{Duration, Instant};

/// From the last words of a session to the close, after [`Event::Cut`] for instance: a round trip in which the peer acknowledges
/// what was under way. Without that, a full congestion window holds the message of the end back for good.
pub const LAST_WORDS: Duration = Duration::from_millis(250);

/// The job type of a session's context.
pub type JobOf<S> = <<S as Session>::Cx as Context>::Job;

/// A connection, as its session sees it. Streams are named by their identifiers (RFC 9000 section 2.1).
pub trait Transport {
    /// Gives what has arrived of a stream, in order, to `take`, and says what follows.
    fn read(&mut self, stream: u64, take: &mut dyn FnMut(&[u8])) -> Input;

    /// Gives bytes to a stream. Returns how many the transport took: fewer than all if flow control or its buffer is the
    /// limit; [`Event::Writable`] then follows. `None`: the stream is gone, or the peer has stopped it.
    fn write(&mut self, stream: u64, bytes: &[u8]) -> Option<usize>;

    /// [`Transport::write`] without a copy. What the transport took is gone from `bytes`.
    fn write_shared(&mut self, stream: u64, bytes: &mut Bytes) -> Option<usize>;

    /// Ends our half of a stream.
    fn finish(&mut self, stream: u64);

    /// Ends our half of a stream early (RESET_STREAM) with an application error code.
    fn reset(&mut self, stream: u64, code: u64);

    /// The application error code with which the peer ended its half of a stream early (RESET_STREAM), if it did. Reads
    /// nothing; once this returned a code, the stream's bytes are gone.
    fn was_reset(&mut self, stream: u64) -> Option<u64>;

    /// Asks the peer to end its half of a stream (STOP_SENDING), which is read no more.
    fn stop(&mut self, stream: u64, code: u64);

    /// Opens a unidirectional stream; `None` if the peer allows no further one.
    fn open(&mut self) -> Option<u64>;

    /// Ends the connection with an application error code. What the peer has not acknowledged of any stream may be lost. No
    /// event follows.
    fn close(&mut self, code: u64, reason: &str);

    /// Bytes that may be given now. What is given cannot be overtaken by what is more urgent, so this is little while
    /// earlier bytes wait for congestion control.
    fn room(&self) -> usize;
}

/// What follows the bytes that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// More may arrive; [`Event::Readable`] tells.
    Open,
    /// The end of the stream.
    End,
    /// The peer ended the stream early (RESET_STREAM) with this application error code.
    Reset(u64),
    /// The stream is not known any more.
    Gone,
}

/// What happened to a connection.
#[derive(Debug)]
pub enum Event<'a, J: Job> {
    /// The handshake is complete. Once, before the events of streams.
    Connected(Secured<'a>),
    /// The handshake has failed: peer and transport could not agree, or the peer broke its rules. The session ends.
    Unsecured,
    /// The peer opened this stream; it may be readable.
    Opened(u64),
    /// Bytes, the end or a reset of this stream can be read.
    Readable(u64),
    /// The transport takes bytes for this stream again.
    Writable(u64),
    /// The peer has acknowledged all of our half of this stream, its end included.
    Finished(u64),
    /// The peer wants no more of this stream (STOP_SENDING), with an application error code.
    Stopped(u64, u64),
    /// A job finished.
    Done(Ticket, J::Output),
    /// Something happened to a connection that the session opened under this ticket.
    Peer(Ticket, PeerEvent<'a>),
    /// The instant returned by [`Session::deadline`] has come.
    Deadline,
    /// The server is shutting down: finish the responses that are due, then close.
    Drain,
    /// The driver ends within half a second: give up what is due and close, so that the peer knows. A close while much is under
    /// way may never leave: end the streams first, and close [`LAST_WORDS`] later.
    Cut,
    /// The session's timeouts may have changed.
    Reconsider,
    /// Another connection needs this one's place or memory. [`Session::deadline`] says when it closes: at once, but for words that
    /// leave before.
    GiveWay(Need),
}

/// What a session wants of its driver.
#[derive(Debug)]
pub enum Wanted<J> {
    /// Run this job where it may block; [`Event::Done`] follows once.
    Job(Ticket, J),
    /// Carry this out for the session's peer with this ticket. Tickets of peers and of jobs are apart.
    Peer(Ticket, Ask),
}

/// One connection as a pure state machine.
pub trait Session: Send {
    /// State shared by the sessions of one worker.
    type Cx: Context;

    /// Application error code with which the driver closes the connection after the session, or one of its jobs, has panicked: that
    /// of an error of this side in the session's protocol.
    const INTERNAL_ERROR: u64;

    /// Takes in an event.
    fn handle(
        &mut self,
        cx: &mut Self::Cx,
        event: Event<'_, JobOf<Self>>,
        transport: &mut dyn Transport,
        now: Instant,
    );

    /// Writes what is due, up to [`Transport::room`]. Returns what the driver has to do, if anything; then it is called
    /// again.
    fn poll(
        &mut self,
        cx: &mut Self::Cx,
        transport: &mut dyn Transport,
        now: Instant,
    ) -> Option<Wanted<JobOf<Self>>>;

    /// When [`Event::Deadline`] is due. Asked after each `poll`.
    fn deadline(&self) -> Option<Instant>;

    /// Whether nothing is owed to the peer.
    fn is_idle(&self) -> bool;

    /// Since when the connection may be closed to make room for another ([`Event::GiveWay`]). `None` while anything is owed to the
    /// peer. Called when connections run short.
    fn idle_since(&self, _cx: &Self::Cx) -> Option<Instant> {
        None
    }

    /// The connection is gone. Called exactly once, as the last method.
    fn closed(&mut self, cx: &mut Self::Cx, now: Instant);
}

/// Makes a context for each worker and a session for each connection.
pub trait Service: Send + Sync + 'static {
    /// Its connections.
    type Session: Session;

    /// The context of the worker with this number.
    fn context(&self, worker: usize) -> <Self::Session as Session>::Cx;

    /// The session of a new connection, before its handshake; `None` refuses it.
    fn accept(
        &self,
        cx: &mut <Self::Session as Session>::Cx,
        peer: SocketAddr,
        now: Instant,
    ) -> Option<Self::Session>;

    /// Whether the service would refuse this peer for its own connection limit, and for no other reason. If so, the driver has the
    /// peer prove its address, closes the connection that has been idle longest, and offers the new one then.
    fn is_full(&self, _cx: &<Self::Session as Session>::Cx, _peer: SocketAddr) -> bool {
        false
    }

    /// Time without a packet after which the transport drops a new connection in silence. `None`: that of the transport's limits.
    /// Asked for each connection.
    fn silence_max(&self, _cx: &<Self::Session as Session>::Cx) -> Option<Duration> {
        None
    }

    /// A new peer was asked to prove its address before anything else (Retry, RFC 9000 section 8.1.2).
    fn retried(&self, _cx: &mut <Self::Session as Session>::Cx) {}

    /// A new peer gets no answer: too many handshakes are under way.
    fn crowded(&self, _cx: &mut <Self::Session as Session>::Cx) {}

    /// What the driver has counted of this worker since the last call, beneath the transport.
    fn counted(&self, _cx: &mut <Self::Session as Session>::Cx, _counts: &Counts) {}

    /// The memory budget that its connections share.
    fn budget(&self) -> Arc<Budget> {
        Arc::default()
    }

    /// Limits of the connections that its sessions open; `None` if they open none.
    fn dialing(&self) -> Option<Dialing> {
        None
    }

    /// Closes the connections that the service keeps idle outside of its sessions and of [`crate::peer`], as
    /// [`crate::Service::close_idle`].
    fn close_idle(&self) -> bool {
        false
    }

    /// Whether a session may leave input unread, stream by stream. Those streams must not stop the others, so a peer may then
    /// fill the windows of all of them. Asked for each connection.
    fn leaves_input(&self) -> bool {
        false
    }
}
