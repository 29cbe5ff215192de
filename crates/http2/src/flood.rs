//! Which events of a peer are metered, each by a token bucket of its own.

use crate::error::{Code, Fault};
use crate::limits::Limits;
use units::{Bucket, Instant};

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

/// The buckets of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Floods([Bucket; KINDS]);

impl Floods {
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
        match self.0[kind as usize].take(allowance, now) {
            true => Ok(()),
            false => Err(Fault::Connection(Code::ENHANCE_YOUR_CALM, text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn each_kind_has_its_bucket() {
        let limits = Limits::DEFAULT;
        let mut floods = Floods::default();
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
    }
}
