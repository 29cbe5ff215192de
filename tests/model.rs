//! `weir model` from outside: what goes to which stream, exit codes, the form of JSON, and what it does with the machine.
//! The answers are tested where they are made.

#![allow(
    clippy::disallowed_methods,
    reason = "a black-box test is the outside world: it starts programs and reads files"
)]

use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn weir(line: &str) -> Output {
    crate::cli::weir(&line.split(' ').collect::<Vec<_>>())
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn an_answer_goes_to_standard_output_and_nothing_else_is_said() {
    let out = weir("model dimension --users 200 --page 125KB --turnaround 2s --rtt 90ms");
    assert_eq!(out.status.code(), Some(0));
    assert!(
        text(&out.stdout).starts_with("102.798 Mbit/s for 200 users"),
        "{}",
        text(&out.stdout)
    );
    assert_eq!(text(&out.stderr), "");
}

#[test]
fn exit_codes_tell_a_no_from_a_mistake() {
    for (line, code, fragment) in [
        // The question made sense, and the answer is no.
        (
            "model dimension --users 5 --page 1MB --turnaround 10ms --rtt 90ms",
            1,
            "cannot be reached",
        ),
        ("model queue --arrivals 200 --service 10ms", 1, "overloaded"),
        ("model transaction --size 0 --rate 10M --rtt 1ms", 2, "size is 0"),
        (
            "model transaction --size 6000 --rate fast --rtt 1ms",
            2,
            "`fast` is not a rate",
        ),
        ("model tables --format svg", 2, "no picture"),
        ("model fit no-such-file.csv", 2, "cannot read the measurements"),
        ("model", 2, "Usage"),
    ] {
        let out = weir(line);
        assert_eq!(out.status.code(), Some(code), "{line}: {}", text(&out.stderr));
        assert!(
            text(&out.stderr).contains(fragment),
            "{line}: {}",
            text(&out.stderr)
        );
    }
}

#[test]
fn json_is_one_object_a_line_with_the_derivation() {
    let out = weir("model waiting --users 50 --packets 12 --packet-time 36ms --json");
    let stdout = text(&out.stdout);
    assert_eq!(stdout.lines().count(), 1);
    let value: serde_json::Value = serde_json::from_str(stdout).expect("JSON");
    assert_eq!(value["command"], "waiting");
    assert_eq!(value["answers"][0]["steps"][1]["source"], "document 004, Eq. 2");
    assert_eq!(value["tables"][0]["columns"][1]["unit"], "s");
    assert!(value["answers"][0]["bounds"][0]["low"].is_number());
}

#[test]
fn measurements_come_from_standard_input_too() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let command = command.args(["model", "fit", "-", "--format", "csv"]);
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the binary runs");
    let samples = "users,throughput,response\n1,40,0.025\n4,140,0.0285\n16,245,0.065\n32,250,0.128\n";
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(samples.as_bytes()).expect("it reads");
    drop(stdin);
    let out = child.wait_with_output().expect("it ends");
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("demand,"), "{}", text(&out.stdout));
}

#[test]
fn json_says_why_there_is_no_answer() {
    for (question, words, code, fragment) in [
        (
            "dimension",
            "--users 5 --page 1MB --turnaround 10ms --rtt 90ms",
            1,
            "cannot be reached",
        ),
        ("queue", "--arrivals 101 --service 10ms", 1, "overloaded"),
        ("transaction", "--size 0 --rate 10M --rtt 1ms", 2, "size is 0"),
    ] {
        let event = weir(&format!("model {question} {words} --json"));
        assert!(
            text(&event.stdout).contains("\"event\":\"failed\""),
            "{}",
            text(&event.stdout)
        );
        let out = weir(&format!("model {question} {words} --format json"));
        assert_eq!(out.status.code(), Some(code), "{question}");
        let value = checked(&out, question);
        assert!(
            value["failed"].as_str().expect("a reason").contains(fragment),
            "{value}"
        );
        assert_eq!(value["answers"], Value::Array(Vec::new()));
    }
}

/// Every question, each with words that make it quick.
const QUESTIONS: [(&str, &str); 17] = [
    (
        "transaction",
        "--size 6000 --rate T1 --rtt 100ms --mss 512 --paper",
    ),
    ("transfer", "--size 125KB --rate 20M --rtt 90ms --loss 1%"),
    (
        "waiting",
        "--group 5:6ms --group 10:4.333ms --packets 3 --measured size-scv=4",
    ),
    ("tables", "--errata"),
    ("savings", ""),
    ("dimension", "--users 200 --page 125KB --turnaround 2s --rtt 90ms"),
    (
        "distribute",
        "--users 50 --page 6000 --rtt 100ms --mss 512 --line T1 --line E1 --line T3",
    ),
    ("servers", "--arrivals 2000 --service 3ms --response 10ms"),
    ("page", "--rate 2M --rtt 90ms"),
    ("queue", "--arrivals 80 --service 10ms --service-scv 4"),
    (
        "closed",
        "--users 20 --think 7s --station cpu=5ms --delay net=90ms",
    ),
    ("srpt", "--sizes exponential(10ms)"),
    ("flow", "--users 100 --lines 2 --rate 10M --page 12500 --think 1s"),
    ("fit", "RESULTS"),
    ("balance", "--upstreams 2 --runs 2 --duration 1s"),
    ("experiment", "--size 3000 --users 1 --users 5"),
    (
        "validate",
        "--users 1 --lines 1 --page 30KB --rate 2M --think 2s --packet-users 1 --packet-answers 20",
    ),
];

