//! Programs people use, each against the embedded site: what they make of our answers is the test.
//! A program that is not on this machine says `skipped`.

use crate::serve::on_every_strategy;
use crate::serve::process::{Launch, Strategy};
use crate::serve::tls::Pairs;
use crate::serve::tree::Tree;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a program to its end, for a minute at most; none, with the reason said, if it is not there.
pub(crate) fn ended(program: &str, arguments: &[&str]) -> Option<Output> {
    let bounded = ["--kill-after=5", "60", program];
    let output = Command::new("timeout").args(bounded).args(arguments).output();
    let code = output.as_ref().map(|output| output.status.code());
    // Exit codes of timeout(1): 127 for a program that is not there, 124 for one that does not end.
    if matches!(code, Err(_) | Ok(Some(127))) {
        println!("skipped: {program} is not on this machine");
        return None;
    }
    let output = output.expect("checked above");
    assert!(
        output.status.code() != Some(124),
        "{program} {arguments:?} does not end: {} {}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Some(output)
}

/// The same, and what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = ended(program, arguments)?;
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {} {}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn demo(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("demo").join(name)).expect("a file of demo/")
}

fn curl(strategy: Strategy) {
    let server = Launch::new(strategy).start();
    let url = |path: &str| format!("http://{}{path}", server.address);
    let format = "%{http_code} %{size_download} %{num_connects}\\n";
    let quiet = [
        "--silent",
        "--show-error",
        "--max-time",
        "20",
        "--output",
        "/dev/null",
        "--write-out",
        format,
    ];
    let fetch = |more: &[&str]| run("curl", &[&quiet[..], more].concat());
    let page = demo("index.html").len();
    let Some(printed) = fetch(&[&url("/")]) else {
        return;
    };
    assert_eq!(printed, format!("200 {page} 1\n"));
    assert!(fetch(&["--head", &url("/")]).expect("curl").starts_with("200 0"));
    assert!(
        fetch(&["--http1.0", &url("/")])
            .expect("curl")
            .starts_with(&format!("200 {page}"))
    );
    assert!(
        fetch(&["--range", "0-9", &url("/")])
            .expect("curl")
            .starts_with("206 10")
    );
    assert!(
        fetch(&["--request", "DELETE", &url("/")])
            .expect("curl")
            .starts_with("405")
    );
    assert!(
        fetch(&["--data", "a=b", &url("/")])
            .expect("curl")
            .starts_with("405")
    );
    assert!(
        fetch(&["--path-as-is", &url("/../../etc/passwd")])
            .expect("curl")
            .starts_with("40")
    );
    assert!(
        fetch(&["--compressed", &url("/style.css")])
            .expect("curl")
            .starts_with("200")
    );
    let several = fetch(&[&url("/"), "--output", "/dev/null", &url("/style.css")]).expect("curl");
    assert!(
        several.lines().nth(1).is_some_and(|line| line.ends_with(" 0")),
        "one connection: {several}"
    );
    let tree = Tree::new();
    let saved = tree.join("picture.png").display().to_string();
    run(
        "curl",
        &[
            "--silent",
            "--max-time",
            "20",
            "--output",
            &saved,
            &url("/images/valley.png"),
        ],
    )
    .expect("curl");
    assert!(std::fs::read(&saved).expect("what curl saved") == demo("images/valley.png"));
    let etag = tree.join("etag").display().to_string();
    let first = fetch(&["--etag-save", &etag, &url("/")]).expect("curl");
    assert!(first.starts_with("200"));
    assert!(
        fetch(&["--etag-compare", &etag, &url("/")])
            .expect("curl")
            .starts_with("304 0")
    );
    // --compressed must arrive at the bytes of the file.
    let text = run("curl", &["--silent", "--compressed", &url("/style.css")]).expect("curl");
    assert_eq!(text.as_bytes(), demo("style.css"));
}

fn wget(strategy: Strategy) {
    let server = Launch::new(strategy).start();
    let tree = Tree::new();
    let folder = tree.path().display().to_string();
    let url = format!("http://{}/", server.address);
    let flags = [
        "--quiet",
        "--timeout=20",
        "--tries=1",
        "--no-proxy",
        "--directory-prefix",
        &folder,
    ];
    let mirror = [
        &flags[..],
        &["--mirror", "--page-requisites", "--no-host-directories", &url],
    ]
    .concat();
    let Some(output) = ended("wget", &mirror) else {
        return;
    };
    // The start page links to one that is missing on purpose: wget tells with exit code 8.
    assert_eq!(
        output.status.code(),
        Some(8),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for name in [
        "index.html",
        "how.html",
        "gallery.html",
        "style.css",
        "images/valley.png",
        "images/request.svg",
    ] {
        assert!(
            std::fs::read(tree.join(name))
                .ok()
                .is_some_and(|bytes| bytes == demo(name)),
            "{name}"
        );
    }
    // A download that broke off is continued.
    let whole = demo("images/ripples.png");
    tree.write("ripples.png", &whole[..whole.len() / 2]);
    run(
        "wget",
        &[&flags[..], &["--continue", &format!("{url}images/ripples.png")]].concat(),
    );
    assert!(std::fs::read(tree.join("ripples.png")).expect("the download") == whole);
}

#[test]
fn wget_checks_the_certificate() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["localhost"]);
    let server = pairs.launch(Strategy::LOOPS, &["a"]).start();
    let ca = format!("--ca-certificate={}", pairs.tree.join("a.pem").display());
    let url = format!("https://localhost:{}/", server.address.port());
    let quiet = [
        "--quiet",
        "--output-document=-",
        "--tries=1",
        "--timeout=20",
        &url,
    ];
    let Some(text) = run("wget", &[&quiet[..], &[&ca]].concat()) else {
        return;
    };
    assert_eq!(text, "hello");
    let unknown = ended("wget", &quiet).expect("wget");
    assert!(!unknown.status.success(), "nobody vouches for the certificate");
}

