//! Many users: waiting time, bandwidth, and their distribution over lines.

use super::Measured;
use super::count;
use super::grid::{Cell, Grid};
use super::record;
use super::report::Report;
use crate::cli::model::{
    BasisFlags, DimensionFlags, DistributeFlags, LineOffer, Protocol, SenderFlags, WaitingFlags, mode,
};
use crate::failure::Failure;
use ::model::dimension::{Basis, Question, STEADY_USERS_MAX};
use ::model::distribute::{
    Curves, Offer, SteadyLine, WindowLine, curves_steady, curves_windows, given, split, split_steady,
    split_windows,
};
use ::model::tcp::Sender;
use ::model::tcp::ramp::Path;
use ::model::transaction::Transfer;
use ::model::waiting::{Group, InnerSum, Line, Mixed};
use ::model::{DomainError, Seconds};
use chart::{Axis, Chart, Series, Stroke};
use units::{Bytes, Rate};

/// Eqs. 1 to 6.
pub(super) fn waiting(flags: &WaitingFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    let mut report = Report::default();
    if !flags.group.is_empty() {
        let packets = flags.packets.unwrap_or(0);
        report.answer(
            Mixed::new(&flags.group, packets)?.explain(flags.inner_sum.into()),
            measured,
        );
        report
            .charts
            .push(groups_chart(&flags.group, packets, flags.inner_sum.into())?);
        return Ok(report);
    }
    let (packets, time) = match (
        flags.packets,
        flags.packet_time,
        flags.size,
        flags.rate,
        flags.rtt,
    ) {
        (Some(packets), Some(time), ..) => (packets, time),
        (None, _, Some(size), Some(rate), Some(rtt)) => {
            let transfer = Transfer {
                size,
                rate,
                rtt,
                mss: flags.mss,
            };
            let one = transfer.transaction(mode(flags.paper))?;
            let explained = one.explain();
            report.answer(explained, measured);
            let total = match flags.protocol {
                Protocol::Tcp => one.t,
                Protocol::TTcp => one.t_ttcp,
            };
            (one.n, total / one.n as f64)
        }
        _ => {
            return Err(Failure::Usage(
                "the time of a packet is missing: give --packets with --packet-time, or --size, --rate and --rtt"
                    .to_owned(),
            ));
        }
    };
    let users = flags.users.unwrap_or(1);
    let line = Line::new(users, packets, time)?;
    report.answer(line.explain(), measured);
    let mut grid = Grid::new(
        "users",
        &[
            ("users", ""),
            ("mean waiting", "s"),
            ("mean turnaround", "s"),
            ("least", "s"),
            ("most", "s"),
        ],
    );
    let (mut waiting, mut turnaround, mut low, mut high) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for m in counts(users.max(10)) {
        let line = Line::new(m, packets, time)?;
        let (least, most) = line.turnaround_bounds();
        let at = |span: Seconds| (m as f64, span.0);
        waiting.push(at(line.waiting()));
        turnaround.push(at(line.turnaround()));
        low.push(at(least));
        high.push(at(most));
        grid.row([
            m.into(),
            line.waiting().into(),
            line.turnaround().into(),
            least.into(),
            most.into(),
        ]);
    }
    report.grids.push(grid);
    let series = |name: &str, stroke, points| Series {
        name: name.to_owned(),
        stroke,
        points,
    };
    report.charts.push(Chart {
        title: format!("Waiting and turnaround against users, {packets} packets of {time}"),
        x: Axis::linear("users who ask at the same time"),
        y: Axis::linear("seconds"),
        series: vec![
            series("turnaround", Stroke::Solid, turnaround),
            series("waiting", Stroke::Solid, waiting),
            series("bound: all finish last", Stroke::Dashed, high),
            series("bound: one after the other", Stroke::Dashed, low),
        ],
    });
    Ok(report)
}

