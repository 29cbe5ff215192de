//! Resolves a path beneath a directory if the kernel's `openat2(2)` is not available, or rejects an absolute link
//! without checking where it leads.
//!
//! ```text
//!   names to do          directories above        done when no name is left
//!   [a, .., link, f]     [root]
//!      │ a is a directory: push it     │ `..`: pop, never the root     │ link: its names go in front
//!                                                                      │ absolute and inside: back to the root first
//! ```
//! Every component is opened without following links and then inspected, so a component that is replaced by a link
//! between two steps is seen as a link, never followed by the kernel.

use super::OpenError;
use super::inside::Spellings;
use super::open::Symlinks;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Linux's limit on followed links (`MAXSYMLINKS`).
const LINKS_MAX: usize = 40;

/// Opens `rel` beneath `root` with `flags`. Absolute links are followed if their target begins with one of the
/// `spellings` of the root's path; the rest is resolved beneath `root` itself, whatever is at that path now.
pub(super) fn open(
    root: BorrowedFd<'_>,
    rel: &[u8],
    symlinks: Symlinks,
    flags: OFlags,
    spellings: &Spellings,
) -> Result<OwnedFd, OpenError> {
    let mut todo: Vec<Vec<u8>> = Vec::new();
    push_names(&mut todo, rel);
    let mut above: Vec<OwnedFd> = Vec::new();
    let mut links_left = LINKS_MAX;
    let mut must_be_dir = rel.ends_with(b"/");
    while let Some(name) = todo.pop() {
        let dir = above.last().map_or(root, |fd| fd.as_fd());
        match name.as_slice() {
            b"." => continue,
            b".." => {
                above.pop().ok_or(OpenError::OutsideRoot)?;
                continue;
            }
            _ => {}
        }
        let here = openat(dir, &name, OFlags::PATH)?;
        let mode = rustix::fs::fstat(&here).map_err(OpenError::from_errno)?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::Symlink if symlinks == Symlinks::Refuse => return Err(OpenError::Link),
            FileType::Symlink => {
                links_left -= 1;
                if links_left == 0 {
                    return Err(OpenError::Loop);
                }
                let target = rustix::fs::readlinkat(&here, "", Vec::new()).map_err(OpenError::from_errno)?;
                let target = target.as_bytes();
                must_be_dir |= todo.is_empty() && target.ends_with(b"/");
                if target.first() == Some(&b'/') {
                    let rest = spellings.below(target).ok_or(OpenError::OutsideRoot)?;
                    above.clear();
                    push_names(&mut todo, rest);
                } else {
                    push_names(&mut todo, target);
                }
            }
            FileType::Directory => above.push(here),
            // Opened again by name for reading; NOFOLLOW catches a link placed there meanwhile.
            _ if todo.is_empty() && !must_be_dir => match openat(dir, &name, flags) {
                Err(OpenError::Link) if symlinks == Symlinks::FollowWithinRoot && links_left > 1 => {
                    links_left -= 1;
                    todo.push(name);
                }
                opened => return opened,
            },
            _ => return Err(OpenError::NotFound),
        }
    }
    openat(above.last().map_or(root, |fd| fd.as_fd()), b".", flags)
}

fn openat(dir: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> Result<OwnedFd, OpenError> {
    loop {
        match rustix::fs::openat(
            dir,
            name,
            flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Err(Errno::INTR) => {}
            other => return other.map_err(OpenError::from_errno),
        }
    }
}

/// Pushes the names of `path` so that the first is popped first.
fn push_names(todo: &mut Vec<Vec<u8>>, path: &[u8]) {
    for name in path.split(|&b| b == b'/').rev().filter(|name| !name.is_empty()) {
        todo.push(name.to_vec());
    }
}
