//! `weir cache replay --shared`: outcomes computed by hand, what is said of requests that cannot be judged, and the schema.

use super::{Folder, replay, row, rows, text};
use serde_json::Value;

/// A line of the Common format, some seconds after the first.
fn line(second: u64, request: &str, status: u16, bytes: &str) -> String {
    let (minute, second) = (49 + second / 60, second % 60);
    format!(
        "192.0.2.1 - - [06/Nov/1994:08:{minute:02}:{second:02} +0000] \"{request} HTTP/1.1\" {status} {bytes}\n"
    )
}

/// Four responses, of which three fit into 64 KiB, and a lifetime of a minute.
fn four() -> String {
    let get = |second, name: &str| line(second, &format!("GET /api/{name}"), 200, "20000");
    [
        get(0, "a"),
        get(1, "b"),
        get(2, "c"),
        get(3, "a"),
        get(4, "d"),
        get(5, "b"),
        get(6, "a"),
        get(60, "a"),
        line(61, "GET /api/a", 304, "-"),
    ]
    .concat()
}

/// The figures of a row.
#[track_caller]
fn figures(row: &Value, names: &[&str]) -> Vec<u64> {
    names
        .iter()
        .map(|name| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}")))
        .collect()
}

const SHARED: [&str; 4] = ["access.log", "--shared", "--lifetime", "1m"];

#[test]
fn outcomes_are_those_computed_by_hand() {
    let folder = Folder::with(&[("access.log", &four())]);
    let args = [&SHARED[..], &["--size", "64KiB", "--policy", "lru", "--json"]].concat();
    let output = replay(&folder, &args, "");
    let (head, rows) = rows(&output);
    assert_eq!(
        figures(&head, &["lines", "requests", "requested-bytes", "targets"]),
        [9, 9, 160_000, 4]
    );
    let assumed = &head["assumed"];
    assert_eq!(figures(assumed, &["lifetime-s", "negative-s"]), [60, 0]);
    let names = [
        "hits",
        "hit-bytes",
        "misses",
        "stale",
        "fetched-bytes",
        "fetched-bytes-if-304",
        "stored",
        "evictions",
    ];
    // a b c miss, a hit, d miss (out: b), b miss (out: c), a hit, a stale (out: d, as both take room), 304 from the cache.
    let lru = row(&rows, "lru");
    assert_eq!(figures(lru, &names), [3, 40_000, 5, 1, 120_000, 100_000, 6, 3]);
    assert_eq!(
        (&lru["hit-ratio"], &lru["byte-hit-ratio"]),
        (&(3.0 / 9.0).into(), &0.25.into())
    );
    // With room for all, only the first requests and the one after a minute go to the upstream.
    let infinite = row(&rows, "infinite");
    assert_eq!(
        figures(infinite, &names),
        [4, 60_000, 4, 1, 100_000, 80_000, 5, 0]
    );
    assert_eq!(infinite["capacity"], Value::Null);
    assert_eq!(
        replay(&folder, &args, "").stdout,
        output.stdout,
        "it is deterministic"
    );

    let args = [&SHARED[..], &["--size", "64KiB", "--policy", "lru", "--csv"]].concat();
    let csv = text(&replay(&folder, &args, "").stdout);
    assert!(
        csv.contains("\n65536,lru,9,3,0.333333,0.250000,5,1,120000,100000,6,0,0,3,0,0,0\n"),
        "{csv}"
    );
}

#[test]
fn every_size_and_policy_has_a_row() {
    let folder = Folder::with(&[("access.log", &four())]);
    let (_, rows) = rows(&replay(&folder, &[&SHARED[..], &["--json"]].concat(), ""));
    let names: Vec<(Option<u64>, &str)> = rows
        .iter()
        .map(|row| (row["capacity"].as_u64(), row["name"].as_str().expect("a name")))
        .collect();
    let mut expected = Vec::new();
    for mib in [16, 64, 256, 1_024] {
        expected.extend(["lru", "lfu", "s3-fifo"].map(|name| (Some(mib << 20), name)));
    }
    expected.push((None, "infinite"));
    assert_eq!(names, expected);
}

#[test]
fn json_lines_keep_to_the_schema() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/schemas/cache-replay-shared.schema.json"
    );
    let schema: Value = serde_json::from_slice(&std::fs::read(path).expect("the schema")).expect("JSON");
    let kinds = schema["oneOf"].as_array().expect("a schema for each event");
    let folder = Folder::with(&[("access.log", &(four() + "nonsense\n"))]);
    for more in [
        &["--json"][..],
        &["--path", "/api/*", "--negative-time", "5s", "--json"],
        &[
            "--vary",
            "Accept-Language,User-Agent",
            "--stale-while-revalidate",
            "5s",
            "--stale-if-error",
            "1h",
            "--json",
        ],
    ] {
        let (head, rows) = rows(&replay(&folder, &[&SHARED[..], more].concat(), ""));
        crate::schema::check(&kinds[0], &head, "the first line");
        for row in &rows {
            crate::schema::check(&kinds[1], row, "a row");
        }
    }
}

