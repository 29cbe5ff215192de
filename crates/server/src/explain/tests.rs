//! Explanations of requests to sites of several configurations: source, status, steps and field lines.

use super::*;
use crate::config::Config;
use crate::site::Source;

fn server(text: &str) -> Server {
    let config = Config::from_toml(text, "w.toml").unwrap();
    let source = Source::Embedded {
        files: &[
            ("/index.html", b"<p>Home"),
            ("/digits.bin", b"0123456789"),
            ("/dir/index.html", b"<p>In a directory"),
            ("/errors/404.html", b"<p>Nothing here"),
            ("/app.html", b"<p>The application"),
        ],
        modified: UnixTime::from_secs(784_111_777),
    };
    Server::open(config, source, None, units::Seed(1)).unwrap()
}

fn explained(server: &Server, method: &str, target: &str, is_secured: bool) -> Explanation {
    let question = Question {
        method,
        host: "a.test",
        target,
        is_secured,
        peer: "192.0.2.7".parse().unwrap(),
        is_admitted: false,
        fields: &[],
    };
    server
        .explain(&question, Instant::ZERO, UnixTime::from_secs(1_000_000_000))
        .unwrap()
}

const CONFIG: &str = "spa-fallback = '/app.html'\nhealth = true\nheader = ['X-All: 1']\n\
    [error-pages]\n404 = '/errors/404.html'\n\
    [[access]]\npath = '/secret/*'\nallow = '10.0.0.0/8'\n\
    [[access]]\npath = '/dir/*'\nallow = '192.0.2.0/24'\n\
    [[proxy]]\npath = '/api/*'\nexcept = '/api/docs/*'\nupstreams = ['http://127.0.0.1:1']\n\
    [[proxy]]\npath = '/mixed/*'\nwhen = 'missing'\nupstreams = ['http://127.0.0.1:1']\n\
    [[redirect]]\nfrom = '/old/*'\nto = '/new/*'\n\
    [[respond]]\npath = '/api/up'\ntext = 'up'\n\
    [[respond]]\npath = '/old/gone'\nstatus = 410\n\
    [[respond]]\npath = '/gone'\nstatus = 404\ntext = 'gone'\n\
    [[respond]]\npath = '/api/beta'\ntext = 'beta'\nif = 'method PUT'\n\
    [[header-rule]]\npath = '*.html'\nheader = ['X-Page: 1']\n\
    [[host]]\nnames = ['*.b.test']\n";

