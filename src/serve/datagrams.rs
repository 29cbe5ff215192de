//! HTTP/3: UDP sockets at the addresses that speak TLS, and the threads that serve them. These are loops of their own,
//! whatever the strategy of the TCP connections; a switch of strategy leaves them alone.
//!
//! In an upgrade in place, both programs have the sockets. Connection IDs name the process; each passes datagrams of the
//! other's connections on to it ([`runtime::datagram::Relay`]), and the old one stops receiving once the new one serves.

use super::refused;
use super::sockets::Given;
use super::tls::Tls;
use crate::failure::Failure;
use quic::endpoint::Shared;
use quic::{Limits, identifiers};
use runtime::datagram::{self, Handle, Relay};
use runtime::listen::Listener;
use runtime::machine;
use runtime::process::inherit;
use server::Server;
use server::config::{Admin, Config, Http3};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::Duration;

/// The protocol's name (ALPN, RFC 9114 section 3.1).
const PROTOCOL: &[u8] = b"h3";

/// Why worker processes have no HTTP/3.
pub(super) const NO_PROCESSES: &str = "worker processes cannot share the connections of HTTP/3; choose a strategy of threads, such as `concurrency = \"loops\"`";

/// What the number of a process and its successor's differ by, modulo 65,536.
const NEXT: u16 = 0x100;

/// Until the drain has an end of its own.
const A_DAY: Duration = Duration::from_secs(86_400);

/// UDP sockets of one address, one for each worker.
#[derive(Debug)]
pub(super) struct Sockets {
    address: SocketAddr,
    shared: Arc<Shared>,
    sockets: Vec<UdpSocket>,
    /// To earlier processes that have connections over these sockets.
    relays: Vec<Relay>,
}

/// Opens them for each address with TLS, before rights are dropped, or takes the predecessor's out of `given`. None without
/// `http3`. If one address has a fault and `http3` is `auto`, there are none at all, as responses name one port for all
/// (`Alt-Svc`).
///
/// # Errors
/// Unless it is `auto`: `Usage` if a listener's TLS cannot carry QUIC; `System`, naming the address, if it is taken.
pub(super) fn bind(
    config: &Config,
    tls: Option<&Tls>,
    listeners: &[Vec<Listener>],
    given: &mut Given,
) -> Result<Vec<Sockets>, Failure> {
    // What is not used here is closed: the predecessor would wait for datagrams that nobody passes on.
    let mut inherited = std::mem::take(&mut given.datagrams);
    let inherit::Forwarding {
        process,
        mut channels,
    } = std::mem::take(&mut given.forwarding);
    let Some(tls) = tls.filter(|_| config.http3 != Http3::Off) else {
        return Ok(Vec::new());
    };
    match open(config, tls, listeners, &mut inherited, process) {
        Ok(mut all) => {
            for one in &mut all {
                let address = one.address;
                let here = channels.extract_if(.., |(at, ..)| *at == address);
                one.relays = here
                    .map(|(_, process, channel)| Relay::adopt(process, channel))
                    .collect();
            }
            Ok(all)
        }
        Err(failure) if config.http3 == Http3::Auto => {
            tracing::warn!("serving without HTTP/3: {failure}");
            Ok(Vec::new())
        }
        Err(failure) => Err(failure),
    }
}

