//! The loop that obeys signals and commands of the control socket while the workers serve. Decides what each of them
//! starts; [`super::reload`] and [`super::shutdown`] know how to reload and to stop.

use super::access_log::{AccessLog, AccessLogs};
use super::adaptation::Adaptation;
use super::control::{self, Change, Wish};
use super::drivers::Drivers;
use super::managed::{Managed, Tending};
use super::manager::{self, Heart};
use super::qlog::Qlog;
use super::rights::Rights;
use super::server_log;
use super::strategy::choose;
use super::tls::{self, Tls, Watch};
use super::traces::Exporter;
use super::upgrade::{self, Outcome, Upgrade};
use super::versions::{self, To, Turn};
use super::{refused, unservable, warn_of_mistakes};
use crate::cli::serve::Flags;
use crate::failure::Failure;
use runtime::control::Control;
use runtime::process::prefork::Member;
use runtime::signal::{Signal, Signals};
use runtime::{clock, machine};
use server::config::{Config, Listen};
use server::{About, Server};
use std::sync::Arc;
use units::{Duration, Instant};

/// The role of a serving process.
pub(super) enum Role {
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
    pub(super) fn patience(&self, now: Instant) -> Option<Duration> {
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

    pub(super) fn beat(&mut self, now: Instant) {
        if let Role::Whole { heart, .. } = self {
            heart.beat(now);
        }
    }
}

/// Obeys signals and control commands.
pub(super) struct Operator<'a> {
    pub(super) flags: &'a Flags,
    pub(super) server: Arc<Server>,
    pub(super) logs: AccessLogs,
    /// Logs of earlier configurations that may still have lines to write.
    pub(super) earlier_logs: Vec<Arc<AccessLog>>,
    /// Where spans go.
    pub(super) exporter: Arc<Exporter>,
    /// Logs of the packets of HTTP/3.
    pub(super) qlog: Option<Qlog>,
    /// The descriptor limit of this process.
    pub(super) descriptors: u64,
    pub(super) rights: Rights,
    /// TLS of the listeners; `None`: all are cleartext.
    pub(super) tls: Option<Arc<Tls>>,
    /// The files of their certificates.
    pub(super) watch: Option<Watch>,
    /// The certificate that Weir gets by itself, and the thread that looks after it.
    pub(super) managed: Option<Managed>,
    pub(super) tending: Option<Tending>,
    pub(super) role: Role,
}

impl Operator<'_> {
    /// Returns when the workers have ended, with the instant at which the grace ends.
    pub(super) fn run(&mut self, signals: &mut Signals, workers: &mut Drivers) -> Result<Instant, Failure> {
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
                    if let Err(failure) = self.reopen_logs() {
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
            Wish::ReopenLogs => control::outcome(self.reopen_logs().map(|()| None)),
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

    /// Opens the files of logs again by their names.
    ///
    /// # Errors
    /// `Usage` if there is none; `System` with the first that cannot be opened, and why.
    fn reopen_logs(&self) -> Result<(), Failure> {
        let outcome = match server_log::reopen(&self.server.config()) {
            Some(reopened) if self.logs.is_empty() => reopened,
            Some(reopened) => self.logs.reopen().and(reopened),
            None => self.logs.reopen(),
        };
        outcome.map_err(|failure| failure.with(|text| self.rights.hint(text)))
    }

    pub(super) fn member(&self) -> Option<&Member> {
        match &self.role {
            Role::Member(member) => Some(member),
            Role::Whole { .. } => None,
        }
    }
}
