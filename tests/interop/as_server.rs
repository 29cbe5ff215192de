//! `weir serve` as the server of each case. The clients compare every file with the one that is served.

use super::packets::Kind;
use super::relay::{Path, Relay, Seen};
use super::{Peer, Site, number};
use crate::serve::process::{Server, within};
use quic::hostile::{Hostile, Parameters};
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BOTH: [Peer; 2] = [Peer::QuicGo, Peer::Aioquic];

/// Three files at once, as in the runner's transfer: more than any window of flow control.
const LARGE: [(&str, usize); 3] = [("1.bin", 1 << 20), ("2.bin", 2 << 20), ("3.bin", 3 << 20)];

/// Fetches files through a path with a client, all of them whole: what client and relay saw.
fn got(site: &Site, peer: Peer, path: Path, flags: &[&str], names: &[&str]) -> Option<(Value, Seen)> {
    let server = site.serve("127.0.0.1:0");
    from(&server, site, peer, path, flags, names)
}

fn from(
    server: &Server,
    site: &Site,
    peer: Peer,
    path: Path,
    flags: &[&str],
    names: &[&str],
) -> Option<(Value, Seen)> {
    let relay = Relay::before(server.address, path);
    let found = site.get(peer, flags, relay.address, names)?;
    let lengths = names.iter().map(|name| site.length(name));
    assert_eq!(number(&found, "files"), names.len() as u64, "{peer:?}: {found}");
    assert_eq!(number(&found, "bytes"), lengths.sum::<u64>(), "{peer:?}: {found}");
    Some((found, relay.seen()))
}

/// The same with each of these clients, at once.
fn each(
    peers: &[Peer],
    site: &Site,
    path: &Path,
    flags: &[&str],
    names: &[&str],
    check: impl Fn(Peer, Value, Seen) + Sync,
) {
    std::thread::scope(|scope| {
        for &peer in peers {
            let check = &check;
            scope.spawn(move || {
                if let Some((found, seen)) = got(site, peer, path.clone(), flags, names) {
                    check(peer, found, seen);
                }
            });
        }
    });
}

fn small() -> Site {
    Site::new(&[("small.bin", 1_024)])
}

/// One connection of version 1 without detours.
#[test]
fn handshake() {
    each(
        &BOTH,
        &small(),
        &Path::clear(),
        &[],
        &["small.bin"],
        |peer, found, seen| {
            assert_eq!(found["connections"], 1, "{peer:?}: {found}");
            assert_eq!(found["versions"], json!(["v1"]), "{peer:?}: {found}");
            assert_eq!(found["resumed"], json!([false]), "{peer:?}: {found}");
            assert_eq!(seen.down.count(Kind::Retry), 0, "{peer:?}: {seen:?}");
            assert_eq!(seen.down.count(Kind::VersionNegotiation), 0, "{peer:?}: {seen:?}");
        },
    );
}

#[test]
fn transfer() {
    let site = Site::new(&LARGE);
    let names = LARGE.map(|(name, _)| name);
    each(&BOTH, &site, &Path::clear(), &[], &names, |peer, found, _| {
        assert_eq!(found["connections"], 1, "{peer:?}: {found}");
    });
}

/// The first packets are sent again before an answer can have come, and it remains one connection.
#[test]
fn longrtt() {
    const DELAY: Duration = Duration::from_millis(750);
    let path = Path {
        delay: DELAY,
        ..Path::clear()
    };
    let began = Instant::now();
    each(
        &BOTH,
        &small(),
        &path,
        &[],
        &["small.bin"],
        |peer, found, seen| {
            // A round trip for the handshake, one for the file.
            assert!(began.elapsed() >= 4 * DELAY);
            assert_eq!(found["connections"], 1, "{peer:?}: {found}");
            assert!(seen.up.count(Kind::Initial) > 1, "{peer:?}: {seen:?}");
        },
    );
}

#[test]
fn chacha20() {
    each(
        &BOTH,
        &small(),
        &Path::clear(),
        &["--chacha"],
        &["small.bin"],
        |peer, found, _| {
            let suites = found["suites"].as_array().expect("a list");
            let suite = suites[0].as_str().expect("a name");
            assert!(suite.ends_with("CHACHA20_POLY1305_SHA256"), "{peer:?}: {found}");
        },
    );
}

