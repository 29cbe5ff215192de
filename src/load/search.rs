//! `weir load --slo`: the highest load that meets an objective. Doubles the load until a trial misses the objective,
//! then halves the gap until it is within a twentieth. Decides the next load and what the trials prove. Every trial
//! is an ordinary run, and an invalid run meets no objective. A search that ends at a limit of this machine or
//! program has found a load that is good enough, not the highest one.
//!
//! ```text
//!   GROWING ── missed ──▶ NARROWING ── gap small ──▶ found
//!      │ first one missed      ▲
//!      └──▶ SHRINKING ── met ──┘   (none down to 1: nothing meets it)
//! ```

use super::perform;
use super::place::{Place, Start};
use super::report::Report;
use super::task::{self, Task, Who};
use crate::cli::load::RunFlags;
use crate::cli::objective::Objective;
use crate::failure::Failure;
use crate::gate::{Check, Outcome};
use crate::output;
use crate::voice::Voice;
use ::load::arrivals::Schedule;
use ::load::limits::USERS_MAX;
use ::load::run::Parts;
use ::load::verdict::is_cut_off;
use runtime::machine;
use runtime::signal::Signals;
use serde::Serialize;
use serde_json::json;

/// Largest number of trials.
const TRIALS_MAX: u32 = 40;
/// Relative precision of the answer.
const WITHIN: f64 = 0.05;
/// Highest rate tested, per second: several times the rate one client processor can send.
const RATE_MAX: f64 = 1e6;
/// Format name and version of the result line of a search.
const FORMAT: (&str, u32) = ("weir-load-search", 2);

/// State of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Search {
    /// Highest load that met the objective, if any.
    Growing {
        met: Option<f64>,
    },
    /// Lowest load that missed the objective.
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
    /// State after a trial; `whole` if loads are whole numbers.
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

    /// Next load to test; none at the end.
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

/// Unit of the searched load: a number of users, clients or sessions, or a rate.
#[derive(Clone, Copy, Debug)]
struct Unit {
    name: &'static str,
    /// Loads are whole numbers.
    whole: bool,
}

impl Unit {
    /// A load with its unit, as text.
    fn of(self, load: f64) -> String {
        match (self.whole, self.name) {
            // The name is a plural; a load of one takes the singular.
            (true, name) if load < 1.5 => format!("{load:.0} {}", name.trim_end_matches('s')),
            (true, name) => format!("{load:.0} {name}"),
            (false, name) => format!("{load:.1} {name}"),
        }
    }
}

/// The highest load that can be tested, and the limit behind it.
#[derive(Clone, Debug, PartialEq)]
struct Cap {
    most: f64,
    why: String,
}

impl Cap {
    fn of(task: &Task, flags: &RunFlags) -> Cap {
        let mut caps: Vec<(u64, String)> = Vec::new();
        match task.who {
            Who::Users(_) | Who::Clients(_) => caps.push((
                u64::from(USERS_MAX),
                format!("a run has at most {USERS_MAX} users or clients"),
            )),
            Who::Sessions(..) | Who::Rate(..) | Who::Replay => caps.push((
                RATE_MAX as u64,
                format!("a search tests at most {RATE_MAX} per second"),
            )),
        }
        if task.keeps() {
            // Users per connection, or connections per user.
            let (users, connections) = (1000, task.connections(1000, &flags.how).max(1));
            let descriptors = machine::raise_descriptor_limit();
            let threads = flags
                .how
                .threads
                .map_or_else(machine::usable_cores, |threads| threads as usize);
            caps.push((
                task::room(descriptors, threads) * users / connections,
                format!(
                    "each keeps a connection, and this process may open {descriptors} descriptors (`ulimit -n`)"
                ),
            ));
            if let Some(ports) = ports() {
                caps.push((
                    ports * users / connections,
                    format!(
                        "each keeps a connection, and this machine has {ports} ports for connections to one address (net.ipv4.ip_local_port_range)"
                    ),
                ));
            }
        }
        if let (Who::Users(_), Some(stagger)) = (&task.who, flags.asked.stagger.filter(|gap| !gap.is_zero()))
        {
            caps.push((
                task::begun(stagger, &flags.asked),
                format!(
                    "with --stagger {stagger:?}, no more begin within the {:?} of a trial",
                    flags.asked.span()
                ),
            ));
        }
        let (most, why) = caps
            .into_iter()
            .min_by_key(|&(most, _)| most)
            .expect("there is one for everybody");
        Cap {
            most: most.max(1) as f64,
            why,
        }
    }
}

