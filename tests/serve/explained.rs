//! `weir serve --explain`: which rules apply to a request, and that its answer is the one that a server sends.

use crate::serve::access::USERS;
use crate::serve::process::{Launch, Strategy};
use crate::serve::proxy::{HELLO, Upstream};
use crate::serve::tree::Tree;
use std::collections::BTreeSet;
use std::process::Command;

const CONFIG: &str = r#"
root = "site"
spa-fallback = "/index.html"

[[access]]
path = "/admin/*"
htpasswd = "users"

[[access]]
path = "/far/*"
allow = "192.0.2.0/24"

[[redirect]]
from = "/old/*"
to = "/new/*"

[[header-rule]]
path = "*.css"
header = ["Cache-Control: max-age=60"]

[[header-rule]]
path = "/tried/*"
header = ["X-Tried: 1"]

[[header-rule]]
path = "*.txt"
header = ["X-Text: 1"]

[[try-files]]
path = "/tried/*"
files = ["$path", "/shared.txt"]

[[host]]
names = ["one.test"]
root = "one"
spa-fallback = false
"#;

fn tree() -> Tree {
    Tree::with(&[
        ("weir.toml", CONFIG),
        ("users", USERS),
        ("site/index.html", "<p>home"),
        ("site/a.css", "a{}"),
        ("site/far/a.txt", "far"),
        ("site/shared.txt", "shared"),
        ("site/tried/dir/a.txt", "tried"),
        ("one/dir/a.txt", "one"),
    ])
}

/// Exit code, output and errors.
fn explain(tree: &Tree, request: &str, more: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--config"])
        .arg(tree.join("weir.toml"))
        .args(["--explain", request])
        .args(more)
        .output()
        .expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("no signal");
    (code, text(output.stdout), text(output.stderr))
}

#[test]
fn an_explanation_is_what_a_server_answers() {
    let tree = tree();
    let server = Launch::new(Strategy::LOOPS)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    for (method, host, path, words) in [
        ("GET", "localhost", "/", "the file `/index.html`"),
        ("HEAD", "localhost", "/a.css", "rule 1 for `*.css`"),
        ("GET", "localhost", "/x/../%61.css", "rules compare `/a.css`"),
        ("GET", "localhost", "/old/x?y", "redirect rule 1"),
        ("GET", "localhost", "/admin/x", "a password is needed"),
        ("GET", "localhost", "/far/a.txt", "127.0.0.1 is not admitted"),
        ("GET", "localhost", "/some/view", "spa-fallback"),
        ("GET", "localhost", "/none.js", "no file"),
        ("POST", "localhost", "/", "no file"),
        ("GET", "localhost", "/tried/none", "the file `/shared.txt`"),
        (
            "GET",
            "localhost",
            "/tried/dir/a.txt",
            "the file `/tried/dir/a.txt`",
        ),
        ("GET", "localhost", "/tried/dir", "the directory"),
        ("GET", "one.test", "/dir", "the directory"),
        ("GET", "one.test", "/some/view", "no file"),
    ] {
        let mut connection = server.connect();
        connection.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/html\r\n\r\n"
        ));
        let response = connection.receive(method);
        let status = response.status;
        let (code, out, err) = explain(&tree, &format!("{method} http://{host}{path}"), &[]);
        assert!(out.contains(&format!("answer         {status}, from ")), "{out}");
        assert!(out.contains(words), "{out}");
        for (rule, name) in [("/tried/*", "X-Tried"), ("*.txt", "X-Text")] {
            let is_named = out.contains(&format!(" for `{rule}`: {name}: 1"));
            assert_eq!(is_named, response.field(name).is_some(), "{out}");
        }
        assert_eq!(code, i32::from(status >= 400), "{out}{err}");
        assert_eq!(err.contains("is an error"), status >= 400, "{err}");
    }
}

