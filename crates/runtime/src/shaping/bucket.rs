//! The token bucket that workers share: how many bytes may leave by now, in one atomic word.
//!
//! It stores the instant at which the bucket will be full again (the generic cell rate algorithm, ITU-T I.371). Taking
//! bytes moves that instant by the time they take on the line; a full bucket needs no update. Over any interval of
//! length t, it grants at most rate · t + burst. It decides how much; [`order`](super::order) decides for which
//! response.

use super::Shaping;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Instant;

/// Fractions of a nanosecond: a byte at 100 Gbit/s takes five of them, and 2^64 are nine years.
const FINE: u64 = 64;
/// One second in these fractions.
const SECOND: u64 = 1_000_000_000 * FINE;

/// Bytes of a line, granted by time.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// When it is full again.
    full_at: crossbeam_utils::CachePadded<AtomicU64>,
    /// Bytes per second.
    rate: u64,
    /// Capacity in bytes.
    burst: u64,
    /// Time to fill it.
    span: u64,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(shaping: Shaping) -> Bucket {
        Bucket::holding(shaping.bytes_per_second(), shaping.burst())
    }

    fn holding(rate: u64, burst: u64) -> Bucket {
        let mut bucket = Bucket {
            full_at: crossbeam_utils::CachePadded::new(AtomicU64::new(0)),
            rate,
            burst,
            span: 0,
        };
        bucket.span = bucket.time_for(burst);
        bucket
    }

    /// Capacity in bytes.
    pub(crate) fn burst(&self) -> u64 {
        self.burst
    }

    /// Time for this many bytes, rounded up: the rounding is lost, never granted twice.
    fn time_for(&self, bytes: u64) -> u64 {
        let time = (u128::from(bytes) * u128::from(SECOND)).div_ceil(u128::from(self.rate));
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// The bytes available at `now` if it is full at `full_at`.
    fn level(&self, full_at: u64, now: u64) -> u64 {
        let filled = (now + self.span).saturating_sub(full_at.max(now));
        let bytes = u128::from(filled) * u128::from(self.rate) / u128::from(SECOND);
        u64::try_from(bytes).unwrap_or(u64::MAX).min(self.burst)
    }

    /// Takes the available bytes, at most `most`; none if fewer than `least` are available.
    pub(crate) fn take(&self, least: u64, most: u64, now: Instant) -> u64 {
        let now = now.as_nanos() * FINE;
        let mut taken = 0;
        let _ = self
            .full_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
                taken = self.level(full_at, now).min(most);
                if taken < least {
                    taken = 0;
                }
                (taken > 0).then(|| full_at.max(now) + self.time_for(taken))
            });
        taken
    }

    /// Returns bytes that were taken and not used.
    pub(crate) fn give_back(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        // Rounded down, because taking rounded up.
        let time = u128::from(bytes) * u128::from(SECOND) / u128::from(self.rate);
        let time = u64::try_from(time).unwrap_or(u64::MAX);
        let _ = self
            .full_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
                Some(full_at.saturating_sub(time))
            });
    }

    /// When this many bytes (at most the capacity) will be available if nobody takes any.
    pub(crate) fn ready_at(&self, bytes: u64, now: Instant) -> Instant {
        let lacking = self.time_for(bytes.min(self.burst));
        let at = (self.full_at.load(Ordering::Relaxed) + lacking).saturating_sub(self.span);
        now.max(Instant::from_nanos(at.div_ceil(FINE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Draw, Duration, Rng, Seed};

    fn below(rng: &mut Rng, bound: u64) -> u64 {
        rng.next_u64() % bound
    }

    /// However it is asked, the bucket never grants more than rate · t + burst in any interval; a caller that takes all
    /// there is gets nearly that.
    #[test]
    fn no_interval_gets_more_than_its_rate_and_a_burst() {
        for seed in 0..40 {
            let mut rng = Seed(seed).rng();
            let (rate, burst) = (
                [6_250, 2_450_000, 122_500_000][below(&mut rng, 3) as usize],
                6_000,
            );
            let bucket = Bucket::holding(rate, burst);
            let mut now = Instant::from_nanos(below(&mut rng, 1 << 40));
            let mut given: Vec<(Instant, u64)> = Vec::new();
            for _ in 0..400 {
                now = now + Duration::from_nanos(below(&mut rng, 3_000_000_000 * 1500 / rate));
                let taken = bucket.take(1 + below(&mut rng, 1_500), below(&mut rng, 9_000), now);
                let back = if below(&mut rng, 3) == 0 {
                    below(&mut rng, taken + 1)
                } else {
                    0
                };
                bucket.give_back(back);
                given.push((now, taken - back));
            }
            for from in 0..given.len() {
                let mut sum = 0;
                for (at, bytes) in &given[from..] {
                    sum += bytes;
                    let span = at.since(given[from].0).as_nanos();
                    let bound = span * u128::from(rate) / 1_000_000_000 + u128::from(burst) + 1;
                    assert!(
                        u128::from(sum) <= bound,
                        "seed {seed}: {sum} in {span} ns, at most {bound}"
                    );
                }
            }
        }
    }

    #[test]
    fn who_takes_all_there_is_gets_the_rate() {
        let bucket = Bucket::holding(2_450_000, 6_000);
        let begin = Instant::from_nanos(7_777_777);
        let (mut now, mut sum) = (begin, 0);
        for _ in 0..10_000 {
            let taken = bucket.take(1_500, u64::MAX, now);
            assert!(taken >= 1_500);
            sum += taken;
            now = bucket.ready_at(1_500, now);
        }
        let rate = 6_000 + now.since(begin).as_nanos() as u64 * 2_450 / 1_000_000;
        assert!(sum <= rate && sum + 20_000 > rate, "{sum} of {rate}");
    }

    fn duration_of(bucket: &Bucket, bytes: u64) -> Duration {
        Duration::from_nanos(bucket.time_for(bytes).div_ceil(FINE))
    }

    #[test]
    fn what_is_not_there_is_there_when_it_says() {
        let bucket = Bucket::holding(1_000_000, 6_000);
        let now = Instant::from_nanos(1_000);
        assert_eq!(bucket.take(1_500, 10_000, now), 6_000);
        assert_eq!(bucket.take(1, 10_000, now), 0);
        let at = bucket.ready_at(1_500, now);
        assert_eq!(at.since(now), duration_of(&bucket, 1_500));
        assert_eq!(
            bucket.take(1_500, 10_000, Instant::from_nanos(at.as_nanos() - 1_000)),
            0
        );
        assert_eq!(bucket.take(1_500, 10_000, at), 1_500);
        // Asking for more than the capacity does not wait forever.
        assert_eq!(
            bucket.ready_at(1 << 40, at).since(at),
            duration_of(&bucket, 6_000)
        );
        bucket.give_back(1_500);
        assert_eq!(bucket.take(1_500, 10_000, at), 1_500);
    }
}
