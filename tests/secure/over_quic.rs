//! HTTP/3 of `weir fetch` and `weir load`: against `weir serve`, and against a server of others.

use super::*;

fn http3_server(authority: &Authority) -> Server {
    authority.issue("127.0.0.1", 2090);
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    authority.start(&["--http3", "--tls-cert", &cert, "--tls-key", &key])
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
            "does UDP pass?",
        ),
    ];
    for (url, more, code, wanted) in cases {
        let errors = refused(url, &[&h3, more].concat(), code);
        assert!(errors.contains(wanted), "{url} {more:?}: {errors}");
    }
    let output = weir(&["fetch", "--simulate", "wan", "--mode", "h3"]);
    let errors = text(&output.stderr);
    assert!(
        output.status.code() == Some(2) && errors.contains("carry TCP only"),
        "{errors}"
    );
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
