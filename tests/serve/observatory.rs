//! The presets of `security-headers`, graded by the rules of Mozilla's HTTP Observatory as they were in 2026
//! (<https://developer.mozilla.org/en-US/observatory/docs/tests_and_scoring>), stated here anew. A site starts with 100
//! points. Each rule takes points or gives some; what it gives counts only if no more than 10 points are lost. 100 points
//! and more are the grade A+.

use crate::serve::listeners::address;
use crate::serve::process::Launch;
use crate::serve::tls::{Pairs, Secure};
use crate::serve::wire::Connection;
use std::collections::HashMap;
use std::io::{Read, Write};

/// A response as the scanner sees it: names in lower case. Values of a name that comes twice are joined.
struct Page {
    fields: HashMap<String, String>,
    body: String,
}

impl Page {
    fn of(response: &str) -> Page {
        let (head, body) = response.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        let mut fields: HashMap<String, String> = HashMap::new();
        for line in head.lines().skip(1) {
            let (name, value) = line.split_once(": ").expect("a field line");
            let values = fields.entry(name.to_ascii_lowercase()).or_default();
            if !values.is_empty() {
                values.push_str(", ");
            }
            values.push_str(value);
        }
        Page {
            fields,
            body: body.to_owned(),
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// Sources by directive of its content security policy.
    fn policy(&self) -> HashMap<&str, Vec<&str>> {
        let policy = self.field("content-security-policy").unwrap_or_default();
        let directives = policy.split(';').filter_map(|directive| {
            let mut words = directive.split_ascii_whitespace();
            Some((words.next()?, words.collect()))
        });
        directives.collect()
    }
}

const BROAD: [&str; 8] = [
    "ftp:",
    "http:",
    "https:",
    "*",
    "http://*",
    "http://*.*",
    "https://*",
    "https://*.*",
];
const INLINE: [&str; 2] = ["'unsafe-inline'", "data:"];

/// Rule "content-security-policy".
fn content_security_policy(page: &Page) -> i32 {
    let policy = page.policy();
    if policy.is_empty() {
        return -25;
    }
    let sources = |name: &str| {
        let own = policy.get(name).or_else(|| policy.get("default-src"));
        own.cloned().unwrap_or(vec!["*"])
    };
    let has = |sources: &[&str], unsafe_ones: &[&str]| sources.iter().any(|one| unsafe_ones.contains(one));
    let all = [&BROAD[..], &INLINE].concat();
    if has(&sources("script-src"), &all) || has(&sources("object-src"), &BROAD) {
        return -20;
    }
    let is_insecure = |one: &&str| one.starts_with("http:") || one.starts_with("ftp:");
    let (passive, active): (Vec<_>, Vec<_>) = policy
        .iter()
        .partition(|(name, _)| ["img-src", "media-src"].contains(name));
    if active.iter().flat_map(|(_, sources)| *sources).any(is_insecure) {
        return -20;
    }
    if has(&sources("script-src"), &["'unsafe-eval'"]) || has(&sources("style-src"), &["'unsafe-eval'"]) {
        return -10;
    }
    if passive.iter().flat_map(|(_, sources)| *sources).any(is_insecure) {
        return -10;
    }
    if has(&sources("style-src"), &all) {
        return 0;
    }
    match policy.get("default-src").map(Vec::as_slice) {
        Some(["'none'"]) => 10,
        _ => 5,
    }
}

/// Rule "cookies": no preset sets any.
fn cookies(page: &Page) -> i32 {
    assert_eq!(page.field("set-cookie"), None);
    0
}

/// Rule "cross-origin-resource-sharing": the response to a request with an origin. `*` without credentials is fine.
fn sharing(page: &Page) -> i32 {
    let (origin, credentials) = (
        page.field("access-control-allow-origin"),
        page.field("access-control-allow-credentials"),
    );
    match (origin, credentials) {
        (Some(origin), Some("true")) if origin != "*" => -50,
        _ => 0,
    }
}

/// Rule "redirection": http goes to https on the same host.
fn redirection(location: Option<&str>) -> i32 {
    match location {
        Some(location) if location.starts_with("https://a.test") => 0,
        _ => -20,
    }
}

/// Rule "referrer-policy".
fn referrer_policy(page: &Page) -> i32 {
    match page.field("referrer-policy") {
        None => 0,
        Some("no-referrer" | "same-origin" | "strict-origin" | "strict-origin-when-cross-origin") => 5,
        Some(_) => -5,
    }
}

/// Rule "strict-transport-security": six months, as 180 days.
fn strict_transport_security(page: &Page) -> i32 {
    let value = page.field("strict-transport-security").unwrap_or_default();
    let mut directives = value.split(';').map(str::trim);
    let age = directives.find_map(|one| one.strip_prefix("max-age=")?.parse::<u64>().ok());
    match age {
        Some(15_552_000..) => 0,
        Some(_) => -10,
        None => -20,
    }
}

/// Rule "subresource-integrity": scripts of the same origin need none.
fn subresource_integrity(page: &Page) -> i32 {
    assert!(!page.body.contains("<script src=\"http"), "{}", page.body);
    0
}

/// Rule "x-content-type-options".
fn content_type_options(page: &Page) -> i32 {
    match page.field("x-content-type-options") {
        Some("nosniff") => 0,
        _ => -5,
    }
}

/// Rule "x-frame-options": `frame-ancestors` of the policy counts for more.
fn frame_options(page: &Page) -> i32 {
    match page.field("x-frame-options") {
        _ if page.policy().contains_key("frame-ancestors") => 5,
        Some("DENY" | "SAMEORIGIN") => 0,
        _ => -20,
    }
}

/// Rule "cross-origin-resource-policy".
fn resource_policy(page: &Page) -> i32 {
    match page.field("cross-origin-resource-policy") {
        Some("same-origin" | "same-site") => 10,
        Some("cross-origin") | None => 0,
        Some(_) => -5,
    }
}

/// Points and grade.
fn graded(page: &Page, location: Option<&str>) -> (i32, &'static str) {
    let rules = [
        content_security_policy(page),
        cookies(page),
        sharing(page),
        redirection(location),
        referrer_policy(page),
        strict_transport_security(page),
        subresource_integrity(page),
        content_type_options(page),
        frame_options(page),
        resource_policy(page),
    ];
    let lost: i32 = rules.iter().filter(|points| **points < 0).sum();
    let score = match 100 + lost {
        base @ 90.. => base + rules.iter().filter(|points| **points > 0).sum::<i32>(),
        base => base,
    };
    let grade = match score {
        100.. => "A+",
        90.. => "A",
        85.. => "A-",
        80.. => "B+",
        70.. => "B",
        65.. => "B-",
        60.. => "C+",
        50.. => "C",
        45.. => "C-",
        40.. => "D+",
        30.. => "D",
        25.. => "D-",
        _ => "F",
    };
    (score, grade)
}

#[test]
fn presets_get_their_grades() {
    for (preset, points, grade) in [
        ("off", 30, "D"),
        ("basic", 60, "C+"),
        ("site", 125, "A+"),
        ("strict", 130, "A+"),
    ] {
        let mut pairs = Pairs::new();
        pairs.add("a", &["a.test"]);
        let (cert, key, root) = (
            pairs.tree.join("a.pem"),
            pairs.tree.join("a.key"),
            pairs.tree.join("site"),
        );
        let config = pairs.tree.write(
            "weir.toml",
            format!(
                "root = '{}'\nlisten = '127.0.0.1:0'\nhttps-redirect = 443\nsecurity-headers = '{preset}'\n\
                 [[listener]]\naddress = '[::1]:0'\ntls = {{ cert = '{}', key = '{}' }}\n",
                root.display(),
                cert.display(),
                key.display()
            ),
        );
        let server = Launch::file(env!("CARGO_BIN_EXE_weir").as_ref())
            .args(["--config".as_ref(), config.as_os_str()])
            .start();
        let (clear, secure) = (address(&server, 0), address(&server, 1));
        let mut connection = Connection::open(clear);
        connection.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let redirect = connection.receive("GET");
        let mut client = Secure::open(secure, &pairs.client(), "a.test");
        client
            .0
            .write_all(
                b"GET / HTTP/1.1\r\nHost: a.test\r\nOrigin: https://other.test\r\nConnection: close\r\n\r\n",
            )
            .expect("a request");
        let mut response = String::new();
        client.0.read_to_string(&mut response).expect("a response");
        let page = Page::of(&response);
        let graded = graded(&page, redirect.field("Location"));
        assert_eq!(graded, (points, grade), "{preset}: {response}");
    }
}
