//! Which requests an overloaded worker rejects, which it never rejects, and when compression is paused.

use crate::adapt::{Decision, Knob, Knobs, Settings};
use crate::config::{Adapt, Concurrency, Config, LiveFor, MaxTurn};
use crate::limits::Limits;
use crate::service::{Additions, Interprocess, Server};
use crate::session::rig::{End, Lines, Rig, answers, source};
use runtime::memory::{Bound, Step};
use runtime::{Context as _, Line, Session as _};
use std::net::IpAddr;
use std::sync::Arc;
use units::{Bytes, Duration, Seed, UnixTime};

const LARGE: &[u8] = b"GET /big.png HTTP/1.1\r\nHost: a\r\n\r\n";
const SMALL: &[u8] = b"GET /digits.bin HTTP/1.1\r\nHost: a\r\n\r\n";
const HEAD: &[u8] = b"HEAD /big.png HTTP/1.1\r\nHost: a\r\n\r\n";

/// Ends the current turn after this time.
fn end_turn(rig: &mut Rig, length: Duration) {
    let now = rig.now + length;
    rig.cx.rest(now, Line::Taken);
}

/// A worker whose last turn was far too long: it admits one expensive response per turn.
fn behind(config: Config) -> Rig {
    let mut rig = Rig::of(
        Server::open(config, source(), None, Seed(1)).unwrap(),
        Arc::new(Lines::default()),
    );
    // Cached, and with known heads, from now on.
    for request in [LARGE, SMALL, LARGE, SMALL] {
        rig.send(request);
    }
    for _ in 0..4 {
        end_turn(&mut rig, Duration::from_secs(1));
        rig.send(LARGE);
    }
    end_turn(&mut rig, Duration::from_secs(1));
    rig.out.clear();
    rig
}

fn statuses(rig: &Rig) -> Vec<u16> {
    answers(&rig.out, |_| false)
        .iter()
        .map(|answer| answer.status)
        .collect()
}

