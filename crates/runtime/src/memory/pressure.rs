//! Memory pressure in steps, each of which costs clients more than the one before.
//!
//! ```text
//!            30 %         40 %         85 %       95 %       of the budget
//!   Calm ──▶ Reading ──▶ Output ──▶ Idle ──▶ Refusing        up at once, as many steps as it takes
//!        ◀──         ◀──        ◀──      ◀──                 down to the first that holds, 5 % below, after DWELL
//! ```
//! The first two cost an honest client next to nothing and limit what a connection can hold to a few kilobytes. They
//! start early because memory already handed out cannot be taken back. Pure: time and use are arguments.

use units::{Duration, Instant};

/// A step to save memory; each includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// No step.
    #[default]
    Calm,
    /// Receive little at a time: requests that clients pipeline stay with them.
    Reading,
    /// Answer one request per turn of a connection, and reference content instead of copying it.
    Output,
    /// Close idle connections, longest idle first.
    Idle,
    /// Answer requests with 503 and close.
    Refusing,
}

impl Step {
    /// Number of steps.
    pub(super) const COUNT: usize = 5;

    /// All steps but `Calm`, in order.
    pub const PRESSED: [Step; 4] = [Step::Reading, Step::Output, Step::Idle, Step::Refusing];

    /// The step of this number.
    #[inline]
    pub(super) fn of(number: u8) -> Step {
        match number {
            0 => Step::Calm,
            1 => Step::Reading,
            2 => Step::Output,
            3 => Step::Idle,
            _ => Step::Refusing,
        }
    }

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Step::Calm => "calm",
            Step::Reading => "reading",
            Step::Output => "output",
            Step::Idle => "idle",
            Step::Refusing => "refusing",
        }
    }

    /// Its effect, for the log.
    pub(super) const fn effect(self) -> &'static str {
        match self {
            Step::Calm => "no memory-saving step is in effect",
            Step::Reading => "connections read 1 KiB at a time",
            Step::Output => "connections get one answer per turn",
            Step::Idle => "idle connections are closed",
            Step::Refusing => "requests get 503; raise --memory or the limit of the control group",
        }
    }

    /// The share of the budget, in thousandths, at which it begins.
    const fn begins(self) -> u64 {
        match self {
            Step::Calm => 0,
            Step::Reading => 300,
            Step::Output => 400,
            Step::Idle => 850,
            Step::Refusing => 950,
        }
    }
}

/// A step ends this far below its beginning, in thousandths.
const HYSTERESIS: u64 = 50;
/// Minimum duration of a step.
const DWELL: Duration = Duration::from_secs(1);

/// The step in force.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    step: Step,
    /// When it was entered.
    since: Instant,
}

impl Pressure {
    pub(super) fn step(&self) -> Step {
        self.step
    }

    /// Updates the step for the use of the budget in thousandths, and returns it.
    pub(super) fn advance(&mut self, used: u64, now: Instant) -> Step {
        let due = Step::PRESSED
            .into_iter()
            .rev()
            .find(|step| used >= step.begins())
            .unwrap_or_default();
        if due > self.step {
            self.step = due;
            self.since = now;
        } else if used + HYSTERESIS < self.step.begins() && now.since(self.since) >= DWELL {
            self.step = Step::of(self.step as u8 - 1);
            // With that much memory free, the next step down needs no wait of its own.
            if used + HYSTERESIS >= self.step.begins() {
                self.since = now;
            } else {
                return self.advance(used, now);
            }
        }
        self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Script entries: seconds, thousandths used, and the resulting step.
    fn check(script: &[(u64, u64, Step)]) {
        let mut pressure = Pressure::default();
        for &(secs, used, step) in script {
            let now = Instant::from_nanos(secs * 1_000_000_000);
            assert_eq!(pressure.advance(used, now), step, "{used} at {secs} s");
        }
    }

    #[test]
    fn steps_come_in_order_and_cost_more_each() {
        let begins = Step::PRESSED.map(Step::begins);
        assert!(begins.is_sorted() && begins[0] > 2 * HYSTERESIS && begins[3] < 1_000);
        check(&[
            (1, 299, Step::Calm),
            (1, 300, Step::Reading),
            (1, 400, Step::Output),
            (1, 850, Step::Idle),
            (1, 950, Step::Refusing),
            (1, 2_000, Step::Refusing),
        ]);
        for (number, step) in [Step::Calm].into_iter().chain(Step::PRESSED).enumerate() {
            assert_eq!(Step::of(number as u8), step);
        }
    }

    #[test]
    fn a_jump_enters_the_step_it_leads_to_at_once() {
        check(&[(1, 0, Step::Calm), (1, 960, Step::Refusing)]);
    }

    #[test]
    fn what_wavers_around_a_bound_changes_nothing() {
        check(&[
            (1, 860, Step::Idle),
            (5, 840, Step::Idle),
            (9, 801, Step::Idle),
            (12, 855, Step::Idle),
            (15, 799, Step::Output),
            (15, 849, Step::Output),
            (15, 850, Step::Idle),
        ]);
    }

    #[test]
    fn a_step_lasts_a_second_and_then_all_that_are_over_end() {
        check(&[
            (10, 960, Step::Refusing),
            (10, 100, Step::Refusing),
            (11, 100, Step::Calm),
            (12, 960, Step::Refusing),
            (14, 500, Step::Output),
            (20, 340, Step::Reading),
        ]);
    }
}
