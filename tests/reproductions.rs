//! `weir lab w3c|heidemann|leave-one-out|hosts|since|content` and `weir fetch --simulate` from outside: that every row and line
//! comes, that the two outputs agree, and what is refused. What the figures are like is tested where they are made.

use serde_json::Value;
use std::process::Output;

fn weir(line: &str) -> Output {
    crate::cli::weir(&line.split(' ').collect::<Vec<_>>())
}

fn lines(line: &str) -> Vec<Value> {
    read(line, weir(line))
}

/// The lines of JSON of a command that succeeded.
fn read(line: &str, out: Output) -> Vec<Value> {
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(0), "{line}: {errors}");
    String::from_utf8(out.stdout)
        .expect("UTF-8")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn of_event<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

#[test]
fn tables_of_document_003_beside_the_published_ones() {
    let all = lines("lab w3c --table 5,modem --runs 1 --json");
    let rows = of_event(&all, "row");
    assert_eq!(rows.len(), 8 + 4);
    for row in &rows[..8] {
        assert_eq!(row["published"]["provenance"], "recalled-unverified");
        let (ours, theirs) = (&row["simulated"], &row["published"]);
        let number = |value: &Value| value.as_f64().expect("a number");
        let both = number(&ours["packets_up"]) + number(&ours["packets_down"]);
        assert_eq!(both, number(&ours["packets"]));
        let error = number(&ours["packets"]) / number(&theirs["packets"]) - 1.0;
        assert!((error - number(&row["error"]["packets"])).abs() < 1e-9);
        let outside = error.abs() > 0.1;
        let verdict = row["verdict"].as_str().expect("words");
        assert_eq!(verdict.contains("packets"), outside, "{row}");
    }
    assert_eq!(rows[8]["published"]["provenance"], "recovered");
    let fitted = of_event(&all, "assumption");
    assert!(
        fitted
            .iter()
            .any(|one| one["basis"] == "fitted" && one["to"].is_string())
    );

    let out = weir("lab w3c --table 5 --runs 1");
    let text = String::from_utf8(out.stdout).expect("UTF-8");
    assert!(text.contains("Table 5: Apache over LAN, simulated / published (recalled-unverified)"));
    let is_row = |line: &&str| line.starts_with("HTTP/") && line.contains("revalidation");
    assert_eq!(text.lines().filter(is_row).count(), 4, "{text}");
}

#[test]
fn a_fitted_processor_time_can_be_changed() {
    let seconds = |set: &str| -> f64 {
        let all = lines(&format!("lab w3c --table 5 --runs 1 --json{set}"));
        assert_eq!(of_event(&all, "changed").len(), usize::from(!set.is_empty()));
        let is_wanted = |row: &&&Value| row["mode"] == "http10" && row["first_visit"] == false;
        let row = *of_event(&all, "row").iter().find(is_wanted).expect("a row");
        row["simulated"]["seconds"].as_f64().expect("a number")
    };
    // 42 connections after the first, one after another on the client's only processor.
    let spared = seconds("") - seconds(" --set client_reopening_ms=0");
    assert!((0.05..0.1).contains(&spared), "{spared}");
    let out = weir("lab w3c --table 5 --runs 1 --set cache_ms=0");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.starts_with("Not the fitted processor times: cache_ms=0\n"),
        "{text}"
    );
    assert!(!text.contains("Table 4"), "{text}");
}

#[test]
fn table_and_traces_of_document_001() {
    let all = lines("lab heidemann --pages 3 --json");
    assert_eq!(of_event(&all, "row").len(), 4);
    for trace in of_event(&all, "trace") {
        assert_eq!(trace["difference"], Value::Null);
        // What a plot shows: the same positions in both, with the stall between two of the server's segments.
        let positions = |world: &str, rows: &str, name: &str| -> Vec<Value> {
            let rows = trace[world][rows].as_array().expect("rows").iter();
            rows.map(|row| row[name].clone()).collect()
        };
        for (rows, name) in [("data", "from"), ("data", "to"), ("acknowledged", "position")] {
            let simulated = positions("simulated", rows, name);
            assert_eq!(simulated, positions("published", rows, name), "{rows} {name}");
            assert!(simulated.len() >= 3, "{trace}");
        }
        let times = positions("simulated", "data", "ms");
        let times: Vec<f64> = times.iter().map(|at| at.as_f64().expect("a time")).collect();
        let stall = times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        assert!(
            (stall - trace["simulated"]["stall_ms"].as_f64().expect("a stall")).abs() < 0.01,
            "{trace}"
        );
    }
    let restarts = of_event(&all, "restart");
    assert_eq!(restarts.len(), 2 * 4 + 3);
    let out = weir("lab heidemann --pages 3");
    let text = String::from_utf8(out.stdout).expect("UTF-8");
    assert_eq!(
        text.matches("segment for segment as published").count(),
        2,
        "{text}"
    );
}

