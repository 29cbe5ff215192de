//! What other servers do, switched on: every answer stays what it was; only how it comes about differs.

use crate::serve::files::noise;
use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Strategy, eventually};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, Response, head};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const USAGE: i32 = 2;

const PRESETS: [&str; 7] = [
    "apache-1.3",
    "phttpd",
    "java-server",
    "zeus",
    "enterprise",
    "jaws-baseline",
    "jaws",
];

/// Each switch that all strategies can have, as flags.
const SWITCHES: [&[&str]; 18] = [
    &["--lookup", "each-request"],
    &["--lookup", "each-request", "--ancestor-file", ".htaccess"],
    &["--lookup", "each-request", "--copies"],
    &["--copies"],
    &["--cache-lock", "whole"],
    &["--cache-lock", "entry"],
    &["--cache-lock", "whole", "--lock-micros", "50"],
    &["--fresh-head"],
    &["--fresh-date"],
    &["--split-head"],
    &["--nagle"],
    &["--write-size", "4KiB"],
    &["--write-size", "4KiB", "--write-micros", "50"],
    &["--connection-micros", "50"],
    &["--request-micros", "50"],
    &["--log-each"],
    &["--lock-calls", "40"],
    &["--early-close", "10s"],
];

fn tree() -> Tree {
    let tree = Tree::with(&[("deep/er/page.html", "<p>hello, weir\n"), (".htaccess", "deny")]);
    tree.write("middle.bin", noise(20_000));
    tree.write("large.bin", noise(300_000));
    tree.write("empty.txt", "");
    tree
}

/// What there is to see of an answer, without what differs by its moment or by where tags come from: status,
/// fields, content.
type Seen = (u16, Vec<(String, String)>, Vec<u8>);

fn seen(answer: &Response) -> Seen {
    let mut fields = answer.fields.clone();
    fields.retain(|(name, _)| !["Date", "ETag"].contains(&name.as_str()));
    (answer.status, fields, answer.body.clone())
}

fn ask(connection: &mut Connection) -> Vec<Seen> {
    let mut answers = Vec::new();
    for _ in 0..2 {
        for path in [
            "/deep/er/page.html",
            "/middle.bin",
            "/large.bin",
            "/empty.txt",
            "/no",
            "/.htaccess",
        ] {
            answers.push(seen(&connection.get(path)));
            answers.push(seen(&connection.request("HEAD", path, &[])));
        }
        let part = connection.request("GET", "/large.bin", &[("Range", "bytes=70000-269999")]);
        assert_eq!(part.status, 206);
        answers.push(seen(&part));
        let tag = connection.get("/deep/er/page.html").must("ETag").to_owned();
        let unchanged = connection.request("GET", "/deep/er/page.html", &[("If-None-Match", &tag)]);
        assert_eq!(unchanged.status, 304);
        answers.push(seen(&unchanged));
    }
    // Three at once.
    let paths = ["/deep/er/page.html", "/middle.bin", "/empty.txt"];
    let heads: String = paths.iter().map(|path| head("GET", path, &[])).collect();
    connection.send(heads);
    answers.extend(paths.iter().map(|_| seen(&connection.receive("GET"))));
    answers
}

fn a_switch_changes_no_answer(strategy: Strategy) {
    let tree = tree();
    let flags = ["--compress=false", "--precompressed=false"];
    let plain = ask(&mut Launch::new(strategy)
        .root(tree.path())
        .args(flags)
        .start()
        .connect());
    let shares_accept = !strategy.concurrency.starts_with("thread-per") && strategy.concurrency != "loop";
    let accept_lock: &[&str] = &["--accept-lock"];
    let accept_lock = (shares_accept && strategy.io != "uring").then_some(accept_lock);
    for switch in SWITCHES.into_iter().chain(accept_lock) {
        let log = tree.join("access.log");
        let server = Launch::new(strategy)
            .root(tree.path())
            .args(flags)
            .args(switch)
            .args(["--access-log".as_ref(), log.as_os_str()])
            .start();
        assert!(server.started["behavior"][0].is_string(), "{}", server.started);
        let mut connection = server.connect();
        assert!(ask(&mut connection) == plain, "{switch:?} changes an answer");
        drop(connection);
        // And with several at once.
        let mut several: Vec<Connection> = (0..8).map(|_| server.connect()).collect();
        for connection in &mut several {
            connection.send(head("GET", "/large.bin", &[]));
        }
        for mut connection in several {
            assert!(connection.receive("GET").body == noise(300_000), "{switch:?}");
        }
    }
}

