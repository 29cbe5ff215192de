//! HTTP/3: UDP sockets at the addresses that speak TLS, and the threads that serve them. These are loops of their own,
//! whatever the strategy of the TCP connections; a switch of strategy leaves them alone.
//!
//! In an upgrade in place, both programs have the sockets. Connection IDs name the process; each passes datagrams of the
//! other's connections on to it ([`runtime::datagram::Relay`]), and the old one stops receiving once the new one serves.
//!
//! With worker processes, each has sockets of its own at every address, and an inbox. The founder opens all of them before it
//! forks, and keeps them: a process that takes the place of one that died has its sockets, inbox and number. It answers
//! what still names the dead one's connections with a stateless reset (RFC 9000 section 10.3), so clients learn it at once.
//!
//! Where an address has several sockets, the kernel reads the worker from the connection ID ([`runtime::datagram::steer`]), and
//! passing on is for what arrives elsewhere nevertheless. That is set when workers start, not with the sockets: until then, a
//! predecessor's program holds, which may have other workers.

use super::qlog::Qlog;
use super::refused;
use super::sockets::{self, Given};
use super::strategy::Choice;
use super::tls::{self, Tls};
use crate::failure::Failure;
use quic::endpoint::Shared;
use quic::{Limits, identifiers};
use runtime::datagram::{self, Handle, Others, Relay, Siblings};
use runtime::listen::{self, Address, Listener};
use runtime::machine;
use runtime::process::inherit;
use server::Server;
use server::config::{Admin, Concurrency, Config, Http3};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::Duration;

/// The protocol's name (ALPN, RFC 9114 section 3.1).
const PROTOCOL: &[u8] = b"h3";

/// What the numbers of the processes of a program and its successor's differ by, modulo 65,536: the high byte is that of the
/// program.
const NEXT: u16 = 0x100;

/// The last number that a process of a program can have, in the low byte.
const LAST: u16 = 0xff;

/// Worker processes whose numbers fit.
const PROCESSES_MAX: usize = LAST as usize + 1;

/// Until the drain has an end of its own.
const A_DAY: Duration = Duration::from_secs(86_400);

/// UDP sockets of one address, one for each worker.
#[derive(Debug)]
pub(super) struct Sockets {
    address: SocketAddr,
    shared: Shared,
    sockets: Vec<UdpSocket>,
    /// To earlier programs that have connections over these sockets; with worker processes, also to a later one.
    relays: Vec<Relay>,
    /// With worker processes, the way to the inbox of each, and the inbox.
    inboxes: Vec<(Relay, Relay)>,
    /// Whether they are those of a service manager, so that other programs may have more at the address.
    are_passed: bool,
    steering: Steering,
}

/// What the kernel is told about the sockets of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steering {
    /// To read the worker from connection IDs.
    On,
    /// To choose by the addresses, whatever a predecessor told it.
    Off,
    /// Nothing: there is one socket, or other programs may have more at its address.
    Unchanged,
}

impl Steering {
    /// For so many sockets of one address. Those of a service manager may be some of many, of which other programs have the
    /// rest: an index would lead to these.
    fn of(is_wanted: bool, sockets: usize, are_passed: bool) -> Steering {
        match is_wanted {
            _ if sockets < 2 || are_passed => Steering::Unchanged,
            true => Steering::On,
            false => Steering::Off,
        }
    }

    /// Tells the kernel, by any of the sockets of an address. Each of the `processes` that share the address may do so.
    fn apply(self, socket: &UdpSocket, processes: usize) -> io::Result<()> {
        match self {
            Steering::On => datagram::steer(socket, &identifiers::forms(), processes),
            Steering::Off => {
                datagram::leave_to_hash(socket);
                Ok(())
            }
            Steering::Unchanged => Ok(()),
        }
    }
}

/// Why this strategy cannot serve HTTP/3; `None` if it can.
pub(super) fn refusal(choice: &Choice) -> Option<String> {
    match choice.concurrency {
        Concurrency::Processes => Some(
            "a process of `processes` serves one connection at a time; choose a strategy of event loops or threads, such as \
             `concurrency = \"process-loops\"` or `\"loops\"`"
                .to_owned(),
        ),
        Concurrency::ProcessLoops if choice.workers > PROCESSES_MAX => Some(format!(
            "connections of HTTP/3 can name {PROCESSES_MAX} worker processes, not {}; set `workers = {PROCESSES_MAX}` or less",
            choice.workers
        )),
        _ => None,
    }
}

