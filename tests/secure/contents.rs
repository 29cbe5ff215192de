//! Content of requests over TLS, HTTP/2 and HTTP/3.

use super::*;
use crate::workload::bodies::creating;

fn body(authority: &Authority) -> (Vec<u8>, String) {
    let long: Vec<u8> = (0..200_000_u32).map(|n| (n % 247) as u8).collect();
    let file = authority.path("body");
    fs::write(&file, &long).expect("written");
    (long, format!("@{file}"))
}

/// A proxy passes it on to a server that keeps it.
#[test]
fn content_arrives_whole_over_tls() {
    let authority = Authority::new();
    authority.issue("127.0.0.1", 2090);
    let (upstream, requests) = creating();
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    let proxy = format!("--proxy=/={}", upstream.trim_end_matches('/'));
    let server = authority.start(&["--tls-cert", &cert, "--tls-key", &key, &proxy]);
    let (long, body) = body(&authority);
    for mode in ["serial", "h2"] {
        let flags = ["--ca", &authority.ca(), "--mode", mode, "--body", &body];
        let result = load(&server.url("https"), &flags);
        assert_eq!(result["mode"], mode);
        let files = result["files"].as_u64().expect("a count");
        assert!(files > 0 && result["files_failed"] == 0, "{mode}: {result}");
        let got: Vec<_> = requests.try_iter().collect();
        assert!(got.len() as u64 >= files, "{mode}: {} of {files}", got.len());
        assert!(got.iter().all(|request| request.content == long), "{mode}");
    }
}

/// The server refuses it early, and the load goes on.
#[test]
fn content_is_sent_over_http3() {
    let authority = Authority::new();
    authority.issue("127.0.0.1", 2090);
    let (cert, key) = (authority.path("cert.pem"), authority.path("cert.key"));
    let server = authority.start(&["--http3", "--tls-cert", &cert, "--tls-key", &key]);
    let (_, body) = body(&authority);
    let flags = [
        "--ca",
        &authority.ca(),
        "--http3",
        "--body",
        &body,
        "--accept-status",
        "405",
    ];
    let result = load(&server.url("https"), &flags);
    let files = result["files"].as_u64().expect("a count");
    assert!(files > 0, "{result}");
    assert_eq!(
        (&result["statuses"]["405"], &result["files_failed"]),
        (&Value::from(files), &Value::from(0)),
        "{result}"
    );
    assert_eq!(result["errors"], serde_json::json!({}), "{result}");
}
