//! A prediction against this machine: few clients are measured, the system they saw is fitted, what it does with more is
//! predicted, and then measured.
//!
//! `weir serve` and `weir load` run on the loopback, a thread each. Clients never sleep, so the least number of them
//! that is more than the fit has seen is an extrapolation of a kind that people make.

use super::fit::runs::Steady;
use super::grid::{Cell, Grid};
use super::report::Report;
use super::stage::{Stage, Tried, progress};
use crate::chart::{Axis, Chart, Series, Stroke};
use crate::cli::model::ValidateFlags;
use crate::cli::{Failure, Voice};
use ::model::bootstrap::{DRAWS, estimate};
use ::model::fit::{Estimate, service};

/// The file that is asked for.
const TARGET: &str = "file.bin";

/// One number of clients.
struct Run {
    clients: u32,
    /// Whether the fit has seen it.
    is_fitted: bool,
    steady: Steady,
    /// Whether `weir load` trusts it; why not.
    doubt: Option<String>,
}

/// Fits, predicts, measures.
pub(super) fn validate(flags: &ValidateFlags, voice: &Voice) -> Result<Report, Failure> {
    let runs = measure(flags, voice)?;
    let mut report = Report::default();
    let fitted = runs.iter().filter(|run| run.is_fitted);
    let samples: Vec<_> = fitted.map(|run| run.steady.sample()).collect();
    let explained = service(&samples)?;
    let network = explained.answer.network()?;
    report.answer(explained, &[]);
    let columns = [
        ("clients", ""),
        ("", ""),
        ("measured", "s"),
        ("from", "s"),
        ("to", "s"),
        ("predicted", "s"),
        ("error", "%"),
        ("measured ", "1/s"),
        ("predicted ", "1/s"),
        ("error ", "%"),
    ];
    let mut grid = Grid::new("mean response and throughput: measured, and predicted", &columns);
    let (mut off, mut curves) = (Vec::new(), [Vec::new(), Vec::new()]);
    for run in &runs {
        let sample = run.steady.sample();
        let solved = network.exact(u64::from(run.clients))?;
        let apart = |predicted: f64, measured: f64| 100.0 * (predicted / measured - 1.0);
        let errors = [
            apart(solved.response.0, sample.response.0),
            apart(solved.throughput, sample.throughput),
        ];
        // A second or two drawn again are the same second or two: no interval.
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
            solved.response.into(),
            Cell::Decimals(errors[0], 1),
            sample.throughput.into(),
            solved.throughput.into(),
            Cell::Decimals(errors[1], 1),
        ]);
        if !run.is_fitted && errors[0].abs() > 100.0 * flags.tolerance(true) {
            off.push(format!("{} clients: {:+.1} %", run.clients, errors[0]));
        }
        if let Some(doubt) = &run.doubt {
            report.notes.push(format!(
                "{} clients: the run cannot be trusted: {doubt}",
                run.clients
            ));
        }
        curves[0].push((f64::from(run.clients), solved.response.0));
        curves[1].push((f64::from(run.clients), sample.response.0));
    }
    report.grids.push(grid);
    report.charts.push(chart(curves));
    report.notes.push(format!(
        "weir load and weir serve, a thread each, on the loopback: files of {}, {} s a run, the first second left out; \
         intervals by bootstrap over seconds; error: predicted less measured, in percent of the measurement",
        flags.page, flags.seconds
    ));
    if !runs.iter().all(|run| run.steady.can_be_drawn()) {
        report.notes.push(
            "no intervals of runs with fewer than five seconds besides the first: --seconds 6 or more"
                .to_owned(),
        );
    }
    report.failed = (!off.is_empty()).then(|| {
        format!(
            "predictions further from the measurement than {} %: {}",
            100.0 * flags.tolerance(true),
            off.join("; ")
        )
    });
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
