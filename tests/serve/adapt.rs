//! A server that notices: what it writes down, what the controllers make of that, and who has the last word.

use crate::serve::process::{Launch, Strategy, eventually};
use crate::serve::tree::Tree;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// `weir adapt replay` of a recording: exit code, output, complaint.
fn replay(recording: &Path) -> (i32, String, String) {
    replay_with(recording, &[])
}

fn replay_with(recording: &Path, flags: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["--json", "adapt", "replay"])
        .arg(recording)
        .args(flags)
        .output()
        .expect("the binary");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().expect("an exit code"),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Threads and processes, loops and workers that block.
const KINDS: [Strategy; 4] = [
    Strategy::LOOPS,
    Strategy::POOL,
    Strategy::PROCESS_LOOPS,
    Strategy::PROCESSES,
];

#[test]
fn what_it_notices_is_written_down_and_can_be_replayed() {
    for strategy in KINDS {
        let tree = Tree::with(&[("site/a.txt", "a")]);
        let recording = tree.join("sensors.jsonl");
        let mut server = Launch::new(strategy)
            .root(&tree.join("site"))
            .args(["--record".as_ref(), recording.as_os_str()])
            .start();
        for _ in 0..20 {
            assert_eq!(server.connect().get("/a.txt").status, 200);
        }
        let lines = || -> Vec<Value> {
            let text = std::fs::read_to_string(&recording).unwrap_or_default();
            text.split_inclusive('\n')
                .filter(|line| line.ends_with('\n'))
                .map(|line| serde_json::from_str(line).expect("JSON"))
                .collect()
        };
        let windows = || -> Vec<Value> {
            let mut lines = lines();
            lines.retain(|line| line["span-ms"].is_number());
            lines
        };
        eventually("two windows", || (windows().len() >= 2).then_some(()));
        let requests: f64 = windows()
            .iter()
            .map(|window| {
                let number = |key: &str| window[key].as_f64().expect("a number");
                assert!(number("resident") > 100_000.0, "{window}");
                number("requests") * number("span-ms") / 1000.0
            })
            .sum();
        // Those of before the first look are in no window.
        assert!(requests <= 20.5, "{strategy:?}: {requests}");
        assert_eq!(server.stop(), 0, "{}", server.stderr());
        let count = windows().len();
        let (code, out, complaint) = replay(&recording);
        assert_eq!(code, 0, "{complaint}");
        let end: Value = serde_json::from_str(out.lines().last().expect("a line")).expect("JSON");
        assert_eq!(end["differences"], 0, "{end}");
        // Whatever a busy machine made it decide, it decides again.
        assert_eq!(
            (&end["windows"], &end["decisions"]),
            (&json!(count), &end["recorded"])
        );
        let start = lines().swap_remove(0);
        assert_eq!(start["weir"], env!("CARGO_PKG_VERSION"));
        assert_eq!(
            (&start["adapt"], &start["concurrency"], &start["free"]),
            (
                &json!("auto"),
                &json!(strategy.concurrency),
                &json!(["idle-timeout", "compression"])
            )
        );
        // Started again it goes on below.
        let mut again = Launch::new(strategy)
            .root(&tree.join("site"))
            .args(["--record".as_ref(), recording.as_os_str()])
            .start();
        eventually("one more window", || (windows().len() > count).then_some(()));
        assert_eq!(again.stop(), 0, "{}", again.stderr());
        let starts = lines().iter().filter(|line| line["recording"] == 2).count();
        assert_eq!(starts, 2, "{strategy:?}");
    }
}

/// Ten seconds of want, then calm: numbers of a second whose connections hold memory that files would need.
fn a_bad_time() -> String {
    let window = |at: u32, refaults: u32| {
        format!(
            "{{\"at-ms\":{},\"span-ms\":1000,\"cpu\":0.1,\"run-queue\":0.1,\"memory-stalled\":0.0,\"io-stalled\":0.4,\
             \"major-faults\":0,\"memory\":{{\"limit\":142606336,\"used\":142000000,\"files\":25000000,\
             \"refaults\":{refaults}}},\"resident\":90000000,\"open\":320,\"accepted\":0,\"requests\":200,\"loads\":90,\
             \"bytes-sent\":3000000}}\n",
            at * 1000
        )
    };
    (1..=10)
        .map(|at| window(at, 3000))
        .chain((11..=170).map(|at| window(at, 5)))
        .collect()
}

