//! `weir load merge`: merges parts of one run, read from files. The crate `load` decides which parts belong together.

use super::export;
use super::report::Report;
use crate::cli::load::MergeFlags;
use crate::failure::Failure;
use crate::voice::Voice;
use ::load::run::{FORMAT, Parts, Run, VERSION};
use serde_json::Value;
use std::path::Path;

/// Runs the command to its end.
///
/// # Errors
/// `Usage` for files that are not results of one run, `Failed` if the run misses a requirement, `Invalid` if the merged run is invalid, `System` if a file
/// cannot be written.
pub(crate) fn run(flags: &MergeFlags, voice: &Voice) -> Result<(), Failure> {
    voice.listen();
    let mut runs = Vec::new();
    for file in &flags.files {
        let each = numbered(file)?.into_iter();
        runs.extend(each.map(|(line, run)| (format!("`{}` line {line}", file.display()), run)));
    }
    let parts = Parts::named(runs).map_err(Failure::Usage)?;
    export::apart(parts.first().rank, &flags.output)?;
    let report = Report::of_all(&parts).requiring(&flags.output.require);
    let written = export::write(&parts, &report, &flags.output);
    // Report first, so that a full disk does not cost the result.
    report.tell(voice)?;
    written?;
    report.judged()
}

/// The results in a file, one per line. Merged results are skipped, because the file also contains their parts.
///
/// # Errors
/// `Usage`, naming file and line.
pub(crate) fn read(path: &Path) -> Result<Vec<Run>, Failure> {
    Ok(numbered(path)?.into_iter().map(|(_, run)| run).collect())
}

/// The results in a file, each with its line number.
///
/// # Errors
/// `Usage`, naming file and line.
pub(crate) fn numbered(path: &Path) -> Result<Vec<(usize, Run)>, Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Usage(format!("cannot read the results in `{name}`: {error}")))?;
    let mut runs = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let fault = |why: String| Failure::Usage(format!("`{name}` line {}: {why}", number + 1));
        let value: Value = serde_json::from_str(line).map_err(|error| fault(format!("not JSON: {error}")))?;
        match value["event"].as_str() {
            Some("result") => {}
            Some("merged" | "failed" | "probe" | "search") => continue,
            _ => return Err(fault("not a result of `weir load`".to_owned())),
        }
        if value["format"] != FORMAT || value["version"] != VERSION {
            return Err(fault(format!(
                "a result of {} {}; this program reads {FORMAT} {VERSION}",
                value["format"], value["version"]
            )));
        }
        let run = serde_json::from_value(value).map_err(|error| fault(error.to_string()))?;
        runs.push((number + 1, run));
    }
    if runs.is_empty() {
        return Err(Failure::Usage(format!("`{name}` contains no result")));
    }
    Ok(runs)
}
