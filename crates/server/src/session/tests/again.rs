//! A known head gets its first response again, as long as that is current.

use super::rig::{DATE, Rig, answers, file};
use crate::config::{Config, LogFormat, Proxy, ProxyCache, When};
use runtime::session::PeerEvent;
use units::Duration;

const HEADS: [&str; 7] = [
    "GET /small.png HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /small.png?q=1 HTTP/1.1\r\nHost: b\r\nUser-Agent: u\r\nReferer: r\r\n\r\n",
    "GET /big.png HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, br;q=0.5\r\n\r\n",
    "GET http://c/digits.bin HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
    "GET /small.png HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /small.png HTTP/1.0\r\n\r\n",
    "GET /small.png HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
];

/// Number of heads kept by the worker.
fn kept(rig: &Rig) -> usize {
    rig.cx.head_cache.len()
}

#[test]
fn the_third_time_is_like_the_first_in_bytes_and_in_the_log() {
    for format in [LogFormat::Combined, LogFormat::Json] {
        for head in HEADS {
            let mut rig = Rig::with(|config| config.log_format = format);
            let mut rounds = Vec::new();
            for round in 0..4 {
                rig.reconnect();
                rig.send(head.as_bytes());
                rounds.push((rig.out.clone(), rig.end));
                assert_eq!(
                    kept(&rig),
                    usize::from(round > 0),
                    "{head}: kept when met a second time"
                );
            }
            assert!(
                rounds
                    .iter()
                    .all(|round| *round == rounds[0] && !round.0.is_empty()),
                "{head}"
            );
            let log = rig.log();
            let mut lines = log.lines();
            let first = lines.next();
            assert!(lines.all(|line| Some(line) == first), "{log}");
            assert_eq!(log.lines().count(), 4);
        }
    }
}

#[test]
fn what_depends_on_more_than_the_head_is_never_kept() {
    for head in [
        "HEAD /small.png HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /small.png HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n",
        "GET /small.png HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"x\"\r\n\r\n",
        "GET /small.png HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
        "GET /small.png HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
        "GET /small.png HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
        "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /dir HTTP/1.1\r\nHost: a\r\n\r\n",
        "OPTIONS /small.png HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let mut rig = Rig::new();
        for _ in 0..4 {
            rig.send(head.as_bytes());
        }
        assert_eq!(kept(&rig), 0, "{head}");
    }
}

