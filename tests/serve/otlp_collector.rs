//! Traces of a server, and metrics of a load, at a real collector of OpenTelemetry, whose decoder is not ours: it prints what it
//! takes. Skipped where `otelcol` is not installed.

use crate::cli::weir;
use crate::serve::process::{Launch, Server, Strategy, eventually};
use crate::serve::proxy::{GONE, HELLO, Upstream};
use crate::serve::tree::Tree;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// Where the collector is; prints why the test cannot run without it.
fn installed() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(home);
    let found = folders.find_map(|folder| Some(folder.join("otelcol")).filter(|file| file.is_file()));
    if found.is_none() {
        println!("skipped: otelcol is not installed (.ci/run builds it where there is Go)");
    }
    found
}

/// A collector that prints what it takes.
struct Collector {
    process: Child,
    url: String,
    printed: Arc<Mutex<String>>,
    _tree: Tree,
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Collector {
    /// The collector cannot choose its port itself, so another program may take the one chosen here first: then another one.
    fn start(program: &Path) -> Collector {
        const ATTEMPTS: usize = 10;
        (0..ATTEMPTS)
            .find_map(|_| Collector::at_a_free_port(program))
            .expect("a port that stays free")
    }

    /// `None` if the port is taken before the collector listens.
    fn at_a_free_port(program: &Path) -> Option<Collector> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("its address");
        drop(listener);
        let text = format!(
            "receivers: {{ otlp: {{ protocols: {{ http: {{ endpoint: \"{address}\" }} }} }} }}\n\
             exporters: {{ debug: {{ verbosity: detailed, use_internal_logger: false }} }}\n\
             service:\n  telemetry: {{ metrics: {{ level: none }} }}\n  pipelines:\n    \
             traces: {{ receivers: [otlp], exporters: [debug] }}\n    \
             metrics: {{ receivers: [otlp], exporters: [debug] }}\n"
        );
        let tree = Tree::with(&[("otelcol.yaml", &*text)]);
        let mut process = Command::new(program)
            .arg("--config")
            .arg(tree.join("otelcol.yaml"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the collector");
        let printed: Arc<Mutex<String>> = Arc::default();
        let out: Box<dyn Read + Send> = Box::new(process.stdout.take().expect("piped"));
        let err: Box<dyn Read + Send> = Box::new(process.stderr.take().expect("piped"));
        let readers = [out, err].map(|mut from| {
            let printed = Arc::clone(&printed);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = from.read(&mut buffer) {
                    let text = String::from_utf8_lossy(&buffer[..count]);
                    printed.lock().expect("no reader panics").push_str(&text);
                }
            })
        });
        let mut collector = Collector {
            process,
            url: format!("http://{address}"),
            printed,
            _tree: tree,
        };
        let serves = eventually("the collector serves", || {
            let has_ended = collector.process.try_wait().expect("its status").is_some();
            let is_ready = collector.text().contains("Everything is ready");
            (is_ready || has_ended).then_some(!has_ended)
        });
        if serves {
            return Some(collector);
        }
        for reader in readers {
            reader.join().expect("no reader panics");
        }
        let said = collector.text();
        assert!(said.contains("address already in use"), "{said}");
        None
    }

    fn text(&self) -> String {
        self.printed.lock().expect("no reader panics").clone()
    }

    /// The printed spans, each with what was printed of its resource.
    fn spans(&self) -> Vec<String> {
        let text = self.text();
        let batches = text.split("ResourceSpans #").skip(1);
        let spans = batches.flat_map(|batch| {
            let mut parts = batch.split("\nSpan #");
            let resource = parts.next().unwrap_or_default().to_owned();
            parts.map(move |span| format!("{resource}\n{span}"))
        });
        spans.collect()
    }
}

