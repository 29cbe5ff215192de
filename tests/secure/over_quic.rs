//! HTTP/3 of `weir fetch` and `weir load`: against `weir serve`, and against a server of others.

use super::*;
use crate::drawn;

fn http3_server(authority: &Authority) -> Server {
    http3_server_with(authority, &[])
}

fn http3_server_with(authority: &Authority, more: &[&str]) -> Server {
    authority.issue("127.0.0.1", 2090);
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    let flags = ["--http3", "--tls-cert", &cert, "--tls-key", &key];
    authority.start(&[&flags[..], more].concat())
}

fn assert_whole(line: &Value) {
    assert_eq!(line["objects"].as_array().map(Vec::len), Some(3), "{line}");
    assert_eq!(line["objects"][1]["content_bytes"], 40_000, "{line}");
    assert_eq!(line["connections"], 1, "{line}");
    let opened = &line["opened"][0];
    assert_eq!(opened["protocol"], "h3", "{line}");
    assert_eq!(opened["tls"]["version"], "TLS 1.3", "{line}");
    assert!(seconds_of(&opened["tls"], "handshake") > 0.0, "{line}");
}

#[test]
fn a_page_is_fetched() {
    let authority = Authority::new();
    let server = http3_server(&authority);
    let ca = authority.ca();
    let line = json(&fetch(
        &server.url("https"),
        &["--ca", &ca, "--h3-only", "--explain"],
    ));
    assert_whole(&line);
    // Before the handshake is complete, a request cannot leave.
    let open = seconds_of(&line["opened"][0]["tls"], "done");
    for one in line["explain"]["streams"].as_array().expect("streams") {
        let request = &line["objects"][one["object"].as_u64().expect("an index") as usize]["requests"][0];
        let took = seconds_of(request, "last_byte") - seconds_of(request, "sent").max(open);
        let waits = one["waits"].as_array().expect("waits").iter();
        let sum: f64 = waits.map(|wait| seconds_of(wait, "seconds")).sum();
        assert!((took - sum).abs() < 1e-6, "{took} {sum}: {line}");
    }
    // The same page beside HTTP/2, over one cache of the server.
    let flags = ["--ca", &ca, "--compare", "h2,h3,serial", "--repeat", "2"];
    let output = fetch(&server.url("https"), &flags);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let protocols: Vec<String> = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|line| Some(line["opened"][0]["protocol"].as_str()?.to_owned()))
        .collect();
    assert_eq!(protocols, ["h2", "h3", "http/1.1", "h2", "h3", "http/1.1"]);
}

#[test]
fn a_load_is_measured() {
    let authority = Authority::new();
    let server = http3_server(&authority);
    let ca = authority.ca();
    for (flags, connections) in [
        (&["--http3"][..], 4),
        (&["--mode", "h3", "--users-per-connection", "2"], 2),
    ] {
        let result = load(&server.url("https"), &[&["--ca", &ca], flags].concat());
        assert_eq!(result["mode"], "h3", "{result}");
        assert_eq!(result["connections"], connections, "{result}");
        assert_eq!(result["handshake_ms"]["count"], connections, "{result}");
        assert_eq!(
            result["connect_ms"]["count"], 0,
            "the handshake is both: {result}"
        );
        let files = result["files"].as_u64().expect("a count");
        assert!(files > 10, "{result}");
        assert_eq!(result["errors"], serde_json::json!({}), "{result}");
    }
}

/// The server ends each connection after its first requests, so there are several.
#[test]
fn connections_resume_unless_told_otherwise() {
    let authority = Authority::new();
    let server = http3_server_with(&authority, &["--max-requests-per-connection", "1"]);
    let (url, ca) = (server.url("https"), authority.ca());
    for (more, is_resumed) in [(&[][..], true), (&["--no-resumption"], false)] {
        let line = json(&fetch(&url, &[&["--ca", &ca, "--h3-only"], more].concat()));
        let opened = line["opened"].as_array().expect("connections");
        let tls: Vec<&Value> = opened.iter().map(|one| &one["tls"]).collect();
        assert!(tls.len() > 1, "{line}");
        for (nth, tls) in tls.iter().enumerate() {
            assert_eq!(tls["resumed"], nth > 0 && is_resumed, "{line}");
            assert!(
                tls["cipher_suite"]
                    .as_str()
                    .is_some_and(|suite| suite.starts_with("TLS_")),
                "{line}"
            );
        }
        let result = load(&url, &[&["--ca", &ca, "--http3"], more].concat());
        let handshakes = result["handshake_ms"]["count"].as_u64().expect("a count");
        assert!(handshakes > 10, "{result}");
        let share = result["resumed_share"].as_f64().expect("a share");
        assert!(if is_resumed { share > 0.5 } else { share == 0.0 }, "{result}");
    }
    let output = weir(&["fetch", &url, "--ca", &ca, "--h3-only"]);
    let said = text(&output.stdout);
    let line = said
        .lines()
        .find(|line| line.starts_with("QUIC with TLS 1.3, TLS_"));
    assert!(
        line.is_some_and(|line| line.ends_with(" resumed") && !line.contains(" 0 of ")),
        "{said}"
    );
}

