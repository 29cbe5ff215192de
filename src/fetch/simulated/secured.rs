//! Both ends of a simulated visit with TLS: HTTP/1.1 and HTTP/2 over simulated TCP, HTTP/3 over QUIC in datagrams.
//!
//! Handshakes and records are real, byte for byte: the client's and the server's code is that of `weir fetch` and
//! `weir serve`. Keys and random numbers differ from run to run. All messages have the same lengths in every run, and all
//! decisions of the transports follow from the seed, so packets and times do, too. Ed25519 serves that: its signatures have one
//! length, those of ECDSA do not. No processor takes time here, neither for cryptography nor for responses, so TCP and
//! QUIC compare by their packets alone.

use super::super::qlog::Taping;
use super::{WALL, config};
use crate::failure::Failure;
use crate::secure::{NO_ERROR, limits_of_quic};
use client::cache::Entries;
use client::fetch::{Fetch, Outcome};
use client::plan::{Mode, Plan};
use link::{Direction, Profile};
use netsim::{DatagramWorld, Hosted, Limits, Vantage};
use quic::dialing::{Dialing, Target};
use quic::endpoint::{Endpoint, Shared};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ED25519, SerialNumber, date_time_ymd,
};
use repro::page::URL;
use repro::visit::{Carried, Figures, Hosts, carry};
use runtime::datagram::Endpoint as _;
use runtime::dial::Crew;
use runtime::dial::datagrams::Carrier as _;
use server::Server;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tls::crew::SecuredCrew;
use tls::policy::Policy;
use tls::rustls::pki_types::ServerName;
use tls::secured::SecuredService;
use tls::settings::{Maker, Options, Slot};
use tls::tickets::{Ratchet, Secret};
use tls::trust::{Client, Trust, Versions};
use units::{Duration, Instant, Seed};
use url::Url;

/// Virtual time after which a world is abandoned; fetches give up earlier by themselves.
const UNTIL: Duration = Duration::from_secs(1_000);

/// Bytes of a serial number: the most that RFC 5280 section 4.1.2.2 permits, and the length that `rcgen` draws.
const SERIAL: [u8; 20] = [0x5a; 20];

/// The TLS of both ends. One for all visits: the server keeps its keys. The client is a new one each time, without sessions of
/// earlier visits.
pub(super) struct Identity {
    slot: Slot,
    tickets: Ratchet,
    client: Client,
    name: ServerName<'static>,
}

/// What a visit left.
pub(super) struct Visited {
    /// Totals at the client.
    pub(super) figures: Figures,
    /// The client's record and its cache.
    pub(super) outcome: Outcome,
    /// The segments as a pcapng file; empty for QUIC.
    pub(super) capture: Vec<u8>,
}

/// The page's URL with https.
pub(super) fn url() -> Url {
    let mut url = Url::parse(URL).expect("a constant, and tests fetch it");
    url.set_scheme("https").expect("http can become https");
    url
}

/// The two ends of a visit over QUIC.
type World = DatagramWorld<Dialing<Fetch>, Endpoint<Server>>;

/// Address of the client over QUIC.
pub(super) fn client_address() -> IpAddr {
    World::client_address().ip()
}

/// Address of the server over QUIC.
pub(super) fn server_address() -> SocketAddr {
    World::server_address()
}

fn refused(why: impl Display) -> Failure {
    Failure::System(format!(
        "cannot set up TLS for the simulation: {why}; a simulation without --https and h3 needs none"
    ))
}

