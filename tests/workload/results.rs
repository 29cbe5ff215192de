//! What results are written as, how those of several machines are put together, and how two are compared.

use crate::fixture::{Served, served};
use crate::workload::{conforms, lines, printed, refused, weir};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const PATIENT: [&str; 3] = ["--quiet", "--lag-max", "60s"];

fn folder() -> TempDir {
    TempDir::new().expect("a folder")
}

fn file(dir: &TempDir, name: &str) -> String {
    dir.path().join(name).to_str().expect("text").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The last line of a file of results.
fn last(path: &str) -> Value {
    lines(&read(path)).pop().expect("a result")
}

fn number(result: &Value, name: &str) -> u64 {
    result[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {result}"))
}

/// Runs a load that must end well.
fn load(arguments: &[&str]) {
    printed(&[&["load"], arguments, &PATIENT].concat());
}

/// Ranks of one load, all started at once with an agreed start.
fn ranks(site: &Served, dir: &TempDir, more: &[&str], ranks: u32) -> Vec<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let start = (now.as_secs_f64() + 3.0).to_string();
    let start_rank = |rank: u32| -> Child {
        Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["load", &site.url, "--site", site.path()])
            .args(more)
            .args(PATIENT)
            .args(["--rank", &rank.to_string(), "--size", &ranks.to_string()])
            .args(["--start-at", &start, "--out", &file(dir, "rank-{rank}.json")])
            .stdout(Stdio::null())
            .spawn()
            .expect("a rank")
    };
    let started: Vec<Child> = (0..ranks).map(start_rank).collect();
    for mut rank in started {
        let status = rank.wait().expect("an end");
        assert!(status.success(), "{status}");
    }
    (0..ranks)
        .map(|rank| file(dir, &format!("rank-{rank}.json")))
        .collect()
}

