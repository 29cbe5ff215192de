//! The seconds of a run at a receiver of Prometheus remote write: the samples, failures of the receiver, and a real Prometheus,
//! whose decoder is not ours. The test with Prometheus is skipped where it is not installed.

use super::metrics::PATIENT;
use crate::fixture::served;
use crate::serve::otlp::{Collector, LATER, NEVER, Sent, TAKEN, inner, text};
use crate::serve::process::{PATIENCE, Strategy, eventually};
use crate::serve::tls::Pairs;
use crate::serve::tree::Tree;
use crate::workload::{refused, result};
use otlp::wire::{Fields, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The receiver fails, and may be asked again at once.
const BROKEN: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
/// The receiver refuses samples and says why.
const REJECTED: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 20\r\n\r\nout of order sample\n";

/// Time in milliseconds and value of each sample.
type Samples = Vec<(u64, f64)>;

/// Labels and samples of each series of a request.
fn series(sent: &Sent) -> Vec<(Vec<(String, String)>, Samples)> {
    let message = snap::raw::Decoder::new()
        .decompress_vec(&sent.content)
        .expect("a block of snappy");
    let label = |label: &[u8]| {
        let part = |number: u32| text(inner(label, number).next().expect("a name and a value"));
        (part(1), part(2))
    };
    let sample = |sample: &[u8]| match Fields(sample).collect::<Vec<_>>()[..] {
        [(1, Value::Fixed64(value)), (2, Value::Number(time))] => (time, f64::from_bits(value)),
        ref other => panic!("{other:?}"),
    };
    let read = |series: &[u8]| {
        let labels: Vec<(String, String)> = inner(series, 1).map(label).collect();
        let samples: Samples = inner(series, 2).map(sample).collect();
        (labels, samples)
    };
    inner(&message, 1).map(read).collect()
}

#[test]
fn a_receiver_gets_each_second_of_a_run() {
    let site = served(&["webstone"]);
    let receiver = Collector::new(|number| if number == 0 { BROKEN } else { TAKEN });
    let run = [
        "load",
        &site.url,
        "--site",
        site.path(),
        "--rate",
        "200",
        "--duration",
        "2s",
        "--json",
    ];
    let url = format!("{}/api/v1/write?tenant=a", receiver.url);
    let to = ["--remote-write", &url, "--remote-write-header", "X-Key: secret"];
    let (said, _) = result(&[&run[..], &PATIENT, &to].concat(), 0);
    let sent = receiver.all();
    assert_eq!(sent.len(), 2, "the second attempt is taken");
    assert_eq!(sent[0].content, sent[1].content);
    for part in [
        "POST /api/v1/write?tenant=a HTTP/1.1\r\n",
        "\r\nContent-Type: application/x-protobuf\r\n",
        "\r\nContent-Encoding: snappy\r\n",
        "\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\n",
        concat!("\r\nUser-Agent: weir/", env!("CARGO_PKG_VERSION"), "\r\n"),
        "\r\nX-Key: secret\r\n",
    ] {
        assert!(sent[1].head.contains(part), "{part:?}: {}", sent[1].head);
    }
    let mut by_name: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (labels, samples) in series(&sent[1]) {
        assert!(labels.is_sorted(), "{labels:?}");
        let values: BTreeMap<&str, &str> = labels
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(values.len(), labels.len(), "each once: {labels:?}");
        for (name, value) in [
            ("instance", said["peer"].as_str()),
            ("job", Some("weir-load")),
            ("mode", said["mode"].as_str()),
            ("rank", Some("0")),
        ] {
            assert_eq!(values.get(name).copied(), value, "{name}");
        }
        let start = samples[0].0;
        let times: Vec<u64> = samples.iter().map(|(time, _)| time - start).collect();
        assert_eq!(times, [0, 1_000, 2_000], "{labels:?}");
        let numbers: Vec<f64> = samples.iter().map(|(_, value)| *value).collect();
        assert!(
            numbers[0] == 0.0 && numbers.is_sorted(),
            "{labels:?}: {numbers:?}"
        );
        let own = values.get("class").or(values.get("le"));
        let name = own.map_or(values["__name__"].to_owned(), |own| {
            format!("{} {own}", values["__name__"])
        });
        by_name.insert(name, numbers);
    }
    let counts: Vec<&str> = by_name
        .keys()
        .map(String::as_str)
        .filter(|name| !name.contains("_bucket "))
        .collect();
    assert_eq!(
        counts,
        [
            "weir_load_content_bytes_total",
            "weir_load_errors_total",
            "weir_load_failures_total",
            "weir_load_files_total",
            "weir_load_objects_total",
            "weir_load_replies_total 3xx",
            "weir_load_replies_total 4xx",
            "weir_load_replies_total 5xx",
            "weir_load_response_duration_seconds_count",
            "weir_load_response_duration_seconds_sum",
        ]
    );
    let files = said["files_in_time"].as_u64().expect("a count") as f64;
    let bucket = |bound: &str| by_name[&format!("weir_load_response_duration_seconds_bucket {bound}")][2];
    assert!(files > 0.0);
    for (name, expected) in [
        ("weir_load_files_total", files),
        ("weir_load_failures_total", 0.0),
        ("weir_load_replies_total 5xx", 0.0),
        ("weir_load_response_duration_seconds_count", files),
    ] {
        assert_eq!(by_name[name][2], expected, "{name}");
    }
    assert_eq!((by_name.len(), bucket("+Inf")), (counts.len() + 15, files));
    assert!(bucket("0.005") <= bucket("1.0") && bucket("1.0") <= bucket("10.0"));
    let sum = by_name["weir_load_response_duration_seconds_sum"][2];
    assert!(sum > 0.0 && sum < 60.0 * files, "{sum}");
}

#[test]
fn a_receiver_that_takes_nothing_fails_the_command_behind_its_result() {
    let site = served(&["webstone"]);
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
    let run = [&run[..], &PATIENT].concat();
    // The receiver gets its request although the collector refuses its own.
    let (receiver, collector) = (Collector::new(|_| NEVER), Collector::new(|_| NEVER));
    let url = format!("{}/write", receiver.url);
    let both = ["--json", "--remote-write", &url, "--otlp", &collector.url];
    let files = ["--csv", "/dev/full", "--junit", "/dev/full"];
    let (said, failure) = result(&[&run[..], &both, &files].concat(), 4);
    assert!(said["files"].as_u64() > Some(0));
    for part in [
        "it answers with 400 (--otlp)",
        "it answers with 400 (--remote-write)",
        "also: ",
    ] {
        assert!(failure.contains(part), "{part}: {failure}");
    }
    assert_eq!(
        failure.matches("cannot write `/dev/full`").count(),
        2,
        "{failure}"
    );
    assert_eq!(
        (receiver.all().len(), collector.all().len()),
        (1, 1),
        "once is enough"
    );
    let receiver = Collector::new(|_| REJECTED);
    let url = format!("{}/write", receiver.url);
    let why = refused(&[&run[..], &["--remote-write", &url]].concat(), 4);
    assert!(why.contains("it answers with 400 (--remote-write)"), "{why}");
    assert!(why.contains("\"out of order sample\""), "{why}");
    assert_eq!(receiver.all().len(), 1, "once is enough");
    let receiver = Collector::new(|_| LATER);
    let url = format!("{}/write", receiver.url);
    let why = refused(&[&run[..], &["--remote-write", &url]].concat(), 4);
    assert!(why.contains("it answers with 503 (--remote-write)"), "{why}");
    assert_eq!(receiver.all().len(), 4, "attempts");
    let there = ["--remote-write", "http://127.0.0.1:1/write"];
    let ca = ["--remote-write-ca", "/nonexistent/ca.pem"];
    for (flags, part) in [
        (
            &["--remote-write", "127.0.0.1:9090/api/v1/write"][..],
            "is not the URL of a receiver",
        ),
        (
            &["--remote-write", "unix:/run/write.sock"],
            "is not the URL of a receiver",
        ),
        (
            &["--remote-write", "http://127.0.0.1:9090"],
            "has no path, and Weir adds none; write a URL as in http://127.0.0.1:9090/api/v1/write",
        ),
        (
            &["--remote-write", "http://user:word@127.0.0.1:9090/write"],
            "has credentials, which belong in --remote-write-header",
        ),
        (
            &["--remote-write-header", "X-Key: secret"],
            "`--remote-write-header` has no effect without a receiver",
        ),
        (&ca, "`--remote-write-ca` has no effect without a receiver"),
        (
            &[there, ca].concat(),
            "`--remote-write-ca` has no effect: http://127.0.0.1:1/write is not https",
        ),
        (
            &[["--remote-write", "https://localhost:1/write"], ca].concat(),
            "name a readable PEM file",
        ),
        (
            &[
                there,
                ["--remote-write-header", "x-prometheus-remote-write-version: 2"],
            ]
            .concat(),
            "is set by Weir for each request to the receiver",
        ),
        (
            &[there, ["--remote-write-header", "Content-Encoding: gzip"]].concat(),
            "`Content-Encoding` is set by Weir",
        ),
        (
            &[there, ["--slo", "p99<1s"]].concat(),
            "`--remote-write` sends the seconds of one run",
        ),
    ] {
        let why = refused(&[&run[..], flags].concat(), 2);
        assert!(why.contains(part), "{flags:?}: {why}");
    }
}

/// The receiver's TLS ends at another server of ours.
#[test]
fn a_receiver_may_be_reached_over_tls() {
    let site = served(&["webstone"]);
    let receiver = Collector::new(|_| TAKEN);
    let mut pairs = Pairs::new();
    pairs.add("c", &["localhost"]);
    let terminator = pairs
        .launch(Strategy::LOOPS, &["c"])
        .args([&format!("--proxy=/base={}", receiver.url)])
        .start();
    // Roots that do not vouch for it.
    pairs.add("other", &["localhost"]);
    let url = format!("https://localhost:{}/base/write", terminator.address.port());
    let run = [
        "load",
        &site.url,
        "--site",
        site.path(),
        "--rate",
        "100",
        "--duration",
        "1s",
        "--json",
        "--remote-write",
        &url,
    ];
    let run = [&run[..], &PATIENT].concat();
    let with = |file: &str, code: i32| {
        let file = pairs.tree.join(file);
        let ca = ["--remote-write-ca", file.to_str().expect("text")];
        result(&[&run[..], &ca].concat(), code)
    };
    with("c.pem", 0);
    let sent = receiver.all();
    assert!(sent[0].head.starts_with("POST /base/write HTTP/1.1\r\n"));
    assert_eq!((sent.len(), series(&sent[0]).len()), (1, 25));
    let (_, failure) = with("other.pem", 4);
    for part in ["TLS failed: ", "--remote-write-ca", "(--remote-write)"] {
        assert!(failure.contains(part), "{part}: {failure}");
    }
    assert!(!failure.contains("--insecure"), "{failure}");
    assert_eq!(receiver.all().len(), 1);
}

/// Where Prometheus is; prints why the test cannot run without it.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path);
    let found = folders.find_map(|folder| Some(folder.join("prometheus")).filter(|file| file.is_file()));
    if found.is_none() {
        println!("skipped: prometheus is not installed");
    }
    found
}

