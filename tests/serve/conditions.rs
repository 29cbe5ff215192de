//! Rules with conditions (`if`): over HTTP/1.1, HTTP/2 and HTTP/3, for redirects, access, upstreams, tried files, header fields,
//! limits and pages of other origins. Each request is sent several times, because known requests are answered in another way.

use crate::serve::frames;
use crate::serve::http3::client::Client;
use crate::serve::listeners::address;
use crate::serve::on_strategy;
use crate::serve::process::{Launch, Server, Strategy};
use crate::serve::proxy::{Upstream, request};
use crate::serve::tls::{Pairs, Secure};
use crate::serve::tree::Tree;
use crate::serve::wire::Connection;
use std::io::Write as _;
use std::process::Command;

/// A response, whatever version carried it.
#[derive(Debug, PartialEq, Eq)]
struct Got {
    version: &'static str,
    status: u16,
    /// Names in lower case.
    fields: Vec<(String, String)>,
    text: String,
}

impl Got {
    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        fields
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The fields that `Vary` names, in order.
    fn vary(&self) -> String {
        let lines = self.fields.iter().filter(|(name, _)| name == "vary");
        let mut names: Vec<&str> = lines.flat_map(|(_, value)| value.split(", ")).collect();
        names.sort_unstable();
        names.join(" ")
    }
}

/// The responses to a GET request over HTTP/1.1 and HTTP/2, three times over each.
fn ask(server: &Server, path: &str, fields: &[(&str, &str)]) -> Vec<Got> {
    ask_as(server, "GET", path, fields)
}

