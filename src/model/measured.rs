//! The measured side of document 004's experiment: every cell beside the published, modeled and simulated values,
//! with the error of each against the measurement.
//!
//! The median of the bursts represents a cell, with a bootstrap interval: a busy machine delays some bursts and
//! advances none.

use super::bursts::{Bursts, Measured};
use super::experiment::{Means, modeled, printed, simulated_with};
use super::grid::{Cell, Grid};
use super::stage::progress;
use crate::cli::model::ExperimentFlags;
use crate::failure::Failure;
use crate::voice::Voice;
use ::model::bootstrap::{DRAWS, estimate, resample};
use ::model::dimension::Basis;
use ::model::fit::Estimate;
use ::model::paper::Entry;
use ::model::tcp::Sender;
use ::model::transaction::Mode;
use chart::{Series, Stroke};
use tcp::Stack;
use units::{Bytes, Rate, Seed, median};

/// Outcome of a measurement.
pub(super) enum Outcome {
    /// The table, its notes, and a curve for each size.
    Done(Box<Grid>, Vec<String>, Vec<Series>),
    /// The machine refused, with the reason.
    Skipped(String),
}

/// Measures every cell.
pub(super) fn measure(
    flags: &ExperimentFlags,
    published: &[Entry],
    now: &(Stack, Stack),
    voice: &Voice,
) -> Result<Outcome, Failure> {
    let columns = [
        ("file", "B"),
        ("users", ""),
        ("mean", ""),
        ("printed, experiment", "ms"),
        ("Eqs. 2, 4", "ms"),
        ("windows", "ms"),
        ("simulated", "ms"),
        ("measured", "ms"),
        ("from", "ms"),
        ("to", "ms"),
        ("Eqs. 2, 4 error", "%"),
        ("windows error", "%"),
        ("simulated error", "%"),
    ];
    let mut grid = Grid::new(
        "document 004's experiment with this kernel over an emulated link",
        &columns,
    );
    let others = flags.users.iter().filter(|users| **users != 1).count();
    let bar = progress(flags.size.len() * (others + 1), "cells measured", voice);
    let (mut curves, mut latest) = (Vec::new(), 0.0_f64);
    for &size in &flags.size {
        let head = match head(flags, size)? {
            Ok(head) => head,
            Err(why) => return Ok(Outcome::Skipped(why)),
        };
        let content = Bytes(size.0.saturating_sub(head.0).max(1));
        let mut curve = Vec::new();
        let alone = cell(flags, 1, content)?;
        let alone = match alone {
            Ok(measured) => Row::of(flags, now, 1, &measured)?,
            Err(why) => return Ok(Outcome::Skipped(why)),
        };
        bar.inc(1);
        for &users in &flags.users {
            let row = if users == 1 {
                alone.clone()
            } else {
                let measured = cell(flags, users, content)?;
                bar.inc(1);
                match measured {
                    Ok(measured) => Row::of(flags, now, users, &measured)?,
                    Err(why) => return Ok(Outcome::Skipped(why)),
                }
            };
            latest = latest.max(row.late_ms);
            let spread = row.turnaround(flags.seed);
            curve.push((f64::from(users), spread.value));
            grid.row(row.cells(size, "turnaround", published, spread, |means| {
                means.turnaround.as_millis()
            }));
            if users > 1 {
                let waiting = row.waiting(&alone, flags.seed);
                grid.row(row.cells(size, "waiting", published, waiting, |means| {
                    means.waiting.as_millis()
                }));
            }
        }
        curves.push(Series {
            name: "measured".to_owned(),
            stroke: Stroke::Dots,
            points: curve,
        });
    }
    bar.finish_and_clear();
    Ok(Outcome::Done(Box::new(grid), notes(flags, latest), curves))
}

