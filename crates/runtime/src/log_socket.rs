//! Log lines as datagrams: to a syslog daemon (over a Unix socket as the C library writes them, or RFC 5424 over UDP, RFC 5426),
//! or to the journal of systemd in its native protocol (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>).
//!
//! Decides how a line is framed and what becomes of a daemon that restarts. Whoever has the lines decides what to do while the
//! daemon takes none.

use crate::clock;
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::fmt;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use units::{UnixTime, civil};

/// Most bytes of a line in a datagram; the rest is cut. A datagram over UDP has at most 65,507 bytes.
pub const LINE_MAX: usize = 48 << 10;

/// The socket of the local syslog daemon.
const DEV_LOG: &str = "/dev/log";

/// The socket of the journal.
const JOURNAL: &str = "/run/systemd/journal/socket";

/// Port of syslog over UDP (RFC 5426 section 3.3).
const SYSLOG_PORT: u16 = 514;

/// Name of the program in each message.
const PROGRAM: &str = "weir";

/// How urgent a message is (RFC 5424 section 6.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Severity {
    /// An error.
    Error = 3,
    /// A warning.
    Warning = 4,
    /// Information.
    #[default]
    Informational = 6,
    /// For developers.
    Debug = 7,
}

/// The facility `daemon` (RFC 5424 section 6.2.1).
const FACILITY: u8 = 3;

/// Where lines go as datagrams: `syslog:`, `syslog:/PATH`, `syslog:udp://HOST:PORT`, `journald:` or `journald:/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSocket {
    protocol: Protocol,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Syslog,
    Journal,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Unix(PathBuf),
    Udp { host: String, port: u16 },
}

impl LogSocket {
    /// Whether this names a socket rather than a file, valid or not.
    pub fn is_meant(text: &Path) -> bool {
        let text = text.as_os_str().as_encoded_bytes();
        text.starts_with(b"syslog:") || text.starts_with(b"journald:")
    }

    /// The UDP port of another host; `None` for a Unix socket.
    pub fn udp_port(&self) -> Option<u16> {
        match self.place {
            Place::Unix(_) => None,
            Place::Udp { port, .. } => Some(port),
        }
    }

    /// Whether its host has a name that must be looked up.
    pub fn has_name(&self) -> bool {
        match &self.place {
            Place::Unix(_) => false,
            Place::Udp { host, .. } => !is_address(host),
        }
    }

    /// Whether the socket can be used now.
    ///
    /// # Errors
    /// Why it cannot, with what to do.
    pub fn probe(&self) -> io::Result<()> {
        self.connect().map(drop)
    }

    fn connect(&self) -> io::Result<OwnedFd> {
        match &self.place {
            Place::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                Ok(socket.into())
            }
            Place::Udp { host, port } => {
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let address = (host, *port).to_socket_addrs()?.next();
                let address = address.ok_or_else(|| io::Error::other("its host name has no address"))?;
                let any: SocketAddr = match address {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                Ok(socket.into())
            }
        }
    }
}

fn is_address(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<std::net::IpAddr>().is_ok()
}

impl FromStr for LogSocket {
    type Err = String;

    fn from_str(text: &str) -> Result<LogSocket, String> {
        let wrong = || {
            format!(
                "`{}` is no socket for a log; write syslog:, syslog:/dev/log, syslog:udp://192.0.2.1:514 or journald:",
                text.escape_debug()
            )
        };
        let (protocol, rest, usual) = match (text.strip_prefix("syslog:"), text.strip_prefix("journald:")) {
            (Some(rest), _) => (Protocol::Syslog, rest, DEV_LOG),
            (_, Some(rest)) => (Protocol::Journal, rest, JOURNAL),
            (None, None) => return Err(wrong()),
        };
        let place = match rest.strip_prefix("udp://") {
            Some(_) if protocol == Protocol::Journal => return Err(wrong()),
            Some(authority) => {
                let (host, port) = match authority.rsplit_once(':') {
                    // The colons of an IPv6 address without a port are within its brackets.
                    Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| wrong())?),
                    _ => (authority, SYSLOG_PORT),
                };
                let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._[]:".contains(&b);
                if host.is_empty() || port == 0 || !host.bytes().all(is_plain) {
                    return Err(wrong());
                }
                Place::Udp {
                    host: host.to_owned(),
                    port,
                }
            }
            None if rest.is_empty() => Place::Unix(usual.into()),
            None if rest.starts_with('/') && !rest.contains('\0') => Place::Unix(rest.into()),
            None => return Err(wrong()),
        };
        Ok(LogSocket { protocol, place })
    }
}

impl fmt::Display for LogSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Syslog => "syslog",
            Protocol::Journal => "journald",
        };
        match &self.place {
            Place::Unix(path) => write!(f, "{protocol}:{}", path.display()),
            Place::Udp { host, port } => write!(f, "{protocol}:udp://{host}:{port}"),
        }
    }
}

