//! Upgrade in place, on the side of the old process. Decides when an attempt has failed, and what this process does once it
//! was followed; `runtime::process::inherit` starts the new program and hands over the sockets.
//!
//! ```text
//!   SERVING ── USR2: start the new program ──▶ underway ── it serves ──▶ FOLLOWED: this process drains, and keeps
//!     ▲ │                                        │                         │ the sockets without accepting
//!     │ │ told to stop                           │                         │
//!     │ ▼                                        │                         ├─ the new one gives the sockets to a third
//!     │ STOPPING ◀── told to stop: ended ────────┤                         │  process, or stops ──▶ LET GO
//!     │                                          │                         ▼ it crashes
//!     └──────── fails, exits, takes too long ────┘                       BEREFT: clients are refused
//!                                                                          │ ▲
//!                             FOLLOWED ◀── it serves ── underway ◀── USR2 ─┘ └─ it fails, exits, takes too long
//! ```

use runtime::clock;
use runtime::listen::Sockets;
use runtime::process::inherit::{
    Bounds, Datagrams, Forwarding, Program, Progress, Secret, Standby, Standing, Successor,
};
use std::io::ErrorKind;
use std::net::SocketAddr;
use units::{Duration, Instant};

/// How often to check whether the new process serves.
pub(crate) const TICK: Duration = Duration::from_millis(10);
/// Time in which the new process must serve; reading a large site takes far less.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an upgrade needs, and the attempt under way.
#[derive(Debug)]
pub(crate) struct Upgrade {
    program: Program,
    /// Once this process was followed, it keeps them open ([`Sockets::keep`]).
    sockets: Vec<Sockets>,
    datagrams: Vec<Datagrams>,
    bounds: Bounds,
    underway: Option<(Successor, Instant)>,
    stage: Stage,
    /// The process before this one, which keeps the sockets, too.
    standby: Option<Standby>,
}

/// See the diagram above.
#[derive(Debug)]
enum Stage {
    Serving,
    Stopping,
    Followed(Successor),
    Bereft,
    /// The new process, if it has not died.
    LetGo(Option<Successor>),
}

/// What has become of the new process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It serves: its process ID, and the UDP addresses that it serves; no addresses if it is an older program, which does
    /// not say.
    Serves(u32, Vec<SocketAddr>),
    /// It gives the sockets away, or has closed them. This process has closed its own.
    Released,
    /// The one that served has died, or the one that was to take its place has failed.
    Died,
}

impl Upgrade {
    pub(crate) fn new(
        program: Program,
        sockets: Vec<Sockets>,
        datagrams: Vec<Datagrams>,
        bounds: Bounds,
    ) -> Upgrade {
        Upgrade {
            program,
            sockets,
            datagrams,
            bounds,
            underway: None,
            stage: Stage::Serving,
            standby: None,
        }
    }

    /// The process before this one is to close the sockets before anybody else gets them.
    pub(crate) fn follows(&mut self, standby: Standby) {
        self.standby = Some(standby);
    }

    /// Starts the new program, which gets `secret` and the channels that `share` opens; logs a failure. `hint` adds an
    /// explanation to errors that missing rights may cause. Returns whether the attempt is under way.
    pub(crate) fn begin(
        &mut self,
        secret: &Secret,
        share: impl FnOnce() -> Forwarding,
        hint: impl Fn(&str) -> String,
    ) -> bool {
        if self.underway.is_some() {
            tracing::warn!("SIGUSR2 ignored: an upgrade is already under way");
            return false;
        }
        match &self.stage {
            Stage::Serving => {}
            Stage::Bereft => {
                if let Err(why) = self.listen() {
                    tracing::error!("not started again: {why}");
                    return false;
                }
            }
            Stage::Stopping => {
                tracing::warn!("SIGUSR2 ignored: this process was told to stop; start Weir again");
                return false;
            }
            Stage::Followed(successor) => {
                tracing::warn!(
                    "SIGUSR2 ignored: process {} serves in place of this one, which finishes its responses; send the signal to it",
                    successor.pid()
                );
                return false;
            }
            Stage::LetGo(successor) => {
                let others = match successor {
                    Some(successor) => format!(
                        "those that it had are with process {} and others",
                        successor.pid()
                    ),
                    None => "the process that had them has died".to_owned(),
                };
                tracing::warn!(
                    "SIGUSR2 ignored: this process has no listening sockets any more ({others}); send the signal to the newest                      process of Weir, or start Weir again if none serves"
                );
                return false;
            }
        }
        self.release();
        let is_again = self.is_bereft();
        let started = Successor::start(
            &self.program,
            &self.sockets,
            &self.datagrams,
            &share(),
            &self.bounds,
            secret,
        );
        match started {
            Ok(successor) => {
                let (pid, program) = (successor.pid(), self.program.path().display());
                match is_again {
                    false => tracing::info!(
                        "upgrading: process {pid} runs `{program}`; this process serves until the new one does"
                    ),
                    true => tracing::info!(
                        "starting again: process {pid} runs `{program}` with the sockets that this process has kept"
                    ),
                }
                self.underway = Some((successor, clock::now() + PATIENCE));
                true
            }
            Err(error) => {
                let why = error.to_string();
                self.complain(&format!("{why}{}", hint(&why)));
                false
            }
        }
    }