/// The number of UDP sockets at an address without worker processes.
pub(super) fn threads() -> usize {
    machine::usable_cores().clamp(1, identifiers::WORKERS_MAX)
}

/// Opens `count` sockets at each address with TLS, before rights are dropped, or takes those of the predecessor or the service
/// manager out of `given`, as many as there are. None without `http3`. If one address has a fault and `http3` is `auto`, there
/// are none at all, as responses name one port for all (`Alt-Svc`).
///
/// # Errors
/// Unless it is `auto`: `Usage` if a listener's TLS cannot carry QUIC; `System`, naming the address, if it is taken.
pub(super) fn bind(
    config: &Config,
    tls: Option<&Tls>,
    listeners: &[Vec<Listener>],
    given: &mut Given,
    count: usize,
    qlog: Option<&Qlog>,
) -> Result<Vec<Sockets>, Failure> {
    // What is not used here is closed: the predecessor would wait for datagrams that nobody passes on.
    let mut inherited = std::mem::take(&mut given.datagrams);
    let inherit::Forwarding {
        process,
        mut channels,
        mut passed,
    } = std::mem::take(&mut given.forwarding);
    if given.are_passed {
        passed.extend(inherited.iter().map(|(address, _)| *address));
    }
    let opened = match tls.filter(|_| is_wanted(config, tls, listeners)) {
        Some(tls) => open(config, tls, listeners, &mut inherited, process, count, qlog),
        None => Ok(Vec::new()),
    };
    match opened {
        Ok(mut all) => {
            if given.are_passed {
                inherited.iter().for_each(|(address, _)| warn_of_unused(*address));
            }
            for one in &mut all {
                let address = one.address;
                let here = channels.extract_if(.., |(at, ..)| *at == address);
                one.relays = here
                    .map(|(_, process, channel)| Relay::adopt(process, channel))
                    .collect();
                one.are_passed = passed.contains(&address);
                one.steering = Steering::of(config.http3_steering, one.sockets.len(), one.are_passed);
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

/// Whether HTTP/3 is to be served. `auto` leaves it out behind a load balancer that announces its clients: QUIC has no such
/// header, and clients know the ports of the load balancer only.
fn is_wanted(config: &Config, tls: Option<&Tls>, listeners: &[Vec<Listener>]) -> bool {
    let announced = |group: &Vec<Listener>| {
        let all = group.iter().zip(sockets::announced(config, group));
        let mut secured = all.filter(|(listener, _)| tls::is_at(tls, listener));
        secured.find(|(_, is_announced)| *is_announced)?.0.address().tcp()
    };
    match config.http3 {
        Http3::Off => false,
        Http3::On => true,
        Http3::Auto => match listeners.iter().find_map(announced) {
            Some(address) => {
                tracing::info!(
                    "serving without HTTP/3: a load balancer announces the clients of {address} (`proxy-protocol`), which QUIC \
                     does not provide for; set `http3 = true` if clients reach this host directly, too"
                );
                false
            }
            None => true,
        },
    }
}

/// Says that nobody receives from a socket of the service manager.
fn warn_of_unused(address: SocketAddr) {
    tracing::warn!(
        "ignored the UDP socket {address} of the service manager: HTTP/3 is not served there; pass a stream socket with the \
         same address (ListenStream=) and configure TLS, or remove ListenDatagram="
    );
}

/// The same as [`bind`], with an error for `auto`, too, without relays, and without steering.
fn open(
    config: &Config,
    tls: &Tls,
    listeners: &[Vec<Listener>],
    inherited: &mut Vec<inherit::Datagrams>,
    process: u16,
    count: usize,
    qlog: Option<&Qlog>,
) -> Result<Vec<Sockets>, Failure> {
    let bound: Vec<Address> = listeners.iter().flatten().map(Listener::address).collect();
    let bound: Vec<&Address> = bound.iter().collect();
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
                // At start; the server says what holds after a reload.
                idle_time: config.silence_max(),
                handshakes_max: bounds.handshakes_max.min(handshakes),
                ..bounds
            },
        );
        let recorder = qlog.map(|qlog| qlog.at(address));
        let shared = shared.of_process(process).recorded_by(recorder);
        shared
            .check()
            .map_err(|why| Failure::Usage(format!("http3: {why}")))?;
        let known = inherited.iter().position(|(known, _)| *known == address);
        let sockets = match known.map(|at| inherited.swap_remove(at)) {
            Some((_, sockets)) => Ok(sockets.into_iter().map(UdpSocket::from).collect()),
            None => datagram::bind(address, count, sockets::takes_both(&address.into(), &bound)),
        };
        let sockets: Vec<UdpSocket> = sockets.map_err(|error| not_bound(address, &error))?;
        if all.is_empty()
            && let Some(socket) = sockets.first()
        {
            tell_what_the_machine_lacks(socket);
        }
        all.push(Sockets {
            address,
            shared,
            sockets,
            relays: Vec::new(),
            inboxes: Vec::new(),
            are_passed: false,
            steering: Steering::Unchanged,
        });
    }
    Ok(all)
}

/// An error about a UDP port that cannot be had, and what to do.
fn not_bound(address: SocketAddr, error: &io::Error) -> Failure {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            let owner = listen::owner_of_datagrams(address);
            let who = owner.map_or_else(|| "another program".to_owned(), |owner| owner.to_string());
            format!(
                "{who} uses the port; if that is a Weir that finishes its responses, wait until it has ended (a second TERM ends it \
                 at once), or, if the process after it has crashed, have it start that again by SIGUSR2; otherwise stop that program, \
                 or set `http3 = false`"
            )
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need CAP_NET_BIND_SERVICE, and an upgrade in place has only the rights of the program before it; \
             restart Weir with that right, or set `http3 = false`"
                .to_owned()
        }
        _ => "set `http3 = false` to serve without HTTP/3".to_owned(),
    };
    Failure::System(format!(
        "cannot receive UDP at {address} for HTTP/3: {error}; {advice}"
    ))
}

