//! `weir trace`: reads packets from a file, a pipe or an interface, has them analyzed, and reports the results. The
//! crate `trace` interprets packets; here are files, formats and exit codes.

pub(crate) mod compared;
mod counters;
mod datagrams;
mod lines;
mod plot;
pub(crate) mod qlog;
mod quic;
mod rank;
mod report;
pub(crate) mod secrets;
mod security;
mod source;
pub(crate) mod taped;
mod text;
mod unpack;
mod visit;
mod words;

use crate::cli::trace::{Flags, Sheet};
use crate::failure::Failure;
use crate::output;
use crate::voice::Voice;
use ::trace::{Analyzer, ConnectionId, Fault, Filter, Frames, Limits, Options, ReadError, Thresholds};
use compared::Compared;
use qlog::{Qlog, Vantage};
use report::Report;
use std::io;
use std::path::Path;
use visit::Visit;

/// Runs the command.
///
/// # Errors
/// `Usage` for input that is no capture, `Invalid` for a damaged file or lost packets (after a report on the readable
/// part), `System` if the system refuses something.
pub(crate) fn run(flags: &Flags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    told(flags, voice, None)
}

/// Reports a visit: the text has only what concerns its objects. `flags` names the capture and the archive, `page` is the page's
/// URL, and `link` the link that it came over.
///
/// # Errors
/// As [`run`].
pub(crate) fn visited(flags: &Flags, page: &str, link: &str, voice: &Voice) -> Result<(), Failure> {
    told(flags, voice, Some(Subject { page, link }))
}

/// Reports a visit without a capture: the browser's own times. `report` is the file for the HTML page.
///
/// # Errors
/// `Usage` if the archive cannot be read, `System` if the report cannot be written.
pub(crate) fn unobserved(
    archive: &Path,
    page: &str,
    report: Option<&Path>,
    voice: &Voice,
) -> Result<(), Failure> {
    let mut visit = Visit::read(archive)?;
    visit.is_observed = false;
    visit.concerns(&Subject { page, link: "" });
    let joined = visit.joined(0);
    if let Some(path) = report {
        visit::write(path, &joined.page())?;
    }
    match voice.json {
        true => output::print(&joined.json().concat()),
        false if voice.reports() => output::print(joined.text().trim_start()),
        false => Ok(()),
    }
}

/// A visit that another command made.
struct Subject<'a> {
    page: &'a str,
    link: &'a str,
}

fn told(flags: &Flags, voice: &Voice, subject: Option<Subject<'_>>) -> Result<(), Failure> {
    possible(flags)?;
    if let Some(directory) = &flags.plot {
        plot::prepare(directory)?;
    }
    let qlog = flags.qlog.as_deref();
    let qlog = qlog
        .map(|path| Qlog::create(path, Vantage::Network, "name one connection with --connection"))
        .transpose()?;
    let compared = flags.compare_qlog.as_deref().map(Compared::read).transpose()?;
    let mut visit = flags.har.as_deref().map(Visit::read).transpose()?;
    if let (Some(visit), Some(subject)) = (&mut visit, &subject) {
        visit.concerns(subject);
    }
    let is_visit = subject.is_some();
    let mut report = Report::new(flags, voice, qlog, compared, visit);
    if is_visit {
        report.tell_the_visit_only(voice);
    }
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
        let summary = analyzer.summary();
        let seen = summary.connections.seen + summary.quic.connections;
        return Err(Failure::Usage(format!(
            "there is no connection {wanted}: the connections that pass the filter are numbered 1 to {seen}"
        )));
    }
    let series = analyzer.take_series();
    let summary = analyzer.summary();
    if let Some(qlog) = report.take_qlog() {
        qlog.write(summary.start_ns, voice)?;
    }
    let told = report.end(&summary, &series, &ending);
    if let (Some(path), Some(page)) = (&flags.report, report.take_page()) {
        visit::write(path, &page)?;
    }
    if let Some(directory) = &flags.plot {
        let series = source::again(flags, &report, series)?;
        plot::write(directory, &summary, &series, &report, voice)?;
    }
    match told {
        // A reader that closes the pipe has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::System(format!("cannot write the report: {error}"))),
        Ok(()) => {
            ending.judged()?;
            readable(&ending, &summary.frames)
        }
    }
}

/// Unreadable frames make the report incomplete, as a damaged file does.
fn readable(ending: &source::Ending, frames: &Frames) -> Result<(), Failure> {
    let (name, total) = (ending.name(), frames.total);
    if let Some(link) = frames.unknown_link_type {
        return Err(Failure::Invalid(format!(
            "{name}: {} of {total} frames have link type {link}, which is not supported",
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

/// Checks that clap cannot express.
fn possible(flags: &Flags) -> Result<(), Failure> {
    if flags.connection == Some(0) {
        return Err(Failure::Usage("connections are numbered from 1".to_owned()));
    }
    if flags.csv == Some(Sheet::Points) && flags.connection.is_none() {
        return Err(Failure::Usage(
            "`--csv points` needs one connection: name it with --connection".to_owned(),
        ));
    }
    // clap does not require --live where a file excludes it.
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
            "{flag} applies to live captures only: it needs --live IF"
        )));
    }
    if flags.packets == Some(0) {
        return Err(Failure::Usage("--packets is at least 1".to_owned()));
    }
    if flags.connections_max == 0 || flags.points_max == 0 {
        return Err(Failure::Usage(
            "--connections-max and --points-max are at least 1".to_owned(),
        ));
    }
    Ok(())
}

/// An analyzer configured by the flags; it records the points of connection `record`.
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
        packets: flags.qlog.is_some() || flags.compare_qlog.is_some(),
    };
    let filter = Filter {
        ports: flags.port.clone(),
        networks: flags.host.clone(),
    };
    let mut analyzer = Analyzer::with_filter(options, filter);
    secrets::equip(&mut analyzer);
    analyzer
}

/// Whether the input is not a capture at all.
fn is_no_capture(error: &ReadError) -> bool {
    matches!(error.fault, Fault::NotACapture { .. }) || (error.offset == 0 && error.frames == 0)
}
