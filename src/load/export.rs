//! Results as files: JSON lines, HTML page, CSV by second, histogram log, summaries of a gate. Replaces existing files.

use super::gate::gate;
use super::page::page;
use super::refused;
use super::report::{Report, row_length};
use crate::cli::load::OutputFlags;
use crate::cli::summary::SummaryFlags;
use crate::failure::Failure;
use crate::gate::Check;
use ::load::run::Parts;
use ::load::times::Times;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::UNIX_EPOCH;
use units::Duration;

/// Nanoseconds per millisecond: the histogram log gives the longest time of a line in milliseconds.
const NS_PER_MS: f64 = 1e6;

/// Checks before a run that its results can be written.
///
/// # Errors
/// `Usage` if two results name one file, `System` with the file that cannot be written.
pub(super) fn prepare(rank: u32, to: &OutputFlags) -> Result<(), Failure> {
    apart(rank, to)?;
    for (_, path) in named(to) {
        let path = of_rank(path, rank);
        let tried = if path.is_dir() {
            Err(io::ErrorKind::IsADirectory.into())
        } else if path.exists() && !path.is_file() {
            // A pipe or terminal is opened only for writing the result.
            Ok(())
        } else {
            let beside = beside(&path);
            put(&beside, b"").and_then(|()| std::fs::remove_file(&beside))
        };
        tried.map_err(|error| refused(&format!("cannot write `{}`", path.display()), &error))?;
    }
    Ok(())
}

/// Checks that no two results name one file.
///
/// # Errors
/// `Usage`, naming the file and the flags.
pub(super) fn apart(rank: u32, to: &OutputFlags) -> Result<(), Failure> {
    let mut taken: Vec<(&str, PathBuf)> = Vec::new();
    for (flag, path) in named(to) {
        let path = of_rank(path, rank);
        // A device or pipe may receive several results.
        if path.exists() && !path.is_file() {
            continue;
        }
        let place = place(&path);
        if let Some((other, _)) = taken.iter().find(|(_, before)| *before == place) {
            return Err(Failure::Usage(format!(
                "`{other}` and `{flag}` both name `{}`; the second would replace the first",
                path.display()
            )));
        }
        taken.push((flag, place));
    }
    Ok(())
}

/// The requested files with their flags.
fn named(to: &OutputFlags) -> impl Iterator<Item = (&'static str, &Path)> {
    let all = [
        ("--out", &to.out),
        ("--html", &to.html),
        ("--csv", &to.csv),
        ("--hdr", &to.hdr),
        ("--markdown", &to.summary.markdown),
        ("--junit", &to.summary.junit),
    ];
    all.into_iter()
        .filter_map(|(flag, path)| Some((flag, path.as_deref()?)))
}

/// The canonical path of a file that may not exist yet.
fn place(path: &Path) -> PathBuf {
    if let Ok(place) = path.canonicalize() {
        return place;
    }
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return path.to_owned(),
    };
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    path.file_name().map_or(folder.clone(), |name| folder.join(name))
}

/// A file name with `{rank}` replaced by this machine's rank.
fn of_rank(path: &Path, rank: u32) -> PathBuf {
    PathBuf::from(path.to_string_lossy().replace("{rank}", &rank.to_string()))
}

/// Writes every requested file, also after one could not be written.
///
/// # Errors
/// `System`, naming the files that could not be written.
pub(super) fn write(parts: &Parts, report: &Report, to: &OutputFlags) -> Result<(), Failure> {
    Failure::of_all([
        write_results(parts, report, "", to),
        write_gate(report, None, &to.summary),
    ])
}

/// Writes the summaries of a report's gate. A search adds its objective.
///
/// # Errors
/// `System`, naming the file that could not be written.
pub(super) fn write_gate(
    report: &Report,
    objective: Option<Check>,
    to: &SummaryFlags,
) -> Result<(), Failure> {
    let mut gate = gate(report);
    gate.checks.extend(objective);
    gate.write(to, |path, content| {
        whole(&of_rank(path, report.run.rank), content)
    })
}

