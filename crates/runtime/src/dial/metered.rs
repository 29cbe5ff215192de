//! Processor time of a crew within a part of its run.
//!
//! The warm-up and the end of a run say nothing about whether a client kept up while it measured. The wrapper reads the
//! clocks of its thread at the first event of that part and at the first event after it. A thread without events uses no
//! processor time, so both are accurate to the distance of two events. Does not know what the crew does.

use super::{Crew, Happened, Port, Usage};
use crate::clock;
use units::{Duration, Instant};

const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// A crew whose thread is metered between two times after its start, or until the run ends or is asked to stop.
#[derive(Debug)]
pub struct Metered<C> {
    inner: C,
    from: Duration,
    until: Duration,
    meter: Meter,
}

/// ```text
///   Before ──from──▶ Within ──until, or an earlier end──▶ Over
///      └──────────────────an earlier end──────────────────┘
/// ```
#[derive(Clone, Copy, Debug)]
enum Meter {
    Before {
        from: Instant,
        until: Instant,
    },
    Within {
        began: Instant,
        /// Processor time of the thread at `began`.
        used: Duration,
        until: Instant,
    },
    Over(Option<Usage>),
}

impl Meter {
    /// Reads the processor time if a boundary has passed. `cpu` is that of the calling thread.
    #[inline]
    fn pass(&mut self, now: Instant, cpu: impl Fn() -> Duration) {
        match *self {
            Meter::Before { from, until } if now >= from => {
                *self = Meter::Within {
                    began: now,
                    used: cpu(),
                    until,
                };
            }
            Meter::Within { until, .. } if now >= until => self.end(now, cpu),
            Meter::Before { .. } | Meter::Within { .. } | Meter::Over(_) => {}
        }
    }

    /// Ends the metered part now.
    #[cold]
    fn end(&mut self, now: Instant, cpu: impl Fn() -> Duration) {
        *self = match *self {
            Meter::Before { .. } => Meter::Over(None),
            Meter::Within { began, used, .. } => Meter::Over(Some(Usage {
                wall: now.since(began),
                cpu: cpu().saturating_sub(used),
            })),
            Meter::Over(usage) => Meter::Over(usage),
        };
    }

    /// The time used; `None` if the metered part has not ended or had no length.
    fn usage(&self) -> Option<Usage> {
        match *self {
            Meter::Over(usage) => usage.filter(|usage| !usage.wall.is_zero()),
            Meter::Before { .. } | Meter::Within { .. } => None,
        }
    }
}

impl<C: Crew> Metered<C> {
    /// Meters a crew between these times after its start.
    pub fn new(inner: C, from: Duration, until: Duration) -> Metered<C> {
        Metered {
            inner,
            from,
            until,
            meter: Meter::Before {
                from: NEVER,
                until: NEVER,
            },
        }
    }

    /// The crew, and the time that its thread used in the metered part; `None` if the run ended before that.
    pub fn into_parts(self) -> (C, Option<Usage>) {
        let usage = self.meter.usage();
        (self.inner, usage)
    }

    /// Ends the metered part if the crew has ended its run.
    fn settle(&mut self, port: &Port, now: Instant) {
        if port.is_ended() {
            self.meter.end(now, clock::thread_cpu);
        }
    }
}

impl<C: Crew> Crew for Metered<C> {
    fn start(&mut self, port: &mut Port, now: Instant) {
        self.meter = Meter::Before {
            from: now + self.from,
            until: now + self.until,
        };
        self.meter.pass(now, clock::thread_cpu);
        self.inner.start(port, now);
        self.settle(port, now);
    }

    fn handle(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, now: Instant) {
        self.meter.pass(now, clock::thread_cpu);
        self.inner.handle(line, happened, port, now);
        self.settle(port, now);
    }

    fn stop(&mut self, port: &mut Port, now: Instant) {
        self.meter.end(now, clock::thread_cpu);
        self.inner.stop(port, now);
    }

    fn called(&mut self, port: &mut Port, now: Instant) {
        self.inner.called(port, now);
        self.settle(port, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outside_the_metered_part_does_not_count() {
        let at = |ms| Instant::from_nanos(7_000_000_000) + Duration::from_millis(ms);
        // Events with the processor time so far, then the end of the run; metered from 100 to 300 ms.
        let check = |events: &[(u64, u64)], ended: (u64, u64), wanted: Option<(u64, u64)>| {
            let mut meter = Meter::Before {
                from: at(100),
                until: at(300),
            };
            for &(ms, cpu) in events {
                meter.pass(at(ms), || Duration::from_millis(cpu));
            }
            meter.end(at(ended.0), || Duration::from_millis(ended.1));
            let usage = meter.usage();
            let usage = usage.map(|usage| (usage.wall.as_millis() as u64, usage.cpu.as_millis() as u64));
            assert_eq!(usage, wanted, "{events:?} {ended:?}");
        };
        // Idle before and after, saturated while it measured: 40 % of the whole run.
        let idle = [(0, 0), (99, 0), (100, 0), (200, 100), (300, 200), (400, 200)];
        check(&idle, (500, 200), Some((200, 200)));
        // Saturated before and after.
        let busy = [(0, 0), (100, 100), (250, 101), (300, 102), (400, 200)];
        check(&busy, (500, 300), Some((200, 2)));
        // Events that are late, an early end, and an end before or at the beginning.
        check(&[(0, 0), (110, 20), (330, 130)], (340, 140), Some((220, 110)));
        check(&[(0, 0), (100, 10)], (150, 40), Some((50, 30)));
        check(&[(0, 0), (50, 10)], (60, 20), None);
        check(&[(0, 0), (100, 10)], (100, 20), None);
    }
}
