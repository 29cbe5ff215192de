//! Rules of RFC 9111 over heads as text, one row each, and properties over arbitrary heads.

use crate::cache_status::{CacheStatus, Forwarded};
use crate::directives::{RequestDirectives, ResponseDirectives};
use crate::freshness::{Age, http_date};
use crate::invalidation::{is_due, resolve, targets};
use crate::partial::{Part, range_of};
use crate::reuse::{Allowances, Cause, Reuse, decide, stands_in};
use crate::stored::{Stored, Terms, lines};
use crate::storing::{self, Candidate, Refusal};
use crate::{validation, variant};
use http_semantics::field::Fields;
use http_semantics::method::Method;
use proptest::prelude::*;
use units::UnixTime;

/// Sat, 01 Jan 2022 00:00:00 GMT.
const START: i64 = 1_640_995_200;

fn at(seconds: i64) -> UnixTime {
    UnixTime::from_secs(START + seconds)
}

/// Field lines, one per line of the text.
fn text(fields: &str) -> Vec<u8> {
    fields
        .lines()
        .flat_map(|line| [line.as_bytes(), b"\r\n"].concat())
        .collect()
}

fn with<T>(fields: &str, then: impl FnOnce(&Fields<'_, '_>) -> T) -> T {
    let text = text(fields);
    let lines = lines(&text);
    then(&Fields::new(&lines))
}

const TERMS: Terms<'static> = Terms {
    asked: UnixTime::from_secs(START),
    received: UnixTime::from_secs(START),
    targets: &["cdn-cache-control"],
    negative: 0,
};

fn stored(fields: &str) -> Stored {
    with(fields, |fields| Stored::of(200, fields, &TERMS))
}

#[test]
fn dates_have_three_formats_and_letters_any_case() {
    let of = |text: &str| http_date(text.as_bytes());
    for (text, seconds) in [
        ("Sat, 01 Jan 2022 00:00:00 GMT", Some(START)),
        ("SAT, 01 JAN 2022 00:00:00 gMT", Some(START)),
        ("Saturday, 01-Jan-22 00:00:00 GMT", Some(START)),
        ("Sat Jan  1 00:00:00 2022", Some(START)),
        ("Sat Jan 01 00:00:00 2022", Some(START)),
        ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
        ("Tue, 29 Feb 2000 12:34:56 GMT", Some(951_827_696)),
        ("Sun, 21 Nov 2286 04:46:39 GMT", Some(10_000_039_599)),
        ("Tue, 29 Feb 2022 12:34:56 GMT", None),
        ("Sat, 01 Jan 2022 00:00:00 UTC", None),
        ("Sat, 01 Jan 22 00:00:00 GMT", None),
        ("Sat 01 Jan 2022 00:00:00 GMT", None),
        ("Sat,  01 Jan 2022 00:00:00 GMT", None),
        ("Sat, 01-Jan-2022 00:00:00 GMT", None),
        ("Sat, 01 Jan 2022 00.00.00 GMT", None),
        ("Sat, 01 Jan 2022 0:00:00 GMT", None),
        ("Sat, 01 Jan 2022 24:00:00 GMT", None),
        ("Xat, 01 Jan 2022 00:00:00 GMT", None),
        ("0", None),
        ("", None),
    ] {
        assert_eq!(of(text), seconds, "{text}");
    }
}

