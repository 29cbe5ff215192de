//! `--qlog`: the packets of a fetch over HTTP/3. What passed the client's end is read as `weir trace` reads a capture, with the
//! keys of the connections, and written as it writes qlog. A simulated fetch can leave the frames as a capture, too.
//!
//! ```text
//!   Tape: datagrams ──▶ frames ──▶ trace::Analyzer ──▶ Qlog
//!         counters, losses ──────────────────────────▶
//!   KeyLog: secrets ─────────────────▲
//! ```

use crate::failure::Failure;
use crate::secure::Secure;
use crate::trace::qlog::{Qlog, Vantage};
use crate::trace::secrets;
use crate::trace::taped::{framed, lost, metrics, unknown};
use crate::voice::Voice;
use ::trace::{Analyzer, Frame, LinkType, Options, PcapngWriter};
use quic::tape::{Recorded, Secrets, Tape};
use runtime::clock;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use tls::rustls::KeyLog;
use tls::trust::Client;
use units::{Duration, Instant, UnixTime};

/// Port of the first connection's client in the frames. All of them share a socket; different ports keep them apart.
const FIRST_PORT: u16 = 49_152;

/// The file, and the last fetch that goes into it.
pub(super) struct Log {
    qlog: Qlog,
    last: Option<Taped>,
    times: Times,
}

/// What one fetch records.
#[derive(Clone, Debug, Default)]
pub(super) struct Taping {
    tape: Tape,
    secrets: Arc<Secrets>,
}

/// What a fetch over HTTP/3 has recorded.
#[derive(Debug)]
pub(super) struct Taped {
    recorded: Recorded,
    /// Key log of its connections.
    keys: String,
    /// Address of the client; `None` if it is not known.
    client: Option<IpAddr>,
    server: SocketAddr,
}

/// The same instant by the clock of connections and by that of the world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times(Instant, Instant);

impl Times {
    /// The clock of connections is at `now` while that of the world is at `wall`.
    pub(super) fn new(now: Instant, wall: UnixTime) -> Times {
        let since = Duration::new(u64::try_from(wall.secs).unwrap_or(0), wall.nanos);
        Times(now, Instant::ZERO + since)
    }

    /// The time of the world.
    pub(super) fn dated(self, at: Instant) -> Instant {
        self.1 + at.since(self.0)
    }
}

impl Taping {
    /// Connections whose datagrams and secrets are recorded.
    pub(super) fn of(&self, secure: Secure) -> Secure {
        let secrets: Arc<dyn KeyLog> = Arc::<Secrets>::clone(&self.secrets);
        secure.recorded(self.tape.clone(), secrets)
    }

    /// The tape for datagrams, and a client whose secrets are recorded.
    pub(super) fn with(&self, client: Client) -> (Tape, Client) {
        let secrets: Arc<dyn KeyLog> = Arc::<Secrets>::clone(&self.secrets);
        (self.tape.clone(), client.with_key_log(secrets))
    }

    /// What was recorded of a fetch from `server`; `None` if it was not over HTTP/3. The tape is empty afterwards.
    pub(super) fn take(&self, client: Option<IpAddr>, server: SocketAddr) -> Option<Taped> {
        let recorded = self.tape.take();
        let is_any = !recorded.datagrams.is_empty();
        is_any.then(|| Taped {
            recorded,
            keys: self.secrets.take(),
            client,
            server,
        })
    }
}

impl Taped {
    /// The key log of its connections.
    #[cfg(test)]
    pub(super) fn keys(&self) -> &str {
        &self.keys
    }

    /// The client's end in the frames of a connection.
    fn client(&self, connection: u32) -> SocketAddr {
        let unknown = unknown(port(connection), self.server);
        match self.client {
            Some(address) => SocketAddr::new(address, unknown.port()),
            None => unknown,
        }
    }

