//! `weir visit` with a real Chromium behind a link, against `weir serve` at its far end: every request that the browser reports is
//! found in the capture, in cleartext and over TLS. Where there is no Chromium it says `skipped: why` and passes.

use super::{WEIR, no_links, text, weir};
use serde_json::Value;
use std::process::Command;
use tempfile::TempDir;

/// Whether there is no browser here; says so if not.
fn no_browser() -> bool {
    let is_here = Command::new("chromium").arg("--version").output().is_ok();
    if !is_here {
        eprintln!("skipped: there is no chromium");
    }
    !is_here
}

/// A folder with a page, a style sheet, an image twice, one that is missing, and one that a script requests after the page is
/// loaded.
fn site() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let page = "<!doctype html><title>t</title><link rel=icon href=data:,><link rel=stylesheet href=style.css><img src=a.svg>\
                <img src=missing.svg><script>addEventListener('load', () => fetch('late.txt'))</script>";
    let image = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>";
    let style = "p{background:url(a.svg)}";
    for (name, content) in [
        ("index.html", page),
        ("style.css", style),
        ("a.svg", image),
        ("late.txt", "late"),
    ] {
        std::fs::write(folder.path().join(name), content).expect("is ours");
    }
    folder
}

/// The lines of a visit over a link, and its page.
fn visit(url: &str, serve: &str, more: &[&str]) -> (Vec<Value>, String) {
    let folder = site();
    let report = folder.path().join("visit.html");
    let far = format!("exec {WEIR} -q serve {} {serve}", folder.path().display());
    let report_text = report.display().to_string();
    let visit = [
        "visit",
        url,
        "--link",
        "rate=4M rtt=40ms",
        "--far",
        &far,
        "--json",
        "--report",
        &report_text,
    ];
    let output = weir(&[&visit[..], more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let lines = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    (lines, std::fs::read_to_string(report).expect("a report"))
}

/// All requests are in the capture, and what they waited for fits the link.
fn check(lines: &[Value], html: &str) {
    let of = |event: &str| {
        lines
            .iter()
            .filter(|line| line["event"] == event)
            .cloned()
            .collect::<Vec<_>>()
    };
    let (objects, visits) = (of("object"), of("visit"));
    let paths: Vec<&str> = objects
        .iter()
        .filter_map(|object| object["url"].as_str()?.rsplit('/').next())
        .collect();
    for path in ["", "style.css", "a.svg", "missing.svg", "late.txt"] {
        assert!(paths.contains(&path), "{path}: {paths:?}");
    }
    assert_eq!(visits[0]["in_capture"], objects.len(), "{lines:?}");
    let page = &objects[0];
    let waited = |name: &str| page[name].as_f64().expect("a time");
    // Chromium may have opened the connection before it made the request, but not much earlier.
    assert!(waited("connect_ms") + waited("tls_ms") < 1_000.0, "{page}");
    assert!((38.0..120.0).contains(&waited("round_trip_ms")), "{page}");
    for part in [
        "rate=4M rtt=40ms",
        "style.css",
        "id=\"connection-1\"",
        "@media(prefers-color-scheme:dark)",
    ] {
        assert!(html.contains(part), "{part}");
    }
    for outside in ["http-equiv", "<script", "src=", "@import"] {
        assert!(
            !html.contains(outside),
            "{outside}: the page needs no network and no script"
        );
    }
}

#[test]
fn what_chromium_requests_in_cleartext_is_found_in_the_capture() {
    if no_links() || no_browser() {
        return;
    }
    let (lines, html) = visit(
        "http://198.18.0.1/",
        "--listen 0.0.0.0:80",
        &["--far-ready", "80"],
    );
    check(&lines, &html);
}

#[test]
fn what_chromium_requests_over_tls_is_found_with_its_key_log() {
    if no_links() || no_browser() {
        return;
    }
    let serve = "--listen 0.0.0.0:443 --tls internal";
    let (lines, html) = visit(
        "https://198.18.0.1/",
        serve,
        &["--far-ready", "443", "--insecure"],
    );
    check(&lines, &html);
}

#[test]
fn a_page_that_nobody_serves_is_told() {
    if no_links() || no_browser() {
        return;
    }
    let output = weir(&["visit", "http://198.18.0.1:9/", "--link", "rtt=10ms"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("could not be loaded: net::ERR_"), "{said}");
}

/// The recipe of docs/record.md: every name is mapped to the replay, whose certificate is for another one.
#[test]
fn chromium_gets_all_hosts_of_a_recording() {
    if no_links() || no_browser() {
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let page = "<!doctype html><title>t</title><link rel=icon href=data:,><script src=https://cdn.test/lib.js></script>";
    for (name, url, media, body) in [
        ("page", "https://a.test/", "text/html", page),
        (
            "script",
            "https://cdn.test/lib.js",
            "text/javascript",
            "let a = 1;",
        ),
    ] {
        let head = serde_json::json!({
            "format": "weir-exchange", "version": 1, "method": "GET", "url": url, "protocol": "h2", "recorded": 1,
            "first_byte_seconds": 0.0, "request_fields": [], "status": 200, "fields": [["Content-Type", media]],
            "body_bytes": body.len(),
        });
        let file = folder.path().join(format!("{name}.exchange"));
        std::fs::write(file, format!("{head}\n{body}")).expect("is ours");
    }
    let har = folder.path().join("visit.har").display().to_string();
    let far = format!(
        "exec {WEIR} -q serve --replay {} --listen 0.0.0.0:443 --tls internal --http3=false",
        folder.path().display()
    );
    let output = weir(&[
        "visit",
        "https://a.test/",
        "--link",
        "rate=4M rtt=40ms",
        "--far",
        &far,
        "--far-ready",
        "443",
        "--insecure",
        "--browser-arg=--host-resolver-rules=MAP * 198.18.0.1",
        "--har",
        &har,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let archive: Value =
        serde_json::from_str(&std::fs::read_to_string(har).expect("an archive")).expect("JSON");
    let entries = archive["log"]["entries"].as_array().expect("entries");
    let got: Vec<_> = entries
        .iter()
        .map(|entry| (&entry["request"]["url"], &entry["response"]["status"]))
        .collect();
    for url in ["https://a.test/", "https://cdn.test/lib.js"] {
        assert!(got.contains(&(&url.into(), &200.into())), "{url}: {got:?}");
    }
}
