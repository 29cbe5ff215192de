//! `weir serve`: puts a configuration, a site, listeners and workers together, says so, and then does
//! what signals ask for until the end.
//!
//! ```text
//!   start ──▶ RUNNING ── HUP: read again, validate ──▶ RUNNING (new, or old and a complaint)
//!                │ ───── USR1: open the log again ───▶ RUNNING
//!                │ ───── USR2: start the new program ─▶ RUNNING, until it serves: then
//!                │                            RETIRING ── who is idle may ask once more ──▶ DRAINING
//!                │                                        (until a second before the grace is over, or TERM or INT)
//!                │ TERM, INT
//!                ▼
//!            DRAINING ── all done, grace over, or a second TERM or INT ──▶ CLOSING THE LOG
//!                        all written, grace over, or a further TERM or INT ──▶ end
//! ```

mod access_log;
mod adaptation;
mod check;
mod control;
mod descriptors;
mod drivers;
mod environment;
mod manager;
mod processes;
mod report;
mod rights;
mod sockets;
mod strategy;
mod upgrade;

use crate::cli::serve::Flags;
use crate::cli::{Cli, Failure, Voice};
use crate::demo;
use access_log::AccessLog;
use adaptation::Adaptation;
pub(crate) use control::{Change, Wish};
use descriptors::Shares;
use drivers::Drivers;
use manager::Heart;
use measure::{Duration, Instant, Seed, UnixTime};
use report::Started;
use rights::Rights;
use runtime::control::Control;
use runtime::diagnostics::Diagnostics;
use runtime::herd::Member;
use runtime::inherit::{Predecessor, Program};
use runtime::listen::{Listening, Sockets};
use runtime::memory::{Bound, Budget};
use runtime::notify;
use runtime::shaping::Shaping;
use runtime::signal::{Signal, Signals};
use runtime::strategy::Limits;
use runtime::{clock, machine};
use server::config::{Concurrency, Config, IoKind, LiveFor, MemoryBound};
use server::site::{OpenError, Source};
use server::{About, Additions, Herd, LogSink, Server};
use sockets::Given;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use strategy::{Choice, choose};
use upgrade::Upgrade;

/// `Last-Modified` of the embedded site: the day it was made, so that a rebuild changes nothing.
const DEMO_MODIFIED: UnixTime = UnixTime {
    secs: 1_795_219_200,
    nanos: 0,
};
/// The embedded site's own page for what is missing.
const DEMO_NOT_FOUND: (&str, &str) = ("404", "/404.html");
/// The cache has at most one part in this many of the memory there may be; if its size is said, one in the second number: else it
/// could take what requests need, and all would be refused for good.
const CACHE_SHARE: u64 = 8;
const CACHE_SHARE_MAX: u64 = 2;
/// How long those are still let in who had begun to connect when a stop was asked for.
const LAST_CALL: Duration = Duration::from_millis(20);
/// What is left of the grace when those who are idle at a server that was followed are let go without a further answer.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// How long after a stop those who are idle may ask once more, and are told that the answer is the last: long enough for who asks
/// without a pause, too short to be waited for by who stopped it.
const LAST_QUESTIONS: Duration = Duration::from_millis(250);
/// How often a draining server looks whether all is done.
const DRAIN_TICK: Duration = Duration::from_millis(10);
/// What a log has to write its last lines, even if the connections took all patience there was.
const LOG_GRACE: Duration = Duration::from_secs(1);

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for a configuration that cannot be, `System` for what the system refuses.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    // Before the first thread, and before all variables are looked at, which copies them.
    let forgotten = environment::forget_the_rest();
    voice.listen();
    match forgotten {
        Ok(count) => tracing::debug!("{count} environment variables that are not used here are erased"),
        Err(error) => tracing::warn!(
            "environment variables of other programs stay readable in this process: {error}; start it with a clean \
             environment (env -i) if they are secrets"
        ),
    }
    Cli::warn_of_misspelt_variables();
    if flags.check {
        let config = configuration(flags)?;
        choose(&config, machine::usable_cores())?;
        return check::run(config, flags, voice);
    }
    let (mut predecessor, given) = Given::find()?;
    let outcome = serve(flags, voice, &mut predecessor, given);
    if let (Err(failure), Some(predecessor)) = (&outcome, predecessor) {
        predecessor.failed(&failure.to_string());
    }
    outcome
}

