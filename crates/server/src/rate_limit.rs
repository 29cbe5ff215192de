//! The request rate limit per address.
//!
//! Uses the generic cell rate algorithm (ITU-T I.371, virtual scheduling). Each address has one instant, at which its
//! next request would be on time. A request advances it by the interval of the rate. A request that would move it
//! further ahead of the present than the burst allows is rejected and does not advance it. So a rejected client that
//! slows down is served at once, and one that does not gets exactly its rate.
//!
//! The instant is one atomic word, shared by every connection of the address, so requests take no lock. The table is
//! used only when connections arrive. Addresses that have been on time are removed when it is full. If it is still
//! full, new addresses share one instant.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use units::{Duration, Instant};

/// Maximum number of addresses: some 6 MiB.
const ADDRESSES_MAX: usize = 65_536;

/// The rate limit of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Time between two requests in the long run.
    interval: Duration,
    /// How far ahead of its time an address may be.
    ahead: Duration,
}

impl Rate {
    /// A rate of a request in each `interval`, up to `burst` of them at once.
    pub(crate) fn every(interval: Duration, burst: u32) -> Rate {
        Rate {
            interval,
            ahead: interval.saturating_mul(burst.saturating_sub(1)),
        }
    }

    /// A rate of `per_second` requests, up to `burst` of them at once. `None` for a rate of 0, which is no limit.
    pub(crate) fn new(per_second: u32, burst: u32) -> Option<Rate> {
        let interval = Duration::from_secs(1).checked_div(per_second)?;
        Some(Rate {
            interval,
            ahead: interval * burst.saturating_sub(1),
        })
    }
}

/// The next on-time instant of one address. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace(Arc<AtomicU64>);

impl Pace {
    /// Whether a request now is within the rate. If so, it counts.
    #[inline]
    pub(crate) fn admits(&self, rate: Rate, now: Instant) -> bool {
        let step = |on_time: u64| {
            let on_time = Instant::from_nanos(on_time).max(now);
            (on_time <= now + rate.ahead).then(|| (on_time + rate.interval).as_nanos())
        };
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step)
            .is_ok()
    }

    fn is_settled(&self, now: Instant) -> bool {
        Arc::strong_count(&self.0) == 1 && self.0.load(Ordering::Relaxed) <= now.as_nanos()
    }
}

/// The instants of all addresses.
#[derive(Debug)]
pub(crate) struct Paces {
    by_address: Mutex<HashMap<u64, Pace>>,
    addresses_max: usize,
    /// For addresses without room in the table.
    shared: Pace,
}

impl Default for Paces {
    fn default() -> Paces {
        Paces::bounded(ADDRESSES_MAX)
    }
}

impl Paces {
    fn bounded(addresses_max: usize) -> Paces {
        Paces {
            by_address: Mutex::default(),
            addresses_max,
            shared: Pace::default(),
        }
    }

    /// The instant of an address (see [`crate::connection_limit::unit`]).
    pub(crate) fn of(&self, unit: u64, now: Instant) -> Pace {
        let mut paces = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pace) = paces.get(&unit) {
            return pace.clone();
        }
        if paces.len() >= self.addresses_max {
            paces.retain(|_, pace| !pace.is_settled(now));
            if paces.len() >= self.addresses_max {
                return self.shared.clone();
            }
        }
        paces.entry(unit).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(100) + Duration::from_millis(millis)
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let rate = Rate::new(10, 5).unwrap();
        let pace = Pace::default();
        let admitted = |from: u64, to: u64, step: usize| {
            (from..to)
                .step_by(step)
                .filter(|&ms| pace.admits(rate, at(ms)))
                .count()
        };
        assert_eq!(admitted(0, 50, 1), 5, "the burst");
        assert_eq!(
            admitted(50, 10_050, 1),
            100,
            "ten per second, however often it requests"
        );
        assert_eq!(admitted(60_000, 60_001, 1), 1);
        assert_eq!(
            admitted(70_000, 80_000, 100),
            100,
            "a client within the rate is never rejected"
        );
        assert_eq!(Rate::new(0, 5), None);
        let one = Rate::new(1, 1).unwrap();
        let pace = Pace::default();
        assert!(pace.admits(one, at(0)) && !pace.admits(one, at(999)) && pace.admits(one, at(1_000)));
    }

    #[test]
    fn connections_of_an_address_share_and_coming_back_does_not_help() {
        let rate = Rate::new(1, 2).unwrap();
        let paces = Paces::default();
        let admitted = (0..10).filter(|_| paces.of(7, at(0)).admits(rate, at(0))).count();
        assert_eq!(admitted, 2);
        assert!(paces.of(8, at(0)).admits(rate, at(0)), "another address");
    }

    #[test]
    fn the_table_is_bounded() {
        let rate = Rate::new(1, 1).unwrap();
        let paces = Paces::bounded(3);
        for unit in 0..3 {
            assert!(paces.of(unit, at(0)).admits(rate, at(0)));
        }
        // The table is full: these addresses share one instant.
        assert!(paces.of(10, at(1)).admits(rate, at(1)));
        assert!(!paces.of(11, at(1)).admits(rate, at(1)));
        // An address that has been on time for a while is removed.
        assert!(paces.of(12, at(5_000)).admits(rate, at(5_000)));
        assert_eq!(paces.by_address.lock().unwrap().len(), 1);
    }
}