#[test]
fn requests_that_cannot_be_judged_are_counted_by_reason() {
    let more = [
        line(62, "POST /api/a", 500, "10"),
        line(62, "GET /api/a", 302, "20"),
        line(62, "GET /api/a", 404, "30"),
        "{\"time\":\"1994-11-06T08:50:02Z\",\"peer\":\"::1\",\"method\":\"GET\",\"target\":\"/api/a\",\
         \"version\":\"HTTP/1.1\",\"status\":200}\n"
            .to_owned(),
        line(62, "GET /other", 200, "40"),
        line(62, "OPTIONS *", 200, "0"),
        line(1, "HEAD /api/a", 200, "-"),
        "nonsense\n".to_owned(),
    ];
    let folder = Folder::with(&[("access.log", &(four() + &more.concat()))]);
    let args = [&SHARED[..], &["--path", "/api/*"]].concat();
    let output = replay(&folder, &args, "");
    let table = text(&output.stdout);
    for wanted in [
        "10 of 17 lines replayed: requests for 4 targets",
        "assumed, as the log has no Cache-Control: each response is fresh for 1m; errors are not stored",
        "content up to 4 MiB",
        "always from the upstream: 1 not GET or HEAD, 2 with a status that is not stored, 1 of unknown length; 60 B in all",
        "skipped: 1 not understood, 1 with a target that is no path, 1 for other paths",
        "first not understood: access.log, line 17, column 9",
        "out of order: 1 lines",
        "s3-fifo",
        "infinite",
    ] {
        assert!(table.contains(wanted), "{wanted} is not in\n{table}");
    }
    // A POST that succeeds drops what is stored; with a time of their own, errors are judged.
    let changed = line(62, "POST /api/a", 204, "-") + &line(63, "GET /api/a", 404, "5");
    let log = four() + &changed + &line(64, "GET /api/a", 404, "5");
    let args = [
        "-",
        "--shared",
        "--lifetime",
        "1m",
        "--negative-time",
        "5s",
        "--json",
    ];
    let (head, rows) = rows(&replay(&folder, &args, &log));
    assert_eq!(
        figures(&head["not-judged"], &["method", "status", "length"]),
        [1, 0, 0]
    );
    let infinite = row(&rows, "infinite");
    assert_eq!(
        figures(infinite, &["hits", "misses", "stale", "invalidated"]),
        [5, 5, 1, 1]
    );
}

/// A line of `weir serve --log-format json`, some seconds after the first, with these other members.
fn json(second: u64, target: &str, status: u16, bytes: u64, more: &str) -> String {
    let (minute, second) = (49 + second / 60, second % 60);
    format!(
        "{{\"time\":\"1994-11-06T08:{minute:02}:{second:02}Z\",\"peer\":\"192.0.2.1\",\"method\":\"GET\",\
         \"target\":\"{target}\",\"version\":\"HTTP/1.1\",\"status\":{status},\"body_bytes\":{bytes}{more}}}\n"
    )
}

#[test]
fn responses_vary_by_the_fields_that_the_log_has() {
    let agent = |second, agent: &str| {
        line(second, "GET /api/a", 200, "100").trim_end().to_owned() + &format!(" \"-\" \"{agent}\"\n")
    };
    let in_german = |second, value: &str| {
        json(
            second,
            "/api/a",
            200,
            100,
            &format!(",\"accept_language\":\"{value}\""),
        )
    };
    let log = [
        agent(0, "curl"),
        agent(1, "firefox"),
        agent(2, "curl"),
        in_german(3, "de, en"),
        in_german(4, "DE,en"),
        // The Common format has neither field.
        line(5, "GET /api/a", 200, "100"),
    ]
    .concat();
    let folder = Folder::with(&[("access.log", &log)]);
    let counted = |vary: &[&str]| {
        let args = [
            &SHARED[..],
            vary,
            &["--size", "1MiB", "--policy", "lru", "--json"],
        ]
        .concat();
        let (head, rows) = rows(&replay(&folder, &args, ""));
        let figures = [
            figures(row(&rows, "lru"), &["hits", "misses"]),
            figures(&head, &["targets", "variants"]),
        ];
        (figures.concat(), head["vary"].clone())
    };
    assert_eq!(counted(&[]), (vec![5, 1, 1, 1], serde_json::json!([])));
    let (figures, vary) = counted(&["--vary", "User-Agent"]);
    // curl, firefox, curl again, and three without the field.
    assert_eq!(figures, [3, 3, 1, 3]);
    assert_eq!(
        vary,
        serde_json::json!([{ "field": "user-agent", "requests": 3 }])
    );
    let (figures, vary) = counted(&["--vary", "user-agent", "--vary", "Accept-Language"]);
    // curl, firefox, curl again, German, German again, and one with neither.
    assert_eq!(figures, [2, 4, 1, 4]);
    assert_eq!(
        vary,
        serde_json::json!([
            { "field": "accept-language", "requests": 2 },
            { "field": "user-agent", "requests": 3 }
        ])
    );
    // What the log does not have is said.
    let args = [&SHARED[..], &["--vary", "Cookie"]].concat();
    let table = text(&replay(&folder, &args, "").stdout);
    assert!(
        table.contains("each response varies by cookie (0 of 6 requests have it); variants: 1"),
        "{table}"
    );
    assert!(table.contains("no Authorization or private"), "{table}");
}

