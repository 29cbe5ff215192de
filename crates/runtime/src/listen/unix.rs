//! Listening Unix sockets: who may connect, and what becomes of a file that is at the path already.
//!
//! ```text
//!   nothing ─────────────────────────────────────────▶ bind ─▶ owner, mode ─▶ listen
//!   a socket that refuses connections ─▶ is removed ────▲
//!   a socket that somebody listens on ─▶ AddrInUse
//!   anything else ─────────────────────▶ AlreadyExists
//! ```
//! Nobody can connect before owner and mode are set, because the socket does not listen. The file stays when the process
//! ends: a successor may have the same socket. The next start removes it.

use super::Listening;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Who may connect to a Unix socket: whoever may write its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRights {
    /// Permission bits of the file, whatever the umask.
    pub mode: u32,
    /// User and group of the file; `None`: those of this process.
    pub owner: Option<(u32, u32)>,
}

impl FileRights {
    /// The user of this process, and nobody else.
    pub const OWN: FileRights = FileRights {
        mode: 0o600,
        owner: None,
    };
}

impl Default for FileRights {
    /// Owner and group.
    fn default() -> FileRights {
        FileRights {
            mode: 0o660,
            owner: None,
        }
    }
}

/// Listens at a path.
pub(super) fn open(path: &Path, rights: FileRights, how: Listening) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Linux gives the file the mode of the socket (unix(7)).
    rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
    match rustix::net::bind(&fd, &address) {
        Err(Errno::ADDRINUSE) => {
            clear(path, &address)?;
            rustix::net::bind(&fd, &address)?;
        }
        bound => bound?,
    }
    set_rights(path, rights).inspect_err(|_| {
        // Nobody listens on it.
        let _ = std::fs::remove_file(path);
    })?;
    rustix::net::listen(&fd, i32::try_from(how.backlog).unwrap_or(i32::MAX))?;
    Ok(fd)
}

/// Removes the socket at a path if nobody listens on it.
fn clear(path: &Path, address: &SocketAddrUnix) -> io::Result<()> {
    let found = path.symlink_metadata()?;
    if !found.file_type().is_socket() {
        return Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "a file of this name exists and is no socket",
        ));
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&probe, address) {
        Err(Errno::CONNREFUSED) => {}
        // Its queue is full.
        Ok(()) | Err(Errno::AGAIN) => return Err(Errno::ADDRINUSE.into()),
        // A socket of another type: somebody has it.
        Err(Errno::PROTOTYPE) => return Err(Errno::ADDRINUSE.into()),
        Err(errno) => return Err(errno.into()),
    }
    // Another program may have replaced it meanwhile.
    let now = path.symlink_metadata()?;
    if (now.dev(), now.ino()) != (found.dev(), found.ino()) {
        return Err(Errno::ADDRINUSE.into());
    }
    std::fs::remove_file(path)
}

/// Sets owner and mode of the socket at a path, and of nothing that a link there leads to.
pub(crate) fn set_rights(path: &Path, rights: FileRights) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let kind = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if kind != rustix::fs::FileType::Socket {
        return Err(ErrorKind::AlreadyExists.into());
    }
    if let Some((user, group)) = rights.owner {
        let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
        rustix::fs::chownat(&file, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?;
    }
    // A descriptor without read access cannot be given to fchmod(2), but its file has this name.
    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::chmod(name, Mode::from_raw_mode(rights.mode))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    fn listen(path: &Path) -> io::Result<OwnedFd> {
        open(path, FileRights::default(), Listening::default())
    }

    #[test]
    fn only_a_socket_without_a_listener_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let kind = |name: &str| listen(&at(name)).unwrap_err().kind();
        drop(UnixListener::bind(at("stale")).unwrap());
        let stale = listen(&at("stale")).unwrap();
        UnixStream::connect(at("stale")).unwrap();
        assert_eq!(kind("stale"), ErrorKind::AddrInUse);
        drop(stale);
        let _datagrams = UnixDatagram::bind(at("datagram")).unwrap();
        assert_eq!(kind("datagram"), ErrorKind::AddrInUse);
        std::fs::write(at("file"), "precious").unwrap();
        assert_eq!(kind("file"), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(at("file")).unwrap(), b"precious");
        // Not even a link to a stale socket: it may be somebody's.
        std::os::unix::fs::symlink(at("stale"), at("link")).unwrap();
        assert_eq!(kind("link"), ErrorKind::AlreadyExists);
        assert!(at("stale").exists());
    }

    #[test]
    fn the_file_has_the_mode_that_was_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o660, 0o666] {
            let path = dir.path().join(format!("{mode:o}"));
            let rights = FileRights { mode, owner: None };
            let _socket = open(&path, rights, Listening::default()).unwrap();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode);
        }
    }
}
