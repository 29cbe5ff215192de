//! One connection: its transport, its session, and what has to be done for it.

use crate::carrier::{Carrier, Unsent, code};
use crate::handshake;
use crate::limits::STREAMS_MANY;
use crate::tape::Reel;
use crate::unread::Unread;
use quinn_proto::{ConnectionError, Dir, Event, StreamEvent, VarInt};
use runtime::clock::{from_standard, to_standard};
use runtime::datagram::{Address, Outbox};
use runtime::memory::Holding;
use runtime::session::{Secured, TlsVersion};
use runtime::streams::{self, JobOf, Session, Wanted};
use std::panic::{AssertUnwindSafe, catch_unwind};
use units::Instant;

/// Datagrams in one payload at most: what fits 64 KiB, and no more than the kernel segments (64, `UDP_MAX_SEGMENTS`).
const SEGMENTS_MAX: usize = 40;

/// Payloads for one connection before others have their turn.
const PAYLOADS_MAX: usize = 4;

/// A connection.
pub(crate) struct Connection<S: Session> {
    pub(crate) quic: quinn_proto::Connection,
    /// `None` once the connection has ended; the transport stays a little longer, to answer what is still under way.
    session: Option<S>,
    unsent: Unsent,
    pub(crate) unread: Unread,
    /// Requests that it may have under way once it has made many.
    streams_max: u32,
    /// Requests that it has made, up to [`STREAMS_MANY`].
    requests: u32,
    /// The bytes of it, as the budget counts them.
    held: Holding,
    held_bytes: usize,
    /// Which of the connections of its place it is.
    pub(crate) generation: u32,
    pub(crate) is_connected: bool,
    /// What the endpoint's table of deadlines says.
    pub(crate) deadline: Option<Instant>,
    /// Whether it is in the endpoint's list of those to be served.
    pub(crate) is_listed: bool,
    /// Whether its session has asked for connections, which end with it.
    pub(crate) has_asked: bool,
    /// Records its datagrams; `None`: it has no log.
    pub(crate) reel: Option<Box<Reel>>,
}

/// What became of serving a connection.
pub(crate) enum Served {
    /// Everything that can be done now is done.
    Whole,
    /// There is more to send.
    More,
}

impl<S: Session> Connection<S> {
    /// `held` counts nothing yet.
    pub(crate) fn new(
        quic: quinn_proto::Connection,
        session: S,
        generation: u32,
        streams_max: u32,
        held: Holding,
    ) -> Connection<S> {
        Connection {
            quic,
            session: Some(session),
            unsent: Unsent::default(),
            unread: Unread::default(),
            streams_max,
            requests: 0,
            held,
            held_bytes: 0,
            generation,
            is_connected: false,
            deadline: None,
            is_listed: false,
            has_asked: false,
            reel: None,
        }
    }

    /// Records a datagram that has arrived.
    pub(crate) fn received(&mut self, datagram: &[u8], now: Instant) {
        if let Some(reel) = &mut self.reel {
            reel.pass(false, datagram, None, now);
        }
    }

    /// Records what loss recovery has done, and forgets a log that is over.
    pub(crate) fn count(&mut self, now: Instant) {
        let Some(reel) = &mut self.reel else { return };
        reel.observe((&self.quic.stats(), self.is_connected), now);
        if reel.is_over() {
            self.reel = None;
        }
    }

    /// Counts what it keeps unread, of each stream no more than `window`.
    pub(crate) fn settle(&mut self, window: u32) {
        let kept = match self.session {
            Some(_) => self.unread.settle(window),
            // The transport has dropped what it had.
            None => 0,
        };
        if kept != self.held_bytes {
            self.held_bytes = kept;
            self.held.set(kept);
        }
    }

