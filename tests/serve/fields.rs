//! Field lines that rules add to responses of every kind, and to those that pages of other origins may read.

use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy};
use crate::serve::proxy::{HELLO, Upstream};
use crate::serve::tree::Tree;
use crate::serve::wire::Response;
use std::fmt::Write as _;

const CONFIG: &str = r#"
root = "site"
live = "local"
security-headers = "strict"
header = ["Referrer-Policy: same-origin"]

[[header-rule]]
path = "*"
header = ["X-Always: yes", "Retry-After: 7"]
always = true

[[header-rule]]
path = "/late/*"
header = ["X-Always: late"]
always = true

[[header-rule]]
path = "/*"
header = ["X-File: yes"]

[[header-rule]]
path = "*/bare"
remove = ["X-Own", "X-Always", "Permissions-Policy", "Access-Control-Allow-Credentials"]
always = true

[[header-rule]]
path = "*/bare"
remove = ["X-File"]

[[header-rule]]
path = "*/bare"
if = "cookie c"
header = ["X-Own: of the rule"]
remove = ["Referrer-Policy", "Access-Control-Allow-Origin"]
always = true

[[redirect]]
from = "/moved"
to = "/"

[[access]]
path = "/closed/*"
deny = "all"

[[host]]
names = ["plain.test"]
root = "site"
security-headers = "off"
header-rule = []

[[cors]]
path = "/open/*"
origins = ["*"]
expose = ["X-A", "ETag"]

[[cors]]
path = "/api/*"
origins = ["https://app.test", "https://*.app.test"]
methods = ["GET", "PUT"]
headers = ["Content-Type", "X-Token"]
credentials = true
max-age = "10m"

[[cors]]
path = "/.weir/*"
origins = ["*"]
"#;

const UPSTREAM: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Always: of the upstream\r\nX-Own: a\r\n\
    Vary: Accept\r\nAccess-Control-Allow-Origin: https://evil.test\r\n\r\nhello";

fn tree(upstream: &str) -> Tree {
    let mut config = CONFIG.to_owned();
    for path in ["/passed/*", "/api/passed/*"] {
        let _ = write!(
            config,
            "[[proxy]]\npath = \"{path}\"\nupstreams = [\"{upstream}\"]\n"
        );
    }
    Tree::with(&[
        ("site/index.html", "page"),
        ("site/open/a.txt", "open"),
        ("site/api/a.txt", "some api"),
        ("site/late/a.txt", "late"),
        ("site/late/bare", "bare"),
        ("weir.toml", &config),
    ])
}

fn launch(strategy: Strategy, tree: &Tree) -> Server {
    Launch::new(strategy)
        .args(["--config".as_ref(), tree.join("weir.toml").as_os_str()])
        .start()
}

/// All values of a field.
fn all<'r>(response: &'r Response, name: &str) -> Vec<&'r str> {
    let fields = response.fields.iter();
    let named = fields.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    named.map(|(_, value)| value.as_str()).collect()
}

fn ask(server: &Server, method: &str, path: &str, fields: &str) -> Response {
    let mut connection = server.connect();
    connection.send(format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"
    ));
    connection.receive(method)
}

