//! Document 004's experiment (section 3): for each file and number of users, published values, its equations, windows
//! of today's TCP, simulated TCP, and on request this kernel ([`measured`]).

use super::document;
use super::grid::{Cell, Grid};
use super::measured::{self, Outcome};
use super::report::{Published, Report};
use super::simulate::{Scene, Simulated, opening, sender, stack};
use crate::cli::model::ExperimentFlags;
use crate::failure::Failure;
use crate::voice::Voice;
use ::model::dimension::{Basis, Question};
use ::model::paper::{Entry, Table};
use ::model::tcp::Sender;
use ::model::tcp::setup::Setup;
use ::model::transaction::Mode;
use ::model::{DomainError, Seconds};
use chart::{Axis, Chart, Series, Stroke};
use tcp::Stack;
use units::{Bytes, Rate};

/// Published, modeled, simulated and, on request, measured values.
pub(super) fn experiment(flags: &ExperimentFlags, voice: &Voice) -> Result<Report, Failure> {
    let then = (stack(&flags.client_stack)?, stack(&flags.server_stack)?);
    let now = (stack("linux-6")?, stack("linux-6")?);
    let [sender_then, sender_now] = [&then, &now].map(|(client, server)| sender(client, server));
    let published = published_entries(flags)?;
    let columns = [
        ("file", "B"),
        ("users", ""),
        ("mean", ""),
        ("printed, computed", "ms"),
        ("printed, experiment", "ms"),
        ("Eqs. 2, 4", "ms"),
        ("windows, then", "ms"),
        ("simulated, then", "ms"),
        ("Eqs. 2, 4 error", "%"),
        ("windows error", "%"),
        ("windows, now", "ms"),
        ("simulated, now", "ms"),
        ("windows error now", "%"),
    ];
    let mut grid = Grid::new("document 004's experiment", &columns);
    let mut charts = Vec::new();
    for &size in &flags.size {
        let mut lines: [Vec<(f64, f64)>; 5] = Default::default();
        let alone = [&then, &now].map(|stacks| simulated(flags, stacks, 1, size));
        let [alone_then, alone_now] = alone;
        let (alone_then, alone_now) = (alone_then?, alone_now?);
        for &users in &flags.users {
            let cell = Cells {
                equations: modeled(flags, sender_then, users, size, Basis::Document(Mode::Exact))?,
                windows_then: modeled(flags, sender_then, users, size, Basis::Windows)?,
                windows_now: modeled(flags, sender_now, users, size, Basis::Windows)?,
                then: beyond(simulated(flags, &then, users, size)?, alone_then),
                now: beyond(simulated(flags, &now, users, size)?, alone_now),
            };
            let at = |span: Seconds| (f64::from(users), span.as_millis());
            let drawn = [
                cell.equations,
                cell.windows_then,
                cell.then,
                cell.windows_now,
                cell.now,
            ];
            for (line, means) in lines.iter_mut().zip(drawn) {
                line.push(at(means.turnaround));
            }
            grid.row(cell.row(size, users, "turnaround", &published, |means| means.turnaround));
            if users > 1 {
                grid.row(cell.row(size, users, "waiting", &published, |means| means.waiting));
            }
        }
        let [equations, windows_then, then, windows_now, now] = lines;
        let series = |name: &str, stroke, points| Series {
            name: name.to_owned(),
            stroke,
            points,
        };
        charts.push(Chart {
            title: format!(
                "Mean turnaround of users who ask at the same time, files of {} B",
                size.0
            ),
            x: Axis::linear("users"),
            y: Axis::linear("milliseconds"),
            series: vec![
                series("Eq. 4", Stroke::Dashed, equations),
                series("windows, then", Stroke::Solid, windows_then),
                series("simulated, then", Stroke::Dots, then),
                series("windows, now", Stroke::Solid, windows_now),
                series("simulated, now", Stroke::Dots, now),
            ],
        });
    }
    let mut report = Report {
        grids: vec![grid],
        charts,
        published: vec![
            document::published("printed, computed; printed, experiment", Table::Two),
            Published {
                shown: "simulated",
                source: "parameters of the stacks, crates/tcp/data/stacks.toml".to_owned(),
                provenance: "mixed, some recalled or assumed: each is tagged there".to_owned(),
            },
        ],
        notes: notes(flags),
        ..Report::default()
    };
    if flags.measure {
        match measured::measure(flags, &published, &now, voice)? {
            Outcome::Done(grid, notes, curves) => {
                // The measurements come first: they were requested.
                report.grids.insert(0, *grid);
                report.notes.extend(notes);
                for (chart, curve) in report.charts.iter_mut().zip(curves) {
                    chart.series.push(curve);
                }
            }
            Outcome::Skipped(why) => report.notes.push(format!("measured: skipped: {why}")),
        }
    }
    Ok(report)
}

/// The printed values, which apply only to the document's own link.
fn published_entries(flags: &ExperimentFlags) -> Result<Vec<Entry>, DomainError> {
    let is_the_documents = flags.rate == Rate::mbit(10) && (flags.rtt.0 - 0.000_5).abs() < 1e-12;
    if is_the_documents {
        Table::Two.entries()
    } else {
        Ok(Vec::new())
    }
}