#[test]
fn merges_are_exact_in_any_order_and_grouping() {
    let site = served(&["surge", "--files", "80", "--size-max", "50000"]);
    let dir = folder();
    let users = ["--users", "30", "--stagger", "10ms", "--duration", "2s"];
    let parts = ranks(&site, &dir, &users, 3);
    let merge = |files: &[&String], out: &str, code: i32| -> Value {
        let out = file(&dir, out);
        let mut arguments = vec!["load", "merge", "--quiet", "--out", &out];
        arguments.extend(files.iter().map(|file| file.as_str()));
        let output = weir(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        let all = lines(&read(&out));
        conforms("load-result.schema.json", &all);
        last(&out)
    };
    let whole = merge(&parts.iter().collect::<Vec<_>>(), "whole.json", 0);
    assert_eq!(whole["missing"], serde_json::json!([]));
    for name in ["objects", "files", "content_bytes", "connections"] {
        let sum: u64 = parts.iter().map(|part| number(&last(part), name)).sum();
        assert_eq!(number(&whole, name), sum, "{name}");
    }
    assert_eq!(
        number(&whole["response_ms"], "count"),
        number(&whole, "files"),
        "every time is in the histogram of all"
    );
    let backwards: Vec<&String> = parts.iter().rev().chain([&parts[1]]).collect();
    assert_eq!(merge(&backwards, "backwards.json", 0), whole);
    let part = merge(&[&parts[2], &parts[0]], "part.json", 3);
    assert_eq!(part["missing"][0]["rank"], 1);
    assert_eq!(part["missing"][0]["users"], 10);
    assert_eq!(part["missing"][0]["objects"], part["shares"][1]["objects"]);
    let again = merge(&[&file(&dir, "part.json"), &parts[1], &parts[2]], "again.json", 0);
    assert_eq!(again, whole);
    assert_eq!(read(&file(&dir, "again.json")), read(&file(&dir, "whole.json")));

    // What is of another run is refused.
    let other = file(&dir, "other.json");
    load(&[
        &site.url,
        "--site",
        site.path(),
        "--users",
        "31",
        "--duration",
        "1s",
        "--rank",
        "1",
        "--size",
        "3",
        "--out",
        &other,
    ]);
    let error = refused(&["load", "merge", &parts[0], &other], 2);
    assert!(error.contains("not of one run"), "{error}");
    assert!(
        error.contains("rank-0.json` line 1 (rank 0)") && error.contains("other.json` line 1 (rank 1)"),
        "{error}"
    );
    // A part that is written over to be of another rank is not what that rank did.
    let moved = file(&dir, "moved.json");
    let mut part = last(&parts[0]);
    part["rank"] = 1.into();
    fs::write(&moved, part.to_string()).expect("written");
    let error = refused(&["load", "merge", &parts[0], &moved], 2);
    assert!(
        error.contains("moved.json` line 1 (rank 1) was started as rank 0"),
        "{error}"
    );
    let error = refused(
        &[
            "load",
            "merge",
            &site.dir.path().join("manifest.json").to_string_lossy(),
        ],
        2,
    );
    assert!(error.contains("line 1"), "{error}");
}

/// A rank that comes too late for the agreed start does not begin.
#[test]
fn a_late_rank_does_not_begin() {
    let error = refused(
        &[
            "load",
            "http://127.0.0.1:1/",
            "--rank",
            "0",
            "--size",
            "2",
            "--start-at",
            "1000",
        ],
        3,
    );
    assert!(error.contains("late for the agreed start"), "{error}");
}

#[test]
fn a_result_is_a_table_a_log_and_a_page_too() {
    let site = served(&["surge", "--files", "80", "--size-max", "50000"]);
    let dir = folder();
    let names = ["r.json", "r.csv", "r.hdr", "r.html"].map(|name| file(&dir, name));
    let [json, csv, hdr, html] = &names;
    load(&[
        &site.url,
        "--site",
        site.path(),
        "--users",
        "20",
        "--stagger",
        "10ms",
        "--duration",
        "2s",
        "--mode",
        "http10",
        "--out",
        json,
        "--csv",
        csv,
        "--hdr",
        hdr,
        "--html",
        html,
    ]);
    let result = last(json);
    conforms("load-result.schema.json", std::slice::from_ref(&result));
    assert_eq!(result["plan"].as_str().map(str::len), Some(32));
    assert_eq!(
        number(&result["table6"], "total_connects"),
        number(&result, "connections")
    );
    let deciles = result["deciles"].as_array().expect("a list");
    let counted: u64 = deciles
        .iter()
        .map(|decile| number(&decile["object_ms"], "count"))
        .sum();
    assert_eq!(counted, number(&result, "objects"));

    let table = read(csv);
    let mut rows = table.lines();
    let head: Vec<&str> = rows.next().expect("a head").split(',').collect();
    assert_eq!(head[..5], ["second", "begun", "files", "bytes", "errors"]);
    let files: u64 = rows
        .map(|row| {
            let cells: Vec<&str> = row.split(',').collect();
            assert_eq!(cells.len(), head.len(), "{row}");
            cells[2].parse::<u64>().expect("a number")
        })
        .sum();
    // The duration is of whole seconds: their rows have what was complete in time.
    assert_eq!(files, number(&result, "files_in_time"));

    let log = read(hdr);
    assert!(log.starts_with("#[weir"), "{log}");
    for tag in [
        "response",
        "service",
        "object",
        "connect",
        "first-byte",
        "transfer",
        "lag",
        "tick",
    ] {
        let line = log.lines().find(|line| line.starts_with(&format!("Tag={tag},")));
        let written = line
            .and_then(|line| line.rsplit(',').next())
            .unwrap_or_else(|| panic!("{tag}: {log}"));
        assert!(written.starts_with("HISTF"), "{written}");
    }

    let page = read(html);
    assert_eq!(page.matches("<svg").count(), 4);
    assert!(page.contains("prefers-color-scheme:dark") && page.contains("width=device-width"));
    // On a narrow screen nothing of a row of times lies out of sight.
    assert!(page.contains("@media(max-width:40rem){.stack") && page.contains("<td data-of=\"p99.9\">"));
    for fetched in ["src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(fetched), "a page needs no network: {fetched}");
    }
    assert!(!page.contains("NaN"), "{page}");
}

#[test]
fn rates_change_when_they_were_to() {
    let site = served(&["webstone"]);
    let dir = folder();
    let json = file(&dir, "r.json");
    load(&[
        &site.url,
        "--site",
        site.path(),
        "--rate",
        "20,100@1s,0@2s",
        "--arrivals",
        "constant",
        "--duration",
        "3s",
        "--out",
        &json,
    ]);
    let result = last(&json);
    assert_eq!(
        number(&result, "objects_begun"),
        120 + 1,
        "one more at the end of the second"
    );
    assert_eq!(result["schedule"], "20,100@1s,0@2s");
}

#[test]
fn sessions_come_and_go() {
    let site = served(&[
        "surge",
        "--files",
        "80",
        "--size-max",
        "50000",
        "--off-time",
        "constant(0.05)",
    ]);
    let dir = folder();
    let json = file(&dir, "r.json");
    load(&[
        &site.url,
        "--site",
        site.path(),
        "--sessions",
        "20",
        "--duration",
        "3s",
        "--out",
        &json,
    ]);
    let result = last(&json);
    let sessions = result["shares"][0]["users"].as_u64().expect("a number");
    assert!(
        (29..=91).contains(&sessions),
        "four standard deviations about 60: {sessions}"
    );
    // One connection for each session, and a session is over soon.
    assert!(number(&result, "connections") <= sessions, "{sessions}");
    assert_eq!(result["model"], "sessions");
}

#[test]
fn a_log_is_replayed_in_its_own_time() {
    let site = served(&["webstone"]);
    let dir = folder();
    let (log, json) = (file(&dir, "access.log"), file(&dir, "r.json"));
    let line = |second: u32, request: &str| {
        format!("127.0.0.1 - - [10/Oct/2020:13:55:{second} +0000] \"{request} HTTP/1.1\" 200 500\n")
    };
    let text = [
        line(30, "GET /file500.html"),
        line(30, "GET /file500.html"),
        line(34, "GET /file500.html"),
        line(34, "POST /file500.html"),
        "nonsense\n".to_owned(),
    ];
    fs::write(&log, text.concat()).expect("written");
    let run = [
        site.url.as_str(),
        "--replay",
        &log,
        "--duration",
        "3s",
        "--out",
        &json,
        "--json",
        "--lag-max",
        "60s",
    ];
    let output = weir(&[&["load"], &run[..], &["--speed", "2"]].concat());
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stderr).contains("2 lines"));
    let result = last(&json);
    assert_eq!(number(&result, "files"), 3);
    // Four seconds of the log are two at twice its speed.
    let begun = |second: usize| result["record"]["seconds"][second]["begun"].as_u64();
    assert_eq!(
        (begun(0), begun(1), begun(2)),
        (Some(2), Some(0), Some(1)),
        "{result}"
    );
    fs::write(&log, "nonsense\n").expect("written");
    let error = refused(&["load", &site.url, "--replay", &log], 2);
    assert!(error.contains("no line of"), "{error}");
}

