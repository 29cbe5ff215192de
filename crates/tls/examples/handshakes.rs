//! Measures the processor time of TLS handshakes, for each end: `handshakes [COUNT]`.
//!
//! Both ends are in memory and take turns on one thread, so that the time between calls of an end is its own. Prints a median
//! over COUNT handshakes (default 400) for each kind, in µs. The source of `model::tcp::setup`'s processor times.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::sync::Arc;
use tls::engine::Engine;
use tls::policy::Policy;
use tls::settings::{Maker, Options};
use tls::tickets::{Ratchet, Secret};
use tls::trust::{Client, Trust, Versions};
use units::Instant;

/// A kind of handshake.
struct Kind {
    name: &'static str,
    version: Versions,
    policy: Policy,
    resumes: bool,
    is_rsa: bool,
}

const fn kind(name: &'static str, version: Versions, policy: Policy, resumes: bool, is_rsa: bool) -> Kind {
    Kind {
        name,
        version,
        policy,
        resumes,
        is_rsa,
    }
}

const KINDS: [Kind; 7] = [
    kind("TLS 1.3", Versions::Tls13, Policy::Default, false, false),
    kind("TLS 1.3, resumed", Versions::Tls13, Policy::Default, true, false),
    kind(
        "TLS 1.3, classical",
        Versions::Tls13,
        Policy::Classical,
        false,
        false,
    ),
    kind(
        "TLS 1.3, classical, resumed",
        Versions::Tls13,
        Policy::Classical,
        true,
        false,
    ),
    kind("TLS 1.2", Versions::Tls12, Policy::Default, false, false),
    kind("TLS 1.2, resumed", Versions::Tls12, Policy::Default, true, false),
    kind("TLS 1.3, RSA-2048", Versions::Tls13, Policy::Default, false, true),
];

/// What one end spent, in nanoseconds.
#[derive(Default)]
struct Spent {
    client: u64,
    server: u64,
}

fn configurations(kind: &Kind) -> (Arc<ServerConfig>, Client) {
    let algorithm: &rcgen::SignatureAlgorithm = match kind.is_rsa {
        true => &rcgen::PKCS_RSA_SHA256,
        false => &rcgen::PKCS_ECDSA_P256_SHA256,
    };
    let key = rcgen::KeyPair::generate_for(algorithm).expect("a key");
    let parameters = rcgen::CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    let secret = Secret::new(runtime::clock::wall().secs.unsigned_abs()).expect("random bytes");
    let maker = Maker::new(Ratchet::new(secret).expect("ticket keys")).with_policy(kind.policy);
    let pair = maker
        .pair(certificate.pem().as_bytes(), key.serialize_pem().as_bytes())
        .expect("a pair");
    let server = maker.server(&[pair], &Options::default()).expect("a server");
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).expect("a root");
    let trust = Trust::Roots(Arc::new(roots));
    let client = Client::new(trust, kind.version, kind.policy, kind.resumes, &[]).expect("a client");
    (server, client)
}

/// One handshake and a byte each way, so that tickets arrive. Whether a session was resumed, and what each end spent on
/// the handshake.
fn handshake(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>) -> (bool, Spent) {
    let mut spent = Spent::default();
    let mut scratch = Vec::new();
    let mut plain = Vec::new();
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let began = runtime::clock::now();
    let name = ServerName::try_from("a.test").expect("a name");
    let mut near = Engine::client(Arc::clone(client), name).expect("a client");
    near.receive(&[], &mut scratch, &mut plain, &mut to_server)
        .expect("a ClientHello");
    spent.client += since(began);
    let began = runtime::clock::now();
    let mut far = Engine::server(Arc::clone(server)).expect("a server");
    spent.server += since(began);
    while near.is_handshaking() || far.is_handshaking() {
        let began = runtime::clock::now();
        far.receive(
            &std::mem::take(&mut to_server),
            &mut scratch,
            &mut plain,
            &mut to_client,
        )
        .expect("the server goes on");
        spent.server += since(began);
        let began = runtime::clock::now();
        near.receive(
            &std::mem::take(&mut to_client),
            &mut scratch,
            &mut plain,
            &mut to_server,
        )
        .expect("the client goes on");
        spent.client += since(began);
    }
    // Tickets come behind the handshake in TLS 1.3: making them is the server's work, keeping them the client's.
    let began = runtime::clock::now();
    far.receive(
        &std::mem::take(&mut to_server),
        &mut scratch,
        &mut plain,
        &mut to_client,
    )
    .expect("the server goes on");
    spent.server += since(began);
    let began = runtime::clock::now();
    near.receive(
        &std::mem::take(&mut to_client),
        &mut scratch,
        &mut plain,
        &mut to_server,
    )
    .expect("the client goes on");
    spent.client += since(began);
    (near.agreed().resumed, spent)
}

fn since(began: Instant) -> u64 {
    runtime::clock::now().since(began).as_nanos() as u64
}

fn median(mut all: Vec<u64>) -> f64 {
    all.sort_unstable();
    all[all.len() / 2] as f64 / 1e3
}

fn main() {
    let count: usize = std::env::args()
        .nth(1)
        .map_or(400, |text| text.parse().expect("a count"));
    println!("| handshake | client, µs | server, µs |\n|---|---:|---:|");
    for kind in &KINDS {
        let (server, client) = configurations(kind);
        let client = client.config();
        // The first has no ticket to resume with.
        handshake(&server, &client);
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for _ in 0..count.max(1) {
            let (resumed, spent) = handshake(&server, &client);
            assert_eq!(resumed, kind.resumes, "{}", kind.name);
            near.push(spent.client);
            far.push(spent.server);
        }
        println!("| {} | {:.0} | {:.0} |", kind.name, median(near), median(far));
    }
}
