//! Connections that begin with a header of the PROXY protocol, in which a load balancer names its client.
//!
//! ```text
//!   accept ─┬─ trusted peer ─▶ Awaited ─ header whole ─▶ inner accept, as from the client ─▶ Open
//!           │                     └─ no header, too late, end ─▶ Closed
//!           └─ any other ─────────────────────────────────────────────────────────────────▶ Open
//! ```
//! The header comes before TLS, so this layer is around it. Decides which connections begin with one, and how long it may
//! take; `server::proxy_protocol` reads it, and the wrapped service knows nothing of it.

use runtime::memory::Budget;
use runtime::session::{Dialing, JobOf};
use runtime::{Accepted, Action, Event, Service, Session, Tx, complaints};
use server::Server;
use server::proxy_protocol::{self, Announced, Step};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use units::{Duration, Instant};

/// Connections whose header has not arrived, per strategy. They do not count as open before that.
const AWAITED_MAX: u32 = 1_024;

/// A service some of whose listeners take the PROXY protocol.
#[derive(Debug)]
pub(crate) struct AnnouncedService<V> {
    inner: Arc<V>,
    server: Arc<Server>,
    /// By index of the listener. The last one also stands for those beyond the end.
    announced: Vec<bool>,
    awaited: Arc<AtomicU32>,
}

impl<V: Service> AnnouncedService<V> {
    /// Wraps a service. `announced` has one entry per listener, in the order in which the strategy gets them. `server` knows
    /// which peers are trusted.
    pub(crate) fn new(inner: Arc<V>, server: Arc<Server>, announced: Vec<bool>) -> AnnouncedService<V> {
        AnnouncedService {
            inner,
            server,
            announced,
            awaited: Arc::default(),
        }
    }

    fn is_announced(&self, listener: u8) -> bool {
        let all = &self.announced;
        all.get(usize::from(listener))
            .or(all.last())
            .copied()
            .unwrap_or_default()
    }
}

impl<V: Service> Service for AnnouncedService<V> {
    type Session = AnnouncedSession<V>;

    fn context(&self, worker: usize) -> <V::Session as Session>::Cx {
        self.inner.context(worker)
    }

    fn accept(
        &self,
        cx: &mut <V::Session as Session>::Cx,
        accepted: &Accepted,
        now: Instant,
    ) -> Option<AnnouncedSession<V>> {
        let peer = accepted.peer.ip();
        if !self.is_announced(accepted.listener) || !self.server.trusts(peer) {
            let inner = self.inner.accept(cx, accepted, now)?;
            return Some(AnnouncedSession(State::Open(inner)));
        }
        let place = Place::take(&self.awaited)?;
        Some(AnnouncedSession(State::Awaited(Box::new(Awaited {
            service: Arc::clone(&self.inner),
            accepted: *accepted,
            input: Vec::new(),
            since: now,
            until: now + self.server.header_timeout(),
            retires: false,
            _place: place,
        }))))
    }

    fn is_full(&self) -> bool {
        self.inner.is_full()
    }

    fn close_idle(&self) -> bool {
        self.inner.close_idle()
    }

    fn budget(&self) -> Arc<Budget> {
        self.inner.budget()
    }

    fn accepts_per_turn(&self, listener: u8) -> u32 {
        self.inner.accepts_per_turn(listener)
    }

    fn dialing(&self) -> Option<Dialing> {
        self.inner.dialing()
    }

    fn grace(&self) -> Duration {
        self.inner.grace()
    }
}

/// The place of a connection whose header is awaited; released when dropped.
#[derive(Debug)]
struct Place(Arc<AtomicU32>);