/// Serves to the end. `predecessor` is taken once this process serves.
fn serve(
    flags: &Flags,
    voice: &Voice,
    predecessor: &mut Option<Predecessor>,
    mut given: Given,
) -> Result<(), Failure> {
    let began = clock::now();
    if !machine::keep_little_memory() {
        tracing::debug!("this allocator cannot be told to keep little memory");
    }
    let mut config = configuration(flags)?;
    let choice = choose(&config, machine::usable_cores())?;
    if choice.is_of_processes() {
        return processes::run(flags, voice, config, &choice, predecessor, given, began);
    }
    let program = Program::of_this_process();
    let mut signals = Signals::take_over().map_err(|error| refused("signal handlers", &error))?;
    let shares = Shares::of(machine::raise_descriptor_limit(), &config, &choice);
    fit(&mut config, &choice, &shares);
    let listeners = sockets::open(&config, &choice, &mut given)?;
    // Before the first thread, which would keep what this one gives up; and before all that is opened again by the program
    // that follows this one.
    let rights = Rights::give_up(&config, flags, &listeners, &program, given.bounds)?;
    let mut control = open_control(&config, &rights, predecessor.is_some())?;
    if let Some(control) = &control {
        signals.watch(watched(control)?);
    }
    let adaptation = Adaptation::start(&config).map_err(|failure| failure.with(|text| rights.hint(text)))?;
    let herd = Herd {
        budget: Arc::new(Budget::new(bound(&config, &shares))),
        knobs: adaptation::knobs(adaptation.is_some())?,
        ..Herd::default()
    };
    let choice = match choice.io {
        // What root may have, the user it became may be refused.
        IoKind::Uring => choose(&config, machine::usable_cores())?,
        _ => choice,
    };
    let explained = |failure: Failure| failure.with(|text| rights.hint(text));
    rights.refuse(&config, flags).map_err(explained)?;
    let log = AccessLog::open(config.access_log.as_deref(), None).map_err(explained)?;
    let server = open(config.clone(), herd, log.as_ref(), flags).map_err(explained)?;
    warn_of_missing_pages(&server, flags);
    let server = Arc::new(server);
    server.set_about(about(&choice, None));
    let how = Listening {
        no_delay: !config.behavior.nagle,
        send_buffer: sockets::send_buffer(&config),
        paced: config.pacing,
        unsent: config.shaping().map(Shaping::unsent_max),
        ..Listening::default()
    };
    let mut workers = Drivers::start(&server, &choice, &listeners, &shares, how)?;
    let upgrade = Upgrade::new(program, workers.sockets(), rights.bounds());
    let addresses = sockets::addresses(&listeners);
    // From here on only the workers hold the sockets: they close them when they drain.
    drop(listeners);
    let started = Started {
        config: &config,
        choice: &choice,
        addresses: &addresses,
        embedded: config.root.is_none().then(demo_size),
        shares,
        memory: memory_limit(&config, &shares),
        rights: &rights,
        profile: profile(flags)?,
        took: clock::now().since(began),
    };
    // Before whoever waits for the report may ask.
    if let Some(Err(error)) = control.as_mut().map(Control::appear) {
        // It serves all the same; the other's socket stays as long as the other.
        tracing::error!("`weir ctl` will not reach this process: {error}");
    }
    announce(&started, voice);
    match predecessor.take() {
        // It tells the service manager, which would not believe this process yet.
        Some(predecessor) => predecessor.ready(),
        None => manager::serves(None),
    }
    let mut operator = Operator {
        flags,
        server,
        log,
        earlier_logs: Vec::new(),
        descriptors: shares.total,
        rights,
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

/// In what this machine is another one than that of the profile, if there is one; says so.
fn profile(flags: &Flags) -> Result<Option<Vec<String>>, Failure> {
    let Some(tuned) = flags.tuned()? else {
        return Ok(None);
    };
    let differs = tuned.machine.differs(&crate::tune::machine());
    if !differs.is_empty() {
        tracing::warn!(
            "the profile is of another machine ({}): run `weir tune` again",
            differs.join(", ")
        );
    }
    Ok(Some(differs))
}

/// Makes a configuration fit what a process may have: its share of the cache where there are several.
fn fit(config: &mut Config, choice: &Choice, shares: &Shares) {
    let processes = shares.processes.max(1);
    if let Some(limit) = memory_limit(config, shares) {
        // The default is for machines with more.
        let is_said = config.cache_size != Config::default().cache_size;
        let share = if is_said { CACHE_SHARE_MAX } else { CACHE_SHARE };
        config.cache_size = config.cache_size.min(measure::Bytes(limit.0 / share));
    }
    config.cache_size = measure::Bytes(config.cache_size.0 / processes);
    config.cache_files = match u32::try_from(processes) {
        Ok(processes) => (shares.files / processes).max(1),
        Err(_) => 1,
    };
    // Instances of inotify are few (fs.inotify.max_user_instances), and those processes many.
    config.change_events = choice.concurrency != Concurrency::Processes;
    // All listeners are of that kind.
    config.deferred = Listening::DEFERRED;
    // A share of what there can be, not of what is configured: descriptors may be fewer.
    config.max_connections_per_address = Some(config.per_address(shares.can_be_open(config)));
}

/// What all processes of a server may use of memory, if that is bounded.
fn memory_limit(config: &Config, shares: &Shares) -> Option<measure::Bytes> {
    let whole = Shares {
        processes: 1,
        ..*shares
    };
    Budget::new(bound(config, &whole)).limit()
}

/// What bounds the memory of one process.
fn bound(config: &Config, shares: &Shares) -> Bound {
    match config.memory {
        MemoryBound::Off => Bound::None,
        MemoryBound::Auto => Bound::Group,
        MemoryBound::At(bytes) => Bound::Told(measure::Bytes(bytes.0 / shares.processes.max(1))),
    }
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

/// The same for a server that runs.
fn configuration_again(flags: &Flags) -> Result<Config, Failure> {
    let is_pipe = |file: &Path| file.metadata().is_ok_and(|found| found.file_type().is_fifo());
    match flags.file().filter(|file| is_pipe(file)) {
        // Nobody may be writing it, and waiting for that no signal would be heard.
        Some(pipe) => Err(Failure::Usage(format!(
            "the configuration `{}` is a pipe, which only a start can read; give a file with --config",
            pipe.display()
        ))),
        None => configuration(flags),
    }
}

fn open(config: Config, herd: Herd, log: Option<&Arc<AccessLog>>, flags: &Flags) -> Result<Server, Failure> {
    let wall = clock::wall();
    let seed = Seed(u64::from(wall.nanos) << 32 ^ wall.secs.unsigned_abs() ^ u64::from(std::process::id()));
    Server::open_with(Additions::default(), herd, config, embedded(), sink(log), seed)
        .map_err(|error| unservable(&error, flags))
}

/// Warns of pages that are configured and not there: it serves all the same, as they may come.
fn warn_of_missing_pages(server: &Server, flags: &Flags) {
    for missing in server.missing_pages(clock::now(), clock::wall()) {
        tracing::warn!("{}", flags.blame_page(&missing));
    }
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

/// Opens the control socket, if there is to be one, with the rights that stay: the program that follows this one makes
/// its own beside it and takes the name, and at the end the file is removed.
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
                "user {} makes it, so that an upgrade in place can put another in its place: name a file in a folder \
                 where this user may make files",
                rights.uid
            ),
            _ => "its folder must exist and be writable, and no other server may use the name".to_owned(),
        };
        Failure::System(format!(
            "cannot open the control socket `{}`: {error}; {advice} (--control)",
            path.display()
        ))
    })
}

