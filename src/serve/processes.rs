//! `weir serve` with worker processes: the founder (parent process), which serves nothing itself, and the members
//! (worker processes). Decides when members start, reload and end; `runtime::process::prefork` forks and supervises them.
//!
//! ```text
//!   founder:  listen ─▶ drop rights ─▶ check in a separate process ─▶ fork ─▶ all ready: report ─▶ RUNNING
//!
//!             RUNNING ── a member died ─▶ fork ─▶ RUNNING
//!                │ ───── HUP: check separately, then members reload ─▶ RUNNING (new configuration, or old one)
//!                │ ───── USR2: start the new program ─▶ RUNNING until the new program serves, then members retire
//!                │ TERM, INT                                                          │
//!                ▼                                                                    │
//!             DRAINING ◀──────────────────────────────────────────────────────────────┘
//!                └─ all gone, or killed after their time ─▶ exit
//!   member:   open log and site ─▶ workers ─▶ ready ─▶ obey signals (as a server of one process)
//! ```
//! With HTTP/3, each member has UDP sockets of its own, an inbox for datagrams that others received, and the ways to the
//! inboxes of the others ([`super::datagrams`]).
//!
//! Before members open what needs a thread or may fail (a site, a log), a separate process opens it with the rights of
//! members. So a failure is reported once, and an invalid configuration reaches no member.
//!
//! During an upgrade in place, members of both programs serve, and each program applies the connection limits to its
//! own members.

use super::adaptation::{self, Adaptation};
use super::cache_folder;
use super::choices;
use super::datagrams::{self, Datagrams, Sockets};
use super::descriptors::Shares;
use super::drivers::Drivers;
use super::embedded_site::demo_size;
use super::managed::Managed;
use super::manager::{self, Heart};
use super::operator::{Operator, Role};
use super::process_limits::{bound, fit, memory_limit};
use super::qlog::Qlog;
use super::reload::{complain_of_reload, say_certificates, say_reloaded};
use super::report::{self, Started};
use super::rights::Rights;
use super::server_log;
use super::settings::{configuration_again, profile};
use super::shutdown::{LOG_GRACE, say_stopping};
use super::sockets::{self, Given};
use super::strategy::{Choice, Group, choose, choose_all};
use super::tls::{self, Tls, Watch};
use super::traces::{Exporter, Target};
use super::upgrade::{self, Outcome, Upgrade};
use super::versions::{self, To, Turn};
use super::{
    AccessLogs, Change, Wish, about, additions, announce, control, open, open_control, refused,
    warn_of_mistakes, watched,
};
use crate::cli::serve::Flags;
use crate::failure::Failure;
use crate::voice::Voice;
use runtime::control::{Control, Question};
use runtime::listen::{Address, Listener, Listening};
use runtime::memory::Budget;
use runtime::process::inherit::{Forwarding, Predecessor, Program};
use runtime::process::notify;
use runtime::process::prefork::{Member, News, Prefork, Size, Succession};
use runtime::signal::Signal;
use runtime::{clock, machine};
use serde_json::Value;
use server::adapt::{Knobs, Sample};
use server::config::{Concurrency, Config};
use server::connection_limit::{Among, Peers};
use server::counters::{Board, Readings};
use server::{About, Additions, Purges};
use std::net::SocketAddr;
use std::sync::Arc;
use units::{Duration, Instant, UnixTime};

