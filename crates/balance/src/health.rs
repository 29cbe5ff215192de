//! Whether an upstream takes part.
//!
//! ```text
//!        failures in a row            time is over             the probe succeeds
//!   Up ────────────────────▶ Ejected ───────────────▶ probed ───────────────────────▶ Up, slow start
//!   │ ▲                         ▲                        │ fails, or does not end
//!   │ │ a check succeeds:       └────────────────────────┘
//!   │ │ slow start
//!   │ └───────────── Down      Up, Ejected ── a check fails ──▶ Down
//! ```
//! Requests of clients tell `Up` and `Ejected`, active checks `Down`. If no upstream takes part, all do: an error is no
//! worse than a refusal. The balancer decides that, because it knows the others.

use units::{Duration, Instant};

/// Part of its load that an upstream takes at the begin of its slow start. Zero would never end: it would get no request.
const SHARE_MIN: f64 = 0.1;

/// State of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It takes part.
    Up {
        /// Failures in a row.
        failures: u32,
        /// End of the absence that came before.
        returned: Option<Instant>,
    },
    /// It failed too often.
    Ejected {
        /// Then one request probes it.
        until: Instant,
    },
    /// The last active check failed.
    Down,
}

impl Health {
    pub(crate) const NEW: Health = Health::Up {
        failures: 0,
        returned: None,
    };

    /// Whether it takes part; an ejected one does if it is to be probed.
    pub(crate) fn is_open(self, now: Instant) -> bool {
        match self {
            Health::Up { .. } => true,
            Health::Ejected { until } => until <= now,
            Health::Down => false,
        }
    }

    /// A request goes there. If it is a probe, no other one is until it ends.
    pub(crate) fn entered(&mut self, ejection: Duration, now: Instant) {
        if let Health::Ejected { until } = self {
            *until = now + ejection;
        }
    }

    /// A request got the head of its response. Returns the failures in a row that this ends, unless the rest fails.
    pub(crate) fn succeeded(&mut self, now: Instant) -> u32 {
        match self {
            Health::Up { failures, .. } => core::mem::take(failures),
            Health::Ejected { .. } => {
                self.back(now);
                0
            }
            // The next check tells.
            Health::Down => 0,
        }
    }

    fn back(&mut self, now: Instant) {
        *self = Health::Up {
            failures: 0,
            returned: Some(now),
        };
    }

    /// A request failed; after `failures_max` in a row (0: never), the upstream is ejected. `forgiven`: the failures that the head of
    /// its response had ended. Returns whether it is because of this one.
    pub(crate) fn failed(
        &mut self,
        forgiven: u32,
        failures_max: u32,
        ejection: Duration,
        now: Instant,
    ) -> bool {
        let until = now + ejection;
        match self {
            Health::Up { failures, .. } => {
                *failures = failures.saturating_add(forgiven).saturating_add(1);
                let is_ejected = failures_max > 0 && *failures >= failures_max;
                if is_ejected {
                    *self = Health::Ejected { until };
                }
                is_ejected
            }
            Health::Ejected { until: before } => {
                *before = until;
                false
            }
            Health::Down => false,
        }
    }

    /// An active check ended. Returns whether it changed the state.
    pub(crate) fn checked(&mut self, is_good: bool, now: Instant) -> bool {
        match (*self, is_good) {
            (Health::Down, true) => self.back(now),
            (Health::Up { .. } | Health::Ejected { .. }, false) => *self = Health::Down,
            // A check knows less than the requests that failed.
            (Health::Down, false) | (Health::Up { .. } | Health::Ejected { .. }, true) => return false,
        }
        true
    }

    /// The part of its load that it takes now: less than 1 during its slow start, which lasts `span`.
    pub(crate) fn share(self, span: Duration, now: Instant) -> f64 {
        match self {
            Health::Up {
                returned: Some(returned),
                ..
            } if now < returned + span => {
                let part = (now - returned).as_secs_f64() / span.as_secs_f64();
                part.max(SHARE_MIN)
            }
            Health::Up { .. } | Health::Ejected { .. } | Health::Down => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn checks_and_requests_have_states_of_their_own() {
        let mut health = Health::NEW;
        assert!(!health.checked(true, at(1)));
        assert!(health.checked(false, at(1)) && !health.checked(false, at(2)));
        assert!(!health.is_open(at(99)), "only a check brings it back");
        health.succeeded(at(3));
        assert_eq!(health, Health::Down);
        assert!(health.checked(true, at(4)) && health.is_open(at(4)));
        assert!(health.failed(0, 1, SPAN, at(5)));
        assert!(!health.checked(true, at(6)) && !health.is_open(at(6)));
        assert!(health.is_open(at(15)));
    }

    #[test]
    fn the_slow_start_rises_from_a_tenth_to_all() {
        let mut health = Health::NEW;
        assert_eq!(health.share(SPAN, at(0)), 1.0);
        health.checked(false, at(10));
        health.checked(true, at(100));
        for (seconds, expected) in [(100, 0.1), (105, 0.5), (110, 1.0), (200, 1.0)] {
            assert!((health.share(SPAN, at(seconds)) - expected).abs() < 1e-12);
        }
        assert_eq!(health.share(Duration::ZERO, at(100)), 1.0);
    }
}
