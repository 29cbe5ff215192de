//! Configurations that others published, in packages of npm, Go and Debian: none makes the converter crash, and `weir serve
//! --check` accepts every result. `tests/convert/corpus` downloads and converts them; `.ci/run` has it fill the cache. Without the
//! cache, the test is skipped.

use crate::cli::{WEIR, text};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Smallest share of directives that are in the result or need no line, in percent, by server.
const FLOORS: [(&str, u64); 3] = [("nginx", 65), ("caddy", 40), ("apache", 75)];

/// Fewest configurations of a server for its share to mean something.
const FILES_MIN: u64 = 30;

/// Seconds for all of them. Packages beyond are skipped.
const SECONDS: &str = "50";

#[test]
fn published_configurations_become_valid_ones() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/convert/corpus");
    let run = Command::new("python3")
        .arg(script)
        .args([WEIR, "--offline", "--json", "--seconds", SECONDS])
        .output();
    let Ok(output) = run else {
        println!("skipped: python3 is not on this machine");
        return;
    };
    let said = text(&output.stdout);
    if said.starts_with("skipped: ") {
        println!("{said}");
        return;
    }
    let found: Value = serde_json::from_str(&said).unwrap_or_else(|error| {
        panic!(
            "the script ended with {}: {error}: {}",
            output.status,
            text(&output.stderr)
        )
    });
    for why in found["skipped"].as_array().expect("a list") {
        println!("skipped: {}", why.as_str().expect("text"));
    }
    let faults = found["faults"].as_array().expect("a list");
    let ours: Vec<&Value> = faults.iter().filter(|fault| fault["what"] != "refused").collect();
    assert!(ours.is_empty(), "{ours:#?}");
    let rows = found["rows"].as_array().expect("a list");
    for (dialect, floor) in FLOORS {
        let sum = |key: &str| -> u64 {
            let of_dialect = rows.iter().filter(|row| row["dialect"] == dialect);
            of_dialect.map(|row| row[key].as_u64().expect("a count")).sum()
        };
        if sum("files") < FILES_MIN {
            println!(
                "skipped: {} configurations of {dialect} are too few",
                sum("files")
            );
            continue;
        }
        let carried = sum("carried") + sum("unneeded") + sum("changed");
        let all = carried + sum("missing") + sum("open");
        assert!(
            carried * 100 >= floor * all,
            "{dialect}: {carried} of {all} directives, and not {floor} %"
        );
    }
}
