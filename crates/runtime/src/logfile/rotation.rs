//! Rotation of a log file: a full or old file gets a name with its time, is compressed, and the oldest are removed.
//!
//! ```text
//!   access.log ── full, or a new period ──▶ access.log.20261128-010203 ── compressed ──▶ access.log.20261128-010203.gz
//! ```
//! Several processes may append to one file. Each holds a shared lock on it while it writes; the one that finds it due takes
//! an exclusive lock, renames it, and the others then find that the name means another file. Decides when and to what a
//! file is renamed; the writer of the log opens the next one.

use crate::clock;
use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::fs::{FlockOperation, flock, fstat, stat};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use units::civil::Date;
use units::{Bytes, Duration};

/// When a log file is rotated, and what becomes of the old ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Size from which on no more is appended. `None`: any.
    pub size: Option<Bytes>,
    /// Length of the periods, in UTC, each of which has a file of its own; whole seconds. `None`: there are none.
    pub every: Option<Duration>,
    /// Number of old files that are kept.
    pub keep: u32,
    /// Whether old files are compressed by gzip.
    pub compress: bool,
}

impl Rotation {
    /// Whether files are rotated at all.
    pub fn is_on(&self) -> bool {
        self.size.is_some() || self.every.is_some()
    }

    fn period(&self, secs: i64) -> i64 {
        let every = self.every.map_or(i64::MAX, |every| {
            i64::try_from(every.as_secs()).unwrap_or(i64::MAX)
        });
        secs.div_euclid(every.max(1))
    }

    /// Whether a file of `size` bytes, last written at `modified`, gets no more at `now`. Times are seconds since 1970.
    fn is_due(&self, size: u64, modified: i64, now: i64) -> bool {
        let is_full = self.size.is_some_and(|most| size >= most.0);
        let is_old = self.every.is_some() && self.period(modified) < self.period(now);
        size > 0 && (is_full || is_old)
    }
}

/// Rotates one file.
#[derive(Debug)]
pub(super) struct Rotor {
    rotation: Rotation,
    path: PathBuf,
    /// Compresses and removes what was rotated last.
    tidying: Option<JoinHandle<()>>,
    /// A failure was logged.
    has_failed: bool,
}

/// What holds for a file that is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is locked, and can be written.
    Write,
    /// It was renamed: open the next one.
    Next,
}

impl Rotor {
    pub(super) fn new(rotation: Rotation, path: &Path) -> Rotor {
        Rotor {
            rotation,
            path: path.to_owned(),
            tidying: None,
            has_failed: false,
        }
    }

    /// Locks the file, and renames it if it is due.
    pub(super) fn turn(&mut self, file: impl AsFd) -> Turn {
        match self.rotate(file.as_fd(), clock::wall().secs) {
            Ok(turn) => {
                self.has_failed = false;
                turn
            }
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::error!(
                        "rotating {} failed: {error}; it grows on; the user of the server must be able to rename files in \
                         its folder",
                        self.path.display()
                    );
                }
                Turn::Write
            }
        }
    }

    /// Ends what [`Rotor::turn`] began: others may rename the file.
    pub(super) fn written(file: impl AsFd) {
        let _ = flock(file, FlockOperation::Unlock);
    }

    fn rotate(&mut self, file: impl AsFd, now: i64) -> io::Result<Turn> {
        flock(&file, FlockOperation::LockShared)?;
        if !self.is_due(&file, now)? {
            return Ok(Turn::Write);
        }
        // Not an upgrade of the shared lock: another process may come first, and the name tells.
        flock(&file, FlockOperation::LockExclusive)?;
        let (open, named) = (fstat(&file)?, stat(&self.path));
        let is_same = named.is_ok_and(|named| (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino));
        if is_same && self.is_due(&file, now)? {
            let old = free_name(&self.path, now);
            fs::rename(&self.path, &old)?;
            self.tidy(old);
        }
        Ok(Turn::Next)
    }

    fn is_due(&self, file: impl AsFd, now: i64) -> io::Result<bool> {
        let open = fstat(file)?;
        let size = u64::try_from(open.st_size).unwrap_or_default();
        Ok(self.rotation.is_due(size, open.st_mtime, now))
    }

    /// Compresses a renamed file and removes the oldest, beside the writer: both may take seconds.
    fn tidy(&mut self, old: PathBuf) {
        let (rotation, path) = (self.rotation, self.path.clone());
        let before = self.tidying.take();
        let work = move || {
            if let Some(before) = before {
                let _ = before.join();
            }
            let compressed = match rotation.compress {
                true => compress(&old),
                false => Ok(()),
            };
            let removed = compressed.and_then(|()| remove_oldest(&path, rotation.keep));
            if let Err(error) = removed {
                tracing::error!(
                    "compressing or removing old files of {} failed: {error}",
                    path.display()
                );
            }
        };
        let thread = std::thread::Builder::new().name("weir-log-old".into());
        match thread.spawn(work) {
            Ok(thread) => self.tidying = Some(thread),
            Err(error) => tracing::error!("no thread to compress an old log file: {error}"),
        }
    }
}

impl Drop for Rotor {
    /// Waits for what is being compressed, so that no file is left half done.
    fn drop(&mut self) {
        if let Some(tidying) = self.tidying.take() {
            let _ = tidying.join();
        }
    }
}

