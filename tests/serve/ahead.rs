//! The policies that anticipate: what a page embeds is in memory before it is asked for, as the counters
//! of the live page show; never more than the bounds, never from outside the root, never stale.

use crate::serve::disk::VISIBLE;
use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Server, Strategy, eventually, within};
use crate::serve::tree::Tree;
use crate::serve::wire::Connection;
use serde_json::Value;

const ANTICIPATING: [&str; 2] = ["hinted", "structured"];

fn launch(strategy: Strategy, tree: &Tree, policy: &str, flags: &[&str]) -> Server {
    Launch::new(strategy)
        .root(tree.path())
        // A busy machine must not spare the codings that are asked for.
        .args(["--live", "--adapt", "off", "--cache-policy", policy])
        .args(flags)
        .start()
}

/// The figures of the process that this connection is with.
fn figures(connection: &mut Connection) -> Value {
    serde_json::from_str(&connection.get("/.weir/live.json").text()).expect("JSON")
}

/// Asks for a page until so many entries were loaded ahead; the figures of then. Once is enough, but for
/// worker processes that block: they keep a file only after it was left alone for a moment.
fn loaded_ahead(connection: &mut Connection, page: &str, count: u64) -> Value {
    eventually("what the page embeds is loaded", || {
        assert_eq!(connection.get(page).status, 200);
        let figures = figures(connection);
        (figures["cache"]["ahead"] == count).then_some(figures)
    })
}

fn loads(figures: &Value) -> u64 {
    figures["totals"]["loads"].as_u64().expect("a count")
}

fn a_cold_image_is_served_from_memory_once_its_page_was(strategy: Strategy) {
    for policy in ANTICIPATING {
        let tree = Tree::with(&[
            ("style.css", "p{}"),
            ("img/a b.png", "picture"),
            ("img/far.png", "far"),
            ("next.html", "<img src=img/far.png>"),
        ]);
        tree.write("img/big.png", vec![7; 100_000]);
        // Last, so that its parts have been left alone for as long as it was.
        tree.write(
            "index.html",
            "<link rel=stylesheet href=style.css><img src='img/a%20b.png'><img src=img/big.png>\
             <img src=missing.png><img src=../secret.png><img src=link.png><a href=next.html>next</a>",
        );
        let outside = Tree::with(&[("secret.png", "secret")]);
        tree.link("link.png", outside.join("secret.png"));
        let server = launch(strategy, &tree, policy, &[]);
        let mut connection = server.connect();
        // Style, picture, and the large one as an open file; what is missing or outside is not there.
        let before = loaded_ahead(&mut connection, "/", 3);
        assert_eq!(before["cache-policy"], policy);
        assert_eq!(connection.get("/img/a%20b.png").text(), "picture");
        assert_eq!(connection.get("/style.css").text(), "p{}");
        assert_eq!(connection.get("/img/big.png").body.len(), 100_000);
        let after = figures(&mut connection);
        let hits = |figures: &Value| figures["totals"]["hits"].as_u64().expect("a count");
        assert_eq!(
            loads(&after),
            loads(&before),
            "no request waited for a disk: {after}"
        );
        assert_eq!(hits(&after), hits(&before) + 3);
        // A page that is only linked to is not loaded.
        assert_eq!(connection.get("/next.html").status, 200);
        assert_eq!(loads(&figures(&mut connection)), loads(&before) + 1);
        assert_eq!(connection.get("/link.png").status, 404);
        loaded_ahead(&mut connection, "/next.html", 4);
        let metrics = connection.get("/.weir/metrics").text();
        assert!(metrics.contains("weir_cache_ahead_total 4"), "{metrics}");
    }
}

fn other_policies_load_nothing_ahead(strategy: Strategy) {
    let tree = Tree::with(&[("index.html", "<img src=a.png>"), ("a.png", "a")]);
    let server = launch(strategy, &tree, "s3-fifo", &[]);
    let mut connection = server.connect();
    connection.get("/");
    let before = figures(&mut connection);
    connection.get("/a.png");
    let after = figures(&mut connection);
    assert_eq!(after["cache"]["ahead"], 0);
    assert_eq!(loads(&after), loads(&before) + 1, "a cold image is a load");
}

fn a_part_loaded_ahead_follows_changes_and_is_negotiated(strategy: Strategy) {
    let text = "body { color: black } ".repeat(200);
    let tree = Tree::with(&[
        ("style.css", &text),
        ("a.svg", "<svg>one</svg>"),
        ("a.svg.gz", "not really gzip"),
        (
            "index.html",
            "<link rel=stylesheet href=style.css><img src=a.svg>",
        ),
    ]);
    let server = launch(strategy, &tree, "hinted", &[]);
    let mut connection = server.connect();
    loaded_ahead(&mut connection, "/", 2);
    let plain = connection.get("/style.css");
    assert_eq!((plain.text(), plain.must("Vary")), (text, "Accept-Encoding"));
    let coded = connection.request("GET", "/style.css", &[("Accept-Encoding", "gzip")]);
    assert_eq!(coded.must("Content-Encoding"), "gzip");
    let sibling = connection.request("GET", "/a.svg", &[("Accept-Encoding", "gzip")]);
    assert_eq!(sibling.text(), "not really gzip");
    tree.replace("a.svg", "<svg>two</svg>");
    within(VISIBLE, "a part that changed", || {
        (connection.get("/a.svg").text() == "<svg>two</svg>").then_some(())
    });
}

fn a_page_of_ten_thousand_references_holds_nobody_up(strategy: Strategy) {
    let tree = Tree::new();
    let page: String = (0..10_000)
        .map(|number| format!("<img src=img/{number}.png>"))
        .collect();
    for number in 0..200 {
        tree.write(&format!("img/{number}.png"), "picture");
    }
    tree.write("index.html", &page);
    let server = launch(strategy, &tree, "structured", &["--cache-size", "4MiB"]);
    let mut connection = server.connect();
    assert_eq!(connection.get("/").text(), page);
    let figures = loaded_ahead(&mut connection, "/", 64);
    let cache = &figures["cache"];
    assert!(cache["bytes"].as_u64() <= cache["bytes-max"].as_u64(), "{cache}");
    // The next one after the bound is not there, and is served all the same.
    assert_eq!(connection.get("/img/64.png").text(), "picture");
    assert_eq!(loads(&self::figures(&mut connection)), loads(&figures) + 1);
}

on_every_strategy!(
    a_cold_image_is_served_from_memory_once_its_page_was,
    other_policies_load_nothing_ahead,
    a_part_loaded_ahead_follows_changes_and_is_negotiated,
    a_page_of_ten_thousand_references_holds_nobody_up,
);
