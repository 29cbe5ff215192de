//! The access log of the configuration, as the server hands lines to it.

use crate::cli::Failure;
use measure::Instant;
use runtime::logfile::{LogFile, Target};
use server::LogSink;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open access log.
#[derive(Debug)]
pub(crate) struct AccessLog {
    path: PathBuf,
    file: LogFile,
}

impl AccessLog {
    /// Opens what the configuration names; none if it names none. `running` is kept if it is the same.
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
                ErrorKind::NotConnected => "start its reader first",
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

    /// Takes no more lines and writes those it has.
    pub(crate) fn close(&self) {
        self.file.close();
    }

    /// Whether everything is written or given up.
    pub(crate) fn is_finished(&self) -> bool {
        self.file.is_finished()
    }

    /// Gives up what cannot be written.
    pub(crate) fn abandon(&self) {
        self.file.abandon();
    }

    /// Opens the file again under its name, once what was written before is in the old one.
    ///
    /// # Errors
    /// Why it cannot be opened now; lines then go to standard error.
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
