//! `weir serve`: assembles configuration, site, listeners and workers, reports the start, then obeys signals and
//! the control socket until shutdown. Decides the order of start and stop; `runtime` and `server` know strategies,
//! protocol and files.
//!
//! ```text
//!   start ──▶ RUNNING ── HUP: reload, validate ────────▶ RUNNING (new configuration, or the old one and an error)
//!                │ ───── USR1: reopen the log ─────────▶ RUNNING
//!                │ ───── USR2: start the new program ──▶ RUNNING until the new program serves, then
//!                │                       RETIRING ── idle connections may send one more request ──▶ DRAINING
//!                │                                   (until a second before the grace ends, or TERM or INT)
//!                │                       meanwhile, if the new program has crashed, USR2: start it again
//!                │ TERM, INT
//!                ▼
//!            DRAINING ── all done, grace over, or a second TERM or INT ──▶ CLOSING THE LOG
//!                        all written, grace over, or a further TERM or INT ──▶ exit
//! ```

mod access_log;
mod adaptation;
mod cache_folder;
mod check;
mod choices;
mod control;
mod datagrams;
mod descriptors;
mod drivers;
mod environment;
mod explain;
mod managed;
mod manager;
mod passwords;
mod processes;
mod qlog;
mod report;
mod rights;
mod sockets;
mod strategy;
mod tls;
mod traces;
mod upgrade;
mod versions;

use crate::cli::Cli;
use crate::cli::serve::Flags;
use crate::demo;
use crate::failure::Failure;
use crate::voice::Voice;
use access_log::{AccessLog, AccessLogs};
use adaptation::Adaptation;
pub(crate) use control::{Change, Wish};
use datagrams::Datagrams;
use descriptors::Shares;
use drivers::Drivers;
use managed::{Managed, Tending};
use manager::Heart;
use qlog::Qlog;
use report::Started;
use rights::Rights;
use runtime::control::Control;
use runtime::diagnostics::Diagnostics;
use runtime::listen::{Listening, Sockets};
use runtime::memory::{Bound, Budget};
use runtime::process::inherit::{Predecessor, Program};
use runtime::process::notify;
use runtime::process::prefork::{Member, Succession};
use runtime::shaping::Shaping;
use runtime::signal::{Signal, Signals};
use runtime::strategy::{Io, Limits};
use runtime::{clock, machine};
use server::config::{Concurrency, Config, Http3, Listen, LiveFor, MemoryBound};
use server::site::{OpenError, Source};
use server::{About, Additions, Interprocess, Server};
use sockets::Given;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use strategy::{choose, choose_all};
use tls::{Tls, Watch};
use traces::{Exporter, Target};
use units::{Duration, Instant, Seed, UnixTime};
use upgrade::{Outcome, Upgrade};
use versions::{To, Turn};

/// `Last-Modified` of the embedded site. Fixed, so that a rebuild does not invalidate client caches.
const DEMO_MODIFIED: UnixTime = UnixTime {
    secs: 1_795_392_000,
    nanos: 0,
};
/// The embedded site's error page for 404.
const DEMO_NOT_FOUND: (&str, &str) = ("404", "/404.html");
/// The cache gets at most this fraction of the memory limit: `1 / CACHE_SHARE`, or `1 / CACHE_SHARE_MAX` with an
/// explicit size. With more, the cache could leave too little for requests, and all would be rejected for good.
const CACHE_SHARE: u64 = 8;
const CACHE_SHARE_MAX: u64 = 2;
/// After a stop request, how long handshakes already under way are still accepted.
const LAST_CALL: Duration = Duration::from_millis(20);
/// After an upgrade in place: how long before the end of the grace idle connections are closed without another
/// response.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// After a stop, how long idle connections may send one more request, whose response announces the close. Long enough
/// for clients that send without pause, too short for an operator to notice.
const LAST_QUESTIONS: Duration = Duration::from_millis(250);
/// How often a draining server checks whether it is done.
const DRAIN_TICK: Duration = Duration::from_millis(10);
/// Time for the log to write its last lines, even if connections used up the whole grace.
const LOG_GRACE: Duration = Duration::from_secs(1);

/// Runs `weir serve` until it exits.
///
/// # Errors
/// `Usage` for an invalid configuration, `System` if a system call fails.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    // Before the first thread, and before anything copies the environment by reading all of it.
    let forgotten = environment::forget_the_rest();
    voice.listen();
    match forgotten {
        Ok(count) => tracing::debug!("erased {count} unused environment variables"),
        Err(error) => tracing::warn!(
            "unused environment variables stay in this process's memory: {error}; start it with a clean environment \
             (env -i) if they hold secrets"
        ),
    }
    Cli::warn_of_misspelt_variables();
    if flags.check {
        let config = configuration(flags)?;
        choose_all(&config, machine::usable_cores())?;
        return check::run(config, flags, voice);
    }
    if let Some(text) = &flags.explain {
        let config = configuration(flags)?;
        return explain::run(config, text, flags, voice);
    }
    let (mut predecessor, given) = Given::find()?;
    let outcome = serve(flags, voice, &mut predecessor, given);
    if let (Err(failure), Some(predecessor)) = (&outcome, predecessor) {
        predecessor.failed(&failure.to_string());
    }
    outcome
}