#[test]
fn directives_are_read() {
    let of = |fields: &str| {
        with(fields, |fields| {
            ResponseDirectives::of(fields, &["cdn-cache-control"])
        })
    };
    let check = |fields: &str, expected: ResponseDirectives| assert_eq!(of(fields), expected, "{fields}");
    let none = ResponseDirectives::default();
    let age = |seconds| ResponseDirectives {
        max_age: Some(seconds),
        ..none
    };
    check("Cache-Control: max-age=60", age(60));
    check("Cache-Control: MaX-aGe=\"60\", foo", age(60));
    check("Cache-Control: max-age=1\nCache-Control: max-age=60", age(1));
    check("Cache-Control: extension=\"max-age=60\", max-age=1", age(1));
    check(
        "Cache-Control: extension=\"a\\\", max-age=60\", max-age=1",
        age(1),
    );
    check("Cache-Control: max-age=003600", age(3600));
    check("Cache-Control: max-age=99999999999999999999999", age(1 << 31));
    // An invalid time is no time at all, and a name with a space is none.
    check("Cache-Control: max-age='60'", age(0));
    check("Cache-Control: max-age=-1", age(0));
    check("Cache-Control: max-age=60.0", age(0));
    check("Cache-Control: max-age", age(0));
    check("Cache-Control: max-age =60", none);
    check(
        "Cache-Control: nO-StOrE,, private=\"x\" ,no-cache",
        ResponseDirectives {
            no_store: true,
            private: true,
            no_cache: true,
            ..none
        },
    );
    // Targeted control stands in for both other fields, unless it is invalid or empty.
    let targeted = |seconds| ResponseDirectives {
        is_targeted: true,
        ..age(seconds)
    };
    check(
        "CDN-Cache-Control: max-age=60\nCache-Control: no-store",
        targeted(60),
    );
    check(
        "CDN-Cache-Control: max-age=60, &&&\nCache-Control: max-age=1",
        age(1),
    );
    check("CDN-Cache-Control: \nCache-Control: max-age=1", age(1));
    check(
        "CDN-Cache-Control: max-age=\"60\"\nCache-Control: no-store",
        ResponseDirectives {
            is_targeted: true,
            ..none
        },
    );

    let asked = |fields: &str| with(fields, RequestDirectives::of);
    let none = RequestDirectives::default();
    assert_eq!(
        asked("Pragma: no-cache"),
        RequestDirectives {
            no_cache: true,
            ..none
        }
    );
    assert_eq!(asked("Pragma: no-cache\nCache-Control: foo"), none);
    assert_eq!(
        asked("Cache-Control: max-stale, min-fresh=5"),
        RequestDirectives {
            max_stale: Some(u64::MAX),
            min_fresh: Some(5),
            ..none
        }
    );
}

#[test]
fn a_lifetime_is_said_or_guessed() {
    for (status, fields, seconds) in [
        (200, "Cache-Control: max-age=1, s-maxage=60", 60),
        (
            200,
            "Cache-Control: max-age=60\nExpires: Fri, 31 Dec 2021 00:00:00 GMT",
            60,
        ),
        (200, "Expires: Sat, 01 Jan 2022 00:01:00 GMT", 60),
        (
            200,
            "Date: Fri, 31 Dec 2021 23:59:00 GMT\nExpires: Sat, 01 Jan 2022 00:01:00 GMT",
            120,
        ),
        (200, "Date: nonsense\nExpires: Sat, 01 Jan 2022 00:01:00 GMT", 60),
        (200, "Expires: 0", 0),
        (
            200,
            "Expires: Sat, 01 Jan 2022 00:01:00 GMT\nExpires: Sat, 01 Jan 2022 00:01:00 GMT",
            0,
        ),
        (200, "Last-Modified: Fri, 31 Dec 2021 23:43:20 GMT", 100),
        (200, "Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT", 86_400),
        (200, "Last-Modified: Sun, 01 Jan 2023 00:00:00 GMT", 0),
        (302, "Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT", 0),
        (
            302,
            "Cache-Control: public\nLast-Modified: Wed, 01 Jan 2020 00:00:00 GMT",
            86_400,
        ),
        (
            200,
            "CDN-Cache-Control: no-cache\nExpires: Sat, 01 Jan 2022 00:01:00 GMT",
            0,
        ),
        (200, "", 0),
    ] {
        let stored = with(fields, |fields| Stored::of(status, fields, &TERMS));
        assert_eq!(stored.lifetime.seconds, seconds, "{status} {fields}");
    }
}

