//! Sources of listening sockets: a service manager, the predecessor in an upgrade in place, or the configuration.
//! Decides which sockets to use; `runtime::listen` and `runtime::process::inherit` open and adopt them.

use super::strategy::{Choice, Group};
use crate::failure::Failure;
use runtime::datagram;
use runtime::listen::{self, Address, FileRights, Listener, Listening, Origin};
use runtime::process::inherit::{Bounds, Datagrams, Forwarding, Legacy, Predecessor, Secret};
use runtime::process::notify;
use runtime::process::privilege::Account;
use runtime::shaping::Shaping;
use server::config::{Concurrency, Config, Http3, Listen};
use std::io;
use std::os::fd::OwnedFd;

/// For each listening socket, whether trusted peers begin with a header of the PROXY protocol. Sockets of a service manager
/// whose address the configuration does not name are those of the short form.
pub(super) fn announced(config: &Config, listeners: &[Listener]) -> Vec<bool> {
    let configured = config.listeners();
    let is_announced = |listener: &Listener| {
        let asked = match listener.sockets().origin() {
            Origin::Bound(asked) | Origin::Surplus(asked) => asked,
            Origin::Passed => listener.address(),
        };
        let named = configured.iter().find(|one| one.address.0.contains(&asked));
        named.map_or(config.proxy_protocol, |one| one.proxy_protocol)
    };
    listeners.iter().map(is_announced).collect()
}

/// What this process inherits.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Sockets by configured address; `None` for one that a service manager opened.
    sockets: Vec<(Option<Address>, Vec<OwnedFd>)>,
    /// UDP sockets of the predecessor, or of a service manager.
    pub(crate) datagrams: Vec<Datagrams>,
    /// Whether a service manager opened them.
    pub(crate) are_passed: bool,
    /// Channels to earlier processes whose connections go on over these.
    pub(crate) forwarding: Forwarding,
    /// Restrictions (Landlock, seccomp) inherited from the predecessor.
    pub(crate) bounds: Bounds,
    /// Ticket keys of the predecessor; empty if there are none.
    pub(crate) secret: Secret,
}

impl Given {
    /// Looks for a predecessor and for sockets of a service manager. Call this before anything opens descriptors.
    ///
    /// # Errors
    /// `System`, if the handover or the passed sockets cannot be read.
    pub(crate) fn find() -> Result<(Option<Predecessor>, Given), Failure> {
        let before = Predecessor::find().map_err(|error| {
            Failure::System(format!(
                "cannot take the sockets over from the previous process: {error}"
            ))
        })?;
        if let Some((predecessor, legacy)) = before {
            let Legacy {
                sockets,
                datagrams,
                forwarding,
                bounds,
                secret,
            } = legacy;
            return Ok((
                Some(predecessor),
                Given {
                    sockets,
                    datagrams,
                    are_passed: false,
                    forwarding,
                    bounds,
                    secret,
                },
            ));
        }
        let passed = notify::passed_sockets().map_err(|error| {
            Failure::System(format!("cannot use the sockets announced by LISTEN_FDS: {error}"))
        })?;
        let mut given = Given {
            are_passed: true,
            ..Given::default()
        };
        for (_, socket) in passed {
            let Some(address) = datagram::adopt(&socket) else {
                given.sockets.push((None, vec![socket]));
                continue;
            };
            match given.datagrams.iter_mut().find(|(known, _)| *known == address) {
                Some((_, of_address)) => of_address.push(socket),
                None => given.datagrams.push((address, vec![socket])),
            }
        }
        Ok((None, given))
    }
}

