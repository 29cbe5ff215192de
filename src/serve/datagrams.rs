//! HTTP/3: UDP sockets at the addresses that speak TLS, and the threads that serve them. These are loops of their own,
//! whatever the strategy of the TCP connections; a switch of strategy leaves them alone.

use super::refused;
use super::tls::Tls;
use crate::failure::Failure;
use quic::endpoint::Shared;
use quic::{Limits, identifiers};
use runtime::datagram::{self, Handle};
use runtime::listen::Listener;
use runtime::machine;
use runtime::process::inherit;
use server::Server;
use server::config::{Admin, Config};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::Duration;

/// The protocol's name (ALPN, RFC 9114 section 3.1).
const PROTOCOL: &[u8] = b"h3";

/// Why worker processes have no HTTP/3.
pub(super) const NO_PROCESSES: &str = "worker processes cannot share the connections of HTTP/3; choose a strategy of threads, such as `concurrency = \"loops\"`";

/// Until the drain has an end of its own.
const A_DAY: Duration = Duration::from_secs(86_400);

/// UDP sockets of one address, one for each worker.
#[derive(Debug)]
pub(super) struct Sockets {
    address: SocketAddr,
    shared: Arc<Shared>,
    sockets: Vec<UdpSocket>,
}

/// Opens them for each address with TLS, before rights are dropped, or takes the predecessor's out of `given`. None without
/// `http3`.
///
/// # Errors
/// `Usage` if a listener's TLS cannot carry QUIC; `System`, naming the address, if it is taken.
pub(super) fn bind(
    config: &Config,
    tls: Option<&Tls>,
    listeners: &[Vec<Listener>],
    given: &mut Vec<inherit::Datagrams>,
) -> Result<Vec<Sockets>, Failure> {
    let (true, Some(tls)) = (config.http3, tls) else {
        return Ok(Vec::new());
    };
    let workers = machine::usable_cores().clamp(1, identifiers::WORKERS_MAX);
    let mut all: Vec<Sockets> = Vec::new();
    for listener in listeners.iter().flatten() {
        let Some(slot) = tls.slot(listener) else { continue };
        // HTTP/3 has no Unix sockets.
        let Some(address) = listener.address().tcp() else {
            continue;
        };
        let is_admin = |admin: &Admin| admin.listen.0.contains(&address.into());
        if config.admin.as_ref().is_some_and(is_admin) {
            continue;
        }
        if all.iter().any(|known| known.address == address) {
            continue;
        }
        let limits = config.limits();
        let handshakes = usize::try_from(limits.handshakes()).unwrap_or(usize::MAX);
        let bounds = Limits::default();
        let shared = Shared::new(
            slot.clone(),
            tls.tickets().clone(),
            &[PROTOCOL],
            Limits {
                streams_max: limits.streams,
                idle_time: limits.idle_timeout,
                handshakes_max: bounds.handshakes_max.min(handshakes),
                ..bounds
            },
        );
        shared
            .check()
            .map_err(|why| Failure::Usage(format!("http3: {why}")))?;
        let inherited = given.iter().position(|(known, _)| *known == address);
        let sockets = match inherited.map(|at| given.swap_remove(at)) {
            Some((_, sockets)) => Ok(sockets.into_iter().map(UdpSocket::from).collect()),
            None => datagram::bind(address, workers),
        };
        let sockets: Vec<UdpSocket> = sockets.map_err(|error| {
            Failure::System(format!(
                "cannot receive UDP at {address} for HTTP/3: {error}; end the program that uses the port, or turn `http3` off"
            ))
        })?;
        if all.is_empty() {
            warn_of_little_room(&sockets);
        }
        all.push(Sockets {
            address,
            shared: Arc::new(shared),
            sockets,
        });
    }
    Ok(all)
}

/// Says what a machine lacks for bursts of packets.
fn warn_of_little_room(sockets: &[UdpSocket]) {
    let wanted = datagram::RECEIVE_BUFFER;
    if let Some(room) = sockets
        .first()
        .and_then(|socket| datagram::receive_buffer(socket).ok())
        && room < wanted
    {
        tracing::info!(
            "HTTP/3: a UDP socket may hold {room} bytes here, so bursts of packets can be lost; `sysctl -w net.core.rmem_max={wanted}` \
             permits more"
        );
    }
}

/// The sockets for a successor. One that cannot be had again is left out, with a word.
pub(super) fn hand_on(all: &[Sockets]) -> Vec<inherit::Datagrams> {
    let again = |of_one: &Sockets| {
        let sockets: io::Result<Vec<OwnedFd>> = of_one
            .sockets
            .iter()
            .map(|socket| Ok(socket.try_clone()?.into()))
            .collect();
        match sockets {
            Ok(sockets) => Some((of_one.address, sockets)),
            Err(error) => {
                tracing::warn!("an upgrade in place will have to do without HTTP/3: {error}");
                None
            }
        }
    };
    all.iter().filter_map(again).collect()
}

/// The port that responses over TCP name (`Alt-Svc`, RFC 7838): the first.
pub(super) fn port(all: &[Sockets]) -> Option<u16> {
    all.first().map(|sockets| sockets.address.port())
}

/// The threads that serve them.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    handles: Vec<(Arc<Shared>, Handle)>,
}

impl Datagrams {
    /// Starts one thread for each socket.
    ///
    /// # Errors
    /// `System`, if threads cannot be started; those already started end.
    pub(super) fn start(server: &Arc<Server>, all: Vec<Sockets>) -> Result<Datagrams, Failure> {
        let mut datagrams = Datagrams::default();
        for of_one in all {
            let started = serving::datagrams(of_one.sockets, &of_one.shared, server);
            let handle = started.map_err(|error| {
                datagrams.stop();
                refused("HTTP/3 workers", &error)
            })?;
            datagrams.handles.push((of_one.shared, handle));
        }
        Ok(datagrams)
    }

    /// Open connections.
    pub(super) fn open(&self) -> usize {
        let open = self.handles.iter().map(|(shared, _)| shared.open());
        usize::try_from(open.sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// New peers are refused and clients told to go elsewhere; requests under way are answered.
    pub(super) fn ease(&self) {
        self.drain(A_DAY);
    }

    /// The same with an end.
    pub(super) fn drain(&self, grace: Duration) {
        self.handles.iter().for_each(|(_, handle)| handle.drain(grace));
    }

    /// Ends all threads now.
    pub(super) fn stop(&self) {
        self.handles.iter().for_each(|(_, handle)| handle.stop());
    }

    /// Whether all threads have ended.
    pub(super) fn is_finished(&self) -> bool {
        self.handles.iter().all(|(_, handle)| handle.is_finished())
    }

    /// Waits for all threads to end.
    ///
    /// # Errors
    /// The first failure of a worker.
    pub(super) fn join(self) -> io::Result<()> {
        let results = self.handles.into_iter().map(|(_, handle)| handle.join());
        results.fold(Ok(()), io::Result::and)
    }
}
