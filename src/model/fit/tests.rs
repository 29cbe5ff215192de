//! Results in the formats of `weir load` and `weir trace`, generated from parameters that the fit must find; and
//! invalid input, which errors must name by file and line.

use crate::cli::model::Format;
use crate::model::tests::{ask, put};
use ::load::record::Record;
use ::load::run::{FORMAT, Run, VERSION};
use ::load::verdict::Bounds;
use ::model::Seconds;
use ::model::closed::{Network, Station};
use ::model::tcp::Sender;
use ::model::tcp::ramp::Path as Link;
use serde_json::{Value, json};
use std::path::PathBuf;
use units::{Bytes, Draw, Duration, Instant, Rate, Seed};

const SECONDS: u32 = 12;

/// A run of `users` clients with this throughput and mean response time, with some noise.
pub(in crate::model) fn run(users: u32, throughput: f64, response: f64) -> Run {
    let mut record = Record::default();
    let mut rng = Seed(u64::from(users)).rng();
    let began = Instant::ZERO;
    for second in 0..SECONDS {
        let files = throughput.round() as u64;
        for file in 0..files {
            let now = began + Duration::from_secs_f64(f64::from(second) + file as f64 / files as f64);
            // Between a half and one and a half of the mean, which is the mean on average.
            let share = 0.5 + (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            record.respond(Duration::from_secs_f64(share * response), now, began);
            record.second(now, began).files += 1;
            record.connect.add(Duration::from_secs_f64(0.002 + 0.002 * share));
            record.files += 1;
            record.files_in_time += 1;
        }
    }
    // The run was long enough to measure the client's lateness.
    record.tick.add(Duration::from_micros(50));
    record.settle();
    Run {
        format: FORMAT.to_owned(),
        version: VERSION,
        command: Vec::new(),
        program: String::new(),
        kernel: None,
        processor: None,
        clock: "CLOCK_MONOTONIC".to_owned(),
        seed: 1,
        plan: String::new(),
        peer: String::new(),
        workload: "each".to_owned(),
        model: "clients".to_owned(),
        mode: "serial".to_owned(),
        verified: false,
        method: "GET".to_owned(),
        body_bytes: None,
        step_names: Vec::new(),
        tls: None,
        headers: Vec::new(),
        accept_status: "200".to_owned(),
        users: Some(users),
        schedule: None,
        asked_s: f64::from(SECONDS),
        warmup_s: 0.0,
        timeout_s: 10.0,
        stagger_s: None,
        rate_asked: None,
        arrivals_drawn: None,
        stopped_after_s: None,
        rank: 0,
        size: 1,
        start_at: None,
        started_at: 0.0,
        shares: Vec::new(),
        decile_bytes: Vec::new(),
        bounds: Bounds::DEFAULT,
        cpu: vec![0.1],
        record,
    }
}

fn line(run: &Run) -> String {
    let mut value = json!(run);
    value["event"] = json!("result");
    format!("{value}\n")
}

/// A folder for one test, removed when dropped.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn file(folder: &tempfile::TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    put(&path, text);
    path
}

/// The rows of a JSON table, by their first cells.
fn rows(json: &str, table: usize) -> Vec<Vec<Value>> {
    let value: Value = serde_json::from_str(json).expect("JSON");
    let rows = value["tables"][table]["rows"].as_array().expect("rows");
    rows.iter()
        .map(|row| row.as_array().expect("cells").clone())
        .collect()
}

fn interval(rows: &[Vec<Value>], name: &str, by: &str) -> [f64; 3] {
    let row = rows
        .iter()
        .find(|row| row[0] == name && row[5].as_str().is_some_and(|words| words.contains(by)))
        .unwrap_or_else(|| panic!("{name} by {by}: {rows:?}"));
    [1, 2, 3].map(|at| row[at].as_f64().expect("a number"))
}