#[test]
fn a_recorded_want_of_memory_shortens_the_time_and_calm_gives_it_back() {
    let tree = Tree::new();
    let recording = tree.write("sensors.jsonl", a_bad_time());
    let (code, out, complaint) = replay(&recording);
    assert_eq!(code, 0, "{complaint}");
    let decisions: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let (end, decisions) = decisions.split_last().expect("a last line");
    assert_eq!(end["windows"], 170);
    assert_eq!(end["decisions"], decisions.len());
    let first = &decisions[0]["decision"];
    assert_eq!(
        (
            first["setting"].as_str(),
            first["from"].as_str(),
            first["to"].as_str()
        ),
        (Some("idle-timeout"), Some("65s"), Some("16250ms"))
    );
    let why = first["why"].as_str().expect("a reason");
    for number in ["3000 file pages", "40 %", "320 connections"] {
        assert!(why.contains(number), "{number} is not in {why}");
    }
    let last = &decisions.last().expect("a decision")["decision"];
    assert_eq!(last["to"], "65s", "{last}");
}

/// Too few processors, then enough.
fn too_busy() -> String {
    let window = |at: u32, waiting: f64| {
        format!(
            "{{\"at-ms\":{},\"span-ms\":1000,\"cpu\":1.96,\"run-queue\":{waiting:.2},\"memory-stalled\":0.0,\
             \"io-stalled\":0.0,\"major-faults\":0,\"memory\":null,\"resident\":90000000,\"open\":40,\"accepted\":0,\
             \"requests\":9000,\"loads\":80,\"bytes-sent\":3000000,\"delay-ms\":6.0,\"queued\":0.97,\"refused\":0}}\n",
            at * 1000
        )
    };
    (1..=5)
        .map(|at| window(at, 0.8))
        .chain((6..=20).map(|at| window(at, 0.1)))
        .collect()
}

#[test]
fn a_recorded_want_of_processors_spares_codings_until_there_are_some() {
    let tree = Tree::new();
    let recording = tree.write("sensors.jsonl", too_busy());
    let (code, out, complaint) = replay(&recording);
    assert_eq!(code, 0, "{complaint}");
    let decisions: Vec<(u64, String, String)> = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|line| line["decision"]["setting"] == "compression")
        .map(|line| {
            let text = |key: &str| line["decision"][key].as_str().expect(key).to_owned();
            (line["at-ms"].as_u64().expect("a time"), text("to"), text("why"))
        })
        .collect();
    assert_eq!(decisions.len(), 2, "{out}");
    assert_eq!((decisions[0].0, decisions[0].1.as_str()), (2000, "paused"));
    assert!(decisions[0].2.contains("0.8 threads waiting") && decisions[0].2.contains("1.96 cores"));
    assert_eq!(
        (decisions[1].0, decisions[1].1.as_str()),
        (10_000, "on first use")
    );
}

/// The first line of a recording, in the order of a server.
fn start(adapt: &str, idle: &str, free: &[&str]) -> String {
    let start = json!({ "weir": "0.1.0", "adapt": adapt, "concurrency": "loops", "idle-timeout": idle, "free": free });
    start.to_string().replacen('{', "{\"recording\":2,", 1) + "\n"
}

/// What was set then is set in the replay, unless it is asked what would have been.
#[test]
fn what_was_set_stays_set_in_a_replay() {
    let tree = Tree::new();
    let unless_then = ["--idle-timeout", "40s"];
    for (first, flags, expected) in [
        (String::new(), &[][..], Some("65s")),
        (start("off", "65s", &[]), &[], None),
        (start("off", "65s", &[]), &["--all"], Some("65s")),
        (start("auto", "30s", &[]), &[], None),
        (start("auto", "30s", &[]), &["--idle-timeout", "20s"], Some("20s")),
        (start("auto", "40s", &["idle-timeout"]), &unless_then, Some("40s")),
    ] {
        let recording = tree.write("sensors.jsonl", first.clone() + &a_bad_time());
        let (code, out, complaint) = replay_with(&recording, flags);
        assert_eq!(code, 0, "{complaint}");
        let lines = out
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let mut lines = lines.filter(|line| line["start"].is_null());
        let line = lines.next().expect("a line");
        assert_eq!(
            line["decision"]["from"].as_str(),
            expected,
            "{first} {flags:?}: {line}"
        );
    }
    // Two servers, one after the other: time begins anew, and so do the controllers.
    let both = start("auto", "65s", &["idle-timeout"]) + &a_bad_time();
    let recording = tree.write("both.jsonl", both.repeat(2));
    let (code, out, complaint) = replay_with(&recording, &["--idle-timeout", "65s"]);
    assert_eq!(code, 0, "{complaint}");
    let end: Value = serde_json::from_str(out.lines().last().expect("a line")).expect("JSON");
    let count = end["decisions"].as_u64().expect("a number");
    assert_eq!(
        (end["windows"].as_u64(), count > 0, count % 2),
        (Some(340), true, 0),
        "{end}"
    );
}

