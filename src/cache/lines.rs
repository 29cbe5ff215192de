//! The lines of access logs, one log after another, with a progress display on a terminal. Decides nothing about requests.

use crate::failure::Failure;
use crate::voice::Voice;
use accesslog::{Fault, Limits, Reader, Record};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use runtime::clock;
use std::io::{self, BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use units::{Duration, Instant};

/// Delay before the first progress display.
const SHOWN_AFTER: Duration = Duration::from_secs(1);
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// Lines between two looks at the clock.
const LINES_PER_LOOK: u64 = 4_096;

/// Where a line is.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'l> {
    /// Path of the log, as the user wrote it.
    pub(super) log: &'l str,
    /// Number of the line, from 1.
    pub(super) number: u64,
}

/// Calls `take` with each line of these logs until it breaks off. `-` is standard input.
///
/// # Errors
/// Those of `take`; `Usage` if a log is missing or is no log, `System` if it cannot be read.
pub(super) fn each(
    logs: &[PathBuf],
    voice: &Voice,
    mut take: impl FnMut(At<'_>, Result<Record<'_>, Fault>) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    let mut progress = Progress::new(voice);
    for path in logs {
        let name = path.display().to_string();
        let flow = match path.as_os_str() == "-" {
            true => read(io::stdin().lock(), &name, &mut progress, &mut take)?,
            false => {
                let file = BufReader::with_capacity(256 << 10, open(path)?);
                read(file, &name, &mut progress, &mut take)?
            }
        };
        if flow.is_break() {
            break;
        }
    }
    progress.bar.finish_and_clear();
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a command reads the file it is given")]
fn open(path: &Path) -> Result<std::fs::File, Failure> {
    std::fs::File::open(path).map_err(|error| Failure::of_log(path, &error))
}

fn read(
    input: impl BufRead,
    name: &str,
    progress: &mut Progress,
    take: &mut impl FnMut(At<'_>, Result<Record<'_>, Fault>) -> Result<ControlFlow<()>, Failure>,
) -> Result<ControlFlow<()>, Failure> {
    let mut reader = Reader::new(input, Limits::DEFAULT);
    loop {
        let number = reader.number() + 1;
        let record = match reader.read() {
            None => return Ok(ControlFlow::Continue(())),
            Some(Err(error)) => return Err(Failure::of_log(Path::new(name), &error)),
            Some(Ok(record)) => record,
        };
        progress.advance();
        if take(At { log: name, number }, record)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
}

/// A progress display; hidden where standard error is no terminal.
struct Progress {
    bar: ProgressBar,
    began: Instant,
    shown: Instant,
    lines: u64,
}

impl Progress {
    fn new(voice: &Voice) -> Progress {
        let target = match voice.reports() && !voice.json {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        let now = clock::now();
        Progress {
            bar,
            began: now,
            shown: now,
            lines: 0,
        }
    }

    fn advance(&mut self) {
        self.lines += 1;
        if !self.lines.is_multiple_of(LINES_PER_LOOK) || self.bar.is_hidden() {
            return;
        }
        let now = clock::now();
        if now.since(self.began) >= SHOWN_AFTER && now.since(self.shown) >= SHOWN_EVERY {
            self.shown = now;
            self.bar.set_message(format!("{} lines read", self.lines));
            self.bar.tick();
        }
    }
}
