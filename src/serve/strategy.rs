//! The strategy a configuration selects on this machine: concurrency, I/O back end, number of workers, and the reason
//! for each. Decides only; starts nothing.

use crate::cli::together::{self, Source};
use crate::failure::Failure;
use runtime::listen::Address;
use runtime::strategy::{Io, Manner, Refusal, Strategy, Writing, try_uring};
use server::config::{Concurrency, Config, IoKind, Workers};
use std::num::NonZeroUsize;
use units::Duration;

/// Blocking workers per usable core. Each serves one client and mostly waits, so there must be many more workers than
/// cores.
const WAITING_PER_CORE: usize = 64;
/// Limit on threads for `thread-per-connection`: the largest value of `--workers`.
const CONNECTION_THREADS: usize = 1024;
/// Limit on processes with one connection each: `MaxClients` of Apache 1.3.
const PROCESSES_MAX: usize = 256;

/// A strategy with every automatic value resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) concurrency: Concurrency,
    pub(crate) io: Io,
    pub(crate) workers: usize,
    /// How workers write, accept and read the clock.
    pub(crate) manner: Manner,
    /// Reasons for concurrency, I/O back end and number of workers, in this order.
    pub(crate) why: [String; 3],
}

/// Listeners that share a strategy and its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) choice: Choice,
    /// The configured addresses; port 0 stays 0.
    pub(crate) addresses: Vec<Address>,
    /// Limit on the connections open at these addresses, besides that of the whole server.
    pub(crate) connections_max: Option<u32>,
    /// Whether these are the admin addresses.
    pub(crate) is_admin: bool,
}

/// Chooses the strategy of every listener. Listeners with equal strategies share workers, unless one has a connection
/// limit of its own. The first group has the strategy of the top level if a listener uses it.
///
/// # Errors
/// `Usage` for settings that contradict each other.
pub(crate) fn choose_all(config: &Config, cores: usize) -> Result<Vec<Group>, Failure> {
    let mut groups: Vec<Group> = Vec::new();
    for listener in config.listeners() {
        let own = Config {
            concurrency: listener.concurrency.unwrap_or(config.concurrency),
            io: listener.io.unwrap_or(match listener.concurrency {
                // The back end of the top level may not suit another strategy.
                Some(_) => IoKind::Auto,
                None => config.io,
            }),
            workers: listener.workers.unwrap_or(match listener.concurrency {
                // One loop is enough for the few who read the figures.
                None if listener.is_admin && config.concurrency == Concurrency::Loops => {
                    Workers::Fixed(NonZeroUsize::MIN)
                }
                Some(_) => Workers::Auto,
                None => config.workers,
            }),
            ..config.clone()
        };
        let choice = choose(&own, cores)
            .and_then(|choice| passes_on_if_needed(choice, config))
            .map_err(|failure| failure.with(|_| at(&listener.address.0)))?;
        let connections_max = listener.max_connections;
        let shared = groups.iter_mut().find(|group| {
            group.choice == choice && group.connections_max.is_none() && connections_max.is_none()
        });
        match shared {
            Some(group) => group.addresses.extend(listener.address.0),
            None => groups.push(Group {
                choice,
                addresses: listener.address.0,
                connections_max,
                is_admin: listener.is_admin,
            }),
        }
    }
    let of_processes = groups.iter().find(|group| group.choice.is_of_processes());
    if let (Some(group), true) = (of_processes, groups.len() > 1) {
        if config.admin.is_some() {
            return Err(Failure::Usage(format!(
                "`{}` needs worker processes, which serve all addresses in one way: use a strategy of threads, or remove `[admin]`",
                group.choice.concurrency
            )));
        }
        return Err(Failure::Usage(format!(
            "`{}` needs worker processes, which serve all addresses in one way: give every `[[listener]]` that \
             strategy and none a `max-connections`, or use strategies of threads",
            group.choice.concurrency
        )));
    }
    Ok(groups)
}