#[test]
fn an_age_has_three_parts() {
    let check = |fields: &str, asked: i64, received: i64, now: i64, expected: u64| {
        let age = with(fields, |fields| Age::of(fields, at(asked), at(received)));
        assert_eq!(age.now(at(now)), expected, "{fields}");
    };
    check("", 0, 0, 5, 5);
    check("Age: 30", 0, 0, 5, 35);
    check("Age: 30", -3, 0, 5, 38);
    check("Date: Fri, 31 Dec 2021 23:59:00 GMT", 0, 0, 5, 65);
    check("Date: Fri, 31 Dec 2021 23:59:00 GMT\nAge: 90", 0, 0, 5, 95);
    // A clock that is ahead, and a time that goes back.
    check("Date: Sun, 01 Jan 2023 00:00:00 GMT", 0, 0, 5, 5);
    check("", 0, 0, -5, 0);
    check("Age: 7200, 0", 0, 0, 0, 7200);
    check("Age: 0, 7200", 0, 0, 0, 0);
    check("Age: 0\nAge: 7200", 0, 0, 0, 0);
    for invalid in ["abc", "-7200", "7200.0", "7200;foo=bar"] {
        check(&format!("Age: {invalid}"), 0, 0, 0, 0);
    }
    check("Age: 99999999999999999999", 0, 0, 10, 1 << 31);
}

#[test]
fn what_a_shared_cache_stores() {
    struct Case<'a> {
        method: Method,
        request: &'a str,
        status: u16,
        response: &'a str,
        negative: u64,
    }
    let get = |status, response| Case {
        method: Method::Get,
        request: "",
        status,
        response,
        negative: 0,
    };
    let asked = |request, response| Case {
        request,
        ..get(200, response)
    };
    let by = |method, response| Case {
        method,
        ..get(200, response)
    };
    let fresh = "Cache-Control: max-age=60";
    for (case, expected) in [
        (get(200, fresh), Ok(())),
        (get(299, fresh), Ok(())),
        (get(599, fresh), Ok(())),
        (get(103, fresh), Err(Refusal::Status)),
        (get(304, fresh), Err(Refusal::Status)),
        (get(600, fresh), Err(Refusal::Status)),
        (get(200, ""), Err(Refusal::Useless)),
        (get(200, "ETag: \"a\""), Ok(())),
        (get(200, "ETag: \"a\"\nSet-Cookie: a=b"), Err(Refusal::Useless)),
        (get(200, "Set-Cookie: a=b\nCache-Control: max-age=60"), Ok(())),
        (get(302, "ETag: \"a\""), Err(Refusal::Useless)),
        (get(200, "Cache-Control: max-age=0"), Err(Refusal::Useless)),
        (
            get(200, "Cache-Control: max-age=0, stale-while-revalidate=60"),
            Ok(()),
        ),
        (
            get(200, "Cache-Control: no-cache, max-age=60"),
            Err(Refusal::Useless),
        ),
        (get(200, "Cache-Control: no-cache\nETag: \"a\""), Ok(())),
        (
            get(200, "Cache-Control: no-store, max-age=60"),
            Err(Refusal::NoStore),
        ),
        (
            get(200, "Cache-Control: no-store, must-understand, max-age=60"),
            Ok(()),
        ),
        (
            get(599, "Cache-Control: no-store, must-understand, max-age=60"),
            Err(Refusal::Status),
        ),
        (
            get(200, "Cache-Control: private, max-age=60"),
            Err(Refusal::Private),
        ),
        (
            get(200, "Cache-Control: no-store\nCDN-Cache-Control: max-age=60"),
            Ok(()),
        ),
        (get(200, "Cache-Control: max-age=60\nVary: *"), Err(Refusal::Vary)),
        (
            get(200, "Cache-Control: max-age=60\nVary: a\nVary: , *"),
            Err(Refusal::Vary),
        ),
        (get(404, ""), Err(Refusal::Useless)),
        (
            Case {
                negative: 5,
                ..get(404, "")
            },
            Ok(()),
        ),
        (
            Case {
                negative: 5,
                ..get(500, "")
            },
            Err(Refusal::Useless),
        ),
        (get(206, fresh), Err(Refusal::Status)),
        (
            get(206, "Cache-Control: max-age=60\nContent-Range: bytes 0-4/10"),
            Ok(()),
        ),
        (asked("Cache-Control: no-store", fresh), Err(Refusal::NoStore)),
        (asked("Authorization: x", fresh), Err(Refusal::Authorization)),
        (
            asked("Authorization: x", "Cache-Control: public, max-age=60"),
            Ok(()),
        ),
        (
            asked("Authorization: x", "Cache-Control: must-revalidate, max-age=60"),
            Ok(()),
        ),
        (asked("Authorization: x", "Cache-Control: s-maxage=60"), Ok(())),
        (by(Method::Head, fresh), Err(Refusal::Method)),
        (by(Method::Put, fresh), Err(Refusal::Method)),
        (by(Method::Post, "ETag: \"a\""), Err(Refusal::Method)),
        (by(Method::Post, fresh), Ok(())),
    ] {
        let asked = with(case.request, RequestDirectives::of);
        let decision = with(case.response, |fields| {
            let directives = ResponseDirectives::of(fields, TERMS.targets);
            storing::decide(&Candidate {
                method: case.method,
                asked: &asked,
                is_authorized: case.request.starts_with("Authorization"),
                status: case.status,
                fields,
                directives: &directives,
                is_located_here: true,
                received: at(0),
                negative: case.negative,
            })
        });
        assert_eq!(
            decision, expected,
            "{} {} {}",
            case.request, case.status, case.response
        );
    }
}

