//! What must hold whatever a client says in its transport parameters and frames: the endpoint lives on, and forgets it
//! when its time is up.

use crate::endpoint::{Endpoint, Shared};
use crate::hostile::{Hostile, Parameters};
use crate::limits::Limits;
use runtime::Unshared;
use runtime::datagram::Sim;
use runtime::session::NoJob;
use runtime::streams::{Event, Service, Session, Transport, Wanted};
use rustls::{ClientConfig, RootCertStore};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use tls::settings::{Maker, Options, Slot};
use tls::tickets::{Ratchet, Secret};
use units::Instant;

/// Rounds of datagrams in both directions at most.
const ROUNDS_MAX: usize = 20;

/// Takes what comes on streams, and says nothing.
struct Sink;

impl Session for Sink {
    type Cx = Unshared<NoJob>;

    const INTERNAL_ERROR: u64 = 1;

    fn handle(
        &mut self,
        _: &mut Self::Cx,
        event: Event<'_, NoJob>,
        transport: &mut dyn Transport,
        _: Instant,
    ) {
        if let Event::Readable(id) = event {
            transport.read(id, &mut |_| {});
        }
    }

    fn poll(&mut self, _: &mut Self::Cx, _: &mut dyn Transport, _: Instant) -> Option<Wanted<NoJob>> {
        None
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn closed(&mut self, _: &mut Self::Cx, _: Instant) {}
}

struct Sinks;

impl Service for Sinks {
    type Session = Sink;

    fn context(&self, _: usize) -> Unshared<NoJob> {
        Unshared::default()
    }

    fn accept(&self, _: &mut Unshared<NoJob>, _: SocketAddr, _: Instant) -> Option<Sink> {
        Some(Sink)
    }
}

/// The TLS of all runs: that of the server, and that of a client which trusts it.
static CONFIGURATIONS: LazyLock<(Arc<rustls::ServerConfig>, Ratchet, Arc<ClientConfig>)> =
    LazyLock::new(|| {
        let made = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).expect("a certificate");
        let tickets = Ratchet::new(Secret::new(0).expect("chance")).expect("keys");
        let maker = Maker::new(tickets.clone());
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let pair = maker.pair(chain.as_bytes(), key.as_bytes()).expect("a pair");
        let server = maker.server(&[pair], &Options::default()).expect("TLS");
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).expect("a root");
        let mut client = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"sink".to_vec()];
        (server, tickets, Arc::new(client))
    });

/// Reads `data` as transport parameters and then as frames of packets. First byte: whether those that every client needs come
/// first (its upper bit), and the length of the rest. Before the frames of each packet: their length, divided by 4.
///
/// # Panics
/// If the endpoint panics, or keeps the connection for longer than its time.
pub fn client(data: &[u8]) {
    if let Some((&first, rest)) = data.split_first() {
        run(first, rest);
    }
}

fn run(first: u8, data: &[u8]) -> Hostile {
    let (parameters, mut frames) = data.split_at(usize::from(first & 0x7f).min(data.len()));
    let mut given = match first & 0x80 {
        0 => Parameters::ample(),
        _ => Parameters::default(),
    };
    given.0.extend_from_slice(parameters);
    let (server, tickets, tls) = &*CONFIGURATIONS;
    let limits = Limits::default();
    let shared = Arc::new(Shared::new(
        Slot::new(Arc::clone(server)),
        tickets.clone(),
        &[b"sink"],
        limits,
    ));
    let mut sim = Sim::new(Endpoint::new(Arc::clone(&shared), Arc::new(Sinks), 0));
    let mut client = Hostile::new(Arc::clone(tls), "a.test", &given, [7; 8]).expect("TLS 1.3");
    exchange(&mut sim, &mut client);
    while let Some((&length, rest)) = frames.split_first() {
        let (piece, rest) = rest.split_at((usize::from(length) * 4).min(rest.len()));
        client.send(piece);
        exchange(&mut sim, &mut client);
        frames = rest;
    }
    assert!(shared.open() <= 1, "one client has one connection");
    // It may have closed the connection, whose rest stays for three probe timeouts (RFC 9000 section 10.2).
    sim.advance(limits.idle_time * 3);
    assert_eq!(shared.open(), 0, "a client that is gone is forgotten");
    client
}

fn exchange(sim: &mut Sim<Endpoint<Sinks>>, client: &mut Hostile) {
    let peer = SocketAddr::from(([192, 0, 2, 2], 5_000));
    for _ in 0..ROUNDS_MAX {
        let sent = client.take();
        sent.iter().for_each(|datagram| sim.send(peer, datagram));
        let came = sim.take_sent();
        if came.is_empty() {
            return;
        }
        came.iter().for_each(|(_, datagram)| client.receive(datagram));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::frames;
    use proptest::prelude::*;

    /// Otherwise the properties below would show nothing.
    #[test]
    fn its_frames_reach_the_endpoint() {
        let plain = run(0, &[]);
        assert!(plain.is_connected() && plain.closed.is_none(), "{plain:?}");
        // A question and padding; then an acknowledgment of what was never sent.
        let mut asks = vec![3];
        frames::path_challenge(7, &mut asks);
        asks.resize(13, 0);
        let asked = run(0, &asks);
        assert_eq!(asked.counts.get(&frames::PATH_RESPONSE), Some(&1));
        assert_eq!(asked.closed, None);
        let mut lies = vec![2];
        frames::ack(50_000, 0, &mut lies);
        lies.resize(9, 0);
        let closed = run(0, &lies).closed.expect("the end");
        assert_eq!(
            (closed.code, closed.by_application),
            (0x0a, false),
            "PROTOCOL_VIOLATION"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 64,
            rng_seed: proptest::test_runner::RngSeed::Fixed(7),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn whatever_a_client_says_it_is_forgotten(data in prop::collection::vec(any::<u8>(), 0..400)) {
            client(&data);
        }

        #[test]
        fn parameters_with_any_values_are_taken_or_refused(
            values in prop::collection::vec((0_u64..0x22, any::<u64>()), 0..10),
            frames in prop::collection::vec(0_u8..0x1f, 0..80),
        ) {
            let parameters = values.iter().fold(Parameters::default(), |to, &(id, value)| to.integer(id, value >> (value & 63)));
            let mut data = vec![parameters.0.len().min(127) as u8];
            data.extend_from_slice(&parameters.0[..parameters.0.len().min(127)]);
            data.push(20);
            data.extend_from_slice(&frames);
            client(&data);
        }
    }
}