/// The responses to a request without a body over HTTP/1.1 and HTTP/2, three times over each.
fn ask_as(server: &Server, method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<Got> {
    let mut all = Vec::new();
    let mut first = server.connect();
    let mut second = frames::connect(server);
    for _ in 0..3 {
        let lines: String = fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        first.send(format!("{method} {path} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"));
        let got = first.receive(method);
        all.push(Got {
            version: "HTTP/1.1",
            status: got.status,
            fields: got
                .fields
                .iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
                .collect(),
            text: got.text(),
        });
        let got = second.get(path, &[&[(":method", method)], fields].concat());
        all.push(Got {
            version: "HTTP/2",
            status: got.status,
            fields: got.fields.clone(),
            text: got.text(),
        });
    }
    all
}

fn launch(strategy: Strategy, tree: &Tree, rules: &str) -> Server {
    let config = tree.write("weir.toml", format!("root = 'site'\nhttp2 = 'all'\n{rules}"));
    Launch::new(strategy)
        .args(["--config".as_ref(), config.as_os_str()])
        .start()
}

fn tree() -> Tree {
    Tree::with(&[
        ("site/index.html", "home"),
        ("site/a.txt", "a file"),
        ("site/de/a.txt", "eine Datei"),
        ("site/docs/index.html", "docs"),
        ("site/.well-known/a.txt", "known"),
    ])
}

fn redirects_have_conditions(strategy: Strategy) {
    let tree = tree();
    let server = launch(
        strategy,
        &tree,
        "[[redirect]]\nfrom = '/*'\nto = '/beta/*'\nstatus = 302\nif = ['cookie beta=1', 'not header x-plain']\n\
         except = ['/beta/*', '/.well-known/*']\n\
         [[redirect]]\nfrom = '/a.txt'\nto = '/de/a.txt?from=a'\nstatus = 307\nif = 'query lang=de'\n\
         [[redirect]]\nfrom = '/bots'\nto = 'https://bots.test/'\nif = 'header User-Agent~*bot*'\n",
    );
    type Fields<'f> = &'f [(&'f str, &'f str)];
    for (path, fields, status, location) in [
        ("/a.txt", &[][..] as Fields<'_>, 200, None),
        ("/a.txt", &[("cookie", "a=2; beta=1")], 302, Some("/beta/a.txt")),
        // HTTP/2 may split cookies.
        (
            "/a.txt",
            &[("cookie", "a=2"), ("cookie", "beta=1")],
            302,
            Some("/beta/a.txt"),
        ),
        ("/a.txt", &[("cookie", "beta=10")], 200, None),
        ("/a.txt", &[("cookie", "beta=1"), ("x-plain", "")], 200, None),
        ("/.well-known/a.txt", &[("cookie", "beta=1")], 200, None),
        ("/x/../%61.txt", &[("cookie", "beta=1")], 302, Some("/beta/a.txt")),
        ("/a.txt?x&lang=de", &[], 307, Some("/de/a.txt?from=a&x&lang=de")),
        ("/a.txt?lang=en", &[], 200, None),
        // The first rule that applies.
        (
            "/a.txt?lang=de",
            &[("cookie", "beta=1")],
            302,
            Some("/beta/a.txt?lang=de"),
        ),
        (
            "/bots",
            &[("user-agent", "GoogleBot/2")],
            301,
            Some("https://bots.test/"),
        ),
        ("/bots", &[("user-agent", "Mozilla")], 404, None),
        ("/bots", &[], 404, None),
    ] {
        for got in ask(&server, path, fields) {
            assert_eq!(
                (got.status, got.field("location")),
                (status, location),
                "{path} {fields:?}: {got:?}"
            );
            // Whether the condition holds or not: another request could get the other answer.
            let vary = got.vary();
            assert!(
                vary.contains("Cookie") && vary.contains("x-plain"),
                "{path}: {got:?}"
            );
            assert_eq!(vary.contains("User-Agent"), path == "/bots", "{got:?}");
        }
    }
}

fn an_access_rule_with_a_condition_opens_only_what_a_rule_opens(strategy: Strategy) {
    let tree = tree();
    let server = launch(
        strategy,
        &tree,
        "[[access]]\npath = '/docs/*'\nif = ['cookie staff=secret', 'method GET']\nallow = 'all'\n\
         [[access]]\npath = '/docs/*'\ndeny = 'all'\nstatus = 404\n\
         [[access]]\nif = 'header User-Agent~*badbot*'\ndeny = 'all'\nstatus = 410\n\
         [[access]]\nallow = 'all'\n",
    );
    for (path, fields, status) in [
        ("/docs/", &[][..], 404),
        ("/docs/", &[("cookie", "staff=secret")], 200),
        ("/docs/", &[("cookie", "staff=SECRET")], 404),
        ("/docs/", &[("cookie", "staff=")], 404),
        ("/docs/", &[("x-cookie", "staff=secret")], 404),
        // Whatever the spelling, and however often it was asked.
        ("/DOCS/", &[], 404),
        ("/d%6fcs%2Findex.html", &[], 404),
        (
            "/docs/",
            &[("user-agent", "BadBot"), ("cookie", "staff=secret")],
            200,
        ),
        ("/a.txt", &[("user-agent", "a BADBOT/1")], 410),
        ("/a.txt", &[("user-agent", "good")], 200),
        ("/a.txt", &[], 200),
    ] {
        for got in ask(&server, path, fields) {
            assert_eq!(got.status, status, "{path} {fields:?}: {got:?}");
            assert!(got.vary().contains("User-Agent"), "{path}: {got:?}");
        }
    }
    let mut connection = server.connect();
    let head = connection.request("HEAD", "/docs/", &[("Cookie", "staff=secret")]);
    assert_eq!(head.status, 404, "the condition names GET");
}

#[test]
fn a_path_that_conditions_leave_open_is_a_mistake_at_start() {
    let tree = tree();
    for (rules, advice) in [
        (
            "[[access]]\npath = '/docs/*'\nif = 'cookie staff'\nhtpasswd = 'users'\n",
            "`/docs/*` if `cookie staff` does not hold",
        ),
        (
            "[[redirect]]\nfrom = '*'\nto = '/beta/*'\nif = 'cookie beta'\n",
            "redirected more than 20 times",
        ),
        (
            "[[redirect]]\nfrom = '*'\nto = '/b'\nif = 'Cookie beta'\n",
            "`Cookie beta` is not a condition",
        ),
    ] {
        let config = tree.write("weir.toml", format!("root = 'site'\n{rules}"));
        let (code, err) = Launch::bare()
            .args(["--config".as_ref(), config.as_os_str()])
            .fail();
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(advice), "{err}");
    }
}

#[test]
fn a_check_finds_conditions_that_no_request_meets() {
    let tree = tree();
    let mistake = "method GET` and `method POST` never hold together";
    for (rules, code, said) in [
        (
            "[[limit]]\nrate = 1\nif = ['method GET', 'method POST']\n",
            2,
            mistake,
        ),
        (
            "[[host]]\nnames = ['b.test']\n[[host.cors]]\norigins = ['*']\nif = ['method GET', 'method POST']\n",
            2,
            mistake,
        ),
        (
            "[[cors]]\norigins = ['*']\nheaders = ['X-A']\nif = 'cookie a'\n",
            2,
            "no preflight request meets `cookie a`",
        ),
        (
            "[[limit]]\nrate = 1\nif = 'method GET'\n[[cors]]\norigins = ['*']\nif = 'query a'\n",
            0,
            "",
        ),
    ] {
        let config = tree.write("weir.toml", format!("root = 'site'\n{rules}"));
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["serve", "--check", "--config"])
            .arg(&config)
            .output()
            .expect("the program runs");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{rules}: {err}");
        assert!(err.contains(said), "{rules}: {err}");
    }
}

