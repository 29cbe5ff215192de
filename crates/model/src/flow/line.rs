//! One line of the flow simulation: which jobs are served, at which rate, and when the next service ends.
//!
//! Knows no users and no think times, only jobs with remaining work, counted in nanoseconds of the whole line. Under
//! processor sharing, a virtual clock counts the work that every job present has received, so an arrival or an end
//! costs one heap operation instead of an update of every job.

use core::cmp::Reverse;
use serde::Serialize;
use std::collections::{BinaryHeap, VecDeque};
use units::{Bytes, Rate};

/// Service discipline of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Discipline {
    /// Processor sharing: all transfers share equally.
    #[default]
    Sharing,
    /// First in, first out.
    Fifo,
    /// `quantum` bytes of each transfer in turn: document 004's packet-wise round robin.
    RoundRobin {
        /// Bytes per turn.
        quantum: Bytes,
    },
    /// Shortest remaining processing time first, preemptive.
    Srpt,
}

/// Remaining or virtual work; ordered like the bits of a positive float.
type Work = u64;

enum Jobs {
    /// Attained work of every job present, and jobs by the attained work at which they end.
    Sharing {
        attained: f64,
        ends: BinaryHeap<Reverse<(Work, u32)>>,
    },
    /// Remaining work of each job, the first in service; `turn` is the longest uninterrupted service.
    Queue {
        waiting: VecDeque<(f64, u32)>,
        turn: f64,
    },
    /// Jobs by remaining work, the one in service apart.
    Srpt {
        serving: Option<(f64, u32)>,
        waiting: BinaryHeap<Reverse<(Work, u32)>>,
    },
}

/// A line and its jobs.
pub(super) struct Line {
    jobs: Jobs,
    count: usize,
    ns_per_byte: f64,
    now: u64,
    /// When the service under way started (queues and SRPT).
    since: u64,
    pub(super) busy_ns: u64,
}

impl Line {
    pub(super) fn new(rate: Rate, discipline: Discipline) -> Line {
        let ns_per_byte = 8e9 / rate.bits_per_second();
        let jobs = match discipline {
            Discipline::Sharing => Jobs::Sharing {
                attained: 0.0,
                ends: BinaryHeap::new(),
            },
            Discipline::Fifo => Jobs::Queue {
                waiting: VecDeque::new(),
                turn: f64::INFINITY,
            },
            Discipline::RoundRobin { quantum } => Jobs::Queue {
                waiting: VecDeque::new(),
                turn: quantum.0 as f64 * ns_per_byte,
            },
            Discipline::Srpt => Jobs::Srpt {
                serving: None,
                waiting: BinaryHeap::new(),
            },
        };
        Line {
            jobs,
            count: 0,
            ns_per_byte,
            now: 0,
            since: 0,
            busy_ns: 0,
        }
    }

    /// Jobs present.
    pub(super) fn jobs(&self) -> usize {
        self.count
    }

    /// Moves the line's clock to `now`, which never precedes the last value.
    pub(super) fn advance(&mut self, now: u64) {
        let passed = now - self.now;
        self.now = now;
        if self.count == 0 {
            return;
        }
        self.busy_ns += passed;
        if let Jobs::Sharing { attained, .. } = &mut self.jobs {
            *attained += passed as f64 / self.count as f64;
        }
    }

    /// A transfer of `bytes` arrives.
    pub(super) fn arrive(&mut self, bytes: f64, job: u32) {
        let work = bytes * self.ns_per_byte;
        let idle = self.count == 0;
        self.count += 1;
        match &mut self.jobs {
            Jobs::Sharing { attained, ends } => {
                if idle {
                    // Restarting the virtual clock keeps its precision for small differences.
                    *attained = 0.0;
                }
                ends.push(Reverse(((*attained + work).to_bits(), job)));
            }
            Jobs::Queue { waiting, .. } => {
                if idle {
                    self.since = self.now;
                }
                waiting.push_back((work, job));
            }
            Jobs::Srpt { serving, waiting } => {
                let Some((left, current)) = *serving else {
                    *serving = Some((work, job));
                    self.since = self.now;
                    return;
                };
                let left = (left - (self.now - self.since) as f64).max(0.0);
                self.since = self.now;
                if work < left {
                    waiting.push(Reverse((left.to_bits(), current)));
                    *serving = Some((work, job));
                } else {
                    *serving = Some((left, current));
                    waiting.push(Reverse((work.to_bits(), job)));
                }
            }
        }
    }