/// The one line of JSON an answer is, held against its schema.
fn conforming(question: &str, words: &str) -> Value {
    let out = weir(
        format!("model {question} {words} --json")
            .replace("  ", " ")
            .trim_end(),
    );
    assert_eq!(out.status.code(), Some(0), "{question}: {}", text(&out.stderr));
    checked(&out, question)
}

/// The line of JSON on standard output, held against its schema.
fn checked(out: &Output, question: &str) -> Value {
    let value: Value = serde_json::from_str(text(&out.stdout)).expect("one line of JSON");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/model.schema.json");
    let schema = std::fs::read_to_string(file).expect("a schema");
    let schema = serde_json::from_str(&schema).expect("JSON");
    crate::schema::check(&schema, &value, question);
    assert_eq!(value["command"], question);
    value
}

/// By the formulas, the last packet arrives when T says; the simulated connection sends the same data.
#[test]
fn a_transaction_lists_its_messages() {
    let flags = "--size 6000 --rate T1 --rtt 100ms --mss 512 --timeline";
    let value = conforming("transaction", flags);
    let rows = value["tables"][0]["rows"].as_array().expect("rows");
    let of = |by: &str, over: &str, kind: &str| -> Vec<&Value> {
        rows.iter()
            .filter(|row| row[0] == by && row[1] == over && row[3] == kind)
            .collect()
    };
    let last = |rows: &[&Value]| rows.last().expect("a row")[6].as_f64().expect("a time");
    for (over, time) in [("TCP", "t"), ("T/TCP", "t_ttcp")] {
        let data = of("formulas", over, "data");
        let total = value["answers"][0]["answer"][time].as_f64().expect("a time");
        assert_eq!(data.len(), 12, "{over}");
        assert!((last(&data) - 1_000.0 * total).abs() < 1e-6, "{over}");
    }
    assert_eq!(of("formulas", "T/TCP", "SYN").len(), 0);
    let simulated = of("simulation", "TCP", "data");
    assert_eq!(simulated.len(), 12, "{rows:?}");
    assert!((300.0..1_500.0).contains(&last(&simulated)), "{simulated:?}");
    let out = weir("model transaction --size 1048576 --rate T1 --rtt 100ms --mss 512 --timeline");
    assert_eq!(out.status.code(), Some(2));
    assert!(
        text(&out.stderr).contains("at most 1000 are listed"),
        "{}",
        text(&out.stderr)
    );
}

#[test]
fn every_answer_has_the_form_its_schema_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().join("results.csv");
    std::fs::write(
        &results,
        "users,throughput,response\n1,40,0.025\n4,140,0.0285\n16,245,0.065\n32,250,0.128\n",
    )
    .expect("a file");
    for (question, words) in QUESTIONS {
        let value = conforming(
            question,
            &words.replace("RESULTS", &results.display().to_string()),
        );
        // Numbers that others published never come without a word on where they come from.
        let shows_published = matches!(question, "tables" | "experiment" | "page");
        let published = value["published"].as_array().expect("a list");
        assert_eq!(
            !published.is_empty(),
            shows_published,
            "{question}: {published:?}"
        );
    }
    let schema =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/model.schema.json"));
    let schema: Value = serde_json::from_str(&schema.expect("a schema")).expect("JSON");
    let known = schema["properties"]["command"]["enum"].as_array().expect("names");
    assert_eq!(known.len(), QUESTIONS.len());
}

#[test]
fn published_numbers_say_where_they_come_from() {
    let tables = conforming("tables", "4");
    let origin = &tables["published"][0];
    assert_eq!(origin["shown"], "printed");
    assert!(
        origin["source"].as_str().expect("text").contains("Table 4"),
        "{origin}"
    );
    assert!(
        origin["provenance"]
            .as_str()
            .expect("text")
            .starts_with("the document's own text"),
        "{origin}"
    );
    let out = weir("model tables 4");
    assert!(
        text(&out.stdout).contains("published:\n  printed: "),
        "{}",
        text(&out.stdout)
    );
}

/// The column of the first table whose name is this.
fn column(answer: &Value, name: &str) -> Vec<Value> {
    let table = &answer["tables"][0];
    let columns = table["columns"].as_array().expect("columns");
    let at = columns.iter().position(|column| column["name"] == name);
    let at = at.unwrap_or_else(|| panic!("no column `{name}`: {columns:?}"));
    let rows = table["rows"].as_array().expect("rows");
    rows.iter().map(|row| row[at].clone()).collect()
}