fn notes(flags: &ExperimentFlags) -> Vec<String> {
    vec![
        format!(
            "{} and round trip {}; columns `then`: stack {} for the client and {} for the server; columns `now`: linux-6 on both",
            flags.rate, flags.rtt, flags.client_stack, flags.server_stack
        ),
        "printed, experiment: of these only T with one user was measured; the document's t_w and t_T are Eqs. 2 and 4 \
         applied to it"
            .to_owned(),
        "error: model minus simulation, in percent of the simulation; waiting is turnaround minus that of a single user"
            .to_owned(),
        "windows: includes transmission of the handshake and the request and the server's time, which Eqs. 2 and 4 \
         leave out; users queue at the slower of processor and line"
            .to_owned(),
    ]
}

/// The two means that the document uses.
#[derive(Clone, Copy)]
pub(super) struct Means {
    pub(super) turnaround: Seconds,
    pub(super) waiting: Seconds,
}

/// All values of one file and number of users.
struct Cells {
    equations: Means,
    windows_then: Means,
    windows_now: Means,
    then: Means,
    now: Means,
}

impl Cells {
    fn row(
        &self,
        size: Bytes,
        users: u32,
        mean: &str,
        published: &[Entry],
        pick: fn(Means) -> Seconds,
    ) -> Vec<Cell> {
        let error = |model: Means, simulated: Means| -> Cell {
            let percent = 100.0 * (pick(model).0 / pick(simulated).0 - 1.0);
            Cell::Decimals(percent, 1)
        };
        let ms = |means: Means| Cell::Decimals(pick(means).as_millis(), 2);
        vec![
            size.0.into(),
            users.into(),
            mean.into(),
            printed(published, "comp", size, users, mean),
            printed(published, "exp", size, users, mean),
            ms(self.equations),
            ms(self.windows_then),
            ms(self.then),
            error(self.equations, self.then),
            error(self.windows_then, self.then),
            ms(self.windows_now),
            ms(self.now),
            error(self.windows_now, self.now),
        ]
    }
}

/// The document's value of this cell, computed (`comp`) or from its experiment (`exp`).
pub(super) fn printed(published: &[Entry], kind: &str, size: Bytes, users: u32, mean: &str) -> Cell {
    let quantity = match (users, mean) {
        (1, _) => "m=all TCP T".to_owned(),
        (_, "waiting") => format!("m={users} TCP t_w"),
        _ => format!("m={users} TCP t_T"),
    };
    let key = format!("{kind} {} B {quantity}", size.0);
    let entry = published.iter().find(|entry| entry.key == key);
    entry.map_or(Cell::Missing, |entry| {
        Cell::Decimals(entry.printed, entry.decimals as usize)
    })
}

/// A formula's value of this cell.
pub(super) fn modeled(
    flags: &ExperimentFlags,
    sender: Sender,
    users: u32,
    size: Bytes,
    basis: Basis,
) -> Result<Means, DomainError> {
    let question = Question {
        users: u64::from(users),
        page: size,
        // Only the consequence of the rate is needed.
        turnaround: Seconds(1.0),
        rtt: flags.rtt,
        sender,
        setup: Setup::Tcp,
        basis,
        loss: 0.0,
    };
    let parts = question.turnaround_at(flags.rate)?;
    // The document's equations know round trips only; cells served in windows are compared with packets.
    let opening = match basis {
        Basis::Windows => opening(&sender, flags.rate),
        _ => Seconds(0.0),
    };
    let line = Means {
        turnaround: Seconds(parts.total().0 + opening.0),
        waiting: parts.sharing,
    };
    Ok(match basis {
        Basis::Windows => served(line, flags.server_time, users),
        _ => line,
    })
}

/// The effect of a line on users whose responses a single processor makes in sequence, each in `time`.
///
/// Users pass first the processor, then the line. A slower line never idles after the first response; with a slower
/// processor, nobody waits at the line.
fn served(line: Means, time: Seconds, users: u32) -> Means {
    let alone = line.turnaround - line.waiting + time;
    let at_processor = time * (f64::from(users - 1) / 2.0);
    let waiting = Seconds(line.waiting.0.max(at_processor.0));
    Means {
        turnaround: alone + waiting,
        waiting,
    }
}

fn simulated(
    flags: &ExperimentFlags,
    (client, server): &(Stack, Stack),
    users: u32,
    size: Bytes,
) -> Result<Simulated, Failure> {
    let scene = Scene {
        rate: flags.rate,
        rtt: flags.rtt,
        local: true,
        client: client.clone(),
        server: server.clone(),
        users: users as usize,
        page: size,
        server_time: flags.server_time,
        seed: flags.seed,
    };
    let simulated = scene.burst()?;
    if simulated.broken > 0 {
        return Err(Failure::Failed(format!(
            "{} of {users} simulated users never received {size}: the simulation is not comparable with the model",
            simulated.broken
        )));
    }
    Ok(simulated)
}

/// Both means of the simulation.
pub(super) fn simulated_with(
    flags: &ExperimentFlags,
    stacks: &(Stack, Stack),
    users: u32,
    size: Bytes,
) -> Result<Means, Failure> {
    let alone = simulated(flags, stacks, 1, size)?;
    Ok(beyond(simulated(flags, stacks, users, size)?, alone))
}

/// Waiting is the additional time caused by other users.
fn beyond(all: Simulated, alone: Simulated) -> Means {
    Means {
        turnaround: all.turnaround,
        waiting: all.turnaround - alone.turnaround,
    }
}
