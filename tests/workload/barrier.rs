//! `weir load --start-with`: ranks in a folder that they share start together, name a rank that does not come, and do not start
//! with files of an earlier run.

use crate::fixture::served;
use crate::workload::{lines, printed, refused};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// Lag is not the matter here, and this machine may be busy.
const PATIENT: [&str; 3] = ["--quiet", "--lag-max", "60s"];

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

/// The arguments of a rank of three.
fn arguments<'a>(url: &'a str, rank: &'a str, shared: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let all = [
        "load",
        url,
        "--rank",
        rank,
        "--size",
        "3",
        "--start-with",
        text(shared),
    ];
    [&all[..], &PATIENT, more].concat()
}

fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a rank")
}

fn end(rank: Child) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = rank.wait_with_output().expect("an end");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// Three processes agree on a start, and the folder serves no other run.
#[test]
fn ranks_start_when_all_have_come() {
    let site = served(&["surge", "--files", "80", "--size-max", "50000"]);
    let dir = TempDir::new().expect("a folder");
    let shared = dir.path().join("a/run");
    let out = dir.path().join("rank-{rank}.json");
    let more = [
        "--site",
        site.path(),
        "--users",
        "30",
        "--stagger",
        "10ms",
        "--duration",
        "2s",
        "--out",
        text(&out),
    ];
    // Rank 0 comes neither first nor last.
    let ranks = ["2", "0", "1"].map(|rank| start(&arguments(&site.url, rank, &shared, &more)));
    for rank in ranks {
        let (code, said) = end(rank);
        assert_eq!(code, Some(0), "{said}");
    }
    let parts = ["0", "1", "2"].map(|rank| dir.path().join(format!("rank-{rank}.json")));
    let starts: Vec<Value> = parts
        .iter()
        .map(|part| {
            let part = fs::read_to_string(part).expect("a result");
            lines(&part)[0]["start_at"].clone()
        })
        .collect();
    assert!(
        starts[0].is_f64() && starts.iter().all(|start| *start == starts[0]),
        "{starts:?}"
    );
    let merge: Vec<&str> = ["load", "merge"]
        .into_iter()
        .chain(parts.iter().map(|part| text(part)))
        .collect();
    printed(&merge);
    for rank in ["0", "1"] {
        let error = refused(&arguments(&site.url, rank, &shared, &more), 2);
        assert!(error.contains("was used by an earlier run"), "{error}");
    }
}

/// Two of three ranks give up, name the third, and leave a folder that can be used again.
#[test]
fn a_rank_that_does_not_come_is_named() {
    let site = served(&["webstone"]);
    let dir = TempDir::new().expect("a folder");
    let shared = dir.path().join("run");
    let more = ["--clients", "3", "--duration", "1s", "--start-timeout", "3s"];
    let ranks = ["0", "1"].map(|rank| start(&arguments(&site.url, rank, &shared, &more)));
    for rank in ranks {
        let (code, said) = end(rank);
        assert_eq!(code, Some(3), "{said}");
        // On a busy machine, the two may not even have met each other.
        assert!(said.contains("not come"), "{said}");
    }
    let left: Vec<_> = fs::read_dir(&shared).expect("a folder").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    // Files that other ranks of earlier runs have left count for nothing.
    for name in ["1-2-3.rank-1", "1-2-3.rank-2", "1-2-3.start"] {
        fs::write(shared.join(name), "1\n").expect("written");
    }
    let more = ["--clients", "3", "--duration", "1s", "--start-timeout", "1s"];
    let error = refused(&arguments(&site.url, "0", &shared, &more), 3);
    assert!(error.contains("2 of 3 ranks have not come (1, 2)"), "{error}");
    let error = refused(&arguments(&site.url, "1", &shared, &more), 3);
    assert!(error.contains("rank 0 has not come"), "{error}");
}

/// A rank with other flags would make another run.
#[test]
fn ranks_of_another_plan_are_refused() {
    let dir = TempDir::new().expect("a folder");
    let shared = dir.path().join("run");
    fs::create_dir(&shared).expect("a folder");
    let announced = r#"{"run":"1-2-3","plan":"another","size":3}"#;
    fs::write(shared.join("run.json"), announced).expect("written");
    let site = served(&["webstone"]);
    let error = refused(&arguments(&site.url, "1", &shared, &["--clients", "3"]), 2);
    assert!(error.contains("give all ranks the same flags"), "{error}");
    for (more, fragment) in [
        (&["--start-at", "1000"][..], "cannot be used with"),
        (&["--start-timeout", "0s"], "more than 0"),
    ] {
        let error = refused(&arguments(&site.url, "1", &shared, more), 2);
        assert!(error.contains(fragment), "{error}");
    }
    let error = refused(&["load", &site.url, "--start-timeout", "3s"], 2);
    assert!(error.contains("--start-with"), "{error}");
}