/// Refuses a strategy that does not suit rules of the configuration by which requests are passed on.
///
/// # Errors
/// `Usage`, if the processes of the strategy cannot share the state of `[[uploads]]` rules, or if its workers cannot keep
/// connections for `[[proxy]]` rules.
fn passes_on_if_needed(choice: Choice, config: &Config) -> Result<Choice, Failure> {
    if config.has_uploads() && choice.is_of_processes() {
        return Err(Failure::Usage(format!(
            "`{}` cannot store uploads: locks and quota are in the memory of one process, and its processes share none; use \
             loops, loop, pool, thread-per-connection or thread-per-request, or remove the `[[uploads]]` rules",
            choice.concurrency
        )));
    }
    if config.proxies().next().is_none() || choice.concurrency.keeps_peers() {
        return Ok(choice);
    }
    Err(Failure::Usage(format!(
        "`{}` cannot keep connections to upstreams: its threads wait for one connection at a time; use loops, loop or \
         process-loops, or remove the `[[proxy]]` rules and `--proxy`",
        choice.concurrency
    )))
}

/// The addresses at fault, for the end of an error.
fn at(addresses: &[Address]) -> String {
    let addresses: Vec<String> = addresses.iter().map(Address::to_string).collect();
    format!(" (the listener {})", addresses.join(", "))
}

/// Chooses the strategy for this machine, with this many usable cores.
///
/// # Errors
/// `Usage` for settings that contradict each other.
pub(crate) fn choose(config: &Config, cores: usize) -> Result<Choice, Failure> {
    choose_where(config, cores, try_uring)
}

/// As [`choose`], with the attempt to set up io_uring as a parameter. It is called only if the configuration asks for
/// io_uring.
fn choose_where(
    config: &Config,
    cores: usize,
    uring: impl FnOnce() -> Result<(), Refusal>,
) -> Result<Choice, Failure> {
    let concurrency = config.concurrency;
    together::check(config, &|_| Source::Command).map_err(|wrong| Failure::Usage(wrong.why))?;
    let why_concurrency = match concurrency {
        Concurrency::Loops => "one event loop per worker: no shared connections, no locks",
        Concurrency::Loop => "a single event loop, as configured",
        Concurrency::ProcessLoops => "one event loop per process, as configured",
        Concurrency::Pool => "threads that serve one connection at a time, as configured",
        Concurrency::ThreadPerConnection => "one thread per connection, as configured",
        Concurrency::ThreadPerRequest => "one thread per request, as configured",
        Concurrency::Processes => "processes that serve one connection at a time, as configured",
    };
    let best = concurrency.best_io();
    let (io, why_io) = match config.io.asked() {
        None => (best, together::waits(concurrency).to_owned()),
        Some(Io::Uring) => match uring() {
            Ok(()) => (Io::Uring, "as configured".to_owned()),
            Err(refusal) => (best, format!("uring is unavailable: {refusal}")),
        },
        Some(asked) => (asked, "as configured".to_owned()),
    };
    let per_core = |count: usize| {
        let why = format!("{count} per usable core, because each blocks on one client");
        (cores * count, why)
    };
    let (workers, why_workers) = match (concurrency, config.workers) {
        (Concurrency::Loop, _) => (1, "a single event loop".to_owned()),
        (_, Workers::Fixed(count)) => (count.get(), "as configured".to_owned()),
        (Concurrency::Loops | Concurrency::ProcessLoops, Workers::Auto) => {
            (cores, "one per usable core".to_owned())
        }
        (Concurrency::Pool | Concurrency::ThreadPerRequest, Workers::Auto) => per_core(WAITING_PER_CORE),
        (Concurrency::ThreadPerConnection, Workers::Auto) => {
            (CONNECTION_THREADS, "upper limit; one per connection".to_owned())
        }
        (Concurrency::Processes, Workers::Auto) => (
            (cores * WAITING_PER_CORE).min(PROCESSES_MAX),
            "upper limit; one per connection and five idle".to_owned(),
        ),
    };
    Ok(Choice {
        concurrency,
        io,
        workers,
        manner: manner(config),
        why: [why_concurrency.to_owned(), why_io, why_workers],
    })
}

