//! The server on the strategies of `runtime`: in cleartext, over TLS, over QUIC.
//!
//! ```text
//!                 cleartext      TLS                    QUIC
//!   sessions      server::Server tls::SecuredService    quic::Endpoint
//!   PROXY header  AnnouncedService around either        -
//!   run by        runtime::strategy                     runtime::datagram
//! ```
//! `runtime` and the layers are generic, so their loops are compiled where their types are named: here. A crate of its own,
//! because the build of `cargo build --release` optimizes the binary's own code less than what serves requests.

mod announced;

use announced::AnnouncedService;
use quic::endpoint::{Endpoint, Shared};
use runtime::listen::Listener;
use runtime::process::prefork::Member;
use runtime::strategy::{self, Handle, Limits, Strategy};
use runtime::{Service, datagram};
use server::Server;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use tls::secured::SecuredService;
use tls::settings::Slot;
use tls::tickets::{Ratchet, Secret};

/// TLS for listeners: a configuration for each, in their order (`None`: cleartext), and the keys of their tickets.
#[derive(Debug)]
pub struct Secured {
    /// One for each listener.
    pub slots: Vec<Option<Slot>>,
    /// Shared by all of them.
    pub tickets: Ratchet,
}

/// Starts a strategy on TCP listeners; `member`: as a worker process. Without `secured`, it runs the code that knows no TLS.
/// `announced` says for each listener whether trusted peers begin with a header of the PROXY protocol; if none does, it runs
/// the code that knows none.
///
/// # Errors
/// See [`strategy::serve`].
pub fn streams(
    secured: Option<Secured>,
    announced: Vec<bool>,
    member: Option<&Member>,
    strategy: Strategy,
    listeners: &[Listener],
    server: &Arc<Server>,
    limits: Limits,
) -> io::Result<Handle> {
    let is_announced = announced.contains(&true);
    let secured = match secured {
        Some(Secured { slots, tickets }) => SecuredService::new(Arc::clone(server), slots, tickets),
        None if is_announced => SecuredService::new(Arc::clone(server), vec![None], no_tickets()?),
        None => return run(member, strategy, listeners, server, limits),
    };
    let secured = Arc::new(secured);
    if !is_announced {
        return run(member, strategy, listeners, &secured, limits);
    }
    let service = Arc::new(AnnouncedService::new(secured, Arc::clone(server), announced));
    run(member, strategy, listeners, &service, limits)
}

/// Ticket keys of a service without TLS, which issues no tickets.
fn no_tickets() -> io::Result<Ratchet> {
    let secret = Secret::new(0).map_err(io::Error::other)?;
    Ratchet::new(secret).map_err(io::Error::other)
}

fn run<V: Service>(
    member: Option<&Member>,
    strategy: Strategy,
    listeners: &[Listener],
    service: &Arc<V>,
    limits: Limits,
) -> io::Result<Handle> {
    match member {
        None => strategy::serve(strategy, listeners, service, limits),
        Some(member) => strategy::serve_as(member, strategy, listeners, service, limits),
    }
}

/// Starts one thread for each UDP socket of an address. `others` are the processes that share the sockets.
///
/// # Errors
/// See [`datagram::serve`].
pub fn datagrams(
    sockets: Vec<UdpSocket>,
    others: datagram::Others,
    shared: &Arc<Shared>,
    server: &Arc<Server>,
) -> io::Result<datagram::Handle> {
    let (shared, server) = (Arc::clone(shared), Arc::clone(server));
    let make = move |worker| Endpoint::new(Arc::clone(&shared), Arc::clone(&server), worker);
    datagram::serve(sockets, others, make, datagram::Limits::default())
}
