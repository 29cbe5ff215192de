//! Queues: an open queue under every discipline, a closed network with bounds, SRPT against processor sharing.

use super::Measured;
use super::grid::{Cell, Grid};
use super::report::Report;
use crate::cli::model::{ClosedFlags, QueueFlags, SrptFlags, Unit};
use crate::failure::Failure;
use ::model::closed::{Brackets, Kind, Network, Station};
use ::model::queue::{Steady, gigc, mg1, mg1_ps, mm1, mmc};
use ::model::srpt::compare;
use ::model::{DomainError, Explained, Quantity, Seconds};
use chart::{Axis, Chart, Series, Stroke};

type Solved = Result<Explained<Steady>, DomainError>;

/// The disciplines that apply to this number of servers, at `arrivals` per second.
fn disciplines(flags: &QueueFlags, arrivals: f64) -> Vec<(&'static str, Solved)> {
    let (service, servers) = (flags.service, flags.servers);
    let several = gigc(arrivals, flags.arrival_scv, service, flags.service_scv, servers);
    if servers == 1 {
        vec![
            ("M/M/1", mm1(arrivals, service)),
            ("M/G/1", mg1(arrivals, service, flags.service_scv)),
            ("M/G/1-PS", mg1_ps(arrivals, service)),
            ("GI/G/1", several),
        ]
    } else {
        vec![("M/M/c", mmc(arrivals, service, servers)), ("GI/G/c", several)]
    }
}

/// One queue under all disciplines.
pub(super) fn queue(flags: &QueueFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    let mut report = Report {
        brief: true,
        ..Report::default()
    };
    // The flags count as measurements: M/M/1 warns if the given service times vary otherwise.
    let mut known = measured.to_vec();
    known.push((Quantity::ServiceVariability, flags.service_scv));
    known.push((Quantity::InterarrivalVariability, flags.arrival_scv));
    let columns = [
        ("model", ""),
        ("utilization", ""),
        ("chance to wait", ""),
        ("waiting", "s"),
        ("response", "s"),
        ("waiting requests", ""),
        ("requests", ""),
    ];
    let mut grid = Grid::new("disciplines", &columns);
    for (name, solved) in disciplines(flags, flags.arrivals) {
        let solved = solved?;
        let a = solved.answer;
        report.answer(solved, &known);
        grid.row([
            name.into(),
            a.utilization.into(),
            a.wait_chance.into(),
            a.waiting.into(),
            a.response.into(),
            a.queue.into(),
            a.jobs.into(),
        ]);
    }
    report.grids.push(grid);
    let capacity = f64::from(flags.servers) / flags.service.0;
    let names = disciplines(flags, flags.arrivals)
        .into_iter()
        .map(|(name, _)| name);
    let mut series: Vec<Series> = names
        .map(|name| Series {
            name: name.to_owned(),
            stroke: Stroke::Solid,
            points: Vec::new(),
        })
        .collect();
    for percent in 1..=97 {
        let rho = f64::from(percent) / 100.0;
        for (series, (_, solved)) in series.iter_mut().zip(disciplines(flags, rho * capacity)) {
            series.points.push((rho, solved?.answer.response.0));
        }
    }
    report.charts.push(Chart {
        title: format!("Mean response against utilization, service {}", flags.service),
        x: Axis::linear("utilization"),
        y: Axis::logarithmic("seconds"),
        series,
    });
    Ok(report)
}

/// Number of points of a sweep.
const POINTS: u64 = 40;

/// A closed network of thinking users.
pub(super) fn closed(flags: &ClosedFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    let stations: Vec<Station> = flags.station.iter().chain(&flags.delay).cloned().collect();
    for (place, station) in stations.iter().enumerate() {
        if stations[..place].iter().any(|other| other.name == station.name) {
            return Err(Failure::Usage(format!(
                "two stations are named `{}`: give a station once, with the sum of a request's visits",
                station.name
            )));
        }
    }
    let network = Network::new(stations, flags.think)?;
    let solved = network.solve(flags.users)?;
    let mut report = Report::default();
    let columns = [
        ("station", ""),
        ("utilization", ""),
        ("residence", "s"),
        ("requests there", ""),
    ];
    let mut shares = Grid::new("stations", &columns);
    for (station, share) in network.stations().iter().zip(&solved.answer.stations) {
        // A delay station has as many servers as users and no utilization.
        let utilization = (station.kind != Kind::Delay).then_some(share.utilization);
        shares.row([
            share.name.as_str().into(),
            utilization.into(),
            share.residence.into(),
            share.jobs.into(),
        ]);
    }
    report.answer(solved, measured);
    let columns = [
        ("users", ""),
        ("throughput", "1/s"),
        ("response", "s"),
        ("least response", "s"),
        ("most response", "s"),
        ("least throughput", "1/s"),
        ("most throughput", "1/s"),
    ];
    let mut sweep = Grid::new("users against response, between balanced bounds", &columns);
    let (points, is_exact) = curve(&network, flags.users)?;
    for (users, throughput, response, b) in &points {
        let (low, high) = b.response_balanced.unwrap_or(b.response_asymptotic);
        let (least, most) = b.throughput_balanced.unwrap_or(b.throughput_asymptotic);
        sweep.row([
            (*users).into(),
            (*throughput).into(),
            (*response).into(),
            low.into(),
            high.into(),
            least.into(),
            most.into(),
        ]);
    }
    report.grids = vec![sweep, shares];
    report.charts = closed_charts(&points);
    if !is_exact {
        report.notes.push(
            "the table of users is approximate (Schweitzer 1979): it goes beyond what is computed exactly"
                .to_owned(),
        );
    }
    Ok(report)
}

