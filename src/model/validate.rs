//! Predictions against simulation, cell by cell: thinking users on servers with a line each. The flow-level
//! simulation shares lines as the formulas assume; the packet-level simulation does as TCP does.

use super::flow::predicted;
use super::grid::{Cell, Grid};
use super::loopback;
use super::report::Report;
use super::simulate::{Scene, Simulated, sender, stack};
use crate::cli::model::ValidateFlags;
use crate::failure::Failure;
use crate::voice::Voice;
use ::model::closed::{Network, Station};
use ::model::explain::counted;
use ::model::flow::{Discipline, Dispatch, Limits, Outcome, Plan, Source, run};
use ::model::tcp::ramp::Path;
use ::model::{DomainError, Seconds, Sizes};
use chart::{Axis, Chart, Series, Stroke};
use tcp::Stack;
use units::Seed;

/// Approximate requests of a flow simulation: near saturation the queue forgets slowly, and an interval of a percent
/// needs this many.
const REQUESTS: f64 = 1_000_000.0;

/// A page as the formulas see it: bytes on the wire, and the remaining time.
struct Page {
    wire_bytes: f64,
    latency: Seconds,
}

/// The values of one number of users on one number of lines.
struct Cells {
    users: u32,
    lines: u32,
    predicted: Seconds,
    bounds: (Seconds, Seconds),
    flow: Outcome,
    packets: Option<Simulated>,
}

/// All cells and a verdict, against simulation or, with --load, this machine.
pub(super) fn validate(flags: &ValidateFlags, voice: &Voice) -> Result<Report, Failure> {
    if flags.load {
        return loopback::validate(flags, voice);
    }
    let stack = stack(&flags.stack)?;
    let page = page(flags, &stack)?;
    let columns = [
        ("users", ""),
        ("lines", ""),
        ("utilization", ""),
        ("predicted", "s"),
        ("least", "s"),
        ("most", "s"),
        ("flows", "s"),
        ("flows +-", "s"),
        ("flows error", "%"),
        ("packets", "s"),
        ("packets +-", "s"),
        ("packets error", "%"),
    ];
    let mut grid = Grid::new(
        "mean response: predicted, and simulated as flows and as packets",
        &columns,
    );
    let (mut cells, mut failed, mut failed_packets) = (Vec::new(), Vec::new(), Vec::new());
    for &lines in &flags.lines {
        for &users in flags.users.iter().filter(|users| **users >= lines) {
            let cell = cell(flags, &stack, &page, users, lines)?;
            if !cell.is_good(flags.tolerance(false)) {
                failed.push(format!("{}: {:+.1} %", cell.place(), cell.error_percent()));
            }
            if let Some(percent) = cell.packet_error_percent()
                && !cell.is_good_for_packets(flags.packet_tolerance)
            {
                failed_packets.push(format!("{}: {percent:+.1} %", cell.place()));
            }
            grid.row(cell.row());
            cells.push(cell);
        }
    }
    if cells.is_empty() {
        return Err(Failure::Usage(
            "nothing to predict: every line needs a user, and there are more --lines than --users".to_owned(),
        ));
    }
    let complaint = |what: &str, tolerance: f64, failed: &[String]| {
        (!failed.is_empty()).then(|| {
            format!(
                "predictions further from {what} than {} % and its interval: {}",
                100.0 * tolerance,
                failed.join("; ")
            )
        })
    };
    let complaints = [
        complaint("the flow simulation", flags.tolerance(false), &failed),
        complaint("the packet simulation", flags.packet_tolerance, &failed_packets),
    ];
    let complaints: Vec<String> = complaints.into_iter().flatten().collect();
    let failed = (!complaints.is_empty()).then(|| complaints.join("; "));
    Ok(Report {
        grids: vec![grid],
        charts: vec![chart(flags, &cells)],
        notes: notes(flags),
        failed,
        ..Report::default()
    })
}

