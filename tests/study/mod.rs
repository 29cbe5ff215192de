//! The black box of `weir study` and `weir demo`: the built binary, small plans, a run that is killed and goes on, keys
//! that mean nothing. Looks only at what is printed and written; needs no privilege.

#![allow(
    clippy::disallowed_methods,
    reason = "a black-box test is the outside world: it starts programs and reads files"
)]

mod golden;

use crate::cli::{WEIR, text, weir};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A plan with model arms, and one that needs what no machine has.
const PLAN: &str = r#"
document = "004"
title = "Small"
question = "q"
prediction = "p"
[[arm]]
name = "wait"
world = "model"
over = { users = ["5", "10", "20", "50"], packets = ["3", "5", "12"] }
repetitions = { quick = 3, full = 3, paper = 3 }
seconds = { quick = 0.1, full = 0.1, paper = 0.1 }
run = [["model", "waiting", "--users", "{users}", "--packets", "{packets}", "--packet-time", "36ms", "--format", "json"]]
read = [{ rows = "/tables/0/rows", labels = { m = "/0" }, values = { waiting = "/1", turnaround = "/2" } }]
[[arm]]
name = "moon"
world = "measured"
repetitions = { quick = 1, full = 1, paper = 1 }
seconds = { quick = 0.1, full = 0.1, paper = 0.1 }
needs = ["program:no-such-program-anywhere"]
run = [["model", "tables", "--format", "json"]]
read = [{ values = { gravity = "/g" } }]
[[claim]]
id = "mo-01"
by = ["model"]
rules = ["turnaround{users=50,packets=$packets,m=$m} - waiting{users=50,packets=$packets,m=$m} > 0"]
each = { packets = ["*"], m = ["*"] }
[[claim]]
id = "mo-02"
rules = ["gravity < 2"]
"#;

/// Writes the plan and says where it and the results are.
fn plan(text: &str) -> (TempDir, String, String) {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("small.toml");
    fs::write(&file, text).expect("a plan");
    let shown = |path: &Path| path.to_str().expect("text").to_owned();
    let out = folder.path().join("out");
    (folder, shown(&file), shown(&out))
}

/// The names of the results and what is in them.
fn results(out: &str) -> BTreeMap<String, String> {
    let folder = Path::new(out).join("results/small");
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read_to_string(entry.path()).expect("a result"))
        })
        .collect()
}

fn report(out: &str) -> Value {
    let text = fs::read_to_string(Path::new(out).join("report.json")).expect("report.json");
    serde_json::from_str(&text).expect("JSON")
}

fn verdict<'r>(report: &'r Value, id: &str) -> (&'r str, &'r str) {
    let ledger = report["ledger"].as_array().expect("a ledger");
    let entry = ledger.iter().find(|entry| entry["id"] == id).expect("the claim");
    (
        entry["verdict"].as_str().expect("a verdict"),
        entry["reason"].as_str().expect("a reason"),
    )
}