#[test]
fn when_a_stored_response_is_served() {
    let none = Allowances::default();
    let allowed = Allowances {
        stale_while_revalidate: 10,
        stale_if_error: 20,
    };
    let stale = Reuse::Validate(Cause::Stale);
    let asked_for = Reuse::Validate(Cause::Request);
    let meanwhile = Reuse::Stale { revalidates: true };
    for (response, request, allowances, now, expected) in [
        ("Cache-Control: max-age=60", "", none, 59, Reuse::Fresh),
        ("Cache-Control: max-age=60", "", none, 60, stale),
        (
            "Cache-Control: max-age=60",
            "Cache-Control: no-cache",
            none,
            0,
            asked_for,
        ),
        (
            "Cache-Control: max-age=60",
            "Pragma: no-cache",
            none,
            0,
            asked_for,
        ),
        (
            "Cache-Control: max-age=60",
            "Cache-Control: max-age=10",
            none,
            10,
            Reuse::Fresh,
        ),
        (
            "Cache-Control: max-age=60",
            "Cache-Control: max-age=10",
            none,
            11,
            asked_for,
        ),
        (
            "Cache-Control: max-age=60",
            "Cache-Control: min-fresh=10",
            none,
            50,
            Reuse::Fresh,
        ),
        (
            "Cache-Control: max-age=60",
            "Cache-Control: min-fresh=10",
            none,
            51,
            asked_for,
        ),
        (
            "Cache-Control: max-age=60",
            "Cache-Control: max-stale=10",
            none,
            70,
            Reuse::Stale { revalidates: false },
        ),
        (
            "Cache-Control: max-age=60",
            "Cache-Control: max-stale=10",
            none,
            71,
            stale,
        ),
        (
            "Cache-Control: max-age=60",
            "Cache-Control: max-stale",
            none,
            9_999,
            Reuse::Stale { revalidates: false },
        ),
        (
            "Cache-Control: max-age=60, must-revalidate",
            "Cache-Control: max-stale",
            none,
            70,
            stale,
        ),
        (
            "Cache-Control: s-maxage=60",
            "Cache-Control: max-stale",
            none,
            70,
            stale,
        ),
        ("Cache-Control: no-cache, max-age=60", "", none, 0, stale),
        (
            "Cache-Control: max-age=60, stale-while-revalidate=5",
            "",
            none,
            64,
            meanwhile,
        ),
        (
            "Cache-Control: max-age=60, stale-while-revalidate=5",
            "",
            none,
            65,
            stale,
        ),
        (
            "Cache-Control: max-age=60, stale-while-revalidate=5",
            "",
            allowed,
            65,
            stale,
        ),
        ("Cache-Control: max-age=60", "", allowed, 69, meanwhile),
        (
            "Cache-Control: max-age=60, proxy-revalidate",
            "",
            allowed,
            69,
            stale,
        ),
    ] {
        let asked = with(request, RequestDirectives::of);
        assert_eq!(
            decide(&stored(response), &asked, &allowances, at(now)),
            expected,
            "{response} | {request} | {now}"
        );
    }
    for (response, allowances, now, expected) in [
        ("Cache-Control: max-age=60", none, 61, false),
        ("Cache-Control: max-age=60", none, 59, true),
        ("Cache-Control: max-age=60", allowed, 79, true),
        ("Cache-Control: max-age=60", allowed, 80, false),
        ("Cache-Control: max-age=60, stale-if-error=5", allowed, 64, true),
        ("Cache-Control: max-age=60, stale-if-error=5", allowed, 65, false),
        (
            "Cache-Control: max-age=60, must-revalidate, stale-if-error=5",
            allowed,
            61,
            false,
        ),
    ] {
        assert_eq!(
            stands_in(&stored(response), &allowances, at(now)),
            expected,
            "{response} {now}"
        );
    }
}

