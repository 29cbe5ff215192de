//! The flow-level simulation beside the formulas, where one applies.

use super::Measured;
use super::grid::Grid;
use super::report::Report;
use crate::cli::model::FlowFlags;
use crate::failure::Failure;
use ::model::closed::{Network, Station};
use ::model::flow::{Discipline, Dispatch, Limits, Plan, Source, alone, run};
use ::model::queue::{mg1, mg1_ps};
use ::model::srpt::compare;
use ::model::{DomainError, Seconds, Sizes};

/// Simulates the flows.
pub(super) fn flow(flags: &FlowFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    let plan = plan(flags)?;
    let outcome = run(&plan, &Limits::DEFAULT)?;
    let simulated = outcome.answer;
    let mut report = Report::default();
    report.answer(outcome, measured);
    let columns = [("", ""), ("response", "s"), ("half width", "s"), ("apart", "%")];
    let mut grid = Grid::new("mean response", &columns);
    grid.row([
        "simulated".into(),
        simulated.response.into(),
        simulated.half_width.into(),
        None::<f64>.into(),
    ]);
    match predicted(&plan)? {
        Some((source, response)) => grid.row([
            source.into(),
            response.into(),
            None::<f64>.into(),
            (100.0 * (response.0 / simulated.response.0 - 1.0)).into(),
        ]),
        None => report.notes.push(
            "no formula here is exact for this plan: the simulation stands alone, between its bounds"
                .to_owned(),
        ),
    }
    report.grids.push(grid);
    let columns = [
        ("completed", ""),
        ("events", ""),
        ("throughput", "1/s"),
        ("utilization", ""),
        ("busiest line", ""),
        ("longest response", "s"),
    ];
    let mut run = Grid::new("run", &columns);
    run.row([
        simulated.completed.into(),
        simulated.events.into(),
        simulated.throughput.into(),
        simulated.utilization.into(),
        simulated.utilization_max.into(),
        simulated.response_max.into(),
    ]);
    report.grids.push(run);
    Ok(report)
}

fn plan(flags: &FlowFlags) -> Result<Plan, Failure> {
    let sizes = match (&flags.sizes, flags.page) {
        (Some(sizes), _) => sizes.clone(),
        (None, page) => Sizes::Exponential {
            mean: page.map_or(0.0, |page| page.0 as f64),
        },
    };
    let source = match (flags.arrivals, flags.users) {
        (Some(arrivals), _) => Source::Open { arrivals },
        (None, users) => Source::Closed {
            users: users.unwrap_or(0),
            think: match flags.think.0 {
                0.0 => Sizes::Fixed(0.0),
                mean => Sizes::Exponential { mean },
            },
        },
    };
    if flags.lines > LINES_MAX {
        return Err(DomainError::Outside {
            parameter: "lines",
            value: f64::from(flags.lines),
            allowed: "1 to 1,000,000",
        }
        .into());
    }
    let Some(discipline) = flags.discipline.discipline(flags.quantum) else {
        return Err(Failure::Usage(
            "--quantum applies to --discipline round-robin only".to_owned(),
        ));
    };
    Ok(Plan {
        source,
        sizes,
        lines: vec![flags.rate; flags.lines as usize],
        discipline,
        dispatch: flags.dispatch.into(),
        latency: flags.latency,
        warmup: flags.warmup,
        measured: flags.measure,
        seed: flags.seed,
    })
}

/// Limit on the lines of a plan.
const LINES_MAX: u32 = 1_000_000;

/// The prediction of an exact formula for the plan, if there is one.
pub(super) fn predicted(plan: &Plan) -> Result<Option<(&'static str, Seconds)>, DomainError> {
    let Some(&rate) = plan.lines.first() else {
        return Ok(None);
    };
    let service = alone(&plan.sizes, rate);
    let lines = plan.lines.len() as f64;
    match (&plan.source, plan.discipline, plan.dispatch) {
        (Source::Closed { users, think }, Discipline::Sharing, Dispatch::Fixed) => {
            let stations = vec![
                Station::queue("line", service),
                Station::delay("latency", plan.latency),
            ];
            let network = Network::new(stations, Seconds(think.mean()))?;
            // Users are dealt to the lines in turn: some lines have one more than others.
            let count = plan.lines.len() as u64;
            let (each, more) = (u64::from(*users) / count, u64::from(*users) % count);
            let (mut requests, mut time) = (0.0, 0.0);
            for (users, lines) in [(each + 1, more), (each, count - more)] {
                if users > 0 && lines > 0 {
                    let solved = network.exact(users)?;
                    requests += lines as f64 * solved.throughput;
                    time += lines as f64 * solved.throughput * solved.response.0;
                }
            }
            Ok(Some(("mean value analysis", Seconds(time / requests))))
        }
        // With exponential sizes, first-come users wait as long as sharing users (Jackson's networks).
        (Source::Closed { .. }, Discipline::Fifo, Dispatch::Fixed)
            if matches!(plan.sizes, Sizes::Exponential { .. }) =>
        {
            let shared = Plan {
                discipline: Discipline::Sharing,
                ..plan.clone()
            };
            predicted(&shared)
        }
        (Source::Open { arrivals }, discipline, dispatch)
            if dispatch == Dispatch::Random || plan.lines.len() == 1 =>
        {
            // A random part of a Poisson stream is a Poisson stream; with one line there is no choice.
            let arrivals = arrivals / lines;
            let (source, response) = match discipline {
                Discipline::Sharing => ("M/G/1-PS", mg1_ps(arrivals, service)?.answer.response),
                Discipline::Fifo => ("M/G/1", mg1(arrivals, service, plan.sizes.scv())?.answer.response),
                Discipline::Srpt => {
                    let times = plan.sizes.scaled(8.0 / rate.bits_per_second());
                    (
                        "SRPT, Schrage and Miller 1966",
                        compare(arrivals, &times)?.answer.srpt,
                    )
                }
                Discipline::RoundRobin { .. } => return Ok(None),
            };
            Ok(Some((source, response + plan.latency)))
        }
        _ => Ok(None),
    }
}
