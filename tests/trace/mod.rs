//! The black box of `weir trace`: the built binary on real captures, on damaged ones, from a pipe and from an
//! interface; every form of its report, and its exit codes.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a black-box test is the outside world: it starts programs, reads files and opens sockets"
)]

mod blocked;
mod datagrams;
mod http2;
mod live;
mod quic;
mod tls;
mod visit;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const LOOPBACK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/trace/testdata/loopback.pcap");
const LOSSY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/trace/testdata/lossy.pcap");

fn weir(arguments: &[&str]) -> Output {
    crate::cli::weir(&[&["trace"], arguments].concat())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn lines(output: &Output) -> Vec<Value> {
    let text = text(&output.stdout);
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

fn of<'v>(lines: &'v [Value], event: &str) -> Vec<&'v Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

fn json(arguments: &[&str]) -> Vec<Value> {
    let output = weir(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    lines(&output)
}

/// As `gzip` would have it.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn a_compressed_capture_is_read_as_what_it_holds() {
    let folder = folder("packed");
    let whole = std::fs::read(LOSSY).expect("the capture");
    let path = folder.join("lossy.pcap.gz");
    std::fs::write(&path, packed(&whole)).expect("a file");
    let plain = json(&[LOSSY]);
    let unpacked = json(&[show(&path)]);
    let results = |lines: &[Value]| {
        let is_result = |line: &&Value| {
            ["connection", "finding", "transaction"]
                .iter()
                .any(|e| line["event"] == *e)
        };
        lines.iter().filter(is_result).cloned().collect::<Vec<_>>()
    };
    assert!(!results(&plain).is_empty());
    assert_eq!(results(&unpacked), results(&plain));
    // Pictures take a second look at the file.
    let output = weir(&[show(&path), "--plot", show(&folder.join("plots"))]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let drawn = std::fs::read_to_string(folder.join("plots/server.xpl")).expect("a picture");
    assert_eq!(drawn.matches("uarrow").count(), 70);
    // Cut short: what came before is reported.
    let cut = packed(&whole);
    std::fs::write(&path, &cut[..cut.len() - 200]).expect("a file");
    let output = weir(&[show(&path), "--json"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("cut short"),
        "{}",
        text(&output.stderr)
    );
    let lines = lines(&output);
    let summary = of(&lines, "summary")[0];
    assert_eq!(
        (&summary["complete"], &summary["stopped_by"]),
        (&Value::Bool(false), &Value::from("fault"))
    );
    assert!(!of(&lines, "connection").is_empty());
}

/// A folder for this test alone.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trace-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

fn show(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

#[test]
fn a_report_goes_to_standard_output_and_nothing_else_is_said() {
    let output = weir(&[LOOPBACK]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
    let report = text(&output.stdout);
    for fragment in [
        "93 frames",
        "both: 93 packets, 28801 B payload; 32521 B with 40-byte headers (11.4 % overhead)",
        "connections: 4 seen, 4 established, at most 1 at once",
        "2 closed, 2 reset",
        "HTTP: 14 requests, 13 answered",
        "Nagle with application buffering",
        "packets 23, 24, 25",
        "set TCP_NODELAY",
        "GET /300-split",
    ] {
        assert!(report.contains(fragment), "{fragment}:\n{report}");
    }
}

/// Claim w3-07: a full close with requests in flight loses replies, and the capture says so; of the four
/// connections one was closed like that. Where the server closed in order nothing is found.
#[test]
fn a_full_close_with_a_request_in_flight_is_found_and_an_orderly_one_is_not() {
    let lines = json(&[LOOPBACK]);
    let resets: Vec<&Value> = of(&lines, "finding")
        .into_iter()
        .filter(|finding| finding["kind"] == "reset_destroyed_data")
        .collect();
    assert_eq!(resets.len(), 1);
    let finding = resets[0];
    assert_eq!(finding["connection"], 4);
    assert_eq!(finding["packets"], serde_json::json!([92, 93]));
    assert_eq!(
        (&finding["by"], &finding["after_close"]),
        (&"server".into(), &true.into())
    );
    assert_eq!(
        (&finding["requests"], &finding["unread"]),
        (&1.into(), &38.into())
    );
    assert!(
        finding["remedy"]
            .as_str()
            .is_some_and(|remedy| remedy.contains("two steps"))
    );
    let lost: Vec<&Value> = of(&lines, "transaction")
        .into_iter()
        .filter(|request| request["complete"] == false)
        .collect();
    assert_eq!(lost.len(), 1);
    assert_eq!(
        (&lost[0]["connection"], &lost[0]["status"]),
        (&4.into(), &Value::Null)
    );
    let report = weir(&[LOOPBACK, "--connection", "2"]);
    assert!(
        text(&report.stdout).contains("no findings"),
        "{}",
        text(&report.stdout)
    );
}

#[test]
fn json_lines_keep_to_the_schema() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/trace.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).expect("the schema")).expect("JSON");
    let kinds = schema["oneOf"].as_array().expect("a schema for each event");
    let truncated = folder("schema").join("cut.pcap");
    std::fs::write(&truncated, &std::fs::read(LOSSY).expect("a capture")[..5000]).expect("a file");
    let cut = weir(&[show(&truncated), "--json"]);
    let streams = truncated.with_file_name("http2.pcapng");
    std::fs::write(&streams, http2::capture()).expect("a file");
    let mut all = [
        json(&[LOOPBACK]),
        json(&[LOSSY, "--port", "9"]),
        json(&[LOSSY]),
        json(&[show(&streams)]),
        json(&[tls::SECURED]),
        json(&[show(&datagrams::lookups("lookups-schema"))]),
        json(&[quic::PEERS, "--keys", quic::KEYS, "--delayed-ack", "5ms"]),
        quic::compared("compared-schema"),
        visit::joined("visit-schema"),
    ]
    .concat();
    all.extend(lines(&cut));
    let mut seen = BTreeSet::new();
    for line in &all {
        let event = line["event"].as_str().expect("an event");
        if event == "failed" {
            continue;
        }
        let kind = kinds
            .iter()
            .find(|kind| kind["properties"]["event"]["const"] == event);
        crate::schema::check(
            kind.unwrap_or_else(|| panic!("no schema for {event}")),
            line,
            event,
        );
        seen.insert(event);
    }
    assert_eq!(seen.len(), kinds.len());
}

#[test]
fn connections_add_up_to_the_summary() {
    for capture in [LOOPBACK, LOSSY] {
        let lines = json(&[capture]);
        let summary = of(&lines, "summary")[0];
        let connections = of(&lines, "connection");
        for (end, total) in [("from_client", "from_clients"), ("from_server", "from_servers")] {
            for pointer in [
                "/volume/packets",
                "/volume/payload_bytes",
                "/volume/bytes_with_40",
                "/volume/header_bytes",
                "/kinds/syn",
                "/kinds/fin",
                "/kinds/rst",
                "/kinds/data",
                "/kinds/ack",
                "/retransmissions/packets",
                "/rtt/count",
                "/unique_bytes",
                "/out_of_order",
            ] {
                let number = |value: &Value, end: &str| value[end].pointer(pointer).and_then(Value::as_u64);
                let sum: u64 = connections.iter().filter_map(|c| number(c, end)).sum();
                assert_eq!(Some(sum), number(summary, total), "{capture} {end} {pointer}");
            }
        }
        assert_eq!(summary["connections"]["seen"], connections.len());
        let findings = of(&lines, "finding");
        let counted: u64 = summary["findings"]
            .as_object()
            .expect("by title")
            .values()
            .filter_map(|totals| totals["count"].as_u64())
            .sum();
        assert_eq!(counted, findings.len() as u64);
    }
}

/// Column by column, what a sheet says is what the JSON lines say.
#[test]
fn sheets_are_rectangular_and_agree_with_the_lines() {
    let lines = json(&[LOSSY]);
    for (sheet, event, pairs) in [
        (
            "connections",
            "connection",
            &[
                ("connection", "/id"),
                ("client_packets", "/from_client/volume/packets"),
            ][..],
        ),
        ("findings", "finding", &[("connection", "/connection")]),
        (
            "requests",
            "transaction",
            &[
                ("target", "/target"),
                ("response_body_bytes", "/response_body_bytes"),
            ],
        ),
    ] {
        let output = weir(&[LOSSY, "--csv", sheet]);
        assert_eq!(output.status.code(), Some(0));
        let rows: Vec<Vec<&str>> = text(&output.stdout)
            .lines()
            .map(|line| line.split(',').collect())
            .collect();
        let events = of(&lines, event);
        assert_eq!(rows.len(), events.len() + 1, "{sheet}");
        for (column, pointer) in pairs {
            let place = rows[0].iter().position(|name| name == column).expect("a column");
            for (row, event) in rows[1..].iter().zip(&events) {
                let value = event.pointer(pointer).expect("a field").to_string();
                assert_eq!(row[place], value.trim_matches('"'), "{sheet} {column}");
            }
        }
        if sheet == "connections" {
            assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{sheet}");
            let names: BTreeSet<&str> = rows[0].iter().copied().collect();
            assert_eq!(names.len(), rows[0].len());
        }
    }
    for (sheet, head) in [
        ("types", "type,from_clients,from_servers"),
        ("established", "t_s,mean,max"),
        ("cwnd", "t_s,mean,max"),
        ("cwnd-distribution", "segments,share"),
    ] {
        let output = weir(&[LOSSY, "--csv", sheet]);
        assert!(text(&output.stdout).starts_with(head), "{sheet}");
        assert!(text(&output.stdout).lines().count() > 1, "{sheet}");
    }
    let points = weir(&[LOSSY, "--csv", "points", "--connection", "2"]);
    assert!(text(&points.stdout).lines().count() > 100);
    let missing = weir(&[LOSSY, "--csv", "points"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("--connection"));
}

fn through_a_pipe(bytes: &[u8], arguments: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["trace", "-"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut input = child.stdin.take().expect("piped");
    for piece in bytes.chunks(1000) {
        // A command that has seen enough closes the pipe.
        if input.write_all(piece).is_err() {
            break;
        }
    }
    drop(input);
    child.wait_with_output().expect("its output")
}

#[test]
fn a_pipe_a_file_and_what_was_saved_of_it_say_the_same() {
    let folder = folder("saved");
    for capture in [LOOPBACK, LOSSY] {
        let whole = json(&[capture]);
        let piped = through_a_pipe(&std::fs::read(capture).expect("a capture"), &["--json"]);
        assert_eq!(lines(&piped)[1..], whole[1..], "{capture}");
        let saved = folder.join("saved.pcapng");
        let saving = json(&[capture, "--write", show(&saved)]);
        assert_eq!(saving[1..], whole[1..]);
        assert_eq!(
            &std::fs::read(&saved).expect("what was saved")[..4],
            [0x0a, 0x0d, 0x0d, 0x0a]
        );
        assert_eq!(json(&[show(&saved)])[1..], whole[1..], "{capture}");
    }
    let own = folder.join("own.pcap");
    std::fs::copy(LOSSY, &own).expect("a copy");
    let output = weir(&[show(&own), "--write", show(&own)]);
    assert_eq!(
        output.status.code(),
        Some(2),
        "a file is not written over while it is read"
    );
    assert_eq!(
        std::fs::read(&own).expect("still"),
        std::fs::read(LOSSY).expect("the same")
    );
}

#[test]
fn filters_turn_away_by_port_and_by_address() {
    let all = json(&[LOOPBACK]);
    for arguments in [
        &["--port", "18480"][..],
        &["--port", "1,18480"],
        &["--host", "127.0.0.0/8"],
        &["--port", "18480", "--host", "127.0.0.1"],
    ] {
        let some = json(&[&[LOOPBACK], arguments].concat());
        assert_eq!(some[1..], all[1..], "{arguments:?}");
    }
    for arguments in [
        &["--port", "80"][..],
        &["--host", "192.0.2.1"],
        &["--port", "18480", "--host", "::1"],
    ] {
        let none = json(&[&[LOOPBACK], arguments].concat());
        let summary = of(&none, "summary")[0];
        assert_eq!(summary["frames"]["turned_away"], 93, "{arguments:?}");
        assert_eq!(none.len(), 2, "{arguments:?}");
    }
    // The client's port tells connections apart, and packets keep their numbers in the file.
    let one = json(&[LOOPBACK, "--port", "43724"]);
    let finding = of(&one, "finding")[0];
    assert_eq!(
        (&finding["connection"], &finding["packets"][0]),
        (&1.into(), &92.into())
    );
    let output = weir(&[LOOPBACK, "--host", "example.org"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("is not an address"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn one_connection_is_told_with_everything() {
    let output = weir(&[LOSSY, "--connection", "1"]);
    let report = text(&output.stdout);
    for fragment in [
        "connection 1, 127.0.0.1:49408 to 127.0.0.1:18481, closed",
        "retransmitted packets            1            4",
        "retransmission timeout: transmission 2 of this segment; packets 50, 51",
        "GET /60000",
        "MSS announced",
    ] {
        assert!(report.contains(fragment), "{fragment}:\n{report}");
    }
    let lines = json(&[LOSSY, "-c", "1"]);
    assert_eq!(of(&lines, "connection").len(), 1);
    assert!(
        of(&lines, "transaction")
            .iter()
            .all(|request| request["connection"] == 1)
    );
    for (number, fragment) in [("9", "numbered 1 to 3"), ("0", "from 1")] {
        let output = weir(&[LOSSY, "-c", number]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            text(&output.stderr).contains(fragment),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn what_is_readable_of_a_damaged_file_is_reported() {
    let folder = folder("damaged");
    let good = std::fs::read(LOSSY).expect("a capture");
    let mut damaged = good.clone();
    // The captured length of the record that begins here, found by walking the records.
    let mut at = 24;
    for _ in 0..100 {
        let length = u32::from_le_bytes(good[at + 8..at + 12].try_into().expect("four bytes"));
        at += 16 + length as usize;
    }
    damaged[at + 8..at + 12].fill(0xff);
    for (name, bytes, fragment) in [
        (
            "cut.pcap",
            &good[..good.len() - 7],
            "the capture was probably interrupted",
        ),
        ("damaged.pcap", &damaged, "damaged from here on"),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("a file");
        for output in [weir(&[show(&path), "--json"]), through_a_pipe(bytes, &["--json"])] {
            assert_eq!(output.status.code(), Some(3), "{name}");
            assert!(
                text(&output.stderr).contains(fragment),
                "{name}: {}",
                text(&output.stderr)
            );
            let lines = lines(&output);
            let summary = of(&lines, "summary")[0];
            assert_eq!(summary["complete"], false);
            let frames = summary["frames"]["total"].as_u64().expect("a number");
            assert_eq!(Some(frames), summary["error"]["frames"].as_u64());
            assert!(
                frames >= 100 && !of(&lines, "connection").is_empty(),
                "{name}: {frames}"
            );
        }
    }
    for (name, bytes, fragment) in [
        ("empty", &b""[..], "empty"),
        ("text", b"GET / HTTP/1.1\r\n\r\n", "neither pcap nor pcapng"),
        // Captures are read from gzip data, so that its fault is said, not that it is gzip data.
        (
            "gzip",
            b"\x1f\x8b\x08\x00\x00\x00",
            "gzip data is damaged or cut short",
        ),
        (
            "packed text",
            &packed(b"GET / HTTP/1.1\r\n\r\n"),
            "neither pcap nor pcapng",
        ),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("a file");
        let output = weir(&[show(&path)]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert_eq!(text(&output.stdout), "", "{name}");
        assert!(
            text(&output.stderr).contains(fragment),
            "{name}: {}",
            text(&output.stderr)
        );
    }
    for missing in [folder.join("missing"), folder.clone()] {
        let output = weir(&[show(&missing)]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            text(&output.stderr).contains("cannot read"),
            "{}",
            text(&output.stderr)
        );
    }
    // A header alone is a capture of nothing.
    let nothing = folder.join("nothing.pcap");
    std::fs::write(&nothing, &good[..24]).expect("a file");
    let output = weir(&[show(&nothing)]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("0 frames"));
}

#[test]
fn pictures_have_axes_and_what_was_measured() {
    let folder = folder("plots");
    let output = weir(&[LOSSY, "--plot", show(&folder)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let files: BTreeMap<String, String> = std::fs::read_dir(&folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry"))
        .map(|entry| {
            let name = entry.file_name().into_string().expect("text");
            (name, std::fs::read_to_string(entry.path()).expect("text"))
        })
        .collect();
    for (name, fragment) in [
        ("time-sequence.svg", "sequence number (bytes)"),
        ("flight.svg", "cwnd, estimated"),
        ("cwnd-distribution.svg", "share of round trips, not above"),
        ("packet-types.svg", "DATA"),
        ("established.svg", "connections"),
        ("round-trips.svg", "milliseconds"),
        ("client.xpl", "timeval unsigned"),
        ("server.xpl", "timeval unsigned"),
        ("points.csv", "t_s,packet,from"),
    ] {
        let file = files
            .get(name)
            .unwrap_or_else(|| panic!("{name} of {:?}", files.keys()));
        assert!(file.contains(fragment), "{name}: {file}");
        if name.ends_with(".svg") {
            assert_eq!(file.matches("<svg ").count(), 1, "{name}");
            assert!(
                file.trim_end().ends_with("</svg>") && !file.contains("NaN"),
                "{name}"
            );
        }
    }
    // The connection with the timeout, without being named; each of its data packets is a stroke.
    assert!(files["time-sequence.svg"].contains("connection 1"));
    let xplot = &files["server.xpl"];
    assert_eq!(xplot.matches("uarrow").count(), 70);
    assert_eq!(xplot.matches("\nR\n").count(), 4, "repetitions");
}

#[test]
fn bounds_are_said_when_they_are_met() {
    let output = weir(&[LOSSY, "--connections-max", "1"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stdout).contains("raise --connections-max"),
        "{}",
        text(&output.stdout)
    );
    let folder = folder("points");
    let output = weir(&[LOSSY, "--plot", show(&folder), "--points-max", "10"]);
    assert!(
        text(&output.stderr).contains("--points-max"),
        "{}",
        text(&output.stderr)
    );
    let output = weir(&[LOSSY, "--top", "1"]);
    assert!(
        text(&output.stdout).contains("(1 of 3; --top shows more"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = weir(&["--help"]);
    let help = text(&help.stdout);
    for fragment in ["Examples:", "--live", "--connection", "--plot", "Exit codes:"] {
        assert!(help.contains(fragment), "{fragment}");
    }
    let both = weir(&[LOSSY, "--live", "lo"]);
    assert_eq!(both.status.code(), Some(2));
}

/// What the documentation shows is what is printed.
#[test]
fn the_example_in_the_documentation_is_real() {
    let root = env!("CARGO_MANIFEST_DIR");
    let document = std::fs::read_to_string(format!("{root}/docs/trace.md")).expect("the document");
    let (_, rest) = document
        .split_once("$ weir trace crates/trace/testdata/loopback.pcap --top 3\n")
        .expect("the example");
    let (shown, _) = rest.split_once("```").expect("its end");
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["trace", "crates/trace/testdata/loopback.pcap", "--top", "3"])
        .current_dir(root)
        .output()
        .expect("the binary starts");
    assert_eq!(text(&output.stdout), shown);
}

/// Nobody is told less than was asked for: a flag that cannot count is refused.
#[test]
fn flags_of_a_live_capture_are_refused_for_a_file() {
    for flags in [
        &["--duration", "1s"][..],
        &["--packets", "3"],
        &["--snaplen", "100"],
        &["--promiscuous"],
    ] {
        let output = weir(&[&[LOOPBACK], flags].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        let said = text(&output.stderr);
        assert!(said.contains(flags[0]) && said.contains("--live"), "{said}");
    }
    let output = weir(&["--live", "lo", "--packets", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("at least 1"));
}

/// The report cannot be written: the system's refusal, not a panic.
#[test]
fn a_full_disk_is_an_error_in_every_form() {
    for form in [
        &[][..],
        &["--json"],
        &["--csv", "connections"],
        &["--connection", "1"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let Ok(full) = full else {
            println!("skipped: no /dev/full here");
            return;
        };
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["trace", LOOPBACK])
            .args(form)
            .stdout(full)
            .output()
            .expect("the binary starts");
        assert_eq!(output.status.code(), Some(4), "{form:?}");
        assert!(
            text(&output.stderr).contains("cannot write the report"),
            "{form:?}"
        );
    }
}

/// A capture of which only the first bytes of each frame, or an unknown link, can be seen is not reported as read.
#[test]
fn frames_that_cannot_be_read_make_the_report_incomplete() {
    let folder = folder("unreadable");
    let whole = std::fs::read(LOOPBACK).expect("the capture");
    // A pcap file of one second's format: 24 bytes, then 16 before each frame.
    let field = |at: usize| u32::from_le_bytes([whole[at], whole[at + 1], whole[at + 2], whole[at + 3]]);
    assert_eq!(field(0) >> 16, 0xa1b2, "little-endian pcap");
    let cut = |snaplen: u32, link: u32| {
        let mut out = whole[..20].to_vec();
        out.extend(link.to_le_bytes());
        let mut at = 24;
        while at < whole.len() {
            let kept = field(at + 8).min(snaplen);
            out.extend(&whole[at..at + 8]);
            out.extend(kept.to_le_bytes());
            out.extend(&whole[at + 12..at + 16 + kept as usize]);
            at += 16 + field(at + 8) as usize;
        }
        out
    };
    let report = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("a file");
        weir(&[show(&path)])
    };
    let headers = report("headers.pcap", &cut(40, field(20)));
    assert_eq!(headers.status.code(), Some(3));
    assert!(text(&headers.stderr).contains("snapshot length"));
    assert!(text(&headers.stdout).contains("93 malformed"));
    let payload = report("payload.pcap", &cut(80, field(20)));
    assert_eq!(payload.status.code(), Some(0));
    assert!(text(&payload.stdout).contains("captured only in part"));
    let unknown = report("link.pcap", &cut(65_535, 105));
    assert_eq!(unknown.status.code(), Some(3));
    assert!(text(&unknown.stderr).contains("93 of 93 frames have link type 105"));
}
