//! Being followed by a new program in place. Decides when an attempt has failed; how sockets change
//! hands is `runtime::inherit`'s.
//!
//! ```text
//!   NONE ── USR2: start the program ──▶ UNDERWAY ── it serves ──▶ this process drains
//!     ▲                                    │
//!     └── it fails, ends, takes too long, ─┘
//!         or this process is to stop: it is ended, this one goes on
//! ```

use measure::{Duration, Instant};
use runtime::clock;
use runtime::inherit::{Bounds, Program, Progress, Successor};
use runtime::listen::Sockets;

/// How often it is looked whether the new process serves.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// What a new process may take to serve; a large site is read in far less.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an upgrade needs, and the one that is going on.
#[derive(Debug)]
pub(crate) struct Upgrade {
    program: Program,
    sockets: Vec<Sockets>,
    bounds: Bounds,
    underway: Option<(Successor, Instant)>,
}

impl Upgrade {
    pub(crate) fn new(program: Program, sockets: Vec<Sockets>, bounds: Bounds) -> Upgrade {
        Upgrade {
            program,
            sockets,
            bounds,
            underway: None,
        }
    }

    /// Starts the new program; says why if that fails. `hint` explains what the rights may be to blame
    /// for.
    pub(crate) fn begin(&mut self, hint: impl Fn(&str) -> String) {
        if self.underway.is_some() {
            tracing::warn!("SIGUSR2: the new process is being started already");
            return;
        }
        match Successor::start(&self.program, &self.sockets, &self.bounds) {
            Ok(successor) => {
                tracing::info!(
                    "upgrading: process {} runs `{}`; this one serves until that one does",
                    successor.pid(),
                    self.program.path().display()
                );
                self.underway = Some((successor, clock::now() + PATIENCE));
            }
            Err(error) => {
                let why = error.to_string();
                tracing::error!("not upgraded, this process goes on: {why}{}", hint(&why));
            }
        }
    }

    /// What a copy of this process does not have: the upgrade that is going on.
    pub(crate) fn leave(&mut self) {
        if let Some((successor, _)) = self.underway.take() {
            successor.leave();
        }
    }

    /// Hands these over from now on.
    pub(crate) fn hand_over(&mut self, sockets: Vec<Sockets>) {
        self.sockets = sockets;
    }

    pub(crate) fn is_underway(&self) -> bool {
        self.underway.is_some()
    }

    /// The process that serves from now on, if it does.
    pub(crate) fn look(&mut self, now: Instant) -> Option<u32> {
        let (successor, until) = self.underway.as_mut()?;
        let why = match successor.look() {
            Progress::Ready => {
                let pid = successor.pid();
                self.underway = None;
                return Some(pid);
            }
            Progress::Starting if now < *until => return None,
            Progress::Starting => format!("it did not serve within {PATIENCE:?}"),
            Progress::Failed(why) => why,
        };
        self.give_up(&why);
        None
    }

    /// Ends the new process, if there is one.
    pub(crate) fn give_up(&mut self, why: &str) {
        if let Some((successor, _)) = self.underway.take() {
            let pid = successor.pid();
            drop(successor);
            tracing::error!("not upgraded, this process goes on; process {pid} is gone: {why}");
        }
    }
}
