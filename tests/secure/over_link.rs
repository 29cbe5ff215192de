//! HTTP/3 through `weir link`: a fetch from a server of this machine, over loss, behind a NAT that rebinds, from the far
//! end.

use super::*;
use crate::link::no_links;

/// Bytes of the file that is fetched, and of one that no buffer on the way is too small for.
const SIZE: usize = 1_500_000;
const SMALL: usize = 300_000;

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
    let size = if file == "small.bin" { SMALL } else { SIZE };
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

    // The connection stays one, and the server answers to each new port.
    let (_, counters) = fetched(&authority, &["rate=20M rtt=20ms rebind=60p"], port);
    assert!(counters["udp"]["rebound"].as_u64() > Some(2), "{counters}");
}

#[test]
fn a_server_at_the_far_end_is_reached_without_the_relay() {
    if no_links() {
        return;
    }
    let authority = authority();
    let far = format!(
        "exec {WEIR} -q serve {} --listen 0.0.0.0:8443 --http3 --tls-cert {} --tls-key {}",
        authority.path("site"),
        authority.path("cert.pem"),
        authority.path("cert.key")
    );
    let flags = ["rtt=20ms", "--far", &far, "--far-ready", "8443"];
    let (_, counters) = fetched(&authority, &flags, 8_443);
    assert_eq!(counters["udp"]["flows"], 0, "{counters}");
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
    let line = run(&["rate=20M rtt=20ms rebind=60p"], "large.bin", &[]);
    assert!(quic(&line, "challenges") > 0.0, "{line}");
}
