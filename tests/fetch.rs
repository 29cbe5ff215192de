//! The black box of `weir fetch`: the built binary against the built server, and against a scripted one that
//! misbehaves. Looks only at what is printed, written and asked for.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a black-box test is the outside world: it starts programs and reads files"
)]

use crate::cli::weir;
use crate::drawn;
use crate::fixture::{Served, served, serving};
use serde_json::Value;
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use tempfile::TempDir;

/// The lines of JSON of a fetch that ended with this code, and its standard error.
fn fetched(arguments: &[&str], code: i32) -> (Vec<Value>, String) {
    let output = weir(&[&["fetch", "--json"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    let text = String::from_utf8(output.stdout).expect("text");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    (lines.collect(), errors)
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name}: {value}"))
}

/// The Microscape site of W3C NOTE-pipelining-970624 and a server for it, gone when dropped.
fn microscape() -> Served {
    served(&["microscape"])
}

/// A server that does with each connection what the script says, one connection after another, until the
/// script ends; then it is gone. What was asked for comes out of the channel.
fn scripted(mut script: impl FnMut(usize, &mut Talk) + Send + 'static) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    let (said, heard) = mpsc::channel();
    std::thread::Builder::new()
        .spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let stream = BufReader::new(stream.expect("a connection"));
                script(
                    number,
                    &mut Talk {
                        stream,
                        said: said.clone(),
                    },
                );
            }
        })
        .expect("a thread");
    (url, heard)
}

struct Talk {
    stream: BufReader<TcpStream>,
    said: mpsc::Sender<String>,
}

impl Talk {
    /// The target of the next request; none at the end.
    fn next(&mut self) -> Option<String> {
        let mut target = None;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            if line == "\r\n" {
                let target = target?;
                let _ = self.said.send(String::clone(&target));
                return Some(target);
            }
            target = target.or_else(|| line.split(' ').nth(1).map(str::to_owned));
        }
    }

    fn say(&mut self, head: &str, body: &str) {
        let _ = write!(self.stream.get_mut(), "HTTP/1.1 {head}\r\n\r\n{body}");
    }

    fn ok(&mut self, body: &str) {
        let head = format!(
            "200 OK\r\nContent-Type: text/html\r\nContent-Length: {}",
            body.len()
        );
        self.say(&head, body);
    }
}

#[test]
fn every_mode_fetches_microscape_over_the_connections_the_note_says() {
    let site = microscape();
    let modes = "http10,serial,pipelined,pipelined+deflate,pipelined+gzip,pipelined+br,pipelined+zstd,early-close,h2,h2+br";
    let (lines, _) = fetched(&[&site.url, "--compare", modes, "--repeat", "2", "--explain"], 0);
    let (runs, spreads): (Vec<_>, Vec<_>) = lines.iter().partition(|line| line["event"] == "fetch");
    assert_eq!((runs.len(), spreads.len()), (20, 10));
    let mut bytes = std::collections::BTreeMap::new();
    for run in runs {
        let mode = run["mode"].as_str().expect("a mode").to_owned();
        assert_eq!(number(run, "requests"), 43, "{mode}");
        let connections = if mode == "http10" { 43 } else { 1 };
        assert_eq!(number(run, "connections"), connections, "{mode}");
        assert_eq!(number(run, "failed"), 0, "{mode}");
        let causes = run["explain"]["causes"].as_array().expect("causes");
        let sum: f64 = causes
            .iter()
            .map(|cause| cause["seconds"].as_f64().expect("a number"))
            .sum();
        let seconds = run["seconds"].as_f64().expect("a number");
        assert!((sum - seconds).abs() < 1e-6, "{mode}: {sum} of {seconds}");
        // Three packets of the handshake, a request, an answer with the server's FIN, this end's, an acknowledgment.
        assert_eq!(number(run, "closings_uncounted"), 0, "{mode}");
        assert!(number(run, "packets") >= 7 * connections, "{mode}");
        bytes.insert(mode, number(run, "bytes_in"));
    }
    for coded in ["deflate", "gzip", "br", "zstd"] {
        let coded = bytes[&format!("pipelined+{coded}")];
        assert!(coded + 20_000 < bytes["pipelined"], "{bytes:?}");
    }
}

/// Over a simulated network, where every run is the same.
#[test]
fn http_2_brings_what_the_page_needs_first() {
    let visit = |mode: &str| {
        let (lines, _) = fetched(&["--simulate", "wan", "--mode", mode], 0);
        lines
            .into_iter()
            .find(|line| line["event"] == "fetch")
            .expect("a fetch")
    };
    let (old, new) = (visit("serial"), visit("h2"));
    assert_eq!(number(&new, "requests"), number(&old, "requests"));
    assert_eq!(number(&new, "connections"), 1);
    let seconds = |line: &Value| line["seconds"].as_f64().expect("a number");
    assert!(
        seconds(&new) < seconds(&old),
        "{} {}",
        seconds(&new),
        seconds(&old)
    );
    let again = visit("h2");
    assert_eq!(seconds(&again), seconds(&new));
}