#[test]
fn an_address_and_json_can_be_asked_for() {
    let tree = tree();
    let (code, out, _) = explain(&tree, "GET /far/a.txt from 192.0.2.7", &["--json"]);
    let told: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &told["status"]), (0, &serde_json::json!(200)), "{told}");
    assert_eq!(told["source"], "the file `/far/a.txt`");
    assert_eq!(told["steps"][1]["subject"], "access");
    let (code, _, err) = explain(&tree, "GET far", &[]);
    assert_eq!(code, 2);
    assert!(err.contains("as in \"GET /old/page\""), "{err}");
}

/// `TRUST` stands for keys, and `UPSTREAM` for an address.
const CHAINED: &str = r#"
root = "site"
live = "local"
TRUST

[[access]]
path = "/near/*"
allow = "192.0.2.0/24"

[[access]]
path = "/far/*"
deny = "192.0.2.0/24"

[[redirect]]
from = "/plain"
to = "/a.txt"
if = "scheme http"

[[header-rule]]
header = ["X-Always: 1"]
always = true

[[header-rule]]
if = "scheme https"
header = ["X-Https: 1"]
always = true

[[proxy]]
path = "/api/*"
upstreams = ["UPSTREAM"]
"#;

/// An explanation as JSON.
fn told(tree: &Tree, request: &str, fields: &[(&str, &str)], more: &[&str]) -> serde_json::Value {
    let lines: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let mut all = vec!["--json"];
    all.extend(lines.iter().flat_map(|line| ["--explain-field", line.as_str()]));
    all.extend(more);
    let (_, out, err) = explain(tree, request, &all);
    out.lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .find(|value| value["event"] == "explained")
        .unwrap_or_else(|| panic!("{out}{err}"))
}

#[test]
fn clients_behind_proxies_are_those_that_a_server_finds() {
    let upstream = Upstream::answering(HELLO);
    let tree = Tree::with(&[
        ("site/a.txt", "a file"),
        ("site/near/a.txt", "near"),
        ("site/far/a.txt", "far"),
    ]);
    let mut statuses = BTreeSet::new();
    for trust in [
        "trusted = \"127.0.0.0/8\"",
        "trusted = \"127.0.0.0/8\"\nhttps-redirect = 8443",
        "trusted = \"127.0.0.0/8\"\ntrusted-field = \"Forwarded\"\nhttps-redirect = 8443",
        "trusted = \"10.0.0.0/8\"\nhttps-redirect = 8443",
    ] {
        let config = CHAINED.replace("TRUST", trust).replace("UPSTREAM", &upstream.url);
        let config = tree.write("weir.toml", config);
        let server = Launch::new(Strategy::LOOPS)
            .args(["--config".as_ref(), config.as_os_str()])
            .start();
        let https = ("X-Forwarded-Proto", "https");
        for fields in [
            &[][..],
            &[("X-Forwarded-For", "192.0.2.7")],
            &[("X-Forwarded-For", "203.0.113.9"), https],
            &[("X-Forwarded-For", "192.0.2.7, spoiled"), https],
            &[https],
            &[("Forwarded", "for=192.0.2.7;proto=https")],
        ] {
            for path in [
                "/near/a.txt",
                "/far/a.txt",
                "/plain",
                "/api/x",
                "/.weir/live.json",
            ] {
                let served = server.connect().request("GET", path, fields);
                let told = told(&tree, &format!("GET {path}"), fields, &[]);
                match told["status"].as_u64() {
                    Some(status) => {
                        let served = u64::from(served.status);
                        assert_eq!(status, served, "{path} {trust} {fields:?}: {told}");
                    }
                    None => {
                        assert_eq!(served.text(), "hello", "{path} {trust} {fields:?}: {told}");
                        let source = told["source"].as_str().expect("a source");
                        assert!(source.starts_with("proxy, rule 1 "), "{told}");
                    }
                }
                for name in ["X-Always", "X-Https"] {
                    let line = format!("{name}: 1");
                    let mut lines = told["fields"].as_array().expect("field lines").iter();
                    let is_told = lines.any(|told| told == line.as_str());
                    let is_served = served.field(name).is_some();
                    assert_eq!(is_told, is_served, "{path} {trust} {fields:?}: {name}: {told}");
                }
                statuses.insert(served.status);
            }
        }
    }
    assert_eq!(Vec::from_iter(statuses), [200, 301, 308, 403, 404]);
}