#[test]
fn each_fitted_figure_is_predicted_from_the_others() {
    let all = lines("lab leave-one-out --parameters page,timeouts,modem --runs 1 --json");
    let refits = of_event(&all, "refit");
    let figures = of_event(&all, "figure");
    assert_eq!((refits.len(), figures.len()), (2 + 2 + 1, 2 * 2 + 2 * 6 + 1));
    let (single, several) = figures.split_last().expect("figures");
    for figure in several {
        let [published, left_out] =
            ["published", "left_out"].map(|name| figure[name].as_f64().expect("a number"));
        let tolerance = match figure["quantity"].as_str() {
            Some("packets" | "bytes") => 0.1,
            _ => 0.2,
        };
        let is_within = (left_out / published - 1.0).abs() <= tolerance;
        assert_eq!(figure["within"], is_within, "{figure}");
    }
    assert_eq!(
        (single["published"].as_f64(), &single["left_out"]),
        (Some(12.13), &Value::Null)
    );
    assert!(
        single["verdict"]
            .as_str()
            .is_some_and(|said| said.contains("no evidence"))
    );
    assert!(!of_event(&all, "not-covered").is_empty());

    // The other two formats have a line for each figure, too. Those of document 001 take most of the time.
    let figures: Vec<&Value> = figures
        .into_iter()
        .filter(|figure| figure["document"] == "003")
        .collect();
    for (format, start) in [("table", "  "), ("markdown", "| ")] {
        let out = weir(&format!(
            "lab leave-one-out --parameters timeouts,modem --runs 1 --format {format}"
        ));
        let text = String::from_utf8(out.stdout).expect("UTF-8");
        for figure in &figures {
            let name = figure["figure"].as_str().expect("a name");
            let quantity = figure["quantity"].as_str().expect("a word");
            let row = format!("{start}{name}: {quantity} ");
            let count = text.lines().filter(|line| line.starts_with(&row)).count();
            let is_same = |other: &&&Value| other["figure"] == name && other["quantity"] == quantity;
            assert_eq!(count, figures.iter().filter(is_same).count(), "{row}\n{text}");
        }
    }
}

#[test]
fn content_with_the_encoders_of_today() {
    let all = lines("lab content --json");
    assert_eq!(of_event(&all, "picture").len(), 42);
    let content = of_event(&all, "content");
    assert_eq!(content.len(), 6 + 2 + 1);
}

#[test]
fn a_simulated_visit_is_shown_as_a_real_one_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("visit.pcapng");
    let all = lines(&format!(
        "fetch --simulate wan --from jigsaw --compare serial,pipelined --revalidate --explain --json --pcapng {}",
        file.display()
    ));
    let fetches = of_event(&all, "fetch");
    assert_eq!((fetches.len(), of_event(&all, "spread").len()), (2, 2));
    for fetch in &fetches {
        assert_eq!(fetch["requests"], 43);
        assert_eq!(fetch["from_cache"], 43);
        let causes = fetch["explain"]["causes"].as_array().expect("causes");
        let sum: f64 = causes.iter().filter_map(|cause| cause["seconds"].as_f64()).sum();
        let seconds = fetch["seconds"].as_f64().expect("a number");
        assert!((sum - seconds).abs() < 1e-6, "{sum} {seconds}");
    }
    // What is written is what `weir trace` reads.
    let trace = weir(&format!("trace {}", file.display()));
    let text = String::from_utf8_lossy(&trace.stdout).into_owned();
    assert_eq!(trace.status.code(), Some(0), "{text}");
    let packets = fetches[1]["packets"].as_u64().expect("a number");
    assert!(text.contains(&packets.to_string()), "{packets} packets: {text}");
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    for (line, fragment) in [
        ("fetch --simulate dsl --from apache", "--from weir"),
        ("fetch --simulate nowhere", "nowhere"),
        ("fetch --simulate lan --from iis", "apache or jigsaw"),
        (
            "fetch --simulate lan --from apache --first-bytes 100",
            "--from weir",
        ),
        ("fetch --simulate lan http://localhost/", "cannot be used"),
        ("fetch http://localhost/ --revalidate", "--cache"),
        ("lab leave-one-out --parameters time", "did you mean `times`"),
        ("lab w3c --table 12", "3 to 9"),
        ("lab w3c --table 3 --set cache_ms=0", "Tables 4 to 9 only"),
        ("lab w3c --set cache_mss=0", "did you mean `cache_ms`"),
        ("lab w3c --set cache_ms=-1", "use 0 to 10000"),
    ] {
        let out = weir(line);
        assert_eq!(out.status.code(), Some(2), "{line}");
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(text.contains(fragment), "{line}: {text}");
    }
}