/// The same page over TLS and over QUIC, in virtual time: HTTP/3 needs no further flag, and the other modes have TLS beside it.
#[test]
fn http_3_is_simulated_beside_http_2_and_repeats_itself() {
    let link = "rate=9M rtt=85ms loss=3%";
    let visits = || {
        let arguments = ["--simulate", link, "--compare", "h2,h3", "--seed", "7"];
        let (lines, _) = fetched(&arguments, 0);
        let fetches = lines.into_iter().filter(|line| line["event"] == "fetch");
        fetches.collect::<Vec<Value>>()
    };
    let first = visits();
    assert_eq!(first.len(), 2);
    for (visit, protocol) in first.iter().zip(["h2", "h3"]) {
        assert_eq!(visit["url"], "https://www26.w3.org/");
        assert_eq!(visit["opened"][0]["protocol"], protocol);
        assert_eq!(visit["opened"][0]["tls"]["version"], "TLS 1.3", "{protocol}");
        assert_eq!((number(visit, "requests"), number(visit, "failed")), (43, 0));
        let wire = &visit["wire"];
        assert_eq!(wire["packets"], visit["packets"], "{protocol}");
        assert!(number(wire, "bytes") > number(visit, "bytes_in"), "{protocol}");
    }
    assert!(!first[1]["opened"][0]["quic"].is_null() && first[1]["opened"][0]["tcp"].is_null());
    for (visit, again) in first.iter().zip(visits()) {
        for what in ["seconds", "wire", "bytes_out"] {
            assert_eq!(visit[what], again[what], "{what}");
        }
    }
    let (lines, _) = fetched(&["--simulate", "lan", "--https"], 0);
    assert_eq!(lines[0]["opened"][0]["protocol"], "h2", "the server agrees to it");
    for (arguments, said) in [
        (&["--from", "apache", "--mode", "h3"][..], "need --from weir"),
        (&["--from", "apache", "--https"], "have no TLS"),
        (&["--mode", "h3", "--tcp", "linux-2.0"], "`--tcp` has no effect"),
        (&["--qlog", "x"], "add --mode h3"),
        (&["--compare", "h2,serial", "--qlog", "x"], "add --mode h3"),
        (&["--insecure"], "a certificate of their own"),
    ] {
        let (_, errors) = fetched(&[&["--simulate", "wan"], arguments].concat(), 2);
        assert!(errors.contains(said), "{arguments:?}: {errors}");
    }
    let (_, errors) = fetched(&["http://127.0.0.1:9/", "--https"], 2);
    assert!(errors.contains("`--https`"), "{errors}");
}

/// The capture has the keys, so `weir trace` reads the requests in it; and both files have the same packets.
#[test]
fn a_simulated_visit_over_quic_leaves_a_capture_and_a_log_of_its_packets() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let [log, capture] = ["visit.qlog", "visit.pcapng"].map(|name| dir.path().join(name));
    let [log_name, capture_name] = [&log, &capture].map(|path| path.to_str().expect("UTF-8"));
    let link = "rate=9M rtt=85ms loss=1%";
    let modes = ["--simulate", link, "--compare", "h2,h3", "--seed", "7"];
    let files = ["--qlog", log_name, "--pcapng", capture_name];
    let (lines, _) = fetched(&[&modes[..], &files].concat(), 0);
    let visit = lines
        .iter()
        .rfind(|line| line["event"] == "fetch")
        .expect("a fetch");
    assert_eq!((number(visit, "requests"), number(visit, "failed")), (43, 0));
    let text = std::fs::read_to_string(&log).expect("a log");
    let written: Value = serde_json::from_str(&text).expect("JSON");
    let traces = written["traces"].as_array().expect("traces");
    assert_eq!(traces.len(), 1);
    let start = traces[0]["common_fields"]["reference_time"]
        .as_f64()
        .expect("a time");
    assert_eq!(start, 867_153_600_000.0, "the day of the simulation");
    let packets = |events: &Value| {
        let named = |event: &&Value| {
            event["name"]
                .as_str()
                .is_some_and(|name| name.starts_with("transport:packet_"))
        };
        let all = events.as_array().expect("events").iter().filter(named);
        all.map(|event| (event["name"].clone(), event["data"].clone()))
            .collect::<Vec<_>>()
    };
    let events = traces[0]["events"].as_array().expect("events");
    drawn::whole(events, 43);
    drawn::recovery(events, 0);
    let logged = packets(&traces[0]["events"]);
    assert!(
        logged.iter().all(|(_, data)| data["frames"].is_array()),
        "all were opened"
    );
    let again = dir.path().join("again.qlog");
    let output = weir(&[
        "trace",
        capture_name,
        "--json",
        "--qlog",
        again.to_str().expect("UTF-8"),
    ]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let lines = said
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let requests = lines.filter(|line| line["event"] == "transaction").count();
    assert_eq!(requests, 43);
    let text = std::fs::read_to_string(&again).expect("a log");
    let of_capture: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(packets(&of_capture["traces"][0]["events"]), logged);
    // Both are of one place.
    let output = weir(&["trace", capture_name, "--json", "--compare-qlog", log_name]);
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let lines = said
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let compared: Vec<Value> = lines.filter(|line| line["event"] == "comparison").collect();
    assert_eq!(compared.len(), 1);
    for way in ["sent", "received"] {
        assert_eq!(compared[0][way]["missing"], 0, "{way}");
        assert!(number(&compared[0][way], "matched") > 20, "{way}");
        let longest = compared[0][way]["delay_max_ms"].as_f64().expect("a time");
        assert!(longest.abs() < 0.01, "{way}: {longest}");
    }
}

