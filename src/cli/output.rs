//! Standard output, for what a command has to say: one way to write it, and one to fail. Decides nothing about what it says.

use super::Failure;
use std::fmt::Display;
use std::io::{self, Write};

/// Writes all of it now. A reader that has gone away, such as `head`, is no failure.
///
/// # Errors
/// `System` with what the system says, such as that a disk is full.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// The same for a line, without its end.
///
/// # Errors
/// As [`print()`].
pub(crate) fn line(text: impl Display) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Writes a report to standard error, where standard output has something else to take.
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

/// Writes what is no text to standard output.
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
