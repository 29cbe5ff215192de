//! The store and its budget, without connections.

use super::*;
use crate::cache::Policy;
use crate::proxy::cache::exchange::Cached;
use http_semantics::field::{Fields, Line};
use http_semantics::method::Method;
use http_semantics::request::{Protocol, RequestHead};
use http_semantics::target::Target;
use units::{Bytes, Instant, Word as _};

/// A request and the upstream's response: what the client gets, from the cache or not.
pub(super) struct Rig {
    pub(super) cache: Arc<Cache>,
    pub(super) wall: i64,
}

fn fields(text: &str) -> Vec<Line<'_>> {
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some(Line {
                name,
                value: value.as_bytes(),
            })
        })
        .collect()
}

/// Looks for a stored response, and again once it was read from the disk.
pub(super) fn look_up(cached: &mut Cached) -> Step {
    let mut step = cached.look_up(Instant::ZERO);
    while step == Step::Wait {
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        let waiter = cached.waiter().expect("something to wait for");
        waiter.wake_with(move || drop(wake));
        // It ends with the sender.
        let _ = woken.recv_timeout(std::time::Duration::from_secs(60));
        step = cached.look_up(Instant::ZERO);
    }
    step
}

impl Rig {
    pub(super) fn new(config: ProxyCache) -> Rig {
        Rig {
            cache: Arc::new(Cache::new(&config, &Purges::default())),
            wall: 1_640_995_200,
        }
    }

    pub(super) fn cached(&self, method: Method, target: &str, request: &str) -> Cached {
        let lines = fields(request);
        let head = RequestHead {
            method,
            method_name: method.name().unwrap(),
            target: Target::parse(target.as_bytes(), method).unwrap(),
            target_raw: target.as_bytes(),
            protocol: Protocol::Http11,
            fields: Fields::new(&lines),
        };
        let wall = UnixTime::from_secs(self.wall);
        Cached::new(&self.cache, &head, false, false, wall, Instant::ZERO).unwrap()
    }

    /// The status and content that a client gets, and whether the upstream was asked.
    pub(super) fn get(
        &self,
        target: &str,
        request: &str,
        status: u16,
        response: &str,
        body: &[u8],
    ) -> (u16, Vec<u8>, bool) {
        let mut cached = self.cached(Method::Get, target, request);
        let step = look_up(&mut cached);
        if step == Step::Serve {
            let reply = cached.take_reply().unwrap();
            return (reply.status, reply.body.to_vec(), false);
        }
        assert_eq!(step, Step::Go);
        let lines = fields(response);
        let length = Some(body.len() as u64);
        if cached.answered(
            status,
            Protocol::Http11,
            &Fields::new(&lines),
            length,
            Instant::ZERO,
        ) {
            let reply = cached.take_reply().unwrap();
            return (reply.status, reply.body.to_vec(), true);
        }
        cached.take(body);
        cached.complete();
        (status, body.to_vec(), true)
    }
}

#[test]
fn a_cookie_of_a_validation_is_for_one_client() {
    let rig = Rig::new(ProxyCache::default());
    rig.get("/", "", 200, "ETag: \"1\"", b"x");
    let validated = |response: &str| {
        let mut cached = rig.cached(Method::Get, "/", "");
        assert_eq!(look_up(&mut cached), Step::Go);
        let lines = fields(response);
        assert!(cached.answered(304, Protocol::Http11, &Fields::new(&lines), None, Instant::ZERO));
        String::from_utf8(cached.take_reply().unwrap().text).unwrap()
    };
    assert!(validated("ETag: \"1\"\nSet-Cookie: sid=B").contains("sid=B"));
    assert!(!validated("ETag: \"1\"").contains("sid=B"));
}

