//! `weir fetch --simulate`: the same client over a simulated network in virtual time, with identical results on every
//! machine, from a server of 1997 or the unchanged server of `weir serve`.
//!
//! `repro` models the hosts and networks of 1997. Here flags become visits, and visits take the form of fetches over
//! sockets, so that all reports work for them, too. [`secured`] adds TLS and QUIC, [`studied`] the runs of the
//! study on the protocols since.

mod secured;
pub(crate) mod studied;

use super::qlog::{Log, Taping, Times};
use super::{Limits, Manner, Plan, Run, USER_AGENT, Url, json, judged, manners, plan, say, written};
use crate::archive::Archive;
use crate::cli::fetch::{Flags, Origin};
use crate::failure::Failure;
use crate::output;
use crate::voice::Voice;
use client::cache::Entries;
use client::plan::{Buffering, Mode, Priorities};
use client::streams::STREAM_WINDOW;
use link::Profile;
use load::site::microscape::TagCase;
use netsim::Hosted;
use repro::page::{Page, URL, microscape};
use repro::server::Kind;
use repro::visit::{Case, Figures, Hosts, Network, Ready, Variation, over};
use secured::{Identity, Visited};
use server::Server;
use server::config::{Config, Http2};
use server::site::Source;
use std::rc::Rc;
use std::sync::LazyLock;
use units::{Duration, Instant, Seed, UnixTime};

/// Wall-clock time of every visit: the day the NOTE was published.
const WALL: UnixTime = UnixTime::from_secs(867_153_600);
/// Processor time of this server per response, in visits without TLS.
const TURN: Duration = Duration::from_millis(1);

/// The page as files for this program's server.
static FILES: LazyLock<Vec<(&'static str, &'static [u8])>> = LazyLock::new(|| {
    microscape(TagCase::Lower)
        .into_iter()
        .map(|(path, entity)| {
            let name: &'static str = match path.as_str() {
                "/" => "/index.html",
                _ => String::leak(path),
            };
            (name, &*entity.body.leak())
        })
        .collect()
});

/// Runs the command.
///
/// # Errors
/// `Usage` for an impossible simulation, `Failed` if an object is missing, `System` if the system refuses something.
pub(super) fn run(flags: &Flags, recorded: &[Archive], voice: &Voice) -> Result<(), Failure> {
    let manners = manners(flags);
    let is_secured = flags.https || manners.iter().any(is_quic);
    possible(flags, &manners, is_secured)?;
    let page = Rc::new(microscape(TagCase::Lower));
    let visitors: Vec<Visitor> = manners
        .iter()
        .map(|&manner| Visitor::new(flags, manner, &page, is_secured))
        .collect::<Result<_, _>>()?;
    let url = match is_secured {
        true => secured::url(),
        false => Url::parse(URL).map_err(|error| Failure::Usage(error.to_string()))?,
    };
    let times = Times::new(Instant::ZERO, WALL);
    let qlog = flags.qlog.as_deref().map(|path| Log::create(path, times));
    let mut qlog = qlog.transpose()?;
    let mut runs = Vec::new();
    let mut capture = Vec::new();
    for round in 0..u64::from(flags.repeat) {
        for (visitor, &manner) in visitors.iter().zip(&manners) {
            let is_taped = is_quic(&manner) && (qlog.is_some() || flags.pcapng.is_some());
            let taping = is_taped.then(Taping::default);
            let seed = Seed(flags.seed.unwrap_or(1).wrapping_add(round));
            let visited = visitor.visit(seed, taping.as_ref())?;
            let timeline = visited.outcome.timeline;
            if voice.json {
                // Nobody checks certificates here.
                let insecure = is_secured.then_some(true);
                let mut line = json::of(&url, manner, &timeline, insecure, flags.explain);
                line["wire"] = json::wire(&visited.figures);
                output::print(&format!("{line}\n"))?;
            }
            capture = visited.capture;
            let taped = taping
                .and_then(|taping| taping.take(Some(secured::client_address()), secured::server_address()));
            if let Some(taped) = taped.as_ref().filter(|_| flags.pcapng.is_some()) {
                capture = taped.pcapng(times);
            }
            if let Some(qlog) = &mut qlog {
                qlog.take(taped);
            }
            runs.push(Run {
                manner,
                began: WALL,
                peer: None,
                dns: None,
                timeline,
                race: None,
            });
        }
    }
    if let Some(path) = &flags.pcapng {
        written(path, &capture)?;
    }
    if let Some(qlog) = qlog {
        qlog.write(voice)?;
    }
    say(flags, &url, &manners, &runs, recorded, voice)?;
    judged(&runs, plan(flags, flags.mode).limits.objects_max)
}

