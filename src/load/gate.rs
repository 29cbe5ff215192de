//! Judges a finished load by `--require`, and gives its checks to [`crate::gate`]. Measures nothing; an invalid run stays
//! invalid whatever its requirements say.

use super::report::{Report, StepReport};
use crate::cli::requirement::{Limit, Requirement};
use crate::failure::Failure;
use crate::gate::markdown::{escaped, row};
use crate::gate::{Check, Gate, Outcome};
use ::load::run::StepName;
use ::load::times::Summary;
use serde::Serialize;
use units::{Bytes, Duration};

/// A requirement and what the run says about it.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Judged {
    pub(super) requirement: String,
    /// In `unit`; `None` if unknown.
    value: Option<f64>,
    unit: &'static str,
    pub(super) outcome: Decision,
    /// The value in words, or why there is none.
    pub(super) told: String,
}

/// Whether a requirement is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Decision {
    Met,
    Missed,
    /// The run has too few requests, or no such times.
    Undecided,
}

impl Decision {
    /// Word in the report.
    pub(super) fn word(self) -> &'static str {
        match self {
            Decision::Met => "met",
            Decision::Missed => "NOT MET",
            Decision::Undecided => "UNDECIDED",
        }
    }
}

/// Rejects requirements that this kind of load can never decide.
///
/// # Errors
/// `Usage`, naming the requirement.
pub(super) fn check(
    requirements: &[Requirement],
    closed: bool,
    secure: bool,
    steps: &[StepName],
    size: u32,
    searches: bool,
) -> Result<(), Failure> {
    if requirements.is_empty() {
        return Ok(());
    }
    if searches {
        return Err(Failure::Usage(
            "`--slo` is the requirement of a search; use `--require` without it, to judge one run".to_owned(),
        ));
    }
    if size > 1 {
        return Err(Failure::Usage(
            "`--require` judges the whole load: give it to `weir load merge`, not to its ranks".to_owned(),
        ));
    }
    for requirement in requirements {
        let why = match requirement {
            Requirement::Time {
                figure: "corrected", ..
            } if !closed => "only --users and --clients have corrected times".to_owned(),
            Requirement::Time {
                figure: "handshake", ..
            } if !secure => "only https has handshakes".to_owned(),
            Requirement::Step(name, _) if !steps.iter().any(|step| step.name == *name) => {
                let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
                match names.is_empty() {
                    true => "only --scenario has steps".to_owned(),
                    false => format!("there is no such step; there are {}", names.join(", ")),
                }
            }
            _ => continue,
        };
        return Err(Failure::Usage(format!("`--require` {requirement}: {why}")));
    }
    Ok(())
}

/// Judges each requirement.
pub(super) fn judge(requirements: &[Requirement], report: &Report) -> Vec<Judged> {
    requirements
        .iter()
        .map(|requirement| judged(requirement, report))
        .collect()
}

fn judged(requirement: &Requirement, report: &Report) -> Judged {
    let (value, unit, outcome, told) = match requirement {
        Requirement::Time { figure, objective } => {
            let times = report.times();
            let times = times
                .into_iter()
                .find(|(name, _)| name.replace(' ', "-") == *figure);
            match times {
                Some((_, times)) => {
                    let (value, outcome, told) = of_time(objective, times, report.duration_s);
                    (value, "ms", outcome, told)
                }
                None => (
                    None,
                    "ms",
                    Decision::Undecided,
                    "the run has no such times".to_owned(),
                ),
            }
        }
        Requirement::Step(name, condition) => {
            let Some(step) = report.steps.iter().find(|step| step.name.name == *name) else {
                return Judged {
                    requirement: requirement.to_string(),
                    value: None,
                    unit: "ms",
                    outcome: Decision::Undecided,
                    told: "the run has no such step".to_owned(),
                };
            };
            let mut judged = of_step(condition, step, report.duration_s);
            judged.requirement = requirement.to_string();
            return judged;
        }
        Requirement::Failures(limit) => {
            let (lost, all) = (
                report.response_ms.failed,
                report.files + report.response_ms.failed,
            );
            let share = (all > 0).then(|| lost as f64 / all as f64);
            let outcome = decision(share.map(|share| below(share, *limit)));
            let told = match share {
                Some(share) => format!("{:.3} % ({lost} of {all})", share * 100.0),
                None => "no request ended".to_owned(),
            };
            (share, "share", outcome, told)
        }
        Requirement::Rate(limit) => {
            let rate = report.files_per_s;
            let met = rate > limit.number || limit.inclusive && rate >= limit.number;
            (
                Some(rate),
                "files/s",
                decision(Some(met)),
                format!("{rate:.1} files/s"),
            )
        }
    };
    Judged {
        requirement: requirement.to_string(),
        value,
        unit,
        outcome,
        told,
    }
}