impl Identity {
    /// A server's certificate for the page's host, of an authority as `--tls internal` makes one, and a client that accepts any,
    /// as with `--insecure`.
    ///
    /// # Errors
    /// `System` if the system has no random numbers.
    pub(super) fn new() -> Result<Identity, Failure> {
        let host = url().host_str().unwrap_or_default().to_owned();
        let (chain, key) = pair(&host).map_err(refused)?;
        let wall = u64::try_from(WALL.secs).unwrap_or_default();
        let tickets = Ratchet::new(Secret::new(wall).map_err(refused)?).map_err(refused)?;
        let maker = Maker::new(tickets.clone());
        let pair = maker.pair(chain.as_bytes(), key.as_bytes()).map_err(refused)?;
        let options = Options {
            protocols: &[b"h2", b"http/1.1"],
            ..Options::default()
        };
        let server = maker.server(&[pair], &options).map_err(refused)?;
        let client =
            Client::new(Trust::Anyone, Versions::All, Policy::default(), true, &[]).map_err(refused)?;
        Ok(Identity {
            slot: Slot::new(server),
            tickets,
            client,
            name: ServerName::try_from(host).map_err(refused)?,
        })
    }

    /// Fetches the page between these hosts; over QUIC, only their link matters, and `taping` records what the client sends and
    /// receives.
    ///
    /// # Errors
    /// `System` if TLS cannot be set up.
    pub(super) fn visit(
        &self,
        hosts: &Hosts,
        plan: Plan,
        entries: Entries,
        server: &Server,
        seed: Seed,
        taping: Option<&Taping>,
    ) -> Result<Visited, Failure> {
        match plan.manner.mode {
            Mode::Http3 => self.over_quic(&hosts.link, plan, entries, server, seed, taping),
            _ => Ok(self.over_tcp(hosts, plan, entries, server, seed)),
        }
    }

    fn over_tcp(&self, hosts: &Hosts, plan: Plan, entries: Entries, server: &Server, seed: Seed) -> Visited {
        let protocols: &[&[u8]] = match plan.manner.mode {
            Mode::Http2 => &[b"h2"],
            Mode::Auto => &[b"h2", b"http/1.1"],
            _ => &[b"http/1.1"],
        };
        let fetch = Fetch::new(url(), plan, entries, WALL);
        let carried = Carried {
            crew: self.client(fetch, protocols),
            fetch: SecuredCrew::inner,
            into_fetch: SecuredCrew::into_inner,
        };
        let hosted = Box::new(self.hosted(server));
        let (figures, outcome, capture) = carry(hosts, carried, None, hosted, seed);
        Visited {
            figures,
            outcome,
            capture,
        }
    }

    /// A client's crew over TLS, which offers these protocols (ALPN).
    pub(super) fn client<C: Crew>(&self, crew: C, protocols: &[&[u8]]) -> SecuredCrew<C> {
        let client = self.client.clone().with_protocols(protocols);
        SecuredCrew::new(crew, client.config(), self.name.clone(), |now| now)
    }

    /// The server over TLS, as an application of a simulated host.
    pub(super) fn hosted(&self, server: &Server) -> Hosted<SecuredService<Server>> {
        let slots = vec![Some(self.slot.clone())];
        let service = SecuredService::new(Arc::new(server.clone()), slots, self.tickets.clone());
        Hosted::new(service, Duration::ZERO, WALL)
    }

    fn over_quic(
        &self,
        link: &Profile,
        plan: Plan,
        entries: Entries,
        server: &Server,
        seed: Seed,
        taping: Option<&Taping>,
    ) -> Result<Visited, Failure> {
        let mut world = self.quic_world(link, plan, entries, server, seed, taping)?;
        // The client is the last to send: CONNECTION_CLOSE (RFC 9000 section 10.2).
        world.run(Instant::ZERO + UNTIL, |world| world.client().has_ended());
        let mut figures = Figures::default();
        for (_, logged) in world.seen_from(Vantage::Client) {
            let way = match logged.direction {
                Direction::Up => &mut figures.up,
                Direction::Down => &mut figures.down,
            };
            way.count(logged.bytes as u64, logged.packet_bytes());
        }
        let mut outcome = world.into_client().into_crew().into_outcome();
        let timeline = &mut outcome.timeline;
        timeline.packets = Some(figures.packets() as u64);
        figures.seconds = (timeline.ended - Instant::ZERO).as_secs_f64();
        figures.connections = timeline.connections.len() as f64;
        Ok(Visited {
            figures,
            outcome,
            capture: Vec::new(),
        })
    }

