//! `weir trace`: takes packets from a file, a pipe or an interface, has them analyzed, and says what came of it.
//! What packets mean the crate `trace` decides; here are files, forms and exit codes.

mod counters;
mod lines;
mod plot;
mod rank;
mod report;
mod source;
mod text;
mod unpack;
mod words;

use crate::cli::trace::{Flags, Sheet};
use crate::cli::{Failure, Voice};
use ::trace::{Analyzer, ConnectionId, Fault, Filter, Frames, Limits, Options, ReadError, Thresholds};
use report::Report;
use std::io;

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for what is no capture, `Invalid` for one that is damaged or lost packets (what could be read has been
/// reported), `System` for what the system refuses.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    possible(flags)?;
    if let Some(directory) = &flags.plot {
        plot::prepare(directory)?;
    }
    let mut report = Report::new(flags, voice);
    let mut analyzer = analyzer(flags, flags.connection);
    let ending = match (&flags.live, &flags.file) {
        (Some(interface), _) => source::live(interface, flags, voice, &mut analyzer, &mut report)?,
        (None, Some(path)) => source::file(path, flags, voice, &mut analyzer, &mut report)?,
        (None, None) => return Err(Failure::Usage("name a capture file, or --live IF".to_owned())),
    };
    if ending.is_no_capture() {
        return Err(ending.failure());
    }
    if let Some(wanted) = flags.connection
        && !report.has_found()
    {
        let seen = analyzer.summary().connections.seen;
        return Err(Failure::Usage(format!(
            "there is no connection {wanted}: those that pass the filter are numbered 1 to {seen}"
        )));
    }
    let series = analyzer.take_series();
    let summary = analyzer.summary();
    let told = report.end(&summary, &series, &ending);
    if let Some(directory) = &flags.plot {
        let series = source::again(flags, &report, series)?;
        plot::write(directory, &summary, &series, &report, voice)?;
    }
    match told {
        // Whoever reads it has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::System(format!("cannot write the report: {error}"))),
        Ok(()) => {
            ending.judged()?;
            readable(&ending, &summary.frames)
        }
    }
}

/// Frames that could not be read make the report incomplete, as a damaged file does.
fn readable(ending: &source::Ending, frames: &Frames) -> Result<(), Failure> {
    let (name, total) = (ending.name(), frames.total);
    if let Some(link) = frames.unknown_link_type {
        return Err(Failure::Invalid(format!(
            "{name}: {} of {total} frames are of link type {link}, which is not understood",
            frames.unknown_link
        )));
    }
    if frames.cut_headers > 0 {
        return Err(Failure::Invalid(format!(
            "{name}: {} of {total} frames were cut before the end of their headers; capture with a larger snapshot \
             length (tcpdump -s 0)",
            frames.cut_headers
        )));
    }
    Ok(())
}

/// What no flag declaration can say.
fn possible(flags: &Flags) -> Result<(), Failure> {
    if flags.connection == Some(0) {
        return Err(Failure::Usage("connections are numbered from 1".to_owned()));
    }
    if flags.csv == Some(Sheet::Points) && flags.connection.is_none() {
        return Err(Failure::Usage(
            "`--csv points` is about one connection: name it with --connection".to_owned(),
        ));
    }
    // clap does not ask for --live where a file excludes it.
    let is_live_only = [
        ("--duration", flags.duration.is_some()),
        ("--packets", flags.packets.is_some()),
        ("--snaplen", flags.snaplen.is_some()),
        ("--promiscuous", flags.promiscuous),
    ];
    if let Some((flag, _)) = is_live_only.iter().find(|(_, is_given)| *is_given)
        && flags.live.is_none()
    {
        return Err(Failure::Usage(format!(
            "{flag} is about a live capture: it needs --live IF, and says nothing about a file"
        )));
    }
    if flags.packets == Some(0) {
        return Err(Failure::Usage(
            "--packets is at least 1: a capture ends when so many have come".to_owned(),
        ));
    }
    if flags.connections_max == 0 || flags.points_max == 0 {
        return Err(Failure::Usage(
            "--connections-max and --points-max are at least 1".to_owned(),
        ));
    }
    Ok(())
}

/// An analyzer as the flags want it, which records the points of `record`.
fn analyzer(flags: &Flags, record: Option<u64>) -> Analyzer {
    let wants_points = flags.plot.is_some() || flags.csv == Some(Sheet::Points);
    let options = Options {
        limits: Limits {
            connections: flags.connections_max,
            points: flags.points_max,
            ..Limits::default()
        },
        thresholds: Thresholds {
            stall: flags.stall,
            delayed_ack: flags.delayed_ack,
            ..Thresholds::default()
        },
        record: record.filter(|_| wants_points).map(ConnectionId),
    };
    let filter = Filter {
        ports: flags.port.clone(),
        networks: flags.host.clone(),
    };
    Analyzer::with_filter(options, filter)
}

/// Whether the bytes were never a capture.
fn is_no_capture(error: &ReadError) -> bool {
    matches!(error.fault, Fault::NotACapture { .. }) || (error.offset == 0 && error.frames == 0)
}