#[test]
fn what_depends_on_a_condition_is_never_kept() {
    for (table, rule) in [
        ("redirect", "from = '/small*'\nto = '/'\nif = 'scheme https'"),
        ("redirect", "from = '/small*'\nto = '/'\nif = 'cookie a'"),
        ("respond", "path = '/small*'\ntext = 'a'\nif = 'scheme https'"),
        ("respond", "path = '/small*'\ntext = 'a'\nif = 'cookie a'"),
        (
            "try-files",
            "path = '/small*'\nfiles = ['/x', '$path']\nif = 'cookie a'",
        ),
        (
            "header-rule",
            "path = '*.png'\nheader = ['X-A: 1']\nif = 'not scheme http'",
        ),
        (
            "access",
            "path = '/small*'\ndeny = 'all'\nif = 'header X'\n[[access]]\nallow = 'all'",
        ),
        ("limit", "path = '/small*'\nrate = '1/h'\nif = 'scheme https'"),
        ("limit", "path = '/small*'\nconcurrent = 1\nif = 'cookie a'"),
        ("cors", "path = '/small*'\norigins = ['*']\nif = 'scheme https'"),
        (
            "cors",
            "path = '/small*'\norigins = ['https://a.test']\nif = 'cookie a'",
        ),
    ] {
        let text = format!("[[{table}]]\n{rule}\n");
        let rules = Config::from_toml(&text, "w.toml").unwrap();
        let mut rig = Rig::with(|config| {
            config.redirect.clone_from(&rules.redirect);
            config.respond.clone_from(&rules.respond);
            config.try_files.clone_from(&rules.try_files);
            config.header_rule.clone_from(&rules.header_rule);
            config.access.clone_from(&rules.access);
            config.limit.clone_from(&rules.limit);
            config.cors.clone_from(&rules.cors);
        });
        for _ in 0..4 {
            rig.send(HEADS[0].as_bytes());
            assert!(rig.out.starts_with(b"HTTP/1.1 200"), "{text}");
        }
        assert_eq!(kept(&rig), 0, "{text}");
        // Other paths of the site are.
        let is_apart = table != "access";
        for _ in 0..3 {
            rig.send(b"GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        assert_eq!(kept(&rig), usize::from(is_apart), "{text}");
    }
}

#[test]
fn a_known_head_is_known_on_every_connection_and_however_it_comes() {
    let mut rig = Rig::new();
    for _ in 0..3 {
        rig.send(HEADS[0].as_bytes());
    }
    rig.reconnect();
    rig.send(HEADS[0].repeat(3).as_bytes());
    rig.send_slowly(HEADS[0].as_bytes());
    rig.send(&HEADS[0].as_bytes()[..20]);
    rig.send(&[&HEADS[0].as_bytes()[20..], HEADS[0].as_bytes(), b"GET"].concat());
    let all = answers(&rig.out, |_| false);
    assert_eq!(all.len(), 6);
    assert!(all.iter().all(|answer| answer.body == file("/small.png")));
}

#[test]
fn a_known_head_does_not_outlive_its_entry() {
    let mut rig = Rig::new();
    for _ in 0..3 {
        rig.send(HEADS[0].as_bytes());
    }
    assert_eq!(kept(&rig), 1);
    rig.cx.state.hosts.place(0).site.change_everything();
    rig.out.clear();
    rig.send(HEADS[0].as_bytes());
    assert_eq!(answers(&rig.out, |_| false)[0].body, file("/small.png"));
    rig.turn();
    assert_eq!(kept(&rig), 0, "dropped in the next turn");
}

#[test]
fn the_last_request_of_a_connection_says_so_though_its_head_is_known() {
    let mut rig = Rig::with(|config| config.max_requests_per_connection = 4);
    for _ in 0..4 {
        rig.out.clear();
        rig.send(HEADS[0].as_bytes());
    }
    assert_eq!(answers(&rig.out, |_| false)[0].field("Connection"), Some("close"));
}

#[test]
fn heads_that_never_repeat_leave_nothing_behind() {
    let mut rig = Rig::new();
    for n in 0..3000 {
        rig.send(format!("GET /small.png HTTP/1.1\r\nHost: a\r\nCookie: {n}\r\n\r\n").as_bytes());
        rig.out.clear();
    }
    assert_eq!(kept(&rig), 0);
}

/// Heads of the proxy's cache.
const STORED: [&str; 4] = [
    "GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /api/x?q=1 HTTP/1.1\r\nHost: b\r\nUser-Agent: u\r\nReferer: r\r\nCookie: a=b\r\n\r\n",
    "GET /api/large HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n",
    "GET http://c/api/x HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
];

fn cached(config: &mut Config) {
    let upstream = "http://127.0.0.1:1".parse().unwrap();
    let mut rule = Proxy::new("/api/*".parse().unwrap(), vec![upstream]);
    rule.cache = Some(ProxyCache::default());
    config.proxy.push(rule);
}

/// The response of the upstream to a request with these field lines.
fn response(head: &str, fields: &str) -> Vec<u8> {
    let body = match head.contains("large") {
        true => file("/big.png"),
        false => file("/small.png"),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nDate: {DATE}\r\n{fields}Content-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// Sends a request, which the upstream answers with these field lines if it gets it. Returns whether it does.
fn ask(rig: &mut Rig, head: &str, fields: &str) -> bool {
    rig.out.clear();
    rig.asked.clear();
    rig.send(head.as_bytes());
    let dials = std::mem::take(&mut rig.asked);
    let Some(&(ticket, _)) = dials.first() else {
        return false;
    };
    rig.upstream(ticket, PeerEvent::Connected);
    rig.upstream(ticket, PeerEvent::Sent);
    rig.upstream(ticket, PeerEvent::Bytes(&response(head, fields)));
    true
}

const FRESH: &str = "Cache-Control: max-age=60\r\n";

#[test]
fn a_stored_response_is_repeated_as_a_lookup_would_answer() {
    for format in [LogFormat::Combined, LogFormat::Json] {
        for head in STORED {
            let mut rig = Rig::with(|config| {
                cached(config);
                config.log_format = format;
            });
            // This one looks every request up.
            let mut reference = Rig::with(|config| {
                cached(config);
                config.log_format = format;
                config.behavior.fresh_head = true;
            });
            // At first, with other numbers, and from the second on in which it is stale: the date of the upstream stands still.
            for (round, wait) in [0, 0, 0, 0, 0, 9, 0, 41, 9, 1, 0].into_iter().enumerate() {
                for rig in [&mut rig, &mut reference] {
                    rig.wait(Duration::from_secs(wait));
                    if round % 3 == 0 || wait > 0 {
                        rig.reconnect();
                    }
                    let is_passed_on = ask(rig, head, FRESH);
                    assert_eq!(is_passed_on, matches!(round, 0 | 9 | 10), "{head}: {round}");
                }
                assert_eq!(rig.out, reference.out, "{head}: {round}");
                assert_eq!(rig.end, reference.end, "{head}: {round}");
                assert_eq!(kept(&rig), usize::from(round > 1), "{head}: {round}");
                assert_eq!(kept(&reference), 0);
            }
            let (log, expected) = (rig.log(), reference.log());
            assert_eq!(log, expected);
            assert_eq!(log.lines().count(), 11);
        }
    }
}

#[test]
fn stored_responses_that_depend_on_more_than_the_head_are_not_repeated() {
    for head in [
        "HEAD /api/x HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /api/x HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n",
        "GET /api/x HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"x\"\r\n\r\n",
        "GET /api/x HTTP/1.1\r\nHost: a\r\nCache-Control: max-age=30\r\n\r\n",
        "GET /api/x HTTP/1.1\r\nHost: a\r\nCache-Control: max-stale\r\n\r\n",
        "GET /api/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /api/x HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
    ] {
        let mut rig = Rig::with(cached);
        ask(&mut rig, "GET /api/x HTTP/1.1\r\nHost: a\r\n\r\n", FRESH);
        for _ in 0..4 {
            rig.reconnect();
            assert!(!ask(&mut rig, head, FRESH), "{head}: stored");
        }
        assert_eq!(kept(&rig), 0, "{head}");
    }
    // A file may come first, and other addresses are refused.
    let missing = |config: &mut Config| config.proxy[0].when = When::Missing;
    let access = |config: &mut Config| {
        let rule = "path = '/other'\nallow = ['192.0.2.0/24']";
        config.access.push(toml::from_str(rule).unwrap());
    };
    for more in [missing as fn(&mut Config), access] {
        let mut rig = Rig::with(|config| {
            cached(config);
            more(config);
        });
        for _ in 0..4 {
            ask(&mut rig, STORED[0], FRESH);
        }
        assert_eq!(kept(&rig), 0);
    }
}

#[test]
fn a_repeated_response_does_not_outlive_what_is_stored() {
    let known = || {
        let mut rig = Rig::with(cached);
        for round in 0..4 {
            assert_eq!(ask(&mut rig, STORED[0], FRESH), round == 0);
        }
        assert_eq!(kept(&rig), 1);
        rig
    };
    // A request that changes the target.
    let mut rig = known();
    rig.out.clear();
    rig.send(b"DELETE /api/x HTTP/1.1\r\nHost: a\r\n\r\n");
    let (ticket, _) = rig.asked.swap_remove(0);
    rig.upstream(ticket, PeerEvent::Connected);
    rig.upstream(ticket, PeerEvent::Sent);
    rig.upstream(ticket, PeerEvent::Bytes(b"HTTP/1.1 204 No Content\r\n\r\n"));
    assert!(ask(&mut rig, STORED[0], FRESH), "it is dropped");
    // A newer response that the same request may get.
    let mut rig = known();
    let other = "GET /api/x HTTP/1.1\r\nHost: a\r\nCache-Control: no-cache\r\nX-A: 1\r\n\r\n";
    assert!(ask(&mut rig, other, &format!("{FRESH}Vary: X-B\r\nX-C: new\r\n")));
    assert!(!ask(&mut rig, STORED[0], FRESH));
    assert!(rig.text().contains("X-C: new"), "{}", rig.text());
    // A reload, and the last request of a connection.
    let mut rig = known();
    rig.cx.head_cache.forget();
    assert!(!ask(&mut rig, STORED[0], FRESH));
    let mut rig = Rig::with(|config| {
        cached(config);
        config.max_requests_per_connection = 5;
    });
    for _ in 0..5 {
        ask(&mut rig, STORED[0], FRESH);
    }
    assert_eq!(kept(&rig), 1);
    assert!(rig.text().contains("\r\nConnection: close\r\n"), "{}", rig.text());
    let hits = rig.cx.state.proxies.cache_reports()[0].1.counts[0];
    assert_eq!(hits, 4, "each hit is counted once");
}