impl Place {
    fn take(awaited: &Arc<AtomicU32>) -> Option<Place> {
        let place = Place(Arc::clone(awaited));
        // Dropping it releases it again.
        (awaited.fetch_add(1, Ordering::Relaxed) < AWAITED_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that may begin with a header.
pub(crate) struct AnnouncedSession<V: Service>(State<V>);

enum State<V: Service> {
    /// Its header has not arrived whole.
    Awaited(Box<Awaited<V>>),
    /// The wrapped session has it.
    Open(V::Session),
    Closed,
}

struct Awaited<V> {
    service: Arc<V>,
    accepted: Accepted,
    /// The header as far as it arrived.
    input: Vec<u8>,
    since: Instant,
    until: Instant,
    /// Whether the next response of the connection is to be its last.
    retires: bool,
    _place: Place,
}

impl<V: Service> fmt::Debug for AnnouncedSession<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            State::Awaited(_) => "Awaited",
            State::Open(_) => "Open",
            State::Closed => "Closed",
        })
    }
}

impl<V: Service> Awaited<V> {
    fn complain(&self, why: &str) {
        let peer = self.accepted.peer.ip();
        complaints::warn(peer.to_string().as_bytes(), || {
            format!(
                "{why}; this peer is trusted: make it send the PROXY protocol, or turn `proxy-protocol` off"
            )
        });
    }

    /// Takes bytes in. `None`: the header is not whole.
    fn take(
        &mut self,
        cx: &mut <V::Session as Session>::Cx,
        bytes: &[u8],
        tx: &mut Tx,
        now: Instant,
    ) -> Option<State<V>> {
        self.input.extend_from_slice(bytes);
        let (announced, used) = match proxy_protocol::parse(&self.input) {
            Ok(Step::Partial) => return None,
            Ok(Step::Header { announced, used }) => (announced, used),
            Err(fault) => {
                self.complain(&fault.to_string());
                return Some(State::Closed);
            }
        };
        let accepted = Accepted {
            peer: match announced {
                Announced::Client(client) => client,
                Announced::Sender => self.accepted.peer,
            },
            ..self.accepted
        };
        let Some(mut inner) = self.service.accept(cx, &accepted, now) else {
            return Some(State::Closed);
        };
        // The worker tells each session once.
        if self.retires {
            inner.handle(cx, Event::Retire, tx, now);
        }
        let behind = &self.input[used..];
        if !behind.is_empty() {
            inner.handle(cx, Event::Bytes(behind), tx, now);
        }
        Some(State::Open(inner))
    }
}

impl<V: Service> Session for AnnouncedSession<V> {
    type Cx = <V::Session as Session>::Cx;

    #[inline]
    fn handle(&mut self, cx: &mut Self::Cx, event: Event<'_, JobOf<Self>>, tx: &mut Tx, now: Instant) {
        let awaited = match &mut self.0 {
            State::Open(inner) => return inner.handle(cx, event, tx, now),
            State::Closed => return,
            State::Awaited(awaited) => awaited,
        };
        let next = match event {
            Event::Bytes(bytes) => awaited.take(cx, bytes, tx, now),
            Event::Deadline if awaited.until <= now => {
                awaited.complain("no PROXY header arrived within `header-timeout`");
                Some(State::Closed)
            }
            Event::Retire => {
                awaited.retires = true;
                None
            }
            Event::Eof | Event::Drain | Event::GiveWay(_) | Event::Lost(_) => Some(State::Closed),
            _ => None,
        };
        if let Some(next) = next {
            self.0 = next;
        }
    }

    #[inline]
    fn poll(&mut self, cx: &mut Self::Cx, tx: &mut Tx, now: Instant) -> Action<JobOf<Self>> {
        match &mut self.0 {
            State::Open(inner) => inner.poll(cx, tx, now),
            State::Awaited(_) => Action::Read,
            State::Closed => Action::Close,
        }
    }

    #[inline]
    fn deadline(&self) -> Option<Instant> {
        match &self.0 {
            State::Open(inner) => inner.deadline(),
            State::Awaited(awaited) => Some(awaited.until),
            State::Closed => None,
        }
    }

    fn idle_since(&self, cx: &Self::Cx) -> Option<Instant> {
        match &self.0 {
            State::Open(inner) => inner.idle_since(cx),
            State::Awaited(awaited) => Some(awaited.since),
            State::Closed => None,
        }
    }

    fn closed(&mut self, cx: &mut Self::Cx, now: Instant) {
        if let State::Open(inner) = &mut self.0 {
            inner.closed(cx, now);
        }
    }
}
