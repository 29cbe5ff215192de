//! Which of several upstreams gets a request: by hash, by checks, by every policy; and what the live page and the metrics
//! show of it.

use crate::serve::on_strategy;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::proxy::{GONE, configured, head};
use crate::serve::tree::Tree;
use serde_json::Value;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

fn tree() -> Tree {
    Tree::with(&[("a.txt", "a file")])
}

/// An upstream that answers with its name, and checks (`/healthz`) with this status.
fn named(name: &'static str, health: &Arc<AtomicU16>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let health = Arc::clone(health);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            let status = match head(&mut stream).starts_with("GET /healthz ") {
                true => health.load(Ordering::SeqCst),
                false => 200,
            };
            let length = name.len();
            let answer =
                format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{name}");
            // A client that is gone wants no answer.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

/// As [`configured`], with the live page.
fn shown(tree: &Tree, table: &str) -> Server {
    let text = format!(
        "root = \"{}\"\nlive = \"local\"\n[[proxy]]\npath = \"/api/*\"\n{table}\n",
        tree.path().display()
    );
    let config = tree.write("weir.toml", text);
    Launch::new(Strategy::LOOPS)
        .args(["--config".as_ref(), config.as_os_str()])
        .start()
}

fn well() -> Arc<AtomicU16> {
    Arc::new(AtomicU16::new(200))
}

fn ask(server: &Server, fields: &[(&str, &str)]) -> String {
    let answer = server.connect().request("GET", "/api/x", fields);
    assert_eq!(answer.status, 200);
    answer.text()
}

fn every_policy_passes_requests_on(strategy: Strategy) {
    let tree = tree();
    for policy in [
        "round-robin",
        "least-connections",
        "two-choices",
        "ewma",
        "hash",
        "turnaround",
    ] {
        let (a, b) = (named("a", &well()), named("b", &well()));
        let table = format!(
            "upstreams = [\"{a}\", \"{GONE}\", \"{b}\"]\nbalance = \"{policy}\"\nhash-key = \"path\""
        );
        let server = configured(strategy, &tree, &table);
        for request in 0..20 {
            let answer = server.connect().get(&format!("/api/{request}"));
            assert_eq!(answer.status, 200, "{policy}");
            assert!(["a", "b"].contains(&answer.text().as_str()), "{policy}");
        }
    }
}

fn a_key_keeps_its_upstream(strategy: Strategy) {
    let tree = tree();
    let (a, b) = (named("a", &well()), named("b", &well()));
    let table = format!("upstreams = [\"{a}\", \"{b}\"]\nbalance = \"hash\"\nhash-key = \"header:X-User\"");
    let server = configured(strategy, &tree, &table);
    let mut names = Vec::new();
    for user in 0..20 {
        let user = user.to_string();
        let first = ask(&server, &[("X-User", &user)]);
        assert_eq!(ask(&server, &[("x-user", &user)]), first, "user {user}");
        names.push(first);
    }
    assert!(
        names.contains(&"a".to_owned()) && names.contains(&"b".to_owned()),
        "{names:?}"
    );
    // Requests without the field go by the address, which is the same for all.
    let first = ask(&server, &[]);
    assert!((0..5).all(|_| ask(&server, &[]) == first));
}

on_strategy!(loops, LOOPS: every_policy_passes_requests_on, a_key_keeps_its_upstream);
on_strategy!(process_loops, PROCESS_LOOPS: every_policy_passes_requests_on, a_key_keeps_its_upstream);

#[test]
fn a_failed_check_takes_an_upstream_out_and_a_good_one_brings_it_back() {
    let tree = tree();
    let health = well();
    let (a, b) = (named("a", &health), named("b", &well()));
    let table = format!(
        "upstreams = [\"{a}\", \"{b}\"]\nbalance = \"round-robin\"\n[proxy.check]\npath = \"/healthz\"\ninterval = \"20ms\"\nstatus = 200"
    );
    let server = shown(&tree, &table);
    let four = || -> Vec<String> { (0..4).map(|_| ask(&server, &[])).collect() };
    assert!(four().contains(&"a".to_owned()));
    health.store(503, Ordering::SeqCst);
    let line = eventually("the failed check", || {
        let log = server.stderr();
        log.lines()
            .find(|line| line.contains("the check failed"))
            .map(str::to_owned)
    });
    let address = a.strip_prefix("http://").expect("a URL");
    assert!(line.contains(address) && line.contains("status 503"), "{line}");
    assert_eq!(four(), ["b"; 4]);
    let metrics = server.connect().get("/.weir/metrics").text();
    assert!(
        metrics.contains(&format!(
            "weir_upstream_up{{site=\"0\",rule=\"/api/*\",upstream=\"{address}\"}} 0"
        )),
        "{metrics}"
    );
    health.store(200, Ordering::SeqCst);
    eventually("the good check", || {
        server.stderr().contains("the check succeeded").then_some(())
    });
    assert!(four().contains(&"a".to_owned()));
}

