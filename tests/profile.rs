//! The black box of `weir profile`: commands and servers watched by both means, and what is said of them. Where the
//! kernel lets nobody watch it says `skipped: why` and passes.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a black-box test is the outside world: it speaks over sockets and reads files"
)]

use crate::cli::{WEIR, text, weir};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The means that work here.
fn means() -> Vec<&'static str> {
    ["tracepoints", "ptrace"]
        .into_iter()
        .filter(|means| {
            let output = weir(&["profile", "--means", means, "--", "true"]);
            if output.status.code() == Some(4) {
                eprintln!("skipped: {means}: {}", text(&output.stderr).trim());
                return false;
            }
            assert_eq!(output.status.code(), Some(0), "{means}: {}", text(&output.stderr));
            true
        })
        .collect()
}

fn profile(args: &[&str]) -> Value {
    let output = weir(&[&["--json", "profile"][..], args].concat());
    assert_eq!(
        output.status.code(),
        Some(0),
        "{args:?}: {}",
        text(&output.stderr)
    );
    let out = text(&output.stdout);
    // What a watched command prints comes first.
    let line = out.lines().last().expect("a line");
    let value: Value = serde_json::from_str(line).expect("JSON");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/profile.schema.json");
    let text = std::fs::read_to_string(path).expect("a schema");
    crate::schema::check(&serde_json::from_str(&text).expect("JSON"), &value, "profile");
    value
}

fn calls(profile: &Value, name: &str) -> u64 {
    let calls = profile["calls"].as_array().expect("calls");
    calls
        .iter()
        .filter(|call| call["call"] == name)
        .filter_map(|call| call["calls"].as_u64())
        .sum()
}

/// Calls that did what they were to do: a shell looks for a program in one folder after another.
fn successes(profile: &Value, name: &str) -> u64 {
    let calls = profile["calls"].as_array().expect("calls").iter();
    let of_it = calls.filter(|call| call["call"] == name);
    let number = |call: &Value, key: &str| call[key].as_u64().expect("a number");
    of_it
        .map(|call| number(call, "calls") - number(call, "errors"))
        .sum()
}

/// A command whose calls can be counted: `dd` reads and writes as many blocks as it is told.
#[test]
fn every_call_of_a_command_is_counted() {
    for means in means() {
        let dd = [
            "--means",
            means,
            "--",
            "dd",
            "if=/dev/zero",
            "of=/dev/null",
            "bs=512",
            "count=1000",
            "status=none",
        ];
        let seen = profile(&dd);
        assert_eq!(seen["means"], means);
        assert_eq!(seen["lost"], 0, "{means}");
        assert_eq!(
            calls(&seen, "execve"),
            1,
            "{means}: to look for it is not its doing"
        );
        assert_eq!(calls(&seen, "write"), 1000, "{means}");
        let reads = calls(&seen, "read");
        // The loader reads a few files, and the copy of us waited for a word.
        assert!((1000..=1010).contains(&reads), "{means}: {reads}");
        let category = &seen["categories"]["writing_files"];
        assert_eq!(
            category["calls"],
            calls(&seen, "write") + calls(&seen, "ioctl"),
            "{means}"
        );
        assert!(category["ran_ms"].as_f64().expect("a number") > 0.0, "{means}");
        // A busy machine does not let it be told; what is told is something.
        let cost = &seen["overhead"]["us_per_call"];
        assert!(cost.is_null() || cost.as_f64() > Some(0.0), "{means}: {cost}");
        assert_eq!(seen["exit_code"], 0, "{means}");
    }
}

#[test]
fn children_and_threads_are_followed() {
    for means in means() {
        let script =
            "for i in 1 2 3; do /bin/true; done; dd if=/dev/zero of=/dev/null bs=1 count=77 status=none";
        let seen = profile(&["--means", means, "--", "sh", "-c", script]);
        assert_eq!(successes(&seen, "execve"), 5, "{means}: {seen}");
        assert_eq!(calls(&seen, "write"), 77, "{means}");
        assert!(seen["threads_active"].as_u64() >= Some(5), "{means}");
    }
}

