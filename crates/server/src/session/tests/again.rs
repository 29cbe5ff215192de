//! A known head gets its first response again, as long as that is current.

use super::rig::{Rig, answers, file};
use crate::config::LogFormat;

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