/// A pipe that nobody reads must not hold the server up, and what says how it does is no place for a recording.
#[test]
fn a_recording_goes_to_a_file_or_to_who_reads() {
    let tree = Tree::with(&[("site/a.txt", "a")]);
    let pipe = tree.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let site = tree.join("site");
    for (record, code, part) in [
        (pipe.as_os_str(), 4, "a pipe that nobody reads"),
        ("-".as_ref(), 2, "standard output"),
        (
            tree.join("no/such/file").as_os_str(),
            4,
            "cannot open the recording",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .arg(&site)
            .arg("--record")
            .arg(record)
            .output()
            .expect("the binary");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{record:?}: {said}");
        assert!(said.contains(part), "{record:?}: {said}");
    }
}

/// Whoever reads the decisions may stop reading, and a disk may be full.
#[test]
fn an_output_that_ends_is_no_panic() {
    let tree = Tree::new();
    let recording = tree.write("sensors.jsonl", a_bad_time());
    for (output, code) in [("/dev/full", 4), ("a reader that has gone", 0)] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let stdout: std::process::Stdio = match output {
            "/dev/full" => std::fs::OpenOptions::new()
                .write(true)
                .open(output)
                .expect(output)
                .into(),
            _ => writer.into(),
        };
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["adapt", "replay"])
            .arg(&recording)
            .stdout(stdout)
            .output()
            .expect("the binary");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn what_is_no_recording_is_refused_by_line() {
    let tree = Tree::new();
    let good = a_bad_time();
    let broken = tree.write("broken.jsonl", format!("{}{{\"at-ms\":1}}\n", &good));
    let (code, _, complaint) = replay(&broken);
    assert_eq!(code, 2, "{complaint}");
    assert!(complaint.contains("line 171"), "{complaint}");
    // A server that was killed leaves half a line.
    let half = tree.write("half.jsonl", &good[..good.len() - 20]);
    assert_eq!(replay(&half).0, 0);
    let (code, _, complaint) = replay(&tree.join("nothing"));
    assert_eq!(code, 2, "{complaint}");
    let backwards: Vec<&str> = good.lines().rev().collect();
    for (text, part) in [
        (backwards.join("\n") + "\n", "line 2: 169000 ms follows 170000 ms"),
        (
            good.replace("\"limit\":142606336", "\"limit\":0"),
            "line 1: the memory limit is 0 bytes",
        ),
        ("{\"recording\":9}\n".to_owned(), "another version"),
        ("#!/bin/sh".to_owned(), "lines of JSON"),
    ] {
        let (code, _, complaint) = replay(&tree.write("wrong.jsonl", text));
        assert_eq!(code, 2, "{complaint}");
        assert!(complaint.contains(part), "{complaint}");
    }
}

/// What stays readable of a recording whose server was killed, or whose disk was full.
#[test]
fn a_damaged_line_costs_what_follows_up_to_the_next_start() {
    let tree = Tree::new();
    let first = start("off", "65s", &[]);
    let bad = a_bad_time();
    let (half, torn) = (&bad[..bad.len() - 20], &bad[..3000]);
    let of_bytes = |bytes: &[u8]| -> Vec<u8> {
        [first.as_bytes(), bytes, b"\n", first.as_bytes(), bad.as_bytes()].concat()
    };
    for (recording, windows, part) in [
        (format!("{first}{bad}\n\n{first}{bad}").into_bytes(), 340, ""),
        (
            format!("{first}{half}").into_bytes(),
            169,
            "line 171 is incomplete and skipped",
        ),
        (
            format!("{first}{torn}\n{first}{bad}").into_bytes(),
            170,
            "the server start in line",
        ),
        (
            format!("{first}{half}{first}{bad}").into_bytes(),
            339,
            "line 171: it begins with an incomplete line",
        ),
        (of_bytes(b"\xff\xfe\0"), 170, "line 2: not UTF-8 text"),
    ] {
        let recording = tree.write("damaged.jsonl", recording);
        let (code, out, complaint) = replay(&recording);
        assert_eq!(code, 0, "{part}: {complaint}");
        let end: Value = serde_json::from_str(out.lines().last().expect("a line")).expect("JSON");
        let seen = end["windows"].as_u64().expect("a number");
        assert!(seen >= windows && seen < windows + 20, "{part}: {seen}");
        assert!(
            complaint.contains(part) && complaint.is_empty() == part.is_empty(),
            "{part}: {complaint}"
        );
        assert!(
            part.is_empty() || complaint.contains("damaged.jsonl"),
            "{complaint}"
        );
    }
    let noise: Vec<u8> = (0..200_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    let (code, _, complaint) = replay(&tree.write("noise", noise));
    assert_eq!(code, 2, "{complaint}");
    assert!(
        complaint.contains("noise") && complaint.contains("lines of JSON"),
        "{complaint}"
    );
}

#[test]
fn what_is_decided_otherwise_than_then_is_listed() {
    let tree = Tree::new();
    let bad = a_bad_time();
    let both = start("auto", "65s", &["idle-timeout"]) + &bad;
    let (code, out, complaint) = replay(&tree.write("other.jsonl", &both));
    assert_eq!(code, 1, "{out}{complaint}");
    assert!(
        complaint.contains("other.jsonl") && complaint.contains("differ"),
        "{complaint}"
    );
    assert!(out.contains("\"only\":\"now\""), "{out}");
    let recorded = json!({ "at-ms": 4000, "applied": true,
        "decision": { "setting": "compression", "from": "on first use", "to": "paused", "why": "" } });
    let text = start("auto", "30s", &[]) + &bad[..bad.len() / 2];
    let (text, _) = text.rsplit_once('\n').expect("lines");
    let text = format!("{text}\n{recorded}\n");
    let (code, out, _) = replay(&tree.write("then.jsonl", text));
    assert!(code == 1 && out.contains("\"only\":\"then\""), "{out}");
    for (time, code) in [("0s", 2), ("1ms", 2), ("100ms", 0)] {
        let recording = tree.join("other.jsonl");
        let (ended, _, complaint) = replay_with(&recording, &["--idle-timeout", time]);
        assert_eq!(ended, code, "{time}: {complaint}");
    }
}

/// Whatever is said stays as it is said, from the moment it is said.
#[test]
fn a_reload_sets_knobs_and_frees_them() {
    for strategy in KINDS {
        let tree = Tree::with(&[("site/a.txt", "a")]);
        let (file, recording) = (tree.join("weir.toml"), tree.join("sensors.jsonl"));
        // A server that was killed left half a line.
        tree.write("sensors.jsonl", "{\"at-ms\":17,\"spa");
        tree.write("weir.toml", "idle-timeout = '10s'\n");
        let mut server = Launch::new(strategy)
            .root(&tree.join("site"))
            .args(["--record".as_ref(), recording.as_os_str()])
            .args(["--config".as_ref(), file.as_os_str()])
            .start();
        let lines = || -> Vec<Value> {
            let text = std::fs::read_to_string(&recording).unwrap_or_default();
            let lines = text.split_inclusive('\n').skip(1);
            let lines = lines.filter(|line| line.ends_with('\n'));
            lines
                .map(|line| serde_json::from_str(line).expect("JSON"))
                .collect()
        };
        let heads = || -> Vec<Value> {
            let mut lines = lines();
            lines.retain(|line| line["recording"] == 2);
            lines
        };
        eventually("a window", || (lines().len() >= 2).then_some(()));
        for (count, text, idle, free, said) in [
            (
                2,
                "# nothing\n",
                "65s",
                &["idle-timeout", "compression"][..],
                "on: idle-timeout, compression",
            ),
            (
                3,
                "compress = true\n",
                "65s",
                &["idle-timeout"],
                "on: idle-timeout\"",
            ),
            (
                4,
                "compress = true\nidle-timeout = '65s'\n",
                "65s",
                &[],
                "none, all are set explicitly",
            ),
            (
                5,
                "idle-timeout = '30s'\n",
                "30s",
                &["compression"],
                "on: compression",
            ),
        ] {
            tree.write("weir.toml", text);
            server.signal("HUP");
            eventually("a head line", || (heads().len() == count).then_some(()));
            let head = heads().pop().expect("a line");
            assert!(head["at-ms"].as_u64().is_some_and(|at| at > 0), "{head}");
            assert_eq!(
                (&head["idle-timeout"], &head["free"]),
                (&json!(idle), &json!(free))
            );
            eventually(said, || server.stderr().contains(said).then_some(()));
        }
        // Nothing is new: what controllers remember stays, and so does the recording.
        server.signal("HUP");
        let seen = lines().len();
        eventually("two windows", || (lines().len() >= seen + 2).then_some(()));
        assert_eq!(heads().len(), 5);
        assert_eq!(server.stop(), 0, "{}", server.stderr());
        let (code, out, complaint) = replay(&recording);
        assert_eq!(code, 0, "{out}{complaint}");
        assert!(complaint.contains("line 1: "), "{complaint}");
        assert_eq!(out.matches("\"start\":").count(), 5, "{out}");
    }
}
