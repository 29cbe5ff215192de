//! `weir cache`: what a cache would have done with logged requests. Reads a log, runs the server's own policies over
//! it and reports; decides nothing about policies.

mod lines;
mod log;
mod report;
mod shared;

use crate::cli::cache::{Command, Replay, Size};
use crate::failure::Failure;
use crate::voice::Voice;
use log::Log;
use report::{Report, Row, Subject};
use server::cache::Policy;
use server::replay::{Cost, Room, bound, simulate};
use std::io::{self, Write};
use units::Word as _;

/// Default cache sizes.
const SHARES: [f64; 5] = [0.01, 0.05, 0.10, 0.25, 0.50];

/// Runs the command to its end.
///
/// # Errors
/// `Usage` if nothing can be replayed, `System` if a log cannot be read.
pub(crate) fn run(command: &Command, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let Command::Replay(flags) = command;
    let text = if flags.shared {
        let report = shared::judge(flags, voice)?;
        match (voice.json, flags.csv) {
            (true, _) => report.json(),
            (_, true) => report.csv(),
            _ => report.table(),
        }
    } else {
        let log = log::read(flags, voice)?;
        let report = replay(flags, &log)?;
        match (voice.json, flags.csv) {
            (true, _) => report.json(),
            (_, true) => report.csv(),
            _ => report.table(),
        }
    };
    match io::stdout().write_all(text.as_bytes()) {
        // The reader closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::System(format!("cannot write the report: {error}"))),
        Ok(()) => Ok(()),
    }
}

fn replay<'l>(flags: &Replay, log: &'l Log) -> Result<Report<'l>, Failure> {
    let trace = &log.trace;
    let cost = match (flags.unit, flags.overhead) {
        (true, _) => Cost::One,
        (false, overhead) => Cost::Bytes {
            overhead: overhead.unwrap_or_default().0,
        },
    };
    let policies = match &flags.policy[..] {
        [] => Policy::ALL,
        some => some,
    };
    let shares = SHARES.map(Size::Share);
    let sizes = match &flags.size[..] {
        [] => &shares[..],
        some => some,
    };
    let prepared = bound::SpaceTime::new(trace, cost);
    let mut rows = Vec::new();
    for &size in sizes {
        let room = Room {
            capacity: capacity(size, log, cost)?,
            cost,
        };
        for &policy in policies {
            rows.push(Row {
                capacity: Some(room.capacity),
                subject: Subject::Policy(policy, simulate(trace, policy, room)),
            });
        }
        let name = match cost {
            Cost::One => "min",
            Cost::Bytes { .. } => "space-time",
        };
        rows.push(Row {
            capacity: Some(room.capacity),
            subject: Subject::Bound(name, bound::of(trace, &prepared, room)),
        });
    }
    rows.push(Row {
        capacity: None,
        subject: Subject::Bound("infinite", bound::infinite(trace)),
    });
    Ok(Report { log, cost, rows })
}

fn capacity(size: Size, log: &Log, cost: Cost) -> Result<u64, Failure> {
    let all = match cost {
        Cost::One => log.requested_files,
        Cost::Bytes { overhead } => log.requested_bytes + overhead * log.requested_files,
    };
    match (size, cost) {
        (Size::Number(number), _) => Ok(number),
        (Size::Bytes(bytes), Cost::Bytes { .. }) => Ok(bytes.0),
        (Size::Share(share), _) => Ok((share * all as f64).round() as u64),
        (Size::Bytes(bytes), Cost::One) => Err(Failure::Usage(format!(
            "with --unit a size is a number of files, not {bytes}; write --size 100 or --size 10%"
        ))),
    }
}