#[test]
fn the_experiment_is_measured_on_a_link_of_its_own() {
    let words = "--measure --bursts 4 --size 12000 --users 1 --users 3 --rate 2M --rtt 20ms";
    let answer = conforming("experiment", words);
    let skipped = answer["notes"].to_string();
    if skipped.contains("skipped: ") {
        eprintln!("skipped: {skipped}");
        return;
    }
    let number = |name: &str| -> Vec<f64> {
        let cells = column(&answer, name);
        cells.iter().map(|cell| cell.as_f64().expect(name)).collect()
    };
    assert_eq!(column(&answer, "mean"), ["turnaround", "turnaround", "waiting"]);
    let (measured, from, to) = (number("measured"), number("from"), number("to"));
    for at in 0..3 {
        assert!(from[at] <= measured[at] && measured[at] <= to[at], "{answer}");
    }
    // Two round trips and the line's time for what the file is: no machine is faster, however busy it is. Three users share
    // the line, which serves their mean no sooner than one after the other. One cell beside the other says nothing: of two
    // bursts the one of fewer users may have come while the machine did something else.
    let (trips, file) = (40.0, 12_000.0 * 8.0 / 2_000.0);
    for (measured, least) in [
        (measured[0], trips + file),
        (measured[1], trips + file * (1.0 + 2.0 + 3.0) / 3.0),
    ] {
        assert!(measured >= least - 0.5, "{measured} of {least} ms: {answer}");
    }
    let waiting = measured[1] - measured[0];
    assert!((measured[2] - waiting).abs() < 1e-9 * measured[1], "{answer}");
    let error = number("windows error")[0];
    let windows = number("windows")[0];
    assert!(
        (error - 100.0 * (windows / measured[0] - 1.0)).abs() < 1e-9,
        "{answer}"
    );
}

/// In a user namespace that may have no namespaces of its own.
#[test]
fn where_namespaces_are_refused_the_measured_column_is_skipped_with_the_reason() {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces || exit 77; \
                  echo 0 > /proc/sys/user/max_net_namespaces || exit 77; \
                  exec \"$0\" model experiment --measure --bursts 2 --size 3000 --users 1 --json";
    let ran = Command::new("unshare")
        .args(["-Ur", "sh", "-c", script, env!("CARGO_BIN_EXE_weir")])
        .output();
    let out = match ran {
        Ok(out) if !text(&out.stdout).is_empty() => out,
        Ok(out) => return eprintln!("skipped: unshare: {}", text(&out.stderr).trim()),
        Err(why) => return eprintln!("skipped: unshare: {why}"),
    };
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let answer: Value = serde_json::from_str(text(&out.stdout)).expect("JSON");
    let notes = answer["notes"].to_string();
    assert!(
        notes.contains("measured: skipped: ") && notes.contains("namespace"),
        "{notes}"
    );
    // Everything that needs no link is there.
    assert_eq!(column(&answer, "users"), [1]);
}

#[test]
fn a_prediction_is_held_against_a_server_on_the_loopback() {
    let words = "--load --page 20KB --fitted 1 --fitted 2 --fitted 3 --clients 4 --seconds 2";
    let out = weir(&format!("model validate {words} --format json"));
    // How good a prediction is depends on what else the machine does, and whether there is one; what is measured and how the
    // answer is told do not. The judgement is tested where runs are made up.
    let answer = checked(&out, "validate");
    let failed = answer["failed"].as_str();
    assert_eq!(out.status.code(), Some(i32::from(failed.is_some())), "{answer}");
    assert_eq!(column(&answer, ""), ["fitted", "fitted", "fitted", "predicted"]);
    assert_eq!(column(&answer, "clients"), [1, 2, 3, 4]);
    let is_fit = !failed.is_some_and(|why| why.starts_with("nothing can be predicted"));
    for (name, is_there) in [
        ("measured", true),
        ("throughput measured", true),
        ("predicted", is_fit),
        ("error", is_fit),
        ("throughput predicted", is_fit),
        ("throughput error", is_fit),
    ] {
        let cells = column(&answer, name);
        assert!(
            cells.iter().all(|cell| cell.is_number() == is_there),
            "{name}: {answer}"
        );
    }
    // A second is no interval.
    for name in ["from", "to"] {
        assert!(
            column(&answer, name).iter().all(Value::is_null),
            "{name}: {answer}"
        );
    }
    assert!(answer["notes"].to_string().contains("no intervals"), "{answer}");
}

#[test]
fn help_shows_examples_for_every_question() {
    let help = weir("model --help");
    let help = text(&help.stdout);
    for (question, _) in QUESTIONS {
        assert!(help.contains(question), "{question}");
        let own = weir(&format!("model {question} --help"));
        assert!(text(&own.stdout).contains("Example"), "{question}");
    }
}