fn notes(flags: &ValidateFlags) -> Vec<String> {
    vec![
        format!(
            "pages of {} over lines of {}, round trip {}, think time {}; predicted by mean value analysis, least and \
             most are balanced job bounds",
            flags.page, flags.rate, flags.rtt, flags.think
        ),
        format!(
            "flows share a line equally, as the formulas assume; packets are {} over a first-in first-out line, for \
             up to {} users of a line, with one line simulated for all; errors are the prediction's, judged at {} % and {} % \
             beyond the intervals",
            flags.stack,
            flags.packet_users,
            100.0 * flags.tolerance(false),
            100.0 * flags.packet_tolerance
        ),
    ]
}

fn page(flags: &ValidateFlags, stack: &Stack) -> Result<Page, DomainError> {
    let sender = sender(stack, stack);
    let sent = Path::new(flags.rate, flags.rtt)?.send(&sender, flags.page, sender.initial_window);
    Ok(Page {
        wire_bytes: sent.wire.0 * flags.rate.bits_per_second() / 8.0,
        // Connection set-up, request, stalls.
        latency: flags.rtt * 2.0 + sent.stalled,
    })
}

/// The prediction of a cell, and the plan to simulate it as flows.
struct Forecast {
    plan: Plan,
    predicted: Seconds,
    bounds: (Seconds, Seconds),
    /// A user's think time plus response time: the system's memory.
    cycle: Seconds,
}

fn forecast(flags: &ValidateFlags, page: &Page, users: u32, lines: u32) -> Result<Forecast, Failure> {
    let mut plan = Plan {
        source: Source::Closed {
            users,
            think: Sizes::Exponential { mean: flags.think.0 },
        },
        sizes: Sizes::Fixed(page.wire_bytes),
        lines: vec![flags.rate; lines as usize],
        discipline: Discipline::Sharing,
        dispatch: Dispatch::Fixed,
        latency: page.latency,
        warmup: Seconds(1.0),
        measured: Seconds(1.0),
        seed: flags.seed,
    };
    let predicted = match predicted(&plan)? {
        Some((_, response)) => response,
        None => unreachable!("shared lines with users of their own have an exact solution"),
    };
    // A warm-up of several cycles removes the effect of the start.
    let cycle = flags.think + predicted;
    plan.warmup = cycle * 5.0;
    plan.measured = cycle * (REQUESTS / f64::from(users)).clamp(40.0, 20_000.0);
    let service = Seconds(page.wire_bytes * 8.0 / flags.rate.bits_per_second());
    let stations = vec![
        Station::queue("line", service),
        Station::delay("latency", page.latency),
    ];
    let network = Network::new(stations, flags.think)?;
    // Lines with one user less respond no later, lines with one more no sooner, than any mixture of both.
    let bounds = |users: u32| {
        let b = network.brackets(u64::from(users));
        b.response_balanced.unwrap_or(b.response_asymptotic)
    };
    let bounds = (bounds(users / lines).0, bounds(users.div_ceil(lines)).1);
    Ok(Forecast {
        plan,
        predicted,
        bounds,
        cycle,
    })
}

fn cell(flags: &ValidateFlags, stack: &Stack, page: &Page, users: u32, lines: u32) -> Result<Cells, Failure> {
    let Forecast {
        plan,
        predicted,
        bounds,
        cycle,
    } = forecast(flags, page, users, lines)?;
    let flow = run(&plan, &Limits::DEFAULT)?.answer;
    let each = users.div_ceil(lines);
    let packets = (each <= flags.packet_users)
        .then(|| {
            let scene = Scene {
                rate: flags.rate,
                rtt: flags.rtt,
                local: false,
                client: stack.clone(),
                server: stack.clone(),
                users: each as usize,
                page: flags.page,
                server_time: Seconds::ZERO,
                seed: Seed(flags.seed.0.wrapping_add(u64::from(each))),
            };
            let throughput = f64::from(each) / cycle.0;
            let measured = Seconds((f64::from(flags.packet_answers) / throughput).min(cycle.0 * 400.0));
            scene.closed(&Sizes::Exponential { mean: flags.think.0 }, cycle * 5.0, measured)
        })
        .transpose()?;
    Ok(Cells {
        users,
        lines,
        predicted,
        bounds,
        flow,
        packets,
    })
}