fn is_quic(manner: &Manner) -> bool {
    manner.mode == Mode::Http3
}

/// Refuses flags that no simulation of these modes can satisfy.
fn possible(flags: &Flags, manners: &[Manner], is_secured: bool) -> Result<(), Failure> {
    let refused = |why: &str| Err(Failure::Usage(why.to_owned()));
    if matches!(flags.from, Some(Origin::Period(_))) {
        if manners.iter().any(|manner| manner.mode.is_multiplexed()) {
            return refused("the simulated servers of 1997 speak HTTP/1: `h2` and `h3` need --from weir");
        }
        if is_secured {
            return refused("the simulated servers of 1997 have no TLS: `--https` needs --from weir");
        }
        if flags.first_bytes.is_some() {
            return refused(
                "the simulated servers of 1997 do not support ranges: `--first-bytes` needs --from weir",
            );
        }
    }
    if flags.tcp.is_some() && manners.iter().all(is_quic) {
        return refused(
            "`--tcp` has no effect here: `h3` uses QUIC; leave it out, or compare with a mode over TCP",
        );
    }
    Ok(())
}

/// A client and server for repeated visits.
enum Visitor {
    Period(Box<Ready>),
    Today(Box<Today>),
}

impl Visitor {
    fn new(flags: &Flags, manner: Manner, page: &Rc<Page>, is_secured: bool) -> Result<Visitor, Failure> {
        let name = flags.simulate.as_deref().unwrap_or_default();
        let network = Network::ALL.into_iter().find(|network| network.name() == name);
        match flags.from.unwrap_or(Origin::Weir) {
            Origin::Period(kind) => {
                let network = network.ok_or_else(|| {
                    Failure::Usage(format!(
                        "`{}`: the hosts of 1997 are fitted to lan, wan and ppp; others need --from weir",
                        name.escape_debug()
                    ))
                })?;
                Ok(period(flags, manner, kind, network, page))
            }
            Origin::Weir => {
                let hosts = match network {
                    Some(network) => Hosts::today(network),
                    None => Hosts {
                        link: parsed(name)?,
                        ..Hosts::today(Network::Lan)
                    },
                };
                let hosts = match &flags.tcp {
                    Some(name) => hosts.with_tcp(name),
                    None => hosts,
                };
                let mut plan = plan(flags, manner);
                // Virtual time costs nothing, and a modem takes longer than the default limit.
                plan.limits.timeout = flags.timeout.unwrap_or(Duration::from_secs(900));
                plan.limits.stall_timeout = flags.stall_timeout.unwrap_or(Duration::from_secs(300));
                let today = match is_secured {
                    true => Today::secured(hosts, plan)?,
                    false => Today::clear(hosts, plan)?,
                };
                Ok(Visitor::Today(Box::new(today)))
            }
        }
    }

    /// `taping` records what a visit over QUIC sends and receives.
    fn visit(&self, seed: Seed, taping: Option<&Taping>) -> Result<Visited, Failure> {
        match self {
            Visitor::Period(ready) => {
                let visit = ready.visit(seed);
                Ok(Visited {
                    figures: visit.figures,
                    outcome: visit.outcome,
                    capture: visit.capture,
                })
            }
            Visitor::Today(today) => today.taped(seed, taping),
        }
    }
}

fn period(flags: &Flags, manner: Manner, server: Kind, network: Network, page: &Rc<Page>) -> Visitor {
    let case = Case {
        network,
        server,
        manner,
        is_first: !flags.revalidate,
        variation: Variation {
            buffering: plan(flags, manner).buffering,
            connections: flags.connections.map(usize::from),
            page_alone: flags.no_embedded,
            ..Variation::NONE
        },
    };
    Visitor::Period(Box::new(Ready::new(case, page)))
}