/// `ASKED` and `UPSTREAM` stand for addresses.
const GUARDED: &str = r#"
root = "site"

[[access]]
path = "/admin/*"
htpasswd = "users"

[[access]]
path = "/asked/*"
auth = "ASKED/verify"

[[access]]
path = "/both/*"
htpasswd = "users"
auth = "ASKED/verify"

[[access]]
path = "/far/*"
htpasswd = "users"
allow = "192.0.2.0/24"

[[access]]
path = "/api/*"
htpasswd = "users"

[[header-rule]]
header = ["X-Always: 1"]
always = true

[[proxy]]
path = "/api/*"
upstreams = ["UPSTREAM"]
"#;

#[test]
fn an_admitted_client_gets_the_answer_of_a_server() {
    let asked = Upstream::answering(b"HTTP/1.1 204 No Content\r\n\r\n");
    let upstream = Upstream::answering(HELLO);
    let config = GUARDED
        .replace("ASKED", &asked.url)
        .replace("UPSTREAM", &upstream.url);
    let tree = Tree::with(&[
        ("weir.toml", &config),
        ("users", USERS),
        ("site/admin/a.txt", "admin"),
        ("site/admin/dir/a.txt", "admin"),
        ("site/asked/a.txt", "asked"),
    ]);
    let server = Launch::new(Strategy::LOOPS)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    let ann = [("Authorization", "Basic YW5uOnNlY3JldA==")];
    for (path, status, source) in [
        ("/admin/a.txt", 200, "the file `/admin/a.txt`"),
        ("/admin/none", 404, "no file"),
        ("/admin/dir", 301, "the directory"),
        ("/asked/a.txt", 200, "the file `/asked/a.txt`"),
        ("/both/none", 404, "no file"),
        ("/far/a.txt", 403, "the access rule"),
        ("/api/x", 200, "proxy, rule 1 for `/api/*`"),
    ] {
        let served = server.connect().request("GET", path, &ann);
        assert_eq!(
            (served.status, served.field("X-Always")),
            (status, Some("1")),
            "{path}"
        );
        let request = format!("GET {path}");
        let checked = told(&tree, &request, &ann, &[]);
        let admitted = told(&tree, &request, &ann, &["--explain-admitted"]);
        if status == 403 {
            assert_eq!(checked["status"], status, "{checked}");
        } else {
            assert!(checked["status"].is_null(), "{checked}");
            assert!(checked["source"].to_string().contains("access, "), "{checked}");
        }
        match path {
            "/api/x" => assert!(admitted["status"].is_null(), "{admitted}"),
            _ => assert_eq!(admitted["status"], status, "{admitted}"),
        }
        assert!(admitted["source"].to_string().contains(source), "{admitted}");
        for told in [checked, admitted] {
            let mut steps = told["steps"].as_array().expect("steps").iter();
            let is_named = steps.any(|step| step["text"] == "rule 1 for `/*`: X-Always: 1");
            assert!(is_named, "{path}: {told}");
        }
    }
    // Credentials are not needed for it.
    let (code, out, _) = explain(&tree, "GET /both/none", &["--explain-admitted"]);
    let assumed = format!("`, the consent of {}/verify (auth)", asked.url);
    assert!(
        out.contains("127.0.0.1 is admitted, assuming a password of `"),
        "{out}"
    );
    assert!(out.contains(&assumed) && code == 1, "{out}");
    assert_eq!(explain(&tree, "GET /admin/a.txt", &["--explain-admitted"]).0, 0);
    let (_, out, _) = explain(&tree, "GET /admin/a.txt", &[]);
    assert!(out.contains("401, from the access rule"), "{out}");
}

const CACHES: &str = r#"
[[proxy]]
path = "/api/*"
upstreams = ["http://127.0.0.1:1"]

