//! Notices that files of certificates changed, whoever changed them and however: in place, by renaming, or by a symbolic
//! link on their path. Looks at them once a second, because a folder on a network, or a link, reports no events.
//!
//! A change counts once the files have stayed the same for a second: tools write certificate and key one after the
//! other, and half of that is no pair.

use super::Certificate;
use super::files;
use server::config::Config;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use units::{Duration, Instant};

/// How often files are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// How often a certificate that is due is warned of.
const WARN_EVERY: Duration = Duration::from_secs(86_400);

/// What tells one version of a file from another; `None`: it cannot be looked at.
type Stamp = Option<[u64; 6]>;

/// The files of certificates, as they were when they were read.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Watch {
    files: Vec<PathBuf>,
    /// As they were read.
    read: Vec<Stamp>,
    /// As they were a second ago, if they differ from that.
    pending: Option<Vec<Stamp>>,
    next: Instant,
    next_warning: Instant,
}

impl Watch {
    /// Watches the files of a configuration that are about to be read. `None` if there are none.
    pub(in crate::serve) fn new(config: &Config, now: Instant) -> Option<Watch> {
        let files = files::named(config);
        if files.is_empty() {
            return None;
        }
        let read = files.iter().map(|file| stamp(file)).collect();
        Some(Watch {
            files,
            read,
            pending: None,
            next: now + EVERY,
            next_warning: now + WARN_EVERY,
        })
    }

    /// Time until [`Watch::has_changed`] should be asked again.
    pub(in crate::serve) fn patience(&self, now: Instant) -> Duration {
        match self.next > now {
            true => self.next.since(now),
            false => Duration::ZERO,
        }
    }

    /// Whether files have changed and come to rest. True once for each change: what came of it is the caller's to report.
    pub(in crate::serve) fn has_changed(&mut self, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + EVERY;
        let seen: Vec<Stamp> = self.files.iter().map(|file| stamp(file)).collect();
        if seen == self.read {
            self.pending = None;
            return false;
        }
        let is_at_rest = self.pending.as_ref() == Some(&seen);
        self.pending = Some(seen);
        if is_at_rest && let Some(seen) = self.pending.take() {
            self.read = seen;
        }
        is_at_rest
    }

    /// Warns of certificates that are due, once a day.
    pub(in crate::serve) fn remind(&mut self, certificates: impl FnOnce() -> Vec<Certificate>, now: Instant) {
        if now >= self.next_warning {
            self.next_warning = now + WARN_EVERY;
            certificates().iter().for_each(files::warn_of_expiry);
        }
    }
}

fn stamp(file: &Path) -> Stamp {
    let found = file.metadata().ok()?;
    let time = |secs: i64, nanos: i64| {
        secs.unsigned_abs()
            .wrapping_mul(1_000_000_000)
            .wrapping_add(nanos.unsigned_abs())
    };
    Some([
        found.dev(),
        found.ino(),
        found.size(),
        time(found.mtime(), found.mtime_nsec()),
        time(found.ctime(), found.ctime_nsec()),
        u64::from(found.mode()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the files of a test")]
    fn a_change_counts_once_it_has_come_to_rest() {
        let folder = tempfile::tempdir().expect("a folder");
        let files: Vec<PathBuf> = ["cert", "key"].map(|name| folder.path().join(name)).into();
        let write = |at: usize, text: &str| {
            let new = folder.path().join("new");
            std::fs::write(&new, text).expect("a file");
            std::fs::rename(&new, &files[at]).expect("a rename");
        };
        write(0, "1");
        let at = |secs: u64| Instant::ZERO + Duration::from_secs(secs);
        let read = files.iter().map(|file| stamp(file)).collect();
        let mut watch = Watch {
            files: files.clone(),
            read,
            pending: None,
            next: at(1),
            next_warning: at(86_400),
        };
        assert!(!watch.has_changed(at(1)));
        write(0, "2");
        assert!(!watch.has_changed(at(1)), "it looks once a second");
        assert!(!watch.has_changed(at(2)), "it may still be changing");
        write(1, "2");
        assert!(!watch.has_changed(at(3)), "it was still changing");
        assert!(watch.has_changed(at(4)));
        assert!(!watch.has_changed(at(5)), "once for each change");
        std::fs::remove_file(&files[0]).expect("a file");
        assert!(!watch.has_changed(at(6)));
        assert!(watch.has_changed(at(7)), "a file that is gone is a change, too");
        assert_eq!(watch.patience(at(7)), EVERY);
    }
}