/// Serves until it exits. `predecessor` is taken once this process serves.
fn serve(
    flags: &Flags,
    voice: &Voice,
    predecessor: &mut Option<Predecessor>,
    mut given: Given,
) -> Result<(), Failure> {
    let began = clock::now();
    if !machine::keep_little_memory() {
        tracing::debug!("this allocator has no setting to return free memory early");
    }
    let mut config = configuration(flags)?;
    // Before any process is forked: each has the socket.
    if let Some(socket) = &config.server_log {
        runtime::diagnostics::send_to(socket.clone()).map_err(|error| {
            Failure::System(format!(
                "cannot open the server log `{socket}`: {error}; start the log daemon first"
            ))
        })?;
    }
    let groups = choose_all(&config, machine::usable_cores())?;
    if let Some(group) = groups.iter().find(|group| group.choice.is_of_processes()) {
        if let Some(why) = datagrams::refusal(&group.choice) {
            match config.http3 {
                Http3::On => return Err(flags.blame("http3", why)),
                Http3::Auto if config.has_tls() => tracing::info!("serving without HTTP/3: {why}"),
                Http3::Auto | Http3::Off => {}
            }
        }
        return processes::run(flags, voice, config, group, predecessor, given, began);
    }
    let program = Program::of_this_process();
    let mut signals = Signals::take_over().map_err(|error| refused("signal handlers", &error))?;
    let shares = Shares::of(machine::raise_descriptor_limit(), &config, &groups);
    fit(&mut config, &shares);
    let listeners = sockets::open(&config, &groups, &mut given)?;
    let managed = Managed::open(&config, flags)?;
    cache_folder::prepare(&config)?;
    let watch = Watch::new(&config, clock::now());
    let tls = Tls::open(&config, flags, managed.as_ref(), &given.secret)?.map(Arc::new);
    let qlog = Qlog::open(&config, flags)?;
    let datagrams = datagrams::bind(
        &config,
        tls.as_deref(),
        &listeners,
        &mut given,
        datagrams::threads(),
        qlog.as_ref(),
    )?;
    // Before the first thread, which would keep the rights dropped here; and before opening any file that the successor
    // of an upgrade must be able to open with these rights.
    let rights = Rights::give_up(&config, flags, &listeners.concat(), &program, given.bounds)?;
    let mut control = open_control(&config, &rights, predecessor.is_some())?;
    if let Some(control) = &control {
        signals.watch(watched(control)?);
    }
    let adaptation = Adaptation::start(&config).map_err(|failure| failure.with(|text| rights.hint(text)))?;
    let prefork = Interprocess {
        budget: Arc::new(Budget::new(bound(&config, &shares))),
        knobs: adaptation::knobs(adaptation.is_some())?,
        ..Interprocess::default()
    };
    // Root may set up io_uring where the new user may not.
    let groups = match groups.iter().any(|group| group.choice.io == Io::Uring) {
        true => choose_all(&config, machine::usable_cores())?,
        false => groups,
    };
    let explained = |failure: Failure| failure.with(|text| rights.hint(text));
    rights.refuse(&config, flags).map_err(explained)?;
    let logs = AccessLogs::open(&config, &AccessLogs::default()).map_err(explained)?;
    if let Some(qlog) = &qlog {
        qlog.announce(&config, flags, !datagrams.is_empty())
            .map_err(explained)?;
    }
    let handed_on = datagrams::hand_on(&datagrams);
    let over_udp = datagrams::addresses(&datagrams);
    let exporter = Arc::new(Exporter::new(Target::of(&config).map_err(explained)?));
    let additions = additions(managed.as_ref(), datagrams::port(&datagrams), &exporter);
    let server = open(config.clone(), prefork, additions, &logs, flags).map_err(explained)?;
    warn_of_mistakes(&server, flags);
    let server = Arc::new(server);
    let how = Listening {
        no_delay: !config.behavior.nagle,
        send_buffer: sockets::send_buffer(&config),
        paced: config.pacing,
        unsent: config.shaping().map(Shaping::unsent_max),
        ..Listening::default()
    };
    let mut workers = Drivers::start(&server, tls.clone(), None, &groups, &listeners, &shares, how)?;
    workers.add(Datagrams::start(&server, datagrams).inspect_err(|_| workers.stop())?);
    server.set_about(About {
        certificates: tls::shown(tls.as_deref()),
        ..about(workers.in_words(), None)
    });
    let mut upgrade = Upgrade::new(program, workers.sockets(), handed_on, rights.bounds());
    let served = workers
        .serving()
        .iter()
        .map(report::Served::of)
        .collect::<Vec<_>>();
    // From here on, only the workers hold the sockets; they close them when they drain.
    drop(listeners);
    let started = Started {
        config: &config,
        served: &served,
        embedded: is_demo(&config).then(demo_size),
        http3: &over_udp,
        shares,
        memory: memory_limit(&config, &shares),
        rights: &rights,
        profile: profile(flags)?,
        took: clock::now().since(began),
    };
    // Before the report, because readers of the report may use the socket at once.
    if let Some(Err(error)) = control.as_mut().map(Control::appear) {
        // Not fatal: the socket of the previous process stays until that process ends.
        tracing::error!("`weir ctl` cannot reach this process: {error}");
    }
    announce(&started, voice);
    match predecessor.take() {
        // The predecessor notifies the service manager, which does not accept messages of this process yet.
        Some(predecessor) => upgrade.follows(predecessor.ready(&over_udp)),
        None => manager::serves(None),
    }
    let mut operator = Operator {
        flags,
        server,
        logs,
        earlier_logs: Vec::new(),
        exporter,
        qlog,
        descriptors: shares.total,
        rights,
        watch,
        tls,
        tending: managed.as_ref().map(|managed| managed.tend(clock::now())),
        managed,
        role: Role::Whole {
            upgrade: Box::new(upgrade),
            control,
            adaptation: Box::new(adaptation),
            heart: Heart::start(notify::watchdog(), clock::now()),
        },
    };
    let until = operator.run(&mut signals, &mut workers)?;
    workers.join().map_err(|error| refused("a worker", &error))?;
    operator.close_logs(&mut signals, until)?;
    tracing::info!("stopped");
    Ok(())
}

