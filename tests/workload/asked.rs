//! That a run does what it was asked and says what that came to: who began, what a warm-up left out, how many arrivals chance
//! drew, when a log was through; and that nothing asked is passed over in silence.

use crate::fixture::served;
use crate::workload::{conforms, lines, printed, refused, weir};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Lag is not the matter here, and this machine may be busy.
const PATIENT: [&str; 2] = ["--lag-max", "60s"];
/// Nobody answers there, and what is refused before a run never asks.
const NOWHERE: &str = "http://localhost:1/";

fn folder() -> TempDir {
    TempDir::new().expect("a folder")
}

fn file(dir: &TempDir, name: &str) -> String {
    dir.path().join(name).to_str().expect("text").to_owned()
}

/// The result of a valid run.
fn result(arguments: &[&str]) -> Value {
    let said = printed(&[&["load"], arguments, &PATIENT, &["--json"]].concat());
    let result = lines(&said).remove(0);
    conforms("load-result.schema.json", std::slice::from_ref(&result));
    result
}

fn number(result: &Value, name: &str) -> u64 {
    result[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {result}"))
}

/// More users than begin in time are refused if the time between them was given, and come sooner if it was not.
#[test]
fn all_users_begin_or_are_refused() {
    let site = served(&["surge", "--files", "80", "--size-max", "50000"]);
    let users = ["--site", site.path(), "--users", "300"];
    let slow = ["--stagger", "50ms", "--duration", "3s"];
    for command in [&["load", NOWHERE][..], &["load", "plan"]] {
        let error = refused(&[command, &users, &slow].concat(), 2);
        assert!(
            error.contains("--stagger 50ms, only 60 of 300 users begin before the end, after 3s; omit --stagger, make it shorter"),
            "{error}"
        );
    }
    // The very last of them begins before the end.
    let fits = ["--stagger", "10ms", "--duration", "2991ms"];
    printed(&[&["load", "plan"], &users[..], &fits].concat());
    let short = ["--duration", "1500ms", "--mode", "early-close"];
    let run = [&[site.url.as_str()], &users[..], &short].concat();
    let result = result(&run);
    assert_eq!(number(&result, "users_begun"), 300);
    let stagger = result["stagger_s"].as_f64().expect("a time");
    assert!((stagger - 0.5 / 300.0).abs() < 1e-8, "{stagger}");
    let last = result["last_user_begun_s"].as_f64().expect("a time");
    assert!(last >= 299.0 * stagger - 1e-6, "{last}");
    let words = printed(&[&["load"], &run[..], &PATIENT].concat());
    assert!(
        words.contains("300 users began, 1.667 ms apart, the last "),
        "{words}"
    );
    assert!(words.contains(" files completed in that time ("), "{words}");
    // With a warm-up they begin within it; and never further apart than the original's.
    for (more, wanted) in [
        (&["--duration", "1s", "--warmup", "600ms"][..], 0.002),
        (&["--duration", "46s"], 0.05),
    ] {
        let second = lines(&printed(&[&["load", "plan"], &users[..], more].concat()))
            .into_iter()
            .find(|request| request["user"] == 1)
            .expect("a second user");
        let at = second["intended_ns"].as_u64().expect("an instant") as f64 / 1e9;
        assert!((at - wanted).abs() < 1e-9, "{more:?}: {at}");
    }
}

#[test]
fn a_warm_up_is_left_out_and_counted() {
    let site = served(&["webstone"]);
    let dir = folder();
    let rate = [
        "--site",
        site.path(),
        "--rate",
        "100",
        "--arrivals",
        "constant",
        "--seed",
        "4",
    ];
    let long = ["--warmup", "500ms", "--duration", "1s"];
    let what = [&rate[..], &long].concat();
    let result = result(&[&[site.url.as_str()], &what[..]].concat());
    assert_eq!(number(&result, "objects_begun"), 100);
    assert_eq!(number(&result["left_out"], "objects_begun"), 50);
    assert_eq!(
        number(&result, "files") + number(&result["left_out"], "files"),
        150
    );
    assert_eq!(
        number(&result["response_ms"], "count"),
        number(&result, "files"),
        "no time of the warm-up is among them"
    );
    assert_eq!(
        (
            &result["duration_s"],
            &result["warmup_s"],
            &result["arrivals_drawn"]
        ),
        (&json!(1.0), &json!(0.5), &json!(100))
    );
    assert_eq!(
        (&result["rate_asked"], &result["rate_drawn"]),
        (&json!(100.0), &json!(100.0))
    );
    // The plan is of the whole, and another plan than one without a warm-up.
    let planned = lines(&printed(&[&["load", "plan"], &what[..]].concat()));
    let begun = planned
        .iter()
        .filter(|request| request["intended_ns"].is_u64())
        .count();
    assert_eq!(begun, 150);
    let words = printed(&[&["load", &site.url], &what[..], &PATIENT].concat());
    assert!(
        words.contains("excluded: the warm-up of 0.5 s, with 50 objects begun"),
        "{words}"
    );
    let log = file(&dir, "log");
    fs::write(
        &log,
        "h - - [10/Oct/2020:13:55:30 +0000] \"GET / HTTP/1.1\" 200 5\n",
    )
    .expect("written");
    let error = refused(&["load", NOWHERE, "--replay", &log, "--warmup", "1s"], 2);
    assert!(error.contains("cannot be used with"), "{error}");
}

/// The rate that was asked for stands beside what chance made of it.
#[test]
fn what_was_asked_is_told_from_what_was_drawn() {
    let site = served(&["webstone"]);
    let result = result(&[
        &site.url,
        "--site",
        site.path(),
        "--rate",
        "60",
        "--duration",
        "1s",
        "--seed",
        "7",
    ]);
    assert_eq!(result["rate_asked"], 60.0);
    let drawn = number(&result, "arrivals_drawn");
    assert_ne!(drawn, 60, "or this seed says nothing");
    assert_eq!(result["rate_drawn"].as_f64(), Some(drawn as f64));
    assert_eq!(number(&result, "objects_begun"), drawn);
    let in_time = number(&result, "files_in_time");
    assert_eq!(result["files_per_s"].as_f64(), Some(in_time as f64));
    assert!(in_time <= number(&result, "files"));
}

/// A replay ends with its log, and its rates are of the time in which that asks.
#[test]
fn a_replay_ends_with_its_log() {
    let site = served(&["webstone"]);
    let dir = folder();
    let log = file(&dir, "log");
    let line =
        |second| format!("h - - [10/Oct/2020:13:55:{second} +0000] \"GET /file500.html HTTP/1.1\" 200 500\n");
    fs::write(&log, [line(30), line(30), line(31)].concat()).expect("written");
    let began = std::time::Instant::now();
    let result = result(&[&site.url, "--replay", &log, "--speed", "4", "--duration", "5m"]);
    assert!(began.elapsed().as_secs() < 60, "it did not wait for --duration");
    assert_eq!(result["duration_s"], 0.5);
    assert_eq!(
        (number(&result, "files"), number(&result, "arrivals_drawn")),
        (3, 3)
    );
    assert_eq!(result["rate_asked"], 6.0);
}

/// A flag that would do nothing is an error, or, where that depends on the site, a warning.
#[test]
fn no_flag_is_passed_over() {
    let dir = folder();
    let surge = file(&dir, "surge");
    printed(&["site", "surge", &surge, "--files", "30"]);
    let (out, same) = (file(&dir, "out"), format!("{}/./out", dir.path().display()));
    for (arguments, fragment) in [
        (&["--speed", "2"][..], "`--speed` needs"),
        (&["--clients", "3", "--stagger", "10ms"], "`--stagger` needs"),
        (&["--rate", "3", "--stagger", "10ms"], "`--stagger` needs"),
        (
            &["--sessions", "3", "--site", &surge, "--stagger", "10ms"],
            "`--stagger` needs",
        ),
        (&["--out", &out, "--csv", &same], "`--out` and `--csv` both name"),
        (&["--html", &out, "--hdr", &out], "`--html` and `--hdr` both name"),
        (&["--failures-max", "101%"], "is out of range"),
        (&["--slo", "p99<5"], "has no unit; write p99<5ms"),
        (
            &["--rate", "75", "--slo", "p999<50ms"],
            "75 requests are too few for p999, which needs 1000 or more: use --duration 15s",
        ),
        (&["--clients", "0"], "`--clients` is 0; it must be 1 to"),
        (
            &["--clients", "4000000", "--slo", "p99<1s"],
            "more than a search can test",
        ),
    ] {
        let error = refused(&[&["load", NOWHERE, "--duration", "1s"], arguments].concat(), 2);
        assert!(error.contains(fragment), "{arguments:?}: {error}");
    }
    // A plan refuses what a run does, and what would not be planned.
    let below = format!("{NOWHERE}base/");
    let (urls, log) = (file(&dir, "urls"), file(&dir, "log"));
    fs::write(&urls, "/a\n").expect("written");
    fs::write(
        &log,
        "h - - [10/Oct/2020:13:55:30 +0000] \"GET / HTTP/1.1\" 200 5\n",
    )
    .expect("written");
    for command in [&["load"][..], &["load", "plan"]] {
        for (flag, what) in [("--urls", &urls), ("--replay", &log)] {
            let error = refused(&[command, &[&below, flag, what]].concat(), 2);
            let said = format!("`{flag}` gives full paths, so `/base/` of the URL would not be requested");
            assert!(error.contains(&said), "{error}");
        }
    }
    let planned = printed(&["load", "plan", NOWHERE, "--urls", &urls, "--duration", "100ms"]);
    assert!(planned.lines().count() > 1);
    let ended = weir(&["load", "plan", "--users", "4", "--slo", "p99<1s"]);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        ended.status.success() && said.contains("this is the plan of the first trial"),
        "{said}"
    );
    assert!(!Path::new(&out).exists());
    let site = served(&["webstone"]);
    let clients = ["--clients", "1", "--duration", "200ms", "--failures-max", "50%"];
    let run = [
        &["load", &site.url, "--site", site.path()],
        &clients[..],
        &PATIENT,
    ]
    .concat();
    let ended = weir(&[&run[..], &["--connections-per-user", "2"]].concat());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && said.contains("has no effect"), "{said}");
    let ended = weir(&run);
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    // No more digits than a histogram keeps, all ten deciles, and a p99 that is seen on the longest.
    let (csv, html) = (file(&dir, "csv"), file(&dir, "html"));
    let users = ["--users", "10", "--duration", "1s", "--site", &surge];
    let served = served(&["surge", "--files", "30"]);
    let result = result(
        &[
            &[served.url.as_str()],
            &users[..],
            &["--csv", &csv, "--html", &html],
        ]
        .concat(),
    );
    assert_eq!(result["deciles"].as_array().map(Vec::len), Some(10));
    let table = fs::read_to_string(&csv).expect("a table");
    for cell in table.lines().skip(1).flat_map(|line| line.split(',')) {
        let digits = cell.split_once('.').map_or(0, |(_, digits)| digits.len());
        assert!(digits <= 4, "{cell}");
    }
    let page = fs::read_to_string(&html).expect("a page");
    let plot = page
        .split("</figure>")
        .find(|plot| plot.contains("Response time by second"));
    let at = |line: &str| plot.and_then(|plot| plot.find(line)).expect(line);
    assert!(
        at("line c under") < at("line b"),
        "the p99 is drawn on the longest"
    );
}

