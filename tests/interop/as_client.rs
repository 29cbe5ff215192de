//! `weir fetch` as the client of each case: a page, whose images are the files, from a server of others.

use super::matrix::{LARGE, LARGE_SLOW, SMALL};
use super::packets::Kind;
use super::relay::{Path, Relay, Seen};
use super::{Peer, Site, number};
use crate::cli::{WEIR, text, weir};
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const BOTH: [Peer; 2] = [Peer::QuicGo, Peer::Aioquic];

/// What a fetch told, what its server saw, and what the relay between them saw.
struct Fetched {
    line: Value,
    served: Value,
    seen: Seen,
}

/// `weir fetch` of the page behind this port.
pub(super) fn fetch(site: &Site, relay: &Relay, flags: &[&str]) -> Output {
    let (url, ca) = (format!("https://{}/", relay.address), site.path("ca.pem"));
    Command::new("timeout")
        .args([
            "--kill-after=5",
            "110",
            WEIR,
            "fetch",
            "--json",
            &url,
            "--ca",
            &ca,
        ])
        .args(["--h3-only", "--objects-max", "3000", "--connect-timeout", "100s"])
        .args(flags)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .expect("timeout(1)")
}

/// The lines of fetches that got each file whole, over HTTP/3.
pub(super) fn lines(site: &Site, output: &Output) -> Vec<Value> {
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    let lines = said
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let lines: Vec<Value> = lines.filter(|line| line["event"] == "fetch").collect();
    assert!(!lines.is_empty(), "{said}");
    for line in &lines {
        let objects = line["objects"].as_array().expect("objects");
        let files = std::fs::read_dir(site.folder()).expect("a folder").count();
        assert_eq!(objects.len(), files, "{line}");
        for object in objects {
            let name = object["url"].as_str().and_then(|url| url.rsplit('/').next());
            let name = name.filter(|name| !name.is_empty()).unwrap_or("index.html");
            assert_eq!(number(object, "content_bytes"), site.length(name), "{object}");
        }
        assert_eq!(line["opened"][0]["protocol"], "h3", "{line}");
    }
    lines
}

/// A fetch through a path.
fn fetched(site: &Site, peer: Peer, path: Path, server: &[&str], client: &[&str]) -> Option<Fetched> {
    let served = site.served_by(peer, server)?;
    let relay = Relay::before(served.address, path);
    let line = lines(site, &fetch(site, &relay, client)).remove(0);
    Some(Fetched {
        line,
        seen: relay.seen(),
        served: served.end(),
    })
}

/// The same from each of these servers, at once.
fn each(peers: &[Peer], site: &Site, path: &Path, server: &[&str], check: impl Fn(Peer, Fetched) + Sync) {
    std::thread::scope(|scope| {
        for &peer in peers {
            let check = &check;
            scope.spawn(move || {
                if let Some(fetched) = fetched(site, peer, path.clone(), server, &[]) {
                    check(peer, fetched);
                }
            });
        }
    });
}

/// Over one connection.
fn one(peer: Peer, fetched: &Fetched) {
    let line = &fetched.line;
    assert_eq!(line["connections"], 1, "{peer:?}: {line}");
    assert_eq!(fetched.served["connections"], 1, "{peer:?}: {}", fetched.served);
}

/// A page with many small images and one of so many bytes, all of which are fetched at once.
pub(super) fn many_and_large(large: usize) -> Site {
    let (site, names) = Site::many(SMALL, 3_000);
    site.write("large.gif", &super::content(large));
    let images: String = names.iter().map(|name| format!("<img src={name}>")).collect();
    site.write("index.html", format!("<img src=large.gif>{images}").as_bytes());
    site
}

fn small() -> Site {
    Site::page(&[("small.gif", 1_024)])
}

#[test]
fn handshake() {
    each(&BOTH, &small(), &Path::clear(), &[], |peer, fetched| {
        one(peer, &fetched);
        assert_eq!(fetched.seen.versions, [1].into(), "{peer:?}: {:?}", fetched.seen);
        assert_eq!(fetched.line["opened"][0]["tls"]["resumed"], false, "{peer:?}");
    });
}

