//! The server as drivers see it: it makes a context for each worker and a session for each connection that it accepts.
//!
//! Decides which connections are refused, and how long an accepted one may be silent. What a session does is not known
//! here.

use crate::config::CONNECT_TIMEOUT_MAX;
use crate::connection_limit::{Refused, unit};
use crate::context::Cx;
use crate::limits::Limits;
use crate::service::Server;
use crate::session::gateway::PEERS_MAX;
use crate::session::{Http3, Layer, Session};
use runtime::memory::Budget;
use runtime::session::Dialing;
use runtime::{Accepted, Service};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::{Duration, Instant, Seed};

impl Service for Server {
    type Session = Session;

    fn context(&self, worker: usize) -> Cx {
        let seed = Seed(self.hub.seed.0.wrapping_add(worker as u64));
        Cx::new(Arc::clone(&self.hub), seed.rng())
    }

    fn accept(&self, cx: &mut Cx, accepted: &Accepted, now: Instant) -> Option<Session> {
        let peer = accepted.peer;
        let limits = &cx.state.limits;
        match self
            .hub
            .peers
            .enter(peer.ip(), limits.connections, limits.per_address())
        {
            Ok(()) => {
                // A connection that arrives with bytes has the whole timeout for its first head.
                let mut silent = limits.header_timeout.saturating_sub(limits.deferred);
                let mut layer = Layer::None;
                if accepted.is_to_agree {
                    let handshakes = &self.hub.handshakes;
                    let of_address = limits.handshakes_of_address();
                    if handshakes.enter(peer.ip(), u32::MAX, of_address).is_err() {
                        self.hub.peers.leave(peer.ip());
                        cx.counters.refused_handshakes().add(1);
                        return None;
                    }
                    let hurried = handshakes.total() > limits.handshakes();
                    if hurried {
                        silent = silent.min(Limits::PATIENCE);
                    }
                    layer = Layer::Agreeing { hurried };
                }
                cx.counters.accepted().add(1);
                let paced = cx.state.rate.is_some();
                let pace = paced.then(|| self.hub.paces.of(unit(peer.ip()), now));
                Some(Session::new(peer.ip(), layer, now + silent, pace))
            }
            Err(Refused::Total) => {
                cx.counters.refused_total().add(1);
                None
            }
            Err(Refused::Address) => {
                cx.counters.refused_address().add(1);
                None
            }
        }
    }

    fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.hub.budget)
    }

    fn is_full(&self) -> bool {
        self.hub.peers.total() >= self.hub.connections_max.load(Ordering::Relaxed)
    }

    fn dialing(&self) -> Option<Dialing> {
        // The rule of each connection bounds the time to open it.
        self.hub.dials.then(|| Dialing {
            peers_max: PEERS_MAX,
            connect_time_max: CONNECT_TIMEOUT_MAX,
            ..Dialing::default()
        })
    }

    fn grace(&self) -> Duration {
        self.hub.current().1.limits.grace
    }
}

impl runtime::streams::Service for Server {
    type Session = Http3;

    fn context(&self, worker: usize) -> Cx {
        Service::context(self, worker)
    }

    fn accept(&self, cx: &mut Cx, peer: SocketAddr, now: Instant) -> Option<Http3> {
        let limits = &cx.state.limits;
        let entered = self
            .hub
            .peers
            .enter(peer.ip(), limits.connections, limits.per_address());
        match entered {
            Ok(()) => {}
            Err(Refused::Total) => {
                cx.counters.refused_total().add(1);
                return None;
            }
            Err(Refused::Address) => {
                cx.counters.refused_address().add(1);
                return None;
            }
        }
        let handshakes = &self.hub.handshakes;
        if handshakes
            .enter(peer.ip(), u32::MAX, limits.handshakes_of_address())
            .is_err()
        {
            self.hub.peers.leave(peer.ip());
            cx.counters.refused_handshakes().add(1);
            return None;
        }
        cx.counters.accepted().add(1);
        let paced = cx.state.rate.is_some();
        let pace = paced.then(|| self.hub.paces.of(unit(peer.ip()), now));
        let until = now + limits.header_timeout;
        Some(Http3::new(cx, peer.ip(), pace, until))
    }

    fn retried(&self, cx: &mut Cx) {
        cx.counters.http3_retries().add(1);
    }

    fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.hub.budget)
    }
}