/// Says what this machine lacks for QUIC at speed, and what the operator can do. One socket stands for all.
fn tell_what_the_machine_lacks(socket: &UdpSocket) {
    if let Some(said) = datagram::receive_buffer(socket).ok().and_then(of_little_room) {
        tracing::info!("{said}");
    }
    if let Some(said) = of_single_packets(datagram::knows_segments(socket)) {
        tracing::info!("{said}");
    }
}

/// What to say of a kernel that does not cut a payload into packets.
fn of_single_packets(knows_segments: bool) -> Option<&'static str> {
    (!knows_segments).then_some(
        "HTTP/3 needs a system call for each packet: the kernel lacks UDP_SEGMENT; Linux 4.18 and later have it",
    )
}

/// What to say of a receive buffer of so many bytes.
fn of_little_room(room: usize) -> Option<String> {
    let wanted = datagram::RECEIVE_BUFFER;
    (room < wanted).then(|| {
        format!(
            "HTTP/3 can lose packets in bursts: the kernel limits the receive buffer of a UDP socket to {room} bytes; \
             `sysctl -w net.core.rmem_max={wanted}` and a restart give Weir the {wanted} bytes that it asks for"
        )
    })
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

/// Opens what worker processes need besides the sockets, before they are forked: they could not be given it later. These are
/// an inbox for each of `count` processes, and a channel to a successor that may come. Returns the ends for the successor.
///
/// # Errors
/// `System`, if there are no descriptors for the inboxes. A channel to a successor that cannot be had is left out, with a
/// word.
pub(super) fn connect(all: &mut [Sockets], count: usize) -> Result<inherit::Forwarding, Failure> {
    let first = all.first().map_or(0, |one| one.shared.process());
    let numbers = || (0..count).filter_map(move |number| number_of(first, number));
    let successor = first.wrapping_add(NEXT);
    let mut channels = Vec::new();
    let passed = passed(all);
    for one in all {
        let inboxes = numbers().map(Relay::inbox).collect::<io::Result<Vec<_>>>();
        one.inboxes = inboxes.map_err(|error| refused("channels between worker processes", &error))?;
        match Relay::pair(successor | LAST) {
            Ok((relay, channel)) => {
                one.relays.push(relay);
                channels.push((one.address, numbers().next_back().unwrap_or(first), channel));
            }
            Err(error) => complain(&error),
        }
    }
    Ok(inherit::Forwarding {
        process: successor,
        channels,
        passed,
    })
}

/// The number of a worker process of the program whose first process is `first`.
fn number_of(first: u16, member: usize) -> Option<u16> {
    let member = u16::try_from(member).ok().filter(|number| *number <= LAST)?;
    Some(first & !LAST | member)
}

/// Leaves what the worker process of this number serves, and closes the rest. `count` is the number of processes.
pub(super) fn keep(all: Vec<Sockets>, member: usize, count: usize) -> Vec<Sockets> {
    let mut kept = Vec::new();
    for mut one in all {
        let Some(number) = number_of(one.shared.process(), member) else {
            continue;
        };
        one.shared = one.shared.of_process(number);
        // Those of a predecessor may be fewer, or more.
        let own = one.sockets.into_iter().enumerate();
        let own = own.filter(|(at, _)| at % count == member);
        one.sockets = own.map(|(_, socket)| socket).collect();
        kept.push(one);
    }
    kept
}

/// Leaves what another successor needs to have datagrams at these addresses, if the one that serves there dies. Closes the
/// rest, for the parent of worker processes that forks no more: members must see where nobody passes datagrams on, and which
/// of them have ended.
pub(super) fn keep_for_successor(
    all: &mut Vec<Sockets>,
    ends: &mut inherit::Forwarding,
    addresses: &[SocketAddr],
) {
    all.retain(|one| addresses.contains(&one.address));
    for one in all {
        one.inboxes.clear();
    }
    ends.channels.retain(|(address, ..)| addresses.contains(address));
}

/// Has the kernel find the `count` worker processes of this program again, after the program that has followed it has told
/// the kernel of its own and has died.
pub(super) fn steer_again(all: &[Sockets], count: usize) {
    for one in all {
        if let Some(socket) = one.sockets.first()
            && let Err(error) = one.steering.apply(socket, count)
        {
            tracing::debug!(
                "the kernel does not read connection IDs at {}: {error}",
                one.address
            );
        }
    }
}

/// For a successor that is about to start: `ends`, which it is to have, and channels to earlier programs.
pub(super) fn share(all: &[Sockets], ends: &inherit::Forwarding) -> inherit::Forwarding {
    let mut channels = Vec::new();
    for one in all {
        let earlier = one
            .relays
            .iter()
            .filter(|relay| !relay.is_of_program(ends.process));
        for relay in earlier.filter(|relay| relay.is_held()) {
            channels.push((one.address, relay.process(), relay.channel()));
        }
    }
    for (address, process, channel) in &ends.channels {
        channels.push((*address, *process, channel.try_clone()));
    }
    let had = |(address, process, channel): (SocketAddr, u16, io::Result<OwnedFd>)| {
        let channel = channel.inspect_err(complain).ok()?;
        Some((address, process, channel))
    };
    inherit::Forwarding {
        process: ends.process,
        channels: channels.into_iter().filter_map(had).collect(),
        passed: passed(all),
    }
}

/// The addresses whose sockets are those of a service manager.
fn passed(all: &[Sockets]) -> Vec<SocketAddr> {
    let passed = all.iter().filter(|one| one.are_passed);
    passed.map(|one| one.address).collect()
}

fn complain(error: &io::Error) {
    tracing::warn!("HTTP/3 connections will be closed by an upgrade in place: {error}");
}

/// The addresses of these sockets.
pub(super) fn addresses(all: &[Sockets]) -> Vec<SocketAddr> {
    all.iter().map(|sockets| sockets.address).collect()
}

/// The port that responses over TCP name (`Alt-Svc`, RFC 7838): the first.
pub(super) fn port(all: &[Sockets]) -> Option<u16> {
    all.first().map(|sockets| sockets.address.port())
}

/// The processes of this program, if it has several: the one of this number keeps its inbox, and the ways to all.
fn siblings(inboxes: Vec<(Relay, Relay)>, process: u16) -> Option<Siblings> {
    let (mut ways, mut own) = (Vec::new(), None);
    for (way, inbox) in inboxes {
        if inbox.process() == process {
            own = Some(inbox);
        }
        ways.push(way);
    }
    own.map(|inbox| Siblings { inbox, ways })
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
    are_passed: bool,
    handle: Handle,
}

impl Datagrams {
    /// Starts one thread for each socket.
    ///
    /// # Errors
    /// `System`, if threads cannot be started; those already started end.
    pub(super) fn start(server: &Arc<Server>, all: Vec<Sockets>) -> Result<Datagrams, Failure> {
        let mut datagrams = Datagrams::default();
        // The first of worker processes speaks for all.
        let mut refuses = None;
        for of_one in all {
            let Sockets {
                address,
                shared,
                sockets,
                relays,
                inboxes,
                are_passed,
                steering,
            } = of_one;
            let shared = Arc::new(shared);
            if let Some(socket) = sockets.first()
                && let Err(error) = steering.apply(socket, inboxes.len().max(1))
                && shared.process() & LAST == 0
            {
                refuses = Some(error);
            }
            let others = Others {
                programs: relays,
                siblings: siblings(inboxes, shared.process()),
            };
            let started = serving::datagrams(sockets, others, &shared, server);
            let handle = started.map_err(|error| {
                datagrams.stop();
                refused("HTTP/3 workers", &error)
            })?;
            datagrams.served.push(Served {
                address,
                shared,
                are_passed,
                handle,
            });
        }
        if let Some(error) = refuses {
            tracing::info!(
                "threads and processes of HTTP/3 pass packets on to each other after a client's address has changed: the kernel does \
                 not read connection IDs (SO_ATTACH_REUSEPORT_CBPF): {error}; Linux 4.5 and later can"
            );
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

    /// The number of the first process of the program that follows this one.
    fn successor(&self) -> u16 {
        let process = self.served.first().map(|one| one.shared.process());
        process.map_or(0, |process| process.wrapping_add(NEXT) & !LAST)
    }

    /// Opens channels to a successor that is about to start, for datagrams of its connections and of those here. It gets
    /// those to earlier programs, too. A channel that cannot be had is left out, with a word. For a server without worker
    /// processes; otherwise, see [`connect`] and [`share`].
    pub(super) fn share(&self) -> inherit::Forwarding {
        let process = self.successor();
        let mut channels = Vec::new();
        for one in &self.served {
            let earlier = one.handle.relays().inspect_err(complain).unwrap_or_default();
            let earlier = earlier.into_iter().filter(|(its, _)| *its & !LAST != process);
            channels.extend(earlier.map(|(its, channel)| (one.address, its, channel)));
        }
        for one in &self.served {
            // It may have worker processes.
            match Relay::pair(process | LAST) {
                Ok((relay, channel)) => {
                    one.handle.relay(relay);
                    channels.push((one.address, one.shared.process(), channel));
                }
                Err(error) => complain(&error),
            }
        }
        let passed = self.served.iter().filter(|one| one.are_passed);
        inherit::Forwarding {
            process,
            channels,
            passed: passed.map(|one| one.address).collect(),
        }
    }

    /// A successor receives from the sockets. Clients are told to go elsewhere, and requests under way are answered.
    pub(super) fn retire(&self) {
        let successor = self.successor();
        self.served
            .iter()
            .for_each(|one| one.handle.leave(successor, A_DAY));
    }

    /// A program starts in place of the successor, which has died. See [`Handle::expect`].
    pub(super) fn expect(&self) {
        self.served.iter().for_each(|one| one.handle.expect());
    }

    /// The program that was expected receives from the sockets. See [`Handle::follow`].
    pub(super) fn follow(&self) {
        let successor = self.successor();
        self.served.iter().for_each(|one| one.handle.follow(successor));
    }

    /// The successor has died, or the one that was expected has failed. See [`Handle::take_back`].
    pub(super) fn take_back(&self) {
        self.served.iter().for_each(|one| one.handle.take_back());
    }

    /// The parent of this worker process has died. See [`Handle::leave_to_others`].
    pub(super) fn leave_to_others(&self) {
        let successor = self.successor();
        let all = self.served.iter();
        all.for_each(|one| one.handle.leave_to_others(successor));
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

#[cfg(test)]
mod tests {
    use super::super::strategy::choose_all;
    use super::*;
    use server::config::Workers;
    use std::num::NonZeroUsize;

    #[test]
    fn numbers_are_of_the_program_and_its_processes() {
        assert_eq!(number_of(0, 0), Some(0));
        assert_eq!(number_of(0x0300, 255), Some(0x03ff));
        assert_eq!(number_of(0x0300, 256), None);
        // The last program is followed by the first.
        assert_eq!(0xff00_u16.wrapping_add(NEXT), 0);
    }

    #[test]
    fn a_process_has_its_inbox_and_the_ways_to_all() {
        let inboxes = |count: u16| {
            (0..count)
                .map(|one| Relay::inbox(0x0100 | one).expect("a channel"))
                .collect()
        };
        let own = siblings(inboxes(3), 0x0101).expect("it is one of three");
        assert_eq!(own.inbox.process(), 0x0101);
        let ways: Vec<u16> = own.ways.iter().map(Relay::process).collect();
        assert_eq!(ways, [0x0100, 0x0101, 0x0102]);
        assert!(siblings(Vec::new(), 0x0100).is_none());
    }

    #[test]
    fn only_sockets_of_ours_that_share_an_address_are_steered() {
        assert_eq!(Steering::of(true, 2, false), Steering::On);
        assert_eq!(Steering::of(false, 2, false), Steering::Off);
        for (is_wanted, sockets, are_passed) in [
            (true, 1, false),
            (true, 2, true),
            (false, 2, true),
            (false, 1, false),
        ] {
            let steering = Steering::of(is_wanted, sockets, are_passed);
            assert_eq!(
                steering,
                Steering::Unchanged,
                "{is_wanted} {sockets} {are_passed}"
            );
        }
        // The kernel has no group for a socket that shares nothing, and says so.
        let alone = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let applied = [Steering::On, Steering::Off, Steering::Unchanged]
            .map(|steering| steering.apply(&alone, 1).is_ok());
        assert_eq!(applied, [false, true, true]);
    }

    #[test]
    fn a_small_receive_buffer_is_told_with_its_remedy() {
        assert_eq!(of_little_room(4 << 20), None);
        let said = of_little_room((4 << 20) - 1).expect("it is too small");
        assert!(
            said.contains("to 4194303 bytes") && said.contains("`sysctl -w net.core.rmem_max=4194304`"),
            "{said}"
        );
    }

    #[test]
    fn a_kernel_without_segments_is_told_with_its_remedy() {
        assert_eq!(of_single_packets(true), None);
        let said = of_single_packets(false).expect("a system call for each");
        assert!(
            said.contains("UDP_SEGMENT") && said.contains("Linux 4.18"),
            "{said}"
        );
    }

    #[test]
    fn ports_that_cannot_be_had_are_told_with_a_remedy() {
        let address = SocketAddr::from(([192, 0, 2, 1], 443));
        for (kind, remedy) in [
            (
                io::ErrorKind::PermissionDenied,
                "ports below 1024 need CAP_NET_BIND_SERVICE",
            ),
            (
                io::ErrorKind::AddrNotAvailable,
                "set `http3 = false` to serve without HTTP/3",
            ),
        ] {
            let error = io::Error::from(kind);
            let failure = not_bound(address, &error);
            assert_eq!(failure.code(), 4, "a system call failed: {failure}");
            let said = failure.to_string();
            let begins = format!("cannot receive UDP at 192.0.2.1:443 for HTTP/3: {error}; {remedy}");
            assert!(said.starts_with(&begins), "{said}");
        }
    }

    #[test]
    fn strategies_without_http3_say_what_to_do() {
        let refusal = |concurrency, workers| {
            let config = Config {
                concurrency,
                workers: Workers::Fixed(NonZeroUsize::new(workers).expect("not zero")),
                ..Config::default()
            };
            let groups = choose_all(&config, 2).expect("a valid configuration");
            refusal(&groups[0].choice)
        };
        assert_eq!(refusal(Concurrency::Loops, 2), None);
        assert_eq!(refusal(Concurrency::ProcessLoops, 256), None);
        let many = refusal(Concurrency::ProcessLoops, 257).expect("a reason");
        assert!(many.contains("`workers = 256` or less"), "{many}");
        let one_each = refusal(Concurrency::Processes, 2).expect("a reason");
        assert!(one_each.contains("process-loops"), "{one_each}");
    }
}