/// A name that no file has: with the time, and a number if that is not enough.
fn free_name(path: &Path, now: i64) -> PathBuf {
    let stamped = with_suffix(path, &format!(".{}", stamp(now)));
    let is_free = |path: &PathBuf| !path.exists() && !with_suffix(path, ".gz").exists();
    let numbered = (1..).map(|number| with_suffix(&stamped, &format!("-{number}")));
    std::iter::once(stamped.clone())
        .chain(numbered)
        .find(is_free)
        .unwrap_or(stamped)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// `20261128-010203` in UTC.
fn stamp(secs: i64) -> String {
    let Date { year, month, day } = Date::from_days(secs.div_euclid(86_400));
    let rest = secs.rem_euclid(86_400);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// Replaces a file by its compressed form, which appears under its name once it is whole.
fn compress(old: &Path) -> io::Result<()> {
    let part = with_suffix(old, ".part");
    let mut from = File::open(old)?;
    let to = OpenOptions::new().write(true).create_new(true).open(&part)?;
    let made = (|| {
        to.set_permissions(from.metadata()?.permissions())?;
        let mut encoder = GzEncoder::new(&to, Compression::default());
        io::copy(&mut from, &mut encoder)?;
        encoder.finish()?;
        to.sync_all()
    })();
    if let Err(error) = made {
        let _ = fs::remove_file(&part);
        return Err(error);
    }
    fs::rename(&part, with_suffix(old, ".gz"))?;
    fs::remove_file(old)
}

/// Removes the oldest rotated files of this log beyond `keep`.
fn remove_oldest(path: &Path, keep: u32) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return Ok(());
    };
    let mut old = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let file = entry.file_name();
        if let Some(behind) = file.to_str().and_then(|file| file.strip_prefix(name))
            && is_of_rotation(behind)
        {
            old.push((order(behind), entry.path()));
        }
    }
    old.sort_unstable();
    let excess = old.len().saturating_sub(keep as usize);
    old.iter()
        .take(excess)
        .try_for_each(|(_, path)| fs::remove_file(path))
}

/// Time and number of a rotated file, by the end of its name.
fn order(behind: &str) -> (String, u32) {
    let stem = behind.strip_suffix(".gz").unwrap_or(behind);
    let (time, number) = stem.split_at(stem.len().min(16));
    let number = number.strip_prefix('-').and_then(|number| number.parse().ok());
    (time.to_owned(), number.unwrap_or(0))
}

/// Whether the end of a file's name is one that [`free_name`] and [`compress`] make.
fn is_of_rotation(behind: &str) -> bool {
    let stem = behind.strip_suffix(".gz").unwrap_or(behind);
    let Some((time, number)) = stem.split_at_checked(16) else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_time = time.starts_with('.')
        && time[1..]
            .split_once('-')
            .is_some_and(|(day, hour)| day.len() == 8 && digits(day) && digits(hour));
    is_time && (number.is_empty() || number.strip_prefix('-').is_some_and(digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    const ROTATION: Rotation = Rotation {
        size: Some(Bytes(10)),
        every: None,
        keep: 2,
        compress: true,
    };

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }

    fn append(path: &Path) -> File {
        OpenOptions::new().create(true).append(true).open(path).unwrap()
    }

    #[test]
    fn times_are_those_of_utc() {
        for (secs, stamped) in [
            (0, "19700101-000000"),
            (784_111_777, "19941106-084937"),
            (951_782_400, "20000229-000000"),
            (1_798_761_599, "20261231-235959"),
            (-1, "19691231-235959"),
        ] {
            assert_eq!(stamp(secs), stamped);
        }
    }

    #[test]
    fn a_file_is_due_by_size_or_period() {
        let by_day = Rotation {
            size: None,
            every: Some(Duration::from_secs(86_400)),
            ..ROTATION
        };
        for (rotation, size, modified, now, is_due) in [
            (ROTATION, 9, 0, 0, false),
            (ROTATION, 10, 0, 0, true),
            (by_day, 1, 86_399, 86_399, false),
            (by_day, 1, 86_399, 86_400, true),
            (by_day, 0, 0, 900_000, false),
            (by_day, 1, 900_000, 0, false),
        ] {
            assert_eq!(
                rotation.is_due(size, modified, now),
                is_due,
                "{size} {modified} {now}"
            );
        }
    }

    #[test]
    fn old_files_are_compressed_and_the_oldest_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        for other in [
            "a.log.txt",
            "a.log.20260101",
            "b.log.20260101-000000",
            "a.log.20260101-00000x",
        ] {
            fs::write(folder.path().join(other), "kept").unwrap();
        }
        let mut rotor = Rotor::new(ROTATION, &path);
        for round in 0..4 {
            let mut file = append(&path);
            file.write_all(format!("{round} 4567890\n").as_bytes()).unwrap();
            assert_eq!(
                rotor.rotate(&file, 1_000_000_000 + round / 2).unwrap(),
                Turn::Next
            );
            // The file has no name: the next process only opens the new one.
            assert_eq!(Rotor::new(ROTATION, &path).rotate(&file, 0).unwrap(), Turn::Next);
        }
        drop(rotor);
        let kept = ["a.log.20010909-014641-1.gz", "a.log.20010909-014641.gz"];
        let all = names(folder.path());
        assert_eq!(
            all.iter()
                .filter(|name| name.ends_with(".gz"))
                .collect::<Vec<_>>(),
            kept
        );
        assert_eq!(all.len(), 6, "{all:?}");
        let file = File::open(folder.path().join(kept[0])).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(file)
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "3 4567890\n");
    }

    #[test]
    fn a_writer_keeps_others_from_renaming_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let (mut first, second) = (append(&path), append(&path));
        let mut rotor = Rotor::new(ROTATION, &path);
        assert_eq!(rotor.turn(&first), Turn::Write);
        first.write_all(b"0123456789").unwrap();
        let is_locked = || flock(&second, FlockOperation::NonBlockingLockExclusive).is_err();
        assert!(is_locked());
        Rotor::written(&first);
        assert!(!is_locked());
    }
}