#[test]
fn variants_are_told_apart_by_meaning() {
    let matches = |vary: &str, a: &str, b: &str| {
        let names = with(&format!("Vary: {vary}"), variant::names).unwrap();
        with(a, |a| variant::key(&names, a)) == with(b, |b| variant::key(&names, b))
    };
    for (vary, a, b, expected) in [
        ("foo", "Foo: 1", "foo: 1", true),
        ("foo", "Foo: 1", "Foo: 2", false),
        ("foo", "Foo: 1", "", false),
        ("foo", "Foo:", "", false),
        ("foo", "Foo: 1\nBar: 1", "Foo: 1\nBar: 2", true),
        ("foo, BAR", "Foo: 1\nBar: 1", "Bar: 1\nFoo: 1", true),
        ("foo, bar", "Foo: 1\nBar: 1", "Foo: 1", false),
        ("foo, bar", "Foo: 1", "Bar: 1", false),
        ("foo", "Foo: 1\nFoo: 2", "Foo: 1, 2", true),
        ("foo", "Foo: 1,2", "Foo:  1 ,  2 ", true),
        ("foo", "Foo: \"a, b\"", "Foo: \"a,b\"", false),
        ("foo", "Foo: a", "Foo: A", false),
        (
            "accept-language",
            "Accept-Language: en; q=1, de",
            "Accept-Language: EN;q=1,de",
            true,
        ),
        (
            "accept-language",
            "Accept-Language: en, de",
            "Accept-Language: de, en",
            false,
        ),
    ] {
        assert_eq!(matches(vary, a, b), expected, "{vary} | {a} | {b}");
    }
    let many: Vec<String> = (0..33).map(|n| format!("f{n}")).collect();
    let names = |count: usize| with(&format!("Vary: {}", many[..count].join(",")), variant::names);
    assert!(names(32).is_some() && names(33).is_none());
    for (accepted, language, expected) in [
        ("fr;q=0.5, de;q=1.0", "de", true),
        ("fr;q=0.5, DE", "de", true),
        ("fr, de", "de", false),
        ("de;q=0", "de", false),
        ("fr;q=x, de", "de", false),
        ("", "de", false),
    ] {
        let preferred = with(&format!("Accept-Language: {accepted}"), |fields| {
            variant::is_preferred_language(fields, language.as_bytes())
        });
        assert_eq!(preferred, expected, "{accepted}");
    }
}