#[test]
fn the_source_of_an_answer_is_named() {
    let server = server(CONFIG);
    for (method, target, status, source, subjects) in [
        (
            "GET",
            "/",
            Some(200),
            "the file `/index.html`",
            "host header-rule",
        ),
        ("HEAD", "/digits.bin", Some(200), "the file `/digits.bin`", "host"),
        (
            "GET",
            "/x/../%64igits.bin",
            Some(200),
            "the file `/digits.bin`",
            "host path",
        ),
        (
            "GET",
            "/dir",
            Some(301),
            "ends with a slash",
            "host access access",
        ),
        (
            "GET",
            "/dir/",
            Some(200),
            "the file `/dir/index.html`",
            "host access access header-rule",
        ),
        ("GET", "/old/a?b", Some(301), "redirect rule 1", "host redirect"),
        ("GET", "/api/x", None, "to 127.0.0.1:1", "host proxy cache"),
        (
            "POST",
            "/api/x",
            None,
            "proxy, rule 1 for `/api/*`",
            "host proxy cache",
        ),
        ("POST", "/api/up?x", Some(200), "respond rule 1", "host respond"),
        ("GET", "/old/gone", Some(301), "redirect rule 1", "host redirect"),
        // Pages for errors do not replace a text.
        ("GET", "/gone", Some(404), "respond rule 3", "host respond"),
        (
            "GET",
            "/api/beta",
            None,
            "proxy, rule 1 for `/api/*`",
            "host if proxy cache",
        ),
        ("PUT", "/api/beta", Some(200), "respond rule 4", "host if respond"),
        ("GET", "/api/docs/x.js", Some(404), "no file", "host error-pages"),
        (
            "GET",
            "/mixed/x",
            None,
            "proxy, rule 2 for `/mixed/*`",
            "host proxy cache",
        ),
        (
            "PUT",
            "/mixed/x",
            None,
            "proxy, rule 2 for `/mixed/*`",
            "host proxy cache",
        ),
        (
            "GET",
            "/secret/x",
            Some(403),
            "the access rule",
            "host access access",
        ),
        (
            "GET",
            "/view",
            Some(200),
            "`/app.html`",
            "host header-rule spa-fallback",
        ),
        ("GET", "/none.css", Some(404), "no file", "host error-pages"),
        ("DELETE", "/", Some(405), "no file", "host"),
        ("OPTIONS", "/", Some(204), "methods", "host"),
        (
            "GET",
            "/healthz",
            Some(200),
            "the server itself",
            "host live, health",
        ),
        ("GET", "/%zz", Some(400), "the access rule", "host access"),
    ] {
        let explanation = explained(&server, method, target, false);
        let found: Vec<&str> = explanation.steps.iter().map(|step| step.subject).collect();
        assert_eq!(
            (explanation.status, found.join(" ").as_str()),
            (status, subjects),
            "{method} {target}: {explanation:?}"
        );
        assert!(explanation.source.contains(source), "{explanation:?}");
    }
}

#[test]
fn the_lines_of_an_answer_are_those_that_are_sent() {
    let server = server(CONFIG);
    let explanation = explained(&server, "GET", "/", false);
    for line in ["X-All: 1", "X-Page: 1"] {
        assert!(
            explanation.fields.iter().any(|field| field == line),
            "{explanation:?}"
        );
    }
    let explanation = explained(&server, "GET", "/old/a?b", false);
    assert!(explanation.fields.contains(&"Location: /new/a?b".to_owned()));
}

#[test]
fn a_header_rule_is_named_if_its_lines_are_sent() {
    let server = server(
        "spa-fallback = '/app.html'\n\
         [[try-files]]\npath = '/t/*'\nfiles = ['/digits.bin']\n\
         [[try-files]]\npath = '/index.html'\nfiles = ['/digits.bin']\n\
         [[try-files]]\npath = '/d*'\nfiles = ['$path', '$path.bin']\n\
         [[header-rule]]\npath = '/dir*'\nheader = ['R-Dir: 1']\n\
         [[header-rule]]\npath = '/dir'\nheader = ['R-Always: 1']\nalways = true\n\
         [[header-rule]]\npath = '/t/*'\nheader = ['R-Asked: 1']\n\
         [[header-rule]]\npath = '*.html'\nheader = ['R-Page: 1']\n\
         [[header-rule]]\npath = '*.bin'\nheader = ['R-File: 1']\n\
         [[header-rule]]\npath = '/view'\nheader = ['R-View: 1']\nalways = true\n\
         [[header-rule]]\npath = '/t/*'\nheader = ['R-If: 1']\nif = 'method GET'\n\
         [[header-rule]]\npath = '/text*'\nheader = ['R-Text: 1']\n\
         [[header-rule]]\npath = '/text*'\nheader = ['R-Text-Always: 1']\nalways = true\n\
         [[header-rule]]\npath = '/text*'\nheader = ['R-Text-If: 1']\nif = 'method GET'\n\
         [[respond]]\npath = '/text'\ntext = 'a'\n\
         [[respond]]\npath = '/text-gone'\ntext = 'a'\nstatus = 410\n",
    );
    for (target, status, lines) in [
        // Not the rules for files: the redirect has no content.
        ("/dir", 301, "R-Always: 1"),
        ("/dir/", 200, "R-Dir: 1; R-Page: 1"),
        // Not the rules for the path of the request: another file is sent.
        ("/t/x", 200, "R-File: 1; R-If: 1"),
        ("/index.html", 200, "R-File: 1"),
        ("/", 200, "R-Page: 1"),
        ("/digits", 200, "R-File: 1"),
        ("/digits.bin", 200, "R-File: 1"),
        ("/view", 200, "R-Page: 1"),
        ("/none.css", 404, ""),
        // A text is sent as a file is, or as an error is.
        ("/text", 200, "R-Text: 1; R-Text-Always: 1; R-Text-If: 1"),
        ("/text-gone", 410, "R-Text-Always: 1"),
    ] {
        let found = explained(&server, "GET", target, false);
        let steps = found.steps.iter().filter(|step| step.subject == "header-rule");
        let named: Vec<&str> = steps
            .map(|step| step.text.rsplit("`: ").next().unwrap_or_default())
            .collect();
        let sent = found.fields.iter().filter(|line| line.starts_with("R-"));
        let sent: Vec<&str> = sent.map(String::as_str).collect();
        assert_eq!(found.status, Some(status), "{target}: {found:?}");
        assert_eq!(named.join("; "), lines, "{target}: {found:?}");
        assert_eq!(sent.join("; "), lines, "{target}: {found:?}");
    }
}

