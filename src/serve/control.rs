//! What `weir ctl` asks and what it hears: one object of JSON each way. Decides the words; what is done about them is
//! the operator's.

use super::drivers::Drivers;
use super::strategy::Choice;
use crate::cli::Failure;
use crate::cli::serve::Flags;
use runtime::control::Question;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use server::config::{Concurrency, IoKind, Workers};
use std::net::SocketAddr;

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Wish {
    /// Who serves which address, and how much there is to do.
    Status,
    /// Another strategy for an address, or for all.
    Strategy(Change),
    /// As SIGHUP.
    Reload,
    /// As SIGUSR1.
    ReopenLogs,
    /// As SIGTERM.
    Stop,
}

/// Another strategy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    /// See `--concurrency`.
    pub(crate) concurrency: Concurrency,
    /// See `--io`.
    #[serde(default)]
    pub(crate) io: IoKind,
    /// See `--workers`.
    #[serde(default)]
    pub(crate) workers: Workers,
    /// The address it is for; none: all of them.
    #[serde(default)]
    pub(crate) listener: Option<SocketAddr>,
}

/// What a question asks for; one that is not understood is told so.
pub(super) fn understood(question: Question) -> Option<(Wish, Question)> {
    match serde_json::from_str::<Wish>(question.line()) {
        Ok(wish) => Some((wish, question)),
        Err(error) => {
            let why = Failure::Usage(format!("not understood: {error}"));
            question.answer(&outcome(Err(why)).to_string());
            None
        }
    }
}

/// Why a strategy cannot be changed to while the server runs, and how it can be had.
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
            "write {} into `{}` and send SIGUSR2 to process {}; the program that follows serves so, and no request is lost",
            listed(&|(key, value)| format!("`{key} = \"{value}\"`"), ", "),
            file.display(),
            std::process::id()
        ),
        (Some(_), Some(key)) => format!(
            "stop the server and start it with `{command}` (SIGUSR2 starts it with the same command line and environment, \
             whose `{key}` beats the file)"
        ),
        (None, _) => format!(
            "stop the server and start it with `{command}` (SIGUSR2 starts it with the same command line, and there is no \
             --config FILE)"
        ),
    };
    let all = match change.listener {
        Some(_) => "; then all addresses have it",
        None => "",
    };
    Failure::Usage(format!("{why}: {way}{all}"))
}

/// The state of a server whose workers are processes. Which address connections came to is known to the members only.
pub(super) fn status_of_processes(
    choice: &Choice,
    addresses: &[SocketAddr],
    processes: usize,
    open: u64,
) -> Value {
    let is_alone = addresses.len() == 1;
    let listeners: Vec<Value> = addresses
        .iter()
        .map(|address| {
            json!({
                "address": address,
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

/// The state of the server.
pub(super) fn status(drivers: &mut Drivers, is_ready: bool) -> Value {
    let retiring = drivers.retiring();
    let listeners: Vec<Value> = drivers
        .serving()
        .iter()
        .flat_map(|group| {
            group.open().map(|(address, open)| {
                json!({
                    "address": address,
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

/// That something was done, with what there is to say of it, or why not.
pub(super) fn outcome(outcome: Result<Option<String>, Failure>) -> Value {
    match outcome {
        Ok(None) => json!({ "ok": true }),
        Ok(Some(now)) => json!({ "ok": true, "now": now }),
        Err(failure) => json!({ "ok": false, "kind": failure.kind(), "error": failure.to_string() }),
    }
}
