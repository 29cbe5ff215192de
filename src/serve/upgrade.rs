//! Upgrade in place, on the side of the old process. Decides when an attempt has failed; `runtime::process::inherit` starts the
//! new program and hands over the sockets.
//!
//! ```text
//!   NONE ── USR2: start the new program ──▶ UNDERWAY ── it serves ──▶ FOLLOWED: this process drains,
//!     ▲                                        │                      and reports a crash of the new one
//!     └── it fails, exits, takes too long, ────┘
//!         or this process is told to stop: the new program is ended
//! ```

use runtime::clock;
use runtime::listen::Sockets;
use runtime::process::inherit::{Bounds, Datagrams, Forwarding, Program, Progress, Secret, Successor};
use units::{Duration, Instant};

/// How often to check whether the new process serves.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// Time in which the new process must serve; reading a large site takes far less.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an upgrade needs, and the attempt under way.
#[derive(Debug)]
pub(crate) struct Upgrade {
    program: Program,
    sockets: Vec<Sockets>,
    datagrams: Vec<Datagrams>,
    bounds: Bounds,
    underway: Option<(Successor, Instant)>,
    /// The new process, once it serves.
    followed: Option<Successor>,
}

impl Upgrade {
    pub(crate) fn new(program: Program, sockets: Vec<Sockets>, bounds: Bounds) -> Upgrade {
        Upgrade {
            program,
            sockets,
            datagrams: Vec::new(),
            bounds,
            underway: None,
            followed: None,
        }
    }

    /// Hands these UDP sockets over, too.
    pub(crate) fn with_datagrams(self, datagrams: Vec<Datagrams>) -> Upgrade {
        Upgrade { datagrams, ..self }
    }

    /// Starts the new program, which gets `secret` and the channels that `share` opens; logs a failure. `hint` adds an
    /// explanation to errors that missing rights may cause.
    pub(crate) fn begin(
        &mut self,
        secret: &Secret,
        share: impl FnOnce() -> Forwarding,
        hint: impl Fn(&str) -> String,
    ) {
        if self.underway.is_some() {
            tracing::warn!("SIGUSR2 ignored: an upgrade is already under way");
            return;
        }
        match Successor::start(
            &self.program,
            &self.sockets,
            &self.datagrams,
            &share(),
            &self.bounds,
            secret,
        ) {
            Ok(successor) => {
                tracing::info!(
                    "upgrading: process {} runs `{}`; this process serves until the new one does",
                    successor.pid(),
                    self.program.path().display()
                );
                self.underway = Some((successor, clock::now() + PATIENCE));
            }
            Err(error) => {
                let why = error.to_string();
                tracing::error!("not upgraded, this process keeps serving: {why}{}", hint(&why));
            }
        }
    }

    /// Detaches a forked child from the attempt under way, without ending it.
    pub(crate) fn leave(&mut self) {
        if let Some((successor, _)) = self.underway.take() {
            successor.leave();
        }
    }

    /// Closes all that was to be handed over: other processes have it.
    pub(crate) fn let_go(&mut self) {
        self.sockets = Vec::new();
        self.datagrams = Vec::new();
    }

    /// Replaces the sockets to hand over.
    pub(crate) fn hand_over(&mut self, sockets: Vec<Sockets>) {
        self.sockets = sockets;
    }

    pub(crate) fn is_underway(&self) -> bool {
        self.underway.is_some()
    }

    /// Checks the attempt; returns the new process's number once it serves.
    pub(crate) fn look(&mut self, now: Instant) -> Option<u32> {
        let (successor, until) = self.underway.as_mut()?;
        let why = match successor.look() {
            Progress::Ready => {
                let pid = successor.pid();
                self.followed = self.underway.take().map(|(successor, _)| successor);
                return Some(pid);
            }
            Progress::Starting if now < *until => return None,
            Progress::Starting => format!("it did not serve within {PATIENCE:?}"),
            Progress::Failed(why) => why,
        };
        self.give_up(&why);
        None
    }

    /// Ends the new process, if an attempt is under way, and logs why.
    pub(crate) fn give_up(&mut self, why: &str) {
        if let Some((successor, _)) = self.underway.take() {
            let pid = successor.pid();
            drop(successor);
            tracing::error!("not upgraded, this process keeps serving; process {pid} ended: {why}");
        }
    }

    /// Whether a new process has taken over, as far as is known.
    pub(crate) fn is_followed(&self) -> bool {
        self.followed.is_some()
    }

    /// While this process drains: logs once if the new one has failed. Nobody accepts new connections then, because this
    /// process has closed its sockets for TCP.
    pub(crate) fn watch_over(&mut self) {
        let Some(status) = self.followed.as_mut().and_then(Successor::ended) else {
            return;
        };
        if let Some(successor) = self.followed.take()
            && !status.success()
        {
            tracing::error!(
                "the new process {} has ended ({status}): new connections are refused, and this process finishes its responses; \
                 start Weir again (HTTP/3 needs the end of this process, too; TERM ends it sooner)",
                successor.pid()
            );
        }
    }
}
