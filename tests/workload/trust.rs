//! What makes a run's figures untrue although most of its requests were quick: a server that dies, stands still or leaves some
//! unanswered, clients that wait for it, and a client that stands still itself.
//!
//! The machine these run on may be busy: how late alarms rang decides nothing here but where it is the matter.

use crate::workload::{conforms, lines, printed, refused, result, weir};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENT: [&str; 3] = ["--json", "--lag-max", "60s"];
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

fn load(arguments: &[&str], code: i32) -> (Value, String) {
    result(&[&["load"], arguments, &PATIENT].concat(), code)
}

/// What a server does with its n-th request, so long after the first.
enum Deed {
    Answer,
    /// It waits for so long, and answers.
    Wait(Duration),
    /// It keeps the connection open and says no more.
    Ignore,
    /// It is gone, with all its connections.
    Die,
}

/// A server that does so.
fn serving(deed: impl Fn(u64, Duration) -> Deed + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let deed = Arc::new(deed);
    let (asked, first) = (Arc::new(AtomicU64::new(0)), Arc::new(OnceLock::new()));
    let (dies, dead) = channel::<()>();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever comes first after its death is the last.
            if dead.try_recv().is_ok() {
                return;
            }
            let (deed, asked, first, dies) = (
                Arc::clone(&deed),
                Arc::clone(&asked),
                Arc::clone(&first),
                dies.clone(),
            );
            std::thread::spawn(move || {
                let next = || {
                    let since = first.get_or_init(Instant::now).elapsed();
                    deed(asked.fetch_add(1, Ordering::Relaxed) + 1, since)
                };
                if serve(stream, next) {
                    // Nobody is left to hear it twice.
                    let _ = dies.send(());
                }
            });
        }
    });
    format!("http://{address}/")
}

/// Whether it died.
fn serve(mut stream: TcpStream, next: impl Fn() -> Deed) -> bool {
    let (_nobody, news) = channel::<()>();
    let mut piece = [0; 4096];
    while matches!(stream.read(&mut piece), Ok(1..)) {
        match next() {
            Deed::Answer => {}
            Deed::Wait(time) => {
                let _ = news.recv_timeout(time);
            }
            Deed::Ignore => {
                while matches!(stream.read(&mut piece), Ok(1..)) {}
                return false;
            }
            Deed::Die => return true,
        }
        if stream.write_all(ANSWER).is_err() {
            return false;
        }
    }
    false
}

/// A server that answers but between these instants, when it waits for the second.
fn pausing(from_ms: u64, until_ms: u64) -> String {
    let (from, until) = (Duration::from_millis(from_ms), Duration::from_millis(until_ms));
    serving(move |_, since| {
        if since >= from && since < until {
            Deed::Wait(until - since)
        } else {
            Deed::Answer
        }
    })
}

/// One request in forty is never answered.
fn forgetting() -> String {
    serving(|number, _| {
        if number % 40 == 0 {
            Deed::Ignore
        } else {
            Deed::Answer
        }
    })
}

fn time(times: &Value, name: &str) -> f64 {
    times[name].as_f64().unwrap_or_else(|| panic!("{name}: {times}"))
}

#[test]
fn a_server_that_dies_makes_a_run_invalid() {
    let url = serving(|_, since| {
        if since < Duration::from_millis(1200) {
            Deed::Answer
        } else {
            Deed::Die
        }
    });
    // What failed is far less than is allowed.
    let (result, why) = load(
        &[
            &url,
            "--clients",
            "4",
            "--duration",
            "4s",
            "--failures-max",
            "100%",
        ],
        3,
    );
    assert!(
        why.contains("to 4.00 s, no file completed and")
            && why.contains("the server was down for part of the run"),
        "{why}"
    );
    let seconds = result["record"]["seconds"].as_array().expect("a list");
    assert!(
        seconds[3]["failed"].as_u64() > Some(0) && seconds[3]["files"] == 0,
        "{result}"
    );
}

#[test]
fn a_server_that_stands_still_makes_a_run_invalid() {
    // Until after the run, so that nothing fails, and with a rest in which much is answered.
    let run = ["--clients", "4", "--duration", "5s", "--grace", "20s"];
    let (result, why) = load(&[&[pausing(1500, 6000).as_str()], &run[..]].concat(), 3);
    assert!(
        why.contains("to 5.00 s, no file completed although requests were pending")
            && why.contains("--stall-max"),
        "{why}"
    );
    assert_eq!(
        (&result["files_failed"], &result["unfinished"]),
        (&json!(0), &json!(0))
    );
    // So it is in the middle, and if arrivals do not wait for it.
    let arriving = ["--rate", "100", "--duration", "5s", "--grace", "20s"];
    let (_, why) = load(&[&[pausing(1000, 3500).as_str()], &arriving[..]].concat(), 3);
    assert!(why.contains("no file completed although"), "{why}");
    // Whoever expects that says so, and a short pause is one of the things that are measured.
    let expected = ["--stall-max", "10s"];
    load(
        &[&[pausing(1500, 6000).as_str()], &run[..], &expected].concat(),
        0,
    );
    load(&[&[pausing(1500, 2200).as_str()], &run[..]].concat(), 0);
}