/// Waiting and turnaround of the first users alone, then of more users in serving order; the counts include every
/// complete group.
fn groups_chart(groups: &[Group], packets: u64, sum: InnerSum) -> Result<Chart, DomainError> {
    let all = groups
        .iter()
        .fold(0u64, |all, group| all.saturating_add(group.users));
    let ends = groups.iter().scan(0u64, |end, group| {
        *end = end.saturating_add(group.users);
        Some(*end)
    });
    let mut at: Vec<u64> = counts(all.max(1)).into_iter().chain(ends).collect();
    at.sort_unstable();
    at.dedup();
    let mut series = [
        ("turnaround", Stroke::Solid),
        ("waiting", Stroke::Solid),
        ("bound: all finish last", Stroke::Dashed),
        ("bound: one after the other", Stroke::Dashed),
    ]
    .map(|(name, stroke)| Series {
        name: name.to_owned(),
        stroke,
        points: Vec::new(),
    });
    for users in at.into_iter().filter(|&users| users <= all) {
        let mixed = Mixed::new(&first(groups, users), packets)?;
        let (least, most) = mixed.turnaround_bounds();
        let values = [mixed.turnaround(sum), mixed.waiting(sum), most, least];
        for (one, value) in series.iter_mut().zip(values) {
            one.points.push((users as f64, value.0));
        }
    }
    Ok(Chart {
        title: format!("Waiting and turnaround as users join in turn, {packets} packets each"),
        x: Axis::linear("users who ask at the same time, in serving order"),
        y: Axis::linear("seconds"),
        series: series.into(),
    })
}

/// The first `users` of the groups.
fn first(groups: &[Group], users: u64) -> Vec<Group> {
    let mut left = users;
    groups
        .iter()
        .map(|group| {
            let users = group.users.min(left);
            left -= users;
            Group { users, ..*group }
        })
        .filter(|group| group.users > 0)
        .collect()
}

/// Up to 20 counts from 1 to `most`.
pub(super) fn counts(most: u64) -> Vec<u64> {
    let step = most.div_ceil(20).max(1);
    let mut counts = vec![1];
    counts.extend((1..=most / step).map(|place| place * step));
    counts.push(most);
    counts.dedup();
    counts
}

/// The basis of the computation, from the flags.
fn basis(flags: &BasisFlags) -> Basis {
    match flags.think {
        Some(think) => Basis::Steady { think },
        None if flags.document => Basis::Document(mode(flags.paper)),
        None if flags.packets_in_turn => Basis::Burst,
        None => Basis::Windows,
    }
}

/// The sender; segments of document 004 carry no options.
fn sender(flags: &SenderFlags, basis: Basis) -> Sender {
    match basis {
        Basis::Document(_) => Sender::document(flags.mss),
        Basis::Burst | Basis::Windows | Basis::Steady { .. } => flags.sender(),
    }
}

/// Half as many users, as many, and twice as many, without duplicates; with think times, at most the limit of the
/// exact solution.
pub(super) fn numbers(users: u64, is_steady: bool) -> Vec<u64> {
    let most = if is_steady { STEADY_USERS_MAX } else { u64::MAX };
    let mut numbers = vec![users.div_ceil(2), users, users.saturating_mul(2)];
    numbers.dedup();
    numbers.retain(|&number| number <= most);
    numbers
}

