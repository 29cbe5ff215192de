//! The output file of a long command, opened before minutes are spent on its content. Decides that an unwritable file
//! is an error at once, and that a file created for this test is removed if nothing is written.

use crate::failure::Failure;
use std::fs::OpenOptions;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

/// A file opened for writing.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    file: std::fs::File,
    /// Whether this created the file and has written nothing yet; dropping then removes it.
    is_empty: bool,
}

impl Target {
    /// Opens the file, or creates it; existing content stays until [`Target::write`].
    ///
    /// # Errors
    /// `Usage`, naming the file.
    pub(crate) fn open(path: &Path) -> Result<Target, Failure> {
        let is_empty = !path.exists();
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path);
        Ok(Target {
            file: file
                .map_err(|error| Failure::Usage(format!("cannot write `{}`: {error}", path.display())))?,
            path: path.to_owned(),
            is_empty,
        })
    }

    /// Replaces the content with `text`. A pipe or device is only written to.
    ///
    /// # Errors
    /// `System`, naming the file.
    pub(crate) fn write(mut self, text: &str) -> Result<(), Failure> {
        let named = |error: std::io::Error| {
            Failure::System(format!("cannot write `{}`: {error}", self.path.display()))
        };
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
            // If removal fails, an empty file stays, which is harmless.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