/// How this machine differs from the profile's machine; `None` without a profile. Warns of differences.
fn profile(flags: &Flags) -> Result<Option<Vec<String>>, Failure> {
    let Some(tuned) = flags.tuned()? else {
        return Ok(None);
    };
    let differs = tuned.machine.differs(&crate::tune::machine());
    if !differs.is_empty() {
        tracing::warn!(
            "the profile was measured on another machine ({}); run `weir tune` again",
            differs.join(", ")
        );
    }
    Ok(Some(differs))
}

/// Reduces limits of a configuration to what one process can have: its share of the cache, open files and connections.
fn fit(config: &mut Config, shares: &Shares) {
    let processes = shares.processes.max(1);
    if let Some(limit) = memory_limit(config, shares) {
        // The default size suits machines with more memory.
        let is_said = config.cache_size != Config::default().cache_size;
        let share = if is_said { CACHE_SHARE_MAX } else { CACHE_SHARE };
        config.cache_size = config.cache_size.min(units::Bytes(limit.0 / share));
    }
    config.cache_size = units::Bytes(config.cache_size.0 / processes);
    config.cache_files = match u32::try_from(processes) {
        Ok(processes) => (shares.files / processes).max(1),
        Err(_) => 1,
    };
    // A user has few inotify instances (fs.inotify.max_user_instances), and this strategy many processes.
    config.change_events = config.concurrency != Concurrency::Processes;
    // The header timeout of a new connection counts the time the kernel held it back (TCP_DEFER_ACCEPT).
    config.deferred = Listening::DEFERRED;
    // A share of the possible connections, which scarce descriptors may reduce, not of the configured ones.
    let connections = shares.can_be_open(config);
    config.max_connections_per_address = Some(config.per_address(connections));
    config.max_handshakes.get_or_insert(connections / 2);
}

/// The memory limit of all processes of a server together, if there is one.
fn memory_limit(config: &Config, shares: &Shares) -> Option<units::Bytes> {
    let whole = Shares {
        processes: 1,
        ..*shares
    };
    Budget::new(bound(config, &whole)).limit()
}

/// The source of the memory limit for one process; a size is divided among processes.
fn bound(config: &Config, shares: &Shares) -> Bound {
    match config.memory {
        MemoryBound::Off => Bound::None,
        MemoryBound::Auto => Bound::Group,
        MemoryBound::At(bytes) => Bound::Told(units::Bytes(bytes.0 / shares.processes.max(1))),
    }
}

/// Facts for the live page that the server itself does not know.
fn about(strategy: String, process: Option<u32>) -> About {
    About {
        strategy,
        started: clock::wall(),
        process,
        certificates: Vec::new(),
    }
}

/// The configuration of the flags, plus the embedded site's own error page and live page.
fn configuration(flags: &Flags) -> Result<Config, Failure> {
    let mut config = flags.configuration()?;
    if is_demo(&config) && config.live == LiveFor::Nobody {
        // The embedded site demonstrates every feature, but to clients on this machine only.
        config.live = LiveFor::Local;
    }
    if is_demo(&config) && config.error_pages.is_empty() {
        let (status, page) = DEMO_NOT_FOUND;
        config.error_pages.insert(status, page).map_err(Failure::Usage)?;
    }
    managed::choose_folder(&mut config);
    Ok(config)
}

/// Whether the embedded site is served.
fn is_demo(config: &Config) -> bool {
    config.root.is_none() && config.versions.is_none() && config.replay.is_none()
}

/// Whether a configuration can be read only once.
fn is_pipe(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.file_type().is_fifo())
}

/// The configuration for a reload.
fn configuration_again(flags: &Flags) -> Result<Config, Failure> {
    match flags.file().filter(|file| is_pipe(file)) {
        // Opening a pipe without a writer would block, and signals with it.
        Some(pipe) => Err(Failure::Usage(format!(
            "the configuration `{}` is a pipe, which can be read only at the start; name a file with --config",
            pipe.display()
        ))),
        None => configuration(flags),
    }
}

fn open(
    config: Config,
    prefork: Interprocess,
    additions: Additions,
    logs: &AccessLogs,
    flags: &Flags,
) -> Result<Server, Failure> {
    let wall = clock::wall();
    let seed = Seed(u64::from(wall.nanos) << 32 ^ wall.secs.unsigned_abs() ^ u64::from(std::process::id()));
    Server::open_with(additions, prefork, config, embedded(), logs.sink(), seed)
        .map_err(|error| unservable(&error, flags))
}