/// The points to draw and print, up to twice the knee, and whether they are exact.
fn curve(network: &Network, users: u64) -> Result<(Vec<Point>, bool), DomainError> {
    let several = |station: &Station| matches!(station.kind, Kind::Servers(count) if count > 1);
    // Convolution takes time quadratic in the number of users.
    let most = if network.stations().iter().any(several) {
        1e3
    } else {
        1e6
    };
    let knee = network.brackets(users).knee;
    let beyond = if knee.is_finite() {
        (2.0 * knee).min(most) as u64
    } else {
        2
    };
    let most = users.max(beyond).max(2);
    let step = most.div_ceil(POINTS).max(1);
    let is_shown = |n: u64| n == 1 || n.is_multiple_of(step) || n == users;
    let point = |(n, throughput, response)| (n, throughput, response, network.brackets(n));
    if let Ok(sweep) = network.sweep(most) {
        let shown = sweep.into_iter().filter(|(n, ..)| is_shown(*n));
        return Ok((shown.map(point).collect(), true));
    }
    let mut counts: Vec<u64> = (0..=most / step).map(|place| (place * step).max(1)).collect();
    counts.push(users);
    counts.sort_unstable();
    counts.dedup();
    let rough = counts.into_iter().map(|n| {
        let solved = network.approximate(n)?;
        Ok(point((n, solved.throughput, solved.response)))
    });
    Ok((rough.collect::<Result<_, DomainError>>()?, false))
}

/// Users, throughput, response time, and their bounds.
type Point = (u64, f64, Seconds, Brackets);

fn closed_charts(points: &[Point]) -> Vec<Chart> {
    let series = |name: &str, stroke, value: fn(&Point) -> Option<f64>| Series {
        name: name.to_owned(),
        stroke,
        points: points
            .iter()
            .filter_map(|point| Some((point.0 as f64, value(point)?)))
            .collect(),
    };
    let (solid, dashed) = (Stroke::Solid, Stroke::Dashed);
    vec![
        Chart {
            title: "Throughput against users".to_owned(),
            x: Axis::linear("users"),
            y: Axis::linear("requests/s"),
            series: vec![
                series("mean value analysis", solid, |p| Some(p.1)),
                series("asymptotic upper bound", dashed, |p| {
                    Some(p.3.throughput_asymptotic.1)
                }),
                series("balanced upper bound", dashed, |p| {
                    Some(p.3.throughput_balanced?.1)
                }),
                series("balanced lower bound", dashed, |p| {
                    Some(p.3.throughput_balanced?.0)
                }),
            ],
        },
        Chart {
            title: "Response against users".to_owned(),
            x: Axis::linear("users"),
            y: Axis::linear("seconds"),
            series: vec![
                series("mean value analysis", solid, |p| Some(p.2.0)),
                series("asymptotic lower bound", dashed, |p| {
                    Some(p.3.response_asymptotic.0.0)
                }),
                series("balanced lower bound", dashed, |p| {
                    Some(p.3.response_balanced?.0.0)
                }),
                series("balanced upper bound", dashed, |p| {
                    Some(p.3.response_balanced?.1.0)
                }),
            ],
        },
    ]
}

/// A positive rate in bit/s.
fn positive_rate(rate: units::Rate) -> Result<f64, DomainError> {
    let bits = rate.bits_per_second();
    if bits > 0.0 {
        return Ok(bits);
    }
    Err(DomainError::Outside {
        parameter: "rate",
        value: bits,
        allowed: "1 bit/s or more",
    })
}

/// SRPT against processor sharing.
pub(super) fn srpt(flags: &SrptFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    let sizes = &flags.sizes.sizes;
    let service = match (flags.rate, flags.sizes.unit) {
        (Some(rate), Unit::Bare | Unit::Bytes) => {
            let rate = positive_rate(rate)?;
            sizes.scaled(8.0 / rate)
        }
        (None, Unit::Bare | Unit::Times) => sizes.clone(),
        (Some(_), Unit::Times) => {
            return Err(Failure::Usage(
                "--sizes are times but --rate serves bytes: give sizes in bytes, or leave --rate out"
                    .to_owned(),
            ));
        }
        (None, Unit::Bytes) => {
            return Err(Failure::Usage(
                "--sizes are bytes: give their service rate with --rate, or give times, as in exponential(10ms)"
                    .to_owned(),
            ));
        }
    };
    let at = |rho: f64| compare(rho / service.mean(), &service);
    let mut report = Report {
        brief: true,
        ..Report::default()
    };
    let columns = [
        ("utilization", ""),
        ("SRPT", "s"),
        ("sharing", "s"),
        ("SRPT/sharing", ""),
        ("relative error", ""),
    ];
    let mut grid = Grid::new(
        format!("mean response, sizes with scv {:.3}", service.scv()),
        &columns,
    );
    for &rho in &flags.load {
        let explained = at(rho)?;
        let c = explained.answer;
        report.answer(explained, measured);
        grid.row([
            c.utilization.into(),
            c.srpt.into(),
            c.ps.into(),
            c.ratio.into(),
            Cell::Number(c.error),
        ]);
    }
    report.grids.push(grid);
    let (mut srpt, mut ps) = (Vec::new(), Vec::new());
    for step in 1..=49 {
        let rho = f64::from(step) / 50.0;
        let c = at(rho)?.answer;
        srpt.push((rho, c.srpt.0));
        ps.push((rho, c.ps.0));
    }
    let series = |name: &str, points| Series {
        name: name.to_owned(),
        stroke: Stroke::Solid,
        points,
    };
    report.charts.push(Chart {
        title: "Mean response: shortest remaining first against sharing".to_owned(),
        x: Axis::linear("utilization"),
        y: Axis::logarithmic("seconds"),
        series: vec![series("sharing", ps), series("SRPT", srpt)],
    });
    Ok(report)
}