#[test]
fn openssl_agrees_on_both_versions_resumes_and_sees_a_clean_end() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    let server = pairs.launch(Strategy::LOOPS, &["a"]).start();
    let (connect, ca) = (server.address.to_string(), pairs.tree.join("a.pem"));
    let session = pairs.tree.join("session");
    let (ca, session) = (ca.to_string_lossy(), session.to_string_lossy());
    let usual = [
        "s_client",
        "-connect",
        &connect,
        "-servername",
        "a.test",
        "-CAfile",
        &ca,
        "-verify_return_error",
        "-ign_eof",
    ];
    // It sends standard input, then reads until the server ends.
    let ask = |more: &[&str]| {
        let command = format!(
            "printf 'GET / HTTP/1.1\\r\\nHost: a.test\\r\\nConnection: close\\r\\n\\r\\n' | openssl {} {}",
            usual.join(" "),
            more.join(" ")
        );
        run("sh", &["-c", &command])
    };
    if run("openssl", &["version"]).is_none() {
        return;
    }
    for (flag, version, cipher) in [
        ("-tls1_3", "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        ("-tls1_2", "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ] {
        let first = ask(&[flag, "-sess_out", &session]).expect("openssl");
        assert!(first.contains("Verify return code: 0 (ok)"), "{first}");
        assert!(
            first.contains(&format!("New, {version}, Cipher is {cipher}")),
            "{first}"
        );
        assert!(
            first.contains("HTTP/1.1 200 OK") && first.contains("hello"),
            "{first}"
        );
        assert!(first.trim_end().ends_with("closed"), "close_notify: {first}");
        let again = ask(&[flag, "-sess_in", &session]).expect("openssl");
        assert!(
            again.contains(&format!("Reused, {version}, Cipher is {cipher}")),
            "{again}"
        );
    }
    for old in ["-tls1_1", "-tls1"] {
        let refused = ended("openssl", &[&usual[..], &[old]].concat()).expect("openssl");
        assert!(!refused.status.success(), "{old} is not served");
    }
}

fn python_requests(strategy: Strategy) {
    if !Command::new("python3")
        .args(["-c", "import requests"])
        .output()
        .is_ok_and(|output| output.status.success())
    {
        println!("skipped: no python3 with requests on this machine");
        return;
    }
    let server = Launch::new(strategy).start();
    let script = r#"
import sys, requests
base = sys.argv[1]
with requests.Session() as session:
    session.trust_env = False
    first = session.get(base + "/", timeout=20)
    assert first.status_code == 200 and "weir" in first.text.lower(), first.status_code
    assert first.headers["Content-Type"].startswith("text/html")
    again = session.get(base + "/", headers={"If-None-Match": first.headers["ETag"]}, timeout=20)
    assert again.status_code == 304 and not again.content
    part = session.get(base + "/robots.txt", headers={"Range": "bytes=0-3", "Accept-Encoding": "identity"}, timeout=20)
    assert part.status_code == 206 and part.content == b"User", part.content
    assert session.post(base + "/", data={"a": "b"}, timeout=20).status_code == 405
    assert session.post(base + "/", data=iter([b"x" * 1000] * 3), timeout=20).status_code == 405
    assert session.options(base + "/", timeout=20).headers["Allow"]
    assert session.get(base + "/images", timeout=20, allow_redirects=False).status_code == 301
    for _ in range(50):
        assert session.get(base + "/style.css", timeout=20).ok
print("good")
"#;
    let printed = run("python3", &["-c", script, &format!("http://{}", server.address)]).expect("python3");
    assert_eq!(printed.trim(), "good");
}

fn node_fetch(strategy: Strategy) {
    let server = Launch::new(strategy).start();
    let script = r#"
const base = process.argv[1];
const check = (truth, what) => { if (!truth) { console.error(what); process.exit(1); } };
(async () => {
  const page = await fetch(base + "/");
  const text = await page.text();
  check(page.status === 200 && text.includes("<!DOCTYPE html>"), "page");
  const links = [...text.matchAll(/(?:src|href)="(\/[^"]*)"/g)].map((match) => match[1]);
  const answers = await Promise.all(links.map((link) => fetch(base + link).then(async (answer) => [link, answer.status, (await answer.arrayBuffer()).byteLength])));
  for (const [link, status, bytes] of answers) {
    check(status === (link === "/no-such-page" ? 404 : 200) && bytes > 0, link + " " + status);
  }
  const head = await fetch(base + "/gallery.html", { method: "HEAD" });
  check(head.status === 200 && Number(head.headers.get("content-length")) > 0, "head");
  const part = await fetch(base + "/robots.txt", { headers: { range: "bytes=-1" } });
  check(part.status === 206, "range");
  const post = await fetch(base + "/", { method: "POST", body: "x".repeat(10000) });
  check(post.status === 405, "post");
  console.log("good");
})().catch((error) => { console.error(error); process.exit(1); });
"#;
    // Only a Node that has fetch (18 and later).
    let Some(kind) = run("node", &["-p", "typeof fetch"]) else {
        return;
    };
    if kind.trim() != "function" {
        println!("skipped: this Node has no fetch");
        return;
    }
    let printed = run("node", &["-e", script, &format!("http://{}", server.address)]).expect("node");
    assert_eq!(printed.trim(), "good");
}

on_every_strategy!(curl, wget, python_requests, node_fetch);