#[test]
fn what_costs_much_is_refused_and_small_answers_never() {
    let mut rig = behind(Config {
        max_turn: MaxTurn::At(Duration::from_millis(10)),
        ..Config::default()
    });
    for request in [LARGE, LARGE, SMALL, SMALL, LARGE] {
        rig.send(request);
    }
    assert_eq!(statuses(&rig), [200, 503, 200, 200, 503]);
    let refused = &answers(&rig.out, |_| false)[1];
    assert_eq!(refused.field("retry-after"), Some("1"));
    assert_eq!(rig.cx.counters.overloaded().get(), 2);
    // The header block of a large file is small.
    rig.out.clear();
    rig.send(HEAD);
    assert!(rig.text().starts_with("HTTP/1.1 200"), "{}", rig.text());
    // An unknown file must be loaded, which is expensive, too.
    rig.out.clear();
    rig.send(b"GET /small.png HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(statuses(&rig), [503]);
    // Short turns restore the allowance.
    for _ in 0..3 {
        end_turn(&mut rig, Duration::from_millis(1));
        rig.send(LARGE);
        rig.send(LARGE);
    }
    rig.out.clear();
    end_turn(&mut rig, Duration::from_millis(1));
    rig.send(LARGE);
    rig.send(LARGE);
    assert_eq!(statuses(&rig), [200, 200]);
}

#[test]
fn nobody_is_refused_where_turns_are_not_bounded_or_mean_nothing() {
    let at = MaxTurn::At(Duration::from_millis(10));
    for (max_turn, concurrency) in [(MaxTurn::Off, Concurrency::Loops), (at, Concurrency::Pool)] {
        let mut rig = behind(Config {
            max_turn,
            concurrency,
            ..Config::default()
        });
        for _ in 0..5 {
            rig.send(LARGE);
        }
        assert_eq!(statuses(&rig), [200; 5], "{max_turn:?} {concurrency:?}");
    }
}

/// A rig whose settings may change.
fn adapted(config: Config) -> Rig {
    let interprocess = Interprocess {
        knobs: Knobs::new().unwrap(),
        ..Interprocess::default()
    };
    let server = Server::open_with(
        Additions::default(),
        interprocess,
        config,
        source(),
        None,
        Seed(1),
    )
    .unwrap();
    Rig::of(server, Arc::new(Lines::default()))
}

/// Decisions of a dry run are shown, and marked, wherever real ones are.
#[test]
fn decisions_of_a_dry_run_are_shown_and_marked() {
    let mut rig = adapted(Config {
        live: LiveFor::All,
        adapt: Adapt::DryRun,
        ..Config::default()
    });
    let ask = |rig: &mut Rig, path: &str| {
        rig.out.clear();
        rig.send(format!("GET /.weir/{path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        String::from_utf8(answers(&rig.out, |_| false).remove(0).body).expect("text")
    };
    let page = ask(&mut rig, "");
    assert!(page.contains("data-key=\"adaptation.dry-run\">0<"), "{page}");
    let decision = Decision {
        knob: Knob::Compression,
        from: "on first use".to_owned(),
        to: "paused".to_owned(),
        why: "so".to_owned(),
    };
    rig.server
        .would_adapt(std::slice::from_ref(&decision), UnixTime::from_secs(60));
    let said = "00:01:00 dry run: compression would change from on first use to paused: so";
    let page = ask(&mut rig, "");
    assert!(page.contains("data-key=\"adaptation.dry-run\">1<"), "{page}");
    assert!(page.contains("data-key=\"adaptation.changes\">0<"), "{page}");
    assert!(page.contains(said), "{page}");
    let live: serde_json::Value = serde_json::from_str(&ask(&mut rig, "live.json")).expect("JSON");
    let adaptation = &live["adaptation"];
    assert_eq!(
        (&adaptation["changes"], &adaptation["dry-run"]),
        (&0.into(), &1.into())
    );
    assert_eq!(adaptation["decisions"][0], said);
    let metrics = ask(&mut rig, "metrics");
    for line in ["weir_adaptations_total 0\n", "weir_adaptations_dry_run_total 1\n"] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    // Without a dry run, there is no such row.
    let mut rig = adapted(Config {
        live: LiveFor::All,
        ..Config::default()
    });
    rig.server
        .adapt(Settings::default(), &[decision], UnixTime::from_secs(60));
    let page = ask(&mut rig, "");
    assert!(!page.contains("dry"), "{page}");
    assert!(ask(&mut rig, "live.json").contains("\"dry-run\":null"));
}

#[test]
fn codings_that_are_spared_are_not_begun_and_those_that_are_there_are_sent() {
    let ask = |rig: &mut Rig, accepted: &str| -> Option<String> {
        rig.out.clear();
        rig.send(
            format!("GET /text.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n").as_bytes(),
        );
        let answer = answers(&rig.out, |_| false).remove(0);
        assert_eq!(answer.status, 200, "{accepted}");
        answer.field("content-encoding").map(str::to_owned)
    };
    let mut rig = adapted(Config::default());
    let spare = |rig: &mut Rig, spares_codings: bool| {
        let settings = Settings {
            spares_codings,
            ..Settings::default()
        };
        rig.server.adapt(settings, &[], UnixTime::from_secs(0));
        rig.turn();
    };
    assert_eq!(ask(&mut rig, "gzip").as_deref(), Some("gzip"));
    spare(&mut rig, true);
    assert_eq!(ask(&mut rig, "br"), None);
    assert_eq!(ask(&mut rig, "gzip").as_deref(), Some("gzip"), "it is there");
    // A client that accepts nothing else still gets it.
    assert_eq!(ask(&mut rig, "zstd, identity;q=0").as_deref(), Some("zstd"));
    spare(&mut rig, false);
    assert_eq!(ask(&mut rig, "br").as_deref(), Some("br"));
}

/// Uses up the memory budget of the rig's server, or lifts its limit.
fn press(rig: &mut Rig, bound: Bound) {
    rig.server.budget().set(bound);
    rig.server.budget().turn(rig.now);
    rig.turn();
}

#[test]
fn out_of_memory_requests_are_refused_and_probes_are_not() {
    let mut rig = Rig::with(|c| c.health = true);
    rig.send(SMALL);
    // No process is this small.
    press(&mut rig, Bound::Told(Bytes::kib(16)));
    assert_eq!(rig.server.budget().step(), Step::Refusing);
    rig.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    rig.send(SMALL);
    assert_eq!(statuses(&rig), [200, 200, 503]);
    let refused = &answers(&rig.out, |_| false)[2];
    assert_eq!(refused.field("connection"), Some("close"));
    assert_eq!(refused.field("retry-after"), Some("1"));
    let totals = rig.server.totals();
    assert_eq!((totals.out_of_memory, totals.overloaded), (1, 0));
    assert_eq!(
        (
            totals.memory_reading,
            totals.memory_output,
            totals.memory_idle,
            totals.memory_refusing
        ),
        (1, 1, 1, 1)
    );
    rig.reconnect();
    press(&mut rig, Bound::None);
    rig.send(SMALL);
    assert_eq!(statuses(&rig), [200]);
}

#[test]
fn what_a_connection_keeps_is_held_until_it_is_answered() {
    let mut rig = Rig::new();
    let held = |rig: &Rig| rig.server.budget().held().0;
    assert_eq!(held(&rig), 0);
    rig.send(&SMALL[..20]);
    let partial = held(&rig);
    assert!((20..500).contains(&partial), "{partial}");
    rig.send(&SMALL[20..30]);
    assert!(held(&rig) >= partial);
    rig.send(&SMALL[30..]);
    assert_eq!((statuses(&rig), held(&rig)), (vec![200], 0));
    rig.send(&SMALL[..20]);
    rig.eof();
    rig.reconnect();
    assert_eq!(held(&rig), 0);
}

#[test]
fn an_idle_session_says_since_when_and_gives_way() {
    let mut rig = Rig::new();
    let accepted = rig.now;
    assert_eq!(rig.session.idle_since(&rig.cx), Some(accepted));
    rig.wait(Duration::from_secs(3));
    rig.send(SMALL);
    let answered = rig.now;
    rig.wait(Duration::from_secs(2));
    assert_eq!(rig.session.idle_since(&rig.cx), Some(answered));
    rig.give_way();
    assert_eq!((rig.end, rig.server.totals().idle_closed), (End::Closed, 1));
}

#[test]
fn a_request_that_does_not_arrive_gives_way_with_408() {
    let mut rig = Rig::new();
    let began = rig.now;
    rig.send(&SMALL[..9]);
    rig.wait(Duration::from_millis(10));
    rig.send(&SMALL[9..10]);
    let crowding = Some(began + Limits::CROWD_PATIENCE);
    assert_eq!(
        rig.session.idle_since(&rig.cx),
        crowding,
        "it holds all connections"
    );
    for other in 1..=9 {
        let other = IpAddr::from([198, 51, 100, other]);
        rig.cx.hub.peers.enter(other, 100, 1).expect("a place");
    }
    let patient = Some(began + Limits::PATIENCE);
    assert_eq!(rig.session.idle_since(&rig.cx), patient);
    rig.give_way();
    assert_eq!(
        (statuses(&rig), rig.end),
        (vec![408], End::Closed),
        "without lingering"
    );
    assert_eq!(rig.server.totals().idle_closed, 1);

    rig.reconnect();
    rig.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf");
    let since = rig.session.idle_since(&rig.cx);
    assert_eq!(since, Some(rig.now + Limits::PATIENCE));
    rig.give_way();
    assert_eq!(rig.end, End::Closed);
}
