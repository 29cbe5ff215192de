//! What `weir ctl` asks and what it hears: one object of JSON each way. Decides the words; what is done about them is
//! the operator's.

use super::drivers::Drivers;
use crate::cli::Failure;
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

/// The state of the server.
pub(super) fn status(drivers: &mut Drivers, is_ready: bool) -> Value {
    let retiring = drivers.retiring();
    let listeners: Vec<Value> = drivers
        .serving()
        .iter()
        .flat_map(|group| {
            group.addresses.iter().map(|address| {
                json!({
                    "address": address,
                    "concurrency": group.choice.concurrency,
                    "io": group.choice.io,
                    "workers": group.choice.workers,
                    "why": group.choice.why(),
                    "open": group.open(),
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
