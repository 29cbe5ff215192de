//! The protocol of `weir ctl`: one JSON object per command and per answer. Decides the wording; `Operator` and the
//! founder execute the commands.

use super::drivers::Drivers;
use super::managed::Managed;
use super::strategy::Choice;
use super::tls::Tls;
use crate::cli::serve::Flags;
use crate::failure::Failure;
use acme::order::Reason;
use runtime::clock;
use runtime::control::Question;
use runtime::listen::Address;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::Purge;
use server::clock::Clock;
use server::config::{Concurrency, IoKind, Workers};
use units::UnixTime;

/// A command of `weir ctl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Wish {
    /// Reports strategies and open connections, by address.
    Status,
    /// Switches the strategy of one address or of all.
    Strategy(Change),
    /// Lists certificates.
    Certificates,
    /// Orders a new certificate.
    Renew,
    /// Orders a new certificate, and has the one in use revoked.
    Revoke {
        /// What clients are told.
        reason: Reason,
    },
    /// Drops responses of upstreams that are stored.
    Purge {
        /// `all`, `path /api/*` or `tag name`.
        what: String,
    },
    /// Lists the sites that have versions.
    Sites,
    /// Puts a version of a site in force.
    SwitchSite {
        /// Name of the version.
        version: String,
        /// A name of the site's host; `None`: the top level, or the only site with versions.
        #[serde(default)]
        host: Option<String>,
    },
    /// Puts the version in force again that was before the current one.
    RollBackSite {
        /// As for [`Wish::SwitchSite`].
        #[serde(default)]
        host: Option<String>,
    },
    /// Reloads the configuration, as SIGHUP does.
    Reload,
    /// Reopens the files of logs, as SIGUSR1 does.
    ReopenLogs,
    /// Stops gracefully, as SIGTERM does.
    Stop,
}

/// A strategy to switch to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// See `--concurrency`.
    pub(crate) concurrency: Concurrency,
    /// See `--io`.
    #[serde(default)]
    pub(crate) io: IoKind,
    /// See `--workers`.
    #[serde(default)]
    pub(crate) workers: Workers,
    /// The address to switch; `None`: all.
    #[serde(default)]
    pub(crate) listener: Option<String>,
}

/// Parses a command; answers an invalid one with an error and returns `None`.
pub(super) fn understood(question: Question) -> Option<(Wish, Question)> {
    match serde_json::from_str::<Wish>(question.line()) {
        Ok(wish) => Some((wish, question)),
        Err(error) => {
            let why = Failure::Usage(format!(
                "invalid command: {error}; use a `weir ctl` of the server's version"
            ));
            question.answer(&outcome(Err(why)).to_string());
            None
        }
    }
}

/// An error for a switch that needs a new start, with the steps to make it.
pub(super) fn needs_a_start(why: &str, change: &Change, flags: &Flags) -> Failure {
    let mut settings = vec![("concurrency", change.concurrency.to_string())];
    if change.io != IoKind::default() {
        settings.push(("io", change.io.to_string()));
    }
    if change.workers != Workers::default() {
        settings.push(("workers", change.workers.to_string()));
    }
    let listed = |show: &dyn Fn(&(&str, String)) -> String, between: &str| {
        settings.iter().map(show).collect::<Vec<_>>().join(between)
    };
    let command = listed(&|(key, value)| format!("--{key} {value}"), " ");
    let way = match (flags.file(), flags.typed(&["concurrency", "io", "workers"])) {
        (Some(file), None) => format!(
            "write {} into `{}` and send SIGUSR2 to process {}; this upgrade in place loses no request",
            listed(&|(key, value)| format!("`{key} = \"{value}\"`"), ", "),
            file.display(),
            std::process::id()
        ),
        (Some(_), Some(key)) => format!(
            "stop the server and start it with `{command}` (SIGUSR2 keeps the command line and the environment, whose \
             `{key}` overrides the file)"
        ),
        (None, _) => format!(
            "stop the server and start it with `{command}` (SIGUSR2 keeps the command line, and there is no --config \
             FILE to change)"
        ),
    };
    let all = match change.listener {
        Some(_) => "; this changes all addresses",
        None => "",
    };
    Failure::Usage(format!("{why}: {way}{all}"))
}

