//! Malformed responses of an HTTP/2 upstream, for clients of HTTP/1.1 and HTTP/3: nothing malformed arrives, and no response that
//! breaks off passes for a whole one.
//!
//! The responses are those of `proxy_h2_strict`, which has clients of HTTP/2.

use crate::serve::http3::client::Client;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy};
use crate::serve::proxy_h2_strict::{self, answering, malformed_responses, responses_that_end_badly};
use crate::serve::tls::Pairs;
use crate::serve::tree::Tree;
use crate::serve::wire::{End, head};

/// A server of HTTP/3 that passes `/api/*` to this upstream.
fn launch(strategy: Strategy, pairs: &Pairs, url: &str) -> Server {
    let text =
        format!("[[proxy]]\npath = \"/api/*\"\nupstreams = [\"{url}\"]\nretries = 0\nmax-failures = 0\n");
    let config = pairs.tree.write("weir.toml", text).display().to_string();
    let launch: Launch = pairs.launch(strategy, &["a"]);
    launch.args(["--http3", "--config", &config]).start()
}

fn pairs() -> Pairs {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs
}

fn malformed_responses_are_502_over_http1(strategy: Strategy) {
    let tree = Tree::new();
    let cases = malformed_responses();
    let upstream = answering(&cases);
    let server = proxy_h2_strict::launch(strategy, &tree, &upstream.url);
    let mut connection = server.connect();
    for (number, (why, _)) in cases.iter().enumerate() {
        // The client complains about each byte that does not belong to a response.
        connection.send(head(
            "POST",
            &format!("/api/{number}"),
            &[("Content-Length", "0")],
        ));
        // Valid interim responses pass before the rest is known.
        let mut got = connection.receive("POST");
        while got.status / 100 == 1 {
            got = connection.receive("POST");
        }
        assert_eq!(got.status, 502, "{why}: {:?} {}", got.fields, got.text());
        assert!(!got.text().contains("evil"), "{why}: {}", got.text());
        // The upstream is to blame, so the connection goes on.
        assert_eq!(connection.get("/api/fine").text(), "ok", "{why}");
    }
}

fn responses_that_end_badly_are_reset_over_http1(strategy: Strategy) {
    let tree = Tree::new();
    let cases = responses_that_end_badly();
    let upstream = answering(&cases);
    let server = proxy_h2_strict::launch(strategy, &tree, &upstream.url);
    for (number, (why, _)) in cases.iter().enumerate() {
        let mut connection = server.connect();
        let fields = [("Content-Length", "0"), ("Connection", "close")];
        connection.send(head("POST", &format!("/api/{number}"), &fields));
        let (got, end) = connection.rest();
        let got = String::from_utf8_lossy(&got).into_owned();
        assert!(!got.contains("evil") && !got.contains("x: y"), "{why}: {got}");
        // Its beginning may have been sent, or nothing yet. What exceeds its length arrives when the response is whole.
        let is_told = match end {
            End::Closed => {
                let is_whole = got.starts_with("HTTP/1.1 200 ") && got.ends_with("\r\n\r\nabc");
                got.starts_with("HTTP/1.1 502 ") || why == "too long" && is_whole
            }
            End::Reset => {
                let has_begun = got.starts_with("HTTP/1.1 200 ") && !got.ends_with("0\r\n\r\n");
                got.is_empty() || has_begun
            }
        };
        assert!(is_told, "{why}: {end:?} after {got}");
        assert_eq!(server.connect().get("/api/fine").text(), "ok", "{why}");
    }
}

fn malformed_responses_are_502_over_http3(strategy: Strategy) {
    let pairs = pairs();
    let cases = malformed_responses();
    let upstream = answering(&cases);
    let server = launch(strategy, &pairs, &upstream.url);
    let mut client = Client::open(server.address, &pairs.client(), "a.test");
    for (number, (why, _)) in cases.iter().enumerate() {
        let got = client.get(&format!("/api/{number}"), &[(":method", "POST")]);
        assert_eq!((got.status, got.has_ended), (502, true), "{why}: {got:?}");
        assert!(!got.text().contains("evil"), "{why}: {got:?}");
        assert_eq!(client.get("/api/fine", &[]).text(), "ok", "{why}");
    }
}

fn responses_that_end_badly_are_reset_over_http3(strategy: Strategy) {
    let pairs = pairs();
    let cases = responses_that_end_badly();
    let upstream = answering(&cases);
    let server = launch(strategy, &pairs, &upstream.url);
    let mut client = Client::open(server.address, &pairs.client(), "a.test");
    for (number, (why, _)) in cases.iter().enumerate() {
        let got = client.get(&format!("/api/{number}"), &[(":method", "POST")]);
        let is_told = match got.status {
            200 if why == "too long" => got.text() == "abc",
            0 | 200 => got.reset.is_some() && !got.has_ended && "abc".starts_with(&got.text()),
            status => status == 502 && got.has_ended,
        };
        assert!(is_told && got.trailers.is_empty(), "{why}: {got:?}");
        assert_eq!(client.get("/api/fine", &[]).text(), "ok", "{why}");
    }
}

on_strategy!(loops, LOOPS:
    malformed_responses_are_502_over_http1, responses_that_end_badly_are_reset_over_http1,
    malformed_responses_are_502_over_http3, responses_that_end_badly_are_reset_over_http3);
on_strategy!(loops_uring, LOOPS_URING:
    malformed_responses_are_502_over_http1, responses_that_end_badly_are_reset_over_http1);
