//! What is between an exchange and the bytes of its connection: TLS, HTTP/2, or both; or FastCGI.
//!
//! ```text
//!   Forward ── HTTP/1.1 ──▶ Translator ── frames ──▶ TLS ── records ──▶ Ask::Send
//!   Forward ◀── HTTP/1.1 ── Translator ◀── frames ── TLS ◀── records ── PeerEvent::Bytes
//! ```
//! A channel outlives its exchange: it is parked with its connection. Decides which layers a connection has. With TLS, the
//! upstream chooses between HTTP/2 and HTTP/1.1 (ALPN, RFC 7301). Whether a request goes elsewhere after a failure, only
//! `forward` knows.

use super::fastcgi;
use super::http2::{Over, Tally, Translator};
use super::scripts::Call;
use super::secured::Secure;
use super::shared::Shared;
use runtime::clock;
use runtime::rounds::{self, Turn};
use runtime::session::Upstream;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tls::engine::Engine;
use tls::refusal;
use units::{Duration, Instant};

/// Most bytes of one output of FastCGI. Drivers take 256 KiB by default.
const PORTION: usize = 64 << 10;

/// The number of the next realm. Zero is that of connections without layers.
static REALMS: AtomicU64 = AtomicU64::new(1);

/// The layers of connections to an upstream.
#[derive(Debug)]
pub(crate) struct Layers {
    secure: Option<Secure>,
    is_fastcgi: bool,
    realm: u64,
    /// The last connection carried HTTP/2, or offers it if there was none.
    speaks_http2: AtomicBool,
    tally: Arc<Tally>,
}

/// What came over a channel.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Bytes of HTTP/1.1.
    pub(crate) plain: Vec<u8>,
    /// Nothing follows: the upstream said so, or gave up the request.
    pub(crate) over: Option<Over>,
}

/// What came of an exchange that blocked its thread.
#[derive(Debug)]
pub(crate) struct Exchanged {
    /// The response, in HTTP/1.1; or why there is none.
    pub(crate) answer: io::Result<Vec<u8>>,
    /// When that was known.
    pub(crate) at: Instant,
    /// Whether the connection carried HTTP/2.
    pub(crate) is_http2: bool,
}

impl Layers {
    /// Those of an upstream; `None` if it has none. Without TLS, `is_http2` says that it speaks HTTP/2 (RFC 9113 section 3.3),
    /// and `is_fastcgi` that it speaks FastCGI.
    pub(crate) fn of(secure: Option<Secure>, is_http2: bool, is_fastcgi: bool) -> Option<Layers> {
        (secure.is_some() || is_http2 || is_fastcgi).then(|| Layers {
            speaks_http2: AtomicBool::new(!is_fastcgi && secure.as_ref().is_none_or(Secure::offers_http2)),
            secure,
            is_fastcgi,
            realm: REALMS.fetch_add(2, Ordering::Relaxed),
            tally: Arc::default(),
        })
    }

    /// Kept connections are reused only within this realm: others were opened with other settings, or carry another
    /// version of HTTP.
    pub(crate) fn realm(&self, is_http2: bool) -> u64 {
        self.realm + u64::from(is_http2)
    }

    /// Whether the next connection probably carries HTTP/2. With TLS, the upstream chooses each time.
    pub(crate) fn speaks_http2(&self) -> bool {
        self.speaks_http2.load(Ordering::Relaxed)
    }

    /// What its HTTP/2 connections have done.
    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Whether a connection may carry HTTP/2.
    pub(crate) fn may_speak_http2(&self) -> bool {
        !self.is_fastcgi && self.secure.as_ref().is_none_or(Secure::offers_http2)
    }

    /// Begins the layers of a connection that is open. `announcement` is sent before them, in the clear. `is_http1`: the
    /// connection may switch to WebSocket, which is not passed over HTTP/2.
    ///
    /// # Errors
    /// Why they cannot be, in words.
    pub(crate) fn open(&self, announcement: &[u8], is_http1: bool, now: Instant) -> Result<Channel, String> {
        let mut channel = Channel {
            engine: None,
            http2: None,
            fastcgi: self.is_fastcgi.then(Box::default),
            is_http1,
            out: announcement.to_vec(),
            is_closed: false,
        };
        match &self.secure {
            Some(secure) => channel.engine = Some(secure.engine(is_http1)?),
            None if self.is_fastcgi => {}
            None => channel.http2 = Some(Box::new(Translator::new(&self.tally, now, &mut channel.out))),
        }
        self.receive(&mut channel, &[], now)?;
        Ok(channel)
    }