    /// The two ends and their link before a visit over QUIC.
    fn quic_world(
        &self,
        link: &Profile,
        plan: Plan,
        entries: Entries,
        server: &Server,
        seed: Seed,
        taping: Option<&Taping>,
    ) -> Result<World, Failure> {
        let client = self.client.clone().with_protocols(&[b"h3"]);
        let (tape, client) = match taping {
            Some(taping) => {
                let (tape, client) = taping.with(client);
                (Some(tape), client)
            }
            None => (None, client),
        };
        let target = Target::new(
            client.config(),
            &limits_of_quic(plan.stream_window),
            World::server_address(),
            self.name.to_str().into_owned(),
            NO_ERROR,
        );
        let of_server = config().limits();
        let limits = quic::Limits {
            streams_max: of_server.streams,
            idle_time: of_server.idle_timeout,
            ..quic::Limits::default()
        };
        let shared = Shared::new(self.slot.clone(), self.tickets.clone(), &[b"h3"], limits);
        shared.check().map_err(refused)?;
        let chance = |side: u8| {
            let mut all = [side; 32];
            all[..8].copy_from_slice(&seed.0.to_be_bytes());
            all
        };
        let fetch = Fetch::new(url(), plan, entries, WALL);
        let target = target.map_err(refused)?.taped(tape);
        let target = target.naming(client::http3::error_named);
        let dialing = Dialing::seeded(fetch, target, chance(1));
        let endpoint = Endpoint::seeded(Arc::new(shared), Arc::new(server.clone()), 0, chance(2));
        let world = DatagramWorld::new(link, dialing, endpoint, seed, &Limits::default());
        Ok(world.starting_at(WALL))
    }
}

/// A chain of two certificates as `--tls internal` makes it, and the key of the first, PEM. Their lengths are the same in every
/// run.
fn pair(host: &str) -> Result<(String, String), rcgen::Error> {
    let root_key = KeyPair::generate_for(&PKCS_ED25519)?;
    let mut root = dated(CertificateParams::default());
    root.distinguished_name
        .push(DnType::CommonName, "Weir on this machine");
    root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    root.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let root = root.self_signed(&root_key)?.pem();
    let issuer = Issuer::from_ca_cert_pem(&root, root_key)?;
    let key = KeyPair::generate_for(&PKCS_ED25519)?;
    let names = ["localhost", "127.0.0.1", "::1", host].map(str::to_owned);
    let mut leaf = dated(CertificateParams::new(names)?);
    leaf.use_authority_key_identifier_extension = true;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let leaf = leaf.signed_by(&key, &issuer)?.pem();
    Ok((format!("{leaf}{root}"), key.serialize_pem()))
}

/// The same without a name, with a serial number and a validity of fixed lengths.
fn dated(mut parameters: CertificateParams) -> CertificateParams {
    parameters.distinguished_name = DistinguishedName::new();
    parameters.serial_number = Some(SerialNumber::from_slice(&SERIAL));
    parameters.not_before = date_time_ymd(1997, 1, 1);
    parameters.not_after = date_time_ymd(1997, 12, 31);
    parameters
}

#[cfg(test)]
mod tests {
    use super::super::super::qlog::{Log, Times};
    use super::super::{Today, parsed, plain};
    use super::*;
    use crate::trace::compared::Compared;
    use crate::trace::secrets;
    use crate::trace::taped::framed;
    use crate::voice::Voice;
    use ::trace::{Analyzer, Frame, LinkType, Options};
    use client::explain::{explain, sums};
    use client::timeline::Timeline;
    use repro::visit::Network;
    use serde_json::Value;

    /// Modes that TLS carries, of each version of HTTP.
    const MODES: [&str; 4] = ["http10", "pipelined", "h2", "h3"];

