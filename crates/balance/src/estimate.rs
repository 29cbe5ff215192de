//! Service time and round trip of an upstream, estimated from its responses.
//!
//! A response time contains the service of the other requests. The clock of processor sharing takes it out: it advances
//! by `dt / m` while `m` requests are under way, so a request's time on it is the service that the request got, if the
//! upstream serves all at equal rates. For any discipline that never idles, the mean is right: the times of all requests
//! on the clock add up to the busy time (the utilization law, Denning and Buzen 1978).

use units::{Duration, Instant};

/// Time constant after which a response counts 1/e, in seconds. Shorter ones follow changes sooner and are noisier;
/// requests under way show a sudden change at once.
pub(crate) const MEMORY_SECONDS: f64 = 3.0;

/// Least service time in seconds: the logarithm of zero has no value.
const DEMAND_MIN: f64 = 1e-6;

/// Weight of a new round trip in its average: that of RFC 6298 section 2.
const ROUND_TRIP_GAIN: f64 = 0.125;

/// The clock of processor sharing, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SharingClock {
    read: f64,
    at: Instant,
    /// Requests whose response has not begun.
    pub(crate) present: u32,
    /// Those of them that are in the network, on average.
    pub(crate) travelling: f64,
}

impl SharingClock {
    /// The reading now.
    pub(crate) fn advance(&mut self, now: Instant) -> f64 {
        if self.present > 0 {
            // A request that runs the clock is there.
            let sharing = (f64::from(self.present) - self.travelling).max(1.0);
            self.read += (now - self.at).as_secs_f64() / sharing;
        }
        self.at = self.at.max(now);
        self.read
    }
}

/// Logarithms of service times, each weighted by its age.
///
/// Logarithms, because sizes are heavy-tailed: the mean of a few sizes says little of the speed. If all upstreams get the
/// same mix of requests, their speeds differ as the means of the logarithms do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Demand {
    weight: f64,
    sum: f64,
    squares: f64,
    plain: f64,
    at: Instant,
}

/// The demand at some instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Known {
    /// Number of responses, each counted by its age.
    pub(crate) count: f64,
    /// Mean of the logarithms.
    pub(crate) log: f64,
    /// Sum of the squared deviations from it.
    pub(crate) spread: f64,
    /// Sum of the service times in seconds, each counted by its age.
    pub(crate) seconds: f64,
}

impl Demand {
    /// A request needed this many seconds of service.
    pub(crate) fn add(&mut self, seconds: f64, now: Instant) {
        let seconds = seconds.max(DEMAND_MIN);
        let log = libm::log(seconds);
        self.age(now);
        self.weight += 1.0;
        self.sum += log;
        self.squares += log * log;
        self.plain += seconds;
    }

    fn age(&mut self, now: Instant) {
        let kept = kept(self.at, now);
        for sum in [
            &mut self.weight,
            &mut self.sum,
            &mut self.squares,
            &mut self.plain,
        ] {
            *sum *= kept;
        }
        self.at = self.at.max(now);
    }

    /// What is known now; `None` without any response.
    pub(crate) fn known(mut self, now: Instant) -> Option<Known> {
        self.age(now);
        (self.weight > 1e-9).then(|| {
            let log = self.sum / self.weight;
            Known {
                count: self.weight,
                log,
                spread: (self.squares - self.sum * log).max(0.0),
                seconds: self.plain,
            }
        })
    }
}

/// Requests a second, by their ages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rate {
    count: f64,
    at: Instant,
}

impl Rate {
    /// A request begins.
    pub(crate) fn add(&mut self, now: Instant) {
        self.count = self.count * kept(self.at, now) + 1.0;
        self.at = self.at.max(now);
    }

    /// The rate now.
    pub(crate) fn get(self, now: Instant) -> f64 {
        self.count * kept(self.at, now) / MEMORY_SECONDS
    }
}

/// What is left of the weight of something of this age.
fn kept(at: Instant, now: Instant) -> f64 {
    libm::exp(-(now - at).as_secs_f64() / MEMORY_SECONDS)
}

/// Time of a request in the network, in seconds: for its connection to open, if it opens one, and one round trip more for
/// the request and its response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Network {
    round_trip: Option<f64>,
    spent: Option<f64>,
}

impl Network {
    /// A connection took this long to open: a round trip.
    pub(crate) fn connected(&mut self, took: Duration) {
        average(&mut self.round_trip, took.as_secs_f64());
    }

    /// A request whose connection took this long got its response. Returns the time it spent in the network, in seconds.
    pub(crate) fn spent(&mut self, connect: Option<Duration>) -> f64 {
        let spent = connect.unwrap_or_default().as_secs_f64() + self.round_trip.unwrap_or(0.0);
        if self.round_trip.is_some() {
            average(&mut self.spent, spent);
        }
        spent
    }

    /// The average of a request, if any connection has opened.
    pub(crate) fn get(self) -> Option<f64> {
        self.spent
    }
}

fn average(mean: &mut Option<f64>, new: f64) {
    *mean = Some(mean.map_or(new, |before| before + ROUND_TRIP_GAIN * (new - before)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn the_clock_gives_the_service_of_each_request() {
        // One of 10 ms at 0, one of 20 ms at 5, one server that both share: they end at 15 and 30.
        let mut clock = SharingClock::default();
        let enter = |clock: &mut SharingClock, now| {
            let began = clock.advance(at(now));
            clock.present += 1;
            began
        };
        let leave = |clock: &mut SharingClock, began, now| {
            let took = clock.advance(at(now)) - began;
            clock.present -= 1;
            took
        };
        let first = enter(&mut clock, 0);
        let second = enter(&mut clock, 5);
        assert!((leave(&mut clock, first, 15) - 0.010).abs() < 1e-12);
        assert!((leave(&mut clock, second, 30) - 0.020).abs() < 1e-12);
        // An idle server's clock stands.
        assert!((clock.advance(at(500)) - 0.025).abs() < 1e-12);
    }

    #[test]
    fn old_responses_fade() {
        let mut demand = Demand::default();
        assert_eq!(demand.known(at(0)), None);
        for _ in 0..100 {
            demand.add(0.01, at(0));
        }
        let later = demand.known(at(3_000)).unwrap();
        assert!((later.count - 100.0 * libm::exp(-1.0)).abs() < 1e-9);
        assert!((later.log - libm::log(0.01)).abs() < 1e-9 && later.spread < 1e-6);
        assert_eq!(demand.known(at(1_000_000)), None);
    }
}