/// What the server gets besides its configuration: answers for a CA that checks names, the port of HTTP/3, and where spans go.
fn additions(managed: Option<&Managed>, http3_port: Option<u16>, exporter: &Arc<Exporter>) -> Additions {
    let exporter = Arc::clone(exporter);
    let handlers = managed.map(|managed| (managed::ANSWERS_AT.to_owned(), managed.answers()));
    Additions {
        handlers: handlers.into_iter().collect(),
        http3_port,
        spans: Some(exporter),
        ..Additions::default()
    }
}

/// Warns of passwords in cleartext, and of configured pages that do not exist. Not fatal: there may be a proxy with TLS, and
/// pages may be created later.
fn warn_of_mistakes(server: &Server, flags: &Flags) {
    passwords::warn_of_cleartext(&server.config());
    for missing in server.missing_pages(clock::now(), clock::wall()) {
        tracing::warn!("{}", flags.blame_page(&missing));
    }
}

fn embedded() -> Source {
    Source::Embedded {
        files: demo::FILES,
        modified: DEMO_MODIFIED,
    }
}

/// Number of files and bytes of the embedded site.
fn demo_size() -> (usize, usize) {
    (
        demo::FILES.len(),
        demo::FILES.iter().map(|(_, content)| content.len()).sum(),
    )
}

/// Opens the control socket, if configured, after rights are dropped: the successor of an upgrade must be able to
/// create its own socket beside it and take over the name, and the file is removed at the end.
///
/// # Errors
/// `System`, naming the file and what to do.
fn open_control(config: &Config, rights: &Rights, follows: bool) -> Result<Option<Control>, Failure> {
    let Some(path) = &config.control else {
        return Ok(None);
    };
    Control::open(path, follows).map(Some).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => format!(
                "user {} creates it, so that an upgrade in place can replace it; name a file in a folder where this \
                 user may create files",
                rights.uid
            ),
            _ => "its folder must exist and be writable, and no other server may use the file".to_owned(),
        };
        Failure::System(format!(
            "cannot open the control socket `{}`: {error}; {advice} (--control)",
            path.display()
        ))
    })
}

/// A descriptor that becomes readable when a `weir ctl` connects.
fn watched(control: &Control) -> Result<OwnedFd, Failure> {
    control
        .descriptor()
        .map_err(|error| refused("the control socket", &error))
}

fn limits(shares: &Shares) -> Limits {
    Limits {
        connections_max: usize::try_from(shares.connections).unwrap_or(usize::MAX),
        ..Limits::default()
    }
}

/// Writes the start report: JSON to standard output, text to standard error.
fn announce(started: &Started<'_>, voice: &Voice) {
    if voice.json {
        let mut out = io::stdout().lock();
        // A closed standard output is no reason not to serve.
        let _ = writeln!(out, "{}", started.json()).and_then(|()| out.flush());
    }
    if voice.reports() {
        let _ = Diagnostics::default().write_all(started.text(voice.color()).as_bytes());
    }
}

/// The role of a serving process.
enum Role {
    /// The whole server: handles upgrades, the service manager, the control socket and adaptation.
    Whole {
        upgrade: Box<Upgrade>,
        heart: Heart,
        control: Option<Control>,
        adaptation: Box<Option<Adaptation>>,
    },
    /// A worker process. Its parent does all that a whole server does besides serving.
    Member(Member),
}

impl Role {
    /// Longest wait for a signal before other work is due; `None`: unlimited.
    fn patience(&self, now: Instant) -> Option<Duration> {
        match self {
            Role::Whole { upgrade, .. } if upgrade.is_underway() => Some(upgrade::TICK),
            Role::Whole {
                heart, adaptation, ..
            } => {
                let look = Option::as_ref(adaptation).map(|adaptation| adaptation.patience(now));
                [heart.patience(now), look].into_iter().flatten().min()
            }
            Role::Member(_) => None,
        }
    }

    fn adapt(&mut self, server: &Server) {
        if let Role::Whole { adaptation, .. } = self
            && let Some(adaptation) = adaptation.as_mut()
        {
            adaptation.tend(server);
        }
    }

    fn beat(&mut self, now: Instant) {
        if let Role::Whole { heart, .. } = self {
            heart.beat(now);
        }
    }
}

/// Obeys signals and control commands.
struct Operator<'a> {
    flags: &'a Flags,
    server: Arc<Server>,
    logs: AccessLogs,
    /// Logs of earlier configurations that may still have lines to write.
    earlier_logs: Vec<Arc<AccessLog>>,
    /// Where spans go.
    exporter: Arc<Exporter>,
    /// Logs of the packets of HTTP/3.
    qlog: Option<Qlog>,
    /// The descriptor limit of this process.
    descriptors: u64,
    rights: Rights,
    /// TLS of the listeners; `None`: all are cleartext.
    tls: Option<Arc<Tls>>,
    /// The files of their certificates.
    watch: Option<Watch>,
    /// The certificate that Weir gets by itself, and the thread that looks after it.
    managed: Option<Managed>,
    tending: Option<Tending>,
    role: Role,
}

