//! Which version of HTTP a server prefers: one connection before a run, whose TLS handshake decides it (ALPN, RFC 7301).
//! Asks for nothing else.

use crate::secure::{self, Secure};
use runtime::dial::{Crew, Happened, Port};
use std::net::SocketAddr;
use units::{Duration, Instant};

/// How long the handshake may take. A run that begins without an answer says itself why it fails.
const PATIENCE: Duration = Duration::from_secs(5);

/// The only line.
const LINE: u32 = 0;

/// A connection that ends with its handshake.
#[derive(Debug, Default)]
struct Negotiation {
    is_http2: bool,
}

impl Crew for Negotiation {
    fn start(&mut self, port: &mut Port, now: Instant) {
        port.connect(LINE);
        port.wake(LINE, now + PATIENCE);
    }

    fn handle(&mut self, _: u32, happened: Happened<'_>, port: &mut Port, _: Instant) {
        match happened {
            Happened::Connected | Happened::Inspected(_) | Happened::Measured(_) => {}
            Happened::Secured(agreed) => {
                self.is_http2 = agreed.protocol == "h2";
                port.close(LINE);
                port.end();
            }
            _ => {
                port.close(LINE);
                port.end();
            }
        }
    }

    fn stop(&mut self, port: &mut Port, _: Instant) {
        port.end();
    }
}

/// Whether the server at this address chooses HTTP/2 over HTTP/1.1; false if it cannot be asked.
pub(super) fn chooses_http2(peer: SocketAddr, secure: &Secure) -> bool {
    let running = secure::start(vec![Negotiation::default()], peer, Some(&secure.for_either()));
    let ended = running.and_then(secure::Crews::join);
    ended.is_ok_and(|ended| ended.iter().any(|(one, _)| one.is_http2))
}