impl Cells {
    fn error_percent(&self) -> f64 {
        100.0 * (self.predicted.0 / self.flow.response.0 - 1.0)
    }

    /// Whether the prediction lies within `tolerance` of the flow simulation, or within its interval.
    fn is_good(&self, tolerance: f64) -> bool {
        let apart = (self.predicted - self.flow.response).0.abs();
        apart <= tolerance * self.flow.response.0 + self.flow.half_width.map_or(0.0, |half| half.0)
    }

    fn packet_error_percent(&self) -> Option<f64> {
        self.packets
            .map(|packets| 100.0 * (self.predicted.0 / packets.turnaround.0 - 1.0))
    }

    /// As [`Cells::is_good`], for packets; true without a packet simulation.
    fn is_good_for_packets(&self, tolerance: f64) -> bool {
        self.packets.is_none_or(|packets| {
            let apart = (self.predicted - packets.turnaround).0.abs();
            apart <= tolerance * packets.turnaround.0 + packets.half_width.map_or(0.0, |half| half.0)
        })
    }

    /// The half width; `None` if it is only the rounding of equal responses.
    fn half_width_of(packets: Simulated) -> Option<Seconds> {
        let half = packets.half_width?;
        Some(if half.0 > 1e-12 * packets.turnaround.0 {
            half
        } else {
            Seconds::ZERO
        })
    }

    /// The cell in words.
    fn place(&self) -> String {
        let (users, lines) = (self.users, self.lines);
        let (users, lines) = (u64::from(users), u64::from(lines));
        format!("{} on {}", counted(users, "user"), counted(lines, "line"))
    }

    fn row(&self) -> Vec<Cell> {
        let packets = self.packets;
        let error = self.packet_error_percent();
        vec![
            self.users.into(),
            self.lines.into(),
            Cell::Decimals(self.flow.utilization, 3),
            self.predicted.into(),
            self.bounds.0.into(),
            self.bounds.1.into(),
            self.flow.response.into(),
            self.flow.half_width.into(),
            Cell::Decimals(self.error_percent(), 2),
            packets.map(|packets| packets.turnaround).into(),
            packets.and_then(Cells::half_width_of).into(),
            error.map_or(Cell::Missing, |percent| Cell::Decimals(percent, 1)),
        ]
    }
}

fn chart(flags: &ValidateFlags, cells: &[Cells]) -> Chart {
    let mut series = Vec::new();
    for &lines in &flags.lines {
        let own = || cells.iter().filter(|cell| cell.lines == lines);
        series.push(Series {
            name: format!("predicted, lines: {lines}"),
            stroke: Stroke::Solid,
            points: own()
                .map(|cell| (f64::from(cell.users), cell.predicted.0))
                .collect(),
        });
    }
    series.push(Series {
        name: "flows".to_owned(),
        stroke: Stroke::Dots,
        points: cells
            .iter()
            .map(|cell| (f64::from(cell.users), cell.flow.response.0))
            .collect(),
    });
    let packets = cells
        .iter()
        .filter_map(|cell| Some((f64::from(cell.users), cell.packets?.turnaround.0)));
    series.push(Series {
        name: "packets".to_owned(),
        stroke: Stroke::Dots,
        points: packets.collect(),
    });
    Chart {
        title: "Mean response against users: predicted and simulated".to_owned(),
        x: Axis::logarithmic("users"),
        y: Axis::logarithmic("seconds"),
        series,
    }
}