/// Listens on the sockets of a service manager if it passed any; otherwise on every configured address, with the
/// predecessor's sockets where it had that address too. Takes the sockets out of `given`. Returns the listeners of each
/// group; sockets of a service manager join the group with their address, otherwise the first.
///
/// # Errors
/// `System`, naming the address, the program that occupies it, and what to do.
pub(crate) fn open(
    config: &Config,
    groups: &[Group],
    given: &mut Given,
) -> Result<Vec<Vec<Listener>>, Failure> {
    let no_delay = !config.behavior.nagle;
    let sockets = std::mem::take(&mut given.sockets);
    let (passed, mut bound): (Vec<_>, Vec<_>) = sockets.into_iter().partition(|(asked, _)| asked.is_none());
    if !passed.is_empty() {
        if config.listen != Listen::default() || !config.listener.is_empty() {
            tracing::info!("ignored the configured addresses: the service manager passed sockets");
        }
        let how = Listening {
            no_delay,
            send_buffer: send_buffer(config),
            paced: config.pacing,
            unsent: config.shaping().map(Shaping::unsent_max),
            ..Listening::default()
        };
        let mut listeners = vec![Vec::new(); groups.len()];
        for (_, sockets) in passed {
            let listener = Listener::adopt(Origin::Passed, sockets, how)
                .map_err(|error| not_taken("the service manager", &error))?;
            let address = listener.address();
            let at = groups.iter().position(|group| group.addresses.contains(&address));
            listeners[at.unwrap_or(0)].push(listener);
        }
        return Ok(listeners);
    }
    let all: Vec<&Address> = config.addresses().collect();
    let mut opened = Vec::new();
    for group in groups {
        let listeners = open_group(config, group, &all, &mut bound, given.bounds.confined.is_some())?;
        opened.push(listeners);
    }
    Ok(opened)
}

/// Listens on the addresses of one group. `all` are the addresses of all groups, `bound` the predecessor's sockets.
fn open_group(
    config: &Config,
    group: &Group,
    all: &[&Address],
    bound: &mut Vec<(Option<Address>, Vec<OwnedFd>)>,
    is_confined: bool,
) -> Result<Vec<Listener>, Failure> {
    let queues = queues(&group.choice);
    let mut listeners = Vec::new();
    for address in &group.addresses {
        let how = Listening {
            file: file_rights(config, address)?,
            both_families: takes_both(address, all),
            no_delay: !config.behavior.nagle,
            send_buffer: send_buffer(config),
            paced: config.pacing,
            unsent: config.shaping().map(Shaping::unsent_max),
            ..Listening::default()
        };
        let taken = |error: &io::Error| taken(address, error, is_confined);
        let Some(at) = bound
            .iter()
            .position(|(asked, _)| asked.as_ref() == Some(address))
        else {
            let listener = bind(address, how, config.http3 != Http3::Off).map_err(|error| taken(&error))?;
            listener.reserve(queues).map_err(|error| taken(&error))?;
            listeners.push(listener);
            continue;
        };
        let (_, sockets) = bound.swap_remove(at);
        let mut sockets = sockets.into_iter().peekable();
        let mut origin = Origin::Bound(address.clone());
        // Every socket needs a worker that accepts, even if there are fewer workers than before.
        while sockets.peek().is_some() {
            let some = sockets.by_ref().take(queues).collect();
            let adopted = Listener::adopt(origin.clone(), some, how);
            let listener = adopted.map_err(|error| not_taken("the previous process", &error))?;
            // If more sockets cannot be bound (dropped rights), workers share the existing ones.
            let _ = listener.reserve(queues);
            listeners.push(listener);
            origin = Origin::Surplus(address.clone());
        }
    }
    Ok(listeners)
}

/// How often the kernel chooses a port until it is free for UDP, too.
const CHOICES_MAX: usize = 16;

/// Listens on an address. If the kernel chooses the port and HTTP/3 is wanted, it is one that UDP can have, too.
fn bind(address: &Address, how: Listening, wants_udp: bool) -> io::Result<Listener> {
    let is_chosen = address.tcp().is_some_and(|address| address.port() == 0);
    let mut listener = Listener::bind(address.clone(), how)?;
    for _ in 0..CHOICES_MAX {
        let chosen = listener.address().tcp().filter(|_| is_chosen && wants_udp);
        if chosen.is_none_or(|chosen| datagram::bind(chosen, 1, false).is_ok()) {
            break;
        }
        listener = Listener::bind(address.clone(), how)?;
    }
    Ok(listener)
}

/// The configured size of send buffers in bytes; `None`: the kernel decides.
pub(crate) fn send_buffer(config: &Config) -> Option<usize> {
    usize::try_from(config.send_buffer.0)
        .ok()
        .filter(|bytes| *bytes > 0)
}

/// The addresses listened on, each once.
pub(crate) fn addresses(listeners: &[Listener]) -> Vec<Address> {
    listeners
        .iter()
        .filter(|listener| !matches!(listener.sockets().origin(), Origin::Surplus(_)))
        .map(Listener::address)
        .collect()
}

