//! A toy protocol over TCP, on the contract alone: every line comes back reversed. It runs under every strategy.
//!
//! `cargo run -p runtime --example echo_tcp -- 127.0.0.1:7777 [STRATEGY [IO]]`, then `nc 127.0.0.1 7777`. Ends by a signal.

use runtime::listen::{Listener, Listening};
use runtime::strategy::{Limits, Strategy, serve};
use runtime::{Accepted, Action, Event, NoJob, Service, Session, Tx, Unshared};
use std::num::NonZeroUsize;
use std::sync::Arc;
use units::{Duration, Instant};

/// Longer lines end the connection, so that nobody makes the server keep more.
const LINE_MAX: usize = 4_096;
/// A connection without a whole line for so long is closed.
const IDLE: Duration = Duration::from_secs(60);

struct Echo;

struct Lines {
    /// The beginning of a line.
    partial: Vec<u8>,
    deadline: Instant,
    is_sending: bool,
    is_ending: bool,
}

impl Session for Lines {
    type Cx = Unshared<NoJob>;

    fn handle(&mut self, _: &mut Unshared<NoJob>, event: Event<'_, NoJob>, tx: &mut Tx, now: Instant) {
        match event {
            Event::Bytes(bytes) => {
                for &b in bytes {
                    match b {
                        b'\n' => {
                            tx.head.extend(self.partial.drain(..).rev());
                            tx.head.push(b'\n');
                        }
                        b => self.partial.push(b),
                    }
                }
                self.is_sending = !tx.head.is_empty();
                self.is_ending |= self.partial.len() > LINE_MAX;
                self.deadline = now + IDLE;
            }
            Event::Sent => self.is_sending = false,
            Event::Eof | Event::Drain | Event::Deadline | Event::Lost(_) => self.is_ending = true,
            _ => {}
        }
    }

    fn poll(&mut self, _: &mut Unshared<NoJob>, tx: &mut Tx, _: Instant) -> Action<NoJob> {
        match (self.is_sending, self.is_ending) {
            (true, _) if tx.is_empty() => Action::Stay,
            (true, _) => Action::Write,
            (false, true) => Action::Close,
            (false, false) => Action::Read,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.deadline)
    }

    fn closed(&mut self, _: &mut Unshared<NoJob>, _: Instant) {}
}

impl Service for Echo {
    type Session = Lines;

    fn context(&self, _: usize) -> Unshared<NoJob> {
        Unshared::default()
    }

    fn accept(&self, _: &mut Unshared<NoJob>, _: &Accepted, now: Instant) -> Option<Lines> {
        Some(Lines {
            partial: Vec::new(),
            deadline: now + IDLE,
            is_sending: false,
            is_ending: false,
        })
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(1)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().unwrap_or_else(|| "127.0.0.1:7777".to_owned());
    let concurrency = words.next().unwrap_or_else(|| "loops".to_owned()).parse()?;
    let io = words.next().unwrap_or_else(|| "epoll".to_owned()).parse()?;
    let workers = NonZeroUsize::new(4).ok_or("no workers")?;
    let strategy = Strategy::new(concurrency, io, workers)?;
    let listener = Listener::bind(address.parse()?, Listening::default())?;
    println!("tcp://{}, {strategy:?}", listener.address());
    serve(strategy, &[listener], &Arc::new(Echo), Limits::default())?.join()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::sim::Sim;
    use runtime::strategy::{Concurrency, Io};
    use std::io::{Read, Write};
    use std::net::SocketAddr;
    use std::net::{Shutdown, TcpStream};

    #[test]
    fn lines_come_back_reversed_however_they_are_cut() {
        let mut sim = Sim::new(Echo);
        let client = sim.connect_local();
        for piece in ["ab", "c\nd", "e\n", "rest"] {
            sim.send(client, piece.as_bytes());
        }
        assert_eq!(sim.take_received(client), b"cba\ned\n");
        sim.advance(IDLE);
        assert!(sim.is_closed(client), "a line that never ends");
    }

    #[test]
    fn every_strategy_of_threads_can_serve_it() {
        for (concurrency, io) in [
            (Concurrency::Loop, Io::Epoll),
            (Concurrency::Loops, Io::Epoll),
            (Concurrency::Loops, Io::Uring),
            (Concurrency::Pool, Io::Blocking),
            (Concurrency::ThreadPerConnection, Io::Blocking),
            (Concurrency::ThreadPerRequest, Io::Blocking),
        ] {
            if io == Io::Uring && runtime::strategy::try_uring().is_err() {
                println!("skipped: io_uring is not there or refused");
                continue;
            }
            let workers = match concurrency {
                Concurrency::Loop => NonZeroUsize::MIN,
                _ => NonZeroUsize::MIN.saturating_add(1),
            };
            let strategy = Strategy::new(concurrency, io, workers).expect("a strategy");
            let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)).into(), Listening::default());
            let listener = listener.expect("a port");
            let address = listener.address();
            let handle = serve(strategy, &[listener], &Arc::new(Echo), Limits::default()).expect("workers");
            let mut client = TcpStream::connect(address).expect("a connection");
            client.write_all(b"abc\nde\n").expect("a send");
            client.shutdown(Shutdown::Write).expect("an end");
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).expect("an answer");
            assert_eq!(answer, b"cba\ned\n", "{strategy:?}");
            handle.stop();
            handle.join().expect("workers that end well");
        }
    }
}