#[test]
fn transfer() {
    let site = Site::page(&[("1.gif", 1 << 20), ("2.gif", 2 << 20), ("3.gif", 3 << 20)]);
    each(&BOTH, &site, &Path::clear(), &[], |peer, fetched| {
        one(peer, &fetched)
    });
}

#[test]
fn longrtt() {
    let path = Path {
        delay: Duration::from_millis(750),
        ..Path::clear()
    };
    each(&BOTH, &small(), &path, &[], |peer, fetched| {
        // It may take the server several attempts to be heard, of which it counts each.
        assert_eq!(fetched.line["connections"], 1, "{peer:?}: {}", fetched.line);
        assert!(
            fetched.seen.up.count(Kind::Initial) > 1,
            "{peer:?}: {:?}",
            fetched.seen
        );
        // One round trip for the handshake, one for the page, one for its image.
        let seconds = fetched.line["seconds"].as_f64().expect("a number");
        assert!(seconds >= 4.5, "{peer:?}: {seconds}");
    });
}

#[test]
fn chacha20() {
    each(&BOTH, &small(), &Path::clear(), &["--chacha"], |peer, fetched| {
        let suite = &fetched.line["opened"][0]["tls"]["cipher_suite"];
        assert_eq!(suite, "TLS_CHACHA20_POLY1305_SHA256", "{peer:?}");
    });
}

/// The runner's 1,999 files of 32 bytes. Servers permit 100 streams at a time, or 128.
#[test]
fn multiplexing() {
    let (site, _) = Site::many(1_999, 32);
    each(&BOTH, &site, &Path::clear(), &[], |peer, fetched| {
        one(peer, &fetched)
    });
}

/// A server without version 1 is given up, with the reason.
#[test]
fn versionnegotiation() {
    let site = small();
    for (peer, version) in [(Peer::QuicGo, "2"), (Peer::Aioquic, "0x6b3343cf")] {
        let Some(served) = site.served_by(peer, &["--versions", version]) else {
            continue;
        };
        let relay = Relay::before(served.address, Path::clear());
        let output = fetch(&site, &relay, &[]);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{peer:?}: {said}");
        let wanted = "the server speaks other versions of QUIC, and Weir only version 1 (RFC 9000); choose another --mode";
        assert!(said.contains(wanted), "{peer:?}: {said}");
        let seen = relay.seen();
        assert!(
            seen.down.count(Kind::VersionNegotiation) > 0,
            "{peer:?}: {seen:?}"
        );
    }
}

/// A server that also speaks version 2 stays with Weir's.
#[test]
fn v2() {
    for (peer, versions) in [(Peer::QuicGo, "2,1"), (Peer::Aioquic, "0x6b3343cf,1")] {
        let flags = ["--versions", versions];
        if let Some(fetched) = fetched(&small(), peer, Path::clear(), &flags, &[]) {
            one(peer, &fetched);
            assert_eq!(fetched.seen.versions, [1].into(), "{peer:?}: {:?}", fetched.seen);
        }
    }
}

#[test]
fn retry() {
    each(&BOTH, &small(), &Path::clear(), &["--retry"], |peer, fetched| {
        one(peer, &fetched);
        assert!(
            fetched.seen.down.count(Kind::Retry) > 0,
            "{peer:?}: {:?}",
            fetched.seen
        );
    });
}

/// The server ends each connection after its first request.
#[test]
fn resumption() {
    each(&BOTH, &small(), &Path::clear(), &["--once"], |peer, fetched| {
        let opened = fetched.line["opened"].as_array().expect("connections");
        let resumed: Vec<&Value> = opened.iter().map(|one| &one["tls"]["resumed"]).collect();
        assert_eq!(json!(resumed), json!([false, true]), "{peer:?}: {}", fetched.line);
    });
}