#[test]
fn what_early_hints_announce_is_asked_for_before_the_page_comes() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let folder = dir.path().to_owned();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file");
    // A page that takes long to compress.
    let version = |count: usize| {
        let links = "<link rel=stylesheet href=a.css><script src=a.js></script>";
        format!("{links}{count}{}", "<p>all work and no play".repeat(20_000))
    };
    write("index.html", &version(0));
    write("a.css", "p { color: red }");
    write("a.js", "work();");
    let server = serving(dir, &["--early-hints"]);
    let visit = || {
        let (lines, _) = fetched(&[&server.url, "--mode", "h2+br", "--explain"], 0);
        let line = lines
            .iter()
            .find(|line| line["event"] == "fetch")
            .expect("a fetch");
        let objects = line["objects"].as_array().expect("objects").clone();
        let hinted = objects.iter().filter(|one| one["announced"] == true).count();
        let hints = line["explain"]["early_hints"].as_array().expect("hints");
        assert_eq!(hints.len(), hinted, "{line}");
        assert!(hints.iter().all(|hint| hint["used"] == true), "{line}");
        objects
    };
    let is_announced = |object: &Value| object["announced"] == true;
    assert!(
        !visit().iter().any(is_announced),
        "nothing is known before the first visit"
    );
    // The page is scanned aside, so it is known a moment later; each change makes a visitor wait for a job again.
    let announced = (1..200).find_map(|count| {
        write("index.html", &version(count));
        let objects = visit();
        objects.iter().any(is_announced).then_some(objects)
    });
    let objects = announced.expect("an announcement in 200 visits");
    assert_eq!(
        objects.iter().filter(|one| is_announced(one)).count(),
        2,
        "{objects:#?}"
    );
    let time = |object: &Value, name: &str| object["requests"][0][name].as_f64().expect("a time");
    for object in objects.iter().filter(|one| is_announced(one)) {
        assert!(
            time(object, "asked") < time(&objects[0], "first_byte"),
            "{objects:#?}"
        );
        assert_eq!(object["initiator"], "early-hints");
        assert!(object["named"].as_f64() >= objects[0]["requests"][0]["first_byte"].as_f64());
    }
}

#[test]
fn a_server_without_http_2_is_told_of() {
    let (url, _) = scripted(|_, talk| {
        let _ = talk
            .stream
            .get_mut()
            .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let (lines, _) = fetched(&[&url, "--mode", "h2"], 1);
    let said = lines[0].to_string();
    assert!(said.contains("HTTP/2") || said.contains("SETTINGS"), "{said}");
    let output = weir(&["fetch", "--simulate", "wan", "--from", "apache", "--mode", "h2"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Answers over HTTP/2 in cleartext with hyper until the process ends; the address.
fn hypers() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    listener.set_nonblocking(true).expect("a mode");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(tokio::task::LocalSet::new().run_until(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                tokio::task::spawn_local(async move {
                    let answer = hyper::service::service_fn(async |request| {
                        Ok::<_, Infallible>(hyper_answer(&request))
                    });
                    // A client that leaves is an error here.
                    let _ = hyper::server::conn::http2::Builder::new(Here)
                        .serve_connection(hyper_util::rt::TokioIo::new(stream), answer)
                        .await;
                });
            }
        }));
    });
    address
}

