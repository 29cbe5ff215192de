//! Explanations by `client::explain` of fetches over links that lose segments, where the simulator knows the
//! link's rate and every retransmission.

use client::cache::Entries;
use client::explain::{Cause, explain, sums};
use client::plan::{Buffering, Limits, Manner, Plan, Priorities};
use client::streams::STREAM_WINDOW;
use client::timeline::Timeline;
use load::site::microscape::TagCase;
use repro::costs::Costs;
use repro::page::microscape;
use repro::server::{Kind, Server, Setup};
use repro::visit::{Hosts, Network, over};
use std::cell::Cell;
use std::rc::Rc;
use units::{Duration, Seed};

const BITS_PER_SECOND: f64 = 1e6;

/// A visit over 1 Mbit/s and 30 ms RTT with this loss.
fn visit(manner: &str, loss: &str, seed: u64) -> Timeline {
    let link = format!("rate=1M rtt=30ms {loss}");
    let hosts = Hosts {
        link: link::Profile::parse(&link, &link::Limits::default(), &mut |_| Err(String::new()))
            .expect("a link"),
        ..Hosts::today(Network::Lan)
    };
    let manner: Manner = manner.parse().expect("a manner");
    let plan = Plan {
        manner,
        connections: manner.mode.connections(),
        buffering: Buffering::DEFAULT,
        user_agent: "weir".to_owned(),
        fields: Vec::new(),
        cookies: Vec::new(),
        revalidate: false,
        first_bytes: None,
        embedded: true,
        priorities: Priorities::default(),
        stream_window: STREAM_WINDOW,
        limits: Limits {
            timeout: Duration::from_secs(900),
            stall_timeout: Duration::from_secs(300),
            ..Limits::DEFAULT
        },
    };
    let setup = Setup {
        kind: Kind::Apache,
        head_less: 0,
        no_delay: true,
        requests_max: None,
        costs: Costs::FITTED,
    };
    let server = Server::new(setup, Rc::new(microscape(TagCase::Lower)), Rc::new(Cell::new(0)));
    over(&hosts, plan, Entries::new(), None, Box::new(server), Seed(seed))
        .1
        .timeline
}

fn milliseconds(timeline: &Timeline, cause: Cause) -> f64 {
    let sums = sums(&explain(timeline));
    let all: Duration = sums.iter().map(|(_, took)| *took).sum();
    assert_eq!(
        all,
        timeline.ended - timeline.began,
        "the parts add up to the elapsed time"
    );
    let of_cause = sums.iter().find(|(one, _)| *one == cause);
    of_cause.map_or(0.0, |(_, took)| took.as_secs_f64() * 1e3)
}

/// Retransmitted segments: to the client, by the client, of handshakes.
fn sent_again(timeline: &Timeline) -> (u32, u32, u32) {
    let connections = timeline.connections.iter();
    let last = |holes: bool| {
        move |one: &client::timeline::Connection| {
            one.arrivals.last().map_or(0, |last| {
                if holes {
                    last.holes
                } else {
                    last.repeats - one.shaken_again
                }
            })
        }
    };
    (
        connections.clone().map(last(true)).sum(),
        connections.clone().map(last(false)).sum(),
        connections.map(|one| one.shaken_again).sum(),
    )
}

#[test]
fn loss_and_the_line_are_told_apart_whatever_the_seed() {
    for manner in ["pipelined", "serial", "http10"] {
        let whole = visit(manner, "", 1);
        assert_eq!(milliseconds(&whole, Cause::LossRecovery), 0.0, "{manner}");
        for seed in 1..=8 {
            let timeline = visit(manner, "loss=3%", seed);
            let parts = sums(&explain(&timeline));
            let said = format!(
                "{manner}, seed {seed}, again {:?}: {parts:?}",
                sent_again(&timeline)
            );
            println!("{said}");
            assert_eq!(timeline.sums().failed, 0, "{said}");
            let of = |cause| milliseconds(&timeline, cause);
            // A retransmitted segment used the link at least once more.
            let (to_client, ..) = sent_again(&timeline);
            assert!(to_client > 0 && of(Cause::LossRecovery) >= 12.0, "{said}");
            // The server takes a few milliseconds in total, and no loss of a last segment counts as one of its
            // pauses.
            assert!(of(Cause::ServerWait) < 150.0, "{said}");
            assert_eq!(
                of(Cause::LossOrServer),
                0.0,
                "{said}: the record knows every loss"
            );
            // Over one connection, bytes take as long as without loss, however they were delivered.
            let line = timeline.sums().bytes_in as f64 * 8e3 / BITS_PER_SECOND;
            if manner != "http10" {
                let bandwidth = of(Cause::Bandwidth);
                assert!(bandwidth > line && bandwidth < line * 1.1, "{said}: {line}");
            }
        }
    }
}

#[test]
fn a_handshake_sent_again_is_loss_recovery() {
    let lost = (1..40)
        .map(|seed| visit("pipelined", "loss=3%", seed))
        .find(|timeline| timeline.connections[0].shaken_again > 0)
        .expect("one SYN in forty is lost");
    let connect = milliseconds(&lost, Cause::Connect);
    assert!((30.0..60.0).contains(&connect), "{connect} ms");
    assert!(milliseconds(&lost, Cause::LossRecovery) > 900.0);
}