/// Number of local ports for outgoing connections.
fn ports() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = text.split_whitespace().map(|end| end.parse::<u64>().ok());
    let (low, high) = (ends.next()??, ends.next()??);
    Some((high + 1).saturating_sub(low))
}

/// A tested load and its result.
#[derive(Clone, Debug, Serialize)]
struct Trial {
    load: f64,
    /// The statistic in milliseconds; none if the trial did not run, or if the statistic falls on a failed request.
    response_ms: Option<f64>,
    /// Requests that failed or never completed, and all requests.
    failed: u64,
    requests: u64,
    met: bool,
    valid: bool,
    /// Invalid only because too many requests were unanswered: the load was too high.
    overloaded: bool,
    /// Reasons why the run is invalid.
    reasons: Vec<String>,
    objects_per_s: f64,
    files_per_s: f64,
}

impl Trial {
    /// The statistic as text.
    fn value(&self, statistic: &str) -> String {
        match self.response_ms {
            Some(value) => format!("{statistic} is {value:.3} ms"),
            None => format!(
                "{statistic} is unknown because {} of {} requests failed",
                self.failed, self.requests
            ),
        }
    }
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Stop {
    /// The highest load that met the objective and the lowest that missed it are within the precision.
    Within,
    /// Every load that can be tested meets the objective.
    Cap,
    /// A higher load cannot be measured here: its run is invalid or cannot begin.
    Untrusted,
    /// The largest number of trials was reached.
    Trials,
    /// A signal stopped the search.
    Interrupted,
    /// No tested load met the objective.
    Missed,
}

/// What a search found.
#[derive(Debug)]
struct Answer {
    /// The highest load that met the objective in a valid run.
    load: Option<f64>,
    stop: Stop,
    why: String,
}

impl Answer {
    fn of(
        trials: &[Trial],
        over: bool,
        interrupted: bool,
        objective: &Objective,
        unit: Unit,
        cap: &Cap,
    ) -> Answer {
        let met = trials.iter().filter(|trial| trial.met).map(|trial| trial.load);
        let load = met.reduce(f64::max);
        let above = trials
            .iter()
            .filter(|trial| !trial.met && load.is_none_or(|load| trial.load > load))
            .min_by(|a, b| a.load.total_cmp(&b.load));
        let untrusted = |trial: &Trial| {
            format!(
                "with {}, the run is invalid: {}",
                unit.of(trial.load),
                trial.reasons.join("; ")
            )
        };
        let missed = |trial: &Trial| {
            if trial.overloaded {
                return format!(
                    "with {}, not every request is answered: {}",
                    unit.of(trial.load),
                    trial.reasons.join("; ")
                );
            }
            format!(
                "with {}, {}",
                unit.of(trial.load),
                trial.value(objective.statistic())
            )
        };
        let (stop, why) = match (load, above) {
            _ if interrupted => (Stop::Interrupted, "it was stopped".to_owned()),
            (None, _) => {
                let valid = trials.iter().filter(|trial| trial.valid || trial.overloaded);
                match (valid.min_by(|a, b| a.load.total_cmp(&b.load)), above) {
                    (Some(trial), _) => (Stop::Missed, missed(trial)),
                    (None, Some(trial)) => (Stop::Untrusted, untrusted(trial)),
                    (None, None) => (Stop::Missed, "no load was tested".to_owned()),
                }
            }
            (Some(_), None) if over => (Stop::Cap, cap.why.clone()),
            (Some(_), Some(trial)) if !trial.valid && !trial.overloaded => {
                (Stop::Untrusted, untrusted(trial))
            }
            (Some(_), Some(trial)) if over => (Stop::Within, missed(trial)),
            (Some(_), _) => (Stop::Trials, format!("there were {TRIALS_MAX} trials")),
        };
        Answer { load, stop, why }
    }

