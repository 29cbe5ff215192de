//! `--har`: a simulated visit leaves an archive and a capture. The report about both says what each object waited for.

use super::{LOOPBACK, folder, json, of, show, text, weir};
use serde_json::Value;
use std::path::PathBuf;

/// The archive and the capture of a visit over a link that loses packets.
fn visited(folder_name: &str) -> [PathBuf; 2] {
    let folder = folder(folder_name);
    let [archive, capture] = ["visit.har", "visit.pcapng"].map(|name| folder.join(name));
    let visit = ["fetch", "-q", "--simulate", "wan loss=5%", "--mode", "pipelined"];
    let files = ["--har", show(&archive), "--pcapng", show(&capture)];
    let output = crate::cli::weir(&[&visit[..], &files].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    [archive, capture]
}

/// The lines of `--json` about a visit.
pub(super) fn joined(folder_name: &str) -> Vec<Value> {
    let [archive, capture] = visited(folder_name);
    json(&[show(&capture), "--har", show(&archive)])
}

fn number(line: &Value, name: &str) -> f64 {
    line[name].as_f64().unwrap_or_else(|| panic!("{name}: {line}"))
}

#[test]
fn each_object_is_joined_with_its_request_and_its_times_add_up() {
    let [archive, capture] = visited("visit");
    let lines = json(&[show(&capture), "--har", show(&archive)]);
    let written = std::fs::read_to_string(&archive).expect("an archive");
    let written: Value = serde_json::from_str(&written).expect("JSON");
    let entries = written["log"]["entries"].as_array().expect("entries");
    let objects = of(&lines, "object");
    assert_eq!((entries.len(), objects.len()), (43, 43));
    let names = [
        "queued_ms",
        "lookup_ms",
        "connect_ms",
        "tls_ms",
        "round_trip_ms",
        "server_ms",
        "behind_ms",
        "loss_ms",
        "ack_timer_ms",
        "flow_control_ms",
        "transfer_ms",
        "rest_ms",
    ];
    for object in &objects {
        let sum: f64 = names.iter().map(|name| number(object, name)).sum();
        assert!((sum - number(object, "total_ms")).abs() < 1e-6, "{object}");
        let entry = entries
            .iter()
            .find(|entry| entry["request"]["url"] == object["url"])
            .expect("an entry");
        assert!(sum > number(entry, "time") - 1e-3, "{object} {entry}");
        let request = of(&lines, "transaction")
            .into_iter()
            .find(|one| one["connection"] == object["connection"] && one["index"] == object["index"])
            .expect("a request");
        let url = object["url"].as_str().expect("a URL");
        let target = request["target"].as_str().expect("a target");
        assert!(url.ends_with(target), "{object} {request}");
    }
    let visits = of(&lines, "visit");
    assert_eq!(visits.len(), 1);
    let visit = visits[0];
    assert_eq!(visit["objects"], 43);
    assert_eq!(visit["in_capture"], 43);
    // The link loses packets, and responses of a pipeline wait for those before.
    assert!(number(visit, "loss_ms") > 0.0, "{visit}");
    assert!(number(visit, "behind_ms") > 0.0, "{visit}");
    assert!(number(visit, "connect_ms") > 0.0, "{visit}");
    let output = weir(&[show(&capture), "--har", show(&archive)]);
    let report = text(&output.stdout);
    assert!(report.contains("43 of 43 in the capture"), "{report}");
    let causes = ["(fast recovery", "(retransmission timeout"];
    assert!(causes.iter().any(|cause| report.contains(cause)), "{report}");
}

#[test]
fn an_archive_of_another_visit_is_reported_without_a_capture() {
    let [archive, _] = visited("visit-other");
    let output = weir(&[LOOPBACK, "--har", show(&archive)]);
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stderr);
    assert!(
        said.contains("no request of") && said.contains("--keys"),
        "{said}"
    );
    let report = text(&output.stdout);
    assert!(report.contains("0 of 43 in the capture"), "{report}");
    for (arguments, said) in [
        (&[LOOPBACK, "--har", LOOPBACK][..], "--har"),
        (&[LOOPBACK, "--har", show(&archive), "--csv", "requests"], "--csv"),
        (
            &[LOOPBACK, "--har", show(&archive), "--connection", "1"],
            "--connection",
        ),
    ] {
        let output = weir(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}");
    }
}

#[test]
fn a_report_is_a_page_that_needs_nothing_else() {
    let [archive, capture] = visited("visit-report");
    let page = archive.with_file_name("visit.html");
    let har = ["trace", show(&capture), "--har", show(&archive)];
    let output = crate::cli::weir(&[&har[..], &["--report", show(&page)]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.contains("43 of 43 requests in the capture"), "{html}");
    assert_eq!(html.matches("<details").count(), 43);
    assert!(
        html.contains("id=\"connection-1\"") && html.contains("<h3>fast recovery</h3>"),
        "{html}"
    );
    for outside in ["<script", "http-equiv", "src=", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}: {html}");
    }
    // Without an archive there is no visit to report.
    let output = crate::cli::weir(&["trace", show(&capture), "--report", show(&page)]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("--har"), "{}", text(&output.stderr));
}
