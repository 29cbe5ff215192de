//! The content of responses.

use super::rig::{DATE, End, MODIFIED, Rig, answers, ask, exchange, file, get, one};
use crate::config::{Config, FieldLine, HttpsRedirect};

#[test]
fn a_file() {
    let answer = get("/index.html", "");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body, file("/index.html"));
    assert_eq!(answer.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(answer.field("date"), Some(DATE));
    assert_eq!(
        answer.field("last-modified"),
        Some("Sun, 06 Nov 1994 08:49:37 GMT")
    );
    assert!(
        answer
            .field("etag")
            .is_some_and(|e| e.starts_with('"') && e.ends_with('"'))
    );
    assert_eq!(answer.field("accept-ranges"), Some("bytes"));
    assert_eq!(answer.field("connection"), None, "1.1 takes it for granted");
}

#[test]
fn bodies_around_the_copy_limit_arrive_whole() {
    for path in ["/small.png", "/page.png", "/big.png", "/empty.bin"] {
        let answer = get(path, "");
        assert_eq!(
            (answer.status, answer.body.as_slice()),
            (200, file(path)),
            "{path}"
        );
    }
}

#[test]
fn head_is_get_without_content() {
    for path in [
        "/index.html",
        "/big.png",
        "/text.txt",
        "/nothing",
        "/dir",
        "/empty.bin",
    ] {
        let ask = |method: &str| one(|_| {}, &format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (get, head) = (ask("GET"), ask("HEAD"));
        assert_eq!(get.head, head.head, "{path}");
        assert!(head.body.is_empty());
        assert_eq!(
            get.field("content-length"),
            Some(get.body.len().to_string().as_str())
        );
    }
}

#[test]
fn methods() {
    for (method, status) in [
        ("POST", 405),
        ("PUT", 405),
        ("DELETE", 405),
        ("PATCH", 405),
        ("TRACE", 405),
        ("BREW", 501),
        ("get", 501),
    ] {
        let answer = one(|_| {}, &format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(answer.status, status, "{method}");
        let allow = (status == 405).then_some("GET, HEAD, OPTIONS");
        assert_eq!(answer.field("allow"), allow, "{method}");
        assert_eq!(
            answer.field("connection"),
            None,
            "the framing was clear: {method}"
        );
    }
    for target in ["*", "/", "/nothing"] {
        let answer = one(|_| {}, &format!("OPTIONS {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(
            (answer.status, answer.field("allow")),
            (204, Some("GET, HEAD, OPTIONS"))
        );
        assert_eq!(answer.field("content-length"), None, "RFC 9110 section 8.6");
    }
    let (text, end) = ask("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 405 "), "{text}");
    assert_eq!(end, End::HalfClosed, "bytes after it were meant for a tunnel");
}

#[test]
fn targets() {
    for (target, status) in [
        ("/index.html?x=1&y=/../", 200),
        ("http://a/index.html", 200),
        ("HTTP://a:80/index.html?q", 200),
        ("http://a", 200),
        ("/%69ndex.html", 200),
        ("/", 200),
        ("/dir/", 200),
        ("/nothing", 404),
        ("/../../etc/passwd", 404),
        ("/%2e%2e/%2e%2e/etc/passwd", 404),
    ] {
        let answer = one(|_| {}, &format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(answer.status, status, "{target}");
    }
    for target in ["/%zz", "/a%00b", "index.html", "*", "ftp://a/"] {
        let answer = one(|_| {}, &format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(answer.status, 400, "{target}");
    }
}

#[test]
fn a_directory_without_its_slash() {
    for (target, location) in [
        ("/dir", "/dir/"),
        ("/dir?a=b&c=//evil", "/dir/?a=b&c=//evil"),
        ("http://a/dir?q", "/dir/?q"),
    ] {
        let answer = one(|_| {}, &format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(
            (answer.status, answer.field("location")),
            (301, Some(location)),
            "{target}"
        );
    }
}

#[test]
fn no_redirect_leads_to_another_host() {
    for target in [
        "//dir",
        "///dir",
        "/./dir",
        "//evil.example/..//dir",
        "/\\dir",
        "/%2fdir",
        "//dir?//e",
    ] {
        let answer = one(|_| {}, &format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        if let Some(location) = answer.field("location") {
            assert!(
                location.starts_with('/') && !location[1..].starts_with(['/', '\\']),
                "{target} → {location}"
            );
        }
    }
}

#[test]
fn the_built_in_page_says_what_is_wrong() {
    let answer = get("/nothing", "");
    let text = String::from_utf8(answer.body.clone()).unwrap();
    assert!(text.contains("<h1>404 Not Found</h1>"), "{text}");
    assert_eq!(answer.field("content-type"), Some("text/html; charset=utf-8"));
}

#[test]
fn pages_of_the_site_for_errors() {
    let configure = |c: &mut Config| {
        c.error_pages.insert("404", "/errors/404.html").unwrap();
        c.error_pages.insert("4xx", "/errors/any.html").unwrap();
        c.error_pages.insert("5xx", "/not/there.html").unwrap();
    };
    let ask = |line: &str| one(configure, &format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let not_found = ask("GET /nothing");
    assert_eq!(
        (not_found.status, not_found.body.as_slice()),
        (404, file("/errors/404.html"))
    );
    assert_eq!(not_found.field("etag"), None, "an error has no validators");
    let head = ask("HEAD /nothing");
    assert_eq!(head.head, not_found.head);
    let not_allowed = ask("POST /");
    assert_eq!(
        (not_allowed.status, not_allowed.body.as_slice()),
        (405, file("/errors/any.html"))
    );
    assert_eq!(not_allowed.field("allow"), Some("GET, HEAD, OPTIONS"));
    let unknown = ask("BREW /");
    assert!(
        unknown.status == 501 && unknown.body.starts_with(b"<!DOCTYPE"),
        "falls back to the built-in page"
    );
    let (text, end) = exchange(configure, b"GET / HTTP/1.1\r\nbad header\r\n\r\n");
    assert!(
        text.starts_with("HTTP/1.1 400 ") && text.ends_with("<p>Ours: an error."),
        "{text}"
    );
    assert_eq!(end, End::HalfClosed);
}

#[test]
fn a_single_page_application() {
    let configure = |c: &mut Config| c.spa_fallback = Some("/app.html".to_owned());
    let get = |path: &str, accept: &str| {
        one(
            configure,
            &format!("GET {path} HTTP/1.1\r\nHost: a\r\n{accept}\r\n"),
        )
    };
    for (path, accept, status) in [
        (
            "/users/7",
            "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n",
            200,
        ),
        ("/users/7", "", 200),
        ("/users/7", "Accept: */*\r\n", 200),
        ("/users/7", "Accept: application/json, text/plain, */*\r\n", 404),
        ("/users/7", "Accept: image/png\r\n", 404),
        ("/users/7", "Accept: text/html;q=0\r\n", 404),
        ("/users/7", "Accept: */*\r\nSec-Fetch-Mode: cors\r\n", 404),
        (
            "/users/7",
            "Accept: text/html\r\nSec-Fetch-Mode: navigate\r\n",
            200,
        ),
        ("/missing.js", "Accept: text/html\r\n", 404),
        ("/v1.2/users", "Accept: text/html\r\n", 200),
        ("/index.html", "Accept: image/png\r\n", 200),
    ] {
        let answer = get(path, accept);
        assert_eq!(answer.status, status, "{path} {accept}");
        if path.ends_with('7') || path.ends_with("users") {
            assert_eq!(answer.body == file("/app.html"), status == 200);
            assert!(
                answer.head.contains("\r\nVary: Accept, Sec-Fetch-Mode\r\n"),
                "{}",
                answer.head
            );
        }
    }
    let first = get("/users/7", "");
    let etag = first.field("etag").unwrap();
    assert_eq!(get("/users/8", &format!("If-None-Match: {etag}\r\n")).status, 304);
}

/// Some clients read only the first line of a name, so one line holds all values.
#[test]
fn one_line_names_all_that_an_application_varies_by() {
    let configure = |c: &mut Config| c.spa_fallback = Some("/text.txt".to_owned());
    let ask = |method: &str, lines: &str| {
        let head = format!("{method} /users/7 HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let answer = one(configure, &head);
        let lines = answer.head.lines().filter(|line| line.starts_with("Vary:"));
        (answer.status, lines.map(str::to_owned).collect::<Vec<_>>())
    };
    let vary = vec!["Vary: Accept-Encoding, Accept, Sec-Fetch-Mode".to_owned()];
    for (lines, status) in [
        ("Sec-Fetch-Mode: navigate\r\n", 200),
        ("Accept-Encoding: gzip\r\n", 200),
        ("If-None-Match: *\r\n", 304),
        ("Range: bytes=0-1\r\n", 206),
        ("Range: bytes=0-1,5-6\r\n", 206),
    ] {
        assert_eq!(ask("GET", lines), (status, vary.clone()), "{lines}");
    }
    assert_eq!(ask("HEAD", ""), (200, vary.clone()));
    assert_eq!(
        ask("GET", "Accept-Encoding: *;q=0\r\n"),
        (406, vary),
        "an error that depends on the same field"
    );
    assert_eq!(
        ask("GET", "Sec-Fetch-Mode: cors\r\n"),
        (404, vec!["Vary: Accept, Sec-Fetch-Mode".to_owned()])
    );
}

#[test]
fn conditions_in_the_order_of_the_rfc() {
    let etag = get("/digits.bin", "").field("etag").unwrap().to_owned();
    let (same, later, earlier) = (
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:38 GMT",
        "Sun, 06 Nov 1994 08:49:36 GMT",
    );
    assert_eq!(MODIFIED.secs, 784_111_777);
    for (lines, status) in [
        (format!("If-None-Match: {etag}\r\n"), 304),
        (format!("If-None-Match: W/{etag}\r\n"), 304),
        (format!("If-None-Match: \"x\", {etag}\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        ("If-None-Match: \"x\"\r\n".to_owned(), 200),
        (format!("If-Modified-Since: {same}\r\n"), 304),
        (format!("If-Modified-Since: {later}\r\n"), 304),
        (format!("If-Modified-Since: {earlier}\r\n"), 200),
        ("If-Modified-Since: yesterday\r\n".to_owned(), 200),
        (
            format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {later}\r\n"),
            200,
        ),
        (format!("If-Match: {etag}\r\n"), 200),
        ("If-Match: \"x\"\r\n".to_owned(), 412),
        (format!("If-Match: W/{etag}\r\n"), 412),
        (format!("If-Unmodified-Since: {earlier}\r\n"), 412),
        (format!("If-Unmodified-Since: {same}\r\n"), 200),
        (
            format!("If-Match: {etag}\r\nIf-Unmodified-Since: {earlier}\r\n"),
            200,
        ),
        (format!("If-Match: \"x\"\r\nIf-None-Match: {etag}\r\n"), 412),
    ] {
        let answer = get("/digits.bin", &lines);
        assert_eq!(answer.status, status, "{lines}");
        if status == 304 {
            assert_eq!(answer.field("etag"), Some(etag.as_str()));
            assert!(answer.field("date").is_some() && answer.field("content-type").is_none());
            assert!(answer.field("content-length").is_none());
        }
    }
}

#[test]
fn ranges() {
    let len = file("/digits.bin").len();
    for (range, status, content_range, body) in [
        ("bytes=0-0", 206, Some("bytes 0-0/10"), "0"),
        ("bytes=2-4", 206, Some("bytes 2-4/10"), "234"),
        ("bytes=7-", 206, Some("bytes 7-9/10"), "789"),
        ("bytes=-3", 206, Some("bytes 7-9/10"), "789"),
        ("bytes=5-999", 206, Some("bytes 5-9/10"), "56789"),
        ("bytes=-999", 206, Some("bytes 0-9/10"), "0123456789"),
        ("bytes=4-6,0-4", 206, Some("bytes 0-6/10"), "0123456"),
        ("items=0-1", 200, None, "0123456789"),
        ("bytes=4-2", 200, None, "0123456789"),
        ("bytes=x", 200, None, "0123456789"),
    ] {
        let answer = get("/digits.bin", &format!("Range: {range}\r\n"));
        assert_eq!(
            (answer.status, answer.field("content-range")),
            (status, content_range),
            "{range}"
        );
        assert_eq!(answer.body, body.as_bytes(), "{range}");
        assert!(answer.field("etag").is_some());
    }
    for range in ["bytes=10-", "bytes=99-100", "bytes=-0"] {
        let answer = get("/digits.bin", &format!("Range: {range}\r\n"));
        assert_eq!(
            (answer.status, answer.field("content-range")),
            (416, Some("bytes */10")),
            "{range}"
        );
    }
    assert_eq!(len, 10);
    let head = one(
        |_| {},
        "HEAD /digits.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n",
    );
    assert_eq!(
        (head.status, head.field("content-length")),
        (200, Some("10")),
        "Range is for GET"
    );
    let empty = get("/empty.bin", "Range: bytes=0-\r\n");
    assert_eq!(
        (empty.status, empty.field("content-range")),
        (416, Some("bytes */0"))
    );
}

#[test]
fn several_ranges_in_one_answer() {
    for (path, range) in [
        ("/digits.bin", "bytes=0-1, 4-5, -1"),
        ("/big.png", "bytes=0-9999,20000-49999,-9000"),
    ] {
        let mut rig = Rig::new();
        rig.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nRange: {range}\r\n\r\nGET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        let all = answers(&rig.out, |_| false);
        assert_eq!(all.len(), 2, "the next request is answered after it");
        let kind = all[0].field("content-type").unwrap();
        let boundary = kind.strip_prefix("multipart/byteranges; boundary=").expect(kind);
        let content = file(path);
        let ranges: &[(usize, usize)] = match path {
            "/digits.bin" => &[(0, 1), (4, 5), (9, 9)],
            _ => &[(0, 9_999), (20_000, 49_999), (91_000, 99_999)],
        };
        let mut want: Vec<u8> = Vec::new();
        let media = get(path, "").field("content-type").unwrap().to_owned();
        for &(first, last) in ranges {
            let head = format!(
                "\r\n--{boundary}\r\nContent-Type: {media}\r\nContent-Range: bytes {first}-{last}/{}\r\n\r\n",
                content.len()
            );
            want.extend(head.as_bytes());
            want.extend(&content[first..=last]);
        }
        want.extend(format!("\r\n--{boundary}--\r\n").as_bytes());
        assert_eq!(all[0].status, 206);
        assert!(all[0].body == want, "{path}");
        assert_eq!(all[0].field("content-range"), None);
    }
    let many = (0..40)
        .map(|i| format!("{}-{}", i * 100, i * 100))
        .collect::<Vec<_>>()
        .join(",");
    let answer = get("/big.png", &format!("Range: bytes={many}\r\n"));
    assert_eq!(answer.status, 200, "more ranges than the limit: the whole file");
}

#[test]
fn if_range_guards_the_range() {
    let etag = get("/digits.bin", "").field("etag").unwrap().to_owned();
    for (line, status) in [
        (etag.clone(), 206),
        ("\"x\"".to_owned(), 200),
        (format!("W/{etag}"), 200),
        ("Sun, 06 Nov 1994 08:49:37 GMT".to_owned(), 206),
        ("Sun, 06 Nov 1994 08:49:38 GMT".to_owned(), 200),
    ] {
        let answer = get(
            "/digits.bin",
            &format!("Range: bytes=0-1\r\nIf-Range: {line}\r\n"),
        );
        assert_eq!(answer.status, status, "{line}");
    }
}

#[test]
fn codings_are_negotiated_and_have_their_own_tags() {
    let mut etags = Vec::new();
    for (accept, coding) in [
        ("", None),
        ("Accept-Encoding: identity\r\n", None),
        ("Accept-Encoding: gzip\r\n", Some("gzip")),
        ("Accept-Encoding: gzip, deflate, br, zstd\r\n", Some("br")),
        ("Accept-Encoding: br;q=0.5, gzip;q=0.8\r\n", Some("gzip")),
        ("Accept-Encoding: zstd\r\n", Some("zstd")),
        ("Accept-Encoding: gzip;q=0.2, identity;q=0.5\r\n", None),
        ("Accept-Encoding: unknown\r\n", None),
    ] {
        let answer = get("/text.txt", accept);
        assert_eq!(
            (answer.status, answer.field("content-encoding")),
            (200, coding),
            "{accept}"
        );
        assert!(
            answer
                .field("vary")
                .is_some_and(|v| v.eq_ignore_ascii_case("accept-encoding")),
            "{accept}"
        );
        assert_eq!(answer.body.len() < file("/text.txt").len(), coding.is_some());
        etags.push((coding, answer.field("etag").unwrap().to_owned()));
    }
    etags.sort();
    etags.dedup();
    assert_eq!(etags.len(), 4, "one tag per coding: {etags:?}");
    let refused = get("/small.png", "Accept-Encoding: gzip, identity;q=0\r\n");
    assert_eq!(refused.status, 406);
    let refused = get("/small.png", "Accept-Encoding: *;q=0\r\n");
    assert_eq!(refused.status, 406);
}

#[test]
fn a_range_is_of_the_coded_representation() {
    let whole = get("/text.txt", "Accept-Encoding: gzip\r\n");
    let part = get("/text.txt", "Accept-Encoding: gzip\r\nRange: bytes=2-5\r\n");
    assert_eq!((part.status, part.field("content-encoding")), (206, Some("gzip")));
    assert_eq!(part.body, &whole.body[2..6]);
    assert_eq!(part.field("etag"), whole.field("etag"));
    let several = get("/text.txt", "Accept-Encoding: gzip\r\nRange: bytes=0-1,4-5\r\n");
    assert_eq!(
        (several.status, &several.body),
        (200, &whole.body),
        "a part cannot state its coding"
    );
}

#[test]
fn configured_field_lines() {
    let line: FieldLine = "Cache-Control: max-age=60".parse().unwrap();
    let configure = |c: &mut Config| c.header = vec![line.clone()];
    for lines in ["", "Range: bytes=0-1\r\n", "If-None-Match: *\r\n"] {
        let answer = one(
            configure,
            &format!("GET /digits.bin HTTP/1.1\r\nHost: a\r\n{lines}\r\n"),
        );
        assert_eq!(answer.field("cache-control"), Some("max-age=60"), "{lines}");
    }
}

#[test]
fn listings_in_html_and_json() {
    let configure = |c: &mut Config| c.listing = true;
    let get = |accept: &str| {
        one(
            configure,
            &format!("GET /bare/ HTTP/1.1\r\nHost: a\r\n{accept}\r\n"),
        )
    };
    for (accept, kind) in [
        ("", "text/html"),
        ("Accept: text/html,*/*;q=0.1\r\n", "text/html"),
        ("Accept: application/json\r\n", "application/json"),
        ("Accept: application/json, */*\r\n", "application/json"),
        (
            "Accept: text/html;q=0.2, application/json;q=0.9\r\n",
            "application/json",
        ),
    ] {
        let answer = get(accept);
        assert_eq!(answer.status, 200);
        assert!(
            answer.field("content-type").is_some_and(|t| t.starts_with(kind)),
            "{accept}"
        );
        assert!(String::from_utf8_lossy(&answer.body).contains("file.txt"));
        assert!(
            answer
                .field("vary")
                .is_some_and(|v| v.to_ascii_lowercase().contains("accept"))
        );
    }
    let off = one(|_| {}, "GET /bare/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(off.status, 403);
}

#[test]
fn http_0_9_gets_content_alone() {
    let ask = |input: &str| exchange(|config| config.http09 = true, input.as_bytes());
    for (input, want) in [("GET /digits.bin\r\n", "0123456789"), ("GET /empty.bin\r\n", "")] {
        let (text, end) = ask(input);
        assert_eq!(text, want);
        assert_ne!(end, End::Open);
    }
    let (text, _) = ask("GET /nothing\r\n");
    assert!(text.starts_with("<!DOCTYPE html>"), "{text}");
}

#[test]
fn cleartext_is_redirected_to_https() {
    let to = |port: u16, request: &str| {
        let answer = one(|c| c.https_redirect = HttpsRedirect::Port(port), request);
        (answer.status, answer.field("location").map(str::to_owned))
    };
    let moved = |location: &str| (308, Some(location.to_owned()));
    for (host, wanted) in [
        ("a.test", "https://a.test/x?y"),
        ("a.test:80", "https://a.test/x?y"),
        ("[2001:db8::1]", "https://[2001:db8::1]/x?y"),
        ("[2001:db8::1]:80", "https://[2001:db8::1]/x?y"),
    ] {
        let request = format!("POST /x?y HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(to(443, &request), moved(wanted), "{host}");
    }
    assert_eq!(
        to(8443, "GET http://a.test/x HTTP/1.1\r\nHost: b.test\r\n\r\n"),
        moved("https://a.test:8443/x")
    );
    // Nothing says where to.
    assert_eq!(to(443, "GET /x HTTP/1.0\r\n\r\n"), (400, None));
    assert_eq!(to(443, "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n"), (400, None));
}

#[test]
fn limits_and_rules_for_other_origins_know_the_scheme_that_a_trusted_peer_names() {
    let rules = |text: &str| Config::from_toml(text, "w.toml").unwrap();
    let ask = |rig: &mut Rig, lines: &str| {
        rig.out.clear();
        let head = format!("GET /small.png HTTP/1.1\r\nHost: a\r\nOrigin: https://a.test\r\n{lines}\r\n");
        rig.send(head.as_bytes());
        let answer = answers(&rig.out, |_| false).pop().unwrap();
        let allowed = answer.field("access-control-allow-origin").map(str::to_owned);
        (answer.status, allowed)
    };
    let secure = "X-Forwarded-Proto: https\r\n";
    let (none, allowed) = (None, Some("*".to_owned()));
    // Each alone: one must not need the other to know the scheme.
    let limit = rules("trusted = ['192.0.2.0/24']\n[[limit]]\nrate = '1/h'\nif = 'scheme https'\n");
    let cors = rules("trusted = ['192.0.2.0/24']\n[[cors]]\norigins = ['*']\nif = 'scheme https'\n");
    let mut limited = Rig::with(|config| *config = limit.clone());
    let mut permitted = Rig::with(|config| *config = cors.clone());
    for round in 0..4 {
        assert_eq!(ask(&mut limited, ""), (200, none.clone()));
        let status = if round == 0 { 200 } else { 429 };
        assert_eq!(ask(&mut limited, secure), (status, none.clone()), "{round}");
        assert_eq!(ask(&mut permitted, ""), (200, none.clone()));
        assert_eq!(ask(&mut permitted, secure), (200, allowed.clone()));
    }
    // Nobody else may name one.
    let mut limited = Rig::with(|config| config.limit = limit.limit.clone());
    let mut permitted = Rig::with(|config| config.cors = cors.cors.clone());
    for _ in 0..4 {
        assert_eq!(ask(&mut limited, secure), (200, none.clone()));
        assert_eq!(ask(&mut permitted, secure), (200, none.clone()));
    }
}
