//! Upper bounds on the hits of any policy that loads on demand, even one that knows the future.
//!
//! There are three bounds, each stricter than the one before where it applies:
//! - **infinite**: room for all objects; only the first request for an object misses.
//! - **space-time**: for objects of any size. To hit, an object must be held from one request for it to the next, which
//!   takes its cost in every step between. All hits together cannot take more than the capacity in every step. Taking
//!   the cheapest hits first, and the last of them in part, gives more than any cache can (Berger, Beckmann and
//!   Harchol-Balter: "Practical bounds on optimal caching with variable object sizes", 2018, where it is PFOO-L). It is
//!   a bound and not a policy: it keeps the capacity on average only, so possibly no cache reaches it.
//! - **MIN**: for objects of cost one, the hits of a cache that knows the future (Belady: "A study of replacement
//!   algorithms for a virtual-storage computer", 1966), here with the choice not to keep the object just requested.
//!
//! A policy that loads ahead may have more hits than any bound, because it may hold objects before their first request.
//! It cannot have fewer loads than the requests less the bound's hits: every load ahead could have been made on demand
//! instead, without holding more.

use super::{Room, Trace};
use std::collections::BinaryHeap;

/// Upper bounds on hits and on the bytes of hits. Each is a separate bound: a cache may be far from one or both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Number of requests that hit.
    pub hits: f64,
    /// Bytes of the requests that hit.
    pub hit_bytes: f64,
}

/// The bound with room for all objects.
pub fn infinite(trace: &Trace) -> Bound {
    let mut is_known = vec![false; trace.objects.len()];
    let (mut hits, mut hit_bytes) = (0, 0);
    for &number in &trace.requests {
        if std::mem::replace(&mut is_known[number as usize], true) {
            hits += 1;
            hit_bytes += trace.objects[number as usize].size;
        }
    }
    Bound {
        hits: hits as f64,
        hit_bytes: hit_bytes as f64,
    }
}

/// The intervals between two requests for the same object, prepared once for any number of capacities.
#[derive(Debug)]
pub struct SpaceTime<'t> {
    trace: &'t Trace,
    cost: super::Cost,
    /// Cost and object number of each interval, cheapest hit first.
    by_cost: Vec<(u64, u32)>,
    /// Intervals with the lowest cost per byte of a hit first.
    by_density: Vec<(f64, u32, u32)>,
}

impl<'t> SpaceTime<'t> {
    /// Reads the trace once and sorts its intervals.
    pub fn new(trace: &'t Trace, cost: super::Cost) -> SpaceTime<'t> {
        let mut last = vec![None; trace.objects.len()];
        let (mut by_cost, mut by_density) = (Vec::new(), Vec::new());
        for (at, &number) in trace.requests.iter().enumerate() {
            let object = &trace.objects[number as usize];
            if let Some(before) = last[number as usize].replace(at) {
                let steps = at - before;
                let taken = cost.of(object).saturating_mul(steps as u64);
                by_cost.push((taken, number));
                // Without bytes, a hit has no bytes.
                if object.size > 0 {
                    by_density.push((taken as f64 / object.size as f64, steps as u32, number));
                }
            }
        }
        by_cost.sort_unstable();
        by_density.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        SpaceTime {
            trace,
            cost,
            by_cost,
            by_density,
        }
    }

    /// The bound for a capacity.
    pub fn of(&self, capacity: u64) -> Bound {
        let steps = self.trace.requests.len().saturating_sub(1);
        let area = capacity as f64 * steps as f64;
        let cost = |number: u32| self.cost.of(&self.trace.objects[number as usize]);
        let (mut hits, mut left) = (0.0, area);
        for &(taken, number) in &self.by_cost {
            if cost(number) > capacity {
                continue;
            }
            let part = share(taken as f64, left);
            hits += part;
            left -= taken as f64 * part;
            if part < 1.0 {
                break;
            }
        }
        let (mut hit_bytes, mut left) = (0.0, area);
        for &(_, steps, number) in &self.by_density {
            if cost(number) > capacity {
                continue;
            }
            let taken = cost(number) as f64 * f64::from(steps);
            let part = share(taken, left);
            hit_bytes += part * self.trace.objects[number as usize].size as f64;
            left -= taken * part;
            if part < 1.0 {
                break;
            }
        }
        Bound { hits, hit_bytes }
    }
}

/// The part of an item of this cost that the remaining capacity pays for.
fn share(taken: f64, left: f64) -> f64 {
    if taken <= left { 1.0 } else { left / taken }
}

/// Belady's MIN: the hits of a cache of `capacity` objects that knows the future. It does not minimize bytes, so it
/// gives no bound on them.
pub fn min(trace: &Trace, capacity: u64) -> u64 {
    const NEVER: usize = usize::MAX;
    let mut next_of = vec![NEVER; trace.objects.len()];
    let mut next: Vec<usize> = vec![NEVER; trace.requests.len()];
    for (at, &number) in trace.requests.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut next_of[number as usize], at);
    }
    // The next request for each object held; `None` for objects not held.
    let mut held: Vec<Option<usize>> = vec![None; trace.objects.len()];
    let mut farthest: BinaryHeap<(usize, u32)> = BinaryHeap::new();
    let (mut count, mut hits) = (0, 0);
    for (at, &number) in trace.requests.iter().enumerate() {
        let is_held = held[number as usize].take().is_some();
        if is_held {
            hits += 1;
            count -= 1;
        }
        // An object without further requests is not worth keeping.
        if next[at] == NEVER || capacity == 0 {
            continue;
        }
        if count == capacity {
            // Skip outdated entries of the heap.
            while farthest
                .peek()
                .is_some_and(|&(when, other)| held[other as usize] != Some(when))
            {
                farthest.pop();
            }
            match farthest.peek() {
                Some(&(when, other)) if when > next[at] => {
                    farthest.pop();
                    held[other as usize] = None;
                    count -= 1;
                }
                _ => continue,
            }
        }
        held[number as usize] = Some(next[at]);
        farthest.push((next[at], number));
        count += 1;
    }
    hits
}

/// The strictest bound that applies: MIN for objects of cost one, otherwise space-time; never more than the infinite
/// one.
pub fn of(trace: &Trace, prepared: &SpaceTime<'_>, room: Room) -> Bound {
    let bound = prepared.of(room.capacity);
    match room.cost {
        super::Cost::One => Bound {
            hits: min(trace, room.capacity) as f64,
            ..bound
        },
        super::Cost::Bytes { .. } => bound,
    }
}