    fn visited(link: &str, manner: &str, is_first: bool, seed: u64) -> Visited {
        let hosts = Hosts {
            link: parsed(link).expect("a link"),
            ..Hosts::today(Network::Lan)
        };
        let plan = plain(manner.parse().expect("a manner"), is_first);
        let today = Today::secured(hosts, plan).expect("keys and a server");
        let visited = today.visit(Seed(seed)).expect("a visit");
        complete(
            &visited.outcome.timeline,
            &format!("{link}, {manner}, seed {seed}"),
        );
        visited
    }

    /// Every object has arrived, and every moment has a cause.
    fn complete(timeline: &Timeline, what: &str) {
        let count = (timeline.objects.len(), timeline.sums().failed);
        assert_eq!(count, (43, 0), "{what}");
        let sum: Duration = sums(&explain(timeline)).iter().map(|(_, took)| *took).sum();
        assert_eq!(sum, timeline.ended - timeline.began, "{what}");
    }

    /// Each visit has keys, random numbers and a server of its own.
    #[test]
    fn a_seed_gives_the_same_visit_with_other_keys() {
        let link = "rate=9M rtt=85ms loss=3%";
        for manner in MODES {
            let [one, other] = [(); 2].map(|()| visited(link, manner, true, 5));
            assert_eq!(one.figures, other.figures, "{manner}");
            let [one_line, other_line] = [&one, &other].map(|one| &one.outcome.timeline);
            assert_eq!(explain(one_line), explain(other_line), "{manner}");
            let another = visited(link, manner, true, 6);
            assert_ne!(one.figures, another.figures, "{manner}");
        }
    }

    #[test]
    fn http_3_loses_packets_and_recovers() {
        let quiet = visited("rate=9M rtt=85ms", "h3", true, 0).figures.seconds;
        for (loss, most) in [("1%", 4.0), ("3%", 6.0), ("burst:2%,30%", 30.0)] {
            let mut signs = 0;
            for seed in 1..=6 {
                let visited = visited(&format!("rate=9M rtt=85ms loss={loss}"), "h3", true, seed);
                let quic = visited.outcome.timeline.connections[0].quic.expect("counters");
                signs += quic.lost + quic.holes;
                let seconds = visited.figures.seconds;
                assert!(
                    seconds >= quiet - 0.1 && seconds < most,
                    "{loss}, seed {seed}: {seconds}"
                );
            }
            assert!(signs > 0, "{loss}: nothing was lost");
        }
    }

    #[test]
    fn the_handshake_takes_two_round_trips_over_tcp_and_one_over_quic() {
        let rtt = Duration::from_millis(200);
        for (manner, round_trips) in [("pipelined", 2), ("h2", 2), ("h3", 1)] {
            let visited = visited("rtt=200ms", manner, true, 1);
            let connection = &visited.outcome.timeline.connections[0];
            let ready = connection.ready().expect("a handshake") - connection.opened;
            assert_eq!(ready, rtt * round_trips, "{manner}");
            assert_eq!(connection.secured.expect("TLS").1.version, "TLS 1.3", "{manner}");
        }
    }

    #[test]
    fn packets_are_counted_alike_over_tcp_and_udp() {
        for manner in MODES {
            for is_first in [true, false] {
                let visited = visited("rate=9M rtt=85ms", manner, is_first, 1);
                let figures = visited.figures;
                let timeline = &visited.outcome.timeline;
                assert_eq!(
                    timeline.sums().packets,
                    Some(figures.packets() as u64),
                    "{manner}"
                );
                let headers = (figures.packet_bytes() - figures.bytes()) / figures.packets();
                // IPv4 and UDP; IPv4 and TCP with timestamps. SYN has more options, and resets have none.
                let expected = match manner {
                    "h3" => 28.0..=28.0,
                    _ => 51.0..=56.0,
                };
                assert!(expected.contains(&headers), "{manner}: {headers}");
                // No packet is larger than the path permits.
                assert!(figures.packet_bytes() <= 1_500.0 * figures.packets(), "{manner}");
                let http = timeline.sums().bytes_in + timeline.sums().bytes_out;
                assert!(figures.bytes() > http as f64, "{manner}: TLS costs bytes");
                assert_eq!(timeline.sums().bytes_again, 0, "{manner}: nothing was lost");
            }
        }
    }