fn header_rules_have_conditions(strategy: Strategy) {
    let tree = tree();
    let upstream = Upstream::answering(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: of the upstream\r\nVary: Accept\r\n\r\nhi",
    );
    let url = &upstream.url;
    let server = launch(
        strategy,
        &tree,
        &format!(
            "[[header-rule]]\npath = '*.html'\nif = 'header Save-Data=on'\nheader = ['X-A: few', 'Cache-Control: no-store']\n\
             [[header-rule]]\npath = '*'\nheader = ['X-A: all', 'X-B: all', 'Cache-Control: max-age=9']\n\
             [[header-rule]]\npath = '/api/*'\nif = 'cookie c'\nalways = true\nheader = ['X-A: always']\n\
             [[header-rule]]\npath = '/none*'\nif = 'cookie c'\nalways = true\nheader = ['X-A: always']\n\
             [[proxy]]\npath = '/api/*'\nupstreams = ['{url}']\n"
        ),
    );
    for (path, fields, a, b, cache, vary) in [
        (
            "/",
            &[][..],
            Some("all"),
            Some("all"),
            Some("max-age=9"),
            "Save-Data",
        ),
        (
            "/",
            &[("save-data", "on")],
            Some("few"),
            Some("all"),
            Some("no-store"),
            "Save-Data",
        ),
        (
            "/docs/index.html",
            &[("save-data", "on")],
            Some("few"),
            Some("all"),
            Some("no-store"),
            "Save-Data",
        ),
        (
            "/docs/",
            &[("save-data", "off")],
            Some("all"),
            Some("all"),
            Some("max-age=9"),
            "Save-Data",
        ),
        (
            "/a.txt",
            &[("save-data", "on")],
            Some("all"),
            Some("all"),
            Some("max-age=9"),
            "",
        ),
        (
            "/none",
            &[("cookie", "c=1")],
            Some("always"),
            None,
            None,
            "Cookie",
        ),
        ("/none", &[], None, None, None, "Cookie"),
        (
            "/api/x",
            &[("cookie", "c=1")],
            Some("always"),
            None,
            None,
            "Accept Cookie",
        ),
        (
            "/api/x",
            &[],
            Some("of the upstream"),
            None,
            None,
            "Accept Cookie",
        ),
    ] {
        for got in ask(&server, path, fields) {
            let found = (got.field("x-a"), got.field("x-b"), got.field("cache-control"));
            assert_eq!(found, (a, b, cache), "{path} {fields:?}: {got:?}");
            let names = got.vary();
            for name in vary.split(' ').filter(|name| !name.is_empty()) {
                assert!(names.contains(name), "{path} {fields:?}: {got:?}");
            }
            assert_eq!(names.contains("Save-Data"), vary == "Save-Data", "{got:?}");
            assert_eq!(names.contains("Cookie"), vary.contains("Cookie"), "{got:?}");
        }
    }
    // A part and a confirmation have the same lines.
    let mut connection = server.connect();
    let etag = connection.get("/").must("ETag").to_owned();
    for (more, status) in [(("Range", "bytes=0-1"), 206), (("If-None-Match", &*etag), 304)] {
        let got = connection.request("GET", "/", &[("Save-Data", "on"), more]);
        assert_eq!((got.status, got.must("X-A")), (status, "few"));
        assert!(got.must("Vary").contains("Save-Data"));
    }
}

fn other_files_are_tried_under_conditions(strategy: Strategy) {
    let tree = tree();
    let server = launch(
        strategy,
        &tree,
        "[[try-files]]\npath = '/*'\nfiles = ['/de/*', '$path']\nif = 'header Accept-Language=de*'\n\
         [[access]]\npath = '/de/*'\nif = 'cookie no'\ndeny = 'all'\n[[access]]\nallow = 'all'\n",
    );
    for (path, fields, status, text) in [
        ("/a.txt", &[][..], 200, "a file"),
        ("/a.txt", &[("accept-language", "de-AT, en")], 200, "eine Datei"),
        ("/a.txt", &[("accept-language", "en, de")], 200, "a file"),
        ("/docs/", &[("accept-language", "de")], 200, "docs"),
        // A request must satisfy the access rules of the files that may answer it.
        (
            "/a.txt",
            &[("cookie", "no=1"), ("accept-language", "de")],
            403,
            "",
        ),
        ("/a.txt", &[("cookie", "no=1")], 200, "a file"),
    ] {
        for got in ask(&server, path, fields) {
            assert_eq!(got.status, status, "{path} {fields:?}: {got:?}");
            assert!(text.is_empty() || got.text == text, "{path} {fields:?}: {got:?}");
            // Another request could get the file that an access rule refuses to some.
            let vary = got.vary();
            assert!(
                vary.contains("Accept-Language") && vary.contains("Cookie"),
                "{got:?}"
            );
        }
    }
}