#[cfg(feature = "measure")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::model::Question;
    use crate::cli::{Cli, Command, Measure};
    use clap::Parser;

    /// The flags behind the table of `docs/model.md`.
    fn documented() -> ValidateFlags {
        let words = ["weir", "model", "validate", "--packet-answers", "4000"];
        match Cli::try_parse_from(words).expect("flags").command {
            Command::Measure(Measure::Model(flags)) => match flags.question {
                Question::Validate(flags) => flags,
                _ => panic!("another question"),
            },
            _ => panic!("another command"),
        }
    }

    /// The rows of that table.
    fn rows() -> Vec<Vec<&'static str>> {
        let text = include_str!("../../docs/model.md");
        let section = text
            .split_once("## Predictions against simulation")
            .and_then(|(_, rest)| rest.split_once("### Against this machine"));
        let (section, _) = section.expect("a section");
        let rows = section.lines().filter(|line| line.starts_with("| "));
        let rows = rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect());
        rows.skip(2).collect()
    }

    /// The shown columns of a row.
    fn shown(cells: Vec<Cell>) -> Vec<String> {
        let mut grid = Grid::new("", &[("", ""); 12]);
        grid.row(cells);
        let row = grid.markdown().lines().last().unwrap_or_default().to_owned();
        let cells = row.trim_matches('|').split('|');
        cells.map(|cell| cell.trim().to_owned()).collect()
    }

    #[test]
    fn the_documented_predictions_are_the_ones_made_here() {
        let flags = documented();
        let stack = stack(&flags.stack).expect("a stack");
        let page = page(&flags, &stack).expect("a page");
        let rows = rows();
        assert_eq!(rows.len(), 15, "{rows:?}");
        for row in rows {
            let (users, lines) = (row[0].parse().expect("users"), row[1].parse().expect("lines"));
            let made = forecast(&flags, &page, users, lines).expect("a forecast");
            let made: Vec<String> = [made.predicted, made.bounds.0, made.bounds.1]
                .iter()
                .map(|span| ::model::explain::significant(span.0))
                .collect();
            assert_eq!(row[3..6], made, "{users} users on {lines} lines");
            // Larger cells take minutes without optimization.
            if [(1, 1), (10, 4)].contains(&(users, lines)) {
                let cell = cell(&flags, &stack, &page, users, lines).expect("a cell");
                assert_eq!(row, shown(cell.row()), "{users} users on {lines} lines");
            }
        }
    }

    #[test]
    fn a_prediction_is_good_within_tolerance_and_interval() {
        let cell = |predicted: f64, half: f64| Cells {
            users: 1,
            lines: 1,
            predicted: Seconds(predicted),
            bounds: (Seconds(0.0), Seconds(9.0)),
            flow: Outcome {
                completed: 100,
                events: 200,
                throughput: 1.0,
                response: Seconds(1.0),
                half_width: Some(Seconds(half)),
                response_max: Seconds(2.0),
                utilization: 0.5,
                utilization_max: 0.5,
            },
            packets: None,
        };
        for (predicted, half, good) in [
            (1.0, 0.0, true),
            (1.019, 0.0, true),
            (1.021, 0.0, false),
            (0.95, 0.04, true),
            (0.93, 0.04, false),
        ] {
            assert_eq!(cell(predicted, half).is_good(0.02), good, "{predicted} {half}");
        }
        assert!((cell(1.05, 0.0).error_percent() - 5.0).abs() < 1e-9);
        // Packets are judged beside their own interval.
        let with = |predicted: f64, packets: f64, half: f64| Cells {
            packets: Some(Simulated {
                answers: 100,
                turnaround: Seconds(packets),
                half_width: Some(Seconds(half)),
                broken: 0,
            }),
            ..cell(predicted, 0.0)
        };
        assert!(cell(1.0, 0.0).is_good_for_packets(0.1));
        assert!(with(0.3111, 0.29, 0.0096).is_good_for_packets(0.1));
        assert!(!with(0.3111, 0.2688, 0.0096).is_good_for_packets(0.1));
        assert!(with(0.3111, 0.2688, 0.0096).is_good_for_packets(0.16));
        assert!(!with(0.2, 0.2688, 0.0096).is_good_for_packets(0.16));
        assert_eq!(cell(1.0, 0.0).row().len(), 12);
    }
}