#[test]
fn what_is_not_in_the_key_stores_nothing() {
    let rig = Rig::new(ProxyCache::default());
    let fresh = "Cache-Control: max-age=60";
    // Content of a request for GET.
    let lines = fields("");
    let head = RequestHead {
        method: Method::Get,
        method_name: "GET",
        target: Target::parse(b"/", Method::Get).unwrap(),
        target_raw: b"/",
        protocol: Protocol::Http11,
        fields: Fields::new(&lines),
    };
    let wall = UnixTime::from_secs(rig.wall);
    let mut fat = Cached::new(&rig.cache, &head, true, false, wall, Instant::ZERO).unwrap();
    assert_eq!(look_up(&mut fat), Step::Go);
    let response = fields(fresh);
    fat.answered(
        200,
        Protocol::Http11,
        &Fields::new(&response),
        Some(1),
        Instant::ZERO,
    );
    fat.take(b"x");
    fat.complete();
    assert!(rig.get("/", "", 500, "", b"").2);
    // Answers to ranges and conditions.
    for (target, request, status) in [("/a", "Range: bytes=9-", 416), ("/b", "If-Match: \"x\"", 412)] {
        rig.get(target, request, status, fresh, b"");
        assert_eq!(
            rig.get(target, "", 200, "", b"y"),
            (200, b"y".to_vec(), true),
            "{target}"
        );
    }
}

#[test]
fn a_request_for_a_part_refreshes_nothing() {
    let mut rig = Rig::new(ProxyCache::default());
    let stale = "Cache-Control: max-age=1, stale-while-revalidate=86400";
    rig.get("/", "", 200, stale, b"x");
    rig.wall += 2;
    for (request, refreshes) in [
        ("Range: bytes=0-0", false),
        ("If-None-Match: *", false),
        ("", true),
    ] {
        let mut cached = rig.cached(Method::Get, "/", request);
        assert_eq!(look_up(&mut cached), Step::Serve);
        assert_eq!(cached.take_refresh().is_some(), refreshes, "{request}");
    }
}

/// The upstream gets no field that `Connection` names, and none of those that this server writes.
#[test]
fn fields_that_the_upstream_does_not_get_choose_no_response() {
    let rig = Rig::new(ProxyCache::default());
    let english = "Cache-Control: max-age=600\nVary: Accept-Language";
    rig.get(
        "/",
        "Connection: accept-language\nAccept-Language: de",
        200,
        english,
        b"en",
    );
    assert!(rig.get("/", "Accept-Language: de", 200, english, b"de").2);
    let of_client = "Cache-Control: max-age=600\nVary: X-Forwarded-For";
    rig.get("/b", "", 200, of_client, b"x");
    assert!(rig.get("/b", "", 200, of_client, b"y").2);
}

#[test]
fn the_budget_holds_whatever_is_stored_and_sent() {
    for &policy in Policy::ALL {
        check_budget(policy);
    }
}

fn check_budget(policy: Policy) {
    let size = Bytes::kib(64);
    let rig = Rig::new(ProxyCache {
        size,
        policy,
        max_object_size: Bytes::kib(16),
        ..ProxyCache::default()
    });
    let body = vec![7; 5_000];
    // A slow client still has the first response when it is evicted.
    rig.get("/0", "", 200, "Cache-Control: max-age=60", &body);
    let mut slow = rig.cached(Method::Get, "/0", "");
    assert_eq!(slow.look_up(Instant::ZERO), Step::Serve);
    let held = slow.take_reply().unwrap();
    for at in 0..100 {
        rig.get(&format!("/{at}"), "", 200, "Cache-Control: max-age=60", &body);
        let report = rig.cache.report();
        assert!(
            report.bytes <= size.0 && report.bytes_peak <= size.0,
            "{policy}: {report:?}"
        );
    }
    let report = rig.cache.report();
    assert!(
        report.evictions > 80 && report.entries > 5,
        "{policy}: {report:?}"
    );
    assert_eq!(held.body.len(), 5_000);
    // Content above the limit passes without being stored.
    let large = vec![7; 17 << 10];
    let (_, _, asked) = rig.get("/large", "", 200, "Cache-Control: max-age=60", &large);
    let (_, _, again) = rig.get("/large", "", 200, "Cache-Control: max-age=60", &large);
    assert!(asked && again, "{policy}");
    drop(held);
    rig.cache.purges.note(&Purge::All);
    assert!(rig.cache.apply(&mut rig.cache.hold_purges()) > 0);
    assert_eq!(rig.cache.report().bytes, 0, "{policy}: nothing is left behind");
}

