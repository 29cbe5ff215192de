//! What `weir load plan` prints: the stream of a run, its parts, and when it refuses.

use crate::{conforms, lines, printed, refused};
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

const SMALL: [&str; 8] = [
    "load",
    "plan",
    "--files",
    "200",
    "--users",
    "12",
    "--duration",
    "40s",
];

#[test]
fn every_line_is_a_request() {
    let requests = lines(&printed(&SMALL));
    assert!(requests.len() > 100, "{}", requests.len());
    conforms("load-plan.schema.json", &requests);
    for (n, request) in requests.iter().enumerate() {
        assert_eq!(request["n"], n);
    }
}

/// The parts of any number of machines are what all of them send, byte for byte; and, but for who sends it, what one
/// machine sends alone.
#[test]
fn the_parts_of_a_plan_are_the_whole() {
    let base = ["load", "plan", "--files", "200", "--duration", "20s"];
    for who in [
        &["--users", "12"][..],
        &["--sessions", "2"],
        &["--rate", "3,9@10s"],
    ] {
        let said = |more: &[&str]| printed(&[&base[..], who, more].concat());
        let alone = said(&[]);
        assert!(alone.lines().count() > 30, "{who:?}");
        for size in 2..=7u32 {
            let size_text = size.to_string();
            let whole = said(&["--size", &size_text]);
            let mut parts: Vec<String> = Vec::new();
            for rank in 0..size {
                let part = said(&["--size", &size_text, "--rank", &rank.to_string()]);
                parts.extend(part.lines().map(str::to_owned));
            }
            let n = |line: &String| serde_json::from_str::<Value>(line).expect("JSON")["n"].as_u64();
            parts.sort_by_key(n);
            assert_eq!(parts, whole.lines().collect::<Vec<_>>(), "{who:?} {size}");
            let unranked = |line: &str| {
                let (before, rest) = line.split_once("\"rank\":").expect("a rank");
                let rank = rest.find(',').expect("more after it");
                format!("{before}\"rank\":0{}", &rest[rank..])
            };
            let unranked: Vec<String> = parts.iter().map(|line| unranked(line)).collect();
            assert_eq!(unranked, alone.lines().collect::<Vec<_>>(), "{who:?} {size}");
        }
    }
}

#[test]
fn a_plan_for_a_site_is_the_plan_of_its_parameters() {
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().to_str().expect("text");
    printed(&["site", "surge", path, "--files", "200", "--seed", "5"]);
    let users = ["load", "plan", "--users", "12", "--duration", "40s"];
    let of_site = printed(&[&users[..], &["--site", path]].concat());
    let of_flags = printed(&[&SMALL[..], &["--seed", "5"]].concat());
    assert_eq!(of_site, of_flags);
    for request in lines(&of_site) {
        let file = dir
            .path()
            .join(request["path"].as_str().expect("a path").trim_start_matches('/'));
        assert_eq!(
            request["size"],
            fs::metadata(&file).expect("a file of the site").len()
        );
    }
    let error = refused(&[&users[..], &["--site", path, "--seed", "6"]].concat(), 2);
    assert!(error.contains("`--site` says what the workload is"), "{error}");

    let manifest = dir.path().join("manifest.json");
    let text = fs::read_to_string(&manifest).expect("a manifest");
    fs::write(&manifest, text.replacen("\"seed\": 5", "\"seed\": 6", 1)).expect("written");
    let error = refused(&[&users[..], &["--site", path]].concat(), 2);
    assert!(error.contains("write the site again"), "{error}");
}

#[test]
fn a_summary_counts_connections_by_mode() {
    let said = printed(&[&SMALL[..], &["--summary", "--json"]].concat());
    let sums = &lines(&said)[0];
    let connections = |mode: &str| sums["connections"][mode].as_u64().expect("a number");
    assert_eq!(
        connections("http10"),
        sums["requests"].as_u64().expect("a number")
    );
    assert_eq!(
        connections("early-close"),
        sums["objects"].as_u64().expect("a number")
    );
    assert_eq!(
        connections("serial"),
        sums["sessions"].as_u64().expect("a number")
    );
    assert_eq!(connections("pipelined"), connections("serial"));
    assert!(printed(&[&SMALL[..], &["--summary"]].concat()).contains("12 users"));
}

#[test]
fn what_cannot_be_planned_is_named() {
    for (arguments, fragment) in [
        (&["--users", "0"][..], "`--users`"),
        (&["--size", "50"], "`--size`"),
        (&["--rank", "1"], "`--rank`"),
        (&["--site", "/nonexistent"], "cannot read the manifest"),
    ] {
        let base: &[&str] = if arguments[0] == "--site" {
            &["load", "plan"]
        } else {
            &SMALL[..4]
        };
        let error = refused(&[base, arguments].concat(), 2);
        assert!(error.contains(fragment), "{error}");
    }
}