#[test]
fn rules_for_answers_of_every_kind_are_named_whoever_answers() {
    let server = server(
        "[[header-rule]]\npath = '/api/*'\nheader = ['R-Always: 1']\nalways = true\n\
         [[header-rule]]\nheader = ['R-File: 1']\n\
         [[header-rule]]\nheader = ['R-If: 1']\nalways = true\nif = 'method GET'\n\
         [[access]]\npath = '/api/asked/*'\nauth = 'http://127.0.0.1:1/'\n\
         [[access]]\npath = '/asked/*'\nauth = 'http://127.0.0.1:1/'\n\
         [[cors]]\npath = '/api/*'\norigins = ['https://a.test']\n\
         [[redirect]]\nfrom = '/api/*'\nto = '/'\n\
         [[redirect]]\nfrom = '/asked/old'\nto = '/'\n\
         [[proxy]]\npath = '/api/*'\nupstreams = ['http://127.0.0.1:1']\n\
         [[proxy]]\npath = '/mixed/*'\nwhen = 'missing'\nupstreams = ['http://127.0.0.1:1']\n",
    );
    for (method, target, status, source, subjects, lines) in [
        (
            "GET",
            "/api/x",
            None,
            "proxy, rule 1",
            "host cors proxy cache header-rule if header-rule",
            "R-Always: 1; R-If: 1",
        ),
        (
            "POST",
            "/api/x",
            None,
            "proxy, rule 1",
            "host cors proxy cache header-rule if",
            "R-Always: 1",
        ),
        (
            "GET",
            "/mixed/x",
            None,
            "proxy, rule 2",
            "host proxy cache if header-rule",
            "R-If: 1",
        ),
        (
            "GET",
            "/api/asked/x",
            None,
            "decides (auth)",
            "host cors access access proxy cache header-rule if header-rule",
            "R-Always: 1; R-If: 1",
        ),
        // The lines of an admitted client's file are not known.
        (
            "GET",
            "/asked/old",
            None,
            "decides (auth)",
            "host access access redirect if header-rule",
            "",
        ),
    ] {
        let found = explained(&server, method, target, false);
        let said: Vec<&str> = found.steps.iter().map(|step| step.subject).collect();
        assert_eq!(said.join(" "), subjects, "{target}: {found:?}");
        assert_eq!(found.status, status, "{target}: {found:?}");
        assert!(found.source.contains(source), "{target}: {found:?}");
        let added = found.fields.iter().filter(|line| line.starts_with("R-"));
        let added: Vec<&str> = added.map(String::as_str).collect();
        assert_eq!(added.join("; "), lines, "{target}: {found:?}");
        let varies = found.fields.iter().any(|line| line == "Vary: Origin");
        assert_eq!(varies, target.starts_with("/api/"), "{target}: {found:?}");
    }
    let preflight = ["Origin: https://a.test", "Access-Control-Request-Method: GET"];
    let preflight = preflight.map(|line| line.parse::<FieldLine>().unwrap());
    let question = Question {
        method: "OPTIONS",
        host: "a.test",
        target: "/api/x",
        is_secured: false,
        peer: "192.0.2.7".parse().unwrap(),
        is_admitted: false,
        fields: &preflight,
    };
    let wall = UnixTime::from_secs(1_000_000_000);
    let found = server.explain(&question, Instant::ZERO, wall).unwrap();
    let said: Vec<&str> = found.steps.iter().map(|step| step.subject).collect();
    assert_eq!(said, ["host", "cors", "header-rule", "if"], "{found:?}");
    assert!(found.fields.iter().any(|line| line == "R-Always: 1"), "{found:?}");
}