fn a_rule_can_apply_to_every_response(strategy: Strategy) {
    let upstream = Upstream::answering(UPSTREAM);
    let tree = tree(&upstream.url);
    let server = launch(strategy, &tree);
    for (path, status, always, file) in [
        ("/", 200, "yes", Some("yes")),
        ("/none", 404, "yes", None),
        ("/moved", 301, "yes", None),
        ("/closed/a", 403, "yes", None),
        ("/late/a.txt", 200, "late", Some("yes")),
        ("/late/none", 404, "late", None),
        ("/l%61te/./none", 404, "late", None),
        ("/passed/a", 200, "yes", None),
        ("/%zz", 400, "yes", None),
    ] {
        let answer = ask(&server, "GET", path, "");
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(all(&answer, "X-Always"), [always], "{path}");
        assert_eq!(answer.field("X-File"), file, "{path}");
        assert_eq!(answer.must("Referrer-Policy"), "same-origin", "{path}");
        assert!(
            answer
                .must("Content-Security-Policy")
                .contains("default-src 'none'"),
            "{path}"
        );
    }
    assert_eq!(ask(&server, "DELETE", "/", "").must("Retry-After"), "7");
    assert_eq!(ask(&server, "OPTIONS", "/", "").must("X-Always"), "yes");
    assert_eq!(ask(&server, "GET", "/passed/a", "").must("X-Own"), "a");
    // Not the server's own pages, which have scripts of their own.
    let live = ask(&server, "GET", "/.weir/", "Origin: https://evil.test\r\n");
    assert_eq!(live.status, 200);
    assert_eq!(live.field("Content-Security-Policy"), None);
    assert_eq!(live.field("Access-Control-Allow-Origin"), None);
    let mut connection = server.connect();
    connection.send("GET /none HTTP/1.1\r\nHost: plain.test\r\n\r\n");
    let plain = connection.receive("GET");
    assert_eq!(
        (plain.field("X-Always"), plain.field("X-Frame-Options")),
        (None, None)
    );
}

fn a_rule_can_remove_fields(strategy: Strategy) {
    let upstream = Upstream::answering(UPSTREAM);
    let tree = tree(&upstream.url);
    let server = launch(strategy, &tree);
    for (path, status, is_passed) in [
        ("/late/bare", 200, false),
        ("/bare", 404, false),
        ("/passed/bare", 200, true),
    ] {
        // Three times, because a known head is answered in another way.
        for _ in 0..3 {
            let answer = ask(&server, "GET", path, "");
            assert_eq!(answer.status, status, "{path}");
            for name in ["X-Own", "X-Always", "X-File", "Permissions-Policy"] {
                assert_eq!(answer.field(name), None, "{path} {name}");
            }
            assert_eq!(all(&answer, "Referrer-Policy"), ["same-origin"], "{path}");
            assert_eq!(answer.must("X-Frame-Options"), "DENY", "{path}");
            let answer = ask(&server, "GET", path, "Cookie: c=1\r\n");
            assert_eq!(all(&answer, "X-Own"), ["of the rule"], "{path}");
            assert_eq!(answer.field("Referrer-Policy"), None, "{path}");
            let vary = all(&answer, "Vary").join(", ");
            assert!(vary.contains("Cookie"), "{path}: {vary}");
            assert_eq!(vary.contains("Accept"), is_passed, "{path}: {vary}");
        }
    }
    assert_eq!(ask(&server, "GET", "/passed/a", "").must("X-Own"), "a");
    // Lines of the upstream are removed, and those of a rule for other origins stay.
    for (path, cookie, allowed) in [
        ("/passed/bare", "", &["https://evil.test"][..]),
        ("/passed/bare", "Cookie: c=1\r\n", &[]),
        ("/api/passed/bare", "", &["https://app.test"]),
        ("/api/passed/bare", "Cookie: c=1\r\n", &["https://app.test"]),
    ] {
        let fields = format!("Origin: https://app.test\r\n{cookie}");
        let answer = ask(&server, "GET", path, &fields);
        let got = all(&answer, "Access-Control-Allow-Origin");
        assert_eq!(got, allowed, "{path} {cookie}");
        let is_ruled = path.starts_with("/api/");
        let credentials = answer.field("Access-Control-Allow-Credentials");
        assert_eq!(credentials, is_ruled.then_some("true"), "{path} {cookie}");
        let vary = all(&answer, "Vary").join(", ");
        assert_eq!(vary.contains("Origin"), is_ruled, "{path} {cookie}: {vary}");
        assert!(vary.contains("Cookie"), "{path} {cookie}: {vary}");
    }
}

