//! Steady states from results of `weir load`: number of users, throughput, and response time.
//!
//! The unit of waiting is a file for users who request one at a time, and an object for users who request all its
//! files at once. The seconds of a run are the batches of the bootstrap; the first second, in which users start, is
//! left out.

use crate::failure::Failure;
use ::load::record::Record;
use ::load::run::Run;
use ::load::times::Times;
use ::model::Seconds;
use ::model::bootstrap::resample;
use ::model::fit::{Estimate, LoadSample};
use units::Rng;

/// Seconds that a run needs for meaningful intervals.
const BATCHES_MIN: usize = 5;

/// One second of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Batch {
    answers: f64,
    /// Sum of its response times in seconds.
    waited: f64,
}

/// A run as the fit uses it.
#[derive(Clone, Debug)]
pub(in crate::model) struct Steady {
    users: u64,
    whole: LoadSample,
    batches: Vec<Batch>,
    connects: Times,
}

impl Steady {
    /// The run's measurements; `place` is its file and line.
    ///
    /// # Errors
    /// `Usage`, with the place, for runs without a fixed number of users or without any response.
    pub(in crate::model) fn of(run: &Run, place: &str) -> Result<Steady, Failure> {
        let usage = |why: String| Failure::Usage(format!("{place}: {why}"));
        let Some(users) = run.users.map(u64::from) else {
            return Err(usage(format!(
                "a run of arrivals ({}) has no number of users; give runs with --clients or --users",
                run.model
            )));
        };
        if run.size > 1 {
            return Err(usage(format!(
                "rank {} of {} is only a part of a run; give runs of one machine",
                run.rank, run.size
            )));
        }
        let span = run.stopped_after_s.unwrap_or(run.asked_s).min(run.asked_s);
        let record = &run.record;
        let one_at_a_time = run.model == "clients" || matches!(run.mode.as_str(), "http10" | "serial");
        let batches = if one_at_a_time {
            batches(record, span)
        } else {
            Vec::new()
        };
        let whole = if batches.len() >= BATCHES_MIN {
            sum(users, &batches)
        } else {
            let (answers, mean_ms) = if one_at_a_time {
                (record.files, record.response.summary().mean)
            } else {
                (record.objects, record.object.summary().mean)
            };
            LoadSample {
                users,
                throughput: answers as f64 / span.max(1e-9),
                response: Seconds(mean_ms / 1e3),
            }
        };
        if !(whole.throughput > 0.0 && whole.response.0 > 0.0) {
            return Err(usage("the run has no responses".to_owned()));
        }
        Ok(Steady {
            users,
            whole,
            batches,
            connects: record.connect.clone(),
        })
    }

    /// The whole run as a sample.
    pub(in crate::model) fn sample(&self) -> LoadSample {
        self.whole
    }

    /// Whether it has enough seconds to draw from.
    pub(in crate::model) fn can_be_drawn(&self) -> bool {
        self.batches.len() >= BATCHES_MIN
    }

    /// A bootstrap draw: as many seconds, drawn with replacement.
    pub(in crate::model) fn drawn(&self, rng: &mut Rng) -> LoadSample {
        sum(self.users, &resample(&self.batches, rng))
    }

    /// Median connect time, with the interval between two observed times that holds the true median in 95 of 100
    /// samples (order statistics; normal approximation of the binomial).
    pub(in crate::model) fn round_trip(&self) -> Option<Estimate> {
        let count = self.connects.count() as f64;
        (count >= 10.0).then(|| {
            let half = 0.98 / count.sqrt();
            let at = |share: f64| self.connects.quantile(share).as_secs_f64();
            Estimate {
                value: at(0.5),
                low: at(0.5 - half),
                high: at((0.5 + half).min(1.0)),
            }
        })
    }
}

fn batches(record: &Record, span: f64) -> Vec<Batch> {
    let whole = record.seconds.iter().take(span.floor() as usize).skip(1);
    whole
        .map(|second| {
            let times = second.response.times();
            Batch {
                answers: times.count() as f64,
                waited: times.count() as f64 * times.summary().mean / 1e3,
            }
        })
        .collect()
}

fn sum(users: u64, batches: &[Batch]) -> LoadSample {
    let answers: f64 = batches.iter().map(|batch| batch.answers).sum();
    let waited: f64 = batches.iter().map(|batch| batch.waited).sum();
    LoadSample {
        users,
        throughput: answers / batches.len().max(1) as f64,
        response: Seconds(waited / answers.max(1.0)),
    }
}
