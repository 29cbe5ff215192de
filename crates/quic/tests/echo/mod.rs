//! A service that sends back what comes on each stream, or has another host answer it, and TLS for it.

use quic::Limits;
use quic::endpoint::Shared;
use runtime::Unshared;
use runtime::memory::Budget;
use runtime::session::{Ask, Dialing, NoJob, PeerEvent, Ticket, Upstream};
use runtime::streams::{self, Input, Service, Session, Transport, Wanted};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tls::rustls::{self, RootCertStore};
use tls::settings::{Maker, Options, Slot};
use tls::tickets::{Ratchet, Secret};
use units::{Duration, Instant};

type Cx = Unshared<NoJob>;

/// Whether each handshake resumed a session, in their order.
type Handshakes = Arc<Mutex<Vec<bool>>>;

/// What a stream begins with that another host is to answer.
pub(crate) const PASSED: &[u8] = b"pass on: ";

/// What a stream begins with that makes the session panic.
pub(crate) const PANICS: &[u8] = b"panic: ";

/// Sends back what comes on a stream, with its end. That of a stream which begins with [`PASSED`] goes to another host, and the
/// first bytes that come from there go back.
#[derive(Default)]
pub(crate) struct Echo {
    handshakes: Handshakes,
    unsent: BTreeMap<u64, (Vec<u8>, bool)>,
    asks: VecDeque<(Ticket, Ask)>,
    unacknowledged: usize,
    ends: Option<Instant>,
    drains: bool,
    is_connected: bool,
    /// When something happened last.
    stirred: Instant,
    /// Connections that are open, of this service.
    open: Arc<AtomicUsize>,
}

impl Session for Echo {
    type Cx = Cx;

    const INTERNAL_ERROR: u64 = 9;

    fn handle(
        &mut self,
        _: &mut Cx,
        event: streams::Event<'_, NoJob>,
        transport: &mut dyn Transport,
        now: Instant,
    ) {
        self.stirred = now;
        match event {
            streams::Event::Connected(secured) => {
                self.handshakes.lock().expect("no panic").push(secured.resumed);
                self.is_connected = true;
            }
            streams::Event::Readable(id) => {
                let entry = self.unsent.entry(id).or_default();
                let input = transport.read(id, &mut |bytes| entry.0.extend_from_slice(bytes));
                assert!(!entry.0.starts_with(PANICS), "as it was asked to");
                entry.1 |= input == Input::End;
                if entry.1 && entry.0.starts_with(PASSED) {
                    // The end comes with the answer.
                    entry.1 = false;
                    let upstream = Upstream::Tcp(SocketAddr::from(([192, 0, 2, 9], 80)));
                    let ticket = Ticket(u32::try_from(id).expect("few streams"));
                    self.asks.push_back((ticket, Ask::Dial(Arc::new(upstream))));
                }
            }
            streams::Event::Peer(ticket, event) => {
                let Some(entry) = self.unsent.get_mut(&u64::from(ticket.0)) else {
                    return;
                };
                match event {
                    PeerEvent::Connected => {
                        let bytes = std::mem::take(&mut entry.0);
                        self.asks.push_back((ticket, Ask::Send(bytes)));
                    }
                    PeerEvent::Sent => self.asks.push_back((ticket, Ask::Read)),
                    PeerEvent::Bytes(bytes) => {
                        *entry = (bytes.to_vec(), true);
                        self.asks.push_back((ticket, Ask::Close));
                    }
                    PeerEvent::Lost(loss) => *entry = (loss.to_string().into_bytes(), true),
                    PeerEvent::Eof | PeerEvent::Reused(_) | PeerEvent::Joined => {}
                }
            }
            streams::Event::Finished(_) => self.unacknowledged -= 1,
            streams::Event::Drain => self.drains = true,
            streams::Event::Cut => {
                self.unsent.keys().for_each(|&id| transport.reset(id, 7));
                self.unsent.clear();
                self.ends = Some(now + streams::LAST_WORDS);
            }
            streams::Event::GiveWay(_) => self.ends = Some(now),
            streams::Event::Deadline => transport.close(7, "cut"),
            _ => {}
        }
    }

