//! A folder of log files with a limit on their number, for several processes at once.
//!
//! Each write ends with a tail, which the next one overwrites. So a document such as a JSON array is complete after every
//! write, even if the process is killed. Whoever creates a file counts the files under a lock on
//! the folder (flock(2)), so processes together stay within the limit. Files are never removed here. All calls block.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A folder of log files.
#[derive(Debug)]
pub struct LogFolder {
    path: PathBuf,
    extension: &'static str,
    files_max: usize,
}

impl LogFolder {
    /// For files with this extension, at most so many. Does not touch the folder.
    pub fn new(path: PathBuf, extension: &'static str, files_max: usize) -> LogFolder {
        LogFolder {
            path,
            extension,
            files_max,
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates an empty file with this name, readable by its owner alone. If the name is taken, a number is appended. `None`:
    /// the folder has as many files as it may have.
    ///
    /// # Errors
    /// Of the system.
    pub fn create(&self, name: &str) -> io::Result<Option<GrowingFile>> {
        let folder = File::open(&self.path)?;
        // Released when the descriptor is closed.
        folder.lock()?;
        if self.count()? >= self.files_max {
            return Ok(None);
        }
        let mut taken = 1_u64;
        loop {
            let number = if taken == 1 {
                String::new()
            } else {
                format!("-{taken}")
            };
            let path = self.path.join(format!("{name}{number}.{}", self.extension));
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path);
            match file {
                Ok(file) => return Ok(Some(GrowingFile { path, file, end: 0 })),
                // There are fewer files than numbers.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Number of files with the extension.
    fn count(&self) -> io::Result<usize> {
        let mut count = 0;
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            count += usize::from(
                Path::new(&name)
                    .extension()
                    .is_some_and(|one| one == self.extension),
            );
        }
        Ok(count)
    }
}

/// A file that only this process writes to.
#[derive(Debug)]
pub struct GrowingFile {
    path: PathBuf,
    file: File,
    /// Where the tail begins.
    end: u64,
}

impl GrowingFile {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of content, without the tail.
    pub fn len(&self) -> u64 {
        self.end
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Appends `content` and then `tail`, which the next call overwrites. All tails of a file have one length.
    ///
    /// # Errors
    /// Of the system. What the file holds then is undefined from the end of the content before.
    pub fn append(&mut self, mut content: Vec<u8>, tail: &[u8]) -> io::Result<()> {
        let length = content.len() as u64;
        content.extend_from_slice(tail);
        self.file.write_all_at(&content, self.end)?;
        self.end += length;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn processes_together_stay_within_the_limit() {
        let base = tempfile::tempdir().unwrap();
        let open = || LogFolder::new(base.path().to_owned(), "log", 3);
        std::fs::write(base.path().join("notes.txt"), "other files do not count").unwrap();
        std::fs::write(base.path().join("old.log"), "of an earlier process").unwrap();
        let (one, other) = (open(), open());
        let first = one.create("a").unwrap().expect("there is room");
        let mode = first.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let second = other.create("a").unwrap().expect("there is room");
        assert_eq!(second.path(), base.path().join("a-2.log"));
        assert!(one.create("b").unwrap().is_none() && other.create("b").unwrap().is_none());
        std::fs::remove_file(base.path().join("old.log")).unwrap();
        assert!(other.create("b").unwrap().is_some());
        drop(base);
        assert!(one.create("c").is_err(), "the folder is gone");
    }

    #[test]
    fn a_file_is_complete_after_every_write() {
        let base = tempfile::tempdir().unwrap();
        let folder = LogFolder::new(base.path().to_owned(), "log", 1);
        let mut file = folder.create("a").unwrap().expect("there is room");
        assert!(file.is_empty());
        file.append(b"[1".to_vec(), b"]\n").unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"[1]\n");
        file.append(b",2,3".to_vec(), b"]\n").unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"[1,2,3]\n");
        assert_eq!(file.len(), 6);
    }
}