/// An upstream that answers every request with a text that may be stored.
fn storable(text: &'static str) -> Upstream {
    Upstream::telling(move |stream, tell| {
        tell(request(stream));
        let length = text.len();
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nCache-Control: max-age=600\r\n";
        let _ = stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{text}").as_bytes());
    })
}

fn the_cache_of_the_proxy_keeps_answers_of_upstreams_apart(strategy: Strategy) {
    let tree = tree();
    let (old, new) = (storable("old"), storable("new"));
    let (one, two) = (&old.url, &new.url);
    let server = launch(
        strategy,
        &tree,
        &format!(
            "[[redirect]]\nfrom = '/app/moved'\nto = '/elsewhere'\nif = 'query go'\n\
             [[proxy]]\npath = '/app/*'\nif = 'cookie beta'\nupstreams = ['{two}']\ncache = true\n\
             [[proxy]]\npath = '/app/*'\nupstreams = ['{one}']\ncache = true\n"
        ),
    );
    let stable = [("cookie", "other=1")];
    let beta = [("cookie", "beta=1")];
    for _ in 0..3 {
        for (fields, text) in [(&[][..], "old"), (&beta, "new"), (&stable, "old")] {
            for path in ["/app/x", "/app/moved"] {
                for got in ask(&server, path, fields) {
                    assert_eq!(
                        (got.status, &*got.text),
                        (200, text),
                        "{path} {fields:?}: {got:?}"
                    );
                    assert!(got.vary().contains("Cookie"), "{got:?}");
                }
            }
        }
        // A redirect with a condition comes before upstreams.
        for got in ask(&server, "/app/moved?go", &beta) {
            assert_eq!(got.field("location"), Some("/elsewhere?go"), "{got:?}");
        }
    }
    // Each upstream was asked once for each of two targets: the others were answered by the cache.
    assert_eq!((old.all().len(), new.all().len()), (2, 2));
}

fn limits_count_requests_that_meet_their_conditions(strategy: Strategy) {
    let tree = tree();
    let upstream = storable("from upstream");
    let url = &upstream.url;
    let server = launch(
        strategy,
        &tree,
        &format!(
            "[[limit]]\npath = '/docs/*'\nrate = '2/h'\nburst = 2\nif = ['header User-Agent~*bot*', 'not cookie friend']\n\
             [[limit]]\npath = '/docs/*'\nrate = '1/h'\nif = 'query full'\n\
             [[limit]]\npath = '/app/*'\nrate = '1/h'\nif = 'method POST'\n\
             [[proxy]]\npath = '/app/*'\nupstreams = ['{url}']\ncache = true\n"
        ),
    );
    let bot = [("user-agent", "a Bot/1")];
    let friend = [("user-agent", "a Bot/1"), ("cookie", "friend=1")];
    let passed = |method: &str, path: &str, fields: &[(&str, &str)], status: u16, retry: Option<&str>| {
        let mut count = 0;
        for got in ask_as(&server, method, path, fields) {
            match got.status {
                429 => assert_eq!(got.field("retry-after"), retry, "{path} {fields:?}: {got:?}"),
                other => assert_eq!(other, status, "{path} {fields:?}: {got:?}"),
            }
            count += u32::from(got.status != 429);
            // No response is another one because of a condition: it is refused, or not.
            assert!(!got.vary().contains("User-Agent"), "{got:?}");
        }
        count
    };
    for round in 0..2 {
        let first = |count: u32| if round == 0 { count } else { 0 };
        // Six of each, over two versions.
        assert_eq!(passed("GET", "/docs/", &[], 200, None), 6);
        assert_eq!(passed("GET", "/docs/", &friend, 200, None), 6);
        assert_eq!(passed("GET", "/docs/", &bot, 200, Some("1800")), first(2));
        assert_eq!(passed("GET", "/DOCS/x", &bot, 404, Some("1800")), 0);
        assert_eq!(passed("GET", "/docs/?full", &friend, 200, Some("3600")), first(1));
        assert_eq!(passed("GET", "/a.txt", &bot, 200, None), 6);
        assert_eq!(passed("GET", "/app/x", &[], 200, None), 6);
        assert_eq!(passed("POST", "/app/y", &[], 200, Some("3600")), first(1));
    }
    // The first POST, and the first GET.
    assert_eq!(upstream.all().len(), 2);
}

