//! Replaces a worker that died by a panic outside any session or by a system failure.
//!
//! ```text
//!   run ── drained ──▶ end
//!    ▲ │ died: report (once a second for all), wait (longer the more often in a row)
//!    └─┘
//! ```
//! Decides when to replace, and knows nothing about workers. A session that panics never comes here: its worker removes
//! it.

use super::shared_state::{Control, SharedState};
use crate::clock;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Duration;

/// A worker that ran this long did not die because of how it was started.
const SETTLED: Duration = Duration::from_secs(5);
/// The wait before the second replacement in a row; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest wait.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How often a waiting replacement checks whether the strategy is ending.
const LOOK: Duration = Duration::from_millis(20);

/// Sockets kept for a worker's successors until none is needed.
#[derive(Debug)]
pub(crate) struct Listeners(Mutex<Vec<Arc<OwnedFd>>>);

impl Listeners {
    pub(crate) fn keep(sockets: Vec<Arc<OwnedFd>>) -> Arc<Listeners> {
        Arc::new(Listeners(Mutex::new(sockets)))
    }

    /// The sockets; empty once they were given up.
    pub(crate) fn get(&self) -> Vec<Arc<OwnedFd>> {
        self.lock().clone()
    }

    /// Drops them, so that they close with their last user.
    pub(crate) fn give_up(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<OwnedFd>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a worker of a strategy, and replacements, until one ends because it was asked to.
///
/// # Errors
/// Why the last one died, if the strategy was ending then.
pub(crate) fn supervise(
    name: &str,
    control: &Control,
    shared_state: &SharedState,
    life: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let died = |why: &io::Error, pause: Duration| {
        shared_state.replaced.fetch_add(1, Ordering::Relaxed);
        if shared_state.may_complain(clock::now()) {
            complain(name, why, pause);
        }
    };
    replace(|| control.is_draining(), died, life)
}

/// Runs a worker, and replacements, until one ends because it was asked to. `died` hears why each one died, and how long its
/// successor waits.
///
/// # Errors
/// Why the last one died, if all were to end then.
pub(crate) fn replace(
    is_draining: impl Fn() -> bool,
    mut died: impl FnMut(&io::Error, Duration),
    mut life: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let mut deaths = 0;
    loop {
        let began = clock::now();
        let why = match catch_unwind(AssertUnwindSafe(&mut life)) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => io::Error::other("it panicked"),
        };
        if is_draining() {
            return Err(why);
        }
        let now = clock::now();
        if now.since(began) >= SETTLED {
            deaths = 0;
        }
        let pause = match deaths {
            0 => Duration::ZERO,
            more => (PAUSE * (1 << (more - 1).min(10))).min(PAUSE_MAX),
        };
        deaths += 1;
        died(&why, pause);
        let until = now + pause;
        while clock::now() < until && !is_draining() {
            // The pause keeps a worker that dies at once from using a whole processor. It consists of small steps,
            // because a drain has no other way to reach a thread without a back end.
            std::thread::sleep(LOOK.min(until.since(clock::now())));
        }
    }
}

/// Says that a thread died, and when another starts.
pub(crate) fn complain(name: &str, why: &io::Error, pause: Duration) {
    tracing::error!(
        "thread {name} died ({why}): its connections are lost; starting another{}",
        if pause.is_zero() {
            String::new()
        } else {
            format!(" in {pause:?}")
        }
    );
}
