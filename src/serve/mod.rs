//! `weir serve`: puts a configuration, a site, listeners and workers together, says so, and then does
//! what signals ask for until the end.
//!
//! ```text
//!   start ──▶ RUNNING ── HUP: read again, validate ──▶ RUNNING (new, or old and a complaint)
//!                │ ───── USR1: open the log again ───▶ RUNNING
//!                │ TERM, INT
//!                ▼
//!            DRAINING ── all done, grace over, or a second TERM or INT ──▶ CLOSING THE LOG
//!                        all written, grace over, or a further TERM or INT ──▶ end
//! ```

mod access_log;
mod descriptors;
mod processes;
mod report;
mod strategy;

use crate::cli::serve::Flags;
use crate::cli::{Cli, Failure, Voice};
use crate::demo;
use access_log::AccessLog;
use descriptors::Shares;
use measure::{Duration, Instant, Seed, UnixTime};
use report::Started;
use runtime::herd::Member;
use runtime::listen::{self, Listener, Listening};
use runtime::signal::{Signal, Signals};
use runtime::strategy::{self as drivers, Handle, Limits};
use runtime::{clock, machine};
use server::config::{Concurrency, Config, LiveFor};
use server::peers::Peers;
use server::site::{OpenError, Source};
use server::{About, LogSink, Server};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use strategy::{Choice, choose};

/// `Last-Modified` of the embedded site: the day it was made, so that a rebuild changes nothing.
const DEMO_MODIFIED: UnixTime = UnixTime {
    secs: 1_795_219_200,
    nanos: 0,
};
/// The embedded site's own page for what is missing.
const DEMO_NOT_FOUND: (&str, &str) = ("404", "/404.html");
/// How often a draining server looks whether all is done.
const DRAIN_TICK: Duration = Duration::from_millis(10);
/// What a log has to write its last lines, even if the connections took all patience there was.
const LOG_GRACE: Duration = Duration::from_secs(1);

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for a configuration that cannot be, `System` for what the system refuses.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    let began = clock::now();
    voice.listen();
    Cli::warn_of_misspelt_variables();
    let mut config = configuration(flags)?;
    let choice = choose(&config, machine::usable_cores())?;
    if flags.check {
        return check(config, flags, voice);
    }
    if choice.is_of_processes() {
        return processes::run(flags, voice, config, &choice, began);
    }
    let mut signals = Signals::take_over().map_err(|error| refused("signal handlers", &error))?;
    let shares = Shares::of(machine::raise_descriptor_limit(), &config, &choice);
    fit(&mut config, &choice, &shares);
    let log = AccessLog::open(config.access_log.as_deref(), None)?;
    let server = Arc::new(open(config.clone(), Peers::default(), log.as_ref(), flags)?);
    let listeners = bind(&config.listen.0)?;
    server.set_about(about(&choice, None));
    let workers = start(&server, &choice, &listeners, &shares)?;
    let addresses: Vec<_> = listeners.iter().map(Listener::address).collect();
    // From here on only the workers hold the sockets: they close them when they drain.
    drop(listeners);
    let started = Started {
        config: &config,
        choice: &choice,
        addresses: &addresses,
        embedded: config.root.is_none().then(demo_size),
        shares,
        took: clock::now().since(began),
    };
    announce(&started, voice);
    let mut operator = Operator {
        flags,
        server,
        log,
        earlier_logs: Vec::new(),
        descriptors: shares.total,
        member: None,
    };
    let until = operator.run(&mut signals, &workers)?;
    workers.join().map_err(|error| refused("a worker", &error))?;
    operator.close_logs(&mut signals, until)?;
    tracing::info!("stopped");
    Ok(())
}

/// Makes a configuration fit what a process may have: its share of the cache where there are several.
fn fit(config: &mut Config, choice: &Choice, shares: &Shares) {
    let processes = shares.processes.max(1);
    config.cache_size = measure::Bytes(config.cache_size.0 / processes);
    config.cache_files = match u32::try_from(processes) {
        Ok(processes) => (shares.files / processes).max(1),
        Err(_) => 1,
    };
    // Instances of inotify are few (fs.inotify.max_user_instances), and those processes many.
    config.change_events = choice.concurrency != Concurrency::Processes;
}

/// What the server shows of itself beyond what it knows.
fn about(choice: &Choice, process: Option<u32>) -> About {
    About {
        strategy: format!(
            "{} over {}, {} workers",
            choice.concurrency, choice.io, choice.workers
        ),
        started: clock::wall(),
        process,
    }
}

/// The configuration of the flags; the embedded site brings its own error page.
fn configuration(flags: &Flags) -> Result<Config, Failure> {
    let mut config = flags.configuration()?;
    if config.root.is_none() && config.live == LiveFor::Nobody {
        // The demonstration shows everything there is to see, to whoever sits at this machine.
        config.live = LiveFor::Local;
    }
    if config.root.is_none() && config.error_pages.is_empty() {
        let (status, page) = DEMO_NOT_FOUND;
        config.error_pages.insert(status, page).map_err(Failure::Usage)?;
    }
    Ok(config)
}