#[test]
fn runs_of_weir_load_give_demand_and_delay_with_bootstrap_intervals() {
    let stations = vec![
        Station::queue("bottleneck", Seconds(0.004)),
        Station::delay("rest", Seconds(0.02)),
    ];
    let network = Network::new(stations, Seconds(0.0)).expect("a network");
    let folder = folder();
    let mut words = Vec::new();
    for users in [1, 2, 4, 8, 16, 24] {
        let solved = network.exact(u64::from(users)).expect("a solution");
        let run = run(users, solved.throughput, solved.response.0);
        let path = file(&folder, &format!("{users}.json"), &line(&run));
        words.push(path.display().to_string());
    }
    let asked = format!("weir model fit {} --predict 100", words.join(" "));
    let answer = ask(&asked, Format::Json).expect("a fit");
    let rows = rows(&answer, 0);
    for (name, truth) in [("demand", 0.004), ("delay", 0.02)] {
        for by in ["curvature", "bootstrap"] {
            let [value, low, high] = interval(&rows, name, by);
            assert!((value / truth - 1.0).abs() < 0.05, "{name} by {by}: {value}");
            assert!(
                low <= value && value <= high && high - low < 0.5 * truth,
                "{name} by {by}"
            );
        }
    }
    // Connect times are spread evenly between 3 and 5 ms.
    let [rtt, low, high] = interval(&rows, "round-trip time", "order statistics");
    assert!(
        (rtt - 0.004).abs() < 0.0005 && low < rtt && rtt < high,
        "{rtt} [{low}, {high}]"
    );
    assert!(answer.contains("100 users"), "{answer}");
    assert_eq!(answer, ask(&asked, Format::Json).expect("a fit"), "the same seed");
}

/// Lines of a trace of transfers over a link, one connection each.
fn trace(sizes: &[u64], rtt: f64, rate: Rate) -> String {
    let sender = Sender::modern(Bytes(1460));
    let link = Link::new(rate, Seconds(rtt)).expect("a link");
    let mut text = json!({"event": "trace", "format": 1}).to_string() + "\n";
    for (id, &size) in sizes.iter().enumerate() {
        let sending = link.send(&sender, Bytes(size), 10.0).sending().0;
        let header = 250.min(size);
        let lines = [
            json!({
                "event": "transaction", "connection": id, "index": 0, "complete": true,
                "start_s": id as f64 + rtt, "request_ms": 0.0, "wait_ms": 1e3 * rtt, "receive_ms": 1e3 * sending,
                "response_header_bytes": header, "response_body_bytes": size - header,
            }),
            json!({
                "event": "connection", "id": id, "start_s": id as f64, "handshake_ms": 1e3 * rtt * (1.0 + 0.01 * id as f64),
                "from_server": {
                    "initial_window": size.min(14_480), "segment_max": size.min(1448),
                    "kinds": {"data": size.div_ceil(1448)}, "retransmissions": {"packets": u64::from(id == 7)},
                },
            }),
        ];
        lines.iter().for_each(|line| text += &format!("{line}\n"));
    }
    text
}

const SIZES: [u64; 8] = [600, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000];

#[test]
fn a_trace_gives_the_path_and_what_it_loses() {
    let folder = folder();
    let path = file(&folder, "trace.jsonl", &trace(&SIZES, 0.05, Rate::mbit(20)));
    let answer = ask(&format!("weir model fit {}", path.display()), Format::Json).expect("a fit");
    let rows = rows(&answer, 0);
    let [rtt, ..] = interval(&rows, "round-trip time", "curvature");
    assert!((rtt / 0.05 - 1.0).abs() < 0.02, "{rtt}");
    for by in ["curvature", "bootstrap"] {
        let [rate, low, high] = interval(&rows, "rate", by);
        assert!(
            (rate / 20e6 - 1.0).abs() < 0.02 && low <= rate && rate <= high,
            "{rate} by {by}"
        );
    }
    let [handshake, low, high] = interval(&rows, "handshake", "bootstrap");
    assert!(low <= handshake && handshake <= high && (0.05..0.054).contains(&handshake));
    let data: u64 = SIZES.iter().map(|size| size.div_ceil(1448)).sum();
    let [lost, low, high] = interval(&rows, "segments sent again", "Wilson");
    assert!((lost * data as f64 - 1.0).abs() < 1e-9 && 0.0 < low && low < lost && lost < high);
    let text = ask(&format!("weir model fit {}", path.display()), Format::Table).expect("a fit");
    assert!(text.contains("(10.0 segments)"), "{text}");
}