/// Writes every requested file for the best trial of a search, and the search's answer as a line of `--out` and as a
/// check.
///
/// # Errors
/// `System`, naming the file that could not be written.
pub(super) fn write_searched(
    parts: &Parts,
    report: &Report,
    found: &str,
    objective: Check,
    to: &OutputFlags,
) -> Result<(), Failure> {
    Failure::of_all([
        write_results(parts, report, found, to),
        write_gate(report, Some(objective), &to.summary),
    ])
}

/// Writes the files of the run itself.
///
/// # Errors
/// `System`, naming the file that could not be written.
fn write_results(parts: &Parts, report: &Report, found: &str, to: &OutputFlags) -> Result<(), Failure> {
    let put = |path: &Option<PathBuf>, content: &dyn Fn() -> io::Result<Vec<u8>>| {
        let Some(path) = path.as_deref().map(|path| of_rank(path, report.run.rank)) else {
            return Ok(());
        };
        content()
            .and_then(|content| whole(&path, &content))
            .map_err(|error| refused(&format!("cannot write `{}`", path.display()), &error))
    };
    Failure::of_all([
        put(&to.out, &|| lines(parts, report, found)),
        put(&to.html, &|| Ok(page(report).into_bytes())),
        put(&to.csv, &|| Ok(table(report).into_bytes())),
        put(&to.hdr, &|| log(report)),
    ])
}

/// Writes a temporary file and renames it, so that a reader never sees half of a file. A pipe or a terminal
/// is written directly.
pub(crate) fn whole(path: &Path, content: &[u8]) -> io::Result<()> {
    if path.exists() && !path.is_file() {
        return put(path, content);
    }
    let beside = beside(path);
    let written = put(&beside, content).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // The temporary file may not exist.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// Writes a file that must not exist yet, as [`whole`] does: nobody sees half of it, and a full disk leaves none.
///
/// # Errors
/// `AlreadyExists` if it does, or the system's.
pub(super) fn fresh(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = beside(path);
    let written = put(&beside, content)
        // Only now does a server of NFS say that its disk is full.
        .and_then(|()| OpenOptions::new().write(true).open(&beside)?.sync_all())
        .and_then(|()| name(&beside, path));
    // After a rename, there is none.
    let _ = std::fs::remove_file(&beside);
    written
}

/// Gives a file another name that must not exist yet. The earlier name may stay.
fn name(file: &Path, name: &Path) -> io::Result<()> {
    match std::fs::hard_link(file, name) {
        // A server of NFS that is asked twice, because its first answer was lost, finds its own link.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match file.metadata()?.nlink() {
            2 => Ok(()),
            _ => Err(error),
        },
        // A file system without links, FAT for instance.
        Err(_) if name.symlink_metadata().is_err() => std::fs::rename(file, name),
        other => other,
    }
}

/// Path of the temporary file. On shared storage, a process on another machine or in another container may have the same number.
pub(super) fn beside(path: &Path) -> PathBuf {
    static CHANCE: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("temporary file"));
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}-{:016x}.part", std::process::id(), *CHANCE));
    PathBuf::from(beside)
}

fn put(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).open(path)?;
    file.write_all(content)
}

/// The parts of a merge, so that it can be merged again, then the result, then the answer of a search.
fn lines(parts: &Parts, report: &Report, found: &str) -> io::Result<Vec<u8>> {
    let mut text = String::new();
    if !report.is_part() {
        for run in parts.runs() {
            let part = Parts::of([run.clone()]).map_err(io::Error::other)?;
            text += &Report::of_rank(&part).line();
            text.push('\n');
        }
    }
    text += &report.line();
    text.push('\n');
    if !found.is_empty() {
        text += found;
        text.push('\n');
    }
    Ok(text.into_bytes())
}

