//! The retransmission timeout from measured round trips (RFC 6298), with a stack's minimum and clock tick.
//!
//! The caller applies Karn's rule: it reports only round trips of segments sent once, or identified by
//! timestamps.

use crate::stack::Stack;
use units::Duration;

/// The longest timeout (RFC 6298, rule 2.5, allows any maximum of at least 60 s; BSD uses 64 s).
const MAX: Duration = Duration::from_secs(64);

/// Smoothed round-trip time, its variation, and the exponential backoff.
#[derive(Clone, Debug)]
pub struct Rto {
    measured: Option<(Duration, Duration)>,
    backoff: u32,
    initial: Duration,
    min: Duration,
    tick: Duration,
    fixed: Option<Duration>,
}

impl Rto {
    /// An estimator without measurements: the timeout is the stack's initial one.
    pub fn new(stack: &Stack) -> Rto {
        Rto {
            measured: None,
            backoff: 0,
            initial: stack.rto_initial,
            min: stack.rto_min,
            tick: stack.rto_granularity,
            fixed: stack.rto_fixed,
        }
    }

    /// Records a measured round trip and ends the backoff.
    pub fn sample(&mut self, rtt: Duration) {
        self.sample_of(rtt, 1);
    }

    /// Records one of `in_flight` round trips measured in a flight. The weight of each is divided by
    /// `in_flight`; otherwise the history would be as short as the flight (RFC 7323, appendix G).
    pub fn sample_of(&mut self, rtt: Duration, in_flight: u32) {
        let n = in_flight.max(1);
        self.measured = Some(match self.measured {
            None => (rtt, rtt / 2),
            Some((smooth, variation)) => {
                let error = smooth.abs_diff(rtt);
                (
                    (smooth * (8 * n - 1) + rtt) / (8 * n),
                    (variation * (4 * n - 1) + error) / (4 * n),
                )
            }
        });
        self.backoff = 0;
    }

    /// Doubles the estimate after a spurious timeout without timestamps, which would have shown how late the
    /// ACK was. Doubling is Weir's choice; RFC 4015 asks only that the mistake is not repeated.
    pub fn was_too_short(&mut self) {
        self.measured = self
            .measured
            .map(|(smooth, variation)| (smooth * 2, variation * 2));
    }

    /// The smoothed round-trip time (SRTT); `None` before the first measurement.
    pub fn smooth(&self) -> Option<Duration> {
        self.measured.map(|(smooth, _)| smooth)
    }

    /// Doubles the next timeout after an expiry.
    pub fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Ends the backoff: new data was acknowledged.
    pub fn progress(&mut self) {
        self.backoff = 0;
    }

    /// Timer expiries since new data was last acknowledged.
    pub fn expiries(&self) -> u32 {
        self.backoff
    }

    /// Time to wait for the ACK of a segment sent now, at most 64 s.
    pub fn timeout(&self) -> Duration {
        let base = match (self.fixed, self.measured) {
            (Some(fixed), Some(_)) => fixed,
            (_, None) => self.initial,
            (None, Some((smooth, variation))) => {
                let exact = smooth + (variation * 4).max(self.tick);
                let ticks = exact.as_nanos().div_ceil(self.tick.as_nanos().max(1)) as u32;
                (self.tick * ticks).max(self.min)
            }
        };
        (base * (1 << self.backoff.min(6))).min(MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_rfc_6298_above_the_floor() {
        let ms = Duration::from_millis;
        let mut stack = Stack::preset("linux-6").unwrap();
        stack.rto_min = ms(1);
        let mut rto = Rto::new(&stack);
        assert_eq!(rto.timeout(), ms(1_000));
        rto.sample(ms(100));
        assert_eq!(rto.timeout(), ms(100 + 4 * 50));
        rto.sample(ms(180));
        // srtt 7/8 100 + 1/8 180 = 110, rttvar 3/4 50 + 1/4 80 = 57.5: 340
        assert_eq!(rto.timeout(), ms(340));
        rto.back_off();
        rto.back_off();
        assert_eq!(rto.timeout(), ms(4 * 340));
        rto.progress();
        assert_eq!(rto.timeout(), ms(340));
    }

    #[test]
    fn samples_of_one_flight_weigh_together_about_as_one() {
        let ms = Duration::from_millis;
        let stack = Stack::preset("linux-6").unwrap();
        let (mut one, mut many) = (Rto::new(&stack), Rto::new(&stack));
        one.sample(ms(100));
        many.sample(ms(100));
        one.sample(ms(300));
        (0..10).for_each(|_| many.sample_of(ms(300), 10));
        let [one, many] = [one, many].map(|rto| rto.smooth().unwrap_or_default());
        assert!(one.abs_diff(many) < ms(2), "{one:?} {many:?}");
    }

    #[test]
    fn floor_tick_and_defect_are_the_stacks() {
        let ms = Duration::from_millis;
        let mut rto = Rto::new(&Stack::preset("4.4bsd").unwrap());
        rto.sample(ms(1));
        assert_eq!(rto.timeout(), ms(1_000));
        rto.sample(ms(900));
        assert_eq!(rto.timeout().as_millis() % 500, 0);
        let mut stack = Stack::preset("solaris-2.5").unwrap();
        stack.rto_fixed = Stack::rto_effective("solaris-2.5", "lan");
        let mut rto = Rto::new(&stack);
        assert_eq!(rto.timeout(), ms(3_000));
        rto.sample(ms(1));
        assert_eq!(rto.timeout(), ms(70));
    }
}