#[test]
fn sizes_too_alike_leave_what_was_seen_directly() {
    let folder = folder();
    let path = file(&folder, "trace.jsonl", &trace(&[3_000; 6], 0.05, Rate::mbit(20)));
    let text = ask(&format!("weir model fit {}", path.display()), Format::Table).expect("a report");
    assert!(
        text.contains("no fit of round trip and rate from 6 transfers"),
        "{text}"
    );
    assert!(text.contains("handshake"), "{text}");
}

#[test]
fn what_is_no_measurement_is_named_by_file_and_line() {
    let folder = folder();
    let good = line(&run(2, 10.0, 0.2));
    let broken = |name: &str, change: fn(&mut Value)| {
        let mut value: Value = serde_json::from_str(&good).expect("JSON");
        change(&mut value);
        (name.to_owned(), format!("{good}\n{value}\n"))
    };
    let cut = (
        trace(&SIZES[..1], 0.05, Rate::mbit(20)),
        "{\"event\":\"transaction\",\"connection\":1}",
    );
    for ((name, text), fragments) in [
        (
            broken("open.json", |value| {
                value["users"] = Value::Null;
                value["model"] = json!("poisson");
            }),
            ["open.json:3: a run of arrivals (poisson)", "--clients"],
        ),
        (
            broken("part.json", |value| value["size"] = json!(4)),
            ["part.json:3: rank 0 of 4", "a part of a run"],
        ),
        (
            broken("old.json", |value| value["version"] = json!(1)),
            ["old.json` line 3", "this program reads weir-load 5"],
        ),
        (
            ("cut.json".to_owned(), format!("{good}{{\"event\":")),
            ["cut.json` line 2", "not JSON"],
        ),
        (
            ("other.json".to_owned(), "\n{\"a\":1}\n".to_owned()),
            ["other.json:2", "neither a result"],
        ),
        (
            ("no.json".to_owned(), "{\n".to_owned()),
            ["no.json:1: not JSON", ""],
        ),
        (
            ("trace.jsonl".to_owned(), format!("{}{}\n", cut.0, cut.1)),
            ["trace.jsonl:4", "missing field"],
        ),
        (
            (
                "form.jsonl".to_owned(),
                "{\"event\":\"trace\",\"format\":9}\n".to_owned(),
            ),
            ["form.jsonl:1: lines of form 9", "reads 1"],
        ),
        (
            (
                "nobody.jsonl".to_owned(),
                "{\"event\":\"trace\",\"format\":1}\n".to_owned(),
            ),
            ["nobody.jsonl: no connection was captured", ""],
        ),
    ] {
        let path = file(&folder, &name, &text);
        let error = ask(&format!("weir model fit {}", path.display()), Format::Json).expect_err(&name);
        for fragment in fragments {
            assert!(error.contains(fragment), "{name}: {error}");
        }
    }
    let runs = file(&folder, "runs.json", &good);
    let lines = file(&folder, "lines.jsonl", &trace(&SIZES, 0.05, Rate::mbit(20)));
    let both = format!("weir model fit {} {}", runs.display(), lines.display());
    let error = ask(&both, Format::Json).expect_err("two kinds");
    assert!(error.contains("several files must all be"), "{error}");
    let lone = ask(&format!("weir model fit {}", runs.display()), Format::Json).expect_err("one run");
    assert!(lone.contains('3') && lone.contains("samples"), "{lone}");
}