#[test]
fn what_waiting_clients_did_not_ask_is_in_the_corrected_times() {
    let dir = TempDir::new().expect("a folder");
    let name = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (csv, html, out) = (name("r.csv"), name("r.html"), name("r.json"));
    let run = ["--clients", "2", "--duration", "5s"];
    let files = ["--csv", &csv, "--html", &html, "--out", &out];
    let (result, _) = load(&[&[pausing(2000, 2800).as_str()], &run[..], &files].concat(), 0);
    let (raw, corrected) = (&result["response_ms"], &result["corrected_ms"]);
    // A sixth of the time is a sixth of what should have been asked, and two of thousands of requests.
    assert!(time(raw, "p99") < 200.0, "{raw}");
    assert!(
        time(corrected, "p99") > 500.0 && time(corrected, "p99") < 900.0,
        "{corrected}"
    );
    assert!((time(corrected, "max") / time(raw, "max") - 1.0).abs() < 0.01);
    let interval = time(&result, "expected_interval_ms");
    let wanted = 5000.0 * 2.0 / time(&result, "files_in_time");
    assert!((interval / wanted - 1.0).abs() < 0.001, "{interval} {wanted}");
    let table = std::fs::read_to_string(&csv).expect("a table");
    let head: Vec<&str> = table.lines().next().expect("a head").split(',').collect();
    let column = head
        .iter()
        .position(|name| *name == "corrected_p99_ms")
        .expect("a column");
    let late = table
        .lines()
        .skip(1)
        .filter_map(|row| row.split(',').nth(column)?.parse::<f64>().ok());
    assert!(late.fold(0.0, f64::max) > 500.0, "{table}");
    let page = std::fs::read_to_string(&html).expect("a page");
    for shown in [
        "<td>corrected",
        "p99 corrected",
        "closed loop: each user waits",
        "response, corrected for requests not sent",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
    let words = printed(&[
        "load",
        &pausing(0, 0),
        "--clients",
        "2",
        "--duration",
        "1s",
        "--lag-max",
        "60s",
    ]);
    assert!(
        words.contains("  corrected ") && words.contains("closed loop: each user waits for a response"),
        "{words}"
    );
    // Merged, it is the same.
    let merged = lines(&printed(&["load", "merge", &out, "--json"])).remove(0);
    conforms("load-result.schema.json", std::slice::from_ref(&merged));
    assert_eq!(merged["corrected_ms"], result["corrected_ms"]);
    // Arrivals wait for nobody, and nothing is left out of their times.
    let (result, _) = load(&[&pausing(0, 0), "--rate", "50", "--duration", "1s"], 0);
    assert_eq!(
        (&result["corrected_ms"], &result["expected_interval_ms"]),
        (&json!(null), &json!(null))
    );
}

#[test]
fn what_failed_is_in_the_quantiles() {
    let dir = TempDir::new().expect("a folder");
    let name = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (good, bad, csv) = (name("good.json"), name("bad.json"), name("bad.csv"));
    let run = [
        "--rate",
        "100",
        "--arrivals",
        "constant",
        "--duration",
        "4s",
        "--timeout",
        "900ms",
        "--failures-max",
        "5%",
    ];
    let (result, _) = load(
        &[
            &[forgetting().as_str()],
            &run[..],
            &["--out", &bad, "--csv", &csv],
        ]
        .concat(),
        0,
    );
    let response = &result["response_ms"];
    assert_eq!(
        (&response["failed"], &response["count"]),
        (&json!(10), &json!(390))
    );
    for times in [
        "response_ms",
        "service_ms",
        "object_ms",
        "first_byte_ms",
        "transfer_ms",
    ] {
        let times = &result[times];
        assert_eq!(
            (&times["p99"], &times["p999"], &times["max"]),
            (&json!(null), &json!(null), &json!(null)),
            "{times}"
        );
        assert!(times["p90"].is_number(), "{times}");
    }
    assert!(time(&result["answered_ms"], "p99") < 900.0, "{result}");
    // Ten of four hundred took 900 ms or more.
    assert!(time(response, "mean") > 22.4, "{response}");
    let table = std::fs::read_to_string(&csv).expect("a table");
    let head: Vec<&str> = table.lines().next().expect("a head").split(',').collect();
    let column = |name: &str| head.iter().position(|known| *known == name).expect("a column");
    let (failed, most) = (column("failed"), column("response_max_ms"));
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(1)
        .map(|row| row.split(',').collect())
        .collect();
    assert!(rows.iter().any(|row| row[failed] != "0"), "{table}");
    assert!(
        rows.iter()
            .all(|row| (row[failed] == "0") != row[most].is_empty()),
        "{table}"
    );

    // No objective is kept by a request that failed, however late it may be.
    let url = forgetting();
    let short = [
        "--rate",
        "200",
        "--arrivals",
        "constant",
        "--duration",
        "1s",
        "--timeout",
        "300ms",
        "--failures-max",
        "10%",
    ];
    let output = weir(&[&["load", &url], &short[..], &["--slo", "p99<1h"], &PATIENT].concat());
    let said = lines(&String::from_utf8_lossy(&output.stdout));
    let found = said
        .iter()
        .find(|line| line["event"] == "search")
        .expect("an end");
    conforms("load-search.schema.json", std::slice::from_ref(found));
    let trials = found["trials"].as_array().expect("a list");
    // So few requests that none of them is the fortieth may all be answered: too few to tell.
    for trial in trials {
        let failed = time(trial, "failed") / time(trial, "requests") > 0.01;
        let told = time(trial, "requests") >= 100.0;
        assert_eq!(
            (trial["response_ms"].is_null(), &trial["met"]),
            (failed, &json!(!failed && told)),
            "{trial}"
        );
        assert_eq!(trial["valid"], json!(failed || told), "{trial}");
    }
    assert_eq!(
        (&trials[0]["met"], &trials[0]["valid"]),
        (&json!(false), &json!(true)),
        "{found}"
    );

    // Nor is a server that leaves its requests unanswered as quick as one that answers them.
    load(
        &[&[pausing(0, 0).as_str()], &run[..], &["--out", &good]].concat(),
        0,
    );
    let compared = [
        "compare",
        &good,
        &bad,
        "--pieces",
        "--measure",
        "p99_ms",
        "--worse",
        "5%",
    ];
    let compared = weir(&[&compared[..], &["--json", "--confidence", "90%"]].concat());
    let rows = lines(&String::from_utf8_lossy(&compared.stdout)).remove(0);
    let rows = rows["measures"].as_array().expect("a list").clone();
    let p99 = rows.iter().find(|row| row["measure"] == "p99_ms").expect("a row");
    assert!(time(p99, "b") >= 900.0 && time(p99, "a") < 900.0, "{p99}");
}

/// The p99 knows nothing of it, and the p99.9 is nothing else.
#[test]
fn a_client_that_was_stopped_shortly_is_said_to_own_what_it_owns() {
    let (told, asked) = channel();
    let told = std::sync::Mutex::new(told);
    let url = serving(move |number, _| {
        if number == 100 {
            let _ = told.lock().expect("nobody panicked with it").send(());
        }
        Deed::Answer
    });
    let client = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args([
            "--json",
            "load",
            &url,
            "--rate",
            "200",
            "--duration",
            "6s",
            "--threads",
            "1",
            "--lag-max",
            "40ms",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let tell = |signal: &str| {
        let sent = Command::new("kill")
            .args([signal, &client.id().to_string()])
            .status();
        assert!(sent.expect("a kill").success());
    };
    asked.recv_timeout(Duration::from_secs(60)).expect("it asks");
    tell("-STOP");
    // The clock of a stopped program is the machine's: nothing else makes it late.
    let (_nobody, news) = channel::<()>();
    let _ = news.recv_timeout(Duration::from_millis(90));
    tell("-CONT");
    let ended = client.wait_with_output().expect("its end");
    let result = &lines(&String::from_utf8_lossy(&ended.stdout))[0];
    let warnings = result["verdict"]["warnings"].to_string();
    assert!(
        warnings.contains("p99.9 and max may be this client's own delay"),
        "{result}"
    );
}

#[test]
fn a_run_without_a_tick_is_too_short() {
    let error = refused(
        &[
            "load",
            &pausing(0, 0),
            "--clients",
            "2",
            "--duration",
            "1ms",
            "--lag-max",
            "60s",
            "--quiet",
        ],
        3,
    );
    assert!(
        error.contains("no tick (one every 10 ms) was due; use a longer --duration"),
        "{error}"
    );
}
