//! A crew behind TLS, driven in memory against a server's engine.

use super::*;
use crate::policy::Policy;
use crate::settings::{Maker, Options};
use crate::tickets::{Ratchet, Secret};
use crate::trust::{Client, Trust, Versions};
use runtime::dial::Wish;
use rustls::{RootCertStore, ServerConfig};

/// Sends a greeting on line 1 and notes what happens.
#[derive(Default)]
struct Greeter {
    noted: Vec<String>,
}

impl Crew for Greeter {
    fn start(&mut self, port: &mut Port, _: Instant) {
        port.connect(1);
        port.send(1, |out| out.extend_from_slice(b"hello"));
    }

    fn handle(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, _: Instant) {
        assert_eq!(line, 1);
        let note = match happened {
            Happened::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Happened::Secured(agreed) => format!("{} resumed={}", agreed.version, agreed.resumed),
            Happened::Woken(_) => {
                port.connect(1);
                port.send(1, |out| out.extend_from_slice(b"again"));
                return;
            }
            other => format!("{other:?}"),
        };
        self.noted.push(note);
    }

    fn stop(&mut self, port: &mut Port, _: Instant) {
        port.end();
    }
}

struct Bench {
    crew: SecuredCrew<Greeter>,
    port: Port,
    settings: Arc<ServerConfig>,
    server: Engine,
    heard: Vec<u8>,
    /// The peer has sent `close_notify`.
    is_closed: bool,
    now: Instant,
}

fn clock(_: Instant) -> Instant {
    Instant::from_nanos(7)
}

impl Bench {
    fn new(names: &str, asked: &str, versions: Versions, trusts: bool) -> Bench {
        let made = rcgen::generate_simple_self_signed(vec![names.to_owned()]).expect("a certificate");
        let maker = Maker::new(Ratchet::new(Secret::new(1).expect("random")).expect("keys"));
        let key = made.signing_key.serialize_pem();
        let pair = maker.pair(made.cert.pem().as_bytes(), key.as_bytes());
        let settings = maker
            .server(
                &[pair.expect("a pair")],
                &Options {
                    protocols: &[b"http/1.1"],
                    ..Options::default()
                },
            )
            .expect("settings");
        let mut roots = RootCertStore::empty();
        if trusts {
            roots.add(made.cert.der().clone()).expect("a root");
        }
        let client = Client::new(
            Trust::Roots(Arc::new(roots)),
            versions,
            Policy::default(),
            true,
            &[b"http/1.1"],
        );
        let name = ServerName::try_from(asked.to_owned()).expect("a name");
        let config = client.expect("a client").config();
        Bench {
            crew: SecuredCrew::new(Greeter::default(), config, name, clock),
            port: Port::default(),
            server: Engine::server(Arc::clone(&settings)).expect("a server"),
            settings,
            heard: Vec::new(),
            is_closed: false,
            now: Instant::ZERO,
        }
    }

    /// Carries bytes in both directions until both are silent; returns the commands besides sends.
    fn settle(&mut self) -> Vec<Wish> {
        let mut others = Vec::new();
        loop {
            let (wishes, bytes) = self.port.take();
            if wishes.is_empty() {
                return others;
            }
            let mut rest = bytes.as_slice();
            for wish in wishes {
                let Wish::Send(1, len) = wish else {
                    if wish == Wish::Connect(1) {
                        self.server = Engine::server(Arc::clone(&self.settings)).expect("a server");
                    }
                    others.push(wish);
                    continue;
                };
                let (piece, after) = rest.split_at(len);
                rest = after;
                let mut out = Vec::new();
                let received = self
                    .server
                    .receive(piece, &mut Vec::new(), &mut self.heard, &mut out);
                self.is_closed |= received.is_ok_and(|received| received.closed);
                if !out.is_empty() {
                    self.tell(Happened::Bytes(&out));
                }
            }
        }
    }

    fn tell(&mut self, happened: Happened<'_>) {
        self.crew.handle(1, happened, &mut self.port, self.now);
    }