    /// The answer as a sentence.
    fn said(&self, objective: &Objective, unit: Unit) -> String {
        let why = &self.why;
        let Some(load) = self.load else {
            return format!("no tested number of {} meets {objective}: {why}", unit.name);
        };
        let load = unit.of(load);
        match self.stop {
            Stop::Within => format!(
                "{load} meet {objective}, to within {:.0} %: {why}",
                WITHIN * 100.0
            ),
            _ => format!("{load} meet {objective}; the limit was not found: {why}"),
        }
    }
}

/// Searches and reports the answer.
///
/// # Errors
/// `Failed` if no load meets the objective, `Invalid` if the trials cannot decide; otherwise as for a run.
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
        start: Start::Now,
    };
    let (first, whole, name) = match &task.who {
        Who::Users(n) => (f64::from(*n), true, "users"),
        Who::Clients(n) => (f64::from(*n), true, "clients"),
        Who::Rate(schedule, _) => (mean(schedule, flags), false, "objects/s"),
        Who::Sessions(schedule, _) => (mean(schedule, flags), false, "sessions/s"),
        Who::Replay => return Err(Failure::Usage("a replay has the rate of its log".to_owned())),
    };
    if let Who::Rate(schedule, _) | Who::Sessions(schedule, _) = &task.who
        && *schedule != Schedule::constant(first)
    {
        let why = "`--slo` searches for one rate, and this one changes during the run; give a single rate";
        return Err(Failure::Usage(why.to_owned()));
    }
    let unit = Unit { name, whole };
    let cap = Cap::of(&task, flags);
    if first > cap.most {
        return Err(Failure::Usage(format!(
            "{} are more than a search can test: {}",
            unit.of(first),
            cap.why
        )));
    }
    // If each arrival is one request, the number of requests is known before the first trial.
    if let (Who::Rate(..), "each" | "weighted") = (&task.who, task.workload()) {
        let measured = flags.asked.duration;
        let expected = first * measured.as_secs_f64();
        if let Some(why) = objective.undecided(expected.round() as u64, measured) {
            return Err(Failure::Usage(format!("`--slo` cannot be decided: {why}")));
        }
    }
    let mut search = Search::Growing { met: None };
    let mut trials: Vec<Trial> = Vec::new();
    let mut best = None;
    let mut interrupted = false;
    let mut undecided = false;
    for _ in 0..TRIALS_MAX {
        let Some(load) = search.next(first, whole, cap.most) else {
            break;
        };
        task.who = match task.who {
            Who::Users(_) => Who::Users(load as u32),
            Who::Clients(_) => Who::Clients(load as u32),
            Who::Rate(_, process) => Who::Rate(Schedule::constant(load), process),
            Who::Sessions(_, process) => Who::Sessions(Schedule::constant(load), process),
            Who::Replay => Who::Replay,
        };
        let (trial, run) = match perform(&task, flags, &place, signals, voice) {
            // This load exceeds a limit: higher loads cannot be tested, lower ones can.
            Err(Failure::Usage(why)) if !trials.is_empty() => (
                Trial {
                    load,
                    response_ms: None,
                    failed: 0,
                    requests: 0,
                    met: false,
                    valid: false,
                    overloaded: false,
                    reasons: vec![why],
                    objects_per_s: 0.0,
                    files_per_s: 0.0,
                },
                None,
            ),
            run => {
                let run = run?;
                interrupted = run.stopped_after_s.is_some();
                // Requests that never completed may be the slowest, so the measured times are too favorable.
                let cut_off = run.verdict().valid && is_cut_off(&run.record, &run.bounds);
                let overloaded = cut_off || run.is_overloaded();
                let parts = Parts::of([run]).map_err(Failure::System)?;
                let report = Report::of_rank(&parts);
                // A server that answers nothing would not answer more under less load.
                if trials.is_empty() && (interrupted || report.files == 0) {
                    super::export::write_gate(&report, None, &flags.output.summary)?;
                    return report.judged();
                }
                let value = objective.value(&report.response_ms);
                let requests = report.files + report.response_ms.failed;
                let kept = value.is_some_and(|value| value < objective.below_ms());
                // An objective missed with few requests is missed with more.
                let too_few = objective
                    .undecided(requests, flags.asked.duration)
                    .filter(|_| kept && report.verdict.valid);
                undecided = too_few.is_some();
                let trial = Trial {
                    load,
                    response_ms: value,
                    failed: report.response_ms.failed,
                    requests,
                    met: report.verdict.valid && !cut_off && !undecided && kept,
                    valid: report.verdict.valid && !undecided,
                    overloaded,
                    reasons: match (too_few, cut_off) {
                        (Some(why), false) => vec![why],
                        (_, true) => report.verdict.warnings.clone(),
                        (None, false) => report.verdict.reasons.clone(),
                    },
                    objects_per_s: report.objects_per_s,
                    files_per_s: report.files_per_s,
                };
                (trial, Some((parts, report)))
            }
        };
        tell(&trial, objective, unit, voice)?;
        let met = trial.met;
        trials.push(trial);
        if interrupted {
            break;
        }
        if met || best.is_none() {
            best = run.or(best);
        }
        // Lower loads send even fewer requests.
        if undecided && !trials.iter().any(|trial| trial.met) {
            break;
        }
        search = search.step(load, met, whole, cap.most);
    }
    let over = matches!(search, Search::Over { .. });
    let answer = Answer::of(&trials, over, interrupted, objective, unit, &cap);
    let line = json!({
        "event": "search", "format": FORMAT.0, "version": FORMAT.1, "objective": {
            "said": objective.to_string(), "statistic": objective.statistic(), "below_ms": objective.below_ms(),
        },
        "unit": unit.name, "first": first, "most": cap.most, "most_because": cap.why, "load": answer.load,
        "limit_found": answer.stop == Stop::Within, "within": WITHIN, "stop": answer.stop, "why": answer.why,
        "said": answer.said(objective, unit), "trials": trials,
    })
    .to_string();
    let said = answer.said(objective, unit);
    if let Some((parts, report)) = &best {
        let check = Check {
            name: objective.to_string(),
            outcome: match (answer.load, answer.stop) {
                (_, Stop::Interrupted) => Outcome::Undecided,
                (Some(_), _) => Outcome::Passed,
                (None, Stop::Missed) => Outcome::Failed,
                (None, _) => Outcome::Undecided,
            },
            told: said.clone(),
        };
        super::export::write_searched(parts, report, &line, check, &flags.output)?;
    }
    if voice.json {
        output::line(&line)?;
    }
    match (answer.load, answer.stop) {
        (_, Stop::Interrupted) => Err(Failure::Invalid(said)),
        (None, Stop::Missed) => Err(Failure::Failed(said)),
        (None, _) => Err(Failure::Invalid(said)),
        (Some(_), _) if voice.reports() && !voice.json => output::line(said),
        (Some(_), _) => Ok(()),
    }
}

