//! A session that takes both ways at once, under every driver: it reads while its output waits, and its jobs end in an
//! order of their own.
//!
//! Each line of a client is a command. `hold N` starts a job that ends when the test opens gate N; the answer is `N`.
//! `big N` is answered with N bytes. `note X` is noted for the test to see.

use runtime::listen::{Listener, Listening};
use runtime::sim::{Jobs, Sim};
use runtime::strategy::{Concurrency, Io, Limits, Strategy, serve};
use runtime::{Accepted, Action, Event, Job, Service, Session, Ticket, Tx, Unshared};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use units::{Duration, Instant};

/// More than the kernel's buffers of both ends hold.
const BIG: usize = 32 << 20;
/// Nothing here takes so long on a machine that works.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// What a test and its server share.
#[derive(Default)]
struct Shared {
    state: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    open_gates: BTreeSet<u32>,
    notes: Vec<String>,
    closed: usize,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.state.lock().expect("nobody panics with it")
    }

    fn open(&self, gate: u32) {
        self.seen().open_gates.insert(gate);
        self.changed.notify_all();
    }

    /// Waits until `is_so`; panics when that takes too long.
    fn wait(&self, what: &str, mut is_so: impl FnMut(&Seen) -> bool) {
        let waited = self
            .changed
            .wait_timeout_while(self.seen(), PATIENCE, |seen| !is_so(seen));
        assert!(!waited.expect("nobody panics with it").1.timed_out(), "{what}");
    }
}

struct Gate(u32, Arc<Shared>);

impl Job for Gate {
    type Output = u32;

    fn try_now(self) -> Result<u32, Gate> {
        Err(self)
    }

    fn run(self) -> u32 {
        self.1
            .wait("the gate opens", |seen| seen.open_gates.contains(&self.0));
        self.0
    }
}

struct Mux {
    shared: Arc<Shared>,
    line: Vec<u8>,
    /// Output that waits for what is under way.
    pending: Vec<u8>,
    jobs: Vec<u32>,
    outstanding: usize,
    is_sending: bool,
    has_ended: bool,
}

impl Mux {
    fn obey(&mut self, command: &str) {
        let (verb, operand) = command.split_once(' ').expect("two words");
        let number = || operand.parse::<u32>().expect("a number");
        match verb {
            "hold" => self.jobs.push(number()),
            "big" => self.pending.resize(self.pending.len() + number() as usize, b'x'),
            _ => {
                self.shared.seen().notes.push(operand.to_owned());
                self.shared.changed.notify_all();
            }
        }
    }
}

impl Session for Mux {
    type Cx = Unshared<Gate>;

    fn handle(&mut self, _: &mut Unshared<Gate>, event: Event<'_, Gate>, _: &mut Tx, _: Instant) {
        match event {
            Event::Bytes(bytes) => {
                for &byte in bytes {
                    match byte {
                        b'\n' => {
                            let line = String::from_utf8(std::mem::take(&mut self.line)).expect("text");
                            self.obey(&line);
                        }
                        byte => self.line.push(byte),
                    }
                }
            }
            Event::Sent => self.is_sending = false,
            Event::Done(ticket, gate) => {
                assert_eq!(
                    ticket,
                    Ticket(gate),
                    "each job has the ticket it was started with"
                );
                self.outstanding -= 1;
                self.pending.extend(format!("{gate}\n").bytes());
            }
            Event::Eof | Event::Drain | Event::Lost(_) => self.has_ended = true,
            _ => {}
        }
    }

