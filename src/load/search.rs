//! `weir load --slo`: the highest load that meets an objective. Doubles until it is missed, then halves the
//! gap until it is within a twentieth. Decides what to try next; every trial is a run like any other.
//!
//! ```text
//!   GROWING ── missed ──▶ NARROWING ── gap small ──▶ found
//!      │ first one missed      ▲
//!      └──▶ SHRINKING ── met ──┘   (none down to 1: nothing meets it)
//! ```

use super::perform;
use super::place::Place;
use super::report::Report;
use super::task::{Task, Who};
use crate::cli::load::RunFlags;
use crate::cli::{Failure, Voice, output};
use ::load::arrivals::Schedule;
use ::load::limits::USERS_MAX;
use ::load::run::Parts;
use ::load::times::Summary;
use core::str::FromStr;
use measure::Duration;
use runtime::signal::Signals;
use serde_json::json;
use server::config::parse_duration;

/// Trials at the most.
const TRIALS_MAX: u32 = 40;
/// How close the answer is, as a share of it.
const WITHIN: f64 = 0.05;
/// The highest rate that is tried.
const RATE_MAX: f64 = 1e7;

/// What response times are to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Objective {
    statistic: String,
    below: Duration,
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Objective, String> {
        let (statistic, below) = text
            .split_once('<')
            .ok_or_else(|| format!("`{text}` is no objective; one looks like p99<50ms"))?;
        let statistic = statistic.trim().to_lowercase().replace("p99.9", "p999");
        if !["mean", "p50", "p90", "p99", "p999", "max"].contains(&statistic.as_str()) {
            return Err(format!(
                "`{statistic}` is nothing that is measured; there are mean, p50, p90, p99, p999, max"
            ));
        }
        let below = parse_duration(below.trim())?;
        if below.is_zero() {
            return Err("nothing takes less than no time".to_owned());
        }
        Ok(Objective { statistic, below })
    }
}

impl Objective {
    /// Milliseconds of what it is about.
    fn value(&self, times: &Summary) -> f64 {
        match self.statistic.as_str() {
            "mean" => times.mean,
            "p50" => times.p50,
            "p90" => times.p90,
            "p99" => times.p99,
            "p999" => times.p999,
            _ => times.max,
        }
    }
}

/// How a search stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Search {
    /// The highest load that met it, if any did.
    Growing {
        met: Option<f64>,
    },
    /// The lowest load that missed it.
    Shrinking {
        missed: f64,
    },
    Narrowing {
        met: f64,
        missed: f64,
    },
    Over {
        met: Option<f64>,
    },
}

impl Search {
    /// After a trial. `whole` if loads are whole numbers.
    fn step(self, load: f64, met: bool, whole: bool, most: f64) -> Search {
        let next = match (self, met) {
            (Search::Growing { .. }, true) if load >= most => Search::Over { met: Some(load) },
            (Search::Growing { .. }, true) => Search::Growing { met: Some(load) },
            (Search::Growing { met: None } | Search::Shrinking { .. }, false) => {
                Search::Shrinking { missed: load }
            }
            (Search::Growing { met: Some(met) }, false) => Search::Narrowing { met, missed: load },
            (Search::Shrinking { missed } | Search::Narrowing { missed, .. }, true) => {
                Search::Narrowing { met: load, missed }
            }
            (Search::Narrowing { met, .. }, false) => Search::Narrowing { met, missed: load },
            (over @ Search::Over { .. }, _) => over,
        };
        match next {
            Search::Shrinking { missed } if missed <= if whole { 1.0 } else { 0.5 } => {
                Search::Over { met: None }
            }
            Search::Narrowing { met, missed } => {
                let close = (missed - met) / met <= WITHIN || (whole && missed - met <= 1.0);
                if close {
                    Search::Over { met: Some(met) }
                } else {
                    next
                }
            }
            other => other,
        }
    }

    /// What to try next; none when it is over.
    fn next(self, first: f64, whole: bool, most: f64) -> Option<f64> {
        let load = match self {
            Search::Growing { met: None } => first,
            Search::Growing { met: Some(met) } => (met * 2.0).min(most),
            Search::Shrinking { missed } => missed / 2.0,
            Search::Narrowing { met, missed } => (met + missed) / 2.0,
            Search::Over { .. } => return None,
        };
        Some(if whole { load.floor().max(1.0) } else { load })
    }
}

