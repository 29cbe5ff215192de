//! The upstreams of a route: which gets the next request (crate `balance`), shared by the threads of a process.
//!
//! ```text
//!   requests of clients ─▶ enter, opened, answered, failed, leave ─┐
//!   `check`: a thread that asks each upstream ─▶ checked ──────────┴─▶ balance::Balancer, behind a lock
//! ```
//! A process learns by itself; other processes do not share it. The lock is held for a choice or a count, never for I/O.
//! `record` writes down each choice, if the rule says so.

mod check;
mod key;
mod record;

pub(crate) use key::of_request;
pub(crate) use record::Left;

use super::places::Place;
use crate::config::Proxy;
use ::balance::{Request, Settings, State, Visit};
use record::{Note, Recorder};
use runtime::rounds::Rounds;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use units::{Instant, Rng};

/// The upstreams of a route.
#[derive(Debug)]
pub(crate) struct Balancer {
    count: usize,
    shared: Arc<Shared>,
    check: Option<check::Plan>,
    /// The thread that checks, from the first request on: processes may be forked before it.
    rounds: OnceLock<Option<Rounds>>,
    /// Where choices are recorded; `None`: nowhere.
    recorder: Option<Box<Recorder>>,
}

/// A request at an upstream, which ends with [`Balancer::leave`].
#[derive(Debug)]
pub(crate) struct Stay {
    visit: Visit,
    began: Instant,
    note: Option<Box<Note>>,
}

impl Stay {
    /// Index of the upstream.
    pub(crate) fn at(&self) -> usize {
        self.visit.at
    }

    /// Failures in a row that the head of the response has ended there.
    pub(crate) fn forgiven(&self) -> u32 {
        self.visit.forgiven
    }

    /// The upstream failed the request; it may have processed it, or it did not.
    pub(crate) fn failed(&self, is_processed: bool, now: Instant) {
        if let Some(note) = &self.note {
            note.failed(is_processed, now.max(self.began) - self.began);
        }
    }
}

#[derive(Debug)]
struct Shared(Mutex<::balance::Balancer>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ::balance::Balancer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Choices of a dry run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DryRun {
    pub(crate) policy: ::balance::Policy,
    pub(crate) choices: u64,
    /// Choices that differ from those that were followed.
    pub(crate) differing: u64,
}

impl Balancer {
    /// # Errors
    /// In words, why the file of `balance-record` cannot be opened.
    pub(crate) fn new(rule: &Proxy, places: &Arc<[Place]>) -> Result<Balancer, String> {
        let weight = |at: usize| rule.weights.get(at).copied().unwrap_or(1);
        let id = |at: usize| ::balance::of_bytes(rule.upstreams[at].to_string().as_bytes());
        let settings = Settings {
            policy: rule.balance,
            dry_run: rule.balance_dry_run,
            upstreams: (0..rule.upstreams.len()).map(|at| (id(at), weight(at))).collect(),
            failures_max: rule.max_failures,
            ejection: rule.ejection_time,
            slow_start: rule.slow_start,
        };
        Ok(Balancer {
            count: rule.upstreams.len(),
            shared: Arc::new(Shared(Mutex::new(::balance::Balancer::new(&settings)))),
            check: check::Plan::of(rule, places),
            rounds: OnceLock::new(),
            recorder: Recorder::open(rule)?.map(Box::new),
        })
    }

    /// Number of upstreams.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The upstream for a request with this key. `tried` has a bit for each that it has tried; `None` if it has tried all.
    /// The request is under way there until [`Balancer::leave`]. `before`: where it is until then, if it is somewhere.
    pub(crate) fn enter(
        &self,
        (tried, key): (u64, u64),
        before: Option<&Stay>,
        rng: &mut Rng,
        now: Instant,
    ) -> Option<Stay> {
        if let Some(plan) = &self.check {
            self.rounds.get_or_init(|| plan.start(&self.shared));
        }
        let request = Request { tried, key };
        let Some(recorder) = self.recorder.as_ref().filter(|recorder| recorder.is_on()) else {
            let visit = self.shared.lock().enter(request, rng, now)?;
            return Some(Stay {
                visit,
                began: now,
                note: None,
            });
        };
        let (visit, seen) = self.shared.lock().enter_seen(request, rng, now)?;
        let number = before.and_then(|stay| Some(stay.note.as_ref()?.request()));
        Some(Stay {
            visit,
            began: now,
            note: Some(Box::new(recorder.note((tried, key), seen, number, now))),
        })
    }

    /// A connection was opened for the request.
    pub(crate) fn opened(&self, stay: &mut Stay, now: Instant) {
        self.shared.lock().opened(&mut stay.visit, now);
    }

    /// The head of the response arrived.
    pub(crate) fn answered(&self, stay: &mut Stay, now: Instant) {
        self.shared.lock().answered(&mut stay.visit, now);
    }

    /// A request is no longer under way.
    pub(crate) fn leave(&self, stay: &Stay, left: Left) {
        self.shared.lock().leave(stay.visit);
        if let (Some(recorder), Some(note)) = (&self.recorder, &stay.note) {
            recorder.leave(note, &stay.visit, left);
        }
    }

    /// An upstream failed before the end of its response. `forgiven`: of the stay there. Returns whether it is ejected because of that.
    pub(crate) fn failed(&self, at: usize, forgiven: u32, now: Instant) -> bool {
        self.shared.lock().failed(at, forgiven, now)
    }

    /// What is known of each upstream, in their order, at the last event.
    pub(crate) fn states(&self) -> Vec<State> {
        let balancer = self.shared.lock();
        balancer.states(balancer.latest())
    }

    /// The choices of the dry run, if there is one.
    pub(crate) fn dry_run(&self) -> Option<DryRun> {
        let (policy, choices, differing) = self.shared.lock().dry_run()?;
        Some(DryRun {
            policy,
            choices,
            differing,
        })
    }
}
