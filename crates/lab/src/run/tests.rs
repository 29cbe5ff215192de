//! The runner against a program that prints what a test needs: a shell script in place of the binary.

use super::*;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

const PLAN: &str = r#"
document = "000"
title = "t"
question = "q"
prediction = "p"
[[arm]]
name = "a"
world = "measured"
over = { x = ["1", "2"] }
repetitions = { quick = 2, full = 2, paper = 2 }
seconds = { quick = 0.1, full = 1, paper = 1 }
run = [["say", "{x}", "{seed}"]]
read = [{ values = { v = "/v" } }]
[[arm]]
name = "b"
world = "measured"
repetitions = { quick = 1, full = 1, paper = 1 }
seconds = { quick = 0.1, full = 1, paper = 1 }
needs = ["program:no-such-program-anywhere"]
run = [["say", "3", "3"]]
read = [{ values = { v = "/v" } }]
"#;

/// A folder with a program that does this and notes each call.
fn lab(script: &str) -> (TempDir, Settings) {
    let folder = TempDir::new().expect("a folder");
    let weir = folder.path().join("weir");
    let calls = folder.path().join("calls");
    let text = format!("#!/bin/sh\necho \"$@\" >> {}\n{script}\n", calls.display());
    fs::write(&weir, text).expect("a script");
    fs::set_permissions(&weir, fs::Permissions::from_mode(0o755)).expect("its mode");
    let settings = Settings {
        weir,
        program: "weir 0".to_owned(),
        out: folder.path().join("out"),
        size: Size::Quick,
        steal_max_pct: 100.0,
        only: Vec::new(),
    };
    (folder, settings)
}

fn go(settings: &Settings) -> Tally {
    let plan = Plan::parse("p", PLAN).expect("a plan");
    run("s", PLAN, &plan, settings, &mut |_| {}).expect("a run")
}

fn calls(folder: &TempDir) -> Vec<String> {
    let text = fs::read_to_string(folder.path().join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn arms_take_turns_and_what_is_missing_is_not_run() {
    let (folder, settings) = lab("echo \"{\\\"v\\\": $2}\"");
    let tally = go(&settings);
    assert_eq!((tally.done, tally.kept, tally.not_run), (4, 0, 1));
    assert_eq!(calls(&folder), ["say 1 1", "say 2 1", "say 1 2", "say 2 2"]);
    let plan = Plan::parse("p", PLAN).expect("a plan");
    let results = results(&settings.out, "s", &plan).expect("results");
    assert_eq!(results.len(), 5);
    let missing = &results["results/s/b.0.jsonl"].head;
    assert_eq!(missing.reason, "no-such-program-anywhere is not installed");
    let two = results["results/s/a-x=2.1.jsonl"].observations(&plan, "f");
    assert_eq!((two[0].value, two[0].labels["x"].as_str()), (2.0, "2"));
}

#[test]
fn what_is_there_is_not_run_again_and_what_was_cut_is() {
    let (folder, settings) = lab("echo \"{\\\"v\\\": $2}\"");
    go(&settings);
    let path = settings.out.join("results/s/a-x=2.0.jsonl");
    let text = fs::read_to_string(&path).expect("a result");
    fs::write(&path, &text[..text.len() / 2]).expect("cut");
    let tally = go(&settings);
    assert_eq!((tally.done, tally.kept), (4, 3));
    assert_eq!(calls(&folder)[4..], ["say 2 1"]);
    // Another program makes other results.
    let other = Settings {
        program: "weir 1".to_owned(),
        ..settings
    };
    assert_eq!(go(&other).kept, 0);
}

#[test]
fn a_run_that_says_it_is_invalid_is_repeated_and_then_left() {
    let (folder, settings) = lab("echo \"{\\\"v\\\": $2}\"; test $2 = 1 || exit 3");
    let tally = go(&settings);
    assert_eq!((tally.done, tally.invalid), (2, 2));
    let tried = calls(&folder)
        .iter()
        .filter(|call| call.starts_with("say 2"))
        .count();
    assert_eq!(tried, 6);
    let plan = Plan::parse("p", PLAN).expect("a plan");
    let results = results(&settings.out, "s", &plan).expect("results");
    let head = &results["results/s/a-x=2.0.jsonl"].head;
    assert_eq!((head.status, head.excluded), (Status::Invalid, 2));
}

#[test]
fn a_program_that_fails_says_why() {
    let (_folder, settings) = lab("echo nonsense >&2; exit 4");
    assert_eq!(go(&settings).failed, 4);
    let plan = Plan::parse("p", PLAN).expect("a plan");
    let results = results(&settings.out, "s", &plan).expect("results");
    let reason = &results["results/s/a-x=1.0.jsonl"].head.reason;
    assert_eq!(reason, "`weir say 1 1`: exit code 4: nonsense");
}