/// Searches, and says what was found.
///
/// # Errors
/// `Failed` if nothing meets the objective; otherwise as for a run.
pub(super) fn run(
    mut task: Task,
    flags: &RunFlags,
    objective: &Objective,
    signals: &mut Signals,
    voice: &Voice,
) -> Result<(), Failure> {
    let place = Place {
        rank: 0,
        size: 1,
        told_by: "search",
        start_at: None,
    };
    let (first, whole, most, unit) = match &task.who {
        Who::Users(n) => (f64::from(*n), true, f64::from(USERS_MAX), "users"),
        Who::Clients(n) => (f64::from(*n), true, f64::from(USERS_MAX), "clients"),
        Who::Rate(schedule, _) => (mean(schedule, flags), false, RATE_MAX, "objects/s"),
        Who::Sessions(schedule, _) => (mean(schedule, flags), false, RATE_MAX, "sessions/s"),
        Who::Replay => return Err(Failure::Usage("a replay has the rate of its log".to_owned())),
    };
    let mut search = Search::Growing { met: None };
    let mut last = None;
    for _ in 0..TRIALS_MAX {
        let Some(load) = search.next(first, whole, most) else {
            break;
        };
        task.who = match task.who {
            Who::Users(_) => Who::Users(load as u32),
            Who::Clients(_) => Who::Clients(load as u32),
            Who::Rate(_, process) => Who::Rate(Schedule::constant(load), process),
            Who::Sessions(_, process) => Who::Sessions(Schedule::constant(load), process),
            Who::Replay => Who::Replay,
        };
        let run = match perform(&task, flags, &place, signals, voice) {
            // This machine has no room for so many: that is the end of what can be found here.
            Err(Failure::Usage(why)) if last.is_some() => {
                tracing::warn!("{load:.1} {unit}: {why}");
                search = search.step(load, false, whole, most);
                continue;
            }
            run => run?,
        };
        let stopped = run.stopped_after_s.is_some();
        let parts = Parts::of([run]).map_err(Failure::System)?;
        let report = Report::of_rank(&parts);
        // With less load no server that answers nothing would answer more.
        if stopped || (last.is_none() && report.files == 0) {
            return report.judged();
        }
        let value = objective.value(&report.response_ms);
        let valid = report.verdict.valid;
        let met = valid && value < objective.below.as_secs_f64() * 1e3;
        if voice.json {
            let line = json!({
                "event": "probe", "load": load, "unit": unit, "statistic": objective.statistic, "response_ms": value,
                "below_ms": objective.below.as_secs_f64() * 1e3, "met": met, "valid": valid,
                "reasons": report.verdict.reasons, "files_per_s": report.files_per_s,
            });
            output::line(&line)?;
        } else if voice.reports() {
            let word = if met { "met" } else { "missed" };
            let why = if valid {
                String::new()
            } else {
                format!(" ({})", report.verdict.reasons.join("; "))
            };
            output::line(format_args!(
                "{load:>10.1} {unit}: {} {value:.3} ms, {word}{why}",
                objective.statistic
            ))?;
        }
        if met || last.is_none() {
            last = Some((parts, report));
        }
        search = search.step(load, met, whole, most);
    }
    let found = match search {
        Search::Over { met } | Search::Growing { met } => met,
        Search::Narrowing { met, .. } => Some(met),
        Search::Shrinking { .. } => None,
    };
    if let Some((parts, report)) = &last {
        super::export::write(parts, report, &flags.output)?;
    }
    let said = format!(
        "{} < {:.1} ms",
        objective.statistic,
        objective.below.as_secs_f64() * 1e3
    );
    if voice.json {
        output::line(
            json!({"event": "search", "load": found, "unit": unit, "objective": said, "within": WITHIN}),
        )?;
    }
    match found {
        Some(load) => {
            if voice.reports() && !voice.json {
                output::line(format_args!(
                    "{load:.1} {unit} meet {said}, to within {:.0} %",
                    WITHIN * 100.0
                ))?;
            }
            Ok(())
        }
        None => Err(Failure::Failed(format!(
            "no number of {unit} that was tried meets {said}"
        ))),
    }
}

fn mean(schedule: &Schedule, flags: &RunFlags) -> f64 {
    schedule.expected(flags.asked.duration) / flags.asked.duration.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a server that keeps the objective up to some load.
    fn check(first: f64, holds_up_to: f64, whole: bool, most: f64) -> (Option<f64>, u32) {
        let (mut search, mut trials) = (Search::Growing { met: None }, 0);
        while let Some(load) = search.next(first, whole, most) {
            search = search.step(load, load <= holds_up_to, whole, most);
            trials += 1;
            assert!(trials <= TRIALS_MAX, "{search:?}");
        }
        let Search::Over { met } = search else {
            panic!("{search:?}")
        };
        (met, trials)
    }

    #[test]
    fn the_highest_load_is_found() {
        for (first, limit) in [(100.0, 733.0), (100.0, 100.0), (100.0, 7.0), (1.0, 90_000.0)] {
            for whole in [false, true] {
                let (met, _) = check(first, limit, whole, 1e6);
                let met = met.expect("some load is met");
                assert!(
                    met <= limit && met >= limit / 1.06 - f64::from(whole),
                    "{first} {limit}: {met}"
                );
            }
        }
        assert_eq!(check(100.0, 0.0, true, 1e6).0, None);
        assert_eq!(check(100.0, 0.0, false, 1e6).0, None);
        assert_eq!(check(100.0, 1e9, true, 5000.0).0, Some(5000.0));
    }

    #[test]
    fn objectives_are_read() {
        let objective: Objective = "p99 < 50ms".parse().expect("an objective");
        assert_eq!(objective.below, Duration::from_millis(50));
        assert_eq!("p99.9<1s".parse::<Objective>().expect("one").statistic, "p999");
        for wrong in ["p99", "p98<1s", "p99<x", "p99<0s"] {
            assert!(wrong.parse::<Objective>().is_err(), "{wrong}");
        }
    }
}
