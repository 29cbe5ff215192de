//! Propagation delay: a fixed delay plus jitter for each packet; keeps the order unless reordering is allowed.

use crate::loss::unit;
use crate::queue::{Cause, Counters, Queue, Verdict};
use std::collections::BTreeMap;
use units::{Duration, Instant, Rng, Seed};

/// Random variation of the delay, drawn for each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Jitter {
    /// No variation.
    #[default]
    None,
    /// Added delay, uniform between zero and this.
    Uniform(Duration),
    /// Normal around zero with this standard deviation; cut off at six standard deviations and at a total delay
    /// of zero.
    Normal(Duration),
}

/// A propagation delay for packets.
#[derive(Debug)]
pub struct Delay<P> {
    delay: Duration,
    jitter: Jitter,
    /// Whether packets may overtake each other because of jitter.
    reorder: bool,
    rng: Rng,
    /// Packets by departure, then by arrival.
    inside: BTreeMap<(Instant, u64), P>,
    latest: Instant,
    in_flight_max: usize,
    counters: Counters,
}

impl<P> Delay<P> {
    /// A fixed `delay` for up to `in_flight_max` packets.
    pub fn new(delay: Duration, in_flight_max: usize) -> Delay<P> {
        Delay::with_jitter(delay, Jitter::None, false, Seed(0), in_flight_max)
    }

    /// A delay with jitter; with `reorder`, packets may overtake each other.
    pub fn with_jitter(
        delay: Duration,
        jitter: Jitter,
        reorder: bool,
        seed: Seed,
        in_flight_max: usize,
    ) -> Delay<P> {
        Delay {
            delay,
            jitter,
            reorder,
            rng: seed.rng(),
            inside: BTreeMap::new(),
            latest: Instant::ZERO,
            in_flight_max,
            counters: Counters::default(),
        }
    }

    fn draw(&mut self) -> Duration {
        match self.jitter {
            Jitter::None => self.delay,
            Jitter::Uniform(max) => self.delay + max.mul_f64(unit(&mut self.rng)),
            Jitter::Normal(sd) => {
                // A sum of twelve uniforms has variance one: close enough to normal, and bit-identical on every
                // machine.
                let z: f64 = (0..12).map(|_| unit(&mut self.rng)).sum::<f64>() - 6.0;
                if z < 0.0 {
                    self.delay.saturating_sub(sd.mul_f64(-z))
                } else {
                    self.delay + sd.mul_f64(z)
                }
            }
        }
    }
}

impl<P> Queue<P> for Delay<P> {
    fn enqueue(&mut self, packet: P, now: Instant) -> Verdict {
        if self.inside.len() >= self.in_flight_max {
            return self.counters.refuse(Cause::Limit);
        }
        let mut at = now + self.draw();
        if !self.reorder {
            at = at.max(self.latest);
            self.latest = at;
        }
        self.inside.insert((at, self.counters.entered), packet);
        self.counters.admit()
    }

    fn dequeue(&mut self, now: Instant) -> Option<P> {
        let entry = self.inside.first_entry()?;
        if entry.key().0 > now {
            return None;
        }
        self.counters.release();
        Some(entry.remove())
    }

    fn next_departure(&self) -> Option<Instant> {
        self.inside.first_key_value().map(|((at, _), _)| *at)
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