    /// Time at which the next service ends without further arrivals; the end of time if idle.
    pub(super) fn next_end(&self) -> u64 {
        let after = |start: u64, work: f64| start.saturating_add((work + 0.5) as u64).max(self.now);
        match &self.jobs {
            Jobs::Sharing { attained, ends } => ends.peek().map_or(u64::MAX, |Reverse((end, _))| {
                after(
                    self.now,
                    (f64::from_bits(*end) - attained).max(0.0) * self.count as f64,
                )
            }),
            Jobs::Queue { waiting, turn } => waiting
                .front()
                .map_or(u64::MAX, |&(work, _)| after(self.since, work.min(*turn))),
            Jobs::Srpt { serving, .. } => serving.map_or(u64::MAX, |(work, _)| after(self.since, work)),
        }
    }

    /// Ends the service due now; returns the job if it is complete.
    pub(super) fn end_next(&mut self) -> Option<u32> {
        self.since = self.now;
        let ended = match &mut self.jobs {
            Jobs::Sharing { attained, ends } => {
                let Reverse((end, job)) = ends.pop()?;
                // The clock ticks in whole nanoseconds; the job got exactly its work.
                *attained = attained.max(f64::from_bits(end));
                job
            }
            Jobs::Queue { waiting, turn } => {
                let (work, job) = waiting.pop_front()?;
                if work > *turn {
                    waiting.push_back((work - *turn, job));
                    return None;
                }
                job
            }
            Jobs::Srpt { serving, waiting } => {
                let (_, job) = serving.take()?;
                *serving = waiting
                    .pop()
                    .map(|Reverse((work, job))| (f64::from_bits(work), job));
                job
            }
        };
        self.count -= 1;
        Some(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends of jobs arriving as (ns, bytes) on a line of one byte per nanosecond, in job order.
    fn ends(discipline: Discipline, arrivals: &[(u64, f64)]) -> Vec<u64> {
        let mut line = Line::new(Rate(8_000_000_000), discipline);
        let mut ends = vec![0; arrivals.len()];
        let mut next = 0;
        loop {
            let end = line.next_end();
            let arrival = arrivals.get(next).map_or(u64::MAX, |arrival| arrival.0);
            if end == u64::MAX && arrival == u64::MAX {
                return ends;
            }
            line.advance(end.min(arrival));
            if end <= arrival {
                if let Some(job) = line.end_next() {
                    ends[job as usize] = end;
                }
            } else {
                line.arrive(arrivals[next].1, next as u32);
                next += 1;
            }
        }
    }

    #[test]
    fn disciplines_by_hand() {
        let arrivals = [(0, 100.0), (20, 30.0), (20, 10.0)];
        for (discipline, want) in [
            (Discipline::Fifo, [100, 130, 140]),
            // 80 left at 20; three share until 50 (10 each), two until 90 (20 each), then 50 alone.
            (Discipline::Sharing, [140, 90, 50]),
            (Discipline::Srpt, [140, 60, 30]),
            // A's turn ends at 20 as the others arrive, and ends come first: A to 30, B to 40, C to 50,
            // then A and B in turn until B ends at 90.
            (Discipline::RoundRobin { quantum: Bytes(10) }, [140, 90, 50]),
        ] {
            assert_eq!(ends(discipline, &arrivals), want, "{discipline:?}");
        }
    }

    #[test]
    fn busy_time_is_the_work() {
        let mut line = Line::new(Rate(8_000_000_000), Discipline::Sharing);
        line.arrive(50.0, 0);
        line.advance(50);
        assert_eq!(line.end_next(), Some(0));
        line.advance(1000);
        assert_eq!(line.busy_ns, 50);
        assert_eq!(line.next_end(), u64::MAX);
        assert_eq!(line.end_next(), None);
    }
}