/// The part of a configuration that concerns the strategy; the server takes the rest.
fn manner(config: &Config) -> Manner {
    let behavior = &config.behavior;
    Manner {
        writing: Writing {
            split_head: behavior.split_head,
            most: match usize::try_from(behavior.write_size.0) {
                Ok(0) | Err(_) => usize::MAX,
                Ok(most) => most,
            },
            pause: Duration::from_micros(behavior.write_micros.into()),
            copies: behavior.copies,
        },
        fresh_clock: behavior.fresh_date,
        accept_lock: behavior.accept_lock,
        accept_pause: Duration::from_micros(behavior.connection_micros.into()),
        shaping: config.shaping(),
    }
}

impl Choice {
    /// Whether its workers are processes.
    pub(crate) fn is_of_processes(&self) -> bool {
        self.concurrency.is_of_processes()
    }

    /// Whether each worker has an event loop.
    pub(crate) fn is_of_loops(&self) -> bool {
        matches!(
            self.concurrency,
            Concurrency::Loop | Concurrency::Loops | Concurrency::ProcessLoops
        )
    }

    /// Converts to `runtime`'s own type.
    ///
    /// # Errors
    /// `Usage`, if `runtime` rejects the combination.
    pub(crate) fn strategy(&self) -> Result<Strategy, Failure> {
        let workers = NonZeroUsize::new(self.workers).unwrap_or(NonZeroUsize::MIN);
        Strategy::new(self.concurrency, self.io, workers)
            .and_then(|strategy| strategy.in_manner(self.manner))
            .map_err(usage)
    }

    /// A short description: `loops over epoll, 2 workers`.
    pub(crate) fn in_words(&self) -> String {
        format!("{} over {}, {} workers", self.concurrency, self.io, self.workers)
    }

    /// Settings and reasons in one line.
    pub(crate) fn why(&self) -> String {
        let [concurrency, io, workers] = &self.why;
        format!(
            "{}: {concurrency}; {}: {io}; {} {}: {workers}",
            self.concurrency,
            self.io,
            self.workers,
            if self.workers == 1 { "worker" } else { "workers" },
        )
    }
}

