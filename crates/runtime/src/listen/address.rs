//! Where a listener listens: an address of TCP, or the path of a Unix stream socket (unix(7)).
//!
//! Decides how both are spelled. Who may connect to a path is decided in [`super::unix`].

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What a path begins with where an address is expected.
const UNIX: &str = "unix:";
/// Longest path of a Unix socket in bytes; the kernel adds a zero byte (unix(7)).
const PATH_MAX: usize = 107;

/// The client of every connection over a Unix socket: such a client has no address. It is the unspecified address of IPv6,
/// which no TCP connection can come from.
pub const UNIX_PEER: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The absolute path of a Unix stream socket.
    Unix(PathBuf),
}

impl Address {
    /// The TCP address; `None` for a path.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }

    /// The path; `None` for a TCP address.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Address::Tcp(_) => None,
            Address::Unix(path) => Some(path),
        }
    }

    /// The TCP port; 0 for a path, as for a port that the system is to choose.
    pub fn port(&self) -> u16 {
        self.tcp().map_or(0, |address| address.port())
    }

    /// The address that a socket is bound to; `None` for other families, and for Unix sockets without a path.
    pub(crate) fn of(name: &rustix::net::SocketAddrAny) -> Option<Address> {
        if let Ok(address) = SocketAddr::try_from(name.clone()) {
            return Some(Address::Tcp(address));
        }
        let unix = rustix::net::SocketAddrUnix::try_from(name.clone()).ok()?;
        let path = unix.path()?;
        use std::os::unix::ffi::OsStrExt as _;
        Some(Address::Unix(std::ffi::OsStr::from_bytes(path.to_bytes()).into()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let Some(path) = text.strip_prefix(UNIX) else {
            let wrong = |_| format!("`{text}` is not an address; write ADDR:PORT, or unix:/PATH");
            return text.parse().map(Address::Tcp).map_err(wrong);
        };
        if !path.starts_with('/') || path.contains('\0') {
            return Err(format!(
                "`{}` does not name a file; write an absolute path, as in unix:/run/weir.sock",
                text.escape_debug()
            ));
        }
        if path.len() > PATH_MAX {
            return Err(format!(
                "the path in `{text}` has {} bytes, and the kernel takes {PATH_MAX}; choose a shorter one",
                path.len()
            ));
        }
        Ok(Address::Unix(path.into()))
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Tcp(address)
    }
}

/// For clients of TCP addresses.
impl std::net::ToSocketAddrs for Address {
    type Iter = std::option::IntoIter<SocketAddr>;

    fn to_socket_addrs(&self) -> io::Result<Self::Iter> {
        let none = || io::Error::new(io::ErrorKind::InvalidInput, "a path is no TCP address");
        Ok(Some(self.tcp().ok_or_else(none)?).into_iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_read_and_shown() {
        let longest = format!("unix:/{}", "x".repeat(PATH_MAX - 1));
        for text in ["127.0.0.1:80", "[::1]:0", "unix:/run/a b.sock", &longest] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for (text, advice) in [
            ("127.0.0.1", "ADDR:PORT"),
            ("unix:", "absolute path"),
            ("unix:weir.sock", "absolute path"),
            ("unix:@name", "absolute path"),
            (&*format!("{longest}x"), "shorter"),
        ] {
            let why = text.parse::<Address>().unwrap_err();
            assert!(why.contains(advice), "{text}: {why}");
        }
    }
}