    /// Hands the datagrams on as frames of raw IP, in their order.
    fn frames(&self, times: Times, mut each: impl FnMut(&Frame<'_>)) {
        let mut frame = Vec::new();
        for (passed, number) in self.recorded.datagrams.iter().zip(1..) {
            frame.clear();
            framed(
                &passed.bytes,
                passed.is_sent,
                self.client(passed.connection),
                self.server,
                &mut frame,
            );
            each(&Frame {
                number,
                at: times.dated(passed.at),
                link: LinkType::RAW,
                wire_len: u32::try_from(frame.len()).unwrap_or(u32::MAX),
                data: &frame,
            });
        }
    }

    /// A pcapng file of the datagrams, with their secrets: a capture at the client.
    pub(super) fn pcapng(&self, times: Times) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = PcapngWriter::begin(&mut out, concat!("weir ", env!("CARGO_PKG_VERSION")));
        let interface = writer.interface(&mut out, LinkType::RAW, 0, "client");
        writer.secrets(&mut out, self.keys.as_bytes());
        self.frames(times, |frame| writer.frame(&mut out, interface, frame));
        out
    }
}

impl Log {
    /// Makes the file.
    ///
    /// # Errors
    /// `Usage` if it cannot be written.
    pub(super) fn create(path: &Path, times: Times) -> Result<Log, Failure> {
        Ok(Log {
            qlog: Qlog::create(
                path,
                Vantage::Client,
                "fetch less, for instance with --no-embedded",
            )?,
            last: None,
            times,
        })
    }

    /// As [`Log::create`], for a fetch in this time.
    ///
    /// # Errors
    /// As [`Log::create`].
    pub(super) fn create_now(path: &Path) -> Result<Log, Failure> {
        Log::create(path, Times::new(clock::now(), clock::wall()))
    }

    /// Takes what a fetch over HTTP/3 has recorded, in place of what an earlier one has.
    pub(super) fn take(&mut self, taped: Option<Taped>) {
        if taped.is_some() {
            self.last = taped;
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// `System` if that fails.
    pub(super) fn write(mut self, voice: &Voice) -> Result<(), Failure> {
        let mut analyzer = Analyzer::new(Options {
            packets: true,
            ..Options::default()
        });
        if let Some(taped) = self.last.take() {
            secrets::equip(&mut analyzer);
            analyzer.add_secret_block(taped.keys.as_bytes());
            self.read(&taped, &mut analyzer);
        }
        if self.qlog.connections() == 0 {
            tracing::warn!(
                "--qlog: no fetch used HTTP/3, so the file has no connection; --h3-only uses nothing else"
            );
        }
        self.qlog.write(analyzer.summary().start_ns, voice)
    }

    fn read(&mut self, taped: &Taped, analyzer: &mut Analyzer) {
        taped.frames(self.times, |frame| {
            analyzer.frame(frame);
            while let Some(event) = analyzer.next_event() {
                self.qlog.event(&event);
            }
        });
        analyzer.finish_frames();
        while let Some(event) = analyzer.next_event() {
            self.qlog.event(&event);
        }
        let recorded = &taped.recorded;
        self.qlog.lacks(recorded.missing);
        let Some(first) = recorded.datagrams.first().map(|passed| passed.at) else {
            return;
        };
        let counters = recorded.counters.iter();
        let counters = counters.map(|one| (one.connection, one.at, metrics(one)));
        let losses = recorded.losses.iter();
        let losses = losses.map(|one| (one.connection, one.at, lost(one)));
        let mut events: Vec<_> = counters.chain(losses).collect();
        events.sort_by_key(|(connection, ..)| *connection);
        for of_one in events.chunk_by_mut(|one, next| one.0 == next.0) {
            let connection = of_one[0].0;
            let events = of_one
                .iter_mut()
                .map(|(_, at, event)| (at.since(first), event.take()));
            self.qlog.add(port(connection), events);
        }
    }
}

fn port(connection: u32) -> u16 {
    u16::try_from(connection).map_or(FIRST_PORT, |number| FIRST_PORT.saturating_add(number))
}
