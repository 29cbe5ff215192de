//! Many streams, a large file, loss, reordering and another address of the client: every client with every one. quic-go and
//! aioquic move by themselves (connection migration); curl and Chromium do not, so a NAT moves them.

use super::relay::{Path, Relay, Seen};
use super::{Peer, SECONDS_MAX, Site, number, saw, script};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Of(Peer),
    Curl,
    Chromium,
}

/// Streams at once beside the large file's.
pub(super) const SMALL: usize = 100;
pub(super) const LARGE: usize = 20 << 20;
/// The same with aioquic on paths that are not clear: Python takes a second of a processor for 8 MiB.
pub(super) const LARGE_SLOW: usize = 5 << 20;

impl Client {
    /// Bytes of the large file on a path that is not clear.
    fn large(self) -> usize {
        match self {
            Client::Of(Peer::Aioquic) => LARGE_SLOW,
            _ => LARGE,
        }
    }

    fn get(self, site: &Site, from: SocketAddr, moves: bool, names: &[&str]) -> Option<Value> {
        let name = match self {
            Client::Of(peer) => {
                let flags: &[&str] = if moves { &["--move"] } else { &[] };
                return site.get(peer, flags, from, names);
            }
            Client::Curl => "curl.py",
            Client::Chromium => "chromium.py",
        };
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", SECONDS_MAX, "python3", &script(name)]);
        command.arg(format!("https://{from}/")).arg(site.folder());
        if self == Client::Chromium {
            command.arg(site.path("cert.pem"));
        }
        command.args(names);
        saw(command)
    }

    /// Whether it takes another address by itself.
    fn moves(self) -> bool {
        matches!(self, Client::Of(_))
    }
}

/// Fetches the files with this client through a path, over one connection.
fn whole(client: Client, path: Path, moves: bool, large: usize) -> Option<(Value, Seen)> {
    let (site, small) = Site::many(SMALL, 3_000);
    site.write("large.bin", &vec![b'l'; large]);
    // The large one is first where the client moves in the first, and last where the first one has to bring the connection.
    let mut names: Vec<&str> = small.iter().map(String::as_str).collect();
    match client {
        Client::Of(_) | Client::Chromium => names.insert(0, "large.bin"),
        Client::Curl => names.push("large.bin"),
    }
    let server = site.serve("127.0.0.1:0");
    let relay = Relay::before(server.address, path);
    let found = client.get(&site, relay.address, moves, &names)?;
    let wanted = (SMALL * 3_000 + large) as u64;
    assert_eq!(number(&found, "bytes"), wanted, "{client:?}: {found}");
    assert_eq!(number(&found, "files"), SMALL as u64 + 1, "{client:?}: {found}");
    if client == Client::Chromium {
        // By the log of its network: the page itself is an answer, too.
        assert_eq!(found["connections"], 1, "{found}");
        assert_eq!(found["handshakes_of_tcp"], 0, "{found}");
        assert_eq!(found["versions"], json!(["RFCv1"]), "{found}");
        assert_eq!(number(&found, "answers"), SMALL as u64 + 2, "{found}");
    }
    let seen = relay.seen();
    let most = match client {
        Client::Of(_) => 1 + u64::from(moves),
        // A second connection for requests beyond those that the server permits at a time.
        Client::Curl => 2,
        // Another port each time that the path seems to degrade, up to four times; a busy machine is enough.
        Client::Chromium => 5,
    };
    assert!((1..=most).contains(&seen.clients), "{client:?}: {seen:?}");
    Some((found, seen))
}

fn clear(client: Client) {
    whole(client, Path::clear(), false, LARGE);
}

/// 2 % of the datagrams, each way.
fn loss(client: Client) {
    let path = Path {
        loss: 0.02,
        ..Path::clear()
    };
    if let Some((_, seen)) = whole(client, path, false, client.large()) {
        assert!(seen.up.lost > 0 && seen.down.lost > 50, "{client:?}: {seen:?}");
    }
}

/// 2 % of the datagrams, each way, are overtaken by those of the next milliseconds.
fn reordering(client: Client) {
    let path = Path {
        reorder: 0.02,
        ..Path::clear()
    };
    if let Some((_, seen)) = whole(client, path, false, client.large()) {
        assert!(seen.up.late > 0 && seen.down.late > 50, "{client:?}: {seen:?}");
    }
}

fn migration(client: Client) {
    let moves = client.moves();
    let path = Path {
        delay: Duration::from_millis(5),
        rebind: if moves { &[] } else { &[3_000, 9_000] },
        moves: !moves,
        ..Path::clear()
    };
    let Some((found, seen)) = whole(client, path, moves, client.large()) else {
        return;
    };
    if moves {
        assert!(number(&found, "moved") > 1_500, "{client:?}: {found}");
    } else {
        assert_eq!(seen.rebound, 2, "{client:?}: {seen:?}");
    }
}

/// A module with a test for each network, for a client.
macro_rules! on_each_network {
    ($($module:ident, $client:expr;)*) => {
        $(mod $module {
            use super::*;
            #[test]
            fn streams_and_20_mib() { clear($client); }
            #[test]
            fn loss() { super::loss($client); }
            #[test]
            fn reordering() { super::reordering($client); }
            #[test]
            fn migration() { super::migration($client); }
        })*
    };
}

on_each_network! {
    quic_go, Client::Of(Peer::QuicGo);
    aioquic, Client::Of(Peer::Aioquic);
    curl, Client::Curl;
    chromium, Client::Chromium;
}