/// The runner's 1,999 files of 32 bytes over one connection, many more than it may have streams at a time.
#[test]
fn multiplexing() {
    let (site, names) = Site::many(1_999, 32);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    each(&BOTH, &site, &Path::clear(), &[], &names, |peer, found, _| {
        assert_eq!(found["connections"], 1, "{peer:?}: {found}");
    });
}

/// A version that nobody speaks is answered with those that Weir speaks, and the client connects with one of them.
#[test]
fn versionnegotiation() {
    let flags = ["--versions", "0x1a2a3a4a,1"];
    let check = |peer, found: Value, seen: Seen| {
        assert_eq!(seen.versions, [1, 0x1a2a_3a4a].into(), "{peer:?}: {seen:?}");
        assert!(
            seen.down.count(Kind::VersionNegotiation) > 0,
            "{peer:?}: {seen:?}"
        );
        assert_eq!(found["versions"], json!(["v1"]), "{peer:?}: {found}");
    };
    each(
        &[Peer::Aioquic],
        &small(),
        &Path::clear(),
        &flags,
        &["small.bin"],
        check,
    );
}

/// Weir has no version 2. One that prefers it and begins in it gets Version Negotiation; one that only offers it beside
/// version 1 (RFC 9368) stays there.
#[test]
fn v2() {
    for (peer, versions, is_negotiated) in [
        (Peer::QuicGo, "2,1", true),
        (Peer::Aioquic, "0x6b3343cf,1", true),
        (Peer::Aioquic, "1,0x6b3343cf", false),
    ] {
        let flags = ["--versions", versions];
        let Some((found, seen)) = got(&small(), peer, Path::clear(), &flags, &["small.bin"]) else {
            continue;
        };
        assert_eq!(found["versions"], json!(["v1"]), "{peer:?}: {found}");
        // A client may have sent several packets before the answer came.
        let negotiated = seen.down.count(Kind::VersionNegotiation);
        assert_eq!(negotiated > 0, is_negotiated, "{peer:?} {versions}: {seen:?}");
    }
}

/// Handshakes that are begun and left, until Weir wants proofs of addresses.
fn crowd(server: &Server) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let mut tls = tls::rustls::ClientConfig::builder()
        .with_root_certificates(tls::rustls::RootCertStore::empty())
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = Arc::new(tls);
    for number in 0..300_u64 {
        let destination = (number | 1 << 40).to_be_bytes();
        let parameters = Parameters::ample();
        let mut client = Hostile::new(Arc::clone(&tls), "a.test", &parameters, destination).expect("TLS 1.3");
        for datagram in client.take() {
            let _ = socket.send_to(&datagram, server.address);
        }
    }
}

#[test]
fn retry() {
    let site = small();
    let limits = ["--max-connections-per-address", "65536"];
    let server = site.launch("127.0.0.1:0").args(limits).start();
    // A socket leads to one of the server's threads: that of the crowd wants proofs, others may not. So it takes several rounds, each of
    // seconds on a busy machine.
    within(Duration::from_secs(180), "a Retry for each client", || {
        crowd(&server);
        let mut is_proven = true;
        for peer in BOTH {
            let Some((found, seen)) = from(&server, &site, peer, Path::clear(), &[], &["small.bin"]) else {
                continue; // A client that is not installed was skipped.
            };
            assert_eq!(found["versions"], json!(["v1"]), "{peer:?}: {found}");
            is_proven &= seen.down.count(Kind::Retry) == 1;
        }
        is_proven.then_some(())
    });
}

#[test]
fn resumption() {
    let site = Site::new(&[("1.bin", 5_000), ("2.bin", 10_000)]);
    each(
        &BOTH,
        &site,
        &Path::clear(),
        &["--resume"],
        &["1.bin", "2.bin"],
        |peer, found, _| {
            assert_eq!(found["resumed"], json!([false, true]), "{peer:?}: {found}");
        },
    );
}