/// Sockets that a strategy has for each address: one per worker for event loops in threads. Other threads share one
/// socket. Processes share one too, so that its accept queue survives the death of a process.
pub(crate) fn queues(choice: &Choice) -> usize {
    match choice.concurrency {
        Concurrency::Loops => choice.workers,
        Concurrency::Loop
        | Concurrency::ProcessLoops
        | Concurrency::Pool
        | Concurrency::ThreadPerConnection
        | Concurrency::ThreadPerRequest
        | Concurrency::Processes => 1,
    }
}

/// `[::]` accepts IPv4 too, unless `0.0.0.0` is configured with the same port.
pub(crate) fn takes_both(address: &Address, all: &[&Address]) -> bool {
    let Some(address) = address.tcp() else {
        return false;
    };
    let is_v4_twin = |other: std::net::SocketAddr| {
        other.is_ipv4() && other.ip().is_unspecified() && other.port() == address.port()
    };
    address.ip().is_unspecified() && !all.iter().filter_map(|one| one.tcp()).any(is_v4_twin)
}

fn not_taken(from: &str, error: &io::Error) -> Failure {
    Failure::System(format!(
        "cannot take over a socket of {from}: {error}; pass listening stream sockets (ListenStream=), and UDP sockets for \
         HTTP/3 (ListenDatagram=)"
    ))
}

/// An error about an address that cannot be bound: the program that occupies it, and what to do.
fn taken(address: &Address, error: &io::Error, is_confined: bool) -> Failure {
    let address = match address {
        Address::Tcp(address) => *address,
        Address::Unix(_) => return path_taken(address, error, is_confined),
    };
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            let who = listen::owner(address)
                .map(|owner| format!("{} (process {}) uses it; ", owner.name, owner.pid))
                .unwrap_or_default();
            format!("{who}stop that program or choose another address with --listen ADDR:PORT")
        }
        io::ErrorKind::PermissionDenied if is_confined => {
            "Landlock confined the previous process, and so this one, to the ports of its start; another port needs \
             a restart"
                .to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need CAP_NET_BIND_SERVICE; choose another with --listen ADDR:PORT".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "no interface of this machine has that address; choose another with --listen ADDR:PORT".to_owned()
        }
        _ => "choose another address with --listen ADDR:PORT".to_owned(),
    };
    Failure::System(format!("cannot listen on {address}: {error}; {advice}"))
}

/// An error about a Unix socket that cannot be made, and what to do.
fn path_taken(address: &Address, error: &io::Error, is_confined: bool) -> Failure {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "stop the program that listens there, or choose another path",
        io::ErrorKind::AlreadyExists => "remove the file, or choose another path",
        io::ErrorKind::NotFound => "make the directory first",
        io::ErrorKind::PermissionDenied if is_confined => {
            "Landlock confined the previous process, and so this one; another socket needs a restart"
        }
        io::ErrorKind::PermissionDenied => {
            "let this user write the directory, and belong to the group of `socket-owner`"
        }
        _ => "choose another path with --listen unix:/PATH",
    };
    Failure::System(format!("cannot listen on {address}: {error}; {advice}"))
}

/// Who may connect to an address that is a Unix socket: as its listener says, else the user that the server becomes.
///
/// # Errors
/// `Usage` for a user or group that does not exist.
fn file_rights(config: &Config, address: &Address) -> Result<FileRights, Failure> {
    if address.path().is_none() {
        return Ok(FileRights::default());
    }
    let listeners = config.listeners();
    let of = listeners.iter().find(|one| one.address.0.contains(address));
    let mode = of.and_then(|one| one.socket_mode).unwrap_or_default().0;
    let owner = of
        .and_then(|one| one.socket_owner.as_ref())
        .or(config.user.as_ref());
    let owner = owner
        .map(|user| Account::find(&user.name, user.group.as_deref()))
        .transpose()
        .map_err(|error| Failure::Usage(format!("the owner of {address}: {error}; name one that exists")))?
        // A process without rights may name itself.
        .filter(|account| !account.is_current())
        .map(|account| (account.uid(), account.gid()));
    Ok(FileRights { mode, owner })
}