#[test]
fn the_live_page_explains_the_choice() {
    let tree = tree();
    let (a, b) = (named("a", &well()), named("b", &well()));
    let table = format!(
        "upstreams = [\"{a}\", \"{b}\"]\nbalance = \"turnaround\"\nbalance-dry-run = \"round-robin\""
    );
    let server = shown(&tree, &table);
    for _ in 0..10 {
        ask(&server, &[]);
    }
    // The last answer may be counted a moment after its client has it.
    let (page, said) = eventually("a request that is over", || {
        let page = server.connect().get("/.weir/").text();
        let said = page
            .lines()
            .find(|line| line.contains("next request adds"))?
            .to_owned();
        said.contains(": up, 0 under way of ").then_some((page, said))
    });
    assert!(said.contains("/api/* 127.0.0.1:"), "{said}");
    assert!(
        said.contains(", service ") && said.contains(", network "),
        "{said}"
    );
    assert!(
        page.contains("of 10 choices would differ with round-robin in place of turnaround"),
        "{page}"
    );
    let figures: serde_json::Value =
        serde_json::from_str(&server.connect().get("/.weir/live.json").text()).expect("JSON");
    assert_eq!(
        figures["upstreams"].as_array().map(Vec::len),
        Some(3),
        "{figures}"
    );
    let metrics = server.connect().get("/.weir/metrics").text();
    let total: u64 = metrics
        .lines()
        .filter(|line| line.starts_with("weir_upstream_requests_total{"))
        .map(|line| {
            line.rsplit(' ')
                .next()
                .and_then(|count| count.parse::<u64>().ok())
                .expect("a count")
        })
        .sum();
    assert_eq!(total, 10, "{metrics}");
    assert!(
        metrics.contains("weir_balance_dry_run_differing_total{"),
        "{metrics}"
    );
}

/// Two readings of the metrics of a running proxy say what each upstream got, and what to add.
#[test]
fn a_record_says_what_capacity_to_add() {
    let tree = tree();
    let (a, b) = (named("a", &well()), named("b", &well()));
    let server = shown(
        &tree,
        &format!("upstreams = [\"{a}\", \"{b}\"]\nbalance = \"round-robin\""),
    );
    ask(&server, &[]);
    let reading = |name: &str| {
        let path = tree.write(name, server.connect().get("/.weir/metrics").text());
        path.to_str().expect("UTF-8").to_owned()
    };
    let before = reading("before.txt");
    for _ in 0..20 {
        ask(&server, &[]);
    }
    let after = reading("after.txt");
    let distribute = |more: &[&str]| {
        let out = crate::cli::weir(&[&["model", "distribute", "--record"], more].concat());
        let text = String::from_utf8(out.stdout).expect("UTF-8");
        (
            out.status.code(),
            text,
            String::from_utf8(out.stderr).expect("UTF-8"),
        )
    };
    let (code, text, error) = distribute(&[&before, &after, "--json"]);
    assert_eq!(code, Some(0), "{error}");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let answer = &report["answers"][0]["answer"];
    let rates: Vec<f64> = answer["now"]["shares"]
        .as_array()
        .expect("a share each")
        .iter()
        .map(|share| share["arrivals"].as_f64().expect("a rate"))
        .collect();
    // Ten of the twenty requests each.
    assert_eq!(rates.len(), 2, "{text}");
    assert!((rates[0] / rates[1] - 1.0).abs() < 1e-9, "{text}");
    assert_eq!(answer["additions"].as_array().map(Vec::len), Some(2), "{text}");
    // The readings in the wrong order, one without the metrics, and an objective that nothing reaches.
    let (code, _, error) = distribute(&[&after, &before]);
    assert_eq!(code, Some(2));
    assert!(error.contains("give the earlier reading first"), "{error}");
    let config = tree.path().join("weir.toml");
    let (code, _, error) = distribute(&[config.to_str().expect("UTF-8"), &after]);
    assert_eq!(code, Some(2));
    assert!(error.contains("weir.toml:1: "), "{error}");
    let (code, _, error) = distribute(&[&before, &after, "--turnaround", "1ns"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("cannot be reached"), "{error}");
}

/// The lines of a record, each held against the schema.
fn recorded(path: &Path) -> Vec<Value> {
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/balance-record.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(schema).expect("the schema")).expect("JSON");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // A line may be on its way.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let kind = usize::from(line.get("balance-record").is_none());
            crate::schema::check(&schema["oneOf"][kind], &line, "line");
            line
        })
        .collect()
}

