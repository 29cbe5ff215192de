//! Dropping privileges that a server does not need once it listens: root's rights, the chance to gain any, and most of
//! the file system.
//!
//! ```text
//!   root, listening ── become_account ──▶ user ── no_new_privileges ──▶ ── confine ──▶ Landlock
//!                      verified: no way back     execve grants nothing    what is not named is denied
//! ```
//! The last two apply to the calling thread and those it starts, so all of this precedes any other thread. Decides how
//! privileges are dropped and how that is verified. The caller names the paths a server needs. Landlock:
//! <https://docs.kernel.org/userspace-api/landlock.html>.

use crate::sys;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, PathFd, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope,
};
use std::ffi::CString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A user and group to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user's name, or its UID if given as a number.
    pub name: String,
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// Why this process does not become another user.
#[derive(Debug)]
pub enum AccountError {
    /// No such user.
    NoUser(String),
    /// No such group.
    NoGroup(String),
    /// The user and group databases cannot be read.
    Database(io::Error),
    /// Only root can become another user.
    NotRoot(String),
    /// The kernel refused.
    Refused(io::Error),
    /// The change succeeded but could be undone; how.
    Regained(&'static str),
}

impl fmt::Display for AccountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AccountError::NoUser(name) => write!(f, "there is no user `{name}`; create it, or name another"),
            AccountError::NoGroup(name) => {
                write!(f, "there is no group `{name}`; create it, or name another")
            }
            AccountError::Database(error) => write!(f, "users and groups cannot be looked up: {error}"),
            AccountError::NotRoot(name) => write!(
                f,
                "only root can become `{name}`, and this is user {}; start it as root or omit the user",
                rustix::process::geteuid().as_raw()
            ),
            AccountError::Refused(error) => write!(
                f,
                "the kernel refuses to change the user: {error}; are CAP_SETUID and CAP_SETGID withheld?"
            ),
            AccountError::Regained(what) => {
                write!(
                    f,
                    "dropped privileges could be regained ({what}), so the server does not start"
                )
            }
        }
    }
}

impl std::error::Error for AccountError {}

impl Account {
    /// The user `user` with this group, or with its own group if none is named; names or numbers. Its supplementary
    /// groups are kept.
    ///
    /// # Errors
    /// If user or group do not exist or cannot be looked up.
    pub fn find(user: &str, group: Option<&str>) -> Result<Account, AccountError> {
        let text = |name: &str| CString::new(name).map_err(|_| AccountError::NoUser(name.to_owned()));
        let person = sys::find_user(&text(user)?).map_err(AccountError::Database)?;
        let (uid, own_gid, known) = match (person, user.parse::<u32>()) {
            (Some(person), _) => (person.uid, Some(person.gid), Some(person.name)),
            // A number needs no entry: containers run as users that no database knows.
            (None, Ok(uid)) => (uid, None, None),
            (None, Err(_)) => return Err(AccountError::NoUser(user.to_owned())),
        };
        let gid = match (group, own_gid) {
            (None, Some(gid)) => gid,
            (None, None) => uid,
            (Some(group), _) => find_group(group)?,
        };
        let groups = match known {
            Some(name) => sys::groups_of(&name, gid).map_err(AccountError::Database)?,
            None => vec![gid],
        };
        Ok(Account {
            name: user.to_owned(),
            uid,
            gid,
            groups,
        })
    }

    /// Its UID.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Its GID.
    pub fn gid(&self) -> u32 {
        self.gid
    }

    /// Whether this process already has that user and group.
    pub fn is_current(&self) -> bool {
        let (uid, gid) = current();
        (uid, gid) == (self.uid, self.gid)
    }
}

/// The GID of a group, given by its name or as a number. A number is used as it is if groups cannot be looked up: under
/// Landlock, the file of groups is out of reach once another program has replaced it.
///
/// # Errors
/// If the group does not exist, or its name cannot be looked up.
pub fn find_group(group: &str) -> Result<u32, AccountError> {
    let name = CString::new(group).map_err(|_| AccountError::NoGroup(group.to_owned()))?;
    match (sys::find_group(&name), group.parse::<u32>()) {
        (Ok(Some(gid)), _) | (Ok(None) | Err(_), Ok(gid)) => Ok(gid),
        (Ok(None), Err(_)) => Err(AccountError::NoGroup(group.to_owned())),
        (Err(error), Err(_)) => Err(AccountError::Database(error)),
    }
}

/// The effective UID and GID of this process.
pub fn current() -> (u32, u32) {
    (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    )
}