    /// Whether its session has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.session.is_none()
    }

    /// Whether it owes its peer nothing. One that has ended still owes the message of its end, which may have to wait for
    /// congestion control or be lost.
    pub(crate) fn is_idle(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_idle)
    }

    /// Since when it may be closed to make room for another.
    pub(crate) fn idle_since(&self, cx: &S::Cx) -> Option<Instant> {
        let session = self.session.as_ref().filter(|_| self.is_connected);
        session.and_then(|session| session.idle_since(cx))
    }

    /// Whether it can be forgotten.
    pub(crate) fn is_over(&self) -> bool {
        self.quic.is_drained()
    }

    /// When it has to be served even if nothing arrives.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        let session = self.session.as_ref().and_then(Session::deadline);
        let quic = self.quic.poll_timeout().map(from_standard);
        [session, quic].into_iter().flatten().min()
    }

    /// Tells the session of an event.
    pub(crate) fn tell(&mut self, cx: &mut S::Cx, event: streams::Event<'_, JobOf<S>>, now: Instant) {
        if let Some(session) = &mut self.session {
            let mut carrier = Carrier {
                quic: &mut self.quic,
                unsent: &mut self.unsent,
                unread: &mut self.unread,
                now,
            };
            let handled = catch_unwind(AssertUnwindSafe(|| session.handle(cx, event, &mut carrier, now)));
            if handled.is_err() {
                self.bury(cx, now);
            }
        }
    }

    /// Ends the connection, whose session has panicked.
    #[cold]
    fn bury(&mut self, cx: &mut S::Cx, now: Instant) {
        tracing::error!("a session panicked: its HTTP/3 connection is closed; others stay open");
        self.close_broken(now);
        self.forget(cx, now);
    }

    /// Ends the session, whatever state it is in, so that the service counts the connection no longer.
    pub(crate) fn forget(&mut self, cx: &mut S::Cx, now: Instant) {
        if let Some(mut session) = self.session.take() {
            // What it has left behind may be broken.
            let _ = catch_unwind(AssertUnwindSafe(|| session.closed(cx, now)));
        }
    }

    /// The session ends.
    pub(crate) fn end(&mut self, cx: &mut S::Cx, now: Instant) {
        if let Some(mut session) = self.session.take() {
            session.closed(cx, now);
        }
    }

    /// Ends the connection, one of whose jobs has panicked: its session waits for what will not come.
    pub(crate) fn close(&mut self, cx: &mut S::Cx, now: Instant) {
        self.close_broken(now);
        self.end(cx, now);
    }

    /// Closes the transport with the code for a fault of this side. Code 0 would tell the peer of no error.
    fn close_broken(&mut self, now: Instant) {
        self.quic
            .close(to_standard(now), code(S::INTERNAL_ERROR), Default::default());
    }

    /// What has fallen due.
    pub(crate) fn expire(&mut self, cx: &mut S::Cx, now: Instant) {
        let at = to_standard(now);
        if self.quic.poll_timeout().is_some_and(|due| due <= at) {
            self.quic.handle_timeout(at);
        }
        let is_due = |session: &S| session.deadline().is_some_and(|due| due <= now);
        if self.session.as_ref().is_some_and(is_due) {
            self.tell(cx, streams::Event::Deadline, now);
        }
    }

    /// Does what can be done now: events to the session, its output to the transport, and the transport's to `out`.
    pub(crate) fn serve(
        &mut self,
        cx: &mut S::Cx,
        out: &mut Outbox,
        scratch: &mut Vec<u8>,
        mut want: impl FnMut(Wanted<JobOf<S>>),
        now: Instant,
    ) -> Served {
        for _ in 0..PAYLOADS_MAX {
            self.take_events(cx, now);
            if let Some(session) = &mut self.session {
                let mut carrier = Carrier {
                    quic: &mut self.quic,
                    unsent: &mut self.unsent,
                    unread: &mut self.unread,
                    now,
                };
                let has_asked = &mut self.has_asked;
                let polled = catch_unwind(AssertUnwindSafe(|| {
                    while let Some(wanted) = session.poll(cx, &mut carrier, now) {
                        *has_asked |= matches!(wanted, Wanted::Peer(..));
                        want(wanted);
                    }
                }));
                if polled.is_err() {
                    self.bury(cx, now);
                }
            }
            if self.quic.is_closed() {
                // By the session itself, of which it gets no event.
                self.end(cx, now);
            }
            if !out.has_room() {
                return Served::More;
            }
            let mut is_sent = false;
            out.push(|buffer| {
                scratch.clear();
                let transmit = self.quic.poll_transmit(to_standard(now), SEGMENTS_MAX, scratch)?;
                is_sent = true;
                self.unsent.left(transmit.size);
                let payload = &scratch[..transmit.size];
                buffer.extend_from_slice(payload);
                if let Some(reel) = &mut self.reel {
                    reel.pass(true, payload, transmit.segment_size, now);
                }
                Some(Address {
                    to: transmit.destination,
                    local: transmit.src_ip,
                    ecn: transmit.ecn.map_or(0, |ecn| ecn as u8),
                    segment: transmit.segment_size.and_then(|size| u16::try_from(size).ok()),
                })
            });
            if !is_sent {
                self.unsent.settle();
                return Served::Whole;
            }
        }
        Served::More
    }

    fn take_events(&mut self, cx: &mut S::Cx, now: Instant) {
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => self.connected(cx, now),
                Event::ConnectionLost { reason } => {
                    tracing::debug!("QUIC: {reason}");
                    if !self.is_connected && is_fault(&reason) {
                        self.tell(cx, streams::Event::Unsecured, now);
                    }
                    self.end(cx, now);
                }
                Event::Stream(StreamEvent::Opened { dir }) => self.opened(cx, dir, now),
                Event::Stream(StreamEvent::Readable { id }) => {
                    self.tell(cx, streams::Event::Readable(id.into()), now);
                }
                Event::Stream(StreamEvent::Writable { id }) => {
                    self.tell(cx, streams::Event::Writable(id.into()), now);
                }
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    let event = streams::Event::Stopped(id.into(), error_code.into_inner());
                    self.tell(cx, event, now);
                }
                Event::Stream(StreamEvent::Finished { id }) => {
                    self.tell(cx, streams::Event::Finished(id.into()), now);
                }
                Event::Stream(StreamEvent::Available { .. })
                | Event::HandshakeDataReady
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
    }

    fn connected(&mut self, cx: &mut S::Cx, now: Instant) {
        self.is_connected = true;
        let agreed = handshake::agreed(&self.quic);
        let agreed = agreed.as_ref();
        let secured = Secured {
            protocol: agreed.and_then(|agreed| agreed.protocol.as_deref()),
            resumed: agreed.is_some_and(|agreed| agreed.resumed),
            identity: agreed.and_then(|agreed| agreed.identity.as_deref()),
            // The only one that QUIC has (RFC 9001 section 4.2).
            version: Some(TlsVersion::V13),
        };
        self.tell(cx, streams::Event::Connected(secured), now);
    }

    /// Permits all streams to a peer that has many requests.
    fn requested(&mut self) {
        if self.requests < STREAMS_MANY {
            self.requests += 1;
            if self.requests == STREAMS_MANY {
                let all = VarInt::from_u32(self.streams_max);
                self.quic.set_max_concurrent_streams(Dir::Bi, all);
            }
        }
    }

    fn opened(&mut self, cx: &mut S::Cx, dir: Dir, now: Instant) {
        while let Some(id) = self.quic.streams().accept(dir) {
            if dir == Dir::Bi {
                self.unread.begun();
                self.requested();
            }
            self.tell(cx, streams::Event::Opened(id.into()), now);
            self.tell(cx, streams::Event::Readable(id.into()), now);
        }
    }
}

/// Whether a handshake ended because one side refused the other, and not because the peer vanished or the server ends.
fn is_fault(reason: &ConnectionError) -> bool {
    matches!(
        reason,
        ConnectionError::TransportError(_) | ConnectionError::ConnectionClosed(_)
    )
}