/// Runs what hyper starts on the same thread.
#[derive(Clone)]
struct Here;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for Here {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

fn hyper_answer<B>(request: &hyper::Request<B>) -> hyper::Response<http_body_util::Full<hyper::body::Bytes>> {
    let (kind, body) = match request.uri().path() {
        "/" => ("text/html", "<img src=a.gif><img src=b.gif>".to_owned()),
        _ => ("image/gif", "x".repeat(200_000)),
    };
    hyper::Response::builder()
        .header("content-type", kind)
        .body(http_body_util::Full::new(body.into()))
        .expect("an answer")
}

#[test]
fn a_page_and_a_load_of_hypers_server_over_http_2() {
    let url = format!("http://{}/", hypers());
    let (lines, errors) = fetched(&[&url, "--mode", "h2"], 0);
    let line = &lines[0];
    assert_eq!(line["opened"][0]["protocol"], "h2", "{line} {errors}");
    assert_eq!(line["objects"][2]["content_bytes"], 200_000, "{line}");
    let output = weir(&[
        "load",
        &url,
        "--http2",
        "--clients",
        "4",
        "--duration",
        "1s",
        "--lag-max",
        "60s",
        "--json",
    ]);
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(result["errors"], serde_json::json!({}), "{result}");
    assert!(
        result["files"].as_u64().is_some_and(|files| files > 3),
        "{result}"
    );
}

#[test]
fn a_second_visit_transfers_no_content() {
    let site = microscape();
    let cache = TempDir::new().expect("a folder");
    let cache = cache.path().to_str().expect("text");
    let visit = |more: &[&str]| {
        let (lines, _) = fetched(&[&[site.url.as_str(), "--cache", cache], more].concat(), 0);
        lines[0].clone()
    };
    let first = visit(&["--mode", "pipelined"]);
    assert_eq!(number(&first, "from_cache"), 0);
    let second = visit(&["--mode", "pipelined", "--revalidate"]);
    assert_eq!(
        (number(&second, "from_cache"), number(&second, "requests")),
        (43, 43)
    );
    assert!(number(&second, "bytes_in") * 5 < number(&first, "bytes_in"));
    // 1 GET and 42 HEADs: the page comes whole.
    let old = visit(&["--mode", "http10", "--revalidate"]);
    assert_eq!((number(&old, "from_cache"), number(&old, "requests")), (42, 43));
    // In parts, joined, and still the same to the cache.
    let parts = visit(&["--mode", "pipelined", "--first-bytes", "256", "--revalidate"]);
    assert_eq!(number(&parts, "from_cache"), 43);
}

#[test]
fn pictures_come_in_two_parts_and_are_whole() {
    let site = microscape();
    let (whole, _) = fetched(&[&site.url, "--mode", "pipelined"], 0);
    let (parts, _) = fetched(&[&site.url, "--mode", "pipelined", "--first-bytes", "200"], 0);
    let contents = |line: &Value| -> Vec<u64> {
        let objects = line["objects"].as_array().expect("objects");
        objects
            .iter()
            .map(|object| number(object, "content_bytes"))
            .collect()
    };
    assert_eq!(contents(&whole[0]), contents(&parts[0]));
    assert!(number(&parts[0], "requests") > 43);
}

#[test]
fn archive_picture_and_tables_are_written() {
    let site = microscape();
    let dir = TempDir::new().expect("a folder");
    let path = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (har, svg) = (path("a.har"), path("a.svg"));
    let output = weir(&["fetch", &site.url, "--har", &har, "--svg", &svg, "--explain"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.contains("43 objects") && text.contains("slow start") && text.contains("100.0%"),
        "{text}"
    );
    let har: Value = serde_json::from_str(&std::fs::read_to_string(har).expect("a file")).expect("JSON");
    let entries = har["log"]["entries"].as_array().expect("entries");
    assert_eq!(entries.len(), 43);
    assert_eq!(entries[0]["response"]["statusText"], "OK");
    assert_eq!(entries[0]["serverIPAddress"], "127.0.0.1");
    for entry in entries {
        let timings = entry["timings"].as_object().expect("timings");
        let sum: f64 = timings
            .values()
            .filter_map(Value::as_f64)
            .filter(|one| *one > 0.0)
            .sum();
        assert!(
            (sum - entry["time"].as_f64().expect("a time")).abs() < 0.001,
            "{entry}"
        );
    }
    let svg = std::fs::read_to_string(svg).expect("a file");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    let table = weir(&["fetch", &site.url, "--compare", "http10,pipelined"]);
    let table = String::from_utf8(table.stdout).expect("text");
    assert_eq!(table.lines().count(), 3, "{table}");
}

/// The labels of the waterfalls of a picture, in their order.
fn labels(svg: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(svg).expect("XML");
    let elements = document.descendants().filter(|node| node.is_element());
    let texts = elements.filter_map(|node| node.text());
    let labels = texts.filter(|text| text.contains(" ms") && text.contains(" requests,"));
    labels.map(str::to_owned).collect()
}

#[test]
fn waterfalls_of_modes_and_of_earlier_fetches_stand_one_above_the_other() {
    let dir = TempDir::new().expect("a folder");
    let path = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    let (har, svg) = (path("before.har"), path("both.svg"));
    let visit = ["--simulate", "wan", "--mode", "serial"];
    fetched(&[&visit[..], &["--har", &har]].concat(), 0);
    let drawn = || labels(&std::fs::read_to_string(&svg).expect("a picture"));
    let modes = ["--simulate", "wan", "--compare", "serial,pipelined"];
    fetched(&[&modes[..], &["--svg", &svg]].concat(), 0);
    let both = drawn();
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(both[0].starts_with("serial: "), "{both:?}");
    assert!(
        both[1].starts_with("pipelined: ") && both[1].contains(" ms (−"),
        "pipelining is faster: {both:?}"
    );
    // The same visit again takes as long, within the precision of the archive.
    fetched(&[&visit[..], &["--svg", &svg, "--beside", &har]].concat(), 0);
    let both = drawn();
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(both[0].contains("before.har: ") && both[0].ends_with("43 requests, recorded"));
    assert!(both[1].starts_with("serial: "), "{both:?}");
    // Without a fetch.
    fetched(&["--svg", &svg, "--beside", &har, "--beside", &har], 0);
    let both = drawn();
    assert!(both.len() == 2 && both[1].contains(" ms (0.0 ms), "), "{both:?}");
    for (arguments, said) in [
        (&["--beside", &har][..], "--svg"),
        (&["--beside", &har, "--svg", &svg, "--har", "x"], "name a URL"),
        (&["--beside", &svg, "--svg", &svg], "no HTTP archive"),
    ] {
        let (_, errors) = fetched(arguments, 2);
        assert!(errors.contains(said), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_server_that_closes_within_a_pipeline_is_asked_again() {
    let (url, heard) = scripted(|number, talk| {
        let mut served = 0;
        while let Some(target) = talk.next() {
            if target == "/" {
                let tags: String = (0..12).map(|n| format!("<img src={n}>")).collect();
                talk.ok(&tags);
            } else {
                talk.ok("picture");
            }
            served += 1;
            if served == 5 && number < 2 {
                // Both halves, with requests in flight: the reset may destroy answers.
                return;
            }
        }
    });
    let (lines, _) = fetched(&[&url, "--mode", "pipelined"], 0);
    assert!(number(&lines[0], "connections") >= 3);
    assert!(number(&lines[0], "repeated") > 0);
    let mut targets: Vec<String> = heard.try_iter().collect();
    targets.sort();
    targets.dedup();
    assert_eq!(targets.len(), 13);
}

#[test]
fn wrong_lengths_are_told() {
    let (url, _heard) = scripted(|_, talk| {
        if talk.next().is_some() {
            talk.say("200 OK\r\nContent-Length: 1000", "too short");
        }
    });
    let (lines, errors) = fetched(&[&url, "--repeats-max", "1"], 1);
    assert_eq!(number(&lines[0], "requests"), 2);
    assert!(errors.contains("during its response"), "{errors}");
}

#[test]
fn redirections_end() {
    let (url, heard) = scripted(|_, talk| {
        let mut count = 0;
        while talk.next().is_some() {
            count += 1;
            talk.say(
                &format!("302 Found\r\nLocation: /{count}\r\nContent-Length: 0"),
                "",
            );
        }
    });
    let (_, errors) = fetched(&[&url, "--redirects-max", "4"], 1);
    assert!(errors.contains("more than 4 redirections"), "{errors}");
    assert_eq!(heard.try_iter().count(), 5);
    let (url, _heard) = scripted(|_, talk| {
        while talk.next().is_some() {
            talk.say("302 Found\r\nLocation: /\r\nContent-Length: 0", "");
        }
    });
    let (_, errors) = fetched(&[&url], 1);
    assert!(errors.contains("redirection loop"), "{errors}");
}

#[test]
fn a_server_that_does_not_close_is_told_of() {
    let (url, _heard) = scripted(|_, talk| {
        let _ = talk.next();
        talk.ok("text");
        // It has read that the other end has closed, and holds on until that is gone.
        assert!(talk.next().is_none());
        let _ = talk.stream.get_mut().set_nonblocking(true);
        while talk.stream.get_mut().write(b"x").is_ok() {
            std::thread::yield_now();
        }
    });
    let output = weir(&["fetch", &url]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("packets are without the closing of 1 of 1 connections"),
        "{text}"
    );
}

#[test]
fn a_hanging_server_is_given_up() {
    let (url, _heard) = scripted(|_, talk| {
        talk.next();
        let _ = talk.stream.read_to_end(&mut Vec::new());
    });
    let (lines, errors) = fetched(&[&url, "--stall-timeout", "200ms"], 1);
    assert!(errors.contains("sent nothing"), "{errors}");
    assert!(lines[0]["seconds"].as_f64().expect("a number") < 20.0);
    let (_, errors) = fetched(&[&url, "--timeout", "200ms"], 1);
    assert!(errors.contains("not complete"), "{errors}");
}

#[test]
fn what_cannot_be_is_said() {
    let refused = |arguments: &[&str], code: i32, fragment: &str| {
        let (_, errors) = fetched(arguments, code);
        assert!(errors.contains(fragment), "{arguments:?}: {errors}");
    };
    refused(&["http://localhost/", "--insecure"], 2, "applies to https URLs");
    refused(&["ftp://localhost/"], 2, "not supported");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let gone = format!("http://{}/", free.local_addr().expect("bound"));
    drop(free);
    refused(&[&gone], 1, "no connection");
    let output = weir(&["fetch", "http://localhost/", "--mode", "spdy"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_full_disk_is_told_whatever_was_to_be_written() {
    let site = microscape();
    for arguments in [
        &[][..],
        &["--json"],
        &["--explain"],
        &["--compare", "serial,pipelined"],
        &["--har", "-", "-q"],
        &["--har", "/dev/full", "-q"],
        &["--svg", "/dev/full", "-q"],
    ] {
        let full = std::fs::File::create("/dev/full").expect("a device that is full");
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["fetch", &site.url])
            .args(arguments)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .expect("the binary starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {errors}");
        assert!(errors.contains("No space left"), "{arguments:?}: {errors}");
    }
}

#[test]
fn flags_that_would_do_nothing_are_refused() {
    let url = "http://localhost/";
    for (arguments, flag) in [
        (&[url, "--seed", "3"][..], "--seed"),
        (&[url, "--pcapng", "x"], "--pcapng"),
        (&[url, "--from", "weir"], "--from"),
        (&[url, "--buffer", "2K"], "--buffer"),
        (&[url, "--mode", "http10", "--flush-timer", "1s"], "--flush-timer"),
        (
            &[url, "--compare", "http10,serial", "--no-explicit-flush"],
            "--no-explicit-flush",
        ),
        (
            &["--simulate", "lan", "--from", "apache", "--timeout", "1s"],
            "--timeout",
        ),
        (&[url, "--compare", "serial,pipelined,serial"], "--compare"),
    ] {
        let (_, errors) = fetched(arguments, 2);
        assert!(errors.contains(&format!("`{flag}`")), "{arguments:?}: {errors}");
    }
    // And one that does something does it.
    let (_, errors) = fetched(&["--simulate", "lan", "--timeout", "1ms"], 1);
    assert!(errors.contains("not complete within"), "{errors}");
    fetched(
        &[
            "--simulate",
            "lan",
            "--compare",
            "serial,pipelined",
            "--buffer",
            "2K",
        ],
        0,
    );
}

#[test]
fn what_was_not_fetched_is_not_measured() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let gone = format!("http://{}/", free.local_addr().expect("bound"));
    drop(free);
    let output = weir(&[
        "fetch",
        &gone,
        "--compare",
        "http10,serial",
        "--repeat",
        "2",
        "--explain",
    ]);
    let table = String::from_utf8(output.stdout).expect("text");
    for mode in ["http10", "serial"] {
        let row = table.lines().find(|line| line.starts_with(&format!("{mode} ")));
        let cells: Vec<&str> = row.expect("a row").split_whitespace().collect();
        assert_eq!(cells[1], "0/2", "{table}");
        assert!(cells[2..].iter().all(|cell| *cell == "-"), "{table}");
        assert!(
            table.contains(&format!("{mode}: 2 of 2 fetches did not receive the page")),
            "{table}"
        );
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        errors.contains("http10 `") && errors.contains("serial `"),
        "{errors}"
    );
    let (lines, _) = fetched(&[&gone, "--explain", "--repeat", "2"], 1);
    assert_eq!(
        ["connections", "requests", "bytes_out"].map(|name| number(&lines[0], name)),
        [0; 3]
    );
    assert_eq!(lines[0]["explain"], Value::Null);
    let spread = lines
        .iter()
        .find(|line| line["event"] == "spread")
        .expect("a line");
    assert_eq!((number(spread, "runs"), number(spread, "without_page")), (0, 2));
    assert_eq!(spread["seconds"], Value::Null);
}

#[test]
fn a_page_that_is_not_whole_is_no_success() {
    let half = |talk: &mut Talk, body: &[u8]| {
        let _ = write!(
            talk.stream.get_mut(),
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let _ = talk.stream.get_mut().write_all(body);
    };
    for body in [&b"notgzip"[..], b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x4b"] {
        let (url, _heard) = scripted(move |_, talk| {
            while talk.next().is_some() {
                half(talk, body);
            }
        });
        let (_, errors) = fetched(&[&url, "--mode", "serial+gzip"], 1);
        assert!(errors.contains("cannot be decoded"), "{errors}");
    }
    let (url, heard) = scripted(|_, talk| {
        while talk.next().is_some() {
            talk.say(
                "206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2",
                "hi",
            );
        }
    });
    let (_, errors) = fetched(&[&url], 1);
    assert!(errors.contains("206"), "{errors}");
    assert_eq!(heard.try_iter().count(), 1);
    let (url, heard) = scripted(|_, talk| {
        while talk.next().is_some() {
            talk.say("200 OK\r\nContent-Length: 1\r\nContent-Length: 2", "hi");
        }
    });
    let output = weir(&["fetch", &url]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("repeated"), "{text}");
    assert_eq!(heard.try_iter().count(), 1, "it would be as unsound again");
}

#[test]
fn a_kill_at_any_moment_leaves_a_cache_that_is_whole() {
    let site = microscape();
    let dir = TempDir::new().expect("a folder");
    let cache = dir.path().to_str().expect("text");
    let entries = || -> usize {
        let all = std::fs::read_dir(cache)
            .map(Iterator::collect::<Vec<_>>)
            .unwrap_or_default();
        all.iter()
            .flatten()
            .filter(|file| Path::new(&file.file_name()).extension() == Some("entry".as_ref()))
            .count()
    };
    let mut was_within = false;
    for round in 0..12 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["fetch", &site.url, "--cache", cache, "--mode", "pipelined"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let before = entries();
        // Killed as soon as so many entries are there, or when it has ended.
        while child.try_wait().expect("a child").is_none() {
            if entries() > before + round {
                let _ = child.kill();
                break;
            }
        }
        let _ = child.wait();
        was_within |= (1..43).contains(&entries());
        if entries() >= 43 {
            let _ = std::fs::remove_dir_all(cache);
        }
        let output = weir(&["fetch", &site.url, "--cache", cache, "--no-embedded"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && !errors.contains("are incomplete"),
            "{errors}"
        );
    }
    if !was_within {
        println!("skipped: this machine was too busy to kill one while it wrote");
    }
    let (lines, _) = fetched(&[&site.url, "--cache", cache, "--revalidate"], 0);
    assert_eq!(number(&lines[0], "failed"), 0);
}

/// The seconds of a cause.
fn cause(line: &Value, name: &str) -> f64 {
    let causes = line["explain"]["causes"].as_array().expect("causes");
    let found = causes.iter().find(|cause| cause["cause"] == name);
    found
        .and_then(|cause| cause["seconds"].as_f64())
        .expect("a cause")
}

#[test]
fn a_server_that_pauses_within_its_answer_is_no_narrow_line() {
    let (url, _heard) = scripted(|_, talk| {
        while talk.next().is_some() {
            let pause = std::time::Duration::from_millis(120);
            talk.say("200 OK\r\nContent-Type: text/html\r\nContent-Length: 30000", "");
            talk.stream
                .get_mut()
                .set_read_timeout(Some(pause))
                .expect("a time");
            for _ in 0..6 {
                let _ = talk.stream.get_mut().write_all(&[b'x'; 5_000]);
                // The client says nothing meanwhile, so that this waits.
                let _ = talk.stream.get_mut().read(&mut [0]);
            }
            talk.stream.get_mut().set_read_timeout(None).expect("no time");
        }
    });
    let (lines, _) = fetched(&[&url, "--explain"], 0);
    let parts = [
        "bandwidth",
        "server pause",
        "slow start or pause",
        "delayed ACK or pause",
    ]
    .map(|name| cause(&lines[0], name));
    assert!(parts[1] >= 5.0 * 0.1, "{parts:?}");
    assert_eq!((parts[0], parts[3]), (0.0, 0.0), "{parts:?}");
}

#[test]
fn what_is_left_out_is_no_success() {
    let (url, heard) = scripted(|_, talk| {
        while let Some(target) = talk.next() {
            let tags: String = (0..9).map(|n| format!("<img src={n}>")).collect();
            talk.ok(if target == "/" { &tags } else { "picture" });
        }
    });
    let (lines, errors) = fetched(&[&url, "--objects-max", "4"], 1);
    assert_eq!(
        (number(&lines[0], "left_out"), number(&lines[0], "failed")),
        (6, 0)
    );
    assert!(
        errors.contains("6 references were left out") && errors.contains("--objects-max"),
        "{errors}"
    );
    assert_eq!(heard.try_iter().count(), 4);
    fetched(&[&url, "--objects-max", "10"], 0);
    // Told once, and one is a reference.
    let run = weir(&["fetch", &url, "--objects-max", "9"]);
    let all = [run.stdout, run.stderr].concat();
    let all = String::from_utf8_lossy(&all);
    assert_eq!(all.matches("reference").count(), 1, "{all}");
    assert!(all.contains("1 reference was left out"), "{all}");
}

#[test]
fn standard_output_has_one_thing() {
    let site = microscape();
    let output = weir(&["fetch", &site.url, "--har", "-"]);
    let har: Value = serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
    assert_eq!(har["log"]["entries"].as_array().map(Vec::len), Some(43));
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(report.contains("43 objects"), "{report}");
    let output = weir(&["fetch", &site.url, "--svg", "-", "--explain"]);
    let svg = String::from_utf8(output.stdout).expect("text");
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
    for more in [["--har", "-", "--json"], ["--svg", "-", "--json"]] {
        let output = weir(&[&["fetch", &site.url][..], &more].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains("both write to standard output"), "{errors}");
    }
}

/// No file may have a byte here, as on a disk that is full.
#[test]
fn a_cache_that_has_no_room_takes_nothing_else_with_it() {
    let site = microscape();
    let dir = TempDir::new().expect("a folder");
    let cache = dir.path().to_str().expect("text");
    let script = format!(
        "trap '' XFSZ; ulimit -f 0; exec {} fetch {} --cache {cache} --explain",
        env!("CARGO_BIN_EXE_weir"),
        site.url
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .output()
        .expect("a shell");
    let (report, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(output.status.code(), Some(4), "{errors}");
    assert!(
        report.contains("43 objects") && report.contains("critical path"),
        "{report}"
    );
    assert!(
        errors.contains("43 of 43 entries could not be written") && errors.contains(cache),
        "{errors}"
    );
    assert_eq!(std::fs::read_dir(cache).expect("a folder").count(), 0);
}

/// A server that answers every request with a page that sets a cookie and embeds an object, and keeps the heads.
fn setting_cookies() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    let (told, heads) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = BufReader::new(stream);
            loop {
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap_or(0) > 0 {}
                if !head.ends_with("\r\n\r\n") {
                    break;
                }
                let (fields, body) = match head.split(' ').nth(1) {
                    Some("/") => ("302 Found\r\nSet-Cookie: first=1\r\nLocation: /page", ""),
                    Some("/page") => (
                        "200 OK\r\nContent-Type: text/html\r\nSet-Cookie: sid=\"x,y\"; Path=/\r\nSet-Cookie: deep=1; Path=/deep",
                        "<img src='/deep/a,b.png'><img src=/c.png>",
                    ),
                    _ => ("200 OK\r\nContent-Type: image/png", "png"),
                };
                let _ = told.send(head);
                let length = body.len();
                let _ = write!(
                    stream.get_mut(),
                    "HTTP/1.1 {fields}\r\nContent-Length: {length}\r\n\r\n{body}"
                );
            }
        }
    });
    (url, heads)
}

fn line<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn requests_carry_what_was_asked_and_cookies_that_were_set() {
    let (url, heads) = setting_cookies();
    let flags = [
        "-H",
        "Accept: text/html",
        "-H",
        "X-A: b",
        "-H",
        "Host: www.example.org",
        "--user",
        "me:s:cret",
        "--cookie",
        "a=1; b=2",
    ];
    fetched(&[&[url.as_str()], &flags[..]].concat(), 0);
    let heads: Vec<String> = heads.try_iter().collect();
    let targets: Vec<&str> = heads.iter().filter_map(|head| head.split(' ').nth(1)).collect();
    assert_eq!(targets, ["/", "/page", "/deep/a,b.png", "/c.png"]);
    for head in &heads {
        let wanted = [
            ("Accept", "text/html"),
            ("X-A", "b"),
            ("Host", "www.example.org"),
            ("Authorization", "Basic bWU6czpjcmV0"),
        ];
        for (name, value) in wanted {
            assert_eq!(line(head, name), Some(value), "{head}");
            assert_eq!(head.matches(&format!("\r\n{name}: ")).count(), 1, "{head}");
        }
    }
    let cookies: Vec<_> = heads
        .iter()
        .map(|head| line(head, "Cookie").expect("cookies"))
        .collect();
    assert_eq!(
        cookies,
        [
            "a=1; b=2",
            "a=1; b=2; first=1",
            "deep=1; a=1; b=2; first=1; sid=\"x,y\"",
            "a=1; b=2; first=1; sid=\"x,y\"",
        ]
    );
    // A login in the URL is the same, and no cookie is sent that nobody set.
    let (url, heads) = setting_cookies();
    let with_login = url.replace("http://", "http://me:p%40ss@");
    let (lines, _) = fetched(&[&with_login], 0);
    assert!(!lines[0].to_string().contains("p%40ss"), "{}", lines[0]);
    let head = heads.recv().expect("a request");
    assert_eq!(
        (line(&head, "Authorization"), line(&head, "Cookie")),
        (Some("Basic bWU6cEBzcw=="), None)
    );
    for (flags, fragment) in [
        (
            &["-H", "Accept-Encoding: gzip"][..],
            "choose a coding with --mode",
        ),
        (&["-H", "Range: bytes=0-1"], "--first-bytes"),
        (&["--user", "me"], "as NAME:PASSWORD"),
        (&["--user", "a:b", "-H", "Authorization: x"], "omit one of them"),
        (&["--cookie", "a"], "`a` is not a cookie; write name=value"),
    ] {
        let (_, errors) = fetched(&[&[url.as_str()], flags].concat(), 2);
        assert!(errors.contains(fragment), "{flags:?}: {errors}");
    }
    let (_, errors) = fetched(&["--simulate", "wan", "--cookie", "a=1"], 2);
    assert!(errors.contains("simulated servers do not look at it"), "{errors}");
}

#[test]
fn objects_are_listed_as_csv_and_the_lookup_is_timed() {
    let (url, _) = setting_cookies();
    let dir = TempDir::new().expect("a folder");
    let file = dir.path().join("o.csv");
    let named = url.replace("127.0.0.1", "localhost");
    let (lines, _) = fetched(&[&named, "--csv", file.to_str().expect("text")], 0);
    assert!(
        lines[0]["dns_seconds"].as_f64().is_some_and(|took| took >= 0.0),
        "{}",
        lines[0]
    );
    let table = std::fs::read_to_string(&file).expect("a table");
    let rows: Vec<&str> = table.lines().collect();
    assert!(
        rows[0].starts_with("fetch,mode,url,role,status,fate,protocol,"),
        "{table}"
    );
    assert_eq!(
        rows.len() - 1,
        lines[0]["objects"].as_array().map_or(0, Vec::len),
        "{table}"
    );
    let image = rows.iter().find(|row| row.contains("deep")).expect("the image");
    assert!(
        image.starts_with("1,") && image.contains(&format!(",\"{named}deep/a,b.png\",")),
        "{image}"
    );
    assert!(image.ends_with(",3,3,1"), "{image}");
    // An address needs no lookup.
    let (lines, _) = fetched(&[&url], 0);
    assert_eq!(lines[0]["dns_seconds"], Value::Null);
    // An archive begins with the lookup, a picture mentions it.
    let output = weir(&["fetch", &named, "--har", "-"]);
    let archive: Value = serde_json::from_slice(&output.stdout).expect("an archive");
    let entries = archive["log"]["entries"].as_array().expect("entries");
    let dns: Vec<f64> = entries
        .iter()
        .filter_map(|entry| entry["timings"]["dns"].as_f64())
        .collect();
    assert!(
        dns[0] > 0.0 && dns[1..].iter().all(|took| *took == -1.0),
        "{dns:?}"
    );
    let timings = entries[0]["timings"].as_object().expect("timings");
    let sum: f64 = timings
        .iter()
        .filter(|(name, _)| *name != "ssl")
        .filter_map(|(_, took)| took.as_f64().filter(|took| *took > 0.0))
        .sum();
    let whole = entries[0]["time"].as_f64().expect("a time");
    assert!((whole - sum).abs() < 1e-6, "{whole} of {sum}");
    let page = &archive["log"]["pages"][0];
    assert_eq!(page["startedDateTime"], entries[0]["startedDateTime"]);
    assert!(page["pageTimings"]["onLoad"].as_f64() > Some(dns[0]), "{page}");
    let output = weir(&["fetch", &named, "--svg", "-"]);
    let picture = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(picture.contains("; name lookup before it: "), "{picture}");
    let output = weir(&["fetch", &url, "--svg", "-"]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("name lookup"));
    let output = weir(&["fetch", &named]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("\nname lookup: "), "{said}");
    let output = weir(&["fetch", &url, "--csv", "-"]);
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("fetch,mode,url,role,"));
}

/// The columns of these names in each row of a table whose values contain no comma.
fn columns<const N: usize>(table: &str, names: [&str; N]) -> Vec<[String; N]> {
    let mut rows = table.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let header = rows.next().expect("a header");
    let places = names.map(|name| header.iter().position(|one| *one == name).expect(name));
    rows.map(|row| {
        assert_eq!(row.len(), header.len(), "{row:?}");
        places.map(|place| row[place].to_owned())
    })
    .collect()
}

#[test]
fn a_table_has_all_fetches_and_their_handshakes() {
    let site = microscape();
    let named = site.url.replace("127.0.0.1", "localhost");
    let output = weir(&[
        "fetch",
        &named,
        "--repeat",
        "2",
        "--compare",
        "serial,http10",
        "--no-embedded",
        "--csv",
        "-",
    ]);
    let table = String::from_utf8(output.stdout).expect("text");
    let rows = columns(
        &table,
        [
            "fetch",
            "mode",
            "role",
            "dns_ms",
            "connect_ms",
            "tls_ms",
            "requests",
        ],
    );
    let modes: Vec<String> = rows
        .iter()
        .map(|[fetch, mode, role, .., requests]| format!("{fetch} {mode} {role} {requests}"))
        .collect();
    assert_eq!(
        modes,
        [
            "1 serial page 1",
            "2 http10 page 1",
            "3 serial page 1",
            "4 http10 page 1"
        ],
        "{table}"
    );
    for (at, [_, _, _, dns, connect, tls, _]) in rows.iter().enumerate() {
        assert_eq!(dns.parse::<f64>().is_ok(), at == 0, "one lookup: {table}");
        assert!(connect.parse::<f64>().is_ok(), "{table}");
        assert_eq!(tls, "", "{table}");
    }
    // QUIC has one handshake, TCP and TLS have two. Only the first request of a connection has them.
    let output = weir(&["fetch", "--simulate", "wan", "--compare", "h2,h3", "--csv", "-"]);
    let table = String::from_utf8(output.stdout).expect("text");
    let rows = columns(
        &table,
        [
            "fetch",
            "protocol",
            "connection",
            "dns_ms",
            "connect_ms",
            "tls_ms",
        ],
    );
    let fetch = |number: &str| {
        rows.iter()
            .filter(move |row| row[0] == number)
            .collect::<Vec<_>>()
    };
    for (number, protocol) in [("1", "h2"), ("2", "h3")] {
        let rows = fetch(number);
        assert!(
            rows.len() > 1 && rows.iter().all(|row| row[1] == protocol),
            "{table}"
        );
        let [_, _, _, dns, connect, tls] = rows[0];
        assert_eq!(dns, "");
        assert_eq!(
            connect.parse::<f64>().is_ok_and(|took| took > 1.0),
            protocol == "h2"
        );
        assert_eq!(connect.is_empty(), protocol == "h3");
        assert!(tls.parse::<f64>().is_ok_and(|took| took > 1.0), "{table}");
        for row in rows[1..].iter().filter(|row| row[2] == rows[0][2]) {
            assert_eq!((&*row[4], &*row[5]), ("", ""), "{table}");
        }
    }
}
