//! How a process stops serving, after a stop or an upgrade: no new connections, last requests of idle ones, responses
//! under way, then logs. Decides how long each of these may take.

use super::drivers::Drivers;
use super::manager;
use super::operator::{Operator, Role};
use super::qlog::Qlog;
use super::refused;
use super::tls;
use super::upgrade::Outcome;
use crate::failure::Failure;
use runtime::clock;
use runtime::listen::Sockets;
use runtime::process::prefork::Succession;
use runtime::signal::{Signal, Signals};
use units::{Duration, Instant};

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
pub(super) const LOG_GRACE: Duration = Duration::from_secs(1);

impl Operator<'_> {
    /// Before draining, if no other process accepts: keeps accepting for the drain delay while `/readyz` is 503, then
    /// stops admitting new handshakes and accepts those under way.
    pub(super) fn close_the_door(&mut self, signals: &mut Signals, workers: &Drivers) -> Result<(), Failure> {
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
    pub(super) fn retire(&mut self, signals: &mut Signals, workers: &Drivers) -> Result<Instant, Failure> {
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

    pub(super) fn drain(&mut self, signals: &mut Signals, workers: &Drivers) -> Result<Instant, Failure> {
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
    pub(super) fn close_logs(&self, signals: &mut Signals, until: Instant) -> Result<(), Failure> {
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

pub(super) fn say_stopping(open: usize, grace: Duration) {
    tracing::info!("stopping: {open} open connections have {grace:?} to finish");
}