/// The client's own log of its packets, with their frames: of two connections at once, as the server ends each early.
#[test]
fn qlog_has_the_packets_of_a_fetch() {
    let authority = Authority::new();
    let server = http3_server_with(&authority, &["--max-requests-per-connection", "1"]);
    let (url, ca, path) = (server.url("https"), authority.ca(), authority.path("fetch.qlog"));
    let line = json(&fetch(
        &url,
        &["--ca", &ca, "--h3-only", "--explain", "--qlog", &path],
    ));
    let log: Value = serde_json::from_str(&fs::read_to_string(&path).expect("a file")).expect("JSON");
    assert_eq!(log["qlog_version"], "0.3");
    let traces = log["traces"].as_array().expect("traces");
    let opened = line["opened"].as_array().expect("connections");
    assert!(opened.len() > 1, "{line}");
    assert_eq!(traces.len(), opened.len(), "{line}");
    let mut answered = 0;
    for trace in traces {
        assert_eq!(trace["vantage_point"]["type"], "client");
        let events = trace["events"].as_array().expect("events");
        let times: Vec<f64> = events
            .iter()
            .map(|event| event["time"].as_f64().expect("a time"))
            .collect();
        assert!(times.is_sorted(), "{times:?}");
        let of = |name: &'static str| events.iter().filter(move |event| event["name"] == name);
        assert_eq!(of("connectivity:connection_started").count(), 1);
        assert_eq!(events[0]["data"]["dst_port"], server.address.port());
        assert!(events[0]["data"]["src_ip"].is_null(), "{}", events[0]);
        // Every packet is opened with the keys of the client.
        let frames =
            |name| of(name).flat_map(|event| event["data"]["frames"].as_array().expect("an opened packet"));
        let has = |name, kind: &str| frames(name).any(|frame| frame["frame_type"] == kind);
        assert!(has("transport:packet_sent", "crypto") && has("transport:packet_received", "crypto"));
        assert!(has("transport:packet_received", "handshake_done"), "{trace}");
        let is_answer = |frame: &&Value| {
            frame["frame_type"] == "stream" && frame["stream_id"].as_u64().is_some_and(|id| id % 4 == 0)
        };
        answered += frames("transport:packet_received")
            .filter(is_answer)
            .filter_map(|frame| frame["length"].as_u64())
            .sum::<u64>();
        drawn::whole(events, 1);
        drawn::recovery(events, 0);
        let metrics: Vec<&Value> = of("recovery:metrics_updated")
            .map(|event| &event["data"])
            .collect();
        let window = |metrics: &Value| metrics["congestion_window"].as_u64().expect("bytes");
        assert!(
            metrics.iter().all(|metrics| window(metrics) > 1_200),
            "{metrics:?}"
        );
        // The 333 ms of before the first sample (RFC 9002 section 6.2.2) are no measurement.
        let rtt = |metrics: &Value| metrics["min_rtt"].as_f64();
        assert_eq!(rtt(metrics[0]), None);
        assert!(
            metrics
                .iter()
                .filter_map(|metrics| rtt(metrics))
                .all(|rtt| (rtt - 333.0).abs() > 1e-9),
            "{metrics:?}"
        );
        assert!(
            metrics.last().is_some_and(|metrics| rtt(metrics).is_some()),
            "{metrics:?}"
        );
    }
    let content: u64 = line["objects"]
        .as_array()
        .expect("objects")
        .iter()
        .filter_map(|one| one["content_bytes"].as_u64())
        .sum();
    assert!(answered >= content && content > 40_000, "{answered} of {content}");
    // Where nothing speaks HTTP/3, there is nothing to write.
    let output = fetch(&url, &["--ca", &ca, "--mode", "h2", "--qlog", &path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("`--qlog` has no effect here"),
        "{}",
        text(&output.stderr)
    );
    let output = fetch(
        &url,
        &["--ca", &ca, "--h3-only", "--qlog", "/no/such/folder/a.qlog"],
    );
    assert_eq!(output.status.code(), Some(2));
    let output = fetch(&url, &["--ca", &ca, "--qlog", &path]);
    assert!(
        text(&output.stderr).contains("no fetch used HTTP/3"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn what_cannot_work_is_said() {
    let authority = Authority::new();
    let server = http3_server(&authority);
    let (url, ca) = (server.url("https"), authority.ca());
    let h3 = ["--h3-only"];
    let cases: [(&str, &[&str], i32, &str); 5] = [
        (&server.url("http"), &[], 2, "always has TLS"),
        (&url, &["--ca", &ca, "--tls-versions", "1.2"], 2, "TLS 1.3"),
        (&url, &[], 1, "unknown issuer"),
        (
            &url.replace("127.0.0.1", "localhost"),
            &["--ca", &ca],
            1,
            "not for `localhost`",
        ),
        (
            "https://127.0.0.1:1/",
            &["--ca", &ca, "--connect-timeout", "200ms"],
            1,
            "nothing receives UDP at that port",
        ),
    ];
    for (url, more, code, wanted) in cases {
        let errors = refused(url, &[&h3, more].concat(), code);
        assert!(errors.contains(wanted), "{url} {more:?}: {errors}");
    }
    let output = weir(&[
        "load",
        &server.url("http"),
        "--http3",
        "--duration",
        "1s",
        "--clients",
        "1",
    ]);
    let errors = text(&output.stderr);
    assert!(
        output.status.code() == Some(2) && errors.contains("always has TLS"),
        "{errors}"
    );
}

#[test]
fn without_a_route_the_system_says_so() {
    // A network namespace of its own has none.
    let alone = |command: &[&str]| {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--net"]);
        unshare.args(command).output()
    };
    match alone(&["true"]) {
        Ok(output) if output.status.success() => {}
        Ok(output) => return println!("skipped: {}", text(&output.stderr).trim()),
        Err(error) => return println!("skipped: unshare: {error}"),
    }
    let authority = Authority::new();
    let url = "https://198.51.100.1/";
    let output = alone(&[WEIR, "fetch", url, "--ca", &authority.ca(), "--h3-only"]).expect("unshare");
    let errors = text(&output.stderr);
    assert!(
        errors.contains("no connection: Network is unreachable"),
        "{errors}"
    );
}

/// The server of aioquic, whose QUIC and HTTP/3 are no relatives of ours.
#[test]
fn a_page_of_aioquics_server() {
    let script = r#"
import asyncio, sys
try:
    from aioquic.asyncio import serve
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.h3.connection import H3Connection
    from aioquic.h3.events import HeadersReceived
    from aioquic.quic.configuration import QuicConfiguration
except ImportError:
    print("none", flush=True)
    sys.exit()
class Server(QuicConnectionProtocol):
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.http = H3Connection(self._quic)
    def quic_event_received(self, event):
        for one in self.http.handle_event(event):
            if not isinstance(one, HeadersReceived): continue
            is_page = dict(one.headers)[b":path"] == b"/"
            kind, body = (b"text/html", b"<img src=a.gif><img src=b.gif>") if is_page else (b"image/gif", b"x" * 40000)
            self.http.send_headers(one.stream_id, [(b":status", b"103"), (b"link", b"<a.gif>; rel=preload; as=image")])
            self.http.send_headers(one.stream_id, [(b":status", b"200"), (b"content-type", kind), (b"priority-was", dict(one.headers).get(b"priority", b""))])
            self.http.send_data(one.stream_id, body, end_stream=False)
            self.http.send_headers(one.stream_id, [(b"x-trailer", b"1")], end_stream=True)
            self.transmit()
async def main():
    settings = QuicConfiguration(is_client=False, alpn_protocols=["h3"])
    settings.load_cert_chain(sys.argv[1], sys.argv[2])
    server = await serve("127.0.0.1", 0, configuration=settings, create_protocol=Server)
    print(server._transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.Future()
asyncio.run(main())
"#;
    let authority = Authority::new();
    authority.issue("127.0.0.1", 2090);
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    let mut python = Command::new("python3");
    python.args(["-c", script, &cert, &key]).stdout(Stdio::piped());
    let Ok(child) = python.spawn() else {
        return println!("skipped: python3 is not on this machine");
    };
    let mut python = Other(child);
    let mut port = String::new();
    let output = python.0.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut port).expect("its port");
    if port.trim() == "none" {
        return println!("skipped: no python3 with aioquic");
    }
    let url = format!("https://127.0.0.1:{}/", port.trim());
    let ca = authority.ca();
    let line = json(&fetch(&url, &["--ca", &ca, "--h3-only"]));
    assert_whole(&line);
    let result = load(&url, &["--ca", &ca, "--http3"]);
    assert_eq!(result["errors"], serde_json::json!({}), "{result}");
    assert!(
        result["files"].as_u64().is_some_and(|files| files > 10),
        "{result}"
    );
}

/// The server of quic-go.
#[test]
fn a_page_of_quic_gos_server() {
    let Some(program) = crate::quic_go::program() else {
        return;
    };
    let authority = Authority::new();
    authority.issue("127.0.0.1", 2090);
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    let mut go = Command::new(program);
    go.args(["serve", &cert, &key]).stdout(Stdio::piped());
    let mut go = Other(go.spawn().expect("the program starts"));
    let mut port = String::new();
    let output = go.0.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut port).expect("its port");
    let url = format!("https://127.0.0.1:{}/", port.trim());
    let ca = authority.ca();
    let line = json(&fetch(&url, &["--ca", &ca, "--h3-only"]));
    assert_whole(&line);
    let result = load(&url, &["--ca", &ca, "--http3"]);
    assert_eq!(result["mode"], "h3", "{result}");
    assert_eq!(result["errors"], serde_json::json!({}), "{result}");
    assert!(
        result["files"].as_u64().is_some_and(|files| files > 10),
        "{result}"
    );
}
