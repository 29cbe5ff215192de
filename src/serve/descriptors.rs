//! Divides the descriptor limit of a process between connections, cached open files and the process's own needs, so
//! that a server with few descriptors still serves. Decides numbers only; `runtime` and `server` enforce them.

use super::datagrams;
use super::strategy::Group;
use crate::failure::Failure;
use server::config::{Config, Host, Http3, Listener};

/// Descriptors for standard streams, signals (a pair for each of five), the root, a log of requests and one of messages, and the
/// watcher, for files being opened, and for connections that are accepted only to be refused.
const OWN: u64 = 20;
/// Descriptors per root of a host or a mount: the root itself, its watcher, and the waker of that.
const PER_ROOT: u64 = 3;
/// Descriptors per event loop: event queue, waker, listener, and both ends of the pipe for long files. Blocking workers need none
/// of their own.
const PER_LOOP: u64 = 6;
/// Descriptors for HTTP/3 at an address in a worker process, besides the ways to the inboxes of all processes: socket, inbox,
/// channels to earlier and later programs.
const PER_UDP: u64 = 4;
/// Descriptors for HTTP/3 per thread and address without worker processes: socket, its copy for a successor, waker, event queue
/// for upstreams.
const PER_UDP_THREAD: u64 = 4;
/// Cached open files get at most `1 / FILES_SHARE` of the descriptors.
const FILES_SHARE: u64 = 8;

/// Hosts and mounts leave at least this many connections to each process, or the server does not start.
const CONNECTIONS_MIN: u64 = 64;

/// Limits on the descriptors of each use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// The descriptor limit of the process (`ulimit -n`).
    pub(crate) total: u64,
    /// Connections for which the descriptors of one process suffice; the configuration may allow fewer.
    pub(crate) connections: u64,
    /// Number of serving processes.
    pub(crate) processes: u64,
    /// Files that the cache may keep open.
    pub(crate) files: u32,
    /// Descriptors of one process for the roots of hosts and mounts.
    pub(crate) roots: u64,
    /// Descriptors of one process for all but connections and cached files.
    pub(crate) own: u64,
}

impl Shares {
    /// Divides `total`. Each use gets at least one descriptor.
    pub(crate) fn of(total: u64, config: &Config, groups: &[Group]) -> Shares {
        let files = u64::from(config.cache_files).min((total / FILES_SHARE).max(1));
        // A strategy of processes is the only one of its server.
        let of_processes = groups.iter().find(|group| group.choice.is_of_processes());
        let processes = of_processes.map_or(1, |group| group.choice.workers as u64);
        let loops_of = |group: &Group| match group.choice.is_of_loops() {
            true => group.choice.workers as u64 / processes,
            false => 1,
        };
        let loops: u64 = groups.iter().map(loops_of).sum();
        // The first log is among `OWN`.
        let logs = config.access_logs().len().saturating_sub(1) as u64;
        let mounts_of = |host: &Host| host.mount.as_ref().unwrap_or(&config.mount).len();
        let of_hosts: usize = config.host.iter().map(|host| 1 + mounts_of(host)).sum();
        let roots = PER_ROOT * (config.mount.len() + of_hosts) as u64;
        let over_udp = match of_processes {
            _ if config.http3 == Http3::Off => 0,
            Some(group) if datagrams::refusal(&group.choice).is_some() => 0,
            Some(_) => (PER_UDP + processes) * secured(config),
            None => PER_UDP_THREAD * datagrams::threads() as u64 * secured(config),
        };
        let own = OWN + PER_LOOP * loops + logs + roots + over_udp;
        Shares {
            total,
            connections: total.saturating_sub(files + own).max(1),
            processes,
            files: u32::try_from(files).unwrap_or(u32::MAX),
            roots,
            own,
        }
    }

    /// Refuses hosts and mounts that leave too few descriptors to connections.
    ///
    /// # Errors
    /// `System`, with the limit that suffices.
    pub(crate) fn refuse(&self) -> Result<(), Failure> {
        if self.roots == 0 || self.connections >= CONNECTIONS_MIN {
            return Ok(());
        }
        let Shares { total, roots, .. } = self;
        // Cached files may take their fraction of the limit.
        let enough = (self.own + CONNECTIONS_MIN) * FILES_SHARE / (FILES_SHARE - 1) + 1;
        Err(Failure::System(format!(
            "the descriptor limit of {total} is too low: roots of hosts and mounts need {roots} descriptors, which leaves fewer than \
             {CONNECTIONS_MIN} connections; raise `ulimit -n` (LimitNOFILE= of a unit) to {enough} or more"
        )))
    }

    /// Connections for which the descriptors of all processes suffice.
    pub(crate) fn connections_in_all(&self) -> u64 {
        self.connections.saturating_mul(self.processes)
    }

