//! A known request gets its stored response again: the same frames, counts and log lines as from a lookup.

use super::peer::{Got, Peer};
use crate::config::{Config, LogFormat, Proxy, ProxyCache, When};
use crate::session::Session;
use crate::session::rig::{DATE, file};
use ::http2::Limits;
use runtime::session::{PeerEvent, Ticket};
use units::Duration;

type Fields = &'static [(&'static str, &'static str)];

/// Requests for stored responses: path and fields.
const ASKED: [(&str, Fields); 5] = [
    ("/api/x", &[]),
    (
        "/api/x?q=1",
        &[
            ("user-agent", "u"),
            ("referer", "r"),
            ("cookie", "a=b"),
            ("cookie", "c=d"),
        ],
    ),
    ("/api/large", &[("accept-encoding", "gzip")]),
    ("/api/large", &[("priority", "u=1")]),
    ("/api/empty", &[]),
];

const FRESH: &str = "Cache-Control: max-age=60\r\n";

fn cached(config: &mut Config) {
    let upstream = "http://127.0.0.1:1".parse().unwrap();
    let mut rule = Proxy::new("/api/*".parse().unwrap(), vec![upstream]);
    rule.cache = Some(ProxyCache::default());
    config.proxy.push(rule);
}

/// A client of a server that repeats, and one of a server that looks every request up.
fn both(configure: impl Fn(&mut Config)) -> [Peer; 2] {
    [false, true].map(|fresh_head| {
        Peer::with(|config| {
            cached(config);
            configure(config);
            config.behavior.fresh_head = fresh_head;
        })
    })
}

/// Number of requests kept by the worker.
fn kept(peer: &Peer) -> usize {
    peer.rig.cx.field_cache.len()
}

/// Whether a request of this connection took the way of those that are passed on.
fn has_passed(peer: &Peer) -> bool {
    match &peer.rig.session {
        Session::Http2(http2) => http2.has_passed,
        other => panic!("{other:?}"),
    }
}

/// The same client on another connection, with this window for each response.
fn reconnect(peer: Peer, stream_window: u32) -> Peer {
    let mut rig = peer.rig;
    rig.reconnect();
    rig.agree_on_http2();
    let limits = Limits {
        stream_window,
        ..Limits::DEFAULT
    };
    Peer::of(rig, limits)
}