/// An upstream with a permission of its own, whose responses may be stored.
fn permitting() -> Upstream {
    Upstream::telling(|stream, tell| {
        tell(request(stream));
        let _ = stream.write_all(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nCache-Control: max-age=600\r\nContent-Length: 2\r\n\
              Access-Control-Allow-Origin: https://own.test\r\n\r\nhi",
        );
    })
}

fn rules_for_other_origins_have_conditions(strategy: Strategy) {
    let tree = tree();
    let upstream = permitting();
    let url = &upstream.url;
    let server = launch(
        strategy,
        &tree,
        &format!(
            "[[cors]]\npath = '/docs/*'\norigins = ['https://a.test']\nif = ['cookie beta=1', 'header origin']\n\
             [[cors]]\npath = '/docs/*'\norigins = ['*']\nif = 'not query private'\n\
             [[cors]]\npath = '/app/*'\norigins = ['https://a.test']\nif = 'cookie beta'\n\
             [[cors]]\npath = '/app/*'\norigins = ['https://b.test']\nmethods = ['PUT']\n\
             if = 'header Access-Control-Request-Method=PUT'\n\
             [[cors]]\npath = '/a.txt'\norigins = ['*']\nif = 'method GET'\n\
             [[header-rule]]\npath = '/app/*'\nalways = true\nif = 'header X-A'\nheader = ['X-B: 1']\n\
             [[proxy]]\npath = '/app/*'\nupstreams = ['{url}']\ncache = true\n"
        ),
    );
    type Fields<'f> = &'f [(&'f str, &'f str)];
    let a = ("origin", "https://a.test");
    let b = ("origin", "https://b.test");
    let beta = ("cookie", "beta=1");
    let put = ("access-control-request-method", "PUT");
    let get = ("access-control-request-method", "GET");
    let of_app = "Access-Control-Request-Method Cookie X-A";
    let of_app_and_origin = "Access-Control-Request-Method Cookie Origin X-A";
    for (method, path, fields, status, allowed, vary) in [
        (
            "GET",
            "/docs/",
            &[][..] as Fields<'_>,
            200,
            Some("*"),
            "Cookie origin",
        ),
        ("GET", "/docs/", &[a], 200, Some("*"), "Cookie origin"),
        // The field of a condition is named once.
        (
            "GET",
            "/docs/",
            &[a, beta],
            200,
            Some("https://a.test"),
            "Cookie Origin",
        ),
        ("GET", "/docs/", &[b, beta], 200, None, "Cookie Origin"),
        ("GET", "/docs/?private", &[a], 200, None, "Cookie origin"),
        (
            "GET",
            "/docs/none",
            &[a, beta],
            404,
            Some("https://a.test"),
            "Cookie Origin",
        ),
        ("GET", "/", &[a, beta], 200, None, ""),
        // One stored response has the lines of the rule that applies to each request, or those of the upstream.
        ("GET", "/app/x", &[a], 200, Some("https://own.test"), of_app),
        (
            "GET",
            "/app/x",
            &[a, beta],
            200,
            Some("https://a.test"),
            of_app_and_origin,
        ),
        ("GET", "/app/x", &[b, beta], 200, None, of_app_and_origin),
        ("GET", "/app/x", &[a], 200, Some("https://own.test"), of_app),
        // A preflight request has no cookies, and a method of its own.
        (
            "OPTIONS",
            "/app/x",
            &[b, put],
            204,
            Some("https://b.test"),
            of_app_and_origin,
        ),
        ("OPTIONS", "/app/x", &[a, put], 204, None, of_app_and_origin),
        ("OPTIONS", "/a.txt", &[a, get], 204, None, ""),
        ("GET", "/a.txt", &[a], 200, Some("*"), ""),
    ] {
        for got in ask_as(&server, method, path, fields) {
            let told = format!("{method} {path} {fields:?}: {got:?}");
            let found = (got.status, got.field("access-control-allow-origin"));
            assert_eq!(found, (status, allowed), "{told}");
            assert_eq!(got.vary(), vary, "{told}");
            let methods = got.field("access-control-allow-methods");
            let is_permitted = status == 204 && allowed.is_some();
            assert_eq!(methods, is_permitted.then_some("PUT"), "{told}");
            // The answer to a preflight request that no rule is for is that to any `OPTIONS`.
            let is_plain = method == "OPTIONS" && path == "/a.txt";
            assert_eq!(got.field("allow").is_some(), is_plain, "{told}");
        }
    }
    for got in ask_as(&server, "OPTIONS", "/app/x", &[b, put, ("x-a", "")]) {
        assert_eq!((got.status, got.field("x-b")), (204, Some("1")), "{got:?}");
    }
    assert_eq!(upstream.all().len(), 1, "no preflight request is passed on");
    // If no rule applies to it, a preflight request is passed on as any other.
    for got in ask_as(&server, "OPTIONS", "/app/x", &[b, get]) {
        let found = (got.status, got.field("access-control-allow-origin"));
        assert_eq!(found, (200, Some("https://own.test")), "{got:?}");
    }
}