#[test]
fn stale_responses_are_served_as_the_flags_say() {
    let get = |second, status, bytes| line(second, "GET /api/a", status, bytes);
    let log = [
        get(0, 200, "1000"),
        get(59, 200, "1000"),
        // Stale for 5 s: served, and fetched again.
        get(65, 200, "1000"),
        get(66, 503, "9"),
        // Stale for 10 s and 19 s.
        get(135, 503, "9"),
        get(144, 502, "9"),
        // Stale for 20 s.
        get(145, 503, "9"),
        get(146, 304, "-"),
    ]
    .concat();
    let folder = Folder::with(&[("access.log", &log)]);
    let counted = |flags: &[&str]| {
        let args = [
            &SHARED[..],
            flags,
            &["--size", "1MiB", "--policy", "lru", "--json"],
        ]
        .concat();
        let (head, rows) = rows(&replay(&folder, &args, ""));
        let names = [
            "hits",
            "misses",
            "stale",
            "stale-hits",
            "stood-in",
            "errors",
            "fetched-bytes",
        ];
        let counts = figures(row(&rows, "lru"), &names);
        (counts, head["not-judged"]["status"].as_u64())
    };
    // Errors are not judged.
    assert_eq!(counted(&[]), (vec![1, 1, 2, 0, 0, 0, 3_000], Some(4)));
    let (while_valid, if_error) = (["--stale-while-revalidate", "10s"], ["--stale-if-error", "20s"]);
    assert_eq!(counted(&while_valid), (vec![2, 1, 1, 1, 0, 0, 3_000], Some(4)));
    // The fresh response hides one error, the stale one two.
    assert_eq!(counted(&if_error), (vec![2, 1, 5, 0, 2, 1, 3_000], Some(0)));
    let both = [while_valid, if_error].concat();
    assert_eq!(counted(&both), (vec![3, 1, 4, 1, 2, 1, 3_000], Some(0)));
    let table = text(&replay(&folder, &[&SHARED[..], &both[..]].concat(), "").stdout);
    for wanted in [
        "a stale response is served for 10s while it is validated",
        "a stale response is served for 20s in place of a 500, 502, 503 or 504",
        "stale hits   stood in     errors",
    ] {
        assert!(table.contains(wanted), "{wanted} is not in\n{table}");
    }
}

#[test]
fn hosts_are_told_apart() {
    let log: String = ["a:80", "b:80", "a:80"]
        .map(|host| format!("{host} {}", line(0, "GET /", 200, "5")))
        .concat();
    let folder = Folder::with(&[("access.log", &log)]);
    let (head, rows) = rows(&replay(&folder, &[&SHARED[..], &["--json"]].concat(), ""));
    assert_eq!(head["targets"], 2);
    assert_eq!(row(&rows, "infinite")["hits"], 1);
}

#[test]
fn mistakes_are_named() {
    let folder = Folder::with(&[
        ("access.log", &four()),
        ("post.log", &line(0, "POST /", 200, "1")),
        ("other.log", "<xml/>\n"),
    ]);
    for (args, wanted) in [
        (&["access.log", "--shared"][..], "--lifetime <TIME>"),
        (&["access.log", "--lifetime", "1m"], "--shared"),
        (
            &["access.log", "--shared", "--lifetime", "500ms"],
            "the shortest lifetime is 1s",
        ),
        (
            &["access.log", "--shared", "--lifetime", "1m", "--size", "10%"],
            "write --size 64MiB",
        ),
        (
            &["access.log", "--shared", "--lifetime", "1m", "--size", "1KiB"],
            "the minimum is 64 KiB",
        ),
        (
            &["access.log", "--shared", "--lifetime", "1m", "--root", "."],
            "cannot be used with",
        ),
        (
            &["access.log", "--shared", "--lifetime", "1m", "--vary", "*"],
            "answers no other request",
        ),
        (
            &["access.log", "--shared", "--lifetime", "1m", "--vary", "a b"],
            "not a field name",
        ),
        (&["access.log", "--vary", "User-Agent"], "--shared"),
        (
            &["access.log", "--shared", "--lifetime", "1m", "--path", "a"],
            "not a path pattern",
        ),
        (
            &["access.log", "--shared", "--lifetime", "1m", "--path", "/b/*"],
            "GET or HEAD for `/b/*` whose response",
        ),
        (
            &["post.log", "--shared", "--lifetime", "1m"],
            "nothing to replay (1 lines)",
        ),
        (
            &["other.log", "--shared", "--lifetime", "1m"],
            "other.log, line 1, column 7",
        ),
        (
            &["none.log", "--shared", "--lifetime", "1m"],
            "cannot read the log `none.log`",
        ),
        (&["/dev/zero", "--shared", "--lifetime", "1m"], "has no end"),
    ] {
        let output = replay(&folder, args, "");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(wanted), "{args:?}: {wanted} is not in {said}");
    }
}