    fn start(&mut self) -> Vec<Wish> {
        self.crew.start(&mut self.port, self.now);
        self.settle()
    }

    fn noted(&mut self) -> Vec<String> {
        std::mem::take(&mut self.crew.inner.noted)
    }

    /// The server sends this, then perhaps `close_notify`.
    fn answer(&mut self, plain: &[u8], closes: bool) {
        let mut out = Vec::new();
        self.server.send(plain, &mut out).expect("keys");
        if closes {
            self.server.close(&mut out).expect("keys");
        }
        self.tell(Happened::Bytes(&out));
    }
}

#[test]
fn a_crew_speaks_through_tls_and_resumes() {
    for versions in [Versions::Tls12, Versions::Tls13] {
        let mut bench = Bench::new("a.test", "a.test", versions, true);
        assert_eq!(bench.start(), [Wish::Connect(1)]);
        assert_eq!(bench.heard, b"hello");
        let shown = format!("TLS {} resumed=false", versions.name());
        assert_eq!(bench.noted(), [shown]);
        bench.answer(b"welcome", false);
        assert_eq!(bench.noted(), ["welcome"]);
        bench.tell(Happened::Woken(Instant::ZERO));
        bench.settle();
        assert!(bench.is_closed, "an earlier connection ends with close_notify");
        assert_eq!(bench.heard, b"helloagain");
        assert_eq!(bench.noted(), [format!("TLS {} resumed=true", versions.name())]);
    }
}

#[test]
fn an_end_is_told_from_a_cut() {
    let mut bench = Bench::new("a.test", "a.test", Versions::All, true);
    bench.start();
    bench.noted();
    bench.answer(b"all", true);
    bench.tell(Happened::Eof);
    assert_eq!(bench.noted(), ["all", "Eof"]);

    let mut bench = Bench::new("a.test", "a.test", Versions::All, true);
    bench.start();
    bench.noted();
    bench.answer(b"part", false);
    bench.tell(Happened::Eof);
    assert_eq!(bench.noted(), ["part", "Lost(Cut)"]);
    assert_eq!(bench.settle(), [Wish::Close(1)]);
}

#[test]
fn refusals_are_named_and_close_the_connection() {
    for (names, trusts, wanted) in [
        ("b.test", true, "not for `a.test` but for"),
        ("a.test", false, "unknown issuer"),
    ] {
        let mut bench = Bench::new(names, "a.test", Versions::All, trusts);
        assert_eq!(bench.start(), [Wish::Connect(1), Wish::Close(1)]);
        assert!(bench.heard.is_empty());
        let noted = bench.noted();
        assert!(noted.len() == 1 && noted[0].contains(wanted), "{noted:?}");
    }
    let mut bench = Bench::new("a.test", "a.test", Versions::All, true);
    bench.crew.start(&mut bench.port, bench.now);
    bench.tell(Happened::Bytes(b"HTTP/1.1 400 Bad Request\r\n"));
    assert!(bench.noted()[0].contains("plain HTTP"));
    let mut bench = Bench::new("a.test", "a.test", Versions::All, true);
    bench.crew.start(&mut bench.port, bench.now);
    bench.tell(Happened::Eof);
    assert!(bench.noted()[0].contains("during the handshake"));
}

#[test]
fn counters_leave_out_what_tls_adds() {
    let mut bench = Bench::new("a.test", "a.test", Versions::All, true);
    bench.start();
    bench.answer(b"welcome", false);
    bench.noted();
    let secure = bench.crew.lines[1].as_ref().expect("a connection");
    let [cipher, plain] = secure.received;
    assert_eq!(plain, 7);
    let tcp = Tcp {
        bytes_in: cipher + 100,
        ..Tcp::default()
    };
    assert_eq!(secure.adjusted(tcp).bytes_in, 107);
}

#[test]
fn the_end_says_goodbye() {
    let mut bench = Bench::new("a.test", "a.test", Versions::All, true);
    bench.start();
    bench.crew.stop(&mut bench.port, bench.now);
    assert!(bench.port.is_ended());
    bench.settle();
    assert!(bench.is_closed);
}