/// The same, with an error for `auto`, too, and without relays.
fn open(
    config: &Config,
    tls: &Tls,
    listeners: &[Vec<Listener>],
    inherited: &mut Vec<inherit::Datagrams>,
    process: u16,
) -> Result<Vec<Sockets>, Failure> {
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
        let shared = shared.of_process(process);
        shared
            .check()
            .map_err(|why| Failure::Usage(format!("http3: {why}")))?;
        let known = inherited.iter().position(|(known, _)| *known == address);
        let sockets = match known.map(|at| inherited.swap_remove(at)) {
            Some((_, sockets)) => Ok(sockets.into_iter().map(UdpSocket::from).collect()),
            None => datagram::bind(address, workers),
        };
        let sockets: Vec<UdpSocket> = sockets.map_err(|error| {
            Failure::System(format!(
                "cannot receive UDP at {address} for HTTP/3: {error}; end the program that uses the port, or set `http3 = false`"
            ))
        })?;
        if all.is_empty() {
            warn_of_little_room(&sockets);
        }
        all.push(Sockets {
            address,
            shared: Arc::new(shared),
            sockets,
            relays: Vec::new(),
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

/// The addresses of these sockets.
pub(super) fn addresses(all: &[Sockets]) -> Vec<SocketAddr> {
    all.iter().map(|sockets| sockets.address).collect()
}

/// The port that responses over TCP name (`Alt-Svc`, RFC 7838): the first.
pub(super) fn port(all: &[Sockets]) -> Option<u16> {
    all.first().map(|sockets| sockets.address.port())
}

/// The threads that serve them.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    served: Vec<Served>,
}

/// The threads of one address.
#[derive(Debug)]
struct Served {
    address: SocketAddr,
    shared: Arc<Shared>,
    handle: Handle,
}

impl Datagrams {
    /// Starts one thread for each socket.
    ///
    /// # Errors
    /// `System`, if threads cannot be started; those already started end.
    pub(super) fn start(server: &Arc<Server>, all: Vec<Sockets>) -> Result<Datagrams, Failure> {
        let mut datagrams = Datagrams::default();
        for of_one in all {
            let Sockets {
                address,
                shared,
                sockets,
                relays,
            } = of_one;
            let started = serving::datagrams(sockets, relays, &shared, server);
            let handle = started.map_err(|error| {
                datagrams.stop();
                refused("HTTP/3 workers", &error)
            })?;
            datagrams.served.push(Served {
                address,
                shared,
                handle,
            });
        }
        Ok(datagrams)
    }

    /// Open connections.
    pub(super) fn open(&self) -> usize {
        let open = self.served.iter().map(|one| one.shared.open());
        usize::try_from(open.sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// New peers are refused and clients told to go elsewhere; requests under way are answered.
    pub(super) fn ease(&self) {
        self.drain(A_DAY);
    }

    /// The same with an end.
    pub(super) fn drain(&self, grace: Duration) {
        self.served.iter().for_each(|one| one.handle.drain(grace));
    }

    /// The number of the process that follows this one.
    fn successor(&self) -> u16 {
        let process = self.served.first().map(|one| one.shared.process());
        process.map_or(0, |process| process.wrapping_add(NEXT))
    }

    /// Opens channels to a successor that is about to start, for datagrams of its connections and of those here. It gets
    /// those to earlier processes, too. A channel that cannot be had is left out, with a word.
    pub(super) fn share(&self) -> inherit::Forwarding {
        let process = self.successor();
        let mut channels = Vec::new();
        let mut complain = |error: io::Error| {
            tracing::warn!("HTTP/3 connections will be closed by the upgrade in place: {error}");
        };
        for one in &self.served {
            let earlier = one.handle.relays().map_err(&mut complain).unwrap_or_default();
            let earlier = earlier.into_iter().filter(|(its, _)| *its != process);
            channels.extend(earlier.map(|(its, channel)| (one.address, its, channel)));
        }
        for one in &self.served {
            match Relay::pair(process) {
                Ok((relay, channel)) => {
                    one.handle.relay(relay);
                    channels.push((one.address, one.shared.process(), channel));
                }
                Err(error) => complain(error),
            }
        }
        inherit::Forwarding { process, channels }
    }

    /// A successor receives from the sockets. Clients are told to go elsewhere, and requests under way are answered.
    pub(super) fn retire(&self) {
        let successor = self.successor();
        self.served
            .iter()
            .for_each(|one| one.handle.leave(successor, A_DAY));
    }

    /// Ends all threads now.
    pub(super) fn stop(&self) {
        self.served.iter().for_each(|one| one.handle.stop());
    }

    /// Whether all threads have ended.
    pub(super) fn is_finished(&self) -> bool {
        self.served.iter().all(|one| one.handle.is_finished())
    }

    /// Waits for all threads to end.
    ///
    /// # Errors
    /// The first failure of a worker.
    pub(super) fn join(self) -> io::Result<()> {
        let results = self.served.into_iter().map(|one| one.handle.join());
        results.fold(Ok(()), io::Result::and)
    }
}
