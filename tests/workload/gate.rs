//! That `--require` decides the exit code of a run, and that `--junit` and `--markdown` write every check of a run, a
//! merge, a search and a comparison.

use crate::fixture::served;
use crate::workload::{conforms, lines, refused, result, weir};
use std::fs;
use tempfile::TempDir;

/// Lag is not the matter here, and this machine may be busy.
const PATIENT: [&str; 4] = ["--lag-max", "60s", "--stall-max", "1h"];

/// A folder, and the paths of two files in it.
fn files() -> (TempDir, String, String) {
    let dir = TempDir::new().expect("a folder");
    let [junit, markdown] =
        ["gate.xml", "gate.md"].map(|name| dir.path().join(name).to_str().expect("text").to_owned());
    (dir, junit, markdown)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn has(text: &str, wanted: &[&str]) {
    for wanted in wanted {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
}

#[test]
fn a_run_meets_or_misses_what_is_required_of_it() {
    let site = served(&["webstone"]);
    let (_dir, junit, markdown) = files();
    let run = [
        "load",
        &site.url,
        "--site",
        site.path(),
        "--rate",
        "200",
        "--duration",
        "1s",
        "--json",
    ];
    let summaries = ["--junit", &junit, "--markdown", &markdown];
    let met = [
        "--require",
        "p99<60s",
        "--require",
        "failures<=0",
        "--require",
        "rate>1",
    ];
    let (good, _) = result(&[&run[..], &PATIENT, &met, &summaries].concat(), 0);
    let outcomes = good["requirements"].as_array().expect("a list");
    assert_eq!(outcomes.len(), 3);
    assert!(outcomes.iter().all(|one| one["outcome"] == "met"), "{outcomes:?}");
    has(
        &read(&junit),
        &[
            "tests=\"4\" failures=\"0\" errors=\"0\"",
            "name=\"p99 &lt; 60 s\"",
        ],
    );
    has(
        &read(&markdown),
        &[
            "## weir load: passed\n",
            "| failures &lt;= 0 % | passed | 0.000 % (0 of ",
        ],
    );

    let missed = ["--require", "p99<1us", "--require", "failures<1%"];
    let (_, why) = result(&[&run[..], &PATIENT, &missed, &summaries].concat(), 1);
    has(&why, &["1 of 2 requirements is not met: p99 < 1 us: "]);
    has(
        &read(&junit),
        &["failures=\"1\" errors=\"0\"", "<failure message=\""],
    );
    has(&read(&markdown), &["## weir load: 1 failed\n"]);

    // A quantile of few requests is only their maximum.
    let few = ["--require", "p999<60s"];
    let (_, why) = result(&[&run[..], &PATIENT, &few, &summaries].concat(), 3);
    has(
        &why,
        &["requests are too few for p999, which needs 1000 or more: use --duration"],
    );
    has(&read(&junit), &["failures=\"0\" errors=\"1\""]);
}

/// Every request fails: no time is known, and the run is invalid before any requirement counts.
#[test]
fn failures_miss_requirements_and_are_not_dropped() {
    let site = served(&["webstone"]);
    let (_dir, junit, _) = files();
    let absent = format!("{}absent.html", site.url);
    let run = ["load", &absent, "--clients", "2", "--duration", "500ms", "--json"];
    let required = [
        "--require",
        "p99<60s",
        "--require",
        "failures<1%",
        "--junit",
        &junit,
    ];
    let (bad, why) = result(&[&run[..], &PATIENT, &required].concat(), 3);
    has(&why, &["the run is invalid"]);
    let outcomes = bad["requirements"].as_array().expect("a list");
    assert!(
        outcomes.iter().all(|one| one["outcome"] == "missed"),
        "{outcomes:?}"
    );
    has(&read(&junit), &["failures=\"2\" errors=\"1\"", "100.000 %"]);

    // If failures are allowed, the requirements decide: a failed request is no fast one.
    fs::write(site.dir.path().join("there.html"), "there").expect("a file");
    let urls = site.dir.path().join("urls");
    fs::write(&urls, "/there.html\n/absent.html\n").expect("a file");
    let run = [
        "load",
        &site.url,
        "--urls",
        urls.to_str().expect("text"),
        "--clients",
        "2",
    ];
    let short = ["--duration", "500ms", "--json", "--failures-max", "100%"];
    let (_, why) = result(&[&run[..], &short, &PATIENT, &required].concat(), 1);
    has(
        &why,
        &[
            "2 of 2 requirements are not met: p99 < 60 s: unknown: it falls on one of ",
            "; failures < 1 %: ",
        ],
    );
}

#[test]
fn a_merge_is_judged_and_a_rank_is_not() {
    let site = served(&["webstone"]);
    let (dir, junit, _) = files();
    let run = [
        "load",
        &site.url,
        "--site",
        site.path(),
        "--rate",
        "100",
        "--duration",
        "1s",
    ];
    let rank = |rank: &'static str| [&run[..], &PATIENT, &["--size", "2", "--rank", rank]].concat();
    let error = refused(&[&rank("0")[..], &["--require", "p99<1s"]].concat(), 2);
    has(&error, &["give it to `weir load merge`"]);
    let parts = ["0", "1"].map(|number| {
        let path = dir.path().join(number).to_str().expect("text").to_owned();
        let output = weir(&[&rank(number)[..], &["--out", &path]].concat());
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        path
    });
    let merge = [
        "load",
        "merge",
        &parts[0],
        &parts[1],
        "--require",
        "failures<=0",
        "--junit",
        &junit,
    ];
    let output = weir(&merge);
    // The ranks ran one after the other, so the merge is invalid; its requirement is judged all the same.
    assert_eq!(output.status.code(), Some(3));
    has(
        &read(&junit),
        &[
            "tests=\"2\" failures=\"0\" errors=\"1\"",
            "name=\"failures &lt;= 0 %\"",
        ],
    );
}

#[test]
fn a_search_and_a_comparison_have_summaries_too() {
    let site = served(&["webstone"]);
    let (dir, junit, markdown) = files();
    let summaries = ["--junit", junit.as_str(), "--markdown", markdown.as_str()];
    let run = ["load", &site.url, "--site", site.path(), "--duration", "500ms"];
    // No load meets this, so the search ends after few trials.
    let search = ["--clients", "2", "--slo", "max<1us"];
    refused(&[&run[..], &PATIENT, &search, &summaries].concat(), 1);
    has(
        &read(&junit),
        &[
            "tests=\"2\" failures=\"1\" errors=\"0\"",
            "name=\"max &lt; 1 us\"",
        ],
    );
    has(
        &read(&markdown),
        &["| max &lt; 1 us | **failed** | no tested number of clients meets"],
    );
    let error = refused(&[&run[..], &search, &["--require", "p50<1s"]].concat(), 2);
    has(&error, &["`--slo` is the requirement of a search"]);

    let out = dir.path().join("run.json").to_str().expect("text").to_owned();
    let long = [
        "load",
        &site.url,
        "--site",
        site.path(),
        "--rate",
        "50",
        "--duration",
        "4s",
        "--out",
        &out,
    ];
    assert!(weir(&[&long[..], &PATIENT].concat()).status.success());
    let output = weir(&[&["compare", &out, &out, "--json"][..], &summaries].concat());
    assert_eq!(output.status.code(), Some(0));
    conforms(
        "compare-result.schema.json",
        &lines(&String::from_utf8_lossy(&output.stdout)),
    );
    // One run a side does not decide.
    has(
        &read(&junit),
        &[
            "tests=\"9\" failures=\"0\" errors=\"0\" skipped=\"1\"",
            "classname=\"weir.compare\"",
        ],
    );
    has(
        &read(&markdown),
        &[
            "## weir compare: passed",
            "| measure | A | B |",
            "are compared with themselves",
        ],
    );
    // Both summaries in one file would leave one.
    let error = refused(&[&run[..], &["--junit", &out, "--markdown", &out]].concat(), 2);
    has(&error, &["`--markdown` and `--junit` both name"]);
}