fn parsed(link: &str) -> Result<Profile, Failure> {
    let refused = |path: &str| Err(format!("`{path}`: a simulation cannot read files"));
    Profile::parse(link, &link::Limits::default(), &mut |path| refused(path))
        .map_err(|error| Failure::Usage(format!("`{}`: {error}", link.escape_debug())))
}

/// This program's client and server, for repeated visits.
struct Today {
    hosts: Hosts,
    plan: Plan,
    /// The client's cache before each visit.
    entries: Entries,
    /// One server for all visits, as in a long-running process: later visits find its cache warm.
    server: Server,
    /// Processor time of the server per response; with TLS, none.
    turn: Duration,
    tls: Option<Identity>,
}

impl Today {
    /// Without TLS.
    fn clear(hosts: Hosts, plan: Plan) -> Result<Today, Failure> {
        Today::ready(hosts, plan, TURN, None)
    }

    /// With TLS; over QUIC if the mode is HTTP/3.
    fn secured(hosts: Hosts, plan: Plan) -> Result<Today, Failure> {
        Today::ready(hosts, plan, Duration::ZERO, Some(Identity::new()?))
    }

    /// Prepares visits with a first one over a fast network, which fills the server's cache, and the client's cache if the
    /// plan revalidates. A server with a cold cache loads each object on request and first sends what is pending, so each
    /// 304 leaves alone. Over the WAN, a pipelined revalidation took 83 packets with a cold server and 39 with a warm one.
    /// Since delayed ACKs have their interactive mode it takes 27, as over a real link.
    fn ready(hosts: Hosts, plan: Plan, turn: Duration, tls: Option<Identity>) -> Result<Today, Failure> {
        let mut today = Today {
            hosts: Hosts::today(Network::Lan),
            plan: Plan {
                revalidate: false,
                ..plan.clone()
            },
            entries: Entries::new(),
            server: this_server()?,
            turn,
            tls,
        };
        let filled = today.visit(Seed(1))?.outcome.entries;
        if plan.revalidate {
            today.entries = filled;
        }
        today.hosts = hosts;
        today.plan = plan;
        Ok(today)
    }

    fn visit(&self, seed: Seed) -> Result<Visited, Failure> {
        self.taped(seed, None)
    }

    fn taped(&self, seed: Seed, taping: Option<&Taping>) -> Result<Visited, Failure> {
        let (plan, entries) = (self.plan.clone(), self.entries.clone());
        if let Some(tls) = &self.tls {
            return tls.visit(&self.hosts, plan, entries, &self.server, seed, taping);
        }
        let hosted = Hosted::new(self.server.clone(), self.turn, WALL);
        let (figures, outcome, capture) = over(&self.hosts, plan, entries, None, Box::new(hosted), seed);
        Ok(Visited {
            figures,
            outcome,
            capture,
        })
    }
}

/// The configuration of the simulated server.
fn config() -> Config {
    Config {
        http2: Http2::All,
        ..Config::default()
    }
}

/// This program's server with the page.
fn this_server() -> Result<Server, Failure> {
    let source = Source::Embedded {
        files: FILES.as_slice(),
        modified: UnixTime::from_secs(784_111_777),
    };
    Server::open(config(), source, None, Seed(1))
        .map_err(|error| Failure::System(format!("the simulated server: {error}")))
}

/// The plan of a visit without flags.
fn plain(manner: Manner, is_first: bool) -> Plan {
    Plan {
        manner,
        connections: manner.mode.connections(),
        buffering: Buffering::DEFAULT,
        user_agent: USER_AGENT.to_owned(),
        fields: Vec::new(),
        cookies: Vec::new(),
        revalidate: !is_first,
        first_bytes: None,
        embedded: true,
        priorities: Priorities::default(),
        stream_window: STREAM_WINDOW,
        limits: Limits {
            timeout: Duration::from_secs(900),
            stall_timeout: Duration::from_secs(300),
            ..Limits::DEFAULT
        },
    }
}