#[test]
fn fields_of_one_connection_are_not_stored_and_a_304_updates_the_others() {
    let fields = "Connection: a, Close\nA: 1\nB: 1\nKeep-Alive: x\nTransfer-Encoding: chunked\nContent-Length: 3\nAge: 4\n\
                  Proxy-Authenticate: x\nContent-Type: text/plain\nETag: \"x\"\nCache-Control: max-age=1";
    let before = stored(fields);
    let show = |stored: &Stored| {
        String::from_utf8(stored.text.to_vec())
            .unwrap()
            .replace("\r\n", "\n")
    };
    assert_eq!(
        show(&before),
        "B: 1\nContent-Type: text/plain\nETag: \"x\"\nCache-Control: max-age=1\n"
    );
    let newer = "ETag: \"x\"\nB: 2\nB: 3\nC: 4\nContent-Length: 9\nContent-Type: text/html\nConnection: c2\nC2: x\n\
                 Cache-Control: max-age=60\nAge: 7";
    let terms = Terms {
        received: at(100),
        asked: at(100),
        ..TERMS
    };
    let after = with(newer, |fields| before.freshened(fields, &terms));
    assert_eq!(
        show(&after),
        "Content-Type: text/plain\nETag: \"x\"\nB: 2\nB: 3\nC: 4\nCache-Control: max-age=60\n"
    );
    assert_eq!(
        (after.lifetime.seconds, after.age.now(at(101)), after.ttl(at(101))),
        (60, 8, 52)
    );
    assert!(with("ETag: \"x\"\nContent-Length: 3", |newer| before
        .is_same_as(Some(3), newer)));
    assert!(with("ETag: \"y\"", |newer| !before.is_same_as(Some(3), newer)));
    assert!(with("Content-Length: 4", |newer| !before.is_same_as(Some(3), newer)));
    assert!(with("ETag: W/\"x\"", |newer| validation::selects(&before, newer)));
    assert!(with("ETag: \"y\"", |newer| !validation::selects(&before, newer)));
    assert_eq!(
        validation::conditions(&before),
        [("If-None-Match", b"\"x\"".to_vec())]
    );
    let dated = stored("Last-Modified: Sat, 01 Jan 2022 00:00:00 GMT");
    assert_eq!(validation::conditions(&dated)[0].0, "If-Modified-Since");
    assert!(validation::conditions(&stored("Last-Modified: x")).is_empty());
}

#[test]
fn unsafe_methods_make_targets_invalid() {
    for (method, status, expected) in [
        (Method::Post, 200, true),
        (Method::Other, 204, true),
        (Method::Delete, 302, true),
        (Method::Put, 404, false),
        (Method::Post, 500, false),
        (Method::Get, 200, false),
        (Method::Options, 200, false),
    ] {
        assert_eq!(is_due(method, status), expected, "{method:?} {status}");
    }
    for (reference, expected) in [
        ("/x?y#z", Some("/x?y")),
        ("c", Some("/a/c")),
        ("../c", Some("/c")),
        ("./", Some("/a/")),
        ("..", Some("/")),
        ("", Some("/a/b?q")),
        ("?r", Some("/a/b?r")),
        ("http://Host/x/../y", Some("/y")),
        ("//host", Some("/")),
        ("https://host?q", Some("/?q")),
        ("http://other/x", None),
        ("mailto:x", None),
    ] {
        let resolved = resolve(reference.as_bytes(), b"host", b"/a/b?q");
        let resolved = resolved.map(|target| String::from_utf8(target).unwrap());
        assert_eq!(resolved.as_deref(), expected, "{reference}");
    }
    let named = with("Location: c\nContent-Location: http://other/", |fields| {
        targets(fields, b"host", b"/a/b")
    });
    assert_eq!(named, [b"/a/c".to_vec()]);
}