[proxy.cache]
size = "8MiB"
policy = "lru"
max-object-size = "1MiB"
stale-while-revalidate = "10s"
negative-time = "5s"
disk = "FOLDER"

[[proxy]]
path = "/live/*"
upstreams = ["http://127.0.0.1:2"]
"#;

/// The lines about the cache that an explanation has.
fn about_cache(tree: &Tree, request: &str, fields: &[&str]) -> String {
    let more: Vec<&str> = fields
        .iter()
        .flat_map(|&field| ["--explain-field", field])
        .collect();
    let (code, out, err) = explain(tree, request, &more);
    assert_eq!(code, 0, "{out}{err}");
    let lines = out
        .lines()
        .filter_map(|line| line.strip_prefix("  cache          "));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_cache_of_a_rule_is_explained() {
    let tree = Tree::new();
    let folder = tree.join("stored");
    tree.write(
        "weir.toml",
        CACHES.replace("FOLDER", &folder.display().to_string()),
    );
    assert_eq!(
        about_cache(&tree, "GET /live/x", &[]),
        "none: the rule has no `cache`\n"
    );
    let said = about_cache(&tree, "GET https://A.test/api/x?q", &[]);
    for wanted in [
        "up to 8 MiB in memory (lru), content up to 1 MiB; on disk up to 1 GiB in `",
        "key: https, a.test, `/api/x?q`",
        "answer: from a fresh stored response; from a stale one for 10s, while Weir validates it; waits while another",
        "store: yes, if the response has a lifetime",
        "cdn-cache-control overrides Cache-Control and Expires; a 404, 405, 410, 414 or 501 for 5s",
    ] {
        assert!(said.contains(wanted), "{wanted} is not in\n{said}");
    }
    for (request, fields, wanted) in [
        (
            "GET /api/x",
            &["Authorization: Bearer x"][..],
            &[
                "does not wait for another",
                "store: only if the response has public or must-revalidate or s-maxage, as the request has Authorization",
            ][..],
        ),
        (
            "GET /api/x",
            &["Range: bytes=0-9"],
            &[
                "a range from a complete one",
                "does not wait for another",
                "store: yes",
            ],
        ),
        (
            "GET /api/x",
            &["Cache-Control: no-cache"],
            &[
                "after the upstream has validated it",
                "does not wait for another",
                "store: yes",
            ],
        ),
        (
            "GET /api/x",
            &["Cache-Control: max-age=0"],
            &["after the upstream has validated it"],
        ),
        (
            "GET /api/x",
            &["Cache-Control: max-age=60, min-fresh=5"],
            &["at most 60s old (max-age) and stays fresh for 5s (min-fresh); a stale one is validated first"],
        ),
        (
            "GET /api/x",
            &["Cache-Control: no-store, only-if-cached"],
            &[
                "otherwise 504 (only-if-cached)",
                "store: no, as the request has no-store",
            ],
        ),
        (
            "GET /api/x",
            &["Pragma: no-cache"],
            &["after the upstream has validated it"],
        ),
        (
            "HEAD /api/x",
            &[],
            &["answer: from a fresh", "store: no, as a response to HEAD"],
        ),
        (
            "POST /api/x",
            &[],
            &[
                "always from the upstream, as the request is POST; if it succeeds",
                "names this path in Content-Location",
            ],
        ),
        (
            "DELETE /api/x",
            &[],
            &["the request is DELETE; if it succeeds", "store: no (method)"],
        ),
        (
            "OPTIONS /api/x",
            &[],
            &["the request is OPTIONS\n", "store: no (method)"],
        ),
        (
            "GET /api/x",
            &["Upgrade: websocket", "Connection: upgrade"],
            &["none: the connection switches to WebSocket"],
        ),
    ] {
        let said = about_cache(&tree, request, fields);
        for wanted in wanted {
            assert!(
                said.contains(wanted),
                "{request} {fields:?}: {wanted} is not in\n{said}"
            );
        }
    }
    assert!(!folder.exists(), "an explanation uses no disk");
}

#[test]
fn fields_of_an_explained_request_are_checked() {
    let tree = tree();
    for (field, wanted) in [
        (
            "Host: a.test",
            "write it in the URL: --explain \"GET http://a.test/\"",
        ),
        ("Range", "write NAME: VALUE"),
    ] {
        let (code, _, err) = explain(&tree, "GET /", &["--explain-field", field]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(wanted), "{err}");
    }
    // A password is not checked.
    let (code, out, _) = explain(
        &tree,
        "GET /admin/x",
        &["--explain-field", "Authorization: Basic YW5uOnNlY3JldA=="],
    );
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("the password in Authorization decides"), "{out}");
}