/// What becomes readable when somebody asks.
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

/// Says what was started: to a program on standard output, to a person on standard error.
fn announce(started: &Started<'_>, voice: &Voice) {
    if voice.json {
        let mut out = io::stdout().lock();
        // Nobody reads it: that is no reason not to serve.
        let _ = writeln!(out, "{}", started.json()).and_then(|()| out.flush());
    }
    if voice.reports() {
        let _ = Diagnostics.write_all(started.text(voice.color()).as_bytes());
    }
}

/// What a process that serves is to others.
enum Role {
    /// The whole server: a new program may follow it, and a service manager listens to it.
    Whole {
        upgrade: Box<Upgrade>,
        heart: Heart,
        control: Option<Control>,
        adaptation: Box<Option<Adaptation>>,
    },
    /// One of its worker processes. Their founder says what there is to say.
    Member(Member),
}

impl Role {
    /// How long may be waited for a signal, if not for ever.
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

/// Does what signals ask for.
struct Operator<'a> {
    flags: &'a Flags,
    server: Arc<Server>,
    log: Option<Arc<AccessLog>>,
    /// Those of earlier configurations that may still have something to write.
    earlier_logs: Vec<Arc<AccessLog>>,
    /// What this process may have.
    descriptors: u64,
    rights: Rights,
    role: Role,
}