/// Becomes that user permanently, and checks for ways back: another user ID, or any capability still held.
///
/// # Errors
/// If the change is not permitted, or there is a way back. In both cases, this process must not continue.
pub fn become_account(account: &Account) -> Result<(), AccountError> {
    if !account.is_current() {
        if rustix::process::geteuid().as_raw() != 0 {
            return Err(AccountError::NotRoot(account.name.clone()));
        }
        sys::become_user(account.uid, account.gid, &account.groups).map_err(AccountError::Refused)?;
    }
    if account.uid == 0 {
        return Ok(());
    }
    if !account.is_current() {
        return Err(AccountError::Regained("the user and group IDs did not change"));
    }
    let is_root_again = [
        sys::become_user(0, 0, &[0]).is_ok(),
        sys::set_effective_user(0).is_ok(),
        rustix::process::geteuid().is_root(),
    ];
    if is_root_again.contains(&true) {
        return Err(AccountError::Regained("it could become root again"));
    }
    let held = rustix::thread::capabilities(None).map_err(|errno| AccountError::Refused(errno.into()))?;
    let kept = held.permitted | held.effective;
    // A service manager may have granted capabilities on purpose, but the right to change the user must not be among
    // them.
    let way_back = rustix::thread::CapabilitySet::SETUID
        | rustix::thread::CapabilitySet::SETGID
        | rustix::thread::CapabilitySet::SYS_ADMIN
        | rustix::thread::CapabilitySet::SYS_PTRACE;
    if kept.intersects(way_back) {
        return Err(AccountError::Regained("it still has capabilities"));
    }
    Ok(())
}

/// From now on, no program started by this process can gain more rights than it has, set-user-ID or not.
///
/// # Errors
/// If the kernel is older than Linux 3.5.
pub fn no_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Writes no core dumps of this process and of those it starts: their memory holds private keys.
///
/// # Errors
/// The system's.
pub fn no_core_dumps() -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    Ok(setrlimit(Resource::Core, none)?)
}

/// What a confined process can still access. Directories include everything below them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Readable.
    pub read: Vec<PathBuf>,
    /// Readable and executable, or loadable by a program.
    pub execute: Vec<PathBuf>,
    /// Directories with executable programs. By Landlock's rules, that includes reading the files, but not listing
    /// them.
    pub programs: Vec<PathBuf>,
    /// Directories in which files can be created and written.
    pub write: Vec<PathBuf>,
    /// Directories in which sockets can be created and anything can be removed, so that another process's socket can be
    /// replaced.
    pub sockets: Vec<PathBuf>,
    /// TCP ports that can be bound.
    pub ports: Vec<u16>,
    /// Directories in which files and directories can be created, read, written, renamed and removed.
    pub keep: Vec<PathBuf>,
    /// Directories in which, and in all below them, files and directories can be created, read, written, renamed, moved from
    /// one to another, and removed.
    pub change: Vec<PathBuf>,
    /// Directories in which symbolic links can be created, and files removed: a link is replaced by renaming another.
    pub links: Vec<PathBuf>,
    /// TCP ports that can be connected to, at any address.
    pub connects: Vec<u16>,
    /// Whether abstract UNIX sockets of processes outside can be connected to, such as a service manager's.
    pub abstract_sockets: bool,
}

/// How much of a [`Reach`] the kernel enforces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// Everything requested: the Landlock ABI version.
    Full(i32),
    /// What this kernel supports: its ABI version.
    Partial(i32),
    /// Nothing; the reason.
    None(&'static str),
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Confinement::Full(version) => write!(f, "Landlock {version}"),
            Confinement::Partial(version) => write!(f, "Landlock {version}, as far as supported here"),
            Confinement::None(why) => write!(f, "no Landlock: {why}"),
        }
    }
}

/// The ABI version this code is written against: files, devices, TCP ports, signals, abstract UNIX sockets.
const INTERFACE: ABI = ABI::V6;