/// The least bandwidth, and the bandwidths for other objectives and numbers of users.
pub(super) fn dimension(flags: &DimensionFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    let question = Question {
        users: flags.users,
        page: flags.page,
        turnaround: flags.turnaround,
        rtt: flags.rtt,
        sender: sender(&flags.sender, basis(&flags.basis)),
        setup: flags.sender.setup,
        basis: basis(&flags.basis),
        loss: flags.loss,
    };
    let mut report = Report::default();
    report.answer(question.answer()?, measured);
    let columns = [
        ("users", ""),
        ("turnaround", "s"),
        ("bandwidth", "bit/s"),
        ("what binds", ""),
    ];
    let mut grid = Grid::new("other objectives", &columns);
    let mut series = Vec::new();
    let is_steady = matches!(question.basis, Basis::Steady { .. });
    for users in numbers(flags.users, is_steady) {
        let mut points = Vec::new();
        // Large closed systems take a second per objective, so only the table's points are drawn.
        let stride = if is_steady && users > 50_000 { 4 } else { 1 };
        for step in (-8..=12).step_by(stride) {
            let turnaround = flags.turnaround * 2f64.powf(f64::from(step) / 4.0);
            let other = Question {
                users,
                turnaround,
                ..question
            };
            let found = match other.answer() {
                Ok(found) => found.answer,
                Err(DomainError::Unattainable { .. }) => {
                    if step % 4 == 0 {
                        grid.row([
                            users.into(),
                            turnaround.into(),
                            Cell::Missing,
                            "no bandwidth is enough".into(),
                        ]);
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            points.push((turnaround.0, found.rate.bits_per_second() / 1e6));
            if step % 4 == 0 {
                grid.row([
                    users.into(),
                    turnaround.into(),
                    found.rate.0.into(),
                    found.binds.words().into(),
                ]);
            }
        }
        series.push(Series {
            name: format!("{users} users"),
            stroke: if users == flags.users {
                Stroke::Solid
            } else {
                Stroke::Dashed
            },
            points,
        });
    }
    report.grids.push(grid);
    report.charts.push(Chart {
        title: format!("Bandwidth against mean turnaround time, pages of {}", flags.page),
        x: Axis::logarithmic("mean turnaround, seconds"),
        y: Axis::logarithmic("Mbit/s"),
        series,
    });
    Ok(report)
}

/// A question about lines, with all that it needs.
struct Asked<'a> {
    users: u64,
    page: Bytes,
    rtt: Seconds,
    line: &'a [LineOffer],
    turnaround: Option<Seconds>,
    basis: &'a BasisFlags,
    sender: &'a SenderFlags,
}

impl Asked<'_> {
    fn of(flags: &DistributeFlags) -> Result<Asked<'_>, Failure> {
        let (Some(users), Some(page), Some(rtt)) = (flags.users, flags.page, flags.rtt) else {
            return Err(Failure::Usage(
                "without --record, --users, --page and --rtt are needed".to_owned(),
            ));
        };
        Ok(Asked {
            users,
            page,
            rtt,
            line: &flags.line,
            turnaround: flags.turnaround,
            basis: &flags.basis,
            sender: &flags.sender,
        })
    }
}

/// The least number of lines, or the users on each line.
pub(super) fn distribute(flags: &DistributeFlags, measured: Measured<'_>) -> Result<Report, Failure> {
    if let [before, after] = &flags.record[..] {
        return record::distribute(before, after, flags.turnaround, measured);
    }
    let asked = Asked::of(flags)?;
    lines(&asked, measured)
}

fn lines(flags: &Asked<'_>, measured: Measured<'_>) -> Result<Report, Failure> {
    for (place, line) in flags.line.iter().enumerate() {
        let twin = flags.line[..place].iter().find(|other| other.name == line.name);
        // Identical lines may share a name, because it does not matter who gets which.
        if twin.is_some_and(|twin| (twin.rate, twin.rtt) != (line.rate, line.rtt)) {
            return Err(Failure::Usage(format!(
                "two different lines are named `{}`",
                line.name
            )));
        }
    }
    let (packets, offers) = offers(flags)?;
    let given_users: Vec<u64> = flags.line.iter().filter_map(|line| line.users).collect();
    if let Some(objective) = flags.turnaround {
        if !given_users.is_empty() {
            return Err(Failure::Usage(
                "--turnaround counts lines, :USERS distributes users over given lines: use one of them"
                    .to_owned(),
            ));
        }
        let [offer] = &offers[..] else {
            return Err(Failure::Usage(format!(
                "--turnaround counts lines of one kind, but {} lines are given: give one",
                offers.len()
            )));
        };
        if let Basis::Steady { .. } = basis(flags.basis) {
            return Err(Failure::Usage(
                "--turnaround counts lines for users who ask at the same time; with --think, use `weir model dimension` to find the rate of one line".to_owned(),
            ));
        }
        let mut report = count::lines(flags.users, packets, offer, objective, measured)?;
        packets_note(flags, &mut report);
        return Ok(report);
    }
    if !given_users.is_empty() && given_users.len() != offers.len() {
        return Err(Failure::Usage(
            "some lines have :USERS and others do not: give it for all lines or for none".to_owned(),
        ));
    }
    if let Some(think) = flags.basis.think {
        return steady(flags, think, &given_users, measured);
    }
    if let Basis::Windows = basis(flags.basis) {
        return windows(flags, &given_users, measured);
    }
    let mut report = Report::default();
    if given_users.is_empty() {
        report.answer(split(flags.users, packets, &offers)?, measured);
    } else {
        check_sum(flags, &given_users)?;
        report.answer(given(packets, &offers, &given_users)?, measured);
        report.answer(split(flags.users, packets, &offers)?, measured);
    }
    packets_note(flags, &mut report);
    let found = |users| Ok(split(users, packets, &offers)?.answer.turnaround);
    let alone = |line: usize, users| {
        let one = std::slice::from_ref(&offers[line]);
        Ok(split(users, packets, one)?.answer.turnaround)
    };
    let given = match given_users.as_slice() {
        [] => None,
        users => Some(given(packets, &offers, users)?.answer.turnaround),
    };
    report.charts.push(split_chart(flags, given, found, alone)?);
    Ok(report)
}