#[test]
fn an_admitted_client_gets_what_is_behind_the_checks() {
    let server = server(
        "https-redirect = 8443\ntrusted = '10.0.0.0/8'\ntls-cert = 'a'\ntls-key = 'a'\n\
         [[access]]\npath = '/dir/*'\nauth = 'http://127.0.0.1:1/v'\n\
         [[access]]\npath = '/digits.bin'\ncertificate = true\nallow = '192.0.2.0/24'\n\
         [[access]]\npath = '/none/*'\ncertificate = 'Ann'\nauth = 'http://127.0.0.1:1/v'\n\
         [[access]]\npath = '/any/*'\nauth = 'http://127.0.0.1:1/v'\nallow = '192.0.2.0/24'\nsatisfy = 'any'\n\
         [[access]]\npath = '/api/*'\nauth = 'http://127.0.0.1:1/v'\n\
         [[proxy]]\npath = '/api/*'\nupstreams = ['http://127.0.0.1:1']\n",
    );
    let near = "192.0.2.7";
    let far = "198.51.100.7";
    let consent = "the consent of http://127.0.0.1:1/v (auth)";
    let none =
        "a client certificate is needed, which requests in cleartext or of trusted peers do not have: 403";
    for (target, peer, status, source, text) in [
        (
            "/dir/",
            near,
            Some(200),
            "the file `/dir/index.html`",
            format!("{near} is admitted, assuming {consent}"),
        ),
        (
            "/digits.bin",
            near,
            Some(200),
            "the file `/digits.bin`",
            format!("{near} is admitted, assuming a client certificate"),
        ),
        (
            "/digits.bin",
            far,
            Some(403),
            "the access rule",
            format!("{far} is not admitted: 403"),
        ),
        (
            "/none/x",
            far,
            Some(404),
            "no file",
            format!("{far} is admitted, assuming a client certificate, {consent}"),
        ),
        // A client of a trusted proxy has none.
        (
            "/none/x",
            "10.0.0.1",
            Some(403),
            "the access rule",
            none.to_owned(),
        ),
        (
            "/any/x",
            near,
            Some(404),
            "no file",
            format!("{near} is admitted"),
        ),
        (
            "/any/x",
            far,
            Some(404),
            "no file",
            format!("{far} is admitted, assuming {consent}"),
        ),
        (
            "/api/x",
            far,
            None,
            "proxy, rule 1",
            format!("{far} is admitted, assuming {consent}"),
        ),
    ] {
        let question = Question {
            method: "GET",
            host: "a.test",
            target,
            is_secured: true,
            peer: peer.parse().unwrap(),
            is_admitted: true,
            fields: &[],
        };
        let wall = UnixTime::from_secs(1_000_000_000);
        let found = server.explain(&question, Instant::ZERO, wall).unwrap();
        assert_eq!(found.status, status, "{target} {peer}: {found:?}");
        assert!(found.source.contains(source), "{target} {peer}: {found:?}");
        let mut access = found.steps.iter().filter(|step| step.subject == "access");
        assert_eq!(access.next_back().unwrap().text, text, "{target} {peer}");
        // The redirect comes first.
        let question = Question {
            is_secured: false,
            ..question
        };
        let found = server.explain(&question, Instant::ZERO, wall).unwrap();
        assert_eq!(found.status, Some(308), "{target} {peer}: {found:?}");
    }
    let server = self::server("[[access]]\ncertificate = true\n");
    for (is_secured, status) in [(true, 200), (false, 403)] {
        let question = Question {
            method: "GET",
            host: "a.test",
            target: "/",
            is_secured,
            peer: near.parse().unwrap(),
            is_admitted: true,
            fields: &[],
        };
        let wall = UnixTime::from_secs(1_000_000_000);
        let found = server.explain(&question, Instant::ZERO, wall).unwrap();
        assert_eq!(found.status, Some(status), "{found:?}");
    }
}