#[test]
fn purges_of_another_process_are_obeyed_before_the_next_lookup() {
    let purges = Purges::default();
    let rigs = [0, 1].map(|_| Rig {
        cache: Arc::new(Cache::new(&ProxyCache::default(), &purges)),
        ..Rig::new(ProxyCache::default())
    });
    let response = "Cache-Control: max-age=60";
    for rig in &rigs {
        assert!(rig.get("/a", "", 200, response, b"a").2);
        assert!(!rig.get("/a", "", 200, response, b"a").2);
        rig.get("/b", "", 200, response, b"b");
    }
    // One waits for the upstream meanwhile: its response may be older than the purge.
    let mut slow = rigs[1].cached(Method::Get, "/a/slow", "");
    assert_eq!(slow.look_up(Instant::ZERO), Step::Go);
    purges.note(&"path /a*".parse().unwrap());
    let lines = fields(response);
    slow.answered(
        200,
        Protocol::Http11,
        &Fields::new(&lines),
        Some(1),
        Instant::ZERO,
    );
    slow.take(b"x");
    slow.complete();
    for rig in &rigs {
        assert!(!rig.get("/b", "", 200, response, b"b").2, "another path");
        assert_eq!(rig.cache.report().entries, 1);
        assert!(rig.get("/a", "", 200, response, b"a").2);
        assert!(!rig.get("/a", "", 200, response, b"a").2, "a later one is stored");
    }
    assert!(rigs[1].get("/a/slow", "", 200, response, b"x").2);
}

#[test]
fn a_target_has_a_bounded_number_of_variants() {
    let rig = Rig::new(ProxyCache::default());
    let response = "Cache-Control: max-age=60\nVary: Foo";
    for at in 0..40 {
        rig.get("/", &format!("Foo: {at}"), 200, response, b"x");
    }
    assert_eq!(rig.cache.report().entries, store::VARIANTS_MAX as u64);
    let (_, _, newest) = rig.get("/", "Foo: 39", 200, response, b"x");
    let (_, _, oldest) = rig.get("/", "Foo: 0", 200, response, b"x");
    assert_eq!((newest, oldest), (false, true));
}

#[test]
fn stored_responses_answer_ranges_and_conditions() {
    let rig = Rig::new(ProxyCache::default());
    let response = "Cache-Control: max-age=60\nETag: \"a\"\nContent-Type: text/plain";
    let body: Vec<u8> = (0..=255).cycle().take(4_096).collect();
    rig.get("/", "", 200, response, &body);
    let ask = |request: &str| rig.get("/", request, 500, "", b"");
    for (request, status, expected) in [
        ("", 200, Some(&body[..])),
        ("Range: bytes=1-3", 206, Some(&body[1..4])),
        ("Range: bytes=-2", 206, Some(&body[4_094..])),
        ("Range: bytes=5000-", 416, Some(b"")),
        ("Range: lines=1-3", 200, Some(&body[..])),
        ("Range: bytes=1-3\nIf-Range: \"a\"", 206, Some(&body[1..4])),
        ("Range: bytes=1-3\nIf-Range: \"b\"", 200, Some(&body[..])),
        ("If-None-Match: \"b\", W/\"a\"", 304, Some(b"")),
        ("If-Match: \"b\"", 412, Some(b"")),
        ("Range: bytes=0-9,100-109", 206, None),
    ] {
        let (got, content, asked) = ask(request);
        assert_eq!((got, asked), (status, false), "{request}");
        if let Some(expected) = expected {
            assert_eq!(content, expected, "{request}");
        } else {
            let text = String::from_utf8_lossy(&content);
            assert!(text.contains("Content-Range: bytes 100-109/4096"), "{text}");
            assert!(text.ends_with("--\r\n"), "{text}");
        }
    }
    let mut head = rig.cached(Method::Head, "/", "");
    assert_eq!(head.look_up(Instant::ZERO), Step::Serve);
    let reply = head.take_reply().unwrap();
    let text = String::from_utf8(reply.text).unwrap();
    assert!(
        reply.body.is_empty() && text.contains("Content-Length: 4096\r\n"),
        "{text}"
    );
}