/// A search that meets a bound says so, and writes down everything it tried.
#[test]
fn a_search_says_what_stopped_it() {
    let site = served(&["surge", "--files", "60", "--size-max", "50000"]);
    let dir = folder();
    let out = file(&dir, "search.json");
    let users = [
        "--site",
        site.path(),
        "--users",
        "10",
        "--mode",
        "early-close",
        "--duration",
        "600ms",
    ];
    let search = ["--stagger", "20ms", "--slo", "p50<1h", "--out", &out];
    let run = [&["load", &site.url], &users[..], &search, &PATIENT].concat();
    let said = printed(&[&run[..], &["--json"]].concat());
    let mut said = lines(&said);
    let found = said.pop().expect("an end");
    conforms("load-search.schema.json", std::slice::from_ref(&found));
    assert_eq!(
        (
            &found["load"],
            &found["unit"],
            &found["stop"],
            &found["limit_found"]
        ),
        (&json!(30.0), &json!("users"), &json!("cap"), &json!(false))
    );
    let why = found["said"].as_str().expect("a sentence");
    assert!(
        why.starts_with(
            "30 users meet p50 < 3600 s; the limit was not found: with --stagger 20ms, no more begin"
        ),
        "{why}"
    );
    let loads = |rows: &[Value]| rows.iter().map(|row| row["load"].clone()).collect::<Vec<_>>();
    let trials = found["trials"].as_array().expect("trials");
    assert_eq!(loads(trials), [10.0, 20.0, 30.0]);
    assert_eq!(loads(&said), loads(trials), "each was told when it was over");
    // The result of the best one, and then what was found; whoever reads results reads the first.
    let written = lines(&fs::read_to_string(&out).expect("results"));
    assert_eq!(written.len(), 2);
    conforms("load-result.schema.json", &written[..1]);
    assert_eq!((number(&written[0], "users_begun"), &written[1]), (30, &found));
    printed(&["load", "merge", "--quiet", &out]);
    let words = printed(&run);
    assert!(
        words.contains("30 users: p50 ") && words.ends_with(&format!("{why}\n")),
        "{words}"
    );
    // What nothing meets.
    let missed = [
        &run[..run.len() - PATIENT.len() - 4],
        &["--slo", "max<1us"],
        &PATIENT,
    ]
    .concat();
    let error = refused(&missed, 1);
    assert!(error.contains("meets max < 1 us: with 1 user, max is"), "{error}");
}
