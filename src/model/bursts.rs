//! Users who ask at once, for real: today's kernel at both ends of an emulated link, `weir serve` at the far end and
//! `weir load` at the near one, which replays a log in which all of them ask in the same instant, once a second.
//!
//! Decides how a burst becomes a number: the mean of its users, from when they were to ask to their last byte. The
//! first burst finds addresses, routes and files that nobody has used yet, and is left out.

use super::stage::{Stage, Tried};
use crate::cli::Failure;
use ::load::run::Run;
use ::model::Seconds;
use measure::{Bytes, Rate};
use std::fmt::Write;

/// What is asked for.
const TARGET: &str = "/file.bin";

/// Bursts to be measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bursts {
    /// Rate of the link, each way.
    pub(super) rate: Rate,
    /// Round-trip time of the empty link.
    pub(super) rtt: Seconds,
    /// Users of a burst.
    pub(super) users: u32,
    /// How many bursts count.
    pub(super) bursts: u32,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    /// Of each burst, the mean turnaround of its users in seconds.
    pub(super) turnarounds: Vec<f64>,
    /// Bytes of an answer, header section included.
    pub(super) answer: Bytes,
    /// How late a user was to ask, on average; part of the turnarounds.
    pub(super) late: Seconds,
}

impl Bursts {
    /// The link in the words of `weir link`. Its queue holds whatever all users are sent.
    pub(super) fn link(&self) -> String {
        let rtt = (self.rtt.0 * 1e6).round();
        format!("rate={} rtt={rtt}us mtu=1500 queue=10000p", self.rate.0)
    }

    /// The log that `weir load` replays: everybody in the same instant of each second.
    fn log(&self) -> String {
        let mut log = String::new();
        for second in 0..=self.bursts {
            let (hours, minutes, seconds) = (second / 3_600 % 24, second / 60 % 60, second % 60);
            for _ in 0..self.users {
                // A fraction in the times says that they are meant as they stand.
                let _ = writeln!(
                    log,
                    "{{\"time\":\"2000-01-01T{hours:02}:{minutes:02}:{seconds:02}.5Z\",\"peer\":\"198.18.0.2\",\
                     \"method\":\"GET\",\"target\":\"{TARGET}\",\"status\":200}}"
                );
            }
        }
        log
    }

    /// Measures them with a file of `content` bytes; the reason where the system does not let us.
    ///
    /// # Errors
    /// `System` for what cannot be run, `Invalid` where too few bursts were answered whole.
    pub(super) fn measure(&self, content: Bytes) -> Result<Result<Measured, String>, Failure> {
        let stage = Stage::new()?;
        let size = usize::try_from(content.0).unwrap_or(usize::MAX);
        stage.put(&format!("site{TARGET}"), &vec![b'x'; size])?;
        let log = stage.put("bursts.log", self.log().as_bytes())?;
        let words = [
            "--replay".to_owned(),
            log.display().to_string(),
            "--mode=http10".to_owned(),
            "--threads=1".to_owned(),
            format!("--connections={}", self.users.max(1)),
            format!("--duration={}s", self.bursts + 1),
        ];
        match stage.over_link(&self.link(), &words)? {
            Tried::Refused(why) => Ok(Err(why)),
            Tried::Done(run) => self.read(&run).map(Ok),
        }
    }

    fn read(&self, run: &Run) -> Result<Measured, Failure> {
        let record = &run.record;
        let turnarounds: Vec<f64> = record
            .seconds
            .iter()
            .skip(1)
            .map(|second| second.response.times())
            .filter(|times| times.count() == u64::from(self.users))
            .map(|times| times.summary().mean / 1e3)
            .collect();
        if (turnarounds.len() as u32) < self.bursts.div_ceil(2) {
            return Err(Failure::Invalid(format!(
                "of {} bursts of {} users over {} only {} were answered whole within a second ({} files failed)",
                self.bursts,
                self.users,
                self.rate,
                turnarounds.len(),
                record.files_failed
            )));
        }
        Ok(Measured {
            turnarounds,
            answer: Bytes(record.bytes_received.div_ceil(record.files.max(1))),
            late: Seconds(record.lag.summary().mean / 1e3),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bursts(users: u32, bursts: u32) -> Bursts {
        Bursts {
            rate: Rate(10_000_000),
            rtt: Seconds(0.0005),
            users,
            bursts,
        }
    }

    #[test]
    fn the_link_and_the_log_say_what_was_asked() {
        let three = bursts(3, 61);
        assert_eq!(three.link(), "rate=10000000 rtt=500us mtu=1500 queue=10000p");
        let log = three.log();
        // One burst more, which does not count.
        assert_eq!(log.lines().count(), 3 * 62);
        let last = log.lines().last().expect("a line");
        assert!(last.contains("T00:01:01.5Z"), "{last}");
        let read: serde_json::Value = serde_json::from_str(last).expect("JSON");
        assert_eq!(read["target"], TARGET);
    }
}