#[test]
fn parts_are_stored_and_answer_ranges_within_them() {
    let rig = Rig::new(ProxyCache::default());
    let response = "Cache-Control: max-age=60\nContent-Range: bytes 10-19/100";
    let (_, _, asked) = rig.get("/", "Range: bytes=10-19", 206, response, b"0123456789");
    assert!(asked);
    assert_eq!(
        rig.get("/", "Range: bytes=12-13", 500, "", b""),
        (206, b"23".to_vec(), false)
    );
    let (_, _, asked) = rig.get("/", "Range: bytes=12-20", 500, "", b"");
    assert!(asked, "a byte is missing");
    let (_, _, asked) = rig.get("/", "", 500, "", b"");
    assert!(asked, "the rest is missing");
    // Content of another length than announced is not stored.
    rig.get("/b", "Range: bytes=10-19", 206, response, b"01234");
    let (_, _, asked) = rig.get("/b", "Range: bytes=10-11", 500, "", b"");
    assert!(asked);
}

#[test]
fn a_304_makes_what_is_stored_fresh_and_an_error_may_not() {
    let mut rig = Rig::new(ProxyCache::default());
    rig.get(
        "/",
        "",
        200,
        "Cache-Control: max-age=60, stale-if-error=100\nETag: \"a\"\nX: 1",
        b"old",
    );
    rig.wall += 70;
    assert_eq!(
        rig.get("/", "", 503, "", b"error"),
        (200, b"old".to_vec(), true),
        "it stands in"
    );
    assert_eq!(
        rig.get("/", "", 304, "ETag: \"a\"\nX: 2", b""),
        (200, b"old".to_vec(), true)
    );
    let mut cached = rig.cached(Method::Get, "/", "");
    assert_eq!(cached.look_up(Instant::ZERO), Step::Serve, "it is fresh again");
    let text = String::from_utf8(cached.take_reply().unwrap().text).unwrap();
    assert!(
        text.contains("X: 2\r\n")
            && text.contains("Age: 0\r\n")
            && text.contains("Cache-Status: weir; hit; ttl=60\r\n"),
        "{text}"
    );
    rig.wall += 70;
    assert_eq!(
        rig.get("/", "", 200, "Cache-Control: max-age=60", b"new"),
        (200, b"new".to_vec(), true)
    );
    assert_eq!(rig.get("/", "", 500, "", b""), (200, b"new".to_vec(), false));
    rig.wall += 61;
    assert_eq!(
        rig.get("/", "", 500, "", b"error"),
        (500, b"error".to_vec(), true),
        "it does not stand in"
    );
    let report = rig.cache.report();
    assert_eq!(report.counts[Count::Validated as usize], 1);
    assert_eq!(report.counts[Count::StoodIn as usize], 1);
}

#[test]
fn requests_that_change_a_target_drop_what_is_stored() {
    let rig = Rig::new(ProxyCache::default());
    let fresh = "Cache-Control: max-age=60";
    for target in ["/a", "/a?q", "/b"] {
        rig.get(target, "", 200, fresh, b"x");
    }
    for (method, target, status, response, left) in [
        (Method::Post, "/a", 500, "", 3),
        (Method::Get, "/other", 200, "Location: /a", 3),
        (
            Method::Post,
            "/a",
            200,
            "Location: b\nContent-Location: http://other/a?q",
            1,
        ),
    ] {
        let mut cached = rig.cached(method, target, "Host: host");
        let step = cached.look_up(Instant::ZERO);
        assert_eq!(step, Step::Go);
        let lines = fields(response);
        assert!(!cached.answered(
            status,
            Protocol::Http11,
            &Fields::new(&lines),
            Some(0),
            Instant::ZERO
        ));
        cached.complete();
        // The entries above have no host, so only those of the request's own host could be found.
        let left = if target == "/a" && status == 200 { 3 } else { left };
        assert_eq!(rig.cache.report().entries, left, "{target} {status}");
    }
    let mut cached = rig.cached(Method::Post, "/a", "");
    assert_eq!(cached.look_up(Instant::ZERO), Step::Go);
    let lines = fields("Location: b");
    cached.answered(
        201,
        Protocol::Http11,
        &Fields::new(&lines),
        Some(0),
        Instant::ZERO,
    );
    assert_eq!(
        rig.cache.report().entries,
        1,
        "/a and /b are gone, /a?q is another target"
    );
    assert_eq!(rig.cache.report().counts[Count::Invalidated as usize], 2);
}

