//! The folder of a recording. An exchange is written under a temporary name and then renamed: whenever a recording is
//! interrupted, each file is complete, the old one or the new one.

use recording::exchange::Exchange;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Suffix of a file that is being written; readers ignore it.
const UNFINISHED: &str = ".part";

/// A folder of exchanges.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Opens the folder, and creates it if there is none.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(super) fn open(path: &Path) -> io::Result<Folder> {
        fs::create_dir_all(path)?;
        Ok(Folder(path.to_owned()))
    }

    /// Writes an exchange with this first line. Returns whether it replaces one.
    ///
    /// # Errors
    /// The exchange cannot be written; one that was there before stays.
    pub(super) fn write(&self, exchange: &Exchange, head: &[u8]) -> io::Result<bool> {
        let name = exchange.file_name();
        let place = self.0.join(&name);
        let is_replaced = place.exists();
        // Another recording may write the same exchange: each has its own temporary file.
        let part = self.0.join(format!("{name}.{}{UNFINISHED}", std::process::id()));
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&part)
            .and_then(|mut file| {
                file.write_all(head)?;
                file.write_all(&exchange.body)?;
                // Otherwise, the name could be on the disk before the content.
                file.sync_all()
            })
            .and_then(|()| fs::rename(&part, &place));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written.map(|()| is_replaced)
    }
}