fn a_file_looked_for_each_time_is_never_an_old_one(strategy: Strategy) {
    let tree = Tree::with(&[("now.txt", "0")]);
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--lookup", "each-request"])
        .start();
    let mut connection = server.connect();
    for round in 0..50 {
        tree.write("now.txt", format!("round {round}"));
        assert_eq!(connection.get("/now.txt").text(), format!("round {round}"));
    }
}

fn an_early_close_comes_after_an_answer_and_not_before(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--early-close", "300ms", "--idle-timeout", "1h"])
        .start();
    let mut silent = server.connect();
    let mut connection = server.connect();
    for _ in 0..3 {
        assert_eq!(connection.get("/a.txt").text(), "a");
    }
    connection.expect_close();
    // The other one has not asked yet, and may still.
    assert_eq!(silent.get("/a.txt").text(), "a");
}

fn a_server_takes_its_time_between_two_writes_and_only_there(strategy: Strategy) {
    let tree = Tree::with(&[("small.txt", "a")]);
    tree.write("middle.bin", noise(20_000));
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--write-size", "8KiB", "--write-micros", "1000000"])
        .start();
    let mut connection = server.connect();
    let timed = |connection: &mut Connection, path: &str, count: usize| {
        let start = Instant::now();
        for _ in 0..count {
            assert_eq!(connection.get(path).status, 200);
        }
        start.elapsed()
    };
    // Three writes, so two pauses.
    assert!(timed(&mut connection, "/middle.bin", 1) >= Duration::from_secs(2));
    // Thirty responses of a write each.
    assert!(timed(&mut connection, "/small.txt", 30) < Duration::from_secs(30));
}

fn a_server_takes_its_time_with_each_new_connection_and_only_there(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--connection-micros", "1000000"])
        .start();
    for _ in 0..2 {
        let start = Instant::now();
        let mut connection = server.connect();
        assert_eq!(connection.get("/a.txt").text(), "a");
        assert!(start.elapsed() >= Duration::from_secs(1));
        let start = Instant::now();
        for _ in 0..30 {
            assert_eq!(connection.get("/a.txt").text(), "a");
        }
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}

fn a_server_takes_its_time_for_each_request_and_only_there(strategy: Strategy) {
    const EACH: Duration = Duration::from_millis(200);
    let tree = Tree::with(&[("a.txt", "a")]);
    tree.write("large.bin", noise(1_000_000));
    let server = Launch::new(strategy)
        .root(tree.path())
        .args(["--request-micros", "200000", "--write-size", "4KiB"])
        .start();
    let mut connection = server.connect();
    // The head is the same each time, and no response is repeated from memory.
    let start = Instant::now();
    for _ in 0..4 {
        assert_eq!(connection.get("/a.txt").text(), "a");
    }
    assert!(start.elapsed() >= 4 * EACH);
    // Three at once.
    let start = Instant::now();
    connection.send(head("GET", "/a.txt", &[]).repeat(3));
    for _ in 0..3 {
        assert_eq!(connection.receive("GET").text(), "a");
    }
    assert!(start.elapsed() >= 3 * EACH);
    // One request, with a connection of its own and more than 200 writes.
    let start = Instant::now();
    assert!(server.connect().get("/large.bin").body == noise(1_000_000));
    assert!(start.elapsed() < 150 * EACH);
}

on_every_strategy!(
    a_switch_changes_no_answer,
    a_file_looked_for_each_time_is_never_an_old_one,
    an_early_close_comes_after_an_answer_and_not_before,
    a_server_takes_its_time_between_two_writes_and_only_there,
    a_server_takes_its_time_with_each_new_connection_and_only_there,
    a_server_takes_its_time_for_each_request_and_only_there,
);

#[test]
fn every_preset_serves_the_embedded_site() {
    let demo = |name: &str| {
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("demo").join(name)).expect("a file of demo/")
    };
    for preset in PRESETS {
        let mut server = Launch::bare().args(["--preset", preset]).start();
        assert_eq!(server.started["preset"], preset);
        let mut connections: Vec<Connection> = (0..4).map(|_| server.connect()).collect();
        for connection in &mut connections {
            for (path, file) in [
                ("/", "index.html"),
                ("/style.css", "style.css"),
                ("/images/valley.png", "images/valley.png"),
            ] {
                let answer = connection.get(path);
                assert_eq!(answer.status, 200, "{preset} {path}");
                assert!(answer.body == demo(file), "{preset} {path}");
            }
            assert_eq!(connection.get("/missing").status, 404, "{preset}");
        }
        drop(connections);
        assert_eq!(server.stop(), 0, "{preset}: {}", server.stderr());
    }
}

