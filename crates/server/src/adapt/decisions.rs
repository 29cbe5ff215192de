//! What was decided lately, for whoever asks.

use super::Decision;
use measure::UnixTime;
use std::collections::VecDeque;

/// Decisions remembered; older ones are in the log.
const KEPT: usize = 32;

/// The last decisions and how many there were in all.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    last: VecDeque<(UnixTime, Decision)>,
    count: u64,
}

impl Decisions {
    pub(crate) fn extend(&mut self, decisions: Vec<Decision>, wall: UnixTime) {
        for decision in decisions {
            self.count += 1;
            self.last.push_back((wall, decision));
            if self.last.len() > KEPT {
                self.last.pop_front();
            }
        }
    }

    /// The last ones with the time of each, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &(UnixTime, Decision)> {
        self.last.iter().rev()
    }

    /// How many there were since the start.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::super::Knob;
    use super::*;

    #[test]
    fn the_newest_are_kept_and_all_are_counted() {
        let mut decisions = Decisions::default();
        let wall = UnixTime { secs: 0, nanos: 0 };
        for number in 0..100 {
            let decision = Decision {
                knob: Knob::KeepAlive,
                from: String::new(),
                to: number.to_string(),
                why: String::new(),
            };
            decisions.extend(vec![decision], wall);
        }
        assert_eq!(decisions.count(), 100);
        let newest: Vec<_> = decisions
            .newest()
            .map(|(_, decision)| decision.to.as_str())
            .collect();
        assert_eq!((newest.len(), newest[0], newest[31]), (KEPT, "99", "68"));
    }
}