fn notes(flags: &ExperimentFlags, latest_ms: f64) -> Vec<String> {
    let link = bursts(flags, 1).link();
    let text = |path| {
        std::fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    vec![
        format!(
            "measured: weir link '{link}' between weir serve and weir load, kernel {}, {} congestion control, {} bursts \
             a cell: median of their means with its 95 % bootstrap interval; responses have the size with their header \
             section; error: of the other columns, in percent of the measurement",
            text("/proc/sys/kernel/osrelease"),
            text("/proc/sys/net/ipv4/tcp_congestion_control"),
            flags.bursts
        ),
        format!(
            "measured times run from the intended start time to the last byte: they include the processor time of client, \
             server and link, and the client's own lateness, on average {latest_ms:.3} ms in the worst cell"
        ),
    ]
}

fn bursts(flags: &ExperimentFlags, users: u32) -> Bursts {
    Bursts {
        rate: flags.rate,
        rtt: flags.rtt,
        users,
        bursts: flags.bursts,
    }
}

fn cell(flags: &ExperimentFlags, users: u32, content: Bytes) -> Result<Result<Measured, String>, Failure> {
    bursts(flags, users).measure(content)
}

/// Bytes that the server sends before a file of about this size.
fn head(flags: &ExperimentFlags, size: Bytes) -> Result<Result<Bytes, String>, Failure> {
    let probe = Bursts {
        rate: Rate(1_000_000_000),
        bursts: 1,
        ..bursts(flags, 1)
    };
    let measured = probe.measure(size)?;
    Ok(measured.map(|measured| Bytes(measured.answer.0.saturating_sub(size.0))))
}

/// The data of one number of users and one size.
#[derive(Clone)]
struct Row {
    users: u32,
    measured: Vec<f64>,
    late_ms: f64,
    equations: Means,
    windows: Means,
    simulated: Means,
}

/// The median of seconds, in milliseconds; NaN without any.
fn middle_ms(seconds: &[f64]) -> f64 {
    1e3 * median(seconds).unwrap_or(f64::NAN)
}

impl Row {
    /// The formulas and the simulation for exactly the response's bytes.
    fn of(
        flags: &ExperimentFlags,
        now: &(Stack, Stack),
        users: u32,
        measured: &Measured,
    ) -> Result<Row, Failure> {
        let size = measured.answer;
        // Linux sends timestamps in every segment, which reduce its data.
        let sender = Sender::modern(Bytes(1460));
        Ok(Row {
            users,
            measured: measured.turnarounds.clone(),
            late_ms: measured.late.as_millis(),
            equations: modeled(flags, sender, users, size, Basis::Document(Mode::Exact))?,
            windows: modeled(flags, sender, users, size, Basis::Windows)?,
            simulated: simulated_with(flags, now, users, size)?,
        })
    }

    /// Median turnaround in milliseconds.
    fn turnaround(&self, seed: Seed) -> Estimate {
        estimate(middle_ms(&self.measured), DRAWS, seed, |rng| {
            middle_ms(&resample(&self.measured, rng))
        })
    }

    /// Additional time caused by other users, in milliseconds.
    fn waiting(&self, alone: &Row, seed: Seed) -> Estimate {
        let apart = |all: &[f64], one: &[f64]| middle_ms(all) - middle_ms(one);
        estimate(apart(&self.measured, &alone.measured), DRAWS, seed, |rng| {
            apart(&resample(&self.measured, rng), &resample(&alone.measured, rng))
        })
    }

    fn cells(
        &self,
        size: Bytes,
        mean: &str,
        published: &[Entry],
        measured: Estimate,
        pick: fn(Means) -> f64,
    ) -> Vec<Cell> {
        let ms = |value: f64| Cell::Decimals(value, 2);
        let error = |means: Means| Cell::Decimals(100.0 * (pick(means) / measured.value - 1.0), 1);
        vec![
            size.0.into(),
            self.users.into(),
            mean.into(),
            printed(published, "exp", size, self.users, mean),
            ms(pick(self.equations)),
            ms(pick(self.windows)),
            ms(pick(self.simulated)),
            ms(measured.value),
            ms(measured.low),
            ms(measured.high),
            error(self.equations),
            error(self.windows),
            error(self.simulated),
        ]
    }
}
