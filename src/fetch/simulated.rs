//! The client of `weir fetch` and the server of `weir serve`, both unchanged, over a simulated network: the modes of
//! W3C NOTE-pipelining-970624 in virtual time, the same on every machine.

use super::*;
use client::explain::{explain, sums};
use link::Profile;
use measure::{Duration, Instant, Seed};
use runtime::world::{Dialing, HostSetup, Hosted, Limits as WorldLimits, World};
use server::Server;
use server::config::Config;
use server::site::Source;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::LazyLock;
use tcp::{Setup, Stack};

/// As large and as many as the Microscape page: 42 KB of HTML, 42 pictures of some 3 KB.
static FILES: LazyLock<Vec<(&'static str, &'static [u8])>> = LazyLock::new(|| {
    let text = "A weir regulates a flow. ".repeat(40);
    let page: String = (0..42)
        .map(|n| format!("<p>{text}<img src=\"{n}.gif\">\n"))
        .collect();
    let mut files: Vec<(&str, &[u8])> = vec![("/index.html", page.leak().as_bytes())];
    for n in 0..42_usize {
        let picture = vec![b'G'; 200 + n * 140].leak();
        files.push((format!("/{n}.gif").leak(), picture));
    }
    files
});

struct Seen {
    outcome: Timeline,
    segments: usize,
}

/// Who speaks over a network. Ten segments at once fill a modem's line for four seconds, longer than a first timeout: today's
/// stack recovers from that by time stamps and by F-RTO (RFC 5682), which the simulated one does not have.
fn stack(network: &str) -> &'static str {
    match network {
        "ppp" => "4.4bsd",
        _ => "linux-6",
    }
}

fn visit(network: &str, manner: &str) -> Seen {
    let profile = Profile::parse(network, &link::Limits::default(), &mut |_| Err(String::new()));
    let host = || HostSetup {
        tcp: Setup::new(Stack::preset(stack(network)).expect("a preset"), 0),
        read_time: Duration::ZERO,
        read_max: 65_536,
        line_gain: 1.0,
    };
    let source = Source::Embedded {
        files: FILES.as_slice(),
        modified: UnixTime::from_secs(784_111_777),
    };
    let server = Server::open(Config::default(), source, None, Seed(1)).expect("a server");
    let manner: Manner = manner.parse().expect("a manner");
    let plan = Plan {
        manner,
        connections: manner.mode.connections(),
        buffering: Buffering::DEFAULT,
        user_agent: USER_AGENT.to_owned(),
        revalidate: false,
        first_bytes: None,
        embedded: true,
        limits: Limits {
            timeout: Duration::from_secs(900),
            ..Limits::DEFAULT
        },
    };
    let page = Url::parse("http://example.org/").expect("a URL");
    let wall = UnixTime::from_secs(867_110_400);
    let fetch = Rc::new(RefCell::new(Fetch::new(page, plan, Entries::new(), wall)));
    let mut world = World::new(
        &profile.expect("a preset"),
        (host(), Box::new(Dialing::new(Rc::clone(&fetch), Duration::ZERO))),
        (
            host(),
            Box::new(Hosted::new(server, Duration::from_millis(1), wall)),
        ),
        Seed(4),
        WorldLimits::default(),
    );
    world.run(Instant::ZERO + Duration::from_secs(1000));
    let segments = world.log().len();
    let outcome = fetch.borrow().timeline().clone();
    Seen { outcome, segments }
}

#[test]
fn the_modes_of_the_note_over_its_networks() {
    for network in ["wan", "ppp"] {
        let [old, serial, pipelined, deflated] =
            ["http10", "serial", "pipelined", "pipelined+deflate"].map(|manner| visit(network, manner));
        for seen in [&old, &serial, &pipelined, &deflated] {
            let timeline = &seen.outcome;
            assert_eq!(
                (timeline.objects.len(), timeline.sums().failed),
                (43, 0),
                "{network}"
            );
            let sum: Duration = sums(&explain(timeline)).iter().map(|(_, took)| *took).sum();
            assert_eq!(sum, timeline.ended - timeline.began);
        }
        let took = |seen: &Seen| seen.outcome.ended - seen.outcome.began;
        for seen in [&old, &serial, &pipelined, &deflated] {
            println!(
                "{network}: {:?}, {} segments, {} connections, {:?}",
                took(seen),
                seen.segments,
                seen.outcome.sums().connections,
                sums(&explain(&seen.outcome))
            );
        }
        assert_eq!(pipelined.outcome.sums().connections, 1);
        // Half the packets and less, the NOTE's first finding on its LAN and WAN (it did not try HTTP/1.0 over the modem);
        // and one connection is slow only without a pipeline.
        if network == "wan" {
            assert!(
                pipelined.segments * 2 < old.segments,
                "{network}: {} of {}",
                pipelined.segments,
                old.segments
            );
        }
        assert!(
            took(&pipelined) < took(&old),
            "{network}: {:?} {:?}",
            took(&pipelined),
            took(&old)
        );
        assert!(took(&pipelined) < took(&serial), "{network}");
        assert!(took(&deflated) < took(&pipelined), "{network}");
        assert!(deflated.segments < pipelined.segments, "{network}");
    }
}

#[test]
fn the_same_on_every_run() {
    let [one, other] = [(); 2].map(|()| visit("wan", "http10"));
    assert_eq!(one.segments, other.segments);
    assert_eq!(explain(&one.outcome), explain(&other.outcome));
}