/// Minimum and maximum of idle processes for `processes`: Apache 1.3's `MinSpareServers` and `MaxSpareServers`.
const IDLE_MIN: usize = 5;
const IDLE_MAX: usize = 10;
/// Client addresses that one process of `process-loops` can have connections from at once.
const ADDRESSES: usize = 16_384;
/// After this many deaths in a row before all members were ready, the start fails.
const DEATHS_AT_START: u32 = 5;
/// Limit on `weir ctl` commands waiting for a reload to finish.
const WAITING_MAX: usize = 32;
/// Time beyond their grace after which members are killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs `weir serve` until it exits. `predecessor` is taken once all members serve.
///
/// # Errors
/// As `serve::run`.
pub(super) fn run(
    flags: &Flags,
    voice: &Voice,
    config: Config,
    group: &Group,
    predecessor: &mut Option<Predecessor>,
    mut given: Given,
    began: Instant,
) -> Result<(), Failure> {
    let choice = &group.choice;
    let groups = std::slice::from_ref(group);
    let shares = Shares::of(machine::raise_descriptor_limit(), &config, groups);
    shares.refuse()?;
    let common_len = Among::len_for(match choice.concurrency {
        Concurrency::Processes => 1,
        _ => ADDRESSES,
    });
    let mut prefork =
        Prefork::new(size(choice), common_len, Board::SHAPE).map_err(|error| refused("signals", &error))?;
    runtime::complaints::share().map_err(|error| refused("shared memory", &error))?;
    let listeners = sockets::open(&config, groups, &mut given)?.concat();
    let managed = Managed::open(&config, flags)?;
    let watch = Watch::new(&config, clock::now());
    let tls = Tls::open(&config, flags, managed.as_ref(), &given.secret)?.map(Arc::new);
    let qlog = Qlog::open(&config, flags)?;
    let mut datagrams = match datagrams::refusal(choice) {
        None => {
            let mut fitted = config.clone();
            fit(&mut fitted, &shares);
            let listeners = std::slice::from_ref(&listeners);
            let (count, qlog) = (choice.workers, qlog.as_ref());
            datagrams::bind(&fitted, tls.as_deref(), listeners, &mut given, count, qlog)?
        }
        Some(_) => {
            // The predecessor would wait for datagrams that nobody passes on.
            given.datagrams.clear();
            given.forwarding = Forwarding::default();
            Vec::new()
        }
    };
    let over_udp = datagrams::addresses(&datagrams);
    let forwarding = datagrams::connect(&mut datagrams, choice.workers)?;
    let addresses = sockets::addresses(&listeners);
    let is_secured = |address: &Address| {
        let mut here = listeners.iter().filter(|listener| listener.address() == *address);
        here.any(|listener| tls::is_at(tls.as_deref(), listener))
    };
    let listening = addresses
        .iter()
        .map(|one| (one.clone(), is_secured(one)))
        .collect();
    // Before the first member, which would keep the rights dropped here; and before opening any file that the successor
    // of an upgrade must be able to open with these rights.
    let program = Program::of_this_process();
    let rights = Rights::give_up(&config, flags, &listeners, &program, given.bounds)?;
    server_log::open(&config).map_err(|failure| failure.with(|text| rights.hint(text)))?;
    if let Some(qlog) = &qlog {
        qlog.announce(&config, flags, !datagrams.is_empty())
            .map_err(|failure| failure.with(|text| rights.hint(text)))?;
    }
    let control = open_control(&config, flags, &rights, predecessor.is_some())?;
    if let Some(control) = &control {
        prefork.watch(watched(control)?);
    }
    let adaptation = Adaptation::start(&config).map_err(|failure| failure.with(|text| rights.hint(text)))?;
    let knobs = adaptation::knobs(adaptation.is_some())?;
    let purges = Purges::shared().map_err(|error| refused("shared memory", &error))?;
    let upgrade = Upgrade::new(
        program,
        listeners.iter().map(Listener::sockets).collect(),
        datagrams::hand_on(&datagrams),
        rights.bounds(),
    );
    let mut founder = Founder {
        flags,
        voice,
        group,
        tls: tls.clone(),
        watch,
        managed,
        shares,
        common_len,
        started: clock::wall(),
        config: config.clone(),
        rights: rights.clone(),
        predecessor,
        listeners,
        datagrams,
        qlog,
        forwarding,
        prefork,
        adaptation,
        knobs,
        purges,
        reloading: None,
        addresses: addresses.clone(),
        control,
        waiting: Vec::new(),
        upgrade,
        heart: Heart::start(notify::watchdog(), clock::now()),
    };
    fit(&mut founder.config, &shares);
    let running = founder.config.clone();
    rights
        .refuse(&running, flags)
        .and_then(|()| founder.check_apart(&running))
        .map_err(|failure| failure.with(|text| rights.hint(text)))?;
    founder.start()?;
    let started = Started {
        config: &config,
        served: &[report::Served {
            choice: choice.clone(),
            addresses: listening,
        }],
        embedded: super::is_demo(&config).then(demo_size),
        http3: &over_udp,
        shares,
        memory: memory_limit(&config, &shares),
        rights: &rights,
        profile: profile(flags)?,
        took: clock::now().since(began),
    };
    // Before the report, because readers of the report may use the socket at once.
    if let Some(Err(error)) = founder.control.as_mut().map(Control::appear) {
        // Not fatal: the socket of the previous process stays until that process ends.
        tracing::error!("`weir ctl` cannot reach this process: {error}");
    }
    announce(&started, voice);
    match founder.predecessor.take() {
        // The predecessor notifies the service manager, which does not accept messages of this process yet.
        Some(predecessor) => founder.upgrade.follows(predecessor.ready(&over_udp)),
        None => manager::serves(None),
    }
    machine::let_go_of_program();
    founder.attend()?;
    tracing::info!("stopped");
    Ok(())
}

