//! A simulated upstream: `cores` processors of equal speed that its requests share, and what it tells probes.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

/// Weight of a new latency in the average that a probe gets.
const LATENCY_GAIN: f64 = 0.05;

/// Loads whose latencies are told apart.
const LOADS: usize = 64;

/// A request that is there: the attained work at which it ends, as bits of a float; its job; when it came; how many were
/// there then. In this order, because the heap compares it.
type Present = (u64, u32, u64, u32);

/// An upstream.
#[derive(Debug)]
pub(super) struct Station {
    /// Work in seconds that all cores together do in a second.
    speed: f64,
    cores: u32,
    /// Work that each request present since the begin has received, and requests by the value at which they end.
    attained: f64,
    ends: BinaryHeap<Reverse<Present>>,
    now: u64,
    /// Number of changes.
    pub(super) version: u64,
    /// Average latency of requests that found this many.
    latencies: Vec<Option<f64>>,
}

impl Station {
    pub(super) fn new(speed: f64, cores: u32) -> Station {
        Station {
            speed,
            cores,
            attained: 0.0,
            ends: BinaryHeap::new(),
            now: 0,
            version: 0,
            latencies: vec![None; LOADS],
        }
    }

    /// Requests present.
    pub(super) fn present(&self) -> u32 {
        self.ends.len() as u32
    }

    /// Work a second that each request gets.
    fn rate(&self) -> f64 {
        self.speed / f64::from(self.cores.max(self.present()))
    }

    fn advance(&mut self, now: u64) {
        if self.present() > 0 {
            self.attained += self.rate() * (now - self.now) as f64 / 1e9;
        }
        self.now = now;
    }

    /// A request of `work` seconds arrives.
    pub(super) fn arrive(&mut self, now: u64, work: f64, job: u32) {
        self.advance(now);
        if self.present() == 0 {
            // Small numbers are precise.
            self.attained = 0.0;
        }
        // Positive floats order as bits.
        let end = (self.attained + work).to_bits();
        self.ends.push(Reverse((end, job, now, self.present())));
    }

    /// When the next service ends, if nothing changes.
    pub(super) fn next_end(&self) -> Option<u64> {
        let Reverse((end, ..)) = self.ends.peek()?;
        let left = (f64::from_bits(*end) - self.attained).max(0.0);
        Some(self.now + (left / self.rate() * 1e9).ceil() as u64)
    }

    /// The service that ends now.
    pub(super) fn end(&mut self, now: u64) -> Option<u32> {
        self.advance(now);
        let Reverse((_, job, began, found)) = self.ends.pop()?;
        let took = (now - began) as f64 / 1e9;
        let average = &mut self.latencies[(found as usize).min(LOADS - 1)];
        *average = Some(average.map_or(took, |before| before + LATENCY_GAIN * (took - before)));
        Some(job)
    }

    /// The speed changes.
    pub(super) fn change(&mut self, now: u64, speed: f64) {
        self.advance(now);
        self.speed = speed;
    }

    /// Latency in seconds that a request would have at this load, by those that found the nearest one; zero if unknown.
    pub(super) fn latency(&self, load: u32) -> f64 {
        let load = (load as usize).min(LOADS - 1);
        let known = self.latencies.iter().enumerate();
        let known = known.filter_map(|(at, latency)| Some((at.abs_diff(load), (*latency)?)));
        known
            .min_by_key(|(apart, _)| *apart)
            .map_or(0.0, |(_, latency)| latency)
    }
}