/// The state of a server with worker processes. With several addresses, `open` per address is null: only members know
/// which address a connection came to.
pub(super) fn status_of_processes(
    choice: &Choice,
    addresses: &[Address],
    processes: usize,
    open: u64,
) -> Value {
    let is_alone = addresses.len() == 1;
    let listeners: Vec<Value> = addresses
        .iter()
        .map(|address| {
            json!({
                "address": address.to_string(),
                "concurrency": choice.concurrency,
                "io": choice.io,
                "workers": choice.workers,
                "why": choice.why(),
                "open": is_alone.then_some(open),
            })
        })
        .collect();
    json!({
        "ok": true,
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "ready": true,
        "listeners": listeners,
        "processes": processes,
        "open": open,
        "retiring": 0,
    })
}

/// The state of a server of one process.
pub(super) fn status(drivers: &mut Drivers, is_ready: bool) -> Value {
    let retiring = drivers.retiring();
    let listeners: Vec<Value> = drivers
        .serving()
        .iter()
        .flat_map(|group| {
            group.open().map(|(address, open)| {
                json!({
                    "address": address.to_string(),
                    "concurrency": group.choice.concurrency,
                    "io": group.choice.io,
                    "workers": group.choice.workers,
                    "why": group.choice.why(),
                    "open": open,
                })
            })
        })
        .collect();
    json!({
        "ok": true,
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "ready": is_ready,
        "listeners": listeners,
        "retiring": retiring,
    })
}

/// The certificates in use, by the end of their validity.
pub(super) fn certificates(tls: Option<&Tls>, managed: Option<&Managed>) -> Value {
    let mut all = tls.map(Tls::certificates).unwrap_or_default();
    all.sort_by_key(|one| one.expires);
    let now = clock::wall();
    let listed = all.iter().map(|one| {
        json!({
            "file": one.file,
            "names": one.names,
            "expires": iso(one.expires),
            "left-s": one.expires.secs - now.secs,
            "is-due": now.secs > one.due.secs,
            "is-managed": one.is_managed,
        })
    });
    json!({
        "ok": true,
        "certificates": listed.collect::<Vec<_>>(),
        "trouble": managed.and_then(|managed| managed.state(now)),
        "revocation": managed.and_then(|managed| managed.revocation_state(now)),
    })
}

/// Has the managed certificate renewed, and the one in use revoked if there is a reason.
pub(super) fn renew(managed: Option<&Managed>, revoke: Option<Reason>) -> Value {
    let none = || {
        Failure::Usage(
            "no certificate here is from Weir: those from files are renewed by whoever wrote them (--domain)"
                .to_owned(),
        )
    };
    let begun = managed.ok_or_else(none).and_then(|managed| managed.renew(revoke));
    let what = match revoke {
        None => "a new certificate is ordered",
        Some(_) => "a new certificate is ordered, then the old one is revoked",
    };
    outcome(begun.map(|()| Some(format!("{what}; `weir ctl certificates` shows what comes of it"))))
}

/// Drops stored responses with this function, which returns how many there were, if it knows.
pub(super) fn purge(what: &str, purge: impl FnOnce(&Purge) -> Option<u64>) -> Value {
    let parsed = what
        .parse::<Purge>()
        .map_err(|error| Failure::Usage(format!("`{what}` names no stored responses: {error}")));
    let purged = parsed.map(|parsed| purge(&parsed));
    outcome(purged.map(|count| {
        Some(match count {
            None => "all worker processes drop these stored responses".to_owned(),
            Some(1) => "1 stored response is dropped".to_owned(),
            Some(count) => format!("{count} stored responses are dropped"),
        })
    }))
}

/// The time in the format of ISO 8601.
fn iso(time: UnixTime) -> String {
    let mut clock = Clock::default();
    clock.set(time);
    String::from_utf8_lossy(clock.iso()).into_owned()
}

/// The answer to a command: success, with the strategy now in use if it changed, or the error.
pub(super) fn outcome(outcome: Result<Option<String>, Failure>) -> Value {
    match outcome {
        Ok(None) => json!({ "ok": true }),
        Ok(Some(now)) => json!({ "ok": true, "now": now }),
        Err(failure) => json!({ "ok": false, "kind": failure.kind(), "error": failure.to_string() }),
    }
}
