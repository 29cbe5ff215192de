//! The configured access log: connects `server`'s log sink to a `runtime::logfile`. Decides which file is open; the
//! server decides the lines.

use crate::failure::Failure;
use runtime::log_socket::{Add, Fields};
use runtime::logfile::{LogFile, Rotation, Target};
use server::LogSink;
use server::config::{Config, LogFormat};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use units::Instant;

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
    /// Opens the log of a configuration (`-`: standard output). Returns `running` if it goes to the same place in the same way.
    ///
    /// # Errors
    /// `System`, naming the file.
    pub(crate) fn open(
        config: &Config,
        running: Option<&Arc<AccessLog>>,
    ) -> Result<Option<Arc<AccessLog>>, Failure> {
        let Some(path) = config.access_log.as_deref() else {
            return Ok(None);
        };
        let rotation = rotation(config);
        let has_fields = config.access_log_socket().is_some() && is_json(config);
        let is_same = |running: &&Arc<AccessLog>| {
            running.path == path && running.rotation == rotation && running.has_fields == has_fields
        };
        if let Some(running) = running.filter(is_same) {
            return Ok(Some(Arc::clone(running)));
        }
        let target = match config.access_log_socket().transpose() {
            Ok(Some(socket)) => Target::Socket(socket),
            Ok(None) if path.as_os_str() == "-" => Target::Stdout,
            Ok(None) => Target::File(path.to_owned()),
            Err(why) => return Err(Failure::Usage(why)),
        };
        let is_socket = matches!(target, Target::Socket(_));
        let fields = has_fields.then_some(Fields(members));
        let file = LogFile::open_rotating(target, rotation, fields).map_err(|error| {
            let advice = match error.kind() {
                _ if is_socket => "start the log daemon first",
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
            rotation,
            has_fields,
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

/// Whether the lines of a configuration are JSON.
fn is_json(config: &Config) -> bool {
    match &config.log_template {
        Some(template) => template.is_json(),
        None => config.log_format == LogFormat::Json,
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

/// When the log is rotated.
fn rotation(config: &Config) -> Rotation {
    Rotation {
        size: Some(config.log_rotate_size).filter(|size| size.0 > 0),
        every: Some(config.log_rotate_time).filter(|every| !every.is_zero()),
        keep: config.log_keep,
        compress: config.log_compress,
    }
}

/// Whether the log of a configuration is rotated, for which its folder must be readable and its files removable.
pub(super) fn is_rotated(config: &Config) -> bool {
    rotation(config).is_on()
}

impl LogSink for AccessLog {
    fn write(&self, lines: Vec<u8>, _now: Instant) -> (Vec<u8>, u64) {
        self.file.write(lines)
    }
}
