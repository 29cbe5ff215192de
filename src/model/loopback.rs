//! A prediction against this machine: measures a few client counts, fits a system to them, predicts other counts, and
//! measures those.
//!
//! `weir serve` and `weir load` run on the loopback with one thread each. Clients have no think time, so any count
//! above the fitted ones is an extrapolation as people make it. If the runs disagree too much for a fit, the answer
//! is the measurements without a prediction.

use super::fit::runs::Steady;
use super::grid::{Cell, Grid};
use super::report::Report;
use super::stage::{Stage, Tried, progress};
use crate::cli::model::ValidateFlags;
use crate::failure::Failure;
use crate::voice::Voice;
use ::model::DomainError;
use ::model::bootstrap::{DRAWS, estimate};
use ::model::fit::{Estimate, service};
use chart::{Axis, Chart, Series, Stroke};
use std::collections::BTreeSet;

/// The requested file.
const TARGET: &str = "file.bin";

/// The run of one client count.
struct Run {
    clients: u32,
    /// Whether the run is part of the fit.
    is_fitted: bool,
    steady: Steady,
    /// The reason if `weir load` does not trust the run.
    doubt: Option<String>,
}

/// Least number of client counts for a fit.
const FITTED_MIN: usize = 3;

/// Fits, predicts, measures.
pub(super) fn validate(flags: &ValidateFlags, voice: &Voice) -> Result<Report, Failure> {
    let different: BTreeSet<u32> = flags.fitted.iter().copied().collect();
    if different.len() < FITTED_MIN {
        return Err(Failure::Usage(format!(
            "a fit needs {FITTED_MIN} different numbers of clients; --fitted has {}",
            different.len()
        )));
    }
    judge(flags, &measure(flags, voice)?)
}

/// The measurements beside the fit's predictions, with a verdict.
fn judge(flags: &ValidateFlags, runs: &[Run]) -> Result<Report, Failure> {
    let mut report = Report::default();
    let fitted = runs.iter().filter(|run| run.is_fitted);
    let samples: Vec<_> = fitted.map(|run| run.steady.sample()).collect();
    let (network, refused) = match service(&samples) {
        Ok(explained) => {
            let network = explained.answer.network()?;
            report.answer(explained, &[]);
            (Some(network), None)
        }
        // The machine changed between runs; the measurements are still worth reporting.
        Err(why @ (DomainError::Undetermined { .. } | DomainError::Contradictory { .. })) => {
            (None, Some(why))
        }
        Err(why) => return Err(why.into()),
    };
    let columns = [
        ("clients", ""),
        ("", ""),
        ("measured", "s"),
        ("from", "s"),
        ("to", "s"),
        ("predicted", "s"),
        ("error", "%"),
        ("throughput measured", "1/s"),
        ("throughput predicted", "1/s"),
        ("throughput error", "%"),
    ];
    let mut grid = Grid::new("mean response and throughput: measured, and predicted", &columns);
    let (mut off, mut curves) = (Vec::new(), [Vec::new(), Vec::new()]);
    for run in runs {
        let sample = run.steady.sample();
        let solved = network
            .as_ref()
            .map(|network| network.exact(u64::from(run.clients)));
        let solved = solved.transpose()?;
        let apart = |predicted: f64, measured: f64| 100.0 * (predicted / measured - 1.0);
        let error = solved.as_ref().map(|s| apart(s.response.0, sample.response.0));
        let throughput_error = solved.as_ref().map(|s| apart(s.throughput, sample.throughput));
        let percent = |error: Option<f64>| error.map_or(Cell::Missing, |error| Cell::Decimals(error, 1));
        // Redrawing a second or two yields no interval.
        let interval = run.steady.can_be_drawn().then(|| {
            estimate(sample.response.0, DRAWS, flags.seed, |rng| {
                run.steady.drawn(rng).response.0
            })
        });
        grid.row([
            run.clients.into(),
            if run.is_fitted { "fitted" } else { "predicted" }.into(),
            sample.response.into(),
            interval.map(|Estimate { low, .. }| low).into(),
            interval.map(|Estimate { high, .. }| high).into(),
            solved.as_ref().map(|solved| solved.response).into(),
            percent(error),
            sample.throughput.into(),
            solved.as_ref().map(|solved| solved.throughput).into(),
            percent(throughput_error),
        ]);
        if let Some(error) = error.filter(|error| error.abs() > 100.0 * flags.tolerance(true))
            && !run.is_fitted
        {
            off.push(format!("{} clients: {error:+.1} %", run.clients));
        }
        if let Some(doubt) = &run.doubt {
            report
                .notes
                .push(format!("{} clients: the run is invalid: {doubt}", run.clients));
        }
        curves[0].extend(solved.map(|solved| (f64::from(run.clients), solved.response.0)));
        curves[1].push((f64::from(run.clients), sample.response.0));
    }
    report.grids.push(grid);
    report.charts.push(chart(curves));
    report.notes.push(format!(
        "weir load and weir serve, one thread each, on the loopback: files of {}, {} s a run, without its first second; \
         intervals by bootstrap over seconds; error: predicted less measured, in percent of the measurement",
        flags.page, flags.seconds
    ));
    if !runs.iter().all(|run| run.steady.can_be_drawn()) {
        report.notes.push(
            "no intervals: a run needs five seconds after the first; use --seconds 6 or more".to_owned(),
        );
    }
    let too_far = (!off.is_empty()).then(|| {
        format!(
            "predictions further from the measurement than {} %: {}",
            100.0 * flags.tolerance(true),
            off.join("; ")
        )
    });
    report.failed = refused
        .map(|why| format!("nothing can be predicted: {why}"))
        .or(too_far);
    Ok(report)
}

