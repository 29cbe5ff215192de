//! The server as drivers see it: it makes a context for each worker and a session for each connection that it accepts.
//!
//! Decides which connections are refused, and how long an accepted one may be silent. What a session does is not known
//! here.

use crate::config::{ADMIN_PER_ADDRESS_MAX, CONNECT_TIMEOUT_MAX};
use crate::connection_limit::{Refused, unit};
use crate::context::Cx;
use crate::limits::Limits;
use crate::rate_limit::Pace;
use crate::service::Server;
use crate::session::gateway::PEERS_MAX;
use crate::session::{Http3, Layer, Session};
use runtime::datagram;
use runtime::memory::Budget;
use runtime::session::Dialing;
use runtime::{Accepted, Service};
use std::net::{IpAddr, SocketAddr};
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
        // A connection that arrives with bytes has the whole timeout for its first head.
        let limits = &cx.state.limits;
        let mut silent = limits.header_timeout.saturating_sub(limits.deferred);
        let mut layer = Layer::None;
        if accepted.is_to_agree {
            self.enter_to_agree(cx, peer)?;
            let hurried = self.hub.handshakes.total() > cx.state.limits.handshakes();
            if hurried {
                silent = silent.min(Limits::PATIENCE);
            }
            layer = Layer::Agreeing { hurried };
        } else {
            self.enter(cx, peer)?;
        }
        cx.counters.accepted().add(1);
        Some(Session::new(
            (peer.ip(), self.is_admin),
            layer,
            now + silent,
            self.pace(cx, peer, now),
        ))
    }

    fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.hub.budget)
    }

    fn is_full(&self) -> bool {
        self.hub.peers.total() >= self.hub.connections_max.load(Ordering::Relaxed)
    }

    fn close_idle(&self) -> bool {
        self.hub.current().1.gates.close_idle()
    }

    fn accepts_per_turn(&self, _listener: u8) -> u32 {
        let most = self.hub.accepts_max.load(Ordering::Relaxed);
        match self.is_admin {
            true => most.min(ADMIN_PER_ADDRESS_MAX / 2),
            false => most,
        }
    }

    fn dialing(&self) -> Option<Dialing> {
        // The rule of each connection bounds the time to open it.
        let takes_commands = || self.hub.current().1.admin.control.is_some();
        let dials = self.hub.dials || (self.is_admin && takes_commands());
        dials.then(|| Dialing {
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
        self.enter_to_agree(cx, peer)?;
        cx.counters.accepted().add(1);
        let until = now + cx.state.limits.header_timeout;
        Some(Http3::new(cx, peer.ip(), self.pace(cx, peer, now), until))
    }

    fn is_full(&self, cx: &Cx, peer: SocketAddr) -> bool {
        if !Service::is_full(self) {
            return false;
        }
        let [connections, handshakes] = of_address(cx, peer.ip());
        self.hub.peers.held(peer.ip()) < connections && self.hub.handshakes.held(peer.ip()) < handshakes
    }

    fn silence_max(&self, cx: &Cx) -> Option<Duration> {
        Some(cx.state.limits.silence)
    }

    fn crowded(&self, cx: &mut Cx) {
        cx.counters.refused_handshakes().add(1);
    }

    fn retried(&self, cx: &mut Cx) {
        cx.counters.http3_retries().add(1);
    }

    fn counted(&self, cx: &mut Cx, counts: &datagram::Counts) {
        let counters = &cx.counters;
        for (counter, by) in [
            (counters.udp_received(), counts.received),
            (counters.udp_forwarded(), counts.forwarded),
            (counters.udp_relayed(), counts.relayed),
            (counters.udp_taken(), counts.taken),
            (counters.udp_dropped(), counts.dropped),
            (counters.udp_sent(), counts.sent),
            (counters.udp_refused(), counts.refused),
        ] {
            counter.add(by);
        }
    }

    fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.hub.budget)
    }

    fn dialing(&self) -> Option<Dialing> {
        Service::dialing(self)
    }

    fn close_idle(&self) -> bool {
        Service::close_idle(self)
    }

    /// Bodies for upstreams wait in the windows of their streams.
    fn leaves_input(&self) -> bool {
        self.hub.dials
    }
}

/// Connections that an address may have open, and handshakes under way. Those of a trusted peer are of many clients.
fn of_address(cx: &Cx, ip: IpAddr) -> [u32; 2] {
    match cx.state.trusted.includes(ip) {
        true => [u32::MAX; 2],
        false => [
            cx.state.limits.per_address(),
            cx.state.limits.handshakes_of_address(),
        ],
    }
}

impl Server {
    /// Counts a connection of `peer` among those that are open, unless a limit is reached.
    fn enter(&self, cx: &Cx, peer: SocketAddr) -> Option<()> {
        let [of_address, _] = of_address(cx, peer.ip());
        let total = cx.state.limits.connections;
        let entered = self.hub.peers.enter(peer.ip(), total, of_address);
        match entered.and_then(|()| self.enter_admin(cx, peer.ip())) {
            Ok(()) => return Some(()),
            Err(Refused::Total) => cx.counters.refused_total().add(1),
            Err(Refused::Address) => cx.counters.refused_address().add(1),
        }
        None
    }

    /// Counts a connection at an admin address among those there, too; if it is refused, it is no longer counted in total. One
    /// client must not have all the few places there: nobody else could see why the server is busy, or stop it.
    fn enter_admin(&self, cx: &Cx, ip: IpAddr) -> Result<(), Refused> {
        if !self.is_admin {
            return Ok(());
        }
        let address_max = match cx.state.trusted.includes(ip) {
            true => u32::MAX,
            false => ADMIN_PER_ADDRESS_MAX,
        };
        let entered = self.hub.admin_peers.enter(ip, u32::MAX, address_max);
        if entered.is_err() {
            self.hub.peers.leave(ip);
        }
        entered
    }

    /// As [`Server::enter`], for a connection that begins with a handshake, which is counted, too.
    fn enter_to_agree(&self, cx: &Cx, peer: SocketAddr) -> Option<()> {
        self.enter(cx, peer)?;
        let [_, of_address] = of_address(cx, peer.ip());
        if self
            .hub
            .handshakes
            .enter(peer.ip(), u32::MAX, of_address)
            .is_err()
        {
            self.hub.leave(peer.ip(), self.is_admin);
            cx.counters.refused_handshakes().add(1);
            return None;
        }
        Some(())
    }

    /// The request rate of `peer`, where rates are limited.
    fn pace(&self, cx: &Cx, peer: SocketAddr, now: Instant) -> Option<Pace> {
        let is_paced = cx.state.rate.is_some();
        is_paced.then(|| self.hub.paces.of(unit(peer.ip()), now))
    }
}