    /// The log of the client and a capture at the server, of one clock.
    #[test]
    fn a_log_of_the_client_beside_a_capture_at_the_server_tells_what_the_link_did() {
        let plan = plain("h3".parse().expect("a manner"), true);
        let today = Today::secured(Hosts::today(Network::Lan), plan.clone()).expect("keys and a server");
        let tls = today.tls.as_ref().expect("TLS");
        let link = parsed("up.delay=30ms down.delay=12ms loss=5%").expect("a link");
        let taping = Taping::default();
        let world = tls.quic_world(&link, plan, Entries::new(), &today.server, Seed(3), Some(&taping));
        let mut world = world.expect("two ends").keeping_payloads();
        world.run(Instant::ZERO + UNTIL, |world| world.client().has_ended());
        let taped = taping
            .take(Some(client_address()), server_address())
            .expect("HTTP/3");
        let times = Times::new(Instant::ZERO, WALL);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("client.qlog");
        let mut log = Log::create(&file, times).expect("a file");
        let keys = taped.keys().to_owned();
        log.take(Some(taped));
        log.write(&Voice::silent()).expect("a log");
        let mut compared = Compared::read(&file).expect("a log of an end");
        let mut analyzer = Analyzer::new(Options {
            packets: true,
            ..Options::default()
        });
        secrets::equip(&mut analyzer);
        analyzer.add_secret_block(keys.as_bytes());
        for ((at, logged), number) in world.seen_from(Vantage::Server).into_iter().zip(1..) {
            let client = SocketAddr::new(client_address(), logged.port);
            let mut frame = Vec::new();
            let is_up = logged.direction == Direction::Up;
            framed(&logged.payload, is_up, client, server_address(), &mut frame);
            analyzer.frame(&Frame {
                number,
                at: times.dated(at),
                link: LinkType::RAW,
                wire_len: frame.len() as u32,
                data: &frame,
            });
        }
        analyzer.finish_frames();
        while let Some(event) = analyzer.next_event() {
            compared.event(&event);
        }
        let all = compared.comparisons(analyzer.summary().start_ns);
        assert_eq!(all.len(), 1);
        let comparison: Value = serde_json::from_str(&all[0].json()).expect("JSON");
        let lost = |direction| world.counters(direction).dropped.loss;
        let [up, down] = [Direction::Up, Direction::Down].map(lost);
        assert!(
            up > 0 && down > 0,
            "{up} {down}: the seed loses packets both ways"
        );
        let way = |name: &str| &comparison[name];
        for (name, delay, lost) in [("sent", 30.0, up), ("received", 12.0, down)] {
            let number = |what: &str| way(name)[what].as_f64().expect(what);
            for what in ["delay_min_ms", "delay_median_ms", "delay_max_ms"] {
                assert!(
                    (number(what) - delay).abs() < 0.01,
                    "{name} {what}: {}",
                    number(what)
                );
            }
            assert!(number("matched") > 20.0, "{name}");
            // A datagram may have several packets, and one of the handshake be lost at the end of its space.
            assert!(
                (1.0..=2.0 * lost as f64).contains(&number("missing")),
                "{name}, {lost} lost"
            );
        }
        let round_trip = comparison["round_trip_ms"].as_f64().expect("a round trip");
        assert!((round_trip - 42.0).abs() < 0.02, "{round_trip}");
        assert_eq!(comparison["unnumbered"], 0);
    }

    #[test]
    fn a_validation_brings_no_content() {
        for manner in ["pipelined", "h2", "h3"] {
            let visited = visited("rate=9M rtt=85ms", manner, false, 1);
            let objects = visited.outcome.timeline.objects.iter();
            let statuses: Vec<u16> = objects.map(|object| object.tries[0].status).collect();
            assert_eq!(statuses, [304; 43], "{manner}");
        }
    }
}
