//! A TCP relay, on the contract alone: each client is joined to a connection to one upstream.
//!
//! `cargo run -p runtime --example relay_tcp -- 127.0.0.1:7777 127.0.0.1:80` or `... unix:/run/app.sock`. Ends by a signal.
//!
//! Either side is read only when the other has taken what came before, so a connection holds a few receives at most.
//! Each half closes on its own; a failure of one side resets the other.

use runtime::listen::{Listener, Listening};
use runtime::strategy::{Concurrency, Io, Limits, Strategy, serve};
use runtime::{
    Accepted, Action, Ask, Dialing, Event, NoJob, PeerEvent, Service, Session, Ticket, Tx, Unshared, Upstream,
};
use std::num::NonZeroUsize;
use std::sync::Arc;
use units::{Duration, Instant};

/// A connection without any byte in either direction for so long is reset.
const IDLE: Duration = Duration::from_secs(60);
/// The only peer of a session.
const UPSTREAM: Ticket = Ticket(0);

struct Relay {
    upstream: Arc<Upstream>,
    dialing: Dialing,
}

/// What goes one way.
#[derive(Default)]
struct Way {
    /// Its source is being read.
    is_reading: bool,
    /// Its sink has not taken the last output.
    is_sending: bool,
    /// Its source has ended.
    has_ended: bool,
    /// Its sink was told so.
    is_closed: bool,
}

struct Splice {
    upstream: Option<Arc<Upstream>>,
    /// Bytes of the client, until the upstream has taken those before.
    pending: Vec<u8>,
    up: Way,
    down: Way,
    is_connected: bool,
    is_lost: bool,
    deadline: Instant,
}

impl Session for Splice {
    type Cx = Unshared<NoJob>;

    fn handle(&mut self, _: &mut Unshared<NoJob>, event: Event<'_, NoJob>, tx: &mut Tx, now: Instant) {
        self.deadline = now + IDLE;
        match event {
            Event::Bytes(bytes) => self.pending.extend_from_slice(bytes),
            Event::Sent => self.down.is_sending = false,
            Event::Eof => self.up.has_ended = true,
            Event::Peer(_, PeerEvent::Connected) => self.is_connected = true,
            Event::Peer(_, PeerEvent::Bytes(bytes)) => {
                tx.head.extend_from_slice(bytes);
                (self.down.is_reading, self.down.is_sending) = (false, true);
            }
            Event::Peer(_, PeerEvent::Sent) => self.up.is_sending = false,
            Event::Peer(_, PeerEvent::Eof) => (self.down.is_reading, self.down.has_ended) = (false, true),
            Event::Peer(_, PeerEvent::Lost(_)) | Event::Lost(_) | Event::Deadline => self.is_lost = true,
            _ => {}
        }
    }

    fn poll(&mut self, _: &mut Unshared<NoJob>, tx: &mut Tx, _: Instant) -> Action<NoJob> {
        let (up, down) = (&mut self.up, &mut self.down);
        if let Some(upstream) = self.upstream.take() {
            return tx.ask(UPSTREAM, Ask::Dial(upstream));
        }
        if self.is_lost {
            return Action::Abort;
        }
        if self.is_connected && tx.is_empty() {
            if !up.is_sending && !self.pending.is_empty() {
                up.is_sending = true;
                return tx.ask(UPSTREAM, Ask::Send(std::mem::take(&mut self.pending)));
            }
            if !up.is_sending && up.has_ended && !std::mem::replace(&mut up.is_closed, true) {
                return tx.ask(UPSTREAM, Ask::End);
            }
            if !down.is_sending && !down.is_reading && !down.has_ended {
                down.is_reading = true;
                return tx.ask(UPSTREAM, Ask::Read);
            }
            if !down.is_sending && down.has_ended && !std::mem::replace(&mut down.is_closed, true) {
                return Action::End;
            }
            if up.is_closed && down.is_closed {
                return Action::Close;
            }
        }
        Action::Duplex {
            read: self.is_connected && !up.is_sending && !up.has_ended,
            patient: false,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.deadline)
    }

    fn closed(&mut self, _: &mut Unshared<NoJob>, _: Instant) {}
}

impl Service for Relay {
    type Session = Splice;

    fn context(&self, _: usize) -> Unshared<NoJob> {
        Unshared::default()
    }

    fn accept(&self, _: &mut Unshared<NoJob>, _: &Accepted, now: Instant) -> Option<Splice> {
        Some(Splice {
            upstream: Some(Arc::clone(&self.upstream)),
            pending: Vec::new(),
            up: Way::default(),
            down: Way::default(),
            is_connected: false,
            is_lost: false,
            deadline: now + IDLE,
        })
    }

    fn dialing(&self) -> Option<Dialing> {
        Some(self.dialing)
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(1)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, upstream] = &words[..] else {
        return Err("usage: relay_tcp ADDRESS:PORT UPSTREAM:PORT|unix:PATH".into());
    };
    let relay = Relay {
        upstream: Arc::new(match upstream.strip_prefix("unix:") {
            Some(path) => Upstream::Unix(path.into()),
            None => Upstream::Tcp(upstream.parse()?),
        }),
        dialing: Dialing::default(),
    };
    let strategy = Strategy::new(Concurrency::Loops, Io::Epoll, NonZeroUsize::MIN)?;
    let listener = Listener::bind(address.parse()?, Listening::default())?;
    println!("tcp://{} to {}", listener.address(), relay.upstream);
    serve(strategy, &[listener], &Arc::new(relay), Limits::default())?.join()?;
    Ok(())
}

#[cfg(test)]
mod tests;