/// `--check`: everything that can be known without listening.
fn check(config: Config, flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    let root = config.root.clone();
    open(config, Peers::default(), None, flags)?;
    if voice.json {
        println!(
            "{}",
            serde_json::json!({ "event": "checked", "valid": true, "root": root })
        );
        return Ok(());
    }
    let what = root
        .as_deref()
        .map_or("the embedded site".into(), Path::to_string_lossy);
    println!("the configuration is valid; it serves {what}");
    Ok(())
}

fn open(
    config: Config,
    peers: Peers,
    log: Option<&Arc<AccessLog>>,
    flags: &Flags,
) -> Result<Server, Failure> {
    let wall = clock::wall();
    let seed = Seed(u64::from(wall.nanos) << 32 ^ wall.secs.unsigned_abs() ^ u64::from(std::process::id()));
    Server::open_among(peers, config, embedded(), sink(log), seed).map_err(|error| unservable(&error, flags))
}

fn sink(log: Option<&Arc<AccessLog>>) -> Option<Arc<dyn LogSink>> {
    log.map(|log| Arc::clone(log) as Arc<dyn LogSink>)
}

fn embedded() -> Source {
    Source::Embedded {
        files: demo::FILES,
        modified: DEMO_MODIFIED,
    }
}

/// Files and bytes of the embedded site.
fn demo_size() -> (usize, usize) {
    (
        demo::FILES.len(),
        demo::FILES.iter().map(|(_, content)| content.len()).sum(),
    )
}

fn start(
    server: &Arc<Server>,
    choice: &Choice,
    listeners: &[Listener],
    shares: &Shares,
) -> Result<Handle, Failure> {
    let limits = limits(shares);
    drivers::serve(choice.strategy()?, listeners, server, limits).map_err(|error| refused("workers", &error))
}

fn limits(shares: &Shares) -> Limits {
    Limits {
        connections_max: usize::try_from(shares.connections).unwrap_or(usize::MAX),
        ..Limits::default()
    }
}

/// Says what was started: to a program on standard output, to a person on standard error.
fn announce(started: &Started<'_>, voice: &Voice) {
    if voice.json {
        let mut out = io::stdout().lock();
        // Nobody reads it: that is no reason not to serve.
        let _ = writeln!(out, "{}", started.json()).and_then(|()| out.flush());
    }
    if voice.reports() {
        let _ = io::stderr().write_all(started.text(voice.color()).as_bytes());
    }
}

/// Does what signals ask for.
struct Operator<'a> {
    flags: &'a Flags,
    server: Arc<Server>,
    log: Option<Arc<AccessLog>>,
    /// Those of earlier configurations that may still have something to write.
    earlier_logs: Vec<Arc<AccessLog>>,
    /// What this process may have.
    descriptors: u64,
    /// If this is a worker process: its founder then says what there is to say.
    member: Option<Member>,
}

