//! Token buckets: a client that resets a few requests a second for hours is honest, one that resets a thousand at once is
//! not. A lifetime counter cannot tell them apart.

use crate::error::{Code, Fault};
use crate::limits::{Allowance, Limits};
use units::Instant;

/// What is rationed, each with a bucket of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Reset,
    Provoked,
    Settings,
    Ping,
    Priority,
    Empty,
    SmallUpdate,
}

const KINDS: usize = Kind::SmallUpdate as usize + 1;

/// The buckets of a connection. Each holds the instant at which it would be full: a full bucket lies in the past.
#[derive(Clone, Debug)]
pub(crate) struct Floods([Instant; KINDS]);

impl Floods {
    pub(crate) const fn new() -> Floods {
        Floods([Instant::ZERO; KINDS])
    }

    /// Takes one token.
    ///
    /// # Errors
    /// The bucket is empty: a connection error ENHANCE_YOUR_CALM.
    pub(crate) fn charge(&mut self, kind: Kind, limits: &Limits, now: Instant) -> Result<(), Fault> {
        let (allowance, text) = match kind {
            Kind::Reset => (limits.resets, "too many RST_STREAM"),
            Kind::Provoked => (limits.provoked, "too many stream errors"),
            Kind::Settings => (limits.settings, "too many SETTINGS"),
            Kind::Ping => (limits.pings, "too many PING"),
            Kind::Priority => (limits.priorities, "too many PRIORITY or PRIORITY_UPDATE"),
            Kind::Empty => (limits.empty, "too many empty or unknown frames"),
            Kind::SmallUpdate => (limits.small_updates, "too many small WINDOW_UPDATE"),
        };
        let Allowance { burst, per_second } = allowance;
        let token = 1_000_000_000 / u64::from(per_second.max(1));
        let full_at = &mut self.0[kind as usize];
        let after = (*full_at).max(now).as_nanos().saturating_add(token);
        if after - now.as_nanos() > token.saturating_mul(u64::from(burst)) {
            return Err(Fault::Connection(Code::ENHANCE_YOUR_CALM, text));
        }
        *full_at = Instant::from_nanos(after);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn a_burst_is_bounded_and_refills() {
        let limits = Limits::DEFAULT;
        let mut floods = Floods::new();
        let now = Instant::ZERO + Duration::from_secs(5);
        for _ in 0..limits.settings.burst {
            assert_eq!(floods.charge(Kind::Settings, &limits, now), Ok(()));
        }
        assert!(floods.charge(Kind::Settings, &limits, now).is_err());
        assert_eq!(
            floods.charge(Kind::Ping, &limits, now),
            Ok(()),
            "each has its own bucket"
        );
        let later = now + Duration::from_secs(1);
        assert_eq!(floods.charge(Kind::Settings, &limits, later), Ok(()));
        assert!(floods.charge(Kind::Settings, &limits, later).is_err());
    }
}
