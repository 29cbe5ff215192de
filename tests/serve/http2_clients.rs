//! Programs people use, over HTTP/2 and TLS, and h2spec: what they make of our answers is the test.
//! A program that is not on this machine says `skipped`.

use crate::clients::{ended, run};
use crate::files::noise;
use crate::on_every_strategy;
use crate::process::{Server, Strategy};
use crate::tls::Pairs;

/// A server with TLS and three files.
fn secure(strategy: Strategy) -> (Pairs, Server) {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs
        .tree
        .write("site/index.html", "<!DOCTYPE html><img src=large.bin>");
    pairs.tree.write("site/style.css", noise(1_000));
    pairs.tree.write("site/large.bin", noise(1 << 20));
    let server = pairs.launch(strategy, &["a"]).start();
    (pairs, server)
}

fn curl(strategy: Strategy) {
    let (_pairs, server) = secure(strategy);
    let url = |path: &str| format!("https://{}{path}", server.address);
    let format = "%{http_version} %{http_code} %{size_download} %{num_connects}\\n";
    let quiet = [
        "--silent",
        "--show-error",
        "--insecure",
        "--http2",
        "--max-time",
        "20",
    ];
    let told = ["--output", "/dev/null", "--write-out", format];
    let fetch = |more: &[&str]| run("curl", &[&quiet[..], &told, more].concat());
    let Some(large) = fetch(&[&url("/large.bin")]) else {
        return;
    };
    if large.starts_with("1.1") {
        println!("skipped: this curl speaks no HTTP/2");
        return;
    }
    assert_eq!(large, "2 200 1048576 1\n");
    let again = fetch(&[&url("/"), "--output", "/dev/null", &url("/style.css")]).expect("curl");
    assert!(
        again.lines().nth(1).is_some_and(|line| line == "2 200 1000 0"),
        "{again}"
    );
    for (flags, wanted) in [
        (&["--head"][..], "2 200 0"),
        (&["--range", "0-9"], "2 206 10"),
        (&["--data", "a=b"], "2 405"),
        (&["--request", "DELETE"], "2 405"),
    ] {
        let said = fetch(&[flags, &[&url("/style.css")]].concat()).expect("curl");
        assert!(said.starts_with(wanted), "{flags:?}: {said}");
    }
}

fn node_http2(strategy: Strategy) {
    let (_pairs, server) = secure(strategy);
    let script = r#"
const http2 = require("node:http2");
const session = http2.connect(process.argv[1], { rejectUnauthorized: false });
const get = (path, more) => new Promise((done, failed) => {
  const stream = session.request({ ":path": path, ...more });
  let status = 0, bytes = 0;
  stream.on("response", (head) => { status = head[":status"]; });
  stream.on("data", (data) => { bytes += data.length; });
  stream.on("end", () => done(status + " " + bytes));
  stream.on("error", failed);
  stream.end(more && more.body);
});
(async () => {
  const paths = ["/large.bin", "/style.css", "/", "/missing", "/large.bin"];
  const said = await Promise.all(paths.map((path) => get(path)));
  for (let n = 0; n < 100; n += 1) await get("/style.css");
  const stream = session.request({ ":path": "/large.bin" });
  stream.on("response", () => stream.close(http2.constants.NGHTTP2_CANCEL));
  await new Promise((done) => stream.on("close", done));
  said.push(await get("/style.css", { range: "bytes=-3" }));
  session.close();
  console.log(said.map((one) => one.replace(/^404 .*/, "404")).join(", "));
})().catch((error) => { console.error(error); process.exit(1); });
"#;
    let url = format!("https://{}", server.address);
    let Some(printed) = run("node", &["-e", script, &url]) else {
        return;
    };
    assert_eq!(
        printed.trim(),
        "200 1048576, 200 1000, 200 34, 404, 200 1048576, 206 3"
    );
}

fn nghttp(strategy: Strategy) {
    let (_pairs, server) = secure(strategy);
    let url = format!("https://{}/", server.address);
    // With the page's references: a style sheet and an image, on streams of their own.
    let Some(printed) = run(
        "nghttp",
        &["--null-out", "--stat", "--get-assets", "--no-verify-peer", &url],
    ) else {
        return;
    };
    let answers = printed.lines().filter(|line| line.contains(" 200 ")).count();
    assert_eq!(answers, 2, "{printed}");
}

/// 145 cases of RFC 9113 and 7541.
fn h2spec(strategy: Strategy) {
    let (_pairs, server) = secure(strategy);
    let (host, port) = (server.address.ip().to_string(), server.address.port().to_string());
    let flags = [
        "--tls",
        "--insecure",
        "--host",
        &host,
        "--port",
        &port,
        "--timeout",
        "10",
    ];
    let Some(output) = ended("h2spec", &flags) else {
        return;
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.trim().lines().last().unwrap_or_default();
    assert_eq!(last, "145 tests, 145 passed, 0 skipped, 0 failed", "{printed}");
}

on_every_strategy!(curl, node_http2, nghttp, h2spec);
