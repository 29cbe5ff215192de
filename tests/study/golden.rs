//! Numbers of simulated arms of the five documents, in the form that a report publishes: the same on every machine, by seed.
//! Decides which arms are compared: short ones of each document. Leaves it to `hosts` and `tcp` why they are so.

use crate::cli::{text, weir};
use std::fmt::Write as _;
use std::fs;
use tempfile::TempDir;

/// Published numbers, a section for each study. These arms together take seconds in a development build.
fn published() -> String {
    let mut all = String::new();
    for (study, arms) in [
        ("heidemann", "then$"),
        ("w3c", "then-initial,then-modem"),
        ("barford", "then-two$"),
        ("jaws", "then-lock$,then-protocol$"),
        ("qos", "tables,transaction,waiting,savings,experiment"),
    ] {
        let folder = TempDir::new().expect("a folder");
        let place = |name: &str| folder.path().join(name).to_str().expect("text").to_owned();
        let output = weir(&[
            "study",
            study,
            "--full",
            "--only",
            arms,
            "--out",
            &place("out"),
            "--publish",
            &place("published"),
        ]);
        assert_eq!(output.status.code(), Some(0), "{study}: {}", text(&output.stderr));
        let values = format!("published/results/{study}-values.csv");
        let values = fs::read_to_string(place(&values)).expect("values");
        write!(all, "{study}\n{values}").expect("text");
    }
    all
}

#[test]
fn simulated_numbers_are_the_same_everywhere() {
    let all = published();
    if all != include_str!("golden.csv") {
        let path = std::env::temp_dir().join("weir-golden.csv");
        fs::write(&path, &all).expect("a file for comparison");
        panic!(
            "if a simulation changed on purpose, replace tests/study/golden.csv by {}",
            path.display()
        );
    }
}
