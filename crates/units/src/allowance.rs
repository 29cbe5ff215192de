//! Rates of events: a burst and events a second, metered by a token bucket.
//!
//! A client that resets a few requests a second for hours is honest, one that resets a thousand at once is not. A lifetime
//! counter cannot tell them apart.

use crate::Instant;

/// A limit on events: `burst` at once, then `per_second`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Events that may come at once.
    pub burst: u32,
    /// Events a second over the long run.
    pub per_second: u32,
}

/// A token bucket: the instant at which it is full. A full bucket lies in the past.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bucket(Instant);

impl Bucket {
    /// Takes one token; whether there was one.
    pub fn take(&mut self, allowance: Allowance, now: Instant) -> bool {
        let Allowance { burst, per_second } = allowance;
        let token = 1_000_000_000 / u64::from(per_second.max(1));
        let after = self.0.max(now).as_nanos().saturating_add(token);
        if after - now.as_nanos() > token.saturating_mul(u64::from(burst)) {
            return false;
        }
        self.0 = Instant::from_nanos(after);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn a_burst_is_bounded_and_refills() {
        let allowance = Allowance {
            burst: 20,
            per_second: 1,
        };
        let now = Instant::ZERO + Duration::from_secs(5);
        let mut bucket = Bucket::default();
        assert_eq!((0..30).filter(|_| bucket.take(allowance, now)).count(), 20);
        let later = now + Duration::from_secs(2);
        assert_eq!((0..30).filter(|_| bucket.take(allowance, later)).count(), 2);
    }
}
