//! The requests of an access log that can be repeated on a static server: GET of a path. All other lines are counted
//! and skipped.

use crate::cli::Failure;
use accesslog::{Limits, OneHost, Reader};
use std::fs::OpenOptions;
use std::io::BufReader;
use std::path::Path;

const SECOND: i128 = 1_000_000_000;

/// A request of a log.
#[derive(Debug)]
pub(super) struct Get<'a> {
    pub(super) client: &'a [u8],
    /// Nanoseconds since 1970; many logs know whole seconds only.
    pub(super) at_ns: i128,
    pub(super) target: &'a str,
    pub(super) status: u16,
    /// Content sent, if the log says.
    pub(super) bytes: Option<u64>,
}

/// Lines that are not handed over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PassedOver {
    /// Of an access log, but no GET of a path.
    pub(super) others: u64,
    /// Not of an access log.
    pub(super) strange: u64,
    /// Whether any line was one of an access log.
    pub(super) is_log: bool,
}

impl PassedOver {
    pub(super) fn lines(&self) -> u64 {
        self.others + self.strange
    }

    /// Why nothing could be taken from a log that has no line `wanted`.
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

/// Hands over each request, in the order of the log; what was passed over.
///
/// # Errors
/// `Usage` if there is no such log, it is none, or it is of several virtual hosts; `System` if it cannot be read; and
/// what `take` says.
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