/// A condition on one step.
fn of_step(condition: &Requirement, step: &StepReport, duration_s: f64) -> Judged {
    let times = &step.response_ms;
    let (value, unit, outcome, told) = match condition {
        Requirement::Time { objective, .. } => {
            let (value, outcome, told) = of_time(objective, times, duration_s);
            (value, "ms", outcome, told)
        }
        Requirement::Failures(limit) => {
            let (lost, all) = (times.failed, times.count + times.failed);
            let share = (all > 0).then(|| lost as f64 / all as f64);
            let outcome = decision(share.map(|share| below(share, *limit)));
            let told = match share {
                Some(share) => format!("{:.3} % ({lost} of {all})", share * 100.0),
                None => "no request of this step ended".to_owned(),
            };
            (share, "share", outcome, told)
        }
        Requirement::Rate(_) | Requirement::Step(..) => {
            unreachable!("the parser of requirements refuses these of a step")
        }
    };
    Judged {
        requirement: String::new(),
        value,
        unit,
        outcome,
        told,
    }
}

fn decision(met: Option<bool>) -> Decision {
    match met {
        Some(true) => Decision::Met,
        Some(false) => Decision::Missed,
        None => Decision::Undecided,
    }
}

fn below(value: f64, limit: Limit) -> bool {
    value < limit.number || limit.inclusive && value <= limit.number
}

/// A limit on a statistic. A statistic that falls on a failed request misses every limit.
fn of_time(
    objective: &crate::cli::objective::Objective,
    times: &Summary,
    duration_s: f64,
) -> (Option<f64>, Decision, String) {
    let requests = times.count + times.failed;
    if requests == 0 {
        return (None, Decision::Undecided, "nothing was measured".to_owned());
    }
    let Some(value) = objective.value(times).filter(|_| times.count > 0) else {
        let told = format!(
            "unknown: it falls on one of {} failed or pending requests",
            times.failed
        );
        return (None, Decision::Missed, told);
    };
    if value >= objective.below_ms() {
        // Missed with few requests is missed with more.
        return (Some(value), Decision::Missed, format!("{value:.3} ms"));
    }
    let measured = Duration::try_from_secs_f64(duration_s).unwrap_or_default();
    match objective.undecided(requests, measured) {
        Some(why) => (Some(value), Decision::Undecided, why),
        None => (Some(value), Decision::Met, format!("{value:.3} ms")),
    }
}

/// `Failed` if a requirement is not met, `Invalid` if the run decides none of the rest.
pub(super) fn outcome(judged: &[Judged]) -> Result<(), Failure> {
    let list = |wanted: Decision| -> Vec<String> {
        let of = judged.iter().filter(|one| one.outcome == wanted);
        of.map(|one| format!("{}: {}", one.requirement, one.told))
            .collect()
    };
    let (missed, undecided) = (list(Decision::Missed), list(Decision::Undecided));
    match (missed.len(), undecided.len()) {
        (0, 0) => Ok(()),
        (0, _) => Err(Failure::Invalid(format!(
            "the run does not decide every requirement: {}",
            undecided.join("; ")
        ))),
        (count, _) => Err(Failure::Failed(format!(
            "{count} of {} requirements {} not met: {}",
            judged.len(),
            if count == 1 { "is" } else { "are" },
            missed.join("; ")
        ))),
    }
}

/// The gate of a load: validity first, then each requirement.
pub(super) fn gate(report: &Report) -> Gate {
    let verdict = &report.verdict;
    let valid = Check {
        name: "the run is valid".to_owned(),
        outcome: if verdict.valid {
            Outcome::Passed
        } else {
            Outcome::Undecided
        },
        told: verdict.reasons.join("; "),
    };
    let requirements = report.requirements.iter().map(|one| Check {
        name: one.requirement.clone(),
        outcome: match one.outcome {
            Decision::Met => Outcome::Passed,
            Decision::Missed => Outcome::Failed,
            Decision::Undecided => Outcome::Undecided,
        },
        told: one.told.clone(),
    });
    Gate {
        command: "weir load",
        subject: format!("{}, {}, {}", report.run.peer, report.run.model, report.run.mode),
        took_s: report.duration_s,
        checks: core::iter::once(valid).chain(requirements).collect(),
        details: details(report),
    }
}

