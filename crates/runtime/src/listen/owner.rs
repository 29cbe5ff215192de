//! Finds the program that occupies an address, so that an error can name it instead of the errno.
//!
//! Reads `/proc`. Processes it may not inspect (other users', without privileges) stay unknown.

use std::net::SocketAddr;
use std::path::Path;

/// A listening program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its process ID.
    pub pid: u32,
    /// Its name in the kernel (at most 15 bytes).
    pub name: String,
}

/// The program that listens on this port of this address, or of every address; `None` if it cannot be seen.
pub fn owner(address: SocketAddr) -> Option<Owner> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .flat_map(|table| listening(&table, address.port()))
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
        let name = std::fs::read_to_string(process.path().join("comm")).ok()?;
        has_it.then(|| Owner {
            pid,
            name: name.trim_end().to_owned(),
        })
    })
}

/// Inodes of the sockets that listen on this port, from a table of `/proc/net`.
fn listening(table: &str, port: u16) -> Vec<u64> {
    const LISTEN: &str = "0A";
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
            let is_it = u16::from_str_radix(local_port, 16).ok()? == port && *fields.get(3)? == LISTEN;
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
        assert_eq!(listening(table, 8080), [4711]);
        assert_eq!(listening(table, 80), [4713]);
        assert_eq!(listening(table, 81), [0; 0]);
    }

    #[test]
    fn we_find_ourselves() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let found = owner(listener.local_addr().expect("an address")).expect("our own process");
        assert_eq!(found.pid, std::process::id());
    }
}