/// A server on one thread whose every answer takes so long.
fn slow(each: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let (_nobody, news) = std::sync::mpsc::channel::<()>();
        for mut stream in listener.incoming().flatten() {
            let mut piece = [0; 4096];
            while matches!(stream.read(&mut piece), Ok(1..)) {
                let _ = news.recv_timeout(each);
                if stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
                    .is_err()
                {
                    break;
                }
            }
        }
    });
    format!("http://{address}/")
}

#[test]
fn a_slower_server_is_worse_and_an_equal_one_is_not() {
    let dir = folder();
    let run = |milliseconds: u64, name: &str| -> String {
        let json = file(&dir, name);
        let url = slow(Duration::from_millis(milliseconds));
        load(&[&url, "--clients", "1", "--duration", "8s", "--out", &json]);
        json
    };
    let (a, b) = (run(20, "a.json"), run(40, "b.json"));
    let compared = |a: &str, b: &str, code: i32| -> Value {
        let output = weir(&[
            "compare",
            a,
            b,
            "--json",
            "--pieces",
            "--measure",
            "p50_ms",
            "--measure",
            "files_per_s",
        ]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{said}");
        let first = lines(&said).remove(0);
        conforms("compare-result.schema.json", std::slice::from_ref(&first));
        first
    };
    let worse = compared(&a, &b, 1);
    assert_eq!(worse["worse"], serde_json::json!(["files_per_s", "p50_ms"]));
    let p50 = worse["measures"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|row| row["measure"] == "p50_ms");
    let change = p50.and_then(|row| row["change"].as_f64()).expect("a change");
    assert!((0.3..3.0).contains(&change), "about twice: {change}");
    assert_eq!(worse["unit"], "piece");
    compared(&b, &a, 0);
    let same = compared(&a, &a, 0);
    assert_eq!(same["measures"][0]["change"], 0.0);
    assert_eq!(compared(&a, &b, 1), worse, "the same seed, the same intervals");
    // What a pipeline shows of the comparison fails with it.
    let (junit, markdown) = (file(&dir, "gate.xml"), file(&dir, "gate.md"));
    let two = ["--measure", "p50_ms", "--measure", "files_per_s"];
    let summaries = ["--junit", &junit, "--markdown", &markdown];
    refused(
        &[&["compare", &a, &b, "--pieces"][..], &two, &summaries].concat(),
        1,
    );
    let document = read(&junit);
    for wanted in [
        "tests=\"4\" failures=\"2\" errors=\"0\" skipped=\"0\"",
        "name=\"p50_ms is not worse by more than 5.0 %\">\n      <failure message=\"",
        "name=\"files_per_s is not worse by more than 5.0 %\">\n      <failure message=\"",
    ] {
        assert!(document.contains(wanted), "{wanted} in {document}");
    }
    let summary = read(&markdown);
    for wanted in [
        "## weir compare: 2 failed\n",
        "| p50\\_ms is not worse by more than 5.0 % | **failed** | ",
        "| files\\_per\\_s is not worse by more than 5.0 % | **failed** | ",
    ] {
        assert!(summary.contains(wanted), "{wanted} in {summary}");
    }
    // Pieces that do not decide are no failures.
    printed(&[&["compare", &a, &b][..], &two, &summaries].concat());
    let document = read(&junit);
    for wanted in [
        "tests=\"4\" failures=\"0\" errors=\"0\" skipped=\"3\"",
        " pieces of runs\"/>",
        "; seems worse, but pieces of one run do not decide\"/>",
    ] {
        assert!(document.contains(wanted), "{wanted} in {document}");
    }
    let summary = read(&markdown);
    for wanted in [
        "## weir compare: passed\n",
        "| p50\\_ms is not worse by more than 5.0 % | skipped | ",
    ] {
        assert!(summary.contains(wanted), "{wanted} in {summary}");
    }
    // Single runs decide nothing of their own accord.
    let doubtful = weir(&["compare", &a, &b, "--json"]);
    assert_eq!(doubtful.status.code(), Some(0), "{doubtful:?}");
    let said = lines(&String::from_utf8_lossy(&doubtful.stdout)).remove(0);
    assert_eq!(
        (&said["decisive"], &said["correction"]),
        (&false.into(), &"holm".into())
    );
    let warning = String::from_utf8_lossy(&doubtful.stderr);
    assert!(warning.contains("at least 5 runs each are needed"), "{warning}");
    let words = weir(&["compare", &a, &b]);
    assert!(
        String::from_utf8_lossy(&words.stdout).contains("worse"),
        "{words:?}"
    );

    let error = refused(&["compare", &a, "/nonexistent"], 2);
    assert!(error.contains("/nonexistent"), "{error}");
    let error = refused(&["compare", &a, &b, "--measure", "p98_ms"], 2);
    assert!(error.contains("is not a measure"), "{error}");
}

/// A server that answers at once for the time said after its first request, and then holds every answer until a second time.
/// Over the channel it says that it holds one.
fn stalling(quick: Duration, until: Duration) -> (String, std::sync::mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (holds, held) = std::sync::mpsc::channel();
    let first = std::sync::Arc::new(std::sync::OnceLock::new());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (first, holds) = (std::sync::Arc::clone(&first), holds.clone());
            std::thread::spawn(move || {
                let (_nobody, news) = std::sync::mpsc::channel::<()>();
                let mut piece = [0; 4096];
                while matches!(stream.read(&mut piece), Ok(1..)) {
                    let since = first.get_or_init(std::time::Instant::now).elapsed();
                    if since >= quick && since < until {
                        let _ = holds.send(());
                        let _ = news.recv_timeout(until - since);
                    }
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
                    if stream.write_all(answer).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (format!("http://{address}/"), held)
}

/// Constant arrivals with room for all that a stalled server owes.
const ARRIVING: [&str; 8] = [
    "--rate",
    "20",
    "--arrivals",
    "constant",
    "--connections",
    "100",
    "--lag-max",
    "60s",
];

#[test]
fn a_server_that_stalls_at_the_end_is_compared_with_what_it_owed() {
    let dir = folder();
    let (url, _held) = stalling(Duration::from_secs(3), Duration::from_secs(6));
    let json = file(&dir, "stalled.json");
    let run = ["load", &url, "--duration", "4s", "--grace", "20s", "--out", &json];
    printed(&[&run[..], &ARRIVING, &["--quiet"]].concat());
    let result = last(&json);
    let p99 = result["response_ms"]["p99"].as_f64().expect("a time");
    assert!(p99 > 1500.0, "{p99}");
    assert!(number(&result, "files") > number(&result, "files_in_time"));
    let output = weir(&["compare", &json, &json, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let compared = lines(&String::from_utf8_lossy(&output.stdout)).remove(0);
    conforms("compare-result.schema.json", std::slice::from_ref(&compared));
    for (measure, name) in [
        ("mean_ms", "mean"),
        ("p50_ms", "p50"),
        ("p90_ms", "p90"),
        ("p99_ms", "p99"),
    ] {
        let rows = compared["measures"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["measure"] == measure).expect("a row");
        let (a, shown) = (row["a"].as_f64(), result["response_ms"][name].as_f64());
        let (a, shown) = (a.expect("a number"), shown.expect("a number"));
        assert!((a - shown).abs() < 1e-6 * shown, "{measure}: {a} and {shown}");
    }
    // Four seconds are too few for seven measures, whatever was measured.
    assert_eq!(compared["powerless"], true);
    let said = refused(&["compare", &json, &json, "--pieces"], 2);
    assert!(said.contains("nothing could be called worse here"), "{said}");
    assert!(said.contains("a run of A, too"), "{said}");

    // The same five times is one run.
    let five = file(&dir, "five.json");
    fs::write(&five, read(&json).repeat(5)).expect("written");
    let output = weir(&["compare", &five, &json, "--json"]);
    let compared = lines(&String::from_utf8_lossy(&output.stdout)).remove(0);
    assert_eq!(
        (&compared["runs_a"], &compared["unit"]),
        (&1.into(), &"piece".into())
    );
    let warning = compared["warnings"][0].as_str().expect("a warning");
    assert!(
        warning.contains("five.json") && warning.contains("line 5 is line 1"),
        "{warning}"
    );
}

#[test]
fn what_was_still_under_way_at_the_end_is_said() {
    let dir = folder();
    let (url, held) = stalling(Duration::from_secs(3), Duration::from_secs(60));
    let json = file(&dir, "cut.json");
    let run = [
        "load",
        &url,
        "--duration",
        "4s",
        "--grace",
        "200ms",
        "--out",
        &json,
    ];
    let said = printed(&[&run[..], &ARRIVING].concat());
    assert!(
        said.contains("were still pending at the end of --grace"),
        "{said}"
    );
    conforms("load-result.schema.json", &lines(&read(&json)));
    let error = refused(&["compare", &json, &json], 3);
    assert!(error.contains("were still pending"), "{error}");
    drop(held);

    // Stopped within the grace, with something left to wait for.
    let (url, held) = stalling(Duration::from_millis(200), Duration::from_secs(60));
    let json = file(&dir, "stopped.json");
    let load = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args([
            "load",
            &url,
            "--duration",
            "1s",
            "--grace",
            "50s",
            "--out",
            &json,
            "--quiet",
        ])
        .args(ARRIVING)
        .stderr(Stdio::piped())
        .spawn()
        .expect("a load");
    held.recv_timeout(Duration::from_secs(60))
        .expect("an answer is held");
    // Until nothing more is asked for, which is so when the second is over.
    while held.recv_timeout(Duration::from_secs(1)).is_ok() {}
    let stopped = Command::new("kill")
        .args(["-TERM", &load.id().to_string()])
        .status();
    assert!(stopped.expect("a signal").success());
    let output = load.wait_with_output().expect("an end");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.contains("objects were still pending"), "{errors}");
    assert_eq!(last(&json)["verdict"]["valid"], false);
}

#[test]
fn the_highest_rate_that_meets_an_objective_is_found() {
    let url = slow(Duration::from_millis(10));
    let base = [
        "load",
        &url,
        "--rate",
        "20",
        "--arrivals",
        "constant",
        "--connections",
        "1",
        "--threads",
        "1",
    ];
    let search = [
        "--duration",
        "1s",
        "--grace",
        "1s",
        "--lag-max",
        "60s",
        "--json",
        "--failures-max",
        "1",
    ];
    let said = printed(&[&base[..], &search, &["--slo", "p50<100ms"]].concat());
    let found = lines(&said).pop().expect("an end");
    assert_eq!(found["event"], "search");
    // It answers a hundred a second at best; at twice that, half of a second's arrivals wait for long. Of so few arrivals one that
    // a busy machine delays to the end is more than the share that may be missed, so that lower loads are tried, too.
    let load = found["load"].as_f64().expect("a load");
    assert!((1.0..160.0).contains(&load), "{said}");
    let output = weir(&[&base[..], &search, &["--slo", "p50<1ms"]].concat());
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

/// A log of a plan says what the plan was drawn from.
#[test]
fn a_log_tells_the_habits_of_those_who_wrote_it() {
    let dir = folder();
    let log = file(&dir, "access.jsonl");
    let plan = printed(&[
        "load",
        "plan",
        "--users",
        "60",
        "--duration",
        "1000s",
        "--nominal",
        "1ms",
    ]);
    let (mut text, mut at) = (String::new(), 0);
    for request in lines(&plan) {
        at = request["intended_ns"].as_u64().unwrap_or(at + 1_000_000);
        text += &format!(
            "10.0.0.{} - - [10/Oct/2020:{:02}:{:02}:{:02} +0000] \"GET {} HTTP/1.1\" 200 {}\n",
            request["user"],
            13 + at / 3_600_000_000_000,
            at / 60_000_000_000 % 60,
            at / 1_000_000_000 % 60,
            request["path"].as_str().expect("a path"),
            request["size"]
        );
    }
    text += "10.0.0.1 - - [10/Oct/2020:13:00:00 +0000] \"POST / HTTP/1.1\" 200 5\n";
    fs::write(&log, text).expect("written");
    let found = lines(&printed(&["load", "fit", &log, "--json"])).remove(0);
    conforms("load-fit.schema.json", std::slice::from_ref(&found));
    assert_eq!(number(&found, "passed_over"), 1);
    assert_eq!(found["whole_seconds"], true);
    assert_eq!(number(&found["estimates"], "clients"), 60);
    let exponent = found["estimates"]["zipf_exponent"]
        .as_f64()
        .expect("enough files");
    assert!((0.6..1.4).contains(&exponent), "{exponent}");
    let words = printed(&["load", "fit", &log]);
    for fragment in [
        "--zipf-exponent",
        "--shares",
        "--off-time '",
        "--request-size '",
        "whole seconds only",
        "cannot be estimated from this log: its times are whole seconds",
        "cannot be estimated from this log: 0 of ",
    ] {
        assert!(words.contains(fragment), "{fragment}: {words}");
    }
    assert!(
        !words.contains("-0.0") && !words.contains("--session-length"),
        "{words}"
    );
    // What is printed is what `weir site surge` takes, all of it together.
    let streams = found["estimates"]["streams"].as_array().expect("a list");
    let mut arguments: Vec<String> = ["load", "plan", "--duration", "5s", "--summary"]
        .map(str::to_owned)
        .into();
    for stream in streams.iter().filter(|stream| stream["flag"].is_string()) {
        let flag = stream["flag"].as_str().expect("a name");
        let model = stream["candidates"][0]["model"].as_str().expect("a model");
        arguments.extend([format!("--{flag}"), model.to_owned()]);
    }
    assert!(arguments.len() >= 5 + 2 * 6, "{arguments:?}");
    printed(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    fs::write(&log, "").expect("written");
    assert!(refused(&["load", "fit", &log], 2).contains("is empty"));
}

/// What is no access log is not looked at for ever, and said to be none; one of several hosts says which.
#[test]
fn what_is_no_log_of_one_host_is_refused() {
    let dir = folder();
    let log = file(&dir, "access.log");
    let line = |front: &str, request: &str| {
        format!("{front}10.0.0.1 - - [10/Oct/2020:13:00:00 +0000] \"{request} HTTP/1.1\" 200 5 \"-\" \"x\"\n")
    };
    let fit = ["load", "fit", &log];
    let replay = ["load", "http://127.0.0.1:9/", "--replay", &log];
    for (text, said) in [
        ("#Version: 1.0\n#Fields: date time\n".to_owned(), "no line of"),
        (line("", "POST /"), "no GET of a path"),
        (
            line("a.example:80 ", "GET /") + &line("b.example:80 ", "GET /"),
            "several virtual hosts, such as a.example:80 and b.example:80",
        ),
    ] {
        fs::write(&log, text).expect("written");
        for command in [&fit[..], &replay] {
            let error = refused(command, 2);
            assert!(error.contains(said) && error.contains("access.log"), "{error}");
        }
    }
    fs::write(&log, line("a.example:80 ", "GET /").repeat(3)).expect("written");
    let found = lines(&printed(&["load", "fit", &log, "--json"])).remove(0);
    assert_eq!(number(&found["estimates"], "requests"), 3);
    for (none, said) in [
        ("/dev/zero", "has no end"),
        ("/dev/urandom", "first 100000 lines"),
        ("/", "directory"),
        ("/no-such-log", "No such file"),
    ] {
        let error = refused(&["load", "fit", none], 2);
        assert!(error.contains(said), "{error}");
    }
}

/// A full disk is the system's fault and said so; whoever reads no more has read enough.
#[test]
fn what_nobody_can_read_is_told_from_what_nobody_wants_to() {
    let dir = folder();
    let json = file(&dir, "a.json");
    let served = served(&["webstone"]);
    let run = [
        "load",
        &served.url,
        "--site",
        served.path(),
        "--clients",
        "1",
        "--duration",
        "300ms",
        "--lag-max",
        "10s",
    ];
    // Of so many seconds that two of it can be compared.
    let long = run.map(|word| if word == "300ms" { "4s" } else { word });
    let _ = weir(&[&long[..], &["--out", &json]].concat());
    let site = file(&dir, "site");
    let log = file(&dir, "access.log");
    let lines = "127.0.0.1 - - [21/Nov/2026:10:00:00 +0000] \"GET /a.html HTTP/1.1\" 200 10\n";
    std::fs::write(&log, lines).expect("written");
    for arguments in [
        &run[..],
        // The first trial misses it, and there is none with fewer.
        &[&run[..], &["--slo", "max<1us"]].concat(),
        &["load", "merge", &json],
        &["load", "fit", &log],
        &["compare", &json, &json],
        &["site", "surge", &site, "--files", "20", "--force"],
    ] {
        for flags in [&[][..], &["--json"]] {
            let arguments = [arguments, flags].concat();
            let full = std::fs::File::create("/dev/full").expect("a device that is full");
            let (reader, pipe) = std::io::pipe().expect("a pipe");
            drop(reader);
            for (output, is_full) in [(std::process::Stdio::from(full), true), (pipe.into(), false)] {
                let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
                let ended = command
                    .args(&arguments)
                    .stdout(output)
                    .output()
                    .expect("the binary starts");
                let errors = String::from_utf8_lossy(&ended.stderr);
                assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
                let code = ended.status.code();
                if is_full {
                    assert_eq!(code, Some(4), "{arguments:?}: {errors}");
                    assert!(
                        errors.contains("cannot write to standard output"),
                        "{arguments:?}: {errors}"
                    );
                } else {
                    assert!(
                        matches!(code, Some(0 | 1 | 3)),
                        "{arguments:?}: {code:?} {errors}"
                    );
                }
            }
        }
    }
}