/// Amounts, times and warnings, for people who read the summary.
fn details(report: &Report) -> String {
    let mut text = format!(
        "{} files completed in {:.1} s ({:.1}/s), {}; {} failed, {} never completed.\n\n",
        report.files_in_time,
        report.duration_s,
        report.files_per_s,
        Bytes(report.content_bytes_in_time),
        report.files_failed,
        report.response_ms.failed - report.files_failed.min(report.response_ms.failed),
    );
    text += &row(["ms", "count", "mean", "p50", "p90", "p99", "p99.9", "max"]);
    text += "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    for (name, times) in report.times() {
        let quantiles = [times.p50, times.p90, times.p99, times.p999, times.max];
        let quantiles =
            quantiles.map(|time| time.map_or_else(|| "-".to_owned(), |time| format!("{time:.3}")));
        let first = [
            name.to_owned(),
            times.count.to_string(),
            format!("{:.3}", times.mean),
        ];
        text += &row(first.into_iter().chain(quantiles));
    }
    let errors = report
        .errors
        .iter()
        .map(|(kind, count)| format!("{count} {}", kind.name()));
    let errors: Vec<String> = errors.collect();
    if !errors.is_empty() {
        text += &format!("\nErrors: {}.\n", errors.join(", "));
    }
    for warning in &report.verdict.warnings {
        text += &format!("\n> {}\n", escaped(warning));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(count: u64, failed: u64, p99: Option<f64>) -> Summary {
        Summary {
            count,
            failed,
            mean: 1.0,
            p50: Some(1.0),
            p90: Some(1.0),
            p99,
            p999: None,
            max: None,
        }
    }

    #[test]
    fn a_time_is_met_missed_or_undecided() {
        let objective = "p99<200ms".parse().expect("an objective");
        for (times, wanted, told) in [
            (times(100, 0, Some(199.9)), Decision::Met, "199.900 ms"),
            (times(100, 0, Some(200.0)), Decision::Missed, "200.000 ms"),
            // Few requests prove a miss, but no success.
            (times(99, 0, Some(5000.0)), Decision::Missed, "5000.000 ms"),
            (
                times(99, 0, Some(1.0)),
                Decision::Undecided,
                "99 requests are too few for p99",
            ),
            (times(90, 10, None), Decision::Missed, "one of 10 failed"),
            (times(0, 10, None), Decision::Missed, "one of 10 failed"),
            (times(0, 0, None), Decision::Undecided, "nothing was measured"),
        ] {
            let (_, outcome, said) = of_time(&objective, &times, 10.0);
            assert_eq!(outcome, wanted, "{times:?}");
            assert!(said.contains(told), "{said}");
        }
    }

    #[test]
    fn requirements_that_a_load_cannot_decide_are_rejected() {
        let of = |text: &str| [text.parse::<Requirement>().expect(text)];
        let step = StepName {
            scenario: "s".to_owned(),
            name: "login".to_owned(),
        };
        assert!(
            check(
                &of("login:p99<1s"),
                true,
                false,
                core::slice::from_ref(&step),
                1,
                false
            )
            .is_ok()
        );
        for (steps, fragment) in [
            (&[][..], "only --scenario has steps"),
            (&[step], "there are login"),
        ] {
            let error = check(&of("cart:p99<1s"), true, false, steps, 1, false).expect_err("no such step");
            assert!(error.to_string().contains(fragment), "{error}");
        }
        assert!(check(&[], false, false, &[], 3, true).is_ok());
        assert!(check(&of("p99<1s"), false, false, &[], 1, false).is_ok());
        assert!(check(&of("corrected.p99<1s"), true, false, &[], 1, false).is_ok());
        for (failure, why) in [
            (
                check(&of("corrected.p99<1s"), false, false, &[], 1, false),
                "only --users and --clients",
            ),
            (
                check(&of("handshake.max<1s"), true, false, &[], 1, false),
                "only https",
            ),
            (
                check(&of("p99<1s"), true, false, &[], 2, false),
                "`weir load merge`",
            ),
            (
                check(&of("p99<1s"), true, false, &[], 1, true),
                "`--slo` is the requirement",
            ),
        ] {
            let failure = failure.expect_err(why);
            assert!(failure.to_string().contains(why), "{failure}");
            assert_eq!(failure.code(), 2);
        }
    }

    #[test]
    fn a_miss_outweighs_what_is_undecided() {
        let one = |outcome| Judged {
            requirement: "p99 < 1 s".to_owned(),
            value: None,
            unit: "ms",
            outcome,
            told: "so".to_owned(),
        };
        assert!(outcome(&[one(Decision::Met)]).is_ok());
        let undecided = outcome(&[one(Decision::Met), one(Decision::Undecided)]);
        assert_eq!(undecided.expect_err("undecided").code(), 3);
        let missed = outcome(&[one(Decision::Missed), one(Decision::Undecided)]);
        let missed = missed.expect_err("missed");
        assert_eq!(
            (missed.code(), missed.to_string().as_str()),
            (1, "1 of 2 requirements is not met: p99 < 1 s: so")
        );
    }
}
