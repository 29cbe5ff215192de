//! Which of several upstreams gets a request: by hash, by checks, by every policy; and what the live page and the metrics
//! show of it.

use crate::serve::on_strategy;
use crate::serve::process::{Launch, PATIENCE, Server, Strategy, eventually};
use crate::serve::proxy::{GONE, configured, head};
use crate::serve::tree::Tree;
use std::io::Write;
use std::net::TcpListener;
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
    let page = server.connect().get("/.weir/").text();
    let said = page
        .lines()
        .find(|line| line.contains("next request adds"))
        .expect("an estimate");
    assert!(
        said.contains("/api/* 127.0.0.1:") && said.contains(": up, 0 under way of "),
        "{said}"
    );
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
