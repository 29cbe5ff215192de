//! HTTP/3 through `weir link`: a fetch from a server of this machine, over loss, behind a NAT that rebinds, from the far
//! end.

use super::*;
use crate::link::no_links;

/// Bytes of the file that is fetched, of one that no buffer on the way is too small for, and of one that is more than a server
/// sends without acknowledgments.
const SIZE: usize = 1_500_000;
const SMALL: usize = 300_000;
const HUGE: usize = 12 << 20;

/// A certificate for the gateway of a link, a CA, and a file.
fn authority() -> Authority {
    let authority = Authority::new();
    authority.issue("198.18.0.1", 2090);
    fs::write(authority.path("site/large.bin"), vec![b'q'; SIZE]).expect("a file");
    fs::write(authority.path("site/small.bin"), vec![b's'; SMALL]).expect("a file");
    authority
}

/// A fetch of the file behind a link: what it tells, and the link's last counters.
fn fetched(authority: &Authority, link: &[&str], port: u16) -> (Value, Value) {
    fetched_with(authority, link, port, "large.bin", &[])
}

fn fetched_with(
    authority: &Authority,
    link: &[&str],
    port: u16,
    file: &str,
    more: &[&str],
) -> (Value, Value) {
    let (url, ca) = (format!("https://198.18.0.1:{port}/{file}"), authority.ca());
    let log = authority.path("link.jsonl");
    let command = [
        "--log",
        &log,
        "--",
        WEIR,
        "fetch",
        "--json",
        &url,
        "--ca",
        &ca,
        "--h3-only",
    ];
    let output = weir(&[&["link"], link, &command, more].concat());
    assert!(output.status.success(), "{link:?}: {}", text(&output.stderr));
    let line = json(&output);
    assert_eq!(line["opened"][0]["protocol"], "h3", "{line}");
    let size = match file {
        "small.bin" => SMALL,
        "huge.bin" => HUGE,
        _ => SIZE,
    };
    assert_eq!(line["objects"][0]["content_bytes"], size, "{line}");
    assert_eq!(line["connections"], 1, "{line}");
    let lines = fs::read_to_string(&log).expect("a log");
    let counters = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    (line, counters)
}

#[test]
fn a_download_survives_loss_and_a_nat_that_rebinds() {
    if no_links() {
        return;
    }
    let authority = authority();
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    let server = authority.start(&["--http3", "--tls-cert", &cert, "--tls-key", &key]);
    let port = server.address.port();
    let (line, counters) = fetched(&authority, &["rtt=80ms"], port);
    // A round trip for the handshake, one for the response.
    assert!(seconds_of(&line, "seconds") >= 0.16, "{line}");
    assert_eq!(counters["udp"]["flows"], 1, "{counters}");
    assert_eq!(counters["udp"]["rebound"], 0, "{counters}");

    let (_, counters) = fetched(&authority, &["rate=20M rtt=20ms", "--down", "loss=2%"], port);
    assert!(
        counters["down"]["dropped"]["loss"].as_u64() > Some(0),
        "{counters}"
    );

    let (_, counters) = fetched(&authority, &["rate=none"], port);
    assert_eq!(counters["udp"]["flows"], 1, "{counters}");

    // The connection stays one, and the server answers to each new port. A client sends a datagram at least every 25 ms
    // (RFC 9000 section 18.2, max_ack_delay), here some 50, even if it is so busy that it sends no more.
    let (_, counters) = fetched(&authority, &["rate=20M rtt=20ms rebind=15p"], port);
    assert!(counters["udp"]["rebound"].as_u64() > Some(2), "{counters}");
}