impl Operator<'_> {
    /// Returns when the workers have ended, with the instant at which the grace ends.
    fn run(&mut self, signals: &mut Signals, workers: &mut Drivers) -> Result<Instant, Failure> {
        machine::let_go_of_program();
        loop {
            let now = clock::now();
            let look = self.watch.as_ref().map(|watch| watch.patience(now));
            let tend = self.tending.as_ref().map(|tending| tending.patience(now));
            let export = self.exporter.patience();
            let patience = [self.role.patience(now), look, tend, export, workers.patience()];
            let signal = signals
                .wait(patience.into_iter().flatten().min())
                .map_err(|error| refused("poll", &error))?;
            let signal = signal.or_else(|| self.listen_to(workers));
            workers.clear();
            match signal {
                Some(Signal::Stop) => {
                    if let Role::Whole { upgrade, .. } = &mut self.role {
                        upgrade.stop();
                        manager::stopping();
                    }
                    self.answer_no_more(signals);
                    // Another program may have the UDP sockets: this process, which drains, would refuse the new peers of that.
                    if self.member().is_some_and(Member::is_orphan) {
                        workers.leave_datagrams_to_others();
                    }
                    // A surplus worker process ends; the others take its connections.
                    if self.member().is_some_and(|member| !member.are_all_leaving()) {
                        return self.drain(signals, workers);
                    }
                    self.close_the_door(signals, workers)?;
                    return self.drain(signals, workers);
                }
                Some(Signal::Reload) => {
                    let wish = self.member().map(Member::wish);
                    match (self.reload(), self.member(), wish) {
                        (Ok(()), Some(member), Some(wish)) => member.has_done(wish),
                        // The parent had found it valid, so the file has changed since. This process ends; its
                        // replacement gets the configuration that was valid.
                        (Err(_), Some(_), _) => return self.drain(signals, workers),
                        _ => {}
                    }
                }
                // The parent has been replaced by an upgrade in place.
                Some(Signal::Upgrade) if self.member().is_some() => return self.retire(signals, workers),
                Some(Signal::Upgrade) => {
                    if let Role::Whole { upgrade, .. } = &mut self.role {
                        let secret = tls::hand_on(self.tls.as_deref());
                        let share = || workers.share_datagrams();
                        upgrade.begin(&secret, share, |why| self.rights.hint(why));
                    }
                }
                Some(Signal::ReopenLogs) => {
                    if let Err(failure) = self.logs.reopen() {
                        tracing::warn!("SIGUSR1: {failure}");
                    }
                }
                None => {}
            }
            self.role.adapt(&self.server);
            self.exporter.go_on(clock::now());
            self.look_after_certificates();
            if let Some(tending) = &mut self.tending {
                tending.go_on(clock::now(), clock::wall());
            }
            if let Role::Whole { upgrade, heart, .. } = &mut self.role {
                if let Some(Outcome::Serves(pid, _)) = upgrade.look(clock::now()) {
                    tracing::info!("upgraded: process {pid} serves");
                    manager::followed_by(pid);
                    // The new process feeds the watchdog now.
                    *heart = Heart::start(None, clock::now());
                    self.answer_no_more(signals);
                    // No drain delay: the new process accepts all connections.
                    return self.retire(signals, workers);
                }
                heart.beat(clock::now());
            }
        }
    }

    /// Executes one command from the control socket. Returns a stop command as the equivalent signal.
    fn listen_to(&mut self, workers: &mut Drivers) -> Option<Signal> {
        let Role::Whole {
            control: Some(control),
            ..
        } = &self.role
        else {
            return None;
        };
        let question = control.next()?;
        let (wish, question) = control::understood(question)?;
        let answer = match &wish {
            Wish::Status => control::status(workers, self.server.is_ready()),
            Wish::Strategy(change) => control::outcome(self.switch(workers, change.clone()).map(Some)),
            Wish::Certificates => control::certificates(self.tls.as_deref(), self.managed.as_ref()),
            Wish::Renew => control::renew(self.managed.as_ref(), None),
            Wish::Revoke { reason } => control::renew(self.managed.as_ref(), Some(*reason)),
            Wish::Purge { what } => control::purge(what, |what| Some(self.server.purge(what, clock::wall()))),
            Wish::Sites => versions::list(&self.server.config()),
            Wish::SwitchSite { version, host } => {
                control::outcome(self.turn_site(host.as_deref(), To::Version(version)).map(Some))
            }
            Wish::RollBackSite { host } => {
                control::outcome(self.turn_site(host.as_deref(), To::Previous).map(Some))
            }
            Wish::Reload => control::outcome(self.reload().map_err(Failure::System).map(|()| None)),
            Wish::ReopenLogs => control::outcome(self.logs.reopen().map(|()| None)),
            Wish::Stop => control::outcome(Ok(None)),
        };
        question.answer(&answer.to_string());
        (wish == Wish::Stop).then_some(Signal::Stop)
    }

    /// Closes the control socket. Commands are no longer executed, so clients must not wait for an answer.
    fn answer_no_more(&mut self, signals: &mut Signals) {
        signals.watch_nothing_else();
        if let Role::Whole { control, .. } = &mut self.role {
            *control = None;
        }
    }

    /// Switches addresses to another strategy; returns its description with reasons.
    fn switch(&mut self, workers: &mut Drivers, change: Change) -> Result<String, Failure> {
        let Change {
            concurrency,
            io,
            workers: count,
            ref listener,
        } = change;
        let listener = listener
            .as_deref()
            .map(Listen::parse_one)
            .transpose()
            .map_err(Failure::Usage)?;
        let config = Config {
            concurrency,
            io,
            workers: count,
            ..self.server.config()
        };
        let choice = choose(&config, machine::usable_cores())?;
        if choice.is_of_processes() {
            let why = format!("`{concurrency}` needs worker processes, which only a new start can create");
            return Err(control::needs_a_start(&why, &change, self.flags));
        }
        let strategy = workers.switch(&self.server, listener.as_ref(), &choice)?;
        if let Role::Whole { upgrade, .. } = &mut self.role {
            upgrade.hand_over(workers.sockets());
        }
        self.server.set_about(About {
            strategy,
            ..self.server.about()
        });
        let why = choice.why();
        tracing::info!("switched strategy for new connections: {why}");
        Ok(why)
    }

    /// Puts another version of a site in force; returns which, in words. The rest of the configuration stays as it is.
    fn turn_site(&self, host: Option<&str>, to: To<'_>) -> Result<String, Failure> {
        if let Role::Whole { upgrade, .. } = &self.role
            && upgrade.is_underway()
        {
            return Err(versions::during_upgrade());
        }
        let config = self.server.config();
        let turn = Turn::of(&config, host, to)?;
        let open = || {
            let opened = self.server.reload(config.clone(), self.logs.sink());
            opened.map_err(|error| unservable(&error, self.flags))
        };
        let now = turn
            .make(open)
            .map_err(|failure| failure.with(|text| self.rights.hint(text)))?;
        warn_of_mistakes(&self.server, self.flags);
        tracing::info!("{now}");
        Ok(now)
    }

    fn member(&self) -> Option<&Member> {
        match &self.role {
            Role::Member(member) => Some(member),
            Role::Whole { .. } => None,
        }
    }

    /// Reloads the configuration; reports success or failure to the log and the service manager.
    ///
    /// # Errors
    /// Why the old configuration stays.
    fn reload(&mut self) -> Result<(), String> {
        let is_whole = self.member().is_none();
        if is_whole {
            manager::reloading();
        }
        let outcome = self.try_reload();
        let trouble = outcome
            .err()
            .map(|failure| complain_of_reload(failure, &self.rights));
        if is_whole {
            manager::serves(trouble.as_deref());
        }
        trouble.map_or(Ok(()), Err)
    }

    fn try_reload(&mut self) -> Result<(), Failure> {
        let mut next = configuration_again(self.flags)?;
        let groups = match self.member() {
            // A worker process keeps its strategy.
            Some(_) => choose_all(&self.server.config(), machine::usable_cores())?,
            None => choose_all(&next, machine::usable_cores())?,
        };
        let shares = Shares::of(self.descriptors, &next, &groups);
        fit(&mut next, &shares);
        let running = self.server.config();
        let waiting = next.needs_restart(&running);
        let bound = (next.memory != running.memory).then(|| bound(&next, &shares));
        self.rights.refuse_new(&next, &running, self.flags)?;
        // Keys that need a restart keep the value in force, so that the next reload is compared with that value.
        next.keep_until_restart(&running);
        let certificates = match &self.tls {
            Some(tls) => {
                let watch = Watch::new(&next, clock::now());
                Some((tls, tls.read_again(&next, self.flags)?, watch))
            }
            None => None,
        };
        let logs = AccessLogs::open(&next, &self.logs)?;
        let target = Target::of(&next)?;
        self.server
            .reload(next, logs.sink())
            .map_err(|error| unservable(&error, self.flags))?;
        self.exporter.install(target);
        if let Some(qlog) = &self.qlog {
            qlog.look_again();
        }
        if let Some((tls, fresh, watch)) = certificates {
            tls.install(fresh);
            self.watch = watch;
            self.show_certificates();
        }
        if let Some(bound) = bound {
            self.server.budget().set(bound);
        }
        for log in std::mem::replace(&mut self.logs, logs).iter() {
            self.earlier_logs.push(Arc::clone(log));
        }
        let is_in_use = |earlier: &Arc<AccessLog>| self.logs.iter().any(|log| Arc::ptr_eq(earlier, log));
        self.earlier_logs
            .retain(|earlier| !is_in_use(earlier) && !earlier.is_finished());
        for unused in self
            .earlier_logs
            .iter()
            .filter(|earlier| Arc::strong_count(earlier) == 1)
        {
            unused.close();
        }
        if self.member().is_none() {
            warn_of_mistakes(&self.server, self.flags);
            say_reloaded(&waiting, self.flags);
        }
        if let Role::Whole { adaptation, .. } = &mut self.role
            && let Some(adaptation) = adaptation.as_mut()
        {
            adaptation.follow(&self.server);
        }
        Ok(())
    }

    /// Reads certificates again whose files have changed, and nothing else of the configuration.
    fn look_after_certificates(&mut self) {
        let (Some(tls), Some(watch)) = (&self.tls, &mut self.watch) else {
            return;
        };
        let now = clock::now();
        let has_changed = watch.has_changed(now);
        let is_whole = matches!(self.role, Role::Whole { .. });
        if is_whole {
            watch.remind(|| tls.certificates(), now);
        }
        if has_changed {
            let outcome = tls.read_again(&self.server.config(), self.flags);
            let outcome = outcome.map(|fresh| tls.install(fresh));
            self.show_certificates();
            // The parent reads them, too, and speaks for all.
            if is_whole {
                say_certificates(outcome, &self.rights);
            }
        }
    }

    fn show_certificates(&self) {
        self.server.set_about(About {
            certificates: tls::shown(self.tls.as_deref()),
            ..self.server.about()
        });
    }

    /// Before draining, if no other process accepts: keeps accepting for the drain delay while `/readyz` is 503, then
    /// stops admitting new handshakes and accepts those under way.
    fn close_the_door(&mut self, signals: &mut Signals, workers: &Drivers) -> Result<(), Failure> {
        self.server.set_ready(false);
        let delay = self.server.config().drain_delay;
        if delay > Duration::ZERO {
            tracing::info!("not ready any more: asked to stop; accepting connections for another {delay:?}");
            self.delay(signals, delay)?;
        }
        workers.sockets().iter().for_each(Sockets::admit_no_more);
        self.delay(signals, LAST_CALL)
    }

    /// Before draining, if another process accepts: idle connections may send one more request within the grace; its
    /// response announces the close.
    fn retire(&mut self, signals: &mut Signals, workers: &Drivers) -> Result<Instant, Failure> {
        let grace = self.server.config().grace;
        self.server.set_ready(false);
        if self.member().is_none() {
            say_stopping(workers.open(), grace);
        }
        let until = clock::now() + grace;
        workers.retire();
        // The parent may have more news already.
        if self.member().is_some() {
            self.follow_up(Some(Signal::Upgrade), workers);
        }
        let span = grace - LAST_ANSWERS.min(grace / 2);
        self.take_last_questions(signals, workers, span)?;
        self.finish(signals, workers, until.since(clock::now()))
    }

    /// Serves last requests of idle connections for `span`. True if a stop signal ended that early.
    fn take_last_questions(
        &mut self,
        signals: &mut Signals,
        workers: &Drivers,
        span: Duration,
    ) -> Result<bool, Failure> {
        let until = clock::now() + span;
        while !workers.is_finished() && clock::now() < until {
            let signal = signals
                .wait(Some(DRAIN_TICK))
                .map_err(|error| refused("poll", &error))?;
            self.role.beat(clock::now());
            self.follow_up(signal, workers);
            if signal == Some(Signal::Stop) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// While this process drains: looks after the process that has followed it, if one has. If that has crashed, SIGUSR2 starts
    /// another with the same sockets.
    fn follow_up(&mut self, signal: Option<Signal>, workers: &Drivers) {
        match &mut self.role {
            Role::Member(member) if signal == Some(Signal::Upgrade) => match member.succession() {
                Some(Succession::Serves) => workers.follow_datagrams(),
                Some(Succession::Died) => workers.take_datagrams_back(),
                Some(Succession::Expected) => workers.expect_datagrams(),
                None => {}
            },
            Role::Member(_) => {}
            Role::Whole { upgrade, .. } => {
                match signal {
                    Some(Signal::Stop) => upgrade.stop(),
                    Some(Signal::Upgrade) => {
                        let was_bereft = upgrade.is_bereft();
                        let secret = tls::hand_on(self.tls.as_deref());
                        let share = || {
                            workers.expect_datagrams();
                            workers.share_datagrams()
                        };
                        upgrade.begin(&secret, share, |why| self.rights.hint(why));
                        if was_bereft && !upgrade.is_underway() {
                            workers.take_datagrams_back();
                        }
                    }
                    _ => {}
                }
                match upgrade.look(clock::now()) {
                    Some(Outcome::Serves(pid, _)) => {
                        tracing::info!("started again: process {pid} serves");
                        manager::followed_by(pid);
                        workers.follow_datagrams();
                    }
                    Some(Outcome::Died) => workers.take_datagrams_back(),
                    Some(Outcome::Released) | None => {}
                }
            }
        }
    }

    /// Whether another process is starting in place of one that has died. It needs this one until it serves.
    fn is_needed(&self) -> bool {
        matches!(&self.role, Role::Whole { upgrade, .. } if upgrade.is_underway())
    }

    fn drain(&mut self, signals: &mut Signals, workers: &Drivers) -> Result<Instant, Failure> {
        let grace = self.server.config().grace;
        self.server.set_ready(false);
        if self.member().is_none() {
            say_stopping(workers.open(), grace);
        }
        let until = clock::now() + grace;
        workers.ease();
        if self.take_last_questions(signals, workers, LAST_QUESTIONS.min(grace / 2))? {
            self.cut_off(workers);
            return self.finish(signals, workers, Duration::ZERO);
        }
        self.finish(signals, workers, until.since(clock::now()))
    }

    fn cut_off(&self, workers: &Drivers) {
        if self.member().is_none() {
            tracing::warn!("stopping at once: {} connections are cut off", workers.open());
        }
    }

    /// Waits until all responses are finished, at most for `grace`.
    fn finish(
        &mut self,
        signals: &mut Signals,
        workers: &Drivers,
        grace: Duration,
    ) -> Result<Instant, Failure> {
        let mut until = clock::now() + grace;
        workers.drain(grace);
        while !workers.is_finished() || self.is_needed() {
            let signal = signals
                .wait(Some(DRAIN_TICK))
                .map_err(|error| refused("poll", &error))?;
            self.role.beat(clock::now());
            self.follow_up(signal, workers);
            if signal == Some(Signal::Stop) {
                self.cut_off(workers);
                workers.stop();
                until = clock::now();
            }
        }
        Ok(until)
    }

    /// Serves as before for `span`, while load balancers notice that `/readyz` is 503.
    fn delay(&mut self, signals: &mut Signals, span: Duration) -> Result<(), Failure> {
        let until = clock::now() + span;
        loop {
            let now = clock::now();
            self.role.beat(now);
            if now >= until {
                return Ok(());
            }
            let patience = [Some(until.since(now)), self.role.patience(now)];
            let signal = signals
                .wait(patience.into_iter().flatten().min())
                .map_err(|error| refused("poll", &error))?;
            if signal == Some(Signal::Stop) {
                return Ok(());
            }
        }
    }

    /// Waits until the logs are written and the spans are sent, at most until `until` or a signal: the reader of a pipe may have
    /// stalled.
    fn close_logs(&self, signals: &mut Signals, until: Instant) -> Result<(), Failure> {
        let logs = || self.logs.iter().chain(&self.earlier_logs);
        logs().for_each(|log| log.close());
        self.exporter.close();
        let until = until.max(clock::now() + LOG_GRACE);
        let are_packets_written = || self.qlog.as_ref().is_none_or(Qlog::is_finished);
        let is_finished = || logs().all(|log| log.is_finished()) && are_packets_written();
        while !is_finished() || !self.exporter.is_finished() {
            let signal = signals
                .wait(Some(DRAIN_TICK))
                .map_err(|error| refused("poll", &error))?;
            if signal == Some(Signal::Stop) || clock::now() >= until {
                logs().for_each(|log| log.abandon());
                self.exporter.abandon();
                break;
            }
        }
        Ok(())
    }
}

/// Logs a failed reload; returns the reason.
fn complain_of_reload(failure: Failure, rights: &Rights) -> String {
    let why = failure.with(|text| rights.hint(text)).to_string();
    tracing::error!("not reloaded, the old configuration stays: {why}");
    why
}

/// Logs what came of reading changed certificates.
fn say_certificates(outcome: Result<(), Failure>, rights: &Rights) {
    match outcome {
        Ok(()) => tracing::info!("the files of certificates have changed: new connections get the new ones"),
        Err(failure) => {
            let why = failure.with(|text| rights.hint(text));
            tracing::error!("the files of certificates have changed, the old certificates stay: {why}");
        }
    }
}

/// Logs a reload. `waiting`: the changed keys that take effect at the next start.
fn say_reloaded(waiting: &[&str], flags: &Flags) {
    if waiting.is_empty() {
        tracing::info!("reloaded");
    } else {
        tracing::warn!(
            "reloaded; {} will change at the next start only",
            waiting.join(", ")
        );
    }
    if flags.file().is_none() {
        tracing::info!("no --config file given: settings are unchanged, only the files served may differ");
    }
}

fn say_stopping(open: usize, grace: Duration) {
    tracing::info!("stopping: {open} open connections have {grace:?} to finish");
}

fn unservable(error: &OpenError, flags: &Flags) -> Failure {
    match error {
        OpenError::Root(root, _) if root.is_file() => flags.blame_root(format!(
            "cannot serve `{}`: it is a file; name the directory that contains it",
            root.display()
        )),
        OpenError::Root(..) => flags.blame_root(format!("{error}; name a readable directory")),
        OpenError::Mount { host, root, path, .. } => {
            let why = match root.is_file() {
                true => format!(
                    "`{path}` cannot be served from `{}`: it is a file; name the directory that contains it",
                    root.display()
                ),
                false => format!("{error}; name a readable directory"),
            };
            match host {
                Some(number) => flags.blame_host(*number, "mount", why),
                None => flags.blame("mount", why),
            }
        }
        OpenError::Replay(why) => flags.blame("replay", why.clone()),
        OpenError::Version { host: None, cause } => flags.blame("versions", cause.to_string()),
        OpenError::Version {
            host: Some(number),
            cause,
        } => flags.blame_host(*number, "versions", cause.to_string()),
        OpenError::Hosts(_)
        | OpenError::NoRoot
        | OpenError::Users(_)
        | OpenError::Upstreams(_)
        | OpenError::Uploads(_)
        | OpenError::Token(_) => Failure::Usage(error.to_string()),
        OpenError::Logins(_) => Failure::System(format!("{error}; list logins and homes in `[tilde.users]`")),
        OpenError::Watch(_) => Failure::System(format!("{error}; is fs.inotify.max_user_instances reached?")),
    }
}

fn refused(what: &str, error: &io::Error) -> Failure {
    let hint = match runtime::machine::is_out_of_descriptors(error) {
        true => "; the descriptor limit is too low: raise `ulimit -n` (LimitNOFILE= of a unit) to 64 or more",
        false => "",
    };
    Failure::System(format!("{what}: the system refused: {error}{hint}"))
}