#[test]
fn flags_beat_a_preset_and_files_may_name_one() {
    let tree = Tree::with(&[
        ("site/a.txt", "a"),
        (
            "weir.toml",
            "preset = 'apache-1.3'\nroot = 'site'\nconcurrency = 'loop'\nworkers = 1\n[behavior]\ncopies = false\n",
        ),
    ]);
    let server = Launch::bare()
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .args(["--log-each=false", "--accept-lock=false"])
        .start();
    let started = &server.started;
    assert_eq!(started["listeners"][0]["concurrency"], "loop", "{started}");
    let on = started["behavior"].to_string();
    assert!(
        on.contains("lookup each-request") && on.contains("fresh-head"),
        "{on}"
    );
    assert!(!on.contains("copies") && !on.contains("log-each"), "{on}");
    assert_eq!(server.connect().get("/a.txt").text(), "a");
}

#[test]
fn what_means_nothing_is_refused() {
    let cases: [(&[&str], &str); 10] = [
        (&["--ancestor-file", ".htaccess"], "--lookup each-request"),
        (
            &["--lookup", "each-request", "--cache-lock", "whole"],
            "no cache to lock",
        ),
        (&["--lock-micros", "50"], "no lock is held without `cache-lock`"),
        (&["--cache-lock", "whole", "--lock-micros", "1000001"], "1000000"),
        (&["--write-micros", "1000001"], "1000000"),
        (&["--connection-micros", "1000001"], "1000000"),
        (&["--request-micros", "1000001"], "1000000"),
        (
            &["--concurrency", "loop", "--accept-lock"],
            "only one thread accepts",
        ),
        (
            &["--concurrency", "thread-per-request", "--accept-lock"],
            "process-loops",
        ),
        (&["--preset", "apache"], "apache-1.3"),
    ];
    for (flags, fragment) in cases {
        let (code, err) = Launch::bare().args(flags).fail();
        assert_eq!(code, USAGE, "{flags:?}: {err}");
        assert!(err.contains(fragment), "{flags:?}: {err}");
    }
}

#[test]
fn a_line_logged_by_itself_does_not_wait_for_others() {
    let tree = Tree::with(&[("a.txt", "a")]);
    let log = tree.join("access.log");
    let server = Launch::new(Strategy::LOOPS)
        .root(tree.path())
        .args(["--log-each", "--access-log"])
        .args([log.as_os_str()])
        .start();
    let mut connection = server.connect();
    // Batches leave after a second: one after the other, hardly any would be sooner. On a busy machine some lines may be
    // later.
    let is_at_once = |count: &usize| {
        let asked = Instant::now();
        assert_eq!(connection.get("/a.txt").status, 200);
        eventually("the line is in the file", || {
            let lines = std::fs::read_to_string(&log).ok()?.lines().count();
            (lines == *count).then_some(())
        });
        asked.elapsed() < Duration::from_millis(900)
    };
    let quick = (1..=10).filter(is_at_once).count();
    assert!(quick >= 3, "{quick} of 10 lines");
}