#[test]
fn one_request_goes_for_many_unless_its_response_is_not_stored() {
    let rig = Rig::new(ProxyCache::default());
    let mut first = rig.cached(Method::Get, "/", "");
    assert_eq!(first.look_up(Instant::ZERO), Step::Go);
    let mut second = rig.cached(Method::Get, "/", "");
    assert_eq!(second.look_up(Instant::ZERO), Step::Wait);
    let waiter = second.waiter().unwrap();
    for lone in ["Range: bytes=0-1", "Authorization: x", "Cache-Control: no-store"] {
        assert_eq!(
            rig.cached(Method::Get, "/", lone).look_up(Instant::ZERO),
            Step::Go,
            "{lone}"
        );
    }
    let lines = fields("Cache-Control: max-age=60");
    first.answered(
        200,
        Protocol::Http11,
        &Fields::new(&lines),
        Some(1),
        Instant::ZERO,
    );
    first.take(b"x");
    assert!(!waiter.is_over(), "the content is not complete");
    first.complete();
    assert!(waiter.is_over());
    assert_eq!(second.look_up(Instant::ZERO), Step::Serve);
    let text = String::from_utf8(second.take_reply().unwrap().text).unwrap();
    assert!(
        text.contains("Cache-Status: weir; fwd=uri-miss; ttl=60; collapsed\r\n"),
        "{text}"
    );

    let mut first = rig.cached(Method::Get, "/private", "");
    let mut second = rig.cached(Method::Get, "/private", "");
    assert_eq!(
        (first.look_up(Instant::ZERO), second.look_up(Instant::ZERO)),
        (Step::Go, Step::Wait)
    );
    let waiter = second.waiter().unwrap();
    let lines = fields("Cache-Control: private");
    first.answered(
        200,
        Protocol::Http11,
        &Fields::new(&lines),
        Some(1),
        Instant::ZERO,
    );
    assert!(waiter.is_over(), "its head is enough");
    assert_eq!(second.look_up(Instant::ZERO), Step::Go);
    // For a while, nobody waits for such a target.
    assert_eq!(
        rig.cached(Method::Get, "/private", "").look_up(Instant::ZERO),
        Step::Go
    );
    // A request that is given up wakes those who wait for it.
    let mut first = rig.cached(Method::Get, "/lost", "");
    let mut second = rig.cached(Method::Get, "/lost", "");
    assert_eq!(
        (first.look_up(Instant::ZERO), second.look_up(Instant::ZERO)),
        (Step::Go, Step::Wait)
    );
    let waiter = second.waiter().unwrap();
    drop(first);
    assert!(waiter.is_over());
}

/// The first request may be one of a client that opens many connections, or takes its response slowly.
#[test]
fn a_request_that_is_held_up_holds_up_no_other_for_long() {
    let rig = Rig::new(ProxyCache::default());
    let at = |secs: u64| Instant::ZERO + Duration::from_secs(secs);
    let minute = Duration::from_secs(60);
    let mut first = rig.cached(Method::Get, "/", "");
    assert_eq!(first.look_up(at(0)), Step::Go);
    let mut second = rig.cached(Method::Get, "/", "");
    assert_eq!(second.look_up(at(0)), Step::Wait);
    let waits = |second: &Cached, secs: u64| second.keeps_waiting(minute, at(secs));
    assert_eq!([4, 5].map(|secs| waits(&second, secs)), [true, false]);
    // The time of the upstream is awaited.
    first.depart();
    assert_eq!([59, 60].map(|secs| waits(&second, secs)), [true, false]);
    let lines = fields("Cache-Control: max-age=600");
    first.answered(200, Protocol::Http11, &Fields::new(&lines), Some(2), at(50));
    first.take(b"x");
    assert_eq!([54, 55].map(|secs| waits(&second, secs)), [true, false]);
    // Nobody begins to wait for it after that.
    let mut third = rig.cached(Method::Get, "/", "");
    assert_eq!(third.look_up(at(55)), Step::Go);
    first.take(b"y");
    first.complete();
    assert_eq!(second.look_up(at(55)), Step::Serve);
    assert!(!waits(&second, 55));
}