/// A visit of this program's client to its server between these hosts.
///
/// # Errors
/// `System` if the server cannot be set up.
pub(crate) fn between(hosts: Hosts, manner: Manner, is_first: bool) -> Result<Figures, Failure> {
    let visited = Today::clear(hosts, plain(manner, is_first))?.visit(Seed(1))?;
    Ok(visited.figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::report;
    use client::explain::{Cause, explain, hints, sums};
    use client::fetch::Outcome;
    use netsim::Application;
    use units::Bytes;

    /// The server as an application of a simulated host.
    fn hosted(server: &Server) -> Box<dyn Application> {
        Box::new(Hosted::new(server.clone(), TURN, WALL))
    }

    struct Seen {
        outcome: Outcome,
        figures: Figures,
    }

    fn plan_of(manner: &str) -> Plan {
        plain(manner.parse().expect("a manner"), true)
    }

    fn visit(network: Network, manner: &str) -> Seen {
        let plan = plan_of(manner);
        let server = this_server().expect("a server");
        let hosts = Hosts::today(network);
        let (figures, outcome, _) = over(&hosts, plan, Entries::new(), None, hosted(&server), Seed(4));
        Seen { outcome, figures }
    }

    #[test]
    fn the_modes_of_the_note_over_its_networks_today() {
        for network in [Network::Wan, Network::Ppp] {
            let [old, serial, pipelined, deflated] =
                ["http10", "serial", "pipelined", "pipelined+deflate"].map(|manner| visit(network, manner));
            for seen in [&old, &serial, &pipelined, &deflated] {
                let timeline = &seen.outcome.timeline;
                println!(
                    "{network:?}: {:?}, {} packets, {:?}",
                    timeline.ended - timeline.began,
                    seen.figures.packets(),
                    sums(&explain(timeline))
                );
                assert_eq!(
                    (timeline.objects.len(), timeline.sums().failed),
                    (43, 0),
                    "{network:?}"
                );
                let sum: Duration = sums(&explain(timeline)).iter().map(|(_, took)| *took).sum();
                assert_eq!(sum, timeline.ended - timeline.began);
            }
            let (packets, seconds) = (
                |seen: &Seen| seen.figures.packets(),
                |seen: &Seen| seen.figures.seconds,
            );
            assert_eq!(pipelined.outcome.timeline.connections.len(), 1);
            // Half the packets or less was the NOTE's first finding on LAN and WAN (HTTP/1.0 over the modem was not
            // tested). A single connection is slow only without pipelining.
            if network == Network::Wan {
                assert!(packets(&pipelined) * 2.0 < packets(&old), "{network:?}");
            }
            assert!(seconds(&pipelined) < seconds(&old), "{network:?}");
            assert!(seconds(&pipelined) < seconds(&serial), "{network:?}");
            assert!(seconds(&deflated) < seconds(&pipelined), "{network:?}");
            assert!(packets(&deflated) < packets(&pipelined), "{network:?}");
        }
    }

    /// Measured over a real link: 27 packets with a warm server. A server with a cold cache sends what is pending
    /// before it loads the next object, the counterfactual that explains the difference.
    #[test]
    fn a_pipelined_revalidation_takes_as_many_packets_as_for_real() {
        let manner: Manner = "pipelined".parse().expect("a manner");
        let warm = between(Hosts::today(Network::Wan), manner, false).expect("a visit");
        assert!((25.0..=33.0).contains(&warm.packets()), "{warm:?}");
        let plan = Plan {
            revalidate: true,
            ..plan_of("pipelined")
        };
        let ready = Today::clear(Hosts::today(Network::Wan), plan).expect("ready");
        let empty = Today {
            server: this_server().expect("a server"),
            ..ready
        };
        let cold = empty.visit(Seed(1)).expect("a visit").figures;
        // The byte counts are equal; each of the 42 responses has its own packet.
        assert!(
            cold.down.packets >= warm.down.packets + 20.0,
            "{cold:?}, {warm:?}"
        );
        assert!((cold.bytes() - warm.bytes()).abs() < 1.0, "{cold:?}, {warm:?}");
    }

    /// HTTP/2 over the TCP of every system that the simulator knows, over a clean link and a lossy one.
    #[test]
    fn a_page_comes_over_every_tcp() {
        let server = this_server().expect("a server");
        for name in tcp::PRESETS {
            for link in ["rate=1.5M rtt=90ms", "rate=1.5M rtt=90ms loss=3%"] {
                let hosts = Hosts {
                    link: parsed(link).expect("a link"),
                    ..Hosts::today(Network::Wan)
                };
                let hosts = hosts.with_tcp(name);
                let (figures, outcome, _) = over(
                    &hosts,
                    plan_of("h2"),
                    Entries::new(),
                    None,
                    hosted(&server),
                    Seed(3),
                );
                let timeline = &outcome.timeline;
                println!(
                    "{name}, {link}: {:.2} s, {} packets",
                    figures.seconds,
                    figures.packets()
                );
                assert_eq!(
                    (timeline.objects.len(), timeline.sums().failed),
                    (43, 0),
                    "{name}"
                );
                let sum: Duration = sums(&explain(timeline)).iter().map(|(_, took)| *took).sum();
                assert_eq!(sum, timeline.ended - timeline.began, "{name}");
            }
        }
    }

    /// Each wait of streams has a cause that can be switched off: a small window, a page with other objects, a lossy link.
    #[test]
    fn what_streams_wait_for_goes_with_its_cause() {
        use client::explain::{Wait, streams};
        let waited = |window: u32, link: &str, embedded: bool| {
            let mut plan = plan_of("h2");
            (plan.stream_window, plan.embedded) = (window, embedded);
            let hosts = Hosts {
                link: parsed(link).expect("a link"),
                ..Hosts::today(Network::Lan)
            };
            let server = this_server().expect("a server");
            let (_, outcome, _) = over(&hosts, plan, Entries::new(), None, hosted(&server), Seed(7));
            let timeline = outcome.timeline;
            let all = streams(&timeline);
            assert_eq!(all.len(), if embedded { 43 } else { 1 });
            let total: Duration = sums(&explain(&timeline)).iter().map(|(_, took)| *took).sum();
            assert_eq!(total, timeline.ended - timeline.began);
            let on_path = sums(&explain(&timeline)).into_iter();
            let on_path = on_path.filter(|(cause, _)| *cause == Cause::FlowControl);
            let on_path: Duration = on_path.map(|(_, took)| took).sum();
            let of = |wait: Wait| all.iter().map(|one| one.waits[wait as usize]).sum::<Duration>();
            let waits = [Wait::FlowControl, Wait::OtherStreams, Wait::LostSegment].map(of);
            println!("{window} {link} {embedded}: {waits:?}, on the critical path {on_path:?}");
            (waits, on_path)
        };
        let (clean, lossy) = ("rate=4M rtt=80ms", "rate=4M rtt=80ms loss=5%");
        let (usual, on_path) = waited(STREAM_WINDOW, clean, true);
        assert!(usual[0].is_zero() && on_path.is_zero(), "{usual:?}");
        assert!(usual[1] > Duration::from_millis(100), "{usual:?}");
        assert!(usual[2].is_zero(), "{usual:?}");
        let (small, on_path) = waited(8 << 10, clean, true);
        assert!(small[0] > Duration::from_millis(80), "{small:?}");
        assert!(on_path > Duration::from_millis(40), "{on_path:?}");
        let (alone, _) = waited(STREAM_WINDOW, clean, false);
        assert!(alone[1].is_zero(), "{alone:?}");
        let (lost, _) = waited(STREAM_WINDOW, lossy, true);
        assert!(lost[2] > Duration::from_millis(80), "{lost:?}");
    }

    /// A page that takes 200 ms to compress, with a style sheet and a script, on a 1.5 Mbit/s line with a round trip of
    /// 90 ms: what early hints gain, and that it is they who gain it.
    #[test]
    fn early_hints_use_the_time_in_which_a_page_is_made_ready() {
        let text = |words: &str, count: usize| words.repeat(count).into_bytes();
        let mut page = text("<link rel=stylesheet href=a.css><script src=a.js></script>", 1);
        page.extend(text("<p>all work and no play", 2_000));
        let mut made: Vec<(&'static str, &'static [u8])> = Vec::new();
        for (name, content) in [
            ("index.html", page),
            ("a.css", text("p { color: red } ", 2_000)),
            ("a.js", text("work(); play(); ", 2_000)),
        ] {
            made.push((name, Vec::leak(content)));
        }
        let files: &'static [(&str, &[u8])] = Vec::leak(made);
        let visit = |early_hints: bool, job_time: Duration| {
            let source = Source::Embedded {
                files,
                modified: UnixTime::from_secs(784_111_777),
            };
            let config = Config {
                http2: Http2::All,
                early_hints,
                ..Config::default()
            };
            let server = Server::open(config, source, None, Seed(1)).expect("a server");
            let hosts = Hosts::today(Network::Wan);
            let hosted = |job_time| Box::new(Hosted::new(server.clone(), TURN, WALL).with_job_time(job_time));
            let first = |manner, job_time| {
                let (plan, entries) = (plan_of(manner), Entries::new());
                over(&hosts, plan, entries, None, hosted(job_time), Seed(1)).1
            };
            // Somebody was there before, and style sheet and script are compressed since.
            first("h2", Duration::ZERO);
            let is_settled = || server.sites().iter().all(|site| site.is_settled());
            let mut pauses = 0..20_000;
            while !is_settled() && pauses.next().is_some() {
                runtime::clock::pause(Duration::from_millis(1));
            }
            assert!(is_settled(), "the scan does not end");
            let outcome = first("h2+br", job_time);
            let timeline = outcome.timeline;
            assert_eq!((timeline.objects.len(), timeline.sums().failed), (3, 0));
            let total: Duration = sums(&explain(&timeline)).iter().map(|(_, took)| *took).sum();
            assert_eq!(total, timeline.ended - timeline.began);
            let lasts = timeline.objects[1..]
                .iter()
                .filter_map(|one| one.tries.last()?.last);
            let urgent = lasts.max().expect("an end") - timeline.began;
            (urgent, hints(&timeline), report::explained(&timeline))
        };
        let slow = Duration::from_millis(200);
        let (without, hinted, said) = visit(false, slow);
        assert!(hinted.is_empty() && !said.contains("Early Hints"), "{said}");
        let (with, hinted, said) = visit(true, slow);
        println!("{said}");
        assert!(said.contains("/a.css: named by Early Hints 200."), "{said}");
        assert!(said.contains("2 of 2 objects are used by the page"), "{said}");
        let gains = hinted.iter().map(|hint| hint.earlier.filter(|_| hint.is_used));
        let gains: Vec<_> = gains.map(|earlier| earlier.expect("a use")).collect();
        println!("named {gains:?} earlier than by the page");
        assert_eq!(gains.len(), 2);
        assert!(gains.iter().all(|gain| *gain > Duration::from_millis(100)));
        println!("style sheet and script complete after {without:?} without early hints, {with:?} with them");
        assert!(
            with + Duration::from_millis(100) < without,
            "{with:?}, {without:?}"
        );
        // The gain goes with its cause: where the page is ready at once, there is none.
        let (without, ..) = visit(false, Duration::ZERO);
        let (with, ..) = visit(true, Duration::ZERO);
        println!("... {without:?} and {with:?} if the page is ready at once");
        assert!(with + Duration::from_millis(5) > without, "{with:?}, {without:?}");
    }

    /// When each object of a page with these files is complete, with their names, over HTTP/2 and a line of 1 Mbit/s.
    fn completions(priorities: Priorities, page: &str, files: &[&'static str]) -> Vec<(Duration, String)> {
        let content: &'static [u8] = vec![b' '; 40_000].leak();
        let mut made: Vec<(&'static str, &'static [u8])> =
            files.iter().map(|name| (*name, content)).collect();
        made.push(("index.html", page.as_bytes().to_vec().leak()));
        let source = Source::Embedded {
            files: made.leak(),
            modified: UnixTime::from_secs(784_111_777),
        };
        let config = Config {
            http2: Http2::All,
            ..Config::default()
        };
        let server = Server::open(config, source, None, Seed(1)).expect("a server");
        let mut hosts = Hosts {
            link: parsed("rate=1M rtt=80ms").expect("a link"),
            ..Hosts::today(Network::Wan)
        };
        // Nothing overtakes bytes in the kernel. Real sockets hold few (`TCP_NOTSENT_LOWAT`); the simulated ones have no
        // such limit, so a small send buffer stands in for it.
        hosts.server.tcp.stack.send_buffer = Bytes(16 << 10);
        let plan = Plan {
            priorities,
            ..plan_of("h2")
        };
        let visit = |hosts: &Hosts| {
            over(
                hosts,
                plan.clone(),
                Entries::new(),
                None,
                hosted(&server),
                Seed(1),
            )
            .1
        };
        // With a cold cache the server would send each file as soon as it is loaded.
        visit(&Hosts::today(Network::Lan));
        let timeline = visit(&hosts).timeline;
        assert_eq!(
            (timeline.objects.len(), timeline.sums().failed),
            (files.len() + 1, 0)
        );
        let ends = timeline.objects[1..].iter().map(|object| {
            let last = object.tries[0].last.expect("complete");
            let name = object.url.rsplit('/').next().unwrap_or_default();
            (last - timeline.began, name.to_owned())
        });
        let mut ends: Vec<_> = ends.collect();
        ends.sort();
        println!("{priorities}, {page}: {ends:?}");
        ends
    }

    /// Which of six images is complete first: the last one with `fetchpriority=high`, and none without the attribute or
    /// without the field that carries it.
    #[test]
    fn a_high_fetchpriority_brings_the_last_image_first() {
        let names = ["0.png", "1.png", "2.png", "3.png", "4.png", "5.png"];
        let first = |priorities, attribute: &str| {
            let images: String = names[..5]
                .iter()
                .map(|name| format!("<img src={name}>"))
                .collect();
            let page = format!("{images}<img {attribute} src=5.png>");
            let ends = completions(priorities, &page, &names);
            // How long the first is ahead of the second.
            (ends[0].1.clone(), ends[1].0 - ends[0].0)
        };
        for priorities in [Priorities::Chromium, Priorities::Firefox] {
            let (name, ahead) = first(priorities, "fetchpriority=high");
            assert_eq!(name, "5.png", "{priorities}");
            assert!(ahead > Duration::from_millis(100), "{priorities}: {ahead:?}");
            assert_ne!(first(priorities, "").0, "5.png", "{priorities}");
            assert_ne!(first(priorities, "fetchpriority=low").0, "5.png", "{priorities}");
        }
        assert_ne!(first(Priorities::None, "fetchpriority=high").0, "5.png");
    }

    /// Two scripts after an image: the second overtakes the first if only the first is `async`, in Chromium. Firefox gives
    /// both the same urgency in the body, and in the head does as Chromium.
    #[test]
    fn an_async_script_gives_way_to_a_later_one_that_blocks() {
        let order = |priorities, before: &str, attribute: &str| {
            let scripts = format!("<script {attribute} src=a.js></script><script src=b.js></script>");
            let page = format!("{before}{scripts}<img src=c.png>");
            let ends = completions(priorities, &page, &["a.js", "b.js", "c.png"]);
            let scripts = ends.into_iter().map(|(_, name)| name);
            scripts.filter(|name| name.ends_with(".js")).collect::<Vec<_>>()
        };
        let (chromium, firefox) = (Priorities::Chromium, Priorities::Firefox);
        let late = "<img src=c.png>";
        for (priorities, before, attribute, want) in [
            (chromium, late, "async", ["b.js", "a.js"]),
            (chromium, late, "defer", ["b.js", "a.js"]),
            (chromium, late, "", ["a.js", "b.js"]),
            (chromium, "", "async", ["b.js", "a.js"]),
            (firefox, "", "async", ["b.js", "a.js"]),
            (firefox, "", "", ["a.js", "b.js"]),
            (firefox, late, "async", ["a.js", "b.js"]),
            (Priorities::None, late, "async", ["a.js", "b.js"]),
        ] {
            assert_eq!(
                order(priorities, before, attribute),
                want,
                "{priorities} {before} {attribute}"
            );
        }
    }

    #[test]
    fn the_same_on_every_run() {
        let [one, other] = [(); 2].map(|()| visit(Network::Wan, "http10"));
        assert_eq!(one.figures, other.figures);
        assert_eq!(explain(&one.outcome.timeline), explain(&other.outcome.timeline));
    }
}