fn usage(error: runtime::strategy::StrategyError) -> Failure {
    Failure::Usage(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(concurrency: &str, io: &str, workers: &str) -> Result<(String, String, usize), String> {
        check_where(concurrency, io, workers, Ok(())).map(|choice| {
            (
                choice.concurrency.to_string(),
                choice.io.to_string(),
                choice.workers,
            )
        })
    }

    fn check_where(
        concurrency: &str,
        io: &str,
        workers: &str,
        uring: Result<(), Refusal>,
    ) -> Result<Choice, String> {
        let config = Config {
            concurrency: concurrency.parse()?,
            io: io.parse()?,
            workers: workers.parse()?,
            ..Config::default()
        };
        let choice = choose_where(&config, 4, || uring).map_err(|failure| failure.to_string())?;
        choice.strategy().expect("what is chosen can be started");
        Ok(choice)
    }

    #[test]
    fn listeners_share_workers_unless_they_differ() {
        let groups = |text: &str| {
            let config = Config::from_toml(text, "weir.toml").expect("a valid file");
            choose_all(&config, 2)
                .map(|groups| {
                    let words = |group: &Group| {
                        (
                            group.choice.in_words(),
                            group.addresses.len(),
                            group.connections_max,
                        )
                    };
                    groups.iter().map(words).collect::<Vec<_>>()
                })
                .map_err(|failure| failure.to_string())
        };
        let loops = || "loops over epoll, 2 workers".to_owned();
        let shared = "listen = [':1', ':2']\n[[listener]]\naddress = ':3'\n";
        assert_eq!(groups(shared), Ok(vec![(loops(), 3, None)]));
        let apart = format!("{shared}[[listener]]\naddress = ':4'\nconcurrency = 'pool'\nworkers = 3\n");
        assert_eq!(
            groups(&apart),
            Ok(vec![
                (loops(), 3, None),
                ("pool over blocking, 3 workers".to_owned(), 1, None)
            ])
        );
        let limited = format!("{shared}[[listener]]\naddress = ':4'\nmax-connections = 9\n");
        assert_eq!(
            groups(&limited),
            Ok(vec![(loops(), 3, None), (loops(), 1, Some(9))])
        );
        let mixed = format!("{shared}[[listener]]\naddress = ':4'\nconcurrency = 'processes'\n");
        assert!(groups(&mixed).is_err_and(|why| why.contains("worker processes")));
        let wrong = format!("{shared}[[listener]]\naddress = ':4'\nconcurrency = 'pool'\nio = 'uring'\n");
        assert!(groups(&wrong).is_err_and(|why| why.contains("[::]:4")));
    }

    #[test]
    fn a_strategy_that_cannot_store_uploads_is_refused_with_the_reason() {
        for (concurrency, reason) in [
            ("loops", None),
            ("loop", None),
            (
                "process-loops",
                Some("use loops, loop, pool, thread-per-connection"),
            ),
            ("processes", Some("use loops, loop, pool, thread-per-connection")),
            ("pool", None),
            ("thread-per-connection", None),
            ("thread-per-request", None),
        ] {
            let text = format!(
                "root = '.'\nconcurrency = '{concurrency}'\n[[uploads]]\npath = '/dav/'\nopen = true\n"
            );
            let config = Config::from_toml(&text, "weir.toml").expect("a valid file");
            let refused = choose_all(&config, 2)
                .map(drop)
                .map_err(|failure| failure.to_string());
            match (refused, reason) {
                (Ok(()), None) => {}
                (Err(why), Some(reason)) => {
                    assert!(
                        why.contains(reason) && why.contains("cannot store uploads"),
                        "{why}"
                    );
                }
                (refused, _) => panic!("{concurrency}: {refused:?}"),
            }
        }
    }

    #[test]
    fn nothing_is_left_open() {
        for (asked, got) in [
            (("loops", "auto", "auto"), ("loops", "epoll", 4)),
            (("loops", "epoll", "2"), ("loops", "epoll", 2)),
            (("loops", "uring", "auto"), ("loops", "uring", 4)),
            (("loop", "uring", "auto"), ("loop", "uring", 1)),
            (("loop", "auto", "auto"), ("loop", "epoll", 1)),
            (("loop", "auto", "1"), ("loop", "epoll", 1)),
            (("pool", "auto", "auto"), ("pool", "blocking", 256)),
            (("pool", "blocking", "10"), ("pool", "blocking", 10)),
            (("process-loops", "auto", "auto"), ("process-loops", "epoll", 4)),
            (("processes", "auto", "auto"), ("processes", "blocking", 256)),
            (
                ("thread-per-connection", "auto", "auto"),
                ("thread-per-connection", "blocking", 1024),
            ),
            (
                ("thread-per-request", "blocking", "auto"),
                ("thread-per-request", "blocking", 256),
            ),
        ] {
            let wanted = (got.0.to_owned(), got.1.to_owned(), got.2);
            assert_eq!(check(asked.0, asked.1, asked.2), Ok(wanted), "{asked:?}");
        }
    }

    #[test]
    fn contradictions_are_refused_with_a_way_out() {
        for (asked, fragment) in [
            (("pool", "epoll", "auto"), "use `--io blocking`"),
            (("pool", "uring", "auto"), "use `--io blocking`"),
            (("loops", "blocking", "auto"), "use `--io epoll` or `--io uring`"),
            (("processes", "epoll", "auto"), "use `--io blocking`"),
            (("process-loops", "blocking", "auto"), "processes with blocking"),
            (("loop", "auto", "3"), "use `--concurrency loops`"),
        ] {
            let error = check(asked.0, asked.1, asked.2).expect_err("a contradiction");
            assert!(error.contains(fragment), "{asked:?}: {error}");
        }
    }
    #[test]
    fn uring_where_it_is_refused_is_epoll_and_says_why() {
        for refusal in [
            Refusal::Absent,
            Refusal::Forbidden,
            Refusal::TooOld,
            Refusal::Memory,
        ] {
            for concurrency in ["loops", "loop"] {
                let choice = check_where(concurrency, "uring", "auto", Err(refusal)).expect("a fallback");
                assert_eq!(choice.io, Io::Epoll);
                let wanted = format!("epoll: uring is unavailable: {refusal}");
                assert!(choice.why().contains(&wanted), "{}", choice.why());
            }
            let unasked = check_where("loops", "auto", "auto", Err(refusal)).expect("epoll needs no ring");
            assert!(!unasked.why().contains("uring"));
        }
    }
}