/// The server's tickets permit early data. Weir sends none, as it could be replayed.
#[test]
fn zerortt() {
    for (peer, flags) in [
        (Peer::QuicGo, &["--early", "--once"][..]),
        (Peer::Aioquic, &["--once"]),
    ] {
        let Some(fetched) = fetched(&small(), peer, Path::clear(), flags, &[]) else {
            continue;
        };
        assert_eq!(
            fetched.line["opened"][1]["tls"]["resumed"], true,
            "{peer:?}: {}",
            fetched.line
        );
        assert_eq!(
            fetched.seen.up.count(Kind::ZeroRtt),
            0,
            "{peer:?}: {:?}",
            fetched.seen
        );
    }
}

#[test]
fn http3() {
    let site = Site::page(&[("1.gif", 5 << 10), ("2.gif", 10 << 10), ("3.gif", 500 << 10)]);
    each(&BOTH, &site, &Path::clear(), &[], |peer, fetched| {
        one(peer, &fetched)
    });
}

#[test]
fn blackhole() {
    const HOLE: Duration = Duration::from_secs(2);
    let site = Site::page(&[("3.gif", 3 << 20)]);
    let path = Path {
        delay: Duration::from_millis(15),
        hole: Some((600, HOLE)),
        ..Path::clear()
    };
    each(&BOTH, &site, &path, &[], |peer, fetched| {
        one(peer, &fetched);
        let seconds = fetched.line["seconds"].as_f64().expect("a number");
        assert!(seconds >= HOLE.as_secs_f64(), "{peer:?}: {seconds}");
        assert!(fetched.seen.down.lost > 0, "{peer:?}: {:?}", fetched.seen);
    });
}

/// aioquic updates its keys with its first response. quic-go does after 100 packets, unless Weir was first, which does so early,
/// too.
#[test]
fn keyupdate() {
    let site = Site::page(&[("3.gif", 3 << 20)]);
    for (peer, flags) in [(Peer::QuicGo, &[][..]), (Peer::Aioquic, &["--update"])] {
        let Some(fetched) = fetched(&site, peer, Path::clear(), flags, &[]) else {
            continue;
        };
        one(peer, &fetched);
        let served = &fetched.served;
        let (own, followed) = (number(served, "updates"), number(served, "followed"));
        assert!(own + followed > 0, "{peer:?}: {served}");
        assert!(own > 0 || peer == Peer::QuicGo, "{peer:?}: {served}");
    }
}

/// Both mark their packets to the end, which each does only while the other's acknowledgments confirm the marks (RFC 9000,
/// section 13.4.2).
#[test]
fn ecn() {
    let site = Site::page(&[("2.gif", 2 << 20)]);
    each(&[Peer::QuicGo], &site, &Path::clear(), &[], |peer, fetched| {
        assert_eq!(fetched.served["marked"], 1, "{peer:?}: {}", fetched.served);
        for way in [&fetched.seen.up, &fetched.seen.down] {
            assert_eq!(way.last_ecn, [2; 8], "{peer:?}: {:?}", fetched.seen);
        }
    });
}

/// A server that may send no more until it has heard of the client, whose packets are lost: the client sends again, although
/// it misses nothing.
#[test]
fn amplificationlimit() {
    let site = small();
    site.certify(12);
    let path = Path {
        delay: Duration::from_millis(15),
        lost_up: &[2, 3, 4, 5, 6, 7],
        ..Path::clear()
    };
    each(&BOTH, &site, &path, &[], |peer, fetched| {
        one(peer, &fetched);
        assert_eq!(fetched.seen.up.lost, 6, "{peer:?}: {:?}", fetched.seen);
    });
}

/// Connections over a path that harms 20 % of the datagrams: clients of `weir load`, each over its own, all at once. The runner has
/// 50, one after another, and 30 %, with which some take more than a minute of probe timeouts.
fn connections(path: &Path, check: impl Fn(Peer, Seen) + Sync) {
    let site = Site::new(&[]);
    site.write("index.html", b"a page");
    std::thread::scope(|scope| {
        for (peer, count) in [(Peer::QuicGo, 20), (Peer::Aioquic, 10)] {
            let (site, check) = (&site, &check);
            scope.spawn(move || connections_to((peer, count), site, path, check));
        }
    });
}

