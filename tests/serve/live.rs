//! What the server shows of itself: the live page, metrics, health and readiness.

use crate::serve::listeners::address;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::tree::Tree;
use crate::serve::wire::{Connection, head};
use crate::serve::{on_every_strategy, where_workers_are_processes, where_workers_are_threads};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn the_live_page_is_for_those_it_is_meant_for(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a"), (".weir/live.json", "a file of the site")]);
    let server = Launch::new(strategy).root(tree.path()).start();
    assert_eq!(
        server.connect().get("/.weir/").status,
        404,
        "off unless asked for"
    );
    let server = Launch::new(strategy).root(tree.path()).args(["--live"]).start();
    let mut connection = server.connect();
    for _ in 0..7 {
        assert_eq!(connection.get("/a.txt").text(), "a");
    }
    assert_eq!(connection.get("/missing").status, 404);
    let answer = connection.get("/.weir/live.json");
    assert_eq!((answer.status, answer.must("Cache-Control")), (200, "no-store"));
    let live: Value = serde_json::from_str(&answer.text()).expect("JSON");
    // One process of several says so, and its figures are of all.
    assert_eq!(live["process"].is_u64(), strategy.is_of_processes());
    let totals = &live["totals"];
    assert_eq!(
        (&totals["successful"], &totals["client-errors"]),
        (&7.into(), &1.into())
    );
    assert_eq!(live["connections"], 1);
    assert!(
        live["latency-us"]["p99"]
            .as_u64()
            .is_some_and(|micros| micros > 0),
        "{live}"
    );
    assert!(
        live["strategy"]
            .as_str()
            .is_some_and(|text| text.contains(strategy.concurrency))
    );
    let page = connection.get("/.weir/");
    assert_eq!(page.must("Content-Type"), "text/html; charset=utf-8");
    // Every figure stands in the page itself, so it needs no script.
    assert!(
        page.text().contains("data-key=\"totals.requests\" data-rate>9<"),
        "{}",
        page.text()
    );
    // Rows for decisions that were not made yet are not seen.
    let text = page.text();
    let rows = text.lines().filter(|line| line.contains("adaptation.decisions."));
    assert!(rows.clone().count() > 0, "{text}");
    assert!(rows.clone().all(|row| row.starts_with("<tr hidden>")), "{text}");
    assert_eq!(connection.get("/.weir/live.js").status, 200);
    assert_eq!(connection.request("POST", "/.weir/", &[]).status, 405);
    let head = connection.request("HEAD", "/.weir/", &[]);
    assert!(head.status == 200 && head.body.is_empty());
    let metrics = connection.get("/.weir/metrics");
    assert!(
        metrics
            .must("Content-Type")
            .starts_with("application/openmetrics-text")
    );
    let text = metrics.text();
    let sum: u64 = text
        .lines()
        .filter_map(|line| {
            line.strip_prefix("weir_requests_total{worker=")?
                .rsplit(' ')
                .next()?
                .parse::<u64>()
                .ok()
        })
        .sum();
    assert_eq!(sum, 13, "{text}");
    for line in [
        "weir_connections_open 1",
        "weir_ready 1",
        "_bucket{le=\"+Inf\"} ",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

/// A page of somebody else, whose name leads to this machine, may not read what is shown (DNS rebinding).
fn a_name_that_others_resolve_is_shown_nothing(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a")]);
    let of = |server: &Server, host: &str| {
        let mut connection = server.connect();
        connection.send(format!("GET /.weir/live.json HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        connection.receive("GET").status
    };
    let local = Launch::new(strategy).root(tree.path()).args(["--live"]).start();
    let all = Launch::new(strategy)
        .root(tree.path())
        .args(["--live=all"])
        .start();
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:8080", 200),
        ("[::1]:8080", 200),
        ("rebind.example", 404),
        ("127.0.0.1.rebind.example:8080", 404),
    ] {
        assert_eq!(of(&local, host), status, "{host}");
        assert_eq!(of(&all, host), 200, "{host}");
    }
}

/// Whichever process is asked, it tells of all of them, of those that were killed too.
fn the_figures_are_of_all_processes(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a"), ("b.txt", "b")]);
    let server = Launch::new(strategy).root(tree.path()).args(["--live"]).start();
    // Several at once, so that several processes have some.
    let mut connections: Vec<_> = (0..8).map(|_| server.connect()).collect();
    let mut answered_by = BTreeSet::new();
    for round in 1..=3_u64 {
        for connection in &mut connections {
            assert_eq!(connection.get("/a.txt").text(), "a");
            assert_eq!(connection.get("/b.txt").text(), "b");
        }
        for (asked, connection) in (0..).zip(&mut connections) {
            let live = live_of(connection);
            // This request is not answered yet when it is counted.
            let before = round * 16 + (round - 1) * 8 + asked;
            assert_eq!(live["totals"]["requests"], before, "{live}");
            assert_eq!(live["connections"], 8, "{live}");
            assert_eq!(live["addresses"], 1, "{live}");
            let timed = live["latency-cumulative"]
                .as_array()
                .and_then(|all| all.last())
                .map(|last| &last[1]);
            assert!(
                timed.is_some_and(|count| count.as_u64() >= Some(before - 8)),
                "{live}"
            );
            let of_workers: u64 = live["workers"]
                .as_array()
                .expect("a list")
                .iter()
                .filter_map(|worker| worker["requests"].as_u64())
                .sum();
            assert_eq!(of_workers, before, "{live}");
            answered_by.insert(live["process"].as_u64().expect("a process"));
        }
    }
    assert!(!strategy.grows() || answered_by.len() == 8, "{answered_by:?}");
    let metrics = connections[0].get("/.weir/metrics").text();
    assert!(metrics.contains("\nweir_processes "), "{metrics}");
    // What a process counted that is killed is not lost, and what it held is.
    let requests = live_of(&mut connections[0])["totals"]["requests"].as_u64();
    let last = live_of(connections.last_mut().expect("eight"))["process"].clone();
    drop(connections);
    let killed = Command::new("kill").args(["-KILL", &last.to_string()]).status();
    assert!(killed.expect("kill").success());
    eventually("a sum without the one that is gone", || {
        // One that is killed as it accepts resets the connection.
        let mut connection = server.connect();
        connection.try_send(head("GET", "/.weir/live.json", &[]));
        let answer = connection.try_receive("GET")?;
        let live: Value = serde_json::from_str(&answer.text()).expect("JSON");
        let pids_differ = live["process"] != last;
        let gone = live["connections"] == 1 && pids_differ;
        (gone && live["totals"]["requests"].as_u64() > requests).then_some(())
    });
    eventually("the count of those who are gone", || {
        let text = server.connect().get("/.weir/metrics").text();
        let ended = text
            .lines()
            .find_map(|line| line.strip_prefix("weir_requests_total{worker=\"ended\"} "));
        (ended?.parse::<u64>().ok()? > 0).then_some(())
    });
}

fn live_of(connection: &mut Connection) -> Value {
    serde_json::from_str(&connection.get("/.weir/live.json").text()).expect("JSON")
}

fn readiness_ends_before_connections_are_refused(strategy: Strategy) {
    let tree = Tree::with(&[("a.txt", "a"), ("healthz", "a file of the site")]);
    let server = Launch::new(strategy).root(tree.path()).start();
    assert_eq!(server.connect().get("/healthz").text(), "a file of the site");
    let mut server = Launch::new(strategy)
        .root(tree.path())
        .args(["--health", "--drain-delay", "60s"])
        .start();
    for (path, text) in [("/healthz", "alive\n"), ("/readyz", "ready\n")] {
        let answer = server.connect().get(path);
        assert_eq!((answer.status, answer.text().as_str()), (200, text));
    }
    server.signal("TERM");
    eventually("readiness is off", || {
        (server.connect().get("/readyz").status == 503).then_some(())
    });
    assert_eq!(server.connect().get("/healthz").status, 200, "it is alive");
    assert_eq!(
        server.connect().get("/a.txt").text(),
        "a",
        "and takes connections"
    );
    assert_eq!(server.stop(), 0, "a second signal ends the delay");
}

/// Measures, in a page of the same site, how far the live page and what is in its cards reach beyond their room, with the
/// longest values there can be.
const RULER: &str = r#"<!doctype html><meta charset="utf-8"><p id="found">nothing yet</p><script>
const widths = [360, 400, 768, 1200];
const found = [];
function measure(width) {
  const frame = document.createElement("iframe");
  frame.style = `border: 0; width: ${width}px; height: 6000px`;
  frame.src = "/.weir/";
  frame.onload = () => {
    const page = frame.contentDocument;
    for (const cell of page.querySelectorAll("td[data-key]")) {
      cell.parentElement.hidden = false;
      if (cell.classList.contains("said")) cell.textContent = "12:34:56 " + "word ".repeat(40) + "9".repeat(120);
      else if (cell.classList.contains("text")) cell.textContent = "[2001:db8:85a3:8d3:1319:8a2e:370:7348]:8080: " + "x".repeat(90);
      else cell.textContent = "1,234,567,890,123,456";
      if ("rate" in cell.dataset) cell.nextElementSibling.textContent = "123.4M/s";
    }
    for (const figure of page.querySelectorAll("figure b")) figure.textContent = "1,234,567,890";
    const root = page.documentElement;
    if (root.scrollWidth > root.clientWidth) found.push(`${width}: the page is ${root.scrollWidth} wide`);
    for (const card of page.querySelectorAll("section, figure")) {
      const room = card.getBoundingClientRect();
      for (const part of card.querySelectorAll("*")) {
        const box = part.getBoundingClientRect();
        if (box.width > 0 && (box.right > room.right || box.left < room.left))
          found.push(`${width}: ${part.textContent.slice(0, 30)} leaves its card by ${Math.round(box.right - room.right)}`);
      }
    }
    found.push(`${width}: measured ${page.querySelectorAll("section").length} tables`);
    if (widths.length > 0) measure(widths.shift());
    else document.getElementById("found").textContent = "[" + found.join("; ") + "]";
  };
  document.body.append(frame);
}
measure(widths.shift());
</script>"#;

/// In a browser, if there is one, at the widths of telephones and screens, in light and dark.
#[test]
fn the_live_page_stays_within_its_room() {
    let tree = Tree::with(&[("ruler.html", RULER)]);
    let server = Launch::new(Strategy::LOOPS)
        .root(tree.path())
        .args(["--live", "--adapt", "dry-run"])
        .start();
    for scheme in ["0", "1"] {
        let profile = tree.join("profile");
        let output = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
            ])
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
            .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("http://{}/ruler.html", server.address))
            .output();
        let Ok(output) = output else {
            println!("skipped: chromium is not on this machine");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let found = text
            .split_once("id=\"found\">")
            .and_then(|(_, rest)| rest.split_once('<'));
        let wanted = [360, 400, 768, 1200].map(|width| format!("{width}: measured 8 tables"));
        assert_eq!(
            found.map(|(found, _)| found),
            Some(&*format!("[{}]", wanted.join("; "))),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// The text of a file of the project.
fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name);
    std::fs::read_to_string(path).expect("an example")
}

#[test]
fn the_example_for_kubernetes_answers_its_own_probes_and_has_metrics() {
    let map = example("kubernetes/configmap.yaml");
    let (_, indented) = map.split_once("weir.toml: |\n").expect("the configuration");
    let lines: Vec<&str> = indented.lines().map(str::trim_start).collect();
    let mut pairs = Pairs::new();
    pairs.add("tls", &["weir"]);
    let token = "0123456789abcdef0123456789abcdef";
    pairs.tree.write("token", token);
    // The Secret lies beside the configuration. The port is a free one, on an address that the site does not have.
    let text = lines.join("\n").replace("/etc/weir-admin/", "");
    let text = text
        .replace("tls.crt", "tls.pem")
        .replace("\":9090\"", "\"127.0.0.2:0\"");
    let config = pairs.tree.write("weir.toml", text);
    let server = Launch::new(Strategy::LOOPS)
        .root(&pairs.tree.join("site"))
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    for (authorization, status) in [("", "401"), (token, "200")] {
        let mut secure = Secure::open(address(&server, 1), &pairs.client(), "weir");
        let request =
            format!("GET /metrics HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer {authorization}\r\n\r\n");
        let answer = secure.exchange(&request).expect("an answer");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        // The metric from which prometheus-adapter computes that of the autoscaler.
        assert_eq!(
            answer.contains("\nweir_requests_total{"),
            status == "200",
            "{answer}"
        );
    }
    let deployment = example("kubernetes/deployment.yaml");
    let probes: Vec<&str> = deployment
        .lines()
        .filter_map(|line| line.trim().strip_prefix("path: "))
        .collect();
    assert!(probes.contains(&"/readyz") && probes.len() == 3, "{probes:?}");
    for path in probes {
        assert_eq!(server.connect().get(path).status, 200, "{path}");
    }
}

const HOSTS: &str = r#"
root = "site"
live = "local"
host-metrics = true

[[host]]
names = ["one.test", "*.one.test"]

[[host]]
names = ["two.test"]
redirect = [{ from = "*", to = "http://one.test*" }]
"#;

/// The metrics of hosts, as label and value; without counts of 0.
fn of_hosts(server: &Server, family: &str) -> Vec<String> {
    let text = server.connect().get("/.weir/metrics").text();
    let lines = text.lines().filter_map(|line| line.strip_prefix(family));
    lines
        .filter(|line| !line.ends_with(" 0"))
        .map(str::to_owned)
        .collect()
}

/// Asks over one connection, with all requests in one send.
fn ask_hosts(server: &Server, asked: &[(&str, &str, u16)]) {
    let mut connection = server.connect();
    let requests: Vec<String> = asked
        .iter()
        .map(|(host, path, _)| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
        .collect();
    connection.send(requests.concat());
    for (host, path, status) in asked {
        assert_eq!(connection.receive("GET").status, *status, "{host} {path}");
    }
}

fn metrics_tell_hosts_apart(strategy: Strategy) {
    let tree = Tree::with(&[("site/a.txt", "a"), ("weir.toml", HOSTS)]);
    let config = tree.join("weir.toml");
    let server = Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    ask_hosts(
        &server,
        &[
            ("one.test", "/a.txt", 200),
            ("sub.ONE.test:80", "/a.txt", 200),
            ("one.test", "/missing", 404),
            ("two.test", "/a.txt", 301),
            ("unknown.test", "/a.txt", 200),
            ("made-up.test", "/a b", 400),
        ],
    );
    let mine = |line: &String| !line.starts_with("{host=\"*\"");
    let counted = eventually("all are counted", || {
        let counted = of_hosts(&server, "weir_host_responses_total");
        let is_whole = counted.contains(&"{host=\"*\",class=\"4xx\"} 1".to_owned());
        (is_whole && counted.iter().filter(|line| mine(line)).count() == 3).then_some(counted)
    });
    let counted: Vec<String> = counted.into_iter().filter(|line| mine(line)).collect();
    assert_eq!(
        counted,
        [
            "{host=\"one.test\",class=\"2xx\"} 2",
            "{host=\"one.test\",class=\"4xx\"} 1",
            "{host=\"two.test\",class=\"3xx\"} 1",
        ]
    );
    let all = server.connect().get("/.weir/metrics").text();
    for label in ["unknown.test", "made-up", "sub.one", "sub.ONE"] {
        assert!(!all.contains(label), "{label} is in {all}");
    }
    for line in [
        "weir_host_responses_total{host=\"*\",class=\"4xx\"} 1",
        "weir_host_response_duration_seconds_count{host=\"one.test\"} 3",
        "weir_host_response_duration_seconds_bucket{le=\"+Inf\",host=\"two.test\"} 1",
    ] {
        assert!(all.contains(line), "{line} is not in {all}");
    }
    let sent = of_hosts(&server, "weir_host_sent_bytes_total");
    assert_eq!(sent.len(), 3, "{sent:?}");
    // A reload keeps the counts of hosts that stay, in whatever order, and begins anew for others.
    let (top, hosts) = HOSTS.split_once("[[host]]").expect("two hosts");
    let next =
        format!("{top}[[host]]\nnames = [\"new.test\"]\n\n[[host]]{hosts}").replace("two.test", "other.test");
    tree.replace("weir.toml", next);
    server.signal("HUP");
    eventually("the new host", || {
        ask_hosts(&server, &[("new.test", "/a.txt", 200)]);
        let counted = of_hosts(&server, "weir_host_responses_total");
        counted.iter().any(|line| line.contains("new.test")).then_some(())
    });
    let counted = of_hosts(&server, "weir_host_responses_total");
    assert!(
        counted.contains(&"{host=\"one.test\",class=\"2xx\"} 2".to_owned()),
        "{counted:?}"
    );
    assert!(
        !counted.iter().any(|line| line.contains("two.test")),
        "{counted:?}"
    );
    // Without the key there are none.
    tree.replace("weir.toml", HOSTS.replace("host-metrics = true\n", ""));
    server.signal("HUP");
    eventually("no metrics of hosts", || {
        of_hosts(&server, "weir_host").is_empty().then_some(())
    });
}

where_workers_are_threads!(metrics_tell_hosts_apart);
on_every_strategy!(
    the_live_page_is_for_those_it_is_meant_for,
    a_name_that_others_resolve_is_shown_nothing,
    readiness_ends_before_connections_are_refused,
);
where_workers_are_processes!(the_figures_are_of_all_processes);