/// A server that is ended with the test.
struct Server(Child, String);

impl Server {
    fn start(args: &[&str]) -> Server {
        let mut child = Command::new(WEIR)
            .args(["--json", "-q", "serve", "--listen", "127.0.0.1:0"])
            .args(args)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .expect("the binary cargo just built");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        let told: Value = serde_json::from_str(&line).expect("JSON");
        let address = told["listeners"][0]["address"].as_str().expect("an address");
        Server(child, address.to_owned())
    }

    fn ask(&self, count: usize) {
        ask(&self.1, count);
    }
}

/// So many requests, one after another on one connection.
fn ask(address: &str, count: usize) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    for _ in 0..count {
        stream
            .write_all(b"HEAD / HTTP/1.1\r\nHost: here\r\n\r\n")
            .expect("sent");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer");
            answer.push(byte[0]);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_running_server_is_watched_with_all_its_processes_and_goes_on() {
    for means in means() {
        for strategy in [
            &["--concurrency", "loops", "--workers", "2", "--io", "epoll"][..],
            &[
                "--concurrency",
                "process-loops",
                "--workers",
                "2",
                "--io",
                "epoll",
            ],
            &["--concurrency", "pool", "--workers", "3"],
        ] {
            let server = Server::start(strategy);
            server.ask(3);
            let mut watcher = Command::new(WEIR)
                .args(["--json", "profile", "--means", means, "--seconds", "60"])
                .arg(server.0.id().to_string())
                .stdout(Stdio::piped())
                .stdin(Stdio::null())
                .spawn()
                .expect("the binary cargo just built");
            // Until it watches, requests are not counted; asked for so long, some are.
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(2) {
                server.ask(50);
            }
            let ended = Command::new("kill")
                .args(["-INT", &watcher.id().to_string()])
                .status();
            assert!(ended.expect("kill").success());
            let mut out = String::new();
            watcher
                .stdout
                .take()
                .expect("piped")
                .read_to_string(&mut out)
                .expect("text");
            assert_eq!(
                watcher.wait().expect("an end").code(),
                Some(0),
                "{means} {strategy:?}"
            );
            let seen: Value = serde_json::from_str(out.trim()).expect("JSON");
            let exchanges = seen["exchanges"].as_u64().expect("a number");
            assert!(exchanges >= 20, "{means} {strategy:?}: {seen}");
            let total = seen["calls_total"].as_u64().expect("a number");
            assert!(total >= 2 * exchanges, "{means} {strategy:?}: {total} calls");
            server.ask(3);
        }
    }
}

#[test]
fn the_server_of_this_program_is_drawn_under_its_own_load() {
    if means().is_empty() {
        return;
    }
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let svg = folder.join(format!("profile-{}.svg", std::process::id()));
    let svg = svg.to_str().expect("a name");
    let seen = profile(&[
        "--self",
        "--seconds",
        "300ms",
        "--connections",
        "2",
        "--svg",
        svg,
        "--",
        "--workers",
        "1",
    ]);
    let asked = seen["divided_by"]["count"].as_f64().expect("a number");
    assert!(asked > 0.0, "{seen}");
    let per = seen["calls_total"].as_f64().expect("a number") / asked;
    assert!((1.0..50.0).contains(&per), "{per} calls a request");
    let drawing = std::fs::read_to_string(svg).expect("a drawing");
    assert!(drawing.contains("HTTP processing") && drawing.ends_with("</svg>\n"));
    std::fs::remove_file(svg).expect("our own file");
}

/// One worker takes no lock of its own, so all calls of locks are those of `--lock-calls`: two for each lock.
#[test]
fn locks_that_call_are_counted() {
    if means().is_empty() {
        return;
    }
    let of = |locks: &str| {
        let seen = profile(&[
            "--self",
            "--seconds",
            "300ms",
            "--connections",
            "2",
            "--",
            "--workers",
            "1",
            "--lock-calls",
            locks,
        ]);
        let asked = seen["divided_by"]["count"].as_f64().expect("a number");
        seen["futex"]["calls"].as_f64().expect("a number") / asked
    };
    let (none, three) = (of("0"), of("3"));
    assert!(none < 1.0, "{none} calls of locks a request");
    assert!(
        (5.0..7.0).contains(&(three - none)),
        "{three} calls of locks a request, {none} without"
    );
}

/// The signal goes to the profile alone, whose load would run for five minutes.
#[test]
fn an_interrupt_ends_the_load_as_well() {
    if means().is_empty() {
        return;
    }
    let mut watcher = Command::new(WEIR)
        .args([
            "--json",
            "profile",
            "--self",
            "--seconds",
            "300",
            "--connections",
            "2",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .expect("the binary cargo just built");
    let mut line = String::new();
    BufReader::new(watcher.stderr.take().expect("piped"))
        .read_line(&mut line)
        .expect("that the server is there");
    let (_, address) = line.split_once("http://").expect("where it is");
    let (address, _) = address.split_once('/').expect("its end");
    // It may not be watched yet; asked for so long it is.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        ask(address, 50);
    }
    let ended = Command::new("kill")
        .args(["-INT", &watcher.id().to_string()])
        .status();
    assert!(ended.expect("kill").success());
    let start = Instant::now();
    let mut out = String::new();
    let mut pipe = watcher.stdout.take().expect("piped");
    pipe.read_to_string(&mut out).expect("text");
    assert_eq!(watcher.wait().expect("an end").code(), Some(0), "{out}");
    assert!(
        start.elapsed() < Duration::from_secs(120),
        "{:?}",
        start.elapsed()
    );
    let seen: Value = serde_json::from_str(out.trim()).expect("JSON");
    let exchanges = seen["exchanges"].as_f64();
    assert_eq!(
        seen["divided_by"]["count"].as_f64(),
        exchanges,
        "nobody counted: {seen}"
    );
}

/// A folder without an index: its files are asked for, and not the page that says that there is none.
#[test]
fn a_folder_without_an_index_is_asked_for_its_files() {
    let Some(means) = means().first().copied() else {
        return;
    };
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("profile-bare-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let root = folder.to_str().expect("a name");
    let own = [
        "--means",
        means,
        "--self",
        root,
        "--seconds",
        "300ms",
        "--connections",
        "2",
    ];
    let output = weir(&[&["profile"][..], &own[..]].concat());
    assert_eq!(
        output.status.code(),
        Some(2),
        "no files to request: {}",
        text(&output.stderr)
    );
    std::fs::write(folder.join("a.txt"), vec![b'a'; 50_000]).expect("a file");
    let seen = profile(&own);
    assert!(seen["divided_by"]["count"].as_f64() > Some(0.0), "{seen}");
    // An error is copied from memory; a file of this size is sent from its descriptor.
    assert!(calls(&seen, "sendfile") > 0, "{seen}");
    let output = weir(&["profile", "--self", root, "--", "--bogus"]);
    assert!(
        text(&output.stderr).contains("--bogus"),
        "{}",
        text(&output.stderr)
    );
    std::fs::remove_dir_all(&folder).expect("our own folder");
}

#[test]
fn what_cannot_be_watched_is_named() {
    for (args, code, part) in [
        (&["profile", "nginx"][..], 2, "-- nginx"),
        (&["profile", "--seconds", "1"], 2, "no process given"),
        (&["profile", "--seconds", "0", "1"], 2, "must be more than 0"),
        (&["profile", "1", "--", "true"], 2, "not both"),
        (&["profile", "8388608"], 2, "no process 8388608"),
        (&["profile", "--svg", "/no/such/x.svg", "1"], 2, "/no/such/x.svg"),
        (&["profile", "--self", "/no/such/root"], 2, "/no/such/root"),
    ] {
        let output = weir(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
    }
    if !means().is_empty() {
        let output = weir(&["profile", "--", "/no/such/program"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("/no/such/program"));
    }
}