impl Operator<'_> {
    /// Returns when the workers have ended: the instant until which patience lasts.
    fn run(&mut self, signals: &mut Signals, workers: &mut Drivers) -> Result<Instant, Failure> {
        machine::let_go_of_program();
        loop {
            let patience = [self.role.patience(clock::now()), workers.patience()];
            let signal = signals
                .wait(patience.into_iter().flatten().min())
                .map_err(|error| refused("poll", &error))?;
            let signal = signal.or_else(|| self.listen_to(workers));
            workers.clear();
            match signal {
                Some(Signal::Stop) => {
                    if let Role::Whole { upgrade, .. } = &mut self.role {
                        upgrade.give_up("this process was told to stop");
                        manager::stopping();
                    }
                    self.answer_no_more(signals);
                    // It is one too many; the others take its connections.
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
                        // The founder found it valid, so it changed since; whoever takes this one's place
                        // has what was valid.
                        (Err(_), Some(_), _) => return self.drain(signals, workers),
                        _ => {}
                    }
                }
                // Its founder is followed by another program.
                Some(Signal::Upgrade) if self.member().is_some() => return self.retire(signals, workers),
                Some(Signal::Upgrade) => {
                    if let Role::Whole { upgrade, .. } = &mut self.role {
                        upgrade.begin(|why| self.rights.hint(why));
                    }
                }
                Some(Signal::ReopenLogs) => {
                    if let Err(failure) = self.reopen_logs() {
                        tracing::warn!("SIGUSR1: {failure}");
                    }
                }
                None => {}
            }
            self.role.adapt(&self.server);
            if let Role::Whole { upgrade, heart, .. } = &mut self.role {
                if let Some(pid) = upgrade.look(clock::now()) {
                    tracing::info!("upgraded: process {pid} serves");
                    manager::followed_by(pid);
                    // Signs of life are the other's to give now.
                    *heart = Heart::start(None, clock::now());
                    self.answer_no_more(signals);
                    // Nobody is refused, as another takes the connections, so nobody needs warning.
                    return self.retire(signals, workers);
                }
                heart.beat(clock::now());
            }
        }
    }

    /// Answers who asks through the control socket. What a signal could have asked for as well comes back.
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
            Wish::Strategy(change) => control::outcome(self.switch(workers, *change).map(Some)),
            Wish::Reload => control::outcome(self.reload().map_err(Failure::System).map(|()| None)),
            Wish::ReopenLogs => control::outcome(self.reopen_logs().map(|()| None)),
            Wish::Stop => control::outcome(Ok(None)),
        };
        question.answer(&answer.to_string());
        (wish == Wish::Stop).then_some(Signal::Stop)
    }

    fn reopen_logs(&self) -> Result<(), Failure> {
        let Some(log) = &self.log else {
            return Err(Failure::Usage("there is no access log to open again".to_owned()));
        };
        log.reopen().map_err(|error| {
            Failure::System(format!(
                "the access log cannot be opened again: {error}; until it can, its lines go to standard error"
            ))
        })
    }

    /// Closes the control socket. From here on nobody listens to it, and one who asks would wait for nothing.
    fn answer_no_more(&mut self, signals: &mut Signals) {
        signals.watch_nothing_else();
        if let Role::Whole { control, .. } = &mut self.role {
            *control = None;
        }
    }

    /// Gives addresses to another strategy; says which it is, and why.
    fn switch(&mut self, workers: &mut Drivers, change: Change) -> Result<String, Failure> {
        let Change {
            concurrency,
            io,
            workers: count,
            listener,
        } = change;
        let config = Config {
            concurrency,
            io,
            workers: count,
            ..self.server.config()
        };
        let choice = choose(&config, machine::usable_cores())?;
        if choice.is_of_processes() {
            let why = format!("`{concurrency}` is made of processes, which only a new start can make");
            return Err(control::needs_a_start(&why, &change, self.flags));
        }
        let strategy = workers.switch(&self.server, listener, &choice)?;
        if let Role::Whole { upgrade, .. } = &mut self.role {
            upgrade.hand_over(workers.sockets());
        }
        self.server.set_about(About {
            strategy,
            ..self.server.about()
        });
        let why = choice.why();
        tracing::info!("new connections are served by {why}");
        Ok(why)
    }

    fn member(&self) -> Option<&Member> {
        match &self.role {
            Role::Member(member) => Some(member),
            Role::Whole { .. } => None,
        }
    }

    /// Puts the new configuration in force; says it, or why not, to whoever reads the log and to the service manager.
    ///
    /// # Errors
    /// Why the old one stays.
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
        let choice = match self.member() {
            // It goes on being what it is.
            Some(_) => choose(&self.server.config(), machine::usable_cores())?,
            None => choose(&next, machine::usable_cores())?,
        };
        let shares = Shares::of(self.descriptors, &next, &choice);
        fit(&mut next, &choice, &shares);
        let running = self.server.config();
        let waiting = next.needs_restart(&running);
        let bound = (next.memory != running.memory).then(|| bound(&next, &shares));
        self.rights.refuse_new(&next, &running, self.flags)?;
        // What is in force goes on, so that the next reload is compared with that and not with what this one asked for.
        next.keep_until_restart(&running);
        let log = AccessLog::open(next.access_log.as_deref(), self.log.as_ref())?;
        self.server
            .reload(next, sink(log.as_ref()))
            .map_err(|error| unservable(&error, self.flags))?;
        if let Some(bound) = bound {
            self.server.budget().set(bound);
        }
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
        if self.member().is_none() {
            warn_of_missing_pages(&self.server, self.flags);
            say_reloaded(&waiting, self.flags);
        }
        if let Role::Whole { adaptation, .. } = &mut self.role
            && let Some(adaptation) = adaptation.as_mut()
        {
            adaptation.follow(&self.server);
        }
        Ok(())
    }

    /// What comes before draining where nobody else takes the connections: for a while they are taken by a server
    /// that says it is not ready any more, and at the end nobody begins to connect who would find nobody.
    fn close_the_door(&mut self, signals: &mut Signals, workers: &Drivers) -> Result<(), Failure> {
        self.server.set_ready(false);
        let delay = self.server.config().drain_delay;
        if delay > Duration::ZERO {
            tracing::info!("not ready any more; connections are taken for another {delay:?}");
            self.delay(signals, delay)?;
        }
        workers.sockets().iter().for_each(Sockets::admit_no_more);
        self.delay(signals, LAST_CALL)
    }

    /// What comes before draining where another process takes the connections: whoever is idle may ask once more
    /// within the grace, and is told that the answer is the last.
    fn retire(&mut self, signals: &mut Signals, workers: &Drivers) -> Result<Instant, Failure> {
        let grace = self.server.config().grace;
        self.server.set_ready(false);
        if self.member().is_none() {
            say_stopping(workers.open(), grace);
        }
        let until = clock::now() + grace;
        workers.retire();
        let span = grace - LAST_ANSWERS.min(grace / 2);
        self.take_last_questions(signals, workers, span)?;
        self.finish(signals, workers, until.since(clock::now()))
    }

    /// Lets whoever is idle ask once more for so long; tells whether a stop ended that.
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
            if signal == Some(Signal::Stop) {
                return Ok(true);
            }
        }
        Ok(false)
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
            tracing::warn!("stopping now: {} connections are cut off", workers.open());
        }
    }

    /// Waits until all is done that is owed, at the most this long.
    fn finish(
        &mut self,
        signals: &mut Signals,
        workers: &Drivers,
        grace: Duration,
    ) -> Result<Instant, Failure> {
        let mut until = clock::now() + grace;
        workers.drain(grace);
        while !workers.is_finished() {
            let signal = signals
                .wait(Some(DRAIN_TICK))
                .map_err(|error| refused("poll", &error))?;
            self.role.beat(clock::now());
            if signal == Some(Signal::Stop) {
                self.cut_off(workers);
                workers.stop();
                until = clock::now();
            }
        }
        Ok(until)
    }

    /// Goes on as before while load balancers learn that it will not.
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

