//! `weir fetch --compare` behind a link: Microscape of W3C NOTE-pipelining-970624 from `weir serve` and, where they are
//! installed, from nginx and Apache as Debian sets them up. The table comes, and what `--explain` says adds up to what
//! the link's own capture saw.

use super::{WEIR, capture, no_links, text, weir};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const URL: &str = "http://198.18.0.1:8080/";
const MODES: [&str; 5] = [
    "http10",
    "serial",
    "pipelined",
    "pipelined+deflate",
    "pipelined+gzip",
];

/// A folder that other users can read, with the site in it.
fn site() -> TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().expect("a folder");
    let open =
        |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).expect("is ours");
    let path = folder.path().join("site").display().to_string();
    let written = weir(&["site", "microscape", &path]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    open(folder.path());
    folder
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().expect("id");
    text(&output.stdout).trim() == "0"
}

/// The command line of a server for `sh`, or why there is none.
fn serving(server: &str, folder: &Path) -> Result<String, String> {
    let run = folder.display();
    if server == "weir" {
        return Ok(format!(
            "exec {WEIR} -q serve {run}/site --listen 0.0.0.0:8080 --adapt off"
        ));
    }
    let program = match server {
        "nginx" => "/usr/sbin/nginx",
        _ => "/usr/sbin/apache2",
    };
    if !Path::new(program).exists() {
        return Err(format!("{program} is not here"));
    }
    let template = format!(
        "{}/benches/peers/debian-{server}.conf",
        env!("CARGO_MANIFEST_DIR")
    );
    let template = std::fs::read_to_string(template).expect("a template");
    let mut config: String = template
        .lines()
        .filter(|line| is_root() || !line.starts_with("@root@"))
        .map(|line| line.trim_start_matches("@root@ ").to_owned() + "\n")
        .collect();
    for (name, value) in [
        ("@PORT@", "8080"),
        ("@ROOT@", &format!("{run}/site")),
        ("@RUN@", &run.to_string()),
        ("@MODULES@", "/usr/lib/apache2/modules"),
    ] {
        config = config.replace(name, value);
    }
    let path = folder.join(format!("{server}.conf"));
    std::fs::write(&path, config).expect("is ours");
    Ok(match server {
        "nginx" => format!("exec {program} -p {run} -e {run}/error.log -c {}", path.display()),
        _ => format!("exec {program} -DFOREGROUND -f {}", path.display()),
    })
}

/// What a script does behind a link, with a server at its far end.
fn behind(link: &str, more: &[&str], far: &str, script: &str) -> Output {
    let served = ["--far", far, "--far-ready", "8080", "--", "sh", "-c", script];
    weir(&[&["link", link], more, &served].concat())
}

/// The cells of each line of a table whose first cell is one of the modes.
fn rows(table: &str) -> Vec<Vec<&str>> {
    let rows = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.first().is_some_and(|first| MODES.contains(first)))
        .collect()
}

/// The table, and what its parts add up to: rows of modes with seconds, then rows of causes with their total.
fn check(table: &str, what: &str) {
    let rows = rows(table);
    assert_eq!(rows.len(), 2 * MODES.len(), "{what}: {table}");
    let number = |cell: &str| {
        cell.parse::<f64>()
            .unwrap_or_else(|error| panic!("{what}: {cell}: {error}"))
    };
    for (row, causes) in rows.iter().zip(&rows[MODES.len()..]) {
        let milliseconds = number(row[2]) * 1e3;
        // Eleven causes, and their total.
        assert_eq!(causes.len(), 13, "{what}: {causes:?}");
        let parts: f64 = causes[1..12].iter().map(|cell| number(cell)).sum();
        assert!(
            (parts - milliseconds).abs() < 0.02 * milliseconds,
            "{what}: {row:?} {causes:?}"
        );
        let (connections, requests, packets) = (number(row[6]), number(row[7]), number(row[8]));
        assert!(
            connections == if row[0] == "http10" { 43.0 } else { 1.0 },
            "{what}: {row:?}"
        );
        // Pipelined revalidation took 26 in document 003; nothing takes less than a packet each way and a handshake.
        assert!(requests == 43.0 && packets > 10.0, "{what}: {row:?}");
    }
}

