//! The machine's name server, as commands behind the link reach it.
//!
//! `resolv.conf(5)` may name a server that listens on a loopback address, or that has an IPv6 address. No packet of the
//! command reaches either: its loopback is its own, and the link carries IPv4. The command then sees another
//! `/etc/resolv.conf`, in which the gateway stands for that server: the relay takes what arrives at the gateway's port 53
//! to the server. All other servers are reached at their addresses. In either case, the queries cross the link.

use crate::GATEWAY;
use runtime::sys;
use rustix::fs::{Mode, OFlags};
use rustix::mount::mount_bind;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

/// The C library's configuration of name servers.
const FILE: &str = "/etc/resolv.conf";
/// Name servers that the C library uses; it ignores further ones (`MAXNS`).
const SERVERS_MAX: usize = 3;

/// Name servers of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolver {
    /// The server behind the gateway's port 53; `None` if its address is none that a socket can be connected to.
    pub(super) server: Option<IpAddr>,
    /// What the command sees as the configuration; `None`: the machine's own.
    text: Option<String>,
}

impl Resolver {
    /// Reads the machine's configuration. Without one, there are no name servers.
    pub(super) fn of_machine() -> Resolver {
        match std::fs::read_to_string(FILE) {
            Ok(text) => Resolver::read(&text),
            Err(_) => Resolver {
                server: None,
                text: None,
            },
        }
    }

    fn read(text: &str) -> Resolver {
        let servers: Vec<&str> = text.lines().filter_map(server).take(SERVERS_MAX).collect();
        if servers.is_empty() {
            // The C library then asks a server on this machine.
            return Resolver {
                server: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                text: Some(format!("{text}\nnameserver {GATEWAY}\n")),
            };
        }
        let Some(hidden) = servers.iter().find(|server| !is_reached(server)) else {
            return Resolver {
                server: servers[0].parse().ok(),
                text: None,
            };
        };
        let mut is_named = false;
        let mut seen = String::new();
        for line in text.lines() {
            match server(line) {
                Some(server) if !is_reached(server) => {
                    if !is_named {
                        seen += &format!("nameserver {GATEWAY}\n");
                        is_named = true;
                    }
                }
                _ => {
                    seen += line;
                    seen.push('\n');
                }
            }
        }
        Resolver {
            server: hidden.parse().ok(),
            text: Some(seen),
        }
    }

    /// What is done about it, for people.
    pub(super) fn reason(&self) -> Option<String> {
        let server = self.server.filter(|_| self.text.is_some())?;
        Some(format!(
            "name server {server} cannot be reached behind a link, so the command's {FILE} names {GATEWAY} in its place"
        ))
    }

    /// What the command must see in place of the machine's configuration.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

/// The address in a line that names a server.
fn server(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    (words.next() == Some("nameserver")).then(|| words.next())?
}

/// Whether packets of the command reach a server.
fn is_reached(server: &str) -> bool {
    server
        .parse::<Ipv4Addr>()
        .is_ok_and(|address| !address.is_loopback() && !address.is_unspecified())
}

/// Shows processes that the calling thread starts from now on this text as the C library's configuration. Nobody else
/// sees it.
///
/// # Errors
/// The system's: it has no such file, or no right to mount.
pub(super) fn show(text: &str) -> io::Result<()> {
    sys::own_mounts()?;
    let (path, mut file) = create()?;
    let shown = file
        .write_all(text.as_bytes())
        .and_then(|()| Ok(mount_bind(path.as_path(), FILE)?));
    // The mount keeps the file.
    let removed = std::fs::remove_file(&path);
    shown.and(removed)
}

/// A new file that everybody may read.
fn create() -> io::Result<(PathBuf, File)> {
    let folder = std::env::temp_dir();
    let process = rustix::process::getpid().as_raw_nonzero();
    // A name that is taken is not used, whoever has taken it.
    for attempt in 0..100 {
        let path = folder.join(format!("weir-link-{process}-{attempt}.conf"));
        match open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let file = rustix::fs::open(path, flags, mode)?;
    // Whatever the mask of this process takes away.
    rustix::fs::fchmod(&file, mode)?;
    Ok(File::from(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_out_of_reach_become_the_gateway_and_the_rest_stays() {
        let check = |text: &str, server: Option<&str>, seen: Option<&str>| {
            let found = Resolver::read(text);
            let server = server.map(|server| server.parse().expect("an address"));
            assert_eq!((found.server, found.text()), (server, seen), "{text}");
            assert_eq!(
                found.reason().is_some(),
                seen.is_some() && server.is_some(),
                "{text}"
            );
        };
        check(
            "nameserver 192.0.2.1\nnameserver 192.0.2.2\n",
            Some("192.0.2.1"),
            None,
        );
        check(
            "# stub\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch example.org",
            Some("127.0.0.53"),
            Some("# stub\nnameserver 198.18.0.1\noptions edns0 trust-ad\nsearch example.org\n"),
        );
        check(
            "nameserver\t2001:db8::1\nnameserver 192.0.2.2\nnameserver ::1\n",
            Some("2001:db8::1"),
            Some("nameserver 198.18.0.1\nnameserver 192.0.2.2\n"),
        );
        // The fourth is not asked.
        check(
            "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 127.0.0.1\n",
            Some("192.0.2.1"),
            None,
        );
        check(
            "search a",
            Some("127.0.0.1"),
            Some("search a\nnameserver 198.18.0.1\n"),
        );
        check("", Some("127.0.0.1"), Some("\nnameserver 198.18.0.1\n"));
        // An address that is none without its interface.
        check("nameserver fe80::1%eth0\n", None, Some("nameserver 198.18.0.1\n"));
        // Behind a link, the gateway is a server like any other.
        check("nameserver 198.18.0.1\n", Some("198.18.0.1"), None);
        check(
            ";nameserver 127.0.0.1\nnameserver",
            Some("127.0.0.1"),
            Some(";nameserver 127.0.0.1\nnameserver\nnameserver 198.18.0.1\n"),
        );
    }

    #[test]
    fn a_file_is_never_one_that_was_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let first = open(&path).expect("a new file");
        let mode = first.metadata().expect("its metadata").permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o644);
        let again = open(&path).expect_err("it is there");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }
}