/// A Prometheus that takes remote writes.
struct Prometheus {
    process: Child,
    address: SocketAddr,
    tree: Tree,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Prometheus {
    /// Prometheus cannot choose its port itself, so another program may take the one chosen here first: then another one.
    fn start(program: &Path) -> Prometheus {
        const ATTEMPTS: usize = 10;
        (0..ATTEMPTS)
            .find_map(|_| Prometheus::at_a_free_port(program))
            .expect("a port that stays free")
    }

    /// `None` if the port is taken before Prometheus listens.
    fn at_a_free_port(program: &Path) -> Option<Prometheus> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        drop(listener);
        let tree = Tree::with(&[("prometheus.yml", "global: { scrape_interval: 1m }\n")]);
        let log = File::create(tree.join("log")).expect("a log");
        let process = Command::new(program)
            .arg("--web.enable-remote-write-receiver")
            .arg(format!("--web.listen-address={address}"))
            .arg(format!("--config.file={}", tree.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", tree.join("tsdb").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("Prometheus");
        let mut prometheus = Prometheus {
            process,
            address,
            tree,
        };
        let serves = eventually("Prometheus serves", || {
            let has_ended = prometheus.process.try_wait().expect("its status").is_some();
            // Another program may answer at this port.
            let is_ready = !has_ended && prometheus.get("/-/ready").is_some();
            (is_ready || has_ended).then_some(!has_ended)
        });
        if serves {
            return Some(prometheus);
        }
        let said = std::fs::read_to_string(prometheus.tree.join("log")).expect("its log");
        assert!(said.contains("address already in use"), "{said}");
        None
    }

    /// The content of a response with the status 200; `None` without one.
    fn get(&self, target: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let request = format!("GET {target} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).ok()?;
        let mut said = String::new();
        stream.read_to_string(&mut said).ok()?;
        let (head, content) = said.split_once("\r\n\r\n")?;
        head.lines()
            .next()?
            .ends_with(" 200 OK")
            .then(|| content.to_owned())
    }

    /// Labels and value of each series of this expression now.
    fn query(&self, expression: &str) -> Vec<(serde_json::Value, f64)> {
        let said = eventually("an answer", || {
            self.get(&format!("/api/v1/query?query={expression}"))
        });
        let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        let found = said["data"]["result"].as_array().expect("a vector").iter();
        found
            .map(|one| {
                let value = one["value"][1].as_str().expect("a value");
                (one["metric"].clone(), value.parse().expect("a number"))
            })
            .collect()
    }
}

#[test]
fn a_real_prometheus_has_the_counts_of_a_run() {
    let Some(program) = installed() else { return };
    let prometheus = Prometheus::start(&program);
    let site = served(&["webstone"]);
    let url = format!("http://{}/api/v1/write", prometheus.address);
    let run = [
        "load",
        &site.url,
        "--site",
        site.path(),
        "--rate",
        "200",
        "--duration",
        "2s",
        "--json",
        "--remote-write",
        &url,
    ];
    let (said, _) = result(&[&run[..], &PATIENT].concat(), 0);
    let files = said["files_in_time"].as_u64().expect("a count") as f64;
    let found = eventually("the series", || {
        Some(prometheus.query("weir_load_files_total")).filter(|found| !found.is_empty())
    });
    let [(labels, value)] = &found[..] else {
        panic!("{found:?}")
    };
    let expected = serde_json::json!({
        "__name__": "weir_load_files_total",
        "instance": said["peer"],
        "job": "weir-load",
        "mode": said["mode"],
        "rank": "0",
    });
    assert_eq!((labels, *value), (&expected, files));
    // Each bucket is a series, and all of them are a histogram.
    for (expression, expected) in [
        ("count(weir_load_response_duration_seconds_bucket)", 15.0),
        ("weir_load_response_duration_seconds_count", files),
        ("count(weir_load_replies_total)", 3.0),
        // The start, and each second.
        ("count_over_time(weir_load_objects_total[5m])", 3.0),
    ] {
        let found = prometheus.query(expression);
        assert!(
            matches!(&found[..], [(_, value)] if *value == expected),
            "{expression}: {found:?}"
        );
    }
    let median = prometheus.query("histogram_quantile(0.5,weir_load_response_duration_seconds_bucket)");
    assert!(
        matches!(median[..], [(_, median)] if median > 0.0 && median < 60.0),
        "{median:?}"
    );
}