#[test]
fn a_reload_leaves_the_behavior_as_it_is_and_says_so() {
    let tree = Tree::with(&[("site/a.txt", "a"), ("weir.toml", "root = 'site'\n")]);
    let server = Launch::new(Strategy::LOOPS)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    assert_eq!(server.connect().get("/a.txt").text(), "a");
    tree.write(
        "weir.toml",
        "root = 'site'\n[behavior]\nlookup = 'each-request'\n",
    );
    server.signal("HUP");
    eventually("the server says what waits", || {
        server
            .stderr()
            .contains("behavior will change at the next start only")
            .then_some(())
    });
    assert_eq!(server.connect().get("/a.txt").text(), "a");
}

/// Counted from outside, by what traces system calls.
/// How many ancestor files were looked for before each page was opened, by the lines of strace. A thread that may not wait gives
/// up where something is not in memory (EAGAIN), and another one begins again.
fn ancestors_by_page(trace: &str) -> Vec<usize> {
    let mut tried: HashMap<&str, usize> = HashMap::new();
    let mut looked = Vec::new();
    for line in trace.lines() {
        let thread = line.split_whitespace().next().unwrap_or_default();
        let count = tried.entry(thread).or_default();
        if line.contains("EAGAIN") {
            *count = 0;
        } else if line.contains(".htaccess") {
            *count += 1;
        } else if line.contains("page.html") {
            looked.push(std::mem::take(count));
        }
    }
    looked
}

#[test]
fn ancestors_are_tried_for_each_request() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: there is no strace to count with");
        return;
    }
    let tree = tree();
    let server = Launch::new(Strategy::POOL)
        .root(tree.path())
        .args(["--lookup", "each-request", "--ancestor-file", ".htaccess"])
        .args(["--precompressed=false"])
        .start();
    let trace = tree.join("trace");
    let mut tracer = Command::new("strace")
        .args(["-f", "-e", "trace=openat2,openat", "-o"])
        .arg(&trace)
        .args(["-p", &server.pid().to_string()])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("strace");
    let mut attached = String::new();
    // Open to the end: it would die of a line about a thread that nobody can read any more.
    let mut said = std::io::BufReader::new(tracer.stderr.take().expect("piped"));
    std::io::BufRead::read_line(&mut said, &mut attached).expect("its first line");
    if !attached.contains("attached") {
        println!("skipped: strace says {attached}");
        let _ = tracer.wait();
        return;
    }
    // A line is written before its call returns. Where strace came too late for a thread, nothing of it is in there.
    let looked = eventually("opens are in the trace", || {
        assert_eq!(server.connect().get("/deep/er/page.html").status, 200);
        let text = std::fs::read_to_string(&trace).ok()?;
        let looked = ancestors_by_page(&text);
        (looked.len() >= 5).then_some(looked)
    });
    let _ = tracer.kill();
    let _ = tracer.wait();
    // The root, `deep` and `deep/er`, each time; one of them is there.
    assert!(
        looked.iter().all(|count| *count == 3),
        "{looked:?}: {}",
        std::fs::read_to_string(&trace).unwrap_or_default()
    );
    drop(server);
}

#[test]
fn the_start_up_line_names_what_is_switched_on() {
    let server = Launch::bare().args(["--preset", "zeus"]).start();
    assert_eq!(
        server.started["behavior"],
        serde_json::json!([
            "fresh-date",
            "accept-lock",
            "compress false",
            "precompressed false"
        ])
    );
    assert_eq!(server.started["listeners"][0]["concurrency"], "process-loops");
}