/// Weir takes no early data. Its tickets permit none, so quic-go sends none; aioquic is made to send it nevertheless, and gets
/// its answer after the handshake.
#[test]
fn zerortt() {
    let site = Site::new(&[("1.bin", 5_000), ("2.bin", 10_000)]);
    let flags = ["--resume", "--early"];
    each(
        &BOTH,
        &site,
        &Path::clear(),
        &flags,
        &["1.bin", "2.bin"],
        |peer, found, seen| {
            assert_eq!(found["resumed"], json!([false, true]), "{peer:?}: {found}");
            assert_eq!(found["early"], json!([false, false]), "{peer:?}: {found}");
            let offered = seen.up.count(Kind::ZeroRtt);
            assert_eq!(offered > 0, peer == Peer::Aioquic, "{peer:?}: {seen:?}");
        },
    );
}

#[test]
fn http3() {
    let files = [("1.bin", 5 << 10), ("2.bin", 10 << 10), ("3.bin", 500 << 10)];
    let names = files.map(|(name, _)| name);
    each(
        &BOTH,
        &Site::new(&files),
        &Path::clear(),
        &[],
        &names,
        |peer, found, _| {
            assert_eq!(found["connections"], 1, "{peer:?}: {found}");
        },
    );
}

/// Nothing passes for a while: the transfer goes on afterwards.
#[test]
fn blackhole() {
    const HOLE: Duration = Duration::from_secs(2);
    let site = Site::new(&[("3.bin", 3 << 20)]);
    let path = Path {
        delay: Duration::from_millis(15),
        hole: Some((600, HOLE)),
        ..Path::clear()
    };
    let began = Instant::now();
    each(&BOTH, &site, &path, &[], &["3.bin"], |peer, found, seen| {
        assert!(began.elapsed() >= HOLE);
        assert_eq!(found["connections"], 1, "{peer:?}: {found}");
        assert!(seen.down.lost > 0, "{peer:?}: {seen:?}");
    });
}

/// aioquic updates its keys once it has 1 MiB. quic-go does after 100 packets, unless Weir was first, which does so early, too.
#[test]
fn keyupdate() {
    let site = Site::new(&[("3.bin", 3 << 20)]);
    for (peer, flags) in [(Peer::QuicGo, &[][..]), (Peer::Aioquic, &["--update"])] {
        let Some((found, _)) = got(&site, peer, Path::clear(), flags, &["3.bin"]) else {
            continue;
        };
        assert_eq!(found["connections"], 1, "{peer:?}: {found}");
        let (own, followed) = (number(&found, "updates"), number(&found, "followed"));
        assert!(own + followed > 0, "{peer:?}: {found}");
        assert!(own > 0 || peer == Peer::QuicGo, "{peer:?}: {found}");
    }
}

/// Both mark their packets to the end, which each does only while the other's acknowledgments confirm the marks (RFC 9000,
/// section 13.4.2).
#[test]
fn ecn() {
    let site = Site::new(&[("2.bin", 2 << 20)]);
    each(
        &[Peer::QuicGo],
        &site,
        &Path::clear(),
        &[],
        &["2.bin"],
        |peer, found, seen| {
            assert_eq!(found["marked"], 1, "{peer:?}: {found}");
            for way in [&seen.up, &seen.down] {
                assert_eq!(way.last_ecn, [2; 8], "{peer:?}: {seen:?}");
                assert_eq!((way.ecn[1], way.ecn[3]), (0, 0), "{peer:?}: {seen:?}");
            }
        },
    );
}

/// A chain of certificates of some 5 KiB, and packets of the client that are lost: until its address is proven, Weir sends no
/// more than three times what it got.
#[test]
fn amplificationlimit() {
    let site = small();
    site.certify(12);
    let path = Path {
        delay: Duration::from_millis(15),
        lost_up: &[2, 3, 4, 5, 6, 7],
        ..Path::clear()
    };
    each(&BOTH, &site, &path, &[], &["small.bin"], |peer, found, seen| {
        assert_eq!(found["connections"], 1, "{peer:?}: {found}");
        assert_eq!(seen.up.lost, 6, "{peer:?}: {seen:?}");
        assert!(seen.amplified <= 3.0, "{peer:?}: {seen:?}");
        // The limit was reached: with it, one datagram more would have been too many.
        assert!(
            seen.unproven.1 > 3_600 || seen.amplified > 2.0,
            "{peer:?}: {seen:?}"
        );
    });
}