/// Takes the name and the value of a field.
pub type Add<'a> = dyn FnMut(&str, &[u8]) + 'a;

/// Finds fields in a line: the function calls the other one with each of them.
#[derive(Clone, Copy)]
pub struct Fields(pub fn(&[u8], &mut Add<'_>));

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fields")
    }
}

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Sender {
    socket: LogSocket,
    fd: OwnedFd,
    /// This host, as it is named in messages over UDP.
    host: String,
    /// The kind of the message: `access` or `server`.
    kind: &'static str,
    datagram: Vec<u8>,
}

impl Sender {
    pub(crate) fn open(socket: LogSocket, kind: &'static str) -> io::Result<Sender> {
        Ok(Sender {
            fd: socket.connect()?,
            socket,
            host: host_name(),
            kind,
            datagram: Vec::new(),
        })
    }

    /// Connects again: to a daemon that has restarted, or to a new address of its host name.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        self.fd = self.socket.connect()?;
        Ok(())
    }

    /// Sends a line without its line end, if that does not block. A daemon that has restarted is connected again.
    ///
    /// # Errors
    /// `WouldBlock` if the daemon is too slow to take it now; otherwise why it cannot be sent.
    pub(crate) fn send(&mut self, line: &[u8], severity: Severity, fields: Option<Fields>) -> io::Result<()> {
        self.compose(line, severity, fields);
        match self.put() {
            Err(
                Errno::CONNREFUSED | Errno::CONNRESET | Errno::NOTCONN | Errno::PIPE | Errno::DESTADDRREQ,
            ) => {
                self.reopen()?;
                Ok(self.put()?)
            }
            result => Ok(result?),
        }
    }

    fn put(&self) -> Result<(), Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        loop {
            match rustix::net::send(&self.fd, &self.datagram, flags) {
                Err(Errno::INTR) => {}
                sent => return sent.map(drop),
            }
        }
    }

    fn compose(&mut self, line: &[u8], severity: Severity, fields: Option<Fields>) {
        let line = &line[..line.len().min(LINE_MAX)];
        let out = &mut self.datagram;
        out.clear();
        let (priority, pid) = (FACILITY * 8 + severity as u8, std::process::id());
        match (self.socket.protocol, &self.socket.place) {
            // Daemons read RFC 5424 from the network only: rsyslog takes its version for the name of the program. They know the
            // time and the host themselves.
            (Protocol::Syslog, Place::Unix(_)) => {
                let _ = write!(out, "<{priority}>{PROGRAM}-{}[{pid}]: ", self.kind);
                out.extend_from_slice(line);
            }
            (Protocol::Syslog, Place::Udp { .. }) => {
                let _ = write!(
                    out,
                    "<{priority}>1 {} {} {PROGRAM} {pid} {} - ",
                    timestamp(clock::wall()),
                    self.host,
                    self.kind
                );
                out.extend_from_slice(line);
            }
            (Protocol::Journal, _) => {
                field(out, "MESSAGE", line);
                field(out, "PRIORITY", &[b'0' + severity as u8]);
                field(out, "SYSLOG_IDENTIFIER", PROGRAM.as_bytes());
                field(out, "WEIR_LOG", self.kind.as_bytes());
                if let Some(Fields(find)) = fields {
                    find(line, &mut |name, value| {
                        let is_plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
                        let name = format!("WEIR_{}", name.to_ascii_uppercase());
                        if name.bytes().all(is_plain)
                            && name.len() <= 64
                            && out.len() + value.len() <= LINE_MAX * 2
                        {
                            field(out, &name, value);
                        }
                    });
                }
            }
        }
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Appends a field of the journal. A value with line ends has its length in front of it.
fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    if value.contains(&b'\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// The name of this host (RFC 5424 section 6.2.4).
fn host_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy().into_owned();
    let is_valid =
        |name: &str| !name.is_empty() && name.len() <= 255 && name.bytes().all(|b| b.is_ascii_graphic());
    if is_valid(&name) { name } else { "-".to_owned() }
}

/// A time as in RFC 3339, in UTC, with microseconds (RFC 5424 section 6.2.3).
fn timestamp(time: UnixTime) -> impl fmt::Display {
    civil::to_rfc3339(time, 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_have_names() {
        for (text, shown) in [
            ("syslog:", "syslog:/dev/log"),
            ("syslog:/run/log", "syslog:/run/log"),
            ("syslog:udp://192.0.2.1", "syslog:udp://192.0.2.1:514"),
            (
                "syslog:udp://[2001:db8::1]:1514",
                "syslog:udp://[2001:db8::1]:1514",
            ),
            ("syslog:udp://[::1]", "syslog:udp://[::1]:514"),
            ("syslog:udp://logs.internal:99", "syslog:udp://logs.internal:99"),
            ("journald:", "journald:/run/systemd/journal/socket"),
            ("journald:/run/j", "journald:/run/j"),
        ] {
            let socket: LogSocket = text.parse().unwrap();
            assert_eq!(socket.to_string(), shown);
            assert_eq!(socket.has_name(), text.contains("internal"));
            assert!(LogSocket::is_meant(Path::new(text)));
        }
        for text in [
            "syslog",
            "syslog:log",
            "syslog:udp://",
            "syslog:udp://a:0",
            "syslog:udp://a:b",
            "syslog:tcp://a",
            "journald:udp://a",
            "/dev/log",
        ] {
            assert!(
                text.parse::<LogSocket>().unwrap_err().contains("syslog:udp://"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_time_is_written_as_in_rfc_3339() {
        for (secs, nanos, text) in [
            (0, 0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399, 999_999_999, "2000-02-28T23:59:59.999999Z"),
            (951_782_400, 1_000, "2000-02-29T00:00:00.000001Z"),
            (1_795_913_999, 0, "2026-11-29T00:59:59.000000Z"),
        ] {
            assert_eq!(timestamp(UnixTime { secs, nanos }).to_string(), text);
        }
    }

    fn sent(to: &str, line: &[u8], fields: Option<Fields>) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let daemon = UnixDatagram::bind(&path).unwrap();
        let socket = format!("{to}:{}", path.display()).parse().unwrap();
        let mut sender = Sender::open(socket, "server").unwrap();
        sender.send(line, Severity::Warning, fields).unwrap();
        let mut got = vec![0; 1 << 18];
        let len = daemon.recv(&mut got).unwrap();
        got.truncate(len);
        got
    }

    #[test]
    fn syslog_gets_a_line_with_its_header() {
        let pid = std::process::id().to_string();
        let got = String::from_utf8(sent("syslog", b"a b", None)).unwrap();
        assert_eq!(got, format!("<28>weir-server[{pid}]: a b"));
        let daemon = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = format!("syslog:udp://{}", daemon.local_addr().unwrap());
        let mut sender = Sender::open(socket.parse().unwrap(), "server").unwrap();
        sender.send(b"a b", Severity::Warning, None).unwrap();
        let mut got = [0; 1024];
        let len = daemon.recv(&mut got).unwrap();
        let got = String::from_utf8_lossy(&got[..len]);
        let parts: Vec<&str> = got.splitn(8, ' ').collect();
        assert_eq!((parts[0], parts[3], parts[4]), ("<28>1", "weir", &*pid), "{got}");
        assert_eq!(parts[5..], ["server", "-", "a b"], "{got}");
        let long = sent("syslog", &vec![b'x'; LINE_MAX + 1], None);
        assert!(long.ends_with(b"x"));
        assert_eq!(long.iter().filter(|b| **b == b'x').count(), LINE_MAX);
    }

    #[test]
    fn the_journal_gets_fields() {
        let find = Fields(|line, add| {
            add("status", line);
            add("bad name", b"x");
        });
        let got = String::from_utf8(sent("journald", b"200", Some(find))).unwrap();
        assert_eq!(
            got,
            "MESSAGE=200\nPRIORITY=4\nSYSLOG_IDENTIFIER=weir\nWEIR_LOG=server\nWEIR_STATUS=200\n"
        );
        let got = sent("journald", b"a\nb", None);
        assert!(
            got.starts_with(b"MESSAGE\n\x03\0\0\0\0\0\0\0a\nb\nPRIORITY=4\n"),
            "{got:?}"
        );
    }

    #[test]
    fn a_daemon_that_restarts_gets_the_next_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let socket: LogSocket = format!("syslog:{}", path.display()).parse().unwrap();
        assert!(socket.probe().is_err());
        let daemon = UnixDatagram::bind(&path).unwrap();
        let mut sender = Sender::open(socket, "access").unwrap();
        drop(daemon);
        std::fs::remove_file(&path).unwrap();
        assert!(sender.send(b"lost", Severity::Error, None).is_err());
        let daemon = UnixDatagram::bind(&path).unwrap();
        sender.send(b"found", Severity::Error, None).unwrap();
        let mut got = [0; 1024];
        let len = daemon.recv(&mut got).unwrap();
        assert!(got[..len].ends_with(b": found"));
    }

    #[test]
    fn a_daemon_that_takes_nothing_blocks_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _daemon = UnixDatagram::bind(&path).unwrap();
        let socket = format!("syslog:{}", path.display()).parse().unwrap();
        let mut sender = Sender::open(socket, "access").unwrap();
        let error = (0..1_000_000)
            .find_map(|_| sender.send(&[b'x'; 1024], Severity::Error, None).err())
            .unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