fn pages_of_other_origins_may_read_what_a_rule_allows(strategy: Strategy) {
    let upstream = Upstream::answering(UPSTREAM);
    let tree = tree(&upstream.url);
    let server = launch(strategy, &tree);
    let app = "Origin: https://x.app.test\r\n";
    let evil = "Origin: https://app.test.evil.test\r\n";
    for (path, origin, status, allowed, vary) in [
        ("/open/a.txt", evil, 200, Some("*"), None),
        ("/open/a.txt", "", 200, Some("*"), None),
        ("/open/none", evil, 404, Some("*"), None),
        ("/api/a.txt", app, 200, Some("https://x.app.test"), Some("Origin")),
        ("/api/a.txt", evil, 200, None, Some("Origin")),
        ("/api/a.txt", "", 200, None, Some("Origin")),
        ("/api/none", app, 404, Some("https://x.app.test"), Some("Origin")),
        (
            "/api/passed/a",
            app,
            200,
            Some("https://x.app.test"),
            Some("Origin"),
        ),
        ("/", evil, 200, None, None),
    ] {
        // Three times, because a known head is answered in another way.
        for _ in 0..3 {
            let answer = ask(&server, "GET", path, origin);
            assert_eq!(answer.status, status, "{path} {origin}");
            let got = all(&answer, "Access-Control-Allow-Origin");
            assert_eq!(got, allowed.into_iter().collect::<Vec<_>>(), "{path} {origin}");
            let varies = all(&answer, "Vary").join(", ");
            assert_eq!(
                varies.split(", ").find(|name| *name == "Origin"),
                vary,
                "{path} {origin}"
            );
        }
    }
    let open = ask(&server, "GET", "/open/a.txt", evil);
    assert_eq!(open.must("Access-Control-Expose-Headers"), "X-A, ETag");
    assert_eq!(open.field("Access-Control-Allow-Credentials"), None);
    let api = ask(&server, "GET", "/api/a.txt", app);
    assert_eq!(api.must("Access-Control-Allow-Credentials"), "true");
    // The upstream's own permission is replaced; one that nobody gets is dropped as well.
    assert_eq!(
        ask(&server, "GET", "/api/passed/a", evil).field("Access-Control-Allow-Origin"),
        None
    );
}

fn a_preflight_request_is_answered(strategy: Strategy) {
    let upstream = Upstream::answering(HELLO);
    let tree = tree(&upstream.url);
    let server = launch(strategy, &tree);
    let preflight = |path: &str, origin: &str| {
        let fields = format!("Origin: {origin}\r\nAccess-Control-Request-Method: PUT\r\n");
        ask(&server, "OPTIONS", path, &fields)
    };
    for path in ["/api/a.txt", "/api/passed/a", "/api/none"] {
        let answer = preflight(path, "https://app.test");
        assert_eq!(answer.status, 204, "{path}");
        for (name, value) in [
            ("Access-Control-Allow-Origin", "https://app.test"),
            ("Access-Control-Allow-Methods", "GET, PUT"),
            ("Access-Control-Allow-Headers", "Content-Type, X-Token"),
            ("Access-Control-Allow-Credentials", "true"),
            ("Access-Control-Max-Age", "600"),
            ("Vary", "Origin"),
        ] {
            assert_eq!(answer.must(name), value, "{path}");
        }
        let refused = preflight(path, "https://evil.test");
        assert_eq!(
            (refused.status, refused.field("Access-Control-Allow-Origin")),
            (204, None)
        );
    }
    assert_eq!(
        upstream.all(),
        Vec::<String>::new(),
        "no preflight request is passed on"
    );
    // Without a rule, OPTIONS is what it is.
    let other = preflight("/passed/a", "https://app.test");
    assert_eq!(
        (other.status, other.field("Access-Control-Allow-Origin")),
        (200, None)
    );
}

/// Lines of header rules that say what those of `cors` say.
const PERMISSIONS: &str = r#"
root = "site"
header = ["Access-Control-Allow-Origin: https://rule.test"]