/// Least number of users on a chart's axis.
const CHART_MIN: u64 = 10;

/// [`split_chart`] of the dynamic program's splits for every number of users.
fn curves_chart(flags: &Asked<'_>, given: Option<Seconds>, curves: &Curves) -> Result<Chart, DomainError> {
    let at = |users: u64| usize::try_from(users).unwrap_or(usize::MAX).saturating_sub(1);
    let found = |users| Ok(curves.split[at(users)]);
    let alone = |line: usize, users| Ok(curves.alone[line][at(users)]);
    split_chart(flags, given, found, alone)
}

/// Mean turnaround against users: optimal split, all users on each single line, and the given split.
fn split_chart(
    flags: &Asked<'_>,
    given: Option<Seconds>,
    found: impl Fn(u64) -> Result<Seconds, DomainError>,
    alone: impl Fn(usize, u64) -> Result<Seconds, DomainError>,
) -> Result<Chart, DomainError> {
    let at = counts(flags.users.max(CHART_MIN));
    let curve = |name: String, stroke, of: &dyn Fn(u64) -> Result<Seconds, DomainError>| {
        let points = at.iter().map(|&users| Ok((users as f64, of(users)?.0)));
        Ok::<_, DomainError>(Series {
            name,
            stroke,
            points: points.collect::<Result<_, DomainError>>()?,
        })
    };
    let mut series = vec![curve("optimal split".to_owned(), Stroke::Solid, &found)?];
    for (place, line) in flags.line.iter().enumerate() {
        let twin = flags.line[..place].iter().any(|other| other.name == line.name);
        // Identical lines share one curve.
        if !twin {
            let name = format!("all on {}", line.name);
            series.push(curve(name, Stroke::Dashed, &|users| alone(place, users))?);
        }
    }
    series.extend(given.map(|turnaround| Series {
        name: "given split".to_owned(),
        stroke: Stroke::Dots,
        points: vec![(flags.users as f64, turnaround.0)],
    }));
    Ok(Chart {
        title: format!("Mean turnaround against users, pages of {}", flags.page),
        x: Axis::linear("users"),
        y: Axis::logarithmic("mean turnaround, seconds"),
        series,
    })
}

fn packets_note(flags: &Asked<'_>, report: &mut Report) {
    if !flags.basis.document {
        report.notes.push(
            "packets of all users are served in turn and their round trips overlap: an upper bound of what a first-in \
             first-out queue does; --document adds round trips up, as the document does"
                .to_owned(),
        );
    }
}

fn check_sum(flags: &Asked<'_>, given_users: &[u64]) -> Result<(), Failure> {
    let all = given_users
        .iter()
        .fold(0u64, |sum, &users| sum.saturating_add(users));
    if all == flags.users {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "the users of the lines add up to {all}, but --users is {}",
        flags.users
    )))
}

