//! The cases in which the runner measures and does not judge: how much of a line of 10 Mbit/s and 30 ms a transfer gets, alone
//! (`goodput`) and beside TCP (`crosstraffic`). The line is `weir link`'s. Each test prints what it measured; it asserts the
//! bound that the line sets, and that everything arrives.

use super::{Peer, Site, number};
use crate::cli::{WEIR, text, weir};
use crate::link::no_links;
use serde_json::Value;

/// Bytes of the file: a fifth of the runner's.
const SIZE: usize = 2 << 20;

/// Of the line, in bytes per second.
const RATE: f64 = 10e6 / 8.0;

const LINE: [&str; 5] = ["link", "rate=10M rtt=30ms", "--queue", "25p", "--"];

/// Runs a shell script behind the line. What it printed.
fn behind(script: &str) -> String {
    let output = weir(&[&LINE[..], &["bash", "-c", script]].concat());
    assert!(output.status.success(), "{script}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The command of a fetch of the file behind the line.
fn fetch(site: &Site, port: u16, flags: &str) -> String {
    let ca = site.path("ca.pem");
    format!("{WEIR} fetch --json --ca {ca} {flags} https://198.18.0.1:{port}/large.gif")
}

/// Seconds of the fetches that printed these lines, and that they got all of the file.
fn seconds(said: &str) -> Vec<f64> {
    let lines = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let fetches = lines.filter(|line| line["event"] == "fetch");
    let each = fetches.map(|line| {
        assert_eq!(
            number(&line["objects"][0], "content_bytes"),
            SIZE as u64,
            "{line}"
        );
        line["seconds"].as_f64().expect("a number")
    });
    each.collect()
}

fn tell(what: &str, seconds: f64) {
    println!("{what}: {:.2} of the line", SIZE as f64 / RATE / seconds);
    assert!(
        seconds > SIZE as f64 / RATE,
        "{what}: {seconds} s, faster than the line"
    );
}

#[test]
fn goodput() {
    if no_links() {
        return;
    }
    let site = Site::new(&[("large.gif", SIZE)]);
    let server = site.serve("127.0.0.1:0");
    let said = behind(&fetch(&site, server.address.port(), "--h3-only"));
    tell("weir fetch from weir serve", seconds(&said)[0]);
    if let Some(served) = site.served_by(Peer::QuicGo, &[]) {
        let said = behind(&fetch(&site, served.address.port(), "--h3-only"));
        tell("weir fetch from quic-go", seconds(&said)[0]);
    }
    if let Some(program) = crate::quic_go::program() {
        let (program, folder) = (program.display(), site.folder());
        let (folder, port) = (folder.display(), server.address.port());
        let said = behind(&format!(
            "{program} get --folder {folder} 198.18.0.1:{port} large.gif"
        ));
        let found: Value = serde_json::from_str(&said).expect("JSON");
        assert_eq!(number(&found, "bytes"), SIZE as u64, "{found}");
        let seconds = found["seconds"].as_f64().expect("a number");
        tell("quic-go from weir serve", seconds);
    }
}

/// QUIC and TCP at once, each for the whole file: neither starves.
#[test]
fn crosstraffic() {
    if no_links() {
        return;
    }
    let site = Site::new(&[("large.gif", SIZE)]);
    let server = site.serve("127.0.0.1:0");
    let fetch = |flags: &str| fetch(&site, server.address.port(), flags);
    let said = behind(&format!("{} & {}; wait", fetch("--mode h2"), fetch("--h3-only")));
    let seconds = seconds(&said);
    assert_eq!(seconds.len(), 2, "{said}");
    for took in &seconds {
        tell("beside the other", *took);
    }
    // One at least had to wait for some of the other's bytes.
    let last = seconds.iter().copied().fold(0.0, f64::max);
    assert!(last > 1.5 * SIZE as f64 / RATE, "{seconds:?}");
}