[[header-rule]]
path = "*"
header = ["Access-Control-Allow-Credentials: true", "Access-Control-Allow-Methods: DELETE"]
always = true

[[header-rule]]
path = "*"
if = "header X-Asked"
header = ["Access-Control-Allow-Headers: X-Rule"]
always = true

[[cors]]
path = "/api/*"
origins = ["https://app.test"]

[[cors]]
path = "/open/*"
origins = ["*"]
"#;

fn rules_for_other_origins_replace_header_rules(strategy: Strategy) {
    let upstream = Upstream::answering(UPSTREAM);
    let proxy = format!(
        "[[proxy]]\npath = \"/api/passed/*\"\nupstreams = [\"{}\"]\n",
        upstream.url
    );
    let tree = Tree::with(&[
        ("site/index.html", "page"),
        ("site/open/a.txt", "open"),
        ("site/api/a.txt", "some api"),
        ("weir.toml", &format!("{PERMISSIONS}{proxy}")),
    ]);
    let server = launch(strategy, &tree);
    let app = "Access-Control-Allow-Origin: https://app.test";
    let any = "Access-Control-Allow-Origin: *";
    let preflight = [
        "Access-Control-Allow-Methods: GET, HEAD",
        app,
        "Access-Control-Max-Age: 5",
    ];
    let rule = "Access-Control-Allow-Headers: X-Rule";
    let always = [
        "Access-Control-Allow-Credentials: true",
        rule,
        "Access-Control-Allow-Methods: DELETE",
    ];
    let file = [
        "Access-Control-Allow-Credentials: true",
        rule,
        "Access-Control-Allow-Methods: DELETE",
        "Access-Control-Allow-Origin: https://rule.test",
    ];
    for (method, path, origin, status, permission) in [
        ("GET", "/api/a.txt", "https://app.test", 200, &[app][..]),
        ("GET", "/api/none", "https://app.test", 404, &[app]),
        ("GET", "/api/passed/a", "https://app.test", 200, &[app]),
        ("OPTIONS", "/api/a.txt", "https://app.test", 204, &preflight),
        ("OPTIONS", "/api/passed/a", "https://app.test", 204, &preflight),
        ("GET", "/api/a.txt", "https://evil.test", 200, &[]),
        ("GET", "/api/none", "https://evil.test", 404, &[]),
        ("GET", "/api/passed/a", "https://evil.test", 200, &[]),
        ("OPTIONS", "/api/a.txt", "https://evil.test", 204, &[]),
        ("GET", "/open/a.txt", "https://evil.test", 200, &[any]),
        ("GET", "/open/none", "https://evil.test", 404, &[any]),
        ("GET", "/", "https://app.test", 200, &file),
        ("GET", "/none", "https://app.test", 404, &always),
    ] {
        let fields = format!("Origin: {origin}\r\nX-Asked: 1\r\nAccess-Control-Request-Method: GET\r\n");
        // Three times, because a known head is answered in another way.
        for _ in 0..3 {
            let answer = ask(&server, method, path, &fields);
            assert_eq!(answer.status, status, "{method} {path} {origin}");
            let lines = answer
                .fields
                .iter()
                .map(|(name, value)| format!("{name}: {value}"));
            let mut got: Vec<String> = lines
                .filter(|line| line.to_ascii_lowercase().starts_with("access-control-"))
                .collect();
            got.sort();
            assert_eq!(got, permission, "{method} {path} {origin}");
        }
    }
}

on_strategy!(
    loops, LOOPS: a_rule_can_apply_to_every_response, pages_of_other_origins_may_read_what_a_rule_allows,
    a_preflight_request_is_answered, a_rule_can_remove_fields, rules_for_other_origins_replace_header_rules
);
on_strategy!(
    loops_uring, LOOPS_URING: a_rule_can_apply_to_every_response,
    pages_of_other_origins_may_read_what_a_rule_allows, a_preflight_request_is_answered,
    a_rule_can_remove_fields, rules_for_other_origins_replace_header_rules
);
