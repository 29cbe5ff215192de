//! The requests of an access log that a static server can be asked again: GET of a path. Everything else is counted
//! and passed over.

use crate::cli::Failure;
use accesslog::{Limits, Reader};
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

/// Hands over each request, in the order of the log; how many lines were passed over.
///
/// # Errors
/// `Usage` if the log is not there, `System` if it cannot be read, and what `take` says.
pub(super) fn each(
    path: &Path,
    mut take: impl FnMut(Get<'_>) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let name = path.display();
    let file = OpenOptions::new()
        .read(true)
        .open(path)
        .map_err(|error| Failure::Usage(format!("cannot read the log `{name}`: {error}")))?;
    let mut reader = Reader::new(BufReader::new(file), Limits::DEFAULT);
    let mut passed_over = 0;
    while let Some(read) = reader.read() {
        let read = read.map_err(|error| Failure::System(format!("cannot read `{name}`: {error}")))?;
        let Some(record) = read.ok() else {
            passed_over += 1;
            continue;
        };
        let request = record
            .request
            .as_ref()
            .filter(|request| *request.method == *b"GET");
        let target = request.and_then(|request| core::str::from_utf8(&request.target).ok());
        let plain =
            |target: &&str| target.starts_with('/') && target.bytes().all(|byte| byte.is_ascii_graphic());
        let Some(target) = target.filter(plain) else {
            passed_over += 1;
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
