//! Parts: the files and folders on which a process works before they have their names, or while they are removed. Decides
//! their names, and which of them nobody works on.

use super::tree::READ;
use crate::fs::Kind;
use rustix::fs::{FlockOperation, Mode};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// Beginning of the names of parts, and of files and folders that are being removed.
pub(super) const PART: &[u8] = b".weir-upload-";

/// A name for a part that no other one of this process has.
pub(super) fn part_name() -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    [&*part_prefix(), format!("{number:x}").as_bytes()].concat()
}

/// Beginning of the names of this process's parts.
pub(super) fn part_prefix() -> Vec<u8> {
    [PART, format!("{:x}-", std::process::id()).as_bytes()].concat()
}

/// Whether a process works on a part.
pub(super) fn is_worked_on(dir: BorrowedFd<'_>, name: &[u8], kind: Kind) -> bool {
    kind != Kind::Other
        && rustix::fs::openat(dir, name, READ, Mode::empty())
            .is_ok_and(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}