fn converted_conditions_are_those_of_the_other_server(strategy: Strategy) {
    let nginx = "server { listen 80; server_name a.test; root site;\n\
        if ($http_user_agent ~* (crawler|spider)) { return 410; }\n\
        if ($cookie_beta = yes) { return 302 https://beta.test$request_uri; }\n\
        location /docs/ { if ($http_x_key != k) { return 404; } }\n\
        location /list { if ($arg_plain) { return 302 /a.txt; } }\n}\n";
    let apache = "<VirtualHost *:80>\nServerName a.test\nDocumentRoot site\nRewriteEngine On\n\
        RewriteCond %{HTTP_USER_AGENT} (crawler|spider) [NC]\nRewriteRule ^ - [G]\n\
        RewriteCond %{HTTP_COOKIE} \"(^|.*; )beta=yes(;.*|$)\"\nRewriteRule ^(.*)$ https://beta.test%{REQUEST_URI} [R=302]\n\
        RewriteCond %{HTTP:X-Key} !=k\nRewriteRule ^/docs/ - [R=404]\n\
        RewriteCond %{QUERY_STRING} (^|&)plain=[1-9](&|$)\nRewriteRule ^/list /a.txt [R=302]\n</VirtualHost>\n";
    let caddy = "http://a.test {\nroot * site\nfile_server\n\
        @bots header User-Agent *crawler* *Crawler* *spider*\nrespond @bots 410\n\
        @beta header Cookie beta=yes \"*; beta=yes\" beta=yes;*\nredir @beta https://beta.test{uri} 302\n\
        @key {\npath /docs/*\nnot header X-Key k\n}\nerror @key 404\n\
        @plain {\npath /list*\nquery plain=1\n}\nredir @plain /a.txt 302\n}\n";
    for (dialect, name, text) in [
        ("nginx", "site.conf", nginx),
        ("apache", "httpd.conf", apache),
        ("caddy", "Caddyfile", caddy),
    ] {
        let tree = tree();
        let file = tree.write(name, text);
        let result = tree.join("weir.toml");
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("convert")
            .arg(&file)
            .args(["--from", dialect, "--out"])
            .arg(&result)
            .output()
            .expect("the program runs");
        let told =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert!(!told.contains("open ") && !told.contains("missing  "), "{told}");
        let server = Launch::new(strategy)
            .args(["--http2=all", "--config"])
            .args([result.as_os_str()])
            .start();
        for (path, fields, status, location) in [
            ("/a.txt", &[][..], 200, None),
            ("/a.txt", &[("user-agent", "a Crawler")], 410, None),
            ("/a.txt", &[("user-agent", "Mozilla")], 200, None),
            (
                "/a.txt",
                &[("cookie", "beta=yes")],
                302,
                Some("https://beta.test/a.txt"),
            ),
            ("/a.txt", &[("cookie", "beta=yesterday")], 200, None),
            ("/docs/", &[], 404, None),
            ("/docs/", &[("x-key", "l")], 404, None),
            ("/docs/", &[("x-key", "k")], 200, None),
            ("/list?plain=1", &[], 302, Some("/a.txt?plain=1")),
            ("/list?plainer=1", &[], 404, None),
        ] {
            for got in ask(&server, path, fields) {
                assert_eq!(
                    (got.status, got.field("location")),
                    (status, location),
                    "{dialect} {path} {fields:?}: {got:?}"
                );
            }
        }
    }
}

