//! The requests of an access log that can be repeated on a static server: GET of a path. All other lines are counted
//! and skipped.

use crate::failure::Failure;
use accesslog::{Limits, OneHost, Reader};
use std::fs::OpenOptions;
use std::io::BufReader;
use std::path::Path;

const SECOND: i128 = 1_000_000_000;

/// A GET request of a log.
#[derive(Debug)]
pub(super) struct Get<'a> {
    pub(super) client: &'a [u8],
    /// Nanoseconds since 1970; many logs have whole seconds only.
    pub(super) at_ns: i128,
    pub(super) target: &'a str,
    pub(super) status: u16,
    /// Content bytes sent, if the log has them.
    pub(super) bytes: Option<u64>,
}

/// Counts of skipped lines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PassedOver {
    /// Access-log lines that are no GET of a path.
    pub(super) others: u64,
    /// Lines in no access-log format.
    pub(super) strange: u64,
    /// Whether any line was an access-log line.
    pub(super) is_log: bool,
}

impl PassedOver {
    pub(super) fn lines(&self) -> u64 {
        self.others + self.strange
    }

    /// The error for a log in which no line has `wanted`.
    pub(super) fn nothing(&self, log: &Path, wanted: &str) -> Failure {
        let name = log.display();
        Failure::Usage(match (self.is_log, self.lines()) {
            (true, lines) => format!("`{name}` has {wanted}; {lines} lines were skipped"),
            (false, 0) => format!("`{name}` is empty"),
            (false, lines) => format!(
                "no line of `{name}` is an access-log line (Common, Combined or JSON of weir serve; uncompressed); {lines} \
                 lines were skipped"
            ),
        })
    }
}

/// Calls `take` for each request in the order of the log, and returns the counts of skipped lines.
///
/// # Errors
/// `Usage` if the log is missing, not an access log or of several virtual hosts; `System` if it cannot be read;
/// and the errors of `take`.
pub(super) fn each(
    path: &Path,
    mut take: impl FnMut(Get<'_>) -> Result<(), Failure>,
) -> Result<PassedOver, Failure> {
    let name = path.display();
    let file = OpenOptions::new()
        .read(true)
        .open(path)
        .map_err(|error| Failure::of_log(path, &error))?;
    let mut reader = Reader::new(BufReader::new(file), Limits::DEFAULT);
    let mut one = OneHost::default();
    let mut passed_over = PassedOver::default();
    while let Some(read) = reader.read() {
        let read = read.map_err(|error| Failure::of_log(path, &error))?;
        let Some(record) = read.ok() else {
            passed_over.strange += 1;
            continue;
        };
        passed_over.is_log = true;
        one.admit(&record)
            .map_err(|several| Failure::Usage(format!("`{name}`: {several}")))?;
        let request = record
            .request
            .as_ref()
            .filter(|request| *request.method == *b"GET");
        let target = request.and_then(|request| core::str::from_utf8(&request.target).ok());
        let plain =
            |target: &&str| target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic());
        let Some(target) = target.filter(plain) else {
            passed_over.others += 1;
            continue;
        };
        take(Get {
            client: &record.client,
            at_ns: i128::from(record.at.secs) * SECOND + i128::from(record.at.nanos),
            target,
            status: record.status,
            bytes: record.body_bytes,
        })?;
    }
    Ok(passed_over)
}