/// Otherwise, all who wait would go to the upstream at once.
#[test]
fn one_who_waits_takes_the_place_of_a_request_that_is_held_up() {
    let rig = Rig::new(ProxyCache::default());
    let at = |secs: u64| Instant::ZERO + Duration::from_secs(secs);
    let lines = fields("Cache-Control: max-age=600");
    // One whose client is slow to take the content.
    let goes = |cached: &mut Cached, secs| {
        cached.depart();
        cached.answered(200, Protocol::Http11, &Fields::new(&lines), Some(2), at(secs));
    };
    let mut first = rig.cached(Method::Get, "/", "");
    assert_eq!(first.look_up(at(0)), Step::Go);
    goes(&mut first, 0);
    let [mut second, mut third, mut fourth] = [(); 3].map(|()| rig.cached(Method::Get, "/", ""));
    for other in [&mut second, &mut third, &mut fourth] {
        assert_eq!(other.look_up(at(1)), Step::Wait);
    }
    let waiter = third.waiter().unwrap();
    assert_eq!(second.look_up(at(5)), Step::Go);
    assert_eq!(third.look_up(at(5)), Step::Wait);
    assert_eq!(fourth.look_up(at(5)), Step::Wait);
    assert!(waiter.is_over(), "the job of the first wait ends");
    assert!(!third.is_woken(), "which does not end the second one");
    // So does a request that comes now.
    goes(&mut second, 6);
    drop(first);
    let mut fifth = rig.cached(Method::Get, "/", "");
    assert_eq!(fifth.look_up(at(7)), Step::Wait);
    // Each waits for two at most.
    assert_eq!(third.look_up(at(11)), Step::Go, "in place of the second");
    assert_eq!(fourth.look_up(at(11)), Step::Go, "alone");
    assert_eq!(fifth.look_up(at(11)), Step::Wait, "for the third");
    assert_eq!(rig.cache.report().counts[Count::Collapsed as usize], 4);
    // The response of any of them is for all.
    second.take(b"xy");
    second.complete();
    assert_eq!(fifth.look_up(at(12)), Step::Serve);
}

/// The response of an upstream that is slow to begin is awaited once.
#[test]
fn nobody_waits_twice_for_a_slow_upstream() {
    let rig = Rig::new(ProxyCache::default());
    let at = |secs: u64| Instant::ZERO + Duration::from_secs(secs);
    let mut first = rig.cached(Method::Get, "/", "");
    assert_eq!(first.look_up(at(0)), Step::Go);
    first.depart();
    let [mut second, mut third] = [(); 2].map(|()| rig.cached(Method::Get, "/", ""));
    for other in [&mut second, &mut third] {
        assert_eq!(other.look_up(at(0)), Step::Wait);
        assert_eq!(other.look_up(at(60)), Step::Go);
    }
}

#[test]
fn a_stale_response_is_validated_once_while_it_is_served() {
    let mut rig = Rig::new(ProxyCache::default());
    rig.get(
        "/",
        "",
        200,
        "Cache-Control: max-age=60, stale-while-revalidate=60\nETag: \"a\"",
        b"old",
    );
    rig.wall += 70;
    let mut first = rig.cached(Method::Get, "/", "");
    assert_eq!(first.look_up(Instant::ZERO), Step::Serve);
    let mut refresh = first.take_refresh().expect("somebody has to validate it");
    let mut second = rig.cached(Method::Get, "/", "");
    assert_eq!(second.look_up(Instant::ZERO), Step::Serve);
    assert!(second.take_refresh().is_none(), "it is under way");
    let lines = fields("ETag: \"a\"");
    assert!(refresh.answered(304, Protocol::Http11, &Fields::new(&lines), None, Instant::ZERO));
    let (_, _, asked) = rig.get("/", "", 500, "", b"");
    assert!(!asked);
    assert_eq!(rig.cache.report().counts[Count::Stale as usize], 2);
}