/// The quantiles of a second in the CSV.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 1.0];

/// The seconds of the run as CSV (RFC 4180, but with line feeds, as most tools write it). An unknown quantile is empty.
fn table(report: &Report) -> String {
    let mut text = String::from(
        "second,begun,files,bytes,errors,response_p50_ms,response_p90_ms,response_p99_ms,response_max_ms,\
         replies_3xx,replies_4xx,replies_5xx,failed,corrected_p50_ms,corrected_p90_ms,corrected_p99_ms,corrected_max_ms,\
         length_s\n",
    );
    let interval = report.run.expected_interval();
    let quantile = |text: &mut String, time: Option<Duration>| {
        let _ = match time {
            // A histogram keeps three digits.
            Some(time) => write!(text, ",{:.4}", time.as_secs_f64() * 1e3),
            None => write!(text, ","),
        };
    };
    for (number, second) in report.seconds().iter().enumerate() {
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            text,
            "{number},{},{},{},{}",
            second.begun, second.files, second.bytes, second.errors
        );
        for share in QUANTILES {
            quantile(&mut text, second.response.quantile_with(share, second.failed));
        }
        let _ = write!(
            text,
            ",{},{},{},{}",
            second.replies_3xx, second.replies_4xx, second.replies_5xx, second.failed
        );
        let corrected = interval.filter(|_| second.response.count() > 0);
        let corrected = corrected.map(|interval| second.response.times().corrected(interval));
        for share in QUANTILES {
            let times = corrected.as_ref();
            quantile(
                &mut text,
                times.and_then(|times| times.quantile_with(share, second.failed)),
            );
        }
        // Rounded to a microsecond.
        let length = (row_length(report.duration_s, number) * 1e6).round() / 1e6;
        let _ = writeln!(text, ",{length}");
    }
    text
}

/// Histograms in nanoseconds: response times by second, all others over the whole run.
fn log(report: &Report) -> io::Result<Vec<u8>> {
    let run = &report.run;
    let record = &run.record;
    // Second 0 is the end of the warm-up.
    let began = UNIX_EPOCH + Duration::try_from_secs_f64(run.started_at + run.warmup_s).unwrap_or_default();
    let mut out = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(&format!("[{}: {}]", run.program, run.command.join(" ")))
        .add_comment(&format!(
            "[seed {}, plan {}, times in nanoseconds]",
            run.seed, run.plan
        ))
        .with_start_time(began)
        .with_base_time(began)
        .with_max_value_divisor(NS_PER_MS)
        .begin_log_with(&mut out, &mut serializer)?;
    let mut add = |tag: &str, start: Duration, long: Duration, times: &Times| {
        log.write_histogram(times.histogram(), start, long, Tag::new(tag))
            .map_err(|error| io::Error::other(format!("{error:?}")))
    };
    let second = Duration::from_secs(1);
    let rows = report.seconds().len();
    for (number, counted) in record.seconds.iter().enumerate() {
        // Seconds behind the measured time are whole ones.
        let long = match number < rows {
            true => Duration::from_secs_f64(row_length(report.duration_s, number)),
            false => second,
        };
        if counted.response.count() > 0 {
            add(
                "response",
                second * number as u32,
                long,
                &counted.response.times(),
            )?;
        }
    }
    let whole = Duration::try_from_secs_f64(report.duration_s).unwrap_or_default();
    for (tag, times) in [
        ("failed", &record.failed),
        ("service", &record.service),
        ("object", &record.object),
        ("connect", &record.connect),
        ("handshake", &record.handshake),
        ("first-byte", &record.first_byte),
        ("transfer", &record.transfer),
        ("lag", &record.lag),
        ("tick", &record.tick),
    ] {
        if times.count() > 0 {
            add(tag, Duration::ZERO, whole, times)?;
        }
    }
    Ok(out)
}