/// Says so; returns why.
fn complain_of_reload(failure: Failure, rights: &Rights) -> String {
    let why = failure.with(|text| rights.hint(text)).to_string();
    tracing::error!("not reloaded, the old configuration stays: {why}");
    why
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

fn unservable(error: &OpenError, flags: &Flags) -> Failure {
    match error {
        OpenError::Root(root, _) if root.is_file() => flags.blame_root(format!(
            "cannot serve `{}`: it is a file; name the directory that holds it",
            root.display()
        )),
        OpenError::Root(..) => flags.blame_root(format!("{error}; name a directory that can be read")),
        OpenError::Hosts(_) | OpenError::NoRoot => Failure::Usage(error.to_string()),
        OpenError::Logins(_) => Failure::System(format!("{error}; name logins and homes in `[tilde.users]`")),
        OpenError::Watch(_) => Failure::System(format!("{error}; is fs.inotify.max_user_instances reached?")),
    }
}

fn refused(what: &str, error: &io::Error) -> Failure {
    let hint = match runtime::machine::is_out_of_descriptors(error) {
        true => {
            "; this process may open too few files: raise `ulimit -n` (LimitNOFILE= of a unit) to 64 or more"
        }
        false => "",
    };
    Failure::System(format!(
        "{what}: {error}; the system refused, nothing is served{hint}"
    ))
}