/// The client of quic-go, which changes its address in the middle of a download.
#[test]
fn quic_go_survives_loss_and_reordering() {
    const LARGE: usize = 3 << 20;
    if no_links() {
        return;
    }
    let Some(program) = crate::quic_go::program() else {
        return;
    };
    let authority = authority();
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    let site = authority.path("site");
    let sum = crate::quic_go::write_files(site.as_ref(), LARGE);
    let server = authority.start(&["--http3", "--tls-cert", &cert, "--tls-key", &key]);
    let (log, to) = (
        authority.path("link.jsonl"),
        format!("198.18.0.1:{}", server.address.port()),
    );
    let link = ["link", "rate=50M rtt=20ms jitter=5ms reorder=yes loss=2%"];
    let program = program.to_str().expect("text");
    let command = ["--log", &log, "--", program, "client", &to, &site];
    let output = weir(&[&link[..], &command].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let moved = crate::quic_go::assert_printed(&text(&output.stdout), sum, LARGE);
    assert!(moved > 500, "{moved} datagrams");
    let lines = fs::read_to_string(&log).expect("a log");
    let counters: Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    for way in ["down", "up"] {
        assert!(counters[way]["dropped"]["loss"].as_u64() > Some(0), "{counters}");
    }
    assert_eq!(counters["udp"]["flows"], 2, "{counters}");
}

/// More is under way than the server keeps for repetition, so its session waits until the transport takes more.
#[test]
fn a_long_path_of_high_rate_carries_more_than_the_server_keeps() {
    if no_links() {
        return;
    }
    let authority = authority();
    fs::write(authority.path("site/huge.bin"), vec![b'h'; HUGE]).expect("a file");
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    let server = authority.start(&["--http3", "--tls-cert", &cert, "--tls-key", &key]);
    let link = ["rate=800M rtt=60ms", "--queue", "9000p"];
    fetched_with(&authority, &link, server.address.port(), "huge.bin", &[]);
}

#[test]
fn a_server_at_the_far_end_is_reached_without_the_relay() {
    if no_links() {
        return;
    }
    let authority = authority();
    let site = authority.path("site");
    // The second server listens once the first says that it serves: its UDP port is open some time after that of TCP.
    let far = format!(
        "{WEIR} serve --json {site} --listen 0.0.0.0:8443 --http3 --tls-cert {} --tls-key {} |
         {{ read started; exec {WEIR} -q serve {site} --listen 0.0.0.0:8444; }}",
        authority.path("cert.pem"),
        authority.path("cert.key")
    );
    let flags = ["rtt=20ms", "--far", &far, "--far-ready", "8444"];
    let (_, counters) = fetched(&authority, &flags, 8_443);
    assert_eq!(counters["udp"]["flows"], 0, "{counters}");
}

/// RFC 9000 section 14: payloads of 1,200 bytes, so packets of 1,228.
#[test]
fn a_path_too_narrow_for_quic_is_named() {
    if no_links() {
        return;
    }
    let authority = authority();
    let (cert, key, ca) = (
        authority.path("cert.pem"),
        authority.path("cert.key"),
        authority.ca(),
    );
    let server = authority.start(&["--http3", "--tls-cert", &cert, "--tls-key", &key]);
    let port = server.address.port();
    let url = format!("https://198.18.0.1:{port}/small.bin");
    let command = ["--", WEIR, "fetch", &url, "--ca", &ca, "--h3-only"];
    // The command's own interface, a router behind it, and a router behind another link, whose relay passes the message on.
    let behind = ["--", WEIR, "link", "rtt=2ms"];
    let twice = [behind, behind].concat();
    for links in [&[][..], &behind[..], &twice[..]] {
        let output = weir(&[&["link", "mtu=1227"][..], links, &command].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{links:?}: {said}");
        let wanted = format!("the MTU of the path to 198.18.0.1:{port} is 1227 bytes, and QUIC needs 1228");
        assert!(said.contains(&wanted), "{links:?}: {said}");
    }
    fetched_with(&authority, &["mtu=1228"], port, "small.bin", &[]);
}

/// A router says that a probe of the path's MTU is too long. The connection goes on without it.
#[test]
fn a_narrower_path_behind_the_first_hop_costs_no_connection() {
    if no_links() {
        return;
    }
    let authority = authority();
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    let server = authority.start(&["--http3", "--tls-cert", &cert, "--tls-key", &key]);
    let links = ["mtu=1300", "--", WEIR, "link", "rate=20M rtt=20ms"];
    let (line, counters) = fetched_with(
        &authority,
        &links,
        server.address.port(),
        "large.bin",
        &["--explain"],
    );
    assert!(counters["udp"]["unreachable"].as_u64() > Some(0), "{counters}");
    let mtu = line["opened"][0]["quic"]["mtu"].as_u64().expect("a number");
    assert!((1_200..=1_272).contains(&mtu), "{line}");
}

/// Seconds of a cause on the critical path.
fn of_cause(line: &Value, name: &str) -> f64 {
    let causes = line["explain"]["causes"].as_array().expect("causes");
    let cause = causes.iter().find(|cause| cause["cause"] == name);
    seconds_of(cause.unwrap_or_else(|| panic!("{name}: {line}")), "seconds")
}

#[test]
fn causes_over_quic_are_those_of_the_link() {
    if no_links() {
        return;
    }
    let authority = authority();
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    let server = authority.start(&["--http3", "--tls-cert", &cert, "--tls-key", &key]);
    let port = server.address.port();
    let run = |link: &[&str], file: &str, more: &[&str]| {
        let flags = [&["--explain"], more].concat();
        let (line, _) = fetched_with(&authority, link, port, file, &flags);
        let total: f64 = client::explain::Cause::ALL
            .iter()
            .map(|cause| of_cause(&line, cause.name()))
            .sum();
        assert!((total - seconds_of(&line, "seconds")).abs() < 1e-6, "{line}");
        line
    };
    let quic = |line: &Value, what: &str| {
        let value = line["opened"][0]["quic"][what].as_f64();
        value.unwrap_or_else(|| panic!("{what}: {line}"))
    };

    let line = run(&["rate=8M rtt=60ms"], "small.bin", &[]);
    assert!(quic(&line, "rtt_min") >= 0.06, "{line}");
    assert!(quic(&line, "handshake_round_trips") >= 0.99, "{line}");
    assert!(
        quic(&line, "datagrams_in") * quic(&line, "mtu") > SMALL as f64,
        "{line}"
    );
    assert_eq!(quic(&line, "holes"), 0.0, "{line}");
    assert_eq!(quic(&line, "blocked"), 0.0, "{line}");
    assert_eq!(quic(&line, "challenges"), 0.0, "{line}");
    assert_eq!(of_cause(&line, "loss recovery"), 0.0, "{line}");
    assert_eq!(of_cause(&line, "flow control"), 0.0, "{line}");

    // Packets of the server are lost: what came after them had to wait.
    let line = run(&["rate=20M rtt=60ms", "--down", "loss=3%"], "large.bin", &[]);
    assert!(quic(&line, "holes") > 0.0, "{line}");
    assert!(of_cause(&line, "loss recovery") > 0.0, "{line}");

    // A new address of the client is validated.
    let line = run(&["rate=20M rtt=20ms rebind=30p"], "large.bin", &[]);
    assert!(quic(&line, "challenges") > 0.0, "{line}");
}
