//! A single user: a transaction by the document's formulas, a transfer over modern TCP, a page with its objects.

use super::Measured;
use super::grid::Grid;
use super::report::{Published, Report};
use super::timeline;
use crate::cli::model::{PageFlags, TransactionFlags, TransferFlags};
use crate::failure::Failure;
use ::model::page::{Access, Fetch, Page, page_time};
use ::model::tcp::loss::latency;
use ::model::tcp::ramp::Path;
use ::model::tcp::setup::Setup;
use ::model::transaction::Transfer;
use ::model::{DomainError, Seconds};
use chart::{Axis, Chart, Series, Stroke};
use units::Bytes;

/// K, L, M, S, W, Tf, Tmin, T and T/TCP.
pub(super) fn transaction(flags: &TransactionFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    let transfer = Transfer {
        size: flags.size,
        rate: flags.rate,
        rtt: flags.rtt,
        mss: flags.mss,
    };
    let answer = transfer.transaction(flags.mode())?;
    let mut report = Report::default();
    report.answer(answer.explain(), measured);
    if flags.timeline {
        report.grids.push(timeline::grid(&answer)?);
    }
    Ok(report)
}

/// One transfer over modern TCP with every connection set-up.
pub(super) fn transfer(flags: &TransferFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    let sender = flags.sender.sender();
    let path = match flags.rate {
        Some(rate) => Path::new(rate, flags.rtt)?,
        None => Path {
            rate: None,
            rtt: flags.rtt,
        },
    };
    let of = |setup, size| latency(&path, &sender, setup, size, flags.loss);
    let mut report = Report::default();
    report.answer(of(flags.sender.setup, flags.size)?, measured);
    let columns = [
        ("set-up", ""),
        ("round trips before the request", ""),
        ("transfer", "s"),
        ("less than TCP", "s"),
        ("client's processor", "s"),
        ("server's processor", "s"),
        ("transfer with both", "s"),
        ("handshakes a second per processor", ""),
        ("source", ""),
    ];
    let mut grid = Grid::new("every way to open the connection", &columns);
    let plain = of(Setup::Tcp, flags.size)?.answer.total;
    for setup in Setup::ALL {
        let total = of(setup, flags.size)?.answer.total;
        let processing = setup.processing();
        grid.row([
            setup.name().into(),
            setup.round_trips().into(),
            total.into(),
            (plain - total).into(),
            processing.map(|one| one.client).into(),
            processing.map(|one| one.server).into(),
            processing.map(|one| total + one.client + one.server).into(),
            processing.map(|one| one.server_rate_max().round()).into(),
            setup.source().into(),
        ]);
    }
    report.grids.push(grid);
    let curve = |setup: Setup| -> Result<Series, DomainError> {
        // From a hundredth to a hundred times the given size.
        let sizes = (-40..=40)
            .map(|step| Bytes((flags.size.0 as f64 * 10f64.powf(f64::from(step) / 20.0)).max(1.0) as u64));
        let points = sizes.map(|size| Ok((size.0 as f64, of(setup, size)?.answer.total.0)));
        Ok(Series {
            name: setup.name().to_owned(),
            stroke: Stroke::Solid,
            points: points.collect::<Result<_, DomainError>>()?,
        })
    };
    let mut setups = vec![flags.sender.setup];
    let others = [Setup::Tcp, Setup::Tls13, Setup::Tls13EarlyData, Setup::FastOpen];
    setups.extend(others.into_iter().filter(|setup| *setup != flags.sender.setup));
    report.charts.push(Chart {
        title: format!("Time of a transfer against its size, round trip {}", flags.rtt),
        x: Axis::logarithmic("bytes"),
        y: Axis::logarithmic("seconds"),
        series: setups.into_iter().map(curve).collect::<Result<_, _>>()?,
    });
    Ok(report)
}

/// A page fetched serially, in parallel and pipelined.
pub(super) fn page(flags: &PageFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    let mut page = Page::microscape();
    if let Some(base) = flags.base {
        page.base = base;
        page.embedded.clone_from(&flags.object);
    }
    page.request = flags.request;
    page.response_header = flags.response_header;
    let access = Access {
        down: flags.rate,
        up: flags.up.unwrap_or(flags.rate),
        rtt: flags.rtt,
        sender: flags.sender.sender(),
        setup: flags.sender.setup,
        think: flags.server_time,
        loss: flags.loss,
    };
    let connections = flags.connections;
    let modes = [
        Fetch::PerObject { connections: 1 },
        Fetch::PerObject { connections },
        Fetch::Persistent { connections: 1 },
        Fetch::Persistent { connections },
        Fetch::Pipelined,
    ];
    let columns = [
        ("mode", ""),
        ("time", "s"),
        ("at most", "s"),
        ("base object", "s"),
        ("connections", ""),
        ("packets", ""),
        ("bytes down", ""),
        ("of it losses", "s"),
    ];
    let mut grid = Grid::new("modes", &columns);
    let mut report = Report {
        brief: true,
        ..Report::default()
    };
    if flags.base.is_none() {
        report.published.push(Published {
            shown: "the page",
            source: "document 003, Microscape: 42 KB of HTML, 42 images of 128,287 B in all".to_owned(),
            provenance: "the document's own text, read, in round numbers: every image has the mean size"
                .to_owned(),
        });
    }
    for (place, mode) in modes.into_iter().enumerate() {
        if modes[..place].contains(&mode) {
            continue;
        }
        let explained = page_time(&page, &access, mode)?;
        let time = explained.answer;
        report.answer(explained, measured);
        grid.row([
            mode.name().into(),
            time.total.into(),
            time.total_max.into(),
            time.base.into(),
            time.connections.into(),
            time.packets.into(),
            time.bytes_down.into(),
            time.losses.into(),
        ]);
    }
    report.grids.push(grid);
    report.charts.push(rtt_chart(&page, &access, &modes)?);
    Ok(report)
}

/// Time of each mode against the round-trip time.
fn rtt_chart(page: &Page, access: &Access, modes: &[Fetch]) -> Result<Chart, DomainError> {
    let curve = |&mode: &Fetch| -> Result<Series, DomainError> {
        let trips = (-20..=20).map(|step| access.rtt.0 * 10f64.powf(f64::from(step) / 20.0));
        let points = trips.map(|rtt| {
            let access = Access {
                rtt: Seconds(rtt),
                ..*access
            };
            Ok((rtt * 1e3, page_time(page, &access, mode)?.answer.total.0))
        });
        Ok(Series {
            name: mode.name(),
            stroke: Stroke::Solid,
            points: points.collect::<Result<_, DomainError>>()?,
        })
    };
    Ok(Chart {
        title: format!("Time of the page against the round trip, {}", access.down),
        x: Axis::logarithmic("round trip, ms"),
        y: Axis::logarithmic("seconds"),
        series: modes.iter().map(curve).collect::<Result<_, _>>()?,
    })
}