#[test]
fn a_server_of_document_000_on_its_host() {
    let line = "lab hosts --server apache-1.3 --users 20 --mode pipelined --warmup 2s --duration 3s";
    let once = weir(&format!("{line} --json"));
    assert_eq!(
        once.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&once.stderr)
    );
    assert_eq!(
        once.stdout,
        weir(&format!("{line} --json")).stdout,
        "the same bytes twice"
    );
    let host = &lines(&format!("{line} --json"))[0];
    let number = |pointer: &str| host.pointer(pointer).and_then(Value::as_f64).expect(pointer);
    assert!(
        number("/files_per_s") > 1.0 && number("/idle_pct") > 50.0,
        "{host}"
    );
    let parts = number("/kinds/data") + number("/kinds/ack") + number("/kinds/syn") + number("/kinds/fin");
    // A segment with data and FIN counts twice.
    assert!(parts >= number("/packets"), "{host}");
    let slices: f64 = host["tasks"]
        .as_array()
        .expect("tasks")
        .iter()
        .map(|one| one[1].as_f64().expect("a share"))
        .sum();
    assert!((slices - 100.0).abs() < 1e-6, "{slices}");
    let text = String::from_utf8(weir(line).stdout).expect("UTF-8");
    assert!(text.contains("Apache 1.3.0 on linux-2.0, pipelined"), "{text}");
}

#[test]
fn every_parameter_of_the_hosts_is_printed_with_its_source() {
    let all = lines("lab hosts --json");
    assert!(all.len() > 80, "{}", all.len());
    for one in of_event(&all, "parameter") {
        assert!(
            one["source"].as_str().is_some_and(|source| source.len() > 5),
            "{one}"
        );
        assert!(
            ["document", "recalled-unverified", "derived", "assumed"]
                .contains(&one["basis"].as_str().expect("a word")),
            "{one}"
        );
    }
    for (wrong, message) in [
        ("lab hosts --server zeuss", "did you mean `zeus`"),
        (
            "lab hosts --server zeus --set workerz=3",
            "did you mean `workers`",
        ),
        ("lab hosts --server zeus --set workers", "write NAME=VALUE"),
        (
            "lab hosts --server zeus --mode h3",
            "write http10, serial, pipelined, early-close or h2",
        ),
    ] {
        let out = weir(wrong);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{wrong}: {said}");
        assert!(said.contains(message), "{wrong}: {said}");
    }
}

/// With too little memory, connections end while their output is under way. Sessions that gave it up do not hear of it.
#[test]
fn a_collapse_of_a_host_is_a_result() {
    let squeezed = "lab hosts --server apache-1.3 --users 520 --mode early-close --set memory_mb=18 --duration 60s --seed 1 --json";
    assert_eq!(lines(squeezed).len(), 1);
}

/// The modes of the study over a link that loses packets: complete, the same again, and other with another seed.
#[test]
fn visits_of_the_protocols_since_follow_from_the_seed() {
    let rows = |seed: u32| {
        let (link, seed) = ("4g loss=3%", seed.to_string());
        let words = [
            "lab",
            "since",
            "--link",
            link,
            "--modes",
            "h1-six,h2,h3",
            "--seed",
            &seed,
            "--json",
        ];
        read("lab since", crate::cli::weir(&words))
    };
    let first = rows(2);
    assert_eq!(first.len(), 6);
    for row in &first {
        assert_eq!((&row["event"], &row["tls"]), (&"row".into(), &true.into()));
        let connections = if row["mode"] == "h1-six" { 6.0 } else { 1.0 };
        assert_eq!(row["simulated"]["connections"], connections, "{row}");
    }
    assert_eq!(first, rows(2));
    let numbers =
        |rows: &[Value]| -> Vec<Value> { rows.iter().map(|row| row["simulated"].clone()).collect() };
    assert_ne!(numbers(&first), numbers(&rows(3)));
    let pages = lines("lab since --link lan --pages 2s --json");
    let modes: Vec<&Value> = pages.iter().map(|line| &line["mode"]).collect();
    assert_eq!(modes, ["pipelined", "early-close"]);
    let refused = weir("lab since --clear --modes h3");
    assert_eq!(refused.status.code(), Some(2));
}