#[test]
fn a_real_collector_takes_all_spans() {
    let Some(program) = installed() else { return };
    let (collector, upstream) = (Collector::start(&program), Upstream::answering(HELLO));
    let tree = Tree::with(&[("a.txt", "a file")]);
    let mut server = Launch::new(Strategy::PROCESS_LOOPS)
        .root(tree.path())
        .args([
            "--otlp",
            &collector.url,
            "--otlp-service-name=shop",
            "--otlp-interval=100ms",
        ])
        .args([
            format!("--proxy=/api={}", upstream.url),
            format!("--proxy=/gone={GONE}"),
        ])
        .start();
    let (trace, parent) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let traced = format!("00-{trace}-{parent}-01");
    let mut connection = server.connect();
    let fields = [
        ("traceparent", &*traced),
        ("tracestate", "a=1"),
        ("User-Agent", "curl/8 é"),
    ];
    assert_eq!(connection.request("GET", "/a.txt", &fields).status, 200);
    assert_eq!(connection.request("GET", "/api/x", &fields).status, 200);
    assert_eq!(connection.get("/gone/x").status, 502);
    assert_eq!(server.stop(), 0);
    let log = server.stderr();
    assert!(!log.contains("traces:"), "nothing was rejected or lost: {log}");
    let spans = eventually("spans", || {
        Some(collector.spans()).filter(|spans| spans.len() >= 5)
    });
    assert_eq!(spans.len(), 5, "{spans:?}");
    let with = |parts: &[&str]| {
        let mut found = spans
            .iter()
            .filter(|span| parts.iter().all(|part| span.contains(part)));
        let one = found.next().unwrap_or_else(|| panic!("{parts:?} in {spans:#?}"));
        assert!(found.next().is_none(), "{parts:?} in {spans:#?}");
        one
    };
    let path = "url.path: Str(/a.txt)";
    let first = with(&[
        path,
        "http.response.status_code: Int(200)",
        "http.response.body.size: Int(6)",
    ]);
    for part in [
        trace,
        parent,
        "TraceState     : a=1",
        "Kind           : Server",
        "service.name: Str(shop)",
        "InstrumentationScope weir ",
        "Status code    : Unset",
        "http.request.method: Str(GET)",
        "network.protocol.version: Str(1.1)",
        "user_agent.original: Str(curl/8 é)",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
    let client = with(&[
        "url.full: Str(http://",
        "/api/x)",
        "Kind           : Client",
        "Status code    : Unset",
    ]);
    let server = with(&["url.path: Str(/api/x)", "Kind           : Server"]);
    let id = |span: &str, field: &str| {
        let line = span.lines().find(|line| line.trim_start().starts_with(field));
        let (_, id) = line.and_then(|line| line.split_once(": ")).expect("a field");
        id.trim().to_owned()
    };
    assert_eq!(id(client, "Parent ID"), id(server, "ID "));
    assert!(
        upstream
            .first()
            .contains(&format!("traceparent: 00-{trace}-{}-01\r\n", id(client, "ID ")))
    );
    with(&[
        "url.path: Str(/gone/x)",
        "Status code    : Error",
        "error.type: Str(502)",
    ]);
    with(&[
        "/gone/x)",
        "Kind           : Client",
        "Status code    : Error",
        "error.type: Str(unreachable)",
    ]);
}

#[test]
fn a_real_collector_takes_the_seconds_of_a_load() {
    let Some(program) = installed() else { return };
    let collector = Collector::start(&program);
    let tree = Tree::with(&[("a.txt", "a file")]);
    let server = Server::of(Strategy::LOOPS, tree.path());
    let url = format!("http://{}/a.txt", server.address);
    let load = [
        "load",
        &url,
        "--rate",
        "100",
        "--duration",
        "2s",
        "--lag-max",
        "60s",
        "--stall-max",
        "1h",
    ];
    let output = weir(&[&load[..], &["--otlp", &collector.url]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = eventually("metrics", || {
        Some(collector.text()).filter(|text| text.contains("ExplicitBounds #13"))
    });
    for part in [
        "service.name: Str(weir-load)",
        "Name: weir.load.files",
        "Name: weir.load.response.duration",
        "DataType: Sum",
        "IsMonotonic: true",
        "AggregationTemporality: Cumulative",
        "DataType: Histogram",
        "ExplicitBounds #13: 10.0",
        "class: Str(5xx)",
        "weir.load.rank: Str(0)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.matches("Name: weir.load.").count(), 9, "{text}");
}