    /// The connection limit in force: the smaller of descriptors and `--max-connections`.
    pub(crate) fn can_be_open(&self, config: &Config) -> u32 {
        let most = self.connections_in_all().min(config.max_connections.into());
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// Whether descriptors, not the configuration, set the connection limit.
    pub(crate) fn are_short(&self, config: &Config) -> bool {
        self.connections_in_all() < config.max_connections.into()
    }
}

/// Addresses with TLS, which HTTP/3 may use, too.
fn secured(config: &Config) -> u64 {
    let is_secured = |listener: &Listener| listener.tls.is_some() && !listener.is_admin;
    let listeners = config.listeners().into_iter().filter(is_secured);
    listeners.map(|listener| listener.address.0.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::super::strategy::choose_all;
    use super::*;
    use server::config::{Concurrency, Workers};
    use std::num::NonZeroUsize;

    #[test]
    fn connections_get_what_is_left() {
        let config = Config::default();
        let groups = choose_all(&config, 2).expect("a valid configuration");
        let of = |total| {
            let shares = Shares::of(total, &config, &groups);
            (shares.connections, shares.files, shares.are_short(&config))
        };
        assert_eq!(of(0), (1, 1, true));
        assert_eq!(of(64), (24, 8, true));
        assert_eq!(of(1024), (864, 128, true));
        assert_eq!(of(20_000), (17_920, 2048, true));
        assert_eq!(of(1 << 20), (1_046_496, 2048, false));
    }

    #[test]
    fn hosts_and_mounts_need_descriptors() {
        let of = |text: &str| {
            let config = Config::from_toml(text, "w.toml").expect("valid");
            let groups = choose_all(&config, 2).expect("a valid configuration");
            Shares::of(10_000, &config, &groups).connections
        };
        let host = "[[host]]\nnames = ['a']\nroot = 'a'\n";
        let mount = "[[mount]]\npath = '/m/'\nroot = 'm'\n";
        assert_eq!(of("") - of(host), PER_ROOT);
        assert_eq!(of("") - of(mount), PER_ROOT);
        // The host inherits the mount, or has none.
        assert_eq!(of("") - of(&format!("{mount}{host}")), 3 * PER_ROOT);
        assert_eq!(of("") - of(&format!("{mount}{host}mount = []\n")), 2 * PER_ROOT);
    }

    #[test]
    fn hosts_and_mounts_leave_descriptors_to_connections() {
        let mount = "[[mount]]\npath = '/m/'\nroot = 'm'\n";
        let config = Config::from_toml(mount, "w.toml").expect("valid");
        let groups = choose_all(&config, 2).expect("a valid configuration");
        let of = |total| Shares::of(total, &config, &groups).refuse();
        let Err(Failure::System(why)) = of(100) else {
            panic!("100 descriptors suffice");
        };
        let wanted = "limit of 100 is too low: roots of hosts and mounts need 3 descriptors";
        assert!(why.contains(wanted), "{why}");
        let (_, rest) = why.rsplit_once(" to ").expect("a number");
        let (enough, _) = rest.split_once(' ').expect("a number");
        let enough: u64 = enough.parse().expect("a number");
        assert!(of(enough).is_ok() && of(enough - 4).is_err(), "{why}");
        // Without hosts and mounts, few descriptors are enough for a small site.
        let config = Config::default();
        assert!(Shares::of(64, &config, &groups).refuse().is_ok());
    }

    #[test]
    fn worker_processes_need_ways_to_each_other_for_http3() {
        let of = |http3, workers| {
            let config = Config {
                concurrency: Concurrency::ProcessLoops,
                workers: Workers::Fixed(NonZeroUsize::new(workers).expect("not zero")),
                tls_cert: vec!["a.pem".into()],
                tls_key: vec!["a.key".into()],
                http3,
                ..Config::default()
            };
            let groups = choose_all(&config, 2).expect("a valid configuration");
            Shares::of(10_000, &config, &groups).connections
        };
        assert_eq!(of(Http3::Off, 2) - of(Http3::On, 2), 6);
        assert_eq!(of(Http3::Off, 64) - of(Http3::Auto, 64), 68);
        // Too many to serve it.
        assert_eq!(of(Http3::Off, 300), of(Http3::Auto, 300));
    }

    #[test]
    fn threads_of_http3_need_descriptors_where_there_is_tls() {
        let of = |http3, tls_cert: Vec<std::path::PathBuf>| {
            let config = Config {
                tls_key: tls_cert.clone(),
                tls_cert,
                http3,
                ..Config::default()
            };
            let groups = choose_all(&config, 2).expect("a valid configuration");
            Shares::of(10_000, &config, &groups).connections
        };
        let pem = || vec!["a.pem".into()];
        let of_threads = PER_UDP_THREAD * datagrams::threads() as u64;
        assert_eq!(of(Http3::Off, pem()) - of(Http3::Auto, pem()), of_threads);
        assert_eq!(of(Http3::Off, Vec::new()), of(Http3::Auto, Vec::new()));
    }

    #[test]
    fn workers_without_an_event_loop_need_no_descriptors() {
        let config = Config {
            concurrency: Concurrency::Pool,
            workers: Workers::Fixed(NonZeroUsize::new(64).expect("not zero")),
            ..Config::default()
        };
        let groups = choose_all(&config, 2).expect("a valid configuration");
        assert_eq!(Shares::of(200, &config, &groups).connections, 149);
    }
}