#[test]
fn limits_and_permissions_for_other_origins_come_before_access_rules() {
    let server = server(
        "[[limit]]\npath = '/dir/*'\nrate = '30/m'\nif = 'method GET'\n\
         [[limit]]\npath = '/dir/*'\nconcurrent = 2\nrate = 5\nexcept = '10.0.0.0/8'\n\
         [[limit]]\nrate = 5\nexcept = '192.0.2.0/24'\n\
         [[cors]]\npath = '/dir/*'\nif = 'query api'\norigins = ['https://a.test', 'https://b.test']\n\
         [[cors]]\npath = '/dir/*'\norigins = ['https://c.test']\n\
         [[access]]\npath = '/dir/*'\ndeny = 'all'\n\
         [[proxy]]\npath = '/dir/api/*'\nupstreams = ['http://127.0.0.1:1']\n",
    );
    let preflight = ["Origin: https://a.test", "Access-Control-Request-Method: GET"];
    let preflight = preflight.map(|line| line.parse::<FieldLine>().unwrap());
    let ask = |method, target, fields| {
        let question = Question {
            method,
            host: "a.test",
            target,
            is_secured: false,
            peer: "192.0.2.7".parse().unwrap(),
            is_admitted: false,
            fields,
        };
        let wall = UnixTime::from_secs(1_000_000_000);
        server.explain(&question, Instant::ZERO, wall).unwrap()
    };
    let found = ask("GET", "/dir/api/x", &[][..]);
    let said: Vec<String> = found
        .steps
        .iter()
        .map(|step| format!("{} {}", step.subject, step.text))
        .collect();
    assert_eq!(
        said[1..8],
        [
            "if limit rule 1 for `/dir/*` applies: `method GET` holds",
            "limit rule 1 for `/dir/*`: each client 30/m, 1 at once",
            "limit rule 2 for `/dir/*`: each client 5/s, 5 at once, 2 under way",
            "limit rule 3 for `/*`: 192.0.2.7 is not limited (except)",
            "if cors rule 1 for `/dir/*` does not apply: `query api` does not hold",
            "cors rule 2 for `/dir/*`: pages of https://c.test",
            "access rule 1 for `/dir/*`",
        ],
        "{said:?}"
    );
    assert_eq!(found.status, Some(403));
    let found = ask("OPTIONS", "/dir/api/x?api", &preflight);
    assert_eq!(
        (found.status, &*found.source),
        (Some(204), "cors rule 1, for a preflight request"),
        "{found:?}"
    );
    for line in ["Access-Control-Allow-Origin: https://a.test", "Vary: Origin"] {
        assert!(found.fields.iter().any(|field| field == line), "{found:?}");
    }
    let first = "limit rule 1 for `/dir/*` does not apply: `method GET` does not hold";
    assert_eq!(found.steps[1].text, first);
}