/// Prints the result of a trial.
fn tell(trial: &Trial, objective: &Objective, unit: Unit, voice: &Voice) -> Result<(), Failure> {
    if voice.json {
        let mut line = json!({
            "event": "probe", "unit": unit.name, "statistic": objective.statistic(), "below_ms": objective.below_ms(),
        });
        let trial = serde_json::to_value(trial).expect("numbers and words have a form in JSON");
        if let (Some(line), Some(trial)) = (line.as_object_mut(), trial.as_object()) {
            line.extend(trial.clone());
        }
        return output::line(line);
    }
    if !voice.reports() {
        return Ok(());
    }
    let word = match (trial.valid, trial.met) {
        (false, _) if trial.overloaded => format!("missed ({})", trial.reasons.join("; ")),
        (false, _) => format!("invalid ({})", trial.reasons.join("; ")),
        (true, true) => "met".to_owned(),
        (true, false) => "missed".to_owned(),
    };
    let load = unit.of(trial.load);
    match trial.requests {
        0 => output::line(format_args!("{load:>18}: {word}")),
        _ => output::line(format_args!(
            "{load:>18}: {}; {word}",
            trial.value(objective.statistic())
        )),
    }
}

fn mean(schedule: &Schedule, flags: &RunFlags) -> f64 {
    schedule.expected(flags.asked.span()) / flags.asked.span().as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches against a simulated server that meets the objective up to some load.
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

    fn trial(load: f64, response_ms: f64, valid: bool) -> Trial {
        Trial {
            load,
            response_ms: Some(response_ms),
            failed: 0,
            requests: 100,
            met: valid && response_ms < 50.0,
            valid,
            overloaded: false,
            reasons: if valid {
                Vec::new()
            } else {
                vec!["too late".to_owned()]
            },
            objects_per_s: 1.0,
            files_per_s: 1.0,
        }
    }

    /// The answer distinguishes the server's limit from the highest load that can be tested.
    #[test]
    fn an_end_of_the_search_is_no_limit() {
        let objective: Objective = "p99<50ms".parse().expect("one");
        let users = Unit {
            name: "users",
            whole: true,
        };
        let cap = Cap {
            most: 28_000.0,
            why: "there are 28000 ports".to_owned(),
        };
        let check = |trials: &[Trial], over: bool, stop: Stop, said: &str| {
            let answer = Answer::of(trials, over, false, &objective, users, &cap);
            assert_eq!(
                (answer.stop, answer.said(&objective, users).as_str()),
                (stop, said)
            );
        };
        let (met, missed) = (trial(40.0, 3.0, true), trial(41.0, 70.0, true));
        check(
            &[met.clone(), missed.clone()],
            true,
            Stop::Within,
            "40 users meet p99 < 50 ms, to within 5 %: with 41 users, p99 is 70.000 ms",
        );
        check(
            &[met.clone(), trial(28_000.0, 4.0, true)],
            true,
            Stop::Cap,
            "28000 users meet p99 < 50 ms; the limit was not found: there are 28000 ports",
        );
        // An invalid run meets no objective, however fast its responses were.
        check(
            &[met.clone(), trial(80.0, 1.0, false)],
            true,
            Stop::Untrusted,
            "40 users meet p99 < 50 ms; the limit was not found: with 80 users, the run is invalid: too late",
        );
        let overloaded = Trial {
            overloaded: true,
            reasons: vec!["9 of 10 files failed".to_owned()],
            ..trial(42.0, 1.0, false)
        };
        check(
            &[met.clone(), overloaded],
            true,
            Stop::Within,
            "40 users meet p99 < 50 ms, to within 5 %: with 42 users, not every request is answered: 9 of 10 files failed",
        );
        check(
            &[met, trial(400.0, 70.0, true)],
            false,
            Stop::Trials,
            "40 users meet p99 < 50 ms; the limit was not found: there were 40 trials",
        );
        check(
            &[trial(2.0, 1.0, false), trial(1.0, 60.0, true)],
            true,
            Stop::Missed,
            "no tested number of users meets p99 < 50 ms: with 1 user, p99 is 60.000 ms",
        );
        check(
            &[trial(2.0, 1.0, false), trial(1.0, 1.0, false)],
            true,
            Stop::Untrusted,
            "no tested number of users meets p99 < 50 ms: with 1 user, the run is invalid: too late",
        );
        // Fast responses to most requests do not make up for failed ones.
        let failing = Trial {
            response_ms: None,
            failed: 10,
            requests: 1200,
            met: false,
            ..trial(41.0, 1.0, true)
        };
        check(
            &[trial(40.0, 3.0, true), failing],
            true,
            Stop::Within,
            "40 users meet p99 < 50 ms, to within 5 %: with 41 users, p99 is unknown because 10 of 1200 requests failed",
        );
        let stopped = Answer::of(&[missed], false, true, &objective, users, &cap);
        assert_eq!((stopped.stop, stopped.load), (Stop::Interrupted, None));
    }
}
