//! A file that a command will write: tried before minutes are spent on what is to stand in it. Decides that a file which could not be
//! written is refused, and that one which was made for the trial alone does not stay.

use super::Failure;
use std::fs::OpenOptions;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

/// A file that can be written.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    file: std::fs::File,
    /// It was not there before, and nothing stands in it yet.
    is_empty: bool,
}

impl Target {
    /// Opens it; what stands in it stays.
    ///
    /// # Errors
    /// `Usage`, naming it.
    pub(crate) fn open(path: &Path) -> Result<Target, Failure> {
        let is_empty = !path.exists();
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path);
        Ok(Target {
            file: file.map_err(|error| {
                Failure::Usage(format!("`{}` cannot be written: {error}", path.display()))
            })?,
            path: path.to_owned(),
            is_empty,
        })
    }

    /// Writes this in place of what stood there.
    ///
    /// # Errors
    /// `System`, naming it.
    pub(crate) fn write(mut self, text: &str) -> Result<(), Failure> {
        let named = |error: std::io::Error| Failure::System(format!("`{}`: {error}", self.path.display()));
        if self.file.metadata().is_ok_and(|found| found.is_file()) {
            self.file.set_len(0).map_err(named)?;
            self.file.rewind().map_err(named)?;
        }
        self.file.write_all(text.as_bytes()).map_err(named)?;
        self.is_empty = false;
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.is_empty {
            // It is empty, and says so.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
