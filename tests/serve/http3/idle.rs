//! What an idle connection costs the server. The kernel has no part in it: all connections share the sockets.

use super::client::Client;
use super::{launch, open, resident, site};
use crate::serve::process::Strategy;

/// Bytes that a connection may take: 24 KiB are usual, of which 6 KiB are the library's structure, 5 KiB its tables of permitted
/// streams, and 4 KiB keys. With TLS's state or the tables of 128 streams, it would be more than this.
const MOST: u64 = 28 << 10;
const MANY: usize = 600;

#[test]
fn an_idle_connection_takes_at_most_28_kib() {
    let pairs = site(&[("a.txt", b"a")]);
    let flags = [
        "--max-connections-per-address",
        "65536",
        "--memory",
        "off",
        "--adapt",
        "off",
        // Opening them takes long on a busy machine.
        "--idle-timeout",
        "1h",
    ];
    let server = launch(Strategy::LOOPS, &pairs, &flags);
    let idle = |count: usize| -> Vec<Client> {
        let mut all: Vec<Client> = (0..count).map(|_| open(&server, &pairs)).collect();
        for client in &mut all {
            client.get("/a.txt", &[]);
        }
        // The acknowledgments of what came last.
        for client in &mut all {
            client.run(|_| true);
        }
        // Behind them, this one is answered.
        open(&server, &pairs).get("/a.txt", &[]);
        all
    };
    // The first bring what is allocated once.
    let mut first = idle(100);
    let before = resident(&server);
    let mut all = idle(MANY);
    let each = resident(&server).saturating_sub(before) / MANY as u64;
    println!("an idle connection takes {each} bytes");
    assert!(each <= MOST, "{each} bytes");
    for client in first.iter_mut().chain(&mut all) {
        assert_eq!(client.get("/a.txt", &[]).body, b"a", "it is open");
    }
}
