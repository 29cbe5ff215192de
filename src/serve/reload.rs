//! Reloads of the configuration and of certificates: all that can fail is opened before anything changes, so a failure
//! leaves the old configuration in force.

use super::access_log::{AccessLog, AccessLogs};
use super::descriptors::Shares;
use super::manager;
use super::operator::{Operator, Role};
use super::process_limits::{bound, fit};
use super::rights::Rights;
use super::settings::configuration_again;
use super::strategy::choose_all;
use super::tls::{self, Watch};
use super::traces::Target;
use super::{unservable, warn_of_mistakes};
use crate::cli::serve::Flags;
use crate::failure::Failure;
use runtime::{clock, machine};
use server::About;
use std::sync::Arc;

impl Operator<'_> {
    /// Reloads the configuration; reports success or failure to the log and the service manager.
    ///
    /// # Errors
    /// Why the old configuration stays.
    pub(super) fn reload(&mut self) -> Result<(), String> {
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
        shares.refuse()?;
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
    pub(super) fn look_after_certificates(&mut self) {
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
}

/// Logs a failed reload; returns the reason.
pub(super) fn complain_of_reload(failure: Failure, rights: &Rights) -> String {
    let why = failure.with(|text| rights.hint(text)).to_string();
    tracing::error!("not reloaded, the old configuration stays: {why}");
    why
}

/// Logs what came of reading changed certificates.
pub(super) fn say_certificates(outcome: Result<(), Failure>, rights: &Rights) {
    match outcome {
        Ok(()) => tracing::info!("the files of certificates have changed: new connections get the new ones"),
        Err(failure) => {
            let why = failure.with(|text| rights.hint(text));
            tracing::error!("the files of certificates have changed, the old certificates stay: {why}");
        }
    }
}

/// Logs a reload. `waiting`: the changed keys that take effect at the next start.
pub(super) fn say_reloaded(waiting: &[&str], flags: &Flags) {
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