fn connections_to((peer, count): (Peer, u64), site: &Site, path: &Path, check: impl Fn(Peer, Seen)) {
    let Some(served) = site.served_by(peer, &[]) else {
        return;
    };
    let relay = Relay::before(served.address, path.clone());
    let (url, ca, clients) = (
        format!("https://{}/", relay.address),
        site.path("ca.pem"),
        count.to_string(),
    );
    let client = [
        "load",
        &url,
        "--json",
        "--http3",
        "--ca",
        &ca,
        "--clients",
        &clients,
    ];
    let times = ["--duration", "1s", "--grace", "90s", "--timeout", "90s"];
    // As a measurement it is worth nothing, and it says so.
    let output = weir(&[&client[..], &times].concat());
    let said = text(&output.stdout);
    let result: Value = serde_json::from_str(said.lines().next().expect("a line")).expect("JSON");
    assert_eq!(number(&result, "unfinished"), 0, "{said}");
    // A client opens another one if its server ends the first.
    let handshakes = number(&result["handshake_ms"], "count");
    assert!(handshakes >= count, "{said}");
    assert_eq!(result["errors"], json!({}), "{said}");
    check(peer, relay.seen());
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
fn two(path: Path, check: impl Fn(Peer, &Seen) + Sync) {
    let site = Site::page(&[("2.gif", 2 << 20)]);
    let path = Path {
        delay: Duration::from_millis(15),
        ..path
    };
    each(&BOTH, &site, &path, &[], |peer, fetched| {
        assert_eq!(fetched.line["connections"], 1, "{peer:?}: {}", fetched.line);
        check(peer, &fetched.seen);
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

/// Many streams and a large one at once, over one connection. `slow` is the length of the large one with aioquic.
fn whole(path: &Path, slow: usize, check: impl Fn(Peer, &Seen)) {
    for (peer, large) in [(Peer::QuicGo, LARGE), (Peer::Aioquic, slow)] {
        let site = many_and_large(large);
        let Some(fetched) = fetched(&site, peer, path.clone(), &[], &[]) else {
            continue;
        };
        assert_eq!(fetched.line["connections"], 1, "{peer:?}: {}", fetched.line);
        check(peer, &fetched.seen);
    }
}

#[test]
fn streams_and_20_mib() {
    whole(&Path::clear(), LARGE, |peer, seen| {
        assert!(seen.down.datagrams > 10_000, "{peer:?}: {seen:?}");
    });
}

#[test]
fn streams_and_20_mib_through_loss() {
    let path = Path {
        loss: 0.02,
        ..Path::clear()
    };
    whole(&path, LARGE_SLOW, |peer, seen| {
        assert!(seen.up.lost > 0 && seen.down.lost > 50, "{peer:?}: {seen:?}");
    });
}

#[test]
fn streams_and_20_mib_reordered() {
    let path = Path {
        reorder: 0.02,
        ..Path::clear()
    };
    whole(&path, LARGE_SLOW, |peer, seen| {
        assert!(seen.up.late > 0 && seen.down.late > 50, "{peer:?}: {seen:?}");
    });
}

#[test]
fn ipv6() {
    if let Err(error) = UdpSocket::bind("[::1]:0") {
        return println!("skipped: no IPv6 on this machine: {error}");
    }
    let site = Site::page(&[("small.gif", 1_024), ("2.gif", 2 << 20)]);
    each(
        &BOTH,
        &site,
        &Path::clear(),
        &["--at", "[::1]:0"],
        |peer, fetched| one(peer, &fetched),
    );
}

/// A NAT gives Weir other ports or addresses: the server validates each, to which Weir answers.
fn rebound(moves: bool) {
    let site = Site::page(&[("3.gif", 3 << 20)]);
    let path = Path {
        delay: Duration::from_millis(15),
        rebind: &[600, 1_200],
        moves,
        ..Path::clear()
    };
    each(&BOTH, &site, &path, &[], |peer, fetched| {
        one(peer, &fetched);
        assert_eq!(fetched.seen.rebound, 2, "{peer:?}: {:?}", fetched.seen);
        let challenges = number(&fetched.line["opened"][0]["quic"], "challenges");
        assert!(challenges > 0, "{peer:?}: {}", fetched.line);
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
