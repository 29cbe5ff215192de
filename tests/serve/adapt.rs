//! A server that notices: what it writes down, what the controllers make of that, and who has the last word.

use crate::process::{Launch, Strategy, eventually};
use crate::tree::Tree;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// `weir adapt replay` of a recording: exit code, output, complaint.
fn replay(recording: &Path) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["--json", "adapt", "replay"])
        .arg(recording)
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
        let windows = || -> Vec<Value> {
            let text = std::fs::read_to_string(&recording).unwrap_or_default();
            text.split_inclusive('\n')
                .filter(|line| line.ends_with('\n'))
                .map(|line| serde_json::from_str(line).expect("a window"))
                .collect()
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
        assert_eq!(out.trim_end(), format!("{{\"decisions\":0,\"windows\":{count}}}"));
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
        .chain((11..=80).map(|at| window(at, 5)))
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
    assert_eq!(end["windows"], 80);
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

/// A load that is more than the server can do, then one that is not.
fn too_much() -> String {
    let window = |at: u32, queued: f64, refused: u32| {
        format!(
            "{{\"at-ms\":{},\"span-ms\":1000,\"cpu\":0.98,\"run-queue\":0.1,\"memory-stalled\":0.0,\"io-stalled\":0.0,\
             \"major-faults\":0,\"memory\":null,\"resident\":90000000,\"open\":4000,\"accepted\":0,\"requests\":9000,\
             \"loads\":0,\"bytes-sent\":3000000,\"delay-ms\":6.0,\"queued\":{queued:.2},\"refused\":{refused}}}\n",
            at * 1000
        )
    };
    (1..=5)
        .map(|at| window(at, 0.97, 0))
        .chain((6..=20).map(|at| window(at, 0.02, 4000)))
        .chain((21..=40).map(|at| window(at, 0.0, 0)))
        .collect()
}

#[test]
fn a_recorded_overload_begins_to_refuse_and_ends_when_nobody_has_to_be() {
    let tree = Tree::new();
    let recording = tree.write("sensors.jsonl", too_much());
    let (code, out, complaint) = replay(&recording);
    assert_eq!(code, 0, "{complaint}");
    let decisions: Vec<(u64, String, String)> = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|line| line["decision"]["knob"] == "admission")
        .map(|line| {
            let text = |key: &str| line["decision"][key].as_str().expect(key).to_owned();
            (line["at-ms"].as_u64().expect("a time"), text("to"), text("why"))
        })
        .collect();
    assert_eq!(decisions.len(), 2, "{out}");
    assert_eq!((decisions[0].0, decisions[0].1.as_str()), (2000, "turns of 5ms"));
    assert!(decisions[0].2.contains("97 % of the time") && decisions[0].2.contains("4000 connections"));
    assert_eq!(
        (decisions[1].0, decisions[1].1.as_str()),
        (25_000, "all requests")
    );
}

#[test]
fn what_is_no_recording_is_refused_by_line() {
    let tree = Tree::new();
    let good = a_bad_time();
    let broken = tree.write("broken.jsonl", format!("{}{{\"at-ms\":1}}\n", &good));
    let (code, _, complaint) = replay(&broken);
    assert_eq!(code, 2, "{complaint}");
    assert!(complaint.contains("line 81"), "{complaint}");
    // A server that was killed leaves half a line.
    let half = tree.write("half.jsonl", &good[..good.len() - 20]);
    assert_eq!(replay(&half).0, 0);
    let (code, _, complaint) = replay(&tree.join("nothing"));
    assert_eq!(code, 4, "{complaint}");
}
