//! Finds the program that occupies an address of TCP or a port of UDP, so that an error can name it instead of the errno.
//!
//! Reads `/proc`. Processes it may not inspect (other users', without privileges) stay unknown.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

/// A program that has a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its process ID.
    pub pid: u32,
    /// Its name in the kernel (at most 15 bytes).
    pub name: String,
    /// The process that has started it, if that has the same name: a worker process has one, and a process that has followed
    /// another in an upgrade in place.
    pub started_by: Option<u32>,
}

/// `NAME (process PID)`, with the process that has started it.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {}", self.name, self.pid)?;
        if let Some(parent) = self.started_by {
            write!(f, ", started by process {parent}")?;
        }
        f.write_str(")")
    }
}

/// The program that listens on this port of TCP, of any address; `None` if it cannot be seen.
pub fn owner(address: SocketAddr) -> Option<Owner> {
    const LISTEN: &str = "0A";
    having(["/proc/net/tcp", "/proc/net/tcp6"], address.port(), LISTEN)
}

/// The program that receives from anybody on this port of UDP, of any address; `None` if it cannot be seen.
pub fn owner_of_datagrams(address: SocketAddr) -> Option<Owner> {
    const UNCONNECTED: &str = "07";
    having(["/proc/net/udp", "/proc/net/udp6"], address.port(), UNCONNECTED)
}

/// The program with a socket in these tables that has this port and state.
fn having(tables: [&str; 2], port: u16, state: &str) -> Option<Owner> {
    let inodes: Vec<String> = tables
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .flat_map(|table| inodes(&table, port, state))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let has_it = std::fs::read_dir(process.path().join("fd"))
            .ok()?
            .flatten()
            .filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok())
            .any(|target| inodes.iter().any(|inode| target == Path::new(inode)));
        let name = name(pid)?;
        has_it.then(|| Owner {
            pid,
            started_by: parent(pid).filter(|parent| self::name(*parent).as_ref() == Some(&name)),
            name,
        })
    })
}

fn name(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

fn parent(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

/// Inodes of the sockets with this port and state, from a table of `/proc/net`.
fn inodes(table: &str, port: u16, state: &str) -> Vec<u64> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
            let is_it = u16::from_str_radix(local_port, 16).ok()? == port && *fields.get(3)? == state;
            if is_it { fields.get(9)?.parse().ok() } else { None }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_kernel_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n   \
            1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 4 30 10 -1\n   \
            2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100 0 0 10 0\n";
        assert_eq!(inodes(table, 8080, "0A"), [4711]);
        assert_eq!(inodes(table, 80, "0A"), [4713]);
        assert_eq!(inodes(table, 81, "0A"), [0; 0]);
    }

    #[test]
    fn we_find_ourselves() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let found = owner(listener.local_addr().expect("an address")).expect("our own process");
        assert_eq!(found.pid, std::process::id());
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("an address");
        let found = owner_of_datagrams(address).expect("our own process");
        assert_eq!(found.pid, std::process::id());
        let said = found.to_string();
        assert!(said.contains(&format!("(process {}", found.pid)), "{said}");
        drop(socket);
        assert_eq!(owner_of_datagrams(address), None);
    }
}
