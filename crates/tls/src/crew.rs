//! A crew that wraps another in TLS: the client's counterpart of [`secured`](crate::secured).
//!
//! ```text
//!            ciphertext                 plaintext
//!   driver ◀────────────▶ SecuredCrew ◀──────────▶ crew
//!                          one Engine a line
//! ```
//! The inner crew is unchanged: it connects, sends and hears plaintext. It learns of the handshake by
//! [`Happened::Secured`] and of its failure by [`Happened::Refused`]. Output that it requests before the handshake is
//! complete waits here. A stream that ends without `close_notify` is reported as [`Failing::Cut`], not as an end (RFC
//! 8446 section 6.1).
//!
//! The clock is the caller's: a handshake's own computation belongs to its time, so it is read again afterwards. In virtual
//! time, computation takes none.

use crate::engine::{Engine, Fault};
use crate::names;
use crate::refusal::{self, Settings};
use runtime::dial::{Crew, Failing, Happened, Port, Security, Tcp, Wish};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ProtocolVersion};
use std::fmt;
use std::sync::Arc;
use units::Instant;

/// A crew whose connections speak TLS to one server.
pub struct SecuredCrew<C> {
    inner: C,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    clock: fn(Instant) -> Instant,
    /// What the client's settings are called in advice.
    settings: &'static Settings,
    /// The commands of the inner crew.
    port: Port,
    /// The TLS of each line's connection.
    lines: Vec<Option<Box<Secure>>>,
    /// Connections opened so far.
    opened: u64,
    scratch: Vec<u8>,
    plain: Vec<u8>,
    out: Vec<u8>,
}

/// The TLS of one connection.
struct Secure {
    engine: Engine,
    /// Tells connections of a line apart.
    number: u64,
    /// Plaintext that waits for the handshake.
    early: Vec<u8>,
    is_secured: bool,
    /// Whether the peer has sent `close_notify`.
    is_ended: bool,
    /// Ciphertext and plaintext received, in bytes.
    received: [u64; 2],
}

impl Secure {
    /// Counters without the bytes that TLS added to what was read.
    fn adjusted(&self, tcp: Tcp) -> Tcp {
        let [cipher, plain] = self.received;
        let added = cipher.saturating_sub(plain + self.engine.undecrypted() as u64);
        Tcp {
            bytes_in: tcp.bytes_in.saturating_sub(added),
            ..tcp
        }
    }
}

