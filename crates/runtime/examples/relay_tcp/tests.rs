//! The relay in the simulator and under every driver that can dial.

use super::*;
use runtime::sim::{Client, Sim};
use runtime::strategy::Handle;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;

/// Nothing here takes so long on a machine that works.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
/// More than the kernel's buffers of four sockets hold.
const BIG: usize = 64 << 20;

fn tcp(port: u16) -> Upstream {
    Upstream::Tcp(SocketAddr::from(([127, 0, 0, 1], port)))
}

fn relay(upstream: Upstream) -> Relay {
    Relay {
        upstream: Arc::new(upstream),
        dialing: Dialing::default(),
    }
}

/// A client of a relay, and its upstream, which has not answered.
fn dialed() -> (Sim<Relay>, Client, Client) {
    let mut sim = Sim::new(relay(tcp(80)));
    let client = sim.connect_local();
    let (upstream, to) = sim.next_dial().expect("the session dials");
    assert_eq!(to, tcp(80));
    assert!(sim.next_dial().is_none(), "once");
    (sim, client, upstream)
}

fn joined() -> (Sim<Relay>, Client, Client) {
    let (mut sim, client, upstream) = dialed();
    sim.answer(upstream);
    (sim, client, upstream)
}

#[test]
fn bytes_go_both_ways_and_each_half_closes_on_its_own() {
    for client_ends_first in [true, false] {
        let (mut sim, client, upstream) = dialed();
        sim.send(client, b"early ");
        assert_eq!(sim.received(upstream), b"", "there is no upstream yet");
        sim.answer(upstream);
        sim.send(client, b"question");
        assert_eq!(sim.take_received(upstream), b"early question");
        sim.send(upstream, b"answer");
        assert_eq!(sim.take_received(client), b"answer");
        let (first, second) = match client_ends_first {
            true => (client, upstream),
            false => (upstream, client),
        };
        sim.finish(first);
        assert!(sim.is_finished(second) && !sim.is_closed(second));
        assert!(!sim.is_finished(first));
        sim.send(second, b"and more");
        assert_eq!(sim.take_received(first), b"and more");
        sim.finish(second);
        for end in [client, upstream] {
            assert!(sim.is_closed(end) && !sim.was_reset(end));
        }
        assert_eq!(sim.open(), 0);
    }
}

#[test]
fn an_upstream_that_refuses_or_does_not_answer_costs_the_client_its_connection() {
    let (mut sim, client, upstream) = dialed();
    sim.refuse(upstream, libc::ECONNREFUSED);
    assert!(sim.was_reset(client));

    let (mut sim, client, upstream) = dialed();
    sim.advance(Dialing::default().connect_time_max - Duration::from_millis(1));
    assert!(!sim.is_closed(client));
    sim.advance(Duration::from_millis(2));
    assert!(sim.was_reset(client) && sim.is_closed(upstream));
    sim.answer(upstream);
    assert!(sim.is_closed(upstream), "too late");
}

#[test]
fn a_reset_of_one_side_resets_the_other() {
    let (mut sim, client, upstream) = joined();
    sim.send(upstream, b"half of it");
    sim.reset(upstream);
    assert_eq!(sim.take_received(client), b"half of it");
    assert!(sim.was_reset(client));

    let (mut sim, client, upstream) = joined();
    sim.send(client, b"half of it");
    sim.reset(client);
    assert_eq!(sim.take_received(upstream), b"half of it");
    assert!(sim.was_reset(upstream));
}

#[test]
fn whoever_is_slow_slows_the_other_side_down_and_the_relay_keeps_two_receives_at_most() {
    for is_client_slow in [true, false] {
        let (mut sim, client, upstream) = joined();
        let (slow, fast) = match is_client_slow {
            true => (client, upstream),
            false => (upstream, client),
        };
        sim.stop_reading_after(slow, 10);
        let sent: Vec<u8> = (0..1_000u32 << 14).map(|at| (at / 1_000) as u8).collect();
        sim.queue(fast, &sent);
        let pieces = sim.unreceived(fast);
        assert_eq!(pieces, 1_000);
        sim.settle();
        assert!(sim.unreceived(fast) >= pieces - 2, "{}", sim.unreceived(fast));
        assert_eq!(sim.received(slow).len(), 10);
        sim.read_on(slow);
        assert!(sim.take_received(slow) == sent);
    }
}

