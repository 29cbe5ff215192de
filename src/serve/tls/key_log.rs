//! The secrets of TLS connections in a file, so that Wireshark can read a capture: the format of SSLKEYLOGFILE,
//! one line per secret.

use ::tls::rustls::KeyLog;
use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file that secrets are appended to. Worker processes share it: each line is one write.
pub(super) struct KeyLogFile {
    file: File,
    has_failed: AtomicBool,
}

impl KeyLogFile {
    /// Opens the file, readable by its owner alone if it is new.
    ///
    /// # Errors
    /// Why it cannot be opened.
    pub(super) fn open(path: &Path) -> io::Result<KeyLogFile> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        Ok(KeyLogFile {
            file,
            has_failed: AtomicBool::new(false),
        })
    }
}

impl fmt::Debug for KeyLogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyLogFile")
    }
}

impl KeyLog for KeyLogFile {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line = format!("{label} ");
        for (bytes, end) in [(client_random, ' '), (secret, '\n')] {
            for byte in bytes {
                // Writing to a `String` cannot fail.
                let _ = write!(line, "{byte:02x}");
            }
            line.push(end);
        }
        if let Err(error) = (&self.file).write_all(line.as_bytes())
            && !self.has_failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("secrets are missing in the file of --tls-key-log: {error}");
        }
    }
}
