//! Random loss: independent, or in bursts by the Gilbert-Elliott model.
//!
//! The burst model has two states. Before each packet the chain may change state; then the packet is lost with
//! the probability of its state (E. N. Gilbert 1960, E. O. Elliott 1963). Parameters are named as in
//! `tc-netem(8)`: p, r, 1-h, 1-k. A lost packet has already taken its transmission time.

use crate::queue::{Cause, Counters, Queue, Verdict};
use std::collections::VecDeque;
use units::{Draw, Instant, Rng, Seed};

/// A random loss model; probabilities from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossModel {
    /// Each packet is lost with this probability.
    Independent(f64),
    /// Losses come in bursts.
    GilbertElliott {
        /// `p`: probability of changing from good to bad, per packet.
        to_bad: f64,
        /// `r`: probability of changing from bad to good, per packet.
        to_good: f64,
        /// `1-h`: loss probability while bad; 1 in Gilbert's simple model.
        loss_bad: f64,
        /// `1-k`: loss probability while good; 0 in Gilbert's simple model.
        loss_good: f64,
    },
}

impl LossModel {
    /// The long-run share of packets lost, from 0 to 1.
    pub fn share(&self) -> f64 {
        match *self {
            LossModel::Independent(p) => p,
            LossModel::GilbertElliott {
                to_bad,
                to_good,
                loss_bad,
                loss_good,
            } => {
                if to_bad == 0.0 {
                    return loss_good;
                }
                let bad = to_bad / (to_bad + to_good);
                bad * loss_bad + (1.0 - bad) * loss_good
            }
        }
    }
}

/// A queue that loses packets at random and passes the others at once, in order.
#[derive(Debug)]
pub struct Loss<P> {
    model: LossModel,
    /// Whether the burst model is in its bad state; always false for independent loss.
    bad: bool,
    rng: Rng,
    passing: VecDeque<(Instant, P)>,
    counters: Counters,
}

impl<P> Loss<P> {
    /// Loses packets by `model`, with random numbers from `seed`.
    pub fn new(model: LossModel, seed: Seed) -> Loss<P> {
        Loss {
            model,
            bad: false,
            rng: seed.rng(),
            passing: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    fn loses(&mut self) -> bool {
        match self.model {
            LossModel::Independent(p) => chance(&mut self.rng, p),
            LossModel::GilbertElliott {
                to_bad,
                to_good,
                loss_bad,
                loss_good,
            } => {
                let change = if self.bad { to_good } else { to_bad };
                self.bad ^= chance(&mut self.rng, change);
                chance(&mut self.rng, if self.bad { loss_bad } else { loss_good })
            }
        }
    }
}

/// A real number in [0, 1) with 53 random bits.
pub(crate) fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn chance(rng: &mut Rng, p: f64) -> bool {
    unit(rng) < p
}

impl<P> Queue<P> for Loss<P> {
    fn enqueue(&mut self, packet: P, now: Instant) -> Verdict {
        if self.loses() {
            return self.counters.refuse(Cause::Loss);
        }
        self.passing.push_back((now, packet));
        self.counters.admit()
    }

    fn dequeue(&mut self, now: Instant) -> Option<P> {
        let (_, packet) = self.passing.pop_front_if(|(at, _)| *at <= now)?;
        self.counters.release();
        Some(packet)
    }

    fn next_departure(&self) -> Option<Instant> {
        self.passing.front().map(|(at, _)| *at)
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the share of packets lost among `n` and the mean length of a burst.
    fn run(model: LossModel, seed: Seed, n: u32) -> (f64, f64) {
        let mut loss = Loss::new(model, seed);
        let (mut lost, mut bursts, mut before) = (0u32, 0u32, false);
        for _ in 0..n {
            let now = matches!(loss.enqueue((), Instant::ZERO), Verdict::Dropped(_));
            lost += u32::from(now);
            bursts += u32::from(now && !before);
            before = now;
        }
        (
            f64::from(lost) / f64::from(n),
            f64::from(lost) / f64::from(bursts.max(1)),
        )
    }

    #[test]
    fn the_share_lost_and_the_mean_burst_are_those_of_the_model() {
        let n = 200_000;
        let (share, burst) = run(LossModel::Independent(0.02), Seed(7), n);
        assert!((share - 0.02).abs() < 0.001, "{share}");
        assert!((burst - 1.0 / 0.98).abs() < 0.02, "{burst}");
        let model = LossModel::GilbertElliott {
            to_bad: 0.01,
            to_good: 0.25,
            loss_bad: 1.0,
            loss_good: 0.0,
        };
        let (share, burst) = run(model, Seed(7), n);
        assert!((share - model.share()).abs() < 0.003, "{share}");
        // In Gilbert's simple model, bursts last 1/r packets on average.
        assert!((burst - 4.0).abs() < 0.2, "{burst}");
    }

    #[test]
    fn certain_loss_and_none_are_exact() {
        assert_eq!(run(LossModel::Independent(0.0), Seed(1), 1_000).0, 0.0);
        assert_eq!(run(LossModel::Independent(1.0), Seed(1), 1_000).0, 1.0);
    }
}
