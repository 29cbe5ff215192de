//! Bursts of users on a real kernel, with both ends of an emulated link on this machine. `weir serve` runs at the far
//! end. `weir load` at the near end replays a log in which all users ask in the same instant, once a second.
//!
//! Reduces a burst to the mean turnaround of its users, from the intended start to the last byte. The first burst has
//! cold addresses, routes and files and is left out.

use super::stage::{Stage, Tried};
use crate::failure::Failure;
use ::load::run::Run;
use ::model::Seconds;
use std::fmt::Write;
use units::{Bytes, Rate};

/// The requested path.
const TARGET: &str = "/file.bin";

/// Parameters of the bursts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bursts {
    /// Bandwidth of the link in each direction.
    pub(super) rate: Rate,
    /// Round-trip time of the empty link.
    pub(super) rtt: Seconds,
    /// Users per burst.
    pub(super) users: u32,
    /// Number of bursts that count.
    pub(super) bursts: u32,
}

/// The measurements.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    /// Mean turnaround of the users of each burst, in seconds.
    pub(super) turnarounds: Vec<f64>,
    /// Bytes of a response, header section included.
    pub(super) answer: Bytes,
    /// Mean delay of the client after the intended start; part of the turnarounds.
    pub(super) late: Seconds,
}

impl Bursts {
    /// The link in the words of `weir link`; its queue holds everything that all users receive.
    pub(super) fn link(&self) -> String {
        let rtt = (self.rtt.0 * 1e6).round();
        format!("rate={} rtt={rtt}us mtu=1500 queue=10000p", self.rate.0)
    }

    /// The log that `weir load` replays: all users in the same instant of each second.
    fn log(&self) -> String {
        let mut log = String::new();
        for second in 0..=self.bursts {
            let (hours, minutes, seconds) = (second / 3_600 % 24, second / 60 % 60, second % 60);
            for _ in 0..self.users {
                // Fractional seconds tell the replay to use the times exactly.
                let _ = writeln!(
                    log,
                    "{{\"time\":\"2000-01-01T{hours:02}:{minutes:02}:{seconds:02}.5Z\",\"peer\":\"198.18.0.2\",\
                     \"method\":\"GET\",\"target\":\"{TARGET}\",\"status\":200}}"
                );
            }
        }
        log
    }

    /// Measures the bursts with a file of `content` bytes; the inner error is the reason if the system refuses.
    ///
    /// # Errors
    /// `System` if a program cannot run, `Invalid` if too few bursts were answered completely.
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
                "of {} bursts of {} users over {}, only {} were answered completely within a second ({} files failed)",
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
        // Includes the first burst, which does not count.
        assert_eq!(log.lines().count(), 3 * 62);
        let last = log.lines().last().expect("a line");
        assert!(last.contains("T00:01:01.5Z"), "{last}");
        let read: serde_json::Value = serde_json::from_str(last).expect("JSON");
        assert_eq!(read["target"], TARGET);
    }
}
