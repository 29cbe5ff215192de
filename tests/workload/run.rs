//! What `weir load URL` does to a server and says of it: connections by protocol mode, bodies held against
//! the manifest, runs that cannot be trusted.
//!
//! The machine these run on may be busy: how late alarms rang decides nothing here but where it is the matter.

use crate::fixture::{Refusing, served};
use crate::workload::answers::{answering, reply};
use crate::workload::{conforms, lines, printed, weir};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PATIENT: [&str; 3] = ["--json", "--lag-max", "60s"];

/// The result of a run that ended with this code.
fn result(arguments: &[&str], code: i32) -> (Value, String) {
    crate::workload::result(&[&["load"], arguments, &PATIENT].concat(), code)
}

fn number(result: &Value, name: &str) -> u64 {
    result[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {result}"))
}

/// Claim bc-11, over real connections: F x N, N or 1 for N objects of F files.
#[test]
fn modes_open_the_connections_the_document_says_and_ask_for_the_same() {
    let site = served(&["surge", "--files", "150", "--size-max", "100000"]);
    let users = ["--users", "20", "--duration", "3s", "--stagger", "10ms"];
    let plan = ["load", "plan", "--site", site.path(), "--summary", "--json"];
    let planned = &lines(&printed(&[&plan[..], &users].concat()))[0];
    for mode in ["http10", "serial", "pipelined", "early-close", "h2"] {
        let run = [&site.url, "--site", site.path(), "--mode", mode, "--verify"];
        let (result, _) = result(&[&run[..], &users].concat(), 0);
        assert_eq!(
            number(&result, "objects"),
            number(&result, "objects_begun"),
            "{mode}"
        );
        // The plan takes answers to need no time, so that it has the same objects or a few more.
        let (begun, asked) = (number(&result, "objects_begun"), number(planned, "objects"));
        assert!(
            begun <= asked && begun + 20 >= asked,
            "{mode}: {begun} of {asked}"
        );
        let connections = number(&result, "connections");
        match mode {
            "http10" => assert_eq!(connections, number(&result, "files")),
            "early-close" => assert_eq!(connections, begun),
            _ => assert!(
                connections >= 20 && connections <= number(planned, "sessions"),
                "{mode}: {connections}"
            ),
        }
        assert_eq!(
            number(&result, "resent") + number(&result, "closed_by_server"),
            0,
            "{mode}"
        );
        assert_eq!(result["errors"], serde_json::json!({}), "{mode}");
        assert_eq!(result["verdict"]["valid"], true);
        assert_eq!(
            number(&result["response_ms"], "count"),
            number(&result, "files"),
            "{mode}"
        );
    }
}

#[test]
fn arrivals_come_at_the_rate_that_was_asked_for() {
    let site = served(&["webstone"]);
    for process in ["constant", "poisson"] {
        let run = [
            &site.url,
            "--site",
            site.path(),
            "--rate",
            "100",
            "--arrivals",
            process,
            "--duration",
            "2s",
        ];
        let (result, _) = result(&run, 0);
        let begun = number(&result, "objects_begun");
        if process == "constant" {
            assert_eq!(begun, 200);
        } else {
            // Four standard deviations of a count with mean 200.
            assert!((143..=257).contains(&begun), "{begun}");
        }
        assert_eq!(result["mode"], "http10");
        assert_eq!(number(&result, "connections"), number(&result, "files"));
    }
}

/// Little's law, and throughput two ways, over a real run.
#[test]
fn webstone_clients_keep_the_identities() {
    let site = served(&["webstone", "--list", "standard"]);
    let (result, _) = result(
        &[
            &site.url,
            "--site",
            site.path(),
            "--clients",
            "4",
            "--duration",
            "2s",
        ],
        0,
    );
    let metric = |name: &str| result["webstone"][name].as_f64().expect("a number");
    let load = metric("littles_load_factor");
    // The number of clients, less the time this program itself needs between two requests, and what was under way at the end.
    assert!(load > 0.2 && load <= 4.0, "{load}");
    let by_law = metric("connection_rate") * metric("average_response_time") / 1000.0;
    assert!((by_law - load).abs() < 1e-6 * load, "{by_law} {load}");
    let by_client = metric("average_client_throughput") * load;
    assert!((by_client - metric("server_throughput")).abs() < 1e-6 * by_client);
}

#[test]
fn wrong_bodies_make_a_run_invalid() {
    let site = served(&["webstone"]);
    let file = site.dir.path().join("file500.html");
    let mut content = fs::read(&file).expect("a file");
    content[300] ^= 1;
    fs::write(&file, content).expect("written");
    let run = [
        &site.url,
        "--site",
        site.path(),
        "--clients",
        "2",
        "--duration",
        "1s",
    ];
    result(&run, 0);
    let (checked, error) = result(&[&run[..], &["--verify"]].concat(), 3);
    assert!(error.contains("differ in content from the manifest"), "{error}");
    assert!(checked["errors"]["content"].as_u64() > Some(0), "{checked}");
}

/// A server that answers so many requests on each connection and then closes it, unasked.
fn impatient(answers: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream, answers));
        }
    });
    address
}