/// Every strategy that can run here, without the one whose sessions cannot dial before their first input.
fn strategies() -> Vec<Strategy> {
    let there = |&(_, io): &(_, Io)| {
        let is_there = io != Io::Uring || runtime::strategy::try_uring().is_ok();
        if !is_there {
            println!("skipped: io_uring is not there or refused");
        }
        is_there
    };
    let strategy = |(concurrency, io)| {
        let workers = match concurrency {
            Concurrency::Loop => NonZeroUsize::MIN,
            _ => NonZeroUsize::MIN.saturating_add(1),
        };
        Strategy::new(concurrency, io, workers).expect("a strategy")
    };
    let all = runtime::strategy::COMBINATIONS.into_iter().filter(there);
    all.filter(|(concurrency, _)| *concurrency != Concurrency::ThreadPerRequest)
        .map(strategy)
        .collect()
}

struct Running(SocketAddr, Option<Handle>);

impl Running {
    fn start(strategy: Strategy, relay: Relay) -> Running {
        let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0)).into(), Listening::default());
        let listener = listener.expect("a port");
        let address = listener.address().tcp().expect("TCP");
        let handle = serve(strategy, &[listener], &Arc::new(relay), Limits::default()).expect("workers");
        Running(address, Some(handle))
    }

    /// A connection that has sent this.
    fn connect(&self, first: &[u8]) -> TcpStream {
        let mut client = TcpStream::connect(self.0).expect("a connection");
        patient(&client);
        client.write_all(first).expect("a send");
        client
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(handle) = self.1.take() {
            handle.stop();
            handle.join().expect("workers that end well");
        }
    }
}

fn patient(socket: &TcpStream) {
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    socket.set_write_timeout(Some(PATIENCE)).expect("set");
}

/// A relay, a client of it and the upstream's end of the connection.
fn connected(strategy: Strategy) -> (Running, TcpStream, TcpStream) {
    let upstream = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = upstream.local_addr().expect("bound");
    let running = Running::start(strategy, relay(Upstream::Tcp(address)));
    let client = running.connect(b"hello");
    let (mut far, _) = upstream.accept().expect("the relay connects");
    patient(&far);
    let mut hello = [0; 5];
    far.read_exact(&mut hello).expect("the relay sends");
    assert_eq!(&hello, b"hello");
    (running, client, far)
}

fn rest(mut of: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    of.read_to_end(&mut bytes).expect("an orderly end");
    bytes
}