impl Operator<'_> {
    /// Returns when the workers have ended: the instant until which patience lasts.
    fn run(&mut self, signals: &mut Signals, workers: &Handle) -> Result<Instant, Failure> {
        loop {
            match signals.wait(None).map_err(|error| refused("poll", &error))? {
                Some(Signal::Stop) => return self.drain(signals, workers),
                Some(Signal::Reload) => {
                    let wish = self.member.as_ref().map(Member::wish);
                    match (self.reload(), &self.member, wish) {
                        (true, Some(member), Some(wish)) => member.has_done(wish),
                        // The founder found it valid, so it changed since; whoever takes this one's place
                        // has what was valid.
                        (false, Some(_), _) => return self.drain(signals, workers),
                        _ => {}
                    }
                }
                Some(Signal::ReopenLogs) => match &self.log {
                    Some(log) => log.reopen(),
                    None => tracing::warn!("SIGUSR1: there is no access log to open again"),
                },
                None => {}
            }
        }
    }

    /// Whether the new configuration is in force.
    fn reload(&mut self) -> bool {
        let outcome = self.try_reload();
        if let Err(failure) = &outcome {
            complain_of_reload(failure);
        }
        outcome.is_ok()
    }

    fn try_reload(&mut self) -> Result<(), Failure> {
        let mut next = configuration(self.flags)?;
        let choice = match &self.member {
            // It goes on being what it is.
            Some(_) => choose(&self.server.config(), machine::usable_cores())?,
            None => choose(&next, machine::usable_cores())?,
        };
        let shares = Shares::of(self.descriptors, &next, &choice);
        fit(&mut next, &choice, &shares);
        let waiting = next.needs_restart(&self.server.config());
        let log = AccessLog::open(next.access_log.as_deref(), self.log.as_ref())?;
        self.server
            .reload(next, sink(log.as_ref()))
            .map_err(|error| unservable(&error, self.flags))?;
        self.earlier_logs.extend(std::mem::replace(&mut self.log, log));
        if let Some(log) = &self.log {
            self.earlier_logs.retain(|earlier| !Arc::ptr_eq(earlier, log));
        }
        self.earlier_logs.retain(|earlier| !earlier.is_finished());
        for unused in self
            .earlier_logs
            .iter()
            .filter(|earlier| Arc::strong_count(earlier) == 1)
        {
            unused.close();
        }
        if self.member.is_none() {
            say_reloaded(&waiting, self.flags);
        }
        Ok(())
    }

    fn drain(&self, signals: &mut Signals, workers: &Handle) -> Result<Instant, Failure> {
        let Config {
            grace, drain_delay, ..
        } = self.server.config();
        self.server.set_ready(false);
        if drain_delay > Duration::ZERO {
            tracing::info!("not ready any more; connections are taken for another {drain_delay:?}");
            let until = clock::now() + drain_delay;
            while clock::now() < until {
                let left = until.since(clock::now());
                let signal = signals
                    .wait(Some(left))
                    .map_err(|error| refused("poll", &error))?;
                if signal == Some(Signal::Stop) {
                    break;
                }
            }
        }
        let mut until = clock::now() + grace;
        if self.member.is_none() {
            say_stopping(workers.open(), grace);
        }
        workers.drain(grace);
        while !workers.is_finished() {
            let signal = signals
                .wait(Some(DRAIN_TICK))
                .map_err(|error| refused("poll", &error))?;
            if signal == Some(Signal::Stop) {
                if self.member.is_none() {
                    tracing::warn!("stopping now: {} connections are cut off", workers.open());
                }
                workers.stop();
                until = clock::now();
            }
        }
        Ok(until)
    }

    /// Waits until the logs are written, at the most until patience ends or is ended by a signal:
    /// nobody may be reading the other end of a pipe.
    fn close_logs(&self, signals: &mut Signals, until: Instant) -> Result<(), Failure> {
        let logs = || self.log.iter().chain(&self.earlier_logs);
        logs().for_each(|log| log.close());
        let until = until.max(clock::now() + LOG_GRACE);
        while !logs().all(|log| log.is_finished()) {
            let signal = signals
                .wait(Some(DRAIN_TICK))
                .map_err(|error| refused("poll", &error))?;
            if signal == Some(Signal::Stop) || clock::now() >= until {
                logs().for_each(|log| log.abandon());
                break;
            }
        }
        Ok(())
    }
}

fn complain_of_reload(failure: &Failure) {
    tracing::error!("not reloaded, the old configuration stays: {failure}");
}

/// `waiting` are keys that cannot change while it runs.
fn say_reloaded(waiting: &[&str], flags: &Flags) {
    if waiting.is_empty() {
        tracing::info!("reloaded");
    } else {
        tracing::warn!(
            "reloaded, but {} will change at the next start only",
            waiting.join(", ")
        );
    }
    if flags.file().is_none() {
        tracing::info!("there is no --config FILE, so only the files served can have changed");
    }
}

fn say_stopping(open: usize, grace: Duration) {
    tracing::info!("stopping: {open} open connections have {grace:?} to finish");
}

/// Listens on every address. `[::]` takes IPv4 too, unless `0.0.0.0` is asked for with the same port.
fn bind(addresses: &[SocketAddr]) -> Result<Vec<Listener>, Failure> {
    let is_v4_twin = |address: &SocketAddr, other: &SocketAddr| {
        other.is_ipv4() && other.ip().is_unspecified() && other.port() == address.port()
    };
    addresses
        .iter()
        .map(|address| {
            let how = Listening {
                both_families: address.ip().is_unspecified()
                    && !addresses.iter().any(|other| is_v4_twin(address, other)),
                ..Listening::default()
            };
            Listener::bind(*address, how).map_err(|error| taken(*address, &error))
        })
        .collect()
}

fn unservable(error: &OpenError, flags: &Flags) -> Failure {
    match error {
        OpenError::Root(root, _) if root.is_file() => flags.blame_root(format!(
            "cannot serve `{}`: it is a file; name the directory that holds it",
            root.display()
        )),
        OpenError::Root(..) => flags.blame_root(format!("{error}; name a directory that can be read")),
        OpenError::Hosts(_) => Failure::Usage(error.to_string()),
        OpenError::Watch(_) => Failure::System(format!("{error}; is fs.inotify.max_user_instances reached?")),
    }
}

/// An address that cannot be had: who has it, and what to do.
fn taken(address: SocketAddr, error: &io::Error) -> Failure {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            let who = listen::owner(address)
                .map(|owner| format!("{} (process {}) has it; ", owner.name, owner.pid))
                .unwrap_or_default();
            format!("{who}stop that program or choose another address with --listen ADDR:PORT")
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

fn refused(what: &str, error: &io::Error) -> Failure {
    Failure::System(format!("{what}: {error}; the system refused, nothing is served"))
}
