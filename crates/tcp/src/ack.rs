//! Delayed acknowledgments: received data is acknowledged at once by a rule, or later by a timer.
//!
//! Decides only when to send an ACK; the endpoint decides its contents.

use crate::stack::{AckRule, AckTimer, Stack};
use units::{Duration, Instant};

/// The next tick of a host's delayed-ACK timer after `now`; ticks are at `phase + k * period`.
pub fn beat_after(now: Instant, period: Duration, phase: Duration) -> Instant {
    let period = period.as_nanos().max(1);
    let phase = phase.as_nanos() % period;
    let beats = (u128::from(now.as_nanos()) + period - phase) / period;
    Instant::from_nanos(u64::try_from(beats * period + phase).unwrap_or(u64::MAX))
}

/// The acknowledgment the peer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    Nothing,
    /// An ACK, to be sent at `due` at the latest.
    Ack {
        due: Instant,
        segments: u32,
        bytes: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Acks {
    rule: AckRule,
    timer: AckTimer,
    time: Duration,
    phase: Duration,
    owed: Owed,
    quick_left: u32,
    /// When the last data arrived.
    heard: Option<Instant>,
}

impl Acks {
    pub(crate) fn new(stack: &Stack, phase: Duration) -> Acks {
        Acks {
            rule: stack.ack_rule,
            timer: stack.ack_timer,
            time: stack.delayed_ack,
            phase,
            owed: Owed::Nothing,
            quick_left: if stack.ack_rule == AckRule::QuickThenBytes {
                AckRule::QUICK
            } else {
                0
            },
            heard: None,
        }
    }

    pub(crate) fn rule(&self) -> AckRule {
        self.rule
    }

    /// Records a data segment that arrived in order; returns whether to acknowledge it at once.
    pub(crate) fn data(&mut self, bytes: u64, mss: u64, now: Instant) -> bool {
        let (due, segments, sum) = match self.owed {
            Owed::Ack {
                due,
                segments,
                bytes: before,
            } => (due, segments + 1, before + bytes),
            Owed::Nothing => {
                let due = match self.timer {
                    AckTimer::PerSegment => now + self.time,
                    AckTimer::Heartbeat => beat_after(now, self.time, self.phase),
                };
                (due, 1, bytes)
            }
        };
        self.owed = Owed::Ack {
            due,
            segments,
            bytes: sum,
        };
        self.heard = Some(now);
        if self.quick_left > 0 {
            self.quick_left -= 1;
            return true;
        }
        match self.rule {
            AckRule::OnRead => false,
            AckRule::Bytes | AckRule::QuickThenBytes => sum >= 2 * mss,
            AckRule::Segments => segments >= 2,
        }
    }

    /// Records that data was sent. If it answers data received within the delayed-ACK time, the connection is
    /// interactive: quick ACKs end, because the next ACK can be carried by the next answer (Linux's ping-pong
    /// mode).
    pub(crate) fn answered(&mut self, now: Instant) {
        if self.heard.is_some_and(|heard| now.since(heard) < self.time) {
            self.quick_left = 0;
        }
    }

    /// Records that an ACK was sent, alone or with data.
    pub(crate) fn sent(&mut self) {
        self.owed = Owed::Nothing;
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        match self.owed {
            Owed::Nothing => None,
            Owed::Ack { due, .. } => Some(due),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(n)
    }

    /// Feeds segments at (ms, bytes); checks which are acknowledged at once and when the timer is due
    /// afterwards.
    fn check(name: &str, phase: u64, segments: &[(u64, u64)], at_once: &[bool], due: Option<u64>) {
        let stack = Stack::preset(name).unwrap();
        let mut acks = Acks::new(&stack, Duration::from_millis(phase));
        let mut got = Vec::new();
        for &(at, bytes) in segments {
            let now = acks.data(bytes, 1_460, ms(at));
            if now {
                acks.sent();
            }
            got.push(now);
        }
        assert_eq!(got, at_once, "{name}");
        assert_eq!(acks.due(), due.map(ms), "{name}");
    }

    #[test]
    fn each_rule_and_timer() {
        let full = &[(10, 1_460), (12, 1_460), (14, 1_460)];
        check("4.4bsd", 30, full, &[false; 3], Some(30));
        check("4.4bsd", 5, full, &[false; 3], Some(205));
        check("solaris-2.5", 0, full, &[false, true, false], Some(64));
        check("windows-nt-4.0", 0, full, &[false, true, false], Some(214));
        let small = &[(10, 100), (12, 100), (14, 100)];
        check("solaris-2.5", 0, small, &[false; 3], Some(60));
        check("windows-nt-4.0", 0, small, &[false, true, false], Some(214));
        check("linux-6", 0, small, &[true; 3], None);
    }

    #[test]
    fn who_answers_soon_is_acknowledged_by_the_answer() {
        let stack = Stack::preset("linux-6").unwrap();
        for (answered, at_once) in [(20, false), (49, false), (50, true)] {
            let mut acks = Acks::new(&stack, Duration::ZERO);
            assert!(acks.data(100, 1_460, ms(10)));
            acks.sent();
            acks.answered(ms(answered));
            assert_eq!(acks.data(100, 1_460, ms(90)), at_once, "{answered}");
        }
        // Data sent before any was received does not make the connection interactive.
        let mut acks = Acks::new(&stack, Duration::ZERO);
        acks.answered(ms(1));
        assert!(acks.data(100, 1_460, ms(90)));
    }
}