/// Denies this thread, and all threads and programs it starts, everything outside `reach`: other files, other TCP
/// ports, TCP connections, abstract UNIX sockets outside, signals to processes outside. Paths that do not exist are
/// skipped. The kernel enforces as much of that as it supports.
///
/// Not denied, because Landlock has no rule for it: UDP, protocols other than TCP, and TCP Fast Open, which
/// [`crate::seccomp::restrict`] denies; and connecting to a UNIX socket by path, which the file's mode controls.
///
/// # Errors
/// If the kernel supports Landlock but refuses.
pub fn confine(reach: &Reach) -> io::Result<Confinement> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = AccessFs::WriteFile | AccessFs::MakeReg;
    let status = enforce(
        reach,
        &[
            (&reach.read, read),
            (&reach.execute, read | AccessFs::Execute),
            (&reach.programs, AccessFs::ReadFile | AccessFs::Execute),
            (&reach.write, write),
            (&reach.sockets, AccessFs::MakeSock | AccessFs::RemoveFile),
            (
                &reach.keep,
                read | write | AccessFs::Truncate | AccessFs::MakeDir | AccessFs::RemoveFile,
            ),
            (
                &reach.change,
                read | write
                    | AccessFs::Truncate
                    | AccessFs::MakeDir
                    | AccessFs::RemoveFile
                    | AccessFs::RemoveDir
                    | AccessFs::Refer,
            ),
            (&reach.links, AccessFs::MakeSym | AccessFs::RemoveFile),
        ],
    )
    .map_err(io::Error::other)?;
    let version = match status.landlock {
        LandlockStatus::NotEnabled => return Ok(Confinement::None("it is disabled in this kernel")),
        LandlockStatus::NotImplemented => {
            return Ok(Confinement::None(match sys::landlock_version() {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    "it is forbidden here (EPERM or EACCES), for example by a seccomp filter"
                }
                _ => "this kernel does not know it",
            }));
        }
        LandlockStatus::Available { effective_abi, .. } => effective_abi as i32,
    };
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Confinement::Full(version),
        RulesetStatus::PartiallyEnforced => Confinement::Partial(version),
        RulesetStatus::NotEnforced => Confinement::None("this kernel rejects it"),
    })
}

fn enforce(
    reach: &Reach,
    paths: &[(&Vec<PathBuf>, BitFlags<AccessFs>)],
) -> Result<RestrictionStatus, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(INTERFACE))?
        .handle_access(AccessNet::from_all(INTERFACE))?
        .scope(Scope::Signal)?;
    if !reach.abstract_sockets {
        rules = rules.scope(Scope::AbstractUnixSocket)?;
    }
    let mut rules = rules.create()?;
    for &(some, access) in paths {
        for path in some {
            // A missing path cannot be accessed anyway, and a pipe needs no rule.
            let Ok(fd) = PathFd::new(path) else { continue };
            let access = if path.is_dir() {
                access
            } else {
                access & AccessFs::from_file(INTERFACE)
            };
            if let Err(error) = (&mut rules).add_rule(PathBeneath::new(fd, access)) {
                tracing::debug!("no leave for {}: {error}", path.display());
            }
        }
    }
    for &port in &reach.ports {
        rules = rules.add_rule(NetPort::new(port, AccessNet::BindTcp))?;
    }
    for &port in &reach.connects {
        rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    rules.restrict_self()
}

