//! The configured access log: connects `server`'s log sink to a `runtime::logfile`. Decides which file is open; the
//! server decides the lines.

use crate::failure::Failure;
use runtime::logfile::{LogFile, Target};
use server::LogSink;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::Instant;

/// An open access log.
#[derive(Debug)]
pub(crate) struct AccessLog {
    path: PathBuf,
    file: LogFile,
}

impl AccessLog {
    /// Opens the log at `path` (`-`: standard output). Returns `running` if it has the same path.
    ///
    /// # Errors
    /// `System`, naming the file.
    pub(crate) fn open(
        path: Option<&Path>,
        running: Option<&Arc<AccessLog>>,
    ) -> Result<Option<Arc<AccessLog>>, Failure> {
        let Some(path) = path else { return Ok(None) };
        if let Some(running) = running.filter(|running| running.path == path) {
            return Ok(Some(Arc::clone(running)));
        }
        let target = if path.as_os_str() == "-" {
            Target::Stdout
        } else {
            Target::File(path.to_owned())
        };
        let file = LogFile::open(target).map_err(|error| {
            let advice = match error.kind() {
                ErrorKind::NotConnected => "start the pipe's reader first",
                _ => "its folder must exist and be writable",
            };
            Failure::System(format!(
                "cannot open the access log `{}`: {error}; {advice}",
                path.display()
            ))
        })?;
        Ok(Some(Arc::new(AccessLog {
            path: path.to_owned(),
            file,
        })))
    }

    /// Stops accepting lines and writes the buffered ones.
    pub(crate) fn close(&self) {
        self.file.close();
    }

    /// Whether all lines are written or abandoned.
    pub(crate) fn is_finished(&self) -> bool {
        self.file.is_finished()
    }

    /// Drops lines that cannot be written.
    pub(crate) fn abandon(&self) {
        self.file.abandon();
    }

    /// Reopens the file by name, after the lines buffered so far are in the old file.
    ///
    /// # Errors
    /// Why it cannot be opened; lines then go to standard error.
    pub(crate) fn reopen(&self) -> std::io::Result<()> {
        let tried = self.file.can_be_opened();
        self.file.reopen();
        tried
    }
}

impl LogSink for AccessLog {
    fn write(&self, lines: Vec<u8>, _now: Instant) -> (Vec<u8>, u64) {
        self.file.write(lines)
    }
}