fn measure(flags: &ValidateFlags, voice: &Voice) -> Result<Vec<Run>, Failure> {
    let stage = Stage::new()?;
    let size = usize::try_from(flags.page.0).unwrap_or(usize::MAX);
    stage.put(&format!("site/{TARGET}"), &vec![b'x'; size])?;
    let (_server, url) = stage.serve()?;
    let url = format!("{url}{TARGET}");
    let wanted: Vec<(u32, bool)> = [(&flags.fitted, true), (&flags.clients, false)]
        .into_iter()
        .flat_map(|(clients, is_fitted)| clients.iter().map(move |&clients| (clients, is_fitted)))
        .collect();
    let bar = progress(wanted.len(), "runs", voice);
    let mut runs = Vec::with_capacity(wanted.len());
    for (clients, is_fitted) in wanted {
        let words = [
            format!("--clients={clients}"),
            "--mode=serial".to_owned(),
            "--threads=1".to_owned(),
            format!("--duration={}s", flags.seconds),
        ];
        let run = match stage.load(&url, &words)? {
            Tried::Done(run) => run,
            Tried::Refused(why) => return Err(Failure::System(why)),
        };
        let verdict = run.verdict();
        let place = format!("the run of {clients} clients");
        runs.push(Run {
            clients,
            is_fitted,
            steady: Steady::of(&run, &place)?,
            doubt: (!verdict.valid).then(|| verdict.reasons.join("; ")),
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(runs)
}

fn chart([predicted, measured]: [Vec<(f64, f64)>; 2]) -> Chart {
    let series = |name: &str, stroke, points| Series {
        name: name.to_owned(),
        stroke,
        points,
    };
    Chart {
        title: "Mean response against clients: predicted and measured".to_owned(),
        x: Axis::logarithmic("clients"),
        y: Axis::logarithmic("seconds"),
        series: vec![
            series("predicted", Stroke::Solid, predicted),
            series("measured", Stroke::Dots, measured),
        ],
    }
}

#[cfg(feature = "measure")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::model::Question;
    use crate::cli::{Cli, Command, Measure};
    use crate::model::fit::tests::run;
    use ::model::Seconds;
    use ::model::closed::{Network, Station};
    use clap::Parser;

    fn flags(more: &[&str]) -> ValidateFlags {
        let words = ["weir", "model", "validate", "--load"];
        let words = words.iter().chain(more);
        let cli = Cli::try_parse_from(words).expect("flags");
        let Command::Measure(Measure::Model(flags)) = cli.command else {
            panic!("another command")
        };
        match flags.question {
            Question::Validate(flags) => flags,
            _ => panic!("another question"),
        }
    }

    /// A run with this number of clients and this mean response time, by Little's law.
    fn of(clients: u32, is_fitted: bool, response: f64) -> super::Run {
        let run = run(clients, f64::from(clients) / response, response);
        super::Run {
            clients,
            is_fitted,
            steady: Steady::of(&run, "a run").expect("answers"),
            doubt: None,
        }
    }

    /// Runs of a system with 4 ms of demand and 20 ms of delay for the fit, and one with 24 clients, slower by
    /// `times`.
    fn runs(times: f64) -> Vec<super::Run> {
        let stations = vec![
            Station::queue("bottleneck", Seconds(0.004)),
            Station::delay("rest", Seconds(0.02)),
        ];
        let network = Network::new(stations, Seconds::ZERO).expect("a network");
        let response = |clients| network.exact(clients).expect("a solution").response.0;
        let mut runs: Vec<_> = [1u32, 2, 4, 8, 16]
            .map(|clients| of(clients, true, response(clients.into())))
            .into();
        runs.push(of(24, false, times * response(24)));
        runs
    }

    #[test]
    fn a_prediction_is_judged_by_the_run_it_has_not_seen() {
        let report = judge(&flags(&[]), &runs(1.0)).expect("a report");
        assert_eq!(report.failed, None);
        assert_eq!(report.grids[0].csv().lines().count(), 7);
        // The noise of the runs exceeds zero.
        for (more, times) in [(&["--tolerance", "0.0001%"][..], 1.0), (&[], 2.0), (&[], 0.5)] {
            let report = judge(&flags(more), &runs(times)).expect("a report");
            let why = report.failed.expect("too far");
            assert!(
                why.contains("predictions further from the measurement than") && why.contains("24 clients: "),
                "{why}"
            );
            // Runs of the fit are not judged.
            assert!(!why.contains("16 clients"), "{why}");
        }
        let why = judge(&flags(&[]), &runs(2.0))
            .expect("a report")
            .failed
            .expect("too far");
        assert!(
            why.contains("24 clients: -5") || why.contains("24 clients: -4"),
            "{why}"
        );
    }

    #[test]
    fn runs_that_no_fit_explains_are_told_without_a_prediction() {
        let runs = [(1, 0.03), (2, 0.01), (3, 0.02)].map(|(clients, response)| of(clients, true, response));
        let report = judge(&flags(&[]), &runs).expect("a report");
        let why = report.failed.as_deref().expect("no fit");
        assert!(
            why.starts_with("nothing can be predicted: the samples leave the answer open"),
            "{why}"
        );
        let csv = report.grids[0].csv();
        for line in csv.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            assert!(cells[2].parse::<f64>().expect("measured") > 0.0, "{line}");
            assert_eq!((cells[5], cells[6], cells[8]), ("", "", ""), "{line}");
        }
        let svg = report
            .render(crate::cli::model::Format::Svg, false, "validate")
            .expect("a picture");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn a_fit_of_too_few_is_refused_before_anything_is_measured() {
        let voice = Cli::try_parse_from(["weir", "--quiet", "model", "tables"])
            .expect("a command")
            .voice;
        let few = flags(&["--fitted", "1", "--fitted", "2", "--fitted", "2"]);
        let why = validate(&few, &voice).expect_err("too few").to_string();
        assert!(
            why.contains("3 different numbers of clients; --fitted has 2"),
            "{why}"
        );
    }
}
