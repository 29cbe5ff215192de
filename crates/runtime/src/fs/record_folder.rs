//! A folder of numbered files that are written once, as a whole: a cache on disk.
//!
//! ```text
//!   write: N.part ── rename ──▶ N.record      a crash leaves a .part file, which the next list removes
//! ```
//! One process at a time has the folder: it holds a lock on the file `lock`, which the kernel gives back when the process ends,
//! however it ends. Decides nothing about what is in the files. Only [`RecordFolder::flush_removals`] flushes anything to the disk:
//! after a power failure, a file may have lost content, so its reader needs a checksum; the newest files may be missing, and files
//! removed shortly before may be back. All calls block.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Suffix of complete files.
const RECORD: &str = "record";

/// Suffix of files that are being written.
const PART: &str = "part";

/// Largest number of a file. A damaged folder may name larger ones, behind which there would be no numbers for new files.
const NUMBER_MAX: u64 = u64::MAX / 2;

/// A locked folder.
#[derive(Debug)]
pub struct RecordFolder {
    path: PathBuf,
    /// The folder itself.
    entries: File,
    _lock: File,
}

/// Creates the folder, for its user alone, unless it exists. Its parent must exist. Returns whether it was created.
///
/// # Errors
/// Of the system.
pub fn create(path: &Path) -> io::Result<bool> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        Err(error) => Err(error),
    }
}

impl RecordFolder {
    /// Takes the folder. `None`: another process has it, or another value of this one.
    ///
    /// # Errors
    /// Of the system, if the folder is missing or not writable.
    pub fn open(path: &Path) -> io::Result<Option<RecordFolder>> {
        let lock = Self::options()
            .append(true)
            .create(true)
            .open(path.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(RecordFolder {
                path: path.to_owned(),
                entries: File::open(path)?,
                _lock: lock,
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// For the user alone, and through no symbolic link.
    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options
            .mode(0o600)
            .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        options
    }

    fn file(&self, number: u64, suffix: &str) -> PathBuf {
        self.path.join(format!("{number:016x}.{suffix}"))
    }

    /// The numbers and lengths of all files, by number. Removes what a crash left half-written; other files are left alone.
    ///
    /// # Errors
    /// Of the system.
    pub fn list(&self) -> io::Result<Vec<(u64, u64)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some((stem, suffix)) = name.to_str().and_then(|name| name.split_once('.')) else {
                continue;
            };
            let number = u64::from_str_radix(stem, 16).ok();
            let number = number.filter(|number| stem.len() == 16 && *number <= NUMBER_MAX);
            match (number, suffix) {
                (Some(number), RECORD) => found.push((number, entry.metadata()?.len())),
                (Some(_), PART) => std::fs::remove_file(entry.path())?,
                _ => {}
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The first `most` bytes of a file; fewer, if it is shorter.
    ///
    /// # Errors
    /// Of the system.
    pub fn read(&self, number: u64, most: u64) -> io::Result<Vec<u8>> {
        let file = Self::options().read(true).open(self.file(number, RECORD))?;
        let mut content = Vec::with_capacity(usize::try_from(most).unwrap_or(0));
        file.take(most).read_to_end(&mut content)?;
        Ok(content)
    }

    /// Writes a file of these parts. If that fails, nothing is left of it.
    ///
    /// # Errors
    /// Of the system.
    pub fn write(&self, number: u64, parts: &[&[u8]]) -> io::Result<()> {
        let part = self.file(number, PART);
        let written = Self::options()
            .write(true)
            .create_new(true)
            .open(&part)
            .and_then(|mut file| parts.iter().try_for_each(|bytes| file.write_all(bytes)))
            .and_then(|()| std::fs::rename(&part, self.file(number, RECORD)));
        if written.is_err() {
            // What is left is removed at the next start.
            let _ = std::fs::remove_file(&part);
        }
        written
    }

    /// Removes a file. One that is missing is no error.
    ///
    /// # Errors
    /// Of the system.
    pub fn remove(&self, number: u64) -> io::Result<()> {
        match std::fs::remove_file(self.file(number, RECORD)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Flushes the entries of the folder to the disk (fsync(2) of the directory): no power failure brings back a file that was
    /// removed before.
    ///
    /// # Errors
    /// Of the system.
    pub fn flush_removals(&self) -> io::Result<()> {
        self.entries.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_whole_and_one_owner_has_them() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("cache");
        assert!(RecordFolder::open(&path).is_err(), "it is missing");
        assert!(create(&path).unwrap() && !create(&path).unwrap());
        let folder = RecordFolder::open(&path).unwrap().unwrap();
        assert!(RecordFolder::open(&path).unwrap().is_none(), "it is taken");
        folder.write(7, &[b"ab", b"cd"]).unwrap();
        folder.write(1, &[b"x"]).unwrap();
        assert_eq!(folder.list().unwrap(), [(1, 1), (7, 4)]);
        assert_eq!(folder.read(7, 100).unwrap(), b"abcd");
        assert_eq!(folder.read(7, 3).unwrap(), b"abc");
        folder.remove(1).unwrap();
        folder.remove(1).unwrap();
        folder.flush_removals().unwrap();
        // What a crash left, and what is somebody else's.
        std::fs::write(path.join("0000000000000009.part"), "half").unwrap();
        std::fs::write(path.join("notes.txt"), "mine").unwrap();
        std::fs::write(path.join("ffffffffffffffff.record"), "damaged").unwrap();
        drop(folder);
        let folder = RecordFolder::open(&path).unwrap().unwrap();
        assert_eq!(folder.list().unwrap(), [(7, 4)]);
        assert!(!path.join("0000000000000009.part").exists() && path.join("notes.txt").exists());
        // A link that somebody put there is not followed.
        std::os::unix::fs::symlink("notes.txt", path.join("0000000000000008.record")).unwrap();
        assert!(folder.read(8, 10).is_err());
    }
}
