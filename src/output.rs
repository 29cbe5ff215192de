//! Writes results of commands to standard output, with one error for all of them. Decides how closed pipes are treated;
//! commands decide the text.

use crate::failure::Failure;
use std::fmt::Display;
use std::io::{self, Write};

/// Writes the text and flushes. A closed pipe, as after `head`, is not an error.
///
/// # Errors
/// `System` with the system's error, such as a full disk.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Writes the text and a newline.
///
/// # Errors
/// As [`print()`].
pub(crate) fn line(text: impl Display) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Writes a report to standard error, for commands whose standard output carries other data.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_error(text: &str) -> Result<(), Failure> {
    match io::stderr().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::System(format!(
            "cannot write to standard error: {error}"
        ))),
        _ => Ok(()),
    }
}

/// As [`print()`], for data that is not UTF-8.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::System(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}