/// Users served a window in turn, as in a first-in first-out queue.
fn windows(flags: &Asked<'_>, given_users: &[u64], measured: Measured<'_>) -> Result<Report, Failure> {
    let question = Question {
        users: flags.users,
        page: flags.page,
        // The value is not used, but must be a valid objective.
        turnaround: Seconds(1.0),
        rtt: flags.rtt,
        sender: flags.sender.sender(),
        setup: flags.sender.setup,
        basis: Basis::Windows,
        loss: 0.0,
    };
    let line = |line: &LineOffer| WindowLine {
        name: line.name.clone(),
        rate: line.rate,
        rtt: line.rtt.unwrap_or(flags.rtt),
    };
    let lines: Vec<WindowLine> = flags.line.iter().map(line).collect();
    let mut report = Report::default();
    let mut given = None;
    if !given_users.is_empty() {
        check_sum(flags, given_users)?;
        let explained = split_windows(&question, &lines, Some(given_users))?;
        given = Some(explained.answer.turnaround);
        report.answer(explained, measured);
    }
    report.answer(split_windows(&question, &lines, None)?, measured);
    let most = Question {
        users: flags.users.max(CHART_MIN),
        ..question
    };
    let curves = curves_windows(&most, &lines)?;
    report.charts.push(curves_chart(flags, given, &curves)?);
    Ok(report)
}

/// Number of packets of the page, and the offer of each line.
fn offers(flags: &Asked<'_>) -> Result<(u64, Vec<Offer>), DomainError> {
    let sender = sender(flags.sender, basis(flags.basis));
    sender.check()?;
    let packets = flags.page.0.div_ceil(sender.mss.0.max(1));
    let offer = |line: &LineOffer| -> Result<Offer, DomainError> {
        let rtt = line.rtt.unwrap_or(flags.rtt);
        let (packet_time, fixed) = if let Basis::Document(mode) = basis(flags.basis) {
            let transfer = Transfer {
                size: flags.page,
                rate: line.rate,
                rtt,
                mss: sender.mss,
            };
            let one = transfer.transaction(mode)?;
            (one.over(flags.sender.setup)? / one.n as f64, Seconds::ZERO)
        } else {
            let (wire, fixed) = wire_and_fixed(flags, line.rate, rtt)?;
            (wire / packets.max(1) as f64, fixed)
        };
        Ok(Offer {
            name: line.name.clone(),
            packet_time,
            fixed,
        })
    };
    Ok((packets, flags.line.iter().map(offer).collect::<Result<_, _>>()?))
}

/// The time a page occupies a line, and the remaining time of a transfer.
fn wire_and_fixed(flags: &Asked<'_>, rate: Rate, rtt: Seconds) -> Result<(Seconds, Seconds), DomainError> {
    let sender = flags.sender.sender();
    let sent = Path::new(rate, rtt)?.send(&sender, flags.page, sender.initial_window);
    let trips = rtt * f64::from(flags.sender.setup.round_trips() + 1);
    Ok((sent.wire, trips + sent.stalled))
}

/// Thinking users, distributed by a dynamic program over mean value analysis.
fn steady(
    flags: &Asked<'_>,
    think: Seconds,
    given_users: &[u64],
    measured: Measured<'_>,
) -> Result<Report, Failure> {
    let line = |line: &LineOffer| -> Result<SteadyLine, DomainError> {
        let (demand, latency) = wire_and_fixed(flags, line.rate, line.rtt.unwrap_or(flags.rtt))?;
        Ok(SteadyLine {
            name: line.name.clone(),
            demand,
            latency,
        })
    };
    let lines: Vec<SteadyLine> = flags.line.iter().map(line).collect::<Result<_, _>>()?;
    let users = usize::try_from(flags.users).unwrap_or(usize::MAX);
    let mut report = Report::default();
    let mut given = None;
    if !given_users.is_empty() {
        check_sum(flags, given_users)?;
        let explained = split_steady(users, think, &lines, Some(given_users))?;
        given = Some(explained.answer.turnaround);
        report.answer(explained, measured);
    }
    report.answer(split_steady(users, think, &lines, None)?, measured);
    let curves = curves_steady(flags.users.max(CHART_MIN), think, &lines)?;
    report.charts.push(curves_chart(flags, given, &curves)?);
    Ok(report)
}
