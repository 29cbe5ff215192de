//! The configured access logs: connects `server`'s log sink to files of `runtime::logfile`. Decides which files are open;
//! the server decides the lines.

use super::server_log;
use crate::failure::Failure;
use runtime::log_socket::{Add, Fields};
use runtime::logfile::{LogFile, Rotation, Target};
use server::LogSink;
use server::config::{self, Config};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use units::Instant;

/// The open access logs of a configuration, in the order of [`Config::access_logs`].
#[derive(Clone, Debug, Default)]
pub(crate) struct AccessLogs(Vec<Arc<AccessLog>>);

impl AccessLogs {
    /// Opens the logs of a configuration. Keeps those of `running` that go to the same place in the same way.
    ///
    /// # Errors
    /// `System`, naming the file, and the host whose log it is; `Usage` for the file of the server's messages.
    pub(crate) fn open(config: &Config, running: &AccessLogs) -> Result<AccessLogs, Failure> {
        let rotation = rotation(config);
        let logs = config.access_logs();
        let logs = logs.iter().map(|log| AccessLog::open(log, rotation, running));
        let logs = AccessLogs(logs.collect::<Result<_, Failure>>()?);
        // Both exist now.
        match server_log::conflict(config) {
            Some(why) => Err(Failure::Usage(format!("server-log: {why}"))),
            None => Ok(logs),
        }
    }

    /// The sink for a server; `None` without a log.
    pub(crate) fn sink(&self) -> Option<Arc<dyn LogSink>> {
        (!self.is_empty()).then(|| Arc::new(self.clone()) as Arc<dyn LogSink>)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The logs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<AccessLog>> {
        self.0.iter()
    }

    /// Reopens all files by name, after the lines buffered so far are in the old files.
    ///
    /// # Errors
    /// `Usage` if there is no log; `System` with the first file that cannot be opened, and why. Its lines then go to standard
    /// error.
    pub(crate) fn reopen(&self) -> Result<(), Failure> {
        if self.is_empty() {
            return Err(Failure::Usage(
                "cannot reopen the access log: none is configured".to_owned(),
            ));
        }
        let mut outcome = Ok(());
        for log in self.iter() {
            if let Err(error) = log.reopen()
                && outcome.is_ok()
            {
                outcome = Err(Failure::System(format!(
                    "cannot reopen the access log `{}`: {error}; its lines go to standard error until it can be opened",
                    log.path.display()
                )));
            }
        }
        outcome
    }
}

impl LogSink for AccessLogs {
    fn write(&self, lines: Vec<u8>, now: Instant) -> (Vec<u8>, u64) {
        self.write_to(0, lines, now)
    }

    fn write_to(&self, log: usize, lines: Vec<u8>, _now: Instant) -> (Vec<u8>, u64) {
        match self.0.get(log) {
            Some(log) => log.file.write(lines),
            None => {
                let dropped = lines.iter().filter(|b| **b == b'\n').count() as u64;
                (Vec::new(), dropped)
            }
        }
    }
}

/// An open access log.
#[derive(Debug)]
pub(crate) struct AccessLog {
    path: PathBuf,
    rotation: Rotation,
    /// Whether a socket gets fields with each line.
    has_fields: bool,
    file: LogFile,
}

impl AccessLog {
    /// Opens a log (`-`: standard output). Returns that of `running` that goes to the same place in the same way, if there
    /// is one.
    fn open(
        log: &config::AccessLog,
        rotation: Rotation,
        running: &AccessLogs,
    ) -> Result<Arc<AccessLog>, Failure> {
        let path = &log.target;
        let target = match log.socket().map_err(Failure::Usage)? {
            Some(socket) => Target::Socket(socket),
            None if path.as_os_str() == "-" => Target::Stdout,
            None => Target::File(path.clone()),
        };
        let is_socket = matches!(target, Target::Socket(_));
        let has_fields = is_socket && log.is_json;
        let mut same = running.iter().filter(|running| {
            running.path == *path && running.rotation == rotation && running.has_fields == has_fields
        });
        if let Some(running) = same.next() {
            return Ok(Arc::clone(running));
        }
        let fields = has_fields.then_some(Fields(members));
        let file = LogFile::open_rotating(target, rotation, fields).map_err(|error| {
            let advice = match error.kind() {
                _ if is_socket => "start the log daemon first",
                ErrorKind::NotConnected => "start the pipe's reader first",
                _ => "its folder must exist and be writable",
            };
            Failure::System(format!("cannot open {}: {error}; {advice}", log.name()))
        })?;
        Ok(Arc::new(AccessLog {
            path: path.clone(),
            rotation,
            has_fields,
            file,
        }))
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
    fn reopen(&self) -> std::io::Result<()> {
        let tried = self.file.can_be_opened();
        self.file.reopen();
        tried
    }
}

/// Finds the members of a line that is a JSON object.
fn members(line: &[u8], add: &mut Add<'_>) {
    let Ok(serde_json::Value::Object(members)) = serde_json::from_slice(line) else {
        return;
    };
    for (name, value) in &members {
        match value {
            serde_json::Value::Null => {}
            serde_json::Value::String(text) => add(name, text.as_bytes()),
            other => add(name, other.to_string().as_bytes()),
        }
    }
}

/// When the logs are rotated.
fn rotation(config: &Config) -> Rotation {
    Rotation {
        size: Some(config.log_rotate_size).filter(|size| size.0 > 0),
        every: Some(config.log_rotate_time).filter(|every| !every.is_zero()),
        keep: config.log_keep,
        compress: config.log_compress,
    }
}

/// Whether the logs of a configuration are rotated, for which their folders must be readable and their files removable.
pub(super) fn is_rotated(config: &Config) -> bool {
    rotation(config).is_on()
}