/// A server with a record in this tree.
fn recording(tree: &Tree, table: &str) -> (Server, PathBuf) {
    let path = tree.path().join("choices.jsonl");
    let table = format!("balance-record = \"{}\"\n{table}", path.display());
    (shown(tree, &table), path)
}

/// Each choice is recorded with what the policy saw and what became of the request, and a model replays them.
#[test]
fn choices_are_recorded_and_replayed() {
    let tree = tree();
    let (a, b) = (named("a", &well()), named("bb", &well()));
    let table = format!(
        "upstreams = [\"{a}\", \"{b}\", \"{GONE}\"]\nbalance = \"round-robin\"\nejection-time = \"1h\"\nretries = 0"
    );
    let (server, path) = recording(&tree, &table);
    for _ in 0..30 {
        ask(&server, &[]);
    }
    // Three requests found that one upstream is gone, which is then ejected.
    let lines = eventually("33 choices", || {
        Some(recorded(&path)).filter(|lines| lines.len() == 34)
    });
    let start = &lines[0];
    assert_eq!(start["rule"], "/api/*");
    assert_eq!(start["policy"], "round-robin");
    assert_eq!(
        start["upstreams"][1]["address"],
        b.trim_start_matches("http://"),
        "{start}"
    );
    let choices = &lines[1..];
    let of = |outcome: &str| {
        choices
            .iter()
            .filter(|choice| choice["outcome"] == outcome)
            .collect::<Vec<_>>()
    };
    for choice in of("answered") {
        assert_eq!(choice["status"], 200, "{choice}");
        // The content is the name of the upstream.
        assert_eq!(
            choice["bytes"],
            choice["chosen"].as_u64().expect("a number") + 1,
            "{choice}"
        );
        assert_eq!(choice["repeatable"], true, "{choice}");
        assert!(
            choice["service-us"].as_u64() <= choice["response-us"].as_u64(),
            "{choice}"
        );
        assert!(
            choice["connect-us"].is_u64(),
            "these upstreams close their connections: {choice}"
        );
    }
    let gone = of("unprocessed");
    assert_eq!((of("answered").len(), gone.len()), (30, 3));
    for choice in gone {
        assert_eq!(
            (&choice["chosen"], &choice["bytes"]),
            (&2.into(), &0.into()),
            "{choice}"
        );
        assert!(
            choice["failed-us"].is_u64() && choice["response-us"].is_null(),
            "{choice}"
        );
        // The same request goes to another upstream.
        let second = choices
            .iter()
            .find(|other| other["request"] == choice["request"] && other["tried"] == serde_json::json!([2]));
        assert_eq!(
            second.expect("a second choice")["outcome"],
            "answered",
            "{choice}"
        );
    }
    let last = choices
        .iter()
        .max_by_key(|choice| choice["at-us"].as_u64())
        .expect("choices");
    let candidates = last["candidates"].as_array().expect("a list");
    assert_eq!(candidates.len(), 2, "one is ejected: {last}");
    assert_eq!(candidates[1]["under-way"], 0, "{last}");
    assert!(candidates[1]["service-us"].is_number(), "{last}");
    let path = path.to_str().expect("UTF-8");
    let out = crate::cli::weir(&["model", "balance", "--record", path, "--runs", "2", "--json"]);
    assert_eq!(
        out.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let report: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let rows = report["tables"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 7, "the record and six policies: {report}");
    for row in rows {
        assert!(
            row[1].as_f64() > Some(0.0) && row[2].as_f64() >= row[1].as_f64(),
            "{row}"
        );
        assert_eq!(row[3], 0.0, "all requests were answered: {row}");
    }
    assert!(
        report["notes"].to_string().contains("30 requests for /api/*"),
        "{report}"
    );
    assert_eq!(report["tables"][1]["rows"][2][1], 3, "{report}");
}

/// A reload begins a new part, and the file has a bound.
#[test]
fn a_record_goes_on_after_a_reload_and_has_a_bound() {
    const MOST: u64 = 256 << 20;
    let tree = tree();
    let a = named("a", &well());
    let (server, path) = recording(&tree, &format!("upstreams = [\"{a}\"]"));
    ask(&server, &[]);
    eventually("a choice", || (recorded(&path).len() == 2).then_some(()));
    server.signal("HUP");
    eventually("a reload", || server.stderr().contains("reloaded").then_some(()));
    ask(&server, &[]);
    let lines = eventually("two parts", || {
        Some(recorded(&path)).filter(|lines| lines.len() == 4)
    });
    assert_eq!(lines[2]["balance-record"], 1);
    assert_eq!((&lines[3]["at-us"], &lines[3]["request"]), (&0.into(), &0.into()));
    drop(server);
    // There is room for a few lines.
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(MOST - 2_000).expect("a sparse file");
    let (server, path) = recording(&tree, &format!("upstreams = [\"{a}\"]"));
    for _ in 0..20 {
        ask(&server, &[]);
    }
    eventually("a warning", || {
        server.stderr().contains("has reached 256 MiB").then_some(())
    });
    let length = std::fs::metadata(&path).expect("a file").len();
    assert!((MOST - 2_000..=MOST).contains(&length), "{length}");
    assert_eq!(ask(&server, &[]), "a");
}

#[test]
fn records_that_cannot_be_written_are_refused() {
    let tree = tree();
    let rule = |file: &str| {
        format!(
            "[[proxy]]\npath = \"/{file}/*\"\nupstreams = [\"{GONE}\"]\nbalance-record = \"{}/{file}\"\n",
            tree.path().display()
        )
    };
    let twice = rule("x") + &rule("x").replace("/x/*", "/y/*");
    for (rules, strategy, said) in [
        (twice, Strategy::LOOPS, "for two rules; name a file for each"),
        (
            rule("no/folder"),
            Strategy::LOOPS,
            "its folder must exist and be writable",
        ),
        (
            rule("x"),
            Strategy::PROCESS_LOOPS,
            "worker processes cannot share the record",
        ),
    ] {
        let config = tree.write(
            "weir.toml",
            format!("root = \"{}\"\n{rules}", tree.path().display()),
        );
        let (code, text) = Launch::new(strategy)
            .args(["--config".as_ref(), config.as_os_str()])
            .fail();
        assert!(code > 0 && text.contains(said), "{code}: {text}");
        assert!(text.contains("/x`") || text.contains("/no/folder`"), "{text}");
    }
}

/// A check says what a start would say, and creates no file.
#[test]
fn a_check_creates_no_record() {
    let tree = tree();
    for (file, is_valid) in [("x", true), ("no/folder", false)] {
        let record = tree.path().join(file);
        let config = tree.write(
            "weir.toml",
            format!(
                "root = \"{}\"\n[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{GONE}\"]\nbalance-record = \"{}\"\n",
                tree.path().display(),
                record.display()
            ),
        );
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
            .args([
                "serve".as_ref(),
                "--config".as_ref(),
                config.as_os_str(),
                "--check".as_ref(),
            ])
            .output()
            .expect("the binary cargo just built");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), is_valid, "{said}");
        assert_eq!(said.contains("balance-record"), !is_valid, "{said}");
        assert!(!record.exists());
    }
}

#[test]
fn settings_without_meaning_are_refused() {
    let tree = tree();
    for (more, said) in [
        ("balance = \"turnaround\"\nweights = [1, 2]", "measures the speed"),
        ("balance = \"fastest\"", "turnaround"),
        ("[proxy.check]\npath = \"healthz\"", "begins with a slash"),
    ] {
        let text = format!(
            "root = \"{}\"\n[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{GONE}\", \"http://127.0.0.1:2\"]\n{more}\n",
            tree.path().display()
        );
        let config = tree.write("weir.toml", text);
        let launch = Launch::new(Strategy::LOOPS).args(["--config".as_ref(), config.as_os_str()]);
        let (code, printed) = launch.fail();
        assert_eq!(code, 2, "{printed}");
        assert!(printed.contains(said), "{printed}");
    }
}
