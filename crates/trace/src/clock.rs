//! Plausibility of capture times: a record whose time is far from both neighbors' is damaged.
//!
//! A single wrong time would make every connection look silent for years. A frame far from the one before is held until
//! the next one arrives. If that is nearer to it, time has jumped (a long silence, or a clock set anew). Otherwise the
//! held frame alone is wrong and gets the time of the one before. Decides about times only.

use crate::capture::{Frame, LinkType};
use core::time::Duration;
use units::Instant;

/// Distance to the previous frame from which a time must be confirmed.
const FAR: Duration = Duration::from_secs(60);
/// Largest accepted distance of the last frame, which no later frame can confirm.
const LAST_FAR: Duration = Duration::from_secs(24 * 3600);

/// ```text
///   Even --far from the frame before--> Waiting --the next frame came--> Even
/// ```
#[derive(Debug, Default)]
enum State {
    #[default]
    Begin,
    Even(Instant),
    Waiting {
        before: Instant,
        held: Held,
    },
}

/// A held frame with its bytes.
#[derive(Debug)]
pub(crate) struct Held {
    number: u64,
    at: Instant,
    link: LinkType,
    wire_len: u32,
    data: Vec<u8>,
}

impl Held {
    pub(crate) fn frame(&self) -> Frame<'_> {
        Frame {
            number: self.number,
            at: self.at,
            link: self.link,
            wire_len: self.wire_len,
            data: &self.data,
        }
    }
}

/// Decision about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// Process it now.
    Plausible,
    /// Held until the next frame confirms or refutes its time.
    Held,
}

/// Checks times of frames in file order.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    state: State,
}

impl Clock {
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    /// Lets a frame pass whose time is near the previous one's; holds any other.
    #[inline]
    pub(crate) fn stamp(&mut self, frame: &Frame<'_>) -> Stamp {
        let before = match self.state {
            State::Even(before) if distance(before, frame.at) > FAR => before,
            _ => {
                self.state = State::Even(frame.at);
                return Stamp::Plausible;
            }
        };
        let held = Held {
            number: frame.number,
            at: frame.at,
            link: frame.link,
            wire_len: frame.wire_len,
            data: frame.data.to_vec(),
        };
        self.state = State::Waiting { before, held };
        Stamp::Held
    }

    /// The held frame, judged by the next frame's time `next`, and whether its own time was wrong.
    pub(crate) fn judged(&mut self, next: Instant) -> Option<(Held, bool)> {
        self.settle(|before, at| distance(next, at) > distance(next, before))
    }

    /// The held frame at the end of the capture, and whether its time was wrong.
    pub(crate) fn unconfirmed(&mut self) -> Option<(Held, bool)> {
        self.settle(|before, at| distance(before, at) > LAST_FAR)
    }

    fn settle(&mut self, is_wrong: impl FnOnce(Instant, Instant) -> bool) -> Option<(Held, bool)> {
        match core::mem::take(&mut self.state) {
            State::Waiting { before, mut held } => {
                let wrong = is_wrong(before, held.at);
                if wrong {
                    held.at = before;
                }
                self.state = State::Even(held.at);
                Some((held, wrong))
            }
            other => {
                self.state = other;
                None
            }
        }
    }
}

fn distance(a: Instant, b: Instant) -> Duration {
    a.since(b).max(b.since(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The resulting times, and the number of corrected ones.
    fn run(times: &[u64]) -> (Vec<u64>, u64) {
        let mut clock = Clock::default();
        let (mut out, mut wrong) = (Vec::new(), 0);
        let mut settled = |judged: Option<(Held, bool)>, out: &mut Vec<u64>| {
            if let Some((held, is_wrong)) = judged {
                out.push(held.at.as_nanos() / 1_000_000_000);
                wrong += u64::from(is_wrong);
            }
        };
        for (i, second) in times.iter().enumerate() {
            let frame = Frame {
                number: i as u64 + 1,
                at: Instant::from_nanos(second * 1_000_000_000),
                link: LinkType::ETHERNET,
                wire_len: 60,
                data: b"",
            };
            settled(clock.judged(frame.at), &mut out);
            if clock.stamp(&frame) == Stamp::Plausible {
                out.push(*second);
            }
        }
        settled(clock.unconfirmed(), &mut out);
        (out, wrong)
    }

    #[test]
    fn one_wrong_time_is_put_right_and_a_silence_stays() {
        for (times, expected, wrong) in [
            (&[1000, 1001, 1002][..], &[1000, 1001, 1002][..], 0),
            (&[1000, 352_000_000, 1001, 1002], &[1000, 1000, 1001, 1002], 1),
            (&[1000, 3, 1001], &[1000, 1000, 1001], 1),
            // A silence of an hour, then of a day, and a clock set back.
            (&[1000, 4600, 91_000, 91_001], &[1000, 4600, 91_000, 91_001], 0),
            (&[9000, 1000, 1001], &[9000, 1000, 1001], 0),
            // At the end of the capture, an hour is plausible, eleven years are not.
            (&[1000, 4600], &[1000, 4600], 0),
            (&[1000, 352_000_000], &[1000, 1000], 1),
            // Two wrong times in a row.
            (&[1000, 352_000_000, 500_000, 1001], &[1000, 1000, 1000, 1001], 2),
        ] {
            assert_eq!(run(times), (expected.to_vec(), wrong), "{times:?}");
        }
    }
}