/// The response of the upstream to a request for this path, with these field lines.
fn response(path: &str, lines: &str) -> Vec<u8> {
    let (kind, body) = match path {
        "/api/large" => ("text/css", file("/big.png")),
        "/api/empty" => ("image/png", &b""[..]),
        _ => ("image/png", file("/small.png")),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nDate: {DATE}\r\nContent-Type: {kind}\r\n{lines}Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// Answers the request that the upstream got, if it got one. Returns whether it did.
fn answer(peer: &mut Peer, response: &[u8]) -> bool {
    let asked = std::mem::take(&mut peer.rig.asked);
    let Some(&(ticket, _)) = asked.first() else {
        return false;
    };
    tell(peer, ticket, response);
    true
}

fn tell(peer: &mut Peer, ticket: Ticket, response: &[u8]) {
    peer.rig.upstream(ticket, PeerEvent::Connected);
    peer.rig.upstream(ticket, PeerEvent::Sent);
    peer.rig.upstream(ticket, PeerEvent::Bytes(response));
    peer.take();
}

/// Sends a request, which the upstream answers with these field lines if it gets it. Returns what the client got, and whether
/// the upstream was asked.
fn ask(peer: &mut Peer, method: &str, (path, fields): (&str, &[(&str, &str)]), lines: &str) -> (Got, bool) {
    peer.forget();
    peer.rig.asked.clear();
    let (stream, up) = peer.ask(method, path, fields, true);
    peer.send(&up);
    let is_passed_on = answer(peer, &response(path, lines));
    (peer.got.remove(&stream).unwrap_or_default(), is_passed_on)
}

fn get(peer: &mut Peer, request: (&str, &[(&str, &str)]), lines: &str) -> (Got, bool) {
    ask(peer, "GET", request, lines)
}

#[test]
fn a_stored_response_is_repeated_as_a_lookup_would_answer() {
    for format in [LogFormat::Combined, LogFormat::Json] {
        for request in ASKED {
            let mut peers = both(|config| config.log_format = format);
            // At first, with other numbers, and from the second on in which it is stale: the date of the upstream stands still.
            for (round, wait) in [0, 0, 0, 0, 0, 9, 0, 41, 9, 1, 0].into_iter().enumerate() {
                let mut got = Vec::new();
                peers = peers.map(|mut peer| {
                    peer.rig.wait(Duration::from_secs(wait));
                    if round % 3 == 0 || wait > 0 {
                        peer = reconnect(peer, 1 << 20);
                    }
                    let (answer, is_passed_on) = get(&mut peer, request, FRESH);
                    assert_eq!(is_passed_on, matches!(round, 0 | 9 | 10), "{request:?}: {round}");
                    assert!(answer.has_ended && answer.status() == 200, "{request:?}: {round}");
                    got.push((peer.rig.out.clone(), answer));
                    peer
                });
                let [peer, reference] = &peers;
                assert!(got[0] == got[1], "{request:?}: {round}");
                assert_eq!(kept(peer), usize::from(round > 1), "{request:?}: {round}");
                assert_eq!(kept(reference), 0);
                // From the third on, which is kept, until it is stale.
                if matches!(round, 3..=8) {
                    assert_eq!(
                        (has_passed(peer), has_passed(reference)),
                        (false, true),
                        "{request:?}: {round}"
                    );
                }
            }
            let counts = peers.each_ref().map(|peer| {
                let hits = peer.rig.cx.state.proxies.cache_reports()[0].1.counts[0];
                (hits, peer.rig.cx.counters.http2_requests().get())
            });
            assert_eq!(counts, [(8, 11); 2]);
            let [log, expected] = peers.map(|mut peer| peer.rig.log());
            assert_eq!(log, expected);
            assert_eq!(log.lines().count(), 11);
        }
    }
}

#[test]
fn many_at_once_are_answered_in_the_same_order() {
    for request in ASKED {
        let [peer, reference] = both(|_| {}).map(|mut peer| {
            for _ in 0..3 {
                get(&mut peer, request, FRESH);
            }
            peer.forget();
            peer.rig.asked.clear();
            let mut all = Vec::new();
            for _ in 0..10 {
                all.extend(peer.ask("GET", request.0, request.1, true).1);
            }
            peer.send(&all);
            assert_eq!(peer.ended.len(), 10);
            assert_eq!(peer.rig.asked, []);
            peer
        });
        assert_eq!((kept(&peer), kept(&reference)), (1, 0));
        assert_eq!(peer.ended, reference.ended);
        assert!(peer.rig.out == reference.rig.out, "{request:?}");
    }
}

/// Requests with one path share a slot, so some of them are known and some are not.
#[test]
fn known_and_unknown_requests_mix() {
    let [got, expected] = both(|_| {}).map(|mut peer| {
        for request in ASKED {
            for _ in 0..3 {
                get(&mut peer, request, FRESH);
            }
        }
        peer.forget();
        let mut all = Vec::new();
        for (path, fields) in ASKED.into_iter().chain(ASKED) {
            all.extend(peer.ask("GET", path, fields, true).1);
        }
        peer.send(&all);
        peer.got
    });
    assert!(got == expected && got.len() == 2 * ASKED.len());
    assert!(got.values().all(|got| got.has_ended));
}

#[test]
fn a_response_that_is_cut_off_is_logged_as_after_a_lookup() {
    let logs = both(|_| {}).map(|mut peer| {
        for _ in 0..3 {
            get(&mut peer, ASKED[2], FRESH);
        }
        peer = reconnect(peer, 65_535);
        peer.consumes = false;
        let (got, is_passed_on) = get(&mut peer, ASKED[2], FRESH);
        assert!(
            !is_passed_on && !got.has_ended && got.body.len() == 65_535,
            "{}",
            got.body.len()
        );
        peer.rig.hang_up();
        let aborted = peer.rig.cx.counters.aborted().get();
        (peer.rig.log(), aborted)
    });
    assert_eq!(logs[0], logs[1]);
    assert!(logs[0].0.contains("\"aborted\":\"peer\""), "{}", logs[0].0);
}

#[test]
fn responses_that_depend_on_more_than_the_fields_are_not_repeated() {
    let asked: [(&str, Fields); 7] = [
        ("HEAD", &[]),
        ("GET", &[("range", "bytes=0-1")]),
        ("GET", &[("if-none-match", "\"x\"")]),
        ("GET", &[("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")]),
        ("GET", &[("cache-control", "max-age=30")]),
        ("GET", &[("cache-control", "max-stale")]),
        ("GET", &[("expect", "100-continue")]),
    ];
    for (method, fields) in asked {
        let mut peer = Peer::with(cached);
        get(&mut peer, ("/api/x", &[]), FRESH);
        for _ in 0..4 {
            let (_, is_passed_on) = ask(&mut peer, method, ("/api/x", fields), FRESH);
            assert!(!is_passed_on, "{method} {fields:?}: stored");
        }
        assert_eq!(kept(&peer), 0, "{method} {fields:?}");
    }
    // A file may come first, and other addresses are refused.
    let missing = |config: &mut Config| config.proxy[0].when = When::Missing;
    let access = |config: &mut Config| {
        let rule = "path = '/other'\nallow = ['192.0.2.0/24']";
        config.access.push(toml::from_str(rule).unwrap());
    };
    // Each response has the request's own id.
    let identified = |config: &mut Config| config.request_id = "true".parse().unwrap();
    for more in [missing as fn(&mut Config), access, identified] {
        let mut peer = Peer::with(|config| {
            cached(config);
            more(config);
        });
        for _ in 0..4 {
            get(&mut peer, ASKED[0], FRESH);
        }
        assert_eq!(kept(&peer), 0);
    }
}

#[test]
fn repeated_responses_have_the_lines_of_the_rule_whose_conditions_their_requests_meet() {
    let [mut peer, mut reference] = both(|config| {
        let rule = "path = '/api/*'\norigins = ['https://a.test']\nif = ['cookie beta', 'not query plain']";
        config.cors.push(toml::from_str(rule).unwrap());
    });
    let origin = ("origin", "https://a.test");
    let allowed = Some("https://a.test");
    for round in 0..4 {
        for (path, fields, expected) in [
            ("/api/x", &[origin, ("cookie", "beta=1")][..], allowed),
            ("/api/x", &[origin], None),
            ("/api/x?plain", &[origin, ("cookie", "beta=1")], None),
        ] {
            // Three in a row, because their path has one slot.
            for again in 0..3 {
                let mut got = Vec::new();
                for peer in [&mut peer, &mut reference] {
                    let (answer, is_passed_on) = get(peer, (path, fields), FRESH);
                    // What the upstream sent is stored once for each target.
                    let is_first =
                        round == 0 && again == 0 && (expected.is_some() || path.ends_with("plain"));
                    assert_eq!(is_passed_on, is_first, "{path} {fields:?}");
                    got.push(answer);
                }
                assert_eq!(got[0].field("access-control-allow-origin"), expected);
                let vary = got[0].field("vary").unwrap();
                assert_eq!(
                    (vary.contains("Cookie"), vary.contains("Origin")),
                    (true, expected.is_some())
                );
                assert!(got[0] == got[1], "{path} {fields:?}");
            }
        }
    }
    assert!(kept(&peer) > 0);
    assert_eq!(kept(&reference), 0);
    // A limit counts each request, so none is answered without a look at it.
    let mut peer = Peer::with(|config| {
        cached(config);
        let rule = "rate = '1/h'\nif = 'cookie beta'";
        config.limit.push(toml::from_str(rule).unwrap());
    });
    for round in 0..4 {
        let (got, is_passed_on) = get(&mut peer, ("/api/x", &[]), FRESH);
        assert_eq!((got.status(), is_passed_on), (200, round == 0));
        let (got, _) = get(&mut peer, ("/api/x", &[("cookie", "beta=1")]), FRESH);
        assert_eq!(got.status(), if round == 0 { 200 } else { 429 });
    }
    assert_eq!(kept(&peer), 0);
}

#[test]
fn a_known_request_does_not_outlive_what_is_stored() {
    let known = || {
        let mut peer = Peer::with(cached);
        for round in 0..4 {
            assert_eq!(get(&mut peer, ASKED[0], FRESH).1, round == 0);
        }
        assert_eq!(kept(&peer), 1);
        peer
    };
    // A request that changes the target.
    let mut peer = known();
    assert!(ask(&mut peer, "DELETE", ASKED[0], "").1);
    assert!(get(&mut peer, ASKED[0], FRESH).1, "it is dropped");
    // A newer response that the same request may get.
    let mut peer = known();
    let other = ("/api/x", &[("cache-control", "no-cache"), ("x-a", "1")][..]);
    assert!(get(&mut peer, other, &format!("{FRESH}Vary: X-B\r\nX-C: new\r\n")).1);
    let (got, is_passed_on) = get(&mut peer, ASKED[0], FRESH);
    assert_eq!((got.field("x-c"), is_passed_on), (Some("new"), false));
    // A reload.
    let mut peer = known();
    peer.rig.cx.field_cache.forget();
    assert!(!get(&mut peer, ASKED[0], FRESH).1);
    assert_eq!(kept(&peer), 0);
}

#[test]
fn each_variant_is_repeated_to_its_own_requests() {
    let mut peer = Peer::with(cached);
    for round in 0..4 {
        for language in ["de", "en"] {
            let fields = [("accept-language", language)];
            let lines = format!("{FRESH}Vary: Accept-Language\r\nX-Language: {language}\r\n");
            // Two in a row, because their path has one slot.
            for again in 0..3 {
                let (got, is_passed_on) = get(&mut peer, ("/api/x", &fields), &lines);
                assert_eq!(got.field("x-language"), Some(language));
                assert_eq!(is_passed_on, round == 0 && again == 0);
            }
        }
    }
    assert_eq!(kept(&peer), 1);
}

#[test]
fn the_number_and_the_length_of_known_requests_are_bounded() {
    let mut peer = Peer::with(cached);
    let mut twice = |path: &str, fields: &[(&str, &str)]| {
        for _ in 0..3 {
            get(&mut peer, (path, fields), FRESH);
        }
        kept(&peer)
    };
    let fields = ":methodGET:schemehttps:authoritya:path/api/xx-a".len();
    let longest = "a".repeat(2_048 - fields);
    assert_eq!(twice("/api/x", &[("x-a", &*format!("{longest}a"))]), 0);
    assert_eq!(twice("/api/x", &[("x-a", &*longest)]), 1);
    let most = (0..1_000).map(|at| twice(&format!("/api/{at}"), &[])).max();
    assert!(matches!(most, Some(200..=256)), "{most:?}");
}