    /// Takes bytes of the upstream.
    ///
    /// # Errors
    /// Why the TLS of the connection is over, in words. What came before is in vain.
    pub(crate) fn receive(
        &self,
        channel: &mut Channel,
        bytes: &[u8],
        now: Instant,
    ) -> Result<Received, String> {
        let mut decrypted = Vec::new();
        let mut frames = Vec::new();
        let mut bytes = bytes;
        if let (Some(engine), Some(secure)) = (&mut channel.engine, &self.secure) {
            let received = engine
                .receive(bytes, &mut Vec::new(), &mut decrypted, &mut channel.out)
                .map_err(|fault| secure.explain(&fault))?;
            channel.is_closed |= received.closed;
            if received.completed {
                let is_http2 = engine.protocol() == Some(b"h2");
                // One that may switch to WebSocket did not offer it.
                if is_http2 || !channel.is_http1 {
                    self.speaks_http2.store(is_http2, Ordering::Relaxed);
                }
                channel.http2 = is_http2.then(|| Box::new(Translator::new(&self.tally, now, &mut frames)));
            }
            bytes = &decrypted;
        }
        let mut received = Received {
            over: channel.is_closed.then_some(Over::Given),
            ..Received::default()
        };
        match (&mut channel.fastcgi, &mut channel.http2) {
            (Some(fastcgi), _) => received.over = fastcgi.receive(bytes, &mut received.plain).err(),
            (None, None) => received.plain = decrypted,
            (None, Some(http2)) => {
                let went_on = http2.receive(bytes, now, &mut received.plain, &mut frames);
                received.over = went_on.err().or(received.over);
            }
        }
        // Keys that are used up say nothing more; the next request finds out.
        let _ = channel.wrap(&frames);
        Ok(received)
    }

    /// As [`rounds::exchange`]. The end of a connection that TLS does not confirm is an error; so is a failure of the TLS, in
    /// words.
    pub(crate) fn exchange(
        &self,
        upstream: &Upstream,
        announcement: &[u8],
        bytes: &[u8],
        patience: Duration,
        mut is_enough: impl FnMut(&mut Vec<u8>, bool) -> io::Result<bool>,
    ) -> Exchanged {
        let mut opened: Option<Channel> = None;
        let (mut unsent, mut text) = (bytes, Vec::new());
        let (answer, now) = rounds::talk(upstream, patience, |got, is_over| {
            let channel = match &mut opened {
                Some(channel) => channel,
                None => opened.insert(
                    self.open(announcement, false, clock::now())
                        .map_err(io::Error::other)?,
                ),
            };
            let is_over = self.turn(channel, (got, is_over), &mut unsent, &mut text)?;
            // The connection stays open, although nothing follows on it.
            let is_over = is_over || channel.has_whole_response();
            Ok(Turn {
                send: channel.take(),
                is_over: is_enough(&mut text, is_over)?,
            })
        });
        Exchanged {
            answer: answer.map(|()| text),
            at: now,
            is_http2: opened.is_some_and(|channel| channel.is_http2()),
        }
    }

    /// One turn of an exchange that blocks its thread. Takes what was received, and whether the connection has ended. Sends
    /// the request in `unsent` as soon as the channel is open. Appends to `text` what came of the response, in HTTP/1.1.
    /// Returns whether nothing follows.
    ///
    /// # Errors
    /// Why the TLS failed, in words; or the connection ended without its confirmation, or takes no request.
    pub(crate) fn turn(
        &self,
        channel: &mut Channel,
        (got, is_over): (&[u8], bool),
        unsent: &mut &[u8],
        text: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let now = clock::now();
        let received = self.receive(channel, got, now).map_err(io::Error::other)?;
        text.extend(received.plain);
        if channel.is_open() && !unsent.is_empty() {
            let sent = channel.send(std::mem::take(unsent), now);
            sent.map_err(|_| io::Error::other("the connection takes no request"))?;
        }
        if is_over && !channel.is_open() {
            return Err(io::Error::other(refusal::closed()));
        }
        if is_over && channel.is_doubtful() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(is_over || received.over.is_some())
    }
}

/// The layers of one connection to an upstream.
#[derive(Debug)]
pub(crate) struct Channel {
    engine: Option<Engine>,
    http2: Option<Box<Translator>>,
    fastcgi: Option<Box<fastcgi::Translator>>,
    /// It does not offer HTTP/2.
    is_http1: bool,
    /// Bytes for the upstream.
    out: Vec<u8>,
    /// The upstream said by TLS that nothing follows.
    is_closed: bool,
}

impl Channel {
    /// Whether requests can be sent: the handshake is complete, if there is one.
    pub(crate) fn is_open(&self) -> bool {
        self.engine.as_ref().is_none_or(|engine| !engine.is_handshaking())
    }