    fn poll(&mut self, _: &mut Unshared<Gate>, tx: &mut Tx, _: Instant) -> Action<Gate> {
        if let Some(gate) = self.jobs.pop() {
            self.outstanding += 1;
            return Action::Start(Ticket(gate), Gate(gate, Arc::clone(&self.shared)));
        }
        if !self.is_sending && !self.pending.is_empty() {
            tx.head.append(&mut self.pending);
            self.is_sending = true;
        }
        match self.is_sending || self.outstanding > 0 || !self.has_ended {
            true => Action::Duplex {
                read: !self.has_ended,
                patient: false,
            },
            false => Action::Close,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn closed(&mut self, _: &mut Unshared<Gate>, _: Instant) {
        self.shared.seen().closed += 1;
        self.shared.changed.notify_all();
    }
}

struct Muxes(Arc<Shared>);

impl Service for Muxes {
    type Session = Mux;

    fn context(&self, _: usize) -> Unshared<Gate> {
        Unshared::default()
    }

    fn accept(&self, _: &mut Unshared<Gate>, _: &Accepted, _: Instant) -> Option<Mux> {
        Some(Mux {
            shared: Arc::clone(&self.0),
            line: Vec::new(),
            pending: Vec::new(),
            jobs: Vec::new(),
            outstanding: 0,
            is_sending: false,
            has_ended: false,
        })
    }

    fn grace(&self) -> Duration {
        Duration::from_secs(1)
    }
}

fn simulated(jobs: Jobs) -> (Arc<Shared>, Sim<Muxes>) {
    let shared = Arc::<Shared>::default();
    let mut sim = Sim::new(Muxes(Arc::clone(&shared)));
    sim.set_jobs(jobs);
    (shared, sim)
}

#[test]
fn in_the_simulator_it_reads_while_its_output_waits() {
    let (shared, mut sim) = simulated(Jobs::AtOnce);
    let client = sim.connect_local();
    sim.stop_reading_after(client, 10);
    sim.send(client, b"big 1000\n");
    sim.send(client, b"note a\n");
    assert_eq!(shared.seen().notes, ["a"]);
    assert_eq!(sim.received(client).len(), 10);
    sim.send(client, b"big 1000\nnote b\n");
    assert_eq!(shared.seen().notes, ["a", "b"]);
    sim.finish(client);
    assert!(!sim.is_closed(client), "it owes something");
    sim.read_on(client);
    assert_eq!(sim.take_received(client).len(), 2000);
    assert!(sim.is_closed(client) && !sim.was_reset(client));
    assert_eq!(shared.seen().closed, 1);
}

#[test]
fn in_the_simulator_jobs_and_input_go_side_by_side() {
    let (shared, mut sim) = simulated(Jobs::Held);
    shared.open(1);
    shared.open(2);
    let client = sim.connect_local();
    sim.send(client, b"hold 1\nhold 2\nnote a\n");
    assert_eq!(sim.jobs_waiting(), 2);
    assert_eq!(shared.seen().notes, ["a"]);
    sim.finish(client);
    // The session starts the one named last first.
    assert!(sim.run_job());
    assert_eq!(sim.received(client), b"2\n");
    assert!(sim.run_job());
    assert_eq!(sim.received(client), b"2\n1\n");
    assert!(sim.is_closed(client));
}

#[test]
fn in_the_simulator_a_client_that_leaves_takes_its_jobs_with_it() {
    let (shared, mut sim) = simulated(Jobs::Held);
    shared.open(1);
    let client = sim.connect_local();
    sim.send(client, b"hold 1\n");
    sim.reset(client);
    assert!(sim.is_closed(client));
    let next = sim.connect_local();
    sim.run_jobs();
    sim.send(next, b"big 3\n");
    assert_eq!(sim.received(next), b"xxx", "the one in its place is not told");
    assert_eq!(shared.seen().closed, 1);
}

fn on_every_strategy(test: impl Fn(&Shared, SocketAddr, bool)) {
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
        println!("{strategy:?}");
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)).into(), Listening::default());
        let listener = listener.expect("a port");
        let address = listener.address();
        let shared = Arc::<Shared>::default();
        let service = Arc::new(Muxes(Arc::clone(&shared)));
        let handle = serve(strategy, &[listener], &service, Limits::default()).expect("workers");
        test(&shared, address.tcp().expect("TCP"), io == Io::Blocking);
        shared.wait("the connection's end", |seen| seen.closed == 1);
        handle.stop();
        handle.join().expect("workers that end well");
    }
}

#[test]
fn every_strategy_reads_while_its_output_waits() {
    on_every_strategy(|shared, address, _| {
        let mut client = TcpStream::connect(address).expect("a connection");
        client
            .write_all(format!("big {BIG}\nnote first\n").as_bytes())
            .expect("a send");
        shared.wait("the first note", |seen| seen.notes.len() == 1);
        // Not a byte of the answer has been read, so its rest waits with the server.
        client.write_all(b"note second\nbig 5\n").expect("a send");
        shared.wait("the second note", |seen| seen.notes.len() == 2);
        client.shutdown(Shutdown::Write).expect("an end");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("an answer");
        assert_eq!(answer.len(), BIG + 5);
    });
}

#[test]
fn every_strategy_answers_jobs_as_they_end() {
    on_every_strategy(|shared, address, is_blocking| {
        let mut client = TcpStream::connect(address).expect("a connection");
        client.write_all(b"hold 1\nhold 2\n").expect("a send");
        let mut answers = [0; 4];
        if is_blocking {
            // A thread of its own runs them one after the other.
            shared.open(1);
            shared.open(2);
            client.read_exact(&mut answers).expect("both answers");
            assert!(matches!(&answers, b"1\n2\n" | b"2\n1\n"));
        } else {
            shared.open(1);
            client.read_exact(&mut answers[..2]).expect("the first answer");
            shared.open(2);
            client.read_exact(&mut answers[2..]).expect("the second answer");
            assert_eq!(&answers, b"1\n2\n");
        }
        client.shutdown(Shutdown::Write).expect("an end");
    });
}