fn answer(mut stream: TcpStream, mut left: usize) {
    let (mut said, mut piece) = (Vec::new(), [0; 4096]);
    while left > 0 {
        match stream.read(&mut piece) {
            Ok(n @ 1..) => said.extend_from_slice(&piece[..n]),
            _ => return,
        }
        while let (Some(at), true) = (said.windows(4).position(|four| four == b"\r\n\r\n"), left > 0) {
            said.drain(..at + 4);
            left -= 1;
            if stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
                .is_err()
            {
                return;
            }
        }
    }
    // Reads what is left, so that closing does not reset what was sent.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    while matches!(stream.read(&mut piece), Ok(1..)) {}
}

#[test]
fn what_a_closing_server_left_unanswered_is_asked_for_again() {
    let site = served(&[
        "surge",
        "--files",
        "60",
        "--files-per-object",
        "constant(8)",
        "--size-max",
        "60000",
    ]);
    let url = format!("http://{}/", impatient(3));
    let run = [
        &url,
        "--site",
        site.path(),
        "--users",
        "5",
        "--mode",
        "pipelined",
        "--duration",
        "2s",
    ];
    // Its bodies are not those of the site, which the lengths show: files fail, but each was answered once.
    let (result, _) = result(&run, 3);
    let length = result["errors"]["length"].as_u64().expect("lengths differ");
    assert_eq!(length, number(&result, "files_failed"));
    assert_eq!(
        result["errors"].as_object().expect("troubles").len(),
        1,
        "{result}"
    );
    assert!(
        number(&result, "resent") > 0 && number(&result, "closed_by_server") > 0,
        "{result}"
    );
}

#[test]
fn a_server_that_is_not_there_makes_a_run_invalid() {
    let nobody = Refusing::new();
    let url = format!("http://{}/", nobody.address());
    let (result, error) = result(&[&url, "--clients", "3", "--duration", "1s"], 3);
    assert_eq!(number(&result, "connections"), 0, "none was opened");
    let refused = result["errors"]["connect"].as_u64().expect("refusals");
    let sentence = format!("no file was completely received (errors: {refused} connect)");
    assert!(error.contains(&sentence), "{error}");
    // On a busy machine fewer come in the second than there are clients.
    assert!(
        (1..=60).contains(&refused),
        "a dead server is not stormed: {refused}"
    );
}

/// A pause of the server is seen from when a request was meant to be sent (coordinated omission).
#[test]
fn a_pause_shows_in_response_times_and_not_only_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        // One connection at a time, and the first request waits a second.
        let (mut stream, _) = listener.accept().expect("a connection");
        let (_nobody, news) = std::sync::mpsc::channel::<()>();
        let _ = news.recv_timeout(std::time::Duration::from_secs(1));
        answer(stream.try_clone().expect("a clone"), usize::MAX);
        let _ = stream.flush();
    });
    let run = [
        &url,
        "--rate",
        "100",
        "--arrivals",
        "constant",
        "--connections",
        "1",
        "--threads",
        "1",
        "--duration",
        "1500ms",
    ];
    let (result, _) = result(&run, 0);
    let (response, service) = (&result["response_ms"]["p50"], &result["service_ms"]["p50"]);
    assert!(response.as_f64() > Some(100.0), "two in three waited: {response}");
    assert!(
        service.as_f64() < Some(100.0),
        "once it answered it was quick: {service}"
    );
}

/// So many clients, each on a thread of its own, under way.
fn clients(url: &str, count: &str, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["--json", "load", url, "--clients", count, "--threads", count])
        .args(more)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts")
}

fn tell(client: &Child, signal: &str) {
    let told = Command::new("kill")
        .args([signal, &client.id().to_string()])
        .status();
    assert!(told.expect("a kill").success());
}