impl<C> fmt::Debug for SecuredCrew<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecuredCrew")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<C: Crew> SecuredCrew<C> {
    /// Wraps a crew whose connections go to the server of this name. `clock` returns the time after the handling of an
    /// event that the driver has given this time.
    pub fn new(
        inner: C,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        clock: fn(Instant) -> Instant,
    ) -> SecuredCrew<C> {
        SecuredCrew {
            inner,
            config,
            name,
            clock,
            settings: &refusal::FLAGS,
            port: Port::default(),
            lines: Vec::new(),
            opened: 0,
            scratch: Vec::new(),
            plain: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Explains failed handshakes with these names of settings.
    pub fn with_settings(self, settings: &'static Settings) -> SecuredCrew<C> {
        SecuredCrew { settings, ..self }
    }

    /// The inner crew.
    pub fn inner(&self) -> &C {
        &self.inner
    }

    /// The inner crew, at the end.
    pub fn into_inner(self) -> C {
        self.inner
    }

    fn line(&mut self, line: u32) -> Option<&mut Box<Secure>> {
        self.lines.get_mut(line as usize)?.as_mut()
    }

    fn forget(&mut self, line: u32) -> Option<Box<Secure>> {
        self.lines.get_mut(line as usize)?.take()
    }

    /// Reports an event to the inner crew.
    fn tell(&mut self, line: u32, happened: Happened<'_>, now: Instant) {
        self.inner.handle(line, happened, &mut self.port, now);
    }

    /// Carries out the commands of the inner crew.
    fn obey(&mut self, port: &mut Port, now: Instant) {
        loop {
            let (wishes, bytes) = self.port.take();
            if wishes.is_empty() {
                break;
            }
            let mut rest = bytes.as_slice();
            let mut refused = Vec::new();
            for &wish in &wishes {
                match wish {
                    Wish::Connect(line) => {
                        if let Err(fault) = self.connect(line, port) {
                            refused.push((line, refusal::text_with(&fault, &self.name, self.settings)));
                        }
                    }
                    Wish::Send(line, len) => {
                        let (piece, after) = rest.split_at(len);
                        rest = after;
                        self.send(line, piece, port);
                    }
                    // The kernel cannot tell content from records: all bytes are delivered.
                    Wish::Write(..) | Wish::Abandon(..) | Wish::Blame(..) => {
                        debug_assert!(false, "TLS over TCP carries no streams");
                    }
                    Wish::Skip(..) => {}
                    Wish::Close(line) => {
                        self.part(line, port);
                        port.close(line);
                    }
                    Wish::Leave(line) => {
                        self.part(line, port);
                        port.leave(line);
                    }
                    Wish::Wake(line, at) => port.wake(line, at),
                    Wish::Inspect(line) => port.inspect(line),
                }
            }
            self.port.reuse(wishes, bytes);
            for (line, why) in refused {
                self.tell(line, Happened::Refused(&why), now);
            }
        }
        if self.port.is_ended() && !port.is_ended() {
            for line in 0..self.lines.len() as u32 {
                self.part(line, port);
            }
            port.end();
        }
    }

    /// Opens a connection and sends the ClientHello.
    fn connect(&mut self, line: u32, port: &mut Port) -> Result<(), Fault> {
        self.part(line, port);
        let mut engine = Engine::client(Arc::clone(&self.config), self.name.clone())?;
        self.out.clear();
        engine.receive(&[], &mut self.scratch, &mut self.plain, &mut self.out)?;
        port.connect(line);
        port.send(line, |out| out.extend_from_slice(&self.out));
        if line as usize >= self.lines.len() {
            self.lines.resize_with(line as usize + 1, || None);
        }
        self.opened += 1;
        self.lines[line as usize] = Some(Box::new(Secure {
            engine,
            number: self.opened,
            early: Vec::new(),
            is_secured: false,
            is_ended: false,
            received: [0; 2],
        }));
        Ok(())
    }

    fn send(&mut self, line: u32, plain: &[u8], port: &mut Port) {
        let Some(Some(secure)) = self.lines.get_mut(line as usize) else {
            return;
        };
        if !secure.is_secured {
            secure.early.extend_from_slice(plain);
            return;
        }
        self.out.clear();
        // Fails only when the keys are used up, after 2^24 records (RFC 8446 section 5.5); the missing response is noticed
        // by the crew's timeout.
        if secure.engine.send(plain, &mut self.out).is_ok() && !self.out.is_empty() {
            port.send(line, |out| out.extend_from_slice(&self.out));
        }
    }

    /// Says goodbye on a connection that is about to be closed.
    fn part(&mut self, line: u32, port: &mut Port) {
        let Some(mut secure) = self.forget(line) else {
            return;
        };
        self.out.clear();
        if secure.is_secured && secure.engine.close(&mut self.out).is_ok() {
            port.send(line, |out| out.extend_from_slice(&self.out));
        }
    }

    /// Handles ciphertext.
    fn heard(&mut self, line: u32, cipher: &[u8], port: &mut Port, now: Instant) {
        let Some(Some(secure)) = self.lines.get_mut(line as usize) else {
            return;
        };
        self.out.clear();
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let result = secure
            .engine
            .receive(cipher, &mut self.scratch, &mut plain, &mut self.out);
        secure.received[0] += cipher.len() as u64;
        secure.received[1] += plain.len() as u64;
        let number = secure.number;
        let mut at = now;
        let mut agreed = None;
        let received = match &result {
            Ok(received) => *received,
            Err(_) => crate::engine::Received::default(),
        };
        if received.completed {
            secure.is_secured = true;
            agreed = Some(security(&secure.engine));
            let early = std::mem::take(&mut secure.early);
            // The handshake is complete, so there are keys to send with.
            let _ = secure.engine.send(&early, &mut self.out);
            at = (self.clock)(now);
        }
        secure.is_ended |= received.closed;
        if !self.out.is_empty() {
            port.send(line, |out| out.extend_from_slice(&self.out));
        }
        if let Some(agreed) = agreed {
            self.tell(line, Happened::Secured(agreed), at);
        }
        if !plain.is_empty() {
            self.tell(line, Happened::Bytes(&plain), at);
        }
        self.plain = plain;
        self.obey(port, at);
        // The crew may have closed this connection and opened another.
        if self.line(line).is_none_or(|secure| secure.number != number) {
            return;
        }
        match result {
            Ok(received) if received.closed => self.tell(line, Happened::Eof, at),
            Ok(_) => {}
            Err(fault) => self.refuse(
                line,
                &refusal::text_with(&fault, &self.name, self.settings),
                port,
                at,
            ),
        }
    }

    /// Closes a connection that cannot go on. An alert, if any, has been sent.
    fn refuse(&mut self, line: u32, why: &str, port: &mut Port, now: Instant) {
        self.forget(line);
        port.close(line);
        self.tell(line, Happened::Refused(why), now);
    }

    /// Handles the end of the stream.
    fn ended(&mut self, line: u32, port: &mut Port, now: Instant) {
        match self.line(line) {
            Some(secure) if !secure.is_secured => self.refuse(line, refusal::closed(), port, now),
            Some(secure) if !secure.is_ended => {
                self.forget(line);
                port.close(line);
                self.tell(line, Happened::Lost(Failing::Cut), now);
            }
            // It was reported with `close_notify`.
            _ => {}
        }
    }

    fn lost(&mut self, line: u32, failing: Failing, now: Instant) {
        match (self.forget(line), failing) {
            (Some(secure), Failing::Open(_)) if !secure.is_secured => {
                self.tell(line, Happened::Refused(refusal::closed()), now);
            }
            _ => self.tell(line, Happened::Lost(failing), now),
        }
    }
}

/// What was agreed on in a complete handshake.
fn security(engine: &Engine) -> Security {
    let agreed = engine.agreed();
    Security {
        version: match agreed.version {
            Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
            Some(ProtocolVersion::TLSv1_2) => "TLS 1.2",
            _ => "unknown",
        },
        suite: agreed
            .suite
            .and_then(|suite| names::known_suite(suite.suite()))
            .unwrap_or("unknown"),
        resumed: agreed.resumed,
        protocol: match engine.protocol() {
            Some(b"h2") => "h2",
            Some(b"http/1.1") => "http/1.1",
            _ => "",
        },
    }
}

impl<C: Crew> Crew for SecuredCrew<C> {
    fn start(&mut self, port: &mut Port, now: Instant) {
        self.inner.start(&mut self.port, now);
        self.obey(port, now);
    }

    fn handle(&mut self, line: u32, happened: Happened<'_>, port: &mut Port, now: Instant) {
        match happened {
            Happened::Bytes(cipher) => self.heard(line, cipher, port, now),
            Happened::Eof => self.ended(line, port, now),
            Happened::Lost(failing) => self.lost(line, failing, now),
            Happened::Inspected(tcp) => {
                let tcp = self.line(line).map_or(tcp, |secure| secure.adjusted(tcp));
                self.tell(line, Happened::Inspected(tcp), now);
            }
            other => self.tell(line, other, now),
        }
        self.obey(port, now);
    }

    fn stop(&mut self, port: &mut Port, now: Instant) {
        self.inner.stop(&mut self.port, now);
        self.obey(port, now);
    }

    fn called(&mut self, port: &mut Port, now: Instant) {
        self.inner.called(&mut self.port, now);
        self.obey(port, now);
    }
}

#[cfg(test)]
mod tests;