/// In one thread, so that connections with and without TLS share what it remembers.
#[test]
fn requests_in_cleartext_are_redirected_although_those_with_tls_are_known() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs.tree.write("site/open/a.txt", "hello");
    let config = pairs.tree.write(
        "weir.toml",
        "root = 'site'\nlisten = '127.0.0.1:0'\nlive = 'nobody'\n\
         [[listener]]\naddress = '127.0.0.2:0'\ntls = { cert = 'a.pem', key = 'a.key' }\n\
         [[redirect]]\nfrom = '*'\nto = 'https://a.test*'\nexcept = '/open/*'\nif = 'scheme http'\n\
         [[header-rule]]\npath = '/open/*'\nheader = ['X-Secure: yes']\nif = 'scheme https'\n",
    );
    let server = Launch::new(Strategy::ONE_LOOP)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let mut secure = Secure::open(address(&server, 1), &pairs.client(), "a.test");
    let mut clear = Connection::open(address(&server, 0));
    for _ in 0..4 {
        for (path, status, header) in [("/", 301, None), ("/open/a.txt", 200, None::<&str>)] {
            for _ in 0..3 {
                let text = secure.try_ask(path).expect("a response");
                assert!(text.starts_with("HTTP/1.1 200"), "{text}");
                assert_eq!(text.contains("\r\nX-Secure: yes"), path != "/", "{text}");
            }
            // The same bytes, in cleartext.
            clear.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
            let got = clear.receive("GET");
            assert_eq!((got.status, got.field("X-Secure")), (status, header), "{path}");
        }
    }
}

/// In one thread, as above. HTTP/3 has a thread of its own, and counts with the others.
#[test]
fn limits_and_rules_for_other_origins_tell_schemes_apart() {
    let mut pairs = Pairs::new();
    pairs.add("a", &["a.test"]);
    pairs.tree.write("site/few/a.txt", "few");
    pairs.tree.write("site/bots/a.txt", "bots");
    let config = pairs.tree.write(
        "weir.toml",
        "root = 'site'\nlive = 'nobody'\nhttp3 = true\n\
         [[listener]]\naddress = '127.0.0.2:0'\ntls = { cert = 'a.pem', key = 'a.key' }\n\
         [[limit]]\npath = '/few/*'\nrate = '5/h'\nburst = 5\nif = 'scheme http'\n\
         [[limit]]\npath = '/bots/*'\nrate = '4/h'\nburst = 4\nif = ['header User-Agent~*bot*', 'scheme https']\n\
         [[cors]]\norigins = ['https://a.test']\nif = 'scheme https'\n",
    );
    let server = Launch::new(Strategy::ONE_LOOP)
        .args(["--config".as_ref(), config.as_os_str()])
        .start();
    let mut secure = Secure::open(address(&server, 1), &pairs.client(), "a.test");
    let mut third = Client::open(address(&server, 1), &pairs.client(), "a.test");
    let mut clear = Connection::open(address(&server, 0));
    let origin = ("origin", "https://a.test");
    let allowed = "access-control-allow-origin: https://a.test";
    for round in 0..8 {
        let request = "GET /few/a.txt HTTP/1.1\r\nHost: a.test\r\nOrigin: https://a.test\r\n\r\n";
        let text = secure.exchange(request).expect("a response").to_ascii_lowercase();
        assert!(
            text.starts_with("http/1.1 200") && text.contains(allowed),
            "{text}"
        );
        let got = third.get("/few/a.txt", &[origin]);
        let allowed = got.field("access-control-allow-origin");
        assert_eq!((got.status, allowed), (200, Some("https://a.test")), "{got:?}");
        // The same bytes, in cleartext.
        clear.send(request);
        let got = clear.receive("GET");
        let status = if round < 5 { 200 } else { 429 };
        let allowed = got.field("Access-Control-Allow-Origin");
        assert_eq!((got.status, allowed), (status, None), "{round}: {got:?}");
        // Clients of HTTP/1.1 and HTTP/3 share a rate.
        let request = "GET /bots/a.txt HTTP/1.1\r\nHost: a.test\r\nUser-Agent: bot\r\n\r\n";
        let status = if round < 2 { 200 } else { 429 };
        let text = secure.exchange(request).expect("a response");
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{round}: {text}");
        let got = third.get("/bots/a.txt", &[("user-agent", "bot")]);
        assert_eq!(got.status, status, "{round}: {got:?}");
        assert_eq!(third.get("/bots/a.txt", &[]).status, 200);
        clear.send(request);
        assert_eq!(clear.receive("GET").status, 200, "{round}");
    }
    // The answer to a preflight request depends on the scheme, too.
    let preflight = [origin, ("access-control-request-method", "GET")];
    let asked = [&[(":method", "OPTIONS")], &preflight[..]].concat();
    let got = third.get("/few/a.txt", &asked);
    let methods = got.field("access-control-allow-methods");
    assert_eq!((got.status, methods), (204, Some("GET, HEAD")), "{got:?}");
    let got = clear.request("OPTIONS", "/bots/a.txt", &preflight);
    assert_eq!(got.field("Access-Control-Allow-Methods"), None, "{got:?}");
}