    fn poll(&mut self, _: &mut Cx, transport: &mut dyn Transport, _: Instant) -> Option<Wanted<NoJob>> {
        if let Some((ticket, ask)) = self.asks.pop_front() {
            return Some(Wanted::Peer(ticket, ask));
        }
        self.unsent.retain(|&id, (bytes, is_whole)| {
            if bytes.starts_with(PASSED) {
                return true;
            }
            let most = bytes.len().min(transport.room());
            let taken = transport.write(id, &bytes[..most]).unwrap_or(most);
            bytes.drain(..taken);
            let is_over = *is_whole && bytes.is_empty();
            if is_over {
                transport.finish(id);
                self.unacknowledged += 1;
            }
            !is_over
        });
        if self.drains && self.is_connected && self.unsent.is_empty() && self.unacknowledged == 0 {
            transport.close(0, "drained");
        }
        None
    }

    fn deadline(&self) -> Option<Instant> {
        self.ends
    }

    fn is_idle(&self) -> bool {
        self.unsent.is_empty() && self.unacknowledged == 0
    }

    fn idle_since(&self, _: &Cx) -> Option<Instant> {
        (self.is_idle() && self.ends.is_none()).then_some(self.stirred)
    }

    fn closed(&mut self, _: &mut Cx, _: Instant) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
pub(crate) struct Echoes {
    pub(crate) open: Arc<AtomicUsize>,
    /// Connections that may be open; 0: any number.
    pub(crate) open_max: AtomicUsize,
    /// Seconds without a packet after which new connections are dropped; 0: as the limits say.
    pub(crate) silence_max: AtomicU64,
    pub(crate) retried: AtomicUsize,
    /// Datagrams of new peers that got no answer.
    pub(crate) crowded: AtomicUsize,
    pub(crate) handshakes: Handshakes,
    pub(crate) budget: Arc<Budget>,
    /// How often it was asked to close what it keeps idle.
    pub(crate) spared: AtomicUsize,
}

impl Service for Echoes {
    type Session = Echo;

    fn context(&self, _: usize) -> Cx {
        Cx::default()
    }

    fn accept(&self, cx: &mut Cx, peer: SocketAddr, _: Instant) -> Option<Echo> {
        if self.is_full(cx, peer) {
            return None;
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        Some(Echo {
            handshakes: Arc::clone(&self.handshakes),
            open: Arc::clone(&self.open),
            ..Echo::default()
        })
    }

    fn is_full(&self, _: &Cx, _: SocketAddr) -> bool {
        let most = self.open_max.load(Ordering::Relaxed);
        most > 0 && self.open.load(Ordering::Relaxed) >= most
    }

    fn silence_max(&self, _: &Cx) -> Option<Duration> {
        let seconds = self.silence_max.load(Ordering::Relaxed);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.budget)
    }

    fn dialing(&self) -> Option<Dialing> {
        Some(Dialing::default())
    }

    fn close_idle(&self) -> bool {
        self.spared.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn retried(&self, _: &mut Cx) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }

    fn crowded(&self, _: &mut Cx) {
        self.crowded.fetch_add(1, Ordering::Relaxed);
    }
}

/// What endpoints of such a service share, the service, and the TLS of a client that trusts it.
pub(crate) fn served(limits: Limits) -> (Arc<Shared>, Arc<Echoes>, rustls::ClientConfig) {
    let made = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).expect("a certificate");
    let tickets = Ratchet::new(Secret::new(0).expect("chance")).expect("keys");
    let maker = Maker::new(tickets.clone());
    let pair = maker
        .pair(
            made.cert.pem().as_bytes(),
            made.signing_key.serialize_pem().as_bytes(),
        )
        .expect("a pair");
    let tls = maker
        .server(&[pair], &Options::default())
        .expect("a configuration");
    let shared = Arc::new(Shared::new(Slot::new(tls), tickets, &[b"echo"], limits));
    shared.check().expect("TLS 1.3");
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let mut tls = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"echo".to_vec()];
    (shared, Arc::default(), tls)
}