#[test]
fn a_small_plan_is_run_judged_and_reported() {
    let (_folder, file, out) = plan(PLAN);
    let output = weir(&["study", "--plan", &file, "--out", &out, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let line: Value = serde_json::from_str(&text(&output.stdout)).expect("one line of JSON");
    assert_eq!(
        (&line["done"], &line["kept"], &line["not_run"]),
        (&36.into(), &0.into(), &1.into())
    );
    let report = report(&out);
    let (word, why) = verdict(&report, "mo-01");
    assert_eq!(word, "reproduced", "{why}");
    let (word, why) = verdict(&report, "mo-02");
    assert_eq!(word, "not-judged", "{why}");
    assert!(why.contains("no-such-program-anywhere is not installed"), "{why}");
    // The 41 claims, and four further ones.
    assert_eq!(report["ledger"].as_array().map(Vec::len), Some(45));
    let page = fs::read_to_string(Path::new(&out).join("small.html")).expect("a page");
    assert!(page.contains("not installed") && !page.contains("http://") && !page.contains("https://"));
    // The page names its raw results by their place beside it.
    for name in results(&out).keys() {
        let name = name.replace('&', "&amp;");
        assert!(page.contains(&format!("href=\"results/small/{name}\"")), "{name}");
    }
    assert!(Path::new(&out).join("plans/small.toml").exists());
    assert!(Path::new(&out).join("report.md").exists());
    let picture = fs::read_to_string(Path::new(&out).join("pictures/ledger.svg")).expect("a picture");
    assert!(
        picture.starts_with("<svg") && picture.contains("not judged"),
        "{picture}"
    );
}

#[test]
fn a_run_that_is_killed_goes_on_where_it_was() {
    let (_folder, file, out) = plan(PLAN);
    let mut child = Command::new(WEIR)
        .args(["study", "--plan", &file, "--out", &out])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    // Killed when some are done and most are not.
    while results(&out).len() < 3 {
        assert!(
            matches!(child.try_wait(), Ok(None)),
            "it ended before it could be killed"
        );
        std::thread::yield_now();
    }
    child.kill().expect("a signal");
    child.wait().expect("its end");
    let before = results(&out);
    assert!(before.len() < 37, "{}", before.len());
    let output = weir(&["study", "--plan", &file, "--out", &out, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let line: Value = serde_json::from_str(&text(&output.stdout)).expect("one line of JSON");
    assert_eq!(line["done"], 36, "{line}");
    let kept = before.len() as u64 - u64::from(before.contains_key("moon.0.jsonl"));
    assert_eq!(line["kept"], kept, "{line}");
    let after = results(&out);
    for (name, was) in &before {
        if !name.starts_with("moon") {
            assert_eq!(&after[name], was, "{name} was run again");
        }
    }
    assert_eq!(after.len(), 37);
}

#[test]
fn where_no_terminal_is_lines_say_what_is_run_and_what_is_left() {
    let (_folder, file, out) = plan(PLAN);
    let output = weir(&["study", "--plan", &file, "--out", &out]);
    let said = text(&output.stderr);
    let (first, progress) = said.split_once('\n').expect("lines");
    let wanted = format!("results go to {out}; if interrupted, the same command continues there");
    assert_eq!(first, wanted);
    let (left_out, progress) = progress.split_once('\n').expect("lines");
    assert_eq!(
        left_out,
        "1 run will be left out: no-such-program-anywhere is not installed"
    );
    // How long that is depends on the number of processors.
    assert!(
        progress.starts_with("small 1/37 wait-packets=3-users=5, "),
        "{said}"
    );
    assert!(progress.lines().all(|line| line.ends_with(" s left")), "{said}");
    let output = weir(&["study", "--plan", &file, "--out", &out, "-q"]);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn what_is_published_is_whole_and_names_no_place_of_this_machine() {
    let (folder, file, out) = plan(PLAN);
    let published = folder.path().join("published");
    let shown = published.to_str().expect("text");
    // A report on the protocols since that was published before, which this one links.
    fs::create_dir_all(published.join("since")).expect("a folder");
    for name in ["since/report.html", "since/report.md"] {
        fs::write(published.join(name), "").expect("a file");
    }
    let output = weir(&["study", "--plan", &file, "--out", &out, "--publish", shown, "-q"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = fs::read_to_string(published.join("report.md")).expect("a report");
    assert!(report.contains("](since/report.md)"), "{report}");
    for name in [
        "report.html",
        "small.html",
        "report.md",
        "report.json",
        "for-readme.txt",
        "pictures/ledger.svg",
        "results/small-runs.csv",
        "results/small-values.csv",
    ] {
        let text = fs::read_to_string(published.join(name)).expect(name);
        let place = folder.path().to_str().expect("text");
        assert!(!text.contains(place) && !text.contains(WEIR), "{name}");
    }
    let runs = fs::read_to_string(published.join("results/small-runs.csv")).expect("runs");
    assert_eq!(runs.lines().count(), 1 + 37, "{runs}");
    // Every link of the pages leads to something that is there, and the plan is part of the page.
    let pages = ["report.html", "small.html"].map(|name| {
        let page = fs::read_to_string(published.join(name)).expect("a page");
        (name, page)
    });
    assert!(!published.join("plans").exists());
    let first = PLAN.lines().find(|line| !line.is_empty()).expect("a line");
    let study = &pages[1].1;
    assert!(
        study.contains("id=\"plan-small\"") && study.contains(&first.replace('"', "&quot;")),
        "{first}"
    );
    for (name, page) in &pages {
        for link in page.split("href=\"").skip(1) {
            let target = link.split('"').next().expect("a target");
            let (file, place) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { *name } else { file };
            assert!(published.join(file).exists(), "{target}");
            if let Some((_, page)) = pages.iter().find(|(other, _)| *other == file) {
                assert!(
                    place.is_empty() || page.contains(&format!("id=\"{place}\"")),
                    "{target}"
                );
            }
        }
    }
}

#[test]
fn arms_and_plans_that_are_not_there_are_refused() {
    for (args, wanted) in [
        (
            &["qos", "--only", "wings"][..],
            "no arm's name begins with `wings`; write one of tables, ",
        ),
        (&["all", "--show-plan"], "prints one plan"),
        (&["qos", "--show-plan", "--figures"], "cannot be used with"),
        (
            &["since", "--only", "urgent$,close-clear"],
            "`close-clear` has no run in --quick; its arms run with --full or --paper",
        ),
        (
            &["heidemann", "--only", "without", "--figures"],
            "no figure or table shows a number of these runs in --quick; leave out --figures",
        ),
        (
            &["qos", "--report-only"],
            "has no results: name the folder of a study",
        ),
    ] {
        let folder = TempDir::new().expect("a folder");
        let out = folder.path().join("out");
        let output = weir(&[&["study"], args, &["--out", out.to_str().expect("text")]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(wanted) && !out.exists(), "{said}");
    }
}

/// Commands in a plan are words in quotes: only running them shows that the programs still take them.
#[test]
fn commands_of_the_plans_are_taken_by_this_program() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().to_str().expect("text");
    if !weir(&["link", "lan", "--", "true"]).status.success() {
        eprintln!("skipped: no link can be made here");
        return;
    }
    let arms = "now-initial,now-nagle,now-close-half";
    let output = weir(&["study", "w3c", "--only", arms, "--out", out, "--json"]);
    let line: Value =
        serde_json::from_str(text(&output.stdout).lines().next().expect("a line")).expect("JSON");
    assert_eq!(line["failed"], 0, "{line}: {}", text(&output.stderr));
    let found = report(out);
    assert_ne!(verdict(&found, "w3-04").0, "not-judged");
}

/// A visit over HTTP/1.1, HTTP/2 and HTTP/3 with TLS, each with the packets on the link.
#[test]
fn the_protocols_since_are_measured_with_their_packets() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().to_str().expect("text");
    if !weir(&["link", "lan", "--", "true"]).status.success() {
        eprintln!("skipped: no link can be made here");
        return;
    }
    let output = weir(&["study", "since", "--only", "visit-fibre", "--out", out, "--json"]);
    let line: Value =
        serde_json::from_str(text(&output.stdout).lines().next().expect("a line")).expect("JSON");
    assert_eq!(line["failed"], 0, "{line}: {}", text(&output.stderr));
    assert_eq!(line["not_run"], 0, "{line}: {}", text(&output.stderr));
    let found = report(out);
    let numbers = found["studies"][0]["numbers"].as_array().expect("numbers");
    let value = |measure: &str, mode: &str, test: &str| {
        let is_it = |one: &&Value| {
            one["measure"] == measure && one["labels"]["mode"] == mode && one["labels"]["test"] == test
        };
        let one = numbers
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("{measure} {mode} {test}"));
        one["value"].as_f64().expect("a number")
    };
    for (mode, connections) in [("h1-six", 6.0), ("h1-one", 1.0), ("h2", 1.0), ("h3", 1.0)] {
        assert_eq!(value("connections", mode, "first_time"), connections, "{mode}");
        let (first, again) = (
            value("bytes", mode, "first_time"),
            value("bytes", mode, "cache_validation"),
        );
        // The page has 185 kB, and a validation brings heads alone.
        assert!(first > 180e3 && again < first / 3.0, "{mode}: {first} {again}");
        let packets = value("packets", mode, "first_time");
        assert!(packets > first / 1500.0, "{mode}: {packets} packets of {first} B");
    }
    assert_eq!(found["ledger"].as_array().map(Vec::len), Some(17));
    let (word, why) = verdict(&found, "si-09");
    // One network decides a claim for every network only if it refutes it.
    assert!(why.starts_with("measured: 1 of 6 networks run: "), "{why}");
    assert_ne!(word, "reproduced", "{why}");
}

#[test]
fn the_kernel_tells_windows_or_that_it_does_not() {
    let output = weir(&[
        "lab",
        "windows",
        "--port",
        "9",
        "--seconds",
        "50ms",
        "--every",
        "10ms",
        "--json",
    ]);
    match output.status.code() {
        Some(0) => {
            let line: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
            assert_eq!(
                (&line["event"], &line["observed"]),
                (&"windows".into(), &0.into())
            );
        }
        code => {
            assert_eq!(code, Some(4));
            assert!(text(&output.stderr).contains("inet_diag"));
        }
    }
    assert_eq!(weir(&["lab", "windows"]).status.code(), Some(2));
}

#[test]
fn a_processor_is_made_slower_by_whoever_may() {
    let occupy = |processor: &str, share: &str| {
        let time = ["--seconds", "50ms", "--json"];
        weir(
            &[
                &["lab", "occupy", "--processor", processor, "--share", share],
                &time[..],
            ]
            .concat(),
        )
    };
    let greedy = occupy("0", "95%");
    assert_eq!(greedy.status.code(), Some(2));
    assert!(
        text(&greedy.stderr).contains("at most 0.9"),
        "{}",
        text(&greedy.stderr)
    );
    let nowhere = occupy("1023", "10%");
    assert_eq!(nowhere.status.code(), Some(4));
    assert!(
        text(&nowhere.stderr).contains("processor 1023"),
        "{}",
        text(&nowhere.stderr)
    );
    let output = occupy("0", "10%");
    match output.status.code() {
        Some(0) => {
            let line: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
            let taken = line["share"].as_f64().expect("a share");
            // On a machine that stands still for a while it is less.
            assert!(taken > 0.0 && taken < 0.5, "{taken}");
        }
        code => {
            assert_eq!(code, Some(4));
            assert!(text(&output.stderr).contains("CAP_SYS_NICE"));
            println!("skipped: this needs the right to run before others");
        }
    }
}

#[test]
fn a_key_that_means_nothing_is_named_with_the_nearest_one() {
    for (from, to, wanted) in [
        ("question =", "qestion =", "did you mean `question`?"),
        ("repetitions =", "repititions =", "did you mean `repetitions`?"),
        (
            "rules = [\"gravity < 2\"]",
            "rules = [\"gravity 2\"]",
            "claim mo-02",
        ),
        (
            "rules = [\"gravity < 2\"]",
            "rules = [\"gravity < 2\"]\n[[claim.cause]]\noff = [\"air\"]",
            "claim mo-02: at most 16 causes",
        ),
    ] {
        assert!(PLAN.contains(from), "{from}");
        let (_folder, file, out) = plan(&PLAN.replacen(from, to, 1));
        let output = weir(&["study", "--plan", &file, "--out", &out]);
        assert_eq!(output.status.code(), Some(2), "{to}");
        let said = text(&output.stderr);
        assert!(said.contains(wanted) && said.contains("small.toml"), "{said}");
        assert!(!Path::new(&out).exists(), "nothing is run");
    }
}

#[test]
fn what_fails_is_said_and_the_rest_goes_on() {
    let broken = PLAN.replace(
        "\"{packets}\", \"--packet-time\"",
        "\"{packets}\", \"--no-such-flag\"",
    );
    let (_folder, file, out) = plan(&broken);
    let output = weir(&["study", "--plan", &file, "--out", &out]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let report = report(&out);
    let (word, why) = verdict(&report, "mo-01");
    assert_eq!(word, "not-judged");
    assert!(why.contains("--no-such-flag"), "{why}");
}

#[test]
fn the_formulas_of_document_004_are_all_judged() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let output = weir(&["study", "qos", "--quick", "--out", out]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = report(out);
    for (id, wanted) in [
        ("mo-01", "identity"),
        ("mo-02", "identity"),
        // It follows from the equations, as mo-02.
        ("mo-03", "identity"),
        ("mo-04", "identity"),
    ] {
        let (word, why) = verdict(&report, id);
        assert_eq!(word, wanted, "{id}: {why}");
    }
    // Its second half is contradicted by the document's own Table 4.
    assert_eq!(verdict(&report, "mo-05").0, "not-reproduced");
    // A further claim, contradicted by its Table 2. It is simulated everywhere, and measured where namespaces are allowed.
    let (word, why) = verdict(&report, "mo-06");
    assert_eq!(word, "not-reproduced", "{why}");
    assert_eq!(report["verdicts_further"]["not reproduced"], 1);
    assert_eq!(verdict(&report, "bc-01").1, "its study was not selected");
}

/// What `weir lab` prints and what the plans read of it have the same names: every measure of every simulated arm
/// is there, and the claims about stacks of then are judged by it.
#[test]
fn what_the_simulations_print_is_what_the_plans_read() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let measures = |report: &Value| -> Vec<String> {
        let numbers = report["studies"][0]["numbers"].as_array().expect("numbers");
        let ours = numbers.iter().filter(|one| one["world"] == "simulated");
        ours.map(|one| one["measure"].as_str().expect("a name").to_owned())
            .collect()
    };
    let output = weir(&["study", "heidemann", "--only", "then", "--out", out]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let first = report(out);
    for (id, wanted) in [
        // Its second rule is the quotient of two numbers that the simulation was fitted to.
        ("he-01", "assumed"),
        ("he-02", "assumed"),
        ("he-03", "assumed"),
        ("he-04", "simulated-only"),
        ("he-05", "simulated-only"),
        ("he-06", "assumed"),
    ] {
        let (word, why) = verdict(&first, id);
        assert_eq!(word, wanted, "{id}: {why}");
    }
    let found = measures(&first);
    for wanted in ["mean_ms", "sd_ms", "stall_ms", "first_flight", "flight_before"] {
        assert!(found.iter().any(|name| name == wanted), "{wanted}: {found:?}");
    }
    let output = weir(&["study", "w3c", "--only", "then-i,then-m", "--out", out]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let second = report(out);
    for (id, wanted) in [
        ("w3-04", "simulated-only"),
        ("w3-07", "simulated-only"),
        ("w3-08", "simulated-only"),
        // The modem's compression is fitted to one of its times.
        ("w3-09", "assumed"),
    ] {
        let (word, why) = verdict(&second, id);
        assert_eq!(word, wanted, "{id}: {why}");
    }
    let found = measures(&second);
    for wanted in [
        "packets",
        "seconds",
        "connections",
        "packets_client_to_server",
        "packets_server_to_client",
        "answers_written",
        "answers_received",
    ] {
        assert!(found.iter().any(|name| name == wanted), "{wanted}: {found:?}");
    }
}

#[test]
fn a_report_can_be_made_again_from_results_alone() {
    let (_folder, file, out) = plan(PLAN);
    assert!(weir(&["study", "--plan", &file, "--out", &out]).status.success());
    let first = report(&out);
    // While a study writes there, its report is not made again.
    let lock = fs::File::create(Path::new(&out).join("lock")).expect("the lock");
    lock.lock().expect("nobody has it");
    let output = weir(&["study", "--plan", &file, "--out", &out, "--report-only"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("another `weir study` writes into"));
    drop(lock);
    let output = weir(&["study", "--plan", &file, "--out", &out, "--report-only"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let again = report(&out);
    assert_eq!(again["ledger"], first["ledger"]);
    // A result that was tampered with is named.
    let one = Path::new(&out).join("results/small/wait-packets=3-users=5.0.jsonl");
    fs::write(&one, "{").expect("damage");
    let output = weir(&["study", "--plan", &file, "--out", &out, "--report-only"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("wait-packets=3-users=5.0.jsonl is not a result"));
}

#[test]
fn the_plans_can_be_shown_and_read_again() {
    let output = weir(&["study", "jaws", "--show-plan"]);
    let (_folder, file, out) = plan(&text(&output.stdout));
    fs::create_dir_all(Path::new(&out).join("results")).expect("a folder");
    let output = weir(&["study", "--plan", &file, "--out", &out, "--report-only"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn the_demo_speaks_https_with_an_authority_of_its_own() {
    let output = weir(&[
        "demo",
        "--https",
        "--users",
        "32",
        "--duration",
        "20s",
        "--squeeze",
        "10s",
        "--json",
    ]);
    let text = text(&output.stdout);
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let lines: Vec<Value> = lines.collect();
    let of = |event: &str| lines.iter().find(|line| line["event"] == event);
    let url = of("started").expect("a start")["what"].as_str().expect("a URL");
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let result = of("result").expect("users");
    assert!(result["files"].as_u64() > Some(0), "{result}");
    // Under the squeeze some may wait for too long, or until their connection is gone; what arrives is as it should be.
    let errors = result["errors"].as_object().expect("counts by kind");
    let patient = ["timeout", "lost", "unanswered"];
    assert!(
        errors.keys().all(|kind| patient.contains(&kind.as_str())),
        "{result}"
    );
    // Whether such a short squeeze leads to a decision is for the test of the decisions.
    assert!(matches!(output.status.code(), Some(0 | 1)));
}

/// On a busy machine the users may cause no pressure: one of three demos decides.
#[test]
fn the_demo_decides_something_under_its_squeeze_or_fails() {
    assert!(
        (0..3).any(|_| demo_decides_or_cannot()),
        "no demo decided anything"
    );
}

/// Runs a demo, and checks what it says. Whether it decided something, or had no squeeze to decide for.
fn demo_decides_or_cannot() -> bool {
    let mut child = Command::new(WEIR)
        .args([
            "demo",
            "--users",
            "200",
            "--duration",
            "35s",
            "--squeeze",
            "8s",
            "--json",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let pid = child.id();
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let lines: Vec<Value> = lines
        .map_while(Result::ok)
        .map(|line| {
            let mut line: Value = serde_json::from_str(&line).expect("JSON");
            // Pages of what is not looked at.
            line.as_object_mut().map(|line| line.remove("record"));
            line
        })
        .collect();
    let code = child.wait().expect("its end").code();
    let all = |event: &str| -> Vec<&Value> { lines.iter().filter(|line| line["event"] == event).collect() };
    let url = all("started")[0]["what"].as_str().expect("a URL");
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    assert_eq!(all("result").len(), 1, "{lines:?}");
    assert!(all("result")[0]["files"].as_u64() > Some(0), "{lines:?}");
    let decided = all("decided");
    let is_squeezed = !all("squeeze").is_empty();
    if !is_squeezed {
        // It says so before it begins.
        assert_eq!(lines[0]["event"], "no-squeeze", "{lines:?}");
    }
    if decided.is_empty() {
        // It does not pretend.
        assert_eq!(code, Some(1), "{lines:?}");
        let failed = all("failed")[0]["error"].as_str().expect("why");
        assert!(failed.contains("nothing was decided"), "{failed}");
    } else {
        assert!(is_squeezed, "{lines:?}");
        assert_eq!(code, Some(0), "{lines:?}");
        assert_eq!(decided[0]["decision"]["setting"], "idle-timeout");
        assert_eq!(decided[0]["decision"]["from"], "65s");
        assert_eq!(all("ended")[0]["decisions"], decided.len());
    }
    for place in [
        "/tmp",
        "/var/tmp",
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup/blkio",
    ] {
        let left = format!("{place}/weir-demo-{pid}");
        assert!(!Path::new(&left).exists(), "{left} is left");
    }
    !is_squeezed || !decided.is_empty()
}

#[test]
fn a_squeeze_that_nobody_could_notice_is_refused() {
    for (args, part) in [
        (&["--duration", "0s"][..], "could not be noticed"),
        (&["--duration", "10s", "--squeeze", "20s"], "could not be noticed"),
        (&["--listen", "foo"], "ADDR:PORT"),
        (&["--users", "5"], "32"),
    ] {
        let output = Command::new(WEIR)
            .arg("demo")
            .args(args)
            .output()
            .expect("the binary starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
    }
}

/// Measures the pages of a folder in a browser, at the width of a telephone and of a screen: the width and height of each,
/// and the height of the figures that are not folded.
const RULER: &str = r#"<!doctype html><pre id="found"></pre><script>
const found = [], widths = [400, 1200];
for (const width of widths) {
  const frame = document.createElement("iframe");
  frame.style = "border:0;height:900px;width:" + width + "px";
  frame.onload = () => {
    const page = frame.contentDocument, root = page.documentElement;
    let figures = 0;
    for (const one of page.querySelectorAll(".pair")) figures += one.getBoundingClientRect().height;
    found.push([width, root.scrollWidth, Math.round(root.scrollHeight - figures)]);
    if (found.length == widths.length) document.getElementById("found").textContent = JSON.stringify(found.sort((a, b) => a[0] - b[0]));
  };
  frame.srcdoc = PAGE;
  document.body.append(frame);
}
</script>"#;

/// Pixels of text of a document's page at a width of 1,200, before folds are opened.
const TEXT_MAX: u64 = 1_500;

/// Two screens.
const OVERVIEW_MAX: u64 = 2_000;

/// Measures a page; `None` without a browser.
fn measured(page: &str, folder: &Path) -> Option<Vec<[u64; 3]>> {
    // A string of JSON is one of JavaScript; a closing tag in it would end the script.
    let page = serde_json::to_string(page).expect("text").replace("</", "<\\/");
    let ruler = folder.join("ruler.html");
    fs::write(&ruler, RULER.replace("PAGE", &page)).expect("a page");
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args([
            "--virtual-time-budget=20000",
            "--window-size=1400,1000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", ruler.display()))
        .output()
        .ok()?;
    let dom = text(&output.stdout);
    let found = dom
        .split_once("id=\"found\">")
        .and_then(|(_, rest)| rest.split_once('<'));
    let (found, _) = found.unwrap_or_else(|| panic!("{dom}{}", text(&output.stderr)));
    Some(
        serde_json::from_str(found)
            .unwrap_or_else(|error| panic!("{error}: {found}{}", text(&output.stderr))),
    )
}

/// The pages of all studies, and the committed ones, if a browser is here.
#[test]
fn pages_are_short_and_as_wide_as_their_display() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let shown = out.to_str().expect("text");
    // A study that was interrupted before its first result.
    fs::create_dir_all(out.join("results")).expect("a folder");
    let output = weir(&["study", "all", "since", "--report-only", "--out", shown, "-q"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/report");
    for folder_of in [out, committed] {
        let mut names: Vec<_> = fs::read_dir(&folder_of)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|end| end == "html"))
            .collect();
        names.sort();
        // A report of an earlier format is one long page.
        if names.len() == 1 {
            continue;
        }
        for path in names {
            let page = fs::read_to_string(&path).expect("a page");
            let Some(found) = measured(&page, folder.path()) else {
                println!("skipped: chromium is not on this machine");
                return;
            };
            for [width, scrolled, text] in found {
                let name = path.display();
                assert!(scrolled <= width, "{name}: {scrolled} pixels wide at {width}");
                let is_overview = path.file_stem().is_some_and(|stem| stem == "report");
                let most = if is_overview { OVERVIEW_MAX } else { TEXT_MAX };
                assert!(
                    width < 1200 || text <= most,
                    "{name}: {text} pixels of text at {width}"
                );
            }
        }
    }
}
