//! Counts: identical lines for users who ask at the same time, servers for an open stream of requests; with the
//! counts for other objectives, and the effect of more users or requests on the number found.

use super::Measured;
use super::grid::Grid;
use super::report::Report;
use crate::cli::model::ServersFlags;
use crate::failure::Failure;
use ::model::distribute::{Even, Offer, evenly, least_lines, lines_for, pool_for};
use ::model::explain::counted;
use ::model::queue::{mm1, mmc};
use ::model::{DomainError, Seconds};
use chart::{Axis, Chart, Series, Stroke};

/// Other objectives: powers of the fourth root of 2 times the given one, from a quarter to eight times.
const STEPS: core::ops::RangeInclusive<i32> = -8..=12;
/// Steps between two rows of the table.
const ROW: i32 = 4;

fn objective(asked: Seconds, step: i32) -> Seconds {
    asked * 2f64.powf(f64::from(step) / 4.0)
}

fn series(name: impl Into<String>, stroke: Stroke, points: Vec<(f64, f64)>) -> Series {
    Series {
        name: name.into(),
        stroke,
        points,
    }
}

/// Number of lines like `offer` for `users` users with `packets` packets each and a mean turnaround of `asked`.
pub(super) fn lines(
    users: u64,
    packets: u64,
    offer: &Offer,
    asked: Seconds,
    measured: Measured<'_>,
) -> Result<Report, Failure> {
    let mut report = Report::default();
    let found = lines_for(users, packets, offer, asked)?;
    let needed = found.answer.lines;
    report.answer(found, measured);
    let columns = [
        ("turnaround wanted", "s"),
        ("lines", ""),
        ("mean waiting", "s"),
        ("mean turnaround", "s"),
    ];
    let mut grid = Grid::new("other objectives", &columns);
    let mut needs = Vec::new();
    for step in STEPS {
        let wanted = objective(asked, step);
        let lines = match least_lines(users, packets, offer, wanted) {
            Ok(lines) => Some(lines),
            // Impossible even with one line per user.
            Err(DomainError::Unattainable { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        needs.extend(lines.map(|lines| (wanted.0, lines as f64)));
        if step % ROW == 0 {
            let even = lines
                .map(|lines| evenly(users, packets, offer, lines))
                .transpose()?;
            grid.row([
                wanted.into(),
                lines.into(),
                even.map(|even| even.waiting).into(),
                even.map(|even| even.turnaround).into(),
            ]);
        }
    }
    report.grids.push(grid);
    report.charts = vec![
        Chart {
            title: format!(
                "Number of lines like {} against mean turnaround time, {users} users",
                offer.name
            ),
            x: Axis::logarithmic("mean turnaround, seconds"),
            y: Axis::logarithmic("lines"),
            series: vec![
                series("lines needed", Stroke::Solid, needs),
                series("requested", Stroke::Dots, vec![(asked.0, needed as f64)]),
            ],
        },
        users_chart(users, packets, offer, asked, needed)?,
    ];
    Ok(report)
}

/// Waiting and turnaround against users, with the lines that `users` need and with one less.
fn users_chart(
    users: u64,
    packets: u64,
    offer: &Offer,
    asked: Seconds,
    lines: u64,
) -> Result<Chart, DomainError> {
    let at = super::users::counts(users.max(10));
    let curve = |lines: u64, pick: fn(Even) -> Seconds| -> Result<Vec<(f64, f64)>, DomainError> {
        let point = |&users: &u64| Ok((users as f64, pick(evenly(users, packets, offer, lines)?).0));
        at.iter().map(point).collect()
    };
    let turnaround = |even: Even| even.turnaround;
    let ends = [1.0, users.max(10) as f64].map(|users| (users, asked.0));
    let mut all = vec![
        series("turnaround", Stroke::Solid, curve(lines, turnaround)?),
        series("waiting", Stroke::Solid, curve(lines, |even| even.waiting)?),
    ];
    if lines > 1 {
        let fewer = curve(lines - 1, turnaround)?;
        all.push(series("turnaround, one line fewer", Stroke::Dashed, fewer));
    }
    all.push(series("wanted", Stroke::Dashed, ends.to_vec()));
    Ok(Chart {
        title: format!(
            "Waiting and turnaround against users, {} like {}",
            counted(lines, "line"),
            offer.name
        ),
        x: Axis::linear("users who ask at the same time"),
        y: Axis::linear("seconds"),
        series: all,
    })
}

/// Servers for an open stream.
pub(super) fn servers(flags: &ServersFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    let (arrivals, service, asked) = (flags.arrivals, flags.service, flags.response);
    let mut report = Report::default();
    let found = pool_for(arrivals, service, asked)?;
    let pool = found.answer;
    report.answer(found, measured);
    let columns = [
        ("response wanted", "s"),
        ("servers, one queue", ""),
        ("response, one queue", "s"),
        ("servers, a queue each", ""),
        ("response, a queue each", "s"),
    ];
    let mut grid = Grid::new("other objectives", &columns);
    let (mut pooled, mut separate) = (Vec::new(), Vec::new());
    for step in STEPS {
        let wanted = objective(asked, step);
        let found = match pool_for(arrivals, service, wanted) {
            Ok(found) => Some(found.answer),
            // Below the service time, or beyond the limit on servers.
            Err(DomainError::Unattainable { .. } | DomainError::Outside { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        pooled.extend(found.map(|found| (wanted.0, f64::from(found.pooled))));
        separate.extend(found.map(|found| (wanted.0, f64::from(found.separate))));
        if step % ROW == 0 {
            grid.row([
                wanted.into(),
                found.map(|found| found.pooled).into(),
                found.map(|found| found.pooled_response).into(),
                found.map(|found| found.separate).into(),
                found.map(|found| found.separate_response).into(),
            ]);
        }
    }
    report.grids.push(grid);
    let asked_for = [pool.pooled, pool.separate].map(|servers| (asked.0, f64::from(servers)));
    report.charts = vec![
        Chart {
            title: format!(
                "Number of servers against mean response time, {arrivals} requests/s of {service}"
            ),
            x: Axis::logarithmic("mean response, seconds"),
            y: Axis::logarithmic("servers"),
            series: vec![
                series("one queue", Stroke::Solid, pooled),
                series("separate queues", Stroke::Solid, separate),
                series("requested", Stroke::Dots, asked_for.to_vec()),
            ],
        },
        arrivals_chart(flags, pool.pooled, pool.separate)?,
    ];
    Ok(report)
}

/// Mean response time against arrivals with the servers found, up to near saturation of the smaller number.
fn arrivals_chart(flags: &ServersFlags, pooled: u32, separate: u32) -> Result<Chart, DomainError> {
    let capacity = f64::from(pooled) / flags.service.0;
    let rates = (1..=49).map(|step| f64::from(step) / 50.0 * capacity);
    let (mut one, mut each) = (Vec::new(), Vec::new());
    for arrivals in rates {
        one.push((arrivals, mmc(arrivals, flags.service, pooled)?.answer.response.0));
        let alone = mm1(arrivals / f64::from(separate), flags.service)?;
        each.push((arrivals, alone.answer.response.0));
    }
    let ends = [0.02 * capacity, 0.98 * capacity].map(|arrivals| (arrivals, flags.response.0));
    Ok(Chart {
        title: format!("Mean response against requests, service {}", flags.service),
        x: Axis::linear("requests/s"),
        y: Axis::logarithmic("seconds"),
        series: vec![
            series(
                format!("{}, one queue", counted(pooled.into(), "server")),
                Stroke::Solid,
                one,
            ),
            series(
                format!("{}, separate queues", counted(separate.into(), "server")),
                Stroke::Solid,
                each,
            ),
            series("wanted", Stroke::Dashed, ends.to_vec()),
        ],
    })
}