    /// Has the kernel take connections again at the sockets that were kept.
    fn listen(&self) -> Result<(), String> {
        let Some((sockets, error)) = self
            .sockets
            .iter()
            .find_map(|sockets| sockets.listen().err().map(|error| (sockets, error)))
        else {
            return Ok(());
        };
        self.refuse();
        let address = sockets.address();
        let address = address.map_or_else(|| "an address".to_owned(), |address| address.to_string());
        let remedy = match error.kind() {
            // Landlock hides who that is.
            ErrorKind::AddrInUse => {
                "another program listens there by now (`ss -ltnp` shows which): if that is Weir, nothing is to be done, otherwise \
                 stop it and send SIGUSR2 again"
            }
            _ => "start Weir again",
        };
        Err(format!("cannot listen on {address}: {error}; {remedy}"))
    }

    fn refuse(&self) {
        self.sockets.iter().for_each(Sockets::refuse);
    }

    /// Has the process before this one close its sockets.
    fn release(&mut self) {
        if let Some(standby) = self.standby.take() {
            standby.release();
        }
    }

    /// Logs why an attempt has failed, and what is now.
    fn complain(&self, why: &str) {
        match self.stage {
            Stage::Bereft => {
                self.refuse();
                tracing::error!(
                    "not started again, new connections are refused: {why}; correct that and send SIGUSR2 again, or start Weir"
                );
            }
            _ => tracing::error!("not upgraded, this process keeps serving: {why}"),
        }
    }

    /// Detaches a forked child from the attempt under way and from the process before this one, without ending or telling them.
    pub(crate) fn leave(&mut self) {
        if let Some((successor, _)) = self.underway.take() {
            successor.leave();
        }
        self.standby = None;
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

    /// Whether the process that followed this one has died, and this one can start another.
    pub(crate) fn is_bereft(&self) -> bool {
        matches!(self.stage, Stage::Bereft)
    }

    /// This process is told to stop: ends the new process, if an attempt is under way, and has the process before this one
    /// close its sockets.
    pub(crate) fn stop(&mut self) {
        self.give_up("this process was told to stop");
        self.release();
        if matches!(self.stage, Stage::Serving) {
            self.stage = Stage::Stopping;
        }
    }

    /// Ends the new process, if an attempt is under way, and logs why.
    fn give_up(&mut self, why: &str) {
        if let Some((successor, _)) = self.underway.take() {
            let pid = successor.pid();
            drop(successor);
            self.complain(&format!("{why} (process {pid} has ended)"));
        }
    }

    /// Checks the new process; returns what has changed.
    pub(crate) fn look(&mut self, now: Instant) -> Option<Outcome> {
        if self.underway.is_some() {
            return self.look_at_attempt(now);
        }
        let (Stage::Followed(successor) | Stage::LetGo(Some(successor))) = &mut self.stage else {
            return None;
        };
        let pid = successor.pid();
        let standing = successor.standing();
        let is_kept = matches!(self.stage, Stage::Followed(_)) && !self.sockets.is_empty();
        match standing {
            Standing::Alone => None,
            Standing::Released if !is_kept => None,
            Standing::Released => {
                self.let_go();
                if let Stage::Followed(successor) = std::mem::replace(&mut self.stage, Stage::LetGo(None)) {
                    successor.have_closed();
                    self.stage = Stage::LetGo(Some(successor));
                }
                Some(Outcome::Released)
            }
            Standing::Crashed(status, _) if matches!(self.stage, Stage::LetGo(_)) => {
                self.stage = Stage::LetGo(None);
                tracing::warn!(
                    "process {pid}, which followed this one, has ended ({status}) after it had shared the sockets or closed them; \
                     start Weir again if no other process serves"
                );
                None
            }
            Standing::Crashed(status, is_ours) => {
                let can_start = is_ours && is_kept;
                let remedy = match can_start {
                    true => format!(
                        "send SIGUSR2 to this process ({}) to start the program again, or start Weir anew",
                        std::process::id()
                    ),
                    false => "start Weir again".to_owned(),
                };
                if can_start {
                    self.refuse();
                }
                tracing::error!(
                    "the new process {pid} has ended ({status}): new connections are refused, and this process finishes its \
                     responses; {remedy} (beside this process, a new start has no HTTP/3; TERM ends this process sooner)"
                );
                match can_start {
                    true => self.stage = Stage::Bereft,
                    false => {
                        self.let_go();
                        self.stage = Stage::LetGo(None);
                    }
                }
                Some(Outcome::Died)
            }
        }
    }

    fn look_at_attempt(&mut self, now: Instant) -> Option<Outcome> {
        let (successor, until) = self.underway.as_mut()?;
        let why = match successor.look() {
            Progress::Ready => {
                let (mut successor, _) = self.underway.take()?;
                let pid = successor.pid();
                let over_udp = successor.standby();
                match over_udp {
                    // Before the workers close them.
                    Some(_) => self.sockets = self.sockets.iter().map(Sockets::keep).collect(),
                    None => self.let_go(),
                }
                self.stage = Stage::Followed(successor);
                return Some(Outcome::Serves(pid, over_udp.unwrap_or_default()));
            }
            Progress::Starting if now < *until => return None,
            Progress::Starting => format!("it did not serve within {PATIENCE:?}"),
            Progress::Failed(why) => why,
        };
        self.give_up(&why);
        self.is_bereft().then_some(Outcome::Died)
    }
}
