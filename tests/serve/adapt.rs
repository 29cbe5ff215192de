//! A server that notices: what it writes down, what the controllers make of that, and who has the last word.

use crate::process::{Launch, Strategy, eventually};
use crate::tree::Tree;
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

#[test]
fn what_it_notices_is_written_down_and_can_be_replayed() {
    for strategy in [
        Strategy::LOOPS,
        Strategy::POOL,
        Strategy::PROCESS_LOOPS,
        Strategy::PROCESSES,
    ] {
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
        let end: Value = serde_json::from_str(out.trim_end()).expect("JSON");
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
                &json!(["keep-alive", "coding"])
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
            first["knob"].as_str(),
            first["from"].as_str(),
            first["to"].as_str()
        ),
        (Some("keep-alive"), Some("65s"), Some("16250ms"))
    );
    let why = first["why"].as_str().expect("a reason");
    for number in ["3000 pages", "40 %", "320 connections"] {
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
        .filter(|line| line["decision"]["knob"] == "coding")
        .map(|line| {
            let text = |key: &str| line["decision"][key].as_str().expect(key).to_owned();
            (line["at-ms"].as_u64().expect("a time"), text("to"), text("why"))
        })
        .collect();
    assert_eq!(decisions.len(), 2, "{out}");
    assert_eq!((decisions[0].0, decisions[0].1.as_str()), (2000, "what there is"));
    assert!(decisions[0].2.contains("0.8 threads waited") && decisions[0].2.contains("1.96 processors"));
    assert_eq!(
        (decisions[1].0, decisions[1].1.as_str()),
        (10_000, "on first use")
    );
}

/// The first line of a recording.
fn start(adapt: &str, idle: &str, free: &[&str]) -> String {
    let start = json!({ "recording": 2, "weir": "0.1.0", "adapt": adapt, "concurrency": "loops", "idle-timeout": idle,
        "free": free });
    format!("{start}\n")
}

/// What was set then is set in the replay, unless it is asked what would have been.
#[test]
fn what_was_set_stays_set_in_a_replay() {
    let tree = Tree::new();
    for (first, flags, expected) in [
        (String::new(), &[][..], Some("65s")),
        (start("off", "65s", &[]), &[], None),
        (start("off", "65s", &[]), &["--all"], Some("65s")),
        (start("auto", "30s", &[]), &[], None),
        (start("auto", "30s", &[]), &["--idle-timeout", "20s"], Some("20s")),
        (start("auto", "40s", &["keep-alive"]), &[], Some("40s")),
    ] {
        let recording = tree.write("sensors.jsonl", first.clone() + &a_bad_time());
        let (code, out, complaint) = replay_with(&recording, flags);
        assert_eq!(code, 0, "{complaint}");
        let line: Value = serde_json::from_str(out.lines().next().expect("a line")).expect("JSON");
        assert_eq!(
            line["decision"]["from"].as_str(),
            expected,
            "{first} {flags:?}: {line}"
        );
    }
    // Two servers, one after the other: time begins anew, and so do the controllers.
    let both = start("auto", "65s", &["keep-alive"]) + &a_bad_time();
    let recording = tree.write("both.jsonl", both.repeat(2));
    let (code, out, complaint) = replay(&recording);
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
        (
            backwards.join("\n") + "\n",
            "line 2: 169000 ms comes after 170000 ms",
        ),
        (format!("{good}\n"), "line 171: the line is empty"),
        (
            good.replace("\"limit\":142606336", "\"limit\":0"),
            "line 1: memory with a bound of 0 bytes",
        ),
        ("{\"recording\":9}\n".to_owned(), "another version"),
    ] {
        let (code, _, complaint) = replay(&tree.write("wrong.jsonl", text));
        assert_eq!(code, 2, "{complaint}");
        assert!(complaint.contains(part), "{complaint}");
    }
}