/// Clients that never sleep set no alarm that would ring late, and answers that lay waiting for them look slow.
#[test]
fn a_client_that_stood_still_makes_a_run_invalid() {
    let (url, asked) = answering(|_| (reply("200 OK", "", "hi"), false));
    let client = clients(&url, "1", &["--duration", "2s", "--lag-max", "500ms"]);
    asked.recv().expect("it asks");
    tell(&client, "-STOP");
    // The clock of a stopped program is the machine's: nothing else makes it late.
    let (_nobody, news) = std::sync::mpsc::channel::<()>();
    let _ = news.recv_timeout(std::time::Duration::from_secs(1));
    tell(&client, "-CONT");
    let ended = client.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(3), "{said}");
    let result = &lines(&said)[0];
    let reasons = result["verdict"]["reasons"].to_string();
    assert!(
        reasons.contains("this client was late: 1 % of its ticks"),
        "{reasons}"
    );
    assert!(result["tick_ms"]["max"].as_f64() > Some(900.0), "{result}");
}

/// What is counted ends when the threads hear of it, a little after it was said.
#[test]
fn a_run_that_was_stopped_has_no_more_connections_on_average_than_it_opened() {
    let (url, asked) = answering(|_| (reply("200 OK", "", "hi"), false));
    let client = clients(&url, "2", &["--duration", "1h"]);
    // Both have their connection then.
    asked.iter().take(20).for_each(drop);
    tell(&client, "-INT");
    let ended = client.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(3), "{said}");
    let result = &lines(&said)[0];
    conforms("load-result.schema.json", std::slice::from_ref(result));
    let (stood, all) = (
        &result["table6"]["average_established"],
        number(result, "connections"),
    );
    assert!(stood.as_f64() <= Some(all as f64), "{stood} of {all}");
    assert!(result["duration_s"].as_f64() < Some(3600.0));
}

/// Rows and points are of seconds of the run; what was under way at its end is a file all the same.
#[test]
fn there_is_no_second_after_the_end() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            // The first is answered as usual, the second only when the run is over.
            let slow = std::time::Duration::from_millis(if number == 1 { 1300 } else { 0 });
            std::thread::spawn(move || {
                let (_nobody, news) = std::sync::mpsc::channel::<()>();
                let _ = news.recv_timeout(slow);
                answer(stream, if slow.is_zero() { usize::MAX } else { 1 });
            });
        }
    });
    let dir = tempfile::TempDir::new().expect("a folder");
    let path = |name: &str| text(&dir.path().join(name)).to_owned();
    let (csv, html) = (path("csv"), path("html"));
    let files = ["--csv", &csv, "--html", &html];
    let run = [&url, "--clients", "2", "--threads", "1", "--duration", "1s"];
    let (result, _) = result(&[&run[..], &files].concat(), 0);
    let (all, in_time) = (number(&result, "files"), number(&result, "files_in_time"));
    // The other client's last may be late, too.
    assert!((in_time + 1..=in_time + 2).contains(&all), "{result}");
    assert_eq!(result["record"]["seconds"].as_array().map(Vec::len), Some(2));
    let table = fs::read_to_string(&csv).expect("a table");
    let rows: Vec<&str> = table.lines().skip(1).collect();
    assert_eq!(rows.len(), 1, "{table}");
    let in_rows = rows[0].split(',').nth(2).and_then(|cell| cell.parse().ok());
    assert_eq!(in_rows, Some(in_time));
    let page = fs::read_to_string(&html).expect("a page");
    let plot = page
        .split("</figure>")
        .find(|plot| plot.contains("Files and objects by second"));
    let line = plot.and_then(|plot| plot.split("class=\"line a\" d=\"").nth(1)?.split('"').next());
    let mut points: Vec<&str> = line.expect("a line").split(['M', 'L']).skip(1).collect();
    points.dedup();
    assert_eq!(points.len(), 1, "{points:?}");
}

