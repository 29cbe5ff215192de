//! The server's own messages: opens the log daemon or the file that gets them, and the file again after a rotation. Decides
//! neither what messages say nor how they are written.

use crate::failure::Failure;
use runtime::diagnostics;
use server::config::{Config, ServerLog};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Sends messages to the log daemon that the configuration names, if it names one.
///
/// # Errors
/// `System`, naming the daemon.
pub(super) fn connect(config: &Config) -> Result<(), Failure> {
    let Some(socket) = config.server_log.as_ref().and_then(ServerLog::socket) else {
        return Ok(());
    };
    diagnostics::send_to(socket.clone()).map_err(|error| {
        Failure::System(format!(
            "cannot open the server log `{socket}`: {error}; start the log daemon first"
        ))
    })
}

/// Appends messages to the file that the configuration names, if it names one. Rights must have been given up before: the
/// file is opened again with those that are left.
///
/// # Errors
/// `System`, naming the file.
pub(super) fn open(config: &Config) -> Result<(), Failure> {
    let Some(file) = config.server_log.as_ref().and_then(ServerLog::file) else {
        return Ok(());
    };
    diagnostics::append_to(file).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::NotConnected => "start the pipe's reader first",
            _ => "its folder must exist and be writable",
        };
        Failure::System(format!(
            "cannot open the server log `{}`: {error}; {advice}",
            file.display()
        ))
    })
}

/// Why the file of messages cannot stay: it is also an access log, by another name. Compares those that exist.
pub(super) fn conflict(config: &Config) -> Option<String> {
    let file = config.server_log.as_ref().and_then(ServerLog::file)?;
    let messages = identity(file)?;
    let logs = config.access_logs();
    let log = logs
        .iter()
        .find(|log| log.file().and_then(identity) == Some(messages))?;
    Some(format!(
        "`{}` and {} are one file; name a file of its own for the server's messages",
        file.display(),
        log.name()
    ))
}

/// Device and inode of a regular file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let meta = path.metadata().ok()?;
    meta.is_file().then(|| (meta.dev(), meta.ino()))
}

/// Opens the file again by its name. `None`: messages go to no file.
pub(super) fn reopen(config: &Config) -> Option<Result<(), Failure>> {
    let file = config.server_log.as_ref()?.file()?;
    let outcome = diagnostics::reopen().map_err(|error| {
        Failure::System(format!(
            "cannot reopen the server log `{}`: {error}; its folder must exist and be writable; messages go to standard error until \
             it can be opened",
            file.display()
        ))
    });
    Some(outcome)
}
