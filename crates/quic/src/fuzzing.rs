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

/// Sends back what comes on streams, as far as the windows of the client permit, and drops the rest.
struct Echo;

impl Session for Echo {
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
            let mut bytes = Vec::new();
            transport.read(id, &mut |part| bytes.extend_from_slice(part));
            // Bidirectional (RFC 9000 section 2.1).
            if id & 2 == 0 {
                transport.write(id, &bytes);
            }
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

struct Echoes;

impl Service for Echoes {
    type Session = Echo;

    fn context(&self, _: usize) -> Unshared<NoJob> {
        Unshared::default()
    }

    fn accept(&self, _: &mut Unshared<NoJob>, _: SocketAddr, _: Instant) -> Option<Echo> {
        Some(Echo)
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
        client.alpn_protocols = vec![b"echo".to_vec()];
        (server, tickets, Arc::new(client))
    });

/// Reads `data` as transport parameters and then as frames of packets. First byte: the length of the parameters, and whether they
/// are all there are (its upper bit); otherwise they follow those of [`Parameters::ample`], and repeating one of these is an error.
/// Before the frames of each packet: their length, divided by 4.
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
        &[b"echo"],
        limits,
    ));
    let mut sim = Sim::new(Endpoint::new(Arc::clone(&shared), Arc::new(Echoes), 0));
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

fn exchange(sim: &mut Sim<Endpoint<Echoes>>, client: &mut Hostile) {
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
    use proptest::test_runner::{RngSeed, TestRunner};
    use std::cell::Cell;

    fn config() -> ProptestConfig {
        ProptestConfig {
            cases: 64,
            rng_seed: RngSeed::Fixed(7),
            failure_persistence: None,
            ..ProptestConfig::default()
        }
    }

    /// A client with these parameters alone, which then sends `frames`, as [`client`] reads them.
    fn run_alone(parameters: &Parameters, frames: &[u8]) -> Hostile {
        let length = parameters.0.len();
        assert!(
            length < 0x80,
            "{length} bytes are more than the first byte can say"
        );
        let mut data = parameters.0.clone();
        let words = frames.len().div_ceil(4);
        data.push(words.min(255) as u8);
        data.extend_from_slice(frames);
        // The rest of the last word is padding.
        data.resize(length + 1 + words * 4, 0);
        run(0x80 | length as u8, &data)
    }

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
        #![proptest_config(config())]

        #[test]
        fn whatever_a_client_says_it_is_forgotten(data in prop::collection::vec(any::<u8>(), 0..400)) {
            client(&data);
        }

        /// The windows and numbers of streams. The server sends what they permit and no more.
        #[test]
        fn any_windows_hold(drawn in prop::array::uniform6(any::<u64>())) {
            const CONTENT: usize = 1_000;
            // Of any size, up to what an integer can be (RFC 9000 section 16).
            let values = drawn.map(|value| (value >> (value & 63)) & (u64::MAX >> 2));
            let parameters = (0x04..).zip(values).fold(Parameters::least(), |to, (id, value)| to.integer(id, value));
            let mut asks = Vec::new();
            frames::stream(0, 0, &[7; CONTENT], true, &mut asks);
            let client = run_alone(&parameters, &asks);
            let [connection, own_stream, _, _, bidirectional, unidirectional] = values;
            // RFC 9000 section 4.6.
            let are_legal = bidirectional.max(unidirectional) <= 1 << 60;
            prop_assert_eq!(client.is_connected(), are_legal, "{:?}", client);
            let sent = if are_legal { connection.min(own_stream).min(CONTENT as u64) } else { 0 };
            prop_assert_eq!(client.stream_bytes, sent);
        }
    }

    #[test]
    fn parameters_with_any_values_are_taken_or_refused() {
        let values = prop::collection::vec((0_u64..0x22, any::<u64>()), 0..10);
        let frames = prop::collection::vec(0_u8..0x1f, 0..80);
        let taken = Cell::new(0);
        let ran = TestRunner::new(config()).run(&(values, frames), |(values, frames)| {
            let parameters = values.iter().fold(Parameters::least(), |to, &(id, value)| {
                to.integer(id, value >> (value & 63))
            });
            let client = run_alone(&parameters, &frames);
            if client.is_connected() && !values.is_empty() {
                taken.set(taken.get() + 1);
            }
            Ok(())
        });
        if let Err(failed) = ran {
            panic!("{failed}");
        }
        // About a quarter: the others repeat a parameter, have one of servers or a value that is illegal.
        assert!(taken.get() >= 4, "{} of 64 were taken", taken.get());
    }
}
