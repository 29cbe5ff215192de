//! The upstreams of a route: which gets the next request (crate `balance`), shared by the threads of a process.
//!
//! ```text
//!   requests of clients ─▶ enter, opened, answered, failed, leave ─┐
//!   `check`: a thread that asks each upstream ─▶ checked ──────────┴─▶ balance::Balancer, behind a lock
//! ```
//! A process learns by itself; other processes do not share it. The lock is held for a choice or a count, never for I/O.

mod check;
mod key;

pub(crate) use key::of_request;

use super::places::Place;
use crate::config::Proxy;
use ::balance::{Request, Settings, State, Visit};
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
    pub(crate) fn new(rule: &Proxy, places: &Arc<[Place]>) -> Balancer {
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
        Balancer {
            count: rule.upstreams.len(),
            shared: Arc::new(Shared(Mutex::new(::balance::Balancer::new(&settings)))),
            check: check::Plan::of(rule, places),
            rounds: OnceLock::new(),
        }
    }

    /// Number of upstreams.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The upstream for a request with this key. `tried` has a bit for each that it has tried; `None` if it has tried all.
    /// The request is under way there until [`Balancer::leave`].
    pub(crate) fn enter(&self, tried: u64, key: u64, rng: &mut Rng, now: Instant) -> Option<Visit> {
        if let Some(plan) = &self.check {
            self.rounds.get_or_init(|| plan.start(&self.shared));
        }
        self.shared.lock().enter(Request { tried, key }, rng, now)
    }

    /// A connection was opened for the request.
    pub(crate) fn opened(&self, visit: &mut Visit, now: Instant) {
        self.shared.lock().opened(visit, now);
    }

    /// The head of the response arrived.
    pub(crate) fn answered(&self, visit: &mut Visit, now: Instant) {
        self.shared.lock().answered(visit, now);
    }

    /// A request is no longer under way.
    pub(crate) fn leave(&self, visit: Visit) {
        self.shared.lock().leave(visit);
    }

    /// An upstream failed before the end of its response. Returns whether it is ejected because of that.
    pub(crate) fn failed(&self, at: usize, now: Instant) -> bool {
        self.shared.lock().failed(at, now)
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