fn size(choice: &Choice) -> Size {
    match choice.concurrency {
        Concurrency::Processes => {
            let min = IDLE_MIN.min(choice.workers);
            Size::Spare {
                min,
                max_idle: IDLE_MAX.max(min),
                max: choice.workers,
            }
        }
        _ => Size::Fixed(choice.workers),
    }
}

struct Founder<'a> {
    flags: &'a Flags,
    voice: &'a Voice,
    group: &'a Group,
    /// TLS of the listeners; members inherit it with its ticket keys.
    tls: Option<Arc<Tls>>,
    /// The files of their certificates.
    watch: Option<Watch>,
    /// The certificate that Weir gets by itself; members look after it.
    managed: Option<Managed>,
    shares: Shares,
    common_len: usize,
    /// Start of the founder, which members show as the server's start.
    started: UnixTime,
    /// The configuration of the members, or the one they are about to load.
    config: Config,
    rights: Rights,
    /// The predecessor in an upgrade in place, until all members serve.
    predecessor: &'a mut Option<Predecessor>,
    listeners: Vec<Listener>,
    /// The UDP sockets of HTTP/3, of all members.
    datagrams: Vec<Sockets>,
    /// Logs of the packets of HTTP/3; members inherit them before anything is logged.
    qlog: Option<Qlog>,
    /// The ends of channels to the members that a successor is to have.
    forwarding: Forwarding,
    prefork: Prefork,
    adaptation: Option<Adaptation>,
    /// Automatic settings, in memory shared with all members.
    knobs: Knobs,
    /// Stored responses that operators dropped, in memory shared with all members.
    purges: Purges,
    /// During a reload: the changed keys that need a restart, for the log line once all members have reloaded.
    reloading: Option<Vec<&'static str>>,
    addresses: Vec<Address>,
    control: Option<Control>,
    /// `weir ctl` commands that reload, each with the answer that it gets once all members have reloaded.
    waiting: Vec<(Question, Value)>,
    upgrade: Upgrade,
    heart: Heart,
}