#[test]
fn a_part_answers_ranges_within_it() {
    let part = |range: &str| with(&format!("Content-Range: {range}"), range_of);
    let Some(middle) = part("bytes 4-9/20") else {
        panic!("valid")
    };
    assert_eq!(
        (middle.first, middle.last, middle.length, middle.len()),
        (4, 9, 20, 6)
    );
    for range in [
        "bytes 4-9/*",
        "bytes 9-4/20",
        "bytes 4-20/20",
        "bytes */20",
        "lines 4-9/20",
        "bytes",
    ] {
        assert_eq!(part(range), None, "{range}");
    }
    let covers = |part: Part, range: &str| part.covers(range.as_bytes()).map(|part| (part.first, part.last));
    for (range, expected) in [
        ("bytes=4-9", Some((4, 9))),
        ("Bytes=5-6", Some((5, 6))),
        ("bytes=3-6", None),
        ("bytes=5-10", None),
        ("bytes=5-", None),
        ("bytes=-5", None),
        ("bytes=6-5", None),
        ("bytes=4-5,6-7", None),
        ("lines=4-5", None),
        ("bytes", None),
    ] {
        assert_eq!(covers(middle, range), expected, "{range}");
    }
    let end = part("bytes 10-19/20").unwrap();
    assert_eq!(covers(end, "bytes=-5"), Some((15, 19)));
    assert_eq!(covers(end, "bytes=12-"), Some((12, 19)));
    assert_eq!(covers(end, "bytes=12-99"), Some((12, 19)));
    assert_eq!(covers(end, "bytes=-0"), None);
}

#[test]
fn cache_status_says_what_was_done() {
    let value = |status: CacheStatus| String::from_utf8(status.value()).unwrap();
    let hit = CacheStatus {
        is_hit: true,
        ttl: Some(-3),
        ..CacheStatus::default()
    };
    assert_eq!(value(hit), "weir; hit; ttl=-3");
    let miss = CacheStatus {
        forwarded: Some(Forwarded::Stale),
        forwarded_status: Some(304),
        is_stored: true,
        is_collapsed: true,
        detail: Some("x"),
        ..CacheStatus::default()
    };
    assert_eq!(
        value(miss),
        "weir; fwd=stale; fwd-status=304; stored; collapsed; detail=x"
    );
}

proptest! {
    /// No head makes the crate panic, and what is decided holds together.
    #[test]
    fn any_head_is_judged(
        values in proptest::collection::vec((0_usize..12, "[ -~]{0,24}"), 0..12),
        status in 100_u16..700,
        now in -100_000_i64..100_000,
    ) {
        const NAMES: [&str; 12] = [
            "Cache-Control", "CDN-Cache-Control", "Expires", "Date", "Age", "Vary", "ETag", "Last-Modified", "Connection",
            "Content-Range", "Location", "Pragma",
        ];
        let text: Vec<u8> = values
            .iter()
            .flat_map(|(name, value)| format!("{}: {value}\r\n", NAMES[*name]).into_bytes())
            .collect();
        let lines = lines(&text);
        let fields = Fields::new(&lines);
        let stored = Stored::of(status, &fields, &TERMS);
        prop_assert!(stored.age.now(at(now)) <= 1 << 31);
        prop_assert_eq!(stored.is_fresh(at(now)), stored.ttl(at(now)) > 0);
        // What was stored once is stored the same way again.
        let again = stored.lines();
        let again = Stored::of(status, &Fields::new(&again), &TERMS);
        prop_assert_eq!(&again.text, &stored.text);
        // A 304 with the same fields changes no value.
        let freshened = stored.freshened(&Fields::new(&stored.lines()), &TERMS);
        prop_assert_eq!(freshened.text.len(), stored.text.len());
        let asked = RequestDirectives::of(&fields);
        let reuse = decide(&stored, &asked, &Allowances::default(), at(now));
        if reuse == Reuse::Fresh {
            prop_assert!(stored.is_fresh(at(now)) && !stored.directives.no_cache && !asked.no_cache);
        }
        for target in targets(&fields, b"host", b"/a") {
            prop_assert!(target.starts_with(b"/"));
        }
        let _ = range_of(&fields).map(|part| part.covers(b"bytes=0-"));
    }

    /// A directive that forbids storing is obeyed wherever it stands.
    #[test]
    fn no_store_is_never_stored(before in "[a-z]{0,8}", after in "[a-z=0-9\"]{0,8}") {
        let line = format!("Cache-Control: {before}, max-age=60, no-store, {after}");
        let directives = with(&line, |fields| ResponseDirectives::of(fields, &[]));
        prop_assert!(directives.no_store);
    }
}
