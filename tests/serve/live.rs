//! What the server shows of itself: the live page, metrics, health and readiness.

use crate::on_every_strategy;
use crate::process::{Launch, Strategy, eventually};
use crate::tree::Tree;
use serde_json::Value;

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
    if strategy.is_of_processes() {
        // Each process tells of itself, and says so.
        assert!(live["process"].is_u64(), "{live}");
        assert!(
            connection
                .get("/.weir/")
                .text()
                .contains("one process of several")
        );
        assert!(connection.get("/.weir/metrics").text().contains("# EOF"));
        return;
    }
    assert!(live["process"].is_null());
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

on_every_strategy!(
    the_live_page_is_for_those_it_is_meant_for,
    readiness_ends_before_connections_are_refused,
);
