//! What `weir load plan` prints: the stream of a run, its parts, and when it refuses.

use crate::workload::{conforms, lines, printed, refused};
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
/// machine sends alone. For everybody who can ask.
#[test]
fn the_parts_of_a_plan_are_the_whole() {
    let dir = TempDir::new().expect("a folder");
    let path = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (webstone, microscape) = (path("webstone"), path("microscape"));
    printed(&["site", "webstone", &webstone]);
    printed(&["site", "microscape", &microscape]);
    let (urls, weighted, log) = (path("urls"), path("weighted"), path("access.log"));
    fs::write(&urls, (0..17).map(|n| format!("/{n}\n")).collect::<String>()).expect("written");
    let weights = (1..17).map(|n| format!("/{n} {n}\n"));
    fs::write(&weighted, weights.collect::<String>()).expect("written");
    let entry = |n: u32| {
        let (path, second) = (n * 7 % 11, n / 9);
        format!(
            "10.0.0.{} - - [10/Oct/2000:13:55:{second:02} -0700] \"GET /{path} HTTP/1.1\" 200 9\n",
            n % 5
        )
    };
    fs::write(&log, (0..200).map(entry).collect::<String>()).expect("written");
    for who in [
        &["--files", "200", "--users", "12"][..],
        &["--files", "200", "--sessions", "2"],
        &["--files", "200", "--rate", "3,9@10s"],
        &[
            "--files",
            "200",
            "--rate",
            "5",
            "--arrivals",
            "constant",
            "--seed",
            "9",
        ],
        &["--files", "200", "--clients", "12", "--nominal", "500ms"],
        &["--site", &webstone, "--clients", "12", "--nominal", "300ms"],
        &["--site", &webstone, "--rate", "20"],
        &["--site", &microscape, "--clients", "9", "--nominal", "50ms"],
        &["--urls", &urls, "--clients", "8", "--nominal", "250ms"],
        &["--urls", &urls, "--rate", "10"],
        &["--urls", &weighted, "--clients", "8", "--nominal", "250ms"],
        &["--urls", &weighted, "--rate", "10"],
        &["http://localhost/one.html", "--rate", "10"],
        &["--replay", &log, "--speed", "2"],
    ] {
        let said = |more: &[&str]| printed(&[&["load", "plan", "--duration", "20s"], who, more].concat());
        let alone = said(&[]);
        assert!(alone.lines().count() > 30, "{who:?}");
        conforms("load-plan.schema.json", &lines(&alone));
        for size in [2, 3, 7u32] {
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
    // Put behind `plan`, the words of a run that say how it is asked for change nothing.
    let how = [
        "--mode",
        "pipelined",
        "--verify",
        "--threads",
        "2",
        "--timeout",
        "3s",
        "--grace",
        "1s",
        "--lag-max",
        "1s",
        "--failures-max",
        "0.5",
        "--connections-per-user",
        "2",
        "--slo",
        "p99<1s",
    ];
    let url = "http://localhost:8080/";
    assert_eq!(
        printed(&[&users[..], &[url, "--site", path], &how[..]].concat()),
        of_site
    );
    // The same objects, asked for by others.
    let others = printed(&[&users[..], &["--site", path, "--seed", "6"]].concat());
    assert_ne!(others, of_site);
    let objects = |text: &str| -> Vec<Value> {
        lines(text)
            .iter()
            .map(|line| line["file"].clone())
            .take(50)
            .collect()
    };
    assert_eq!(objects(&others), objects(&of_site));
    let error = refused(&[&users[..], &["--site", path, "--files", "9"]].concat(), 2);
    assert!(error.contains("defines the workload"), "{error}");

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

/// Before a run one sees how much of a pass it takes, and how unlike the pass that is.
#[test]
fn a_summary_says_what_a_run_takes_of_a_pass() {
    let requests = lines(&printed(&SMALL));
    let sums = &lines(&printed(&[&SMALL[..], &["--summary", "--json"]].concat()))[0];
    let mut objects: Vec<u64> = Vec::new();
    let mut bytes = 0;
    for request in &requests {
        bytes += request["size"].as_u64().expect("a size");
        if !request["intended_ns"].is_null() {
            objects.push(request["object"].as_u64().expect("an object"));
        }
    }
    let taken = &sums["taken"];
    let mean = taken["object_mean_bytes"].as_f64().expect("sizes are known");
    assert!(
        (mean - f64::from(bytes as u32) / objects.len() as f64).abs() < 1e-6,
        "{taken}"
    );
    objects.sort_unstable();
    objects.dedup();
    assert_eq!(taken["distinct_objects"], objects.len());
    let pass = &taken["pass"];
    assert!(pass["distinct_objects"].as_u64() > taken["distinct_objects"].as_u64());
    let distance = pass["distance"].as_f64().expect("a distance");
    assert!((0.001..0.4).contains(&distance), "{distance}");
    // So many objects that it is a pass, again and again.
    let whole = [
        "load",
        "plan",
        "--files",
        "60",
        "--references",
        "300",
        "--rate",
        "2000",
        "--arrivals",
        "constant",
        "--summary",
        "--json",
    ];
    let taken = &lines(&printed(&whole))[0]["taken"];
    assert_eq!(taken["distinct_objects"], taken["pass"]["distinct_objects"]);
    assert!(
        taken["pass"]["distance"].as_f64().expect("a distance") < 0.02,
        "{taken}"
    );
    assert!(printed(&[&SMALL[..], &["--summary"]].concat()).contains("a whole pass"));
    // Of a path nothing is known before it is asked for.
    let path = [
        "load",
        "plan",
        "http://localhost/one.html",
        "--rate",
        "10",
        "--summary",
        "--json",
    ];
    let taken = &lines(&printed(&path))[0]["taken"];
    assert!(
        taken["object_mean_bytes"].is_null() && taken["pass"].is_null(),
        "{taken}"
    );
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