#[test]
fn https_comes_first() {
    let server = server(
        "https-redirect = 8443\ntls-cert = 'a'\ntls-key = 'a'\n[[access]]\npath = '/dir/*'\ndeny = 'all'",
    );
    for target in ["/", "/dir/"] {
        let explanation = explained(&server, "GET", target, false);
        assert_eq!(
            (explanation.status, &*explanation.source),
            (Some(308), "the redirect to https")
        );
    }
    assert_eq!(explained(&server, "GET", "/", true).status, Some(200));
    assert_eq!(explained(&server, "GET", "/dir/", true).status, Some(403));
}

#[test]
fn a_trusted_peer_names_the_client_and_its_scheme() {
    let server = server(
        "https-redirect = 8443\ntrusted = '192.0.2.0/24'\n\
         [[access]]\npath = '/dir/*'\nallow = '203.0.113.0/24'\n\
         [[limit]]\nrate = 5\nexcept = '203.0.113.0/24'\n",
    );
    let secured = "X-Forwarded-Proto: https";
    for (peer, lines, status, client) in [
        ("192.0.2.7", &[][..], 308, None),
        (
            "192.0.2.7",
            &["X-Forwarded-For: 203.0.113.9"],
            308,
            Some("203.0.113.9 over http, through 192.0.2.7 (trusted)"),
        ),
        (
            "192.0.2.7",
            &["X-Forwarded-For: 203.0.113.9, 192.0.2.8", secured],
            200,
            Some("203.0.113.9 over https, through 192.0.2.8, 192.0.2.7 (trusted)"),
        ),
        (
            "192.0.2.7",
            &["X-Forwarded-For: 198.51.100.1", secured],
            403,
            Some("198.51.100.1 over https, through 192.0.2.7 (trusted)"),
        ),
        (
            "192.0.2.7",
            &["X-Forwarded-For: x", secured],
            403,
            Some("0.0.0.0 (unknown) over https, through 192.0.2.7 (trusted)"),
        ),
        (
            "192.0.2.7",
            &[secured],
            403,
            Some("192.0.2.7 over https, as it says itself (trusted)"),
        ),
        (
            "198.51.100.7",
            &["X-Forwarded-For: 203.0.113.9", secured],
            308,
            None,
        ),
    ] {
        let fields: Vec<FieldLine> = lines.iter().map(|line| line.parse().unwrap()).collect();
        let question = Question {
            method: "GET",
            host: "a.test",
            target: "/dir/",
            is_secured: false,
            peer: peer.parse().unwrap(),
            is_admitted: false,
            fields: &fields,
        };
        let wall = UnixTime::from_secs(1_000_000_000);
        let found = server.explain(&question, Instant::ZERO, wall).unwrap();
        let text = |subject: &str| {
            let step = found.steps.iter().find(|step| step.subject == subject);
            step.map(|step| step.text.as_str())
        };
        assert_eq!(found.status, Some(status), "{peer} {lines:?}: {found:?}");
        assert_eq!(text("client"), client, "{peer} {lines:?}");
        let is_limited = !client.is_some_and(|client| client.starts_with("203.0.113.9 "));
        let limit = text("limit").unwrap();
        assert_eq!(
            limit.contains("each client"),
            is_limited,
            "{peer} {lines:?}: {limit}"
        );
    }
}

#[test]
fn what_is_no_request_is_an_error() {
    let server = server("");
    let question = Question {
        method: "GET",
        host: "a.test",
        target: "/a b",
        is_secured: false,
        peer: "::1".parse().unwrap(),
        is_admitted: false,
        fields: &[],
    };
    let wall = UnixTime::from_secs(1_000_000_000);
    let outcome = server.explain(&question, Instant::ZERO, wall);
    assert!(outcome.is_err() || outcome.is_ok_and(|explanation| explanation.status >= Some(400)));
}