const REACHED: &str = r#"
root = "site"
health = true
adapt = "off"
max-request-rate = 50
max-request-burst = 200
compress-except = ["*.csv"]

[[access]]
path = "/tried/far"
deny = "all"

[[redirect]]
from = "/tried/old"
to = "/"

[[redirect]]
from = "/mixed/old"
to = "/"

[[respond]]
path = "/tried/up"
text = "up"

[[try-files]]
path = "/tried/*"
files = ["$path", "/shared.txt"]

[[proxy]]
path = "/mixed/*"
when = "missing"
upstreams = ["http://127.0.0.1:1"]
"#;

#[test]
fn a_rule_is_named_if_the_request_reaches_it() {
    let long = "weir ".repeat(400);
    let tree = Tree::with(&[
        ("weir.toml", REACHED),
        ("site/shared.txt", "shared"),
        ("site/long.txt", &long),
        ("site/long.csv", &long),
    ]);
    let server = Launch::new(Strategy::LOOPS)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start();
    let gzip = [("Accept-Encoding", "gzip")];
    for (request, fields, status, subjects) in [
        ("GET /tried/none", &[][..], 200, "max-request-rate try-files"),
        ("GET /tried/old", &[], 301, "max-request-rate redirect"),
        ("GET /mixed/old", &[], 301, "max-request-rate redirect"),
        ("GET /tried/up", &[], 200, "max-request-rate respond"),
        ("GET /tried/far", &[], 403, "max-request-rate access access"),
        ("POST /tried/none", &[], 405, "max-request-rate"),
        // No limit applies to health checks.
        ("GET /healthz", &[], 200, "live, health"),
        ("GET /long.txt", &[], 200, "max-request-rate compress"),
        ("GET /long.txt", &gzip, 200, "max-request-rate compress"),
        ("GET /long.csv", &gzip, 200, "max-request-rate compress-except"),
    ] {
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let served = server.connect().request(method, path, fields);
        let told = told(&tree, request, fields, &[]);
        let steps = told["steps"].as_array().expect("steps");
        let named: Vec<&str> = steps.iter().filter_map(|step| step["subject"].as_str()).collect();
        assert_eq!(named.join(" "), format!("host {subjects}"), "{request}: {told}");
        assert_eq!(served.status, status, "{request}: {told}");
        assert_eq!(told["status"], status, "{request}: {told}");
        let coding = served.field("Content-Encoding");
        for step in steps {
            let wanted = match (step["subject"].as_str(), coding) {
                (Some("max-request-rate"), _) => "each address 50/s, 200 at once",
                (Some("compress"), Some(_)) => {
                    "sent with gzip; Accept-Encoding chooses among br, zstd, gzip, deflate"
                }
                (Some("compress"), None) => {
                    "sent uncompressed; Accept-Encoding chooses among br, zstd, gzip, deflate"
                }
                (Some("compress-except"), None) => "`*.csv`: sent uncompressed",
                (Some("compress-except"), Some(_)) => panic!("compressed: {told}"),
                _ => continue,
            };
            assert_eq!(step["text"], wanted, "{request}: {told}");
        }
        let is_asked = !fields.is_empty() && path.ends_with(".txt");
        assert_eq!(coding.is_some(), is_asked, "{request}: {told}");
    }
}