/// Reads until the reset.
fn is_reset(mut socket: TcpStream) -> bool {
    let mut bytes = Vec::new();
    let ended = socket.read_to_end(&mut bytes);
    ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

#[test]
fn over_sockets_each_half_closes_on_its_own() {
    for strategy in strategies() {
        let (_running, mut client, mut far) = connected(strategy);
        client.write_all(b" and end").expect("a send");
        client.shutdown(Shutdown::Write).expect("an end");
        assert_eq!(rest(&far), b" and end", "{strategy:?}");
        far.write_all(b"answer").expect("a send");
        drop(far);
        assert_eq!(rest(&client), b"answer", "{strategy:?}");

        let (_running, mut client, mut far) = connected(strategy);
        far.write_all(b"all of it").expect("a send");
        far.shutdown(Shutdown::Write).expect("an end");
        assert_eq!(rest(&client), b"all of it", "{strategy:?}");
        client.write_all(b"thanks").expect("a send");
        drop(client);
        assert_eq!(rest(&far), b"thanks", "{strategy:?}");
    }
}

#[test]
fn over_sockets_an_upstream_can_be_a_path() {
    let directory = tempfile::tempdir().expect("a directory");
    for (number, strategy) in strategies().into_iter().enumerate() {
        let path = directory.path().join(number.to_string());
        let upstream = UnixListener::bind(&path).expect("a socket");
        let running = Running::start(strategy, relay(Upstream::Unix(path)));
        let client = running.connect(b"hello");
        client.shutdown(Shutdown::Write).expect("an end");
        let (mut far, _) = upstream.accept().expect("the relay connects");
        assert_eq!(rest(&far), b"hello", "{strategy:?}");
        far.write_all(b"answer").expect("a send");
        drop(far);
        assert_eq!(rest(&client), b"answer", "{strategy:?}");
    }
}

#[test]
fn over_sockets_a_refusal_and_a_reset_reach_the_other_side() {
    for strategy in strategies() {
        let (_held, address) = refusing();
        let nobody = Upstream::Tcp(address);
        let missing = Upstream::Unix("/nonexistent/socket".into());
        for upstream in [nobody, missing] {
            let running = Running::start(strategy, relay(upstream));
            assert!(is_reset(running.connect(b"hello")), "{strategy:?}");
        }

        let (_running, client, far) = connected(strategy);
        reset(far);
        assert!(is_reset(client), "{strategy:?}");

        let (_running, client, far) = connected(strategy);
        reset(client);
        assert!(is_reset(far), "{strategy:?}");
    }
}

/// A port at which nobody listens. The socket keeps it: a free port would be another test's listener at times.
fn refusing() -> (socket2::Socket, SocketAddr) {
    let held = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    held.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .expect("a port");
    let address = held.local_addr().expect("bound");
    (held, address.as_socket().expect("an address of IP"))
}

/// Closes a socket with a reset instead of an end (`SO_LINGER` of zero, socket(7)).
fn reset(socket: TcpStream) {
    let linger = rustix::net::sockopt::set_socket_linger(&socket, Some(std::time::Duration::ZERO));
    linger.expect("set");
}

#[test]
fn over_sockets_a_client_that_reads_nothing_stops_its_upstream() {
    for strategy in strategies() {
        let (_running, client, mut far) = connected(strategy);
        far.set_nonblocking(true).expect("set");
        let (block, mut sent) = (vec![b'x'; 1 << 16], 0);
        // Until nothing more goes for a second: all buffers on the way are full.
        loop {
            match far.write(&block) {
                Ok(bytes) => sent += bytes,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{strategy:?}");
                    let mut wait = [rustix::event::PollFd::new(&far, rustix::event::PollFlags::OUT)];
                    let second = rustix::event::Timespec {
                        tv_sec: 1,
                        tv_nsec: 0,
                    };
                    if rustix::event::poll(&mut wait, Some(&second)).expect("waited") == 0 {
                        break;
                    }
                }
            }
            assert!(
                sent < BIG,
                "{strategy:?}: the relay holds what the client does not read"
            );
        }
        far.shutdown(Shutdown::Write).expect("an end");
        assert_eq!(rest(&client).len(), sent, "{strategy:?}");
    }
}

/// A listener whose accept queue is full: it answers no further SYN (Linux).
fn silent() -> (TcpListener, Vec<socket2::Socket>) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket
        .bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())
        .expect("a port");
    socket.listen(0).expect("a queue of one");
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().expect("bound").into();
    let mut waiting = Vec::new();
    loop {
        let one = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        let connected = one.connect_timeout(&address, std::time::Duration::from_millis(200));
        waiting.push(one);
        assert!(waiting.len() < 10, "the queue does not fill up");
        if connected.is_err() {
            return (listener, waiting);
        }
    }
}

#[test]
fn over_sockets_an_upstream_that_does_not_answer_is_given_up() {
    for strategy in strategies() {
        let (upstream, _waiting) = silent();
        let service = Relay {
            dialing: Dialing {
                connect_time_max: Duration::from_millis(300),
                ..Dialing::default()
            },
            ..relay(Upstream::Tcp(upstream.local_addr().expect("bound")))
        };
        let running = Running::start(strategy, service);
        let asked = std::time::Instant::now();
        // It sends nothing, so that an orderly end and a reset are told apart by the error alone.
        assert!(is_reset(running.connect(b"")), "{strategy:?}");
        let took = asked.elapsed();
        assert!(
            took >= std::time::Duration::from_millis(300),
            "{strategy:?}: {took:?}"
        );
    }
}

#[test]
fn a_session_without_a_thread_is_told_that_it_cannot_dial() {
    let upstream = TcpListener::bind("127.0.0.1:0").expect("a port");
    let strategy = Strategy::new(Concurrency::ThreadPerRequest, Io::Blocking, NonZeroUsize::MIN);
    let service = relay(Upstream::Tcp(upstream.local_addr().expect("bound")));
    let running = Running::start(strategy.expect("a combination"), service);
    assert!(is_reset(running.connect(b"")));
    upstream.set_nonblocking(true).expect("set");
    assert_eq!(
        upstream.accept().expect_err("nobody came").kind(),
        ErrorKind::WouldBlock
    );
}