#[test]
fn the_table_comes_from_three_servers_first_visit_and_revalidation() {
    if no_links() {
        return;
    }
    for server in ["weir", "nginx", "apache"] {
        let folder = site();
        let far = match serving(server, folder.path()) {
            Ok(far) => far,
            Err(why) => {
                eprintln!("skipped: {why}");
                continue;
            }
        };
        let cache = folder.path().join("cache").display().to_string();
        let modes = MODES.join(",");
        let fetch = format!("{WEIR} fetch {URL}");
        let script = format!(
            "set -e; {fetch} --compare {modes} --explain; echo ======; {fetch} -q --cache {cache} --mode pipelined; \
             {fetch} --compare {modes} --explain --cache {cache} --revalidate"
        );
        let output = behind("rate=20M rtt=10ms", &[], &far, &script);
        let said = text(&output.stdout);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{server}: {said} {}",
            text(&output.stderr)
        );
        let (first, again) = said.split_once("======").expect("two tables");
        check(first, &format!("{server}, first visit"));
        check(again, &format!("{server}, revalidation"));
        let sizes = |table: &str| rows(table)[2][9].parse::<u64>().expect("bytes");
        assert!(sizes(again) * 5 < sizes(first), "{server}: {said}");
    }
}

/// The page fetched in this mode behind the link, as `--json --explain` says it.
fn explained(link: &str, args: &[&str], far: &str, mode: &str) -> Value {
    let script = format!("{WEIR} fetch {URL} --json --explain --mode {mode}");
    let output = behind(link, args, far, &script);
    assert_eq!(output.status.code(), Some(0), "{link}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What a cause took.
fn seconds(causes: &[Value], name: &str) -> f64 {
    let found = causes.iter().find(|cause| cause["cause"] == name);
    found
        .and_then(|cause| cause["seconds"].as_f64())
        .unwrap_or_else(|| panic!("{name}: {causes:?}"))
}

/// The kernel's counts are what a hole is known by here, and the rate of the line is what it is described as.
#[test]
fn a_lossy_line_is_neither_a_slow_server_nor_a_fast_line() {
    if no_links() {
        return;
    }
    let folder = site();
    let far = serving("weir", folder.path()).expect("this server is here");
    // Five in a hundred of some 130 segments: that none is lost happens once in a thousand, and the seed is fixed.
    let (mut out_of_order, mut recovered) = (0, 0.0);
    let mut is_as_described = |seed: &str| {
        let link = "rate=1M rtt=30ms loss=5% congestion=reno";
        let fetch = explained(link, &["--seed", seed], &far, "pipelined");
        let causes = fetch["explain"]["causes"].as_array().expect("causes");
        let cause = |name| seconds(causes, name);
        println!("seed {seed}: {causes:?} {}", fetch["opened"][0]["tcp"]);
        out_of_order += fetch["opened"][0]["tcp"]["out_of_order"]
            .as_u64()
            .expect("a count");
        recovered += cause("loss recovery");
        let line = fetch["bytes_in"].as_f64().expect("a number") * 8.0 / 1e6;
        let silent = cause("server wait") + cause("server pause");
        cause("bandwidth") > line / 2.0 && (cause("loss recovery") == 0.0 || silent == 0.0)
    };
    // On a busy machine what came late may look like a faster line or a slow server, but not each time.
    let seeds = ["3", "4", "5", "6", "7", "8", "9", "10"].into_iter();
    let described = seeds.filter(|seed| is_as_described(seed)).take(2);
    assert_eq!(described.count(), 2, "of eight");
    assert!(out_of_order > 0, "segments out of order are counted");
    assert!(recovered > 0.02, "{recovered} s");
}

/// The archive is the client's and the capture the link's, and both have the clock of this machine.
#[test]
fn an_archive_of_a_visit_is_joined_with_the_capture_of_the_link() {
    if no_links() {
        return;
    }
    let folder = site();
    let far = serving("weir", folder.path()).expect("this server is here");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (pcap, har) = (path("link.pcapng"), path("page.har"));
    let script = format!("{WEIR} fetch {URL} -q --mode pipelined --har {har}");
    let output = behind("rate=2M rtt=60ms", &["--pcap", &pcap], &far, &script);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = weir(&["trace", &pcap, "--har", &har, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let lines: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let line = |event: &str| lines.iter().find(|line| line["event"] == event).expect("a line");
    let (visit, page) = (line("visit"), line("object"));
    assert_eq!(visit["in_capture"], 43, "{visit}");
    let clock = visit["clock_ms"].as_f64().expect("a difference");
    assert!(clock.abs() < 1_000.0, "{visit}");
    let waited = |name: &str| page[name].as_f64().expect("a time");
    assert!(waited("connect_ms") > 59.0, "{page}");
    assert!((59.0..120.0).contains(&waited("round_trip_ms")), "{page}");
}

#[test]
fn what_is_explained_adds_up_to_what_the_capture_saw() {
    if no_links() {
        return;
    }
    let folder = site();
    let far = serving("weir", folder.path()).expect("this server is here");
    for (link, mode) in [
        ("rate=2M rtt=60ms", "http10"),
        ("rate=2M rtt=30ms", "serial"),
        ("rate=2M rtt=60ms", "pipelined"),
        ("rate=2M rtt=60ms loss=2%", "pipelined+gzip"),
        ("rate=2M rtt=60ms hold-acks=200ms", "early-close"),
    ] {
        let visit = || {
            let file = folder.path().join("link.pcapng");
            let pcap = file.display().to_string();
            let fetch = explained(link, &["--pcap", &pcap], &far, mode);
            let causes = fetch["explain"]["causes"].as_array().expect("causes");
            let parts: f64 = causes.iter().filter_map(|cause| cause["seconds"].as_f64()).sum();
            let segments = capture::segments(&file);
            let begin = segments.iter().find(|one| one.is_syn).expect("a SYN").at;
            let end = segments
                .iter()
                .rev()
                .find(|one| one.is_down && one.payload > 0)
                .expect("an answer")
                .at;
            println!(
                "{link} {mode}: causes {parts:.4} s, captured {:.4} s, {causes:?}",
                end - begin
            );
            let adds_up = (parts - (end - begin)).abs() < 0.02 * (end - begin);
            adds_up.then_some((fetch, segments))
        };
        // A busy machine lets a client wait for a processor, which no capture shows, but not often.
        let mut visits = (0..3).filter_map(|_| visit());
        let (Some(_), Some((fetch, segments))) = (visits.next(), visits.next()) else {
            panic!("{link} {mode}: fewer than two of three visits add up");
        };
        let causes = fetch["explain"]["causes"].as_array().expect("causes");
        let cause = |name| seconds(causes, name);
        if !link.contains("loss") && !link.contains("hold-acks") {
            // Closing included; the link may end with the last acknowledgment on its way.
            assert_eq!(fetch["closings_uncounted"], 0, "{link} {mode}");
            let counted = fetch["packets"].as_u64().expect("a count");
            let captured = segments.len() as u64;
            assert!(
                captured <= counted && counted <= captured + 1,
                "{link} {mode}: {counted} packets, {captured} captured"
            );
        }
        if mode == "pipelined" {
            // A handshake takes the link's round trip, and nothing is known of the page before it.
            assert!(
                (0.06..0.12).contains(&cause("connect")),
                "{link} {mode}: {causes:?}"
            );
        }
    }
}