    /// Whether the end of the connection may be an attacker's: TLS did not confirm it.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.engine.is_some() && !self.is_closed
    }

    /// The connection as one that carries several requests, at most so many at a time. No request was sent on it. `None`: it
    /// does not carry HTTP/2.
    pub(crate) fn into_shared(self, most: usize) -> Option<Shared> {
        let (http, input, tally) = self.http2?.into_parts();
        Some(Shared::new(self.engine, http, (input, self.out), most, tally))
    }

    /// Whether it carries HTTP/2 and the response to the last request is complete.
    fn has_whole_response(&self) -> bool {
        self.http2
            .as_ref()
            .is_some_and(|http2| http2.has_whole_response())
    }

    /// Whether it carries HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.http2.is_some()
    }

    /// The next request has these parameters, if the connection carries FastCGI.
    pub(crate) fn begin(&mut self, call: &Arc<Call>) {
        if let Some(fastcgi) = &mut self.fastcgi {
            fastcgi.begin(call);
        }
    }

    /// Error messages of an application of FastCGI, in one text, once its request is over; `None`: there are none.
    pub(crate) fn take_errors(&mut self, is_over: bool) -> Option<String> {
        self.fastcgi.as_mut()?.take_errors(is_over)
    }

    /// Takes bytes of a request, in the framing of HTTP/1.1.
    ///
    /// # Errors
    /// The connection takes none, or its keys are used up, which takes terabytes.
    pub(crate) fn send(&mut self, plain: &[u8], now: Instant) -> Result<(), Over> {
        if let Some(fastcgi) = &mut self.fastcgi {
            return fastcgi.send(plain, &mut self.out);
        }
        let Some(http2) = &mut self.http2 else {
            return self.wrap(plain);
        };
        let mut frames = Vec::new();
        http2.send(plain, self.engine.is_some(), now, &mut frames)?;
        self.wrap(&frames)
    }

    /// Adds bytes for the upstream; with TLS, as records.
    fn wrap(&mut self, bytes: &[u8]) -> Result<(), Over> {
        match &mut self.engine {
            _ if bytes.is_empty() => {}
            Some(engine) => engine.send(bytes, &mut self.out).map_err(|_| Over::Given)?,
            None => self.out.extend_from_slice(bytes),
        }
        Ok(())
    }

    /// Bytes of the request that wait: until the upstream permits them, or behind a portion of FastCGI.
    pub(crate) fn blocked(&self) -> usize {
        match &self.fastcgi {
            Some(_) => self.out.len(),
            None => self.http2.as_ref().map_or(0, |http2| http2.blocked()),
        }
    }

    /// Says that no more will be sent.
    pub(crate) fn close(&mut self) {
        if let Some(engine) = &mut self.engine {
            // Before the end of the handshake, there is nothing to say.
            let _ = engine.close(&mut self.out);
        }
    }

    /// Takes bytes that wait to be sent: all of them, or a portion of a request of FastCGI, which may have been collected.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        if self.fastcgi.is_some() && self.out.len() > PORTION {
            let later = self.out.split_off(PORTION);
            return std::mem::replace(&mut self.out, later);
        }
        std::mem::take(&mut self.out)
    }

    /// Bytes that wait to be sent.
    pub(crate) fn pending(&self) -> usize {
        self.out.len()
    }

    /// Whether a part of a TLS record came, which cannot be decrypted before its end.
    pub(crate) fn has_part_of_record(&self) -> bool {
        let engine = self.engine.as_ref();
        engine.is_some_and(|engine| engine.undecrypted() > 0)
    }

    /// Whether it is between two requests: nothing is held in part.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_free = self.http2.as_ref().is_none_or(|http2| http2.is_at_rest());
        let is_over = self.fastcgi.as_ref().is_none_or(|fastcgi| fastcgi.is_at_rest());
        is_free && is_over && !self.has_part_of_record() && !self.is_closed
    }

    /// Whether another request may be sent after a rest: the upstream has not said that it leaves.
    pub(crate) fn takes_requests(&self) -> bool {
        !self.is_closed && self.http2.as_ref().is_none_or(|http2| http2.takes_requests())
    }

    /// No request follows for a while.
    pub(crate) fn rest(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.rest();
        }
        if let Some(http2) = &mut self.http2 {
            http2.rest();
        }
        if let Some(fastcgi) = &mut self.fastcgi {
            fastcgi.rest();
        }
    }

    /// Bytes of memory held.
    pub(crate) fn held(&self) -> usize {
        let engine = self.engine.as_ref().map_or(0, Engine::held);
        let http2 = self.http2.as_ref().map_or(0, |http2| http2.held());
        let fastcgi = self.fastcgi.as_ref().map_or(0, |fastcgi| fastcgi.held());
        size_of::<Channel>() + engine + http2 + fastcgi + self.out.capacity()
    }
}