impl Founder<'_> {
    /// Opens all that members will open, in a separate process, to find errors.
    fn check_apart(&mut self, config: &Config) -> Result<(), Failure> {
        cache_folder::refuse_processes(config)?;
        choices::refuse_processes(config)?;
        let flags = self.flags;
        self.apart(|| {
            let logs = AccessLogs::open(config, &AccessLogs::default())?;
            Target::of(config)?;
            let server = open(
                config.clone(),
                server::Interprocess::default(),
                Additions::default(),
                &logs,
                flags,
            )?;
            warn_of_mistakes(&server, flags);
            Ok(())
        })
    }

    /// Runs `work` in a separate process and returns its result.
    fn apart(&mut self, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        let told = self.prefork.apart(|| match work() {
            Ok(()) => Vec::new(),
            Err(failure) => {
                let kind = if matches!(failure, Failure::Usage(_)) {
                    b'u'
                } else {
                    b's'
                };
                let mut told = vec![kind];
                told.extend_from_slice(failure.to_string().as_bytes());
                told
            }
        });
        let told = told.map_err(|error| refused("fork", &error))?;
        let text = |told: &[u8]| String::from_utf8_lossy(told).into_owned();
        match told.split_first() {
            None => Ok(()),
            Some((b'u', why)) => Err(Failure::Usage(text(why))),
            Some((_, why)) => Err(Failure::System(text(why))),
        }
    }

    /// Forks missing members.
    fn tend(&mut self) -> Result<(), Failure> {
        let Founder {
            flags,
            voice,
            group,
            tls,
            watch,
            managed,
            shares,
            common_len,
            started,
            config,
            rights,
            predecessor,
            listeners,
            datagrams,
            qlog,
            forwarding,
            prefork,
            knobs,
            purges,
            control,
            waiting,
            upgrade,
            ..
        } = self;
        let mut life = |member: Member| {
            // This closure runs in the child; the founder keeps its own copies.
            let listeners = std::mem::take(listeners);
            let number = member.number();
            let http3_port = datagrams::port(datagrams);
            let datagrams = datagrams::keep(std::mem::take(datagrams), number, group.choice.workers);
            // Only the founder and the successor hold these: a member must see when neither does.
            drop(std::mem::take(forwarding));
            drop(predecessor.take());
            if let Some(control) = control.take() {
                control.leave();
            }
            waiting.clear();
            upgrade.leave();
            upgrade.let_go();
            let board = Board::among(member.ledger().clone(), number, std::process::id());
            let prefork = server::Interprocess {
                peers: Peers::from(Among::new(member.common().clone(), *common_len, number)),
                board: match datagrams.is_empty() {
                    true => board,
                    false => board.with_threads(),
                },
                knobs: knobs.clone(),
                purges: purges.clone(),
                budget: Arc::new(Budget::new(bound(config, shares))),
            };
            let work = Work {
                config: config.clone(),
                rights: rights.clone(),
                prefork,
                started: *started,
                listeners,
                datagrams,
                http3_port,
                qlog: qlog.clone(),
                tls: tls.clone(),
                watch: watch.clone(),
                managed: managed.clone(),
            };
            match live(member, flags, group, shares, work) {
                Ok(()) => 0,
                Err(failure) => {
                    if voice.reports() {
                        tracing::error!("worker process {number}: {failure}");
                    }
                    i32::from(failure.code())
                }
            }
        };
        prefork.tend(&mut life).map_err(|error| refused("fork", &error))
    }

    /// Returns when all members serve.
    fn start(&mut self) -> Result<(), Failure> {
        loop {
            self.tend()?;
            if self.prefork.are_ready() {
                return Ok(());
            }
            if self.prefork.deaths_in_a_row() >= DEATHS_AT_START {
                self.prefork.kill();
                let why = "worker processes end as soon as they start: see their messages above";
                return Err(Failure::System(why.to_owned()));
            }
            if self.wait(None)? == News::Wanted(Signal::Stop) {
                self.prefork.kill();
                return Err(Failure::System("stopped by a signal during the start".to_owned()));
            }
        }
    }

    fn wait(&mut self, at_most: Option<Duration>) -> Result<News, Failure> {
        self.prefork
            .wait(at_most)
            .map_err(|error| refused("waiting", &error))
    }

    /// Obeys signals and control commands until the server ends.
    fn attend(&mut self) -> Result<(), Failure> {
        loop {
            self.tend()?;
            if self.reloading.is_some() && self.prefork.have_done() {
                say_reloaded(&self.reloading.take().unwrap_or_default(), self.flags);
                manager::serves(None);
                for (question, answer) in self.waiting.drain(..) {
                    question.answer(&answer.to_string());
                }
            }
            let now = clock::now();
            let look = self
                .adaptation
                .as_ref()
                .map(|adaptation| adaptation.patience(now));
            let tick = self.upgrade.is_underway().then_some(upgrade::TICK);
            let certificates = self.watch.as_ref().map(|watch| watch.patience(now));
            let patience = [self.heart.patience(now), look, certificates, tick];
            let news = self.wait(patience.into_iter().flatten().min())?;
            self.heart.beat(clock::now());
            self.adapt();
            self.look_after_certificates();
            if let Some(Outcome::Serves(pid, over_udp)) = self.upgrade.look(clock::now()) {
                tracing::info!("upgraded: process {pid} serves");
                manager::followed_by(pid);
                // The new process feeds the watchdog now.
                self.heart = Heart::start(None, clock::now());
                self.keep_datagrams(&over_udp);
                return self.leave(Signal::Upgrade, Duration::ZERO);
            }
            let news = match news {
                News::Wanted(_) => news,
                News::Changed | News::Nothing => self.listen_to().map_or(news, News::Wanted),
            };
            match news {
                News::Wanted(Signal::Stop) => {
                    self.upgrade.stop();
                    manager::stopping();
                    self.keep_datagrams(&[]);
                    self.upgrade.let_go();
                    return self.leave(Signal::Stop, self.config.drain_delay);
                }
                // `reload` reports its own failure.
                News::Wanted(Signal::Reload) => drop(self.reload()),
                News::Wanted(Signal::Upgrade) => {
                    let secret = tls::hand_on(self.tls.as_deref());
                    let share = || datagrams::share(&self.datagrams, &self.forwarding);
                    self.upgrade.begin(&secret, share, |why| self.rights.hint(why));
                }
                News::Wanted(Signal::ReopenLogs) => {
                    // Members open the file of messages, too, and report failures.
                    let messages = server_log::reopen(&self.config);
                    match messages.is_none() && self.config.access_logs().is_empty() {
                        false => self.prefork.ask(Signal::ReopenLogs),
                        true => tracing::warn!("SIGUSR1: cannot reopen the access log: none is configured"),
                    }
                }
                News::Changed | News::Nothing => {}
            }
        }
    }

    /// Samples the members if a sample is due, and applies decisions to all of them.
    fn adapt(&mut self) {
        let Some(adaptation) = &mut self.adaptation else {
            return;
        };
        let prefork = &self.prefork;
        let pids: Vec<u32> = prefork.pids().collect();
        adaptation.tend_processes(&pids, &self.knobs, |reading| {
            let readings = Readings::of(prefork.ledger());
            Sample {
                reading,
                totals: readings.totals(),
                open: u32::try_from(prefork.open()).unwrap_or(u32::MAX),
                durations: readings.durations,
            }
        });
    }

    /// Reads certificates again whose files have changed, for members that are forked later, and reports it. Each member
    /// reads them for itself.
    fn look_after_certificates(&mut self) {
        let (Some(tls), Some(watch)) = (&self.tls, &mut self.watch) else {
            return;
        };
        let now = clock::now();
        watch.remind(|| tls.certificates(), now);
        if watch.has_changed(now) {
            let outcome = tls.read_again(&self.config, self.flags);
            say_certificates(outcome.map(|fresh| tls.install(fresh)), &self.rights);
        }
    }

    /// Executes one command from the control socket. Returns a stop command as the equivalent signal.
    fn listen_to(&mut self) -> Option<Signal> {
        let (wish, question) = control::understood(self.control.as_ref()?.next()?)?;
        let answer = match &wish {
            Wish::Status => {
                let processes = self.prefork.members().count();
                control::status_of_processes(
                    &self.group.choice,
                    &self.addresses,
                    processes,
                    self.prefork.open(),
                )
            }
            Wish::Strategy(change) => control::outcome(self.refuse_to_switch(change)),
            Wish::Certificates => control::certificates(self.tls.as_deref(), self.managed.as_ref()),
            Wish::Renew => control::renew(self.managed.as_ref(), None),
            Wish::Revoke { reason } => control::renew(self.managed.as_ref(), Some(*reason)),
            Wish::Purge { what } => control::purge(what, |what| {
                self.purges.note(what);
                None
            }),
            Wish::Sites => versions::list(&self.config),
            Wish::Reload | Wish::SwitchSite { .. } | Wish::RollBackSite { .. }
                if self.waiting.len() == WAITING_MAX =>
            {
                let why = "too many commands are waiting for a reload to finish; try again later";
                control::outcome(Err(Failure::System(why.to_owned())))
            }
            Wish::Reload => match self.reload() {
                Ok(()) => {
                    self.waiting.push((question, control::outcome(Ok(None))));
                    return None;
                }
                Err(why) => control::outcome(Err(Failure::System(why))),
            },
            Wish::SwitchSite { version, host } => {
                return self.turn_site(question, host.as_deref(), To::Version(version));
            }
            Wish::RollBackSite { host } => return self.turn_site(question, host.as_deref(), To::Previous),
            Wish::ReopenLogs => control::outcome(self.reopen_logs().map(|()| None)),
            Wish::Stop => control::outcome(Ok(None)),
        };
        question.answer(&answer.to_string());
        (wish == Wish::Stop).then_some(Signal::Stop)
    }

    /// Puts another version of a site in force in all members, and answers when they have it. Each of them reloads, so
    /// that other changes of the configuration file take effect, too.
    fn turn_site(&mut self, question: Question, host: Option<&str>, to: To<'_>) -> Option<Signal> {
        let turned = match self.upgrade.is_underway() {
            true => Err(versions::during_upgrade()),
            false => Turn::of(&self.config, host, to)
                .and_then(|turn| turn.make(|| self.reload().map_err(Failure::System))),
        };
        match turned {
            Ok(now) => {
                tracing::info!("{now}");
                self.waiting.push((question, control::outcome(Ok(Some(now)))));
            }
            Err(failure) => {
                let failure = failure.with(|text| self.rights.hint(text));
                question.answer(&control::outcome(Err(failure)).to_string());
            }
        }
        None
    }

    /// An error that says how to switch the strategy with a new start.
    fn refuse_to_switch(&self, change: &Change) -> Result<Option<String>, Failure> {
        let next = Config {
            concurrency: change.concurrency,
            io: change.io,
            workers: change.workers,
            ..self.config.clone()
        };
        choose(&next, machine::usable_cores())?;
        let why = format!(
            "the server runs `{}`, which uses worker processes and can change its strategy only at a new start",
            self.group.choice.concurrency
        );
        Err(control::needs_a_start(&why, change, self.flags))
    }

    fn reopen_logs(&mut self) -> Result<(), Failure> {
        let messages = server_log::reopen(&self.config);
        if messages.is_none() && self.config.access_logs().is_empty() {
            return Err(Failure::Usage(
                "cannot reopen the access log: none is configured".to_owned(),
            ));
        }
        let config = self.config.clone();
        // Each member reopens it for itself; a separate process tries first, so that failure is reported once.
        let tried = self.apart(|| AccessLogs::open(&config, &AccessLogs::default()).map(drop));
        if tried.is_ok() {
            self.prefork.ask(Signal::ReopenLogs);
        }
        let outcome = tried.and(messages.unwrap_or(Ok(())));
        outcome.map_err(|failure| failure.with(|text| self.rights.hint(text)))
    }

    /// Starts a reload of all members; reports a failure to the log and the service manager.
    ///
    /// # Errors
    /// Why the old configuration stays.
    fn reload(&mut self) -> Result<(), String> {
        manager::reloading();
        self.try_reload().map_err(|failure| {
            let why = complain_of_reload(failure, &self.rights);
            manager::serves(Some(&why));
            why
        })
    }

    fn try_reload(&mut self) -> Result<(), Failure> {
        let mut next = configuration_again(self.flags)?;
        choose_all(&next, machine::usable_cores())?;
        let shares = Shares::of(self.shares.total, &next, std::slice::from_ref(self.group));
        shares.refuse()?;
        fit(&mut next, &shares);
        self.rights.refuse_new(&next, &self.config, self.flags)?;
        self.check_apart(&next)?;
        let waiting = next.needs_restart(&self.config);
        next.keep_until_restart(&self.config);
        if let Some(tls) = &self.tls {
            let watch = Watch::new(&next, clock::now());
            // For members that are forked later; each of those that serve reads them again.
            tls.install(tls.read_again(&next, self.flags)?);
            self.watch = watch;
        }
        self.config = next;
        if let Some(adaptation) = &mut self.adaptation {
            adaptation.follow_processes(&self.config, &self.knobs);
        }
        self.reloading = Some(waiting);
        self.prefork.ask(Signal::Reload);
        Ok(())
    }

    /// Sends the members the signal `why` and waits until they end; kills them if they exceed `delay`, the grace and
    /// [`PATIENCE`].
    fn leave(&mut self, why: Signal, delay: Duration) -> Result<(), Failure> {
        // Commands are no longer executed, so clients must not wait for an answer.
        self.prefork.watch_nothing_else();
        self.control = None;
        self.waiting.clear();
        // From here on, only members hold the sockets, which close them when they drain, and what has to do with upgrades.
        self.listeners.clear();
        let grace = self.config.grace;
        let mut until = clock::now() + delay + grace + LOG_GRACE + PATIENCE;
        say_stopping(usize::try_from(self.prefork.open()).unwrap_or(usize::MAX), grace);
        self.prefork.ask(why);
        // One that starts in place of one that has died needs this one until it serves.
        while self.prefork.members().next().is_some() || self.upgrade.is_underway() {
            let left = Some(until.since(clock::now()));
            let look = (why == Signal::Upgrade).then_some(upgrade::TICK);
            let patience = [left, self.heart.patience(clock::now()), look];
            let news = self.wait(patience.into_iter().flatten().min())?;
            self.heart.beat(clock::now());
            self.follow_up();
            match news {
                News::Wanted(Signal::Upgrade) => self.start_again(),
                News::Wanted(Signal::Stop) => {
                    self.upgrade.stop();
                    tracing::warn!(
                        "stopping at once: {} connections are cut off",
                        self.prefork.open()
                    );
                    self.prefork.ask(Signal::Stop);
                    until = clock::now() + LOG_GRACE + PATIENCE;
                }
                News::Nothing if clock::now() >= until && self.prefork.members().next().is_some() => {
                    tracing::error!("killing worker processes: they did not end in time");
                    self.prefork.kill();
                    until = clock::now() + PATIENCE;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Founder<'_> {
    /// See [`datagrams::keep_for_successor`].
    fn keep_datagrams(&mut self, addresses: &[SocketAddr]) {
        datagrams::keep_for_successor(&mut self.datagrams, &mut self.forwarding, addresses);
    }

    /// While members drain: looks after the process that has followed this one.
    fn follow_up(&mut self) {
        match self.upgrade.look(clock::now()) {
            Some(Outcome::Serves(pid, over_udp)) => {
                tracing::info!("started again: process {pid} serves");
                manager::followed_by(pid);
                self.keep_datagrams(&over_udp);
                self.prefork.tell_of(Succession::Serves);
            }
            Some(Outcome::Died) => {
                match self.upgrade.is_bereft() {
                    // Members that have ended read their sockets no more, so packets must not arrive there.
                    true => datagrams::steer_again(&self.datagrams, self.group.choice.workers),
                    false => self.keep_datagrams(&[]),
                }
                self.prefork.tell_of(Succession::Died);
            }
            Some(Outcome::Released) => self.keep_datagrams(&[]),
            None => {}
        }
    }

    /// SIGUSR2 while members drain: if the process that has followed this one has died, starts another with the same sockets.
    fn start_again(&mut self) {
        let was_bereft = self.upgrade.is_bereft();
        if was_bereft {
            // Before it has connections.
            self.prefork.tell_of(Succession::Expected);
        }
        let secret = tls::hand_on(self.tls.as_deref());
        let share = || datagrams::share(&self.datagrams, &self.forwarding);
        self.upgrade.begin(&secret, share, |why| self.rights.hint(why));
        if was_bereft && !self.upgrade.is_underway() {
            self.prefork.tell_of(Succession::Died);
        }
    }
}

/// What a member gets from the founder.
struct Work {
    config: Config,
    rights: Rights,
    prefork: server::Interprocess,
    started: UnixTime,
    listeners: Vec<Listener>,
    datagrams: Vec<Sockets>,
    /// The port of HTTP/3, if there is any.
    http3_port: Option<u16>,
    qlog: Option<Qlog>,
    tls: Option<Arc<Tls>>,
    watch: Option<Watch>,
    managed: Option<Managed>,
}

/// Runs a member until it ends.
fn live(member: Member, flags: &Flags, group: &Group, shares: &Shares, work: Work) -> Result<(), Failure> {
    let Work {
        config,
        rights,
        prefork,
        started,
        listeners,
        datagrams,
        http3_port,
        qlog,
        tls,
        watch,
        managed,
    } = work;
    let mut signals = member
        .signals()
        .map_err(|error| refused("signal handlers", &error))?;
    let logs = AccessLogs::open(&config, &AccessLogs::default())?;
    let exporter = Arc::new(Exporter::new(Target::of(&config)?));
    let server = Arc::new(open(
        config,
        prefork,
        additions(managed.as_ref(), http3_port, &exporter),
        &logs,
        flags,
    )?);
    server.set_about(About {
        started,
        certificates: tls::shown(tls.as_deref()),
        ..about(group.choice.in_words(), Some(std::process::id()))
    });
    let mut workers = Drivers::start(
        &server,
        tls.clone(),
        Some(&member),
        std::slice::from_ref(group),
        std::slice::from_ref(&listeners),
        shares,
        Listening::default(),
    )?;
    workers.add(Datagrams::start(&server, datagrams).inspect_err(|_| workers.stop())?);
    drop(listeners);
    member.is_ready();
    let mut operator = Operator {
        flags,
        server,
        logs,
        earlier_logs: Vec::new(),
        exporter,
        qlog,
        descriptors: shares.total,
        rights,
        tls,
        watch,
        tending: managed.as_ref().map(|managed| managed.tend(clock::now())),
        managed,
        role: Role::Member(member),
    };
    let until = operator.run(&mut signals, &mut workers)?;
    workers.join().map_err(|error| refused("a worker", &error))?;
    operator.close_logs(&mut signals, until)
}