/// A run that ends within a second has a row of that length.
#[test]
fn the_last_row_may_be_a_part_of_a_second() {
    let (url, _asked) = answering(|_| (reply("200 OK", "", "hi"), false));
    let dir = tempfile::TempDir::new().expect("a folder");
    let csv = text(&dir.path().join("csv")).to_owned();
    let run = ["--rate", "100", "--duration", "1500ms", "--csv", &csv];
    let (result, _) = result(&[&[url.as_str()], &run[..]].concat(), 0);
    let table = fs::read_to_string(&csv).expect("a table");
    let rows: Vec<Vec<&str>> = table.lines().map(|row| row.split(',').collect()).collect();
    let lengths: Vec<Option<&str>> = rows.iter().map(|row| row.last().copied()).collect();
    assert_eq!(lengths, [Some("length_s"), Some("1"), Some("0.5")]);
    let files = rows[1..]
        .iter()
        .map(|row| row[2].parse::<u64>().expect("a number"));
    assert_eq!(files.sum::<u64>(), number(&result, "files_in_time"));
}

/// On a terminal a line says how it goes, again and again in the same place; in a pipe nothing does.
#[test]
fn a_terminal_sees_how_it_goes() {
    let site = served(&["webstone"]);
    let run = format!(
        "{} load {} --site {} --clients 2 --duration 2500ms --lag-max 60s",
        env!("CARGO_BIN_EXE_weir"),
        site.url,
        site.path()
    );
    let shown = Command::new("script")
        .args(["--quiet", "--return", "--command", &run, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output();
    let Ok(shown) = shown else {
        eprintln!("skipped: there is no `script` (util-linux) to play a terminal");
        return;
    };
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success(), "{text}");
    assert!(
        text.contains("files/s, ") && text.contains(" active, ") && text.contains(" errors"),
        "{text}"
    );
    assert!(text.contains("the run is valid"), "{text}");
    let piped = weir(&run.split(' ').skip(1).collect::<Vec<_>>());
    assert!(
        piped.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&piped.stderr)
    );
}

#[test]
fn what_cannot_be_run_is_named() {
    let site = served(&["webstone"]);
    let check = |arguments: &[&str], fragment: &str| {
        let error = crate::workload::refused(&[&["load"], arguments].concat(), 2);
        assert!(error.contains(fragment), "{error}");
    };
    check(&["http://localhost/", "--insecure"], "applies to https URLs");
    check(&["http://localhost:1/", "--users", "3"], "--site");
    check(
        &["http://localhost:1/", "--users", "3", "--site", site.path()],
        "Surge",
    );
    check(&["http://localhost:1/", "--rate", "0"], "--rate");
    // What would otherwise be passed over, or mean nothing.
    for (arguments, fragment) in [
        (&["--connections", "64"][..], "needs --rate or --replay"),
        (
            &["--clients", "4", "--arrivals", "constant"],
            "needs --rate or --sessions",
        ),
        (&["--rate", "5", "--connections", "0"], "--connections"),
        (&["--threads", "0"], "--threads"),
        (&["--duration", "0s"], "more than 0"),
        (&["--timeout", "0s"], "more than 0"),
        (&["--failures-max", "nan"], "is out of range"),
        (&["--failures-max", "5"], "is out of range"),
        (&["--start-at", "nan"], "date +%s"),
        (&["--start-at", "4102444800000"], "days ahead"),
    ] {
        check(&[&["http://localhost:1/"], arguments].concat(), fragment);
    }
    check(&["http://me:word@localhost:1/"], "password");
    check(&["http://localhost:1/", "--clients", "4000000"], "descriptors");
    check(
        &["http://localhost:1/", "--clients", "3", "--rate", "1"],
        "cannot be used with",
    );
    check(&["http://localhost:1/", "--urls", "/nonexistent"], "/nonexistent");
    let urls = site.dir.path().join("urls");
    fs::write(&urls, "# paths\n/a\nb\n").expect("written");
    check(&["http://localhost:1/", "--urls", text(&urls)], "line 3");
}

/// Ten minutes later would be too late to say so.
#[test]
fn a_result_that_could_not_be_written_is_refused_before_the_run() {
    for flag in ["--out", "--html", "--csv", "--hdr"] {
        for path in ["/nonexistent/folder/result", "/"] {
            let arguments = ["load", "http://localhost:1/", "--duration", "10m", flag, path];
            let error = crate::workload::refused(&arguments, 4);
            assert!(error.contains(&format!("cannot write `{path}`")), "{error}");
        }
    }
}

#[test]
fn a_search_ends_at_once_where_nothing_answers() {
    let output = weir(&[
        "load",
        "http://127.0.0.1:1/",
        "--rate",
        "20",
        "--slo",
        "p50<1s",
        "--duration",
        "300ms",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said.lines().count(), 1, "no further probe was worth it: {said}");
    assert!(said.contains("no file was completely received"), "{said}");
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}