#[test]
fn an_explanation_names_the_condition_that_decides() {
    let tree = tree();
    let config = tree.write(
        "weir.toml",
        "root = 'site'\n\
         [[redirect]]\nfrom = '/a.txt'\nto = '/b'\nif = ['cookie beta', 'not query plain']\n\
         [[header-rule]]\npath = '*.txt'\nif = 'scheme https'\nheader = ['X-A: 1']\n\
         [[access]]\npath = '/docs/*'\nif = 'header X-Key=k'\nallow = 'all'\n[[access]]\npath = '/docs/*'\ndeny = 'all'\n\
         [[proxy]]\npath = '/api/*'\nif = 'method POST'\nupstreams = ['http://127.0.0.1:1']\n\
         [[limit]]\npath = '/api/*'\nif = 'header User-Agent~*bot*'\nrate = '10/m'\n\
         [[cors]]\npath = '/api/*'\nif = 'scheme https'\norigins = ['https://a.test']\n",
    );
    for (request, field, code, words) in [
        (
            "GET /a.txt",
            "",
            0,
            "redirect rule 1 for `/a.txt` does not apply: `cookie beta` does not hold",
        ),
        (
            "GET /a.txt",
            "Cookie: beta=1",
            0,
            "redirect rule 1 for `/a.txt` applies: `cookie beta, not query plain` holds",
        ),
        (
            "GET /a.txt?plain",
            "Cookie: beta=1",
            0,
            "`not query plain` does not hold",
        ),
        (
            "GET https://a.test/a.txt",
            "",
            0,
            "header-rule rule 1 for `*.txt` applies: `scheme https` holds",
        ),
        (
            "GET /docs/",
            "X-Key: k",
            0,
            "access rule 1 for `/docs/*` applies: `header X-Key=k` holds",
        ),
        (
            "GET /docs/",
            "X-Key: l",
            1,
            "access rule 1 for `/docs/*` does not apply",
        ),
        (
            "GET /api/x",
            "",
            1,
            "proxy rule 1 for `/api/*` does not apply: `method POST` does not hold",
        ),
        (
            "POST /api/x",
            "",
            0,
            "answer         from proxy, rule 1 for `/api/*`",
        ),
        (
            "POST /api/x",
            "",
            0,
            "limit rule 1 for `/api/*` does not apply: `header User-Agent~*bot*` does not hold",
        ),
        (
            "POST /api/x",
            "User-Agent: bot",
            0,
            "limit          rule 1 for `/api/*`: each client 10/m, 1 at once",
        ),
        (
            "POST /api/x",
            "",
            0,
            "cors rule 1 for `/api/*` does not apply: `scheme https` does not hold",
        ),
        (
            "POST https://a.test/api/x",
            "",
            0,
            "cors           rule 1 for `/api/*`: pages of https://a.test",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .args(["serve", "--config"])
            .arg(&config)
            .args(["--explain", request]);
        if !field.is_empty() {
            command.args(["--explain-field", field]);
        }
        let output = command.output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(words), "{request} {field}: {text}");
        assert_eq!(output.status.code(), Some(code), "{request} {field}: {text}");
    }
}

on_strategy!(
    loops, LOOPS: redirects_have_conditions, an_access_rule_with_a_condition_opens_only_what_a_rule_opens,
    header_rules_have_conditions, other_files_are_tried_under_conditions,
    the_cache_of_the_proxy_keeps_answers_of_upstreams_apart, converted_conditions_are_those_of_the_other_server,
    limits_count_requests_that_meet_their_conditions, rules_for_other_origins_have_conditions
);
on_strategy!(
    one_loop_uring, ONE_LOOP_URING: redirects_have_conditions,
    an_access_rule_with_a_condition_opens_only_what_a_rule_opens, header_rules_have_conditions,
    other_files_are_tried_under_conditions, the_cache_of_the_proxy_keeps_answers_of_upstreams_apart,
    limits_count_requests_that_meet_their_conditions, rules_for_other_origins_have_conditions
);