/// Connections over a path that harms 20 % of the datagrams: one for each file, all at once. The runner has 50, one after another,
/// and 30 %, with which some take more than a minute of probe timeouts.
fn connections(path: &Path, check: impl Fn(Peer, Seen) + Sync) {
    let (site, names) = Site::many(20, 1_024);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // The time in which Weir wants the first request of a connection, so that a busy machine is no reason to fail.
    let server = site
        .launch("127.0.0.1:0")
        .args(["--header-timeout", "100s"])
        .start();
    std::thread::scope(|scope| {
        for peer in BOTH {
            let (site, server, names, check) = (&site, &server, &names, &check);
            scope.spawn(move || {
                let got = from(server, site, peer, path.clone(), &["--apart"], names);
                let Some((found, seen)) = got else { return };
                assert_eq!(
                    number(&found, "connections"),
                    names.len() as u64,
                    "{peer:?}: {found}"
                );
                check(peer, seen);
            });
        }
    });
}

#[test]
fn handshakeloss() {
    let path = Path {
        delay: Duration::from_millis(15),
        loss: 0.2,
        ..Path::clear()
    };
    connections(&path, |peer, seen| {
        assert!(seen.up.lost > 0 && seen.down.lost > 0, "{peer:?}: {seen:?}");
    });
}

#[test]
fn handshakecorruption() {
    let path = Path {
        delay: Duration::from_millis(15),
        damage: 0.2,
        ..Path::clear()
    };
    connections(&path, |peer, seen| {
        assert!(seen.up.damaged > 0 && seen.down.damaged > 0, "{peer:?}: {seen:?}");
    });
}

/// A file of the runner's 2 MB over a path that harms 2 % of the datagrams.
fn two(path: Path, check: impl Fn(Peer, Seen) + Sync) {
    let site = Site::new(&[("2.bin", 2 << 20)]);
    let path = Path {
        delay: Duration::from_millis(15),
        ..path
    };
    each(&BOTH, &site, &path, &[], &["2.bin"], |peer, found, seen| {
        assert_eq!(found["connections"], 1, "{peer:?}: {found}");
        check(peer, seen);
    });
}

#[test]
fn transferloss() {
    let path = Path {
        loss: 0.02,
        ..Path::clear()
    };
    two(path, |peer, seen| {
        assert!(seen.down.lost > 10, "{peer:?}: {seen:?}")
    });
}

#[test]
fn transfercorruption() {
    let path = Path {
        damage: 0.02,
        ..Path::clear()
    };
    two(path, |peer, seen| {
        assert!(seen.down.damaged > 10, "{peer:?}: {seen:?}")
    });
}

#[test]
fn ipv6() {
    if let Err(error) = UdpSocket::bind("[::1]:0") {
        return println!("skipped: no IPv6 on this machine: {error}");
    }
    let site = Site::new(&[("small.bin", 1_024), ("2.bin", 2 << 20)]);
    let server = site.serve("[::1]:0");
    for peer in BOTH {
        let found = from(&server, &site, peer, Path::clear(), &[], &["small.bin", "2.bin"]);
        if let Some((found, _)) = found {
            assert_eq!(found["connections"], 1, "{peer:?}: {found}");
        }
    }
}

/// The client's NAT gives it other ports or addresses, of which it knows nothing.
fn rebound(moves: bool) {
    let site = Site::new(&[("3.bin", 3 << 20)]);
    let path = Path {
        delay: Duration::from_millis(15),
        rebind: &[600, 1_200],
        moves,
        ..Path::clear()
    };
    each(&BOTH, &site, &path, &[], &["3.bin"], |peer, found, seen| {
        assert_eq!(found["connections"], 1, "{peer:?}: {found}");
        assert_eq!(seen.rebound, 2, "{peer:?}: {seen:?}");
    });
}

#[test]
fn rebind_port() {
    rebound(false);
}

#[test]
fn rebind_addr() {
    rebound(true);
}

/// The client moves to another socket and another connection ID in the middle of a transfer.
#[test]
fn connectionmigration() {
    let site = Site::new(&[("3.bin", 3 << 20)]);
    let path = Path {
        delay: Duration::from_millis(15),
        ..Path::clear()
    };
    each(&BOTH, &site, &path, &["--move"], &["3.bin"], |peer, found, _| {
        assert_eq!(found["connections"], 1, "{peer:?}: {found}");
        // Of 2 MiB, some are under way to the old address.
        assert!(number(&found, "moved") > 500, "{peer:?}: {found}");
    });
}