/// Gives a file or directory to an account. Only root may. A symbolic link is given itself, not what it leads to.
///
/// # Errors
/// Of the system.
pub fn give(path: &Path, to: &Account) -> io::Result<()> {
    Ok(rustix::fs::chownat(
        rustix::fs::CWD,
        path,
        Some(rustix::process::Uid::from_raw(to.uid)),
        Some(rustix::process::Gid::from_raw(to.gid)),
        rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

/// The kernel's refusal to read a directory although the user of this process may read it: the directory is outside the
/// process's confinement. Trying is the only way to know, because an earlier process may have set the confinement.
/// Opening the directory would not show it: that is allowed without the right to read anything in it.
pub fn beyond_reach(directory: &Path) -> Option<io::Error> {
    let refusal = std::fs::read_dir(directory)
        .err()
        .filter(|error| error.kind() == io::ErrorKind::PermissionDenied)?;
    // Landlock does not affect this call.
    let may = rustix::fs::access(directory, rustix::fs::Access::READ_OK).is_ok();
    may.then_some(refusal)
}

/// Whether this process can now write `path`, or its folder if the file does not exist: an access log must stay
/// writable after a rotation.
pub fn can_make(path: &Path) -> bool {
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    let folder = folder(path);
    folder.is_dir() && rustix::fs::access(folder, access).is_ok()
}

/// Whether the file system of a directory is mounted read-only, so that no owner or mode lets this process write there.
pub fn is_read_only(directory: &Path) -> bool {
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK) == Err(rustix::io::Errno::ROFS)
}

/// Whether this process can now remove the file at `path`, and so replace it. In a folder with the sticky bit (such as
/// `/tmp`), only the owner of the file or the folder can.
pub fn can_remove(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    const STICKY: u32 = 0o1000;
    let owns = |path: &Path| std::fs::symlink_metadata(path).map(|found| (found.uid(), found.mode()));
    let (Ok((owner, _)), Ok((holder, mode))) = (owns(path), owns(folder(path))) else {
        return false;
    };
    let (uid, _) = current();
    can_make(path) && (mode & STICKY == 0 || uid == 0 || [owner, holder].contains(&uid))
}

/// Whether this process can now write the file at `path`.
pub fn can_write(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

/// The folder of a file, existing or not.
pub fn folder(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

    /// `MSG_FASTOPEN`.
    const FAST_OPEN: u32 = 0x2000_0000;

    /// A manager that listens at an abstract socket is reachable, and nothing else changes.
    #[test]
    fn abstract_sockets_are_within_reach_if_that_is_said() {
        let name = SocketAddr::from_abstract_name(format!("weir-manager-{}", std::process::id())).unwrap();
        let _manager = UnixListener::bind_addr(&name).unwrap();
        let reach = Reach {
            abstract_sockets: true,
            ..Reach::default()
        };
        let thread = std::thread::spawn(move || {
            no_new_privileges().unwrap();
            confine(&reach).unwrap();
            UnixStream::connect_addr(&name).unwrap();
        });
        thread.join().unwrap();
    }

    #[test]
    fn accounts_are_names_or_numbers() {
        let root = Account::find("root", None).expect("every system has root");
        assert_eq!((root.uid(), root.gid()), (0, 0));
        let number = Account::find("4711", Some("4712")).expect("a number needs no entry");
        assert_eq!((number.uid(), number.gid()), (4711, 4712));
        assert_eq!(number.groups, [4712]);
        let error = Account::find("nobody-of-that-name", None).expect_err("no such user");
        assert!(error.to_string().contains("`nobody-of-that-name`"), "{error}");
        assert_eq!(find_group("root").expect("every system has root"), 0);
        assert_eq!(find_group("4712").expect("a number needs no entry"), 4712);
        let error = Account::find("root", Some("no-such-group")).expect_err("no such group");
        assert!(error.to_string().contains("`no-such-group`"), "{error}");
    }

    #[test]
    fn what_is_not_within_reach_is_denied() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["site", "logs", "secret", "versions"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("file"), name).unwrap();
        }
        let reach = Reach {
            read: vec![at("site"), at("missing"), at("versions")],
            write: vec![at("logs")],
            links: vec![at("versions")],
            sockets: Vec::new(),
            ..Reach::default()
        };
        let outside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = outside.local_addr().unwrap();
        let name = SocketAddr::from_abstract_name(format!("weir-privilege-{}", std::process::id())).unwrap();
        let _abstract = UnixListener::bind_addr(&name).unwrap();
        assert!(UnixStream::connect_addr(&name).is_ok());
        // Confinement applies to a thread and its children, so the test gives up a thread of its own.
        let checked = std::thread::spawn(move || {
            no_new_privileges().unwrap();
            let confinement = confine(&reach).unwrap();
            let version = match confinement {
                Confinement::None(why) => return Some(why),
                Confinement::Full(version) | Confinement::Partial(version) => version,
            };
            let denied = |result: io::Result<()>| {
                result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
            };
            assert_eq!(fs::read(reach.read[0].join("file")).unwrap(), b"site");
            assert!(denied(fs::read(reach.read[0].join("../secret/file")).map(drop)));
            assert!(beyond_reach(&reach.read[0]).is_none() && beyond_reach(&reach.read[1]).is_none());
            assert!(beyond_reach(&reach.read[0].join("../secret")).is_some());
            assert!(denied(fs::write(reach.read[0].join("new"), "x")));
            let links = |folder: &Path| {
                let folder = crate::fs::VersionFolder::at(folder);
                let wanted = crate::fs::VersionLinks {
                    current: "b".to_owned(),
                    previous: Some("a".to_owned()),
                };
                let back = crate::fs::VersionLinks {
                    current: "a".to_owned(),
                    previous: None,
                };
                folder.set(&wanted).and_then(|()| folder.set(&back))
            };
            links(&reach.links[0]).unwrap();
            assert!(links(&reach.read[0]).is_err());
            assert!(denied(fs::write(reach.links[0].join("new"), "x")));
            assert!(denied(fs::write(reach.links[0].join("file"), "x")));
            let append = |name: &str| {
                fs::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(reach.write[0].join(name))
                    .map(drop)
            };
            append("file").unwrap();
            append("new").unwrap();
            if version >= 4 {
                assert!(denied(std::net::TcpStream::connect(address).map(drop)));
                assert!(denied(std::net::TcpListener::bind("127.0.0.1:0").map(drop)));
            }
            if version >= 6 {
                assert!(denied(UnixStream::connect_addr(&name).map(drop)));
            }
            // The filter has to deny what Landlock does not see.
            if crate::seccomp::restrict(crate::seccomp::Needs::default()).is_ok() {
                assert!(denied(std::net::UdpSocket::bind("127.0.0.1:0").map(drop)));
                let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
                let fast_open = rustix::net::SendFlags::from_bits_retain(FAST_OPEN);
                let sent = rustix::net::sendto(socket.unwrap(), b"x", fast_open, &address);
                assert!(denied(sent.map(drop).map_err(io::Error::from)));
            }
            None
        })
        .join()
        .unwrap();
        if let Some(why) = checked {
            println!("skipped: {why}");
        }
    }
}
